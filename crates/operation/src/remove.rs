//! `remove`: a file, a link, or a directory with all that is in it.

use super::undo::{Undo, aside};
use super::valid::Valid;
use super::{Action, Counts, Notify, OperationError, Standing, Work, valid};
use gpusetup_system::{Node, System};
use gpusetup_text::text::quoted_path;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// Ends the name of a folder that is being deleted.
pub(crate) const DISCARDED: &str = ".gpusetup-discarded";

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

impl Action for Remove {
    fn stands(&self, on: &System, _: bool) -> io::Result<Standing> {
        // A link that leads nowhere is there all the same.
        Ok(Standing::satisfied_if(on.node(&self.path)? == Node::Absent))
    }

    fn intend(&self, on: &System, work: &mut Work) -> Result<Vec<Undo>, OperationError> {
        let path = &self.path;
        Ok(vec![match on.node(path)? {
            Node::Directory => Undo::Aside {
                path: path.clone(),
                aside: aside(path),
            },
            _ => work.backups.save(on, path, Some(Node::Absent))?,
        }])
    }

    fn perform(&self, on: &System, _: &mut Work, _: Notify) -> Result<(), OperationError> {
        let path = &self.path;
        if on.node(path)? != Node::Directory {
            return Ok(on.remove(path)?);
        }
        nothing_is_mounted_below(on, path)?;
        match on.rename(path, aside(path)) {
            // A folder of an image below a container's overlay cannot be renamed: then it cannot be
            // undone.
            Err(e) if e.kind() == io::ErrorKind::CrossesDevices => Ok(on.remove_tree(path)?),
            renamed => Ok(renamed?),
        }
    }

    fn describe(&self) -> String {
        format!("remove {}", self.path.display())
    }

    fn shell(&self) -> String {
        format!("rm -rf {}\n", quoted_path(&self.path))
    }

    fn counts(&self) -> Counts {
        Counts {
            remove: 1,
            ..Counts::default()
        }
    }

    fn touched(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn by_hand(&self) -> Option<String> {
        Some(format!("sudo {}", self.shell().trim_end()))
    }

    fn valid(&self, _: &Path) -> Valid {
        let Self { path: at } = self;
        valid::path(at)
    }
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
