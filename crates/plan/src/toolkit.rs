//! The steps that install the CUDA toolkit from its runfile, and that create the links to it and to
//! its libraries.

use super::context::{StepContext, skipped, step};
use super::{Act, Step, StepId};
use gpusetup_database::version::Want;
use gpusetup_host::Facts;
use gpusetup_operation::{Link, Operation, Run};
use gpusetup_resolve::Reason;
use gpusetup_system::Node;
use gpusetup_text::ids::{Recorded, RuleId};
use gpusetup_text::paths::host_compilers;
use std::path::Path;

const CUDA: &str = "Install the CUDA toolkit";

/// The step that installs the toolkit.
pub(crate) fn install_cuda(context: &StepContext) -> Step {
    let (Some(cuda), Some(toolkit)) = (&context.chosen.cuda, context.toolkit()) else {
        let why = match context.chosen.without_toolkit {
            Some(_) => "no toolkit fits this host",
            None => "no toolkit was requested",
        };
        return skipped(StepId::InstallCuda, CUDA, why);
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
    let Some((artifact, download)) = cuda
        .artifact
        .and_then(|a| Some((&a.artifact, context.download(&a.artifact)?)))
    else {
        return skipped(
            StepId::InstallCuda,
            title,
            "the checksum of its runfile is not known",
        );
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
    let mut run = Run::new(argv, 3600)
        .executing(file, artifact.sha256.unwrap_or_default().to_string())
        .creating([toolkit.to_owned()])
        .changing([
            context.default_toolkit(),
            "/var/log/cuda-installer.log".into(),
        ]);
    if cuda.release.installer_needs_current_directory() {
        let variable = ("PERL_USE_UNSAFE_INC".to_owned(), "1".to_owned());
        run.environment.extend([variable]);
    }
    let why = match cuda.artifact.and_then(|a| a.bundled_driver) {
        Some(bundled) => format!(
            "from the runfile, without its driver {bundled}; a separate step installs the driver"
        ),
        None => "from the runfile, which contains no driver".to_owned(),
    };
    let mut out = step(
        StepId::InstallCuda,
        title,
        why,
        vec![Act::needed(download), Act::needed(run)],
    );
    // The 4.3 GB of CUDA 13.3.1 unpack to 7.9 GB, once in the temporary directory and once in
    // place.
    out.disk_bytes = artifact.size.map(|size| size * 4);
    out
}

/// The steps that install the toolkits beside the default one, each with its add-ons.
pub(crate) fn install_additional(context: &StepContext) -> Vec<Step> {
    let mut all = Vec::new();
    for toolkit in &context.additional {
        let steps =
            std::iter::once(install_cuda(toolkit)).chain(super::add_on::install_beside(toolkit));
        all.extend(steps.filter_map(|step| {
            toolkit.series().map(|series| Step {
                id: step.id.for_series(series),
                ..step
            })
        }));
    }
    all
}

/// The step that creates the links of add-on libraries and of the default toolkit.
pub(crate) fn fix_symlinks(context: &StepContext) -> Step {
    const TITLE: &str = "Create the library links";
    let Some(toolkit) = context.toolkit() else {
        return skipped(StepId::FixSymlinks, TITLE, "no toolkit was requested");
    };
    let mut acts = Vec::new();
    acts.extend(default_link(context, toolkit));
    let mut why =
        "programs load libX.so.N and compilers use libX.so; links instead of copies, so that one update changes both"
            .to_owned();
    for (of, toolkit) in context
        .toolkits()
        .filter_map(|of| Some((of, of.toolkit()?)))
    {
        acts.extend(super::add_on::links(of, toolkit));
        if let Some(gcc) = of
            .chosen
            .cuda
            .as_ref()
            .and_then(|c| c.side_gcc)
            .filter(|_| of.has_nvcc())
        {
            acts.extend(host_compiler(of, toolkit, gcc));
            let nvcc = of
                .series()
                .filter(|_| !context.additional.is_empty())
                .map(|series| format!(" of CUDA {series}"));
            why += &format!(
                "; nvcc{} uses gcc {gcc} by a link next to its cicc",
                nvcc.unwrap_or_default()
            );
        }
    }
    step(StepId::FixSymlinks, TITLE, why, acts)
}

/// Why a toolkit becomes the default one, if several are requested, or another one was the default
/// until now.
pub(crate) fn why_default(context: &StepContext) -> Option<Reason> {
    let (series, toolkit) = (context.series()?, context.toolkit()?);
    let before = context
        .facts
        .default_toolkit(&context.request.prefix)
        .filter(|before| before.path != toolkit);
    let before = before.map(|before| before.version.series());
    let named = match (context.additional.is_empty(), before) {
        (true, None) => return None,
        (true, Some(_)) if context.request.cuda == Want::Best => {
            "it is the one that this plan sets up"
        }
        (true, Some(_)) => "it was requested",
        (false, _) => "it was named first",
    };
    let stays = before.map(|before| {
        format!("; CUDA {before} was the default and stays: `gpusetup use cuda {before}` makes it the default again")
    });
    Some(Reason {
        subject: "default".to_owned(),
        text: format!(
            "CUDA {series} becomes the default, because {named}{}",
            stays.unwrap_or_default()
        ),
        rule: Recorded::Known(RuleId::CudaWanted.into()),
        source: String::new(),
    })
}

/// What makes a toolkit the default one: a link or, if packages keep that link as an alternative,
/// their tool.
fn default_link(context: &StepContext, toolkit: &Path) -> Option<Act> {
    if super::toolkit_packages::has_alternative(context) {
        return super::toolkit_packages::choose(context, toolkit);
    }
    Some(link_to(context.facts, &context.request.prefix, toolkit))
}

/// The link that makes a toolkit the default one; relative if it is below the prefix, so that both
/// can be moved together.
pub(crate) fn link_to(facts: &Facts, prefix: &Path, toolkit: &Path) -> Act {
    let path = prefix.join("cuda");
    let name = toolkit
        .file_name()
        .filter(|_| toolkit.parent() == Some(prefix));
    let target = name.map_or(toolkit, Path::new).to_owned();
    let satisfied = match facts.node(&path) {
        Some(Node::Link { target: now }) => *now == target || now == toolkit,
        _ => false,
    };
    Act {
        operation: Operation::Link(Link {
            path,
            target,
            soname: None,
        }),
        satisfied,
    }
}

/// The links by which a toolkit's nvcc uses an older host compiler than the default one.
fn host_compiler(context: &StepContext, toolkit: &Path, gcc: u16) -> [Act; 2] {
    let there = context.facts.side_compiler(gcc);
    let [c, cxx] = host_compilers(toolkit);
    [
        (c, "gcc", there.map(|c| &c.gcc)),
        (cxx, "g++", there.and_then(|c| c.gxx.as_ref())),
    ]
    .map(|(path, name, seen)| {
        let target = seen.cloned();
        let target = target.unwrap_or_else(|| format!("/usr/bin/{name}-{gcc}").into());
        let satisfied =
            matches!(context.facts.node(&path), Some(Node::Link { target: now }) if *now == target);
        Act {
            operation: Operation::Link(Link {
                path,
                target,
                soname: None,
            }),
            satisfied,
        }
    })
}
