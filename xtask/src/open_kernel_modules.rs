//! The GPUs listed by NVIDIA's open kernel modules: in the table of the README, and in the names
//! compiled into the modules, which had some GPUs earlier. Every release has both, so they show
//! from which release on each branch supports a GPU. The lists shipped with drivers have the same
//! content, but few of them are published.

use crate::{Comparison, Result, project, table};
use gpusetup_database::compat::{Database, Gpu, Maturity, PciDevice};
use gpusetup_database::version::DriverVersion;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

const TABLE: &str = "open-kernel-modules.tsv";

/// The file with the names of boards and virtual GPUs.
pub const NAMES: &str = "src/nvidia/generated/g_nv_name_released.h";

/// The devices listed by each release.
type Lists = BTreeMap<DriverVersion, BTreeSet<PciDevice>>;

/// Reads the tables of all releases in a clone of the repository, and records the first releases of
/// each branch that list each device. Vulkan betas are skipped: their numbers are lower than their
/// contents suggest.
pub fn record(database: &Database, repository: &Path) -> Result<()> {
    let mut lists = Lists::new();
    for release in releases(database, repository)? {
        let boards = boards(&git(
            repository,
            &["show", &format!("{release}:README.md")],
        )?);
        let (named, _) = named(&git(repository, &["show", &format!("{release}:{NAMES}")])?);
        lists.insert(
            release,
            boards
                .into_iter()
                .chain(named)
                .map(|(device, _)| device)
                .collect(),
        );
    }
    let ([Some((oldest, _)), Some((newest, _))], count) = (
        [lists.first_key_value(), lists.last_key_value()],
        lists.len(),
    ) else {
        return Err(format!("{}: no tags", repository.display()));
    };
    let origin = format!(
        "README.md and {NAMES} of github.com/NVIDIA/open-gpu-kernel-modules, {count} releases from {oldest} to {newest}"
    );
    let devices: BTreeSet<_> = lists.values().flatten().collect();
    let rows: Vec<_> = devices
        .into_iter()
        .map(|device| {
            vec![
                device.to_string(),
                texts(&listed_from(&lists, *device)).join(" "),
            ]
        })
        .collect();
    table::write(
        TABLE,
        &origin,
        &["device", "first release of each branch that lists it"],
        &rows,
    )
}

/// The releases in a clone of the repository, oldest first, without Vulkan betas.
pub fn releases(database: &Database, repository: &Path) -> Result<Vec<DriverVersion>> {
    let is_vulkan_beta = |release: &DriverVersion| {
        database
            .drivers
            .iter()
            .any(|d| d.version == *release && d.maturity == Maturity::VulkanBeta)
    };
    let tags = git(repository, &["tag"])?;
    let releases = tags
        .lines()
        .map(|tag| tag.parse().map_err(|e| format!("tag {tag}: {e}")))
        .collect::<Result<BTreeSet<_>>>()?;
    Ok(releases
        .into_iter()
        .filter(|release| !is_vulkan_beta(release))
        .collect())
}

/// The output of git.
pub fn git(repository: &Path, arguments: &[&str]) -> Result<String> {
    let out = Command::new("git")
        .arg("-C")
        .arg(repository)
        .args(arguments)
        .output()
        .map_err(|e| format!("git: {e}"))?;
    if !out.status.success() {
        return Err(format!(
            "git {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&out.stderr).trim()
        ));
    }
    String::from_utf8(out.stdout).map_err(|e| format!("git {}: {e}", arguments.join(" ")))
}

/// A device, and the vendor and id of its subsystem if the list distinguishes boards of the device.
pub type Board = (PciDevice, Option<(u16, u16)>);

/// The boards in a README's table, whose rows are `| NVIDIA H100 PCIe | 2331 10DE 1626 |`.
pub fn boards(readme: &str) -> BTreeSet<Board> {
    let board = |line: &str| {
        let (_, ids) = line
            .strip_prefix("| ")?
            .strip_suffix('|')?
            .split_once('|')?;
        let ids: Vec<_> = ids
            .split_whitespace()
            .map(|id| u16::from_str_radix(id, 16).ok().filter(|_| id.len() == 4))
            .collect();
        match ids.as_slice() {
            [Some(device)] => Some((PciDevice(*device), None)),
            [Some(device), Some(vendor), Some(subsystem)] => {
                Some((PciDevice(*device), Some((*vendor, *subsystem))))
            }
            _ => None,
        }
    };
    readme.lines().filter_map(board).collect()
}

/// The boards in the list of names, whose rows are `{ 0x2331, 0x1626, 0x10de, "NVIDIA H100 PCIe"
/// },`: device, subsystem and the subsystem's vendor. The virtual GPUs follow; their rows spell the
/// vendor `0x10DE`.
pub fn named(header: &str) -> (BTreeSet<Board>, BTreeSet<Board>) {
    let row = |line: &str| {
        let line = line.trim().strip_prefix("{ 0x")?;
        let mut ids = line.split(", 0x");
        let mut id = || u16::from_str_radix(ids.next()?.get(..4)?, 16).ok();
        let (device, subsystem, vendor) = (id()?, id()?, id()?);
        Some((
            (
                PciDevice(device),
                (vendor != 0).then_some((vendor, subsystem)),
            ),
            line.contains(", 0x10DE,"),
        ))
    };
    let (virtual_gpus, boards): (Vec<_>, Vec<_>) = header
        .lines()
        .filter_map(row)
        .partition(|(_, is_virtual)| *is_virtual);
    let set = |rows: Vec<(Board, bool)>| rows.into_iter().map(|(board, _)| board).collect();
    (set(boards), set(virtual_gpus))
}

/// The first release of each branch that lists the device, oldest first, up to the branch that
/// lists it from its first release on. A branch that is missing in between does not list it. Later
/// removals are ignored: NVIDIA drops rows of boards that newer drivers still support.
fn listed_from(lists: &Lists, device: PciDevice) -> Vec<DriverVersion> {
    let mut from: Vec<DriverVersion> = Vec::new();
    for (release, devices) in lists {
        let is_first_of_branch = lists.keys().find(|r| r.branch == release.branch) == Some(release);
        if devices.contains(&device) && from.last().is_none_or(|last| last.branch < release.branch)
        {
            from.push(*release);
            if is_first_of_branch {
                break;
            }
        }
    }
    from
}

fn texts(releases: &[DriverVersion]) -> Vec<String> {
    releases.iter().map(ToString::to_string).collect()
}

/// Compares `listed_from` of each device.
pub fn check(database: &Database, write: bool) -> Result<Comparison> {
    let mut recorded: BTreeMap<PciDevice, Vec<DriverVersion>> = BTreeMap::new();
    for row in table::read(TABLE)? {
        let [device, from] = row.as_slice() else {
            return Err(format!("{TABLE}: {row:?}"));
        };
        let device =
            u16::from_str_radix(device, 16).map_err(|e| format!("{TABLE}: {device}: {e}"))?;
        let from = from
            .split(' ')
            .map(|v| v.parse().map_err(|e| format!("{TABLE}: {e}")))
            .collect::<Result<_>>()?;
        recorded.insert(PciDevice(device), from);
    }
    let mut differences = Vec::new();
    for (device, from) in &recorded {
        let mut known = database
            .gpus
            .iter()
            .filter(|gpu| gpu.device == *device)
            .peekable();
        if known.peek().is_none() {
            differences.push(format!("{device}: the database has no such GPU"));
        }
        for gpu in known.filter(|gpu| gpu.listed_from != *from && !has_older_list(gpu, from)) {
            let [source, ours] = [from, &gpu.listed_from].map(|all| texts(all).join(", "));
            differences.push(format!(
                "{device} {}: listed from {source}; the database has {ours:?}",
                gpu.name
            ));
        }
    }
    if write {
        write_gpus(database, &recorded)?;
    }
    Ok(Comparison {
        what: "GPUs that open kernel modules list",
        facts: recorded.len(),
        differences,
    })
}

/// The branch of the first release with open modules. Older branches may already know its GPUs.
const OLDEST: DriverVersion = DriverVersion {
    branch: 515,
    minor: 43,
    patch: Some(4),
};

/// Whether the database has another list with the same information: of an older driver, as shipped
/// with the proprietary modules.
fn has_older_list(gpu: &Gpu, from: &[DriverVersion]) -> bool {
    let first = from.first().map_or(0, |release| release.branch);
    let has_list = |branch: u16| branch < first || branch == first && from == [OLDEST];
    gpu.listed_from.is_empty() && gpu.first_driver_branch.is_none_or(has_list)
}

/// Writes `listed_from` to the GPU files, where each entry is one line.
fn write_gpus(
    database: &Database,
    recorded: &BTreeMap<PciDevice, Vec<DriverVersion>>,
) -> Result<()> {
    let differs = |device: &PciDevice, from: &[DriverVersion]| {
        database
            .gpus
            .iter()
            .any(|gpu| gpu.device == *device && !has_older_list(gpu, from))
    };
    let folder = project().join("compat/gpus");
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    for file in fs::read_dir(&folder).map_err(failed)? {
        let path = file.map_err(failed)?.path();
        let text = fs::read_to_string(&path).map_err(failed)?;
        let mut new = String::new();
        for line in text.lines() {
            let device = line
                .split_once("{device: \"")
                .and_then(|(_, rest)| u16::from_str_radix(rest.get(..4)?, 16).ok());
            let listed = device.and_then(|device| recorded.get_key_value(&PciDevice(device)));
            match listed.filter(|(device, from)| differs(device, from)) {
                Some((_, from)) => new += &with_listed_from(line, from),
                None => new += line,
            }
            new.push('\n');
        }
        if new != text {
            fs::write(&path, new).map_err(failed)?;
        }
    }
    Ok(())
}

/// An entry with these releases; they replace the values from lists of fewer drivers.
fn with_listed_from(line: &str, from: &[DriverVersion]) -> String {
    let mut line = line.to_owned();
    for field in [
        "first_driver_branch: ",
        "absent_from_branch: ",
        "listed_from: ",
    ] {
        if let Some((before, rest)) = line.split_once(field) {
            let end = if rest.starts_with('[') { "], " } else { ", " };
            line = before.to_owned() + rest.split_once(end).map_or("", |(_, rest)| rest);
        }
    }
    let releases: Vec<_> = from
        .iter()
        .map(|release| format!("\"{release}\""))
        .collect();
    let field = format!("listed_from: [{}], ", releases.join(", "));
    match line
        .find("line: ")
        .or_else(|| line.find("form: "))
        .or_else(|| line.find("sources: "))
    {
        Some(at) => line[..at].to_owned() + &field + &line[at..],
        None => line,
    }
}
