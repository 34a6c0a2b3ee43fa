//! The step that gives the guest driver of virtual GPUs (vGPU) the token with which it gets a
//! licence.

use super::context::{StepContext, skipped, step};
use super::{Act, Step, StepId};
use gpusetup_host::Facts;
use gpusetup_operation::{CopyFile, Run, Service};
use gpusetup_resolve::{Conflict, Request, Resolution};
use gpusetup_system::Node;
use gpusetup_text::ids::CheckId;
use gpusetup_text::paths::{LICENCE_UNITS, VGPU_TOKEN};
use std::path::Path;

const TITLE: &str = "Give the guest driver its licence token";
/// The daemon that gets the licence; the guest driver brings it.
const DAEMON: &str = "nvidia-gridd.service";
/// As NVIDIA's "Virtual GPU Client Licensing User Guide" has it.
const MODE: u32 = 0o744;

/// The step that places the token, and has the daemon read it.
pub(crate) fn vgpu_licence(context: &StepContext) -> Step {
    let Some(token) = &context.request.settings.vgpu_token else {
        return skipped(StepId::VgpuLicence, TITLE, "it was not requested");
    };
    if context.chosen.driver.is_none() {
        return skipped(StepId::VgpuLicence, TITLE, "this plan installs no driver");
    }
    let path = Path::new(VGPU_TOKEN);
    let copy = CopyFile {
        from: token.from.clone(),
        sha256: token.sha256.clone(),
        path: path.to_owned(),
        mode: MODE,
    };
    let satisfied = context
        .facts
        .node(path)
        .is_some_and(|node| copy.is_copy(node));
    let enable = Service {
        unit: DAEMON.to_owned(),
        enabled: true,
        restart: false,
    };
    let mut acts = vec![
        Act {
            operation: copy.into(),
            satisfied,
        },
        Act {
            operation: enable.into(),
            satisfied,
        },
    ];
    if !context.facts.machine.is_offline_root {
        acts.push(Act {
            operation: Run::new(["systemctl", "try-restart", DAEMON], 60).into(),
            satisfied,
        });
    }
    step(
        StepId::VgpuLicence,
        TITLE,
        "a virtual GPU without a licence slows down after some time",
        acts,
    )
}

/// Refuses a token for a driver that cannot use it.
pub(crate) fn not_without_guest_driver(
    facts: &Facts,
    request: &Request,
    chosen: &Resolution,
) -> Result<(), Conflict> {
    let Some(driver) = chosen
        .driver
        .as_ref()
        .filter(|_| request.settings.vgpu_token.is_some())
    else {
        return Ok(());
    };
    // Facts of older gpusetup versions do not have the units.
    let lacks_daemon = LICENCE_UNITS
        .iter()
        .all(|path| matches!(facts.node(Path::new(path)), Some(Node::Absent)));
    if driver.is_kept() && !lacks_daemon
        || request
            .driver_file
            .as_ref()
            .is_some_and(|file| file.is.guest)
    {
        return Ok(());
    }
    let sentence = format!(
        "driver {} for {} is no guest driver, so it takes no licence token (--vgpu-token)",
        driver.version, facts.os.name
    );
    Err(Conflict::blocked(CheckId::GS521, sentence)
        .hint("name the guest driver: --driver-file NVIDIA-Linux-…-grid.run"))
}
