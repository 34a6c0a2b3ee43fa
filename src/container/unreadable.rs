//! Why a text cannot be translated, and what helps.

use super::request::NoDevice;

/// Why a text cannot be translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// In a sentence.
    pub says: String,
    /// What would help.
    pub hints: Vec<String>,
    /// Commands that would help.
    pub tries: Vec<String>,
}

impl Unreadable {
    /// For this reason.
    pub fn new(says: impl Into<String>) -> Self {
        Self { says: says.into(), hints: Vec::new(), tries: Vec::new() }
    }

    /// With something that would help.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl From<NoDevice> for Unreadable {
    fn from(e: NoDevice) -> Self {
        let unreadable = Self::new(e.to_string());
        if e.0.contains('$') {
            return unreadable.hint("gpusetup does not know the shell's variables: write the value");
        }
        unreadable
    }
}
