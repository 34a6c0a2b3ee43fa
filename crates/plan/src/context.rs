//! The input of every step, and helpers shared by several steps.

use super::engines::ContainerSetup;
use super::needed::Companions;
use super::{Act, State, Step, StepId};
use gpusetup_database::compat::{Artifact, Companion, Distribution, Engine};
use gpusetup_database::sum::{sha256, short};
use gpusetup_database::version::CudaVersion;
use gpusetup_host::{Facts, Toolkit};
use gpusetup_operation::runfile::RUN_FROM;
use gpusetup_operation::{Download, Operation, Reboot, WriteFile};
use gpusetup_resolve::{KnownHost, Request, Resolution};
use gpusetup_system::Node;
use std::path::{Path, PathBuf};

/// The input of every step.
pub(crate) struct StepContext<'a> {
    /// The facts about the host.
    pub(crate) facts: &'a Facts,
    pub(crate) request: &'a Request,
    /// The chosen versions.
    pub(crate) chosen: &'a Resolution<'a>,
    /// The host's distribution, if the database knows it.
    pub(crate) distribution: Option<&'a Distribution>,
    /// What it gets besides the driver.
    pub(crate) companions: Option<Companions<'a>>,
    /// The companions in the database.
    pub(crate) known_companions: &'a [Companion],
    /// What it gets for containers.
    pub(crate) containers: Option<ContainerSetup<'a>>,
    /// The container engines in the database.
    pub(crate) known_engines: &'a [Engine],
    /// The chosen toolkit's directory.
    toolkit: Option<PathBuf>,
    /// The same for each toolkit beside the default one.
    pub(crate) additional: Vec<StepContext<'a>>,
}

impl<'a> StepContext<'a> {
    /// The context for a request and the versions chosen for it.
    pub(crate) fn new<'d: 'a, 'f: 'a>(
        host: &KnownHost<'d, 'f>,
        request: &'a Request,
        chosen: &'a Resolution<'d>,
    ) -> Self {
        let companions = Companions::of(host, chosen, request);
        let additional = chosen
            .additional_toolkits
            .iter()
            .map(|additional| Self::of_toolkit(host, &additional.request, &additional.chosen));
        Self {
            companions,
            additional: additional.collect(),
            ..Self::of_toolkit(host, request, chosen)
        }
    }

    /// The context for a toolkit alone.
    fn of_toolkit<'d: 'a, 'f: 'a>(
        host: &KnownHost<'d, 'f>,
        request: &'a Request,
        chosen: &'a Resolution<'d>,
    ) -> Self {
        Self {
            facts: host.facts,
            request,
            chosen,
            distribution: host.distribution,
            companions: None,
            known_companions: &host.database.companions,
            containers: ContainerSetup::of(host, request),
            known_engines: &host.database.engines,
            toolkit: chosen.cuda.as_ref().map(|cuda| {
                request
                    .prefix
                    .join(cuda.release.version.series().directory())
            }),
            additional: Vec::new(),
        }
    }
}

impl<'a> StepContext<'a> {
    /// Itself, for the default toolkit, and the contexts of the other toolkits.
    pub(crate) fn toolkits(&self) -> impl Iterator<Item = &StepContext<'a>> {
        std::iter::once(self).chain(&self.additional)
    }
}

impl StepContext<'_> {
    /// The series of the chosen toolkit.
    pub(crate) fn series(&self) -> Option<CudaVersion> {
        self.chosen
            .cuda
            .as_ref()
            .map(|cuda| cuda.release.version.series())
    }

    /// The chosen toolkit's directory, `/usr/local/cuda-12.8`.
    pub(crate) fn toolkit(&self) -> Option<&Path> {
        self.toolkit.as_deref()
    }

    /// The toolkit that is already in that directory.
    pub(crate) fn installed(&self) -> Option<&Toolkit> {
        let path = self.toolkit()?;
        self.facts.toolkits.iter().find(|t| t.path == path)
    }

    /// Whether the driver keeps its version until the user upgrades it, because NVSwitches need
    /// companions of the same.
    pub(crate) fn holds_driver(&self) -> bool {
        self.companions
            .as_ref()
            .is_some_and(|companions| companions.joined.is_some())
    }

    /// Whether the toolkit will have a component, by NVIDIA's name.
    pub(crate) fn has_component(&self, name: &str) -> bool {
        let parts = &self.chosen.parts;
        parts.iter().any(|p| p.component.is_called(name))
            || match self.installed().map(|t| &t.components) {
                Some(Some(components)) => components.iter().any(|c| c == name),
                Some(None) => true,
                None => parts.is_empty(),
            }
    }

    /// Whether the toolkit will have a compiler.
    pub(crate) fn has_nvcc(&self) -> bool {
        self.chosen.cuda.is_some() && self.has_component("cuda_nvcc")
    }

    /// The default toolkit's link, `/usr/local/cuda`.
    pub(crate) fn default_toolkit(&self) -> PathBuf {
        self.request.prefix.join("cuda")
    }

    /// An artifact's path in the cache. It depends on the content, so that files of the same name
    /// do not collide.
    pub(crate) fn cached(&self, artifact: &Artifact) -> PathBuf {
        let sum = artifact.sha256.as_deref().unwrap_or_default();
        self.request.cache.join(short(sum)).join(artifact.file)
    }

    /// The option that makes NVIDIA's installers unpack in the cache: `/tmp` is often too small.
    pub(crate) fn temporary(&self) -> String {
        format!("--tmpdir={}", self.request.cache.join(RUN_FROM).display())
    }

    /// The operation that downloads an artifact; none if its URL or checksum is not known.
    pub(crate) fn download(&self, artifact: &Artifact) -> Option<Operation> {
        Some(Operation::Download(Download {
            url: artifact.url?.to_string(),
            sha256: artifact.sha256?.to_string(),
            size: artifact.size,
            to: self.cached(artifact),
        }))
    }

    /// A write operation, and whether the file already has this content and mode.
    pub(crate) fn file(&self, operation: Operation) -> Act {
        file_act(self.facts, operation)
    }

    /// When the file at `path` was last modified, if known.
    pub(crate) fn written(&self, path: &str) -> Option<i64> {
        self.facts.paths.get(Path::new(path))?.modified
    }
}

/// A write operation, and whether the file already has this content and mode.
pub(crate) fn file_act(facts: &Facts, operation: Operation) -> Act {
    let satisfied = match &operation {
        Operation::WriteFile(WriteFile {
            path,
            content,
            mode: wanted,
            ..
        }) => match facts.node(path) {
            Some(Node::File {
                sha256: have, mode, ..
            }) => mode == wanted && *have == sha256(content),
            _ => false,
        },
        _ => false,
    };
    Act {
        operation,
        satisfied,
    }
}

impl Act {
    /// An operation that is not done yet.
    pub(crate) fn needed(operation: impl Into<Operation>) -> Self {
        Self {
            operation: operation.into(),
            satisfied: false,
        }
    }
}

/// Whether something is known to be at this path.
pub(crate) fn exists(facts: &Facts, path: impl AsRef<Path>) -> bool {
    !matches!(facts.node(path.as_ref()), None | Some(Node::Absent))
}

/// A step with these operations; satisfied if all of them are.
pub(crate) fn step(
    id: StepId,
    title: impl Into<String>,
    why: impl Into<String>,
    operations: Vec<Act>,
) -> Step {
    let state = if operations.iter().all(|a| a.satisfied) {
        State::Satisfied
    } else {
        State::Needed
    };
    let needed = operations.iter().filter(|act| !act.satisfied);
    let sizes = needed
        .map(|Act { operation, .. }| (!operation.installs_packages()).then(|| size(operation)));
    let sizes: Vec<_> = sizes.collect();
    let disk_bytes = sizes.iter().all(Option::is_some).then_some(0);
    let download_bytes = sizes.into_iter().map(Option::flatten).sum();
    Step {
        id,
        title: title.into(),
        why: why.into(),
        state,
        operations,
        download_bytes,
        disk_bytes,
        estimate_seconds: None,
        room: Vec::new(),
        licensed: false,
        idle_driver: false,
    }
}

pub(crate) fn reboot_for(why: &str, reboot: Reboot) -> Step {
    let title = if reboot.enrolls.is_some() {
        "Reboot the host, and enrol the key at the console"
    } else {
        "Reboot the host"
    };
    step(StepId::Reboot, title, why, vec![Act::needed(reboot)])
}

/// The download size of an operation in bytes; none if not known.
fn size(operation: &Operation) -> Option<u64> {
    if let Operation::Download(Download { size, .. }) = operation {
        *size
    } else {
        Some(0)
    }
}

pub(crate) fn skipped(id: StepId, title: impl Into<String>, why: impl Into<String>) -> Step {
    Step {
        state: State::Skipped,
        ..step(id, title, why, Vec::new())
    }
}
