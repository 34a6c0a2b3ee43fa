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

use super::probe::Probe;
use super::{Area, Case, Verdict};
use gpusetup_host::{Kernel, MachineKind};
use gpusetup_text::ids::CheckId;

/// A check.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its id. A plan's warning about the same problem has the same id.
    pub id: CheckId,
    /// The part of the stack that it checks.
    pub(crate) area: Area,
    /// What it reads, for `--list-checks`.
    pub reads: &'static str,
    /// From evidence to verdict.
    pub(crate) run: fn(&Case) -> Verdict,
    /// The probes that it needs. If one of them failed, the check ends in an error.
    pub(crate) needs: &'static [Probe],
    /// Whether the state it checks can change at run time, not only when something is installed.
    pub runtime: bool,
    /// Whether a file of facts is enough to run it: what it reads is in the facts, or is an
    /// [`Answer`](super::Answer) that can be `NotAsked`.
    pub(crate) facts_suffice: bool,
    /// Checks whose failure may cause this one's, nearest first.
    pub follows_from: &'static [CheckId],
}

impl Check {
    const fn new(id: CheckId, area: Area, run: fn(&Case) -> Verdict) -> Self {
        Self {
            id,
            area,
            run,
            reads: "",
            needs: &[],
            runtime: false,
            facts_suffice: false,
            follows_from: &[],
        }
    }

    const fn reads(mut self, reads: &'static str) -> Self {
        self.reads = reads;
        self
    }

    const fn needs(mut self, needs: &'static [Probe]) -> Self {
        self.needs = needs;
        self
    }

    const fn at_runtime(mut self) -> Self {
        self.runtime = true;
        self
    }

    const fn facts_suffice(mut self) -> Self {
        self.facts_suffice = true;
        self
    }

    const fn follows(mut self, causes: &'static [CheckId]) -> Self {
        self.follows_from = causes;
        self
    }

    /// The thing that is checked.
    pub fn title(&self) -> &'static str {
        self.id.title()
    }
}

/// All checks.
pub const CHECKS: &[Check] = {
    use CheckId::*;
    use Probe::*;
    &[
        Check::new(GS603, Area::Packages, packages::done)
            .reads("dpkg's record, the free space on /boot, the size of the initramfs images, DKMS's logs of failed builds")
            .needs(&[Images, DkmsLogs])
            .follows(&[GS104]),
        Check::new(GS608, Area::Packages, packages::wholly_read)
            .reads("what every other check reads, and the limits of gpusetup")
            .facts_suffice(),
        Check::new(GS404, Area::Packages, repositories::keys)
            .reads("apt's repository lists, their keys, apt's key policy")
            .needs(&[Apt]),
        Check::new(GS503, Area::Gpu, driver::knows_gpus)
            .reads("the GPUs' PCI ids, the database's driver branches, the driver's version, the kernel's log")
            .needs(&[KernelLog])
            .facts_suffice(),
        Check::new(GS203, Area::Gpu, rivals::vfio)
            .reads("the kernel driver bound to each GPU in /sys/bus/pci/devices, the kernel's log")
            .needs(&[KernelLog])
            .at_runtime()
            .facts_suffice(),
        Check::new(GS906, Area::Driver, machines::wsl)
            .reads("on WSL2: /dev/dxg, /usr/lib/wsl/lib, the installed driver, /etc/ld.so.cache")
            .needs(&[Machine, LoaderCache])
            .facts_suffice(),
        Check::new(GS907, Area::Driver, machines::jetson)
            .reads("on a Jetson: /etc/nv_tegra_release, the installed driver and toolkits, the database's JetPacks")
            .facts_suffice(),
        Check::new(GS908, Area::Driver, machines::image)
            .reads("os-release, the files of image-based systems, the installed driver")
            .facts_suffice(),
        Check::new(GS914, Area::Driver, machines::vendors)
            .reads("/etc/dgx-release, how the driver was installed")
            .facts_suffice(),
        Check::new(GS913, Area::Gpu, machines::outside)
            .reads("/sys/bus/thunderbolt/devices, `removable` of each GPU on the PCI bus")
            .at_runtime()
            .facts_suffice(),
        Check::new(GS401, Area::Driver, driver::one_origin)
            .reads("dpkg's record, the runfile's log and uninstaller, the versions of libcuda.so")
            .facts_suffice()
            .follows(&[GS603]),
        Check::new(GS101, Area::Kernel, kernel::headers)
            .reads("/lib/modules/KERNEL/build, DKMS's record")
            .needs(&[Dkms, Headers]),
        Check::new(GS102, Area::Kernel, kernel::compiler)
            .reads("the kernel's configuration, gcc and gcc-N in /usr/bin")
            .needs(&[Dkms]),
        Check::new(GS106, Area::Kernel, kernel::one_tree)
            .reads("/var/lib/dkms")
            .needs(&[Dkms]),
        Check::new(GS104, Area::Kernel, kernel::modules)
            .reads("nvidia.ko in /lib/modules/KERNEL, its version, the driver's version, DKMS's logs of failed builds")
            .needs(&[Dkms, DkmsLogs])
            .facts_suffice()
            .follows(&[GS101, GS102, GS603, GS401, GS106]),
        Check::new(GS504, Area::Kernel, driver::flavour)
            .reads("the module's licence, the database's GPUs, the kernel's log")
            .needs(&[KernelLog])
            .facts_suffice()
            .follows(&[GS503]),
        Check::new(GS301, Area::Kernel, secure_boot::secure_boot)
            .reads("Secure Boot's EFI variables, the module's signer, the kernel's log")
            .needs(&[KernelLog, Signer, SigningKey])
            .facts_suffice()
            .follows(&[GS104]),
        Check::new(GS201, Area::Kernel, rivals::nouveau)
            .reads("the kernel driver bound to each GPU, modprobe's configuration, each kernel's initramfs")
            .needs(&[KernelLog, Denials, Images])
            .facts_suffice()
            .follows(&[GS603]),
        Check::new(GS202, Area::Kernel, rivals::nova)
            .reads("the kernel driver bound to each GPU, modprobe's configuration, each kernel's initramfs, the kernel's log")
            .needs(&[KernelLog, Denials, Images])
            .facts_suffice()
            .follows(&[GS603]),
        Check::new(GS204, Area::Driver, driver::may_load)
            .reads("modprobe's configuration, the kernel's command line, /proc/modules")
            .needs(&[Denials]),
        Check::new(GS901, Area::Gpu, log::room)
            .reads("the kernel's log")
            .needs(&[KernelLog])
            .at_runtime()
            .facts_suffice(),
        Check::new(GS903, Area::Gpu, log::faults)
            .reads("Xids, failed GPU initialisations, GPUs off the bus and NVSwitch errors in the kernel's log since the last boot; GPUs that NVML reports as lost")
            .needs(&[KernelLog, Libraries])
            .at_runtime()
            .facts_suffice()
            .follows(&[GS901, GS503, GS504]),
        Check::new(GS509, Area::Gpu, driver::on_the_bus)
            .reads("/sys/bus/pci/devices, whether the driver is installed or loaded, the kernel's log")
            .needs(&[KernelLog, Libraries, ModuleAge, Given])
            .at_runtime()
            .facts_suffice()
            .follows(&[GS903, GS913]),
        Check::new(GS501, Area::Driver, driver::loaded)
            .reads("/sys/module/nvidia/version, the version of libcuda.so, the module of the kernel that boots next, the driver bound to each GPU, the kernel's log, NVML")
            .needs(&[KernelLog, Libraries, ModuleAge])
            .at_runtime()
            .facts_suffice()
            .follows(&[GS204, GS503, GS504, GS104, GS201, GS202, GS301, GS203, GS401, GS901, GS903, GS908]),
        Check::new(GS508, Area::Driver, nvml::answers)
            .reads("whether NVML starts, and which GPUs it lists")
            .needs(&[Libraries])
            .at_runtime()
            .facts_suffice()
            .follows(&[GS903, GS501, GS401, GS603]),
        Check::new(GS904, Area::Gpu, nvml::health)
            .reads("NVML's report on each GPU: memory errors, remapped rows, retired pages, throttling")
            .needs(&[Libraries])
            .at_runtime()
            .facts_suffice()
            .follows(&[GS903]),
        Check::new(GS905, Area::Gpu, nvml::persistence)
            .reads("NVML's persistence mode, /run/nvidia-persistenced")
            .needs(&[Libraries])
            .at_runtime()
            .facts_suffice(),
        Check::new(GS802, Area::Gpu, nvml::mig)
            .reads("NVML's current and pending MIG mode, the instances, /etc/gpusetup/mig.yaml; which programs have the GPUs open")
            .needs(&[Libraries])
            .at_runtime()
            .facts_suffice(),
        Check::new(GS407, Area::Driver, packages::smi)
            .reads("/usr/bin/nvidia-smi")
            .needs(&[DriverPackages])
            .follows(&[GS603]),
        Check::new(GS506, Area::Driver, driver::devices)
            .reads("/dev/nvidia-uvm, /usr/bin/nvidia-modprobe")
            .needs(&[KernelLog, Libraries, ModuleAge])
            .at_runtime()
            .follows(&[GS501]),
        Check::new(GS521, Area::Driver, settings::settings)
            .reads("gpusetup's unit that sets the GPUs at each boot, NVML's reports about these settings")
            .needs(&[Settings])
            .at_runtime()
            .follows(&[GS501, GS508]),
        Check::new(GS801, Area::Driver, fabric::manager)
            .reads("the version of nv-fabricmanager, its unit, the driver's version, NVML's fabric state of each GPU")
            .needs(&[Libraries, FabricManager])
            .at_runtime()
            .facts_suffice()
            .follows(&[GS501]),
        Check::new(GS804, Area::Driver, rdma::gpudirect)
            .reads("/sys/class/infiniband, the kernel's symbols, the loaded modules, the flavour of the driver's modules")
            .at_runtime()
            .facts_suffice()
            .follows(&[GS501]),
        Check::new(GS805, Area::Driver, companions::run)
            .reads("DCGM's service and its log, the loaded modules, DKMS's log of nvidia-fs, the driver's version")
            .needs(&[Companions])
            .at_runtime()
            .follows(&[GS501]),
        Check::new(GS902, Area::Gpu, bus::speak_freely)
            .reads("the IOMMU's domain of each GPU, the ACS settings of PCI switches above them")
            .needs(&[Bus])
            .at_runtime(),
        Check::new(GS803, Area::Containers, containers::get_gpus)
            .reads("container engines, NVIDIA's container toolkit, the engines' configuration, the report of a running docker daemon, CDI specifications")
            .needs(&[Containers])
            .follows(&[GS603, GS401]),
        Check::new(GS810, Area::Containers, cluster::pods)
            .reads("what runs pods, its configuration, the runtime classes of the cluster (--ready k8s)")
            .needs(&[Cluster, Containers])
            .at_runtime()
            .follows(&[GS803]),
        Check::new(GS811, Area::Containers, cluster::one_driver)
            .reads("/run/nvidia/driver, the installed driver (--ready k8s)")
            .needs(&[Cluster])
            .at_runtime(),
        Check::new(GS812, Area::Containers, cluster::gres)
            .reads("the output of slurmd -G, the device files of the GPUs as NVML reports them (--ready slurm)")
            .needs(&[Cluster])
            .at_runtime()
            .follows(&[GS501]),
        Check::new(GS813, Area::Containers, cluster::confined)
            .reads("slurm.conf, cgroup.conf (--ready slurm)")
            .needs(&[Cluster])
            .at_runtime(),
        Check::new(GS909, Area::Gpu, containers::count_memory)
            .reads("whether a kubelet is installed, the nvidia module's parameters")
            .needs(&[Coherent]),
        Check::new(GS912, Area::Gpu, machines::two_gpus)
            .reads("on a laptop with a desktop and two GPUs: the driver's graphics libraries, `modeset` of nvidia-drm")
            .needs(&[Machine])
            .follows(&[GS501]),
        Check::new(GS507, Area::Driver, toolkit::stubs)
            .reads("/etc/ld.so.cache, LD_LIBRARY_PATH in /etc/environment and /etc/profile.d")
            .needs(&[LoaderCache, LibraryPaths]),
        Check::new(GS505, Area::Driver, cuda::computes)
            .reads("whether CUDA's driver library starts, and the results of a test kernel; in a container /dev/nvidiactl, NVIDIA_VISIBLE_DEVICES and NVIDIA_DRIVER_CAPABILITIES")
            .needs(&[KernelLog, Libraries, Given])
            .at_runtime()
            .facts_suffice()
            .follows(&[GS903, GS503, GS501, GS508, GS904, GS506, GS801, GS507, GS802, GS401, GS603]),
        Check::new(GS707, Area::Toolkit, cuda::versions)
            .reads("the newest CUDA that the driver runs according to NVML, the default toolkit, the oldest driver for that toolkit")
            .needs(&[Libraries])
            .follows(&[GS401]),
        Check::new(GS709, Area::Toolkit, toolkit::answers)
            .reads("the output of `nvcc --version`, and a small program compiled with nvcc and started")
            .needs(&[Nvcc, Compiled])
            .follows(&[GS503]),
        Check::new(GS704, Area::Toolkit, toolkit::library_path)
            .reads("/etc/environment, /etc/profile, /etc/profile.d")
            .needs(&[LibraryPaths])
            .follows(&[GS507]),
        Check::new(GS705, Area::Toolkit, toolkit::host_compiler)
            .reads("the result of compiling a small program; gcc's version, the database's limit for each toolkit, NVCC_CCBIN in /etc/profile.d")
            .needs(&[Compiled, HostCompiler])
            .follows(&[GS102]),
        Check::new(GS701, Area::Toolkit, toolkit::on_path)
            .reads("the link PREFIX/cuda, the nvcc that a login shell and a plain shell find, lines about toolkits in files of shells and of the loader")
            .needs(&[Shells]),
        Check::new(GS702, Area::AddOns, add_on::links)
            .reads("the SONAME of every libcudnn*.so and the like, the links between them")
            .facts_suffice(),
        Check::new(GS708, Area::AddOns, add_on::cache)
            .reads("/etc/ld.so.conf, /etc/ld.so.cache, the libraries in the directories they name")
            .needs(&[LoaderDirectories, LoaderCache])
            .follows(&[GS702, GS701]),
        Check::new(GS703, Area::AddOns, add_on::winner)
            .reads("the result of cudnnGetVersion and the like in each library loaded by its SONAME, the add-ons on the host")
            .needs(&[AddOnVersions, LoaderDirectories, LoaderCache])
            .follows(&[GS702, GS708, GS701]),
        Check::new(GS710, Area::AddOns, cuda::convolution)
            .reads("the result of a small convolution")
            .needs(&[KernelLog, Libraries])
            .at_runtime()
            .follows(&[GS505, GS703]),
        Check::new(GS716, Area::Python, python::with_cuda)
            .reads("the packages of Python environments: the caller's, the working directory's, and those in /opt and home directories")
            .needs(&[Python]),
        Check::new(GS717, Area::Python, python::for_driver)
            .reads("the CUDA that frameworks in Python environments are built for, the driver's version")
            .needs(&[Python]),
        Check::new(GS718, Area::Python, python::for_gpu)
            .reads("the frameworks in Python environments, the database's builds, the GPUs' compute capabilities")
            .needs(&[Python]),
        Check::new(GS719, Area::Python, python::required)
            .reads("the requirements of frameworks in Python environments, NVIDIA's packages there, and their lists of files")
            .needs(&[Python]),
        Check::new(GS720, Area::Python, python::own_libraries)
            .reads("RPATH and RUNPATH of frameworks' libraries, LD_LIBRARY_PATH of the caller, the loader's cache")
            .needs(&[Python])
            .follows(&[GS719]),
        // Last: they are never the cause of anything else.
        Check::new(GS510, Area::Driver, security::is_maintained)
            .reads("the installed driver, the database's driver branches")
            .facts_suffice(),
        Check::new(GS513, Area::Driver, security::has_fixes)
            .reads("the versions of the driver, the CUDA toolkits and NVIDIA's container toolkit, the database's security bulletins")
            .needs(&[Containers])
            .facts_suffice(),
    ]
};

/// No command: the text alone is the advice.
const NOTHING: [&str; 0] = [];

/// Why the kernel side cannot be checked here, if so: the kernel belongs to another system, or no
/// NVIDIA driver is installed.
fn no_driver_of_its_own(case: &Case) -> Option<Verdict> {
    let whose = match case.seen.facts.machine.kind {
        MachineKind::Container => gpusetup_causes::CONTAINER,
        MachineKind::Wsl2 => gpusetup_causes::WSL2,
        MachineKind::Jetson => gpusetup_causes::JETSON,
        MachineKind::Physical | MachineKind::Virtual => {
            return case
                .seen
                .facts
                .driver
                .is_none()
                .then(|| Verdict::skip("no NVIDIA driver is installed"));
        }
    };
    Some(Verdict::skip(whose))
}

/// The kernel that boots next, if its modules are installed.
fn next_kernel<'a>(case: &'a Case) -> Option<&'a Kernel> {
    let release = case.seen.facts.kernel()?;
    case.seen
        .facts
        .kernels
        .installed
        .iter()
        .find(|k| k.release == release)
}
