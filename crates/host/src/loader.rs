//! The dynamic loader's cache, as written by ldconfig (glibc, `sysdeps/generic/dl-cache.h`). The
//! file may be old or damaged, so every offset is checked.

use super::LoaderCache;
use super::reader::Reader;
use gpusetup_database::compat::AddOn;
use gpusetup_system::limits::MAX_RECORD;
use std::path::PathBuf;

const CACHE: &str = "/etc/ld.so.cache";

/// The format since glibc 2.2. Since 2.32 it stands alone; before, it followed the older format.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const OLD_MAGIC: &[u8] = b"ld.so-1.7.0\0";
const OLD_HEADER: usize = 16;
const OLD_ENTRY: usize = 12;
const HEADER: usize = 48;
const ENTRY: usize = 24;

/// The bits of an entry's flags that name a 64-bit architecture; i386 has none of them.
const ARCHITECTURE: u32 = 0xff00;

/// Reads the relevant entries of the cache.
pub(crate) fn cache(reader: &mut Reader, add_ons: &[AddOn]) -> Option<LoaderCache> {
    let what = "the loader cache";
    let bytes = reader.bytes_up_to(what, CACHE, MAX_RECORD)?;
    let modified = reader.system.modified(CACHE)?;
    match entries(&bytes, add_ons) {
        Ok(entries) => Some(LoaderCache { modified, entries }),
        Err(e) => {
            reader.miss(what, format_args!("{CACHE}: {e}"));
            None
        }
    }
}

fn matters(soname: &[u8], add_ons: &[AddOn]) -> bool {
    let starts: [&[u8]; 4] = [
        b"libcuda.so",
        b"libnvidia-ml.so",
        b"libcudart.so",
        b"libcublas.so",
    ];
    let prefixes = add_ons
        .iter()
        .flat_map(|a| &a.prefixes)
        .map(String::as_bytes);
    starts
        .into_iter()
        .chain(prefixes)
        .any(|s| soname.starts_with(s))
}

/// The most relevant entries read; no host has as many.
const MAX_CACHE_ENTRIES: usize = 10_000;
/// The longest path in bytes, with its end: the kernel's PATH_MAX.
const MAX_PATH: usize = 4096;

fn entries(bytes: &[u8], add_ons: &[AddOn]) -> Result<Vec<(String, PathBuf)>, &'static str> {
    let cache = new_format(bytes)?;
    // Offsets count from here. The low bits of the flags give the byte order, of which only one is
    // supported.
    if cache.get(28).is_some_and(|order| order & 3 == 3) {
        return Err("it is for a big-endian machine");
    }
    let count = number(cache, 20).ok_or("it is truncated")? as usize;
    let mut found = Vec::new();
    for i in 0..count {
        let at = i
            .checked_mul(ENTRY)
            .and_then(|o| o.checked_add(HEADER))
            .ok_or("it is truncated")?;
        let fields = [0, 4, 8].map(|offset| number(cache, at.checked_add(offset)?));
        let [Some(flags), Some(key), Some(value)] = fields else {
            return Err("it is truncated");
        };
        if flags & ARCHITECTURE == 0 {
            continue;
        }
        let soname = text(cache, key).ok_or("a name lies outside the file")?;
        if matters(soname, add_ons) {
            if found.len() == MAX_CACHE_ENTRIES {
                return Err("it has too many entries for NVIDIA's libraries");
            }
            let path = text(cache, value).ok_or("a path lies outside the file")?;
            let path = PathBuf::from(String::from_utf8_lossy(path).into_owned());
            found.push((String::from_utf8_lossy(soname).into_owned(), path));
        }
    }
    Ok(found)
}

fn new_format(bytes: &[u8]) -> Result<&[u8], &'static str> {
    if bytes.starts_with(MAGIC) {
        return Ok(bytes);
    }
    if !bytes.starts_with(OLD_MAGIC) {
        return Err("its format is unknown");
    }
    let count = number(bytes, OLD_MAGIC.len()).ok_or("it is truncated")? as usize;
    let end = count
        .checked_mul(OLD_ENTRY)
        .and_then(|n| n.checked_add(OLD_HEADER))
        .ok_or("it is truncated")?;
    // The new format starts at a multiple of its alignment, which is eight here.
    let start = end.checked_next_multiple_of(8).ok_or("it is truncated")?;
    bytes
        .get(start..)
        .filter(|b| b.starts_with(MAGIC))
        .ok_or("it has only the format used before glibc 2.2")
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

fn text(bytes: &[u8], at: u32) -> Option<&[u8]> {
    let rest = bytes.get(at as usize..)?;
    let rest = &rest[..rest.len().min(MAX_PATH)];
    rest.iter().position(|b| *b == 0).map(|end| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_data::embedded;
    use proptest::prelude::*;

    fn kept(bytes: &[u8]) -> Result<Vec<(String, PathBuf)>, &'static str> {
        entries(bytes, &embedded().add_ons)
    }

    fn sample(libraries: &[(u32, &str, &str)]) -> Vec<u8> {
        let mut bytes = [MAGIC, &(libraries.len() as u32).to_le_bytes()].concat();
        bytes.resize(HEADER, 0);
        bytes[28] = 2;
        let mut strings = Vec::new();
        let base = HEADER + libraries.len() * ENTRY;
        for (flags, soname, path) in libraries {
            let key = (base + strings.len()) as u32;
            strings.extend([soname.as_bytes(), b"\0"].concat());
            let value = (base + strings.len()) as u32;
            strings.extend([path.as_bytes(), b"\0"].concat());
            bytes.extend([flags.to_le_bytes(), key.to_le_bytes(), value.to_le_bytes()].concat());
            bytes.extend([0; 12]);
        }
        bytes.extend(strings);
        bytes
    }

    fn libraries() -> Vec<u8> {
        sample(&[
            (0x0303, "libz.so.1", "/lib/libz.so.1"),
            (
                0x0303,
                "libcudnn.so.9",
                "/usr/local/cuda/lib64/libcudnn.so.9",
            ),
            (
                0x0003,
                "libcuda.so.1",
                "/usr/lib/i386-linux-gnu/libcuda.so.1",
            ),
            (0x0303, "libcuda.so.1", "/lib/x86_64-linux-gnu/libcuda.so.1"),
        ])
    }

    #[test]
    fn entries_that_matter_are_kept_in_order() {
        let want = [
            (
                "libcudnn.so.9".to_owned(),
                PathBuf::from("/usr/local/cuda/lib64/libcudnn.so.9"),
            ),
            (
                "libcuda.so.1".to_owned(),
                PathBuf::from("/lib/x86_64-linux-gnu/libcuda.so.1"),
            ),
        ];
        assert_eq!(kept(&libraries()).expect("whole"), want);
        let mut old = [OLD_MAGIC, &1u32.to_le_bytes(), &[0; OLD_ENTRY]].concat();
        old.resize(old.len().next_multiple_of(8), 0);
        old.extend(libraries());
        assert_eq!(kept(&old).expect("whole"), want);
    }

    #[test]
    fn a_cache_that_ldconfig_made_is_read() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (library, cache) = (dir.path().join("libcudnn.so.9"), dir.path().join("cache"));
        let made = std::process::Command::new("gcc")
            .args([
                "-shared",
                "-nostdlib",
                "-Wl,-soname,libcudnn.so.9",
                "-x",
                "c",
                "/dev/null",
                "-o",
            ])
            .arg(&library)
            .status();
        assert!(made.expect("gcc is there").success());
        let listed = std::process::Command::new("/sbin/ldconfig")
            .arg("-C")
            .arg(&cache)
            .arg(dir.path())
            .status();
        assert!(listed.expect("ldconfig is there").success());
        let found = kept(&std::fs::read(&cache).expect("written")).expect("whole");
        assert!(
            found.contains(&("libcudnn.so.9".to_owned(), library)),
            "{found:?}"
        );
    }

    #[test]
    fn a_cache_that_says_too_much_is_an_error() {
        let one = (0x0303, "libcudnn.so.9", "/x");
        assert!(kept(&sample(&vec![one; MAX_CACHE_ENTRIES])).is_ok());
        assert!(kept(&sample(&vec![one; MAX_CACHE_ENTRIES + 1])).is_err());
        assert!(
            kept(&sample(&[(
                0x0303,
                &format!("libcudnn{}", "a".repeat(MAX_PATH)),
                "/x"
            )]))
            .is_err()
        );
    }

    #[test]
    fn a_broken_cache_is_an_error() {
        assert!(kept(b"").is_err());
        assert!(kept(b"ld.so-1.7.0\0\xff\xff\xff\xff").is_err());
        let whole = libraries();
        assert!(kept(&whole[..whole.len() - 1]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_bring_it_down(at in 0usize..200, with in any::<u8>(), cut in 0usize..400) {
            let mut bytes = libraries();
            let at = at.min(bytes.len() - 1);
            bytes[at] = with;
            bytes.truncate(cut);
            let _ = kept(&bytes);
        }
    }
}
