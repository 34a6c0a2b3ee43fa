//! The CUDA toolkit by its runfile, and the links to it and to the libraries in it.

use super::context::{StepContext, skipped, step};
use super::{Act, Step, StepId};
use crate::operation::{Link, Operation, Run};
use crate::paths::host_compilers;
use crate::system::Node;
use std::path::{Path, PathBuf};

const CUDA: &str = "Install the CUDA toolkit";

/// The toolkit's step.
pub fn install_cuda(context: &StepContext) -> Step {
    let (Some(cuda), Some(toolkit)) = (&context.chosen.cuda, context.toolkit()) else {
        return skipped(StepId::InstallCuda, CUDA, "no toolkit was asked for");
    };
    let title = format!("Install the CUDA toolkit {}", cuda.version());
    if cuda.is_kept() && context.chosen.parts.iter().all(|part| part.there) {
        let why = format!("it is installed in {}", toolkit.display());
        return step(StepId::InstallCuda, title, why, Vec::new());
    }
    if !context.chosen.parts.is_empty() {
        return super::components::install(context, cuda, &toolkit);
    }
    let Some((artifact, download)) = cuda.artifact.and_then(|a| Some((&a.artifact, context.download(&a.artifact)?)))
    else {
        return skipped(StepId::InstallCuda, title, "its runfile cannot be verified");
    };
    let file = context.cached(artifact);
    let argv = [
        "sh".to_owned(),
        file.display().to_string(),
        "--silent".to_owned(),
        "--toolkit".to_owned(),
        format!("--toolkitpath={}", toolkit.display()),
        // The compiler was checked by the plan; the installer's own check knows only the default gcc.
        "--override".to_owned(),
        context.temporary(),
    ];
    let run = Run::new(argv, 3600)
        .executing(file, artifact.sha256.clone().unwrap_or_default())
        .creating([toolkit.clone()])
        .changing([context.default_toolkit(), "/var/log/cuda-installer.log".into()]);
    let why = match cuda.artifact.and_then(|a| a.bundled_driver) {
        Some(bundled) => format!("the runfile without its own driver {bundled}: the driver is a step of its own"),
        None => "the runfile, which carries no driver".to_owned(),
    };
    let mut out = step(StepId::InstallCuda, title, why, vec![Act::needed(download), Act::needed(run)]);
    // CUDA 13.3.1's 4.3 GB unpack to 7.9 GB, in the temporary directory and again in place.
    out.disk_bytes = artifact.size.map(|size| size * 4);
    out
}

/// The links of add-ons' libraries and of the default toolkit.
pub fn fix_symlinks(context: &StepContext) -> Step {
    const TITLE: &str = "Put the library links right";
    let Some(toolkit) = context.toolkit() else {
        return skipped(StepId::FixSymlinks, TITLE, "no toolkit was asked for");
    };
    let mut acts = Vec::new();
    let default = context.default_toolkit();
    let target = toolkit.file_name().map(Path::new).unwrap_or(&toolkit).to_owned();
    let stands = matches!(context.facts.node(&default), Some(Node::Link { target: t })
        if *t == target || *t == toolkit);
    acts.push(Act { operation: Operation::Link(Link { path: default, target, soname: None }), satisfied: stands });
    acts.extend(super::add_on::links(context, &toolkit));
    let mut why =
        "programs ask for libX.so.N and compilers for libX.so: links, never copies, so that one update changes all"
            .to_owned();
    if let Some(gcc) = context.chosen.cuda.as_ref().and_then(|c| c.side_gcc).filter(|_| context.has_nvcc()) {
        acts.extend(host_compiler(context, &toolkit, gcc));
        why += &format!("; this nvcc compiles with gcc {gcc}, which it finds beside its own cicc");
    }
    step(StepId::FixSymlinks, TITLE, why, acts)
}

/// The links that give a toolkit's nvcc an older host compiler than the default one.
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
