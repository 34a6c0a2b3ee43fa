//! What the user should know of a plan for containers.

use super::SPECIFICATION;
use crate::context::StepContext;
use crate::engines::{ContainerSetup, EngineSetup};
use gpusetup_database::compat::{Engine, RestartEffect};
use gpusetup_database::version::AddOnVersion;
use gpusetup_host::{GpuAccess, MachineKind, NVIDIA_RUNTIME, form_of, is_nvidia_runtime};
use gpusetup_text::text::{all_of, quoted, quoted_path};
use std::collections::BTreeSet;
use std::path::Path;

/// The warnings, a sentence or two each.
pub(crate) fn warnings(context: &StepContext) -> Vec<String> {
    let Some(containers) = context.containers.as_ref() else {
        return Vec::new();
    };
    if context.facts.machine.kind == MachineKind::Container {
        return Vec::new();
    }
    let mut all = Vec::new();
    all.extend(unknown_engines(context).or_else(|| without_engine(context, containers)));
    all.extend(snaps(context, containers));
    all.extend(own_containerds(containers));
    for setup in &containers.engines {
        all.extend(no_pods(containers, setup));
        all.extend(incomplete_template(setup));
        all.extend(kept_runtime(containers, setup));
        all.extend(unusable_runtime(containers, setup));
        all.extend(faulty_runtime(containers, setup));
        all.extend(restart(containers, setup));
        all.extend(
            unread_specification(containers, setup).or_else(|| cdi(context, containers, setup)),
        );
    }
    all.extend(unwritten_low_level(containers));
    all.extend(no_specification(context, containers));
    all.extend(is_root(containers));
    all.extend(selinux(containers));
    all.extend(old_sources(containers));
    all
}

/// The warning that the facts are of a host whose engines nobody looked for.
fn unknown_engines(context: &StepContext) -> Option<String> {
    context.facts.container_host.is_none().then(|| {
        "it is not known here which container engines the host has: `gpusetup facts` does not read their files, which may have \
         passwords. This plan is for a host without engines and container toolkit. For a host that has some, plan there: \
         `gpusetup plan --profile container-host --out plan.json`"
            .to_owned()
    })
}

fn without_engine(context: &StepContext, containers: &ContainerSetup) -> Option<String> {
    let host = &containers.host;
    if !containers.engines.is_empty() || !host.snaps.is_empty() || !host.own_containerds.is_empty()
    {
        return None;
    }
    let distribution = context.distribution?;
    let offers = context
        .known_engines
        .iter()
        .filter(|engine| engine.packages_on(distribution).is_some());
    let options: Vec<_> = offers
        .map(|engine| format!("--engine {}", engine.id))
        .collect();
    let install = match options.as_slice() {
        [] => String::new(),
        options => format!(" {} installs one in the same run.", options.join(" or ")),
    };
    Some(format!(
        "no container engine is known here.{install} Podman can be installed later without another plan; other engines need this \
         one again after they are installed"
    ))
}

/// The warning that an engine is a snap, which is not set up.
fn snaps(context: &StepContext, containers: &ContainerSetup) -> Option<String> {
    let engine = context
        .known_engines
        .iter()
        .find(|engine| containers.host.snaps.contains(&engine.id))?;
    let (title, snap) = (&engine.title, engine.snap.as_ref()?);
    let (program, config, name) = (&snap.program, &snap.config, &snap.name);
    Some(format!(
        "{title} is a snap here ({program}), which gpusetup does not set up: it reads {config} and brings its own container toolkit. \
         After this, `sudo snap restart {name}` lets it find the driver, and --runtime nvidia gives containers the GPUs. For packages \
         in its place, move containers and images, run `sudo snap remove {name}`, and plan again with --engine {}",
        engine.id
    ))
}

/// The warnings that pods run in a containerd which is not set up.
fn own_containerds(containers: &ContainerSetup) -> Vec<String> {
    let all = containers
        .toolkit
        .own_containerds
        .iter()
        .filter(|own| containers.host.own_containerds.contains(&own.title));
    all.map(|own| {
        format!(
            "{} runs pods with its own containerd, which gpusetup does not set up. {}",
            own.title, own.instead
        )
    })
    .collect()
}

/// The warning that containerd starts no pods for kubelet.
fn no_pods(containers: &ContainerSetup, setup: &EngineSetup) -> Option<String> {
    let path = containers.target(setup).serves_no_pods()?;
    let (title, unit) = (&setup.engine.title, setup.engine.units.first()?);
    Some(format!(
        "{title} serves no pods: {path} disables its plugin cri, so a kubelet cannot use it, and the runtime nvidia is not added. Take cri \
         out of disabled_plugins in this file, run `sudo systemctl restart {unit}`, then plan again"
    ))
}

/// The warning that a template of K3s or RKE2 leaves out the runtime that the engine finds.
fn incomplete_template(setup: &EngineSetup) -> Option<String> {
    let path = quoted_path(setup.found.as_ref()?.incomplete_template.as_ref()?);
    let title = &setup.engine.title;
    Some(format!(
        "{title} adds no runtime nvidia, so pods of this runtime class do not start: {path} replaces the template of {title}, and does not \
         list the runtimes that it finds. Put {{{{ template \"base\" . }}}} into the file, in place of what it repeats of that template, \
         then restart {title}"
    ))
}

/// The warning that a runtime in another file stays as it is.
fn kept_runtime(containers: &ContainerSetup, setup: &EngineSetup) -> Option<String> {
    let (title, path) = (
        &setup.engine.title,
        quoted_path(containers.target(setup).runtime_in()?),
    );
    Some(format!(
        "{title} has a runtime nvidia in {path} already, which stays as it is"
    ))
}

/// The warning that Docker's runtime nvidia, which stays as it is, does not start NVIDIA's program.
fn unusable_runtime(containers: &ContainerSetup, setup: &EngineSetup) -> Option<String> {
    let (title, path) = (&setup.engine.title, setup.engine.config.as_ref()?);
    let why = why_unusable(containers, setup)?;
    let (runtime, unit) = (&containers.toolkit.runtime, setup.engine.units.first()?);
    Some(format!(
        "{title} has a runtime nvidia in {path} already, which stays as it is, but {why}. Make {runtime} its path, then run \
         `sudo systemctl restart {unit}`"
    ))
}

/// The warning that a runtime of containerd's, which stays as it is, gives pods no GPUs.
fn faulty_runtime(containers: &ContainerSetup, setup: &EngineSetup) -> Option<String> {
    let mut of_engine = containers
        .host
        .runtimes
        .iter()
        .filter(|runtime| runtime.engine == setup.engine.id);
    let (runtime, fault) =
        of_engine.find_map(|runtime| Some((runtime, runtime.fault.as_deref()?)))?;
    let (title, name, path) = (
        &setup.engine.title,
        &runtime.name,
        quoted_path(&runtime.path),
    );
    let unit = setup.engine.units.first()?;
    Some(format!(
        "{title} has a runtime {name} in {path} already, which stays as it is, but {fault}. Then run \
         `sudo systemctl restart {unit}`"
    ))
}

/// Why the runtime nvidia in Docker's file does not start NVIDIA's program; none if it does, or if
/// the file has none.
fn why_unusable(containers: &ContainerSetup, setup: &EngineSetup) -> Option<String> {
    let engine = setup.engine;
    let path = engine
        .config
        .as_ref()
        .filter(|_| form_of(engine).gpus == GpuAccess::Flag)?;
    let file = containers.host.file(Path::new(path)).ok()??;
    let program = form_of(engine).nvidia_runtime(&file.text)??;
    let found = containers
        .host
        .runtimes
        .iter()
        .find(|found| found.engine == engine.id && found.name == NVIDIA_RUNTIME);
    // The toolkit's own program comes with its packages.
    let missing = found.and_then(|found| found.missing_program.as_deref());
    let is_missing =
        missing.is_some_and(|missing| missing != Path::new(&containers.toolkit.runtime));
    match found {
        Some(_) if is_missing => Some(format!("its program {program} does not exist")),
        None if !is_nvidia_runtime(&program) => {
            Some(format!("its program {program} is not NVIDIA's"))
        }
        _ => None,
    }
}

/// The warning that containers end when their engine restarts.
fn restart(containers: &ContainerSetup, setup: &EngineSetup) -> Option<String> {
    let found = setup
        .found
        .as_ref()
        .filter(|found| !found.units.is_empty())?;
    let edit = containers.target(setup).edit().ok().flatten();
    let changed =
        edit.filter(|edit| setup.is_replaced || edit.before.as_ref() != Some(&edit.content))?;
    let before = changed.before.as_deref().unwrap_or_default();
    ends_containers(setup.engine, &found.units, &changed.path, before)
}

/// The same for a file with this text before.
pub(super) fn ends_containers(
    engine: &Engine,
    units: &[String],
    path: &Path,
    before: &str,
) -> Option<String> {
    if units.is_empty()
        || engine.restart != Some(RestartEffect::EndsContainers)
        || (form_of(engine).keeps_containers)(before)
    {
        return None;
    }
    let (title, path, units) = (&engine.title, quoted_path(path), all_of(&strs(units)));
    Some(format!(
        "{title} restarts ({units}), and its running containers end: those without a restart policy stay down. \
         `\"live-restore\": true` in {path} keeps them running"
    ))
}

fn strs(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

/// The devices in the specifications that a version of an engine reads: it skips the others.
fn devices_for(
    containers: &ContainerSetup,
    engine: &Engine,
    version: AddOnVersion,
) -> BTreeSet<String> {
    let read = containers
        .host
        .specifications
        .values()
        .filter(|spec| !engine.refuses(version, spec.cdi));
    read.flat_map(|spec| spec.devices.iter().cloned()).collect()
}

/// The warning that an engine does not read a specification that is there, and has no other way to
/// the GPUs.
fn unread_specification(containers: &ContainerSetup, setup: &EngineSetup) -> Option<String> {
    let (engine, version) = (setup.engine, setup.version?);
    let found = devices_for(containers, engine, version);
    let mut all = containers
        .host
        .specifications
        .iter()
        .filter(|_| engine.needs_cdi(version));
    let (path, spec) =
        all.find(|(_, spec)| engine.refuses(version, spec.cdi) && !spec.devices.is_subset(&found))?;
    let (title, path, cdi) = (&engine.title, quoted_path(path), spec.cdi);
    let first = match engine.reads(cdi) {
        Some(first) => format!("{title} {first} is the first version that reads it"),
        None => format!("no version of {title} that gpusetup knows reads it"),
    };
    Some(format!(
        "{title} {version} does not read {path}, which has version {cdi} of CDI, so its containers get no GPUs: {first}"
    ))
}

/// How the names of GPUs begin in a specification.
const GPUS: &str = "nvidia.com/gpu=";

/// The warning that an engine does not read the specifications that this toolkit writes.
fn cdi(context: &StepContext, containers: &ContainerSetup, setup: &EngineSetup) -> Option<String> {
    let (engine, title) = (setup.engine, &setup.engine.title);
    let text = engine
        .config
        .as_ref()
        .and_then(|path| containers.host.file(Path::new(path)).ok()?);
    let is_usable = why_unusable(containers, setup).is_none();
    if text.is_some_and(|file| (form_of(engine).refuses_cdi)(&file.text)) {
        let way = if is_usable {
            "--runtime nvidia works"
        } else {
            "--gpus works"
        };
        return Some(format!(
            "{title} is told not to use CDI (features.cdi), which stays so: {way}"
        ));
    }
    let version = setup.version?;
    let of_release = if setup.found.is_none() {
        format!(" of {}", context.facts.os.name)
    } else {
        String::new()
    };
    let subject = format!("{title} {version}{of_release}");
    let other_way = match form_of(engine).gpus {
        GpuAccess::Flag if is_usable => Some("--gpus and --runtime nvidia work"),
        GpuAccess::Flag => Some("--gpus works"),
        GpuAccess::Runtime => Some("the runtime nvidia works"),
        GpuAccess::Cdi => None,
    };
    if let Some(least) = engine.cdi.filter(|least| version < *least) {
        let instead = other_way.map_or(", so its containers get no GPUs".to_owned(), |way| {
            format!("; {way}")
        });
        return Some(format!(
            "{subject} reads no CDI specification{instead}: {title} {least} is the first version that does"
        ));
    }
    let (toolkit, newer) = (containers.version, containers.toolkit.newer_specification);
    let first = engine
        .reads(newer.cdi)
        .filter(|first| toolkit >= newer.since && version < *first)?;
    let instead = match other_way {
        Some(way) => format!("; {way} all the same"),
        // It uses the specification of the GPUs that is there already.
        None if devices_for(containers, engine, version)
            .iter()
            .any(|name| name.starts_with(GPUS)) =>
        {
            return None;
        }
        None => format!(". If it does, containers of {title} get no GPUs"),
    };
    Some(format!(
        "{subject} does not read version {} of CDI, in which {} {toolkit} may write the specification{instead}. {title} {first} is the \
         first version that reads it",
        newer.cdi, containers.toolkit.title
    ))
}

/// The warning that the toolkit's configuration cannot name CRI-O's runc or crun, because it is no
/// plain file.
fn unwritten_low_level(containers: &ContainerSetup) -> Option<String> {
    let program = quoted_path(
        containers
            .host
            .runtime_outside_path
            .as_ref()
            .filter(|_| containers.is_kept)?,
    );
    let path = &containers.toolkit.low_level.as_ref()?.config;
    let why = containers.host.file(Path::new(path)).err()?;
    Some(format!(
        "{path} stays as it is: {why}. NVIDIA's runtime finds neither runc nor crun, so no pod of it starts in CRI-O: \
         put {program} first in runtimes there"
    ))
}

/// The warning that nothing will write a CDI specification on the host that a tree becomes.
fn no_specification(context: &StepContext, containers: &ContainerSetup) -> Option<String> {
    let (toolkit, version, since) = (
        containers.toolkit,
        containers.version,
        containers.toolkit.cdi_units_since,
    );
    let setup = containers
        .engines
        .iter()
        .find(|setup| form_of(setup.engine).gpus == GpuAccess::Cdi)?;
    let mut devices = containers
        .host
        .specifications
        .values()
        .flat_map(|specification| &specification.devices);
    if version >= since
        || !context.facts.machine.is_offline_root
        || devices.any(|name| name.starts_with(GPUS))
    {
        return None;
    }
    let (title, engine, program) = (&toolkit.title, &setup.engine.title, &toolkit.program);
    let upgrade = match containers.request.locked_toolkit {
        Some(_) => String::new(),
        None => {
            format!(". {title} {since} and newer do so at every boot: plan again with --upgrade")
        }
    };
    Some(format!(
        "{title} {version} writes no CDI specification when the host of this tree boots, so containers of {engine} get no GPUs \
         until this has run there: `sudo {program} cdi generate --output={SPECIFICATION}`{upgrade}"
    ))
}

fn is_root(containers: &ContainerSetup) -> Option<String> {
    let user = containers.request.docker_user.as_ref()?;
    let setup = containers.with_group()?;
    let (group, title) = (setup.engine.group.as_ref()?, &setup.engine.title);
    Some(format!(
        "{user} becomes root in effect: members of the group {group} can start containers that write to any file of the host. It \
         counts from the next login on. Rootless {title} and Podman need no such group; gpasswd --delete {} {group} ends it",
        quoted(user)
    ))
}

fn selinux(containers: &ContainerSetup) -> Option<String> {
    let is_meant = containers.host.selinux && !containers.engines.is_empty();
    is_meant.then(|| {
        "SELinux keeps containers from the GPUs (\"Insufficient Permissions\"): run them with --security-opt=label=disable".to_owned()
    })
}

fn old_sources(containers: &ContainerSetup) -> Option<String> {
    let old = &containers.host.old_sources;
    if old.is_empty() {
        return None;
    }
    let files: Vec<_> = old.iter().map(|path| quoted_path(path)).collect();
    let files = all_of(&strs(&files));
    Some(format!(
        "{files}: a source of an older generation of the toolkit. If apt says \"Conflicting values set for option Signed-By\", remove it"
    ))
}
