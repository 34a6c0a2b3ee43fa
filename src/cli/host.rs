//! The host that the flags name: its files, its facts and the GPUs that are assumed for it.

use super::files::{read_facts, read_lspci};
use super::options::{HostOptions, StockOptions, to_the_end};
use super::{Problem, say};
use crate::apply::Failure;
use crate::bundle::Bundle;
use crate::compat::Database;
use crate::database::embedded;
use crate::exit::Exit;
use crate::host::{
    Facts, Gpu, GpuSource, ProbeOptions, SpecError, StockError, add_offers, architecture_of,
    assumed_gpus, assumptions, probe, stock,
};
use crate::packages::Versions;
use crate::private::{self, Extent};
use crate::system::limits::{LeftOut, MAX_NAMED};
use crate::system::{System, enter};
use crate::text::{count, one_line, quoted, quoted_path};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The facts of the host that the flags name, and the GPUs assumed by `--gpu`, by what was said for
/// each.
pub(crate) fn look(
    options: &HostOptions,
    database: &Database,
) -> Result<(Facts, Vec<String>), Problem> {
    let system = system(options).looked_at();
    let facts = examined(options, &system, database, |_| ())?;
    tell_left_out(system.left_out());
    Ok((facts, options.gpu.clone()))
}

/// The same; for a new installation of another system, if that is what the flags name.
pub(crate) fn look_or_stock(
    options: &HostOptions,
    os: &StockOptions,
    database: &Database,
) -> Result<(Facts, Vec<String>), Problem> {
    let Some(spec) = &os.os else {
        return look(options, database);
    };
    if let Some(root) = &options.root {
        return Err(
            Problem::usage("--os and --root each name a host; use one of them")
                .attempt(format!("gpusetup plan --os {}", quoted(spec)))
                .attempt(format!("gpusetup plan --root {}", quoted_path(root))),
        );
    }
    let lspci = options.lspci.as_deref().map(read_lspci).transpose()?;
    let facts = stock_facts(spec, lspci.as_deref(), &options.gpu, database)?;
    Ok((facts, options.gpu.clone()))
}

/// The facts of a new installation of a system, with the GPUs of an lspci listing or those assumed.
pub(crate) fn stock_facts(
    spec: &str,
    lspci: Option<&str>,
    gpus: &[String],
    database: &Database,
) -> Result<Facts, Problem> {
    let needed: Vec<_> = gpus
        .iter()
        .filter_map(|gpu| Some((gpu, architecture_of(database, gpu)?)))
        .collect();
    let named = match (spec.contains(':'), needed.first()) {
        // The machine that has these GPUs says what it is.
        (false, Some((_, arch))) => format!("{spec}:{arch}"),
        _ => spec.to_owned(),
    };
    let mut facts = stock(database, &named, lspci).map_err(|e| no_such_system(&e))?;
    if let Some((gpu, arch)) = needed.iter().find(|(_, arch)| *arch != facts.machine.arch) {
        let sentence = format!(
            "--gpu {gpu} is in machines with {arch} processors; --os {spec} has {}",
            facts.machine.arch
        );
        let system = spec.split(':').next().unwrap_or_default();
        let again = format!(
            "gpusetup plan --os {} --gpu {}",
            quoted(&format!("{system}:{arch}")),
            quoted(gpu)
        );
        return Err(Problem::new(Exit::NothingFits, sentence).attempt(again));
    }
    replace_gpus(&mut facts, gpus);
    assume_gpus(&mut facts, gpus, database)?;
    say(&assumptions(database, &facts));
    Ok(facts.visible())
}

/// The same refusal, for --os without --gpu.
pub(crate) fn no_gpus(problem: Problem) -> Problem {
    Problem {
        message: "--os describes a system without GPUs".to_owned(),
        ..problem
    }
}

/// What a system that is not known comes to.
pub(crate) fn no_such_system(e: &StockError) -> Problem {
    let problem = Problem::usage(format!("--os: {e}")).attempt("gpusetup db list systems");
    problem.hint(
        "on a host with that system, `gpusetup facts --json > FILE` writes what `gpusetup plan --facts FILE` reads",
    )
}

/// Says what a look did not read because of its limits.
pub(crate) fn tell_left_out(left_out: Vec<LeftOut>) {
    if let Some((LeftOut { path, why, .. }, more)) = left_out.split_first() {
        let more = match more.len() {
            0 => String::new(),
            number if number + 1 < MAX_NAMED => {
                format!("; nor {}", count(number as u64, "more file"))
            }
            _ => "; nor many more files".to_owned(),
        };
        say(&format!(
            "not read: {}: {why}{more}",
            one_line(&quoted_path(path))
        ));
    }
}

/// The facts, and what the host's repositories offer.
pub(crate) fn look_with_offers(
    options: &HostOptions,
    database: &Database,
) -> Result<Facts, Problem> {
    let system = system(options).looked_at();
    examined(options, &system, database, |facts| {
        add_offers(&system, facts, database, &Versions::new())
    })
}

fn examined(
    options: &HostOptions,
    system: &System,
    database: &Database,
    add: impl FnOnce(&mut Facts),
) -> Result<Facts, Problem> {
    let gpus = match &options.lspci {
        Some(path) => GpuSource::Lspci(read_lspci(path)?),
        None => GpuSource::Bus,
    };
    let look = ProbeOptions {
        prefix: options.prefix.clone(),
        cache: options.cache.clone(),
        gpus,
    };
    let mut facts = probe(system, database, &look).map_err(|e| match options.root {
        Some(_) => not_a_host(e.to_string()),
        None => Problem::usage(e.to_string()),
    })?;
    add(&mut facts);
    // A tree or a listing is a description: its GPUs are replaced. On this host they are there,
    // whatever else is assumed.
    if options.root.is_some() || options.lspci.is_some() {
        replace_gpus(&mut facts, &options.gpu);
    }
    assume_gpus(&mut facts, &options.gpu, database)?;
    Ok(facts.visible())
}

/// The facts in a file, with the GPUs that `--gpu` names instead of those in it.
pub(crate) fn described(
    path: &Path,
    options: &HostOptions,
    database: &Database,
) -> Result<(Facts, Vec<String>), Problem> {
    let mut facts = read_facts(path)?;
    replace_gpus(&mut facts, &options.gpu);
    assume_gpus(&mut facts, &options.gpu, database)?;
    Ok((facts, options.gpu.clone()))
}

/// Removes the host's own GPUs, and what was seen of them, if `--gpu` names others.
fn replace_gpus(facts: &mut Facts, gpus: &[String]) {
    if !gpus.is_empty() {
        facts.gpus.clear();
        facts.nvswitches.clear();
        facts.unreadable.retain(|u| u.missing.is_none());
    }
}

fn assume_gpus(facts: &mut Facts, gpus: &[String], database: &Database) -> Result<(), Problem> {
    for spec in gpus {
        let more = assumed_gpus(database, spec).map_err(|e| no_such_gpu(spec, &e))?;
        for mut gpu in more {
            let count = facts.gpus.iter().filter(|g| g.assumed).count();
            gpu.address = format!("assumed:{count}");
            facts.gpus.push(gpu);
        }
    }
    Ok(())
}

/// The GPU that a text names; the first, if it stands for several alike.
pub(crate) fn one_gpu(database: &Database, spec: &str) -> Result<Gpu, Problem> {
    let found = assumed_gpus(database, spec).map_err(|e| no_such_gpu(spec, &e))?;
    found
        .into_iter()
        .next()
        .ok_or_else(|| Problem::usage(format!("{spec} names no GPU")))
}

/// What a GPU that cannot be told from others, or is not known, comes to.
pub(crate) fn no_such_gpu(spec: &str, e: &SpecError) -> Problem {
    let exit = if matches!(e, SpecError::Unsupported { .. }) {
        Exit::NothingFits
    } else {
        Exit::Usage
    };
    Problem {
        exit,
        message: format!("--gpu {spec}: {e}"),
        ..named_gpu(spec, e)
    }
}

/// The same for a GPU that is no value of `--gpu`.
pub(crate) fn named_gpu(spec: &str, e: &SpecError) -> Problem {
    let problem = Problem::usage(e.to_string());
    match e {
        SpecError::Ambiguous { .. } => {
            problem.attempt(format!("gpusetup db list gpus --for {}", quoted(spec)))
        }
        SpecError::Family { kind, .. } => problem.attempt(format!("gpusetup db list {kind}")),
        _ => problem.attempt("gpusetup db list gpus"),
    }
}

pub(crate) fn system(host: &HostOptions) -> System {
    system_of(host.root.as_ref())
}

/// The host whose root directory this is; without one this machine.
pub(crate) fn system_of(root: Option<&PathBuf>) -> System {
    root.map_or_else(System::live, |root| offline_root(root))
}

/// A tree: the same host whenever a command asks for it, because all its looks share what work they
/// may take.
fn offline_root(root: &Path) -> System {
    static OPEN: Mutex<Vec<System>> = Mutex::new(Vec::new());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = open.iter().find(|system| system.root() == root).cloned();
    known.unwrap_or_else(|| {
        let new = System::at(root);
        open.push(new.clone());
        new
    })
}

/// Refuses a directory that is no host: `--root` was mistyped, or the image is not mounted.
pub(crate) fn must_be_a_host(system: &System) -> Result<(), Problem> {
    if system.exists("/etc/os-release") {
        return Ok(());
    }
    Err(not_a_host(format!(
        "{} is not a Linux host: it has no etc/os-release",
        system.root().display()
    )))
}

fn not_a_host(what: String) -> Problem {
    Problem::usage(what)
        .hint(
            "--root DIR names the root directory of a host, with an image or a disk mounted there",
        )
        .attempt("gpusetup explain option root")
}

/// Refuses a directory that others may write to, where root is about to write to it and to trust
/// what is in it.
pub(crate) fn must_be_private(system: &System, directory: &Path) -> Result<(), Problem> {
    if rustix::process::geteuid().is_root() {
        private::private_directory(system, directory, Extent::Path).map_err(Failure::from)?;
    }
    Ok(())
}

/// The same host to be changed. A tree whose programs cannot be contained is refused: its author
/// would be root here.
pub(crate) fn to_be_changed(system: &System) -> Result<System, Problem> {
    enter::check(system).map_err(|e| {
        let root = quoted_path(system.root());
        Problem::new(Exit::Blocked, e.to_string())
            .hint("it takes CAP_SYS_ADMIN, which containers lack by default (docker run --cap-add SYS_ADMIN)")
            .attempt(format!("gpusetup plan --root {root}"))
    })?;
    Ok(system.to_be_changed())
}

pub(crate) fn only_root(system: &System) -> Result<(), Problem> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let what = if system.is_live() {
        "this host"
    } else {
        "the tree"
    };
    Err(
        Problem::new(Exit::Blocked, format!("only root may change {what}"))
            .hint("run it with sudo"),
    )
}

/// The database for a host's plans: the one that is named, else the bundle's, else the one in use.
pub(crate) fn database(
    host: &HostOptions,
    bundle: Option<&Bundle>,
) -> Result<&'static Database, Problem> {
    match bundle {
        Some(bundle) if host.database.folder.is_none() => {
            Ok(to_the_end(bundle.database(embedded)?))
        }
        _ => host.database(),
    }
}
