//! Turns requested frameworks into a request for CUDA and cuDNN: finds builds that run on the GPUs
//! and combinations of builds that work together.

use super::cuda::serves;
use super::environment::{
    Member, asking_instead, fit_together, in_order, named_once, pinned, replaced,
};
use super::python::libraries_of;
use super::{Conflict, Hint, PythonPackage, Request, TargetGpu};
use gpusetup_database::compat::{
    Database, Framework, FrameworkBuild, FrameworkNeeds, FrameworkRelease, build_label,
    framework_and_version, named_cuda, package_of, without_label,
};
use gpusetup_database::version::{AddOnVersion, CudaVersion, Want, dotted};
use gpusetup_host::Facts;
use gpusetup_text::ids::RuleId;
use std::rc::Rc;

/// A requested release of a framework.
struct WantedFramework<'a> {
    /// The request: `torch==2.9`.
    text: &'a str,
    /// Its builds for this architecture that run on all GPUs, preferred first.
    builds: Vec<&'a FrameworkBuild>,
    framework: &'a Framework,
    release: &'a FrameworkRelease,
}

impl<'a> WantedFramework<'a> {
    fn member(&self) -> Member<'a> {
        Member {
            text: self.text,
            framework: self.framework,
            release: self.release,
        }
    }
}

/// One build for each requested framework, in order of the request.
type Choice<'a> = Vec<&'a FrameworkBuild>;

/// The request that follows from one choice of builds, and why.
pub(crate) struct Combination {
    /// The request with CUDA and cuDNN named.
    pub(crate) request: Request,
    /// The cuDNN that may take the place of the one in the request, if nobody asked for a version
    /// and that one cannot be had, preferred first.
    pub(crate) other_cudnn: Vec<Want<AddOnVersion>>,
    /// The versions that each framework was built with.
    pub(crate) reason: String,
    /// Where these versions are published.
    pub(crate) sources: String,
    /// Limits on these GPUs: `tensorflow==2.21: kernels are compiled at the first start`.
    pub(crate) cautions: Vec<String>,
    /// How each build is installed.
    pub(crate) python: Vec<PythonPackage>,
}

/// The requests that satisfy all requested frameworks, preferred first.
pub(crate) fn combinations<'a>(
    database: &'a Database,
    facts: &Facts,
    request: &'a Request,
    gpus: &[Rc<TargetGpu>],
) -> Result<Vec<Combination>, Conflict> {
    named_once(&request.frameworks)?;
    // The last first: before it stands what it extends, which nobody may have named. A refusal is
    // about what was asked for.
    let mut all_wanted = { request.frameworks.iter().rev() }
        .map(|text| wanted(database, facts, request, text, gpus))
        .collect::<Result<Vec<_>, _>>()?;
    all_wanted.reverse();
    let members: Vec<_> = all_wanted.iter().map(WantedFramework::member).collect();
    fit_together(database, request, &members)?;
    let mut choices: Vec<Choice> = vec![Vec::new()];
    for wanted in &all_wanted {
        choices = choices
            .into_iter()
            .flat_map(|choice| {
                wanted
                    .builds
                    .iter()
                    .map(|b| [choice.as_slice(), &[*b]].concat())
                    .collect::<Vec<Choice>>()
            })
            .collect();
    }
    keep_matching_extensions(database, request, &all_wanted, &mut choices)?;
    // A toolkit has one major version and one cuDNN.
    for (layer, major) in [
        ("CUDA", cuda_major as fn(&FrameworkBuild) -> Option<u16>),
        ("cuDNN", |b| b.first_cudnn().map(|v| v.major)),
    ] {
        choices.retain(|choice| {
            let mut majors = choice.iter().filter_map(|build| major(build));
            majors
                .next()
                .is_none_or(|first| majors.all(|other| other == first))
        });
        if choices.is_empty() {
            let all: Vec<_> = all_wanted
                .iter()
                .map(|wanted| (wanted.text, majors(wanted, major)))
                .filter(|(_, majors)| !majors.is_empty())
                .map(|(text, majors)| format!("{text} needs {layer} {}", majors.join(" or ")))
                .collect();
            let sentence = format!(
                "the frameworks need different major versions of {layer}: {}",
                all.join("; ")
            );
            return Err(Conflict::new(RuleId::FrameworksTogether, sentence)
                .hint("plan for one of them, and run the others in a container".to_owned()));
        }
    }
    // A refusal is about the first: not about a build for CUDA 13 if CUDA 12.4 was asked for.
    if request.cuda.is_required() {
        choices.sort_by_key(|choice| {
            !choice
                .iter()
                .filter_map(|build| cuda_major(build))
                .all(|major| {
                    database
                        .cuda
                        .iter()
                        .any(|c| c.version.major == major && request.cuda.accepts(c.version))
                })
        });
    }
    Ok(choices
        .iter()
        .map(|choice| combined(database, facts, request, &all_wanted, choice, gpus))
        .collect())
}

/// The CUDA major version of the toolkit; none for a build that uses no toolkit, or that of the
/// PyTorch beside it.
fn cuda_major(build: &FrameworkBuild) -> Option<u16> {
    (!matches!(build.needs, FrameworkNeeds::Driver | FrameworkNeeds::Torch))
        .then_some(build.cuda.major)
}

/// Keeps only choices in which an extension is built for the same CUDA as the framework that it
/// extends.
fn keep_matching_extensions(
    database: &Database,
    request: &Request,
    all_wanted: &[WantedFramework],
    choices: &mut Vec<Choice>,
) -> Result<(), Conflict> {
    for (at, wanted) in all_wanted.iter().enumerate() {
        let Some(leader) = wanted
            .framework
            .extends
            .as_ref()
            .and_then(|name| database.framework(name))
        else {
            continue;
        };
        let Some(leads) = all_wanted
            .iter()
            .position(|w| w.framework.name == leader.name)
        else {
            continue;
        };
        choices.retain(|choice| choice[at].takes(choice[leads].cuda));
        if choices.is_empty() {
            let [own, leaders] = [wanted, &all_wanted[leads]].map(|wanted| {
                let all: Vec<_> = wanted.builds.iter().map(|b| cuda_range(b)).collect();
                format!("{} for CUDA {}", wanted.text, all.join(", "))
            });
            let sentence = format!(
                "{} must be built for the same CUDA as {}, but no builds match: {own}; {leaders}",
                wanted.framework.title, leader.title
            );
            let asked = all_wanted[leads].text;
            return Err(
                Conflict::new(RuleId::FrameworksTogether, sentence).hint(asking_instead(
                    request,
                    asked,
                    package_of(asked),
                )),
            );
        }
    }
    Ok(())
}

/// The CUDA series that a build needs: "12.8", or "12.0 or newer".
fn cuda_range(build: &FrameworkBuild) -> String {
    format!(
        "{}{}",
        build.first_cuda(),
        if build.cuda_min.is_some() {
            " or newer"
        } else {
            ""
        }
    )
}

fn majors(wanted: &WantedFramework, major: fn(&FrameworkBuild) -> Option<u16>) -> Vec<String> {
    let mut all: Vec<_> = wanted
        .builds
        .iter()
        .filter_map(|build| major(build))
        .map(|v| v.to_string())
        .collect();
    all.dedup();
    all
}

fn wanted<'a>(
    database: &'a Database,
    facts: &Facts,
    request: &Request,
    text: &'a str,
    gpus: &[Rc<TargetGpu>],
) -> Result<WantedFramework<'a>, Conflict> {
    let (name, version) = framework_and_version(text);
    let version = version.trim_start_matches('=').trim();
    let Some(framework) = database.framework(name) else {
        return Err(unknown(database, request, text));
    };
    let Some(release) = database.framework_release(text) else {
        let known: Vec<_> = framework
            .releases
            .iter()
            .map(|r| r.version.as_str())
            .collect();
        let nearest = nearest(
            &known,
            version.trim_start_matches(['<', '>', '=', '~', '^', '!', ' ']),
        );
        let which = if nearest.len() < known.len() {
            "nearest known versions"
        } else {
            "known versions"
        };
        return Err(Conflict::new(
            RuleId::FrameworkKnown,
            format!(
                "{} {} is not known (--for)",
                framework.title,
                version.trim()
            ),
        )
        .hint(format!("{which}: {}", nearest.join(", "))));
    };
    let builds = labelled(
        published(facts, framework, release, request)?,
        framework,
        release,
        request,
        text,
    )?;
    let (runs, lacking): (Vec<_>, Vec<_>) = builds
        .iter()
        .copied()
        .partition(|build| !gpus.iter().any(|card| card.lacks_kernels_in(build)));
    if let (true, Some(build)) = (runs.is_empty(), lacking.first())
        && let Some(card) = gpus.iter().find(|card| card.lacks_kernels_in(build))
    {
        return Err(without_kernels(framework, release, &builds, card));
    }
    loads(facts, framework, release, request)?;
    Ok(WantedFramework {
        text,
        builds: runs,
        framework,
        release,
    })
}

/// The refusal of a name that no framework has, and the framework that was probably meant.
fn unknown(database: &Database, request: &Request, text: &str) -> Conflict {
    let (name, _) = framework_and_version(text);
    let sentence = format!("no framework is called `{name}` (--for)");
    if let Some(with) = database.framework_released_with(name) {
        let sentence = format!(
            "{name} is released with {} and needs the same CUDA: plan for that",
            with.title
        );
        return Conflict::request(sentence).hint(asking_instead(request, text, &with.name));
    }
    let conflict = match meant(database, text) {
        Some(meant) => Conflict::request(format!("{sentence}; did you mean {meant}?"))
            .hint(asking_instead(request, text, &meant)),
        None => {
            let known: Vec<_> = database
                .frameworks
                .iter()
                .map(|f| f.name.as_str())
                .collect();
            Conflict::request(sentence).hint(format!("known frameworks: {}", known.join(", ")))
        }
    };
    conflict.hint(Hint::Command("gpusetup db list frameworks".to_owned()))
}

/// What an unknown name probably means: `torch==2.7` for `torch2.7`, or the framework with the most
/// similar name.
fn meant(database: &Database, text: &str) -> Option<String> {
    let (name, version) = framework_and_version(text);
    let letters = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &name[letters.len()..];
    if let Some(known) = database
        .framework(letters)
        .filter(|_| version.is_empty() && !number.is_empty())
    {
        return Some(format!("{}=={number}", known.name));
    }
    let small = name.to_lowercase();
    let names = database.frameworks.iter().flat_map(|f| {
        let all = std::iter::once(&f.name).chain(&f.aliases);
        all.map(|called| {
            (
                strsim::osa_distance(&small, &called.to_lowercase()),
                &f.name,
            )
        })
    });
    // `numba` for `numba-cuda`
    let longer = database.frameworks.iter().find(|f| {
        let rest = f.name.strip_prefix(&small);
        rest.is_some_and(|rest| rest.starts_with('-'))
    });
    if let Some(longer) = longer {
        return Some(format!("{}{version}", longer.name));
    }
    let most = small.chars().count() / 3;
    let (_, name) = names
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)?;
    Some(format!("{name}{version}"))
}

/// The builds of a release for the host's architecture.
fn published<'a>(
    facts: &Facts,
    framework: &Framework,
    release: &'a FrameworkRelease,
    request: &Request,
) -> Result<Choice<'a>, Conflict> {
    let arch = &facts.machine.arch;
    let builds: Vec<_> = release.builds.iter().filter(|b| b.is_for(arch)).collect();
    if !builds.is_empty() {
        return Ok(builds);
    }
    let what = if release.cpu_only.contains(arch) {
        "do not include CUDA"
    } else {
        "do not exist"
    };
    let sentence = format!(
        "the wheels of {} {} for {arch} {what}",
        framework.title, release.version
    );
    let conflict = Conflict::new(RuleId::FrameworkPublished, sentence);
    // The nearest newer release has most of what the user wants; otherwise the newest.
    let newer = framework
        .releases
        .iter()
        .position(|r| r.version == release.version);
    let newer = newer.unwrap_or(framework.releases.len());
    let (newer, older) = framework.releases.split_at(newer);
    let mut others = newer.iter().rev().chain(older);
    let other = others.find(|r| r.builds.iter().any(|b| b.is_for(arch)));
    let other = other.map(|r| {
        format!(
            "{} {} supports CUDA on {arch}: --for {0}=={1}",
            framework.name, r.version
        )
    });
    let hints = other
        .map(Hint::from)
        .into_iter()
        .chain(otherwise(release, request));
    Err(hints.fold(conflict, Conflict::hint))
}

/// The builds that the request names after the version: `torch==2.9+cu128` is the one for CUDA
/// 12.8.
fn labelled<'a>(
    builds: Choice<'a>,
    framework: &Framework,
    release: &FrameworkRelease,
    request: &Request,
    text: &str,
) -> Result<Choice<'a>, Conflict> {
    let Some(label) = build_label(text) else {
        return of_named_cuda(builds, framework, release, text);
    };
    let meant: Vec<_> = builds
        .iter()
        .copied()
        .filter(|build| label_of(build).eq_ignore_ascii_case(label))
        .collect();
    if !meant.is_empty() {
        return Ok(meant);
    }
    let known: Vec<_> = builds
        .iter()
        .map(|build| format!("+{}", label_of(build)))
        .collect();
    let sentence = format!(
        "{} {} has no build +{label} with CUDA; its builds are {}",
        framework.title,
        release.version,
        known.join(", ")
    );
    let hint = Hint::asking(
        "with one of them",
        Request {
            frameworks: replaced(request, text, without_label(text)),
            ..request.clone()
        },
    );
    Err(Conflict::new(RuleId::FrameworkPublished, sentence).hint(hint))
}

fn label_of(build: &FrameworkBuild) -> String {
    format!("cu{}{}", build.cuda.major, build.cuda.minor)
}

/// The builds for the CUDA that the package's name or its extras have: those of `jax[cuda13]` are
/// for CUDA 13.
fn of_named_cuda<'a>(
    builds: Choice<'a>,
    framework: &Framework,
    release: &FrameworkRelease,
    text: &str,
) -> Result<Choice<'a>, Conflict> {
    let Some(named) = named_cuda(text) else {
        return Ok(builds);
    };
    let meant: Vec<_> = builds
        .iter()
        .copied()
        .filter(|build| {
            let (major, minor) = (build.cuda.major, build.cuda.minor);
            named == major || named == 10 * major + minor
        })
        .collect();
    if !meant.is_empty() {
        return Ok(meant);
    }
    let known: Vec<_> = builds
        .iter()
        .map(|build| build.cuda.series().to_string())
        .collect();
    let sentence = format!(
        "{} {} has no build for the CUDA in `{}`; its builds are for CUDA {}",
        framework.title,
        release.version,
        package_of(text),
        known.join(", ")
    );
    let hint = Hint::Command(format!(
        "gpusetup explain {}=={}",
        framework.name, release.version
    ));
    Err(Conflict::new(RuleId::FrameworkPublished, sentence).hint(hint))
}

/// Alternatives to wheels: a plan for a container, and a plan for a build from source.
fn otherwise(release: &FrameworkRelease, request: &Request) -> Vec<Hint> {
    let without = Request {
        frameworks: Vec::new(),
        components: Vec::new(),
        ..request.clone()
    };
    let mut hints: Vec<_> = request
        .driver
        .is_wanted()
        .then(|| Hint::asking("for a container", request.driver_alone()))
        .into_iter()
        .collect();
    if let Some(build) = release.builds.first() {
        let cudnn = build
            .first_cudnn()
            .map_or(Want::Best, |v| meeting(&format!("{}.{}", v.major, v.minor)));
        let toolkit = Request {
            cuda: meeting(&build.cuda.series().to_string()),
            cudnn,
            ..without
        };
        hints.push(Hint::asking("for a build from source", toolkit));
    }
    hints
}

/// Refuses a release whose wheels need a newer glibc than the host's.
fn loads(
    facts: &Facts,
    framework: &Framework,
    release: &FrameworkRelease,
    request: &Request,
) -> Result<(), Conflict> {
    let Some(have) = facts.glibc.as_deref() else {
        return Ok(());
    };
    let arch = &facts.machine.arch;
    let pinned = release.pinned_glibc_min.get(arch);
    let min = pinned.or(release.glibc_min.get(arch));
    let Some(min) = min.filter(|min| dotted(have) < dotted(min)) else {
        return Ok(());
    };
    let sentence = format!(
        "the wheels of {} {} need glibc {min} or newer, but this system has {have}",
        framework.title, release.version
    );
    Err(otherwise(release, request).into_iter().fold(
        Conflict::new(RuleId::FrameworkLoads, sentence),
        Conflict::hint,
    ))
}

/// The known versions nearest to an unknown one.
fn nearest<'k>(known: &[&'k str], wanted: &str) -> Vec<&'k str> {
    const AROUND: usize = 5;
    // Newest first: the first version that is not newer is where the unknown one would be.
    let at = known
        .iter()
        .position(|k| numbers(k) <= numbers(wanted))
        .unwrap_or(known.len());
    let from = at
        .saturating_sub(AROUND / 2)
        .min(known.len().saturating_sub(AROUND));
    known[from..known.len().min(from + AROUND)].to_vec()
}

fn numbers(version: &str) -> Vec<u32> {
    version
        .split('.')
        .map_while(|number| number.parse().ok())
        .collect()
}

/// The cuDNN that builds need beside a toolkit, and what does where there is none: a newer one, and
/// none if all of them bring their own.
fn cudnn_for(
    request: &Request,
    uses: &[&FrameworkBuild],
    all_bring: bool,
) -> (Want<AddOnVersion>, Vec<Want<AddOnVersion>>) {
    let Some(theirs) = uses.iter().filter_map(|b| b.first_cudnn()).max() else {
        return (request.cudnn.clone(), Vec::new());
    };
    let is_open = uses
        .iter()
        .all(|b| b.cudnn.is_none() || b.cudnn_min.is_some());
    let range = cudnn_from(theirs, is_open);
    let cudnn = match &request.cudnn {
        Want::Meeting(mine) => meeting(&format!("{mine}, {range}")),
        Want::Best | Want::Latest => meeting(&range),
        mine => mine.clone(),
    };
    let mut others = Vec::new();
    if !request.cudnn.is_required() {
        // Within a major version, newer libraries serve what was built with older ones.
        others.extend((!is_open).then(|| meeting(&cudnn_from(theirs, true))));
        others.extend(all_bring.then_some(Want::Nothing));
    }
    (cudnn, others)
}

/// The request for one choice of builds: the highest CUDA series that any build starts with,
/// because newer libraries work for builds made with older ones of the same major version. A newer
/// series is allowed only if all builds allow it. The same holds for cuDNN. Builds that bundle CUDA
/// need no toolkit and get one only if it is requested.
fn combined(
    database: &Database,
    facts: &Facts,
    request: &Request,
    all_wanted: &[WantedFramework],
    choice: &[&FrameworkBuild],
    gpus: &[Rc<TargetGpu>],
) -> Combination {
    let arch = &facts.machine.arch;
    let is_toolkit_asked = request.asks_for_toolkit();
    let (mut uses, mut brought, mut all_bring) = (Choice::new(), Vec::new(), true);
    let mut compilers = Choice::new();
    for (wanted, build) in all_wanted.iter().zip(choice.iter().copied()) {
        let brings = libraries_of(wanted.framework, wanted.release, build, arch).are_packaged();
        all_bring &= brings;
        match build.needs {
            FrameworkNeeds::Torch => {}
            FrameworkNeeds::Driver => brought.push(build.cuda.series()),
            _ if brings && wanted.framework.needs_nvcc_at_start(wanted.release) => {
                compilers.push(build);
            }
            // A toolkit beside the packages' own libraries compiles extensions for them.
            _ if brings && !is_toolkit_asked && knows_gpus(database, build, gpus) => {
                brought.push(build.first_cuda());
            }
            _ => uses.push(build),
        }
    }
    let is_only_compiler = uses.is_empty() && !is_toolkit_asked && !request.cudnn.is_required();
    uses.extend(compilers);
    let cuda = toolkit_for(request, is_toolkit_asked, &uses);
    // Without a toolkit, the CUDA libraries of the framework's packages are used.
    let from_packages = uses
        .iter()
        .filter(|b| !cuda.is_wanted() && b.needs == FrameworkNeeds::Libraries);
    brought.extend(from_packages.map(|b| b.first_cuda()));
    let (cudnn, other_cudnn) = match cuda.is_wanted() {
        true if !is_only_compiler => cudnn_for(request, &uses, all_bring),
        _ => (Want::Nothing, Vec::new()),
    };
    let cautions = cautions(facts, cuda.is_wanted(), all_wanted, choice, gpus);
    let members: Vec<_> = all_wanted.iter().map(WantedFramework::member).collect();
    let python = in_order(&members).into_iter().map(|at| {
        let wanted = &all_wanted[at];
        PythonPackage::of(
            database,
            wanted.framework,
            wanted.release,
            choice[at],
            wanted.text,
            pinned(&members, at),
            arch,
        )
    });
    Combination {
        request: Request {
            cuda,
            cudnn,
            brought_cuda: brought.into_iter().max(),
            ..request.clone()
        },
        other_cudnn,
        reason: all_wanted
            .iter()
            .zip(choice)
            .map(|(w, b)| needs(facts, w, b))
            .collect::<Vec<_>>()
            .join("; "),
        sources: all_wanted
            .iter()
            .flat_map(|w| &w.release.sources)
            .cloned()
            .collect::<Vec<_>>()
            .join(", "),
        cautions,
        python: python.collect(),
    }
}

/// What does not work on these GPUs, or without the toolkit that is not planned.
fn cautions(
    facts: &Facts,
    has_toolkit: bool,
    all_wanted: &[WantedFramework],
    choice: &[&FrameworkBuild],
    gpus: &[Rc<TargetGpu>],
) -> Vec<String> {
    let highest = gpus.iter().filter_map(|card| card.capability).max();
    let mut all = Vec::new();
    for (wanted, build) in all_wanted.iter().zip(choice) {
        let here = { build.cautions.iter() }
            .filter(|caution| highest.is_some_and(|have| have >= caution.from));
        all.extend(here.map(|caution| format!("{}: {}", wanted.text, caution.text)));
    }
    if has_toolkit || !facts.toolkits.is_empty() {
        return all;
    }
    for (wanted, build) in all_wanted.iter().zip(choice) {
        let (framework, release) = (wanted.framework, wanted.release);
        let libraries = libraries_of(framework, release, build, &facts.machine.arch);
        let lacks = if framework.needs_nvcc_at_start(release) {
            let cuda = build.cuda;
            format!("compiles kernels with nvcc of CUDA {cuda} whenever it starts")
        } else if libraries.are_hosts() {
            format!("does not bring its own CUDA {}", build.cuda)
        } else {
            continue;
        };
        all.push(format!(
            "{} {lacks}, and this host has no toolkit",
            wanted.text
        ));
    }
    all
}

/// The versions that a build was made with or needs: "torch==2.9 is built with CUDA 12.8 and cuDNN
/// 9.10.2".
fn needs(facts: &Facts, wanted: &WantedFramework, build: &FrameworkBuild) -> String {
    let verb = match build.needs {
        FrameworkNeeds::Torch => {
            return format!("{} uses the CUDA of PyTorch", wanted.text);
        }
        FrameworkNeeds::Driver => {
            return format!(
                "{} bundles CUDA {} and needs only a driver",
                wanted.text, build.cuda
            );
        }
        FrameworkNeeds::Compiler => "is built from source",
        FrameworkNeeds::Libraries if build.cuda_min.is_some() => "runs",
        FrameworkNeeds::Libraries => "is built",
    };
    let nvcc = build
        .nvcc_min
        .map(|v| format!(", nvcc {v} or newer"))
        .unwrap_or_default();
    let newer = if build.cudnn_min.is_some() {
        " or newer"
    } else {
        ""
    };
    let cudnn = build
        .first_cudnn()
        .map(|v| format!(" and cuDNN {v}{newer}"))
        .unwrap_or_default();
    let arch = &facts.machine.arch;
    let index = if wanted.release.cpu_only.contains(arch) {
        format!(
            " (from {}'s own index: its PyPI wheels for {arch} do not include CUDA)",
            wanted.framework.title
        )
    } else {
        String::new()
    };
    format!(
        "{} {verb} with CUDA {}{nvcc}{cudnn}{index}",
        wanted.text,
        cuda_range(build)
    )
}

/// The range of cuDNN versions from this one on, within its major version (`open`) or its minor
/// version.
fn cudnn_from(v: AddOnVersion, open: bool) -> String {
    let next = if open {
        format!("{}", v.major + 1)
    } else {
        format!("{}.{}", v.major, v.minor + 1)
    };
    format!(
        ">={}.{}.{}, <{next}",
        v.major,
        v.minor,
        v.patch.unwrap_or(0)
    )
}

/// Parses a range built from numbers and operators; it is always valid.
fn meeting<V>(text: &str) -> Want<V>
where
    Want<V>: std::str::FromStr,
{
    text.parse().unwrap_or(Want::Best)
}

/// Whether it is known that a build runs on the GPUs: by its newest kernels, or because its CUDA, or
/// a newer one that it takes, targets them. Otherwise the limits of the toolkit are those of the
/// build.
fn knows_gpus(database: &Database, build: &FrameworkBuild, gpus: &[Rc<TargetGpu>]) -> bool {
    let releases = database.cuda.iter();
    let mut releases = releases
        .filter(|release| takes(build, release.version))
        .peekable();
    build.highest_capability.is_some()
        || releases.peek().is_none()
        || releases.any(|release| gpus.iter().all(|card| serves(database, release, card)))
}

/// Whether a build works with the libraries of a release of CUDA.
fn takes(build: &FrameworkBuild, version: CudaVersion) -> bool {
    match build.cuda_min {
        Some(_) => version.major == build.cuda.major && version >= build.cuda,
        None => version.series() == build.cuda.series(),
    }
}

/// The toolkit that these builds use.
fn toolkit_for(request: &Request, is_asked: bool, uses: &Choice) -> Want<CudaVersion> {
    match (uses.iter().map(|b| b.first_toolkit()).max(), &request.cuda) {
        (_, Want::Nothing) => Want::Nothing,
        (None, Want::Best) if !is_asked => Want::Nothing,
        (None, mine) => mine.clone(),
        (Some(first), mine) => {
            let range = format!(">={first}, <{}", first.major + 1);
            match mine {
                // A requested toolkit may be newer than the builds, within their major version.
                Want::Meeting(r) => meeting(&format!("{r}, {range}")),
                Want::Best if uses.iter().any(|b| b.cuda_min.is_none()) => {
                    let series = first.series();
                    meeting(&if first == series {
                        format!("={series}")
                    } else {
                        format!("={series}, >={first}")
                    })
                }
                _ => meeting(&range),
            }
        }
    }
}

/// The refusal of a release none of whose builds has kernels for a GPU.
fn without_kernels(
    framework: &Framework,
    release: &FrameworkRelease,
    builds: &[&FrameworkBuild],
    card: &TargetGpu,
) -> Conflict {
    let capability = card.capability.map(|c| c.to_string()).unwrap_or_default();
    let supported: Vec<_> = builds.iter().map(|build| kernels(build)).collect();
    let sentence = format!(
        "no build of {} {} supports {} (compute capability {capability}). Supported: {}",
        framework.title,
        release.version,
        card.name,
        supported.join(", ")
    );
    Conflict::new(RuleId::FrameworkRunsOnGpu, sentence)
}

/// The compute capabilities that a build has kernels for.
fn kernels(build: &FrameworkBuild) -> String {
    let majors = build
        .without_kernels_for
        .iter()
        .map(|major| format!(" without {major}.x"));
    let single = build
        .without_capabilities
        .iter()
        .map(|capability| format!(" without {capability}"));
    let without: Vec<_> = majors.chain(single).collect();
    let from = build.lowest_capability.map(|c| c.to_string());
    let to = build.highest_capability.map(|c| c.to_string());
    format!(
        "{} to {}{} (CUDA {})",
        from.as_deref().unwrap_or("?"),
        to.as_deref().unwrap_or("newest"),
        without.concat(),
        build.cuda
    )
}
