//! Texts of strangers made safe, ids, exit codes, paths and mirrors.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod exit;
pub mod ids;
pub mod mirrors;
pub mod paths;
pub mod text;
