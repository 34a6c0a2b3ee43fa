//! The checks, in the order in which a GPU meets what they look at: kernel, driver, toolkit, cuDNN. A cause stands before
//! what follows from it.

mod bus;
mod containers;
mod cuda;
mod cudnn;
mod driver;
mod fabric;
mod kernel;
mod log;
mod nvml;
mod packages;
mod repositories;
mod rivals;
mod toolkit;

use super::sense::Sense;
use super::{Evidence, Verdict};
use crate::host::{Kernel, MachineKind};
use crate::ids::CheckId;

/// A check.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its id; a plan's warning about the same thing has the same.
    pub id: CheckId,
    /// What is sound when it passes.
    pub title: &'static str,
    /// What it looks at, for `--list-checks`.
    pub reads: &'static str,
    /// From evidence to verdict.
    pub run: fn(&Evidence) -> Verdict,
    /// The senses that it reads. If one of them failed, the check ends in an error.
    pub needs: &'static [Sense],
    /// What it looks at changes while the host runs, not only when something is installed.
    pub runtime: bool,
    /// What it looks at is in the facts, or is an [`Answer`](super::Answer) that says itself that nobody was asked: it can be
    /// run on a file of facts, and its absence in one makes no finding.
    pub facts_suffice: bool,
    /// Checks whose failure may be the cause of this one's, nearest first.
    pub follows_from: &'static [CheckId],
}

/// All checks.
pub const CHECKS: &[Check] = &[
    Check {
        id: CheckId::GS603,
        title: "The package manager is done, and /boot has room",
        reads: "dpkg's record, the room on /boot, the size of the initramfs images",
        run: packages::done,
        needs: &[Sense::Images],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS404,
        title: "apt has the keys of NVIDIA's repositories",
        reads: "apt's lists of repositories, the keys that they name, what apt asks of a key",
        run: repositories::keys,
        needs: &[Sense::Apt],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS503,
        title: "Every GPU is known to the driver installed",
        reads: "the GPUs' PCI ids, the database's driver branches, the driver's version, the kernel's log",
        run: driver::knows_gpus,
        needs: &[Sense::KernelLog],
        runtime: false,
        facts_suffice: true,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS203,
        title: "No GPU is held for a virtual machine",
        reads: "the kernel driver bound to each GPU in /sys/bus/pci/devices, the kernel's log",
        run: rivals::vfio,
        needs: &[Sense::KernelLog],
        runtime: true,
        facts_suffice: true,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS401,
        title: "The driver comes from one place",
        reads: "dpkg's record, the runfile's log and uninstaller, the versions of libcuda.so",
        run: driver::one_origin,
        needs: &[],
        runtime: false,
        facts_suffice: true,
        follows_from: &[CheckId::GS603],
    },
    Check {
        id: CheckId::GS101,
        title: "The kernel's headers are there",
        reads: "/lib/modules/KERNEL/build, DKMS's record",
        run: kernel::headers,
        needs: &[Sense::Dkms, Sense::Headers],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS102,
        title: "The compiler that built the kernel is there",
        reads: "the kernel's configuration, gcc and gcc-N in /usr/bin",
        run: kernel::compiler,
        needs: &[Sense::Dkms],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS106,
        title: "One set of kernel modules is in DKMS's care",
        reads: "/var/lib/dkms",
        run: kernel::one_tree,
        needs: &[Sense::Dkms],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS104,
        title: "Every kernel has the driver's module",
        reads: "nvidia.ko below /lib/modules/KERNEL, its version, the driver's version, the log of what DKMS could not build",
        run: kernel::modules,
        needs: &[Sense::Dkms, Sense::DkmsLogs],
        runtime: false,
        facts_suffice: true,
        follows_from: &[CheckId::GS101, CheckId::GS102, CheckId::GS603, CheckId::GS401, CheckId::GS106],
    },
    Check {
        id: CheckId::GS504,
        title: "The kernel modules' flavour suits every GPU",
        reads: "the module's licence, the database's GPUs, the kernel's log",
        run: driver::flavour,
        needs: &[Sense::KernelLog],
        runtime: false,
        facts_suffice: true,
        follows_from: &[CheckId::GS503],
    },
    Check {
        id: CheckId::GS301,
        title: "The firmware lets the driver's module load",
        reads: "Secure Boot's EFI variables, the module's signer, the kernel's log",
        run: driver::secure_boot,
        needs: &[Sense::KernelLog, Sense::Signer, Sense::SigningKey],
        runtime: false,
        facts_suffice: true,
        follows_from: &[CheckId::GS104],
    },
    Check {
        id: CheckId::GS201,
        title: "nouveau keeps off the GPUs",
        reads: "the kernel driver bound to each GPU, modprobe's configuration, each kernel's initramfs",
        run: rivals::nouveau,
        needs: &[Sense::KernelLog, Sense::Denials, Sense::Images],
        runtime: false,
        facts_suffice: true,
        follows_from: &[CheckId::GS603],
    },
    Check {
        id: CheckId::GS202,
        title: "nova keeps off the GPUs",
        reads: "the kernel driver bound to each GPU, modprobe's configuration, each kernel's initramfs, the kernel's log",
        run: rivals::nova,
        needs: &[Sense::KernelLog, Sense::Denials, Sense::Images],
        runtime: false,
        facts_suffice: true,
        follows_from: &[CheckId::GS603],
    },
    Check {
        id: CheckId::GS901,
        title: "The firmware gives every GPU room in the address space",
        reads: "the kernel's log",
        run: log::room,
        needs: &[Sense::KernelLog],
        runtime: true,
        facts_suffice: true,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS903,
        title: "Nothing tells of a fault of a GPU",
        reads: "Xids, GPUs that did not come up or fell off the bus, faults of NVSwitches, in the kernel's log since the last boot; GPUs that NVML calls lost",
        run: log::faults,
        needs: &[Sense::KernelLog, Sense::Libraries],
        runtime: true,
        facts_suffice: true,
        follows_from: &[CheckId::GS901, CheckId::GS503, CheckId::GS504],
    },
    Check {
        id: CheckId::GS509,
        title: "An NVIDIA GPU is on the bus",
        reads: "/sys/bus/pci/devices, whether the driver is installed or loaded, the kernel's log",
        run: driver::on_the_bus,
        needs: &[Sense::KernelLog, Sense::Libraries, Sense::ModuleAge],
        runtime: true,
        facts_suffice: true,
        follows_from: &[CheckId::GS903],
    },
    Check {
        id: CheckId::GS501,
        title: "The driver loaded is the one installed, and has the GPUs",
        reads: "/sys/module/nvidia/version, the version of libcuda.so, the module of the kernel that boots next, who drives each GPU, the kernel's log, NVML's own word",
        run: driver::loaded,
        needs: &[Sense::KernelLog, Sense::Libraries, Sense::ModuleAge],
        runtime: true,
        facts_suffice: true,
        follows_from: &[
            CheckId::GS503,
            CheckId::GS504,
            CheckId::GS104,
            CheckId::GS201,
            CheckId::GS202,
            CheckId::GS301,
            CheckId::GS203,
            CheckId::GS401,
            CheckId::GS901,
            CheckId::GS903,
        ],
    },
    Check {
        id: CheckId::GS508,
        title: "The driver answers",
        reads: "what NVML says when it is started, and which GPUs it has",
        run: nvml::answers,
        needs: &[Sense::Libraries],
        runtime: true,
        facts_suffice: true,
        follows_from: &[CheckId::GS903, CheckId::GS501, CheckId::GS401, CheckId::GS603],
    },
    Check {
        id: CheckId::GS904,
        title: "No GPU's memory, heat or power is amiss",
        reads: "what NVML says of each GPU: memory errors, rows remapped, pages retired, slowdowns",
        run: nvml::health,
        needs: &[Sense::Libraries],
        runtime: true,
        facts_suffice: true,
        follows_from: &[CheckId::GS903],
    },
    Check {
        id: CheckId::GS905,
        title: "The driver keeps the GPUs of data centres ready",
        reads: "what NVML says of persistence, /run/nvidia-persistenced",
        run: nvml::persistence,
        needs: &[Sense::Libraries],
        runtime: true,
        facts_suffice: true,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS802,
        title: "GPUs are divided (MIG) as was asked for",
        reads: "what NVML says of MIG, now and behind a reset; who has the GPUs open",
        run: nvml::mig,
        needs: &[Sense::Libraries],
        runtime: true,
        facts_suffice: true,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS407,
        title: "nvidia-smi came with the driver",
        reads: "/usr/bin/nvidia-smi",
        run: packages::smi,
        needs: &[Sense::DriverPackages],
        runtime: false,
        facts_suffice: false,
        follows_from: &[CheckId::GS603],
    },
    Check {
        id: CheckId::GS506,
        title: "CUDA's device is there, or is made when it is asked for",
        reads: "/dev/nvidia-uvm, /usr/bin/nvidia-modprobe",
        run: driver::devices,
        needs: &[Sense::KernelLog, Sense::Libraries, Sense::ModuleAge],
        runtime: true,
        facts_suffice: false,
        follows_from: &[CheckId::GS501],
    },
    Check {
        id: CheckId::GS801,
        title: "Fabric Manager runs, and is the driver's own",
        reads: "what nv-fabricmanager says its version is, its unit, the driver's version, what NVML says of the GPUs' fabric",
        run: fabric::manager,
        needs: &[Sense::Libraries, Sense::FabricManager],
        runtime: true,
        facts_suffice: true,
        follows_from: &[CheckId::GS501],
    },
    Check {
        id: CheckId::GS902,
        title: "GPUs speak to each other freely",
        reads: "the IOMMU's domain of each GPU, the ACS settings of PCI switches above them",
        run: bus::speak_freely,
        needs: &[Sense::Bus],
        runtime: true,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS803,
        title: "Containers get the GPUs",
        reads: "container engines, NVIDIA's container toolkit, docker's and containerd's configuration, CDI's descriptions",
        run: containers::get_gpus,
        needs: &[Sense::Containers],
        runtime: false,
        facts_suffice: false,
        follows_from: &[CheckId::GS603, CheckId::GS401],
    },
    Check {
        id: CheckId::GS909,
        title: "The GPUs' memory is not counted as the host's",
        reads: "whether a kubelet is there, the nvidia module's parameters",
        run: containers::count_memory,
        needs: &[Sense::Coherent],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS507,
        title: "Programs get the driver's own libcuda",
        reads: "/etc/ld.so.cache, LD_LIBRARY_PATH in /etc/environment and /etc/profile.d",
        run: toolkit::stubs,
        needs: &[Sense::LoaderCache, Sense::LibraryPaths],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS505,
        title: "CUDA computes on every GPU",
        reads: "what CUDA's driver library says when it is started, and the numbers that a kernel comes to; in a container /dev/nvidiactl, NVIDIA_VISIBLE_DEVICES and NVIDIA_DRIVER_CAPABILITIES",
        run: cuda::computes,
        needs: &[Sense::KernelLog, Sense::Libraries, Sense::Given],
        runtime: true,
        facts_suffice: true,
        follows_from: &[
            CheckId::GS903,
            CheckId::GS503,
            CheckId::GS501,
            CheckId::GS508,
            CheckId::GS904,
            CheckId::GS506,
            CheckId::GS801,
            CheckId::GS507,
            CheckId::GS802,
            CheckId::GS401,
            CheckId::GS603,
        ],
    },
    Check {
        id: CheckId::GS707,
        title: "The driver runs the default toolkit's programs",
        reads: "the newest CUDA that NVML says the driver runs, the default toolkit, the oldest driver that runs that",
        run: cuda::versions,
        needs: &[Sense::Libraries],
        runtime: false,
        facts_suffice: false,
        follows_from: &[CheckId::GS401],
    },
    Check {
        id: CheckId::GS709,
        title: "Every toolkit's compiler works",
        reads: "what `nvcc --version` says, and a small program that nvcc compiles and that is started",
        run: toolkit::answers,
        needs: &[Sense::Nvcc, Sense::Compiled],
        runtime: false,
        facts_suffice: false,
        follows_from: &[CheckId::GS503],
    },
    Check {
        id: CheckId::GS704,
        title: "No LD_LIBRARY_PATH reaches every program",
        reads: "/etc/environment, /etc/profile, /etc/profile.d",
        run: toolkit::library_path,
        needs: &[Sense::LibraryPaths],
        runtime: false,
        facts_suffice: false,
        follows_from: &[CheckId::GS507],
    },
    Check {
        id: CheckId::GS705,
        title: "nvcc takes the host's compiler",
        reads: "what nvcc and the host's compiler say when they compile a small program; gcc's version, the database's limit for each toolkit, NVCC_CCBIN in /etc/profile.d",
        run: toolkit::host_compiler,
        needs: &[Sense::Compiled, Sense::HostCompiler],
        runtime: false,
        facts_suffice: false,
        follows_from: &[CheckId::GS102],
    },
    Check {
        id: CheckId::GS701,
        title: "Login shells find the default toolkit",
        reads: "the link PREFIX/cuda, which nvcc a login shell and a plain shell find",
        run: toolkit::on_path,
        needs: &[Sense::Shells],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS702,
        title: "cuDNN's library links are whole",
        reads: "the SONAME of every libcudnn*.so, the links between them",
        run: cudnn::links,
        needs: &[],
        runtime: false,
        facts_suffice: true,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS708,
        title: "The loader's cache knows cuDNN as it is",
        reads: "/etc/ld.so.conf, /etc/ld.so.cache, the libraries in the directories they name",
        run: cudnn::cache,
        needs: &[Sense::LoaderDirectories, Sense::LoaderCache],
        runtime: false,
        facts_suffice: false,
        follows_from: &[CheckId::GS702, CheckId::GS701],
    },
    Check {
        id: CheckId::GS703,
        title: "Programs get the cuDNN that belongs to the default toolkit",
        reads: "what cudnnGetVersion says in a library loaded by its SONAME, the cuDNNs on the host",
        run: cudnn::winner,
        needs: &[Sense::CudnnVersions, Sense::LoaderDirectories, Sense::LoaderCache],
        runtime: false,
        facts_suffice: false,
        follows_from: &[CheckId::GS702, CheckId::GS708, CheckId::GS701],
    },
    Check {
        id: CheckId::GS710,
        title: "cuDNN computes",
        reads: "the numbers that a small convolution comes to",
        run: cuda::convolution,
        needs: &[Sense::KernelLog, Sense::Libraries],
        runtime: true,
        facts_suffice: false,
        follows_from: &[CheckId::GS505, CheckId::GS703],
    },
];

/// What people meet, and no check looks for: the id, what it is, and where gpusetup sees to it.
pub const ELSEWHERE: &[(CheckId, &str, &str)] = &[
    (CheckId::GS103, "The kernel is too new for the driver", "plan only: it warns before anything is built"),
    (CheckId::GS105, "The kernel is none of the distribution's", "plan only: it warns that no package has its headers"),
    (CheckId::GS302, "A question about Secure Boot's key hangs an install", "apply only: no child has anybody to ask"),
    (
        CheckId::GS402,
        "Packages of two vendors exclude each other",
        "plan and apply only: the transaction is simulated first",
    ),
    (CheckId::GS403, "Only the meta-package is pinned", "plan only: the packages are named, none by a meta-package"),
    (
        CheckId::GS405,
        "Another repository is broken",
        "apply only: lists that cannot be had are no failure unless they are needed",
    ),
    (CheckId::GS406, "A mirror is out of step", "apply only: lists are fetched once more, then exit 6"),
    (CheckId::GS408, "A tool reports success on failure", "apply only: the host is asked, no exit status is believed"),
    (CheckId::GS502, "The driver is in use", "apply only: it names who uses it, and refuses"),
    (
        CheckId::GS601,
        "No network, or a proxy",
        "apply only: everything may come from a mirror or a bundle; what that lacks is named before the first change",
    ),
    (
        CheckId::GS602,
        "Temporary files have no room, or must not be executed",
        "plan and apply only: looked at before the first change",
    ),
    (
        CheckId::GS604,
        "Questions of needrestart, debconf and dpkg hang an install",
        "apply only: no child has anybody to ask",
    ),
    (CheckId::GS605, "apt or dpkg is locked on the first boot", "apply only: waited for, with the holder's name"),
    (CheckId::GS606, "HOME and PATH are not set", "apply only: children get an environment of their own"),
    (CheckId::GS706, "The distribution's nvcc stands before the toolkit's", "looked for with the default toolkit"),
    (CheckId::GS906, "WSL2", "plan only: no driver may be installed inside"),
    (CheckId::GS907, "A Jetson", "plan only: its driver belongs to its board support package"),
    (CheckId::GS908, "An immutable system", "plan only: packages and runfiles cannot change it"),
];

/// No command: what is to be done is said in words.
const NOTHING: [&str; 0] = [];

/// Why nothing of the kernel's side can be said here, if so: somebody else's kernel, or no driver of NVIDIA's to look at.
fn no_driver_of_its_own(seen: &Evidence) -> Option<Verdict> {
    let whose = match seen.facts.machine.kind {
        MachineKind::Container => "a container runs on its host's kernel and driver",
        MachineKind::Wsl2 => "WSL2 runs on Windows' driver",
        MachineKind::Jetson => "a Jetson's driver belongs to its board support package",
        MachineKind::Physical | MachineKind::Virtual => {
            return seen.facts.driver.is_none().then(|| Verdict::skip("no NVIDIA driver is installed"));
        }
    };
    Some(Verdict::skip(whose))
}

/// The kernel that boots next, where its modules are there.
fn next_kernel(seen: &Evidence) -> Option<&Kernel> {
    let release = seen.facts.kernel()?;
    seen.facts.kernels.installed.iter().find(|k| k.release == release)
}
