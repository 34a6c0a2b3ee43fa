//! dnf's repositories: which ones are enabled, where their lists are, and which of their packages
//! are hidden.

mod added;
mod cache;
mod holds;
mod modules;

use super::fetcher::Fetcher;
use super::ini::{Section, sections};
use super::manager::{ByHand, KernelHeaders, Manager, path_in};
use super::records::Budget;
use super::rpm::pattern::Pattern;
use super::rpm::repodata::{Package, Repodata};
use super::rpm::{CXX, LIST, LOCKS, RECORD, architectures, each_file, version};
use super::{Unknown, Versions, configuration, manager, rpm};
use cache::Variables;
use gpusetup_system::System;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const MAIN: &str = "/etc/dnf/dnf.conf";
const REPOSITORIES: [&str; 3] = [
    "/etc/yum.repos.d",
    "/etc/yum/repos.d",
    "/etc/distro.repos.d",
];
/// Folders that must be empty: their files change repositories or hide packages in unsupported
/// ways.
const UNSUPPORTED_FOLDERS: [&str; 4] = [
    "/etc/dnf/repos.override.d",
    "/usr/share/dnf5/repos.override.d",
    "/etc/dnf/modules.defaults.d",
    "/etc/dnf/libdnf5.conf.d",
];
const UNSUPPORTED_KEYS: [&str; 6] = [
    "reposdir",
    "varsdir",
    "cachedir",
    "system_cachedir",
    "disable_excludes",
    "module_obsoletes",
];

/// How dnf is called. It waits for its own lock automatically. Without `--best`, which Red Hat's
/// configuration has, it leaves installed packages as they are.
pub(crate) static MANAGER: Manager = Manager {
    programs: &["/usr/bin/dnf", "/usr/bin/dnf5"],
    initramfs: "initramfs-{release}.img",
    record: RECORD,
    record_file: None,
    each_file,
    repositories: rpm::repositories::OF_YUM,
    is_meant: rpm::repositories::is_meant,
    added: Some(added::FORMAT),
    refresh: None,
    simulate_install: "dnf -y -q --best --setopt=tsflags=test install",
    install: "dnf -y -q --best install",
    downgrade: "dnf -y -q downgrade",
    simulate_remove: "dnf -y -q --setopt=tsflags=test remove",
    remove: "dnf -y -q remove",
    list: &LIST,
    separator: "-",
    enable_stream: Some("dnf -y -q --setopt=module_stream_switch=True module enable"),
    stream_state: Some("/etc/dnf/modules.d/{module}.module"),
    locks: &LOCKS,
    process: None,
    from_folder: |folder| {
        vec![
            "--disablerepo=*".to_owned(),
            format!("--repofrompath=gpusetup,file://{}", folder.display()),
            "--setopt=gpusetup.gpgcheck=0".to_owned(),
            // The module's stream was chosen when the bundle was made; the bundle has no list of
            // modules.
            "--setopt=gpusetup.module_hotfixes=1".to_owned(),
            format!("--setopt=cachedir={}", folder.join("lists").display()),
        ]
    },
    folder_files: None,
    fetcher: Fetcher {
        enable_stream: Some("module enable"),
        ..rpm::fetcher(fetcher_argv, "--downloadonly install")
    },
    without_cache: |argv| argv,
    simulation: None,
    automatic: None,
    holds: Some(holds::HOLDS),
    preferences: None,
    interruption: None,
    scripts: None,
    headers: Some(KernelHeaders::ByVersion),
    offered_versions,
    dependencies: None,
    by_hand: ByHand {
        install: "dnf install",
        upgrade: "dnf upgrade",
        remove: "dnf remove",
        reinstall: "dnf install",
        cxx: CXX,
        containerd: None,
        slurmd: Some("slurm-slurmd"),
        venv: None,
        python_headers: "python3-devel",
        globs_versions: true,
        refresh: "dnf makecache",
        owner: "rpm -qf",
        remove_old_kernels: "dnf remove --oldinstallonly",
        add_kernel_parameter: |parameter| {
            vec![format!(
                "sudo grubby --update-kernel=ALL --args={parameter}"
            )]
        },
    },
};

fn fetcher_argv(work: &Path, release: &str) -> Vec<String> {
    let options = [
        format!("--installroot={}", path_in(work, "root")),
        format!("--releasever={release}"),
        "--setopt=varsdir=/etc/dnf/vars".to_owned(),
        format!("--setopt=cachedir={}", path_in(work, "cache")),
        // The command-line option differs between versions of dnf; this setting does not.
        format!("--setopt=destdir={}", path_in(work, "archives")),
    ];
    manager::words("dnf -y -q")
        .into_iter()
        .chain(options)
        .collect()
}

/// See [`super::offered_versions`].
pub(crate) fn offered_versions(
    system: &System,
    names: &BTreeSet<&str>,
    locked: &Versions,
) -> Result<Versions, Unknown> {
    if !cache::is_there(system) {
        return Err(Unknown::NotFetched);
    }
    let architectures = architectures(system)?;
    let settings = Settings::read(system)?;
    let variables = Variables::read(system, architectures[0])?;
    let mut repositories = repositories(system)?;
    repositories.retain(|r| r.is_enabled);
    let budget = Budget::default();
    let mut available = Vec::new();
    for (at, repository) in repositories.iter().enumerate() {
        let folder = cache::folder(system, &repository.id, &repository.address, &variables)?;
        let repodata = folder
            .map(|f| Repodata::read(system, &f.join("repodata"), &budget))
            .transpose()?
            .flatten();
        match repodata {
            Some(repodata) => available.push((at, repodata)),
            None if repository
                .skip_if_unavailable
                .unwrap_or(settings.skip_if_unavailable) => {}
            None => return Err(Unknown::NotFetched),
        }
    }
    if available.is_empty() {
        return Err(Unknown::NotFetched);
    }

    let patterns = Patterns::of(&settings, &repositories);
    let mut packages = Vec::new();
    for (at, repodata) in &available {
        let found = repodata
            .packages(system, &budget, |name| {
                names.contains(name) || patterns.may_match(name)
            })?
            .into_iter();
        let taken = found.filter(|p| architectures.contains(&p.architecture.as_str()));
        packages.extend(taken.map(|package| (*at, package)));
    }
    let hidden = patterns.hidden(&packages);
    let mut packages: Vec<(usize, Package)> = packages
        .into_iter()
        .zip(hidden)
        .filter(|((_, p), hidden)| !hidden && names.contains(&*p.name))
        .map(|(p, _)| p)
        .collect();
    let files: Vec<&PathBuf> = available
        .iter()
        .filter_map(|(_, repodata)| repodata.modules.as_ref())
        .collect();
    modules::hide(
        system,
        &files,
        settings.platform.as_deref(),
        |at| repositories[at].is_hotfix,
        &mut packages,
        &budget,
    )?;
    Ok(chosen(
        &packages,
        architectures,
        |at| repositories[at].priority,
        locked,
    ))
}

/// The newest version of each package in the repositories of the best priority; an available locked
/// version is preferred. Packages of the host's own architecture, or of none, are preferred to all
/// others.
pub(crate) fn chosen(
    packages: &[(usize, Package)],
    architectures: &[&str],
    priority: impl Fn(usize) -> i64,
    locked: &Versions,
) -> Versions {
    let mut best: BTreeMap<&str, &(usize, Package)> = BTreeMap::new();
    let mut chosen = Versions::new();
    let rank = |(at, package): &(usize, Package)| {
        (
            Reverse(!architectures[..2].contains(&package.architecture.as_str())),
            Reverse(priority(*at)),
        )
    };
    for found in packages {
        let (_, package) = found;
        if locked
            .get(&package.name)
            .is_some_and(|l| *l == package.evr() || is_without_epoch(l, package))
        {
            chosen.insert(package.name.clone(), locked[&package.name].clone());
        }
        let is_better = best.get(&*package.name).is_none_or(|known| {
            rank(found)
                .cmp(&rank(known))
                .then_with(|| version::compare(&package.evr(), &known.1.evr()))
                .is_gt()
        });
        if is_better {
            best.insert(&package.name, found);
        }
    }
    for (name, (_, package)) in best {
        chosen
            .entry(name.to_owned())
            .or_insert_with(|| package.evr());
    }
    chosen
}

/// Whether a locked version without an epoch matches: rpm's own list omits epochs.
fn is_without_epoch(locked: &str, package: &Package) -> bool {
    locked
        .split_once('-')
        .is_some_and(|(v, r)| (v, r) == (package.version.as_str(), package.release.as_str()))
}

/// The settings in `[main]`.
struct Settings {
    excludes: Vec<String>,
    includes: Vec<String>,
    skip_if_unavailable: bool,
    platform: Option<String>,
}

impl Settings {
    fn read(system: &System) -> Result<Self, Unknown> {
        for folder in UNSUPPORTED_FOLDERS {
            if system
                .list(folder)
                .map_err(|e| Unknown::at(folder, e))?
                .iter()
                .any(|name| !name.starts_with('.'))
            {
                return Err(Unknown::at(
                    folder,
                    "the files in this directory are not supported",
                ));
            }
        }
        holds::only_our_own(system)?;
        let all = sections(&configuration(system, Path::new(MAIN))?);
        let main = all
            .into_iter()
            .find(|s| s.name == "main")
            .unwrap_or_default();
        if let Some(key) = UNSUPPORTED_KEYS
            .iter()
            .find(|key| main.value(key).is_some())
        {
            return Err(Unknown::at(
                MAIN,
                format!("the setting {key} is not supported"),
            ));
        }
        let platform = main.value("module_platform_id").map(str::to_owned);
        Ok(Self {
            excludes: excludes(&main),
            includes: words(&main, "includepkgs"),
            skip_if_unavailable: main.switch("skip_if_unavailable").unwrap_or(false),
            platform: platform.or_else(|| cache::os_release(system, "PLATFORM_ID")),
        })
    }
}

fn excludes(section: &Section) -> Vec<String> {
    ["excludepkgs", "exclude"]
        .iter()
        .flat_map(|key| words(section, key))
        .collect()
}

fn words(section: &Section, key: &str) -> Vec<String> {
    section.words(key).into_iter().map(str::to_owned).collect()
}

/// A repository's section.
struct Repository {
    id: String,
    is_enabled: bool,
    /// The URL from which its folder's name is derived.
    address: String,
    priority: i64,
    excludes: Vec<String>,
    includes: Vec<String>,
    is_hotfix: bool,
    skip_if_unavailable: Option<bool>,
}

impl Repository {
    fn of(section: &Section, path: &Path) -> Result<Self, Unknown> {
        let value = |key: &str| section.value(key).filter(|v| !v.is_empty());
        let first =
            value("baseurl").and_then(|v| v.split([',', ' ', '\t', '\n']).find(|w| !w.is_empty()));
        let address = value("metalink")
            .or(value("mirrorlist"))
            .or(first)
            .unwrap_or(&section.name);
        Ok(Self {
            id: section.name.clone(),
            is_enabled: section.switch("enabled").unwrap_or(true),
            address: address.to_owned(),
            priority: section.number("priority", 99, path)?,
            excludes: excludes(section),
            includes: words(section, "includepkgs"),
            is_hotfix: section.switch("module_hotfixes").unwrap_or(false),
            skip_if_unavailable: section.switch("skip_if_unavailable"),
        })
    }
}

fn repositories(system: &System) -> Result<Vec<Repository>, Unknown> {
    let mut all: Vec<Repository> = Vec::new();
    let mut paths = vec![PathBuf::from(MAIN)];
    for folder in REPOSITORIES {
        let names = system.list(folder).map_err(|e| Unknown::at(folder, e))?;
        paths.extend(
            names
                .iter()
                .filter(|n| n.ends_with(".repo"))
                .map(|n| Path::new(folder).join(n)),
        );
    }
    for path in paths {
        for section in sections(&configuration(system, &path)?)
            .iter()
            .filter(|s| s.name != "main")
        {
            if all.iter().any(|other| other.id == section.name) {
                return Err(Unknown::at(
                    &path,
                    format!("the repository {} is defined twice", section.name),
                ));
            }
            all.push(Repository::of(section, &path)?);
        }
    }
    Ok(all)
}

/// The patterns of excluded packages, and of included ones, which exclude all others.
struct Patterns {
    /// Each with the repository that it applies to; none for all.
    excludes: Vec<(Option<usize>, Pattern)>,
    includes: Vec<(Option<usize>, Pattern)>,
}

impl Patterns {
    fn of(settings: &Settings, repositories: &[Repository]) -> Self {
        Self {
            excludes: patterns(&settings.excludes, repositories, |r| &r.excludes),
            includes: patterns(&settings.includes, repositories, |r| &r.includes),
        }
    }

    fn may_match(&self, name: &str) -> bool {
        self.excludes
            .iter()
            .chain(&self.includes)
            .any(|(_, pattern)| pattern.may_match(name))
    }

    fn hidden(&self, packages: &[(usize, Package)]) -> Vec<bool> {
        let excluded = matching(&self.excludes, packages);
        let included = matching(&self.includes, packages);
        let all = packages.iter().zip(excluded).zip(included);
        let hidden = all.map(|(((at, _), excluded), included)| {
            let mut includes = self.includes.iter();
            excluded
                || !included && includes.any(|(repository, _)| repository.is_none_or(|r| r == *at))
        });
        hidden.collect()
    }
}

fn patterns(
    general: &[String],
    repositories: &[Repository],
    own: fn(&Repository) -> &[String],
) -> Vec<(Option<usize>, Pattern)> {
    let own = repositories
        .iter()
        .enumerate()
        .flat_map(|(at, r)| own(r).iter().map(move |p| (Some(at), p)));
    let all = general.iter().map(|p| (None, p)).chain(own);
    all.map(|(at, p)| (at, Pattern::new(p))).collect()
}

/// Which of the packages a pattern matches.
fn matching(patterns: &[(Option<usize>, Pattern)], packages: &[(usize, Package)]) -> Vec<bool> {
    let mut matched = vec![false; packages.len()];
    for (repository, pattern) in patterns {
        let fits = pattern.fitting(packages.iter().map(|(_, package)| package));
        for ((at, package), matched) in packages.iter().zip(&mut matched) {
            *matched |= repository.is_none_or(|r| r == *at) && fits(package);
        }
    }
    matched
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};
    use std::fs;

    /// A repository: its name, its settings, its packages with version and release.
    type Repository<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str, &'a str)]);

    fn host(main: &str, repositories: &[Repository]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let write = |path: String, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("lib64/ld-linux-x86-64.so.2".to_owned(), "");
        write(
            "etc/os-release".to_owned(),
            "ID=rocky\nVERSION_ID=\"9.4\"\nPLATFORM_ID=\"platform:el9\"\n",
        );
        write("etc/dnf/dnf.conf".to_owned(), main);
        for (id, section, packages) in repositories {
            let url = format!("https://r.example/{id}/9/x86_64");
            let text =
                format!("[{id}]\nbaseurl=https://r.example/{id}/$releasever/$basearch\n{section}");
            write(format!("etc/yum.repos.d/{id}.repo"), &text);
            let sum: String = Sha256::digest(url)
                .iter()
                .take(8)
                .map(|b| format!("{b:02x}"))
                .collect();
            let folder = format!("var/cache/dnf/{id}-{sum}/repodata");
            let repomd = "<repomd><data type=\"primary\"><location href=\"repodata/p.xml\"/></data></repomd>";
            write(format!("{folder}/repomd.xml"), repomd);
            let packages = packages.iter().map(|(name, version, release)| {
                let version = format!("<version epoch=\"0\" ver=\"{version}\" rel=\"{release}\"/>");
                format!("<package type=\"rpm\"><name>{name}</name><arch>noarch</arch>{version}</package>\n")
            });
            write(format!("{folder}/p.xml"), &packages.collect::<String>());
        }
        dir
    }

    fn offered(dir: &tempfile::TempDir, locked: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let locked = locked
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect();
        let versions = offered_versions(
            &System::at(dir.path()),
            &BTreeSet::from(["a", "b", "c"]),
            &locked,
        );
        versions
            .map(|all| all.iter().map(|(n, v)| format!("{n} {v}")).collect())
            .map_err(|e| e.to_string())
    }

    #[test]
    fn the_newest_of_the_best_priority_is_offered() {
        let old: &[_] = &[
            ("a", "1", "1"),
            ("a", "1", "10"),
            ("a", "1", "9"),
            ("x", "1", "1"),
        ];
        let dir = host(
            "",
            &[
                ("old", "", old),
                ("new", "priority=50\n", &[("a", "0", "1"), ("b", "1", "1")]),
            ],
        );
        assert_eq!(offered(&dir, &[]).expect("known"), ["a 0-1", "b 1-1"]);
        assert_eq!(
            offered(&dir, &[("a", "1-9"), ("b", "7-1")]).expect("known"),
            ["a 1-9", "b 1-1"]
        );
        let dir = host(
            "",
            &[("old", "", old), ("off", "enabled=0\n", &[("a", "9", "1")])],
        );
        assert_eq!(offered(&dir, &[]).expect("known"), ["a 1-10"]);
    }

    #[test]
    fn excluded_packages_are_hidden() {
        let all: &[_] = &[
            ("a", "1", "1"),
            ("a", "2", "1"),
            ("b", "1", "1"),
            ("bb", "1", "1"),
        ];
        let of = |main: &str, section: &str| {
            offered(&host(main, &[("r", section, all)]), &[]).expect("known")
        };
        assert_eq!(of("[main]\nexcludepkgs=a-2*, x\n", ""), ["a 1-1", "b 1-1"]);
        assert_eq!(of("[main]\nexclude=b*\n", ""), ["a 2-1"]);
        assert_eq!(of("", "excludepkgs=a\n"), ["b 1-1"]);
        assert_eq!(of("", "includepkgs=b a-1-1.noarch\n"), ["a 1-1", "b 1-1"]);
        assert_eq!(
            of("[main]\nincludepkgs=a\nexcludepkgs=a-2-1\n", ""),
            ["a 1-1"]
        );
    }

    #[test]
    fn what_was_not_downloaded_or_is_not_supported_is_not_known() {
        let dir = host("", &[("r", "", &[("a", "1", "1")])]);
        let more = |section: &str| {
            fs::write(
                dir.path().join("etc/yum.repos.d/s.repo"),
                format!("[s]\nbaseurl=http://s\n{section}"),
            )
            .expect("written");
        };
        more("");
        assert!(
            offered(&dir, &[])
                .expect_err("unknown")
                .contains("never downloaded")
        );
        more("skip_if_unavailable=1\n");
        assert_eq!(offered(&dir, &[]).expect("known"), ["a 1-1"]);
        more("priority=x\n");
        assert!(offered(&dir, &[]).is_err());
        more("enabled=0\n");
        fs::create_dir_all(dir.path().join("etc/dnf/plugins")).expect("made");
        fs::write(
            dir.path().join("etc/dnf/plugins/versionlock.list"),
            "# none\n",
        )
        .expect("written");
        assert!(offered(&dir, &[]).is_ok());
        fs::write(
            dir.path().join("etc/dnf/plugins/versionlock.list"),
            "a-0:1-1.*\n",
        )
        .expect("written");
        assert!(
            offered(&dir, &[])
                .expect_err("unknown")
                .contains("locked versions")
        );
        assert!(offered(&host("[main]\nreposdir=/x\n", &[]), &[]).is_err());
        assert!(offered(&host("", &[]), &[]).is_err());
    }
}
