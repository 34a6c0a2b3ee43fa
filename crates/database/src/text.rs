//! Texts of the database. Its rows say the same few thousand again and again, and live as long as
//! the process: a text is a pointer, and its copies cost nothing. In compact form the texts are
//! gathered before the rows, which hold their numbers.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A text of the database.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(&'static str);

impl Text {
    /// The text, for as long as the process lives.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.0
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Lists of them can be joined.
impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self.0
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.0
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl AsRef<Path> for Text {
    fn as_ref(&self) -> &Path {
        self.0.as_ref()
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<String> for Text {
    fn eq(&self, other: &String) -> bool {
        self.0 == other
    }
}

impl PartialEq<Text> for String {
    fn eq(&self, other: &Text) -> bool {
        self == other.0
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0.to_owned()
    }
}

/// Keeps one copy of each text, for facts that are read from files.
impl From<&str> for Text {
    fn from(text: &str) -> Self {
        static KEPT: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.get_or_insert_default();
        match kept.get(text) {
            Some(same) => Self(same),
            None => {
                let text: &'static str = text.to_owned().leak();
                kept.insert(text);
                Self(text)
            }
        }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            return to.serialize_str(self.0);
        }
        to.serialize_u32(GATHERED.with_borrow_mut(|texts| texts.number(self.0)))
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if from.is_human_readable() {
            return String::deserialize(from).map(Self::from);
        }
        let number = usize::try_from(u32::deserialize(from)?).unwrap_or(usize::MAX);
        NUMBERED
            .with_borrow(|texts| texts.get(number).copied())
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom("the number of no text"))
    }
}

thread_local! {
    /// The texts of what this thread packs.
    static GATHERED: RefCell<Gathering> = RefCell::default();
    /// The texts of what this thread unpacks, by number.
    static NUMBERED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Texts, each once, in the order in which they were met.
#[derive(Default)]
struct Gathering {
    texts: Vec<&'static str>,
    numbers: HashMap<&'static str, u32>,
}

impl Gathering {
    fn number(&mut self, text: &'static str) -> u32 {
        *self.numbers.entry(text).or_insert_with(|| {
            self.texts.push(text);
            u32::try_from(self.texts.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

/// The texts of packed rows: all of them joined, and the length of each in bytes.
#[derive(Serialize, Deserialize)]
pub(crate) struct Joined {
    all: String,
    lengths: Vec<u32>,
}

/// Packs something, and gathers its texts.
pub(crate) fn gathered<T>(pack: impl FnOnce() -> T) -> (T, Joined) {
    GATHERED.take();
    let packed = pack();
    let texts = GATHERED.take().texts;
    let lengths = texts
        .iter()
        .map(|text| u32::try_from(text.len()).unwrap_or(u32::MAX));
    let joined = Joined {
        all: texts.concat(),
        lengths: lengths.collect(),
    };
    (packed, joined)
}

/// Unpacks something that has these texts.
pub(crate) fn with<T>(texts: Joined, unpack: impl FnOnce() -> T) -> T {
    let mut rest: &'static str = texts.all.leak();
    let mut numbered = Vec::with_capacity(texts.lengths.len());
    for length in texts.lengths {
        let at = usize::try_from(length).unwrap_or(usize::MAX);
        let Some((text, after)) = rest.split_at_checked(at) else {
            break;
        };
        numbered.push(text);
        rest = after;
    }
    NUMBERED.set(numbered);
    let unpacked = unpack();
    NUMBERED.take();
    unpacked
}
