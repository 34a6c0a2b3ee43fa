//! Reports: `doctor --report FILE` writes one, `doctor FILE` reads it on another machine.

use super::{Problem, say};
use crate::doctor::CHECKS;
use crate::report::Collected;
use crate::report::archive::{self, ArchiveError};
use crate::system::{System, environment, input};
use crate::text::{bytes, quoted, quoted_path};
use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;

/// Whether an argument of `doctor` names a report, and no check.
pub(crate) fn is_report(argument: &str) -> bool {
    let is_check = CHECKS
        .iter()
        .any(|c| c.id.as_str().eq_ignore_ascii_case(argument));
    !is_check
        && (argument.contains('/')
            || argument.ends_with(".tar.zst")
            || input::metadata(Path::new(argument)).is_some())
}

/// What a report holds.
pub(crate) fn read(path: &Path) -> Result<Collected, Problem> {
    let name = path.display();
    if input::is_directory(path) {
        let sentence =
            format!("{name} is a directory and no report: a tree of a host is named with --root");
        return Err(Problem::usage(sentence)
            .attempt(format!("gpusetup doctor --root {}", quoted_path(path))));
    }
    let file = input::open(path)?;
    archive::open(BufReader::new(file)).map_err(|e: ArchiveError| {
        let sentence = format!("the report {name} cannot be read: {e}");
        match e.is_of_newer() {
            true => Problem::usage(sentence).hint("read it with the newest gpusetup"),
            false => Problem::integrity(sentence)
                .hint("have it made again: gpusetup doctor --report FILE.tar.zst"),
        }
    })
}

/// Writes a report that only its owner may read, whole or not at all.
pub(crate) fn write(path: &Path, texts: &BTreeMap<String, String>) -> Result<(), Problem> {
    let name = path.display();
    // A device would be replaced by a file.
    if input::metadata(path).is_some_and(|m| !m.is_file()) {
        return Err(Problem::usage(format!(
            "cannot write a report to {name}: it is no file"
        )));
    }
    let failed =
        |e: std::io::Error| Problem::unexpected(format!("cannot write the report {name}: {e}"));
    let packed = archive::pack(texts).map_err(failed)?;
    let absolute = std::path::absolute(path).map_err(failed)?;
    System::live()
        .write(absolute, &packed, 0o600)
        .map_err(failed)?;
    let word = quoted_path(path);
    say(&format!(
        "wrote {name}, {}, {} files. Host names, users, addresses, serial numbers and the like are taken out; read it before \
         you pass it on:\n  tar --zstd -tf {word}\n  tar --zstd -xOf {word} README.txt",
        bytes(packed.len() as u64),
        texts.len()
    ));
    if !texts.contains_key("kernel.log") {
        say(
            "it has no log of the kernel's, which often says most: root may read it, or give one with --kernel-log FILE",
        );
    }
    // Giving it away by its name would give away whatever somebody put there in the meantime.
    if let Some(user) =
        environment::variable("SUDO_USER").filter(|_| rustix::process::geteuid().is_root())
    {
        say(&format!(
            "it is root's; to have it: sudo chown {}: {}",
            quoted(&user),
            word
        ));
    }
    Ok(())
}
