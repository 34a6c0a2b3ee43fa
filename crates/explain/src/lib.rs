//! Recognises known error messages in a text; what is said in other languages.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod recognise;
pub mod smi;
pub mod translation;
