//! gpusetup on real hosts: Debian roots, and machines under QEMU. These tests need root and take
//! minutes, so `cargo test` leaves them out; `tests/run` runs them, several modules at a time. To
//! run one module alone: `unshare --mount --propagation private cargo test --test as_root --
//! --ignored --nocapture crash_points::`.

#[path = "../common/mod.rs"]
mod common;
#[path = "../support/faulty.rs"]
mod faulty;
#[path = "../host/mod.rs"]
mod host;
#[path = "../support/keyring.rs"]
mod keyring;
#[path = "../support/nvidia.rs"]
mod nvidia;
#[path = "../support/rpms.rs"]
mod rpms;
#[path = "../support/schema.rs"]
mod schema;
#[path = "../support/short.rs"]
mod short;
#[path = "../support/signer.rs"]
mod signer;
#[path = "../support/stack.rs"]
mod stack;
#[path = "../support/step.rs"]
mod step;

mod add_ons;
mod archive;
mod branch_change;
mod companions;
mod compile_matrix;
mod container_host;
#[cfg(debug_assertions)]
mod crash_points;
#[cfg(debug_assertions)]
mod faults;
mod gallery;
mod headers;
mod hostile;
mod install_script;
mod killed;
mod locked;
mod offers;
mod other_hosts;
mod outside;
mod package;
mod real_host;
mod release;
mod repository;
mod rpm_repository;
mod secure_boot;
mod settings;
mod suites;
mod toolkit_repository;
mod toolkits;
mod vm;

use common::sampled;
