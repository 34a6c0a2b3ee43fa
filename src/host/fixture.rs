//! A database for the probes' tests: the few GPUs, bridges and releases that they name.

use crate::compat::{Architecture, CudaRelease, Database, Gpu, ModuleFlavour, NvSwitch, PciDevice};

fn gpu(device: u16, subsystem: Option<&str>, name: &str, architecture: &str, capability: &str) -> Gpu {
    use ModuleFlavour::{Open, Proprietary};
    let major: f32 = capability.parse().expect("a number");
    Gpu {
        device: PciDevice(device),
        subsystem: subsystem.map(str::to_owned),
        name: name.to_owned(),
        chip: String::new(),
        architecture: architecture.to_owned(),
        compute_capability: capability.parse().ok(),
        modules: if major < 7.5 { vec![Proprietary] } else { vec![Open, Proprietary] },
        last_driver_branch: None,
        first_driver_branch: None,
        line: None,
        form: None,
        memory_gb: None,
        mobile: false,
        mig: false,
        sources: Vec::new(),
    }
}

/// The database.
pub fn database() -> Database {
    let mut gh200 = gpu(0x2342, None, "GH200 120GB", "Hopper", "9.0");
    gh200.modules = vec![ModuleFlavour::Open];
    Database {
        version: "2026.11.20".to_owned(),
        sha256: String::new(),
        sources: Vec::new(),
        architectures: vec![Architecture {
            compute_capability: "9.0".parse().expect("valid"),
            name: "Hopper".to_owned(),
            first_cuda: None,
            last_cuda: None,
            first_driver_branch: None,
            last_driver_branch: None,
            modules: vec![ModuleFlavour::Open, ModuleFlavour::Proprietary],
            embedded: None,
            note: None,
            sources: Vec::new(),
        }],
        gpus: vec![
            gpu(0x15f9, None, "Tesla P100 SXM2 16GB", "Pascal", "6.0"),
            gpu(0x1db1, None, "Tesla V100 SXM2 16GB", "Volta", "7.0"),
            gpu(0x1f91, None, "GeForce GTX 1650 Mobile", "Turing", "7.5"),
            gpu(0x20b2, None, "A100 SXM4 80GB", "Ampere", "8.0"),
            gpu(0x20b2, Some("10de:147f"), "A100 SXM4 80GB (one board)", "Ampere", "8.0"),
            gh200,
            gpu(0x2330, None, "H100 SXM5 80GB", "Hopper", "9.0"),
        ],
        nvswitches: vec![
            NvSwitch {
                device: PciDevice(0x1af1),
                name: "A100 NVSwitch".to_owned(),
                generation: 2,
                sources: Vec::new(),
            },
            NvSwitch {
                device: PciDevice(0x22a3),
                name: "H100 NVSwitch".to_owned(),
                generation: 3,
                sources: Vec::new(),
            },
        ],
        driver_branches: Vec::new(),
        drivers: Vec::new(),
        cuda: vec![CudaRelease {
            version: "12.8.1".parse().expect("valid"),
            date: None,
            minimum_driver: "525.60.13".parse().expect("valid"),
            native_driver: None,
            lowest_capability: "5.0".parse().expect("valid"),
            highest_capability: "12.0".parse().expect("valid"),
            gcc_min: None,
            gcc_max: None,
            clang_max: None,
            glibc_min: None,
            glibc_breaks_from: None,
            nvcc: Some("12.8.93".to_owned()),
            note: None,
            sources: Vec::new(),
        }],
        cuda_artifacts: Vec::new(),
        cudnn: Vec::new(),
        cudnn_artifacts: Vec::new(),
        compiler_limits: Vec::new(),
        distributions: Vec::new(),
    }
}
