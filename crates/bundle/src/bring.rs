//! Bringing what a plan needs of a bundle to where it is needed, each file read once and checked
//! against its checksum on the way. Nothing is used in the bundle itself: whoever owns the medium
//! could change it after it was looked at.

use super::form::{self, BundleStorage};
use super::manifest::{DATABASE, Entry, Manifest, PACKAGES, PLANS, artifact};
use super::{Bundle, BundleError};
use gpusetup_fetch::cache;
use gpusetup_host::SystemId;
use gpusetup_operation::{Download, Operation};
use gpusetup_packages::of;
use gpusetup_plan::Plan;
use gpusetup_system::trust::is_ours_alone;
use gpusetup_system::{System, digest};
use rustix::fs::ioctl_ficlone;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// No plan and no database is longer, in bytes, and together they are not much longer.
const MAX_SMALL_BYTES: u64 = 64 << 20;
const MAX_TOTAL_BYTES: u64 = 256 << 20;

/// What is needed before a plan is chosen: the plans and the database.
pub(crate) fn small(
    form: &BundleStorage,
    manifest: &Manifest,
) -> Result<BTreeMap<String, Vec<u8>>, BundleError> {
    let mut small = BTreeMap::new();
    let mut take = |name: &str, entry: &Entry, bytes: &mut dyn Read| {
        let mut text = Vec::new();
        let came = form::copy(
            bytes,
            &mut text,
            entry.size.min(MAX_SMALL_BYTES),
            &mut |_| {},
        )?;
        if !entry.is(&came) {
            return Err(BundleError::Altered(vec![name.to_owned()]));
        }
        small.insert(name.to_owned(), text);
        Ok(())
    };
    let missing: Vec<_> = manifest
        .files
        .iter()
        .filter(|(name, _)| is_small(name))
        .collect();
    if missing
        .iter()
        .map(|(_, entry)| entry.size.min(MAX_SMALL_BYTES))
        .sum::<u64>()
        > MAX_TOTAL_BYTES
    {
        return Err(BundleError::TooLarge);
    }
    match form {
        BundleStorage::Folder(folder) => {
            for (name, entry) in missing {
                let mut file = folder
                    .open(name)
                    .map_err(|_| BundleError::Altered(vec![name.clone()]))?;
                take(name, entry, &mut file)?;
            }
        }
        BundleStorage::Archive(archive) => {
            let mut left = missing.len();
            form::first(archive, &mut |name, bytes| {
                // They come first: the rest need not be read for them.
                let Some(entry) = manifest.files.get(name).filter(|_| is_small(name)) else {
                    return Ok(left > 0);
                };
                take(name, entry, bytes)?;
                left -= 1;
                Ok(left > 0)
            })?;
            let lost: Vec<_> = missing
                .iter()
                .map(|(name, _)| (*name).clone())
                .filter(|n| !small.contains_key(n))
                .collect();
            if !lost.is_empty() {
                return Err(BundleError::Altered(lost));
            }
        }
    }
    Ok(small)
}

/// What is to be brought: for each file of a bundle, where to on the host.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FilesToBring {
    files: BTreeMap<String, PathBuf>,
}

impl FilesToBring {
    /// What a plan needs on this host and does not have yet.
    fn of(bundle: &Bundle, on: &System, plan: &Plan) -> Self {
        let mut files = BTreeMap::new();
        for act in plan.acts().filter(|a| !a.satisfied) {
            let Operation::Download(Download { sha256, to, .. }) = &act.operation else {
                continue;
            };
            let name = artifact(
                sha256,
                &to.file_name().unwrap_or_default().to_string_lossy(),
            );
            if bundle
                .manifest
                .files
                .get(&name)
                .is_some_and(|e| e.sha256 == *sha256 && !is_cached(on, to, e))
            {
                files.insert(name, to.clone());
            }
        }
        if let Some(repository) = bundle.repository(plan) {
            let folder = bundle.folder(&plan.request.cache);
            for (name, entry) in &bundle.manifest.files {
                let Some(file) = name
                    .strip_prefix(&repository.folder)
                    .and_then(|f| f.strip_prefix('/'))
                else {
                    continue;
                };
                let to = folder.join(file);
                if !is_cached(on, &to, entry) {
                    files.insert(name.clone(), to);
                }
            }
        }
        Self { files }
    }
}

impl Bundle {
    /// The repository that a plan installs from, where it installs packages at all.
    pub(super) fn repository(&self, plan: &Plan) -> Option<&super::Repository> {
        if plan.packages().any(|wanted| !wanted.install.is_empty()) {
            self.manifest.repository(&SystemId::of(&plan.host))
        } else {
            None
        }
    }

    /// Brings what a plan needs: artifacts to where downloads go, packages into a private folder of
    /// the cache. `tell` hears the bytes that have come, and of how many.
    pub fn bring(
        &self,
        on: &System,
        plan: &Plan,
        tell: &mut dyn FnMut(u64, u64),
    ) -> Result<(), BundleError> {
        let wanted = FilesToBring::of(self, on, plan);
        let entries = &self.manifest.files;
        let sizes = wanted.files.keys().filter_map(|name| entries.get(name));
        let all = sizes.map(|entry| entry.size).sum();
        let mut before = 0;
        let mut take = |name: &str, from: From| -> Result<(), BundleError> {
            let (Some(entry), Some(to)) = (entries.get(name), wanted.files.get(name)) else {
                return Ok(());
            };
            place(on, name, from, entry, to, &mut |have| {
                tell(before + have, all)
            })?;
            before += entry.size;
            tell(before, all);
            Ok(())
        };
        match &self.form {
            BundleStorage::Folder(folder) => {
                for name in wanted.files.keys() {
                    let file = folder
                        .open(name)
                        .map_err(|_| BundleError::Altered(vec![name.clone()]))?;
                    take(name, From::File(file))?;
                }
            }
            BundleStorage::Archive(_) if wanted.files.is_empty() => {}
            BundleStorage::Archive(archive) => {
                let mut lost: std::collections::BTreeSet<_> =
                    wanted.files.keys().cloned().collect();
                form::first(archive, &mut |name, bytes| {
                    take(name, From::Stream(bytes))?;
                    lost.remove(name);
                    Ok(!lost.is_empty())
                })?;
                if !lost.is_empty() {
                    return Err(BundleError::Altered(lost.into_iter().collect()));
                }
            }
        }
        self.put_folder_files(on, plan)
    }

    /// What the manager needs beside the packages.
    fn put_folder_files(&self, on: &System, plan: &Plan) -> Result<(), BundleError> {
        let files = self
            .repository(plan)
            .and_then(|repository| of(repository.manager).folder_files.as_ref());
        let Some(files) = files else { return Ok(()) };
        let folder = self.folder(&plan.request.cache);
        for own in files.folders {
            on.make_directories(folder.join(own), 0o700)
                .map_err(BundleError::io(&folder))?;
        }
        let path = folder.join(files.source);
        on.write(&path, (files.text)(&folder).as_bytes(), 0o600)
            .map_err(BundleError::io(&path))
    }
}

enum From<'a> {
    /// An open file, and its path.
    File(File),
    Stream(&'a mut dyn Read),
}

/// Puts a file of a bundle at `to`, or nothing.
fn place(
    on: &System,
    name: &str,
    from: From,
    entry: &Entry,
    to: &Path,
    tell: &mut dyn FnMut(u64),
) -> Result<(), BundleError> {
    let folder = to.parent().unwrap_or(Path::new("/"));
    // Private: what is installed from there must not be anybody else's to change.
    on.make_directories(folder, 0o700)
        .map_err(BundleError::io(folder))?;
    let new = cache::with_ending(to, cache::PART);
    // What a transfer that broke off has left, with its note.
    for old in [&new, &cache::with_ending(&new, cache::BEGUN)] {
        on.remove_tree(old).map_err(BundleError::io(old))?;
    }
    // Downloads are read once more behind a power cut; a package that is torn then would only fail
    // to install.
    let durable = name.starts_with(PACKAGES);
    let came = match from {
        From::File(mut file) => {
            if shared(on, &file, &new).map_err(BundleError::io(&new))? {
                let file = on.open(&new).map_err(BundleError::io(&new))?;
                let size = file.metadata().map_err(BundleError::io(&new))?.len();
                (digest(file).map_err(BundleError::Read)?, size)
            } else {
                written(on, &mut file, &new, entry.size, durable, tell)?
            }
        }
        From::Stream(bytes) => written(on, bytes, &new, entry.size, durable, tell)?,
    };
    if !entry.is(&came) {
        on.remove(&new).map_err(BundleError::io(&new))?;
        return Err(BundleError::Altered(vec![name.to_owned()]));
    }
    on.rename(&new, to).map_err(BundleError::io(to))?;
    // A disk that has no room for the note costs a reading of the file, and no more.
    let _ = on
        .identity(to)
        .and_then(|file| cache::arrived(on, to, &entry.sha256, file));
    Ok(())
}

fn written(
    on: &System,
    from: &mut dyn Read,
    new: &Path,
    size: u64,
    durable: bool,
    tell: &mut dyn FnMut(u64),
) -> Result<(String, u64), BundleError> {
    let mut out = on.create_new(new, 0o600).map_err(BundleError::io(new))?;
    let came = form::copy(from, &mut out, size, tell)?;
    if durable {
        out.sync_all().map_err(BundleError::io(new))?;
    }
    Ok(came)
}

/// Whether the file system could share the bytes of a file: by a link where nobody but root (or
/// whoever runs this) can write to it, else by a copy on write, where it knows that.
fn shared(on: &System, file: &File, new: &Path) -> io::Result<bool> {
    if is_ours_alone(&file.metadata()?) && on.link_open(file, new)? {
        return Ok(true);
    }
    let out = on.create_new(new, 0o600)?;
    if ioctl_ficlone(&out, file).is_ok() {
        return Ok(true);
    }
    on.remove(new)?;
    Ok(false)
}

/// Whether a file is one of those that are read at once: the database, and the plans.
fn is_small(name: &str) -> bool {
    name == DATABASE || name.starts_with(PLANS) && name[PLANS.len()..].starts_with('/')
}

fn is_cached(on: &System, to: &Path, entry: &Entry) -> bool {
    cache::sum(on, to, &entry.sha256).is_ok_and(|sum| sum == entry.sha256)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_database::sum::sha256;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    const TO: &str = "/var/cache/gpusetup/ab/x.run";

    /// A file of a bundle, with this mode, and what it is said to be.
    fn bundled(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf, Entry) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("x.run");
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
        (
            dir,
            path,
            Entry {
                size: 4,
                sha256: sha256("good"),
            },
        )
    }

    fn bring(from: From, entry: &Entry) -> (Result<(), BundleError>, System, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        let brought = place(
            &on,
            "artifacts/ab/x.run",
            from,
            entry,
            Path::new(TO),
            &mut |_| {},
        );
        (brought, on, dir)
    }

    #[test]
    fn what_nobody_else_can_write_to_is_shared_and_all_else_is_copied() {
        for (mode, is_shared) in [(0o644, true), (0o664, false), (0o646, false)] {
            let (_bundle, path, entry) = bundled("good", mode);
            let (brought, on, _dir) = bring(From::File(File::open(&path).expect("there")), &entry);
            brought.expect("brought");
            let inode = |path: &Path| path.metadata().expect("there").ino();
            assert_eq!(
                on.identity(TO).expect("there").inode == inode(&path),
                is_shared,
                "{mode:o}"
            );
            assert_eq!(on.read(TO).expect("read"), b"good");
            assert_eq!(
                on.list("/var/cache/gpusetup/ab").expect("listed"),
                ["x.run", "x.run.verified"]
            );
        }
    }

    #[test]
    fn what_is_not_what_the_manifest_says_is_not_brought() {
        let (_bundle, path, entry) = bundled("evil", 0o644);
        let longer = &mut &b"good and more"[..];
        let shorter = &mut &b"goo"[..];
        let file = File::open(&path).expect("there");
        for from in [
            From::File(file),
            From::Stream(longer),
            From::Stream(shorter),
        ] {
            let (brought, on, _dir) = bring(from, &entry);
            assert!(
                matches!(&brought, Err(BundleError::Altered(names)) if names == &["artifacts/ab/x.run"]),
                "{brought:?}"
            );
            assert!(
                on.list("/var/cache/gpusetup/ab")
                    .expect("listed")
                    .is_empty(),
                "nothing half is left"
            );
        }
    }
}
