//! What each id means and what helps: one text for plan, apply, doctor and explain, which all speak of the same causes.
//!
//! What differs from host to host is an argument. `explain` gives stand-ins for it, such as `KEY.der`.

use crate::compat::{Companion, ModuleFlavour, PackageManager, VersionRule};
use crate::ids::{CheckId, Rule, RuleId};
use crate::packages;
use crate::text::{quoted, quoted_path};
use crate::version::DriverVersion;
use std::fmt::{Display, Formatter};
use std::path::Path;

pub mod xid;

/// What stands behind an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// What is wrong where the id is printed: a sentence that begins in lower case and has no full stop, as refusals do.
    pub means: &'static str,
    /// Where gpusetup sees to it, if no check of doctor looks for it.
    pub elsewhere: Option<&'static str>,
    /// What helps. None where gpusetup takes care of it.
    pub remedy: Option<Remedy>,
}

/// What helps against a cause: words for a person, and commands for a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// What to do, in words.
    pub text: String,
    /// The commands that do it, in their order.
    pub commands: Vec<String>,
}

impl Remedy {
    /// These words, and these commands.
    pub fn new<S: Into<String>>(text: impl Into<String>, commands: impl IntoIterator<Item = S>) -> Self {
        Self { text: text.into(), commands: commands.into_iter().map(Into::into).collect() }
    }
}

/// In a line: the words, then the commands as a shell takes them.
impl Display for Remedy {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let colon = if self.commands.is_empty() { "" } else { ": " };
        write!(f, "{}{colon}{}", self.text, self.commands.join(" && "))
    }
}

impl Cause {
    fn new(means: &'static str) -> Self {
        Self { means, elsewhere: None, remedy: None }
    }

    /// No check of doctor looks for it, since gpusetup sees to it here.
    fn only(self, elsewhere: &'static str) -> Self {
        Self { elsewhere: Some(elsewhere), ..self }
    }

    fn fix<const N: usize>(self, text: &str, commands: [&str; N]) -> Self {
        self.helps(Remedy::new(text, commands))
    }

    fn helps(self, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..self }
    }
}

/// Under WSL2 (GS906).
pub const WSL2: &str = "under WSL2 the driver is the one of Windows, and none may be installed inside";

/// On a Jetson (GS907).
pub const JETSON: &str = "on a Jetson the driver comes with its board support package";

/// On a system whose /usr is an image (GS908).
pub const IMMUTABLE: &str = "this system's /usr is an image that packages and runfiles cannot change";

/// In a container (GS911).
pub const CONTAINER: &str = "a container shares its host's kernel: the kernel modules must be the host's";

/// A distribution whose packages the database does not know (GS410).
pub fn unknown_packages(system: &str) -> String {
    format!("the database does not know the packages of {system}")
}

/// Where the driver is not gpusetup's to install: what to ask for instead, and the options that ask for it.
pub const WITHOUT_DRIVER: (&str, &str) = ("leave the driver out", "--profile toolkit");

/// A GPU that a virtual machine has, or is to have (GS203).
pub fn held_for_vm(gpu: &str) -> String {
    format!("the GPU at {gpu} is bound to vfio-pci, for a virtual machine")
}

/// How the host gets a GPU back from there.
pub fn give_back(gpu: &str) -> Remedy {
    Remedy::new(
        "leave it there if that is wanted; else give the GPU back",
        [format!("echo {} | sudo tee /sys/bus/pci/drivers/vfio-pci/unbind", quoted(gpu))],
    )
}

/// Has the firmware know the key that signs modules (GS301): this certificate, or one that DKMS makes first.
pub fn enrol_key(certificate: Option<&Path>) -> Remedy {
    let made = certificate.is_none().then(|| "sudo dkms generate_mok".to_owned());
    let certificate = certificate.unwrap_or(Path::new(DKMS_KEY));
    let import = format!("sudo mokutil --import {}", quoted_path(certificate));
    let commands = made.into_iter().chain([import, "sudo reboot".to_owned()]);
    Remedy::new("enrol the key, reboot, and confirm it at the console", commands)
}

/// The certificate of the key that DKMS makes.
pub const DKMS_KEY: &str = "/var/lib/dkms/mok.pub";

/// Takes away a driver that a runfile installed over packages, or under them (GS401).
pub fn remove_runfile() -> Remedy {
    Remedy::new("remove the driver that the runfile installed", ["sudo nvidia-uninstall --silent"])
}

/// The last driver branch that knows a GPU (GS503).
pub fn last_branch(last: impl Display, gpu: &str) -> String {
    format!("branch {last} is the last that knows {gpu}")
}

/// The first driver branch that knows a GPU (GS503).
pub fn first_branch(first: impl Display, gpu: &str) -> String {
    format!("{gpu} needs branch {first} or newer")
}

/// The kernel modules that run a GPU, where the others do not (GS504).
pub fn needs_modules(gpu: &str, needed: ModuleFlavour) -> String {
    format!("{gpu} needs the {needed} kernel modules")
}

/// A GPU that the database does not know (GS503).
pub fn report_gpu(address: &str) -> Remedy {
    Remedy::new(
        "report the line that lspci prints for it, so that the database gets it",
        [format!("lspci -nn -s {}", quoted(address))],
    )
}

/// Headers that no repository of the host has (GS101).
pub fn no_headers(packages: &str) -> String {
    format!(
        "no repository of this host has {packages}: upgrade the kernel and reboot before apply, or enable the repository that \
         has it"
    )
}

/// Headers that a repository may have dropped (GS101).
pub fn old_headers(distribution: &str, manager: PackageManager, packages: &str) -> String {
    format!(
        "{distribution} keeps the headers of its newest kernels only: if {manager} does not find {packages}, upgrade the kernel \
         and reboot first, or enable the repository that has it"
    )
}

/// A driver that left no trace of who installed it (GS409).
pub fn unknown_origin(driver: impl Display, evidence: &str) -> String {
    format!(
        "nothing tells who installed driver {driver} ({evidence}), so nothing can tell which files are its own and may be removed"
    )
}

/// A toolkit that others may use (GS715).
pub fn outside_prefix(cuda: impl Display, path: &Path, prefix: &Path) -> String {
    let (path, prefix) = (path.display(), prefix.display());
    format!("CUDA {cuda} lies in {path}, outside of {prefix}: other hosts may use it, so it is left alone")
}

/// Modules that the kernel will not load (GS301): signed with this key, which is not enrolled, or with none.
pub fn unsigned(key: Option<&Path>) -> String {
    let why = match key {
        Some(key) => format!("the key {} is not enrolled", key.display()),
        None => "there is no key to sign modules with".to_owned(),
    };
    format!("Secure Boot is on and {why}: the driver's modules would not load")
}

/// Packages that dpkg was cut off from (GS603).
pub fn cut_off(packages: &[String]) -> String {
    format!("dpkg was cut off from {}, and installs nothing before it has finished", packages.join(", "))
}

/// Makes room on /boot (GS603).
pub fn unused_kernels(manager: Option<PackageManager>) -> Remedy {
    let remove = packages::of_host(manager).by_hand.remove_old_kernels;
    Remedy::new("remove kernels that are not used", [format!("sudo {remove}")])
}

/// Lists of packages that were never fetched, or are too old to tell anything.
pub fn fetch_lists(manager: Option<PackageManager>) -> Remedy {
    let refresh = packages::of_host(manager).by_hand.refresh;
    Remedy::new("fetch the lists of packages first", [format!("sudo {refresh}")])
}

/// The newest gcc that the nvcc of a toolkit takes, and the host's (GS705).
pub fn newest_gcc(most: u16, have: impl Display) -> String {
    format!("its nvcc takes gcc {most} at most; this host has gcc {have}")
}

/// The oldest driver that runs a toolkit's programs, and the host's (GS707).
pub fn oldest_driver(least: impl Display, have: impl Display) -> String {
    format!("it needs driver {least} or newer, not {have}")
}

/// Who needs a companion of this driver, and which version of it: `CUDA needs Fabric Manager of exactly driver 580.95.05` (GS801).
pub fn companion(of: &Companion, driver: DriverVersion) -> String {
    let needed = format!("{} {}", of.who_needs, of.title);
    match of.version {
        VersionRule::Driver => format!("{needed} of exactly driver {driver}"),
        VersionRule::Branch => format!("{needed} of driver branch {}", driver.branch),
        VersionRule::Own => needed,
    }
}

/// A driver that programs use (GS502).
pub fn stop_users() -> Remedy {
    Remedy::new("stop what uses the driver first", ["sudo fuser -v /dev/nvidia*"])
}

/// A bundle that lacks what a plan needs (GS601).
pub fn bundle_again() -> Remedy {
    Remedy::new("make a bundle of this plan", ["gpusetup bundle create --plan PLAN.json -o BUNDLE.tar.zst"])
}

/// A file system on which nothing may be executed (GS602).
pub const NO_EXEC: &str =
    "name a directory on another file system with --cache, or remount this one (mount -o remount,exec)";

/// The id that doctor has for what a rule refuses.
pub fn of_rule(rule: Rule) -> Option<CheckId> {
    let rule = match rule {
        Rule::Of(rule) => rule,
        Rule::DriverHas(_) => return Some(CheckId::GS801),
        Rule::AddOn(..) | Rule::CudaHas(_) => return None,
    };
    match rule {
        RuleId::DriverKnowsGpu | RuleId::GpuKnown => Some(CheckId::GS503),
        RuleId::DriverHasModules => Some(CheckId::GS504),
        RuleId::DriverRunsOnKernel => Some(CheckId::GS107),
        RuleId::CudaHostCompiler | RuleId::CudaHostHeaders => Some(CheckId::GS705),
        RuleId::CudaRunsOnDriver => Some(CheckId::GS707),
        RuleId::GpuHasBoardDriver => Some(CheckId::GS907),
        RuleId::GpuFitsMachine => Some(CheckId::GS512),
        RuleId::GpuIsPhysical => Some(CheckId::GS910),
        RuleId::DriverMethod
        | RuleId::DriverReleaseKind
        | RuleId::DriverBranchLife
        | RuleId::DriverWanted
        | RuleId::DriverPublished
        | RuleId::DriverKept
        | RuleId::DriverPreference
        | RuleId::ModulesWanted
        | RuleId::ModulesFitGpu
        | RuleId::ModulesDefault
        | RuleId::MethodKept
        | RuleId::MethodPackages
        | RuleId::MethodRunfile
        | RuleId::MethodWanted
        | RuleId::CudaTargetsGpu
        | RuleId::CudaNativeDriver
        | RuleId::CudaCLibrary
        | RuleId::CudaComponents
        | RuleId::CudaWanted
        | RuleId::CudaPublished
        | RuleId::CudaKept
        | RuleId::FrameworkKnown
        | RuleId::FrameworkPublished
        | RuleId::FrameworkLoads
        | RuleId::FrameworkRunsOnGpu
        | RuleId::FrameworkBuild
        | RuleId::FrameworkBeside
        | RuleId::FrameworksTogether
        | RuleId::GpuPresent
        | RuleId::Architecture
        | RuleId::System
        | RuleId::AssumedFact
        | RuleId::Request
        | RuleId::Blocked => None,
    }
}

/// The ids that no check of doctor looks for, each with where gpusetup sees to it.
pub fn elsewhere() -> impl Iterator<Item = (CheckId, &'static str)> {
    CheckId::ALL.iter().filter_map(|id| Some((*id, of(*id).elsewhere?)))
}

/// What stands behind an id.
pub fn of(id: CheckId) -> Cause {
    match id {
        CheckId::GS101 => Cause::new(
            "the headers of a kernel are not installed, or no enabled repository has them: DKMS cannot build the driver's \
             modules for that kernel",
        )
        .fix("install them; if no repository has them any more, upgrade the kernel and reboot", ["gpusetup plan"]),
        CheckId::GS102 => Cause::new(
            "the kernel was built with a gcc that is not installed: modules that another gcc builds may not compile",
        )
        .fix("install the gcc that the kernel was built with, then let DKMS build", ["sudo gpusetup doctor --fix"]),
        CheckId::GS103 => Cause::new(
            "the kernel is newer than those the driver's modules are known to build on: the build may fail",
        )
        .only("plan only: it warns before anything is built")
        .fix("boot an older kernel, or choose a newer driver", ["gpusetup plan --driver latest"]),
        CheckId::GS104 => Cause::new(
            "a kernel has no nvidia module, or one of another version than the driver's libraries: the driver does not work \
             when that kernel runs",
        )
        .fix("let DKMS build the module for it", ["sudo gpusetup doctor --fix"]),
        CheckId::GS105 => Cause::new(
            "the kernel that will run is not one of the distribution's packages: no package has its headers",
        )
        .only("plan only: it warns that no package has its headers")
        .fix("get the headers from whoever built the kernel", []),
        CheckId::GS106 => Cause::new(
            "DKMS builds the driver's modules from several sources: the one that is built last wins",
        )
        .fix("remove those that belong to no driver", ["dkms status"]),
        CheckId::GS107 => Cause::new("the kernel is older than the driver branch supports")
            .only("plan only: such a branch is refused")
            .fix("boot a newer kernel, or choose an older branch", ["gpusetup plan"]),
        CheckId::GS201 => Cause::new(
            "the driver nouveau has a GPU, or takes it at the next boot: NVIDIA's driver gets it only when nouveau is kept \
             out, in the initramfs too",
        )
        .fix("keep nouveau out, then reboot", ["sudo gpusetup doctor --fix", "sudo reboot"]),
        CheckId::GS202 => Cause::new(
            "the driver nova has a GPU, or takes it at the next boot: NVIDIA's driver gets it only when nova is kept out, in \
             the initramfs too",
        )
        .fix("keep nova out, then reboot", ["sudo gpusetup doctor --fix", "sudo reboot"]),
        CheckId::GS203 => Cause::new(
            "a GPU is bound to vfio-pci, for a virtual machine: programs of this host do not see it, and plan leaves it \
             alone",
        )
        .helps(give_back("ADDRESS")),
        CheckId::GS301 => Cause::new(
            "the kernel loads signed modules only, as under Secure Boot, and the driver's modules are not signed or the \
             firmware does not have the key: they do not load",
        )
        .helps(enrol_key(Some(Path::new("KEY.der")))),
        CheckId::GS302 => Cause::new("a package asks for a password for Secure Boot's key, and nobody can answer")
            .only("apply only: no child has anybody to ask"),
        CheckId::GS401 => Cause::new(
            "two drivers are installed over each other, or would be: packages and NVIDIA's runfile overwrite each other's \
             files",
        )
        .helps(remove_runfile()),
        CheckId::GS402 => Cause::new(
            "packages exclude each other: to install or remove some, the package manager would take others along",
        )
        .only("plan and apply only: the transaction is simulated first")
        .fix("keep the packages of one vendor", ["gpusetup plan"]),
        CheckId::GS403 => Cause::new("a version is asked of a meta-package only, whose dependencies come in another one")
            .only("plan only: the packages are named, none by a meta-package"),
        CheckId::GS404 => Cause::new(
            "apt does not have the key of one of NVIDIA's repositories, or does not accept it: lists and packages cannot be \
             fetched from there",
        )
        .helps(look("install NVIDIA's current keyring package", id)),
        CheckId::GS405 => Cause::new("the lists of another repository cannot be fetched")
            .only("apply only: lists that cannot be had are no failure unless they are needed"),
        CheckId::GS406 => Cause::new("a mirror does not have what its own lists name")
            .only("apply only: lists are fetched once more, then exit 6")
            .fix("try again later", ["sudo gpusetup resume"]),
        CheckId::GS407 => Cause::new("the driver is installed without nvidia-smi, which is in a separate package")
            .fix("install the package of the driver's programs", ["sudo gpusetup doctor --fix"]),
        CheckId::GS408 => Cause::new("a program reports success, and what it was to do was not done")
            .only("apply only: the host is asked, no exit status is believed"),
        CheckId::GS409 => Cause::new(
            "nothing tells who installed the driver, so nothing can tell which files are its own and may be removed",
        )
        .only("uninstall only: it refuses"),
        CheckId::GS410 => Cause::new(
            "the database does not know the packages of this distribution or release: it takes those of a relative, or none",
        )
        .only("plan only: it warns, and refuses where it cannot do without")
        .fix("install the tools that the plan names, then plan again", ["gpusetup plan"]),
        CheckId::GS411 => Cause::new("a package that the plan needs comes from a repository that is not enabled here")
            .only("plan only: it warns with the command that enables it"),
        CheckId::GS501 => Cause::new(
            "the driver that the kernel has loaded is not the one that is installed, or does not have the GPUs: programs \
             fail, or use the old one until the next boot",
        )
        .fix("reboot; doctor names the cause if it stays", ["sudo reboot", "gpusetup doctor"]),
        CheckId::GS502 => Cause::new("programs use the driver that is to be replaced or removed")
            .only("apply only: it names who uses it, and refuses")
            .helps(stop_users()),
        CheckId::GS503 => Cause::new(
            "the driver does not know a GPU: its branch is too new or too old for it, or the GPU is in no list that the \
             database has",
        )
        .fix("install a branch that knows it", ["gpusetup plan"]),
        CheckId::GS504 => Cause::new(
            "the kernel modules are of a flavour that does not run a GPU: some GPUs need the open ones, others the \
             proprietary ones",
        )
        .fix("install the other flavour", ["gpusetup plan --modules open", "gpusetup plan --modules proprietary"]),
        CheckId::GS505 => Cause::new("CUDA does not start, or computes wrongly on a GPU, whatever nvidia-smi says")
            .helps(look("see what the kernel and CUDA say", id)),
        CheckId::GS506 => Cause::new(
            "/dev/nvidia-uvm is missing, and nothing makes it: nvidia-smi works, and CUDA does not (error 999)",
        )
        .fix("load the module", ["sudo modprobe nvidia-uvm"]),
        CheckId::GS507 => Cause::new(
            "programs get a libcuda that is not the driver's: one for linking only, or that of another driver",
        )
        .fix(
            "take its directory out of the loader's path",
            ["grep -rnE 'stubs|compat' /etc/ld.so.conf /etc/ld.so.conf.d", "sudo ldconfig"],
        ),
        CheckId::GS508 => Cause::new("the driver is loaded, and does not answer for all GPUs when NVML asks")
            .fix("see what the kernel says", ["sudo dmesg | grep NVRM"]),
        CheckId::GS509 => Cause::new("the driver is installed or loaded, and no NVIDIA GPU is on the PCI bus")
            .fix("switch the host off and on again if it has one", ["lspci -d 10de:", "sudo poweroff"]),
        CheckId::GS510 => Cause::new("the driver branch reached its end of life: NVIDIA fixes nothing in it any more")
            .only("plan only: it warns; a GPU may know no newer branch"),
        CheckId::GS511 => Cause::new(
            "there is an NVIDIA GPU whose model could not be read, so nothing can be chosen for it",
        )
        .only("plan only: the GPU is left out, or the plan is refused")
        .fix("list the GPUs with numbers", ["lspci -nn | gpusetup plan --lspci -"]),
        CheckId::GS512 => Cause::new("the GPU exists only in machines of another architecture")
            .only("plan only: a driver for it is refused")
            .fix("plan for the facts of such a machine", ["gpusetup plan --facts FACTS.json"]),
        CheckId::GS601 => Cause::new("what is needed cannot be fetched: there is no network, or a bundle lacks it")
            .only("apply only: everything may come from a mirror or a bundle; what that lacks is named before the first change")
            .helps(bundle_again()),
        CheckId::GS602 => Cause::new(
            "a directory that the work needs has too little room, or nothing in it may be executed",
        )
        .only("plan and apply only: looked at before the first change")
        .fix(NO_EXEC, ["sudo gpusetup apply --cache DIR"]),
        CheckId::GS603 => Cause::new(
            "the package manager was cut off, or /boot has too little room for the next initramfs, which the driver's \
             firmware makes larger",
        )
        .helps(unused_kernels(None)),
        CheckId::GS604 => Cause::new("needrestart, debconf or dpkg asks a question during an install")
            .only("apply only: no child has anybody to ask"),
        CheckId::GS605 => Cause::new("another program holds the package manager's lock, as on the first boot")
            .only("apply only: waited for, with the holder's name")
            .fix("wait longer", ["sudo gpusetup apply --lock-timeout 3600"]),
        CheckId::GS606 => Cause::new("HOME and PATH are not set, as under cloud-init, systemd and cron")
            .only("apply only: children get a separate environment"),
        CheckId::GS701 => Cause::new(
            "the default toolkit is missing or leads nowhere, or login shells do not find its nvcc, or find another one",
        )
        .fix("lead the link and PATH to it", ["sudo gpusetup doctor --fix"]),
        CheckId::GS702 => Cause::new("a link between cuDNN's libraries is missing, leads nowhere, or is a copy")
            .fix("make the links again", ["sudo gpusetup doctor --fix"]),
        CheckId::GS703 => Cause::new("programs get another cuDNN than the one in the default toolkit, or none")
            .fix("take the other one's directory out of the loader's path", ["ldconfig -p | grep libcudnn"]),
        CheckId::GS704 => Cause::new(
            "LD_LIBRARY_PATH is set for everybody: programs that bring their own libraries get others instead",
        )
        .fix("take it out: the loader's cache finds the toolkit", ["grep -rn LD_LIBRARY_PATH /etc/environment /etc/profile.d"]),
        CheckId::GS705 => Cause::new(
            "nvcc does not take the host's gcc, or the headers of its C library: they are newer or older than it supports",
        )
        .fix("choose a CUDA that supports them, or install another gcc", ["gpusetup plan --profile toolkit --cuda latest"]),
        CheckId::GS706 => Cause::new("PATH leads to the distribution's nvcc before the toolkit's")
            .only("doctor looks for it with the default toolkit"),
        CheckId::GS707 => Cause::new("the driver is older than the toolkit's programs need")
            .fix("install a newer driver, or an older toolkit", ["gpusetup plan --upgrade"]),
        CheckId::GS708 => Cause::new(
            "the loader's cache does not have cuDNN's libraries as they are, so programs find old ones or none",
        )
        .fix("make the cache again", ["sudo ldconfig"]),
        CheckId::GS709 => Cause::new("a toolkit's nvcc does not run, or what it compiles does not start")
            .fix("install the toolkit again", ["gpusetup plan --profile toolkit"]),
        CheckId::GS710 => Cause::new("cuDNN does not start, or a convolution has a wrong result")
            .fix("install cuDNN's files again", ["sudo gpusetup apply --profile toolkit"]),
        CheckId::GS711 => Cause::new(
            "NVIDIA's installation guide does not list this system for the toolkit: it may work, and NVIDIA does not test it",
        )
        .only("plan only: it warns"),
        CheckId::GS712 => Cause::new(
            "a toolkit was chosen although no GPU is known here: it may be too new or too old for the GPU",
        )
        .only("plan only: it warns")
        .fix("name the GPU", ["gpusetup plan --gpu 'gtx 1060'"]),
        CheckId::GS713 => Cause::new(
            "the framework's wheels run on this GPU with a limit: their kernels are compiled at the first start, or failures \
             are reported",
        )
        .only("plan only: it warns"),
        CheckId::GS714 => Cause::new(
            "the toolkit's directory has another CUDA, or the same one installed in another way: what is left of it would \
             be taken for the new one",
        )
        .only("plan only: it refuses")
        .fix("keep what is there, or remove it first", ["sudo gpusetup uninstall --cuda 12.8"]),
        CheckId::GS715 => Cause::new("the toolkit is not below the prefix: other hosts may use it, so it is left alone")
            .only("uninstall only: it refuses")
            .fix("name the directory that it is in", ["sudo gpusetup uninstall --cuda 12.8 --prefix DIR"]),
        CheckId::GS801 => Cause::new(
            "NVSwitches join the GPUs, and CUDA needs Fabric Manager of exactly the driver's version: it is missing, differs \
             or does not run (error 802)",
        )
        .fix("install it in that version, and start it", ["sudo systemctl enable --now nvidia-fabricmanager"]),
        CheckId::GS802 => Cause::new("MIG was switched on or off, and the GPU was not reset since")
            .fix("stop what uses the GPU, then reset it", ["sudo nvidia-smi --gpu-reset"]),
        CheckId::GS803 => Cause::new(
            "containers do not get the GPUs: NVIDIA's container toolkit is missing, or what it wrote is of another driver",
        )
        .fix("have it written again", ["sudo gpusetup doctor --fix"]),
        CheckId::GS901 => Cause::new("the firmware gives a GPU no room for its memory in the address space")
            .fix("switch on \"Above 4G Decoding\" in the firmware's setup", []),
        CheckId::GS902 => Cause::new(
            "the IOMMU or ACS sends traffic between GPUs by way of the processor: it is slow, and may fail",
        )
        .fix("put iommu=pt on the kernel's command line, and switch ACS off in the firmware's setup", []),
        CheckId::GS903 => Cause::new("the kernel's log or NVML tells of a fault of a GPU or an NVSwitch (Xid, SXid)")
            .fix("see what NVIDIA says of its number", ["sudo dmesg | grep -E 'Xid|NVRM'"]),
        CheckId::GS904 => Cause::new("a GPU has memory errors, or is slowed down by heat or power")
            .fix("see what the GPU says", ["nvidia-smi -q -d ECC,ROW_REMAPPER,PERFORMANCE"]),
        CheckId::GS905 => Cause::new("the driver drops a GPU that nobody uses, and takes seconds to bring it up again")
            .fix("run the persistence daemon", ["sudo systemctl enable --now nvidia-persistenced"]),
        CheckId::GS906 => not_ours(WSL2),
        CheckId::GS907 => not_ours(JETSON),
        CheckId::GS908 => not_ours(IMMUTABLE),
        CheckId::GS909 => Cause::new(
            "the kernel counts the GPUs' memory as the host's: Kubernetes reports too much, and pods are limited wrongly",
        )
        .helps(look("set NVreg_CoherentGPUMemoryMode=driver for the nvidia module, then reboot", id)),
        CheckId::GS910 => Cause::new(
            "the GPU is a virtual one (vGPU), which needs NVIDIA's guest driver (GRID): gpusetup does not install that",
        )
        .only("plan only: a driver for it is refused")
        .helps(without_driver("install the guest driver from the cloud provider or NVIDIA, then the toolkit alone")),
        CheckId::GS911 => Cause::new(CONTAINER)
            .only("plan only: it warns")
            .helps(without_driver(WITHOUT_DRIVER.0)),
    }
}

/// Where only the host can tell which commands help.
fn look(text: &str, id: CheckId) -> Remedy {
    Remedy::new(text, [format!("sudo gpusetup doctor {id}")])
}

/// Hosts whose driver gpusetup does not install.
fn not_ours(means: &'static str) -> Cause {
    Cause::new(means).only("plan only: a driver is refused").helps(without_driver(WITHOUT_DRIVER.0))
}

fn without_driver(text: &str) -> Remedy {
    Remedy::new(text, [format!("gpusetup plan {}", WITHOUT_DRIVER.1)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn an_id_has_one_meaning_and_a_meaning_one_id() {
        let (mut titles, mut meanings) = (BTreeSet::new(), BTreeSet::new());
        for id in CheckId::ALL {
            let cause = of(*id);
            assert!(titles.insert(id.title()) && meanings.insert(cause.means), "{id} says what another id says");
            let is_whole = !cause.means.contains("  ") && !cause.means.ends_with('.');
            assert!(cause.means.len() > 30 && is_whole, "{id}: {}", cause.means);
        }
    }

    #[test]
    fn a_remedy_is_a_line_for_a_shell() {
        let shown = enrol_key(None).to_string();
        assert!(shown.ends_with(
            "console: sudo dkms generate_mok && sudo mokutil --import /var/lib/dkms/mok.pub && sudo reboot"
        ));
        assert_eq!(Remedy::new("wait", [""; 0]).to_string(), "wait");
    }
}
