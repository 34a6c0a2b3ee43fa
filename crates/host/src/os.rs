//! The operating system, from os-release, and its tools, detected by their files. No tool is run.

use super::reader::Reader;
use super::{MachineKind, Os};
use gpusetup_database::compat::{Database, InitramfsTool, PlatformDriver};
use gpusetup_database::version::AddOnVersion;
use gpusetup_system::System;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The operating system that an os-release text names.
pub(crate) fn os(reader: &Reader, release: &str, database: &Database, kind: MachineKind) -> Os {
    let fields = parse(release);
    let field = |key: &str| fields.get(key).cloned().unwrap_or_default();
    // os-release(5) defines this default for a missing ID.
    let id = Some(field("ID"))
        .filter(|id| !id.is_empty())
        .unwrap_or_else(|| "linux".to_owned());
    let name = Some(field("PRETTY_NAME"))
        .filter(|n| !n.is_empty())
        .unwrap_or_else(|| id.clone());
    let variant = Some(field("VARIANT_ID")).filter(|variant| !variant.is_empty());
    let signs = signs(reader, database, kind);
    let platform = database.platform(&id, variant.as_deref(), &signs);
    let is_image = platform.is_some_and(|platform| platform.driver == PlatformDriver::Image);
    Os {
        version: field("VERSION_ID"),
        like: field("ID_LIKE")
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
        package_manager: gpusetup_packages::find(|program| reader.is_file(program)),
        initramfs: initramfs(reader),
        immutable: is_image
            || signs
                .iter()
                .any(|sign| IMAGES.iter().any(|image| sign == Path::new(image))),
        variant,
        signs,
        id,
        name,
    }
}

/// The fields of an os-release text: assignments in shell syntax.
fn parse(text: &str) -> BTreeMap<String, String> {
    let assignments = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.starts_with('#'))
        .filter_map(|l| l.split_once('='));
    assignments
        .map(|(key, value)| (key.to_owned(), unquote(value)))
        .collect()
}

fn unquote(value: &str) -> String {
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    let Some(inner) = quote.and_then(|q| value.strip_prefix(q)?.strip_suffix(q)) else {
        return value.to_owned();
    };
    if quote == Some('\'') {
        return inner.to_owned();
    }
    let (mut out, mut chars) = (String::new(), inner.chars());
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out
}

fn initramfs(reader: &Reader) -> Option<InitramfsTool> {
    let any = |paths: &[&str]| paths.iter().any(|p| reader.is_file(p));
    // Ubuntu's dracut installs its own update-initramfs, which calls dracut; only initramfs-tools
    // has mkinitramfs.
    if any(&["/usr/sbin/update-initramfs"]) && any(&["/usr/sbin/mkinitramfs"]) {
        return Some(InitramfsTool::UpdateInitramfs);
    }
    if any(&["/usr/bin/dracut", "/usr/sbin/dracut"]) {
        return Some(InitramfsTool::Dracut);
    }
    if any(&["/usr/sbin/update-initramfs"]) {
        return Some(InitramfsTool::UpdateInitramfs);
    }
    any(&["/usr/bin/mkinitcpio"]).then_some(InitramfsTool::Mkinitcpio)
}

/// ostree shows by a file written at boot, by its repository and by its link; openSUSE's
/// transactional systems by their tool.
const IMAGES: [&str; 4] = [
    "/run/ostree-booted",
    REPOSITORY,
    OSTREE_LINK,
    "/usr/sbin/transactional-update",
];

/// Where `python3` is looked for.
const PYTHONS: [&str; 2] = ["/usr/local/bin/python3", "/usr/bin/python3"];

/// The Python that `python3` starts; without one, the Python that the distribution's package brings.
pub(crate) fn python(reader: &Reader, database: &Database, os: &Os) -> Option<AddOnVersion> {
    let mut programs = PYTHONS.iter().map(Path::new);
    if let Some(program) = programs.find(|path| reader.system.exists(path)) {
        // A link to python3.12; behind /etc/alternatives on some systems.
        let program = reader.resolved(program);
        let name = program.file_name()?.to_str()?;
        return name.strip_prefix("python")?.parse().ok();
    }
    database.distribution(&os.id, &os.version, &os.like)?.python
}

const REPOSITORY: &str = "/sysroot/ostree/repo";

/// The link to `sysroot/ostree` that every system of ostree has. In a tree it is the only sign:
/// `/run` is empty there, and nothing is mounted at `/sysroot`, so that the link leads nowhere.
const OSTREE_LINK: &str = "/ostree";

/// Files of an image itself. In a container, they show an image that is being built, which packages
/// can change.
const IN_IMAGES: [&str; 3] = [
    REPOSITORY,
    OSTREE_LINK,
    "/usr/share/ublue-os/image-info.json",
];

/// The files found that show an image-based system, or one with its vendor's driver.
fn signs(reader: &Reader, database: &Database, kind: MachineKind) -> Vec<PathBuf> {
    let all: BTreeSet<&Path> = IMAGES
        .iter()
        .map(Path::new)
        .chain(database.platform_files())
        .collect();
    all.into_iter()
        .filter(|path| {
            let mut in_images = IN_IMAGES.iter().map(Path::new);
            kind != MachineKind::Container || !in_images.any(|file| file == *path)
        })
        .filter(|path| is_there(reader.system, path))
        .map(Path::to_owned)
        .collect()
}

/// Whether a sign is there. An ordinary system may have a folder with the name of ostree's link.
fn is_there(system: &System, path: &Path) -> bool {
    match path == Path::new(OSTREE_LINK) {
        true => system
            .link_target(path)
            .is_some_and(|target| target.ends_with("sysroot/ostree")),
        false => system.exists(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_python_is_the_one_behind_the_links() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        let database = gpusetup_data::embedded();
        let os = Os {
            id: "rocky".to_owned(),
            version: "8.10".to_owned(),
            ..Os::default()
        };
        let seen = || python(&Reader::new(&system), &database, &os).map(|v| v.to_string());
        assert_eq!(seen().as_deref(), Some("3.6"), "the package's");
        let link = |path: &str, to: &str| {
            let parent = Path::new(path).parent().expect("a folder");
            system.make_directories(parent, 0o755).expect("made");
            system.link(path, Path::new(to)).expect("linked");
        };
        link("/usr/bin/python3", "/etc/alternatives/python3");
        link("/etc/alternatives/python3", "/usr/bin/python3.11");
        system
            .write("/usr/bin/python3.11", b"", 0o755)
            .expect("written");
        assert_eq!(seen().as_deref(), Some("3.11"));
        system
            .make_directories("/usr/local/bin", 0o755)
            .and_then(|_| system.write("/usr/local/bin/python3", b"", 0o755))
            .expect("written");
        assert_eq!(seen(), None, "its name does not say it");
    }

    #[test]
    fn assignments_are_read_as_a_shell_reads_them() {
        let fields = parse(
            "# a comment\nID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME='A \"B\"'\nX=\"a\\\"b\\$c\"\nODD=\"\nnone\n",
        );
        assert_eq!(fields["ID"], "debian");
        assert_eq!(fields["VERSION_ID"], "12");
        assert_eq!(fields["PRETTY_NAME"], "A \"B\"");
        assert_eq!(fields["X"], "a\"b$c");
        assert_eq!(fields["ODD"], "\"");
        assert_eq!(fields.len(), 5);
    }
}
