//! The journal with any bytes in it: it is read, or refused, and what it says was made can be asked
//! for.
#![no_main]

use gpusetup::apply::journal::{Journal, PATH};
use gpusetup::system::System;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let tree = tempfile::tempdir().expect("a temporary directory");
    let on = System::at(tree.path());
    on.make_directories(Path::new(PATH).parent().expect("a folder"), 0o700).expect("made");
    on.write(PATH, bytes, 0o600).expect("written");
    if let Ok(journal) = Journal::open(&on) {
        let _ = (journal.last_apply().len(), journal.torn().len(), journal.intents());
    }
});
