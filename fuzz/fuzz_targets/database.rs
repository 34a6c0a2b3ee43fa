//! A file of a database folder: whatever it holds is a database or a sentence.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match gpusetup::compat::parse([("compat/x.yaml", text)]) {
        Ok(database) => drop(database.tally()),
        Err(e) => assert!(!e.to_string().is_empty()),
    }
});
