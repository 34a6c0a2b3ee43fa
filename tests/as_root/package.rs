//! gpusetup's own releases: the same bytes wherever they are made, nothing that lintian and rpmlint
//! object to, and packages that come and go without a trace, alone and from repositories.

use crate::host::tree::differences;
use crate::host::{Host, RECORDS, Ran, Server, machine, script, text};
use crate::release::{Release, dist, stand_in, xtask};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What dpkg itself rewrites.
const DPKGS: &[&str] = &["var/lib/dpkg", "var/log/dpkg.log", "var/cache"];

#[test]
#[ignore = "needs what tests/run installs"]
fn the_same_commit_gives_the_same_release() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program");
    stand_in(&program, "0.1.0");
    let (one, two) = (
        folder.path().join("one"),
        folder.path().join("a/second one"),
    );
    dist(
        &program,
        &one,
        &[],
        &[
            ("TZ", "Asia/Seoul"),
            ("LC_ALL", "C.UTF-8"),
            ("HOSTNAME", "somewhere"),
        ],
    )
    .succeeds();
    dist(
        &program,
        &two,
        &[],
        &[
            ("TZ", "America/New_York"),
            ("LC_ALL", "C"),
            ("USER", "somebody"),
        ],
    )
    .succeeds();
    let sums = |folder: &Path| fs::read_to_string(folder.join("SHA256SUMS")).expect("made");
    assert_eq!(sums(&one), sums(&two));
    // Every file but the database and the checksums themselves.
    assert_eq!(
        sums(&one).lines().count(),
        fs::read_dir(&one).expect("made").count() - 2
    );
    let database = |folder: &Path| fs::read(folder.join("database.tar.xz")).expect("made");
    assert_eq!(database(&one), database(&two));
    let mut check = Command::new("sha256sum");
    Ran::of(
        check
            .arg("-c")
            .arg("SHA256SUMS")
            .current_dir(&two)
            .output()
            .expect("it runs"),
    )
    .succeeds();
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_debian_package_comes_and_goes_without_a_trace() {
    let release = Release::real();
    let package = release.file(".deb");
    machine(
        "lintian",
        &["--allow-root", "--fail-on", "error,warning", text(&package)],
    )
    .succeeds();

    let base = PathBuf::from(script("base", &["trixie"]));
    let host = Host::of("packaged", &base);
    let before = host.clone_as("not-packaged");
    machine(
        "cp",
        &[
            "-r",
            text(&release.files()),
            text(&host.path("/root/release")),
        ],
    )
    .succeeds();
    // This root has no minisign: the script verifies the signature with OpenSSL.
    let install = "GPUSETUP_MIRROR=/root/release sh /root/release/install.sh";
    let ran = host.ask(&format!("{install} 2>&1"));
    assert!(
        ran.contains("installed gpusetup 0.1.0 with apt-get") && !ran.contains("warning"),
        "{ran}"
    );
    let plan = host.ask("gpusetup plan --gpu h100");
    assert!(plan.contains("Choice") && plan.contains("CUDA"), "{plan}");
    let ran = host.sh("gpusetup self update");
    assert!(
        ran.code == Some(5)
            && ran
                .err
                .contains("sudo apt-get install --only-upgrade gpusetup"),
        "{ran:?}"
    );
    // These roots leave manual pages out.
    host.ask("dpkg --listfiles gpusetup | grep man1/gpusetup-apply.1.gz");
    host.ask("bash -c '. /usr/share/bash-completion/completions/gpusetup'");
    host.ask("systemd-tmpfiles --create --clean gpusetup.conf");
    host.ask(install);

    // A newer version, and back.
    host.ask(
        "cd /root && dpkg-deb -R release/*.deb newer && sed -i 's/^Version: .*/Version: 0.9.9-1/' newer/DEBIAN/control && \
         rm newer/usr/share/doc/gpusetup/NEWS.md.gz && dpkg-deb -Zgzip -z1 -b newer newer.deb && dpkg --install newer.deb",
    );
    assert_eq!(
        host.ask("dpkg-query -W -f '${Version}' gpusetup"),
        "0.9.9-1"
    );
    assert!(!host.path("/usr/share/doc/gpusetup/NEWS.md.gz").exists());
    let ran = host.sh(install);
    assert!(
        ran.code == Some(1) && ran.err.contains("apt-get could not install"),
        "an older one unasked: {ran:?}"
    );
    host.ask(&format!("{install} --version 0.1.0"));
    assert_eq!(
        host.ask("dpkg-query -W -f '${Version}' gpusetup"),
        "0.1.0-1"
    );
    assert_eq!(host.ask("dpkg --audit"), "");

    // What it wrote goes with a purge; the record of what it installed does not.
    host.ask(
        "mkdir -p /var/log/gpusetup /var/cache/gpusetup/a /var/lib/gpusetup/journal /etc/gpusetup",
    );
    let ran = host.sh("dpkg --purge gpusetup 2>&1");
    assert!(
        ran.code == Some(0) && ran.out.contains("kept /var/lib/gpusetup"),
        "{ran:?}"
    );
    assert!(
        host.path("/var/lib/gpusetup/journal").exists()
            && !host.path("/var/cache/gpusetup").exists()
    );
    host.ask(&format!(
        "rm -r /var/lib/gpusetup/journal && {install} && dpkg --purge gpusetup"
    ));
    host.ask("rm -r /root/release /root/newer /root/newer.deb");
    assert_eq!(
        differences(&before.root(), &host.root(), &[RECORDS, DPKGS].concat()),
        [""; 0]
    );
    for gone in [
        "/var/lib/gpusetup",
        "/var/log/gpusetup",
        "/etc/gpusetup",
        "/etc/logrotate.d/gpusetup",
    ] {
        assert!(!host.path(gone).exists(), "{gone}");
    }
}

/// Makes a key without a password in a separate keyring; returns its fingerprint.
fn signing_key(home: &Path) -> String {
    let gpg = |arguments: &[&str]| {
        let mut command = Command::new("gpg");
        command
            .args(["--batch", "--homedir", text(home), "--passphrase", ""])
            .args(arguments);
        Ran::of(command.output().expect("it runs")).succeeds().out
    };
    gpg(&[
        "--quick-generate-key",
        "Packages <packages@example.org>",
        "rsa3072",
        "sign",
        "never",
    ]);
    let listed = gpg(&["--list-keys", "--with-colons"]);
    let line = listed
        .lines()
        .find(|line| line.starts_with("fpr:"))
        .expect("a key");
    line.split(':').nth(9).expect("a fingerprint").to_owned()
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn repositories_install_it_and_refuse_what_is_not_signed() {
    let release = Release::real();
    let package = release.file(".rpm");
    let settings = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/rpm/rpmlint.toml");
    machine(
        "rpmlint",
        &["--strict", "--config", settings, text(&package)],
    )
    .succeeds();

    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("keys")).expect("made");
    machine("chmod", &["700", text(&path("keys"))]).succeeds();
    let key = signing_key(&path("keys"));
    let mut make = xtask();
    make.args([
        "dist",
        "--out",
        text(&release.files()),
        "--repository",
        text(&path("repository")),
    ]);
    make.args(["--openpgp-key", &key])
        .env("GNUPGHOME", path("keys"));
    Ran::of(make.output().expect("it runs")).succeeds();
    let server = Server::of(&path("repository"));

    // apt.
    let host = Host::of("repository", &PathBuf::from(script("base", &["trixie"])));
    fs::copy(
        path("repository/gpusetup.asc"),
        host.path("/etc/apt/keyrings/gpusetup.asc"),
    )
    .expect("copied");
    let source = format!(
        "Types: deb\nURIs: {}/apt\nSuites: stable\nComponents: main\nSigned-By: /etc/apt/keyrings/gpusetup.asc\n",
        server.url
    );
    fs::write(
        host.path("/etc/apt/sources.list.d/gpusetup.sources"),
        source,
    )
    .expect("written");
    let update = "apt-get -o Dir::Etc::sourcelist=/dev/null -o APT::Update::Error-Mode=any update";
    host.ask(update);
    host.ask("apt-get -qq install gpusetup && gpusetup --version");
    let asked = server.requests();
    assert!(
        asked
            .iter()
            .any(|request| request.contains("/by-hash/SHA256/")),
        "{asked:?}"
    );
    let lists = path("repository/apt/dists/stable/InRelease");
    let signed = fs::read_to_string(&lists).expect("made");
    fs::write(
        &lists,
        signed.replace("Origin: gpusetup", "Origin: somebody"),
    )
    .expect("written");
    let ran = host.sh(&format!("{update} 2>&1"));
    assert!(
        ran.code != Some(0) && ran.out.contains("gnature"),
        "{ran:?}"
    );

    // dnf, in a tree whose C library and shell are a package of this machine's.
    let tree = path("tree");
    let local = path("local");
    base_package(&path("build"), &local);
    let repository = |name: &str, url: &str, check: u8| {
        format!(
            "[{name}]\nname={name}\nbaseurl={url}\ngpgcheck={check}\nrepo_gpgcheck={check}\ngpgkey={}/gpusetup.asc\n",
            server.url
        )
    };
    let arch = std::env::consts::ARCH;
    let settings = format!(
        "[main]\ncachedir={}\nreposdir=/nonexistent\npluginpath=/nonexistent\n{}{}",
        path("cache").display(),
        repository("local", &format!("file://{}", local.display()), 0),
        repository("gpusetup", &format!("{}/rpm/{arch}", server.url), 1),
    );
    fs::write(path("dnf.conf"), settings).expect("written");
    let root = format!("--installroot={}", tree.display());
    let dnf = |arguments: &[&str]| {
        let mut command = Command::new("dnf");
        command
            .args([
                "--assumeyes",
                "--config",
                text(&path("dnf.conf")),
                &root,
                "--releasever=9",
            ])
            .args(arguments);
        Ran::of(command.output().expect("it runs"))
    };
    dnf(&["install", "base"]).succeeds();
    let before = path("before");
    machine("cp", &["-a", text(&tree), text(&before)]).succeeds();
    dnf(&["install", "gpusetup"]).succeeds();
    let plan = machine(
        "chroot",
        &[
            text(&tree),
            "/usr/bin/gpusetup",
            "plan",
            "--gpu",
            "h100",
            "--os",
            "rocky-9",
        ],
    );
    assert!(plan.succeeds().out.contains("Choice"));
    dnf(&["remove", "gpusetup"]).succeeds();
    let records = [
        "var/lib/dnf",
        "var/lib/rpm",
        "var/log",
        "var/cache",
        "root",
        "tmp",
    ];
    assert_eq!(differences(&before, &tree, &records), [""; 0]);
    let lists = path("repository/rpm")
        .join(arch)
        .join("repodata/repomd.xml");
    let text = fs::read_to_string(&lists).expect("made");
    fs::write(&lists, text + "\n").expect("written");
    let ran = dnf(&["--refresh", "install", "gpusetup"]);
    assert!(
        ran.code != Some(0) && ran.err.contains("gpusetup"),
        "{ran:?}"
    );
}

/// A repository with one package: the usual folders, and this machine's C library and shell, so
/// that a tree with it runs programs.
fn base_package(build: &Path, repository: &Path) {
    let files = build.join("files");
    fs::create_dir_all(files.join("bin")).expect("made");
    fs::create_dir_all(repository).expect("made");
    for folder in [
        "usr/bin",
        "usr/lib/tmpfiles.d",
        "usr/share/man/man1",
        "usr/share/doc",
        "usr/share/licenses",
        "var/log",
        "var/tmp",
    ] {
        fs::create_dir_all(files.join(folder)).expect("made");
    }
    fs::copy("/bin/dash", files.join("bin/sh")).expect("copied");
    fs::copy("/bin/rm", files.join("bin/rm")).expect("copied");
    for program in [env!("CARGO_BIN_EXE_gpusetup"), "/bin/rm"] {
        let needed = machine("ldd", &[program]).succeeds().out;
        for library in needed
            .split_whitespace()
            .filter(|word| word.starts_with('/'))
        {
            let to = files.join(library.trim_start_matches('/'));
            fs::create_dir_all(to.parent().expect("a folder")).expect("made");
            fs::copy(library, to).expect("copied");
        }
    }
    let spec = format!(
        "Name: base\nVersion: 1\nRelease: 1\nSummary: A C library and a shell\nLicense: Various\nAutoReq: no\nProvides: /bin/sh, rtld(GNU_HASH)\n\
         %global debug_package %{{nil}}\n%global _binary_payload w1.gzdio\n%global __os_install_post %{{nil}}\n%global _build_id_links none\n\
         %description\nThey are.\n%install\ncp -a {}/. %{{buildroot}}\n%files\n/*\n",
        files.display()
    );
    fs::write(build.join("base.spec"), spec).expect("written");
    let top = format!("_topdir {}", build.display());
    machine(
        "rpmbuild",
        &[
            "-bb",
            "--quiet",
            "--define",
            &top,
            text(&build.join("base.spec")),
        ],
    )
    .succeeds();
    let made = build
        .join("RPMS")
        .join(std::env::consts::ARCH)
        .join(format!("base-1-1.{}.rpm", std::env::consts::ARCH));
    fs::copy(made, repository.join("base.rpm")).expect("copied");
    machine("createrepo_c", &["--quiet", text(repository)]).succeeds();
}
