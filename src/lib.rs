//! gpusetup puts a working NVIDIA stack on a Linux host.
pub mod version;
