//! How frameworks are installed with Python's package managers, for a plan and for `explain`.

use super::Paint;
use crate::compat::{Database, Framework, FrameworkRelease};
use crate::plan::Plan;
use crate::resolve::{PythonPackage, Request, TargetGpu};
use crate::text::wrapped;
use crate::version::Want;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A few lines for each framework of a plan: the command for pip, whether a driver is enough, and
/// how to install only that. With `verbose` also the other commands and what compiling extensions
/// needs.
pub(crate) fn of_plan(
    plan: &Plan,
    host: &str,
    paint: Paint,
    verbose: bool,
    width: usize,
) -> String {
    let mut out = String::new();
    for package in plan.python.iter().filter(|package| package.is_known()) {
        out += &wrapped(
            "  ",
            &format!("{} {}.", package.framework, package.needs()),
            width,
        );
        let shown = if verbose { package.commands.len() } else { 1 };
        for command in package.commands.iter().take(shown) {
            // A command is not broken into lines: it is to be copied.
            out += &format!("    {}\n", paint.bold(&command.command));
        }
        if let Some(extensions) = package.extensions.filter(|_| verbose) {
            out += &wrapped(
                "    ",
                &format!("Compiling extensions for it needs {}.", extensions.needs()),
                width,
            );
        }
    }
    if plan.selection.cuda.is_none() || !plan.python.iter().all(PythonPackage::needs_only_driver) {
        return out;
    }
    let extensions: Vec<_> = plan
        .python
        .iter()
        .filter_map(|package| package.extensions)
        .collect();
    let uses = match extensions.first() {
        Some(first) if extensions.iter().all(|other| other == first) => {
            format!(
                "The toolkit in this plan is only for compiling extensions ({}).",
                first.needs()
            )
        }
        _ => "The toolkit in this plan is only for compiling extensions.".to_owned(),
    };
    if plan.request.driver.is_wanted() {
        out += &wrapped("  ", &format!("{uses} To install only the driver:"), width);
        let words =
            ["gpusetup plan", host, &driver_only(&plan.request).options()].map(str::to_owned);
        let command = words
            .into_iter()
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" ");
        out += &format!("    {}\n", paint.bold(&command));
    } else {
        out += &wrapped("  ", &uses, width);
    }
    out
}

/// The same request without a toolkit.
fn driver_only(request: &Request) -> Request {
    Request {
        cuda: Want::Nothing,
        cudnn: Want::Nothing,
        add_ons: BTreeMap::new(),
        components: Vec::new(),
        ..request.clone()
    }
}

/// How each build of a release that runs on these GPUs is installed on machines of an architecture.
pub(crate) fn of_release(
    database: &Database,
    framework: &Framework,
    release: &FrameworkRelease,
    wish: &str,
    architecture: &str,
    cards: &[Rc<TargetGpu>],
) -> Vec<PythonPackage> {
    let builds = release.builds.iter().filter(|build| {
        build.is_for(architecture) && !cards.iter().any(|card| card.lacks_kernels_in(build))
    });
    builds
        .map(|build| {
            PythonPackage::of(database, framework, release, build, wish, architecture)
                .on(database, cards)
        })
        .collect()
}
