//! The steps that let containers use the GPUs: a container engine if one was asked for, NVIDIA's
//! container toolkit, the engines' configuration and the CDI specification.

mod refusals;
mod removal;
mod warnings;

pub(crate) use refusals::not_refused;
pub(crate) use removal::ContainerRemoval;
pub(crate) use warnings::warnings;

use super::companions::load_driver;
use super::context::{StepContext, skipped, step};
use super::engines::{ContainerSetup, EngineSetup};
use super::{Act, Step, StepId};
use gpusetup_host::{FileEdit, GpuAccess, MachineKind, form_of, lines_with_first};
use gpusetup_operation::{EditFile, LineEdit, Packages, Remove, Run, Service, WriteFile};
use gpusetup_text::text::all_of;
use std::path::PathBuf;

/// The CDI specification that NVIDIA's guide has written by hand.
const SPECIFICATION: &str = "/etc/cdi/nvidia.yaml";

/// What a container says in place of both steps.
const ON_THE_HOST: &str = "engines run on the host of this container";

/// The step that installs an engine, and lets a user use it; none if neither was asked for.
pub(crate) fn install_engine(context: &StepContext) -> Option<Step> {
    let containers = context.containers.as_ref()?;
    let asked = containers.asked()?;
    let title = engine_title(containers, asked);
    if context.facts.machine.kind == MachineKind::Container {
        return Some(skipped(StepId::ContainerEngine, title, ON_THE_HOST));
    }
    let mut acts = Vec::new();
    if let (Some(packages), Some(manager)) = (asked.packages, context.facts.os.package_manager) {
        let satisfied = asked.found.is_some() && !asked.is_replaced;
        acts.push(Act {
            operation: Packages::to_install(manager, packages.names.clone()).into(),
            satisfied,
        });
        // Some packages only bring the unit.
        let unit = asked.engine.units.first().filter(|_| asked.found.is_none());
        acts.extend(unit.map(|unit| Act::needed(Service::start(unit))));
    }
    acts.extend(containers.membership());
    let why = match (&containers.request.docker_user, &asked.engine.group) {
        (Some(user), Some(group)) => {
            format!(
                "the packages are the distribution's; {user} joins the group {group}, which makes {user} root in effect"
            )
        }
        _ => "the packages are the distribution's".to_owned(),
    };
    Some(step(StepId::ContainerEngine, title, why, acts))
}

fn engine_title(containers: &ContainerSetup, asked: &EngineSetup) -> String {
    let (title, request) = (&asked.engine.title, containers.request);
    match (&request.docker_user, &request.locked_engine) {
        (_, Some(locked)) if asked.is_replaced => {
            format!("Install {title} {locked}, the version in the lock file")
        }
        (Some(user), _) if asked.found.is_some() => format!("Let {user} use {title}"),
        (None, _) if asked.found.is_some() => format!("Use the installed {title}"),
        _ => format!("Install {title}"),
    }
}

/// The step that sets up NVIDIA's container toolkit for the engines.
pub(crate) fn container_toolkit(context: &StepContext) -> Option<Step> {
    let containers = context.containers.as_ref()?;
    let (toolkit, version) = (containers.toolkit, containers.version);
    let engines: Vec<_> = containers
        .engines
        .iter()
        .map(|engine| engine.engine.title.as_str())
        .collect();
    let of_engines = if engines.is_empty() {
        String::new()
    } else {
        format!(" for {}", all_of(&engines))
    };
    let title = format!("Set up {} {version}{of_engines}", toolkit.title);
    if context.facts.machine.kind == MachineKind::Container {
        return Some(skipped(StepId::ContainerToolkit, title, ON_THE_HOST));
    }
    let mut acts: Vec<_> = containers
        .host
        .left_over
        .iter()
        .map(|path| Act::needed(Remove { path: path.clone() }))
        .collect();
    let packages = toolkit_packages(context, containers);
    let is_new = packages.iter().any(|act| !act.satisfied);
    acts.extend(packages);
    acts.extend(low_level_runtime(containers));
    acts.extend(dev_char(context, containers));
    let mut restarts = Vec::new();
    for setup in &containers.engines {
        let edit = containers.target(setup).edit().ok().flatten().map(write);
        let detects = form_of(setup.engine).finds_runtimes && is_new;
        if detects || edit.as_ref().is_some_and(|act| !act.satisfied) {
            restarts.extend(
                setup
                    .units()
                    .into_iter()
                    .map(|unit| Act::needed(Service::restart(unit))),
            );
        }
        acts.extend(edit);
    }
    acts.extend(restarts);
    acts.extend(refresh_cdi(context, containers));
    Some(step(StepId::ContainerToolkit, title, why(containers), acts))
}

fn why(containers: &ContainerSetup) -> String {
    let mut reasons = vec![
        "containers get the driver's files and devices from the host, in the host's version"
            .to_owned(),
    ];
    for setup in &containers.engines {
        let note = form_of(setup.engine).note.map(str::to_owned);
        reasons.extend(note.filter(|note| !reasons.contains(note)));
    }
    reasons.join("; ")
}

/// The packages of the toolkit, all in one version.
fn toolkit_packages(context: &StepContext, containers: &ContainerSetup) -> Option<Act> {
    let manager = context.facts.os.package_manager?;
    let names = containers.toolkit.packages.clone();
    let version = &containers.package_version;
    let versions = names
        .iter()
        .filter(|_| !containers.is_kept)
        .map(|name| (name.clone(), version.clone()))
        .collect();
    let wanted = Packages {
        versions,
        ..Packages::to_install(manager, names)
    };
    Some(Act {
        operation: wanted.into(),
        satisfied: containers.is_kept,
    })
}

/// Names CRI-O's runc or crun in the toolkit's configuration, if NVIDIA's runtime finds none of the
/// programs named there.
fn low_level_runtime(containers: &ContainerSetup) -> Option<Act> {
    let program = containers.host.runtime_outside_path.as_ref()?.to_str()?;
    if containers.is_kept {
        let edit = containers.host.config_with(containers.toolkit, program);
        return edit.map(write);
    }
    // The packages write the file, or write it in another form. Only the line with the list is
    // known before.
    let path = PathBuf::from(&containers.toolkit.low_level.as_ref()?.config);
    let names = containers.host.low_level_names(containers.toolkit)?;
    let [old, new] = lines_with_first(program, &names);
    Some(Act::needed(EditFile {
        path,
        owner: 0,
        edits: vec![LineEdit {
            old,
            new: Some(new),
        }],
    }))
}

/// A merged file. What was there before, undo puts back.
fn write(edit: FileEdit) -> Act {
    let FileEdit {
        path,
        before,
        mode,
        content,
    } = edit;
    let satisfied = before.as_ref() == Some(&content);
    let merged_from = before.map(gpusetup_database::sum::sha256);
    Act {
        operation: WriteFile {
            path,
            content,
            mode,
            merged_from,
        }
        .into(),
        satisfied,
    }
}

/// The links below /dev/char, for engines whose containers systemd confines: a rule makes them at
/// every boot.
fn dev_char(context: &StepContext, containers: &ContainerSetup) -> Vec<Act> {
    let rule = &containers.toolkit.dev_char;
    let is_meant = containers
        .engines
        .iter()
        .any(|setup| form_of(setup.engine).gpus != GpuAccess::Cdi);
    if !is_meant || containers.version < rule.since {
        return Vec::new();
    }
    let content = format!(
        "# Written by gpusetup: systemd finds the GPUs of containers by these links.\n{}\n",
        rule.rule
    );
    let before = containers
        .host
        .file(std::path::Path::new(&rule.file))
        .ok()
        .flatten()
        .map(|file| file.text.clone());
    let file = write(FileEdit {
        path: (&rule.file).into(),
        before,
        mode: 0o644,
        content,
    });
    let program = containers.toolkit.program.as_str();
    let satisfied = file.satisfied;
    let argv = [
        program,
        "system",
        "create-dev-char-symlinks",
        "--create-all",
    ];
    let has_driver =
        context.chosen.driver.is_some() || context.facts.driver_is_loaded() == Some(true);
    let links = (has_driver && !context.facts.machine.is_offline_root).then(|| Act {
        operation: Run::new(argv, 120).into(),
        satisfied,
    });
    // The links need the driver's modules.
    let load = links
        .iter()
        .filter(|act| !act.satisfied)
        .flat_map(|_| load_driver(context));
    let load: Vec<_> = load.collect();
    [file].into_iter().chain(load).chain(links).collect()
}

/// The CDI specification: by the toolkit's own units, or written once by an older toolkit.
fn refresh_cdi(context: &StepContext, containers: &ContainerSetup) -> Vec<Act> {
    let toolkit = containers.toolkit;
    if containers.version >= toolkit.cdi_units_since {
        let satisfied = containers.host.refreshes_cdi && containers.is_kept;
        let units = toolkit.cdi_units.iter();
        return units
            .map(|unit| Act {
                operation: Service::start(unit).into(),
                satisfied,
            })
            .collect();
    }
    if context.facts.machine.is_offline_root
        || context.chosen.driver.is_none() && context.facts.driver.is_none()
    {
        return Vec::new();
    }
    let argv = [
        toolkit.program.as_str(),
        "cdi",
        "generate",
        "--output",
        SPECIFICATION,
    ];
    let generate = Run::new(argv, 120).changing([PathBuf::from(SPECIFICATION)]);
    load_driver(context)
        .into_iter()
        .chain([Act::needed(generate)])
        .collect()
}
