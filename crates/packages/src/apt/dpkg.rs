//! dpkg's record of packages, and its lists of their files. The record has several megabytes, but
//! `plan` must finish in milliseconds, so only name and state are read of packages that are not
//! wanted.

use super::stanza;
use crate::abilities::Interruption;
use crate::record::{Installed, Journal, RecordFile};
use crate::records::each_record;
use gpusetup_system::{Program, System};
use std::io::{self, Read};
use std::path::Path;

/// The file of all packages.
pub(crate) const STATUS: &str = "/var/lib/dpkg/status";

/// dpkg's record. The files in its journal have numeric names, and each contains the new record of
/// one package; apt refuses to work while there are any.
pub(crate) const RECORD: RecordFile = RecordFile {
    path: STATUS,
    scan,
    journal: Journal {
        folder: "/var/lib/dpkg/updates",
        is_change: |name| name.bytes().all(|b| b.is_ascii_digit()),
        package: |text| {
            text.lines()
                .find_map(|line| line.strip_prefix("Package: "))
                .map(str::trim)
        },
        longest: 1 << 20,
    },
};

/// dpkg reports an interruption until it has finished. apt does not change packages whose unpacking
/// was interrupted; dpkg does.
pub(crate) const INTERRUPTION: Interruption = Interruption {
    is_left: was_cut_off,
    finish: "dpkg --force-confdef --force-confold --configure -a",
    remove: "dpkg --force-remove-reinstreq --purge",
    // Only apt unpacks a half-unpacked package again.
    by_hand: "apt-get install --fix-broken",
};

fn was_cut_off(on: &System) -> io::Result<bool> {
    let in_journal = on
        .list(RECORD.journal.folder)
        .is_ok_and(|names| !names.is_empty());
    Ok(in_journal
        || !on
            .run(&Program::new(["dpkg", "--audit"]).undisturbed())?
            .text
            .is_empty())
}

/// Calls `each` with every package's name and stanza.
pub(crate) fn each_package<E: From<io::Error>>(
    from: impl Read,
    mut each: impl FnMut(&str, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    each_record(from, b"\n\n", |stanza| {
        let stanza = stanza.trim_ascii_start();
        match stanza::package(stanza) {
            Some(name) => each(&String::from_utf8_lossy(&name), stanza),
            None => Ok(()),
        }
    })
}

/// Calls `each` with the name of each package and each of its files, read from dpkg's lists.
pub(crate) fn each_file(system: &System, each: &mut dyn FnMut(&str, &str)) -> io::Result<()> {
    const LISTS: &str = "/var/lib/dpkg/info";
    // Bytes of all of them together: of Debian with TeX they have about forty megabytes, and an
    // application with its own Python ten.
    const MAX_ALL: u64 = 512 << 20;
    let mut left = MAX_ALL;
    for name in system.list(LISTS)? {
        let Some(package) = name.strip_suffix(".list") else {
            continue;
        };
        let package = package.split_once(':').map_or(package, |(name, _)| name);
        let path = Path::new(LISTS).join(&name);
        let list = system.open(&path)?;
        let length = list.metadata()?.len();
        left = left.checked_sub(length).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("{} is too large", path.display()),
            )
        })?;
        // A line may have a single letter.
        each_record(system.meter(&path).of(list), b"\n", |file| {
            if !file.is_empty() {
                each(package, &String::from_utf8_lossy(file));
            }
            Ok::<_, io::Error>(())
        })?;
    }
    Ok(())
}

/// How many packages a record may have; Debian has sixty thousand in all.
const MAX_PACKAGES: usize = 100_000;

fn scan(from: &mut dyn Read, wanted: &dyn Fn(&str) -> bool) -> io::Result<Installed> {
    let mut found = Installed::default();
    each_package(from, |name, stanza| {
        let status = stanza::text(stanza, "Status");
        if is_unfinished(&status) {
            found.unfinished.push(name.to_owned());
        }
        if found.versions.len().max(found.unfinished.len()) > MAX_PACKAGES {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "it has more packages than a host",
            ));
        }
        // States such as "install ok half-configured" do not count as installed.
        if wanted(name)
            && status.ends_with(" ok installed")
            && let Some(version) = stanza::field(stanza, "Version")
        {
            found
                .versions
                .entry(name.to_owned())
                .or_insert_with(|| String::from_utf8_lossy(version).into_owned());
            if status.starts_with("hold ") {
                found.held.insert(name.to_owned());
            }
        }
        Ok::<_, io::Error>(())
    })?;
    Ok(found)
}

/// Whether `dpkg --audit` would list a package with this status. Its words are the wanted state,
/// `ok` or `reinstreq`, and the state: `install ok installed`.
fn is_unfinished(status: &str) -> bool {
    const STATES: [&str; 5] = [
        "half-installed",
        "unpacked",
        "half-configured",
        "triggers-awaited",
        "triggers-pending",
    ];
    let mut words = status.split_whitespace().skip(1);
    words.next() == Some("reinstreq") || words.next().is_some_and(|state| STATES.contains(&state))
}

/// Whether apt counts a package as installed. A removed package may have left its configuration.
pub(crate) fn is_present(stanza: &[u8]) -> bool {
    let status = stanza::text(stanza, "Status");
    let state = status.split_whitespace().nth(2);
    state.is_some_and(|state| state != "not-installed" && state != "config-files")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::tests::Slow;

    const TEXT: &str = "Package: adduser\nStatus: install ok installed\nVersion: 3.134\n\n\
        Package: libcuda1\nStatus: install ok installed\nArchitecture: amd64\nVersion: 535.261.03-1~deb12u1\n\
        Description: NVIDIA\n Package: not-this\n\n\
        Package: nvidia-smi\nStatus: deinstall ok config-files\nVersion: 525.1-1\n\n\
        Package: man-db\nStatus: install ok half-configured\nVersion: 2\n\n\
        Package: gcc-12\nStatus: hold ok installed\nVersion: 12.2.0-14+deb12u1\n";

    fn wanted(name: &str) -> bool {
        name != "adduser"
    }

    #[test]
    fn only_what_is_installed_and_wanted_is_kept() {
        for step in [1, 7, 64, 100_000] {
            let found = scan(&mut Slow(TEXT.as_bytes(), step), &wanted).expect("readable");
            assert_eq!(found.unfinished, ["man-db"]);
            assert_eq!(found.held.iter().collect::<Vec<_>>(), ["gcc-12"]);
            let versions = [
                ("gcc-12", "12.2.0-14+deb12u1"),
                ("libcuda1", "535.261.03-1~deb12u1"),
            ];
            assert_eq!(
                found.versions,
                versions.map(|(n, v)| (n.to_owned(), v.to_owned())).into()
            );
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
        let sound = [
            "install ok installed",
            "hold ok installed",
            "deinstall ok config-files",
            "purge ok not-installed",
            "",
        ];
        assert!(!sound.into_iter().any(is_unfinished));
    }

    #[test]
    fn a_stanza_may_be_longer_than_a_block() {
        let long = format!("Package: x\nDescription: {}\n\n{TEXT}", "y".repeat(600_000));
        assert_eq!(
            scan(&mut long.as_bytes(), &wanted)
                .expect("readable")
                .versions
                .len(),
            2
        );
    }
}
