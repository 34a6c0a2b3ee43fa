//! The plan that makes another installed toolkit the default one: the link below the prefix or the
//! system's alternative, the loader's path and the shells' PATH. The last two name the link, so
//! that one rename switches all of them.

use super::context::{exists, file_act, step};
use super::toolkit::link_to;
use super::toolkit_packages::alternative;
use super::untouched_driver::default_not_run;
use super::{Act, Plan, StepId, Warning};
use gpusetup_database::compat::Database;
use gpusetup_database::version::{CudaVersion, Requirement, Want};
use gpusetup_host::{Facts, PathFiles, Toolkit};
use gpusetup_operation::Run;
use gpusetup_recipes::{before_default, default_first, loader_path, profile, rebuild_cache};
use gpusetup_resolve::{Conflict, Hint, Request};
use gpusetup_system::Node;
use gpusetup_text::ids::CheckId;
use gpusetup_text::text::{all_of, quoted_path};
use std::path::Path;

/// The toolkit that a name has, 12.8 or 12.8.1; the newest of several, as for 12.
///
/// # Errors
///
/// If it is not installed, or has no directory of the kind that NVIDIA's toolkits have.
pub fn installed_toolkit<'a>(
    database: &Database,
    facts: &'a Facts,
    wanted: &Requirement<CudaVersion>,
) -> Result<&'a Toolkit, Conflict> {
    let mut found = facts
        .toolkits
        .iter()
        .filter(|toolkit| wanted.matches(toolkit.version))
        .peekable();
    let is_any = found.peek().is_some();
    match found.rfind(|toolkit| toolkit.has_own_directory()) {
        Some(toolkit) => Ok(toolkit),
        None if is_any => Err(Conflict::request(format!(
            "CUDA {wanted} is the distribution's own toolkit, which is spread over the system's directories: programs find it without \
             a default"
        ))),
        None => Err(not_installed(database, facts, wanted)),
    }
}

/// That a toolkit is not installed, which ones are, and the command that installs it, if there is
/// such a release.
fn not_installed(
    database: &Database,
    facts: &Facts,
    wanted: &Requirement<CudaVersion>,
) -> Conflict {
    let conflict = Conflict::request(format!("CUDA {wanted} is not installed")).hint(installed(
        facts
            .toolkits
            .iter()
            .filter(|toolkit| toolkit.has_own_directory()),
    ));
    match database
        .cuda
        .iter()
        .any(|release| wanted.matches(release.version))
    {
        true => conflict.hint(Hint::Command(format!(
            "sudo gpusetup apply --cuda {wanted}"
        ))),
        false => conflict.hint(Hint::Command("gpusetup db list cuda".to_owned())),
    }
}

/// The hint with these toolkits: `installed: 11.8 and 12.4.1`.
pub(crate) fn installed<'a>(toolkits: impl Iterator<Item = &'a Toolkit>) -> String {
    let versions: Vec<_> = toolkits
        .map(|toolkit| toolkit.version.to_string())
        .collect();
    format!(
        "installed: {}",
        if versions.is_empty() {
            "no toolkit".to_owned()
        } else {
            all_of(&versions)
        }
    )
}

/// Why no toolkit can be chosen where a directory has the name of the link, and what makes room.
fn in_place_of_link(facts: &Facts, link: &Path) -> Conflict {
    let sentence = format!(
        "{} is a directory and no link, so no other toolkit can take its place",
        quoted_path(link)
    );
    let conflict = Conflict::blocked(CheckId::GS701, sentence);
    match facts.toolkits.iter().find(|toolkit| toolkit.path == link) {
        Some(toolkit) => {
            let aside = link.with_file_name(toolkit.version.directory());
            conflict.hint(Hint::Command(format!(
                "sudo mv -nT {} {}",
                quoted_path(link),
                quoted_path(&aside)
            )))
        }
        None => conflict,
    }
}

/// The warning if the default toolkit is outside of the prefix, and no other link than the one that
/// is switched leads to it.
fn known_by_link_alone(facts: &Facts, default: &Toolkit, link: &Path) -> Option<Warning> {
    let name = link.with_file_name(default.version.directory());
    let mut others = facts
        .paths
        .keys()
        .filter(|path| path.parent() == link.parent() && *path != link)
        .filter_map(|path| facts.toolkit_behind(path));
    if exists(facts, &name)
        || others.any(|toolkit| toolkit.path == default.path)
        || !default.has_own_directory()
        || default.path.parent() == link.parent()
    {
        return None;
    }
    let text = format!(
        "only the link {} leads to CUDA {} in {}: after the switch, `gpusetup list`, `use` and `uninstall` do not find that \
         toolkit. To keep it, give it a link first: `sudo ln -sT {} {}`",
        quoted_path(link),
        default.version,
        quoted_path(&default.path),
        quoted_path(&default.path),
        quoted_path(&name)
    );
    Some(Warning::new(CheckId::GS701, text))
}

/// The plan that makes this toolkit the default one. `request` names the prefix and the moment,
/// which makes a later switch to the same toolkit another plan. `files` may put another toolkit
/// before it.
///
/// # Errors
///
/// As for [`installed_toolkit`].
pub fn switch(
    database: &Database,
    facts: Facts,
    wanted: &Requirement<CudaVersion>,
    request: Request,
    files: &PathFiles,
) -> Result<Plan, Conflict> {
    let toolkit = installed_toolkit(database, &facts, wanted)?;
    let (link, before) = (
        request.prefix.join("cuda"),
        facts.default_toolkit(&request.prefix),
    );
    if facts.node(&link) == Some(&Node::Directory) {
        return Err(in_place_of_link(&facts, &link));
    }
    let acts = match alternative(&facts, &request.prefix, toolkit) {
        Some(acts) => acts,
        None => vec![link_to(&facts, &request.prefix, &toolkit.path)],
    };
    let is_done = acts.iter().all(|act| act.satisfied);
    let before = before.filter(|before| before.path != toolkit.path);
    let why = match (before.map(|before| before.version), is_done) {
        (Some(was), _) => format!("the default was CUDA {was}, which stays installed"),
        (None, true) => "it is the default already".to_owned(),
        (None, false) => "there was no default".to_owned(),
    };
    let title = format!("Make CUDA {} the default toolkit", toolkit.version);
    let loader = file_act(&facts, loader_path(&link));
    // The cache has the libraries of the toolkit that the link led to.
    let rebuild = Act {
        operation: rebuild_cache(),
        satisfied: is_done && loader.satisfied,
    };
    const LOADER: &str = "the loader's cache names the libraries of the default toolkit";
    const SHELLS: &str = "login shells find nvcc through the link";
    let mut steps = vec![
        step(StepId::FixSymlinks, title, why, acts),
        step(
            StepId::Ldconfig,
            "Update the loader's configuration",
            LOADER,
            vec![loader, rebuild],
        ),
        step(
            StepId::Environment,
            "Add the toolkit to PATH",
            SHELLS,
            vec![file_act(&facts, profile(&link, request.library_path))],
        ),
    ];
    if toolkit.has_nvcc {
        let nvcc = link.join("bin/nvcc").display().to_string();
        let ask = Run::ask(
            [nvcc.as_str(), "--version"],
            Some(format!("release {}", toolkit.version.series())),
        );
        let satisfied = steps
            .iter()
            .flat_map(|step| &step.operations)
            .all(|act| act.satisfied);
        let acts = vec![Act {
            operation: ask.into(),
            satisfied,
        }];
        steps.push(step(
            StepId::Verify,
            "Verify the default toolkit",
            "nvcc must be that of the toolkit",
            acts,
        ));
    }
    let not_run = default_not_run(database, &facts, toolkit).into_iter();
    let lost = before.and_then(|before| known_by_link_alone(&facts, before, &link));
    let others = before_default(&facts, files, toolkit, &link).into_iter();
    let others = others.map(|(file, clause)| {
        let text = format!("{clause}; {}", default_first(&file, &link));
        Warning::new(CheckId::GS701, text)
    });
    let warnings = not_run.chain(lost).chain(others).collect();
    let request = Request {
        driver: Want::Nothing,
        cuda: Want::Nothing,
        cudnn: Want::Nothing,
        ..request
    };
    Ok(Plan::of(database, facts, request, steps, warnings).summed())
}
