//! Installers that come in a file and are run as root: from a folder that only root can look into,
//! as the very file that was verified, with nothing in their way that makes them crash.
//!
//! Between the check and the shell's last look at a runfile are minutes: makeself reads itself
//! piece by piece. A file that is root's and that nobody else may write cannot change in them, and
//! gets a second name in the folder, which no rename beside the first one can turn into something
//! else. Any other file is copied there, and it is the copy that is verified: whoever holds the
//! original open has nothing to do with that. (Running it by /proc/self/fd instead needs a /proc,
//! which an image that is being built may not have.)

use super::Verified;
use super::program::ProgramError;
use gpusetup_fetch::cache;
use gpusetup_system::trust::is_ours_alone;
use gpusetup_system::{Identity, System, copy_summed, digest};
use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

/// What toolkits' installers write their log to, whatever `TMPDIR` says; later ones only as a user.
/// One that they cannot open makes them crash, and in a folder that all may write to the kernel
/// lets not even root open another's file for writing (`fs.protected_regular`).
/// <https://github.com/easybuilders/easybuild-easyblocks/pull/1835>,
/// <https://github.com/conda-forge/cudatoolkit-dev-feedstock/issues/44>
const STALE_LOG: &str = "/tmp/cuda-installer.log";

/// The name of that folder, in the cache. It is emptied, so nobody else may have a use for the
/// name.
pub const RUN_FROM: &str = ".gpusetup-run";

/// The folder that a file of the cache is run from, beside those that the files are in.
pub(crate) fn folder(cached: &Path) -> PathBuf {
    cached
        .parent()
        .and_then(Path::parent)
        .unwrap_or(Path::new("/"))
        .join(RUN_FROM)
}

/// Files of the cache in the folder that they are run from, which goes with this.
pub(crate) struct Ready<'a> {
    on: &'a System,
    folder: PathBuf,
    files: Vec<Here>,
}

/// A verified file where it is run.
struct Here {
    verified: Verified,
    path: PathBuf,
    /// The file in the cache and what it was, where it is the same one.
    same: Option<(File, Identity)>,
}

/// Verifies the files, and puts them where they can be run; none where there are none.
pub(crate) fn ready<'a>(
    on: &'a System,
    verified: &[Verified],
) -> Result<Option<Ready<'a>>, ProgramError> {
    let Some(first) = verified.first() else {
        return Ok(None);
    };
    let mut ready = Ready {
        on,
        folder: folder(&first.path),
        files: Vec::new(),
    };
    let failed = |file: &Verified| {
        let program = file.path.display().to_string();
        move |source| ProgramError::Start { program, source }
    };
    ready.clear().map_err(failed(first))?;
    for file in verified {
        ready.add(file).map_err(|unfit| match unfit {
            Unfit::Io(source) => failed(file)(source),
            Unfit::Altered(found) => ProgramError::Altered {
                path: file.path.clone(),
                found,
                wanted: file.sha256.clone(),
            },
        })?;
    }
    no_stale_log(on).map_err(failed(first))?;
    Ok(Some(ready))
}

enum Unfit {
    Io(io::Error),
    Altered(String),
}

impl From<io::Error> for Unfit {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

impl Ready<'_> {
    /// The command with the files' paths as they are here.
    pub(crate) fn argv(&self, argv: &[String]) -> Vec<String> {
        let argv = argv.iter().map(|argument| {
            let mut files = self.files.iter();
            let file = files.find(|file| file.verified.path == Path::new(argument));
            file.map_or_else(|| argument.clone(), |file| file.path.display().to_string())
        });
        argv.collect()
    }

    /// Variables for installers: in other languages CUDA 10.1's crashes, and what is unpacked
    /// belongs here. <https://github.com/easybuilders/easybuild-easyconfigs/issues/10375>
    pub(crate) fn environment(&self) -> [(&'static str, String); 3] {
        let folder = self.folder.display().to_string();
        [
            ("LANG", "C".to_owned()),
            ("LC_ALL", "C".to_owned()),
            ("TMPDIR", folder),
        ]
    }

    /// An empty folder, root's alone.
    fn clear(&self) -> io::Result<()> {
        self.on.remove_tree(&self.folder)?;
        self.on.make_directories(&self.folder, 0o700).map(|_| ())
    }

    fn add(&mut self, file: &Verified) -> Result<(), Unfit> {
        let here = self.folder.join(file.path.file_name().unwrap_or_default());
        let open = self.on.open(&file.path)?;
        let meta = open.metadata()?;
        let same = match is_ours_alone(&meta) {
            true => self.second_name(file, &here, &open, &Identity::of(&meta))?,
            false => None,
        };
        if same.is_none() {
            self.copy(file, &here, &open)?;
        }
        let same = same.map(|identity| (open, identity));
        self.files.push(Here {
            verified: file.clone(),
            path: here,
            same,
        });
        Ok(())
    }

    /// A second name for a verified file, and what the file was before it got that; none where that
    /// cannot be.
    fn second_name(
        &self,
        file: &Verified,
        here: &Path,
        open: &File,
        before: &Identity,
    ) -> Result<Option<Identity>, Unfit> {
        if !cache::is_noted(self.on, &file.path, before, &file.sha256) {
            let found = digest(open)?;
            if found != file.sha256 {
                return Err(Unfit::Altered(found));
            }
        }
        let now = Identity::of(&open.metadata()?);
        let linked = now == *before && self.on.link_open(open, here)?;
        Ok(linked.then_some(now))
    }

    /// A copy, whose sum is made while it is written.
    fn copy(&self, file: &Verified, here: &Path, mut from: &File) -> Result<(), Unfit> {
        let mut to = self.on.create_new(here, 0o600)?;
        from.rewind()?;
        let found = copy_summed(from, &mut to)?;
        if found != file.sha256 {
            Err(Unfit::Altered(found))
        } else {
            Ok(())
        }
    }
}

impl Drop for Ready<'_> {
    fn drop(&mut self) {
        // What stays here is removed by the next run or a rollback.
        let _ = self.on.remove_tree(&self.folder);
        for Here { verified, same, .. } in &self.files {
            let Some((open, before)) = same else { continue };
            // Its second name came and went, which is a change to the kernel, and none of its
            // bytes.
            if let Some(now) = open
                .metadata()
                .ok()
                .map(|m| Identity::of(&m))
                .filter(|now| has_same_bytes(now, before))
            {
                let _ = cache::note_of(self.on, &verified.path, &verified.sha256, now);
            }
        }
    }
}

/// Whether a file has the bytes that it had, whatever became of its names.
fn has_same_bytes(now: &Identity, before: &Identity) -> bool {
    (now.device, now.inode, now.size, now.modified)
        == (before.device, before.inode, before.size, before.modified)
}

/// Takes away what an installer's log would stumble over. A link is removed, and never followed:
/// anybody may have put it there. There is no way back, which would have root read, and write, by a
/// name that is anybody's.
fn no_stale_log(on: &System) -> io::Result<()> {
    on.remove(STALE_LOG).map_err(|e| {
        let sentence =
            format!("{STALE_LOG} is in the way of the installer's log, and cannot be removed: {e}");
        io::Error::new(e.kind(), sentence)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Run;
    use gpusetup_database::sum::sha256;
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    const FILE: &str = "/var/cache/gpusetup/ab/x.run";

    /// A host with a runfile that says what it sees.
    fn host(mode: u32) -> (System, tempfile::TempDir, String) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        on.make_directories("/var/cache/gpusetup/ab", 0o700)
            .expect("made");
        on.make_directories("/tmp", 0o777).expect("made");
        let script = "echo $0 $LANG $TMPDIR; ls -ld $TMPDIR";
        on.write(FILE, script.as_bytes(), mode).expect("written");
        (on, dir, sha256(script))
    }

    fn verified(sum: &str) -> [Verified; 1] {
        [Verified {
            path: FILE.into(),
            sha256: sum.to_owned(),
        }]
    }

    fn inode(on: &System, path: &Path) -> u64 {
        on.identity(path).expect("there").inode
    }

    #[test]
    fn roots_own_file_is_run_under_another_name_and_stays_verified() {
        let (on, _dir, sum) = host(0o600);
        let ready = ready(&on, &verified(&sum))
            .expect("as it should be")
            .expect("one");
        let argv = ready.argv(&["sh".to_owned(), FILE.to_owned(), "--silent".to_owned()]);
        assert_eq!(
            argv,
            ["sh", "/var/cache/gpusetup/.gpusetup-run/x.run", "--silent"]
        );
        let here = Path::new(&argv[1]);
        assert_eq!(inode(&on, here), inode(&on, Path::new(FILE)));
        let mode = on
            .metadata("/var/cache/gpusetup/.gpusetup-run")
            .expect("there")
            .mode();
        assert_eq!(mode & 0o777, 0o700);
        // Another file in its place is no matter any more.
        on.write(FILE, b"evil", 0o600).expect("written");
        assert!(
            on.read_text(here)
                .expect("readable")
                .expect("there")
                .starts_with("echo")
        );
        drop(ready);
        assert!(!on.exists("/var/cache/gpusetup/.gpusetup-run"));
        let (on, _dir, sum) = host(0o600);
        drop(super::ready(&on, &verified(&sum)).expect("as it should be"));
        let now = on.identity(FILE).expect("there");
        assert!(
            cache::is_noted(&on, Path::new(FILE), &now, &sum),
            "not to be read again"
        );
    }

    #[test]
    fn a_file_that_others_may_write_is_copied() {
        let (on, _dir, sum) = host(0o666);
        cache::verified(&on, Path::new(FILE), &sum).expect("noted");
        let held = on.open_own(FILE, 0o666).expect("anybody's");
        let ready = ready(&on, &verified(&sum))
            .expect("as it should be")
            .expect("one");
        let here = PathBuf::from(&ready.argv(&[FILE.to_owned()])[0]);
        (&held).write_all(b"evil").expect("written");
        assert_ne!(inode(&on, &here), inode(&on, Path::new(FILE)));
        assert_eq!(sha256(on.read(&here).expect("there")), sum);
        drop(ready);
        let refused = super::ready(&on, &verified(&sum)).map(|_| ());
        assert!(
            matches!(refused, Err(ProgramError::Altered { .. })),
            "{refused:?}"
        );
        assert!(!on.exists("/var/cache/gpusetup/.gpusetup-run"));
    }

    #[test]
    fn an_altered_file_is_not_run() {
        let (on, _dir, _) = host(0o600);
        let run = Run::new(["sh", FILE], 10).executing(FILE.into(), sha256("other"));
        let refused = run.execute(&on, None, &mut |_| {});
        assert!(
            matches!(refused, Err(ProgramError::Altered { .. })),
            "{refused:?}"
        );
        assert!(!on.exists("/var/cache/gpusetup/.gpusetup-run"));
    }

    #[test]
    fn a_stale_log_goes_and_a_link_is_not_followed() {
        let (on, dir, sum) = host(0o600);
        let log = dir.path().join("tmp/cuda-installer.log");
        on.write("/tmp/somebodys", b"precious", 0o600)
            .expect("written");
        on.link("/tmp/cuda-installer.log", Path::new("somebodys"))
            .expect("linked");
        drop(ready(&on, &verified(&sum)).expect("nothing is in the way"));
        assert!(log.symlink_metadata().is_err() && on.exists("/tmp/somebodys"));
        fs::create_dir_all(log.join("x")).expect("made");
        let refused = ready(&on, &verified(&sum))
            .map(|_| ())
            .expect_err("it is in the way")
            .to_string();
        assert!(refused.contains(STALE_LOG), "{refused}");
    }

    #[test]
    fn it_sees_a_fixed_environment_and_a_folder_of_its_own() {
        let (on, dir, sum) = host(0o700);
        // The machine's own shell, on files of a tree: what a chroot would need is not in it.
        let ready = ready(&on, &verified(&sum))
            .expect("as it should be")
            .expect("one");
        let here = dir.path().join("var/cache/gpusetup/.gpusetup-run/x.run");
        let mut sh = std::process::Command::new("sh");
        sh.arg(&here)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .envs(ready.environment());
        let output = sh
            .env("TMPDIR", here.parent().expect("a folder"))
            .output()
            .expect("sh is everywhere");
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.contains(" C ") && output.contains("drwx------"),
            "{output}"
        );
        let folder = fs::Permissions::from_mode(0o700);
        assert_eq!(
            here.parent()
                .expect("a folder")
                .metadata()
                .expect("there")
                .permissions()
                .mode()
                & 0o777,
            folder.mode()
        );
    }
}
