//! Hosts of containers.

use super::no_driver_of_its_own;
use crate::doctor::{Answer, Asked, CdiSpec, Evidence, Verdict};
use crate::host::MachineKind;
use crate::operation::Run;
use crate::text::quoted_path;

/// Only what cannot work is told of: docker is on many hosts for other ends than GPUs.
pub fn get_gpus(seen: &Evidence) -> Verdict {
    if let Some(skip) = no_driver_of_its_own(seen) {
        return skip;
    }
    let here = &seen.containers;
    if here.engines.is_empty() {
        return Verdict::skip("nothing here starts containers");
    }
    let engines = Verdict::pass().saw(format!("engines: {}", here.engines.join(", ")));
    if !here.has_toolkit && here.lost_runtimes.is_empty() && here.specs.is_empty() {
        return Verdict::skip("nobody asked for containers with GPUs: NVIDIA's container toolkit is not installed");
    }
    let daemon = here.daemon_json.iter().map(|why| {
        Verdict::fail(format!("docker cannot read /etc/docker/daemon.json: {why}"))
            .saw("/etc/docker/daemon.json")
            .advise("mend the file, then start docker", ["sudo dockerd --validate", "sudo systemctl restart docker"])
    });
    let lost = here.lost_runtimes.iter().map(|(file, program)| {
        let (grep, file) = (format!("grep -n nvidia {}", quoted_path(file)), file.display());
        Verdict::fail(format!("containers with GPUs are to be started by {program}, which is not there"))
            .saw(format!("{file} names {program}"))
            .advise("install NVIDIA's container toolkit, or take it out of the file", [grep])
    });
    let snap = (here.bare_snap && here.has_toolkit).then(|| {
        Verdict::warn("docker is a snap, which does not see this host's container toolkit and brings none")
            .saw("/snap/bin/docker, and no /snap/docker/current/usr/bin/nvidia-ctk")
            .advise("update the snap, or install docker from packages instead", ["sudo snap refresh docker"])
    });
    let specs = here.specs.iter().map(|spec| described(spec, &here.specs));
    Verdict::worst([engines].into_iter().chain(daemon).chain(lost).chain(snap).chain(specs))
        .unwrap_or_else(Verdict::pass)
}

/// <https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/cdi-support.html>: a description is of one driver.
fn described(spec: &CdiSpec, all: &[CdiSpec]) -> Verdict {
    let path = spec.path.display();
    let missing = match &spec.missing {
        Answer::Is(missing) => missing,
        Answer::Failed(why) | Answer::NotAsked(why) => {
            return again(
                spec,
                Verdict::warn(format!("the description of GPUs for containers, {path}, cannot be read")),
            )
            .saw(why.clone());
        }
    };
    let Some(first) = missing.first() else {
        return Verdict::pass().saw(format!("{path}: {} devices, all their files are there", spec.devices.len()));
    };
    // Of two descriptions of one device the one in /var/run counts.
    let temporary = |s: &CdiSpec| s.path.starts_with("/var/run");
    let stands_for = |s: &CdiSpec| temporary(s) && s.devices.is_superset(&spec.devices);
    if !temporary(spec) && all.iter().any(stands_for) {
        return Verdict::pass().saw(format!("{path} is stale, and another stands for it"));
    }
    let cause = format!(
        "containers with GPUs do not start: {path} names {}, which {} there",
        first.display(),
        if missing.len() == 1 { "is not".to_owned() } else { format!("like {} more is not", missing.len() - 1) },
    );
    again(spec, Verdict::fail(cause)).saw(format!("{path} was made for another driver"))
}

fn again(spec: &CdiSpec, verdict: Verdict) -> Verdict {
    const LIMIT: u64 = 120;
    let command = if spec.path.starts_with("/var/run") {
        Run::new(["systemctl", "restart", "nvidia-cdi-refresh.service"], LIMIT)
    } else {
        let output = format!("--output={}", spec.path.display());
        Run::new(["nvidia-ctk", "cdi", "generate", &output], LIMIT)
    };
    verdict.repair("have it made anew, for the driver as it is", [command.changing([spec.path.clone()]).into()])
}

/// Why CUDA was not asked in a container, if it was to have GPUs. A driver is the host's business.
pub fn not_given(seen: &Evidence) -> Option<Verdict> {
    let given = seen.given.as_ref().filter(|given| !given.devices)?;
    let on_the_bus = !seen.facts.gpus.is_empty();
    let verdict = match (given.asked, on_the_bus) {
        (Asked::Nothing, _) | (Asked::Unsaid, false) => return None,
        (Asked::Unsaid, true) => Verdict::fail("the host has GPUs, and this container was started without them"),
        (Asked::Gpus, true) => Verdict::fail(NOT_PASSED).saw("NVIDIA_VISIBLE_DEVICES asks for GPUs"),
        (Asked::Gpus, false) => Verdict::warn(NOT_PASSED).saw("NVIDIA_VISIBLE_DEVICES asks for GPUs"),
    };
    let text = "start the container again with its GPUs, on a host with NVIDIA's container toolkit; install no driver in it. \
                To build programs without a GPU, link with the libcuda in the toolkit's lib64/stubs";
    let commands = ["docker run --gpus all IMAGE", "podman run --device nvidia.com/gpu=all IMAGE"];
    Some(verdict.saw("there is no /dev/nvidiactl").alone().advise(text, commands))
}

const NOT_PASSED: &str =
    "this container asks for GPUs and was given none: it was not started with --gpus, or not by NVIDIA's runtime";

/// Why a library of the driver is missing in a container that has the GPUs' devices.
pub fn without_library(seen: &Evidence, library: &str, capability: &str) -> Option<Verdict> {
    if seen.facts.machine.kind != MachineKind::Container {
        return None;
    }
    let asked = seen.given.as_ref().and_then(|given| given.capabilities.as_ref());
    let shown = asked.map(|all| all.iter().map(String::as_str).collect::<Vec<_>>().join(","));
    let cause = match &shown {
        Some(all) if asked.is_some_and(|a| !a.contains(capability) && !a.contains("all")) => format!(
            "this container was given the GPUs without {library}: NVIDIA_DRIVER_CAPABILITIES={all} leaves out {capability}"
        ),
        _ => format!("this container has the GPUs' devices and not the host driver's {library}"),
    };
    let commands = ["docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility IMAGE"];
    Some(
        Verdict::fail(cause)
            .alone()
            .advise("start the container again with the driver's libraries; install no driver in it", commands),
    )
}

/// NUMA is the mode of drivers before 615, which have the other from 580 on: NVIDIA HPC SDK 26.11's release notes. What NUMA
/// does to Kubernetes: <https://developer.nvidia.com/blog/understanding-memory-management-on-hardware-coherent-platforms>.
pub fn count_memory(seen: &Evidence) -> Verdict {
    if let Some(skip) = no_driver_of_its_own(seen) {
        return skip;
    }
    let Some((coherent, driver)) = seen.coherent.as_ref().zip(seen.facts.driver.as_ref()) else {
        return Verdict::skip("no GPU here shares its memory with the processor");
    };
    if !coherent.has_kubelet {
        return Verdict::skip("there is no kubelet that would count the GPUs' memory");
    }
    let branch = driver.version.branch;
    let mode = match (coherent.mode.as_str(), branch) {
        ("", 615..) => "driver",
        ("", _) => "numa",
        (set, _) => set,
    };
    let evidence = format!("driver {}, mode {mode}", driver.version);
    if mode == "driver" {
        return Verdict::pass().saw(evidence);
    }
    let cause =
        "the kernel counts the GPUs' memory as the host's: Kubernetes reports too much, and pods are limited wrongly";
    if branch < 580 {
        let mend = "install branch 580 or newer, which can keep that memory to itself";
        return Verdict::warn(cause).saw(evidence).advise(mend, ["gpusetup plan --upgrade"]);
    }
    Verdict::warn(cause).saw(evidence).advise(
        "let the driver keep that memory to itself, then boot",
        [
            "echo options nvidia NVreg_CoherentGPUMemoryMode=driver | sudo tee /etc/modprobe.d/nvidia-coherent.conf",
            "sudo reboot",
        ],
    )
}
