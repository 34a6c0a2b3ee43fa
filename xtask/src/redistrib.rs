//! CUDA component archives and cuDNN archives, from NVIDIA's own lists: `redistrib_13.0.0.json`
//! names the files of a release with checksum and size. Public repositories keep the lists as
//! published; a repository that ever had them in its history is enough.

use crate::open_kernel_modules::git;
use crate::{Comparison, Result, project, table};
use gpusetup_database::compat::{AddOnId, Artifact, Database};
use gpusetup_database::version::CudaVersion;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const TABLE: &str = "redistrib.tsv";

/// The source repository. Nixpkgs also keeps lists, but is a hundred times as large.
pub const REPOSITORY: &str = "github.com/ConnorBaker/cuda-packages";

/// The first major version of CUDA whose component archives are in the database.
pub const FIRST_CUDA: u16 = 12;

/// The architectures of hosts; `aarch64` means embedded boards, whose CUDA is supplied with them.
pub const ARCHITECTURES: [&str; 3] = ["x86_64", "sbsa", "ppc64le"];

/// Entries in NVIDIA's lists that are not toolkit components, and why the database has them
/// elsewhere or not at all.
pub const OF_NO_TOOLKIT: [(&str, &str); 15] = [
    ("nvidia_driver", "the driver has separate manifests"),
    ("nvidia_fs", "kernel modules are the driver's"),
    (
        "fabricmanager",
        "it is tied to the driver and is in the driver manifests",
    ),
    ("imex", "it is tied to the driver"),
    ("libnvidia_nscq", "it manages switches"),
    ("libnvsdm", "it manages switches"),
    ("nvlsm", "it manages switches"),
    ("mft", "it manages switches"),
    ("mft_autocomplete", "it manages switches"),
    ("mft_oem", "it manages switches"),
    ("collectx_bringup", "it manages switches"),
    (
        "cuda_compat",
        "it is the driver's, and in `compat/packages.yaml`",
    ),
    ("driver_assistant", "it chooses a driver"),
    ("nsight_vse", "it is for Windows"),
    ("visual_studio_integration", "it is for Windows"),
];

/// Archives on which sources differ, so that the database has no checksum for them; each row gives
/// the reason in `disagreement`.
const DISPUTED: [&str; 1] = ["cudnn-linux-sbsa-8.9.5.30_cuda12-archive.tar.xz"];

/// An archive in one of the lists.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Listed {
    /// The product: `cuda` or `cudnn`.
    product: String,
    /// The release of the list, `13.0.0` or `9.12.0`.
    release: String,
    component: String,
    /// The component's version.
    version: String,
    arch: String,
    /// The CUDA line of a cuDNN archive, `12`.
    line: String,
    sha256: String,
    size: String,
}

impl Listed {
    fn row(&self) -> Vec<String> {
        let all = [
            &self.product,
            &self.release,
            &self.component,
            &self.version,
            &self.arch,
            &self.line,
            &self.sha256,
            &self.size,
        ];
        all.map(Clone::clone).to_vec()
    }

    fn of_row(row: &[String]) -> Result<Self> {
        let [
            product,
            release,
            component,
            version,
            arch,
            line,
            sha256,
            size,
        ] = row
        else {
            return Err(format!("{TABLE}: {row:?}"));
        };
        let [
            product,
            release,
            component,
            version,
            arch,
            line,
            sha256,
            size,
        ] = [
            product, release, component, version, arch, line, sha256, size,
        ]
        .map(Clone::clone);
        Ok(Self {
            product,
            release,
            component,
            version,
            arch,
            line,
            sha256,
            size,
        })
    }

    /// `CUDA 13.0.0: cuda_nvcc 13.0.48 for sbsa`.
    fn name(&self) -> String {
        let line = if self.line.is_empty() {
            String::new()
        } else {
            format!(", CUDA {}", self.line)
        };
        format!(
            "{} {}: {} {} for {}{line}",
            self.product, self.release, self.component, self.version, self.arch
        )
    }

    /// How an archive differs from the list.
    fn difference(&self, sha256: Option<&str>, size: Option<u64>) -> Option<String> {
        let ours = (
            sha256.unwrap_or("no checksum"),
            size.map_or_else(|| "no size".to_owned(), |s| s.to_string()),
        );
        let same = ours == (self.sha256.as_str(), self.size.clone());
        (!same).then(|| {
            format!(
                "{}: {}, {} bytes; the database has {}, {}",
                self.name(),
                self.sha256,
                self.size,
                ours.0,
                ours.1
            )
        })
    }
}

/// Records every CUDA and cuDNN list in a repository's history, in its last version.
pub fn record(repository: &Path) -> Result<()> {
    let parse = |product: &str, release: &str, list: &Map<String, Value>| {
        if is_compared((product, release)) {
            archives(product, release, list)
        } else {
            None
        }
    };
    let lists = lists(repository, &["cuda", "cudnn"], parse)?;
    let origin = format!(
        "{} redistrib lists in the history of {REPOSITORY}, commit {}",
        lists.len(),
        head(repository)?
    );
    let columns = [
        "product",
        "release",
        "component",
        "version",
        "architecture",
        "CUDA line",
        "sha256",
        "bytes",
    ];
    let listed: BTreeSet<_> = lists.into_values().flatten().collect();
    table::write(
        TABLE,
        &origin,
        &columns,
        &listed.iter().map(Listed::row).collect::<Vec<_>>(),
    )
}

/// The current commit of a repository.
pub fn head(repository: &Path) -> Result<String> {
    Ok(git(repository, &["rev-parse", "HEAD"])?.trim().to_owned())
}

/// Applies `parse` to each list of these products in a repository's history, in its last version,
/// by product and release. If it returns nothing, an older version of the list is tried.
pub fn lists<T>(
    repository: &Path,
    products: &[&'static str],
    parse: impl Fn(&str, &str, &Map<String, Value>) -> Option<T>,
) -> Result<BTreeMap<(&'static str, String), T>> {
    let history = git(
        repository,
        &[
            "log",
            "--all",
            "--diff-filter=AM",
            "--name-only",
            "--format=commit %H",
        ],
    )?;
    let (mut commit, mut parsed) = ("", BTreeMap::new());
    for line in history.lines() {
        if let Some(hash) = line.strip_prefix("commit ") {
            commit = hash;
        } else if let Some((product, release)) = named(line, products) {
            let key = (product, release.to_owned());
            if !parsed.contains_key(&key) {
                let list = list(&git(repository, &["show", &format!("{commit}:{line}")])?);
                parsed.extend(
                    list.and_then(|list| parse(product, release, &list))
                        .map(|value| (key, value)),
                );
            }
        }
    }
    Ok(parsed)
}

/// One of NVIDIA's lists. Some repositories keep their own notes under such names.
pub fn list(text: &str) -> Option<Map<String, Value>> {
    serde_json::from_str::<Map<String, Value>>(text)
        .ok()
        .filter(|list| list.contains_key("release_date"))
}

/// Whether the database contains entries of this kind.
fn is_compared((product, release): (&str, &str)) -> bool {
    let major = release
        .split('.')
        .next()
        .and_then(|n| n.parse::<u16>().ok());
    product == "cudnn" || major.is_some_and(|major| major >= FIRST_CUDA)
}

/// Parses `cudnn/redistrib_9.12.0.json` as the list for cuDNN 9.12.0.
pub fn named<'p>(path: &'p str, products: &[&'static str]) -> Option<(&'static str, &'p str)> {
    let (folder, file) = path.rsplit_once('/')?;
    let release = file.strip_suffix(".json")?;
    let release = release.strip_prefix("redistrib_").unwrap_or(release);
    let is_release = !release.is_empty() && release.chars().all(|c| c.is_ascii_digit() || c == '.');
    let product = folder
        .split('/')
        .rev()
        .find_map(|name| products.iter().find(|product| **product == name))?;
    is_release.then_some((product, release))
}

/// The files of a component for an architecture, each with its CUDA line, `cuda12`; empty if one is
/// for all.
pub fn files<'a>(
    component: &'a Map<String, Value>,
    arch: &str,
) -> Vec<(&'a str, &'a Map<String, Value>)> {
    let Some(files) = component
        .get(&format!("linux-{arch}"))
        .and_then(Value::as_object)
    else {
        return Vec::new();
    };
    if files.contains_key("sha256") {
        return vec![("", files)];
    }
    files
        .iter()
        .filter_map(|(line, file)| Some((line.as_str(), file.as_object()?)))
        .collect()
}

/// The archives in a list; none if it has another format.
fn archives(product: &str, release: &str, list: &Map<String, Value>) -> Option<Vec<Listed>> {
    let mut all = Vec::new();
    for (component, of) in list
        .iter()
        .filter_map(|(name, value)| Some((name, value.as_object()?)))
    {
        if product == "cudnn" && component != "cudnn" {
            continue;
        }
        let version = of.get("version")?.as_str()?;
        for arch in ARCHITECTURES {
            for (line, file) in files(of, arch) {
                let text = |key: &str| {
                    file.get(key)
                        .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
                };
                all.push(Listed {
                    product: product.to_owned(),
                    release: release.to_owned(),
                    component: component.clone(),
                    version: version.to_owned(),
                    arch: arch.to_owned(),
                    line: line.trim_start_matches("cuda").to_owned(),
                    sha256: text("sha256")?,
                    size: text("size")?,
                });
            }
        }
    }
    Some(all)
}

/// Compares checksums and sizes. The database has only the last patch release of each CUDA series;
/// lists of older ones are skipped.
pub fn check(database: &Database, write: bool) -> Result<Comparison> {
    let listed: Vec<_> = table::read(TABLE)?
        .iter()
        .map(|row| Listed::of_row(row))
        .collect::<Result<_>>()?;
    let mut differences = releases_missing(database, &listed)?;
    for archive in &listed {
        let difference = match archive.product.as_str() {
            "cuda" => of_toolkit(database, archive)?,
            _ => of_cudnn(database, archive),
        };
        differences.extend(difference);
    }
    if write {
        write_cudnn(&listed)?;
    }
    Ok(Comparison {
        what: "archives in NVIDIA's redistrib lists",
        facts: listed.len(),
        differences,
    })
}

/// Series with a recorded list but without component archives in the database.
fn releases_missing(database: &Database, listed: &[Listed]) -> Result<Vec<String>> {
    let mut newest: BTreeMap<CudaVersion, CudaVersion> = BTreeMap::new();
    for archive in listed.iter().filter(|a| a.product == "cuda") {
        let release = version(&archive.release)?;
        let entry = newest.entry(release.series()).or_insert(release);
        *entry = release.max(*entry);
    }
    let has_newer = |v: &CudaVersion| {
        database
            .component_releases
            .iter()
            .any(|r| r.version.series() == v.series() && r.version >= *v)
    };
    let missing = newest.into_values().filter(|v| !has_newer(v));
    Ok(missing
        .map(|v| format!("cuda {v}: the database has no component archives for it"))
        .collect())
}

fn version(text: &str) -> Result<CudaVersion> {
    text.parse().map_err(|e| format!("{TABLE}: {e}"))
}

fn of_toolkit(database: &Database, archive: &Listed) -> Result<Option<String>> {
    let Some(release) = database.component_release(version(&archive.release)?) else {
        return Ok(None);
    };
    if OF_NO_TOOLKIT
        .iter()
        .any(|(name, _)| *name == archive.component)
    {
        return Ok(None);
    }
    let known = release
        .components
        .iter()
        .find(|c| c.name == archive.component && c.version == archive.version);
    let known = known.and_then(|c| c.archives.iter().find(|a| a.arch == archive.arch));
    Ok(match known {
        Some(known) => archive.difference(Some(&known.sha256), Some(known.size)),
        None => Some(format!("{}: not in the database", archive.name())),
    })
}

fn of_cudnn(database: &Database, archive: &Listed) -> Option<String> {
    let is_it = |file: &&Artifact| {
        let end = format!(
            "-{}-{}_cuda{}-archive.tar.xz",
            archive.arch, archive.version, archive.line
        );
        file.file.ends_with(&end)
    };
    let mut known = database
        .add_on_archives(AddOnId::CUDNN)
        .map(|a| &a.artifact);
    match known.find(is_it) {
        Some(known) if DISPUTED.contains(&known.file.as_str()) => None,
        Some(known) => archive.difference(known.sha256.as_deref(), known.size),
        None => Some(format!("{}: not in the database", archive.name())),
    }
}

/// Adds missing checksums and sizes to the cuDNN archives in the manifests, where each archive is
/// one line.
fn write_cudnn(listed: &[Listed]) -> Result<()> {
    let folder = project().join("manifests/cudnn");
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    for file in fs::read_dir(&folder).map_err(failed)? {
        let path = file.map_err(failed)?.path();
        let text = fs::read_to_string(&path).map_err(failed)?;
        let new: String = text
            .lines()
            .map(|line| completed(line, listed) + "\n")
            .collect();
        if new != text {
            fs::write(&path, new).map_err(failed)?;
        }
    }
    Ok(())
}

/// An archive's line with the values from the list.
fn completed(line: &str, listed: &[Listed]) -> String {
    let is_it = |a: &&Listed| {
        let file = format!(
            "cudnn-linux-{}-{}_cuda{}-archive.tar.xz\"",
            a.arch, a.version, a.line
        );
        a.product == "cudnn"
            && line.contains(&file)
            && !DISPUTED.iter().any(|name| line.contains(name))
    };
    let Some(archive) = listed.iter().find(is_it) else {
        return line.to_owned();
    };
    let mut line = line.to_owned();
    let Some(at) = line
        .find("agree: ")
        .or_else(|| line.find("note: "))
        .or_else(|| line.find("sources: "))
    else {
        return line;
    };
    let mut fields = String::new();
    if !line.contains("sha256: ") {
        fields += &format!("sha256: \"{}\", ", archive.sha256);
    }
    if !line.contains("size: ") {
        fields += &format!("size: {}, ", archive.size);
    }
    line.insert_str(at, &fields);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_told_by_their_names() {
        let named = |path| named(path, &["cuda", "cudnn"]);
        assert_eq!(
            named("a/manifests/cuda/redistrib_13.0.0.json"),
            Some(("cuda", "13.0.0"))
        );
        assert_eq!(
            named("modules/redists/cudnn/manifests/9.5.1.json"),
            Some(("cudnn", "9.5.1"))
        );
        assert_eq!(named("manifests/cuda/feature_13.0.0.json"), None);
        assert_eq!(named("manifests/cutensor/redistrib_2.0.0.json"), None);
    }

    #[test]
    fn a_line_gets_what_it_lacks() {
        let text = r#"{"release_date": "d", "cudnn": {"version": "9.1.0.70", "linux-sbsa": {"cuda12": {"sha256": "ab", "size": "7"}},
            "linux-aarch64": {"cuda12": {"sha256": "cd", "size": "8"}}}}"#;
        let listed = archives("cudnn", "9.1.0", &list(text).expect("a list")).expect("archives");
        assert_eq!(listed.len(), 1);
        let line = r#"  - {arch: sbsa, file: "cudnn-linux-sbsa-9.1.0.70_cuda12-archive.tar.xz", agree: 1, sources: [a]}"#;
        let want = line.replace("agree: 1", r#"sha256: "ab", size: 7, agree: 1"#);
        assert_eq!(completed(line, &listed), want);
        assert_eq!(completed(&want, &listed), want);
        assert!(list("{}").is_none());
    }
}
