//! `gpusetup list`: what is installed, by whom, and which toolkit is the default one.

use super::Problem;
use super::host::{look, system};
use super::options::{HostOptions, LookOptions};
use crate::exit::Exit;
use crate::listing::Listing;
use crate::render;

/// Flags of `list`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    look: LookOptions,
}

/// Prints the list.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    let database = options.host.database()?;
    let (facts, _) = look(&options.host, database)?;
    let listing = Listing::of(
        &system(&options.host),
        database,
        &facts,
        &options.host.prefix,
    );
    if options.look.json {
        super::print_json(&listing)?;
    } else {
        let root = options.host.root.as_deref();
        let text = render::listing::text(
            &listing,
            root,
            super::paint(options.look.color),
            super::width(),
        );
        super::print_text(text, options.look.color, options.host.root.is_none())?;
    }
    Ok(Exit::Done)
}
