//! The names of machine architectures.

/// The architecture in facts if nothing shows it.
pub const UNKNOWN_ARCHITECTURE: &str = "unknown";

/// An architecture as `uname -m` prints it, for the names that Debian, Docker and NVIDIA use too.
pub fn machine(arch: &str) -> &str {
    match arch.trim() {
        "amd64" | "x64" | "x86-64" => "x86_64",
        "arm64" | "sbsa" | "armv8" => "aarch64",
        "ppc64el" => "ppc64le",
        other => other,
    }
}
