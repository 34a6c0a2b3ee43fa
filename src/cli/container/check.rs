//! `gpusetup container check`: an image in, whether this host runs it out.

use super::super::host::{no_such_gpu, system_of};
use super::super::options::{ColorOption, DatabaseOptions, JsonOption};
use super::super::{Problem, print_json, print_text, width};
use crate::causes::gpus;
use crate::compat::{Database, PlatformDriver, TargetGpu};
use crate::container::{self, Host, HostDriver, Image, ImageAnswer, ImageError, Starters};
use crate::exit::Exit;
use crate::host::{
    Facts, Gpu, MachineKind, ProbeOptions, UNKNOWN_ARCHITECTURE, assumed_gpus, probe,
};
use crate::render::container as rendered;
use crate::resolve::{known_gpu, own_platform, vendor_driver_here};
use crate::system::System;
use crate::text::{public_address, quoted, quoted_path};
use crate::version::{DriverVersion, Requirement, Want};
use std::path::{Path, PathBuf};

/// Flags of `container check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// An archive of `docker save` or `podman save`, an OCI layout, or the name of an image that an
    /// engine here has
    #[arg(value_name = "IMAGE")]
    image: String,
    /// Check only this image of an archive with several: nvidia/cuda:12.4.1-base-ubuntu22.04
    /// [default: all]
    #[arg(long = "image", value_name = "NAME")]
    only: Option<String>,
    /// Check against this driver instead of the installed one: 550.54.15, or all releases of a
    /// branch such as 535
    #[arg(long, value_name = "VERSION", help_heading = "Host")]
    driver: Option<String>,
    /// Check against these GPUs instead of this host's: a100, "rtx 3090", 10de:20b2
    ///
    /// May be given several times, or as a list with commas.
    #[arg(
        long,
        value_name = "SPEC",
        env = "GPUSETUP_GPU",
        value_delimiter = ',',
        help_heading = "Host"
    )]
    gpu: Vec<String>,
    /// Use the tree at DIR as the host: an image, a chroot, a mounted disk
    #[arg(long, value_name = "DIR", env = "GPUSETUP_ROOT", help_heading = "Host")]
    root: Option<PathBuf>,
    #[command(flatten)]
    database: DatabaseOptions,
    #[command(flatten)]
    form: JsonOption,
}

impl Options {
    /// The same check, of all images.
    fn again(&self) -> String {
        format!(
            "gpusetup container check {}{}{}",
            quoted(&public_address(&self.image)),
            self.driver_flag(),
            self.host_flags()
        )
    }

    fn driver_flag(&self) -> String {
        self.driver
            .iter()
            .map(|driver| format!(" --driver {}", quoted(driver)))
            .collect()
    }

    /// The flags that name the host, for another command about it.
    fn host_flags(&self) -> String {
        let root: String = self
            .root
            .iter()
            .map(|root| format!(" --root {}", quoted_path(root)))
            .collect();
        root + &gpus::options(&self.gpu)
    }
}

pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    let database = options.database.open()?;
    let system = system_of(options.root.as_ref());
    let host = host(options, &system, database)?;
    let images = images(
        options,
        &system,
        host.architecture.as_deref().unwrap_or("amd64"),
    )?;
    let mut checked = container::check(&options.image, &images, &host, database);
    for command in checked
        .images
        .iter_mut()
        .flat_map(|image| &mut image.commands)
    {
        if command.starts_with("gpusetup container check ") {
            command.push_str(&options.driver_flag());
        }
        if command.starts_with("gpusetup ") {
            command.push_str(&options.host_flags());
        }
    }
    if options.form.json {
        print_json(&checked)?
    } else {
        print_text(
            rendered::checked(&checked, width()),
            ColorOption::Auto,
            false,
        )?
    }
    Ok(match checked.answer {
        ImageAnswer::Runs
        | ImageAnswer::RunsWithForwardCompatibility
        | ImageAnswer::NeedsNoCuda => Exit::Done,
        ImageAnswer::DoesNotRun => Exit::NothingFits,
        ImageAnswer::Unknown => Exit::Blocked,
    })
}

/// How files of images are named.
const ENDINGS: [&str; 6] = [".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.xz", ".tar.bz2"];

/// A path that exists, and what is named like one, is a file; everything else is a name.
fn images(options: &Options, system: &System, architecture: &str) -> Result<Vec<Image>, Problem> {
    let path = Path::new(&options.image);
    let is_named_like_one = options.image.starts_with(['/', '.'])
        || ENDINGS.iter().any(|end| options.image.ends_with(end));
    let is_path = is_named_like_one || crate::system::input::metadata(path).is_some();
    if is_path {
        return container::in_file(path, architecture, options.only.as_deref())
            .map_err(|e| unread(e, options));
    }
    if options.image.is_empty()
        || options.image.starts_with('-')
        || options.image.contains(crate::text::is_hidden)
    {
        return Err(Problem::usage(format!(
            "{:?} is neither a file nor the name of an image",
            public_address(&options.image)
        )));
    }
    if options.only.is_some() {
        return Err(Problem::usage(format!(
            "--image chooses in an archive, and {} is not a file",
            public_address(&options.image)
        )));
    }
    container::in_engine(system, &options.image)
        .map(|image| vec![image])
        .map_err(|e| unread(e, options))
}

fn unread(e: ImageError, options: &Options) -> Problem {
    let says = e.to_string();
    match e {
        ImageError::Input(e) => e.into(),
        ImageError::Damaged { .. } => Problem::integrity(says),
        ImageError::Interrupted(signal) => Problem::new(Exit::Signal(signal), says),
        ImageError::NoSuchImage(_) => Problem::usage(says).attempt(options.again()),
        ImageError::Unknown(name) => Problem::usage(says)
            .hint("gpusetup pulls no images")
            .attempt(format!("docker pull {}", quoted(&name)))
            .attempt(options.again()),
        ImageError::Read { .. } | ImageError::NoImage { .. } => Problem::usage(says).hint(
            "it must be what docker save or podman save writes, or an OCI layout: docker save IMAGE -o image.tar",
        ),
    }
}

/// This host, with what the flags replace. With a driver and GPUs that are named, it need not be a
/// host that can be read.
fn host(options: &Options, system: &System, database: &Database) -> Result<Host, Problem> {
    let driver = options
        .driver
        .as_deref()
        .map(|text| named_driver(text, database))
        .transpose()?;
    let mut gpus = Vec::new();
    for spec in &options.gpu {
        gpus.extend(assumed_gpus(database, spec).map_err(|e| no_such_gpu(spec, &e))?);
    }
    let is_named = driver.is_some() && !gpus.is_empty() && options.root.is_none();
    let facts = match probe(system, database, &ProbeOptions::default()) {
        Ok(facts) => facts,
        Err(_) if is_named => {
            return Ok(Host {
                driver,
                gpus: known(database, &gpus),
                ..Host::default()
            });
        }
        Err(e) => return Err(Problem::usage(e.to_string())),
    };
    let installed = facts.driver.as_ref().map(|installed| HostDriver {
        name: installed.version.to_string(),
        releases: vec![installed.version],
    });
    let platform =
        own_platform(database, &facts).filter(|platform| platform.driver != PlatformDriver::Vendor);
    let own_way = platform.map(|platform| vendor_driver_here(platform, database, &facts).text);
    let gpus = if gpus.is_empty() { &facts.gpus } else { &gpus };
    Ok(Host {
        driver: driver.or(installed),
        gpus: known(database, gpus),
        architecture: architecture(&facts, gpus, database),
        hides_driver: facts.machine.kind == MachineKind::Wsl2 && !system.is_live(),
        driver_from: own_way.or_else(|| container::driver_from(&facts)),
        starters: Starters::of(system, database),
    })
}

/// A version, or a branch: any of its releases may be installed.
fn named_driver(text: &str, database: &Database) -> Result<HostDriver, Problem> {
    let refused = |why: String| Problem::usage(why).attempt("gpusetup db list drivers");
    let wanted: Requirement<DriverVersion> = text.parse().map_err(|_| {
        refused(format!(
            "--driver {text:?} is neither a driver version nor a branch"
        ))
    })?;
    let name = wanted.to_string();
    if let Ok(version) = name.parse() {
        return Ok(HostDriver {
            name,
            releases: vec![version],
        });
    }
    let wanted = Want::Meeting(wanted);
    let known = database
        .drivers
        .iter()
        .map(|release| release.version)
        .filter(|version| wanted.accepts(*version));
    let releases: Vec<_> = known
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    if releases.is_empty() {
        let says = format!(
            "no release of driver branch {name} is known: name the whole version, such as {name}.10.01"
        );
        return Err(refused(says));
    }
    Ok(HostDriver { name, releases })
}

fn known(database: &Database, gpus: &[Gpu]) -> Vec<TargetGpu> {
    gpus.iter()
        .map(|gpu| {
            known_gpu(database, gpu).unwrap_or_else(|_| TargetGpu {
                name: gpu.name.clone().unwrap_or_else(|| gpu.pci_id.clone()),
                ..TargetGpu::default()
            })
        })
        .collect()
}

/// As images name it. A GPU that exists on one architecture only, such as that of GH200, shows it.
fn architecture(facts: &Facts, gpus: &[Gpu], database: &Database) -> Option<String> {
    let only = gpus
        .iter()
        .find_map(|gpu| known_gpu(database, gpu).ok()?.only_on);
    let name = match only.as_deref().unwrap_or(&facts.machine.arch) {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    (!name.is_empty() && name != UNKNOWN_ARCHITECTURE).then(|| name.to_owned())
}
