//! What every step is made from, and the little that several steps ask of it.

use super::{Act, State, Step, StepId};
use crate::compat::{Artifact, Distribution};
use crate::host::{Facts, PathState, Toolkit};
use crate::operation::runfile::RUN_FROM;
use crate::operation::{Download, Operation, WriteFile};
use crate::resolve::{KnownHost, Request, Resolution};
use crate::sum::{sha256, short};
use crate::system::Node;
use std::path::{Path, PathBuf};

/// Everything a step may look at.
pub struct StepContext<'a> {
    /// The host.
    pub facts: &'a Facts,
    /// What was asked for.
    pub request: &'a Request,
    /// What was chosen.
    pub chosen: &'a Resolution<'a>,
    /// The host's distribution, where the database knows it.
    pub distribution: Option<&'a Distribution>,
}

impl<'a> StepContext<'a> {
    /// For what was chosen for a request.
    pub fn new<'d: 'a, 'f: 'a>(host: &KnownHost<'d, 'f>, request: &'a Request, chosen: &'a Resolution<'d>) -> Self {
        Self { facts: host.facts, request, chosen, distribution: host.distribution }
    }
}

impl StepContext<'_> {
    /// `/usr/local/cuda-12.8`, when a toolkit was chosen.
    pub fn toolkit(&self) -> Option<PathBuf> {
        let version = self.chosen.cuda.as_ref()?.release.version.series();
        Some(self.request.prefix.join(format!("cuda-{version}")))
    }

    /// What stands there now.
    pub fn installed(&self) -> Option<&Toolkit> {
        let path = self.toolkit()?;
        self.facts.toolkits.iter().find(|t| t.path == path)
    }

    /// Whether the toolkit will have a component, by NVIDIA's name.
    pub fn has_component(&self, name: &str) -> bool {
        let parts = &self.chosen.parts;
        let there = || match self.installed().map(|t| &t.components) {
            Some(Some(components)) => components.iter().any(|c| c == name),
            Some(None) => true,
            None => parts.is_empty(),
        };
        parts.iter().any(|p| p.component.is_called(name)) || there()
    }

    /// Whether it will have a compiler.
    pub fn has_nvcc(&self) -> bool {
        self.chosen.cuda.is_some() && self.has_component("cuda_nvcc")
    }

    /// `/usr/local/cuda`, the default toolkit's link.
    pub fn default_toolkit(&self) -> PathBuf {
        self.request.prefix.join("cuda")
    }

    /// Where an artifact is kept: by its content, so that two mirrors' files of one name do not meet.
    pub fn cached(&self, artifact: &Artifact) -> PathBuf {
        let sum = artifact.sha256.as_deref().unwrap_or_default();
        self.request.cache.join(short(sum)).join(&artifact.file)
    }

    /// The option of NVIDIA's installers for where they unpack themselves: in `/tmp` there is seldom room.
    pub fn temporary(&self) -> String {
        format!("--tmpdir={}", self.request.cache.join(RUN_FROM).display())
    }

    /// The operation that fetches an artifact; none for one that could not be verified.
    pub fn download(&self, artifact: &Artifact) -> Option<Operation> {
        Some(Operation::Download(Download {
            url: artifact.url.clone()?,
            sha256: artifact.sha256.clone()?,
            size: artifact.size,
            to: self.cached(artifact),
        }))
    }

    /// The writing of a file, and whether it stands so already.
    pub fn file(&self, operation: Operation) -> Act {
        let satisfied = match &operation {
            Operation::WriteFile(WriteFile { path, content, mode: wanted }) => {
                let stands = |s: &PathState| matches!(&s.node, Node::File { sha256: have, mode, .. } if mode == wanted && *have == sha256(content));
                self.facts.paths.get(path).is_some_and(stands)
            }
            _ => false,
        };
        Act { operation, satisfied }
    }

    /// When the file at `path` was last written, where that is known.
    pub fn written(&self, path: &str) -> Option<i64> {
        self.facts.paths.get(Path::new(path))?.modified
    }
}

impl Act {
    /// An operation that is still to do.
    pub fn needed(operation: impl Into<Operation>) -> Self {
        Self { operation: operation.into(), satisfied: false }
    }
}

/// A step with something in it: needed unless all of it stands.
pub fn step(id: StepId, title: impl Into<String>, why: impl Into<String>, operations: Vec<Act>) -> Step {
    let state = if operations.iter().all(|a| a.satisfied) { State::Satisfied } else { State::Needed };
    let needed = || operations.iter().filter(|a| !a.satisfied).map(|a| &a.operation);
    let download_bytes =
        needed().map(|operation| if operation.installs_packages() { None } else { size(operation) }).sum();
    let disk_bytes = if needed().any(Operation::installs_packages) { None } else { Some(0) };
    Step {
        id,
        title: title.into(),
        why: why.into(),
        state,
        operations,
        download_bytes,
        disk_bytes,
        room: Vec::new(),
        licensed: false,
        idle_driver: false,
    }
}

/// What an operation downloads itself.
fn size(operation: &Operation) -> Option<u64> {
    if let Operation::Download(Download { size, .. }) = operation { *size } else { Some(0) }
}

/// A step that has nothing to do here.
pub fn skipped(id: StepId, title: impl Into<String>, why: impl Into<String>) -> Step {
    Step { state: State::Skipped, ..step(id, title, why, Vec::new()) }
}
