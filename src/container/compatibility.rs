//! Whether a host runs an image.

use super::image::Image;
use super::requirement::{self, Condition, Known, Met};
use crate::compat::{CudaRelease, Database};
use crate::version::{CudaVersion, DriverVersion};
use serde::Serialize;

/// A GPU of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostGpu {
    /// Its name.
    pub name: String,
    /// The compute capability, `8.0`, if known.
    pub capability: Option<String>,
    /// NVIDIA's line that it belongs to, `GeForce`, if known.
    pub line: Option<String>,
    /// It belongs to the data-centre line, which forward compatibility is for.
    pub data_center: bool,
}

/// The host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// The driver; none if there is none.
    pub driver: Option<DriverVersion>,
    /// The GPUs; none if they are not known.
    pub gpus: Vec<HostGpu>,
    /// The processors, as images call them: `amd64`.
    pub architecture: Option<String>,
}

/// Whether a host runs an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ImageAnswer {
    /// The driver runs it.
    Runs,
    /// The driver runs it with the newer libraries that are in the image (cuda-compat).
    RunsWithForwardCompatibility,
    /// The image says nothing of CUDA.
    NeedsNoCuda,
    /// It is refused, or does not work.
    DoesNotRun,
    /// That depends on what is not known.
    Unknown,
}

/// The result for an image on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Checked {
    /// `gpusetup.container-check/1`.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = "gpusetup.container-check/1")))]
    pub schema: &'static str,
    /// The image, as it was named.
    pub image: String,
    /// Where its description was read: a file, or the engine.
    pub from: String,
    /// Whether the host runs it.
    pub answer: ImageAnswer,
    /// The CUDA in the image. Null if it says nothing of CUDA.
    pub cuda: Option<String>,
    /// The driver of the host. Null if it has none.
    pub driver: Option<String>,
    /// What the image demands, by the names of its variables.
    pub requirements: std::collections::BTreeMap<String, String>,
    /// The parts of the driver that it asks for.
    pub capabilities: Option<String>,
    /// The facts that decide, in sentences.
    pub reasons: Vec<String>,
    /// Commands that would make it run.
    pub commands: Vec<String>,
}

/// Whether a host runs an image, and why.
pub fn check(name: &str, image: &Image, host: &Host, database: &Database) -> Checked {
    let needs = Needs::of(image);
    let mut checked = Checked {
        schema: "gpusetup.container-check/1",
        image: name.to_owned(),
        from: image.from.clone(),
        answer: ImageAnswer::Unknown,
        cuda: needs.cuda_text.clone(),
        driver: host.driver.map(|driver| driver.to_string()),
        requirements: image
            .variables
            .iter()
            .filter(|(name, _)| is_shown(name))
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect(),
        capabilities: image.variables.get("NVIDIA_DRIVER_CAPABILITIES").cloned(),
        reasons: Vec::new(),
        commands: Vec::new(),
    };
    checked.answer = judged(image, &needs, host, database, &mut checked);
    checked
}

fn is_shown(name: &str) -> bool {
    super::asked::is_requirement(name)
}

/// What an image needs.
struct Needs {
    cuda: Option<CudaVersion>,
    cuda_text: Option<String>,
    /// The package in it that brings the libraries of a newer driver.
    compat_package: Option<String>,
    demands: Vec<(String, String)>,
    is_disabled: bool,
}

impl Needs {
    fn of(image: &Image) -> Self {
        let variable = |name: &str| image.variables.get(name).filter(|value| !value.is_empty());
        // Of NVIDIA's images: 12.4.1, and packages' versions such as 12.4.127-1.
        let named = variable("CUDA_VERSION")
            .or_else(|| image.labels.get("com.nvidia.cuda.version"))
            .or_else(|| variable("NV_CUDA_LIB_VERSION"))
            .map(|text| text.split('-').next().unwrap_or_default().to_owned());
        let mut demands: Vec<_> = image
            .variables
            .iter()
            .filter(|(name, _)| name.starts_with("NVIDIA_REQUIRE_") && !name.starts_with("NVIDIA_REQUIRE_JETPACK"))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let has_cuda = demands.iter().any(|(name, value)| name == "NVIDIA_REQUIRE_CUDA" && !value.is_empty());
        // Some images add the number of a build: 13.0.1.012.
        let version = |text: &str| {
            let release: Vec<_> = text.split('.').take(3).collect();
            release.join(".").parse::<CudaVersion>().ok()
        };
        // Older images have no requirement, and the toolkit makes one of this variable.
        let own = variable("CUDA_VERSION").and_then(|text| version(text));
        if let Some(own) = own.filter(|_| !has_cuda) {
            demands.push(("CUDA_VERSION".to_owned(), format!("cuda>={}", own.series())));
        }
        let cuda = named.as_deref().and_then(version).or_else(|| {
            let first = demands.iter().find(|(name, _)| name == "NVIDIA_REQUIRE_CUDA")?;
            version(first.1.split(' ').next()?.strip_prefix("cuda>=")?)
        });
        let is_disabled = variable("NVIDIA_DISABLE_REQUIRE")
            .is_some_and(|value| ["1", "t", "true"].contains(&value.to_ascii_lowercase().as_str()));
        Self {
            cuda,
            cuda_text: named.or_else(|| cuda.map(|cuda| cuda.series().to_string())),
            compat_package: variable("NV_CUDA_COMPAT_PACKAGE").cloned(),
            demands,
            is_disabled,
        }
    }
}

fn judged(image: &Image, needs: &Needs, host: &Host, database: &Database, to: &mut Checked) -> ImageAnswer {
    if let (Some(of_image), Some(of_host)) = (&image.architecture, &host.architecture)
        && of_image != of_host
    {
        to.reasons.push(format!("the image is for {of_image} processors, and this host has {of_host}"));
        return ImageAnswer::DoesNotRun;
    }
    if let Some(jetpack) = image.variables.get("NVIDIA_REQUIRE_JETPACK") {
        to.reasons.push(format!("the image is for a Jetson with a certain JetPack: {jetpack}"));
        return ImageAnswer::Unknown;
    }
    if needs.cuda.is_none() && needs.demands.is_empty() {
        to.reasons.push("the image says nothing of CUDA: any driver will do, as far as it is known".to_owned());
        return ImageAnswer::NeedsNoCuda;
    }
    let Some(driver) = host.driver else {
        to.reasons.push("this host has no NVIDIA driver, which containers use".to_owned());
        to.commands.push("gpusetup plan --profile driver".to_owned());
        return ImageAnswer::DoesNotRun;
    };
    let compatible = cuda(needs, driver, host, database, to);
    let demanded = if needs.is_disabled { disabled(to) } else { demanded(needs, driver, host, database, to) };
    let answer = match (demanded, compatible) {
        (Met::No, Compatible::No) | (_, Compatible::No) => ImageAnswer::DoesNotRun,
        (Met::No, _) => ImageAnswer::DoesNotRun,
        (Met::Unknown, _) | (_, Compatible::Unknown) => ImageAnswer::Unknown,
        (Met::Yes, Compatible::Forward) => ImageAnswer::RunsWithForwardCompatibility,
        (Met::Yes, Compatible::Yes) => ImageAnswer::Runs,
    };
    if answer == ImageAnswer::DoesNotRun {
        to.commands.extend(upgrade(needs, driver, database));
        if demanded == Met::No && compatible == Compatible::Yes {
            to.reasons.push(
                "the CUDA in the image would run; only the demand is not met, which -e NVIDIA_DISABLE_REQUIRE=1 turns off".to_owned(),
            );
        }
    }
    answer
}

fn disabled(to: &mut Checked) -> Met {
    to.reasons.push("the image turns its demands off (NVIDIA_DISABLE_REQUIRE)".to_owned());
    Met::Yes
}

/// Whether the driver runs the CUDA in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compatible {
    Yes,
    /// By the newer libraries in the image.
    Forward,
    No,
    Unknown,
}

fn cuda(needs: &Needs, driver: DriverVersion, host: &Host, database: &Database, to: &mut Checked) -> Compatible {
    let Some(cuda) = needs.cuda else { return Compatible::Yes };
    let native = database.branch(driver.branch).and_then(|branch| branch.max_cuda);
    if native.is_some_and(|native| cuda.series() <= native.series()) {
        to.reasons.push(format!("driver {driver} runs CUDA {} natively", cuda.series()));
        return Compatible::Yes;
    }
    // A series has releases with several minimums; without its third number an image may be any of them.
    let of_series = |release: &&CudaRelease| release.version.series() == cuda.series();
    let release = database.cuda(cuda).or_else(|| database.cuda.iter().find(of_series));
    let Some(release) = release else {
        to.reasons.push(format!("CUDA {cuda} is not in the database"));
        return Compatible::Unknown;
    };
    if driver >= release.minimum_driver {
        let text = format!(
            "CUDA {} runs on driver {driver} by minor-version compatibility: the minimum is {}",
            cuda.series(),
            release.minimum_driver
        );
        to.reasons.push(text);
        return Compatible::Yes;
    }
    to.reasons.push(format!(
        "CUDA {} needs driver {} or newer, and this one is {driver}",
        cuda.series(),
        release.minimum_driver
    ));
    let Some(package) = &needs.compat_package else { return Compatible::No };
    forward(cuda, package, driver, host, database, to)
}

fn forward(
    cuda: CudaVersion,
    package: &str,
    driver: DriverVersion,
    host: &Host,
    database: &Database,
    to: &mut Checked,
) -> Compatible {
    if database.forward_compatibility(cuda, driver.branch).is_none() {
        to.reasons.push(format!("{package} in the image does not support driver branch {}", driver.branch));
        return Compatible::No;
    }
    if let Some(gpu) = host.gpus.iter().find(|gpu| !gpu.data_center) {
        to.reasons.push(format!("{package} in the image is for data-centre GPUs, and {} is none", gpu.name));
        return Compatible::No;
    }
    if host.gpus.is_empty() {
        to.reasons.push(format!(
            "{package} in the image supports driver branch {} on data-centre GPUs; name yours with --gpu",
            driver.branch
        ));
        return Compatible::Unknown;
    }
    to.reasons.push(format!("{package} in the image supports driver branch {}", driver.branch));
    Compatible::Forward
}

/// Whether the container toolkit finds the demands met, for each of the GPUs.
fn demanded(needs: &Needs, driver: DriverVersion, host: &Host, database: &Database, to: &mut Checked) -> Met {
    let native = database.branch(driver.branch).and_then(|branch| branch.max_cuda);
    let (cuda, driver) = (native.map(|native| native.series().to_string()), Some(driver.to_string()));
    let of_gpu = |gpu: &HostGpu| {
        let brands = brands(gpu.line.as_deref());
        let known = |brand| Known { cuda: cuda.clone(), driver: driver.clone(), arch: gpu.capability.clone(), brand };
        brands.into_iter().map(known).collect::<Vec<_>>()
    };
    let mut hosts: Vec<_> = host.gpus.iter().map(|gpu| (gpu.name.as_str(), of_gpu(gpu))).collect();
    if hosts.is_empty() {
        hosts.push(("the GPU", of_gpu(&HostGpu::default())));
    }
    let mut worst = Met::Yes;
    for (name, text) in &needs.demands {
        let alternatives = match requirement::read(text) {
            Ok(alternatives) => alternatives,
            Err(e) => {
                to.reasons.push(format!("{name}: {e}"));
                return Met::No;
            }
        };
        for (gpu, known) in &hosts {
            // Whatever brand the driver reports.
            let results: Vec<_> = known.iter().map(|known| requirement::met(&alternatives, known)).collect();
            let first = results.first().copied().unwrap_or(Met::Unknown);
            match if results.iter().all(|result| *result == first) { first } else { Met::Unknown } {
                Met::Yes => {}
                Met::No => {
                    to.reasons.push(format!(
                        "the container toolkit refuses the image on {gpu}: {name} demands {}",
                        shown(&alternatives)
                    ));
                    return Met::No;
                }
                Met::Unknown => {
                    to.reasons.push(format!(
                        "{name} demands {}, which depends on what is not known of {gpu}",
                        shown(&alternatives)
                    ));
                    worst = Met::Unknown;
                }
            }
        }
    }
    worst
}

/// The first alternatives: NVIDIA's images have up to a hundred.
fn shown(alternatives: &[Vec<Condition>]) -> String {
    let words = |conditions: &Vec<Condition>| conditions.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let first: Vec<_> = alternatives.iter().take(3).map(words).collect();
    let more = alternatives.len().saturating_sub(first.len());
    if more == 0 { first.join(" or ") } else { format!("{} or one of {more} more", first.join(", ")) }
}

/// The brands that NVML may report for a GPU of this line (`nvmlBrandType_t`): newer drivers call data-centre GPUs `nvidia`, older
/// ones `tesla`.
fn brands(line: Option<&str>) -> Vec<Option<&'static str>> {
    let all: &[&str] = match line {
        Some("Tesla/Data Center") => &["tesla", "nvidia"],
        Some("GeForce") => &["geforce", "geforcertx", "titan", "titanrtx"],
        Some("Quadro/RTX PRO") => &["quadro", "quadrortx", "nvidiartx", "nvidia"],
        Some("NVS") => &["nvs"],
        Some("GRID") => &["grid"],
        _ => return vec![None],
    };
    all.iter().copied().map(Some).collect()
}

/// The command that plans a driver for the image.
fn upgrade(needs: &Needs, driver: DriverVersion, database: &Database) -> Option<String> {
    let cuda = needs.cuda?;
    // Newest first.
    let runs =
        |branch: &&crate::compat::DriverBranch| branch.max_cuda.is_some_and(|native| cuda.series() <= native.series());
    let oldest = database.driver_branches.iter().filter(runs).map(|branch| branch.branch).min()?;
    let is_newer = oldest > driver.branch;
    Some(if is_newer {
        format!("gpusetup plan --profile driver --driver '>={oldest}'")
    } else {
        "gpusetup plan --profile driver --upgrade".to_owned()
    })
}
