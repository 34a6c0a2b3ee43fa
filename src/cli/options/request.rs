//! The flags of a request: versions, layers, methods and settings, as the user gave them, and the
//! request that they come to.

use super::super::Problem;
use super::super::settings::SettingsOptions;
use super::HostOptions;
use crate::causes;
use crate::compat::{AddOnId, Database, EngineId, ModuleFlavour};
use crate::database::age;
use crate::exit::Exit;
use crate::host::{MachineKind, bus_address};
use crate::resolve::{
    AdditionalToolkitRequest, CONTAINER_HOST, ContainerRequest, DriverFile, Method, Prefer,
    Request, Settings, ToolkitMethod,
};
use crate::text::{count, quoted};
use crate::version::{AddOnVersion, CudaVersion, DriverVersion, Want};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// What is requested.
#[derive(Debug, Args)]
#[command(next_help_heading = "Request")]
pub(crate) struct RequestOptions {
    /// Driver version: 580, 580.159.04, 580-open, ">=570", latest, none
    ///
    /// `latest` is the newest production branch that fits.
    #[arg(long, value_name = "REQ", env = "GPUSETUP_DRIVER")]
    pub(crate) driver: Option<String>,
    /// CUDA toolkit version: 12.8, 12.8.1, ">=12.4, <13", latest, none
    ///
    /// Of the versions that match and fit, gpusetup chooses an installed one (unless `latest`),
    /// then the newest that the driver branch runs natively, then the newest that runs through
    /// minor-version compatibility. May be given several times, for toolkits side by side: the
    /// first is the default, and each gets the add-ons that fit it.
    #[arg(long, value_name = "REQ", env = "GPUSETUP_CUDA")]
    pub(crate) cuda: Vec<String>,
    /// cuDNN version: 9, 9.10.2.21, latest, none
    #[arg(long, value_name = "REQ", env = "GPUSETUP_CUDNN")]
    pub(crate) cudnn: Option<String>,
    /// Add-on to install too: nccl, tensorrt==10.13, "cutensor>=2.2, <3"
    ///
    /// May be given several times. `gpusetup db list add-ons` lists them. `dcgm` and `gds` install
    /// DCGM and GPUDirect Storage from NVIDIA's repository, `peermem` loads nvidia-peermem:
    /// `gpusetup db list companions`.
    #[arg(long, value_name = "ADD-ON[==REQ]", env = "GPUSETUP_WITH")]
    pub(crate) with: Vec<String>,
    /// Choose versions for this framework: torch==2.9, "torch>=2.4,<2.6", jax
    ///
    /// May be given several times. `gpusetup db list frameworks` lists them.
    #[arg(
        long = "for",
        value_name = "FRAMEWORK",
        env = "GPUSETUP_FOR",
        value_delimiter = ','
    )]
    pub(crate) frameworks: Vec<String>,
    /// Install only these parts of the toolkit and their dependencies: nvcc,cudart,cublas
    ///
    /// They come from NVIDIA's component archives instead of the runfile: megabytes instead of
    /// gigabytes. `gpusetup db list components` lists them.
    #[arg(
        long,
        value_name = "LIST",
        env = "GPUSETUP_COMPONENTS",
        value_delimiter = ','
    )]
    pub(crate) components: Vec<String>,
    /// Layers to install: compute (driver, CUDA toolkit and cuDNN; the default, but frameworks that
    /// bring their own CUDA get the driver alone), driver, toolkit (with cuDNN; the default in a
    /// container, WSL2 and on a Jetson), container-host
    ///
    /// The driver of a container is its host's. `container-host` is the driver with NVIDIA
    /// Container Toolkit, which is set up for the container engines of the host: CUDA comes in the
    /// images.
    #[arg(long, value_enum, env = "GPUSETUP_PROFILE")]
    profile: Option<Profile>,
    /// Container engine to install if the host does not have it: docker, podman (with --profile
    /// container-host)
    ///
    /// It comes from the distribution's packages. Engines that are installed are set up without
    /// this option.
    #[arg(long, value_name = "ENGINE", env = "GPUSETUP_ENGINE")]
    pub(crate) engine: Option<EngineId>,
    /// User who may use Docker, which makes that user root in effect (with --profile
    /// container-host)
    ///
    /// The user joins the group docker, and leaves it with `gpusetup rollback` unless it was a
    /// member before.
    #[arg(long, value_name = "NAME", env = "GPUSETUP_DOCKER_USER", value_parser = user_name)]
    pub(crate) docker_user: Option<String>,
    /// Install the driver from packages or from NVIDIA's runfile
    #[arg(long, value_enum, env = "GPUSETUP_METHOD", default_value = "auto")]
    pub(crate) method: Method,
    /// Install the toolkit from NVIDIA's runfile, its component archives, or packages of its
    /// repository
    ///
    /// cuDNN and other add-ons come from their archives in each case. A toolkit that is installed
    /// already is kept.
    #[arg(
        long,
        value_enum,
        env = "GPUSETUP_TOOLKIT_METHOD",
        default_value = "auto"
    )]
    pub(crate) toolkit_method: ToolkitMethod,
    /// Install the driver from this runfile, which may be a vGPU guest driver (GRID)
    ///
    /// NVIDIA hands these out to its customers and to cloud providers only, so the database has
    /// none. The file keeps the name that it was given, such as
    /// NVIDIA-Linux-x86_64-570.211.01-grid.run. It is run only with the content that the plan was
    /// made for.
    #[arg(long, value_name = "FILE|URL", env = "GPUSETUP_DRIVER_FILE")]
    pub(crate) driver_file: Option<String>,
    /// The SHA-256 of the file at --driver-file, required for an address
    #[arg(long, value_name = "SUM", env = "GPUSETUP_DRIVER_FILE_SHA256", value_parser = sum, requires = "driver_file")]
    pub(crate) driver_file_sha256: Option<String>,
    /// Kernel module flavour
    #[arg(long, env = "GPUSETUP_MODULES", default_value = "auto", value_parser = flavours())]
    pub(crate) modules: std::option::Option<ModuleFlavour>,
    /// Prefer stable, latest or longest-supported versions
    #[arg(long, value_enum, env = "GPUSETUP_PREFER", default_value = "stable")]
    pub(crate) prefer: Prefer,
    /// Upgrade to the newest versions instead of keeping what is installed
    #[arg(long, env = "GPUSETUP_UPGRADE")]
    pub(crate) upgrade: bool,
    /// Install exactly the versions in this lock file (see `plan --lock`)
    ///
    /// Exit 4 if one of them is no longer available.
    #[arg(long, value_name = "FILE", env = "GPUSETUP_LOCKED",
          conflicts_with_all = ["driver", "cuda", "cudnn", "with", "frameworks", "method", "toolkit_method", "modules", "prefer",
                            "upgrade"])]
    pub(crate) locked: Option<PathBuf>,
    /// Ignore the GPU at this bus address
    #[arg(
        long,
        value_name = "BUS_ID",
        env = "GPUSETUP_LEAVE_OUT",
        value_delimiter = ','
    )]
    pub(crate) leave_out: Vec<String>,
    /// Addresses of all hosts of the NVLink domain, this one included, for IMEX (GB200, GB300)
    ///
    /// They are written to /etc/nvidia-imex/nodes_config.cfg, and IMEX is started. Name the same
    /// addresses on every host, in any order. May be given several times. Hosts of other kinds
    /// ignore them.
    #[arg(long, value_name = "ADDRESS", env = "GPUSETUP_IMEX_PEERS", value_delimiter = ',', value_parser = peer)]
    pub(crate) imex_peers: Vec<IpAddr>,
    /// Set LD_LIBRARY_PATH too
    ///
    /// It also affects programs that contain their own libraries, so it is off by default.
    #[arg(long, env = "GPUSETUP_LIBRARY_PATH")]
    pub(crate) library_path: bool,
    /// Do not add EPEL, which has DKMS for Enterprise Linux
    ///
    /// Where it is needed and not enabled, a plan adds it with its key, and takes nothing but what
    /// builds the driver's modules from there. For hosts that take packages from a mirror of their own.
    #[arg(long, env = "GPUSETUP_NO_EPEL")]
    pub(crate) no_epel: bool,
    /// Plan as on this day (YYYY-MM-DD), which decides which driver branches are supported
    #[cfg(feature = "test-hooks")]
    #[arg(long, value_name = "DAY", hide = true, value_parser = day)]
    pub(crate) today: Option<String>,
    /// Refuse a database older than this
    ///
    /// A plan warns of a database that is older than 60 days (GS607).
    #[arg(long, value_name = "DAYS", env = "GPUSETUP_MAX_DATABASE_AGE")]
    pub(crate) max_database_age: Option<u64>,
    /// What to do when no NVIDIA GPU is found
    #[arg(long, value_enum, env = "GPUSETUP_IF_NO_GPU", default_value = "fail")]
    pub(crate) if_no_gpu: IfNoGpu,
    #[command(flatten)]
    pub(crate) settings: SettingsOptions,
}

/// Layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// Driver, toolkit and cuDNN
    Compute,
    /// The driver only
    Driver,
    /// Toolkit and cuDNN only: containers, WSL2, image builds
    Toolkit,
    /// The driver, and NVIDIA Container Toolkit for the container engines
    ContainerHost,
}

/// A host without a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IfNoGpu {
    /// Exit 9
    Fail,
    /// Continue: there is nothing to plan or to print, and doctor exits by its findings
    Skip,
}

/// What was split at its commas, with the parts of a range put together again: `torch>=2.4` and
/// `<2.6`.
fn whole_ranges<'p>(parts: impl Iterator<Item = &'p str>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for part in parts.map(str::trim) {
        match all.last_mut() {
            Some(last) if part.starts_with(['<', '>', '=', '~', '!', '^']) => {
                *last += &format!(", {part}")
            }
            _ => all.push(part.to_owned()),
        }
    }
    all
}

impl RequestOptions {
    /// The day that is planned for.
    pub(crate) fn today(&self) -> String {
        #[cfg(feature = "test-hooks")]
        if let Some(today) = &self.today {
            return today.clone();
        }
        crate::system::today()
    }

    /// Refuses a database that is older than what is accepted.
    pub(crate) fn accepts(&self, database: &Database) -> Result<(), Problem> {
        let age = age(&database.version, &self.today());
        match self.max_database_age {
            Some(most) if age > most => {
                let version = &database.version;
                let sentence = format!(
                    "--max-database-age: the database {version} is {} old",
                    count(age, "day")
                );
                Err(Problem::new(Exit::Blocked, sentence).attempt("sudo gpusetup db update"))
            }
            _ => Ok(()),
        }
    }

    /// The driver and the flavour of its modules, which may be named together as Ubuntu's packages
    /// do: `580-open`.
    fn driver_and_modules(
        &self,
        layer: bool,
    ) -> Result<(Want<DriverVersion>, Option<ModuleFlavour>), Problem> {
        let modules = self.modules;
        let Some(text) = self.driver.as_deref() else {
            return Ok((want("driver", None, layer)?, modules));
        };
        let flavours = [ModuleFlavour::Open, ModuleFlavour::Proprietary];
        let named = flavours
            .into_iter()
            .find_map(|f| Some((f, text.trim_end().strip_suffix(&f.to_string())?)));
        let Some((flavour, version)) = named else {
            return Ok((want("driver", Some(text), layer)?, modules));
        };
        if let Some(other) = modules.filter(|modules| *modules != flavour) {
            return Err(Problem::usage(format!(
                "--driver {text} and --modules {other} contradict each other"
            ))
            .attempt(format!("gpusetup plan --driver {}", quoted(text))));
        }
        let version =
            Some(version.trim_end_matches(['-', ' '])).filter(|version| !version.is_empty());
        Ok((want("driver", version, true)?, Some(flavour)))
    }

    /// The default toolkit, and those beside it.
    fn toolkits(
        &self,
        layer: bool,
        gpus: &[String],
    ) -> Result<(Want<CudaVersion>, Vec<AdditionalToolkitRequest>), Problem> {
        // One text may have several, but a range is never put together from two of them.
        let texts: Vec<_> = self
            .cuda
            .iter()
            .flat_map(|text| whole_ranges(text.split(',')))
            .collect();
        let Some((first, others)) = texts.split_first() else {
            return Ok((want("cuda", None, layer)?, Vec::new()));
        };
        let additional = others.iter().map(|text| {
            Ok(AdditionalToolkitRequest {
                cuda: want("cuda", Some(text), true)?,
                locked: None,
            })
        });
        let additional: Vec<_> = additional.collect::<Result<_, Problem>>()?;
        let first = want("cuda", Some(first), true)?;
        let leaves_out =
            !first.is_wanted() || additional.iter().any(|other| !other.cuda.is_wanted());
        if leaves_out && !additional.is_empty() {
            let named = texts
                .iter()
                .find(|text| *text != "none")
                .map_or("none", |text| text);
            return Err(Problem::usage(
                "--cuda: `none` leaves the toolkit out, but another --cuda names one",
            )
            .attempt(format!(
                "gpusetup plan{} --cuda {}",
                causes::gpus::options(gpus),
                quoted(named)
            )));
        }
        Ok((first, additional))
    }

    /// The driver's runfile that is named.
    fn given_driver(&self, driver_is_wanted: bool) -> Result<Option<DriverFile>, Problem> {
        let Some(file) = self.driver_file.as_deref() else {
            return Ok(None);
        };
        if !driver_is_wanted {
            return Err(Problem::usage(
                "--driver-file names a driver, but the request leaves the driver out",
            ));
        }
        super::super::driver_file::read(file, self.driver_file_sha256.as_deref()).map(Some)
    }

    /// The layers that are installed on such a machine.
    fn profile_on(&self, machine: MachineKind) -> Profile {
        let of_machine = if left_out(machine).is_some() {
            Profile::Toolkit
        } else {
            Profile::Compute
        };
        self.profile.unwrap_or(of_machine)
    }

    /// Whether the profile that was named has a toolkit.
    fn names_toolkit(&self) -> bool {
        matches!(self.profile, Some(Profile::Compute | Profile::Toolkit))
    }

    /// What to say about layers that nobody named and that are left out here.
    pub(crate) fn left_out_layers(&self, machine: MachineKind) -> Option<&'static str> {
        left_out(machine).filter(|_| self.profile.is_none() && self.driver.is_none())
    }

    /// What is set up for containers on a host with these GPUs, if they were assumed.
    fn containers(
        &self,
        machine: MachineKind,
        gpus: &[String],
    ) -> Result<Option<ContainerRequest>, Problem> {
        if self.profile_on(machine) == Profile::ContainerHost {
            let (engine, docker_user) = (self.engine, self.docker_user.clone());
            return Ok(Some(ContainerRequest {
                engine,
                docker_user,
                ..ContainerRequest::default()
            }));
        }
        let engine = self.engine.map(|engine| ("--engine", engine.to_string()));
        let user = self.docker_user.clone().map(|user| ("--docker-user", user));
        let Some((option, _)) = engine.clone().or(user.clone()) else {
            return Ok(None);
        };
        let options = engine.into_iter().chain(user);
        let options: String = options
            .map(|(option, value)| format!(" {option} {}", quoted(&value)))
            .collect();
        let again = format!(
            "gpusetup plan --profile {CONTAINER_HOST}{options}{}",
            causes::gpus::options(gpus)
        );
        Err(Problem::usage(format!("{option} is for --profile {CONTAINER_HOST}")).attempt(again))
    }

    /// What was asked for on this host.
    ///
    /// # Errors
    ///
    /// As for [`Self::request`].
    pub(crate) fn request_on(
        &self,
        host: &HostOptions,
        assumed_gpus: Vec<String>,
        machine: MachineKind,
    ) -> Result<Request, Problem> {
        self.request(
            &host.prefix,
            &host.cache,
            assumed_gpus,
            machine,
            host.root.as_deref(),
        )
    }

    /// What was asked for, read once and never guessed at again. Files that the host reads later
    /// are those of the tree at `root`, if there is one.
    pub(crate) fn request(
        &self,
        prefix: &Path,
        cache: &Path,
        assumed_gpus: Vec<String>,
        machine: MachineKind,
        root: Option<&Path>,
    ) -> Result<Request, Problem> {
        let (with_driver, with_toolkit) = match self.profile_on(machine) {
            Profile::Compute => (true, true),
            Profile::Driver | Profile::ContainerHost => (true, false),
            Profile::Toolkit => (false, true),
        };
        let (driver, modules) = self.driver_and_modules(with_driver)?;
        let driver_is_wanted = driver.is_wanted();
        let (cuda, additional) = self.toolkits(with_toolkit, &assumed_gpus)?;
        let has_toolkit = with_toolkit && (cuda.is_wanted() || self.cuda.is_empty());
        let containers = self.containers(machine, &assumed_gpus)?;
        Ok(Request {
            driver,
            cudnn: want("cudnn", self.cudnn.as_deref(), has_toolkit)?,
            cuda,
            additional_toolkits: additional,
            add_ons: add_ons(&self.with)?,
            companions: BTreeSet::new(),
            frameworks: whole_ranges(self.frameworks.iter().map(String::as_str)),
            brought_cuda: None,
            with_toolkit: self.names_toolkit(),
            components: self.components.clone(),
            method: self.method,
            toolkit_method: self.toolkit_method,
            driver_file: self.given_driver(driver_is_wanted)?,
            modules,
            prefer: self.prefer,
            upgrade: self.upgrade,
            prefix: prefix.to_owned(),
            cache: cache.to_owned(),
            assumed_gpus,
            leave_out: self
                .leave_out
                .iter()
                .map(|at| bus_address(at).unwrap_or_else(|| at.clone()))
                .collect(),
            imex_peers: BTreeSet::from_iter(self.imex_peers.iter().copied())
                .into_iter()
                .collect(),
            library_path: self.library_path,
            no_epel: self.no_epel,
            settings: Settings {
                containers,
                ..self.settings.settings(root)?
            },
            today: self.today(),
        })
    }
}

/// Why plans leave the driver out on such a machine, unless it is named.
fn left_out(machine: MachineKind) -> Option<&'static str> {
    match machine {
        MachineKind::Container => Some(
            "This is a container, and its driver is its host's: the plan has no driver (--profile compute plans one, too).",
        ),
        MachineKind::Wsl2 => {
            Some("This is WSL2, and its driver is that of Windows: the plan has no driver.")
        }
        MachineKind::Jetson => {
            Some("This is a Jetson, and its driver is part of JetPack: the plan has no driver.")
        }
        MachineKind::Physical | MachineKind::Virtual => None,
    }
}

/// The add-ons that `--with` names: `nccl`, `tensorrt==10.13`, `cutensor>=2.2, <3`; commas separate
/// several.
fn add_ons(texts: &[String]) -> Result<BTreeMap<AddOnId, Want<AddOnVersion>>, Problem> {
    let refused = |e: &dyn std::fmt::Display| {
        Problem::usage(format!("--with: {e}")).attempt("gpusetup db list add-ons")
    };
    let mut asked: Vec<String> = Vec::new();
    // `nccl,` and an empty GPUSETUP_WITH name nothing more.
    for piece in texts
        .iter()
        .flat_map(|text| text.split(','))
        .filter(|piece| !piece.trim().is_empty())
    {
        match asked.last_mut() {
            // The other half of a range.
            Some(last) if piece.trim_start().starts_with(['<', '>', '=']) => {
                *last += &format!(",{piece}")
            }
            _ => asked.push(piece.to_owned()),
        }
    }
    let mut all = BTreeMap::new();
    for text in &asked {
        let (name, wanted) = text.split_at(text.find(['=', '<', '>']).unwrap_or(text.len()));
        // Names of packages have dashes: `fabric-manager`.
        let letters = name.trim().to_lowercase().replace(['-', '_'], "");
        let id: AddOnId = letters
            .parse()
            .map_err(|_| refused(&format!("no add-on is called `{}`", name.trim())))?;
        let version = wanted
            .strip_prefix("==")
            .or_else(|| wanted.strip_prefix('='))
            .unwrap_or(wanted)
            .trim();
        let want = match version {
            "" if wanted.is_empty() => Want::Best,
            "" => return Err(refused(&format!("{id}{wanted} has no version"))),
            version => version.parse().map_err(|e| refused(&e))?,
        };
        if id == AddOnId::CUDNN {
            let version = if version.is_empty() {
                "latest"
            } else {
                version
            };
            return Err(Problem::usage("--with: cuDNN has a separate option")
                .attempt(format!("--cudnn {}", quoted(version))));
        }
        if all.insert(id, want).is_some() {
            return Err(refused(&format!("{id} is named twice")));
        }
    }
    Ok(all)
}

/// A SHA-256 in hexadecimal.
pub(crate) fn sum(text: &str) -> Result<String, String> {
    let hexadecimal = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if hexadecimal {
        Ok(text.to_lowercase())
    } else {
        Err("64 hexadecimal digits are expected".to_owned())
    }
}

/// The flavour of kernel modules; none for `auto`.
fn flavours() -> impl TypedValueParser<Value = Option<ModuleFlavour>> {
    let values = [
        PossibleValue::new("auto").help("Chosen by the GPUs"),
        PossibleValue::new("open").help("Dual MIT/GPL"),
        PossibleValue::new("proprietary").help("NVIDIA's proprietary modules"),
    ];
    PossibleValuesParser::new(values).map(|value| match value.as_str() {
        "open" => Some(ModuleFlavour::Open),
        "proprietary" => Some(ModuleFlavour::Proprietary),
        _ => None,
    })
}

/// The address of one host.
fn peer(text: &str) -> Result<IpAddr, String> {
    let address: IpAddr = text
        .trim()
        .parse()
        .map_err(|_| "an IP address is expected, such as 10.0.0.1".to_owned())?;
    if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
        return Err("an address is expected by which other hosts reach this one".to_owned());
    }
    Ok(address)
}

/// The name of a user, as useradd takes it.
fn user_name(text: &str) -> Result<String, String> {
    if text.len() <= 32
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && text
            .chars()
            .all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_' | '-' | '.'))
    {
        return Ok(text.to_owned());
    }
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit()) {
        return Err(
            "the name of a user is expected, not its number: getent passwd shows both".to_owned(),
        );
    }
    Err("a name of a user begins with a lower-case letter or an underscore; digits, dashes and dots may follow"
        .to_owned())
}

/// A day, as `2026-11-20`.
pub(crate) fn day(text: &str) -> Result<String, String> {
    let day: Result<jiff::civil::Date, _> = text.parse();
    day.map(|d| d.to_string())
        .map_err(|_| "a day is written 2026-11-20".to_owned())
}

fn want<V>(flag: &str, text: Option<&str>, layer: bool) -> Result<Want<V>, Problem>
where
    Want<V>: std::str::FromStr<Err = crate::version::VersionError>,
{
    match text {
        Some(text) => text.parse().map_err(|e| {
            let known = if flag == "driver" { "drivers" } else { flag };
            Problem::usage(format!("--{flag}: {e}")).attempt(format!("gpusetup db list {known}"))
        }),
        None if layer => Ok(Want::Best),
        None => Ok(Want::Nothing),
    }
}
