//! A database as one file to distribute: `compat/` and `manifests/` in a `.tar.xz`, with a minisign
//! signature beside it (`.minisig`). It contains the YAML files because they outlive the compact
//! form, which changes with gpusetup's types.

use gpusetup_database::compat::{Database, LoadError, files, parse};
use liblzma::{read::XzDecoder, write::XzEncoder};
use std::io::{self, Read};
use std::path::{Component, Path};

/// The size limit of an archive, packed or unpacked: about fifty times today's size.
pub const MAX_BYTES: u64 = 64 << 20;

/// Why an archive is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It is not a `.tar.xz`, or it is damaged.
    #[error("it cannot be unpacked: {0}")]
    Damaged(#[from] io::Error),
    /// It contains a file that is not part of a database.
    #[error("it contains {0}, which is not part of a database")]
    Strange(String),
    /// Its facts are invalid, or have the format of another gpusetup version.
    #[error("its facts cannot be used; it may be for a newer gpusetup: {0}")]
    Facts(LoadError),
}

/// The file that has the version.
const VERSION: &str = "compat/version.yaml";

/// Creates the archive of a folder with valid facts, which expires on a day (`2027-03-01`) if one
/// is given. The same folder and day always give the same bytes.
pub fn pack(folder: &Path, expires: Option<&str>) -> Result<Vec<u8>, LoadError> {
    let mut files = files(folder)?;
    if let Some((_, text)) = files.iter_mut().find(|(name, _)| name == VERSION)
        && let Some(day) = expires
    {
        text.push_str(&format!("expires: \"{day}\"\n"));
    }
    parse(
        files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str())),
    )?;
    let failed = |source| LoadError::Read {
        path: folder.to_owned(),
        source,
    };
    let mut tar = tar::Builder::new(XzEncoder::new(Vec::new(), 6));
    for (name, text) in &files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, text.as_bytes())
            .map_err(failed)?;
    }
    tar.into_inner().and_then(XzEncoder::finish).map_err(failed)
}

/// The database in a verified archive.
pub fn unpack(archive: &[u8]) -> Result<Database, ArchiveError> {
    let mut files = Vec::new();
    let mut tar = tar::Archive::new(XzDecoder::new(archive).take(MAX_BYTES));
    for entry in tar.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let name = path.display().to_string();
        let ours = ["compat", "manifests"]
            .iter()
            .any(|folder| path.starts_with(folder))
            && path.components().all(|c| matches!(c, Component::Normal(_)))
            && path.extension().is_some_and(|e| e == "yaml");
        if entry.header().entry_type().is_dir() {
            continue;
        }
        if !ours || !entry.header().entry_type().is_file() {
            return Err(ArchiveError::Strange(name));
        }
        let mut text = String::new();
        entry.read_to_string(&mut text)?;
        files.push((name, text));
    }
    files.sort();
    parse(
        files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str())),
    )
    .map_err(ArchiveError::Facts)
}
