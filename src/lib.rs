//! gpusetup puts a working NVIDIA stack on a Linux host. It detects the GPUs, picks a driver, a
//! CUDA toolkit and a cuDNN that fit them and each other, plans every step, executes the plan, and
//! verifies the result.
//!
//! # From a host to a plan
//!
//! [`planning::Planner`] is the one way to a plan. [`host::probe`] reads the facts of a host,
//! [`resolve`] picks what fits them, [`plan`] turns the choice into steps of the operations of
//! [`operation`].
//!
//! ```
//! use gpusetup::planning::Planner;
//! use gpusetup::{database, host, resolve::Request, system::System};
//! # let root = tempfile::tempdir()?;
//! # std::fs::create_dir_all(root.path().join("etc"))?;
//! # std::fs::write(root.path().join("etc/os-release"), "ID=debian\nVERSION_ID=12\nPRETTY_NAME=\"Debian 12\"\n")?;
//! # let system = System::at(root.path());
//! // `System::live()` is this machine.
//! let database = database::embedded();
//! let mut facts = host::probe(&system, &database, &host::ProbeOptions::default())?;
//! # facts.machine.arch = "x86_64".to_owned();
//! facts.gpus = host::assumed_gpus(&database, "l4")?;
//!
//! let planned = Planner::new(&database).plan(facts, Request::default_on("2026-11-22"))?;
//! assert_eq!(planned.plan.selection.cudnn.as_ref().map(|cudnn| cudnn.version.major), Some(9));
//! for step in &planned.plan.steps {
//!     println!("{}: {}", step.title, step.why);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it is made of
//!
//! Crates in `crates/`, from the ground up; ARCHITECTURE.md says what each is for. They are modules
//! of this one: `gpusetup::host` is the crate `gpusetup-host`. Here are [`planning`], [`listing`]
//! and [`installation`], then [`render`], then [`cli`].
//!
//! [`resolve`] and [`plan`] are pure: no file, no process, no clock, no network.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub use gpusetup_apply as apply;
pub use gpusetup_bundle as bundle;
pub use gpusetup_causes as causes;
pub use gpusetup_container as container;
pub use gpusetup_database::{
    compat, error_code, gpu_guide, language, message, signed, subject, sum, version, yaml,
};
pub use gpusetup_doctor as doctor;
pub use gpusetup_explain::{recognise, smi, translation};
pub use gpusetup_fetch as fetch;
pub use gpusetup_fetch::cache;
pub use gpusetup_gpus as gpus;
pub use gpusetup_gpus::cluster;
pub use gpusetup_host as host;
pub use gpusetup_mig as mig;
pub use gpusetup_nvidia as nvidia;
pub use gpusetup_operation as operation;
pub use gpusetup_packages as packages;
pub use gpusetup_plan as plan;
pub use gpusetup_report as report;
pub use gpusetup_resolve as resolve;
pub use gpusetup_system as system;
pub use gpusetup_system::{certificate, private};
pub use gpusetup_text::{exit, ids, mirrors, paths, text};

/// The compatibility database: the one in the program, a newer one, or a folder named by the user.
pub mod database {
    pub use gpusetup_bundle::database::{archive, folder, is_newer, store};
    pub use gpusetup_data::{VERSION, embedded, shared};
    pub use gpusetup_system::day::database_age as age;
}

pub mod cli;
pub mod installation;
pub mod listing;
pub mod planning;
pub mod render;
