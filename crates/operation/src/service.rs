//! `service`: a unit enabled or disabled; started or stopped too if systemd runs. Or one that runs
//! is restarted.

use super::program::{ProgramError, judge, run};
use super::undo::Undo;
use super::valid::Valid;
use super::{Action, Completion, Counts, Notify, OperationError, Standing, Work, valid};
use gpusetup_system::{Program, System};
use gpusetup_text::text::quoted;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// Enables or disables a unit, and starts or stops it where systemd runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// The systemd unit.
    pub unit: String,
    /// Whether the unit is to run, now and at every boot.
    pub enabled: bool,
    /// Only restart the unit if it runs, so that it reads its configuration again. Whether it is
    /// enabled is not touched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restart: bool,
}

impl Service {
    /// A unit that is to run, now and at every boot.
    pub fn start(unit: impl Into<String>) -> Self {
        Self {
            unit: unit.into(),
            enabled: true,
            restart: false,
        }
    }

    /// A unit that reads its configuration again, if it runs.
    pub fn restart(unit: impl Into<String>) -> Self {
        Self {
            restart: true,
            ..Self::start(unit)
        }
    }

    /// The same after the file of the unit was written: one that is active is to run again, with
    /// what the file says now.
    pub fn shell_again(&self) -> String {
        let unit = quoted(&self.unit);
        format!("systemctl daemon-reload\nsystemctl enable {unit}\nsystemctl restart {unit}\n")
    }

    fn verb(&self) -> &'static str {
        match (self.restart, self.enabled) {
            (true, _) => "try-restart",
            (false, true) => "enable",
            (false, false) => "disable",
        }
    }
}

impl Action for Service {
    fn completion(&self) -> Completion {
        Completion::Sync
    }

    fn stands(&self, on: &System, planned: bool) -> io::Result<Standing> {
        if self.restart {
            return Ok(Standing::satisfied_if(planned));
        }
        let enabled = is_enabled(on, &self.unit)? == self.enabled;
        Ok(Standing::satisfied_if(
            enabled && (!on.is_live() || says(on, "is-active", &self.unit)? == self.enabled),
        ))
    }

    fn intend(&self, on: &System, _: &mut Work) -> Result<Vec<Undo>, OperationError> {
        if self.restart {
            return Ok(vec![Undo::Restart {
                unit: self.unit.clone(),
            }]);
        }
        Ok(vec![Undo::Unit {
            unit: self.unit.clone(),
            enabled: is_enabled(on, &self.unit)?,
        }])
    }

    fn perform(&self, on: &System, _: &mut Work, _: Notify) -> Result<(), OperationError> {
        if self.restart {
            if on.is_live() {
                run(on, ["systemctl", "try-restart", &self.unit])?;
            }
            return Ok(());
        }
        Ok(set(on, &self.unit, self.enabled)?)
    }

    fn describe(&self) -> String {
        if self.restart {
            return format!("restart {}", self.unit);
        }
        format!("{} {}", self.verb(), self.unit)
    }

    fn shell(&self) -> String {
        let now = if self.restart { "" } else { "--now " };
        format!("systemctl {} {now}{}\n", self.verb(), quoted(&self.unit))
    }

    fn counts(&self) -> Counts {
        Counts {
            change: 1,
            ..Counts::default()
        }
    }

    fn touched(&self) -> Vec<PathBuf> {
        vec!["/etc".into()]
    }

    fn by_hand(&self) -> Option<String> {
        Some(format!("sudo {}", self.shell().trim_end()))
    }

    fn valid(&self, _: &Path) -> Valid {
        let Self {
            unit: name,
            enabled: _,
            restart: _,
        } = self;
        valid::unit(name)
    }
}

/// Whether it is enabled.
fn is_enabled(on: &System, unit: &str) -> std::io::Result<bool> {
    says(on, "is-enabled", unit)
}

fn says(on: &System, verb: &str, unit: &str) -> std::io::Result<bool> {
    Ok(on
        .run(&Program::new(["systemctl", verb, unit]).undisturbed())?
        .succeeded())
}

/// Restarts a unit that runs, with the configuration that was put back; names it if it does not
/// start again.
pub(crate) fn restart(on: &System, unit: &str) -> io::Result<Vec<String>> {
    if !on.is_live() || !says(on, "is-active", unit)? || says(on, "restart", unit)? {
        return Ok(Vec::new());
    }
    Ok(vec![format!("{unit}, which does not start again")])
}

/// Gives a unit back the state that it had; names it if it does not start: one that uses a driver
/// starts only with the module of its version.
pub(crate) fn restore(on: &System, unit: &str, enabled: bool) -> io::Result<Vec<String>> {
    if !enabled || !on.is_live() {
        set(on, unit, enabled).map_err(io::Error::other)?;
        return Ok(Vec::new());
    }
    let enable = on.run(&Program::new(["systemctl", "enable", unit]).undisturbed())?;
    judge("systemctl enable", &enable, None).map_err(io::Error::other)?;
    let starts = says(on, "start", unit)?;
    Ok(if starts {
        Vec::new()
    } else {
        vec![format!("{unit}, which does not start before a reboot")]
    })
}

/// Enables or disables it.
pub(crate) fn set(on: &System, unit: &str, enabled: bool) -> Result<(), ProgramError> {
    let mut argv = vec!["systemctl", if enabled { "enable" } else { "disable" }];
    // In a tree nothing runs that could be started.
    if on.is_live() {
        argv.push("--now");
        // Gpusetup's own units may be ordered after the one that it goes on in after a reboot, and
        // whoever waits for them there would wait for ever.
        if unit.starts_with("gpusetup-") {
            argv.push("--no-block");
        }
    }
    argv.push(unit);
    run(on, argv)
}
