//! Python environments: frameworks whose build, packages or libraries are not for this host.

use super::case::{Case, sick, twin};

pub const CASES: &[Case] = &[
    // GS716: builds for the CPU.
    sick(
        "torch came from the index for the CPU",
        "venv /opt/venv; wheel torch 2.9.1+cpu",
        &["GS716 warn"],
        "GS716: /opt/venv/bin/pip install --force-reinstall torch==2.9.1 --index-url",
    ),
    twin("torch for CUDA 12.6 in a virtual environment", &["GS716", "GS717"], "venv /opt/venv; wheel torch 2.9.1+cu126"),
    twin("a virtual environment without a framework", &["GS716"], "venv /opt/venv; wheel numpy 2.1.0"),
    // GS717: builds for a CUDA that is newer than the driver.
    sick(
        "torch is built for a CUDA that the driver does not run",
        "venv /opt/venv; wheel torch 2.9.1+cu130",
        &["GS717 fail"],
        "GS717: /opt/venv/bin/pip install --force-reinstall torch==2.9.1 --index-url https://download.pytorch.org/whl/cu128",
    ),
    // GS718: builds without kernels for the GPU.
    sick(
        "torch has no kernels for this GPU",
        "venv /opt/venv; wheel torch 1.12.1+cu102",
        &["GS718 fail"],
        "GS718: /opt/venv/bin/pip install --force-reinstall",
    ),
    twin("an old torch with kernels for this GPU", &["GS718"], "venv /opt/venv; wheel torch 1.12.1+cu116"),
    // GS719: packages of NVIDIA's.
    sick(
        "another package took an older cuDNN than torch requires",
        "venv /opt/venv; wheel torch 2.9.1+cu126 'nvidia-cudnn-cu12==9.10.2.21'; wheel nvidia-cudnn-cu12 9.1.0.70",
        &["GS719 warn"],
        "GS719: /opt/venv/bin/pip install nvidia-cudnn-cu12==9.10.2.21",
    ),
    sick(
        "torch was installed without what it requires",
        "venv /opt/venv; wheel torch 2.9.1+cu126 'nvidia-cudnn-cu12==9.10.2.21; platform_system == \"Linux\"'",
        &["GS719 fail"],
        "GS719: /opt/venv/bin/pip install nvidia-cudnn-cu12==9.10.2.21",
    ),
    twin(
        "torch with what it requires on Linux",
        &["GS719"],
        "venv /opt/venv; wheel nvidia-cudnn-cu12 9.10.2.21
         wheel torch 2.9.1+cu126 'nvidia-cudnn-cu12==9.10.2.21' 'nvidia-nccl-cu12==2.27; platform_machine == \"aarch64\"'",
    ),
    // GS720: libraries of another place.
    sick(
        "torch's library has lost its RPATH, and finds the toolkit's runtime",
        "venv /opt/venv; wheel torch 2.9.1+cu126; torch_asks",
        &["GS720 warn"],
        "GS720: /opt/venv/bin/pip check",
    ),
    twin(
        "torch finds the runtime of its environment",
        &["GS720"],
        "venv /opt/venv; wheel torch 2.9.1+cu126; torch_asks -Wl,-rpath,'$ORIGIN/../../nvidia/cuda_runtime/lib'",
    ),
];
