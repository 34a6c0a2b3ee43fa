//! `gpusetup container`: GPUs in containers.

mod check;
mod translate;

use super::Problem;
use crate::exit::Exit;

/// What `container` does.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print the GPU request of a docker or podman command line for Docker, Podman, CDI, Compose
    /// and Kubernetes
    Translate(translate::Options),
    /// Check which CUDA an image needs and whether this host runs it; pull and run nothing
    Check(check::Options),
}

/// Runs `gpusetup container`.
pub(crate) fn run(command: &Command) -> Result<Exit, Problem> {
    match command {
        Command::Translate(options) => translate::run(options),
        Command::Check(options) => check::run(options),
    }
}
