//! The few fields needed from ELF files: a library's SONAME, a kernel module's `.modinfo`, the
//! machine a program is for, the C library's banner. Only 64-bit little-endian files are supported,
//! which covers every machine NVIDIA's current drivers run on; any other file is "not known". Only
//! the needed parts are read, because these files can be a gigabyte in size.

use object::elf::{
    DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, EM_AARCH64, EM_PPC64, EM_X86_64, FileHeader64,
};
use object::read::elf::{Dyn, FileHeader, SectionHeader};
use object::{LittleEndian, ReadRef};

/// The parts read here have kilobytes, but a sparse file can claim any size.
const MAX_PART_BYTES: u64 = 16 << 20;

/// The most entries of a dynamic section that are read: libraries have some fifty.
const MAX_ENTRIES: usize = 1024;

/// A file that refuses to read more than [`MAX_PART_BYTES`] bytes at once.
#[derive(Clone, Copy)]
struct Bounded<R>(R);

impl<'a, R: ReadRef<'a>> ReadRef<'a> for Bounded<R> {
    fn len(self) -> Result<u64, ()> {
        self.0.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        if size <= MAX_PART_BYTES {
            self.0.read_bytes_at(offset, size)
        } else {
            Err(())
        }
    }

    fn read_bytes_at_until(
        self,
        range: std::ops::Range<u64>,
        delimiter: u8,
    ) -> Result<&'a [u8], ()> {
        self.0.read_bytes_at_until(range, delimiter)
    }
}

type Header = FileHeader64<LittleEndian>;
const ENDIAN: LittleEndian = LittleEndian;

/// The SONAME of a shared library.
pub(crate) fn soname<'a>(data: impl ReadRef<'a>) -> Option<String> {
    let data = Bounded(data);
    let sections = Header::parse(data).ok()?.sections(ENDIAN, data).ok()?;
    let (entries, strings) = sections.dynamic(ENDIAN, data).ok()??;
    let strings = sections.strings(ENDIAN, data, strings).ok()?;
    let entry = entries
        .iter()
        .find(|d| d.tag32(ENDIAN) == Some(DT_SONAME))?;
    Some(String::from_utf8_lossy(strings.get(entry.val32(ENDIAN)?).ok()?).into_owned())
}

/// What a shared library asks of the loader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// The libraries that it needs, by SONAME.
    pub needed: Vec<String>,
    /// Directories that are searched before LD_LIBRARY_PATH, unless there is a RUNPATH.
    pub rpath: Option<String>,
    /// Directories that are searched after LD_LIBRARY_PATH.
    pub runpath: Option<String>,
}

/// What a shared library asks of the loader; none if it is not one.
pub fn dynamic<'a>(data: impl ReadRef<'a>) -> Option<Dynamic> {
    let data = Bounded(data);
    let sections = Header::parse(data).ok()?.sections(ENDIAN, data).ok()?;
    let (entries, strings) = sections.dynamic(ENDIAN, data).ok()??;
    let strings = sections.strings(ENDIAN, data, strings).ok()?;
    let mut found = Dynamic::default();
    for entry in entries.iter().take(MAX_ENTRIES) {
        let Some(tag @ (DT_NEEDED | DT_RPATH | DT_RUNPATH)) = entry.tag32(ENDIAN) else {
            continue;
        };
        let text = entry.val32(ENDIAN).and_then(|at| strings.get(at).ok());
        let text = text.map(|text| String::from_utf8_lossy(text).into_owned());
        match tag {
            DT_RPATH => found.rpath = text,
            DT_RUNPATH => found.runpath = text,
            _ => found.needed.extend(text),
        }
    }
    Some(found)
}

/// The machine that a program is for, as printed by `uname -m`. The first bytes of the file are
/// enough.
pub fn machine<'a>(data: impl ReadRef<'a>) -> Option<&'static str> {
    let head = data.read_bytes_at(0, 20).ok()?;
    // Class 2 is 64-bit, data 1 is little-endian.
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    match u16::from_le_bytes([head[18], head[19]]) {
        EM_X86_64 => Some("x86_64"),
        EM_AARCH64 => Some("aarch64"),
        EM_PPC64 => Some("ppc64le"),
        _ => None,
    }
}

/// Fields of a kernel module's `.modinfo` section.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ModuleInfo {
    /// The `version` field.
    pub(crate) version: Option<String>,
    /// The `license` field, which distinguishes the open modules from the proprietary ones.
    pub(crate) license: Option<String>,
}

/// The `.modinfo` of a kernel module.
pub(crate) fn module_info<'a>(data: impl ReadRef<'a>) -> Option<ModuleInfo> {
    section(data, b".modinfo").map(fields)
}

fn fields(section: &[u8]) -> ModuleInfo {
    let [version, license] = ["version=", "license="].map(|key| {
        let mut fields = section.split(|b| *b == 0);
        let value = fields.find_map(|field| field.strip_prefix(key.as_bytes()))?;
        Some(String::from_utf8_lossy(value).into_owned())
    });
    ModuleInfo { version, license }
}

/// The version in the C library's banner: `GNU C Library (GNU libc) stable release version 2.34.`
pub(crate) fn c_library<'a>(data: impl ReadRef<'a>) -> Option<String> {
    banner(section(data, b".rodata")?)
}

/// A constant string of a program that starts with `start`, up to its end or `most` bytes.
pub fn text<'a>(data: impl ReadRef<'a>, start: &[u8], most: usize) -> Option<String> {
    let rodata = section(data, b".rodata")?;
    let rest = &rodata[memchr::memmem::find(rodata, start)?..];
    let end = rest
        .iter()
        .take(most)
        .position(|b| *b == 0)
        .unwrap_or(most.min(rest.len()));
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}

fn banner(rodata: &[u8]) -> Option<String> {
    const BEFORE: &[u8] = b" release version ";
    let at = memchr::memmem::find(rodata, BEFORE)?;
    let rest = &rodata[at + BEFORE.len()..];
    let end = rest
        .iter()
        .position(|b| !b.is_ascii_digit() && *b != b'.')
        .unwrap_or(rest.len());
    let text = str::from_utf8(&rest[..end]).ok()?.trim_end_matches('.');
    (!text.is_empty()).then(|| text.to_owned())
}

/// The newest GNU C library version that a program requires: (2, 34) for `GLIBC_2.34`. None if it
/// is linked statically or uses another C library.
pub fn needed_c_library<'a>(data: impl ReadRef<'a>) -> Option<(u32, u32)> {
    let data = Bounded(data);
    let sections = Header::parse(data).ok()?.sections(ENDIAN, data).ok()?;
    let (mut libraries, strings) = sections.gnu_verneed(ENDIAN, data).ok()??;
    let strings = sections.strings(ENDIAN, data, strings).ok()?;
    let mut newest = None;
    while let Some((_, mut versions)) = libraries.next().ok()? {
        while let Some(version) = versions.next().ok()? {
            let name = str::from_utf8(version.name(ENDIAN, strings).ok()?).ok()?;
            newest = newest.max(name.strip_prefix("GLIBC_").and_then(c_library_version));
        }
    }
    newest
}

/// A version of the C library as numbers: `2.34`, `2.2.5`.
pub fn c_library_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(str::parse);
    match (parts.next()?, parts.next()?) {
        (Ok(major), Ok(minor)) => Some((major, minor)),
        _ => None,
    }
}

fn section<'a>(data: impl ReadRef<'a>, name: &[u8]) -> Option<&'a [u8]> {
    let data = Bounded(data);
    let header = Header::parse(data).ok()?;
    let sections = header.section_headers(ENDIAN, data).ok()?;
    // Read at once and compared in place: each of a hundred thousand names could have kilobytes.
    let names = sections
        .get(header.shstrndx(ENDIAN, data).ok()? as usize)?
        .data(ENDIAN, data)
        .ok()?;
    sections
        .iter()
        .find(|section| {
            let rest = names
                .get(section.sh_name(ENDIAN) as usize..)
                .and_then(|rest| rest.strip_prefix(name));
            rest.is_some_and(|rest| rest.first() == Some(&0))
        })?
        .data(ENDIAN, data)
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::ReadCache;
    use std::fs::File;

    #[test]
    fn this_very_program_is_read() {
        let file = ReadCache::new(File::open("/proc/self/exe").expect("linux"));
        assert_eq!(machine(&file), Some(std::env::consts::ARCH));
        assert_eq!(soname(&file), None);
        assert_eq!(module_info(&file), None);
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn a_program_tells_which_c_library_it_needs() {
        let file = ReadCache::new(File::open("/proc/self/exe").expect("linux"));
        let needed = needed_c_library(&file).expect("it is linked dynamically");
        assert!(((2, 2)..(3, 0)).contains(&needed), "{needed:?}");
        assert_eq!(c_library_version("2.2.5"), Some((2, 2)));
        assert!(c_library_version("2.34") > c_library_version("2.4"));
        assert_eq!(c_library_version("PRIVATE"), None);
    }

    #[test]
    fn what_is_no_elf_file_is_not_known() {
        for bytes in [&b""[..], b"\x7fELF", b"\x7fELF\x02\x01\x01", &[0xff; 4096]] {
            assert_eq!(
                (soname(bytes), machine(bytes), module_info(bytes)),
                (None, None, None)
            );
            assert_eq!(needed_c_library(bytes), None);
        }
    }

    #[test]
    fn fields_and_banner_are_found() {
        let info = fields(b"alias=x\0version=580.95.05\0license=Dual MIT/GPL\0srcversion=ABC\0");
        assert_eq!(info.version.as_deref(), Some("580.95.05"));
        assert_eq!(info.license.as_deref(), Some("Dual MIT/GPL"));
        assert_eq!(
            banner(b"..GNU C Library (GNU libc) stable release version 2.34.\nCopy"),
            Some("2.34".to_owned())
        );
        assert_eq!(banner(b"no such"), None);
    }
}
