//! NVIDIA's packages in an environment: those that a framework requires, and whether their
//! libraries are the ones that are loaded.

use super::super::NOTHING;
use super::{install, named, on_each, quoted_words};
use crate::evidence::{
    EnvironmentPackage, FoundBy, LoadedLibrary, PythonEnvironment, RequiredPackage,
};
use crate::{Case, Verdict};
use gpusetup_database::version::meets_specifier;

pub(crate) fn required(case: &Case) -> Verdict {
    on_each(case, |environment| {
        let each = environment.packages.iter().flat_map(|package| {
            let wrong = package
                .requires
                .iter()
                .filter_map(|required| unmet(environment, package, required));
            wrong
                .chain(incomplete(environment, package))
                .collect::<Vec<_>>()
        });
        let lost = environment.loads.iter().filter(|one| one.found_by == FoundBy::Nothing).map(|one| {
            let (by, soname, place) = (&one.by, &one.soname, environment.path.display());
            let cause = format!("{by} in {place} needs {soname}, which the loader does not find");
            match &one.own {
                // Programs may load it first, as torch does with ctypes.
                Some(_) => Verdict::warn(format!("{cause}, although it is in the environment")).advise(
                    "load the library first: import torch, or call onnxruntime.preload_dlls() before a session",
                    NOTHING,
                ),
                None => Verdict::fail(cause).advise("see which packages are missing", [check_command(environment)]),
            }
        });
        let unread = environment
            .unread
            .iter()
            .map(|why| Verdict::pass().evidence(format!("not read: {why}")));
        // A missing package is the cause of a library that is not found.
        let found: Vec<_> = each.collect();
        let lost: Vec<_> = if found.is_empty() {
            lost.collect()
        } else {
            Vec::new()
        };
        let well = (found.is_empty() && lost.is_empty()).then(|| {
            Verdict::pass().evidence(format!(
                "{}: has what its packages require",
                environment.path.display()
            ))
        });
        Verdict::worst(found.into_iter().chain(lost).chain(well).chain(unread))
            .unwrap_or_else(Verdict::pass)
    })
}

/// What is wrong with a requirement of a package.
fn unmet(
    environment: &PythonEnvironment,
    by: &EnvironmentPackage,
    required: &RequiredPackage,
) -> Option<Verdict> {
    let RequiredPackage { name, versions } = required;
    let wanted = if versions.is_empty() {
        name.clone()
    } else {
        format!("{name} {versions}")
    };
    let there: Vec<_> = environment
        .packages
        .iter()
        .filter(|p| p.name == *name && p.by_conda == by.by_conda)
        .collect();
    let who = named(environment, by);
    let word = if by.by_conda {
        format!("{name}{versions}")
    } else {
        format!("{name}{}", versions.replace(' ', ""))
    };
    let command = install(environment, by.by_conda, &quoted_words([word.as_str()]));
    if there.is_empty() {
        // conda packages of one name may be provided by another one.
        let verdict = if by.by_conda {
            return None;
        } else {
            Verdict::fail(format!("{who} requires {wanted}, which is not installed"))
        };
        return Some(verdict.advise("install it", [command]));
    }
    if there
        .iter()
        .any(|package| meets_specifier(&package.version, versions))
    {
        return None;
    }
    let have = &there[0].version;
    let cause = format!("{who} requires {wanted}, but {have} is installed");
    Some(Verdict::warn(cause).advise("install the version that it requires", [command]))
}

/// A package whose files are gone: another package that had the same files was removed.
fn incomplete(environment: &PythonEnvironment, package: &EnvironmentPackage) -> Option<Verdict> {
    let first = package.missing.first()?;
    let name = named(environment, package);
    let word = format!(
        "{}=={}",
        package.name,
        package.version.split('+').next().unwrap_or_default()
    );
    let command = if package.by_conda {
        install(
            environment,
            true,
            &format!(
                "--force-reinstall {}",
                quoted_words([package.name.as_str()])
            ),
        )
    } else {
        install(
            environment,
            false,
            &format!(
                "--force-reinstall --no-deps {}",
                quoted_words([word.as_str()])
            ),
        )
    };
    let verdict = Verdict::fail(format!(
        "{name} is incomplete: {} does not exist",
        first.display()
    ));
    Some(verdict.advise("install the package again", [command]))
}

fn check_command(environment: &PythonEnvironment) -> String {
    install(environment, false, "")
        .replace(" install", " check")
        .trim_end()
        .to_owned()
}

pub(crate) fn own_libraries(case: &Case) -> Verdict {
    on_each(case, |environment| {
        let place = environment.path.display();
        let each = environment.loads.iter().filter_map(|one| {
            let path = one.path.as_ref()?;
            let evidence = format!(
                "{} in {place}: {} => {}",
                one.by,
                one.soname,
                path.display()
            );
            match &one.own {
                Some(own) if own != path => Some(shadowed(environment, one).evidence(evidence)),
                _ => Some(Verdict::pass().evidence(evidence)),
            }
        });
        Verdict::worst(each).unwrap_or_else(Verdict::pass)
    })
}

fn shadowed(environment: &PythonEnvironment, one: &LoadedLibrary) -> Verdict {
    let LoadedLibrary {
        by,
        soname,
        path,
        own,
        found_by,
    } = one;
    let [loaded, wanted] = [path, own].map(|path| {
        path.as_ref()
            .map(|p| p.display().to_string())
            .unwrap_or_default()
    });
    let place = environment.path.display();
    let cause = format!("{by} of {place} loads {loaded} instead of {wanted}");
    match found_by {
        FoundBy::LibraryPath => {
            Verdict::warn(format!("{cause}: LD_LIBRARY_PATH precedes the environment")).advise(
                "remove the directory from LD_LIBRARY_PATH",
                ["unset LD_LIBRARY_PATH"],
            )
        }
        FoundBy::Library | FoundBy::Cache | FoundBy::Nothing => {
            let cause =
                format!("{cause}: {by} does not search the environment's directory for {soname}");
            Verdict::warn(cause).advise(
                "see what requires which version",
                [check_command(environment)],
            )
        }
    }
}
