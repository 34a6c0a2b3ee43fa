//! Whether operations, and the undo of them, are such as gpusetup itself makes. A right fingerprint
//! or checksum says that a plan or a journal is as somebody wrote it, not that it makes sense:
//! everything is checked once, when it is read, and whoever carries it out may rely on it.

use super::undo::{Transaction, Undo, aside};
use gpusetup_database::sum::is_hex;
use gpusetup_host::bus_address;
use gpusetup_system::Node;
use std::path::{Component, Path};

/// What is wrong, in a few words.
pub type Valid = Result<(), String>;

/// No path is longer, in bytes: the kernel's PATH_MAX.
const MAX_PATH: usize = 4096;
/// No path has more components. Each level costs a look at all those above it.
const MAX_COMPONENTS: usize = 128;
/// No program may run longer, in seconds: a week.
pub(crate) const MAX_SECONDS: u64 = 7 * 24 * 3600;
/// Nothing is larger, in bytes.
const MAX_BYTES: u64 = 1 << 44;
/// A written file's mode has no other bits: nobody but the owner may write, and none runs as
/// somebody else.
pub(crate) const MODES: u32 = 0o755;

/// Whether a path is absolute, names something below the root, and leads nowhere else:
/// `/usr/local/cuda`.
pub fn path(path: &Path) -> Valid {
    if !path.is_absolute() {
        return Err(format!("the path {path:?} is not absolute"));
    }
    below(path.strip_prefix("/").unwrap_or(path), path)
}

/// Whether toolkits can go below this folder. It stands in files that shells and the loader read,
/// between colons.
pub fn prefix(folder: &Path) -> Valid {
    path(folder)?;
    if folder
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .all(|b| b.is_ascii_alphanumeric() || b"/._+-".contains(b))
    {
        return Ok(());
    }
    Err(format!(
        "the path {folder:?} has other characters than letters, digits and ._+-"
    ))
}

/// Whether downloads can be kept in this folder.
pub fn cache(folder: &Path) -> Valid {
    path(folder)?;
    match folder.to_str() {
        Some(text) if !text.contains(gpusetup_text::text::is_hidden) => Ok(()),
        _ => Err(format!("the path {folder:?} cannot be shown")),
    }
}

pub(crate) fn relative(path: &Path) -> Valid {
    if path.is_absolute() {
        return Err(format!("the path {path:?} is not relative"));
    }
    if path == Path::new(".") {
        Ok(())
    } else {
        below(path, path)
    }
}

fn below(relative: &Path, shown: &Path) -> Valid {
    let bytes = shown.as_os_str().as_encoded_bytes();
    let wrong = |why: &str| {
        Err(format!(
            "the path {:?}{why}",
            short(&shown.to_string_lossy())
        ))
    };
    let mut count = 0;
    for component in relative.components() {
        match component {
            Component::Normal(_) => count += 1,
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return wrong(" has .. in it");
            }
        }
    }
    match count {
        _ if bytes.contains(&0) => wrong(" has a NUL in it"),
        _ if bytes.len() > MAX_PATH || count > MAX_COMPONENTS => wrong(" is too long"),
        0 => wrong(" is a root directory"),
        _ => Ok(()),
    }
}

/// The beginning of a text, for a message.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(100).collect()
}

pub(crate) fn paths<'a>(all: impl IntoIterator<Item = &'a std::path::PathBuf>) -> Valid {
    all.into_iter().try_for_each(|p| path(p))
}

/// Whether a text is a SHA-256 in lower-case hexadecimal.
pub(crate) fn checksum(text: &str) -> Valid {
    if text.len() == 64 && is_hex(text) {
        return Ok(());
    }
    Err(format!("{:?} is not a SHA-256", short(text)))
}

pub(crate) fn size(bytes: u64) -> Valid {
    if bytes <= MAX_BYTES {
        Ok(())
    } else {
        Err(format!("{bytes} bytes are more than there can be"))
    }
}

pub(crate) fn no_nul(text: &str) -> Valid {
    if text.contains('\0') {
        Err(format!("{:?} has a NUL in it", short(text)))
    } else {
        Ok(())
    }
}

/// Whether a text is a line of a file, without its end.
pub(crate) fn a_line(text: &str) -> Valid {
    no_nul(text)?;
    if text.contains('\n') {
        Err(format!("{:?} is more than a line", short(text)))
    } else {
        Ok(())
    }
}

/// Whether an argv can be run: the program is an absolute path or a plain name.
pub(crate) fn argv(argv: &[String]) -> Valid {
    let program = argv.first().ok_or("a command without a program")?;
    if program.starts_with('/') {
        path(Path::new(program))?;
    } else if program.is_empty()
        || program.starts_with(['-', '.'])
        || !program
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c))
    {
        return Err(format!("{:?} is not the name of a program", short(program)));
    }
    argv.iter().try_for_each(|word| no_nul(word))
}

pub(crate) fn variable(name: &str) -> Valid {
    if !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    {
        return Ok(());
    }
    Err(format!(
        "{:?} is not the name of an environment variable",
        short(name)
    ))
}

/// Whether a text can be a package's name or version for every package manager: none reads it as an
/// option, and apt reads none that ends in `-` as one to remove.
pub(crate) fn package(text: &str) -> Valid {
    if text.len() <= 256
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && !text.ends_with('-')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.:~_^=()/".contains(c))
    {
        return Ok(());
    }
    Err(format!("{:?} is not the name of a package", short(text)))
}

/// Whether a text can be a package's name, or a pattern of names that begin with the same letters.
pub(crate) fn packages_named(text: &str) -> Valid {
    if text.starts_with('*') {
        return Err(format!("{:?} is a pattern of all packages", short(text)));
    }
    package(&text.replace('*', "x"))
}

/// Whether a text can be what a package manager says of a package that is installed; no command
/// reads it as an option.
fn observed(text: &str) -> Valid {
    if !text.is_empty()
        && text.len() <= 512
        && !text.starts_with('-')
        && text.chars().all(|c| c.is_ascii_graphic())
    {
        return Ok(());
    }
    Err(format!("{:?} is not the name of a package", short(text)))
}

pub(crate) fn unit(name: &str) -> Valid {
    if name.len() <= 256
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || ":_.@-\\".contains(c))
    {
        return Ok(());
    }
    Err(format!("{:?} is not the name of a unit", short(name)))
}

/// Whether a text is the bus address of a GPU, or its UUID.
pub(crate) fn gpu(name: &str) -> Valid {
    if name
        .strip_prefix("GPU-")
        .is_some_and(|id| id.len() == 36 && id.chars().all(|c| c.is_ascii_hexdigit() || c == '-'))
        || bus_address(name).is_some_and(|address| address == name)
    {
        return Ok(());
    }
    Err(format!(
        "{:?} is not the bus address or the UUID of a GPU",
        short(name)
    ))
}

pub(crate) fn url(url: &str) -> Valid {
    let known = ["https://", "http://", "file:///"]
        .iter()
        .any(|scheme| url.starts_with(scheme));
    if known
        && url.len() <= 8192
        && !url.contains(|c: char| c.is_whitespace() || gpusetup_text::text::is_hidden(c))
    {
        return Ok(());
    }
    Err(format!(
        "{:?} is not the address of a file (https, http, file)",
        short(url)
    ))
}

pub(crate) fn target(target: &Path) -> Valid {
    let bytes = target.as_os_str().as_encoded_bytes();
    if bytes.is_empty() || bytes.len() > MAX_PATH || bytes.contains(&0) {
        return Err(format!(
            "{:?} is not a valid target of a link",
            short(&target.to_string_lossy())
        ));
    }
    Ok(())
}

pub(crate) fn within(file: &Path, cache: &Path) -> Valid {
    path(file)?;
    if file.starts_with(cache) && file != cache {
        return Ok(());
    }
    Err(format!(
        "{:?} is not in the cache {:?}",
        short(&file.to_string_lossy()),
        short(&cache.to_string_lossy())
    ))
}

/// A text of a repository: letters, digits and these other characters.
pub(crate) fn plain(text: &str, others: &str) -> Valid {
    if !text.is_empty()
        && text.len() <= 256
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || others.contains(c))
    {
        return Ok(());
    }
    Err(format!("{:?} in a repository", short(text)))
}

pub(crate) fn fingerprint(text: &str) -> Valid {
    let is_one = text.len() == 40
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b));
    if is_one {
        Ok(())
    } else {
        Err(format!("{:?} is not a fingerprint", short(text)))
    }
}

impl Undo {
    /// Whether it can be what an operation noted: copies lie below `backups`.
    pub fn valid(&self, backups: &Path) -> Valid {
        match self {
            Self::Path {
                path: at,
                before,
                backup,
                after,
            } => {
                path(at)?;
                backup.iter().try_for_each(|copy| within(copy, backups))?;
                [Some(before), after.as_ref()]
                    .into_iter()
                    .flatten()
                    .try_for_each(node)
            }
            Self::Directory { path: at } | Self::Tree { path: at } | Self::Gone { path: at } => {
                path(at)
            }
            Self::Program { argv: command } => argv(command),
            Self::Packages(Transaction {
                manager: _,
                before,
                added,
                removed,
                automatic,
                unowned,
                driver,
            }) => {
                let removed = removed.iter().flat_map(|(name, version)| [name, version]);
                let versions = driver
                    .values()
                    .flat_map(|versions| [&versions.before].into_iter().chain(&versions.after));
                let names = before
                    .iter()
                    .chain(added.iter().flatten())
                    .chain(removed)
                    .chain(automatic);
                let names = names.chain(driver.keys()).chain(versions);
                names.into_iter().try_for_each(|text| observed(text))?;
                paths(unowned)
            }
            Self::Hold {
                manager: _,
                packages,
                held: _,
            } => packages.iter().try_for_each(|name| package(name)),
            Self::Notes {
                manager: _,
                repository,
                keys,
                before: _,
                again,
            } => {
                plain(repository, "-_")?;
                again.iter().try_for_each(|command| argv(command))?;
                keys.iter().try_for_each(|key| fingerprint(key))
            }
            Self::Unit {
                unit: name,
                enabled: _,
            }
            | Self::Restart { unit: name } => unit(name),
            Self::Device {
                gpu: name,
                before: _,
                after: _,
            } => gpu(name),
            Self::Enrolment { name, sha256 } => no_nul(name).and_then(|()| checksum(sha256)),
            Self::Aside {
                path: at,
                aside: to,
            } => {
                path(at)?;
                if *to == aside(at) {
                    Ok(())
                } else {
                    Err(format!("{to:?} is not where {at:?} is moved aside"))
                }
            }
        }
    }
}

fn node(node: &Node) -> Valid {
    match node {
        Node::File { sha256, mode, .. } => {
            checksum(sha256)?;
            if mode & !0o7777 == 0 {
                Ok(())
            } else {
                Err(format!("{mode:o} is not a valid mode"))
            }
        }
        Node::Link { target: to } => target(to),
        Node::Absent | Node::Directory | Node::Other => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::*;
    use gpusetup_database::compat::PackageManager;
    use gpusetup_database::sum::sha256;
    use gpusetup_nvidia::DeviceState;
    use std::path::PathBuf;

    const CACHE: &str = "/var/cache/gpusetup";

    fn refused(operation: &Operation) -> String {
        operation
            .valid(Path::new(CACHE))
            .expect_err(&format!("{operation:?}"))
    }

    fn deep(components: usize) -> PathBuf {
        format!("/{}", vec!["d"; components].join("/")).into()
    }

    #[test]
    fn a_path_is_absolute_and_names_something_below_the_root() {
        for good in ["/f", "/usr/local/cuda-12.8", "/usr//local/./x", "/a b/é"] {
            assert_eq!(path(Path::new(good)), Ok(()), "{good}");
        }
        assert_eq!(path(&deep(MAX_COMPONENTS)), Ok(()));
        for bad in [
            "",
            "/",
            "//",
            "/.",
            "..",
            "f",
            "/..",
            "/../..",
            "/usr/../..",
            "/usr/x/..",
            "/a\0b",
        ] {
            assert!(path(Path::new(bad)).is_err(), "{bad:?}");
            assert!(
                Operation::Remove(Remove { path: bad.into() })
                    .valid(Path::new(CACHE))
                    .is_err(),
                "{bad:?}"
            );
            assert!(
                Undo::Tree { path: bad.into() }
                    .valid(Path::new("/b"))
                    .is_err(),
                "{bad:?}"
            );
        }
        assert!(
            path(&deep(1990)).is_err()
                && path(Path::new(&format!("/{}", "x".repeat(5000)))).is_err()
        );
    }

    #[test]
    fn a_prefix_is_nothing_to_a_shell() {
        assert_eq!(prefix(Path::new("/opt/nvidia-13.4_a+b")), Ok(()));
        for bad in [
            "/",
            "opt",
            "/opt/..",
            "/opt/a b",
            "/opt/$(id)",
            "/opt/`id`",
            "/opt/\"",
            "/opt/a:b",
            "/opt/a\nb",
            "/opt/é",
        ] {
            assert!(prefix(Path::new(bad)).is_err(), "{bad:?}");
        }
        assert_eq!(cache(Path::new("/home/ann/my é")), Ok(()));
        for bad in ["/", "cache", "/a/../b", "/a\nb", "/a\u{202e}b"] {
            assert!(cache(Path::new(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_command_has_a_program() {
        for argv in [
            &[][..],
            &[""],
            &["-x"],
            &["../x"],
            &["/a/../b"],
            &["a b"],
            &["A=b"],
            &["sh", "a\0b"],
            &["/"],
        ] {
            refused(&Run::new(argv.iter().copied(), 60).into());
            if !argv.is_empty() {
                refused(
                    &Run::new(["true"], 60)
                        .undone_by(argv.iter().copied())
                        .into(),
                );
            }
            let argv: Vec<String> = argv.iter().map(|w| (*w).to_owned()).collect();
            assert!(Undo::Program { argv }.valid(Path::new("/b")).is_err());
        }
        for argv in [
            &["apt-get", "-q", "update"][..],
            &["/usr/bin/nvcc", "--version"],
            &["sh", "/var/cache/x.run"],
        ] {
            assert_eq!(
                Operation::from(Run::new(argv.iter().copied(), 60)).valid(Path::new(CACHE)),
                Ok(()),
                "{argv:?}"
            );
        }
        refused(&Run::new(["true"], u64::MAX).into());
        let mut run = Run::new(["true"], 60);
        run.environment.insert("A;id".to_owned(), String::new());
        refused(&run.into());
    }

    #[test]
    fn a_download_is_what_a_checksum_says_and_goes_to_the_cache() {
        let download = |url: &str, sum: &str, to: &str| {
            Operation::Download(Download {
                url: url.to_owned(),
                sha256: sum.to_owned(),
                size: Some(1),
                to: to.into(),
            })
        };
        let (sum, to, url) = (
            sha256("x"),
            "/var/cache/gpusetup/ab/x.run",
            "https://a.example/x.run",
        );
        assert_eq!(download(url, &sum, to).valid(Path::new(CACHE)), Ok(()));
        for other in [
            "gopher://x",
            "file://x",
            "https://a b",
            "https://a\nb",
            "",
            "-o",
        ] {
            refused(&download(other, &sum, to));
        }
        for other in ["", "00", &sum.to_uppercase(), &format!("{sum}0")] {
            refused(&download(url, other, to));
        }
        for other in [
            "/etc/cron.d/x",
            CACHE,
            "/var/cache/gpusetup/../x",
            "/var/cache/gpusetup2/x",
            "x",
        ] {
            refused(&download(url, &sum, other));
        }
    }

    #[test]
    fn packages_are_held_by_name_and_by_pattern() {
        let held = |name: &str| {
            Operation::Hold(Hold {
                packages: vec![name.to_owned()],
                ..Hold::release(PackageManager::Apt)
            })
        };
        for name in ["nvidia-imex", "linux-image-*", "kernel6.*", "kernel"] {
            assert_eq!(held(name).valid(Path::new(CACHE)), Ok(()), "{name}");
        }
        for name in ["*", "*nvidia", "-y*", "a b*", "linux;*", ""] {
            refused(&held(name));
        }
    }

    #[test]
    fn what_is_unpacked_and_written_stays_in_its_place() {
        let unpack = |from: &str, to: &str, bytes: u64| {
            Operation::Unpack(Unpack {
                archive: format!("{CACHE}/ab/x.tar.xz").into(),
                sha256: sha256("x"),
                into: vec![Placement {
                    from: from.into(),
                    to: to.into(),
                }],
                limit: Some(Limit { files: 1, bytes }),
            })
        };
        for from in [".", "lib", "lib/x"] {
            assert_eq!(
                unpack(from, "/usr/local/cuda", 9).valid(Path::new(CACHE)),
                Ok(()),
                "{from}"
            );
        }
        for (from, to, bytes) in [
            ("..", "/a", 1),
            ("/etc", "/a", 1),
            ("lib/../../x", "/a", 1),
            ("lib", "a", 1),
            ("lib", "/a", u64::MAX),
        ] {
            refused(&unpack(from, to, bytes));
        }
        for mode in [0o4755, 0o666, 0o777, u32::MAX] {
            refused(&Operation::WriteFile(WriteFile {
                path: "/etc/f".into(),
                content: String::new(),
                mode,
                merged_from: None,
            }));
        }
        refused(&Operation::Link(Link {
            path: "/etc/f".into(),
            target: "".into(),
            soname: None,
        }));
    }

    #[test]
    fn no_name_is_an_option() {
        for name in [
            "-o",
            "--allow-unauthenticated",
            "",
            "a b",
            "nvidia-",
            "a;id",
            "a\n",
            "@all",
        ] {
            refused(&Operation::Packages(Packages::to_install(
                PackageManager::Apt,
                vec![name.to_owned()],
            )));
            refused(&Operation::Packages(Packages::to_remove(
                PackageManager::Dnf,
                vec![name.to_owned()],
            )));
        }
        for name in ["-o", "", "a b", "a\n"] {
            let removed = [(name.to_owned(), "1".to_owned())].into();
            let transaction = Transaction {
                manager: PackageManager::Apt,
                before: Vec::new(),
                added: None,
                removed,
                automatic: Vec::new(),
                unowned: Vec::new(),
                driver: Default::default(),
            };
            assert!(
                Undo::Packages(transaction).valid(Path::new("/b")).is_err(),
                "{name}"
            );
        }
        for name in [
            "g++",
            "libc6:amd64",
            "kernel-devel-5.14.0-570.el9.x86_64",
            "nvidia-driver:580-open",
        ] {
            let packages = Packages::to_install(PackageManager::Apt, vec![name.to_owned()]);
            assert_eq!(
                Operation::Packages(packages).valid(Path::new(CACHE)),
                Ok(()),
                "{name}"
            );
        }
        for name in ["-x", "", "a b", "../x.service", "a\n"] {
            refused(&Operation::Service(Service {
                unit: name.to_owned(),
                enabled: true,
                restart: false,
            }));
            assert!(
                Undo::Unit {
                    unit: name.to_owned(),
                    enabled: true
                }
                .valid(Path::new("/b"))
                .is_err(),
                "{name}"
            );
        }
    }

    #[test]
    fn a_gpu_is_named_by_its_address_or_its_uuid() {
        let device = |gpu: &str| Device {
            gpu: gpu.to_owned(),
            state: DeviceState::Ecc(true),
            if_supported: false,
        };
        for good in [
            "0000:17:00.0",
            "10000:17:00.0",
            "GPU-8f9d8d0c-1f6e-4f57-bb7e-2f1f3a0c1b2d",
        ] {
            assert_eq!(
                Operation::from(device(good)).valid(Path::new(CACHE)),
                Ok(()),
                "{good}"
            );
        }
        for bad in [
            "",
            "0",
            "17:00.0",
            "-r",
            "0000:17:00.0 -r",
            "GPU-",
            "GPU-$(id)",
            "MIG-x",
        ] {
            refused(&device(bad).into());
            let (before, after) = (DeviceState::Ecc(true), DeviceState::Ecc(false));
            assert!(
                Undo::Device {
                    gpu: bad.to_owned(),
                    before,
                    after
                }
                .valid(Path::new("/b"))
                .is_err(),
                "{bad}"
            );
        }
    }

    #[test]
    fn an_undo_uses_the_copies_that_were_made_for_it() {
        let undo = |backup: &str| Undo::Path {
            path: "/etc/f".into(),
            before: Node::File {
                sha256: sha256("x"),
                mode: 0o644,
                uid: 0,
                gid: 0,
            },
            backup: Some(backup.into()),
            after: None,
        };
        assert_eq!(undo("/b/0").valid(Path::new("/b")), Ok(()));
        assert!(undo("/etc/shadow").valid(Path::new("/b")).is_err());
        let moved = |to: &str| {
            Undo::Aside {
                path: "/usr/src/x".into(),
                aside: to.into(),
            }
            .valid(Path::new("/b"))
        };
        assert_eq!(moved("/usr/src/.x.gpusetup-removed"), Ok(()));
        assert!(moved("/etc").is_err());
    }
}
