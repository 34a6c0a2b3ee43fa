//! The flags that several subcommands share, as the user gave them, and what they come to.

use super::Problem;
use super::files::{or_trust_owner, read_key};
use super::settings::SettingsOptions;
use crate::apply::RunConfig;
use crate::bundle::{Bundle, BundleError};
use crate::compat::{AddOnId, Database, ModuleFlavour};
use crate::database::folder::{self, FolderError};
use crate::database::store::Store;
use crate::database::{VERSION, age, shared};
use crate::exit::Exit;
use crate::fetch::{Sources, certificates};
use crate::host::{MachineKind, bus_address};
use crate::mirrors::Mirrors;
use crate::operation::valid::{self, Valid};
use crate::paths;
use crate::resolve::{DriverFile, Method, Prefer, Request, ToolkitMethod};
use crate::system::input::InputError;
use crate::system::trust::Trust;
use crate::text::{count, quoted, quoted_path};
use crate::translation;
use crate::version::{AddOnVersion, DriverVersion, Want};
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Which host, and which database.
#[derive(Debug, Args)]
#[command(next_help_heading = "Host")]
pub struct HostOptions {
    /// Use the tree at DIR as the host: an image, a chroot, a mounted disk
    #[arg(long, value_name = "DIR", env = "GPUSETUP_ROOT")]
    pub root: Option<PathBuf>,
    /// Plan for this GPU: h100x8, "rtx 3090", p4d.24xlarge, "dgx h100", 10de:20b2, sm_80, hopper
    ///
    /// The GPU need not be there. With --facts, --lspci or --root it replaces the GPUs found there; on this host it is added to them.
    /// May be given several times, or as a list with commas.
    #[arg(long, value_name = "SPEC", env = "GPUSETUP_GPU", value_delimiter = ',')]
    pub gpu: Vec<String>,
    /// Read the GPUs from the output of `lspci -nn` (- is standard input)
    #[arg(long, value_name = "FILE", env = "GPUSETUP_LSPCI")]
    pub lspci: Option<PathBuf>,
    #[command(flatten)]
    pub database: DatabaseOptions,
    /// Install toolkits below DIR
    #[arg(long, value_name = "DIR", env = "GPUSETUP_PREFIX", default_value = paths::PREFIX,
          value_parser = folder(valid::prefix))]
    pub prefix: PathBuf,
    /// Keep downloads in DIR
    #[arg(long, value_name = "DIR", env = "GPUSETUP_CACHE", default_value = paths::CACHE,
          value_parser = folder(valid::cache))]
    pub cache: PathBuf,
}

/// A host that is not here.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Host")]
pub struct StockOptions {
    /// Plan for a new installation of this system, not for this host: ubuntu-24.04, rocky-9:aarch64
    ///
    /// The database provides its kernel, C library and repositories. Name the GPUs with --gpu or --lspci.
    #[arg(long, value_name = "ID-VERSION[:ARCH]", env = "GPUSETUP_OS")]
    pub os: Option<String>,
}

/// Accepts folders that are valid for their use.
pub fn folder(is_valid: fn(&Path) -> Valid) -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(move |path| is_valid(&path).map(|()| path))
}

/// Which compatibility database.
#[derive(Debug, Args)]
pub struct DatabaseOptions {
    /// Use the database in DIR (with compat/ and manifests/) instead of the built-in or updated one
    #[arg(id = "database", long = "database", value_name = "DIR", env = "GPUSETUP_DATABASE")]
    pub folder: Option<PathBuf>,
    /// Keep databases that `db update` installs in DIR
    #[cfg(feature = "test-hooks")]
    #[arg(long = "database-store", value_name = "DIR", env = "GPUSETUP_DATABASE_STORE", hide = true,
          default_value = paths::DATABASE)]
    store: PathBuf,
}

/// What is requested.
#[derive(Debug, Args)]
#[command(next_help_heading = "Request")]
pub struct RequestOptions {
    /// Driver version: 580, 580.159.04, 580-open, ">=570", latest, none
    ///
    /// `latest` is the newest production branch that fits.
    #[arg(long, value_name = "REQ", env = "GPUSETUP_DRIVER")]
    pub driver: Option<String>,
    /// CUDA toolkit version: 12.8, 12.8.1, ">=12.4, <13", latest, none
    ///
    /// Of the versions that match and fit, gpusetup chooses an installed one (unless `latest`), then the newest that the driver branch
    /// runs natively, then the newest that runs through minor-version compatibility.
    #[arg(long, value_name = "REQ", env = "GPUSETUP_CUDA")]
    pub cuda: Option<String>,
    /// cuDNN version: 9, 9.10.2.21, latest, none
    #[arg(long, value_name = "REQ", env = "GPUSETUP_CUDNN")]
    pub cudnn: Option<String>,
    /// Add-on to install too: nccl, tensorrt==10.13, "cutensor>=2.2, <3"
    ///
    /// May be given several times. `gpusetup db list add-ons` lists them. `dcgm` and `gds` install DCGM and GPUDirect Storage from NVIDIA's
    /// repository, `peermem` loads nvidia-peermem: `gpusetup db list companions`.
    #[arg(long, value_name = "ADD-ON[==REQ]", env = "GPUSETUP_WITH")]
    pub with: Vec<String>,
    /// Choose versions for this framework: torch==2.9, "torch>=2.4,<2.6", jax
    ///
    /// May be given several times. `gpusetup db list frameworks` lists them.
    #[arg(long = "for", value_name = "FRAMEWORK", env = "GPUSETUP_FOR", value_delimiter = ',')]
    pub frameworks: Vec<String>,
    /// Install only these parts of the toolkit and their dependencies: nvcc,cudart,cublas
    ///
    /// They come from NVIDIA's component archives instead of the runfile: megabytes instead of gigabytes. `gpusetup db list components`
    /// lists them.
    #[arg(long, value_name = "LIST", env = "GPUSETUP_COMPONENTS", value_delimiter = ',')]
    pub components: Vec<String>,
    /// Layers to install: compute (all; the default), driver, toolkit (with cuDNN; the default in a container)
    ///
    /// The driver of a container is its host's.
    #[arg(long, value_enum, env = "GPUSETUP_PROFILE")]
    pub profile: Option<Profile>,
    /// Install the driver from packages or from NVIDIA's runfile
    #[arg(long, value_enum, env = "GPUSETUP_METHOD", default_value = "auto")]
    pub method: MethodOption,
    /// Install the toolkit from NVIDIA's runfile, its component archives, or packages of its repository
    ///
    /// cuDNN and other add-ons come from their archives in each case. A toolkit that is installed already is kept.
    #[arg(long, value_enum, env = "GPUSETUP_TOOLKIT_METHOD", default_value = "auto")]
    pub toolkit_method: ToolkitMethodOption,
    /// Install the driver from this runfile, which may be a vGPU guest driver (GRID)
    ///
    /// NVIDIA hands these out to its customers and to cloud providers only, so the database has none. The file keeps the name that it
    /// was given, such as NVIDIA-Linux-x86_64-570.211.01-grid.run. It is run only with the content that the plan was made for.
    #[arg(long, value_name = "FILE|URL", env = "GPUSETUP_DRIVER_FILE")]
    pub driver_file: Option<String>,
    /// The SHA-256 of the file at --driver-file, required for an address
    #[arg(long, value_name = "SUM", env = "GPUSETUP_DRIVER_FILE_SHA256", value_parser = sum, requires = "driver_file")]
    pub driver_file_sha256: Option<String>,
    /// Kernel module flavour
    #[arg(long, value_enum, env = "GPUSETUP_MODULES", default_value = "auto")]
    pub modules: ModulesOption,
    /// Prefer stable, latest or longest-supported versions
    #[arg(long, value_enum, env = "GPUSETUP_PREFER", default_value = "stable")]
    pub prefer: PreferOption,
    /// Upgrade to the newest versions instead of keeping what is installed
    #[arg(long, env = "GPUSETUP_UPGRADE")]
    pub upgrade: bool,
    /// Install exactly the versions in this lock file (see `plan --lock`)
    ///
    /// Exit 4 if one of them is no longer available.
    #[arg(long, value_name = "FILE", env = "GPUSETUP_LOCKED",
          conflicts_with_all = ["driver", "cuda", "cudnn", "with", "frameworks", "method", "toolkit_method", "modules", "prefer",
                            "upgrade"])]
    pub locked: Option<PathBuf>,
    /// Ignore the GPU at this bus address
    #[arg(long, value_name = "BUS_ID", env = "GPUSETUP_LEAVE_OUT", value_delimiter = ',')]
    pub leave_out: Vec<String>,
    /// Addresses of all hosts of the NVLink domain, this one included, for IMEX (GB200, GB300)
    ///
    /// They are written to /etc/nvidia-imex/nodes_config.cfg, and IMEX is started. Name the same addresses on every host, in any order.
    /// May be given several times. Hosts of other kinds ignore them.
    #[arg(long, value_name = "ADDRESS", env = "GPUSETUP_IMEX_PEERS", value_delimiter = ',', value_parser = peer)]
    pub imex_peers: Vec<IpAddr>,
    /// Set LD_LIBRARY_PATH too
    ///
    /// It also affects programs that contain their own libraries, so it is off by default.
    #[arg(long, env = "GPUSETUP_LIBRARY_PATH")]
    pub library_path: bool,
    /// Plan as on this day (YYYY-MM-DD), which decides which driver branches are supported
    #[cfg(feature = "test-hooks")]
    #[arg(long, value_name = "DAY", env = "GPUSETUP_TODAY", hide = true, value_parser = day)]
    pub today: Option<String>,
    /// Refuse a database older than this
    ///
    /// A plan warns of a database that is older than 60 days (GS607).
    #[arg(long, value_name = "DAYS", env = "GPUSETUP_MAX_DATABASE_AGE")]
    pub max_database_age: Option<u64>,
    /// What to do when no NVIDIA GPU is found
    #[arg(long, value_enum, env = "GPUSETUP_IF_NO_GPU", default_value = "fail")]
    pub if_no_gpu: IfNoGpu,
    #[command(flatten)]
    pub settings: SettingsOptions,
}

/// How something is carried out.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
pub struct RunOptions {
    /// Do not ask for confirmation
    #[arg(short, long, env = "GPUSETUP_YES")]
    pub yes: bool,
    /// Never prompt; print log lines instead of progress bars
    #[arg(long, env = "GPUSETUP_UNATTENDED")]
    pub unattended: bool,
    /// Accept NVIDIA's licences (required with --unattended)
    #[arg(long, env = "GPUSETUP_ACCEPT_EULA")]
    pub accept_eula: bool,
    /// Who reboots the host when required: you, gpusetup, or external tooling
    ///
    /// After `if-needed` and `external` gpusetup resumes automatically. External tooling finds out from /run/reboot-required or
    /// `gpusetup reboot-required`.
    #[arg(long, value_enum, env = "GPUSETUP_REBOOT", default_value = "never")]
    pub reboot: RebootOption,
    /// Seconds to wait for the package-manager lock [default: 900]
    ///
    /// The same limit applies to another running gpusetup (with --unattended; otherwise gpusetup does not wait for it) and, with
    /// --unattended, to the network.
    #[arg(long, value_name = "SECONDS", env = "GPUSETUP_LOCK_TIMEOUT")]
    pub lock_timeout: Option<u64>,
    /// Print lines instead of progress bars
    #[arg(long, env = "GPUSETUP_NO_PROGRESS")]
    pub no_progress: bool,
}

/// Where artifacts come from. What may have a password in it is shown by no help.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Downloads")]
pub struct SourceOptions {
    /// Download from this mirror of NVIDIA's servers: http://mirror.example/nvidia, file:///mnt/nvidia
    #[arg(long, value_name = "URL", env = "GPUSETUP_MIRROR", hide_env_values = true, hide_default_value = true)]
    pub mirror: Option<String>,
    /// Replace one address prefix by another: https://developer.download.nvidia.com/compute=http://mirror.example
    ///
    /// May be given several times; the longest prefix wins.
    #[arg(
        long,
        value_name = "PREFIX=URL",
        env = "GPUSETUP_MIRRORS",
        value_delimiter = ',',
        hide_env_values = true,
        hide_default_value = true
    )]
    pub mirrors: Vec<String>,
    /// Never use the network; use only cached and local files
    #[arg(long, env = "GPUSETUP_OFFLINE")]
    pub offline: bool,
    /// Also trust the certificates in this PEM file
    #[arg(long, value_name = "FILE", env = "GPUSETUP_CA_CERT")]
    pub ca_cert: Option<PathBuf>,
}

/// Whose files may say what is done.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Trust")]
pub struct TrustOptions {
    /// Also accept plans, bundles and lock files that belong to this user (name or number)
    ///
    /// Files of root, of yourself and of the user who called sudo are always accepted. May be given several times.
    #[arg(long, value_name = "NAME", env = "GPUSETUP_TRUST_OWNER", value_delimiter = ',')]
    pub trust_owner: Vec<String>,
}

impl TrustOptions {
    /// Whose plans and bundles are accepted.
    pub fn trust(&self) -> Result<Trust, Problem> {
        Ok(Trust::of_caller(&self.trust_owner)?)
    }

    /// Whose lock files are: an ordinary user does no harm with one.
    pub fn where_root_acts(&self) -> Result<Trust, Problem> {
        Ok(Trust::where_root_acts(&self.trust_owner)?)
    }
}

/// Which bundle everything comes from.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Downloads")]
pub struct BundleOptions {
    /// Install from this bundle (see `gpusetup bundle create`), without a network
    ///
    /// The plan (if exactly one in the bundle is for this host), the database, downloads and packages all come from the bundle.
    #[arg(long, value_name = "PATH", env = "GPUSETUP_BUNDLE")]
    pub bundle: Option<PathBuf>,
    /// Require a signature of this minisign public key
    #[arg(long, value_name = "FILE", env = "GPUSETUP_BUNDLE_KEY", requires = "bundle")]
    pub bundle_key: Option<PathBuf>,
    /// Accept a signed bundle with an older database than one accepted here before
    #[arg(long, env = "GPUSETUP_ALLOW_OLDER", requires = "bundle_key")]
    pub allow_older: bool,
}

impl BundleOptions {
    /// The bundle, opened: one that is signed, or one of somebody who is trusted.
    pub fn open(&self, trust: &TrustOptions, store: &Store) -> Result<Option<Arc<Bundle>>, Problem> {
        let Some(path) = &self.bundle else { return Ok(None) };
        let key = self.bundle_key.as_deref().map(read_key).transpose()?;
        let trust = if key.is_some() { Trust::Anybody } else { trust.trust()? };
        let bundle = Bundle::open(path, key.as_deref(), &trust).map_err(|e| {
            let problem = match e {
                BundleError::Input(e @ InputError::Untrusted { .. }) => {
                    or_trust_owner(e).hint("or sign the bundle and name the key with --bundle-key FILE")
                }
                e => Problem::from(e),
            };
            Problem { message: format!("the bundle {}: {}", path.display(), problem.message), ..problem }
        })?;
        if key.is_some() && !self.allow_older {
            store.not_replayed(&bundle.manifest.database.version).map_err(|e| {
                Problem::integrity(format!("the bundle {}: {e}", path.display())).hint("add --allow-older to accept it")
            })?;
        }
        Ok(Some(Arc::new(bundle)))
    }
}

/// Who reboots the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RebootOption {
    /// You
    Never,
    /// gpusetup, at most twice
    IfNeeded,
    /// External tooling
    External,
}

impl RebootOption {
    /// As the flag has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::IfNeeded => "if-needed",
            Self::External => "external",
        }
    }
}

/// The form of the result, for commands whose text has no details to show.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Output")]
pub struct JsonOption {
    /// Print one JSON object and nothing else on standard output
    #[arg(long, env = "GPUSETUP_JSON")]
    pub json: bool,
}

/// How the output looks.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct LookOptions {
    /// Print one JSON object and nothing else on standard output
    #[arg(long, env = "GPUSETUP_JSON")]
    pub json: bool,
    /// Use colours
    #[arg(long, value_enum, env = "GPUSETUP_COLOR", default_value = "auto")]
    pub color: ColorOption,
    /// Show details
    #[arg(short, long, env = "GPUSETUP_VERBOSE")]
    pub verbose: bool,
}

/// The language of explanations.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct LanguageOptions {
    /// Answer in this language: en, ko [default: the locale's, from LC_ALL, LC_MESSAGES or LANG]
    ///
    /// JSON, usage errors and the reasons of a version are in English.
    #[arg(long, value_name = "LANG", env = "GPUSETUP_LANG", value_parser = language)]
    pub lang: Option<&'static str>,
}

/// The code of a language. An empty text is none: so is an empty variable to those who set locales.
fn language(text: &str) -> Result<&'static str, String> {
    if text.is_empty() {
        return Ok("");
    }
    translation::named(text).ok_or_else(|| {
        let known: Vec<_> = translation::known().map(|(code, name)| format!("{code} ({name})")).collect();
        format!("gpusetup has no texts in it; languages are: {}", known.join(", "))
    })
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
}

/// How the driver is installed.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum MethodOption {
    /// Packages if an enabled repository offers a branch that fits, then NVIDIA's repository, then the runfile
    Auto,
    /// The package manager, with the enabled repositories
    Packages,
    /// The package manager, with NVIDIA's repository, which is added if it is not enabled
    Repository,
    /// NVIDIA's runfile
    Runfile,
}

/// How the toolkit is installed.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ToolkitMethodOption {
    /// Component archives with --components, otherwise the runfile
    Auto,
    /// NVIDIA's runfile
    Runfile,
    /// NVIDIA's component archives
    Components,
    /// The package manager, with NVIDIA's repository, which is added if it is not enabled
    Repository,
}

/// The flavour of kernel modules.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ModulesOption {
    /// Chosen by the GPUs
    Auto,
    /// Dual MIT/GPL
    Open,
    /// NVIDIA's proprietary modules
    Proprietary,
}

/// The policy.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum PreferOption {
    /// Production and long-term branches first
    Stable,
    /// The newest release of any branch
    Latest,
    /// The branch that is supported longest
    LongestSupport,
}

/// A host without a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IfNoGpu {
    /// Exit 9
    Fail,
    /// Continue: there is nothing to plan, and doctor exits by its findings
    Skip,
}

/// Colours.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ColorOption {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl HostOptions {
    /// The database asked for.
    pub fn database(&self) -> Result<&'static Database, Problem> {
        self.database.open()
    }

    /// The options that name the same host and database once more, for a command that is suggested.
    pub fn again(&self, os: &StockOptions, facts: Option<&Path>) -> String {
        let os = os.os.iter().map(|os| format!("--os {}", quoted(os)));
        let files = [
            ("--root", self.root.as_deref()),
            ("--facts", facts),
            ("--lspci", self.lspci.as_deref()),
            ("--database", self.database.folder.as_deref()),
        ];
        let named = files.into_iter().filter_map(|(flag, path)| Some(format!("{flag} {}", quoted_path(path?))));
        os.chain(named).collect::<Vec<_>>().join(" ")
    }

    /// Whether the plan is for this very host: with GPUs that are only assumed it is but where the question is asked, unless
    /// a tree is named.
    pub fn is_meant(&self) -> bool {
        self.gpu.is_empty() || self.root.is_some()
    }
}

impl DatabaseOptions {
    /// What `db update` installed, and how old a signed database may be.
    pub fn store(&self) -> Store {
        Store::at(self.folder_of_the_store())
    }

    /// Where that is.
    pub fn folder_of_the_store(&self) -> &Path {
        #[cfg(feature = "test-hooks")]
        return &self.store;
        #[cfg(not(feature = "test-hooks"))]
        Path::new(paths::DATABASE)
    }

    /// The database in the folder; else the one that `db update` installed, where it is newer; else the built-in one.
    pub fn open(&self) -> Result<&'static Database, Problem> {
        if let Some(folder) = &self.folder {
            let loaded = folder::load(folder, &Trust::where_root_acts(&[])?).map_err(|e| match e {
                FolderError::Input(e) => e.into(),
                e => Problem::integrity(format!("the database cannot be used: {e}")),
            })?;
            return Ok(to_the_end(loaded));
        }
        let newer = self.store().newer_than(VERSION).map_err(|e| {
            Problem::integrity(format!("the database that was installed cannot be used: {e}"))
                .hint("gpusetup db update --built-in goes back to the one in this binary")
        })?;
        Ok(newer.map_or_else(shared, to_the_end))
    }
}

/// Keeps a database for as long as the process lives, as the built-in one.
pub fn to_the_end(database: Database) -> &'static Database {
    Box::leak(Box::new(database))
}

/// Seconds: apt's daily update takes as long on a fresh machine.
const PATIENCE: u64 = 900;

impl RunOptions {
    /// Whether nothing is asked.
    pub fn asks_nothing(&self) -> bool {
        self.yes || self.unattended
    }

    /// Whether bars are shown, where there is a terminal.
    pub fn bars(&self) -> bool {
        !self.no_progress && !self.unattended
    }

    /// How a run that fetches from these sources works.
    pub fn config(&self, sources: Sources) -> RunConfig {
        let patience = Duration::from_secs(self.lock_timeout.unwrap_or(PATIENCE));
        RunConfig {
            lock_timeout: patience,
            network_timeout: if self.unattended { patience } else { Duration::ZERO },
            sources,
            bundle: None,
            brought: None,
        }
    }

    /// How long another gpusetup is waited for. Somebody who is there would rather know.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.lock_timeout.unwrap_or(if self.unattended { PATIENCE } else { 0 }))
    }
}

impl SourceOptions {
    /// Where artifacts are fetched from.
    pub fn sources(&self) -> Result<Sources, Problem> {
        let refused = |flag: &str, why: &dyn std::fmt::Display| Problem::usage(format!("--{flag}: {why}"));
        let mut mirrors = Mirrors::default();
        if let Some(mirror) = &self.mirror {
            mirrors = mirrors.whole(mirror).map_err(|e| refused("mirror", &e))?;
        }
        for pair in &self.mirrors {
            let (prefix, mirror) =
                pair.split_once('=').ok_or_else(|| refused("mirrors", &"write PREFIX=URL, both with https://"))?;
            mirrors = mirrors.instead_of(prefix, mirror).map_err(|e| refused("mirrors", &e))?;
        }
        if let Some(file) = &self.ca_cert {
            certificates(file).map_err(|why| refused("ca-cert", &why))?;
        }
        let absolute = |file: &PathBuf| std::path::absolute(file).map_err(|e| refused("ca-cert", &e));
        let ca_cert = self.ca_cert.as_ref().map(absolute).transpose()?;
        Ok(Sources { mirrors, offline: self.offline, ca_cert })
    }
}

/// What was split at its commas, with the parts of a range put together again: `torch>=2.4` and `<2.6`.
fn whole_ranges(parts: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for part in parts.iter().map(|part| part.trim()) {
        match all.last_mut() {
            Some(last) if part.starts_with(['<', '>', '=', '~', '!', '^']) => *last += &format!(", {part}"),
            _ => all.push(part.to_owned()),
        }
    }
    all
}

impl RequestOptions {
    /// The day that is planned for.
    fn today(&self) -> String {
        #[cfg(feature = "test-hooks")]
        if let Some(today) = &self.today {
            return today.clone();
        }
        jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
    }

    /// Refuses a database that is older than what is accepted.
    pub fn accepts(&self, database: &Database) -> Result<(), Problem> {
        let age = age(&database.version, &self.today());
        match self.max_database_age {
            Some(most) if age > most => {
                let version = &database.version;
                let sentence = format!("--max-database-age: the database {version} is {} old", count(age, "day"));
                Err(Problem::new(Exit::Blocked, sentence).attempt("sudo gpusetup db update"))
            }
            _ => Ok(()),
        }
    }

    /// The driver and the flavour of its modules, which may be named together as Ubuntu's packages do: `580-open`.
    fn driver_and_modules(&self, layer: bool) -> Result<(Want<DriverVersion>, Option<ModuleFlavour>), Problem> {
        let modules = match self.modules {
            ModulesOption::Auto => None,
            ModulesOption::Open => Some(ModuleFlavour::Open),
            ModulesOption::Proprietary => Some(ModuleFlavour::Proprietary),
        };
        let Some(text) = self.driver.as_deref() else { return Ok((want("driver", None, layer)?, modules)) };
        let flavours = [ModuleFlavour::Open, ModuleFlavour::Proprietary];
        let named = flavours.into_iter().find_map(|f| Some((f, text.trim_end().strip_suffix(&f.to_string())?)));
        let Some((flavour, version)) = named else { return Ok((want("driver", Some(text), layer)?, modules)) };
        if let Some(other) = modules.filter(|modules| *modules != flavour) {
            return Err(Problem::usage(format!("--driver {text} and --modules {other} contradict each other"))
                .attempt(format!("gpusetup plan --driver {}", quoted(text))));
        }
        let version = Some(version.trim_end_matches(['-', ' '])).filter(|version| !version.is_empty());
        Ok((want("driver", version, true)?, Some(flavour)))
    }

    /// The driver's runfile that is named.
    fn given_driver(&self, driver_is_wanted: bool) -> Result<Option<DriverFile>, Problem> {
        let Some(file) = self.driver_file.as_deref() else { return Ok(None) };
        if !driver_is_wanted {
            return Err(Problem::usage("--driver-file names a driver, but the request leaves the driver out"));
        }
        super::driver_file::read(file, self.driver_file_sha256.as_deref()).map(Some)
    }

    /// The layers that are installed on such a machine.
    fn profile_on(&self, machine: MachineKind) -> Profile {
        let of_machine = if machine == MachineKind::Container { Profile::Toolkit } else { Profile::Compute };
        self.profile.unwrap_or(of_machine)
    }

    /// What to say about layers that nobody named and that are left out here.
    pub fn left_out_layers(&self, machine: MachineKind) -> Option<&'static str> {
        let is_left_out = self.profile.is_none() && self.driver.is_none() && machine == MachineKind::Container;
        is_left_out.then_some(
            "This is a container, and its driver is its host's: the plan has no driver (--profile compute plans one, too).",
        )
    }

    /// What was asked for, read once and never guessed at again.
    pub fn request(
        &self,
        prefix: &Path,
        cache: &Path,
        assumed_gpus: Vec<String>,
        machine: MachineKind,
    ) -> Result<Request, Problem> {
        let (with_driver, with_toolkit) = match self.profile_on(machine) {
            Profile::Compute => (true, true),
            Profile::Driver => (true, false),
            Profile::Toolkit => (false, true),
        };
        let (driver, modules) = self.driver_and_modules(with_driver)?;
        let driver_is_wanted = driver.is_wanted();
        Ok(Request {
            driver,
            cuda: want("cuda", self.cuda.as_deref(), with_toolkit)?,
            cudnn: want("cudnn", self.cudnn.as_deref(), with_toolkit && self.cuda.as_deref() != Some("none"))?,
            add_ons: add_ons(&self.with)?,
            companions: BTreeSet::new(),
            frameworks: whole_ranges(&self.frameworks),
            brought_cuda: None,
            components: self.components.clone(),
            method: match self.method {
                MethodOption::Auto => Method::Auto,
                MethodOption::Packages => Method::Packages,
                MethodOption::Repository => Method::Repository,
                MethodOption::Runfile => Method::Runfile,
            },
            toolkit_method: match self.toolkit_method {
                ToolkitMethodOption::Auto => ToolkitMethod::Auto,
                ToolkitMethodOption::Runfile => ToolkitMethod::Runfile,
                ToolkitMethodOption::Components => ToolkitMethod::Components,
                ToolkitMethodOption::Repository => ToolkitMethod::Repository,
            },
            driver_file: self.given_driver(driver_is_wanted)?,
            modules,
            prefer: match self.prefer {
                PreferOption::Stable => Prefer::Stable,
                PreferOption::Latest => Prefer::Latest,
                PreferOption::LongestSupport => Prefer::LongestSupport,
            },
            upgrade: self.upgrade,
            prefix: prefix.to_owned(),
            cache: cache.to_owned(),
            assumed_gpus,
            leave_out: self.leave_out.iter().map(|at| bus_address(at).unwrap_or_else(|| at.clone())).collect(),
            imex_peers: BTreeSet::from_iter(self.imex_peers.iter().copied()).into_iter().collect(),
            library_path: self.library_path,
            settings: self.settings.settings()?,
            today: self.today(),
        })
    }
}

/// The add-ons that `--with` names: `nccl`, `tensorrt==10.13`, `cutensor>=2.2, <3`; commas separate several.
fn add_ons(texts: &[String]) -> Result<BTreeMap<AddOnId, Want<AddOnVersion>>, Problem> {
    let refused =
        |e: &dyn std::fmt::Display| Problem::usage(format!("--with: {e}")).attempt("gpusetup db list add-ons");
    let mut asked: Vec<String> = Vec::new();
    // `nccl,` and an empty GPUSETUP_WITH name nothing more.
    for piece in texts.iter().flat_map(|text| text.split(',')).filter(|piece| !piece.trim().is_empty()) {
        match asked.last_mut() {
            // The other half of a range.
            Some(last) if piece.trim_start().starts_with(['<', '>', '=']) => *last += &format!(",{piece}"),
            _ => asked.push(piece.to_owned()),
        }
    }
    let mut all = BTreeMap::new();
    for text in &asked {
        let (name, wanted) = text.split_at(text.find(['=', '<', '>']).unwrap_or(text.len()));
        let id: AddOnId = name.trim().to_lowercase().parse().map_err(|e| refused(&e))?;
        let version = wanted.strip_prefix("==").or_else(|| wanted.strip_prefix('=')).unwrap_or(wanted).trim();
        let want = match version {
            "" if wanted.is_empty() => Want::Best,
            "" => return Err(refused(&format!("{id}{wanted} has no version"))),
            version => version.parse().map_err(|e| refused(&e))?,
        };
        if id == AddOnId::CUDNN {
            let version = if version.is_empty() { "latest" } else { version };
            return Err(
                Problem::usage("--with: cuDNN has a separate option").attempt(format!("--cudnn {}", quoted(version)))
            );
        }
        if all.insert(id, want).is_some() {
            return Err(refused(&format!("{id} is named twice")));
        }
    }
    Ok(all)
}

/// A SHA-256 in hexadecimal.
pub fn sum(text: &str) -> Result<String, String> {
    let hexadecimal = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if hexadecimal { Ok(text.to_lowercase()) } else { Err("64 hexadecimal digits are expected".to_owned()) }
}

/// The address of one host.
fn peer(text: &str) -> Result<IpAddr, String> {
    let address: IpAddr = text.trim().parse().map_err(|_| "an IP address is expected, such as 10.0.0.1".to_owned())?;
    if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
        return Err("an address is expected by which other hosts reach this one".to_owned());
    }
    Ok(address)
}

/// A day, as `2026-11-20`.
pub fn day(text: &str) -> Result<String, String> {
    let day: Result<jiff::civil::Date, _> = text.parse();
    day.map(|d| d.to_string()).map_err(|_| "a day is written 2026-11-20".to_owned())
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
