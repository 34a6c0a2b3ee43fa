//! The lock file: the exact versions of a plan. A plan with a lock file installs the same versions,
//! or reports which ones are no longer available.

use super::{OtherHost, Plan, StepId};
use gpusetup_database::compat::{
    AddOnId, Artifact, CompanionId, Database, DatabaseId, DriverVariant,
};
use gpusetup_database::version::{AddOnVersion, Version, VersionError, Want};
use gpusetup_host::SystemId;
use gpusetup_operation::{Download, Operation};
use gpusetup_resolve::{
    AdditionalToolkitRequest, ContainerRequest, LockedLayers, Method, Request, SelectedAddOn,
    SelectedCuda, SelectedToolkit, Selection, Settings, cuda_arch, summary,
};
use gpusetup_text::text::all_of;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::str::FromStr;

/// The schema that a [`LockFile`] is written in.
pub(crate) const LOCK_SCHEMA: &str = "gpusetup.lock/1";

/// The versions, files and packages that are the same on every host that uses the lock file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct LockFile {
    /// The name and version of this format.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = LOCK_SCHEMA)))]
    pub(crate) schema: String,
    /// The version of gpusetup that wrote it.
    pub(crate) tool: String,
    /// The database used. Another one works, too, if it still has all locked versions.
    pub(crate) database: DatabaseId,
    /// The system that it is for: files depend on the architecture, packages on the release.
    pub(crate) system: SystemId,
    /// The kernel that some of the locked packages are for, such as those of its headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kernel: Option<String>,
    /// The locked versions.
    pub(crate) selection: Selection,
    /// Companions of the driver that were requested, such as DCGM.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) companions: BTreeSet<CompanionId>,
    /// What the plan set up for containers. A plan that follows the lock file does so only if that
    /// is requested again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) containers: Option<ContainerRequest>,
    /// All downloaded files with their checksums.
    pub(crate) artifacts: Vec<LockedArtifact>,
    /// The versions of packages by name, as the package manager writes them.
    pub packages: BTreeMap<String, String>,
}

/// A downloaded file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockedArtifact {
    /// The name of the file.
    pub(crate) file: String,
    /// The published URL. The file may come from a mirror; only the checksum matters.
    pub(crate) url: String,
    /// The SHA-256 of the file.
    #[cfg_attr(
        feature = "schemas",
        schemars(with = "gpusetup_database::sum::Sha256Text")
    )]
    pub(crate) sha256: String,
    /// The size in bytes, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
}

/// Why a lock file cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// It is not a lock file.
    #[error("gpusetup plan --lock did not write it: {0}")]
    Malformed(String),
    /// It has another schema: a newer or much older gpusetup wrote it.
    #[error("its schema is {0}; this gpusetup reads {LOCK_SCHEMA}")]
    Schema(String),
    /// It is for other hosts.
    #[error(transparent)]
    OtherHost(#[from] OtherHost),
    /// Locked versions are no longer available.
    #[error("locked versions are no longer available: {}", .0.join("; "))]
    Gone(Vec<String>),
    /// A file has another checksum than before.
    #[error("{}", .0.join("; "))]
    Altered(Vec<String>),
}

impl LockFile {
    /// The lock file of a plan; `packages` are the versions that the package manager would install.
    pub fn of(database: &Database, plan: &Plan, packages: BTreeMap<String, String>) -> Self {
        Self {
            schema: LOCK_SCHEMA.to_owned(),
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            database: plan.database.clone(),
            system: SystemId::of(&plan.host),
            kernel: { plan.host.kernel() }
                .filter(|k| packages.keys().any(|name| name.contains(k)))
                .map(str::to_owned),
            selection: plan.selection.clone(),
            companions: plan.request.companions.clone(),
            containers: plan.request.settings.containers.as_ref().map(of_every_host),
            artifacts: artifacts(database, plan),
            packages,
        }
    }

    /// Parses a lock file.
    ///
    /// # Errors
    ///
    /// If it does not have this schema, or a package name or version is invalid.
    pub fn read(text: &str) -> Result<Self, LockError> {
        let value: serde_json::Value = serde_json::from_str(text)
            .map_err(|e| LockError::Malformed(format!("it is not JSON ({e})")))?;
        match value.get("schema").and_then(|s| s.as_str()) {
            Some(LOCK_SCHEMA) => {}
            Some(other) => return Err(LockError::Schema(other.to_owned())),
            None => return Err(LockError::Malformed("it has no schema".to_owned())),
        }
        let lock: Self =
            serde_json::from_value(value).map_err(|e| LockError::Malformed(e.to_string()))?;
        let mut packages = lock.packages.iter();
        match packages.find(|(name, version)| !is_plain(name) || !is_plain(version)) {
            Some((name, version)) => Err(LockError::Malformed(format!(
                "`{name}` `{version}` is not a valid package"
            ))),
            None => Ok(lock),
        }
    }

    /// The request restricted to the locked versions; everything else is kept.
    pub fn request(&self, database: &Database, mut asked: Request) -> Result<Request, LockError> {
        let selected = &self.selection;
        if let Some(containers) = &mut asked.settings.containers {
            let toolkit = database
                .container_toolkit()
                .into_iter()
                .flat_map(|toolkit| &toolkit.packages);
            containers.locked_toolkit = self.version_of(toolkit);
            let engine = database
                .engines
                .iter()
                .filter(|engine| containers.engine == Some(engine.id));
            let packages = engine
                .flat_map(|engine| &engine.packages)
                .filter_map(|packages| packages.names.first());
            containers.locked_engine = self.version_of(packages);
        }
        Ok(Request {
            driver: exactly(selected.driver.as_ref().map(|d| d.version))?,
            cuda: exactly(selected.cuda.as_ref().map(|c| c.version))?,
            additional_toolkits: selected
                .toolkits
                .iter()
                .skip(1)
                .map(additional)
                .collect::<Result<_, LockError>>()?,
            cudnn: exactly(selected.cudnn.as_ref().map(|c| c.version))?,
            add_ons: exact_add_ons(&selected.add_ons)?,
            companions: self.companions.clone(),
            frameworks: Vec::new(),
            brought_cuda: None,
            with_toolkit: false,
            components: selected
                .cuda
                .as_ref()
                .map_or_else(Vec::new, names_of_components),
            method: selected.driver.as_ref().map_or(asked.method, |d| d.method),
            toolkit_method: selected
                .cuda
                .as_ref()
                .and_then(|c| c.method)
                .unwrap_or_default(),
            modules: selected
                .driver
                .as_ref()
                .map_or(asked.modules, |d| Some(d.modules)),
            upgrade: false,
            ..asked
        })
    }

    /// The locked version of the first of these packages that has one.
    fn version_of<'n>(&self, mut names: impl Iterator<Item = &'n String>) -> Option<String> {
        names.find_map(|name| self.packages.get(name)).cloned()
    }

    /// The plan with the locked package versions.
    ///
    /// # Errors
    ///
    /// If the plan would install something that differs from the lock file.
    pub fn hold(&self, mut plan: Plan) -> Result<Plan, LockError> {
        self.is_for_kernel_of(&plan)?;
        let (mut gone, mut altered) = (Vec::new(), Vec::new());
        if !is_same(&plan.selection, &self.selection) {
            gone.push(format!(
                "{} was locked, but {} was chosen",
                summary(&self.selection),
                summary(&plan.selection)
            ));
        }
        for download in downloads(&plan) {
            match self.artifacts.iter().find(|a| a.file == download.file) {
                Some(locked) if locked.sha256 == download.sha256 => {}
                Some(locked) => altered.push(format!(
                    "{} has the SHA-256 {} in the lock file, but {} in the database",
                    download.file, locked.sha256, download.sha256
                )),
                None => gone.push(format!("{} is not in the lock file", download.file)),
            }
        }
        if !altered.is_empty() {
            return Err(LockError::Altered(altered));
        }
        if !gone.is_empty() {
            return Err(LockError::Gone(gone));
        }
        for act in plan.steps.iter_mut().flat_map(|s| &mut s.operations) {
            if let Operation::Packages(packages) = &mut act.operation {
                packages.versions.extend(self.packages.clone());
            }
        }
        Ok(plan.summed())
    }

    /// How a plan that follows it may still differ from host to host, each in a sentence.
    pub fn notes(&self, plan: &Plan) -> Vec<String> {
        self.without_containers(plan)
            .into_iter()
            .chain(self.without_versions(plan))
            .collect()
    }

    /// The sentence if containers were set up or an engine was named, and are not now.
    fn without_containers(&self, plan: &Plan) -> Option<String> {
        let asked = plan.request.settings.containers.as_ref();
        let containers = self.containers.clone().filter(|locked| {
            asked.is_none_or(|now| now.engine.is_none() && locked.engine.is_some())
        });
        let settings = Settings {
            containers: Some(containers?),
            ..Settings::default()
        };
        let options = settings.options().join(" ");
        let lacks = if asked.is_none() {
            "sets up no containers"
        } else {
            "installs no engine"
        };
        Some(format!(
            "note: this plan {lacks}, but the lock file was written with {options}: add these to install the same"
        ))
    }

    /// The sentence if packages are installed that have no locked version.
    fn without_versions(&self, plan: &Plan) -> Option<String> {
        let needed = plan.acts().filter(|act| !act.satisfied);
        let transactions = needed.filter_map(|act| {
            if let Operation::Packages(wanted) = &act.operation {
                Some(wanted)
            } else {
                None
            }
        });
        let mut free = BTreeSet::new();
        for wanted in transactions {
            // The driver's packages come in the driver's version only.
            free.extend(wanted.install.iter().map(String::as_str).filter(|name| {
                !self.packages.contains_key(*name)
                    && !wanted.drivers.contains_key(*name)
                    && !wanted.alike.iter().any(|alike| alike == name)
            }));
        }
        let names: Vec<&str> = free.into_iter().collect();
        let (are, versions) = if names.len() == 1 {
            ("is", "its version")
        } else {
            ("are", "their versions")
        };
        (!names.is_empty()).then(|| {
            format!(
                "note: {} {are} not in the lock file: {versions} may differ between hosts",
                all_of(&names)
            )
        })
    }
}

/// The request without what belongs to one host, or is locked elsewhere.
fn of_every_host(request: &ContainerRequest) -> ContainerRequest {
    ContainerRequest {
        engine: request.engine,
        ..ContainerRequest::default()
    }
}

/// Whether two selections are the same. Where the repository of a driver's packages was added, it
/// is enabled from then on, and a toolkit from there is kept.
fn is_same(one: &Selection, other: &Selection) -> bool {
    packaged(one) == packaged(other)
}

/// The selection as if everything came from packages.
fn packaged(selection: &Selection) -> Selection {
    let mut selection = selection.clone();
    if let Some(driver) = selection
        .driver
        .as_mut()
        .filter(|driver| driver.method == Method::Repository)
    {
        driver.method = Method::Packages;
    }
    let additional = selection
        .toolkits
        .iter_mut()
        .map(|toolkit| &mut toolkit.cuda);
    for cuda in selection.cuda.iter_mut().chain(additional) {
        cuda.method = None;
    }
    selection
}

/// Whether a package's name or version may become a line of a file that apt reads.
fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.:~_^".contains(c))
}

/// The request for exactly this version.
fn exactly<V: Version + Display>(version: Option<V>) -> Result<Want<V>, LockError>
where
    Want<V>: FromStr<Err = VersionError>,
{
    let text = version.map_or_else(|| "none".to_owned(), |v| v.to_string());
    text.parse()
        .map_err(|e: VersionError| LockError::Malformed(e.to_string()))
}

fn exact_add_ons(
    selected: &BTreeMap<AddOnId, SelectedAddOn>,
) -> Result<BTreeMap<AddOnId, Want<AddOnVersion>>, LockError> {
    selected
        .iter()
        .map(|(id, chosen)| Ok((*id, exactly(Some(chosen.version))?)))
        .collect()
}

fn names_of_components(cuda: &SelectedCuda) -> Vec<String> {
    cuda.components
        .iter()
        .map(|component| component.name.clone())
        .collect()
}

/// The request for exactly a toolkit beside the default one.
fn additional(selected: &SelectedToolkit) -> Result<AdditionalToolkitRequest, LockError> {
    let locked = LockedLayers {
        cudnn: exactly(selected.cudnn.as_ref().map(|chosen| chosen.version))?,
        add_ons: exact_add_ons(&selected.add_ons)?,
        components: names_of_components(&selected.cuda),
    };
    Ok(AdditionalToolkitRequest {
        cuda: exactly(Some(selected.cuda.version))?,
        locked: Some(locked),
    })
}

/// All selected toolkits, the default one first.
fn toolkits(selection: &Selection) -> impl Iterator<Item = &SelectedCuda> {
    selection.cuda.iter().chain(
        selection
            .toolkits
            .iter()
            .skip(1)
            .map(|toolkit| &toolkit.cuda),
    )
}

/// All downloads of the plan, including those already done.
fn downloads(plan: &Plan) -> impl Iterator<Item = LockedArtifact> {
    plan.acts().filter_map(|act| match &act.operation {
        Operation::Download(Download {
            url,
            sha256,
            size,
            to,
        }) => Some(LockedArtifact {
            file: to.file_name()?.to_string_lossy().into_owned(),
            url: url.clone(),
            sha256: sha256.clone(),
            size: *size,
        }),
        _ => None,
    })
}

/// All downloads, including the runfiles and archives of versions already installed, because other
/// hosts need them.
fn artifacts(database: &Database, plan: &Plan) -> Vec<LockedArtifact> {
    let mut all: Vec<_> = downloads(plan).collect();
    let machine = &plan.host.machine.arch;
    let arch = cuda_arch(machine);
    for (cuda, release) in
        toolkits(&plan.selection).filter_map(|c| Some((c, database.component_release(c.version)?)))
    {
        all.extend(cuda.components.iter().filter_map(|c| {
            let part = release.components.iter().find(|part| part.name == c.name)?;
            locked(&release.artifact(part, part.archive(arch)?))
        }));
    }
    let steps = std::iter::once(StepId::InstallCuda).chain(
        toolkits(&plan.selection)
            .skip(1)
            .map(|cuda| StepId::InstallAdditionalCuda(cuda.version.series())),
    );
    let whole = toolkits(&plan.selection).zip(steps).filter(|(cuda, id)| {
        cuda.components.is_empty() && cuda.method.is_none() && !fetches(plan, *id)
    });
    for (chosen, _) in whole {
        all.extend(
            database
                .cuda_artifacts
                .iter()
                .find(|a| a.version == chosen.version && a.artifact.arch == arch)
                .and_then(|a| locked(&a.artifact)),
        );
    }
    let runfile = plan
        .selection
        .driver
        .as_ref()
        .filter(|d| d.method == Method::Runfile);
    if let Some(chosen) = runfile.filter(|_| !fetches(plan, StepId::InstallDriver)) {
        let releases = database
            .drivers
            .iter()
            .filter(|d| d.version == chosen.version);
        all.extend(
            releases
                .flat_map(|d| &d.artifacts)
                .find(|a| a.variant == DriverVariant::Full && a.artifact.arch == *machine)
                .and_then(|a| locked(&a.artifact)),
        );
    }
    all.sort();
    all.dedup();
    all
}

fn fetches(plan: &Plan, id: StepId) -> bool {
    let mut acts = plan
        .steps
        .iter()
        .filter(|s| s.id == id)
        .flat_map(|s| &s.operations);
    acts.any(|a| matches!(a.operation, Operation::Download(_)))
}

fn locked(artifact: &Artifact) -> Option<LockedArtifact> {
    let (url, sha256) = (artifact.url?, artifact.sha256?);
    Some(LockedArtifact {
        file: artifact.file.to_string(),
        url: url.to_string(),
        sha256: sha256.to_string(),
        size: artifact.size,
    })
}
