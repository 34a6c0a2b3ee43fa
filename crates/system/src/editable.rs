//! Text files that belong to somebody else, opened to be edited: nothing that could lead to another
//! file is opened.

use super::limits::MAX_CONFIG;
use super::{System, is_absent};
use gpusetup_text::text::quoted_path;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file's text, owner and mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Editable {
    /// The whole text.
    pub text: String,
    /// The permission bits.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl System {
    /// Opens a file without following a link at its end. None if it is not there; a sentence if it
    /// must not be edited: a link, a file with a second name, a large file, and what is no text.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn editable(&self, path: &Path) -> io::Result<Result<Option<Editable>, String>> {
        let shown = quoted_path(path);
        let room = self.room(MAX_CONFIG);
        if room == 0 {
            return Ok(Err(format!(
                "{shown}: {}",
                self.too_large(path, 0, MAX_CONFIG)
            )));
        }
        if let Some(target) = self.link_target(path) {
            self.spend(path, 0);
            return Ok(Err(format!(
                "{shown} is a link to {}",
                quoted_path(&target)
            )));
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(Ok(None));
        };
        let file = match self.directory(folder).and_then(|folder| folder.open(name)) {
            Err(e) if is_absent(&e) => return Ok(Ok(None)),
            Err(e) => return Ok(Err(format!("{shown}: {e}"))),
            Ok(file) => file,
        };
        let meta = file.metadata()?;
        if meta.nlink() > 1 {
            self.spend(path, 0);
            return Ok(Err(format!("{shown} has a second name")));
        }
        if meta.len() > room {
            return Ok(Err(format!(
                "{shown}: {}",
                self.too_large(path, meta.len(), MAX_CONFIG)
            )));
        }
        self.spend(path, meta.len());
        Ok(match whole(file)? {
            None => Err(format!("{shown} is not a UTF-8 text")),
            Some(text) => Ok(Some(Editable {
                text,
                mode: meta.mode() & 0o7777,
                uid: meta.uid(),
                gid: meta.gid(),
            })),
        })
    }
}

fn whole(file: File) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    file.take(MAX_CONFIG + 1).read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes).ok())
}
