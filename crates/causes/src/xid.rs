//! What to do about the errors that the driver logs for a GPU (Xids).

use super::Remedy;
use gpusetup_database::compat::XidAction;
use gpusetup_explain::translation::words::{FOLLOW, REBOOT_FOR_SWITCH, filled};
use gpusetup_text::text::quoted;

/// The list in which NVIDIA describes each Xid.
pub const CATALOG: &str = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html";

/// What helps against Xid `number` of the GPU at this bus address. None if nothing needs to be
/// done.
pub fn remedy(number: u16, action: XidAction, gpu: &str) -> Option<Remedy> {
    const NONE: [&str; 0] = [];
    Some(match action {
        XidAction::Nothing => return None,
        XidAction::RestartApplication => Remedy::new(
            "restart the program that it ended; if other programs get it too, suspect the GPU",
            NONE,
        ),
        XidAction::ResetGpu => Remedy::new(
            "stop the programs that use the GPU, then reset it; reboot if the reset fails",
            [format!("sudo nvidia-smi --gpu-reset -i {}", quoted(gpu))],
        ),
        XidAction::Reboot => Remedy::new(
            "reboot; if the error returns, check power, cooling and the slot",
            ["sudo reboot"],
        ),
        XidAction::AsLogged => Remedy::new(
            "do what the message names after `to`: stop the programs that use the GPU, then reset it or reboot; the error \
             behind it is in the lines before",
            [format!("sudo nvidia-smi --gpu-reset -i {}", quoted(gpu))],
        ),
        XidAction::CheckHardware => Remedy::new("check the power cables of the board", NONE),
        XidAction::Update => Remedy::new(
            "update the driver and the firmware",
            ["gpusetup plan --upgrade"],
        ),
        XidAction::Workflow | XidAction::AskNvidia => unknown(number),
    })
}

/// The name of an action whose remedy is the same for each Xid.
pub fn name(action: XidAction) -> Option<&'static str> {
    Some(match action {
        XidAction::RestartApplication => "restart-application",
        XidAction::ResetGpu => "reset-gpu",
        XidAction::Reboot => "reboot",
        XidAction::AsLogged => "as-logged",
        XidAction::CheckHardware => "check-hardware",
        XidAction::Update => "update",
        XidAction::Nothing | XidAction::Workflow | XidAction::AskNvidia => return None,
    })
}

/// What helps against an Xid for which nothing more is known.
pub fn unknown(number: u16) -> Remedy {
    Remedy::new::<&str>(
        filled(
            FOLLOW,
            &[("number", &number.to_string()), ("list", CATALOG)],
        ),
        [],
    )
}

/// What helps against a fatal error of an NVSwitch.
pub fn of_switch() -> Remedy {
    Remedy::new(REBOOT_FOR_SWITCH, ["sudo reboot"])
}
