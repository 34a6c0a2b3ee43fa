//! What gpusetup knows: `version` is the versions that this field speaks in, `compat` the facts' shape and their checks. Both
//! are pure (but for [`compat::load`], which reads a folder): no process, no clock, no network, and no decision.

pub mod compat;
pub mod sum;
pub mod version;
