//! Reports of a host for people elsewhere: what doctor saw and the host's logs, without what is
//! private, in an archive.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod anonymise;
pub mod archive;
mod collect;

pub use archive::Collected;
pub use collect::collect;
