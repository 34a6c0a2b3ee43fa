//! GPUDirect RDMA: whether network adapters read and write the memory of GPUs, and by which way.
use crate::{Case, Verdict};
use gpusetup_resolve::{GpuDirect, gpudirect as way};

/// Whether RDMA adapters reach the memory of GPUs.
pub(crate) fn gpudirect(case: &Case) -> Verdict {
    let facts = &case.seen.facts;
    let (Some(rdma), Some(driver)) = (&facts.rdma, &facts.driver) else {
        return Verdict::skip("the host has no RDMA adapter, or no driver is installed");
    };
    const SLOW: &str = "data between GPUs and the network goes through the host's memory";
    let verdict = match way(
        facts,
        facts.kernels.running.as_deref(),
        (driver.version, driver.modules),
        true,
    ) {
        GpuDirect::Peermem => Verdict::pass().evidence("nvidia-peermem is loaded"),
        GpuDirect::DmaBuf => Verdict::pass().evidence("GPUDirect RDMA by DMA-BUF"),
        GpuDirect::Unknown => Verdict::skip(
            "it is not known which kernel modules the driver has, or what those for RDMA offer",
        ),
        GpuDirect::Unloaded(what) => Verdict::warn(format!(
            "DMA-BUF needs {what}, and nvidia-peermem is not loaded: {SLOW}"
        ))
        .advise(
            "load nvidia-peermem, now and at every boot",
            ["sudo gpusetup apply --profile driver --with peermem"],
        ),
        GpuDirect::None(what) => Verdict::warn(format!(
            "{}: {SLOW}",
            gpusetup_causes::no_way_for_rdma(what)
        ))
        .remedy(gpusetup_causes::reach_gpus_by_rdma()),
    };
    verdict.evidence(format!("RDMA adapters: {}", rdma.adapters.join(", ")))
}
