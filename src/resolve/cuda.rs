//! The toolkit and cuDNN that fit a driver, the GPUs and the host's compiler and C library.

use super::driver::{Candidate, distribution};
use super::{Card, Rejection, Request};
use crate::compat::{CudaArtifact, CudaRelease, CudnnArtifact, CudnnRange, Database};
use crate::host::Facts;
use crate::version::{ComputeCapability, CudaVersion, CudnnVersion, Want};

/// A toolkit that fits.
#[derive(Debug, Clone, Copy)]
pub struct Toolkit<'a> {
    /// The release.
    pub release: &'a CudaRelease,
    /// Its runfile; none for one that is installed and of which no runfile is known here.
    pub artifact: Option<&'a CudaArtifact>,
    /// It is there.
    pub kept: bool,
    /// The gcc, by major version, that it needs beside the default one.
    pub side_gcc: Option<u16>,
}

/// A cuDNN that fits.
#[derive(Debug, Clone, Copy)]
pub struct Cudnn<'a> {
    /// The archive.
    pub artifact: &'a CudnnArtifact,
    /// What its line needs.
    pub range: &'a CudnnRange,
}

/// The toolkit to take with this driver, and the newer ones refused; `driver` is none when no driver is to be chosen.
pub fn toolkit<'a>(
    database: &'a Database,
    facts: &Facts,
    request: &Request,
    cards: &[Card],
    driver: Option<&Candidate>,
) -> (Option<Toolkit<'a>>, Vec<(CudaVersion, Rejection)>) {
    let mut refused = Vec::new();
    let installed = |r: &CudaRelease| {
        facts.toolkits.iter().any(|t| {
            t.has_nvcc
                && t.path.parent() == Some(&request.prefix)
                && t.version.series() == r.version.series()
                && (t.version == r.version || t.version.patch.is_none())
        })
    };
    let mut releases: Vec<_> = database.cuda.iter().collect();
    releases.sort_by_key(|r| (request.upgrade || !installed(r), std::cmp::Reverse(r.version)));
    for release in releases {
        let artifact = database
            .cuda_artifacts
            .iter()
            .find(|a| a.version == release.version && a.artifact.arch == super::cuda_arch(&facts.machine.arch));
        let kept = installed(release);
        match examine(database, facts, request, cards, driver, release, artifact, kept) {
            Ok(side_gcc) => {
                refused.retain(|(v, _)| *v > release.version);
                return (Some(Toolkit { release, artifact, kept, side_gcc }), refused);
            }
            Err((rule, because)) => {
                let candidate = format!("cuda {}", release.version);
                refused.push((release.version, Rejection { candidate, because, rule: rule.to_owned() }));
            }
        }
    }
    (None, refused)
}

type Verdict<T> = Result<T, (&'static str, String)>;

/// The side compiler it needs, or the rule that refuses it.
#[allow(clippy::too_many_arguments)] // a rule may look at everything that is known
fn examine(
    database: &Database,
    facts: &Facts,
    request: &Request,
    cards: &[Card],
    driver: Option<&Candidate>,
    release: &CudaRelease,
    artifact: Option<&CudaArtifact>,
    kept: bool,
) -> Verdict<Option<u16>> {
    let version = release.version;
    for card in cards {
        targets(database, release, card)?;
    }
    if let Some(driver) = driver {
        runs_on(release, driver, &request.cuda)?;
    }
    if !request.cuda.accepts(version) {
        return Err(("cuda-wanted", format!("{} was asked for", request.cuda)));
    }
    if let Some(have) = &facts.glibc {
        if let Some(min) = release.glibc_min.as_ref().filter(|min| dotted(have) < dotted(min)) {
            return Err(("cuda-c-library", format!("it needs glibc {min} or newer, this host has {have}")));
        }
        if let Some(from) = release.glibc_breaks_from.as_ref().filter(|from| dotted(have) >= dotted(from)) {
            return Err((
                "cuda-c-library",
                format!("its headers do not compile with glibc {from} and newer ({have} here)"),
            ));
        }
    }
    match artifact.map(|a| &a.artifact) {
        _ if kept => {}
        None => return Err(("cuda-published", format!("there is no runfile of it for {}", facts.machine.arch))),
        Some(a) if a.url.is_none() || a.sha256.is_none() => {
            return Err((
                "cuda-published",
                "no checksum of its runfile is known, so it could not be verified".to_owned(),
            ));
        }
        Some(_) => {}
    }
    host_compiler(database, facts, release)
}

fn targets(database: &Database, release: &CudaRelease, card: &Card) -> Verdict<()> {
    let Some(capability) = card.capability else {
        return Err(("cuda-targets-gpu", format!("no source gives the compute capability of {}", card.name)));
    };
    let (lowest, highest) = (release.lowest_capability, release.highest_capability);
    let whose = format!("{} is compute capability {capability}", card.name);
    if capability < lowest {
        return Err(("cuda-targets-gpu", format!("it targets {lowest} and up; {whose}")));
    }
    if capability > highest {
        return Err(("cuda-targets-gpu", format!("it targets {highest} at most; {whose}")));
    }
    let Some(architecture) = database.architecture(capability) else { return Ok(()) };
    if architecture.first_cuda.is_some_and(|first| release.version.series() < first.series()) {
        return Err((
            "cuda-targets-gpu",
            format!("{} began with CUDA {}; {whose}", architecture.name, shown(architecture.first_cuda)),
        ));
    }
    if architecture.last_cuda.is_some_and(|last| release.version.series() > last.series()) {
        return Err((
            "cuda-targets-gpu",
            format!("CUDA {} was the last for {capability}; {whose}", shown(architecture.last_cuda)),
        ));
    }
    Ok(())
}

fn shown(version: Option<CudaVersion>) -> String {
    version.map(|v| v.to_string()).unwrap_or_default()
}

/// A toolkit asked for by name may be newer than its driver's own, within the major version; one that gpusetup chooses
/// may not, because then PTX would not load.
fn runs_on(release: &CudaRelease, driver: &Candidate, want: &Want<CudaVersion>) -> Verdict<()> {
    if driver.version < release.minimum_driver {
        let because = format!("it needs driver {} or newer, not {}", release.minimum_driver, driver.version);
        return Err(("cuda-runs-on-driver", because));
    }
    let Some(native) = driver.branch.max_cuda else { return Ok(()) };
    let asked = matches!(want, Want::Meeting(requirement) if requirement.to_string() != "latest");
    if release.version.series() > native.series() && !asked {
        let because = format!(
            "driver branch {} runs CUDA {} natively; a newer toolkit's PTX would not load",
            driver.branch.branch, native
        );
        return Err(("cuda-native-driver", because));
    }
    Ok(())
}

/// The side gcc that is needed because the default one is too new.
fn host_compiler(database: &Database, facts: &Facts, release: &CudaRelease) -> Verdict<Option<u16>> {
    let distribution = distribution(database, facts);
    let have = facts.gcc.as_deref().and_then(|v| v.split('.').next()?.parse::<u16>().ok());
    let Some(have) = have.or_else(|| distribution.and_then(|d| d.gcc)) else { return Ok(None) };
    let Some(max) = release.gcc_max.filter(|max| have > *max) else { return Ok(None) };
    match distribution.and_then(|d| d.gcc_package.as_ref().map(|_| d)) {
        // gcc is packaged by major version; the distribution's default and the few before it are there.
        Some(d) if d.gcc.is_none_or(|default| max + 2 >= default) => Ok(Some(max)),
        _ => Err(("cuda-host-compiler", format!("its nvcc takes gcc {max} at most; this host has gcc {have}"))),
    }
}

/// The newest cuDNN that was asked for and fits, and the newer ones refused.
pub fn cudnn<'a>(
    database: &'a Database,
    facts: &Facts,
    request: &Request,
    cards: &[Card],
    driver: Option<&Candidate>,
    toolkit: &Toolkit,
) -> (Option<Cudnn<'a>>, Vec<(CudnnVersion, Rejection)>) {
    let arch = super::cuda_arch(&facts.machine.arch);
    let mut refused: Vec<(CudnnVersion, Rejection)> = Vec::new();
    let mut artifacts: Vec<_> = database.cudnn_artifacts.iter().filter(|a| a.artifact.arch == arch).collect();
    let kept = |a: &CudnnArtifact| {
        !request.upgrade
            && facts.cudnn.iter().any(|c| c.version == Some(a.version) && c.directory.starts_with(&request.prefix))
    };
    artifacts.sort_by_key(|a| (!kept(a), std::cmp::Reverse(a.version)));
    for artifact in artifacts {
        match cudnn_fits(database, request, cards, driver, toolkit, artifact) {
            Ok(range) => {
                let chosen = artifact.version;
                refused.retain(|(v, _)| *v > chosen);
                return (Some(Cudnn { artifact, range }), refused);
            }
            Err((rule, because)) => {
                let candidate = format!("cudnn {} for CUDA {}", artifact.version, artifact.cuda_line);
                refused.push((artifact.version, Rejection { candidate, because, rule: rule.to_owned() }));
            }
        }
    }
    (None, refused)
}

fn cudnn_fits<'a>(
    database: &'a Database,
    request: &Request,
    cards: &[Card],
    driver: Option<&Candidate>,
    toolkit: &Toolkit,
    artifact: &CudnnArtifact,
) -> Verdict<&'a CudnnRange> {
    let Some(range) = database.cudnn_range(artifact.version, &artifact.cuda_line) else {
        return Err(("cudnn-known", "no source says what it needs".to_owned()));
    };
    let series = toolkit.release.version.series();
    let major_differs = series.major != range.cuda_min.major;
    if major_differs || series < range.cuda_min.series() || range.cuda_max.is_some_and(|max| series > max.series()) {
        return Err(("cudnn-for-cuda", format!("it is built for CUDA {}, not for {series}", artifact.cuda_line)));
    }
    for card in cards {
        let Some(capability) = card.capability else { continue };
        let whose = format!("{} is compute capability {capability}", card.name);
        if capability < range.lowest_capability {
            return Err(("cudnn-runs-on-gpu", format!("it needs {} or newer; {whose}", range.lowest_capability)));
        }
        if let Some(highest) = range.highest_capability.filter(|h: &ComputeCapability| capability > *h) {
            return Err(("cudnn-runs-on-gpu", format!("it knows {highest} at most; {whose}")));
        }
    }
    if let (Some(driver), Some(min)) = (driver, range.minimum_driver)
        && driver.version < min
    {
        return Err(("cudnn-runs-on-driver", format!("it needs driver {min} or newer, not {}", driver.version)));
    }
    if !request.cudnn.accepts(artifact.version) {
        return Err(("cudnn-wanted", format!("{} was asked for", request.cudnn)));
    }
    if artifact.artifact.url.is_none() || artifact.artifact.sha256.is_none() {
        return Err((
            "cudnn-published",
            "its address or checksum is not known, so it could not be verified".to_owned(),
        ));
    }
    Ok(range)
}

/// `2.36` as numbers.
fn dotted(version: &str) -> Vec<u32> {
    version.split(['.', '-']).map_while(|n| n.parse().ok()).collect()
}
