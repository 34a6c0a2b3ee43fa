//! How frameworks are installed with Python's package managers, for a plan and for `explain`.

use super::Paint;
use crate::compat::{Database, Framework, FrameworkRelease, PackageManager, PythonRange};
use crate::packages;
use crate::plan::Plan;
use crate::resolve::{PythonCommand, PythonPackage, Request, TargetGpu};
use crate::text::wrapped;
use crate::version::{AddOnVersion, Want};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A few lines for each framework of a plan: the command for pip, whether a driver is enough, and
/// how to install only that. With `verbose` also the other commands and what compiling extensions
/// needs.
pub(crate) fn of_plan(
    plan: &Plan,
    host: &str,
    with_toolkit: Option<&Request>,
    paint: Paint,
    verbose: bool,
    width: usize,
) -> String {
    let mut out = String::new();
    let known = plan.python.iter().filter(|package| package.is_known());
    let other = other_python(plan);
    for (at, package) in known.enumerate() {
        out += &wrapped(
            "  ",
            &format!("{} {}.", package.framework, package.needs()),
            width,
        );
        let mut commands: Vec<_> = package.commands.iter().collect();
        if let Some(range) = package.python.filter(|_| plan.host.python.is_none()) {
            let text = format!(
                "Its wheels are for Python {range}; which one this system has is not known."
            );
            out += &wrapped("  ", &text, width);
        }
        if let Some((system, wanted)) = other {
            if at == 0 {
                out += &wrapped("  ", &only_for(plan, system, wanted), width);
            }
            // pip installs into the Python that runs it; uv can fetch another one.
            let fits = wanted.newest().is_some();
            commands.retain(|command| fits && command.tool != "pip");
        }
        let shown = if verbose { commands.len() } else { 1 };
        for command in commands.into_iter().take(shown) {
            // A command is not broken into lines: it is to be copied.
            let python = other.and_then(|(_, wanted)| chosen_python(plan, wanted));
            let headers = plan.python.iter().any(|package| package.compiled);
            let environment = Environment {
                is_first: at == 0,
                python,
                manager: plan.host.os.package_manager,
                headers,
            };
            for line in environment.lines(command) {
                out += &format!("    {}\n", paint.bold(&line));
            }
        }
        if let Some(extensions) = package.extensions.filter(|_| verbose) {
            out += &wrapped(
                "    ",
                &format!("Compiling extensions for it needs {}.", extensions.needs()),
                width,
            );
        }
    }
    if !plan.python.iter().all(PythonPackage::needs_only_driver) {
        return out;
    }
    if plan.selection.cuda.is_none() {
        let adding = with_toolkit.map(|request| adding_toolkit(request, host, paint, width));
        return out + &adding.unwrap_or_default();
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
        let command = planning(host, &driver_only(&plan.request));
        out += &format!("    {}\n", paint.bold(&command));
    } else {
        out += &wrapped("  ", &uses, width);
    }
    out
}

/// The system's Python and the one that wheels of all packages are for, if these are not for it.
fn other_python(plan: &Plan) -> Option<(AddOnVersion, PythonRange)> {
    let system = plan.host.python?;
    let wanted = plan.python.iter().filter_map(|package| package.python);
    let wanted = wanted.reduce(PythonRange::with)?;
    (!wanted.has(system)).then_some((system, wanted))
}

/// The Python for an environment: the newest that is known to do. Of packages whose range is not
/// known, older ones are likelier to have wheels.
fn chosen_python(plan: &Plan, wanted: PythonRange) -> Option<AddOnVersion> {
    let are_known = plan.python.iter().all(|package| package.python.is_some());
    let newest = wanted.newest()?;
    Some(if are_known { newest } else { wanted.min })
}

/// Says that the system's Python is another one.
fn only_for(plan: &Plan, system: AddOnVersion, wanted: PythonRange) -> String {
    let one = plan.python.len() == 1;
    let whose = if one {
        "Its wheels"
    } else {
        "Wheels of all of these"
    };
    match (wanted.newest(), wanted.max) {
        (None, Some(max)) => format!(
            "No Python has wheels of all of these: one needs {} or newer, another one {max} or older. Give each its own environment.",
            wanted.min
        ),
        _ => format!(
            "{whose} are for Python {wanted}, and the system's is {system}: uv (https://docs.astral.sh/uv) brings one that fits."
        ),
    }
}

/// The command that adds the toolkit.
fn adding_toolkit(with_toolkit: &Request, host: &str, paint: Paint, width: usize) -> String {
    let mut out = wrapped(
        "  ",
        "No toolkit is planned. To compile extensions for it, add one:",
        width,
    );
    out += &format!("    {}\n", paint.bold(&planning(host, with_toolkit)));
    out
}

/// The command that plans a request.
fn planning(host: &str, request: &Request) -> String {
    let options = request.options();
    let words = ["gpusetup plan", host, &options];
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// The virtual environment that a package is installed into.
struct Environment {
    /// The first package's commands create it, because systems refuse pip's packages in Python's
    /// own directories (PEP 668).
    is_first: bool,
    /// The Python that uv brings.
    python: Option<AddOnVersion>,
    manager: Option<PackageManager>,
    /// Something is compiled with the headers of the system's Python.
    headers: bool,
}

impl Environment {
    /// The commands that install a package.
    fn lines(&self, command: &PythonCommand) -> Vec<String> {
        let line = match command.tool.as_str() {
            "pip" => command
                .command
                .replace("pip install ", "venv/bin/pip install "),
            _ => command.command.clone(),
        };
        match (command.tool.as_str(), self.is_first) {
            ("pip", true) => {
                let install = format!("python3 -m venv venv && {line}");
                self.modules().into_iter().chain([install]).collect()
            }
            ("uv", true) => {
                let python = self.python.map(|version| format!(" --python {version}"));
                vec![format!("uv venv{} && {line}", python.unwrap_or_default())]
            }
            _ => vec![line],
        }
    }

    /// The command that installs what the system's Python lacks.
    fn modules(&self) -> Option<String> {
        let manager = self.manager?;
        let by_hand = &packages::of(manager).by_hand;
        let headers = self.headers.then_some(by_hand.python_headers);
        let names: Vec<_> = by_hand.venv.into_iter().chain(headers).collect();
        (!names.is_empty()).then(|| crate::causes::install(manager, &names))
    }
}

/// The same request without a toolkit.
fn driver_only(request: &Request) -> Request {
    Request {
        cuda: Want::Nothing,
        cudnn: Want::Nothing,
        add_ons: BTreeMap::new(),
        components: Vec::new(),
        with_toolkit: false,
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
            PythonPackage::of(
                database,
                framework,
                release,
                build,
                wish,
                None,
                architecture,
            )
            .on(database, cards)
        })
        .collect()
}
