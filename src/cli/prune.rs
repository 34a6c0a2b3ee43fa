//! `gpusetup prune`: removes downloads, leftovers and copies that nothing needs any more.

use super::host::{look, must_be_a_host, must_be_private, only_root, system};
use super::options::{HostOptions, LookOptions};
use super::run::agreed;
use super::{Problem, say};
use crate::apply::{Lock, Pruned, Unused, UnusedKind, remove_unused, unused};
use crate::exit::Exit;
use crate::system::System;
use crate::text::{bytes, counted, one_line, wrapped};
use std::time::Duration;

/// Flags of `prune`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only list what would be removed, with sizes
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long, env = "GPUSETUP_YES")]
    yes: bool,
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    look: LookOptions,
}

/// Removes it, or lists it.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    let system = system(&options.host);
    must_be_a_host(&system)?;
    if options.dry_run {
        let unused = found(options, &system)?;
        return tell(options, unused, false);
    }
    only_root(&system)?;
    must_be_private(&system, &options.host.cache)?;
    let _lock = Lock::take(&system, Duration::ZERO, &mut |_| {})?;
    let unused = found(options, &system)?;
    if !unused.is_empty() && !options.yes {
        say(&text(&unused));
        if !agreed("Remove it?")? {
            say("nothing was removed");
            return Ok(Exit::Done);
        }
    }
    for one in &unused {
        remove_unused(&system, one).map_err(|e| {
            Problem::unexpected(format!("cannot remove {}: {e}", one.path.display()))
        })?;
    }
    tell(options, unused, true)
}

fn found(options: &Options, system: &System) -> Result<Vec<Unused>, Problem> {
    let (facts, _) = look(&options.host, options.host.database()?)?;
    unused(
        system,
        &options.host.cache,
        &options.host.prefix,
        &facts.toolkits,
    )
    .map_err(|e| {
        let problem = Problem::from(e);
        if rustix::process::geteuid().is_root() {
            problem
        } else {
            problem.hint("run it with sudo")
        }
    })
}

fn tell(options: &Options, unused: Vec<Unused>, removed: bool) -> Result<Exit, Problem> {
    let sum = unused.iter().map(|one| one.bytes).sum();
    if options.look.json {
        super::print_json(&Pruned::of(unused, removed))?;
        return Ok(Exit::Done);
    }
    let things = counted(
        unused.len() as u64,
        "file or directory",
        "files and directories",
    );
    let end = match (unused.is_empty(), removed) {
        (true, _) => "Nothing to remove.\n".to_owned(),
        (_, true) => format!("Removed {things}, {}.\n", bytes(sum)),
        (_, false) => {
            let command = options.host.here("sudo gpusetup prune");
            format!("{things}, {}. `{command}` removes them.\n", bytes(sum))
        }
    };
    let list = if removed {
        String::new()
    } else {
        text(&unused)
    };
    super::print(&(list + &end))?;
    Ok(Exit::Done)
}

/// What can go, a line each.
fn text(unused: &[Unused]) -> String {
    unused
        .iter()
        .map(|one| {
            let what = match one.kind {
                UnusedKind::Download => "download",
                UnusedKind::BrokenDownload => "incomplete or rejected download",
                UnusedKind::BundlePackages => "packages from bundles",
                UnusedKind::Leftover => "left by a run that ended early",
                UnusedKind::Backup => "copy for an undo that is no longer possible",
            };
            let path = one_line(&one.path.to_string_lossy());
            wrapped(
                &format!("{:>9}  ", bytes(one.bytes)),
                &format!("{path}: {what}"),
                super::width(),
            )
        })
        .collect()
}
