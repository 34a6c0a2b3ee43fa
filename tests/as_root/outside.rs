//! What gpusetup and its children write of an apply to a tree, as the kernel saw it: nothing outside of the tree. `tests/run`
//! runs this: it takes root, and strace.

use crate::host::{Host, Server, text, timed};
use crate::short;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Every call that can change a file system by a name, and those that tell whose child a process is and what its root is.
const CALLS: &str = "trace=open,openat,openat2,creat,mkdir,mkdirat,rmdir,unlink,unlinkat,rename,renameat,renameat2,link,\
     linkat,symlink,symlinkat,chmod,fchmodat,?fchmodat2,chown,lchown,fchownat,truncate,mknod,mknodat,utime,utimes,\
     futimesat,utimensat,setxattr,lsetxattr,removexattr,lremovexattr,mount,chroot,fork,vfork,clone,clone3";

/// What is no file system: what is written there leaves nothing.
const NOTHING: [&str; 2] = ["/dev/null", "/memfd:gpusetup"];

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn nothing_is_written_outside_of_the_tree() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let archive = short::archive(folder.path());
    let server = Server::of(folder.path());
    let host = Host::new("outside");
    short::offer(&host, &[short::deb("short", ":")]);
    let plan = short::saved(folder.path(), &short::plan(&host, short::steps(&server, &archive, "short")));
    for arguments in [&["apply", text(&plan), "--yes"][..], &["rollback", "--yes"]] {
        let trace = tempfile::tempdir().expect("a temporary folder");
        let file = trace.path().join("of");
        // A file for each process, and every descriptor with its path.
        let strace = ["strace", "-ff", "-y", "-qq", "-s", "4096", "-e", CALLS, "-e", "signal=none", "-o", text(&file)];
        timed(arguments[0], || host.gpusetup_under(&strace, arguments).succeeds());
        let (processes, written) = read(trace.path());
        let root = host.root();
        let outside: Vec<_> = written
            .iter()
            .filter(|(path, _)| !path.starts_with(&root) && !NOTHING.iter().any(|n| path.starts_with(n)))
            .map(|(path, call)| format!("{}: {call}", path.display()))
            .collect();
        println!("  {}: {processes} processes, {} writes by name outside of a chroot", arguments[0], written.len());
        assert_eq!(outside, [""; 0]);
        assert!(written.len() > 20 && processes > 10, "strace saw gpusetup at work");
    }
}

/// How many processes there were, and what those wrote that were not in a chroot, each with the call.
fn read(folder: &Path) -> (usize, Vec<(PathBuf, String)>) {
    let mut traces: BTreeMap<String, String> = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("made").flatten() {
        let name = entry.file_name().into_string().expect("of.PID");
        let pid = name.strip_prefix("of.").expect("of.PID").to_owned();
        traces.insert(pid, String::from_utf8_lossy(&fs::read(entry.path()).expect("readable")).into_owned());
    }
    let is_new = |line: &str| ["fork(", "vfork(", "clone(", "clone3("].iter().any(|c| line.starts_with(c));
    let answer = |line: &str| line.rsplit_once(" = ").map(|(_, a)| a.trim().to_owned()).unwrap_or_default();
    // Whoever is in a chroot writes below it, and so do its children.
    let mut children = BTreeMap::new();
    for (parent, trace) in &traces {
        let mut inside = false;
        for line in trace.lines() {
            inside |= line.starts_with("chroot(") && answer(line) == "0";
            if is_new(line) {
                children.insert(answer(line), (parent.clone(), inside));
            }
        }
    }
    let is_inside = |pid: &str| {
        let mut pid = pid;
        while let Some((parent, inside)) = children.get(pid) {
            if *inside {
                return true;
            }
            pid = parent;
        }
        false
    };
    let mut written = Vec::new();
    for trace in traces.iter().filter(|(pid, _)| !is_inside(pid)).map(|(_, trace)| trace) {
        for line in trace.lines().take_while(|line| !(line.starts_with("chroot(") && answer(line) == "0")) {
            written.extend(paths(line).into_iter().map(|path| (path, line.to_owned())));
        }
    }
    (traces.len(), written)
}

/// What a call wrote; nothing when it failed or only read.
fn paths(line: &str) -> Vec<PathBuf> {
    let Some(((call, arguments), answer)) = line.rsplit_once(" = ").and_then(|(l, a)| Some((l.split_once('(')?, a)))
    else {
        return Vec::new();
    };
    let opens = call.starts_with("open") || call == "creat";
    let reads =
        opens && call != "creat" && !["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|f| line.contains(f));
    if answer.starts_with('-')
        || answer.starts_with('?')
        || reads
        || call == "chroot"
        || call.contains("fork")
        || call.contains("clone")
    {
        return Vec::new();
    }
    // What a descriptor turned out to be counts, whatever links the name went through.
    if let Some((_, path)) = answer.split_once('<').filter(|_| opens) {
        return vec![PathBuf::from(path.split('>').next().unwrap_or_default())];
    }
    let mut all = Vec::new();
    let mut folder = PathBuf::from("/");
    for word in arguments.split(", ") {
        if let Some(name) = word.strip_prefix('"') {
            all.push(folder.join(name.trim_end_matches(')').trim_end_matches('"')));
        } else if let Some((_, path)) = word.split_once('<') {
            folder = PathBuf::from(path.trim_end_matches('>'));
        }
    }
    // Of these the first name is only text, or what stays as it is.
    if call.starts_with("symlink") || call.starts_with("link") { all.split_off(1) } else { all }
}
