//! Containers with GPUs: the request for GPUs of a command line is written in other forms, and images are checked against a host's
//! driver.
//!
//! How each form is written: `--gpus` in Docker's client (docker/cli, opts/gpus.go) and daemon (moby, daemon/nvidia_linux.go), the
//! variables in NVIDIA's documentation of the container toolkit (docker-specialized, cdi-support), Compose in Docker's (deploy.md),
//! Kubernetes in NVIDIA's device plugin.

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

pub(crate) use archive::in_file;
pub(crate) use compatibility::check;
pub use compatibility::{Checked, CheckedImage};
pub(crate) use form::not_a_file;
pub use form::{translate, translate_words};
pub(crate) use host::{Host, HostDriver, Starters, driver_from};
pub(crate) use image::{Image, ImageError, in_engine};
pub use judgement::ImageAnswer;
pub use request::{Form, Gpus, Request, Translated, Unreadable, Written, is_device};
pub(crate) use shell_words::MAX_LINE;
