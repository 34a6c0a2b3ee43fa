//! Requests about containers that are refused before anything changes.

use crate::context::StepContext;
use gpusetup_database::compat::Engine;
use gpusetup_database::version::AddOnVersion;
use gpusetup_host::{BrokenConfig, MachineKind};
use gpusetup_resolve::{Conflict, ContainerRequest, Hint, Request};
use gpusetup_text::ids::CheckId;
use gpusetup_text::text::{all_of, quoted_path};
use std::path::Path;

/// Refuses an engine that cannot be installed, a user who cannot be let in, and files that cannot
/// be merged.
pub(crate) fn not_refused(context: &StepContext) -> Result<(), Conflict> {
    let Some(containers) = context.containers.as_ref() else {
        return Ok(());
    };
    if context.facts.machine.kind == MachineKind::Container {
        return Ok(());
    }
    not_beside_a_snap(context)?;
    not_without_packages(context)?;
    not_older(context)?;
    not_without_user(context)?;
    if let Some((setup, broken)) = containers.broken().next() {
        let sentence = format!(
            "{} cannot be merged, so it is left as it is: {}",
            quoted_path(&broken.path),
            broken.why
        );
        let conflict = to_correct(
            setup.engine,
            &broken.path,
            broken.line,
            sentence,
            "plan again",
        );
        // Docker's runtimes are not looked for in other files.
        let target = containers.target(setup);
        let has_other = target.conflict().is_some() || target.replaced_by().is_some();
        let may_stay = has_other && setup.engine.drop_in.is_some();
        return Err(match may_stay {
            true => conflict.hint(format!(
                "or add the runtime nvidia, with the program {}, to the configuration that {} reads: it stays as it is",
                containers.toolkit.runtime, setup.engine.title
            )),
            false => conflict,
        });
    }
    // Files that are not merged, but that the engine reads when it restarts.
    let mut others = containers.engines.iter().flat_map(|setup| {
        let of_engine = containers
            .host
            .broken
            .iter()
            .filter(move |broken| broken.engine == setup.engine.id);
        of_engine.map(move |broken| unreadable(setup.engine, broken, "plan again"))
    });
    others.next().map_or(Ok(()), Err)
}

/// The refusal of a file that its engine cannot read.
pub(super) fn unreadable(engine: &Engine, broken: &BrokenConfig, again: &str) -> Conflict {
    let BrokenConfig {
        path, why, line, ..
    } = broken;
    let sentence = format!("{} cannot read {}: {why}", engine.title, quoted_path(path));
    to_correct(engine, path, *line, sentence, again)
}

fn to_correct(
    engine: &Engine,
    path: &Path,
    line: Option<usize>,
    sentence: String,
    again: &str,
) -> Conflict {
    let file = quoted_path(path);
    let check = match line {
        // The letter l shows hidden characters, too.
        Some(line) => format!("sudo sed -n {line}l {file}"),
        None => format!("sudo cat {file}"),
    };
    Conflict::blocked(CheckId::GS803, sentence)
        .hint(format!(
            "correct the file of {}, then {again}",
            engine.title
        ))
        .hint(Hint::Command(check))
}

/// Refuses packages of an engine beside a snap of it.
fn not_beside_a_snap(context: &StepContext) -> Result<(), Conflict> {
    let Some(containers) = context.containers.as_ref() else {
        return Ok(());
    };
    let Some(setup) = containers
        .engines
        .iter()
        .find(|setup| setup.found.is_none() && containers.host.snaps.contains(&setup.engine.id))
    else {
        return Ok(());
    };
    let (id, title) = (setup.engine.id, &setup.engine.title);
    let Some(snap) = &setup.engine.snap else {
        return Ok(());
    };
    let sentence = format!(
        "{title} is a snap here ({}): its packages would be a second {title} beside it, without its containers and images (--engine {id})",
        snap.program
    );
    let keep = with(context.request, |asked| asked.engine = None);
    Err(Conflict::blocked(CheckId::GS803, sentence)
        .hint("for packages in its place, move its containers and images, remove the snap, then plan again")
        .hint(Hint::Command(format!("sudo snap remove {}", snap.name)))
        .hint(Hint::asking("with the snap", keep)))
}

/// Refuses an engine and a toolkit that no known package installs here.
fn not_without_packages(context: &StepContext) -> Result<(), Conflict> {
    let Some(containers) = context.containers.as_ref() else {
        return Ok(());
    };
    let os = &context.facts.os.name;
    if let Some(id) = containers.request.engine
        && let Some(setup) = containers
            .engines
            .iter()
            .find(|setup| setup.engine.id == id)
        && setup.found.is_none()
        && setup.packages.is_none()
    {
        let title = &setup.engine.title;
        let installable = context.known_engines.iter().filter(|engine| {
            context
                .distribution
                .is_some_and(|distribution| engine.packages_on(distribution).is_some())
        });
        let others: Vec<_> = installable.filter(|engine| engine.id != id).collect();
        let sentence = format!("gpusetup knows no package of {title} for {os} (--engine {id})");
        let conflict = Conflict::blocked(CheckId::GS803, sentence);
        let conflict = others.iter().fold(conflict, |c, engine| {
            let other = with(context.request, |asked| {
                asked.engine = Some(engine.id);
                asked.docker_user = None;
            });
            c.hint(Hint::asking("with another engine", other))
        });
        return Err(conflict.hint(format!(
            "or install {title} as its documentation says, then plan again without --engine"
        )));
    }
    let is_known = containers
        .request
        .engine
        .is_none_or(|id| context.known_engines.iter().any(|e| e.id == id));
    if !is_known {
        let all: Vec<_> = context
            .known_engines
            .iter()
            .filter(|e| !e.packages.is_empty())
            .map(|e| e.id.as_str())
            .collect();
        let id = containers
            .request
            .engine
            .map(|id| id.to_string())
            .unwrap_or_default();
        let sentence = format!(
            "gpusetup installs {}, but not {id} (--engine)",
            all_of(&all)
        );
        return Err(Conflict::request(sentence).hint(Hint::asking(
            "without it",
            with(context.request, |asked| asked.engine = None),
        )));
    }
    if context.facts.os.package_manager.is_none() && !containers.is_kept {
        let title = &containers.toolkit.title;
        let sentence =
            format!("{title} comes as packages, and no package manager is installed here");
        let conflict = Conflict::blocked(CheckId::GS803, sentence);
        return Err(match context.distribution {
            Some(known) => conflict.hint(format!(
                "{os} has {}: its program was not found",
                known.package_manager
            )),
            None => conflict,
        });
    }
    let arch = &context.facts.machine.arch;
    let has_packages = containers
        .added
        .is_none_or(|repository| repository.archs.contains_key(arch));
    let comes = containers.is_kept
        || containers.added.is_some()
        || context.facts.has_enabled(&containers.toolkit.seen_as);
    if !has_packages || !comes {
        let title = &containers.toolkit.title;
        let sentence = format!("gpusetup knows no repository of {title} for {os} on {arch}");
        return Err(Conflict::blocked(CheckId::GS803, sentence)
            .hint("install its packages by hand, then plan again"));
    }
    Ok(())
}

/// Refuses to replace the installed toolkit or engine by an older one of a lock file: package
/// managers do not do that unasked.
fn not_older(context: &StepContext) -> Result<(), Conflict> {
    let Some(containers) = context.containers.as_ref() else {
        return Ok(());
    };
    let installed = containers
        .host
        .toolkit
        .as_ref()
        .and_then(|toolkit| toolkit.version);
    let installed = installed.filter(|_| containers.request.locked_toolkit.is_some());
    if let Some(conflict) = older(
        &containers.toolkit.title,
        installed,
        Some(containers.version),
    ) {
        return Err(match context.facts.machine.is_offline_root {
            true => conflict,
            false => conflict.hint(Hint::Command(
                "sudo gpusetup uninstall --container-toolkit".to_owned(),
            )),
        });
    }
    let replaced = containers.engines.iter().filter(|setup| setup.is_replaced);
    let mut conflicts = replaced.filter_map(|setup| {
        let installed = setup.found.as_ref().and_then(|found| found.version);
        older(&setup.engine.title, installed, setup.version)
    });
    conflicts.next().map_or(Ok(()), Err)
}

/// The refusal of a locked version that is older than the installed one.
fn older(
    title: &str,
    installed: Option<AddOnVersion>,
    locked: Option<AddOnVersion>,
) -> Option<Conflict> {
    let (installed, locked) = installed
        .zip(locked)
        .filter(|(installed, locked)| locked < installed)?;
    let sentence =
        format!("{title} {installed} is installed, and {locked} of the lock file is older");
    let hint = format!(
        "write the lock file again on a host with {installed}, or remove {installed}, then plan again"
    );
    Some(Conflict::blocked(CheckId::GS803, sentence).hint(hint))
}

/// The request with a change of what it asks for containers.
fn with(request: &Request, change: impl Fn(&mut ContainerRequest)) -> Request {
    let mut request = request.clone();
    if let Some(containers) = &mut request.settings.containers {
        change(containers);
    }
    request
}

fn not_without_user(context: &StepContext) -> Result<(), Conflict> {
    let Some(containers) = context.containers.as_ref() else {
        return Ok(());
    };
    let Some(user) = &containers.request.docker_user else {
        return Ok(());
    };
    let without = with(context.request, |asked| asked.docker_user = None);
    let without = Hint::asking("without it", without);
    if user == "root" || containers.host.user_is_root {
        let sentence = match user.as_str() {
            "root" => "root can use every engine already (--docker-user)".to_owned(),
            other => {
                format!(
                    "{other} is root by another name (uid 0), and can use every engine already (--docker-user)"
                )
            }
        };
        return Err(Conflict::request(sentence).hint(without));
    }
    if containers.with_group().is_none() {
        let docker = context
            .known_engines
            .iter()
            .find(|engine| engine.group.is_some());
        let installable = docker.filter(|docker| {
            context
                .distribution
                .is_some_and(|d| docker.packages_on(d).is_some())
        });
        let asked = containers.asked().map(|setup| &setup.engine.title);
        let is_unknown = asked.is_none() && context.facts.container_host.is_none();
        let sentence = match asked {
            Some(title) => {
                format!(
                    "{title} has no group that lets users use it: {user} can run it without one (--docker-user)"
                )
            }
            None if is_unknown => {
                format!(
                    "it is not known here whether the host has Docker, so {user} cannot be let use it (--docker-user)"
                )
            }
            None => {
                format!("Docker is not installed, so {user} cannot be let use it (--docker-user)")
            }
        };
        let conflict = Conflict::request(sentence).hint(without);
        if is_unknown {
            return Err(conflict.hint("plan on the host itself, which shows its engines"));
        }
        return Err(match installable {
            Some(docker) => conflict.hint(Hint::asking(
                "with Docker",
                with(context.request, |asked| asked.engine = Some(docker.id)),
            )),
            None => conflict,
        });
    }
    if containers.host.user_exists == Some(false) {
        let sentence = format!("this host has no user {user} (--docker-user)");
        let list = if context.facts.machine.is_offline_root {
            "its /etc/passwd lists the users"
        } else {
            "getent passwd lists the users"
        };
        return Err(Conflict::request(sentence).hint(list));
    }
    Ok(())
}
