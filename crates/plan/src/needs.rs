//! What each step needs in addition to its operations: disk space, accepted licences, an idle
//! driver. The plan includes this, so that the code that carries it out need not know the steps.

use super::{Plan, Room, State, Step, StepId, Warning};
use gpusetup_operation::Operation;
use gpusetup_resolve::Request;
use gpusetup_system::Space;
use gpusetup_text::ids::CheckId;
use gpusetup_text::text::bytes;
use std::path::{Path, PathBuf};

impl Plan {
    /// Sets what each step needs, replacing existing values: they are not part of the fingerprint,
    /// and plans of gpusetup 0.1 lack them.
    pub fn with_needs(mut self) -> Self {
        for step in &mut self.steps {
            step.estimate_seconds = Some(step.estimated(&self.host));
        }
        for step in self
            .steps
            .iter_mut()
            .filter(|step| step.state == State::Needed)
        {
            step.room = room(step, &self.request);
            step.licensed = step.installs_nvidias();
            step.idle_driver = matches!(step.id, StepId::InstallDriver | StepId::RemoveDriver);
        }
        self
    }
}

/// What a plan needs of one file system.
#[derive(Debug, Clone)]
pub struct Demand {
    /// The file system.
    pub space: Space,
    /// The bytes that are known to be needed.
    pub bytes: u64,
    /// Whether all that is needed is known.
    pub is_whole: bool,
}

impl Demand {
    /// What places need, summed by file system.
    pub fn sum<E>(
        rooms: impl IntoIterator<Item = Room>,
        mut space_at: impl FnMut(&Path) -> Result<Space, E>,
    ) -> Result<Vec<Self>, E> {
        let mut all: Vec<Self> = Vec::new();
        for room in rooms {
            let space = space_at(&room.path)?;
            let (bytes, is_whole) = (room.bytes.unwrap_or(0), room.bytes.is_some());
            match all
                .iter_mut()
                .find(|demand| demand.space.file_system == space.file_system)
            {
                Some(demand) => {
                    demand.bytes += bytes;
                    demand.is_whole &= is_whole;
                }
                None => all.push(Self {
                    space,
                    bytes,
                    is_whole,
                }),
            }
        }
        Ok(all)
    }

    /// Says that the file system has too little room, if so (GS602).
    pub fn shortage(&self) -> Option<String> {
        let Self {
            space,
            bytes: wanted,
            is_whole,
        } = self;
        let least = if *is_whole { "" } else { "at least " };
        (*wanted > space.free_bytes).then(|| {
            let (want, free) = (bytes(*wanted), bytes(space.free_bytes));
            format!(
                "{} has too little room: {least}{want} are needed, {free} are free",
                space.path.display()
            )
        })
    }
}

impl Plan {
    /// Where the steps that are needed take disk space.
    pub fn rooms(&self) -> impl Iterator<Item = &Room> {
        self.steps
            .iter()
            .filter(|step| step.state == State::Needed)
            .flat_map(|step| &step.room)
    }

    /// Warns of file systems that have too little room now.
    pub(super) fn with_room_judged(mut self) -> Self {
        let spaces = &self.host.space;
        let nearest = |path: &Path| {
            { spaces.iter() }
                .filter(|s| path.starts_with(&s.path))
                .max_by_key(|s| s.path.as_os_str().len())
        };
        let known = self
            .rooms()
            .filter(|room| nearest(&room.path).is_some())
            .cloned();
        let demands =
            Demand::sum(known, |path| nearest(path).cloned().ok_or(())).unwrap_or_default();
        let short: Vec<_> = demands.iter().filter_map(Demand::shortage).collect();
        self.warnings.extend(short.into_iter().map(|text| Warning {
            check: CheckId::GS602.into(),
            text,
        }));
        self
    }
}

impl Step {
    /// Whether it installs files under an NVIDIA licence.
    fn installs_nvidias(&self) -> bool {
        let installs = |operation: &Operation| {
            operation.installs_packages() || matches!(operation, Operation::Unpack(_))
        };
        let has_files = || {
            self.operations
                .iter()
                .any(|act| !act.satisfied && installs(&act.operation))
        };
        match self.id {
            StepId::InstallDriver | StepId::InstallCuda | StepId::InstallAddOn(_) => true,
            StepId::InstallFurtherCuda(_) | StepId::InstallFurtherAddOn(..) => true,
            StepId::InstallCompanions => has_files(),
            _ => false,
        }
    }
}

/// Where a step needs disk space. A download of unknown size checks the free space as it grows. An
/// installer unpacks itself in the cache and then copies the files into place.
fn room(step: &Step, request: &Request) -> Vec<Room> {
    let at = |path: &Path, bytes: Option<u64>| Room {
        path: path.to_owned(),
        bytes,
    };
    let (cache, prefix) = (request.cache.as_path(), request.prefix.as_path());
    let [usr, etc, boot, lib] = ["/usr", "/etc", "/boot", "/var/lib"].map(Path::new);
    let half = step.disk_bytes.map(|bytes| bytes / 2);
    let nothing = Some(0);
    match step.id {
        StepId::InstallDriver => vec![
            at(usr, half),
            at(cache, step.download_bytes),
            at(cache, half),
        ],
        StepId::InstallCuda | StepId::InstallFurtherCuda(_) => {
            vec![
                at(prefix, half),
                at(cache, step.download_bytes),
                at(cache, half),
            ]
        }
        StepId::InstallAddOn(_) | StepId::InstallFurtherAddOn(..) => {
            vec![at(prefix, step.disk_bytes), at(cache, step.download_bytes)]
        }
        StepId::BlacklistNouveau => vec![at(etc, nothing), at(boot, half), at(lib, half)],
        StepId::InstallCompanions => vec![at(usr, step.disk_bytes), at(cache, step.download_bytes)],
        StepId::Prerequisites => vec![at(usr, step.disk_bytes)],
        StepId::ContainerEngine | StepId::ContainerToolkit => {
            vec![at(usr, step.disk_bytes), at(etc, nothing)]
        }
        StepId::FixSymlinks | StepId::RemoveCuda => vec![at(prefix, nothing)],
        StepId::AddRepository | StepId::RemoveRepository => {
            vec![at(usr, nothing), at(etc, nothing)]
        }
        StepId::RemoveDriver | StepId::RemoveAddOn(_) => vec![at(usr, nothing)],
        StepId::Ldconfig
        | StepId::Environment
        | StepId::GpuSettings
        | StepId::VgpuLicence
        | StepId::Mig => {
            vec![at(etc, nothing)]
        }
        StepId::Updates => vec![at(lib, nothing)],
        StepId::SignModules => vec![at(etc, nothing), at(lib, nothing)],
        StepId::ModuleOptions => vec![at(etc, nothing), at(boot, nothing)],
        StepId::Repair => {
            let touched: Vec<PathBuf> = step
                .operations
                .iter()
                .flat_map(|act| act.operation.touched())
                .collect();
            touched.iter().map(|path| at(path, nothing)).collect()
        }
        StepId::Reboot | StepId::Verify => Vec::new(),
    }
}
