//! The limits in the headers of a CUDA release: the newest gcc and clang that they accept, and the
//! first glibc they do not compile with. The headers are in the wheels of nvcc; a release is
//! identified by its nvcc version.

use crate::{Comparison, Result, table};
use gpusetup_database::compat::Database;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const TABLE: &str = "headers.tsv";

/// Functions that glibc declares with `noexcept` for C++ from a version on. CUDA's own declaration
/// then needs it too: "exception specification is incompatible with that of previous function".
/// Oldest first.
const DECLARED_BY_GLIBC: &[(&str, &str)] = &[("cospi", "2.41"), ("rsqrt", "2.42")];

/// Reads unpacked wheels, folders named like `nvidia-cuda-nvcc-cu12-12.4.131`. Headers of a release
/// that are split over two wheels are combined.
pub fn record(wheels: &Path) -> Result<()> {
    let mut headers: BTreeMap<Vec<u32>, (String, Headers)> = BTreeMap::new();
    for wheel in entries(wheels)? {
        let name = wheel
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let Some((_, nvcc)) = name.rsplit_once('-') else {
            continue;
        };
        let Ok(order) = nvcc
            .split('.')
            .map(str::parse)
            .collect::<std::result::Result<Vec<u32>, _>>()
        else {
            continue;
        };
        let (_, read) = headers
            .entry(order)
            .or_insert_with(|| (nvcc.to_owned(), Headers::default()));
        for crt in folders_named(&wheel, "crt")? {
            read.host_config = text(&crt.join("host_config.h"))?.or(read.host_config.take());
            read.math_functions =
                text(&crt.join("math_functions.h"))?.or(read.math_functions.take());
        }
    }
    let rows = headers
        .into_values()
        .map(|(nvcc, headers)| headers.row(&nvcc))
        .collect::<Result<Vec<_>>>()?;
    let origin = "crt/host_config.h and crt/math_functions.h in the PyPI packages nvidia-cuda-nvcc-cu11, nvidia-cuda-nvcc-cu12, \
                  nvidia-cuda-nvcc and nvidia-cuda-crt";
    table::write(
        TABLE,
        origin,
        &[
            "nvcc",
            "newest gcc",
            "newest clang",
            "first glibc that breaks them",
        ],
        &rows,
    )
}

#[derive(Default)]
struct Headers {
    host_config: Option<String>,
    math_functions: Option<String>,
}

impl Headers {
    fn row(&self, nvcc: &str) -> Result<Vec<String>> {
        let (Some(config), Some(math)) = (&self.host_config, &self.math_functions) else {
            return Err(format!("{nvcc}: its wheels lack one of the headers"));
        };
        let missing = |what: &str| format!("{nvcc}: host_config.h has no limit for {what}");
        let gcc = limit(config, "#if __GNUC__ > ").ok_or_else(|| missing("gcc"))?;
        let clang = limit(config, "#if (__clang_major__ >= ")
            .map(|first| first - 1)
            .ok_or_else(|| missing("clang"))?;
        let breaks = DECLARED_BY_GLIBC
            .iter()
            .find(|(function, _)| is_bare(math, function));
        let breaks = breaks
            .map(|(_, glibc)| (*glibc).to_owned())
            .unwrap_or_default();
        Ok(vec![
            nvcc.to_owned(),
            gcc.to_string(),
            clang.to_string(),
            breaks,
        ])
    }
}

/// The number after the last line that starts with this: earlier ones are for other systems.
fn limit(header: &str, beginning: &str) -> Option<u32> {
    let rest = header
        .lines()
        .rev()
        .find_map(|line| line.trim().strip_prefix(beginning))?;
    rest.split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// Whether `double NAME(double x);` is declared without an exception specification.
fn is_bare(header: &str, function: &str) -> bool {
    let declaration = format!("{function}(double x);");
    header
        .lines()
        .filter(|line| line.starts_with("extern"))
        .any(|line| line.trim_end().ends_with(&declaration))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    fs::read_dir(folder)
        .map_err(failed)?
        .map(|entry| Ok(entry.map_err(failed)?.path()))
        .collect()
}

fn folders_named(folder: &Path, name: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if !folder.is_dir() {
        return Ok(found);
    }
    for path in entries(folder)?.into_iter().filter(|path| path.is_dir()) {
        found.extend(folders_named(&path, name)?);
        if path.ends_with(name) {
            found.push(path);
        }
    }
    Ok(found)
}

fn text(path: &Path) -> Result<Option<String>> {
    if !path.exists() {
        return Ok(None);
    }
    fs::read_to_string(path)
        .map(Some)
        .map_err(|e| format!("{}: {e}", path.display()))
}

/// Compares the limits of each release.
pub fn check(database: &Database) -> Result<Comparison> {
    let rows = table::read(TABLE)?;
    let (mut facts, mut differences) = (0, Vec::new());
    for row in &rows {
        let [nvcc, gcc, clang, glibc] = row.as_slice() else {
            return Err(format!("{TABLE}: {row:?}"));
        };
        let mut releases = database
            .cuda
            .iter()
            .filter(|release| release.nvcc.as_deref() == Some(nvcc))
            .peekable();
        if releases.peek().is_none() {
            differences.push(format!("the database has no CUDA release with nvcc {nvcc}"));
        }
        for release in releases {
            let ours = [
                ("gcc_max", gcc, release.gcc_max.map(|gcc| gcc.to_string())),
                ("clang_max", clang, release.clang_max.clone()),
                (
                    "glibc_breaks_from",
                    glibc,
                    release.glibc_breaks_from.clone(),
                ),
            ];
            facts += ours.len();
            for (key, theirs, ours) in ours {
                let ours = ours.unwrap_or_default();
                if *theirs != ours {
                    let version = release.version;
                    differences
                        .push(format!("CUDA {version}: {key} is {theirs:?} in its headers; the database has {ours:?}"));
                }
            }
        }
    }
    Ok(Comparison {
        what: "limits in the headers of CUDA releases",
        facts,
        differences,
    })
}
