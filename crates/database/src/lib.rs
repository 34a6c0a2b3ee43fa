//! What gpusetup knows: `version` is the versions that this field speaks in, `compat` the facts' shape and their checks, `message`
//! the error messages that `explain` recognises, `subject` the terms and error codes that it explains. All are pure (but for
//! [`compat::load`], which reads a folder): no process, no clock, no network, and no decision.

pub mod compat;
pub mod message;
pub mod subject;
pub mod sum;
pub mod version;
