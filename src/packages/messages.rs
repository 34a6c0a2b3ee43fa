//! What package managers print, by what it means. They share libraries, and with them messages.

/// Nobody can be reached. tdnf also says then that it knows no such package, if a repository may be skipped.
pub const UNREACHABLE: [&str; 7] = [
    "Temporary failure resolving",
    "Could not resolve",
    "Could not connect to",
    "Unable to connect to",
    "Network is unreachable",
    "Curl error",
    "Failed to synchronize cache for repo",
];
/// A mirror does not have what its lists name.
pub const NOT_THERE: [&str; 4] =
    ["Failed to fetch", "Error downloading packages", "Download (curl) error", "No more mirrors to try"];

/// What they say when repositories have not what a transaction needs.
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

/// Whether a text has one of these phrases.
pub fn says(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| text.contains(phrase))
}
