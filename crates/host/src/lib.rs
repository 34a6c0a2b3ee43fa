//! The facts of a host. [`Facts`] holds everything a plan needs to know about it: `gpusetup facts
//! --json` prints exactly this, and a plan can be made from such a file on any machine. The probes
//! in this module fill it from a [`System`]. They change nothing, need neither root nor a network,
//! and report what they could not read.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod add_on;
mod architecture;
mod assumed;
mod companion;
mod compiler;
mod driver;
mod elf;
mod engines;
pub mod firmware;
mod gpu;
mod gpu_state;
mod graphics;
mod holders;
mod installed;
mod kernel;
mod kernel_module;
mod libraries;
mod loader;
mod lspci;
mod machine;
pub mod modprobe;
mod modules;
mod offered;
mod openpgp;
mod os;
mod path_files;
mod pci;
mod probe;
mod rdma;
mod reader;
mod repositories;
#[cfg(any(test, feature = "samples"))]
pub mod sample;
mod secure_boot;
mod stock;
mod system;
mod thunderbolt;
mod toolkit;

pub use add_on::soname;
pub use architecture::{UNKNOWN_ARCHITECTURE, machine};
pub use assumed::{SpecError, architecture_of, assumed_gpus, known_gpu, of_capability};
pub use elf::{
    Dynamic, c_library_version, dynamic as elf_dynamic, machine as elf_machine, needed_c_library,
    text as elf_text,
};
pub use engines::{
    BrokenConfig, CdiSpec, CdiSpecification, ConfigFile, ContainerHost, FileEdit, GpuAccess,
    InstalledEngine, NVIDIA_RUNTIME, NvidiaRuntime, Original, Restored, Seen, Target, cdi_specs,
    config_restored, container_host, form_of, is_nvidia_runtime, lines_with_first,
    misnamed_cdi_specs, packaged_version, program_exists, restored, runtimes_by_file,
    toml_document, undefined_default,
};

pub use firmware::{Enrolment, Firmware};

pub use gpu_state::{STATES_KEY, gpu_states, states_at_boot};
pub use holders::{Holder, holders, holders_and_displays, kernel_drives_displays};
pub use kernel::compare as compare_kernels;
pub use libraries::directories as library_directories;
pub use lspci::{bus_address, devices_named};
pub use modprobe::{ModuleBlock, SetOption, driver_module};
pub use offered::{add_offers, kernel_headers, offered_by, offers_headers, signed_drivers};

pub use openpgp::{PublicKey, armoured, certificates, public_keys, without_unbound};
pub use path_files::{MODULE_MARK, PathFile, PathFiles, Syntax};
pub use probe::{
    GpuSource, NotAHost, ProbeOptions, RepositoryFiles, RepositoryUse, probe, repository_files,
    repository_notes,
};
pub use reader::add_left_out;
pub use stock::{StockError, USUAL_ARCHITECTURE, assumptions, named as system_named, stock};
pub use system::SystemId;
pub use toolkit::version_file;

use gpusetup_database::compat::{
    AddOnId, CompanionId, Distribution, InitramfsTool, ModuleFlavour, PackageManager, PciDevice,
};
use gpusetup_database::version::{AddOnVersion, ComputeCapability, CudaVersion, DriverVersion};
use gpusetup_nvidia::{DeviceReadings, DeviceState, MigHost};
use gpusetup_system::limits::Limit;
use gpusetup_system::{Node, Space};
use gpusetup_text::text::{quoted, quoted_at_start};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Kernel drivers that may claim an NVIDIA GPU before NVIDIA's own does.
pub const RIVALS: [&str; 3] = ["nouveau", "nova_core", "nova_drm"];

/// The schema that [`Facts`] is printed in.
pub const SCHEMA: &str = "gpusetup.facts/1";

/// Everything gpusetup knows of a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Facts {
    /// The name and version of this format.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = SCHEMA)))]
    pub schema: String,
    /// The version of gpusetup that collected the facts.
    pub tool: String,
    /// The kind of machine.
    pub machine: Machine,
    /// The operating system, from os-release.
    pub os: Os,
    /// NVIDIA GPUs, by bus address.
    pub gpus: Vec<Gpu>,
    /// Display controllers of other vendors, by bus address: on a laptop, the one in its processor.
    /// Empty in facts of older gpusetup versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_gpus: Vec<OtherGpu>,
    /// The bus addresses of the GPUs that are outside the case, on Thunderbolt or USB4.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_gpus: Vec<String>,
    /// Connected Thunderbolt and USB4 devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thunderbolt: Vec<ThunderboltDevice>,
    /// NVSwitch bridges, by bus address, or the functions that manage switches that are not on the
    /// bus.
    pub nvswitches: Vec<NvSwitch>,
    /// Its RDMA adapters; none if it has none. None in facts of older gpusetup versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma: Option<Rdma>,
    /// The installed kernels, the running one and the next to boot.
    pub kernels: Kernels,
    /// The version of the gcc that `cc` or `gcc` leads to, `12.2.0`.
    pub gcc: Option<String>,
    /// Every gcc in `/usr/bin`: the default one and those with a version in their name. Empty in
    /// facts of older gpusetup versions.
    #[serde(default)]
    pub compilers: Vec<Compiler>,
    /// The version of the C library, `2.36`.
    pub glibc: Option<String>,
    /// The Python of the system's `python3`; without one, that of the package that brings it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<AddOnVersion>,
    /// Evidence of a desktop: a file of its display manager, X server or Wayland compositor.
    #[serde(default)]
    pub desktop: Option<PathBuf>,
    /// The state of Secure Boot.
    pub secure_boot: SecureBoot,
    /// The key that signs the modules built here, if only signed ones load.
    #[serde(default)]
    pub signing_key: Option<SigningKey>,
    /// Every such key that was found. Empty in facts of older gpusetup versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signing_keys: Vec<SigningKey>,
    /// What the firmware and shim trust. None without UEFI, and in facts of older gpusetup
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<Firmware>,
    /// The loaded kernel modules that matter here: nvidia's, nouveau, nova, vfio-pci. None if they
    /// cannot be read, or for a tree, which has no running kernel.
    pub loaded_modules: Option<Vec<LoadedModule>>,
    /// What keeps the driver's own modules from being loaded: lines of modprobe's configuration and
    /// of the kernel's command line. Empty in facts of older gpusetup versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_modules: Vec<ModuleBlock>,
    /// Options of the driver's modules in modprobe's configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub module_options: Vec<SetOption>,
    /// Whether the package manager holds every installed package of the kernel and the driver
    /// (true), or none (false). None if that differs between them, or is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates_held: Option<bool>,
    /// The states of the GPUs that gpusetup's unit sets at each boot. None without that unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states_at_boot: Option<Vec<DeviceState>>,
    /// What the GPUs report about pieces of their state; read only for a plan that sets them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_states: Vec<DeviceReadings>,
    /// How the GPUs are partitioned, as their driver reports it; asked only for a plan that
    /// partitions them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<MigHost>,
    /// Container engines and the toolkit that gives their containers GPUs; read only for a plan
    /// that sets them up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_host: Option<ContainerHost>,
    /// The installed driver.
    pub driver: Option<InstalledDriver>,
    /// Other drivers found besides `driver`: a mixed install.
    pub other_drivers: Vec<InstalledDriver>,
    /// Companions of the driver that are installed, such as Fabric Manager. Empty in facts of older
    /// gpusetup versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub companions: Vec<InstalledCompanion>,
    /// Toolkits below the prefix, oldest first.
    pub toolkits: Vec<Toolkit>,
    /// The toolkits among which the system's alternatives choose the default, by their directories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub toolkit_alternatives: Vec<PathBuf>,
    /// cuDNN libraries in toolkits and in the system library directories.
    pub cudnn: Vec<AddOnFiles>,
    /// The same for other add-ons. Empty in facts of gpusetup versions that did not look for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_ons: Vec<AddOnFiles>,
    /// The nvcc that a login shell with the default PATH finds.
    pub nvcc: Option<PathBuf>,
    /// The relevant part of the loader cache, `/etc/ld.so.cache`.
    pub loader_cache: Option<LoaderCache>,
    /// Whether libxml2.so.2 is present, which the installer in CUDA's runfiles loads. None in facts
    /// of gpusetup versions that did not check.
    #[serde(default)]
    pub libxml2: Option<bool>,
    /// Enabled package repositories, one line each: address, suite and components.
    pub repositories: Vec<String>,
    /// Packages that the package manager started to install or configure but did not finish.
    #[serde(default)]
    pub unfinished_packages: Vec<String>,
    /// Driver packages that the repositories offer, with the version that would be installed. None
    /// if that is not known.
    #[serde(default)]
    pub offered: Option<BTreeMap<String, String>>,
    /// The drivers that the offered packages with signed modules are for, by package, as far as
    /// their dependencies show them. Empty in facts of older gpusetup versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub signed_drivers: BTreeMap<String, DriverVersion>,
    /// Free space at the places gpusetup writes to: the cache, the prefix, `/boot`, `/usr`, `/var`.
    pub space: Vec<Space>,
    /// The state of the paths that gpusetup may write.
    pub paths: BTreeMap<PathBuf, PathState>,
    /// What could not be read, and why.
    pub unreadable: Vec<Unreadable>,
}

/// A gcc in `/usr/bin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Compiler {
    /// The major version of gcc.
    pub major: u16,
    /// Its path: `/usr/bin/gcc`, `/usr/bin/gcc-13`.
    pub gcc: PathBuf,
    /// The path of its C++ compiler, if that compiler and the headers of its library are installed.
    /// nvcc needs one: it compiles C++ only.
    pub gxx: Option<PathBuf>,
}

/// The machine, and the hypervisor or container that it runs in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Machine {
    /// As printed by `uname -m`: `x86_64`, `aarch64`, `ppc64le`.
    pub arch: String,
    /// The kind of machine.
    pub kind: MachineKind,
    /// The hypervisor or container manager, if it can be detected (`kvm`, `docker`).
    pub inside: Option<String>,
    /// Whether the facts describe a tree below another root and not a running system.
    #[serde(rename = "is_tree")]
    pub is_offline_root: bool,
    /// Identifies the current boot; none for a tree.
    pub boot_id: Option<String>,
    /// The number of processor cores that gpusetup may use here; none if not known.
    #[serde(default)]
    pub cores: Option<u32>,
    /// Whether the firmware calls it a laptop or a tablet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub portable: bool,
    /// The board of a Jetson and its software.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub board: Option<Board>,
}

/// The board of a Jetson and its software.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Board {
    /// The model in the device tree: `NVIDIA Jetson AGX Orin Developer Kit`.
    pub model: Option<String>,
    /// The release of Jetson Linux (L4T): `36.4.3`.
    pub l4t: Option<String>,
}

/// A display controller of another vendor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct OtherGpu {
    /// The bus address, `0000:00:02.0`.
    pub address: String,
    /// The PCI id, `8086:a7a0`.
    #[cfg_attr(
        feature = "schemas",
        schemars(regex(pattern = r"^[0-9a-f]{4}:[0-9a-f]{4}$"))
    )]
    pub pci_id: String,
    /// The kernel driver bound to it: `i915`, `amdgpu`.
    pub bound_to: Option<String>,
}

/// A device on Thunderbolt or USB4.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct ThunderboltDevice {
    /// The name that it reports: `Razer Core X`.
    pub name: String,
    /// Whether its PCI devices may be used. Until then they are not on the bus.
    pub authorized: bool,
}

/// Kinds of machine, by what may be installed on them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum MachineKind {
    /// Has its own kernel and shows no hypervisor.
    #[default]
    Physical,
    /// Has its own kernel and runs under a hypervisor.
    Virtual,
    /// Shares the kernel of its host.
    Container,
    /// Runs Windows' kernel and uses Windows' driver.
    Wsl2,
    /// An embedded board whose driver is part of its board support package.
    Jetson,
}

/// An operating system, from os-release.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
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
    /// Whether `/usr` is managed as an image (ostree and the like).
    pub immutable: bool,
    /// `VARIANT_ID` in os-release: `silverblue`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The files found that show an image-based system, or one with its vendor's driver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signs: Vec<PathBuf>,
}

/// A GPU on the PCI bus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Gpu {
    /// The bus address, `0000:17:00.0`; `assumed:0` for an assumed GPU.
    pub address: String,
    /// The PCI id, `10de:20b2`; empty for an assumed GPU that was given by its compute capability.
    #[cfg_attr(
        feature = "schemas",
        schemars(regex(pattern = r"^(10de:[0-9a-f]{4})?$"))
    )]
    pub pci_id: String,
    /// The subsystem id, `10de:1463`, if it could be read.
    pub subsystem: Option<String>,
    /// PCI class, `0302`.
    #[cfg_attr(feature = "schemas", schemars(regex(pattern = r"^03[0-9a-f]{2}$")))]
    pub class: String,
    /// The kernel driver bound to it: `nouveau`, `nova_core`, `nvidia`, `vfio-pci`.
    pub bound_to: Option<String>,
    /// Whether the bound driver is unknown because the source did not show it: `lspci` shows it
    /// with `-k` only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub driver_unseen: bool,
    /// The name in the database; none for an unknown GPU.
    pub name: Option<String>,
    /// The compute capability in the database.
    pub compute_capability: Option<ComputeCapability>,
    /// Whether the GPU is not present but was requested with `--gpu`.
    pub assumed: bool,
}

/// An NVLink switch (NVSwitch), or the function that manages one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct NvSwitch {
    /// The bus address, `0000:c4:00.0`.
    pub address: String,
    /// `10de:22a3`, or `15b3:1021` for a network function that manages switches that are not on the
    /// bus.
    #[cfg_attr(
        feature = "schemas",
        schemars(regex(pattern = r"^(10de|15b3):[0-9a-f]{4}$"))
    )]
    pub pci_id: String,
    /// The name in the database.
    pub name: Option<String>,
}

/// The kernels of a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Kernels {
    /// The running kernel; none for a tree.
    pub running: Option<String>,
    /// The kernel that boots next: the newest installed one, unless the boot loader says otherwise.
    pub next_boot: Option<String>,
    /// The installed kernels, oldest first.
    pub installed: Vec<Kernel>,
}

/// An installed kernel: a directory under `/lib/modules` with the files of a kernel package, not
/// only headers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Kernel {
    /// As printed by `uname -r`.
    pub release: String,
    /// Whether its headers are installed and complete enough to build a module.
    pub headers: bool,
    /// The compiler it was built with, as given in its configuration: `gcc-12 (Debian 12.2.0-14)
    /// 12.2.0`.
    pub compiler: Option<String>,
    /// The version of its nvidia module.
    pub nvidia_module: Option<DriverVersion>,
    /// Its initramfs image.
    pub initramfs: Option<Initramfs>,
}

/// An initramfs image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Initramfs {
    /// The path of the image.
    pub path: PathBuf,
    /// The size in bytes.
    pub size: u64,
    /// When it was written, in seconds since 1970.
    pub modified: i64,
}

/// The state of Secure Boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    #[default]
    Unknown,
}

/// A key for modules that are built on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct SigningKey {
    /// The certificate of the key, a path.
    pub path: PathBuf,
    /// Whether the firmware or shim trusts the key, so that modules signed with it load.
    pub enrolled: bool,
    /// Whether MokManager offers at the next boot to enrol it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requested: bool,
}

/// A loaded kernel module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct LoadedModule {
    /// The name, with underscores.
    pub name: String,
    /// The version, if it has one.
    pub version: Option<String>,
}

/// What installed a component.
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

/// An installed driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct InstalledDriver {
    /// The version, from the user-space library or the package.
    pub version: DriverVersion,
    /// What installed it.
    pub origin: Origin,
    /// The flavour of its kernel modules, if it can be detected.
    pub modules: Option<ModuleFlavour>,
    /// The evidence: a file or a package.
    pub evidence: String,
    /// Whether its libraries are in a directory that Debian's alternatives select. None in facts of
    /// older gpusetup versions.
    #[serde(default)]
    pub alternative: Option<bool>,
}

/// RDMA adapters: InfiniBand, RoCE, EFA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Rdma {
    /// Their names below `/sys/class/infiniband`, `mlx5_0`; without those that only manage
    /// NVSwitches.
    pub adapters: Vec<String>,
    /// Whether the loaded RDMA modules have the interface that nvidia-peermem needs, as those of
    /// MLNX_OFED and DOCA-OFED have. None for a tree, or if the kernel's symbols cannot be read.
    pub has_peer_memory: Option<bool>,
}

/// An installed companion of the driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct InstalledCompanion {
    /// Its short name, `fabric-manager`.
    pub id: CompanionId,
    /// The version of its package, without the distribution's suffix; none if only the package
    /// manager knows it.
    pub version: Option<String>,
    /// The name of that package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// Whether systemd starts its units at boot, and loads its kernel module; true if it has none.
    pub enabled: bool,
}

/// An installed CUDA toolkit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Toolkit {
    /// The series, or the full release if it is known (from version.json, or `nvcc` of a package).
    pub version: CudaVersion,
    /// Its directory, links resolved.
    pub path: PathBuf,
    /// What installed it.
    pub origin: Origin,
    /// Whether its nvcc exists and is executable.
    pub has_nvcc: bool,
    /// The components of a toolkit that was installed from component archives, by NVIDIA's names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub components: Option<Vec<String>>,
}

/// The libraries of an add-on in one directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct AddOnFiles {
    /// The add-on, `nccl`; cuDNN if omitted.
    #[serde(default = "cudnn", skip_serializing_if = "is_cudnn")]
    pub add_on: AddOnId,
    /// The version, from the file names or else from the header.
    pub version: Option<AddOnVersion>,
    /// The directory, links resolved.
    pub directory: PathBuf,
    /// What installed it.
    pub origin: Origin,
    /// The CUDA major version that its package is for, if a package installed it and says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_major: Option<u16>,
    /// The header that belongs to it.
    pub header: Option<PathBuf>,
    /// Its shared libraries and the links to them, by name; for cuDNN every `libcudnn*.so*`.
    pub files: Vec<LibraryFile>,
}

fn cudnn() -> AddOnId {
    AddOnId::CUDNN
}

fn is_cudnn(id: &AddOnId) -> bool {
    *id == AddOnId::CUDNN
}

/// A shared library, or a link to one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct LibraryFile {
    /// The name of the file.
    pub name: String,
    /// The target, if it is a link.
    pub link: Option<PathBuf>,
    /// The SONAME of the ELF file, after following links; none for a broken link or a file that is
    /// not ELF.
    pub soname: Option<String>,
    /// The size in bytes; 0 for a link.
    pub size: u64,
    /// The SHA-256, only if two regular files of the same size may be copies of each other.
    #[cfg_attr(
        feature = "schemas",
        schemars(with = "Option<gpusetup_database::sum::Sha256Text>")
    )]
    pub sha256: Option<String>,
}

/// The relevant part of the loader cache, `/etc/ld.so.cache`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct LoaderCache {
    /// When it was written, in seconds since 1970.
    pub modified: i64,
    /// Relevant entries (libcuda, libnvidia-ml, libcudart, libcudnn…): SONAME and path, in the
    /// loader's order.
    pub entries: Vec<(String, PathBuf)>,
}

/// The state of a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct PathState {
    /// The node at the path.
    #[serde(flatten)]
    pub node: Node,
    /// When it was written, in seconds since 1970.
    pub modified: Option<i64>,
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(from = "UnreadableInFile")]
pub struct Unreadable {
    /// What could not be read.
    pub what: String,
    /// Why it could not be read.
    pub why: String,
    /// Set if GPUs may be missing from the list because of this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
    /// Set if it could be read, but for one of gpusetup's limits: for a file, or for the whole
    /// host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

/// Which GPUs may be missing from the list. An unreadable GPU is not the same as no GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// All of them.
    Gpus,
    /// One in an lspci listing that cannot be identified.
    ListedGpu,
}

/// [`Unreadable`] as stored in a file of facts.
#[derive(Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
struct UnreadableInFile {
    what: String,
    why: String,
    missing: Option<Missing>,
    limit: Option<Limit>,
}

impl From<UnreadableInFile> for Unreadable {
    fn from(
        UnreadableInFile {
            what,
            why,
            missing,
            limit,
        }: UnreadableInFile,
    ) -> Self {
        // Facts of older gpusetup versions have the sentence only.
        Self {
            missing: missing.or_else(|| {
                [Missing::Gpus, Missing::ListedGpu]
                    .into_iter()
                    .find(|missing| missing.what() == what)
            }),
            what,
            why,
            limit,
        }
    }
}

impl Missing {
    /// The text in [`Unreadable::what`].
    fn what(self) -> &'static str {
        match self {
            Self::Gpus => "the GPUs",
            Self::ListedGpu => "a GPU in the lspci text",
        }
    }
}

impl Unreadable {
    /// The file or folder, as far as it is one.
    pub fn path(&self) -> Cow<'_, str> {
        if self.what.starts_with('/') {
            return Cow::Borrowed(&self.what);
        }
        match quoted_at_start(&self.why) {
            Some(word) => Cow::Owned(word),
            None => Cow::Borrowed(self.why.split(": ").next().unwrap_or(&self.why)),
        }
    }

    /// What could not be read, and why, in a line.
    pub fn describe(&self) -> String {
        let what = if self.what.starts_with('/') {
            quoted(&self.what)
        } else {
            self.what.clone()
        };
        format!("{what}: {}", self.why)
    }

    /// An entry for GPUs that may be missing.
    pub fn gpus(missing: Missing, why: impl ToString) -> Self {
        Self {
            what: missing.what().to_owned(),
            why: why.to_string(),
            missing: Some(missing),
            limit: None,
        }
    }

    /// An entry for a line of an lspci listing that names a GPU without its ids.
    fn without_ids(line: impl std::fmt::Display) -> Self {
        Self::gpus(
            Missing::ListedGpu,
            format_args!("the PCI ids are missing (use lspci -nn): {line}"),
        )
    }
}

impl Kernel {
    /// The package with its headers, if they are missing, and the packages that follow later
    /// kernels.
    pub fn packages(&self, distribution: &Distribution, arch: &str) -> Vec<String> {
        let exact = distribution
            .headers_of(&self.release, arch)
            .filter(|_| !self.headers);
        exact
            .chain(distribution.following(&self.release, arch))
            .collect()
    }

    /// The major version of the gcc it was built with; none for another compiler or if it is
    /// unknown.
    pub fn gcc_major(&self) -> Option<u16> {
        // `gcc-12 (Debian 12.2.0-14) 12.2.0`, `x86_64-linux-gnu-gcc-13 (Ubuntu …) 13.2.0`, `gcc
        // (GCC) 11.4.1 …`.
        let text = self
            .compiler
            .as_deref()
            .filter(|t| t.contains("gcc") || t.contains("GCC"))?;
        text.split_whitespace()
            .rev()
            .find(|w| w.starts_with(|c: char| c.is_ascii_digit()) && w.contains('.'))?
            .split('.')
            .next()?
            .parse()
            .ok()
    }
}

impl Gpu {
    /// The device part of its PCI id.
    pub fn device(&self) -> Option<PciDevice> {
        u16::from_str_radix(self.pci_id.strip_prefix("10de:")?, 16)
            .ok()
            .map(PciDevice)
    }
}

/// Whether two drivers are installed side by side and Debian's alternatives choose one. Older facts
/// lack this; a runfile's driver is never such an alternative.
fn are_alternatives(one: &InstalledDriver, other: &InstalledDriver) -> bool {
    [one, other]
        .into_iter()
        .all(|d| d.alternative.unwrap_or(d.origin != Origin::Runfile))
}

impl Facts {
    /// Whether the bus was searched and has no NVIDIA GPU. False if that is not known: a tree
    /// without /sys, WSL2 and a Jetson do not show their GPUs on the bus, and lspci lines may lack
    /// the ids.
    pub fn has_no_gpu(&self) -> bool {
        let unseen = self.machine.kind == MachineKind::Jetson
            || self.unreadable.iter().any(|u| u.missing.is_some());
        self.gpus.is_empty() && !unseen
    }

    /// Whether they describe a new installation of a system (`--os`), and no host was looked at.
    pub fn is_stock(&self) -> bool {
        !self.machine.is_offline_root && self.machine.boot_id.is_none() && self.space.is_empty()
    }

    /// Whether this is a laptop with a GPU of another vendor beside NVIDIA's.
    pub fn is_hybrid(&self) -> bool {
        self.machine.portable && !self.gpus.is_empty() && !self.other_gpus.is_empty()
    }

    /// Whether NVIDIA's kernel module is loaded; none if that cannot be read, or for a tree.
    pub fn driver_is_loaded(&self) -> Option<bool> {
        Some(
            self.loaded_modules
                .as_ref()?
                .iter()
                .any(|module| module.name == "nvidia"),
        )
    }

    /// The version of NVIDIA's loaded kernel module, if it is loaded and its version is known.
    pub fn loaded_driver(&self) -> Option<&str> {
        self.loaded_modules
            .as_ref()?
            .iter()
            .find(|module| module.name == "nvidia")?
            .version
            .as_deref()
    }

    /// The lines of an lspci listing that name an NVIDIA GPU without its ids.
    pub fn unreadable_gpus(&self) -> impl Iterator<Item = &Unreadable> {
        self.unreadable
            .iter()
            .filter(|u| u.missing == Some(Missing::ListedGpu))
    }

    /// What was left out because of this limit of gpusetup's.
    pub fn left_out(&self, limit: Limit) -> impl Iterator<Item = &Unreadable> {
        self.unreadable
            .iter()
            .filter(move |one| one.limit == Some(limit))
    }

    /// Whether an enabled repository matches any of these marks (`seen_as` in the database).
    pub fn has_enabled(&self, marks: &[String]) -> bool {
        self.repositories.iter().any(|line| {
            marks
                .iter()
                .any(|mark| gpusetup_packages::is_meant(line, mark, self.os.package_manager))
        })
    }

    /// The driver that programs load and one that is installed over it or below it: their files
    /// mix. Those that Debian's alternatives keep apart do not.
    pub fn two_drivers(&self) -> Option<[&InstalledDriver; 2]> {
        let driver = self.driver.as_ref()?;
        self.other_drivers
            .iter()
            .find(|other| !are_alternatives(driver, other))
            .map(|other| [driver, other])
    }

    /// The lowest compute capability of the GPUs, as far as known.
    pub fn oldest_gpu(&self) -> Option<ComputeCapability> {
        self.gpus
            .iter()
            .filter_map(|gpu| gpu.compute_capability)
            .min()
    }

    /// The installed release of an add-on that packages put outside of toolkits, for a toolkit of
    /// this CUDA major version.
    pub fn packaged(&self, add_on: AddOnId, cuda_major: u16) -> Option<&AddOnFiles> {
        self.files_of(add_on)
            .filter(|found| found.origin == Origin::Dpkg)
            .find(|found| found.cuda_major.is_none_or(|major| major == cuda_major))
    }

    /// The libraries of all add-ons.
    pub fn add_on_files(&self) -> impl Iterator<Item = &AddOnFiles> {
        self.cudnn.iter().chain(&self.add_ons)
    }

    /// The libraries of an add-on.
    pub fn files_of(&self, add_on: AddOnId) -> impl Iterator<Item = &AddOnFiles> {
        self.add_on_files()
            .filter(move |files| files.add_on == add_on)
    }

    /// The major version of the default gcc.
    pub fn gcc_major(&self) -> Option<u16> {
        self.gcc.as_deref()?.split('.').next()?.parse().ok()
    }

    /// The compiler that is called `gcc`.
    pub fn default_compiler(&self) -> Option<&Compiler> {
        self.compilers.iter().find(|c| c.gcc.ends_with("gcc"))
    }

    /// A compiler of this major version, with its version in its name, that also compiles C++.
    pub fn side_compiler(&self, major: u16) -> Option<&Compiler> {
        self.compilers
            .iter()
            .find(|c| c.major == major && c.gxx.is_some() && !c.gcc.ends_with("gcc"))
    }

    /// The major version of the gcc that the kernel was built with: the best guess at the
    /// distribution's default gcc.
    pub fn kernels_gcc(&self) -> Option<u16> {
        let release = self.kernel()?;
        self.kernels
            .installed
            .iter()
            .find(|k| k.release == release)?
            .gcc_major()
    }

    /// Makes every text printable on one line of a terminal: the files of a host, and a file of
    /// facts, may contain anything.
    pub fn visible(self) -> Self {
        gpusetup_text::text::made_visible(self)
    }

    /// The first kernel whose name is not a valid release. Kernel names are part of commands that
    /// people paste into a shell.
    pub fn unlikely_kernel(&self) -> Option<&str> {
        let kernels = &self.kernels;
        let mut all = kernels
            .installed
            .iter()
            .map(|k| &k.release)
            .chain(&kernels.running)
            .chain(&kernels.next_boot);
        all.find(|name| !kernel::is_likely(name))
            .map(String::as_str)
    }

    /// The kernel whose modules matter: the next to boot, or else the running one.
    pub fn kernel(&self) -> Option<&str> {
        self.kernels
            .next_boot
            .as_deref()
            .or(self.kernels.running.as_deref())
    }

    /// The node at `path`, if the probes looked at it.
    pub fn node(&self, path: &std::path::Path) -> Option<&Node> {
        self.paths.get(path).map(|p| &p.node)
    }
}

/// Feeds a text to the parsers of all package managers' output.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    gpusetup_packages::read_anything(text);
}
