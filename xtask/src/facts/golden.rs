//! What a change of the database does for the golden hosts (`tests/golden/hosts.yaml`): gpusetup
//! plans for each with the old and with the new facts. Hosts have the facts of
//! `tests/black_box/golden.rs`, as far as a choice depends on them.

use super::report::{Report, shown};
use crate::{Result, pypi};
use gpusetup_database::compat::{Database, Gpu, PackageManager};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The number of plans that are made at a time.
const PLANNERS: usize = 2;

#[derive(Deserialize)]
struct Hosts {
    hosts: Vec<Host>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    name: String,
    os: String,
    arch: String,
    gpus: Vec<String>,
    #[serde(default)]
    nvswitches: usize,
    nvswitch: Option<String>,
    manager: Option<String>,
    #[serde(default)]
    repositories: Vec<String>,
    offered: Option<BTreeMap<String, String>>,
    subsystem: Option<String>,
    #[serde(default)]
    desktop: bool,
    kernel: Option<String>,
    driver: Option<String>,
    driver_by: Option<String>,
    #[serde(default)]
    toolkits: Vec<String>,
    #[serde(default)]
    cuda: Vec<String>,
    #[serde(default)]
    frameworks: Vec<String>,
    prefer: Option<String>,
    method: Option<String>,
    #[serde(default)]
    upgrade: bool,
    /// They do not influence which versions are chosen.
    #[serde(default, rename = "settings")]
    _settings: Option<serde::de::IgnoredAny>,
    /// Nor do these.
    #[serde(default, rename = "with")]
    _with: Option<serde::de::IgnoredAny>,
    #[serde(default, rename = "rdma")]
    _rdma: Option<serde::de::IgnoredAny>,
    /// Whether the toolkit alone is asked for.
    #[serde(default)]
    toolkit_alone: bool,
    /// Other facts, each by its place: `/machine/kind`.
    #[serde(default)]
    set: BTreeMap<String, Value>,
}

impl Host {
    /// The host's facts, as `gpusetup facts --json` prints them.
    fn facts(&self, database: &Database) -> Result<Value> {
        let (id, version) = self
            .os
            .split_once(' ')
            .ok_or_else(|| format!("{}: no version in `{}`", self.name, self.os))?;
        let d = database
            .distribution(id, version, &[])
            .ok_or_else(|| format!("{}: {} is not known", self.name, self.os))?;
        let manager = match d.package_manager {
            PackageManager::Apt => "apt",
            PackageManager::Dnf => "dnf",
            PackageManager::Tdnf => "tdnf",
            PackageManager::Zypper => "zypper",
        };
        let is_known = d.named_as.is_none();
        let gcc = if is_known { d.gcc } else { Some(16) };
        let glibc = if is_known {
            d.glibc.as_deref()
        } else {
            Some("2.43")
        };
        let compilers: Vec<_> = gcc
            .iter()
            .map(|major| json!({"major": major, "gcc": "/usr/bin/gcc", "gxx": "/usr/bin/g++"}))
            .collect();
        // NVIDIA's is one that no system comes with.
        let known = d.drivers.iter().flat_map(|offer| &offer.repository.seen_as);
        let known = known.filter(|mark| !mark.contains("/cuda/repos"));
        let repositories: Vec<_> = known.chain(&self.repositories).collect();
        let kernel = self.kernel.as_deref().unwrap_or("6.8.0-71-generic");
        let compiler = (!is_known).then_some("gcc-16 (Debian 16.2.0-4) 16.2.0");
        let driver = self.driver.as_ref().map(|version| {
            json!({"version": version, "origin": self.driver_by, "modules": null, "evidence": "a file", "alternative": false})
        });
        let toolkits: Vec<_> = self.toolkits.iter().map(|version| {
            json!({"version": version, "path": format!("/usr/local/cuda-{version}"), "origin": "runfile", "has_nvcc": true, "components": null})
        }).collect();
        let switch = self.nvswitch.as_deref().unwrap_or("10de:1af1");
        let switches: Vec<_> = (0..self.nvswitches)
            .map(|n| json!({"address": format!("0001:{n:02x}:00.0"), "pci_id": switch, "name": null}))
            .collect();
        let companions: Vec<_> = self
            .manager
            .iter()
            .map(|version| json!({"id": "fabric-manager", "version": version, "enabled": true}))
            .collect();
        let mut facts = json!({
            "schema": "gpusetup.facts/1", "tool": "0", "gcc": gcc.map(|major| format!("{major}.2.0")), "glibc": glibc, "compilers": compilers,
            "machine": {"arch": self.arch, "kind": "physical", "inside": null, "is_tree": false, "boot_id": "b"},
            "os": {"id": id, "version": version, "like": [], "name": d.name, "package_manager": manager, "initramfs": d.initramfs, "immutable": false},
            "secure_boot": "disabled", "gpus": self.gpus(database)?, "nvswitches": switches,
            "kernels": {"running": kernel, "next_boot": kernel, "installed": [{"release": kernel, "headers": true, "compiler": compiler,
                "nvidia_module": null, "initramfs": {"path": "/boot/initrd.img-6.8.0-71-generic", "size": 1, "modified": 1}}]},
            "loaded_modules": [], "driver": driver, "other_drivers": [], "toolkits": toolkits, "cudnn": [], "nvcc": null, "loader_cache": null,
            "repositories": repositories, "space": [], "paths": {}, "unreadable": [], "companions": companions, "offered": self.offered, "desktop": self.desktop.then_some("/usr/bin/Xorg"),
        });
        for (place, value) in &self.set {
            let parent = place
                .rsplit_once('/')
                .and_then(|(parent, key)| Some((facts.pointer_mut(parent)?, key)));
            let (parent, key) = parent.ok_or_else(|| format!("{}: no {place}", self.name))?;
            parent[key] = value.clone();
        }
        Ok(facts)
    }

    fn gpus(&self, database: &Database) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        for text in &self.gpus {
            let (count, name) = text.split_once(" x ").unwrap_or(("1", text));
            let gpu: &Gpu = database
                .gpu_named(name)
                .map_err(|e| format!("{}: {e}", self.name))?;
            for _ in 0..count
                .parse()
                .map_err(|_| format!("{}: `{text}`", self.name))?
            {
                all.push(json!({
                    "address": format!("0000:{:02x}:00.0", all.len()), "pci_id": format!("10de:{}", gpu.device),
                    "subsystem": self.subsystem.as_deref().or(gpu.subsystem.as_deref()), "class": "0302", "bound_to": "nouveau", "name": gpu.name,
                    "compute_capability": gpu.compute_capability.map(|c| c.to_string()), "assumed": false,
                }));
            }
        }
        Ok(all)
    }

    /// The options that request what the host wants.
    fn options(&self) -> Vec<String> {
        let mut all: Vec<_> = self
            .frameworks
            .iter()
            .map(|wish| format!("--for={wish}"))
            .collect();
        all.extend(self.cuda.iter().map(|wish| format!("--cuda={wish}")));
        all.extend(
            self.prefer
                .iter()
                .map(|prefer| format!("--prefer={prefer}")),
        );
        all.extend(
            self.method
                .iter()
                .map(|method| format!("--method={method}")),
        );
        all.extend(self.upgrade.then(|| "--upgrade".to_owned()));
        // On some machines the driver is left out unless it is asked for.
        let profile = if self.toolkit_alone {
            "toolkit"
        } else {
            "compute"
        };
        all.push(format!("--profile={profile}"));
        all
    }
}

/// A golden host's name, and what gpusetup chooses for it.
pub type Choice = (String, String);

/// The choices for all hosts with the database in a folder. `scratch` is an existing folder for the
/// hosts' facts.
pub fn choices(
    gpusetup: &Path,
    project: &Path,
    database: &Path,
    scratch: &Path,
) -> Result<Vec<Choice>> {
    let path = project.join("tests/golden/hosts.yaml");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let hosts: Hosts =
        serde_yaml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let known = gpusetup_database::compat::load(database).map_err(|e| e.to_string())?;
    let mut jobs = Vec::new();
    for host in &hosts.hosts {
        let file = scratch.join(format!("{}.json", host.name));
        fs::write(&file, host.facts(&known)?.to_string())
            .map_err(|e| format!("{}: {e}", file.display()))?;
        jobs.push((host, file));
    }
    pypi::for_each(&jobs, PLANNERS, |(host, facts)| {
        let mut command = Command::new(gpusetup);
        command
            .arg("plan")
            .arg("--json")
            .arg("--offline")
            .arg("--facts")
            .arg(facts)
            .arg("--database")
            .arg(database);
        let out = command
            .args(host.options())
            .output()
            .map_err(|e| format!("{}: {e}", gpusetup.display()))?;
        let answer: Value = serde_json::from_slice(&out.stdout).map_err(|_| {
            format!(
                "{}: {}",
                host.name,
                String::from_utf8_lossy(&out.stderr).trim()
            )
        })?;
        Ok((host.name.clone(), choice(&answer)))
    })
}

/// `driver 595.91.07 (open) + CUDA 13.2.1 + cuDNN 9.28.0.42`, or why there is no plan.
fn choice(plan: &Value) -> String {
    if let Some(error) = plan.get("error").and_then(Value::as_str) {
        return format!("refused: {error}");
    }
    let text = |path: &str| {
        plan.pointer(&format!("/selection/{path}"))
            .and_then(Value::as_str)
    };
    let driver = text("driver/version").map(|version| {
        let (modules, method) = (
            text("driver/modules").unwrap_or("?"),
            text("driver/method").unwrap_or("?"),
        );
        format!("driver {version} ({modules}, {method})")
    });
    let cuda = text("cuda/version").map(|version| format!("CUDA {version}"));
    let cudnn = text("cudnn/version").map(|version| format!("cuDNN {version}"));
    let parts: Vec<_> = [driver, cuda, cudnn].into_iter().flatten().collect();
    if parts.is_empty() {
        "nothing".to_owned()
    } else {
        parts.join(" + ")
    }
}

/// Reports the hosts for which the choice changed, by what changed.
pub fn compare(before: &[Choice], after: &[Choice], report: &mut Report) {
    let mut changes: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for ((name, old), (_, new)) in before.iter().zip(after).filter(|(old, new)| old != new) {
        changes
            .entry(changed_parts(old, new))
            .or_default()
            .push(name);
    }
    let count: usize = changes.values().map(Vec::len).sum();
    report.hosts.push(format!(
        "{count} of {} hosts get another choice of driver, CUDA or cuDNN",
        before.len()
    ));
    for ((old, new), hosts) in changes {
        report.hosts.push(format!(
            "{} becomes {}: {}",
            shown(old),
            shown(new),
            hosts.join(", ")
        ));
    }
}

/// The parts that differ between two choices, if both have the same parts; otherwise the whole
/// choices.
fn changed_parts(old: &str, new: &str) -> (String, String) {
    let [olds, news] = [old, new].map(|choice| choice.split(" + ").collect::<Vec<_>>());
    let kind = |part: &str| part.split(' ').next().map(str::to_owned);
    if !olds
        .iter()
        .map(|part| kind(part))
        .eq(news.iter().map(|part| kind(part)))
    {
        return (old.to_owned(), new.to_owned());
    }
    let (olds, news): (Vec<_>, Vec<_>) = olds
        .iter()
        .zip(&news)
        .filter(|(old, new)| old != new)
        .unzip();
    let joined = |parts: Vec<&&str>| parts.into_iter().copied().collect::<Vec<_>>().join(" + ");
    (joined(olds), joined(news))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_golden_host_has_facts() {
        let text =
            fs::read_to_string(crate::project().join("tests/golden/hosts.yaml")).expect("hosts");
        let hosts: Hosts = serde_yaml::from_str(&text).expect("hosts");
        for host in &hosts.hosts {
            host.facts(super::super::tests::known())
                .unwrap_or_else(|e| panic!("{e}"));
        }
    }

    /// `GPUSETUP=target/debug/gpusetup cargo test -p xtask -- --ignored golden`
    #[test]
    #[ignore = "needs a gpusetup, which GPUSETUP names"]
    fn choices_are_those_of_the_snapshots() {
        let scratch = std::env::temp_dir().join(format!("xtask-golden-{}", std::process::id()));
        fs::create_dir_all(&scratch).expect("a folder");
        let gpusetup = std::env::var_os("GPUSETUP").expect("GPUSETUP");
        let project = crate::project();
        let choices = choices(Path::new(&gpusetup), &project, &project, &scratch);
        let _ = fs::remove_dir_all(&scratch);
        for (name, choice) in choices.expect("choices") {
            let snapshot = fs::read_to_string(project.join(format!("tests/golden/{name}.snap")))
                .expect("a snapshot");
            let first = snapshot
                .lines()
                .nth(3)
                .expect("the first line of the answer");
            match choice.strip_prefix("refused: ") {
                Some(refusal) => {
                    assert!(
                        first.starts_with("exit ") && first.contains(refusal),
                        "{name}: {first}\n{refusal}"
                    )
                }
                None => {
                    let words = |text: &str| -> Vec<String> {
                        text.split_whitespace()
                            .filter(|word| word.contains('.'))
                            .map(str::to_owned)
                            .collect()
                    };
                    assert_eq!(words(&choice), words(first), "{name}");
                }
            }
        }
    }

    #[test]
    fn changes_are_reported_by_host() {
        let plan = json!({"selection": {"driver": {"version": "595.91.07", "modules": "open", "method": "packages"},
            "cuda": {"version": "13.2.1"}, "cudnn": {"version": "9.28.0.42"}}});
        let with = |cudnn: &str| choice(&plan).replace("9.28.0.42", cudnn);
        let named = |name: &str, choice: String| (name.to_owned(), choice);
        let old: Vec<_> = ["a", "b", "c", "d"]
            .map(|name| named(name, choice(&plan)))
            .to_vec();
        let refusal = choice(&json!({"error": "it does not fit"}));
        let new = [
            named("a", with("9.29.0.1")),
            named("b", refusal),
            named("c", choice(&plan)),
            named("d", with("9.29.0.1")),
        ];
        let mut report = Report::default();
        compare(&old, &new, &mut report);
        let want = [
            "3 of 4 hosts get another choice of driver, CUDA or cuDNN",
            "`cuDNN 9.28.0.42` becomes `cuDNN 9.29.0.1`: a, d",
            "`driver 595.91.07 (open, packages) + CUDA 13.2.1 + cuDNN 9.28.0.42` becomes `refused: it does not fit`: b",
        ];
        assert_eq!(report.hosts, want);
    }
}
