//! The environment variables of this process.

use std::ffi::OsString;

/// The value of a variable; none if it is not set or not UTF-8.
pub fn variable(name: &str) -> Option<String> {
    raw(name)?.into_string().ok()
}

/// The bytes of a variable; none if it is not set.
pub fn raw(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The directory in which this process was started; none if it no longer exists.
pub fn current_directory() -> Option<std::path::PathBuf> {
    std::env::current_dir().ok()
}

/// All variables that are UTF-8, as names and values.
pub(crate) fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}
