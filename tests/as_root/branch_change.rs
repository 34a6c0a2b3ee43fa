//! Another branch of the driver on a Debian host whose driver came from NVIDIA's repository, which
//! gpusetup added: the real apt, with a repository made here.

use crate::host::{Ran, Server, gpusetup, text};
use crate::repository::{database, host, publish};
use crate::rpms;
use crate::signer::Signer;
use crate::toolkit_repository::package;
use std::fs;
use std::path::Path;

const BELOW: &str = "compute/cuda/repos/debian12/x86_64";
const DRIVER: [&str; 3] = ["nvidia-kernel-open-dkms", "nvidia-driver-cuda", "libcuda1"];
const OLD: &str = "580.95.05-1";
const NEW: &str = "595.58.03-1";

/// The driver's packages, with modules for this kernel.
fn driver(folder: &Path, kernel: &str, version: &str) {
    let upstream = version.split('-').next().expect("a version");
    let module = rpms::module(upstream);
    let names = [
        "nvidia",
        "nvidia-uvm",
        "nvidia-modeset",
        "nvidia-drm",
        "nvidia-peermem",
    ];
    let paths = names.map(|name| format!("lib/modules/{kernel}/updates/dkms/{name}.ko"));
    let modules = paths
        .each_ref()
        .map(|path| (path.as_str(), module.as_slice()));
    let depmod = format!("depmod {kernel}");
    package(
        folder,
        DRIVER[0],
        version,
        "",
        &modules,
        &[("postinst", &depmod)],
    );
    let smi: (&str, &[u8]) = ("usr/bin/nvidia-smi", b"#!/bin/sh\n");
    package(
        folder,
        DRIVER[1],
        version,
        &format!("libcuda1 (= {version})"),
        &[smi],
        &[],
    );
    let library = format!("usr/lib/x86_64-linux-gnu/libcuda.so.{upstream}");
    package(folder, DRIVER[2], version, "", &[(&library, b"")], &[]);
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_host_changes_the_branch_and_goes_back() {
    let served = tempfile::tempdir().expect("a folder");
    let folder = served.path().join(BELOW);
    fs::create_dir_all(&folder).expect("made");
    let (signer, facts) = (Signer::new("ours"), tempfile::tempdir().expect("a folder"));
    let known = database(facts.path(), &[&signer.fingerprint]);
    let host = host("branch-change");
    [OLD, NEW]
        .iter()
        .for_each(|version| driver(&folder, &host.kernel(), version));
    publish(&folder, &signer);
    fs::write(folder.join("3bf863cc.pub"), signer.public_key()).expect("written");
    let server = Server::of(served.path());
    let root = host.root();
    let call = |arguments: &[&str]| -> Ran {
        let (verb, rest) = arguments.split_first().expect("a verb");
        gpusetup(
            [*verb, "--root", text(&root), "--database", text(&known)]
                .into_iter()
                .chain(rest.iter().copied()),
        )
    };
    let apply = |driver: &str| {
        call(&[
            "apply",
            "--yes",
            "--accept-eula",
            "--profile",
            "driver",
            "--method",
            "repository",
            "--mirror",
            &server.url,
            "--driver",
            driver,
        ])
    };
    let versions = || {
        DRIVER.map(|name| {
            host.ask(&format!(
                "dpkg-query -W -f '${{Version}}' {name} 2>/dev/null || true"
            ))
        })
    };
    let branch = || {
        host.ask(
            "sed -n 's/^Pin: version //p' /etc/apt/preferences.d/gpusetup-cuda-debian12-x86_64",
        )
    };

    for (driver, version) in [("580", OLD), ("595", NEW)] {
        let ran = apply(driver);
        assert_eq!(
            (ran.code, versions()),
            (Some(0), [version; 3].map(str::to_owned)),
            "{ran:?}"
        );
        assert_eq!(branch(), format!("{driver}.*"));
    }
    call(&["rollback", "--yes"]).succeeds();
    assert_eq!(
        (versions(), branch().as_str()),
        ([OLD; 3].map(str::to_owned), "580.*")
    );
    host.ask("apt-get -qq update && apt-get -qq -y upgrade");
    assert_eq!(versions(), [OLD; 3], "the branch stays");
}
