//! GPUs that are not there: `--gpu SPEC` plans as if they were. Nothing of the host is read.

use super::Gpu;
use super::pci::{NVIDIA, pci_id};
use crate::compat::{self, Ambiguous, Database, PciDevice};
use crate::version::{ComputeCapability, VersionError};

/// As many as one specification may ask for; the largest hosts have sixteen.
const MOST: usize = 64;

/// Why a specification means no GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// It is none of the forms.
    #[error("{problem}")]
    Malformed {
        /// What is wrong.
        problem: String,
    },
    /// The database does not know it.
    #[error("{problem}")]
    Unknown {
        /// What is not known, and what is near.
        problem: String,
    },
    /// It could be several that differ.
    #[error("{problem}")]
    Ambiguous {
        /// The candidates.
        problem: String,
    },
}

/// The GPUs that one specification asks for: a PCI id (`10de:20b2`; it need not be known), a marketing name, `sm_80` or
/// `8.0`, each with `xN` behind it for N of them.
///
/// # Errors
///
/// If no GPU has this name or id, or several with different needs do.
pub fn assumed_gpus(database: &Database, spec: &str) -> Result<Vec<Gpu>, SpecError> {
    let malformed = |problem: String| SpecError::Malformed { problem };
    let (what, count) = counted(spec.trim()).map_err(malformed)?;
    let gpu = if what.is_empty() {
        return Err(malformed("no GPU is named; give a PCI id, a name or a compute capability".to_owned()));
    } else if what.contains(':') {
        by_id(database, what).map_err(malformed)?
    } else if what.starts_with("sm_") || what.bytes().all(|b| b.is_ascii_digit() || b == b'.') && what.contains('.') {
        by_capability(database, what.parse().map_err(|e: VersionError| malformed(e.to_string()))?)?
    } else {
        let known = database.gpu_named(what).map_err(|e| match e {
            Ambiguous::Unknown { .. } => SpecError::Unknown { problem: e.to_string() },
            Ambiguous::Several { .. } => SpecError::Ambiguous { problem: e.to_string() },
        })?;
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
            Err(format!("`{spec}`: a host has 1 to {MOST} GPUs"))
        }
        _ => Ok((spec, 1)),
    }
}

fn by_id(database: &Database, text: &str) -> Result<Gpu, String> {
    let number = |s: &str| (s.len() == 4).then(|| u16::from_str_radix(s, 16).ok()).flatten();
    let (vendor, device) = text.split_once(':').unwrap_or((text, ""));
    match (number(vendor), number(device)) {
        (Some(NVIDIA), Some(device)) => Ok(assumed(pci_id(device), None, database.gpu(PciDevice(device), None))),
        (Some(vendor), Some(_)) => {
            Err(format!("`{text}`: the vendor {vendor:04x} is not NVIDIA, which is {NVIDIA:04x}"))
        }
        _ => Err(format!("`{text}`: a PCI id is four hexadecimal digits, a colon and four more, such as 10de:20b2")),
    }
}

/// A GPU of which nothing but the capability is known, not even an id: the architecture decides what it needs.
fn by_capability(database: &Database, capability: ComputeCapability) -> Result<Gpu, SpecError> {
    let known = database.architecture(capability).ok_or_else(|| {
        let all: Vec<_> = database.architectures.iter().map(|a| a.compute_capability.to_string()).collect();
        let problem = format!("no GPU has the compute capability {capability}; known are {}", all.join(", "));
        SpecError::Unknown { problem }
    })?;
    let name = format!("any GPU of compute capability {capability} ({})", known.name);
    Ok(Gpu { name: Some(name), compute_capability: Some(capability), ..assumed(String::new(), None, None) })
}

fn assumed(pci_id: String, subsystem: Option<String>, known: Option<&compat::Gpu>) -> Gpu {
    Gpu {
        address: "assumed:0".to_owned(),
        pci_id,
        subsystem,
        class: "0302".to_owned(),
        bound_to: None,
        driver_unseen: false,
        name: known.map(|g| g.name.clone()),
        compute_capability: known.and_then(|g| g.compute_capability),
        assumed: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::embedded;

    fn assume(spec: &str) -> Result<Vec<Gpu>, SpecError> {
        assumed_gpus(&embedded(), spec)
    }

    #[test]
    fn a_gpu_may_be_given_in_four_ways() {
        let capability = |spec: &str| {
            let gpus = assume(spec).expect("known");
            (gpus.len(), gpus[0].pci_id.clone(), gpus[0].compute_capability.map(|c| c.to_string()))
        };
        assert_eq!(capability("10de:20b2"), (1, "10de:20b2".into(), Some("8.0".into())));
        assert_eq!(capability("10DE:2330x8"), (8, "10de:2330".into(), Some("9.0".into())));
        assert_eq!(capability("sm_80"), (1, String::new(), Some("8.0".into())));
        assert_eq!(capability("12.0 x2"), (2, String::new(), Some("12.0".into())));
        assert_eq!(capability("h100").2, Some("9.0".into()));
        assert_eq!(capability("RTX 3090").2, Some("8.6".into()));
    }

    #[test]
    fn an_unknown_id_is_kept_and_not_guessed_at() {
        let gpus = assume("10de:ffff").expect("well formed");
        assert_eq!((gpus[0].name.as_deref(), gpus[0].compute_capability), (None, None));
    }

    #[test]
    fn an_x_counts_only_where_it_can() {
        assert_eq!(counted("10de:2330x8"), Ok(("10de:2330", 8)));
        assert_eq!(counted("H100 X4"), Ok(("H100", 4)));
        assert_eq!(counted("rtx3090"), Ok(("rtx3090", 1)));
        assert_eq!(counted("titan x"), Ok(("titan x", 1)));
        assert!(counted("h100x0").is_err());
        assert!(counted("10de:2330x9999999999999999999999").is_err());
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (spec, part) in [
            ("10de:20b", "four hexadecimal digits"),
            ("8086:20b2", "is not NVIDIA"),
            ("", "no GPU is named"),
            ("sm_1", "two or three digits"),
            ("9.9", "known are"),
            ("8..0", "at character 3"),
            ("titan", "could be any of"),
            ("voodoo 2", "no GPU of the database"),
        ] {
            let error = assume(spec).expect_err(spec).to_string();
            assert!(error.contains(part), "{spec}: {error}");
        }
    }
}
