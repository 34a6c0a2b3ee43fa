//! Alternatives to a refused request, as commands. Each one is tried before it is suggested.

use super::conflict::{Alternative, Conflict, Hint};
use super::known_host::KnownHost;
use super::python::libraries_of;
use super::search::{Detail, nearest, summary};
use super::target_gpu::without_hopeless;
use super::wanted::relaxed;
use super::{Method, Prefer, Request, Resolution, ToolkitMethod};
use gpusetup_database::compat::{AddOnId, Database, framework_and_version};
use gpusetup_database::version::{AddOnVersion, Want};
use gpusetup_host::assumed_gpus;
use gpusetup_text::ids::RuleId;
use gpusetup_text::text::quoted;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The smallest toolkit that compiles, suggested when the runfile cannot be used.
const COMPILER: [&str; 2] = ["nvcc", "cudart"];

/// Whether the host can have what fits a request, as far as the caller knows: something else may
/// stand in the way.
pub(crate) type CanBePlanned<'j> = &'j dyn Fn(&Request) -> bool;

/// Adds alternatives to a refusal. Those that cannot be planned are added only if there are no
/// others, for the caller to say what blocks them.
pub(crate) fn with_alternative(
    host: &KnownHost,
    request: &Request,
    conflict: Conflict,
    can_be_planned: CanBePlanned,
) -> Conflict {
    let possible = with_nearest(host, request, conflict.clone(), can_be_planned);
    if possible.alternative.is_some() {
        return possible;
    }
    let out = with_nearest(host, request, conflict, &|_| true);
    if out.alternative.is_some() {
        out
    } else {
        kinds_alone(host, request, out)
    }
}

/// Adds alternatives that are possible: the same request without the GPUs that no driver supports
/// here, the same with component archives instead of the runfile, and the nearest smaller request.
fn with_nearest(
    host: &KnownHost,
    request: &Request,
    conflict: Conflict,
    can_be_planned: CanBePlanned,
) -> Conflict {
    let served = host.served(request);
    let without = served
        .gpus
        .is_err()
        .then(|| without_hopeless(host, &served.request))
        .flatten();
    let without = without.map(|leave_out| Request {
        leave_out,
        ..request.clone()
    });
    let (request, same) = (without.as_ref().unwrap_or(request), without.clone());
    let is_whole = request.components.is_empty() && request.cuda.is_wanted();
    let by_components = is_whole.then(|| Request {
        components: COMPILER.map(str::to_owned).to_vec(),
        toolkit_method: ToolkitMethod::Auto,
        ..request.clone()
    });
    let is_of_files = [RuleId::CudaPublished, RuleId::CudaComponents]
        .iter()
        .any(|rule| conflict.rule == *rule);
    let by_repository = (is_whole && is_of_files)
        .then(|| Request {
            toolkit_method: ToolkitMethod::Repository,
            ..request.clone()
        })
        .filter(|other| other != request);
    let trials = &Trials {
        host,
        can_be_planned,
        failed: RefCell::default(),
    };
    let fits = |smaller| trials.fits(request, smaller);
    let is_served = without.is_some() || host.served(request).gpus.is_ok();
    let whole = if is_served {
        same
    } else {
        toolkit_alone(request, &conflict)
    }
    .and_then(fits);
    let asks_less = is_served && whole.is_none();
    let by_repository = by_repository.filter(|_| asks_less).and_then(fits);
    let by_components = by_components.filter(|_| asks_less).and_then(fits);
    let wheels_alone =
        (asks_less && concerns_compiler(&conflict)).then(|| wheels_alone(host, request, &conflict));
    let wheels_alone = wheels_alone.flatten().and_then(fits);
    let mut smaller = asks_less
        .then(|| smaller(host, request))
        .into_iter()
        .flatten();
    let instead = whole.or_else(|| smaller.find_map(fits));
    let instead = instead.filter(|(instead, _)| {
        wheels_alone
            .as_ref()
            .is_none_or(|(alone, _)| alone != instead)
    });
    let mut out = conflict;
    out.hints.retain(|hint| {
        hint.asks()
            .is_none_or(|asked| trials.choice(asked).is_some())
    });
    let alone =
        "without a toolkit, which wheels do not need if pip installs the CUDA libraries with them";
    let packaged = "from packages of NVIDIA's repository";
    for (why, found) in [
        (packaged, by_repository),
        ("", by_components),
        (alone, wheels_alone),
        ("", instead),
    ] {
        if let Some((instead, answer)) = found {
            out = with_hint(host, out, why, instead, &answer);
        }
    }
    out
}

/// The conflict with another hint, which asks for what fits.
fn with_hint(
    host: &KnownHost,
    mut conflict: Conflict,
    why: &'static str,
    instead: Request,
    answer: &Resolution,
) -> Conflict {
    let selection = answer.selection();
    // The same request may be suggested already, without what it gives.
    let mut hints = conflict.hints.iter();
    let before = hints.position(|hint| hint.asks() == Some(&instead));
    let why = match before.map(|at| conflict.hints.remove(at)) {
        Some(Hint::Plan { why, .. }) => why,
        _ => why,
    };
    let gives = format!("fits: {}", summary(&selection));
    let mut conflict = conflict.hint(as_hint(host, instead, why, gives));
    conflict.alternative.get_or_insert_with(|| {
        Box::new(Alternative {
            selection,
            reasons: answer.reasons.clone(),
        })
    });
    conflict
}

/// Tries requests and remembers those that failed: several ways to request less often give the same
/// request.
struct Trials<'h, 'a, 'f> {
    host: &'h KnownHost<'a, 'f>,
    can_be_planned: CanBePlanned<'h>,
    failed: RefCell<Vec<Request>>,
}

impl<'a> Trials<'_, 'a, '_> {
    /// What is asked for instead of `request`, with what it gives; none if nothing fits.
    fn fits(&self, request: &Request, smaller: Request) -> Option<(Request, Rc<Resolution<'a>>)> {
        let answer = self.choice(&smaller)?;
        let chosen = answer.cuda.as_ref().map(|toolkit| toolkit.release.version);
        let Some(chosen) = chosen.filter(|_| smaller.cuda != request.cuda) else {
            return Some((smaller, answer));
        };
        // The command names the exact release, and must give the same result.
        let exact = Request {
            cuda: chosen.to_string().parse().ok()?,
            ..smaller
        };
        let answer = self.choice(&exact)?;
        Some((exact, answer))
    }

    /// What a request gets; none if nothing fits.
    fn choice(&self, request: &Request) -> Option<Rc<Resolution<'a>>> {
        if self.failed.borrow().contains(request) {
            return None;
        }
        let answer = self
            .host
            .choice(request, Detail::FeasibilityOnly)
            .ok()
            .filter(|_| (self.can_be_planned)(request));
        if answer.is_none() {
            self.failed.borrow_mut().push(request.clone());
        }
        answer
    }
}

/// Whether a toolkit was refused for what only its compiler needs: wheels may run all the same.
fn concerns_compiler(conflict: &Conflict) -> bool {
    [
        RuleId::CudaHostCompiler,
        RuleId::CudaHostHeaders,
        RuleId::CudaTargetsGpu,
    ]
    .iter()
    .any(|rule| conflict.rule == *rule)
}

/// The driver alone, if no requested framework is compiled on the host.
fn wheels_alone(host: &KnownHost, request: &Request, conflict: &Conflict) -> Option<Request> {
    let is_of_gpu = conflict.rule == RuleId::CudaTargetsGpu;
    let is_possible = request.driver.is_wanted() && are_wheels(host, request, is_of_gpu);
    is_possible.then(|| request.without_toolkit())
}

/// Whether all requested frameworks come as wheels whose limits are known: without a toolkit, its
/// limits do not apply. Whether a build has kernels for a GPU that is newer than its CUDA, only its
/// highest capability tells.
fn are_wheels(host: &KnownHost, request: &Request, is_of_gpu: bool) -> bool {
    let (database, arch) = (host.database, &host.facts.machine.arch);
    let mut frameworks = request.frameworks.iter();
    !request.frameworks.is_empty()
        && frameworks.all(|text| {
            let framework = database.framework(framework_and_version(text).0.trim());
            let release = database.framework_release(text);
            framework.zip(release).is_some_and(|(framework, release)| {
                let mut builds = release.builds.iter();
                !framework.needs_nvcc_at_start(release)
                    && builds.all(|build| {
                        !libraries_of(framework, release, build, arch).are_hosts()
                            && (build.highest_capability.is_some()
                                || !is_of_gpu && build.lowest_capability.is_some())
                    })
            })
        })
}

/// The toolkit without a driver, if no driver supports any GPU here and the refusal does not
/// suggest it already.
fn toolkit_alone(request: &Request, conflict: &Conflict) -> Option<Request> {
    let is_news =
        request.cuda.is_wanted() && conflict.hints.iter().all(|hint| hint.command().is_none());
    is_news.then(|| Request {
        driver: Want::Nothing,
        ..request.clone()
    })
}

/// How many requests are tried in place of a refused one, at most.
const MAX_TRIALS: usize = 400;

/// Something that a suggestion gives up of a request.
struct Relaxation {
    /// How much it changes. A suggestion changes as little as it can in all: first how something is
    /// installed, then the flavour of the modules, then versions, and then layers.
    cost: u32,
    /// The request without it, the preferred way first. Ways that change nothing are left out.
    ways: fn(&KnownHost, &Request) -> Vec<Request>,
}

impl Relaxation {
    const fn new(cost: u32, ways: fn(&KnownHost, &Request) -> Vec<Request>) -> Self {
        Self { cost, ways }
    }

    /// The changed requests; none if it was not asked for.
    fn of(&self, host: &KnownHost, request: &Request) -> Vec<Request> {
        let mut changed = (self.ways)(host, request);
        changed.retain(|smaller| smaller != request);
        changed
    }
}

/// What can be given up.
const RELAXATIONS: [Relaxation; 19] = [
    Relaxation::new(1, any_toolkit_method),
    Relaxation::new(2, other_driver_methods),
    Relaxation::new(4, any_flavour),
    Relaxation::new(8, less_exact_driver),
    Relaxation::new(8, less_exact_toolkit),
    Relaxation::new(8, nearest_additional_toolkit),
    Relaxation::new(8, less_exact_cudnn),
    Relaxation::new(8, any_add_ons),
    Relaxation::new(16, any_cudnn),
    Relaxation::new(16, other_frameworks),
    Relaxation::new(24, any_toolkit),
    Relaxation::new(32, any_driver),
    Relaxation::new(48, fewer_toolkits),
    Relaxation::new(64, whole_toolkit),
    Relaxation::new(64, no_add_ons),
    Relaxation::new(64, no_companions),
    Relaxation::new(128, no_toolkit),
    Relaxation::new(128, one_framework),
    Relaxation::new(192, no_frameworks),
];

/// Requests that give up something, those that give up least first. Each is made when it is asked
/// for: mostly one of the first fits.
fn smaller<'r>(host: &'r KnownHost, request: &'r Request) -> impl Iterator<Item = Request> + 'r {
    let possible: Vec<_> = RELAXATIONS
        .iter()
        .filter(|relaxation| !relaxation.of(host, request).is_empty())
        .collect();
    // Bits of a number say what is given up.
    let mut sets: Vec<(u32, u32)> = (1..1 << possible.len().min(MAX_RELAXED))
        .map(|set| (cost(&possible, set), set))
        .collect();
    sets.sort_unstable();
    let all = sets
        .into_iter()
        .flat_map(move |(_, set)| without(host, request, &possible, set))
        .filter(move |smaller| smaller != request)
        .take(MAX_TRIALS);
    let last = [
        request.relaxed(),
        request.driver_alone(),
        request.relaxed().driver_alone(),
    ];
    let has_driver = request.driver.is_wanted();
    all.chain(
        last.into_iter()
            .filter(move |last| last != request && has_driver),
    )
}

/// How many parts of a request are given up in all combinations.
const MAX_RELAXED: usize = 12;

fn cost(possible: &[&Relaxation], set: u32) -> u32 {
    chosen(possible, set)
        .map(|relaxation| relaxation.cost)
        .sum()
}

fn chosen<'p>(
    possible: &'p [&'p Relaxation],
    set: u32,
) -> impl Iterator<Item = &'p Relaxation> + 'p {
    possible
        .iter()
        .enumerate()
        .filter(move |(bit, _)| set & (1 << bit) != 0)
        .map(|(_, relaxation)| *relaxation)
}

/// The request without a set of its parts, in all ways.
fn without(
    host: &KnownHost,
    request: &Request,
    possible: &[&Relaxation],
    set: u32,
) -> Vec<Request> {
    let mut all = vec![request.clone()];
    for relaxation in chosen(possible, set) {
        all = all
            .iter()
            .flat_map(|smaller| relaxation.of(host, smaller))
            .collect();
    }
    all
}

fn any_toolkit_method(_: &KnownHost, request: &Request) -> Vec<Request> {
    let toolkit_method = ToolkitMethod::Auto;
    vec![Request {
        toolkit_method,
        ..request.clone()
    }]
}

/// From NVIDIA's repository, which is packages, too; then in any way.
fn other_driver_methods(_: &KnownHost, request: &Request) -> Vec<Request> {
    let methods: &[Method] = match request.method {
        Method::Auto => &[],
        Method::Packages => &[Method::Repository, Method::Auto],
        Method::Repository | Method::Runfile => &[Method::Auto],
    };
    methods
        .iter()
        .map(|method| Request {
            method: *method,
            ..request.clone()
        })
        .collect()
}

fn any_flavour(_: &KnownHost, request: &Request) -> Vec<Request> {
    vec![Request {
        modules: None,
        ..request.clone()
    }]
}

fn less_exact_driver(_: &KnownHost, request: &Request) -> Vec<Request> {
    shortened(&request.driver)
        .map(|driver| Request {
            driver,
            ..request.clone()
        })
        .collect()
}

/// The releases nearest to an unknown one, and those of the same series.
fn less_exact_toolkit(host: &KnownHost, request: &Request) -> Vec<Request> {
    let near = nearest(host.database, &request.cuda)
        .into_iter()
        .filter_map(|version| version.to_string().parse().ok());
    near.chain(shortened(&request.cuda))
        .map(|cuda| Request {
            cuda,
            ..request.clone()
        })
        .collect()
}

fn nearest_additional_toolkit(host: &KnownHost, request: &Request) -> Vec<Request> {
    request.nearest_beside(host.database).collect()
}

fn less_exact_cudnn(_: &KnownHost, request: &Request) -> Vec<Request> {
    shortened(&request.cudnn)
        .map(|cudnn| Request {
            cudnn,
            ..request.clone()
        })
        .collect()
}

fn any_add_ons(_: &KnownHost, request: &Request) -> Vec<Request> {
    let add_ons = request.relaxed_add_ons();
    vec![Request {
        add_ons,
        ..request.clone()
    }]
}

fn any_cudnn(_: &KnownHost, request: &Request) -> Vec<Request> {
    let cudnn = relaxed(&request.cudnn);
    vec![Request {
        cudnn,
        ..request.clone()
    }]
}

fn any_toolkit(_: &KnownHost, request: &Request) -> Vec<Request> {
    let cuda = relaxed(&request.cuda);
    vec![Request {
        cuda,
        ..request.clone()
    }]
}

fn any_driver(_: &KnownHost, request: &Request) -> Vec<Request> {
    let driver = relaxed(&request.driver);
    vec![Request {
        driver,
        ..request.clone()
    }]
}

fn fewer_toolkits(_: &KnownHost, request: &Request) -> Vec<Request> {
    request.without_one().collect()
}

fn whole_toolkit(_: &KnownHost, request: &Request) -> Vec<Request> {
    vec![Request {
        components: Vec::new(),
        ..request.clone()
    }]
}

fn no_add_ons(_: &KnownHost, request: &Request) -> Vec<Request> {
    vec![Request {
        add_ons: BTreeMap::new(),
        ..request.clone()
    }]
}

fn no_companions(_: &KnownHost, request: &Request) -> Vec<Request> {
    vec![Request {
        companions: BTreeSet::new(),
        imex_peers: Vec::new(),
        ..request.clone()
    }]
}

/// The driver alone, with the frameworks whose wheels bring CUDA.
fn no_toolkit(host: &KnownHost, request: &Request) -> Vec<Request> {
    let has_toolkit = request.cuda.is_wanted() && request.driver.is_wanted();
    if !has_toolkit || !are_wheels(host, request, false) && !request.frameworks.is_empty() {
        return Vec::new();
    }
    vec![request.without_toolkit()]
}

/// Each of several frameworks alone.
fn one_framework(_: &KnownHost, request: &Request) -> Vec<Request> {
    if request.frameworks.len() < 2 {
        return Vec::new();
    }
    let alone = request.frameworks.iter();
    alone
        .map(|framework| Request {
            frameworks: vec![framework.clone()],
            ..request.clone()
        })
        .collect()
}

fn no_frameworks(_: &KnownHost, request: &Request) -> Vec<Request> {
    vec![Request {
        frameworks: Vec::new(),
        ..request.clone()
    }]
}

/// The other releases of the requested framework, newest first.
fn other_frameworks(host: &KnownHost, request: &Request) -> Vec<Request> {
    let [only] = request.frameworks.as_slice() else {
        return Vec::new();
    };
    let name = framework_and_version(only).0.trim();
    let known = host.database.framework(name).map(|f| f.releases.as_slice());
    known
        .unwrap_or_default()
        .iter()
        .map(|release| Request {
            frameworks: vec![format!("{name}=={}", release.version)],
            ..request.clone()
        })
        .collect()
}

/// Suggests each GPU model alone, if several models exclude each other.
fn kinds_alone(host: &KnownHost, request: &Request, conflict: Conflict) -> Conflict {
    let served = host.served(request);
    let Ok(gpus) = &served.gpus else {
        return conflict;
    };
    let there = host.facts.gpus.iter().filter(|g| !request.leaves_out(g));
    let named: Vec<_> = gpus
        .iter()
        .map(|card| card.name.as_str())
        .zip(there.map(|g| &g.address))
        .collect();
    let mut kinds: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
    kinds.dedup();
    let mut out = conflict;
    for kind in kinds.iter().filter(|_| kinds.len() > 1) {
        let others = named
            .iter()
            .filter(|(name, _)| name != kind)
            .map(|(_, address)| (*address).clone());
        let leave_out = request.leave_out.iter().cloned().chain(others).collect();
        let alone = Request {
            leave_out,
            ..request.clone()
        };
        if let Ok(answer) = host.choice(&alone, Detail::FeasibilityOnly) {
            out = out.hint(as_hint(
                host,
                alone,
                "",
                format!("{kind} alone: {}", summary(&answer.selection())),
            ));
        }
    }
    out
}

/// A version without its last numbers: `580.95` and `580` for `580.95.05`. Nothing for ranges and
/// words.
fn shortened<V>(want: &Want<V>) -> impl Iterator<Item = Want<V>>
where
    Want<V>: std::fmt::Display + std::str::FromStr,
{
    let text = want.to_string();
    let is_version = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    std::iter::successors(Some(text).filter(|_| is_version), |text| {
        text.rsplit_once('.').map(|(start, _)| start.to_owned())
    })
    .skip(1)
    .filter_map(|text| text.parse().ok())
}

/// A hint with the command for a request and its result.
fn as_hint(host: &KnownHost, asks: Request, why: &'static str, gives: String) -> Hint {
    let request = without_left_out(host, &asks).options();
    Hint::Plan {
        why,
        host: String::new(),
        request,
        change: None,
        asks: Some(Box::new(asks)),
        gives: Some(gives),
    }
}

/// The same request, in which assumed GPUs are not named in place of being left out: they have no
/// bus address of their own. One that was described with the host (`--facts`) keeps its place.
fn without_left_out(host: &KnownHost, request: &Request) -> Request {
    let assumed = host.facts.gpus.iter().filter(|gpu| gpu.assumed);
    let mut addresses = assumed.map(|gpu| gpu.address.as_str());
    let mut named = Vec::new();
    for spec in &request.assumed_gpus {
        let count = assumed_gpus(host.database, spec).map_or(0, |gpus| gpus.len());
        named.push((spec, addresses.by_ref().take(count).collect::<Vec<_>>()));
    }
    let (dropped, kept): (Vec<_>, Vec<_>) = named.into_iter().partition(|(_, at)| {
        at.iter()
            .all(|address| request.leave_out.iter().any(|left| left == address))
    });
    let mut leave_out = request.leave_out.clone();
    leave_out.retain(|address| !dropped.iter().any(|(_, at)| at.contains(&address.as_str())));
    Request {
        assumed_gpus: kept.into_iter().map(|(spec, _)| spec.clone()).collect(),
        leave_out,
        ..request.clone()
    }
}

impl Request {
    /// The same layers in any version, installed in any way.
    fn relaxed(&self) -> Self {
        Self {
            driver: relaxed(&self.driver),
            cuda: relaxed(&self.cuda),
            additional_toolkits: Vec::new(),
            cudnn: relaxed(&self.cudnn),
            add_ons: self.relaxed_add_ons(),
            modules: None,
            method: Method::Auto,
            toolkit_method: ToolkitMethod::Auto,
            ..self.clone()
        }
    }

    pub(super) fn relaxed_add_ons(&self) -> BTreeMap<AddOnId, Want<AddOnVersion>> {
        self.add_ons
            .iter()
            .map(|(id, want)| (*id, relaxed(want)))
            .collect()
    }

    /// The same driver without a toolkit and without frameworks.
    pub(crate) fn driver_alone(&self) -> Self {
        Self {
            frameworks: Vec::new(),
            ..self.without_toolkit()
        }
    }

    /// The same driver and frameworks without a toolkit.
    fn without_toolkit(&self) -> Self {
        Self {
            cuda: Want::Nothing,
            additional_toolkits: Vec::new(),
            cudnn: Want::Nothing,
            add_ons: BTreeMap::new(),
            components: Vec::new(),
            toolkit_method: ToolkitMethod::Auto,
            with_toolkit: false,
            ..self.clone()
        }
    }

    /// The same request with the nearest known releases instead of an unknown one beside the
    /// default toolkit.
    fn nearest_beside<'r>(&'r self, database: &'r Database) -> impl Iterator<Item = Self> + 'r {
        self.additional_toolkits
            .iter()
            .enumerate()
            .flat_map(move |(n, additional)| {
                nearest(database, &additional.cuda)
                    .into_iter()
                    .filter_map(move |version| {
                        let mut request = self.clone();
                        request.additional_toolkits[n].cuda = version.to_string().parse().ok()?;
                        Some(request)
                    })
            })
    }

    /// What a request adds to a lock file, which has the versions.
    pub fn beside_lock(&self) -> Self {
        Self {
            prefix: self.prefix.clone(),
            cache: self.cache.clone(),
            assumed_gpus: self.assumed_gpus.clone(),
            leave_out: self.leave_out.clone(),
            imex_peers: self.imex_peers.clone(),
            library_path: self.library_path,
            no_epel: self.no_epel,
            settings: self.settings.clone(),
            ..Self::default_on(self.today.clone())
        }
    }

    /// The command-line options that give this request.
    pub fn options(&self) -> String {
        let mut options = self.layer_options();
        options.extend(self.method_options());
        options.extend(self.host_options());
        let options = options.into_iter();
        let mut words: Vec<_> = options
            .map(|(flag, value)| format!("{flag} {}", quoted(&value)))
            .collect();
        words.extend(self.upgrade.then(|| "--upgrade".to_owned()));
        words.extend(self.library_path.then(|| "--library-path".to_owned()));
        words.extend(self.no_epel.then(|| "--no-epel".to_owned()));
        words.extend(self.settings.options());
        words.join(" ")
    }

    /// What is installed, and for which GPUs and frameworks.
    fn layer_options(&self) -> Vec<(&'static str, String)> {
        let mut all = Vec::new();
        all.extend(self.assumed_gpus.iter().map(|spec| ("--gpu", spec.clone())));
        all.extend(self.frameworks.iter().map(|text| ("--for", text.clone())));
        let profile = match (self.driver.is_wanted(), self.cuda.is_wanted()) {
            // It is among the settings.
            _ if self.settings.containers.is_some() => None,
            (_, false) => Some("driver"),
            // In a container, where that is the default, packages bring their own CUDA.
            (false, true) if !self.frameworks.is_empty() && !self.with_toolkit => None,
            (false, true) => Some("toolkit"),
            (true, true) => self.with_toolkit.then_some("compute"),
        };
        if self.driver != Want::Best && profile != Some("toolkit") {
            all.push(("--driver", self.driver.to_string()));
        }
        all.extend(profile.map(|profile| ("--profile", profile.to_owned())));
        if self.cuda.is_wanted() && self.cuda != Want::Best {
            all.push(("--cuda", self.cuda.to_string()));
        }
        let additional = self.additional_toolkits.iter();
        all.extend(additional.map(|additional| ("--cuda", additional.cuda.to_string())));
        if self.cudnn != Want::Best && self.cuda.is_wanted() {
            all.push(("--cudnn", self.cudnn.to_string()));
        }
        for (id, want) in &self.add_ons {
            match want {
                Want::Nothing => {}
                Want::Best => all.push(("--with", id.as_str().to_owned())),
                asked => all.push(("--with", format!("{id}=={asked}"))),
            }
        }
        all.extend(
            self.companions
                .iter()
                .map(|id| ("--with", id.as_str().to_owned())),
        );
        all
    }

    /// How it is installed.
    fn method_options(&self) -> Vec<(&'static str, String)> {
        let mut all = Vec::new();
        if !self.components.is_empty() {
            all.push(("--components", self.components.join(",")));
        }
        match self.method {
            Method::Auto => {}
            Method::Packages => all.push(("--method", "packages".to_owned())),
            Method::Repository => all.push(("--method", "repository".to_owned())),
            Method::Runfile => all.push(("--method", "runfile".to_owned())),
        }
        if !self.toolkit_method.is_auto() {
            let method = self.toolkit_method.as_str();
            all.push(("--toolkit-method", method.to_owned()));
        }
        if let Some(file) = &self.driver_file {
            all.push(("--driver-file", file.url.clone()));
            all.push(("--driver-file-sha256", file.sha256.clone()));
        }
        all.extend(
            self.modules
                .map(|flavour| ("--modules", flavour.to_string())),
        );
        match self.prefer {
            Prefer::Stable => {}
            Prefer::Latest => all.push(("--prefer", "latest".to_owned())),
            Prefer::LongestSupport => all.push(("--prefer", "longest-support".to_owned())),
        }
        all
    }

    /// The folders, the GPUs that are left out, and the other hosts.
    fn host_options(&self) -> Vec<(&'static str, String)> {
        let plain = Self::default_on(self.today.clone());
        let mut all = Vec::new();
        if self.prefix != plain.prefix {
            all.push(("--prefix", self.prefix.display().to_string()));
        }
        if self.cache != plain.cache {
            all.push(("--cache", self.cache.display().to_string()));
        }
        if !self.leave_out.is_empty() {
            all.push(("--leave-out", self.leave_out.join(",")));
        }
        if !self.imex_peers.is_empty() {
            let peers: Vec<_> = self.imex_peers.iter().map(ToString::to_string).collect();
            all.push(("--imex-peers", peers.join(",")));
        }
        all
    }
}
