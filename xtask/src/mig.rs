//! MIG profiles from the configuration of NVIDIA's mig-parted. It contains the profiles and the
//! number of instances of each on a GPU; some of its configurations name their GPUs. Slices and
//! placements are not included. A second table has every configuration that mig-parted ships: tests
//! have gpusetup read each of them.

use crate::{Comparison, Result, table};
use gpusetup_database::compat::{Database, MigProfile, PciDevice};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const TABLE: &str = "mig.tsv";
const CONFIGURATIONS: &str = "mig-configurations.tsv";

/// The file that packages of mig-parted install.
const DEFAULT: &str = "deployments/systemd/config-default.yaml";
/// All files with configurations.
const FILES: [&str; 5] = [
    DEFAULT,
    "deployments/container/nvidia-mig-manager-example.yaml",
    "deployments/container/nvidia-mig-manager-example-hopper-blackwell.yaml",
    "examples/config.yaml",
    "examples/dgx-station-80gb-config.yaml",
];

/// Names that no configuration assigns to a GPU. GB200 boards had them before production
/// (mig-parted#227 renamed `1g.24gb`).
const OF_NO_GPU: &[&str] = &["3g.95gb", "4g.95gb", "7g.189gb"];

#[derive(Deserialize)]
struct Configurations {
    #[serde(rename = "mig-configs")]
    configurations: BTreeMap<String, Vec<Configuration>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Configuration {
    #[serde(default)]
    device_filter: Option<Filter>,
    devices: Devices,
    mig_enabled: bool,
    /// The number of instances of each profile.
    #[serde(default)]
    mig_devices: BTreeMap<String, u8>,
}

/// PCI ids as `0x233010DE`: device, then vendor.
#[derive(Deserialize)]
#[serde(untagged)]
enum Filter {
    One(String),
    Several(Vec<String>),
}

/// `all`, or indexes of GPUs.
#[derive(Deserialize)]
#[serde(untagged)]
enum Devices {
    All(String),
    Listed(Vec<u32>),
}

/// Records each profile of each configuration, with its GPUs, and all configurations of a clone.
pub fn record(clone: &Path, commit: &str) -> Result<()> {
    record_profiles(&read(clone, DEFAULT)?, commit)?;
    let mut rows = Vec::new();
    for file in FILES {
        let all = read(clone, file)?;
        for (name, entries) in &all.configurations {
            rows.extend(entries.iter().map(|entry| row(file, name, entry)));
        }
    }
    let origin = format!("configurations of github.com/NVIDIA/mig-parted, commit {commit}");
    let columns = [
        "file",
        "configuration",
        "device-filter",
        "devices",
        "mig-enabled",
        "mig-devices",
    ];
    table::write(CONFIGURATIONS, &origin, &columns, &rows)
}

fn read(clone: &Path, file: &str) -> Result<Configurations> {
    let path = clone.join(file);
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let text = fs::read_to_string(&path).map_err(|e| failed(&e))?;
    serde_yaml::from_str(&configuration(&text)).map_err(|e| failed(&e))
}

/// The configuration in a file. In a manifest of Kubernetes it is an indented text.
fn configuration(text: &str) -> String {
    const INSIDE: &str = "  config.yaml: |\n";
    let Some((_, text)) = text.split_once(INSIDE) else {
        return text.to_owned();
    };
    let lines = text.lines().map_while(|line| {
        if line.is_empty() {
            Some("")
        } else {
            line.strip_prefix("    ")
        }
    });
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn row(file: &str, name: &str, entry: &Configuration) -> Vec<String> {
    let filter = match &entry.device_filter {
        None => String::new(),
        Some(Filter::One(id)) => id.clone(),
        Some(Filter::Several(ids)) => ids.join(" "),
    };
    let devices = match &entry.devices {
        Devices::All(all) => all.clone(),
        Devices::Listed(indexes) => indexes
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" "),
    };
    let instances: Vec<_> = entry
        .mig_devices
        .iter()
        .map(|(profile, count)| format!("{profile}:{count}"))
        .collect();
    let instances = instances.join(" ");
    vec![
        file.to_owned(),
        name.to_owned(),
        filter,
        devices,
        entry.mig_enabled.to_string(),
        instances,
    ]
}

fn record_profiles(all: &Configurations, commit: &str) -> Result<()> {
    let mut rows = BTreeSet::new();
    for configuration in all.configurations.values().flatten() {
        let devices = match &configuration.device_filter {
            None => Vec::new(),
            Some(Filter::One(id)) => vec![device(id)?],
            Some(Filter::Several(ids)) => ids.iter().map(|id| device(id)).collect::<Result<_>>()?,
        };
        let devices: BTreeSet<_> = devices.iter().map(ToString::to_string).collect();
        let devices = devices.into_iter().collect::<Vec<_>>().join(" ");
        // In a configuration with several profiles the counts are below the maximum of each.
        let alone = configuration.mig_devices.len() == 1;
        for (name, count) in &configuration.mig_devices {
            let count = if alone {
                count.to_string()
            } else {
                String::new()
            };
            rows.insert(vec![name.clone(), count, devices.clone()]);
        }
    }
    let origin = format!("{DEFAULT} of github.com/NVIDIA/mig-parted, commit {commit}");
    table::write(
        TABLE,
        &origin,
        &["profile", "instances at most", "devices"],
        &rows.into_iter().collect::<Vec<_>>(),
    )
}

fn device(id: &str) -> Result<PciDevice> {
    let digits = id.strip_prefix("0x").and_then(|id| id.strip_suffix("10DE"));
    let device = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
    device
        .map(PciDevice)
        .ok_or_else(|| format!("{id} is not the id of an NVIDIA GPU"))
}

/// Compares the names and counts of profiles. A row without GPUs applies to every GPU with a
/// profile of this name.
pub fn check(database: &Database) -> Result<Comparison> {
    let rows = table::read(TABLE)?;
    let mut differences = Vec::new();
    for row in &rows {
        let [name, count, devices] = row.as_slice() else {
            return Err(format!("{TABLE}: {row:?}"));
        };
        let devices: Vec<_> = devices.split_whitespace().collect();
        for id in &devices {
            let known = database
                .mig_profiles
                .iter()
                .any(|p| p.name == *name && p.gpus.iter().any(|g| g.to_string() == *id));
            if !known {
                differences.push(format!("{id}: the database has no profile {name}"));
            }
        }
        let of_name = || database.mig_profiles.iter().filter(|p| p.name == *name);
        if of_name().next().is_none() && !OF_NO_GPU.contains(&name.as_str()) {
            differences.push(format!("the database has no profile {name} of any GPU"));
        }
        // A configuration for named GPUs proves nothing about others, and one without names nothing
        // about boards that mig-parted does not know.
        let meant =
            |gpu: &PciDevice| devices.is_empty() || devices.contains(&gpu.to_string().as_str());
        let of_mig_parted = |p: &&MigProfile| p.sources.iter().any(|source| source == "mig-parted");
        for profile in of_name()
            .filter(of_mig_parted)
            .filter(|p| p.gpus.iter().any(meant))
        {
            if !count.is_empty() && *count != profile.instances.to_string() {
                let gpus: Vec<_> = profile.gpus.iter().map(ToString::to_string).collect();
                let gpus = gpus.join(" ");
                differences.push(format!(
                    "{gpus}: {name} up to {count} times; the database has {}",
                    profile.instances
                ));
            }
        }
    }
    Ok(Comparison {
        what: "MIG profiles of mig-parted",
        facts: rows.len(),
        differences,
    })
}
