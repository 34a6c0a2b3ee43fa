//! gpusetup puts a working NVIDIA stack on a Linux host.
pub mod compat;
pub mod embedded;
pub mod host;
pub mod operation;
pub mod plan;
pub mod resolve;
pub mod sum;
pub mod system;
pub mod version;
