//! The kernels of a host: the running one, the installed ones, the next to boot, and what each
//! offers for building a module.

use super::kernel_module;
use super::reader::Reader;
use super::{Initramfs, Kernel, Kernels};
use std::cmp::Ordering;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const MODULES: &str = "/lib/modules";
/// How many folders of kernels are looked at, the newest ones: more than any host has, with what
/// removed kernels left.
const MAX_KERNELS: usize = 256;

/// Detects the kernels.
pub(crate) fn kernels(reader: &mut Reader) -> Kernels {
    let what = "the running kernel";
    let live = reader.system.is_live();
    let running = live
        .then(|| reader.word(what, "/proc/sys/kernel/osrelease"))
        .flatten();
    let mut releases = reader.names("installed kernels", MODULES);
    releases.retain(|release| is_likely(release));
    keep_newest(reader, &mut releases, running.as_deref());
    releases.retain(|release| is_installed(reader, release));
    releases.sort_by(|a, b| compare(a, b));
    let installed: Vec<_> = releases
        .into_iter()
        .map(|release| kernel(reader, release, running.as_deref()))
        .collect();
    let saved = live.then(|| saved_entry(reader, &installed)).flatten();
    Kernels {
        running,
        next_boot: saved.or_else(|| installed.last().map(|k| k.release.clone())),
        installed,
    }
}

/// Keeps so many releases as are looked at: the newest ones, and the running one.
fn keep_newest(reader: &Reader, releases: &mut Vec<String>, running: Option<&str>) {
    let Some(over) = releases
        .len()
        .checked_sub(MAX_KERNELS)
        .filter(|over| *over > 0)
    else {
        return;
    };
    reader.system.leave_out(
        MODULES,
        &format!("only its {MAX_KERNELS} newest kernels are looked at"),
    );
    releases.select_nth_unstable_by(over, |a, b| compare(a, b));
    let newest = releases.split_off(over);
    releases.retain(|release| Some(release.as_str()) == running);
    releases.extend(newest);
}

/// Whether a directory holds what comes with a kernel. Headers have a directory too, and so has a
/// removed kernel: DKMS builds modules there, and its depmod writes `modules.dep`.
fn is_installed(reader: &Reader, release: &str) -> bool {
    let directory = Path::new(MODULES).join(release);
    ["modules.builtin", "kernel"]
        .iter()
        .any(|name| reader.system.exists(directory.join(name)))
}

/// Whether a directory name can be a kernel release. Releases are part of commands that people
/// paste into a shell.
pub(crate) fn is_likely(release: &str) -> bool {
    !release.starts_with('-')
        && release
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._+~-:@".contains(c))
}

fn kernel(reader: &mut Reader, release: String, running: Option<&str>) -> Kernel {
    let directory = Path::new(MODULES).join(&release);
    Kernel {
        headers: has_headers(reader, &directory.join("build")),
        compiler: compiler(reader, &release, running == Some(&release)),
        nvidia_module: kernel_module::version(reader, &directory, &release),
        initramfs: initramfs(reader, &release),
        release,
    }
}

/// Whether a module can be built against `build`: the makefile and the files it includes, the
/// configuration and the scripts must exist, behind links too.
fn has_headers(reader: &mut Reader, build: &Path) -> bool {
    let configured = [
        ".config",
        "include/config/auto.conf",
        "include/generated/autoconf.h",
    ];
    // Debian's scripts are a link into a separate package.
    let scripts = build.join("scripts");
    let dangling = reader.system.link_target(&scripts).is_some() && !reader.system.exists(&scripts);
    if dangling || !configured.iter().any(|f| reader.is_file(build.join(f))) {
        return false;
    }
    // Debian's makefile is one line that includes the makefile of another package.
    let Some(makefile) = reader.head("kernel headers", build.join("Makefile"), 1 << 12) else {
        return false;
    };
    let absolute = makefile
        .lines()
        .filter_map(|l| l.strip_prefix("include "))
        .map(str::trim)
        .filter(|p| p.starts_with('/'));
    absolute.into_iter().all(|path| reader.is_file(path))
}

fn compiler(reader: &mut Reader, release: &str, running: bool) -> Option<String> {
    let what = "the compiler of the kernel";
    let build = Path::new(MODULES).join(release).join("build");
    let configurations = [
        PathBuf::from(format!("/boot/config-{release}")),
        Path::new(MODULES).join(release).join("config"),
        build.join(".config"),
        build.join("include/config/auto.conf"),
    ];
    for path in &configurations {
        // It is among the first lines.
        let found = reader
            .head(what, path, 1 << 12)
            .as_deref()
            .and_then(configured_compiler);
        if found.is_some() {
            return found;
        }
    }
    let version = running
        .then(|| reader.text(what, "/proc/version"))
        .flatten()?;
    running_compiler(&version)
}

fn configured_compiler(text: &str) -> Option<String> {
    let value = text
        .lines()
        .find_map(|l| l.strip_prefix("CONFIG_CC_VERSION_TEXT="))?;
    Some(value.trim().trim_matches('"').to_owned())
}

/// `Linux version 6.1.0 (builder) (gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld …) #1 …`; older kernels
/// say `(gcc version 8.5.0 20210514 (Red Hat 8.5.0-4) (GCC) ) #1 …`.
fn running_compiler(text: &str) -> Option<String> {
    let (_, rest) = text.split_once(") (")?;
    let (inside, _) = rest.split_once(" #")?;
    let inside = inside
        .split_once(", ")
        .map_or(inside, |(compiler, _)| compiler);
    let open = inside.matches('(').count();
    let trimmed = if inside.matches(')').count() > open {
        inside.strip_suffix(')').unwrap_or(inside)
    } else {
        inside
    };
    Some(trimmed.trim().to_owned()).filter(|t| !t.is_empty())
}

fn initramfs(reader: &Reader, release: &str) -> Option<Initramfs> {
    gpusetup_packages::initramfs_names(release).find_map(|name| {
        let path = Path::new("/boot").join(name);
        let metadata = reader.metadata(&path).filter(|m| m.is_file())?;
        Some(Initramfs {
            path,
            size: metadata.len(),
            modified: metadata.mtime(),
        })
    })
}

/// The kernel that GRUB is set to boot, on hosts whose boot entries end in the release (Fedora,
/// RHEL).
fn saved_entry(reader: &mut Reader, installed: &[Kernel]) -> Option<String> {
    let what = "the kernel that boots next";
    let defaults = reader.text(what, "/etc/default/grub")?;
    if !defaults.lines().any(|l| {
        l.trim()
            .trim_start_matches("GRUB_DEFAULT=")
            .trim_matches(['"', '\''])
            == "saved"
    }) {
        return None;
    }
    let environment = reader.head(what, "/boot/grub2/grubenv", 4096)?;
    let entry = environment
        .lines()
        .find_map(|l| l.strip_prefix("saved_entry="))?
        .trim();
    let named = installed
        .iter()
        .rev()
        .find(|k| entry.ends_with(&format!("-{}", k.release)));
    named.map(|k| k.release.clone())
}

/// Compares releases: numbers as numbers, everything else as text, and a candidate (`-rc1`) before
/// its release.
pub fn compare(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (parts(a), parts(b));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (x, y) => rank(x).cmp(&rank(y)),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Sorts a candidate before the end, the end before words, and words before numbers: 6.1-rc1, 6.1,
/// 6.1-amd64, 6.1.2.
fn rank(part: Option<&str>) -> (u8, usize, &str) {
    match part {
        Some("rc") => (0, 0, ""),
        None => (1, 0, ""),
        Some(p) if p.starts_with(|c: char| c.is_ascii_digit()) => {
            let digits = p.trim_start_matches('0');
            (3, digits.len(), digits)
        }
        Some(p) => (2, 0, p),
    }
}

/// Splits into runs of digits and runs of letters; other characters only separate.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        let first = rest.chars().next()?;
        let end = rest.find(|c: char| {
            !c.is_ascii_alphanumeric() || c.is_ascii_digit() != first.is_ascii_digit()
        });
        let end = end.unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn kernels_are_in_the_order_of_their_numbers() {
        let sorted = [
            "4.18.0-553.el8_10.x86_64",
            "5.14.0-70.13.1.el9_0.x86_64",
            "5.14.0-427.el9.x86_64",
            "6.1.0-9-amd64",
            "6.1.0-18-amd64",
            "6.1.0-18-cloud-amd64",
            "6.8.0-45-generic",
            "6.8.0-100-generic",
            "6.12-rc7-amd64",
            "6.12-amd64",
            "6.12.1-amd64",
        ];
        let mut shuffled: Vec<_> = sorted.iter().rev().copied().collect();
        shuffled.sort_by(|a, b| compare(a, b));
        assert_eq!(shuffled, sorted);
    }

    #[test]
    fn the_compiler_is_read_from_both_places() {
        let config = "#\n# Automatically generated file; DO NOT EDIT.\n#\nCONFIG_CC_VERSION_TEXT=\"gcc-12 (Debian 12.2.0-14) 12.2.0\"\n";
        assert_eq!(
            configured_compiler(config).as_deref(),
            Some("gcc-12 (Debian 12.2.0-14) 12.2.0")
        );
        let new = "Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld \
                   (GNU Binutils for Debian) 2.40) #1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1";
        assert_eq!(
            running_compiler(new).as_deref(),
            Some("gcc-12 (Debian 12.2.0-14) 12.2.0")
        );
        let old = "Linux version 4.18.0-372.el8.x86_64 (mockbuild@x) (gcc version 8.5.0 20210514 (Red Hat 8.5.0-10) (GCC)) #1 SMP";
        assert_eq!(
            running_compiler(old).as_deref(),
            Some("gcc version 8.5.0 20210514 (Red Hat 8.5.0-10) (GCC)")
        );
        assert_eq!(running_compiler("nonsense"), None);
    }

    proptest! {
        #[test]
        fn the_order_is_one(a in "[0-9a-z.rc-]{0,12}", b in "[0-9a-z.rc-]{0,12}", c in "[0-9a-z.rc-]{0,12}") {
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
                prop_assert!(compare(&a, &c).is_le());
            }
        }
    }
}
