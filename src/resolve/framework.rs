//! What frameworks wish for, made into a request: the builds that run on the GPUs, those of several frameworks that go
//! together, and the CUDA series and cuDNN that they come to.

use super::cuda::dotted;
use super::{Card, Misfit, Request};
use crate::compat::{Database, Framework, FrameworkBuild, FrameworkRelease};
use crate::host::Facts;
use crate::version::{CudaVersion, CudnnVersion, Want};

/// A framework's release that was asked for.
struct Wish<'a> {
    /// As it was asked for: `torch==2.9`.
    text: &'a str,
    /// Its builds, the preferred first; those that do not run on a GPU left out.
    builds: Vec<&'a FrameworkBuild>,
    release: &'a FrameworkRelease,
}

/// A request that one choice of builds comes to, and why.
pub struct Combination {
    /// With CUDA and cuDNN named.
    pub request: Request,
    /// What was built with what.
    pub reason: String,
    /// Where that is published.
    pub sources: String,
}

/// The releases that these frameworks may mean, the newest first: a framework without a version means any of its releases.
pub fn releases_meant(database: &Database, frameworks: &[String]) -> Vec<Vec<String>> {
    /// Of several frameworks without a version the product would grow without end.
    const MOST: usize = 500;
    let mut all = vec![Vec::new()];
    for text in frameworks {
        let open = database.framework(text.trim());
        let meant: Vec<String> = match open {
            Some(framework) => framework.releases.iter().map(|r| format!("{}=={}", text.trim(), r.version)).collect(),
            None => vec![text.clone()],
        };
        all = all
            .iter()
            .flat_map(|some| meant.iter().map(|one| [some.as_slice(), std::slice::from_ref(one)].concat()))
            .collect();
        all.truncate(MOST);
    }
    all
}

/// The requests that serve all frameworks asked for, preferred first.
pub fn combinations(
    database: &Database,
    facts: &Facts,
    request: &Request,
    cards: &[Card],
) -> Result<Vec<Combination>, Misfit> {
    let wishes =
        request.frameworks.iter().map(|text| wish(database, facts, text, cards)).collect::<Result<Vec<_>, _>>()?;
    let mut choices: Vec<Vec<&FrameworkBuild>> = vec![Vec::new()];
    for wish in &wishes {
        let with =
            |choice: &Vec<_>| wish.builds.iter().map(|b| [choice.as_slice(), &[*b]].concat()).collect::<Vec<_>>();
        choices = choices.iter().flat_map(with).collect();
    }
    // One toolkit is of one major version, and has one cuDNN.
    for (layer, major) in
        [("CUDA", cuda_major as fn(&FrameworkBuild) -> Option<u16>), ("cuDNN", |b| b.first_cudnn().map(|v| v.major))]
    {
        choices.retain(|choice| {
            let mut majors = choice.iter().filter_map(|build| major(build));
            majors.next().is_none_or(|first| majors.all(|other| other == first))
        });
        if choices.is_empty() {
            let all: Vec<_> = wishes
                .iter()
                .map(|wish| (wish.text, majors(wish, major)))
                .filter(|(_, majors)| !majors.is_empty())
                .map(|(text, majors)| format!("{text} for {layer} {}", majors.join(" or ")))
                .collect();
            let sentence = format!("these frameworks have no major version of {layer} in common: {}", all.join("; "));
            return Err(Misfit::new("frameworks-together", sentence)
                .hint("plan for one of them, and run the other in a container".to_owned()));
        }
    }
    Ok(choices.iter().map(|choice| combined(request, &wishes, choice)).collect())
}

fn cuda_major(build: &FrameworkBuild) -> Option<u16> {
    Some(build.cuda.major)
}

fn majors(wish: &Wish, major: fn(&FrameworkBuild) -> Option<u16>) -> Vec<String> {
    let mut all: Vec<_> = wish.builds.iter().filter_map(|build| major(build)).map(|v| v.to_string()).collect();
    all.dedup();
    all
}

fn wish<'a>(database: &'a Database, facts: &Facts, text: &'a str, cards: &[Card]) -> Result<Wish<'a>, Misfit> {
    let (name, version) = text.split_once("==").unwrap_or((text, ""));
    let Some(framework) = database.framework(name.trim()) else {
        let known: Vec<_> = database.frameworks.iter().map(|f| f.name.as_str()).collect();
        return Err(Misfit::new("framework-known", format!("no framework is called `{}` (--for)", name.trim()))
            .hint(format!("known are {}", known.join(", "))));
    };
    let Some(release) = database.framework_release(text) else {
        let known: Vec<_> = framework.releases.iter().map(|r| r.version.as_str()).collect();
        return Err(Misfit::new(
            "framework-known",
            format!("{} {} is not known (--for)", framework.title, version.trim()),
        )
        .hint(format!("known are {}", nearest(&known, version.trim()).join(", "))));
    };
    loads(facts, framework, release)?;
    let unfit = |b: &FrameworkBuild| {
        let unserved = |c: &&Card| {
            c.capability.is_some_and(|have| {
                b.lowest_capability.is_some_and(|lowest| have < lowest)
                    || b.highest_capability.is_some_and(|highest| have.major > highest.major)
            })
        };
        cards.iter().find(unserved)
    };
    let runs: Vec<_> = release.builds.iter().filter(|b| unfit(b).is_none()).collect();
    if let (true, Some(card)) = (runs.is_empty(), release.builds.iter().find_map(unfit)) {
        let capability = card.capability.map(|c| c.to_string()).unwrap_or_default();
        let kernels = |b: &FrameworkBuild| {
            let end = |c: Option<_>, open: &str| {
                c.map_or(open.to_owned(), |c: crate::version::ComputeCapability| c.to_string())
            };
            format!("for CUDA {} {} to {}", b.cuda, end(b.lowest_capability, "?"), end(b.highest_capability, "newest"))
        };
        let sentence = format!(
            "no build of {} {} has kernels for {}, which is compute capability {capability}: they are {}",
            framework.title,
            release.version,
            card.name,
            release.builds.iter().map(kernels).collect::<Vec<_>>().join(", ")
        );
        return Err(Misfit::new("framework-runs-on-gpu", sentence));
    }
    Ok(Wish { text, builds: runs, release })
}

/// Whether the wheels of a release load with the host's glibc.
fn loads(facts: &Facts, framework: &Framework, release: &FrameworkRelease) -> Result<(), Misfit> {
    let Some(have) = facts.glibc.as_deref() else { return Ok(()) };
    let needed = |r: &FrameworkRelease| r.glibc_min.get(&facts.machine.arch).cloned();
    let too_new = |r: &FrameworkRelease| needed(r).filter(|min| dotted(have) < dotted(min));
    let Some(min) = too_new(release) else { return Ok(()) };
    let sentence = format!(
        "the wheels of {} {} need glibc {min} or newer, and this system has {have}",
        framework.title, release.version
    );
    let newest = framework.releases.iter().find(|r| too_new(r).is_none());
    let newest = newest.map(|r| format!("wheels of {} {} load here", framework.title, r.version));
    let build = release.builds.first().map(|b| {
        let cudnn = b.first_cudnn().map(|v| format!(" --cudnn {}.{}", v.major, v.minor)).unwrap_or_default();
        format!("for a container, --profile driver; for a build from source, --cuda {}{cudnn}", b.cuda.series())
    });
    Err(newest.into_iter().chain(build).fold(Misfit::new("framework-loads", sentence), Misfit::hint))
}

/// The known versions around one that is not known.
fn nearest<'k>(known: &[&'k str], wanted: &str) -> Vec<&'k str> {
    const AROUND: usize = 5;
    let numbers = |v: &str| v.split('.').map_while(|n| n.parse::<u32>().ok()).collect::<Vec<_>>();
    // Newest first, so the first that is not newer stands where the unknown one would.
    let at = known.iter().position(|k| numbers(k) <= numbers(wanted)).unwrap_or(known.len());
    let from = at.saturating_sub(AROUND / 2).min(known.len().saturating_sub(AROUND));
    known[from..known.len().min(from + AROUND)].to_vec()
}

/// One choice of builds: the highest series that any of them starts with, since newer libraries of one major version serve what
/// was made with older ones. It may be newer still only if all allow that. The same holds for cuDNN.
fn combined(request: &Request, wishes: &[Wish], choice: &[&FrameworkBuild]) -> Combination {
    let none = CudaVersion { major: 0, minor: 0, patch: None };
    let series = choice.iter().map(|b| b.first_cuda()).max().unwrap_or(none);
    let range = format!(">={series}, <{}", series.major + 1);
    let cuda = match &request.cuda {
        // A toolkit that the user named may be newer than the builds, within their major version.
        Want::Meeting(r) => meeting(&format!("{r}, {range}")),
        Want::Best if choice.iter().any(|b| b.cuda_min.is_none()) => meeting(&format!("={series}")),
        Want::Best | Want::Latest => meeting(&range),
        Want::Nothing => Want::Nothing,
    };
    let open = choice.iter().all(|b| b.cudnn.is_none() || b.cudnn_min.is_some());
    let theirs = choice.iter().filter_map(|b| b.first_cudnn()).max().map(|v| cudnn_from(v, open));
    let cudnn = match (&request.cudnn, theirs) {
        (Want::Meeting(r), Some(theirs)) => meeting(&format!("{r}, {theirs}")),
        (Want::Best | Want::Latest, Some(theirs)) => meeting(&theirs),
        (mine, _) => mine.clone(),
    };
    Combination {
        request: Request { cuda, cudnn, ..request.clone() },
        reason: wishes.iter().zip(choice).map(|(w, b)| needs(w.text, b)).collect::<Vec<_>>().join("; "),
        sources: wishes.iter().flat_map(|w| &w.release.sources).cloned().collect::<Vec<_>>().join(", "),
    }
}

/// What a build is made with, or runs with: "torch==2.9 is made with CUDA 12.8 and cuDNN 9.10.2".
fn needs(framework: &str, build: &FrameworkBuild) -> String {
    let open = |is: bool| if is { " or newer" } else { "" };
    let verb = if build.cuda_min.is_some() { "runs" } else { "is made" };
    let cudnn = build.first_cudnn().map(|v| format!(" and cuDNN {v}{}", open(build.cudnn_min.is_some())));
    let cuda = format!("{}{}", build.first_cuda(), open(build.cuda_min.is_some()));
    format!("{framework} {verb} with CUDA {cuda}{}", cudnn.unwrap_or_default())
}

/// The cuDNNs from this on: of its major version, or of its minor version, so that what was tested together stays together.
fn cudnn_from(v: CudnnVersion, open: bool) -> String {
    let next = if open { format!("{}", v.major + 1) } else { format!("{}.{}", v.major, v.minor + 1) };
    format!(">={}.{}.{}, <{next}", v.major, v.minor, v.patch.unwrap_or(0))
}

/// Made of numbers and signs only, so it can be read.
fn meeting<V>(text: &str) -> Want<V>
where
    Want<V>: std::str::FromStr,
{
    text.parse().unwrap_or(Want::Best)
}
