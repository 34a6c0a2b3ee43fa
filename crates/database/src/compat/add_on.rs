//! Libraries that go into a toolkit beside what it consists of: cuDNN, NCCL, TensorRT and the like. One is a row of data: what
//! its files are called, where they go, how its version is read. What its releases need and where they are published are rows,
//! too, so that no code knows any of them.

use super::short_name::short_name;
use super::{Artifact, Database, SourceId};
use crate::version::{AddOnVersion, ComputeCapability, CudaVersion, DriverVersion};
use serde::{Deserialize, Serialize};

short_name! {
    /// The short name of an add-on, as users and files have it: `cudnn`.
    AddOnId: most 16, also b"", pattern "^[a-z0-9]{1,16}$", described "An add-on, `nccl`.";
    /// A text that is no name of an add-on.
    AddOnIdError: "`{0}` is no name of an add-on: 1 to 16 small letters and digits"
}

impl AddOnId {
    /// The add-on that frameworks name, and `--cudnn`.
    pub const CUDNN: Self = Self::of(b"cudnn");
}

/// A library that goes into a toolkit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddOn {
    /// What `--with` calls it: `nccl`.
    pub id: AddOnId,
    /// What people call it: `NCCL`.
    pub title: String,
    /// What it does, after "for": `communication between GPUs`.
    pub purpose: String,
    /// A plan that names no add-on has it, where one fits.
    #[serde(default)]
    pub by_default: bool,
    /// The library that programs load, without `.so`. Its SONAME ends with the release's first number.
    pub library: String,
    /// What the names of all its libraries begin with: `libcudnn` of `libcudnn_ops.so.9`.
    pub prefixes: Vec<String>,
    /// The headers that define its version, the newest name first.
    pub headers: Vec<String>,
    /// The macros in them, most significant first: `NCCL_MAJOR`.
    pub macros: Vec<String>,
    /// The function of [`Self::library`] that tells its version.
    pub version_call: VersionCall,
    /// Where the files of its archives go.
    pub layouts: Vec<Layout>,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

impl AddOn {
    /// The SONAME of its main library in a release: `libnccl.so.2`.
    pub fn soname(&self, version: AddOnVersion) -> String {
        format!("{}.so.{}", self.library, version.major)
    }

    /// Whether this is the name of one of its shared libraries, or of a link to one.
    pub fn has_library(&self, name: &str) -> bool {
        let is_shared = || name.split_once(".so").is_some_and(|(_, end)| end.is_empty() || end.starts_with('.'));
        self.prefixes.iter().any(|prefix| name.starts_with(prefix.as_str())) && is_shared()
    }

    /// The layout of an archive of this name.
    pub fn layout(&self, file: &str) -> Option<&Layout> {
        self.layouts.iter().find(|layout| file.ends_with(&layout.ending))
    }
}

/// Where the files of an archive go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// What the names of such archives end with: `.tar.xz`, `.whl`.
    pub ending: String,
    /// The libraries' own files end with so many numbers of the version: 3 for `libcudnn.so.9.10.2`; 1 where they are called by
    /// their SONAMEs.
    pub numbers: usize,
    /// What goes where.
    pub places: Vec<Place>,
}

/// A file or folder of an archive, and where it goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Its path in the archive; of a tar archive without the outermost folder. `{version}` is the release, `{line}` the CUDA
    /// line.
    pub from: String,
    /// Its path in the toolkit, `lib64`.
    pub to: String,
}

/// A function that tells a library's version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionCall {
    /// Its name: `ncclGetVersion`.
    pub function: String,
    /// How it is called.
    pub form: CallForm,
    /// What its one number is made of, the highest first; none where it tells the numbers apart.
    #[serde(default)]
    pub codes: Vec<VersionCode>,
}

/// How a function that tells a version is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallForm {
    /// `size_t f(void)` or `int f(void)`: it returns one number.
    Returned,
    /// `int f(int *)`: it writes one number, and returns 0.
    Written,
    /// `void f(int *, int *, int *)`: it writes the first three.
    WrittenApart,
    /// `int f(int which, int *)`: it writes the first, second or third number, as CUDA's `libraryPropertyType` counts them.
    Property,
}

impl CallForm {
    const ALL: [Self; 4] = [Self::Returned, Self::Written, Self::WrittenApart, Self::Property];

    /// As data has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Returned => "returned",
            Self::Written => "written",
            Self::WrittenApart => "written-apart",
            Self::Property => "property",
        }
    }

    /// The form of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.as_str() == name)
    }
}

/// How releases from one number on code their version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionCode {
    /// The lowest such number.
    pub from: u32,
    /// What the first number of the version is multiplied by: 10000 in 22803, which is 2.28.3.
    pub major: u32,
    /// The same of the second.
    pub minor: u32,
}

impl VersionCall {
    /// The version that a number stands for; none where it stands for none.
    pub fn decoded(&self, number: u32) -> Option<AddOnVersion> {
        let VersionCode { major, minor, .. } = *self.codes.iter().find(|code| number >= code.from)?;
        let part = |n: u32| u16::try_from(n).ok();
        let patch = part(number % major % minor)?;
        let (major, minor) = (part(number / major)?, part(number % major / minor)?);
        Some(AddOnVersion { major, minor, patch: Some(patch), build: None })
    }
}

/// What the releases of an add-on from one to another need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddOnRange {
    /// Of which add-on.
    pub add_on: AddOnId,
    /// The oldest release meant.
    pub from: AddOnVersion,
    /// The newest release meant; none is "and all newer".
    #[serde(default)]
    pub to: Option<AddOnVersion>,
    /// The line of archives meant, by the text in the archive's name (`"12"`, `"11.8"`).
    pub cuda_line: String,
    /// The oldest CUDA series that these archives are for.
    pub cuda_min: CudaVersion,
    /// The newest series that they are for; none is the whole line.
    #[serde(default)]
    pub cuda_max: Option<CudaVersion>,
    /// The lowest compute capability.
    pub lowest_capability: ComputeCapability,
    /// The highest, where the source ends below the newest.
    #[serde(default)]
    pub highest_capability: Option<ComputeCapability>,
    /// Those between the two that it has no kernels for: kernels for 10.0a do not run on 10.3.
    #[serde(default)]
    pub without_capabilities: Vec<ComputeCapability>,
    /// The oldest driver.
    #[serde(default)]
    pub minimum_driver: Option<DriverVersion>,
    /// The oldest C library that they load with, `"2.27"`.
    #[serde(default)]
    pub glibc_min: Option<String>,
    /// The shared libraries that have a link by their SONAME and one for compilers, without `.so`: `libcudnn`, `libcudnn_ops`.
    pub libraries: Vec<String>,
    /// What a reader should know.
    #[serde(default)]
    pub note: Option<String>,
    /// Which of this is assumed, and why it could not be measured.
    #[serde(default)]
    pub assumed: Option<String>,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

impl AddOnRange {
    /// Whether a release lies in it.
    pub fn covers(&self, version: AddOnVersion) -> bool {
        self.from <= version && self.to.is_none_or(|to| version <= to)
    }

    /// Whether it has kernels for a GPU.
    pub fn runs_on(&self, gpu: ComputeCapability) -> bool {
        self.lowest_capability <= gpu
            && self.highest_capability.is_none_or(|highest| gpu <= highest)
            && !self.without_capabilities.contains(&gpu)
    }

    /// The compute capabilities that it runs on: `7.5 and up`, `5.0 to 12.0 without 10.3, 11.0`.
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

    /// Whether its archives are for a series of CUDA.
    pub fn is_for(&self, series: CudaVersion) -> bool {
        let (first, last) = (self.cuda_min, self.cuda_max);
        series.major == first.major && series >= first.series() && last.is_none_or(|last| series <= last.series())
    }
}

/// An archive of a release of an add-on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddOnArtifact {
    /// Of which add-on.
    pub add_on: AddOnId,
    /// The release.
    pub version: AddOnVersion,
    /// The line it is built for, as in the archive's name: `"12"`, `"11.8"`.
    pub cuda_line: String,
    /// The file.
    pub artifact: Artifact,
}

impl Database {
    /// The add-on of this name, or that people call so.
    pub fn add_on_named(&self, name: &str) -> Option<&AddOn> {
        let asked = name.trim().to_lowercase();
        self.add_ons.iter().find(|a| a.id.as_str() == asked || a.title.to_lowercase() == asked)
    }

    /// The add-on of this id.
    pub fn add_on(&self, id: AddOnId) -> Option<&AddOn> {
        self.add_ons.iter().find(|a| a.id == id)
    }

    /// What people call an add-on; of one that the database does not know, its id.
    pub fn add_on_title(&self, id: AddOnId) -> String {
        self.add_on(id).map_or_else(|| id.to_string(), |a| a.title.clone())
    }

    /// The archives of an add-on, newest first.
    pub fn add_on_archives(&self, id: AddOnId) -> impl Iterator<Item = &AddOnArtifact> + Clone {
        let start = self.add_on_artifacts.partition_point(|a| a.add_on < id);
        self.add_on_artifacts[start..].iter().take_while(move |a| a.add_on == id)
    }

    /// What a release of an add-on of a CUDA line needs.
    pub fn add_on_range(&self, id: AddOnId, version: AddOnVersion, line: &str) -> Option<&AddOnRange> {
        let start = self.add_on_ranges.partition_point(|r| r.add_on < id);
        let mut ranges = self.add_on_ranges[start..].iter().take_while(|r| r.add_on == id);
        ranges.find(|r| r.covers(version) && r.cuda_line == line)
    }

    /// What an archive needs.
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
            assert_eq!(good.parse::<AddOnId>().map(|id| id.to_string()), Ok(good.to_owned()));
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
