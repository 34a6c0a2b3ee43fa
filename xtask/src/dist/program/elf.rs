//! The versions of shared libraries' symbols that a program needs.

use crate::pypi::numbers;
use object::elf::{FileHeader64, SHT_DYNSYM, STB_WEAK, VER_FLG_WEAK, VERSYM_VERSION};
use object::read::elf::FileHeader;
use object::{LittleEndian, U16};
use std::collections::BTreeSet;

type Header = FileHeader64<LittleEndian>;

/// A version that the loader looks for before the program starts.
struct Version {
    /// `GLIBC_2.17`.
    name: String,
    /// Whether the program starts without it, too.
    is_optional: bool,
    /// Whether only weak symbols have it: the program checks whether they are there.
    is_only_weak: bool,
    /// Where its flags are in the file.
    flags: usize,
}

/// The architecture, as printed by `uname -m`; none if it is another one, or no program.
pub fn architecture(bytes: &[u8]) -> Option<&'static str> {
    let header = Header::parse(bytes).ok()?;
    header.endian().ok()?;
    match header.e_machine.get(LittleEndian) {
        object::elf::EM_X86_64 => Some("x86_64"),
        object::elf::EM_AARCH64 => Some("aarch64"),
        object::elf::EM_PPC64 => Some("ppc64le"),
        _ => None,
    }
}

/// The oldest glibc that the program starts with.
pub fn glibc(bytes: &[u8]) -> object::read::Result<[u32; 2]> {
    let needed = versions(bytes)?
        .into_iter()
        .filter(|version| !version.is_optional);
    let known =
        needed.filter_map(
            |version| match numbers(version.name.strip_prefix("GLIBC_")?)[..] {
                [major, minor, ..] => Some([major, minor]),
                _ => None,
            },
        );
    Ok(known.max().unwrap_or([2, 0]))
}

/// Lets the program start without the versions that only weak symbols have. Linkers leave the flag
/// out, but glibc's loader knows it.
pub fn mark_optional(bytes: &mut [u8]) -> object::read::Result<()> {
    for version in versions(bytes)?
        .iter()
        .filter(|version| version.is_only_weak)
    {
        let flags =
            u16::from_le_bytes([bytes[version.flags], bytes[version.flags + 1]]) | VER_FLG_WEAK;
        bytes[version.flags..version.flags + 2].copy_from_slice(&flags.to_le_bytes());
    }
    Ok(())
}

fn versions(bytes: &[u8]) -> object::read::Result<Vec<Version>> {
    let header = Header::parse(bytes)?;
    let sections = header.sections(header.endian()?, bytes)?;
    let symbols = sections.symbols(LittleEndian, bytes, SHT_DYNSYM)?;
    let (Some((of_symbols, _)), Some((mut libraries, _))) = (
        sections.gnu_versym(LittleEndian, bytes)?,
        sections.gnu_verneed(LittleEndian, bytes)?,
    ) else {
        return Ok(Vec::new());
    };
    let of_symbols = of_symbols
        .iter()
        .map(|version| version.0.get(LittleEndian) & VERSYM_VERSION);
    let strong: BTreeSet<u16> = symbols
        .iter()
        .zip(of_symbols)
        .filter(|(symbol, _)| symbol.st_bind() != STB_WEAK)
        .map(|(_, version)| version)
        .collect();
    let mut versions = Vec::new();
    while let Some((_, mut of_library)) = libraries.next()? {
        while let Some(version) = of_library.next()? {
            let name = version.name(LittleEndian, symbols.strings())?;
            versions.push(Version {
                name: String::from_utf8_lossy(name).into_owned(),
                is_optional: version.vna_flags.get(LittleEndian) & VER_FLG_WEAK != 0,
                is_only_weak: !strong
                    .contains(&(version.vna_other.get(LittleEndian) & VERSYM_VERSION)),
                flags: std::ptr::from_ref::<U16<LittleEndian>>(&version.vna_flags).addr()
                    - bytes.as_ptr().addr(),
            });
        }
    }
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    #[test]
    fn the_header_tells_the_architecture() {
        let mut program =
            fs::read(std::env::current_exe().expect("it runs")).expect("it can be read");
        for (machine, name) in [(62, "x86_64"), (183, "aarch64"), (21, "ppc64le")] {
            program[18] = machine;
            assert_eq!(architecture(&program), Some(name));
        }
        // ppc64, the other way around.
        program[5] = 2;
        program[18..20].rotate_left(1);
        assert_eq!(architecture(&program), None);
        assert_eq!(architecture(b"#!/bin/sh"), None);
    }

    #[test]
    fn a_program_starts_without_a_version_that_only_weak_symbols_have() {
        let folder = std::env::temp_dir().join(format!("xtask-versions-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("written");
        write("new.map", "GLIBC_9.9 { global: found; };");
        write("old.map", "GLIBC_9.8 { global: found; };");
        write("library.c", "void found(void) {}");
        write(
            "program.c",
            "extern void found(void) __attribute__((weak)); int main(void) { return found ? 1 : 0; }",
        );
        let cc = |arguments: &str| {
            let status = Command::new("cc")
                .args(arguments.split(' '))
                .current_dir(&folder)
                .status();
            assert!(status.expect("cc starts").success(), "cc {arguments}");
        };
        let library = |version: &str| {
            cc(&format!(
                "-shared -fPIC -o libfound.so library.c -Wl,-soname,libfound.so,--version-script={version}.map"
            ));
        };
        let program = folder.join("program");
        let run = || {
            Command::new(&program)
                .output()
                .expect("it starts")
                .status
                .code()
        };
        library("new");
        cc("-o program program.c -Wl,--no-as-needed,-rpath,$ORIGIN libfound.so");
        let before = fs::read(&program).expect("built");
        assert_eq!(glibc(&before), Ok([9, 9]));
        assert_eq!(run(), Some(1));
        library("old");
        assert_ne!(run(), Some(0));

        let mut bytes = before;
        mark_optional(&mut bytes).expect("a program");
        assert!(glibc(&bytes).expect("a program") < [9, 9]);
        fs::write(&program, bytes).expect("written");
        assert_eq!(run(), Some(0));
        library("new");
        assert_eq!(run(), Some(1));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
