//! The meaning of each id and its remedy: one text that plan, apply, doctor and explain share.
//!
//! Values that differ from host to host are arguments. `explain` passes placeholders, such as
//! `KEY.der`.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

use gpusetup_database::compat::{
    Bulletin, Companion, KeyByHand, ModuleFlavour, OnlySigner, PackageManager, VersionRule,
};
use gpusetup_database::version::{AddOnVersion, CudaVersion, DriverVersion};
use gpusetup_system::limits::Limit;
use gpusetup_text::ids::{CheckId, Rule, RuleId};
use gpusetup_text::text::{all_of, quoted, quoted_path};
use std::fmt::{Display, Formatter};
use std::path::Path;

pub mod gpus;
pub mod tree;
pub mod xid;

/// The meaning of an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The problem that the id stands for. Like a refusal, it begins in lower case and has no final
    /// full stop.
    pub means: &'static str,
    /// Which commands detect it, if no check of doctor does.
    pub elsewhere: Option<&'static str>,
    /// The remedy. None if gpusetup handles the problem itself.
    pub remedy: Option<Remedy>,
}

/// The remedy for a cause: a text for people, and commands for a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// What to do, in words.
    pub text: String,
    /// The commands that do it, in order.
    pub commands: Vec<String>,
}

impl Remedy {
    /// These words and commands.
    pub fn new<S: Into<String>>(
        text: impl Into<String>,
        commands: impl IntoIterator<Item = S>,
    ) -> Self {
        Self {
            text: text.into(),
            commands: commands.into_iter().map(Into::into).collect(),
        }
    }
}

/// On one line: the text, then the commands joined with `&&`, except after a reboot.
impl Display for Remedy {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let colon = if self.commands.is_empty() { "" } else { ": " };
        write!(f, "{}{colon}{}", self.text, line(&self.commands))
    }
}

/// The commands on one line. No shell goes on after a reboot: what follows it is another line.
fn line(commands: &[String]) -> String {
    commands
        .join(" && ")
        .replace("sudo reboot && ", "sudo reboot; after the reboot: ")
}

impl Cause {
    fn new(means: &'static str) -> Self {
        Self {
            means,
            elsewhere: None,
            remedy: None,
        }
    }

    /// Marks it as detected only by these commands, not by doctor.
    fn only(self, elsewhere: &'static str) -> Self {
        Self {
            elsewhere: Some(elsewhere),
            ..self
        }
    }

    fn fix<const N: usize>(self, text: &str, commands: [&str; N]) -> Self {
        self.helps(Remedy::new(text, commands))
    }

    fn helps(self, remedy: Remedy) -> Self {
        Self {
            remedy: Some(remedy),
            ..self
        }
    }
}

/// Under WSL2 (GS906).
pub const WSL2: &str = "under WSL2 Windows provides the driver; do not install one inside WSL2";

/// On a Jetson (GS907).
pub const JETSON: &str = "on a Jetson the board support package provides the driver";

/// On a system whose /usr is an image (GS908).
pub const IMMUTABLE: &str =
    "the system files are a read-only image: packages and runfiles cannot change them";
/// What to do there.
pub const OWN_TOOLS: &str = "have the system's own tools install the driver, as doctor says; a toolkit belongs in a container";

/// Where a toolkit goes on such a system: a container that this command enters, or else the image
/// of the containers that use it. A plan for the host itself would be refused, so none is named.
pub fn toolkit_in_container(enter: Option<&str>) -> Remedy {
    let text = match enter {
        Some(enter) => format!(
            "a toolkit belongs in a container there, with the driver of the host: enter one with `{enter}`, and run gpusetup in it"
        ),
        None => "a toolkit belongs in the image of the containers that use it, with the driver of the host: run gpusetup in their \
                 Containerfile"
            .to_owned(),
    };
    Remedy::new(text, [] as [String; 0])
}

/// A toolkit that such a system has itself, with the command that brings it.
pub fn own_toolkit(command: &str) -> Remedy {
    Remedy::new("a toolkit comes from the system itself", [command])
}

/// Authorises a Thunderbolt or USB4 device (GS913), of this name.
pub fn authorise(name: &str) -> Remedy {
    let text = format!("authorise {name}, if it is yours: it can read the memory of this host");
    Remedy::new(text, ["boltctl list", "sudo boltctl authorize DEVICE"])
}

/// In a container (GS911).
pub const CONTAINER: &str =
    "a container shares the host's kernel: install the kernel modules on the host";

/// What adds NVIDIA's repository, for a request that keeps to those that are enabled.
pub const ADD_REPOSITORY: &str = "have gpusetup add NVIDIA's repository, with its key and for the driver alone: --method repository";

/// A repository of NVIDIA's that is enabled and for another system, and the address of the right
/// one, if it is known (GS404).
pub fn another_systems(address: &str, right: Option<&str>, system: &str, arch: &str) -> String {
    let right = right.map(|url| format!(" ({url})")).unwrap_or_default();
    format!(
        "the enabled repository {address} is not NVIDIA's for {system} on {arch}{right}: its packages may not fit, and nothing is \
         chosen from it"
    )
}

/// How to get rid of it (GS404): its file gets a name that the package manager does not read.
pub fn disable_repository(
    address: &str,
    has_right: bool,
    manager: Option<PackageManager>,
) -> Remedy {
    let manager = gpusetup_packages::of_host(manager);
    let folder = manager
        .repositories
        .iter()
        .find(|files| files.ending.is_some())
        .map(|files| files.path);
    let after = if has_right {
        " (gpusetup can add the right one)"
    } else {
        ""
    };
    let disable = folder.map(|folder| {
        format!(
            "grep -rlF {} {folder} | sudo xargs -r -I{{}} mv {{}} {{}}.disabled",
            quoted(address)
        )
    });
    let refresh = format!("sudo {}", manager.by_hand.refresh);
    Remedy::new(
        format!("disable its file and plan again{after}"),
        disable.into_iter().chain([refresh]),
    )
}

/// A distribution whose packages are not in the database (GS410).
pub fn unknown_packages(system: &str) -> String {
    format!("the database does not know the packages of {system}")
}

/// The hint for hosts where gpusetup must not install a driver.
pub const WITHOUT_DRIVER: &str = "leave the driver out";

/// A GPU that is reserved for a virtual machine (GS203).
pub fn held_for_vm(gpu: &str) -> String {
    format!("the GPU at {gpu} is bound to vfio-pci, for a virtual machine")
}

/// Releases a GPU from vfio-pci.
pub fn give_back(gpu: &str) -> Remedy {
    Remedy::new(
        "if no virtual machine needs the GPU, release it",
        [format!(
            "echo {} | sudo tee /sys/bus/pci/drivers/vfio-pci/unbind",
            quoted(gpu)
        )],
    )
}

/// Enrols the key that signs modules (GS301): the one of this certificate.
pub fn enrol_key(certificate: &Path) -> Remedy {
    let import = format!("sudo mokutil --import {}", quoted_path(certificate));
    Remedy::new(
        "enrol the key, reboot, and confirm it at the console",
        [import, "sudo reboot".to_owned()],
    )
}

/// Installs the modules that the distribution signs for its kernel, in place of those that DKMS
/// built (GS301).
pub fn install_signed(
    manager: Option<PackageManager>,
    package: &str,
    replaces: Option<&str>,
) -> Remedy {
    let by_hand = &gpusetup_packages::of_host(manager).by_hand;
    let install = format!("sudo {} {package}", by_hand.install);
    let remove = replaces.map(|name| format!("sudo {} {name}", by_hand.remove));
    let commands = [install]
        .into_iter()
        .chain(remove)
        .chain(["sudo reboot".to_owned()]);
    Remedy::new(
        "install the modules that the distribution signs for this kernel: they need no key of your own",
        commands,
    )
}

/// Makes the key that signs modules, as the distribution's DKMS needs it, and enrols it (GS301).
pub fn make_key(by_hand: &KeyByHand) -> Remedy {
    let Remedy { text, commands } = enrol_key(Path::new(&by_hand.certificate));
    Remedy::new(text, by_hand.commands.iter().cloned().chain(commands))
}

/// Modules that the kernel will not load (GS301): it accepts those of one signer, whatever key is
/// enrolled.
pub fn not_of_only_signer(only: &OnlySigner, distribution: &str) -> String {
    format!(
        "Secure Boot is on, and {distribution} then loads only modules that {} signed: the driver's modules would not load",
        only.name
    )
}

/// What to do for a driver where only the modules of one signer load (GS301).
pub fn without_secure_boot(only: &OnlySigner) -> Remedy {
    Remedy::new(only.instead.as_str(), [] as [String; 0])
}

/// What somebody sees at the console when a key waits to be enrolled, and what they choose: the
/// screens of shim's MokManager.
pub const AT_THE_CONSOLE: &str = "Someone at the console must now enrol the key that signs the driver's modules:
  1. Reboot the host, and watch its own screen (or the console of its BMC or hypervisor).
  2. \"Press any key to perform MOK management\": press a key within 10 seconds.
  3. \"Perform MOK management\": choose Enroll MOK, then Continue.
  4. \"Enroll the key(s)?\": choose Yes, and type the one-time password shown above. The keyboard layout is US English.
  5. Choose Reboot.
If nobody answers in time, the host starts without the key, and the request is gone: run sudo gpusetup resume again.";

/// Where Slurm's configuration is, unless the host has it elsewhere.
pub const SLURM: &str = "/etc/slurm";

/// Has Slurm confine jobs to their devices (GS813), with its configuration in this folder. slurmd
/// reports an error for a setting that is there twice, so an older one goes.
pub fn constrain_devices(folder: &str) -> Remedy {
    Remedy::new(
        "confine jobs to their devices: set ConstrainDevices=yes in cgroup.conf",
        [
            format!("sudo touch {folder}/cgroup.conf"),
            format!(
                "sudo sed -i '/^[[:space:]]*ConstrainDevices[[:space:]]*=/Id' {folder}/cgroup.conf"
            ),
            format!("printf '\\nConstrainDevices=yes\\n' | sudo tee -a {folder}/cgroup.conf"),
        ],
    )
}

/// A key that nobody can enrol now (GS301).
pub fn nobody_to_enrol() -> String {
    "Secure Boot is on, and the key that signs the driver's modules is not enrolled: someone at the console must confirm it, and \
     this run is unattended"
        .to_owned()
}

/// A key that was not enrolled during the reboot (GS301).
pub fn not_enrolled(certificate: &Path) -> String {
    format!(
        "the key {} was not enrolled at the console, so the driver's modules would not load. Prepare it again at a terminal: sudo \
         gpusetup resume. Or undo what was done: sudo gpusetup rollback",
        certificate.display()
    )
}

/// A key that shim cannot enrol, because something else started the host (GS301).
pub const WITHOUT_SHIM: &str = "Secure Boot is on, and the host was started without shim, so its keys cannot be enrolled with mokutil";

/// Adds a certificate to the firmware's own list (GS301).
pub fn add_to_firmware(certificate: Option<&Path>) -> Remedy {
    let which = certificate.map_or_else(
        || "of your key".to_owned(),
        |path| path.display().to_string(),
    );
    Remedy::new(
        format!(
            "add the certificate {which} to db in the firmware's setup (or to the image, in a cloud), or turn Secure Boot off there"
        ),
        [] as [String; 0],
    )
}

/// Has the driver manage the memory of a superchip's GPU (GS909).
pub fn driver_manages_memory() -> Remedy {
    Remedy::new(
        "have the driver manage GPU memory, then reboot",
        [
            "sudo gpusetup apply --profile driver --module-option nvidia.NVreg_CoherentGPUMemoryMode=driver",
            "sudo reboot",
        ]
        .map(str::to_owned),
    )
}

/// A key that waits for somebody at the console (GS301).
pub fn confirm_key() -> Remedy {
    let text = "the key waits to be enrolled: reboot, and choose Enroll MOK at the console, with the password that was set for it";
    Remedy::new(text, ["sudo reboot"])
}

/// The certificate of the key that akmods makes and signs with.
pub const AKMODS_KEY: &str = "/etc/pki/akmods/certs/public_key.der";

/// Makes and enrols the key that akmods signs modules with (GS301).
pub fn enrol_akmods_key() -> Remedy {
    let import = format!("sudo mokutil --import {AKMODS_KEY}");
    let commands = [
        "sudo kmodgenca -a".to_owned(),
        import,
        "sudo reboot".to_owned(),
    ];
    Remedy::new(
        "akmods signs with a separate key: make it, enrol it, reboot, and confirm it at the console",
        commands,
    )
}

/// The certificate of the key that DKMS creates.
pub const DKMS_KEY: &str = "/var/lib/dkms/mok.pub";

/// Removes a driver that a runfile installed next to packages (GS401).
pub fn remove_runfile() -> Remedy {
    Remedy::new(
        "remove the driver that the runfile installed",
        ["sudo nvidia-uninstall --silent"],
    )
}

/// Two drivers whose files mix (GS401).
pub fn two_drivers(one: DriverVersion, other: DriverVersion) -> String {
    format!("two drivers are installed over each other: {one} and {other}")
}

/// Finds out which of two drivers is left over (GS401): by the packages that these files belong to.
pub fn left_over<'f>(
    files: impl IntoIterator<Item = &'f str>,
    manager: Option<PackageManager>,
) -> Remedy {
    let owner = gpusetup_packages::of_host(manager).by_hand.owner;
    let ask = files
        .into_iter()
        .map(|file| format!("sudo {owner} {}", quoted(file)));
    Remedy::new(
        "see which package a file belongs to, and remove the package or the file that is left over",
        ask,
    )
}

/// The last driver branch that supports a GPU (GS503).
pub fn last_branch(last: impl Display, gpu: &str) -> String {
    format!("branch {last} is the last that supports {gpu}")
}

/// The first driver branch that supports a GPU (GS503).
pub fn first_branch(first: impl Display, gpu: &str) -> String {
    format!("{gpu} needs branch {first} or newer")
}

/// The only flavour of kernel modules that runs a GPU (GS504).
pub fn needs_modules(gpu: &str, needed: ModuleFlavour) -> String {
    format!("{gpu} needs the {needed} kernel modules")
}

/// A GPU that is not in the database (GS503), by the option with which lspci selects it.
pub fn report_gpu(selects: &str) -> Remedy {
    Remedy::new(
        "report the line that lspci prints for it, so that it can be added to the database",
        [format!("lspci -nn {selects}")],
    )
}

/// Kernel headers that no repository of the host has (GS101).
pub fn no_headers(packages: &str) -> String {
    format!(
        "no enabled repository has {packages}: upgrade the kernel and reboot before apply, or enable the repository that \
         has it"
    )
}

/// Kernel headers that a repository may have dropped (GS101).
pub fn old_headers(distribution: &str, manager: PackageManager, packages: &str) -> String {
    format!(
        "{distribution} keeps only the headers of its newest kernels: if {manager} does not find {packages}, upgrade the kernel \
         and reboot first, or enable the repository that has it"
    )
}

/// A driver of unknown origin (GS409).
pub fn unknown_origin(driver: impl Display, evidence: &str) -> String {
    format!(
        "it is unknown how driver {driver} was installed ({evidence}), so gpusetup cannot tell which files to remove"
    )
}

/// What to do about it before another driver is installed.
pub const REMOVE_UNKNOWN_FIRST: &str =
    "Remove it first, the way it was installed: leftover files of one driver break the other";

/// What to do about it before the rest is uninstalled.
pub const REMOVE_UNKNOWN: &str = "remove the driver the way it was installed (by the program or the image that brought it), then \
                                  uninstall again";

/// A driver from packages, without the one that contains nvidia-smi (GS407).
pub const LACKS_SMI: &str =
    "the driver is installed without nvidia-smi, which is in a separate package";

/// A driver that no package manager installed, and that is incomplete (GS407).
pub fn without_smi(driver: impl Display) -> String {
    format!("driver {driver} was not installed from packages, and its nvidia-smi is missing")
}

/// What to do about it.
pub const INSTALL_AGAIN: &str = "install the same driver again the way it was installed: NVIDIA's runfile contains nvidia-smi. A \
                                 package with nvidia-smi would bring a second driver";

/// A line of modprobe's configuration or of the kernel's command line that keeps a module from
/// being loaded (GS204): at every attempt, or only during boot.
pub fn keeps_out(place: &str, module: &str, always: bool) -> String {
    let when = if always { "" } else { " during boot" };
    format!("{place} keeps the kernel module {module} from being loaded{when}")
}

/// What helps.
pub const LET_LOAD: &str = "remove these lines, rebuild the initramfs, then load the module";

/// What helps before the driver is installed, and in a tree.
pub const REMOVE_LINES: &str = "remove these lines, and rebuild the initramfs";

/// Which package has nvidia-smi (GS407).
pub const INSTALL_SMI: &str = "install the package that contains nvidia-smi, in the driver's version: nvidia-utils-BRANCH on \
                               Ubuntu, nvidia-smi on Debian, nvidia-driver-cuda on RHEL and its relatives";

/// A toolkit that other hosts may use (GS715).
pub fn outside_prefix(cuda: impl Display, path: &Path, prefix: &Path) -> String {
    let (path, prefix) = (path.display(), prefix.display());
    format!(
        "CUDA {cuda} is in {path}, outside {prefix}: other hosts may use it, so gpusetup does not remove it"
    )
}

/// Modules that the kernel will not load (GS301): their signing key is not enrolled, or there is
/// none.
pub fn unsigned(key: Option<&Path>) -> String {
    let why = match key {
        Some(key) => format!("the key {} is not enrolled", key.display()),
        None => "there is no key for signing modules".to_owned(),
    };
    format!("Secure Boot is on and {why}: the driver's modules would not load")
}

/// Packages that an interrupted dpkg left unfinished (GS603).
pub fn cut_off(packages: &[String]) -> String {
    format!(
        "dpkg was interrupted while installing {}; it must finish first",
        packages.join(", ")
    )
}

/// Frees space on /boot (GS603).
pub fn unused_kernels(manager: Option<PackageManager>) -> Remedy {
    let remove = gpusetup_packages::of_host(manager)
        .by_hand
        .remove_old_kernels;
    Remedy::new("remove unused kernels", [format!("sudo {remove}")])
}

/// Package lists that were never fetched, or are out of date.
pub fn fetch_lists(manager: Option<PackageManager>) -> Remedy {
    let refresh = gpusetup_packages::of_host(manager).by_hand.refresh;
    Remedy::new(
        "update the package lists first",
        [format!("sudo {refresh}")],
    )
}

/// The newest gcc that a toolkit's nvcc supports, and the host's gcc (GS705).
pub fn newest_gcc(most: u16, have: impl Display) -> String {
    format!("its nvcc supports gcc up to {most}; the system's gcc is {have}")
}

/// The oldest driver that runs a toolkit's programs, and the host's driver (GS707).
pub fn oldest_driver(least: impl Display, have: impl Display) -> String {
    format!("it needs driver {least} or newer, not {have}")
}

/// Who needs a companion of this driver, and its version: `CUDA needs Fabric Manager of exactly
/// driver 580.95.05` (GS801).
pub fn companion(of: &Companion, driver: DriverVersion) -> String {
    let needed = format!("{} {}", of.who_needs, of.title);
    match of.version {
        VersionRule::Driver => format!("{needed} of exactly driver {driver}"),
        VersionRule::Branch => format!("{needed} of driver branch {}", driver.branch),
        VersionRule::Own => needed,
    }
}

/// A companion that gpusetup installs beside the driver (GS801).
pub fn apply_companion(of: &Companion) -> Remedy {
    let text = format!(
        "have gpusetup install {} from the driver's repository and start it",
        of.title
    );
    Remedy::new(text, ["sudo gpusetup apply --profile driver"])
}

/// How to get a companion that no repository of the host is known to have (GS801).
pub fn get_companion(
    of: &Companion,
    driver: DriverVersion,
    manager: Option<PackageManager>,
) -> Remedy {
    let which = match of.version {
        VersionRule::Driver => format!(" {driver} (exactly)"),
        VersionRule::Branch => format!(" of branch {}", driver.branch),
        VersionRule::Own => String::new(),
    };
    let text = format!(
        "install {}{which} and start it (package name as in NVIDIA's repository)",
        of.title
    );
    Remedy::new(text, install_companion(of, driver, manager))
}

/// The command that installs a package.
pub fn install(manager: PackageManager, name: &str) -> String {
    format!(
        "sudo {} {}",
        gpusetup_packages::of(manager).by_hand.install,
        quoted(name)
    )
}

/// A package that the repository which is enabled does not offer (GS801).
pub fn not_offered(package: &str) -> String {
    format!(
        "NVIDIA's repository is enabled on this host, but does not offer {package}: enable one that has it"
    )
}

/// A companion in the host's repository, which gpusetup does not add for it alone (GS801).
pub fn enable_own_repository(title: &str, address: &str) -> String {
    format!(
        "enable NVIDIA's repository for this system, which has {title} ({address}), then plan again"
    )
}

/// A package whose repository is not enabled, and which gpusetup does not add (GS801).
pub fn in_other_repositories(title: &str, folders: &[&str]) -> String {
    format!(
        "gpusetup knows {title} in NVIDIA's repositories for {}, none of which is for this system: install the package by hand, \
         then plan again",
        folders.join(", ")
    )
}

/// The command that installs a companion in the driver's version from NVIDIA's repository; none if
/// no source names its package, or if the package manager takes no such version. The package may
/// have another name in other repositories (GS801).
pub fn install_companion(
    of: &Companion,
    driver: DriverVersion,
    manager: Option<PackageManager>,
) -> Option<String> {
    let versions = match of.version {
        VersionRule::Driver => format!("{driver}*"),
        VersionRule::Branch => format!("{}.*", driver.branch),
        VersionRule::Own => "*".to_owned(),
    };
    let name = of.package(manager, driver)?;
    let manager = gpusetup_packages::of(manager?);
    let exactly = manager
        .by_hand
        .globs_versions
        .then(|| manager.exactly(&name, &versions))?;
    Some(format!("sudo {} '{exactly}'", manager.by_hand.install))
}

/// The commands that start a companion (GS801).
pub fn start_companion(of: &Companion) -> impl Iterator<Item = String> {
    of.units.iter().map(|unit| {
        format!(
            "sudo systemctl enable --now {}",
            unit.trim_end_matches(".service")
        )
    })
}

/// A companion that starts only after the user has named the hosts that it connects (GS801).
/// `options` are those of the plan.
pub fn name_peers(of: &Companion, file: &str, options: &str) -> String {
    let command = [
        "sudo gpusetup apply",
        options,
        "--imex-peers ADDRESS,ADDRESS",
    ];
    let command = command
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    format!(
        "{} is installed but not started. Name the addresses of all hosts of the NVLink domain, the same on each host and its own \
         included: {command}. They are written to {file}",
        of.title
    )
}

/// NVSwitches that nothing manages (GS801).
pub const UNTIL_FABRIC_RUNS: &str = "Until then, CUDA fails with error 802 (system not yet initialized), while nvidia-smi looks healthy";

/// A driver that lacks fixes of security bulletins, by the newest of them (GS513).
pub fn vulnerable(driver: DriverVersion, newest: &Bulletin, fixed: DriverVersion) -> String {
    let branch = driver.branch;
    lacks_fixes(
        &format!("driver {driver} is"),
        newest,
        &format!("{fixed} as the first release of branch {branch}"),
    )
}

/// A driver or toolkit without fixes, and the option with which a plan gets one that has them
/// (GS513).
pub fn has_fixes(lacking: &str, option: &str, version: impl Display) -> String {
    format!("{lacking}; {option} gets {version}, which has them")
}

/// CUDA toolkits that lack fixes of security bulletins, by the newest of them (GS513).
pub fn vulnerable_toolkits(
    toolkits: &[CudaVersion],
    newest: &Bulletin,
    fixed: CudaVersion,
) -> String {
    let versions: Vec<_> = toolkits.iter().map(ToString::to_string).collect();
    let what = match versions.as_slice() {
        [one] => format!("CUDA toolkit {one} is"),
        several => format!("CUDA toolkits {} are", all_of(several)),
    };
    lacks_fixes(&what, newest, &format!("CUDA {fixed} as the first release"))
}

/// NVIDIA's container toolkit if it lacks fixes of security bulletins, by the newest of them
/// (GS513).
pub fn vulnerable_container_toolkit(
    toolkit: AddOnVersion,
    newest: &Bulletin,
    fixed: AddOnVersion,
) -> String {
    lacks_fixes(
        &format!("NVIDIA Container Toolkit {toolkit} is"),
        newest,
        &format!("{fixed} as the first release"),
    )
}

/// A companion if it lacks fixes of security bulletins, by the newest of them (GS513).
pub fn vulnerable_companion(
    of: &Companion,
    version: AddOnVersion,
    newest: &Bulletin,
    fixed: AddOnVersion,
) -> String {
    lacks_fixes(
        &format!("{} {version} is", of.title),
        newest,
        &format!("{fixed} as the first release"),
    )
}

fn lacks_fixes(what_is: &str, newest: &Bulletin, fixed: &str) -> String {
    format!(
        "{what_is} vulnerable ({}): {} names {fixed} with the fixes",
        vulnerabilities(newest),
        bulletin(newest)
    )
}

/// A bulletin's vulnerabilities for a sentence: `CVE-2026-47595 and others`.
fn vulnerabilities(of: &Bulletin) -> String {
    let first = of
        .vulnerabilities
        .first()
        .map(String::as_str)
        .unwrap_or_default();
    if of.vulnerabilities.len() > 1 {
        format!("{first} and others")
    } else {
        first.to_owned()
    }
}

/// A bulletin for a sentence, with its number.
fn bulletin(of: &Bulletin) -> String {
    let number = of
        .number
        .map(|number| format!(" ({number})"))
        .unwrap_or_default();
    format!("NVIDIA's security bulletin \"{}\"{number}", of.title)
}

/// NVIDIA's container toolkit without fixes of security bulletins (GS513).
pub fn fixed_container_toolkit(fixed: AddOnVersion, manager: Option<PackageManager>) -> Remedy {
    let upgrade = manager.map(|manager| install(manager, "nvidia-container-toolkit"));
    Remedy::new(
        format!("update NVIDIA's container toolkit to {fixed} or newer"),
        upgrade,
    )
}

/// A companion of this package without fixes of security bulletins (GS513). The packages of an
/// older generation are replaced.
pub fn fixed_companion(
    of: &Companion,
    package: Option<&str>,
    fixed: AddOnVersion,
    manager: Option<PackageManager>,
) -> Remedy {
    let text = format!("update {} to {fixed} or newer", of.title);
    match (package.filter(|name| !of.is_former(name)), manager) {
        (Some(name), Some(manager)) => Remedy::new(text, [install(manager, name)]),
        _ => Remedy::new(
            text,
            [format!(
                "sudo gpusetup apply --profile driver --with {}",
                of.id
            )],
        ),
    }
}

/// A CUDA toolkit without fixes of security bulletins (GS513).
pub fn fixed_toolkit(fixed: CudaVersion) -> Remedy {
    let text = format!("install CUDA {fixed} or newer if your GPUs and programs allow it");
    Remedy::new(text, [format!("gpusetup plan --cuda {fixed}")])
}

/// A driver of a branch that the newest security bulletin leaves out, although it names newer ones
/// (GS513).
pub fn branch_without_fixes(driver: DriverVersion, newest: &Bulletin) -> String {
    format!(
        "driver {driver} may be vulnerable ({}): {} names no release of branch {}; NVIDIA advises a newer branch",
        vulnerabilities(newest),
        bulletin(newest),
        driver.branch
    )
}

/// A driver without fixes of security bulletins (GS513).
pub fn fixed_driver(fixed: DriverVersion) -> Remedy {
    Remedy::new(
        format!("install driver {fixed} or newer"),
        ["sudo gpusetup apply --upgrade"],
    )
}

/// A driver in use (GS502).
pub fn stop_users() -> Remedy {
    Remedy::new(
        "stop the programs that use the driver",
        ["sudo fuser -v /dev/nvidia*"],
    )
}

/// A bundle that lacks files of the plan (GS601).
pub fn bundle_again() -> Remedy {
    Remedy::new(
        "create a bundle from this plan",
        ["gpusetup bundle create --plan PLAN.json -o BUNDLE.tar.zst"],
    )
}

/// An old database (GS607).
pub fn newer_database() -> Remedy {
    Remedy::new("install a newer database", ["sudo gpusetup db update"])
}

/// A file that is too large to be read (GS608).
pub fn left_out(said: &str) -> String {
    format!("not read: {said}; what depends on it is not known")
}

/// A host whose files are too large together (GS608).
pub fn partly_read(said: &str) -> String {
    format!("only a part of the host was read; not read: {said}")
}

const MAKE_SMALLER: &str = "make it smaller, or remove it";

/// What to do with a file or folder that is too large, or with the files beside the first that was
/// not read (GS608).
pub fn make_smaller(path: &str, limit: Option<Limit>) -> Remedy {
    let folder = Path::new(path)
        .parent()
        .map_or(path.into(), Path::to_string_lossy);
    let (text, what) = match limit {
        Some(Limit::Whole) => (
            "see what takes so much, and make it smaller or remove it",
            &*folder,
        ),
        _ => (MAKE_SMALLER, path),
    };
    Remedy::new(text, [format!("sudo ls -lS {}", quoted(what))])
}

/// A file system mounted noexec (GS602).
pub const NO_EXEC: &str = "choose a directory on another file system with --cache, or remount this one (mount -o remount,exec)";

/// The id of the check that finds what this rule refuses.
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
        | RuleId::DriverFile
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
        | RuleId::MethodRepository
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

/// The ids without a check of doctor, each with the commands that detect it.
pub fn elsewhere() -> impl Iterator<Item = (CheckId, &'static str)> {
    CheckId::ALL
        .iter()
        .filter_map(|id| Some((*id, of(*id).elsewhere?)))
}

/// Why RDMA adapters reach the memory of GPUs by no way; DMA-BUF needs `what`.
pub fn no_way_for_rdma(what: &str) -> String {
    format!(
        "DMA-BUF needs {what}, and the RDMA modules of this kernel have no interface for nvidia-peermem"
    )
}

/// A companion on a GPU whose line its documentation does not name (GS805).
pub fn other_gpu_line(of: &Companion, gpu: &str) -> String {
    format!(
        "NVIDIA names GPUs of the lines {} for {}: whether it works on {gpu} is not known",
        of.gpu_lines.join(" and "),
        of.title
    )
}

/// RDMA modules with the interface for nvidia-peermem. It is built into the driver's modules.
pub const INSTALL_DOCA: &str = "install NVIDIA's DOCA-OFED, then the driver again";

/// How they can.
pub fn reach_gpus_by_rdma() -> Remedy {
    Remedy::new(
        format!(
            "{INSTALL_DOCA}; or, if the GPUs support them, use the open kernel modules with kernel 5.12 or newer"
        ),
        ["gpusetup plan --profile driver --modules open --upgrade"],
    )
}

/// The meaning of an id.
pub fn of(id: CheckId) -> Cause {
    match id {
        CheckId::GS101 => Cause::new(
            "the headers of a kernel are not installed, or no enabled repository has them: DKMS cannot build the driver's \
             modules for that kernel",
        )
        .fix("install the headers; if no repository still has them, upgrade the kernel and reboot", ["gpusetup plan"]),
        CheckId::GS102 => Cause::new(
            "the gcc that built the kernel is not installed: modules may not compile with another gcc",
        )
        .fix("install the gcc that built the kernel, then build the modules with DKMS", ["sudo gpusetup doctor --fix"]),
        CheckId::GS103 => Cause::new(
            "the kernel is newer than the newest one that the driver's modules are known to build on: the build may fail",
        )
        .only("plan only: it warns before the build")
        .fix("boot an older kernel, or choose a newer driver", ["gpusetup plan --driver latest"]),
        CheckId::GS104 => Cause::new(
            "a kernel has no nvidia module, or one that does not match the driver's libraries: the driver does not work with \
             that kernel",
        )
        .fix("build the module for that kernel with DKMS", ["sudo gpusetup doctor --fix"]),
        CheckId::GS105 => Cause::new(
            "the kernel that will boot is not from a package of the distribution: no package has its headers",
        )
        .only("plan only: it warns")
        .fix("get the headers from the source of the kernel", []),
        CheckId::GS106 => Cause::new(
            "DKMS builds the driver's modules from several source trees: the last one built wins",
        )
        .fix("remove the source trees that belong to no installed driver", ["dkms status"]),
        CheckId::GS107 => Cause::new("the kernel is older than the oldest one that the driver branch supports")
            .only("plan only: it refuses the branch")
            .fix("boot a newer kernel, or choose an older branch", ["gpusetup plan"]),
        CheckId::GS201 => Cause::new(
            "nouveau is bound to a GPU, or will be after the next boot: NVIDIA's driver needs nouveau blacklisted, also in \
             the initramfs",
        )
        .fix("blacklist nouveau, then reboot", ["sudo gpusetup doctor --fix", "sudo reboot"]),
        CheckId::GS202 => Cause::new(
            "nova is bound to a GPU, or will be after the next boot: NVIDIA's driver needs nova blacklisted, also in the \
             initramfs",
        )
        .fix("blacklist nova, then reboot", ["sudo gpusetup doctor --fix", "sudo reboot"]),
        CheckId::GS203 => Cause::new(
            "a GPU is bound to vfio-pci, for a virtual machine: programs on this host cannot use it, and plan leaves it out",
        )
        .helps(give_back("ADDRESS")),
        CheckId::GS204 => Cause::new(
            "modprobe's configuration or the kernel's command line keeps the driver's modules from being loaded: programs find \
             no driver",
        )
        .fix(
            LET_LOAD,
            ["grep -rnE '^ *(alias|blacklist|install) +nvidia' /etc/modprobe.d /lib/modprobe.d", "sudo modprobe nvidia"],
        ),
        CheckId::GS301 => Cause::new(
            "the kernel loads only signed modules (Secure Boot), and the driver's modules are unsigned or their key is not \
             enrolled: they do not load",
        )
        .helps(enrol_key(Path::new("KEY.der"))),
        CheckId::GS302 => Cause::new("a package prompts for a Secure Boot password during the install, which then hangs")
            .only("apply only: it runs every command without a terminal"),
        CheckId::GS401 => Cause::new(
            "two drivers are installed over each other, or would be: packages and NVIDIA's runfile overwrite each other's \
             files",
        )
        .helps(remove_runfile()),
        CheckId::GS402 => Cause::new(
            "packages conflict: installing or removing some of them would make the package manager remove others too",
        )
        .only("plan and apply only: they simulate the transaction first")
        .fix("keep the packages of one vendor only", ["gpusetup plan"]),
        CheckId::GS403 => Cause::new("only a meta-package is pinned: its dependencies are installed in another version")
            .only("plan only: it names every package and uses no meta-package"),
        CheckId::GS404 => Cause::new(
            "the signing key of one of NVIDIA's repositories is missing, or apt rejects it: apt cannot use that repository",
        )
        .fix(
            "install NVIDIA's current keyring package; SYSTEM is a directory of the repository, such as ubuntu2404/x86_64",
            [
                "wget https://developer.download.nvidia.com/compute/cuda/repos/SYSTEM/cuda-keyring_1.1-1_all.deb",
                "sudo dpkg -i cuda-keyring_1.1-1_all.deb",
            ],
        ),
        CheckId::GS405 => Cause::new("the package lists of an unrelated repository cannot be fetched")
            .only("apply only: it fails only if the lists are needed"),
        CheckId::GS406 => Cause::new("a mirror lacks packages that its own lists name")
            .only("apply only: it updates the lists once more, then exits with 6")
            .fix("try again later", ["sudo gpusetup resume"]),
        CheckId::GS407 => Cause::new(LACKS_SMI)
            .fix(INSTALL_SMI, ["sudo gpusetup doctor --fix"]),
        CheckId::GS408 => Cause::new("a program reported success without doing its work")
            .only("apply only: it verifies the result of every step and does not rely on exit statuses"),
        CheckId::GS409 => Cause::new(
            "it is unknown how the driver was installed, so gpusetup cannot tell which files to remove",
        )
        .only("plan and uninstall only: plan warns if it would install another driver, uninstall refuses")
        .fix(REMOVE_UNKNOWN, ["gpusetup uninstall --dry-run"]),
        CheckId::GS410 => Cause::new(
            "the packages of this distribution or release are not in the database: gpusetup uses those of a related one, or \
             none",
        )
        .only("plan only: it warns, or refuses if it needs the packages")
        .fix("install the tools that the plan names, then plan again", ["gpusetup plan"]),
        CheckId::GS411 => Cause::new("a package that the plan needs is in a repository that is not enabled")
            .only("plan only: it warns and shows the command that enables it"),
        CheckId::GS501 => Cause::new(
            "the loaded kernel module does not match the installed driver, or is not bound to every GPU: programs fail, or \
             use the old driver until the next boot",
        )
        .fix("reboot; if that does not help, run doctor to find the cause", ["sudo reboot", "gpusetup doctor"]),
        CheckId::GS502 => Cause::new("programs are using the driver that would be replaced or removed")
            .only("apply only: it names the programs and refuses")
            .helps(stop_users()),
        CheckId::GS503 => Cause::new(
            "the driver does not support a GPU: its branch is too new or too old, or the GPU is not in the database",
        )
        .fix("install a driver branch that supports the GPU", ["gpusetup plan"]),
        CheckId::GS504 => Cause::new(
            "the installed kernel modules do not support a GPU: some GPUs need the open ones, others the proprietary ones",
        )
        .fix("install the other kernel modules", ["gpusetup plan --modules open", "gpusetup plan --modules proprietary"]),
        CheckId::GS505 => Cause::new("CUDA does not start, or computes wrong results on a GPU, even if nvidia-smi works")
            .helps(look("see what the kernel and CUDA report", id)),
        CheckId::GS506 => Cause::new(
            "/dev/nvidia-uvm is missing, and nothing creates it: nvidia-smi works, but CUDA fails (error 999)",
        )
        .fix("load the module", ["sudo modprobe nvidia-uvm"]),
        CheckId::GS507 => Cause::new(
            "programs load a libcuda that is not the driver's: a stub for linking, or that of another driver",
        )
        .fix(
            "remove its directory from the loader's path",
            ["grep -rnE 'stubs|compat' /etc/ld.so.conf /etc/ld.so.conf.d", "sudo ldconfig"],
        ),
        CheckId::GS508 => Cause::new("the driver is loaded, but NVML cannot read every GPU")
            .fix("see what the kernel reports", ["sudo dmesg | grep NVRM"]),
        CheckId::GS509 => Cause::new("no NVIDIA GPU is on the PCI bus: the host has none, or it fell off the bus, or it is switched off")
            .fix("if the host has a GPU, look for it, then power the host off and on again", ["lspci -d 10de:", "sudo poweroff"]),
        CheckId::GS510 => Cause::new("the driver branch has reached its end of life: NVIDIA no longer fixes bugs in it")
            .only("plan only: it warns, because newer branches may not support the GPU"),
        CheckId::GS511 => Cause::new(
            "the model of an NVIDIA GPU could not be read, so no driver can be chosen for it",
        )
        .only("plan only: it leaves the GPU out, or refuses")
        .fix("list the GPUs with their numeric ids", ["lspci -nn | gpusetup plan --lspci -"]),
        CheckId::GS512 => Cause::new("the GPU exists only in machines of another architecture")
            .only("plan only: it refuses to install a driver for that GPU")
            .fix("plan with the facts of such a machine", ["gpusetup plan --facts FACTS.json"]),
        CheckId::GS513 => Cause::new("the driver, a CUDA toolkit or NVIDIA's container toolkit lacks fixes of a security bulletin of NVIDIA")
            .fix("install a newer driver or toolkit", ["sudo gpusetup apply --upgrade"]),
        CheckId::GS521 => Cause::new(
            "a setting of a GPU differs from what was applied, its unit is disabled, or the GPU or modprobe's configuration does not allow it",
        )
        .fix("apply it again, or see what the GPU accepts", ["sudo gpusetup apply", "nvidia-smi -q -d POWER,SUPPORTED_CLOCKS"]),
        CheckId::GS601 => Cause::new("a download is not available: there is no network, or the mirror or bundle lacks it")
            .only("apply only: it names the missing downloads before the first change")
            .helps(bundle_again()),
        CheckId::GS602 => Cause::new(
            "a directory that the plan needs has too little space, or its file system is mounted noexec",
        )
        .only("plan and apply only: they check before the first change")
        .fix(NO_EXEC, ["sudo gpusetup apply --cache DIR"]),
        CheckId::GS603 => Cause::new(
            "the package manager was interrupted, or /boot has too little space for the next initramfs, which grows by the \
             driver's firmware",
        )
        .helps(unused_kernels(None)),
        CheckId::GS604 => Cause::new("needrestart, debconf or dpkg prompts during an install, which then hangs")
            .only("apply only: it runs every command without a terminal"),
        CheckId::GS605 => Cause::new("another program holds the package-manager lock, as is common on the first boot")
            .only("apply only: it names the program and waits for the lock")
            .fix("wait longer", ["sudo gpusetup apply --lock-timeout 3600"]),
        CheckId::GS607 => Cause::new("the compatibility database is months old: newer GPUs, drivers and fixes are missing in it")
            .only("plan and apply only: it is about what they choose from")
            .helps(newer_database()),
        CheckId::GS608 => Cause::new(
            "a file or folder is larger than gpusetup reads one, so that what depends on it is not known; or all files together are",
        )
        .fix(MAKE_SMALLER, ["gpusetup facts"]),
        CheckId::GS606 => Cause::new("HOME and PATH are not set, as under cloud-init, systemd and cron")
            .only("apply only: it gives every command a complete environment"),
        CheckId::GS701 => Cause::new(
            "the default toolkit is missing or a dangling link, or login shells find no nvcc or another one",
        )
        .fix("correct the link and PATH", ["sudo gpusetup doctor --fix"]),
        CheckId::GS702 => Cause::new("a link between cuDNN's libraries is missing or dangling, or is a copy of the file")
            .fix("create the links again", ["sudo gpusetup doctor --fix"]),
        CheckId::GS703 => Cause::new("programs load a cuDNN other than the one in the default toolkit, or none")
            .fix("remove the other cuDNN's directory from the loader's path", ["ldconfig -p | grep libcudnn"]),
        CheckId::GS704 => Cause::new(
            "LD_LIBRARY_PATH is set for all users: programs that ship their own libraries load others instead",
        )
        .fix("remove it: the loader's cache finds the toolkit", ["grep -rn LD_LIBRARY_PATH /etc/environment /etc/profile.d"]),
        CheckId::GS705 => Cause::new(
            "nvcc does not support the host's gcc, or the headers of its C library: they are too new or too old",
        )
        .fix("choose a CUDA that supports them, or install another gcc", ["gpusetup plan --profile toolkit --cuda latest"]),
        CheckId::GS706 => Cause::new("the distribution's nvcc comes before the toolkit's on PATH")
            .only("doctor reports it with the default toolkit"),
        CheckId::GS707 => Cause::new("the driver is older than the toolkit's programs need")
            .fix("install a newer driver, or an older toolkit", ["gpusetup plan --upgrade"]),
        CheckId::GS708 => Cause::new(
            "the loader's cache is out of date for cuDNN's libraries, so programs load old ones or none",
        )
        .fix("rebuild the cache", ["sudo ldconfig"]),
        CheckId::GS709 => Cause::new("a toolkit's nvcc does not run, or the programs it compiles do not start")
            .fix("install the toolkit again", ["gpusetup plan --profile toolkit"]),
        CheckId::GS710 => Cause::new("cuDNN does not start, or computes a wrong convolution")
            .fix("reinstall cuDNN", ["sudo gpusetup apply --profile toolkit"]),
        CheckId::GS711 => Cause::new(
            "NVIDIA's installation guide does not list this system for the toolkit: it may work, but NVIDIA does not test it",
        )
        .only("plan only: it warns"),
        CheckId::GS712 => Cause::new(
            "a toolkit was chosen without a known GPU: it may be too new or too old for the GPU",
        )
        .only("plan only: it warns")
        .fix("name the GPU", ["gpusetup plan --gpu 'gtx 1060'"]),
        CheckId::GS713 => Cause::new(
            "the framework's wheels have a known limitation on this GPU: they compile their kernels at the first start, or \
             failures are reported",
        )
        .only("plan only: it warns"),
        CheckId::GS714 => Cause::new(
            "the toolkit's directory contains another CUDA, or the same one installed in another way: its files would mix \
             with the new ones",
        )
        .only("plan only: it refuses")
        .fix("keep the installed CUDA, or remove it first", ["sudo gpusetup uninstall --cuda 12.8"]),
        CheckId::GS715 => Cause::new("the toolkit is outside the prefix: other hosts may use it, so it is not removed")
            .only("uninstall only: it refuses")
            .fix("name the directory that contains it", ["sudo gpusetup uninstall --cuda 12.8 --prefix DIR"]),
        CheckId::GS716 => Cause::new(
            "a framework in a Python environment is built for the CPU alone: pip took it from a CPU index, or the \
             wheels for this architecture have no CUDA",
        )
        .fix("see which build and which index to install", ["gpusetup explain torch"]),
        CheckId::GS717 => Cause::new(
            "a framework in a Python environment is built for a CUDA that the driver is too old for: it sees no GPU",
        )
        .fix("install a newer driver, or a build for an older CUDA", ["gpusetup plan --profile driver --upgrade"]),
        CheckId::GS718 => Cause::new(
            "a framework in a Python environment has no kernels for a GPU: programs fail with \"no kernel image is available\"",
        )
        .fix("install a build with kernels for the GPU", ["gpusetup explain torch"]),
        CheckId::GS719 => Cause::new(
            "a Python environment lacks NVIDIA's packages that a framework requires, has them in another version, or files of \
             theirs are gone",
        )
        .fix("see what is missing", ["pip check"]),
        CheckId::GS720 => Cause::new(
            "a framework loads CUDA libraries of another place than its Python environment, because LD_LIBRARY_PATH or the \
             loader's cache precedes them: versions mix, and cuDNN fails with SUBLIBRARY_VERSION_MISMATCH",
        )
        .fix("remove the directory from LD_LIBRARY_PATH", ["unset LD_LIBRARY_PATH"]),
        CheckId::GS801 => Cause::new(
            "CUDA needs Fabric Manager in exactly the driver's version, because NVSwitches connect the GPUs: it is missing, \
             differs or does not run (error 802)",
        )
        .fix("install Fabric Manager in that version and start it", ["sudo systemctl enable --now nvidia-fabricmanager"]),
        CheckId::GS802 => Cause::new(
            "MIG was switched on or off, but the GPU has not been reset since; or a GPU lacks the instances that boots restore",
        )
        .fix(
            "stop the programs that use the GPU, then reset it; or restore the instances",
            ["sudo nvidia-smi --gpu-reset", "sudo gpusetup mig restore"],
        ),
        CheckId::GS803 => Cause::new(
            "containers cannot use the GPUs: NVIDIA's container toolkit is missing, or its specification is for another driver or a newer engine",
        )
        .fix("generate the specification again", ["sudo gpusetup doctor --fix"]),
        CheckId::GS804 => Cause::new(
            "RDMA adapters cannot read and write the memory of GPUs. DMA-BUF needs the open kernel modules and kernel 5.12; \
             nvidia-peermem needs the RDMA modules of DOCA-OFED",
        )
        .fix("use the open kernel modules, or load nvidia-peermem", ["gpusetup plan --modules open", "sudo gpusetup apply --profile driver --with peermem"]),
        CheckId::GS805 => Cause::new(
            "what was installed beside the driver does not run: DCGM's service, or the kernel modules nvidia-fs and nvidia-peermem; \
             or nvidia-fs was built for another driver",
        )
        .fix("start the service, or load the module", ["sudo gpusetup doctor --fix"]),
        CheckId::GS810 => Cause::new(
            "pods cannot use the GPUs: the container runtime of the node lacks NVIDIA's runtime, or the cluster its runtime class",
        )
        .fix("set up the container runtime", ["sudo gpusetup apply --profile container-host"]),
        CheckId::GS811 => Cause::new(
            "the GPU Operator's driver container runs on a host that has a driver installed: they replace each other's kernel modules",
        )
        .helps(look("keep one of the two drivers", id)),
        CheckId::GS812 => Cause::new("the device files in Slurm's gres.conf are not those of the host's GPUs")
            .fix("write gres.conf again", ["gpusetup facts --format gres | sudo tee /etc/slurm/gres.conf"]),
        CheckId::GS813 => Cause::new("Slurm does not confine jobs to their devices: every job can use every GPU of the node")
            .helps(constrain_devices(SLURM)),
        CheckId::GS901 => Cause::new("the firmware assigned no address space to a GPU's memory")
            .fix("enable \"Above 4G Decoding\" in the firmware's setup", []),
        CheckId::GS902 => Cause::new(
            "the IOMMU or ACS routes traffic between GPUs through the CPU: it is slow, and may fail",
        )
        .fix("add iommu=pt to the kernel's command line, and disable ACS in the firmware's setup", []),
        CheckId::GS903 => Cause::new("the kernel's log or NVML reports an error of a GPU or an NVSwitch (Xid, SXid)")
            .fix("look up the number in NVIDIA's list", ["sudo dmesg | grep -E 'Xid|NVRM'"]),
        CheckId::GS904 => Cause::new("a GPU has memory errors, or is throttled by heat or power")
            .fix("see what the GPU reports", ["nvidia-smi -q -d ECC,ROW_REMAPPER,PERFORMANCE"]),
        CheckId::GS905 => Cause::new("the driver shuts down a GPU that is not in use, and needs seconds to initialise it again")
            .fix("run the persistence daemon", ["sudo systemctl enable --now nvidia-persistenced"]),
        CheckId::GS906 => not_ours(WSL2),
        CheckId::GS907 => Cause::new(JETSON).helps(without_driver(
            "leave the driver out; for a board that uses the toolkit of JetPack, the plan names the commands that install it",
        )),
        CheckId::GS908 => Cause::new(IMMUTABLE)
            .helps(look(OWN_TOOLS, id)),
        CheckId::GS909 => Cause::new(
            "the kernel counts GPU memory as host memory: Kubernetes reports too much memory, and pods get wrong limits",
        )
        .helps(driver_manages_memory()),
        CheckId::GS910 => Cause::new(
            "the GPU is virtual (vGPU) and needs NVIDIA's guest driver (GRID), which is not published",
        )
        .only("plan only: it refuses to install another driver for that GPU")
        .helps(Remedy::new(
            "name the file of the guest driver that your cloud provider or NVIDIA hands out",
            ["gpusetup plan --driver-file FILE".to_owned()],
        )),
        CheckId::GS911 => Cause::new(CONTAINER)
            .only("plan only: it warns")
            .helps(without_driver(WITHOUT_DRIVER)),
        CheckId::GS912 => Cause::new(
            "a laptop has a second GPU, but its desktop cannot use NVIDIA's: the driver has no graphics libraries, or mode setting is \
             off",
        )
        .fix("switch mode setting on, then reboot", ["sudo gpusetup apply --profile driver --module-option nvidia_drm.modeset=1"]),
        CheckId::GS913 => Cause::new(
            "a Thunderbolt or USB4 device is not authorised: a GPU in it is not on the PCI bus",
        )
        .helps(authorise("the device")),
        CheckId::GS914 => Cause::new(
            "the driver is not the one that NVIDIA tests with this system, its kernel and its firmware (DGX OS)",
        )
        .fix("update the whole system, with its driver", ["sudo apt update && sudo apt full-upgrade"]),
    }
}

/// For ids whose remedy depends on the host: doctor shows it.
fn look(text: &str, id: CheckId) -> Remedy {
    Remedy::new(text, [format!("sudo gpusetup doctor {id}")])
}

/// For hosts on which gpusetup does not install a driver.
fn not_ours(means: &'static str) -> Cause {
    Cause::new(means).helps(without_driver(WITHOUT_DRIVER))
}

fn without_driver(text: &str) -> Remedy {
    Remedy::new(text, ["gpusetup plan --profile toolkit".to_owned()])
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
            assert!(
                titles.insert(id.title()) && meanings.insert(cause.means),
                "{id} has the text of another id"
            );
            let is_whole = !cause.means.contains("  ") && !cause.means.ends_with('.');
            assert!(cause.means.len() > 30 && is_whole, "{id}: {}", cause.means);
        }
    }

    #[test]
    fn a_remedy_is_a_line_for_a_shell() {
        let shown = enrol_key(Path::new(DKMS_KEY)).to_string();
        assert!(
            shown.ends_with("console: sudo mokutil --import /var/lib/dkms/mok.pub && sudo reboot"),
            "{shown}"
        );
        assert_eq!(Remedy::new("wait", [""; 0]).to_string(), "wait");
        let twice = Remedy::new(
            "in two parts",
            ["sudo a", "sudo reboot", "sudo b", "sudo reboot"],
        );
        assert_eq!(
            twice.to_string(),
            "in two parts: sudo a && sudo reboot; after the reboot: sudo b && sudo reboot"
        );
    }
}
