//! CUDA toolkits below the prefix, and the nvcc on PATH.

use super::probe::Notes;
use super::{Origin, Toolkit};
use crate::compat::Database;
use crate::system::System;
use crate::version::CudaVersion;
use std::path::{Path, PathBuf};

/// The toolkits, oldest first.
pub fn probe(system: &System, database: &Database, prefix: &Path, notes: &mut Notes) -> Vec<Toolkit> {
    let names = notes.take(&prefix.display().to_string(), system.list(prefix)).unwrap_or_default();
    let mut out = Vec::new();
    for name in names {
        let Some(series) = name.strip_prefix("cuda-").and_then(|v| v.parse::<CudaVersion>().ok()) else { continue };
        let path = prefix.join(&name);
        // /usr/local/cuda-12 is a link to the newest 12.x, of Debian's alternatives.
        if system.link_target(&path).is_some() || !system.is_directory(&path) {
            continue;
        }
        out.push(Toolkit {
            version: release(system, database, &path).filter(|v| v.series() == series.series()).unwrap_or(series),
            origin: origin(system, &path, series),
            has_nvcc: is_program(system, &path.join("bin/nvcc")),
            path,
        });
    }
    out.sort_by_key(|t| t.version);
    out
}

/// The release: by its nvcc's version, which never lies, else by the toolkit's own number.
fn release(system: &System, database: &Database, path: &Path) -> Option<CudaVersion> {
    let text = system.read_text(path.join("version.json")).ok().flatten()?;
    let json: serde_json::Value = serde_json::from_str(&text).ok()?;
    let number = |part: &str| json.get(part)?.get("version")?.as_str().map(str::to_owned);
    let by_nvcc = number("cuda_nvcc").and_then(|nvcc| {
        let mut same = database.cuda.iter().filter(|r| r.nvcc.as_deref() == Some(nvcc.as_str()));
        // Updates may share an nvcc: then only the toolkit's own number tells.
        same.next().filter(|_| same.next().is_none()).map(|r| r.version)
    });
    // The last number may be a date (11.8.20220929), which names no release.
    let own = number("cuda").and_then(|v| v.parse::<CudaVersion>().ok()).filter(|v| database.cuda(*v).is_some());
    by_nvcc.or(own)
}

fn origin(system: &System, path: &Path, series: CudaVersion) -> Origin {
    let (dashed, listed) = (format!("{}-{}", series.major, series.minor), "/var/lib/dpkg/info");
    if ["toolkit", "nvcc", "cudart"].iter().any(|part| system.exists(format!("{listed}/cuda-{part}-{dashed}.list"))) {
        Origin::Dpkg
    } else if is_program(system, &path.join("bin/cuda-uninstaller")) || system.exists("/var/log/cuda-installer.log") {
        Origin::Runfile
    } else {
        Origin::Unknown
    }
}

fn is_program(system: &System, path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let meta = system.locate_target(path).and_then(|p| p.metadata());
    meta.is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// The nvcc that a plain PATH finds.
pub fn nvcc_on_path(system: &System) -> Option<PathBuf> {
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .map(|folder| Path::new(folder).join("nvcc"))
        .find(|path| is_program(system, path))
}
