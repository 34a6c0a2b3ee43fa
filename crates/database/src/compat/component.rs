//! The parts of a toolkit that NVIDIA publishes alone: what is in a release's `redistrib_X.Y.Z.json`, what people call the
//! parts, and what must come along with each. Only facts; which parts a request comes to, `resolve` decides.

use super::{Artifact, Database, SourceId};
use crate::version::CudaVersion;
use serde::{Deserialize, Serialize};

/// What NVIDIA's names may begin with and people leave out: `nvcc` is `cuda_nvcc`, `cublas` is `libcublas`.
const PREFIXES: [&str; 3] = ["", "cuda_", "lib"];

/// A part of CUDA toolkits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    /// NVIDIA's name: `cuda_nvcc`.
    pub name: String,
    /// What newer releases call it, where they call it something else.
    #[serde(default)]
    pub renamed: Option<String>,
    /// What it is, for a person.
    pub title: String,
    /// Other names that people have for it, beside those without `cuda_` or `lib`.
    #[serde(default)]
    pub aliases: Vec<String>,
}

/// What a component, or an add-on, is of no use without.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentNeed {
    /// The component, or the id of the add-on.
    pub of: String,
    /// What it needs, where the release has that apart: before CUDA 13 some were inside of others.
    pub needs: String,
    /// Why, behind the name of what needs it: "compiles with its headers".
    pub why: String,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// The component archives of a CUDA release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentRelease {
    /// The release.
    pub version: CudaVersion,
    /// The address that the archives lie below, without a slash at the end.
    pub base: String,
    /// How many independent sources give these sums.
    pub agree: u8,
    /// How it is known that the sums are NVIDIA's.
    pub verified: String,
    /// What it has.
    pub components: Vec<ReleasedComponent>,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// A component of a release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleasedComponent {
    /// NVIDIA's name in this release.
    pub name: String,
    /// Its own version, `13.0.88`.
    pub version: String,
    /// One for each machine architecture that has it.
    pub archives: Vec<ComponentArchive>,
}

/// An archive of a component. Name and address follow from the component, the architecture and the version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentArchive {
    /// `x86_64`, `sbsa`, `ppc64le`.
    pub arch: String,
    /// Bytes.
    pub size: u64,
    /// Lower-case hexadecimal.
    pub sha256: String,
}

impl Component {
    /// Whether NVIDIA's name means it, in any release.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.renamed.as_deref() == Some(name)
    }

    /// The name without what people leave out: `nvcc`.
    pub fn short(&self) -> &str {
        short(&self.name)
    }
}

/// NVIDIA's name of a component without what people leave out: `nvcc`.
pub fn short(name: &str) -> &str {
    PREFIXES[1..].iter().find_map(|p| name.strip_prefix(p)).unwrap_or(name)
}

impl ComponentRelease {
    /// What it has of a component.
    pub fn component(&self, of: &Component) -> Option<&ReleasedComponent> {
        self.components.iter().find(|c| of.is_called(&c.name))
    }

    /// The archive of one of its components as something to download.
    pub fn artifact(&self, component: &ReleasedComponent, archive: &ComponentArchive) -> Artifact {
        let (name, arch) = (&component.name, &archive.arch);
        let file = format!("{name}-linux-{arch}-{}-archive.tar.xz", component.version);
        Artifact {
            arch: arch.clone(),
            url: Some(format!("{}/{name}/linux-{arch}/{file}", self.base)),
            file,
            sha256: Some(archive.sha256.clone()),
            size: Some(archive.size),
            agree: self.agree,
            note: None,
            disagreement: None,
            sources: self.sources.clone(),
        }
    }
}

impl ReleasedComponent {
    /// The archive for a machine architecture, as CUDA's artifacts call it.
    pub fn archive(&self, arch: &str) -> Option<&ComponentArchive> {
        self.archives.iter().find(|a| a.arch == arch)
    }
}

impl Database {
    /// The component archive of this sum.
    pub fn component_archive(&self, sha256: &str) -> Option<Artifact> {
        self.component_releases.iter().find_map(|release| {
            let mut archives = release.components.iter().flat_map(|c| c.archives.iter().map(move |a| (c, a)));
            archives.find(|(_, a)| a.sha256 == sha256).map(|(component, archive)| release.artifact(component, archive))
        })
    }

    /// The component that somebody means: by NVIDIA's name, that name without its beginning, or an alias.
    pub fn component_named(&self, name: &str) -> Option<&Component> {
        let asked = name.trim().to_lowercase().replace('-', "_");
        let of = |name: &str| self.components.iter().find(|c| c.is_called(name));
        let by_name = PREFIXES.iter().find_map(|prefix| of(&format!("{prefix}{asked}")));
        by_name.or_else(|| self.components.iter().find(|c| c.aliases.contains(&asked)))
    }

    /// The names that are spelled most like this one, as people say them.
    pub fn components_near(&self, name: &str) -> Vec<&str> {
        const SHOWN: usize = 3;
        let asked = name.trim().to_lowercase().replace('-', "_");
        let mut all: Vec<_> = self.components.iter().map(|c| (edits(short(&asked), c.short()), c.short())).collect();
        all.sort();
        all.into_iter().take(SHOWN).map(|(_, short)| short).collect()
    }

    /// The component that this is NVIDIA's name of.
    pub fn component(&self, name: &str) -> Option<&Component> {
        self.components.iter().find(|c| c.is_called(name))
    }

    /// The component archives of a release.
    pub fn component_release(&self, version: CudaVersion) -> Option<&ComponentRelease> {
        // Newest first.
        let at = self.component_releases.binary_search_by(|r| version.cmp(&r.version)).ok()?;
        Some(&self.component_releases[at])
    }
}

/// How many letters must be put in, taken out or changed to make the one word the other (Levenshtein's distance).
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
            assert_eq!(database.component_named(asked).map(|c| c.name.as_str()), Some(name), "{asked}");
        }
        assert_eq!(database.component_named("cublass"), None);
        assert_eq!(database.component_named(""), None);
        assert_eq!(database.components_near("libcublass")[0], "cublas");
        assert_eq!(database.components_near("cuda_nvc")[0], "nvcc");
    }

    #[test]
    fn edits_are_counted() {
        for (a, b, n) in [("", "", 0), ("nvcc", "nvcc", 0), ("", "abc", 3), ("abc", "", 3), ("cudart", "curand", 3)] {
            assert_eq!(edits(a, b), n, "{a} {b}");
        }
    }
}
