//! What the container engines of a host need, and their configuration files with NVIDIA's runtime: merged, never overwritten.

mod containerd;
mod crio;
mod daemon_json;
mod merge;
mod remove;
mod setup;

pub use containerd::serves_no_pods;
pub use daemon_json::{keeps_containers, refuses_cdi};
pub use remove::{Original, Restored, restored};
pub use setup::{Containers, EngineSetup, FileEdit};
