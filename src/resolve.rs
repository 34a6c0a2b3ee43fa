//! From facts, a request and the database to one [`Selection`]: the newest stable set that fits everything, with the
//! reason for each choice and each refusal. Pure: no clock (the day is part of the request), no file, no network.

mod add_on;
mod alternative;
mod card;
mod component;
mod conflict;
mod cuda;
mod derive;
mod driver;
mod fabric;
mod framework;
mod known_host;
mod refusal;
mod search;

pub use add_on::ChosenAddOn;
pub use card::{Card, known_card};
pub use component::Part;
pub use conflict::{Alternative, Conflict, ConflictKind, Hint};
pub use cuda::{Toolkit as ChosenToolkit, distributions_gcc, refused_series, serves};
pub use derive::{Premise, source_titles};
pub use driver::{Candidate as ChosenDriver, Install, distribution, is_over};
pub use fabric::Joined;
pub use known_host::KnownHost;
pub use search::{Resolution, summary};

use crate::compat::{AddOnId, Database, ModuleFlavour};
use crate::host::Facts;
use crate::ids::{Recorded, Rule, RuleId};
use crate::paths::CACHE;
use crate::version::{AddOnVersion, CudaVersion, DriverVersion, Want};
use add_on::none_is_impossible;
use alternative::with_alternative;
use search::{Telling, attempt};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What the user asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Request {
    /// The driver: `best`, `latest`, `none`, a branch, a version or a range.
    pub driver: Want<DriverVersion>,
    /// The toolkit: `best`, `latest`, `none`, a series, a release or a range.
    pub cuda: Want<CudaVersion>,
    /// cuDNN: `best`, `latest`, `none`, a version or a range.
    pub cudnn: Want<AddOnVersion>,
    /// Other add-ons that were asked for, by name: `best`, `latest`, a version or a range of each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub add_ons: BTreeMap<AddOnId, Want<AddOnVersion>>,
    /// Frameworks to serve, `torch==2.9`.
    #[serde(default)]
    pub frameworks: Vec<String>,
    /// The CUDA series that the frameworks bring themselves: the driver has to run it, whatever the toolkit is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brought_cuda: Option<CudaVersion>,
    /// The components of the toolkit, as they were named; empty for the whole toolkit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<String>,
    /// How the driver is installed.
    pub method: Method,
    /// The flavour of the kernel modules; none is the one that the GPUs need.
    pub modules: Option<ModuleFlavour>,
    /// Which of the versions that fit is preferred.
    pub prefer: Prefer,
    /// Choose the newest instead of keeping what is installed and fits.
    pub upgrade: bool,
    /// The directory that toolkits go into.
    pub prefix: PathBuf,
    /// The directory that downloads are kept in.
    pub cache: PathBuf,
    /// GPUs to plan for as if they were there, by PCI id.
    pub assumed_gpus: Vec<String>,
    /// Bus addresses of GPUs to leave out.
    pub leave_out: Vec<String>,
    /// Set LD_LIBRARY_PATH too, though it breaks other software.
    pub library_path: bool,
    /// The day of the plan, `2026-11-20`: branches past their end of life are told by it.
    #[cfg_attr(feature = "schemas", schemars(regex(pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]+Z)?$")))]
    pub today: String,
}

impl Request {
    /// Whether an installed version that fits is preferred to a newer one.
    fn keeps<V>(&self, want: &Want<V>) -> bool {
        !self.upgrade && !matches!(want, Want::Latest)
    }

    /// That of somebody who names nothing, on this day.
    pub fn no_wishes(today: impl Into<String>) -> Self {
        Self {
            driver: Want::Best,
            cuda: Want::Best,
            cudnn: Want::Best,
            add_ons: BTreeMap::new(),
            frameworks: Vec::new(),
            brought_cuda: None,
            components: Vec::new(),
            method: Method::Auto,
            modules: None,
            prefer: Prefer::Stable,
            upgrade: false,
            prefix: PathBuf::from("/usr/local"),
            cache: PathBuf::from(CACHE),
            assumed_gpus: Vec::new(),
            leave_out: Vec::new(),
            library_path: false,
            today: today.into(),
        }
    }
}

/// Chooses. What cannot be served is told with the facts that exclude each other and what would fit instead.
///
/// # Errors
///
/// If nothing fits: with the facts that conflict, each with its source, and with requests that would work.
pub fn resolve<'a>(database: &'a Database, facts: &Facts, request: &Request) -> Result<Resolution<'a>, Conflict> {
    KnownHost::new(database, facts).resolve(request)
}

impl<'a> KnownHost<'a, '_> {
    /// Chooses, as [`resolve`] does.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn resolve(&self, request: &Request) -> Result<Resolution<'a>, Conflict> {
        is_possible(self.database, self.facts, request)?;
        attempt(self, request, Telling::All).map_err(|conflict| {
            let can_be_helped = conflict.kind == ConflictKind::NothingFits
                && !WITHOUT_ALTERNATIVE.iter().any(|rule| conflict.rule == *rule);
            if can_be_helped { with_alternative(self, request, conflict) } else { conflict }
        })
    }

    /// The same choice without what was rejected for it.
    ///
    /// # Errors
    ///
    /// If nothing fits: with the facts that conflict, and without requests that would work.
    pub fn choose(&self, request: &Request) -> Result<Resolution<'a>, Conflict> {
        is_possible(self.database, self.facts, request)?;
        attempt(self, request, Telling::Choice)
    }
}

/// Refuses what no driver and no toolkit makes possible.
fn is_possible(database: &Database, facts: &Facts, request: &Request) -> Result<(), Conflict> {
    const ARCHITECTURES: [&str; 3] = ["x86_64", "aarch64", "ppc64le"];
    if !ARCHITECTURES.contains(&facts.machine.arch.as_str()) {
        let sentence = format!("there is no CUDA for the machine architecture {}", facts.machine.arch);
        return Err(
            Conflict::new(RuleId::Architecture, sentence).hint(format!("supported are {}", ARCHITECTURES.join(", ")))
        );
    }
    if let Some(system) = OTHER_SYSTEMS.iter().find(|id| facts.os.id.eq_ignore_ascii_case(id)) {
        let sentence = format!("gpusetup installs on Linux, and {} is {system}", facts.os.name);
        return Err(Conflict::new(RuleId::System, sentence)
            .hint("get the driver for it from https://www.nvidia.com/drivers".to_owned()));
    }
    none_is_impossible(database, request)
}

/// Rules about the host's hardware, or a name that was mistyped: a smaller request does not help.
const WITHOUT_ALTERNATIVE: [RuleId; 3] = [RuleId::GpuKnown, RuleId::GpuIsPhysical, RuleId::FrameworkKnown];

/// Systems that have a facts file, too, and no Linux driver.
const OTHER_SYSTEMS: [&str; 4] = ["windows", "macos", "darwin", "freebsd"];

/// How the driver is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Packages where the distribution's enabled repositories offer a branch that fits, else the runfile.
    Auto,
    /// The package manager.
    Packages,
    /// NVIDIA's runfile.
    Runfile,
}

/// The policy among what fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Prefer {
    /// Production and long-term branches before new-feature ones.
    Stable,
    /// The newest of all.
    Latest,
    /// The branch whose life ends last.
    LongestSupport,
}

/// What was chosen; a layer that is left out is none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Selection {
    /// The driver that was chosen.
    pub driver: Option<SelectedDriver>,
    /// The CUDA toolkit that was chosen.
    pub cuda: Option<SelectedCuda>,
    /// The cuDNN that was chosen.
    pub cudnn: Option<SelectedAddOn>,
    /// The other add-ons that were chosen, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub add_ons: BTreeMap<AddOnId, SelectedAddOn>,
}

/// A driver that was chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct SelectedDriver {
    /// The version; with packages, the one that the repository had when the database was made.
    pub version: DriverVersion,
    /// Its branch, `580`.
    pub branch: String,
    /// The flavour of its kernel modules.
    pub modules: ModuleFlavour,
    /// How it is installed: `packages` or `runfile`.
    #[cfg_attr(feature = "schemas", schemars(extend("enum" = ["packages", "runfile"])))]
    pub method: Method,
}

/// A toolkit that was chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct SelectedCuda {
    /// The CUDA release.
    pub version: CudaVersion,
    /// The components, of a toolkit that is put together of component archives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<SelectedComponent>,
}

/// A part of a toolkit that was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct SelectedComponent {
    /// NVIDIA's name, `cuda_nvcc`.
    pub name: String,
    /// The component's own version.
    pub version: String,
}

/// A release of an add-on that was chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct SelectedAddOn {
    /// The release of the add-on.
    pub version: AddOnVersion,
    /// The major version of the CUDA line that its archive is built for.
    pub cuda_major: u16,
}

/// Why something was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Reason {
    /// What was chosen: `driver`, `cuda`, an add-on's name such as `cudnn`, `modules` or `method`.
    pub subject: String,
    /// Why, in a sentence.
    pub text: String,
    /// The rule that decided.
    pub rule: Recorded<Rule>,
    /// Where the fact is published.
    pub source: String,
}

/// Why something was not chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Rejection {
    /// What was not chosen, `cuda 13.3.0`.
    pub candidate: String,
    /// Why not, in a sentence.
    pub because: String,
    /// The rule that excluded it.
    pub rule: Recorded<Rule>,
}

/// What CUDA's and cuDNN's files call a machine architecture.
pub fn cuda_arch(machine: &str) -> &str {
    if machine == "aarch64" { "sbsa" } else { machine }
}
