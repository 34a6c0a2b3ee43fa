//! Test hooks, set in the environment: deaths at a given change, stand-ins for NVIDIA's libraries,
//! shorter limits. They exist only with the feature `test-hooks`, which releases lack and `cargo
//! test` enables.

use std::time::Duration;

/// The value of an environment variable.
#[cfg(feature = "test-hooks")]
pub fn env_override(name: &str) -> Option<String> {
    super::environment::variable(name)
}

/// None, whatever the environment contains.
#[cfg(not(feature = "test-hooks"))]
pub fn env_override(_: &str) -> Option<String> {
    None
}

/// A number of seconds from a variable.
pub fn seconds(name: &str) -> Option<Duration> {
    env_override(name)
        .and_then(|text| text.parse().ok())
        .map(Duration::from_secs)
}

/// A number of milliseconds from a variable.
pub(crate) fn milliseconds(name: &str) -> Option<Duration> {
    env_override(name)
        .and_then(|text| text.parse().ok())
        .map(Duration::from_millis)
}
