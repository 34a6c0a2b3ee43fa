//! The step that partitions every GPU of a host as the request says (`mig:` in the config file),
//! and has every boot restore that.

use super::context::{StepContext, skipped, step};
use super::gpu_services::units_of;
use super::mig::{AtBoot, GpuPartition, Units, beside_units, partition_of, restored};
use super::{Act, Step, StepId};
use gpusetup_database::compat::{Database, MigRole};
use gpusetup_database::version::DriverVersion;
use gpusetup_host::{Facts, MachineKind};
use gpusetup_mig::{Board, Geometry, Layout, Wanted, at_boot_for_all, fit, nearest};
use gpusetup_nvidia::{DeviceState, MigHost};
use gpusetup_operation::{Link, Operation};
use gpusetup_resolve::{Conflict, Hint, MigRequest, Request};
use gpusetup_system::Node;
use gpusetup_text::ids::CheckId;

const TITLE: &str = "Partition the GPUs (MIG)";
/// The first driver with MIG, as NVIDIA's MIG User Guide says (`explain mig`).
const FIRST_DRIVER: DriverVersion = DriverVersion {
    branch: 450,
    minor: 80,
    patch: Some(2),
};
/// Where packages install gpusetup.
const PROGRAM: &str = "/usr/bin/gpusetup";

/// The step; none if it was not requested.
pub(crate) fn partition_gpus(context: &StepContext, database: &Database) -> Option<Step> {
    let wish = context.request.settings.mig.as_ref()?;
    if context.facts.machine.kind == MachineKind::Container {
        return Some(skipped(
            StepId::Mig,
            TITLE,
            "the host of a container partitions its GPUs",
        ));
    }
    if context.chosen.driver.is_none() {
        return Some(skipped(StepId::Mig, TITLE, "this plan installs no driver"));
    }
    let tasks: Vec<_> = tasks(database, context.facts, &wish.layout)
        .into_iter()
        .filter_map(Result::ok)
        .collect();
    let gpus = partitions(database, &tasks);
    let mut acts = Vec::new();
    if !context.facts.machine.is_offline_root || context.facts.mig.is_some() {
        acts.extend(beside_units(
            &gpus,
            &Units {
                expected: expected(context, database, &gpus),
                ..units(wish, &gpus)
            },
        ));
    }
    let each = tasks
        .iter()
        .map(|(board, geometry, wanted)| (board, geometry, wanted));
    let layouts = format!(
        "# Written by gpusetup: the layout that was requested with mig.\n{}",
        at_boot_for_all(each)
    );
    let program = wish.program.clone().unwrap_or_else(|| PROGRAM.to_owned());
    acts.extend(
        restored(
            database,
            &AtBoot {
                layouts,
                program: program.clone(),
            },
        )
        .into_iter()
        .map(|operation| standing(context, operation)),
    );
    // GPUs that are only assumed, and those of a tree, are not here to be partitioned.
    let boots = if gpus.is_empty() && context.facts.mig.is_none() {
        "the next boot partitions the GPUs, and every boot after it, since instances do not survive one,"
    } else {
        "instances do not survive a reboot, so every boot restores them"
    };
    let why = format!(
        "{}; {boots} with {program}, which must stay installed",
        wish.layout
    );
    Some(step(StepId::Mig, TITLE, why, acts))
}

/// What happens to units while these GPUs change: a GPU that is in use is not reset.
fn units(wish: &MigRequest, gpus: &[GpuPartition]) -> Units {
    if gpus.is_empty() {
        return Units::default();
    }
    let paused = if gpus.iter().any(must_be_idle) {
        wish.keepers.clone()
    } else {
        Vec::new()
    };
    Units {
        paused,
        listers: wish.listers.clone(),
        ..Units::default()
    }
}

/// The units that hold GPUs and that come with a driver that does not run yet: its persistence
/// daemon, and what this plan starts.
fn expected(context: &StepContext, database: &Database, gpus: &[GpuPartition]) -> Vec<String> {
    if context.facts.mig.is_some() || !gpus.iter().any(must_be_idle) {
        return Vec::new();
    }
    let companions = context.companions.iter();
    let started = companions.flat_map(|all| all.units().map(|(unit, _)| unit));
    let started: Vec<_> = started.collect();
    let users =
        units_of(database, |role| role == MigRole::User).filter(|unit| started.contains(unit));
    let keepers = units_of(database, |role| role == MigRole::Keeper);
    let running = context
        .request
        .settings
        .mig
        .iter()
        .flat_map(|wish| &wish.keepers);
    let running: Vec<_> = running.map(String::as_str).collect();
    keepers
        .chain(users)
        .filter(|unit| !running.contains(unit))
        .map(str::to_owned)
        .collect()
}

/// The operation, and whether its file or link is there.
fn standing(context: &StepContext, operation: Operation) -> Act {
    if let Operation::Link(Link { path, target, .. }) = &operation {
        let satisfied = matches!(context.facts.node(path), Some(Node::Link { target: there }) if there == target);
        return Act {
            operation,
            satisfied,
        };
    }
    context.file(operation)
}

/// A GPU that can be partitioned, and what it is to become.
type Task = (Board, Geometry, Wanted);

/// Why a GPU cannot be given a layout, and what helps.
struct Refusal {
    sentence: String,
    hint: String,
}

/// The GPUs that can be partitioned; a refusal for each that cannot be given the layout.
fn tasks(database: &Database, facts: &Facts, layout: &str) -> Vec<Result<Task, Refusal>> {
    boards(database, facts)
        .into_iter()
        .filter(|board| board.is_capable)
        .map(|board| task(board, layout))
        .collect()
}

fn task(board: Board, text: &str) -> Result<Task, Refusal> {
    let shown = board.shown();
    let Some(geometry) = board.geometry.clone() else {
        let sentence = format!("the database has no MIG profiles of {shown} (--mig)");
        return Err(Refusal {
            sentence,
            hint: "leave --mig out; gpusetup mig list shows what is known".to_owned(),
        });
    };
    if text.trim() == "off" {
        return Ok((board, geometry, Wanted::Off));
    }
    let layout = Layout::read(&geometry, text).map_err(|e| {
        let profiles: Vec<_> = geometry
            .profiles
            .iter()
            .map(|profile| profile.name.as_str())
            .collect();
        Refusal {
            sentence: format!("{shown}: {e} (--mig)"),
            hint: format!("its profiles are: {}", profiles.join(", ")),
        }
    })?;
    if let Err(short) = fit(&geometry, &layout) {
        let why = short
            .first()
            .map(|shortage| shortage.text(&geometry))
            .unwrap_or_default();
        let similar: Vec<_> = nearest(&geometry, &layout)
            .iter()
            .map(|layout| layout.text(&geometry))
            .collect();
        return Err(Refusal {
            sentence: format!(
                "{} does not fit {shown}: {why} (--mig)",
                layout.text(&geometry)
            ),
            hint: format!("these fit: --mig {}", similar.join(", or --mig ")),
        });
    }
    Ok((board, geometry, Wanted::Layout(layout)))
}

/// The GPUs, as their driver reports them; if it does not run yet, as the database has them.
fn boards(database: &Database, facts: &Facts) -> Vec<Board> {
    if let Some(MigHost {
        refused: None,
        gpus,
    }) = &facts.mig
    {
        return gpus
            .iter()
            .enumerate()
            .map(|(n, gpu)| Board::reported(database, n, gpu))
            .collect();
    }
    let gpus = facts.gpus.iter().enumerate();
    gpus.map(|(n, gpu)| {
        let name = gpu.name.as_deref();
        let name = name.unwrap_or("a GPU that is not in the database");
        let board = Board::known(database, n, gpu.device(), gpu.subsystem.as_deref(), name);
        Board {
            address: (!gpu.assumed).then(|| gpu.address.clone()),
            ..board
        }
    })
    .collect()
}

/// Refuses a layout that a GPU cannot have.
pub(crate) fn not_refused(
    database: &Database,
    facts: &Facts,
    request: &Request,
) -> Result<(), Conflict> {
    let Some(wish) = request
        .settings
        .mig
        .as_ref()
        .filter(|_| facts.machine.kind != MachineKind::Container)
    else {
        return Ok(());
    };
    // NVIDIA's library takes these for instances only.
    let state = request
        .settings
        .states
        .iter()
        .find(|state| {
            matches!(
                state,
                DeviceState::ComputeMode(_) | DeviceState::Accounting(_)
            )
        })
        .filter(|_| wish.layout.trim() != "off");
    if let Some(state) = state {
        let sentence = format!(
            "--{} is not for GPUs that are partitioned, and --mig partitions them",
            state.option()
        );
        return Err(Conflict::request(sentence).hint("leave one of them out"));
    }
    if !request.leave_out.is_empty() {
        return Err(Conflict::request(
            "--mig partitions all GPUs, and --leave-out leaves some out",
        )
        .hint("partition single GPUs with: sudo gpusetup mig apply --at-boot --device 0 LAYOUT"));
    }
    let tasks = tasks(database, facts, &wish.layout);
    if tasks.is_empty() {
        return Err(Conflict::blocked(
            CheckId::GS802,
            "no GPU of this host can be partitioned (--mig)",
        )
        .hint("leave --mig out; gpusetup mig list shows what GPUs can be partitioned into"));
    }
    let tasks = match tasks.into_iter().collect::<Result<Vec<_>, _>>() {
        Ok(tasks) => tasks,
        Err(Refusal { sentence, hint }) => return Err(Conflict::request(sentence).hint(hint)),
    };
    // Before the driver runs, nothing uses the GPUs.
    if facts.mig.is_some()
        && !wish.users.is_empty()
        && partitions(database, &tasks).iter().any(must_be_idle)
    {
        let sentence = format!(
            "services use the GPUs: {}; --mig changes the GPUs' MIG mode",
            wish.users.join(", ")
        );
        return Err(Conflict::blocked(CheckId::GS802, sentence)
            .hint("a GPU that is in use does not change its MIG mode")
            .hint(
                "add --mig-services stop: gpusetup stops them, and starts them again afterwards",
            ));
    }
    Ok(())
}

/// Refuses a layout that the driver of the plan does not offer.
pub(crate) fn not_before_driver(
    database: &Database,
    context: &StepContext,
) -> Result<(), Conflict> {
    let (wish, driver) = (
        context.request.settings.mig.as_ref(),
        context.chosen.driver.as_ref(),
    );
    let Some((wish, driver)) = wish.zip(driver) else {
        return Ok(());
    };
    let (version, asked) = (driver.version, &context.request);
    let tasks = tasks(database, context.facts, &wish.layout);
    for (board, geometry, wanted) in tasks.iter().filter_map(|task| task.as_ref().ok()) {
        let Wanted::Layout(layout) = wanted else {
            continue;
        };
        let of_profile = layout
            .newest_needed(geometry)
            .filter(|(_, branch)| *branch > version.branch);
        let (what, least) = match of_profile {
            Some((profile, branch)) => (
                format!("the profile {profile} of {}", board.shown()),
                branch.to_string(),
            ),
            None if version < FIRST_DRIVER => ("MIG".to_owned(), FIRST_DRIVER.to_string()),
            None => continue,
        };
        let sentence = format!("{what} needs driver {least} or newer, and this plan has {version}");
        let newer = format!(">={least}").parse().map(|driver| Request {
            driver,
            ..(*asked).clone()
        });
        let conflict = Conflict::request(sentence).check(CheckId::GS802);
        return Err(match newer {
            Ok(newer) => conflict.hint(Hint::asking("with such a driver", newer)),
            Err(_) => conflict,
        });
    }
    Ok(())
}

/// What is to become of the GPUs that change.
fn partitions(database: &Database, tasks: &[Task]) -> Vec<GpuPartition> {
    tasks
        .iter()
        .filter_map(|(board, geometry, wanted)| partition_of(database, board, geometry, wanted))
        .collect()
}

/// Whether a GPU is reset for its new mode, so that nothing may use it.
fn must_be_idle(gpu: &GpuPartition) -> bool {
    gpu.resets && gpu.mode.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_persistence_daemon_stops_around_a_reset_alone() {
        let wish = MigRequest {
            keepers: vec!["nvidia-persistenced.service".to_owned()],
            listers: vec!["nvidia-cdi-refresh.service".to_owned()],
            ..MigRequest::of("7x1g.5gb".to_owned())
        };
        let gpu = |mode, resets| GpuPartition {
            gpu: "0000:17:00.0".to_owned(),
            name: "NVIDIA A100-SXM4-40GB".to_owned(),
            mode,
            resets,
            instances: Some(Vec::new()),
        };
        let commands = |gpus: &[GpuPartition]| {
            let acts = beside_units(gpus, &units(&wish, gpus)).into_iter();
            let runs = acts.filter_map(|act| {
                if let Operation::Run(run) = act.operation {
                    Some(run.argv)
                } else {
                    None
                }
            });
            runs.map(|argv| argv[1..].join(" ").replace("--no-block ", ""))
                .collect::<Vec<_>>()
        };
        let (stop, start) = (
            "stop nvidia-cdi-refresh.service",
            "restart nvidia-cdi-refresh.service",
        );
        let (pause, resume) = (
            "stop nvidia-persistenced.service",
            "restart nvidia-persistenced.service",
        );
        assert_eq!(
            commands(&[gpu(Some(true), true)]),
            [pause, stop, start, resume]
        );
        assert_eq!(commands(&[gpu(None, true)]), [stop, start]);
        assert_eq!(commands(&[gpu(Some(true), false)]), [stop, start]);
        assert_eq!(commands(&[]), [""; 0]);
    }
}
