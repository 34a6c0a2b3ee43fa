//! The loader's cache, read as the loader reads it: `/etc/ld.so.cache` in glibc's format of 2003 and later.

use super::LoaderCache;
use super::probe::Notes;
use crate::system::{System, is_absent};
use std::path::PathBuf;

const PATH: &str = "/etc/ld.so.cache";
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// Libraries that matter here.
const MATTER: [&str; 5] = ["libcuda.so", "libnvidia-ml.so", "libcudart.so", "libcudnn", "libcublas.so"];

/// What the cache holds of them.
pub fn probe(system: &System, notes: &mut Notes) -> Option<LoaderCache> {
    let bytes = match system.read(PATH) {
        Err(e) if is_absent(&e) => return None,
        read => notes.take(PATH, read)?,
    };
    let Some(mut entries) = parse(&bytes) else {
        notes.note(PATH, "it has a format that is not known");
        return None;
    };
    entries.retain(|(name, _)| MATTER.iter().any(|m| name.starts_with(m)));
    Some(LoaderCache { modified: system.modified(PATH)?, entries })
}

/// SONAME and path of each entry, in the loader's order. Every offset is checked: the file may be anything.
fn parse(bytes: &[u8]) -> Option<Vec<(String, PathBuf)>> {
    // An older format may stand before it; offsets count from this one's start.
    let start = memchr::memmem::find(bytes, MAGIC)?;
    let cache = &bytes[start..];
    let number = |at: usize| Some(u32::from_le_bytes(cache.get(at..at + 4)?.try_into().ok()?) as usize);
    let text = |at: usize| {
        let rest = cache.get(at..)?;
        let end = memchr::memchr(0, rest)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    };
    const HEADER: usize = 48;
    const ENTRY: usize = 24;
    let count = number(20)?;
    let mut out = Vec::new();
    for n in 0..count {
        // flags, key, value, os version (4 bytes each), hardware capabilities (8)
        let at = HEADER + n.checked_mul(ENTRY)?;
        out.push((text(number(at + 4)?)?, PathBuf::from(text(number(at + 8)?)?)));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machines_cache_is_read() {
        let entries = parse(&std::fs::read(PATH).expect("every glibc system has one")).expect("a known format");
        assert!(entries.iter().any(|(name, path)| name == "libc.so.6" && path.exists()));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            parse(&bytes);
            bytes.splice(0..0, MAGIC.iter().copied());
            parse(&bytes);
        }
    }
}
