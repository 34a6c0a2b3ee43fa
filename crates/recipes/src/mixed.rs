//! Hosts with the files of two drivers (GS401): what that comes to, for plan and doctor alike.

use gpusetup_causes::Remedy;
use gpusetup_host::{Facts, InstalledDriver, Origin};
use gpusetup_resolve::{ChosenDriver, Conflict};
use gpusetup_text::ids::CheckId;

/// What helps if two drivers are installed over each other: the runfile's can be removed, of a file
/// without a known installer the package manager says whose it is.
pub fn keep_one_driver(drivers: [&InstalledDriver; 2], facts: &Facts) -> Remedy {
    if has_runfile(drivers) {
        return gpusetup_causes::remove_runfile();
    }
    let evidence = drivers.map(|driver| driver.evidence.as_str());
    gpusetup_causes::left_over(
        evidence.into_iter().filter(|text| text.starts_with('/')),
        facts.os.package_manager,
    )
}

/// Whether a runfile installed one of them: no package manager replaces its files.
pub fn has_runfile(drivers: [&InstalledDriver; 2]) -> bool {
    drivers
        .into_iter()
        .any(|driver| driver.origin == Origin::Runfile)
}

/// Refuses such a host. New packages, and what finishes an interrupted package manager, replace the
/// files of an update that came half the way.
pub fn one_driver(facts: &Facts, chosen: &ChosenDriver) -> Result<(), Conflict> {
    let Some(drivers @ [one, other]) = facts.two_drivers() else {
        return Ok(());
    };
    let is_left_over = chosen.is_kept() && facts.unfinished_packages.is_empty();
    if !has_runfile(drivers) && !is_left_over {
        return Ok(());
    }
    let cause = gpusetup_causes::two_drivers(one.version, other.version);
    Err(Conflict::blocked(CheckId::GS401, cause).hint(keep_one_driver(drivers, facts).to_string()))
}
