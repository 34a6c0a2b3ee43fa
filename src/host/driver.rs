//! The driver installed, and who put it there. More than one is a mixed install.

use super::probe::Notes;
use super::{InstalledDriver, Kernels, Origin};
use crate::compat::ModuleFlavour;
use crate::system::System;
use crate::version::DriverVersion;
use std::path::Path;

/// Where distributions keep libcuda.
pub const LIBRARY_FOLDERS: [&str; 8] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/powerpc64le-linux-gnu",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/lib64/nvidia",
    "/usr/lib",
];

/// The driver that programs get, and any other beside it.
pub fn probe(system: &System, kernels: &Kernels, notes: &mut Notes) -> (Option<InstalledDriver>, Vec<InstalledDriver>) {
    let mut found: Vec<InstalledDriver> = Vec::new();
    let packages = packages(system, notes);
    let runfile = runfile(system);
    for folder in LIBRARY_FOLDERS {
        for name in system.list(folder).unwrap_or_default() {
            let Some(version) = name.strip_prefix("libcuda.so.").and_then(|v| v.parse::<DriverVersion>().ok()) else {
                continue;
            };
            let path = Path::new(folder).join(&name);
            // /usr/lib64 may be /usr/lib; a library is counted once.
            if found.iter().any(|d| d.version == version) || system.link_target(&path).is_some() {
                continue;
            }
            let origin = match (packages.iter().find(|(_, v)| *v == version), runfile) {
                (Some((origin, _)), _) => *origin,
                (None, Some(by_runfile)) if by_runfile == version => Origin::Runfile,
                _ => rpm_origin(system),
            };
            found.push(InstalledDriver { version, origin, modules: None, evidence: path.display().to_string() });
        }
    }
    for (origin, version) in packages.into_iter().chain(runfile.map(|v| (Origin::Runfile, v))) {
        if !found.iter().any(|d| d.version == version) {
            let evidence = match origin {
                Origin::Runfile => "/var/log/nvidia-installer.log".to_owned(),
                Origin::Dpkg | Origin::Rpm | Origin::Unknown => "/var/lib/dpkg/status".to_owned(),
            };
            found.push(InstalledDriver { version, origin, modules: None, evidence });
        }
    }
    let flavour = flavour(system, kernels);
    for driver in &mut found {
        driver.modules = flavour;
    }
    // The version whose modules the next kernel has is the driver; what else is there is beside it.
    let loads = kernels.installed.last().and_then(|k| k.nvidia_module);
    found.sort_by_key(|d| (Some(d.version) != loads, std::cmp::Reverse(d.version)));
    let mut found = found.into_iter();
    (found.next(), found.collect())
}

/// Versions of installed driver packages, by dpkg's status.
fn packages(system: &System, notes: &mut Notes) -> Vec<(Origin, DriverVersion)> {
    // One package of the user space each: libcuda's, by Debian's, Ubuntu's and NVIDIA's names.
    const NAMES: [&[u8]; 3] = [b"\nPackage: libcuda1\n", b"\nPackage: libnvidia-compute", b"\nPackage: libcuda1-"];
    let path = "/var/lib/dpkg/status";
    let status = match system.read(path) {
        Ok(status) => status,
        Err(e) if crate::system::is_absent(&e) => return Vec::new(),
        Err(e) => {
            notes.note(path, &e.to_string());
            return Vec::new();
        }
    };
    let mut out = Vec::new();
    for name in NAMES {
        for at in memchr::memmem::find_iter(&status, name) {
            let stanza = &status[at + 1..];
            let end = memchr::memmem::find(stanza, b"\n\n").unwrap_or(stanza.len());
            let stanza = String::from_utf8_lossy(&stanza[..end]);
            let field = |key: &str| stanza.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(": "));
            let installed = field("Status").is_some_and(|s| s.ends_with(" installed"));
            // `535.261.03-1~deb12u1`, `580.95.05-0ubuntu0.24.04.1`
            let version = field("Version").and_then(|v| v.split(['-', '+', '~']).next()?.parse::<DriverVersion>().ok());
            if let (true, Some(version)) = (installed, version) {
                out.push((Origin::Dpkg, version));
            }
        }
    }
    out.sort_by_key(|(_, v)| *v);
    out.dedup();
    out
}

/// The version that NVIDIA's installer says it installed, while its uninstaller is there.
fn runfile(system: &System) -> Option<DriverVersion> {
    if !system.exists("/usr/bin/nvidia-uninstall") {
        return None;
    }
    // The first line of its record, else the log: `Driver version: 580.95.05`, `NVIDIA-Linux-x86_64-580.95.05`.
    let text = ["/var/lib/nvidia/log", "/var/log/nvidia-installer.log"]
        .iter()
        .find_map(|p| system.read_text(p).ok().flatten())?;
    text.split(|c: char| !(c.is_ascii_digit() || c == '.'))
        .find_map(|word| word.parse::<DriverVersion>().ok().filter(|v| v.branch >= 300 && v.branch < 2000))
}

/// An RPM host's libraries are packages unless the runfile left its traces.
fn rpm_origin(system: &System) -> Origin {
    let rpm = ["/var/lib/rpm", "/usr/lib/sysimage/rpm"].iter().any(|p| system.is_directory(p));
    let licensed = system.list("/usr/share/licenses").unwrap_or_default().iter().any(|n| n.contains("nvidia"));
    if rpm && licensed { Origin::Rpm } else { Origin::Unknown }
}

/// By the licence that the newest kernel's module names.
fn flavour(system: &System, kernels: &Kernels) -> Option<ModuleFlavour> {
    let release = &kernels.installed.last()?.release;
    let names = ["nvidia.ko", "nvidia-current.ko"];
    let path = names.iter().map(|n| format!("/lib/modules/{release}/updates/dkms/{n}")).find(|p| system.exists(p))?;
    let module = system.read(path).ok()?;
    let info = |text: &[u8]| memchr::memmem::find(&module, text).is_some();
    if info(b"\0license=Dual MIT/GPL\0") {
        Some(ModuleFlavour::Open)
    } else if info(b"license=NVIDIA\0") {
        Some(ModuleFlavour::Proprietary)
    } else {
        None
    }
}
