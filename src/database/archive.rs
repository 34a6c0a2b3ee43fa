//! A database as one file that can be sent: `compat/` and `manifests/` as a `.tar.xz`, with a minisign signature beside
//! it (`.minisig`). The YAML itself, because it outlives the compact form, which changes with gpusetup's types.

use crate::compat::{Database, LoadError, files, parse};
use liblzma::{read::XzDecoder, write::XzEncoder};
use minisign_verify::{PublicKey, Signature};
use std::io::{self, Read};
use std::path::{Component, Path};

/// No archive is longer, packed or unpacked: some fifty times what today's is.
pub const MOST_BYTES: u64 = 64 << 20;

/// Why an archive is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The public key is none.
    #[error("the key is no minisign public key: {0}")]
    Key(minisign_verify::Error),
    /// The signature is none of minisign's, or not by this key, or of other bytes.
    #[error("it is not signed by this key, or was altered since: {0}")]
    Signature(minisign_verify::Error),
    /// It is no `.tar.xz`, or it is damaged.
    #[error("it cannot be unpacked: {0}")]
    Damaged(#[from] io::Error),
    /// It holds something else than a database does.
    #[error("it holds {0}, which is no part of a database")]
    Strange(String),
    /// Its facts do not hold, or are of another gpusetup's form.
    #[error("its facts cannot be used, it may be made for a newer gpusetup: {0}")]
    Facts(LoadError),
}

/// Makes the archive of a folder whose facts hold: the same bytes from the same folder.
pub fn pack(folder: &Path) -> Result<Vec<u8>, LoadError> {
    let files = files(folder)?;
    parse(files.iter().map(|(name, text)| (name.as_str(), text.as_str())))?;
    let failed = |source| LoadError::Read { path: folder.to_owned(), source };
    let mut tar = tar::Builder::new(XzEncoder::new(Vec::new(), 6));
    for (name, text) in &files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, text.as_bytes()).map_err(failed)?;
    }
    tar.into_inner().and_then(XzEncoder::finish).map_err(failed)
}

/// That `signature`, the text of a `.minisig` file, is made over `archive` by the owner of `key`, the text of a `.pub`
/// file or its last line.
pub fn verify(archive: &[u8], signature: &str, key: &str) -> Result<(), ArchiveError> {
    let key = key.trim();
    let key = PublicKey::decode(key).or_else(|_| PublicKey::from_base64(key)).map_err(ArchiveError::Key)?;
    let signature = Signature::decode(signature).map_err(ArchiveError::Signature)?;
    // Only signatures over a hash of the whole: what minisign has made since 2021.
    key.verify(archive, &signature, false).map_err(ArchiveError::Signature)
}

/// The database in an archive that was verified.
pub fn unpack(archive: &[u8]) -> Result<Database, ArchiveError> {
    let mut files = Vec::new();
    let mut tar = tar::Archive::new(XzDecoder::new(archive).take(MOST_BYTES));
    for entry in tar.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let name = path.display().to_string();
        let ours = ["compat", "manifests"].iter().any(|folder| path.starts_with(folder))
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
    parse(files.iter().map(|(name, text)| (name.as_str(), text.as_str()))).map_err(ArchiveError::Facts)
}
