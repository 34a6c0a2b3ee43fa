//! The step that installs the toolkit from packages of NVIDIA's repository. Their scripts make `/usr/local/cuda` an alternative
//! of the system, so its default is chosen with the system's tool.

use super::context::{StepContext, skipped, step};
use super::{Act, Step, StepId, estimate};
use crate::compat::PackageRepository;
use crate::host::Origin;
use crate::operation::{Operation, Packages, Run};
use crate::paths::CUDA_ALTERNATIVE;
use crate::resolve::ChosenToolkit;
use crate::system::Node;
use std::path::Path;

/// Debian's program, which other systems have under the same name.
const TOOL: &str = "update-alternatives";
/// The name of the alternative.
const NAME: &str = "cuda";

/// The step that installs the toolkit's packages.
pub fn install(cuda: &ChosenToolkit, repository: &PackageRepository) -> Step {
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
    let mut out = step(StepId::InstallCuda, title, why, vec![Act::needed(Operation::Packages(transaction))]);
    out.disk_bytes = estimate::room_of_toolkit(cuda.artifact.and_then(|runfile| runfile.artifact.size));
    out
}

/// Whether `/usr/local/cuda` is an alternative of packages, or becomes one.
pub fn has_alternative(context: &StepContext) -> bool {
    let is_one = || {
        let link = context.facts.node(&context.default_toolkit());
        matches!(link, Some(Node::Link { target }) if target == Path::new(CUDA_ALTERNATIVE))
    };
    context.chosen.cuda.as_ref().is_some_and(|cuda| cuda.packages.is_some()) || is_one()
}

/// Chooses a toolkit among the alternatives, where the system would choose another one by itself: it prefers the newest.
pub fn choose(context: &StepContext, toolkit: &Path) -> Option<Act> {
    let cuda = context.chosen.cuda.as_ref()?;
    let chosen =
        matches!(context.facts.node(Path::new(CUDA_ALTERNATIVE)), Some(Node::Link { target }) if target == toolkit);
    let version = cuda.version();
    let is_newer = |t: &crate::host::Toolkit| t.origin == Origin::Dpkg && t.version.series() > version.series();
    if cuda.packages.is_some() && !context.facts.toolkits.iter().any(is_newer) {
        return None;
    }
    let path = toolkit.display().to_string();
    let set = Run::new([TOOL, "--set", NAME, &path], 60).undone_by([TOOL, "--auto", NAME]);
    Some(Act { operation: set.into(), satisfied: chosen })
}
