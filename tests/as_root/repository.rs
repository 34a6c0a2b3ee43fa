//! NVIDIA's network repository, added by `--method repository`: real apt and dnf with repositories
//! made here, signed by keys made here, whose fingerprints stand in a copy of the database.

use crate::host::{Host, Ran, Server, gpusetup, machine, script, text};
use crate::short::{self, deb};
use crate::signer::{self, Pinned, Signer};
use gpusetup::operation::{AddRepository, Operation};
use gpusetup::plan::Plan;
use std::fs;
use std::path::{Path, PathBuf};

const NOW: &str = "595.91.07-1";
const LATER: &str = "595.99.02-1";
const NEXT_BRANCH: &str = "620.10.01-1";
const DRIVER: [&str; 3] = ["nvidia-kernel-open-dkms", "nvidia-driver-cuda", "libcuda1"];
/// The repository's folder below a server, and the file of its key there.
const BELOW: &str = "compute/cuda/repos/debian12/x86_64";
const KEY_FILE: &str = "3bf863cc.pub";
const PINNED: Pinned = Pinned {
    id: "3bf863cc",
    fingerprint: "EB693B3035CD5710E231E123A4B469963BF863CC",
};
/// Everything that adding it leaves on a host.
const OURS: &str = "find /etc/apt /usr/share/keyrings -name '*gpusetup*'";

/// A package without anything in it but what it needs.
pub fn package(folder: &Path, name: &str, version: &str) {
    let tree = tempfile::tempdir().expect("a folder");
    let depends = match name {
        "nvidia-driver-cuda" => format!("Depends: libcuda1 (= {version})\n"),
        "datacenter-gpu-manager-4-cuda13" => {
            format!("Depends: datacenter-gpu-manager-4-core (= {version})\n")
        }
        "datacenter-gpu-manager-4-core" => "Conflicts: datacenter-gpu-manager\n".to_owned(),
        "nvidia-fs" => format!("Depends: nvidia-fs-dkms (= {version})\n"),
        _ => String::new(),
    };
    let control = format!(
        "Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\n{depends}Description: a test\n"
    );
    fs::create_dir(tree.path().join("DEBIAN")).expect("made");
    if name == "libcuda1" {
        let libraries = tree.path().join("usr/lib/x86_64-linux-gnu");
        fs::create_dir_all(&libraries).expect("made");
        let upstream = version.split('-').next().expect("a version");
        fs::write(libraries.join(format!("libcuda.so.{upstream}")), "").expect("written");
    }
    fs::write(tree.path().join("DEBIAN/control"), control).expect("written");
    machine("chmod", &["-R", "u=rwX,go=rX", text(tree.path())]);
    // File names have no epoch.
    let in_name = version.rsplit(':').next().expect("a version");
    let file = folder.join(format!("{name}_{in_name}_all.deb"));
    machine(
        "dpkg-deb",
        &[
            "--root-owner-group",
            "-Znone",
            "--build",
            text(tree.path()),
            text(&file),
        ],
    )
    .succeeds();
}

/// Makes the lists of a folder again, signed as NVIDIA signs its own.
pub fn publish(folder: &Path, signer: &Signer) {
    let at = format!("cd {}", text(folder));
    let label = "-o APT::FTPArchive::Release::Origin=NVIDIA -o 'APT::FTPArchive::Release::Label=NVIDIA CUDA'";
    let lists = format!(
        "{at} && rm -f InRelease Release && apt-ftparchive packages . >Packages && \
         apt-ftparchive {label} release . >../Release && mv ../Release Release"
    );
    machine("sh", &["-ec", &lists]).succeeds();
    let [from, to] = ["Release", "InRelease"].map(|name| folder.join(name));
    signer.gpg(&[
        "--digest-algo",
        "SHA512",
        "--output",
        text(&to),
        "--clearsign",
        text(&from),
    ]);
}

pub fn database(folder: &Path, fingerprints: &[&str]) -> PathBuf {
    signer::database(folder, PINNED, fingerprints)
}

/// A Debian 12 whose own repository has nothing but empty build tools.
pub fn host(name: &str) -> Host {
    let host = Host::of(name, Path::new(&script("base", &[])));
    let headers = format!("linux-headers-{}", host.kernel());
    let tools = [
        "dkms",
        "gcc",
        "g++",
        "gcc-12",
        "make",
        "libc6-dev",
        "linux-headers-amd64",
        &headers,
    ];
    short::offer(&host, &tools.map(|name| deb(name, ":")));
    host
}

fn version(host: &Host, name: &str) -> String {
    host.ask(&format!(
        "dpkg-query -W -f '${{Version}}' {name} 2>/dev/null || true"
    ))
}

fn candidate(host: &Host, name: &str) -> String {
    host.ask(&format!(
        "apt-cache policy {name} | sed -n 's/^  Candidate: //p'"
    ))
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn only_what_the_pinned_key_signs_comes_to_debian() {
    let served = tempfile::tempdir().expect("a folder");
    let folder = served.path().join(BELOW);
    fs::create_dir_all(&folder).expect("made");
    let [ours, stranger, next] = ["ours", "stranger", "next"].map(Signer::new);
    for name in DRIVER {
        [NOW, NEXT_BRANCH]
            .iter()
            .for_each(|version| package(&folder, name, version));
    }
    for (name, version) in [
        ("bash", "99-1"),
        ("cuda-toolkit-13-0", "13.0-1"),
        ("nvidia-container-toolkit", "1.18-1"),
    ] {
        package(&folder, name, version);
    }
    let server = Server::of(served.path());
    let facts = tempfile::tempdir().expect("a folder");
    let known = database(facts.path(), &[&ours.fingerprint]);
    let host = host("repository");
    let root = host.root();
    let call = |database: &Path, arguments: &[&str]| -> Ran {
        let (verb, rest) = arguments.split_first().expect("a verb");
        gpusetup(
            [*verb, "--root", text(&root), "--database", text(database)]
                .into_iter()
                .chain(rest.iter().copied()),
        )
    };
    let wish = [
        "--profile",
        "driver",
        "--method",
        "repository",
        "--mirror",
        &server.url,
    ];
    let apply = |database: &Path| {
        call(
            database,
            &[&["apply", "--yes", "--accept-eula"], &wish[..]].concat(),
        )
    };
    let packages = || host.ask("dpkg-query -W");

    // The key's file is another key: refused before the first change.
    publish(&folder, &ours);
    fs::write(folder.join(KEY_FILE), stranger.public_key()).expect("written");
    let before = packages();
    let ran = apply(&known);
    assert_eq!(ran.code, Some(10), "{ran:?}");
    for part in [
        ours.fingerprint.as_str(),
        &stranger.fingerprint,
        "GS404",
        KEY_FILE,
    ] {
        assert!(ran.err.contains(part), "{part}: {ran:?}");
    }
    assert!(packages() == before && host.ask(OURS).is_empty());
    // Both keys in one file are no better: the stranger would be trusted too.
    fs::write(
        folder.join(KEY_FILE),
        ours.public_key() + &stranger.public_key(),
    )
    .expect("written");
    assert_eq!(apply(&known).code, Some(10));

    // Lists that the key did not sign, or nobody, or a key that has expired. What was written is
    // gone again.
    fs::write(folder.join(KEY_FILE), ours.public_key()).expect("written");
    let expired = Signer::expired();
    for (case, signer) in [
        ("another key", Some(&stranger)),
        ("nobody", None),
        ("an expired key", Some(&expired)),
    ] {
        publish(&folder, signer.unwrap_or(&ours));
        let (mut key, mut database_of_case) = (ours.public_key(), known.clone());
        match case {
            "nobody" => fs::remove_file(folder.join("InRelease")).expect("removed"),
            "an expired key" => {
                (key, database_of_case) = (
                    expired.public_key(),
                    database(facts.path(), &[&expired.fingerprint]),
                );
            }
            _ => {}
        }
        fs::write(folder.join(KEY_FILE), key).expect("written");
        let ran = apply(&database_of_case);
        let (code, why) = if case == "an expired key" {
            (10, "it expired on 2022-01-02")
        } else {
            (7, "cannot be used")
        };
        assert!(
            ran.code == Some(code) && ran.err.contains(why),
            "{case}: {ran:?}"
        );
        assert_eq!(
            (host.ask(OURS), version(&host, "libcuda1")),
            (String::new(), String::new()),
            "{case}"
        );
    }

    // A mirror whose lists name a file that it lacks: later, and nothing of it stays half
    // installed.
    publish(&folder, &ours);
    fs::write(folder.join(KEY_FILE), ours.public_key()).expect("written");
    let lacking = folder.join(format!("libcuda1_{NOW}_all.deb"));
    let aside = served.path().join("aside");
    fs::rename(&lacking, &aside).expect("moved");
    let ran = apply(&known);
    assert_eq!(
        (ran.code, version(&host, "nvidia-driver-cuda").as_str()),
        (Some(6), ""),
        "{ran:?}"
    );
    fs::rename(&aside, &lacking).expect("moved");

    // The right key. The packages have no kernel module, which the last step finds.
    let ran = apply(&known);
    assert_eq!(ran.code, Some(8), "{ran:?}");
    for name in DRIVER {
        assert_eq!(version(&host, name), NOW, "{name}");
    }
    // Nothing else comes from there, and no other branch.
    assert_ne!(candidate(&host, "bash"), "99-1");
    for name in ["cuda-toolkit-13-0", "nvidia-container-toolkit"] {
        assert_eq!(candidate(&host, name), "(none)", "{name}");
    }
    let plan = call(&known, &[&["plan"], &wish[..], &["--json"]].concat())
        .succeeds()
        .json();
    assert_eq!(
        plan["selection"]["driver"]["version"], "595.91.07",
        "{}",
        plan["reasons"]
    );

    // An upgrade stays in the branch.
    DRIVER.iter().for_each(|name| package(&folder, name, LATER));
    publish(&folder, &ours);
    host.ask("apt-get -qq update && apt-get -qq -y upgrade");
    assert_eq!(DRIVER.map(|name| version(&host, name)), [LATER; 3]);
    // Lists that somebody else signs from now on are not taken: the old ones stay.
    DRIVER
        .iter()
        .for_each(|name| package(&folder, name, "595.99.99-1"));
    publish(&folder, &stranger);
    host.ask("apt-get -q update || true");
    assert_eq!(candidate(&host, "libcuda1"), LATER);

    // Uninstalling takes the repository along; so does a rollback.
    call(&known, &["uninstall", "--driver", "--yes"]).succeeds();
    assert_eq!(
        (host.ask(OURS), version(&host, "libcuda1")),
        (String::new(), String::new())
    );
    // Both keys while one replaces the other; the new one signs.
    let both = database(facts.path(), &[&ours.fingerprint, &next.fingerprint]);
    fs::write(folder.join("more1.pub"), next.public_key()).expect("written");
    publish(&folder, &next);
    assert_eq!(apply(&both).code, Some(8));
    assert_eq!(version(&host, "libcuda1"), "595.99.99-1");
    call(&both, &["rollback", "--yes"]).succeeds();
    assert_eq!(
        (host.ask(OURS), version(&host, "libcuda1")),
        (String::new(), String::new())
    );

    // Without a network: the bundle has the key and the packages.
    let (plan, bundle) = (facts.path().join("plan.json"), facts.path().join("bundle"));
    call(
        &both,
        &[&["plan"], &wish[..], &["--out", text(&plan)]].concat(),
    )
    .succeeds();
    let make = [
        "bundle",
        "create",
        "--plan",
        text(&plan),
        "--out",
        text(&bundle),
        "--root",
        text(&root),
    ];
    gpusetup(
        [
            &make[..],
            &["--database", text(&both), "--mirror", &server.url],
        ]
        .concat(),
    )
    .succeeds();
    drop(server);
    host.ask("rm -rf /var/cache/gpusetup");
    let ran = gpusetup([
        "apply",
        "--root",
        text(&root),
        "--bundle",
        text(&bundle),
        "--yes",
        "--accept-eula",
    ]);
    assert_eq!(ran.code, Some(8), "{ran:?}");
    assert_eq!(version(&host, "libcuda1"), "595.99.99-1");
    assert_eq!(
        host.ask(OURS).lines().count(),
        4,
        "two keys, a source and its preferences"
    );
}

/// The repositories that a plan adds.
fn all_added(plan: &[&str]) -> Vec<AddRepository> {
    let plan: Plan =
        serde_json::from_str(&gpusetup(plan.iter().copied()).succeeds().out).expect("a plan");
    let repositories = plan.acts().filter_map(|act| match &act.operation {
        Operation::AddRepository(repository) => Some(repository.clone()),
        _ => None,
    });
    repositories.collect()
}

/// The first repository that a plan adds.
fn added(plan: &[&str]) -> AddRepository {
    all_added(plan).into_iter().next().expect("one is added")
}

/// A spec file of packages with nothing in them.
fn spec(names: &[&str]) -> String {
    let head = "Name: nothing\nVersion: 1\nRelease: 1\nSummary: a test\nLicense: none\nBuildArch: noarch\n%description\na test\n";
    let of = |name: &&str| {
        format!(
            "%package -n {name}\nSummary: a test\n%description -n {name}\na test\n%files -n {name}\n"
        )
    };
    head.to_owned() + &names.iter().map(of).collect::<String>()
}

/// An empty root for dnf, and a folder of packages with nothing in them to serve to it.
struct DnfHost {
    work: tempfile::TempDir,
    /// The folder of the packages, under `served`.
    packages: PathBuf,
    /// How often dnf ran: each run has its own cache.
    runs: usize,
}

impl DnfHost {
    fn offering(folder: &str, names: &[&str]) -> Self {
        let work = tempfile::tempdir().expect("a folder");
        let packages = work.path().join("served").join(folder);
        let host = Self {
            work,
            packages,
            runs: 0,
        };
        for folder in [host.at("repos"), host.at("root"), host.packages.clone()] {
            fs::create_dir_all(folder).expect("made");
        }
        fs::write(host.at("spec"), spec(names)).expect("written");
        let into = format!("_rpmdir {}", text(&host.packages));
        let name = "_build_name_fmt %%{NAME}.rpm";
        let spec = host.at("spec");
        let build = ["-bb", "--quiet", "-D", &into, "-D", name, text(&spec)];
        machine("rpmbuild", &build).succeeds();
        host
    }

    fn at(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    fn list_packages(&self) {
        machine("createrepo_c", &["--quiet", text(&self.packages)]).succeeds();
    }

    fn dnf(&mut self, arguments: &[&str]) -> Ran {
        self.runs += 1;
        let cache = self.at(&format!("cache{}", self.runs));
        let options = [
            format!("--installroot={}", text(&self.at("root"))),
            format!("--setopt=reposdir={}", text(&self.at("repos"))),
            format!("--setopt=cachedir={}", text(&cache)),
        ];
        let options = options.iter().map(String::as_str);
        let all = ["-y", "-q", "--releasever=9"]
            .into_iter()
            .chain(options)
            .chain(arguments.iter().copied());
        machine("dnf", &all.collect::<Vec<_>>())
    }

    /// The names of the packages that the repositories offer, sorted.
    fn offered(&mut self) -> Vec<String> {
        let query = ["repoquery", "--available", "--qf", "%{name}\n"];
        let offered = self.dnf(&query).succeeds().out;
        let mut names: Vec<_> = offered.split_whitespace().map(str::to_owned).collect();
        names.sort_unstable();
        names
    }
}

#[test]
#[ignore = "needs root and what tests/run installs"]
fn only_what_the_pinned_key_signs_comes_to_dnf() {
    let driver = ["nvidia-driver-cuda", "kmod-nvidia-open-dkms"];
    let others = ["nvidia-container-toolkit", "cuda-toolkit-13-0", "bash"];
    let names = [&driver[..], &others[..]].concat();
    let mut host = DnfHost::offering("compute/cuda/repos/rhel9/x86_64", &names);
    let [ours, stranger] = ["ours", "stranger"].map(Signer::new);

    // The source as the plan for such a host has it, with the key where this test can write.
    let server = Server::of(&host.at("served"));
    let plan = [
        "plan",
        "--os",
        "rhel-9",
        "--gpu",
        "a100",
        "--method",
        "repository",
        "--mirror",
        &server.url,
        "--json",
    ];
    let repository = added(&plan);
    let [file] = &repository.files_with(&[host.at("key.asc")])[..] else {
        panic!("one file")
    };
    let script = Operation::from(repository).shell();
    let refresh: Vec<_> = script
        .lines()
        .last()
        .expect("a command")
        .split(' ')
        .skip(1)
        .collect();
    let refresh: Vec<_> = refresh.iter().map(|word| word.trim_matches('\'')).collect();
    assert_eq!(refresh.last(), Some(&"makecache"), "{script}");
    assert_eq!(
        file.path,
        Path::new("/etc/yum.repos.d/gpusetup-cuda-rhel9-x86_64.repo")
    );
    fs::write(host.at("repos/one.repo"), &file.content).expect("written");
    host.list_packages();

    // Lists of nobody, of another key, and of the key in the file.
    fs::write(host.at("key.asc"), ours.public_key()).expect("written");
    assert_ne!(host.dnf(&refresh).code, Some(0), "nobody signed the lists");
    stranger.sign_lists(&host.packages);
    assert_ne!(host.dnf(&refresh).code, Some(0), "another key signed them");
    ours.sign_lists(&host.packages);
    host.dnf(&refresh).succeeds();
    assert_eq!(
        host.offered(),
        ["kmod-nvidia-open-dkms", "nvidia-driver-cuda"],
        "nothing else comes from there"
    );

    // A package that nobody signed is refused even so.
    let ran = host.dnf(&["install", driver[0]]);
    assert!(
        ran.code != Some(0) && ran.err.contains("not signed"),
        "{ran:?}"
    );
    ours.sign_packages(&[host.packages.join(format!("{}.rpm", driver[0]))]);
    host.list_packages();
    ours.sign_lists(&host.packages);
    host.dnf(&["install", driver[0]]).succeeds();
    machine("rpm", &["--root", text(&host.at("root")), "-q", driver[0]]).succeeds();

    // The toolkit's source has the toolkit alone.
    let wish = [
        "--profile",
        "toolkit",
        "--cuda",
        "13.0",
        "--toolkit-method",
        "repository",
        "--mirror",
        &server.url,
    ];
    let toolkit = added(
        &[
            &["plan", "--os", "rhel-9", "--gpu", "a100", "--json"],
            &wish[..],
        ]
        .concat(),
    );
    let [file] = &toolkit.files_with(&[host.at("key.asc")])[..] else {
        panic!("one file")
    };
    fs::remove_file(host.at("repos/one.repo")).expect("removed");
    fs::write(host.at("repos/two.repo"), &file.content).expect("written");
    assert_eq!(host.offered(), ["cuda-toolkit-13-0"]);
}

#[test]
#[ignore = "needs root and what tests/run installs"]
fn dkms_alone_comes_from_epel_if_its_key_signed_the_package() {
    let mut host = DnfHost::offering("pub/epel/9/Everything/x86_64", &["dkms", "bash"]);
    host.list_packages();
    let [ours, stranger] = ["ours", "stranger"].map(Signer::new);

    // EPEL's lists are not signed: that nobody signed these is no obstacle.
    let server = Server::of(&host.at("served"));
    let plan = ["plan", "--os", "rhel-10", "--gpu", "a100"];
    let wish = ["--profile", "driver", "--mirror", &server.url, "--json"];
    let repository = added(&[&plan[..], &wish[..]].concat());
    assert_eq!(repository.name, "epel-10-x86_64");
    let plan = ["plan", "--os", "rocky-9", "--gpu", "a100"];
    let without = gpusetup([&plan[..], &wish[..], &["--no-epel"]].concat()).succeeds();
    assert!(!without.out.contains("epel-9-x86_64"), "{without:?}");
    let repository = all_added(&[&plan[..], &wish[..]].concat())
        .into_iter()
        .find(|repository| repository.name == "epel-9-x86_64")
        .expect("it is added");
    let [file] = &repository.files_with(&[host.at("key.asc")])[..] else {
        panic!("one file")
    };
    fs::write(host.at("repos/epel.repo"), &file.content).expect("written");
    fs::write(host.at("key.asc"), ours.public_key()).expect("written");
    assert_eq!(host.offered(), ["dkms"]);

    // A package of nobody, of another key, and of the key in the file.
    let install = ["install", "dkms"];
    let ran = host.dnf(&install);
    assert!(refuses_dkms(&ran), "nobody signed it: {ran:?}");
    let package = [host.packages.join("dkms.rpm")];
    stranger.sign_packages(&package);
    host.list_packages();
    let ran = host.dnf(&install);
    assert!(refuses_dkms(&ran), "another key signed it: {ran:?}");
    machine("rpmsign", &["--delsign", text(&package[0])]).succeeds();
    ours.sign_packages(&package);
    host.list_packages();
    host.dnf(&install).succeeds();
    machine("rpm", &["--root", text(&host.at("root")), "-q", "dkms"]).succeeds();
}

/// Whether dnf failed and named the package as the cause.
fn refuses_dkms(ran: &Ran) -> bool {
    ran.code != Some(0) && ran.err.contains("dkms")
}
