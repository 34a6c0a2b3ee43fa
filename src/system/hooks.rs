//! What the tests change of a running gpusetup by its environment: deaths at a given touch, libraries that stand in for
//! NVIDIA's, shorter limits. Only a build with the feature `test-hooks` hears any of it; releases have it off, and `cargo
//! test` has it on.

/// What a variable of the environment says.
#[cfg(feature = "test-hooks")]
pub fn told(name: &str) -> Option<String> {
    super::environment::variable(name)
}

/// Nothing, whatever the environment says.
#[cfg(not(feature = "test-hooks"))]
pub fn told(_: &str) -> Option<String> {
    None
}

/// The seconds that a variable says.
pub fn seconds(name: &str) -> Option<std::time::Duration> {
    told(name).and_then(|text| text.parse().ok()).map(std::time::Duration::from_secs)
}
