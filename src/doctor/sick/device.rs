//! What NVIDIA's libraries say of the sound host.

use crate::doctor::device::*;

/// An A100 in good health.
pub fn nvml() -> Nvml {
    let gpu = NvmlGpu {
        address: Some("0000:17:00.0".into()),
        name: Some("NVIDIA A100-SXM4-40GB".into()),
        persistence: Some(true),
        display: Some(false),
        compute_mode: Some(ComputeMode::Default),
        processes: Some(0),
        mig: Some(Mig { enabled: false, pending: false, instances: 0 }),
        ecc: Some(Ecc { enabled: true, pending: true, uncorrected: Some(0), uncorrected_ever: Some(0) }),
        remapped_rows: Some(RemappedRows { corrected: 0, uncorrected: 0, pending: false, failed: false }),
        recovery: Some(Recovery::None),
        temperature: Some(31),
        power: Some(Power { draw: 43_000, limit: 400_000 }),
        ..NvmlGpu::default()
    };
    Nvml {
        driver: Some("580.95.05".into()),
        library: Some("13.580.95.05".into()),
        cuda: "13.0".parse().ok(),
        gpus: vec![gpu],
        ..Nvml::default()
    }
}

/// The same, seen by CUDA.
pub fn cuda() -> Cuda {
    let gpu = CudaGpu {
        address: Some("0000:17:00.0".into()),
        name: Some("NVIDIA A100-SXM4-40GB".into()),
        compute_capability: "8.0".parse().ok(),
        kernel: Kernel::Right,
    };
    Cuda {
        library: Some("/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05".into()),
        version: "13.0".parse().ok(),
        refused: None,
        gpus: vec![gpu],
    }
}
