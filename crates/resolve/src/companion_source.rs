//! Where companions come from whose version does not depend on the driver's, such as nvlsm and
//! DCGM. Others come with the driver.

use super::another_system::{of_another_system, own_repositories};
use gpusetup_causes::Remedy;
use gpusetup_database::compat::{Companion, Database, Distribution, PackageRepository};
use gpusetup_database::version::{ComputeCapability, DriverVersion};
use gpusetup_host::Facts;

/// Where such a companion comes from on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompanionSource<'a> {
    /// These packages of a repository that is enabled.
    Enabled(Vec<String>),
    /// These packages of a repository that gpusetup can add.
    Addable(Vec<String>, &'a PackageRepository),
    /// The enabled repository does not offer this package.
    NotOffered(String),
    /// The enabled repository is for another system.
    OfAnotherSystem(String, Remedy),
    /// The host's repository has it, at this address, but gpusetup adds that only for a driver from
    /// it.
    WithDriver(String),
    /// gpusetup can add no repository for the host that has it. These of NVIDIA's have it, by the
    /// names of their systems.
    NotAddable(Vec<&'a str>),
}

impl<'a> CompanionSource<'a> {
    /// Where this companion comes from for a driver and a host whose oldest GPU has this compute
    /// capability; none if no package of it is known for them, or no repository for the machine.
    pub fn of(
        companion: &Companion,
        database: &'a Database,
        distribution: Option<&'a Distribution>,
        facts: &Facts,
        (driver, oldest): (DriverVersion, Option<ComputeCapability>),
    ) -> Option<Self> {
        let distribution = distribution?;
        let names = companion.packages_for(Some(distribution.package_manager), driver, oldest);
        let name = names.first()?;
        if let Some(other) = of_another_system(database, Some(distribution), facts) {
            return Some(Self::OfAnotherSystem(
                other.cause(facts),
                other.remedy(facts),
            ));
        }
        if companion
            .repository
            .as_ref()
            .is_some_and(|of| facts.has_enabled(&of.seen_as))
        {
            let is_offered = facts
                .offered
                .as_ref()
                .is_none_or(|all| all.contains_key(name));
            return Some(if is_offered {
                Self::Enabled(names)
            } else {
                Self::NotOffered(name.clone())
            });
        }
        if let Some(repository) = addable(database, distribution, facts).filter(|of| of.names(name))
        {
            return Some(Self::Addable(names, repository));
        }
        let arch = &facts.machine.arch;
        let mut own = own_repositories(database, distribution).filter(|of| of.names(name));
        if let Some(address) =
            own.find_map(|of| Some(format!("{}/{}", of.url, of.archs.get(arch)?)))
        {
            return Some(Self::WithDriver(address));
        }
        let others = with_package(database, name, arch);
        (!others.is_empty()).then_some(Self::NotAddable(others))
    }

    /// How to get it.
    pub fn remedy(&self, companion: &Companion, facts: &Facts) -> Remedy {
        let title = &companion.title;
        match self {
            Self::Enabled(names) => {
                let install = facts.os.package_manager.zip(names.first());
                let install =
                    install.map(|(manager, name)| gpusetup_causes::install(manager, &[name]));
                Remedy::new(format!("install {title} from NVIDIA's repository"), install)
            }
            Self::Addable(..) => {
                let text = format!("have gpusetup add NVIDIA's repository for {title} alone");
                Remedy::new(text, ["sudo gpusetup apply --profile driver"])
            }
            Self::NotOffered(name) => Remedy::new(gpusetup_causes::not_offered(name), NONE),
            Self::OfAnotherSystem(why, remedy) => Remedy {
                text: format!("{why}; {}", remedy.text),
                commands: remedy.commands.clone(),
            },
            Self::WithDriver(address) => {
                Remedy::new(gpusetup_causes::enable_own_repository(title, address), NONE)
            }
            Self::NotAddable(folders) => {
                Remedy::new(gpusetup_causes::in_other_repositories(title, folders), NONE)
            }
        }
    }
}

const NONE: [&str; 0] = [];

/// The repository for companions that gpusetup can add on this host.
fn addable<'a>(
    database: &'a Database,
    distribution: &Distribution,
    facts: &Facts,
) -> Option<&'a PackageRepository> {
    let repository = database.package_repository(distribution.companion_repository.as_deref()?)?;
    let is_read = facts
        .os
        .package_manager
        .is_none_or(|manager| manager == repository.package_manager);
    (is_read && repository.archs.contains_key(&facts.machine.arch)).then_some(repository)
}

/// The folders of the repositories that have a package for a machine.
fn with_package<'a>(database: &'a Database, name: &str, arch: &str) -> Vec<&'a str> {
    let repositories = database
        .package_repositories
        .iter()
        .filter(|of| of.archs.contains_key(arch) && of.names(name));
    let mut folders: Vec<_> = repositories
        .filter_map(|repository| repository.url.rsplit('/').next())
        .collect();
    folders.sort_unstable();
    folders
}
