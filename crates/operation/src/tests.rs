//! Files, links and trees, done and undone.

use super::undo::Backups;
use super::*;
use gpusetup_system::Node;
use std::path::Path;

pub(crate) fn work() -> Work {
    Work::new(Backups::new("/var/lib/gpusetup/backup".into(), 0))
}

struct Tree {
    on: System,
    _dir: tempfile::TempDir,
}

fn tree() -> Tree {
    let dir = tempfile::tempdir().expect("a temporary directory");
    Tree {
        on: System::at(dir.path()),
        _dir: dir,
    }
}

fn do_and_undo(on: &System, operation: &Operation) -> Vec<String> {
    let undo = operation.intend(on, &mut work()).expect("noted");
    operation
        .perform(on, &mut work(), &mut |_| {})
        .expect("done");
    undo.iter()
        .rev()
        .flat_map(|u| u.perform(on).expect("undone"))
        .collect()
}

#[test]
fn a_file_comes_and_goes_with_the_folders_made_for_it() {
    let Tree { on, _dir } = tree();
    let path = PathBuf::from("/etc/profile.d/gpusetup-cuda.sh");
    let write = Operation::WriteFile(WriteFile {
        path: path.clone(),
        content: "x\n".into(),
        mode: 0o644,
        merged_from: None,
    });
    assert_eq!(write.stands(&on, false).expect("seen"), Standing::Needed);
    write.perform(&on, &mut work(), &mut |_| {}).expect("done");
    assert_eq!(write.stands(&on, false).expect("seen"), Standing::Satisfied);
    on.remove_tree("/etc").expect("removed");
    assert_eq!(do_and_undo(&on, &write), [""; 0]);
    assert!(!on.exists("/etc"));
}

#[test]
fn a_merged_file_is_written_only_over_the_text_that_it_was_made_from() {
    let Tree { on, _dir } = tree();
    on.make_directories("/etc", 0o755).expect("made");
    on.write("/etc/f", b"theirs\n", 0o600).expect("written");
    let merged_from = Some(gpusetup_database::sum::sha256("theirs\n"));
    let write = WriteFile {
        path: "/etc/f".into(),
        content: "theirs\nours\n".into(),
        mode: 0o600,
        merged_from,
    };
    let write = Operation::WriteFile(write);
    assert_eq!(write.stands(&on, false).expect("seen"), Standing::Needed);
    on.write("/etc/f", b"changed\n", 0o600).expect("written");
    let Standing::Conflict(why) = write.stands(&on, false).expect("seen") else {
        panic!("it would be lost")
    };
    assert!(
        why.contains("/etc/f has changed since the plan was made"),
        "{why}"
    );
    on.write("/etc/f", b"theirs\n", 0o600).expect("written");
    assert_eq!(do_and_undo(&on, &write), [""; 0]);
    assert_eq!(
        on.read_text("/etc/f").expect("read").as_deref(),
        Some("theirs\n")
    );
    on.link("/etc/f", Path::new("g")).expect("linked");
    assert!(matches!(
        write.stands(&on, false),
        Ok(Standing::Conflict(_))
    ));
}

#[test]
fn a_restart_is_needed_when_the_planner_says_so() {
    let Tree { on, _dir } = tree();
    let restart = Operation::Service(Service::restart("docker.service"));
    assert_eq!(restart.stands(&on, false).expect("known"), Standing::Needed);
    assert_eq!(
        restart.stands(&on, true).expect("known"),
        Standing::Satisfied
    );
    assert_eq!(restart.describe(), "restart docker.service");
    assert_eq!(restart.shell(), "systemctl try-restart docker.service\n");
    let Operation::Service(service) = &restart else {
        panic!("a service")
    };
    let undo = service.intend(&on, &mut work()).expect("known");
    // Nothing runs in a tree.
    service
        .perform(&on, &mut work(), &mut |_| {})
        .expect("done");
    assert_eq!(
        undo.iter()
            .flat_map(|u| u.perform(&on).expect("undone"))
            .collect::<Vec<_>>(),
        [""; 0]
    );
}

#[test]
fn a_file_that_somebody_changed_since_is_left() {
    let Tree { on, _dir } = tree();
    on.make_directories("/etc", 0o755).expect("made");
    let write = Operation::WriteFile(WriteFile {
        path: "/etc/f".into(),
        content: "ours\n".into(),
        mode: 0o644,
        merged_from: None,
    });
    let undo = write.intend(&on, &mut work()).expect("noted");
    write.perform(&on, &mut work(), &mut |_| {}).expect("done");
    on.write("/etc/f", b"ours\nand theirs\n", 0o644)
        .expect("written");
    assert_eq!(undo[0].perform(&on).expect("asked"), ["/etc/f"]);
    assert!(on.exists("/etc/f"));
}

#[test]
fn what_stood_before_comes_back_with_its_mode() {
    let Tree { on, _dir } = tree();
    on.make_directories("/etc", 0o755).expect("made");
    on.write("/etc/f", b"theirs", 0o600).expect("written");
    let before = on.node("/etc/f").expect("seen");
    do_and_undo(
        &on,
        &Operation::WriteFile(WriteFile {
            path: "/etc/f".into(),
            content: "ours".into(),
            mode: 0o644,
            merged_from: None,
        }),
    );
    assert_eq!(on.node("/etc/f").expect("seen"), before);
}

#[test]
fn a_copy_becomes_a_link_and_another_file_does_not() {
    let Tree { on, _dir } = tree();
    on.make_directories("/lib", 0o755).expect("made");
    on.write("/lib/libx.so.1.2", b"library", 0o644)
        .expect("written");
    on.write("/lib/libx.so.1", b"library", 0o644)
        .expect("written");
    let path = Path::new("/lib/libx.so.1");
    let link = Operation::Link(Link {
        path: path.into(),
        target: "libx.so.1.2".into(),
        soname: None,
    });
    assert_eq!(link.stands(&on, false).expect("seen"), Standing::Needed);
    assert_eq!(do_and_undo(&on, &link), [""; 0]);
    assert!(
        matches!(on.node(path).expect("seen"), Node::File { .. }),
        "the copy is back"
    );
    on.write(path, b"other", 0o644).expect("written");
    assert!(matches!(
        link.stands(&on, false).expect("seen"),
        Standing::Conflict(_)
    ));
}

#[test]
fn a_folder_comes_back_until_it_is_let_go() {
    let Tree { on, _dir } = tree();
    let fill = || {
        on.make_directories("/usr/local/cuda-11.2/bin", 0o755)
            .expect("made");
        on.write("/usr/local/cuda-11.2/bin/nvcc", b"x", 0o755)
            .expect("written");
    };
    let remove = Operation::Remove(Remove {
        path: "/usr/local/cuda-11.2".into(),
    });
    fill();
    assert_eq!(do_and_undo(&on, &remove), [""; 0]);
    assert!(on.exists("/usr/local/cuda-11.2/bin/nvcc"));
    let undo = remove.intend(&on, &mut work()).expect("noted");
    remove.perform(&on, &mut work(), &mut |_| {}).expect("done");
    remove::discard(&on, &undo::aside(Path::new("/usr/local/cuda-11.2"))).expect("let go");
    assert_eq!(on.list("/usr/local").expect("listed"), [""; 0]);
    assert_eq!(
        undo[0].perform(&on).expect("asked"),
        ["/usr/local/cuda-11.2"],
        "it is named"
    );
}

#[test]
fn a_link_that_somebody_moved_since_is_left() {
    let Tree { on, _dir } = tree();
    let link = Operation::Link(Link {
        path: "/cuda".into(),
        target: "cuda-12.8".into(),
        soname: None,
    });
    let undo = link.intend(&on, &mut work()).expect("noted");
    link.perform(&on, &mut work(), &mut |_| {}).expect("done");
    on.link("/cuda", Path::new("cuda-12.9")).expect("linked");
    assert_eq!(undo[0].perform(&on).expect("asked"), ["/cuda"]);
    assert_eq!(on.link_target("/cuda"), Some("cuda-12.9".into()));
}

#[test]
fn a_library_of_another_soname_is_not_linked() {
    let Tree { on, _dir } = tree();
    on.make_directories("/lib", 0o755).expect("made");
    on.write("/lib/libx.so.1.2", b"no library", 0o644)
        .expect("written");
    let link = Operation::Link(Link {
        path: "/lib/libx.so.1".into(),
        target: "libx.so.1.2".into(),
        soname: Some("libx.so.1".into()),
    });
    let error = link
        .perform(&on, &mut work(), &mut |_| {})
        .expect_err("no ELF file")
        .to_string();
    assert!(
        error.contains("libx.so.1.2") && error.contains("not libx.so.1"),
        "{error}"
    );
    assert_eq!(on.node("/lib/libx.so.1").expect("seen"), Node::Absent);
}
