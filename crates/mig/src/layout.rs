//! A layout: how many instances of each profile a GPU gets, and how people write that.

use super::geometry::{Geometry, Profile};
use std::fmt::Write;

/// The most instances that a layout can have: more fit no GPU.
pub(crate) const MAX_INSTANCES: usize = 32;

/// The number of instances of each profile, in the geometry's order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layout(pub Vec<u8>);

/// Why a text names no layout of a board.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// No profile has this name or id.
    #[error("it has no profile {0:?}")]
    NoProfile(String),
    /// A part of the text is not a profile and a number.
    #[error(
        "{0:?} is not a profile; a list of profiles is expected: 3g.20gb,2g.10gb,1g.5gb or 7x1g.5gb"
    )]
    Word(String),
    /// A placement was given.
    #[error(
        "{0:?} names a placement, which gpusetup chooses; for several instances of one profile write {1}"
    )]
    Placement(String, String),
    /// A compute instance is smaller than its GPU instance.
    #[error(
        "{0:?} is a part of a GPU instance; gpusetup makes one compute instance in each GPU instance"
    )]
    Part(String),
    /// A number of instances is zero.
    #[error("{0:?} is no instance; write none for a GPU without instances")]
    NoInstance(String),
    /// There are too many instances.
    #[error("it names more than {MAX_INSTANCES} instances")]
    TooMany,
}

impl Layout {
    /// Of its profiles, the one that the newest driver branch is needed for, and that branch. None
    /// if every branch offers them, or the driver itself named them.
    pub fn newest_needed<'a>(&self, geometry: &'a Geometry) -> Option<(&'a str, u16)> {
        let each = geometry.profiles.iter().zip(&self.0);
        let used = each.filter(|(_, count)| **count > 0);
        used.filter_map(|(profile, _)| Some((profile.name.as_str(), profile.first_driver_branch?)))
            .max_by_key(|(_, branch)| *branch)
    }

    /// No instances.
    pub(crate) fn empty(geometry: &Geometry) -> Self {
        Self(vec![0; geometry.profiles.len()])
    }

    /// The layout that a text names: `3g.20gb,2g.10gb,1g.5gb`, `7x1g.5gb`, `9,14,19`, or `none`.
    ///
    /// # Errors
    ///
    /// If a part of it is not a profile of the board.
    pub fn read(geometry: &Geometry, text: &str) -> Result<Self, LayoutError> {
        // What is empty may be a variable that nobody set, and would remove every instance.
        if text.trim() == "none" {
            return Ok(Self::empty(geometry));
        }
        let words = text.split(',').map(str::trim);
        let counted = words.map(|word| {
            let (count, name) = counted(word);
            if count == 0 {
                Err(LayoutError::NoInstance(shown(word)))
            } else {
                Ok((name, count))
            }
        });
        Self::counted(geometry, counted.collect::<Result<Vec<_>, _>>()?)
    }

    /// The layout with these numbers of instances.
    ///
    /// # Errors
    ///
    /// If one of the names is not a profile of the board.
    pub fn counted<'a>(
        geometry: &Geometry,
        instances: impl IntoIterator<Item = (&'a str, u32)>,
    ) -> Result<Self, LayoutError> {
        let mut layout = Self::empty(geometry);
        for (word, count) in instances {
            let profile = geometry.profile(word).ok_or_else(|| not_a_profile(word))?;
            let sum = u32::from(layout.0[profile]).saturating_add(count);
            layout.0[profile] = u8::try_from(sum).map_err(|_| LayoutError::TooMany)?;
            if layout.instances() > MAX_INSTANCES {
                return Err(LayoutError::TooMany);
            }
        }
        Ok(layout)
    }

    /// The number of instances.
    pub fn instances(&self) -> usize {
        self.0.iter().map(|count| usize::from(*count)).sum()
    }

    /// The profiles that it has instances of, the largest first, with their numbers.
    pub(crate) fn profiles<'a>(&self, geometry: &'a Geometry) -> Vec<(usize, &'a Profile, u8)> {
        let all = geometry.profiles.iter().zip(&self.0).enumerate();
        let mut all: Vec<_> = all
            .filter(|(_, (_, n))| **n > 0)
            .map(|(at, (p, n))| (at, p, *n))
            .collect();
        all.sort_by_key(|(at, p, _)| {
            (std::cmp::Reverse((p.compute_slices, p.placement.size)), *at)
        });
        all
    }

    /// As people write it: `3g.20gb,2x2g.10gb`; `none` without instances.
    pub fn text(&self, geometry: &Geometry) -> String {
        let mut out = String::new();
        for (_, profile, count) in self.profiles(geometry) {
            let comma = if out.is_empty() { "" } else { "," };
            let times = if count > 1 {
                format!("{count}x")
            } else {
                String::new()
            };
            let _ = write!(out, "{comma}{times}{}", profile.name);
        }
        if out.is_empty() {
            "none".to_owned()
        } else {
            out
        }
    }
}

/// The number before or after a word: `7x1g.5gb`, `1g.5gbx7`.
fn counted(word: &str) -> (u32, &str) {
    if let Some((count, name)) = word.split_once(['x', '*'])
        && let Some(count) = number(count)
    {
        return (count, name.trim());
    }
    if let Some((name, count)) = word.rsplit_once(['x', '*'])
        && let Some(count) = number(count)
    {
        return (count, name.trim());
    }
    (1, word)
}

/// More than fit a number are too many in any case.
fn number(text: &str) -> Option<u32> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u32::MAX))
}

/// As much of a word as a message repeats.
fn shown(word: &str) -> String {
    word.chars().take(40).collect()
}

fn not_a_profile(word: &str) -> LayoutError {
    let shown = shown(word);
    match word.split_once(':') {
        Some((name, count)) if looks_like_profile(name) && count.parse::<u32>().is_ok() => {
            LayoutError::Placement(shown, format!("{count}x{name}"))
        }
        _ if word
            .split_once("c.")
            .is_some_and(|(count, _)| count.parse::<u32>().is_ok()) =>
        {
            LayoutError::Part(shown)
        }
        _ if looks_like_profile(word) => LayoutError::NoProfile(shown),
        _ => LayoutError::Word(shown),
    }
}

/// By its id or its name.
fn looks_like_profile(text: &str) -> bool {
    text.parse::<u32>().is_ok()
        || text.contains("g.") && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}
