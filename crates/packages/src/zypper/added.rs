//! How zypper takes another repository: a section with its own key, and locks that take only the
//! driver's branch from it. zypper has no setting by which only some packages come from a
//! repository, and no locks of all packages but some.

use super::{LOCKS, REPOSITORIES, locks};
use crate::added::{HEADER, NewRepository, Note, RepositoryFormat, RepositoryLocks};
use crate::configuration;
use crate::manager::words;
use crate::rpm::keys;
use gpusetup_system::System;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// zypper's format.
pub(crate) const FORMAT: RepositoryFormat = RepositoryFormat {
    key: keys::path,
    paths,
    texts: |new| vec![section(new)],
    folders: &[(REPOSITORIES, |folder| {
        vec!["--reposd-dir".to_owned(), folder.to_owned()]
    })],
    notes,
    noted,
    locks: Some(RepositoryLocks {
        all: all_locks,
        removal: remove_locks,
    }),
    has_branch: true,
    refresh,
};

/// Better than that of others, which is 99: NVIDIA has the same packages for the desktop in another
/// repository, and their versions must not be mixed.
const PRIORITY: u8 = 90;

fn paths(name: &str) -> Vec<PathBuf> {
    vec![format!("{REPOSITORIES}/{}.repo", alias(name)).into()]
}

fn alias(name: &str) -> String {
    format!("gpusetup-{name}")
}

/// Lists and packages must both be signed.
fn section(new: &NewRepository) -> String {
    let keys: Vec<_> = new
        .keys
        .iter()
        .map(|path| format!("file://{}", path.display()))
        .collect();
    let (alias, name, url, keys) = (alias(new.name), new.name, new.url, keys.join(" "));
    format!(
        "{HEADER}[{alias}]\nname=gpusetup: {name}\nenabled=1\nautorefresh=1\nbaseurl={url}\ntype=rpm-md\ngpgcheck=1\n\
         repo_gpgcheck=1\npkg_gpgcheck=1\ngpgkey={keys}\npriority={PRIORITY}\n"
    )
}

/// zypper trusts a key only if rpm does, and otherwise asks. A whole name is that of a package
/// whose versions are not those of the driver.
fn notes(new: &NewRepository) -> Vec<Vec<String>> {
    let of_branch = new
        .packages
        .iter()
        .filter(|pattern| pattern.contains('*'))
        .flat_map(|pattern| {
            [
                format!("{pattern} < {}", new.branch),
                format!("{pattern} >= {}", new.branch + 1),
            ]
        });
    let locked: BTreeSet<_> = of_branch.chain(new.except.iter().cloned()).collect();
    keys::import(new)
        .into_iter()
        .chain([lock_command("addlock", new.name, locked)])
        .collect()
}

fn lock_command(verb: &str, name: &str, locked: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut argv = words("zypper --non-interactive");
    argv.extend([verb.to_owned(), "--repo".to_owned(), alias(name)]);
    argv.extend(locked);
    argv
}

fn noted(system: &System, name: &str, fingerprints: &[&str]) -> io::Result<Vec<Note>> {
    let mut notes = keys::trusted(system, fingerprints)?;
    notes.extend(locked(system, name)?);
    Ok(notes)
}

/// The locks of a repository, as one note.
fn locked(system: &System, name: &str) -> io::Result<Option<Note>> {
    let text = configuration(system, Path::new(LOCKS)).map_err(io::Error::other)?;
    // Others may be of kinds that are not read here.
    let of_it = format!("{REPOSITORY}{}", alias(name));
    let ours: Vec<_> = text
        .split("\n\n")
        .filter(|stanza| stanza.lines().any(|line| line.trim() == of_it))
        .collect();
    let ours = locks(&ours.join("\n\n")).map_err(io::Error::other)?;
    let locked: BTreeSet<_> = ours.into_iter().flat_map(|lock| lock.arguments()).collect();
    let [make, remove] =
        ["addlock", "removelock"].map(|verb| lock_command(verb, name, locked.clone()));
    Ok((!locked.is_empty()).then_some(Note { make, remove }))
}

/// In the file of locks, before the repository of one.
const REPOSITORY: &str = "repo: ";

/// The locks of all repositories that gpusetup added, a note for each.
fn all_locks(system: &System) -> io::Result<Vec<Note>> {
    let text = configuration(system, Path::new(LOCKS)).map_err(io::Error::other)?;
    let start = format!("{REPOSITORY}{}", alias(""));
    let names: BTreeSet<_> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix(&start))
        .collect();
    names
        .into_iter()
        .filter_map(|name| locked(system, name).transpose())
        .collect()
}

/// In the file, the locks are paragraphs.
fn remove_locks(name: &str) -> String {
    let of_it = format!("{REPOSITORY}{}", alias(name));
    format!(
        "if [ -e {LOCKS} ]; then awk -v RS= -v ORS='\\n\\n' '!/(^|\\n){of_it}(\\n|$)/' {LOCKS} >{LOCKS}.new && mv {LOCKS}.new {LOCKS}; fi\n"
    )
}

fn refresh(name: &str) -> Vec<String> {
    let mut argv = words("zypper --non-interactive refresh --force");
    argv.push(alias(name));
    argv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_branch_comes_from_it() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (packages, except, keys) = (
            words("nvidia-* dkms"),
            words("nvidia-container*"),
            [keys::path("AB")],
        );
        let new = NewRepository {
            name: "cuda-sles15-sbsa",
            url: "https://mirror.example/repos/sles15/sbsa",
            unsigned_lists: false,
            release: None,
            packages: &packages,
            any_version: &[],
            except: &except,
            branch: 580,
            keys: &keys,
        };
        let text = section(&new);
        for line in [
            "[gpusetup-cuda-sles15-sbsa]",
            "baseurl=https://mirror.example/repos/sles15/sbsa",
            "repo_gpgcheck=1",
            "pkg_gpgcheck=1",
            "gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-gpusetup-AB",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}: {text}");
        }
        let [import, lock] = &notes(&new)[..] else {
            panic!("two commands")
        };
        assert_eq!(
            import.join(" "),
            "rpm --import /etc/pki/rpm-gpg/RPM-GPG-KEY-gpusetup-AB"
        );
        assert_eq!(
            lock[2..],
            [
                "addlock",
                "--repo",
                "gpusetup-cuda-sles15-sbsa",
                "nvidia-* < 580",
                "nvidia-* >= 581",
                "nvidia-container*"
            ]
        );
    }

    #[test]
    fn its_locks_are_removed_as_they_were_made() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        assert_eq!(locked(&on, "r").expect("none"), None);
        on.make_directories("/etc/zypp", 0o755).expect("made");
        let lock = |repository: &str, rest: &str| {
            format!(
                "\ntype: package\n{repository}match_type: glob\ncase_sensitive: on\nsolvable_name: {rest}\n"
            )
        };
        let ours = "repo: gpusetup-r\nversion: >= 581\n";
        let text = lock(ours, "nvidia-*")
            + &lock("repo: gpusetup-r\n", "x*")
            + &lock("", "y")
            + &lock("repo: s\n", "z");
        on.write(LOCKS, text.as_bytes(), 0o644).expect("written");
        let note = locked(&on, "r").expect("read").expect("locks");
        assert_eq!(
            note.remove.join(" "),
            "zypper --non-interactive removelock --repo gpusetup-r nvidia-* >= 581 x*"
        );
        assert_eq!(note.make[2], "addlock");
        let names = |notes: Vec<Note>| {
            notes
                .into_iter()
                .map(|note| note.make[4].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(all_locks(&on).expect("read")), ["gpusetup-r"]);
        // A script removes them, and no others.
        let file = dir.path().join("etc/zypp/locks");
        let script = remove_locks("r").replace(LOCKS, file.to_str().expect("UTF-8"));
        let ran = std::process::Command::new("sh")
            .args(["-ec", &script])
            .status()
            .expect("sh runs");
        let left = std::fs::read_to_string(&file).expect("there");
        assert!(
            ran.success() && all_locks(&on).expect("read").is_empty(),
            "{left}"
        );
        assert_eq!(locks(&left).expect("readable").len(), 2, "{left}");
    }
}
