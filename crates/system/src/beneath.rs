//! Opens paths of a host. Links are followed as the host itself would follow them, inside its root
//! directory and never out of it, even if directories are renamed at the same time: every step
//! starts from an open descriptor.
//!
//! The kernel does this in one call (`openat2` with `RESOLVE_IN_ROOT`, Linux 5.6). Older kernels,
//! and sandboxes that do not know the call, resolve the path component by component.

use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, readlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// The most links followed; Linux has the same limit.
const MAX_LINKS: usize = 40;

/// How often the call is repeated when a concurrent rename interrupted it.
const TRIES: usize = 16;

/// Opens `path` below `root`. A link at the end is followed, unless `flags` contain `O_NOFOLLOW`.
/// Nothing is ever created.
pub(super) fn open(root: BorrowedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    for _ in 0..TRIES {
        match openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            Err(Errno::AGAIN) => {}
            // Unknown or forbidden: old sandboxes answer EPERM to every call they do not know.
            Err(Errno::NOSYS | Errno::PERM) => break,
            opened => return Ok(opened?),
        }
    }
    open_by_hand(root, path, flags)
}

fn open_by_hand(root: BorrowedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let walk = Walk::along(root, path, !flags.contains(OFlags::NOFOLLOW), &|_| true)?;
    if !walk.missing.is_empty() {
        return Err(Errno::NOENT.into());
    }
    let end = match walk.found.into_iter().next_back() {
        Some((_, end)) => end,
        None => root.try_clone_to_owned()?,
    };
    if flags.contains(OFlags::PATH) {
        Ok(end)
    } else {
        Ok(reopen(end.as_fd(), flags)?)
    }
}

/// Opens an `O_PATH` descriptor for reading or writing: the very same file, whatever its name
/// refers to now.
pub(super) fn reopen(place: BorrowedFd, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let name = format!("/proc/self/fd/{}", place.as_raw_fd());
    openat(
        CWD,
        name,
        flags.difference(OFlags::NOFOLLOW) | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// The same where /proc may be missing: by the name that led there, if it still refers to the same
/// file.
pub(super) fn reopen_named(place: BorrowedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    match reopen(place, flags) {
        Err(Errno::NOENT) => {
            let opened = openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty())?;
            let (meant, found) = (fstat(place)?, fstat(&opened)?);
            let same = (meant.st_dev, meant.st_ino) == (found.st_dev, found.st_ino);
            if same {
                Ok(opened)
            } else {
                Err(io::Error::other("it was replaced by another file"))
            }
        }
        opened => Ok(opened?),
    }
}

/// Whether a path names a file that the process has already opened, such as standard output: a link
/// there has no path behind it.
pub(super) fn is_descriptor(path: &Path) -> bool {
    ["/dev/stdin", "/dev/stdout", "/dev/stderr"]
        .iter()
        .any(|name| path == Path::new(name))
        || ["/dev/fd", "/proc/self/fd"]
            .iter()
            .any(|folder| path.parent() == Some(Path::new(folder)))
}

/// `path` with its links resolved, relative to the root. Components that do not exist stay as
/// written.
pub(super) fn canonical(root: BorrowedFd, path: &Path) -> io::Result<PathBuf> {
    let walk = Walk::along(root, path, true, &|_| true)?;
    let mut canonical: PathBuf = walk.found.iter().map(|(name, _)| name).collect();
    for part in &walk.missing {
        if part == ".." {
            canonical.pop();
        } else {
            canonical.push(part);
        }
    }
    Ok(canonical)
}

/// A link on the path belongs to an untrusted user, who could redirect it.
#[derive(Debug, thiserror::Error)]
#[error("a symbolic link on the path belongs to an untrusted user")]
pub(super) struct Misled;

/// Opens (`O_PATH`) a path of this machine through trusted links. If it does not exist yet, returns
/// the directory that would contain it, and its name there.
pub(super) fn by_trusted_links(
    path: &Path,
    trusted: &dyn Fn(&Stat) -> bool,
) -> io::Result<(OwnedFd, Option<OsString>)> {
    let root = openat(
        CWD,
        "/",
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut walk = Walk::along(root.as_fd(), &std::path::absolute(path)?, true, trusted)?;
    let end = walk.found.pop().map_or(root, |(_, place)| place);
    match walk.missing.as_slice() {
        [] => Ok((end, None)),
        [name] if name != ".." => Ok((end, Some(name.clone()))),
        _ => Err(Errno::NOENT.into()),
    }
}

/// A walk through directories that stay open, so that `..` leads back to where it came from.
struct Walk {
    /// Each component with its `O_PATH` descriptor, outermost first.
    found: Vec<(OsString, OwnedFd)>,
    /// The components after the last one that exists.
    missing: Vec<OsString>,
}

impl Walk {
    /// A link that is not `trusted` is an error.
    fn along(
        root: BorrowedFd,
        path: &Path,
        follow_last: bool,
        trusted: &dyn Fn(&Stat) -> bool,
    ) -> io::Result<Self> {
        let mut walk = Self {
            found: Vec::new(),
            missing: Vec::new(),
        };
        let (mut todo, mut links) = (reversed(path), 0);
        while let Some(part) = todo.pop() {
            if part == ".." {
                walk.found.pop();
                continue;
            }
            let here = walk.found.last().map_or(root, |(_, place)| place.as_fd());
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            // Opened as a directory first, which triggers mounts on demand.
            let opened = match openat(here, &part, flags | OFlags::DIRECTORY, Mode::empty()) {
                Err(Errno::NOTDIR | Errno::LOOP) => openat(here, &part, flags, Mode::empty()),
                opened => opened,
            };
            let place = match opened {
                Ok(place) => place,
                Err(Errno::NOENT) => {
                    walk.missing = std::iter::once(part)
                        .chain(todo.into_iter().rev())
                        .collect();
                    return Ok(walk);
                }
                Err(e) => return Err(e.into()),
            };
            let stat = fstat(&place)?;
            let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
            if !is_link || (todo.is_empty() && !follow_last) {
                walk.found.push((part, place));
                continue;
            }
            if !trusted(&stat) {
                return Err(io::Error::other(Misled));
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP.into());
            }
            let target = target(place.as_fd())?;
            if target.is_absolute() {
                walk.found.clear();
            }
            todo.extend(reversed(&target));
        }
        Ok(walk)
    }
}

/// The target of a link that is open with `O_PATH`.
pub(super) fn target(link: BorrowedFd) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    Ok(PathBuf::from(OsString::from_vec(
        readlinkat(link, "", Vec::new())?.into_bytes(),
    )))
}

/// The significant components of a path, last first.
fn reversed(path: &Path) -> Vec<OsString> {
    let leads = |c: &Component| matches!(c, Component::Normal(_) | Component::ParentDir);
    path.components()
        .filter(leads)
        .map(|c| c.as_os_str())
        .map(OsStr::to_owned)
        .rev()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A tree with links of every kind, next to a victim that no path may lead to.
    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let at = |path: &str| dir.path().join(path);
        fs::create_dir_all(at("tree/etc/conf.d")).expect("made");
        fs::create_dir(at("victim")).expect("made");
        fs::write(at("victim/secret"), "outside").expect("written");
        fs::write(at("tree/etc/f"), "inside").expect("written");
        for (link, target) in [
            ("absolute", "/etc/f"),
            ("relative", "etc/../etc/f"),
            ("through", "folder/f"),
            ("folder", "/etc"),
            ("up", "../../../../victim/secret"),
            ("out", "/victim/secret"),
            ("loop", "loop"),
            ("etc/conf.d/back", "../../etc/f"),
            ("dangling", "etc/none"),
        ] {
            symlink(target, at("tree").join(link)).expect("linked");
        }
        symlink(at("victim"), at("tree/host")).expect("linked");
        dir
    }

    fn read(opened: io::Result<OwnedFd>) -> Result<String, Errno> {
        let mut text = String::new();
        let opened =
            opened.map_err(|e| Errno::from_io_error(&e).expect("an error of the kernel"))?;
        io::Read::read_to_string(&mut fs::File::from(opened), &mut text).expect("read");
        Ok(text)
    }

    #[test]
    fn the_kernel_and_the_walk_agree_and_stay_inside() {
        let dir = tree();
        let root = fs::File::open(dir.path().join("tree")).expect("there");
        for (path, expected) in [
            ("/etc/f", Ok("inside")),
            ("etc/f", Ok("inside")),
            ("/../../etc/f", Ok("inside")),
            ("/absolute", Ok("inside")),
            ("/relative", Ok("inside")),
            ("/through", Ok("inside")),
            ("/folder/conf.d/back", Ok("inside")),
            ("/up", Err(Errno::NOENT)),
            ("/out", Err(Errno::NOENT)),
            ("/host/secret", Err(Errno::NOENT)),
            ("/dangling", Err(Errno::NOENT)),
            ("/loop", Err(Errno::LOOP)),
            ("/etc/f/x", Err(Errno::NOTDIR)),
        ] {
            let expected = expected.map(str::to_owned);
            assert_eq!(
                read(open(root.as_fd(), Path::new(path), OFlags::RDONLY)),
                expected,
                "{path}"
            );
            assert_eq!(
                read(open_by_hand(root.as_fd(), Path::new(path), OFlags::RDONLY)),
                expected,
                "{path} by hand"
            );
        }
        let canonical = |path: &str| canonical(root.as_fd(), Path::new(path)).expect("no loop");
        assert_eq!(canonical("/through"), Path::new("etc/f"));
        assert_eq!(canonical("/folder/none/x"), Path::new("etc/none/x"));
        assert_eq!(
            canonical("/up"),
            Path::new("victim/secret"),
            "where it would be in the tree"
        );
        assert_eq!(canonical("/"), Path::new(""));
    }

    #[test]
    fn a_link_itself_is_opened_when_that_is_asked_for() {
        let dir = tree();
        let root = fs::File::open(dir.path().join("tree")).expect("there");
        for opened in [open, open_by_hand] {
            let link = opened(
                root.as_fd(),
                Path::new("/folder"),
                OFlags::PATH | OFlags::NOFOLLOW,
            )
            .expect("opened");
            assert_eq!(target(link.as_fd()).expect("a link"), Path::new("/etc"));
        }
    }
}
