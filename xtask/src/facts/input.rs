//! The published files: below a folder, or on a server. Nothing outside of the folder is read, and
//! nothing larger than a list can be.

use super::report::{Report, shown};
use super::{lists, notes};
use crate::{Result, pypi};
use gpusetup_database::compat::Database;
use gpusetup_database::sum::sha256;
use gpusetup_database::version::DriverVersion;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::Path;

/// The largest input in bytes. NVIDIA's lists have 100 KB, the release notes 400 KB, lists of GPUs
/// 800 KB.
const MAX_INPUT_BYTES: u64 = 8 << 20;

/// The most entries of a folder with its subfolders.
const MAX_ENTRIES: usize = 20_000;

/// The most nested folder.
const MAX_DEPTH: usize = 10;

/// The most lists that a server's listings may name. NVIDIA's name some 200.
const MAX_LISTS: usize = 1_000;

/// The products whose lists are looked for on a server.
const PRODUCTS: [&str; 6] = [
    "cuda",
    "cudnn",
    "cutensor",
    "cusparselt",
    "cudss",
    "nvshmem",
];

/// The oldest branch whose lists of GPUs are read from a server.
const OLDEST_BRANCH: u16 = 525;

/// A published file.
pub struct Input {
    /// The path below the folder or the address: `cuda/redist/redistrib_13.0.2.json`.
    pub path: String,
    pub text: String,
    /// The SHA-256 of the file.
    pub sha256: String,
    pub kind: Kind,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A list of archives.
    List,
    /// The GPUs of a driver.
    Gpus,
    /// CUDA's release notes.
    Notes,
    /// The names in a folder.
    Listing,
}

/// The kind of a file, by its path.
fn kind(path: &str) -> Option<Kind> {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name {
        _ if lists::named(path).is_some() => Some(Kind::List),
        "supported-gpus.json" => Some(Kind::Gpus),
        _ if notes::named(path) => Some(Kind::Notes),
        "index.html" | "listing.txt" => Some(Kind::Listing),
        _ => None,
    }
}

/// Archives are what lists name: they are not read.
fn is_archive(path: &str) -> bool {
    [
        ".tar.xz", ".tar.gz", ".tgz", ".txz", ".tar.zst", ".zip", ".run", ".whl",
    ]
    .iter()
    .any(|end| path.ends_with(end))
}

/// Reads everything below a folder or an address.
pub fn read(from: &str, database: &Database, report: &mut Report) -> Result<Vec<Input>> {
    let inputs = if from.starts_with("https://") || from.starts_with("http://") {
        on_server(from.trim_end_matches('/'), database, report)
    } else {
        let mut found = BTreeMap::new();
        below(Path::new(from), "", 0, &mut found, report)?;
        found.into_values().collect()
    };
    listed_and_missing(&inputs, report);
    Ok(inputs)
}

/// CUDA's release notes in one file, or at one address.
pub fn release_notes(from: &str, report: &mut Report) -> Option<Input> {
    let text = match from.starts_with("https://") || from.starts_with("http://") {
        true => get(from),
        false => contents(Path::new(from)),
    };
    match text.and_then(text_of) {
        Ok((text, sha256)) => Some(Input {
            path: from.to_owned(),
            text,
            sha256,
            kind: Kind::Notes,
        }),
        Err(problem) => {
            report
                .refused
                .push(format!("{}: {}", shown(from), shown(problem)));
            None
        }
    }
}

/// Reads the folder `at`, which has the path `path` below the top.
fn below(
    at: &Path,
    path: &str,
    depth: usize,
    found: &mut BTreeMap<String, Input>,
    report: &mut Report,
) -> Result<()> {
    let failed = |e: std::io::Error| format!("{}: {e}", at.display());
    let mut names = fs::read_dir(at)
        .map_err(failed)?
        .map(|entry| entry.map(|e| e.file_name()))
        .collect::<std::io::Result<Vec<_>>>()
        .map_err(failed)?;
    names.sort();
    if found.len() + names.len() > MAX_ENTRIES {
        return Err(format!("{}: more than {MAX_ENTRIES} files", at.display()));
    }
    for name in names {
        if name.to_string_lossy().starts_with('.') {
            report.unknown("hidden files", format!("{path}{}", name.to_string_lossy()));
            continue;
        }
        let Some(name) = name.to_str().filter(|name| lists::is_path(name)) else {
            report.refused.push(format!(
                "{}: a name with unusual characters",
                shown(format!("{path}{}", name.to_string_lossy()))
            ));
            continue;
        };
        let (file, path) = (at.join(name), format!("{path}{name}"));
        let kind_of_file = fs::symlink_metadata(&file).map_err(failed)?.file_type();
        if kind_of_file.is_dir() && depth < MAX_DEPTH {
            below(&file, &format!("{path}/"), depth + 1, found, report)?;
        } else if kind_of_file.is_dir() {
            report.unknown("folders that are nested too deep", path);
        } else if !kind_of_file.is_file() {
            report.unknown("neither files nor folders: links are not followed", path);
        } else if let Some(kind) = kind(&path) {
            match contents(&file).and_then(text_of) {
                Ok((text, sha256)) => {
                    found.insert(
                        path.clone(),
                        Input {
                            path,
                            text,
                            sha256,
                            kind,
                        },
                    );
                }
                Err(problem) => {
                    report
                        .refused
                        .push(format!("{}: {}", shown(&path), shown(problem)))
                }
            }
        } else {
            no_kind(&path, report);
        }
    }
    Ok(())
}

fn no_kind(path: &str, report: &mut Report) {
    if is_archive(path) {
        report.leave_out("archives are named by lists and are not read", path);
    } else {
        report.unknown("files of no known kind", path);
    }
}

/// A file's bytes, unless it is too large.
fn contents(path: &Path) -> Result<Vec<u8>> {
    let failed = |e: std::io::Error| e.to_string();
    let mut bytes = Vec::new();
    fs::File::open(path)
        .map_err(failed)?
        .take(MAX_INPUT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        Err(format!("it is larger than {MAX_INPUT_BYTES} bytes"))
    } else {
        Ok(bytes)
    }
}

/// The text of bytes, and their SHA-256.
fn text_of(bytes: Vec<u8>) -> Result<(String, String)> {
    let sum = sha256(&bytes);
    String::from_utf8(bytes)
        .map(|text| (text, sum))
        .map_err(|_| "it is not UTF-8".to_owned())
}

fn get(url: &str) -> Result<Vec<u8>> {
    let most = MAX_INPUT_BYTES.to_string();
    let bytes = pypi::curl(&[
        "--proto",
        "=http,https",
        "--proto-redir",
        "=https",
        "--max-filesize",
        &most,
        url,
    ])?;
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        Err(format!("it is larger than {MAX_INPUT_BYTES} bytes"))
    } else {
        Ok(bytes)
    }
}

/// Reads what a server has: the lists of every product, by the listing of its folder, and the lists
/// of GPUs.
fn on_server(base: &str, database: &Database, report: &mut Report) -> Vec<Input> {
    let mut inputs = Vec::new();
    let mut fetch = |path: &str, kind: Kind, report: &mut Report| -> Option<usize> {
        // The listing of a folder has the folder's own address.
        let url = format!("{base}/{}", path.strip_suffix("index.html").unwrap_or(path));
        match get(&url).and_then(text_of) {
            Ok((text, sha256)) => {
                inputs.push(Input {
                    path: path.to_owned(),
                    text,
                    sha256,
                    kind,
                });
                Some(inputs.len() - 1)
            }
            Err(problem) => {
                report.unknown(
                    "addresses that could not be read",
                    format!("{url}: {problem}"),
                );
                None
            }
        }
    };
    let mut listings = Vec::new();
    for product in PRODUCTS {
        listings.extend(fetch(
            &format!("{product}/redist/index.html"),
            Kind::Listing,
            report,
        ));
    }
    listings.extend(fetch(
        "XFree86/Linux-x86_64/index.html",
        Kind::Listing,
        report,
    ));
    let listings: Vec<_> = listings
        .into_iter()
        .map(|n| (inputs[n].path.clone(), names(&inputs[n].text)))
        .collect();
    let mut paths = Vec::new();
    for (path, names) in &listings {
        let folder = path.strip_suffix("index.html").unwrap_or(path);
        let lists = names
            .iter()
            .map(|name| format!("{folder}{name}"))
            .filter(|path| kind(path) == Some(Kind::List));
        paths.extend(lists.map(|path| (path, Kind::List)));
        if folder.starts_with("XFree86/") {
            paths.extend(
                lists_of_gpus(folder, names, database)
                    .into_iter()
                    .map(|path| (path, Kind::Gpus)),
            );
        }
    }
    if paths.len() > MAX_LISTS {
        report.refused.push(format!(
            "{}: its listings name {} lists",
            shown(base),
            paths.len()
        ));
        return inputs;
    }
    let fetched = pypi::for_each(&paths, pypi::READERS, |(path, _)| {
        Ok(get(&format!("{base}/{path}")).and_then(text_of))
    });
    for ((path, kind), fetched) in paths.into_iter().zip(fetched.unwrap_or_default()) {
        match fetched {
            Ok((text, sha256)) => inputs.push(Input {
                path,
                text,
                sha256,
                kind,
            }),
            // Few releases have their list beside the driver.
            Err(problem) if kind == Kind::Gpus => report.unknown(
                "addresses that could not be read",
                format!("{path}: {problem}"),
            ),
            Err(problem) => report
                .refused
                .push(format!("{}: {}", shown(&path), shown(problem))),
        }
    }
    inputs
}

/// The lists of GPUs of the newest release of each branch that the database does not have yet.
fn lists_of_gpus(folder: &str, names: &BTreeSet<String>, database: &Database) -> Vec<String> {
    let mut newest: BTreeMap<u16, (DriverVersion, &String)> = BTreeMap::new();
    for name in names {
        if let Ok(version) = name.parse::<DriverVersion>()
            && version.branch >= OLDEST_BRANCH
            && database.driver(version).is_none()
            && newest
                .get(&version.branch)
                .is_none_or(|(known, _)| *known < version)
        {
            newest.insert(version.branch, (version, name));
        }
    }
    newest
        .into_values()
        .map(|(_, name)| format!("{folder}{name}/supported-gpus/supported-gpus.json"))
        .collect()
}

/// The names in a listing: the links of an HTML page, or the words of a plain list. What is not a
/// plain name is left out, and with it links to other places.
pub fn names(listing: &str) -> BTreeSet<String> {
    let words: Vec<_> = if listing.contains("href") {
        listing
            .split("href=")
            .skip(1)
            .filter_map(|rest| {
                rest.trim_start_matches(['"', '\''])
                    .split(['"', '\'', '>', ' '])
                    .next()
            })
            .collect()
    } else {
        listing.split_whitespace().collect()
    };
    let plain = words
        .into_iter()
        .map(|name| name.trim_start_matches("./").trim_end_matches('/'));
    plain
        .filter(|name| lists::is_path(name) && !name.contains('/'))
        .map(str::to_owned)
        .collect()
}

/// Notes what a folder's listing names and the inputs lack.
fn listed_and_missing(inputs: &[Input], report: &mut Report) {
    let have: BTreeSet<_> = inputs.iter().map(|input| input.path.as_str()).collect();
    for listing in inputs.iter().filter(|input| input.kind == Kind::Listing) {
        let folder = listing
            .path
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        for name in names(&listing.text) {
            let path = if folder.is_empty() {
                name.clone()
            } else {
                format!("{folder}/{name}")
            };
            let is_list = kind(&path) == Some(Kind::List);
            if is_list && !have.contains(path.as_str()) {
                report.unknown("lists that a listing names, and that are missing", path);
            } else if !is_list
                && folder.ends_with("redist")
                && name.contains('.')
                && !name.ends_with(".html")
            {
                report.unknown("names in listings that are no lists", path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_are_pages_or_plain_lists() {
        let page = "<a href=\"../\">..</a><a href='redistrib_13.0.2.json'>x</a><a href=\"cuda_nvcc/\">y</a>\
                    <a href=\"/etc/passwd\">z</a><a href=\"https://example.com/redistrib_1.0.0.json\">z</a>";
        assert_eq!(
            names(page).into_iter().collect::<Vec<_>>(),
            ["cuda_nvcc", "redistrib_13.0.2.json"]
        );
        assert_eq!(
            names("580.95.05\n../x\n 595.45.04/ ")
                .into_iter()
                .collect::<Vec<_>>(),
            ["580.95.05", "595.45.04"]
        );
    }

    /// Serves these files, and answers 404 for others, until the test ends.
    fn served(files: Vec<(&'static str, String)>) -> String {
        use std::io::{BufRead, BufReader, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
                let lines: Vec<_> = lines
                    .map_while(|line| line.ok().filter(|line| !line.is_empty()))
                    .collect();
                let path = lines
                    .first()
                    .and_then(|line| line.split(' ').nth(1))
                    .unwrap_or_default()
                    .to_owned();
                let found = files.iter().find(|(of, _)| *of == path);
                let status = if found.is_some() {
                    "200 OK"
                } else {
                    "404 Not Found"
                };
                let body = found.map(|(_, text)| text.as_str()).unwrap_or_default();
                let _ = write!(
                    stream,
                    "HTTP/1.0 {status}\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        address
    }

    #[test]
    fn a_server_is_read_by_its_listings() {
        if std::process::Command::new("curl")
            .arg("--version")
            .output()
            .is_err()
        {
            return;
        }
        let database = super::super::tests::known();
        let listing = "<a href='redistrib_9.7.0.json'>x</a><a href='redistrib_9.8.0.json'>x</a><a href='../../x/'>x</a>";
        let drivers = "<a href='580.65.06/'>x</a><a href='580.999.01/'>x</a>";
        let address = served(vec![
            ("/cudnn/redist/", listing.to_owned()),
            ("/cudnn/redist/redistrib_9.7.0.json", "{}".to_owned()),
            ("/XFree86/Linux-x86_64/", drivers.to_owned()),
            (
                "/XFree86/Linux-x86_64/580.999.01/supported-gpus/supported-gpus.json",
                "{\"chips\": []}".to_owned(),
            ),
        ]);
        let mut report = Report::default();
        let inputs = read(&address, database, &mut report).expect("inputs");
        let lists: Vec<_> = inputs
            .iter()
            .filter(|i| i.kind != Kind::Listing)
            .map(|i| (i.path.as_str(), i.kind))
            .collect();
        let gpus = "XFree86/Linux-x86_64/580.999.01/supported-gpus/supported-gpus.json";
        assert_eq!(
            lists,
            [
                ("cudnn/redist/redistrib_9.7.0.json", Kind::List),
                (gpus, Kind::Gpus)
            ]
        );
        // A list that is named and cannot be had is refused, folders that do not exist are named.
        assert!(
            report.refused.len() == 1 && report.refused[0].contains("redistrib_9.8.0.json"),
            "{:?}",
            report.refused
        );
        assert!(
            report.unknown["addresses that could not be read"]
                .iter()
                .any(|name| name.contains("/cuda/redist/"))
        );
    }

    #[test]
    fn kinds_are_told_by_their_paths() {
        assert_eq!(
            kind("compute/cuda/redist/redistrib_13.0.2.json"),
            Some(Kind::List)
        );
        assert_eq!(
            kind("XFree86/Linux-x86_64/595.45.04/supported-gpus/supported-gpus.json"),
            Some(Kind::Gpus)
        );
        assert_eq!(kind("cuda/redist/index.html"), Some(Kind::Listing));
        assert_eq!(kind("cuda/redist/version_13.5.0.json"), None);
    }
}
