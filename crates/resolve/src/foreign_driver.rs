//! A driver that someone installed on a system that has its own: WSL2 has that of Windows, and a
//! Jetson that of its board.
use gpusetup_host::{Facts, InstalledDriver, Origin};
use gpusetup_text::text::quoted;

/// The folder with the libraries of the driver of Windows in WSL2.
pub const WSL_LIBRARIES: &str = "/usr/lib/wsl/lib";

/// A driver that someone installed here, not the system's own.
pub fn installed_by_hand(facts: &Facts) -> Option<&InstalledDriver> {
    facts
        .driver
        .as_ref()
        .filter(|driver| matches!(driver.origin, Origin::Dpkg | Origin::Rpm | Origin::Runfile))
}

/// How to remove it: by its uninstaller, or the package that shows it with those that need it.
pub fn removal_by_hand(facts: &Facts, driver: &InstalledDriver) -> String {
    if driver.origin == Origin::Runfile {
        return gpusetup_causes::remove_runfile().commands.join(" && ");
    }
    let remove = gpusetup_packages::of_host(facts.os.package_manager)
        .by_hand
        .remove;
    let package = driver
        .evidence
        .strip_prefix("package ")
        .and_then(|rest| rest.split(' ').next());
    format!("sudo {remove} {}", quoted(package.unwrap_or("PACKAGE")))
}

/// What is wrong with a driver for Linux in WSL2.
pub fn linux_driver_in_wsl2(driver: &InstalledDriver) -> String {
    format!(
        "driver {} for Linux is installed in WSL2: programs load its libraries, which have no device here, and not those of \
         Windows in {WSL_LIBRARIES}",
        driver.version
    )
}
