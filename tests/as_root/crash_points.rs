//! gpusetup cut off, as by SIGKILL or a power cut, at every touch of the world that an apply makes:
//! right before it, which is right after the one before, and in the middle of it. Whatever is then
//! found is resumed, to the same end as an undisturbed run, and undone, to what was before. The
//! plan is the short one; `tests/run` runs this: it takes root, and minutes.

use crate::host::tree::differences;
use crate::host::{Host, RECORDS, Server, bench, text, timed};
use crate::killed::seed;
use crate::{sampled, short};
use gpusetup::operation::{Operation, Remove, Run};
use gpusetup::plan::{Step, StepId};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What an uninstaller removes, and a folder that gpusetup itself does.
const GONE: [&str; 2] = ["usr/local/cuda-7.7", "usr/local/cuda-8.8"];

/// A package, a toolkit with an uninstaller and one without, as somebody else may have left them.
const OLD_THINGS: &str = "apt-get -qq -y install old
    mkdir -p /usr/local/cuda-7.7/bin /usr/local/cuda-8.8/bin
    echo x | tee /usr/local/cuda-7.7/bin/nvcc >/usr/local/cuda-8.8/bin/nvcc
    printf '#!/bin/sh\nrm -rf /usr/local/cuda-7.7\n' >/usr/local/cuda-7.7/bin/uninstall
    chmod 755 /usr/local/cuda-7.7/bin/uninstall";

/// They go.
fn removal() -> Step {
    let mut uninstaller = short::run(&["/usr/local/cuda-7.7/bin/uninstall"], &[], &[]);
    if let Operation::Run(Run { removes, .. }) = &mut uninstaller {
        removes.push("/usr/local/cuda-7.7".into());
    }
    let mut package = short::packages(&[]);
    if let Operation::Packages(packages) = &mut package {
        packages.remove.push("old".to_owned());
    }
    let remove = |path: &str| Operation::Remove(Remove { path: path.into() });
    let folders = ["/usr/local/cuda-7.7", "/usr/local/cuda-8.8"].map(remove);
    short::step(
        StepId::RemoveCuda,
        [package, uninstaller].into_iter().chain(folders).collect(),
    )
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn whatever_a_power_cut_leaves_is_resumed_and_is_taken_back() {
    bench();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let archive = short::archive(folder.path());
    let server = Server::of(folder.path());
    let base = Host::new("crash-base");
    short::offer(
        &base,
        &[
            short::deb("short", "echo configured >/etc/short"),
            short::deb("old", "echo configured >/etc/old"),
        ],
    );
    base.ask(OLD_THINGS);
    let reference = base.clone_as("crash-reference");
    let mut steps = short::steps(&server, &archive, "short");
    steps.insert(steps.len() - 1, removal());
    let plan = short::saved(folder.path(), &short::plan(&reference, steps));
    let apply = ["apply", text(&plan), "--yes", "--accept-eula"];
    timed("undisturbed", || {
        reference.gpusetup_plain(&apply).succeeds()
    });

    // A sample has every fifth touch, and another fifth at another time.
    let stride = sampled(5, 1);
    let first = 1 + usize::try_from(seed() % 1000).expect("small") % stride;
    println!("  touches {first}, {}, ...", first + stride);
    let (next, over) = (AtomicUsize::new(first), AtomicBool::new(false));
    let (resumed, taken_back) = (AtomicUsize::new(0), AtomicUsize::new(0));
    timed("every touch", || {
        std::thread::scope(|scope| {
            for worker in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                let (next, over, resumed, taken_back, base, reference, apply) = (
                    &next,
                    &over,
                    &resumed,
                    &taken_back,
                    &base,
                    &reference,
                    &apply,
                );
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        let n = next.fetch_add(stride, Ordering::Relaxed);
                        let host = base.clone_as(&format!("crash-{worker}"));
                        if !host.gpusetup_dies(n, apply) {
                            over.store(true, Ordering::Relaxed);
                            break;
                        }
                        // Another in the same state, which must be gone before this one goes on.
                        {
                            let back = host.clone_as(&format!("crash-{worker}-back"));
                            let journal = back.path("/var/lib/gpusetup/journal");
                            let ended = std::fs::read_to_string(journal)
                                .unwrap_or_default()
                                .contains("\"finished\"");
                            let ran = back.gpusetup_plain(&["rollback", "--yes"]).succeeds();
                            let mut ignored = RECORDS.to_vec();
                            for gone in GONE
                                .into_iter()
                                .filter(|g| !back.path(g).join("bin/nvcc").exists())
                            {
                                // What is gone for good is named; the folder is, once the apply has
                                // come to its end.
                                assert!(
                                    ran.err.contains(gone),
                                    "after touch {n}: {gone} is not named: {}",
                                    ran.err
                                );
                                assert!(
                                    ended || gone == GONE[0],
                                    "after touch {n}: {gone} was still there"
                                );
                                ignored.push(gone);
                            }
                            let left = differences(&base.root(), &back.root(), &ignored);
                            assert_eq!(left, [""; 0], "rollback after touch {n}");
                            taken_back.fetch_add(1, Ordering::Relaxed);
                        }
                        let ran = host.gpusetup_plain(&["resume", "--yes"]).succeeds();
                        if ran.out.starts_with("Nothing to resume") {
                            // It died before the journal knew of it, so before the first change, or
                            // behind the last.
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
    println!(
        "  crash points: {resumed} of {resumed} resumed, {taken_back} of {taken_back} rolled back"
    );
    assert!(
        resumed > 100 / stride && resumed == taken_back,
        "{resumed} {taken_back}"
    );
}
