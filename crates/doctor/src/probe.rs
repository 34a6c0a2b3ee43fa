//! The parts of a host that doctor reads, each independent of the others. If reading one fails, the
//! checks that need it end in an error; none of them passes.

use gpusetup_system::bug;
use gpusetup_text::ids::CheckId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// A row for each part: its name in a report, the thing that is read as in "failed while reading
/// ...", and the fields of [`Seen`](crate::Seen) that it fills.
macro_rules! probes {
    ($($probe:ident $name:literal $object:literal [$($field:ident)*],)*) => {
        /// One part of the host that doctor reads.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum Probe {
            $($probe,)*
        }

        impl Probe {
            /// Its name in a report.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$probe => $name,)*
                }
            }

            /// The thing that is read, as in "failed while reading ...".
            pub fn object(self) -> &'static str {
                match self {
                    $(Self::$probe => $object,)*
                }
            }
        }

        #[cfg(test)]
        impl Probe {
            pub const ALL: &[Self] = &[$(Self::$probe,)*];

            /// Clears what it fills, as on a host at which it panicked.
            pub fn clear(self, seen: &mut crate::Seen) {
                match self {
                    $(Self::$probe => {
                        $(seen.$field = Default::default();)*
                    })*
                }
            }
        }
    };
}

probes! {
    KernelLog "kernel-log" "the kernel's log" [kernel_log],
    Denials "denials" "the blacklists of kernel modules" [denied blocked],
    Signer "signer" "the module's signer" [signer],
    Libraries "libraries" "NVIDIA's libraries" [nvml cuda convolution holders boot_layouts],
    Images "images" "the initramfs images" [images],
    AddOnVersions "add-on-versions" "the versions that cuDNN and other add-ons report" [cudnn add_ons],
    Nvcc "nvcc" "the toolkits' compilers" [nvcc],
    Compiled "compiled" "the toolkits' test programs" [compiled],
    Dkms "dkms" "DKMS's record" [dkms],
    DriverPackages "driver-packages" "the driver's packages" [missing_packages],
    HostCompiler "host-compiler" "the host compiler that is set for all users" [host_compiler],
    FabricManager "fabric-manager" "Fabric Manager" [fabric_manager],
    Companions "companions" "DCGM and other companions" [companions],
    DkmsLogs "dkms-logs" "DKMS's logs" [failed_builds],
    Headers "headers" "the kernel headers" [unlinked_headers],
    SigningKey "signing-key" "the signing key" [key_is_enrolled signed_modules],
    ModuleAge "module-age" "the module's age" [module_before_boot],
    Shells "the PATH of shells" "the PATH of shells" [shells other_toolkits],
    LoaderDirectories "loader-directories" "the loader's directories" [loader_directories],
    LoaderCache "loader-cache" "the loader's cache" [cached],
    LibraryPaths "library-paths" "LD_LIBRARY_PATH for all users" [library_paths removed_toolkits],
    Apt "apt" "apt's repositories" [apt],
    Bus "bus" "the bus between the GPUs" [bus],
    Containers "containers" "the container engines" [containers],
    Cluster "cluster" "the configuration of the scheduler" [cluster],
    Given "given" "the GPUs of this container" [given],
    Coherent "coherent" "the GPUs' memory" [coherent],
    Machine "machine" "the machine's own parts" [machine],
    Python "python" "the Python environments" [python],
    Settings "settings" "the settings of the GPUs" [settings],
}

/// Runs probes, and notes which ones were left out because of a bug in gpusetup.
pub(crate) struct Probes {
    left_out: BTreeSet<String>,
    failed: Mutex<BTreeMap<String, String>>,
}
impl Probes {
    /// Leaves out the parts with these names.
    pub(crate) fn without(left_out: &BTreeSet<String>) -> Self {
        Self {
            left_out: left_out.clone(),
            failed: Mutex::default(),
        }
    }

    /// The result of `look`; the default if the part is left out.
    pub(crate) fn run<T: Default>(&self, probe: Probe, look: impl FnOnce() -> T) -> T {
        if self.left_out.contains(probe.name()) {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.insert(probe.name().to_owned(), probe.object().to_owned());
            return T::default();
        }
        bug::run_part(probe.name(), look)
    }

    /// The ones that were left out: name and [`Probe::object`]. A check that was left out has its
    /// id as the name.
    pub(crate) fn failed(self) -> BTreeMap<String, String> {
        let mut failed = self
            .failed
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        for id in self
            .left_out
            .into_iter()
            .filter(|name| name.parse::<CheckId>().is_ok())
        {
            let object = format!("the evidence of {id}");
            failed.insert(id, object);
        }
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_left_out_is_noted_and_costs_nothing_else() {
        let probes = Probes::without(&["denials".to_owned(), "GS201".to_owned()].into());
        let seen: Vec<u8> = probes.run(Probe::Denials, || panic!("it is left out"));
        let beside: u8 = probes.run(Probe::Images, || 7);
        assert_eq!((seen, beside), (Vec::new(), 7));
        let failed = [
            ("GS201", "the evidence of GS201"),
            ("denials", "the blacklists of kernel modules"),
        ];
        assert_eq!(
            probes.failed(),
            failed
                .map(|(name, object)| (name.to_owned(), object.to_owned()))
                .into()
        );
    }
}
