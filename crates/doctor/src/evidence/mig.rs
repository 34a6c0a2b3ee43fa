//! The layouts of GPU instances (MIG) that every boot restores, and those that the GPUs have.

use gpusetup_database::compat::Database;
use gpusetup_gpus::{partitions, why_silent};
use gpusetup_host::Facts;
use gpusetup_mig::{Board, LayoutFile, asserted};
use gpusetup_nvidia::{Answer, MigHost};
use gpusetup_system::System;
use gpusetup_text::paths::MIG_LAYOUT;
use serde::{Deserialize, Serialize};

/// The layouts that boots restore.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct BootLayouts {
    /// Why they cannot be compared with what the GPUs have.
    pub(crate) problem: Option<String>,
    /// The GPUs that they are for.
    pub(crate) gpus: Vec<BootLayout>,
}

/// The layout of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub(crate) struct BootLayout {
    /// Its bus address.
    pub(crate) gpu: String,
    /// Whether it has the layout.
    pub(crate) holds: bool,
    /// The layout that it is to have.
    pub(crate) wanted: String,
    /// The layout that it has.
    pub(crate) found: String,
}

/// The layouts; none if boots restore none, if the driver does not answer, which other checks
/// report, or if this user may not see the instances.
pub(crate) fn boot_layouts(
    system: &System,
    database: &Database,
    facts: &Facts,
) -> Option<BootLayouts> {
    let text = system.read_text(MIG_LAYOUT).ok().flatten()?;
    if why_silent(system, facts).is_some() {
        return None;
    }
    let Answer::Is(MigHost {
        refused: None,
        gpus,
    }) = partitions()
    else {
        return None;
    };
    if gpus.iter().any(|gpu| gpu.refused.is_some()) {
        return None;
    }
    let boards: Vec<_> = gpus
        .iter()
        .enumerate()
        .map(|(n, gpu)| Board::reported(database, n, gpu))
        .collect();
    Some(match compared(&text, &boards) {
        Ok(gpus) => BootLayouts {
            problem: None,
            gpus,
        },
        Err(problem) => BootLayouts {
            problem: Some(problem),
            gpus: Vec::new(),
        },
    })
}

fn compared(text: &str, boards: &[Board]) -> Result<Vec<BootLayout>, String> {
    let file = LayoutFile::read(text).map_err(|e| e.to_string())?;
    let (_, entries) = file.named(None).map_err(|e| e.to_string())?;
    let listed = entries.iter().flat_map(|entry| entry.listed());
    let mut missing = listed.filter(|gpu| {
        !boards
            .iter()
            .any(|board| gpu.is(board.index, board.uuid.as_deref()))
    });
    if let Some(gpu) = missing.next() {
        return Err(format!("{gpu} is not among the GPUs"));
    }
    let mut all = Vec::new();
    for board in boards {
        let (Some(entry), Some(geometry)) = (
            entries.iter().find(|entry| {
                entry.is_for(
                    board.index,
                    board.uuid.as_deref(),
                    board.device,
                    board.subsystem.as_deref(),
                )
            }),
            &board.geometry,
        ) else {
            continue;
        };
        let wanted = entry
            .wanted(geometry)
            .map_err(|e| format!("{}: {e}", board.shown()))?;
        let found = asserted(std::iter::once((board, geometry, &wanted)));
        all.extend(found.gpus.into_iter().map(|gpu| BootLayout {
            gpu: board.address.clone().unwrap_or_default(),
            holds: gpu.holds,
            wanted: gpu.wanted,
            found: gpu.found,
        }));
    }
    Ok(all)
}
