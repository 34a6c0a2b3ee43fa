//! gpusetup puts a working NVIDIA stack on a Linux host. It detects the GPUs, picks a driver, a CUDA toolkit and a cuDNN that fit
//! them and each other, plans every step, executes the plan, and verifies the result.
//!
//! # From a host to a plan
//!
//! [`planning::Planner`] is the one way to a plan. [`host::probe`] reads the facts of a host, [`resolve`]
//! picks what fits them, [`plan`] turns the choice into steps of the operations of [`operation`].
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
//! let mut facts = host::probe(&system, &database, &host::Look::default())?;
//! # facts.machine.arch = "x86_64".to_owned();
//! facts.gpus = host::assumed_gpus(&database, "l4")?;
//!
//! let planned = Planner::new(&database).plan(facts, Request::no_wishes("2026-11-22"))?;
//! assert_eq!(planned.plan.selection.cudnn.as_ref().map(|cudnn| cudnn.version.major), Some(9));
//! for step in &planned.plan.steps {
//!     println!("{}: {}", step.title, step.why);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The modules, from the ground up
//!
//! A module uses only modules above it in this list (`tests/layers.rs`):
//!
//! - [`version`], [`sum`], [`yaml`], [`compat`], [`message`], [`subject`], [`error_code`], [`gpu_guide`], [`language`]: what is known of GPUs, drivers, toolkits, distributions, error messages, terms, error numbers and GPUs' readings, and other languages. They are the package
//!   `gpusetup-database`, which the build script uses too.
//! - [`paths`], [`ids`], [`exit`], [`text`], [`mirrors`], `built_in`, [`recognise`], [`translation`]: fixed paths, ids of checks and rules, exit codes, texts of
//!   strangers, [`certificate`]s, what stands in for NVIDIA's servers, what the build put into the program, known error messages in a text, what `explain` says in other languages.
//! - `zst`: zstd streams, read.
//! - [`system`]: files, processes and whose they are, below the root of a host.
//! - [`packages`]: all that is known of apt, dnf, tdnf and zypper, a file each. [`nvidia`]: what NVIDIA's own libraries say. [`database`]: which
//!   database is used. [`private`]: directories that nobody else may write to.
//! - [`host`]: the facts of a host. [`cache`]: what was downloaded. [`causes`]: what each id means, and what helps.
//! - [`gpus`]: what NVML tells of the GPUs, judged. [`cluster`]: what schedulers are told about them. [`mig`]: how GPUs are partitioned into instances.
//! - [`resolve`]: facts and a request become a selection, with its reasons. [`operation`]: what steps are made of.
//! - [`plan`]: a selection becomes steps.
//! - [`fetch`]: downloads. [`bundle`]: everything for hosts without a network.
//! - [`apply`]: carries plans out, journals and undoes them. [`doctor`]: examines a host.
//! - [`planning`], then [`render`], then [`cli`].
//!
//! [`resolve`] and [`plan`] are pure: no file, no process, no clock, no network.

// clippy.toml lists what only `system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub use gpusetup_database::{compat, error_code, gpu_guide, language, message, signed, subject, sum, version, yaml};

pub mod apply;
mod built_in;
pub mod bundle;
pub mod cache;
pub mod causes;
pub mod certificate;
pub mod cli;
pub mod cluster;
pub mod container;
pub mod database;
pub mod doctor;
pub mod exit;
pub mod fetch;
pub mod gpus;
pub mod host;
pub mod ids;
pub mod installation;
pub mod listing;
pub mod mig;
pub mod mirrors;
pub mod nvidia;
pub mod operation;
pub mod packages;
pub mod paths;
pub mod plan;
pub mod planning;
pub mod private;
pub mod recognise;
pub mod render;
pub mod resolve;
pub mod system;
pub mod text;
pub mod translation;
mod zst;
