//! What a user sees of gpusetup, on trees that stand for hosts, with servers on loopback: quick,
//! and without root. All of it is one program, since linking the library is what takes long.

#[path = "../common/mod.rs"]
mod common;
#[path = "../support/faulty.rs"]
mod faulty;
#[path = "../support/fleet.rs"]
mod fleet;
#[path = "../support/keyring.rs"]
mod keyring;
#[path = "../support/nginx.rs"]
mod nginx;
#[path = "../support/nvidia.rs"]
mod nvidia;
#[path = "../support/schema.rs"]
mod schema;
#[path = "../support/step.rs"]
mod step;

mod add_ons;
mod book;
mod bundle;
mod cache;
mod cluster;
mod companions;
mod compilers;
mod completions;
mod components;
mod configuration;
mod consent;
mod container_host;
mod containers;
mod database;
mod device;
mod device_state;
mod doctor;
mod downloads;
mod driver_file;
mod engine_files;
mod explain;
mod fabric;
mod facts;
mod frameworks;
mod frozen;
mod golden;
mod gpus;
mod hosts;
mod images;
mod json;
mod kernel_log;
mod keys;
mod languages;
mod licences;
mod limits;
mod locked;
mod looks;
mod machines;
mod messages;
mod mig;
mod mig_brute_force;
mod mig_changes;
mod mig_config;
mod oracle;
mod other_hosts;
mod plan;
mod properties;
mod python;
mod read_only;
mod refusals;
mod report;
mod repository;
mod schemas;
mod second_opinion;
mod secure_boot;
mod settings;
mod status;
mod stock;
mod strangers;
mod sums;
mod toolkit_method;
mod toolkits;
mod update;
mod user_data;
mod ux;
mod warnings;
