//! What dnf and zypper share: repositories of rpm packages.

pub mod pattern;
pub mod repodata;
pub mod version;

use super::Unknown;
use crate::system::System;

/// Lists every package as `installed NAME VERSION`.
pub const LIST: [&str; 4] = ["rpm", "-qa", "--qf", "installed %{NAME} %{VERSION}-%{RELEASE}\\n"];
/// What rpm locks.
pub const LOCKS: [&str; 2] = ["/usr/lib/sysimage/rpm/.rpm.lock", "/var/lib/rpm/.rpm.lock"];

/// The architectures of packages that a host takes, its own first; by the loader that its programs start with.
pub fn architectures(system: &System) -> Result<&'static [&'static str], Unknown> {
    const LOADERS: [(&str, &[&str]); 3] = [
        ("/lib64/ld-linux-x86-64.so.2", &["x86_64", "noarch", "i686", "i586", "i486", "i386"]),
        ("/lib/ld-linux-aarch64.so.1", &["aarch64", "noarch"]),
        ("/lib64/ld64.so.2", &["ppc64le", "noarch"]),
    ];
    let loader = LOADERS.into_iter().find(|(path, _)| system.exists(path));
    loader
        .map(|(_, architectures)| architectures)
        .ok_or_else(|| Unknown::at("/lib64", "no loader shows the architecture"))
}

/// For fuzzing.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    let _ = repodata::Package::read(text.as_bytes());
    let _ = version::compare(text, "1:2-3");
    let _ = pattern::Pattern::new(text);
}
