//! The checks, from the bottom of the stack to the top: kernel, driver, toolkit, cuDNN. A cause
//! comes before its consequences.

mod add_on;
mod bus;
mod cluster;
mod companions;
mod containers;
mod cuda;
mod driver;
mod fabric;
mod kernel;
mod log;
mod machines;
mod nvml;
mod packages;
mod python;
mod rdma;
mod repositories;
mod rivals;
mod secure_boot;
mod security;
mod settings;
mod toolkit;

use super::sense::Sense;
use super::{Evidence, Verdict};
use gpusetup_host::{Kernel, MachineKind};
use gpusetup_text::ids::CheckId;

/// A check.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its id. A plan's warning about the same problem has the same id.
    pub id: CheckId,
    /// What it reads, for `--list-checks`.
    pub reads: &'static str,
    /// From evidence to verdict.
    pub run: fn(&Evidence) -> Verdict,
    /// The senses that it needs. If one of them failed, the check ends in an error.
    pub needs: &'static [Sense],
    /// Whether the state it checks can change at run time, not only when something is installed.
    pub runtime: bool,
    /// Whether a file of facts is enough to run it: what it reads is in the facts, or is an
    /// [`Answer`](super::Answer) that can be `NotAsked`.
    pub facts_suffice: bool,
    /// Checks whose failure may cause this one's, nearest first.
    pub follows_from: &'static [CheckId],
}

impl Check {
    /// The thing that is checked.
    pub fn title(&self) -> &'static str {
        self.id.title()
    }
}

/// All checks.
pub const CHECKS: &[Check] = &[
    Check {
        id: CheckId::GS603,
        reads: "dpkg's record, the free space on /boot, the size of the initramfs images",
        run: packages::done,
        needs: &[Sense::Images],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS608,
        reads: "what every other check reads, and the limits of gpusetup",
        run: packages::wholly_read,
        needs: &[],
        runtime: false,
        facts_suffice: true,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS404,
        reads: "apt's repository lists, their keys, apt's key policy",
        run: repositories::keys,
        needs: &[Sense::Apt],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS503,
        reads: "the GPUs' PCI ids, the database's driver branches, the driver's version, the kernel's log",
        run: driver::knows_gpus,
        needs: &[Sense::KernelLog],
        runtime: false,
        facts_suffice: true,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS203,
        reads: "the kernel driver bound to each GPU in /sys/bus/pci/devices, the kernel's log",
        run: rivals::vfio,
        needs: &[Sense::KernelLog],
        runtime: true,
        facts_suffice: true,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS906,
        reads: "on WSL2: /dev/dxg, /usr/lib/wsl/lib, the installed driver, /etc/ld.so.cache",
        run: machines::wsl,
        needs: &[Sense::Machine, Sense::LoaderCache],
        runtime: false,
        facts_suffice: true,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS907,
        reads: "on a Jetson: /etc/nv_tegra_release, the installed driver and toolkits, the database's JetPacks",
        run: machines::jetson,
        needs: &[],
        runtime: false,
        facts_suffice: true,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS908,
        reads: "os-release, the files of image-based systems, the installed driver",
        run: machines::image,
        needs: &[],
        runtime: false,
        facts_suffice: true,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS914,
        reads: "/etc/dgx-release, how the driver was installed",
        run: machines::vendors,
        needs: &[],
        runtime: false,
        facts_suffice: true,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS913,
        reads: "/sys/bus/thunderbolt/devices, `removable` of each GPU on the PCI bus",
        run: machines::outside,
        needs: &[],
        runtime: true,
        facts_suffice: true,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS401,
        reads: "dpkg's record, the runfile's log and uninstaller, the versions of libcuda.so",
        run: driver::one_origin,
        needs: &[],
        runtime: false,
        facts_suffice: true,
        follows_from: &[CheckId::GS603],
    },
    Check {
        id: CheckId::GS101,
        reads: "/lib/modules/KERNEL/build, DKMS's record",
        run: kernel::headers,
        needs: &[Sense::Dkms, Sense::Headers],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS102,
        reads: "the kernel's configuration, gcc and gcc-N in /usr/bin",
        run: kernel::compiler,
        needs: &[Sense::Dkms],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS106,
        reads: "/var/lib/dkms",
        run: kernel::one_tree,
        needs: &[Sense::Dkms],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS104,
        reads: "nvidia.ko in /lib/modules/KERNEL, its version, the driver's version, DKMS's logs of failed builds",
        run: kernel::modules,
        needs: &[Sense::Dkms, Sense::DkmsLogs],
        runtime: false,
        facts_suffice: true,
        follows_from: &[
            CheckId::GS101,
            CheckId::GS102,
            CheckId::GS603,
            CheckId::GS401,
            CheckId::GS106,
        ],
    },
    Check {
        id: CheckId::GS504,
        reads: "the module's licence, the database's GPUs, the kernel's log",
        run: driver::flavour,
        needs: &[Sense::KernelLog],
        runtime: false,
        facts_suffice: true,
        follows_from: &[CheckId::GS503],
    },
    Check {
        id: CheckId::GS301,
        reads: "Secure Boot's EFI variables, the module's signer, the kernel's log",
        run: secure_boot::secure_boot,
        needs: &[Sense::KernelLog, Sense::Signer, Sense::SigningKey],
        runtime: false,
        facts_suffice: true,
        follows_from: &[CheckId::GS104],
    },
    Check {
        id: CheckId::GS201,
        reads: "the kernel driver bound to each GPU, modprobe's configuration, each kernel's initramfs",
        run: rivals::nouveau,
        needs: &[Sense::KernelLog, Sense::Denials, Sense::Images],
        runtime: false,
        facts_suffice: true,
        follows_from: &[CheckId::GS603],
    },
    Check {
        id: CheckId::GS202,
        reads: "the kernel driver bound to each GPU, modprobe's configuration, each kernel's initramfs, the kernel's log",
        run: rivals::nova,
        needs: &[Sense::KernelLog, Sense::Denials, Sense::Images],
        runtime: false,
        facts_suffice: true,
        follows_from: &[CheckId::GS603],
    },
    Check {
        id: CheckId::GS204,
        reads: "modprobe's configuration, the kernel's command line, /proc/modules",
        run: driver::may_load,
        needs: &[Sense::Denials],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS901,
        reads: "the kernel's log",
        run: log::room,
        needs: &[Sense::KernelLog],
        runtime: true,
        facts_suffice: true,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS903,
        reads: "Xids, failed GPU initialisations, GPUs off the bus and NVSwitch errors in the kernel's log since the last boot; GPUs that NVML reports as lost",
        run: log::faults,
        needs: &[Sense::KernelLog, Sense::Libraries],
        runtime: true,
        facts_suffice: true,
        follows_from: &[CheckId::GS901, CheckId::GS503, CheckId::GS504],
    },
    Check {
        id: CheckId::GS509,
        reads: "/sys/bus/pci/devices, whether the driver is installed or loaded, the kernel's log",
        run: driver::on_the_bus,
        needs: &[
            Sense::KernelLog,
            Sense::Libraries,
            Sense::ModuleAge,
            Sense::Given,
        ],
        runtime: true,
        facts_suffice: true,
        follows_from: &[CheckId::GS903, CheckId::GS913],
    },
    Check {
        id: CheckId::GS501,
        reads: "/sys/module/nvidia/version, the version of libcuda.so, the module of the kernel that boots next, the driver bound to each GPU, the kernel's log, NVML",
        run: driver::loaded,
        needs: &[Sense::KernelLog, Sense::Libraries, Sense::ModuleAge],
        runtime: true,
        facts_suffice: true,
        follows_from: &[
            CheckId::GS204,
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
            CheckId::GS908,
        ],
    },
    Check {
        id: CheckId::GS508,
        reads: "whether NVML starts, and which GPUs it lists",
        run: nvml::answers,
        needs: &[Sense::Libraries],
        runtime: true,
        facts_suffice: true,
        follows_from: &[
            CheckId::GS903,
            CheckId::GS501,
            CheckId::GS401,
            CheckId::GS603,
        ],
    },
    Check {
        id: CheckId::GS904,
        reads: "NVML's report on each GPU: memory errors, remapped rows, retired pages, throttling",
        run: nvml::health,
        needs: &[Sense::Libraries],
        runtime: true,
        facts_suffice: true,
        follows_from: &[CheckId::GS903],
    },
    Check {
        id: CheckId::GS905,
        reads: "NVML's persistence mode, /run/nvidia-persistenced",
        run: nvml::persistence,
        needs: &[Sense::Libraries],
        runtime: true,
        facts_suffice: true,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS802,
        reads: "NVML's current and pending MIG mode, the instances, /etc/gpusetup/mig.yaml; which programs have the GPUs open",
        run: nvml::mig,
        needs: &[Sense::Libraries],
        runtime: true,
        facts_suffice: true,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS407,
        reads: "/usr/bin/nvidia-smi",
        run: packages::smi,
        needs: &[Sense::DriverPackages],
        runtime: false,
        facts_suffice: false,
        follows_from: &[CheckId::GS603],
    },
    Check {
        id: CheckId::GS506,
        reads: "/dev/nvidia-uvm, /usr/bin/nvidia-modprobe",
        run: driver::devices,
        needs: &[Sense::KernelLog, Sense::Libraries, Sense::ModuleAge],
        runtime: true,
        facts_suffice: false,
        follows_from: &[CheckId::GS501],
    },
    Check {
        id: CheckId::GS521,
        reads: "gpusetup's unit that sets the GPUs at each boot, NVML's reports about these settings",
        run: settings::settings,
        needs: &[Sense::Settings],
        runtime: true,
        facts_suffice: false,
        follows_from: &[CheckId::GS501, CheckId::GS508],
    },
    Check {
        id: CheckId::GS801,
        reads: "the version of nv-fabricmanager, its unit, the driver's version, NVML's fabric state of each GPU",
        run: fabric::manager,
        needs: &[Sense::Libraries, Sense::FabricManager],
        runtime: true,
        facts_suffice: true,
        follows_from: &[CheckId::GS501],
    },
    Check {
        id: CheckId::GS804,
        reads: "/sys/class/infiniband, the kernel's symbols, the loaded modules, the flavour of the driver's modules",
        run: rdma::gpudirect,
        needs: &[],
        runtime: true,
        facts_suffice: true,
        follows_from: &[CheckId::GS501],
    },
    Check {
        id: CheckId::GS805,
        reads: "DCGM's service and its log, the loaded modules, DKMS's log of nvidia-fs, the driver's version",
        run: companions::run,
        needs: &[Sense::Companions],
        runtime: true,
        facts_suffice: false,
        follows_from: &[CheckId::GS501],
    },
    Check {
        id: CheckId::GS902,
        reads: "the IOMMU's domain of each GPU, the ACS settings of PCI switches above them",
        run: bus::speak_freely,
        needs: &[Sense::Bus],
        runtime: true,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS803,
        reads: "container engines, NVIDIA's container toolkit, the engines' configuration, the report of a running docker daemon, CDI specifications",
        run: containers::get_gpus,
        needs: &[Sense::Containers],
        runtime: false,
        facts_suffice: false,
        follows_from: &[CheckId::GS603, CheckId::GS401],
    },
    Check {
        id: CheckId::GS810,
        reads: "kubelet, K3s or RKE2, containerd and CRI-O with their configuration, the runtime classes of the cluster (--ready k8s)",
        run: cluster::pods,
        needs: &[Sense::Cluster, Sense::Containers],
        runtime: true,
        facts_suffice: false,
        follows_from: &[CheckId::GS803],
    },
    Check {
        id: CheckId::GS811,
        reads: "/run/nvidia/driver, the installed driver (--ready k8s)",
        run: cluster::one_driver,
        needs: &[Sense::Cluster],
        runtime: true,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS812,
        reads: "the output of slurmd -G, the device files of the GPUs as NVML reports them (--ready slurm)",
        run: cluster::gres,
        needs: &[Sense::Cluster],
        runtime: true,
        facts_suffice: false,
        follows_from: &[CheckId::GS501],
    },
    Check {
        id: CheckId::GS813,
        reads: "slurm.conf, cgroup.conf (--ready slurm)",
        run: cluster::confined,
        needs: &[Sense::Cluster],
        runtime: true,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS909,
        reads: "whether a kubelet is installed, the nvidia module's parameters",
        run: containers::count_memory,
        needs: &[Sense::Coherent],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS912,
        reads: "on a laptop with a desktop and two GPUs: the driver's graphics libraries, `modeset` of nvidia-drm",
        run: machines::two_gpus,
        needs: &[Sense::Machine],
        runtime: false,
        facts_suffice: false,
        follows_from: &[CheckId::GS501],
    },
    Check {
        id: CheckId::GS507,
        reads: "/etc/ld.so.cache, LD_LIBRARY_PATH in /etc/environment and /etc/profile.d",
        run: toolkit::stubs,
        needs: &[Sense::LoaderCache, Sense::LibraryPaths],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS505,
        reads: "whether CUDA's driver library starts, and the results of a test kernel; in a container /dev/nvidiactl, NVIDIA_VISIBLE_DEVICES and NVIDIA_DRIVER_CAPABILITIES",
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
        reads: "the newest CUDA that the driver runs according to NVML, the default toolkit, the oldest driver for that toolkit",
        run: cuda::versions,
        needs: &[Sense::Libraries],
        runtime: false,
        facts_suffice: false,
        follows_from: &[CheckId::GS401],
    },
    Check {
        id: CheckId::GS709,
        reads: "the output of `nvcc --version`, and a small program compiled with nvcc and started",
        run: toolkit::answers,
        needs: &[Sense::Nvcc, Sense::Compiled],
        runtime: false,
        facts_suffice: false,
        follows_from: &[CheckId::GS503],
    },
    Check {
        id: CheckId::GS704,
        reads: "/etc/environment, /etc/profile, /etc/profile.d",
        run: toolkit::library_path,
        needs: &[Sense::LibraryPaths],
        runtime: false,
        facts_suffice: false,
        follows_from: &[CheckId::GS507],
    },
    Check {
        id: CheckId::GS705,
        reads: "the result of compiling a small program; gcc's version, the database's limit for each toolkit, NVCC_CCBIN in /etc/profile.d",
        run: toolkit::host_compiler,
        needs: &[Sense::Compiled, Sense::HostCompiler],
        runtime: false,
        facts_suffice: false,
        follows_from: &[CheckId::GS102],
    },
    Check {
        id: CheckId::GS701,
        reads: "the link PREFIX/cuda, the nvcc that a login shell and a plain shell find, lines about toolkits in files of shells and of the loader",
        run: toolkit::on_path,
        needs: &[Sense::Shells],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS702,
        reads: "the SONAME of every libcudnn*.so and the like, the links between them",
        run: add_on::links,
        needs: &[],
        runtime: false,
        facts_suffice: true,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS708,
        reads: "/etc/ld.so.conf, /etc/ld.so.cache, the libraries in the directories they name",
        run: add_on::cache,
        needs: &[Sense::LoaderDirectories, Sense::LoaderCache],
        runtime: false,
        facts_suffice: false,
        follows_from: &[CheckId::GS702, CheckId::GS701],
    },
    Check {
        id: CheckId::GS703,
        reads: "the result of cudnnGetVersion and the like in each library loaded by its SONAME, the add-ons on the host",
        run: add_on::winner,
        needs: &[
            Sense::AddOnVersions,
            Sense::LoaderDirectories,
            Sense::LoaderCache,
        ],
        runtime: false,
        facts_suffice: false,
        follows_from: &[CheckId::GS702, CheckId::GS708, CheckId::GS701],
    },
    Check {
        id: CheckId::GS710,
        reads: "the result of a small convolution",
        run: cuda::convolution,
        needs: &[Sense::KernelLog, Sense::Libraries],
        runtime: true,
        facts_suffice: false,
        follows_from: &[CheckId::GS505, CheckId::GS703],
    },
    Check {
        id: CheckId::GS716,
        reads: "the packages of Python environments: the caller's, the working directory's, and those in /opt and home directories",
        run: python::with_cuda,
        needs: &[Sense::Python],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS717,
        reads: "the CUDA that frameworks in Python environments are built for, the driver's version",
        run: python::for_driver,
        needs: &[Sense::Python],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS718,
        reads: "the frameworks in Python environments, the database's builds, the GPUs' compute capabilities",
        run: python::for_gpu,
        needs: &[Sense::Python],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS719,
        reads: "the requirements of frameworks in Python environments, NVIDIA's packages there, and their lists of files",
        run: python::required,
        needs: &[Sense::Python],
        runtime: false,
        facts_suffice: false,
        follows_from: &[],
    },
    Check {
        id: CheckId::GS720,
        reads: "RPATH and RUNPATH of frameworks' libraries, LD_LIBRARY_PATH of the caller, the loader's cache",
        run: python::own_libraries,
        needs: &[Sense::Python],
        runtime: false,
        facts_suffice: false,
        follows_from: &[CheckId::GS719],
    },
    // Last: it is never the cause of anything else.
    Check {
        id: CheckId::GS513,
        reads: "the versions of the driver, the CUDA toolkits and NVIDIA's container toolkit, the database's security bulletins",
        run: security::has_fixes,
        needs: &[Sense::Containers],
        runtime: false,
        facts_suffice: true,
        follows_from: &[],
    },
];

/// No command: the text alone is the advice.
const NOTHING: [&str; 0] = [];

/// Why the kernel side cannot be checked here, if so: the kernel belongs to another system, or no
/// NVIDIA driver is installed.
fn no_driver_of_its_own(seen: &Evidence) -> Option<Verdict> {
    let whose = match seen.facts.machine.kind {
        MachineKind::Container => gpusetup_causes::CONTAINER,
        MachineKind::Wsl2 => gpusetup_causes::WSL2,
        MachineKind::Jetson => gpusetup_causes::JETSON,
        MachineKind::Physical | MachineKind::Virtual => {
            return seen
                .facts
                .driver
                .is_none()
                .then(|| Verdict::skip("no NVIDIA driver is installed"));
        }
    };
    Some(Verdict::skip(whose))
}

/// The kernel that boots next, if its modules are installed.
fn next_kernel(seen: &Evidence) -> Option<&Kernel> {
    let release = seen.facts.kernel()?;
    seen.facts
        .kernels
        .installed
        .iter()
        .find(|k| k.release == release)
}
