//! `reboot`: the host reboots, and the plan continues afterwards.

use super::valid::Valid;
use super::{Action, Counts, Standing, valid};
use gpusetup_system::System;
use gpusetup_text::text::quoted_path;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// Reboots the host; the plan continues afterwards.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Reboot {
    /// The certificate that somebody at the console enrolls during this reboot. None if nobody
    /// needs to be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrolls: Option<PathBuf>,
}

impl Action for Reboot {
    fn stands(&self, _: &System, _: bool) -> io::Result<Standing> {
        Ok(Standing::Needed)
    }

    fn describe(&self) -> String {
        match &self.enrolls {
            Some(certificate) => {
                format!("reboot, and enrol {} at the console", certificate.display())
            }
            None => "reboot".to_owned(),
        }
    }

    fn shell(&self) -> String {
        let (console, check) = match &self.enrolls {
            Some(certificate) => {
                let path = quoted_path(certificate);
                let refused = "echo 'The key was not enrolled at the console.' >&2";
                (
                    " and choose Enroll MOK at the console",
                    format!(
                        "mokutil --test-key {path} | grep -q 'already enrolled' || {{ {refused}; exit 5; }}\n"
                    ),
                )
            }
            None => ("", String::new()),
        };
        format!(
            "if [ \"${{1:-}}\" != --rebooted ]; then\n    echo 'Reboot now{console}, then run this script again with \
             --rebooted.'\n    exit 3\nfi\n{check}"
        )
    }

    fn counts(&self) -> Counts {
        Counts {
            reboots: 1,
            ..Counts::default()
        }
    }

    fn by_hand(&self) -> Option<String> {
        Some("sudo reboot".to_owned())
    }

    fn valid(&self, _: &Path) -> Valid {
        let Self { enrolls } = self;
        valid::paths(enrolls)
    }
}
