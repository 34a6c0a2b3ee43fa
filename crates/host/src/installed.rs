//! The relevant installed packages, from the package manager's own record if that is a file.

use super::reader::Reader;
use gpusetup_database::compat::{AddOn, Companion};
use gpusetup_database::version::DriverVersion;
use gpusetup_packages::{Holds, Installed, Journal, RecordFile};
use gpusetup_system::is_absent;
use std::collections::{BTreeMap, BTreeSet};

/// Relevant installed packages with their versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Packages {
    versions: BTreeMap<String, String>,
    held: BTreeSet<String>,
    /// All packages that the package manager has not finished, as in `dpkg --audit` and dpkg's
    /// journal.
    pub(crate) unfinished: Vec<String>,
}

impl Packages {
    /// Reads the installed packages; none if there is no record to read. Any record counts: dpkg
    /// may be installed on hosts that use another package manager.
    pub(crate) fn read(
        reader: &mut Reader,
        add_ons: &[AddOn],
        companions: &[Companion],
    ) -> Option<Self> {
        let mut records = gpusetup_packages::ALL
            .iter()
            .filter_map(|manager| gpusetup_packages::of(*manager).record_file.as_ref());
        records.find_map(|record| {
            Self::of_record(reader, record, &|name| {
                let mut companions = companions.iter();
                matters(name)
                    || add_ons.iter().any(|of| is_of(name, of))
                    || companions.any(|of| of.is_package(name) || of.is_former(name))
            })
        })
    }

    fn of_record(
        reader: &mut Reader,
        record: &RecordFile,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Option<Self> {
        let what = "the installed packages";
        let read = match reader.system.open(record.path) {
            Err(e) if is_absent(&e) => return None,
            opened => opened.and_then(|mut file| (record.scan)(&mut file, wanted)),
        };
        match read {
            Ok(Installed {
                versions,
                held,
                unfinished,
            }) => {
                let mut packages = Self {
                    versions,
                    held,
                    unfinished,
                };
                packages.add_journal(reader, &record.journal);
                Some(packages)
            }
            Err(e) => {
                reader.miss_all(what, record.path, &e.to_string());
                None
            }
        }
    }

    /// Adds the packages of a journal to the unfinished ones, or the journal file itself if it
    /// names no package.
    fn add_journal(&mut self, reader: &mut Reader, journal: &Journal) {
        let what = "dpkg's journal";
        for file in reader
            .names(what, journal.folder)
            .into_iter()
            .filter(|name| (journal.is_change)(name))
        {
            let path = format!("{}/{file}", journal.folder);
            let change = reader
                .head(what, &path, journal.longest)
                .unwrap_or_default();
            let name = (journal.package)(&change).map_or(path, str::to_owned);
            if !self.unfinished.contains(&name) {
                self.unfinished.push(name);
            }
        }
    }

    /// The version of a package, as recorded.
    pub(crate) fn version(&self, name: &str) -> Option<&str> {
        self.versions.get(name).map(String::as_str)
    }

    /// All of them, with versions.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        self.versions.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// Whether every package of the kernel and of this driver is held (true), or none (false). None
    /// if some are.
    pub(crate) fn holds(&self, holds: &Holds, driver: DriverVersion) -> Option<bool> {
        let all = self
            .all()
            .filter(|(name, version)| holds.concerns(name, version, driver));
        let mut held = all.map(|(name, _)| self.held.contains(name));
        let first = held.next()?;
        held.all(|next| next == first).then_some(first)
    }

    /// The packages that contain an add-on's libraries, with versions.
    pub(crate) fn of(&self, add_on: &AddOn) -> impl Iterator<Item = (&str, &str)> {
        self.all().filter(|(n, _)| is_of(n, add_on))
    }

    /// The packages whose names start with `start`, with versions.
    pub(crate) fn beginning(&self, start: &str) -> impl Iterator<Item = (&str, &str)> {
        let start = start.to_owned();
        self.all().filter(move |(n, _)| n.starts_with(&start))
    }
}

fn matters(package: &str) -> bool {
    const BEGINNINGS: [&str; 6] = [
        "libc6",
        "gcc-",
        "libcuda1",
        "libnvidia-",
        "nvidia-",
        "cuda-",
    ];
    // What may have the driver's version, and so be held with it.
    const PARTS: [&str; 2] = ["nvidia", "cuda"];
    let mut holds = gpusetup_packages::ALL
        .iter()
        .filter_map(|manager| gpusetup_packages::of(*manager).holds.as_ref());
    BEGINNINGS.iter().any(|s| package.starts_with(s))
        || PARTS.iter().any(|part| package.contains(part))
        || holds.any(|holds| holds.is_kernel(package))
}

/// Whether a package of this name contains an add-on's libraries: `libcudnn9-cuda-12`,
/// `libcusparselt0`.
fn is_of(package: &str, add_on: &AddOn) -> bool {
    package.starts_with(&add_on.library.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_system::System;
    use gpusetup_system::limits::Limit;

    const JOURNAL: &str = "/var/lib/dpkg/updates";
    const TEXT: &str = "Package: adduser\nStatus: install ok installed\nVersion: 3.134\n\n\
        Package: man-db\nStatus: install ok half-configured\nVersion: 2\n\n\
        Package: gcc-12\nStatus: hold ok installed\nVersion: 12.2.0-14+deb12u1\n";

    /// Or packages that are installed would be taken for none, and a plan would install over them.
    #[test]
    fn a_host_whose_record_cannot_be_read_is_not_wholly_read() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path()).looked_at();
        let record = dir.path().join("var/lib/dpkg/status");
        std::fs::create_dir_all(record.parent().expect("a folder")).expect("made");
        std::fs::File::create(record)
            .and_then(|file| file.set_len(9 << 20))
            .expect("a sparse file");
        let mut reader = Reader::new(&system);
        assert_eq!(Packages::read(&mut reader, &[], &[]), None);
        reader.note_left_out();
        let [missed] = reader.missed.as_slice() else {
            panic!("{:?}", reader.missed)
        };
        assert_eq!(
            (missed.limit, &*missed.path()),
            (Some(Limit::Whole), "/var/lib/dpkg/status")
        );
        assert_eq!(system.left_out().len(), 1);
    }

    #[test]
    fn a_journal_that_was_not_merged_is_unfinished() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        assert_eq!(Packages::read(&mut Reader::new(&system), &[], &[]), None);
        system.make_directories(JOURNAL, 0o755).expect("made");
        system
            .write("/var/lib/dpkg/status", TEXT.as_bytes(), 0o644)
            .expect("written");
        let read = || Packages::read(&mut Reader::new(&system), &[], &[]).expect("there is a dpkg");
        system
            .write(format!("{JOURNAL}/tmp.i"), b"#padding\n", 0o644)
            .expect("written");
        assert_eq!(read().unfinished, ["man-db"]);
        assert_eq!(
            (read().version("gcc-12"), read().version("adduser")),
            (Some("12.2.0-14+deb12u1"), None)
        );
        let record = "Package: cpp-14-x86-64-linux-gnu\nStatus: install reinstreq half-installed\n";
        system
            .write(format!("{JOURNAL}/0000"), record.as_bytes(), 0o644)
            .expect("written");
        system
            .write(format!("{JOURNAL}/0001"), b"", 0o644)
            .expect("written");
        assert_eq!(
            read().unfinished,
            [
                "man-db",
                "cpp-14-x86-64-linux-gnu",
                "/var/lib/dpkg/updates/0001"
            ]
        );
    }
}
