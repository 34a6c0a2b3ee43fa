//! The files that name a manager's repositories.

/// Configuration files of a manager, and how their enabled repositories are read, each as a line.
#[derive(Debug)]
pub struct Repositories {
    /// A file, or a folder of files.
    pub path: &'static str,
    /// The suffix of the folder's files; none for a file.
    pub ending: Option<&'static str>,
    /// Reads a file's text. For apt, one line per component: `URL SUITE COMPONENT`; for others `URL
    /// ID`, with variables in the URL unchanged.
    pub read: fn(&str) -> Vec<String>,
}
