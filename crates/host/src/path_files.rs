//! Files in which guides have people name a toolkit: those that login shells read, those of the
//! loader, and module files. Read only to take such lines out, or to name them.

use gpusetup_system::System;
use gpusetup_system::limits::{MAX_HOME, MAX_LOOK, MAX_RECORD};
use gpusetup_text::paths::{LOADER_PATH, PROFILE};
use gpusetup_text::text::quoted_path;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How a file of search paths is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// For a shell like Bash.
    Shell,
    /// Variables without a shell's syntax, which PAM reads.
    Environment,
    /// A directory in each line, which ldconfig reads.
    Loader,
}

/// The files of the system. Debian's and RHEL's names for Bash differ. SUSE's files read the
/// `.local` ones at their end.
const OF_SYSTEM: [(&str, Syntax); 7] = [
    ("/etc/profile", Syntax::Shell),
    ("/etc/bash.bashrc", Syntax::Shell),
    ("/etc/bashrc", Syntax::Shell),
    ("/etc/profile.local", Syntax::Shell),
    ("/etc/bash.bashrc.local", Syntax::Shell),
    ("/etc/environment", Syntax::Environment),
    ("/etc/ld.so.conf", Syntax::Loader),
];
/// Files of the system that are looked at and not edited: C shells', zsh's with Debian's names and
/// RHEL's, what new users get, PAM's variables (pam_env.conf(5)), and sudo's `secure_path`.
const OF_SYSTEM_ONLY_READ: [&str; 14] = [
    "/etc/csh.cshrc",
    "/etc/csh.login",
    "/etc/fish/config.fish",
    "/etc/zsh/zshenv",
    "/etc/zsh/zprofile",
    "/etc/zsh/zshrc",
    "/etc/zsh/zlogin",
    "/etc/zshenv",
    "/etc/zprofile",
    "/etc/zshrc",
    "/etc/skel/.bashrc",
    "/etc/skel/.profile",
    "/etc/security/pam_env.conf",
    "/etc/sudoers",
];
/// Folders of the system, and how the names of files in them end. Those without a syntax are looked
/// at and not edited. systemd reads `environment.d` for the sessions of users (environment.d(5)).
const FOLDERS: [(&str, &str, Option<Syntax>); 6] = [
    ("/etc/profile.d", ".sh", Some(Syntax::Shell)),
    ("/etc/profile.d", ".csh", None),
    ("/etc/environment.d", ".conf", None),
    ("/etc/fish/conf.d", ".fish", None),
    ("/etc/sudoers.d", "", None),
    ("/etc/ld.so.conf.d", ".conf", Some(Syntax::Loader)),
];
/// The folders in the MODULEPATH that packages of Lmod and Environment Modules set: three of RHEL
/// and its relatives, four of Debian and Ubuntu. Their files are looked at and not edited;
/// gpusetup's own are removed with their toolkit.
const MODULE_PATH: [&str; 7] = [
    "/etc/modulefiles",
    "/usr/share/modulefiles",
    "/usr/share/Modules/modulefiles",
    "/usr/share/modules/modulefiles",
    "/etc/environment-modules/modules",
    "/etc/lmod/modules",
    "/usr/share/lmod/lmod/modulefiles",
];
/// The file in a home.
const OF_HOME: &str = ".bashrc";
/// Files in a home that are looked at and not edited. Debian's `.bashrc` reads `.bash_aliases`;
/// `.xprofile` and `.xsessionrc` are read when a graphical session starts, `.pam_environment` by
/// PAM.
const ONLY_READ: [&str; 15] = [
    ".profile",
    ".bash_profile",
    ".bash_login",
    ".bash_aliases",
    ".zshenv",
    ".zprofile",
    ".zshrc",
    ".zlogin",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".config/fish/config.fish",
    ".pam_environment",
    ".xprofile",
    ".xsessionrc",
];
/// Folders in a home, and how the names of the files in them end, which are looked at and not
/// edited.
const FOLDERS_OF_HOME: [(&str, &str); 2] = [
    (".config/fish/conf.d", ".fish"),
    (".config/environment.d", ".conf"),
];
/// The units that an administrator wrote, and the changes to others in folders below.
const UNITS: &str = "/etc/systemd/system";
/// The user numbers of people; others belong to services (UID_MIN and UID_MAX of shadow's
/// login.defs).
const OF_PEOPLE: std::ops::RangeInclusive<u32> = 1000..=60_000;

/// The line by which a module file of gpusetup's is known.
pub const MODULE_MARK: &str = "# Written by gpusetup (gpusetup use cuda --module-files).";

/// A file that puts directories on a search path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The number of its owner.
    pub owner: u32,
    /// Its text.
    pub text: String,
    /// How it is written; none where it is only looked at.
    pub syntax: Option<Syntax>,
    /// Whether it is in the home of a user.
    pub is_private: bool,
}

impl PathFile {
    /// Whether it is a module file that gpusetup wrote.
    pub fn is_own_module(&self) -> bool {
        self.has_line(MODULE_MARK)
    }

    /// Whether it is the module file that gpusetup wrote for the toolkit in this directory.
    pub fn is_own_module_of(&self, toolkit: &Path) -> bool {
        self.is_own_module()
            && self.has_line(&format!("setenv CUDA_HOME {{{}}}", toolkit.display()))
    }

    fn has_line(&self, wanted: &str) -> bool {
        self.text.lines().any(|line| line == wanted)
    }
}

/// The files that were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathFiles {
    /// Those that were read.
    pub read: Vec<PathFile>,
    /// Why others were not, each a sentence.
    pub left: Vec<String>,
}

impl PathFiles {
    /// Reads the files of the system but for gpusetup's own, and those of root and of people.
    pub fn of(on: &System) -> Self {
        let on = &on.looked_at();
        let mut all = Self::default();
        OF_SYSTEM
            .iter()
            .for_each(|(path, syntax)| all.add(on, Path::new(path), 0, false, Some(*syntax)));
        for (folder, ending, syntax) in FOLDERS {
            let paths = files_in(on, Path::new(folder), ending).into_iter();
            let others = paths.filter(|path| {
                ![PROFILE, LOADER_PATH]
                    .iter()
                    .any(|ours| path == Path::new(ours))
            });
            others.for_each(|path| all.add(on, &path, 0, false, syntax));
        }
        OF_SYSTEM_ONLY_READ
            .iter()
            .for_each(|path| all.add(on, Path::new(path), 0, false, None));
        // Lmod's folder of Debian is below a link to its version.
        let folders: BTreeSet<_> = MODULE_PATH
            .iter()
            .filter_map(|folder| on.canonical(folder).ok())
            .collect();
        folders
            .iter()
            .for_each(|folder| all.add_module_files(on, folder));
        all.add_units(on);
        let mut rest = MAX_LOOK;
        for (home, users) in all.homes(on) {
            if rest < MAX_HOME || all.left.len() > MAX_LEFT_IN_ALL {
                all.pass_over(
                    on,
                    &home,
                    "the homes before it have too many files for it and those after it to be looked into",
                );
                break;
            }
            let people = &on.at_home();
            let found = Self::of_home(people, &home, &users);
            people
                .left_out()
                .iter()
                .take(MAX_NAMED_OF_HOME)
                .for_each(|one| on.pass_over(&one.path, &one.why));
            rest -= people.spent();
            all.read.extend(found.read);
            all.left.extend(found.left);
        }
        let left_out = on
            .left_out()
            .into_iter()
            .map(|one| format!("{}: {}", quoted_path(&one.path), one.why));
        let left_out: Vec<_> = left_out
            .filter(|reason| !all.left.contains(reason))
            .collect();
        all.left.extend(left_out);
        all
    }

    /// Reads the files of a home that these users have: once, however many they are, as its
    /// owner's, or the first one's if root owns it.
    fn of_home(people: &System, home: &Path, users: &BTreeSet<u32>) -> Self {
        let mut found = Self::default();
        if !is_its_own_place(people, home) {
            return found;
        }
        let owner = people.metadata(home).map(|meta| meta.uid()).ok();
        let owner = owner.and_then(|uid| {
            if uid == 0 {
                users.first().copied()
            } else {
                users.get(&uid).copied()
            }
        });
        let Some(uid) = owner else { return found };
        found.add(people, &home.join(OF_HOME), uid, true, Some(Syntax::Shell));
        ONLY_READ
            .iter()
            .for_each(|name| found.add(people, &home.join(name), uid, true, None));
        for (folder, ending) in FOLDERS_OF_HOME {
            let folder = home.join(folder);
            let is_own = is_its_own_place(people, &folder);
            let files = files_in(people, &folder, ending)
                .into_iter()
                .filter(|_| is_own);
            files.for_each(|path| found.add(people, &path, uid, true, None));
        }
        found
    }

    /// Adds what can be read of CUDA's module files in a folder: `cuda-11.2`, `cuda/11.2`. Links
    /// among them are other names.
    fn add_module_files(&mut self, on: &System, folder: &Path) {
        let named = on
            .list(folder)
            .unwrap_or_default()
            .into_iter()
            .filter(|name| name.starts_with("cuda"))
            .map(|name| folder.join(name));
        let paths = named.flat_map(|path| [files_in(on, &path, ""), vec![path]].concat());
        self.add_readable(on, paths.collect());
    }

    /// Adds what can be read of systemd's units. Links among them enable the units of packages.
    fn add_units(&mut self, on: &System) {
        let folder = Path::new(UNITS);
        let changes = files_in(on, folder, ".service.d")
            .into_iter()
            .flat_map(|folder| files_in(on, &folder, ".conf"));
        self.add_readable(
            on,
            changes.chain(files_in(on, folder, ".service")).collect(),
        );
    }

    fn add_readable(&mut self, on: &System, paths: Vec<PathBuf>) {
        let files = paths
            .into_iter()
            .filter_map(|path| Some((on.editable(&path).ok()?.ok()??, path)));
        self.read.extend(files.map(|(file, path)| PathFile {
            path,
            owner: file.uid,
            text: file.text,
            syntax: None,
            is_private: false,
        }));
    }

    fn add(
        &mut self,
        on: &System,
        path: &Path,
        owner: u32,
        is_private: bool,
        syntax: Option<Syntax>,
    ) {
        let shown = quoted_path(path);
        match on.editable(path) {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(file))) if file.uid != owner => {
                self.leave(format!("{shown} belongs to another user"))
            }
            Ok(Ok(Some(file))) => {
                let (path, text) = (path.to_owned(), file.text);
                self.read.push(PathFile {
                    path,
                    owner,
                    text,
                    syntax,
                    is_private,
                });
            }
            Ok(Err(why)) => self.leave(why),
            Err(e) => self.leave(format!("{shown}: {e}")),
        }
    }

    /// Says why a file was not read: of the system, or of one home, the first ones.
    fn leave(&mut self, reason: String) {
        match self.left.len() {
            MAX_LEFT => self.left.push("and more files beside it".to_owned()),
            number if number < MAX_LEFT => self.left.push(reason),
            _ => {}
        }
    }

    fn pass_over(&mut self, on: &System, path: &Path, why: &str) {
        on.pass_over(path, why);
        self.left.push(format!("{}: {why}", quoted_path(path)));
    }

    /// The homes of root and of people, with their users, by `/etc/passwd`.
    fn homes(&mut self, on: &System) -> BTreeMap<PathBuf, BTreeSet<u32>> {
        let text = on
            .read_text_up_to("/etc/passwd", MAX_RECORD)
            .ok()
            .flatten()
            .unwrap_or_default();
        let (mut homes, mut lines) = (BTreeMap::<_, BTreeSet<_>>::new(), text.lines());
        for (home, uid) in lines.by_ref().filter_map(home).take(MAX_HOMES) {
            homes.entry(home).or_default().insert(uid);
        }
        if lines.any(|line| home(line).is_some()) {
            let why = format!(
                "the homes of its first {MAX_HOMES} people were looked into, and no others"
            );
            self.pass_over(on, Path::new("/etc/passwd"), &why);
        }
        homes
    }
}

/// Whether no link is on the way to a folder: it would lead to a place that others may have chosen.
fn is_its_own_place(people: &System, folder: &Path) -> bool {
    people.canonical(folder).is_ok_and(|path| path == folder)
}

/// What a folder has whose name ends like this.
fn files_in(on: &System, folder: &Path, ending: &str) -> Vec<PathBuf> {
    let names = on
        .list(folder)
        .unwrap_or_default()
        .into_iter()
        .filter(|name| name.ends_with(ending));
    names.map(|name| folder.join(name)).collect()
}

/// How many files that were not read are named of the system, or of one home.
const MAX_LEFT: usize = 20;
/// The same of all homes.
const MAX_LEFT_IN_ALL: usize = 2000;
/// How many that were too large are named of one home where the whole host is spoken of.
const MAX_NAMED_OF_HOME: usize = 2;
/// How many homes are looked into. On hosts with more people, most of them are in a directory
/// service.
const MAX_HOMES: usize = 1000;

/// The home in a line of `/etc/passwd`, and its user, if that is root or a person.
fn home(line: &str) -> Option<(PathBuf, u32)> {
    let mut fields = line.split(':').skip(2);
    let (uid, home) = (fields.next()?.parse().ok()?, PathBuf::from(fields.nth(2)?));
    let is_persons = uid == 0 || OF_PEOPLE.contains(&uid);
    (is_persons && home.is_absolute() && home.parent().is_some()).then_some((home, uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_their_owner_are_read() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        let me = rustix::process::geteuid().as_raw();
        let of_people = if me == 0 { 0 } else { me };
        for home in ["/home/ann", "/home/daemon", "/root"] {
            on.make_directories(home, 0o755).expect("made");
            on.write(format!("{home}/.bashrc"), b"x\n", 0o644)
                .expect("written");
        }
        on.make_directories("/etc", 0o755).expect("made");
        on.link("/home/link", Path::new("/root")).expect("linked");
        on.make_directories("/usr/share/modulefiles/cuda/old", 0o755)
            .expect("made");
        on.write("/usr/share/modulefiles/cuda/11.8", b"#%Module1.0\n", 0o644)
            .expect("written");
        on.link("/usr/share/modulefiles/cuda/default", Path::new("11.8"))
            .expect("linked");
        on.write("/usr/share/modulefiles/cuda-11.2", b"#%Module1.0\n", 0o644)
            .expect("written");
        on.write("/usr/share/modulefiles/gcc", b"#%Module1.0\n", 0o644)
            .expect("written");
        on.make_directories("/usr/share/lmod/8.6.19/modulefiles/cuda", 0o755)
            .expect("made");
        on.link("/usr/share/lmod/lmod", Path::new("8.6.19"))
            .expect("linked");
        on.write(
            "/usr/share/lmod/8.6.19/modulefiles/cuda/11.2.lua",
            b"--\n",
            0o644,
        )
        .expect("written");
        for folder in [
            "/etc/systemd/system/x.service.d",
            "/home/ann/.config/fish/conf.d",
        ] {
            on.make_directories(folder, 0o755).expect("made");
        }
        on.write(
            "/etc/systemd/system/x.service.d/cuda.conf",
            b"[Service]\n",
            0o644,
        )
        .expect("written");
        on.link(
            "/etc/systemd/system/y.service",
            Path::new("/usr/lib/systemd/system/y.service"),
        )
        .expect("linked");
        on.write("/home/ann/.config/fish/conf.d/cuda.fish", b"x\n", 0o644)
            .expect("written");
        on.link("/home/ann/.config/environment.d", Path::new("/root"))
            .expect("linked");
        let passwd = format!(
            "ann:x:{of_people}:1:Ann:/home/ann:/bin/bash\nd:x:999:1::/home/daemon:/x\nl:x:{of_people}:1::/home/link:/x\nbad\n\
             e:x:1001:1::/home/ann/else:/x\n"
        );
        on.write("/etc/passwd", passwd.as_bytes(), 0o644)
            .expect("written");
        on.link("/home/ann/.profile", Path::new("/root/.bashrc"))
            .expect("linked");
        let found = PathFiles::of(&on);
        let read: Vec<_> = found
            .read
            .iter()
            .map(|file| file.path.display().to_string())
            .collect();
        let modules = [
            "lmod/8.6.19/modulefiles/cuda/11.2.lua",
            "modulefiles/cuda/11.8",
            "modulefiles/cuda-11.2",
        ];
        let modules = modules.map(|file| format!("/usr/share/{file}"));
        let others = [
            "/etc/systemd/system/x.service.d/cuda.conf",
            "/home/ann/.bashrc",
            "/home/ann/.config/fish/conf.d/cuda.fish",
        ];
        assert_eq!(read, [&modules[..], &others.map(str::to_owned)].concat());
        assert_eq!(
            found.left,
            ["/home/ann/.profile is a link to /root/.bashrc"]
        );
    }

    #[test]
    fn one_home_does_not_use_up_what_is_read_of_the_others() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        let me = rustix::process::geteuid().as_raw();
        for folder in ["/etc", "/home/ann/.config/fish/conf.d", "/home/zoe"] {
            on.make_directories(folder, 0o755).expect("made");
        }
        let passwd = ["ann", "zoe"]
            .map(|name| format!("{name}:x:{me}:1::/home/{name}:/bin/sh\n"))
            .concat();
        on.write("/etc/passwd", passwd.as_bytes(), 0o644)
            .expect("written");
        for n in 0..300 {
            on.write(
                format!("/home/ann/.config/fish/conf.d/{n}.fish"),
                b"x\n",
                0o644,
            )
            .expect("written");
        }
        on.write("/home/zoe/.bashrc", b"x\n", 0o644)
            .expect("written");
        let found = PathFiles::of(&on);
        let of_zoe = found
            .read
            .iter()
            .filter(|file| file.path.starts_with("/home/zoe"))
            .count();
        assert!(
            of_zoe == 1 && found.read.len() < 257,
            "{of_zoe} of {}",
            found.read.len()
        );
        assert!(
            found
                .left
                .iter()
                .any(|reason| reason.contains("/home/ann") && reason.contains("256 KiB")),
            "{:?}",
            found.left
        );
    }
}
