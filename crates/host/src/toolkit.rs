//! CUDA toolkits below the prefix and the distribution's own, with their versions and origins. No
//! nvcc is run.

use super::installed::Packages;
use super::reader::Reader;
use super::{Facts, Origin, Toolkit};
use gpusetup_database::compat::Database;
use gpusetup_database::version::CudaVersion;
use gpusetup_packages::upstream;
use gpusetup_system::Node;
use gpusetup_text::paths::{CUDA_ALTERNATIVES_DPKG, CUDA_ALTERNATIVES_RPM};
use gpusetup_text::text::quoted_path;
use serde::Deserialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The directory used by Debian's and Ubuntu's package `nvidia-cuda-toolkit`.
const DISTRIBUTION: &str = "/usr/lib/nvidia-cuda-toolkit";

/// The origin in the `version.json` of a toolkit that gpusetup assembled from component archives.
const ARCHIVES: &str = "component archives, put together by gpusetup";

/// What a toolkit has at least one of.
const PARTS: [&str; 7] = [
    "bin", "lib64", "lib", "targets", "include", "nvvm", "compat",
];

/// No release has had more updates; some have the build date instead (11.2.20210728).
const LAST_UPDATE: u16 = 9;

/// How many toolkits are looked at. A cluster that keeps every release of CUDA has some fifty.
const MAX_TOOLKITS: usize = 200;

/// The toolkits, oldest first.
pub(crate) fn toolkits(
    reader: &mut Reader,
    packages: Option<&Packages>,
    database: &Database,
    prefix: &Path,
) -> Vec<Toolkit> {
    let mut toolkits = Vec::new();
    let below = reader.resolved(prefix);
    for name in reader.names("the toolkits", prefix) {
        if toolkits.len() == MAX_TOOLKITS {
            reader
                .system
                .leave_out(prefix, &format!("it has more than {MAX_TOOLKITS} toolkits"));
            break;
        }
        let path = prefix.join(&name);
        let ours = name.starts_with("cuda-") || name == "cuda";
        if !ours || !reader.system.is_directory(&path) {
            continue;
        }
        // cuda and cuda-12 are usually links to a toolkit that is listed under its own name. A
        // toolkit outside the prefix (/opt on a cluster) is found through its link only, and listed
        // once.
        let is_link = reader.system.link_target(&path).is_some();
        let target = reader.resolved(&path);
        let known = target == Path::new(DISTRIBUTION)
            || toolkits.iter().any(|t: &Toolkit| t.path == target);
        if known || is_link && target.parent() == Some(&below) {
            continue;
        }
        let path = target;
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let by_name = name
            .strip_prefix("cuda-")
            .and_then(|v| v.parse::<CudaVersion>().ok());
        let (by_file, components) = version(reader, database, &path);
        // What a removal leaves of a toolkit is none.
        let by_name = by_name.filter(|_| {
            PARTS
                .iter()
                .any(|part| reader.system.exists(path.join(part)))
        });
        let Some(version) = by_file.or(by_name) else {
            if reader.system.exists(path.join("bin/nvcc")) {
                reader.miss(
                    format!("the version of the toolkit {}", quoted_path(&path)),
                    "neither version.json, version.txt nor the directory name contains it",
                );
            }
            continue;
        };
        let origin = if components.is_some() {
            Origin::Archives
        } else {
            origin(reader, packages, version, &path)
        };
        let has_nvcc = reader.is_program(path.join("bin/nvcc"));
        toolkits.push(Toolkit {
            version,
            path,
            origin,
            has_nvcc,
            components,
        });
    }
    toolkits.extend(packages.and_then(|p| distribution(reader, p)));
    toolkits.sort_by(|a, b| a.version.cmp(&b.version).then_with(|| a.path.cmp(&b.path)));
    toolkits
}

/// The directories of the toolkits that are alternatives. Their list has a line with the path of
/// each.
pub(crate) fn alternatives(reader: &mut Reader, toolkits: &[Toolkit]) -> Vec<PathBuf> {
    let lists = [CUDA_ALTERNATIVES_DPKG, CUDA_ALTERNATIVES_RPM];
    let lists = lists.map(|path| {
        reader
            .text("the alternatives of the toolkit", path)
            .unwrap_or_default()
    });
    let listed: BTreeSet<_> = lists
        .iter()
        .flat_map(|list| list.lines())
        .map(Path::new)
        .collect();
    toolkits
        .iter()
        .map(|toolkit| &toolkit.path)
        .filter(|path| listed.contains(path.as_path()))
        .cloned()
        .collect()
}

/// The version, and the components of a toolkit that gpusetup assembled.
fn version(
    reader: &mut Reader,
    database: &Database,
    path: &Path,
) -> (Option<CudaVersion>, Option<Vec<String>>) {
    let what = format!("the version of the toolkit {}", quoted_path(path));
    if let Some(text) = reader.text(&what, path.join("version.json")) {
        match serde_json::from_str::<BTreeMap<String, Component>>(&text) {
            Ok(components) => {
                return (
                    from_components(&components, database),
                    put_together(components),
                );
            }
            Err(e) => reader.miss(&what, format_args!("version.json: {e}")),
        }
    }
    (
        reader
            .text(&what, path.join("version.txt"))
            .and_then(|text| from_text(&text)),
        None,
    )
}

#[derive(Deserialize)]
struct Component {
    #[serde(default)]
    version: String,
    #[serde(default)]
    origin: String,
}

/// The `version.json` of a toolkit that gpusetup assembled from these components (name, title,
/// version). Its entry `cuda` has the key `origin`, which NVIDIA's lacks.
pub fn version_file(version: CudaVersion, components: &[(&str, &str, &str)]) -> String {
    let cuda = json!({"name": "CUDA SDK", "version": version.to_string(), "origin": ARCHIVES});
    let parts = components
        .iter()
        .map(|(name, title, version)| (*name, json!({"name": title, "version": version})));
    let all: BTreeMap<_, _> = [("cuda", cuda)].into_iter().chain(parts).collect();
    // Serialising cannot fail: all keys are strings.
    serde_json::to_string_pretty(&all).unwrap_or_default() + "\n"
}

fn put_together(components: BTreeMap<String, Component>) -> Option<Vec<String>> {
    let ours = components
        .get("cuda")
        .is_some_and(|cuda| cuda.origin == ARCHIVES);
    ours.then(|| {
        components
            .into_keys()
            .filter(|name| name != "cuda")
            .collect()
    })
}

/// nvcc's own version identifies the release; CUDA's may end in a date.
fn from_components(
    components: &BTreeMap<String, Component>,
    database: &Database,
) -> Option<CudaVersion> {
    let version = |name: &str| components.get(name).map(|c| c.version.as_str());
    let nvcc = version("cuda_nvcc");
    let mut same = database
        .cuda
        .iter()
        .filter(|r| nvcc.is_some() && r.nvcc.as_deref() == nvcc);
    // Updates may share an nvcc: then only the toolkit's own number is decisive.
    if let (Some(release), None) = (same.next(), same.next()) {
        return Some(release.version);
    }
    let text = version("cuda").or(nvcc)?;
    // A date has more digits than any number in a version.
    let mut numbers = text.split('.').map(str::parse::<u16>);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let update = numbers
        .next()
        .and_then(Result::ok)
        .filter(|u| *u <= LAST_UPDATE && version("cuda").is_some());
    Some(CudaVersion {
        major,
        minor,
        patch: update,
    })
}

/// `CUDA Version 10.2.89`, in version.txt up to 11.0.
fn from_text(text: &str) -> Option<CudaVersion> {
    text.lines()
        .find_map(|l| l.strip_prefix("CUDA Version "))?
        .trim()
        .parse()
        .ok()
}

fn origin(
    reader: &mut Reader,
    packages: Option<&Packages>,
    version: CudaVersion,
    path: &Path,
) -> Origin {
    let old = format!("bin/uninstall_cuda_{}.{}.pl", version.major, version.minor);
    if reader.is_file(path.join("bin/cuda-uninstaller")) || reader.is_file(path.join(old)) {
        return Origin::Runfile;
    }
    let series = format!("-{}-{}", version.major, version.minor);
    let packaged = packages.is_some_and(|p| {
        p.beginning("cuda-")
            .any(|(name, _)| name.ends_with(&series))
    });
    if packaged {
        Origin::Dpkg
    } else {
        Origin::Unknown
    }
}

fn distribution(reader: &Reader, packages: &Packages) -> Option<Toolkit> {
    let version = distribution_version(packages.version("nvidia-cuda-toolkit")?)?;
    let has_nvcc = reader.is_program("/usr/bin/nvcc");
    Some(Toolkit {
        version,
        path: PathBuf::from(DISTRIBUTION),
        origin: Origin::Dpkg,
        has_nvcc,
        components: None,
    })
}

/// `11.8.89~11.8.0-5`: nvcc's version, then CUDA's; older packages have only one number.
fn distribution_version(text: &str) -> Option<CudaVersion> {
    let upstream = upstream(text);
    upstream
        .rsplit_once('~')
        .map_or(upstream, |(_, release)| release)
        .parse()
        .ok()
}

impl Toolkit {
    /// Whether it is in a directory of its kind alone. The distribution's own is spread over the
    /// system's directories.
    pub fn has_own_directory(&self) -> bool {
        self.path != Path::new(DISTRIBUTION)
    }
}

impl Facts {
    /// The toolkit that the link `cuda` below the prefix leads to.
    pub fn default_toolkit(&self, prefix: &Path) -> Option<&Toolkit> {
        self.toolkit_behind(&prefix.join("cuda"))
    }

    /// The toolkit that a link leads to, also through the system's alternatives and links such as
    /// `cuda-12`.
    pub fn toolkit_behind(&self, link: &Path) -> Option<&Toolkit> {
        const MAX_LINKS: usize = 8;
        let chain = std::iter::successors(Some(link.to_owned()), |path| match self.node(path)? {
            Node::Link { target } => Some(path.with_file_name("").join(target)),
            _ => None,
        });
        chain
            .skip(1)
            .take(MAX_LINKS)
            .find_map(|path| self.toolkits.iter().find(|toolkit| toolkit.path == path))
    }
}

/// The nvcc that a shell with the default PATH finds; the link itself is not resolved.
pub(crate) fn nvcc(reader: &Reader) -> Option<PathBuf> {
    let directories = [
        "/usr/local/sbin",
        "/usr/local/bin",
        "/usr/sbin",
        "/usr/bin",
        "/sbin",
        "/bin",
    ];
    directories
        .iter()
        .map(|d| Path::new(d).join("nvcc"))
        .find(|p| reader.is_program(p))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_data::embedded;

    fn components(json: &str) -> Option<CudaVersion> {
        from_components(&serde_json::from_str(json).expect("valid"), &embedded())
    }

    #[test]
    fn a_date_is_no_update() {
        let text = |v: Option<CudaVersion>| v.map(|v| v.to_string());
        assert_eq!(
            text(components(
                r#"{"cuda": {"name": "CUDA SDK", "version": "11.2.20210728"}}"#
            )),
            Some("11.2".into())
        );
        assert_eq!(
            text(components(r#"{"cuda": {"version": "13.9.1"}}"#)),
            Some("13.9.1".into())
        );
        // The nvcc of 13.0.0, from the database; 12.8.1 and 12.8.2 share theirs.
        let json = r#"{"cuda": {"version": "13.0.20251001"}, "cuda_nvcc": {"version": "13.0.48"}}"#;
        assert_eq!(text(components(json)), Some("13.0.0".into()));
        let json = r#"{"cuda": {"version": "12.8.1"}, "cuda_nvcc": {"version": "12.8.93"}}"#;
        assert_eq!(text(components(json)), Some("12.8.1".into()));
        // The date of 11.2 is not an update, and its nvcc identifies the release.
        let json = r#"{"cuda": {"version": "11.2.20210728"}, "cuda_nvcc": {"version": "11.2.67"}}"#;
        assert_eq!(text(components(json)), Some("11.2.0".into()));
        // The build number of an unknown nvcc is not an update either.
        assert_eq!(
            text(components(r#"{"cuda_nvcc": {"version": "99.1.2"}}"#)),
            Some("99.1".into())
        );
        assert_eq!(components("{}"), None);
    }

    #[test]
    fn a_link_out_of_the_prefix_is_a_toolkit_and_one_within_is_none() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = gpusetup_system::System::at(dir.path());
        for (at, text) in [
            ("/usr/local/cuda-12.8", "12.8.1"),
            ("/opt/nvidia/cuda-11.8", "11.8.0"),
        ] {
            system.make_directories(at, 0o755).expect("made");
            let json = format!(r#"{{"cuda": {{"version": "{text}"}}}}"#);
            system
                .write(Path::new(at).join("version.json"), json.as_bytes(), 0o644)
                .expect("written");
        }
        let links = [
            ("cuda", "/usr/local/cuda-12.8"),
            ("cuda-11", "/opt/nvidia/cuda-11.8"),
            ("cuda-11.8", "cuda-11"),
        ];
        for (name, target) in links.into_iter().chain([("cuda-9", "/gone")]) {
            system
                .link(Path::new("/usr/local").join(name), Path::new(target))
                .expect("linked");
        }
        let found = toolkits(
            &mut Reader::new(&system),
            None,
            &embedded(),
            Path::new("/usr/local"),
        );
        let seen: Vec<_> = found
            .iter()
            .map(|t| (t.version.to_string(), t.path.to_string_lossy().into_owned()))
            .collect();
        let want = [
            ("11.8.0", "/opt/nvidia/cuda-11.8"),
            ("12.8.1", "/usr/local/cuda-12.8"),
        ];
        assert_eq!(seen, want.map(|(v, p)| (v.to_owned(), p.to_owned())));
    }

    #[test]
    fn a_toolkit_that_was_put_together_says_of_what() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = gpusetup_system::System::at(dir.path());
        let release = "13.0.2".parse().expect("a version");
        let parts = [
            ("cuda_nvcc", "CUDA NVCC", "13.0.88"),
            ("libcublas", "cuBLAS", "13.1.0.3"),
        ];
        let theirs = r#"{"cuda": {"name": "CUDA SDK", "version": "12.9.1"}, "libcublas": {"version": "12.9.1.4"}}"#;
        for (series, text) in [
            ("13.0", version_file(release, &parts)),
            ("12.9", theirs.to_owned()),
        ] {
            let at = format!("/usr/local/cuda-{series}");
            system.make_directories(&at, 0o755).expect("made");
            system
                .write(Path::new(&at).join("version.json"), text.as_bytes(), 0o644)
                .expect("written");
        }
        let found = toolkits(
            &mut Reader::new(&system),
            None,
            &embedded(),
            Path::new("/usr/local"),
        );
        let seen: Vec<_> = found
            .iter()
            .map(|t| (t.version.to_string(), t.origin, t.components.clone()))
            .collect();
        let names = parts.map(|(name, ..)| name.to_owned()).to_vec();
        let want = [
            ("12.9.1".to_owned(), Origin::Unknown, None),
            ("13.0.2".to_owned(), Origin::Archives, Some(names)),
        ];
        assert_eq!(seen, want);
    }

    #[test]
    fn older_toolkits_have_a_line_of_text() {
        let text = "CUDA Version 10.1.168\nCUDA Patch Version 10.1.243\n";
        assert_eq!(
            from_text(text).map(|v| v.to_string()),
            Some("10.1.168".into())
        );
    }

    #[test]
    fn a_distributions_package_carries_two_versions() {
        for (text, want) in [
            ("11.8.89~11.8.0-5~deb12u1", "11.8.0"),
            ("12.4.131~12.4.1-2", "12.4.1"),
            ("9.2.148-7", "9.2.148"),
        ] {
            assert_eq!(
                distribution_version(text).map(|v| v.to_string()),
                Some(want.to_owned())
            );
        }
    }
}
