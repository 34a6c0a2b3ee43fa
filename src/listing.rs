//! What is installed on a host: the driver, toolkits and add-ons; who installed each, how much
//! space it takes, and which toolkit is the default one.

use crate::apply::OwnInstallations;
use crate::compat::{AddOnId, Database};
use crate::host::{AddOnFiles, Facts, InstalledDriver, Origin, Toolkit};
use crate::packages::owners;
use crate::system::System;
use crate::version::{AddOnVersion, CudaVersion, DriverVersion};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The schema that [`Listing`] is printed in.
pub(crate) const SCHEMA: &str = "gpusetup.list/1";

/// What is installed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Listing {
    /// The name and version of this format.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = SCHEMA)))]
    pub(crate) schema: &'static str,
    /// The version of gpusetup that listed it.
    pub(crate) tool: &'static str,
    /// Whether gpusetup's journal could be read, which only root may. Without it, `installed_by`
    /// names what gpusetup used.
    pub(crate) journal_read: bool,
    /// The drivers; several are a mixed installation.
    pub(crate) drivers: Vec<ListedDriver>,
    /// The toolkits, oldest first.
    pub(crate) toolkits: Vec<ListedToolkit>,
    /// Add-ons that are in no toolkit.
    pub(crate) add_ons: Vec<ListedAddOn>,
}

/// Who installed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Installer {
    /// Installed by gpusetup, in whichever way.
    Gpusetup,
    /// Packages that gpusetup did not install, as far as its journal could be read.
    Packages,
    /// NVIDIA's runfile, which gpusetup did not start, as far as its journal could be read.
    Runfile,
    /// Nothing tells who.
    Unknown,
}

/// How something was installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(rename = "Way")
)]
#[serde(rename_all = "lowercase")]
pub enum InstallMethod {
    /// From packages.
    Packages,
    /// From a runfile.
    Runfile,
    /// From archives.
    Archives,
    /// Nothing tells how.
    Unknown,
}

/// A driver.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub(crate) struct ListedDriver {
    /// The version, from the user-space library or the package.
    pub(crate) version: DriverVersion,
    /// Who installed it.
    pub(crate) installed_by: Installer,
    /// How it was installed.
    pub(crate) way: InstallMethod,
}

/// A toolkit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub(crate) struct ListedToolkit {
    /// The release; only the series if its files do not name it.
    pub(crate) version: CudaVersion,
    /// The directory of the toolkit.
    pub(crate) path: PathBuf,
    /// Whether the link `cuda` below the prefix leads to it.
    pub(crate) default: bool,
    /// Who installed it.
    pub(crate) installed_by: Installer,
    /// How it was installed.
    pub(crate) way: InstallMethod,
    /// Whether it has a compiler.
    pub(crate) has_nvcc: bool,
    /// Its components, if it was assembled from component archives.
    pub(crate) components: Option<Vec<String>>,
    /// The disk space of its directory in bytes, with its add-ons.
    pub(crate) bytes: u64,
    /// Some of it could not be looked at, so that it takes more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(
        feature = "schemas",
        schemars(skip_serializing_if = "std::ops::Not::not")
    )]
    pub(crate) at_least: bool,
    /// The add-ons in it.
    pub(crate) add_ons: Vec<ListedAddOn>,
}

/// An add-on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub(crate) struct ListedAddOn {
    /// Its name, such as `cudnn`.
    pub(crate) id: AddOnId,
    /// The name that people know.
    pub(crate) title: String,
    /// The version; none if its files do not tell it.
    pub(crate) version: Option<AddOnVersion>,
    /// The CUDA major version that it is for, if known.
    pub(crate) cuda_major: Option<u16>,
    /// The directory of its libraries.
    pub(crate) directory: PathBuf,
    /// Who installed it.
    pub(crate) installed_by: Installer,
    /// How it was installed.
    pub(crate) way: InstallMethod,
    /// The bytes of its libraries.
    pub(crate) bytes: u64,
}

impl Listing {
    /// Lists what the facts found, in the order in which people look for it.
    pub(crate) fn of(on: &System, database: &Database, facts: &Facts, prefix: &Path) -> Self {
        let own = OwnInstallations::of(on).ok();
        let search = Search {
            on,
            database,
            facts,
            own: own.as_ref(),
            packaged: packaged(on, facts),
        };
        let default = facts.default_toolkit(prefix);
        Self {
            schema: SCHEMA,
            tool: env!("CARGO_PKG_VERSION"),
            journal_read: own.is_some(),
            drivers: facts
                .driver
                .iter()
                .chain(&facts.other_drivers)
                .map(|driver| search.driver(driver))
                .collect(),
            toolkits: facts
                .toolkits
                .iter()
                .map(|toolkit| search.toolkit(toolkit, default))
                .collect(),
            add_ons: facts
                .add_on_files()
                .filter(|found| {
                    !facts
                        .toolkits
                        .iter()
                        .any(|t| found.directory.starts_with(&t.path))
                })
                .map(|found| search.add_on(found, None))
                .collect(),
        }
    }

    /// The disk space of all toolkits, and of the add-ons outside of them.
    pub(crate) fn bytes(&self) -> u64 {
        let toolkits = self.toolkits.iter().map(|toolkit| toolkit.bytes);
        toolkits
            .chain(self.add_ons.iter().map(|add_on| add_on.bytes))
            .sum()
    }
}

/// The paths of which neither the facts nor an installer tell the origin, and which packages own.
fn packaged(on: &System, facts: &Facts) -> BTreeSet<PathBuf> {
    let toolkits = facts
        .toolkits
        .iter()
        .filter(|t| t.origin == Origin::Unknown)
        .map(|t| t.path.clone());
    let unknown = facts
        .add_on_files()
        .filter(|found| found.origin == Origin::Unknown);
    let files = unknown.filter_map(|found| Some(found.directory.join(&found.files.first()?.name)));
    let paths: BTreeSet<_> = toolkits.chain(files).collect();
    let Some(manager) = facts.os.package_manager.filter(|_| !paths.is_empty()) else {
        return BTreeSet::new();
    };
    // What a package manager that does not answer knows stays unknown.
    owners(on, manager, &paths)
        .unwrap_or_default()
        .into_keys()
        .collect()
}

struct Search<'a> {
    on: &'a System,
    database: &'a Database,
    facts: &'a Facts,
    own: Option<&'a OwnInstallations>,
    packaged: BTreeSet<PathBuf>,
}

impl Search<'_> {
    fn driver(&self, driver: &InstalledDriver) -> ListedDriver {
        let way = way(driver.origin, false);
        // Packages are updated within their branch.
        let ours = self
            .own
            .and_then(|own| own.driver)
            .is_some_and(|planned| match way {
                InstallMethod::Packages => planned.branch == driver.version.branch,
                _ => planned == driver.version,
            });
        ListedDriver {
            version: driver.version,
            installed_by: installer(way, ours),
            way,
        }
    }

    fn toolkit(&self, toolkit: &Toolkit, default: Option<&Toolkit>) -> ListedToolkit {
        let way = way(toolkit.origin, self.packaged.contains(&toolkit.path));
        // No one else assembles toolkits from archives in this way.
        let ours = self
            .own
            .is_some_and(|own| own.toolkits.contains(&toolkit.path))
            || toolkit.origin == Origin::Archives;
        let usage = self.on.usage(&toolkit.path);
        let inside = self
            .facts
            .add_on_files()
            .filter(|found| found.directory.starts_with(&toolkit.path));
        ListedToolkit {
            version: toolkit.version,
            path: toolkit.path.clone(),
            default: default == Some(toolkit),
            installed_by: installer(way, ours),
            way,
            has_nvcc: toolkit.has_nvcc,
            components: toolkit.components.clone(),
            bytes: usage.bytes,
            at_least: usage.at_least,
            add_ons: inside
                .map(|found| self.add_on(found, Some(toolkit)))
                .collect(),
        }
    }

    fn add_on(&self, found: &AddOnFiles, toolkit: Option<&Toolkit>) -> ListedAddOn {
        let is_packaged = found
            .files
            .first()
            .is_some_and(|f| self.packaged.contains(&found.directory.join(&f.name)));
        let key = toolkit.map(|toolkit| (toolkit.path.clone(), found.add_on));
        let ours = self
            .own
            .zip(key)
            .is_some_and(|(own, key)| own.add_ons.contains(&key));
        let way = if ours {
            InstallMethod::Archives
        } else {
            way(found.origin, is_packaged)
        };
        ListedAddOn {
            id: found.add_on,
            title: self.database.add_on_title(found.add_on).to_owned(),
            version: found.version,
            cuda_major: found.cuda_major,
            directory: found.directory.clone(),
            installed_by: installer(way, ours),
            way,
            bytes: found.files.iter().map(|file| file.size).sum(),
        }
    }
}

fn way(origin: Origin, is_packaged: bool) -> InstallMethod {
    match origin {
        Origin::Dpkg | Origin::Rpm => InstallMethod::Packages,
        Origin::Runfile => InstallMethod::Runfile,
        Origin::Archives => InstallMethod::Archives,
        Origin::Unknown if is_packaged => InstallMethod::Packages,
        Origin::Unknown => InstallMethod::Unknown,
    }
}

fn installer(way: InstallMethod, ours: bool) -> Installer {
    match way {
        _ if ours => Installer::Gpusetup,
        InstallMethod::Packages => Installer::Packages,
        InstallMethod::Runfile => Installer::Runfile,
        InstallMethod::Archives | InstallMethod::Unknown => Installer::Unknown,
    }
}
