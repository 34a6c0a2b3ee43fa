//! Containers with GPUs: requests for GPUs are read from one form and written in the others, and images are checked against a host's
//! driver.
//!
//! How each form is written: `--gpus` in Docker's client (docker/cli, opts/gpus.go) and daemon (moby, daemon/nvidia_linux.go), the
//! variables in NVIDIA's documentation of the container toolkit (docker-specialized, cdi-support), Compose in Docker's
//! (deploy.md, services.md), Kubernetes in NVIDIA's device plugin, `--container-image` in pyxis.

mod apptainer;
mod archive;
mod asked;
mod command_line;
mod compatibility;
mod compose_file;
mod compose_values;
mod compose_words;
mod contents;
mod correction;
mod demands;
mod driver_change;
mod file;
mod file_part;
mod flags;
mod form;
mod gpus_value;
mod host;
mod image;
mod judgement;
mod layer;
mod left_out;
mod needs;
mod on_driver;
mod pod_file;
mod pod_text;
mod podmans_values;
mod request;
mod requirement;
mod shell_words;
mod support;
mod tar_entries;
mod translation;
mod unreadable;
mod write;
mod write_file;

pub use archive::in_file;
pub use compatibility::{Checked, CheckedImage, check};
pub use form::{Form, Written};
pub use host::{Host, HostDriver, HostGpu, Starters, driver_from};
pub use image::{Image, ImageError, in_engine};
pub use judgement::ImageAnswer;
pub use request::{Device, Gpus, Request};
pub use translation::{Found, SCHEMA, Translated, TranslatedRequest, joined, read, read_words, translated};
pub use unreadable::Unreadable;
