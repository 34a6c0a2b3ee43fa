//! Debian's releases before and after the one of the other tests, each with its own kernel, gcc and
//! driver: the driver by packages with DKMS, a toolkit that compiles and links, doctor, and an
//! uninstall that leaves nothing. And a toolkit that takes no gcc as new as the one that its host
//! has.

use crate::host::tree::differences;
use crate::host::{Host, RECORDS, script, timed};
use std::fs;
use std::path::{Path, PathBuf};

/// What may differ after an uninstall beside gpusetup's records: diversions, the key that DKMS
/// makes once, and the bytes of a rebuilt initramfs, whose list of files is compared instead.
const AFTER_UNINSTALL: &[&str] = &[
    "var/lib/dpkg/diversions-old",
    "var/lib/dkms",
    "boot/initrd.img-*",
];

/// What bullseye's lsb-release leaves once it ran (DKMS runs it), even if apt alone purges it: its
/// bytecode.
const BULLSEYES: &str = "usr/lib/python3";

/// NVIDIA's module comes from the release itself.
const DRIVER: &[&str] = &["--profile", "driver", "--method", "packages"];

const TOOLKIT: &[&str] = &[
    "--profile",
    "toolkit",
    "--cuda",
    "13.4",
    "--cudnn",
    "9.25.1",
];

const PROGRAM: &str = r#"
#include <cstdio>
__global__ void increment(int *values) { values[threadIdx.x]++; }
int main() {
    int version = 0;
    cudaRuntimeGetVersion(&version);
    increment<<<1, 1>>>(nullptr);
    printf("%d\n", version);
}
"#;

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn debian_11() {
    on("bullseye", "470.");
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn debian_13() {
    on("trixie", "550.");
}

#[test]
#[ignore = "sid moves, so tests/run leaves it out: docs/src/internals/tests.md says how to run it"]
fn debian_sid_has_its_driver() {
    has_its_driver("sid", &base("sid"), "");
}

#[test]
#[ignore = "sid moves, so tests/run leaves it out: docs/src/internals/tests.md says how to run it"]
fn debian_sid_has_a_toolkit() {
    has_a_toolkit("sid", &base("sid"));
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn debian_12_with_an_older_gcc_for_nvcc() {
    let base = PathBuf::from(script("base", &[]));
    let host = Host::of("older-gcc", &base);
    // gcc 12, which is newer than CUDA 11.8 takes.
    host.ask("apt-get -qq update && apt-get -qq -y install --no-install-recommends g++ make libc6-dev >&2");
    let before = host.clone_as("newer-gcc");
    apply(
        &host,
        &["--profile", "toolkit", "--cuda", "11.8", "--cudnn", "none"],
    );
    // No wheel has this release's static runtime (tests/host/artifacts); the other one does not
    // tell its version without a driver.
    assert_eq!(runtimes(&host), "12090\n0");
    let loads = host.ask("LD_TRACE_LOADED_OBJECTS=1 /root/t-shared");
    assert!(
        loads.contains("libcudart.so.11.0 => /usr/local/cuda/"),
        "{loads}"
    );
    assert_eq!(
        host.ask("gcc -dumpversion"),
        "12",
        "shells still have theirs"
    );
    // What nvcc was built by counts for nothing; the program's own code says who made it.
    let made_by =
        host.ask("env -i bash -lc 'nvcc -arch=sm_80 -c -o /root/t.o /root/t.cu' && readelf -p .comment /root/t.o");
    assert!(made_by.contains("GCC: (Debian 11."), "{made_by}");
    host.ask("rm /root/t*");
    assert_eq!(
        failed(&host),
        ["GS501"],
        "nothing but the driver, which was not asked for"
    );
    host.gpusetup(&["uninstall", "--yes"]).succeeds();
    assert_eq!(
        differences(
            &before.root(),
            &host.root(),
            &[RECORDS, AFTER_UNINSTALL].concat()
        ),
        [""; 0]
    );
}

fn on(suite: &str, driver: &str) {
    let base = base(suite);
    timed("driver", || has_its_driver(suite, &base, driver));
    timed("toolkit", || has_a_toolkit(suite, &base));
}

fn base(suite: &str) -> PathBuf {
    timed("base root", || PathBuf::from(script("base", &[suite])))
}

fn has_its_driver(suite: &str, base: &Path, version: &str) {
    let before = Host::of(&format!("{suite}-before"), base);
    let host = before.clone_as(&format!("{suite}-driver"));
    if ["bullseye", "sid"].contains(&suite) {
        // Only the package lists tell which driver it has: sid's is another each month, and
        // bullseye's base pins the security archive's away.
        host.ask("apt-get -qq update");
    }
    apply(&host, DRIVER);
    let kernel = host.kernel();
    // Debian calls it nvidia-current, NVIDIA nvidia.
    let asks = ["nvidia-current", "nvidia"]
        .map(|name| format!("modinfo --set-version {kernel} --field version {name}"));
    let found = host.ask(&asks.join(" || "));
    assert!(found.starts_with(version), "{found}");
    assert!(
        host.ask(&format!("dkms status -k {kernel}"))
            .contains("installed")
    );
    assert!(host.ask("ldconfig -p").contains("libcuda.so.1"));
    let image = format!("lsinitramfs /boot/initrd.img-{kernel}");
    assert!(
        host.ask(&image)
            .contains("etc/modprobe.d/gpusetup-nouveau.conf")
    );
    host.reboots();
    assert_eq!(failed(&host), [""; 0]);
    assert!(
        host.gpusetup(&[&["apply", "--yes", "--accept-eula"], DRIVER].concat())
            .succeeds()
            .out
            .contains("Nothing to do")
    );
    host.gpusetup(&["uninstall", "--yes"]).succeeds();
    let left: &[&str] = if suite == "bullseye" {
        &[BULLSEYES]
    } else {
        &[]
    };
    is_as_before(&host, &before.root(), left);
    let files = host.ask(&image);
    drop(host);
    assert_eq!(files, before.ask(&image));
}

fn has_a_toolkit(suite: &str, base: &Path) {
    let host = Host::of(&format!("{suite}-toolkit"), base);
    assert_eq!(
        host.sh("command -v cc gcc g++ c++").out,
        "",
        "a fresh host has no compiler"
    );
    apply(&host, TOOLKIT);
    assert_eq!(runtimes(&host), "13040\n13040");
    host.ask("rm /root/t*");
    assert_eq!(
        failed(&host),
        ["GS501"],
        "nothing but the driver, which was not asked for"
    );
    host.gpusetup(&["uninstall", "--yes"]).succeeds();
    is_as_before(&host, base, &[]);
}

/// A login shell compiles, links and starts a program: the versions of the runtime that is linked
/// in, and of the one that the loader's cache finds.
fn runtimes(host: &Host) -> String {
    fs::write(host.path("/root/t.cu"), PROGRAM).expect("the host takes a file");
    host.ask("env -i HOME=/root bash -lc 'cd && nvcc -arch=sm_80 -o t t.cu && nvcc -arch=sm_80 --cudart shared -o t-shared t.cu'");
    host.ask("/root/t; /root/t-shared")
}

fn apply(host: &Host, request: &[&str]) {
    host.gpusetup(&[&["apply", "--yes", "--accept-eula"], request].concat())
        .succeeds();
}

/// What doctor finds to have failed.
fn failed(host: &Host) -> Vec<String> {
    let report = host.gpusetup(&["doctor", "--json"]).json();
    let checks = report["checks"].as_array().expect("checks");
    let failed = checks
        .iter()
        .filter(|check| check["status"] == "fail" || check["status"] == "error");
    failed
        .map(|check| check["id"].as_str().expect("an id").to_owned())
        .collect()
}

fn is_as_before(host: &Host, base: &Path, left: &[&str]) {
    assert_eq!(
        differences(
            base,
            &host.root(),
            &[RECORDS, AFTER_UNINSTALL, left].concat()
        ),
        [""; 0]
    );
}
