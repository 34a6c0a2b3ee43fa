//! `reboot`: the host reboots, and the plan continues afterwards.

use super::Counts;
use serde::{Deserialize, Serialize};

/// Reboots the host; the plan continues afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(deny_unknown_fields)]
pub struct Reboot {}

impl Reboot {
    /// The lines of a script that ask for it.
    pub fn shell(self) -> String {
        "if [ \"${1:-}\" != --rebooted ]; then\n    echo 'Reboot now, then run this script again with --rebooted.'\n    exit 3\nfi\n"
            .to_owned()
    }

    /// What it adds and changes.
    pub fn counts(self) -> Counts {
        Counts { reboots: 1, ..Counts::default() }
    }
}
