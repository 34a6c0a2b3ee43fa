//! A short plan of every kind of operation, with real programs and real packages, and the pieces of
//! it.

#![allow(dead_code)] // each test program uses its part

use crate::host::{Host, Server, machine, text};
use gpusetup::compat::{AddOnId, PackageManager};
use gpusetup::operation::{
    Download, Link, Operation, Packages, Placement, Remove, Run, Service, Unpack, Verified,
    WriteFile,
};
use gpusetup::plan::{Plan, Step, StepId};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub use crate::step::step;

/// A program that changes the host.
pub fn run(argv: &[&str], creates: &[&str], changes: &[&str]) -> Operation {
    let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
    Run::new(argv.iter().copied(), 60)
        .creating(paths(creates))
        .changing(paths(changes))
        .into()
}

/// A plan for this host, of these steps.
pub fn plan(host: &Host, steps: Vec<Step>) -> Plan {
    let ran = host
        .gpusetup_plain(&["plan", "--profile", "toolkit", "--cuda", "12.4", "--json"])
        .succeeds();
    let mut plan: Plan = serde_json::from_str(&ran.out).expect("a plan");
    plan.steps = steps;
    plan
}

/// Puts a plan into a folder, for `apply`.
pub fn saved(folder: &Path, plan: &Plan) -> PathBuf {
    let file = folder.join("plan.json");
    fs::write(&file, serde_json::to_string(plan).expect("JSON")).expect("written");
    file
}

/// A file that is served from `url`, into the cache.
pub fn download(url: &str, file: &Path) -> Operation {
    Operation::Download(Download {
        url: url.to_owned(),
        sha256: sum(file),
        size: Some(file.metadata().expect("made").len()),
        to: cached(file),
    })
}

/// The place of a download.
pub fn cached(file: &Path) -> PathBuf {
    Path::new("/var/cache/gpusetup/short").join(file.file_name().expect("a file"))
}

/// Its sum.
pub fn sum(file: &Path) -> String {
    machine("sha256sum", &[text(file)]).succeeds().out[..64].to_owned()
}

/// Packages of apt's.
pub fn packages(names: &[&str]) -> Operation {
    Operation::Packages(Packages::to_install(
        PackageManager::Apt,
        names.iter().map(|n| (*n).to_owned()).collect(),
    ))
}

/// A package that is made for a test.
pub struct Deb<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
    /// What it needs, as its control file says it.
    pub depends: &'a str,
    /// What dpkg runs to configure it.
    pub postinst: &'a str,
}

/// One of which only the name and what configures it matter.
pub fn deb<'a>(name: &'a str, postinst: &'a str) -> Deb<'a> {
    Deb {
        name,
        version: "1",
        depends: "",
        postinst,
    }
}

/// Makes real packages, the only ones that a host's apt knows of. Debian's own lists take apt ten
/// times as long. None asks anything before it is configured, so apt need not start debconf to find
/// out.
pub fn offer(host: &Host, packages: &[Deb]) {
    let pool = host.path("/srv/packages");
    let mut index = String::new();
    for Deb {
        name,
        version,
        depends,
        postinst,
    } in packages
    {
        let tree = tempfile::tempdir().expect("a temporary folder");
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\n{}\
             Description: a test\n",
            if depends.is_empty() {
                String::new()
            } else {
                format!("Depends: {depends}\n")
            }
        );
        let put = |path: &str, content: &str, mode: u32| {
            let at = tree.path().join(path);
            fs::create_dir_all(at.parent().expect("below the tree")).expect("made");
            fs::write(&at, content).expect("written");
            fs::set_permissions(&at, fs::Permissions::from_mode(mode)).expect("ours");
        };
        fs::set_permissions(tree.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        put("DEBIAN/control", &control, 0o644);
        put(
            "DEBIAN/postinst",
            &format!("#!/bin/sh\nset -e\n{postinst}\n"),
            0o755,
        );
        put(
            "DEBIAN/postrm",
            &format!("#!/bin/sh\n[ -d /etc/{name} ] || rm -f /etc/{name}\n"),
            0o755,
        );
        put(&format!("usr/share/{name}/file"), "of a package\n", 0o644);
        fs::create_dir_all(&pool).expect("made");
        let file = format!("{name}_{}_all.deb", version.replace(':', "_"));
        let deb = pool.join(&file);
        machine(
            "dpkg-deb",
            &[
                "--root-owner-group",
                "-Znone",
                "--build",
                text(tree.path()),
                text(&deb),
            ],
        )
        .succeeds();
        let size = deb.metadata().expect("made").len();
        index += &format!(
            "{control}Filename: ./{file}\nSize: {size}\nSHA256: {}\n\n",
            sum(&deb)
        );
    }
    fs::write(pool.join("Packages"), index).expect("written");
    fs::write(
        host.path("/etc/apt/sources.list"),
        "deb [trusted=yes] file:/srv/packages ./\n",
    )
    .expect("written");
    host.ask("rm -f /etc/apt/apt.conf.d/70debconf; apt-get -qq update");
}

/// An operation of every kind that a tree can have; one of them installs a package.
pub fn steps(server: &Server, archive: &Path, package: &str) -> Vec<Step> {
    let (sum, cached) = (sum(archive), cached(archive));
    let unpack = Operation::Unpack(Unpack {
        archive: cached.clone(),
        sha256: sum.clone(),
        into: vec![
            Placement {
                from: "lib".into(),
                to: "/usr/local/cuda-9.9/lib".into(),
            },
            Placement {
                from: "include".into(),
                to: "/usr/local/cuda-9.9/include/sub".into(),
            },
        ],
        limit: None,
    });
    let mut installer = run(
        &["/bin/cp", "-a", "/usr/share/doc/tar", "/usr/local/cuda-9.9"],
        &["/usr/local/cuda-9.9"],
        &[],
    );
    if let Operation::Run(Run { verified, .. }) = &mut installer {
        verified.push(Verified {
            path: cached,
            sha256: sum,
        });
    }
    let file = |path: &str, content: &str| {
        Operation::WriteFile(WriteFile {
            path: path.into(),
            content: content.into(),
            mode: 0o644,
            merged_from: None,
        })
    };
    let link = |path: &str, target: &str| {
        Operation::Link(Link {
            path: path.into(),
            target: target.into(),
            soname: None,
        })
    };
    let asks = Run::ask(["/bin/cat", "/etc/issue"], Some("ours".to_owned()));
    let download = download(&format!("{}/archive.tar.xz", server.url), archive);
    vec![
        step(StepId::Prerequisites, vec![packages(&[package])]),
        step(
            StepId::BlacklistNouveau,
            vec![
                file(
                    "/etc/modprobe.d/gpusetup-nouveau.conf",
                    "blacklist nouveau\n",
                ),
                Operation::Remove(Remove {
                    path: "/etc/motd".into(),
                }),
            ],
        ),
        step(StepId::InstallCuda, vec![download, installer]),
        step(StepId::InstallAddOn(AddOnId::CUDNN), vec![unpack]),
        step(
            StepId::FixSymlinks,
            vec![
                link("/usr/local/cuda", "cuda-9.9"),
                link("/usr/local/cuda-9.9/lib/libx.so", "libx.so.1.0"),
            ],
        ),
        step(
            StepId::Ldconfig,
            vec![
                file(
                    "/etc/ld.so.conf.d/gpusetup-cuda.conf",
                    "/usr/local/cuda/lib\n",
                ),
                run(&["/sbin/ldconfig"], &[], &["/etc/ld.so.cache"]),
            ],
        ),
        step(
            StepId::Environment,
            vec![
                file("/etc/issue", "ours\n"),
                Operation::Service(Service {
                    unit: "console-getty.service".into(),
                    enabled: true,
                    restart: false,
                }),
            ],
        ),
        step(StepId::Verify, vec![asks.into()]),
    ]
}

/// A small archive of a real library and its header.
pub fn archive(folder: &Path) -> PathBuf {
    let (lib, include) = (folder.join("x/lib"), folder.join("x/include"));
    fs::create_dir_all(&lib).expect("made");
    fs::create_dir_all(&include).expect("made");
    fs::write(include.join("x.h"), "int x(void);\n").expect("written");
    let library = lib.join("libx.so.1.0");
    machine(
        "gcc",
        &[
            "-shared",
            "-x",
            "c",
            "/dev/null",
            "-Wl,-soname,libx.so.1",
            "-o",
            text(&library),
        ],
    )
    .succeeds();
    let made = folder.join("archive.tar.xz");
    machine("tar", &["-C", text(folder), "-cJf", text(&made), "x"]).succeeds();
    made
}
