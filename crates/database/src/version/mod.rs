//! Version types: compute capability, driver, CUDA, cuDNN. Each is parsed once, ordered by its
//! numbers and printed exactly as NVIDIA writes it. Nothing here knows which versions exist.

mod requirement;
#[cfg(feature = "schemas")]
mod schemas;
mod specifier;

pub use requirement::{Requirement, Want};
pub use specifier::meets_specifier;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// A text that is not a version (or a requirement), and the position of the mistake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{input}` is not {what}: {problem} at character {}\n    {input}\n    {caret}", self.at + 1, caret = caret(*.at))]
pub struct VersionError {
    /// The rejected text.
    pub(crate) input: String,
    /// The expected kind with its article: "a driver version".
    pub(crate) what: &'static str,
    /// The mistake.
    pub(crate) problem: String,
    /// Its position, in characters from the start, counted from 0.
    pub(crate) at: usize,
}

fn caret(at: usize) -> String {
    format!("{:at$}^", "")
}

/// Common to all four kinds of version: a fixed number of numeric components, the last of which may
/// be absent.
pub trait Version: Copy + Ord + fmt::Display {
    /// The kind with its article, for messages.
    const WHAT: &'static str;
    /// The components; absent ones are omitted.
    fn components(&self) -> Components;
    /// Converts another notation of this kind to numbers: `cu124` to `12.4`.
    fn other_form(_text: &str) -> Option<String> {
        None
    }
}

/// Up to four numbers, most significant first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Components {
    numbers: [u16; 4],
    len: usize,
}

impl Components {
    #[inline]
    fn new(numbers: &[u16]) -> Self {
        let mut out = Self {
            numbers: [0; 4],
            len: numbers.len(),
        };
        out.numbers[..numbers.len()].copy_from_slice(numbers);
        out
    }

    /// The numbers that are present.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u16] {
        &self.numbers[..self.len]
    }

    fn get(&self, i: usize) -> u16 {
        self.numbers[i]
    }
}

/// Parses `min..=max` dot-separated numbers, each no greater than `limit`.
fn numbers(
    input: &str,
    what: &'static str,
    min: usize,
    max: usize,
    limit: u16,
) -> Result<Components, VersionError> {
    let fail = |at: usize, problem: String| VersionError {
        input: input.to_owned(),
        what,
        problem,
        at,
    };
    let (mut out, mut at) = (
        Components {
            numbers: [0; 4],
            len: 0,
        },
        0,
    );
    for part in input.split('.') {
        if out.len == max {
            return Err(fail(at - 1, format!("more than {max} numbers")));
        }
        if part.is_empty() {
            return Err(fail(at, "a number is missing".to_owned()));
        }
        if let Some(bad) = part.chars().position(|c| !c.is_ascii_digit()) {
            let odd = part.chars().nth(bad).unwrap_or(' ');
            return Err(fail(at + bad, format!("unexpected {odd:?}")));
        }
        match part.parse::<u16>() {
            Ok(n) if n <= limit => out.numbers[out.len] = n,
            _ => return Err(fail(at, format!("a number above {limit}"))),
        }
        out.len += 1;
        at += part.chars().count() + 1;
    }
    if out.len < min {
        return Err(fail(
            at.saturating_sub(1),
            format!("fewer than {min} numbers"),
        ));
    }
    Ok(out)
}

/// A framework's version, as far as it is numeric: 2.9 or 2.9.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FrameworkVersion([u16; 4]);

impl Version for FrameworkVersion {
    const WHAT: &'static str = "a framework's version (such as 2.9 or 2.9.1)";
    #[inline]
    fn components(&self) -> Components {
        Components::new(&self.0)
    }
}

impl FromStr for FrameworkVersion {
    type Err = VersionError;
    fn from_str(s: &str) -> Result<Self, VersionError> {
        Ok(Self(numbers(s, Self::WHAT, 1, 4, u16::MAX)?.numbers))
    }
}

impl fmt::Display for FrameworkVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch, _] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// Writes numbers with dots between them, those after the first with at least so many digits. All
/// at once, because each piece that a formatter is given costs more than its digits, and plans are
/// full of versions.
fn write_dotted(
    f: &mut fmt::Formatter<'_>,
    numbers: impl IntoIterator<Item = Option<u16>>,
    digits: usize,
) -> fmt::Result {
    let (mut text, mut end) = ([0; 32], 0);
    for number in numbers.into_iter().flatten() {
        let least = if end == 0 { 1 } else { digits };
        if end > 0 {
            text[end] = b'.';
            end += 1;
        }
        let length = least.max(number.checked_ilog10().map_or(1, |log| log as usize + 1));
        let mut rest = number;
        for digit in text[end..end + length].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        end += length;
    }
    f.write_str(std::str::from_utf8(&text[..end]).unwrap_or_default())
}

/// A compute capability: 9.0 is Hopper. Compilers call it `sm_90`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeCapability {
    /// The major number.
    pub major: u8,
    /// The minor number.
    pub minor: u8,
}

impl ComputeCapability {
    /// The name used by compilers, `sm_90`.
    pub fn sm(self) -> String {
        format!("sm_{}{}", self.major, self.minor)
    }
}

impl Version for ComputeCapability {
    const WHAT: &'static str = "a compute capability (such as 9.0 or sm_90)";
    #[inline]
    fn components(&self) -> Components {
        Components::new(&[self.major.into(), self.minor.into()])
    }
}

impl FromStr for ComputeCapability {
    type Err = VersionError;
    fn from_str(s: &str) -> Result<Self, VersionError> {
        if let Some(digits) = s.strip_prefix("sm_") {
            // The last digit is the minor number: sm_90, sm_103. A letter after it (sm_90a) is a
            // feature set.
            let digits = digits.trim_end_matches(['a', 'f']);
            let split = digits.len().saturating_sub(1);
            if split > 0 && digits.is_char_boundary(split) {
                let dotted = format!("{}.{}", &digits[..split], &digits[split..]);
                if let Ok(n) = numbers(&dotted, Self::WHAT, 2, 2, 99) {
                    return Ok(Self {
                        major: n.get(0) as u8,
                        minor: n.get(1) as u8,
                    });
                }
            }
            let problem = "two or three digits are expected".to_owned();
            return Err(VersionError {
                input: s.to_owned(),
                what: Self::WHAT,
                problem,
                at: 3,
            });
        }
        let n = numbers(s, Self::WHAT, 2, 2, 99)?;
        Ok(Self {
            major: n.get(0) as u8,
            minor: n.get(1) as u8,
        })
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A driver version: 580.159.04 belongs to branch 580. Printed with NVIDIA's leading zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriverVersion {
    /// The branch, 580.
    pub branch: u16,
    /// The release within the branch.
    pub minor: u16,
    /// The third number, which many releases lack.
    pub patch: Option<u16>,
}

impl Version for DriverVersion {
    const WHAT: &'static str = "a driver version (such as 580.95.05)";
    #[inline]
    fn components(&self) -> Components {
        match self.patch {
            Some(patch) => Components::new(&[self.branch, self.minor, patch]),
            None => Components::new(&[self.branch, self.minor]),
        }
    }

    /// `nvidia-driver-580` in Ubuntu's packages, `R580` in NVIDIA's guides.
    fn other_form(text: &str) -> Option<String> {
        let small = text.to_ascii_lowercase();
        let rest = ["nvidia-driver-", "nvidia-", "driver-", "r"]
            .iter()
            .find_map(|prefix| small.strip_prefix(prefix))?;
        Some(rest.to_owned())
    }
}

impl FromStr for DriverVersion {
    type Err = VersionError;
    fn from_str(s: &str) -> Result<Self, VersionError> {
        let n = numbers(s, Self::WHAT, 2, 3, 9999)?;
        Ok(Self {
            branch: n.get(0),
            minor: n.get(1),
            patch: (n.len == 3).then_some(n.get(2)),
        })
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_dotted(f, [Some(self.branch), Some(self.minor), self.patch], 2)
    }
}

/// A CUDA release, 12.8.1; without the last number the series 12.8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CudaVersion {
    /// The major version, the line that libraries are built for.
    pub major: u16,
    /// The minor version; each series has one directory, `cuda-12.8`.
    pub minor: u16,
    /// The update, or the build number up to CUDA 10.
    pub patch: Option<u16>,
}

impl CudaVersion {
    /// The series of this release: 12.8 for 12.8.1.
    pub fn series(self) -> Self {
        Self {
            patch: None,
            ..self
        }
    }

    /// The name of its directory, `cuda-12.8`.
    pub fn directory(self) -> String {
        format!("cuda-{}", self.series())
    }
}

impl Version for CudaVersion {
    const WHAT: &'static str = "a CUDA version (such as 12.8 or 12.8.1)";
    #[inline]
    fn components(&self) -> Components {
        match self.patch {
            Some(patch) => Components::new(&[self.major, self.minor, patch]),
            None => Components::new(&[self.major, self.minor]),
        }
    }

    /// `cu124` in wheels, `cuda12.4` and `cuda-12-4` in packages.
    fn other_form(text: &str) -> Option<String> {
        let small = text.to_ascii_lowercase();
        if let Some(rest) = small.strip_prefix("cuda") {
            return Some(rest.trim_start_matches(['-', '_', ' ']).replace('-', "."));
        }
        let digits = small
            .strip_prefix("cu")
            .filter(|d| d.len() <= 4 && d.bytes().all(|b| b.is_ascii_digit()))?;
        // Up to CUDA 9 the major number has one digit: cu92 is 9.2, and cu12 is 12.
        let major = if digits.starts_with(['6', '7', '8', '9']) {
            1
        } else {
            2
        };
        let (major, minor) = digits.split_at_checked(major)?;
        Some(if minor.is_empty() {
            major.to_owned()
        } else {
            format!("{major}.{minor}")
        })
    }
}

impl FromStr for CudaVersion {
    type Err = VersionError;
    fn from_str(s: &str) -> Result<Self, VersionError> {
        let n = numbers(s, Self::WHAT, 2, 3, 9999)?;
        Ok(Self {
            major: n.get(0),
            minor: n.get(1),
            patch: (n.len == 3).then_some(n.get(2)),
        })
    }
}

impl fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_dotted(f, [Some(self.major), Some(self.minor), self.patch], 1)
    }
}

/// A release of cuDNN or another add-on, 9.10.2.21. Some have only two or three numbers, as cuDNN
/// had before 7.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddOnVersion {
    /// The major version, as in the SONAME (`libcudnn.so.9`).
    pub major: u16,
    /// The minor version.
    pub minor: u16,
    /// The patch level.
    pub patch: Option<u16>,
    /// The build.
    pub build: Option<u16>,
}

impl AddOnVersion {
    /// The first `count` numbers, as in the name of a library file: three in `libcudnn.so.9.10.2`.
    pub fn first(self, numbers: usize) -> String {
        let all = [
            self.major,
            self.minor,
            self.patch.unwrap_or(0),
            self.build.unwrap_or(0),
        ];
        all.iter()
            .take(numbers)
            .map(u16::to_string)
            .collect::<Vec<_>>()
            .join(".")
    }

    /// Whether both are equal, as far as both are given: files name 9.8.0, archives 9.8.0.87.
    pub fn agrees_with(self, other: Self) -> bool {
        (self.major, self.minor) == (other.major, other.minor)
            && [(self.patch, other.patch), (self.build, other.build)]
                .into_iter()
                .all(|(one, other)| one.is_none() || other.is_none() || one == other)
    }

    /// Whether the first three numbers are equal: files and headers have no more.
    pub fn has_files_of(self, other: Self) -> bool {
        self.release() == other.release()
    }

    /// The first three numbers.
    pub fn release(self) -> (u16, u16, u16) {
        (self.major, self.minor, self.patch.unwrap_or(0))
    }
}

impl Version for AddOnVersion {
    const WHAT: &'static str = "a version (such as 9.10.2.21)";
    #[inline]
    fn components(&self) -> Components {
        match (self.patch, self.build) {
            (Some(p), Some(b)) => Components::new(&[self.major, self.minor, p, b]),
            (Some(p), None) => Components::new(&[self.major, self.minor, p]),
            (None, _) => Components::new(&[self.major, self.minor]),
        }
    }
}

impl FromStr for AddOnVersion {
    type Err = VersionError;
    fn from_str(s: &str) -> Result<Self, VersionError> {
        let n = numbers(s, Self::WHAT, 2, 4, 9999)?;
        Ok(Self {
            major: n.get(0),
            minor: n.get(1),
            patch: (n.len > 2).then_some(n.get(2)),
            build: (n.len > 3).then_some(n.get(3)),
        })
    }
}

impl fmt::Display for AddOnVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_dotted(
            f,
            [Some(self.major), Some(self.minor), self.patch, self.build],
            1,
        )
    }
}

/// A string for people, numbers in the compact database: the same value either way.
macro_rules! serde_version {
    ($type:ident, $compact:ty, $to:expr, $from:expr) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                if s.is_human_readable() {
                    return s.collect_str(self);
                }
                let to: fn(&$type) -> $compact = $to;
                to(self).serialize(s)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                if d.is_human_readable() {
                    return String::deserialize(d)?.parse().map_err(de::Error::custom);
                }
                let from: fn($compact) -> $type = $from;
                Ok(from(<$compact>::deserialize(d)?))
            }
        }
    };
}

serde_version!(FrameworkVersion, [u16; 4], |v| v.0, FrameworkVersion);
serde_version!(ComputeCapability, (u8, u8), |v| (v.major, v.minor), |(
    major,
    minor,
)| {
    ComputeCapability { major, minor }
});
serde_version!(
    DriverVersion,
    (u16, u16, Option<u16>),
    |v| (v.branch, v.minor, v.patch),
    |(branch, minor, patch)| {
        DriverVersion {
            branch,
            minor,
            patch,
        }
    }
);
serde_version!(
    CudaVersion,
    (u16, u16, Option<u16>),
    |v| (v.major, v.minor, v.patch),
    |(major, minor, patch)| {
        CudaVersion {
            major,
            minor,
            patch,
        }
    }
);
serde_version!(
    AddOnVersion,
    (u16, u16, Option<u16>, Option<u16>),
    |v| (v.major, v.minor, v.patch, v.build),
    |(major, minor, patch, build)| {
        AddOnVersion {
            major,
            minor,
            patch,
            build,
        }
    }
);

/// The first two numbers of a version: of a C library, `2.36`, or of a kernel, `6.12.1-amd64`.
pub fn dotted(version: &str) -> (u32, u32) {
    let mut numbers = version
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|n| n.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round<V: FromStr<Err = VersionError> + fmt::Display>(text: &str) {
        assert_eq!(
            text.parse::<V>().map(|v| v.to_string()),
            Ok(text.to_owned())
        );
    }

    #[test]
    fn versions_print_as_nvidia_writes_them() {
        for v in [
            "580.95.05",
            "595.84",
            "390.157",
            "352.09",
            "470.256.02",
            "450.51",
        ] {
            round::<DriverVersion>(v);
        }
        for v in ["12.10", "12.8.1", "10.2.89", "8.0.61", "13.0.0"] {
            round::<CudaVersion>(v);
        }
        for v in [
            "9.10.2.21",
            "7.1.3",
            "6.0",
            "9.28.0.42",
            "9999.9999.9999.9999",
        ] {
            round::<AddOnVersion>(v);
        }
        for v in ["9.0", "10.3", "12.1"] {
            round::<ComputeCapability>(v);
        }
    }

    #[test]
    fn order_is_by_number_and_not_by_text() {
        let cc = |s: &str| s.parse::<ComputeCapability>().expect("valid");
        assert!(cc("10.0") > cc("9.0"));
        assert!("12.10".parse::<CudaVersion>().expect("valid") > "12.9.1".parse().expect("valid"));
        assert!(
            "535.104.05".parse::<DriverVersion>().expect("valid")
                > "535.98".parse().expect("valid")
        );
        assert!(
            "9.10.2.21".parse::<AddOnVersion>().expect("valid")
                > "9.9.0.52".parse().expect("valid")
        );
    }

    #[test]
    fn a_compute_capability_has_two_spellings() {
        for (text, want) in [
            ("sm_90", "9.0"),
            ("sm_103", "10.3"),
            ("sm_90a", "9.0"),
            ("8.6", "8.6"),
        ] {
            assert_eq!(
                text.parse::<ComputeCapability>().map(|c| c.to_string()),
                Ok(want.to_owned())
            );
        }
        for text in ["sm_", "sm_9", "sm_x1", "9", "9.0.1", "sm_é"] {
            assert!(text.parse::<ComputeCapability>().is_err(), "{text}");
        }
        assert_eq!(
            "9.0"
                .parse::<ComputeCapability>()
                .map(ComputeCapability::sm),
            Ok("sm_90".to_owned())
        );
    }

    #[test]
    fn an_error_points_at_the_character() {
        for (text, at) in [
            ("", 0),
            ("580.", 4),
            ("580.x5", 4),
            ("580.1.2.3", 7),
            ("58o.1", 2),
            ("99999.1", 0),
            ("580", 3),
        ] {
            assert_eq!(
                text.parse::<DriverVersion>().map_err(|e| e.at),
                Err(at),
                "{text}"
            );
        }
        let error = "12..8"
            .parse::<CudaVersion>()
            .expect_err("malformed")
            .to_string();
        assert!(
            error.ends_with("at character 4\n    12..8\n       ^"),
            "{error}"
        );
    }

    #[test]
    fn the_compact_form_holds_the_same_value() {
        let v: DriverVersion = "580.95.05".parse().expect("valid");
        let bytes = postcard::to_stdvec(&v).expect("serialisable");
        assert_eq!(
            postcard::from_bytes::<DriverVersion>(&bytes).expect("readable"),
            v
        );
        assert_eq!(
            serde_json::to_string(&v).expect("serialisable"),
            "\"580.95.05\""
        );
    }
}
