//! File access for the probes. A missing file is `None`; a file that exists and cannot be read is
//! recorded in one list, so that no probe can drop the error. Nothing is ever changed.

use super::{Missing, Unreadable};
use gpusetup_system::limits::{LeftOut, Limit, MAX_CONFIG};
use gpusetup_system::{Metered, System, is_absent};
use gpusetup_text::text::{quoted, quoted_path};
use std::fmt::Display;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// How much is named that could not be read.
const MAX_MISSED: usize = 500;

/// Adds what a look left out because of its limits. A probe may have said so, without the limit.
pub fn add_left_out(missed: &mut Vec<Unreadable>, system: &System) {
    for LeftOut { path, why, limit } in system.left_out() {
        let what = path.display().to_string();
        match missed
            .iter_mut()
            .find(|one| one.what == what || one.why.starts_with(&quoted(&what)))
        {
            Some(one) => one.limit = limit,
            None => missed.push(Unreadable {
                what,
                why,
                missing: None,
                limit,
            }),
        }
    }
}

/// A host as the probes see it.
pub(crate) struct Reader<'a> {
    /// The host.
    pub(crate) system: &'a System,
    /// What could not be read so far.
    pub(crate) missed: Vec<Unreadable>,
}

impl<'a> Reader<'a> {
    /// A reader that has missed nothing yet.
    pub(crate) fn new(system: &'a System) -> Self {
        Self {
            system,
            missed: Vec::new(),
        }
    }

    /// Records that `what` could not be read.
    pub(crate) fn miss(&mut self, what: impl Into<String>, why: impl Display) {
        self.note(Unreadable {
            what: what.into(),
            why: why.to_string(),
            missing: None,
            limit: None,
        });
    }

    /// Records that a file could not be read on which everything depends, as if nothing had been
    /// read after it.
    pub(crate) fn miss_all(&mut self, what: &str, path: &str, why: &str) {
        self.system.leave_out_all(path, why);
        let (why, limit) = (format!("{}: {why}", quoted(path)), Some(Limit::Whole));
        self.note(Unreadable {
            what: what.to_owned(),
            why,
            missing: None,
            limit,
        });
    }

    /// Records what the look left out because of its limits, as far as no probe did.
    pub(crate) fn note_left_out(&mut self) {
        add_left_out(&mut self.missed, self.system);
    }

    /// Records that GPUs may be missing.
    pub(crate) fn miss_gpus(&mut self, missing: Missing, why: impl Display) {
        self.note(Unreadable::gpus(missing, why));
    }

    fn note(&mut self, new: Unreadable) {
        if self.missed.len() < MAX_MISSED && !self.missed.contains(&new) {
            self.missed.push(new);
        }
    }

    fn kept<T>(&mut self, what: &str, path: &Path, result: io::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(e) => {
                if !is_absent(&e) {
                    self.miss(what, format_args!("{}: {e}", quoted_path(path)));
                }
                None
            }
        }
    }

    /// The text of a file.
    pub(crate) fn text(&mut self, what: &str, path: impl AsRef<Path>) -> Option<String> {
        let read = self.system.read_text(path.as_ref());
        self.kept(what, path.as_ref(), read).flatten()
    }

    /// The text of a file without surrounding white space; none if it is empty.
    pub(crate) fn word(&mut self, what: &str, path: impl AsRef<Path>) -> Option<String> {
        self.text(what, path)
            .map(|t| t.trim().to_owned())
            .filter(|t| !t.is_empty())
    }

    /// The first `limit` bytes of a file that may be long, as text.
    pub(crate) fn head(
        &mut self,
        what: &str,
        path: impl AsRef<Path>,
        limit: u64,
    ) -> Option<String> {
        let read = self.system.open_metered(path.as_ref()).and_then(|file| {
            let mut bytes = Vec::new();
            file.take(limit).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        });
        self.kept(what, path.as_ref(), read)
    }

    /// The bytes of a small file.
    pub(crate) fn bytes(&mut self, what: &str, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.bytes_up_to(what, path, MAX_CONFIG)
    }

    /// The bytes of a file whose kind has a separate limit.
    pub(crate) fn bytes_up_to(
        &mut self,
        what: &str,
        path: impl AsRef<Path>,
        most: u64,
    ) -> Option<Vec<u8>> {
        let read = self.system.read_up_to(path.as_ref(), most);
        self.kept(what, path.as_ref(), read)
    }

    /// Opens a file to search it.
    pub(crate) fn open(&mut self, what: &str, path: impl AsRef<Path>) -> Option<Metered<File>> {
        let opened = self.system.open_metered(path.as_ref());
        self.kept(what, path.as_ref(), opened)
    }

    /// The names in a directory, sorted.
    pub(crate) fn names(&mut self, what: &str, directory: impl AsRef<Path>) -> Vec<String> {
        let listed = self.system.list(directory.as_ref());
        self.kept(what, directory.as_ref(), listed)
            .unwrap_or_default()
    }

    /// The metadata of the inode that `path` leads to. Unlike opening, this needs no read
    /// permission on the file.
    pub(crate) fn metadata(&self, path: impl AsRef<Path>) -> Option<Metadata> {
        self.system.metadata(path).ok()
    }

    /// Whether `path` is a regular file; links are followed.
    pub(crate) fn is_file(&self, path: impl AsRef<Path>) -> bool {
        self.metadata(path).is_some_and(|m| m.is_file())
    }

    /// Whether `path` is a regular file with any execute permission; links are followed.
    pub(crate) fn is_program(&self, path: impl AsRef<Path>) -> bool {
        use std::os::unix::fs::PermissionsExt;
        self.metadata(path)
            .is_some_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    }

    /// `path` with its links resolved, as seen from inside the host.
    pub(crate) fn resolved(&self, path: impl AsRef<Path>) -> PathBuf {
        self.system
            .canonical(path.as_ref())
            .unwrap_or_else(|_| path.as_ref().to_owned())
    }
}
