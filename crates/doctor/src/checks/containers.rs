//! Containers: whether they can use the host's GPUs.

use super::no_driver_of_its_own;
use crate::{Answer, Asked, Case, Containers, DockerDaemon, OldCdiReader, Verdict};
use gpusetup_database::version::AddOnVersion;
use gpusetup_host::{BrokenConfig, CdiSpec, GpuAccess, MachineKind, form_of};
use gpusetup_operation::Run;
use gpusetup_text::text::quoted_path;
use std::collections::BTreeSet;

/// Reports only setups that cannot work: many hosts use docker without GPUs.
pub(crate) fn get_gpus(case: &Case) -> Verdict {
    if let Some(skip) = no_driver_of_its_own(case) {
        return skip;
    }
    let here = &case.seen.containers;
    if here.engines.is_empty() {
        return Verdict::skip("no container engine is installed");
    }
    let engines = Verdict::pass().evidence(format!("engines: {}", here.engines.join(", ")));
    if !here.has_toolkit && here.lost_runtimes.is_empty() && here.specs.is_empty() {
        return Verdict::skip(
            "containers with GPUs are not set up: NVIDIA's container toolkit is not installed",
        );
    }
    let broken = here.broken.iter().map(|broken| unreadable(case, broken));
    let lost = here.lost_runtimes.iter().map(|(file, program)| {
        let (grep, file) = (
            format!("grep -n nvidia {}", quoted_path(file)),
            file.display(),
        );
        Verdict::fail(format!(
            "the configured runtime for containers with GPUs, {program}, is not installed"
        ))
        .evidence(format!("{file} names {program}"))
        .advise(
            "install NVIDIA's container toolkit, or remove the runtime from the file",
            [grep],
        )
    });
    let snap = (here.bare_snap && here.has_toolkit).then(|| {
        Verdict::warn(
            "docker is a snap: it cannot see this host's container toolkit, and contains none",
        )
        .evidence("/snap/bin/docker, and no /snap/docker/current/usr/bin/nvidia-ctk")
        .advise(
            "update the snap, or install docker from packages",
            ["sudo snap refresh docker"],
        )
    });
    let specs = here.specs.iter().map(|spec| described(spec, case));
    let running = here.daemon.iter().flat_map(running);
    let unread = here
        .old_cdi_readers
        .iter()
        .filter_map(|reader| unread(reader, here));
    let files = broken.chain(lost);
    let all = [engines]
        .into_iter()
        .chain(files)
        .chain(snap)
        .chain(specs)
        .chain(unread)
        .chain(running);
    Verdict::worst(all.chain(conflicting(here)).chain(undescribed(case)))
        .unwrap_or_else(Verdict::pass)
}

/// A configuration file that its engine cannot read.
pub(crate) fn unreadable(case: &Case, broken: &BrokenConfig) -> Verdict {
    let BrokenConfig {
        engine, path, why, ..
    } = broken;
    let units = case
        .known_engine(engine.as_str())
        .map(|engine| &engine.units[..]);
    // Which of several units the host has is not known here.
    let (name, restart) = match units {
        Some([unit]) => {
            let name = unit.trim_end_matches(".service");
            (name, Some(format!("sudo systemctl restart {name}")))
        }
        _ => (engine.as_str(), None),
    };
    let text = match units {
        Some([]) => "correct the file".to_owned(),
        _ => format!("correct the file, then restart {name}"),
    };
    let look = format!("sudo cat -n {}", quoted_path(path));
    Verdict::fail(format!("{name} cannot read {}: {why}", path.display()))
        .evidence(path.display().to_string())
        .advise(text, [look].into_iter().chain(restart))
}

/// Podman has no other way to the GPUs than a CDI specification, nor has CRI-O without a runtime of
/// NVIDIA's. A tree may get one when it boots.
fn undescribed(case: &Case) -> Option<Verdict> {
    let (here, is_tree) = (
        &case.seen.containers,
        case.seen.facts.machine.is_offline_root,
    );
    let mut titles = Vec::new();
    for name in &here.engines {
        let engine = case.known_engine(name)?;
        let form = form_of(engine);
        let needs_spec =
            form.gpus == GpuAccess::Cdi || form.falls_back_to_cdi && here.crio_lacks_runtime;
        titles.push(needs_spec.then_some(engine.title.as_str())?);
    }
    let is_there = !here.specs.is_empty() || is_tree && here.writes_spec_at_boot;
    (!is_there).then(|| {
        let titles = titles.join(" and ");
        let verdict = Verdict::warn(format!("containers of {titles} get no GPUs: no CDI specification describes them"))
            .evidence("no specification of nvidia.com in /etc/cdi and /var/run/cdi");
        if let Some(path) = here.misnamed_specs.first() {
            let (from, to) = (quoted_path(path), quoted_path(&path.with_extension("yaml")));
            return verdict
                .evidence(format!("{} is not read: its name ends in neither .yaml nor .json", path.display()))
                .advise("rename it", [format!("sudo mv {from} {to}")]);
        }
        let generate = ["sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"];
        if is_tree {
            let text = "write one after it has booted, or enable nvidia-cdi-refresh.service of NVIDIA Container Toolkit \
                        1.18.0 or newer";
            return verdict.evidence("no enabled unit writes one at boot").advise(text, generate);
        }
        verdict.advise("write one", generate)
    })
}

/// What the running docker daemon lacks.
fn running(daemon: &DockerDaemon) -> Vec<Verdict> {
    let mut all = Vec::new();
    if let Some(name) = daemon.unknown_runtimes.first() {
        let cause = format!(
            "docker does not know the runtime {name}: it was not restarted since /etc/docker/daemon.json names it"
        );
        all.push(
            Verdict::fail(cause)
                .evidence(format!("docker info lists no runtime {name}"))
                .advise(
                    "restart docker, which stops its containers unless live-restore is set",
                    ["sudo systemctl restart docker"],
                ),
        );
    }
    // <https://github.com/NVIDIA/nvidia-container-toolkit/issues/48>
    if daemon.cgroup_driver == "systemd" && !daemon.has_char_links {
        let text =
            "create the links, or start containers with CDI devices (--device nvidia.com/gpu=all)";
        all.push(
            Verdict::warn("running containers lose their GPUs when systemd reloads its units: \"Failed to initialize NVML: Unknown Error\"")
                .evidence("docker uses the cgroup driver systemd, and /dev/char has no links to NVIDIA's devices")
                .advise(text, ["sudo nvidia-ctk system create-dev-char-symlinks --create-all"]),
        );
    }
    all
}

/// A CDI specification is for one driver:
/// <https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/cdi-support.html>.
fn described(spec: &CdiSpec, case: &Case) -> Verdict {
    let path = spec.path.display();
    let missing = match &spec.missing {
        Answer::Is(missing) => missing,
        Answer::Failed(why) | Answer::NotAsked(why) => {
            return again(
                spec,
                Verdict::warn(format!("the CDI specification {path} cannot be read")),
            )
            .evidence(why.clone());
        }
    };
    let Some(first) = missing.first() else {
        if let Some(other) = of_other_driver(spec, case) {
            return other;
        }
        return Verdict::pass().evidence(format!(
            "{path}: {} devices, all their files exist",
            spec.devices.len()
        ));
    };
    if is_replaced(spec, &case.seen.containers) {
        return Verdict::pass().evidence(format!(
            "{path} is stale, but another specification replaces it"
        ));
    }
    let cause = format!(
        "containers with GPUs do not start: {path} names {}{}",
        first.display(),
        if missing.len() == 1 {
            ", which does not exist".to_owned()
        } else {
            format!(" and {} more files that do not exist", missing.len() - 1)
        },
    );
    again(spec, Verdict::fail(cause)).evidence(format!("{path} was generated for another driver"))
}

/// Whether another specification counts: if two describe one device, the one in /var/run, unless an
/// engine that reads this one is too old for it.
fn is_replaced(spec: &CdiSpec, here: &Containers) -> bool {
    !is_temporary(spec)
        && here.specs.iter().any(|other| {
            let mut readers = here.old_cdi_readers.iter();
            is_temporary(other)
                && other.devices.is_superset(&spec.devices)
                && !readers.any(|reader| refuses(reader, other) && !refuses(reader, spec))
        })
}

fn is_temporary(spec: &CdiSpec) -> bool {
    spec.path.starts_with("/var/run")
}

/// A specification that names the files of another driver, which are still there.
fn of_other_driver(spec: &CdiSpec, case: &Case) -> Option<Verdict> {
    let written = spec
        .driver
        .filter(|_| !is_replaced(spec, &case.seen.containers))?;
    let installed = case
        .seen
        .facts
        .driver
        .as_ref()
        .map(|driver| driver.version)
        .filter(|installed| *installed != written)?;
    let path = spec.path.display();
    let cause = format!(
        "containers with GPUs get the files of driver {written}, and {installed} is installed: {path} is older"
    );
    Some(again(spec, Verdict::warn(cause)).evidence(format!(
        "{path} names libraries of {written}, which are still there"
    )))
}

/// The version of CDI that a specification is written in.
fn written_in(spec: &CdiSpec) -> Option<AddOnVersion> {
    spec.version.as_ref()?.parse().ok()
}

/// Two specifications in one folder with the same device, which engines then give to no container.
fn conflicting(here: &Containers) -> Option<Verdict> {
    let read: Vec<_> = read_by(&here.old_cdi_readers, here).collect();
    let (device, one, other) = read.iter().enumerate().find_map(|(at, one)| {
        let mut beside = read[at + 1..]
            .iter()
            .filter(|other| other.path.parent() == one.path.parent());
        beside
            .find_map(|other| Some((one.devices.intersection(&other.devices).next()?, one, other)))
    })?;
    let (first, second) = (one.path.display(), other.path.display());
    let cause = format!(
        "containers get no {device} by CDI: two specifications of one folder describe it, and engines use neither"
    );
    let verdict =
        Verdict::warn(cause).evidence(format!("{first} and {second} both describe {device}"));
    let list = format!(
        "ls -l {} {}",
        quoted_path(&one.path),
        quoted_path(&other.path)
    );
    Some(verdict.advise("remove the older one of the two files", [list]))
}

/// Whether an engine is too old for a specification.
fn refuses(reader: &OldCdiReader, spec: &CdiSpec) -> bool {
    written_in(spec).is_some_and(|written| written >= reader.cdi)
}

/// The specifications that none of these readers is too old for.
fn read_by<'a>(
    readers: impl IntoIterator<Item = &'a OldCdiReader> + Clone,
    here: &'a Containers,
) -> impl Iterator<Item = &'a CdiSpec> {
    here.specs.iter().filter(move |spec| {
        let mut readers = readers.clone().into_iter();
        matches!(spec.missing, Answer::Is(_)) && !readers.any(|reader| refuses(reader, spec))
    })
}

/// The devices that an engine finds in the specifications that it reads: it skips the others.
fn devices_of(engine: &str, here: &Containers) -> BTreeSet<String> {
    let own = here.old_cdi_readers.iter();
    read_by(own.filter(|reader| reader.engine == engine), here)
        .flat_map(|spec| spec.devices.iter().cloned())
        .collect()
}

/// A specification that an engine is too old for, if no other one gives it the same devices.
fn unread(reader: &OldCdiReader, here: &Containers) -> Option<Verdict> {
    let OldCdiReader {
        engine,
        version,
        first,
        cdi,
    } = reader;
    let found = devices_of(engine, here);

    let (spec, written) = here
        .specs
        .iter()
        .filter(|spec| spec.devices.is_empty() || !spec.devices.is_subset(&found))
        .find_map(|spec| Some((spec, written_in(spec).filter(|written| written >= cdi)?)))?;
    let path = spec.path.display();
    let cause = format!(
        "{engine} {version} does not read the CDI specification {path}, so its containers get no GPUs"
    );
    let (known, update) = match first {
        Some(first) => (
            format!("{engine} {first} is the first that reads {cdi}"),
            format!("update {engine} to {first} or newer, or "),
        ),
        None => (
            format!("no version of {engine} that gpusetup knows reads {cdi}"),
            String::new(),
        ),
    };
    let known = format!("the specification has version {written}, and {known}");
    let text = format!("{update}write a specification with an older container toolkit");
    let asks = format!("grep -m1 cdiVersion {}", quoted_path(&spec.path));
    Some(Verdict::warn(cause).evidence(known).advise(text, [asks]))
}

fn again(spec: &CdiSpec, verdict: Verdict) -> Verdict {
    const LIMIT: u64 = 120;
    let command = if spec.path.starts_with("/var/run") {
        Run::new(
            ["systemctl", "restart", "nvidia-cdi-refresh.service"],
            LIMIT,
        )
    } else {
        let output = format!("--output={}", spec.path.display());
        Run::new(["nvidia-ctk", "cdi", "generate", &output], LIMIT)
    };
    verdict.repair(
        "generate the specification again for the installed driver",
        [command.changing([spec.path.clone()]).into()],
    )
}

/// Why CUDA was not checked in a container that should have GPUs. The driver belongs to the host.
pub(crate) fn not_given(case: &Case) -> Option<Verdict> {
    let given = case.seen.given.as_ref().filter(|given| !given.devices)?;
    let on_the_bus = !case.seen.facts.gpus.is_empty();
    let verdict = match (given.asked, on_the_bus) {
        (Asked::Nothing, _) | (Asked::Unsaid, false) => return None,
        (Asked::Unsaid, true) => {
            Verdict::fail("the host has GPUs, but this container was started without them")
        }
        (Asked::Gpus, true) => {
            Verdict::fail(NOT_PASSED).evidence("NVIDIA_VISIBLE_DEVICES requests GPUs")
        }
        (Asked::Gpus, false) => {
            Verdict::warn(NOT_PASSED).evidence("NVIDIA_VISIBLE_DEVICES requests GPUs")
        }
    };
    let text = "start the container with GPUs, on a host with NVIDIA's container toolkit; do not install a driver in it. \
                To build programs without a GPU, link with the libcuda in the toolkit's lib64/stubs";
    let commands = [
        "docker run --gpus all IMAGE",
        "podman run --device nvidia.com/gpu=all IMAGE",
    ];
    Some(
        verdict
            .evidence("/dev/nvidiactl is missing")
            .root_cause()
            .advise(text, commands),
    )
}

const NOT_PASSED: &str = "this container requests GPUs but got none: it was started without --gpus, or without NVIDIA's runtime";

/// Why a container with the GPUs' devices lacks a library of the driver.
pub(crate) fn without_library(case: &Case, library: &str, capability: &str) -> Option<Verdict> {
    if case.seen.facts.machine.kind != MachineKind::Container {
        return None;
    }
    let asked = case
        .seen
        .given
        .as_ref()
        .and_then(|given| given.capabilities.as_ref());
    let shown = asked.map(|all| all.iter().map(String::as_str).collect::<Vec<_>>().join(","));
    let cause = match &shown {
        Some(all) if asked.is_some_and(|a| !a.contains(capability) && !a.contains("all")) => {
            format!(
                "this container got the GPUs without {library}: NVIDIA_DRIVER_CAPABILITIES={all} leaves out {capability}"
            )
        }
        _ => format!("this container has the GPUs' devices, but not the host driver's {library}"),
    };
    let commands = ["docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility IMAGE"];
    Some(Verdict::fail(cause).root_cause().advise(
        "start the container with the driver's libraries; do not install a driver in it",
        commands,
    ))
}

/// Drivers before 615 default to NUMA mode; driver mode exists since 580 (release notes of NVIDIA
/// HPC SDK 26.11). The effect of NUMA mode on Kubernetes:
/// <https://developer.nvidia.com/blog/understanding-memory-management-on-hardware-coherent-platforms>.
pub(crate) fn count_memory(case: &Case) -> Verdict {
    if let Some(skip) = no_driver_of_its_own(case) {
        return skip;
    }
    let Some((coherent, driver)) = case
        .seen
        .coherent
        .as_ref()
        .zip(case.seen.facts.driver.as_ref())
    else {
        return Verdict::skip("no GPU here shares its memory with the CPU");
    };
    if !coherent.has_kubelet {
        return Verdict::skip("no kubelet is installed, which would count the GPUs' memory");
    }
    let branch = driver.version.branch;
    let mode = match (coherent.mode.as_str(), branch) {
        ("", 615..) => "driver",
        ("", _) => "numa",
        (set, _) => set,
    };
    let evidence = format!("driver {}, mode {mode}", driver.version);
    if mode == "driver" {
        return Verdict::pass().evidence(evidence);
    }
    let cause = "the kernel counts GPU memory as host memory: Kubernetes reports too much memory, and pods get wrong limits";
    if branch < 580 {
        let text = "install driver branch 580 or newer, which can manage GPU memory itself";
        return Verdict::warn(cause)
            .evidence(evidence)
            .advise(text, ["gpusetup plan --upgrade"]);
    }
    Verdict::warn(cause)
        .evidence(evidence)
        .remedy(gpusetup_causes::driver_manages_memory())
}
