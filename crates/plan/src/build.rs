//! Makes a plan from a request and facts: the choice, the steps in order, the totals and the
//! fingerprint.

use super::context::{StepContext, reboot_for};
use super::{
    Act, Plan, SCHEMA, State, Step, StepId, Totals, Warning, add_on, companions, containers,
    driver, environment, estimate, fabric, fixes, gpu_settings, machines, mig_step, module_options,
    nouveau, prerequisites, repository, requested, sign_modules, toolkit, unsuited,
    untouched_driver, updates, vendors, verify, vgpu_licence, warnings,
};
use gpusetup_database::compat::{Database, DatabaseId};
use gpusetup_database::sum::Sum;
use gpusetup_database::version::{CudaVersion, DriverVersion};
use gpusetup_host::{Facts, Origin};
use gpusetup_operation::{AddRepository, Download, Operation, Reboot, RepositoryKey};
use gpusetup_recipes::one_driver;
use gpusetup_resolve::{
    ChosenDriver, Conflict, KnownHost, Method, Request, Resolution, Selection, ToolkitMethod,
    breaks, of_another_system, summary,
};
use gpusetup_system::limits::Limit;
use gpusetup_text::ids::CheckId;
use serde::Serialize;
use std::borrow::{Borrow, Cow};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The plan for a host.
///
/// # Errors
///
/// If nothing fits, or the host first requires manual action, such as enrolling a key. Hints
/// include obstacles to the suggested alternatives.
pub fn plan(database: &Database, facts: Facts, request: Request) -> Result<Plan, Conflict> {
    let host = KnownHost::new(database, &facts);
    let chosen = unblocked(&host, &request, |host, request| {
        host.resolve(request, &|asked| tried(host, asked).is_some())
    })
    .map_err(|conflict| {
        let conflict = fabric::with_packages(&request, conflict, |asked| {
            Some(summary(&tried(&host, asked)?.selection()))
        });
        let conflict =
            vendors::with_installed(&facts, &request, conflict, |asked| tried(&host, asked));
        without_blocked(&host, conflict).for_request(&request)
    })?;
    let context = StepContext::new(&host, &request, &chosen);
    let (first, mut warnings) = prerequisites::prerequisites(&context, database);
    warnings.extend(prerequisites::of_engine(&context));
    warnings.extend(warnings::warnings(database, &context));
    warnings.extend(with_options(&host, &context));
    // Equal GPUs give equal warnings; one is enough.
    let mut known = BTreeSet::new();
    warnings.retain(|warning| known.insert((warning.check.clone(), warning.text.clone())));
    let steps = in_order(&context, database, first);
    let selection = chosen.selection();
    let default = toolkit::why_default(&context);
    let Resolution {
        mut reasons,
        rejected,
        python,
        ..
    } = chosen;
    reasons.extend(default);
    let plan = Plan::of(database, facts, request, steps, warnings);
    Ok(Plan {
        selection,
        reasons,
        rejected,
        python,
        ..plan
    }
    .summed())
}

/// What a request gives, if it can be planned.
fn tried<'a>(host: &KnownHost<'a, '_>, request: &Request) -> Option<Rc<Resolution<'a>>> {
    unblocked(host, request, KnownHost::choose).ok()
}

/// The toolkit that a request gives, if the driver runs its programs.
fn toolkit_for(host: &KnownHost, request: &Request) -> Option<CudaVersion> {
    let chosen = tried(host, request)?;
    let cuda = chosen.cuda.as_ref();
    cuda.filter(|_| chosen.not_run().is_none())
        .map(|cuda| cuda.version())
}

/// The driver that a request gives, if nothing that NVSwitches need has to be installed by hand.
fn driver_for(host: &KnownHost, request: &Request) -> Option<DriverVersion> {
    let chosen = tried(host, request)?;
    let companions = StepContext::new(host, request, &chosen).companions;
    let is_whole = companions.is_none_or(|all| all.unavailable().next().is_none());
    let driver = chosen.driver.as_ref();
    driver.filter(|_| is_whole).map(|driver| driver.version)
}

/// The warnings that name an option which helps.
fn with_options(host: &KnownHost, context: &StepContext) -> Vec<Warning> {
    let (database, request, chosen) = (host.database, context.request, context.chosen);
    let toolkit = |asked: &Request| toolkit_for(host, asked);
    let driver = |asked: &Request| driver_for(host, asked);
    let incomplete = fabric::complete_instead(database, context, driver);
    let mut not_run = Vec::from_iter(untouched_driver::not_run(database, context, toolkit));
    not_run.extend(untouched_driver::packages_not_run(chosen));
    let mut unfixed = Vec::from_iter(fixes::missing_in_toolkit(
        database, request, chosen, toolkit,
    ));
    // Another toolkit instead of one that was named is no help.
    for additional in &context.additional {
        not_run.extend(untouched_driver::not_run(database, additional, |_| None));
    }
    for additional in &chosen.additional_toolkits {
        let chosen = &additional.chosen;
        unfixed.extend(fixes::missing_in_toolkit(database, request, chosen, |_| {
            None
        }));
    }
    let of_driver = chosen.driver.as_ref();
    unfixed.extend(of_driver.and_then(|chosen| fixes::missing(database, request, chosen, driver)));
    let incomplete = Warning::each(CheckId::GS801, incomplete);
    let others =
        Warning::each(CheckId::GS707, not_run).chain(Warning::each(CheckId::GS513, unfixed));
    incomplete.chain(others).collect()
}

/// The same refusal without the suggestions that are refused, too, but with what blocks them, and
/// with the limits of those that are not.
fn without_blocked(host: &KnownHost, mut conflict: Conflict) -> Conflict {
    let mut hints = BTreeSet::new();
    conflict.hints.retain(|hint| {
        let Some(request) = hint.asks() else {
            return true;
        };
        match unblocked(host, request, KnownHost::choose) {
            Err(blocked) => {
                hints.extend(blocks(host, request, &blocked));
                false
            }
            Ok(chosen) => {
                hints.extend(limits(host, request, &chosen));
                true
            }
        }
    });
    if conflict.hints.iter().all(|hint| hint.asks().is_none()) {
        conflict.alternative = None;
    }
    hints.into_iter().fold(conflict, Conflict::hint)
}

/// What would fit, and why it is refused all the same.
fn blocks(host: &KnownHost, request: &Request, blocked: &Conflict) -> Option<String> {
    let chosen = summary(&host.choose(request).ok()?.selection());
    let what = if chosen.is_empty() {
        "the suggestion"
    } else {
        &chosen
    };
    Some(format!("{what} fits, but is blocked, too: {blocked}"))
}

/// The limits of a plan that is suggested.
fn limits<'a>(host: &KnownHost<'a, '_>, request: &Request, chosen: &Resolution<'a>) -> Vec<String> {
    const DOUBTFUL: [CheckId; 2] = [CheckId::GS103, CheckId::GS713];
    let context = StepContext::new(host, request, chosen);
    warnings::warnings(host.database, &context)
        .into_iter()
        .filter(|warning| DOUBTFUL.iter().any(|id| warning.check == *id))
        .map(|warning| format!("the alternative has a limit: {}", warning.text))
        .collect()
}

/// Resolves a request, and refuses the result if manual action is required before the installation.
fn unblocked<'a, 'f, Chosen: Borrow<Resolution<'a>>>(
    host: &KnownHost<'a, 'f>,
    request: &Request,
    choose: impl Fn(&KnownHost<'a, 'f>, &Request) -> Result<Chosen, Conflict>,
) -> Result<Chosen, Conflict> {
    let facts = host.facts;
    machines::not_our_driver(host, request)?;
    fabric::not_unreachable(request)?;
    not_another_systems(host, request)?;
    let chosen = choose(host, request)?;
    let resolution = chosen.borrow();
    not_mixed(facts, resolution)?;
    vendors::not_two_vendors(facts, resolution)?;
    not_over_another(facts, request, resolution)?;
    for additional in &resolution.additional_toolkits {
        not_over_another(facts, &additional.request, &additional.chosen)?;
    }
    wholly_read(facts)?;
    not_a_virtual_machines(facts, request, resolution)?;
    sign_modules::not_unsigned(facts, host.distribution, request, resolution)?;
    if resolution.driver.is_some() {
        gpu_settings::not_refused(facts, request)?;
        module_options::not_set_elsewhere(facts, request)?;
        updates::not_without_holds(facts, request)?;
        vgpu_licence::not_without_guest_driver(facts, request, resolution)?;
        mig_step::not_refused(host.database, facts, request)?;
    }
    let context = StepContext::new(host, request, resolution);
    prerequisites::not_without_tools(&context)?;
    mig_step::not_before_driver(host.database, &context)?;
    fabric::not_without_fabric(host.database, &context)?;
    fabric::not_without_peers(&context)?;
    requested::not_without_source(host.database, &context)?;
    unsuited::not_unsuited(&context)?;
    containers::not_refused(&context)?;
    Ok(chosen)
}

fn in_order(context: &StepContext, database: &Database, first: Step) -> Vec<Step> {
    let mut steps = Vec::with_capacity(16 + database.add_ons.len());
    let blacklist = nouveau::blacklist_nouveau(context);
    let options = module_options::module_options(context, blacklist.state == State::Needed);
    let options_reboot = module_options::why_reboot(context, &options);
    // Build tools may come from it too.
    steps.extend(repository::add_repository(context, database));
    steps.extend([first, options, blacklist]);
    let signing = sign_modules::sign_modules(context);
    let console = signing.iter().any(|step| step.id == StepId::Reboot);
    steps.extend(signing);
    let driver = context.chosen.driver.as_ref().filter(|d| !d.is_kept());
    // The reboot for the key frees the GPU, too.
    let rival =
        !context.facts.machine.is_offline_root && !console && nouveau::rival_is_loaded(context);
    // The runfile fails if another driver uses the GPU. Packages install anyway; their modules load
    // at the next boot.
    let early = driver.is_some_and(|d| d.install.method() == Method::Runfile) && rival;
    // Fabric Manager and nvidia-smi refuse a driver of another version.
    let replaced = driver.is_some_and(|driver| is_replaced(context, driver));
    let late = driver.is_some() && (rival && !early || replaced);
    if early {
        steps.push(reboot(
            "the runfile fails while another driver uses the GPU",
        ));
    }
    steps.push(driver::install_driver(context));
    steps.push(toolkit::install_cuda(context));
    steps.extend(add_on::install(context, &database.add_ons));
    steps.extend(toolkit::install_additional(context));
    steps.push(toolkit::fix_symlinks(context));
    steps.push(environment::ldconfig(context));
    steps.push(environment::environment(context));
    if late {
        let why = if rival {
            "another driver uses the GPU until then"
        } else {
            "the driver before is loaded until then"
        };
        steps.push(reboot(why));
    }
    steps.extend(
        companions::set_up_companions(context)
            .into_iter()
            .chain(companions::without_peers(context)),
    );
    steps.extend(containers::install_engine(context));
    steps.extend(containers::container_toolkit(context));
    let settings_reboot =
        gpu_settings::why_reboot(context).or(options_reboot.filter(|_| !early && !late));
    steps.extend([
        vgpu_licence::vgpu_licence(context),
        updates::updates(context),
    ]);
    // A reset for a change of MIG mode takes settings away.
    steps.extend(mig_step::partition_gpus(context, database));
    steps.push(gpu_settings::gpu_settings(context, database));
    steps.extend(settings_reboot.map(|why| reboot(&why)));
    steps.retain(|step| step.state != State::Skipped || step.id.kind().is_news(context.request));
    let converged = steps.iter().all(|s| s.state != State::Needed);
    steps.push(verify::verify(context, converged));
    steps
}

/// Whether another version of the driver is loaded, and stays so: packages replace its files alone,
/// and its programs refuse a module of another version. A runfile's installer replaces the module,
/// too, except where units or kernel modules that need the new one are started.
fn is_replaced(context: &StepContext, driver: &ChosenDriver) -> bool {
    let by_packages = driver.install.method() != Method::Runfile;
    let starts = context.companions.as_ref().is_some_and(|companions| {
        companions.units().next().is_some() || companions.own_modules().next().is_some()
    });
    let loaded = context.facts.loaded_modules.as_deref().unwrap_or_default();
    (starts || by_packages)
        && loaded.iter().any(|module| {
            module.name == "nvidia"
                && module
                    .version
                    .as_ref()
                    .is_some_and(|version| *version != driver.version.to_string())
        })
}

fn reboot(why: &str) -> Step {
    reboot_for(why, Reboot::default())
}

/// Refuses a runfile over packages, or packages over a runfile: that breaks hosts.
fn not_mixed(facts: &Facts, chosen: &Resolution) -> Result<(), Conflict> {
    let (Some(installed), Some(driver)) = (&facts.driver, &chosen.driver) else {
        return Ok(());
    };
    one_driver(facts, driver)?;
    if !breaks(installed.origin, &driver.install) {
        return Ok(());
    }
    let (by, remedy) = match installed.origin {
        Origin::Runfile => (
            "NVIDIA's runfile",
            format!(
                "{}; or use the runfile (--method runfile)",
                gpusetup_causes::remove_runfile()
            ),
        ),
        _ => (
            "packages",
            "use packages (--method packages), or remove the driver's packages first".to_owned(),
        ),
    };
    let sentence = format!(
        "driver {} was installed from {by}, but {} would be installed differently; two installations break each other",
        installed.version, driver.version
    );
    Err(Conflict::blocked(CheckId::GS401, sentence).hint(remedy))
}

/// Refuses NVIDIA's repository where the one that is enabled is for another system: its packages
/// are built for other kernels and libraries, and a second source of the same vendor would compete
/// with it.
fn not_another_systems(host: &KnownHost, request: &Request) -> Result<(), Conflict> {
    let of_toolkit =
        request.toolkit_method == ToolkitMethod::Repository && request.cuda.is_wanted();
    let is_requested =
        of_toolkit || request.method == Method::Repository && request.driver.is_wanted();
    let other =
        of_another_system(host.database, host.distribution, host.facts).filter(|_| is_requested);
    let Some(other) = other else { return Ok(()) };
    Err(Conflict::blocked(CheckId::GS404, other.cause(host.facts))
        .hint(other.remedy(host.facts).to_string()))
}

/// Refuses to unpack archives over a toolkit of another origin or release, or to run a runfile over
/// archives: leftovers of one would count as part of the other.
fn not_over_another(facts: &Facts, request: &Request, chosen: &Resolution) -> Result<(), Conflict> {
    let Some(cuda) = chosen.cuda.as_ref().filter(|c| !c.is_kept()) else {
        return Ok(());
    };
    let (version, series) = (cuda.release.version, cuda.release.version.series());
    let path = request.prefix.join(series.directory());
    let mut there = facts.toolkits.iter().filter(|t| t.path == path);
    let Some(there) = there.find(|t| match cuda.packages {
        Some(_) => t.origin != Origin::Dpkg,
        None => matches!(t.origin, Origin::Dpkg | Origin::Archives) || !chosen.parts.is_empty(),
    }) else {
        return Ok(());
    };
    let (path, is) = (path.display(), there.version);
    let sentence = format!(
        "{path} already contains CUDA {is}; {version} would be installed over it in another way"
    );
    let keep = match (cuda.packages, there.origin, chosen.parts.is_empty()) {
        (Some(_), ..) => "keep it without --toolkit-method",
        (None, Origin::Dpkg, _) => "keep it with --toolkit-method repository",
        (None, _, true) => "keep it with --components",
        (None, _, false) => "keep it without --components",
    };
    let hint = if is == version {
        keep.to_owned()
    } else {
        format!("keep the installed toolkit: --cuda {is}")
    };
    let upgrade = (there.origin == Origin::Dpkg && cuda.packages.is_none())
        .then_some("or upgrade its packages: --toolkit-method repository");
    Err(upgrade
        .into_iter()
        .fold(
            Conflict::blocked(CheckId::GS714, sentence).hint(hint),
            Conflict::hint,
        )
        .hint(format!("or remove it: gpusetup uninstall --cuda {series}")))
}

/// Refuses a host of which only a part was read: whatever is not known of it could change the plan.
fn wholly_read(facts: &Facts) -> Result<(), Conflict> {
    let Some(one) = facts.left_out(Limit::Whole).next() else {
        return Ok(());
    };
    let conflict = Conflict::blocked(
        CheckId::GS608,
        gpusetup_causes::partly_read(&one.describe()),
    );
    Err(conflict.hint(gpusetup_causes::make_smaller(&one.path(), one.limit).to_string()))
}

/// Refuses to install a driver for a GPU that is passed through to a virtual machine.
fn not_a_virtual_machines(
    facts: &Facts,
    request: &Request,
    chosen: &Resolution,
) -> Result<(), Conflict> {
    let Some(gpu) = facts.gpus.iter().find(|g| {
        g.bound_to.as_deref() == Some("vfio-pci")
            && !request.leaves_out(g)
            && chosen.installs_driver()
    }) else {
        return Ok(());
    };
    Err(
        Conflict::blocked(CheckId::GS203, gpusetup_causes::held_for_vm(&gpu.address))
            .hint(format!(
                "leave it out of the plan: --leave-out {}",
                gpu.address
            ))
            .hint(gpusetup_causes::give_back(&gpu.address).to_string()),
    )
}

/// The sum of the known sizes of the steps; none if no positive size is known and at least one is
/// missing.
fn total(steps: &[Step], of: fn(&Step) -> Option<u64>) -> Option<u64> {
    let known = steps.iter().filter_map(of).sum();
    (known > 0 || steps.iter().all(|step| of(step).is_some())).then_some(known)
}

fn totals(steps: &[Step]) -> Totals {
    let (download_bytes, disk_bytes) = (
        total(steps, |s| s.download_bytes),
        total(steps, |s| s.disk_bytes),
    );
    let at_least = steps
        .iter()
        .any(|s| s.download_bytes.is_none() || s.disk_bytes.is_none());
    let estimate_seconds = estimate::total(steps);
    let mut totals = Totals {
        download_bytes,
        disk_bytes,
        at_least,
        estimate_seconds,
        ..Totals::default()
    };
    for step in steps {
        for act in step.operations.iter().filter(|a| !a.satisfied) {
            let counts = act.operation.counts();
            totals.add += counts.add;
            totals.change += counts.change;
            totals.remove += counts.remove;
            totals.reboots += counts.reboots;
        }
    }
    totals
}

/// The facts about the host that the fingerprint covers.
#[derive(Serialize)]
struct Identity<'a> {
    arch: &'a str,
    os: (&'a str, &'a str),
    gpus: Vec<(&'a str, &'a str)>,
}

/// What the fingerprint covers of a step, in the same form as the step.
#[derive(Serialize)]
struct CoveredStep<'a> {
    id: &'a StepId,
    title: &'a str,
    why: &'a str,
    state: State,
    operations: Vec<CoveredAct<'a>>,
    download_bytes: Option<u64>,
    disk_bytes: Option<u64>,
}

#[derive(Serialize)]
struct CoveredAct<'a> {
    #[serde(flatten)]
    operation: Cow<'a, Operation>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    satisfied: bool,
}

impl<'a> CoveredStep<'a> {
    fn of(step: &'a Step) -> Self {
        // Derived values are computed again whenever a plan is read.
        let Step {
            id,
            title,
            why,
            state,
            operations,
            download_bytes,
            disk_bytes,
            room: _,
            licensed: _,
            idle_driver: _,
            estimate_seconds: _,
        } = step;
        Self {
            id,
            title,
            why,
            state: *state,
            operations: operations.iter().map(CoveredAct::of).collect(),
            download_bytes: *download_bytes,
            disk_bytes: *disk_bytes,
        }
    }
}

impl<'a> CoveredAct<'a> {
    fn of(act: &'a Act) -> Self {
        let operation = match &act.operation {
            Operation::Download(Download {
                url: _,
                sha256,
                size,
                to,
            }) => Cow::Owned(Operation::Download(Download {
                url: String::new(),
                sha256: sha256.clone(),
                size: *size,
                to: to.clone(),
            })),
            // A key is what its fingerprint says, wherever it comes from. The address is written to
            // the host.
            Operation::AddRepository(repository) => {
                Cow::Owned(Operation::AddRepository(AddRepository {
                    keys: repository
                        .keys
                        .iter()
                        .map(|key| RepositoryKey {
                            content: None,
                            ..key.clone()
                        })
                        .collect(),
                    ..repository.clone()
                }))
            }
            operation => Cow::Borrowed(operation),
        };
        Self {
            operation,
            satisfied: act.satisfied,
        }
    }
}

fn identity(facts: &Facts) -> Identity<'_> {
    Identity {
        arch: &facts.machine.arch,
        os: (&facts.os.id, &facts.os.version),
        gpus: facts
            .gpus
            .iter()
            .map(|g| (g.address.as_str(), g.pci_id.as_str()))
            .collect(),
    }
}

impl Plan {
    /// A plan with these steps and an empty selection, without totals.
    pub(super) fn of(
        database: &Database,
        host: Facts,
        request: Request,
        steps: Vec<Step>,
        warnings: Vec<Warning>,
    ) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            database: DatabaseId::of(database),
            selection: Selection::default(),
            reasons: Vec::new(),
            rejected: Vec::new(),
            python: Vec::new(),
            totals: Totals::default(),
            host,
            request,
            steps,
            warnings,
        }
    }

    /// The plan for a host that needs nothing.
    pub fn of_nothing(database: &Database, host: Facts, request: Request) -> Self {
        Self::of(database, host, request, Vec::new(), Vec::new()).summed()
    }

    /// The plan with its totals computed.
    pub(super) fn summed(self) -> Self {
        let mut plan = self.with_needs().with_room_judged();
        plan.totals = totals(&plan.steps);
        plan
    }

    /// SHA-256 of everything in the plan that defines what is done and on which host; an edited
    /// plan has a different one. Download URLs are not included, because the checksums of the files
    /// are; those of added repositories are. It is computed each time: of the plans for a fleet
    /// only those that are saved need one.
    pub fn fingerprint(&self) -> String {
        let steps: Vec<_> = self.steps.iter().map(CoveredStep::of).collect();
        let content = (
            &self.database,
            identity(&self.host),
            &self.request,
            &self.selection,
            &steps,
        );
        let mut sum = Sum::default();
        // Serialising cannot fail: maps are sorted, and the rest is text and numbers.
        serde_json::to_writer(&mut sum, &content).unwrap_or_default();
        sum.finish()
    }

    /// Whether it installs something under an NVIDIA licence.
    pub fn brings_nvidias(&self) -> bool {
        self.steps
            .iter()
            .any(|step| step.licensed && step.state == State::Needed)
    }

    /// Whether there is nothing to do.
    pub fn is_converged(&self) -> bool {
        self.steps.iter().all(|s| s.state != State::Needed)
    }
}
