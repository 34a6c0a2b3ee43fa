//! `gpusetup db`: the compatibility database, browsed, checked, and printed for programs.

mod update;

use super::Problem;
use super::options::{DatabaseOptions, to_the_end};
use crate::compat::{AddOnId, Database, LoadError, load};
use crate::database::archive;
use crate::exit::Exit;
use crate::host::assumed_gpus;
use crate::render;
use crate::system::output;
use crate::text::{bytes, count};
use clap::ValueEnum;
use std::path::{Path, PathBuf};

/// What `db` does.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List GPUs, drivers, CUDA, cuDNN, add-ons, frameworks, components or companions
    List {
        /// What to list
        kind: Kind,
        /// List only what fits this GPU: 10de:20b2, "rtx 3090", sm_80
        #[arg(long = "for", value_name = "SPEC")]
        of: Option<String>,
        #[command(flatten)]
        from: DatabaseOptions,
    },
    /// Show what a GPU needs and can do
    Show {
        /// The GPU: 10de:20b2, "rtx 3090", sm_80
        spec: String,
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
    },
    /// Install a newer database that is signed with the release key
    Update(update::Options),
}

/// Kinds of facts.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Kind {
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
}

/// Does it.
pub fn run(command: &Command) -> Result<Exit, Problem> {
    let width = super::width();
    match command {
        Command::List { kind, of, from } => {
            let database = from.open()?;
            let gpu = of.as_deref().map(|spec| one_gpu(database, spec)).transpose()?;
            let card = gpu.as_ref().map(|g| crate::resolve::known_card(database, g)).transpose()?;
            let table = match kind {
                Kind::Gpus => render::db::gpus(database, of.as_deref().map(str::to_lowercase).as_deref()),
                Kind::Drivers => render::db::drivers(database, card.as_ref()),
                Kind::Cuda => render::db::cuda(database, card.as_ref()),
                Kind::Cudnn => render::db::add_on(database, AddOnId::CUDNN, card.as_ref()),
                Kind::AddOns => render::db::add_ons(database, card.as_ref()),
                Kind::Frameworks => render::db::frameworks(database, card.as_ref()),
                Kind::Components => render::db::components(database, card.as_ref()),
                Kind::Companions => render::db::companions(database, gpu.as_ref()),
            };
            super::print(&table)?;
        }
        Command::Show { spec, from } => {
            let database = from.open()?;
            let gpu = one_gpu(database, spec)?;
            let card = crate::resolve::known_card(database, &gpu)?;
            super::print(&render::db::show(database, &gpu, &card, width))?;
        }
        Command::Export { from, .. } => super::print_json(&from.open()?.export())?,
        Command::Matrix { html, from } => {
            let page = render::matrix::html(from.open()?);
            output::write(html, page.as_bytes())
                .map_err(|e| Problem::unexpected(format!("cannot write {}: {e}", html.display())))?;
            super::say(&format!("written to {}", html.display()));
        }
        Command::Check { folder, json, from } => {
            return check(folder.as_ref().or(from.folder.as_ref()), *json, width, from);
        }
        Command::Pack { folder, out } => return pack(folder, out),
        Command::Update(options) => return update::run(options),
    }
    Ok(Exit::Done)
}

fn one_gpu(database: &Database, spec: &str) -> Result<crate::host::Gpu, Problem> {
    let found = assumed_gpus(database, spec).map_err(|e| super::host::no_such_gpu(spec, &e))?;
    found.into_iter().next().ok_or_else(|| Problem::usage(format!("{spec} names no GPU")))
}

fn check(folder: Option<&PathBuf>, json: bool, width: usize, in_use: &DatabaseOptions) -> Result<Exit, Problem> {
    let database = match folder {
        None => in_use.open()?,
        Some(folder) => match load(folder) {
            Ok(database) => to_the_end(database),
            Err(LoadError::Wrong(problems)) => return wrong(&problems),
            Err(LoadError::Shape(mistakes)) => return wrong(&mistakes),
            Err(e) => return Err(Problem::integrity(format!("the database cannot be used: {e}"))),
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

fn pack(folder: &Path, out: &Path) -> Result<Exit, Problem> {
    let archive = archive::pack(folder).map_err(|e| Problem::integrity(format!("the database cannot be used: {e}")))?;
    output::write(out, &archive).map_err(|e| Problem::unexpected(format!("cannot write {}: {e}", out.display())))?;
    let bytes = bytes(archive.len() as u64);
    super::print(&format!("{}: {bytes}. Sign it: minisign -S -m {}\n", out.display(), out.display()))?;
    Ok(Exit::Done)
}

/// Every mistake on a line, which editors and CI know to read.
fn wrong<T: std::fmt::Display>(mistakes: &[T]) -> Result<Exit, Problem> {
    for mistake in mistakes {
        super::print(&format!("{mistake}\n"))?;
    }
    Err(Problem::integrity(format!("the database has {}", count(mistakes.len() as u64, "mistake"))))
}
