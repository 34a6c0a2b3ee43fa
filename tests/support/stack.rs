//! The whole stack on a host: what is asked for, and a host that has it, made once for the tests
//! that begin with one.

use crate::host::{Host, Kept, bench, store, text};
use std::path::PathBuf;

/// Packages of Debian 12 and a CUDA that every driver since 525 runs.
pub const STACK: &[&str] = &[
    "--driver",
    "535",
    "--method",
    "packages",
    "--modules",
    "proprietary",
    "--cuda",
    "12.4",
    "--cudnn",
    "9.10.2",
];

/// What an apply of the stack would do: the same steps make the same host. The server's port is
/// another each time.
pub fn planned() -> String {
    let host = Host::new("planned");
    let mut arguments = vec!["plan", "--json"];
    arguments.extend(STACK);
    let steps = host.gpusetup(&arguments).succeeds().json()["steps"].to_string();
    let parts = steps
        .split("127.0.0.1:")
        .map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()));
    format!("{}\n{}", text(&bench().base), parts.collect::<String>())
}

const NAME: &str = "installed";

/// A host on which that was applied; the first time it takes as long as that does.
pub fn installed(planned: &str) -> Kept {
    let install = |host: &Host| {
        let mut arguments = vec!["apply", "--yes", "--accept-eula"];
        arguments.extend(STACK);
        host.gpusetup(&arguments).succeeds();
    };
    Kept::host(NAME, planned, || Host::new(NAME), install)
}

/// The same, installed now by who looks at how that goes. Most of it is a compiler's time: the
/// others begin with this host.
#[allow(dead_code, reason = "one of those who have the stack looks")]
pub fn installed_by(install: impl FnOnce(&Host)) -> Kept {
    Kept::made(NAME, &planned(), || Host::new(NAME), install)
}

/// The driver's modules as that host built them, for those who need not see it done again: the
/// tarball that Debian's package takes (`dkms ldtarball`) where it lies in [`MODULES`], and its
/// version. tests/vm/modules takes it from here too.
#[allow(dead_code, reason = "the gallery's hosts have modules")]
pub fn modules(installed: &Kept) -> (PathBuf, String) {
    let host = installed.clone_as("modules");
    let status = host.ask("dkms status -m nvidia-current");
    let parts = status
        .trim()
        .strip_prefix("nvidia-current/")
        .and_then(|s| s.strip_suffix(": installed"));
    let (version, kernel) = parts
        .and_then(|p| p.split_once(", "))
        .expect("VERSION, KERNEL, ARCHITECTURE");
    let kernel = kernel.split(',').next().expect("a word");
    let base = text(&bench().base)
        .rsplit('-')
        .next()
        .expect("a name")
        .to_owned();
    let tarball = store().join(format!("modules-{base}-{version}.tar.gz"));
    if !tarball.exists() {
        host.ask(&format!(
            "dkms mktarball -m nvidia-current -v {version} -k {kernel} --archive modules.tar.gz >&2"
        ));
        let made = host.path(&format!(
            "/var/lib/dkms/nvidia-current/{version}/tarball/modules.tar.gz"
        ));
        std::fs::copy(made, &tarball).expect("copied");
    }
    (tarball, version.to_owned())
}

/// Where Debian's package looks for modules that were built elsewhere.
#[allow(dead_code, reason = "the gallery's hosts have modules")]
pub const MODULES: &str = "/usr/share/nvidia-current-dkms";
