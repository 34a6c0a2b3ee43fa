//! The services of a host that use GPUs or list them for others.

use crate::compat::{Database, MigRole};
use crate::plan::units_of;
use crate::system::{Program, System};

/// The units with such a role that run.
pub(crate) fn running(
    system: &System,
    database: &Database,
    has_role: impl Fn(MigRole) -> bool,
) -> Vec<String> {
    units_of(database, has_role)
        .filter(|unit| is_active(system, unit))
        .map(str::to_owned)
        .collect()
}

/// The units that list instances for others, as far as the host has them.
pub(crate) fn listers(system: &System, database: &Database) -> Vec<String> {
    units_of(database, |role| role == MigRole::Lister)
        .filter(|unit| succeeds(system, &["systemctl", "cat", unit]))
        .map(str::to_owned)
        .collect()
}

fn is_active(system: &System, unit: &str) -> bool {
    succeeds(system, &["systemctl", "is-active", unit])
}

/// Whether a program ends well.
pub(crate) fn succeeds(system: &System, argv: &[&str]) -> bool {
    let asked = system.run(&Program::new(argv.iter().copied()).undisturbed());
    asked.is_ok_and(|output| output.succeeded())
}
