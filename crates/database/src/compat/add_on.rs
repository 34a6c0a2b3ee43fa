//! Add-ons: libraries that are installed into a toolkit besides its own components, such as cuDNN,
//! NCCL and TensorRT. Each is a row of data: the names of its files, where they go, how its version
//! is read. The requirements and archives of its releases are rows too, so no code is specific to
//! one of them.

use super::short_name::short_name;
use super::{Artifact, Database, SourceId};
use crate::version::{AddOnVersion, ComputeCapability, CudaVersion, DriverVersion};
use serde::{Deserialize, Serialize};

short_name! {
    /// The short name of an add-on, used by users and files: `cudnn`.
    AddOnId: most 16, also b"", pattern "^[a-z0-9]{1,16}$", described "An add-on, `nccl`.";
    AddOnIdError: "`{0}` is not an add-on's name: use 1 to 16 lower-case letters and digits"
}

impl AddOnId {
    /// The add-on that frameworks name, and that has the flag `--cudnn`.
    pub const CUDNN: Self = Self::of(b"cudnn");
}

/// A library that is installed into a toolkit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddOn {
    /// The name for `--with`: `nccl`.
    pub id: AddOnId,
    /// The usual name: `NCCL`.
    pub title: String,
    /// The purpose, phrased to follow "for": `communication between GPUs`.
    pub purpose: String,
    /// Whether a plan that names no add-on includes it if a release fits.
    #[serde(default)]
    pub by_default: bool,
    /// The library that programs load, without `.so`. Its SONAME ends in the release's first
    /// number.
    pub library: String,
    /// The prefix of all its libraries: `libcudnn` for `libcudnn_ops.so.9`.
    pub prefixes: Vec<String>,
    /// The headers that define its version, the newest name first.
    pub headers: Vec<String>,
    /// The macros in them, most significant first: `NCCL_MAJOR`.
    pub macros: Vec<String>,
    /// The function of [`Self::library`] that returns its version.
    pub version_call: VersionCall,
    /// Where the files of its archives go.
    pub(crate) layouts: Vec<Layout>,
    pub(crate) sources: Vec<SourceId>,
}

impl AddOn {
    /// The SONAME of its main library in a release: `libnccl.so.2`.
    pub fn soname(&self, version: AddOnVersion) -> String {
        format!("{}.so.{}", self.library, version.major)
    }

    /// Whether this is the name of one of its shared libraries or of a link to one.
    pub fn has_library(&self, name: &str) -> bool {
        self.prefixes
            .iter()
            .any(|prefix| name.starts_with(prefix.as_str()))
            && name
                .split_once(".so")
                .is_some_and(|(_, end)| end.is_empty() || end.starts_with('.'))
    }

    /// The layout for an archive with this name.
    pub fn layout(&self, file: &str) -> Option<&Layout> {
        self.layouts
            .iter()
            .find(|layout| file.ends_with(&layout.ending))
    }
}

/// Where the files of an archive go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// The suffixes of such archives: `.tar.xz`, `.whl`.
    pub(crate) ending: String,
    /// How many numbers of the version end the names of the library files: 3 for
    /// `libcudnn.so.9.10.2`; 1 if the files are named by their SONAMEs.
    pub numbers: usize,
    /// The files and their destinations.
    pub places: Vec<Place>,
}

/// A file or folder of an archive, and its destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Its path in the archive; for a tar archive without the top-level folder. `{version}` is the
    /// release, `{line}` the CUDA line.
    pub from: String,
    /// Its path in the toolkit, `lib64`.
    pub to: String,
}

/// The function that returns a library's version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionCall {
    /// Its name: `ncclGetVersion`.
    pub function: String,
    /// How it is called.
    pub form: CallForm,
    /// How the single number is composed, for the highest releases first; empty if the function
    /// returns the numbers separately.
    #[serde(default)]
    pub(crate) codes: Vec<VersionCode>,
}

/// The signature of a version function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallForm {
    /// `size_t f(void)` or `int f(void)`: it returns one number.
    Returned,
    /// `int f(int *)`: it writes one number, and returns 0.
    Written,
    /// `void f(int *, int *, int *)`: it writes the first three.
    WrittenApart,
    /// `int f(int which, int *)`: it writes the first, second or third number, as CUDA's
    /// `libraryPropertyType` counts them.
    Property,
}

impl CallForm {
    const ALL: [Self; 4] = [
        Self::Returned,
        Self::Written,
        Self::WrittenApart,
        Self::Property,
    ];

    /// The name in the data.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Returned => "returned",
            Self::Written => "written",
            Self::WrittenApart => "written-apart",
            Self::Property => "property",
        }
    }

    /// The signature with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.as_str() == name)
    }
}

/// How releases from a given number on encode their version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VersionCode {
    /// The lowest such number.
    pub(crate) from: u32,
    /// The factor of the version's first number: 10000 in 22803, which is 2.28.3.
    pub(crate) major: u32,
    /// The factor of the second number.
    pub(crate) minor: u32,
}

impl VersionCall {
    /// The version encoded in a number; none if the number is not valid.
    pub fn decoded(&self, number: u32) -> Option<AddOnVersion> {
        let VersionCode { major, minor, .. } =
            *self.codes.iter().find(|code| number >= code.from)?;
        let part = |n: u32| u16::try_from(n).ok();
        let patch = part(number % major % minor)?;
        let (major, minor) = (part(number / major)?, part(number % major / minor)?);
        Some(AddOnVersion {
            major,
            minor,
            patch: Some(patch),
            build: None,
        })
    }
}

/// The requirements of a range of an add-on's releases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddOnRange {
    /// The add-on.
    pub add_on: AddOnId,
    /// The oldest release in the range.
    pub from: AddOnVersion,
    /// The newest release in the range; none for all newer ones.
    #[serde(default)]
    pub to: Option<AddOnVersion>,
    /// The archive line, as in the archive's name (`"12"`, `"11.8"`).
    pub cuda_line: String,
    /// The oldest CUDA series that these archives support.
    pub cuda_min: CudaVersion,
    /// The newest series that they support; none for the whole line.
    #[serde(default)]
    pub cuda_max: Option<CudaVersion>,
    /// The lowest compute capability.
    pub lowest_capability: ComputeCapability,
    /// The highest compute capability, if the source gives one below the newest.
    #[serde(default)]
    pub highest_capability: Option<ComputeCapability>,
    /// Compute capabilities in between without kernels: those for 10.0a do not run on 10.3.
    #[serde(default)]
    pub without_capabilities: Vec<ComputeCapability>,
    /// The oldest driver.
    #[serde(default)]
    pub minimum_driver: Option<DriverVersion>,
    /// The oldest C library that they work with, `"2.27"`.
    #[serde(default)]
    pub glibc_min: Option<String>,
    /// The shared libraries that need a link named by the SONAME and one for compilers, without
    /// `.so`: `libcudnn`, `libcudnn_ops`.
    pub libraries: Vec<String>,
    /// A note for readers.
    #[serde(default)]
    pub(crate) note: Option<String>,
    /// The assumed parts, and why they could not be measured.
    #[serde(default)]
    pub assumed: Option<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

impl AddOnRange {
    /// Whether the range contains a release.
    pub fn covers(&self, version: AddOnVersion) -> bool {
        self.from <= version && self.to.is_none_or(|to| version <= to)
    }

    /// Whether it has kernels for a GPU.
    pub fn runs_on(&self, gpu: ComputeCapability) -> bool {
        self.lowest_capability <= gpu
            && self.highest_capability.is_none_or(|highest| gpu <= highest)
            && !self.without_capabilities.contains(&gpu)
    }

    /// The compute capabilities it runs on: `7.5 and up`, `5.0 to 12.0 without 10.3, 11.0`.
    pub fn capabilities(&self) -> String {
        let mut text = match self.highest_capability {
            Some(highest) => format!("{} to {highest}", self.lowest_capability),
            None => format!("{} and up", self.lowest_capability),
        };
        for (n, gap) in self.without_capabilities.iter().enumerate() {
            text += &format!("{} {gap}", if n == 0 { " without" } else { "," });
        }
        text
    }

    /// Whether its archives support a CUDA series.
    pub fn is_for(&self, series: CudaVersion) -> bool {
        let (first, last) = (self.cuda_min, self.cuda_max);
        series.major == first.major
            && series >= first.series()
            && last.is_none_or(|last| series <= last.series())
    }
}

/// An archive of a release of an add-on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddOnArtifact {
    /// The add-on.
    pub add_on: AddOnId,
    /// The release.
    pub version: AddOnVersion,
    /// The line it is built for, as in the archive's name: `"12"`, `"11.8"`.
    pub cuda_line: String,
    /// The file.
    pub artifact: Artifact,
}

impl AddOnArtifact {
    /// The CUDA major version that it is built for, if its line names one.
    pub fn cuda_major(&self) -> Option<u16> {
        self.cuda_line.split('.').next()?.parse().ok()
    }
}

impl Database {
    /// The add-on with this name or usual name.
    pub fn add_on_named(&self, name: &str) -> Option<&AddOn> {
        let asked = name.trim().to_lowercase();
        self.add_ons
            .iter()
            .find(|a| a.id.as_str() == asked || a.title.to_lowercase() == asked)
    }

    /// The add-on with this id.
    pub fn add_on(&self, id: AddOnId) -> Option<&AddOn> {
        self.add_ons.iter().find(|a| a.id == id)
    }

    /// The usual name of an add-on; its id if the database does not know it.
    pub fn add_on_title(&self, id: AddOnId) -> String {
        self.add_on(id)
            .map_or_else(|| id.to_string(), |a| a.title.clone())
    }

    /// The archives of an add-on, newest first.
    pub fn add_on_archives(&self, id: AddOnId) -> impl Iterator<Item = &AddOnArtifact> + Clone {
        let start = self.add_on_artifacts.partition_point(|a| a.add_on < id);
        self.add_on_artifacts[start..]
            .iter()
            .take_while(move |a| a.add_on == id)
    }

    /// The requirements of a release of an add-on for a CUDA line.
    pub fn add_on_range(
        &self,
        id: AddOnId,
        version: AddOnVersion,
        line: &str,
    ) -> Option<&AddOnRange> {
        self.range_position(id, version, line)
            .map(|at| &self.add_on_ranges[at])
    }

    /// The position of these requirements in [`Self::add_on_ranges`].
    pub(super) fn range_position(
        &self,
        id: AddOnId,
        version: AddOnVersion,
        line: &str,
    ) -> Option<usize> {
        let start = self.add_on_ranges.partition_point(|r| r.add_on < id);
        let mut ranges = self.add_on_ranges[start..]
            .iter()
            .take_while(|r| r.add_on == id);
        Some(start + ranges.position(|r| r.covers(version) && r.cuda_line == line)?)
    }

    /// The requirements of an archive.
    pub fn range_of(&self, archive: &AddOnArtifact) -> Option<&AddOnRange> {
        self.add_on_range(archive.add_on, archive.version, &archive.cuda_line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat::known;

    #[test]
    fn names_are_small_and_short() {
        for good in ["cudnn", "nccl", "a1", "abcdefghijklmnop"] {
            assert_eq!(
                good.parse::<AddOnId>().map(|id| id.to_string()),
                Ok(good.to_owned())
            );
        }
        for bad in ["", "cuDNN", "a b", "a-b", "é", "abcdefghijklmnopq", "a\0"] {
            assert!(bad.parse::<AddOnId>().is_err(), "{bad}");
        }
        assert_eq!("cudnn".parse(), Ok(AddOnId::CUDNN));
    }

    #[test]
    fn versions_are_decoded_as_each_release_codes_them() {
        let call = |id: &str| &known().add_on_named(id).expect("known").version_call;
        let text = |id, n| call(id).decoded(n).map(|v| v.to_string());
        assert_eq!(text("cudnn", 91002).as_deref(), Some("9.10.2"));
        assert_eq!(text("cudnn", 92501).as_deref(), Some("9.25.1"));
        assert_eq!(text("cudnn", 8907).as_deref(), Some("8.9.7"));
        assert_eq!(text("cudnn", 7605).as_deref(), Some("7.6.5"));
        assert_eq!(text("cudnn", 0), None);
    }

    #[test]
    fn libraries_are_told_by_their_names() {
        let cudnn = known().add_on(AddOnId::CUDNN).expect("known");
        assert!(cudnn.has_library("libcudnn.so") && cudnn.has_library("libcudnn_ops.so.9"));
        assert!(!cudnn.has_library("libcudnn_static.a") && !cudnn.has_library("libcudnn.sonnet"));
    }
}
