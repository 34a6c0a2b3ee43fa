//! zypper's repositories, and its package locks.

mod added;

use super::dnf::chosen;
use super::fetcher::{Fetcher, MadeIndex, PackageIndex};
use super::glob::pattern_matches;
use super::ini::sections;
use super::manager::{ByHand, Manager, path_in, words};
use super::records::Budget;
use super::repositories::Repositories;
use super::rpm::repodata::{Package, Repodata};
use super::rpm::{architectures, version};
use super::{Unknown, Versions, abilities::Holds, configuration, held_by_gpusetup, rpm};
use gpusetup_system::System;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

const REPOSITORIES: &str = "/etc/zypp/repos.d";
const CACHE: &str = "/var/cache/zypp/raw";
const LOCKS: &str = "/etc/zypp/locks";
const MAIN: &str = "/etc/zypp/zypp.conf";
/// Settings that move files read here.
const UNSUPPORTED_KEYS: [&str; 5] = [
    "reposdir",
    "metadatadir",
    "locksfile.path",
    "cachedir",
    "configdir",
];

/// How zypper is called. zypper and YaST fail instead of waiting for each other. Packages of NVIDIA
/// ask for agreement to its licence, which gpusetup has asked for by then.
pub(crate) static MANAGER: Manager = Manager {
    programs: &["/usr/bin/zypper"],
    initramfs: "initrd-{release}",
    record: rpm::RECORD,
    record_file: None,
    each_file: rpm::each_file,
    repositories: &[Repositories {
        path: REPOSITORIES,
        ending: Some(".repo"),
        read: rpm::repositories::lines,
    }],
    is_meant: rpm::repositories::is_meant,
    added: Some(added::FORMAT),
    refresh: None,
    simulate_install: "zypper --non-interactive install --dry-run --auto-agree-with-licenses --no-recommends",
    install: "zypper --non-interactive install --auto-agree-with-licenses --no-recommends",
    downgrade: "zypper --non-interactive install --oldpackage --force --auto-agree-with-licenses --no-recommends",
    simulate_remove: "zypper --non-interactive remove --dry-run",
    remove: "zypper --non-interactive remove",
    list: &rpm::LIST,
    separator: "=",
    enable_stream: None,
    stream_state: None,
    locks: &rpm::LOCKS,
    process: Some("/run/zypp.pid"),
    from_folder: |folder| {
        vec![
            "--no-gpg-checks".to_owned(),
            "--reposd-dir".to_owned(),
            path_in(folder, "repos"),
            "--cache-dir".to_owned(),
            path_in(folder, "lists"),
            "--plus-repo".to_owned(),
            format!("dir:{}", folder.display()),
        ]
    },
    folder_files: None,
    fetcher: Fetcher {
        // Its locks are in that root.
        folders: &["root/etc/zypp", "archives", "cache"],
        // It needs no lists in a folder of packages.
        index: PackageIndex::Made(MadeIndex {
            make: None,
            ..rpm::INDEX
        }),
        ..rpm::fetcher(
            fetcher_argv,
            "install --download-only --auto-agree-with-licenses --no-recommends",
        )
    },
    without_cache: |argv| argv,
    simulation: None,
    automatic: None,
    holds: Some(HOLDS),
    preferences: None,
    interruption: None,
    scripts: None,
    headers: None,
    offered_versions,
    dependencies: None,
    by_hand: ByHand {
        install: "zypper install",
        upgrade: "zypper update",
        remove: "zypper remove",
        reinstall: "zypper install --force",
        cxx: rpm::CXX,
        containerd: Some("containerd"),
        slurmd: Some("slurm-node"),
        venv: None,
        python_headers: "python3-devel",
        globs_versions: false,
        refresh: "zypper refresh",
        owner: "rpm -qf",
        remove_old_kernels: "zypper purge-kernels",
        add_kernel_parameter: rpm::edit_grub,
    },
};

/// Locks of packages by name.
const HOLDS: Holds = Holds {
    hold: "zypper --non-interactive addlock",
    release: "zypper --non-interactive removelock",
    held: |system| {
        let locks = configuration(system, Path::new(LOCKS)).map_err(io::Error::other)?;
        let locks = self::locks(&locks).map_err(io::Error::other)?.into_iter();
        Ok(locks
            .filter(|lock| lock.repository.is_none() && lock.versions.is_empty())
            .flat_map(|lock| lock.names)
            .collect())
    },
    tool: None,
    kernels: &[
        "kernel-default*",
        "kernel-azure*",
        "kernel-64kb*",
        "kernel-devel*",
        "kernel-macros",
        "kernel-syms*",
    ],
    list: rpm::NAMES,
};

fn fetcher_argv(work: &Path, _release: &str) -> Vec<String> {
    let options = [
        ("--root", "root"),
        ("--cache-dir", "cache"),
        ("--pkg-cache-dir", "archives"),
    ];
    let options = options.map(|(option, name)| [option.to_owned(), path_in(work, name)]);
    words("zypper --non-interactive")
        .into_iter()
        .chain(options.into_iter().flatten())
        .collect()
}

/// See [`super::offered_versions`].
pub(crate) fn offered_versions(
    system: &System,
    names: &BTreeSet<&str>,
    locked: &Versions,
) -> Result<Versions, Unknown> {
    if system
        .list(CACHE)
        .map_err(|e| Unknown::at(CACHE, e))?
        .is_empty()
    {
        return Err(Unknown::NotFetched);
    }
    let architectures = architectures(system)?;
    let main = sections(&configuration(system, Path::new(MAIN))?);
    if let Some(key) = UNSUPPORTED_KEYS
        .iter()
        .find(|key| main.iter().any(|s| s.value(key).is_some()))
    {
        return Err(Unknown::at(
            MAIN,
            format!("the setting {key} is not supported"),
        ));
    }
    let mut locks =
        locks(&configuration(system, Path::new(LOCKS))?).map_err(|why| Unknown::at(LOCKS, why))?;
    // gpusetup releases its own before a change.
    let ours = held_by_gpusetup(system).map_err(|e| Unknown::at(LOCKS, e))?;
    locks.retain(|lock| lock.names.iter().any(|name| !ours.contains(name)));
    let (budget, repositories) = (Budget::default(), repositories(system)?);
    let (mut packages, mut any) = (Vec::new(), false);
    for (at, repository) in repositories.iter().enumerate() {
        // A slash would make a subfolder.
        let folder = Path::new(CACHE).join(repository.alias.replace('/', "_"));
        let Some(repodata) = Repodata::read(system, &folder.join("repodata"), &budget)? else {
            if system.list(&folder).is_ok_and(|names| !names.is_empty()) {
                return Err(Unknown::at(
                    folder,
                    "this kind of repository is not supported",
                ));
            }
            // zypper ignores repositories that it could not download.
            continue;
        };
        any = true;
        let found = repodata
            .packages(system, &budget, |name| names.contains(name))?
            .into_iter();
        let taken = found.filter(|p| {
            architectures.contains(&p.architecture.as_str())
                && !locks.iter().any(|lock| lock.matches(p, &repository.alias))
        });
        packages.extend(taken.map(|package| (at, package)));
    }
    if !any {
        return Err(Unknown::NotFetched);
    }
    Ok(chosen(
        &packages,
        architectures,
        |at| repositories[at].priority,
        locked,
    ))
}

struct Repository {
    alias: String,
    priority: i64,
}

/// The enabled repositories.
fn repositories(system: &System) -> Result<Vec<Repository>, Unknown> {
    let mut all = Vec::new();
    for name in system
        .list(REPOSITORIES)
        .map_err(|e| Unknown::at(REPOSITORIES, e))?
    {
        let path = Path::new(REPOSITORIES).join(&name);
        if !name.ends_with(".repo") {
            continue;
        }
        for section in sections(&configuration(system, &path)?) {
            if section.switch("enabled").unwrap_or(true) {
                let priority = match section.number("priority", 99, &path)? {
                    0 => 99,
                    priority => priority,
                };
                all.push(Repository {
                    priority,
                    alias: section.name,
                });
            }
        }
    }
    Ok(all)
}

/// A condition on a package's version.
type Range = (Vec<Ordering>, String);

/// A stanza of the file of locks.
#[derive(Debug, Default)]
struct PackageLock {
    names: Vec<String>,
    is_glob: bool,
    repository: Option<String>,
    versions: Vec<Range>,
    /// The conditions as they are in the file: `>= 596`.
    conditions: Vec<String>,
}

impl PackageLock {
    /// The arguments by which zypper's commands add and remove it.
    fn arguments(self) -> Vec<String> {
        self.names
            .iter()
            .flat_map(|name| match self.conditions.as_slice() {
                [] => vec![name.clone()],
                conditions => conditions
                    .iter()
                    .map(|condition| format!("{name} {condition}"))
                    .collect(),
            })
            .collect()
    }

    fn matches(&self, package: &Package, repository: &str) -> bool {
        self.names
            .iter()
            .any(|pattern| self.is_named(pattern, package))
            && self.repository.as_ref().is_none_or(|r| r == repository)
            && (self.versions.is_empty() || self.versions.iter().any(|range| is_in(range, package)))
    }

    fn is_named(&self, pattern: &str, package: &Package) -> bool {
        match self.is_glob {
            true => pattern_matches(
                pattern.to_lowercase().as_bytes(),
                package.name.to_lowercase().as_bytes(),
            ),
            false => *pattern == package.name,
        }
    }
}

fn locks(text: &str) -> Result<Vec<PackageLock>, String> {
    let mut locks = Vec::new();
    for stanza in text.split("\n\n") {
        let (mut lock, mut is_of_packages, mut any) = (PackageLock::default(), true, false);
        for line in stanza
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty() && !l.starts_with('#'))
        {
            any = true;
            let (key, value) = line
                .split_once(':')
                .ok_or_else(|| format!("{line:?} is malformed"))?;
            let value = value.trim().trim_matches('"');
            match key.trim() {
                "type" => is_of_packages = value == "package",
                "match_type" => lock.is_glob = is_glob(value)?,
                "case_sensitive" | "comment" => {}
                "solvable_name" | "query_string" => lock.names.push(value.to_owned()),
                "repo" => lock.repository = Some(value.to_owned()),
                "version" => {
                    lock.versions.push(range(value)?);
                    lock.conditions.push(value.to_owned());
                }
                odd => return Err(format!("a lock by {odd} is not supported")),
            }
        }
        if any && is_of_packages {
            locks.push(lock);
        }
    }
    Ok(locks)
}

fn is_glob(kind: &str) -> Result<bool, String> {
    match kind {
        "glob" => Ok(true),
        "exact" => Ok(false),
        _ => Err(format!("a lock of the kind {kind} is not supported")),
    }
}

fn range(text: &str) -> Result<Range, String> {
    use Ordering::{Equal, Greater, Less};
    let (sign, version) = text.split_once(' ').unwrap_or(("==", text));
    let accepted = match sign {
        "=" | "==" => vec![Equal],
        "<" => vec![Less],
        "<=" => vec![Less, Equal],
        ">" => vec![Greater],
        ">=" => vec![Greater, Equal],
        _ => return Err(format!("a lock of the version {text:?} is not supported")),
    };
    Ok((accepted, version.trim().to_owned()))
}

/// For fuzzing.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    let package = Package {
        name: "a".to_owned(),
        version: "1".to_owned(),
        release: "1".to_owned(),
        ..Package::default()
    };
    let _ = locks(text)
        .unwrap_or_default()
        .iter()
        .any(|lock| lock.matches(&package, "r"));
}

fn is_in((accepted, limit): &Range, package: &Package) -> bool {
    // Without a release in the limit, any release matches.
    let evr = package.evr();
    let evr = if limit.contains('-') {
        &evr
    } else {
        evr.rsplit_once('-').map_or(&*evr, |(v, _)| v)
    };
    accepted.contains(&version::compare(evr, limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A repository: its name, its settings, its packages.
    type Repository<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

    fn host(locks: &str, repositories: &[Repository]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let write = |path: String, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("lib64/ld-linux-x86-64.so.2".to_owned(), "");
        write("etc/zypp/locks".to_owned(), locks);
        for (alias, section, packages) in repositories {
            write(
                format!("etc/zypp/repos.d/{alias}.repo"),
                &format!("[{alias}]\nenabled=1\n{section}"),
            );
            let repomd = "<repomd><data type=\"primary\"><location href=\"repodata/p.xml\"/></data></repomd>";
            write(
                format!("var/cache/zypp/raw/{alias}/repodata/repomd.xml"),
                repomd,
            );
            let packages = packages.iter().map(|(name, version)| {
                let version = format!("<version epoch=\"0\" ver=\"{version}\" rel=\"1\"/>");
                format!("<package type=\"rpm\"><name>{name}</name><arch>x86_64</arch>{version}</package>\n")
            });
            write(
                format!("var/cache/zypp/raw/{alias}/repodata/p.xml"),
                &packages.collect::<String>(),
            );
        }
        dir
    }

    fn offered(dir: &tempfile::TempDir) -> Result<Vec<String>, String> {
        let versions = offered_versions(
            &System::at(dir.path()),
            &BTreeSet::from(["a", "b"]),
            &Versions::new(),
        );
        versions
            .map(|all| all.iter().map(|(n, v)| format!("{n} {v}")).collect())
            .map_err(|e| e.to_string())
    }

    const LOCK: &str = "type: package\nmatch_type: glob\ncase_sensitive: on\nsolvable_name: ";

    #[test]
    fn the_best_priority_comes_before_the_newest() {
        let two: &[_] = &[("a", "1"), ("b", "1")];
        let dir = host(
            "",
            &[
                ("r", "", two),
                ("s", "priority=90\n", &[("a", "0.9")]),
                ("o", "enabled=0\n", two),
            ],
        );
        assert_eq!(offered(&dir).expect("known"), ["a 0.9-1", "b 1-1"]);
        assert!(
            offered(&host("", &[]))
                .expect_err("unknown")
                .contains("never downloaded")
        );
        fs::create_dir_all(dir.path().join("var/cache/zypp/raw/plain/media.1")).expect("made");
        fs::write(
            dir.path().join("etc/zypp/repos.d/plain.repo"),
            "[plain]\ntype=yast2\n",
        )
        .expect("written");
        assert!(
            offered(&dir)
                .expect_err("unknown")
                .contains("not supported")
        );
    }

    #[test]
    fn what_is_locked_is_not_offered() {
        let all: &[_] = &[("a", "1"), ("a", "2"), ("b", "1")];
        let of = |locks: &str| offered(&host(locks, &[("r", "", all)]));
        assert_eq!(of(&format!("\n{LOCK}a\n")).expect("known"), ["b 1-1"]);
        assert_eq!(
            of(&format!("{LOCK}*\nversion: > 1\n")).expect("known"),
            ["a 1-1", "b 1-1"]
        );
        assert_eq!(
            of(&format!(
                "{LOCK}a\nversion: == 2-1\n\n{LOCK}b\nrepo: other\n"
            ))
            .expect("known"),
            ["a 1-1", "b 1-1"]
        );
        assert_eq!(
            of("type: patch\nmatch_type: glob\nsolvable_name: a\n").expect("known"),
            ["a 2-1", "b 1-1"]
        );
        for odd in [
            "type package\n",
            &format!("{LOCK}a\nversion: ~ 1\n"),
            "match_type: regex\nsolvable_name: a\n",
            "x: y\n",
        ] {
            assert!(of(odd).is_err(), "{odd}");
        }
    }
}
