//! The facts that a proof is made of, each with its source.

use gpusetup_database::compat::Database;
use serde::Serialize;

/// A fact that a refusal is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Premise {
    /// The fact, in a sentence.
    pub text: String,
    /// Where it is published, or `this host` or `the request`.
    pub source: String,
}

pub(super) const HOST: &str = "facts of the host";
pub(super) const ASKED: &str = "the request";
pub(super) const DATABASE: &str = "the database";

pub(super) fn fact(text: impl Into<String>, source: impl Into<String>) -> Premise {
    Premise {
        text: text.into(),
        source: source.into(),
    }
}

/// Two facts that exclude each other: what was requested, and what the host lacks for it.
pub(crate) fn request_and_host(asked: &str, lacking: &str) -> Vec<Premise> {
    vec![fact(asked, ASKED), fact(lacking, HOST)]
}

/// The titles of the first two sources, and how many more there are.
pub fn source_titles(database: &Database, ids: &[impl AsRef<str>]) -> String {
    let mut named: Vec<_> = ids
        .iter()
        .filter_map(|id| database.source(id.as_ref()))
        .take(2)
        .map(|source| source.title.clone())
        .collect();
    if ids.len() > named.len() && !named.is_empty() {
        named.push(format!("{} more", ids.len() - named.len()));
    }
    named.join("; ")
}
