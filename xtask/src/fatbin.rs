//! Fat binaries, which contain the code of kernels for several GPUs: machine code, which CUDA calls
//! `sm_90`, and PTX, `compute_90`, which the driver compiles for newer GPUs. Only headers are read,
//! and the start of PTX, which names its target.

use crate::Result;
use gpusetup_database::version::ComputeCapability;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;
use std::str::FromStr;

/// The start of a fat binary: the magic number, version 1, and the size of that header.
const BEGINNING: [u8; 8] = [0x50, 0xed, 0x55, 0xba, 1, 0, HEADER as u8, 0];
const HEADER: usize = 16;

/// An upper limit for the size of a fat binary, in bytes.
const MAX_FATBIN_BYTES: u64 = 1 << 31;

/// The length of the fields that every entry's header has.
const ENTRY: usize = 64;

/// The kinds of entries.
const PTX: u64 = 1;
const MACHINE_CODE: u64 = 2;

/// The meaning of an entry's flags: measured with nvcc 12.4 and 13.2.
const IS_LZ4: u64 = 0x2000;
const IS_ZSTD: u64 = 0x8000;
const IS_ARCHITECTURE_SPECIFIC: u64 = 0x10_0000;
const IS_FAMILY_SPECIFIC: u64 = 0x20_0000;

/// The target of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    capability: ComputeCapability,
    scope: Scope,
    is_ptx: bool,
}

/// Which GPUs run it besides the one it is named after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    /// `sm_90`: newer GPUs, for machine code of the same major version.
    Newer,
    /// `sm_90a`: no others.
    Architecture,
    /// `sm_100f`: newer GPUs of the same major version.
    Family,
}

impl Target {
    /// Whether it is for a single architecture.
    pub fn is_exact(&self) -> bool {
        self.scope == Scope::Architecture
    }

    /// Whether a GPU runs it.
    pub fn runs_on(&self, gpu: ComputeCapability) -> bool {
        match self.scope {
            Scope::Architecture => gpu == self.capability,
            Scope::Newer if self.is_ptx => gpu >= self.capability,
            Scope::Newer | Scope::Family => {
                gpu.major == self.capability.major && gpu >= self.capability
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_ptx { "compute" } else { "sm" };
        let scope = match self.scope {
            Scope::Newer => "",
            Scope::Architecture => "a",
            Scope::Family => "f",
        };
        write!(
            f,
            "{kind}_{}{}{scope}",
            self.capability.major, self.capability.minor
        )
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (kind, name) = text.split_once('_')?;
            let digits = name.trim_end_matches(['a', 'f']);
            let scope = match &name[digits.len()..] {
                "" => Scope::Newer,
                "a" => Scope::Architecture,
                "f" => Scope::Family,
                _ => return None,
            };
            let number: u8 = digits.parse().ok()?;
            let capability = ComputeCapability {
                major: number / 10,
                minor: number % 10,
            };
            (kind == "sm" || kind == "compute").then_some(Self {
                capability,
                scope,
                is_ptx: kind == "compute",
            })
        };
        parse().ok_or_else(|| format!("`{text}` is not a target such as sm_90 or compute_90a"))
    }
}

/// The number of fat binaries for each set of targets.
pub type Counts = BTreeMap<BTreeSet<Target>, usize>;

/// Adds the fat binaries of a library.
pub fn add(counts: &mut Counts, mut library: impl Read) -> Result<()> {
    const CHUNK: u64 = 4 << 20;
    let mut bytes = Vec::new();
    loop {
        let count = library
            .by_ref()
            .take(CHUNK)
            .read_to_end(&mut bytes)
            .map_err(|e| e.to_string())?;
        let used = add_whole(counts, &bytes)?;
        if count == 0 {
            return Ok(());
        }
        bytes.drain(..used);
    }
}

/// Adds the complete ones in these bytes; returns how many of the bytes are no longer needed.
fn add_whole(counts: &mut Counts, bytes: &[u8]) -> Result<usize> {
    let mut used = 0;
    for at in memchr::memmem::find_iter(bytes, &BEGINNING) {
        // A match inside a fat binary is not another one.
        if at < used {
            continue;
        }
        let Some(size) = number(bytes, at + 8, 8) else {
            return Ok(at);
        };
        let Some(size) = usize::try_from(size)
            .ok()
            .filter(|_| size < MAX_FATBIN_BYTES)
        else {
            continue;
        };
        let begin = at + HEADER;
        let Some(entries) = bytes.get(begin..begin + size) else {
            return Ok(at);
        };
        let targets = targets(entries)?;
        if !targets.is_empty() {
            *counts.entry(targets).or_default() += 1;
            used = begin + size;
        }
    }
    Ok(used.max(bytes.len().saturating_sub(BEGINNING.len() - 1)))
}

/// The targets of a fat binary's entries.
fn targets(mut entries: &[u8]) -> Result<BTreeSet<Target>> {
    let mut targets = BTreeSet::new();
    while entries.len() >= ENTRY {
        let field = |at, length| number(entries, at, length).unwrap_or_default();
        let (header, length) = (field(4, 4), field(8, 8));
        let (Ok(header), Ok(length)) = (usize::try_from(header), usize::try_from(length)) else {
            break;
        };
        let Some(contents) = header
            .checked_add(length)
            .and_then(|end| entries.get(header..end))
        else {
            break;
        };
        let (kind, flags, packed) = (field(0, 2), field(40, 8), field(16, 4));
        let (Ok(number), true) = (
            u8::try_from(field(28, 4)),
            kind == PTX || kind == MACHINE_CODE,
        ) else {
            break;
        };
        let scope = match flags {
            _ if flags & IS_ARCHITECTURE_SPECIFIC != 0 => Scope::Architecture,
            _ if flags & IS_FAMILY_SPECIFIC != 0 => Scope::Family,
            _ => Scope::Newer,
        };
        let capability = ComputeCapability {
            major: number / 10,
            minor: number % 10,
        };
        let mut target = Target {
            capability,
            scope,
            is_ptx: kind == PTX,
        };
        if kind == PTX {
            let packed = usize::try_from(packed)
                .ok()
                .filter(|packed| *packed > 0)
                .unwrap_or(length);
            let text = beginning(contents.get(..packed).unwrap_or(contents), flags)?;
            // The header is incomplete if another compiler than nvcc wrote it.
            target = target_of(&text).ok_or_else(|| format!("PTX for {target} names no target"))?;
        }
        targets.insert(target);
        entries = &entries[header + length..];
    }
    Ok(targets)
}

/// The target in PTX: `.target sm_90a, debug`.
fn target_of(ptx: &[u8]) -> Option<Target> {
    let text = String::from_utf8_lossy(ptx);
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(".target "))?;
    let target: Target = line.split(',').next()?.trim().parse().ok()?;
    Some(Target {
        is_ptx: true,
        ..target
    })
}

/// The start of the packed text, at least as much as PTX needs to name its target.
fn beginning(packed: &[u8], flags: u64) -> Result<Vec<u8>> {
    const ENOUGH: usize = 4096;
    let mut text = Vec::new();
    if flags & IS_ZSTD != 0 {
        let decoder = zstd::Decoder::new(packed).map_err(|e| format!("PTX: {e}"))?;
        decoder
            .take(ENOUGH as u64)
            .read_to_end(&mut text)
            .map_err(|e| format!("PTX: {e}"))?;
    } else if flags & IS_LZ4 != 0 {
        text =
            lz4(packed, ENOUGH).ok_or("PTX with a compression that does not match its header")?;
    } else {
        text = packed[..packed.len().min(ENOUGH)].to_vec();
    }
    Ok(text)
}

/// Unpacks the start of an LZ4 block: literal bytes and copies of earlier ones alternate.
fn lz4(mut packed: &[u8], enough: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    while let (Some((token, rest)), true) = (packed.split_first(), out.len() < enough) {
        packed = rest;
        let literals = lz4_length(&mut packed, token >> 4)?;
        out.extend_from_slice(packed.get(..literals)?);
        packed = &packed[literals..];
        // A block ends in literal bytes.
        let Some((offset, rest)) = packed.split_first_chunk::<2>() else {
            break;
        };
        packed = rest;
        let copied = lz4_length(&mut packed, token & 15)? + 4;
        let from = out
            .len()
            .checked_sub(u16::from_le_bytes(*offset).into())
            .filter(|from| *from < out.len())?;
        for n in from..from + copied {
            out.push(out[n]);
        }
    }
    Some(out)
}

/// A length: four bits, and more bytes to add if these are all ones.
fn lz4_length(packed: &mut &[u8], start: u8) -> Option<usize> {
    let (mut length, mut last) = (usize::from(start), if start == 15 { 255 } else { 0 });
    while last == 255 {
        let (byte, rest) = packed.split_first()?;
        *packed = rest;
        last = *byte;
        length += usize::from(last);
    }
    Some(length)
}

/// A little-endian number of `length` bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: u8, architecture: u8, flags: u64, contents: &[u8]) -> Vec<u8> {
        let mut entry = vec![0; ENTRY];
        (entry[0], entry[4], entry[8], entry[28]) = (
            kind,
            64,
            u8::try_from(contents.len()).expect("short"),
            architecture,
        );
        entry[40..48].copy_from_slice(&flags.to_le_bytes());
        [entry, contents.to_vec()].concat()
    }

    fn fat_binary(entries: &[Vec<u8>]) -> Vec<u8> {
        let entries = entries.concat();
        let size = u64::try_from(entries.len()).expect("a size");
        [&BEGINNING[..], &size.to_le_bytes(), &entries].concat()
    }

    fn found(library: &[u8]) -> Vec<String> {
        let mut counts = Counts::new();
        add(&mut counts, library).expect("no error");
        let text = |(targets, count): (&BTreeSet<Target>, &usize)| {
            let names: Vec<_> = targets.iter().map(Target::to_string).collect();
            format!("{count}: {}", names.join(" "))
        };
        counts.iter().map(text).collect()
    }

    const TEXT: &[u8] = b"//\n.version 8.5\n.target sm_90a\n.address_size 64\n";

    #[test]
    fn the_targets_of_fat_binaries_are_read() {
        let one = fat_binary(&[
            entry(2, 80, 0x11, &[7; 9]),
            entry(2, 90, 0x10_0011, b""),
            entry(2, 100, 0x20_0011, b""),
        ]);
        let other = fat_binary(&[entry(2, 70, 0x11, b""), entry(1, 90, 0x11, TEXT)]);
        let library = [b"ELF", &one[..], b"between", &other, &one, b"rest"].concat();
        // The target in the PTX text takes precedence: TensorFlow 2.20 calls this compute_90.
        assert_eq!(
            found(&library),
            ["1: sm_70 compute_90a", "2: sm_80 sm_90a sm_100f"]
        );
        // The input may arrive in chunks of any size.
        for split in 0..library.len() {
            let mut counts = Counts::new();
            let used = add_whole(&mut counts, &library[..split]).expect("no error");
            add_whole(&mut counts, &library[used..]).expect("no error");
            assert_eq!(counts.values().sum::<usize>(), 3, "{split}");
        }
    }

    #[test]
    fn packed_ptx_names_its_target() {
        let zstd = zstd::encode_all(TEXT, 1).expect("packed");
        // Literal bytes, then a copy of eight of them, then the rest.
        let lz4 = [&[0xf4, 11][..], &TEXT[..26], &[26, 0, 0x80], b"8 bytes."].concat();
        for (flags, packed) in [(IS_ZSTD, zstd), (IS_LZ4, [&[0xf0, 33][..], TEXT].concat())] {
            assert_eq!(
                found(&fat_binary(&[entry(1, 90, flags, &packed)])),
                ["1: compute_90a"],
                "{flags:x}"
            );
        }
        let unpacked = self::lz4(&lz4, 4096).expect("a block");
        assert_eq!(unpacked, [&TEXT[..26], &TEXT[..8], b"8 bytes."].concat());
    }

    #[test]
    fn what_only_looks_like_a_fat_binary_is_passed_over() {
        assert_eq!(found(&BEGINNING), Vec::<String>::new());
        assert_eq!(
            found(&[&BEGINNING[..], &[255; 8], &[7; 80]].concat()),
            Vec::<String>::new()
        );
        assert_eq!(
            found(&fat_binary(&[entry(2, 70, 0, &[1; 20])])[..60]),
            Vec::<String>::new()
        );
        assert_eq!(
            found(&fat_binary(&[entry(9, 70, 0, b"")])),
            Vec::<String>::new()
        );
    }

    #[test]
    fn gpus_run_what_was_made_for_them_or_is_compatible() {
        let runs = |target: &str, gpu: &str| {
            let target: Target = target.parse().expect("a target");
            target.runs_on(gpu.parse().expect("a capability"))
        };
        for (target, gpu) in [
            ("sm_80", "8.0"),
            ("sm_80", "8.9"),
            ("sm_90a", "9.0"),
            ("sm_100f", "10.3"),
            ("compute_90", "12.0"),
            ("compute_90a", "9.0"),
            ("compute_100f", "10.3"),
        ] {
            assert!(runs(target, gpu), "{target} on {gpu}");
        }
        for (target, gpu) in [
            ("sm_86", "8.0"),
            ("sm_80", "9.0"),
            ("sm_90a", "10.0"),
            ("sm_100a", "10.3"),
            ("sm_100f", "12.0"),
            ("compute_90", "8.9"),
            ("compute_90a", "12.0"),
            ("compute_100f", "12.0"),
        ] {
            assert!(!runs(target, gpu), "{target} on {gpu}");
        }
    }
}
