//! Disk space kept for the way out. A full disk stops an apply at any write, and rolling back needs
//! to write too: journal records, `result.json`, the files that are restored. A file of that size
//! is made before the first change; failing and rolling back remove it first.

use super::Failure;
use gpusetup_operation::{CopyFile, EditFile, Operation, Remove, Run, WriteFile};
use gpusetup_plan::{Act, Plan};
use gpusetup_system::System;
use gpusetup_text::paths::RESERVE;
use gpusetup_text::text::bytes;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// For `result.json`, twice, and for the records that open and close a rollback.
const RESULTS: u64 = 256 << 10;
/// For the journal's records of one operation: that it failed, and that it was rolled back.
const RECORDS: u64 = 4 << 10;
/// For a package manager, which rewrites its database to remove a package.
const PACKAGES: u64 = 16 << 20;

/// How many bytes a rollback of this plan may have to write on the file system of the reserve.
/// Files are restored one after another, and each takes the place of one that gpusetup wrote: only
/// the largest needs room for a moment.
pub(crate) fn size(on: &System, plan: &Plan) -> u64 {
    let acts: Vec<_> = plan.acts().filter(|act| !act.satisfied).collect();
    let restored = acts
        .iter()
        .flat_map(|act| replaced(&act.operation))
        .chain(images(&acts, plan));
    let restored: BTreeSet<_> = restored.filter(|path| is_beside(on, path)).collect();
    let largest = restored
        .iter()
        .map(|path| on.identity(path).map_or(0, |file| file.size))
        .max()
        .unwrap_or_default();
    let packages = acts
        .iter()
        .any(|act| matches!(act.operation, Operation::Packages(_)));
    let packages = if packages && is_beside(on, Path::new("/var/lib")) {
        PACKAGES
    } else {
        0
    };
    RESULTS + RECORDS * acts.len() as u64 + largest + packages
}

/// The files that undoing an operation writes again.
fn replaced(operation: &Operation) -> Vec<PathBuf> {
    match operation {
        Operation::WriteFile(WriteFile { path, .. })
        | Operation::CopyFile(CopyFile { path, .. })
        | Operation::EditFile(EditFile { path, .. })
        | Operation::Remove(Remove { path }) => vec![path.clone()],
        Operation::Run(Run { changes, .. }) => changes.clone(),
        _ => Vec::new(),
    }
}

/// The images that a package manager makes again when it removes a driver's packages.
fn images(acts: &[&Act], plan: &Plan) -> Vec<PathBuf> {
    if !acts
        .iter()
        .any(|act| matches!(act.operation, Operation::Packages(_)))
    {
        return Vec::new();
    }
    plan.host
        .kernels
        .installed
        .iter()
        .filter_map(|kernel| Some(kernel.initramfs.as_ref()?.path.clone()))
        .collect()
}

/// Whether a path is on the file system that the reserve is on.
fn is_beside(on: &System, path: &Path) -> bool {
    let [ours, reserve] = [path, Path::new(RESERVE)].map(|path| on.space(path).ok());
    ours.map(|space| space.file_system) == reserve.map(|space| space.file_system)
}

/// Makes the reserve for a plan that is about to be carried out.
pub(crate) fn create(on: &System, plan: &Plan) -> Result<(), Failure> {
    let size = size(on, plan);
    // An earlier run of this plan may have left its own, before a reboot.
    release(on);
    if let Some(folder) = Path::new(RESERVE).parent() {
        on.make_directories(folder, 0o700)
            .map_err(|e| failed(&e, size))?;
    }
    on.create_new(RESERVE, 0o600)
        .and_then(|file| fill(file, size))
        .map_err(|e| {
            release(on);
            failed(&e, size)
        })
}

/// Allocates the space with `fallocate`, or writes the file where the file system does not support
/// that (ZFS, NFS 3). It does not wait for the disk: the file system counts written bytes at once.
fn fill(mut file: File, size: u64) -> io::Result<()> {
    match fallocate(&file, FallocateFlags::empty(), 0, size) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            io::copy(&mut Noise.take(size), &mut file).map(|_| ())
        }
        done => Ok(done?),
    }
}

fn failed(why: &io::Error, size: u64) -> Failure {
    Failure::Blocked(format!(
        "cannot reserve {} in {RESERVE}, which a rollback may need: {why}; make room and try again: du -xh --max-depth=2 /var",
        bytes(size)
    ))
}

/// Gives the space back, for whoever is on the way out or has come to the end. A reserve that
/// cannot be removed is no reason not to try.
pub(crate) fn release(on: &System) {
    let _ = on.remove(RESERVE);
}

/// Random bytes without end: a file system that compresses cannot store them in fewer.
struct Noise;

impl Read for Noise {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(getrandom(buffer, GetRandomFlags::empty())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RollbackScope, RunConfig, apply, rollback};
    use gpusetup_operation::Link;
    use gpusetup_operation::Reboot;
    use gpusetup_plan::sample::plan_of;

    fn host() -> (System, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        for folder in ["/etc", "/var/lib", "/var/log"] {
            on.make_directories(folder, 0o755).expect("made");
        }
        (on, dir)
    }

    fn file(path: &str) -> Operation {
        Operation::WriteFile(WriteFile {
            path: path.into(),
            content: "ours\n".into(),
            mode: 0o644,
            merged_from: None,
        })
    }

    #[test]
    fn the_largest_file_that_is_restored_fits() {
        let (on, _dir) = host();
        let small = size(&on, &plan_of(vec![file("/etc/a"), file("/etc/b")]));
        assert_eq!(small, RESULTS + 2 * RECORDS);
        on.write("/etc/a", &[b'a'; 9000], 0o644).expect("written");
        on.write("/etc/b", &[b'b'; 3000], 0o644).expect("written");
        assert_eq!(
            size(&on, &plan_of(vec![file("/etc/a"), file("/etc/b")])),
            small + 9000
        );
    }

    #[test]
    fn noise_cannot_be_compressed() {
        let mut noise = Vec::new();
        Noise
            .take(100_000)
            .read_to_end(&mut noise)
            .expect("the kernel has it");
        let packed = zstd::encode_all(&noise[..], 3).expect("packed");
        assert!(
            noise.len() == 100_000 && packed.len() >= noise.len(),
            "{}",
            packed.len()
        );
    }

    #[test]
    fn it_stands_while_an_apply_is_open_and_no_longer() {
        let (on, _dir) = host();
        let plan = plan_of(vec![file("/etc/a"), Operation::Reboot(Reboot::default())]);
        let needed = size(&on, &plan);
        apply(&on, &plan, RunConfig::default(), &mut |_| {}).expect("so far");
        assert_eq!(on.read(RESERVE).expect("it stands").len() as u64, needed);
        rollback(&on, RollbackScope::Last, &mut |_| {}).expect("rolled back");
        assert!(!on.exists(RESERVE));
        apply(
            &on,
            &plan_of(vec![file("/etc/a")]),
            RunConfig::default(),
            &mut |_| {},
        )
        .expect("to its end");
        assert!(!on.exists(RESERVE));
        let refused = Operation::Link(Link {
            path: "/etc/x".into(),
            target: "y".into(),
            soname: Some("libx.so.1".into()),
        });
        apply(
            &on,
            &plan_of(vec![file("/etc/b"), refused]),
            RunConfig::default(),
            &mut |_| {},
        )
        .expect_err("it fails");
        assert!(!on.exists(RESERVE));
    }
}
