//! Undoing what operations did: what stood before comes back, and what somebody changed since is
//! left and named.

use super::program::judge;
use super::remove::nothing_is_mounted_below;
use super::undo::Undo;
use super::{add_repository, device, enroll_key, hold, packages, service};
use gpusetup_system::{Node, Program, System};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

impl Undo {
    /// Takes it back; names what stays as it is, because somebody changed it since or because it is
    /// gone for good.
    pub fn perform(&self, on: &System) -> io::Result<Vec<String>> {
        self.performed(on, false)
    }

    /// The same for an operation, or an undo of it, that was begun and whose end is not known.
    pub fn perform_after_cut(&self, on: &System) -> io::Result<Vec<String>> {
        self.performed(on, true)
    }

    fn performed(&self, on: &System, cut_off: bool) -> io::Result<Vec<String>> {
        let left = match self {
            Self::Packages(done) => return packages::take_back(on, done),
            Self::Device { gpu, before, after } => {
                let left = device::give_back(on, gpu, before, after, cut_off)?;
                return Ok(left
                    .then(|| format!("{} of GPU {gpu}", after.name()))
                    .into_iter()
                    .collect());
            }
            Self::Path {
                path,
                before,
                backup,
                after,
            } => put_right(on, path, before, backup.as_deref(), after.as_ref())?.then_some(path),
            Self::Directory { path } => remove_empty(on, path)?.then_some(path),
            Self::Program { argv } => {
                run(on, argv)?;
                None
            }
            Self::Hold {
                manager,
                packages,
                held,
            } => {
                let here = packages::installed(on, *manager)?;
                let packages = packages
                    .iter()
                    .filter(|name| !held || here.contains_key(*name))
                    .cloned()
                    .collect();
                hold::set(on, *manager, &packages, *held).map_err(io::Error::other)?;
                None
            }
            Self::Notes {
                manager,
                repository,
                keys,
                before,
                again,
            } => {
                add_repository::restore_notes(on, *manager, repository, keys, (before, again))?;
                None
            }
            Self::Enrolment { name, sha256 } => {
                return Ok(enroll_key::restore(on, name, sha256)?.into_iter().collect());
            }
            Self::Unit { unit, enabled } => return service::restore(on, unit, *enabled),
            Self::Restart { unit } => return service::restart(on, unit),
            Self::Tree { path } => {
                nothing_is_mounted_below(on, path)?;
                on.remove_tree(path)?;
                None
            }
            Self::Aside { path, aside } => (!put_back(on, path, aside)?).then_some(path),
            Self::Gone { path } => (!on.exists(path)).then_some(path),
        };
        Ok(left
            .into_iter()
            .map(|path| path.display().to_string())
            .collect())
    }

    /// The tree that was removed for good, unless something is there again.
    pub fn lost<'a>(&'a self, on: &System) -> Option<&'a PathBuf> {
        match self {
            Self::Gone { path } => Some(path).filter(|path| !on.exists(path)),
            Self::Aside { path, aside } => {
                Some(path).filter(|path| !on.exists(path) && !on.exists(aside))
            }
            _ => None,
        }
    }

    /// What nothing can bring back, for these lost trees: such a tree itself, or a link that would
    /// lead into one.
    pub fn follows(&self, lost: &[PathBuf]) -> Option<&Path> {
        match self {
            Self::Gone { path } | Self::Aside { path, .. } => {
                Some(path.as_path()).filter(|_| lost.contains(path))
            }
            Self::Path {
                path,
                before: Node::Link { target },
                ..
            } => {
                let end = path.parent()?.join(target);
                lost.iter()
                    .any(|tree| end.starts_with(tree))
                    .then_some(path.as_path())
            }
            _ => None,
        }
    }

    /// With what stands there now as what the operation left there: anything else is from now on
    /// somebody's later work.
    pub fn learned(self, on: &System) -> io::Result<Self> {
        Ok(match self {
            Self::Path {
                path,
                before,
                backup,
                after: None,
            } => {
                let after = Some(on.node(&path)?);
                Self::Path {
                    path,
                    before,
                    backup,
                    after,
                }
            }
            Self::Packages(intended) => Self::Packages(packages::learned(on, intended)?),
            other => other,
        })
    }
}

/// Gives a path back what stood there; true when it was left instead.
fn put_right(
    on: &System,
    path: &Path,
    before: &Node,
    backup: Option<&Path>,
    after: Option<&Node>,
) -> io::Result<bool> {
    on.remove_unfinished(path)?;
    let now = on.node(path)?;
    if now == *before {
        return Ok(false);
    }
    // Whose a file is says who runs us, and which group its folder hands on: no change of
    // anybody's.
    let is_ours = after.is_none_or(|after| match (after, &now) {
        (
            Node::File {
                sha256: a, mode: m, ..
            },
            Node::File {
                sha256: b, mode: n, ..
            },
        ) => (a, m) == (b, n),
        (after, now) => after == now,
    });
    if !is_ours {
        return Ok(true);
    }
    match (before, backup) {
        (Node::File { mode, uid, gid, .. }, Some(copy)) => {
            on.copy_owned(&mut on.open(copy)?, path, *mode, (*uid, *gid))?;
            Ok(false)
        }
        (Node::Link { target }, _) => on.link(path, target).map(|()| false),
        (Node::Absent, _) => remove_empty(on, path),
        // A directory or a device that stood there is nothing that an operation replaces.
        (Node::File { .. } | Node::Directory | Node::Other, _) => Ok(true),
    }
}

/// Removes a file, a link or a directory that has nothing in it; true when it was left because it
/// has.
fn remove_empty(on: &System, path: &Path) -> io::Result<bool> {
    match on.remove(path) {
        Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(true),
        removed => removed.map(|()| false),
    }
}

fn run(on: &System, argv: &[String]) -> io::Result<()> {
    // What was never installed has no uninstaller, and needs none.
    let program = argv.first();
    if program.is_some_and(|p| p.starts_with('/') && !on.exists(p)) {
        return Ok(());
    }
    let program = Program::new(argv.to_vec()).limit(Duration::from_secs(1800));
    let output = on.run(&program.undisturbed())?;
    judge(&argv.join(" "), &output, None).map_err(io::Error::other)
}

/// Whether what was renamed has its own name again.
fn put_back(on: &System, path: &Path, aside: &Path) -> io::Result<bool> {
    match (on.exists(path), on.exists(aside)) {
        (false, true) => on.rename(aside, path).map(|()| true),
        (true, false) => Ok(true),
        (true, true) | (false, false) => Ok(false),
    }
}
