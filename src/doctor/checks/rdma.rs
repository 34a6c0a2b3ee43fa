//! GPUDirect RDMA: whether network adapters read and write the memory of GPUs, and by which way.

use crate::compat::ModuleFlavour;
use crate::doctor::{Evidence, Verdict};
use crate::host::{InstalledDriver, Rdma};
use crate::version::dotted;

/// The driver's module for adapters whose RDMA modules have the interface of MLNX_OFED and DOCA-OFED.
const PEERMEM: &str = "nvidia_peermem";

/// The first branch with open modules whose CUDA (11.7) exports memory.
const FIRST_BRANCH: u16 = 515;

/// The first kernel whose RDMA modules take DMA-BUFs.
const FIRST_KERNEL: &str = "5.12";

/// How RDMA adapters reach the memory of GPUs.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// nvidia-peermem is loaded.
    Peermem,
    /// Kernel and driver share memory by DMA-BUF; no other module is needed.
    DmaBuf,
    /// nvidia-peermem would work, but is not loaded. DMA-BUF needs this.
    Unloaded(&'static str),
    /// None: DMA-BUF needs this, and the RDMA modules have no interface for nvidia-peermem.
    None(&'static str),
    /// The driver's modules or the kernel's symbols are not known.
    Unknown,
}

/// Whether RDMA adapters reach the memory of GPUs.
pub fn gpudirect(seen: &Evidence) -> Verdict {
    let facts = &seen.facts;
    let (Some(rdma), Some(driver)) = (&facts.rdma, &facts.driver) else {
        return Verdict::skip("the host has no RDMA adapter, or no driver is installed");
    };
    let is_loaded = facts.loaded_modules.iter().flatten().any(|module| module.name == PEERMEM);
    const SLOW: &str = "data between GPUs and the network goes through the host's memory";
    let verdict = match way(rdma, driver, facts.kernels.running.as_deref(), is_loaded) {
        Way::Peermem => Verdict::pass().saw("nvidia-peermem is loaded"),
        Way::DmaBuf => Verdict::pass().saw("GPUDirect RDMA by DMA-BUF"),
        Way::Unknown => Verdict::skip("it is not known which kernel modules the driver has, or what those for RDMA offer"),
        Way::Unloaded(what) => {
            Verdict::warn(format!("DMA-BUF needs {what}, and nvidia-peermem is not loaded: {SLOW}")).advise(
                "load nvidia-peermem, now and at every boot",
                ["sudo modprobe nvidia-peermem", "echo nvidia-peermem | sudo tee /etc/modules-load.d/nvidia-peermem.conf"],
            )
        }
        Way::None(what) => Verdict::warn(format!(
            "DMA-BUF needs {what}, and the RDMA modules of this kernel have no interface for nvidia-peermem: {SLOW}"
        ))
        .advise(
            "if the GPUs support them, use the open kernel modules with kernel 5.12 or newer; otherwise install NVIDIA's DOCA-OFED, \
             then the driver again",
            ["gpusetup plan --profile driver --modules open --upgrade"],
        ),
    };
    verdict.saw(format!("RDMA adapters: {}", rdma.adapters.join(", ")))
}

fn way(rdma: &Rdma, driver: &InstalledDriver, kernel: Option<&str>, peermem_is_loaded: bool) -> Way {
    if peermem_is_loaded {
        return Way::Peermem;
    }
    let lacks = match driver.modules {
        None => return Way::Unknown,
        Some(ModuleFlavour::Proprietary) => "the open kernel modules",
        Some(ModuleFlavour::Open) if driver.version.branch < FIRST_BRANCH => "driver branch 515 or newer",
        Some(ModuleFlavour::Open) => match kernel {
            None => return Way::Unknown,
            Some(kernel) if dotted(kernel) < dotted(FIRST_KERNEL) => "kernel 5.12 or newer",
            Some(_) => return Way::DmaBuf,
        },
    };
    match rdma.has_peer_memory {
        Some(true) => Way::Unloaded(lacks),
        Some(false) => Way::None(lacks),
        None => Way::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Origin;

    #[test]
    fn each_host_has_its_way() {
        let (open, proprietary) = (Some(ModuleFlavour::Open), Some(ModuleFlavour::Proprietary));
        let (new, old) = (Some("6.8.0-60-generic"), Some("5.4.0-216-generic"));
        for (version, modules, kernel, has_peer_memory, is_loaded, expected) in [
            ("580.95.05", open, new, Some(false), false, Way::DmaBuf),
            ("580.95.05", open, new, None, false, Way::DmaBuf),
            ("580.95.05", open, old, Some(true), false, Way::Unloaded("kernel 5.12 or newer")),
            ("580.95.05", open, old, Some(false), false, Way::None("kernel 5.12 or newer")),
            ("580.95.05", proprietary, new, Some(true), false, Way::Unloaded("the open kernel modules")),
            ("580.95.05", proprietary, new, Some(true), true, Way::Peermem),
            ("580.95.05", proprietary, new, Some(false), false, Way::None("the open kernel modules")),
            ("580.95.05", proprietary, new, None, false, Way::Unknown),
            ("580.95.05", None, new, Some(true), false, Way::Unknown),
            ("510.108.03", open, new, Some(true), false, Way::Unloaded("driver branch 515 or newer")),
        ] {
            let driver = InstalledDriver {
                version: version.parse().expect("a version"),
                origin: Origin::Dpkg,
                modules,
                evidence: String::new(),
                alternative: None,
            };
            let rdma = Rdma { adapters: vec!["mlx5_0".into()], has_peer_memory };
            let found = way(&rdma, &driver, kernel, is_loaded);
            assert_eq!(found, expected, "{version} {modules:?} {kernel:?} {has_peer_memory:?}");
        }
    }
}
