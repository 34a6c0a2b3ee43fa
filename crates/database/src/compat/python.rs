//! How the builds of a framework are installed: the packages, the indexes that have them, and
//! whether they bring CUDA and cuDNN.

use super::{Framework, FrameworkBuild, FrameworkRelease, SourceId};
use crate::version::{AddOnVersion, FrameworkVersion};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How pip and uv install the builds of some releases. In `package` and `index`, `{major}` and
/// `{series}` stand for the build's CUDA: 12 and 128 for 12.8.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PythonPackage {
    /// The first release that is installed this way. An entry with a newer `from` takes precedence.
    pub(crate) from: FrameworkVersion,
    /// The package and its extras: `torch`, `tensorflow[and-cuda]`, `jax[cuda{major}]`.
    pub(crate) package: String,
    /// What the package and its requirements bring; empty if programs use the host's toolkit.
    #[serde(default)]
    pub brings: Vec<BundledComponent>,
    /// The project's index, for builds that are not on PyPI.
    #[serde(default)]
    pub(crate) index: Option<String>,
    /// Every build of a release is in the same package, or compiled from it.
    #[serde(default)]
    pub(crate) one_package: bool,
    /// Options of pip and uv: `--no-build-isolation`.
    #[serde(default)]
    pub(crate) options: Vec<String>,
    /// Packages that have to be installed before it: what it is compiled with.
    #[serde(default)]
    pub(crate) before: Vec<String>,
    pub(crate) sources: Vec<SourceId>,
}

/// Versions of Python, `3.10 to 3.14` or `3.8 or newer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct PythonRange {
    /// The first, `3.10`.
    pub min: AddOnVersion,
    /// The last; none if every newer one will do.
    #[serde(default)]
    pub max: Option<AddOnVersion>,
}

impl PythonRange {
    /// Whether it has this version.
    pub fn has(self, python: AddOnVersion) -> bool {
        python >= self.min && self.max.is_none_or(|max| python <= max)
    }

    /// The versions that both have. None may be left: then the first is newer than the last.
    pub fn with(self, other: Self) -> Self {
        Self {
            min: self.min.max(other.min),
            max: self.max.into_iter().chain(other.max).min(),
        }
    }

    /// The newest version that is known to do; none if none does.
    pub fn newest(self) -> Option<AddOnVersion> {
        let newest = self.max.unwrap_or(self.min);
        self.has(newest).then_some(newest)
    }
}

impl fmt::Display for PythonRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.max {
            Some(max) if max == self.min => write!(f, "{max}"),
            Some(max) => write!(f, "{} to {max}", self.min),
            None => write!(f, "{} or newer", self.min),
        }
    }
}

/// A part of CUDA that Python packages bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BundledComponent {
    /// The CUDA runtime and the libraries that the framework uses.
    Cuda,
    Cudnn,
}

/// The conda packages that the project publishes for some releases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CondaPackage {
    /// The first release.
    pub(crate) from: FrameworkVersion,
    /// The last release; none if they are still published.
    #[serde(default)]
    pub(crate) to: Option<FrameworkVersion>,
    /// The words after `conda install`. `{version}` is the release, `{cuda}` the CUDA series, 12.8.
    pub(crate) words: Vec<String>,
    /// The machine architectures that they are published for; empty for all.
    #[serde(default)]
    pub(crate) architectures: Vec<String>,
    pub(crate) sources: Vec<SourceId>,
}

/// How one build is installed with pip or uv.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonInstall<'a> {
    /// The package and its extras, without a version: `jax[cuda12]`.
    pub package: String,
    /// The index to name; none for PyPI.
    pub index: Option<String>,
    /// What comes with it.
    pub brings: &'a [BundledComponent],
    /// Further options.
    pub options: &'a [String],
    /// Packages that have to be installed before it.
    pub before: &'a [String],
    /// The part of PyTorch's index, `cu129`, that PyTorch comes from; none for PyPI.
    pub torch_backend: Option<String>,
    /// Where this is published.
    pub sources: &'a [SourceId],
}

impl PythonPackage {
    /// The package for a build, with its CUDA filled in.
    pub fn package_for(&self, build: &FrameworkBuild) -> String {
        filled(&self.package, build)
    }

    /// The project's index for a build. It may be on PyPI, too.
    pub fn index_for(&self, build: &FrameworkBuild) -> Option<String> {
        Some(filled(self.index.as_ref()?, build))
    }
}

/// The template with a build's CUDA filled in.
fn filled(template: &str, build: &FrameworkBuild) -> String {
    let (major, minor) = (build.cuda.major, build.cuda.minor);
    template
        .replace("{major}", &major.to_string())
        .replace("{series}", &format!("{major}{minor}"))
        .replace("{cuda}", &format!("{major}.{minor}"))
}

impl Framework {
    /// The way in which a release is installed with pip.
    pub fn python_package(&self, release: &FrameworkRelease) -> Option<&PythonPackage> {
        let version: FrameworkVersion = release.version.parse().ok()?;
        self.install
            .iter()
            .filter(|package| package.from <= version)
            .max_by_key(|package| package.from)
    }

    /// How a build is installed on machines of an architecture; none if no source says where it is.
    pub fn python_install(
        &self,
        release: &FrameworkRelease,
        build: &FrameworkBuild,
        architecture: &str,
    ) -> Option<PythonInstall<'_>> {
        let way = self.python_package(release)?;
        let mut published = release
            .builds
            .iter()
            .filter(|other| other.is_for(architecture));
        let is_default = published.next().is_some_and(|first| first == build);
        // A package with the CUDA version in its name is another package for each build.
        let named = way.package.contains("{major}") || way.package.contains("{series}");
        let on_pypi = !release.cpu_only.iter().any(|a| a == architecture)
            && (named || way.one_package || is_default);
        let index = match (on_pypi, &way.index) {
            (true, _) => None,
            (false, Some(index)) => Some(filled(index, build)),
            (false, None) => return None,
        };
        let PythonPackage {
            brings,
            options,
            before,
            sources,
            ..
        } = way;
        Some(PythonInstall {
            package: way.package_for(build),
            index,
            brings,
            options,
            before,
            torch_backend: release.torch_backend.get(architecture).cloned(),
            sources,
        })
    }

    /// Whether a source says how pip installs the usual build of some release on an architecture.
    pub fn has_python_install(&self, architecture: &str) -> bool {
        self.releases.iter().any(|release| {
            let usual = release.builds.iter().find(|b| b.is_for(architecture));
            usual.is_some_and(|build| self.python_install(release, build, architecture).is_some())
        })
    }

    /// The words after `conda install` for a build, if the project publishes conda packages of it.
    pub fn conda_install(
        &self,
        release: &FrameworkRelease,
        build: &FrameworkBuild,
        architecture: &str,
    ) -> Option<(Vec<String>, &[SourceId])> {
        let version: FrameworkVersion = release.version.parse().ok()?;
        let conda = self.conda.iter().find(|conda| {
            conda.from <= version
                && conda.to.is_none_or(|to| version <= to)
                && (conda.architectures.is_empty()
                    || conda.architectures.iter().any(|a| a == architecture))
        })?;
        let words = conda.words.iter();
        let words = words
            .map(|word| filled(word, build).replace("{version}", &release.version))
            .collect();
        Some((words, &conda.sources))
    }
}

#[cfg(test)]
mod tests {
    use super::PythonRange;
    use crate::compat::known;

    fn installed(wish: &str, build: usize, architecture: &str) -> (Option<String>, Option<String>) {
        let database = known();
        let (name, _) = crate::compat::framework_and_version(wish);
        let framework = database.framework(name).expect("a framework");
        let release = database.framework_release(wish).expect("a release");
        let build = &release.builds[build];
        let pip = framework.python_install(release, build, architecture);
        let conda = framework.conda_install(release, build, architecture);
        (
            pip.map(|i| {
                format!(
                    "{}{}",
                    i.package,
                    i.index.map(|index| format!(" {index}")).unwrap_or_default()
                )
            }),
            conda.map(|(words, _)| words.join(" ")),
        )
    }

    #[test]
    fn ranges_of_python_meet() {
        let range = |min: &str, max: Option<&str>| PythonRange {
            min: min.parse().expect("a version"),
            max: max.map(|max| max.parse().expect("a version")),
        };
        let (old, new) = (range("3.6", Some("3.9")), range("3.10", None));
        let python = |text: &str| text.parse().expect("a version");
        assert!(new.has(python("3.10")) && new.has(python("3.100")) && !new.has(python("3.9")));
        assert!(old.has(python("3.9")) && !old.has(python("3.10")));
        let both = old.with(range("3.8", Some("3.12")));
        assert_eq!(both.to_string(), "3.8 to 3.9");
        assert_eq!(both.newest(), Some(python("3.9")));
        assert_eq!(new.to_string(), "3.10 or newer");
        assert_eq!(new.newest(), Some(python("3.10")));
        assert_eq!(old.with(new).newest(), None, "no Python is in both");
    }

    #[test]
    fn a_build_that_is_not_on_pypi_comes_from_the_projects_index() {
        let index = |series: &str| format!("torch https://download.pytorch.org/whl/{series}");
        assert_eq!(
            installed("torch==2.9", 0, "x86_64").0.as_deref(),
            Some("torch")
        );
        assert_eq!(
            installed("torch==2.9", 0, "aarch64").0,
            Some(index("cu128"))
        );
        assert_eq!(installed("torch==2.9", 3, "x86_64").0, Some(index("cu126")));
        assert_eq!(installed("torch==1.13", 1, "x86_64").0, None);
    }

    #[test]
    fn packages_are_named_for_the_cuda_of_their_build() {
        assert_eq!(
            installed("jax==0.12", 0, "x86_64").0.as_deref(),
            Some("jax[cuda13]")
        );
        assert_eq!(
            installed("cupy==13.6", 2, "x86_64").0.as_deref(),
            Some("cupy-cuda11x")
        );
        assert_eq!(
            installed("tensorflow==2.13", 0, "x86_64").0.as_deref(),
            Some("tensorflow")
        );
        assert_eq!(
            installed("tensorflow==2.21", 0, "x86_64").0.as_deref(),
            Some("tensorflow[and-cuda]")
        );
    }

    #[test]
    fn conda_is_named_as_long_as_the_project_publishes_it() {
        let of_2_5 = "pytorch=2.5 pytorch-cuda=12.4 -c pytorch -c nvidia";
        assert_eq!(
            installed("torch==2.5", 0, "x86_64").1.as_deref(),
            Some(of_2_5)
        );
        assert_eq!(installed("torch==2.5", 0, "aarch64").1, None);
        assert_eq!(installed("torch==2.6", 0, "x86_64").1, None);
        assert!(installed("cudf==26.10", 0, "x86_64").1.is_some());
    }
}
