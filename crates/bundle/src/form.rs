//! The two forms of a bundle: a folder, and the same as one `.tar.zst`. The archive is read from
//! its beginning to its end and never unpacked as a whole: it may hold the files of several plans,
//! and those that are wanted are written once, to where they are needed. Its manifest comes first,
//! so that every byte after it is checked against a checksum as it arrives.

use super::BundleError;
use super::manifest::{MANIFEST, MAX_BYTES, SIGNATURE};
use gpusetup_database::signed::Signers;
use gpusetup_database::sum::hex;
use gpusetup_system::input::{self, InputError};
use gpusetup_system::trust::Trust;
use gpusetup_system::zst;
use gpusetup_system::{Directory, cores, interrupt, today};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The decoder may look back so far, as a power of two in bytes; what is packed here needs 2^21.
const WINDOW: u32 = 24;
/// Nearly everything in a bundle is compressed already: a higher level finds no more.
const LEVEL: i32 = 1;
/// No signature is longer, in bytes.
const MAX_SIGNATURE: u64 = 4096;

/// Where the bytes of a bundle are. It is opened once: whatever its path comes to mean later, this
/// stays the same bundle.
#[derive(Debug, Clone)]
pub enum BundleStorage {
    Folder(Folder),
    /// A `.tar.zst`.
    Archive(Archive),
}

/// An open folder.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    directory: Arc<Directory>,
    trust: Trust,
}

/// An open archive.
#[derive(Debug, Clone)]
pub struct Archive {
    path: PathBuf,
    file: Arc<File>,
}

/// The manifest's bytes, and those of its signature, where there is one.
#[derive(Debug)]
pub(crate) struct Head {
    /// Of `bundle.json`.
    pub(crate) manifest: Vec<u8>,
    /// Of `bundle.json.minisig`.
    pub(crate) signature: Option<Vec<u8>>,
}

/// Is given a file's name and its bytes, as they come.
pub(crate) type Taker<'a> = &'a mut dyn FnMut(&str, &mut dyn Read) -> Result<(), BundleError>;

impl BundleStorage {
    /// Opens what is at `path`, if it belongs to somebody who is trusted. Of a folder, the manifest
    /// is judged too; all the rest is what the manifest says, whoever wrote it.
    pub fn open(path: &Path, trust: &Trust) -> Result<Self, BundleError> {
        let file = input::open_any(path, trust)?;
        let is_folder = file.metadata().map_err(BundleError::io(path))?.is_dir();
        let path = path.to_owned();
        Ok(match is_folder {
            true => Self::Folder(Folder {
                path,
                directory: Arc::new(file.into()),
                trust: trust.clone(),
            }),
            false => Self::Archive(Archive {
                path,
                file: Arc::new(file),
            }),
        })
    }

    /// Its path, for sentences.
    pub fn path(&self) -> &Path {
        let (Self::Folder(Folder { path, .. }) | Self::Archive(Archive { path, .. })) = self;
        path
    }

    /// The manifest.
    pub(crate) fn head(&self) -> Result<Head, BundleError> {
        match self {
            Self::Folder(folder) => folder.head(),
            Self::Archive(archive) => archive.head(),
        }
    }
}

impl Folder {
    /// Its path, for sentences.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in it, for sentences and for a second name.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A regular file in it by its path, of which no component is a link; opened without waiting.
    pub(crate) fn open(&self, name: &str) -> io::Result<File> {
        open_in(&self.directory, name)
    }

    fn head(&self) -> Result<Head, BundleError> {
        let read = |name: &str, most| match self.open(name) {
            Ok(file) => {
                let path = self.join(name);
                let judged = self.trust.judge(&file).map_err(BundleError::io(&path))?;
                judged.map_err(|why| InputError::Untrusted {
                    path: path.clone(),
                    why,
                })?;
                limited(file, most)
                    .map(Some)
                    .map_err(BundleError::io(&path))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(BundleError::io(&self.join(name))(e)),
        };
        let manifest =
            read(MANIFEST, MAX_BYTES)?.ok_or_else(|| BundleError::NoBundle(self.path.clone()))?;
        Ok(Head {
            manifest,
            signature: read(SIGNATURE, MAX_SIGNATURE)?,
        })
    }
}

fn open_in(directory: &Directory, name: &str) -> io::Result<File> {
    match name.split_once('/') {
        Some((folder, rest)) => open_in(&directory.open_directory(plain_name(folder)?)?, rest),
        None => directory.open(plain_name(name)?),
    }
}

fn plain_name(name: &str) -> io::Result<&str> {
    match name {
        "" | "." | ".." => Err(io::ErrorKind::InvalidInput.into()),
        name => Ok(name),
    }
}

impl Archive {
    fn head(&self) -> Result<Head, BundleError> {
        let damaged = BundleError::damaged(&self.path);
        let mut tar = tar::Archive::new(self.decoder()?);
        let mut head = Head {
            manifest: Vec::new(),
            signature: None,
        };
        for entry in tar.entries().map_err(&damaged)?.raw(true) {
            let entry = entry.map_err(&damaged)?;
            match name(&entry)?.as_str() {
                MANIFEST if head.manifest.is_empty() => {
                    head.manifest = limited(entry, MAX_BYTES).map_err(&damaged)?;
                }
                SIGNATURE if !head.manifest.is_empty() => {
                    head.signature = Some(limited(entry, MAX_SIGNATURE).map_err(&damaged)?);
                    break;
                }
                _ => break,
            }
        }
        if head.manifest.is_empty() {
            Err(BundleError::NoBundle(self.path.clone()))
        } else {
            Ok(head)
        }
    }

    fn decoder(&self) -> Result<impl Read + use<>, BundleError> {
        let from_its_beginning = FromStart {
            file: Arc::clone(&self.file),
            at: 0,
        };
        zst::Decoder::new(from_its_beginning)
            .and_then(|decoder| decoder.window(WINDOW))
            .map_err(BundleError::damaged(&self.path))
    }
}

/// An open file, read from its beginning however often it is read.
struct FromStart {
    file: Arc<File>,
    at: u64,
}

impl Read for FromStart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Is given a file's name and its bytes, as they come; says whether there is more to come for it.
pub(crate) type Wanting<'a> = &'a mut dyn FnMut(&str, &mut dyn Read) -> Result<bool, BundleError>;

/// Hands over the files of an archive, in its order, for as long as more are wanted. What is no
/// plain file, or is there twice, is an error.
pub(crate) fn first(archive: &Archive, take: Wanting) -> Result<(), BundleError> {
    walk(archive, take).map(|_| ())
}

/// Hands over every file of an archive to its end, which is what shows that nothing is cut off.
pub(crate) fn each(archive: &Archive, take: Taker) -> Result<(), BundleError> {
    let damaged = BundleError::damaged(&archive.path);
    let Some(rest) = walk(archive, &mut |name, bytes| take(name, bytes).map(|()| true))? else {
        return Ok(());
    };
    let count = io::copy(&mut rest.take(MAX_REST), &mut NoneButZeros).map_err(&damaged)?;
    if count < MAX_REST {
        Ok(())
    } else {
        Err(BundleError::Strange("something behind its end".to_owned()))
    }
}

/// tar fills its last block with zeros; more than this is none of its doing.
const MAX_REST: u64 = 1 << 20;

fn walk(archive: &Archive, take: Wanting) -> Result<Option<impl Read + use<>>, BundleError> {
    let damaged = BundleError::damaged(&archive.path);
    let mut tar = tar::Archive::new(archive.decoder()?);
    let mut seen = BTreeSet::new();
    for entry in tar.entries().map_err(&damaged)?.raw(true) {
        let mut entry = entry.map_err(&damaged)?;
        let name = name(&entry)?;
        if !seen.insert(name.clone()) {
            return Err(BundleError::Strange(format!("{name:?} twice")));
        }
        if name != MANIFEST && name != SIGNATURE && !take(&name, &mut entry)? {
            return Ok(None);
        }
    }
    Ok(Some(tar.into_inner()))
}

/// Takes nothing but zeros, which is what tar ends with.
struct NoneButZeros;

impl Write for NoneButZeros {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.iter().all(|b| *b == 0) {
            Ok(bytes.len())
        } else {
            Err(io::Error::other("something is behind its end"))
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn limited(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    input::limited(from, most)?
        .ok_or_else(|| io::Error::other(format!("it is longer than {most} bytes")))
}

/// The name of an entry that is a plain file. Names fit into a header of tar's own here, so that no
/// other form, which could be as long as it likes, is read at all.
fn name(entry: &tar::Entry<impl Read>) -> Result<String, BundleError> {
    let name = String::from_utf8_lossy(&entry.header().path_bytes()).into_owned();
    if entry.header().entry_type() == tar::EntryType::Regular {
        Ok(name)
    } else {
        Err(BundleError::Strange(format!("{name:?}")))
    }
}

/// Copies all of it, at most `size` bytes; the sum of what came, and how much that was.
pub(crate) fn copy(
    from: &mut dyn Read,
    to: &mut dyn Write,
    size: u64,
    tell: &mut dyn FnMut(u64),
) -> Result<(String, u64), BundleError> {
    let (mut sum, mut have, mut block) = (Sha256::new(), 0, vec![0; 1 << 17]);
    loop {
        let n = match from.read(&mut block) {
            Ok(0) => return Ok((hex(&sum.finalize()), have)),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(BundleError::Read(e)),
        };
        if interrupt::heard().is_some() {
            return Err(BundleError::Interrupted);
        }
        have += n as u64;
        sum.update(&block[..n]);
        // Longer than it should be, it is not what it should be, whatever follows.
        if have > size {
            return Ok((hex(&sum.finalize()), have));
        }
        to.write_all(&block[..n]).map_err(BundleError::Write)?;
        tell(have);
    }
}

/// An archive that is written file after file; nothing of it is held in memory.
pub(crate) struct Writer<'a> {
    tar: tar::Builder<zstd::Encoder<'a, File>>,
}

impl Writer<'_> {
    pub(crate) fn into(file: File) -> io::Result<Self> {
        let mut zstd = zstd::Encoder::new(file, LEVEL)?;
        zstd.include_checksum(true)?;
        zstd.multithread(u32::try_from(cores()).unwrap_or(1))?;
        Ok(Self {
            tar: tar::Builder::new(zstd),
        })
    }

    /// Appends a file of this size.
    pub(crate) fn add(
        &mut self,
        name: &str,
        size: u64,
        mode: u32,
        bytes: &mut dyn Read,
    ) -> io::Result<()> {
        let mut header = tar::Header::new_ustar();
        header.set_path(name)?;
        header.set_size(size);
        header.set_mode(mode);
        header.set_cksum();
        self.tar.append(&header, bytes)
    }

    /// To its end, and onto the disk.
    pub(crate) fn end(self) -> io::Result<()> {
        self.tar.into_inner()?.finish()?.sync_all()
    }
}

/// The mode of a file in a bundle.
pub(crate) fn mode(name: &str) -> u32 {
    if name == super::manifest::PROGRAM {
        0o755
    } else {
        0o644
    }
}

/// That a manifest's signature is by this key.
pub(crate) fn signed(head: &Head, key: &str) -> Result<(), BundleError> {
    let signature = head.signature.as_ref().ok_or(BundleError::Unsigned)?;
    let signature = String::from_utf8_lossy(signature);
    let verified = Signers::all([key])
        .and_then(|signers| signers.verify(MANIFEST, &head.manifest, &signature, Some(&today())));
    verified
        .map(drop)
        .map_err(|e| BundleError::Signature(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_a_regular_file_below_the_folder_is_opened() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let folder = dir.path().join("bundle");
        fs::create_dir_all(folder.join("plans")).expect("made");
        fs::create_dir(dir.path().join("else")).expect("made");
        for file in ["bundle/plans/a.json", "else/a.json"] {
            fs::write(dir.path().join(file), file).expect("written");
        }
        symlink("../../else/a.json", folder.join("plans/link.json")).expect("linked");
        symlink("../else", folder.join("artifacts")).expect("linked");
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            folder.join("plans/pipe"),
            rustix::fs::Mode::from_raw_mode(0o600),
        )
        .expect("made");
        let Ok(BundleStorage::Folder(open)) = BundleStorage::open(&folder, &Trust::Anybody) else {
            panic!("a folder")
        };
        // Whatever its path comes to mean, it stays the folder that was opened.
        fs::rename(&folder, dir.path().join("moved")).expect("moved");
        symlink("else", &folder).expect("linked");
        let mut text = String::new();
        open.open("plans/a.json")
            .expect("there")
            .read_to_string(&mut text)
            .expect("read");
        assert_eq!(text, "bundle/plans/a.json");
        for name in [
            "plans/link.json",
            "artifacts/a.json",
            "plans/pipe",
            "plans",
            "../else/a.json",
            "plans/../x",
            "",
            "/etc/passwd",
        ] {
            assert!(open.open(name).is_err(), "{name}");
        }
    }
}
