//! A request and facts made into a plan: the choice, the steps in their order, the sums over them, the fingerprint.

use super::context::{StepContext, step};
use super::{
    Act, DatabaseId, Plan, SCHEMA, State, Step, StepId, Totals, Warning, add_on, driver, environment, nouveau,
    prerequisites, toolkit, verify,
};
use crate::causes;
use crate::compat::{AddOn, Companion, Database, Fabric, PackageManager, ReleaseLimit, VersionRule};
use crate::host::{Facts, MachineKind, Origin, SecureBoot, Toolkit};
use crate::ids::CheckId;
use crate::operation::{Download, Operation, Reboot};
use crate::resolve::{
    Card, ChosenDriver, Conflict, Hint, Install, Joined, KnownHost, Method, Request, Resolution, Selection, is_over,
};
use crate::sum::sha256;
use crate::text::bytes;
use crate::version::{DriverVersion, dotted};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// What the firmware of the driver adds to an initramfs, as users measured it (pop-os/pop issue 3593: +132 MiB each).
const GROWTH: u64 = 132 << 20;

/// The plan for a host, or why there is none, and what stands before the plan that is suggested instead.
///
/// # Errors
///
/// If nothing fits, or something must be done first that gpusetup does not do, such as enrolling a key.
pub fn plan(database: &Database, facts: Facts, request: Request) -> Result<Plan, Conflict> {
    let host = KnownHost::new(database, &facts);
    let chosen = unblocked(&host, &request, KnownHost::resolve).map_err(|conflict| {
        let asked = conflict.hints.iter().filter_map(Hint::asks);
        let mut said: Vec<_> = asked.flat_map(|request| obstacles(&host, request)).collect();
        said.sort();
        said.dedup();
        said.into_iter().fold(conflict, Conflict::hint)
    })?;
    let context = StepContext::new(&host, &request, &chosen);
    let (first, mut warnings) = prerequisites::prerequisites(&context);
    warnings.extend(warn(database, &context));
    // Of equal GPUs one is enough.
    let mut said = BTreeSet::new();
    warnings.retain(|warning| said.insert((warning.check.clone(), warning.text.clone())));
    let steps = in_order(&context, &database.add_ons, first);
    let selection = chosen.selection();
    let Resolution { reasons, rejected, .. } = chosen;
    let plan = Plan::of(database, facts, request, steps, warnings);
    Ok(Plan { selection, reasons, rejected, ..plan }.summed())
}

/// What stands before a plan that is suggested, or makes it doubtful.
fn obstacles(host: &KnownHost, request: &Request) -> Vec<String> {
    match unblocked(host, request, KnownHost::choose) {
        Err(blocked) => vec![format!("before what fits: {}", blocked.sentence)],
        Ok(chosen) => {
            let doubtful = |warning: &Warning| [CheckId::GS103, CheckId::GS713].iter().any(|id| warning.check == *id);
            let warnings = warn(host.database, &StepContext::new(host, request, &chosen));
            let doubtful = warnings.into_iter().filter(doubtful);
            doubtful.map(|warning| format!("with what fits: {}", warning.text)).collect()
        }
    }
}

/// What is chosen for a request, unless something has to be done before that can be installed.
fn unblocked<'a, 'f>(
    host: &KnownHost<'a, 'f>,
    request: &Request,
    choose: fn(&KnownHost<'a, 'f>, &Request) -> Result<Resolution<'a>, Conflict>,
) -> Result<Resolution<'a>, Conflict> {
    let facts = host.facts;
    not_our_driver(facts, request)?;
    let chosen = choose(host, request)?;
    not_mixed(facts, &chosen)?;
    not_over_another(facts, request, &chosen)?;
    not_a_virtual_machines(facts, request, &chosen)?;
    not_unsigned(facts, &chosen)?;
    prerequisites::not_without_tools(&StepContext::new(host, request, &chosen))?;
    Ok(chosen)
}

fn in_order(context: &StepContext, known: &[AddOn], first: Step) -> Vec<Step> {
    let mut steps = vec![first, nouveau::blacklist_nouveau(context)];
    let driver = context.chosen.driver.as_ref().filter(|d| !d.is_kept());
    let rival = !context.facts.machine.is_tree && nouveau::rival_is_loaded(context);
    // The runfile stops at a GPU that is taken; packages do not care, their modules load at the next boot.
    let early = driver.is_some_and(|d| d.install.method() == Method::Runfile) && rival;
    let late = driver.is_some() && rival && !early;
    if early {
        steps.push(reboot("the runfile stops while another driver holds the GPU"));
    }
    steps.push(driver::install_driver(context));
    steps.push(toolkit::install_cuda(context));
    steps.extend(add_on::install(context, known));
    steps.push(toolkit::fix_symlinks(context));
    steps.push(environment::ldconfig(context));
    steps.push(environment::environment(context));
    if late {
        steps.push(reboot("another driver holds the GPU until then"));
    }
    let converged = steps.iter().all(|s| s.state != State::Needed);
    steps.push(verify::verify(context, converged));
    steps
}

fn reboot(why: &str) -> Step {
    step(StepId::Reboot, "Boot the host again", why, vec![Act::needed(Operation::Reboot(Reboot {}))])
}

/// Hosts whose driver is not ours to install.
fn not_our_driver(facts: &Facts, request: &Request) -> Result<(), Conflict> {
    if !request.driver.is_wanted() {
        return Ok(());
    }
    let (check, sentence) = match facts.machine.kind {
        MachineKind::Wsl2 => (CheckId::GS906, causes::WSL2),
        MachineKind::Jetson => (CheckId::GS907, causes::JETSON),
        _ if facts.os.immutable => (CheckId::GS908, causes::IMMUTABLE),
        MachineKind::Physical | MachineKind::Virtual | MachineKind::Container => return Ok(()),
    };
    let (why, options) = causes::WITHOUT_DRIVER;
    Err(Conflict::blocked(check, sentence).hint(Hint::plan(why, options)))
}

/// A runfile over packages, or packages over a runfile, is how hosts are broken.
fn not_mixed(facts: &Facts, chosen: &Resolution) -> Result<(), Conflict> {
    let (Some(installed), Some(driver)) = (&facts.driver, &chosen.driver) else { return Ok(()) };
    let (by, remedy) = match (installed.origin, driver.install) {
        (Origin::Dpkg | Origin::Rpm, Install::Runfile(_) | Install::CudaRunfile(_)) => {
            ("packages", "ask for packages (--method packages), or remove the driver's packages first".to_owned())
        }
        (Origin::Runfile, Install::Packages(_)) => {
            ("NVIDIA's runfile", format!("{}; or ask for the runfile (--method runfile)", causes::remove_runfile()))
        }
        _ => return Ok(()),
    };
    let sentence = format!(
        "driver {} was installed by {by}, and {} would come another way: two installs on one host break each other",
        installed.version, driver.version
    );
    Err(Conflict::blocked(CheckId::GS401, sentence).hint(remedy))
}

/// Archives are not unpacked over a toolkit of another making or release, nor is a runfile run over archives: what is left
/// of the one would be taken for the other.
fn not_over_another(facts: &Facts, request: &Request, chosen: &Resolution) -> Result<(), Conflict> {
    let Some(cuda) = chosen.cuda.as_ref().filter(|c| !c.is_kept()) else { return Ok(()) };
    let (version, series) = (cuda.release.version, cuda.release.version.series());
    let path = request.prefix.join(format!("cuda-{series}"));
    let apart = |t: &&Toolkit| t.path == path && (t.origin == Origin::Archives || !chosen.parts.is_empty());
    let Some(there) = facts.toolkits.iter().find(apart) else { return Ok(()) };
    let (path, is) = (path.display(), there.version);
    let sentence = format!("{path} has CUDA {is} in it already, and {version} would come over it in another way");
    let keep = if chosen.parts.is_empty() { "keep it with --components" } else { "keep it without --components" };
    let hint = if is == version { keep.to_owned() } else { format!("ask for what is there: --cuda {is}") };
    Err(Conflict::blocked(CheckId::GS714, sentence)
        .hint(hint)
        .hint(format!("or remove it: gpusetup uninstall --cuda {series}")))
}

/// A driver that is to be installed, not kept.
fn installs_driver(chosen: &Resolution) -> bool {
    chosen.driver.as_ref().is_some_and(|d| !d.is_kept())
}

/// A card that is handed to a virtual machine would be fought over.
fn not_a_virtual_machines(facts: &Facts, request: &Request, chosen: &Resolution) -> Result<(), Conflict> {
    let handed_over = |g: &&crate::host::Gpu| {
        g.bound_to.as_deref() == Some("vfio-pci") && !request.leave_out.contains(&g.address) && installs_driver(chosen)
    };
    let Some(gpu) = facts.gpus.iter().find(handed_over) else { return Ok(()) };
    Err(Conflict::blocked(CheckId::GS203, causes::held_for_vm(&gpu.address))
        .hint(format!("leave it out of the plan: --leave-out {}", gpu.address))
        .hint(causes::give_back(&gpu.address).to_string()))
}

/// Modules that are built here and signed with a key that nobody knows do not load, and that shows after the reboot only.
fn not_unsigned(facts: &Facts, chosen: &Resolution) -> Result<(), Conflict> {
    let enrolled = facts.signing_key.as_ref().is_some_and(|key| key.enrolled);
    if facts.secure_boot != SecureBoot::Enabled || enrolled || !installs_driver(chosen) {
        return Ok(());
    }
    let key = facts.signing_key.as_ref().map(|key| key.path.as_path());
    Err(Conflict::blocked(CheckId::GS301, causes::unsigned(key)).hint(causes::enrol_key(key).to_string()))
}

fn warn(database: &Database, context: &StepContext) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut say = |check: CheckId, text: String| warnings.push(Warning { check: check.into(), text });
    if let Some(driver) = &context.chosen.driver {
        if is_over(driver, &context.request.today) {
            let life = driver.branch.end_of_life.as_deref().unwrap_or("years ago");
            say(
                CheckId::GS510,
                format!("driver branch {} reached its end of life ({life}): no more fixes", driver.branch.branch),
            );
        }
        let boot = context.facts.space.iter().find(|s| s.path == Path::new("/boot"));
        let images = context.facts.kernels.installed.iter().filter(|k| k.initramfs.is_some()).count() as u64;
        if let Some(boot) = boot.filter(|b| installs_driver(context.chosen) && b.free_bytes < images * GROWTH) {
            let (free, growth) = (bytes(boot.free_bytes), bytes(GROWTH));
            say(
                CheckId::GS603,
                format!(
                    "/boot has {free} free: where the driver's firmware goes into the initramfs, each of {images} grows \
                     by up to {growth}; {}",
                    causes::unused_kernels(context.facts.os.package_manager)
                ),
            );
        }
        if driver.install.method() == Method::Packages && !driver.is_kept() && context.distribution.is_none() {
            say(CheckId::GS410, causes::unknown_packages(&context.facts.os.name));
        }
        if context.facts.machine.kind == MachineKind::Container {
            say(CheckId::GS911, causes::CONTAINER.to_owned());
        }
        if let Some((kernel, text)) = context.facts.kernel().and_then(|k| Some((k, unlikely_to_build(driver, k)?))) {
            let when = if context.facts.kernels.next_boot.is_some() { "boots next" } else { "runs" };
            say(CheckId::GS103, format!("kernel {kernel} {when}, and {text}"));
        }
        let kernel = context.facts.kernels.running.as_deref();
        if let (Some(running), Some(next)) = (kernel, context.facts.kernels.next_boot.as_deref())
            && running != next
        {
            say(
                CheckId::GS104,
                format!("kernel {running} runs now, {next} boots next: the modules are built for {next}"),
            );
        }
        if let Some(joined) = Joined::of(database, context.facts) {
            say(CheckId::GS801, joined_by_switches(database, context, driver, joined));
        }
    }
    for card in context.chosen.cards.iter().filter(|card| !card.is_listed) {
        if let Some(driver) = context.chosen.driver.as_ref().filter(|driver| !driver.is_kept()) {
            say(CheckId::GS503, unlisted(card, driver));
        }
    }
    for caution in &context.chosen.cautions {
        say(CheckId::GS713, caution.clone());
    }
    if let Some(text) = without_gpu(context) {
        say(CheckId::GS712, text);
    }
    for card in context.chosen.cards.iter().filter(|_| context.chosen.driver.is_none()) {
        let arch = context.facts.machine.arch.as_str();
        if let Some(machine) = card.only_on.as_deref().filter(|machine| *machine != arch) {
            let name = &card.name;
            say(
                CheckId::GS512,
                format!("{name} exists only in {machine} machines: this toolkit compiles for it on {arch}, no more"),
            );
        }
    }
    if let Some(cuda) = context.chosen.cuda.as_ref().filter(|c| !c.is_kept()) {
        let (os, arch) = (&context.facts.os, crate::resolve::cuda_arch(&context.facts.machine.arch));
        let version = cuda.release.version;
        // What is built from RHEL's sources counts as RHEL.
        let rhel = os.like.iter().any(|l| l == "rhel").then_some("rhel");
        let ids: Vec<_> = rhel.into_iter().chain([os.id.as_str()]).collect();
        if let Some(guide) = database.guide_without(version, arch, &ids, &os.version) {
            let (of, name) = (guide.cuda, &os.name);
            let text = if of == version.series() {
                format!("NVIDIA's installation guide for CUDA {of} does not list {name} on {arch}")
            } else {
                format!(
                    "{name} on {arch} is not in NVIDIA's installation guide for CUDA {of}; whether CUDA {version} supports it \
                     is not known"
                )
            };
            say(CheckId::GS711, text);
        }
        let gcc = context.facts.gcc_major().filter(|have| cuda.release.gcc_min.is_some_and(|least| *have < least));
        if let (Some(have), Some(least)) = (gcc, cuda.release.gcc_min) {
            let text = format!("nvcc of CUDA {version} needs gcc {least} or newer, and this host has gcc {have}");
            say(CheckId::GS705, text);
        }
    }
    for unreadable in context.facts.unreadable_gpus() {
        say(
            CheckId::GS511,
            format!("a GPU is left out of the plan, because it is not known which it is: {}", unreadable.why),
        );
    }
    for gpu in context.facts.gpus.iter().filter(|g| g.bound_to.as_deref() == Some("vfio-pci")) {
        say(CheckId::GS203, format!("{}; it stays so", causes::held_for_vm(&gpu.address)));
    }
    warnings
}

/// That nobody lists a GPU, and what to check.
fn unlisted(card: &Card, driver: &ChosenDriver) -> String {
    format!(
        "no list of the GPUs that NVIDIA's drivers know has {}: driver {} was chosen by its architecture alone; look for its id in \
         supported-gpus.json of that driver, and run gpusetup doctor after the install",
        card.name, driver.version
    )
}

/// A toolkit was chosen though no GPU is known that it must target.
fn without_gpu(context: &StepContext) -> Option<String> {
    if !context.chosen.cards.is_empty() || context.chosen.cuda.as_ref().is_none_or(|c| c.is_kept()) {
        return None;
    }
    let why = match context.facts.machine.kind {
        MachineKind::Wsl2 => "WSL2 does not show which GPU there is",
        _ => "no GPU is known here",
    };
    Some(format!(
        "{why}: CUDA was chosen without one, and may be too new or too old for yours; name it (--gpu \"gtx 1060\")"
    ))
}

/// Why the driver's modules may not build for a kernel, if so. Packages of a distribution are patched for its kernels.
fn unlikely_to_build(driver: &ChosenDriver, kernel: &str) -> Option<String> {
    let branch = driver.branch.branch;
    let (newest, why) = match driver.install {
        Install::Kept(..) => return None,
        Install::Packages(offer) => {
            (&offer.newest_kernel, format!("the packages of branch {branch} are patched for kernels up to"))
        }
        Install::Runfile(_) | Install::CudaRunfile(_) => {
            (&driver.branch.newest_kernel, format!("branch {branch} was last seen to build on"))
        }
    };
    if let Some(newest) = newest.as_deref().filter(|newest| dotted(kernel) > dotted(newest)) {
        return Some(format!("{why} {newest}: its modules may not build without patches"));
    }
    if driver.install.method() != Method::Runfile {
        return None;
    }
    let too_old = |limit: &&ReleaseLimit| {
        driver.version <= limit.up_to && driver.modules == limit.modules && dotted(kernel) >= dotted(&limit.from)
    };
    if let Some(limit) = driver.branch.release_limits.iter().find(too_old) {
        return Some(format!(
            "the {} modules of {} do not build on {} and newer",
            driver.modules, driver.version, limit.from
        ));
    }
    let limit = driver.branch.kernel_limits.iter().find(|limit| limit.excludes(kernel))?;
    Some(format!(
        "the modules of branch {branch} do not build on kernels of {} from {} on without patches",
        limit.distribution, limit.from
    ))
}

/// What is known of a sum over the steps: nothing if each step that has a part in it has an unknown one.
fn total(steps: &[Step], of: fn(&Step) -> Option<u64>) -> Option<u64> {
    let known = steps.iter().filter_map(of).sum();
    (known > 0 || steps.iter().all(|step| of(step).is_some())).then_some(known)
}

/// What makes the NVSwitches of the host work: without it CUDA fails, though nvidia-smi looks healthy.
fn joined_by_switches(database: &Database, context: &StepContext, driver: &ChosenDriver, joined: Joined) -> String {
    let host = match joined.seen {
        0 => format!("GPUs like these are joined by NVSwitches ({})", joined.fabric.name),
        count => format!("this host has {count} NVSwitches"),
    };
    let manager = context.distribution.map(|d| d.package_manager);
    let needed = |companion: &Companion| {
        let package = package_of(companion, driver, manager).map(|package| format!(" ({package})"));
        causes::companion(companion, driver.version) + &package.unwrap_or_default()
    };
    let following = joined.needs(database).filter(|companion| companion.version != VersionRule::Own).map(needed);
    let sentences: Vec<_> = run_elsewhere(database, joined.fabric).into_iter().chain(following).collect();
    format!("{host}: {}{}", sentences.join(". "), needed_besides(database, joined, driver.version, manager))
}

/// What the hosts of other NVSwitches run, and other machines than this one.
fn run_elsewhere(database: &Database, fabric: &Fabric) -> Option<String> {
    let titles: Vec<_> = fabric.elsewhere.iter().map(|id| database.companion_title(*id)).collect();
    let verb = if titles.len() > 1 { "run" } else { "runs" };
    (!titles.is_empty()).then(|| format!("{} {verb} there, not on this host", titles.join(" and ")))
}

/// What NVSwitches need in any version, as the end of a sentence.
fn needed_besides(
    database: &Database,
    joined: Joined,
    driver: DriverVersion,
    manager: Option<PackageManager>,
) -> String {
    let separate = joined.needs(database).filter(|companion| companion.version == VersionRule::Own);
    let packages: Vec<_> = separate.map(|c| c.package(manager, driver).unwrap_or_else(|| c.title.clone())).collect();
    let modules = &joined.fabric.kernel_modules;
    let besides = [
        (!packages.is_empty()).then(|| format!("{} of NVIDIA's repository", packages.join(", "))),
        (!modules.is_empty()).then(|| format!("the kernel modules {}", modules.join(" and "))),
    ];
    let besides: Vec<_> = besides.into_iter().flatten().collect();
    if besides.is_empty() {
        return String::new();
    }
    format!(
        ", with {}. Until all of these run, CUDA fails with error 802 (system not yet initialized), while nvidia-smi looks \
         healthy",
        besides.join(" and ")
    )
}

/// The package of a companion, and who has it: the repository that the driver is from, or NVIDIA's.
fn package_of(companion: &Companion, driver: &ChosenDriver, manager: Option<PackageManager>) -> Option<String> {
    if let Install::Packages(offer) = driver.install
        && let Some(name) = offer.companions.get(&companion.id)
    {
        return Some(format!("in {} the package {name}", offer.repository.name));
    }
    let name = companion.package(Some(manager?), driver.version)?;
    Some(format!("in NVIDIA's repository the package {name}"))
}

fn totals(steps: &[Step]) -> Totals {
    let (download_bytes, disk_bytes) = (total(steps, |s| s.download_bytes), total(steps, |s| s.disk_bytes));
    let at_least = steps.iter().any(|s| s.download_bytes.is_none() || s.disk_bytes.is_none());
    let mut totals = Totals { download_bytes, disk_bytes, at_least, ..Totals::default() };
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

/// What of the facts makes a host this host: a plan made for another is refused.
#[derive(Serialize)]
struct Identity<'a> {
    arch: &'a str,
    os: (&'a str, &'a str),
    gpus: Vec<(&'a str, &'a str)>,
}

fn identity(facts: &Facts) -> Identity<'_> {
    Identity {
        arch: &facts.machine.arch,
        os: (&facts.os.id, &facts.os.version),
        gpus: facts.gpus.iter().map(|g| (g.address.as_str(), g.pci_id.as_str())).collect(),
    }
}

impl Plan {
    /// These steps for this host, of which nothing was chosen; its sums are yet to be made.
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
            fingerprint: String::new(),
            selection: Selection::default(),
            reasons: Vec::new(),
            rejected: Vec::new(),
            totals: Totals::default(),
            host,
            request,
            steps,
            warnings,
        }
    }

    /// With the totals and the fingerprint of what it is now.
    pub(super) fn summed(self) -> Self {
        let mut plan = self.with_needs();
        plan.totals = totals(&plan.steps);
        plan.fingerprint = plan.expected_fingerprint();
        plan
    }

    /// The fingerprint that a plan with this content has.
    pub fn expected_fingerprint(&self) -> String {
        let mut steps = self.steps.clone();
        // What follows from the rest is worked out again whenever a plan is read.
        for step in &mut steps {
            (step.room, step.licensed, step.idle_driver) = (Vec::new(), false, false);
        }
        for act in steps.iter_mut().flat_map(|s| &mut s.operations) {
            if let Operation::Download(Download { url, .. }) = &mut act.operation {
                url.clear();
            }
        }
        let content = (&self.database, identity(&self.host), &self.request, &self.selection, &steps);
        // Maps in it are sorted, and text and numbers always serialise.
        sha256(serde_json::to_vec(&content).unwrap_or_default())
    }

    /// Whether `facts` are of the host that the plan was made for: its machine, system and GPUs.
    pub fn is_for(&self, facts: &Facts) -> bool {
        let same =
            |a: &Facts, b: &Facts| serde_json::to_value(identity(a)).ok() == serde_json::to_value(identity(b)).ok();
        same(&self.host, facts)
    }

    /// Whether it brings something onto the host that is under a licence of NVIDIA's.
    pub fn brings_nvidias(&self) -> bool {
        self.steps.iter().any(|step| step.licensed && step.state == State::Needed)
    }

    /// Whether there is nothing to do.
    pub fn is_converged(&self) -> bool {
        self.steps.iter().all(|s| s.state != State::Needed)
    }
}
