//! `write-file` and `link`: what stands, what is to be done, and the doing.

use super::undo::{Backups, Undo, missing_parents};
use super::{Operation, Standing};
use crate::host::soname;
use crate::sum::sha256;
use crate::system::{Node, System};
use crate::text::quoted_path;
use std::io;
use std::path::Path;

/// How a file stands to what it should be.
pub fn file_stands(on: &System, path: &Path, content: &str, mode: u32) -> io::Result<Standing> {
    Ok(match on.node(path)? {
        Node::File { sha256: sum, mode: now, .. } if now == mode && sum == sha256(content) => Standing::Satisfied,
        Node::Directory | Node::Other => Standing::Conflict(format!("{} is no file", path.display())),
        Node::Absent | Node::File { .. } | Node::Link { .. } => Standing::Needed,
    })
}

/// How a link stands to what it should be. A file is in the way unless it is a copy of what the link leads to.
pub fn link_stands(on: &System, path: &Path, target: &Path) -> io::Result<Standing> {
    Ok(match on.node(path)? {
        Node::Link { target: now } if now == target => Standing::Satisfied,
        Node::Absent | Node::Link { .. } => Standing::Needed,
        Node::File { sha256: copy, .. } => match on.node(led_to(path, target))? {
            Node::File { sha256: original, .. } if original == copy => Standing::Needed,
            _ => Standing::Conflict(format!(
                "{} is a file of its own, and no copy of {}",
                path.display(),
                target.display()
            )),
        },
        Node::Directory | Node::Other => Standing::Conflict(format!("{} is no link", path.display())),
    })
}

/// Where a folder that is to be removed goes until the apply has come to its end: beside itself, so that it is one rename
/// there and back, however many files are in it.
pub fn aside(path: &Path) -> std::path::PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.gpusetup-removed"))
}

/// What a link at `path` leads to.
pub fn led_to(path: &Path, target: &Path) -> std::path::PathBuf {
    if target.is_absolute() { target.to_owned() } else { path.with_file_name("").join(target) }
}

/// The ways back from a file or a link, to be kept before it is made.
pub fn intend(on: &System, operation: &Operation, backups: &mut Backups) -> io::Result<Vec<Undo>> {
    if let Operation::Remove { path } = operation {
        let folder = on.node(path)? == Node::Directory;
        let back = || Undo::Aside { path: path.clone(), aside: aside(path) };
        return Ok(vec![if folder { back() } else { backups.save(on, path, Some(Node::Absent))? }]);
    }
    let (path, after) = match operation {
        Operation::WriteFile { path, content, mode } => {
            (path, Some(Node::File { sha256: sha256(content), mode: *mode, uid: 0, gid: 0 }))
        }
        Operation::Link { path, target, .. } => (path, Some(Node::Link { target: target.clone() })),
        _ => return Ok(Vec::new()),
    };
    let mut undo = missing_parents(on, path);
    undo.push(backups.save(on, path, after)?);
    Ok(undo)
}

/// Makes it so.
pub fn perform(on: &System, operation: &Operation) -> io::Result<()> {
    match operation {
        Operation::WriteFile { path, content, mode } => {
            above(on, path)?;
            on.write(path, content.as_bytes(), *mode)
        }
        Operation::Link { path, target, soname: wanted } => {
            let end = led_to(path, target);
            if let Some(wanted) = wanted {
                let found = soname(on, &end);
                if found.as_ref() != Some(wanted) {
                    let found = found.unwrap_or_else(|| "none".to_owned());
                    let sentence = format!("{} has the SONAME {found}, not {wanted}", end.display());
                    return Err(io::Error::other(sentence));
                }
            }
            above(on, path)?;
            on.link(path, target)
        }
        Operation::Remove { path } if on.node(path)? == Node::Directory => {
            nothing_is_mounted_below(on, path)?;
            match on.rename(path, aside(path)) {
                // A folder of an image below a container's overlay cannot be renamed: then there is no way back.
                Err(e) if e.kind() == io::ErrorKind::CrossesDevices => on.remove_tree(path),
                renamed => renamed,
            }
        }
        Operation::Remove { path } => on.remove(path),
        _ => Ok(()),
    }
}

/// What is mounted in a folder is not removed with it, and keeps it from being removed.
pub fn nothing_is_mounted_below(on: &System, path: &Path) -> io::Result<()> {
    match on.mounted_below(path)? {
        None => Ok(()),
        Some(mounted) => {
            let sentence = format!("something is mounted on {0}: umount {0}", quoted_path(&mounted));
            Err(io::Error::new(io::ErrorKind::ResourceBusy, sentence))
        }
    }
}

/// Lets go of a folder that was moved aside. What is half gone must not come back by an undo.
pub fn discard(on: &System, aside: &Path) -> io::Result<()> {
    let condemned = aside.with_extension("gpusetup-discarded");
    if on.exists(aside) {
        on.remove_tree(&condemned)?;
        on.rename(aside, &condemned)?;
    }
    on.remove_tree(&condemned)
}

fn above(on: &System, path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |parent| on.make_directories(parent, 0o755).map(|_| ()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    struct Tree {
        on: System,
        _dir: tempfile::TempDir,
    }

    fn tree() -> Tree {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Tree { on: System::at(dir.path()), _dir: dir }
    }

    fn do_and_undo(on: &System, operation: &Operation) -> Vec<String> {
        let mut backups = Backups::new("/var/lib/gpusetup/backup".into(), 0);
        let undo = intend(on, operation, &mut backups).expect("noted");
        perform(on, operation).expect("done");
        undo.iter().rev().flat_map(|u| u.perform(on).expect("undone")).collect()
    }

    #[test]
    fn a_file_comes_and_goes_with_the_folders_made_for_it() {
        let Tree { on, _dir } = tree();
        let path = PathBuf::from("/etc/profile.d/gpusetup-cuda.sh");
        let write = Operation::WriteFile { path: path.clone(), content: "x\n".into(), mode: 0o644 };
        assert_eq!(file_stands(&on, &path, "x\n", 0o644).expect("seen"), Standing::Needed);
        perform(&on, &write).expect("done");
        assert_eq!(file_stands(&on, &path, "x\n", 0o644).expect("seen"), Standing::Satisfied);
        on.remove_tree("/etc").expect("removed");
        assert_eq!(do_and_undo(&on, &write), [""; 0]);
        assert!(!on.exists("/etc"));
    }

    #[test]
    fn a_file_that_somebody_changed_since_is_left() {
        let Tree { on, _dir } = tree();
        on.make_directories("/etc", 0o755).expect("made");
        let write = Operation::WriteFile { path: "/etc/f".into(), content: "ours\n".into(), mode: 0o644 };
        let undo = intend(&on, &write, &mut Backups::new("/b".into(), 0)).expect("noted");
        perform(&on, &write).expect("done");
        on.write("/etc/f", b"ours\nand theirs\n", 0o644).expect("written");
        assert_eq!(undo[0].perform(&on).expect("asked"), ["/etc/f"]);
        assert!(on.exists("/etc/f"));
    }

    #[test]
    fn what_stood_before_comes_back_with_its_mode() {
        let Tree { on, _dir } = tree();
        on.make_directories("/etc", 0o755).expect("made");
        on.write("/etc/f", b"theirs", 0o600).expect("written");
        let before = on.node("/etc/f").expect("seen");
        do_and_undo(&on, &Operation::WriteFile { path: "/etc/f".into(), content: "ours".into(), mode: 0o644 });
        assert_eq!(on.node("/etc/f").expect("seen"), before);
    }

    #[test]
    fn a_copy_becomes_a_link_and_another_file_does_not() {
        let Tree { on, _dir } = tree();
        on.make_directories("/lib", 0o755).expect("made");
        on.write("/lib/libx.so.1.2", b"library", 0o644).expect("written");
        on.write("/lib/libx.so.1", b"library", 0o644).expect("written");
        let (path, target) = (Path::new("/lib/libx.so.1"), Path::new("libx.so.1.2"));
        assert_eq!(link_stands(&on, path, target).expect("seen"), Standing::Needed);
        let link = Operation::Link { path: path.into(), target: target.into(), soname: None };
        assert_eq!(do_and_undo(&on, &link), [""; 0]);
        assert!(matches!(on.node(path).expect("seen"), Node::File { .. }), "the copy is back");
        on.write(path, b"other", 0o644).expect("written");
        assert!(matches!(link_stands(&on, path, target).expect("seen"), Standing::Conflict(_)));
    }

    #[test]
    fn a_folder_comes_back_until_it_is_let_go() {
        let Tree { on, _dir } = tree();
        let fill = || {
            on.make_directories("/usr/local/cuda-11.2/bin", 0o755).expect("made");
            on.write("/usr/local/cuda-11.2/bin/nvcc", b"x", 0o755).expect("written");
        };
        let remove = Operation::Remove { path: "/usr/local/cuda-11.2".into() };
        fill();
        assert_eq!(do_and_undo(&on, &remove), [""; 0]);
        assert!(on.exists("/usr/local/cuda-11.2/bin/nvcc"));
        let undo = intend(&on, &remove, &mut Backups::new("/b".into(), 0)).expect("noted");
        perform(&on, &remove).expect("done");
        discard(&on, &aside(Path::new("/usr/local/cuda-11.2"))).expect("let go");
        assert_eq!(on.list("/usr/local").expect("listed"), [""; 0]);
        assert_eq!(undo[0].perform(&on).expect("asked"), ["/usr/local/cuda-11.2"], "it is named");
    }

    #[test]
    fn a_link_that_somebody_moved_since_is_left() {
        let Tree { on, _dir } = tree();
        let link = Operation::Link { path: "/cuda".into(), target: "cuda-12.8".into(), soname: None };
        let undo = intend(&on, &link, &mut Backups::new("/b".into(), 0)).expect("noted");
        perform(&on, &link).expect("done");
        on.link("/cuda", Path::new("cuda-12.9")).expect("linked");
        assert_eq!(undo[0].perform(&on).expect("asked"), ["/cuda"]);
        assert_eq!(on.link_target("/cuda"), Some("cuda-12.9".into()));
    }

    #[test]
    fn a_library_of_another_soname_is_not_linked() {
        let Tree { on, _dir } = tree();
        on.make_directories("/lib", 0o755).expect("made");
        on.write("/lib/libx.so.1.2", b"no library", 0o644).expect("written");
        let link = Operation::Link {
            path: "/lib/libx.so.1".into(),
            target: "libx.so.1.2".into(),
            soname: Some("libx.so.1".into()),
        };
        let error = perform(&on, &link).expect_err("no ELF file").to_string();
        assert!(error.contains("libx.so.1.2") && error.contains("not libx.so.1"), "{error}");
        assert_eq!(on.node("/lib/libx.so.1").expect("seen"), Node::Absent);
    }
}
