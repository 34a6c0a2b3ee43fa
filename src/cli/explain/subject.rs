//! The subjects that `explain` knows by name: checks, exit codes, Xids, GPUs, frameworks, terms and
//! error codes.

use super::{Options, own};
use crate::causes;
use crate::cli::host::{named_gpu, one_gpu};
use crate::cli::{Problem, releases};
use crate::compat::{Bulletin, Database, framework_and_version};
use crate::doctor::CHECKS;
use crate::error_code::{self, ErrorCode};
use crate::exit::{EXITS, Exit};
use crate::host::{Gpu, SpecError, USUAL_ARCHITECTURE, assumed_gpus, machine};
use crate::ids::CheckId;
use crate::language;
use crate::render::db::show::{self as pages, locations};
use crate::render::explain::article::Article;
use crate::render::explain::paste::remedy_of;
use crate::resolve::{TargetGpu, known_gpu};
use crate::subject;
use crate::translation::Translation;
use crate::translation::words;
use gpusetup_data::{error_codes, subjects};
use std::rc::Rc;

/// How many names are suggested for one that is not known.
const MAX_NEAR: usize = 3;

/// The most words of a question about a vulnerability.
const MAX_ASKED: usize = 6;

/// The subjects with releases that have pages, or are refused.
const RELEASED: [&str; 3] = ["driver", "toolkit", "cudnn"];

/// The article about what these words name, in lower case; none if they name nothing.
pub(crate) fn article(
    words: &[&str],
    options: &Options,
    language: &Translation,
) -> Result<Option<Article>, Problem> {
    let name = words.join(" ");
    let known = subjects();
    // Before the kinds: a "gpu instance" is no model of a GPU.
    if let Some(found) = subject::find(&known, &name) {
        return Ok(Some(of_subject(found, language)));
    }
    if let Some(article) = of_kind(words, options, language)? {
        return Ok(Some(article));
    }
    if let Some(found) = error_code::find(&error_codes(), &name) {
        return Ok(Some(of_error(found, language)));
    }
    if let Some(found) = with_version(&known, words) {
        return Ok(Some(of_subject(found, language)));
    }
    let database = options.host.database()?;
    let arch = architecture(options);
    // "flash attention" is flash-attention.
    let framework = match database.framework(&name) {
        None if words.len() > 1 => words.join("-"),
        _ => name.clone(),
    };
    if let Some(article) = pages::framework(database, &framework, Some(&arch), &[], language) {
        let gpus = &options.host.gpu;
        let of_gpus = if gpus.is_empty() {
            Some(article)
        } else {
            let cards = cards(options, database)?;
            pages::framework(database, &framework, Some(&arch), &cards, language)
        };
        return Ok(of_gpus.map(|article| article.for_gpus(gpus)));
    }
    if let Some(problem) = unknown_release(database, &name) {
        return Err(problem);
    }
    if let Some(article) = own::article(&name, language) {
        return Ok(Some(article));
    }
    if let Some(row) = database
        .xids
        .iter()
        .find(|row| row.name.eq_ignore_ascii_case(&name))
    {
        return xid(&row.xid.to_string(), database, language).map(Some);
    }
    if let Some(article) = releases::of_branch(database, &name) {
        return Ok(Some(article));
    }
    // After the rest, since a GPU may be called by a single number.
    if name.len() <= 1 {
        return Ok(None);
    }
    match assumed_gpus(database, &name) {
        Ok(found) => Ok(found
            .first()
            .and_then(|found| page(&name, found, database).ok())),
        Err(
            e
            @ (SpecError::Ambiguous { .. } | SpecError::Family { .. } | SpecError::Foreign { .. }),
        ) => pages::architecture(database, &name)
            .map(Some)
            .ok_or_else(|| named_gpu(&name, &e)),
        Err(_) => Ok(releases::of_system_or_release(database, &name)),
    }
}

/// `kernel 6.8`: the page about kernels.
fn with_version<'a>(known: &'a [subject::Subject], words: &[&str]) -> Option<&'a subject::Subject> {
    let (version, subject) = words.split_last()?;
    let found = subject::find(known, &subject.join(" "))
        .filter(|_| version.starts_with(|c: char| c.is_ascii_digit()))?;
    (!RELEASED.contains(&found.names[0].as_str())).then_some(found)
}

/// The article about what these words name with its kind: `xid 79`, `exit 4`, `gs101`.
fn of_kind(
    words: &[&str],
    options: &Options,
    language: &Translation,
) -> Result<Option<Article>, Problem> {
    let article = match words {
        [id] if id.starts_with("gs") && id[2..].starts_with(|c: char| c.is_ascii_digit()) => {
            check(id, language)
        }
        ["gs", number] if number.bytes().all(|b| b.is_ascii_digit()) => {
            check(&format!("gs{number}"), language)
        }
        ["cve", number] => match vulnerability_in(&format!("cve-{number}")) {
            Some(name) => vulnerability(name, options.host.database()?),
            None => return Ok(None),
        },
        // A question, and not a pasted text.
        few if few.len() <= MAX_ASKED
            && let Some(name) = words.iter().find_map(|word| vulnerability_in(word)) =>
        {
            vulnerability(name, options.host.database()?)
        }
        ["exit" | "exit-code", code] | ["exit", "code", code] => exit(code, language),
        ["xid", number] => xid(number, options.host.database()?, language),
        ["sxid", number] => sxid(number, options.host.database()?, language),
        [joined]
            if let Some(number) = joined
                .strip_prefix("xid")
                .filter(|n| n.parse::<u16>().is_ok()) =>
        {
            xid(number, options.host.database()?, language)
        }
        ["gpu", rest @ ..] if !rest.is_empty() => gpu(&rest.join(" "), options.host.database()?),
        _ => return Ok(None),
    };
    article.map(Some)
}

/// The number of a vulnerability in a word: `CVE-2025-33219`.
fn vulnerability_in(word: &str) -> Option<String> {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let (year, number) = word.strip_prefix("cve-")?.split_once('-')?;
    let are_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let is_one = year.len() == 4 && (4..=8).contains(&number.len());
    (is_one && are_digits(year) && are_digits(number)).then(|| word.to_uppercase())
}

/// What a vulnerability concerns, by its number, and which releases have the fix.
fn vulnerability(name: String, database: &Database) -> Result<Article, Problem> {
    let concerns = |bulletin: &&Bulletin| bulletin.vulnerabilities.contains(&name);
    let Some(bulletin) = database.bulletins.iter().find(concerns) else {
        let problem = Problem::usage(format!(
            "{name} is in none of the {} NVIDIA bulletins that gpusetup knows",
            database.bulletins.len()
        ));
        return Err(problem
            .hint("NVIDIA lists all of them at https://www.nvidia.com/security")
            .attempt("gpusetup doctor  # whether this host lacks fixes that are known"));
    };
    let which = match bulletin.vulnerabilities.len() {
        1 => "The vulnerability in this bulletin.".to_owned(),
        count => format!("One of {count} vulnerabilities in this bulletin."),
    };
    let fixes = bulletin.fixes(database);
    let means = format!("{which} The first releases with the fixes: {fixes}.");
    let mut article = Article::new(name, &bulletin.title).with("means", means);
    article.run = vec!["gpusetup doctor  # whether this host lacks the fix".to_owned()];
    article.see = vec![CheckId::GS513.to_string()];
    article.sources = locations(database, bulletin.source_ids());
    Ok(article)
}

/// The problem with a release that a known framework does not have, as far as the database knows:
/// `torch==99`.
fn unknown_release(database: &Database, name: &str) -> Option<Problem> {
    let (called, version) = framework_and_version(name);
    let version = version.trim_start_matches('=').trim();
    let framework = database
        .framework(called)
        .filter(|_| version.starts_with(|c: char| c.is_ascii_digit()))?;
    let known: Vec<_> = framework
        .releases
        .iter()
        .map(|release| release.version.as_str())
        .collect();
    let problem = Problem::usage(format!("{} {version} is not known", framework.title))
        .hint(format!("known versions: {}", known.join(", ")));
    Some(problem.attempt(format!("gpusetup explain {}", framework.name)))
}

/// The GPUs that are named with --gpu.
fn cards(options: &Options, database: &Database) -> Result<Vec<Rc<TargetGpu>>, Problem> {
    let mut all = Vec::new();
    for spec in &options.host.gpu {
        all.push(Rc::new(known_gpu(database, &one_gpu(database, spec)?)?));
    }
    Ok(all)
}

/// The architecture of the system that is named with --os, or of this machine.
fn architecture(options: &Options) -> String {
    let named = options.stock.os.as_deref().map(|os| {
        os.split_once(':')
            .map_or(USUAL_ARCHITECTURE, |(_, arch)| machine(arch))
    });
    named.unwrap_or(std::env::consts::ARCH).to_owned()
}

/// The article about an error number that could be taken for a version: `cudnn 1002`.
pub(crate) fn numbered(words: &[&str], language: &Translation) -> Option<Article> {
    let [_, number] = words else { return None };
    number.parse::<u32>().ok()?;
    error_code::find(&error_codes(), &words.join(" ")).map(|found| of_error(found, language))
}

/// The problem with a pasted text in which nothing is known.
pub(crate) fn unknown_text(text: &str) -> Problem {
    let known = gpusetup_data::messages().len() + error_codes().len();
    Problem::usage(format!(
        "none of the {known} messages and errors that gpusetup knows is in `{}`",
        short(text)
    ))
    .hint("open an issue at the project with the whole text and the cause, once you know it")
    .attempt("gpusetup doctor  # examines this host itself")
}

/// The first characters of a text that somebody typed or pasted.
fn short(text: &str) -> String {
    const MAX_SHOWN_CHARACTERS: usize = 200;
    match text.char_indices().nth(MAX_SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The problem with words that name nothing.
pub(crate) fn unknown(name: &str, options: &Options, language: &Translation) -> Problem {
    let problem = Problem::usage(format!("cannot explain `{}`", short(name)));
    if name.bytes().all(|b| b.is_ascii_digit()) && !name.is_empty() {
        let kinds = [
            ("error", "an error of CUDA or a library"),
            ("xid", "an error of the driver"),
            ("sxid", "an error of an NVSwitch"),
            ("exit", "an exit code"),
        ];
        let known: Vec<_> = kinds
            .into_iter()
            .filter(|(kind, _)| matches!(article(&[kind, name], options, language), Ok(Some(_))))
            .collect();
        if !known.is_empty() {
            return known.into_iter().fold(problem, |problem, (kind, what)| {
                problem.attempt(format!("gpusetup explain {kind} {name}  # {what}"))
            });
        }
    }
    let known = subjects();
    let key = subject::key(name);
    let errors = error_codes();
    let all = known
        .iter()
        .flat_map(|s| &s.names)
        .chain(errors.iter().flat_map(|e| &e.names))
        .map(String::as_str);
    let mut near: Vec<_> = all
        .map(|other| {
            let distance = strsim::damerau_levenshtein(&key, &subject::key(other));
            (distance, other)
        })
        .filter(|(d, other)| *d <= 1 + other.len() / 5)
        .collect();
    near.sort_unstable();
    if near.is_empty() {
        return problem
            .attempt("gpusetup explain cuda 13.0 --gpu v100  # why a version fits or does not")
            .attempt(format!("gpusetup explain {}  # a check", CheckId::GS201))
            .attempt("dmesg | gpusetup explain -  # any text with an error");
    }
    near.into_iter()
        .take(MAX_NEAR)
        .fold(problem, |problem, (_, other)| {
            problem.attempt(format!("gpusetup explain {other}"))
        })
}

fn of_subject(found: &subject::Subject, language: &Translation) -> Article {
    let mut found = found.clone();
    language.translate_subject(&mut found);
    let subject::Subject {
        names,
        title,
        means,
        causes,
        remedy,
        run,
        see,
        sources,
    } = found;
    let mut article =
        Article::new(names.into_iter().next().unwrap_or_default(), title).with("means", means);
    if let Some(causes) = causes {
        article = article.with("causes", causes);
    }
    (article.remedy, article.run, article.see, article.sources) = (remedy, run, see, sources);
    article
}

fn of_error(found: &ErrorCode, language: &Translation) -> Article {
    let mut found = found.clone();
    language.translate_error(&mut found);
    let name = format!("{} error {}", found.api.title(), found.code);
    let mut article = Article::new(name, found.names.join(", "));
    if let Some(text) = found.text {
        article = article.with("message", text);
    }
    article = article.with("means", found.means);
    let ErrorCode {
        remedy,
        run,
        see,
        api,
        ..
    } = found;
    (article.remedy, article.run, article.see, article.sources) =
        (remedy, run, see, vec![api.source().to_owned()]);
    article
}

/// What plan, apply and doctor mean by an id, and what helps.
fn check(text: &str, language: &Translation) -> Result<Article, Problem> {
    let id: CheckId = text.parse().map_err(|_| {
        Problem::usage(format!("there is no check {}", text.to_uppercase()))
            .attempt("gpusetup doctor --list-checks")
    })?;
    let of = |field: &str, english: &str| {
        language
            .text(&format!("checks.{id}.{field}"), english)
            .to_owned()
    };
    let mut article = Article::new(id.as_str(), of("title", id.title()));
    let cause = causes::all(gpusetup_data::causes())
        .into_iter()
        .find(|cause| cause.id == id);
    let mut remedy = None;
    if let Some(cause) = cause {
        article = article.with("means", of("means", &cause.means));
        if let Some(place) = cause.elsewhere {
            article = article.with("no check", of("elsewhere", &place));
        }
        remedy = cause.remedy;
    }
    if let Some(check) = CHECKS.iter().find(|c| c.id == id) {
        article = article.with("reads", of("reads", check.reads));
        if !check.follows_from.is_empty() {
            let others: Vec<_> = check.follows_from.iter().map(|id| id.as_str()).collect();
            article = article.with(
                "follows",
                language.filled(words::POSSIBLY_FROM, &[("ids", &others.join(", "))]),
            );
        }
        article = article.with("look now", format!("gpusetup doctor {id}"));
    }
    if let Some(remedy) = remedy {
        (article.remedy, article.run) = (Some(of("do", &remedy.text)), remedy.commands);
    }
    Ok(article)
}

fn exit(code: &str, language: &Translation) -> Result<Article, Problem> {
    let found = EXITS.iter().find(|(exit, _)| exit.to_string() == code);
    let (_, meaning) = found.ok_or_else(|| {
        let codes = EXITS
            .map(|(exit, _): (Exit, _)| exit.to_string())
            .join(", ");
        Problem::usage(format!("gpusetup has no exit code {code}; it has {codes}"))
            .attempt("gpusetup explain exit 4")
    })?;
    let name = language.filled(words::EXIT_CODE, &[("code", code)]);
    Ok(Article::new(name, "").with("means", language.text(&format!("exits.{code}"), meaning)))
}

fn xid(number: &str, database: &Database, language: &Translation) -> Result<Article, Problem> {
    let row = number
        .parse()
        .ok()
        .and_then(|number| database.xid(number))
        .ok_or_else(|| {
            Problem::usage(format!("the database has no Xid `{number}`"))
                .hint(format!("NVIDIA's list: {}", causes::xid::CATALOG))
                .attempt("gpusetup explain xid 79")
        })?;
    let means = language.text(&language::of_xid(row.xid), &row.means);
    let mut article = Article::new(format!("Xid {}", row.xid), &row.name).with("means", means);
    match remedy_of(row.xid, row.action, "ADDRESS", language) {
        Some(remedy) => (article.remedy, article.run) = (Some(remedy.text), remedy.commands),
        None => article.remedy = Some(language.word(words::NOTHING_ALONE).to_owned()),
    }
    article = article.with("look now", format!("gpusetup doctor {}", CheckId::GS903));
    article.sources = locations(database, &row.sources);
    Ok(article)
}

/// An error of an NVSwitch.
fn sxid(number: &str, database: &Database, language: &Translation) -> Result<Article, Problem> {
    let found = number
        .parse()
        .ok()
        .and_then(|number| database.sxid(number))
        .ok_or_else(|| {
            Problem::usage(format!("the database has no SXid `{number}`"))
                .attempt("gpusetup explain sxid 12028")
        })?;
    let means = language.word(words::ABOUT_SXIDS);
    let mut article =
        Article::new(format!("SXid {}", found.sxid), &found.name).with("means", means);
    article.run = vec![
        format!("gpusetup doctor {}", CheckId::GS903),
        "journalctl -u nvidia-fabricmanager".to_owned(),
    ];
    article.sources = locations(database, &found.sources);
    Ok(article)
}

fn gpu(name: &str, database: &Database) -> Result<Article, Problem> {
    page(name, &one_gpu(database, name)?, database)
}

fn page(name: &str, gpu: &Gpu, database: &Database) -> Result<Article, Problem> {
    Ok(pages::gpu(database, name, gpu, &known_gpu(database, gpu)?))
}
