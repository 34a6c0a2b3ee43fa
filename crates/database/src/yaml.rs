//! YAML files of facts as values of Rust types. A file is first read into nodes that know their
//! place, and the types are made from these: with the reader's own machinery in each of two hundred
//! types, the program would be a megabyte larger.

mod plain;

use plain::plainly;
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer,
    MapAccess, SeqAccess, Visitor,
};
use serde_yaml::{Location, MergeKeyPolicy, Options, Spanned};
use std::fmt;

/// Reads a type from YAML. What could be a number or a truth value and is meant as text must be
/// quoted: YAML reads the version 12.10 as the number 12.1.
///
/// # Errors
///
/// If the text is not YAML, or does not have the type's shape.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Mistake> {
    let options = serde_yaml::options! { with_snippet: false };
    T::deserialize(node(text, options)?).map_err(|unfit| unfit.mistake(text))
}

/// Reads a type that has no numbers or truth values from a file of another program: an unquoted
/// 12.10 is the text `12.10`.
///
/// # Errors
///
/// If the text is not YAML, or does not have the type's shape.
pub fn read_texts<T: DeserializeOwned>(text: &str) -> Result<T, Mistake> {
    // Reading takes time by the length of a stranger's file: aliases stand for no more than such a
    // file could say itself, and none are merged, which takes several times as long. Otherwise a
    // few hundred bytes take a second.
    let most = text.len().min(1_000_000);
    let options = serde_yaml::options! {
        with_snippet: false,
        merge_keys: MergeKeyPolicy::Error,
        alias_limits: serde_yaml::alias_limits! { max_total_replayed_events: most },
        budget: serde_yaml::budget! { max_recorded_anchor_events: most },
    };
    T::deserialize(node(text, options)?.with_words(text)).map_err(|unfit| unfit.mistake(text))
}

fn node(text: &str, options: Options) -> Result<Node, Mistake> {
    serde_yaml::from_str_with_options(text, options).map_err(|e| Mistake::of_syntax(&e))
}

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at line {line}, column {column}")]
pub struct Mistake {
    /// The line, from 1; 0 for the whole file.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// What is wrong, without the place.
    pub problem: String,
}

impl Mistake {
    fn of_syntax(error: &serde_yaml::Error) -> Self {
        let (line, column) = error
            .location()
            .map_or((0, 0), |at| (at.line(), at.column()));
        let text = error.to_string();
        let problem = text
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("error: ");
        // The rest names an option of the library.
        if let Some(key) = problem.strip_prefix("duplicate mapping key: ") {
            let key = key.split(", set ").next().unwrap_or(key);
            return Self {
                line,
                column,
                problem: format!("the key `{key}` is there twice (a duplicate)"),
            };
        }
        Self {
            line,
            column,
            problem: plainly(&problem.replace(&format!(" at line {line}, column {column}"), "")),
        }
    }
}

/// Why a node is not of a type's shape.
#[derive(Debug)]
struct Unfit {
    /// The innermost node that it concerns.
    place: Option<Location>,
    /// None for a text that must be quoted.
    problem: Option<String>,
}

impl Unfit {
    fn at(self, place: Location) -> Self {
        Self {
            place: self.place.or(Some(place)),
            ..self
        }
    }

    fn mistake(self, text: &str) -> Mistake {
        let Some(place) = self.place else {
            return Mistake {
                line: 0,
                column: 0,
                problem: plainly(&self.problem.unwrap_or_default()),
            };
        };
        let problem = self.problem.map_or_else(
            || format!("`{}` must be quoted", written(text, place)),
            |reason| plainly(&reason),
        );
        Mistake {
            line: place.line(),
            column: place.column(),
            problem,
        }
    }
}

/// What the file has at the place of a number or truth value.
fn written(text: &str, place: Location) -> &str {
    range(place)
        .and_then(|range| text.get(range))
        .unwrap_or_default()
        .trim()
}

fn range(place: Location) -> Option<std::ops::Range<usize>> {
    let from = usize::try_from(place.span().byte_offset()?).ok()?;
    Some(from..from + usize::try_from(place.span().byte_len()?).ok()?)
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.problem.as_deref().unwrap_or("must be quoted"))
    }
}

impl std::error::Error for Unfit {}

impl serde::de::Error for Unfit {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self {
            place: None,
            problem: Some(problem.to_string()),
        }
    }
}

/// A value of a file with its place.
struct Node {
    place: Location,
    value: Value,
}

enum Value {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

impl Node {
    /// With the file's own words for numbers and truth values.
    fn with_words(self, text: &str) -> Self {
        let Self { place, value } = self;
        let value = match value {
            Value::Bool(_) | Value::Unsigned(_) | Value::Signed(_) | Value::Float(_) => {
                Value::Text(written(text, place).to_owned())
            }
            Value::List(nodes) => Value::List(
                nodes
                    .into_iter()
                    .map(|node| node.with_words(text))
                    .collect(),
            ),
            Value::Map(entries) => Value::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| (key.with_words(text), value.with_words(text)))
                    .collect(),
            ),
            Value::Null | Value::Text(_) => value,
        };
        Self { place, value }
    }

    /// The refusal of another shape.
    fn is_not(&self, expected: &str) -> Unfit {
        let found = match self.value {
            Value::Null => "nothing",
            Value::Bool(_)
            | Value::Unsigned(_)
            | Value::Signed(_)
            | Value::Float(_)
            | Value::Text(_) => "a single value",
            Value::List(_) => "a list",
            Value::Map(_) => "names with values",
        };
        Unfit {
            place: Some(self.place),
            problem: Some(format!("expected {expected} here, found {found}")),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Of an alias, the place that it stands for.
        let Spanned { value, defined, .. } = Spanned::deserialize(deserializer)?;
        Ok(Self {
            place: defined,
            value,
        })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyValue;
        impl<'de> Visitor<'de> for AnyValue {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(Value::Bool(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
                Ok(Value::Unsigned(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
                Ok(Value::Signed(value))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
                Ok(Value::Float(value))
            }

            fn visit_str<E>(self, value: &str) -> Result<Value, E> {
                Ok(Value::Text(value.to_owned()))
            }

            fn visit_string<E>(self, value: String) -> Result<Value, E> {
                Ok(Value::Text(value))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
                let mut nodes = Vec::new();
                while let Some(node) = list.next_element()? {
                    nodes.push(node);
                }
                Ok(Value::List(nodes))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Value::Map(entries))
            }
        }
        deserializer.deserialize_any(AnyValue)
    }
}

/// What a list or a map has; an error in an entry gets that entry's place.
struct Entries<T> {
    rest: std::vec::IntoIter<T>,
    /// The value of the key that was read last.
    value: Option<Node>,
}

impl<T> Entries<T> {
    fn of(all: Vec<T>) -> Self {
        Self {
            rest: all.into_iter(),
            value: None,
        }
    }
}

fn at_its_place<'de, S: DeserializeSeed<'de>>(seed: S, node: Node) -> Result<S::Value, Unfit> {
    let place = node.place;
    seed.deserialize(node).map_err(|unfit| unfit.at(place))
}

fn of_map<'de, V: Visitor<'de>>(
    entries: Vec<(Node, Node)>,
    place: Location,
    visitor: V,
) -> Result<V::Value, Unfit> {
    // A key that is missing has no place: the record's last key stands for its end.
    let end = entries.last().map_or(place, |(key, _)| key.place);
    visitor
        .visit_map(Entries::of(entries))
        .map_err(|unfit| unfit.at(end))
}

impl<'de> SeqAccess<'de> for Entries<Node> {
    type Error = Unfit;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Unfit> {
        self.rest
            .next()
            .map(|node| at_its_place(seed, node))
            .transpose()
    }
}

impl<'de> MapAccess<'de> for Entries<(Node, Node)> {
    type Error = Unfit;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Unfit> {
        let Some((key, value)) = self.rest.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        at_its_place(seed, key).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Unfit> {
        let value = self
            .value
            .take()
            .ok_or_else(|| Unfit::custom("a value without a key"))?;
        at_its_place(seed, value)
    }
}

impl<'de> Deserializer<'de> for Node {
    type Error = Unfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unfit> {
        let place = self.place;
        let visited = match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Unsigned(value) => visitor.visit_u64(value),
            Value::Signed(value) => visitor.visit_i64(value),
            Value::Float(value) => visitor.visit_f64(value),
            Value::Text(value) => visitor.visit_string(value),
            Value::List(nodes) => visitor.visit_seq(Entries::of(nodes)),
            Value::Map(entries) => return of_map(entries, place, visitor),
        };
        visited.map_err(|unfit| unfit.at(place))
    }

    // Only what is right for such a type is compiled for each of them.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unfit> {
        let Value::Map(entries) = self.value else {
            return Err(self.is_not("names with values"));
        };
        of_map(entries, self.place, visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unfit> {
        let Value::List(nodes) = self.value else {
            return Err(self.is_not("a list"));
        };
        visitor
            .visit_seq(Entries::of(nodes))
            .map_err(|unfit| unfit.at(self.place))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unfit> {
        match self.value {
            Value::Bool(_) | Value::Unsigned(_) | Value::Signed(_) | Value::Float(_) => {
                Err(Unfit {
                    place: Some(self.place),
                    problem: None,
                })
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unfit> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unfit> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Unfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unfit> {
        let place = self.place;
        let visited = match self.value {
            Value::Text(name) => visitor.visit_enum(name.into_deserializer()),
            Value::Map(entries) if entries.len() == 1 => {
                visitor.visit_enum(MapAccessDeserializer::new(Entries::of(entries)))
            }
            _ => Err(Unfit::custom(
                "a name is expected here, or one key with what belongs to it",
            )),
        };
        visited.map_err(|unfit| unfit.at(place))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct map
        identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Debug, serde::Deserialize, PartialEq)]
    #[serde(deny_unknown_fields, rename_all = "lowercase")]
    struct Row {
        name: String,
        #[serde(default)]
        size: Option<u16>,
        #[serde(default)]
        kinds: BTreeMap<u8, Kind>,
        #[serde(default, deserialize_with = "even")]
        even: u8,
    }

    fn even<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
        let number = u8::deserialize(deserializer)?;
        if number.is_multiple_of(2) {
            Ok(number)
        } else {
            Err(D::Error::custom(format!("{number} is odd")))
        }
    }

    #[derive(Debug, serde::Deserialize, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Plain,
        Other { word: String },
    }

    #[test]
    fn a_file_is_read_into_its_type() {
        let text = "- name: \"12.10\"\n  size: 7\n  kinds: {1: plain, 2: {other: {word: \"no\"}}}\n- {name: x, size: }\n";
        let rows: Vec<Row> = read(text).expect("it is sound");
        let kinds = [
            (1, Kind::Plain),
            (
                2,
                Kind::Other {
                    word: "no".to_owned(),
                },
            ),
        ];
        assert_eq!(
            rows[0],
            Row {
                name: "12.10".to_owned(),
                size: Some(7),
                kinds: kinds.into(),
                even: 0
            }
        );
        assert_eq!(
            rows[1],
            Row {
                name: "x".to_owned(),
                size: None,
                kinds: BTreeMap::new(),
                even: 0
            }
        );
    }

    #[test]
    fn another_programs_words_stay_as_they_are() {
        let text = "# é\n12.10: [no, 1.10, \"x\", 0o7]\n? 7\n: [~]\n";
        let read: BTreeMap<String, Vec<Option<String>>> = read_texts(text).expect("it is sound");
        let words = |all: [&str; 4]| all.map(|word| Some(word.to_owned())).to_vec();
        assert_eq!(read["12.10"], words(["no", "1.10", "x", "0o7"]));
        assert_eq!(read["7"], [None]);
        let aliases = "a: &a [no, 1.10, \"x\"]\nb: *a\nc: [&n 0o7, *n]\n";
        let read: BTreeMap<String, Vec<String>> = read_texts(aliases).expect("it is sound");
        assert_eq!(
            (&read["b"], read["c"].as_slice()),
            (&read["a"], &["0o7".to_owned(), "0o7".to_owned()][..])
        );
    }

    #[test]
    fn a_strangers_aliases_stand_for_no_more_than_its_length() {
        let level = |n: u8| {
            let (this, last) = (char::from(b'a' + n), char::from(b'a' + n - 1));
            format!("{this}: &{this} [{}]\n", format!("*{last},").repeat(10))
        };
        let many =
            "a: &a [1,1,1,1,1,1,1,1,1,1]\n".to_owned() + &(1..4).map(level).collect::<String>();
        assert!(read_texts::<serde::de::IgnoredAny>(&many).is_err());
        let nested = format!(
            "{}{}{}",
            "&x [".repeat(20),
            "1,".repeat(100),
            "]".repeat(20)
        );
        assert!(read_texts::<serde::de::IgnoredAny>(&nested).is_err());
        let merged = "a: &a {b: c, d: e}\nf: {<<: *a}\n";
        assert!(read_texts::<serde::de::IgnoredAny>(merged).is_err());
        assert!(
            [&many, &nested, merged]
                .iter()
                .all(|text| read::<serde::de::IgnoredAny>(text).is_ok())
        );
    }

    #[test]
    fn a_mistake_has_its_place() {
        for (text, line, column, problem) in [
            ("- name: x\n  size: 70000\n", 2, 9, "70000"),
            ("- name: 12.10\n", 1, 9, "`12.10` must be quoted"),
            ("- name: no\n", 1, 9, "`no` must be quoted"),
            (
                "- {name: x, kinds: {1: {other: {word: 7}}}}\n",
                1,
                39,
                "`7` must be quoted",
            ),
            (
                "- name: x\n  sise: 7\n",
                2,
                3,
                "no key `sise`; the keys are: name, size",
            ),
            (
                "- size: 7\n  kinds: {}\n",
                2,
                3,
                "the key `name` is missing",
            ),
            (
                "- {name: x, kinds: {1: odd}}\n",
                1,
                24,
                "unknown variant `odd`",
            ),
            (
                "- {name: x, kinds: {1: {plain: 1, other: 2}}}\n",
                1,
                24,
                "one key",
            ),
            ("- name: x\n  name: y\n", 2, 3, "duplicate"),
            ("- {name: x, even: 7, size: 1}\n", 1, 19, "7 is odd"),
            (
                "- 7\n",
                1,
                3,
                "expected names with values here, found a single value",
            ),
            (
                "name: x\n",
                1,
                1,
                "expected a list here, found names with values",
            ),
            ("- name: [x\n", 1, 9, "bracket"),
        ] {
            let mistake = read::<Vec<Row>>(text).expect_err(text);
            assert!(mistake.problem.contains(problem), "{text}: {mistake}");
            assert_eq!(
                (mistake.line, mistake.column),
                (line, column),
                "{text}: {mistake}"
            );
        }
    }
}
