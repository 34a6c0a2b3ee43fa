//! Version requirements in requests: `12.8` (the series), `12.8.1` (the release), `>=12.4, <13`,
//! `best`, `latest`, `none`. Common notations of other tools are accepted: `v12.4`, `12.x`,
//! `12.4.*`, `==12.4`, `~=12.4`, `^12.4`, `cu124`.

use super::{Components, Version, VersionError, numbers};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// The versions that a user accepts. Only the given numbers are compared: `<13` excludes 13.0,
/// `12.8` accepts 12.8.1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement<V> {
    text: String,
    comparators: Vec<Comparator>,
    version: PhantomData<V>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Comparator {
    operator: Operator,
    than: Components,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Series,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The request for one layer of the stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want<V> {
    /// Not specified: the best fit, preferably what is already installed.
    Best,
    /// The newest that fits, even if an installed version would do.
    Latest,
    /// A version that meets this requirement.
    Meeting(Requirement<V>),
    /// Leave the layer out.
    Nothing,
}

impl<V: Version> Requirement<V> {
    /// Whether `version` meets the requirement.
    #[inline]
    pub fn matches(&self, version: V) -> bool {
        let have = version.components();
        self.comparators.iter().all(|c| c.matches(have.as_slice()))
    }

    /// Whether it is no more than the first numbers of a version: `12`, `12.8`.
    pub fn is_series(&self) -> bool {
        matches!(self.comparators.as_slice(), [only] if only.operator == Operator::Series)
    }
}

impl<V: Version> Want<V> {
    /// Whether exactly this version is requested, with all of its numbers.
    pub fn is_exactly(&self, version: V) -> bool {
        let Self::Meeting(requirement) = self else {
            return false;
        };
        let [only] = requirement.comparators.as_slice() else {
            return false;
        };
        only.operator == Operator::Series && only.than.as_slice() == version.components().as_slice()
    }
}

impl Comparator {
    /// Whether it matches some version with this first number.
    fn matches_some_of(&self, first: u16) -> bool {
        self.than.as_slice().len() > 1 && self.than.get(0) == first || self.matches(&[first])
    }

    #[inline]
    fn matches(&self, have: &[u16]) -> bool {
        // Only as many numbers count as were given; a missing number of the version is 0.
        let than = self.than.as_slice();
        let order = than
            .iter()
            .enumerate()
            .map(|(i, than)| have.get(i).unwrap_or(&0).cmp(than))
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal);
        match self.operator {
            Operator::Series => order.is_eq(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl<V: Version> FromStr for Requirement<V> {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let respelled: Vec<_> = text
            .split(',')
            .map(|piece| respelled::<V>(piece.trim()))
            .collect();
        if respelled.iter().any(Option::is_some) {
            let pieces = text.split(',').zip(respelled);
            let pieces: Vec<_> = pieces
                .map(|(piece, new)| new.unwrap_or_else(|| piece.trim().to_owned()))
                .collect();
            return Self::plain(&pieces.join(", "));
        }
        Self::plain(text)
    }
}

impl<V: Version> Requirement<V> {
    fn plain(text: &str) -> Result<Self, VersionError> {
        let mut comparators = Vec::new();
        let mut start = 0;
        for piece in text.split(',') {
            let lead = piece.chars().take_while(|c| c.is_whitespace()).count();
            comparators.push(comparator::<V>(piece.trim()).map_err(|e| VersionError {
                input: text.to_owned(),
                at: start + lead + e.at,
                ..e
            })?);
            start += piece.chars().count() + 1;
        }
        Ok(Self {
            text: text.to_owned(),
            comparators,
            version: PhantomData,
        })
    }
}

/// The form in which comparisons are printed and stored, for one in the notation of Python, Cargo,
/// npm or package names: `>=12.4, <13` for `^12.4`. None if it already has that form, or is not a
/// comparison.
fn respelled<V: Version>(piece: &str) -> Option<String> {
    const SIGNS: [&str; 9] = ["~=", "==", "~", "^", ">=", "<=", ">", "<", "="];
    let sign = SIGNS
        .into_iter()
        .find(|sign| piece.starts_with(sign))
        .unwrap_or_default();
    let written = piece[sign.len()..].trim();
    let is_series = matches!(sign, "" | "=" | "==");
    let plain = V::other_form(written).unwrap_or_else(|| {
        written
            .strip_prefix(['v', 'V'])
            .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            .unwrap_or(written)
            .to_owned()
    });
    let mut plain = plain.as_str();
    while let Some(rest) = [".x", ".X", ".*"]
        .iter()
        .find_map(|any| plain.strip_suffix(any))
        .filter(|_| is_series)
    {
        plain = rest;
    }
    let given = numbers(plain, V::WHAT, 1, 4, 9998).ok()?;
    let given = given.as_slice();
    match (sign, given.len()) {
        ("~=", 1) => None,
        ("~=", count) => Some(range(plain, &given[..count - 1])),
        ("~" | "^", 1) | ("~", 2) => Some(plain.to_owned()),
        ("~", _) => Some(range(plain, &given[..2])),
        ("^", _) if given[0] == 0 => Some(range(plain, &given[..2])),
        ("^", _) => Some(range(plain, &given[..1])),
        ("==", _) => Some(plain.to_owned()),
        _ if plain == written => None,
        (sign, _) => Some(format!("{sign}{plain}")),
    }
}

/// From a version to below these numbers with the last of them increased by one.
fn range(from: &str, numbers: &[u16]) -> String {
    let (last, before) = numbers.split_last().expect("one number at least");
    let below: Vec<_> = before
        .iter()
        .chain([&(last + 1)])
        .map(u16::to_string)
        .collect();
    format!(">={from}, <{}", below.join("."))
}

fn comparator<V: Version>(piece: &str) -> Result<Comparator, VersionError> {
    const OPERATORS: [(&str, Operator); 5] = [
        (">=", Operator::GreaterOrEqual),
        ("<=", Operator::LessOrEqual),
        (">", Operator::Greater),
        ("<", Operator::Less),
        ("=", Operator::Series),
    ];
    let (sign, operator) = OPERATORS
        .iter()
        .find(|(sign, _)| piece.starts_with(sign))
        .copied()
        .unwrap_or(("", Operator::Series));
    let version = piece[sign.len()..].trim_start();
    let skipped = piece.chars().count() - version.chars().count();
    let than = numbers(version, V::WHAT, 1, 4, 9999).map_err(|e| VersionError {
        at: skipped + e.at,
        ..e
    })?;
    Ok(Comparator { operator, than })
}

impl<V> fmt::Display for Requirement<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<V> Want<V> {
    /// Whether the layer is requested at all.
    pub fn is_wanted(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// Whether the user requested the layer explicitly, so that a result without it is no solution.
    pub fn is_required(&self) -> bool {
        matches!(self, Self::Latest | Self::Meeting(_))
    }
}

impl<V: Version> Want<V> {
    /// Whether some version with this first number may match the request: if not, none does.
    pub fn may_accept(&self, first: u16) -> bool {
        match self {
            Self::Best | Self::Latest => true,
            Self::Meeting(requirement) => requirement
                .comparators
                .iter()
                .all(|c| c.matches_some_of(first)),
            Self::Nothing => false,
        }
    }

    /// Whether `version` matches the request.
    #[inline]
    pub fn accepts(&self, version: V) -> bool {
        match self {
            Self::Best | Self::Latest => true,
            Self::Meeting(requirement) => requirement.matches(version),
            Self::Nothing => false,
        }
    }
}

impl<V: Version> FromStr for Want<V> {
    type Err = VersionError;
    fn from_str(text: &str) -> Result<Self, VersionError> {
        match text {
            "none" => Ok(Self::Nothing),
            "best" => Ok(Self::Best),
            "latest" | "newest" => Ok(Self::Latest),
            _ => Ok(Self::Meeting(text.parse()?)),
        }
    }
}

impl<V> fmt::Display for Want<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Best => f.write_str("best"),
            Self::Latest => f.write_str("latest"),
            Self::Meeting(requirement) => requirement.fmt(f),
            Self::Nothing => f.write_str("none"),
        }
    }
}

impl<V> Serialize for Want<V> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de, V: Version> Deserialize<'de> for Want<V> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::{AddOnVersion, CudaVersion, DriverVersion};

    fn takes(requirement: &str, version: &str) -> bool {
        let requirement: Requirement<CudaVersion> = requirement.parse().expect("valid requirement");
        requirement.matches(version.parse().expect("valid version"))
    }

    #[test]
    fn a_bare_version_is_a_series() {
        assert!(takes("12.8", "12.8.1") && takes("12", "12.8.1") && takes("12.8.1", "12.8.1"));
        assert!(
            !takes("12.8", "12.9.0") && !takes("12.8.1", "12.8.0") && !takes("12.1", "12.10.0")
        );
        let branch: Requirement<DriverVersion> = "580".parse().expect("valid");
        assert!(branch.matches("580.95.05".parse().expect("valid")));
    }

    #[test]
    fn a_range_compares_the_numbers_given() {
        assert!(takes(">=12.4, <13", "12.9.1") && takes(">=12.4,<13", "12.4.0"));
        assert!(!takes(">=12.4, <13", "13.0.0") && !takes(">=12.4, <13", "12.3.2"));
        assert!(takes("<=12.8", "12.8.1") && !takes(">12.8", "12.8.1") && takes(">12.8", "12.9.0"));
    }

    #[test]
    fn a_first_number_says_whether_a_version_may_match() {
        let firsts = |text: &str| {
            let want: Want<CudaVersion> = text.parse().expect("a wish");
            (11..=14)
                .filter(|first| want.may_accept(*first))
                .collect::<Vec<_>>()
        };
        assert_eq!(firsts("best"), [11, 12, 13, 14]);
        assert!(firsts("none").is_empty());
        assert_eq!(firsts("12.8"), [12]);
        assert_eq!(firsts(">12.8"), [12, 13, 14]);
        assert_eq!(firsts(">12, <=13"), [13]);
        assert_eq!(firsts(">=12, <13.1"), [12, 13]);
        assert_eq!(firsts("<13"), [11, 12]);
    }

    #[test]
    fn a_wish_is_read_as_it_is_written() {
        for text in ["best", "latest", "none", "12.8", ">=12.4, <13"] {
            let want: Want<CudaVersion> = text.parse().expect("a wish");
            assert_eq!(want.to_string(), text);
            assert_eq!(want.is_wanted(), text != "none");
        }
        assert!(
            "latest".parse::<Requirement<CudaVersion>>().is_err()
                && "latest, <13".parse::<Want<CudaVersion>>().is_err()
        );
    }

    #[test]
    fn what_is_written_elsewhere_is_understood() {
        for (written, means) in [
            ("v12.4", "12.4"),
            ("V12.4.1", "12.4.1"),
            ("==12.4", "12.4"),
            ("==12.4.*", "12.4"),
            ("12.x", "12"),
            ("12.*", "12"),
            ("12.x.x", "12"),
            ("12.4.X", "12.4"),
            ("~=12.4", ">=12.4, <13"),
            ("~=12.4.1", ">=12.4.1, <12.5"),
            ("~12", "12"),
            ("~12.4", "12.4"),
            ("~12.4.1", ">=12.4.1, <12.5"),
            ("^12", "12"),
            ("^12.4", ">=12.4, <13"),
            (">=v12.4,<13", ">=12.4, <13"),
            ("cu124", "12.4"),
            ("cu118", "11.8"),
            ("cu92", "9.2"),
            ("cu13", "13"),
            (">=cu121", ">=12.1"),
            ("cuda12", "12"),
            ("cuda 12.4", "12.4"),
            ("CUDA-12-4", "12.4"),
        ] {
            let requirement: Requirement<CudaVersion> =
                written.parse().unwrap_or_else(|e| panic!("{written}: {e}"));
            assert_eq!(requirement.to_string(), means, "{written}");
            assert_eq!(
                means.parse(),
                Ok(requirement),
                "{means} is parsed as printed"
            );
        }
        for (written, means) in [
            ("nvidia-driver-580", "580"),
            ("R535", "535"),
            ("580.95.x", "580.95"),
        ] {
            let requirement: Requirement<DriverVersion> =
                written.parse().unwrap_or_else(|e| panic!("{written}: {e}"));
            assert_eq!(requirement.to_string(), means);
        }
        let early: Requirement<AddOnVersion> = "^0.5".parse().expect("valid");
        assert_eq!(early.to_string(), ">=0.5, <0.6");
        assert_eq!("newest".parse(), Ok(Want::<CudaVersion>::Latest));
        for text in [
            "cu",
            "cuda",
            "cu12345",
            "v",
            "vv12",
            "12.x.4",
            "x",
            "*",
            ">=12.x",
            "^",
            "~=",
            "cu9999999999999",
        ] {
            assert!(text.parse::<Requirement<CudaVersion>>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_malformed_range_is_pointed_at() {
        for (text, at) in [
            (">=12.4, <x", 9),
            ("", 0),
            (">=", 2),
            ("12,", 3),
            ("~=12", 0),
            ("~x", 0),
            (">= 12.y", 6),
        ] {
            assert_eq!(
                text.parse::<Requirement<CudaVersion>>().map_err(|e| e.at),
                Err(at),
                "{text}"
            );
        }
    }
}
