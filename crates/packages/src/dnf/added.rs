//! How dnf takes another repository: a section with its own key, from which only some packages are
//! taken. The branch is the module's stream.

use crate::added::{HEADER, NewRepository, RepositoryFormat};
use crate::rpm::keys;
use std::path::PathBuf;

/// dnf's format.
pub(crate) const FORMAT: RepositoryFormat = RepositoryFormat {
    key: keys::path,
    paths,
    texts: |new| vec![section(new)],
    folders: &[(FOLDER, |folder| vec![format!("--setopt=reposdir={folder}")])],
    notes: keys::import,
    noted: |system, _, fingerprints| keys::trusted(system, fingerprints),
    locks: None,
    has_branch: false,
    refresh,
};

const FOLDER: &str = "/etc/yum.repos.d";

fn paths(name: &str) -> Vec<PathBuf> {
    vec![format!("{FOLDER}/gpusetup-{name}.repo").into()]
}

fn section(new: &NewRepository) -> String {
    let keys: Vec<_> = new
        .keys
        .iter()
        .map(|path| format!("file://{}", path.display()))
        .collect();
    let except = match new.except {
        [] => String::new(),
        except => format!("excludepkgs={}\n", except.join(",")),
    };
    let packages: Vec<_> = new
        .packages
        .iter()
        .chain(new.any_version)
        .map(String::as_str)
        .collect();
    let (name, url, keys, packages) = (new.name, new.url, keys.join(" "), packages.join(","));
    let lists = u8::from(!new.unsigned_lists);
    format!(
        "{HEADER}[gpusetup-{name}]\nname=gpusetup: {name}\nbaseurl={url}\nenabled=1\ngpgcheck=1\nrepo_gpgcheck={lists}\ngpgkey={keys}\n\
         includepkgs={packages}\n{except}"
    )
}

fn refresh(name: &str) -> Vec<String> {
    let (repository, strictly) = (
        format!("--enablerepo=gpusetup-{name}"),
        format!("--setopt=gpusetup-{name}.skip_if_unavailable=0"),
    );
    [
        "dnf",
        "-y",
        "-q",
        "--disablerepo=*",
        &repository,
        &strictly,
        "makecache",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_packages_come_from_it() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (packages, except, keys) = (
            words("*nvidia* nvlsm"),
            words("nvidia-container*"),
            [keys::path("AB")],
        );
        let new = NewRepository {
            name: "cuda-rhel9-sbsa",
            url: "https://mirror.example/repos/rhel9/sbsa",
            unsigned_lists: false,
            release: None,
            packages: &packages,
            any_version: &[],
            except: &except,
            branch: 580,
            keys: &keys,
        };
        let text = section(&new);
        for line in [
            "[gpusetup-cuda-rhel9-sbsa]",
            "baseurl=https://mirror.example/repos/rhel9/sbsa",
            "gpgcheck=1",
            "repo_gpgcheck=1",
            "gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-gpusetup-AB",
            "includepkgs=*nvidia*,nvlsm",
            "excludepkgs=nvidia-container*",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}: {text}");
        }
    }
}
