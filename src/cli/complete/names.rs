//! The names of GPUs as people type them, without blanks: `h100`, `rtx4090`, `a100-80gb-pcie`.

use crate::compat::{Database, Gpu};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A name, and what it stands for.
#[derive(Debug)]
pub(crate) struct GpuName {
    pub(crate) name: String,
    /// The GPU, as its maker calls it.
    pub(crate) about: String,
    /// Whether it is one of the few that most people look for.
    pub(crate) is_popular: bool,
}

/// Words that people leave out.
const BRANDS: [&str; 4] = ["nvidia", "geforce", "tesla", "quadro"];

/// Kepler: drivers for older GPUs do not build on the kernels of today.
const OLDEST: (u16, u16) = (3, 0);

/// GeForce cards of the latest generations are popular; so are the GPUs that clouds and DGX systems
/// have.
const POPULAR_GENERATIONS: usize = 2;

/// The names of the GPUs that drivers list, the popular ones first, then the newest. Names that
/// several GPUs with different needs share are left out.
pub(crate) fn gpu_names(database: &Database) -> Vec<GpuName> {
    // Boards may share a name; hyphens do not tell names apart.
    let mut named: BTreeMap<String, (String, Vec<&Gpu>)> = BTreeMap::new();
    for gpu in database.gpus.iter().filter(|gpu| database.is_listed(gpu)) {
        for name in gpu.name.split(" / ").map(typed) {
            named
                .entry(name.replace('-', ""))
                .or_insert_with(|| (name, Vec::new()))
                .1
                .push(gpu);
        }
    }
    tell_quadros(&mut named);
    let mut generations: Vec<_> = database
        .gpus
        .iter()
        .filter(|gpu| is_geforce(gpu))
        .map(capability)
        .collect();
    generations.sort_unstable_by_key(|capability| Reverse(*capability));
    generations.dedup();
    generations.truncate(POPULAR_GENERATIONS);
    let mut all: Vec<_> = named
        .into_values()
        .filter(|(name, gpus)| {
            !name.is_empty()
                && gpus
                    .iter()
                    .all(|gpu| capability(gpu) >= OLDEST && needs(gpu) == needs(gpus[0]))
        })
        .map(|(name, gpus)| {
            let cloud = gpus.iter().any(|gpu| is_in_cloud(database, gpu));
            let desktop = gpus
                .iter()
                .any(|gpu| is_geforce(gpu) && generations.contains(&capability(gpu)));
            let rank = (
                !cloud,
                !desktop,
                Reverse(capability(gpus[0])),
                Reverse(number(&name)),
                name.len(),
            );
            (
                rank,
                GpuName {
                    name,
                    about: about(gpus[0]),
                    is_popular: cloud || desktop,
                },
            )
        })
        .collect();
    // A board that is meant by a shorter name than its own.
    for gpu in &database.gpus {
        let Some(known) = &gpu.known_as else { continue };
        let name = typed(known);
        all.retain(|(_, other)| other.name != name);
        let rank = (
            false,
            false,
            Reverse(capability(gpu)),
            Reverse(number(&name)),
            0,
        );
        all.push((
            rank,
            GpuName {
                name,
                about: about(gpu),
                is_popular: true,
            },
        ));
    }
    all.sort_by(|(a, of_a), (b, of_b)| a.cmp(b).then_with(|| of_a.name.cmp(&of_b.name)));
    all.into_iter().map(|(_, name)| name).collect()
}

fn is_in_cloud(database: &Database, gpu: &Gpu) -> bool {
    let (mut instances, mut systems) = (database.instances.iter(), database.systems.iter());
    instances.any(|instance| instance.gpu == gpu.device && !instance.part)
        || systems.any(|system| system.gpu == Some(gpu.device))
}

/// Adds the brand to the names of Quadros whose successors are called the same and more: `RTX 4000`
/// may be an RTX 4000 Ada.
fn tell_quadros(named: &mut BTreeMap<String, (String, Vec<&Gpu>)>) {
    let of_quadros = named
        .iter()
        .filter(|(_, (_, gpus))| gpus.iter().all(|gpu| gpu.name.contains("Quadro")))
        .map(|(key, _)| key);
    let shared: Vec<String> = of_quadros
        .filter(|key| {
            let longer = named
                .range((*key).clone()..)
                .skip(1)
                .take_while(|(other, _)| other.starts_with(key.as_str()));
            longer
                .flat_map(|(_, (_, gpus))| gpus)
                .any(|gpu| !gpu.name.contains("Quadro"))
        })
        .cloned()
        .collect();
    for key in shared {
        if let Some((name, _)) = named.get_mut(&key) {
            name.insert_str(0, "quadro-");
        }
    }
}

fn is_geforce(gpu: &Gpu) -> bool {
    !gpu.mobile && gpu.line.as_deref() == Some("GeForce")
}

/// As a number that can be compared; 0 if it is not known.
fn capability(gpu: &Gpu) -> (u16, u16) {
    gpu.compute_capability.map_or((0, 0), |capability| {
        (capability.major.into(), capability.minor.into())
    })
}

/// What two GPUs of one name must share for it to name both.
fn needs(gpu: &Gpu) -> impl PartialEq + use<'_> {
    (
        gpu.compute_capability,
        &gpu.modules,
        &gpu.last_driver_branch,
        &gpu.only_on,
    )
}

fn about(gpu: &Gpu) -> String {
    let name = gpu.name.split(" / ").next().unwrap_or(&gpu.name);
    match gpu.compute_capability {
        Some(capability) => format!("{name}, compute capability {capability}"),
        None => name.to_owned(),
    }
}

/// A name in the form that is typed: `NVIDIA GeForce RTX 3090 Ti` is `rtx3090-ti`.
pub(crate) fn typed(name: &str) -> String {
    let small = name.to_lowercase();
    let words = small
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty() && !BRANDS.contains(word));
    let mut out = String::new();
    for (n, word) in words.enumerate() {
        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
        let after_letters = out.bytes().all(|b| b.is_ascii_alphabetic());
        if n > 0 && !(n == 1 && is_number && after_letters) {
            out.push('-');
        }
        out += word;
    }
    out
}

/// The first number in a name.
fn number(name: &str) -> u32 {
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::embedded;
    use crate::host::assumed_gpus;

    #[test]
    fn names_are_as_people_type_them() {
        for (name, expected) in [
            ("NVIDIA GeForce RTX 4090", "rtx4090"),
            ("NVIDIA GeForce RTX 3090 Ti", "rtx3090-ti"),
            ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
            ("NVIDIA RTX A6000", "rtx-a6000"),
            ("Tesla T4", "t4"),
            ("NVIDIA TITAN V", "titan-v"),
            ("NVIDIA L40S", "l40s"),
        ] {
            assert_eq!(typed(name), expected);
        }
    }

    #[test]
    fn every_name_names_its_gpu() {
        let database = embedded();
        let all = gpu_names(&database);
        assert!(all.len() > 300, "{}", all.len());
        for GpuName {
            name,
            about: expected,
            ..
        } in &all
        {
            let gpus = assumed_gpus(&database, name).unwrap_or_else(|e| panic!("{name}: {e}"));
            let found = database
                .gpu(gpus[0].device().expect("a known one"), None)
                .expect("it is in the database");
            let capability = expected.rsplit(' ').next();
            assert!(
                found
                    .compute_capability
                    .is_none_or(|c| capability == Some(c.to_string().as_str())),
                "{name} is {}, not {expected}",
                found.name
            );
        }
    }

    #[test]
    fn popular_names_come_first() {
        let all = gpu_names(&embedded());
        let at = |name: &str| {
            all.iter()
                .position(|gpu| gpu.name == name)
                .unwrap_or_else(|| panic!("no {name}"))
        };
        for name in [
            "h100",
            "h200",
            "a100",
            "t4",
            "l4",
            "rtx4090",
            "rtx5090",
            "v100-sxm2-16gb",
        ] {
            assert!(
                at(name) < at("gtx1080") && all[at(name)].is_popular,
                "{name} is at {}",
                at(name)
            );
        }
        let popular = all.iter().filter(|gpu| gpu.is_popular).count();
        assert!((30..100).contains(&popular), "{popular}");
    }
}
