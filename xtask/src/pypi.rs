//! PyPI, the public index of Python packages: its contents, and files inside wheels. Only the
//! needed parts are downloaded: a wheel is a zip archive, whose directory is at its end.

use crate::Result;
use flate2::read::DeflateDecoder;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The number of wheels read in parallel: most of the time is spent waiting.
pub const READERS: usize = 8;

/// Runs a function for many wheels in parallel. The results have the order of the jobs; the first
/// error is returned.
pub fn for_each<J: Sync, R: Send>(
    jobs: &[J],
    readers: usize,
    read: impl Fn(&J) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..readers {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(n) else { break };
                    let result = read(job);
                    results.lock().expect("no reader panics").insert(n, result);
                }
            });
        }
    });
    results
        .into_inner()
        .map_err(|e| e.to_string())?
        .into_values()
        .collect()
}

/// A package index, with the pages and the metadata that were read of it: many releases share them.
pub struct Index<'a> {
    address: &'a str,
    pages: Mutex<BTreeMap<String, Arc<Page>>>,
    metadata: Mutex<BTreeMap<String, Arc<str>>>,
}

impl<'a> Index<'a> {
    pub fn new(address: &'a str) -> Self {
        Self {
            address,
            pages: Mutex::default(),
            metadata: Mutex::default(),
        }
    }

    /// The page of a package.
    pub fn page(&self, package: &str) -> Result<Arc<Page>> {
        once(&self.pages, package.to_owned(), || {
            page(self.address, package).map(Arc::new)
        })
    }

    /// The metadata of a wheel.
    pub fn metadata(&self, file: &File) -> Result<Arc<str>> {
        once(&self.metadata, file.filename.clone(), || {
            let members = directory(file)?;
            let member = members
                .iter()
                .find(|member| member.path.ends_with(".dist-info/METADATA"));
            let member = member.ok_or_else(|| format!("{}: no METADATA", file.filename))?;
            Ok(member.text(file)?.into())
        })
    }
}

/// What is known under a name, or what is read now and kept. Nothing waits while it is read.
pub fn once<K: Ord, V: Clone>(
    known: &Mutex<BTreeMap<K, V>>,
    name: K,
    read: impl FnOnce() -> Result<V>,
) -> Result<V> {
    if let Some(value) = known.lock().map_err(|e| e.to_string())?.get(&name) {
        return Ok(value.clone());
    }
    let value = read()?;
    let mut known = known.lock().map_err(|e| e.to_string())?;
    known.insert(name, value.clone());
    Ok(value)
}

/// A package's page in the format of PEP 691.
#[derive(Deserialize)]
pub struct Page {
    /// Every file, oldest first.
    pub files: Vec<File>,
}

#[derive(Deserialize, Clone)]
#[serde(rename_all = "kebab-case")]
pub struct File {
    /// The file name, which contains the version and platform.
    pub filename: String,
    /// The URL, on the host of PyPI's files.
    pub url: String,
    /// The size in bytes.
    pub size: u64,
    #[serde(default)]
    hashes: BTreeMap<String, String>,
    /// `>=3.10`.
    #[serde(default)]
    pub requires_python: Option<String>,
    #[serde(default)]
    yanked: serde_json::Value,
}

/// The parts of a wheel's file name.
pub struct WheelName<'a> {
    /// `12.4.127`.
    pub version: &'a str,
    /// `cp312`.
    pub python: &'a str,
    /// `abi3`.
    pub abi: &'a str,
    /// `manylinux_2_27_x86_64`.
    pub platform: &'a str,
}

impl WheelName<'_> {
    /// Whether it is for the Python without a global lock (`cp314t`), which nobody has unasked.
    pub fn is_free_threaded(&self) -> bool {
        self.abi.starts_with("cp") && self.abi.ends_with('t')
    }
}

impl File {
    /// Its SHA-256 in hexadecimal.
    pub fn sha256(&self) -> Option<&str> {
        self.hashes.get("sha256").map(String::as_str)
    }

    /// The parts of the name; none if it is not a Linux wheel of a release.
    pub fn wheel(&self) -> Option<WheelName<'_>> {
        let parts: Vec<_> = self.filename.strip_suffix(".whl")?.split('-').collect();
        let [_, version, .., python, abi, platform] = parts.as_slice() else {
            return None;
        };
        let is_release = version
            .split('.')
            .all(|n| n.trim_start_matches("post").parse::<u32>().is_ok());
        let for_linux = platform.contains("linux") || *platform == "any";
        let kept = is_release
            && for_linux
            && !matches!(
                self.yanked,
                serde_json::Value::Bool(true) | serde_json::Value::String(_)
            );
        kept.then_some(WheelName {
            version,
            python,
            abi,
            platform,
        })
    }
}

/// A package's page in the index.
pub fn page(index: &str, package: &str) -> Result<Page> {
    let url = format!("{}/{package}/", index.trim_end_matches('/'));
    let page = curl(&[
        "--header",
        "Accept: application/vnd.pypi.simple.v1+json",
        &url,
    ])?;
    serde_json::from_slice(&page).map_err(|e| format!("{url}: {e}"))
}

/// The oldest glibc among a platform's tags, of which pip needs one:
/// `manylinux_2_27_x86_64.manylinux_2_28_x86_64`.
pub fn glibc_of(platform: &str) -> Option<[u32; 2]> {
    let tag = |tag: &str| {
        let rest = tag.strip_prefix("manylinux")?;
        if let Some(rest) = rest.strip_prefix('_') {
            let mut numbers = rest.split('_').map_while(|n| n.parse().ok());
            return Some([numbers.next()?, numbers.next()?]);
        }
        match rest.split('_').next()? {
            "1" => Some([2, 5]),
            "2010" => Some([2, 12]),
            "2014" => Some([2, 17]),
            _ => None,
        }
    };
    platform.split('.').filter_map(tag).min()
}

/// The numbers of a version, for sorting: 0.0.33.post2 comes after 0.0.33.
pub fn numbers(version: &str) -> Vec<u32> {
    version
        .split('.')
        .filter_map(|n| n.trim_start_matches("post").parse().ok())
        .collect()
}

/// A file in a wheel.
pub struct Member {
    /// Its path in the wheel.
    pub path: String,
    /// The compressed size in bytes.
    pub packed: u64,
    offset: u64,
    method: u64,
}

impl Member {
    /// The whole content.
    pub fn text(&self, file: &File) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.read(file, u64::MAX)?).into_owned())
    }

    /// The content, as far as its first `most` bytes in the wheel contain it.
    pub fn read(&self, file: &File, most: u64) -> Result<Vec<u8>> {
        let packed = part(file, self.begin(file)?, self.packed.min(most))?;
        if self.method == 0 {
            return Ok(packed);
        }
        let mut contents = Vec::new();
        match DeflateDecoder::new(&*packed).read_to_end(&mut contents) {
            // A truncated stream ends early; the data before that is valid.
            Err(e) if most >= self.packed => Err(format!("{}: {e}", self.path)),
            _ => Ok(contents),
        }
    }

    /// The content as a stream, for files of gigabytes.
    pub fn stream(&self, file: &File) -> Result<Box<dyn Read>> {
        let begin = self.begin(file)?;
        let mut curl = Command::new("curl")
            .args([
                "--silent",
                "--fail",
                "--location",
                "--range",
                &range(file, begin, self.packed),
                &file.url,
            ])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("curl: {e}"))?;
        let packed = Download {
            body: curl.stdout.take().ok_or("curl has no output")?,
            curl,
            left: self.packed,
        };
        Ok(if self.method == 0 {
            Box::new(packed)
        } else {
            Box::new(DeflateDecoder::new(packed))
        })
    }

    /// The offset of its compressed data in the wheel.
    fn begin(&self, file: &File) -> Result<u64> {
        let header = part(file, self.offset, 30)?;
        Ok(self.offset + 30 + number(&header, 26, 2)? + number(&header, 28, 2)?)
    }
}

/// A download by curl. Ending early is an error.
struct Download {
    curl: Child,
    body: ChildStdout,
    left: u64,
}

impl Read for Download {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.body.read(buffer)?;
        self.left -= (count as u64).min(self.left);
        if count == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(std::io::Error::other(format!(
                "the download ended {} bytes early",
                self.left
            )));
        }
        Ok(count)
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        let _ = self.curl.kill();
        let _ = self.curl.wait();
    }
}

fn part(file: &File, from: u64, length: u64) -> Result<Vec<u8>> {
    curl(&["--range", &range(file, from, length), &file.url])
}

fn range(file: &File, from: u64, length: u64) -> String {
    format!(
        "{from}-{}",
        (from + length).min(file.size).saturating_sub(1)
    )
}

/// The files in a wheel, a zip archive: its end gives the place of its directory.
pub fn directory(file: &File) -> Result<Vec<Member>> {
    const END: usize = 64 * 1024;
    let short = || "not a zip archive".to_owned();
    let tail = part(file, file.size.saturating_sub(END as u64), END as u64)?;
    let find = |signature: &[u8]| tail.windows(4).rposition(|bytes| bytes == signature);
    let end = find(b"PK\x05\x06").ok_or_else(short)?;
    let (mut length, mut start) = (number(&tail, end + 12, 4)?, number(&tail, end + 16, 4)?);
    if let Some(end) = find(b"PK\x06\x06")
        .filter(|_| start == u64::from(u32::MAX) || length == u64::from(u32::MAX))
    {
        (length, start) = (number(&tail, end + 40, 8)?, number(&tail, end + 48, 8)?);
    }
    let directory = part(file, start, length)?;
    let (mut found, mut at) = (Vec::new(), 0);
    while directory.get(at..at + 4) == Some(b"PK\x01\x02") {
        let field = |offset, bytes| number(&directory, at + offset, bytes);
        let size = |offset| field(offset, 2).map(|n| n as usize);
        let (name_length, extra_length, comment) = (size(28)?, size(30)?, size(32)?);
        let name = directory
            .get(at + 46..at + 46 + name_length)
            .ok_or_else(short)?;
        let path = String::from_utf8_lossy(name).into_owned();
        let (method, packed, offset) = (field(10, 2)?, field(20, 4)?, field(42, 4)?);
        if offset == u64::from(u32::MAX) {
            return Err(format!("{path} is beyond 4 GiB"));
        }
        found.push(Member {
            path,
            packed,
            offset,
            method,
        });
        at += 46 + name_length + extra_length + comment;
    }
    Ok(found)
}

/// A little-endian number of `length` bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> Result<u64> {
    let bytes = bytes.get(at..at + length).ok_or("a short zip archive")?;
    Ok(bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// What curl downloads.
pub fn curl(arguments: &[&str]) -> Result<Vec<u8>> {
    let out = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--fail",
            "--location",
            "--retry",
            "5",
            "--max-time",
            "120",
        ])
        .args(arguments)
        .output()
        .map_err(|e| format!("curl: {e}"))?;
    if out.status.success() {
        Ok(out.stdout)
    } else {
        Err(String::from_utf8_lossy(&out.stderr).trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_name_the_oldest_glibc() {
        assert_eq!(
            glibc_of("manylinux_2_27_x86_64.manylinux_2_28_x86_64"),
            Some([2, 27])
        );
        assert_eq!(glibc_of("manylinux2014_aarch64"), Some([2, 17]));
        assert_eq!(glibc_of("any"), None);
    }
}
