//! Why a command line cannot be translated.

/// Why a command line cannot be translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// In a sentence.
    pub says: String,
    /// What would help.
    pub hint: Option<String>,
    /// A command that would help.
    pub attempt: Option<String>,
}

impl Unreadable {
    /// For this reason.
    pub fn new(says: impl Into<String>) -> Self {
        Self { says: says.into(), hint: None, attempt: None }
    }

    /// With something that would help.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}
