//! What NVIDIA's libraries say: by those that stand in for them, whose answers are lines in
//! /live/answers.

use super::case::{Case, sick, twin};

pub const CASES: &[Case] = &[
    // GS508: NVML can read every GPU.
    sick(
        "the driver's library does not start",
        "echo nvmlInit_v2=999 >$live/answers",
        &["GS508 fail"],
        "GS508: sudo dmesg",
    ),
    twin(
        "a GPU that has no error correction and no sensor of its power",
        &["GS508", "GS904"],
        "printf '%s=3\\n' nvmlDeviceGetEccMode nvmlDeviceGetRemappedRows nvmlDeviceGetPowerUsage >$live/answers",
    ),
    // GS505: CUDA computes.
    sick(
        "CUDA's kernel module is stuck",
        "echo cuInit=999 >$live/answers",
        &["GS505 fail"],
        "GS505: sudo modprobe -r nvidia_uvm",
    ),
    sick(
        "a GPU computes wrongly",
        "echo 0.wrong=1 >$live/answers",
        &["GS505 fail"],
        "GS505: dcgmi diag",
    ),
    sick(
        "the driver was updated under a program's feet",
        "printf '%s\\n' nvmlInit_v2=18 cuInit=803 >$live/answers",
        &["GS501 fail", "GS505 fail < GS501"],
        "GS501: sudo reboot",
    ),
    twin(
        "GPUs whose memory others have filled",
        &["GS505", "GS710"],
        "echo cuMemAlloc_v2=2 >$live/answers",
    ),
    // GS904: memory, heat, power.
    sick(
        "rows of the memory wait for a reset",
        "echo '0.rows=0 1 1 0' >$live/answers",
        &["GS904 warn"],
        "GS904: sudo nvidia-smi --gpu-reset",
    ),
    twin(
        "rows of the memory that others stand in for",
        &["GS904"],
        "echo '0.rows=0 1 0 0' >$live/answers",
    ),
    // GS905: persistence.
    sick(
        "the driver drops an A100 that nobody uses",
        "echo persistence=0 >$live/answers; install -D /dev/null /etc/systemd/system/nvidia-persistenced.service",
        &["GS905 warn"],
        "GS905: sudo systemctl enable --now nvidia-persistenced.service",
    ),
    sick(
        "the driver drops an A100, and came without its daemon",
        "echo persistence=0 >$live/answers",
        &["GS905 warn"],
        "GS905: sudo nvidia-smi -pm 1",
    ),
    twin(
        "a screen that keeps the driver up",
        &["GS905"],
        "printf '%s\\n' persistence=0 display=1 >$live/answers",
    ),
    // GS521: settings.
    sick(
        "a power limit that somebody raised after it was applied",
        "settings '[{\"power-limit\":300000}]'",
        &["GS521 warn"],
        "GS521: sudo nvidia-smi -i 0000:17:00.0 -pl 300",
    ),
    twin(
        "settings that are in force",
        &["GS521"],
        "settings '[{\"power-limit\":300000},{\"gpu-clocks\":null}]'; echo power_limit=300000 >$live/answers",
    ),
    // GS802: MIG.
    sick(
        "MIG was switched on, and waits for a reset",
        "echo '0.mig=0 1 0' >$live/answers",
        &["GS802 warn"],
        "GS802: sudo nvidia-smi --gpu-reset",
    ),
    twin(
        "a GPU that is divided",
        &["GS802"],
        "echo '0.mig=1 1 2' >$live/answers",
    ),
    // GS707: the toolkit and the driver.
    sick(
        "a default toolkit that is too new for the driver",
        "printf '%s\\n' driver=470.256.02 cuda=11040 >$live/answers",
        &["GS707 fail"],
        "GS707: gpusetup plan --upgrade",
    ),
    twin(
        "a default toolkit of the driver's major version",
        &["GS707"],
        "printf '%s\\n' driver=525.147.05 cuda=12000 >$live/answers",
    ),
    // GS710: cuDNN computes correctly.
    sick(
        "cuDNN does not find its parts",
        "echo cudnnCreate=1008 >$live/answers",
        &["GS710 fail"],
        "GS710: ldconfig -p",
    ),
];
