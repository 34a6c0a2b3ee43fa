//! The operating system: os-release, package manager, initramfs tool, compiler, C library.

use super::Os;
use crate::compat::{InitramfsTool, PackageManager};
use crate::system::System;
use std::path::Path;

/// The system of an os-release.
pub fn probe(system: &System, release: &str) -> Os {
    let value = |key| value(release, key).unwrap_or_default();
    let there = |path: &str| system.exists(path);
    let managers = [
        ("/usr/bin/apt-get", PackageManager::Apt),
        ("/usr/bin/zypper", PackageManager::Zypper),
        ("/usr/bin/dnf", PackageManager::Dnf),
        ("/usr/bin/dnf5", PackageManager::Dnf),
    ];
    let tools = [
        ("/usr/sbin/update-initramfs", InitramfsTool::UpdateInitramfs),
        ("/usr/bin/dracut", InitramfsTool::Dracut),
        ("/usr/sbin/dracut", InitramfsTool::Dracut),
        ("/usr/bin/mkinitcpio", InitramfsTool::Mkinitcpio),
    ];
    Os {
        id: value("ID"),
        version: value("VERSION_ID"),
        like: value("ID_LIKE").split_whitespace().map(str::to_owned).collect(),
        name: value("PRETTY_NAME"),
        package_manager: managers.into_iter().find(|(path, _)| there(path)).map(|(_, m)| m),
        initramfs: tools.into_iter().find(|(path, _)| there(path)).map(|(_, t)| t),
        immutable: there("/run/ostree-booted") || there("/ostree/repo"),
    }
}

/// A value of os-release, its shell quotes taken off.
fn value(release: &str, key: &str) -> Option<String> {
    let text = release.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='))?.trim();
    let inner = ['"', '\''].iter().find_map(|q| text.strip_prefix(*q)?.strip_suffix(*q)).unwrap_or(text);
    let (mut out, mut escaped) = (String::new(), false);
    for c in inner.chars() {
        if c == '\\' && !escaped {
            escaped = true;
            continue;
        }
        escaped = false;
        out.push(c);
    }
    Some(out)
}

/// The version of the gcc that `gcc` is: `12.2.0` where the folder of its libraries says that much, else `12`.
pub fn gcc(system: &System) -> Option<String> {
    let link = system.link_target("/usr/bin/gcc");
    let major = link.as_deref().and_then(Path::file_name).and_then(|name| {
        let name = name.to_string_lossy();
        Some(name.rsplit_once('-')?.1.to_owned()).filter(|v| v.bytes().all(|b| b.is_ascii_digit()))
    });
    if major.is_none() && !system.exists("/usr/bin/gcc") {
        return None;
    }
    // Debian's folders carry the major version, Red Hat's likewise, others the whole one.
    let mut versions = Vec::new();
    for triple in system.list("/usr/lib/gcc").ok()? {
        for version in system.list(Path::new("/usr/lib/gcc").join(&triple)).ok()? {
            if version.starts_with(|c: char| c.is_ascii_digit()) {
                versions.push(version);
            }
        }
    }
    let number = |v: &String| v.split('.').map(|n| n.parse::<u32>().unwrap_or(0)).collect::<Vec<_>>();
    match major {
        Some(major) => Some(versions.into_iter().find(|v| v.split('.').next() == Some(&major)).unwrap_or(major)),
        None => versions.into_iter().max_by_key(number),
    }
}

/// The C library's version, by the name of its file or by the symbols in it.
pub fn glibc(system: &System) -> Option<String> {
    let places = [
        "/lib/x86_64-linux-gnu",
        "/lib/aarch64-linux-gnu",
        "/lib/powerpc64le-linux-gnu",
        "/lib64",
        "/usr/lib64",
        "/lib",
    ];
    for place in places {
        let library = Path::new(place).join("libc.so.6");
        if !system.exists(&library) {
            continue;
        }
        if let Some(target) = system.link_target(&library) {
            let name = target.display().to_string();
            if let Some(version) = name.strip_prefix("libc-").and_then(|n| n.strip_suffix(".so")) {
                return Some(version.to_owned());
            }
        }
        return banner(&system.read(&library).ok()?);
    }
    None
}

/// `GNU C Library (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.`
fn banner(library: &[u8]) -> Option<String> {
    const MARK: &[u8] = b"stable release version ";
    let at = memchr::memmem::find(library, MARK)? + MARK.len();
    let text: String = library[at..].iter().take(8).map(|b| char::from(*b)).collect();
    let version: String = text.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    Some(version.trim_end_matches('.').to_owned()).filter(|v| !v.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_escapes_are_taken_off() {
        let text = "NAME=\"A \\\"B\\\"\"\nID=rocky\nID_LIKE='rhel centos fedora'\n#ID=x\nVERSION_ID=\"9.6\"\n";
        assert_eq!(value(text, "NAME").as_deref(), Some("A \"B\""));
        assert_eq!(value(text, "ID").as_deref(), Some("rocky"));
        assert_eq!(value(text, "ID_LIKE").as_deref(), Some("rhel centos fedora"));
        assert_eq!(value(text, "VERSION_ID").as_deref(), Some("9.6"));
        assert_eq!(value(text, "VARIANT"), None);
    }

    #[test]
    fn the_c_library_says_its_version() {
        assert_eq!(banner(b"\0GNU C Library (X) stable release version 2.36.\nCopy").as_deref(), Some("2.36"));
        assert_eq!(banner(b"nothing"), None);
    }
}
