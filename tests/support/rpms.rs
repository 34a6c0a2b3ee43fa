//! Hosts with rpm packages, and packages and repositories of them that are made for a test.

#![allow(dead_code)] // each test program uses its part

use crate::host::{Host, Kept, machine, script, text, timed};
use std::fs;
use std::path::{Path, PathBuf};

/// Red Hat Enterprise Linux 9, as its release file says it.
pub const RHEL_9: &str = "ID=rhel\nID_LIKE=fedora\nVERSION_ID=9.6\nPRETTY_NAME='Red Hat Enterprise Linux 9.6'\nPLATFORM_ID=\"platform:el9\"\n";
/// SUSE Linux Enterprise Server 15.
pub const SLES_15: &str =
    "ID=sles\nID_LIKE=suse\nVERSION_ID=15.7\nPRETTY_NAME='SUSE Linux Enterprise Server 15 SP7'\n";

/// A package without anything in it but a few files.
#[derive(Default)]
pub struct Rpm {
    /// Its name.
    pub name: String,
    /// What else its description says: `Requires: x`.
    pub says: String,
    /// Its files, each with its content.
    pub files: Vec<(String, Vec<u8>)>,
    /// What rpm runs once it is installed.
    pub post: String,
}

/// One of which only the name matters.
pub fn rpm(name: &str) -> Rpm {
    Rpm {
        name: name.to_owned(),
        ..Rpm::default()
    }
}

/// Makes packages of one version, or of one version and release, in a folder, and returns their
/// files.
pub fn make(folder: &Path, version: &str, packages: &[Rpm]) -> Vec<PathBuf> {
    let (version, release) = version.split_once('-').unwrap_or((version, "1"));
    let work = tempfile::tempdir().expect("a folder");
    let head = format!(
        "Name: nothing\nVersion: {version}\nRelease: {release}\nSummary: a test\nLicense: none\nBuildArch: noarch\n%description\na test\n\
         %install\ncp -a {}/. %{{buildroot}}\n",
        text(&work.path().join("files"))
    );
    let mut spec = head;
    fs::create_dir(work.path().join("files")).expect("made");
    for Rpm {
        name,
        says,
        files,
        post,
    } in packages
    {
        let paths: String = files
            .iter()
            .map(|(path, _)| format!("%attr(0755,root,root) {path}\n"))
            .collect();
        spec += &format!(
            "%package -n {name}\nSummary: a test\n{says}\n%description -n {name}\na test\n%files -n {name}\n{paths}"
        );
        if !post.is_empty() {
            spec += &format!("%post -n {name}\n{post}\n");
        }
        for (path, content) in files {
            let to = work.path().join("files").join(path.trim_start_matches('/'));
            fs::create_dir_all(to.parent().expect("below")).expect("made");
            fs::write(to, content).expect("written");
        }
    }
    fs::write(work.path().join("spec"), spec).expect("written");
    let define = [
        format!("_rpmdir {}", text(folder)),
        format!("_topdir {}", text(&work.path().join("build"))),
    ];
    let of = |name: &str| format!("{name}-{version}.rpm");
    machine(
        "rpmbuild",
        &[
            "-bb",
            "--quiet",
            "-D",
            &define[0],
            "-D",
            &define[1],
            "-D",
            "_build_name_fmt %%{NAME}-%%{VERSION}.rpm",
            "-D",
            "_binaries_in_noarch_packages_terminate_build 0",
            text(&work.path().join("spec")),
        ],
    )
    .succeeds();
    packages
        .iter()
        .map(|package| folder.join(of(&package.name)))
        .collect()
}

/// A host whose package manager is this one of Debian's, which takes these packages of Debian, and
/// says that it is this system. It has one package, since such a system has always one.
pub fn host(manager: &str, debs: &str, os_release: &str, name: &str) -> Host {
    let base = || {
        Host::of(
            &format!("{manager}-base"),
            Path::new(&timed("base root", || script("base", &[]))),
        )
    };
    let key = [debs, os_release, &script("base", &[])].concat();
    let kept = Kept::host(&format!("rpms-{manager}"), &key, base, |host| {
        host.ask(&format!(
            "apt-get -qq update && apt-get -qq install --no-install-recommends rpm gnupg {debs} >&2
             apt-get clean; mkdir -p /etc/rpm && echo '%_dbpath /var/lib/rpm' >/etc/rpm/macros"
        ));
        fs::write(host.path("/usr/lib/os-release"), os_release).expect("written");
        let base = tempfile::tempdir().expect("a folder");
        let made = make(
            base.path(),
            "1",
            &[Rpm {
                says: "Provides: system-release = 9, /bin/sh".to_owned(),
                ..rpm("base")
            }],
        );
        fs::copy(&made[0], host.path("/root/base.rpm")).expect("copied");
        // Debian's initramfs is not theirs either, and making it takes a second each time.
        host.ask("ln -sf /bin/true /usr/sbin/update-initramfs");
        // Such systems have no apt, whose record would be theirs.
        host.ask(
            "rpm --install /root/base.rpm; rm /root/base.rpm /usr/bin/apt-get /usr/bin/apt; rm -r /var/lib/dpkg
             cd /usr/lib/python3/dist-packages/dnf-plugins 2>/dev/null || exit 0
             find . -type f -not -name 'versionlock*' -delete",
        );
    });
    kept.clone_as(name)
}

/// The installed packages of these names, with epoch, version and release.
pub fn versions(host: &Host, pattern: &str) -> Vec<String> {
    let output = host.ask(&format!(
        "rpm -qa --qf '%{{NAME}} %{{VERSION}}\\n' {pattern} | sort"
    ));
    output.lines().map(str::to_owned).collect()
}

/// The keys that rpm trusts, by the ends of their fingerprints.
pub fn trusted_keys(host: &Host) -> Vec<String> {
    let output = host.ask("rpm -qa --qf '%{VERSION}\\n' gpg-pubkey");
    output.lines().map(str::to_uppercase).collect()
}

/// A kernel module with nothing in it but its version and licence.
pub fn module(version: &str) -> Vec<u8> {
    let work = tempfile::tempdir().expect("a folder");
    let [source, object] = ["x.c", "x.ko"].map(|name| work.path().join(name));
    let text_of = format!(
        "const char i[] __attribute__((section(\".modinfo\"))) = \"license=Dual MIT/GPL\\0version={version}\";"
    );
    fs::write(&source, text_of).expect("written");
    machine("gcc", &["-c", text(&source), "-o", text(&object)]).succeeds();
    fs::read(&object).expect("compiled")
}
