//! `gpusetup facts`: what this host is.

use super::Problem;
use super::host::look_with_offers;
use super::options::{HostOptions, LookOptions};
use crate::exit::Exit;
use crate::render;

/// Flags of `facts`.
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    look: LookOptions,
}

/// Prints the facts.
pub fn run(options: &Options) -> Result<Exit, Problem> {
    let database = options.host.database()?;
    let facts = look_with_offers(&options.host, database)?;
    if options.look.json {
        super::print_json(&facts)?;
    } else {
        super::print(&render::facts::text(&facts, super::width()))?;
    }
    Ok(Exit::Done)
}
