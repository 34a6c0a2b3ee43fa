//! About how long each step takes, from measured and assumed rates. Nothing is decided by it, and
//! it is not part of a plan's fingerprint.

use super::step_id::Payload;
use super::{State, Step, StepId};
use gpusetup_host::Facts;
use gpusetup_operation::{Download, Operation, Packages, Run, Unpack};
use std::path::Path;

/// Bytes that are downloaded in a second.
/// Assumed: 100 Mbit/s.
pub const DOWNLOAD: f64 = 12.5e6;
/// Cores of a host that does not say how many it has.
/// Assumed: what cloud instances with one small GPU have.
pub const CORES: f64 = 4.0;
/// Bytes of a driver whose size nobody published.
/// The runfiles of branches 570 to 595 have 370 to 430 MB; packages are assumed alike.
pub(crate) const DRIVER: f64 = 0.4e9;
/// Bytes of a toolkit's packages, if the size of its runfile is not known.
/// The runfiles of CUDA 12.4 to 13.3 have 4.3 to 5.9 GB; packages are assumed alike.
pub(crate) const TOOLKIT: f64 = 4.5e9;
/// What a toolkit's packages take on the disk, in sizes of the packages: apt and dnf do not say
/// before apply how much it is.
/// Assumed: the packages, and twice as much unpacked.
pub(crate) const TOOLKIT_ROOM: f64 = 3.0;
/// Bytes of a compiler, DKMS and kernel headers.
/// Assumed: the packages of Debian 12.
pub(crate) const BUILD_TOOLS: f64 = 80e6;
/// Bytes of packages that the package manager unpacks in a second.
/// Assumed: dpkg waits for the disk after each package.
pub(crate) const PACKAGES: f64 = 10e6;
/// Core-seconds to build a driver's kernel modules that use all cores.
/// Measured: 230 core-seconds (535, 550 and 470 of Debian) to 400 (open modules of 595) on a server core of 2023.
pub(crate) const MODULES: f64 = 300.0;
/// Seconds of that build that use one core: DKMS itself, links, compression.
/// Assumed.
pub(crate) const MODULES_ALONE: f64 = 20.0;
/// Bytes of a runfile that its installer unpacks and copies into place in a second.
/// Assumed: CUDA 13.3.1 writes twice its 7.9 GB, to a disk of 150 MB/s.
pub(crate) const RUNFILE: f64 = 40e6;
/// Bytes of a compressed archive that one core unpacks in a second.
/// Measured: xz on a server core of 2023 (cargo bench --bench unpack).
pub(crate) const ARCHIVE: f64 = 25e6;
/// Seconds to make one initramfs.
/// Assumed: half of the 28 s that update-initramfs takes under QEMU.
pub(crate) const INITRAMFS: f64 = 15.0;

/// Bytes that a toolkit's packages take on the disk; none if the size of its runfile, which has the
/// same content, is not known.
pub(crate) fn room_of_toolkit(runfile: Option<u64>) -> Option<u64> {
    runfile.map(|size| (size as f64 * TOOLKIT_ROOM) as u64)
}

/// Programs that make the initramfs images again.
const IMAGE_MAKERS: [&str; 3] = ["update-initramfs", "dracut", "mkinitrd"];
/// In names of packages that bring kernel modules that are built already.
const PREBUILT: [&str; 3] = ["linux-modules-nvidia", "linux-objects-nvidia", "-kmp"];

impl Step {
    /// About how many seconds the step takes, downloads included; none if that is not known.
    /// Reboots count nothing.
    pub(super) fn estimated(&self, host: &Facts) -> Option<u64> {
        self.sum(|operation| {
            let (arrival, work) = (self.arrival(operation)?, self.work(operation, host)?);
            // Archives are unpacked while they arrive.
            let meanwhile = match operation {
                Operation::Unpack(Unpack { archive, .. }) if self.downloads(archive) => {
                    self.size_of(archive)? / DOWNLOAD
                }
                _ => 0.0,
            };
            Some(arrival + (work - meanwhile).max(0.0))
        })
    }

    /// The same, after everything was downloaded.
    pub fn estimated_after_downloads(&self, host: &Facts) -> Option<u64> {
        self.sum(|operation| self.work(operation, host))
    }

    fn sum(&self, of: impl Fn(&Operation) -> Option<f64>) -> Option<u64> {
        if self.state == State::Skipped {
            return Some(0);
        }
        let left = self.operations.iter().filter(|act| !act.satisfied);
        let seconds: Option<f64> = left.map(|act| of(&act.operation)).sum();
        seconds.map(|s| s.round() as u64)
    }

    /// Seconds to download it.
    fn arrival(&self, operation: &Operation) -> Option<f64> {
        let bytes = match operation {
            Operation::Download(Download { to, .. }) => self.size_of(to)?,
            Operation::Packages(packages) => self.size_of_packages(packages),
            _ => 0.0,
        };
        Some(bytes / DOWNLOAD)
    }

    /// Seconds to carry it out, once everything was downloaded.
    fn work(&self, operation: &Operation, host: &Facts) -> Option<f64> {
        let cores = host.machine.cores.map_or(CORES, f64::from).max(1.0);
        let modules = MODULES_ALONE + MODULES / cores;
        Some(match operation {
            Operation::Unpack(Unpack { archive, .. }) => {
                self.size_of(archive)? / (ARCHIVE * cores.min(2.0))
            }
            Operation::Packages(packages) => {
                let mut names = packages.install.iter();
                let builds = self.payload() == Payload::Driver
                    && !names.any(|name| PREBUILT.iter().any(|part| name.contains(part)));
                self.size_of_packages(packages) / PACKAGES + if builds { modules } else { 0.0 }
            }
            Operation::Run(run) => self.of_program(run, host, modules)?,
            // Reboots take one minute on a virtual machine and ten on a large server.
            Operation::Reboot(_) => return None,
            // A moment: the lists of NVIDIA's repositories, which are the most, have a few MB.
            _ => 0.0,
        })
    }

    fn of_program(&self, run: &Run, host: &Facts, modules: f64) -> Option<f64> {
        let program = run
            .argv
            .first()
            .and_then(|path| Path::new(path).file_name()?.to_str())
            .unwrap_or_default();
        if IMAGE_MAKERS.contains(&program) {
            let images = host
                .kernels
                .installed
                .iter()
                .filter(|kernel| kernel.initramfs.is_some())
                .count();
            return Some(INITRAMFS * images.max(1) as f64);
        }
        if program == "dkms" {
            return Some(modules);
        }
        let Some(runfile) = run.verified.first() else {
            return Some(1.0);
        };
        let unpacked = self.size_of(&runfile.path)? / RUNFILE;
        Some(
            unpacked
                + if self.payload() == Payload::Driver {
                    modules
                } else {
                    0.0
                },
        )
    }

    fn size_of_packages(&self, packages: &Packages) -> f64 {
        match self.payload() {
            _ if packages.install.is_empty() => 0.0,
            Payload::Driver => DRIVER,
            Payload::Toolkit => self
                .disk_bytes
                .map_or(TOOLKIT, |room| room as f64 / TOOLKIT_ROOM),
            Payload::Tools => BUILD_TOOLS,
        }
    }

    /// The size of a file that the step downloads, or has downloaded.
    fn size_of(&self, file: &Path) -> Option<f64> {
        let size = self
            .operations
            .iter()
            .find_map(|act| match &act.operation {
                Operation::Download(Download { to, size, .. }) if is_same(to, file) => Some(*size),
                _ => None,
            })?;
        let typical = (self.payload() == Payload::Driver).then_some(DRIVER);
        size.map(|bytes| bytes as f64).or(typical)
    }

    fn payload(&self) -> Payload {
        self.id.kind().payload
    }

    fn downloads(&self, file: &Path) -> bool {
        let mut needed = self.operations.iter().filter(|act| !act.satisfied);
        needed.any(|act| match &act.operation {
            Operation::Download(Download { to, .. }) => is_same(to, file),
            _ => false,
        })
    }
}

/// The steps of a plan spell a file alike, so that paths need not be compared part by part.
fn is_same(a: &Path, b: &Path) -> bool {
    a.as_os_str() == b.as_os_str()
}

/// A step has its estimate, or null, once the plan is made.
#[cfg(feature = "schemas")]
pub(super) fn schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"oneOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]})
}

/// The seconds of all steps but reboots; none if those of one are not known.
pub(super) fn total(steps: &[Step]) -> Option<u64> {
    steps
        .iter()
        .filter(|step| step.id != StepId::Reboot)
        .map(|step| step.estimate_seconds.flatten())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::super::{Plan, plan};
    use crate::{State, StepId};
    use gpusetup_data::embedded;
    use gpusetup_host::{assumed_gpus, stock};
    use gpusetup_resolve::Request;

    fn planned(cores: Option<u32>, cuda: &str) -> Plan {
        let database = embedded();
        let mut facts = stock(&database, "debian-12", None).expect("known");
        facts.machine.cores = cores;
        facts.gpus = assumed_gpus(&database, "a100").expect("known");
        let request = Request {
            cuda: cuda.parse().expect("a version"),
            ..Request::default_on("2026-11-22")
        };
        plan(&database, facts, request).expect("it fits")
    }

    fn seconds(plan: &Plan, id: StepId) -> Option<u64> {
        plan.steps
            .iter()
            .find(|step| step.id == id)
            .expect("a step")
            .estimate_seconds
            .expect("estimated")
    }

    #[test]
    fn more_cores_build_sooner_and_nothing_else_depends_on_them() {
        let [two, many, unknown] = [Some(2), Some(64), None].map(|cores| planned(cores, "13.2.1"));
        let of = |plan: &Plan| seconds(plan, StepId::InstallDriver).expect("known");
        assert!(
            of(&two) > of(&many) + 120 && of(&unknown) < of(&two),
            "{} {}",
            of(&two),
            of(&many)
        );
        assert_eq!(two.fingerprint(), many.fingerprint());
        assert_eq!(
            seconds(&two, StepId::InstallCuda),
            seconds(&many, StepId::InstallCuda)
        );
        let total = two.totals.estimate_seconds.expect("known");
        // 5.3 GB at 100 Mbit/s take seven minutes; nothing of it takes an hour.
        assert!((500..2000).contains(&total), "{total}");
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        let plan = planned(Some(2), "11.4.4");
        assert_eq!(
            (
                seconds(&plan, StepId::InstallCuda),
                plan.totals.estimate_seconds
            ),
            (None, None)
        );
        let skipped = plan.steps.iter().find(|step| step.state == State::Skipped);
        assert!(skipped.is_none_or(|step| step.estimate_seconds == Some(Some(0))));
    }

    #[test]
    fn a_plan_of_an_older_gpusetup_gets_its_estimates() {
        let mut plan = planned(Some(2), "13.2.1");
        let whole = plan.clone();
        for step in &mut plan.steps {
            step.estimate_seconds = None;
        }
        let read = Plan::read(&serde_json::to_vec(&plan).expect("JSON")).expect("a valid plan");
        assert_eq!(read.steps, whole.steps);
    }
}
