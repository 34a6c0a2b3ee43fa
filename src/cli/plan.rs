//! `gpusetup plan`: what would be done, and why.

use super::Problem;
use super::files::save;
use super::host::{database, described, look_or_stock, no_gpus, system, tell_left_out};
use super::locked::{self, Locked};
use super::options::{
    BundleOptions, HostOptions, IfNoGpu, LookOptions, RebootOption, RequestOptions, SourceOptions,
    StockOptions, TrustOptions,
};
use super::run::tell_warnings;
use crate::apply;
use crate::bundle::Bundle;
use crate::compat::Database;
use crate::exit::Exit;
use crate::fetch::Sources;
use crate::host::{Gpu, MachineKind, Os, architecture_of, assumed_gpus, stock, system_named};
use crate::ids::{CheckId, RuleId};
use crate::plan::Plan;
use crate::planning::{Planner, PlanningError, with_toolkit};
use crate::render;
use crate::render::cloud_init::{UserDataOptions, files, user_data};
use crate::system::System;
use crate::text::{public_address, quoted, quoted_path, visible};
use clap::ValueEnum;
use std::path::PathBuf;

/// Flags of `plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    stock: StockOptions,
    #[command(flatten)]
    request: RequestOptions,
    #[command(flatten)]
    source: SourceOptions,
    #[command(flatten)]
    bundle: BundleOptions,
    #[command(flatten)]
    trust: TrustOptions,
    #[command(flatten)]
    look: LookOptions,
    /// Plan for the host described by this `facts --json` file (- for standard input)
    #[arg(long, value_name = "FILE", env = "GPUSETUP_FACTS", conflicts_with_all = ["root", "lspci", "os"])]
    facts: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "text", conflicts_with = "json")]
    format: Format,
    /// Save the plan to FILE, for `gpusetup apply FILE`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write a lock file for `--locked`: versions, files with checksums, packages with dependencies
    #[arg(long, value_name = "FILE", conflicts_with_all = ["facts", "os"])]
    lock: Option<PathBuf>,
    /// In user-data: accept NVIDIA's licences
    #[arg(long, env = "GPUSETUP_ACCEPT_EULA")]
    accept_eula: bool,
    /// In user-data: who reboots the machine, gpusetup (if-needed) or cloud-init (external)
    #[arg(long, value_enum, env = "GPUSETUP_REBOOT", default_value = "if-needed")]
    reboot: RebootOption,
    /// In user-data: download gpusetup from URL, which has no login, if the image does not contain
    /// it
    #[arg(long, value_name = "URL", requires = "binary_sha256")]
    binary_url: Option<String>,
    /// In user-data: the SHA-256 of the file at --binary-url
    #[arg(long, value_name = "SUM", requires = "binary_url", value_parser = super::options::sum)]
    binary_sha256: Option<String>,
    /// Exit 3 if changes are pending
    #[arg(long)]
    exit_code: bool,
}

/// Forms of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For reading
    Text,
    /// One JSON object
    Json,
    /// A POSIX shell script that does the same
    Sh,
    /// User-data for a machine's first boot
    CloudInit,
}

/// Prints the plan.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    options.binary_url.as_deref().map_or(Ok(()), public)?;
    let sources = options.source.sources()?;
    let opened = options
        .bundle
        .open(&options.trust, &options.host.database.store())?;
    let database = database(&options.host, opened.as_deref())?;
    options.request.accepts(database)?;
    let locked = Locked::read(options.request.locked.as_ref(), &options.trust)?;
    let system = system(&options.host);
    let inputs = Inputs {
        options,
        sources: &sources,
        bundle: opened.as_deref(),
        database,
        locked: &locked,
        system: &system,
    };
    let Some(plan) = inputs.plan()? else {
        return Ok(Exit::Done);
    };
    if sources.offline
        && opened.is_none()
        && !inputs.is_elsewhere()
        && let Some(sentence) = apply::not_in_cache(&system, &plan)
    {
        super::say(&format!("warning: {}: {sentence}", CheckId::GS601));
    }
    if inputs.reads_lists() && opened.is_none() {
        locked.check_lists(&system, &plan)?;
    }
    if let Some(path) = &options.lock {
        locked::write(path, &system, database, &plan)?;
    }
    if let Some(path) = &options.out {
        save(&plan, path)?;
    }
    match (options.look.json, options.format) {
        (true, _) | (false, Format::Json) => super::print_json(&plan)?,
        (false, Format::Sh) => {
            tell_warnings(&plan);
            super::print(&render::script::sh(&plan))?;
        }
        (false, Format::CloudInit) => inputs.print_user_data(&plan)?,
        (false, Format::Text) => inputs.print_text(&plan)?,
    }
    Ok(if options.exit_code && !plan.is_converged() {
        Exit::Pending
    } else {
        Exit::Done
    })
}

/// What a plan is made from.
struct Inputs<'a> {
    options: &'a Options,
    sources: &'a Sources,
    bundle: Option<&'a Bundle>,
    database: &'a Database,
    locked: &'a Locked,
    system: &'a System,
}

impl Inputs<'_> {
    /// Whether the plan is for a host that is only described.
    fn is_elsewhere(&self) -> bool {
        self.options.facts.is_some() || self.options.stock.os.is_some()
    }

    fn reads_lists(&self) -> bool {
        !self.is_elsewhere() && (self.options.host.is_meant() || self.options.lock.is_some())
    }

    /// The options that name the same host in commands.
    fn host(&self) -> String {
        let options = self.options;
        { &options.host }.again(&options.stock, options.facts.as_deref())
    }

    /// The plan; none if there is no GPU, and that is no error.
    fn plan(&self) -> Result<Option<Plan>, Problem> {
        let Self {
            options, database, ..
        } = *self;
        let (mut facts, assumed) = match &options.facts {
            Some(path) => described(path, &options.host, database)?,
            None => look_or_stock(&options.host, &options.stock, database)?,
        };
        let planner = Planner {
            repositories: self.reads_lists().then_some(self.system),
            bundle: self.bundle,
            lock: self.locked.file(),
            mirrors: Some(&self.sources.mirrors),
            ..Planner::new(database)
        };
        let machine = facts.machine.kind;
        let request = options.request.request_on(&options.host, assumed, machine);
        let mut request =
            request.map_err(|problem| problem.on_system(options.stock.os.as_deref()))?;
        options
            .request
            .left_out_layers(machine)
            .into_iter()
            .for_each(super::say);
        if self.reads_lists() {
            tell_left_out(planner.observe(self.system, &mut facts, &mut request, false)?);
        }
        if options.stock.os.is_some() {
            planner.observe_new(&mut facts, &request);
        }
        let here = (facts.os.clone(), facts.machine.arch.clone());
        let has_gpus = !facts.gpus.is_empty();
        let may_skip = options.request.if_no_gpu == IfNoGpu::Skip;
        let is_json = options.look.json || options.format == Format::Json;
        let nothing = (may_skip && is_json)
            .then(|| Plan::of_nothing(database, facts.clone(), request.clone()));
        match planner.plan(facts, request) {
            Ok(planned) => {
                planned.notes.iter().for_each(|note| super::say(note));
                Ok(Some(planned.plan.for_root(options.host.root.as_deref())))
            }
            Err(e) if may_skip && e.is_without_gpu() => {
                super::say(super::NO_GPU_TO_PLAN_FOR);
                nothing.iter().try_for_each(super::print_json)?;
                Ok(None)
            }
            Err(e) => Err(self.not_planned(e, has_gpus, &here)),
        }
    }

    /// Why there is no plan, with commands that work.
    fn not_planned(&self, e: PlanningError, has_gpus: bool, (os, arch): &(Os, String)) -> Problem {
        let Self {
            options, database, ..
        } = *self;
        let is_stock = options.stock.os.is_some();
        let is_without_gpu = e.is_without_gpu();
        let is_other_machine = e.is_of(RuleId::GpuFitsMachine);
        let is_refused = matches!(&e, PlanningError::Conflict(_));
        let is_no_framework = e.is_of(RuleId::FrameworkKnown);
        let problem = self.locked.not_planned(e, &self.host());
        if is_stock && !has_gpus && is_without_gpu {
            return no_gpus(problem);
        }
        let elsewhere = || on_other_machine(options, database, os, arch);
        if is_other_machine {
            return match elsewhere() {
                Some(command) => problem.attempt(command),
                None => problem,
            };
        }
        if is_no_framework && problem.tries.is_empty() {
            return problem.attempt("gpusetup db list frameworks");
        }
        let has_nothing =
            is_refused && problem.tries.is_empty() && problem.exit == Exit::NothingFits;
        let Some(gpu) = options.host.gpu.first().filter(|_| has_nothing) else {
            return problem;
        };
        // Nothing fits here that is less; what the GPU needs can always be looked up.
        problem.attempt(elsewhere().unwrap_or_else(|| format!("gpusetup db show {}", quoted(gpu))))
    }

    fn print_user_data(&self, plan: &Plan) -> Result<(), Problem> {
        let Self {
            options, sources, ..
        } = *self;
        tell_warnings(plan);
        let lock = self.locked.line()?;
        let wishes = UserDataOptions {
            accept_eula: options.accept_eula,
            reboot: options.reboot.as_str(),
            sources,
            binary: options
                .binary_url
                .as_deref()
                .zip(options.binary_sha256.as_deref()),
            lock: lock.as_deref(),
        };
        for missing in wishes.missing(plan) {
            super::say(&format!("note: {missing}"));
        }
        let certificates = sources
            .ca_cert
            .iter()
            .map(|path| path.display().to_string());
        for file in files(plan).into_iter().chain(certificates) {
            super::say(&format!("note: the image must contain {}", visible(&file)));
        }
        super::print(&user_data(plan, wishes))
    }

    fn print_text(&self, plan: &Plan) -> Result<(), Problem> {
        let options = self.options;
        let paint = super::paint(options.look.color);
        let (verbose, width) = (options.look.verbose, super::width());
        let with_toolkit = with_toolkit(self.database, plan);
        let mut text = render::plan::text(
            plan,
            &self.host(),
            with_toolkit.as_ref(),
            paint,
            verbose,
            width,
        );
        if !plan.is_converged() {
            text += &format!(
                "{} {}\n",
                paint.bold("Next:"),
                next(options, self.sources, plan)
            );
        }
        let is_here = !self.is_elsewhere() && options.host.root.is_none();
        super::print_text(text, options.look.color, is_here)
    }
}

/// The plan for a new installation of the same system on a machine of another architecture, if
/// there is one.
fn on_other_machine(options: &Options, database: &Database, os: &Os, arch: &str) -> Option<String> {
    let system = format!("{}-{}", os.id, os.version);
    let system = if system_named(database, &system).is_ok_and(|(d, _)| d.stock.is_some()) {
        &system
    } else {
        "ubuntu-24.04"
    };
    let others = ["aarch64", "x86_64"]
        .into_iter()
        .filter(|other| *other != arch)
        .filter(|other| {
            let needed = options
                .host
                .gpu
                .iter()
                .filter_map(|gpu| architecture_of(database, gpu));
            needed.into_iter().all(|needed| needed == **other)
        });
    let gpus = options.host.gpu.as_slice();
    if gpus.is_empty() {
        return None;
    }
    let request = options.request.request(
        &options.host.prefix,
        &options.host.cache,
        gpus.to_vec(),
        MachineKind::Physical,
        None,
    );
    let request = request.ok()?;
    let mut fitting = others
        .map(|other| format!("{system}:{other}"))
        .filter(|spec| {
            let Ok(mut facts) = stock(database, spec, None) else {
                return false;
            };
            facts.gpus.extend(
                gpus.iter()
                    .flat_map(|gpu| assumed_gpus(database, gpu).unwrap_or_default()),
            );
            Planner::new(database).plan(facts, request.clone()).is_ok()
        });
    let spec = fitting.next()?;
    Some(format!(
        "gpusetup plan --os {spec} {}  # on such a machine",
        request.options()
    ))
}

/// The options of a plan that say where things come from.
fn origins(options: &Options, sources: &Sources) -> Vec<String> {
    let files = [
        ("--root", &options.host.root),
        ("--database", &options.host.database.folder),
        ("--bundle", &options.bundle.bundle),
        ("--bundle-key", &options.bundle.bundle_key),
        ("--locked", &options.request.locked),
        ("--ca-cert", &sources.ca_cert),
    ];
    let files = files
        .into_iter()
        .filter_map(|(flag, path)| Some(format!("{flag} {}", quoted_path(path.as_ref()?))));
    let mirror = sources
        .mirrors
        .of_all()
        .map(|url| format!("--mirror {}", quoted(url)));
    let below = sources
        .mirrors
        .below()
        .map(|pair| format!("--mirrors {}", quoted(&format!("{}={}", pair.0, pair.1))));
    let flags = [
        ("--allow-older", options.bundle.allow_older),
        ("--offline", sources.offline),
    ];
    let flags = flags
        .into_iter()
        .filter(|(_, given)| *given)
        .map(|(flag, _)| flag.to_owned());
    let age = options
        .request
        .max_database_age
        .map(|days| format!("--max-database-age {days}"));
    files
        .chain(mirror)
        .chain(below)
        .chain(flags)
        .chain(age)
        .collect()
}

/// The options that ask for the plan again on its own host.
fn request_options(options: &Options, plan: &Plan, left_out: &[&Gpu]) -> Vec<String> {
    // The host itself has the GPUs that were assumed here; a tree has none.
    let mut request = plan.request.clone();
    if options.host.root.is_none() {
        request.assumed_gpus.clear();
        request
            .leave_out
            .retain(|address| !left_out.iter().any(|gpu| gpu.address == *address));
    }
    if options.request.locked.is_some() {
        request = request.beside_lock();
    }
    // An assumed GPU has its bus address on that host only.
    let places = left_out.iter().map(|_| "--leave-out BUS_ID".to_owned());
    let asked = Some(request.options()).filter(|asked| !asked.is_empty());
    asked.into_iter().chain(places).collect()
}

/// The command that carries the plan out.
fn next(options: &Options, sources: &Sources, plan: &Plan) -> String {
    let is_whole = options.out.is_some() || options.host.root.is_some();
    let left_out: Vec<_> = plan
        .host
        .gpus
        .iter()
        .filter(|gpu| gpu.assumed && plan.request.leaves_out(gpu))
        .filter(|_| !is_whole)
        .collect();
    let mut apply = vec!["sudo gpusetup apply".to_owned()];
    apply.extend(origins(options, sources));
    match &options.out {
        Some(path) => apply.push(quoted_path(path)),
        None => apply.extend(request_options(options, plan, &left_out)),
    }
    let apply = apply.join(" ");
    let login = if sources.mirrors.has_logins() {
        "; with the mirror's login"
    } else {
        ""
    };
    if options.out.is_some()
        && options.facts.is_none()
        && (options.stock.os.is_some() || !options.host.is_here())
    {
        let place = match options.stock.os {
            Some(_) => format!("on a new installation of {}", plan.made_for()),
            None => "on this host, with these GPUs".to_owned(),
        };
        return visible(&format!("{apply}  # {place}{login}")).into_owned();
    }
    if options.facts.is_some() || options.stock.os.is_some() || !options.host.is_here() {
        let names = left_out
            .iter()
            .map(|gpu| gpu.name.clone().unwrap_or_else(|| gpu.pci_id.clone()))
            .collect::<Vec<_>>()
            .join(" and ");
        let places = if names.is_empty() {
            names
        } else {
            format!("; BUS_ID is the address of {names} there")
        };
        return visible(&format!("{apply}  # on that host{places}{login}")).into_owned();
    }
    match login {
        "" => visible(&apply).into_owned(),
        _ => visible(&format!("{apply}  #{login}")).into_owned(),
    }
}

/// Refuses an address that cannot stand in a shell's single quotes and a YAML text, or that lets
/// anyone download the file: user-data is read by more than its machine. It is not repeated,
/// because there may be a password in it.
fn public(binary_url: &str) -> Result<(), Problem> {
    let wrong = |why: &str| Err(Problem::usage(format!("--binary-url: {why}")));
    if !binary_url.starts_with("https://")
        || !binary_url
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._~:/?#@!&=+,;%".contains(c))
    {
        return wrong("an https:// address without blanks and quotes is expected");
    }
    if public_address(binary_url) != binary_url {
        let problem = wrong(
            "the address has a login or a query (?…), and user-data is read by more than its machine",
        );
        return problem.map_err(|problem| {
            problem.hint("put gpusetup into the image, or offer the file without a login")
        });
    }
    Ok(())
}
