//! The cache of downloads. Each file lies in a folder that is named by its content, so that all
//! plans share it and two mirrors' files of one name do not meet. Beside a file stands what it was
//! when it was last verified: as long as it is that, its bytes need not be read again.

use gpusetup_database::sum::is_short;
use gpusetup_system::{Identity, System, UNFINISHED, digest_of_file};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// Ends the name of the note beside a verified file.
const NOTE: &str = ".verified";
/// Ends the name of a download that has not come to its end.
pub const PART: &str = ".part";
/// Ends the name of the note beside such a download: where it came from.
pub const BEGUN: &str = ".begun";
/// Ends the name of what came and was not what it should be.
pub(crate) const REJECTED: &str = ".rejected";

/// The folder of what bundles brought that is no download: packages, for as long as an apply needs
/// them.
pub const BUNDLES: &str = ".bundles";
/// What is no file of its own.
const NOTES: [&str; 3] = [NOTE, BEGUN, UNFINISHED];

/// What a file was when it was verified.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    sha256: String,
    file: Identity,
    /// It may not have been on the disk yet: what is said counts as long as the machine is not
    /// booted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot: Option<String>,
}

/// The sum of a file's bytes, in lower-case hexadecimal: as it was noted, where the file is still
/// what it was then; else read, and noted where it is the one that is wanted.
pub fn sum(on: &System, path: &Path, wanted: &str) -> io::Result<String> {
    let file = on.identity(path)?;
    if is_noted(on, path, &file, wanted) {
        return Ok(wanted.to_owned());
    }
    let sum = digest_of_file(on.open(path)?)?;
    // Written to while it was read, it is neither what it was nor what it is.
    if sum == wanted && on.identity(path)? == file {
        // A folder that cannot be written costs the next one the reading, and no more.
        let _ = put(
            on,
            path,
            &Note {
                sha256: sum.clone(),
                file,
                boot: None,
            },
        );
    }
    Ok(sum)
}

/// Whether a file that is open is what it was when it was verified to have this sum.
pub fn is_noted(on: &System, path: &Path, file: &Identity, sha256: &str) -> bool {
    note(on, path).is_some_and(|note| note.file == *file && note.sha256 == sha256 && stands(&note))
}

/// Notes that this, which is open, was found to have this sum.
pub fn note_of(on: &System, path: &Path, sha256: &str, file: Identity) -> io::Result<()> {
    // What has not come to the disk before does not by being looked at.
    let boot = note(on, path).and_then(|note| note.boot);
    put(
        on,
        path,
        &Note {
            sha256: sha256.to_owned(),
            file,
            boot,
        },
    )
}

/// Notes that a file has just been found to have this sum.
pub fn verified(on: &System, path: &Path, sha256: &str) -> io::Result<()> {
    put(
        on,
        path,
        &Note {
            sha256: sha256.to_owned(),
            file: on.identity(path)?,
            boot: None,
        },
    )
}

/// Notes that a file that has just been written, and is on no disk yet perhaps, has this sum. The
/// bytes are brought to the disk by the system in its time: to wait for gigabytes of them would
/// take longer than to read them once more behind a power cut.
pub fn arrived(on: &System, path: &Path, sha256: &str, file: Identity) -> io::Result<()> {
    let boot =
        Some(boot().ok_or_else(|| io::Error::other("this machine does not tell its boots apart"))?);
    let text = serde_json::to_vec(&Note {
        sha256: sha256.to_owned(),
        file,
        boot,
    })?;
    on.write_soon(with_ending(path, NOTE), &text, 0o600)
}

fn stands(note: &Note) -> bool {
    note.boot.is_none() || note.boot == boot()
}

/// What the running kernel calls this boot: of this machine, whose memory it is, wherever the
/// host's root is.
fn boot() -> Option<String> {
    System::live()
        .read_text("/proc/sys/kernel/random/boot_id")
        .ok()
        .flatten()
}

fn put(on: &System, path: &Path, note: &Note) -> io::Result<()> {
    on.write(with_ending(path, NOTE), &serde_json::to_vec(note)?, 0o600)
}

fn note(on: &System, path: &Path) -> Option<Note> {
    let text = on.read_text(with_ending(path, NOTE)).ok()??;
    serde_json::from_str(&text).ok()
}

/// The file beside one.
pub fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

/// A file in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cached {
    /// The file or directory.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// What it is.
    pub state: State,
    /// The sum that it was verified to have; none where nobody did.
    pub sha256: Option<String>,
}

/// What a file in the cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Verified, and untouched since.
    Verified,
    /// Verified once, and touched since: it is read again before it is used.
    Touched,
    /// Nobody has verified it.
    Unknown,
    /// An incomplete download, which the next one resumes.
    Part,
    /// It came, and was not what it should be.
    Rejected,
}

/// All files of the cache, by name.
pub fn files(on: &System, cache: &Path) -> io::Result<Vec<Cached>> {
    let mut files = Vec::new();
    for folder in on.list(cache)? {
        // Whatever else lies there is somebody else's.
        if !is_short(&folder) {
            continue;
        }
        let folder = cache.join(folder);
        if !on.is_directory(&folder) {
            continue;
        }
        for name in on
            .list(&folder)?
            .into_iter()
            .filter(|name| !NOTES.iter().any(|note| name.ends_with(note)))
        {
            let path = folder.join(&name);
            let Ok(file) = on.identity(&path) else {
                continue;
            };
            let note = note(on, &path);
            let state = match &note {
                _ if name.ends_with(PART) => State::Part,
                _ if name.ends_with(REJECTED) => State::Rejected,
                Some(note) if note.file == file && stands(note) => State::Verified,
                Some(_) => State::Touched,
                None => State::Unknown,
            };
            files.push(Cached {
                path,
                size: file.size,
                state,
                sha256: note.map(|n| n.sha256),
            });
        }
    }
    Ok(files)
}

/// Removes a file and what belongs to it; its folder too, when that was the last.
pub fn remove(on: &System, path: &Path) -> io::Result<()> {
    on.remove(path)?;
    for note in [NOTE, BEGUN].map(|ending| with_ending(path, ending)) {
        on.remove_unfinished(&note)?;
        on.remove(note)?;
    }
    match path.parent().map(|folder| on.remove(folder)) {
        Some(Err(e)) if e.kind() != io::ErrorKind::DirectoryNotEmpty => Err(e),
        _ => Ok(()),
    }
}

/// Whether a verified file's bytes are still those that were verified, by reading them all. What is
/// not is set aside, where nothing takes it for what it was.
pub fn reads_well(on: &System, file: &Cached) -> io::Result<bool> {
    let Some(wanted) = &file.sha256 else {
        return Ok(true);
    };
    let sum = match digest_of_file(on.open(&file.path)?) {
        // After a power cut a file may have its length and none of its bytes.
        Err(e) if e.kind() == io::ErrorKind::InvalidData => None,
        sum => Some(sum?),
    };
    if sum.as_ref() == Some(wanted) {
        verified(on, &file.path, wanted)?;
        return Ok(true);
    }
    on.rename(&file.path, with_ending(&file.path, REJECTED))?;
    on.remove(with_ending(&file.path, NOTE))?;
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_database::sum::sha256;
    use std::io::Write;

    const CACHE: &str = "/var/cache/gpusetup";
    const FILE: &str = "/var/cache/gpusetup/0123456789abcdef/x.run";

    fn host(text: &str) -> (System, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        on.make_directories("/var/cache/gpusetup/0123456789abcdef", 0o700)
            .expect("made");
        on.write(FILE, text.as_bytes(), 0o600).expect("written");
        (on, dir)
    }

    fn states(on: &System) -> Vec<(String, State)> {
        let name = |f: &Cached| {
            f.path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        files(on, Path::new(CACHE))
            .expect("listed")
            .iter()
            .map(|f| (name(f), f.state))
            .collect()
    }

    /// Writes to a file in place, as nobody should.
    fn touch(on: &System, bytes: &[u8]) {
        let mut file = on.open_own(FILE, 0o600).expect("there");
        file.write_all(bytes).expect("written");
    }

    #[test]
    fn what_was_verified_and_not_touched_is_not_read_again() {
        let (on, _dir) = host("good");
        let good = sha256("good");
        assert_eq!(states(&on), [("x.run".to_owned(), State::Unknown)]);
        assert_eq!(sum(&on, Path::new(FILE), &good).expect("read"), good);
        assert_eq!(states(&on), [("x.run".to_owned(), State::Verified)]);
        // The note is what is believed: with another sum in it, that is what is said.
        let note = on
            .read_text("/var/cache/gpusetup/0123456789abcdef/x.run.verified")
            .expect("read")
            .expect("there");
        let other = sha256("other");
        on.write(
            "/var/cache/gpusetup/0123456789abcdef/x.run.verified",
            note.replace(&good, &other).as_bytes(),
            0o600,
        )
        .expect("written");
        assert_eq!(sum(&on, Path::new(FILE), &other).expect("not read"), other);
    }

    #[test]
    fn what_was_touched_is_read_again() {
        let (on, _dir) = host("good");
        let good = sha256("good");
        verified(&on, Path::new(FILE), &good).expect("noted");
        // As long as before, and at once.
        touch(&on, b"evil");
        assert_eq!(states(&on), [("x.run".to_owned(), State::Touched)]);
        assert_eq!(
            sum(&on, Path::new(FILE), &good).expect("read"),
            sha256("evil")
        );
        touch(&on, b"good");
        assert_eq!(sum(&on, Path::new(FILE), &good).expect("read"), good);
        assert_eq!(states(&on), [("x.run".to_owned(), State::Verified)]);
    }

    #[test]
    fn what_may_not_have_come_to_the_disk_is_read_again_behind_a_boot() {
        let (on, _dir) = host("good");
        let good = sha256("good");
        arrived(
            &on,
            Path::new(FILE),
            &good,
            on.identity(FILE).expect("there"),
        )
        .expect("noted");
        assert_eq!(states(&on), [("x.run".to_owned(), State::Verified)]);
        let path = "/var/cache/gpusetup/0123456789abcdef/x.run.verified";
        let note = on.read_text(path).expect("read").expect("there");
        let earlier = note.replace(boot().expect("Linux").trim(), "of-another-boot");
        assert_ne!(earlier, note);
        on.write(path, earlier.as_bytes(), 0o600).expect("written");
        assert_eq!(states(&on), [("x.run".to_owned(), State::Touched)]);
        assert_eq!(sum(&on, Path::new(FILE), &good).expect("read"), good);
        assert_eq!(states(&on), [("x.run".to_owned(), State::Verified)]);
    }

    #[test]
    fn a_file_whose_bytes_have_changed_is_set_aside() {
        let (on, _dir) = host("good");
        verified(&on, Path::new(FILE), &sha256("good")).expect("noted");
        let all = files(&on, Path::new(CACHE)).expect("listed");
        assert!(reads_well(&on, &all[0]).expect("read"));
        touch(&on, b"evil");
        assert!(!reads_well(&on, &all[0]).expect("read"));
        assert_eq!(
            states(&on),
            [("x.run.rejected".to_owned(), State::Rejected)]
        );
        remove(
            &on,
            Path::new("/var/cache/gpusetup/0123456789abcdef/x.run.rejected"),
        )
        .expect("removed");
        assert!(
            on.list(CACHE).expect("listed").is_empty(),
            "its folder goes with the last"
        );
    }
}
