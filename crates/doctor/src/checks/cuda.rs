//! Whether programs can compute: CUDA's driver library, a test kernel on every GPU, the toolkit's
//! version, cuDNN.

use super::containers::{not_given, without_library};
use super::no_driver_of_its_own;
use crate::{Answer, Case, KernelEvent, Verdict};
use gpusetup_database::version::DriverVersion;
use gpusetup_host::MachineKind;
use gpusetup_nvidia::{ComputeMode, Convolution, Cuda, GpuReading, Kernel, Refused};
use gpusetup_text::ids::CheckId;

/// CUDA starts, and a test kernel computes correct results on every GPU.
pub(crate) fn computes(case: &Case) -> Verdict {
    let cuda = match &case.seen.cuda {
        Answer::Is(cuda) => cuda,
        Answer::NotAsked(why) => {
            return not_given(case).unwrap_or_else(|| Verdict::skip(why.clone()));
        }
        Answer::Failed(why) => {
            return Verdict::fail(format!("CUDA does not respond: {why}")).evidence(why.clone()).advise(
                "see what the kernel reports, then reboot: a process that hangs in the driver cannot be killed",
                ["sudo dmesg | grep -E 'NVRM|nvidia'", "sudo reboot"],
            );
        }
    };
    let library = cuda
        .library
        .as_ref()
        .map(|path| format!("programs load {}", path.display()));
    let verdict = match &cuda.refused {
        Some(refused) => refusal(case, cuda, refused, None),
        None if cuda.gpus.is_empty() => no_gpu(case, "cuDeviceGetCount: 0"),
        None => Verdict::worst(cuda.gpus.iter().map(|gpu| {
            let at = gpu.address.as_deref().unwrap_or("without an address");
            match &gpu.kernel {
                Kernel::Right => Verdict::pass().evidence(format!("{at}: a test kernel computed correct results")),
                Kernel::Wrong(how) => Verdict::fail("{gpus} {computes|compute} wrong results")
                    .of_gpu(at)
                    .evidence(format!("{at}: {how}"))
                    .advise(
                        "take the GPU out of use and test it; have the board replaced if the test fails",
                        ["dcgmi diag -r 3"],
                    )
                    .caused_only_by(&[CheckId::GS903, CheckId::GS904]),
                Kernel::Refused(refused) => refusal(case, cuda, refused, gpu.address.as_deref()),
            }
        }))
        .unwrap_or_else(Verdict::pass),
    };
    library.into_iter().fold(verdict, Verdict::evidence)
}

/// The meaning of each number is documented:
/// <https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html>. The causes come from
/// reports of users.
fn refusal(case: &Case, cuda: &Cuda, refused: &Refused, at: Option<&str>) -> Verdict {
    let gpu = at.map_or("a GPU", |_| "{gpus}");
    let library = cuda
        .library
        .as_ref()
        .map_or("libcuda.so.1".to_owned(), |path| path.display().to_string());
    let where_from = [
        "ldconfig -p | grep libcuda.so",
        "grep -rnE 'stubs|compat' /etc/ld.so.conf /etc/ld.so.conf.d",
    ];
    let verdict = match refused.code {
        None => without_library(case, "libcuda.so.1", "compute").unwrap_or_else(|| {
            Verdict::fail("programs cannot load the driver's CUDA library, libcuda.so.1")
                .advise("install the driver's CUDA library", ["sudo ldconfig", "gpusetup plan"])
                .caused_only_by(&[CheckId::GS501, CheckId::GS508, CheckId::GS507, CheckId::GS401, CheckId::GS603])
        }),
        Some(34) => {
            Verdict::fail(format!("programs load a stub instead of the driver's library: {library} (error 34)"))
                .advise("remove its directory from the loader's path: it is only for linking", where_from)
                .caused_only_by(&[CheckId::GS507])
        }
        Some(803) => Verdict::fail(format!("the loaded driver does not match {library} (error 803)"))
            .advise(
                "reboot if the driver was updated; otherwise remove the other libcuda from the loader's path",
                where_from.into_iter().chain(["sudo reboot"]),
            )
            .caused_only_by(&[CheckId::GS501, CheckId::GS508, CheckId::GS507, CheckId::GS401]),
        Some(804) => Verdict::fail(format!(
            "programs load {library} of a newer driver than the loaded one, which this GPU does not support (error 804)"
        ))
        .advise("remove the directory of cuda-compat from the loader's path", where_from)
        .caused_only_by(&[CheckId::GS507]),
        Some(802) => not_ready(case),
        Some(NO_DEVICE) => return no_gpu(case, &refused.to_string()),
        Some(3) => heterogeneous(case).unwrap_or_else(|| {
            Verdict::fail("the driver is loaded, but CUDA does not start (error 3)")
                .advise("see what the kernel reports", ["sudo dmesg | grep -E 'NVRM|nvidia'"])
        }),
        Some(999) => heterogeneous(case).filter(|_| said_hmm(case)).unwrap_or_else(|| {
            Verdict::fail(
                "CUDA does not start (error 999): usually its kernel module is stuck, for example after a suspend",
            )
            .advise(
                "reload the module; reboot if it is in use",
                ["sudo modprobe -r nvidia_uvm", "sudo modprobe nvidia_uvm"],
            )
        }),
        Some(46) => busy(case, gpu, at),
        // Another program is computing there, which is normal.
        Some(2) => {
            return Verdict::skip(format!("the memory of {} is in use: no test kernel was run", the_gpu(at)))
                .evidence(refused.to_string());
        }
        Some(214) => Verdict::fail(format!("the memory of {gpu} has an uncorrectable error (error 214)"))
            .advise("stop the programs that use the GPU, then reset it", reset(at))
            .caused_only_by(&[CheckId::GS903, CheckId::GS904]),
        Some(221) => Verdict::fail("the driver's PTX compiler, libnvidia-ptxjitcompiler.so.1, is missing (error 221)")
            .advise("reinstall the driver's libraries", ["sudo ldconfig", "gpusetup plan"])
            .caused_only_by(&[CheckId::GS401, CheckId::GS603]),
        Some(102) => Verdict::fail(format!("no licence for {gpu} (error 102)"))
            .advise("configure the licence of the virtual GPU", ["nvidia-smi -q | grep -i license"])
            .caused_only_by(&[]),
        // The test kernel, which only writes numbers, was aborted.
        Some(code @ (700..=719)) => Verdict::fail(format!("a test kernel was aborted on {gpu} (error {code})"))
            .advise("see what the kernel reports, then reset the GPU", reset(at))
            .caused_only_by(&[CheckId::GS903, CheckId::GS904, CheckId::GS501]),
        Some(code) => Verdict::fail(format!("CUDA does not compute on {gpu}: {} (error {code})", refused.says))
            .advise("see what the kernel reports", ["sudo dmesg | grep -E 'NVRM|nvidia'"]),
    };
    let verdict = at.into_iter().fold(verdict, Verdict::of_gpu);
    let whose = at.map(|at| format!("{at}: ")).unwrap_or_default();
    verdict.evidence(format!("{whose}{refused}"))
}

fn the_gpu(at: Option<&str>) -> String {
    at.map_or("a GPU".to_owned(), |at| format!("the GPU {at}"))
}

const NO_DEVICE: i32 = 100;

fn reset(at: Option<&str>) -> Vec<String> {
    vec![format!(
        "sudo nvidia-smi --gpu-reset{}",
        at.map_or("", |_| " -i {gpus}")
    )]
}

/// CUDA finds no GPU: MIG is on without instances, no GPU is bound to the driver, or the GPUs are
/// hidden.
fn no_gpu(case: &Case, said: &str) -> Verdict {
    let gpus = if let Answer::Is(nvml) = &case.seen.nvml {
        nvml.gpus.as_slice()
    } else {
        &[]
    };
    let verdict = if !gpus.is_empty()
        && !gpus.iter().any(|g| {
            g.mig
                .as_ref()
                .is_none_or(|mig| !mig.enabled || !mig.devices.is_empty())
        }) {
        Verdict::fail("MIG is on, but no GPU has a MIG instance (error 100)")
            .advise(
                "create MIG instances, or switch MIG off",
                ["sudo nvidia-smi mig -lgip", "sudo nvidia-smi -mig 0"],
            )
            .caused_only_by(&[CheckId::GS802])
    } else if gpus.is_empty() {
        Verdict::fail("CUDA finds no GPU (error 100)")
            .advise("see what the kernel reports", ["sudo dmesg | grep NVRM"])
    } else {
        Verdict::fail(
            "the driver has GPUs, but CUDA finds none (error 100): this user may lack access to their devices",
        )
        .advise(
            "check the permissions of the devices",
            ["ls -l /dev/nvidia*".to_owned(), format!("sudo gpusetup doctor {}", CheckId::GS505)],
        )
    };
    verdict.evidence(said)
}

/// Error 802: the fabric is not up, or a GPU in confidential-computing mode was not attested.
fn not_ready(case: &Case) -> Verdict {
    let confidential =
        matches!(&case.seen.nvml, Answer::Is(nvml) if nvml.accepts_work == Some(false));
    if confidential {
        return Verdict::fail(
            "the GPU is in confidential-computing mode and was not set ready (error 802)",
        )
        .advise(
            "attest the GPU, then set it ready",
            ["sudo nvidia-smi conf-compute -srs 1"],
        )
        .caused_only_by(&[]);
    }
    let cause = "the GPUs are not connected by NVLink yet: CUDA reports that the system is not ready (error 802)";
    Verdict::fail(cause)
        .advise(
            format!(
                "start {}; for a virtual machine, start it on the host",
                case.fabric_title()
            ),
            case.fabric_start()
                .chain(["nvidia-smi -q | grep -A 3 Fabric".to_owned()]),
        )
        .caused_only_by(&[CheckId::GS801])
}

fn busy(case: &Case, gpu: &str, at: Option<&str>) -> Verdict {
    let told = if let Answer::Is(nvml) = &case.seen.nvml {
        nvml.gpus.as_slice()
    } else {
        &[]
    };
    let told = told
        .iter()
        .find(|g| at.is_none() || g.address.as_deref() == at);
    let default = format!(
        "sudo nvidia-smi{} -c DEFAULT",
        at.map_or("", |_| " -i {gpus}")
    );
    let does = at.map_or("does", |_| "{does|do}");
    let is = at.map_or("is", |_| "{is|are}");
    match told.and_then(|g| g.compute_mode) {
        Some(ComputeMode::Prohibited) => Verdict::fail(format!(
            "{gpu} {does} not accept programs: the compute mode is Prohibited (error 46)"
        ))
        .advise("set the default compute mode", [default])
        .caused_only_by(&[]),
        Some(ComputeMode::Exclusive) => {
            let count = told.and_then(GpuReading::compute_processes).unwrap_or(0);
            Verdict::warn(format!(
                "another process uses {gpu}, in a mode for one process at a time (error 46)"
            ))
            .evidence(format!("compute mode exclusive, {count} processes"))
            .advise(
                "wait for that process, or set the default compute mode",
                ["nvidia-smi".to_owned(), default],
            )
            .caused_only_by(&[])
        }
        _ => Verdict::fail(format!("{gpu} {is} busy or unavailable (error 46)"))
            .advise(
                "see which programs use it, and what the kernel reports",
                ["nvidia-smi", "sudo dmesg | grep NVRM"],
            )
            .caused_only_by(&[CheckId::GS903, CheckId::GS904]),
    }
}

/// Whether the kernel's log says that it has no address space for the GPU's memory.
fn said_hmm(case: &Case) -> bool {
    matches!(&case.seen.kernel_log, Answer::Is(said) if said.iter().any(|s| matches!(s, KernelEvent::NoHmm(_))))
}

/// Some kernels have no address space for heterogeneous memory (HMM) of nvidia-uvm: CUDA does not
/// start, but nvidia-smi works. "CUDA initialization can fail on certain Linux kernels with KASLR
/// enabled" in CUDA's release notes; open-gpu-kernel-modules' issues 797, 901 and 947.
fn heterogeneous(case: &Case) -> Option<Verdict> {
    let answers = matches!(&case.seen.nvml, Answer::Is(nvml) if nvml.refused.is_none());
    if case.seen.hmm_disabled != Some(false) || !answers || no_driver_of_its_own(case).is_some() {
        return None;
    }
    let said = if let Answer::Is(said) = &case.seen.kernel_log {
        said.as_slice()
    } else {
        &[]
    };
    let line = said.iter().find_map(|s| {
        if let KernelEvent::NoHmm(line) = s {
            Some(line.clone())
        } else {
            None
        }
    });
    let cause = match line {
        Some(_) => {
            "CUDA does not start: the kernel has no address space for the GPU's memory (HMM with KASLR)"
        }
        None => {
            "CUDA does not start (error 3), but the driver works: the usual cause is the kernel's heterogeneous memory (HMM)"
        }
    };
    let file = "/etc/modprobe.d/gpusetup-uvm.conf";
    let commands = [
        format!("echo 'options nvidia_uvm uvm_disable_hmm=1' | sudo tee {file}"),
        "sudo modprobe -r nvidia_uvm".to_owned(),
        "sudo modprobe nvidia_uvm".to_owned(),
    ];
    let verdict = Verdict::fail(cause).evidence("nvidia_uvm: uvm_disable_hmm=N");
    let verdict = line.into_iter().fold(verdict, Verdict::evidence);
    Some(
        verdict
            .advise(
                "disable HMM in CUDA's kernel module, or install a newer kernel",
                commands,
            )
            .caused_only_by(&[CheckId::GS903]),
    )
}

/// Three CUDA versions that are often confused: the newest that the driver runs, the installed one,
/// and that of frameworks.
pub(crate) fn versions(case: &Case) -> Verdict {
    let nvml = if let Answer::Is(nvml) = &case.seen.nvml {
        Some(nvml)
    } else {
        None
    };
    let cuda = if let Answer::Is(cuda) = &case.seen.cuda {
        cuda.version
    } else {
        None
    };
    // With cuda-compat, a newer user-space library than the driver's, CUDA reports a newer version.
    let asked = nvml.and_then(|n| n.cuda).max(cuda);
    let running = nvml.and_then(|n| n.driver.as_deref()?.parse::<DriverVersion>().ok());
    let Some(driver) = running.or(case.seen.facts.driver.as_ref().map(|d| d.version)) else {
        return Verdict::skip("no NVIDIA driver is installed");
    };
    let Some(runs) = asked.or(case.branch_cuda()) else {
        return Verdict::skip(format!(
            "the newest CUDA that driver {driver} runs is not known"
        ));
    };
    let limit =
        format!("driver {driver} runs CUDA {runs} and older (the \"CUDA Version\" of nvidia-smi)");
    let Some(default) = &case.seen.default_toolkit else {
        return Verdict::skip("there is no default toolkit").evidence(limit);
    };
    let Some(toolkit) = case.seen.facts.toolkits.iter().find(|t| t.path == *default) else {
        return Verdict::skip("the version of the default toolkit is not known").evidence(limit);
    };
    let version = toolkit.version;
    let evidence = [
        limit,
        format!(
            "the default toolkit is CUDA {version}, in {}",
            toolkit.path.display()
        ),
        "frameworks from pip or conda ship their own CUDA (see torch.version.cuda)".to_owned(),
    ]
    .into_iter();
    if version.series() <= runs {
        return evidence.fold(Verdict::pass(), Verdict::evidence);
    }
    let Some(oldest) = case.database.oldest_driver(version) else {
        let verdict = Verdict::warn(format!(
            "CUDA {version} is newer than driver {driver} supports (CUDA {runs})"
        ));
        return evidence.fold(verdict, Verdict::evidence).advise(
            "install a newer driver, or an older toolkit",
            ["gpusetup plan"],
        );
    };
    if driver >= oldest {
        let verdict = evidence.fold(Verdict::pass(), Verdict::evidence);
        return verdict.evidence(format!(
            "driver {driver} still runs programs of CUDA {version} (from {oldest} on) that contain more than PTX"
        ));
    }
    let verdict = Verdict::fail(format!(
        "the driver is too old for the default toolkit, CUDA {version}: {}",
        gpusetup_causes::oldest_driver(oldest, driver)
    ));
    evidence.fold(verdict, Verdict::evidence).advise(
        "install a newer driver, or make an older toolkit the default",
        ["gpusetup plan --upgrade", "gpusetup plan --profile toolkit"],
    )
}

/// Every cuDNN that programs can load computes correctly.
pub(crate) fn convolution(case: &Case) -> Verdict {
    let each = case.seen.convolution.iter().map(|(soname, answer)| match answer {
        Answer::NotAsked(why) => Verdict::skip(why.clone()),
        Answer::Is(Convolution::Right) => {
            Verdict::pass().evidence(format!("{soname}: a convolution computed correct results"))
        }
        Answer::Is(Convolution::Wrong(how)) => {
            Verdict::fail(format!("{soname} computes a wrong convolution")).evidence(how.clone()).advise(
                "reinstall cuDNN; test the GPU if that does not help",
                ["sudo gpusetup apply --profile toolkit", "dcgmi diag -r 3"],
            )
        }
        Answer::Is(Convolution::Refused(refused)) if refused.code.is_none() => {
            // GS703 reports whether programs can load it at all.
            Verdict::skip(format!("{soname} could not be loaded")).evidence(refused.to_string())
        }
        // CUDA's "out of memory", and cuDNN's "allocation failed" of releases 7, 8 and 9: another
        // program is computing.
        Answer::Is(Convolution::Refused(refused)) if matches!(refused.code, Some(2 | 4004)) => {
            Verdict::skip("the GPU's memory is in use: no convolution was run").evidence(refused.to_string())
        }
        // "Architecture mismatch" up to release 8, and in release 9.
        Answer::Is(Convolution::Refused(refused)) if matches!(refused.code, Some(6 | 3007)) => {
            Verdict::fail(format!("{soname} has no code for this GPU"))
                .evidence(refused.to_string())
                .advise("install a cuDNN that supports this GPU; gpusetup chooses one", ["gpusetup plan"])
        }
        Answer::Is(Convolution::Refused(refused)) => {
            Verdict::fail(format!("{soname} does not compute: {}", refused.says)).evidence(refused.to_string()).advise(
                "check that cuDNN's files are of one release built for this CUDA, and that libcublas is found",
                ["ldconfig -p | grep -E 'libcudnn|libcublas'", "sudo gpusetup apply --profile toolkit"],
            )
        }
        Answer::Failed(why) => Verdict::fail(format!("cuDNN does not finish: {why}"))
            .evidence(why.clone())
            .advise("reinstall cuDNN", ["sudo gpusetup apply --profile toolkit"]),
    });
    let kind = case.seen.facts.machine.kind;
    let none = if kind == MachineKind::Container {
        "no cuDNN is in the container"
    } else {
        "no cuDNN is installed"
    };
    Verdict::worst(each).unwrap_or_else(|| Verdict::skip(none))
}
