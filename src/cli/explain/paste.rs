//! `gpusetup explain -`: what a text says that a person would paste into a search engine, and what
//! this host says to that.

use super::{Options, smi};
use crate::cli::Problem;
use crate::cli::host::{look, system};
use crate::compat::Database;
use crate::doctor::{EvidenceSources, Finding, examine, gather, sxids, xids};
use crate::error_code::ErrorCode;
use crate::exit::Exit;
use crate::ids::CheckId;
use crate::recognise::{NamedError, Recogniser, named_errors};
use crate::render::explain::paste::{Explained, ExplainedError, Logged, PasteReport, text};
use crate::smi::tables;
use crate::text::{counted, without_escapes};
use crate::translation::Translation;
use gpusetup_data::{error_codes, messages};
use std::collections::{BTreeMap, BTreeSet};

/// The most different tables of nvidia-smi that are explained: those of a log say the same.
const MAX_TABLES: usize = 4;

/// Explains a text, and prints what was found; exit 0 also if nothing in it is known.
pub(crate) fn run(
    pasted: &str,
    options: &Options,
    language: &Translation,
) -> Result<Exit, Problem> {
    let report = examined(pasted, options, language)?;
    let report = match &options.host.root {
        Some(root) => report.for_root(root),
        None => report,
    };
    if options.look.json {
        crate::cli::print_json(&report)?;
    } else {
        let text = text(&report, options.looks(language));
        crate::cli::print_text(text, options.look.color, options.is_of_this_host())?;
    }
    Ok(Exit::Done)
}

/// Whether a text has a message or an error number that gpusetup knows.
pub(crate) fn recognises(pasted: &str, database: &Database) -> Result<bool, Problem> {
    let messages = messages();
    let recogniser = Recogniser::new(&messages).map_err(|e| Problem::unexpected(e.to_string()))?;
    Ok(!recogniser.find(pasted).is_empty()
        || !xids(pasted).is_empty()
        || !sxids(pasted).is_empty()
        || tables(pasted)
            .iter()
            .any(|table| smi::is_known(table, database))
        || !errors_in(pasted, &error_codes())?.is_empty())
}

fn examined(
    pasted: &str,
    options: &Options,
    language: &Translation,
) -> Result<PasteReport, Problem> {
    // A colour before a word hides it from no search.
    let pasted = &*without_escapes(pasted);
    let database = options.host.database()?;
    let mut messages = messages();
    messages
        .iter_mut()
        .for_each(|message| language.translate_message(message));
    let recogniser = Recogniser::new(&messages).map_err(|e| Problem::unexpected(e.to_string()))?;
    let found = recogniser.find(pasted);
    let checks: BTreeSet<CheckId> = found
        .iter()
        .flat_map(|r| {
            r.message
                .causes
                .iter()
                .flat_map(|cause| cause.checks.iter().filter_map(|id| id.parse().ok()))
        })
        .collect();
    let findings = if checks.is_empty() || !options.host.is_meant() || options.stock.os.is_some() {
        Vec::new()
    } else {
        here(options, database, checks)?
    };
    let mut codes = error_codes();
    let known = messages.len() + codes.len();
    codes
        .iter_mut()
        .for_each(|error| language.translate_error(error));
    let errors = errors_in(pasted, &codes)?;
    // What a message explains is not told twice.
    let explained: BTreeSet<_> = found.iter().map(|recognised| recognised.line).collect();
    let quoted: BTreeSet<_> = explained
        .iter()
        .copied()
        .chain(errors.iter().map(|named| named.line))
        .collect();
    let quoted: BTreeMap<_, _> = (1..)
        .zip(pasted.lines())
        .filter(|(line, _)| quoted.contains(line))
        .collect();
    let line = |number: usize| quoted.get(&number).copied().unwrap_or_default();
    let messages = found
        .iter()
        .map(|recognised| Explained::of(recognised, line(recognised.line), &findings, language));
    let errors = errors
        .iter()
        .filter(|named| !explained.contains(&named.line));
    let errors = errors.map(|named| ExplainedError::of(named, line(named.line)));
    let logged = Logged {
        xids: xids(pasted),
        sxids: sxids(pasted),
    };
    let today = options.request.today();
    let tables = tables(pasted).into_iter();
    let tables = tables.filter(|table| smi::is_known(table, database));
    let mut tables: Vec<_> = tables
        .map(|table| smi::article(&table, database, &today))
        .collect();
    // Those in which something is wrong first; of the others, the last is the newest.
    tables.reverse();
    tables.sort_by_key(|table| !smi::has_findings(table));
    let left_out = tables.len().saturating_sub(MAX_TABLES);
    tables.truncate(MAX_TABLES);
    if left_out > 0
        && let Some(last) = tables.pop()
    {
        let more = counted(left_out as u64, "more table is", "more tables are");
        tables.push(last.with("says", format!("{more} in the text.")));
    }
    Ok(PasteReport::new(
        messages.collect(),
        errors.collect(),
        logged,
        database,
        known,
        language,
    )
    .with_tables(tables))
}

fn errors_in<'a>(pasted: &str, codes: &'a [ErrorCode]) -> Result<Vec<NamedError<'a>>, Problem> {
    named_errors(pasted, codes).map_err(|e| Problem::unexpected(e.to_string()))
}

/// What doctor's checks of these ids find on this host.
fn here(
    options: &Options,
    database: &'static Database,
    checks: BTreeSet<CheckId>,
) -> Result<Vec<Finding>, Problem> {
    let (facts, _) = look(&options.host, database)?;
    let sources = EvidenceSources::default();
    let evidence = gather(
        &system(&options.host),
        database,
        facts,
        &options.host.prefix,
        &sources,
    );
    Ok(examine(evidence, database, &checks.into_iter().collect::<Vec<_>>()).checks)
}
