//! A driver's list of GPUs, `supported-gpus.json`: which GPUs it supports, and which it leaves to
//! an older (legacy) branch. It has neither the chip nor the compute capability, so a GPU that the
//! database does not have needs another source.

use super::json::Json;
use super::report::{Report, shown};
use super::tree::{Lines, Tree, field, with_source};
use crate::Result;
use gpusetup_database::compat::{Database, Gpu, ModuleFlavour, PciDevice};
use gpusetup_database::version::DriverVersion;
use std::collections::{BTreeMap, BTreeSet};

const SOURCES: &str = "compat/sources.yaml";

/// Fields of a GPU's line that come after those about drivers.
const AFTER: [&str; 9] = [
    "line",
    "form",
    "only_on",
    "known_as",
    "memory_gb",
    "mobile",
    "mig",
    "disagreement",
    "sources",
];

/// The list of one release.
pub struct GpuList {
    pub input: String,
    pub driver: DriverVersion,
    pub boards: Vec<Board>,
    /// Names of members with a meaning that is unknown here.
    pub unknown: BTreeSet<String>,
}

/// A row of the list.
pub struct Board {
    pub device: PciDevice,
    /// The only board that the row is about: `10de:1463`.
    pub subsystem: Option<String>,
    pub name: String,
    /// The last branch that supports it, `470`, if that is an older one.
    pub legacy: Option<String>,
    /// Whether the open kernel modules support it.
    pub open: bool,
}

/// Reads a list. The release is in its path:
/// `XFree86/Linux-x86_64/595.45.04/supported-gpus/supported-gpus.json`.
pub fn read(path: &str, text: &str) -> Result<GpuList> {
    let release = path.rsplit('/').find_map(|part| {
        part.parse::<DriverVersion>()
            .ok()
            .filter(|v| v.to_string() == part)
    });
    let driver = release.ok_or("its path does not name the driver's release")?;
    let json = Json::parse(text)?;
    let rows = json
        .get("chips")
        .and_then(Json::list)
        .ok_or("it has no list named chips")?;
    let mut list = GpuList {
        input: path.to_owned(),
        driver,
        boards: Vec::new(),
        unknown: BTreeSet::new(),
    };
    let members = json
        .object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name)
        .filter(|name| *name != "chips");
    list.unknown.extend(members.cloned());
    for (n, row) in rows.iter().enumerate() {
        list.boards
            .push(board(row, &mut list.unknown).map_err(|e| format!("row {}: {e}", n + 1))?);
    }
    Ok(list)
}

fn board(row: &Json, unknown: &mut BTreeSet<String>) -> Result<Board> {
    let mut board = Board {
        device: PciDevice(0),
        subsystem: None,
        name: String::new(),
        legacy: None,
        open: false,
    };
    let (mut device, mut subdevice, mut subvendor) = (None, None, None);
    for (key, value) in row.object().ok_or("it is not an object")? {
        match (key.as_str(), value) {
            ("devid", Json::Text(text)) => device = Some(id(text)?),
            ("subdevid", Json::Text(text)) => subdevice = Some(id(text)?),
            ("subvendorid", Json::Text(text)) => subvendor = Some(id(text)?),
            ("name", Json::Text(text)) => board.name = text.clone(),
            ("legacybranch", Json::Text(text)) => board.legacy = Some(branch(text)?),
            ("features", Json::List(all)) => {
                board.open = all.iter().any(|f| f.text() == Some("kernelopen"))
            }
            ("devid" | "subdevid" | "subvendorid" | "name" | "legacybranch" | "features", _) => {
                return Err(format!("{key} has another form"));
            }
            (key, _) => {
                unknown.insert(key.to_owned());
            }
        }
    }
    board.device = PciDevice(device.ok_or("it has no devid")?);
    board.subsystem = match (subvendor, subdevice) {
        (Some(vendor), Some(device)) => Some(format!("{vendor:04x}:{device:04x}")),
        (None, None) => None,
        _ => return Err("it has one half of a subsystem".to_owned()),
    };
    Ok(board)
}

/// `0x2331` as a number.
fn id(text: &str) -> Result<u16> {
    let digits = text
        .strip_prefix("0x")
        .filter(|digits| digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_hexdigit()));
    let id = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
    id.ok_or_else(|| format!("{} is not an id such as 0x2331", shown(text)))
}

/// `470.xx` as `470`.
fn branch(text: &str) -> Result<String> {
    let branch = text
        .strip_suffix(".xx")
        .filter(|branch| super::lists::is_version(branch));
    branch
        .map(str::to_owned)
        .ok_or_else(|| format!("{} is not a branch such as 470.xx", shown(text)))
}

/// Compares lists with the database, oldest first, and adds what they say of GPUs that no list had.
pub fn refresh(lists: &[GpuList], database: &Database, tree: &mut Tree, report: &mut Report) {
    let mut lists: Vec<_> = lists.iter().collect();
    lists.sort_by_key(|list| list.driver);
    for (n, list) in lists.iter().enumerate() {
        for name in &list.unknown {
            report.unknown(
                "members of lists of GPUs",
                format!("{name} in {}", list.input),
            );
        }
        if database.branch(list.driver.branch).is_none() {
            report.manual.push(format!(
                "{}: branch {} is not in `compat/driver-branches.yaml`; add it, then refresh again",
                shown(&list.input),
                list.driver.branch
            ));
            continue;
        }
        one(list, &lists[..n], database, tree, report);
    }
}

fn one(
    list: &GpuList,
    older: &[&GpuList],
    database: &Database,
    tree: &mut Tree,
    report: &mut Report,
) {
    let mut differences: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut differ = |what: String, gpu: String| {
        differences.entry(what).or_default().insert(gpu);
    };
    let (mut seen, mut boards) = (BTreeSet::new(), BTreeMap::new());
    let whole: BTreeSet<_> = list
        .boards
        .iter()
        .filter(|b| b.subsystem.is_none())
        .map(|b| b.device)
        .collect();
    let (mut wrong_open, mut first, mut last) = (0, BTreeSet::new(), BTreeSet::new());
    for board in &list.boards {
        if !seen.insert((board.device, &board.subsystem)) {
            differ("the list has it twice".to_owned(), name(board));
            continue;
        }
        let exact = database.gpus.iter().find(|gpu| {
            gpu.device == board.device && gpu.subsystem.as_deref() == board.subsystem.as_deref()
        });
        let gpu = match exact.or_else(|| database.gpu(board.device, board.subsystem.as_deref())) {
            Some(gpu) if exact.is_some() => gpu,
            // The record is of all other boards of the device. Some lists name these boards alone.
            Some(_) if whole.contains(&board.device) => continue,
            Some(gpu) => match boards.insert(board.device, &board.legacy) {
                None => gpu,
                Some(legacy) if *legacy == board.legacy => continue,
                Some(_) => {
                    differ(
                        "boards of one record have different last branches".to_owned(),
                        name(board),
                    );
                    continue;
                }
            },
            None if database.nvswitch(board.device).is_some() => continue,
            None => {
                report.manual.push(new_gpu(board, list, database));
                continue;
            }
        };
        let branch = list.driver.branch;
        match (&board.legacy, &gpu.last_driver_branch) {
            (Some(legacy), None) if legacy.parse::<u16>().is_ok_and(|legacy| legacy < branch) => {
                if set_field(
                    gpu,
                    &format!("last_driver_branch: \"{legacy}\""),
                    list,
                    tree,
                ) {
                    last.insert(format!("{} ({legacy})", gpu.device));
                }
                continue;
            }
            (Some(legacy), ours) if ours.as_deref() != Some(legacy) => {
                let ours = ours.as_deref().unwrap_or("none");
                differ(
                    format!("its last branch is {legacy}; the database has {ours}"),
                    name(board),
                );
            }
            (None, Some(ours)) if ours.parse::<u16>().is_ok_and(|ours| ours < branch) => {
                differ(
                    format!("it is supported; the database has {ours} as its last branch"),
                    name(board),
                );
            }
            _ => {}
        }
        if board.legacy.is_some() {
            continue;
        }
        match listed(gpu, list.driver) {
            Listed::Unknown if !database.is_listed(gpu) => {
                let lacks =
                    |list: &&&GpuList| list.boards.iter().all(|of| of.device != board.device);
                let absent = older
                    .iter()
                    .rev()
                    .find(|older| older.driver.branch < branch)
                    .filter(lacks);
                let absent = absent
                    .map(|list| format!(", absent_from_branch: {}", list.driver.branch))
                    .unwrap_or_default();
                if set_field(
                    gpu,
                    &format!("first_driver_branch: {branch}{absent}"),
                    list,
                    tree,
                ) {
                    first.insert(gpu.device.to_string());
                }
            }
            Listed::Unknown | Listed::Consistent => {}
            Listed::Earlier(ours) => differ(
                format!("it is listed; the database has it {ours}"),
                name(board),
            ),
        }
        if board.open && !gpu.modules.contains(&ModuleFlavour::Open) {
            // `compat/disagreements.yaml`: these chips have no GSP.
            if gpu.last_driver_branch.is_some() {
                wrong_open += 1
            } else {
                differ(
                    "the list has open modules for it; the database does not".to_owned(),
                    name(board),
                );
            }
        }
    }
    let input = shown(&list.input);
    for (what, gpus) in differences {
        let gpus: Vec<_> = gpus.into_iter().collect();
        report
            .differ
            .push(format!("{input}: {what}: {}", gpus.join(", ")));
    }
    let listed = |what: &str, gpus: BTreeSet<String>| {
        (!gpus.is_empty()).then(|| {
            format!(
                "driver {}: {what}: {}",
                list.driver,
                gpus.into_iter().collect::<Vec<_>>().join(", ")
            )
        })
    };
    report
        .new
        .extend(listed("the first list that has these GPUs", first));
    report
        .new
        .extend(listed("the last branch of these GPUs", last));
    if wrong_open > 0 {
        let reason = "open modules for chips without a GSP, as `compat/disagreements.yaml` says";
        report.leave_out(reason, format!("{wrong_open} rows of {}", list.input));
    }
}

fn name(board: &Board) -> String {
    let subsystem = board
        .subsystem
        .as_ref()
        .map(|id| format!(" {id}"))
        .unwrap_or_default();
    format!("{}{subsystem} {}", board.device, shown(&board.name))
}

/// A GPU that the database does not have, and the chip that its neighbours have, if that is one.
fn new_gpu(board: &Board, list: &GpuList, database: &Database) -> String {
    let block = |device: PciDevice| device.0 & 0xff80;
    let near = database
        .gpus
        .iter()
        .filter(|gpu| block(gpu.device) == block(board.device));
    let chips: BTreeSet<_> = near
        .map(|gpu| (gpu.chip.as_str(), gpu.architecture.as_str()))
        .collect();
    let hint = match chips.into_iter().collect::<Vec<_>>().as_slice() {
        [(chip, architecture)] => format!("; the ids next to it are {chip}, {architecture}"),
        _ => String::new(),
    };
    format!(
        "{}: the GPU {} is not in `compat/gpus/`: add it with its chip and compute capability{hint}",
        shown(&list.input),
        name(board)
    )
}

/// What the database says of a GPU in a driver's list.
enum Listed {
    /// Nothing.
    Unknown,
    Consistent,
    /// A driver lists it that should not, according to these words.
    Earlier(String),
}

fn listed(gpu: &Gpu, driver: DriverVersion) -> Listed {
    if let Some(first) = gpu.first_driver_branch {
        let is_earlier = driver.branch < first;
        return if is_earlier {
            Listed::Earlier(format!("from branch {first}"))
        } else {
            Listed::Consistent
        };
    }
    let (Some(first), Some(last)) = (gpu.listed_from.first(), gpu.listed_from.last()) else {
        return Listed::Unknown;
    };
    let own = gpu
        .listed_from
        .iter()
        .find(|release| release.branch == driver.branch);
    if driver.branch > last.branch || own.is_some_and(|from| *from <= driver) {
        return Listed::Consistent;
    }
    match own {
        Some(from) => Listed::Earlier(format!("from {from}")),
        None if driver.branch < first.branch => Listed::Earlier(format!("from {first}")),
        None => Listed::Earlier(format!("in no release of branch {}", driver.branch)),
    }
}

/// Inserts a field in a GPU's line, and the list in its sources.
fn set_field(gpu: &Gpu, text: &str, list: &GpuList, tree: &mut Tree) -> bool {
    let device = gpu.device.to_string();
    let is_it = |line: &str| {
        field(line, "device") == Some(&device)
            && field(line, "subsystem") == gpu.subsystem.as_deref()
    };
    let files: Vec<String> = tree.names("compat/gpus/").map(str::to_owned).collect();
    let file = files
        .into_iter()
        .find(|file| tree.text(file).is_some_and(|text| text.lines().any(is_it)));
    let Some(file) = file else { return false };
    let source = source(list.driver.branch, list.driver, tree);
    let inserted = tree.edit(&file, |lines| {
        let Some(line) = lines.0.iter_mut().find(|line| is_it(line)) else {
            return false;
        };
        // An older list of the same refresh has said it.
        if field(line, text.split(':').next().unwrap_or(text)).is_some() {
            return false;
        }
        let Some(at) = AFTER
            .iter()
            .filter_map(|name| line.find(&format!(", {name}: ")))
            .min()
        else {
            return false;
        };
        line.insert_str(at, &format!(", {text}"));
        *line = with_source(line, &source);
        true
    });
    inserted == Some(true)
}

/// The source of a branch's lists. It is added for a branch that is newer than those with a source.
fn source(branch: u16, driver: DriverVersion, tree: &mut Tree) -> String {
    const PREFIX: &str = "nvidia-supported-gpus-";
    let id = format!("{PREFIX}{branch}");
    let begin = |id: &str| format!("  - {{id: {id}, ");
    let text = tree.text(SOURCES).unwrap_or_default();
    if text.contains(&begin(&id)) {
        return id;
    }
    let newest = text
        .lines()
        .filter_map(|line| field(line, "id")?.strip_prefix(PREFIX)?.parse::<u16>().ok())
        .max();
    if newest.is_some_and(|newest| branch < newest) {
        return format!("{PREFIX}older");
    }
    let new = format!(
        "{}title: \"supported-gpus.json of driver {driver}\", location: \"NVIDIA's archive of drivers, XFree86/Linux-x86_64/{driver}\", known: measured, lists_gpus: true}}",
        begin(&id)
    );
    let older = begin(&format!("{PREFIX}older"));
    tree.edit(SOURCES, |lines: &mut Lines| {
        lines.insert_in_order(
            vec![new],
            |line| line.starts_with(&older),
            |line| line.starts_with("  - {"),
        );
    });
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "XFree86/Linux-x86_64/595.45.04/supported-gpus/supported-gpus.json";

    #[test]
    fn lists_have_ids_and_branches() {
        let text = r#"{"chips": [{"devid": "0x1D81", "name": "TITAN V", "legacybranch": "580.xx", "features": []},
            {"devid": "0x20B2", "subdevid": "0x1463", "subvendorid": "0x10DE", "name": "A100", "features": ["kernelopen"]}]}"#;
        let list = read(PATH, text).expect("a list");
        assert_eq!(list.driver.to_string(), "595.45.04");
        assert_eq!(list.boards[0].legacy.as_deref(), Some("580"));
        assert_eq!(list.boards[1].subsystem.as_deref(), Some("10de:1463"));
        assert!(list.boards[1].open && !list.boards[0].open);
    }

    #[test]
    fn malformed_lists_are_refused() {
        for text in [
            "{}",
            r#"{"chips": {}}"#,
            r#"{"chips": [{"name": "x"}]}"#,
            r#"{"chips": [{"devid": "2331", "name": "x"}]}"#,
            r#"{"chips": [{"devid": "0x2331", "name": 7}]}"#,
            r#"{"chips": [{"devid": "0x2331", "subdevid": "0x1463"}]}"#,
            r#"{"chips": [{"devid": "0x2331", "legacybranch": "470.xx\", mig: true"}]}"#,
            r#"{"chips": [{"devid": "0x2331", "devid": "0x2332"}]}"#,
        ] {
            assert!(read(PATH, text).is_err(), "{text}");
        }
        assert!(read("supported-gpus.json", r#"{"chips": []}"#).is_err());
    }
}
