//! What a host is. [`Facts`] is everything a plan needs to know of it, as values: `gpusetup facts --json` prints exactly
//! this, and a plan can be made from such a file anywhere. The probes beside this file fill it from a [`System`]; they
//! change nothing, need neither root nor a network, and say what they could not read.

mod add_on;
mod assumed;
mod compiler;
mod driver;
mod elf;
mod gpu;
mod graphics;
mod holders;
mod installed;
mod kernel;
mod kernel_module;
mod libraries;
mod loader;
mod lspci;
mod machine;
mod modules;
mod offered;
mod openpgp;
mod os;
mod pci;
mod probe;
mod reader;
mod repositories;
mod secure_boot;
mod system;
mod toolkit;

pub use add_on::soname;
pub use assumed::{SpecError, assumed_gpus};
pub use elf::{c_library_version, machine as elf_machine, needed_c_library, text as elf_text};
pub use holders::{Holder, holders};
pub use offered::{add_offers, kernel_headers, offered, offered_by, offers_headers};
pub use openpgp::{PublicKey, public_keys};
pub use probe::{GpuSource, Look, NotAHost, probe};
pub use system::SystemId;
pub use toolkit::version_file;

use crate::compat::{AddOnId, InitramfsTool, ModuleFlavour, PackageManager, PciDevice};
use crate::system::{Node, Space};
use crate::version::{AddOnVersion, ComputeCapability, CudaVersion, DriverVersion};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Drivers of the kernel that would take an NVIDIA GPU before NVIDIA's own.
pub const RIVALS: [&str; 3] = ["nouveau", "nova_core", "nova_drm"];

/// The schema that [`Facts`] is printed in.
pub const SCHEMA: &str = "gpusetup.facts/1";

/// Everything gpusetup knows of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Facts {
    /// The name and version of this format.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = SCHEMA)))]
    pub schema: String,
    /// The version of gpusetup that looked.
    pub tool: String,
    /// What kind of machine it is.
    pub machine: Machine,
    /// The operating system, by its os-release.
    pub os: Os,
    /// NVIDIA GPUs, by bus address.
    pub gpus: Vec<Gpu>,
    /// NVSwitch bridges, by bus address, or what manages those that are no bridges.
    pub nvswitches: Vec<NvSwitch>,
    /// The installed kernels, the running one and the next one.
    pub kernels: Kernels,
    /// The gcc that `cc` or `gcc` is, `12.2.0`.
    pub gcc: Option<String>,
    /// Every gcc in `/usr/bin`, the default one and those that are called by their version. Facts that an older gpusetup
    /// took name none.
    #[serde(default)]
    pub compilers: Vec<Compiler>,
    /// The C library, `2.36`.
    pub glibc: Option<String>,
    /// What shows that the host has a desktop: a file of its display manager, X server or Wayland compositor.
    #[serde(default)]
    pub desktop: Option<PathBuf>,
    /// Whether the firmware lets only signed code run.
    pub secure_boot: SecureBoot,
    /// The key that modules built here are signed with, where only signed ones load.
    #[serde(default)]
    pub signing_key: Option<SigningKey>,
    /// Kernel modules loaded that matter here: nvidia's, nouveau, nova, vfio-pci. None where that cannot be read or means
    /// nothing (a tree that is not running).
    pub loaded_modules: Option<Vec<LoadedModule>>,
    /// The driver that is installed.
    pub driver: Option<InstalledDriver>,
    /// Other drivers found beside `driver`: a mixed install.
    pub other_drivers: Vec<InstalledDriver>,
    /// Toolkits below the prefix, oldest first.
    pub toolkits: Vec<Toolkit>,
    /// cuDNN libraries in toolkits and in the system's library directories.
    pub cudnn: Vec<AddOnFiles>,
    /// The same of other add-ons. Facts of a gpusetup that did not look have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_ons: Vec<AddOnFiles>,
    /// The nvcc that a login shell with a plain PATH finds.
    pub nvcc: Option<PathBuf>,
    /// What matters here of the loader's cache, `/etc/ld.so.cache`.
    pub loader_cache: Option<LoaderCache>,
    /// Whether libxml2.so.2 is there, which the installer in CUDA's runfiles loads. None in facts of a gpusetup that did not look.
    #[serde(default)]
    pub libxml2: Option<bool>,
    /// Enabled package repositories, one line each: address, suite and components.
    pub repositories: Vec<String>,
    /// Packages that the package manager began and did not come to the end with.
    #[serde(default)]
    pub unfinished_packages: Vec<String>,
    /// Driver packages that these offer, each with the version that would be installed; none if that is not known.
    #[serde(default)]
    pub offered: Option<BTreeMap<String, String>>,
    /// Room where gpusetup would need it: the cache, the prefix, `/boot`, `/usr`, `/var`.
    pub space: Vec<Space>,
    /// What stands at the paths that gpusetup may write.
    pub paths: BTreeMap<PathBuf, PathState>,
    /// What could not be read, and why.
    pub unreadable: Vec<Unreadable>,
}

/// A gcc in `/usr/bin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Compiler {
    /// The major version of gcc.
    pub major: u16,
    /// What it is called by: `/usr/bin/gcc`, `/usr/bin/gcc-13`.
    pub gcc: PathBuf,
    /// What its C++ compiler is called by, where that and its library's headers are there. nvcc compiles C++ only, which
    /// gcc alone cannot.
    pub gxx: Option<PathBuf>,
}

/// The machine, and what it runs in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Machine {
    /// As `uname -m` says it: `x86_64`, `aarch64`, `ppc64le`.
    pub arch: String,
    /// What kind of machine it is.
    pub kind: MachineKind,
    /// The hypervisor or container manager, where it shows (`kvm`, `docker`).
    pub inside: Option<String>,
    /// The facts are of a tree below another root, not of a running system.
    pub is_tree: bool,
    /// Tells one boot from the next; none for a tree.
    pub boot_id: Option<String>,
}

/// Kinds of machine that differ in what may be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum MachineKind {
    /// Its own kernel, bare metal as far as can be seen.
    Physical,
    /// Its own kernel, under a hypervisor.
    Virtual,
    /// Somebody else's kernel.
    Container,
    /// Windows' kernel and Windows' driver.
    Wsl2,
    /// An embedded board whose driver comes with its board support package.
    Jetson,
}

/// An operating system, by its os-release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Os {
    /// `ID` in os-release: `ubuntu`, `debian`, `rocky`.
    pub id: String,
    /// `VERSION_ID` in os-release, empty for rolling releases.
    pub version: String,
    /// `ID_LIKE` in os-release, nearest relative first.
    pub like: Vec<String>,
    /// `PRETTY_NAME` in os-release.
    pub name: String,
    /// The package manager found.
    pub package_manager: Option<PackageManager>,
    /// The initramfs tool found.
    pub initramfs: Option<InitramfsTool>,
    /// `/usr` is managed as an image (ostree and the like).
    pub immutable: bool,
}

/// A GPU on the bus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Gpu {
    /// Bus address, `0000:17:00.0`; an assumed GPU has `assumed:0`.
    pub address: String,
    /// `10de:20b2`; empty for an assumed GPU that was given by its compute capability.
    #[cfg_attr(feature = "schemas", schemars(regex(pattern = r"^(10de:[0-9a-f]{4})?$")))]
    pub pci_id: String,
    /// `10de:1463`, where it could be read.
    pub subsystem: Option<String>,
    /// PCI class, `0302`.
    #[cfg_attr(feature = "schemas", schemars(regex(pattern = r"^03[0-9a-f]{2}$")))]
    pub class: String,
    /// The kernel driver bound to it: `nouveau`, `nova_core`, `nvidia`, `vfio-pci`.
    pub bound_to: Option<String>,
    /// Which driver that is was not to be seen: `lspci` shows it with `-k` only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub driver_unseen: bool,
    /// What the database calls it; none for an unknown one.
    pub name: Option<String>,
    /// What the database says it can run.
    pub compute_capability: Option<ComputeCapability>,
    /// It is not there; `--gpu` asked to plan as if it were.
    pub assumed: bool,
}

/// A bridge between GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct NvSwitch {
    /// The bus address, `0000:c4:00.0`.
    pub address: String,
    /// `10de:22a3`; `15b3:1021` of a network function that manages switches which are not on the bus.
    #[cfg_attr(feature = "schemas", schemars(regex(pattern = r"^(10de|15b3):[0-9a-f]{4}$")))]
    pub pci_id: String,
    /// What the database calls it.
    pub name: Option<String>,
}

/// The kernels of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Kernels {
    /// The one running; none for a tree.
    pub running: Option<String>,
    /// The one that boots next: the newest installed, where the boot loader does not say otherwise.
    pub next_boot: Option<String>,
    /// Those installed, oldest first.
    pub installed: Vec<Kernel>,
}

/// An installed kernel: a directory of modules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Kernel {
    /// As `uname -r` says it.
    pub release: String,
    /// Its headers are there, complete enough to build a module.
    pub headers: bool,
    /// The compiler it was built with, as its configuration names it: `gcc-12 (Debian 12.2.0-14) 12.2.0`.
    pub compiler: Option<String>,
    /// The version of the nvidia module it has.
    pub nvidia_module: Option<DriverVersion>,
    /// The initramfs image of the kernel.
    pub initramfs: Option<Initramfs>,
}

/// An initramfs image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Initramfs {
    /// The path of the image.
    pub path: PathBuf,
    /// The size in bytes.
    pub size: u64,
    /// When it was written, in seconds since 1970.
    pub modified: i64,
}

/// Whether the firmware lets only signed code run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SecureBoot {
    /// Only signed modules load.
    Enabled,
    /// Unsigned modules load.
    Disabled,
    /// No UEFI: unsigned modules load.
    Absent,
    /// It could not be read; `unreadable` says why.
    Unknown,
}

/// A key for modules that are built on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct SigningKey {
    /// The certificate of the key.
    pub path: PathBuf,
    /// The firmware or shim knows it: what is signed with it loads.
    pub enrolled: bool,
}

/// A kernel module in the kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct LoadedModule {
    /// The name of the module, with underscores.
    pub name: String,
    /// The version of the module, if it has one.
    pub version: Option<String>,
}

/// Who put something on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A Debian package.
    Dpkg,
    /// An RPM package.
    Rpm,
    /// NVIDIA's runfile, by its log or its uninstaller.
    Runfile,
    /// gpusetup, from NVIDIA's component archives.
    Archives,
    /// Unknown: no package and no installer claims it.
    Unknown,
}

/// A driver on the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct InstalledDriver {
    /// The version, by the user-space library or the package.
    pub version: DriverVersion,
    /// Who put it there.
    pub origin: Origin,
    /// The flavour of its kernel modules, where it shows.
    pub modules: Option<ModuleFlavour>,
    /// How this was found: a file, a package.
    pub evidence: String,
    /// Its libraries lie in a directory that Debian's alternatives choose, beside others. None in facts that an older
    /// gpusetup took.
    #[serde(default)]
    pub alternative: Option<bool>,
}

/// A CUDA toolkit on the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Toolkit {
    /// The series, or the release where it shows (version.json; `nvcc` of a package).
    pub version: CudaVersion,
    /// Its directory, links resolved.
    pub path: PathBuf,
    /// Who put it there.
    pub origin: Origin,
    /// Its nvcc is there and can be executed.
    pub has_nvcc: bool,
    /// Of one that was put together of component archives: which, by NVIDIA's names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub components: Option<Vec<String>>,
}

/// The libraries of an add-on in one directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct AddOnFiles {
    /// The add-on, `nccl`; without it, cuDNN.
    #[serde(default = "cudnn", skip_serializing_if = "is_cudnn")]
    pub add_on: AddOnId,
    /// By the file names, else by the header.
    pub version: Option<AddOnVersion>,
    /// The directory, links resolved.
    pub directory: PathBuf,
    /// Who put it there.
    pub origin: Origin,
    /// The header found beside it.
    pub header: Option<PathBuf>,
    /// Its shared libraries and the links to them, by name: for cuDNN every `libcudnn*.so*`.
    pub files: Vec<LibraryFile>,
}

fn cudnn() -> AddOnId {
    AddOnId::CUDNN
}

fn is_cudnn(id: &AddOnId) -> bool {
    *id == AddOnId::CUDNN
}

/// A shared library's file, or a link to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct LibraryFile {
    /// The name of the file.
    pub name: String,
    /// The target, if it is a link.
    pub link: Option<PathBuf>,
    /// The SONAME in the ELF file that it is or leads to; none for a broken link or no ELF file.
    pub soname: Option<String>,
    /// Bytes of the file itself; 0 for a link.
    pub size: u64,
    /// The SHA-256, given only where two regular files of one size might be copies of each other.
    #[cfg_attr(feature = "schemas", schemars(with = "Option<crate::sum::Sha256Text>"))]
    pub sha256: Option<String>,
}

/// What matters here of the loader's cache, `/etc/ld.so.cache`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct LoaderCache {
    /// When it was written, in seconds since 1970.
    pub modified: i64,
    /// Entries that matter here (libcuda, libnvidia-ml, libcudart, libcudnn…): SONAME and path, in the loader's order.
    pub entries: Vec<(String, PathBuf)>,
}

/// What stands at a path, and since when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct PathState {
    /// What is at the path.
    #[serde(flatten)]
    pub node: Node,
    /// When it was written, in seconds since 1970.
    pub modified: Option<i64>,
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(from = "UnreadableInFile")]
pub struct Unreadable {
    /// What could not be read.
    pub what: String,
    /// Why it could not be read.
    pub why: String,
    /// What is missing among the GPUs, if that is it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
}

/// What is missing among the GPUs. That is not the same as having none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// All of them.
    Gpus,
    /// One in an lspci listing that cannot be told from others.
    ListedGpu,
}

/// As it is in a file of facts.
#[derive(Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(deny_unknown_fields)]
struct UnreadableInFile {
    what: String,
    why: String,
    missing: Option<Missing>,
}

impl From<UnreadableInFile> for Unreadable {
    fn from(UnreadableInFile { what, why, missing }: UnreadableInFile) -> Self {
        // Facts that an older gpusetup took have the sentence only.
        let older = || [Missing::Gpus, Missing::ListedGpu].into_iter().find(|missing| missing.what() == what);
        Self { missing: missing.or_else(older), what, why }
    }
}

impl Missing {
    /// It, as [`Unreadable::what`] names it.
    fn what(self) -> &'static str {
        match self {
            Self::Gpus => "the GPUs",
            Self::ListedGpu => "a GPU in the lspci text",
        }
    }
}

impl Unreadable {
    /// What is missing among the GPUs.
    pub fn gpus(missing: Missing, why: impl ToString) -> Self {
        Self { what: missing.what().to_owned(), why: why.to_string(), missing: Some(missing) }
    }
}

impl Kernel {
    /// The major version of the gcc it was built with; none where it was another compiler, or does not show.
    pub fn gcc_major(&self) -> Option<u16> {
        // `gcc-12 (Debian 12.2.0-14) 12.2.0`, `x86_64-linux-gnu-gcc-13 (Ubuntu …) 13.2.0`, `gcc (GCC) 11.4.1 …`.
        let text = self.compiler.as_deref().filter(|t| t.contains("gcc") || t.contains("GCC"))?;
        let is_version = |w: &&str| w.starts_with(|c: char| c.is_ascii_digit()) && w.contains('.');
        text.split_whitespace().rev().find(is_version)?.split('.').next()?.parse().ok()
    }
}

impl Gpu {
    /// The device half of its PCI id.
    pub fn device(&self) -> Option<PciDevice> {
        u16::from_str_radix(self.pci_id.strip_prefix("10de:")?, 16).ok().map(PciDevice)
    }
}

impl Facts {
    /// Whether the host was looked at and has no NVIDIA GPU. A tree without /sys, WSL2 and a Jetson do not show theirs on the bus,
    /// and a line of lspci may lack the numbers: there it is not known.
    pub fn has_no_gpu(&self) -> bool {
        let unseen = self.machine.kind == MachineKind::Jetson || self.unreadable.iter().any(|u| u.missing.is_some());
        self.gpus.is_empty() && !unseen
    }

    /// The lines of an lspci listing that name an NVIDIA GPU without its numbers.
    pub fn unreadable_gpus(&self) -> impl Iterator<Item = &Unreadable> {
        self.unreadable.iter().filter(|u| u.missing == Some(Missing::ListedGpu))
    }

    /// Whether a repository is enabled that any of these marks means (`seen_as` of the database).
    pub fn has_enabled(&self, marks: &[String]) -> bool {
        let meant =
            |line: &String| marks.iter().any(|mark| crate::packages::is_meant(line, mark, self.os.package_manager));
        self.repositories.iter().any(meant)
    }

    /// The libraries of all add-ons.
    pub fn add_on_files(&self) -> impl Iterator<Item = &AddOnFiles> {
        self.cudnn.iter().chain(&self.add_ons)
    }

    /// The libraries of an add-on.
    pub fn files_of(&self, add_on: AddOnId) -> impl Iterator<Item = &AddOnFiles> {
        self.add_on_files().filter(move |files| files.add_on == add_on)
    }

    /// The major version of the default gcc.
    pub fn gcc_major(&self) -> Option<u16> {
        self.gcc.as_deref()?.split('.').next()?.parse().ok()
    }

    /// The compiler that is called `gcc`.
    pub fn default_compiler(&self) -> Option<&Compiler> {
        self.compilers.iter().find(|c| c.gcc.ends_with("gcc"))
    }

    /// A compiler of this major version that compiles C++ too, called by its number.
    pub fn side_compiler(&self, major: u16) -> Option<&Compiler> {
        self.compilers.iter().find(|c| c.major == major && c.gxx.is_some() && !c.gcc.ends_with("gcc"))
    }

    /// The major version of the gcc that the kernel was built with. Where nothing else tells the distribution's default
    /// gcc, this does.
    pub fn kernels_gcc(&self) -> Option<u16> {
        let release = self.kernel()?;
        self.kernels.installed.iter().find(|k| k.release == release)?.gcc_major()
    }

    /// With every text in one line and plain in a terminal: a host's files, and a file of facts, may say anything.
    pub fn visible(self) -> Self {
        crate::text::made_visible(self)
    }

    /// A kernel whose name is none. Kernels' names stand in commands that people copy into a shell.
    pub fn unlikely_kernel(&self) -> Option<&str> {
        let kernels = &self.kernels;
        let mut all = kernels.installed.iter().map(|k| &k.release).chain(&kernels.running).chain(&kernels.next_boot);
        all.find(|name| !kernel::is_likely(name)).map(String::as_str)
    }

    /// The kernel whose modules matter: the one that will run, which is the next to boot, else the running one.
    pub fn kernel(&self) -> Option<&str> {
        self.kernels.next_boot.as_deref().or(self.kernels.running.as_deref())
    }

    /// What stands at `path`, of those looked at.
    pub fn node(&self, path: &std::path::Path) -> Option<&Node> {
        self.paths.get(path).map(|p| &p.node)
    }
}

/// Reads a text as each program's whose answers are read here.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    crate::packages::read_anything(text);
}
