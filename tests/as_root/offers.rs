//! What the repositories offer, beside what the package managers themselves say: apt's, dnf's and
//! zypper's own programs on a Debian root, with repositories, preferences, locks and modules of
//! many kinds. `tests/run` runs this: it takes root.

use crate::host::{Ran, machine, script, store, text, timed};
use gpusetup::compat::PackageManager;
use gpusetup::packages::{Versions, offered_versions};
use gpusetup::system::System;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A root that is thrown away. Unlike the others' hosts it needs nothing to install from.
struct Root {
    dir: PathBuf,
}

impl Root {
    fn new(name: &str) -> Self {
        let base = timed("base root", || script("base", &[]));
        let dir = store().join("clones").join(name);
        script("drop", &[text(&dir)]);
        script("clone", &[text(&dir), &base]);
        Self { dir }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.join("root").join(path.trim_start_matches('/'))
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, content).expect("written");
    }

    fn sh(&self, script: &str) -> Ran {
        machine(
            "chroot",
            &[
                text(&self.path("/")),
                "/bin/sh",
                "-euc",
                &format!(
                    "export LC_ALL=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive\n{script}"
                ),
            ],
        )
    }

    fn ask(&self, script: &str) -> String {
        self.sh(script).succeeds().out
    }

    /// What gpusetup says of these packages.
    fn offered(&self, manager: PackageManager, names: &BTreeSet<&str>) -> Versions {
        offered_versions(
            &System::at(self.path("/")),
            manager,
            names,
            &Versions::new(),
        )
        .expect("known")
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        script("drop", &[text(&self.dir)]);
    }
}

/// Panics with the first differences.
fn same(case: &str, theirs: &BTreeMap<String, String>, ours: &Versions) {
    let names: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
    let differences: Vec<_> = names
        .into_iter()
        .filter(|name| theirs.get(*name) != ours.get(*name))
        .map(|name| {
            format!(
                "{name}: the package manager says {:?}, gpusetup {:?}",
                theirs.get(name),
                ours.get(name)
            )
        })
        .collect();
    println!(
        "  {case}: {} packages offered, {} differ",
        theirs.len(),
        differences.len()
    );
    assert!(
        differences.is_empty(),
        "{case}:\n{}",
        differences[..differences.len().min(20)].join("\n")
    );
}

/// The packages that gpusetup itself asks for, and those that the cases are about.
const NAMES: &[&str] = &[
    "nvidia-kernel-dkms",
    "nvidia-open-kernel-dkms",
    "libcuda1",
    "libnvidia-ml1",
    "nvidia-smi",
    "nvidia-modprobe",
    "nvidia-driver",
    "nvidia-cuda-toolkit",
    "linux-headers-amd64",
    "linux-image-amd64",
    "dkms",
    "gcc",
    "hello",
    "cowsay",
    "sl",
    "bash",
    "dpkg",
    "apt",
    "libc6",
    "steam-libs-i386",
    "local-a",
    "local-b",
    "local-c",
    "local-conf",
    "no-such-package",
];

/// Asks apt and gpusetup of the same packages.
fn compare(root: &Root, case: &str, sample: &[String]) {
    let names: BTreeSet<&str> = sample
        .iter()
        .map(String::as_str)
        .chain(NAMES.iter().copied())
        .collect();
    root.write(
        "/root/names",
        &names
            .iter()
            .map(|name| format!("{name}\n"))
            .collect::<String>(),
    );
    let policy = root.sh("xargs apt-cache policy </root/names");
    if policy.code != Some(0) {
        let ours = offered_versions(
            &System::at(root.path("/")),
            PackageManager::Apt,
            &names,
            &Versions::new(),
        );
        println!(
            "  {case}: apt refuses it, and gpusetup says {:?}",
            ours.as_ref().map_err(ToString::to_string)
        );
        assert!(ours.is_err(), "{case}: {}", policy.err);
        return;
    }
    let policy = policy.out;
    let (mut theirs, mut package) = (BTreeMap::new(), "");
    for line in policy.lines() {
        if let Some(name) = line.strip_suffix(':').filter(|name| !name.starts_with(' ')) {
            package = name;
        } else if let Some(version) = line
            .strip_prefix("  Candidate: ")
            .filter(|v| *v != "(none)")
        {
            theirs.insert(package.to_owned(), version.to_owned());
        }
    }
    // Of another architecture alone.
    theirs.retain(|name, _| !name.contains(':'));
    same(case, &theirs, &root.offered(PackageManager::Apt, &names));
}

/// Every package whose place in the list is a multiple of this is asked for.
const EVERY: usize = 20;

const ONE_LINE: &str = "deb http://deb.debian.org/debian bookworm main contrib non-free non-free-firmware\n\
    deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian/ bookworm-updates main # x\n\
    deb http://security.debian.org/debian-security bookworm-security main contrib non-free\n\
    deb http://deb.debian.org/debian bookworm-backports main contrib non-free\n\
    deb-src http://deb.debian.org/debian bookworm main\n# deb http://deb.debian.org/debian sid main\n";

const DEB822: &str = "# the archive\nTypes: deb deb-src\nURIs: http://deb.debian.org/debian\nSuites: bookworm bookworm-updates\n\
    \x20bookworm-backports\nComponents: main contrib non-free\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n\
    Types: deb\nURIs: http://security.debian.org/debian-security\nSuites: bookworm-security\nComponents: main\nEnabled: no\n";

/// Preferences, each with what it is about.
const PREFERENCES: &[(&str, &str)] = &[
    (
        "a release",
        "Package: *\nPin: release n=bookworm-backports\nPin-Priority: 600\n",
    ),
    (
        "never",
        "Package: *\nPin: release a=*-backports\nPin-Priority: never\n",
    ),
    (
        "a component",
        "Package: *\nPin: release c=non-free, o=Debian\nPin-Priority: -10\n",
    ),
    (
        "names",
        "Package: nvidia-* /^lib(cuda|nvidia)/ dkms\nPin: release n=bookworm-backports\nPin-Priority: 990\n",
    ),
    (
        "negative names",
        "Package: nvidia-* lib*\nPin: release o=Debian\nPin-Priority: -1\n",
    ),
    (
        "a version",
        "Package: apt bash hello\nPin: version 2.*\nPin-Priority: 1001\n",
    ),
    (
        "a downgrade",
        "Package: hello cowsay\nPin: release n=bookworm\nPin-Priority: 1001\n",
    ),
    (
        "a source",
        "Package: src:nvidia-graphics-drivers src:linux*\nPin: release n=bookworm-backports\nPin-Priority: 700\n",
    ),
    (
        "a server",
        "Package: *\nPin: origin security.debian.org\nPin-Priority: 50\n\nPackage: *\nPin: origin \"\"\nPin-Priority: 900\n",
    ),
    (
        "several",
        "Explanation: the first counts\nPackage: *\nPin: release l=Debian*,v=12*\nPin-Priority: 300\n\n# no\n\n\
         Package: *\nPin: release *\nPin-Priority: 2\n\nPackage: libc6:amd64 gcc:i386 bash:any\nPin: version *\nPin-Priority: -5\n",
    ),
    ("no field", "Package: *\nPin: release\nPin-Priority: 777\n"),
    (
        "an unknown field",
        "Package: apt bash dpkg\nPin: release x=y\nPin-Priority: 1001\n",
    ),
    (
        "an empty field",
        "Package: apt bash dpkg\nPin: release o=\nPin-Priority: 777\n",
    ),
    (
        "a kind that this apt does not know",
        "Package: nvidia-* bash\nPin: source-version 5*\nPin-Priority: 1001\n",
    ),
];

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn apt_chooses_the_same_versions() {
    let root = Root::new("offers-apt");
    root.write("/etc/apt/sources.list", ONE_LINE);
    timed("apt-get update", || root.ask("apt-get -qq update"));
    let all = root.ask("apt-cache pkgnames | sort");
    let sample: Vec<String> = all.lines().step_by(EVERY).map(str::to_owned).collect();
    println!("  {} names", sample.len());
    compare(&root, "backports enabled", &sample);

    for release in [
        "bookworm-backports",
        "bookworm",
        "12*",
        "/^bookworm/",
        "n=bookworm-updates",
        "nothing",
    ] {
        root.write(
            "/etc/apt/apt.conf.d/99release",
            &format!("APT {{ Default-Release \"{release}\"; }};\n"),
        );
        compare(&root, &format!("the default release {release}"), &sample);
    }
    root.ask("rm /etc/apt/apt.conf.d/99release");

    installed(&root);
    compare(&root, "installed and held", &sample);
    for (about, preferences) in PREFERENCES {
        root.write("/etc/apt/preferences.d/50test", preferences);
        compare(&root, &format!("preferences of {about}"), &sample);
    }
    root.write("/etc/apt/preferences", PREFERENCES[3].1);
    root.write("/etc/apt/preferences.d/60more.pref", PREFERENCES[5].1);
    root.write("/etc/apt/preferences.d/70other.no", PREFERENCES[1].1);
    compare(&root, "several files of preferences", &sample);
    root.ask("rm -r /etc/apt/preferences /etc/apt/preferences.d/*");

    local(&root);
    compare(&root, "local and flat repositories", &sample);
    // Whatever of the other architecture a mirror does not have today, both do without.
    root.ask(
        "rm /etc/apt/sources.list.d/*; dpkg --add-architecture i386; apt-get -qq update || true",
    );
    compare(&root, "two architectures", &sample);
    root.ask("dpkg --remove-architecture i386; rm /etc/apt/sources.list");
    root.write("/etc/apt/sources.list.d/debian.sources", DEB822);
    for kind in ["lz4", "xz", "gz", "zst"] {
        let order = format!(
            "Acquire::GzipIndexes \"true\";\nAcquire::CompressionTypes::Order:: \"{kind}\";\n"
        );
        root.write("/etc/apt/apt.conf.d/99compressed", &order);
        root.ask("rm -r /var/lib/apt/lists; apt-get -qq update");
        // Servers do not have every kind: what they sent is packed again, as `apt-helper cat-file`
        // would read it.
        root.ask(&repacked(kind));
        compare(&root, &format!("compressed lists, {kind}"), &sample);
    }
}

fn repacked(kind: &str) -> String {
    let pack = match kind {
        "lz4" => "python3 -c 0 2>/dev/null; lz4 -q -",
        "xz" => "xz -T2 -0",
        "gz" => "gzip -1",
        _ => "zstd -q -1",
    };
    format!(
        "command -v {program} >/dev/null || apt-get -qq install --no-install-recommends {program} >&2
         cd /var/lib/apt/lists
         for list in *_Packages*; do
           case $list in
             *.{kind}) ;;
             *) /usr/lib/apt/apt-helper cat-file \"$list\" | {pack} >/tmp/list; rm \"$list\"
                mv /tmp/list \"${{list%%_Packages*}}_Packages.{kind}\" ;;
           esac
         done
         ls",
        program = match kind {
            "gz" => "gzip",
            "xz" => "xz-utils",
            "zst" => "zstd",
            kind => kind,
        },
    )
}

/// Packages that are older, newer or other than the archive's, one that is held, and one whose
/// configuration alone is left.
fn installed(root: &Root) {
    root.ask(
        "made() {
           mkdir -p /tmp/d/DEBIAN /tmp/d/etc
           printf 'Package: %s\\nVersion: %s\\nArchitecture: %s\\nMaintainer: x <x@x>\\nDescription: x\\n' $1 $2 $3 >/tmp/d/DEBIAN/control
           echo x >/tmp/d/etc/$1.conf; echo /etc/$1.conf >/tmp/d/DEBIAN/conffiles
           dpkg-deb --root-owner-group -b /tmp/d /tmp/$1.deb >/dev/null; rm -r /tmp/d
           dpkg -i /tmp/$1.deb >/dev/null
         }
         made hello 0.1 amd64
         made cowsay 99 all
         made sl $(apt-cache madison sl | awk '{ print $3; exit }') amd64
         made local-conf 1 all
         dpkg -r local-conf >/dev/null
         apt-mark hold hello sl >/dev/null",
    );
}

/// Repositories on the disk: a flat one without a name, one that says that it is not automatic, one
/// of another architecture.
fn local(root: &Root) {
    let package = |name: &str, version: &str, architecture: &str| {
        format!(
            "Package: {name}\nVersion: {version}\nArchitecture: {architecture}\nFilename: ./x.deb\nSize: 1\nMD5sum: d41d8cd98f00b204e9800998ecf8427e\n\n"
        )
    };
    root.write(
        "/srv/flat/Packages",
        &[
            package("local-a", "1:0.9", "all"),
            package("local-a", "2.0~rc1", "amd64"),
            package("local-a", "7", "i386"),
            package("Local-B", "1.0", "amd64"),
            package("hello", "9", "amd64"),
        ]
        .concat(),
    );
    let release = "Origin: Me\nSuite: test\nCodename: zoo\nNotAutomatic: yes\n";
    root.write("/srv/dists/dists/zoo/Release", release);
    let packages = [
        package("local-c", "3", "all"),
        package("local-a", "9:1", "all"),
        package("local-b", "1.0+b1", "amd64"),
    ];
    root.write(
        "/srv/dists/dists/zoo/main/binary-amd64/Packages",
        &packages.concat(),
    );
    root.write(
        "/etc/apt/sources.list.d/local.list",
        "deb [trusted=yes] file:/srv/flat ./\ndeb [trusted=yes arch=amd64] file:///srv/dists zoo main\n",
    );
    root.ask("apt-get -qq update 2>/dev/null || apt-get update >&2; ls /var/lib/apt/lists | grep srv >&2");
}

/// Makes packages of rpm's and repositories of them: `made FOLDER NAME VERSION RELEASE [EPOCH
/// [LINE]]`.
const RPMS: &str = "mkdir -p /etc/rpm && echo '%_dbpath /var/lib/rpm' >/etc/rpm/macros
    made() {
      mkdir -p /srv/$1
      printf '%s\\n' \"Name: $2\" \"Version: $3\" \"Release: $4\" \"Epoch: ${5:-0}\" 'Summary: x' 'License: x' 'BuildArch: noarch' \
        \"${6:-Provides: y}\" '%description' 'x' '%files' >/tmp/x.spec
      rpmbuild --quiet -bb --define '_topdir /tmp/build' --define \"_rpmdir /srv/$1\" /tmp/x.spec >&2
    }";

const EL9: &str = "ID=rocky\nID_LIKE=rhel\nVERSION_ID=9.6\nPRETTY_NAME='Rocky Linux 9.6'\nPLATFORM_ID='platform:el9'\n";
const LEAP: &str =
    "ID=opensuse-leap\nID_LIKE=suse\nVERSION_ID=15.6\nPRETTY_NAME='openSUSE Leap 15.6'\n";

const RPM_NAMES: [&str; 7] = [
    "driver",
    "driver-libs",
    "tool",
    "other",
    "tilde",
    "replacement",
    "absent",
];

const MODULES: &str = "---\ndocument: modulemd-defaults\nversion: 1\ndata:\n  module: driver\n  stream: \"2\"\n  profiles:\n    \"2\": [default]\n...\n";

/// A stream of the module, with its packages.
fn stream(name: &str, packages: &[&str]) -> String {
    let rpms: String = packages.iter().map(|p| format!("    - {p}\n")).collect();
    format!(
        "---\ndocument: modulemd\nversion: 2\ndata:\n  name: driver\n  stream: \"{name}\"\n  version: 1\n  context: abcd\n  arch: x86_64\n  \
         summary: x\n  description: x\n  license:\n    module: [MIT]\n  dependencies:\n  - requires:\n      platform: [el9]\n  \
         profiles:\n    default:\n      rpms: [driver]\n  artifacts:\n    rpms:\n{rpms}...\n"
    )
}

fn with_rpms(name: &str, manager: &str, os_release: &str) -> Root {
    let root = Root::new(name);
    timed(manager, || {
        root.ask(&format!(
            "apt-get -qq update && apt-get -qq install --no-install-recommends {manager} createrepo-c rpm >&2"
        ))
    });
    root.write("/usr/lib/os-release", os_release);
    timed("packages", || {
        root.ask(&format!(
            "{RPMS}
             made one driver 580.9 1 3; made one driver 580.10 1 3; made one driver-libs 580.10 1 3
             made one tool 1.0 1; made one tool 1.0 10; made one tool 1.0 9; made one tilde 2.0~rc1 1; made one tilde 1.9 1
             made one replacement 1 1 0 'Provides: driver-libs'
             made two driver 570.1 1 3; made two tool 2.0 1; made two other 1 1; made two driver-libs 599 1
             createrepo_c --quiet /srv/one; createrepo_c --quiet /srv/two"
        ))
    });
    root
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn dnf_chooses_the_same_versions() {
    let root = with_rpms("offers-dnf", "dnf", EL9);
    let names: BTreeSet<&str> = RPM_NAMES.into_iter().collect();
    let set = |main: &str, one: &str, two: &str| {
        root.write(
            "/etc/dnf/dnf.conf",
            &format!("[main]\ngpgcheck=0\nmodule_platform_id=platform:el9\n{main}"),
        );
        let section =
            |id: &str, more: &str| format!("[{id}]\nname={id}\nbaseurl=file:///srv/{id}\n{more}\n");
        root.write(
            "/etc/yum.repos.d/both.repo",
            &[section("one", one), section("two", two)].concat(),
        );
        root.ask("dnf -q makecache >&2");
    };
    let lines = |text: &str| -> BTreeMap<String, String> {
        text.lines()
            .filter_map(|l| l.split_once(' '))
            .map(|(n, v)| (n.to_owned(), v.to_owned()))
            .collect()
    };
    let query = || {
        let asked = format!(
            "dnf -q -C repoquery --available --latest-limit 1 --qf '%{{name}} %{{evr}}' {}",
            RPM_NAMES.join(" ")
        );
        lines(&root.ask(&asked))
    };
    // What would be installed, where priorities count.
    let transaction = |names: &[&str]| {
        let output = root
            .sh(&format!(
                "dnf -C install --assumeno --setopt=install_weak_deps=0 {}",
                names.join(" ")
            ))
            .out;
        let rows = output.lines().filter_map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            match words[..] {
                [name, "noarch", evr, _, _, _] => Some((name.to_owned(), evr.to_owned())),
                _ => None,
            }
        });
        rows.collect::<BTreeMap<_, _>>()
    };
    let case = |about: &str| same(about, &query(), &root.offered(PackageManager::Dnf, &names));

    set("", "", "");
    case("dnf, two repositories");
    set("", "", "enabled=0");
    case("dnf, one of them disabled");
    for (about, main, one) in [
        ("a name", "excludepkgs=driver", ""),
        ("patterns", "excludepkgs=driver*, tool-2*", ""),
        ("a version", "exclude=tool-1.0-10 tilde-2*", ""),
        (
            "a repository's own",
            "",
            "excludepkgs=tool driver-580.10-1.noarch",
        ),
        ("what alone is included", "includepkgs=tool,other", ""),
        (
            "what a repository alone includes",
            "",
            "includepkgs=driver-3:580.9*",
        ),
        (
            "an architecture",
            "excludepkgs=*.noarch",
            "includepkgs=tool",
        ),
    ] {
        set(main, one, "");
        case(&format!("dnf, excludes: {about}"));
    }
    set("", "priority=90", "priority=50");
    let installed = transaction(&["driver", "tool", "other", "tilde"]);
    let ours = root.offered(PackageManager::Dnf, &names);
    same(
        "dnf, priorities",
        &installed,
        &ours
            .into_iter()
            .filter(|(name, _)| installed.contains_key(name))
            .collect(),
    );
    assert_eq!(
        installed["driver"], "3:570.1-1",
        "older, in the better repository"
    );

    let modules = [
        MODULES.to_owned(),
        stream(
            "1",
            &["driver-3:580.9-1.noarch", "driver-libs-3:580.10-1.noarch"],
        ),
        stream("2", &["driver-3:580.10-1.noarch"]),
    ];
    root.write("/root/modules.yaml", &modules.concat());
    root.ask("modifyrepo_c --mdtype=modules /root/modules.yaml /srv/one/repodata >&2; rm -rf /var/cache/dnf");
    set("", "", "");
    case("dnf, the default stream");
    root.ask("dnf -q -y module enable driver:1 >&2");
    case("dnf, another stream");
    root.ask("dnf -q -y module disable driver >&2");
    case("dnf, the module disabled");
    set("", "", "module_hotfixes=1");
    root.ask("dnf -q -y module reset driver >&2; dnf -q -y module enable driver:2 >&2");
    case("dnf, a repository of hotfixes");
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn zypper_chooses_the_same_versions() {
    let root = with_rpms("offers-zypper", "zypper", LEAP);
    let names: BTreeSet<&str> = RPM_NAMES.into_iter().collect();
    // zypper does not know a system without any package.
    root.ask(&format!(
        "{RPMS}\nmade base base 1 1; rpm --install /srv/base/noarch/*.rpm >&2"
    ));
    let set = |one: &str, two: &str| {
        let section = |id: &str, more: &str| {
            format!("[{id}]\nname={id}\nbaseurl=file:///srv/{id}\ngpgcheck=0\nenabled=1\n{more}\n")
        };
        root.write("/etc/zypp/repos.d/one.repo", &section("one", one));
        root.write("/etc/zypp/repos.d/two.repo", &section("two", two));
        root.ask("zypper --non-interactive --no-gpg-checks refresh >&2");
    };
    // The newest first; a repository of a better priority before it.
    let search = |best: &str| {
        let asked = format!(
            "zypper --non-interactive --no-refresh search -s --match-exact --type package {} || true",
            RPM_NAMES.join(" ")
        );
        let output = root.ask(&asked);
        let rows = output.lines().filter_map(|line| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            match cells[..] {
                [_, name, "package", version, _, repository] => {
                    Some((name.to_owned(), version.to_owned(), repository.to_owned()))
                }
                _ => None,
            }
        });
        let mut found: BTreeMap<String, (bool, String)> = BTreeMap::new();
        for (name, version, repository) in rows {
            let is_best = repository == best;
            let known = found.get(&name);
            if known.is_none_or(|(known_is_best, _)| is_best && !known_is_best) {
                found.insert(name, (is_best, version));
            }
        }
        found
            .into_iter()
            .map(|(name, (_, version))| (name, version))
            .collect::<BTreeMap<_, _>>()
    };
    let ours = || root.offered(PackageManager::Zypper, &names);

    set("", "");
    same("zypper, two repositories", &search(""), &ours());
    set("", "enabled=0");
    same("zypper, one of them disabled", &search(""), &ours());
    set("priority=90", "priority=50");
    same("zypper, priorities", &search("two"), &ours());
    set("", "");
    for lock in [
        "driver",
        "'driver*'",
        "'tool > 1.5'",
        "'tilde == 2.0~rc1-1'",
        "--repo one tool",
    ] {
        root.ask(&format!("zypper --non-interactive addlock {lock} >&2"));
        let (all, ours) = (search(""), ours());
        // What zypper would install one by one: nothing that is locked.
        let mut theirs = BTreeMap::new();
        for name in all.keys() {
            let output = root
                .sh(&format!(
                    "zypper --non-interactive --no-refresh --no-gpg-checks --xmlout install --dry-run --details {name}"
                ))
                .out;
            let line = output.lines().find(|l| {
                l.contains(&format!("name=\"{name}\""))
                    && l.contains("<solvable")
                    && l.contains("edition=\"")
            });
            let edition = line
                .and_then(|l| l.split_once("edition=\""))
                .and_then(|(_, r)| r.split('"').next());
            theirs.extend(edition.map(|edition| (name.clone(), edition.to_owned())));
        }
        same(&format!("zypper, the lock {lock}"), &theirs, &ours);
        root.ask("rm -f /etc/zypp/locks");
    }
}

/// A tree's own programs are data from strangers: a marker in their place would tell that they ran.
#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn no_program_of_a_tree_runs() {
    let root = Root::new("offers-tree");
    root.write("/etc/apt/sources.list", ONE_LINE);
    root.ask("apt-get -qq update");
    let loader = "/usr/bin/apt-cache";
    root.write(loader, "#!/bin/sh\ntouch /ran\n");
    machine("chmod", &["755", text(&root.path(loader))]).succeeds();
    let facts = crate::host::gpusetup(["facts", "--json", "--root", text(&root.path("/"))])
        .succeeds()
        .json();
    assert!(
        facts["offered"]["nvidia-smi"].is_string(),
        "{}",
        facts["offered"]
    );
    let tree = root.path("/");
    for verb in ["facts", "plan"] {
        let strace = [
            "-f",
            "-qq",
            "-e",
            "trace=execve,chroot",
            "-e",
            "signal=none",
            env!("CARGO_BIN_EXE_gpusetup"),
            verb,
        ];
        let traced = machine("strace", &[&strace[..], &["--root", text(&tree)]].concat());
        let ran: Vec<_> = traced
            .err
            .lines()
            .filter(|line| line.contains("execve(") || line.contains("chroot("))
            .collect();
        assert_eq!(ran.len(), 1, "only gpusetup itself: {ran:?}");
    }
    assert!(!Path::new(&root.path("/ran")).exists());
}
