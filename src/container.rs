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
mod driver_change;
mod form;
mod gpus_value;
mod host;
mod image;
mod judgement;
mod layer;
mod needs;
mod on_driver;
mod request;
mod requirement;
mod shell_words;
mod support;
mod tar_entries;
mod translation;
mod unreadable;

pub use archive::in_file;
pub use compatibility::{Checked, CheckedImage, check};
pub use form::{Form, Written};
pub use host::{Host, HostDriver, HostGpu, Starters, driver_from};
pub use image::{Image, ImageError, in_engine};
pub use judgement::ImageAnswer;
pub use request::{Gpus, Request, is_device};
pub use shell_words::MAX_LINE;
pub use translation::{Translated, not_a_file, translate, translate_words};
pub use unreadable::Unreadable;
