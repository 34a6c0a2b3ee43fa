//! Releases of gpusetup, and what comes with them: where they are, who signs them, and how their files are read.

use super::files::read_key;
use super::{Problem, say};
use crate::exit::Exit;
use crate::fetch::{Sources, fetch_small};
use crate::signed::Signers;
use crate::system::input::{self, InputError};
use crate::text::visible;
use std::path::{Path, PathBuf};

/// The project's page, if whoever built this program named one.
const HOME: Option<&str> = option_env!("GPUSETUP_HOME");

/// The size limit of a `.minisig` file in bytes: some ten signatures.
pub const MOST_SIGNATURES: u64 = 4096;

/// The address of the releases; none if this program was built without.
pub fn releases() -> Option<String> {
    HOME.map(|home| format!("{}/releases", home.trim_end_matches('/')))
}

/// The address of a file of the newest release.
pub fn address(name: &str) -> Option<String> {
    releases().map(|releases| below(&releases, None, name))
}

/// The same below another address of releases, or in a folder with the files of one.
pub fn below(releases: &str, version: Option<&str>, name: &str) -> String {
    let releases = releases.trim_end_matches('/');
    match version {
        _ if !is_address(releases) => format!("{releases}/{name}"),
        Some(version) => format!("{releases}/download/v{version}/{name}"),
        None => format!("{releases}/latest/download/{name}"),
    }
}

fn is_address(from: &str) -> bool {
    from.contains("://") && !from.starts_with("file://")
}

/// Who must have signed: the owners of all these keys, or of the release key. `what` is signed by them, in the plural.
pub fn signers(keys: &[PathBuf], what: &str) -> Result<Signers, Problem> {
    let pinned = Signers::pinned();
    if keys.is_empty() {
        let missing = || {
            Problem::integrity(format!("this gpusetup was built without a release key, so it trusts no {what}"))
                .hint("--key FILE trusts a minisign public key of your own")
        };
        return pinned.ok_or_else(missing)?.map_err(|e| Problem::integrity(format!("the release key: {e}")));
    }
    // By its variable in the environment nobody would see it.
    let instead = if pinned.is_some() { ", not the release key" } else { "" };
    let names: Vec<_> = keys.iter().map(|path| visible(&path.to_string_lossy()).into_owned()).collect();
    let all = if names.len() > 1 { "all of the keys" } else { "the key" };
    say(&format!("trusting {what} signed by {all} in {}{instead}", names.join(" and ")));
    let texts: Vec<_> = keys.iter().map(|path| read_key(path)).collect::<Result<_, _>>()?;
    Signers::all(texts.iter().map(String::as_str)).map_err(|e| Problem::integrity(format!("{}: {e}", names.join(", "))))
}

/// What is at an address or in a file, at most `limit` bytes; none where there is nothing.
pub fn read(from: &str, limit: u64, sources: &Sources) -> Result<Option<Vec<u8>>, Problem> {
    if is_address(from) {
        return fetch_small(from, limit, sources).map_err(|e| Problem::new(Exit::Later, e.to_string()));
    }
    let path = Path::new(from.strip_prefix("file://").unwrap_or(from));
    match input::open(path).and_then(|file| input::bytes(file, path, limit)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.is_absent() => Ok(None),
        Err(e @ InputError::TooLong { .. }) => Err(Problem::integrity(e.to_string())),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn releases_are_laid_out_as_forges_do() {
        assert_eq!(below("https://e.org/releases/", None, "F"), "https://e.org/releases/latest/download/F");
        assert_eq!(below("https://e.org/releases", Some("1.2.3"), "F"), "https://e.org/releases/download/v1.2.3/F");
        assert_eq!(below("/mnt/release", Some("1.2.3"), "F"), "/mnt/release/F");
        assert_eq!(below("file:///mnt/release", None, "F"), "file:///mnt/release/F");
    }
}
