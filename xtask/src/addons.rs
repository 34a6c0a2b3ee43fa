//! Archives and wheels of NVIDIA's add-on libraries: NCCL, TensorRT, cuTENSOR, cuSPARSELt, NVSHMEM
//! and cuDSS. NVIDIA's redistrib lists name their archives, and PyPI has the libraries as wheels.
//! NVIDIA publishes no lists for NCCL and TensorRT; theirs were made by others in the same format.
//! TensorRT has no wheels on PyPI.

use crate::pypi::{self, File, page};
use crate::redistrib::{self, ARCHITECTURES};
use crate::{Comparison, Result, table};
use gpusetup_database::compat::{AddOnArtifact, AddOnId, Artifact, Database};
use serde_json::{Map, Value};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const TABLE: &str = "addons.tsv";

const COLUMNS: &[&str] = &[
    "product",
    "version",
    "CUDA line",
    "architecture",
    "kind",
    "file",
    "url",
    "sha256",
    "bytes",
    "source",
];

/// The products with lists, by the names of the lists' folders.
const PRODUCTS: &[&str] = &[
    "nccl",
    "tensorrt",
    "cutensor",
    "cusparselt",
    "nvshmem",
    "cudss",
];

/// The packages of each product on PyPI, and their CUDA lines. The first wheels of cuTENSOR contain
/// libraries for several lines.
const PACKAGES: &[(&str, &str, &str)] = &[
    ("nccl", "nvidia-nccl-cu11", "11"),
    ("nccl", "nvidia-nccl-cu12", "12"),
    ("nccl", "nvidia-nccl-cu13", "13"),
    ("cutensor", "cutensor", ""),
    ("cutensor", "cutensor-cu11", "11"),
    ("cutensor", "cutensor-cu12", "12"),
    ("cutensor", "cutensor-cu13", "13"),
    ("cusparselt", "nvidia-cusparselt-cu12", "12"),
    ("cusparselt", "nvidia-cusparselt-cu13", "13"),
    ("nvshmem", "nvidia-nvshmem-cu11", "11"),
    ("nvshmem", "nvidia-nvshmem-cu12", "12"),
    ("nvshmem", "nvidia-nvshmem-cu13", "13"),
    ("cudss", "nvidia-cudss-cu12", "12"),
    ("cudss", "nvidia-cudss-cu13", "13"),
];

/// The server with a product's archives, if they can be downloaded without a login.
fn server(product: &str) -> String {
    match product {
        "tensorrt" => "https://developer.nvidia.com/downloads/compute/machine-learning".to_owned(),
        "nccl" => "https://developer.download.nvidia.com/compute/redist".to_owned(),
        _ => format!("https://developer.download.nvidia.com/compute/{product}/redist"),
    }
}

/// The server of PyPI's files.
const WHEELS: &str = "https://files.pythonhosted.org/packages/";

/// The kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Archive,
    Wheel,
}

/// An archive or a wheel of one product, for one architecture.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Addon {
    /// The product, `cutensor`.
    pub product: String,
    /// The version, `2.8.1.0`; a wheel's may lack the last number.
    pub version: String,
    /// The CUDA line, `13`, or `13.4` if the file name has the minor version; empty if the file is
    /// for several.
    pub line: String,
    /// The architecture: `x86_64`, `sbsa` or `ppc64le`.
    pub architecture: String,
    pub kind: Kind,
    pub file: String,
    pub url: String,
    pub sha256: String,
    /// The size in bytes, if the source has it.
    pub size: Option<u64>,
    /// The source: a repository that keeps NVIDIA's lists, PyPI, or others,
    /// `conda-forge,easybuild`.
    pub source: String,
}

impl Addon {
    fn row(&self) -> Vec<String> {
        let kind = match self.kind {
            Kind::Archive => "archive",
            Kind::Wheel => "wheel",
        };
        let (text, rest) = (
            [&self.product, &self.version, &self.line, &self.architecture],
            [&self.file, &self.url],
        );
        let mut row: Vec<_> = text.into_iter().cloned().collect();
        row.push(kind.to_owned());
        row.extend(rest.into_iter().cloned());
        let size = self.size.map(|size| size.to_string()).unwrap_or_default();
        row.extend([self.sha256.clone(), size, self.source.clone()]);
        row
    }

    fn of_row(row: &[String]) -> Result<Self> {
        let wrong = || format!("{TABLE}: {row:?}");
        let [
            product,
            version,
            line,
            architecture,
            kind,
            file,
            url,
            sha256,
            size,
            source,
        ] = row
        else {
            return Err(wrong());
        };
        let kind = match kind.as_str() {
            "archive" => Kind::Archive,
            "wheel" => Kind::Wheel,
            _ => return Err(wrong()),
        };
        let size = if size.is_empty() {
            None
        } else {
            Some(size.parse().map_err(|_| wrong())?)
        };
        let [
            product,
            version,
            line,
            architecture,
            file,
            url,
            sha256,
            source,
        ] = [
            product,
            version,
            line,
            architecture,
            file,
            url,
            sha256,
            source,
        ]
        .map(Clone::clone);
        Ok(Self {
            product,
            version,
            line,
            architecture,
            kind,
            file,
            url,
            sha256,
            size,
            source,
        })
    }

    /// What is wrong with a row by itself, if anything.
    fn fault(&self) -> Option<&'static str> {
        let is_hash = self.sha256.len() == 64
            && self
                .sha256
                .bytes()
                .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let host = match self.kind {
            Kind::Wheel => WHEELS.to_owned(),
            Kind::Archive => server(&self.product),
        };
        match self {
            _ if !is_hash => Some("the checksum is not a SHA-256"),
            _ if !self.url.starts_with(&host) => Some("the URL is not on a public server"),
            _ if !self.url.ends_with(&format!("/{}", self.file)) => {
                Some("the URL is for another file")
            }
            _ if self.size == Some(0) => Some("the file is empty"),
            _ => None,
        }
    }
}

/// Records the archives from the lists in a repository's history and in a folder of further lists,
/// and the wheels on PyPI. Other archives already in the table are kept. For an archive in several
/// of these, the repository's row takes precedence, then the folder's; contradictions are errors.
pub fn record(repository: &Path, folder: Option<&Path>, index: &str) -> Result<()> {
    let parse = |product: &str, _: &str, list: &Map<String, Value>| {
        archives(product, list, redistrib::REPOSITORY)
    };
    let lists = redistrib::lists(repository, PRODUCTS, parse)?;
    let further = folder.map(lists_in).transpose()?.unwrap_or_default();
    let recorded: Vec<_> = read()?
        .into_iter()
        .filter(|addon| addon.kind == Kind::Archive)
        .collect();
    let mut all: BTreeMap<String, Addon> = BTreeMap::new();
    for addon in lists.values().flatten().chain(&further).chain(&recorded) {
        let known = all
            .entry(addon.file.clone())
            .or_insert_with(|| addon.clone());
        if known.sha256 != addon.sha256 {
            return Err(format!(
                "{}: {} says {}",
                addon.file, addon.source, addon.sha256
            ));
        }
    }
    let mut all: Vec<_> = all.into_values().collect();
    for (product, package, line) in PACKAGES {
        for file in page(index, package)?.files {
            all.extend(wheel(product, line, &file)?);
        }
    }
    let place = |addon: &Addon| {
        PRODUCTS
            .iter()
            .position(|product| *product == addon.product)
    };
    all.sort_by_key(|a| {
        (
            place(a),
            a.kind,
            Reverse(pypi::numbers(&a.version)),
            Reverse(pypi::numbers(&a.line)),
            a.file.clone(),
        )
    });
    let origin = format!(
        "{} redistrib lists in the history of {}, commit {}, further ones in the same form, and wheels on PyPI",
        lists.len(),
        redistrib::REPOSITORY,
        redistrib::head(repository)?,
    );
    table::write(
        TABLE,
        &origin,
        COLUMNS,
        &all.iter().map(Addon::row).collect::<Vec<_>>(),
    )
}

/// The archives in a folder of lists, such as `cudss/redistrib_1.0.0.json`.
fn lists_in(folder: &Path) -> Result<Vec<Addon>> {
    let mut all = Vec::new();
    for product in PRODUCTS
        .iter()
        .copied()
        .filter(|product| folder.join(product).is_dir())
    {
        let folder = folder.join(product);
        let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
        for file in fs::read_dir(&folder).map_err(failed)? {
            let path = file.map_err(failed)?.path();
            if path
                .to_str()
                .and_then(|path| redistrib::named(path, &[product]))
                .is_none()
            {
                continue;
            }
            let text = fs::read_to_string(&path).map_err(failed)?;
            let list = redistrib::list(&text).and_then(|list| archives(product, &list, "NVIDIA"));
            all.extend(
                list.ok_or_else(|| {
                    format!("{}: not in the form of NVIDIA's lists", path.display())
                })?,
            );
        }
    }
    Ok(all)
}

/// The library archives in a list; none if it has another format. Some lists also name Python
/// bindings. A list that is not NVIDIA's names the `source` of each archive.
fn archives(product: &str, list: &Map<String, Value>, source: &str) -> Option<Vec<Addon>> {
    let mut all = Vec::new();
    for (_, of) in list.iter().filter(|(name, _)| !name.ends_with("_python")) {
        let Some(of) = of.as_object() else { continue };
        let version = of.get("version")?.as_str()?;
        for architecture in ARCHITECTURES {
            for (line, file) in redistrib::files(of, architecture) {
                let text = |key: &str| {
                    file.get(key)
                        .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
                };
                let path = text("relative_path")?;
                let name = path.rsplit('/').next()?.to_owned();
                all.push(Addon {
                    product: product.to_owned(),
                    version: version.to_owned(),
                    line: series_in(&name)
                        .unwrap_or_else(|| line.trim_start_matches("cuda").to_owned()),
                    architecture: architecture.to_owned(),
                    kind: Kind::Archive,
                    url: format!("{}/{path}", server(product)),
                    file: name,
                    sha256: text("sha256")?,
                    size: text("size").map(|size| size.parse()).transpose().ok()?,
                    source: text("source").unwrap_or_else(|| source.to_owned()),
                });
            }
        }
    }
    Some(all)
}

/// The CUDA series in an archive's name: 12.8 in
/// `TensorRT-10.8.0.43.Linux.x86_64-gnu.cuda-12.8.tar.gz`.
fn series_in(name: &str) -> Option<String> {
    let mut numbers = name.match_indices("cuda").map(|(at, cuda)| {
        let rest = name[at + cuda.len()..].trim_start_matches('-');
        let end = rest
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(rest.len());
        rest[..end].trim_end_matches('.')
    });
    numbers
        .find(|number| number.contains('.'))
        .map(str::to_owned)
}

/// A file on PyPI, if it is a Linux wheel that contains libraries.
fn wheel(product: &str, line: &str, file: &File) -> Result<Option<Addon>> {
    let Some(name) = file.wheel().filter(|name| name.platform != "any") else {
        return Ok(None);
    };
    let platform = |end: &str| name.platform.ends_with(end);
    let architecture = match () {
        () if platform("x86_64") => "x86_64",
        // Packages for embedded boards are separate.
        () if platform("aarch64") => "sbsa",
        () => return Ok(None),
    };
    let sha256 = file
        .sha256()
        .ok_or_else(|| format!("{}: the index has no SHA-256", file.filename))?;
    Ok(Some(Addon {
        product: product.to_owned(),
        version: name.version.to_owned(),
        line: line.to_owned(),
        architecture: architecture.to_owned(),
        kind: Kind::Wheel,
        file: file.filename.clone(),
        url: file.url.clone(),
        sha256: sha256.to_owned(),
        size: Some(file.size),
        source: "PyPI".to_owned(),
    }))
}

/// The recorded archives and wheels.
pub fn read() -> Result<Vec<Addon>> {
    table::read(TABLE)?
        .iter()
        .map(|row| Addon::of_row(row))
        .collect()
}

/// Checks that each row is usable: a public URL, a checksum, and one row per file.
pub fn check(database: &Database) -> Result<Comparison> {
    let addons = read()?;
    let mut names = BTreeSet::new();
    let mut differences = Vec::new();
    for addon in &addons {
        differences.extend(
            addon
                .fault()
                .map(|fault| format!("{}: {fault}", addon.file)),
        );
        if !names.insert(&addon.file) {
            differences.push(format!("{}: recorded twice", addon.file));
        }
    }
    let others = database
        .add_on_artifacts
        .iter()
        .filter(|a| a.add_on != AddOnId::CUDNN);
    differences.extend(others.filter_map(|ours| difference(&addons, ours)));
    Ok(Comparison {
        what: "archives and wheels of add-on libraries",
        facts: addons.len(),
        differences,
    })
}

/// How an archive in the database differs from the table.
fn difference(addons: &[Addon], ours: &AddOnArtifact) -> Option<String> {
    let Artifact {
        file,
        url,
        sha256,
        size,
        ..
    } = &ours.artifact;
    let Some(recorded) = addons.iter().find(|addon| addon.file == *file) else {
        return Some(format!("{file}: not in the table"));
    };
    let same_sum = sha256.as_deref().unwrap_or_default() == recorded.sha256;
    let same = same_sum && url.as_deref() == Some(recorded.url.as_str()) && *size == recorded.size;
    (!same || ours.add_on.as_str() != recorded.product)
        .then(|| format!("{file}: URL, checksum or size differs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"{"release_date": "d", "release_product": "cudss",
        "libcudss": {"version": "0.8.0.10", "cuda_variant": ["12"],
            "linux-x86_64": {"cuda12": {"relative_path": "libcudss/linux-x86_64/a.tar.xz", "sha256": "ab", "size": "7"}},
            "linux-aarch64": {"cuda12": {"relative_path": "libcudss/linux-aarch64/b.xz", "sha256": "cd", "size": "8"}}},
        "libcudss_python": {"version": "1"}}"#;

    #[test]
    fn archives_of_hosts_are_read_from_a_list() {
        let archives =
            archives("cudss", &redistrib::list(LIST).expect("a list"), "NVIDIA").expect("archives");
        let [archive] = archives.as_slice() else {
            panic!("{archives:?}")
        };
        assert_eq!(
            (
                archive.version.as_str(),
                archive.line.as_str(),
                archive.size
            ),
            ("0.8.0.10", "12", Some(7))
        );
        let url = "https://developer.download.nvidia.com/compute/cudss/redist/libcudss/linux-x86_64/a.tar.xz";
        assert_eq!(archive.url, url);
        assert_eq!(Addon::of_row(&archive.row()).as_ref(), Ok(archive));
    }

    #[test]
    fn names_of_archives_have_the_series() {
        assert_eq!(
            series_in("TensorRT-10.8.0.43.Linux.x86_64-gnu.cuda-12.8.tar.gz").as_deref(),
            Some("12.8")
        );
        assert_eq!(
            series_in(
                "TensorRT-Enterprise-11.3.0.99-Linux-x86_64-cuda-13.4-Release-external.tar.zst"
            )
            .as_deref(),
            Some("13.4")
        );
        assert_eq!(
            series_in("nccl_2.30.7-1+cuda13.3_x86_64.txz").as_deref(),
            Some("13.3")
        );
        assert_eq!(
            series_in("nccl-nccl-stable-cuda-13-linux-x86_64-2.31.2-cuda13.3.tar.gz").as_deref(),
            Some("13.3")
        );
        assert_eq!(
            series_in("libcudss-linux-x86_64-0.8.0.10_cuda12-archive.tar.xz"),
            None
        );
    }

    #[test]
    fn a_row_that_cannot_be_used_is_a_fault() {
        let good = Addon {
            product: "nccl".to_owned(),
            version: "2.32.3".to_owned(),
            line: "13".to_owned(),
            architecture: "x86_64".to_owned(),
            kind: Kind::Wheel,
            file: "a.whl".to_owned(),
            url: format!("{WHEELS}a.whl"),
            sha256: "0".repeat(64),
            size: None,
            source: "PyPI".to_owned(),
        };
        assert_eq!(good.fault(), None);
        assert!(
            Addon {
                sha256: "0".repeat(63),
                ..good.clone()
            }
            .fault()
            .is_some()
        );
        assert!(
            Addon {
                url: "https://mirror.example/a.whl".to_owned(),
                ..good.clone()
            }
            .fault()
            .is_some()
        );
        assert!(
            Addon {
                url: format!("{WHEELS}b.whl"),
                ..good
            }
            .fault()
            .is_some()
        );
    }
}
