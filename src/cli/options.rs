//! The flags that several subcommands share, as the user gave them, and what they come to.

mod request;

pub(crate) use request::{IfNoGpu, RequestOptions, day, sum};

use super::Problem;
use super::files::{or_trust_owner, read_key};
use super::locale::languages;
use crate::apply::RunConfig;
use crate::bundle::{Bundle, BundleError};
use crate::causes::offline_root;
use crate::compat::Database;
use crate::database::folder::{self, FolderError};
use crate::database::store::Store;
use crate::database::{VERSION, shared};
use crate::fetch::{Sources, certificates, check_proxies};
use crate::mirrors::Mirrors;
use crate::operation::valid::{self, Valid};
use crate::paths;
use crate::system::input::InputError;
use crate::system::trust::Trust;
use crate::text::{public_path, quoted, quoted_path};
use crate::version::{CudaVersion, Requirement, VersionError};
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Which host, and which database.
#[derive(Debug, Args)]
#[command(next_help_heading = "Host")]
pub(crate) struct HostOptions {
    /// Use the tree at DIR as the host: an image, a chroot, a mounted disk
    #[arg(long, value_name = "DIR", env = "GPUSETUP_ROOT")]
    pub(crate) root: Option<PathBuf>,
    /// Plan for this GPU: h100x8, "rtx 3090", p4d.24xlarge, "dgx h100", 10de:20b2, sm_80, hopper
    ///
    /// The GPU need not be there. With --facts, --lspci or --root it replaces the GPUs found there;
    /// on this host it is added to them. May be given several times, or as a list with commas.
    #[arg(long, value_name = "SPEC", env = "GPUSETUP_GPU", value_delimiter = ',')]
    pub(crate) gpu: Vec<String>,
    /// Read the GPUs from the output of `lspci -nn` (- is standard input)
    #[arg(long, value_name = "FILE", env = "GPUSETUP_LSPCI")]
    pub(crate) lspci: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) database: DatabaseOptions,
    /// Install toolkits below DIR
    #[arg(long, value_name = "DIR", env = "GPUSETUP_PREFIX", default_value = paths::PREFIX,
          value_parser = folder(valid::prefix))]
    pub(crate) prefix: PathBuf,
    /// Keep downloads in DIR
    #[arg(long, value_name = "DIR", env = "GPUSETUP_CACHE", default_value = paths::CACHE,
          value_parser = folder(valid::cache))]
    pub(crate) cache: PathBuf,
}

/// A host that is not here.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Host")]
pub(crate) struct StockOptions {
    /// Plan for a new installation of this system, not for this host: ubuntu-24.04, rocky-9:aarch64
    ///
    /// The database provides its kernel, C library and repositories. Name the GPUs with --gpu or
    /// --lspci.
    #[arg(long, value_name = "ID-VERSION[:ARCH]", env = "GPUSETUP_OS")]
    pub(crate) os: Option<String>,
}

/// Accepts folders that are valid for their use.
pub(crate) fn folder(is_valid: fn(&Path) -> Valid) -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(move |path| is_valid(&path).map(|()| path))
}

/// Which compatibility database.
#[derive(Debug, Args)]
pub(crate) struct DatabaseOptions {
    /// Use the database in DIR (with compat/ and manifests/) instead of the built-in or updated one
    #[arg(
        id = "database",
        long = "database",
        value_name = "DIR",
        env = "GPUSETUP_DATABASE"
    )]
    pub(crate) folder: Option<PathBuf>,
    /// Keep databases that `db update` installs in DIR
    #[cfg(feature = "test-hooks")]
    #[arg(long = "database-store", value_name = "DIR", env = "GPUSETUP_DATABASE_STORE", hide = true,
          default_value = paths::DATABASE)]
    store: PathBuf,
}

/// How something is carried out.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct RunOptions {
    /// Do not ask for confirmation; NVIDIA's licences still need --accept-eula
    #[arg(short, long, env = "GPUSETUP_YES")]
    pub(crate) yes: bool,
    /// Never prompt; print log lines instead of progress bars; NVIDIA's licences need --accept-eula
    #[arg(long, env = "GPUSETUP_UNATTENDED")]
    pub(crate) unattended: bool,
    /// Accept NVIDIA's licences (required with --yes and --unattended, if the plan installs
    /// NVIDIA's software)
    #[arg(long, env = "GPUSETUP_ACCEPT_EULA")]
    pub(crate) accept_eula: bool,
    /// Who reboots the host when required: you, gpusetup, or external tooling
    ///
    /// After `if-needed` and `external` gpusetup resumes automatically. External tooling finds out
    /// from /run/reboot-required or `gpusetup reboot-required`.
    #[arg(long, value_enum, env = "GPUSETUP_REBOOT", default_value = "never")]
    pub(crate) reboot: RebootOption,
    /// Seconds to wait for the package-manager lock [default: 900]
    ///
    /// The same limit applies to another running gpusetup (with --unattended; otherwise gpusetup
    /// does not wait for it) and, with --unattended, to the network.
    #[arg(long, value_name = "SECONDS", env = "GPUSETUP_LOCK_TIMEOUT")]
    pub(crate) lock_timeout: Option<u64>,
    /// Print lines instead of progress bars
    #[arg(long, env = "GPUSETUP_NO_PROGRESS")]
    pub(crate) no_progress: bool,
}

/// Where artifacts come from. What may have a password in it is shown by no help.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Downloads")]
pub(crate) struct SourceOptions {
    /// Download from this mirror of NVIDIA's servers: http://mirror.example/nvidia,
    /// file:///mnt/nvidia
    #[arg(
        long,
        value_name = "URL",
        env = "GPUSETUP_MIRROR",
        hide_env_values = true,
        hide_default_value = true
    )]
    pub(crate) mirror: Option<String>,
    /// Replace one address prefix by another:
    /// https://developer.download.nvidia.com/compute=http://mirror.example
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
    pub(crate) mirrors: Vec<String>,
    /// Never use the network; use only cached and local files
    #[arg(long, env = "GPUSETUP_OFFLINE")]
    pub(crate) offline: bool,
    /// Also trust the certificates in this PEM file
    #[arg(long, value_name = "FILE", env = "GPUSETUP_CA_CERT")]
    pub(crate) ca_cert: Option<PathBuf>,
}

/// Whose files may say what is done.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Trust")]
pub(crate) struct TrustOptions {
    /// Also accept plans, bundles and lock files that belong to this user (name or number)
    ///
    /// Files of root, of yourself and of the user who called sudo are always accepted. May be given
    /// several times.
    #[arg(
        long,
        value_name = "NAME",
        env = "GPUSETUP_TRUST_OWNER",
        value_delimiter = ','
    )]
    pub(crate) trust_owner: Vec<String>,
}

impl TrustOptions {
    /// Whose plans and bundles are accepted.
    pub(crate) fn trust(&self) -> Result<Trust, Problem> {
        Ok(Trust::of_caller(&self.trust_owner)?)
    }

    /// Whose lock files are: an ordinary user does no harm with one.
    pub(crate) fn where_root_acts(&self) -> Result<Trust, Problem> {
        Ok(Trust::where_root_acts(&self.trust_owner)?)
    }
}

/// Which bundle everything comes from.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Downloads")]
pub(crate) struct BundleOptions {
    /// Install from this bundle (see `gpusetup bundle create`), without a network
    ///
    /// The plan (if exactly one in the bundle is for this host), the database, downloads and
    /// packages all come from the bundle.
    #[arg(long, value_name = "PATH", env = "GPUSETUP_BUNDLE")]
    pub(crate) bundle: Option<PathBuf>,
    /// Require a signature of this minisign public key
    #[arg(
        long,
        value_name = "FILE",
        env = "GPUSETUP_BUNDLE_KEY",
        requires = "bundle"
    )]
    pub(crate) bundle_key: Option<PathBuf>,
    /// Accept a signed bundle with an older database than one accepted here before
    #[arg(long, env = "GPUSETUP_ALLOW_OLDER", requires = "bundle_key")]
    pub(crate) allow_older: bool,
}

impl BundleOptions {
    /// The bundle, opened: one that is signed, or one of somebody who is trusted.
    pub(crate) fn open(
        &self,
        trust: &TrustOptions,
        store: &Store,
    ) -> Result<Option<Arc<Bundle>>, Problem> {
        let Some(path) = &self.bundle else {
            return Ok(None);
        };
        let key = self.bundle_key.as_deref().map(read_key).transpose()?;
        let trust = if key.is_some() {
            Trust::Anybody
        } else {
            trust.trust()?
        };
        let bundle = Bundle::open(path, key.as_deref(), &trust).map_err(|e| {
            let problem = match e {
                BundleError::Input(e @ InputError::Untrusted { .. }) => or_trust_owner(e)
                    .hint("or sign the bundle and name the key with --bundle-key FILE"),
                e => Problem::from(e),
            };
            Problem {
                message: format!("the bundle {}: {}", public_path(path), problem.message),
                ..problem
            }
        })?;
        if key.is_some() && !self.allow_older {
            store
                .not_replayed(&bundle.manifest.database.version)
                .map_err(|e| {
                    Problem::integrity(format!("the bundle {}: {e}", public_path(path)))
                        .hint("add --allow-older to accept it")
                })?;
        }
        Ok(Some(Arc::new(bundle)))
    }
}

/// Who reboots the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RebootOption {
    /// You
    Never,
    /// gpusetup, at most twice
    IfNeeded,
    /// External tooling
    External,
}

impl RebootOption {
    /// As the flag has it.
    pub(crate) fn as_str(self) -> &'static str {
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
pub(crate) struct JsonOption {
    /// Print one JSON object and nothing else on standard output
    #[arg(long, env = "GPUSETUP_JSON")]
    pub(crate) json: bool,
}

/// How the output looks.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct LookOptions {
    /// Print one JSON object and nothing else on standard output
    #[arg(long, env = "GPUSETUP_JSON")]
    pub(crate) json: bool,
    /// Use colours
    #[arg(long, value_enum, env = "GPUSETUP_COLOR", default_value = "auto")]
    pub(crate) color: ColorOption,
    /// Show details
    #[arg(short, long, env = "GPUSETUP_VERBOSE")]
    pub(crate) verbose: bool,
}

/// The language of explanations.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct LanguageOptions {
    /// Answer in this language: en, ko [default: the locale's, from LC_ALL, LC_MESSAGES or LANG]
    ///
    /// JSON, usage errors and the reasons of a version are in English.
    #[arg(long, value_name = "LANG", env = "GPUSETUP_LANG", value_parser = language)]
    pub(crate) lang: Option<&'static str>,
}

/// The name of an installed toolkit: 12, 12.8, 12.8.1.
pub(crate) fn toolkit_name(text: &str) -> Result<Requirement<CudaVersion>, String> {
    let named: Requirement<CudaVersion> = text.parse().map_err(|e: VersionError| e.to_string())?;
    named
        .is_series()
        .then_some(named)
        .ok_or_else(|| "name an installed toolkit: 12.8 or 12.8.1 (gpusetup list)".to_owned())
}

/// The code of a language. An empty text is none: so is an empty variable to those who set locales.
fn language(text: &str) -> Result<&'static str, String> {
    if text.is_empty() {
        return Ok("");
    }
    let languages = languages();
    languages.named(text).ok_or_else(|| {
        let known: Vec<_> = languages
            .known()
            .map(|(code, name)| format!("{code} ({name})"))
            .collect();
        format!(
            "gpusetup has no texts in it; languages are: {}",
            known.join(", ")
        )
    })
}

/// Colours.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ColorOption {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl HostOptions {
    /// The database asked for.
    pub(crate) fn database(&self) -> Result<&'static Database, Problem> {
        self.database.open()
    }

    /// The options that name the same host and database once more, for a command that is suggested.
    pub(crate) fn again(&self, os: &StockOptions, facts: Option<&Path>) -> String {
        let os = os.os.iter().map(|os| format!("--os {}", quoted(os)));
        let files = [
            ("--root", self.root.as_deref()),
            ("--facts", facts),
            ("--lspci", self.lspci.as_deref()),
            ("--database", self.database.folder.as_deref()),
        ];
        let named = files
            .into_iter()
            .filter_map(|(flag, path)| Some(format!("{flag} {}", quoted_path(path?))));
        os.chain(named).collect::<Vec<_>>().join(" ")
    }

    /// A command for the same host, which `--root` may name.
    pub(crate) fn here(&self, command: &str) -> String {
        offline_root::sentence_on(command, self.root.as_deref())
    }

    /// Whether its GPUs are those that are here, or those of a tree.
    pub(crate) fn is_here(&self) -> bool {
        self.lspci.is_none() && self.is_meant()
    }

    /// Whether the plan is for this very host: with GPUs that are only assumed it is but where the
    /// question is asked, unless a tree is named.
    pub(crate) fn is_meant(&self) -> bool {
        self.gpu.is_empty() || self.root.is_some()
    }
}

impl DatabaseOptions {
    /// What `db update` installed, and how old a signed database may be.
    pub(crate) fn store(&self) -> Store {
        Store::at(self.folder_of_the_store())
    }

    pub(crate) fn folder_of_the_store(&self) -> &Path {
        #[cfg(feature = "test-hooks")]
        return &self.store;
        #[cfg(not(feature = "test-hooks"))]
        Path::new(paths::DATABASE)
    }

    /// The database in the folder; else the one that `db update` installed, where it is newer; else
    /// the built-in one.
    pub(crate) fn open(&self) -> Result<&'static Database, Problem> {
        if let Some(folder) = &self.folder {
            let loaded =
                folder::load(folder, &Trust::where_root_acts(&[])?).map_err(|e| match e {
                    FolderError::Input(e) => e.into(),
                    e => Problem::integrity(format!("the database cannot be used: {e}")),
                })?;
            return Ok(to_the_end(loaded));
        }
        let newer = self.store().newer_than(VERSION).map_err(|e| {
            Problem::integrity(format!(
                "the database that was installed cannot be used: {e}"
            ))
            .hint("gpusetup db update --built-in goes back to the one in this binary")
        })?;
        Ok(newer.map_or_else(shared, to_the_end))
    }
}

/// Keeps a database for as long as the process lives, as the built-in one.
pub(crate) fn to_the_end(database: Database) -> &'static Database {
    Box::leak(Box::new(database))
}

/// Seconds: apt's daily update takes as long on a fresh machine.
const PATIENCE: u64 = 900;

impl RunOptions {
    /// Whether nothing is asked.
    pub(crate) fn asks_nothing(&self) -> bool {
        self.yes || self.unattended
    }

    /// Whether bars are shown, where there is a terminal.
    pub(crate) fn bars(&self) -> bool {
        !self.no_progress && !self.unattended
    }

    /// How a run that fetches from these sources works.
    pub(crate) fn config(&self, sources: Sources) -> RunConfig {
        let patience = Duration::from_secs(self.lock_timeout.unwrap_or(PATIENCE));
        RunConfig {
            lock_timeout: patience,
            network_timeout: if self.unattended {
                patience
            } else {
                Duration::ZERO
            },
            attended: self.is_attended(),
            sources,
            bundle: None,
            brought: None,
        }
    }

    /// Whether somebody is there who reads standard error: what is written to a file or a pipe may
    /// end up in a log.
    pub(crate) fn is_attended(&self) -> bool {
        !self.unattended && std::io::stderr().is_terminal()
    }

    /// How long another gpusetup is waited for. Somebody who is there would rather know.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(
            self.lock_timeout
                .unwrap_or(if self.unattended { PATIENCE } else { 0 }),
        )
    }
}

impl SourceOptions {
    /// Where artifacts are fetched from.
    pub(crate) fn sources(&self) -> Result<Sources, Problem> {
        let refused =
            |flag: &str, why: &dyn std::fmt::Display| Problem::usage(format!("--{flag}: {why}"));
        let mut mirrors = Mirrors::default();
        if let Some(mirror) = &self.mirror {
            mirrors = mirrors.whole(mirror).map_err(|e| refused("mirror", &e))?;
        }
        for pair in &self.mirrors {
            let (prefix, mirror) = pair
                .split_once('=')
                .ok_or_else(|| refused("mirrors", &"write PREFIX=URL, both with https://"))?;
            mirrors = mirrors
                .instead_of(prefix, mirror)
                .map_err(|e| refused("mirrors", &e))?;
        }
        if let Some(file) = &self.ca_cert {
            certificates(file).map_err(|why| refused("ca-cert", &why))?;
        }
        let ca_cert = self
            .ca_cert
            .as_ref()
            .map(|file| std::path::absolute(file).map_err(|e| refused("ca-cert", &e)))
            .transpose()?;
        if !self.offline {
            check_proxies().map_err(|e| Problem::usage(e.to_string()))?;
        }
        Ok(Sources {
            mirrors,
            offline: self.offline,
            ca_cert,
        })
    }
}
