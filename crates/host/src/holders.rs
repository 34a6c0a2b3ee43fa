//! Processes that use the driver: those with one of its devices open. The driver cannot be replaced
//! while they run.

use gpusetup_system::{System, process_name};
use std::collections::BTreeSet;
use std::fmt;

/// A process that has a device open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The process id.
    pub process: u32,
    /// The process name as the kernel keeps it, cut to 15 bytes: `nvidia-persiste`.
    pub name: String,
    /// The system's unit that it belongs to: `nvidia-fabricmanager.service`.
    pub unit: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.name, self.process)
    }
}

/// The processes, by id.
pub fn holders(system: &System) -> Vec<Holder> {
    having_open(system, |path| path.starts_with("/dev/nvidia"))
}

/// The processes that have a device of the driver open, or a display that it drives, by id.
pub fn holders_and_displays(system: &System) -> Vec<Holder> {
    let displays = displays(system);
    having_open(system, |path| match path.strip_prefix("/dev/dri/") {
        Some(name) => displays.contains(name),
        None => path.starts_with("/dev/nvidia"),
    })
}

fn having_open(system: &System, is_of_driver: impl Fn(&str) -> bool) -> Vec<Holder> {
    let processes = system.list("/proc").unwrap_or_default();
    let mut numbers: Vec<u32> = processes
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
        .into_iter()
        .filter(|pid| {
            let folder = format!("/proc/{pid}/fd");
            // A process may exit meanwhile, and other users' processes are not readable: neither can be
            // named as a holder.
            let open = system.list(&folder).unwrap_or_default();
            open.iter().any(|fd| {
                system
                    .link_target(format!("{folder}/{fd}"))
                    .is_some_and(|target| is_of_driver(&target.to_string_lossy()))
            })
        })
        .map(|process| Holder {
            process,
            name: process_name(system, process),
            unit: unit(system, process),
        })
        .collect()
}

/// The devices for displays that the driver drives: `card0`, `renderD128`.
fn displays(system: &System) -> BTreeSet<String> {
    const DRM: &str = "/sys/class/drm";
    system
        .list(DRM)
        .unwrap_or_default()
        .into_iter()
        .filter(|name| {
            let driver = system.link_target(format!("{DRM}/{name}/device/driver"));
            driver.is_some_and(|driver| driver.file_name().is_some_and(|name| name == "nvidia"))
        })
        .collect()
}

/// Whether the kernel module nvidia_drm drives displays itself (`modeset=1`): then it keeps the
/// GPUs open, too.
pub fn kernel_drives_displays(system: &System) -> bool {
    let set = system
        .read_text("/sys/module/nvidia_drm/parameters/modeset")
        .ok()
        .flatten();
    set.is_some_and(|text| text.trim() == "Y")
}

/// The last part of its control group that is a service:
/// `0::/system.slice/nvidia-fabricmanager.service`. A user may have one of the same name.
fn unit(system: &System, process: u32) -> Option<String> {
    let groups = system.read_text(format!("/proc/{process}/cgroup")).ok()??;
    let of_system = groups
        .lines()
        .filter(|line| line.contains(":/system.slice/"));
    let mut parts = of_system.flat_map(|line| line.rsplit('/'));
    parts
        .find(|part| part.ends_with(".service"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn whoever_has_a_device_open_is_named() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        for (card, driver) in [("card0", "nvidia"), ("card1", "ast")] {
            system
                .make_directories(format!("/sys/class/drm/{card}/device"), 0o755)
                .expect("made");
            let target = Path::new("../../../bus/pci/drivers").join(driver);
            system
                .link(format!("/sys/class/drm/{card}/device/driver"), &target)
                .expect("linked");
        }
        for (pid, name, target) in [
            ("9", "python3", "/dev/nvidia0"),
            ("812", "Xorg", "/dev/nvidiactl"),
            ("7", "bash", "/dev/null"),
            ("900", "kmscon", "/dev/dri/card0"),
            ("901", "other", "/dev/dri/card1"),
        ] {
            system
                .make_directories(format!("/proc/{pid}/fd"), 0o755)
                .expect("made");
            system
                .write(
                    format!("/proc/{pid}/comm"),
                    format!("{name}\n").as_bytes(),
                    0o644,
                )
                .expect("written");
            system
                .link(format!("/proc/{pid}/fd/3"), Path::new(target))
                .expect("linked");
        }
        let group = "12:pids:/x\n0::/system.slice/display-manager.service\n";
        system
            .write("/proc/812/cgroup", group.as_bytes(), 0o644)
            .expect("written");
        let units: Vec<_> = holders(&system)
            .into_iter()
            .map(|holder| holder.unit)
            .collect();
        assert_eq!(units, [None, Some("display-manager.service".to_owned())]);
        let of_user =
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/display-manager.service\n";
        system
            .write("/proc/9/cgroup", of_user.as_bytes(), 0o644)
            .expect("written");
        assert_eq!(holders(&system)[0].unit, None);
        let shown: Vec<_> = holders(&system).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["python3 (process 9)", "Xorg (process 812)"]);
        let shown: Vec<_> = holders_and_displays(&system)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            shown,
            [
                "python3 (process 9)",
                "Xorg (process 812)",
                "kmscon (process 900)"
            ]
        );
        assert!(!kernel_drives_displays(&system));
        system
            .make_directories("/sys/module/nvidia_drm/parameters", 0o755)
            .expect("made");
        system
            .write("/sys/module/nvidia_drm/parameters/modeset", b"Y\n", 0o644)
            .expect("written");
        assert!(kernel_drives_displays(&system));
    }
}
