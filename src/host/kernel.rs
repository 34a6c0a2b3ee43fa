//! Kernels: the one running, those installed, the one that boots next, and what each has to build and load modules.

use super::probe::Notes;
use super::{Initramfs, Kernel, Kernels};
use crate::system::System;
use crate::version::DriverVersion;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};

/// Where the modules of kernels are.
const MODULES: &str = "/lib/modules";

/// The kernels of a host.
pub fn probe(system: &System, notes: &mut Notes) -> Kernels {
    let running =
        if system.is_live() { Some(rustix::system::uname().release().to_string_lossy().into_owned()) } else { None };
    let mut releases = notes.take(MODULES, system.list(MODULES)).unwrap_or_default();
    // A folder that a removed kernel's modules have left behind is no kernel.
    releases.retain(|r| ["modules.dep", "modules.builtin", "kernel"].iter().any(|f| system.exists(folder(r).join(f))));
    releases.sort_by(|a, b| by_release(a, b));
    let installed: Vec<_> = releases.into_iter().map(|release| kernel(system, release, notes)).collect();
    let newest = installed.last().map(|k| k.release.clone());
    Kernels { next_boot: newest.or_else(|| running.clone()), running, installed }
}

fn folder(release: &str) -> PathBuf {
    Path::new(MODULES).join(release)
}

/// Releases by their numbers, then by their texts: 6.1.0-10 is after 6.1.0-9.
pub fn by_release(a: &str, b: &str) -> Ordering {
    let split = |s: &str| -> Vec<(u64, String)> {
        let mut parts: Vec<(u64, String)> = Vec::new();
        for c in s.chars() {
            match (c.to_digit(10), parts.last_mut()) {
                (Some(d), Some((n, text))) if text.is_empty() => *n = n.saturating_mul(10).saturating_add(d.into()),
                (Some(d), _) => parts.push((d.into(), String::new())),
                (None, Some((_, text))) => text.push(c),
                (None, None) => parts.push((0, c.to_string())),
            }
        }
        parts
    };
    split(a).cmp(&split(b))
}

fn kernel(system: &System, release: String, notes: &mut Notes) -> Kernel {
    let build = folder(&release).join("build");
    Kernel {
        headers: system.exists(build.join("Makefile")) && system.exists(build.join("include/generated/utsrelease.h"))
            || system.exists(build.join("Makefile")) && system.exists(build.join(".config")),
        compiler: compiler(system, &release),
        nvidia_module: nvidia_module(system, &release, notes),
        initramfs: initramfs(system, &release),
        release,
    }
}

/// `CONFIG_CC_VERSION_TEXT` of the kernel's configuration.
fn compiler(system: &System, release: &str) -> Option<String> {
    let places = [
        PathBuf::from(format!("/boot/config-{release}")),
        folder(release).join("config"),
        folder(release).join("build/.config"),
    ];
    places.iter().find_map(|path| {
        // The line is among the first; configurations have ten thousand.
        let text = system.read(path).ok()?;
        let head = String::from_utf8_lossy(&text[..text.len().min(4096)]).into_owned();
        let line = head.lines().find_map(|l| l.strip_prefix("CONFIG_CC_VERSION_TEXT="))?;
        Some(line.trim_matches('"').to_owned())
    })
}

fn initramfs(system: &System, release: &str) -> Option<Initramfs> {
    let names = [
        format!("/boot/initrd.img-{release}"),
        format!("/boot/initramfs-{release}.img"),
        format!("/boot/initrd-{release}"),
    ];
    names.into_iter().map(PathBuf::from).find_map(|path| {
        let meta = system.locate_target(&path).ok()?.metadata().ok()?;
        let modified = system.modified(&path)?;
        Some(Initramfs { path, size: meta.len(), modified })
    })
}

/// The version of the nvidia module built for a kernel, by the module itself.
fn nvidia_module(system: &System, release: &str, notes: &mut Notes) -> Option<DriverVersion> {
    // DKMS, Debian's name of it, Red Hat's kmods, Ubuntu's and SUSE's prebuilt ones, the runfile's.
    const PLACES: [&str; 7] = [
        "updates/dkms",
        "extra",
        "extra/nvidia",
        "kernel/drivers/video",
        "kernel/nvidia",
        "updates",
        "kernel/drivers/video/nvidia",
    ];
    const NAMES: [&str; 2] = ["nvidia", "nvidia-current"];
    for place in PLACES {
        for name in NAMES {
            for ending in [".ko", ".ko.xz", ".ko.zst", ".ko.gz"] {
                let path = folder(release).join(place).join(format!("{name}{ending}"));
                if !system.exists(&path) {
                    continue;
                }
                let what = format!("version of {}", path.display());
                let bytes = notes.take(&what, system.read(&path))?;
                let module = match ending {
                    ".ko" => Some(bytes),
                    ".ko.xz" => unpacked(&bytes),
                    _ => None,
                };
                let version = module.as_deref().and_then(module_version);
                if version.is_none() {
                    notes.note(&what, "the module is compressed in a way that is not read here, or says no version");
                }
                return version;
            }
        }
    }
    None
}

fn unpacked(bytes: &[u8]) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut out = Vec::new();
    // A module is some 100 MB at most; what claims to be more is none.
    liblzma::read::XzDecoder::new(bytes).take(1 << 28).read_to_end(&mut out).ok()?;
    Some(out)
}

/// `version=` in the module's `.modinfo` section.
fn module_version(module: &[u8]) -> Option<DriverVersion> {
    use object::{Object, ObjectSection};
    let file = object::File::parse(module).ok()?;
    let info = file.section_by_name(".modinfo")?.data().ok()?;
    info.split(|b| *b == 0).find_map(|entry| std::str::from_utf8(entry).ok()?.strip_prefix("version=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_ordered_by_number() {
        let mut releases =
            ["6.1.0-10-amd64", "6.1.0-9-amd64", "5.10.0-30-amd64", "6.8.0-45-generic", "6.1.0-9-cloud-amd64"];
        releases.sort_by(|a, b| by_release(a, b));
        assert_eq!(
            releases,
            ["5.10.0-30-amd64", "6.1.0-9-amd64", "6.1.0-9-cloud-amd64", "6.1.0-10-amd64", "6.8.0-45-generic"]
        );
    }
}
