//! How apt downloads packages into a folder, and the lists of a repository from which it installs.

use crate::fetcher::{Fetcher, FolderFiles, LocalPackages, PackageIndex, WrittenIndex};
use crate::manager::path_in;
use crate::words;
use gpusetup_database::sum::sha256;
use std::path::{Path, PathBuf};

/// apt's fetcher. apt uses packages in local folders in place, and saves only others to its
/// archives.
pub(crate) const FETCHER: Fetcher = Fetcher {
    argv,
    folders: &["lists/partial", "archives/partial"],
    record: Some("status"),
    refresh: Some("update"),
    enable_stream: None,
    install: "--download-only install",
    local: Some(LocalPackages {
        list: "--print-uris",
        find: local,
    }),
    ending: ".deb",
    index: PackageIndex::Written(WrittenIndex {
        describe: "dpkg-deb -f",
        name_and_version: |control| (field(control, "Package"), field(control, "Version")),
        file_name: without_epoch,
        entry: stanza,
        files: |packages, created| {
            let release = release(&packages, created);
            [("Packages", packages), ("Release", release)]
        },
    }),
};

/// The files that apt needs in addition to the packages: a source that names their folder, and two
/// work folders.
pub(crate) const FOLDER_FILES: FolderFiles = FolderFiles {
    folders: &["lists/partial", "archives/partial"],
    source: SOURCE,
    text: source,
};

/// The file in a bundle's folder that names the folder as apt's source.
const SOURCE: &str = "sources.list";

/// The options that make apt install only from a folder.
pub(crate) fn from_folder(folder: &Path) -> Vec<String> {
    let options = [
        format!("Dir::Etc::sourcelist={}", path_in(folder, SOURCE)),
        "Dir::Etc::sourceparts=-".to_owned(),
        format!("Dir::State::lists={}", path_in(folder, "lists")),
        format!("Dir::Cache::archives={}", path_in(folder, "archives")),
        "Dir::Cache::pkgcache=".to_owned(),
        "Dir::Cache::srcpkgcache=".to_owned(),
        "Acquire::Languages=none".to_owned(),
        // A host without a network often has a wrong clock.
        "Acquire::Check-Date=false".to_owned(),
        // apt's own user cannot read the folder, and everything in it is verified.
        "APT::Sandbox::User=root".to_owned(),
    ];
    options
        .into_iter()
        .flat_map(|option| ["-o".to_owned(), option])
        .collect()
}

/// The text of [`SOURCE`]. It is trusted without a key, because the packages were verified when
/// they were copied to the folder.
fn source(folder: &Path) -> String {
    // A space would end the word; apt decodes percent codes.
    let path = folder
        .display()
        .to_string()
        .replace('%', "%25")
        .replace(' ', "%20");
    format!("deb [trusted=yes] file:{path} ./\n")
}

fn argv(work: &Path, _release: &str) -> Vec<String> {
    let folders = [
        ("Dir::State", ""),
        ("Dir::State::lists", "lists"),
        ("Dir::State::status", "status"),
        ("Dir::State::extended_states", "extended_states"),
        ("Dir::Cache", ""),
        ("Dir::Cache::archives", "archives"),
    ];
    let folders = folders.map(|(option, name)| format!("{option}={}", path_in(work, name)));
    let others = [
        "Dir::Cache::pkgcache=",
        "Dir::Cache::srcpkgcache=",
        // The host's locks are not needed, because no other process works in this folder.
        "Debug::NoLocking=1",
        "Acquire::Languages=none",
        // apt's own user cannot read the folder.
        "APT::Sandbox::User=root",
    ];
    let options = folders.into_iter().chain(others.map(str::to_owned));
    let options = options.flat_map(|option| ["-o".to_owned(), option]);
    words("apt-get -y -q --no-install-recommends")
        .into_iter()
        .chain(options)
        .collect()
}

/// Parses a line of `--print-uris`: the path of a package in a local folder, and apt's name for its
/// file.
fn local(line: &str) -> Option<(PathBuf, &str)> {
    let (address, rest) = line.strip_prefix('\'')?.split_once("' ")?;
    let path = url::Url::parse(address)
        .ok()
        .filter(|url| url.scheme() == "file")?
        .to_file_path()
        .ok()?;
    let name = rest
        .split(' ')
        .next()
        .filter(|name| name.ends_with(".deb") && !name.contains('/'))?;
    Some((path, name))
}

/// A package's file name as in Debian's archive, without epoch: apt writes an epoch as `4%3a`, but
/// decodes that in URLs as a colon.
fn without_epoch(file: &str) -> String {
    let Some((name, rest)) = file.split_once('_') else {
        return file.to_owned();
    };
    let version = rest
        .split_once("%3a")
        .filter(|(epoch, _)| epoch.bytes().all(|b| b.is_ascii_digit()));
    format!("{name}_{}", version.map_or(rest, |(_, version)| version))
}

fn field<'a>(control: &'a str, key: &str) -> &'a str {
    let value = super::stanza::field(control.as_bytes(), key).unwrap_or_default();
    std::str::from_utf8(value).unwrap_or_default()
}

/// A package's entry in apt's list: its control file, and the name, size and checksum of its file.
fn stanza(control: &str, file: &str, size: u64, sum: &str) -> String {
    format!(
        "{}\nFilename: ./{file}\nSize: {size}\nSHA256: {sum}\n\n",
        control.trim_end()
    )
}

/// The `Release` file. It is not signed, because the packages were verified against the bundle's
/// checksums.
fn release(packages: &str, created: &str) -> String {
    let date = created
        .parse::<jiff::Timestamp>()
        .unwrap_or_default()
        .strftime("%a, %d %b %Y %H:%M:%S UTC")
        .to_string();
    format!(
        "Origin: gpusetup\nLabel: gpusetup\nSuite: bundle\nDate: {date}\nSHA256:\n {} {} Packages\n",
        sha256(packages),
        packages.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packages_file_has_the_name_that_the_archive_gives_it() {
        assert_eq!(
            without_epoch("g++_4%3a12.2.0-3_amd64.deb"),
            "g++_12.2.0-3_amd64.deb"
        );
        assert_eq!(
            without_epoch("dkms_3.0.10-8+deb12u1_all.deb"),
            "dkms_3.0.10-8+deb12u1_all.deb"
        );
    }

    #[test]
    fn packages_in_folders_are_told_from_others() {
        let line = |address| format!("'{address}' gcc_4%3a12.2.0-3_amd64.deb 5216 SHA256:ab");
        let in_folder = line("file:/srv/my%20packages/./gcc_12.2.0-3_amd64.deb");
        let path = PathBuf::from("/srv/my packages/gcc_12.2.0-3_amd64.deb");
        assert_eq!(
            local(&in_folder),
            Some((path, "gcc_4%3a12.2.0-3_amd64.deb"))
        );
        assert_eq!(
            local(&line("http://mirror.example/debian/pool/gcc.deb")),
            None
        );
        assert_eq!(local("Reading package lists..."), None);
        assert_eq!(local("'file:/srv/x.deb' ../x.deb 1 SHA256:ab"), None);
    }

    #[test]
    fn lists_say_what_apt_reads() {
        let control = "Package: hello\nVersion: 1:2.10-3\nDescription: x\n y\n";
        assert_eq!(
            (field(control, "Package"), field(control, "Version")),
            ("hello", "1:2.10-3")
        );
        let text = stanza(control, "hello_2.10-3_amd64.deb", 5, "ab");
        assert_eq!(
            text,
            "Package: hello\nVersion: 1:2.10-3\nDescription: x\n y\nFilename: ./hello_2.10-3_amd64.deb\nSize: 5\nSHA256: ab\n\n"
        );
        let release = release(&text, "2026-11-21T12:00:00Z");
        assert!(
            release.contains("Date: Sat, 21 Nov 2026 12:00:00 UTC\n"),
            "{release}"
        );
        assert!(
            release.ends_with(&format!(" {} {} Packages\n", sha256(&text), text.len())),
            "{release}"
        );
    }
}
