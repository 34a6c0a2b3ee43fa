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
use std::time::{Duration, Instant};

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
                let mut argv = vec!["systemctl", "try-restart"];
                // It may wait for a unit that waits for this one.
                argv.extend(is_resuming(on).then_some("--no-block"));
                argv.push(&self.unit);
                run(on, argv)?;
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
    let starts = if is_resuming(on) {
        let start = ["systemctl", "start", "--no-block", unit];
        on.run(&Program::new(start).undisturbed())?.succeeded() && settles(on, unit)?
    } else {
        says(on, "start", unit)?
    };
    Ok(if starts {
        Vec::new()
    } else {
        vec![format!("{unit}, which does not start before a reboot")]
    })
}

/// The end of the control group of the unit that goes on after a reboot.
const RESUME: &str = "/gpusetup-resume.service";

/// How long a unit may take to start there.
const MAX_START: Duration = Duration::from_secs(60);

/// How long it may wait there before it counts as one that waits for the end of gpusetup.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Whether this runs in the unit that goes on after a reboot. Others may be ordered after it, also
/// behind a third one: who waits there for such a unit waits for its own end.
fn is_resuming(on: &System) -> bool {
    let groups = on.read_text("/proc/self/cgroup").ok().flatten();
    groups.is_some_and(|groups| groups.lines().any(|group| group.ends_with(RESUME)))
}

/// Waits until a unit has started, or until it is clear that it starts later. False if it failed.
fn settles(on: &System, unit: &str) -> io::Result<bool> {
    let began = Instant::now();
    loop {
        let asked = on.run(&Program::new(["systemctl", "is-active", unit]).undisturbed())?;
        let most = match asked.text.trim() {
            "active" => return Ok(true),
            "failed" => return Ok(false),
            "activating" | "reloading" => MAX_START,
            _ => MAX_WAIT,
        };
        if began.elapsed() > most {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Enables or disables it.
pub(crate) fn set(on: &System, unit: &str, enabled: bool) -> Result<(), ProgramError> {
    let mut argv = vec!["systemctl", if enabled { "enable" } else { "disable" }];
    // In a tree nothing runs that could be started.
    if on.is_live() {
        argv.push("--now");
    }
    let waits = on.is_live() && enabled && is_resuming(on);
    if waits {
        argv.push("--no-block");
    }
    argv.push(unit);
    run(on, argv)?;
    if waits && !settles(on, unit).map_err(ProgramError::start(unit))? {
        // The same again tells why.
        run(on, ["systemctl", "start", unit])?;
    }
    Ok(())
}
