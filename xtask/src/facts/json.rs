//! JSON as strangers publish it: a name that an object has twice is an error, because readers
//! differ on which of the two counts.

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::HashSet;
use std::fmt;

/// A JSON value; the members of an object are in the order of the text.
#[derive(Debug, PartialEq)]
pub enum Json {
    Text(String),
    /// A number that is not negative and has no fraction.
    Number(u64),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
    /// `null`, a truth value, or another number.
    Other,
}

impl Json {
    /// Parses a whole text.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|e| e.to_string())
    }

    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self {
            Some(text)
        } else {
            None
        }
    }

    pub fn list(&self) -> Option<&[Self]> {
        if let Self::List(all) = self {
            Some(all)
        } else {
            None
        }
    }

    pub fn object(&self) -> Option<&[(String, Self)]> {
        if let Self::Object(members) = self {
            Some(members)
        } else {
            None
        }
    }

    /// The member of an object with this name.
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.object()?
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Number(number))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Json, A::Error> {
        let mut all = Vec::new();
        while let Some(value) = sequence.next_element()? {
            all.push(value);
        }
        Ok(Json::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let (mut members, mut seen) = (Vec::new(), HashSet::new());
        while let Some((name, value)) = map.next_entry::<String, Json>()? {
            if !seen.insert(name.clone()) {
                return Err(A::Error::custom(format!("the name {name:?} appears twice")));
            }
            members.push((name, value));
        }
        Ok(Json::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_appears_twice_is_an_error() {
        assert!(Json::parse(r#"{"a": {"b": "1", "b": "2"}}"#).is_err());
        assert!(Json::parse(r#"{"a": "1"} {"a": "2"}"#).is_err());
        assert!(Json::parse(&"[".repeat(10_000)).is_err());
        let json = Json::parse(r#"{"a": ["x", 7, -1, 1.5, null]}"#).expect("JSON");
        let all = [
            Json::Text("x".to_owned()),
            Json::Number(7),
            Json::Other,
            Json::Other,
            Json::Other,
        ];
        assert_eq!(json.get("a").and_then(Json::list), Some(&all[..]));
    }
}
