//! `gpusetup container check`: an image in, whether this host runs it out.

use super::super::host::{no_such_gpu, system_of};
use super::super::options::{ColorOption, DatabaseOptions, JsonOption};
use super::super::{Problem, print_json, print_text, width};
use crate::compat::Database;
use crate::container::{self, Host, HostGpu, Image, ImageAnswer, ImageError};
use crate::exit::Exit;
use crate::host::{Facts, Gpu, Look, assumed_gpus, probe};
use crate::render::container as rendered;
use crate::resolve::known_card;
use crate::system::System;
use crate::text::quoted;
use crate::version::DriverVersion;
use std::path::{Path, PathBuf};

/// Flags of `container check`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// An archive of `docker save` or `podman save`, an OCI layout, or the name of an image that an engine here has
    #[arg(value_name = "IMAGE")]
    image: String,
    /// Check against this driver instead of the installed one: 550.54.15, or a branch such as 535
    #[arg(long, value_name = "VERSION", help_heading = "Host")]
    driver: Option<String>,
    /// Check against these GPUs instead of this host's: a100, "rtx 3090", 10de:20b2
    ///
    /// May be given several times, or as a list with commas.
    #[arg(long, value_name = "SPEC", env = "GPUSETUP_GPU", value_delimiter = ',', help_heading = "Host")]
    gpu: Vec<String>,
    /// Use the tree at DIR as the host: an image, a chroot, a mounted disk
    #[arg(long, value_name = "DIR", env = "GPUSETUP_ROOT", help_heading = "Host")]
    root: Option<PathBuf>,
    #[command(flatten)]
    database: DatabaseOptions,
    #[command(flatten)]
    form: JsonOption,
}

/// Does it.
pub fn run(options: &Options) -> Result<Exit, Problem> {
    let database = options.database.open()?;
    let system = system_of(options.root.as_ref());
    let host = host(options, &system, database)?;
    let image = image(options, &system, host.architecture.as_deref().unwrap_or("amd64"))?;
    let checked = container::check(&options.image, &image, &host, database);
    if options.form.json {
        print_json(&checked)?
    } else {
        print_text(rendered::checked(&checked, width()), ColorOption::Auto, false)?
    }
    Ok(if checked.answer == ImageAnswer::DoesNotRun { Exit::NothingFits } else { Exit::Done })
}

/// A path that exists is a file, everything else a name.
fn image(options: &Options, system: &System, architecture: &str) -> Result<Image, Problem> {
    let path = Path::new(&options.image);
    let is_path = crate::system::input::metadata(path).is_some() || options.image.starts_with(['/', '.']);
    if is_path {
        return container::in_file(path, architecture).map_err(|e| unread(e, options));
    }
    if options.image.is_empty() || options.image.starts_with('-') || options.image.contains(crate::text::is_hidden) {
        return Err(Problem::usage(format!("{:?} is neither a file nor the name of an image", options.image)));
    }
    container::in_engine(system, &options.image).map_err(|e| unread(e, options))
}

fn unread(e: ImageError, options: &Options) -> Problem {
    let says = e.to_string();
    match e {
        ImageError::Input(e) => e.into(),
        ImageError::Damaged { .. } => Problem::integrity(says),
        ImageError::Interrupted(signal) => Problem::new(Exit::Signal(signal), says),
        ImageError::Unknown(name) => Problem::usage(says)
            .hint("gpusetup pulls no images")
            .attempt(format!("docker pull {}", quoted(&name)))
            .attempt(format!("gpusetup container check {}", quoted(&options.image))),
        ImageError::Read { .. } | ImageError::NoImage { .. } => Problem::usage(says).hint(
            "it must be what docker save or podman save writes, or an OCI layout: docker save IMAGE -o image.tar",
        ),
    }
}

/// The host of the flags. This host is looked at only for what they do not name.
fn host(options: &Options, system: &System, database: &Database) -> Result<Host, Problem> {
    let driver = options.driver.as_deref().map(driver_version).transpose()?;
    let mut gpus = Vec::new();
    for spec in &options.gpu {
        gpus.extend(assumed_gpus(database, spec).map_err(|e| no_such_gpu(spec, &e))?);
    }
    if let (Some(driver), false) = (driver, gpus.is_empty()) {
        return Ok(Host { driver: Some(driver), gpus: known(database, &gpus), architecture: None });
    }
    let facts = probe(system, database, &Look::default()).map_err(|e| Problem::usage(e.to_string()))?;
    let installed = facts.driver.as_ref().map(|installed| installed.version);
    let of_host = if gpus.is_empty() { known(database, &facts.gpus) } else { known(database, &gpus) };
    Ok(Host { driver: driver.or(installed), gpus: of_host, architecture: architecture(&facts) })
}

/// A version, or a branch: its first release, because any of its releases may be installed.
fn driver_version(text: &str) -> Result<DriverVersion, Problem> {
    let branch = text.parse().ok().map(|branch| DriverVersion { branch, minor: 0, patch: None });
    branch.or_else(|| text.parse().ok()).ok_or_else(|| {
        Problem::usage(format!("--driver {text:?} is neither a driver version nor a branch"))
            .attempt("gpusetup db list drivers")
    })
}

fn known(database: &Database, gpus: &[Gpu]) -> Vec<HostGpu> {
    let one = |gpu: &Gpu| match known_card(database, gpu) {
        Ok(card) => HostGpu {
            name: card.name,
            capability: card.capability.map(|capability| capability.to_string()),
            line: card.line,
            data_center: card.data_center,
        },
        Err(_) => HostGpu { name: gpu.name.clone().unwrap_or_else(|| gpu.pci_id.clone()), ..HostGpu::default() },
    };
    gpus.iter().map(one).collect()
}

/// As images name it.
fn architecture(facts: &Facts) -> Option<String> {
    let name = match facts.machine.arch.as_str() {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    (!name.is_empty()).then(|| name.to_owned())
}
