//! Whether a host runs an image.

use super::host::{Context, Host};
use super::image::Image;
use super::judgement::{ImageAnswer, Judgement};
use super::needs::{Cuda, Needs};
use super::on_driver::on_driver;
use gpusetup_database::compat::Database;
use gpusetup_text::text::quoted;
use serde::Serialize;
use std::collections::BTreeMap;

/// The result for the images that were named, on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Checked {
    /// `gpusetup.container-check/1`.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = "gpusetup.container-check/1")))]
    pub(crate) schema: &'static str,
    /// The worst answer of all images.
    pub answer: ImageAnswer,
    /// The driver of the host, or the branch that was named. Null if it has none.
    pub driver: Option<String>,
    /// Each image: an archive may have several.
    pub images: Vec<CheckedImage>,
}

/// The result for an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct CheckedImage {
    /// The image: its name in the archive, its ID if it is one of several and has none, or as it
    /// was named.
    pub image: String,
    /// Where its description was read: a file, or the engine.
    pub(crate) from: String,
    /// Whether the host runs it.
    pub answer: ImageAnswer,
    /// The CUDA in the image. Null if nothing says which one it has, if any.
    pub cuda: Option<String>,
    /// What the image demands, by the names of its variables.
    pub(crate) requirements: BTreeMap<String, String>,
    /// The parts of the driver that it asks for.
    pub capabilities: Option<String>,
    /// The facts that decide, in sentences.
    pub reasons: Vec<String>,
    /// Commands that would make it run.
    pub commands: Vec<String>,
}

/// Whether a host runs images, and why. `name` is what the caller named: an image, or a file with
/// several.
pub fn check(name: &str, images: &[Image], host: &Host, database: &Database) -> Checked {
    // One of several without a name goes by its ID.
    let images: Vec<_> = images
        .iter()
        .map(|image| {
            let id = image.id.as_deref().filter(|_| images.len() > 1);
            checked(id.unwrap_or(name), image, Context { host, database })
        })
        .collect();
    Checked {
        schema: "gpusetup.container-check/1",
        answer: images
            .iter()
            .map(|image| image.answer)
            .max()
            .unwrap_or(ImageAnswer::Unknown),
        driver: host.driver.as_ref().map(|driver| driver.name.clone()),
        images,
    }
}

fn checked(name: &str, image: &Image, context: Context<'_>) -> CheckedImage {
    let needs = Needs::of(image, context.database);
    let name = image.names.first().map_or(name, String::as_str);
    let judgement = judged(name, image, &needs, context);
    // Those by which an image refuses drivers and GPUs.
    let shown = image.variables.iter().filter(|(name, _)| {
        name.starts_with("NVIDIA_REQUIRE_") || *name == "NVIDIA_DISABLE_REQUIRE"
    });
    CheckedImage {
        image: name.to_owned(),
        from: image.from.clone(),
        answer: judgement.answer,
        cuda: needs.cuda.as_ref().map(|cuda| cuda.text.clone()),
        requirements: shown.map(|(n, v)| (n.clone(), v.clone())).collect(),
        capabilities: image.variables.get("NVIDIA_DRIVER_CAPABILITIES").cloned(),
        reasons: judgement.reasons,
        commands: judgement.commands,
    }
}

fn judged(name: &str, image: &Image, needs: &Needs, context: Context<'_>) -> Judgement {
    let host = context.host;
    if let Some(judgement) = other_processors(name, image, host) {
        return judgement;
    }
    if let Some(jetpack) = image.variables.get("NVIDIA_REQUIRE_JETPACK") {
        return Judgement::unknown(format!(
            "the image is for a Jetson with a certain JetPack: {jetpack}"
        ));
    }
    if let Some(Cuda { text, file, .. }) =
        needs.cuda.as_ref().filter(|cuda| cuda.versions.is_empty())
    {
        let configured = needs
            .configured
            .as_ref()
            .map(|other| {
                format!(
                    ", and its configuration says that it has CUDA {}",
                    quoted(other)
                )
            })
            .unwrap_or_default();
        return Judgement::unknown(match file {
            Some(file) => format!(
                "{file} is of CUDA {}, which gpusetup does not know{configured}",
                quoted(text)
            ),
            None => format!(
                "its configuration says that it has CUDA {}, which is no version",
                quoted(text)
            ),
        });
    }
    let own_driver = own_driver(image, host);
    if needs.cuda.is_none() && needs.demands.is_empty() {
        return own_driver.map_or_else(|| without_cuda(name, image), Judgement::unknown);
    }
    let Some(driver) = &host.driver else {
        return without_driver(needs, context);
    };
    let mut judgement = on_driver(needs, driver, context);
    if let Some(reason) = own_driver {
        judgement.answer = judgement.answer.max(ImageAnswer::Unknown);
        judgement.reasons.push(reason);
    }
    if host.starters.lacks_toolkit {
        let reason = "NVIDIA Container Toolkit is not installed on this host: its containers get no GPUs yet";
        judgement.reasons.push(reason.to_owned());
        let command = host
            .driver_from
            .is_none()
            .then(|| "gpusetup plan --profile container-host".to_owned());
        judgement.commands.extend(command);
    }
    if let Some(Cuda {
        text,
        file: Some(file),
        ..
    }) = &needs.cuda
    {
        judgement
            .reasons
            .insert(0, format!("the image has CUDA {text}: {file}"));
    }
    judgement
}

/// What is said of another driver in the image than the host's, in a folder of the system's
/// libraries. The container toolkit fails if a file that it mounts is a symbolic link there
/// (libnvidia-container, `file_create` in src/utils.c). If it does not, `ldconfig` chooses between
/// the two drivers.
fn own_driver(image: &Image, host: &Host) -> Option<String> {
    let (version, file) = image.contents.as_ref()?.system_driver.as_ref()?;
    let is_hosts = host
        .driver
        .as_ref()
        .is_some_and(|driver| driver.releases == [*version]);
    let reason = format!(
        "the image has a library of driver {version}, {file}: the container may not start, or use it instead of the host's. \
         Build the image without the driver's packages"
    );
    (!is_hosts).then_some(reason)
}

fn without_driver(needs: &Needs, context: Context<'_>) -> Judgement {
    if context.host.hides_driver {
        return Judgement::unknown(
            "a root filesystem of WSL2 does not show the driver, which Windows mounts at every start: name it with --driver, \
             as nvidia-smi shows it in Windows",
        );
    }
    let mut judgement = Judgement::new(
        ImageAnswer::DoesNotRun,
        "this host has no NVIDIA driver, which containers use",
    );
    let mut cuda = needs.versions().last().copied();
    let met = cuda.map(|cuda| context.targeted(cuda, &mut judgement.reasons));
    if met == Some(ImageAnswer::DoesNotRun) {
        let Some(choice) = needs.choices.iter().find(|choice| {
            choice
                .versions
                .iter()
                .any(|cuda| context.targeted(*cuda, &mut Vec::new()) != ImageAnswer::DoesNotRun)
        }) else {
            judgement.add_gpu_help(context);
            return judgement;
        };
        judgement.reasons.push(choice.said());
        cuda = choice.versions.last().copied();
    }
    judgement.add_driver_help(cuda, None, context);
    judgement
}

/// The judgement if it is for another operating system or other processors than the host's.
fn other_processors(name: &str, image: &Image, host: &Host) -> Option<Judgement> {
    if let Some(system) = image.system.as_ref().filter(|system| *system != "linux") {
        return Some(Judgement::new(
            ImageAnswer::DoesNotRun,
            format!("the image is for {system}, not for Linux"),
        ));
    }
    let of_image = image.architecture.as_ref()?;
    let says = format!("the image is for {of_image} processors, and");
    let Some(of_host) = &host.architecture else {
        return (of_image != "amd64")
            .then(|| Judgement::unknown(format!("{says} those of this host are not known")));
    };
    let judgement = Judgement::new(
        ImageAnswer::DoesNotRun,
        format!("{says} this host has {of_host}"),
    );
    let pull = format!("docker pull --platform linux/{of_host} {}", quoted(name));
    let is_file = image.names.is_empty() && image.contents.is_some();
    (of_image != of_host).then(|| {
        if is_file {
            judgement
        } else {
            judgement.command(pull)
        }
    })
}

fn without_cuda(name: &str, image: &Image) -> Judgement {
    if let Some(file) = image
        .contents
        .as_ref()
        .and_then(|contents| contents.unversioned.as_ref())
    {
        let reason = format!(
            "{file} is a library for CUDA, and nothing in the image says for which version"
        );
        return Judgement::unknown(reason);
    }
    if image.contents.is_some() {
        let reason = "neither its configuration nor the name of a file says that it has CUDA: any driver will do, unless a \
                      program has CUDA linked into it";
        return Judgement::new(ImageAnswer::NeedsNoCuda, reason);
    }
    let reason = format!(
        "its configuration says nothing of CUDA, and {} does not show its files: check an archive",
        image.from
    );
    Judgement::unknown(reason)
        .command(format!("{} save -o image.tar {}", image.from, quoted(name)))
        .command("gpusetup container check image.tar".to_owned())
}
