//! What the schedulers of clusters are told about a host's GPUs: node labels for Kubernetes and
//! `gres.conf` for Slurm.

pub mod gres;
pub mod labels;

pub use gres::{Gres, gres};
pub use labels::{MigStrategy, Node, is_product, labels};
