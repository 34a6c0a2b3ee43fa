//! gpusetup cut off, as by SIGKILL or a power cut, at every touch of the world that an apply makes: right before it, in the
//! middle of it, right after it. Whatever is then found is resumed, to the same end as an undisturbed run, and taken
//! back, to what was before. The plan is a short one of every kind of operation, with real programs and real packages on a
//! real Debian root; `tests/run` runs this: it takes root, and minutes.
#![cfg(debug_assertions)]

mod host;

use gpusetup::compat::PackageManager;
use gpusetup::operation::{Operation, Placement, Verified};
use gpusetup::plan::{Act, Plan, State, Step, StepId};
use host::tree::differences;
use host::{Host, RECORDS, Server, bench, machine, text, timed};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn run(argv: &[&str], creates: &[&str], changes: &[&str]) -> Operation {
    Operation::Run {
        argv: argv.iter().map(|a| (*a).to_owned()).collect(),
        environment: Default::default(),
        verified: Vec::new(),
        creates: creates.iter().map(PathBuf::from).collect(),
        changes: changes.iter().map(PathBuf::from).collect(),
        removes: Vec::new(),
        undo: Vec::new(),
        asks: false,
        expects: None,
        limit: 60,
    }
}

fn step(id: StepId, operations: Vec<Operation>) -> Step {
    Step {
        id,
        title: id.as_str().to_owned(),
        why: "the test wants it".to_owned(),
        state: State::Needed,
        operations: operations.into_iter().map(|operation| Act { operation, satisfied: false }).collect(),
        download_bytes: 0,
        disk_bytes: 0,
    }
}

/// A plan for this host, with an operation of every kind that a tree can have.
fn plan_for(host: &Host, server: &Server, archive: &Path) -> Plan {
    let said = host.gpusetup_plain(&["plan", "--profile", "toolkit", "--cuda", "12.4", "--json"]).succeeds();
    let mut plan: Plan = serde_json::from_str(&said.out).expect("a plan");
    let sum = machine("sha256sum", &[text(archive)]).succeeds().out[..64].to_owned();
    let cached = PathBuf::from("/var/cache/gpusetup/crash/archive.tar.xz");
    let download = Operation::Download {
        url: format!("{}/archive.tar.xz", server.url),
        sha256: sum.clone(),
        size: Some(archive.metadata().expect("made").len()),
        to: cached.clone(),
    };
    let unpack = Operation::Unpack {
        archive: cached.clone(),
        sha256: sum.clone(),
        into: vec![
            Placement { from: "lib".into(), to: "/usr/local/cuda-9.9/lib".into() },
            Placement { from: "include".into(), to: "/usr/local/cuda-9.9/include/sub".into() },
        ],
    };
    let mut installer =
        run(&["/bin/cp", "-a", "/usr/share/doc/tar", "/usr/local/cuda-9.9"], &["/usr/local/cuda-9.9"], &[]);
    if let Operation::Run { verified, .. } = &mut installer {
        verified.push(Verified { path: cached, sha256: sum });
    }
    let file =
        |path: &str, content: &str| Operation::WriteFile { path: path.into(), content: content.into(), mode: 0o644 };
    let link = |path: &str, target: &str| Operation::Link { path: path.into(), target: target.into(), soname: None };
    let asks = Operation::ask(["/bin/cat", "/etc/issue"], Some("ours".to_owned()));
    plan.steps = vec![
        step(
            StepId::Prerequisites,
            vec![Operation::Packages {
                manager: PackageManager::Apt,
                install: vec!["nvidia-modprobe".to_owned()],
                remove: Vec::new(),
                stream: None,
            }],
        ),
        step(
            StepId::BlacklistNouveau,
            vec![
                file("/etc/modprobe.d/gpusetup-nouveau.conf", "blacklist nouveau\n"),
                Operation::Remove { path: "/etc/motd".into() },
            ],
        ),
        step(StepId::InstallCuda, vec![download, installer]),
        step(StepId::InstallCudnn, vec![unpack]),
        step(
            StepId::FixSymlinks,
            vec![link("/usr/local/cuda", "cuda-9.9"), link("/usr/local/cuda-9.9/lib/libx.so", "libx.so.1.0")],
        ),
        step(
            StepId::Ldconfig,
            vec![
                file("/etc/ld.so.conf.d/gpusetup-cuda.conf", "/usr/local/cuda/lib\n"),
                run(&["/sbin/ldconfig"], &[], &["/etc/ld.so.cache"]),
            ],
        ),
        step(
            StepId::Environment,
            vec![
                file("/etc/issue", "ours\n"),
                Operation::Service { unit: "console-getty.service".into(), enabled: true },
            ],
        ),
        step(StepId::Verify, vec![asks]),
    ];
    plan.fingerprint = plan.expected_fingerprint();
    plan
}

/// A small archive of a real library and its header.
fn archive(folder: &Path) -> PathBuf {
    let (lib, include) = (folder.join("x/lib"), folder.join("x/include"));
    fs::create_dir_all(&lib).expect("made");
    fs::create_dir_all(&include).expect("made");
    fs::write(include.join("x.h"), "int x(void);\n").expect("written");
    let library = lib.join("libx.so.1.0");
    machine("gcc", &["-shared", "-x", "c", "/dev/null", "-Wl,-soname,libx.so.1", "-o", text(&library)]).succeeds();
    let made = folder.join("archive.tar.xz");
    machine("tar", &["-C", text(folder), "-cJf", text(&made), "x"]).succeeds();
    made
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn whatever_a_power_cut_leaves_is_resumed_and_is_taken_back() {
    bench();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let archive = archive(folder.path());
    let server = Server::of(folder.path());
    let reference = Host::new("crash-reference");
    let plan = folder.path().join("plan.json");
    let json = serde_json::to_string(&plan_for(&reference, &server, &archive)).expect("JSON");
    fs::write(&plan, json).expect("written");
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
