//! NVIDIA's repositories in apt's configuration, and their keys.

use crate::{Answer, Case, Repository, RepositoryKey, Verdict};
use gpusetup_host::MachineKind;
use gpusetup_text::text::{quoted, quoted_path};

/// The id of the key of CUDA's repositories until April 2022: NVIDIA/cuda-repo-management#4.
const OLD: &str = "F60F4B3D7FA2AF80";
/// The ids of the keys since then, NVIDIA/cuda-repo-management#4 and #39; of the second, for Debian
/// 13, only the end is known.
const NEW: [&str; 2] = ["A4B469963BF863CC", "8793F200"];

pub(crate) fn keys(case: &Case) -> Verdict {
    let all = &case.seen.apt.repositories;
    let conflicts = all
        .iter()
        .enumerate()
        .filter_map(|(n, one)| conflict(all.get(..n)?, one));
    let each = all.iter().map(|repository| {
        Verdict::worst(
            [key(case, repository)]
                .into_iter()
                .chain(foreign(case, repository)),
        )
    });
    let found = Verdict::worst(conflicts.chain(each.flatten()));
    found.unwrap_or_else(|| Verdict::skip("apt has no repository of NVIDIA"))
}

/// apt refuses to read any list while two entries of one repository name different keys.
fn conflict(before: &[Repository], one: &Repository) -> Option<Verdict> {
    let other = before
        .iter()
        .filter(|other| other.uri == one.uri && other.suite == one.suite)
        .find(|other| !says_the_same(&other.signed_by, &one.signed_by))?;
    let (file, twin) = (one.file.display(), other.file.display());
    let cause = format!(
        "{} is in {twin} and in {file}, with different Signed-By: apt refuses to read any list",
        one.uri
    );
    let superfluous = if one.signed_by.is_empty() { one } else { other };
    Some(
        Verdict::fail(cause)
            .evidence(signed_by(other))
            .evidence(signed_by(one))
            .advise(
                "remove one of the two entries",
                [
                    format!(
                        "grep -n {} {}",
                        quoted(&one.uri),
                        quoted_path(&superfluous.file)
                    ),
                    format!("sudo editor {}", quoted_path(&superfluous.file)),
                ],
            ),
    )
}

fn signed_by(repository: &Repository) -> String {
    let file = repository.file.display();
    match repository.signed_by.lines().next() {
        None => format!("{file} has no Signed-By"),
        Some(first) => format!("{file}: Signed-By {first}"),
    }
}

fn says_the_same(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|text| {
        text.split([',', ' ', '\n', '\t'])
            .filter(|word| !word.is_empty())
    });
    one.eq(other)
}

/// Whether apt has a key for the repository, and accepts it.
fn key(case: &Case, repository: &Repository) -> Verdict {
    let uri = &repository.uri;
    let keys = match &repository.keys {
        Answer::Is(keys) => keys,
        Answer::NotAsked(why) => {
            return Verdict::skip("the keys of NVIDIA's repositories could not be read")
                .evidence(why);
        }
        Answer::Failed(why) => {
            return Verdict::fail(format!("apt has no key for {uri}: {why}")).advise(
                "install NVIDIA's keyring package for this repository",
                [
                    format!(
                        "wget {}",
                        quoted(&format!("{uri}/cuda-keyring_1.1-1_all.deb"))
                    ),
                    "sudo dpkg -i cuda-keyring_1.1-1_all.deb".to_owned(),
                ],
            );
        }
    };
    let new: Vec<&RepositoryKey> = keys
        .iter()
        .filter(|key| NEW.iter().any(|id| key.fingerprint.ends_with(id)))
        .collect();
    let old: Vec<_> = keys
        .iter()
        .filter(|key| key.fingerprint.ends_with(OLD))
        .collect();
    let all = keys.iter().fold(Verdict::pass(), |v, key| {
        v.evidence(format!("{uri}: key {}", key.fingerprint))
    });
    if !uri.contains("/compute/cuda/repos/") {
        return all;
    }
    if new.is_empty() && !old.is_empty() {
        let cause =
            format!("apt has only NVIDIA's old key (7fa2af80), in use until April 2022, for {uri}");
        // Without Signed-By all trusted keys count, and one of them may be a newer key that is not
        // known here.
        let verdict = if repository.signed_by.is_empty() {
            Verdict::warn(cause)
        } else {
            Verdict::fail(cause)
        };
        return fetch_key(
            repository,
            verdict.evidence(format!("{uri}: key {}", old[0].fingerprint)),
        );
    }
    if let (Some((policy, day)), false, true) = (
        &case.seen.apt.refuses_sha1,
        new.is_empty(),
        new.iter().all(|key| key.is_weak),
    ) {
        let cause = format!(
            "apt has refused the key of {uri} since {day}: its self-signature uses only SHA-1"
        );
        return Verdict::fail(cause)
            .evidence(format!("key {}", new[0].fingerprint))
            .evidence(format!("apt's policy: {}", policy.display()))
            .advise(
                "use the repository of this system's release, whose key may be newer; if there is none, and you accept SHA-1, \
                 let apt accept the key for longer",
                [
                    "sudo install -D -m 644 /usr/share/apt/default-sequoia.config \
                     /etc/crypto-policies/back-ends/apt-sequoia.config"
                        .to_owned(),
                    format!(
                        "sudo sed -i '/^sha1.second_preimage_resistance/s/{day}/2028-02-01/' \
                         /etc/crypto-policies/back-ends/apt-sequoia.config"
                    ),
                ],
            );
    }
    all
}

/// NVIDIA's documented ways to get a repository's key.
fn fetch_key(repository: &Repository, verdict: Verdict) -> Verdict {
    let Repository {
        uri,
        file,
        signed_by,
        ..
    } = repository;
    if uri.contains("/compute/cuda/repos/") {
        return verdict.advise(
            "remove this entry, and install NVIDIA's keyring package, which adds a new one",
            [
                format!("sudo editor {}", quoted_path(file)),
                format!(
                    "wget {}",
                    quoted(&format!("{uri}/cuda-keyring_1.1-1_all.deb"))
                ),
                "sudo dpkg -i cuda-keyring_1.1-1_all.deb".to_owned(),
            ],
        );
    }
    let key = "https://nvidia.github.io/libnvidia-container/gpgkey";
    let commands =
        (uri.contains("/libnvidia-container/") && signed_by.ends_with(".gpg")).then(|| {
            format!(
                "curl -fsSL {key} | sudo gpg --dearmor --yes -o {}",
                quoted(signed_by)
            )
        });
    verdict.advise(
        "fetch the key again, as described in NVIDIA's guide to this repository",
        commands,
    )
}

/// A CUDA repository for another release than this system's.
fn foreign(case: &Case, repository: &Repository) -> Option<Verdict> {
    let (_, path) = repository.uri.split_once("/compute/cuda/repos/")?;
    let (of, arch) = path.split_once('/').unwrap_or((path, ""));
    let os = &case.seen.facts.os;
    // Derivatives use their parent's repository, and cross compilers that of another machine.
    if !["debian", "ubuntu"].contains(&os.id.as_str())
        || os.version.is_empty()
        || arch.starts_with("cross")
    {
        return None;
    }
    let own = format!("{}{}", os.id, os.version.replace('.', ""));
    let on_wsl = case.seen.facts.machine.kind == MachineKind::Wsl2 && of == "wsl-ubuntu";
    if of == own
        || on_wsl
        || !(of.starts_with("debian") || of.starts_with("ubuntu") || of == "wsl-ubuntu")
    {
        return None;
    }
    let cause = format!(
        "apt uses NVIDIA's repository for {of}, but this system is {}: the packages may not fit",
        os.name
    );
    let file = quoted_path(&repository.file);
    // Characters that are plain to the shell can be special to sed.
    let mut names = of.chars().chain(own.chars());
    let command = match names.all(|c| c.is_ascii_alphanumeric() || "-.".contains(c)) {
        true => format!("sudo sed -i 's#repos/{of}/#repos/{own}/#' {file}"),
        false => format!("sudo editor {file}"),
    };
    let advice = format!("use the repository for {own}, if NVIDIA has one");
    Some(
        Verdict::warn(cause)
            .evidence(repository.file.display().to_string())
            .advise(advice, [command]),
    )
}
