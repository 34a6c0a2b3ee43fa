//! `gpusetup bundle`: everything that plans need in one place, made, packed and verified; and the
//! plan that comes out of one.

use super::files::{read_key, read_plan};
use super::host::{must_be_private, no_gpus, stock_facts, system_of, to_be_changed};
use super::locked::Locked;
use super::options::{
    DatabaseOptions, JsonOption, RequestOptions, SourceOptions, StockOptions, TrustOptions, folder,
};
use super::{Problem, print, say};
use crate::apply::{Failure, Lock, News};
use crate::bundle::{
    Bundle, BundleError, BundleSize, BundleStorage, Contents, Findings, Manifest, PROGRAM,
    added_repositories, closure, needed_packages,
};
use crate::cache::BUNDLES;
use crate::compat::Database;
use crate::exit::Exit;
use crate::fetch::{FetchRequest, Sources, fetch, fetch_small, is_cached};
use crate::host::{ProbeOptions, SystemId, probe};
use crate::operation::add_repository::MAX_KEY;
use crate::operation::{Download, Operation, valid};
use crate::paths;
use crate::plan::Plan;
use crate::planning::Planner;
use crate::render::progress::ProgressPrinter;
use crate::sum::short;
use crate::system::trust::Trust;
use crate::system::{System, interrupt, output};
use crate::text::{bytes, count, quoted};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What `bundle` does.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Collect everything that plans need, on a host with a network and the same system
    Create(Box<CreateOptions>),
    /// Pack a bundle folder and its signature into one file
    Pack {
        /// The bundle folder
        bundle: PathBuf,
        /// The .tar.zst file to write
        #[arg(short, long, value_name = "FILE")]
        out: PathBuf,
        #[command(flatten)]
        form: JsonOption,
    },
    /// Verify a bundle: list files that are missing, altered or surplus
    Verify {
        /// The bundle: a folder or a .tar.zst file
        bundle: PathBuf,
        /// Require a signature of this minisign public key
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long, env = "GPUSETUP_JSON")]
        json: bool,
    },
}

/// Flags of `bundle create`.
#[derive(Debug, clap::Args)]
pub(crate) struct CreateOptions {
    /// Plan from `gpusetup plan --out`; may be given several times
    #[arg(
        long = "plan",
        value_name = "PLAN.json",
        required_unless_present = "os"
    )]
    plans: Vec<PathBuf>,
    #[command(flatten)]
    stock: StockOptions,
    /// With --os: plan for this GPU (see `gpusetup plan --help`)
    #[arg(
        long,
        value_name = "SPEC",
        env = "GPUSETUP_GPU",
        value_delimiter = ',',
        requires = "os"
    )]
    gpu: Vec<String>,
    #[command(flatten)]
    request: RequestOptions,
    /// Bundle to write: a folder, or a file that ends in .tar.zst
    #[arg(short, long, value_name = "DIR|FILE.tar.zst")]
    out: PathBuf,
    /// Take packages from the repositories of the tree at DIR instead of this host's
    #[arg(long, value_name = "DIR", env = "GPUSETUP_ROOT")]
    root: Option<PathBuf>,
    /// Keep downloads in DIR
    #[arg(long, value_name = "DIR", env = "GPUSETUP_CACHE", default_value = paths::CACHE,
          value_parser = folder(valid::cache))]
    cache: PathBuf,
    /// The gpusetup program to put into the bundle [default: this one]
    #[arg(long, value_name = "FILE")]
    gpusetup: Option<PathBuf>,
    #[command(flatten)]
    database: DatabaseOptions,
    #[command(flatten)]
    source: SourceOptions,
    #[command(flatten)]
    trust: TrustOptions,
    /// Print lines instead of progress bars
    #[arg(long, env = "GPUSETUP_NO_PROGRESS")]
    no_progress: bool,
    #[command(flatten)]
    form: JsonOption,
}

impl From<BundleError> for Problem {
    fn from(e: BundleError) -> Self {
        let exit = match &e {
            BundleError::Interrupted => Exit::Signal(interrupt::heard().unwrap_or(2)),
            BundleError::Elsewhere(_) | BundleError::NotBrought(_) => Exit::NothingFits,
            BundleError::OtherProgram(_) => Exit::Integrity,
            BundleError::Unstartable { .. } => Exit::Blocked,
            BundleError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Exit::Usage
            }
            BundleError::Io { .. } | BundleError::Write(_) => Exit::Unexpected,
            _ => Exit::Integrity,
        };
        match e {
            BundleError::Input(e) => e.into(),
            BundleError::Packages(e) => not_gathered(e),
            BundleError::Repository(e) => not_gathered(e),
            BundleError::Unstartable { .. } => Self::new(exit, e.to_string())
                .hint("use a gpusetup that was built for an older glibc, or statically: --gpusetup FILE"),
            BundleError::OtherProgram(_) | BundleError::Schema(_) => Self::new(exit, e.to_string()).hint(format!(
                "run the gpusetup in the bundle: tar --zstd -xf BUNDLE {PROGRAM} && sudo ./{PROGRAM} apply --bundle BUNDLE"
            )),
            e => Self::new(exit, e.to_string()),
        }
    }
}

/// Why something cannot be collected. There is no journal here, so nothing can be resumed.
fn not_gathered(e: impl Into<Failure>) -> Problem {
    if interrupt::heard().is_some() {
        return BundleError::Interrupted.into();
    }
    match e.into() {
        Failure::Step(what) => Problem::new(Exit::NothingFits, what)
            .hint("the repositories of this host must contain what the plans install"),
        failure => failure.into(),
    }
}

pub(crate) fn run(command: &Command) -> Result<Exit, Problem> {
    interrupt::listen()
        .map_err(|e| Problem::unexpected(format!("cannot listen for signals: {e}")))?;
    match command {
        Command::Create(options) => create(options),
        Command::Pack { bundle, out, form } => pack(bundle, out, form.json),
        Command::Verify { bundle, key, json } => verify(bundle, key.as_deref(), *json),
    }
}

fn create(options: &CreateOptions) -> Result<Exit, Problem> {
    is_new(&options.out)?;
    let system = system_of(options.root.as_ref());
    must_be_private(&system, &options.cache)?;
    let database = options.database.open()?;
    let sources = options.source.sources()?;
    let trust = options.trust.trust()?;
    let mut plans = options
        .plans
        .iter()
        .map(|path| made_with(path, database, &trust))
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(os) = &options.stock.os {
        plans.push(stock_plan(os, options, database)?);
    }
    let here = repositories(options, &system, database, &plans)?;
    // Nobody else removes what is gathered; who is not root has a cache of their own.
    let _lock = match rustix::process::geteuid().is_root() {
        true => Some(Lock::take(&system, Duration::ZERO, &mut |_| {})?),
        false => None,
    };
    for plan in &mut plans {
        *plan = with_keys(plan, &sources)?;
    }
    let created = jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    let program = options
        .gpusetup
        .as_deref()
        .unwrap_or(Path::new("/proc/self/exe"));
    let mut contents = Contents::of(&plans, database, program, &created)?;
    for plan in &plans {
        artifacts(options, &system, &sources, plan, &mut contents)?;
    }
    let work = Work::folder(&system, &options.cache);
    if let Some(here) = here {
        // The bundle names the published repositories; their packages come from the mirrors.
        let plans = plans
            .iter()
            .map(|plan| plan.clone().fetched_from(&sources.mirrors, database));
        let plans: Vec<_> = plans.collect();
        packages(&system, here, &plans, &work, &mut contents, &created)?;
    }
    let written = contents.write(&options.out, &mut progress_printer("written"))?;
    say_what_was_made(&options.out, written, options.form.json)
}

/// The plan for a new installation of a system.
fn stock_plan(os: &str, options: &CreateOptions, database: &Database) -> Result<Plan, Problem> {
    let locked = Locked::read(options.request.locked.as_ref(), &options.trust)?;
    let mut facts = stock_facts(os, None, &options.gpu, database)?;
    let request = {
        let (assumed, machine) = (options.gpu.clone(), facts.machine.kind);
        options.request.request(
            Path::new(paths::PREFIX),
            &options.cache,
            assumed,
            machine,
            options.root.as_deref(),
        )?
    };
    let planner = Planner {
        lock: locked.file(),
        ..Planner::new(database)
    };
    planner.observe_new(&mut facts, &request);
    let planned = planner.plan(facts, request).map_err(|e| {
        let is_without_gpu = e.is_without_gpu();
        let problem = locked.not_planned(e, &format!("--os {}", quoted(os)));
        if is_without_gpu {
            no_gpus(problem)
        } else {
            problem
        }
    })?;
    Ok(planned.plan)
}

/// What `bundle create --json` and `bundle pack --json` print.
#[derive(serde::Serialize)]
struct Made<'a> {
    schema: &'static str,
    bundle: &'a Path,
    files: u64,
    bytes: u64,
    bytes_on_disk: u64,
}

fn say_what_was_made(out: &Path, written: BundleSize, json: bool) -> Result<Exit, Problem> {
    let BundleSize {
        files,
        bytes: all,
        on_disk,
    } = written;
    if json {
        let schema = "gpusetup.bundle-made/1";
        super::print_json(&Made {
            schema,
            bundle: out,
            files,
            bytes: all,
            bytes_on_disk: on_disk,
        })?;
        return Ok(Exit::Done);
    }
    let packed = if on_disk == all {
        String::new()
    } else {
        format!(", {} packed", bytes(on_disk))
    };
    print(&format!(
        "{}: {}, {}{packed}.\n",
        out.display(),
        count(files, "file"),
        bytes(all)
    ))?;
    Ok(Exit::Done)
}

fn is_new(out: &Path) -> Result<(), Problem> {
    let what = format!("{} is there already", out.display());
    if output::is_taken(out) {
        Err(Problem::usage(what).hint("use another path, or remove it"))
    } else {
        Ok(())
    }
}

/// A plan that was made with this database, which is the one in the bundle.
fn made_with(path: &Path, database: &Database, trust: &Trust) -> Result<Plan, Problem> {
    let plan = read_plan(path, trust)?;
    if plan.database.sha256 == database.sha256 {
        return Ok(plan.as_published(database));
    }
    let sentence = format!(
        "{} was made with another database, of {}",
        path.display(),
        plan.database.version
    );
    Err(Problem::integrity(sentence)
        .hint("make a new plan, or name the plan's database with --database DIR"))
}

/// The plan with the keys of the repositories that it adds, so that the host need not fetch them.
fn with_keys(plan: &Plan, sources: &Sources) -> Result<Plan, Problem> {
    let mut plan = plan.clone();
    for act in plan.steps.iter_mut().flat_map(|step| &mut step.operations) {
        let Operation::AddRepository(repository) = &mut act.operation else {
            continue;
        };
        let urls: Vec<_> = repository
            .keys
            .iter()
            .map(|key| sources.mirrors.of(&repository.url_of(key)))
            .collect();
        for (key, url) in repository
            .keys
            .iter_mut()
            .zip(urls)
            .filter(|(key, _)| key.content.is_none())
        {
            let fetched = fetch_small(&url, MAX_KEY, sources).map_err(not_gathered)?;
            key.content = Some(
                key.checked(
                    &fetched.ok_or_else(|| {
                        Problem::new(
                            Exit::Later,
                            format!("the repository has no signing key {url}"),
                        )
                    })?,
                    &url,
                )
                .map_err(BundleError::from)?,
            );
        }
    }
    Ok(plan)
}

/// Fetches what a plan downloads.
fn artifacts(
    options: &CreateOptions,
    system: &System,
    sources: &Sources,
    plan: &Plan,
    contents: &mut Contents,
) -> Result<(), Problem> {
    let mut teller = ProgressPrinter::new(!options.no_progress, true);
    for act in plan.acts().filter(|a| !a.satisfied) {
        let Operation::Download(Download {
            url,
            sha256,
            size,
            to,
        }) = &act.operation
        else {
            continue;
        };
        let to = options
            .cache
            .join(short(sha256))
            .join(to.file_name().unwrap_or_default());
        must_be_private(system, to.parent().unwrap_or(&options.cache))?;
        let url = sources.mirrors.of(url);
        let wanted = FetchRequest {
            url: &url,
            sha256,
            size: *size,
            to: &to,
        };
        if !is_cached(system, &wanted) {
            if sources.offline && !url.starts_with("file:") {
                let sentence =
                    format!("{url} is not in the cache, and --offline forbids downloads");
                return Err(Problem::new(Exit::Blocked, sentence));
            }
            let began = Instant::now();
            let operation = &act.operation;
            fetch(
                system,
                &wanted,
                sources,
                &mut |have| {
                    teller.tell(&News::Working {
                        operation,
                        since: began.elapsed(),
                        bytes: Some((have, *size)),
                    });
                },
                None,
            )
            .map_err(not_gathered)?;
            teller.tell(&News::Done(operation));
        }
        contents.artifact(system, sha256, &to)?;
    }
    Ok(())
}

/// A temporary folder in the host's cache, which is removed however this ends.
struct Work {
    system: System,
    path: PathBuf,
}

impl Work {
    fn folder(system: &System, cache: &Path) -> Self {
        Self {
            system: system.clone(),
            path: cache
                .join(BUNDLES)
                .join(format!("new-{}", std::process::id())),
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // What is left is a matter of room, and `cache clean` finds it.
        let _ = self.system.remove_tree(&self.path);
        let _ = self.path.parent().map(|all| self.system.remove(all));
    }
}

/// The system whose repositories are used, if the plans need any: theirs.
fn repositories(
    options: &CreateOptions,
    system: &System,
    database: &Database,
    plans: &[Plan],
) -> Result<Option<SystemId>, Problem> {
    if plans.iter().flat_map(needed_packages).next().is_none() {
        return Ok(None);
    }
    let look = ProbeOptions {
        prefix: paths::PREFIX.into(),
        cache: options.cache.clone(),
        gpus: crate::host::GpuSource::Bus,
    };
    let here =
        SystemId::of(&probe(system, database, &look).map_err(|e| Problem::usage(e.to_string()))?);
    if let Some(plan) = plans
        .iter()
        .find(|p| !needed_packages(p).is_empty() && SystemId::of(&p.host) != here)
    {
        let there = SystemId::of(&plan.host);
        let sentence = format!(
            "the plan for {there} installs packages, and the repositories here are those of {here}"
        );
        return Err(
            Problem::from(BundleError::Elsewhere(sentence)).hint(format!(
                "make the bundle on {there}, or use a tree of that system: --root DIR"
            )),
        );
    }
    Ok(Some(here))
}

fn packages(
    system: &System,
    here: SystemId,
    plans: &[Plan],
    work: &Work,
    contents: &mut Contents,
    created: &str,
) -> Result<(), Problem> {
    let transactions: Vec<_> = plans.iter().flat_map(needed_packages).collect();
    let Some(manager) = transactions.first().map(|t| t.manager) else {
        return Ok(());
    };
    say("downloading packages and their dependencies");
    system.make_directories(&work.path, 0o700).map_err(|e| {
        Problem::new(
            Exit::Blocked,
            format!("cannot make {}: {e}", work.path.display()),
        )
        .hint("use a folder that you may write to: --cache DIR")
    })?;
    let mut added: Vec<_> = plans.iter().flat_map(added_repositories).collect();
    added.dedup_by_key(|repository| &repository.name);
    let closure = closure(
        &to_be_changed(system)?,
        &here,
        &work.path,
        &transactions,
        &added,
        created,
    )?;
    say(&format!(
        "{} for {here}",
        count(closure.packages.len() as u64, "package")
    ));
    Ok(contents.packages(system, here, manager, closure)?)
}

/// Prints the progress every ten seconds.
fn progress_printer(what: &'static str) -> impl FnMut(u64, u64) {
    let mut last = Instant::now();
    move |have, all| {
        if last.elapsed() >= Duration::from_secs(10) {
            last = Instant::now();
            say(&format!("  {} of {} {what}", bytes(have), bytes(all)));
        }
    }
}

fn pack(folder: &Path, out: &Path, json: bool) -> Result<Exit, Problem> {
    if !crate::bundle::is_archive(out) {
        return Err(Problem::usage(format!(
            "{} does not end in .tar.zst",
            out.display()
        )));
    }
    is_new(out)?;
    let written = Contents::of_bundle(&Bundle::open(folder, None, &Trust::Anybody)?)?
        .write(out, &mut progress_printer("written"))?;
    say_what_was_made(out, written, json)
}

/// What `bundle verify --json` prints.
#[derive(serde::Serialize)]
struct Report<'a> {
    schema: &'static str,
    bundle: &'a Path,
    sound: bool,
    signed: bool,
    #[serde(flatten)]
    findings: &'a Findings,
    manifest: &'a Manifest,
}

fn verify(path: &Path, key: Option<&Path>, json: bool) -> Result<Exit, Problem> {
    let key = key.map(read_key).transpose()?;
    let bundle = BundleStorage::open(path, &Trust::Anybody)?;
    let manifest = crate::bundle::manifest(&bundle, key.as_deref())?;
    let findings = crate::bundle::verify(&bundle, &manifest)?;
    if json {
        let sound = findings.is_sound();
        let schema = "gpusetup.bundle-verify/1";
        super::print_json(&Report {
            schema,
            bundle: path,
            sound,
            signed: key.is_some(),
            findings: &findings,
            manifest: &manifest,
        })?;
    } else {
        let kinds = [
            ("missing", &findings.missing),
            ("altered", &findings.altered),
            ("surplus", &findings.surplus),
        ];
        for (kind, names) in kinds {
            names
                .iter()
                .try_for_each(|name| print(&format!("{kind}  {name}\n")))?;
        }
    }
    if !findings.is_sound() {
        let Findings {
            missing,
            altered,
            surplus,
        } = &findings;
        let (missing, altered, surplus) = (missing.len(), altered.len(), surplus.len());
        let sentence = format!(
            "{} is not the bundle that was made: {missing} missing, {altered} altered, {surplus} surplus",
            path.display()
        );
        return Err(
            Problem::integrity(sentence).hint("make or copy the bundle again; nothing was changed")
        );
    }
    if !json {
        let signed = if key.is_some() {
            "signed by the key"
        } else {
            "no signature was asked for (--key FILE)"
        };
        let (files, size) = (manifest.files.len() as u64, manifest.size());
        print(&format!(
            "{}, {}: all as they were made; {signed}.\n",
            count(files, "file"),
            bytes(size)
        ))?;
    }
    Ok(Exit::Done)
}
