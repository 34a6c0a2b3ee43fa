//! What the command line or a file says the GPUs are to become.

use super::super::Problem;
use crate::exit::Exit;
use crate::mig::{Board, Geometry, Layout, LayoutError, LayoutFile, Shortage, Wanted, fit, nearest};
use crate::system::input;
use crate::text::{quoted, quoted_path};
use std::path::PathBuf;

/// A layout: in words, or as a configuration of a file.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Layout")]
pub struct WantedOptions {
    /// The instances: 3g.20gb,2g.10gb,1g.5gb, 7x1g.5gb, or profile ids; none removes all, off switches MIG off
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
pub struct Task {
    /// The GPU.
    pub board: Board,
    /// What it can be partitioned into.
    pub geometry: Geometry,
    /// What it is to become.
    pub wanted: Wanted,
}

/// What is to become of the GPUs, and what to say about those that are left out.
pub struct Tasks {
    /// In the order of the GPUs.
    pub all: Vec<Task>,
    /// GPUs that stay as they are, and why.
    pub left_out: Vec<String>,
}

impl WantedOptions {
    /// What is to become of these GPUs. Every layout fits.
    pub fn tasks(&self, boards: Vec<Board>, assumed: &[String]) -> Result<Tasks, Problem> {
        let mut tasks = Tasks { all: Vec::new(), left_out: Vec::new() };
        match &self.file {
            None => self.of_words(boards, &mut tasks)?,
            Some(path) => self.of_file(path, boards, &mut tasks)?,
        }
        if tasks.all.is_empty() {
            let problem = Problem::new(Exit::NothingFits, "no GPU can be given this layout");
            return Err(tasks.left_out.into_iter().fold(problem, Problem::hint).attempt("gpusetup mig list"));
        }
        for task in &tasks.all {
            if let Wanted::Layout(layout) = &task.wanted {
                let again = |layout: &str| again(&task.board, assumed, layout);
                fit(&task.geometry, layout)
                    .map_err(|short| does_not_fit(&task.board, &task.geometry, layout, &short, &again))?;
            }
        }
        Ok(tasks)
    }

    fn of_words(&self, boards: Vec<Board>, tasks: &mut Tasks) -> Result<(), Problem> {
        let text = self.layout.join(",");
        for board in boards {
            let Some(geometry) = partitionable(&board, tasks)? else { continue };
            let wanted = if text.trim() == "off" {
                Wanted::Off
            } else {
                Wanted::Layout(Layout::read(&geometry, &text).map_err(|e| no_layout(&board, &geometry, &e))?)
            };
            tasks.all.push(Task { board, geometry, wanted });
        }
        Ok(())
    }

    fn of_file(&self, path: &std::path::Path, boards: Vec<Board>, tasks: &mut Tasks) -> Result<(), Problem> {
        let text = input::text_or_standard_input(path, input::MOST_CONFIG)?;
        let wrong = |e: &dyn std::fmt::Display| Problem::usage(format!("{}: {e}", path.display()));
        let file = LayoutFile::read(&text).map_err(|e| {
            wrong(&e).hint("gpusetup reads the format of nvidia-mig-parted; gpusetup mig export prints such a file")
        })?;
        let (name, entries) = file.named(self.name.as_deref()).map_err(|e| {
            let first = file.names().next().unwrap_or_default();
            let again = format!("gpusetup mig plan --file {} --name {}", quoted_path(path), quoted(first));
            wrong(&e).attempt(again)
        })?;
        if let Some(index) =
            entries.iter().flat_map(|e| e.listed()).find(|listed| !boards.iter().any(|b| is(b, **listed)))
        {
            return Err(wrong(&format!("the configuration {name:?} names GPU {index}, which is not among the GPUs")));
        }
        for board in boards {
            let mut of_board =
                entries.iter().filter(|e| e.is_for(board.index, board.device, board.subsystem.as_deref()));
            let Some(entry) = of_board.next() else {
                tasks.left_out.push(format!("{}: the configuration {name:?} does not name it", board.shown()));
                continue;
            };
            if of_board.any(|other| (other.mig_enabled, &other.mig_devices) != (entry.mig_enabled, &entry.mig_devices))
            {
                return Err(wrong(&format!("the configuration {name:?} has two layouts for {}", board.shown())));
            }
            if !entry.mig_enabled && !board.is_capable {
                continue;
            }
            let Some(geometry) = partitionable(&board, tasks)? else { continue };
            let wanted = match &entry.mig_devices {
                Some(devices) if entry.mig_enabled => {
                    let counted = devices.iter().map(|(profile, count)| (profile.as_str(), *count));
                    Wanted::Layout(Layout::counted(&geometry, counted).map_err(|e| no_layout(&board, &geometry, &e))?)
                }
                _ => Wanted::Off,
            };
            tasks.all.push(Task { board, geometry, wanted });
        }
        Ok(())
    }
}

fn is(board: &Board, index: u64) -> bool {
    usize::try_from(index) == Ok(board.index)
}

/// What a GPU can be partitioned into. None if it cannot be, which is said.
fn partitionable(board: &Board, tasks: &mut Tasks) -> Result<Option<Geometry>, Problem> {
    match &board.geometry {
        Some(geometry) => Ok(Some(geometry.clone())),
        None if board.is_capable => {
            let sentence = format!("{}: the database has no MIG profiles of this board", board.shown());
            Err(Problem::new(Exit::NothingFits, sentence)
                .hint("with MIG on, the driver lists them: sudo nvidia-smi -mig 1, then run this again on the host")
                .attempt("gpusetup db list gpus"))
        }
        None => {
            tasks.left_out.push(format!("{} cannot be partitioned", board.shown()));
            Ok(None)
        }
    }
}

fn no_layout(board: &Board, geometry: &Geometry, e: &LayoutError) -> Problem {
    let profiles: Vec<_> = geometry.profiles.iter().map(|p| p.name.as_str()).collect();
    let sentence = format!("{}: {e}", board.shown());
    let assumed = board.device.filter(|_| board.address.is_none());
    let which = assumed.map(|device| format!(" --gpu 10de:{device}")).unwrap_or_default();
    Problem::usage(sentence)
        .hint(format!("its profiles are: {}", profiles.join(", ")))
        .attempt(format!("gpusetup mig list{which}"))
}

/// The same command with another layout.
fn again(board: &Board, assumed: &[String], layout: &str) -> String {
    let which = if assumed.is_empty() {
        format!("--device {}", board.index)
    } else {
        let specs: Vec<_> = assumed.iter().map(|spec| format!("--gpu {}", quoted(spec))).collect();
        specs.join(" ")
    };
    format!("gpusetup mig plan {which} {layout}")
}

fn does_not_fit(
    board: &Board,
    geometry: &Geometry,
    layout: &Layout,
    short: &[Shortage],
    again: &dyn Fn(&str) -> String,
) -> Problem {
    let mut texts = short.iter().map(|shortage| shortage.text(geometry));
    let first = texts.next().unwrap_or_default();
    let mut problem =
        Problem::new(Exit::NothingFits, format!("{} does not fit {}: {first}", layout.text(geometry), board.shown()));
    problem.because = texts.chain(geometry.assumed.iter().cloned()).collect();
    let similar = nearest(geometry, layout);
    similar.iter().fold(problem, |problem, layout| problem.attempt(again(&layout.text(geometry))))
}
