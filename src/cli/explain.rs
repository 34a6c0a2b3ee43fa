//! `gpusetup explain`: why a version is chosen or refused, what a check or an exit code means.

use super::Problem;
use super::host::{look, system};
use super::locked::Locked;
use super::options::{HostOptions, LookOptions, RequestOptions, TrustOptions};
use crate::causes;
use crate::compat::AddOnId;
use crate::doctor::CHECKS;
use crate::exit::{EXITS, Exit};
use crate::ids::CheckId;
use crate::planning::Planner;
use crate::render;
use crate::resolve::{Conflict, ConflictKind, resolve};
use crate::text::wrapped;
use crate::version::{Version, Want};

/// Flags of `explain`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// cuda 13.0, driver 535, cudnn 8.9, nccl 2.27; a check, GS201; or an exit code, exit 4
    #[arg(required = true, num_args = 1..=2, value_name = "SUBJECT")]
    subject: Vec<String>,
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    request: RequestOptions,
    #[command(flatten)]
    look: LookOptions,
    #[command(flatten)]
    trust: TrustOptions,
}

/// Explains.
pub fn run(options: &Options) -> Result<Exit, Problem> {
    let words: Vec<_> = options.subject.iter().map(|w| w.to_lowercase()).collect();
    let words: Vec<_> = words.iter().flat_map(|w| w.split_whitespace()).collect();
    match words.as_slice() {
        [check] if check.starts_with("gs") => explain_check(check),
        ["exit" | "exit-code", code] => explain_exit(code),
        [layer] if is_layer(layer, options)? => version(options, layer, "latest"),
        [layer, wanted] if is_layer(layer, options)? => version(options, layer, wanted),
        _ => Err(Problem::usage(format!("`{}` is nothing that can be explained", options.subject.join(" "))).hint(
            format!(
                "try: gpusetup explain cuda 13.0 --gpu v100; gpusetup explain {}; gpusetup explain exit {}",
                CheckId::GS201,
                Exit::NothingFits
            ),
        )),
    }
}

/// Whether this is the driver, CUDA or an add-on.
fn is_layer(word: &str, options: &Options) -> Result<bool, Problem> {
    Ok(["driver", "cuda"].contains(&word) || options.host.database()?.add_on_named(word).is_some())
}

/// What plan, apply and doctor mean by an id, and what helps.
fn explain_check(text: &str) -> Result<Exit, Problem> {
    let width = super::width();
    let id: CheckId = text.parse().map_err(|_| {
        Problem::usage(format!("there is no check {}", text.to_uppercase()))
            .hint("see them all with: gpusetup doctor --list-checks")
    })?;
    let cause = causes::of(id);
    let mut out = wrapped(&format!("{id}  "), id.title(), width);
    out += &wrapped("  means         ", cause.means, width);
    if let Some(remedy) = &cause.remedy {
        out += &wrapped("  fix           ", &remedy.text, width);
        out.extend(remedy.commands.iter().map(|command| format!("                {command}\n")));
    }
    if let Some(place) = cause.elsewhere {
        out += &wrapped("  no check      ", place, width);
    }
    if let Some(check) = CHECKS.iter().find(|c| c.id == id) {
        out += &wrapped("  reads         ", check.reads, width);
        if !check.follows_from.is_empty() {
            let others: Vec<_> = check.follows_from.iter().map(|id| id.as_str()).collect();
            out += &wrapped("  may follow    ", &format!("from {}", others.join(", ")), width);
        }
        out += &format!("  look now      gpusetup doctor {id}\n");
    }
    super::print(&out)?;
    Ok(Exit::Done)
}

fn explain_exit(code: &str) -> Result<Exit, Problem> {
    let found = EXITS.iter().find(|(exit, _)| exit.to_string() == code);
    let codes = || EXITS.map(|(exit, _)| exit.to_string()).join(", ");
    let (exit, meaning) =
        found.ok_or_else(|| Problem::usage(format!("gpusetup has no exit code {code}; it has {}", codes())))?;
    super::print(&wrapped(&format!("{exit}  "), meaning, super::width()))?;
    Ok(Exit::Done)
}

/// Asks for the version, and tells the proof of yes or no.
fn version(options: &Options, layer: &str, wanted: &str) -> Result<Exit, Problem> {
    let database = options.host.database()?;
    let locked = Locked::read(options.request.locked.as_ref(), &options.trust)?;
    let (facts, assumed) = look(&options.host, database)?;
    let system = system(&options.host);
    let planner = Planner {
        repositories: options.host.is_meant().then_some(&system),
        lock: locked.file(),
        ..Planner::new(database)
    };
    let prepared = planner.prepared(facts, options.request.request(&options.host, assumed)?);
    let (facts, mut request) = prepared.map_err(|e| locked.not_planned(e, &options.host, None))?;
    let named = match layer {
        "driver" => {
            request.driver = want("driver", wanted)?;
            format!("driver {wanted}")
        }
        "cuda" => {
            request.cuda = want("cuda", wanted)?;
            format!("CUDA {wanted}")
        }
        _ => {
            let Some(of) = database.add_on_named(layer) else {
                return Err(Problem::usage(format!("no add-on is called `{layer}`")));
            };
            let want = want(layer, wanted)?;
            match of.id {
                AddOnId::CUDNN => request.cudnn = want,
                id => drop(request.add_ons.insert(id, want)),
            }
            format!("{} {wanted}", of.title)
        }
    };
    let answer = match resolve(database, &facts, &request) {
        Ok(resolution) => Ok((resolution.selection(), resolution.reasons)),
        Err(conflict @ Conflict { kind: ConflictKind::NothingFits, .. }) => {
            Err(conflict.on_host(&options.host.again(None)))
        }
        Err(conflict) => return Err(conflict.into()),
    };
    if options.look.json {
        super::print_json(&render::explain::Proof::of(&answer))?;
    } else {
        let paint = super::paint(options.look.color);
        super::print(&render::explain::text(&named, &answer, database, paint, super::width()))?;
    }
    Ok(if answer.is_ok() { Exit::Done } else { Exit::NothingFits })
}

fn want<V: Version>(flag: &str, text: &str) -> Result<Want<V>, Problem>
where
    Want<V>: std::str::FromStr<Err = crate::version::VersionError>,
{
    text.parse().map_err(|e| Problem::usage(format!("{flag}: {e}")))
}
