//! Resolves facts, a request and the database to one [`Selection`]: the newest stable set in which
//! everything fits, with a reason for each choice and each refusal. Pure: no clock (the day is part
//! of the request), no files, no network.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod add_on;
mod additional_toolkit;
mod alternative;
mod another_system;
mod board;
mod companion;
mod companion_source;
mod component;
mod conflict;
mod cuda;
mod derive;
mod driver;
mod driver_file;
mod environment;
mod explanation;
mod fabric;
mod foreign_driver;
mod framework;
mod gpudirect;
mod known_host;
mod mig;
mod power;
mod python;
mod reasons;
mod refusal;
mod repositories;
mod search;
mod settings;
mod signed_modules;
mod target_gpu;
mod toolkit_method;
mod vendor_driver;
mod wanted;

pub use add_on::ChosenAddOn;
pub use additional_toolkit::{AdditionalToolkitRequest, LockedLayers};
pub use another_system::{has_own_repository, of_another_system};

pub use board::JetsonBoard;
pub use companion::with_companions;
pub use component::Part;
pub use conflict::{Change, Conflict, ConflictKind, Hint};
pub use target_gpu::known_gpu;

pub use cuda::{Toolkit as ChosenToolkit, distributions_gcc, refused_series, serves};
pub use derive::{Premise, source_titles};
pub use driver::{Candidate as ChosenDriver, Install, breaks, changes_branch, distribution};
pub use driver_file::{DriverFile, NameError, Named};
pub use fabric::{NvSwitchHost, fits, package_beside};
pub use foreign_driver::{WSL_LIBRARIES, installed_by_hand, linux_driver_in_wsl2, removal_by_hand};
pub use gpudirect::{GpuDirect, gpudirect};
pub use gpusetup_database::compat::TargetGpu;
pub use known_host::KnownHost;
pub use mig::MigRequest;
pub use power::{is_power9, power9_setup};
pub use python::{PythonCommand, PythonPackage};
pub use vendor_driver::{NO_KNOWN_WAY, own_platform, vendor_driver, vendor_driver_here};

pub use companion_source::CompanionSource;
pub use search::{Resolution, summary};
pub use settings::{
    CONTAINER_HOST, ContainerRequest, ModuleKey, ModuleOption, Settings, TokenFile, Updates,
};
pub use signed_modules::{listed_modules, signed_modules};
pub use toolkit_method::{ToolkitMethod, toolkit_repository};

use add_on::none_is_impossible;
use alternative::{CanBePlanned, with_alternative};
pub use gpusetup_database::compat::cuda_arch;
use gpusetup_database::compat::{AddOnId, CompanionId, Database, MACHINES, ModuleFlavour};
use gpusetup_database::version::{AddOnVersion, CudaVersion, DriverVersion, Want};
use gpusetup_host::{Facts, Gpu, UNKNOWN_ARCHITECTURE};
use gpusetup_text::ids::{Recorded, Rule, RuleId};
use gpusetup_text::paths::CACHE;
use search::{Detail, attempt};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;

/// What the user requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Request {
    /// The driver: `best`, `latest`, `none`, a branch, a version or a range.
    pub driver: Want<DriverVersion>,
    /// The toolkit: `best`, `latest`, `none`, a series, a release or a range.
    pub cuda: Want<CudaVersion>,
    /// Toolkits beside that one, which is the default, in the order in which they were named.
    #[serde(rename = "further", default, skip_serializing_if = "Vec::is_empty")]
    pub additional_toolkits: Vec<AdditionalToolkitRequest>,
    /// cuDNN: `best`, `latest`, `none`, a version or a range.
    pub cudnn: Want<AddOnVersion>,
    /// Other requested add-ons, by name: `best`, `latest`, a version or a range.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub add_ons: BTreeMap<AddOnId, Want<AddOnVersion>>,
    /// Companions of the driver that are installed on request, by name: `dcgm`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub companions: BTreeSet<CompanionId>,
    /// Frameworks that must run, `torch==2.9`.
    #[serde(default)]
    pub frameworks: Vec<String>,
    /// The CUDA series bundled with the frameworks: the driver must support it, whichever toolkit
    /// is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brought_cuda: Option<CudaVersion>,
    /// Whether the user named a profile with a toolkit: then one is installed beside frameworks
    /// that bring their own CUDA, and a plan without one is no answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_toolkit: bool,
    /// The toolkit components as the user named them; empty for the whole toolkit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<String>,
    /// How the driver is installed.
    pub method: Method,
    /// How the toolkit is installed.
    #[serde(default, skip_serializing_if = "ToolkitMethod::is_auto")]
    #[cfg_attr(
        feature = "schemas",
        schemars(skip_serializing_if = "ToolkitMethod::is_auto")
    )]
    pub toolkit_method: ToolkitMethod,
    /// The runfile of the driver, if the user names one; then no other driver is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_file: Option<DriverFile>,
    /// The flavour of the kernel modules; if none, the flavour that the GPUs need.
    pub modules: Option<ModuleFlavour>,
    /// Which of the fitting versions is preferred.
    pub prefer: Prefer,
    /// Choose the newest version even if an installed one fits.
    pub upgrade: bool,
    /// The directory for toolkits.
    pub prefix: PathBuf,
    /// The directory for downloads.
    pub cache: PathBuf,
    /// GPUs to plan for as if they were present, by PCI id.
    pub assumed_gpus: Vec<String>,
    /// Bus addresses of GPUs to leave out.
    pub leave_out: Vec<String>,
    /// The addresses of all hosts of the NVLink domain, for IMEX, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imex_peers: Vec<IpAddr>,
    /// Also set LD_LIBRARY_PATH, although it breaks other software.
    pub library_path: bool,
    /// Leave EPEL and other repositories of build tools to the user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(
        feature = "schemas",
        schemars(skip_serializing_if = "std::ops::Not::not")
    )]
    pub no_epel: bool,
    /// Settings of the GPUs, the driver's kernel modules and updates.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    #[cfg_attr(
        feature = "schemas",
        schemars(skip_serializing_if = "Settings::is_empty")
    )]
    pub settings: Settings,
    /// The day of the plan, `2026-11-20`. It decides which branches are past their end of life.
    #[cfg_attr(
        feature = "schemas",
        schemars(regex(pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]+Z)?$"))
    )]
    pub today: String,
}

impl Request {
    /// Whether an installed version that fits is preferred to a newer one.
    fn keeps<V>(&self, want: &Want<V>) -> bool {
        !self.upgrade && !matches!(want, Want::Latest)
    }

    /// Whether the user leaves a GPU out of the plan.
    pub fn leaves_out(&self, gpu: &Gpu) -> bool {
        self.leave_out.contains(&gpu.address)
    }

    /// The default request on this day: nothing is named.
    pub fn default_on(today: impl Into<String>) -> Self {
        Self {
            driver: Want::Best,
            cuda: Want::Best,
            additional_toolkits: Vec::new(),
            cudnn: Want::Best,
            add_ons: BTreeMap::new(),
            companions: BTreeSet::new(),
            frameworks: Vec::new(),
            brought_cuda: None,
            with_toolkit: false,
            components: Vec::new(),
            method: Method::Auto,
            toolkit_method: ToolkitMethod::Auto,
            driver_file: None,
            modules: None,
            prefer: Prefer::Stable,
            upgrade: false,
            prefix: PathBuf::from("/usr/local"),
            cache: PathBuf::from(CACHE),
            assumed_gpus: Vec::new(),
            leave_out: Vec::new(),
            imex_peers: Vec::new(),
            library_path: false,
            no_epel: false,
            settings: Settings::default(),
            today: today.into(),
        }
    }
}

/// Chooses versions for a request.
///
/// # Errors
///
/// If nothing fits: the facts that conflict, each with its source, and requests that would work.
pub fn resolve<'a>(
    database: &'a Database,
    facts: &Facts,
    request: &Request,
) -> Result<Resolution<'a>, Conflict> {
    KnownHost::new(database, facts).resolve(request, &|_| true)
}

impl<'a> KnownHost<'a, '_> {
    /// Chooses like [`resolve`], and suggests what can be planned, if anything can.
    ///
    /// # Errors
    ///
    /// As for [`resolve`].
    pub fn resolve(
        &self,
        request: &Request,
        can_be_planned: CanBePlanned,
    ) -> Result<Resolution<'a>, Conflict> {
        is_possible(self.database, self.facts, request)?;
        attempt(self, request, Detail::Full).map_err(|conflict| {
            let can_be_helped = conflict.kind == ConflictKind::NothingFits
                && !WITHOUT_ALTERNATIVE
                    .iter()
                    .any(|rule| conflict.rule == *rule);
            if can_be_helped {
                with_alternative(self, request, conflict, can_be_planned)
            } else {
                conflict
            }
        })
    }

    /// The same choice without the list of rejected candidates.
    ///
    /// # Errors
    ///
    /// If nothing fits: the facts that conflict, without requests that would work.
    pub fn choose(&self, request: &Request) -> Result<Rc<Resolution<'a>>, Conflict> {
        is_possible(self.database, self.facts, request)?;
        self.choice(request, Detail::ChoiceOnly)
    }

    /// Remembers what it chose: an alternative is first tried, and then examined for what blocks
    /// it.
    fn choice(&self, request: &Request, detail: Detail) -> Result<Rc<Resolution<'a>>, Conflict> {
        if let Some((_, chosen)) = self
            .chosen
            .borrow()
            .iter()
            .find(|(asked, _)| asked == request)
        {
            return Ok(Rc::clone(chosen));
        }
        let chosen = Rc::new(attempt(self, request, detail)?);
        self.chosen
            .borrow_mut()
            .push((request.clone(), Rc::clone(&chosen)));
        Ok(chosen)
    }
}

/// Refuses requests that no driver and no toolkit can satisfy.
fn is_possible(database: &Database, facts: &Facts, request: &Request) -> Result<(), Conflict> {
    if !MACHINES.contains(&facts.machine.arch.as_str()) {
        if facts.machine.arch == UNKNOWN_ARCHITECTURE {
            let sentence = "the machine architecture is unknown: the tree has no program, loader or dpkg record that shows it";
            let hint = "plan for a new installation of its system, such as gpusetup plan --os ubuntu-24.04:x86_64 --gpu h100";
            return Err(Conflict::new(RuleId::Architecture, sentence).hint(hint));
        }
        let sentence = format!(
            "CUDA does not exist for the machine architecture {}",
            facts.machine.arch
        );
        return Err(Conflict::new(RuleId::Architecture, sentence)
            .hint(format!("supported: {}", MACHINES.join(", "))));
    }
    if let Some(system) = OTHER_SYSTEMS
        .iter()
        .find(|id| facts.os.id.eq_ignore_ascii_case(id))
    {
        let sentence = format!(
            "gpusetup supports only Linux; {} is {system}",
            facts.os.name
        );
        return Err(Conflict::new(RuleId::System, sentence)
            .hint("download the driver from https://www.nvidia.com/drivers".to_owned()));
    }
    let sets_up_containers = request.settings.containers.is_some();
    if !request.driver.is_wanted()
        && !request.cuda.is_wanted()
        && request.frameworks.is_empty()
        && !sets_up_containers
    {
        return Err(Conflict::request(
            "nothing was requested: the driver and the toolkit are both left out",
        )
        .hint(Hint::plan("with a driver", Change::Driver))
        .hint(Hint::plan("with a toolkit", Change::Toolkit)));
    }
    none_is_impossible(database, request)
}

/// Rules about the host's hardware or a mistyped name: a smaller request does not help.
const WITHOUT_ALTERNATIVE: [RuleId; 3] = [
    RuleId::GpuKnown,
    RuleId::GpuIsPhysical,
    RuleId::FrameworkKnown,
];

/// Systems that can have a facts file but no Linux driver.
const OTHER_SYSTEMS: [&str; 4] = ["windows", "macos", "darwin", "freebsd"];

/// How the driver is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Packages if an enabled repository offers a branch that fits, then NVIDIA's repository, then
    /// the runfile.
    Auto,
    /// The package manager, with the enabled repositories.
    Packages,
    /// The package manager, with NVIDIA's repository, which is added if it is not enabled.
    Repository,
    /// NVIDIA's runfile.
    Runfile,
}

/// The preference among versions that fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Prefer {
    /// Production and long-term branches first.
    Stable,
    /// The newest release of any branch.
    Latest,
    /// The branch that is supported longest.
    LongestSupport,
}

/// The chosen versions; a layer that is not installed is none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Selection {
    /// The chosen driver.
    pub driver: Option<SelectedDriver>,
    /// The chosen CUDA toolkit.
    pub cuda: Option<SelectedCuda>,
    /// The chosen cuDNN.
    pub cudnn: Option<SelectedAddOn>,
    /// The other chosen add-ons, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub add_ons: BTreeMap<AddOnId, SelectedAddOn>,
    /// All toolkits if several are installed side by side, the default one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub toolkits: Vec<SelectedToolkit>,
}

/// One of several toolkits, with its add-ons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct SelectedToolkit {
    /// The toolkit.
    pub cuda: SelectedCuda,
    /// Its cuDNN.
    pub cudnn: Option<SelectedAddOn>,
    /// Its other add-ons, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub add_ons: BTreeMap<AddOnId, SelectedAddOn>,
}

/// A chosen driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct SelectedDriver {
    /// The version; for packages, the one in the repository when the database was made.
    pub version: DriverVersion,
    /// Its branch, `580`.
    pub branch: String,
    /// The flavour of its kernel modules.
    pub modules: ModuleFlavour,
    /// How it is installed: `packages`, `repository` or `runfile`.
    #[cfg_attr(feature = "schemas", schemars(extend("enum" = ["packages", "repository", "runfile"])))]
    pub method: Method,
}

/// A chosen toolkit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct SelectedCuda {
    /// The CUDA release.
    pub version: CudaVersion,
    /// The components, if the toolkit is assembled from component archives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<SelectedComponent>,
    /// `repository` if packages of NVIDIA's repository install it; none if it is installed already,
    /// or comes from a runfile or from component archives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemas", schemars(extend("enum" = ["repository"])))]
    pub method: Option<ToolkitMethod>,
}

/// A component of the chosen toolkit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct SelectedComponent {
    /// NVIDIA's name, `cuda_nvcc`.
    pub name: String,
    /// The component's own version.
    pub(crate) version: String,
}

/// A chosen release of an add-on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct SelectedAddOn {
    /// The add-on's version.
    pub version: AddOnVersion,
    /// The CUDA major version that its archive is built for.
    pub cuda_major: u16,
}

/// Why something was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
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
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Rejection {
    /// What was not chosen, `cuda 13.3.0`.
    pub candidate: String,
    /// Why not, in a sentence.
    pub because: String,
    /// The rule that excluded it.
    pub rule: Recorded<Rule>,
}
