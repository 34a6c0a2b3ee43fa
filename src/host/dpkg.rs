//! dpkg's record of what is installed, for the few packages that matter here. The file has megabytes, and `plan` has
//! milliseconds: it is read in blocks and a package that does not matter costs one look at its name.

use super::reader::Reader;
use crate::compat::AddOn;
use crate::system::System;
use std::collections::BTreeMap;
use std::io::{self, Read};

const STATUS: &str = "/var/lib/dpkg/status";
/// dpkg's journal: files with numbers for names, each the new record of one package. They are merged into the status file
/// when dpkg ends, so one that is left there says that dpkg did not; apt refuses to work until it has.
const JOURNAL: &str = "/var/lib/dpkg/updates";
/// More than any record has.
const RECORD: u64 = 1 << 20;

/// Installed packages that matter, with their versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packages {
    versions: BTreeMap<String, String>,
    /// Packages that dpkg has not finished with, as `dpkg --audit` and its journal tell, of all there are.
    pub unfinished: Vec<String>,
}

impl Packages {
    /// What dpkg has installed; none where there is no dpkg.
    pub fn read(reader: &mut Reader, add_ons: &[AddOn]) -> Option<Self> {
        let file = reader.open("the packages installed", STATUS)?;
        match scan(file, |name| matters(name) || add_ons.iter().any(|of| is_of(name, of))) {
            Ok(mut packages) => {
                packages.add_journal(reader);
                Some(packages)
            }
            Err(e) => {
                reader.miss("the packages installed", format_args!("{STATUS}: {e}"));
                None
            }
        }
    }

    /// Adds the packages of dpkg's journal to the unfinished ones; of a record without a name, its file.
    fn add_journal(&mut self, reader: &mut Reader) {
        let what = "dpkg's journal";
        for file in reader.names(what, JOURNAL).into_iter().filter(|n| n.bytes().all(|b| b.is_ascii_digit())) {
            let path = format!("{JOURNAL}/{file}");
            let record = reader.head(what, &path, RECORD).unwrap_or_default();
            let name = record.lines().find_map(|l| l.strip_prefix("Package: ")).map_or(path, |n| n.trim().to_owned());
            if !self.unfinished.contains(&name) {
                self.unfinished.push(name);
            }
        }
    }

    /// The version of a package, as dpkg says it.
    pub fn version(&self, name: &str) -> Option<&str> {
        self.versions.get(name).map(String::as_str)
    }

    /// Packages of an add-on's libraries, by name.
    pub fn of(&self, add_on: &AddOn) -> impl Iterator<Item = (&str, &str)> {
        self.versions.iter().map(|(n, v)| (n.as_str(), v.as_str())).filter(|(n, _)| is_of(n, add_on))
    }

    /// Packages whose names begin so, by name.
    pub fn beginning(&self, start: &str) -> impl Iterator<Item = (&str, &str)> {
        let start = start.to_owned();
        self.versions.iter().map(|(n, v)| (n.as_str(), v.as_str())).filter(move |(n, _)| n.starts_with(&start))
    }
}

/// A package's version without dpkg's epoch and revision: `535.261.03` of `535.261.03-1~deb12u1`.
pub fn upstream(version: &str) -> &str {
    let version = version.split_once(':').map_or(version, |(_, v)| v);
    version.rsplit_once('-').map_or(version, |(v, _)| v)
}

/// All packages that dpkg's record has as installed, with their versions. No program is run for it.
pub fn installed(system: &System) -> io::Result<BTreeMap<String, String>> {
    Ok(scan(system.open(STATUS)?, |_| true)?.versions)
}

fn matters(package: &str) -> bool {
    ["libc6", "gcc-", "libcuda1", "libnvidia-", "nvidia-", "cuda-"].iter().any(|s| package.starts_with(s))
}

/// Whether a package of this name has an add-on's libraries: `libcudnn9-cuda-12`, `libcusparselt0`.
fn is_of(package: &str, add_on: &AddOn) -> bool {
    package.starts_with(&add_on.library.to_lowercase())
}

/// Reads stanza after stanza, however the reads fall.
fn scan(mut from: impl Read, matters: impl Fn(&str) -> bool) -> io::Result<Packages> {
    let mut packages = Packages::default();
    let (mut block, mut filled) = (vec![0; 1 << 16], 0);
    loop {
        if filled == block.len() {
            // A stanza longer than the block; dpkg's own have a few kilobytes.
            if block.len() as u64 > 4 * RECORD {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a record is longer than any package's"));
            }
            block.resize(block.len() * 2, 0);
        }
        let read = match from.read(&mut block[filled..]) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        filled += read;
        let whole = match read {
            0 => filled,
            _ => block[..filled].windows(2).rposition(|w| w == b"\n\n").map_or(0, |at| at + 2),
        };
        stanzas(&String::from_utf8_lossy(&block[..whole]), &matters, &mut packages);
        block.copy_within(whole..filled, 0);
        filled -= whole;
        if read == 0 {
            return Ok(packages);
        }
    }
}

fn stanzas(text: &str, matters: &impl Fn(&str) -> bool, packages: &mut Packages) {
    for stanza in text.split("\n\n") {
        let stanza = stanza.trim_start_matches('\n');
        let Some(name) = stanza.strip_prefix("Package: ").and_then(|s| s.lines().next()) else { continue };
        // The second line, in all that dpkg itself writes.
        let status = stanza.lines().nth(1).and_then(|l| l.strip_prefix("Status: ")).unwrap_or_default();
        if is_unfinished(status) {
            packages.unfinished.push(name.to_owned());
        }
        if !matters(name) {
            continue;
        }
        let field = |key: &str| stanza.lines().find_map(|l| l.strip_prefix(key)).map(str::trim);
        // "install ok half-configured" and the like are not installed either.
        if field("Status:").is_some_and(|s| s.ends_with(" ok installed"))
            && let Some(version) = field("Version:")
        {
            packages.versions.entry(name.to_owned()).or_insert_with(|| version.to_owned());
        }
    }
}

/// What `dpkg --audit` lists, by a package's `install ok installed`: what was wanted, whether it must be reinstalled, its state.
fn is_unfinished(status: &str) -> bool {
    const STATES: [&str; 5] = ["half-installed", "unpacked", "half-configured", "triggers-awaited", "triggers-pending"];
    let mut words = status.split_whitespace().skip(1);
    words.next() == Some("reinstreq") || words.next().is_some_and(|state| STATES.contains(&state))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Package: adduser\nStatus: install ok installed\nVersion: 3.134\n\n\
        Package: libcuda1\nStatus: install ok installed\nArchitecture: amd64\nVersion: 535.261.03-1~deb12u1\n\
        Description: NVIDIA\n Package: not-this\n\n\
        Package: nvidia-smi\nStatus: deinstall ok config-files\nVersion: 525.1-1\n\n\
        Package: man-db\nStatus: install ok half-configured\nVersion: 2\n\n\
        Package: gcc-12\nStatus: hold ok installed\nVersion: 12.2.0-14+deb12u1\n";

    /// Hands out a few bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(into.len());
            into[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    #[test]
    fn only_what_is_installed_and_matters_is_kept() {
        for step in [1, 7, 64, 100_000] {
            let packages = scan(Slow(TEXT.as_bytes(), step), matters).expect("readable");
            assert_eq!(packages.versions.len(), 2, "{packages:?}");
            assert_eq!(packages.unfinished, ["man-db"]);
            assert_eq!(packages.version("libcuda1"), Some("535.261.03-1~deb12u1"));
            assert_eq!(packages.version("gcc-12").map(upstream), Some("12.2.0"));
        }
    }

    #[test]
    fn what_dpkg_audit_lists_is_unfinished() {
        let states = [
            "install reinstreq half-installed",
            "install ok half-installed",
            "install reinstreq installed",
            "install ok unpacked",
            "install ok half-configured",
            "install ok triggers-awaited",
            "install ok triggers-pending",
        ];
        assert!(states.into_iter().all(is_unfinished));
        let sound =
            ["install ok installed", "hold ok installed", "deinstall ok config-files", "purge ok not-installed", ""];
        assert!(!sound.into_iter().any(is_unfinished));
    }

    #[test]
    fn a_journal_that_was_not_merged_is_unfinished() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        system.make_directories(JOURNAL, 0o755).expect("made");
        system.write(STATUS, TEXT.as_bytes(), 0o644).expect("written");
        let unfinished = || Packages::read(&mut Reader::new(&system), &[]).expect("there is a dpkg").unfinished;
        system.write(format!("{JOURNAL}/tmp.i"), b"#padding\n", 0o644).expect("written");
        assert_eq!(unfinished(), ["man-db"]);
        let all = installed(&system).expect("readable");
        assert_eq!(all.keys().collect::<Vec<_>>(), ["adduser", "gcc-12", "libcuda1"]);
        let record = "Package: cpp-14-x86-64-linux-gnu\nStatus: install reinstreq half-installed\n";
        system.write(format!("{JOURNAL}/0000"), record.as_bytes(), 0o644).expect("written");
        system.write(format!("{JOURNAL}/0001"), b"", 0o644).expect("written");
        assert_eq!(unfinished(), ["man-db", "cpp-14-x86-64-linux-gnu", "/var/lib/dpkg/updates/0001"]);
    }

    #[test]
    fn a_stanza_may_be_longer_than_a_block() {
        let long = format!("Package: x\nDescription: {}\n\n{TEXT}", "y".repeat(200_000));
        assert_eq!(scan(long.as_bytes(), matters).expect("readable").versions.len(), 2);
    }

    #[test]
    fn a_version_is_stripped_of_what_dpkg_adds() {
        assert_eq!(upstream("2:580.95.05-0ubuntu0.24.04.1"), "580.95.05");
        assert_eq!(upstream("9.10.2.21-1"), "9.10.2.21");
        assert_eq!(upstream("1.0"), "1.0");
    }
}
