//! The step that assembles a toolkit from NVIDIA's component archives: the same tree as from the
//! runfile, with the requested components.

use super::context::{StepContext, step};
use super::{Act, Step, StepId};
use gpusetup_database::compat::{Artifact, short};
use gpusetup_host::version_file;
use gpusetup_operation::{Link, Operation, Placement, Unpack, WriteFile};
use gpusetup_resolve::{ChosenToolkit, Part, cuda_arch};
use gpusetup_text::text::bytes;
use std::path::Path;

/// The step that installs the missing components.
pub(crate) fn install(context: &StepContext, cuda: &ChosenToolkit, toolkit: &Path) -> Step {
    let missing: Vec<_> = context
        .chosen
        .parts
        .iter()
        .filter(|part| !part.there)
        .collect();
    // The directory as nvcc names it; each architecture has its own, for headers and libraries.
    let target = format!("targets/{}-linux", cuda_arch(&context.facts.machine.arch));
    let missing: Vec<_> = missing
        .into_iter()
        .map(|part| (part, part.artifact()))
        .collect();
    let downloads = missing
        .iter()
        .filter_map(|(_, artifact)| context.download(artifact));
    let mut links = vec![
        ("include", format!("{target}/include")),
        ("lib64", format!("{target}/lib")),
    ];
    if missing
        .iter()
        .any(|(part, _)| part.component.is_called("cuda_cupti"))
    {
        // Programs look for CUPTI there.
        links.push(("extras/CUPTI/include", format!("../../{target}/include")));
        links.push(("extras/CUPTI/lib64", format!("../../{target}/lib")));
    }
    let mut operations: Vec<_> = downloads.collect();
    operations.extend(links.into_iter().map(|(path, target)| {
        Operation::Link(Link {
            path: toolkit.join(path),
            target: target.into(),
            soname: None,
        })
    }));
    operations.extend(
        missing
            .iter()
            .map(|(part, artifact)| unpack(context, part, artifact, toolkit, &target)),
    );
    // Last, so that the file lists only components that are complete.
    operations.push(Operation::WriteFile(WriteFile {
        path: toolkit.join("version.json"),
        content: versions(context, cuda),
        mode: 0o644,
        merged_from: None,
    }));
    let names: Vec<_> = missing.iter().map(|(part, _)| short(part.name)).collect();
    let version = cuda.version();
    let title = if cuda.is_kept() {
        format!("Add to CUDA {version}: {}", names.join(", "))
    } else {
        format!("Install CUDA {version} with {}", names.join(", "))
    };
    let mut out = step(
        StepId::InstallCuda,
        title,
        "",
        operations.into_iter().map(Act::needed).collect(),
    );
    out.why = why(missing.len(), cuda, out.download_bytes);
    // Archives of programs unpack to three times their size, archives of libraries to less.
    out.disk_bytes = out.download_bytes.map(|bytes| bytes * 3);
    out
}

fn unpack(
    context: &StepContext,
    part: &Part,
    artifact: &Artifact,
    toolkit: &Path,
    target: &str,
) -> Operation {
    let target = toolkit.join(target);
    let license = format!("share/doc/{}/LICENSE", part.name);
    let into = [
        ("include", target.join("include")),
        ("lib", target.join("lib")),
        ("LICENSE", toolkit.join(license)),
        // bin, nvvm, extras and everything else that belongs in the toolkit's top directory.
        (".", toolkit.to_owned()),
    ];
    let into = into.map(|(from, to)| Placement {
        from: from.into(),
        to,
    });
    Operation::Unpack(Unpack {
        archive: context.cached(artifact),
        sha256: artifact.sha256.unwrap_or_default().to_string(),
        into: into.into(),
        limit: None,
    })
}

/// The content of `version.json` after the step, in the runfile's format.
fn versions(context: &StepContext, cuda: &ChosenToolkit) -> String {
    let all: Vec<_> = context
        .chosen
        .parts
        .iter()
        .map(|p| (p.name, p.component.title.as_str(), p.version))
        .collect();
    version_file(cuda.release.version, &all)
}

fn why(count: usize, cuda: &ChosenToolkit, download: Option<u64>) -> String {
    let archives = if count == 1 {
        "a component archive".to_owned()
    } else {
        format!("{count} component archives")
    };
    let whole = cuda.artifact.and_then(|a| a.artifact.size);
    let instead = whole
        .map(|size| format!(" instead of the runfile's {}", bytes(size)))
        .unwrap_or_default();
    let size = download
        .map(|size| format!(" of {}", bytes(size)))
        .unwrap_or_default();
    format!("{archives}{size}{instead}")
}
