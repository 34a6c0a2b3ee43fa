//! What gpusetup writes, runs and advises on a host: for the steps of a plan and the repairs of
//! doctor alike.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod blocked;
pub mod compile;
mod files;
mod mixed;
mod other_toolkits;
pub mod path_lines;

pub use blocked::{describe_block, in_boot_loader, unblock_remedy, worst_block};
pub use files::{
    blacklist, fabric_modules, loader_path, module_at_boot, profile, rebuild_cache, rebuild_image,
    rebuild_images,
};
pub use mixed::{has_runfile, keep_one_driver, one_driver};
pub use other_toolkits::{before_default, default_first};
