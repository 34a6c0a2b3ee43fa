//! Enabled repositories of NVIDIA's that are for another system than the host's.

use crate::compat::{Database, Distribution, PackageRepository};
use crate::host::{Facts, MachineKind};

/// In the address of each of NVIDIA's repositories, before the folder of the system that it is for.
const FOLDERS: &str = "compute/cuda/repos";
/// The folder for Ubuntu on WSL2.
const ON_WSL: &str = "wsl-ubuntu";

/// An enabled repository of NVIDIA's that is for another system, if none for this one is enabled, and the address of this one's, if
/// it is known. Its packages are built for other kernels and libraries, under the same names.
pub fn of_another_system<'a, 'f>(
    database: &'a Database,
    distribution: Option<&'a Distribution>,
    facts: &'f Facts,
) -> Option<(&'f str, Option<&'a str>)> {
    let mut enabled = facts.repositories.iter().map(String::as_str).filter(|line| line.contains(FOLDERS)).peekable();
    let first = *enabled.peek()?;
    // What suits a release that is not in the database is not known.
    let distribution = distribution.filter(|known| known.named_as.is_none())?;
    let own: Vec<_> = own_repositories(database, distribution).map(folder).collect();
    // dnf replaces variables when it reads the address.
    let is_right = |line: &str| {
        let on_wsl = facts.machine.kind == MachineKind::Wsl2 && is_in(line, ON_WSL);
        on_wsl || line.contains('$') || own.iter().any(|folder| is_in(line, folder))
    };
    let is_anothers = !own.is_empty() || database.package_repositories.iter().any(|other| is_in(first, folder(other)));
    let right = own_repositories(database, distribution).next().map(|repository| repository.url.as_str());
    (is_anothers && !enabled.any(is_right)).then_some((first, right))
}

/// Whether a repository of NVIDIA's for this system is enabled.
pub fn has_own_repository(database: &Database, distribution: Option<&Distribution>, facts: &Facts) -> bool {
    facts.repositories.iter().any(|line| line.contains(FOLDERS))
        && of_another_system(database, distribution, facts).is_none()
}

/// Those that gpusetup can add on a distribution.
pub fn own_repositories<'a>(
    database: &'a Database,
    distribution: &'a Distribution,
) -> impl Iterator<Item = &'a PackageRepository> {
    let of_drivers = distribution.drivers.iter().filter_map(|offer| offer.repository.adds.as_deref());
    let ids = of_drivers.chain(distribution.companion_repository.as_deref());
    ids.filter_map(|id| database.package_repository(id))
}

/// The name of the system in a repository's address, `ubuntu2404`.
fn folder(repository: &PackageRepository) -> &str {
    repository.url.rsplit('/').next().unwrap_or_default()
}

fn is_in(line: &str, folder: &str) -> bool {
    line.split([' ', '/']).any(|part| part == folder)
}
