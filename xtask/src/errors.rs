//! The numbers and names of errors in the kernel log, from headers of NVIDIA's open kernel modules:
//! Xids of GPUs, SXids of NVSwitches. The headers contain neither meanings nor remedies.

use crate::open_kernel_modules::{git, releases};
use crate::{Comparison, Result, project, table};
use gpusetup_database::compat::Database;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const XIDS: &str = "xids.tsv";
const SXIDS: &str = "sxids.tsv";
const XID_HEADER: &str = "src/common/sdk/nvidia/inc/nverror.h";
const SXID_HEADER: &str = "src/common/nvswitch/interface/ctrl_dev_nvswitch.h";

/// The source of the names.
const NVERROR: &str = "open-gpu-kernel-modules-nverror";

type Names = BTreeMap<u32, String>;

/// Reads the headers of the newest release in a clone of the repository.
pub fn record(database: &Database, repository: &Path) -> Result<()> {
    let Some(newest) = releases(database, repository)?.pop() else {
        return Err(format!("{}: no tags", repository.display()));
    };
    for (table, header, read) in [
        (XIDS, XID_HEADER, xids as fn(&str) -> Names),
        (SXIDS, SXID_HEADER, sxids),
    ] {
        let names = read(&git(repository, &["show", &format!("{newest}:{header}")])?);
        let rows: Vec<_> = names
            .into_iter()
            .map(|(number, name)| vec![number.to_string(), name])
            .collect();
        let origin = format!("{header} of github.com/NVIDIA/open-gpu-kernel-modules {newest}");
        table::write(table, &origin, &["number", "name"], &rows)?;
    }
    Ok(())
}

/// Parses `#define NAME (NUMBER)`, except for reserved numbers, the second name of the last one,
/// and recovery levels.
fn xids(header: &str) -> Names {
    let define = |line: &str| {
        let mut words = line.strip_prefix("#define ")?.split_whitespace();
        let (name, number) = (words.next()?, words.next()?);
        let number = number.strip_prefix('(')?.strip_suffix(')')?.parse().ok()?;
        let is_none = ["UNUSED", "RESERVED", "LAST_ERROR", "RECOVERY_LEVEL"]
            .iter()
            .any(|part| name.contains(part));
        (!is_none).then(|| (number, name.to_owned()))
    };
    header.lines().filter_map(define).collect()
}

/// Parses `NVSWITCH_ERR_NAME = NUMBER,`.
fn sxids(header: &str) -> Names {
    let value = |line: &str| {
        let (name, number) = line.trim().strip_prefix("NVSWITCH_ERR_")?.split_once('=')?;
        Some((
            number.split(',').next()?.trim().parse().ok()?,
            name.trim().to_owned(),
        ))
    };
    header.lines().filter_map(value).collect()
}

/// Compares the names of all numbers, and reports missing ones.
pub fn check(database: &Database, write: bool) -> Result<Vec<Comparison>> {
    let (xids, sxids) = (recorded(XIDS)?, recorded(SXIDS)?);
    let from_header = database
        .xids
        .iter()
        .filter(|x| x.sources.iter().any(|source| source == NVERROR));
    let known_xids = from_header
        .map(|x| (u32::from(x.xid), x.name.clone()))
        .collect();
    let known_sxids = database
        .sxids
        .iter()
        .map(|x| (x.sxid, x.name.clone()))
        .collect();
    if write {
        write_sxids(&sxids)?;
    }
    Ok(vec![
        compared("Xids of the open kernel modules", &xids, &known_xids),
        compared("SXids of the open kernel modules", &sxids, &known_sxids),
    ])
}

fn recorded(name: &str) -> Result<Names> {
    let row = |row: Vec<String>| match row.as_slice() {
        [number, name] => number
            .parse()
            .map(|number| (number, name.clone()))
            .map_err(|e| format!("{number}: {e}")),
        _ => Err(format!("{name}: {row:?}")),
    };
    table::read(name)?.into_iter().map(row).collect()
}

fn compared(what: &'static str, theirs: &Names, ours: &Names) -> Comparison {
    let numbers: std::collections::BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
    let differs = |number: &&u32| theirs.get(number) != ours.get(number);
    let name = |names: &Names, number: &u32| {
        names
            .get(number)
            .cloned()
            .unwrap_or_else(|| "nothing".to_owned())
    };
    let differences = numbers.into_iter().filter(differs);
    let differences = differences
        .map(|number| {
            format!(
                "{number}: {} in the header, {} in the database",
                name(theirs, number),
                name(ours, number)
            )
        })
        .collect();
    Comparison {
        what,
        facts: theirs.len(),
        differences,
    }
}

fn write_sxids(names: &Names) -> Result<()> {
    let mut text = String::from(
        "# SXids: numbers of NVSwitch errors in the kernel log, by the driver's names. Written by `cargo xtask check --write`.\nsxids:\n",
    );
    for (number, name) in names {
        text += &format!(
            "  - {{sxid: {number}, name: \"{name}\", sources: [open-gpu-kernel-modules-sxids]}}\n"
        );
    }
    let path = project().join("compat/sxids.yaml");
    fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_their_names() {
        let header = "#define ROBUST_CHANNEL_UNUSED_ERROR_30 (30)\n#define PMU_ERROR    (59)\n#define A PMU_ERROR\n\
                      #define ROBUST_CHANNEL_LAST_ERROR (59)\n#define ROBUST_CHANNEL_CE_ERROR(x)   \\\n";
        assert_eq!(xids(header), [(59, "PMU_ERROR".to_owned())].into());
        let header = "    NVSWITCH_ERR_NO_ERROR = 0x0,\n    NVSWITCH_ERR_HW_HOST_IO_FAILURE   = 10007,\n    NVSWITCH_ERR_HW_HOST_LAST, /* NOTE: */\n";
        assert_eq!(
            sxids(header),
            [(10007, "HW_HOST_IO_FAILURE".to_owned())].into()
        );
    }

    #[test]
    fn what_is_missing_and_what_is_called_otherwise_differs() {
        let names = |all: &[(u32, &str)]| {
            all.iter()
                .map(|(n, name)| (*n, (*name).to_owned()))
                .collect()
        };
        let found = compared(
            "x",
            &names(&[(1, "A"), (2, "B"), (3, "C")]),
            &names(&[(1, "A"), (2, "X"), (4, "D")]),
        );
        assert_eq!(found.differences.len(), 3, "{:?}", found.differences);
    }
}
