//! The search: the preferred driver for which a toolkit fits, the newest toolkit that fits it, and
//! the newest add-ons that fit both. There are so few candidates that no solver is needed; each
//! refusal keeps its rule.

use super::add_on::{self, ChosenAddOn, refused_for};
use super::additional_toolkit::{
    AdditionalToolkit, AdditionalToolkitSearch, are_apart, other_add_ons,
};
use super::component::Part;
use super::cuda::{
    SearchContext, Toolkit, newer_without_files, passed_over, preferred, runs_on, toolkit,
    toolkit_by,
};
use super::driver::{
    Candidate, Candidates, none_fits, outranked, refused, rules_passed, untouched_driver,
};
use super::environment::releases_meant;
use super::framework::{Combination, combinations};
use super::known_host::{KnownHost, Served};
use super::reasons::{along, from_repository, reasons, without_runfile};
use super::refusal::{Explanation, Refusal, Subject, Unpackaged};
use super::repositories::not_enabled;
use super::wanted::WantedAddOn;
use super::{
    Conflict, JetsonBoard, Method, PythonPackage, Reason, Rejection, Request, SelectedAddOn,
    SelectedComponent, SelectedCuda, SelectedDriver, SelectedToolkit, Selection, TargetGpu,
    ToolkitMethod, toolkit_method,
};
use gpusetup_database::compat::{
    AddOn, AddOnArtifact, AddOnId, CudaRelease, Database, Distribution, framework_and_version,
    short,
};
use gpusetup_database::version::{ComputeCapability, CudaVersion, DriverVersion, Want, dotted};
use gpusetup_host::Facts;
use gpusetup_text::ids::{AddOnRule, CheckId, Recorded, Rule, RuleId};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The answer, with everything that the planner needs.
#[derive(Debug, Clone, Default)]
pub struct Resolution<'a> {
    /// The supported GPUs.
    pub gpus: Vec<Rc<TargetGpu>>,
    /// The driver.
    pub driver: Option<Candidate<'a>>,
    /// The driver that is there and stays, if the request leaves the driver out.
    pub(crate) untouched_driver: Option<Candidate<'a>>,
    /// The toolkit.
    pub cuda: Option<Toolkit<'a>>,
    /// The components, if the toolkit is assembled from component archives.
    pub parts: Vec<Part<'a>>,
    /// The add-ons, in the database's order.
    pub add_ons: Vec<ChosenAddOn<'a>>,
    /// The toolkits beside that one, which is the default.
    pub additional_toolkits: Vec<AdditionalToolkit<'a>>,
    /// Why each part of the choice was made.
    pub reasons: Vec<Reason>,
    /// Why newer candidates were not chosen.
    pub rejected: Vec<Rejection>,
    /// Why there is no toolkit, if nobody asked for one and none fits.
    pub without_toolkit: Option<Conflict>,
    /// Limits of the requested frameworks on these GPUs.
    pub cautions: Vec<String>,
    /// How the requested frameworks are installed.
    pub python: Vec<PythonPackage>,
}

impl<'a> Resolution<'a> {
    /// All toolkits, the default one first.
    pub fn toolkits(&self) -> impl Iterator<Item = &Toolkit<'a>> {
        self.cuda.iter().chain(
            self.additional_toolkits
                .iter()
                .filter_map(|additional| additional.chosen.cuda.as_ref()),
        )
    }
}

impl Resolution<'_> {
    /// The lowest compute capability of the GPUs, as far as known.
    pub fn oldest_gpu(&self) -> Option<ComputeCapability> {
        self.gpus.iter().filter_map(|card| card.capability).min()
    }

    /// Whether a driver is installed, not kept.
    pub fn installs_driver(&self) -> bool {
        self.driver.as_ref().is_some_and(|driver| !driver.is_kept())
    }

    /// The driver that stays, and the toolkit, if it does not run that.
    pub fn not_run(&self) -> Option<(&Candidate<'_>, &Toolkit<'_>)> {
        let pair = self.untouched_driver.as_ref().zip(self.cuda.as_ref());
        pair.filter(|(driver, cuda)| runs_on(cuda.release, driver).is_err())
    }

    /// The Python packages whose own CUDA the driver that stays does not run, each with the oldest
    /// driver that does, and that driver.
    pub fn packages_not_run(
        &self,
    ) -> impl Iterator<Item = (&PythonPackage, DriverVersion, DriverVersion)> {
        let driver = self.untouched_driver.as_ref().map(|driver| driver.version);
        let packages = { self.python.iter() }.filter(|of| of.libraries.are_packaged());
        let each = packages.filter_map(move |of| Some((of, of.minimum_driver?, driver?)));
        each.filter(|(_, needs, have)| have < needs)
    }

    /// The chosen versions, for printing and for the plan.
    pub fn selection(&self) -> Selection {
        let mut add_ons = self.selected_add_ons();
        let all = std::iter::once(self).chain(
            self.additional_toolkits
                .iter()
                .map(|additional| &additional.chosen),
        );
        let toolkits = all
            .filter(|_| !self.additional_toolkits.is_empty())
            .filter_map(Self::selected_toolkit)
            .collect();
        Selection {
            driver: self.driver.as_ref().map(|d| SelectedDriver {
                version: d.version,
                branch: d.branch.branch.to_string(),
                modules: d.modules,
                method: d.install.method(),
            }),
            cuda: self.selected_cuda(),
            cudnn: add_ons.remove(&AddOnId::CUDNN),
            add_ons,
            toolkits,
        }
    }

    fn selected_cuda(&self) -> Option<SelectedCuda> {
        self.cuda.as_ref().map(|c| SelectedCuda {
            version: c.version(),
            components: self
                .parts
                .iter()
                .filter(|part| !part.is_extra)
                .map(selected)
                .collect(),
            method: c.packages.map(|_| ToolkitMethod::Repository),
        })
    }

    fn selected_toolkit(&self) -> Option<SelectedToolkit> {
        let mut add_ons = self.selected_add_ons();
        Some(SelectedToolkit {
            cuda: self.selected_cuda()?,
            cudnn: add_ons.remove(&AddOnId::CUDNN),
            add_ons,
        })
    }

    fn selected_add_ons(&self) -> BTreeMap<AddOnId, SelectedAddOn> {
        let Some(cuda) = &self.cuda else {
            return BTreeMap::new();
        };
        self.add_ons
            .iter()
            .map(|a| {
                let selected = SelectedAddOn {
                    version: a.artifact.version,
                    cuda_major: cuda.release.version.major,
                };
                (a.of.id, selected)
            })
            .collect()
    }
}

fn selected(part: &Part) -> SelectedComponent {
    SelectedComponent {
        name: part.name.to_owned(),
        version: part.version.to_owned(),
    }
}

/// Resolves exactly this request, without searching for alternatives.
pub(crate) fn attempt<'a>(
    host: &KnownHost<'a, '_>,
    request: &Request,
    detail: Detail,
) -> Result<Resolution<'a>, Conflict> {
    let KnownHost {
        database, facts, ..
    } = *host;
    host.named(request)?;
    toolkit_method::is_possible(host, request)?;
    let served = &*host.served(request);
    let gpus = match &served.gpus {
        Ok(gpus) => gpus,
        Err(_) if detail == Detail::FeasibilityOnly => return Err(Conflict::unexplained()),
        Err(conflict) => return Err(conflict.clone()),
    };
    if gpus.is_empty() && request.driver.is_wanted() {
        let unreadable = facts.unreadable_gpus().count();
        return Err(match unreadable {
            0 if facts.gpus.is_empty() => no_gpu(facts),
            0 => Conflict::all_left_out(),
            count => unreadable_gpus(count),
        });
    }
    // Its GPU does not show on the PCI bus, and the one that `--gpu` names is a board's.
    if let Some(board) = JetsonBoard::of(database, facts).filter(|_| request.cuda.is_wanted())
        && (facts.gpus.is_empty() && !board.uses_sbsa()
            || !board.may_use_sbsa() && gpus.iter().any(|card| card.embedded.is_some()))
    {
        return Err(board.refused());
    }
    if !request.frameworks.is_empty() {
        return for_newest_releases(host, served, request, gpus, detail);
    }
    match search(host, served, request, gpus, detail) {
        Err(conflict) if request.may_lack_toolkit() => {
            without_toolkit(host, served, request, gpus, detail, conflict)
        }
        found => found,
    }
}

/// The driver alone, if no toolkit fits and nobody asked for one.
fn without_toolkit<'a>(
    host: &KnownHost<'a, '_>,
    served: &Served<'a>,
    request: &Request,
    gpus: &[Rc<TargetGpu>],
    detail: Detail,
    conflict: Conflict,
) -> Result<Resolution<'a>, Conflict> {
    let alone = request.driver_alone();
    match search(host, served, &alone, gpus, detail) {
        Ok(found) => Ok(Resolution {
            without_toolkit: Some(conflict),
            ..found
        }),
        Err(_) => Err(conflict),
    }
}

/// The choice for the newest releases of the frameworks for which something fits.
fn for_newest_releases<'a>(
    host: &KnownHost<'a, '_>,
    served: &Served<'a>,
    request: &Request,
    gpus: &[Rc<TargetGpu>],
    detail: Detail,
) -> Result<Resolution<'a>, Conflict> {
    let (mut first, mut passed_over) = (None::<Conflict>, Vec::new());
    // It is taken if every release has a drawback.
    let mut lesser = None;
    for frameworks in releases_meant(host.database, &request.frameworks) {
        let named = Request {
            frameworks,
            ..request.clone()
        };
        match for_frameworks(host, served, &named, gpus, detail) {
            Ok(mut found) => {
                let Some((because, rule)) = drawback(host, &found) else {
                    found.rejected.extend(passed_over);
                    return Ok(found);
                };
                passed_over.push(Rejection {
                    candidate: named.frameworks.join(", "),
                    because,
                    rule: Rule::Of(rule).into(),
                });
                let before = passed_over.len() - 1;
                lesser.get_or_insert((found, before));
            }
            Err(conflict) => {
                passed_over.push(Rejection {
                    candidate: named.frameworks.join(", "),
                    because: conflict.sentence.clone(),
                    rule: conflict.rule.into(),
                });
                // What keeps a release away that runs on the GPUs says more than that newer ones do
                // not.
                if first.as_ref().is_none_or(|first| {
                    first.rule == RuleId::FrameworkRunsOnGpu
                        && conflict.rule != RuleId::FrameworkRunsOnGpu
                }) {
                    first = Some(conflict);
                }
            }
        }
    }
    let Some((mut found, newer)) = lesser else {
        return Err(first.unwrap_or_else(no_framework));
    };
    passed_over.truncate(newer);
    found.rejected.extend(passed_over);
    Ok(found)
}

/// Why an older release may be better than this one: the driver that stays does not run it, or no
/// source says where the build is published, as it does of other releases.
fn drawback(host: &KnownHost, found: &Resolution) -> Option<(String, RuleId)> {
    let not_run = found.packages_not_run().map(|(package, needs, have)| {
        format!(
            "its CUDA {} needs driver {needs} or newer, and {have} stays",
            package.cuda
        )
    });
    let not_run = not_run.collect::<Vec<_>>().join("; ");
    if !not_run.is_empty() {
        return Some((not_run, RuleId::CudaRunsOnDriver));
    }
    let mut nowhere = found.python.iter().filter(|p| p.commands.is_empty());
    let nowhere = nowhere.find(|package| has_install(host, &package.framework));
    nowhere.map(|package| {
        let because = format!(
            "no source says where its build with CUDA {} is published",
            package.cuda
        );
        (because, RuleId::FrameworkBuild)
    })
}

fn has_install(host: &KnownHost, wish: &str) -> bool {
    let framework = host.database.framework(framework_and_version(wish).0);
    framework.is_some_and(|framework| framework.has_python_install(&host.facts.machine.arch))
}

/// Resolves a request with exact framework releases: tries their builds, preferred first.
fn for_frameworks<'a>(
    host: &KnownHost<'a, '_>,
    served: &Served<'a>,
    request: &Request,
    gpus: &[Rc<TargetGpu>],
    detail: Detail,
) -> Result<Resolution<'a>, Conflict> {
    let mut first = None;
    let mut too_new = None;
    for combination in combinations(host.database, host.facts, request, gpus)? {
        match for_combination(host, served, &combination, gpus, detail) {
            Ok((mut found, text)) => {
                let Combination {
                    sources: source,
                    cautions,
                    python,
                    ..
                } = combination;
                found.cautions = cautions;
                let toolkit = found.cuda.as_ref().map(|toolkit| toolkit.release);
                found.python = python
                    .into_iter()
                    .map(|package| package.on(host.database, gpus).compiled_with(toolkit))
                    .collect();
                let (subject, rule) = (
                    "for".to_owned(),
                    Recorded::Known(Rule::Of(RuleId::FrameworkBuild)),
                );
                found.reasons.insert(
                    0,
                    Reason {
                        subject,
                        text,
                        rule,
                        source,
                    },
                );
                if found.packages_not_run().next().is_none() {
                    return Ok(found);
                }
                too_new.get_or_insert(found);
            }
            Err(conflict) => {
                // A driver is refused whatever the builds need.
                let sentence = match conflict.rule.is_about_driver() {
                    true => conflict.sentence,
                    false => format!("{}, but {}", combination.reason, conflict.sentence),
                };
                first.get_or_insert(Conflict {
                    sentence,
                    ..conflict
                });
            }
        }
    }
    too_new.ok_or_else(|| first.unwrap_or_else(no_framework))
}

/// What fits a combination of builds, and why: with another cuDNN than theirs, if that cannot be had
/// and nobody asked for it.
fn for_combination<'a>(
    host: &KnownHost<'a, '_>,
    served: &Served<'a>,
    combination: &Combination,
    gpus: &[Rc<TargetGpu>],
    detail: Detail,
) -> Result<(Resolution<'a>, String), Conflict> {
    let reason = &combination.reason;
    let conflict = match search(host, served, &combination.request, gpus, detail) {
        Ok(found) => return Ok((found, reason.clone())),
        Err(conflict) => conflict,
    };
    for cudnn in &combination.other_cudnn {
        let request = Request {
            cudnn: cudnn.clone(),
            ..combination.request.clone()
        };
        if let Ok(found) = search(host, served, &request, gpus, detail) {
            let instead = match cudnn.is_wanted() {
                true => "the toolkit gets a newer one of the same major version",
                false => "the toolkit gets none: the packages bring their own",
            };
            return Ok((
                found,
                format!("{reason}; {}, so {instead}", conflict.sentence),
            ));
        }
    }
    Err(conflict)
}

fn no_framework() -> Conflict {
    Conflict::new(RuleId::FrameworkKnown, "no framework was named")
}

/// No GPU on the bus. One in a case on Thunderbolt shows only once that is authorised.
fn no_gpu(facts: &Facts) -> Conflict {
    match facts.thunderbolt.iter().find(|device| !device.authorized) {
        Some(device) => {
            Conflict::no_gpu().hint(gpusetup_causes::authorise(&device.name).to_string())
        }
        None => Conflict::no_gpu(),
    }
}

fn unreadable_gpus(count: usize) -> Conflict {
    let gpus = if count == 1 {
        "an NVIDIA GPU".to_owned()
    } else {
        format!("{count} NVIDIA GPUs")
    };
    let sentence =
        format!("the lspci output names {gpus} without the numeric ids that identify the model");
    Conflict::blocked(CheckId::GS511, sentence)
        .hint("include the ids: lspci -nn | gpusetup plan --lspci -".to_owned())
}

/// How detailed an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// With the rejected candidates and why.
    Full,
    ChoiceOnly,
    /// Only the choice, and nothing of why there is none.
    FeasibilityOnly,
}

fn search<'a>(
    host: &KnownHost<'a, '_>,
    served: &Served<'a>,
    request: &Request,
    gpus: &[Rc<TargetGpu>],
    detail: Detail,
) -> Result<Resolution<'a>, Conflict> {
    let context = &context(host, request, gpus);
    let none = Candidates::default();
    let drivers = if request.driver.is_wanted() {
        served.drivers(host)
    } else {
        &none
    };
    if request.driver.is_wanted() && drivers.fit.is_empty() {
        if detail == Detail::FeasibilityOnly {
            return Err(Conflict::unexplained());
        }
        let refused = refused(host, &served.request, gpus, drivers, None);
        return Err(no_driver(host, none_fits(&refused, context), context));
    }
    let is_left_out = !request.driver.is_wanted();
    let kept = is_left_out.then(|| untouched_driver(host)).flatten();
    // A toolkit that the driver does not run can still compile.
    let without = is_left_out.then_some(None);
    let ground = SearchContext::new(host, request, gpus);
    let alone: Vec<_> = request
        .additional_toolkits
        .iter()
        .map(|additional| (&additional.cuda, request.alone(additional)))
        .collect();
    let additional = &searches(host, &alone, gpus)?;
    // Drivers for which nothing fits.
    let mut tried: Vec<Option<&Candidate>> = Vec::new();
    for driver in drivers.fit.iter().chain(&kept).map(Some).chain(without) {
        // An older driver runs no toolkit that a newer one could not run.
        let mut passed = tried.iter().copied().flatten();
        if driver.is_some_and(|d| passed.any(|tried| d.version <= tried.version)) {
            continue;
        }
        let Some((layers, others)) = layers(&ground, driver).zip(layers_of(additional, driver))
        else {
            tried.push(driver);
            continue;
        };
        let mut rejected = Vec::new();
        if let Some(driver) = driver.filter(|_| detail == Detail::Full) {
            let version = Some(driver.version);
            let newer = refused(host, &served.request, gpus, drivers, version);
            let tried: Vec<_> = tried.iter().copied().flatten().collect();
            rejected = drivers_passed_over(
                &ground,
                context,
                additional,
                &drivers.fit,
                &tried,
                newer,
                driver,
            );
        }
        if detail == Detail::Full {
            rejected.extend(
                layers
                    .rejected(&ground, driver)
                    .into_iter()
                    .map(|(of, r)| r.rejection(&of, context)),
            );
        }
        let found = resolution(&ground, context, driver, layers, rejected);
        let mut found = leaving_driver(found, is_left_out, &kept);
        for (search, (way, layers)) in additional.iter().zip(others) {
            let (on, context) = &search.ways[way];
            let chosen = resolution(on, context, driver, layers, Vec::new());
            let chosen = leaving_driver(chosen, is_left_out, &kept);
            found.reasons.extend(reasons_of(request, &chosen, way));
            found.additional_toolkits.push(AdditionalToolkit {
                request: on.request.clone(),
                chosen,
            });
        }
        are_apart(request, &found)?;
        return Ok(found);
    }
    // Why there is no toolkit even for none says more than that the driver runs none.
    let first = if is_left_out {
        tried.last()
    } else {
        tried.first()
    };
    Err(match (detail, first) {
        (Detail::FeasibilityOnly, _) => Conflict::unexplained(),
        (_, Some(first)) => without_layers(&ground, context, additional, *first),
        (_, None) => Conflict::new(RuleId::DriverWanted, "no driver fits"),
    })
}

/// Why no driver fits, with the repositories that have one if packages were requested.
fn no_driver(host: &KnownHost, conflict: Conflict, context: &Explanation) -> Conflict {
    let request = context.request;
    let is_method = conflict.rule == RuleId::DriverMethod
        && request.method == Method::Packages
        && context.unpackaged.is_none();
    let Some(offers) = not_enabled(host, request, context.gpus).filter(|_| is_method) else {
        return conflict;
    };
    let sentence = format!(
        "packages were requested, but no enabled repository has a driver that fits: {offers}"
    );
    let hint =
        "enable that repository and update the package lists, or leave out --method packages";
    let conflict = Conflict {
        sentence,
        ..conflict
    }
    .hint(hint);
    let by_repository = Request {
        method: Method::Repository,
        ..request.clone()
    };
    if host.served(&by_repository).drivers(host).fit.is_empty() {
        conflict
    } else {
        conflict.hint(gpusetup_causes::ADD_REPOSITORY)
    }
}

/// The newer drivers than the chosen one, and why they are not chosen.
fn drivers_passed_over<'a>(
    ground: &SearchContext<'a, '_>,
    context: &Explanation,
    additional: &[AdditionalToolkitSearch<'a, '_>],
    fit: &[Candidate<'a>],
    tried: &[&Candidate<'a>],
    newer: Vec<(DriverVersion, Refusal)>,
    driver: &Candidate<'a>,
) -> Vec<Rejection> {
    // A version can be installed in several ways, each refused for another reason. What came nearest
    // is said: a way that no toolkit fits, one that is outranked, then by the rules that were passed.
    let mut all: Vec<_> = newer
        .into_iter()
        .map(|(version, refusal)| {
            let passed = rules_passed(refusal);
            (version, passed, PassedOver::Refused(refusal))
        })
        .collect();
    let tried = tried.iter().filter(|d| d.version > driver.version);
    all.extend(tried.map(|d| (d.version, u8::MAX, PassedOver::Tried(d))));
    let fit = fit.iter().filter(|d| d.version > driver.version);
    all.extend(fit.map(|d| {
        let refusal = outranked(driver, d, context.request, ground.facts);
        (d.version, u8::MAX - 1, PassedOver::Refused(refusal))
    }));
    all.sort_by_key(|(version, nearness, _)| std::cmp::Reverse((*version, *nearness)));
    all.dedup_by_key(|(version, ..)| *version);
    all.into_iter()
        .map(|(version, _, why)| match why {
            PassedOver::Refused(refusal) => refusal.rejection(&Subject::Driver(version), context),
            PassedOver::Tried(driver) => {
                without_layers(ground, context, additional, Some(driver)).of_driver(driver)
            }
        })
        .collect()
}

/// Why a newer driver than the chosen one is not chosen.
enum PassedOver<'d, 'a> {
    /// By a rule.
    Refused(Refusal),
    /// No toolkit fits it.
    Tried(&'d Candidate<'a>),
}

/// The answer with its components and reasons.
fn resolution<'a>(
    on: &SearchContext<'a, '_>,
    context: &Explanation,
    driver: Option<&Candidate<'a>>,
    layers: Layers<'a>,
    rejected: Vec<Rejection>,
) -> Resolution<'a> {
    let Layers { cuda, add_ons, .. } = layers;
    let add_ons: Vec<_> = add_ons.into_iter().flatten().collect();
    let unpublished: Vec<_> = add_ons
        .iter()
        .zip(cuda.iter().cycle())
        .filter_map(|(chosen, cuda)| add_on::newer_unpublished(on, driver, cuda, chosen))
        .collect();
    let ids: Vec<_> = add_ons.iter().map(|a| a.of.id).collect();
    let parts = cuda.as_ref().map(|c| on.parts(c, &ids)).unwrap_or_default();
    let without_files = cuda
        .as_ref()
        .and_then(|chosen| newer_without_files(on, driver, chosen));
    let mut reasons = reasons(
        context,
        on.facts,
        driver,
        cuda.as_ref().map(|c| (c, without_files)),
        &add_ons,
        &unpublished,
    );
    reasons.extend(parts.iter().filter_map(along));
    let by_archives = cuda.as_ref().is_some_and(|toolkit| toolkit.by_archives);
    reasons.extend(without_runfile(on.facts, on.request, &parts, by_archives));
    reasons.extend(
        cuda.as_ref()
            .and_then(|toolkit| toolkit.packages)
            .map(from_repository),
    );
    let (gpus, driver) = (context.gpus.to_vec(), driver.cloned());
    Resolution {
        gpus,
        driver,
        cuda,
        parts,
        add_ons,
        reasons,
        rejected,
        ..Resolution::default()
    }
}

/// Why the host's driver packages are not known; none if they are.
fn unpackaged(host: &KnownHost) -> Option<Unpackaged> {
    match host.distribution {
        None => Some(Unpackaged::Unknown),
        Some(d) if d.drivers.is_empty() => Some(Unpackaged::Unlisted),
        Some(d) => (d.named_as.is_some() && host.facts.offered.is_none())
            .then_some(Unpackaged::ListsMissing),
    }
}

fn context<'t, 'a: 't, 'f: 't>(
    host: &KnownHost<'a, 'f>,
    request: &'t Request,
    gpus: &'t [Rc<TargetGpu>],
) -> Explanation<'t> {
    let KnownHost {
        database, facts, ..
    } = *host;
    let unpackaged = unpackaged(host);
    let (arch, glibc, kernel) = (
        facts.machine.arch.as_str(),
        facts.glibc.as_deref(),
        facts.kernel(),
    );
    let addable = host.distribution.is_some_and(|d| {
        d.drivers.iter().any(|offer| {
            offer.repository.adds.is_some() && offer.archs.contains(&facts.machine.arch)
        })
    });
    let incomplete = host.own_drivers.iter().filter_map(|(version, _, install)| {
        let needs = install.added()?.needs.as_ref()?;
        (!facts.has_enabled(&needs.seen_as)).then_some((version.branch, needs.name.as_str()))
    });
    let (os, incomplete) = (&facts.os, incomplete.max());
    Explanation {
        database,
        gpus,
        request,
        arch,
        glibc,
        kernel,
        os,
        unpackaged,
        has_lists: facts.offered.is_some(),
        addable,
        incomplete,
    }
}

/// For data-centre GPUs, a hint to work around a driver that is too old: forward compatibility, a
/// newer user-space part alone.
fn forward_compatible(
    version: CudaVersion,
    refusal: Refusal,
    context: &Explanation,
) -> Option<String> {
    let Refusal::OldDriver(_, have) = refusal else {
        return None;
    };
    let found = context
        .database
        .forward_compatibility(version, have.branch)?;
    context.gpus.iter().all(|c| c.data_center).then(|| {
        format!(
            "programs of CUDA {} also run on driver branch {} with NVIDIA's package {}, which gpusetup does not \
             install",
            version.series(),
            have.branch,
            found.package
        )
    })
}

/// If no release was named and all are too new for a GPU: a sentence about all of them.
fn too_old(oldest: CudaVersion, refusal: Refusal, context: &Explanation) -> Option<String> {
    let Refusal::BelowLowest(card, lowest) = refusal else {
        return None;
    };
    let card = context
        .gpus
        .get(card)
        .filter(|_| context.request.cuda == Want::Best)?;
    let (name, arch, capability) = (&card.name, context.arch, card.capability?);
    // Older ones are refused for another reason.
    if let Some(board) = card.embedded.as_ref().filter(|_| arch != "x86_64") {
        return Some(format!(
            "no toolkit for servers (sbsa) supports {board}; use the toolkit of JetPack"
        ));
    }
    Some(format!(
        "no known CUDA toolkit for {arch} supports {name} (compute capability {capability}): the oldest, CUDA {oldest}, targets \
         {lowest} and up"
    ))
}

/// If the C library is too new for a toolkit's headers: a hint to compile in a container of an
/// older system.
fn older_system(version: CudaVersion, refusal: Refusal, context: &Explanation) -> Option<String> {
    let from = context
        .database
        .cuda(version)?
        .first_breaking_glibc(super::cuda_arch(context.arch))
        .filter(|_| refusal == Refusal::NewLibrary)?;
    let older = context
        .database
        .distributions
        .iter()
        .filter_map(|d| Some((d, d.glibc.as_deref()?)));
    let older = older.filter(|(d, glibc)| {
        dotted(glibc) < dotted(from) && compiles(d, context.database.cuda(version))
    });
    let release = context.database.cuda(version)?;
    let (system, glibc) = older.max_by_key(|(d, glibc)| {
        (
            d.gcc.is_some_and(|gcc| takes(release, gcc)),
            d.id == context.os.id,
            dotted(glibc),
        )
    })?;
    let system = &system.name;
    Some(format!(
        "compile in a container of an older system, such as {system} (glibc {glibc}); the host needs only the driver"
    ))
}

/// Whether a distribution has a gcc that a release supports.
fn compiles(distribution: &Distribution, release: Option<&CudaRelease>) -> bool {
    let mut all = distribution
        .gcc
        .into_iter()
        .chain(distribution.gccs.iter().copied());
    release.is_some_and(|release| all.any(|gcc| takes(release, gcc)))
}

/// Whether nvcc of a release supports a gcc.
fn takes(release: &CudaRelease, gcc: u16) -> bool {
    release.gcc_max.is_none_or(|max| gcc <= max) && release.gcc_min.is_none_or(|min| gcc >= min)
}

/// Why no toolkit or add-ons fit a driver: the refusal to report; none if no release matches the
/// request.
#[derive(Debug, Clone)]
enum Unlayered<'a> {
    Cuda(Option<(CudaVersion, Refusal)>),
    AddOn(&'a AddOn, Option<(&'a AddOnArtifact, Refusal)>),
    /// An add-on is built for a toolkit that is itself refused.
    OtherCuda(&'a AddOn, &'a AddOnArtifact, CudaVersion, Refusal),
}

impl Unlayered<'_> {
    fn conflict(&self, context: &Explanation) -> Conflict {
        match self {
            Self::Cuda(Some((version, refusal))) => {
                let conflict = Conflict::refused(&Subject::Cuda(*version), *refusal, context);
                let hint = forward_compatible(*version, *refusal, context)
                    .or_else(|| older_system(*version, *refusal, context));
                let conflict = match too_old(*version, *refusal, context) {
                    Some(sentence) => Conflict {
                        sentence,
                        ..conflict
                    },
                    None => conflict,
                };
                hint.into_iter().fold(conflict, Conflict::hint)
            }
            Self::Cuda(None) => {
                let wanted = &context.request.cuda;
                let text = wanted.to_string();
                let is_of_frameworks = !context.request.frameworks.is_empty();
                if is_of_frameworks && text.contains(", ") {
                    let sentence = format!("no CUDA release is all of {text}");
                    return Conflict::new(RuleId::CudaWanted, sentence);
                }
                let sentence = format!("no CUDA release {text} is known");
                let conflict = Conflict::new(RuleId::CudaWanted, sentence);
                let near: Vec<_> = nearest(context.database, wanted)
                    .iter()
                    .map(ToString::to_string)
                    .collect();
                if near.is_empty() {
                    conflict
                } else {
                    conflict.hint(format!("known releases: CUDA {}", near.join(", ")))
                }
            }
            Self::AddOn(of, Some((a, refusal))) => Conflict::refused(
                &Subject::AddOn(of, a.version, &a.cuda_line),
                *refusal,
                context,
            ),
            Self::OtherCuda(of, a, version, refusal) => {
                let conflict = Self::Cuda(Some((*version, *refusal))).conflict(context);
                let sentence = format!(
                    "{} {} does not fit: it is built for CUDA {}, and {}",
                    of.title, a.version, a.cuda_line, conflict.sentence
                );
                Conflict {
                    sentence,
                    ..conflict
                }
            }
            Self::AddOn(of, None) => {
                let sentence = match context.request.add_on(of.id) {
                    Want::Best => {
                        format!("no release of {} is known for {}", of.title, context.arch)
                    }
                    asked => format!("no {} release {asked} is known", of.title),
                };
                Conflict::new(Rule::AddOn(of.id, AddOnRule::Wanted), sentence)
            }
        }
    }
}

impl Conflict {
    /// The rejection of a driver by this refusal.
    fn of_driver(self, driver: &Candidate) -> Rejection {
        Rejection {
            candidate: format!("driver {}", driver.version),
            because: self.sentence,
            rule: self.rule.into(),
        }
    }
}

/// The toolkit and add-ons that fit a driver; empty if no toolkit is requested.
#[derive(Default)]
struct Layers<'a> {
    cuda: Option<Toolkit<'a>>,
    /// For each requested add-on, in order.
    add_ons: Vec<Option<ChosenAddOn<'a>>>,
    /// The toolkits that fit and are preferred to the chosen one, each with a required add-on that
    /// does not fit it.
    lacking: Vec<(CudaVersion, AddOnId)>,
}

impl<'a> Layers<'a> {
    /// The newer toolkits and add-ons that were not chosen.
    fn rejected(
        &self,
        on: &SearchContext<'a, '_>,
        driver: Option<&Candidate>,
    ) -> Vec<(Subject<'a>, Refusal)> {
        let Some(chosen) = &self.cuda else {
            return Vec::new();
        };
        let newer = on.published.toolkits().map(|t| (t.release.version, t));
        let newer = newer.take_while(|(version, _)| *version > chosen.release.version);
        let toolkits = newer.map(|(version, published)| {
            let refusal = toolkit(on, driver, published).err();
            let refusal =
                refusal.unwrap_or_else(|| match self.lacking.iter().find(|(v, _)| *v == version) {
                    Some((_, add_on)) => Refusal::NoAddOn(*add_on),
                    None => passed_over(on, driver, chosen),
                });
            (Subject::Cuda(version), refusal)
        });
        let mut all: Vec<_> = toolkits.collect();
        for (wanted, newest) in on.add_ons.iter().zip(&self.add_ons) {
            let rejected = match newest {
                Some(newest) => add_on::rejected(on, driver, chosen, wanted, newest),
                None => add_on::refused(on, driver, chosen, wanted),
            };
            let rejected = rejected.into_iter();
            all.extend(
                rejected.map(|(a, r)| (Subject::AddOn(wanted.of, a.version, &a.cuda_line), r)),
            );
        }
        all
    }
}

/// Whether the driver runs the CUDA that the frameworks bring along; why not, otherwise.
fn runs_brought(
    on: &SearchContext,
    driver: Option<&Candidate>,
) -> Result<(), (CudaVersion, Refusal)> {
    let Some((series, driver)) = on.request.brought_cuda.zip(driver) else {
        return Ok(());
    };
    match on
        .database
        .cuda
        .iter()
        .find(|release| release.version.series() == series)
    {
        Some(release) => runs_on(release, driver).map_err(|refusal| (release.version, refusal)),
        None => Ok(()),
    }
}

/// The toolkit and add-ons for one driver; none if nothing fits, and then [`unlayered`] says why.
fn layers<'a>(on: &SearchContext<'a, '_>, driver: Option<&Candidate>) -> Option<Layers<'a>> {
    runs_brought(on, driver).ok()?;
    if !on.request.cuda.is_wanted() {
        return Some(Layers::default());
    }
    let mut lacking = Vec::new();
    // Archives only if no release can be had in the preferred way.
    let ways = [false, true].into_iter();
    for by_archives in ways.filter(|by_archives| !by_archives || on.may_take_archives()) {
        let wanted = preferred(on, driver).filter(|t| on.request.cuda.accepts(t.release.version));
        for published in wanted {
            let Ok(cuda) = toolkit_by(on, driver, published, by_archives) else {
                continue;
            };
            match fitting_add_ons(on, driver, &cuda) {
                Ok(add_ons) => {
                    return Some(Layers {
                        cuda: Some(cuda),
                        add_ons,
                        lacking,
                    });
                }
                Err(missing) => lacking.push((cuda.release.version, missing.of.id)),
            }
        }
    }
    None
}

/// The ways to search for the toolkits beside the default one.
fn searches<'s, 'a: 's, 'f: 's>(
    host: &KnownHost<'a, 'f>,
    alone: &'s [(&'s Want<CudaVersion>, Vec<Request>)],
    gpus: &'s [Rc<TargetGpu>],
) -> Result<Vec<AdditionalToolkitSearch<'s, 'a>>, Conflict> {
    let mut all = Vec::with_capacity(alone.len());
    for (wanted, requests) in alone {
        let mut ways = Vec::with_capacity(requests.len());
        for request in requests {
            host.named(request)?;
            ways.push((
                SearchContext::new(host, request, gpus),
                context(host, request, gpus),
            ));
        }
        all.push(AdditionalToolkitSearch { wanted, ways });
    }
    Ok(all)
}

/// The layers of each toolkit beside the default one, with the number of the way to ask that gave
/// them; none if one does not fit.
fn layers_of<'a>(
    additional: &[AdditionalToolkitSearch<'_, 'a>],
    driver: Option<&Candidate>,
) -> Option<Vec<(usize, Layers<'a>)>> {
    additional
        .iter()
        .map(|search| {
            search
                .ways
                .iter()
                .enumerate()
                .find_map(|(way, (on, _))| Some((way, layers(on, driver)?)))
        })
        .collect()
}

/// Why not all requested toolkits and their add-ons fit a driver.
fn without_layers(
    on: &SearchContext,
    context: &Explanation,
    additional: &[AdditionalToolkitSearch],
    driver: Option<&Candidate>,
) -> Conflict {
    let unlayered_search = additional
        .iter()
        .find(|search| {
            search
                .ways
                .iter()
                .all(|(on, _)| layers(on, driver).is_none())
        })
        .filter(|_| layers(on, driver).is_some());
    let (wanted, on, context) =
        match unlayered_search.and_then(|search| Some((search.wanted, search.ways.last()?))) {
            Some((wanted, (on, context))) => (wanted, on, context),
            None => (&context.request.cuda, on, context),
        };
    let conflict = unlayered(on, driver).conflict(context);
    if additional.is_empty() {
        conflict
    } else {
        conflict.of_toolkit(wanted)
    }
}

/// The reasons of a toolkit beside the default one, which name it.
fn reasons_of(request: &Request, chosen: &Resolution, way: usize) -> Vec<Reason> {
    let Some(series) = chosen
        .cuda
        .as_ref()
        .map(|toolkit| toolkit.release.version.series())
    else {
        return Vec::new();
    };
    let differing = other_add_ons(request, chosen, way);
    let usual = chosen
        .reasons
        .iter()
        .filter(|reason| {
            differing
                .iter()
                .all(|other| other.subject != reason.subject)
        })
        .cloned();
    usual
        .chain(differing.iter().cloned())
        .map(|reason| Reason {
            subject: format!("{} {series}", reason.subject),
            ..reason
        })
        .collect()
}

/// The release of each requested add-on that fits a toolkit, or the first required add-on of which
/// none does. Another one that does not fit is left out: a stack without it is better than none.
fn fitting_add_ons<'a, 's>(
    on: &'s SearchContext<'a, '_>,
    driver: Option<&Candidate>,
    cuda: &Toolkit,
) -> Result<Vec<Option<ChosenAddOn<'a>>>, &'s WantedAddOn<'a>> {
    on.add_ons
        .iter()
        .map(|wanted| match add_on::newest(on, driver, cuda, wanted) {
            None if on.request.requires(wanted.of.id) => Err(wanted),
            found => Ok(found),
        })
        .collect()
}

/// Why no toolkit and add-ons fit a driver.
fn unlayered<'a>(on: &SearchContext<'a, '_>, driver: Option<&Candidate>) -> Unlayered<'a> {
    if let Err(refused) = runs_brought(on, driver) {
        return Unlayered::Cuda(Some(refused));
    }
    let mut refused: Vec<(CudaVersion, Refusal)> = Vec::new();
    let mut lacking: Option<Lacking> = None;
    for published in preferred(on, driver).filter(|t| on.request.cuda.accepts(t.release.version)) {
        let refusal = match toolkit(on, driver, published) {
            Err(refusal) => refusal,
            Ok(cuda) => {
                // Nothing fits, so an add-on is missing.
                let Err(missing) = fitting_add_ons(on, driver, &cuda) else {
                    continue;
                };
                let why = add_on::refused(on, driver, &cuda, missing);
                lacking = Some(Lacking::with(lacking, missing.of, why));
                Refusal::NoAddOn(missing.of.id)
            }
        };
        refused.push((published.release.version, refusal));
    }
    match lacking {
        Some(Lacking {
            of,
            nearest: Some((_, Refusal::OtherLine(_))),
        }) if let Some((a, v, r)) = refused_for(on, of, &refused) => {
            Unlayered::OtherCuda(of, a, v, r)
        }
        Some(Lacking { of, nearest }) => Unlayered::AddOn(of, nearest),
        None => {
            let nearest = refused
                .iter()
                .copied()
                .max_by_key(|(v, r)| (r.came_far(), *v));
            // If nobody named a release, the oldest one shows best that the GPU is too old for all.
            let oldest = match nearest {
                Some((_, Refusal::BelowLowest(..))) if on.request.cuda == Want::Best => refused
                    .into_iter()
                    .filter(|(_, r)| matches!(r, Refusal::BelowLowest(..)))
                    .min_by_key(|(v, _)| *v),
                _ => None,
            };
            Unlayered::Cuda(oldest.or(nearest))
        }
    }
}

/// The releases nearest to one that does not exist: those of its series, else those of the nearest
/// series of its major version. The newest come first; none if no release was named.
pub(crate) fn nearest(database: &Database, wanted: &Want<CudaVersion>) -> Vec<CudaVersion> {
    let named = wanted.to_string();
    if !named.starts_with(|c: char| c.is_ascii_digit())
        || database.cuda.iter().any(|r| wanted.accepts(r.version))
    {
        return Vec::new();
    }
    let (major, minor) = dotted(&named);
    let of_major = { database.cuda.iter().map(|r| r.version) }
        .filter(|v| u64::from(v.major) == u64::from(major))
        .map(|v| (u64::from(v.minor).abs_diff(u64::from(minor)), v));
    let Some((least, _)) = of_major.clone().min() else {
        return Vec::new();
    };
    let nearest = of_major.filter(|(distance, _)| *distance == least);
    let mut all: Vec<_> = nearest.map(|(_, version)| version).collect();
    all.sort_by(|a, b| b.cmp(a));
    all
}

/// A requested add-on that is not available for any otherwise suitable toolkit.
struct Lacking<'a> {
    of: &'a AddOn,
    /// The requested release that came nearest, over all those toolkits; none if none is known.
    nearest: Option<(&'a AddOnArtifact, Refusal)>,
}

impl<'a> Lacking<'a> {
    /// Adds another toolkit's missing add-on, and why its releases do not fit. If it is a different
    /// add-on, the first one counts.
    fn with(
        before: Option<Self>,
        of: &'a AddOn,
        refused: Vec<(&'a AddOnArtifact, Refusal)>,
    ) -> Self {
        if let Some(before) = before.as_ref().filter(|before| before.of.id != of.id) {
            return Self {
                of: before.of,
                nearest: before.nearest,
            };
        }
        // Of equally near ones, the newest toolkit and the newest line: `max_by_key` returns the
        // last of equals.
        let all = refused
            .into_iter()
            .rev()
            .chain(before.and_then(|before| before.nearest));
        Self {
            of,
            nearest: all.max_by_key(|(a, r)| (r.came_far(), a.version)),
        }
    }
}

/// The most components that are named in a summary.
const LISTED: usize = 12;

/// A selection in one line.
pub fn summary(selection: &Selection) -> String {
    let driver = selection
        .driver
        .as_ref()
        .map(|d| format!("driver {} ({} modules)", d.version, d.modules));
    let cuda = selection.cuda.as_ref().map(|c| {
        let parts = match c.components.as_slice() {
            [] => String::new(),
            few if few.len() <= LISTED => {
                let names: Vec<_> = few.iter().map(|part| short(&part.name)).collect();
                format!(" ({})", names.join(", "))
            }
            all => format!(" ({} components)", all.len()),
        };
        format!("CUDA {}{parts}", c.version)
    });
    let cudnn = selection
        .cudnn
        .as_ref()
        .map(|c| format!("cuDNN {}", c.version));
    let add_ons = selection
        .add_ons
        .iter()
        .map(|(id, chosen)| format!("{id} {}", chosen.version));
    let additional = selection.toolkits.iter().skip(1).map(|toolkit| {
        let SelectedToolkit {
            cuda,
            cudnn,
            add_ons,
        } = toolkit.clone();
        summary(&Selection {
            cuda: Some(cuda),
            cudnn,
            add_ons,
            ..Selection::default()
        })
    });
    [driver, cuda, cudnn]
        .into_iter()
        .flatten()
        .chain(add_ons)
        .chain(additional)
        .collect::<Vec<_>>()
        .join(" + ")
}

/// The choice without its driver, if the request leaves the driver out.
fn leaving_driver<'a>(
    found: Resolution<'a>,
    is_left_out: bool,
    kept: &Option<Candidate<'a>>,
) -> Resolution<'a> {
    match is_left_out {
        true => Resolution {
            driver: None,
            untouched_driver: kept.clone(),
            ..found
        },
        false => found,
    }
}
