//! Records what the tests refresh from: the archives in NVIDIA's lists of a few past releases, and
//! a part of a driver's list of GPUs, as tables in `xtask/recorded/releases/`. The tests make lists
//! of them again, which have everything that is read of a list.

use super::gpus;
use super::lists::{self, List};
use crate::open_kernel_modules::git;
use crate::{Result, table};
use gpusetup_database::sum::sha256;
use std::path::Path;

/// The source repository: it keeps NVIDIA's lists as published.
const REPOSITORY: &str = "github.com/nixos-cuda/cuda-legacy";

/// The recorded lists.
pub const LISTS: [&str; 5] = [
    "cuda/redist/redistrib_12.8.1.json",
    "cuda/redist/redistrib_13.0.2.json",
    "cudnn/redist/redistrib_9.7.0.json",
    "cudnn/redist/redistrib_9.13.0.json",
    "cusparselt/redist/redistrib_0.8.0.json",
];

pub const COLUMNS: [&str; 7] = [
    "component",
    "version",
    "platform",
    "CUDA line",
    "path",
    "sha256",
    "bytes",
];

/// The repository with lists of GPUs, from Ubuntu's packages of drivers.
const GPUS: &str = "github.com/alex-tu-cc/get-nvidia-supported-gpus-json";

/// The list of branch 525, as Ubuntu 20.04 had it on 2023-03-22. The repository does not name the
/// release.
const GPUS_525: [&str; 2] = [
    "40678c28e943cf34be39ee436b7a3cddf21bfebf",
    "focal-nvidia-driver-525-supported-gpus.json",
];

/// The first and the last device of what is recorded: 8800 GTX, GTX 580, K80, V100, A100 and A30,
/// A10 and A40, H100, RTX 4090 and L4.
const DEVICES: [[u16; 2]; 9] = [
    [0x0191, 0x0191],
    [0x1080, 0x1080],
    [0x102d, 0x102d],
    [0x1db1, 0x1db6],
    [0x20b0, 0x20ff],
    [0x2230, 0x2237],
    [0x2321, 0x233f],
    [0x2684, 0x26b5],
    [0x27b8, 0x27b8],
];

/// The table of GPUs.
pub const GPU_TABLE: &str = "releases/gpus-525.tsv";

/// The table of a list: `releases/cuda-13.0.2.tsv`.
pub fn table_of(list: &str) -> String {
    let (product, release) = lists::named(list).unwrap_or_default();
    format!("releases/{product}-{release}.tsv")
}

/// Records the lists in clones of both repositories.
pub fn record(archives: &Path, gpus: &Path) -> Result<()> {
    record_archives(archives)?;
    record_gpus(gpus)
}

fn record_gpus(repository: &Path) -> Result<()> {
    let [commit, file] = GPUS_525;
    let text = git(repository, &["show", &format!("{commit}:{file}")])?;
    let list =
        gpus::read("525.89.02/supported-gpus.json", &text).map_err(|e| format!("{file}: {e}"))?;
    let is_recorded = |device: u16| {
        DEVICES
            .iter()
            .any(|[first, last]| (*first..=*last).contains(&device))
    };
    let boards = list
        .boards
        .iter()
        .filter(|board| is_recorded(board.device.0));
    let row = |board: &gpus::Board| {
        let open = if board.open { "open" } else { "" }.to_owned();
        let [subsystem, legacy] =
            [&board.subsystem, &board.legacy].map(|text| text.clone().unwrap_or_default());
        vec![
            board.device.to_string(),
            subsystem,
            board.name.clone(),
            legacy,
            open,
        ]
    };
    let origin = format!(
        "a part of {file} of {GPUS} at commit {commit}, sha256 {}",
        sha256(&text)
    );
    let columns = [
        "device",
        "subsystem",
        "name",
        "legacy branch",
        "open modules",
    ];
    table::write(
        GPU_TABLE,
        &origin,
        &columns,
        &boards.map(row).collect::<Vec<_>>(),
    )
}

fn record_archives(repository: &Path) -> Result<()> {
    let commit = git(repository, &["rev-parse", "HEAD"])?;
    let files = git(repository, &["ls-tree", "-r", "--name-only", "HEAD"])?;
    for path in LISTS {
        let (product, release) =
            lists::named(path).ok_or_else(|| format!("{path} is not the name of a list"))?;
        let end = format!("/{product}/redistrib_{release}.json");
        let file = files
            .lines()
            .find(|file| file.ends_with(&end))
            .ok_or_else(|| format!("{path}: not in the repository"))?;
        let text = git(repository, &["show", &format!("HEAD:{file}")])?;
        let list = lists::read(path, &text, &sha256(&text)).map_err(|e| format!("{file}: {e}"))?;
        let origin = format!(
            "{} of {}, sha256 {}, as {REPOSITORY} has it at commit {}, {file}",
            path,
            list.date.as_deref().unwrap_or_default(),
            list.sha256,
            commit.trim(),
        );
        table::write(&table_of(path), &origin, &COLUMNS, &rows(&list))?;
    }
    Ok(())
}

fn rows(list: &List) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for component in &list.components {
        for archive in &component.archives {
            let line = archive.line.clone().unwrap_or_default();
            let [name, version] = [&component.name, &component.version].map(Clone::clone);
            let size = archive.size.to_string();
            rows.push(vec![
                name,
                version,
                archive.platform.clone(),
                line,
                archive.path.clone(),
                archive.sha256.clone(),
                size,
            ]);
        }
    }
    rows
}
