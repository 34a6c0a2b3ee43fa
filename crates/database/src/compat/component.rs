//! Toolkit components that NVIDIA publishes separately: the contents of a release's
//! `redistrib_X.Y.Z.json`, their usual names, and their dependencies. Only facts; `resolve` decides
//! which components a request includes.

use super::{Artifact, Database, SourceId};
use crate::text::Text;
use crate::version::CudaVersion;
use serde::{Deserialize, Serialize};

/// Prefixes of NVIDIA's names that people omit: `nvcc` is `cuda_nvcc`, `cublas` is `libcublas`.
const PREFIXES: [&str; 3] = ["", "cuda_", "lib"];

/// A component of CUDA toolkits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    /// NVIDIA's name: `cuda_nvcc`.
    pub name: String,
    /// The name in newer releases, if it differs.
    #[serde(default)]
    pub renamed: Option<String>,
    /// A title for readers.
    pub title: String,
    /// Other usual names, besides those without `cuda_` or `lib`.
    #[serde(default)]
    pub(crate) aliases: Vec<String>,
}

/// A dependency of a component or an add-on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentNeed {
    /// The component, or the id of the add-on.
    pub of: String,
    /// The dependencies, if the release has them as separate components: before CUDA 13 some were
    /// part of others.
    pub needs: String,
    /// The reason, phrased to follow the dependent's name: "compiles with its headers".
    pub why: String,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// The component archives of a CUDA release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentRelease {
    /// The CUDA release.
    pub version: CudaVersion,
    /// The base address of the archives, without a slash at the end.
    pub(crate) base: String,
    /// The number of independent sources for these checksums.
    pub(crate) agree: u8,
    /// How the checksums were verified to be NVIDIA's.
    pub(crate) verified: String,
    /// Its components.
    pub components: Vec<ReleasedComponent>,
    pub(crate) sources: Vec<SourceId>,
}

/// A component of a release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleasedComponent {
    /// NVIDIA's name in this release.
    pub name: String,
    /// The component's own version, `13.0.88`.
    pub version: String,
    /// One archive per supported machine architecture.
    pub archives: Vec<ComponentArchive>,
}

/// An archive of a component. Its name and address follow from the component, the architecture and
/// the version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentArchive {
    /// `x86_64`, `sbsa`, `ppc64le`.
    pub arch: Text,
    /// The size in bytes.
    pub size: u64,
    /// The SHA-256 in lower-case hexadecimal.
    pub sha256: Text,
}

impl Component {
    /// Whether this is NVIDIA's name of the component, in any release.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.renamed.as_deref() == Some(name)
    }

    /// The name without its usual prefix: `nvcc`.
    pub fn short(&self) -> &str {
        short(&self.name)
    }
}

/// NVIDIA's name of a component without its usual prefix: `nvcc`.
pub fn short(name: &str) -> &str {
    PREFIXES[1..]
        .iter()
        .find_map(|p| name.strip_prefix(p))
        .unwrap_or(name)
}

impl ComponentRelease {
    /// The release's entry for a component.
    pub fn component(&self, of: &Component) -> Option<&ReleasedComponent> {
        self.components.iter().find(|c| of.is_called(&c.name))
    }

    /// The archive of a component as a downloadable artifact.
    pub fn artifact(&self, component: &ReleasedComponent, archive: &ComponentArchive) -> Artifact {
        let (name, arch) = (&component.name, &archive.arch);
        let file = format!("{name}-linux-{arch}-{}-archive.tar.xz", component.version);
        Artifact {
            arch: *arch,
            url: Some(format!("{}/{name}/linux-{arch}/{file}", self.base).into()),
            file: file.into(),
            sha256: Some(archive.sha256),
            size: Some(archive.size),
            agree: self.agree,
            note: None,
            disagreement: None,
            sources: self.sources.clone(),
        }
    }
}

impl ReleasedComponent {
    /// The archive for a machine architecture, in the notation of CUDA's artifacts.
    pub fn archive(&self, arch: &str) -> Option<&ComponentArchive> {
        self.archives.iter().find(|a| a.arch == arch)
    }
}

impl Database {
    /// The component archive with this checksum.
    pub(crate) fn component_archive(&self, sha256: &str) -> Option<Artifact> {
        self.component_releases.iter().find_map(|release| {
            let mut archives = release
                .components
                .iter()
                .flat_map(|c| c.archives.iter().map(move |a| (c, a)));
            archives
                .find(|(_, a)| a.sha256 == sha256)
                .map(|(component, archive)| release.artifact(component, archive))
        })
    }

    /// Finds a component by NVIDIA's name, that name without its prefix, or an alias.
    pub fn component_named(&self, name: &str) -> Option<&Component> {
        let asked = name.trim().to_lowercase().replace('-', "_");
        let by_name = PREFIXES.iter().find_map(|prefix| {
            let name = format!("{prefix}{asked}");
            self.components.iter().find(|c| c.is_called(&name))
        });
        by_name.or_else(|| self.components.iter().find(|c| c.aliases.contains(&asked)))
    }

    /// The usual names with the most similar spelling.
    pub fn components_near(&self, name: &str) -> Vec<&str> {
        const SHOWN: usize = 3;
        let asked = name.trim().to_lowercase().replace('-', "_");
        let mut all: Vec<_> = self
            .components
            .iter()
            .map(|c| (edits(short(&asked), c.short()), c.short()))
            .collect();
        all.sort();
        all.into_iter()
            .take(SHOWN)
            .map(|(_, short)| short)
            .collect()
    }

    /// The component that has this name in some release of NVIDIA's.
    pub fn component(&self, name: &str) -> Option<&Component> {
        self.component_position(name).map(|at| &self.components[at])
    }

    /// The position of this component in [`Self::components`].
    pub fn component_position(&self, name: &str) -> Option<usize> {
        self.components.iter().position(|c| c.is_called(name))
    }

    /// The component archives of a release.
    pub fn component_release(&self, version: CudaVersion) -> Option<&ComponentRelease> {
        // Newest first.
        let at = self
            .component_releases
            .binary_search_by(|r| version.cmp(&r.version))
            .ok()?;
        Some(&self.component_releases[at])
    }
}

/// The number of letters to insert, delete or change to turn one word into the other (Levenshtein
/// distance).
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let changed = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = changed.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat::known;

    #[test]
    fn people_leave_the_beginning_out() {
        let database = known();
        for (asked, name) in [
            ("nvcc", "cuda_nvcc"),
            ("cuda_nvcc", "cuda_nvcc"),
            ("cuda-nvcc", "cuda_nvcc"),
            ("CUBLAS", "libcublas"),
            ("libcublas", "libcublas"),
            ("thrust", "cuda_cccl"),
            // Its name since 13.3.
            ("cccl", "cuda_cccl"),
        ] {
            assert_eq!(
                database.component_named(asked).map(|c| c.name.as_str()),
                Some(name),
                "{asked}"
            );
        }
        assert_eq!(database.component_named("cublass"), None);
        assert_eq!(database.component_named(""), None);
        assert_eq!(database.components_near("libcublass")[0], "cublas");
        assert_eq!(database.components_near("cuda_nvc")[0], "nvcc");
    }

    #[test]
    fn edits_are_counted() {
        for (a, b, n) in [
            ("", "", 0),
            ("nvcc", "nvcc", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("cudart", "curand", 3),
        ] {
            assert_eq!(edits(a, b), n, "{a} {b}");
        }
    }
}
