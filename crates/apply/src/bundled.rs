//! What comes from a bundle. All of it is brought to the host before the first change, so that a
//! run that resumes after a reboot needs the bundle no more: a stick may not be mounted then.

use super::Failure;
use super::config::RunConfig;
use super::keys::keys;
use super::news::{News, OnNews};
use gpusetup_bundle::Bundle;
use gpusetup_fetch::{FetchRequest, is_cached};
use gpusetup_operation::packages::{self, Packages};
use gpusetup_operation::{Download, Operation, Standing};
use gpusetup_packages::package_source::PackageSource;
use gpusetup_plan::{Act, Plan};
use gpusetup_system::{System, interrupt};
use gpusetup_text::ids::CheckId;
use std::time::Instant;

/// Where the packages of a plan come from.
pub(crate) fn package_source(plan: &Plan, config: &RunConfig) -> PackageSource {
    let folder = match (&config.bundle, &config.brought) {
        (Some(bundle), _) if bundle.has_packages_for(plan) => {
            Some(bundle.folder(&plan.request.cache))
        }
        (None, Some(brought)) => Some(brought.clone()),
        _ => None,
    };
    folder.map_or(PackageSource::Repositories, PackageSource::Folder)
}

/// Refuses a plan that needs what its bundle does not hold, and an apply whose bundle is gone.
pub(crate) fn check(on: &System, plan: &Plan, config: &RunConfig) -> Result<(), Failure> {
    if let (None, Some(folder)) = (&config.bundle, &config.brought)
        && !on.is_directory(folder)
        && plan.packages().any(|wanted| is_needed(on, wanted))
    {
        let sentence = format!(
            "the packages that this apply brought from its bundle are gone from {}: gpusetup resume --bundle PATH brings them \
             again",
            folder.display()
        );
        return Err(Failure::Blocked(sentence));
    }
    let Some(bundle) = &config.bundle else {
        return Ok(());
    };
    let mut lacking: Vec<_> = plan
        .acts()
        .flat_map(|act| lacks(on, bundle, plan, act))
        .collect();
    lacking.sort();
    lacking.dedup();
    if lacking.is_empty() {
        return Ok(());
    }
    let (path, lacking) = (bundle.form.path().display(), lacking.join(", "));
    let (offline, remedy) = (CheckId::GS601, gpusetup_causes::bundle_again().text);
    let sentence = format!(
        "the bundle {path} lacks files that this plan needs ({offline}): {lacking}; {remedy}"
    );
    Err(Failure::Blocked(sentence))
}

/// What an operation needs that neither the bundle nor the host has.
fn lacks(on: &System, bundle: &Bundle, plan: &Plan, act: &Act) -> Vec<String> {
    let has = match &act.operation {
        Operation::Download(Download {
            url,
            sha256,
            size,
            to,
        }) => {
            act.satisfied
                || is_cached(
                    on,
                    &FetchRequest {
                        url,
                        sha256,
                        size: *size,
                        to,
                    },
                )
        }
        Operation::Packages(wanted) => !is_needed(on, wanted),
        other => keys(other).all(|(_, key)| key.is_cached(on)),
    };
    if has {
        Vec::new()
    } else {
        bundle.lacks(&act.operation, &plan.host)
    }
}

/// Brings what a plan needs, and has the package manager say whether it would take it.
pub(crate) fn bring(
    on: &System,
    plan: &Plan,
    config: &RunConfig,
    tell: OnNews,
) -> Result<(), Failure> {
    let Some(bundle) = &config.bundle else {
        return Ok(());
    };
    let source = &config.package_source();
    let began = Instant::now();
    let mut last_shown = None;
    let first = plan
        .acts()
        .map(|act| &act.operation)
        .find(|o| matches!(o, Operation::Download(_) | Operation::Packages(_)));
    bundle
        .bring(on, plan, &mut |have, all| {
            // Some two thousand packages come in a second: a word for each would take longer than
            // they do.
            let now = Instant::now();
            let due = last_shown.is_none_or(|last| now.duration_since(last).as_millis() >= 100)
                || have == all;
            if let Some(operation) = first.filter(|_| due) {
                last_shown = Some(now);
                tell(&News::Working {
                    operation,
                    since: began.elapsed(),
                    bytes: Some((have, Some(all))),
                });
            }
        })
        .map_err(|e| interrupt::heard().map_or_else(|| e.into(), Failure::Interrupted))?;
    plan.packages()
        .filter(|wanted| is_needed(on, wanted))
        .try_for_each(|wanted| packages::would_install(on, wanted, source).map_err(Failure::from))
}

fn is_needed(on: &System, wanted: &Packages) -> bool {
    !packages::stand(on, wanted).is_ok_and(|standing| standing == Standing::Satisfied)
}

/// Takes the packages away that nothing needs any more.
pub(crate) fn remove_brought_packages(on: &System, source: &PackageSource) -> Result<(), Failure> {
    let Some(folder) = source.folder() else {
        return Ok(());
    };
    on.remove_tree(folder)
        .map_err(|e| Failure::Blocked(format!("cannot remove {}: {e}", folder.display())))?;
    // The folder of all bundles goes with the last.
    let _ = folder.parent().map(|all| on.remove(all));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_database::compat::PackageManager;
    use gpusetup_operation::Remove;
    use gpusetup_plan::sample::plan_of;
    use std::path::PathBuf;

    #[test]
    fn an_apply_whose_packages_are_gone_says_what_brings_them_again() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        let packages = Operation::Packages(Packages::to_install(
            PackageManager::Apt,
            vec!["dkms".to_owned()],
        ));
        let config = RunConfig {
            brought: Some("/var/cache/gpusetup/.bundles/ab".into()),
            ..RunConfig::default()
        };
        let gone = check(&on, &plan_of(vec![packages.clone()]), &config);
        assert!(
            matches!(&gone, Err(Failure::Blocked(why)) if why.contains("gpusetup resume --bundle PATH")),
            "{gone:?}"
        );
        // Without packages to come nothing is missed.
        check(
            &on,
            &plan_of(vec![Operation::Remove(Remove {
                path: PathBuf::from("/f"),
            })]),
            &config,
        )
        .expect("nothing to do");
        on.make_directories("/var/cache/gpusetup/.bundles/ab", 0o700)
            .expect("made");
        let plan = plan_of(vec![packages]);
        check(&on, &plan, &config).expect("they are there");
        let folder = package_source(&plan, &config);
        assert_eq!(
            folder,
            PackageSource::Folder("/var/cache/gpusetup/.bundles/ab".into())
        );
        remove_brought_packages(&on, &folder).expect("removed");
        assert!(
            !on.exists("/var/cache/gpusetup/.bundles"),
            "the folder of all bundles goes with the last"
        );
    }
}
