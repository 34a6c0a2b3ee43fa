//! What `explain` knows besides checks, exit codes and facts: terms of the field, error codes,
//! options and files. The rows of `explain/subjects.yaml`.

use crate::yaml;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// What people call it, the usual name first. Case, blanks, hyphens and underscores make no
    /// difference.
    pub names: Vec<String>,
    /// A title of at most 60 characters.
    pub title: String,
    /// What it is, in sentences.
    pub means: String,
    /// What usually causes it, of an error.
    #[serde(default)]
    pub causes: Option<String>,
    /// What to do, in a sentence.
    #[serde(default, rename = "do")]
    pub remedy: Option<String>,
    /// Commands to paste.
    #[serde(default)]
    pub run: Vec<String>,
    /// Names of related subjects.
    #[serde(default)]
    pub see: Vec<String>,
    /// Addresses.
    pub sources: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    subjects: Vec<Subject>,
}

/// The subjects of the file's text.
///
/// # Errors
///
/// If it does not have the shape of subjects, two have one name, or a related one does not exist.
pub fn parse(text: &str) -> Result<Vec<Subject>, String> {
    let File { subjects } = yaml::read(text).map_err(|e| e.to_string())?;
    let mut names = BTreeSet::new();
    let mut wrong = String::new();
    for subject in &subjects {
        let name = subject.names.first().map_or("", String::as_str);
        if name.is_empty() {
            wrong += &format!("the subject {} has no name\n", subject.title);
        }
        if subject.sources.is_empty() {
            wrong += &format!("the subject {name} has no source\n");
        }
        for name in subject.names.iter().filter(|name| !names.insert(key(name))) {
            wrong += &format!("two subjects are called {name}\n");
        }
    }
    for subject in &subjects {
        for other in subject
            .see
            .iter()
            .filter(|other| !names.contains(&key(other)))
        {
            wrong += &format!(
                "the subject {} refers to {other}, which is none\n",
                subject.names[0]
            );
        }
    }
    if wrong.is_empty() {
        Ok(subjects)
    } else {
        Err(wrong)
    }
}

/// The form of a name that is compared.
pub fn key(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, ' ' | '-' | '_'))
        .flat_map(char::to_lowercase)
        .collect()
}

/// The subject of a name.
pub fn find<'a>(subjects: &'a [Subject], name: &str) -> Option<&'a Subject> {
    let wanted = key(name);
    subjects
        .iter()
        .find(|subject| subject.names.iter().any(|name| key(name) == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_several_names() {
        let text = "subjects:\n  - {names: [open-modules, \"open kernel modules\"], title: T, means: M., sources: [\"https://x\"]}\n";
        let all = parse(text).expect("it is sound");
        for name in ["open modules", "Open-Modules", "open_kernel_modules"] {
            assert!(find(&all, name).is_some(), "{name}");
        }
        assert!(find(&all, "modules").is_none());
        assert!(
            parse(&text.replace("T, ", "T, see: [x], "))
                .expect_err("it is wrong")
                .contains("refers to x")
        );
        assert!(
            parse(&text.replace("\"https://x\"", ""))
                .expect_err("it is wrong")
                .contains("no source")
        );
        assert!(
            parse(&text.replace("open kernel modules", "open modules"))
                .expect_err("it is wrong")
                .contains("two subjects")
        );
    }
}
