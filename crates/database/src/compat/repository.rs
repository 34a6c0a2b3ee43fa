//! Package repositories that gpusetup can add to a host, and the keys that sign them. Which drivers
//! they have says a distribution's record ([`DriverOffer::repository`]).
//!
//! [`DriverOffer::repository`]: super::DriverOffer::repository

use super::{Database, PackageManager, SourceId};
use crate::version::CudaVersion;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The end of the names of files by which a host takes toolkits from a repository.
pub const OF_TOOLKIT: &str = "-toolkit";

/// A repository of one distribution's release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageRepository {
    /// The name used in other files and for the files on a host: `cuda-debian12`.
    pub id: String,
    /// The address that all its architectures are below, without a slash at its end.
    pub url: String,
    /// The folder of each machine architecture below it: `aarch64: sbsa`.
    pub archs: BTreeMap<String, String>,
    /// The package manager that reads it.
    pub package_manager: PackageManager,
    /// The keys that may sign it; several while a key is being replaced.
    pub(crate) keys: Vec<String>,
    /// Whether its lists have no signature, only its packages: then they are read over TLS, and
    /// each package is checked.
    #[serde(default)]
    pub unsigned_lists: bool,
    /// What its list says of itself, in the words of apt's preferences: `o=NVIDIA,l=NVIDIA CUDA`.
    #[serde(default)]
    pub release: Option<String>,
    /// Patterns of the packages that a host takes from it; it takes no other. With apt only in the
    /// driver's branch.
    #[serde(default)]
    pub packages: Vec<String>,
    /// The same for packages whose version does not depend on the driver's.
    #[serde(default)]
    pub any_version: Vec<String>,
    /// Patterns of packages that it takes from elsewhere although they match.
    #[serde(default)]
    pub except: Vec<String>,
    /// The packages of CUDA toolkits; none if it has none, or no source says which.
    #[serde(default)]
    pub toolkit: Option<ToolkitPackages>,
    /// Another repository that packages from here depend on, if it is not always enabled.
    #[serde(default)]
    pub needs: Option<NeededRepository>,
    /// The sources.
    pub sources: Vec<SourceId>,
    /// Remarks for maintainers.
    #[serde(default)]
    pub(crate) note: Option<String>,
}

/// How a repository packages CUDA toolkits. In its texts `{series}` stands for `13-0`, `{major}`
/// for `13` and `{release}` for `13.0.2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolkitPackages {
    /// The first series that a source names for this system.
    pub since: CudaVersion,
    /// The package that installs a series without a driver: `cuda-toolkit-{series}`.
    pub(crate) package: String,
    /// Its version: `{release}-1`.
    pub(crate) version: String,
    /// Patterns of that package and its dependencies in this repository.
    pub(crate) packages: Vec<String>,
}

impl ToolkitPackages {
    /// The package of a release.
    pub fn package_for(&self, release: CudaVersion) -> String {
        filled(&self.package, release)
    }

    /// The version of that package.
    pub fn version_for(&self, release: CudaVersion) -> String {
        filled(&self.version, release)
    }

    /// The patterns of what a release consists of.
    pub fn patterns_for(&self, release: CudaVersion) -> Vec<String> {
        self.packages
            .iter()
            .map(|pattern| filled(pattern, release))
            .collect()
    }
}

fn filled(text: &str, release: CudaVersion) -> String {
    let CudaVersion { major, minor, .. } = release;
    text.replace("{series}", &format!("{major}-{minor}"))
        .replace("{major}", &major.to_string())
        .replace("{release}", &release.to_string())
}

/// A repository that others depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeededRepository {
    /// The usual name: `Debian contrib`.
    pub name: String,
    /// Marks of an enabled repository, as in [`Repository::seen_as`](super::Repository::seen_as).
    pub seen_as: Vec<String>,
    /// The command that enables it.
    pub enable: String,
}

/// An OpenPGP key that signs repositories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SigningKey {
    /// The name used in other files: `3bf863cc`.
    pub(crate) id: String,
    /// The name of its file in the repositories that it signs.
    pub file: String,
    /// The address of that file, if it is elsewhere.
    #[serde(default)]
    pub url: Option<String>,
    /// The fingerprint: 40 upper-case hexadecimal digits.
    pub fingerprint: String,
    /// The sources; a fingerprint that only one of them gives is easier to get wrong.
    pub(crate) sources: Vec<SourceId>,
    /// Remarks for maintainers.
    #[serde(default)]
    pub(crate) note: Option<String>,
}

impl PackageRepository {
    /// Its address for a machine architecture, without a slash at its end; none if it has none.
    pub fn url_for(&self, arch: &str) -> Option<String> {
        Some(format!("{}/{}", self.url, self.archs.get(arch)?))
    }

    /// The name of its files on a host of this architecture: `cuda-debian12-x86_64`.
    pub fn name_for(&self, arch: &str) -> Option<String> {
        Some(format!("{}-{}", self.id, self.archs.get(arch)?))
    }

    /// The name of its files on a host that takes toolkits from it: `cuda-debian12-x86_64-toolkit`.
    /// It is another source than the driver's, so that each is added and removed without the other.
    pub fn toolkit_name_for(&self, arch: &str) -> Option<String> {
        self.name_for(arch).map(|name| name + OF_TOOLKIT)
    }

    /// Whether it has this package in versions that do not depend on the driver's: it names the
    /// package, or a family of such packages by their common start.
    pub fn names(&self, package: &str) -> bool {
        self.independent().any(|named| is_of(named, package))
    }

    /// What it names of packages whose version does not depend on the driver's.
    fn independent(&self) -> impl Iterator<Item = &String> {
        self.packages
            .iter()
            .filter(|named| !named.contains('*'))
            .chain(&self.any_version)
    }

    /// The patterns of the companions whose version does not depend on the driver's.
    pub fn companions(&self, database: &Database) -> Vec<String> {
        let packages = database
            .companions
            .iter()
            .filter(|of| of.repository.is_some())
            .flat_map(|of| &of.packages);
        self.independent()
            .filter(|named| packages.clone().any(|package| is_of(named, &package.name)))
            .cloned()
            .collect()
    }
}

fn is_of(named: &str, package: &str) -> bool {
    named
        .strip_suffix('*')
        .map_or(named == package, |start| package.starts_with(start))
}

impl Database {
    /// The repository with this id.
    pub fn package_repository(&self, id: &str) -> Option<&PackageRepository> {
        self.package_repositories.iter().find(|r| r.id == id)
    }

    /// The keys that may sign a repository.
    pub fn keys_of<'a>(
        &'a self,
        repository: &'a PackageRepository,
    ) -> impl Iterator<Item = &'a SigningKey> {
        repository
            .keys
            .iter()
            .filter_map(|id| self.signing_keys.iter().find(|key| key.id == *id))
    }

    /// The address that the key with this fingerprint is published at, if it is not in the
    /// repositories that it signs.
    pub fn key_published_as(&self, fingerprint: &str) -> Option<&str> {
        self.signing_keys
            .iter()
            .find(|key| key.fingerprint == fingerprint)?
            .url
            .as_deref()
    }

    /// The address that the repository with this name on a host is published at
    /// ([`PackageRepository::name_for`]).
    pub fn repository_published_as(&self, name: &str) -> Option<String> {
        let name = name.strip_suffix(OF_TOOLKIT).unwrap_or(name);
        self.package_repositories.iter().find_map(|r| {
            r.archs.keys().find_map(|arch| {
                r.url_for(arch)
                    .filter(|_| r.name_for(arch).as_deref() == Some(name))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::compat::known;

    #[test]
    fn a_repository_has_an_address_and_keys_for_each_architecture() {
        let database = known();
        let repository = database.package_repository("cuda-rhel9").expect("known");
        assert_eq!(
            repository.url_for("aarch64").as_deref(),
            Some("https://developer.download.nvidia.com/compute/cuda/repos/rhel9/sbsa")
        );
        assert_eq!(repository.url_for("ppc64le"), None);
        let name = repository.name_for("aarch64").expect("a name");
        assert_eq!(name, "cuda-rhel9-sbsa");
        assert_eq!(
            database.repository_published_as(&name),
            repository.url_for("aarch64")
        );
        let of_toolkit = repository.toolkit_name_for("aarch64").expect("a name");
        assert_eq!(
            database.repository_published_as(&of_toolkit),
            repository.url_for("aarch64")
        );
        assert_eq!(database.repository_published_as("cuda-rhel9"), None);
        let keys: Vec<_> = database
            .keys_of(repository)
            .map(|key| key.fingerprint.as_str())
            .collect();
        assert_eq!(keys, ["610C7B14E068A878070DA4E99CD0A493D42D0685"]);
    }

    #[test]
    fn a_toolkit_is_named_by_its_series() {
        let database = known();
        let packages = database
            .package_repository("cuda-debian12")
            .and_then(|r| r.toolkit.as_ref())
            .expect("known");
        let release = "13.0.2".parse().expect("a version");
        assert_eq!(packages.package_for(release), "cuda-toolkit-13-0");
        assert_eq!(packages.version_for(release), "13.0.2-1");
        let patterns = packages.patterns_for(release);
        for pattern in ["cuda-*-13-0", "cuda-toolkit-13-config-common"] {
            assert!(patterns.iter().any(|p| p == pattern), "{patterns:?}");
        }
    }
}
