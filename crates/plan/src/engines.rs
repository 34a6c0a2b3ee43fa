//! What the container engines of a host need, and their configuration files with NVIDIA's runtime:
//! merged, never overwritten.

mod containerd;
mod crio;
mod daemon_json;
mod low_level;
mod merge;
mod remove;
mod setup;

pub use containerd::{runtimes_read, serves_no_pods};
pub use daemon_json::keeps_containers;
pub use low_level::{config_restored, line_with_first};
pub use remove::{Original, Restored, restored};
pub use setup::{Containers, EngineSetup, FileEdit};
