//! `gpusetup cache`: the downloads that are kept, listed, removed, read again.

use super::Problem;
use super::host::{must_be_a_host, must_be_private, system_of};
use super::options::{JsonOption, folder};
use crate::apply::Lock;
use crate::cache::{BUNDLES, Cached, State, files, reads_well, remove};
use crate::exit::Exit;
use crate::operation::valid;
use crate::paths;
use crate::system::{System, on_all_cores};
use crate::text;
use crate::text::{bytes, count, wrapped};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What `cache` does.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List cached downloads
    List {
        /// Print one JSON object
        #[arg(long, env = "GPUSETUP_JSON")]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Remove cached downloads
    Clean {
        /// Remove only incomplete and rejected files
        #[arg(long)]
        partial: bool,
        #[command(flatten)]
        form: JsonOption,
        #[command(flatten)]
        place: Place,
    },
    /// Verify every file again; set corrupted files aside
    Verify {
        #[command(flatten)]
        form: JsonOption,
        #[command(flatten)]
        place: Place,
    },
}

/// Options that select the cache.
#[derive(Debug, clap::Args)]
pub struct Place {
    /// The cache [default: /var/cache/gpusetup]
    #[arg(long, value_name = "DIR", env = "GPUSETUP_CACHE", default_value = paths::CACHE,
          value_parser = folder(valid::cache))]
    cache: PathBuf,
    /// Use the tree at DIR as the host: an image, a chroot, a mounted disk
    #[arg(long, value_name = "DIR", env = "GPUSETUP_ROOT")]
    root: Option<PathBuf>,
}

impl Place {
    /// The host that the cache is on.
    fn host(&self) -> Result<System, Problem> {
        let system = system_of(self.root.as_ref());
        must_be_a_host(&system)?;
        Ok(system)
    }
}

#[derive(Serialize)]
struct Listing<'a> {
    schema: &'static str,
    cache: &'a Path,
    bytes: u64,
    files: &'a [Cached],
}

/// What `cache clean --json` prints.
#[derive(Serialize)]
struct Cleaned<'a> {
    schema: &'static str,
    cache: &'a Path,
    bytes: u64,
    removed: Vec<&'a Path>,
}

/// What `cache verify --json` prints.
#[derive(Serialize)]
struct Read<'a> {
    schema: &'static str,
    cache: &'a Path,
    files: usize,
    bytes: u64,
    rejected: &'a [String],
}

pub(crate) fn run(command: &Command) -> Result<Exit, Problem> {
    match command {
        Command::List { json, place } => list(place, *json),
        Command::Clean {
            partial,
            form,
            place,
        } => clean(place, *partial, form.json),
        Command::Verify { form, place } => verify(place, form.json),
    }
}

fn all(place: &Place, system: &System) -> Result<Vec<Cached>, Problem> {
    files(system, &place.cache).map_err(|e| {
        let problem = Problem::unexpected(format!("cannot read {}: {e}", place.cache.display()));
        if e.kind() == std::io::ErrorKind::PermissionDenied {
            problem.hint("run it with sudo")
        } else {
            problem
        }
    })
}

fn list(place: &Place, json: bool) -> Result<Exit, Problem> {
    let files = all(place, &place.host()?)?;
    let sum = files.iter().map(|f| f.size).sum();
    if json {
        super::print_json(&Listing {
            schema: "gpusetup.cache/1",
            cache: &place.cache,
            bytes: sum,
            files: &files,
        })?;
        return Ok(Exit::Done);
    }
    let mut out = String::new();
    for file in &files {
        let state = match file.state {
            State::Verified => "verified",
            State::Touched => "touched since it was verified: it will be read again",
            State::Unknown => "not verified yet",
            State::Part => "incomplete: the next download resumes it",
            State::Rejected => "rejected: it is not what it should be",
        };
        let name = text::one_line(&file.path.file_name().unwrap_or_default().to_string_lossy());
        out += &format!("{:>9}  {name}\n", bytes(file.size));
        out += &wrapped("           ", state, super::width());
    }
    out += &format!(
        "{} in {}, {}.\n",
        count(files.len() as u64, "file"),
        text::one_line(&place.cache.to_string_lossy()),
        bytes(sum)
    );
    super::print(&out)?;
    Ok(Exit::Done)
}

fn clean(place: &Place, partial: bool, json: bool) -> Result<Exit, Problem> {
    let system = place.host()?;
    must_be_private(&system, &place.cache)?;
    let _lock = Lock::take(&system, Duration::ZERO, &mut |_| {})?;
    let mut freed = 0;
    let mut files = all(place, &system)?;
    files.retain(|f| !partial || matches!(f.state, State::Part | State::Rejected));
    for file in &files {
        remove(&system, &file.path).map_err(|e| {
            Problem::unexpected(format!("cannot remove {}: {e}", file.path.display()))
        })?;
        freed += file.size;
    }
    if !partial {
        let bundles = place.cache.join(BUNDLES);
        system.remove_tree(&bundles).map_err(|e| {
            Problem::unexpected(format!("cannot remove {}: {e}", bundles.display()))
        })?;
    }
    let removed: Vec<_> = files.iter().map(|file| &*file.path).collect();
    if json {
        let schema = "gpusetup.cache-clean/1";
        super::print_json(&Cleaned {
            schema,
            cache: &place.cache,
            bytes: freed,
            removed,
        })?;
        return Ok(Exit::Done);
    }
    let count = count(removed.len() as u64, "file");
    super::print(&format!("Removed {count}, {}.\n", bytes(freed)))?;
    Ok(Exit::Done)
}

fn verify(place: &Place, json: bool) -> Result<Exit, Problem> {
    let system = place.host()?;
    must_be_private(&system, &place.cache)?;
    let _lock = Lock::take(&system, Duration::ZERO, &mut |_| {})?;
    let files: Vec<_> = all(place, &system)?
        .into_iter()
        .filter(|f| f.sha256.is_some())
        .collect();
    // The sums are most of the work where the disk is fast.
    let read = on_all_cores(&files, |file| reads_well(&system, file));
    let mut altered = Vec::new();
    for (file, read) in files.iter().zip(read) {
        match read {
            Ok(true) => {}
            Ok(false) => altered.push(file.path.display().to_string()),
            Err(e) => {
                return Err(Problem::unexpected(format!(
                    "cannot read {}: {e}",
                    file.path.display()
                )));
            }
        }
    }
    let sum = files.iter().map(|f| f.size).sum();
    if json {
        let schema = "gpusetup.cache-verify/1";
        let (files, rejected) = (files.len(), altered.as_slice());
        super::print_json(&Read {
            schema,
            cache: &place.cache,
            files,
            bytes: sum,
            rejected,
        })?;
    }
    if !altered.is_empty() {
        let is = if altered.len() == 1 { "is" } else { "are" };
        let sentence = format!(
            "{} {is} not what was verified, and {is} set aside as .rejected",
            altered.join(", ")
        );
        return Err(Problem::integrity(sentence)
            .hint("gpusetup cache clean --partial removes the files that were set aside"));
    }
    if json {
        return Ok(Exit::Done);
    }
    super::print(&format!(
        "{} read, {}: all as they were.\n",
        count(files.len() as u64, "file"),
        bytes(sum)
    ))?;
    Ok(Exit::Done)
}
