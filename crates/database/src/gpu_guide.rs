//! What the table of GPUs shows, and how it judges it: the rows of `explain/gpu-fields.yaml`. They
//! are no part of the compatibility database: only `facts --gpus` and doctor read them.

use crate::subject::{self, Subject};
use crate::yaml;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// Something that the table tells of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GpuField {
    /// The product name.
    Name,
    /// The bus address.
    Address,
    /// Whether the GPU answers.
    Response,
    /// The identifier that stays with the GPU.
    Uuid,
    /// The number on the board's label.
    Serial,
    /// The version of the board's firmware.
    Vbios,
    /// The version of the infoROM image.
    Inforom,
    /// Temperatures.
    Temperature,
    /// The fan's speed.
    Fan,
    /// Power draw and limits.
    Power,
    /// Memory, total, used and reserved.
    Memory,
    /// How busy it is.
    Utilization,
    /// The performance state.
    PerformanceState,
    /// Clocks.
    Clocks,
    /// What lowers the clocks.
    ClockLimits,
    /// The compute mode.
    ComputeMode,
    /// Displays.
    Display,
    /// Persistence mode.
    Persistence,
    /// Accounting mode.
    Accounting,
    /// Processes.
    Processes,
    /// Error correction, and counts of errors.
    Ecc,
    /// Remapped rows.
    RemappedRows,
    /// Retired pages.
    RetiredPages,
    /// MIG mode and devices.
    Mig,
    /// The PCIe link.
    Pcie,
    /// NVLinks.
    NvLinks,
    /// The state in an NVLink fabric.
    Fabric,
    /// The recovery action that the driver requests.
    Recovery,
    /// How it is virtualised.
    Virtualization,
    /// The licence of a vGPU guest.
    Licence,
    /// Confidential computing.
    ConfidentialComputing,
    /// The connection between GPUs, and to processors.
    Topology,
}

impl GpuField {
    /// All of them.
    pub const ALL: [Self; 32] = [
        Self::Name,
        Self::Address,
        Self::Response,
        Self::Uuid,
        Self::Serial,
        Self::Vbios,
        Self::Inforom,
        Self::Temperature,
        Self::Fan,
        Self::Power,
        Self::Memory,
        Self::Utilization,
        Self::PerformanceState,
        Self::Clocks,
        Self::ClockLimits,
        Self::ComputeMode,
        Self::Display,
        Self::Persistence,
        Self::Accounting,
        Self::Processes,
        Self::Ecc,
        Self::RemappedRows,
        Self::RetiredPages,
        Self::Mig,
        Self::Pcie,
        Self::NvLinks,
        Self::Fabric,
        Self::Recovery,
        Self::Virtualization,
        Self::Licence,
        Self::ConfidentialComputing,
        Self::Topology,
    ];
}

/// A judgement of a GPU or a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// Nothing needs to be done.
    Ok,
    /// Somebody should look at it.
    Check,
    /// The board may have to be replaced.
    Replace,
}

impl Judgement {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Check => "check",
            Self::Replace => "replace",
        }
    }
}

/// A condition that is judged. The program knows when it holds; its limit and its texts are data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GpuRule {
    /// Power cables are missing.
    NoPower,
    /// Interrupts do not arrive.
    NoInterrupts,
    /// The infoROM is damaged.
    BadInforom,
    /// It no longer answers on the bus.
    Lost,
    /// It must be reset before it can be used.
    NeedsReset,
    /// It does not answer for another reason.
    Silent,
    /// The chip is as hot as where its hardware slows down.
    Hot,
    /// The chip is above its highest temperature for normal operation.
    Warm,
    /// The memory is above its highest temperature for normal operation.
    WarmMemory,
    /// The hardware slows it down because of heat.
    ThermalSlowdown,
    /// The driver slows it down because of heat.
    ThermalCapping,
    /// The power supply slows it down.
    PowerBrake,
    /// No process may use it.
    Prohibited,
    /// The ECC mode changes at the next reboot.
    EccPending,
    /// Uncorrected memory errors since the driver was loaded.
    UncorrectedErrors,
    /// Rows are remapped at the next reset.
    RemapPending,
    /// A row could not be remapped.
    RemapFailed,
    /// Pages are retired when the driver is loaded again.
    RetirePending,
    /// Many pages are retired.
    ManyRetired,
    /// The MIG mode changes at the next reset.
    MigPending,
    /// A busy GPU has fewer PCIe lanes than it can have.
    NarrowPcie,
    /// A busy GPU has a slower PCIe generation than it can have.
    SlowPcie,
    /// Some NVLinks to NVSwitches are down.
    LinksDown,
    /// It has not joined its NVLink fabric.
    FabricPending,
    /// It could not join its NVLink fabric.
    FabricFailed,
    /// The driver requests a recovery action.
    RecoveryRequested,
    /// A vGPU guest has no licence.
    Unlicensed,
    /// Confidential computing is on, and the GPUs do not accept work.
    NotReady,
}

impl GpuRule {
    pub(crate) const ALL: [Self; 28] = [
        Self::NoPower,
        Self::NoInterrupts,
        Self::BadInforom,
        Self::Lost,
        Self::NeedsReset,
        Self::Silent,
        Self::Hot,
        Self::Warm,
        Self::WarmMemory,
        Self::ThermalSlowdown,
        Self::ThermalCapping,
        Self::PowerBrake,
        Self::Prohibited,
        Self::EccPending,
        Self::UncorrectedErrors,
        Self::RemapPending,
        Self::RemapFailed,
        Self::RetirePending,
        Self::ManyRetired,
        Self::MigPending,
        Self::NarrowPcie,
        Self::SlowPcie,
        Self::LinksDown,
        Self::FabricPending,
        Self::FabricFailed,
        Self::RecoveryRequested,
        Self::Unlicensed,
        Self::NotReady,
    ];
}

/// A field's row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldRow {
    /// The field.
    pub field: GpuField,
    /// What the table calls it.
    pub label: String,
    /// The term of `explain/subjects.yaml` that says what it is.
    pub term: String,
}

/// A rule's row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleRow {
    /// The rule.
    pub rule: GpuRule,
    /// The field that it judges.
    pub field: GpuField,
    /// The judgement if the condition holds.
    pub judgement: Judgement,
    /// The number from which on it holds, of a rule that has one.
    #[serde(default)]
    pub limit: Option<u64>,
    /// What is wrong, after "GPU 0000:17:00.0:" or "GPUs …:"; `{value}` and `{limit}` are numbers.
    pub says: String,
    /// What to do.
    #[serde(rename = "do")]
    pub remedy: String,
    /// Commands to paste; `{gpus}` are the bus addresses, with commas.
    #[serde(default)]
    pub run: Vec<String>,
    /// Where NVIDIA says so.
    pub source: String,
}

/// All rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuGuide {
    /// The fields, in the order of `facts --gpus -v`.
    pub fields: Vec<FieldRow>,
    /// The rules, the most urgent of a field first.
    pub rules: Vec<RuleRow>,
}

impl GpuGuide {
    /// The row of a field.
    ///
    /// # Panics
    ///
    /// Never: [`parse`] accepts only a guide with all fields.
    pub fn field(&self, field: GpuField) -> &FieldRow {
        found(self.fields.iter().find(|row| row.field == field))
    }

    /// The row of a rule.
    ///
    /// # Panics
    ///
    /// Never: [`parse`] accepts only a guide with all rules.
    pub fn rule(&self, rule: GpuRule) -> &RuleRow {
        found(self.rules.iter().find(|row| row.rule == rule))
    }
}

#[allow(clippy::expect_used)]
fn found<T>(row: Option<T>) -> T {
    row.expect("the build checked that each one has a row")
}

/// The rows of the file's text. Each field and each rule must have one row.
///
/// # Errors
///
/// If it does not have the shape of a guide, or lacks or repeats something.
pub fn parse(text: &str) -> Result<GpuGuide, String> {
    let guide: GpuGuide = yaml::read(text).map_err(|e| e.to_string())?;
    let fields: Vec<_> = guide.fields.iter().map(|row| row.field).collect();
    let rules: Vec<_> = guide.rules.iter().map(|row| row.rule).collect();
    let mut wrong =
        each_once("field", &GpuField::ALL, &fields) + &each_once("rule", &GpuRule::ALL, &rules);
    for row in &guide.rules {
        if row.judgement == Judgement::Ok || !row.source.starts_with("https://") {
            wrong += &format!(
                "the rule {:?} needs a judgement other than ok, and a source\n",
                row.rule
            );
        }
        if row.says.contains("{limit}") && row.limit.is_none() && !OWN_LIMITS.contains(&row.rule) {
            wrong += &format!(
                "the rule {:?} names a limit that it does not have\n",
                row.rule
            );
        }
    }
    if wrong.is_empty() {
        Ok(guide)
    } else {
        Err(wrong)
    }
}

/// What is wrong with the terms that fields refer to: each must be one of these subjects.
pub fn unknown_terms(guide: &GpuGuide, subjects: &[Subject]) -> Vec<String> {
    let unknown = guide
        .fields
        .iter()
        .filter(|row| subject::find(subjects, &row.term).is_none());
    unknown
        .map(|row| {
            format!(
                "the field {:?} refers to the term {}, which is none",
                row.field, row.term
            )
        })
        .collect()
}

/// Rules whose limit each GPU tells.
const OWN_LIMITS: [GpuRule; 6] = [
    GpuRule::Hot,
    GpuRule::Warm,
    GpuRule::WarmMemory,
    GpuRule::NarrowPcie,
    GpuRule::SlowPcie,
    GpuRule::LinksDown,
];

fn each_once<T: PartialEq + Debug>(kind: &str, all: &[T], rows: &[T]) -> String {
    all.iter()
        .map(|one| (one, rows.iter().filter(|row| *row == one).count()))
        .filter(|(_, count)| *count != 1)
        .map(|(one, count)| format!("the {kind} {one:?} has {count} rows\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &str = include_str!("../../../explain/gpu-fields.yaml");
    const SUBJECTS: &str = include_str!("../../../explain/subjects.yaml");

    #[test]
    fn a_field_without_an_explanation_is_a_mistake() {
        let subjects = subject::parse(SUBJECTS).expect("it is sound");
        let mistake = |text: &str| parse(text).expect_err("it is wrong");
        assert_eq!(
            unknown_terms(&parse(FIELDS).expect("it is sound"), &subjects),
            [""; 0]
        );
        let without = |start: &str| {
            FIELDS
                .lines()
                .filter(|l| !l.contains(start))
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert!(
            mistake(&without("field: temperature, label"))
                .contains("the field Temperature has 0 rows")
        );
        let other = parse(&FIELDS.replacen("term: fan", "term: no such term", 1))
            .expect("of the right shape");
        assert!(unknown_terms(&other, &subjects)[0].contains("which is none"));
        assert!(mistake(&FIELDS.replacen("limit: 60", "limit: null", 1)).contains("names a limit"));
        assert!(
            mistake(&FIELDS.replacen("rule: lost", "rule: hot", 1))
                .contains("the rule Hot has 2 rows")
        );
    }
}
