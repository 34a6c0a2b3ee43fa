//! The facts that gpusetup decides from: `version` has the version types, `compat` the types of the
//! facts and their checks. `message`, `subject` and `error_code` are what `explain` recognises and
//! explains, `gpu_guide` is how GPUs are judged, `language` is what it says in other languages,
//! `compact` is how a program carries all of it, `signed` is who must have signed what comes later.
//! All are pure, except for [`compat::load`], which reads a folder: no process, no clock, no
//! network, and no decisions.

pub mod cause;
pub mod compact;
pub mod compat;
pub mod error_code;
pub mod gpu_guide;
pub mod language;
pub mod message;
pub mod signed;
pub mod subject;
pub mod sum;
pub mod text;
pub mod version;
pub mod yaml;
