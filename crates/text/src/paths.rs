//! Every fixed path of gpusetup's own, on every host.

use std::path::{Path, PathBuf};

/// Constants, and a table of them in which each doc comment is the text. Those that a plan compares
/// with the host are `planned`.
macro_rules! paths {
    ($($(#[doc = $text:literal])+ $name:ident = $path:literal $($mark:ident)?,)+) => {
        $($(#[doc = $text])+ pub const $name: &str = $path;)+

        /// Every fixed path, and what it is for.
        pub const ALL: &[(&str, &str)] = &[$(($path, concat!($($text),+)),)+];

        /// The paths that a plan writes and that every host's facts name, there or not.
        pub const PLANNED: &[&str] = &[$($(paths!(@$mark $path),)?)+];
    };
    (@planned $path:literal) => { $path };
}

paths! {
    /// The settings of a host's administrator.
    CONFIG = "/etc/gpusetup/config.yaml",

    /// The key that DKMS signs modules with, if it is not the distribution's.
    DKMS_SIGNING = "/etc/dkms/framework.conf.d/gpusetup.conf" planned,

    /// The compiler that DKMS builds modules with, if the kernel was not built with the default one.
    DKMS_COMPILER = "/etc/dkms/framework.conf.d/gpusetup-compiler.conf" planned,

    /// The layout of GPU instances (MIG) that every boot restores.
    MIG_LAYOUT = "/etc/gpusetup/mig.yaml",
    /// The unit that restores it.
    MIG_UNIT = "/etc/systemd/system/gpusetup-mig.service",
    /// Has systemd start that unit at every boot.
    MIG_WANTED = "/etc/systemd/system/multi-user.target.wants/gpusetup-mig.service",

    /// The state of runs: private to root.
    STATE = "/var/lib/gpusetup",
    /// What was done, and how to undo it.
    JOURNAL = "/var/lib/gpusetup/journal",
    /// Files that operations changed, as they were before.
    BACKUPS = "/var/lib/gpusetup/backup",
    /// The hash of a one-time password for shim, while mokutil reads it.
    MOK_HASH = "/var/lib/gpusetup/mok-password-hash",
    /// Disk space kept for the journal and for undo.
    RESERVE = "/var/lib/gpusetup/reserve",
    /// Versions of packages that a lock file names, as apt reads them.
    PINS = "/var/lib/gpusetup/pins",
    /// Where the system's alternatives keep the default toolkit of packages.
    CUDA_ALTERNATIVE = "/etc/alternatives/cuda",
    /// Which toolkits are alternatives, as Debian's dpkg keeps it.
    CUDA_ALTERNATIVES_DPKG = "/var/lib/dpkg/alternatives/cuda",
    /// The same on systems with rpm.
    CUDA_ALTERNATIVES_RPM = "/var/lib/alternatives/cuda",
    /// The packages that gpusetup holds at their version, a name per line.
    HELD = "/var/lib/gpusetup-held" planned,
    /// How the last run ended.
    RESULT = "/var/lib/gpusetup/result.json",
    /// The plan of the last run.
    PLAN = "/var/lib/gpusetup/plan.json",
    /// The program that resumes after a reboot: a copy of the one that began.
    PROGRAM = "/var/lib/gpusetup/gpusetup",
    /// Updated databases.
    DATABASE = "/var/lib/gpusetup-database",

    /// The logs of runs, and of the programs that they start.
    LOGS = "/var/log/gpusetup",
    /// The log of events, a JSON object per line.
    EVENTS = "/var/log/gpusetup/events.jsonl",

    /// Where toolkits are installed, unless a flag says otherwise.
    PREFIX = "/usr/local",
    /// Downloads, unless the user names another directory.
    CACHE = "/var/cache/gpusetup",

    /// What is needed only until the next boot.
    RUN = "/run/gpusetup",
    /// Locked by the run that changes the host.
    LOCK = "/run/gpusetup.lock",

    /// Keeps nouveau and nova from loading.
    BLACKLIST = "/etc/modprobe.d/gpusetup-nouveau.conf" planned,
    /// Options of the driver's kernel modules.
    MODULE_OPTIONS = "/etc/modprobe.d/gpusetup-options.conf" planned,
    /// Sets the GPUs' settings at each boot.
    SETTINGS_UNIT = "/etc/systemd/system/gpusetup-gpu-settings.service" planned,
    /// Enables that unit.
    SETTINGS_WANTED = "/etc/systemd/system/multi-user.target.wants/gpusetup-gpu-settings.service" planned,
    /// The token with which the guest driver of virtual GPUs gets a licence.
    VGPU_TOKEN = "/etc/nvidia/ClientConfigToken/client_configuration_token.tok" planned,
    /// Tells the loader where the toolkit's libraries are.
    LOADER_PATH = "/etc/ld.so.conf.d/gpusetup-cuda.conf" planned,
    /// Tells login shells where the toolkit's programs are.
    PROFILE = "/etc/profile.d/gpusetup-cuda.sh" planned,
    /// Loads at boot the kernel modules that manage NVSwitches.
    FABRIC_MODULES = "/etc/modules-load.d/gpusetup-nvswitch.conf" planned,
}

/// The unit of [`SETTINGS_UNIT`].
pub const SETTINGS_SERVICE: &str = "gpusetup-gpu-settings.service";

/// Where systemd looks for units. A file replaces one of the same name in a later folder:
/// <https://www.freedesktop.org/software/systemd/man/latest/systemd.unit.html>.
pub const UNIT_FOLDERS: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// Where the unit of the daemon that gets licences for virtual GPUs may be; only guest drivers have
/// it.
pub const LICENCE_UNITS: [&str; 3] = [
    "/etc/systemd/system/nvidia-gridd.service",
    "/usr/lib/systemd/system/nvidia-gridd.service",
    "/lib/systemd/system/nvidia-gridd.service",
];

/// Where the unit of the persistence daemon may be.
pub const PERSISTENCE_UNITS: [&str; 3] = [
    "/etc/systemd/system/nvidia-persistenced.service",
    "/usr/lib/systemd/system/nvidia-persistenced.service",
    "/lib/systemd/system/nvidia-persistenced.service",
];
/// The link that enables it.
pub const PERSISTENCE_WANTED: &str =
    "/etc/systemd/system/multi-user.target.wants/nvidia-persistenced.service";

/// Where `systemctl enable` links the units that the host starts.
pub const STARTED_AT_BOOT: &str = "/etc/systemd/system/multi-user.target.wants";

/// Where the nvcc of a toolkit finds `gcc` and `g++` before it looks on PATH: beside its own cicc.
/// Every release does, whoever starts it, and no other program looks there (tried, see
/// compat/compilers.yaml). NVCC_CCBIN is unknown to nvcc 12.4 and older, and what a profile sets
/// reaches login shells only.
pub fn host_compilers(toolkit: &Path) -> [PathBuf; 2] {
    ["gcc", "g++"].map(|name| toolkit.join("nvvm/bin").join(name))
}

/// A name in its shortest form, relative to the root, as container engines read it (Go's
/// `path.Clean`): `usr/local` for `./usr//local/`.
pub fn clean(name: &str) -> String {
    let mut parts = Vec::new();
    for part in name.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}
