//! Enabled repositories of NVIDIA's that are for another system than the host's.

use gpusetup_causes::Remedy;
use gpusetup_database::compat::{Database, Distribution, PackageRepository};
use gpusetup_host::{Facts, MachineKind};

/// In the address of each of NVIDIA's repositories, before the folder of the system that it is for.
const FOLDERS: &str = "compute/cuda/repos";
/// The folder for Ubuntu on WSL2.
const ON_WSL: &str = "wsl-ubuntu";

/// An enabled repository of NVIDIA's that is for another system or another architecture, where none
/// for this one is enabled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnotherSystem<'f> {
    pub(crate) address: &'f str,
    /// The address of the one for this host, if it is known.
    pub(crate) right: Option<String>,
}

impl AnotherSystem<'_> {
    /// Why nothing is taken from it.
    pub fn cause(&self, facts: &Facts) -> String {
        gpusetup_causes::another_systems(
            self.address,
            self.right.as_deref(),
            &facts.os.name,
            &facts.machine.arch,
        )
    }

    /// How to get rid of it.
    pub fn remedy(&self, facts: &Facts) -> Remedy {
        gpusetup_causes::disable_repository(
            self.address,
            self.right.is_some(),
            facts.os.package_manager,
        )
    }
}

/// A repository of another system, if there is one. Its packages are built for other kernels and
/// libraries, under the same names.
pub fn of_another_system<'f>(
    database: &Database,
    distribution: Option<&Distribution>,
    facts: &'f Facts,
) -> Option<AnotherSystem<'f>> {
    let mut enabled = facts
        .repositories
        .iter()
        .map(String::as_str)
        .filter(|line| line.contains(FOLDERS))
        .peekable();
    let first = *enabled.peek()?;
    // What suits a release that is not in the database is not known.
    let distribution = distribution.filter(|known| known.named_as.is_none())?;
    let arch = facts.machine.arch.as_str();
    let own: Vec<_> = own_repositories(database, distribution)
        .map(folder)
        .collect();
    let others = folders_of_others(database, arch);
    // dnf replaces variables when it reads the address.
    let is_any_right = enabled.any(|line| {
        let on_wsl = facts.machine.kind == MachineKind::Wsl2 && is_in(line, ON_WSL);
        let of_system = line.contains('$') || own.iter().any(|folder| is_in(line, folder));
        on_wsl || of_system && !others.iter().any(|folder| is_in(line, folder))
    });
    let is_anothers = !own.is_empty()
        || database
            .package_repositories
            .iter()
            .any(|other| is_in(first, folder(other)));
    let right =
        own_repositories(database, distribution).find_map(|repository| repository.url_for(arch));
    let address = first.split_whitespace().next().unwrap_or(first);
    (is_anothers && !is_any_right).then_some(AnotherSystem { address, right })
}

/// Whether a repository of NVIDIA's for this system is enabled.
pub fn has_own_repository(
    database: &Database,
    distribution: Option<&Distribution>,
    facts: &Facts,
) -> bool {
    facts.repositories.iter().any(|line| line.contains(FOLDERS))
        && of_another_system(database, distribution, facts).is_none()
}

/// Those that gpusetup can add on a distribution.
pub(crate) fn own_repositories<'a>(
    database: &'a Database,
    distribution: &'a Distribution,
) -> impl Iterator<Item = &'a PackageRepository> {
    let of_drivers = distribution
        .drivers
        .iter()
        .filter_map(|offer| offer.repository.adds.as_deref());
    let ids = of_drivers.chain(distribution.companion_repository.as_deref());
    ids.filter_map(|id| database.package_repository(id))
}

/// The folders of the architectures that are not the host's: `sbsa` on x86_64.
fn folders_of_others<'a>(database: &'a Database, arch: &str) -> Vec<&'a str> {
    let all = database
        .package_repositories
        .iter()
        .flat_map(|repository| &repository.archs);
    all.filter(|(of, _)| *of != arch)
        .map(|(_, folder)| folder.as_str())
        .collect()
}

/// The name of the system in a repository's address, `ubuntu2404`.
fn folder(repository: &PackageRepository) -> &str {
    repository.url.rsplit('/').next().unwrap_or_default()
}

fn is_in(line: &str, folder: &str) -> bool {
    line.split([' ', '/']).any(|part| part == folder)
}
