//! What frameworks wish for, made into a request: the builds that run on the GPUs, those of several frameworks that go
//! together, and the CUDA series and cuDNN that they come to.

use super::{Card, Misfit, Request};
use crate::compat::{Database, FrameworkBuild, FrameworkRelease};
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

/// The requests that serve all frameworks asked for, preferred first.
pub fn combinations(database: &Database, request: &Request, cards: &[Card]) -> Result<Vec<Combination>, Misfit> {
    let wishes = request.frameworks.iter().map(|text| wish(database, text, cards)).collect::<Result<Vec<_>, _>>()?;
    let mut choices: Vec<Vec<&FrameworkBuild>> = vec![Vec::new()];
    for wish in &wishes {
        let with =
            |choice: &Vec<_>| wish.builds.iter().map(|b| [choice.as_slice(), &[*b]].concat()).collect::<Vec<_>>();
        choices = choices.iter().flat_map(with).collect();
    }
    // One toolkit is of one major version.
    choices.retain(|c| c.iter().all(|b| b.cuda.major == c[0].cuda.major));
    if choices.is_empty() {
        let all: Vec<_> = wishes.iter().map(|w| format!("{} for CUDA {}", w.text, majors(w))).collect();
        let sentence = format!("these frameworks have no major version of CUDA in common: {}", all.join("; "));
        return Err(Misfit::new("frameworks-together", sentence));
    }
    Ok(choices.iter().map(|choice| combined(request, &wishes, choice)).collect())
}

fn majors(wish: &Wish) -> String {
    let mut all: Vec<_> = wish.builds.iter().map(|b| b.cuda.major.to_string()).collect();
    all.dedup();
    all.join(" or ")
}

fn wish<'a>(database: &'a Database, text: &'a str, cards: &[Card]) -> Result<Wish<'a>, Misfit> {
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

/// The known versions around one that is not known.
fn nearest<'k>(known: &[&'k str], wanted: &str) -> Vec<&'k str> {
    const AROUND: usize = 5;
    let numbers = |v: &str| v.split('.').map_while(|n| n.parse::<u32>().ok()).collect::<Vec<_>>();
    // Newest first, so the first that is not newer stands where the unknown one would.
    let at = known.iter().position(|k| numbers(k) <= numbers(wanted)).unwrap_or(known.len());
    let from = at.saturating_sub(AROUND / 2).min(known.len().saturating_sub(AROUND));
    known[from..known.len().min(from + AROUND)].to_vec()
}

/// One choice of builds: the highest series that any was made with, since newer libraries of one major version serve what
/// was made with older ones. It may be newer still only where all allow that.
fn combined(request: &Request, wishes: &[Wish], choice: &[&FrameworkBuild]) -> Combination {
    let series =
        choice.iter().map(|b| b.cuda.series()).max().unwrap_or(CudaVersion { major: 0, minor: 0, patch: None });
    let cudnn = choice.iter().filter_map(|b| b.cudnn).max();
    let newer = choice.iter().all(|b| b.newer);
    let upper = series.major + 1;
    let cuda = if newer { format!(">={series}, <{upper}") } else { format!("={series}") };
    let cuda = match &request.cuda {
        // A toolkit that the user named may be newer than the builds, within their major version.
        Want::Meeting(r) => meeting(&format!("{r}, >={series}, <{upper}")),
        Want::Best => meeting(&cuda),
        Want::Nothing => Want::Nothing,
    };
    let wanted_cudnn = cudnn.map(|v| cudnn_at_least(v, newer));
    let cudnn = match (&request.cudnn, wanted_cudnn) {
        (Want::Meeting(r), Some(theirs)) => meeting(&format!("{r}, {theirs}")),
        (Want::Best, Some(theirs)) => meeting(&theirs),
        (mine, _) => mine.clone(),
    };
    let made = |(wish, build): (&Wish, &&FrameworkBuild)| {
        let cudnn = build.cudnn.map(|c| format!(" and cuDNN {c}")).unwrap_or_default();
        format!("{} is made with CUDA {}{cudnn}", wish.text, build.cuda)
    };
    Combination {
        request: Request { cuda, cudnn, ..request.clone() },
        reason: wishes.iter().zip(choice).map(made).collect::<Vec<_>>().join("; "),
        sources: wishes.iter().flat_map(|w| &w.release.sources).cloned().collect::<Vec<_>>().join(", "),
    }
}

/// cuDNN serves programs that were made with an older one of its major version. A build that names one exactly gets that
/// minor version, so that what was tested together stays together.
fn cudnn_at_least(v: CudnnVersion, newer: bool) -> String {
    let next = if newer { format!("{}", v.major + 1) } else { format!("{}.{}", v.major, v.minor + 1) };
    format!(">={}.{}.{}, <{next}", v.major, v.minor, v.patch.unwrap_or(0))
}

/// Made of numbers and signs only, so it can be read.
fn meeting<V>(text: &str) -> Want<V>
where
    Want<V>: std::str::FromStr,
{
    text.parse().unwrap_or(Want::Best)
}
