//! A file that lies on a disk here: a mirror that was mounted.

use super::part::{DownloadOrigin, Length, Shared, lock};
use super::transfer_error::TransferError;
use gpusetup_system::input::{self, InputError};
use gpusetup_system::interrupt;
use std::io::{ErrorKind, Read};
use url::Url;

/// The bytes of a small file; none if there is no such file.
pub(super) fn small(url: &str, limit: u64) -> Result<Option<Vec<u8>>, TransferError> {
    let path = Url::parse(url).ok().and_then(|url| url.to_file_path().ok());
    let path = path.ok_or_else(|| TransferError::Final("that is no file's address".to_owned()))?;
    match input::open(&path).and_then(|file| input::bytes(file, &path, limit)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.is_absent() => Ok(None),
        Err(e) => Err(TransferError::Final(e.to_string())),
    }
}

pub(super) fn copy(
    url: &str,
    part: &Shared,
    length: Length,
    progress: &mut dyn FnMut(u64),
) -> Result<(), TransferError> {
    const BLOCK: usize = 1 << 20;
    let not_had = |why: String| TransferError::Final(why);
    let path = Url::parse(url).ok().and_then(|url| url.to_file_path().ok());
    let path = path.ok_or_else(|| not_had("that is no file's address".to_owned()))?;
    let unread = |e: std::io::Error| not_had(format!("it cannot be read: {e}"));
    let mut from = input::open(&path).map_err(|e| match e {
        e if e.is_absent() => not_had("there is no such file".to_owned()),
        InputError::Kind { .. } => not_had("that is no file".to_owned()),
        InputError::Io { source, .. } => unread(source),
        e => not_had(e.to_string()),
    })?;
    let meta = from.metadata().map_err(unread)?;
    if let Some(size) = length.size.filter(|size| *size != meta.len()) {
        return Err(not_had(format!(
            "the file has {} bytes, not {size}: the mirror is out of step",
            meta.len()
        )));
    }
    if meta.len() > length.most {
        return Err(TransferError::TooLong);
    }
    let mut block = vec![0; BLOCK];
    let mut at = {
        let mut part = lock(part);
        part.begin_anew()
            .and_then(|()| part.reserve(meta.len()))
            .map_err(TransferError::Disk)?;
        part.comes_from(DownloadOrigin {
            url: url.to_owned(),
            validator: None,
        })
        .map_err(TransferError::Disk)?;
        0
    };
    loop {
        let n = match from.read(&mut block) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(unread(e)),
        };
        if interrupt::heard().is_some() {
            return Err(TransferError::Interrupted);
        }
        lock(part)
            .write(&block[..n], at)
            .map_err(TransferError::Disk)?;
        at += n as u64;
        if at > meta.len() {
            return Err(TransferError::TooLong);
        }
        progress(at);
    }
    if at < meta.len() {
        Err(not_had("somebody has shortened the file".to_owned()))
    } else {
        Ok(())
    }
}
