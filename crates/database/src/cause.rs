//! What `explain` says of an id such as GS101. The rows of `explain/causes.yaml`.

use crate::yaml;
use serde::{Deserialize, Serialize};

/// An id's meaning and remedy, as far as the program does not have them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CauseRow {
    pub id: String,
    /// The problem that the id stands for.
    #[serde(default)]
    pub means: Option<String>,
    /// Which commands detect it, if no check of doctor does.
    #[serde(default)]
    pub only: Option<String>,
    #[serde(default, rename = "do")]
    pub remedy: Option<String>,
    /// Commands to paste, in order.
    #[serde(default)]
    pub run: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    causes: Vec<CauseRow>,
}

/// The rows of the file's text.
///
/// # Errors
///
/// If it does not have their shape, two have one id or one meaning, or a row has commands and does
/// not say what they do.
pub fn parse(text: &str) -> Result<Vec<CauseRow>, String> {
    let File { causes } = yaml::read(text).map_err(|e| e.to_string())?;
    for (n, row) in causes.iter().enumerate() {
        let id = &row.id;
        if causes[..n].iter().any(|other| other.id == *id) {
            return Err(format!("{id} has two rows"));
        }
        if !row.run.is_empty() && row.remedy.is_none() {
            return Err(format!("{id} has commands and does not say what they do"));
        }
        let Some(means) = &row.means else { continue };
        if causes[..n]
            .iter()
            .any(|other| other.means.as_ref() == Some(means))
        {
            return Err(format!("{id} has the meaning of another id"));
        }
        if means.contains("  ") || means.ends_with('.') || means.len() <= 30 {
            return Err(format!("{id}: not the meaning of an id: {means}"));
        }
    }
    Ok(causes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEANS: &str = "a problem that somebody may have with a GPU";

    #[test]
    fn a_row_has_an_id_a_meaning_and_a_remedy() {
        let text = format!(
            "causes:\n  - {{id: GS1, means: {MEANS}, do: wait, run: [sleep 1]}}\n  - id: GS2"
        );
        let rows = parse(&text).expect("rows");
        assert_eq!(rows[0].means.as_deref(), Some(MEANS));
        assert_eq!(rows[0].run, ["sleep 1"]);
        assert_eq!(rows[1].means, None);
    }

    #[test]
    fn rows_that_contradict_each_other_are_refused() {
        for (rows, why) in [
            ("  - id: GS1\n  - id: GS1".to_owned(), "two rows"),
            (
                format!("  - {{id: GS1, means: {MEANS}}}\n  - {{id: GS2, means: {MEANS}}}"),
                "the meaning of another",
            ),
            ("  - {id: GS1, run: [sleep 1]}".to_owned(), "has commands"),
            (
                format!("  - {{id: GS1, means: {MEANS}.}}"),
                "not the meaning",
            ),
            ("  - {id: GS1, fix: it}".to_owned(), "fix"),
        ] {
            let refused = parse(&format!("causes:\n{rows}")).expect_err(why);
            assert!(refused.contains(why), "{refused}");
        }
    }
}
