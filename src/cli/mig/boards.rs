//! The GPUs that a command is about: assumed ones, or this host's, as their driver reports them.

use super::super::host::{no_such_gpu, system_of};
use super::super::options::DatabaseOptions;
use super::super::{Problem, say};
use crate::compat::Database;
use crate::exit::Exit;
use crate::gpus::why_silent;
use crate::host::{Facts, Gpu, ProbeOptions, assumed_gpus, probe};
use crate::mig::Board;
use crate::nvidia::{Answer, MigHost};
use crate::system::System;
use crate::text::quoted;
use std::path::PathBuf;

/// Which GPUs.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Host")]
pub(crate) struct BoardOptions {
    /// Plan for this GPU instead of this host's: a100, h100x8, "dgx a100", 10de:20b2
    ///
    /// May be given several times, or as a list with commas.
    #[arg(long, value_name = "SPEC", env = "GPUSETUP_GPU", value_delimiter = ',')]
    pub(crate) gpu: Vec<String>,
    #[command(flatten)]
    pub(crate) here: HereOptions,
}

/// Which GPUs of this host.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Host")]
pub(crate) struct HereOptions {
    /// Only these GPUs, by index, bus address or UUID: 0,3 [default: all that can be partitioned]
    #[arg(short = 'i', long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// Use the tree at DIR as the host: an image, a chroot, a mounted disk
    #[arg(long, value_name = "DIR", env = "GPUSETUP_ROOT")]
    pub(crate) root: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) database: DatabaseOptions,
}

/// The GPUs, and why their driver was not asked.
pub(crate) struct Boards {
    /// In nvidia-smi's order.
    pub(crate) all: Vec<Board>,
    /// None if the driver answered, or if the GPUs are assumed.
    pub(crate) silent: Option<String>,
}

impl Boards {
    /// Says what the driver did not.
    pub(crate) fn tell(&self) {
        if let Some(why) = &self.silent {
            say(&format!(
                "the driver was not asked ({why}): profiles are those of the database"
            ));
        }
        for (board, why) in self
            .all
            .iter()
            .filter_map(|board| Some((board, board.unread.as_ref()?)))
        {
            say(&format!(
                "the driver did not report the instances of {}: {why}",
                board.shown()
            ));
        }
    }
}

impl BoardOptions {
    /// The GPUs that the options name.
    pub(crate) fn boards(&self, database: &Database) -> Result<Boards, Problem> {
        if self.gpu.is_empty() {
            return self.here.boards(database);
        }
        let mut all = Vec::new();
        for spec in &self.gpu {
            for gpu in assumed_gpus(database, spec).map_err(|e| no_such_gpu(spec, &e))? {
                all.push(described(database, all.len(), &gpu));
            }
        }
        Ok(Boards {
            all: self.here.chosen(all)?,
            silent: None,
        })
    }
}

impl HereOptions {
    /// This host's GPUs, as their driver reports them. If it does not answer, as they are on the
    /// bus.
    pub(crate) fn boards(&self, database: &Database) -> Result<Boards, Problem> {
        let system = self.system();
        match reported(&system, database)? {
            Ok(all) => Ok(Boards {
                all: self.chosen(all)?,
                silent: None,
            }),
            Err(why) => {
                let facts = facts(&system, database)?;
                let all: Vec<_> = facts
                    .gpus
                    .iter()
                    .enumerate()
                    .map(|(n, gpu)| described(database, n, gpu))
                    .collect();
                if all.is_empty() {
                    return Err(no_gpu());
                }
                Ok(Boards {
                    all: self.chosen(all)?,
                    silent: Some(why),
                })
            }
        }
    }

    /// This host's GPUs, as their driver reports them.
    pub(crate) fn reported(&self, database: &Database) -> Result<Vec<Board>, Problem> {
        self.chosen(self.every(database)?)
    }

    /// All of this host's GPUs, as their driver reports them.
    pub(crate) fn every(&self, database: &Database) -> Result<Vec<Board>, Problem> {
        every_of(&self.system(), database)
    }

    /// The host.
    pub(crate) fn system(&self) -> System {
        system_of(self.root.as_ref())
    }

    /// The GPUs that `--device` names.
    pub(crate) fn chosen(&self, mut all: Vec<Board>) -> Result<Vec<Board>, Problem> {
        for word in &self.device {
            if !all.iter().any(|board| is_named(board, word)) {
                let there: Vec<_> = all.iter().map(Board::shown).collect();
                return Err(Problem::usage(format!(
                    "no GPU has the index, bus address or UUID {word} (--device)"
                ))
                .hint(format!("there are: {}", there.join(", "))));
            }
        }
        if !self.device.is_empty() {
            all.retain(|board| self.device.iter().any(|word| is_named(board, word)));
        }
        Ok(all)
    }
}

/// All GPUs of a host, as their driver reports them.
pub(crate) fn every_of(system: &System, database: &Database) -> Result<Vec<Board>, Problem> {
    let all = reported(system, database)?.map_err(|why| no_report(&why))?;
    match all
        .iter()
        .find_map(|board| Some((board, board.unread.as_ref()?)))
    {
        Some((board, why)) => Err(unread(board, why)),
        None => Ok(all),
    }
}

fn is_named(board: &Board, word: &str) -> bool {
    let address = crate::host::bus_address(word);
    word.parse() == Ok(board.index)
        || board
            .uuid
            .as_deref()
            .is_some_and(|uuid| uuid.eq_ignore_ascii_case(word))
        || board
            .address
            .as_deref()
            .is_some_and(|at| address.is_some() && address == crate::host::bus_address(at))
}

fn unread(board: &Board, why: &str) -> Problem {
    Problem::new(
        Exit::Blocked,
        format!(
            "the driver did not report how {} is partitioned: {why}",
            board.shown()
        ),
    )
    .hint("only root may see GPU instances: run it with sudo")
}

fn no_report(why: &str) -> Problem {
    Problem::new(
        Exit::Blocked,
        format!("the driver did not report on the GPUs: {why}"),
    )
    .attempt("gpusetup doctor")
}

fn no_gpu() -> Problem {
    Problem::new(Exit::NoGpu, "this host has no NVIDIA GPU").attempt(format!(
        "gpusetup mig plan --gpu {} 7x1g.5gb",
        quoted("a100-sxm4-40gb")
    ))
}

fn described(database: &Database, index: usize, gpu: &Gpu) -> Board {
    let name = gpu
        .name
        .as_deref()
        .unwrap_or("a GPU that is not in the database");
    let board = Board::known(
        database,
        index,
        gpu.device(),
        gpu.subsystem.as_deref(),
        name,
    );
    let address = (!gpu.assumed).then(|| gpu.address.clone());
    Board { address, ..board }
}

/// The facts of a host.
pub(crate) fn facts(system: &System, database: &Database) -> Result<Facts, Problem> {
    probe(system, database, &ProbeOptions::default()).map_err(|e| Problem::usage(e.to_string()))
}

/// The driver's report; or why there is none.
fn reported(system: &System, database: &Database) -> Result<Result<Vec<Board>, String>, Problem> {
    if let Some(why) = why_silent(system, &facts(system, database)?) {
        return Ok(Err(why));
    }
    Ok(match crate::gpus::partitions() {
        Answer::Is(MigHost {
            refused: None,
            gpus,
        }) if gpus.is_empty() => return Err(no_gpu()),
        Answer::Is(MigHost {
            refused: None,
            gpus,
        }) => Ok(gpus
            .iter()
            .enumerate()
            .map(|(n, gpu)| Board::reported(database, n, gpu))
            .collect()),
        Answer::Is(MigHost {
            refused: Some(refused),
            ..
        }) => Err(refused.to_string()),
        Answer::Failed(why) | Answer::NotAsked(why) => Err(why),
    })
}
