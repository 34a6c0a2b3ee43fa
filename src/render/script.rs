//! A plan as a POSIX shell script that does the same when run by hand. Written for reading first:
//! one step after the other, each with its reason, stopping at the first failure.

use crate::operation::{Link, Operation, Unpack};
use crate::plan::{Act, Plan, State, Step, mig_program};
use crate::resolve::summary;
use crate::text::{one_line, quoted, quoted_path, visible};
use std::collections::BTreeSet;

/// The script.
pub fn sh(plan: &Plan) -> String {
    let mut out = format!(
        "#!/bin/sh\n# {}\n# Made by gpusetup {} with database {} for {}.\n# Run as root. It stops at the first failure and can be run again.\nset -eu\nexport DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l LC_ALL=C.UTF-8\n",
        visible(&summary(&plan.selection)),
        visible(&plan.tool),
        visible(&plan.database.version),
        visible(&plan.host.os.name)
    );
    out += &warnings(plan);
    out += &needs(plan);
    for step in &plan.steps {
        out += &format!(
            "\n# {}: {}\n# {}\n",
            step.id,
            visible(&step.title),
            visible(&step.why)
        );
        match step.state {
            State::Satisfied => out += "# (already done)\n",
            State::Skipped => out += "# (left out)\n",
            State::Needed => {
                let mut folders = BTreeSet::new();
                for act in step.operations.iter().filter(|a| !a.satisfied) {
                    if let Operation::Link(Link { path, .. }) = &act.operation
                        && let Some(folder) =
                            path.parent().filter(|f| folders.insert(f.to_path_buf()))
                    {
                        out += &format!("mkdir -p {}\n", quoted_path(folder));
                    }
                    out += &match &act.operation {
                        Operation::Service(service)
                            if service.enabled && is_written(step, &service.unit) =>
                        {
                            service.shell_again()
                        }
                        operation => operation.shell(),
                    };
                }
            }
        }
    }
    out
}

/// Whether the step writes the file of a unit.
fn is_written(step: &Step, unit: &str) -> bool {
    step.operations.iter().filter(|act| !act.satisfied).any(
        |act| matches!(&act.operation, Operation::WriteFile(file) if file.path.file_name().is_some_and(|name| name == unit)),
    )
}

/// The plan's warnings, a comment each.
pub(crate) fn warnings(plan: &Plan) -> String {
    plan.warnings
        .iter()
        .map(|warning| {
            format!(
                "# {}: {}\n",
                warning.check,
                visible(&one_line(&warning.text))
            )
        })
        .collect()
}

/// Stops before anything is done where a program is missing that a fresh host may not have.
fn needs(plan: &Plan) -> String {
    let steps = plan.steps.iter().filter(|step| step.state == State::Needed);
    let acts = steps
        .flat_map(|step| &step.operations)
        .filter(|act| !act.satisfied);
    let programs = |operation: &Operation| -> &[&str] {
        match operation {
            Operation::Download(_) => &["curl"],
            Operation::AddRepository(_) => &["curl", "gpg"],
            Operation::Unpack(Unpack { archive, .. })
                if archive.extension().is_some_and(|e| e == "xz") =>
            {
                &["xz"]
            }
            _ => &[],
        }
    };
    let programs: BTreeSet<_> = acts
        .clone()
        .flat_map(|act| programs(&act.operation))
        .collect();
    programs
        .into_iter()
        .map(|program| {
        format!(
            "command -v {program} >/dev/null || {{ echo \"{program} is missing: install it and run this again\" >&2; exit 2; }}\n"
        )
    })
        .chain(acts.filter_map(restores))
        .collect()
}

/// Stops where boots would lack the program that restores their MIG instances.
fn restores(act: &Act) -> Option<String> {
    let program = mig_program(&act.operation)?;
    let shown = visible(program);
    let lacks = format!(
        "{shown} is missing, and boots restore the MIG instances with it: install gpusetup there and run this again"
    );
    Some(format!(
        "test -x {} || {{ echo {} >&2; exit 2; }}\n",
        quoted(program),
        quoted(&lacks)
    ))
}
