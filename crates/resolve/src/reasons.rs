//! Why each part of a choice was made, in sentences.

use super::add_on::ChosenAddOn;
use super::component::Part;
use super::cuda::{Toolkit, is_native};
use super::driver::{Candidate, Install};
use super::refusal::{Explanation, Refusal, Unpackaged, installer_library};
use super::wanted::is_installed;
use super::{Method, Reason, Request, TargetGpu, ToolkitMethod};
use gpusetup_database::compat::{
    AddOnArtifact, AddOnId, Database, ModuleFlavour, PackageRepository,
};
use gpusetup_database::version::{CudaVersion, Want};
use gpusetup_host::{Facts, SecureBoot};
use gpusetup_text::ids::{AddOnRule, CheckId, Recorded, Rule, RuleId};
use std::rc::Rc;
/// Why each part of a choice was made.
pub(crate) fn reasons(
    context: &Explanation,
    facts: &Facts,
    driver: Option<&Candidate>,
    cuda: Option<(&Toolkit, Option<(CudaVersion, Refusal)>)>,
    add_ons: &[ChosenAddOn],
    unpublished: &[&AddOnArtifact],
) -> Vec<Reason> {
    let Explanation { gpus, request, .. } = *context;
    let mut reasons = Vec::new();
    if let Some(d) = driver.filter(|_| request.driver.is_wanted()) {
        let (rule, text) = driver_reason(context, d);
        let source = d.branch.sources.join(", ");
        reasons.push(Reason::new("driver", rule, text, source));
        let (rule, text) = modules_reason(gpus, request, d);
        let source = gpus
            .first()
            .map(|c| c.sources.join(", "))
            .unwrap_or_default();
        reasons.push(Reason::new("modules", rule, text, source));
        let (rule, text, source) = method_reason(facts, context, d);
        reasons.push(Reason::new("method", rule, text, source));
    }
    if let Some((c, without_files)) = cuda {
        let release = c.release;
        let what = what_fits(c, request, without_files);
        let (rule, text) = cuda_reason(c, &what, driver, gpus, request);
        let of_branch = driver
            .filter(|_| rule == RuleId::CudaNativeDriver)
            .map(|d| d.branch.sources.as_slice());
        let sources: Vec<_> = of_branch
            .into_iter()
            .flatten()
            .chain(&release.sources)
            .map(|source| source.as_str())
            .collect();
        reasons.push(Reason::new("cuda", rule, text, sources.join(", ")));
    }
    let cuda = cuda.map(|(toolkit, _)| toolkit);
    for (chosen, toolkit) in add_ons.iter().zip(cuda.iter().cycle()) {
        let newer = unpublished.iter().find(|a| a.add_on == chosen.of.id);
        let text = add_on_reason(chosen, toolkit, facts, request, newer.copied());
        reasons.push(Reason::new(
            chosen.of.id.as_str(),
            Rule::AddOn(chosen.of.id, AddOnRule::ForCuda),
            text,
            chosen.range.sources.join(", "),
        ));
    }
    let mut rests_on = vec![
        (
            "driver",
            driver
                .filter(|_| request.driver.is_wanted())
                .and_then(|d| d.branch.assumed.as_ref()),
        ),
        ("cuda", cuda.and_then(|c| c.release.assumed.as_ref())),
    ];
    rests_on.extend(
        add_ons
            .iter()
            .map(|n| (n.of.id.as_str(), n.range.assumed.as_ref())),
    );
    for (subject, assumed) in rests_on {
        if let Some(assumed) = assumed {
            reasons.push(Reason::new(
                subject,
                RuleId::AssumedFact,
                format!("based on an assumption: {assumed}"),
                "assumed".to_owned(),
            ));
        }
    }
    reasons
}

impl Reason {
    fn new(subject: &str, rule: impl Into<Rule>, text: String, source: String) -> Self {
        Self {
            subject: subject.to_owned(),
            text,
            rule: Recorded::Known(rule.into()),
            source,
        }
    }
}

/// Why a release of an add-on was chosen. `newer`: one whose checksum is not known.
fn add_on_reason(
    chosen: &ChosenAddOn,
    toolkit: &Toolkit,
    facts: &Facts,
    request: &Request,
    newer: Option<&AddOnArtifact>,
) -> String {
    let (id, version) = (chosen.of.id, chosen.artifact.version);
    let (series, capabilities) = (
        toolkit.release.version.series(),
        chosen.range.capabilities(),
    );
    let wanted = request.add_on(id);
    let suits = format!("it is for CUDA {series} and runs on compute capability {capabilities}");
    if wanted.to_string() == version.to_string() {
        return format!("{version} was requested; {suits}");
    }
    let mut installed = facts.files_of(id);
    let directory = toolkit.directory(&request.prefix);
    if request.keeps(wanted)
        && installed.any(|found| is_installed(found, chosen.artifact, &directory))
    {
        return format!("{version} is installed and fits; {suits}");
    }
    let (newest, and) = newest_add_on(id, request);
    let known = newer.map(|_| " with a known checksum").unwrap_or_default();
    let but = newer
        .map(|a| format!(" ({} has none)", a.version))
        .unwrap_or_default();
    format!(
        "{newest}{known} {and} CUDA {series} that runs on compute capability {capabilities}{but}"
    )
}

/// "The newest" with the request: "the newest 12.4", "the newest for torch==2.9". Ranges are not
/// repeated.
fn newest<V>(want: &Want<V>, request: &Request) -> String
where
    Want<V>: std::fmt::Display,
{
    let asked = want.to_string();
    // Of "13.2, >=13.0, <14" the user asked for the first, and the frameworks for the rest.
    let own = asked.split(',').next().unwrap_or_default();
    let is_version = own.chars().all(|c| c.is_ascii_digit() || c == '.');
    let own = if is_version {
        format!(" {own}")
    } else {
        String::new()
    };
    match want {
        Want::Meeting(_) if is_for_frameworks(want, request) => {
            format!("the newest{own} for {}", request.frameworks.join(", "))
        }
        Want::Meeting(_) => format!("the newest{own}"),
        _ => "the newest".to_owned(),
    }
}

/// What fits: the newest that was meant, or the release itself if exactly that was requested. A
/// newer one without files is named.
fn what_fits(
    toolkit: &Toolkit,
    request: &Request,
    without_files: Option<(CudaVersion, Refusal)>,
) -> String {
    if let Some(version) = requested_exactly(toolkit, request) {
        return format!("{version} was requested, and it");
    }
    let newest = newest(&request.cuda, request);
    if request.cudnn.is_required() && request.frameworks.is_empty() {
        return format!("{newest} with cuDNN {} that", request.cudnn);
    }
    match without_files.and_then(|(newer, refusal)| Some((newer, refusal.of_files()?))) {
        Some((newer, files)) => format!("{newest} with {files} ({newer} has none) that"),
        None => format!("{newest} that"),
    }
}

/// The release, if exactly that was requested.
fn requested_exactly(toolkit: &Toolkit, request: &Request) -> Option<String> {
    let (asked, version) = (
        request.cuda.to_string(),
        toolkit.release.version.to_string(),
    );
    (asked.split(',').next() == Some(version.as_str())).then_some(version)
}

/// "The newest" for an add-on, and the word before CUDA's series. Of the add-ons, frameworks need
/// only cuDNN.
fn newest_add_on(id: AddOnId, request: &Request) -> (String, &'static str) {
    if id == AddOnId::CUDNN {
        let and = if is_for_frameworks(&request.cudnn, request) {
            "and"
        } else {
            "for"
        };
        return (newest(&request.cudnn, request), and);
    }
    let alone = Request {
        frameworks: Vec::new(),
        ..request.clone()
    };
    (newest(request.add_on(id), &alone), "for")
}

/// Whether the version range comes from requested frameworks.
fn is_for_frameworks<V>(want: &Want<V>, request: &Request) -> bool {
    matches!(want, Want::Meeting(_)) && !request.frameworks.is_empty()
}

fn cuda_reason(
    toolkit: &Toolkit,
    what: &str,
    driver: Option<&Candidate>,
    gpus: &[Rc<TargetGpu>],
    request: &Request,
) -> (RuleId, String) {
    let release = toolkit.release;
    if toolkit
        .installed
        .is_some_and(|version| version.patch.is_none())
    {
        let have = toolkit.version();
        let text = match requested_exactly(toolkit, request) {
            Some(asked) => format!(
                "the installed CUDA {have} is kept; its files do not name the exact release, so whether it is {asked}, as requested, is \
                 not known"
            ),
            None => {
                format!("the installed CUDA {have} fits; its files do not name the exact release")
            }
        };
        return (RuleId::CudaKept, text);
    }
    if toolkit.is_kept() {
        return (
            RuleId::CudaKept,
            format!("CUDA {} is installed and fits", release.version),
        );
    }
    let Some(driver) = driver else {
        let fits = if gpus.is_empty() {
            format!("{what} fits this host; no GPU is known")
        } else {
            format!("{what} fits")
        };
        let text = format!(
            "{fits}; it needs driver {} or newer",
            release.minimum_driver
        );
        return (RuleId::CudaTargetsGpu, text);
    };
    let branch = driver.branch.branch;
    match driver.branch.max_cuda {
        Some(native) if !is_native(release, driver) => {
            let text = format!(
                "newer than CUDA {native}, the newest native to driver branch {branch}. It runs through minor-version \
                 compatibility (driver {} or newer), which loads no PTX: compile for the GPU's own compute capability",
                release.minimum_driver
            );
            (RuleId::CudaNativeDriver, text)
        }
        Some(native) => (
            RuleId::CudaNativeDriver,
            format!("{what} fits and is native to driver branch {branch} (CUDA {native} or older)"),
        ),
        None => (
            RuleId::CudaRunsOnDriver,
            format!("{what} fits driver branch {branch}"),
        ),
    }
}

fn driver_reason(context: &Explanation, d: &Candidate) -> (RuleId, String) {
    let Explanation {
        database,
        gpus,
        request,
        ..
    } = *context;
    let branch = d.branch.branch;
    if d.is_kept() {
        return (
            RuleId::DriverKept,
            format!("driver {} is installed and fits", d.version),
        );
    }
    if let Some(file) = &request.driver_file {
        return (RuleId::DriverFile, format!("{} is this version", file.file));
    }
    if let Some(card) = gpus.iter().find(|c| c.last_branch == Some(branch)) {
        return (
            RuleId::DriverKnowsGpu,
            gpusetup_causes::last_branch(branch, &card.name),
        );
    }
    if matches!(request.driver, Want::Meeting(_)) {
        return (
            RuleId::DriverWanted,
            format!("{} was requested", request.driver),
        );
    }
    if d.branch.is_over(&request.today) {
        return (
            RuleId::DriverBranchLife,
            format!("branch {branch} is past its end of life, but no newer one fits"),
        );
    }
    if let Some(newer) = d.instead_of {
        return (
            RuleId::DriverPreference,
            format!(
                "{newer} also fits, but lacks security fixes that {} has ({})",
                d.version,
                CheckId::GS513
            ),
        );
    }
    let kind = match d.branch.kind {
        gpusetup_database::compat::BranchKind::LongTerm => "long-term",
        gpusetup_database::compat::BranchKind::Production => "production",
        gpusetup_database::compat::BranchKind::NewFeature => "new-feature",
        gpusetup_database::compat::BranchKind::Legacy => "legacy",
        gpusetup_database::compat::BranchKind::Unknown => "driver",
    };
    let life = d
        .branch
        .end_of_life
        .as_ref()
        .map(|e| format!(", supported until {e}"))
        .unwrap_or_default();
    let announced = announced_branch(database, d)
        .map(|newer| format!("; no driver of branch {newer} is known yet"))
        .unwrap_or_default();
    (
        RuleId::DriverBranchLife,
        format!("{branch} is the newest {kind} branch that fits{life}{announced}"),
    )
}

/// The newest branch of the same kind, if it is newer, and no release of it is known.
fn announced_branch(database: &Database, chosen: &Candidate) -> Option<u16> {
    let newest = database
        .driver_branches
        .iter()
        .find(|branch| branch.kind == chosen.branch.kind)?;
    (newest.branch > chosen.branch.branch && !database.has_drivers_of(newest.branch))
        .then_some(newest.branch)
}

fn modules_reason(gpus: &[Rc<TargetGpu>], request: &Request, d: &Candidate) -> (RuleId, String) {
    let only = gpus.iter().find(|c| c.modules.len() == 1);
    match (request.modules, only, d.modules) {
        (Some(asked), _, _) => (
            RuleId::ModulesWanted,
            format!("{asked} modules were requested"),
        ),
        (None, Some(card), ModuleFlavour::Open) => (
            RuleId::ModulesFitGpu,
            format!("{} needs the open kernel modules", card.name),
        ),
        (None, Some(card), ModuleFlavour::Proprietary) => (
            RuleId::ModulesFitGpu,
            format!(
                "{} has no GSP, so it needs the proprietary kernel modules",
                card.name
            ),
        ),
        (None, None, flavour) => (
            RuleId::ModulesDefault,
            format!(
                "{flavour} is the default of branch {} for these GPUs",
                d.branch.branch
            ),
        ),
    }
}

fn method_reason(facts: &Facts, context: &Explanation, d: &Candidate) -> (RuleId, String, String) {
    let request = context.request;
    let (source, name) = (d.branch.sources.join(", "), &facts.os.name);
    match d.install {
        Install::Kept(..) => (RuleId::MethodKept, "already installed".to_owned(), source),
        Install::Packages(offer) | Install::Repository(offer, _) if offer.signed_for.is_some() => {
            let rule = match d.install.method() {
                Method::Repository => RuleId::MethodRepository,
                _ => RuleId::MethodPackages,
            };
            let text = format!(
                "{name} has signed modules of driver {}, which Secure Boot accepts; the rest comes from {}",
                d.version, offer.repository.name
            );
            (rule, text, offer.sources.join(", "))
        }
        Install::Packages(offer) if !offer.signed_modules.is_empty() => {
            let kernel = facts.kernel().unwrap_or_default();
            let so = match facts.secure_boot {
                SecureBoot::Enabled => "which Secure Boot accepts without a key of your own",
                _ => "so none are compiled on this host",
            };
            let text = format!("{name} has signed modules for kernel {kernel}, {so}");
            (RuleId::MethodPackages, text, offer.sources.join(", "))
        }
        Install::Packages(offer) => {
            let text = match &facts.offered {
                Some(_) if offer.module_stream.is_none() => {
                    format!("the package manager currently offers {}", d.version)
                }
                _ => format!(
                    "{} offers branch {}",
                    offer.repository.name, d.branch.branch
                ),
            };
            (RuleId::MethodPackages, text, offer.sources.join(", "))
        }
        Install::Repository(offer, _) => {
            let branch = d.branch.branch;
            let (rule, why) = if request.method == Method::Repository {
                (RuleId::MethodWanted, "was requested".to_owned())
            } else {
                let none = context.no_other_repository();
                (
                    RuleId::MethodRepository,
                    format!("has branch {branch}, and {none} has it"),
                )
            };
            (
                rule,
                format!("{} {why}", offer.repository.name),
                offer.sources.join(", "),
            )
        }
        Install::Runfile(a) if request.method == Method::Runfile => (
            RuleId::MethodWanted,
            "the runfile was requested".to_owned(),
            a.artifact.sources.join(", "),
        ),
        Install::Runfile(a) => {
            let text = why_no_packages(context, name, d.branch.branch);
            (RuleId::MethodRunfile, text, a.artifact.sources.join(", "))
        }
        Install::File => {
            let file = request
                .driver_file
                .as_ref()
                .map_or("", |given| given.file.as_str());
            (
                RuleId::MethodWanted,
                format!("{file} was named (--driver-file)"),
                source,
            )
        }
        Install::CudaRunfile(a) => {
            let text = format!(
                "for this architecture it is published only inside the CUDA {} runfile",
                a.version
            );
            (RuleId::MethodRunfile, text, a.artifact.sources.join(", "))
        }
    }
}

fn why_no_packages(context: &Explanation, name: &str, branch: u16) -> String {
    match context.unpackaged {
        Some(Unpackaged::Unknown) => format!("the database does not know the packages of {name}"),
        Some(Unpackaged::Unlisted) => format!("the database lists no driver packages of {name}"),
        Some(Unpackaged::ListsMissing) => {
            format!("the package lists of {name}, which name its drivers, are missing")
        }
        None => {
            let other = context.incomplete.filter(|(of, _)| *of == branch);
            let other = other.map(|(_, needs)| {
                format!(" (--method repository adds NVIDIA's, which needs {needs})")
            });
            let other = other.unwrap_or_default();
            format!(
                "{} a driver of branch {branch} that fits{other}",
                context.no_package()
            )
        }
    }
}

/// Why a component that was not named is installed.
pub(crate) fn along(part: &Part) -> Option<Reason> {
    let text = format!("{} is included as a dependency: {}", part.name, part.why()?);
    let source = part.need?.sources.join(", ");
    Some(Reason {
        subject: "cuda".to_owned(),
        text,
        rule: Recorded::Known(Rule::Of(RuleId::CudaComponents)),
        source,
    })
}

/// Why packages of NVIDIA's repository install the toolkit.
pub(crate) fn from_repository(repository: &PackageRepository) -> Reason {
    Reason {
        subject: "cuda".to_owned(),
        text: "packages of NVIDIA's repository were requested".to_owned(),
        rule: Recorded::Known(Rule::Of(RuleId::MethodWanted)),
        source: repository.sources.join(", "),
    }
}

/// Why a whole toolkit is assembled from component archives.
pub(crate) fn without_runfile(
    facts: &Facts,
    request: &Request,
    parts: &[Part],
    by_archives: bool,
) -> Option<Reason> {
    let is_whole = request.components.is_empty() && parts.iter().any(|part| !part.there);
    let why = match request.toolkit_method {
        ToolkitMethod::Components => "they were requested".to_owned(),
        _ if by_archives => "its runfile cannot be had or verified".to_owned(),
        _ => installer_library(&facts.os.name),
    };
    is_whole.then(|| Reason {
        subject: "cuda".to_owned(),
        text: format!("installed from component archives: {why}"),
        rule: Recorded::Known(Rule::Of(RuleId::CudaComponents)),
        source: "cuda-installer-libxml2".to_owned(),
    })
}
