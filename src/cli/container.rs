//! `gpusetup container`: GPUs in containers.

mod check;
mod translate;

use super::Problem;
use crate::exit::Exit;

/// What `container` does.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Print a request for GPUs in the forms of other engines, Compose and Kubernetes
    Translate(translate::Options),
    /// Check which CUDA an image needs and whether this host runs it; pull and run nothing
    Check(check::Options),
}

/// Does it.
pub fn run(command: &Command) -> Result<Exit, Problem> {
    match command {
        Command::Translate(options) => translate::run(options),
        Command::Check(options) => check::run(options),
    }
}
