//! Whether programs can compute: CUDA's driver library, a kernel on every GPU, the toolkit that the driver can run, cuDNN.

use super::containers::{not_given, without_library};
use super::no_driver_of_its_own;
use crate::causes;
use crate::doctor::{Answer, Evidence, Said, Verdict};
use crate::host::MachineKind;
use crate::ids::CheckId;
use crate::nvidia::{ComputeMode, Convolution, Cuda, Kernel, Refused};
use crate::text::quoted;
use crate::version::DriverVersion;

/// CUDA starts, and a kernel comes to the right numbers on every GPU.
pub fn computes(seen: &Evidence) -> Verdict {
    let cuda = match &seen.cuda {
        Answer::Is(cuda) => cuda,
        Answer::NotAsked(why) => return not_given(seen).unwrap_or_else(|| Verdict::skip(why.clone())),
        Answer::Failed(why) => {
            return Verdict::fail(format!("CUDA does not answer: {why}")).saw(why.clone()).advise(
                "see what the kernel says of it, then boot: what hangs in the driver cannot be ended",
                ["sudo dmesg | grep -E 'NVRM|nvidia'", "sudo reboot"],
            );
        }
    };
    let library = cuda.library.as_ref().map(|path| format!("programs get {}", path.display()));
    let verdict = match &cuda.refused {
        Some(refused) => refusal(seen, cuda, refused, None),
        None if cuda.gpus.is_empty() => no_gpu(seen, "cuDeviceGetCount: 0"),
        None => Verdict::worst(cuda.gpus.iter().map(|gpu| {
            let at = gpu.address.as_deref().unwrap_or("without an address");
            match &gpu.kernel {
                Kernel::Right => Verdict::pass().saw(format!("{at}: a kernel came to the right numbers")),
                Kernel::Wrong(how) => Verdict::fail(format!("the GPU {at} computes wrongly"))
                    .saw(format!("{at}: {how}"))
                    .advise(
                        "take it out of use, and test it; have the board replaced if the test fails",
                        ["dcgmi diag -r 3"],
                    )
                    .only_from(&[CheckId::GS903, CheckId::GS904]),
                Kernel::Refused(refused) => refusal(seen, cuda, refused, gpu.address.as_deref()),
            }
        }))
        .unwrap_or_else(Verdict::pass),
    };
    library.into_iter().fold(verdict, Verdict::saw)
}

/// What each number means is NVIDIA's word: <https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html>; why it comes
/// about is that of people who met it.
fn refusal(seen: &Evidence, cuda: &Cuda, refused: &Refused, at: Option<&str>) -> Verdict {
    let gpu = at.map_or("a GPU".to_owned(), |at| format!("the GPU {at}"));
    let library = cuda.library.as_ref().map_or("libcuda.so.1".to_owned(), |path| path.display().to_string());
    let where_from = ["ldconfig -p | grep libcuda.so", "grep -rnE 'stubs|compat' /etc/ld.so.conf /etc/ld.so.conf.d"];
    let verdict = match refused.code {
        None => without_library(seen, "libcuda.so.1", "compute").unwrap_or_else(|| {
            Verdict::fail("programs cannot load libcuda.so.1, CUDA's part of the driver")
                .advise("install the driver's CUDA library", ["sudo ldconfig", "gpusetup plan"])
                .only_from(&[CheckId::GS501, CheckId::GS508, CheckId::GS507, CheckId::GS401, CheckId::GS603])
        }),
        Some(34) => {
            Verdict::fail(format!("programs get a stub in the place of the driver's library: {library} (error 34)"))
                .advise("take its folder out of the loader's path: it is for linking only", where_from)
                .only_from(&[CheckId::GS507])
        }
        Some(803) => {
            Verdict::fail(format!("the driver in the kernel is of another version than {library} (error 803)"))
                .advise(
                    "boot, if the driver was updated; else take the other libcuda out of the loader's path",
                    where_from.into_iter().chain(["sudo reboot"]),
                )
                .only_from(&[CheckId::GS501, CheckId::GS508, CheckId::GS507, CheckId::GS401])
        }
        Some(804) => Verdict::fail(format!(
            "programs get {library}, a newer driver's library, which runs only cards for data centres (error 804)"
        ))
        .advise("take the folder of cuda-compat out of the loader's path", where_from)
        .only_from(&[CheckId::GS507]),
        Some(802) => not_ready(seen),
        Some(NO_DEVICE) => return no_gpu(seen, &refused.to_string()),
        Some(3) => heterogeneous(seen).unwrap_or_else(|| {
            Verdict::fail("the driver is loaded, and CUDA does not start (error 3)")
                .advise("see what the kernel says", ["sudo dmesg | grep -E 'NVRM|nvidia'"])
        }),
        Some(999) => heterogeneous(seen).filter(|_| said_hmm(seen)).unwrap_or_else(|| {
            Verdict::fail("CUDA does not start (error 999): mostly its kernel module is stuck, as after a suspend")
                .advise(
                    "load the module anew; boot if it is in use",
                    ["sudo modprobe -r nvidia_uvm", "sudo modprobe nvidia_uvm"],
                )
        }),
        Some(46) => busy(seen, &gpu, at),
        // Somebody computes there, which is what it is for.
        Some(2) => {
            return Verdict::skip(format!("the memory of {gpu} is in use: no kernel was run")).saw(refused.to_string());
        }
        Some(214) => Verdict::fail(format!("the memory of {gpu} has an error that could not be corrected (error 214)"))
            .advise("end what uses it, then reset it", reset(at))
            .only_from(&[CheckId::GS903, CheckId::GS904]),
        Some(221) => Verdict::fail("the driver's compiler is missing, libnvidia-ptxjitcompiler.so.1 (error 221)")
            .advise("install the driver's libraries anew", ["sudo ldconfig", "gpusetup plan"])
            .only_from(&[CheckId::GS401, CheckId::GS603]),
        Some(102) => Verdict::fail(format!("{gpu} has no licence (error 102)"))
            .advise("give the virtual GPU its licence", ["nvidia-smi -q | grep -i license"])
            .only_from(&[]),
        // A kernel that does nothing but write numbers was broken off.
        Some(code @ (700..=719)) => Verdict::fail(format!("a kernel was broken off on {gpu} (error {code})"))
            .advise("see what the kernel says of it, and reset the GPU", reset(at))
            .only_from(&[CheckId::GS903, CheckId::GS904, CheckId::GS501]),
        Some(code) => Verdict::fail(format!("CUDA does not compute on {gpu}: {} (error {code})", refused.says))
            .advise("see what the kernel says", ["sudo dmesg | grep -E 'NVRM|nvidia'"]),
    };
    verdict.saw(refused.to_string())
}

const NO_DEVICE: i32 = 100;

fn reset(at: Option<&str>) -> Vec<String> {
    vec![at.map_or("sudo nvidia-smi --gpu-reset".to_owned(), |at| {
        format!("sudo nvidia-smi --gpu-reset -i {}", quoted(at))
    })]
}

/// CUDA finds no GPU: it is divided and has no instances, or is not the driver's, or is hidden.
fn no_gpu(seen: &Evidence, said: &str) -> Verdict {
    let gpus = if let Answer::Is(nvml) = &seen.nvml { nvml.gpus.as_slice() } else { &[] };
    let undivided = |g: &crate::nvidia::NvmlGpu| g.mig.is_none_or(|m| !m.enabled || m.instances > 0);
    let verdict = if !gpus.is_empty() && !gpus.iter().any(undivided) {
        Verdict::fail("MIG is on, and no GPU has an instance that programs could compute on (error 100)")
            .advise("make some, or switch it off", ["sudo nvidia-smi mig -lgip", "sudo nvidia-smi -mig 0"])
            .only_from(&[CheckId::GS802])
    } else if gpus.is_empty() {
        Verdict::fail("CUDA finds no GPU (error 100)").advise("see what the kernel says", ["sudo dmesg | grep NVRM"])
    } else {
        Verdict::fail("the driver has GPUs, and CUDA finds none (error 100): their devices may not be for this user")
            .advise(
                "look who may use them",
                ["ls -l /dev/nvidia*".to_owned(), format!("sudo gpusetup doctor {}", CheckId::GS505)],
            )
    };
    verdict.saw(said)
}

/// Error 802: a fabric that is not up, or a GPU of confidential computing that nobody has vouched for.
fn not_ready(seen: &Evidence) -> Verdict {
    let confidential = matches!(&seen.nvml, Answer::Is(nvml) if nvml.accepts_work == Some(false));
    if confidential {
        return Verdict::fail("the GPU computes in confidence, and was not declared ready (error 802)")
            .advise("attest it, then declare it ready", ["sudo nvidia-smi conf-compute -srs 1"])
            .only_from(&[]);
    }
    let cause = "the GPUs are not joined by NVLink yet: CUDA says that the system is not ready (error 802)";
    Verdict::fail(cause)
        .advise(
            format!("start {}; in a virtual machine the host has to", seen.fabric_title()),
            seen.fabric_start().chain(["nvidia-smi -q | grep -A 3 Fabric".to_owned()]),
        )
        .only_from(&[CheckId::GS801])
}

fn busy(seen: &Evidence, gpu: &str, at: Option<&str>) -> Verdict {
    let told = if let Answer::Is(nvml) = &seen.nvml { nvml.gpus.as_slice() } else { &[] };
    let told = told.iter().find(|g| at.is_none() || g.address.as_deref() == at);
    let default = at
        .map_or("sudo nvidia-smi -c DEFAULT".to_owned(), |at| format!("sudo nvidia-smi -i {} -c DEFAULT", quoted(at)));
    match told.and_then(|g| g.compute_mode) {
        Some(ComputeMode::Prohibited) => {
            Verdict::fail(format!("nobody may compute on {gpu}: it was set so (error 46)"))
                .advise("let everybody", [default])
                .only_from(&[])
        }
        Some(ComputeMode::Exclusive) => {
            let count = told.and_then(|g| g.processes).unwrap_or(0);
            Verdict::warn(format!("{gpu} is for one process at a time, and another has it (error 46)"))
                .saw(format!("compute mode exclusive, {count} processes"))
                .advise("wait for it, or let everybody", ["nvidia-smi".to_owned(), default])
                .only_from(&[])
        }
        _ => Verdict::fail(format!("{gpu} is busy, or not to be had (error 46)"))
            .advise("see who uses it, and what the kernel says", ["nvidia-smi", "sudo dmesg | grep NVRM"])
            .only_from(&[CheckId::GS903, CheckId::GS904]),
    }
}

/// The kernel said that it has no room for the GPU's memory beside its own.
fn said_hmm(seen: &Evidence) -> bool {
    matches!(&seen.kernel_log, Answer::Is(said) if said.iter().any(|s| matches!(s, Said::NoHmm(_))))
}

/// Some kernels cannot give nvidia-uvm addresses for heterogeneous memory (HMM): CUDA then does not start, with nvidia-smi
/// well. "CUDA initialization can fail on certain Linux kernels with KASLR enabled" in CUDA's release notes;
/// open-gpu-kernel-modules' issues 797, 901 and 947.
fn heterogeneous(seen: &Evidence) -> Option<Verdict> {
    let answers = matches!(&seen.nvml, Answer::Is(nvml) if nvml.refused.is_none());
    if seen.hmm_disabled != Some(false) || !answers || no_driver_of_its_own(seen).is_some() {
        return None;
    }
    let said = if let Answer::Is(said) = &seen.kernel_log { said.as_slice() } else { &[] };
    let line = said.iter().find_map(|s| if let Said::NoHmm(line) = s { Some(line.clone()) } else { None });
    let cause = match line {
        Some(_) => "the kernel has no addresses for the GPU's memory (HMM with KASLR), and CUDA does not start",
        None => {
            "CUDA does not start (error 3) while the driver is well: mostly the kernel's heterogeneous memory (HMM) is why"
        }
    };
    let file = "/etc/modprobe.d/gpusetup-uvm.conf";
    let commands = [
        format!("echo 'options nvidia_uvm uvm_disable_hmm=1' | sudo tee {file}"),
        "sudo modprobe -r nvidia_uvm".to_owned(),
        "sudo modprobe nvidia_uvm".to_owned(),
    ];
    let verdict = Verdict::fail(cause).saw("nvidia_uvm: uvm_disable_hmm=N");
    let verdict = line.into_iter().fold(verdict, Verdict::saw);
    Some(
        verdict
            .advise("have CUDA's kernel module do without it, or install a newer kernel", commands)
            .only_from(&[CheckId::GS903]),
    )
}

/// Three versions that are often taken for each other: what the driver can run, what is installed, what frameworks bring.
pub fn versions(seen: &Evidence) -> Verdict {
    let nvml = if let Answer::Is(nvml) = &seen.nvml { Some(nvml) } else { None };
    let cuda = if let Answer::Is(cuda) = &seen.cuda { cuda.version } else { None };
    // A newer user-space part beside the driver's own (cuda-compat) says more.
    let asked = nvml.and_then(|n| n.cuda).max(cuda);
    let running = nvml.and_then(|n| n.driver.as_deref()?.parse::<DriverVersion>().ok());
    let Some(driver) = running.or(seen.facts.driver.as_ref().map(|d| d.version)) else {
        return Verdict::skip("no NVIDIA driver is installed");
    };
    let Some(runs) = asked.or(seen.branch_cuda) else {
        return Verdict::skip(format!("up to which CUDA driver {driver} goes is not known"));
    };
    let limit = format!("driver {driver} runs CUDA {runs} and older: this is the \"CUDA Version\" of nvidia-smi");
    let Some(default) = &seen.default_toolkit else {
        return Verdict::skip("there is no default toolkit").saw(limit);
    };
    let Some(toolkit) = seen.facts.toolkits.iter().find(|t| t.path == *default) else {
        return Verdict::skip("the default toolkit is none that is known").saw(limit);
    };
    let version = toolkit.version;
    let three = |verdict: Verdict| {
        verdict
            .saw(limit.clone())
            .saw(format!("the default toolkit is CUDA {version}, in {}", toolkit.path.display()))
            .saw("frameworks from pip or conda bring a CUDA of their own, as torch.version.cuda says")
    };
    if version.series() <= runs {
        return three(Verdict::pass());
    }
    let Some(oldest) = seen.oldest_driver.get(&toolkit.path) else {
        return three(Verdict::warn(format!(
            "CUDA {version} is newer than driver {driver} runs by itself (CUDA {runs})"
        )))
        .advise("install a newer driver, or an older toolkit", ["gpusetup plan"]);
    };
    if driver >= *oldest {
        return three(Verdict::pass()).saw(format!(
            "driver {driver} runs programs of CUDA {version} all the same (from {oldest} on), if they bring code for the GPU and not PTX alone"
        ));
    }
    three(Verdict::fail(format!(
        "the driver does not run programs of the default toolkit, CUDA {version}: {}",
        causes::oldest_driver(oldest, driver)
    )))
    .advise(
        "install a newer driver, or make an older toolkit the default",
        ["gpusetup plan --upgrade", "gpusetup plan --profile toolkit"],
    )
}

/// cuDNN computes, each that programs can load.
pub fn convolution(seen: &Evidence) -> Verdict {
    let each = seen.convolution.iter().map(|(soname, answer)| match answer {
        Answer::NotAsked(why) => Verdict::skip(why.clone()),
        Answer::Is(Convolution::Right) => {
            Verdict::pass().saw(format!("{soname}: a convolution came to the right numbers"))
        }
        Answer::Is(Convolution::Wrong(how)) => {
            Verdict::fail(format!("a convolution by {soname} comes to wrong numbers")).saw(how.clone()).advise(
                "install cuDNN's files anew; test the GPU if that does not help",
                ["sudo gpusetup apply --profile toolkit", "dcgmi diag -r 3"],
            )
        }
        Answer::Is(Convolution::Refused(refused)) if refused.code.is_none() => {
            // GS703 tells whether programs can load it at all.
            Verdict::skip(format!("{soname} could not be loaded")).saw(refused.to_string())
        }
        // CUDA's own "out of memory", cuDNN's "allocation failed" of releases 7 and 8, and that of 9: somebody else computes.
        Answer::Is(Convolution::Refused(refused)) if matches!(refused.code, Some(2 | 4004)) => {
            Verdict::skip("the GPU's memory is in use: no convolution was run").saw(refused.to_string())
        }
        // "Architecture mismatch" up to release 8, and of 9.
        Answer::Is(Convolution::Refused(refused)) if matches!(refused.code, Some(6 | 3007)) => {
            Verdict::fail(format!("{soname} has no code for this GPU"))
                .saw(refused.to_string())
                .advise("install one that has; gpusetup chooses it", ["gpusetup plan"])
        }
        Answer::Is(Convolution::Refused(refused)) => {
            Verdict::fail(format!("{soname} does not compute: {}", refused.says)).saw(refused.to_string()).advise(
                "see that cuDNN's files are of one release, built for this CUDA, and that libcublas is found",
                ["ldconfig -p | grep -E 'libcudnn|libcublas'", "sudo gpusetup apply --profile toolkit"],
            )
        }
        Answer::Failed(why) => Verdict::fail(format!("cuDNN does not come to an end: {why}"))
            .saw(why.clone())
            .advise("install cuDNN's files anew", ["sudo gpusetup apply --profile toolkit"]),
    });
    let kind = seen.facts.machine.kind;
    let none = if kind == MachineKind::Container { "no cuDNN is in the container" } else { "no cuDNN is installed" };
    Verdict::worst(each).unwrap_or_else(|| Verdict::skip(none))
}
