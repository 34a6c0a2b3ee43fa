//! What the driver needs from each kernel: headers, compiler and modules.

use super::{NOTHING, next_kernel, no_driver_of_its_own};
use crate::{Case, Verdict};
use gpusetup_host::Kernel;
use gpusetup_operation::{Link, Operation, Packages, Run};
use gpusetup_text::ids::CheckId;
use std::path::PathBuf;

pub(crate) fn headers(case: &Case) -> Verdict {
    let kernel = match built_for(case) {
        Ok(kernel) => kernel,
        Err(skip) => return skip,
    };
    let release = &kernel.release;
    if kernel.headers {
        return Verdict::pass().evidence(format!("/lib/modules/{release}/build leads to headers"));
    }
    let evidence = format!("/lib/modules/{release}/build does not lead to usable headers");
    let verdict = worse_without_module(
        kernel,
        format!("the headers of kernel {release} are missing"),
    )
    .evidence(evidence);
    let built = build_missing(case, kernel);
    if let Some(there) = case.seen.unlinked_headers.get(release) {
        let link = PathBuf::from(format!("/lib/modules/{release}/build"));
        let link = Operation::Link(Link {
            path: link,
            target: there.clone(),
            soname: None,
        });
        let verdict = verdict.evidence(format!("the headers are in {}", there.display()));
        return verdict.repair(
            "link to the headers, then build the modules with DKMS",
            [link].into_iter().chain(built),
        );
    }
    let packages = case
        .distribution()
        .map(|d| kernel.packages(d, &case.seen.facts.machine.arch));
    bring(case, verdict, packages.unwrap_or_default(), built)
}

pub(crate) fn compiler(case: &Case) -> Verdict {
    let kernel = match built_for(case) {
        Ok(kernel) => kernel,
        Err(skip) => return skip,
    };
    let (Some(built), text) = (
        kernel.gcc_major(),
        kernel.compiler.as_deref().unwrap_or("unknown"),
    ) else {
        return Verdict::skip("the kernel was not built with gcc, or its compiler is unknown");
    };
    let default = case.seen.facts.gcc.as_deref().unwrap_or("none");
    let evidence = format!("kernel {}: {text}; gcc here: {default}", kernel.release);
    if default.split('.').next() == Some(&*built.to_string())
        || case.seen.compilers.contains(&built)
    {
        return Verdict::pass().evidence(evidence);
    }
    let cause = format!(
        "kernel {} was built with gcc {built}, which is not installed",
        kernel.release
    );
    let named = case.distribution().and_then(|d| d.compiler_packages(built));
    let packages = named.map(|[gcc, _]| gcc).into_iter().collect();
    bring(
        case,
        worse_without_module(kernel, cause).evidence(evidence),
        packages,
        build_missing(case, kernel),
    )
}

pub(crate) fn one_tree(case: &Case) -> Verdict {
    match case
        .seen
        .dkms
        .keys()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        [] => Verdict::skip("DKMS does not build NVIDIA's modules on this host"),
        [one] => Verdict::pass().evidence(format!("/var/lib/dkms/{one}")),
        several => {
            let cause = format!(
                "DKMS builds the driver's modules from {}: the last one built wins",
                several.join(" and ")
            );
            let built = next_kernel(case).and_then(|k| k.nvidia_module);
            let is_other =
                built.is_some() && built != case.seen.facts.driver.as_ref().map(|d| d.version);
            let verdict = if is_other {
                Verdict::fail(cause)
            } else {
                Verdict::warn(cause)
            };
            let verdict = verdict.advise(
                "remove the source trees that belong to no installed driver",
                ["dkms status"],
            );
            several.iter().fold(verdict, |verdict, tree| {
                verdict.evidence(format!("/var/lib/dkms/{tree}"))
            })
        }
    }
}

pub(crate) fn modules(case: &Case) -> Verdict {
    if let Some(skip) = no_driver_of_its_own(case) {
        return skip;
    }
    let each = case
        .seen
        .facts
        .kernels
        .installed
        .iter()
        .map(|k| module(case, k));
    Verdict::worst(each).unwrap_or_else(|| Verdict::skip("no kernel is installed in /lib/modules"))
}

fn module(case: &Case, kernel: &Kernel) -> Verdict {
    let release = &kernel.release;
    let Some(driver) = &case.seen.facts.driver else {
        return Verdict::skip("no NVIDIA driver is installed");
    };
    let unread = format!("the version of the nvidia module of {release}");
    let failed = case.seen.failed_builds.get(release);
    let cause = match kernel.nvidia_module {
        Some(version) if version == driver.version => {
            return Verdict::pass().evidence(format!("{release}: nvidia module {version}"));
        }
        None if case.seen.facts.unreadable.iter().any(|u| u.what == unread) => {
            return Verdict::pass()
                .evidence(format!("{release}: an nvidia module of unknown version"));
        }
        Some(version) => {
            format!(
                "kernel {release} has the nvidia module {version}, but the driver's libraries are {}",
                driver.version
            )
        }
        None if failed.is_some_and(|f| f.is_final) => {
            format!(
                "kernel {release} has no nvidia module: driver {} does not compile for it",
                driver.version
            )
        }
        None => format!("kernel {release} has no nvidia module"),
    };
    let matters = [
        case.seen.facts.kernel(),
        case.seen.facts.kernels.running.as_deref(),
    ]
    .contains(&Some(release));
    let verdict = if matters {
        Verdict::fail(cause)
    } else {
        Verdict::warn(cause)
    };
    let verdict = verdict.evidence(format!(
        "{release}: libraries {}, {}",
        driver.version, driver.evidence
    ));
    let verdict = failed.into_iter().fold(verdict, |v, failed| {
        v.evidence(format!("DKMS's log: {}", failed.why))
    });
    if failed.is_some_and(|f| f.is_final) {
        let text =
            "install a driver that supports this kernel, or boot a kernel that the driver supports";
        // Packages that are half configured are what this leads to.
        return verdict
            .caused_only_by(&[
                CheckId::GS101,
                CheckId::GS102,
                CheckId::GS401,
                CheckId::GS106,
            ])
            .advise(text, ["gpusetup plan --upgrade"]);
    }
    if case.seen.dkms.is_empty() {
        return verdict.advise(
            "install the driver's modules for this kernel with gpusetup",
            ["gpusetup plan"],
        );
    }
    let built = build(case, kernel);
    // Without headers the build would fail. Headers are checked only for the kernel that boots.
    if !built.is_empty() && (kernel.headers || case.seen.facts.kernel() == Some(release)) {
        return verdict.repair("build the module with DKMS", built);
    }
    verdict.advise(
        "build the module with DKMS",
        [
            format!("sudo dkms autoinstall -k {release}"),
            format!("sudo depmod {release}"),
        ],
    )
}

/// Builds the modules with DKMS for a kernel that has none.
fn build_missing(case: &Case, kernel: &Kernel) -> Vec<Operation> {
    if kernel.nvidia_module.is_none() {
        build(case, kernel)
    } else {
        Vec::new()
    }
}

/// Builds and installs the driver's modules for a kernel, if DKMS has their version.
fn build(case: &Case, kernel: &Kernel) -> Vec<Operation> {
    const LIMIT: u64 = 3600;
    let Some(driver) = &case.seen.facts.driver else {
        return Vec::new();
    };
    let wanted = driver.version.to_string();
    let trees = case
        .seen
        .dkms
        .iter()
        .flat_map(|(name, versions)| versions.iter().map(move |v| (name, v)));
    let of_driver = trees.filter(|(_, version)| gpusetup_packages::upstream(version) == wanted);
    let each = of_driver.map(|(name, version)| {
        let module = format!("{name}/{version}");
        // --force: a module that DKMS has recorded as installed may be missing.
        let undo = ["dkms", "uninstall", &module, "-k", &kernel.release];
        Run::new(
            ["dkms", "install", "--force", &module, "-k", &kernel.release],
            LIMIT,
        )
        .undone_by(undo)
        .into()
    });
    each.collect()
}

/// The kernel for which DKMS builds the module, or why there is none.
fn built_for<'a>(case: &'a Case) -> Result<&'a Kernel, Verdict> {
    match no_driver_of_its_own(case) {
        Some(skip) => Err(skip),
        None if case.seen.dkms.is_empty() => Err(Verdict::skip(
            "DKMS does not build NVIDIA's modules on this host",
        )),
        None => next_kernel(case)
            .ok_or_else(|| Verdict::skip("the kernel that boots has no directory in /lib/modules")),
    }
}

/// A missing build requirement is a failure only if the build is needed now.
fn worse_without_module(kernel: &Kernel, cause: String) -> Verdict {
    if kernel.nvidia_module.is_some() {
        Verdict::warn(cause)
    } else {
        Verdict::fail(cause)
    }
}

/// Installs the packages that provide what is missing, then runs `behind`. Without known packages
/// the user must find them.
fn bring(case: &Case, verdict: Verdict, packages: Vec<String>, behind: Vec<Operation>) -> Verdict {
    const TEXT: &str = "install the missing packages, then build the modules with DKMS";
    let Some(manager) = case
        .seen
        .facts
        .os
        .package_manager
        .filter(|_| !packages.is_empty())
    else {
        return verdict.advise(TEXT, NOTHING);
    };
    let install = Operation::Packages(Packages::to_install(manager, packages));
    verdict.repair(TEXT, [install].into_iter().chain(behind))
}
