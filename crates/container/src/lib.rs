//! Containers with GPUs: the request for GPUs of a command line is written in other forms, and
//! images are checked against a host's driver.
//!
//! How each form is written: `--gpus` in Docker's client (docker/cli, opts/gpus.go) and daemon
//! (moby, daemon/nvidia_linux.go), the variables in NVIDIA's documentation of the container toolkit
//! (docker-specialized, cdi-support), Compose in Docker's (deploy.md), Kubernetes in NVIDIA's
//! device plugin.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod archive;
mod command_line;
mod compatibility;
mod contents;
mod demands;
mod form;
mod gpus_value;
mod host;
mod image;
mod judgement;
mod layer;
mod needs;
mod on_driver;
mod request;
mod shell_words;
mod tar_entries;

pub use archive::in_file;
pub use compatibility::check;
pub use compatibility::{Checked, CheckedImage};
pub use form::not_a_file;
pub use form::{translate, translate_words};
pub use host::{Host, HostDriver, Starters, driver_from};
pub use image::{Image, ImageError, in_engine};
pub use judgement::ImageAnswer;
pub use request::{Form, Gpus, Translated, Unreadable, Written, is_device};

pub use shell_words::MAX_LINE;
