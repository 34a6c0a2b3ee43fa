//! Identifies systems that share packages and files built for their kind of machine.

use super::Facts;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A system identified by its packages: all with the same value can use the same ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct SystemId {
    /// The `ID` in os-release: `debian`.
    pub os: String,
    /// The `VERSION_ID` in os-release: `12`.
    pub version: String,
    /// The machine, as `uname -m` prints it: `x86_64`.
    pub arch: String,
}

impl SystemId {
    /// The id of a host.
    pub fn of(facts: &Facts) -> Self {
        Self {
            os: facts.os.id.clone(),
            version: facts.os.version.clone(),
            arch: facts.machine.arch.clone(),
        }
    }
}

impl fmt::Display for SystemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} on {}", self.os, self.version, self.arch)
    }
}
