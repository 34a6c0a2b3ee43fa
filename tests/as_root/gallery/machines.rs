//! Machines that get their driver another way, laptops with two GPUs, and GPUs outside the case.

use super::case::{Case, Stage, sick, twin};

pub const CASES: &[Case] = &[
    // GS906: WSL2. Its healthy twin is among the drivers.
    sick(
        "a driver for Linux in WSL2",
        "wsl2",
        &["GS906 fail"],
        "GS906: sudo apt-get remove libcuda1",
    ),
    sick(
        "WSL2, and Windows gives it no GPU",
        "wsl2; rm $live/dev/dxg",
        &["GS906 fail"],
        "GS906: wsl.exe --update",
    )
    .on(Stage::Bare),
    sick(
        "WSL2, and no driver in Windows",
        "wsl2; rm /usr/lib/wsl/lib/libcuda.so.1",
        &["GS906 fail"],
        "GS906: wsl.exe --update",
    )
    .on(Stage::Bare),
    // GS907: Jetson. Its healthy twin is among the drivers.
    sick(
        "a driver for graphics cards on a Jetson",
        "jetson",
        &["GS907 fail"],
        "GS907: sudo apt-get remove libcuda1",
    ),
    // GS908: systems that are images.
    sick(
        "Silverblue without a driver",
        "os fedora 43 silverblue; touch /run/ostree-booted",
        &["GS908 fail", "GS501 fail < GS908"],
        "GS908: sudo rpm-ostree install",
    )
    .on(Stage::Bare),
    twin(
        "Silverblue whose image has the driver",
        &["GS908", "GS501"],
        "os fedora 43 silverblue; touch /run/ostree-booted",
    ),
    // GS912: a laptop's desktop on two GPUs.
    sick(
        "a laptop's desktop cannot use NVIDIA's GPU",
        "chassis 10; desktop",
        &["GS912 warn"],
        "GS912: sudo apt-get install",
    ),
    sick(
        "a laptop's displays on NVIDIA's GPU stay dark under Wayland",
        "chassis 10; desktop; touch $system/libEGL_nvidia.so.0; mode_setting N",
        &["GS912 warn"],
        "GS912: sudo gpusetup apply --profile driver --module-option nvidia_drm.modeset=1",
    ),
    twin(
        "a laptop's desktop on two GPUs",
        &["GS912"],
        "chassis 10; desktop; touch $system/libEGL_nvidia.so.0; mode_setting Y",
    ),
    twin(
        "a server with a desktop, and a second display adapter",
        &["GS912"],
        "chassis 23; desktop",
    ),
    // GS913: GPUs outside the case.
    sick(
        "a case for a GPU that nobody authorised",
        "enclosure 0",
        &["GS913 warn"],
        "GS913: boltctl list",
    ),
    twin(
        "a GPU outside the case",
        &["GS913"],
        "enclosure 1; echo removable >$gpu/removable",
    ),
    // GS914: DGX OS.
    sick(
        "DGX OS with a driver of no package",
        "os ubuntu 24.04; touch /etc/dgx-release; no_packages",
        &["GS914 warn"],
        "GS914: sudo apt update && sudo apt full-upgrade",
    ),
    twin(
        "DGX OS with the driver of its packages",
        &["GS914"],
        "os ubuntu 24.04; touch /etc/dgx-release",
    ),
];
