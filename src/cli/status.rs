//! `gpusetup status` and `reboot-required`: how the last run ended, and what it waits for.

use super::Problem;
use super::host::{must_be_a_host, system};
use super::options::{HostOptions, JsonOption};
use super::run::{NothingApplied, ended};
use crate::apply::result::Ending;
use crate::apply::{self, Lock};
use crate::exit::Exit;
use crate::text;

/// Flags of `reboot-required`.
#[derive(Debug, clap::Args)]
pub(crate) struct RebootRequiredOptions {
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    form: JsonOption,
}

/// What `reboot-required --json` prints.
#[derive(serde::Serialize)]
struct RebootRequired {
    schema: &'static str,
    reboot_required: bool,
}

/// Flags of `status`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    host: HostOptions,
    /// Print the result as JSON
    #[arg(long, env = "GPUSETUP_JSON")]
    json: bool,
    /// Wait until the last apply has ended, across reboots; then exit with its exit code
    #[arg(long)]
    wait: bool,
    /// Seconds to wait with --wait
    #[arg(long, value_name = "SECONDS", default_value = "3600")]
    timeout: u64,
}

const NOTHING: &str = "gpusetup has applied nothing on this host";

/// Exit 0 if the host must reboot, 1 if not: what cloud-init's `power_state.condition` expects. An
/// error has another code.
pub(crate) fn reboot_required(options: &RebootRequiredOptions) -> Result<Exit, Problem> {
    let system = system(&options.host);
    must_be_a_host(&system)?;
    let waits = apply::waits_for_boot(&system)?;
    // 1 is no error here: it is what `power_state.condition` wants to hear.
    let reboot_required =
        waits || ended(&system)?.is_some_and(|e| e.state == Ending::Done && e.reboot_required);
    if options.form.json {
        super::print_json(&RebootRequired {
            schema: "gpusetup.reboot-required/1",
            reboot_required,
        })?;
    }
    Ok(if reboot_required {
        Exit::Done
    } else {
        Exit::Unexpected
    })
}

/// Prints how the last run ended.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    let system = system(&options.host);
    must_be_a_host(&system)?;
    let began = std::time::Instant::now();
    let mut is_announced = false;
    // Between two runs of one apply nobody holds the lock: what it waits for then is a boot, or
    // `resume`. While one is at work, its journal is not read: it is long, and says what is known.
    let ended = loop {
        let is_at_work = Lock::holder(&system).is_some();
        if !options.wait || !is_at_work {
            let ended = ended(&system)?;
            // On a new machine cloud-init may not have come to it yet.
            if options.wait && ended.is_none() && !std::mem::replace(&mut is_announced, true) {
                let limit = options.timeout;
                super::say(&format!(
                    "note: {NOTHING} yet; waiting up to {limit} s for an apply to begin and end"
                ));
            }
            if !options.wait || ended.as_ref().is_some_and(|e| e.state.is_last()) {
                break ended;
            }
        }
        if began.elapsed().as_secs() >= options.timeout {
            let sentence = format!("the last apply did not finish within {} s", options.timeout);
            return Err(
                Problem::new(Exit::Later, sentence).hint("see how far it is: gpusetup status")
            );
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    };
    let exit = ended
        .as_ref()
        .filter(|_| options.wait)
        .map_or(Exit::Done, |ended| Exit::of(ended.exit_code));
    let at_work = Lock::holder(&system);
    match (ended, options.json) {
        (Some(ended), true) => super::print_json(&ended)?,
        (None, true) => super::print_json(&NothingApplied::ANSWER)?,
        (ended, false) => {
            if let Some(holder) = at_work {
                super::print(&format!("gpusetup is running: {holder}\n"))?;
                // What it comes to is not known yet.
                return Ok(exit);
            }
            let sentence = ended.as_ref().map_or(NOTHING.to_owned(), |e| e.sentence());
            super::print(&format!("{}\n", text::message(&sentence)))?;
            for step in ended.iter().flat_map(|e| &e.steps) {
                super::print(&format!(
                    "  {:<18} {}\n",
                    step.id.to_string(),
                    step.state.as_str()
                ))?;
            }
        }
    }
    Ok(exit)
}
