//! What each step needs in addition to its operations: disk space, accepted licences, an idle driver. The plan includes
//! this, so that the code that carries it out need not know the steps.

use super::{Plan, Room, State, Step, StepId};
use crate::operation::Operation;
use crate::resolve::Request;
use std::path::{Path, PathBuf};

impl Plan {
    /// Sets what each step needs, replacing existing values: they are not part of the fingerprint, and plans of gpusetup
    /// 0.1 lack them.
    pub fn with_needs(mut self) -> Self {
        for step in &mut self.steps {
            step.estimate_seconds = Some(step.estimated(&self.host));
        }
        for step in self.steps.iter_mut().filter(|step| step.state == State::Needed) {
            step.room = room(step, &self.request);
            step.licensed = step.installs_nvidias();
            step.idle_driver = matches!(step.id, StepId::InstallDriver | StepId::RemoveDriver);
        }
        self
    }
}

impl Step {
    /// Whether it installs files under an NVIDIA licence.
    fn installs_nvidias(&self) -> bool {
        let installs =
            |operation: &Operation| operation.installs_packages() || matches!(operation, Operation::Unpack(_));
        let has_files = || self.operations.iter().any(|act| !act.satisfied && installs(&act.operation));
        match self.id {
            StepId::InstallDriver | StepId::InstallCuda | StepId::InstallAddOn(_) => true,
            StepId::InstallCompanions => has_files(),
            _ => false,
        }
    }
}

/// Where a step needs disk space. A download of unknown size checks the free space as it grows. An installer unpacks itself
/// in the cache and then copies the files into place.
fn room(step: &Step, request: &Request) -> Vec<Room> {
    let at = |path: &Path, bytes: Option<u64>| Room { path: path.to_owned(), bytes };
    let (cache, prefix) = (request.cache.as_path(), request.prefix.as_path());
    let [usr, etc, boot, lib] = ["/usr", "/etc", "/boot", "/var/lib"].map(Path::new);
    let half = step.disk_bytes.map(|bytes| bytes / 2);
    let nothing = Some(0);
    match step.id {
        StepId::InstallDriver => vec![at(usr, half), at(cache, step.download_bytes), at(cache, half)],
        StepId::InstallCuda => vec![at(prefix, half), at(cache, step.download_bytes), at(cache, half)],
        StepId::InstallAddOn(_) => vec![at(prefix, step.disk_bytes), at(cache, step.download_bytes)],
        StepId::BlacklistNouveau => vec![at(etc, nothing), at(boot, half), at(lib, half)],
        StepId::InstallCompanions => vec![at(usr, step.disk_bytes), at(cache, step.download_bytes)],
        StepId::Prerequisites => vec![at(usr, step.disk_bytes)],
        StepId::FixSymlinks | StepId::RemoveCuda => vec![at(prefix, nothing)],
        StepId::AddRepository | StepId::RemoveRepository => vec![at(usr, nothing), at(etc, nothing)],
        StepId::RemoveDriver | StepId::RemoveAddOn(_) => vec![at(usr, nothing)],
        StepId::Ldconfig | StepId::Environment | StepId::GpuSettings | StepId::VgpuLicence | StepId::Mig => {
            vec![at(etc, nothing)]
        }
        StepId::Updates => vec![at(lib, nothing)],
        StepId::ModuleOptions => vec![at(etc, nothing), at(boot, nothing)],
        StepId::Repair => {
            let touched: Vec<PathBuf> = step.operations.iter().flat_map(|act| act.operation.touched()).collect();
            touched.iter().map(|path| at(path, nothing)).collect()
        }
        StepId::Reboot | StepId::Verify => Vec::new(),
    }
}
