//! What the driver needs of each kernel.

use super::{next_kernel, no_driver_of_its_own};
use crate::compat::PackageManager;
use crate::doctor::{Evidence, Verdict};
use crate::host::Kernel;

pub fn headers(seen: &Evidence) -> Verdict {
    let kernel = match built_for(seen) {
        Ok(kernel) => kernel,
        Err(skip) => return skip,
    };
    let release = &kernel.release;
    if kernel.headers {
        return Verdict::pass().saw(format!("/lib/modules/{release}/build leads to headers"));
    }
    let evidence = format!("/lib/modules/{release}/build leads to no headers that a module could be built with");
    worse_without_module(kernel, format!("the headers of kernel {release} are missing"))
        .saw(evidence)
        .mend("install them, then let DKMS build", mend(seen, header_packages(seen, release), release))
}

pub fn compiler(seen: &Evidence) -> Verdict {
    let kernel = match built_for(seen) {
        Ok(kernel) => kernel,
        Err(skip) => return skip,
    };
    let (Some(built), text) = (kernel.gcc_major(), kernel.compiler.as_deref().unwrap_or("unknown")) else {
        return Verdict::skip("the kernel was not built with gcc, or does not say with what");
    };
    let default = seen.facts.gcc.as_deref().unwrap_or("none");
    let evidence = format!("kernel {}: {text}; gcc here: {default}", kernel.release);
    if default.split('.').next() == Some(&*built.to_string()) || seen.compilers.contains(&built) {
        return Verdict::pass().saw(evidence);
    }
    let cause = format!("kernel {} was built with gcc {built}, which is not here", kernel.release);
    let package = seen.distribution.as_ref().and_then(|d| d.gcc_package.as_ref());
    let package = package.map(|p| p.replace("{major}", &built.to_string()));
    worse_without_module(kernel, cause)
        .saw(evidence)
        .mend("install it, then let DKMS build", mend(seen, package.into_iter().collect(), &kernel.release))
}

pub fn one_tree(seen: &Evidence) -> Verdict {
    match seen.dkms.as_slice() {
        [] => Verdict::skip("DKMS builds no module of NVIDIA's here"),
        [one] => Verdict::pass().saw(format!("/var/lib/dkms/{one}")),
        several => several.iter().fold(
            Verdict::warn(format!("DKMS builds the modules from {}: the last one built wins", several.join(" and ")))
                .mend("remove those that no driver belongs to", ["dkms status"]),
            |verdict, tree| verdict.saw(format!("/var/lib/dkms/{tree}")),
        ),
    }
}

pub fn modules(seen: &Evidence) -> Verdict {
    if let Some(skip) = no_driver_of_its_own(seen) {
        return skip;
    }
    let each = seen.facts.kernels.installed.iter().map(|k| module(seen, k));
    Verdict::worst(each).unwrap_or_else(|| Verdict::skip("there is no kernel below /lib/modules"))
}

fn module(seen: &Evidence, kernel: &Kernel) -> Verdict {
    let release = &kernel.release;
    let Some(driver) = &seen.facts.driver else { return Verdict::skip("no NVIDIA driver is installed") };
    let unread = format!("the version of the nvidia module of {release}");
    let cause = match kernel.nvidia_module {
        Some(version) if version == driver.version => {
            return Verdict::pass().saw(format!("{release}: nvidia module {version}"));
        }
        None if seen.facts.unreadable.iter().any(|u| u.what == unread) => {
            return Verdict::pass().saw(format!("{release}: an nvidia module of unknown version"));
        }
        Some(version) => {
            format!(
                "kernel {release} has the nvidia module {version}, and the driver's libraries are {}",
                driver.version
            )
        }
        None => format!("kernel {release} has no nvidia module"),
    };
    let matters = [seen.facts.kernel(), seen.facts.kernels.running.as_deref()].contains(&Some(release));
    let verdict = if matters { Verdict::fail(cause) } else { Verdict::warn(cause) };
    let verdict = verdict.saw(format!("{release}: libraries {}, {}", driver.version, driver.evidence));
    if seen.dkms.is_empty() {
        return verdict.mend("install the driver's modules for this kernel; gpusetup plans it", ["gpusetup plan"]);
    }
    verdict.mend("let DKMS build it", [format!("sudo dkms autoinstall -k {release}"), format!("sudo depmod {release}")])
}

/// The kernel whose module DKMS builds, or why there is none.
fn built_for(seen: &Evidence) -> Result<&Kernel, Verdict> {
    match no_driver_of_its_own(seen) {
        Some(skip) => Err(skip),
        None if seen.dkms.is_empty() => Err(Verdict::skip("DKMS builds no module of NVIDIA's here")),
        None => next_kernel(seen).ok_or_else(|| Verdict::skip("the kernel that boots has nothing below /lib/modules")),
    }
}

/// What is missing for the next build fails the host only when the build is needed.
fn worse_without_module(kernel: &Kernel, cause: String) -> Verdict {
    if kernel.nvidia_module.is_some() { Verdict::warn(cause) } else { Verdict::fail(cause) }
}

fn header_packages(seen: &Evidence, release: &str) -> Vec<String> {
    let patterns = seen.distribution.as_ref().map(|d| d.headers.as_slice()).unwrap_or_default();
    patterns.iter().map(|p| p.replace("{release}", release)).collect()
}

/// Commands that bring packages, also those whose files were lost, and have DKMS build.
fn mend(seen: &Evidence, packages: Vec<String>, release: &str) -> Vec<String> {
    let install = match seen.facts.os.package_manager {
        Some(PackageManager::Apt) => "apt-get install --reinstall",
        Some(PackageManager::Dnf) => "dnf install",
        Some(PackageManager::Zypper) => "zypper install --force",
        _ => return Vec::new(),
    };
    if packages.is_empty() {
        return Vec::new();
    }
    vec![format!("sudo {install} {}", packages.join(" ")), format!("sudo dkms autoinstall -k {release}")]
}
