//! A report of somebody else's: whatever it unpacks to, there is evidence and a diagnosis, or a
//! sentence.
#![no_main]

use gpusetup::compat::Database;
use gpusetup::doctor::examine;
use gpusetup::report::{Collected, archive};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static DATABASE: LazyLock<Database> = LazyLock::new(gpusetup::database::embedded);

fuzz_target!(|input: (bool, Vec<u8>)| {
    let (packed, bytes) = input;
    let opened: Option<Collected> = if packed {
        archive::open(bytes.as_slice()).map_err(|e| assert!(!e.to_string().is_empty())).ok()
    } else {
        // Past zstd's sum, which no fuzzer guesses.
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let packed = archive::pack(&[(archive::EVIDENCE.to_owned(), text)].into()).expect("packed");
        archive::open(packed.as_slice()).map_err(|e| assert!(!e.to_string().is_empty())).ok()
    };
    if let Some(collected) = opened {
        let report = examine(collected.evidence, &DATABASE, &[]);
        assert_eq!(report.summary.error, 0, "a check broke off");
    }
});
