//! Code shared by dnf, tdnf and zypper: rpm, its packages and their repositories.

pub mod keys;
pub mod pattern;
pub mod repodata;
pub mod repositories;
pub mod version;

use super::fetcher::{Fetcher, MadeIndex, PackageIndex};
use super::{Unknown, manager};
use gpusetup_system::{Program, System};
use std::io;
use std::path::Path;

/// The name of the program that keeps the record.
pub(crate) const RECORD: &str = "rpm";
/// The package of the C++ compiler.
pub(crate) const CXX: &str = "gcc-c++";
/// A shell's command that lists the installed packages, each as `NAME VERSION`.
pub(crate) const NAMES: &str = "rpm -qa --qf '%{NAME} %{VERSION}\\n'";
/// Lists every package as `installed NAME VERSION`. Trusted keys are in the record too, as packages
/// without an architecture.
pub(crate) const LIST: [&str; 4] = [
    "rpm",
    "-qa",
    "--qf",
    "%|ARCH?{installed %{NAME} %{VERSION}-%{RELEASE}\\n}|",
];
/// The files that rpm locks.
pub(crate) const LOCKS: [&str; 2] = ["/usr/lib/sysimage/rpm/.rpm.lock", "/var/lib/rpm/.rpm.lock"];

/// Calls `each` with the name of each package and each of its files. Only rpm can read its
/// database.
pub(crate) fn each_file(system: &System, each: &mut dyn FnMut(&str, &str)) -> io::Result<()> {
    let output = system.run(&Program::new([
        "rpm",
        "-qa",
        "--qf",
        "[%{=NAME}\\t%{FILENAMES}\\n]",
    ]))?;
    output
        .text
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .for_each(|(package, file)| each(package, file));
    Ok(())
}

/// The architectures of packages that a host accepts, its own first. The dynamic loader shows the
/// host's architecture.
pub(crate) fn architectures(system: &System) -> Result<&'static [&'static str], Unknown> {
    const LOADERS: [(&str, &[&str]); 3] = [
        (
            "/lib64/ld-linux-x86-64.so.2",
            &["x86_64", "noarch", "i686", "i586", "i486", "i386"],
        ),
        ("/lib/ld-linux-aarch64.so.1", &["aarch64", "noarch"]),
        ("/lib64/ld64.so.2", &["ppc64le", "noarch"]),
    ];
    let loader = LOADERS.into_iter().find(|(path, _)| system.exists(path));
    loader
        .map(|(_, architectures)| architectures)
        .ok_or_else(|| Unknown::at("/lib64", "no known dynamic loader shows the architecture"))
}

/// The lists of a repository, made by createrepo_c.
pub(crate) const INDEX: MadeIndex = MadeIndex {
    names: &["rpm", "-qp", "--nosignature", "--qf", "%{NAME} %{EVR}\\n"],
    make: Some("createrepo_c --quiet"),
    lists: "repodata",
};

/// The fetcher of a manager with this command line and these arguments to install.
pub(crate) const fn fetcher(
    argv: fn(&Path, &str) -> Vec<String>,
    install: &'static str,
) -> Fetcher {
    Fetcher {
        argv,
        folders: &["root", "archives", "cache"],
        record: None,
        refresh: None,
        enable_stream: None,
        install,
        local: None,
        ending: ".rpm",
        index: PackageIndex::Made(INDEX),
    }
}

/// The commands that add a parameter to the kernel's command line on distributions without grubby.
pub(crate) fn edit_grub(parameter: &str) -> Vec<String> {
    manager::edit_grub(parameter, "grub2-mkconfig -o /boot/grub2/grub.cfg")
}

/// For fuzzing.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    let _ = repodata::Package::read(text.as_bytes());
    let _ = version::compare(text, "1:2-3");
    let _ = pattern::Pattern::new(text);
}
