//! Messages of package managers, grouped by meaning. The managers share libraries, and so they
//! share messages.

/// No server can be reached. If a repository may be skipped, tdnf then also reports unknown
/// packages.
pub const UNREACHABLE: [&str; 7] = [
    "Temporary failure resolving",
    "Could not resolve",
    "Could not connect to",
    "Unable to connect to",
    "Network is unreachable",
    "Curl error",
    "Failed to synchronize cache for repo",
];
/// A mirror lacks files that its lists name.
pub const NOT_THERE: [&str; 4] = [
    "Failed to fetch",
    "Error downloading packages",
    "Download (curl) error",
    "No more mirrors to try",
];

/// The repositories lack packages that a transaction needs.
pub const LACKING: [&str; 9] = [
    "Unable to locate package",
    "has no installation candidate",
    "unmet dependencies",
    "No match for argument",
    "nothing provides",
    "Unable to find a match",
    "No provider of",
    "not found in package names",
    "package not found or not installed",
];

/// Whether a text contains one of these phrases.
pub fn says(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| text.contains(phrase))
}
