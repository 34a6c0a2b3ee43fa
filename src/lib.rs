//! gpusetup puts a working NVIDIA stack on a Linux host. It detects the GPUs, picks a driver, a CUDA toolkit and a cuDNN that fit
//! them and each other, plans every step, executes the plan, and verifies the result.
//!
//! # From a host to a plan
//!
//! [`planning::Planner`] is the one way to a plan, and has an example. [`host::probe`] reads the facts of a host, [`resolve`]
//! picks what fits them, [`plan`] turns the choice into steps of the nine operations of [`operation`].
//!
//! # The modules, from the ground up
//!
//! A module uses only modules above it in this list (`tests/layers.rs`):
//!
//! - [`version`], [`sum`], [`compat`]: what is known of GPUs, drivers, toolkits and distributions. They are the package
//!   `gpusetup-database`, which the build script uses too.
//! - [`paths`], [`ids`], [`exit`], [`text`], [`mirrors`]: fixed paths, ids of checks and rules, exit codes, texts of strangers,
//!   what stands in for NVIDIA's servers.
//! - [`causes`]: what each id means, and what helps.
//! - [`system`]: files, processes and whose they are, below the root of a host.
//! - [`packages`]: apt, dnf, tdnf and zypper, a file each. [`nvidia`]: what NVIDIA's own libraries say. [`database`]: which
//!   database is used. [`private`]: directories that nobody else may write to.
//! - [`host`]: the facts of a host. [`cache`]: what was downloaded.
//! - [`resolve`]: facts and a request become a selection, with its reasons. [`operation`]: what steps are made of.
//! - [`plan`]: a selection becomes steps.
//! - [`fetch`]: downloads. [`bundle`]: everything for hosts without a network.
//! - [`apply`]: carries plans out, journals and undoes them. [`doctor`]: examines a host.
//! - [`planning`], then [`render`], then [`cli`].
//!
//! [`resolve`] and [`plan`] are pure: no file, no process, no clock, no network.

pub use gpusetup_database::{compat, sum, version};

pub mod apply;
pub mod bundle;
pub mod cache;
pub mod causes;
pub mod cli;
pub mod database;
pub mod doctor;
pub mod exit;
pub mod fetch;
pub mod host;
pub mod ids;
pub mod mirrors;
pub mod nvidia;
pub mod operation;
pub mod packages;
pub mod paths;
pub mod plan;
pub mod planning;
pub mod private;
pub mod render;
pub mod resolve;
pub mod system;
pub mod text;
