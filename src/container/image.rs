//! Images of containers, as far as their configuration: from an archive that `docker save` or `podman save` made, from an OCI layout
//! in a folder or archive, or from a container engine that has them. Nothing is pulled, unpacked or run. An archive may come from
//! anybody: only small JSON files of it are kept, up to a limit, and no name in it becomes a path.

use crate::sum::hex;
use crate::system::input::{self, InputError};
use crate::system::trust::Trust;
use crate::system::{Program, System, interrupt};
use crate::zst;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

/// No file of an image's description is longer.
const MOST_BYTES: u64 = 4 << 20;
/// All that are kept together.
const MOST_KEPT: u64 = 64 << 20;
/// What is read of an archive, unpacked, before its description must have come.
const MOST_READ: u64 = 1 << 40;
/// zstd may look back so far, as a power of two in bytes.
const WINDOW: u32 = 27;

/// What the description of an image says about GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// Its environment.
    pub variables: BTreeMap<String, String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The processors that it is for, `amd64`.
    pub architecture: Option<String>,
    /// Where the description came from: a file, or an engine.
    pub from: String,
}

/// Why an image cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file or folder cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The archive cannot be read.
    #[error("cannot read {path}: {why}")]
    Read {
        /// The archive.
        path: String,
        /// The reason.
        why: io::Error,
    },
    /// It is something else, or it is damaged.
    #[error("{path} is no image: {why}")]
    NoImage {
        /// The file, folder or engine.
        path: String,
        /// The reason.
        why: String,
    },
    /// A part of it has another checksum.
    #[error("{path} is damaged: {what} has another checksum")]
    Damaged {
        /// The file or folder.
        path: String,
        /// The part.
        what: String,
    },
    /// No engine of this host has it.
    #[error("no container engine of this host has the image {0}")]
    Unknown(String),
    /// A signal arrived.
    #[error("interrupted by signal {0}")]
    Interrupted(u8),
}

/// Reads an image in a file or folder.
///
/// # Errors
///
/// If it is none.
pub fn in_file(path: &Path, architecture: &str) -> Result<Image, ImageError> {
    let file = input::open_any(path, &Trust::Anybody)?;
    let name = path.display().to_string();
    let is_folder = input::metadata(path).is_some_and(|meta| meta.is_dir());
    let mut files: Box<dyn Files> = if is_folder { Box::new(Folder(path)) } else { Box::new(kept(file, &name)?) };
    described(&mut *files, &name, architecture)
}

/// The small files of an image, by their names.
trait Files {
    fn file(&mut self, name: &str) -> Result<Option<Vec<u8>>, ImageError>;
}

/// A folder with an OCI layout. Names come from here and from digests.
struct Folder<'a>(&'a Path);

impl Files for Folder<'_> {
    fn file(&mut self, name: &str) -> Result<Option<Vec<u8>>, ImageError> {
        let path = self.0.join(name);
        match input::open(&path) {
            Ok(file) => Ok(Some(input::bytes(file, &path, MOST_BYTES)?)),
            Err(e) if e.is_absent() => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

impl Files for BTreeMap<String, Vec<u8>> {
    fn file(&mut self, name: &str) -> Result<Option<Vec<u8>>, ImageError> {
        Ok(self.get(name).cloned())
    }
}

/// The files of an archive that may describe the image.
fn kept(file: File, path: &str) -> Result<BTreeMap<String, Vec<u8>>, ImageError> {
    let failed = |why| ImageError::Read { path: path.to_owned(), why };
    let not = |why: &str| ImageError::NoImage { path: path.to_owned(), why: why.to_owned() };
    let unpacked = decoder(BufReader::new(file)).map_err(failed)?;
    let mut archive = tar::Archive::new(unpacked.take(MOST_READ));
    let (mut kept, mut total) = (BTreeMap::new(), 0);
    let entries = archive.entries().map_err(failed)?;
    // Raw: longer names than a header has could take any amount of memory.
    for entry in entries.raw(true) {
        if let Some(signal) = interrupt::heard() {
            return Err(ImageError::Interrupted(signal));
        }
        let mut entry = entry.map_err(|why| match kept.is_empty() {
            true => not(&format!("it is no tar archive ({why})")),
            false => failed(why),
        })?;
        let name = String::from_utf8_lossy(&entry.header().path_bytes()).into_owned();
        let name = name.strip_prefix("./").unwrap_or(&name).to_owned();
        let size = entry.size();
        let is_described = name.ends_with(".json") || name.starts_with("blobs/");
        if entry.header().entry_type() != tar::EntryType::Regular || size > MOST_BYTES || !is_described {
            continue;
        }
        let mut bytes = Vec::new();
        entry.by_ref().take(1).read_to_end(&mut bytes).map_err(failed)?;
        if !matches!(bytes.first(), Some(b'{' | b'[')) {
            continue;
        }
        total += size;
        if total > MOST_KEPT {
            return Err(not("it has more JSON than an image"));
        }
        entry.read_to_end(&mut bytes).map_err(failed)?;
        kept.insert(name, bytes);
    }
    Ok(kept)
}

/// What is in an archive, which may be packed.
fn decoder(mut from: impl BufRead + 'static) -> io::Result<Box<dyn Read>> {
    let start = from.fill_buf()?;
    Ok(match start {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(from)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zst::Decoder::with_buffer(from)?.window(WINDOW)?),
        _ => Box::new(from),
    })
}

/// The description of the image: by Docker's manifest, else by the index of an OCI layout.
fn described(files: &mut dyn Files, path: &str, architecture: &str) -> Result<Image, ImageError> {
    let not = |why: &str| ImageError::NoImage { path: path.to_owned(), why: why.to_owned() };
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).map_err(|e| not(&e.to_string()));
    if let Some(manifest) = files.file("manifest.json")? {
        let manifest = read(&manifest)?;
        let first = manifest.get(0).and_then(|image| image.get("Config")?.as_str());
        if let Some(name) = first {
            if name.starts_with('/') || name.split('/').any(|part| part == "..") {
                return Err(not("its manifest names a file outside of it"));
            }
            let config = files.file(name)?.ok_or_else(|| not("it lacks the configuration that its manifest names"))?;
            let digest = name.rsplit('/').next().unwrap_or(name);
            verified(&config, digest.strip_suffix(".json").unwrap_or(digest), path)?;
            return Ok(of_config(&read(&config)?, path.to_owned()));
        }
    }
    let index = files.file("index.json")?.ok_or_else(|| not("it has neither manifest.json nor index.json"))?;
    let mut list = read(&index)?;
    // An index of indexes is one image for several processors.
    for _ in 0..4 {
        let chosen = chosen(&list, architecture).ok_or_else(|| not("its index names no image"))?;
        let bytes = blob(files, &chosen, path)?.ok_or_else(|| not("it lacks the manifest that its index names"))?;
        let manifest = read(&bytes)?;
        if let Some(digest) = manifest.pointer("/config/digest").and_then(Value::as_str) {
            let config =
                blob(files, digest, path)?.ok_or_else(|| not("it lacks the configuration that its manifest names"))?;
            return Ok(of_config(&read(&config)?, path.to_owned()));
        }
        list = manifest;
    }
    Err(not("its indexes lead to no image"))
}

/// The image in an index that is for these processors, or else the first one.
fn chosen(index: &Value, architecture: &str) -> Option<String> {
    let all = index.get("manifests")?.as_array()?;
    let of = |entry: &Value| entry.pointer("/platform/architecture").and_then(Value::as_str).map(str::to_owned);
    let wanted = all.iter().find(|entry| of(entry).as_deref() == Some(architecture));
    // What says how an image was built is for unknown processors.
    let first = all.iter().find(|entry| of(entry).as_deref() != Some("unknown"));
    Some(wanted.or(first)?.get("digest")?.as_str()?.to_owned())
}

fn blob(files: &mut dyn Files, digest: &str, path: &str) -> Result<Option<Vec<u8>>, ImageError> {
    let not = || ImageError::NoImage { path: path.to_owned(), why: "a digest in it is not SHA-256".to_owned() };
    let sum = digest.strip_prefix("sha256:").filter(|sum| is_sum(sum)).ok_or_else(not)?;
    let Some(bytes) = files.file(&format!("blobs/sha256/{sum}"))? else { return Ok(None) };
    verified(&bytes, sum, path)?;
    Ok(Some(bytes))
}

fn is_sum(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// A file whose name is a checksum has this one.
fn verified(bytes: &[u8], name: &str, path: &str) -> Result<(), ImageError> {
    if is_sum(name) && hex(&Sha256::digest(bytes)) != name {
        return Err(ImageError::Damaged { path: path.to_owned(), what: name.to_owned() });
    }
    Ok(())
}

/// The part of a configuration that is about GPUs. Docker's engine writes `Config`, files have `config`.
fn of_config(value: &Value, from: String) -> Image {
    let inner = |name: &str| {
        [format!("/config/{name}"), format!("/Config/{name}")].iter().find_map(|place| value.pointer(place))
    };
    let variables = inner("Env").and_then(Value::as_array).into_iter().flatten();
    let variable =
        |entry: &Value| entry.as_str()?.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let labels = inner("Labels").and_then(Value::as_object).into_iter().flatten();
    let label = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    let architecture = value.get("architecture").or_else(|| value.get("Architecture")).and_then(Value::as_str);
    Image {
        variables: variables.filter_map(variable).collect(),
        labels: labels.filter_map(label).collect(),
        architecture: architecture.filter(|name| !name.is_empty()).map(str::to_owned),
        from,
    }
}

/// The engines that may have an image.
const ENGINES: [(&str, &str); 3] =
    [("docker", "/usr/bin/docker"), ("podman", "/usr/bin/podman"), ("nerdctl", "/usr/local/bin/nerdctl")];

/// Reads an image that an engine of this host has, under this name.
///
/// # Errors
///
/// If none has it.
pub fn in_engine(system: &System, name: &str) -> Result<Image, ImageError> {
    // An engine in a tree has no daemon, and its images are not this host's.
    let engines = ENGINES.into_iter().filter(|(_, program)| system.is_live() && system.exists(program));
    for (engine, program) in engines {
        let inspect = Program::new([program, "image", "inspect", "--", name]).limit(Duration::from_secs(60));
        let Ok(output) = system.run(&inspect) else { continue };
        let Some(start) = output.text.find('[').filter(|_| output.succeeded()) else { continue };
        let mut values = serde_json::Deserializer::from_str(&output.text[start..]).into_iter::<Value>();
        let Some(Ok(Value::Array(all))) = values.next() else { continue };
        if let Some(first) = all.first() {
            return Ok(of_config(first, engine.to_owned()));
        }
    }
    Err(ImageError::Unknown(name.to_owned()))
}
