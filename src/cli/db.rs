//! `gpusetup db`: the compatibility database, browsed, checked, and printed for programs.

mod update;

use super::host::one_gpu;
use super::options::{DatabaseOptions, JsonOption, LookOptions, to_the_end};
use super::{Problem, releases};
use crate::compat::{AddOnId, Database, LoadError, load};
use crate::database::archive;
use crate::exit::Exit;
use crate::host::{machine, system_named};
use crate::render;
use crate::render::db::list::{self as lists, Filter};
use crate::render::db::{Table, show as pages};
use crate::render::explain::article::Article;
use crate::resolve::known_gpu;
use crate::system::output;
use crate::text::{bytes, count};
use crate::translation::Translation;
use crate::version::{CudaVersion, DriverVersion, Want, dotted};
use clap::ValueEnum;
use std::path::{Path, PathBuf};

/// What `db` does.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List GPUs, drivers, CUDA, add-ons, frameworks, systems and more, whole or only what fits
    List(Box<ListOptions>),
    /// Show a GPU, a driver branch, a CUDA release, an add-on, a framework or a system in one
    /// screen
    Show {
        /// h100, p4d.24xlarge, driver 580, cuda, cuda 12.8, nccl, torch==2.9, ubuntu-24.04; two
        /// CUDA releases are compared
        #[arg(required = true, num_args = 1.., value_name = "SUBJECT")]
        subject: Vec<String>,
        #[command(flatten)]
        look: LookOptions,
        #[command(flatten)]
        from: DatabaseOptions,
    },
    /// Print the whole database as one JSON object
    Export {
        /// Accepted for symmetry; JSON is the only format
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        from: DatabaseOptions,
    },
    /// Write the table of compute capabilities, CUDA releases and drivers as a web page
    Matrix {
        /// The file
        #[arg(long, value_name = "FILE")]
        html: PathBuf,
        #[command(flatten)]
        form: JsonOption,
        #[command(flatten)]
        from: DatabaseOptions,
    },
    /// Check every fact: unique ids, valid references and ranges, a source for each
    Check {
        /// A folder with compat/ and manifests/ [default: the database in use]
        folder: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        from: DatabaseOptions,
    },
    /// Pack a database for `db update`; sign the file with minisign
    Pack {
        /// A folder with compat/ and manifests/
        folder: PathBuf,
        /// The .tar.xz file to write
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// The last day on which `db update` accepts it (YYYY-MM-DD): it cannot be sent again as a
        /// new one later
        #[arg(long, value_name = "DAY", value_parser = super::options::day)]
        expires: Option<String>,
        #[command(flatten)]
        form: JsonOption,
    },
    /// Install a newer database that is signed with the release key
    Update(update::Options),
}

/// Flags of `db list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListOptions {
    /// What to list
    kind: FactKind,
    /// List only what fits this GPU: 10de:20b2, "rtx 3090", sm_80; of GPUs, those whose name, id or
    /// chip contains it
    #[arg(long = "for", value_name = "SPEC")]
    of: Option<String>,
    /// List only what fits this CUDA: 12.8, 13, ">=12.4"
    #[arg(long, value_name = "REQ")]
    cuda: Option<Want<CudaVersion>>,
    /// List only what fits this driver: 580, 470.256.02
    #[arg(long, value_name = "REQ")]
    driver: Option<Want<DriverVersion>>,
    /// List only drivers whose modules build for this kernel: 6.18
    #[arg(long, value_name = "RELEASE", value_parser = kernel)]
    kernel: Option<String>,
    /// List only what this system packages or compiles with: ubuntu-24.04, rocky-9:aarch64
    #[arg(long, value_name = "ID-VERSION[:ARCH]")]
    os: Option<String>,
    /// Print one JSON object
    #[arg(long, env = "GPUSETUP_JSON")]
    json: bool,
    #[command(flatten)]
    from: DatabaseOptions,
}

/// A kernel release, or its first two numbers.
fn kernel(text: &str) -> Result<String, String> {
    if dotted(text).0 > 0 {
        Ok(text.to_owned())
    } else {
        Err("a kernel is expected, such as 6.18".to_owned())
    }
}

/// Kinds of facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FactKind {
    /// GPUs
    Gpus,
    /// Driver branches and their newest releases
    Drivers,
    /// CUDA releases
    Cuda,
    /// cuDNN releases
    Cudnn,
    /// Releases of cuDNN, NCCL, TensorRT and other add-ons (--with)
    AddOns,
    /// Frameworks and the versions they need
    Frameworks,
    /// Parts of toolkits that can be installed separately (--components)
    Components,
    /// Packages tied to the driver's version: Fabric Manager and others
    Companions,
    /// Instance types of cloud providers, and their GPUs
    Instances,
    /// Systems, and what a new installation has (--os)
    Systems,
}

impl FactKind {
    /// The conditions that its rows can meet.
    fn conditions(self) -> &'static [&'static str] {
        match self {
            Self::Gpus => &["for", "driver", "cuda"],
            Self::Drivers => &["for", "cuda", "kernel", "os"],
            Self::Cuda => &["for", "driver", "cuda", "os"],
            Self::Cudnn | Self::AddOns | Self::Frameworks => &["for", "driver", "cuda"],
            Self::Components => &["for", "cuda"],
            Self::Companions | Self::Instances => &["for"],
            Self::Systems => &[],
        }
    }

    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// What `db list --json` prints.
#[derive(serde::Serialize)]
struct Listed {
    schema: &'static str,
    kind: String,
    database: String,
    rows: Vec<serde_json::Value>,
}

/// Refuses a condition that this list cannot be limited by.
fn must_take_conditions(options: &ListOptions) -> Result<(), Problem> {
    let given = [
        ("for", options.of.is_some()),
        ("cuda", options.cuda.is_some()),
        ("driver", options.driver.is_some()),
        ("kernel", options.kernel.is_some()),
        ("os", options.os.is_some()),
    ];
    let taken = options.kind.conditions();
    let Some((name, _)) = given.iter().find(|(name, is)| *is && !taken.contains(name)) else {
        return Ok(());
    };
    let taken: Vec<_> = taken.iter().map(|name| format!("--{name}")).collect();
    let taken = if taken.is_empty() {
        "no condition".to_owned()
    } else {
        taken.join(", ")
    };
    let kind = options.kind.name();
    let sentence = format!("`db list {kind}` cannot be limited by --{name}");
    Err(Problem::usage(sentence).hint(format!("it takes {taken}")))
}

fn list(options: &ListOptions) -> Result<(), Problem> {
    let ListOptions {
        kind,
        of,
        cuda,
        driver,
        kernel,
        os,
        json,
        from,
    } = options;
    let database = from.open()?;
    must_take_conditions(options)?;
    // A part of a name is enough to look for GPUs and instances; anything else needs one GPU.
    let by_name = matches!(kind, FactKind::Gpus | FactKind::Instances);
    let gpu = match of.as_deref() {
        Some(spec) if *kind != FactKind::Gpus => match one_gpu(database, spec) {
            Err(_) if by_name => None,
            found => Some(found?),
        },
        _ => None,
    };
    let card = gpu
        .as_ref()
        .map(|gpu| known_gpu(database, gpu))
        .transpose()?;
    let arch = os
        .as_deref()
        .and_then(|os| os.split_once(':'))
        .map_or("x86_64", |(_, arch)| machine(arch));
    let system = os.as_deref().map(|os| {
        let named = system_named(database, os.split(':').next().unwrap_or_default());
        named
            .map(|(distribution, _)| (distribution, arch))
            .map_err(|e| super::host::no_such_system(&e))
    });
    let filter = Filter {
        gpu: gpu.as_ref().zip(card.as_ref()),
        text: of.as_deref().filter(|_| by_name).map(str::to_lowercase),
        cuda: cuda.clone().unwrap_or(Want::Best),
        driver: driver.clone().unwrap_or(Want::Best),
        kernel: kernel.clone(),
        system: system.transpose()?,
    };
    let tables = match kind {
        FactKind::Gpus => vec![lists::gpus(database, &filter)],
        FactKind::Drivers => vec![lists::drivers(database, &filter)],
        FactKind::Cuda => vec![lists::cuda(database, &filter)],
        FactKind::Cudnn => vec![lists::add_on(database, AddOnId::CUDNN, &filter)],
        FactKind::AddOns => lists::add_ons(database, &filter),
        FactKind::Frameworks => vec![lists::frameworks(database, &filter)],
        FactKind::Components => vec![lists::components(database, &filter)],
        FactKind::Companions => vec![lists::companions(database, &filter)],
        FactKind::Instances => vec![lists::instances(database, &filter)],
        FactKind::Systems => vec![lists::systems(database)],
    };
    if *json {
        let rows = tables.iter().flat_map(Table::json).collect();
        let (schema, kind, database) = ("gpusetup.list/1", kind.name(), database.version.clone());
        return super::print_json(&Listed {
            schema,
            kind,
            database,
            rows,
        });
    }
    if tables.iter().all(Table::is_empty) {
        super::say("nothing in the database fits");
    }
    let width = super::terminal::limit();
    super::print(
        &tables
            .iter()
            .map(|table| table.text(width))
            .collect::<Vec<_>>()
            .join("\n"),
    )
}

fn show(subject: &[String], look: &LookOptions, from: &DatabaseOptions) -> Result<(), Problem> {
    let database = from.open()?;
    let article = page(database, subject)?;
    if look.json {
        return super::print_json(&article);
    }
    let text = article.text(super::paint(look.color), look.verbose, super::width());
    super::print_text(text, look.color, false)
}

fn page(database: &Database, subject: &[String]) -> Result<Article, Problem> {
    let whole = subject.join(" ");
    let words: Vec<_> = whole.split_whitespace().collect();
    let first = words
        .first()
        .map(|word| word.to_lowercase())
        .unwrap_or_default();
    match (first.as_str(), &words[1..]) {
        ("cuda" | "toolkit", []) => return Ok(pages::all_of_cuda(database)),
        ("cuda" | "toolkit", [one]) => return releases::page(database, "cuda", one),
        ("cuda" | "toolkit", [from, to]) => {
            return Ok(pages::change(
                database,
                releases::cuda(database, from)?,
                releases::cuda(database, to)?,
            ));
        }
        ("driver" | "branch", [one]) => return releases::page(database, "driver", one),
        (number, []) if let Some(article) = releases::of_branch(database, number) => {
            return Ok(article);
        }
        (name, [one]) if database.add_on_named(name).is_some() => {
            return releases::page(database, name, one);
        }
        (name, []) if let Some(of) = database.add_on_named(name) => {
            return Ok(pages::add_on(database, of, &Want::Latest));
        }
        _ => {}
    }
    if let Ok((distribution, _)) =
        system_named(database, whole.split(':').next().unwrap_or_default())
    {
        return Ok(pages::system(database, distribution));
    }
    if let Some(article) = pages::framework(
        database,
        &whole.to_lowercase(),
        None,
        &[],
        &Translation::ENGLISH,
    ) {
        return Ok(article);
    }
    let gpu = one_gpu(database, &whole).map_err(|problem| Problem {
        message: problem.message.trim_start_matches("--gpu ").to_owned(),
        ..problem.attempt("gpusetup db show --help")
    })?;
    let card = known_gpu(database, &gpu)?;
    Ok(pages::gpu(database, &whole, &gpu, &card))
}

/// What `db pack --json` and `db matrix --json` print.
#[derive(serde::Serialize)]
struct WrittenReport<'a> {
    schema: &'static str,
    file: &'a Path,
    bytes: usize,
}

impl<'a> WrittenReport<'a> {
    fn of(schema: &'static str, file: &'a Path, bytes: usize) -> Self {
        Self {
            schema,
            file,
            bytes,
        }
    }
}

pub(crate) fn run(command: &Command) -> Result<Exit, Problem> {
    let width = super::width();
    match command {
        Command::List(options) => list(options)?,
        Command::Show {
            subject,
            look,
            from,
        } => show(subject, look, from)?,
        Command::Export { from, .. } => super::print_json(&from.open()?.export())?,
        Command::Matrix { html, form, from } => {
            let page = render::matrix::html(from.open()?);
            output::write(html, page.as_bytes()).map_err(|e| {
                Problem::unexpected(format!("cannot write {}: {e}", html.display()))
            })?;
            match form.json {
                true => {
                    super::print_json(&WrittenReport::of("gpusetup.db-matrix/1", html, page.len()))?
                }
                false => super::say(&format!("written to {}", html.display())),
            }
        }
        Command::Check { folder, json, from } => {
            return check(folder.as_ref().or(from.folder.as_ref()), *json, width, from);
        }
        Command::Pack {
            folder,
            out,
            expires,
            form,
        } => return pack(folder, out, expires.as_deref(), form.json),
        Command::Update(options) => return update::run(options),
    }
    Ok(Exit::Done)
}

fn check(
    folder: Option<&PathBuf>,
    json: bool,
    width: usize,
    in_use: &DatabaseOptions,
) -> Result<Exit, Problem> {
    let database = match folder {
        None => in_use.open()?,
        Some(folder) => match load(folder) {
            Ok(database) => to_the_end(database),
            Err(LoadError::Wrong(problems)) => return wrong(&problems, json),
            Err(LoadError::Shape(mistakes)) => return wrong(&mistakes, json),
            Err(e) => {
                return Err(Problem::integrity(format!(
                    "the database cannot be used: {e}"
                )));
            }
        },
    };
    let tally = database.tally();
    if json {
        super::print_json(&tally)?;
    } else {
        super::print(&render::db::check(database, &tally, width))?;
    }
    Ok(Exit::Done)
}

fn pack(folder: &Path, out: &Path, expires: Option<&str>, json: bool) -> Result<Exit, Problem> {
    let archive = archive::pack(folder, expires)
        .map_err(|e| Problem::integrity(format!("the database cannot be used: {e}")))?;
    output::write(out, &archive)
        .map_err(|e| Problem::unexpected(format!("cannot write {}: {e}", out.display())))?;
    if json {
        super::print_json(&WrittenReport::of("gpusetup.db-pack/1", out, archive.len()))?;
        return Ok(Exit::Done);
    }
    let bytes = bytes(archive.len() as u64);
    super::print(&format!(
        "{}: {bytes}. Sign it: minisign -S -m {}\n",
        out.display(),
        out.display()
    ))?;
    Ok(Exit::Done)
}

/// Every mistake on a line, which editors and CI know to read.
fn wrong<T: std::fmt::Display>(mistakes: &[T], json: bool) -> Result<Exit, Problem> {
    let problem = Problem::integrity(format!(
        "the database has {}",
        count(mistakes.len() as u64, "mistake")
    ));
    if json {
        return Err(Problem {
            because: mistakes.iter().map(ToString::to_string).collect(),
            ..problem
        });
    }
    for mistake in mistakes {
        super::print(&format!("{mistake}\n"))?;
    }
    Err(problem)
}
