//! Add-ons on a real host: NVIDIA's own wheel of NCCL, and archives in the form of the others
//! (`tests/host/artifacts`), beside a toolkit with a real nvcc.

use crate::host;
use crate::host::tree::differences;
use crate::host::{Host, RECORDS, bench, gpusetup, text, timed};
use std::fs;

const ADD_ONS: &[&str] = &[
    "nccl",
    "tensorrt==10.16",
    "cutensor==2.8",
    "cusparselt==0.10",
    "nvshmem==3.7.1",
    "cudss==1.0",
];

/// Each with its SONAME, the function that tells its version, and what that says.
const PROOFS: [(&str, &str, &str, &str); 6] = [
    ("nccl", "libnccl.so.2", "ncclGetVersion", "2.32.3"),
    (
        "tensorrt",
        "libnvinfer.so.10",
        "getInferLibVersion",
        "10.16.1",
    ),
    (
        "cutensor",
        "libcutensor.so.2",
        "cutensorGetVersion",
        "2.8.0",
    ),
    (
        "cusparselt",
        "libcusparseLt.so.0",
        "cusparseLtGetProperty",
        "0.10.0",
    ),
    (
        "nvshmem",
        "libnvshmem_host.so.3",
        "nvshmemx_vendor_get_version_info",
        "3.7.1",
    ),
    ("cudss", "libcudss.so.1", "cudssGetProperty", "1.0.0"),
];

/// A subcommand with these arguments that is about a toolkit with all of them.
fn with<'a>(verb: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let toolkit = ["--profile", "toolkit", "--cuda", "13.4", "--cudnn", "none"];
    let add_ons = ADD_ONS.iter().flat_map(|add_on| ["--with", add_on]);
    [verb]
        .into_iter()
        .chain(more.iter().copied())
        .chain(toolkit)
        .chain(add_ons)
        .collect()
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn they_are_installed_linked_proved_locked_bundled_and_removed() {
    let host = Host::new("add-ons");
    timed("apply", || {
        host.gpusetup(&with("apply", &["--yes", "--accept-eula"]))
            .succeeds()
    });
    timed("links and the loader", || are_found(&host));
    timed("a program", || nccl_is_linked(&host));
    timed("facts and doctor", || are_proved(&host));
    let again = host.gpusetup(&with("plan", &["--json"])).succeeds().json();
    for step in again["steps"].as_array().expect("steps") {
        assert_ne!(step["state"], "needed", "{step}");
    }
    timed("a lock file", || {
        let lock = host.path("/root/lock.json");
        host.gpusetup(&with("plan", &["--lock", text(&lock)]))
            .succeeds();
        let locked = host
            .gpusetup(&[
                "plan",
                "--profile",
                "toolkit",
                "--locked",
                text(&lock),
                "--json",
            ])
            .succeeds()
            .json();
        assert_eq!(locked["selection"], again["selection"]);
        fs::remove_file(lock).expect("removed");
    });
    timed("uninstall", || {
        host.gpusetup(&["uninstall", "--yes"]).succeeds();
        assert_eq!(differences(&bench().base, &host.root(), RECORDS), [""; 0]);
    });
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_bundle_brings_them() {
    let (maker, host) = (Host::new("add-ons-maker"), Host::new("add-ons-bundled"));
    let folder = tempfile::tempdir_in(host::store()).expect("a temporary folder");
    let (plan, bundle) = (
        folder.path().join("plan.json"),
        folder.path().join("bundle"),
    );
    let request = [
        "--cuda",
        "13.4.2",
        "--cudnn",
        "none",
        "--components",
        "cudart",
        "--with",
        "nvshmem==3.7.1",
    ];
    host.gpusetup(
        &[
            &["plan", "--profile", "toolkit", "--out", text(&plan)],
            &request[..],
        ]
        .concat(),
    )
    .succeeds();
    let (root, database) = (maker.root(), text(&bench().database));
    let create = [
        "bundle",
        "create",
        "--root",
        text(&root),
        "--database",
        database,
        "--plan",
        text(&plan),
    ];
    gpusetup(create.into_iter().chain(["-o", text(&bundle)])).succeeds();
    // The server cannot tell who asked: the other test of this file runs beside this one.
    host.gpusetup_under(
        &["unshare", "--net"],
        &["apply", "--yes", "--accept-eula", "--bundle", text(&bundle)],
    )
    .succeeds();
    assert!(host.ask("ldconfig -p").contains("libnvshmem_host.so.3 "));
    host.gpusetup(&["uninstall", "--yes"]).succeeds();
}

/// By their SONAMEs, and by the name that compilers ask for.
fn are_found(host: &Host) {
    let known = host.ask("ldconfig -p");
    for (_, soname, ..) in PROOFS {
        assert!(known.contains(&format!("{soname} ")), "{soname}: {known}");
        let link = soname
            .split_once(".so.")
            .map(|(name, _)| format!("{name}.so"))
            .expect("a SONAME");
        assert_eq!(
            host.ask(&format!("readlink /usr/local/cuda/lib64/{link}")),
            soname
        );
    }
    let odd = host.ask(
        "find /usr/local/cuda/lib64/ -xtype l; find /usr/local/cuda/ ! -user root; test -L /usr/local/cuda-13.4/lib64",
    );
    assert_eq!(
        odd, "",
        "no broken link, everything root's, and lib64 is the link that the toolkit brought"
    );
    assert!(
        host.ask("cat /usr/local/cuda/share/doc/nccl/LICENSE")
            .contains("Redistribution and use")
    );
}

/// NVIDIA's header and library, by nvcc.
fn nccl_is_linked(host: &Host) {
    let program = "#include <nccl.h>\n#include <stdio.h>\nint main() { int v; ncclGetVersion(&v); printf(\"%d %d\", v, NCCL_VERSION_CODE); }\n";
    fs::write(host.path("/root/nccl.cu"), program).expect("the host takes a file");
    assert_eq!(
        host.ask("cd /root && /usr/local/cuda/bin/nvcc -o nccl nccl.cu -lnccl && ./nccl && rm nccl nccl.cu"),
        "23203 23203"
    );
}

fn are_proved(host: &Host) {
    let facts = host.gpusetup(&["facts", "--json"]).succeeds().json();
    let found = facts["add_ons"].as_array().expect("add-ons");
    for (id, _, _, version) in PROOFS {
        let is_it = |f: &&serde_json::Value| f["add_on"] == id;
        let seen = found
            .iter()
            .find(is_it)
            .and_then(|f| f["version"].as_str())
            .unwrap_or_default();
        assert!(seen.starts_with(version), "{id}: {found:?}");
    }
    let report = host
        .gpusetup_inside(&["doctor", "--json", "GS702", "GS703", "GS708"])
        .json();
    for check in report["checks"].as_array().expect("checks") {
        assert_eq!(check["status"], "pass", "{check}");
    }
    let text = report.to_string();
    for (_, soname, function, version) in PROOFS {
        assert!(
            text.contains(&format!("{function} returns {version}")) && text.contains(soname),
            "{function}: {text}"
        );
    }
}
