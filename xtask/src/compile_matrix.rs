//! Results of compilations with nvcc. `tests/as_root/compile_matrix.rs` writes the table, with a
//! row for each g++ in each root of Debian and the headers of each CUDA release. That test asks
//! gpusetup itself; here the limits in the database are applied directly.

use crate::{Comparison, Result, table};
use gpusetup_database::compat::{CudaRelease, Database};

const TABLE: &str = "compile-matrix.tsv";

/// The source named by the releases in the table.
const SOURCE: &str = "compile-matrix";

/// Compares every result with the limits of the CUDA release that the headers belong to.
pub fn check(database: &Database) -> Result<Comparison> {
    let rows = table::read(TABLE)?;
    let mut differences = Vec::new();
    for row in &rows {
        let [suite, glibc, gxx, nvcc, _, result] = row.as_slice() else {
            return Err(format!("{TABLE}: {row:?}"));
        };
        let gxx = gxx.parse().map_err(|_| format!("{TABLE}: {row:?}"))?;
        let mut releases = database
            .cuda
            .iter()
            .filter(|release| release.nvcc.as_deref() == Some(nvcc))
            .peekable();
        if releases.peek().is_none() {
            differences.push(format!("the database has no CUDA release with nvcc {nvcc}"));
        }
        for CudaRelease { version, .. } in releases
            .clone()
            .filter(|release| !release.sources.iter().any(|s| s == SOURCE))
        {
            differences.push(format!("CUDA {version} does not name the source {SOURCE}"));
        }
        for release in releases.filter(|release| expected(release, glibc, gxx) != result) {
            differences.push(format!(
                "{suite}, glibc {glibc}, g++ {gxx}, CUDA {}: measured {result:?}; expected from the database {:?}",
                release.version,
                expected(release, glibc, gxx)
            ));
        }
    }
    for release in database
        .cuda
        .iter()
        .filter(|release| release.sources.iter().any(|source| source == SOURCE))
    {
        if !rows.iter().any(|row| row.get(3) == release.nvcc.as_ref()) {
            differences.push(format!(
                "CUDA {} names the source {SOURCE}, which does not contain it",
                release.version
            ));
        }
    }
    differences.dedup();
    Ok(Comparison {
        what: "compilations by nvcc",
        facts: rows.len(),
        differences,
    })
}

/// The result expected from the limits of the release.
fn expected(release: &CudaRelease, glibc: &str, gxx: u16) -> &'static str {
    if release
        .glibc_breaks_from
        .as_deref()
        .is_some_and(|first| dotted(glibc) >= dotted(first))
    {
        "glibc"
    } else if release.gcc_max.is_some_and(|max| gxx > max)
        || release.gcc_min.is_some_and(|min| gxx < min)
    {
        "g++"
    } else {
        "compiles"
    }
}

fn dotted(version: &str) -> Vec<u32> {
    version
        .split('.')
        .map_while(|number| number.parse().ok())
        .collect()
}
