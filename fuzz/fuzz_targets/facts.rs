//! A facts file of somebody else's: whatever can be read as facts gets a plan or a refusal.
#![no_main]

use gpusetup::compat::Database;
use gpusetup::host::Facts;
use gpusetup::resolve::{Method, Prefer, Request};
use gpusetup::version::Want;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static DATABASE: LazyLock<Database> = LazyLock::new(gpusetup::embedded::database);

fuzz_target!(|text: &str| {
    let Ok(facts) = serde_json::from_str::<Facts>(text) else { return };
    let request = Request {
        driver: Want::Best,
        cuda: Want::Best,
        cudnn: Want::Best,
        frameworks: Vec::new(),
        method: Method::Auto,
        modules: None,
        prefer: Prefer::Stable,
        upgrade: false,
        prefix: "/usr/local".into(),
        cache: "/var/cache/gpusetup".into(),
        assumed_gpus: Vec::new(),
        leave_out: Vec::new(),
        library_path: false,
        today: "2026-11-20".to_owned(),
    };
    let _ = gpusetup::plan::plan(&DATABASE, facts, request);
});
