//! Which directories root may keep its own files in. Whoever can write to a directory can replace
//! what root put there: the journal that says what to undo, the installer that was verified, the
//! log that root appends to. Owner and mode are those of the open directory, not of whatever its
//! name meant a moment before.

use crate::{System, is_absent, trust};
use gpusetup_text::paths::{CACHE, LOGS, RUN, STATE};
use gpusetup_text::text::quoted_path;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Only the directory itself matters, or also those above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The directory and all above it: for what root runs or acts on later.
    Path,
    /// The directory alone: for logs. Distributions give `/var/log` itself to a group (Ubuntu's is
    /// root:syslog, mode 0775).
    Directory,
}

/// Why a directory is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    /// Somebody else owns it, or others may write to it.
    #[error(
        "{} is not private to root: it belongs to {owner} and has mode {mode:04o}; root would trust what others can put there",
        path.display()
    )]
    Shared {
        /// The directory.
        path: PathBuf,
        /// Its owner, by name if the host knows one.
        owner: String,
        /// The permission bits that it has.
        mode: u32,
    },
    /// A link in a directory that others may write to: they decide where it leads.
    #[error("{} is a symbolic link in a directory that others may write to", .0.display())]
    Link(PathBuf),
    /// It is something else.
    #[error("{} is not a directory", .0.display())]
    NoDirectory(PathBuf),
    /// It cannot be looked at.
    #[error("cannot look at {}: {source}", path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// What the system says about it.
        source: io::Error,
    },
}

impl Untrusted {
    /// A command that helps.
    pub fn hint(&self) -> Option<String> {
        match self {
            // What is in it may be somebody's trap as well.
            Self::Shared { path, .. } if GPUSETUPS.iter().any(|own| path == Path::new(own)) => {
                let path = quoted_path(path);
                Some(format!(
                    "look at what is in it, then move it away: mv {path} {path}.untrusted"
                ))
            }
            Self::Shared { path, .. } => {
                let path = quoted_path(path);
                Some(format!(
                    "chown root:root {path} && chmod go-w {path}, or name another folder"
                ))
            }
            Self::Link(path) | Self::NoDirectory(path) => Some(format!("rm {}", quoted_path(path))),
            Self::Unreadable { .. } => None,
        }
    }
}

/// Directories that nobody but gpusetup has a use for.
const GPUSETUPS: [&str; 4] = [STATE, LOGS, RUN, CACHE];

/// Whether gpusetup's own directories are private, as far as they are there.
pub fn own_directories(on: &System) -> Result<(), Untrusted> {
    private_directory(on, Path::new(STATE), Extent::Path)?;
    private_directory(on, Path::new(LOGS), Extent::Directory)?;
    private_directory(on, Path::new(RUN), Extent::Path)
}

/// Whether only root (or whoever runs this) owns a directory and may write to it. What is not there
/// yet, root will make.
pub fn private_directory(on: &System, path: &Path, extent: Extent) -> Result<(), Untrusted> {
    // As many links as Linux follows.
    judge(on, path, extent, 40)
}

fn judge(on: &System, path: &Path, extent: Extent, links: u8) -> Result<(), Untrusted> {
    let above = match extent {
        Extent::Path => path.ancestors().count(),
        Extent::Directory => 1,
    };
    for (n, directory) in path.ancestors().take(above).enumerate() {
        if let Some(target) = on.link_target(directory) {
            let parent = directory.parent().unwrap_or(Path::new("/"));
            if links == 0 || access(on, parent)?.is_some_and(|parent| parent.is_shared()) {
                return Err(Untrusted::Link(directory.to_owned()));
            }
            judge(on, &parent.join(target), extent, links - 1)?;
        }
        let Some(access) = access(on, directory)? else {
            continue;
        };
        // In a sticky directory (/tmp) nobody can replace what another made; but anybody can add to
        // it.
        let shared = if n == 0 {
            access.is_shared()
        } else {
            access.is_shared() && !access.is_sticky()
        };
        if shared || !trust::is_ours(access.uid) {
            let (owner, mode) = (owner(on, access.uid), access.mode & 0o7777);
            return Err(Untrusted::Shared {
                path: directory.to_owned(),
                owner,
                mode,
            });
        }
    }
    Ok(())
}

/// Who may do what in a directory.
#[derive(Debug, Clone, Copy)]
struct Access {
    uid: u32,
    mode: u32,
}

impl Access {
    fn is_shared(self) -> bool {
        self.mode & 0o022 != 0
    }

    fn is_sticky(self) -> bool {
        self.mode & 0o1000 != 0
    }
}

/// None where nothing is.
fn access(on: &System, directory: &Path) -> Result<Option<Access>, Untrusted> {
    let unreadable = |source| Untrusted::Unreadable {
        path: directory.to_owned(),
        source,
    };
    let meta = match on.open(directory).and_then(|open| open.metadata()) {
        Ok(meta) => meta,
        Err(e) if is_absent(&e) => return Ok(None),
        Err(e) => return Err(unreadable(e)),
    };
    if !meta.is_dir() {
        return Err(Untrusted::NoDirectory(directory.to_owned()));
    }
    Ok(Some(Access {
        uid: meta.uid(),
        mode: meta.mode(),
    }))
}

/// A user as an administrator knows them.
fn owner(on: &System, uid: u32) -> String {
    match trust::user_name(on, uid) {
        Some(name) => format!("{} (user {uid})", name.escape_debug()),
        None => format!("user {uid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::chown;

    fn host(folders: &[(&str, u32)]) -> (System, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        for (folder, mode) in folders {
            on.make_directories(folder, *mode).expect("made");
        }
        (on, dir)
    }

    fn judged(on: &System, path: &str, extent: Extent) -> String {
        private_directory(on, Path::new(path), extent)
            .map_or_else(|e| e.to_string(), |()| "private".to_owned())
    }

    #[test]
    fn what_others_may_write_to_is_refused() {
        let (on, _dir) = host(&[
            ("/var", 0o755),
            ("/var/log", 0o775),
            ("/var/log/gpusetup", 0o750),
        ]);
        assert_eq!(
            judged(&on, LOGS, Extent::Directory),
            "private",
            "as Ubuntu has /var/log"
        );
        assert!(judged(&on, LOGS, Extent::Path).starts_with("/var/log is not private"));
        for mode in [0o770, 0o757, 0o1777] {
            let (on, _dir) = host(&[("/var/log", 0o755), (LOGS, mode)]);
            let refusal = judged(&on, LOGS, Extent::Directory);
            assert!(refusal.contains(&format!("mode {mode:04o}")), "{refusal}");
        }
        let (on, _dir) = host(&[("/tmp", 0o1777), ("/tmp/cache", 0o700)]);
        assert_eq!(
            judged(&on, "/tmp/cache", Extent::Path),
            "private",
            "nobody can replace it"
        );
        assert_eq!(judged(&on, "/tmp/not/there/yet", Extent::Path), "private");
    }

    #[test]
    fn a_link_that_others_placed_is_refused() {
        let (on, _dir) = host(&[("/var", 0o755), ("/var/log", 0o775), ("/etc", 0o755)]);
        on.link(LOGS, Path::new("/etc")).expect("linked");
        assert!(judged(&on, LOGS, Extent::Directory).contains("symbolic link"));
        let (on, _dir) = host(&[
            ("/var/lib", 0o755),
            ("/data/state", 0o700),
            ("/open", 0o777),
            ("/open/state", 0o700),
        ]);
        on.link(STATE, Path::new("/data/state")).expect("linked");
        assert_eq!(
            judged(&on, STATE, Extent::Path),
            "private",
            "root's own link"
        );
        on.link(STATE, Path::new("../../open/state"))
            .expect("linked");
        assert!(
            judged(&on, STATE, Extent::Path).contains("not private"),
            "{}",
            judged(&on, STATE, Extent::Path)
        );
    }

    #[test]
    fn a_file_in_its_place_is_refused() {
        let (on, _dir) = host(&[("/var/log", 0o755)]);
        on.write(LOGS, b"", 0o600).expect("written");
        assert!(judged(&on, LOGS, Extent::Directory).contains("not a directory"));
    }

    #[test]
    fn somebody_elses_is_refused_by_name() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (on, dir) = host(&[("/etc", 0o755), ("/var/log", 0o755), (LOGS, 0o755)]);
        on.write(
            "/etc/passwd",
            b"root:x:0:0::/root:/bin/sh\nsyslog:x:102:102::/:/bin/false\n",
            0o644,
        )
        .expect("written");
        chown(dir.path().join("var/log/gpusetup"), Some(102), None).expect("root may");
        let refused = own_directories(&on).expect_err("it is syslog's");
        assert!(
            refused
                .to_string()
                .contains("belongs to syslog (user 102) and has mode 0755"),
            "{refused}"
        );
        assert!(
            refused
                .hint()
                .is_some_and(|hint| hint.contains("mv /var/log/gpusetup "))
        );
    }
}
