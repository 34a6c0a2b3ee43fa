//! GPUDirect RDMA: by which way RDMA adapters read and write the memory of GPUs. Plans and doctor
//! decide by it alike.

use gpusetup_database::compat::ModuleFlavour;
use gpusetup_database::version::{DriverVersion, dotted};
use gpusetup_host::Facts;

/// The driver's module for adapters whose RDMA modules have the interface of MLNX_OFED and
/// DOCA-OFED.
const PEERMEM: &str = "nvidia_peermem";

/// The first branch with open modules whose CUDA (11.7) exports memory.
const FIRST_BRANCH: u16 = 515;

/// The first kernel whose RDMA modules take DMA-BUFs.
const FIRST_KERNEL: &str = "5.12";

/// How RDMA adapters reach the memory of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuDirect {
    /// nvidia-peermem is loaded.
    Peermem,
    /// Kernel and driver share memory by DMA-BUF; no other module is needed.
    DmaBuf,
    /// nvidia-peermem would work, but is not loaded. DMA-BUF needs this.
    Unloaded(&'static str),
    /// None: DMA-BUF needs this, and the RDMA modules have no interface for nvidia-peermem.
    None(&'static str),
    /// The driver's modules, the kernel or its symbols are not known.
    Unknown,
}

/// How they do with a driver that has these kernel modules, on a kernel. `stays`: the modules that
/// are loaded are of this driver.
pub fn gpudirect(
    facts: &Facts,
    kernel: Option<&str>,
    (driver, modules): (DriverVersion, Option<ModuleFlavour>),
    stays: bool,
) -> GpuDirect {
    if stays
        && facts
            .loaded_modules
            .iter()
            .flatten()
            .any(|module| module.name == PEERMEM)
    {
        return GpuDirect::Peermem;
    }
    let lacks = match modules {
        None => return GpuDirect::Unknown,
        Some(ModuleFlavour::Proprietary) => "the open kernel modules",
        Some(ModuleFlavour::Open) if driver.branch < FIRST_BRANCH => "driver branch 515 or newer",
        Some(ModuleFlavour::Open) => match kernel {
            None => return GpuDirect::Unknown,
            Some(kernel) if dotted(kernel) < dotted(FIRST_KERNEL) => "kernel 5.12 or newer",
            Some(_) => return GpuDirect::DmaBuf,
        },
    };
    match facts.rdma.as_ref().and_then(|rdma| rdma.has_peer_memory) {
        Some(true) => GpuDirect::Unloaded(lacks),
        Some(false) => GpuDirect::None(lacks),
        None => GpuDirect::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_data::embedded;
    use gpusetup_host::{LoadedModule, Rdma, stock};

    #[test]
    fn each_host_has_its_way() {
        let (open, proprietary) = (Some(ModuleFlavour::Open), Some(ModuleFlavour::Proprietary));
        let (new, old) = (Some("6.8.0-60-generic"), Some("5.4.0-216-generic"));
        let mut facts = stock(&embedded(), "ubuntu-22.04", None).expect("a known system");
        for (version, modules, kernel, has_peer_memory, is_loaded, expected) in [
            (
                "580.95.05",
                open,
                new,
                Some(false),
                false,
                GpuDirect::DmaBuf,
            ),
            ("580.95.05", open, new, None, false, GpuDirect::DmaBuf),
            (
                "580.95.05",
                open,
                old,
                Some(true),
                false,
                GpuDirect::Unloaded("kernel 5.12 or newer"),
            ),
            (
                "580.95.05",
                open,
                old,
                Some(false),
                false,
                GpuDirect::None("kernel 5.12 or newer"),
            ),
            (
                "580.95.05",
                open,
                None,
                Some(true),
                false,
                GpuDirect::Unknown,
            ),
            (
                "580.95.05",
                proprietary,
                new,
                Some(true),
                false,
                GpuDirect::Unloaded("the open kernel modules"),
            ),
            (
                "580.95.05",
                proprietary,
                new,
                Some(true),
                true,
                GpuDirect::Peermem,
            ),
            (
                "580.95.05",
                proprietary,
                new,
                Some(false),
                false,
                GpuDirect::None("the open kernel modules"),
            ),
            (
                "580.95.05",
                proprietary,
                new,
                None,
                false,
                GpuDirect::Unknown,
            ),
            (
                "580.95.05",
                None,
                new,
                Some(true),
                false,
                GpuDirect::Unknown,
            ),
            (
                "510.108.03",
                open,
                new,
                Some(true),
                false,
                GpuDirect::Unloaded("driver branch 515 or newer"),
            ),
        ] {
            let loaded = is_loaded.then(|| LoadedModule {
                name: PEERMEM.to_owned(),
                version: None,
            });
            facts.loaded_modules = Some(loaded.into_iter().collect());
            facts.rdma = Some(Rdma {
                adapters: vec!["mlx5_0".into()],
                has_peer_memory,
            });
            let driver = (version.parse().expect("a version"), modules);
            let found = gpudirect(&facts, kernel, driver, true);
            assert_eq!(
                found, expected,
                "{version} {modules:?} {kernel:?} {has_peer_memory:?}"
            );
        }
        facts.loaded_modules = Some(vec![LoadedModule {
            name: PEERMEM.to_owned(),
            version: None,
        }]);
        let replaced = ("580.95.05".parse().expect("a version"), open);
        assert_eq!(gpudirect(&facts, new, replaced, false), GpuDirect::DmaBuf);
    }
}
