//! Short names for rows of the database, used by users and files. They are checked when parsed, and
//! small enough to be copied.

/// Defines a name of at most `most` letters, digits and the characters in `also`.
macro_rules! short_name {
    (
        $(#[$about:meta])*
        $name:ident: most $most:literal, also $also:literal, pattern $pattern:literal, described $described:literal;
        $(#[$of_error:meta])*
        $error:ident: $message:literal
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            /// ASCII, padded with zeroes.
            name: [u8; Self::MAX_LENGTH],
        }

        impl $name {
            /// The maximum length.
            pub const MAX_LENGTH: usize = $most;

            /// A name as a constant, where one is needed.
            #[allow(dead_code)]
            const fn of<const LENGTH: usize>(letters: &[u8; LENGTH]) -> Self {
                let mut name = [0; Self::MAX_LENGTH];
                let mut at = 0;
                while at < LENGTH {
                    name[at] = letters[at];
                    at += 1;
                }
                Self { name }
            }

            /// The name as a string.
            pub fn as_str(&self) -> &str {
                let length = self.name.iter().position(|byte| *byte == 0).unwrap_or(Self::MAX_LENGTH);
                std::str::from_utf8(&self.name[..length]).unwrap_or_default()
            }
        }

        $(#[$of_error])*
        #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
        #[error($message)]
        pub struct $error(String);

        impl std::str::FromStr for $name {
            type Err = $error;
            fn from_str(text: &str) -> Result<Self, $error> {
                let is_name = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || $also.contains(&b));
                if !is_name || text.is_empty() || text.len() > Self::MAX_LENGTH {
                    return Err($error(text.to_owned()));
                }
                let mut name = [0; Self::MAX_LENGTH];
                name[..text.len()].copy_from_slice(text.as_bytes());
                Ok(Self { name })
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(self.as_str())
            }
        }

        #[cfg(feature = "schemas")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "pattern": $pattern, "description": $described})
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(super) use short_name;
