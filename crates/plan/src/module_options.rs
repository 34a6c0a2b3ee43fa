//! The step that writes options of the driver's kernel modules for modprobe, and puts them into
//! each initramfs.

use super::context::{StepContext, skipped, step};
use super::verify::kept_module;
use super::{Act, Step, StepId};
use gpusetup_host::Facts;
use gpusetup_operation::{Operation, WriteFile};
use gpusetup_recipes::{in_boot_loader, rebuild_images};
use gpusetup_resolve::{Conflict, Install, ModuleOption, Request};
use gpusetup_text::ids::CheckId;
use gpusetup_text::paths::MODULE_OPTIONS;
use gpusetup_text::text::quoted_path;
use std::path::Path;

const TITLE: &str = "Set options of the driver's kernel modules";

/// The step that sets them. `rebuilds`: a step after it makes each initramfs again anyway.
pub(crate) fn module_options(context: &StepContext, rebuilds: bool) -> Step {
    let options = &context.request.settings.module_options;
    if options.is_empty() {
        return skipped(StepId::ModuleOptions, TITLE, "no options were requested");
    }
    if context.chosen.driver.is_none() {
        return skipped(StepId::ModuleOptions, TITLE, "this plan installs no driver");
    }
    let file = context.file(file(options, module(context)));
    let written = context.written(MODULE_OPTIONS);
    let mut images = context
        .facts
        .kernels
        .installed
        .iter()
        .filter_map(|kernel| kernel.initramfs.as_ref());
    let fresh = file.satisfied
        && images.all(|image| written.is_some_and(|written| image.modified >= written));
    let mut acts = vec![file];
    if !rebuilds {
        acts.extend(rebuild_images(context.facts).map(|operation| Act {
            operation,
            satisfied: fresh,
        }));
    }
    let all: Vec<_> = options.iter().map(ToString::to_string).collect();
    step(
        StepId::ModuleOptions,
        TITLE,
        format!("{}; they count when the module is loaded", all.join(", ")),
        acts,
    )
}

/// The name of the driver's main module here: Debian's has another.
fn module<'a>(context: &'a StepContext) -> &'a str {
    match context.chosen.driver.as_ref().map(|driver| &driver.install) {
        Some(Install::Packages(offer) | Install::Repository(offer, _)) => {
            offer.kernel_module.as_deref().unwrap_or("nvidia")
        }
        Some(Install::Kept(..)) => kept_module(context),
        Some(Install::Runfile(_) | Install::CudaRunfile(_) | Install::File) | None => "nvidia",
    }
}

fn file(options: &[ModuleOption], module: &str) -> Operation {
    let mut content = "# Written by gpusetup.\n".to_owned();
    for option in options {
        let here = if module == "nvidia" {
            option.module.clone()
        } else {
            let dashed = option.module.replace('_', "-");
            dashed.replacen("nvidia", module, 1)
        };
        content += &format!("options {here} {}={}\n", option.name, option.value);
    }
    Operation::WriteFile(WriteFile {
        path: MODULE_OPTIONS.into(),
        content,
        mode: 0o644,
        merged_from: None,
    })
}

/// Refuses an option that another file sets to another value: which one counts is up to the order
/// in which modprobe reads them.
pub(crate) fn not_set_elsewhere(facts: &Facts, request: &Request) -> Result<(), Conflict> {
    for wanted in &request.settings.module_options {
        let Some(set) = facts.module_options.iter().find(|set| {
            set.by != Path::new(MODULE_OPTIONS)
                && wanted.is_same(&set.module, &set.name)
                && set.value != wanted.value
        }) else {
            continue;
        };
        let (by, text) = (quoted_path(&set.by), format!("{}.{}", set.module, set.name));
        let (place, hint) = match set.line {
            Some(line) => (
                format!("{by}:{line}"),
                format!("remove that line: sudoedit {by}"),
            ),
            None => {
                let find = in_boot_loader(&format!(".{}=", set.name));
                (
                    format!("the kernel's command line ({by})"),
                    format!("remove it where the boot loader gets it: {find}"),
                )
            }
        };
        let sentence = format!(
            "{place} sets {text} to {}, but {} was requested (--module-option)",
            set.value, wanted.value
        );
        return Err(Conflict::blocked(CheckId::GS521, sentence).hint(hint));
    }
    Ok(())
}

/// Why the options need a reboot: a module that is loaded keeps those it was loaded with.
pub(crate) fn why_reboot(context: &StepContext, step: &Step) -> Option<String> {
    let changes = step.operations.first().is_some_and(|act| !act.satisfied);
    (changes && context.facts.driver_is_loaded() == Some(true))
        .then(|| "the loaded kernel module keeps its options until then".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_have_the_modules_name_on_this_system() {
        let options: Vec<ModuleOption> = ["nvidia.NVreg_X=1", "nvidia_uvm.uvm_disable_hmm=1"]
            .map(|text| text.parse().expect("valid"))
            .into();
        let content = |module| match file(&options, module) {
            Operation::WriteFile(file) => file.content,
            other => panic!("{other:?}"),
        };
        assert!(
            content("nvidia")
                .ends_with("options nvidia NVreg_X=1\noptions nvidia_uvm uvm_disable_hmm=1\n")
        );
        let debian =
            "options nvidia-current NVreg_X=1\noptions nvidia-current-uvm uvm_disable_hmm=1\n";
        assert!(content("nvidia-current").ends_with(debian));
    }
}
