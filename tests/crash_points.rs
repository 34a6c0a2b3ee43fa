//! gpusetup cut off, as by SIGKILL or a power cut, at every touch of the world that an apply makes: right before it, in the
//! middle of it, right after it. Whatever is then found is resumed, to the same end as an undisturbed run, and taken
//! back, to what was before. The plan is the short one; `tests/run` runs this: it takes root, and minutes.
#![cfg(debug_assertions)]

mod host;
#[path = "support/short.rs"]
mod short;

use host::tree::differences;
use host::{Host, RECORDS, Server, bench, text, timed};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn whatever_a_power_cut_leaves_is_resumed_and_is_taken_back() {
    bench();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let archive = short::archive(folder.path());
    let server = Server::of(folder.path());
    let reference = Host::new("crash-reference");
    let plan =
        short::saved(folder.path(), &short::plan(&reference, short::steps(&server, &archive, "nvidia-modprobe")));
    let apply = ["apply", text(&plan), "--yes"];
    timed("undisturbed", || reference.gpusetup_plain(&apply).succeeds());

    let (next, over) = (AtomicUsize::new(1), AtomicBool::new(false));
    let (resumed, taken_back) = (AtomicUsize::new(0), AtomicUsize::new(0));
    timed("every touch", || {
        std::thread::scope(|scope| {
            for worker in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                let (next, over, resumed, taken_back, reference, apply) =
                    (&next, &over, &resumed, &taken_back, &reference, &apply);
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        let host = Host::new(&format!("crash-{worker}"));
                        if !host.gpusetup_dies(n, apply) {
                            over.store(true, Ordering::Relaxed);
                            break;
                        }
                        // Another in the same state, which must be gone before this one goes on.
                        {
                            let back = host.clone_as(&format!("crash-{worker}-back"));
                            back.gpusetup_plain(&["rollback", "--yes"]).succeeds();
                            assert_eq!(
                                differences(&bench().base, &back.root(), RECORDS),
                                [""; 0],
                                "rollback after touch {n}"
                            );
                            taken_back.fetch_add(1, Ordering::Relaxed);
                        }
                        let said = host.gpusetup_plain(&["resume", "--yes"]).succeeds();
                        if said.out.starts_with("Nothing to go on with") {
                            // It died before the journal knew of it, so before the first change, or behind the last.
                            host.gpusetup_plain(apply).succeeds();
                        }
                        let left = differences(&reference.root(), &host.root(), RECORDS);
                        assert_eq!(left, [""; 0], "resume after touch {n}");
                        resumed.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
    });
    let (resumed, taken_back) = (resumed.into_inner(), taken_back.into_inner());
    println!("  crash points: {resumed} of {resumed} resumed, {taken_back} of {taken_back} rolled back");
    assert!(resumed > 100 && resumed == taken_back, "{resumed} {taken_back}");
}
