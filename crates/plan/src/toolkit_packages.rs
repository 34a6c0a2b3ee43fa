//! The step that installs the toolkit from packages of NVIDIA's repository. Their scripts make
//! `/usr/local/cuda` an alternative of the system, so its default is chosen with the system's tool.

use super::context::{StepContext, skipped, step};
use super::{Act, Step, StepId, estimate};
use gpusetup_database::compat::PackageRepository;
use gpusetup_host::{Facts, Origin, Toolkit};
use gpusetup_operation::{Operation, Packages, Run};
use gpusetup_resolve::ChosenToolkit;
use gpusetup_system::Node;
use gpusetup_text::paths::CUDA_ALTERNATIVE;
use std::path::Path;

/// Debian's program, which other systems have under the same name.
const TOOL: &str = "update-alternatives";
/// The name of the alternative.
const NAME: &str = "cuda";
/// The priority of a toolkit that no package registered: the system never chooses it by itself
/// before one of packages.
const UNPACKAGED: &str = "1";

/// The step that installs the toolkit's packages.
pub(crate) fn install(cuda: &ChosenToolkit, repository: &PackageRepository) -> Step {
    let release = cuda.release.version;
    let title = format!("Install the CUDA toolkit {release}");
    let Some(packages) = &repository.toolkit else {
        return skipped(StepId::InstallCuda, title, "no packages of it are known");
    };
    let (name, version) = (packages.package_for(release), packages.version_for(release));
    let transaction = Packages {
        versions: [(name.clone(), version)].into(),
        ..Packages::to_install(repository.package_manager, vec![name.clone()])
    };
    let series = release.series();
    let why = format!(
        "{name} from NVIDIA's network repository, which installs no driver; its components are updated with the system, within \
         CUDA {series}"
    );
    let mut out = step(
        StepId::InstallCuda,
        title,
        why,
        vec![Act::needed(Operation::Packages(transaction))],
    );
    out.disk_bytes =
        estimate::room_of_toolkit(cuda.artifact.and_then(|runfile| runfile.artifact.size));
    out
}

/// Whether `/usr/local/cuda` is an alternative of packages, or becomes one.
pub(crate) fn has_alternative(context: &StepContext) -> bool {
    context
        .chosen
        .toolkits()
        .any(|cuda| cuda.packages.is_some())
        || is_alternative(context.facts, &context.request.prefix)
}

/// Whether the default toolkit's link is an alternative now.
pub(crate) fn is_alternative(facts: &Facts, prefix: &Path) -> bool {
    let link = facts.node(&prefix.join("cuda"));
    matches!(link, Some(Node::Link { target }) if target == Path::new(CUDA_ALTERNATIVE))
}

/// What chooses a toolkit among the alternatives; none if the default toolkit's link is no
/// alternative.
pub(crate) fn alternative(facts: &Facts, prefix: &Path, toolkit: &Toolkit) -> Option<Vec<Act>> {
    if !is_alternative(facts, prefix) {
        return None;
    }
    let now = facts.default_toolkit(prefix);
    let satisfied = now.is_some_and(|now| now.path == toolkit.path);
    let path = toolkit.path.display().to_string();
    let mut acts = Vec::new();
    // Packages register their own toolkits only.
    if !is_registered(facts, toolkit) {
        let install = register(prefix, &path).undone_by([TOOL, "--remove", NAME, &path]);
        acts.push(Act {
            operation: install.into(),
            satisfied,
        });
    }
    // By itself the system chooses the newest toolkit of packages.
    let newest = facts
        .toolkits
        .iter()
        .rfind(|t| t.origin == Origin::Dpkg && t.has_own_directory());
    let before = now.filter(|now| newest.is_none_or(|newest| newest.path != now.path));
    let set = Run::new([TOOL, "--set", NAME, &path], 60);
    let set = match before {
        Some(before) => set.undone_by([TOOL, "--set", NAME, &before.path.display().to_string()]),
        None => set.undone_by([TOOL, "--auto", NAME]),
    };
    acts.push(Act {
        operation: set.into(),
        satisfied,
    });
    Some(acts)
}

/// Whether a toolkit is one of the alternatives.
fn is_registered(facts: &Facts, toolkit: &Toolkit) -> bool {
    toolkit.origin == Origin::Dpkg || facts.toolkit_alternatives.contains(&toolkit.path)
}

/// Makes the toolkit at a path one of the alternatives.
fn register(prefix: &Path, path: &str) -> Run {
    let link = prefix.join(NAME).display().to_string();
    Run::new([TOOL, "--install", &link, NAME, path, UNPACKAGED], 60)
}

/// Chooses a toolkit of those that stay once the default one is removed. Nothing undoes that: the
/// removed one does not come back.
pub(crate) fn choose_next(
    facts: &Facts,
    prefix: &Path,
    toolkit: &Toolkit,
    stays: &[&Toolkit],
) -> Vec<Run> {
    // By itself the system chooses the newest toolkit of packages.
    let newest = stays
        .iter()
        .rfind(|t| t.origin == Origin::Dpkg && t.has_own_directory());
    if newest.is_some_and(|newest| newest.path == toolkit.path) {
        return vec![Run::new([TOOL, "--auto", NAME], 60)];
    }
    let path = toolkit.path.display().to_string();
    let install = (!is_registered(facts, toolkit)).then(|| register(prefix, &path));
    install
        .into_iter()
        .chain([Run::new([TOOL, "--set", NAME, &path], 60)])
        .collect()
}

/// Takes a toolkit out of the alternatives, if it is one.
pub(crate) fn deregister(toolkit: &Path) -> Run {
    Run::new([TOOL, "--remove", NAME, &toolkit.display().to_string()], 60)
}

/// Chooses a toolkit among the alternatives, where the system would choose another one by itself:
/// it prefers the newest.
pub(crate) fn choose(context: &StepContext, toolkit: &Path) -> Option<Act> {
    let cuda = context.chosen.cuda.as_ref()?;
    let chosen = matches!(context.facts.node(Path::new(CUDA_ALTERNATIVE)), Some(Node::Link { target }) if target == toolkit);
    let version = cuda.version();
    let newer_comes = context
        .chosen
        .toolkits()
        .any(|t| t.packages.is_some() && t.version().series() > version.series());
    if cuda.packages.is_some()
        && !newer_comes
        && !context
            .facts
            .toolkits
            .iter()
            .any(|t| t.origin == Origin::Dpkg && t.version.series() > version.series())
    {
        return None;
    }
    let path = toolkit.display().to_string();
    let set = Run::new([TOOL, "--set", NAME, &path], 60).undone_by([TOOL, "--auto", NAME]);
    Some(Act {
        operation: set.into(),
        satisfied: chosen,
    })
}
