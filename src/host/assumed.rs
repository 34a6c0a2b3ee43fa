//! GPUs that are not there: `--gpu SPEC` plans as if they were. Nothing of the host is read.

use super::Gpu;
use super::pci::{NVIDIA, pci_id};
use crate::compat::{self, Ambiguous, Database, PciDevice};
use crate::version::{ComputeCapability, VersionError};

/// As many as one specification may ask for; the largest hosts have sixteen.
const MOST: usize = 64;

/// Why a specification names no GPU.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// It reads like a PCI id, or counts, and is not right.
    #[error("`{spec}` is no GPU: {problem}")]
    Malformed {
        /// What was given.
        spec: String,
        /// What is wrong with it.
        problem: String,
    },
    /// It reads like a compute capability and is none.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// A name that fits several GPUs, or none.
    #[error(transparent)]
    Name(#[from] Ambiguous),
    /// No GPU of this compute capability is known.
    #[error("no GPU of compute capability {0} is known; `gpusetup db list gpus` shows those that are")]
    NoSuchCapability(ComputeCapability),
}

/// The GPUs of all specifications, in their order.
pub fn assumed_gpus<S: AsRef<str>>(database: &Database, specs: &[S]) -> Result<Vec<Gpu>, SpecError> {
    let mut all = Vec::new();
    for spec in specs {
        all.extend(assumed_gpu(database, spec.as_ref())?);
    }
    for (i, gpu) in all.iter_mut().enumerate() {
        gpu.address = format!("assumed:{i}");
    }
    Ok(all)
}

/// The GPUs that one specification asks for: a PCI id (`10de:20b2`; it need not be known), a marketing name, `sm_80` or
/// `8.0`, each with `xN` behind it for N of them.
pub fn assumed_gpu(database: &Database, spec: &str) -> Result<Vec<Gpu>, SpecError> {
    let malformed = |problem: String| SpecError::Malformed { spec: spec.to_owned(), problem };
    let (what, count) = counted(spec.trim()).map_err(malformed)?;
    let gpu = if what.is_empty() {
        return Err(malformed("it is empty; give a PCI id, a name or a compute capability".to_owned()));
    } else if what.contains(':') {
        by_id(database, what).map_err(malformed)?
    } else if what.starts_with("sm_") || what.bytes().all(|b| b.is_ascii_digit() || b == b'.') && what.contains('.') {
        by_capability(database, what.parse()?)?
    } else {
        let known = database.gpu_named(what)?;
        assumed(pci_id(known.device.0), known.subsystem.clone(), Some(known))
    };
    Ok((0..count).map(|i| Gpu { address: format!("assumed:{i}"), ..gpu.clone() }).collect())
}

/// `10de:2330x8` as `10de:2330` and 8. In `rtx3090` the x counts nothing.
fn counted(spec: &str) -> Result<(&str, usize), String> {
    let digits = spec.len() - spec.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (start, end) = spec.split_at(spec.len() - digits);
    let Some(what) = start.strip_suffix(['x', 'X']).filter(|_| digits > 0) else { return Ok((spec, 1)) };
    match end.parse::<usize>() {
        Ok(count @ 1..=MOST) => Ok((what.trim_end(), count)),
        _ if what.ends_with(|c: char| c.is_ascii_digit() || c == ' ') => {
            Err(format!("behind the x a number from 1 to {MOST} is expected"))
        }
        _ => Ok((spec, 1)),
    }
}

fn by_id(database: &Database, text: &str) -> Result<Gpu, String> {
    let number = |s: &str| (s.len() == 4).then(|| u16::from_str_radix(s, 16).ok()).flatten();
    let (vendor, device) = text.split_once(':').unwrap_or((text, ""));
    match (number(vendor), number(device)) {
        (Some(NVIDIA), Some(device)) => Ok(assumed(pci_id(device), None, database.gpu(PciDevice(device), None))),
        (Some(vendor), Some(_)) => Err(format!("the vendor {vendor:04x} is not NVIDIA, which is {NVIDIA:04x}")),
        _ => Err("a PCI id is four hexadecimal digits, a colon and four more, such as 10de:20b2".to_owned()),
    }
}

/// Some GPU of the capability that is like the others of its kind, so that the plan is the one that most of them get.
fn by_capability(database: &Database, capability: ComputeCapability) -> Result<Gpu, SpecError> {
    let usual = database.architectures.iter().find(|a| a.compute_capability == capability);
    let like_most = |g: &&compat::Gpu| {
        let modules = usual.is_none_or(|a| a.modules == g.modules);
        let line = g.line.as_deref().is_some_and(|l| l.contains("Tesla") || l.contains("Data Center"));
        (modules, g.subsystem.is_none(), !g.mobile, line)
    };
    let mut best: Option<&compat::Gpu> = None;
    for gpu in database.gpus.iter().filter(|g| g.compute_capability == Some(capability)) {
        // The first of equals, so that the answer stays when the database grows at its end.
        if best.is_none_or(|b| like_most(&gpu) > like_most(&b)) {
            best = Some(gpu);
        }
    }
    let known = best.ok_or(SpecError::NoSuchCapability(capability))?;
    let name = format!("any GPU of {capability}, such as {}", known.name);
    Ok(Gpu { name: Some(name), ..assumed(pci_id(known.device.0), known.subsystem.clone(), Some(known)) })
}

fn assumed(pci_id: String, subsystem: Option<String>, known: Option<&compat::Gpu>) -> Gpu {
    Gpu {
        address: "assumed:0".to_owned(),
        pci_id,
        subsystem,
        class: "0302".to_owned(),
        bound_to: None,
        name: known.map(|g| g.name.clone()),
        compute_capability: known.and_then(|g| g.compute_capability),
        assumed: true,
    }
}
