//! The steps that let programs find the toolkit: the loader's search path and cache, and PATH for
//! shells.

use super::context::{StepContext, skipped, step};
use super::{Act, Step, StepId};
use gpusetup_recipes::{loader_path, profile, rebuild_cache};
use gpusetup_text::paths::LOADER_PATH;

/// The step that configures the loader's search path and cache.
pub(crate) fn ldconfig(context: &StepContext) -> Step {
    const TITLE: &str = "Add the libraries to the loader's search path";
    let Some(toolkit) = context.toolkit() else {
        return skipped(StepId::Ldconfig, TITLE, "no toolkit was requested");
    };
    let libraries = context.default_toolkit().join("lib64");
    let file = context.file(loader_path(&context.default_toolkit()));
    let cached = context.facts.loader_cache.as_ref().is_some_and(|cache| {
        let add_ons = context.chosen.add_ons.iter();
        let mut sonames: Vec<_> = add_ons.map(|a| a.of.soname(a.artifact.version)).collect();
        if context.has_component("cuda_cudart") {
            sonames.push("libcudart.so".to_owned());
        }
        let newer = context
            .written(LOADER_PATH)
            .is_some_and(|written| cache.modified >= written);
        newer
            && sonames.iter().all(|soname| {
                cache.entries.iter().any(|(name, path)| {
                    name.starts_with(soname)
                        && (path.starts_with(&libraries) || path.starts_with(toolkit))
                })
            })
    });
    let satisfied = file.satisfied && cached;
    let why = "all programs use the loader's cache; LD_LIBRARY_PATH would also affect programs with their own libraries";
    step(
        StepId::Ldconfig,
        TITLE,
        why,
        vec![
            file,
            Act {
                operation: rebuild_cache(),
                satisfied,
            },
        ],
    )
}

/// The step that adds the toolkit to PATH for shells.
pub(crate) fn environment(context: &StepContext) -> Step {
    const TITLE: &str = "Add the toolkit to PATH";
    if context.chosen.cuda.is_none() {
        return skipped(StepId::Environment, TITLE, "no toolkit was requested");
    }
    let file = profile(&context.default_toolkit(), context.request.library_path);
    let why = "login shells find nvcc there; LD_LIBRARY_PATH is not set, because it breaks other software";
    step(StepId::Environment, TITLE, why, vec![context.file(file)])
}
