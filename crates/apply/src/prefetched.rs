//! Archives that are unpacked while they arrive: network, decompression and disk work at the same
//! time. What is unpacked lies in a staging folder that nobody looks into, is in the journal before
//! it is there, and moves into its place when its step's turn has come; before that, everything was
//! fetched and verified.

use super::Failure;
use super::boot::boot_id;
use super::journal::{At, Event, Journal};
use gpusetup_fetch::{Arriving, FetchError, FetchRequest};
use gpusetup_operation::undo::Undo;
use gpusetup_operation::unpack::{self, Staged, UnpackError};
use gpusetup_operation::{Limit, Operation, Placement, Unpack};
use gpusetup_plan::Plan;
use gpusetup_system::System;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;

/// What is unpacked already, and in which folder.
#[derive(Debug, Default)]
pub(crate) struct Prefetched(BTreeMap<At, (PathBuf, Staged)>);

/// The unpacking of a file that is still to come.
struct UnpackJob<'a> {
    at: At,
    archive: &'a Path,
    sha256: &'a str,
    into: &'a [Placement],
    limit: Option<Limit>,
}

impl Prefetched {
    /// Fetches a file, and unpacks it meanwhile where that is what it is fetched for.
    pub(crate) fn fetch(
        &mut self,
        on: &System,
        journal: &mut Journal,
        plan: &Plan,
        wanted: &FetchRequest,
        fetch: impl FnOnce(Option<&Arriving>) -> Result<(), FetchError>,
    ) -> Result<Result<(), FetchError>, Failure> {
        let Some(job) = job(plan, wanted.to) else {
            return Ok(fetch(None));
        };
        let staging = unpack::staging(on, job.sha256, job.into);
        let undo = vec![Undo::Tree {
            path: staging.clone(),
        }];
        journal.note(
            on,
            Event::Intent {
                at: job.at,
                undo,
                boot: boot_id(on),
            },
        )?;
        let arriving = Arriving::default();
        let (fetched, unpacked) = thread::scope(|scope| {
            let (reader, staging) = (arriving.reader(), &staging);
            let unpacking = scope.spawn(move || {
                unpack::stage_from(
                    on,
                    job.archive,
                    reader,
                    wanted.size,
                    job.into,
                    job.limit,
                    staging,
                )
            });
            let fetched = fetch(Some(&arriving));
            // It knows no more than this; whoever waits for more is told.
            arriving.abandon();
            (fetched, unpacking.join())
        });
        match (&fetched, unpacked) {
            (Ok(()), Ok(Ok(staged))) => drop(self.0.insert(job.at, (staging, staged))),
            // What is wrong with it will not get better.
            (Ok(()), Ok(Err(refused @ UnpackError::Refused { .. }))) => return Err(refused.into()),
            // A download that began again, a full disk: it is unpacked from the cache when its turn
            // has come.
            _ => {}
        }
        Ok(fetched)
    }

    /// What was unpacked for an operation, and the folder that it is in.
    pub(crate) fn take(&mut self, at: At) -> Option<(PathBuf, Staged)> {
        self.0.remove(&at)
    }
}

/// The unpacking that a file is fetched for. After a reboot nothing of this run is left.
fn job<'a>(plan: &'a Plan, file: &Path) -> Option<UnpackJob<'a>> {
    let all = plan.steps.iter().enumerate().flat_map(|(s, step)| {
        step.operations
            .iter()
            .enumerate()
            .map(move |(o, act)| ((s, o), act))
    });
    let mut before_a_reboot =
        all.take_while(|(_, act)| !matches!(act.operation, Operation::Reboot(_)));
    before_a_reboot.find_map(|(at, act)| match &act.operation {
        Operation::Unpack(Unpack {
            archive,
            sha256,
            into,
            limit,
        }) if archive == file && !act.satisfied => Some(UnpackJob {
            at,
            archive,
            sha256,
            into,
            limit: *limit,
        }),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{News, RollbackScope, RunConfig, apply, rollback};
    use gpusetup_database::sum::sha256;
    use gpusetup_operation::Download;
    use gpusetup_operation::Link;
    use gpusetup_operation::Reboot;
    use gpusetup_operation::WriteFile;
    use gpusetup_plan::sample::plan_of;
    use std::io::Write;

    const LIB: &str = "/usr/local/cuda-12.8/lib64";

    /// A host, and the archive of one library that is published at a place of the machine.
    struct Bench {
        on: System,
        published: tempfile::NamedTempFile,
        sum: String,
        _dir: tempfile::TempDir,
    }

    fn bench(name: &str) -> Bench {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        for folder in ["/etc", "/var/lib", "/var/log", "/usr/local"] {
            on.make_directories(folder, 0o755).expect("made");
        }
        let mut tar = tar::Builder::new(liblzma::write::XzEncoder::new(Vec::new(), 1));
        let mut header = tar::Header::new_gnu();
        header.set_size(7);
        header.set_mode(0o644);
        header.set_entry_type(if name == "device" {
            tar::EntryType::Fifo
        } else {
            tar::EntryType::Regular
        });
        tar.append_data(&mut header, format!("x/lib/{name}"), &b"library"[..])
            .expect("appended");
        let packed = tar
            .into_inner()
            .and_then(liblzma::write::XzEncoder::finish)
            .expect("packed");
        let mut published = tempfile::NamedTempFile::new().expect("a temporary file");
        published.write_all(&packed).expect("written");
        Bench {
            on,
            published,
            sum: sha256(packed),
            _dir: dir,
        }
    }

    impl Bench {
        /// A file, the archive, and what comes behind it.
        fn plan(&self, last: Operation) -> Plan {
            let archive = PathBuf::from("/var/cache/gpusetup/ab/a.tar.xz");
            let url = format!("file://{}", self.published.path().display());
            let download = Operation::Download(Download {
                url,
                sha256: self.sum.clone(),
                size: None,
                to: archive.clone(),
            });
            let into = vec![Placement {
                from: "lib".into(),
                to: LIB.into(),
            }];
            let unpack = Operation::Unpack(Unpack {
                archive,
                sha256: self.sum.clone(),
                into,
                limit: None,
            });
            plan_of(vec![download, file("/etc/first"), last, unpack])
        }

        /// What is left of any unpacking.
        fn remains(&self) -> Vec<String> {
            self.on
                .list("/usr/local")
                .expect("listed")
                .into_iter()
                .filter(|n| n.contains("gpusetup"))
                .collect()
        }

        /// How an apply goes, and what of it is unpacked ahead before its first change.
        fn applied(&self, last: Operation) -> (Result<(), Failure>, bool) {
            let mut is_prefetched = false;
            let applied = apply(
                &self.on,
                &self.plan(last),
                RunConfig::default(),
                &mut |news| {
                    if matches!(news, News::Step(_)) {
                        is_prefetched = !self.remains().is_empty();
                    }
                },
            );
            (applied.map(|_| ()), is_prefetched)
        }
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
    fn an_archive_is_unpacked_before_its_turn_and_moved_in_when_that_comes() {
        let bench = bench("libx.so");
        let (applied, is_prefetched) = bench.applied(file("/etc/second"));
        applied.expect("a good plan");
        assert!(is_prefetched, "not unpacked while it was fetched");
        assert_eq!(bench.on.list(LIB).expect("listed"), ["libx.so"]);
        assert_eq!(bench.remains(), [""; 0]);
        rollback(&bench.on, RollbackScope::Last, &mut |_| {}).expect("rolled back");
        assert_eq!(bench.on.list("/usr/local").expect("listed"), [""; 0]);
    }

    #[test]
    fn an_archive_that_is_refused_is_so_before_the_first_change() {
        let bench = bench("device");
        let (applied, _) = bench.applied(file("/etc/second"));
        assert!(matches!(applied, Err(Failure::Integrity(_))), "{applied:?}");
        assert!(!bench.on.exists("/etc/first"));
        assert_eq!(bench.remains(), [""; 0]);
    }

    #[test]
    fn a_step_before_it_that_fails_leaves_nothing_of_it() {
        let bench = bench("libx.so");
        let link = Operation::Link(Link {
            path: "/etc/x".into(),
            target: "y".into(),
            soname: Some("libx.so.1".into()),
        });
        let (applied, is_prefetched) = bench.applied(link);
        assert!(matches!(applied, Err(Failure::Step(_))), "{applied:?}");
        assert!(is_prefetched);
        assert_eq!(bench.remains(), [""; 0]);
        assert!(
            Journal::open(&bench.on)
                .expect("readable")
                .torn()
                .is_empty(),
            "nothing is left to roll back"
        );
        bench.applied(file("/etc/second")).0.expect("the rest");
        assert_eq!(
            bench.on.list(LIB).expect("listed"),
            ["libx.so"],
            "from the cache this time"
        );
    }

    #[test]
    fn what_does_not_come_leaves_nothing() {
        let bench = bench("libx.so");
        bench.published.as_file().set_len(20).expect("cut");
        let (applied, _) = bench.applied(file("/etc/second"));
        assert!(applied.is_err());
        assert_eq!(bench.remains(), [""; 0]);
        assert!(
            Journal::open(&bench.on)
                .expect("readable")
                .torn()
                .is_empty()
        );
    }

    #[test]
    fn behind_a_reboot_nothing_is_unpacked_ahead() {
        let bench = bench("libx.so");
        let plan = bench.plan(Operation::Reboot(Reboot::default()));
        assert!(job(&plan, Path::new("/var/cache/gpusetup/ab/a.tar.xz")).is_none());
        let plan = bench.plan(file("/etc/second"));
        assert!(job(&plan, Path::new("/var/cache/gpusetup/ab/a.tar.xz")).is_some());
        assert!(job(&plan, Path::new("/var/cache/gpusetup/ab/b.tar.xz")).is_none());
    }
}
