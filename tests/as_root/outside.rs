//! What gpusetup and its children write of an apply to a tree, as the kernel saw it: nothing
//! outside of the tree. `tests/run` runs this: it takes root, and strace.

use crate::host::{Host, Server, machine, text, timed};
use crate::short;
use gpusetup::operation::{Operation, Remove};
use gpusetup::plan::StepId;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Every call that can change a file system by a name, and those that tell whose child a process is
/// and what its root is.
const CALLS: &str = "trace=open,openat,openat2,creat,mkdir,mkdirat,rmdir,unlink,unlinkat,rename,renameat,renameat2,link,\
     linkat,symlink,symlinkat,chmod,fchmodat,?fchmodat2,chown,lchown,fchownat,truncate,mknod,mknodat,utime,utimes,\
     futimesat,utimensat,setxattr,lsetxattr,removexattr,lremovexattr,mount,chroot,unshare,pivot_root,fork,vfork,clone,\
     clone3";

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
    let plan = short::saved(
        folder.path(),
        &short::plan(&host, short::steps(&server, &archive, "short")),
    );
    for arguments in [
        &["apply", text(&plan), "--yes", "--accept-eula"][..],
        &["rollback", "--yes"],
    ] {
        let trace = tempfile::tempdir().expect("a temporary folder");
        let file = trace.path().join("of");
        // A file for each process, and every descriptor with its path.
        let strace = [
            "strace",
            "-ff",
            "-y",
            "-qq",
            "--pidns-translation",
            "-s",
            "4096",
        ];
        let strace = [
            &strace[..],
            &["-e", CALLS, "-e", "signal=none", "-o", text(&file)],
        ]
        .concat();
        timed(arguments[0], || {
            host.gpusetup_under(&strace, arguments).succeeds()
        });
        let (processes, written) = read(trace.path());
        let root = host.root();
        let outside: Vec<_> = written
            .iter()
            .filter(|(path, _)| {
                !path.starts_with(&root) && !NOTHING.iter().any(|n| path.starts_with(n))
            })
            .map(|(path, call)| format!("{}: {call}", path.display()))
            .collect();
        println!(
            "  {}: {processes} processes, {} writes by name outside of the tree's namespaces",
            arguments[0],
            written.len()
        );
        assert_eq!(outside, [""; 0]);
        assert!(
            written.len() > 20 && processes > 10,
            "strace saw gpusetup at work"
        );
    }
}

/// What a program of the tree can do to the machine: it sees none of its processes, mounts and
/// devices, and does not get out.
#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_trees_programs_stay_in_it() {
    let host = Host::new("kept-in");
    let script = "mount -t tmpfs x /mnt && echo mounted; mknod /tmp/sda b 8 0 && echo device; \
                  date -s 2001-01-01 >/dev/null && echo clock; ls -d /proc/[0-9]* | wc -l; \
                  readlink /proc/1/root; grep CapBnd /proc/self/status; exit 7";
    let root = host.root();
    let ran =
        crate::host::gpusetup(["enter", text(&root), text(&root), "sh", "-c", script]).exits(7);
    let lines: Vec<_> = ran.out.lines().collect();
    let [processes, first, capabilities] = lines[..] else {
        panic!("{ran:?}")
    };
    assert!(processes.parse::<u32>().expect("a number") < 8, "{ran:?}");
    assert_eq!(
        (first, capabilities),
        ("/", "CapBnd:\t00000000a00401ff"),
        "{ran:?}"
    );
    assert_eq!(
        crate::host::gpusetup(["enter", text(&root), text(&root), "no-such-program"]).code,
        Some(127)
    );
}

/// A folder in which something of somebody else is mounted is not removed, and neither is that.
#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn what_is_mounted_in_a_folder_stays() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let host = Host::new("mounted");
    let (precious, place) = (
        folder.path().join("precious"),
        host.path("/usr/local/cuda-9.9/a b"),
    );
    fs::create_dir(&precious)
        .and_then(|()| fs::write(precious.join("f"), ""))
        .expect("made");
    fs::create_dir_all(&place).expect("made");
    let remove = Operation::Remove(Remove {
        path: "/usr/local/cuda-9.9".into(),
    });
    let plan = short::saved(
        folder.path(),
        &short::plan(&host, vec![short::step(StepId::RemoveCuda, vec![remove])]),
    );
    machine("mount", &["--bind", text(&precious), text(&place)]).succeeds();
    let ran = host
        .gpusetup_plain(&["apply", text(&plan), "--yes", "--accept-eula"])
        .exits(7);
    assert!(
        ran.err.contains("is mounted on") && ran.err.contains("a b'"),
        "{}",
        ran.err
    );
    assert!(precious.join("f").exists() && place.join("f").exists());
    machine("umount", &[text(&place)]).succeeds();
    host.gpusetup_plain(&["resume", "--yes"]).succeeds();
    assert!(!host.path("/usr/local/cuda-9.9").exists());
}

/// How many processes there were, and what those wrote that had not moved into the tree, each with
/// the call.
fn read(folder: &Path) -> (usize, Vec<(PathBuf, String)>) {
    let mut traces: BTreeMap<String, String> = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("made").flatten() {
        let name = entry.file_name().into_string().expect("of.PID");
        let pid = name.strip_prefix("of.").expect("of.PID").to_owned();
        traces.insert(
            pid,
            String::from_utf8_lossy(&fs::read(entry.path()).expect("readable")).into_owned(),
        );
    }
    let is_new = |line: &str| {
        ["fork(", "vfork(", "clone(", "clone3("]
            .iter()
            .any(|c| line.starts_with(c))
    };
    // Whoever has moved into the tree writes below it, and so do its children. What is mounted
    // behind `unshare` is seen by nobody else.
    let mut children = BTreeMap::new();
    for (parent, trace) in &traces {
        let mut at = Place::default();
        for line in trace.lines() {
            at.follow(line);
            if is_new(line) {
                children.insert(answer(line), (parent.clone(), at));
            }
        }
    }
    let place = |pid: &str| {
        let (mut pid, mut at) = (pid, Place::default());
        while let Some((parent, theirs)) = children.get(pid) {
            at = Place {
                inside: at.inside || theirs.inside,
                private: at.private || theirs.private,
            };
            pid = parent;
        }
        at
    };
    let mut written = Vec::new();
    for (pid, trace) in &traces {
        let mut at = place(pid);
        for line in trace.lines() {
            at.follow(line);
            if !(at.inside || at.private && line.starts_with("mount(")) {
                written.extend(paths(line).into_iter().map(|path| (path, line.to_owned())));
            }
        }
    }
    (traces.len(), written)
}

/// Where a process is.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The tree is its root.
    inside: bool,
    /// What it mounts is its own.
    private: bool,
}

impl Place {
    fn follow(&mut self, line: &str) {
        let succeeded = answer(line) == "0";
        self.inside |= succeeded
            && ["chroot(", "pivot_root("]
                .iter()
                .any(|call| line.starts_with(call));
        self.private |= succeeded && line.starts_with("unshare(") && line.contains("CLONE_NEWNS");
    }
}

/// What a call answered; a process by the number that strace has for it, `2 /* 5845 in strace's PID
/// NS */`.
fn answer(line: &str) -> String {
    let Some((_, answer)) = line.rsplit_once(" = ") else {
        return String::new();
    };
    let translated = answer
        .split_once("/* ")
        .and_then(|(_, more)| more.split(' ').next());
    translated.unwrap_or(answer).trim().to_owned()
}

/// What a call wrote; nothing when it failed or only read.
fn paths(line: &str) -> Vec<PathBuf> {
    let Some(((call, arguments), answer)) = line
        .rsplit_once(" = ")
        .and_then(|(l, a)| Some((l.split_once('(')?, a)))
    else {
        return Vec::new();
    };
    let opens = call.starts_with("open") || call == "creat";
    let reads = opens
        && call != "creat"
        && !["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"]
            .iter()
            .any(|f| line.contains(f));
    if answer.starts_with('-')
        || answer.starts_with('?')
        || reads
        || ["chroot", "pivot_root", "unshare"].contains(&call)
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
    if call.starts_with("symlink") || call.starts_with("link") {
        all.split_off(1)
    } else {
        all
    }
}
