//! The files that name a manager's repositories.

/// Files of a manager's configuration, and what is read from their text: the enabled repositories, each a line.
#[derive(Debug)]
pub struct Repositories {
    /// A file, or a folder of files.
    pub path: &'static str,
    /// How the names of the folder's files end; none for a file.
    pub ending: Option<&'static str>,
    /// The lines of a text. For apt one a component, `ADDRESS SUITE COMPONENT`; for others `ADDRESS ID`, with the variables in the
    /// address left as they are.
    pub read: fn(&str) -> Vec<String>,
}
