//! A table of the database.

use crate::compact;
use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

/// The rows of a kind of fact. Those that a build put into the program are decoded when they are
/// first read: a command reads few tables, and decoding all takes longer than a plan.
#[derive(Clone)]
pub struct Table<Row> {
    rows: OnceLock<Vec<Row>>,
    /// The rows in compact form, for [`Self::rows`] that are not decoded yet.
    packed: &'static [u8],
}

impl<Row> From<Vec<Row>> for Table<Row> {
    fn from(rows: Vec<Row>) -> Self {
        Self {
            rows: OnceLock::from(rows),
            packed: &[],
        }
    }
}

impl<Row: DeserializeOwned> Deref for Table<Row> {
    type Target = Vec<Row>;

    fn deref(&self) -> &Vec<Row> {
        self.rows.get_or_init(|| compact::built_in(self.packed))
    }
}

impl<Row: DeserializeOwned> DerefMut for Table<Row> {
    #[allow(clippy::expect_used)]
    fn deref_mut(&mut self) -> &mut Vec<Row> {
        self.len();
        self.rows.get_mut().expect("counting decodes them")
    }
}

impl<'a, Row: DeserializeOwned> IntoIterator for &'a Table<Row> {
    type Item = &'a Row;
    type IntoIter = std::slice::Iter<'a, Row>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<Row: DeserializeOwned + PartialEq> PartialEq for Table<Row> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<Row: DeserializeOwned + fmt::Debug> fmt::Debug for Table<Row> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&**self).finish()
    }
}

impl<Row: DeserializeOwned + Serialize> Serialize for Table<Row> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let packed = compact::pack(&**self).map_err(ser::Error::custom)?;
        to.serialize_bytes(&packed)
    }
}

impl<'de: 'static, Row> Deserialize<'de> for Table<Row> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_bytes(Packed(PhantomData))
    }
}

/// Takes the rows as they are.
struct Packed<Row>(PhantomData<Row>);

impl<'de: 'static, Row> Visitor<'de> for Packed<Row> {
    type Value = Table<Row>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a packed table")
    }

    fn visit_borrowed_bytes<E: de::Error>(self, packed: &'de [u8]) -> Result<Table<Row>, E> {
        Ok(Table {
            rows: OnceLock::new(),
            packed,
        })
    }
}
