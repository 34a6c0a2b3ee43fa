//! The paths that gpusetup opens, as strace reports them.

use super::bench::Bench;
use super::model::Model;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;

/// The paths in `area` that a command uses, and their parents, relative to `area`. Programs that
/// gpusetup starts are not included: they run inside a chroot, which links cannot leave.
pub fn paths(bench: &Bench, host: &Model, arguments: &[&str]) -> BTreeSet<PathBuf> {
    let area = bench.path("traced");
    host.make(&area);
    let traces = bench.path("traces");
    fs::create_dir(&traces).expect("made");
    // -ff: a file per process; -y: descriptors with their paths.
    let calls = "trace=%file,pivot_root,fchdir,getdents64";
    let into = format!("-o{}/of", traces.display());
    let strace = [
        "strace",
        "-ff",
        "--seccomp-bpf",
        "-y",
        "-qq",
        "-s",
        "4096",
        "-e",
        calls,
        "-e",
        "signal=none",
        &into,
    ];
    let mut strace = bench.gpusetup_under(&strace, &area, arguments);
    strace.stdout(Stdio::null()).stderr(Stdio::null());
    strace.status().expect("strace starts");
    let (mut all, mut pids) = (BTreeSet::new(), Vec::new());
    for entry in fs::read_dir(&traces).expect("made").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        pids.push(name.trim_start_matches("of.").to_owned());
        let trace =
            String::from_utf8_lossy(&fs::read(entry.path()).expect("readable")).into_owned();
        let ours = |n: usize, line: &str| {
            let leaves = ["chroot(", "pivot_root("]
                .iter()
                .any(|call| line.starts_with(call));
            !(leaves || n > 0 && line.starts_with("execve(")) || line.contains(" = -1 ")
        };
        let lines = trace
            .lines()
            .enumerate()
            .take_while(|(n, line)| ours(*n, line));
        lines.for_each(|(_, line)| all.extend(named(line)));
    }
    for folder in [area.as_path(), &traces] {
        fs::remove_dir_all(folder).expect("removed");
    }
    // Names that contain a process id differ in the next run.
    let lasts = |path: &&PathBuf| {
        !pids
            .iter()
            .any(|pid| path.to_string_lossy().contains(pid.as_str()))
    };
    let below = all
        .iter()
        .filter_map(|path| path.strip_prefix(&area).ok())
        .map(Path::to_owned)
        .collect::<Vec<_>>();
    let below = below
        .iter()
        .filter(lasts)
        .filter_map(|path| host.resolve(path))
        .filter(|path| host.has_room(path));
    let with_folders =
        below.flat_map(|path| path.ancestors().map(Path::to_owned).collect::<Vec<_>>());
    // The root directory is not an attacker's choice.
    with_folders
        .filter(|path| path.components().count() > 1)
        .collect()
}

/// The paths in the arguments of a system call, and the path of the descriptor it returned.
fn named(line: &str) -> Vec<PathBuf> {
    let Some((call, answer)) = line.rsplit_once(" = ") else {
        return Vec::new();
    };
    let in_root = call.contains("RESOLVE_IN_ROOT");
    let (mut all, mut folder) = (Vec::new(), PathBuf::from("/"));
    let arguments = call.split_once('(').map_or("", |(_, arguments)| arguments);
    for word in arguments.split(", ") {
        if let Some(name) = word.strip_prefix('"') {
            let name = name.trim_end_matches(')').trim_end_matches('"');
            all.push(normal(&folder.join(if in_root {
                name.trim_start_matches('/')
            } else {
                name
            })));
        } else if let Some(path) = of_descriptor(word) {
            all.push(normal(&path));
            folder = path;
        }
    }
    all.extend(of_descriptor(answer));
    all
}

/// The path that strace prints with a descriptor.
fn of_descriptor(word: &str) -> Option<PathBuf> {
    let (_, path) = word.split_once('<')?;
    let path = path.rsplit_once('>')?.0;
    path.starts_with('/')
        .then(|| PathBuf::from(path.trim_end_matches("(deleted)")))
}

fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}
