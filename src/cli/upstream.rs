//! Releases of gpusetup, and what comes with them: where they are, who signs them, and how their
//! files are read.

use super::files::read_key;
use super::{Problem, say};
use crate::database::store::{Store, StoreError};
use crate::exit::Exit;
use crate::fetch::{Sources, check_proxies, fetch_small};
use crate::paths::DATABASE;
use crate::signed::{KeyList, KeyListError, Signers};
use crate::system::hooks;
use crate::system::input::{self, InputError};
use crate::text::{quoted_path, visible};
use std::io;
use std::path::{Path, PathBuf};

/// The project's page, if whoever built this program named one.
const HOME: Option<&str> = option_env!("GPUSETUP_HOME");
/// The list of the keys that sign releases, if whoever built this program gave it one.
const PINNED: Option<&str> = gpusetup_data::KEY_LIST;
/// The size limit of a file with lists of keys in bytes: some thirty lists.
const MAX_LISTS: u64 = 64 << 10;

/// The size limit of a `.minisig` file in bytes:
/// [`SIGNATURES_READ`](crate::signed::SIGNATURES_READ) signatures. install.sh has the same limits.
pub(crate) const MAX_SIGNATURES: u64 = 8192;

/// The address of the releases; none if this program was built without.
pub(crate) fn releases() -> Option<String> {
    HOME.map(|home| format!("{}/releases", home.trim_end_matches('/')))
}

/// The address of a file of the newest release.
pub(crate) fn address(name: &str) -> Option<String> {
    releases().map(|releases| below(&releases, None, name))
}

/// The same below another address of releases, or in a folder with the files of one.
pub(crate) fn below(releases: &str, version: Option<&str>, name: &str) -> String {
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

/// The address of a file beside another.
pub(crate) fn sibling(address: &str, name: &str) -> String {
    let path = if is_address(address) {
        address.split(['?', '#']).next().unwrap_or(address)
    } else {
        address
    };
    format!("{}{name}", &path[..path.rfind('/').map_or(0, |at| at + 1)])
}

/// The name of the file at an address.
pub(crate) fn name_at(address: &str) -> &str {
    let path = if is_address(address) {
        address.split(['?', '#']).next().unwrap_or(address)
    } else {
        address
    };
    path.rsplit('/').next().unwrap_or(path)
}

/// Where the newest lists of release keys are, and where those that were followed are kept.
pub(crate) struct Lists<'a> {
    /// The address of the file with the lists; it need not be there.
    pub(crate) at: String,
    /// Where they are kept.
    pub(crate) store: &'a Store,
    /// Whether newer ones are kept.
    pub(crate) keep: bool,
    /// How the file is fetched.
    pub(crate) sources: &'a Sources,
}

/// The store of this host.
pub(crate) fn store() -> Store {
    Store::at(hooks::env_override("GPUSETUP_DATABASE_STORE").unwrap_or_else(|| DATABASE.to_owned()))
}

/// Who must have signed: the owners of all these keys, or enough of those of the release keys.
/// `what` is signed by them, in the plural.
pub(crate) fn signers(keys: &[PathBuf], what: &str, lists: &Lists) -> Result<Signers, Problem> {
    let pinned = hooks::env_override("GPUSETUP_KEY_LIST").or_else(|| PINNED.map(str::to_owned));
    if keys.is_empty() {
        return release_keys(
            &pinned.ok_or_else(|| {
                Problem::integrity(format!(
                    "this gpusetup was built without release keys, so it trusts no {what}"
                ))
                .hint("--key FILE trusts a minisign public key of your own")
            })?,
            lists,
        )
        .map(|list| list.signers().clone());
    }
    // By its variable in the environment nobody would see it.
    let instead = if pinned.is_some() {
        ", not the release keys"
    } else {
        ""
    };
    let names: Vec<_> = keys
        .iter()
        .map(|path| visible(&path.to_string_lossy()).into_owned())
        .collect();
    let all = if names.len() > 1 {
        "all of the keys"
    } else {
        "the key"
    };
    say(&format!(
        "trusting {what} signed by {all} in {}{instead}",
        names.join(" and ")
    ));
    let texts: Vec<_> = keys
        .iter()
        .map(|path| read_key(path))
        .collect::<Result<_, _>>()?;
    Signers::all(texts.iter().map(String::as_str))
        .map_err(|e| Problem::integrity(format!("{}: {e}", names.join(", "))))
}

/// The newest release keys to which signatures lead from those that this program was built with:
/// over the lists that were followed on this host before, so that none of them is forgotten, and
/// over those that come with the release.
fn release_keys(pinned: &str, lists: &Lists) -> Result<KeyList, Problem> {
    let refused = |place: &str, e: KeyListError| {
        Problem::integrity(format!("the release keys in {place}: {e}"))
    };
    let path = lists.store.keys_path();
    let unusable = |e: &dyn std::fmt::Display| {
        Problem::integrity(format!("the release keys of this host: {e}"))
    };
    let remedy = || format!("sudo rm {}", quoted_path(&path));
    let mut list = KeyList::read(pinned).map_err(|e| refused("this program", e))?;
    if let Some(kept) = lists
        .store
        .keys()
        .map_err(|e| unusable(&e).attempt(remedy()))?
    {
        list = list
            .follow(&kept)
            .map_err(|e| refused(&path.to_string_lossy(), e).attempt(remedy()))?;
    }
    let Some(bytes) = read(&lists.at, MAX_LISTS, lists.sources)? else {
        return Ok(list);
    };
    let (text, before) = (String::from_utf8_lossy(&bytes), list.version());
    list = list.follow(&text).map_err(|e| refused(&lists.at, e))?;
    if lists.keep && list.version() > before {
        match lists.store.keep_keys(&text) {
            // Whoever updates a gpusetup of their own: the new program was built with these keys.
            Err(StoreError::Io { source, .. })
                if source.kind() == io::ErrorKind::PermissionDenied => {}
            kept => kept.map_err(|e| unusable(&e))?,
        }
        say(&format!(
            "list {} of the release keys is trusted from now on, {before} before",
            list.version()
        ));
    }
    Ok(list)
}

/// What is at an address or in a file, at most `limit` bytes; none where there is nothing.
pub(crate) fn read(from: &str, limit: u64, sources: &Sources) -> Result<Option<Vec<u8>>, Problem> {
    if is_address(from) {
        check_proxies().map_err(|e| Problem::usage(e.to_string()))?;
        return fetch_small(from, limit, sources)
            .map_err(|e| Problem::new(Exit::Later, e.to_string()));
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
    use super::{below, name_at, sibling};

    #[test]
    fn releases_are_laid_out_as_forges_do() {
        assert_eq!(
            below("https://e.org/releases/", None, "F"),
            "https://e.org/releases/latest/download/F"
        );
        assert_eq!(
            below("https://e.org/releases", Some("1.2.3"), "F"),
            "https://e.org/releases/download/v1.2.3/F"
        );
        assert_eq!(below("/mnt/release", Some("1.2.3"), "F"), "/mnt/release/F");
        assert_eq!(
            below("file:///mnt/release", None, "F"),
            "file:///mnt/release/F"
        );
    }

    #[test]
    fn a_file_beside_another_has_its_folder() {
        for (address, folder, name) in [
            (
                "https://e.org/a/d.tar.xz?sig=a/b",
                "https://e.org/a/",
                "d.tar.xz",
            ),
            ("/mnt/what?/d", "/mnt/what?/", "d"),
            ("file:///mnt/d", "file:///mnt/", "d"),
            ("d", "", "d"),
        ] {
            assert_eq!(
                (sibling(address, "F"), name_at(address)),
                (format!("{folder}F"), name)
            );
        }
    }
}
