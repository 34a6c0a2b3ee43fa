//! What the command line or a file says the GPUs are to become.

use super::super::Problem;
use crate::causes::gpus;
use crate::exit::Exit;
use crate::mig::{
    Board, Entry, Geometry, Layout, LayoutError, LayoutFile, Shortage, Wanted, fit, nearest,
};
use crate::system::input;
use crate::system::limits::MAX_CONFIG;
use crate::text::{quoted, quoted_path};
use std::path::{Path, PathBuf};

/// A layout: in words, or as a configuration of a file.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Layout")]
pub(crate) struct WantedOptions {
    /// The instances: 3g.20gb,2g.10gb,1g.5gb, 7x1g.5gb, or profile ids; none removes all, off
    /// switches MIG off
    #[arg(value_name = "LAYOUT", required_unless_present = "file")]
    layout: Vec<String>,
    /// Read the layout from FILE, in the format of nvidia-mig-parted (- is standard input)
    #[arg(short, long, value_name = "FILE", conflicts_with = "layout")]
    file: Option<PathBuf>,
    /// The configuration of the file [default: its only one]
    #[arg(short = 'c', long, value_name = "NAME", requires = "file")]
    name: Option<String>,
}

/// A GPU, and what it is to become.
pub(crate) struct Task {
    /// The GPU.
    pub(crate) board: Board,
    /// What it can be partitioned into.
    pub(crate) geometry: Geometry,
    /// What it is to become.
    pub(crate) wanted: Wanted,
}

/// What is to become of the GPUs, and what to say about those that are left out.
#[derive(Default)]
pub(crate) struct Tasks {
    /// In the order of the GPUs.
    pub(crate) all: Vec<Task>,
    /// GPUs that stay as they are, and why.
    pub(crate) left_out: Vec<String>,
}

/// The layouts of a file for GPUs.
pub(crate) struct LayoutSource<'a> {
    /// The file, for messages.
    pub(crate) path: &'a Path,
    /// The name of the configuration.
    pub(crate) name: &'a str,
    pub(crate) entries: &'a [Entry],
}

impl WantedOptions {
    /// What is to become of these GPUs, which these specifications may have named. Every layout
    /// fits.
    pub(crate) fn tasks(&self, boards: Vec<Board>, specs: &[String]) -> Result<Tasks, Problem> {
        let tasks = match &self.file {
            None => self.of_words(boards, specs)?,
            Some(path) => self.of_file(path, boards, specs)?,
        };
        if tasks.all.is_empty() {
            let problem = Problem::new(Exit::NothingFits, "no GPU can be given this layout");
            let again = format!("gpusetup mig list{}", which(None, specs));
            return Err(tasks
                .left_out
                .into_iter()
                .fold(problem, Problem::hint)
                .attempt(again));
        }
        for task in &tasks.all {
            task.fits(specs)?;
        }
        Ok(tasks)
    }

    fn of_words(&self, boards: Vec<Board>, specs: &[String]) -> Result<Tasks, Problem> {
        let mut tasks = Tasks::default();
        let text = self.layout.join(",");
        for board in boards {
            let Some(geometry) = partitionable(&board, &mut tasks, specs)? else {
                continue;
            };
            let wanted = if text.trim() == "off" {
                Wanted::Off
            } else {
                let layout = Layout::read(&geometry, &text);
                Wanted::Layout(layout.map_err(|e| no_layout(&board, &geometry, &e, specs))?)
            };
            tasks.all.push(Task {
                board,
                geometry,
                wanted,
            });
        }
        Ok(tasks)
    }

    fn of_file(&self, path: &Path, boards: Vec<Board>, specs: &[String]) -> Result<Tasks, Problem> {
        let text = input::text_or_standard_input(path, MAX_CONFIG)?;
        let file = read(path, &text)?;
        let (name, entries) = file.named(self.name.as_deref()).map_err(|e| {
            let first = quoted(file.names().next().unwrap_or_default());
            let which = which(None, specs);
            let again = format!(
                "gpusetup mig plan{which} --file {} --name {first}",
                quoted_path(path)
            );
            wrong(path, &e).attempt(again)
        })?;
        let source = LayoutSource {
            path,
            name,
            entries,
        };
        if let Some(missing) = source.missing(&boards).first() {
            return Err(wrong(path, &missing));
        }
        source.tasks(boards, specs)
    }
}

pub(crate) fn read(path: &Path, text: &str) -> Result<LayoutFile, Problem> {
    LayoutFile::read(text).map_err(|e| {
        wrong(path, &e).hint("gpusetup reads the format of nvidia-mig-parted; gpusetup mig export prints such a file")
    })
}

fn wrong(path: &Path, why: &dyn std::fmt::Display) -> Problem {
    Problem::usage(format!("{}: {why}", path.display()))
}

impl LayoutSource<'_> {
    /// The GPUs that it lists and that are not among these, a sentence each.
    pub(crate) fn missing(&self, boards: &[Board]) -> Vec<String> {
        let listed = self.entries.iter().flat_map(|entry| entry.listed());
        let missing = listed.filter(|gpu| {
            !boards
                .iter()
                .any(|board| gpu.is(board.index, board.uuid.as_deref()))
        });
        missing
            .map(|gpu| {
                format!(
                    "the configuration {:?} names {gpu}, which is not among the GPUs",
                    self.name
                )
            })
            .collect()
    }

    /// What is to become of these GPUs.
    pub(crate) fn tasks(&self, boards: Vec<Board>, specs: &[String]) -> Result<Tasks, Problem> {
        let mut tasks = Tasks::default();
        for board in boards {
            let Some(entry) = self.entry_of(&board)? else {
                tasks.left_out.push(format!(
                    "{}: the configuration {:?} does not name it",
                    board.shown(),
                    self.name
                ));
                continue;
            };
            if !entry.mig_enabled && !board.is_capable {
                continue;
            }
            let Some(geometry) = partitionable(&board, &mut tasks, specs)? else {
                continue;
            };
            let wanted = entry
                .wanted(&geometry)
                .map_err(|e| no_layout(&board, &geometry, &e, specs))?;
            tasks.all.push(Task {
                board,
                geometry,
                wanted,
            });
        }
        Ok(tasks)
    }

    /// The entry for a GPU: several must say the same.
    fn entry_of(&self, board: &Board) -> Result<Option<&Entry>, Problem> {
        let mut of_board = self.entries.iter().filter(|entry| {
            entry.is_for(
                board.index,
                board.uuid.as_deref(),
                board.device,
                board.subsystem.as_deref(),
            )
        });
        let Some(entry) = of_board.next() else {
            return Ok(None);
        };
        if of_board.any(|other| {
            (other.mig_enabled, &other.mig_devices) != (entry.mig_enabled, &entry.mig_devices)
        }) {
            let why = format!(
                "the configuration {:?} has two layouts for {}",
                self.name,
                board.shown()
            );
            return Err(wrong(self.path, &why));
        }
        Ok(Some(entry))
    }
}

impl Task {
    /// Whether the layout fits the GPU.
    pub(crate) fn fits(&self, specs: &[String]) -> Result<(), Problem> {
        let Wanted::Layout(layout) = &self.wanted else {
            return Ok(());
        };
        fit(&self.geometry, layout)
            .map(drop)
            .map_err(|short| self.does_not_fit(layout, &short, specs))
    }

    fn does_not_fit(&self, layout: &Layout, short: &[Shortage], specs: &[String]) -> Problem {
        let Self {
            board, geometry, ..
        } = self;
        let mut texts = short.iter().map(|shortage| shortage.text(geometry));
        let first = texts.next().unwrap_or_default();
        let sentence = format!(
            "{} does not fit {}: {first}",
            layout.text(geometry),
            board.shown()
        );
        let mut problem = Problem::new(Exit::NothingFits, sentence);
        problem.because = texts.chain(geometry.assumed.iter().cloned()).collect();
        let which = which(Some(board), specs);
        nearest(geometry, layout)
            .iter()
            .fold(problem, |problem, layout| {
                let layout = layout.text(geometry);
                problem.attempt(format!("gpusetup mig plan{which} {layout}"))
            })
    }
}

/// The options that choose the GPUs that specifications named, or else this GPU of the host.
fn which(board: Option<&Board>, specs: &[String]) -> String {
    match board {
        Some(board) if specs.is_empty() => format!(" --device {}", board.index),
        _ => gpus::options(specs),
    }
}

/// What a GPU can be partitioned into. None if it cannot be, which is said.
fn partitionable(
    board: &Board,
    tasks: &mut Tasks,
    specs: &[String],
) -> Result<Option<Geometry>, Problem> {
    match &board.geometry {
        Some(geometry) => Ok(Some(geometry.clone())),
        None if board.is_capable => Err(no_profiles(board, specs)),
        None => {
            tasks
                .left_out
                .push(format!("{} cannot be partitioned", board.shown()));
            Ok(None)
        }
    }
}

fn no_profiles(board: &Board, specs: &[String]) -> Problem {
    if let (false, [first, ..]) = (specs.is_empty(), board.variants.as_slice()) {
        let id = first.split_once(' ').map_or(first.as_str(), |(id, _)| id);
        let sentence = format!(
            "{}: boards with this id have different MIG profiles",
            board.shown()
        );
        let hint = format!("name the subsystem, too: {}", board.variants.join(", "));
        return Problem::new(Exit::NothingFits, sentence)
            .hint(hint)
            .attempt(format!("gpusetup mig list --gpu {id}"));
    }
    let sentence = format!(
        "{}: the database has no MIG profiles of this board",
        board.shown()
    );
    Problem::new(Exit::NothingFits, sentence)
        .hint("with MIG on, the driver lists them: sudo nvidia-smi -mig 1, then run this again on the host")
        .attempt("gpusetup db list gpus")
}

fn no_layout(board: &Board, geometry: &Geometry, e: &LayoutError, specs: &[String]) -> Problem {
    let profiles: Vec<_> = geometry.profiles.iter().map(|p| p.name.as_str()).collect();
    Problem::usage(format!("{}: {e}", board.shown()))
        .hint(format!("its profiles are: {}", profiles.join(", ")))
        .attempt(format!("gpusetup mig list{}", which(Some(board), specs)))
}
