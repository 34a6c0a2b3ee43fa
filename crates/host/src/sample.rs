//! The facts of a sound host, for tests.

use crate::Facts;
use crate::firmware::{HEADER, OWNER, X509};
use serde_json::json;

/// Where its cuDNN is.
pub const LIB: &str = "/usr/local/cuda-12.8/lib64";
/// The kernel that runs, and boots next.
pub const KERNEL: &str = "6.8.0-71-generic";
/// The kernel before.
pub const OLD_KERNEL: &str = "6.8.0-64-generic";

/// A live Ubuntu 24.04 with an A100, driver 580.95.05 built by DKMS for two kernels, CUDA 12.8 and
/// cuDNN 9.10.2.
#[allow(clippy::expect_used)]
pub fn facts() -> Facts {
    let kernel = |release: &str| {
        json!({"release": release, "headers": true, "compiler": "x86_64-linux-gnu-gcc-13 (Ubuntu 13.3.0-6ubuntu2) 13.3.0",
               "nvidia_module": "580.95.05",
               "initramfs": {"path": format!("/boot/initrd.img-{release}"), "size": 1, "modified": 100}})
    };
    let file = |name: &str, link: Option<&str>| json!({"name": name, "link": link, "soname": "libcudnn.so.9", "size": 9, "sha256": null});
    serde_json::from_value(json!({
        "schema": "gpusetup.facts/1", "tool": "0", "gcc": "13.3.0", "glibc": "2.39", "secure_boot": "disabled",
        "machine": {"arch": "x86_64", "kind": "physical", "inside": null, "is_tree": false, "boot_id": "b"},
        "os": {"id": "ubuntu", "version": "24.04", "like": ["debian"], "name": "Ubuntu 24.04.3 LTS",
               "package_manager": "apt", "initramfs": "update-initramfs", "immutable": false},
        "gpus": [{"address": "0000:17:00.0", "pci_id": "10de:20b0", "subsystem": null, "class": "0302",
                  "bound_to": "nvidia", "name": "NVIDIA A100-SXM4-40GB", "compute_capability": "8.0", "assumed": false}],
        "nvswitches": [],
        "kernels": {"running": KERNEL, "next_boot": KERNEL, "installed": [kernel(OLD_KERNEL), kernel(KERNEL)]},
        "loaded_modules": [{"name": "nvidia", "version": "580.95.05"}],
        "driver": {"version": "580.95.05", "origin": "dpkg", "modules": "open",
                   "evidence": "package libnvidia-compute-580 580.95.05"},
        "other_drivers": [],
        "toolkits": [{"version": "12.8.1", "path": "/usr/local/cuda-12.8", "origin": "runfile", "has_nvcc": true}],
        "cudnn": [{"version": "9.10.2", "directory": LIB, "origin": "unknown", "header": null,
                   "files": [file("libcudnn.so.9", Some("libcudnn.so.9.10.2")), file("libcudnn.so.9.10.2", None)]}],
        "nvcc": null,
        "loader_cache": {"modified": 100, "entries": []},
        "repositories": [], "space": [],
        "paths": {"/usr/local/cuda": {"kind": "link", "target": "cuda-12.8", "modified": 1}},
        "unreadable": []
    }))
    .expect("facts")
}

/// A variable with one list for each certificate, as mokutil and shim write it.
pub fn variable(certificates: &[&[u8]]) -> Vec<u8> {
    let mut all = vec![7, 0, 0, 0];
    for der in certificates {
        let each = (der.len() + OWNER) as u32;
        all.extend(X509);
        for size in [HEADER as u32 + each, 0, each] {
            all.extend(size.to_le_bytes());
        }
        all.extend([0; OWNER]);
        all.extend(*der);
    }
    all
}
