//! A facts file of somebody else's: whatever can be read as facts gets a plan or a refusal.
#![no_main]

use gpusetup::compat::Database;
use gpusetup::host::Facts;
use gpusetup::resolve::Request;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static DATABASE: LazyLock<Database> = LazyLock::new(gpusetup::database::embedded);

fuzz_target!(|text: &str| {
    let Ok(facts) = serde_json::from_str::<Facts>(text) else { return };
    let _ = gpusetup::plan::plan(&DATABASE, facts, Request::default_on("2026-11-20"));
});
