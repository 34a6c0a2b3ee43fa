//! A check that says something else when a sense is missing needs that sense: every case of these
//! tests is tried without each.

use crate::{CHECKS, Evidence, Sense};

/// Every check whose verdict changes without a sense names it.
pub fn are_named(evidence: &Evidence) {
    for sense in Sense::ALL {
        let without = without(evidence, sense);
        for check in CHECKS.iter().filter(|check| !check.needs.contains(&sense)) {
            assert_eq!(
                (check.run)(evidence),
                (check.run)(&without),
                "{} does not say that it needs {sense:?}",
                check.id
            );
        }
    }
}

/// The evidence of a host at which gpusetup panicked while it used this sense.
fn without(evidence: &Evidence, sense: Sense) -> Evidence {
    let mut seen = evidence.clone();
    match sense {
        Sense::KernelLog => {
            seen.kernel_log = Default::default();
            seen.xids.clear();
            seen.sxids.clear();
        }
        Sense::Denials => {
            seen.denied.clear();
            seen.blocked = None;
        }
        Sense::Signer => seen.signer = Default::default(),
        Sense::Libraries => {
            seen.nvml = Default::default();
            seen.cuda = Default::default();
            seen.convolution.clear();
            seen.holders.clear();
        }
        Sense::Images => seen.images.clear(),
        Sense::AddOnVersions => seen.cudnn.clear(),
        Sense::Nvcc => seen.nvcc.clear(),
        Sense::Compiled => seen.compiled.clear(),
        Sense::Dkms => seen.dkms.clear(),
        Sense::DriverPackages => seen.missing_packages.clear(),
        Sense::HostCompiler => seen.host_compiler = None,
        Sense::FabricManager => seen.fabric_manager = Default::default(),
        Sense::Companions => seen.companions = Default::default(),
        Sense::DkmsLogs => seen.failed_builds.clear(),
        Sense::Headers => seen.unlinked_headers.clear(),
        Sense::SigningKey => seen.key_is_enrolled = None,
        Sense::ModuleAge => seen.module_before_boot = None,
        Sense::Shells => {
            seen.shells = Default::default();
            seen.other_toolkits.clear();
        }
        Sense::LoaderDirectories => seen.loader_directories.clear(),
        Sense::LoaderCache => {
            seen.cached.clear();
            seen.forward_compatible.clear();
        }
        Sense::LibraryPaths => seen.library_paths.clear(),
        Sense::Apt => seen.apt = Default::default(),
        Sense::Bus => seen.bus = Default::default(),
        Sense::Containers => seen.containers = Default::default(),
        Sense::Cluster => seen.cluster = None,
        Sense::Given => seen.given = None,
        Sense::Coherent => seen.coherent = None,
        Sense::Machine => seen.machine = None,
        Sense::Python => seen.python = Default::default(),
        Sense::Settings => seen.settings = None,
    }
    seen
}
