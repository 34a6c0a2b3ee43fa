//! A proof, for a person and for programs: the facts, what follows from them, and what would fit instead.

pub mod article;
pub mod paste;

use super::Paint;
use crate::compat::Database;
use crate::ids::Rule;
use crate::resolve::{Conflict, Hint, Premise, Reason, Selection, source_titles, summary};
use crate::text::wrapped;
use serde::Serialize;

/// Yes with its reasons, or no with what excludes it.
pub type Answer = Result<(Selection, Vec<Reason>), Conflict>;

/// A proof as JSON.
#[derive(Debug, Serialize)]
pub struct Proof<'a> {
    fits: bool,
    /// What was asked, or what fits instead.
    selection: Option<&'a Selection>,
    reasons: &'a [Reason],
    refusal: Option<&'a str>,
    rule: Option<Rule>,
    derivation: &'a [Premise],
    hints: &'a [Hint],
}

impl<'a> Proof<'a> {
    /// Of an answer.
    pub fn of(answer: &'a Answer) -> Self {
        match answer {
            Ok((selection, reasons)) => Self {
                fits: true,
                selection: Some(selection),
                reasons,
                refusal: None,
                rule: None,
                derivation: &[],
                hints: &[],
            },
            Err(conflict) => Self {
                fits: false,
                selection: conflict.alternative.as_ref().map(|a| &a.selection),
                reasons: conflict.alternative.as_ref().map(|a| a.reasons.as_slice()).unwrap_or_default(),
                refusal: Some(&conflict.sentence),
                rule: Some(conflict.rule),
                derivation: &conflict.derivation,
                hints: &conflict.hints,
            },
        }
    }
}

/// The proof in numbered lines, each with where it is published.
pub fn text(asked: &str, answer: &Answer, database: &Database, paint: Paint, width: usize) -> String {
    let mut out = String::new();
    let mut number = 0;
    let mut say = |out: &mut String, text: &str, source: &str| {
        number += 1;
        *out += &wrapped(&format!("{number:>2}. "), text, width);
        if !source.is_empty() {
            *out += &paint.dim(wrapped("    ", &format!("({source})"), width).trim_end());
            out.push('\n');
        }
    };
    match answer {
        Ok((selection, reasons)) => {
            out += &wrapped("", &paint.green(&format!("{asked} fits: {}", summary(selection))), width);
            for reason in reasons {
                say(&mut out, &format!("{}: {}", reason.subject, reason.text), &titles(database, &reason.source));
            }
        }
        Err(conflict) => {
            out += &wrapped("", &paint.red(&format!("{asked} does not fit.")), width);
            for premise in &conflict.derivation {
                say(&mut out, &premise.text, &premise.source);
            }
            out += &wrapped("So  ", &conflict.sentence, width);
            if let Some(instead) = &conflict.alternative {
                out += &format!("\n{}", wrapped("Instead  ", &paint.bold(&summary(&instead.selection)), width));
                for reason in &instead.reasons {
                    say(&mut out, &format!("{}: {}", reason.subject, reason.text), &titles(database, &reason.source));
                }
            }
            for hint in &conflict.hints {
                out += &wrapped("Hint  ", &hint.to_string(), width);
            }
        }
    }
    out
}

fn titles(database: &Database, ids: &str) -> String {
    source_titles(database, &ids.split(", ").map(str::to_owned).collect::<Vec<_>>())
}
