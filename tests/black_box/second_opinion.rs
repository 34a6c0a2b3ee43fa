//! Whole plans, judged by what was recorded of published artifacts (`xtask/recorded/`) and not by
//! the database: the GPUs that each release of the open kernel modules lists, Debian's package
//! indexes, the headers of CUDA releases.

use crate::fleet::{bare, default_request};
use gpusetup::compat::{Database, ModuleFlavour, PciDevice};
use gpusetup::database::embedded;
use gpusetup::exit::Exit;
use gpusetup::host::{Facts, Gpu};
use gpusetup::operation::{Link, Operation};
use gpusetup::plan::{Plan, plan};
use gpusetup::resolve::{Method, Request, resolve};
use gpusetup::version::{DriverVersion, Want};
use std::collections::BTreeMap;
use std::path::Path;

/// Debian's releases in the database, and the suites that their hosts take packages from.
const SUITES: [(&str, &[&str]); 4] = [
    ("11", &["bullseye", "bullseye-updates", "bullseye-security"]),
    ("12", &["bookworm", "bookworm-security"]),
    ("13", &["trixie"]),
    ("*", &["sid"]),
];

/// Boards with a Grace processor, which is aarch64. These hosts are x86_64.
const GRACE: [&str; 8] = [
    "2342", "2343", "2345", "2348", "2941", "2e12", "31c2", "31c3",
];

/// The rows of a recorded table.
fn rows(name: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("xtask/recorded")
        .join(name);
    let table =
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}

/// The first release of each driver branch that lists a device, by device: of GPUs from Turing
/// (1e02) on, which the open modules run. Of older ones they contain names only.
fn listed() -> Vec<(String, Vec<DriverVersion>)> {
    let version = |text: &str| text.parse().expect("a driver version");
    rows("open-kernel-modules.tsv")
        .into_iter()
        .filter(|row| row[0].as_str() >= "1e00" && !GRACE.contains(&row[0].as_str()))
        .map(|row| (row[0].clone(), row[1].split(' ').map(version).collect()))
        .collect()
}

/// The packages of a release of Debian on x86_64: of each the newest version.
fn archive(suites: &[&str]) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for row in rows("debian.tsv")
        .iter()
        .filter(|row| suites.contains(&row[0].as_str()) && row[4].contains("amd64"))
    {
        let newest = all.entry(row[1].clone()).or_default();
        if numbers(&row[2]) > numbers(newest) {
            newest.clone_from(&row[2]);
        }
    }
    all
}

/// The numbers of a package's version, without its epoch.
fn numbers(version: &str) -> Vec<u32> {
    let version = version
        .split_once(':')
        .map_or(version, |(_, version)| version);
    version
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|n| n.parse().ok())
        .collect()
}

fn upstream(version: &str) -> &str {
    version
        .split_once('-')
        .map_or(version, |(upstream, _)| upstream)
}

/// A host of this release with one GPU, the default compiler and the C library of its archive.
fn host(
    database: &Database,
    release: &str,
    archive: &BTreeMap<String, String>,
    device: &str,
) -> Facts {
    let known = |d: &&gpusetup::compat::Distribution| d.id == "debian" && d.version == release;
    let mut facts = bare(
        database
            .distributions
            .iter()
            .find(known)
            .expect("a release of Debian"),
    );
    facts.gcc = Some(format!("{}.2.0", numbers(&archive["gcc"])[0]));
    facts.glibc = Some(upstream(&archive["libc6"]).to_owned());
    facts.offered = Some(archive.clone());
    facts.gpus.push(Gpu {
        address: "0000:17:00.0".to_owned(),
        pci_id: format!("10de:{device}"),
        subsystem: None,
        class: "0302".to_owned(),
        bound_to: None,
        driver_unseen: false,
        name: None,
        compute_capability: None,
        assumed: false,
    });
    facts
}

/// Whether releases of a driver list a GPU: since the first of its branch, or of an older one if
/// its branch has none.
fn lists(firsts: &[DriverVersion], driver: DriverVersion) -> bool {
    match firsts.iter().find(|first| first.branch == driver.branch) {
        Some(first) => *first <= driver,
        None => firsts.iter().any(|first| first.branch < driver.branch),
    }
}

/// What is wrong with a plan.
fn mistakes(
    plan: &Plan,
    facts: &Facts,
    archive: &BTreeMap<String, String>,
    firsts: &[DriverVersion],
) -> Vec<String> {
    let mut wrong = Vec::new();
    let driver = plan.selection.driver.as_ref().expect("a driver");
    if !lists(firsts, driver.version) {
        wrong.push(format!("driver {} does not list the GPU", driver.version));
    }
    // What NVIDIA's own repository has was not recorded.
    let is_added = driver.method == Method::Repository;
    let operations = || {
        plan.steps
            .iter()
            .flat_map(|step| &step.operations)
            .map(|planned| &planned.operation)
    };
    for operation in operations() {
        let Operation::Packages(packages) = operation else {
            continue;
        };
        for package in &packages.install {
            let is_driver = package.contains("nvidia") || package.starts_with("libcuda");
            let is_compiler = package.starts_with("gcc-") || package.starts_with("g++-");
            match archive.get(package) {
                None if is_driver && !is_added || is_compiler => {
                    wrong.push(format!("there is no package {package}"))
                }
                Some(version)
                    if is_driver
                        && !is_added
                        && package.contains("dkms")
                        && upstream(version) != driver.version.to_string() =>
                {
                    wrong.push(format!(
                        "{package} has version {version}, not {}",
                        driver.version
                    ));
                }
                _ => {}
            }
        }
    }
    let Some(cuda) = &plan.selection.cuda else {
        return wrong;
    };
    let database = embedded();
    let release = database.cuda(cuda.version).expect("a release");
    let headers = rows("headers.tsv");
    let Some(headers) = headers
        .iter()
        .find(|row| Some(&row[0]) == release.nvcc.as_ref())
    else {
        return wrong;
    };
    let side = operations().find_map(|operation| match operation {
        Operation::Link(Link { path, target, .. }) if path.ends_with("nvvm/bin/gcc") => {
            target.to_str()?.rsplit_once('-')?.1.parse().ok()
        }
        _ => None,
    });
    let gcc: u32 = side.unwrap_or_else(|| numbers(facts.gcc.as_deref().expect("a compiler"))[0]);
    if headers[1].parse().is_ok_and(|newest: u32| gcc > newest) {
        wrong.push(format!(
            "the headers of CUDA {} stop gcc {gcc}",
            cuda.version
        ));
    }
    let glibc = facts.glibc.as_deref().expect("a C library");
    if !headers[3].is_empty() && numbers(glibc) >= numbers(&headers[3]) {
        wrong.push(format!(
            "the headers of CUDA {} do not compile with glibc {glibc}",
            cuda.version
        ));
    }
    wrong
}

#[test]
fn plans_agree_with_what_was_recorded_of_artifacts() {
    let (database, listed) = (embedded(), listed());
    let (mut planned, mut refused) = (0, Vec::new());
    for (release, suites) in SUITES {
        let archive = archive(suites);
        for (device, firsts) in listed.iter().step_by(5) {
            for method in [Method::Auto, Method::Packages] {
                let facts = host(&database, release, &archive, device);
                let request = Request {
                    method,
                    ..default_request()
                };
                match plan(&database, facts.clone(), request) {
                    Ok(plan) => {
                        let wrong = mistakes(&plan, &facts, &archive, firsts);
                        assert!(
                            wrong.is_empty(),
                            "{device} on Debian {release}, {method:?}: {wrong:?}"
                        );
                        planned += 1;
                    }
                    // Debian's packages are older than many GPUs.
                    Err(_) if method == Method::Packages => {}
                    Err(conflict) => {
                        refused.push(format!("{device} on Debian {release}: {conflict}"))
                    }
                }
            }
        }
    }
    eprintln!("{planned} plans on Debian agree");
    assert_eq!(refused, [""; 0]);
    assert!(planned > 200, "{planned} plans");
}

#[test]
fn a_driver_is_taken_for_each_gpu_that_it_lists() {
    let (database, listed) = (embedded(), listed());
    let archive = archive(SUITES[1].1);
    let newest = |branch: u16| {
        let of_branch = database
            .drivers
            .iter()
            .filter(|release| release.version.branch == branch);
        of_branch.map(|release| release.version).max()
    };
    let mut taken = 0;
    for (device, firsts) in &listed {
        let facts = host(&database, "12", &archive, device);
        let ask = |branch: u16| {
            let driver = Want::Meeting(branch.to_string().parse().expect("a branch"));
            let request = Request {
                driver,
                cuda: Want::Nothing,
                cudnn: Want::Nothing,
                method: Method::Runfile,
                modules: Some(ModuleFlavour::Open),
                ..default_request()
            };
            resolve(&database, &facts, &request)
                .map(|found| found.selection().driver.expect("a driver").version)
        };
        for first in firsts
            .iter()
            .filter(|first| newest(first.branch).is_some_and(|newest| newest >= **first))
        {
            match ask(first.branch) {
                Ok(driver) => assert!(lists(firsts, driver), "{device}: {driver} does not list it"),
                Err(conflict) => panic!(
                    "{device}: branch {} lists it from {first} on: {conflict}",
                    first.branch
                ),
            }
            taken += 1;
        }
    }
    eprintln!("{taken} drivers are taken for GPUs that they list");
    assert!(taken > 300, "{taken}");
}

#[test]
fn no_driver_is_planned_for_virtual_gpus() {
    let (database, archive) = (embedded(), archive(SUITES[1].1));
    let mut refused = 0;
    for row in rows("virtual-gpus.tsv") {
        let mut facts = host(&database, "12", &archive, &row[0]);
        for subsystem in row[1].split(' ') {
            facts.gpus[0].subsystem = Some(format!("10de:{subsystem}"));
            let answer = resolve(&database, &facts, &default_request());
            assert!(
                answer.is_err_and(|conflict| conflict.exit() == Exit::NothingFits),
                "{} with subsystem {subsystem}",
                row[0]
            );
            refused += 1;
        }
        if GRACE.contains(&row[0].as_str()) {
            continue;
        }
        facts.gpus[0].subsystem = Some("10de:0001".to_owned());
        assert!(
            resolve(&database, &facts, &default_request()).is_ok(),
            "{} is also a whole GPU",
            row[0]
        );
    }
    eprintln!("{refused} virtual GPUs get no driver");
    assert!(refused > 1_000, "{refused}");
}

/// What `nvidia-smi mig` printed on an H200: of each profile the name, the id, the most instances,
/// the media engines (NVDEC, NVJPG, OFA), and where instances can be.
fn printed_profiles() -> Vec<(String, u32, u8, [u8; 3], String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("xtask/recorded/mig-h200.txt");
    let text = std::fs::read_to_string(path).expect("recorded");
    let number = |word: &str| word.parse().expect("a number");
    let places: BTreeMap<u32, &str> = text
        .lines()
        .filter_map(|line| {
            line.split_once("Profile ID ")?
                .1
                .trim_start()
                .split_once(' ')
        })
        .map(|(id, places)| {
            (
                id.parse().expect("an id"),
                places.split_once(": ").expect("a list").1,
            )
        })
        .collect();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.trim_matches('|').split_whitespace().collect())
        .collect();
    let pairs = rows
        .windows(2)
        .filter(|pair| pair[0].get(1) == Some(&"MIG"));
    pairs
        .map(|pair| {
            let (first, second) = (&pair[0], &pair[1]);
            let id = first[3].parse().expect("an id");
            let most = number(first[4].split_once('/').expect("free and total").1);
            let engines = [number(first[8]), number(second[1]), number(second[2])];
            (
                first[2].to_owned(),
                id,
                most,
                engines,
                places[&id].to_owned(),
            )
        })
        .collect()
}

#[test]
fn an_h200_has_the_profiles_that_its_driver_printed() {
    let printed = printed_profiles();
    assert_eq!(printed.len(), 7);
    let database = embedded();
    let is_h200 = |gpus: &[PciDevice]| gpus.iter().any(|gpu| gpu.to_string() == "2335");
    let known: Vec<_> = database
        .mig_profiles
        .iter()
        .filter(|profile| is_h200(&profile.gpus))
        .collect();
    assert_eq!(known.len(), printed.len());
    for (name, id, most, engines, places) in printed {
        let profile = known
            .iter()
            .find(|profile| profile.name == name)
            .unwrap_or_else(|| panic!("{name}"));
        let placement = profile.placement.as_ref().expect("known");
        let starts: Vec<_> = placement.starts.iter().map(u8::to_string).collect();
        let media = profile.engines.as_ref().expect("known");
        assert_eq!(
            (profile.id, profile.instances, &profile.assumed),
            (Some(id), most, &None),
            "{name}"
        );
        assert_eq!([media.decoders, media.jpeg, media.ofa], engines, "{name}");
        assert_eq!(
            format!("{{{}}}:{}", starts.join(","), placement.size),
            places,
            "{name}"
        );
    }
}
