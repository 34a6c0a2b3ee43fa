//! How results look: text for people, scripts, progress. Made from the values that JSON is made
//! from, so that the two cannot disagree; nothing is decided here.

pub mod cloud_init;
pub mod container;
pub mod db;
pub mod doctor;
pub mod explain;
pub mod facts;
pub mod gpus;
pub mod gres;
pub mod listing;
pub mod matrix;
pub mod mig;
pub mod plan;
pub mod progress;
pub mod prometheus;
pub mod python;
pub mod report;
pub mod script;
pub mod toolkit_shell;

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// With colours, or without.
    pub fn new(on: bool) -> Self {
        Self { on }
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// A heading.
    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// What matters less.
    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    /// What is well.
    pub(crate) fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    /// What needs an eye.
    pub(crate) fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    /// What is wrong.
    pub(crate) fn red(self, text: &str) -> String {
        self.with("31", text)
    }
}

/// Text as it may stand in an element of HTML or an attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
