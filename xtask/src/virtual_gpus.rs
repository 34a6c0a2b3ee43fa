//! Virtual GPUs, from the names compiled into NVIDIA's open kernel modules.

use crate::open_kernel_modules::{NAMES, git, named, releases};
use crate::{Comparison, Result, project, table};
use gpusetup_database::compat::{Database, PciDevice};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const TABLE: &str = "virtual-gpus.tsv";

/// Reads the names of the newest release in a clone of the repository.
pub fn record(database: &Database, repository: &Path) -> Result<()> {
    let Some(newest) = releases(database, repository)?.pop() else {
        return Err(format!("{}: no tags", repository.display()));
    };
    let (_, virtual_gpus) = named(&git(repository, &["show", &format!("{newest}:{NAMES}")])?);
    let mut subsystems: BTreeMap<PciDevice, BTreeSet<PciDevice>> = BTreeMap::new();
    for (device, subsystem) in virtual_gpus {
        if let Some((_, id)) = subsystem {
            subsystems.entry(device).or_default().insert(PciDevice(id));
        }
    }
    let rows: Vec<_> = subsystems
        .iter()
        .map(|(device, ids)| vec![device.to_string(), texts(ids).join(" ")])
        .collect();
    let origin = format!("{NAMES} of github.com/NVIDIA/open-gpu-kernel-modules {newest}");
    table::write(
        TABLE,
        &origin,
        &["device", "subsystems of virtual GPUs"],
        &rows,
    )
}

fn texts(ids: &BTreeSet<PciDevice>) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

/// Compares the subsystems of each GPU.
pub fn check(database: &Database, write: bool) -> Result<Comparison> {
    let rows = table::read(TABLE)?;
    let (mut facts, mut differences) = (0, Vec::new());
    for row in &rows {
        let [device, ids] = row.as_slice() else {
            return Err(format!("{TABLE}: {row:?}"));
        };
        let known = database
            .virtual_gpus
            .iter()
            .find(|v| v.device.to_string() == *device);
        let ours: BTreeSet<_> = known
            .iter()
            .flat_map(|v| &v.subsystems)
            .map(ToString::to_string)
            .collect();
        let theirs: BTreeSet<_> = ids.split(' ').map(str::to_owned).collect();
        facts += theirs.len();
        differences.extend(
            ours.symmetric_difference(&theirs)
                .map(|id| format!("{device}: subsystem {id} on one side only")),
        );
    }
    if write {
        let mut text = String::from(
            "# Virtual GPUs (vGPU) by the PCI device id of the GPU, and their subsystem ids, of vendor 10de. A guest that sees one\n\
             # needs NVIDIA's vGPU guest driver. Written by `cargo xtask check --write`.\nvirtual_gpus:\n",
        );
        for row in &rows {
            let [device, ids] = row.as_slice() else {
                continue;
            };
            let ids = ids.replace(' ', "\", \"");
            text += &format!(
                "  - {{device: \"{device}\", subsystems: [\"{ids}\"], sources: [open-gpu-kernel-modules]}}\n"
            );
        }
        let path = project().join("compat/virtual-gpus.yaml");
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(Comparison {
        what: "virtual GPUs that open kernel modules name",
        facts,
        differences,
    })
}
