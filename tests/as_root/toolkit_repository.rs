//! The toolkit from NVIDIA's network repository (`--toolkit-method repository`): real apt with a
//! repository made here, whose packages have the scripts that NVIDIA's have.

use crate::host::{Ran, Server, gpusetup, machine, text};
use crate::repository::{self, database, publish};
use crate::signer::Signer;
use std::fs;
use std::path::Path;

const BELOW: &str = "compute/cuda/repos/debian12/x86_64";
const KEY_FILE: &str = "3bf863cc.pub";
const DRIVER: [&str; 3] = ["nvidia-kernel-open-dkms", "nvidia-driver-cuda", "libcuda1"];
/// Everything that adding repositories leaves on a host.
const OURS: &str = "find /etc/apt /usr/share/keyrings -name '*gpusetup*' | sort";

/// A package with these files.
pub fn package(
    folder: &Path,
    name: &str,
    version: &str,
    depends: &str,
    files: &[(&str, &[u8])],
    scripts: &[(&str, &str)],
) {
    let tree = tempfile::tempdir().expect("a folder");
    let depends = if depends.is_empty() {
        String::new()
    } else {
        format!("Depends: {depends}\n")
    };
    let control = format!(
        "Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\n{depends}Description: a test\n"
    );
    for (path, content) in files {
        let path = tree.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, content).expect("written");
    }
    let debian = tree.path().join("DEBIAN");
    fs::create_dir(&debian).expect("made");
    fs::write(debian.join("control"), control).expect("written");
    scripts.iter().for_each(|(name, script)| {
        fs::write(debian.join(name), format!("#!/bin/sh\n{script}\n")).expect("written")
    });
    machine("chmod", &["-R", "u=rwx,go=rx", text(tree.path())]);
    let file = folder.join(format!("{name}_{version}_all.deb"));
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

/// CUDA 13.0 as NVIDIA packages it, and what must not come with it.
fn toolkit(folder: &Path, release: &str) {
    let nvcc =
        format!("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n# {release}\n");
    let json = format!(r#"{{"cuda": {{"name": "CUDA SDK", "version": "{release}"}}}}"#);
    let files = [
        ("usr/local/cuda-13.0/bin/nvcc", nvcc.as_bytes()),
        ("usr/local/cuda-13.0/version.json", json.as_bytes()),
    ];
    let set = "update-alternatives --install /usr/local/cuda cuda /usr/local/cuda-13.0 130";
    let unset = "[ \"$1\" != remove ] || update-alternatives --remove cuda /usr/local/cuda-13.0";
    let version = format!("{release}-1");
    package(
        folder,
        "cuda-toolkit-13-0-config-common",
        "13.0.96-1",
        "",
        &[],
        &[("postinst", set), ("prerm", unset)],
    );
    package(
        folder,
        "cuda-nvcc-13-0",
        "13.0.88-1",
        "cuda-toolkit-13-0-config-common",
        &files,
        &[],
    );
    package(
        folder,
        "libcublas-13-0",
        "13.1.0.3-1",
        "",
        &[("usr/local/cuda-13.0/lib64/libcublas.so.13", b"")],
        &[],
    );
    package(
        folder,
        "nsight-compute-2025.3.1",
        "2025.3.1.4-1",
        "",
        &[("opt/nvidia/nsight-compute/ncu", b"")],
        &[],
    );
    package(
        folder,
        "cuda-toolkit-13-0",
        &version,
        "cuda-nvcc-13-0, libcublas-13-0, nsight-compute-2025.3.1",
        &[],
        &[],
    );
    package(
        folder,
        "cuda-13-0",
        &version,
        "cuda-toolkit-13-0, nvidia-driver-cuda",
        &[],
        &[],
    );
    package(folder, "bash", "99-1", "", &[], &[]);
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_toolkit_comes_and_goes_without_the_driver() {
    let served = tempfile::tempdir().expect("a folder");
    let folder = served.path().join(BELOW);
    fs::create_dir_all(&folder).expect("made");
    let (signer, facts) = (Signer::new("ours"), tempfile::tempdir().expect("a folder"));
    let known = database(facts.path(), &[&signer.fingerprint]);
    let host = repository::host("toolkit-repository");
    let root = host.root();
    let server = Server::of(served.path());
    let call = |arguments: &[&str]| -> Ran {
        let (verb, rest) = arguments.split_first().expect("a verb");
        gpusetup(
            [*verb, "--root", text(&root), "--database", text(&known)]
                .into_iter()
                .chain(rest.iter().copied()),
        )
    };
    let mirror = ["--mirror", server.url.as_str()];
    let toolkit_alone = [
        "--profile",
        "toolkit",
        "--cuda",
        "13.0",
        "--cudnn",
        "none",
        "--toolkit-method",
        "repository",
    ];
    let wish = [&toolkit_alone[..], &mirror].concat();
    let plan = || {
        call(&[&["plan", "--json"], &wish[..]].concat())
            .succeeds()
            .json()
    };
    let release = plan()["selection"]["cuda"]["version"]
        .as_str()
        .expect("a version")
        .to_owned();
    toolkit(&folder, &release);
    DRIVER
        .iter()
        .for_each(|name| repository::package(&folder, name, "595.58.03-1"));
    publish(&folder, &signer);
    fs::write(folder.join(KEY_FILE), signer.public_key()).expect("written");
    let version = |name: &str| {
        host.ask(&format!(
            "dpkg-query -W -f '${{Version}}' {name} 2>/dev/null || true"
        ))
    };
    let candidate = |name: &str| {
        host.ask(&format!(
            "apt-cache policy {name} | sed -n 's/^  Candidate: //p'"
        ))
    };
    let apply = || call(&[&["apply", "--yes", "--accept-eula"], &wish[..]].concat());
    let is_there = || {
        assert_eq!(version("cuda-toolkit-13-0"), format!("{release}-1"));
        assert_eq!(
            host.ask("readlink -f /usr/local/cuda"),
            "/usr/local/cuda-13.0"
        );
        assert_eq!(
            host.ask("readlink /usr/local/cuda"),
            "/etc/alternatives/cuda"
        );
    };

    let ran = apply();
    assert!(
        [Some(0), Some(8)].contains(&ran.code),
        "a stand-in of nvcc compiles nothing: {ran:?}"
    );
    is_there();
    // Nothing else comes from there: no driver, no metapackage with one, no other package.
    for name in DRIVER.into_iter().chain(["cuda-13-0"]) {
        assert_eq!(candidate(name), "(none)", "{name}");
    }
    assert_ne!(candidate("bash"), "99-1");
    let again = plan();
    let state = |id: &str| {
        again["steps"]
            .as_array()
            .expect("steps")
            .iter()
            .find(|s| s["id"] == id)
            .map(|s| s["state"].clone())
    };
    assert_eq!(state("add-repository"), None, "{again}");
    assert_eq!(
        (state("install-cuda"), state("fix-symlinks")),
        (Some("satisfied".into()), Some("satisfied".into()))
    );

    // The driver's source comes and goes beside it, and the key stays for the toolkit's.
    let alone = host.ask(OURS);
    let driver = [
        &[
            "apply",
            "--yes",
            "--accept-eula",
            "--profile",
            "driver",
            "--driver",
            "595",
            "--method",
            "repository",
        ],
        &mirror[..],
    ]
    .concat();
    let ran = call(&driver);
    assert_eq!(
        (ran.code, version("libcuda1").as_str()),
        (Some(8), "595.58.03-1"),
        "no kernel module: {ran:?}"
    );
    call(&["uninstall", "--driver", "--yes"]).succeeds();
    assert_eq!(
        (host.ask(OURS), version("libcuda1")),
        (alone, String::new())
    );
    is_there();

    call(&["uninstall", "--cuda", "13.0", "--yes"]).succeeds();
    let left = "dpkg-query -W -f '${Package} ${Status}\\n' | grep -E '^(cuda|libcublas|nsight).* installed' || true";
    assert_eq!(
        (host.ask(OURS), host.ask(left)),
        (String::new(), String::new())
    );
    assert_eq!(host.ask("ls -d /usr/local/cuda* 2>/dev/null || true"), "");

    apply();
    is_there();
    call(&["rollback", "--yes"]).succeeds();
    assert_eq!(
        (host.ask(OURS), host.ask(left)),
        (String::new(), String::new())
    );

    // Without a network.
    let (file, bundle) = (facts.path().join("plan.json"), facts.path().join("bundle"));
    call(&[&["plan", "--out", text(&file)], &wish[..]].concat()).succeeds();
    let make = [
        "bundle",
        "create",
        "--plan",
        text(&file),
        "--out",
        text(&bundle),
        "--root",
        text(&root),
    ];
    gpusetup([&make[..], &["--database", text(&known)], &mirror].concat()).succeeds();
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
    assert!([Some(0), Some(8)].contains(&ran.code), "{ran:?}");
    is_there();
}
