//! Judges readings. Limits, texts and sources are those of the guide; whether a condition holds is
//! decided here.

use super::{FieldJudgement, Finding};
use gpusetup_database::gpu_guide::{GpuField, GpuGuide, GpuRule, Judgement, RuleRow};
use gpusetup_nvidia::{
    ClockLimit, ComputeMode, FabricState, GpuReading, GpuTable, LinkEnd, NvLink, PcieLink,
    Recovery, RemappedRows, RetiredPages, Temperature, codes,
};
use std::collections::BTreeSet;

/// A condition that holds for a GPU, with the numbers of its sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    rule: GpuRule,
    value: i64,
    limit: i64,
}

impl Hit {
    fn of(rule: GpuRule, value: impl TryInto<i64>, limit: impl TryInto<i64>) -> Self {
        Self {
            rule,
            value: value.try_into().unwrap_or(i64::MAX),
            limit: limit.try_into().unwrap_or(i64::MAX),
        }
    }

    fn plain(rule: GpuRule) -> Self {
        Self::of(rule, 0, 0)
    }

    fn says(&self, row: &RuleRow) -> String {
        row.says
            .replace("{value}", &self.value.to_string())
            .replace("{limit}", &self.limit.to_string())
    }
}

/// The conditions that hold for a GPU.
pub(crate) fn hits(guide: &GpuGuide, table: &GpuTable, gpu: &GpuReading) -> Vec<Hit> {
    if let Some(refused) = &gpu.refused {
        return vec![Hit::plain(of_refusal(refused.code))];
    }
    let mut all = Vec::new();
    all.extend(gpu.temperature.as_ref().into_iter().flat_map(heat));
    all.extend(
        gpu.clock_limits
            .iter()
            .flatten()
            .filter_map(|limit| of_clocks(*limit))
            .map(Hit::plain),
    );
    all.extend(
        (gpu.compute_mode == Some(ComputeMode::Prohibited))
            .then(|| Hit::plain(GpuRule::Prohibited)),
    );
    if let Some(ecc) = &gpu.ecc {
        let count = ecc.volatile.uncorrected.filter(|count| *count > 0);
        all.extend(count.map(|count| Hit::of(GpuRule::UncorrectedErrors, count, 0)));
        all.extend((ecc.enabled != ecc.pending).then(|| Hit::plain(GpuRule::EccPending)));
    }
    all.extend(gpu.remapped_rows.and_then(rows).map(Hit::plain));
    all.extend(gpu.retired_pages.and_then(|pages| retired(guide, pages)));
    all.extend(
        gpu.mig
            .as_ref()
            .filter(|mig| mig.enabled != mig.pending)
            .map(|_| Hit::plain(GpuRule::MigPending)),
    );
    if is_busy(gpu) {
        all.extend(gpu.pcie.as_ref().into_iter().flat_map(pcie));
    }
    all.extend(gpu.nvlinks.as_deref().and_then(links));
    all.extend(
        gpu.fabric
            .and_then(|fabric| match (fabric.state, fabric.status) {
                (FabricState::Completed, 0) => None,
                (FabricState::Completed, status) => Some(Hit::of(GpuRule::FabricFailed, status, 0)),
                (FabricState::NotStarted | FabricState::InProgress, _) => {
                    Some(Hit::plain(GpuRule::FabricPending))
                }
            }),
    );
    let asks = gpu
        .recovery
        .is_some_and(|recovery| recovery != Recovery::None);
    all.extend(asks.then(|| Hit::plain(GpuRule::RecoveryRequested)));
    all.extend(
        gpu.licence
            .as_ref()
            .filter(|licence| !licence.licensed)
            .map(|_| Hit::plain(GpuRule::Unlicensed)),
    );
    all.extend((table.accepts_work == Some(false)).then(|| Hit::plain(GpuRule::NotReady)));
    all
}

/// The rule for an error code of NVML.
fn of_refusal(code: Option<i32>) -> GpuRule {
    match code {
        Some(codes::NO_POWER) => GpuRule::NoPower,
        Some(codes::NO_INTERRUPTS) => GpuRule::NoInterrupts,
        Some(codes::BAD_INFOROM) => GpuRule::BadInforom,
        Some(codes::GPU_LOST) => GpuRule::Lost,
        Some(codes::RESET_REQUIRED) => GpuRule::NeedsReset,
        _ => GpuRule::Silent,
    }
}

fn heat(t: &Temperature) -> Vec<Hit> {
    let degrees = i64::from(t.gpu_celsius);
    let slowdown = t
        .slowdown_celsius
        .map(i64::from)
        .filter(|limit| degrees >= *limit);
    // A GPU with a margin tells its highest temperature only so.
    let by_margin = t.margin_celsius.map(|margin| degrees + i64::from(margin));
    let warm = t
        .highest_operating_celsius
        .map(i64::from)
        .or(by_margin)
        .filter(|limit| degrees > *limit);
    let chip = match (slowdown, warm) {
        (Some(limit), _) => Some(Hit::of(GpuRule::Hot, degrees, limit)),
        (None, Some(limit)) => Some(Hit::of(GpuRule::Warm, degrees, limit)),
        (None, None) => None,
    };
    let memory = t
        .memory_celsius
        .zip(t.highest_memory_celsius)
        .filter(|(now, limit)| now > limit);
    chip.into_iter()
        .chain(memory.map(|(now, limit)| Hit::of(GpuRule::WarmMemory, now, limit)))
        .collect()
}

/// The power limit, settings and an idle GPU are normal; the general hardware slowdown is also
/// reported while clocks change.
fn of_clocks(limit: ClockLimit) -> Option<GpuRule> {
    match limit {
        ClockLimit::HardwareThermal => Some(GpuRule::ThermalSlowdown),
        ClockLimit::SoftwareThermal => Some(GpuRule::ThermalCapping),
        ClockLimit::PowerBrake => Some(GpuRule::PowerBrake),
        ClockLimit::Idle
        | ClockLimit::Setting
        | ClockLimit::PowerCap
        | ClockLimit::HardwareSlowdown
        | ClockLimit::SyncBoost
        | ClockLimit::Display => None,
    }
}

fn rows(rows: RemappedRows) -> Option<GpuRule> {
    match rows {
        RemappedRows { failed: true, .. } => Some(GpuRule::RemapFailed),
        RemappedRows { pending: true, .. } => Some(GpuRule::RemapPending),
        _ => None,
    }
}

fn retired(guide: &GpuGuide, pages: RetiredPages) -> Option<Hit> {
    let limit = guide.rule(GpuRule::ManyRetired).limit.unwrap_or(u64::MAX);
    let all = (pages.single_bit + pages.double_bit) as u64;
    let many = (all >= limit).then(|| Hit::of(GpuRule::ManyRetired, all, limit));
    many.or_else(|| pages.pending.then(|| Hit::plain(GpuRule::RetirePending)))
}

/// NVIDIA: generation and width of the link may be reduced while the GPU is not in use.
fn is_busy(gpu: &GpuReading) -> bool {
    gpu.utilization.is_some_and(|busy| busy.gpu_percent > 0)
}

fn pcie(link: &PcieLink) -> Vec<Hit> {
    [
        (GpuRule::NarrowPcie, link.width, link.highest_width),
        (GpuRule::SlowPcie, link.generation, link.highest_generation),
    ]
    .into_iter()
    .filter_map(|(rule, now, highest)| {
        let highest = highest.filter(|highest| now < *highest)?;
        Some(Hit::of(rule, now, highest))
    })
    .collect()
}

/// On boards with NVSwitches all links lead to them. Elsewhere a bridge may join some of the links
/// only.
fn links(links: &[NvLink]) -> Option<Hit> {
    let has_switch = links
        .iter()
        .any(|link| link.leads_to == Some(LinkEnd::Switch));
    let down = links.iter().filter(|link| !link.active).count();
    (has_switch && down > 0).then(|| Hit::of(GpuRule::LinksDown, down, links.len()))
}

/// The fields that a GPU reports, with what judges them.
fn is_told(gpu: &GpuReading, field: GpuField) -> bool {
    match field {
        GpuField::Response => true,
        GpuField::Temperature => gpu.temperature.is_some(),
        GpuField::ClockLimits => gpu.clock_limits.is_some(),
        GpuField::ComputeMode => gpu.compute_mode.is_some(),
        GpuField::Ecc => gpu.ecc.is_some(),
        GpuField::RemappedRows => gpu.remapped_rows.is_some(),
        GpuField::RetiredPages => gpu.retired_pages.is_some(),
        GpuField::Mig => gpu.mig.is_some(),
        GpuField::Pcie => gpu.pcie.is_some(),
        GpuField::NvLinks => gpu.nvlinks.is_some(),
        GpuField::Fabric => gpu.fabric.is_some(),
        GpuField::Recovery => gpu.recovery.is_some(),
        GpuField::Licence => gpu.licence.is_some(),
        _ => false,
    }
}

/// The judgement of each field that has rules and a value.
pub(crate) fn judgements(guide: &GpuGuide, gpu: &GpuReading, hits: &[Hit]) -> Vec<FieldJudgement> {
    let mut all = Vec::new();
    for field in guide.fields.iter().map(|row| row.field) {
        let mut rules = guide.rules.iter().filter(|row| row.field == field);
        let Some(first) = rules.clone().next() else {
            continue;
        };
        // The rules of a field stand in the order of their urgency.
        let hit = rules.find_map(|row| Some((row, hits.iter().find(|hit| hit.rule == row.rule)?)));
        all.extend(match hit {
            Some((row, hit)) => Some(FieldJudgement {
                field,
                judgement: row.judgement,
                says: Some(hit.says(row)),
                source: row.source.clone(),
            }),
            None if is_told(gpu, field) => Some(FieldJudgement {
                field,
                judgement: Judgement::Ok,
                says: None,
                source: first.source.clone(),
            }),
            None => None,
        });
    }
    all
}

/// What is not ok: each sentence once, with all GPUs that it is true of.
pub(crate) fn findings(guide: &GpuGuide, table: &GpuTable, hits: &[Vec<Hit>]) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    for row in &guide.rules {
        let concerned = table.gpus.iter().zip(hits).enumerate();
        let hit_gpus: Vec<_> = concerned
            .filter_map(|(n, (gpu, hits))| {
                let hit = hits.iter().find(|hit| hit.rule == row.rule)?;
                let name = gpu.address.clone().unwrap_or_else(|| n.to_string());
                Some((hit.says(row), name))
            })
            .collect();
        let sentences: BTreeSet<_> = hit_gpus.iter().map(|(says, _)| says).collect();
        for says in sentences {
            let gpus: Vec<_> = hit_gpus
                .iter()
                .filter(|(own, _)| own == says)
                .map(|(_, gpu)| gpu.clone())
                .collect();
            let commands = row
                .run
                .iter()
                .map(|command| command.replace("{gpus}", &gpus.join(",")))
                .collect();
            all.push(Finding {
                rule: row.rule,
                field: row.field,
                judgement: row.judgement,
                gpus,
                says: says.clone(),
                remedy: row.remedy.clone(),
                commands,
                source: row.source.clone(),
            });
        }
    }
    all.sort_by_key(|finding| std::cmp::Reverse(finding.judgement));
    all
}
