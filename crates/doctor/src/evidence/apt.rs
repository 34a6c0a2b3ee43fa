//! NVIDIA's repositories in apt's configuration, the keys that apt accepts for each, and apt's key
//! policy.

use super::{Answer, names, text};
use gpusetup_host::{PublicKey, public_keys};
use gpusetup_packages::apt_sources;
use gpusetup_system::System;
use gpusetup_text::text::without_logins;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A repository of NVIDIA in apt's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Repository {
    /// The file that lists it.
    pub(crate) file: PathBuf,
    /// Its address, without a slash at the end.
    pub(crate) uri: String,
    /// The suite of the repository.
    pub(crate) suite: String,
    /// `Signed-By` as the file has it; empty if it is missing.
    pub(crate) signed_by: String,
    /// The keys that apt accepts for it.
    pub(crate) keys: Answer<Vec<RepositoryKey>>,
}

/// A key that apt accepts for a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub(crate) struct RepositoryKey {
    /// The fingerprint of the key, in upper-case hexadecimal.
    pub(crate) fingerprint: String,
    /// Its self-signatures use only SHA-1.
    pub(crate) is_weak: bool,
}

impl RepositoryKey {
    fn of(key: PublicKey) -> Self {
        Self {
            fingerprint: key.fingerprint,
            is_weak: key.is_weak,
        }
    }
}

/// apt's configuration, on hosts with NVIDIA's repositories.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Apt {
    /// NVIDIA's repositories.
    pub(crate) repositories: Vec<Repository>,
    /// The policy file that makes apt refuse SHA-1 keys, and since when. None if apt accepts them.
    pub(crate) refuses_sha1: Option<(PathBuf, String)>,
}

/// NVIDIA's repository hosts: for CUDA's packages, and for the container toolkit.
const OURS: [&str; 2] = ["developer.download.nvidia.com/", "nvidia.github.io/"];

/// Reads apt's configuration, as of `today`, such as `2026-11-20`.
pub(crate) fn apt(system: &System, today: &str) -> Apt {
    let folder = Path::new("/etc/apt/sources.list.d");
    let in_folder =
        names(system, folder).filter(|n| n.ends_with(".list") || n.ends_with(".sources"));
    let files = [PathBuf::from("/etc/apt/sources.list")]
        .into_iter()
        .chain(in_folder.map(|n| folder.join(n)));
    let entries = files.flat_map(|file| {
        let found = apt_sources(&file.to_string_lossy(), &text(system, &file));
        found.into_iter().map(move |source| (file.clone(), source))
    });
    let ours: Vec<_> = entries
        .filter(|(_, s)| OURS.iter().any(|address| s.uri.contains(address)))
        .collect();
    if ours.is_empty() {
        return Apt::default();
    }
    // The method of Debian's apt 2.9.19 and later, which verifies with Sequoia.
    let sequoia = system.exists("/usr/lib/apt/methods/sqv") && system.exists("/usr/bin/sqv");
    Apt {
        repositories: ours
            .into_iter()
            .map(|(file, source)| Repository {
                keys: keys(system, &source.signed_by, sequoia),
                file,
                uri: without_logins(source.uri.trim_end_matches('/')).into_owned(),
                suite: source.suite,
                signed_by: source.signed_by,
            })
            .collect(),
        refuses_sha1: sequoia.then(|| refuses_sha1(system, today)).flatten(),
    }
}

/// The keys that `Signed-By` allows: in files, by fingerprint among the globally trusted ones, or
/// inline.
fn keys(system: &System, signed_by: &str, sequoia: bool) -> Answer<Vec<RepositoryKey>> {
    if signed_by.contains("-----BEGIN PGP PUBLIC KEY BLOCK-----") {
        return match public_keys(signed_by.as_bytes()) {
            Ok(keys) => Answer::Is(keys.into_iter().map(RepositoryKey::of).collect()),
            Err(why) => Answer::Failed(format!("the key in Signed-By cannot be read: {why}")),
        };
    }
    let (files, prints): (Vec<_>, Vec<_>) = signed_by
        .split([',', ' ', '\n', '\t'])
        .filter(|w| !w.is_empty())
        .partition(|w| w.starts_with('/'));
    let files: Vec<_> = files.into_iter().map(PathBuf::from).collect();
    // An exclamation mark excludes subkeys.
    let prints: Vec<_> = prints
        .into_iter()
        .map(|w| w.trim_end_matches('!').to_uppercase())
        .collect();
    let (files, asked_for) = if files.is_empty() {
        (trusted(system), false)
    } else {
        (files, true)
    };
    let (mut found, mut wrong) = (Vec::new(), None);
    for file in &files {
        match key_file(system, file, sequoia) {
            Ok(keys) => found.extend(keys),
            Err(why) => wrong = wrong.or(Some(why)),
        }
    }
    // apt falls back to this one, with a warning, if the others do not match.
    found.extend(key_file(system, Path::new("/etc/apt/trusted.gpg"), sequoia).unwrap_or_default());
    if !prints.is_empty() {
        found.retain(|key| prints.contains(&key.fingerprint));
    }
    match wrong.filter(|_| found.is_empty() && asked_for) {
        Some(Unread::Denied(why)) => Answer::NotAsked(why),
        Some(Unread::Useless(why)) => Answer::Failed(why),
        None => Answer::Is(found.into_iter().map(RepositoryKey::of).collect()),
    }
}

/// Why a file gives no keys.
enum Unread {
    /// No permission to read it.
    Denied(String),
    /// apt cannot use it either.
    Useless(String),
}

fn key_file(system: &System, file: &Path, sequoia: bool) -> Result<Vec<PublicKey>, Unread> {
    let shown = file.display();
    let bytes = system
        .read(file)
        .map_err(|e| match gpusetup_system::is_absent(&e) {
            true => Unread::Useless(format!("{shown} does not exist")),
            false => Unread::Denied(format!("{shown} could not be read: {e}")),
        })?;
    let keys = public_keys(&bytes)
        .map_err(|why| Unread::Useless(format!("apt cannot use {shown}: {why}")))?;
    let armoured = bytes.first().is_some_and(|b| b & 0x80 == 0);
    // An apt with gpgv goes by the file's name; Sequoia reads either form.
    if !sequoia && armoured != file.extension().is_some_and(|e| e == "asc") {
        let form = if armoured {
            "armoured, and its name does not end in .asc"
        } else {
            "binary, and its name ends in .asc"
        };
        return Err(Unread::Useless(format!(
            "{shown} is {form}: apt ignores it"
        )));
    }
    Ok(keys)
}

/// Key files that apt accepts for repositories without Signed-By.
fn trusted(system: &System) -> Vec<PathBuf> {
    let folder = Path::new("/etc/apt/trusted.gpg.d");
    names(system, folder)
        .filter(|n| n.ends_with(".gpg") || n.ends_with(".asc"))
        .map(|n| folder.join(n))
        .collect()
}

/// The policy that apt passes to Sequoia: the first of these files that exists.
fn refuses_sha1(system: &System, today: &str) -> Option<(PathBuf, String)> {
    const POLICIES: [&str; 5] = [
        "/etc/crypto-policies/back-ends/apt-sequoia.config",
        "/var/lib/crypto-config/profiles/current/apt-sequoia.config",
        "/etc/crypto-policies/back-ends/sequoia.config",
        "/var/lib/crypto-config/profiles/current/sequoia.config",
        "/usr/share/apt/default-sequoia.config",
    ];
    let file = PathBuf::from(POLICIES.into_iter().find(|p| system.exists(p))?);
    let until = sha1_until(&text(system, &file));
    (*today >= *until).then_some((file, until))
}

/// The day on which a policy ends SHA-1 for bindings: `sha1.second_preimage_resistance =
/// 2026-02-01`.
fn sha1_until(policy: &str) -> String {
    // Sequoia's default.
    const DEFAULT: &str = "2023-02-01";
    let mut section = "";
    let mut found: [Option<&str>; 2] = [None, None];
    for line in policy
        .lines()
        .map(|l| l.split('#').next().unwrap_or_default().trim())
    {
        if line.starts_with('[') {
            section = line;
        } else if let Some((key, value)) = line
            .split_once('=')
            .filter(|_| section == "[hash_algorithms]")
        {
            let key = key.trim().replace('"', "");
            let at = ["sha1.second_preimage_resistance", "sha1"]
                .iter()
                .position(|k| *k == key);
            if let Some(at) = at {
                found[at] = Some(value.trim().trim_matches(['"', '\'']));
            }
        }
    }
    match found[0].or(found[1]).unwrap_or(DEFAULT) {
        "always" => "9999-12-31".to_owned(),
        "never" => String::new(),
        day => day.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_say_until_when() {
        let default = "[asymmetric_algorithms]\nrsa2048 = 2030-02-01\n\n[hash_algorithms]\n\
                       sha1.second_preimage_resistance = 2026-02-01 # Extend the expiry\nsha224 = 2026-02-01\n";
        assert_eq!(sha1_until(default), "2026-02-01");
        assert_eq!(
            sha1_until("[hash_algorithms]\nsha1 = \"always\"\n"),
            "9999-12-31"
        );
        assert_eq!(sha1_until("[packets]\nsha1 = 2030-01-01\n"), "2023-02-01");
    }

    #[test]
    fn repositories_are_read_with_their_keys() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(tree.path());
        let write = |path: &str, text: &[u8]| {
            system
                .make_directories(Path::new(path).parent().expect("a folder"), 0o755)
                .expect("made");
            system.write(path, text, 0o644).expect("written");
        };
        let cuda = "https://developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64/";
        write(
            "/etc/apt/sources.list",
            b"deb http://archive.example/debian trixie main\n",
        );
        write(
            "/etc/apt/sources.list.d/a.list",
            format!(
                "deb [signed-by=/usr/share/keyrings/a.gpg] {} /\n",
                cuda.replace("://", "://me:pw@")
            )
            .as_bytes(),
        );
        let find = || apt(&system, "2026-11-20").repositories;
        assert_eq!(find()[0].uri, cuda.trim_end_matches('/'));
        assert_eq!(
            find()[0].keys,
            Answer::Failed("/usr/share/keyrings/a.gpg does not exist".into())
        );
        // A key without an owner: the packet of an Ed25519 key without a name.
        let mut key = vec![
            0x98, 51, 4, 0, 0, 0, 0, 22, 9, 0x2b, 6, 1, 4, 1, 0xda, 0x47, 0x0f, 1, 1, 7, 0x40,
        ];
        key.resize(53, 7);
        write("/usr/share/keyrings/a.gpg", &key);
        let Answer::Is(keys) = &find()[0].keys else {
            panic!("{:?}", find())
        };
        assert!(
            keys.len() == 1 && keys[0].fingerprint.len() == 40 && !keys[0].is_weak,
            "{keys:?}"
        );
        write("/usr/share/keyrings/a.gpg", b"<html>");
        assert!(
            matches!(&find()[0].keys, Answer::Failed(why) if why.contains("not an OpenPGP key"))
        );
        let print = &keys[0].fingerprint;
        let sources = format!("Types: deb\nURIs: {cuda}\nSuites: /\nSigned-By: {print}\n");
        write("/etc/apt/sources.list.d/b.sources", sources.as_bytes());
        write("/etc/apt/trusted.gpg.d/b.gpg", &key);
        assert_eq!(find()[1].keys, Answer::Is(keys.clone()));
        assert_eq!(
            apt(&system, "2026-11-20").refuses_sha1,
            None,
            "gpgv asks nothing of the kind"
        );
        write("/usr/bin/sqv", b"");
        write("/usr/lib/apt/methods/sqv", b"");
        write(
            "/usr/share/apt/default-sequoia.config",
            b"[hash_algorithms]\nsha1.second_preimage_resistance = 2026-02-01\n",
        );
        assert!(
            apt(&system, "2026-11-20")
                .refuses_sha1
                .is_some_and(|(_, day)| day == "2026-02-01")
        );
        assert_eq!(apt(&system, "2026-01-31").refuses_sha1, None);
    }
}
