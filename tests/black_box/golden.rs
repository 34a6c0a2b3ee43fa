//! Plans for some sixty hosts that people have: clouds' images, NVIDIA's own machines,
//! workstations, mixed rigs, hosts with the debris of earlier attempts. Each answer is held to a
//! snapshot: a change of facts or rules shows in the review what it changes for whom.
//! `INSTA_UPDATE=always cargo test --test black_box golden::` writes them again.

use crate::fleet;
use crate::fleet::{default_request, switch, unit};
use gpusetup::compat::{CompanionId, Database};
use gpusetup::database::embedded;
use gpusetup::host::{Facts, InstalledCompanion, InstalledDriver, NvSwitch, Origin, Rdma, Toolkit};
use gpusetup::operation::Operation;
use gpusetup::plan::{Plan, State, plan};
use gpusetup::render::script::sh;
use gpusetup::resolve::{
    AdditionalToolkitRequest, Conflict, Method, Prefer, Request, Settings, summary,
};
use gpusetup::text::quoted;
use gpusetup::version::Want;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// The PCI id of each.
    nvswitch: Option<String>,
    /// The version of the Fabric Manager that is installed and started at boot.
    manager: Option<String>,
    /// Repositories that are enabled beside those that the database knows.
    #[serde(default)]
    repositories: Vec<String>,
    /// What the package lists have.
    offered: Option<BTreeMap<String, String>>,
    /// Of every GPU.
    #[serde(default)]
    subsystem: Option<String>,
    #[serde(default)]
    desktop: bool,
    /// The kernel that boots next, where it is not that of the fleet.
    kernel: Option<String>,
    driver: Option<String>,
    driver_by: Option<Origin>,
    #[serde(default)]
    toolkits: Vec<String>,
    /// The toolkits that are asked for, the default one first.
    #[serde(default)]
    cuda: Vec<String>,
    #[serde(default)]
    frameworks: Vec<String>,
    prefer: Option<Prefer>,
    method: Option<Method>,
    #[serde(default)]
    upgrade: bool,
    #[serde(default)]
    settings: Settings,
    /// Whether the RDMA modules have the interface for nvidia-peermem, on a host with an adapter.
    rdma: Option<bool>,
    /// What is asked for beside the driver.
    #[serde(default)]
    with: BTreeSet<CompanionId>,
    /// Whether the toolkit alone is asked for.
    #[serde(default)]
    toolkit_alone: bool,
    /// Other facts, each by its place: `/machine/kind`.
    #[serde(default)]
    set: BTreeMap<String, Value>,
}

#[test]
fn every_host_gets_the_plan_that_was_reviewed() {
    let hosts = hosts();
    assert!(hosts.len() >= 60, "{} hosts", hosts.len());
    let database = embedded();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for host in &hosts {
            let (facts, request) = made(host, &database);
            insta::assert_snapshot!(host.name.clone(), text(&plan(&database, facts, request)));
        }
    });
}

#[test]
fn a_script_runs_the_commands_that_apply_runs() {
    let hosts = hosts();
    let database = embedded();
    let mut compared = 0;
    for host in &hosts {
        let (facts, request) = made(host, &database);
        let Ok(plan) = plan(&database, facts, request) else {
            continue;
        };
        let script = sh(&plan);
        for step in plan.steps.iter().filter(|step| step.state == State::Needed) {
            for act in step.operations.iter().filter(|act| !act.satisfied) {
                let commands = match &act.operation {
                    Operation::Packages(packages) => packages.argv(),
                    Operation::Run(run) => vec![run.argv.clone()],
                    _ => continue,
                };
                for argv in commands {
                    let line = argv
                        .iter()
                        .map(|word| quoted(word))
                        .collect::<Vec<_>>()
                        .join(" ");
                    assert!(script.contains(&line), "{}: {line}\n{script}", host.name);
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 300, "{compared} commands");
}

fn hosts() -> Vec<Host> {
    let file: Hosts = serde_yaml::from_str(include_str!("../golden/hosts.yaml")).expect("hosts");
    file.hosts
}

/// The facts of each host, by its name.
pub fn facts() -> Vec<(String, Facts)> {
    let database = embedded();
    hosts()
        .iter()
        .map(|host| (host.name.clone(), made(host, &database).0))
        .collect()
}

fn made(host: &Host, database: &Database) -> (Facts, Request) {
    let (id, version) = host
        .os
        .split_once(' ')
        .expect("a distribution and its version");
    let known = database
        .distribution(id, version, &[])
        .unwrap_or_else(|| panic!("{} is not known", host.os));
    let mut facts = fleet::bare(known);
    facts.os.id = id.to_owned();
    facts.os.version = version.to_owned();
    facts.machine.arch = host.arch.clone();
    for gpu in &host.gpus {
        let (count, name) = gpu.split_once(" x ").unwrap_or(("1", gpu));
        let known = database
            .gpu_named(name)
            .unwrap_or_else(|e| panic!("{}: {e}", host.name));
        for _ in 0..count.parse().expect("a number") {
            let mut gpu = unit(known, facts.gpus.len(), Some("nouveau"));
            gpu.subsystem = host.subsystem.clone().or(gpu.subsystem);
            facts.gpus.push(gpu);
        }
    }
    for n in 0..host.nvswitches {
        let id = host.nvswitch.clone();
        facts.nvswitches.push(id.map_or_else(
            || switch(n),
            |pci_id| NvSwitch {
                pci_id,
                ..switch(n)
            },
        ));
    }
    facts
        .companions
        .extend(host.manager.iter().map(|version| InstalledCompanion {
            id: CompanionId::FABRIC_MANAGER,
            version: Some(version.clone()),
            package: None,
            enabled: true,
        }));
    facts.rdma = host.rdma.map(|interface| Rdma {
        adapters: vec!["mlx5_0".to_owned()],
        has_peer_memory: Some(interface),
    });
    facts.repositories.extend(host.repositories.iter().cloned());
    facts.offered = host.offered.clone();
    facts.desktop = host.desktop.then(|| "/usr/bin/Xorg".into());
    if let Some(kernel) = &host.kernel {
        facts.kernels.running = Some(kernel.clone());
        facts.kernels.next_boot = Some(kernel.clone());
        facts.kernels.installed[0].release = kernel.clone();
    }
    if let (Some(version), Some(origin)) = (&host.driver, host.driver_by) {
        let version = version.parse().expect("a version");
        facts.driver = Some(InstalledDriver {
            version,
            origin,
            modules: None,
            evidence: "a file".into(),
            alternative: Some(false),
        });
    }
    for version in &host.toolkits {
        let version = version.parse().expect("a version");
        let path = format!("/usr/local/cuda-{version}").into();
        facts.toolkits.push(Toolkit {
            version,
            path,
            origin: Origin::Runfile,
            has_nvcc: true,
            components: None,
        });
    }
    let facts = with(facts, &host.set);
    let driver = if host.toolkit_alone {
        Want::Nothing
    } else {
        Want::Best
    };
    let mut wanted = host
        .cuda
        .iter()
        .map(|text| text.parse().expect("a request"));
    let request = Request {
        driver,
        cuda: wanted.next().unwrap_or(Want::Best),
        additional_toolkits: wanted
            .map(|cuda| AdditionalToolkitRequest { cuda, locked: None })
            .collect(),
        frameworks: host.frameworks.clone(),
        brought_cuda: None,
        prefer: host.prefer.unwrap_or(Prefer::Stable),
        method: host.method.unwrap_or(Method::Auto),
        upgrade: host.upgrade,
        settings: host.settings.clone(),
        companions: host.with.clone(),
        ..default_request()
    };
    (facts, request)
}

/// The facts with these values at these places.
fn with(facts: Facts, set: &BTreeMap<String, Value>) -> Facts {
    let mut facts = serde_json::to_value(facts).expect("facts");
    for (place, value) in set {
        let (parent, key) = place.rsplit_once('/').expect("a place");
        let parent = facts
            .pointer_mut(parent)
            .unwrap_or_else(|| panic!("no {place}"));
        parent[key] = value.clone();
    }
    serde_json::from_value(facts).expect("facts")
}

/// What a reviewer wants to see of a plan.
fn text(planned: &Result<Plan, Conflict>) -> String {
    let plan = match planned {
        Ok(plan) => plan,
        Err(conflict) => {
            let mut out = format!("exit {}: {conflict}\n", conflict.exit());
            for premise in &conflict.derivation {
                let _ = writeln!(out, "because: {}", premise.text);
            }
            for hint in &conflict.hints {
                let _ = writeln!(out, "hint: {hint}");
            }
            return out;
        }
    };
    let mut out = format!("{}\n", summary(&plan.selection));
    for reason in &plan.reasons {
        let _ = writeln!(
            out,
            "  {}: {} [{}]",
            reason.subject, reason.text, reason.rule
        );
    }
    for step in &plan.steps {
        let state = serde_json::to_value(step.state).expect("a word");
        let _ = writeln!(out, "{} {}", step.id, state.as_str().unwrap_or_default());
        // Addresses and links are the database's and cuDNN's own; packages and commands are what
        // differs between hosts.
        let differs = |o: &&Operation| {
            matches!(
                o,
                Operation::Packages(_)
                    | Operation::Run(_)
                    | Operation::Hold(_)
                    | Operation::Service(_)
                    | Operation::Device(_)
            )
        };
        for operation in step.operations.iter().map(|a| &a.operation).filter(differs) {
            let _ = writeln!(out, "  {}", operation.describe());
        }
    }
    for warning in &plan.warnings {
        let _ = writeln!(out, "! {}: {}", warning.check, warning.text);
    }
    out
}
