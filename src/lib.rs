//! gpusetup puts a working NVIDIA stack on a Linux host: it sees what the host is, chooses a driver, a CUDA toolkit and a
//! cuDNN that fit the GPUs and each other, plans every step, carries the plan out and asks the host whether it works.
//!
//! # The rooms, in the order in which a GPU walks through them
//!
//! `host` probes a [`system`] into [`host::Facts`], with what its repositories offer by the lists that [`packages`] reads → [`resolve`] holds these, with a request, against the database in
//! [`compat`] (which of them, says [`database`]) and comes to a selection with its reasons → [`plan`] makes that into steps of the nine operations of
//! [`operation`] → [`render`] prints them, or [`apply`] carries them out, with what [`fetch`], or a [`bundle`], brought into the [`cache`], and journals the way
//! back. [`doctor`] asks the host afterwards. [`cli`] calls one after the other and decides nothing.
//!
//! `version`, `sum` and `compat` are of the package `gpusetup-database`, which the build script uses too. They, `resolve` and `plan` are pure: no file, no process, no clock, no network (but for
//! [`compat::load`], which reads a folder). Only [`system`], [`operation`], [`fetch`], [`cache`], [`bundle`] and [`database`] touch the host; of
//! [`doctor`] only the gathering of evidence, and of logs for a report, asks it.

pub use gpusetup_database::{compat, sum, version};

pub mod apply;
pub mod bundle;
pub mod cache;
pub mod cli;
pub mod database;
pub mod doctor;
pub mod exit;
pub mod fetch;
pub mod host;
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
