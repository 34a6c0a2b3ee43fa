//! `service`: a unit enabled or disabled; started or stopped too where systemd runs.

use super::program::{ProgramError, judge};
use crate::system::{Program, System};

/// Whether it is so already: enabled, and running where systemd runs; or neither.
pub fn stands(on: &System, unit: &str, enabled: bool) -> std::io::Result<bool> {
    Ok(is_enabled(on, unit)? == enabled && (!on.is_live() || says(on, "is-active", unit)? == enabled))
}

/// Whether it is enabled.
pub fn is_enabled(on: &System, unit: &str) -> std::io::Result<bool> {
    says(on, "is-enabled", unit)
}

fn says(on: &System, verb: &str, unit: &str) -> std::io::Result<bool> {
    Ok(on.run(&Program::new(["systemctl", verb, unit]).undisturbed())?.succeeded())
}

/// Enables or disables it.
pub fn set(on: &System, unit: &str, enabled: bool) -> Result<(), ProgramError> {
    let mut argv = vec!["systemctl", if enabled { "enable" } else { "disable" }];
    // In a tree nothing runs that could be started.
    if on.is_live() {
        argv.push("--now");
    }
    argv.push(unit);
    let name = argv.join(" ");
    let output = on
        .run(&Program::new(argv).undisturbed())
        .map_err(|source| ProgramError::Start { program: name.clone(), source })?;
    judge(&name, &output, None)
}
