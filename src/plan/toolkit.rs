//! The steps that install the CUDA toolkit from its runfile, and that create the links to it and to its libraries.

use super::context::{StepContext, skipped, step};
use super::{Act, Step, StepId};
use crate::operation::{Link, Operation, Run};
use crate::paths::host_compilers;
use crate::system::Node;
use std::path::{Path, PathBuf};

const CUDA: &str = "Install the CUDA toolkit";

/// The step that installs the toolkit.
pub fn install_cuda(context: &StepContext) -> Step {
    let (Some(cuda), Some(toolkit)) = (&context.chosen.cuda, context.toolkit()) else {
        return skipped(StepId::InstallCuda, CUDA, "no toolkit was requested");
    };
    let title = format!("Install the CUDA toolkit {}", cuda.version());
    if cuda.is_kept() && context.chosen.parts.iter().all(|part| part.there) {
        let why = format!("already installed in {}", toolkit.display());
        return step(StepId::InstallCuda, title, why, Vec::new());
    }
    if let Some(repository) = cuda.packages {
        return super::toolkit_packages::install(cuda, repository);
    }
    if !context.chosen.parts.is_empty() {
        return super::components::install(context, cuda, toolkit);
    }
    let Some((artifact, download)) = cuda.artifact.and_then(|a| Some((&a.artifact, context.download(&a.artifact)?)))
    else {
        return skipped(StepId::InstallCuda, title, "the checksum of its runfile is not known");
    };
    let file = context.cached(artifact);
    let argv = [
        "sh".to_owned(),
        file.display().to_string(),
        "--silent".to_owned(),
        "--toolkit".to_owned(),
        format!("--toolkitpath={}", toolkit.display()),
        // The plan checked the compiler; the installer's own check considers only the default gcc.
        "--override".to_owned(),
        context.temporary(),
    ];
    let run = Run::new(argv, 3600)
        .executing(file, artifact.sha256.clone().unwrap_or_default())
        .creating([toolkit.to_owned()])
        .changing([context.default_toolkit(), "/var/log/cuda-installer.log".into()]);
    let why = match cuda.artifact.and_then(|a| a.bundled_driver) {
        Some(bundled) => format!("from the runfile, without its driver {bundled}; a separate step installs the driver"),
        None => "from the runfile, which contains no driver".to_owned(),
    };
    let mut out = step(StepId::InstallCuda, title, why, vec![Act::needed(download), Act::needed(run)]);
    // The 4.3 GB of CUDA 13.3.1 unpack to 7.9 GB, once in the temporary directory and once in place.
    out.disk_bytes = artifact.size.map(|size| size * 4);
    out
}

/// The step that creates the links of add-on libraries and of the default toolkit.
pub fn fix_symlinks(context: &StepContext) -> Step {
    const TITLE: &str = "Create the library links";
    let Some(toolkit) = context.toolkit() else {
        return skipped(StepId::FixSymlinks, TITLE, "no toolkit was requested");
    };
    let mut acts = Vec::new();
    acts.extend(default_link(context, toolkit));
    acts.extend(super::add_on::links(context, toolkit));
    let mut why =
        "programs load libX.so.N and compilers use libX.so; links instead of copies, so that one update changes both"
            .to_owned();
    if let Some(gcc) = context.chosen.cuda.as_ref().and_then(|c| c.side_gcc).filter(|_| context.has_nvcc()) {
        acts.extend(host_compiler(context, toolkit, gcc));
        why += &format!("; nvcc uses gcc {gcc} by a link next to its cicc");
    }
    step(StepId::FixSymlinks, TITLE, why, acts)
}

/// What makes a toolkit the default one: a link or, if packages keep that link as an alternative, their tool.
fn default_link(context: &StepContext, toolkit: &Path) -> Option<Act> {
    if super::toolkit_packages::has_alternative(context) {
        return super::toolkit_packages::choose(context, toolkit);
    }
    let path = context.default_toolkit();
    let target = toolkit.file_name().map(Path::new).unwrap_or(toolkit).to_owned();
    let satisfied =
        matches!(context.facts.node(&path), Some(Node::Link { target: t }) if *t == target || *t == toolkit);
    Some(Act { operation: Operation::Link(Link { path, target, soname: None }), satisfied })
}

/// The links by which a toolkit's nvcc uses an older host compiler than the default one.
fn host_compiler(context: &StepContext, toolkit: &Path, gcc: u16) -> [Act; 2] {
    let there = context.facts.side_compiler(gcc);
    let program =
        |name: &str, seen: Option<&PathBuf>| seen.cloned().unwrap_or_else(|| format!("/usr/bin/{name}-{gcc}").into());
    let programs = [program("gcc", there.map(|c| &c.gcc)), program("g++", there.and_then(|c| c.gxx.as_ref()))];
    let [c, cxx] = host_compilers(toolkit);
    let [gcc, gxx] = programs;
    [(c, gcc), (cxx, gxx)].map(|(path, target)| {
        let satisfied = matches!(context.facts.node(&path), Some(Node::Link { target: now }) if *now == target);
        Act { operation: Operation::Link(Link { path, target, soname: None }), satisfied }
    })
}
