//! The builds of frameworks: for the CPU, for a CUDA that the driver does not run, or without
//! kernels for a GPU.

use super::{install, named, on_each};
use crate::evidence::{BuiltFor, EnvironmentPackage, PythonEnvironment};
use crate::{Case, Verdict};
use gpusetup_database::compat::{Framework, FrameworkBuild, FrameworkRelease};
use gpusetup_database::version::{CudaVersion, DriverVersion};
use gpusetup_resolve::TargetGpu;
use gpusetup_text::text::quoted;

/// The frameworks whose builds for the CPU have the same name as those for CUDA.
const OF_BOTH_KINDS: [&str; 5] = [
    "torch",
    "pytorch",
    "tensorflow",
    "tensorflow-cpu",
    "libtorch",
];

pub(crate) fn with_cuda(case: &Case) -> Verdict {
    if case.seen.facts.has_no_gpu() {
        return Verdict::skip("this host has no NVIDIA GPU");
    }
    on_each(case, |environment| {
        let each = environment
            .packages
            .iter()
            .filter(|p| p.build != BuiltFor::Unknown)
            .map(|package| {
                let name = named(environment, package);
                match package.build {
                    BuiltFor::Cuda(cuda) => {
                        Verdict::pass().evidence(format!("{name}: built for CUDA {cuda}"))
                    }
                    BuiltFor::Cpu if OF_BOTH_KINDS.contains(&package.name.as_str()) => {
                        let verdict = Verdict::warn(format!(
                            "{name} is built for the CPU alone: it does not use the GPU"
                        ));
                        advise(
                            case,
                            environment,
                            package,
                            verdict,
                            "install a build for CUDA",
                        )
                    }
                    BuiltFor::Cpu | BuiltFor::Unknown => Verdict::pass(),
                }
            });
        Verdict::worst(each).unwrap_or_else(Verdict::pass)
    })
}

pub(crate) fn for_driver(case: &Case) -> Verdict {
    let Some(driver) = driver(case) else {
        return Verdict::skip("no NVIDIA driver is installed");
    };
    on_each(case, |environment| {
        let each = built(environment).filter_map(|(package, cuda)| {
            let oldest = case.oldest_driver_of_series(cuda)?;
            let name = named(environment, package);
            if driver >= oldest {
                return Some(Verdict::pass().evidence(format!("{name}: CUDA {cuda} runs on driver {driver}")));
            }
            let cause = format!(
                "{name} is built for CUDA {cuda}, which needs driver {oldest} or newer; the driver is {driver}"
            );
            let verdict = Verdict::fail(cause);
            Some(match replacement(case, environment, package) {
                Some(command) => {
                    verdict.advise("install a build for an older CUDA, or a newer driver (gpusetup plan)", [command])
                }
                None => verdict.advise("install a newer driver", ["gpusetup plan --profile driver --upgrade"]),
            })
        });
        Verdict::worst(each).unwrap_or_else(Verdict::pass)
    })
}

pub(crate) fn for_gpu(case: &Case) -> Verdict {
    let cards: Vec<&TargetGpu> = case
        .cards
        .iter()
        .filter_map(|card| card.as_ref().ok())
        .collect();
    if cards.is_empty() {
        return Verdict::skip("no known GPU is on this host");
    }
    on_each(case, |environment| {
        let each = built(environment).filter_map(|(package, cuda)| {
            let (_, release) = known(case, package)?;
            let build = release
                .builds
                .iter()
                .find(|build| build.cuda.series() == cuda)?;
            let name = named(environment, package);
            let unfit = cards.iter().find(|card| {
                card.capability
                    .is_some_and(|have| !build.has_kernels_for(have))
            });
            let Some(card) = unfit else {
                return Some(Verdict::pass().evidence(format!("{name}: has kernels for the GPUs")));
            };
            let capability = card.capability.map(|c| c.sm()).unwrap_or_default();
            let cause = format!(
                "{name}, built for CUDA {cuda}, has no kernels for {} ({capability})",
                card.name
            );
            Some(advise(
                case,
                environment,
                package,
                Verdict::fail(cause),
                "install a build with kernels for it",
            ))
        });
        Verdict::worst(each).unwrap_or_else(Verdict::pass)
    })
}

/// The frameworks that are built for a CUDA.
fn built(
    environment: &PythonEnvironment,
) -> impl Iterator<Item = (&EnvironmentPackage, CudaVersion)> {
    environment
        .packages
        .iter()
        .filter_map(|package| match package.build {
            BuiltFor::Cuda(cuda) => Some((package, cuda)),
            BuiltFor::Cpu | BuiltFor::Unknown => None,
        })
}

/// The driver whose libcuda programs load; in a container without it, the loaded module.
fn driver(case: &Case) -> Option<DriverVersion> {
    let installed = case.seen.facts.driver.as_ref().map(|driver| driver.version);
    installed.or_else(|| case.seen.facts.loaded_driver()?.parse().ok())
}

/// The database's record of a package.
fn known<'a>(
    case: &'a Case,
    package: &EnvironmentPackage,
) -> Option<(&'a Framework, &'a FrameworkRelease)> {
    let name = match package.name.as_str() {
        "pytorch" | "libtorch" => "torch",
        "tensorflow-cpu" | "tensorflow-base" => "tensorflow",
        other => other,
    };
    let framework = case
        .database
        .frameworks
        .iter()
        .find(|framework| framework.name == name)?;
    let version = package.version.split('+').next().unwrap_or_default();
    Some((
        framework,
        framework.releases.iter().find(|release| {
            release
                .version
                .split('.')
                .zip(version.split('.'))
                .all(|(a, b)| a == b)
        })?,
    ))
}

/// The command that installs a build of the same release that the driver and the GPUs run; of
/// another release if none does.
fn replacement(
    case: &Case,
    environment: &PythonEnvironment,
    package: &EnvironmentPackage,
) -> Option<String> {
    let (framework, own) = known(case, package)?;
    let arch = &case.seen.facts.machine.arch;
    let releases =
        std::iter::once(own).chain(framework.releases.iter().filter(|release| *release != own));
    releases.into_iter().find_map(|release| {
        let (build, way) = release
            .builds
            .iter()
            .filter(|build| {
                let oldest = case.oldest_driver_of_series(build.cuda.series());
                let on_driver = driver(case)
                    .zip(oldest)
                    .is_none_or(|(have, oldest)| have >= oldest);
                let capabilities = case
                    .cards
                    .iter()
                    .filter_map(|card| card.as_ref().ok()?.capability);
                build.is_for(arch)
                    && on_driver
                    && capabilities
                        .into_iter()
                        .all(|have| build.has_kernels_for(have))
            })
            .find_map(|build| Some((build, framework.python_install(release, build, arch)?)))?;
        let version = if release == own {
            package
                .version
                .split('+')
                .next()
                .unwrap_or_default()
                .to_owned()
        } else {
            format!("{}.*", release.version)
        };
        // The same version with another local part counts as installed.
        let index = way.index.or_else(|| index_of(framework, release, build));
        let index = index
            .map(|index| format!(" --index-url {}", quoted(&index)))
            .unwrap_or_default();
        let words = format!(
            "--force-reinstall {}{index}",
            quoted(&format!("{}=={version}", way.package))
        );
        Some(install(environment, false, &words))
    })
}

/// The index that has a build under its own name, also if PyPI has it too: pip then takes this
/// build and no other.
fn index_of(
    framework: &Framework,
    release: &FrameworkRelease,
    build: &FrameworkBuild,
) -> Option<String> {
    framework.python_package(release)?.index_for(build)
}

fn advise(
    case: &Case,
    environment: &PythonEnvironment,
    package: &EnvironmentPackage,
    verdict: Verdict,
    what: &str,
) -> Verdict {
    match replacement(case, environment, package) {
        Some(command) => verdict.advise(what, [command]),
        None => verdict.advise(
            what,
            [format!("gpusetup explain {}", quoted(&package.name))],
        ),
    }
}
