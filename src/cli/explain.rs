//! `gpusetup explain`: why a version is chosen or refused, what a check or an exit code means.

pub mod language;
mod own;
mod paste;
mod smi;
mod subject;

use super::Problem;
use super::files::read_pasted;
use super::host::{look_or_stock, system};
use super::locked::Locked;
use super::options::{
    HostOptions, LanguageOptions, LookOptions, RequestOptions, StockOptions, TrustOptions,
};
use super::releases::{self, want};
use crate::compat::AddOnId;
use crate::exit::Exit;
use crate::planning::Planner;
use crate::render;
use crate::render::explain::ExplainStyle;
use crate::render::explain::article::Article;
use crate::resolve::{Conflict, ConflictKind, resolve};
use crate::system::input::{self, STANDARD_INPUT};
use crate::text::quoted;
use crate::translation::Translation;
use crate::version::{AddOnVersion, CudaVersion, DriverVersion, Want};
use gpusetup_data::subjects;
use std::path::Path;

/// Flags of `explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Subject: cuda 13.0, driver 535, GS201, exit 4, xid 79, h100, torch==2.9, any error message,
    /// or - for standard input
    ///
    /// A version is proved to fit or not, for this host or for --gpu; without a GPU, the release is
    /// described. Any other text is searched for error messages that gpusetup knows; a file may be
    /// named too.
    #[arg(required = true, num_args = 1.., value_name = "SUBJECT")]
    subject: Vec<String>,
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    stock: StockOptions,
    #[command(flatten)]
    request: RequestOptions,
    #[command(flatten)]
    language: LanguageOptions,
    #[command(flatten)]
    look: LookOptions,
    #[command(flatten)]
    trust: TrustOptions,
}

impl Options {
    /// The language of the answer. JSON is always in English.
    fn language(&self) -> Translation {
        if self.look.json {
            Translation::ENGLISH
        } else {
            language::wanted(&self.language)
        }
    }

    fn looks<'a>(&self, language: &'a Translation) -> ExplainStyle<'a> {
        ExplainStyle {
            paint: super::paint(self.look.color),
            verbose: self.look.verbose,
            width: super::width(),
            language,
        }
    }

    fn is_of_this_host(&self) -> bool {
        self.host.root.is_none() && self.stock.os.is_none()
    }
}

/// Explains. A subject or a message on the command line that is not known is a usage error; that
/// nothing is known in a text of a file or of standard input is an answer.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    let language = &options.language();
    let whole = options.subject.join(" ");
    if whole.trim().is_empty() {
        return Err(
            Problem::usage("there is nothing to explain: the subject is empty")
                .attempt("gpusetup explain -h"),
        );
    }
    if whole == STANDARD_INPUT {
        return paste::run(&log(&whole)?, options, language);
    }
    let words: Vec<_> = options.subject.iter().map(|w| w.to_lowercase()).collect();
    let words: Vec<_> = words.iter().flat_map(|w| w.split_whitespace()).collect();
    if let Some(article) = subject::numbered(&words, language) {
        return print_article(article, options, language);
    }
    if let Some((layer, wanted)) = layer_and_version(&words, options)? {
        return version(options, language, layer, &wanted);
    }
    match subject::article(&words, options, language) {
        Ok(Some(article)) => return print_article(article, options, language),
        Ok(None) => {}
        // "GPU has fallen off the bus" names no GPU.
        Err(_)
            if words.len() >= MIN_PASTED_WORDS
                || paste::recognises(&whole, options.host.database()?)? => {}
        Err(problem) => return Err(problem),
    }
    if let [one] = words.as_slice() {
        let (layer, wanted) = one.split_once("==").unwrap_or((one, "latest"));
        if is_layer(layer, options)? {
            return version(options, language, layer, wanted);
        }
    }
    no_subject(&whole, words.len(), options, language)
}

/// A known subject wins over a file, and a file over free text.
fn no_subject(
    whole: &str,
    words: usize,
    options: &Options,
    language: &Translation,
) -> Result<Exit, Problem> {
    if let [only] = options.subject.as_slice()
        && input::metadata(Path::new(only)).is_some()
    {
        return paste::run(&log(only)?, options, language);
    }
    if paste::recognises(whole, options.host.database()?)? {
        return paste::run(whole, options, language);
    }
    match words {
        1 if is_path(whole) => log(whole).and_then(|text| paste::run(&text, options, language)),
        MIN_PASTED_WORDS.. => Err(subject::unknown_text(whole)),
        _ => Err(subject::unknown(whole, options, language)),
    }
}

/// The layer and the version of it that these words ask about.
fn layer_and_version<'a>(
    words: &[&'a str],
    options: &Options,
) -> Result<Option<(&'a str, String)>, Problem> {
    Ok(match words {
        [layer]
            if is_layer(layer, options)?
                && !(options.host.gpu.is_empty() && options.stock.os.is_none()) =>
        {
            Some((layer, "latest".to_owned()))
        }
        // "cuda toolkit" is a subject, and "cuda graphs" is no version.
        [layer, wanted]
            if is_layer(layer, options)? && is_wish(layer, wanted) && !is_subject(words) =>
        {
            Some((layer, (*wanted).to_owned()))
        }
        // A range has blanks: `>=12.4, <13`.
        [layer, range @ ..]
            if range.concat().starts_with(['<', '>', '=', '~', '^'])
                && is_layer(layer, options)? =>
        {
            Some((layer, range.concat()))
        }
        _ => None,
    })
}

/// Whether a word asks for versions of a layer: `13.0`, `cu124`, `latest`. One that begins like a
/// version is refused as one.
fn is_wish(layer: &str, word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit() || "<>=~^".contains(c))
        || match layer {
            "driver" => word.parse::<Want<DriverVersion>>().is_ok(),
            "cuda" => word.parse::<Want<CudaVersion>>().is_ok(),
            _ => word.parse::<Want<AddOnVersion>>().is_ok(),
        }
}

/// A text of so many words is one that somebody pasted, and no subject.
const MIN_PASTED_WORDS: usize = 5;

/// How the names of files with messages end.
const LOGS: [&str; 3] = [".log", ".txt", ".out"];

/// Whether a word can only be meant as the path of a file.
fn is_path(word: &str) -> bool {
    word.contains('/') || LOGS.iter().any(|end| word.ends_with(end))
}

/// The text of a file, or of standard input for `-`.
fn log(path: &str) -> Result<String, Problem> {
    let text = read_pasted(Path::new(path))?;
    if !text.trim().is_empty() {
        return Ok(text);
    }
    Err(if path == STANDARD_INPUT {
        Problem::usage("standard input is empty: there is nothing to explain")
            .hint("a command without the right to read the log prints nothing")
            .attempt("sudo dmesg | gpusetup explain -")
    } else {
        Problem::usage(format!("{path} is empty: there is nothing to explain"))
    })
}

fn print_article(
    article: Article,
    options: &Options,
    language: &Translation,
) -> Result<Exit, Problem> {
    let article = match &options.host.root {
        Some(root) => article.for_root(root),
        None => article,
    };
    if options.look.json {
        super::print_json(&article)?;
    } else {
        let ExplainStyle {
            paint,
            verbose,
            width,
            ..
        } = options.looks(language);
        let text = article.text_in(language, paint, verbose, width);
        super::print_text(text, options.look.color, options.is_of_this_host())?;
    }
    Ok(Exit::Done)
}

/// Whether these words together are the name of a subject.
fn is_subject(words: &[&str]) -> bool {
    crate::subject::find(&subjects(), &words.join(" ")).is_some()
}

/// Whether this is the driver, CUDA or an add-on.
fn is_layer(word: &str, options: &Options) -> Result<bool, Problem> {
    Ok(["driver", "cuda"].contains(&word) || options.host.database()?.add_on_named(word).is_some())
}

/// The wish for no version of a layer.
const NONE: &str = "none";

/// Asks for the version, and tells the proof of yes or no.
fn version(
    options: &Options,
    language: &Translation,
    layer: &str,
    wanted: &str,
) -> Result<Exit, Problem> {
    let database = options.host.database()?;
    if layer != "driver" && wanted != NONE {
        // A host's repositories may have newer drivers than the database; CUDA and add-ons come
        // from the database alone.
        releases::page(database, layer, wanted)?;
    }
    let locked = Locked::read(options.request.locked.as_ref(), &options.trust)?;
    let (facts, assumed) = look_or_stock(&options.host, &options.stock, database)?;
    let system = system(&options.host);
    // Without a GPU no driver is chosen, and only drivers are offered.
    let chooses_a_driver = layer == "driver" || !facts.gpus.is_empty() || !assumed.is_empty();
    let is_here = options.host.is_meant() && options.stock.os.is_none();
    let planner = Planner {
        repositories: (is_here && chooses_a_driver).then_some(&system),
        lock: locked.file(),
        ..Planner::new(database)
    };
    let machine = facts.machine.kind;
    let request = options.request.request_on(&options.host, assumed, machine);
    let request = request.map_err(|problem| problem.on_system(options.stock.os.as_deref()))?;
    let prepared = planner.prepared(facts, request);
    let (facts, mut request) =
        prepared.map_err(|e| locked.not_planned(e, &options.host.again(&options.stock, None)))?;
    let named = match layer {
        "driver" => {
            request.driver = want("driver", wanted)?;
            format!("driver {wanted}")
        }
        "cuda" => {
            request.cuda = want("cuda", wanted)?;
            format!("CUDA {wanted}")
        }
        _ => {
            let Some(of) = database.add_on_named(layer) else {
                return Err(Problem::usage(format!("no add-on is called `{layer}`")));
            };
            let want = want(layer, wanted)?;
            match of.id {
                AddOnId::CUDNN => request.cudnn = want,
                id => drop(request.add_ons.insert(id, want)),
            }
            format!("{} {wanted}", of.title)
        }
    };
    let answer = match resolve(database, &facts, &request) {
        Ok(resolution) => Ok((resolution.selection(), resolution.reasons)),
        Err(
            conflict @ Conflict {
                kind: ConflictKind::NothingFits,
                ..
            },
        ) => Err(conflict
            .for_request(&request)
            .on_host(&options.host.again(&options.stock, None))),
        // What a release is, needs no GPU.
        Err(Conflict {
            kind: ConflictKind::NoGpu,
            ..
        }) if wanted != NONE => {
            let mut article = releases::page(database, layer, wanted)?;
            let subject = quoted(wanted);
            article.run.insert(
                0,
                format!("gpusetup explain {layer} {subject} --gpu h100  # whether it fits a GPU"),
            );
            return print_article(article, options, language);
        }
        Err(conflict) => return Err(conflict.into()),
    };
    if options.look.json {
        super::print_json(&render::explain::Proof::of(&answer))?;
    } else {
        let text = render::explain::text(&named, &answer, database, options.looks(language));
        super::print_text(text, options.look.color, options.is_of_this_host())?;
    }
    Ok(if answer.is_ok() {
        Exit::Done
    } else {
        Exit::NothingFits
    })
}
