//! `link`: a symbolic link, which replaces a copy of what it leads to and no other file.

use super::shell::folder_of;
use super::undo::{Undo, missing_parents};
use super::valid::Valid;
use super::{Action, Counts, Notify, OperationError, Standing, Work, valid};
use gpusetup_host::soname;
use gpusetup_system::{Node, System};
use gpusetup_text::text::quoted_path;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// Puts a link there. A file that stands there is replaced only when it is a copy of what the link
/// leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The path of the link.
    pub path: PathBuf,
    /// The target, as it is written in the link.
    pub target: PathBuf,
    /// The SONAME that the ELF file at the end of the chain must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soname: Option<String>,
}

impl Link {
    /// What it leads to.
    pub(crate) fn end(&self) -> PathBuf {
        if self.target.is_absolute() {
            self.target.clone()
        } else {
            self.path.with_file_name("").join(&self.target)
        }
    }
}

impl Action for Link {
    fn preflight(&self, on: &System) -> io::Result<Standing> {
        // A library that is yet to be unpacked has no copies to be told from it.
        if on.exists(self.end()) {
            self.stands(on, false)
        } else {
            Ok(Standing::Satisfied)
        }
    }

    fn stands(&self, on: &System, _: bool) -> io::Result<Standing> {
        let path = self.path.display();
        Ok(match on.node(&self.path)? {
            Node::Link { target } if target == self.target => Standing::Satisfied,
            Node::Absent | Node::Link { .. } => Standing::Needed,
            Node::File { sha256: copy, .. } => match on.node(self.end())? {
                Node::File {
                    sha256: original, ..
                } if original == copy => Standing::Needed,
                _ => Standing::Conflict(format!(
                    "{path} is a file of its own, and no copy of {}",
                    self.target.display()
                )),
            },
            Node::Directory | Node::Other => Standing::Conflict(format!("{path} is no link")),
        })
    }

    fn intend(&self, on: &System, work: &mut Work) -> Result<Vec<Undo>, OperationError> {
        let mut undo = missing_parents(on, &self.path);
        undo.push(work.backups.save(
            on,
            &self.path,
            Some(Node::Link {
                target: self.target.clone(),
            }),
        )?);
        Ok(undo)
    }

    fn perform(&self, on: &System, _: &mut Work, _: Notify) -> Result<(), OperationError> {
        if let Some(wanted) = &self.soname {
            let found = soname(on, &self.end());
            if found.as_ref() != Some(wanted) {
                let found = found.unwrap_or_else(|| "none".to_owned());
                let sentence = format!(
                    "{} has the SONAME {found}, not {wanted}",
                    self.end().display()
                );
                return Err(io::Error::other(sentence).into());
            }
        }
        on.make_directories(folder_of(&self.path), 0o755)?;
        Ok(on.link(&self.path, &self.target)?)
    }

    fn describe(&self) -> String {
        format!("link {} -> {}", self.path.display(), self.target.display())
    }

    fn shell(&self) -> String {
        // What a link leads to may begin like an option.
        let options = if self.target.to_string_lossy().starts_with('-') {
            "-sfn --"
        } else {
            "-sfn"
        };
        format!(
            "ln {options} {} {}\n",
            quoted_path(&self.target),
            quoted_path(&self.path)
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

    fn by_hand(&self) -> Option<String> {
        Some(format!("sudo {}", self.shell().trim_end()))
    }

    fn valid(&self, _: &Path) -> Valid {
        let Self {
            path: at,
            target: to,
            soname,
        } = self;
        valid::path(at)?;
        valid::target(to)?;
        soname.iter().try_for_each(|name| valid::no_nul(name))
    }
}
