//! How apt takes another repository: a source with its own key, and preferences that take nothing
//! else from it.

use crate::added::{HEADER, NewRepository, RepositoryFormat};
use std::path::PathBuf;

/// apt's format.
pub(crate) const FORMAT: RepositoryFormat = RepositoryFormat {
    key,
    paths,
    texts: |new| vec![source(new), preferences(new)],
    folders: &[
        (SOURCES, |folder| option("Dir::Etc::sourceparts", folder)),
        (PREFERENCES, |folder| {
            option("Dir::Etc::preferencesparts", folder)
        }),
    ],
    notes: |_| Vec::new(),
    noted: |_, _, _| Ok(Vec::new()),
    locks: None,
    has_branch: true,
    refresh,
};

const SOURCES: &str = "/etc/apt/sources.list.d";
const PREFERENCES: &str = "/etc/apt/preferences.d";

fn option(key: &str, value: &str) -> Vec<String> {
    vec!["-o".to_owned(), format!("{key}={value}")]
}

/// apt reads armoured keys only from names that end so.
fn key(fingerprint: &str) -> PathBuf {
    format!("/usr/share/keyrings/gpusetup-{fingerprint}.asc").into()
}

fn paths(name: &str) -> Vec<PathBuf> {
    vec![
        source_path(name).into(),
        format!("{PREFERENCES}/gpusetup-{name}").into(),
    ]
}

fn source_path(name: &str) -> String {
    format!("{SOURCES}/gpusetup-{name}.sources")
}

fn source(new: &NewRepository) -> String {
    let keys: Vec<_> = new
        .keys
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    // A flat repository: its lists are beside its packages.
    format!(
        "{HEADER}Types: deb\nURIs: {}/\nSuites: /\nSigned-By: {}\n",
        new.url,
        keys.join(" ")
    )
}

/// Nothing comes from the repository but these packages, those of the driver in its branch. Without
/// a release to know it by, its other packages would have to be told from those of the distribution
/// by their address, which a mirror may share: they are left to apt.
fn preferences(new: &NewRepository) -> String {
    let nothing_else = new
        .release
        .map(|release| format!("\nPackage: *\nPin: release {release}\nPin-Priority: -1\n"));
    let any_version = new
        .release
        .filter(|_| !new.any_version.is_empty())
        .map(|release| {
            format!(
                "\nPackage: {}\nPin: release {release}\nPin-Priority: 500\n",
                new.any_version.join(" ")
            )
        });
    let except = (!new.except.is_empty() && !new.packages.is_empty()).then(|| {
        format!(
            "\nPackage: {}\nPin: version {}.*\nPin-Priority: -1\n",
            new.except.join(" "),
            new.branch
        )
    });
    // Preferred to the distribution's own driver, and never a downgrade.
    let branch = (!new.packages.is_empty()).then(|| {
        format!(
            "\nPackage: {}\nPin: version {}.*\nPin-Priority: 1000\n",
            new.packages.join(" "),
            new.branch
        )
    });
    [
        Some(HEADER.to_owned()),
        nothing_else,
        any_version,
        except,
        branch,
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn refresh(name: &str) -> Vec<String> {
    let source = format!("Dir::Etc::sourcelist={}", source_path(name));
    let options = [
        "DPkg::Lock::Timeout=900",
        &source,
        "Dir::Etc::sourceparts=-",
        // The lists of other repositories stay.
        "APT::Get::List-Cleanup=0",
        "APT::Update::Error-Mode=any",
    ];
    let options = options
        .into_iter()
        .flat_map(|option| ["-o".to_owned(), option.to_owned()]);
    ["apt-get".to_owned(), "-q".to_owned()]
        .into_iter()
        .chain(options)
        .chain(["update".to_owned()])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_branch_comes_from_it() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (packages, keys) = (words("*nvidia* libcuda1*"), [key("AB"), key("CD")]);
        let new = NewRepository {
            name: "cuda-debian12-x86_64",
            url: "https://mirror.example/repos/debian12/x86_64",
            unsigned_lists: false,
            release: Some("o=NVIDIA,l=NVIDIA CUDA"),
            packages: &packages,
            any_version: &[],
            except: &[],
            branch: 580,
            keys: &keys,
        };
        assert_eq!(
            source(&new),
            format!(
                "{HEADER}Types: deb\nURIs: https://mirror.example/repos/debian12/x86_64/\nSuites: /\n\
                 Signed-By: /usr/share/keyrings/gpusetup-AB.asc /usr/share/keyrings/gpusetup-CD.asc\n"
            )
        );
        assert_eq!(
            preferences(&new),
            format!(
                "{HEADER}\nPackage: *\nPin: release o=NVIDIA,l=NVIDIA CUDA\nPin-Priority: -1\n\n\
                 Package: *nvidia* libcuda1*\nPin: version 580.*\nPin-Priority: 1000\n"
            )
        );
        let others = words("nvlsm");
        let new = NewRepository {
            packages: &[],
            any_version: &others,
            ..new
        };
        assert_eq!(
            preferences(&new),
            format!(
                "{HEADER}\nPackage: *\nPin: release o=NVIDIA,l=NVIDIA CUDA\nPin-Priority: -1\n\n\
                 Package: nvlsm\nPin: release o=NVIDIA,l=NVIDIA CUDA\nPin-Priority: 500\n"
            )
        );
    }
}
