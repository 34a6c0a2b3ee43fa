//! What only some machines have: WSL2's way to the driver of Windows, and a laptop's desktop on two
//! GPUs.

use gpusetup_host::{Facts, MachineKind, library_directories};
use gpusetup_resolve::WSL_LIBRARIES;
use gpusetup_system::System;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The parts of a machine that the facts lack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct MachineState {
    /// On WSL2, what Windows gives it.
    #[serde(default)]
    pub(crate) wsl: Option<Wsl>,
    /// On a laptop with two GPUs, what its desktop can use.
    #[serde(default)]
    pub(crate) hybrid: Option<Hybrid>,
}

/// What Windows gives WSL2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wsl {
    /// The GPU's device, `/dev/dxg`. None for a tree.
    pub(crate) device: Option<bool>,
    /// The CUDA library of the driver of Windows, `/usr/lib/wsl/lib/libcuda.so.1`.
    pub(crate) library: bool,
}

/// What the desktop of a laptop with two GPUs can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hybrid {
    /// The driver's library for OpenGL on Wayland and X11 is installed.
    pub(crate) graphics: bool,
    /// Mode setting is on in nvidia-drm. None if the module is not loaded.
    pub(crate) mode_setting: Option<bool>,
}

/// The driver's library that each vendor-neutral OpenGL loads.
const GRAPHICS: &str = "libEGL_nvidia.so.0";

pub(crate) fn machine(system: &System, facts: &Facts) -> Option<MachineState> {
    // Windows mounts nothing into a tree without a kernel.
    let runs = system.is_live() || system.exists("/proc/sys/kernel/osrelease");
    let wsl = (facts.machine.kind == MachineKind::Wsl2 && runs).then(|| Wsl {
        device: system.is_live().then(|| system.exists("/dev/dxg")),
        library: system.exists(Path::new(WSL_LIBRARIES).join("libcuda.so.1")),
    });
    let hybrid = (facts.is_hybrid() && facts.desktop.is_some()).then(|| Hybrid {
        graphics: library_directories()
            .iter()
            .any(|directory| system.exists(directory.join(GRAPHICS))),
        mode_setting: mode_setting(system),
    });
    (wsl.is_some() || hybrid.is_some()).then_some(MachineState { wsl, hybrid })
}

/// Only root may read it, so that a refusal is as unknown as a module that is not loaded.
fn mode_setting(system: &System) -> Option<bool> {
    let text = system
        .read_text("/sys/module/nvidia_drm/parameters/modeset")
        .ok()??;
    Some(text.trim() == "Y")
}
