//! A toolkit put together of NVIDIA's component archives: the tree that the runfile leaves, with the parts that were asked
//! for.

use super::context::{StepContext, step};
use super::{Act, Step, StepId};
use crate::compat::short;
use crate::host::version_file;
use crate::operation::{Link, Operation, Placement, Unpack, WriteFile};
use crate::resolve::{ChosenToolkit, Part, cuda_arch};
use crate::text::bytes;
use std::path::Path;

/// The toolkit's step; some of its parts are not there yet.
pub fn install(context: &StepContext, cuda: &ChosenToolkit, toolkit: &Path) -> Step {
    let missing: Vec<_> = context.chosen.parts.iter().filter(|part| !part.there).collect();
    // As nvcc calls it: all architectures' headers and libraries lie beside each other there.
    let target = format!("targets/{}-linux", cuda_arch(&context.facts.machine.arch));
    let downloads = missing.iter().filter_map(|part| context.download(&part.artifact));
    let link = |path: &str, target: String| {
        Operation::Link(Link { path: toolkit.join(path), target: target.into(), soname: None })
    };
    let mut operations: Vec<_> = downloads.collect();
    operations.push(link("include", format!("{target}/include")));
    operations.push(link("lib64", format!("{target}/lib")));
    if missing.iter().any(|part| part.component.is_called("cuda_cupti")) {
        // Programs look for it there.
        operations.push(link("extras/CUPTI/include", format!("../../{target}/include")));
        operations.push(link("extras/CUPTI/lib64", format!("../../{target}/lib")));
    }
    operations.extend(missing.iter().map(|part| unpack(context, part, toolkit, &target)));
    // Last: a toolkit that says what it has, has it.
    operations.push(Operation::WriteFile(WriteFile {
        path: toolkit.join("version.json"),
        content: versions(context, cuda),
        mode: 0o644,
    }));
    let names: Vec<_> = missing.iter().map(|part| short(part.name)).collect();
    let version = cuda.version();
    let title = if cuda.is_kept() {
        format!("Add to CUDA {version}: {}", names.join(", "))
    } else {
        format!("Install CUDA {version} with {}", names.join(", "))
    };
    let mut out = step(StepId::InstallCuda, title, "", operations.into_iter().map(Act::needed).collect());
    out.why = why(missing.len(), cuda, out.download_bytes);
    // Archives of programs unpack to three times their size, those of libraries to less.
    out.disk_bytes = out.download_bytes.map(|bytes| bytes * 3);
    out
}

fn unpack(context: &StepContext, part: &Part, toolkit: &Path, target: &str) -> Operation {
    let place = |from: &str, to: String| Placement { from: from.into(), to: toolkit.join(to) };
    Operation::Unpack(Unpack {
        archive: context.cached(&part.artifact),
        sha256: part.artifact.sha256.clone().unwrap_or_default(),
        into: vec![
            place("include", format!("{target}/include")),
            place("lib", format!("{target}/lib")),
            place("LICENSE", format!("share/doc/{}/LICENSE", part.name)),
            // bin, nvvm, extras and whatever else lies in the toolkit's own folder.
            Placement { from: ".".into(), to: toolkit.to_owned() },
        ],
        limit: None,
    })
}

/// What the toolkit has when the step is done, as the runfile writes it down.
fn versions(context: &StepContext, cuda: &ChosenToolkit) -> String {
    let all: Vec<_> = context.chosen.parts.iter().map(|p| (p.name, p.component.title.as_str(), p.version)).collect();
    version_file(cuda.release.version, &all)
}

fn why(count: usize, cuda: &ChosenToolkit, download: Option<u64>) -> String {
    let archives = if count == 1 { "a component archive".to_owned() } else { format!("{count} component archives") };
    let whole = cuda.artifact.and_then(|a| a.artifact.size);
    let instead = whole.map(|size| format!(" instead of the runfile's {}", bytes(size))).unwrap_or_default();
    let size = download.map(|size| format!(" of {}", bytes(size))).unwrap_or_default();
    format!("{archives}{size}{instead}")
}
