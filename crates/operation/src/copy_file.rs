//! `copy-file`: a file of the user's in another place. A plan has its checksum only, so that what
//! is nobody else's, such as a licence, is in no plan, journal or log.

use super::shell::{folder_of, make_folder};
use super::undo::{Undo, missing_parents};
use super::valid::Valid;
use super::{Action, Counts, Notify, OperationError, Standing, Work, valid};
use gpusetup_database::sum::sha256;
use gpusetup_system::input;
use gpusetup_system::trust::Trust;
use gpusetup_system::{Node, System};
use gpusetup_text::text::quoted_path;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// The largest file, in bytes.
pub const MAX_COPIED_BYTES: u64 = 1 << 20;

/// Copies a file of the machine that gpusetup runs on, owned by root. Directories above the copy
/// are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct CopyFile {
    /// The file.
    pub from: PathBuf,
    /// The SHA-256 of its content.
    #[cfg_attr(
        feature = "schemas",
        schemars(with = "gpusetup_database::sum::Sha256Text")
    )]
    pub sha256: String,
    /// The path of the copy.
    pub path: PathBuf,
    /// The permission bits of the copy, as a number: 420 is 0644.
    pub mode: u32,
}

impl CopyFile {
    /// Whether what stands at its path is the copy. A stricter mode is the administrator's.
    pub fn is_copy(&self, node: &Node) -> bool {
        matches!(node, Node::File { sha256, mode, uid: 0, .. } if *sha256 == self.sha256 && mode & !self.mode == 0)
    }

    fn after(&self) -> Node {
        Node::File {
            sha256: self.sha256.clone(),
            mode: self.mode,
            uid: 0,
            gid: 0,
        }
    }

    /// The content, if it is still the planned one. With a checksum it is known, whoever may write
    /// the file.
    fn content(&self) -> Result<Vec<u8>, String> {
        let open = input::open_trusted(&self.from, &Trust::Anybody).map_err(|e| e.to_string())?;
        let content =
            input::bytes(open, &self.from, MAX_COPIED_BYTES).map_err(|e| e.to_string())?;
        let is_it = sha256(&content) == self.sha256;
        if is_it {
            Ok(content)
        } else {
            Err(format!(
                "{} changed since the plan was made",
                self.from.display()
            ))
        }
    }
}

impl Action for CopyFile {
    fn preflight(&self, on: &System) -> io::Result<Standing> {
        self.stands(on, false)
    }

    fn stands(&self, on: &System, _: bool) -> io::Result<Standing> {
        Ok(match on.node(&self.path)? {
            node if self.is_copy(&node) => Standing::Satisfied,
            Node::Directory | Node::Other => {
                Standing::Conflict(format!("{} is no file", self.path.display()))
            }
            Node::Absent | Node::File { .. } | Node::Link { .. } => match self.content() {
                Ok(_) => Standing::Needed,
                Err(why) => Standing::Conflict(why),
            },
        })
    }

    fn intend(&self, on: &System, work: &mut Work) -> Result<Vec<Undo>, OperationError> {
        let mut undo = missing_parents(on, &self.path);
        undo.push(work.backups.save(on, &self.path, Some(self.after()))?);
        Ok(undo)
    }

    fn perform(&self, on: &System, _: &mut Work, _: Notify) -> Result<(), OperationError> {
        let content = self.content().map_err(io::Error::other)?;
        on.make_directories(folder_of(&self.path), 0o755)?;
        Ok(on.write(&self.path, &content, self.mode)?)
    }

    fn describe(&self) -> String {
        format!("copy {} to {}", self.from.display(), self.path.display())
    }

    fn shell(&self) -> String {
        let (from, path) = (quoted_path(&self.from), quoted_path(&self.path));
        let folder = make_folder(&self.path);
        format!(
            "echo \"{}  \"{from} | sha256sum -c\n{folder}install -m {:04o} {from} {path}\n",
            self.sha256, self.mode
        )
    }

    fn counts(&self) -> Counts {
        Counts {
            add: 1,
            ..Counts::default()
        }
    }

    fn touched(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn valid(&self, _: &Path) -> Valid {
        let Self {
            from,
            sha256,
            path: at,
            mode,
        } = self;
        valid::path(from)?;
        valid::checksum(sha256)?;
        valid::path(at)?;
        if mode & !valid::MODES == 0 {
            Ok(())
        } else {
            Err(format!("{mode:o} is not a valid mode for {at:?}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::work;

    #[test]
    fn what_changed_since_it_was_planned_is_not_copied() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        let from = dir.path().join("given");
        std::fs::write(&from, "secret").expect("written");
        let copy = CopyFile {
            from: from.clone(),
            sha256: sha256("secret"),
            path: "/etc/x/copy".into(),
            mode: 0o600,
        };
        assert_eq!(copy.stands(&on, false).expect("seen"), Standing::Needed);
        let json = serde_json::to_string(&copy).expect("JSON");
        assert!(!json.contains("\"secret\"") && !copy.shell().contains("\"secret\""));
        copy.perform(&on, &mut work(), &mut |_| {}).expect("copied");
        assert_eq!(
            std::fs::read(dir.path().join("etc/x/copy")).expect("a copy"),
            b"secret"
        );
        std::fs::write(&from, "another").expect("written");
        let other = CopyFile {
            path: "/etc/x/other".into(),
            ..copy
        };
        assert!(
            matches!(other.stands(&on, false).expect("seen"), Standing::Conflict(why) if why.contains("changed since"))
        );
        assert!(
            other.perform(&on, &mut work(), &mut |_| {}).is_err() && !on.exists("/etc/x/other")
        );
        std::fs::remove_file(&from).expect("removed");
        assert!(matches!(
            other.stands(&on, false).expect("seen"),
            Standing::Conflict(_)
        ));
    }
}
