//! GPUs that are not present: `--gpu SPEC` plans as if they were. The host is not read.

use super::Gpu;
use super::pci::{NVIDIA, pci_id};
use super::stock::USUAL_ARCHITECTURE;
use gpusetup_database::compat::{
    self, Ambiguous, Architecture, Database, Instance, PciDevice, System, is_brand,
};
use gpusetup_database::version::{ComputeCapability, VersionError};

/// The most GPUs in one specification; the largest hosts have sixteen.
const MAX_ASSUMED_GPUS: usize = 64;

/// Why a specification is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// It has none of the accepted forms.
    #[error("{problem}")]
    Malformed {
        /// What is wrong.
        problem: String,
    },
    /// The database does not know the GPU.
    #[error("{problem}")]
    Unknown {
        /// The unknown name, and similar ones.
        problem: String,
    },
    /// It is a GPU of another vendor.
    #[error("{problem}")]
    Foreign {
        /// The vendor.
        problem: String,
    },
    /// It is known, and gpusetup does not install its driver.
    #[error("{problem}")]
    Unsupported {
        /// Why.
        problem: String,
    },
    /// It matches several GPUs with different needs.
    #[error("{problem}")]
    Ambiguous {
        /// The candidates.
        problem: String,
    },
    /// It is the name of a family of systems or instance types.
    #[error("{problem}")]
    Family {
        /// The members.
        problem: String,
        /// What `gpusetup db list` calls their kind.
        kind: &'static str,
    },
}

/// The GPUs that one specification names: a cloud instance type (`p4d.24xlarge`), a system (`dgx
/// h100`), a PCI id (`10de:20b2`, or with its subsystem `10de:2bb3:10de:204d`; it may be unknown),
/// a marketing name (`rtx4090`), a compute capability (`8.0`, `sm_80`, `compute_80`) or an
/// architecture with a single one (`hopper`). `h100x8` and `8x h100` are eight.
///
/// # Errors
///
/// If no GPU has this name or id, or if several GPUs with different needs have it.
pub fn assumed_gpus(database: &Database, spec: &str) -> Result<Vec<Gpu>, SpecError> {
    if let Some(of_machine) = of_machine(database, spec) {
        return of_machine;
    }
    let (what, count) = counted(spec.trim()).map_err(|problem| SpecError::Malformed { problem })?;
    if let Some(question) = which_system(database, what) {
        return Err(question);
    }
    let gpu = if what.is_empty() {
        let problem = "no GPU is named; use a PCI id, a name or a compute capability".to_owned();
        return Err(SpecError::Malformed { problem });
    } else if is_brand(what) {
        let problem = format!(
            "`{what}` is a brand of GPUs with different needs; add the model, such as `tesla t4`"
        );
        return Err(SpecError::Ambiguous { problem });
    } else if what.contains(':') {
        by_id(database, what).map_err(|problem| SpecError::Malformed { problem })?
    } else if let Some(device) = device_alone(what) {
        of_device(database, PciDevice(device))
    } else if let Some(capability) = capability(what) {
        let capability = capability.parse().map_err(|e: VersionError| {
            let problem = e.to_string();
            SpecError::Malformed { problem }
        })?;
        by_capability(database, capability)?
    } else if database.architectures.iter().any(|a| is_called(a, what)) {
        by_architecture(database, what)?
    } else {
        match database.gpu_named(what) {
            Ok(known) => assumed(
                pci_id(known.device.0),
                known.subsystem.map(String::from),
                Some(known),
            ),
            Err(e) => return by_family(database, what, count, e),
        }
    };
    Ok(times(&gpu, count))
}

/// The GPUs of the only member of a family: `p5en` is `p5en.48xlarge`. Otherwise what is wrong with
/// a name that no GPU has.
fn by_family(
    database: &Database,
    what: &str,
    count: usize,
    unknown: Ambiguous,
) -> Result<Vec<Gpu>, SpecError> {
    let problem = unknown.to_string();
    if matches!(unknown, Ambiguous::Several { .. }) {
        return Err(SpecError::Ambiguous { problem });
    }
    if let Some((vendor, verb)) = other_vendor(what) {
        let problem =
            format!("`{what}` {verb} a GPU of {vendor}; gpusetup supports NVIDIA GPUs only");
        return Err(SpecError::Foreign { problem });
    }
    let (kind, members) = family(database, what);
    match members.as_slice() {
        [] => Err(SpecError::Unknown { problem }),
        [only] if count == 1 => {
            of_machine(database, only).unwrap_or(Err(SpecError::Unknown { problem }))
        }
        several => Err(SpecError::Family {
            problem: which_of(what, several),
            kind,
        }),
    }
}

/// The question which of several systems a name means. It comes before names of GPUs: the pci.ids
/// call one DGX Station.
fn which_system(database: &Database, what: &str) -> Option<SpecError> {
    let (kind, members) = family(database, what);
    let is_question = kind == SYSTEMS && members.len() > 1;
    is_question.then(|| SpecError::Family {
        problem: which_of(what, &members),
        kind,
    })
}

fn times(gpu: &Gpu, count: usize) -> Vec<Gpu> {
    (0..count)
        .map(|i| Gpu {
            address: format!("assumed:{i}"),
            ..gpu.clone()
        })
        .collect()
}

fn of_device(database: &Database, device: PciDevice) -> Gpu {
    assumed(pci_id(device.0), None, database.gpu(device, None))
}

/// The GPUs of a cloud instance type or of a system; none if it is neither. Blanks, hyphens and
/// case make no difference.
fn of_machine(database: &Database, spec: &str) -> Option<Result<Vec<Gpu>, SpecError>> {
    if key(spec).trim_start_matches("nvidia").is_empty() {
        return None;
    }
    if let Some(instance) = instance(database, spec) {
        if instance.part {
            let problem = format!(
                "{} has virtual GPUs (vGPU): they need the guest driver that the provider hands out. Plan on the machine itself, and name its file with --driver-file",
                instance.name
            );
            return Some(Err(SpecError::Unsupported { problem }));
        }
        let gpu = of_device(database, instance.gpu);
        return Some(Ok(times(&gpu, instance.count.into())));
    }
    let system = system(database, spec)?;
    Some(match (system.gpu, system.compute_capability) {
        (Some(device), _) => Ok(times(&of_device(database, device), system.count.into())),
        (None, Some(capability)) => {
            by_capability(database, capability).map(|gpu| times(&gpu, system.count.into()))
        }
        (None, None) => return None,
    })
}

/// What `gpusetup db list` calls systems.
const SYSTEMS: &str = "systems";

/// The systems or the instance types whose names begin with a word (`dgx`, `g5`), and what
/// `gpusetup db list` calls them.
fn family<'a>(database: &'a Database, name: &str) -> (&'static str, Vec<&'a str>) {
    let wanted = key(name);
    let wanted = wanted.strip_prefix("nvidia").unwrap_or(&wanted);
    let is_member = |full: &&str| !wanted.is_empty() && begins_with(full, wanted);
    let systems: Vec<_> = database
        .systems
        .iter()
        .map(|s| s.name.as_str())
        .filter(is_member)
        .collect();
    if systems.is_empty() {
        (
            "instances",
            database
                .instances
                .iter()
                .map(|i| i.name.as_str())
                .filter(is_member)
                .collect(),
        )
    } else {
        (SYSTEMS, systems)
    }
}

/// Whether the key of a name, up to the end of a word, is this one.
fn begins_with(full: &str, wanted: &str) -> bool {
    let mut left = wanted;
    for c in full.chars() {
        if left.is_empty() && !c.is_alphanumeric() {
            return true;
        }
        if !is_left_out(c) {
            match left.strip_prefix(c.to_ascii_lowercase()) {
                Some(rest) => left = rest,
                None => return false,
            }
        }
    }
    false
}

/// The question for the name of a family.
fn which_of(name: &str, members: &[&str]) -> String {
    const SHOWN: usize = 8;
    let more = match members.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = &members[..members.len().min(SHOWN)];
    format!(
        "`{name}` could be any of {}{more}; add what tells them apart",
        shown.join(", ")
    )
}

/// Converts `sm_90`, `sm90a`, `compute_90` and `cc 9.0` to the form that versions are parsed from;
/// none if it is not a compute capability.
fn capability(what: &str) -> Option<String> {
    let small = what.to_ascii_lowercase();
    if let Some(rest) = ["sm", "compute"]
        .iter()
        .find_map(|prefix| small.strip_prefix(prefix))
    {
        let rest = rest.trim_start_matches(['_', '-', ' ']);
        return rest.starts_with(|c: char| c.is_ascii_digit()).then(|| {
            if rest.contains('.') {
                rest.to_owned()
            } else {
                format!("sm_{rest}")
            }
        });
    }
    let rest = small
        .strip_prefix("cc")
        .map_or(small.as_str(), str::trim_start);
    let is_number = rest.bytes().all(|b| b.is_ascii_digit() || b == b'.') && rest.contains('.');
    is_number.then(|| rest.to_owned())
}

/// The maker of a GPU that is not NVIDIA's, recognised by the common names of the product families
/// sold today, and whether the name `is` such a GPU or `has` one.
fn other_vendor(name: &str) -> Option<(&'static str, &'static str)> {
    const FAMILIES: [(&str, &str, &str); 10] = [
        ("radeon", "AMD", "is"),
        ("instinct", "AMD", "is"),
        ("firepro", "AMD", "is"),
        ("rx", "AMD", "is"),
        ("mi", "AMD", "is"),
        ("arc", "Intel", "is"),
        ("gaudi", "Intel", "is"),
        ("iris", "Intel", "is"),
        // Instance types of Amazon's cloud.
        ("g4ad", "AMD", "has"),
        ("dl1", "Intel", "has"),
    ];
    let small = name.to_lowercase();
    small
        .split(|c: char| !c.is_alphanumeric())
        .find_map(|word| {
            let letters = word.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
            // `mi300x`: letters, a number, and possibly a letter.
            let letters = word
                .find(|c: char| c.is_ascii_digit())
                .map_or(letters, |at| &word[..at]);
            let found = FAMILIES
                .iter()
                .find(|(family, ..)| [letters, word].contains(family));
            found.map(|(_, vendor, verb)| (*vendor, *verb))
        })
}

/// What may stand between a count and a name: `8x h100`, `h100*8`.
const TIMES: [char; 4] = ['x', 'X', '×', '*'];

/// Splits `10de:2330x8`, `8x 10de:2330` and `dual h100` into what it is and how many. The x in
/// `rtx3090` is not a count.
fn counted(spec: &str) -> Result<(&str, usize), String> {
    // An id as sysfs has it.
    if spec.starts_with("0x") && spec.contains(':') || device_alone(spec).is_some() {
        return Ok((spec, 1));
    }
    if let Some((word, what)) = spec.split_once(' ') {
        let number = ["single", "dual", "triple", "quad"]
            .iter()
            .position(|n| n.eq_ignore_ascii_case(word));
        if let Some(number) = number {
            return Ok((what.trim_start(), number + 1));
        }
    }
    let digits = spec.len() - spec.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = spec.split_at(digits);
    if let Some(what) = rest.trim_start().strip_prefix(TIMES).filter(|_| digits > 0) {
        return match (number.parse::<usize>(), what.trim_start().parse::<usize>()) {
            (Ok(count @ 1..=MAX_ASSUMED_GPUS), _) => Ok((what.trim_start(), count)),
            // `3090x2`
            (_, Ok(count @ 1..=MAX_ASSUMED_GPUS)) => Ok((number, count)),
            _ => Err(format!(
                "`{spec}`: the number of GPUs must be 1 to {MAX_ASSUMED_GPUS}"
            )),
        };
    }
    let digits = spec.len() - spec.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (start, end) = spec.split_at(spec.len() - digits);
    // `h100 x 8`
    let apart = start.strip_suffix(' ').map(str::trim_end).filter(|start| {
        [" x", " X", "×", "*"]
            .iter()
            .any(|times| start.ends_with(times))
    });
    // The name of a GPU is longer than a letter: `tx2`.
    let what = apart
        .unwrap_or(start)
        .strip_suffix(TIMES)
        .filter(|what| digits > 0 && what.len() > 1);
    let Some(what) = what else {
        return Ok((spec, 1));
    };
    match end.parse::<usize>() {
        Ok(count @ 1..=MAX_ASSUMED_GPUS) => Ok((what.trim_end(), count)),
        _ if what.ends_with(|c: char| c.is_ascii_digit() || c == ' ') => Err(format!(
            "`{spec}`: the number of GPUs must be 1 to {MAX_ASSUMED_GPUS}"
        )),
        _ => Ok((spec, 1)),
    }
}

/// The device of a PCI id whose vendor is left out, `0x2204`.
fn device_alone(text: &str) -> Option<u16> {
    text.strip_prefix("0x").and_then(four_digits)
}

/// A hexadecimal number of four digits.
fn four_digits(text: &str) -> Option<u16> {
    (text.len() == 4)
        .then(|| u16::from_str_radix(text, 16).ok())
        .flatten()
}

fn pci_number(text: &str) -> Option<u16> {
    four_digits(text.strip_prefix("0x").unwrap_or(text))
}

fn by_id(database: &Database, text: &str) -> Result<Gpu, String> {
    let mut parts = text.splitn(3, ':');
    let (vendor, device) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let subsystem = match parts.next() {
        None => None,
        Some(board) => match board
            .split_once(':')
            .map(|(vendor, board)| (pci_number(vendor), pci_number(board)))
        {
            Some((Some(vendor), Some(board))) => Some(format!("{vendor:04x}:{board:04x}")),
            _ => {
                return Err(format!(
                    "`{text}`: a subsystem is two more numbers, such as 10de:2bb3:10de:204d"
                ));
            }
        },
    };
    match (pci_number(vendor), pci_number(device)) {
        (Some(NVIDIA), Some(device)) if subsystem.is_some() => {
            let known = database.gpu(PciDevice(device), subsystem.as_deref());
            Ok(assumed(pci_id(device), subsystem, known))
        }
        (Some(NVIDIA), Some(device)) => Ok(assumed(
            pci_id(device),
            None,
            database.gpu(PciDevice(device), None),
        )),
        (Some(vendor), Some(_)) => Err(format!(
            "`{text}`: the vendor {vendor:04x} is not NVIDIA ({NVIDIA:04x})"
        )),
        _ => Err(format!(
            "`{text}`: a PCI id is four hexadecimal digits, a colon and four more, such as 10de:20b2"
        )),
    }
}

/// Whether an architecture has this name, or its first word: `ada` is Ada Lovelace.
fn is_called(architecture: &Architecture, name: &str) -> bool {
    let full = architecture.name.as_str();
    full.eq_ignore_ascii_case(name)
        || full
            .split(' ')
            .next()
            .is_some_and(|first| first.eq_ignore_ascii_case(name))
}

/// A GPU of an architecture, if all of its GPUs have the same compute capability.
fn by_architecture(database: &Database, name: &str) -> Result<Gpu, SpecError> {
    let all: Vec<_> = database
        .architectures
        .iter()
        .filter(|a| is_called(a, name))
        .collect();
    match all.as_slice() {
        [only] => by_capability(database, only.compute_capability),
        several => {
            let each: Vec<_> = several.iter().map(|a| a.compute_capability.sm()).collect();
            let problem = format!(
                "{} is {}, which need different plans; name one",
                several[0].name,
                each.join(", ")
            );
            Err(SpecError::Ambiguous { problem })
        }
    }
}

/// A GPU known only by its compute capability, without an id: the architecture determines what it
/// needs.
fn by_capability(database: &Database, capability: ComputeCapability) -> Result<Gpu, SpecError> {
    let known = database.architecture(capability).ok_or_else(|| {
        let all: Vec<_> = database
            .architectures
            .iter()
            .map(|a| a.compute_capability.to_string())
            .collect();
        let problem = format!(
            "no GPU has compute capability {capability}; known are {}",
            all.join(", ")
        );
        SpecError::Unknown { problem }
    })?;
    let name = format!(
        "any GPU of compute capability {capability} ({})",
        known.name
    );
    Ok(Gpu {
        name: Some(name),
        compute_capability: Some(capability),
        ..assumed(String::new(), None, None)
    })
}

/// The machine architecture that a specification of GPUs stands for: of an instance type or a
/// system, or the only one that has the GPU. None if the GPU may be in any machine.
pub fn architecture_of(database: &Database, spec: &str) -> Option<String> {
    let (what, _) = counted(spec.trim()).ok()?;
    let what = match family(database, what).1.as_slice() {
        [only] if database.gpu_named(what).is_err() => only,
        _ => what,
    };
    if let Some(instance) = instance(database, what) {
        return Some(
            instance
                .arch
                .clone()
                .unwrap_or_else(|| USUAL_ARCHITECTURE.to_owned()),
        );
    }
    if let Some(system) = system(database, what) {
        return Some(
            system
                .arch
                .clone()
                .unwrap_or_else(|| USUAL_ARCHITECTURE.to_owned()),
        );
    }
    let gpu = assumed_gpus(database, spec).ok()?.into_iter().next()?;
    database
        .gpu(gpu.device()?, gpu.subsystem.as_deref())?
        .only_on
        .map(String::from)
}

/// A name without what people leave out: blanks, hyphens, underscores and case.
fn key(name: &str) -> String {
    letters(name).collect()
}

fn letters(name: &str) -> impl Iterator<Item = char> {
    name.chars()
        .filter(|c| !is_left_out(*c))
        .flat_map(char::to_lowercase)
}

fn is_left_out(c: char) -> bool {
    matches!(c, ' ' | '-' | '_')
}

fn instance<'a>(database: &'a Database, name: &str) -> Option<&'a Instance> {
    let wanted = key(name);
    let wanted = wanted.strip_prefix("nvidia").unwrap_or(&wanted);
    // Azure's names begin with it, and people leave it out.
    const STANDARD: &str = "standard";
    let long = STANDARD.chars().chain(wanted.chars());
    // Every plan for a named GPU comes here: most names differ in their first letter.
    database
        .instances
        .iter()
        .find(|i| letters(&i.name).eq(wanted.chars()) || letters(&i.name).eq(long.clone()))
}

fn system<'a>(database: &'a Database, name: &str) -> Option<&'a System> {
    let wanted = key(name);
    let wanted = wanted.strip_prefix("nvidia").unwrap_or(&wanted);
    database
        .systems
        .iter()
        .find(|s| key(&s.name) == wanted || s.aliases.iter().any(|a| key(a) == wanted))
}

/// A GPU of the database, as if it were on the bus.
pub fn known_gpu(known: &compat::Gpu) -> Gpu {
    assumed(
        pci_id(known.device.0),
        known.subsystem.map(String::from),
        Some(known),
    )
}

/// A GPU of a compute capability, as if it were on the bus; none if the database does not know the
/// capability.
pub fn of_capability(database: &Database, capability: ComputeCapability) -> Option<Gpu> {
    by_capability(database, capability).ok()
}

fn assumed(pci_id: String, subsystem: Option<String>, known: Option<&compat::Gpu>) -> Gpu {
    Gpu {
        address: "assumed:0".to_owned(),
        pci_id,
        subsystem,
        class: "0302".to_owned(),
        bound_to: None,
        driver_unseen: false,
        name: known.map(|g| g.name).map(String::from),
        compute_capability: known.and_then(|g| g.compute_capability),
        assumed: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_data::embedded;

    fn assume(spec: &str) -> Result<Vec<Gpu>, SpecError> {
        assumed_gpus(&embedded(), spec)
    }

    #[test]
    fn a_gpu_may_be_given_in_four_ways() {
        let capability = |spec: &str| {
            let gpus = assume(spec).expect("known");
            (
                gpus.len(),
                gpus[0].pci_id.clone(),
                gpus[0].compute_capability.map(|c| c.to_string()),
            )
        };
        assert_eq!(
            capability("10de:20b2"),
            (1, "10de:20b2".into(), Some("8.0".into()))
        );
        assert_eq!(
            capability("0x10de:0x2330"),
            (1, "10de:2330".into(), Some("9.0".into()))
        );
        assert_eq!(
            capability("0x2204"),
            (1, "10de:2204".into(), Some("8.6".into()))
        );
        assert_eq!(capability("ada").2, Some("8.9".into()));
        assert_eq!(
            capability("10DE:2330x8"),
            (8, "10de:2330".into(), Some("9.0".into()))
        );
        assert_eq!(capability("sm_80"), (1, String::new(), Some("8.0".into())));
        assert_eq!(
            capability("12.0 x2"),
            (2, String::new(), Some("12.0".into()))
        );
        for text in [
            "sm90",
            "sm_90a",
            "SM 90",
            "compute_90",
            "compute_9.0",
            "cc 9.0",
            "cc9.0",
            "hopper",
        ] {
            assert_eq!(
                capability(text),
                (1, String::new(), Some("9.0".into())),
                "{text}"
            );
        }
        assert_eq!(capability("8x h100").0, 8);
        assert_eq!(capability("h100").2, Some("9.0".into()));
        assert_eq!(capability("RTX 3090").2, Some("8.6".into()));
    }

    #[test]
    fn an_unknown_id_is_kept_and_not_guessed_at() {
        let gpus = assume("10de:ffff").expect("well formed");
        assert_eq!(
            (gpus[0].name.as_deref(), gpus[0].compute_capability),
            (None, None)
        );
    }

    #[test]
    fn an_x_counts_only_where_it_can() {
        assert_eq!(counted("10de:2330x8"), Ok(("10de:2330", 8)));
        assert_eq!(counted("3090x2"), Ok(("3090", 2)));
        assert_eq!(counted("3090 x 2"), Ok(("3090", 2)));
        assert_eq!(counted("tx2"), Ok(("tx2", 1)));
        assert_eq!(counted("h100*8"), Ok(("h100", 8)));
        assert_eq!(counted("8 * h100"), Ok(("h100", 8)));
        assert_eq!(counted("Dual 3090"), Ok(("3090", 2)));
        assert_eq!(counted("quadro p600"), Ok(("quadro p600", 1)));
        assert_eq!(counted("0x2204"), Ok(("0x2204", 1)));
        assert_eq!(counted("H100 X4"), Ok(("H100", 4)));
        assert_eq!(counted("rtx3090"), Ok(("rtx3090", 1)));
        assert_eq!(counted("titan x"), Ok(("titan x", 1)));
        assert_eq!(counted("8xH100"), Ok(("H100", 8)));
        assert_eq!(counted("2 x titan x"), Ok(("titan x", 2)));
        assert_eq!(counted("4× 10de:2330"), Ok(("10de:2330", 4)));
        assert_eq!(counted("3090ti"), Ok(("3090ti", 1)));
        assert_eq!(counted("h100 x 8"), Ok(("h100", 8)));
        assert_eq!(counted("h100 × 8"), Ok(("h100", 8)));
        assert_eq!(counted("gtx 1060"), Ok(("gtx 1060", 1)));
        assert_eq!(counted("rx 580"), Ok(("rx 580", 1)));
        assert!(counted("0x h100").is_err());
        assert!(counted("99x h100").is_err());
        assert!(counted("h100x0").is_err());
        assert!(counted("10de:2330x9999999999999999999999").is_err());
    }

    #[test]
    fn machines_stand_for_their_gpus() {
        for (spec, count, id) in [
            ("p4d.24xlarge", 8, "10de:20b0"),
            ("g5.xlarge", 1, "10de:2237"),
            ("a2-highgpu-8g", 8, "10de:20b0"),
            ("standard_nd96asr_v4", 8, "10de:20b0"),
            ("dgx h100", 8, "10de:2330"),
            ("dgx station v100", 4, "10de:1db7"),
            ("NVIDIA DGX-H100", 8, "10de:2330"),
            ("dgx spark", 1, "10de:2e12"),
            ("orin", 1, ""),
            ("jetson orin nano super", 1, ""),
            ("agx thor", 1, "10de:2b00"),
            ("p5en", 8, "10de:2335"),
            ("NC40ads_H100_v5", 1, "10de:2321"),
        ] {
            let gpus = assume(spec).unwrap_or_else(|e| panic!("{spec}: {e}"));
            assert_eq!((gpus.len(), gpus[0].pci_id.as_str()), (count, id), "{spec}");
            assert_eq!(
                gpus.last().map(|g| g.address.clone()),
                Some(format!("assumed:{}", count - 1))
            );
        }
        assert!(matches!(
            assume("Standard_NV6ads_A10_v5"),
            Err(SpecError::Unsupported { .. })
        ));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (spec, part) in [
            ("10de:20b", "four hexadecimal digits"),
            ("8086:20b2", "is not NVIDIA"),
            ("", "no GPU is named"),
            ("mi300x", "`mi300x` is a GPU of AMD"),
            ("tesla", "`tesla` is a brand"),
            ("Quadro", "`Quadro` is a brand"),
            ("geforce", "add the model"),
            ("nvidia", "add the model"),
            ("RX 7900 XTX", "is a GPU of AMD"),
            ("arc a770", "is a GPU of Intel"),
            ("g4ad.xlarge", "has a GPU of AMD"),
            ("ampere", "Ampere is sm_80, sm_86"),
            ("rtx4089", "did you mean"),
            ("sm_1", "two or three digits"),
            ("9.9", "known are"),
            ("8..0", "at character 3"),
            ("titan", "could be any of"),
            ("$(id)", "no GPU is called `$(id)`"),
            ("6000", "Quadro 6000"),
            ("dgx", "DGX A100"),
            (
                "dgx station",
                "`dgx station` could be any of DGX Station V100, DGX Station A100, DGX Station GB300",
            ),
            (
                "NVIDIA DGX-Station",
                "DGX Station V100, DGX Station A100, DGX Station GB300",
            ),
            ("2x g5", "g5.xlarge"),
            ("hooper", "did you mean Hopper?"),
            ("voodoo 2", "`gpusetup db list gpus` lists all"),
        ] {
            let error = assume(spec).expect_err(spec).to_string();
            assert!(error.contains(part), "{spec}: {error}");
        }
    }
}
