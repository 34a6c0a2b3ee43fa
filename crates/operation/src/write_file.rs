//! `write-file`: a file with these bytes and this mode.

use super::shell::{folder_of, make_folder};
use super::undo::{Undo, missing_parents};
use super::valid::Valid;
use super::{Action, Counts, Notify, OperationError, Standing, Work, valid};
use gpusetup_database::sum::sha256;
use gpusetup_system::{Node, System};
use gpusetup_text::text::{quoted, quoted_path};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// Puts a file there, with these bytes and this mode, owned by root. Directories above it are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct WriteFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The whole text of the file.
    pub content: String,
    /// The permission bits of the file, as a number: 420 is 0644.
    pub mode: u32,
    /// The SHA-256 of the text that this one was made from, for a file of somebody else. With any
    /// other text, the file has changed since the plan was made and is not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schemas",
        schemars(with = "Option<gpusetup_database::sum::Sha256Text>")
    )]
    pub merged_from: Option<String>,
}

impl WriteFile {
    /// Writes it.
    pub(crate) fn write(&self, on: &System) -> io::Result<()> {
        on.make_directories(folder_of(&self.path), 0o755)?;
        on.write(&self.path, self.content.as_bytes(), self.mode)
    }
}

impl Action for WriteFile {
    fn preflight(&self, on: &System) -> io::Result<Standing> {
        self.stands(on, false)
    }

    fn perform(&self, on: &System, _: &mut Work, _: Notify) -> Result<(), OperationError> {
        Ok(self.write(on)?)
    }

    fn stands(&self, on: &System, _: bool) -> io::Result<Standing> {
        Ok(match on.node(&self.path)? {
            Node::File {
                sha256: sum, mode, ..
            } if mode == self.mode && sum == sha256(&self.content) => Standing::Satisfied,
            Node::Directory | Node::Other => {
                Standing::Conflict(format!("{} is no file", self.path.display()))
            }
            Node::File { sha256: sum, .. }
                if self.merged_from.as_ref().is_some_and(|from| *from != sum) =>
            {
                Standing::Conflict(format!(
                    "{} has changed since the plan was made",
                    self.path.display()
                ))
            }
            Node::Link { .. } if self.merged_from.is_some() => Standing::Conflict(format!(
                "{} has become a link since the plan was made",
                self.path.display()
            )),
            Node::Absent | Node::File { .. } | Node::Link { .. } => Standing::Needed,
        })
    }

    fn intend(&self, on: &System, work: &mut Work) -> Result<Vec<Undo>, OperationError> {
        let after = Node::File {
            sha256: sha256(&self.content),
            mode: self.mode,
            uid: 0,
            gid: 0,
        };
        let mut undo = missing_parents(on, &self.path);
        undo.push(work.backups.save(on, &self.path, Some(after))?);
        Ok(undo)
    }

    fn describe(&self) -> String {
        format!("write {}", self.path.display())
    }

    fn shell(&self) -> String {
        let path = quoted_path(&self.path);
        format!(
            "{}{}chmod {:04o} {path}\n",
            make_folder(&self.path),
            written(&self.content, &path),
            self.mode
        )
    }

    fn counts(&self) -> Counts {
        Counts {
            add: 1,
            ..Counts::default()
        }
    }

    fn by_hand(&self) -> Option<String> {
        const LINES: usize = 6;
        if self.content.lines().count() > LINES {
            return None;
        }
        let lines = self
            .content
            .replace('\\', "\\\\")
            .replace('%', "%%")
            .replace('\n', "\\n");
        Some(format!(
            "printf {} | sudo tee {}",
            quoted(&lines),
            quoted_path(&self.path)
        ))
    }

    fn touched(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn valid(&self, _: &Path) -> Valid {
        let Self {
            path: at,
            mode,
            content: _,
            merged_from,
        } = self;
        valid::path(at)?;
        merged_from
            .iter()
            .try_for_each(|sum| valid::checksum(sum))?;
        if mode & !valid::MODES == 0 {
            Ok(())
        } else {
            Err(format!("{mode:o} is not a valid mode for {at:?}"))
        }
    }
}

/// What writes a text to a file: lines as they are, where the shell takes them so.
fn written(content: &str, path: &str) -> String {
    const END: &str = "GPUSETUP";
    let in_lines = content.is_empty() || content.ends_with('\n');
    if in_lines && !content.lines().any(|line| line == END) && !content.contains('\r') {
        return format!("cat >{path} <<'{END}'\n{content}{END}\n");
    }
    format!("printf %s {} >{path}\n", quoted(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_as_it_is() {
        for content in [
            "a\nb\n",
            "",
            "no newline",
            "a\nGPUSETUP\ntouch x\n",
            "GPUSETUP\n",
            "it's\r\n",
            "$(x) `y` \\\n",
        ] {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let path = folder.path().join("f");
            let script = written(content, &quoted_path(&path));
            let ran = std::process::Command::new("sh")
                .args(["-ec", &script])
                .current_dir(&folder)
                .status();
            assert!(ran.expect("sh runs").success(), "{script}");
            assert_eq!(std::fs::read_to_string(&path).expect("written"), content);
            assert_eq!(
                folder.path().read_dir().expect("listed").count(),
                1,
                "{script}"
            );
        }
    }
}
