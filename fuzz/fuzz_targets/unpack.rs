//! An archive of anybody's: whatever is in it, nothing comes to lie outside of its place, and
//! nothing at all before it has proved to be harmless.
#![no_main]

use gpusetup::operation::{Limit, Placement, unpack};
use gpusetup::system::System;
use libfuzzer_sys::fuzz_target;
use std::path::{Path, PathBuf};

const PLACE: &str = "/usr/local/cuda-12.8/lib64";
const LIMIT: Limit = Limit { files: 64, bytes: 1 << 20 };

fuzz_target!(|input: (u8, Vec<u8>)| {
    let (form, bytes) = input;
    let packed = match form % 4 {
        // Past the sums of the formats, which no fuzzer guesses.
        0 => zstd::encode_all(bytes.as_slice(), 1).expect("packed"),
        1 => zstd::encode_all(with_sums(bytes).as_slice(), 1).expect("packed"),
        _ => bytes,
    };
    let tree = tempfile::tempdir().expect("a temporary directory");
    let on = System::at(tree.path());
    on.make_directories(PLACE, 0o755).expect("made");
    let before = everything(tree.path());
    let into = [Placement { from: "lib".into(), to: PLACE.into() }];
    let at = unpack::staging(&on, "0123456789abcdef", &into);
    let staged = unpack::stage_from(&on, Path::new("/a"), packed.as_slice(), None, &into, Some(LIMIT), &at);
    match staged {
        Err(e) => assert!(!e.to_string().is_empty()),
        Ok(staged) => staged.commit(&on).unwrap_or_else(|e| assert!(!e.to_string().is_empty())),
    }
    let place = tree.path().join(&PLACE[1..]);
    for path in everything(tree.path()).into_iter().filter(|path| !before.contains(path)) {
        assert!(path.starts_with(&place), "{} was made", path.display());
        let meta = path.symlink_metadata().expect("it is there");
        assert!(meta.is_file() || meta.is_dir() || meta.is_symlink(), "{} is a device", path.display());
        // Where it leads, if that is anywhere.
        if let Ok(end) = path.canonicalize() {
            assert!(end.starts_with(place.canonicalize().expect("there")), "{} leads away", path.display());
        }
    }
});

/// A tar whose headers have the right sums.
fn with_sums(mut bytes: Vec<u8>) -> Vec<u8> {
    for block in bytes.chunks_exact_mut(512) {
        if block[257..262] == *b"ustar" {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
            block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        }
    }
    bytes
}

fn everything(below: &Path) -> Vec<PathBuf> {
    let (mut all, mut todo) = (Vec::new(), vec![below.to_owned()]);
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(folder).expect("readable").flatten() {
            if entry.file_type().expect("known").is_dir() {
                todo.push(entry.path());
            }
            all.push(entry.path());
        }
    }
    all
}
