//! The CUDA toolkit by its runfile, and cuDNN from its archive into the toolkit.

use super::context::{StepContext, skipped, step};
use super::{Act, Step, StepId};
use crate::operation::{Link, Operation, Placement, Run, Unpack};
use crate::paths::host_compilers;
use crate::system::Node;
use std::path::{Path, PathBuf};

const CUDA: &str = "Install the CUDA toolkit";
const CUDNN: &str = "Install cuDNN into the toolkit";

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

/// cuDNN's step.
pub fn install_cudnn(context: &StepContext) -> Step {
    let (Some(cudnn), Some(toolkit)) = (&context.chosen.cudnn, context.toolkit()) else {
        return skipped(StepId::InstallCudnn, CUDNN, "no cuDNN was chosen");
    };
    let version = cudnn.artifact.version;
    let title = format!("Install cuDNN {version} into {}", toolkit.display());
    let here =
        |c: &crate::host::Cudnn| c.version.is_some_and(|v| same_files(v, version)) && c.directory.starts_with(&toolkit);
    let satisfied = context.facts.cudnn.iter().any(here);
    let artifact = &cudnn.artifact.artifact;
    let Some(download) = context.download(artifact) else {
        return skipped(StepId::InstallCudnn, title, "its archive cannot be verified");
    };
    // Up to 8.3 the archives were .tgz with a folder `cuda/lib64`.
    let libraries = if artifact.file.ends_with(".tgz") { "lib64" } else { "lib" };
    let place = |from: &str, to: &str| Placement { from: from.into(), to: toolkit.join(to) };
    let unpack = Operation::Unpack(Unpack {
        archive: context.cached(artifact),
        sha256: artifact.sha256.clone().unwrap_or_default(),
        into: vec![place("include", "include"), place(libraries, "lib64"), place("LICENSE", "share/doc/cudnn/LICENSE")],
        limit: None,
    });
    let acts = [download, unpack].map(|operation| Act { operation, satisfied }).to_vec();
    let why = "frameworks find it beside the toolkit's own libraries; links stay links, everybody may read it";
    let mut out = step(StepId::InstallCudnn, title, why, acts);
    out.disk_bytes = if satisfied { Some(0) } else { artifact.size.map(|size| size * 2) };
    out
}

/// File names carry three numbers of the four.
fn same_files(a: crate::version::CudnnVersion, b: crate::version::CudnnVersion) -> bool {
    (a.major, a.minor, a.patch) == (b.major, b.minor, b.patch)
}

/// The links of cuDNN's libraries and of the default toolkit.
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
    if let Some(cudnn) = &context.chosen.cudnn {
        let version = cudnn.artifact.version;
        for library in &cudnn.range.libraries {
            let soname = format!("{library}.so.{}", version.major);
            let file = format!("{library}.so.{}", version.library_suffix());
            acts.push(link(context, &toolkit, &soname, &file, Some(&soname)));
            acts.push(link(context, &toolkit, &format!("{library}.so"), &soname, None));
        }
    }
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

fn link(context: &StepContext, toolkit: &Path, name: &str, target: &str, soname: Option<&str>) -> Act {
    let is_so = |c: &crate::host::Cudnn| {
        c.directory.starts_with(toolkit)
            && c.files.iter().any(|f| f.name == name && f.link.as_deref() == Some(Path::new(target)))
    };
    let path = toolkit.join("lib64").join(name);
    let operation = Operation::Link(Link { path, target: target.into(), soname: soname.map(str::to_owned) });
    Act { operation, satisfied: context.facts.cudnn.iter().any(is_so) }
}
