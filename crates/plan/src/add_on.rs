//! The steps that install add-ons, such as cuDNN, from archives into the toolkit, and the links by
//! which programs and compilers find them.

use super::context::{StepContext, skipped, step};
use super::{Act, Step, StepId};
use gpusetup_database::compat::{AddOn, AddOnArtifact, Layout};
use gpusetup_operation::{Link, Operation, Placement, Unpack};
use gpusetup_resolve::ChosenAddOn;
use std::path::Path;

/// The steps for the add-ons of a toolkit beside the default one.
pub(crate) fn install_beside(context: &StepContext) -> Vec<Step> {
    let add_ons = context
        .chosen
        .add_ons
        .iter()
        .zip(context.toolkit().into_iter().cycle());
    add_ons
        .map(|(chosen, toolkit)| install_one(context, chosen, toolkit))
        .collect()
}

/// A step for each chosen add-on, and a skipped step for each default add-on that was not chosen.
pub(crate) fn install(context: &StepContext, known: &[AddOn]) -> Vec<Step> {
    let steps = known.iter().filter_map(|of| {
        let mut chosen = context.chosen.add_ons.iter();
        let chosen = chosen.find(|chosen| chosen.of.id == of.id);
        match chosen.zip(context.toolkit()) {
            Some((chosen, toolkit)) => Some(install_one(context, chosen, toolkit)),
            None if of.by_default => {
                let title = format!("Install {} into the toolkit", of.title);
                Some(skipped(
                    StepId::InstallAddOn(of.id),
                    title,
                    format!("no {} was chosen", of.title),
                ))
            }
            None => None,
        }
    });
    steps.collect()
}

fn install_one(context: &StepContext, chosen: &ChosenAddOn, toolkit: &Path) -> Step {
    let (of, version, artifact) = (
        chosen.of,
        chosen.artifact.version,
        &chosen.artifact.artifact,
    );
    let id = StepId::InstallAddOn(of.id);
    let packaged = is_packaged(context, chosen);
    let title = match packaged {
        true => format!("Keep {} {version} of the system's packages", of.title),
        false => format!("Install {} {version} into {}", of.title, toolkit.display()),
    };
    let satisfied = packaged
        || context.facts.files_of(of.id).any(|found| {
            found.version.is_some_and(|v| v.has_files_of(version))
                && found.directory.starts_with(toolkit)
        });
    let Some((download, layout)) = context.download(artifact).zip(of.layout(&artifact.file)) else {
        return skipped(id, title, "the URL or checksum of its archive is not known");
    };
    let unpack = Operation::Unpack(Unpack {
        archive: context.cached(artifact),
        sha256: artifact.sha256.unwrap_or_default().to_string(),
        into: places(chosen.artifact, layout, toolkit),
        limit: None,
    });
    let acts = [download, unpack]
        .map(|operation| Act {
            operation,
            satisfied,
        })
        .to_vec();
    let why = match of.by_default {
        _ if packaged => "it is installed and fits; programs find it in the system's directories".to_owned(),
        true => {
            "frameworks find it next to the toolkit's libraries; links are kept and all users can read it".to_owned()
        }
        false => format!("for {}; programs find it next to the toolkit's libraries", of.purpose),
    };
    let mut out = step(id, title, why, acts);
    out.disk_bytes = if satisfied {
        Some(0)
    } else {
        artifact.size.map(|size| size * 2)
    };
    out
}

/// Whether packages have put the chosen release into the system's directories, and the toolkit has
/// none.
fn is_packaged(context: &StepContext, chosen: &ChosenAddOn) -> bool {
    let major = context
        .chosen
        .cuda
        .as_ref()
        .map(|cuda| cuda.release.version.major);
    let found = major.and_then(|major| context.facts.packaged(chosen.of.id, major));
    found.is_some_and(|found| found.version == Some(chosen.artifact.version))
        && !context.facts.files_of(chosen.of.id).any(|found| {
            context
                .toolkit()
                .is_some_and(|toolkit| found.directory.starts_with(toolkit))
        })
}

fn places(artifact: &AddOnArtifact, layout: &Layout, toolkit: &Path) -> Vec<Placement> {
    layout
        .places
        .iter()
        .map(|p| Placement {
            from: p
                .from
                .replace("{version}", &artifact.version.to_string())
                .replace("{line}", &artifact.cuda_line)
                .into(),
            to: toolkit.join(&p.to),
        })
        .collect()
}

/// The links of all chosen add-ons' libraries: the SONAMEs, and the names that compilers use.
pub(crate) fn links(context: &StepContext, toolkit: &Path) -> Vec<Act> {
    let mut acts = Vec::new();
    let directory = toolkit.join("lib64");
    for chosen in context
        .chosen
        .add_ons
        .iter()
        .filter(|chosen| !is_packaged(context, chosen))
    {
        let version = chosen.artifact.version;
        let numbers = chosen
            .of
            .layout(&chosen.artifact.artifact.file)
            .map_or(1, |layout| layout.numbers);
        let there: Vec<_> = context
            .facts
            .files_of(chosen.of.id)
            .filter(|f| f.directory.starts_with(toolkit))
            .collect();
        let (soname_of, file_of) = (version.first(1), version.first(numbers));
        let mut links = Vec::new();
        for library in &chosen.range.libraries {
            let name = format!("{library}.so");
            let soname = format!("{name}.{soname_of}");
            // With one number, the file's name is the SONAME itself.
            if numbers > 1 {
                let file = format!("{name}.{file_of}");
                links.push((soname.clone(), file, Some(soname.clone())));
            }
            links.push((name, soname, None));
        }
        acts.extend(links.into_iter().map(|(name, target, soname)| {
            let mut files = there.iter().flat_map(|found| &found.files);
            let satisfied =
                files.any(|f| f.name == name && f.link.as_deref() == Some(Path::new(&target)));
            Act {
                operation: Operation::Link(Link {
                    path: directory.join(name),
                    target: target.into(),
                    soname,
                }),
                satisfied,
            }
        }));
    }
    acts
}
