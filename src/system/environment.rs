//! The environment of this process.

use std::ffi::OsString;

/// The value of a variable; none where it is not set, or is no UTF-8.
pub fn variable(name: &str) -> Option<String> {
    raw(name)?.into_string().ok()
}

/// The bytes of a variable; none where it is not set.
pub fn raw(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// All variables that are UTF-8, name and value.
pub fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}
