//! What each step needs in addition to its operations: disk space, accepted licences, an idle
//! driver. The plan includes this, so that the code that carries it out need not know the steps.

use super::step_id::{Licence, Place, Share};
use super::{Plan, Room, State, Step, Warning};
use gpusetup_operation::Operation;
use gpusetup_resolve::Request;
use gpusetup_system::Space;
use gpusetup_text::ids::CheckId;
use gpusetup_text::text::bytes;
use std::path::Path;

impl Plan {
    /// Sets what each step needs, replacing existing values: they are not part of the fingerprint,
    /// and plans of gpusetup 0.1 lack them.
    pub(crate) fn with_needs(mut self) -> Self {
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
            step.idle_driver = step.id.kind().idle_driver;
        }
        self
    }
}

/// What a plan needs of one file system.
#[derive(Debug, Clone)]
pub struct Demand {
    /// The file system.
    pub(crate) space: Space,
    pub(crate) bytes: u64,
    /// Whether all that is needed is known.
    pub(crate) is_whole: bool,
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
        let known = self
            .rooms()
            .filter(|room| nearest(spaces, &room.path).is_some())
            .cloned();
        let demands =
            Demand::sum(known, |path| nearest(spaces, path).cloned().ok_or(())).unwrap_or_default();
        let short: Vec<_> = demands.iter().filter_map(Demand::shortage).collect();
        self.warnings.extend(
            short
                .into_iter()
                .map(|text| Warning::new(CheckId::GS602, text)),
        );
        self
    }
}

impl Step {
    /// Whether it installs files under an NVIDIA licence.
    fn installs_nvidias(&self) -> bool {
        match self.id.kind().licence {
            Licence::None => false,
            Licence::Always => true,
            Licence::WithFiles => self.operations.iter().any(|act| {
                !act.satisfied
                    && (act.operation.installs_packages()
                        || matches!(&act.operation, Operation::Unpack(_)))
            }),
        }
    }
}

/// Where a step needs disk space.
fn room(step: &Step, request: &Request) -> Vec<Room> {
    let mut rooms = Vec::new();
    for (place, share) in step.id.kind().room {
        let bytes = match share {
            Share::Little => Some(0),
            Share::Half => step.disk_bytes.map(|bytes| bytes / 2),
            Share::All => step.disk_bytes,
            Share::Downloads => step.download_bytes,
        };
        let paths = match place {
            Place::Folder(path) => vec![path.into()],
            Place::Cache => vec![request.cache.clone()],
            Place::Prefix => vec![request.prefix.clone()],
            Place::Touched => step
                .operations
                .iter()
                .flat_map(|act| act.operation.touched())
                .collect(),
        };
        rooms.extend(paths.into_iter().map(|path| Room { path, bytes }));
    }
    rooms
}

/// The file system that a path is on.
fn nearest<'a>(spaces: &'a [Space], path: &Path) -> Option<&'a Space> {
    spaces
        .iter()
        .filter(|s| path.starts_with(&s.path))
        .max_by_key(|s| s.path.as_os_str().len())
}
