//! What joins GPUs.

use crate::doctor::{Answer, Evidence, Verdict};
use crate::operation::Operation;

pub fn manager(seen: &Evidence) -> Verdict {
    let facts = &seen.facts;
    let Some(driver) = facts.driver.as_ref().filter(|_| !facts.nvswitches.is_empty()) else {
        return Verdict::skip("there is no NVSwitch, or no driver for it");
    };
    let switches = format!("{} NVSwitches", facts.nvswitches.len());
    let version = driver.version;
    let install = |cause: String| {
        Verdict::fail(cause).alone().mend(
            format!("install Fabric Manager {version}, to the last digit, and start it"),
            ["sudo systemctl enable --now nvidia-fabricmanager"],
        )
    };
    let verdict = match &seen.fabric_manager {
        Answer::NotAsked(why) => Verdict::skip(why.clone()),
        Answer::Failed(why) => install(format!("CUDA does not start without Fabric Manager here, and {why}")),
        Answer::Is(manager) if manager.version != version => {
            install(format!("Fabric Manager is {}, and the driver is {version}: it refuses to start", manager.version))
        }
        Answer::Is(manager) if manager.active == Some(false) => Verdict::fail(
            "Fabric Manager is installed and does not run: CUDA says \"system not yet initialized\" (802)",
        )
        .repair("start it", [Operation::Service { unit: "nvidia-fabricmanager.service".to_owned(), enabled: true }]),
        Answer::Is(manager) => Verdict::pass().saw(format!("Fabric Manager {}", manager.version)),
    };
    verdict.saw(switches)
}
