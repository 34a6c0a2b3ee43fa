//! The newer database that `db update` installed: `/var/lib/gpusetup-database/VERSION/` holds the signed archive and the
//! compact form that this binary reads, `current` links to the one in use, and the one before it is kept. Readable by
//! everybody, because everybody may plan; writable by root alone, and refused when it is not.

use super::archive::{self, ArchiveError};
use super::{VERSION, is_newer};
use crate::compat::Database;
use crate::sum::sha256;
use crate::system::trust::is_ours_alone;
use crate::system::{Directory, System, contents, is_absent};
use std::fs::Metadata;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Of the sources of the types: the compact form of one gpusetup says nothing to another.
const SHAPE: &str = env!("GPUSETUP_SHAPE");

const ARCHIVE: &str = "database.tar.xz";
const SIGNATURE: &str = "database.tar.xz.minisig";
const COMPACT: &str = "database.bin";
/// Holds the version of the newest database that was ever accepted here for its signature. It outlives the databases: a
/// signature is good for ever, and whoever kept an old one could send it again.
const FLOOR: &str = "newest-accepted";

/// Why what was installed cannot be used, or nothing can be installed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says about it.
        source: io::Error,
    },
    /// Others than root could have put it there.
    #[error("{} can be written by others than root", .0.display())]
    Open(PathBuf),
    /// It is damaged.
    #[error("{} is damaged: {problem}", path.display())]
    Damaged {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with the archive.
        problem: ArchiveError,
    },
    /// It is not newer than what is in use.
    #[error("it is of {offered}, and the one in use of {used}")]
    NotNewer {
        /// The version that was offered.
        offered: String,
        /// The version in use.
        used: String,
    },
    /// A newer one was accepted here before.
    #[error(
        "its database is of {offered}, and one of {floor} was accepted here before: it may be an old one sent again"
    )]
    Replayed {
        /// The version that was offered.
        offered: String,
        /// The newest that was ever accepted.
        floor: String,
    },
    /// It claims the version in use and says something else.
    #[error("it claims to be {0}, which is in use, and says something else")]
    Other(String),
}

/// What an update came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Updated {
    /// A newer one is in use now.
    Installed,
    /// It was in use before.
    Already,
}

/// The databases that were installed on this machine.
#[derive(Debug)]
pub struct Store {
    system: System,
    folder: PathBuf,
}

impl Store {
    /// In `folder` of this machine.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { system: System::live(), folder: folder.into() }
    }

    /// The database that is installed and newer than `built_in`, the version that the binary carries.
    pub fn newer_than(&self, built_in: &str) -> Result<Option<Database>, StoreError> {
        let Some(version) = self.system.link_target(self.folder.join("current")) else { return Ok(None) };
        let is_name = version.components().eq([Component::Normal(version.as_os_str())]);
        if !is_name || !is_newer(&version.to_string_lossy(), built_in) {
            return Ok(None);
        }
        let path = self.folder.join(&version);
        let Some(folder) = self.open()? else { return Ok(None) };
        let folder = folder.open_directory(&version).map_err(failed(&path))?;
        only_ours(folder.metadata(), &path)?;
        if let Some(database) = read(&folder, COMPACT, &path)?.and_then(|bytes| from_compact(&bytes)) {
            return Ok(Some(database));
        }
        // Another gpusetup installed it, or the compact form is damaged: what it was made of says the same.
        let bytes = read(&folder, ARCHIVE, &path)?;
        let path = path.join(ARCHIVE);
        let bytes = bytes.ok_or_else(|| failed(&path)(io::ErrorKind::NotFound.into()))?;
        archive::unpack(&bytes).map(Some).map_err(|problem| StoreError::Damaged { path, problem })
    }

    /// Puts a verified archive in use, when it is newer than the database `used`.
    pub fn install(
        &self,
        bytes: &[u8],
        signature: &str,
        database: &Database,
        used: &Database,
        allow_older: bool,
    ) -> Result<Updated, StoreError> {
        if database.version == used.version {
            let same = database.sha256 == used.sha256;
            return if same { Ok(Updated::Already) } else { Err(StoreError::Other(used.version.clone())) };
        }
        // Never older than the binary's own, which would be used instead.
        let used = if allow_older { VERSION } else { &used.version };
        if !is_newer(&database.version, used) {
            let (offered, used) = (database.version.clone(), used.to_owned());
            return Err(StoreError::NotNewer { offered, used });
        }
        if !allow_older {
            self.not_replayed(&database.version)?;
        }
        let before = self.system.link_target(self.folder.join("current"));
        let folder = self.folder.join(&database.version);
        // Left by an update that was killed; `current` does not lead there.
        self.system.remove_tree(&folder).map_err(failed(&folder))?;
        self.system.make_directories(&folder, 0o755).map_err(failed(&folder))?;
        self.open()?;
        let compact = to_compact(database).map_err(|e| failed(&folder)(io::Error::other(e)))?;
        for (name, bytes) in [(ARCHIVE, bytes), (SIGNATURE, signature.as_bytes()), (COMPACT, &compact)] {
            let path = folder.join(name);
            self.system.write(&path, bytes, 0o644).map_err(failed(&path))?;
        }
        self.accept(&database.version)?;
        let current = self.folder.join("current");
        self.system.link(&current, Path::new(&database.version)).map_err(failed(&current))?;
        // In use from here on. The one before it stays; older ones go, and whether they do is no matter.
        for name in self.system.list(&self.folder).unwrap_or_default() {
            let kept = name == "current"
                || name == FLOOR
                || name == database.version
                || before.as_deref() == Some(Path::new(&name));
            if !kept {
                let _ = self.system.remove_tree(self.folder.join(name));
            }
        }
        Ok(Updated::Installed)
    }

    /// Takes all that was installed away, but for the version of the newest; whether there was anything.
    pub fn forget(&self) -> Result<bool, StoreError> {
        let current = self.folder.join("current");
        let was = self.system.link_target(&current).is_some();
        // The link first: a kill in between leaves the database of the binary in use, and nothing half there.
        self.system.remove(&current).map_err(failed(&current))?;
        for name in self.system.list(&self.folder).map_err(failed(&self.folder))?.iter().filter(|name| *name != FLOOR) {
            let path = self.folder.join(name);
            self.system.remove_tree(&path).map_err(failed(&path))?;
        }
        Ok(was)
    }

    /// Refuses a signed database of this version where a newer one was accepted before.
    pub fn not_replayed(&self, version: &str) -> Result<(), StoreError> {
        match self.floor()? {
            Some(floor) if is_newer(&floor, version) => {
                Err(StoreError::Replayed { offered: version.to_owned(), floor })
            }
            _ => Ok(()),
        }
    }

    /// Remembers that a signed database of this version was accepted. Who allows an older one goes on from that one.
    pub fn accept(&self, version: &str) -> Result<(), StoreError> {
        if self.floor()?.as_deref() == Some(version) {
            return Ok(());
        }
        let path = self.folder.join(FLOOR);
        self.system.make_directories(&self.folder, 0o755).map_err(failed(&self.folder))?;
        self.system.write(&path, format!("{version}\n").as_bytes(), 0o644).map_err(failed(&path))
    }

    fn floor(&self) -> Result<Option<String>, StoreError> {
        let Some(folder) = self.open()? else { return Ok(None) };
        let text = read(&folder, FLOOR, &self.folder)?;
        Ok(text.map(|text| String::from_utf8_lossy(&text).trim().to_owned()))
    }

    /// The folder, which nobody else may write to; none where nothing was ever installed.
    fn open(&self) -> Result<Option<Directory>, StoreError> {
        let folder = match self.system.directory(&self.folder) {
            Err(e) if is_absent(&e) => return Ok(None),
            folder => folder.map_err(failed(&self.folder))?,
        };
        only_ours(folder.metadata(), &self.folder)?;
        Ok(Some(folder))
    }
}

/// A file of an open folder, which is at `path`; no link is followed, and nobody else may have written it.
fn read(folder: &Directory, name: &str, path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let path = path.join(name);
    let file = match folder.open(name) {
        Err(e) if is_absent(&e) => return Ok(None),
        file => file.map_err(failed(&path))?,
    };
    only_ours(file.metadata(), &path)?;
    contents(file).map(Some).map_err(failed(&path))
}

fn only_ours(meta: io::Result<Metadata>, path: &Path) -> Result<(), StoreError> {
    let meta = meta.map_err(failed(path))?;
    if is_ours_alone(&meta) { Ok(()) } else { Err(StoreError::Open(path.to_owned())) }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |source| StoreError::Io { path, source }
}

/// The shape of the types, a sum over what follows, and the database.
pub(crate) fn to_compact(database: &Database) -> Result<Vec<u8>, postcard::Error> {
    let body = postcard::to_stdvec(database)?;
    Ok([SHAPE.as_bytes(), sha256(&body).as_bytes(), &body].concat())
}

pub(crate) fn from_compact(bytes: &[u8]) -> Option<Database> {
    let body = bytes.strip_prefix(SHAPE.as_bytes())?;
    let (sum, body) = body.split_at_checked(64)?;
    (sha256(body).as_bytes() == sum).then(|| postcard::from_bytes(body).ok()).flatten()
}
