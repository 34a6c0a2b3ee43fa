//! The newer database installed by `db update`. `/var/lib/gpusetup-database/VERSION/` contains the
//! signed archive and the compact form that this binary reads. `current` links to the one in use,
//! and the previous one is kept. It is readable by everybody, because everybody may plan; only root
//! may write to it, and it is refused otherwise.

use super::archive::{self, ArchiveError, MAX_BYTES};
use super::is_newer;
use gpusetup_database::compact::{self, CompactError, SHAPE};
use gpusetup_database::compat::Database;
use gpusetup_database::signed;
use gpusetup_database::sum::sha256;
use gpusetup_system::trust::is_ours_alone;
use gpusetup_system::{Directory, System, input, is_absent};
use std::fs::Metadata;
use std::io;
use std::path::{Component, Path, PathBuf};

const ARCHIVE: &str = "database.tar.xz";
const SIGNATURE: &str = "database.tar.xz.minisig";
const COMPACT: &str = "database.bin";
/// Contains the version of the newest database ever accepted here by its signature. It outlives the
/// databases: a signature never expires, so an old database could be sent again.
const FLOOR: &str = "newest-accepted";
/// Contains the lists of release keys that were followed here, which are verified again each time:
/// a revoked key is not trusted again because a mirror has an old file. It is here, and not with
/// the journal, because everybody may verify.
const KEYS: &str = signed::KEYS;
/// What outlives the databases.
const KEPT: [&str; 2] = [FLOOR, KEYS];

/// Why the installed database cannot be used, or why nothing can be installed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Users other than root could have written it.
    #[error("{} is writable by users other than root", .0.display())]
    Open(PathBuf),
    /// It is damaged.
    #[error("{} is damaged: {problem}", path.display())]
    Damaged {
        /// The file or directory.
        path: PathBuf,
        /// The problem with the archive.
        problem: ArchiveError,
    },
    /// It is not newer than the one in use.
    #[error("its version is {offered}, and version {used} is already in use")]
    NotNewer {
        /// The version that was offered.
        offered: String,
        /// The version in use.
        used: String,
    },
    /// A newer one was accepted here before.
    #[error(
        "its version is {offered}, but {floor} was accepted here before: it may be an old database sent again"
    )]
    Replayed {
        /// The version that was offered.
        offered: String,
        /// The newest version ever accepted.
        floor: String,
    },
    /// It has the version in use but other content.
    #[error("it claims to be version {0}, which is in use, but its content differs")]
    Other(String),
}

/// The result of an update.
#[derive(Debug, PartialEq, Eq)]
pub enum Updated {
    /// A newer one is now in use.
    Installed,
    /// It was already in use.
    Already,
}

/// The databases installed on this machine.
#[derive(Debug)]
pub struct Store {
    system: System,
    folder: PathBuf,
}

impl Store {
    /// The store in `folder` of this machine.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            system: System::live(),
            folder: folder.into(),
        }
    }

    /// The installed database, if it is newer than `built_in`, the version in the binary.
    pub fn newer_than(&self, built_in: &str) -> Result<Option<Database>, StoreError> {
        let Some(version) = self.system.link_target(self.folder.join("current")) else {
            return Ok(None);
        };
        let is_name = version
            .components()
            .eq([Component::Normal(version.as_os_str())]);
        if !is_name || !is_newer(&version.to_string_lossy(), built_in) {
            return Ok(None);
        }
        let path = self.folder.join(&version);
        let Some(folder) = self.open()? else {
            return Ok(None);
        };
        let folder = folder.open_directory(&version).map_err(failed(&path))?;
        only_ours(folder.metadata(), &path)?;
        if let Some(database) =
            read(&folder, COMPACT, &path)?.and_then(|bytes| from_compact(&bytes))
        {
            return Ok(Some(database));
        }
        // Another gpusetup version installed it, or the compact form is damaged; the archive has
        // the same facts.
        let bytes = read(&folder, ARCHIVE, &path)?;
        let path = path.join(ARCHIVE);
        let bytes = bytes.ok_or_else(|| failed(&path)(io::ErrorKind::NotFound.into()))?;
        archive::unpack(&bytes)
            .map(Some)
            .map_err(|problem| StoreError::Damaged { path, problem })
    }

    /// Installs a verified archive, if it is newer than the database `used`.
    pub fn install(
        &self,
        bytes: &[u8],
        signature: &str,
        database: &Database,
        used: &Database,
        // The version of the binary's own, if one that is older than the one in use may be
        // installed.
        oldest: Option<&str>,
    ) -> Result<Updated, StoreError> {
        if database.version == used.version {
            let same = database.sha256 == used.sha256;
            return if same {
                Ok(Updated::Already)
            } else {
                Err(StoreError::Other(used.version.clone()))
            };
        }
        // Never older than the binary's own database, which would be used instead.
        let used = oldest.unwrap_or(&used.version);
        if !is_newer(&database.version, used) {
            let (offered, used) = (database.version.clone(), used.to_owned());
            return Err(StoreError::NotNewer { offered, used });
        }
        if oldest.is_none() {
            self.not_replayed(&database.version)?;
        }
        let before = self.system.link_target(self.folder.join("current"));
        let folder = self.folder.join(&database.version);
        // Left by an update that was killed; `current` does not lead there.
        self.system.remove_tree(&folder).map_err(failed(&folder))?;
        self.system
            .make_directories(&folder, 0o755)
            .map_err(failed(&folder))?;
        self.open()?;
        let compact = to_compact(database).map_err(|e| failed(&folder)(io::Error::other(e)))?;
        for (name, bytes) in [
            (ARCHIVE, bytes),
            (SIGNATURE, signature.as_bytes()),
            (COMPACT, &compact),
        ] {
            let path = folder.join(name);
            self.system
                .write(&path, bytes, 0o644)
                .map_err(failed(&path))?;
        }
        self.accept(&database.version)?;
        let current = self.folder.join("current");
        self.system
            .link(&current, Path::new(&database.version))
            .map_err(failed(&current))?;
        // In use from here on. The previous one is kept; older ones are removed, and a failure to
        // do so does not matter.
        for name in self.system.list(&self.folder).unwrap_or_default() {
            let kept = name == "current"
                || KEPT.contains(&name.as_str())
                || name == database.version
                || before.as_deref() == Some(Path::new(&name));
            if !kept {
                let _ = self.system.remove_tree(self.folder.join(name));
            }
        }
        Ok(Updated::Installed)
    }

    /// Removes everything that was installed, except for the version of the newest; returns whether
    /// there was anything.
    pub fn forget(&self) -> Result<bool, StoreError> {
        let current = self.folder.join("current");
        let was = self.system.link_target(&current).is_some();
        // The link first: if this is interrupted, the binary's own database is used, and nothing
        // half removed.
        self.system.remove(&current).map_err(failed(&current))?;
        for name in self
            .system
            .list(&self.folder)
            .map_err(failed(&self.folder))?
            .iter()
            .filter(|name| !KEPT.contains(&name.as_str()))
        {
            let path = self.folder.join(name);
            self.system.remove_tree(&path).map_err(failed(&path))?;
        }
        Ok(was)
    }

    /// Refuses a signed database of this version if a newer one was accepted before.
    pub fn not_replayed(&self, version: &str) -> Result<(), StoreError> {
        match self.floor()? {
            Some(floor) if is_newer(&floor, version) => Err(StoreError::Replayed {
                offered: version.to_owned(),
                floor,
            }),
            _ => Ok(()),
        }
    }

    /// Records that a signed database of this version was accepted. If an older one is allowed
    /// explicitly, it becomes the new minimum.
    pub fn accept(&self, version: &str) -> Result<(), StoreError> {
        if self.floor()?.as_deref() == Some(version) {
            return Ok(());
        }
        let path = self.folder.join(FLOOR);
        self.system
            .make_directories(&self.folder, 0o755)
            .map_err(failed(&self.folder))?;
        self.system
            .write(&path, format!("{version}\n").as_bytes(), 0o644)
            .map_err(failed(&path))
    }

    fn floor(&self) -> Result<Option<String>, StoreError> {
        Ok(self.text(FLOOR)?.map(|text| text.trim().to_owned()))
    }

    /// The file with the lists of release keys that were followed here.
    pub fn keys(&self) -> Result<Option<String>, StoreError> {
        self.text(KEYS)
    }

    /// Where that file is.
    pub fn keys_path(&self) -> PathBuf {
        self.folder.join(KEYS)
    }

    /// Records the lists of release keys that were followed.
    pub fn keep_keys(&self, lists: &str) -> Result<(), StoreError> {
        let path = self.keys_path();
        self.system
            .make_directories(&self.folder, 0o755)
            .map_err(failed(&self.folder))?;
        self.open()?;
        self.system
            .write(&path, lists.as_bytes(), 0o644)
            .map_err(failed(&path))
    }

    fn text(&self, name: &str) -> Result<Option<String>, StoreError> {
        let Some(folder) = self.open()? else {
            return Ok(None);
        };
        let text = read(&folder, name, &self.folder)?;
        Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
    }

    /// The folder, which must be writable by root only; none if nothing was ever installed.
    fn open(&self) -> Result<Option<Directory>, StoreError> {
        let folder = match self.system.directory(&self.folder) {
            Err(e) if is_absent(&e) => return Ok(None),
            folder => folder.map_err(failed(&self.folder))?,
        };
        only_ours(folder.metadata(), &self.folder)?;
        Ok(Some(folder))
    }
}

/// Opens a file of an open folder, which is at `path`. No link is followed, and nobody else may
/// have written the file.
fn read(folder: &Directory, name: &str, path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let path = path.join(name);
    let file = match folder.open(name) {
        Err(e) if is_absent(&e) => return Ok(None),
        file => file.map_err(failed(&path))?,
    };
    only_ours(file.metadata(), &path)?;
    let read = input::limited(file, MAX_BYTES)
        .and_then(|bytes| bytes.ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge)));
    read.map(Some).map_err(failed(&path))
}

fn only_ours(meta: io::Result<Metadata>, path: &Path) -> Result<(), StoreError> {
    let meta = meta.map_err(failed(path))?;
    if is_ours_alone(&meta) {
        Ok(())
    } else {
        Err(StoreError::Open(path.to_owned()))
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |source| StoreError::Io { path, source }
}

/// The file format: the hash of the types, a checksum of what follows, and the database.
pub(crate) fn to_compact(database: &Database) -> Result<Vec<u8>, CompactError> {
    let body = compact::pack_database(database)?;
    Ok([SHAPE.as_bytes(), sha256(&body).as_bytes(), &body].concat())
}

pub(crate) fn from_compact(bytes: &[u8]) -> Option<Database> {
    let body = bytes.strip_prefix(SHAPE.as_bytes())?;
    let (sum, body) = body.split_at_checked(64)?;
    if sha256(body).as_bytes() != sum {
        return None;
    }
    // A process has one database.
    compact::unpack_database(body.to_vec().leak()).ok()
}
