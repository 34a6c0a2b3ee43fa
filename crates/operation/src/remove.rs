//! `remove`: a file, a link, or a directory with all that is in it.

use super::Counts;
use super::Standing;
use super::undo::{Backups, Undo};
use gpusetup_system::{Node, System};
use gpusetup_text::text::quoted_path;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// Ends the name of a folder that was moved aside.
pub const ASIDE: &str = ".gpusetup-removed";
/// Ends the name of a folder that is being deleted.
pub const DISCARDED: &str = ".gpusetup-discarded";

/// Removes a file, a link, or a directory with all that is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Remove {
    /// The path that is removed.
    pub path: PathBuf,
}

impl Remove {
    /// Whether it is gone.
    pub fn stands(&self, on: &System) -> io::Result<Standing> {
        // A link that leads nowhere is there all the same.
        Ok(Standing::satisfied_if(on.node(&self.path)? == Node::Absent))
    }

    /// How to undo it, to be kept before it is done.
    pub fn intend(&self, on: &System, backups: &mut Backups) -> io::Result<Vec<Undo>> {
        let path = &self.path;
        Ok(vec![match on.node(path)? {
            Node::Directory => Undo::Aside {
                path: path.clone(),
                aside: aside(path),
            },
            _ => backups.save(on, path, Some(Node::Absent))?,
        }])
    }

    /// Removes it. A directory is only moved aside, until the apply has come to its end.
    pub fn perform(&self, on: &System) -> io::Result<()> {
        let path = &self.path;
        if on.node(path)? != Node::Directory {
            return on.remove(path);
        }
        nothing_is_mounted_below(on, path)?;
        match on.rename(path, aside(path)) {
            // A folder of an image below a container's overlay cannot be renamed: then it cannot be
            // undone.
            Err(e) if e.kind() == io::ErrorKind::CrossesDevices => on.remove_tree(path),
            renamed => renamed,
        }
    }

    /// What it does, in a line.
    pub fn describe(&self) -> String {
        format!("remove {}", self.path.display())
    }

    /// The line of a script that does it.
    pub fn shell(&self) -> String {
        format!("rm -rf {}\n", quoted_path(&self.path))
    }

    /// What it adds and changes.
    pub fn counts(&self) -> Counts {
        Counts {
            remove: 1,
            ..Counts::default()
        }
    }
}

/// Where a folder that is to be removed goes until the apply has come to its end: beside itself, so
/// that it is one rename there and back, however many files are in it.
pub fn aside(path: &Path) -> std::path::PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}{ASIDE}"))
}

/// What is mounted in a folder is not removed with it, and keeps it from being removed.
pub fn nothing_is_mounted_below(on: &System, path: &Path) -> io::Result<()> {
    match on.mounted_below(path)? {
        None => Ok(()),
        Some(mounted) => {
            let sentence = format!(
                "something is mounted on {0}: umount {0}",
                quoted_path(&mounted)
            );
            Err(io::Error::new(io::ErrorKind::ResourceBusy, sentence))
        }
    }
}

/// Lets go of a folder that was moved aside. What is half gone must not come back by an undo.
pub fn discard(on: &System, aside: &Path) -> io::Result<()> {
    let condemned = aside.with_extension(DISCARDED.trim_start_matches('.'));
    if on.exists(aside) {
        on.remove_tree(&condemned)?;
        on.rename(aside, &condemned)?;
    }
    on.remove_tree(&condemned)
}
