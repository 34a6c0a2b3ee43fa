//! The meaning of each id and its remedy: one text that plan, apply, doctor and explain share.
//!
//! Values that differ from host to host are arguments. `explain` passes placeholders, such as
//! `KEY.der`.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

use gpusetup_database::cause::CauseRow;
use gpusetup_database::compat::{
    Bulletin, Companion, DriverBranch, KeyByHand, ModuleFlavour, OnlySigner, PackageManager,
    VersionRule,
};
use gpusetup_database::version::{AddOnVersion, CudaVersion, DriverVersion};
use gpusetup_system::limits::Limit;
use gpusetup_text::ids::{CheckId, Rule, RuleId};
use gpusetup_text::text::{all_of, quoted, quoted_path};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::path::Path;

pub mod gpus;
pub mod offline_root;
pub mod xid;

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

/// Under WSL2 (GS906).
pub const WSL2: &str = "under WSL2 Windows provides the driver; do not install one inside WSL2";

/// On a Jetson (GS907).
pub const JETSON: &str = "on a Jetson the board support package provides the driver";

/// On a system whose /usr is an image (GS908).
pub const IMMUTABLE: &str =
    "the system files are a read-only image: packages and runfiles cannot change them";
pub(crate) const OWN_TOOLS: &str = "have the system's own tools install the driver, as doctor says; a toolkit belongs in a container";

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

/// The hint for requests that are limited to enabled repositories: let gpusetup add NVIDIA's.
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
pub fn module_blocked(place: &str, module: &str, always: bool) -> String {
    let when = if always { "" } else { " during boot" };
    format!("{place} keeps the kernel module {module} from being loaded{when}")
}

/// What helps.
pub const UNBLOCK_AND_LOAD: &str =
    "remove these lines, rebuild the initramfs, then load the module";

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

/// The command that installs packages.
pub fn install(manager: PackageManager, names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| quoted(name)).collect();
    format!(
        "sudo {} {}",
        gpusetup_packages::of(manager).by_hand.install,
        names.join(" ")
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
    let upgrade = manager.map(|manager| install(manager, &["nvidia-container-toolkit"]));
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
        (Some(name), Some(manager)) => Remedy::new(text, [install(manager, &[name])]),
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

/// A driver without fixes of security bulletins (GS513): its branch stays.
pub fn fixed_driver(fixed: DriverVersion) -> Remedy {
    let branch = fixed.branch;
    Remedy::new(
        format!("install driver {fixed} or newer"),
        [format!(
            "sudo gpusetup apply --profile driver --driver {branch} --upgrade"
        )],
    )
}

/// A driver branch that NVIDIA does not maintain any more (GS510).
pub fn branch_is_over(branch: &DriverBranch) -> String {
    let end = branch.end_of_life.as_deref().unwrap_or("years ago");
    format!(
        "driver branch {} is past its end of life ({end}) and gets no more fixes",
        branch.branch
    )
}

/// A branch that NVIDIA still maintains, in place of one that it does not (GS510).
pub fn maintained_branch(branch: &DriverBranch) -> Remedy {
    let number = branch.branch;
    let end = branch.end_of_life.as_deref();
    let until = end.map(|end| format!(", which is supported until {end}"));
    Remedy::new(
        format!("go to branch {number}{}", until.unwrap_or_default()),
        [format!("gpusetup plan --profile driver --driver {number}")],
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
pub fn left_out(unread: &str) -> String {
    format!("not read: {unread}; what depends on it is not known")
}

/// A host whose files are too large together (GS608).
pub fn partly_read(unread: &str) -> String {
    format!("only a part of the host was read; not read: {unread}")
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

/// What is known of an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    pub id: CheckId,
    /// The problem that the id stands for.
    pub means: String,
    /// Which commands detect it, if no check of doctor does.
    pub elsewhere: Option<String>,
    /// None if gpusetup handles the problem itself.
    pub remedy: Option<Remedy>,
}

/// The causes of all ids: what the rows have, and the program where they lack it.
pub fn all(rows: Vec<CauseRow>) -> Vec<Cause> {
    let mut rows: BTreeMap<_, _> = rows.into_iter().map(|row| (row.id.clone(), row)).collect();
    let mut causes = Vec::new();
    for id in CheckId::ALL {
        let Some(row) = rows.remove(id.as_str()) else {
            continue;
        };
        let own = row.remedy.map(|text| Remedy::new(text, row.run));
        causes.push(Cause {
            id: *id,
            means: row
                .means
                .or(meaning(*id).map(str::to_owned))
                .unwrap_or_default(),
            elsewhere: row.only,
            remedy: own.or_else(|| remedy(*id)),
        });
    }
    causes
}

/// The ids without a check of doctor, each with the commands that detect it.
pub fn elsewhere(rows: Vec<CauseRow>) -> impl Iterator<Item = (CheckId, String)> {
    all(rows)
        .into_iter()
        .filter_map(|cause| Some((cause.id, cause.elsewhere?)))
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

/// The meaning of an id, where refusals and checks say it in the same words. The others are rows of
/// explain/causes.yaml.
pub fn meaning(id: CheckId) -> Option<&'static str> {
    match id {
        CheckId::GS407 => Some(LACKS_SMI),
        CheckId::GS906 => Some(WSL2),
        CheckId::GS907 => Some(JETSON),
        CheckId::GS908 => Some(IMMUTABLE),
        CheckId::GS911 => Some(CONTAINER),
        _ => None,
    }
}

/// The remedy of an id, where refusals and checks name it too. What differs from host to host is a
/// placeholder, such as `KEY.der`.
pub fn remedy(id: CheckId) -> Option<Remedy> {
    Some(match id {
        CheckId::GS203 => give_back("ADDRESS"),
        CheckId::GS204 => Remedy::new(
            UNBLOCK_AND_LOAD,
            [
                "grep -rnE '^ *(alias|blacklist|install) +nvidia' /etc/modprobe.d /lib/modprobe.d",
                "sudo modprobe nvidia",
            ],
        ),
        CheckId::GS301 => enrol_key(Path::new("KEY.der")),
        CheckId::GS401 => remove_runfile(),
        CheckId::GS407 => Remedy::new(INSTALL_SMI, ["sudo gpusetup doctor --fix"]),
        CheckId::GS409 => Remedy::new(REMOVE_UNKNOWN, ["gpusetup uninstall --dry-run"]),
        CheckId::GS502 => stop_users(),
        CheckId::GS601 => bundle_again(),
        CheckId::GS602 => Remedy::new(NO_EXEC, ["sudo gpusetup apply --cache DIR"]),
        CheckId::GS603 => unused_kernels(None),
        CheckId::GS607 => newer_database(),
        CheckId::GS608 => Remedy::new(MAKE_SMALLER, ["gpusetup facts"]),
        CheckId::GS813 => constrain_devices(SLURM),
        CheckId::GS906 | CheckId::GS911 => {
            Remedy::new(WITHOUT_DRIVER, ["gpusetup plan --profile toolkit"])
        }
        CheckId::GS908 => Remedy::new(OWN_TOOLS, [format!("sudo gpusetup doctor {id}")]),
        CheckId::GS909 => driver_manages_memory(),
        CheckId::GS913 => authorise("the device"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
