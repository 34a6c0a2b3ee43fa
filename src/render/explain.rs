//! A proof, for a person and for programs: the facts, what follows from them, and what would fit
//! instead.

pub mod article;
pub mod paste;

use super::Paint;
use crate::compat::Database;
use crate::ids::Rule;
use crate::resolve::{Conflict, Hint, Premise, Reason, Selection, source_titles, summary};
use crate::text::wrapped;
use crate::translation::Translation;
use crate::translation::words::{DOES_NOT_FIT, FITS};
use serde::Serialize;

/// How an explanation looks.
#[derive(Debug, Clone, Copy)]
pub struct ExplainStyle<'a> {
    /// Colours.
    pub paint: Paint,
    /// With sources, and with symptoms in full.
    pub verbose: bool,
    /// Columns.
    pub width: usize,
    /// The language of what is explained.
    pub language: &'a Translation,
}

/// Yes with its reasons, or no with what excludes it.
pub(crate) type Answer = Result<(Selection, Vec<Reason>), Conflict>;

/// The schema of a proof.
const PROOF: &str = "gpusetup.proof/1";

/// A proof as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Proof<'a> {
    schema: &'static str,
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
    pub(crate) fn of(answer: &'a Answer) -> Self {
        match answer {
            Ok((selection, reasons)) => Self {
                schema: PROOF,
                fits: true,
                selection: Some(selection),
                reasons,
                refusal: None,
                rule: None,
                derivation: &[],
                hints: &[],
            },
            Err(conflict) => Self {
                schema: PROOF,
                fits: false,
                selection: conflict.alternative.as_ref().map(|a| &a.selection),
                reasons: conflict
                    .alternative
                    .as_ref()
                    .map(|a| a.reasons.as_slice())
                    .unwrap_or_default(),
                refusal: Some(&conflict.sentence),
                rule: Some(conflict.rule),
                derivation: &conflict.derivation,
                hints: &conflict.hints,
            },
        }
    }
}

/// The proof in numbered lines, each with where it is published. Reasons are the resolver's: in
/// English, as in a plan.
pub(crate) fn text(
    asked: &str,
    answer: &Answer,
    database: &Database,
    look: ExplainStyle<'_>,
) -> String {
    let ExplainStyle {
        paint,
        width,
        language,
        ..
    } = look;
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
            out += &wrapped(
                "",
                &paint.green(
                    &language.filled(FITS, &[("asked", asked), ("choice", &summary(selection))]),
                ),
                width,
            );
            for reason in reasons {
                say(
                    &mut out,
                    &format!("{}: {}", reason.subject, reason.text),
                    &titles(database, &reason.source),
                );
            }
        }
        Err(conflict) => {
            out += &wrapped(
                "",
                &paint.red(&language.filled(DOES_NOT_FIT, &[("asked", asked)])),
                width,
            );
            for premise in &conflict.derivation {
                say(&mut out, &premise.text, &premise.source);
            }
            out += &wrapped(
                &format!("{}  ", language.word("So")),
                &conflict.sentence,
                width,
            );
            if let Some(instead) = &conflict.alternative {
                let first = format!("{}  ", language.word("Instead"));
                out += &format!(
                    "\n{}",
                    wrapped(&first, &paint.bold(&summary(&instead.selection)), width)
                );
                for reason in &instead.reasons {
                    say(
                        &mut out,
                        &format!("{}: {}", reason.subject, reason.text),
                        &titles(database, &reason.source),
                    );
                }
            }
            for hint in &conflict.hints {
                out += &wrapped(
                    &format!("{}  ", language.word("Hint")),
                    &hint.to_string(),
                    width,
                );
            }
        }
    }
    out
}

fn titles(database: &Database, ids: &str) -> String {
    source_titles(database, &ids.split(", ").collect::<Vec<_>>())
}
