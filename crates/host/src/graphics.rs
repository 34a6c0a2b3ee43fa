//! Whether a host has a desktop, detected by files. No program is run.

use super::reader::Reader;
use std::path::PathBuf;

/// The display manager that systemd starts, or Debian's choice of one; X servers; Wayland
/// compositors.
const SIGNS: [&str; 9] = [
    "/etc/systemd/system/display-manager.service",
    "/etc/X11/default-display-manager",
    "/usr/lib/xorg/Xorg",
    "/usr/libexec/Xorg",
    "/usr/bin/Xorg",
    "/usr/bin/gnome-shell",
    "/usr/bin/kwin_wayland",
    "/usr/bin/sway",
    "/usr/bin/weston",
];

/// The file that proves a desktop. A link counts even if it is broken: a display manager's unit is
/// one.
pub(crate) fn desktop(reader: &Reader) -> Option<PathBuf> {
    SIGNS
        .into_iter()
        .find(|path| reader.system.exists(path) || reader.system.link_target(path).is_some())
        .map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_system::System;

    #[test]
    fn a_display_manager_shows_a_desktop_and_a_bare_host_none() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        assert_eq!(desktop(&Reader::new(&system)), None);
        let units = dir.path().join("etc/systemd/system");
        std::fs::create_dir_all(&units).expect("made");
        std::os::unix::fs::symlink(
            "/usr/lib/systemd/system/gdm.service",
            units.join("display-manager.service"),
        )
        .expect("linked");
        assert_eq!(desktop(&Reader::new(&system)), Some(SIGNS[0].into()));
    }
}
