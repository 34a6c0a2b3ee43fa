//! Files named by the caller: plans, facts, lock files, bundles, reports, keys, the config file.
//! Their content is untrusted. Each is opened once, without blocking (a pipe could block for ever),
//! checked by its open descriptor, and read only up to the limit of its kind. Anything but a
//! regular file is refused.
//!
//! A link at the end of a path is followed. If root acts on the file's content, the link must
//! belong to a trusted user: otherwise anyone who may write to the folder could point it at any
//! trusted file.

use super::limits::{MAX_JSON, MAX_JSON_WEIGHT, MAX_LOG, is_light_json};
use super::trust::{Distrust, Trust};
use super::{beneath, interrupt, text_in_place};
use gpusetup_text::text::public_path;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use std::fs::{DirEntry, File, FileType, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The path that means standard input.
pub const STANDARD_INPUT: &str = "-";

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// It cannot be opened or read.
    #[error("cannot read {}: {source}", public_path(path))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It is not a regular file.
    #[error("cannot read {}: it is {kind}, not a regular file", public_path(path))]
    Kind {
        /// The file or directory.
        path: PathBuf,
        /// The kind of node: `a pipe`.
        kind: &'static str,
    },
    /// The link belongs to an untrusted user, and root would act on the file.
    #[error("{} is a symbolic link that belongs to an untrusted user", public_path(.0))]
    Link(PathBuf),
    /// It exceeds the limit of its kind.
    #[error("cannot read {}: it is longer than {most} bytes", public_path(path))]
    TooLong {
        /// The file or directory.
        path: PathBuf,
        /// The limit in bytes.
        most: u64,
    },
    /// It is JSON with more values than any real file has.
    #[error("cannot read {}: it has more than {MAX_JSON_WEIGHT} values", public_path(.0))]
    TooManyValues(PathBuf),
    /// It is not text.
    #[error("cannot read {}: it is not UTF-8 text", public_path(.0))]
    NotText(PathBuf),
    /// An untrusted user could have written it.
    #[error("{} {why}", public_path(path))]
    Untrusted {
        /// The file or directory.
        path: PathBuf,
        /// The reason for the distrust.
        why: Distrust,
    },
    /// A signal arrived while waiting for standard input.
    #[error("interrupted by signal {0}")]
    Interrupted(u8),
}

impl InputError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// Whether the error only means that the file does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Opens a regular file, whoever may have written it.
pub fn open(path: &Path) -> Result<File, InputError> {
    open_trusted(path, &Trust::Anybody)
}

/// Opens a regular file that only trusted users can have written.
pub fn open_trusted(path: &Path, trust: &Trust) -> Result<File, InputError> {
    open_kind(path, trust, |kind| kind.is_file())
}

/// The metadata of a path named by the caller; a link at its end is followed. None if it does not
/// exist or cannot be read.
pub fn metadata(path: &Path) -> Option<Metadata> {
    path.metadata().ok()
}

/// Whether a path named by the caller is a link.
pub fn is_link(path: &Path) -> bool {
    path.is_symlink()
}

/// The path with its links resolved; unchanged if it does not exist.
pub fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// A directory entry and whether it is a directory; links are not followed.
#[derive(Debug)]
pub struct Entry {
    /// The file or directory.
    pub path: PathBuf,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// The entries of a directory named by the caller, in no order.
pub fn entries(directory: &Path) -> io::Result<Vec<Entry>> {
    let entry = |entry: io::Result<DirEntry>| {
        let entry = entry?;
        Ok(Entry {
            is_directory: entry.file_type()?.is_dir(),
            path: entry.path(),
        })
    };
    std::fs::read_dir(directory)?.map(entry).collect()
}

/// The same for a file or a directory; other kinds are refused too.
pub fn open_any(path: &Path, trust: &Trust) -> Result<File, InputError> {
    open_kind(path, trust, |kind| kind.is_file() || kind.is_dir())
}

/// Whether the user named a directory.
pub fn is_directory(path: &Path) -> bool {
    open_any(path, &Trust::Anybody)
        .is_ok_and(|file| file.metadata().is_ok_and(|meta| meta.is_dir()))
}

/// The kind is judged before the trust: to make a directory such as /tmp trusted would be bad
/// advice.
fn open_kind(
    path: &Path,
    trust: &Trust,
    is_meant: fn(FileType) -> bool,
) -> Result<File, InputError> {
    let file = match trust {
        Trust::Users(users)
            if rustix::process::geteuid().is_root() && !beneath::is_descriptor(path) =>
        {
            by_trusted_links(path, users)?
        }
        _ => opened(path).map_err(|e| unopened(path, e))?,
    };
    let kind = file.metadata().map_err(InputError::io(path))?.file_type();
    if !is_meant(kind) {
        return Err(InputError::Kind {
            path: path.to_owned(),
            kind: kind_of(kind),
        });
    }
    let judged = trust.judge(&file).map_err(InputError::io(path))?;
    judged.map_err(|why| InputError::Untrusted {
        path: path.to_owned(),
        why,
    })?;
    Ok(file)
}

fn opened(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}

/// Opens a path if each link on it belongs to one of these users: the owner of a link could point
/// it at any trusted file. A device is not opened.
fn by_trusted_links(path: &Path, users: &[u32]) -> Result<File, InputError> {
    let found = beneath::by_trusted_links(path, &|link| users.contains(&link.st_uid));
    let (place, missing) = found.map_err(|e| {
        match e
            .get_ref()
            .is_some_and(|inner| inner.is::<beneath::Misled>())
        {
            true => InputError::Link(path.to_owned()),
            false => InputError::io(path)(e),
        }
    })?;
    if missing.is_some() {
        return Err(InputError::io(path)(rustix::io::Errno::NOENT.into()));
    }
    let place = File::from(place);
    let kind = place.metadata().map_err(InputError::io(path))?.file_type();
    if !kind.is_file() && !kind.is_dir() {
        return Err(InputError::Kind {
            path: path.to_owned(),
            kind: kind_of(kind),
        });
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    beneath::reopen_named(place.as_fd(), path, flags)
        .map(File::from)
        .map_err(InputError::io(path))
}

/// Why a path could not be opened. Its current kind is used for the message only.
fn unopened(path: &Path, e: io::Error) -> InputError {
    match path.metadata() {
        Ok(meta) if !meta.is_file() && !meta.is_dir() => InputError::Kind {
            path: path.to_owned(),
            kind: kind_of(meta.file_type()),
        },
        _ => InputError::io(path)(e),
    }
}

fn kind_of(kind: std::fs::FileType) -> &'static str {
    match kind {
        k if k.is_dir() => "a directory",
        k if k.is_fifo() => "a pipe",
        k if k.is_socket() => "a socket",
        k if k.is_char_device() || k.is_block_device() => "a device",
        _ => "something else",
    }
}

/// Reads an open file, unless it is longer than `most` bytes.
pub fn bytes(file: File, path: &Path, most: u64) -> Result<Vec<u8>, InputError> {
    let length = file.metadata().map_err(InputError::io(path))?.len();
    let too_long = || InputError::TooLong {
        path: path.to_owned(),
        most,
    };
    if length > most {
        return Err(too_long());
    }
    limited(file, most)
        .map_err(InputError::io(path))?
        .ok_or_else(too_long)
}

/// The text of a file that only trusted users can have written.
pub fn text(path: &Path, most: u64, trust: &Trust) -> Result<String, InputError> {
    let bytes = bytes(open_trusted(path, trust)?, path, most)?;
    String::from_utf8(bytes).map_err(|_| InputError::NotText(path.to_owned()))
}

/// A path as messages name it.
fn named(path: &Path) -> &Path {
    if path == Path::new(STANDARD_INPUT) {
        Path::new("standard input")
    } else {
        path
    }
}

/// The text of a file that anybody may have written; `-` is standard input.
pub fn text_or_standard_input(path: &Path, most: u64) -> Result<String, InputError> {
    let name = named(path);
    String::from_utf8(bytes_or_standard_input(path, most)?)
        .map_err(|_| InputError::NotText(name.to_owned()))
}

/// The end of a text in which anything may be, from the beginning of a line on, and whether it is
/// not all of it. What is not UTF-8 is replaced. Of a text without an end, no more than [`MAX_LOG`]
/// bytes are read.
pub fn end_of_text(path: &Path, most: u64) -> Result<(String, bool), InputError> {
    let name = named(path);
    let failed =
        |e| interrupt::heard().map_or_else(|| InputError::io(name)(e), InputError::Interrupted);
    let (mut bytes, is_cut) = if path == Path::new(STANDARD_INPUT) {
        end_of(StandardInput, most).map_err(failed)?
    } else {
        let mut file = open(path)?;
        let skipped = file.metadata().map_err(failed)?.len().saturating_sub(most);
        file.seek(SeekFrom::Start(skipped)).map_err(failed)?;
        let (bytes, is_cut) = end_of(file, most).map_err(failed)?;
        (bytes, is_cut || skipped > 0)
    };
    if is_cut {
        let whole_lines = bytes
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        bytes.drain(..whole_lines);
    }
    Ok((text_in_place(bytes), is_cut))
}

/// The last `most` bytes, and whether there were more.
fn end_of(from: impl Read, most: u64) -> io::Result<(Vec<u8>, bool)> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let (mut from, mut end, mut block, mut is_cut) =
        (from.take(MAX_LOG), Vec::new(), vec![0; 64 << 10], false);
    loop {
        match from.read(&mut block)? {
            0 => break,
            n => end.extend_from_slice(&block[..n]),
        }
        if end.len() > 2 * most {
            end.drain(..end.len() - most);
            is_cut = true;
        }
    }
    is_cut |= end.len() > most || from.limit() == 0;
    end.drain(..end.len().saturating_sub(most));
    Ok((end, is_cut))
}

fn bytes_or_standard_input(path: &Path, most: u64) -> Result<Vec<u8>, InputError> {
    if path != Path::new(STANDARD_INPUT) {
        return bytes(open_trusted(path, &Trust::Anybody)?, path, most);
    }
    let name = Path::new("standard input");
    match limited(StandardInput, most) {
        Ok(bytes) => bytes.ok_or_else(|| InputError::TooLong {
            path: name.to_owned(),
            most,
        }),
        Err(e) => {
            Err(interrupt::heard().map_or_else(|| InputError::io(name)(e), InputError::Interrupted))
        }
    }
}

/// Reads one line of standard input.
pub fn line() -> io::Result<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    const MAX_TYPED_BYTES: usize = 4096;
    while line.len() < MAX_TYPED_BYTES && StandardInput.read(&mut byte)? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// The JSON text of a plan, of facts or of a lock file that only trusted users can have written.
pub fn json(path: &Path, trust: &Trust) -> Result<String, InputError> {
    light(text(path, MAX_JSON, trust)?, path)
}

/// The same of a file that anybody may have written; `-` is standard input.
pub fn json_or_standard_input(path: &Path) -> Result<String, InputError> {
    light(text_or_standard_input(path, MAX_JSON)?, named(path))
}

fn light(text: String, path: &Path) -> Result<String, InputError> {
    if is_light_json(text.as_bytes()) {
        Ok(text)
    } else {
        Err(InputError::TooManyValues(path.to_owned()))
    }
}

/// Reads all of a stream; none if it is longer than `most` bytes.
pub fn limited(from: impl Read, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// Standard input whose reads end when a handled signal arrives. Nothing beyond the requested bytes
/// is buffered.
struct StandardInput;

impl Read for StandardInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let input = io::stdin();
        wait(input.as_fd())?;
        Ok(rustix::io::retry_on_intr(|| {
            rustix::io::read(&input, &mut *buffer)
        })?)
    }
}

/// Waits until there is input, or its end.
fn wait(input: BorrowedFd<'_>) -> io::Result<()> {
    const STEP: Duration = Duration::from_millis(200);
    let step = Timespec::try_from(STEP).map_err(io::Error::other)?;
    loop {
        if interrupt::heard().is_some() {
            return Err(io::Error::other("interrupted"));
        }
        match poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&step)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
}
