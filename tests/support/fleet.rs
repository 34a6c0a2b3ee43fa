//! Any number of hosts that differ in everything that a plan looks at: number n is always the same.
#![allow(dead_code)] // each test program uses its part

use gpusetup::compat::{
    AddOnArtifact, AddOnId, Database, Distribution, DriverOffer, Gpu, ModuleFlavour, PackageManager,
};
use gpusetup::host::{Compiler, Facts};
use gpusetup::resolve::{Method, Prefer, Request};
use gpusetup::version::{AddOnVersion, Want};
use serde_json::json;
use std::collections::BTreeMap;

/// Makes hosts.
pub struct Fleet<'a> {
    database: &'a Database,
    /// A host of each distribution, with nothing installed.
    bare: Vec<Facts>,
    /// GPUs that toolkits of today can serve.
    of_today: Vec<&'a Gpu>,
}

impl<'a> Fleet<'a> {
    /// Hosts of what the database knows.
    pub fn new(database: &'a Database) -> Self {
        let bare = database
            .distributions
            .iter()
            .filter(|d| d.version != "*" || d.named_as.is_some())
            .map(bare)
            .collect();
        let five = |g: &&Gpu| g.compute_capability.is_some_and(|c| c.major >= 5);
        Self {
            database,
            bare,
            of_today: database.gpus.iter().filter(five).collect(),
        }
    }

    /// A host with GPU number `n` of the database, and no wishes.
    pub fn plain(&self, n: usize) -> (Facts, Request) {
        let mut facts = self.bare[n % self.bare.len()].clone();
        facts.gpus.push(unit(
            &self.database.gpus[n % self.database.gpus.len()],
            0,
            None,
        ));
        (facts, default_request())
    }

    /// Host number `n`, and what is asked for there.
    pub fn host(&self, n: usize) -> (Facts, Request) {
        let mut dice = Dice(n as u64);
        let mut facts = dice.of(&self.bare).clone();
        if dice.one_in(8) {
            facts.machine.arch = "aarch64".to_owned();
        } else if dice.one_in(12) {
            facts.machine.arch = "ppc64le".to_owned();
        }
        if dice.one_in(2) {
            facts.repositories.push(
                "https://developer.download.nvidia.com/compute/cuda/repos/$system/$basearch"
                    .to_owned(),
            );
        }
        let kinds = if dice.one_in(6) { 2 } else { 1 };
        for kind in 0..kinds {
            let gpu = if dice.one_in(5) {
                dice.of(&self.database.gpus)
            } else {
                *dice.of(&self.of_today)
            };
            for n in 0..*dice.of(&[1, 1, 1, 2, 4, 8]) {
                let driver = dice.of(&[None, Some("nouveau"), Some("nvidia")]);
                facts.gpus.push(unit(gpu, 16 * kind + n, *driver));
            }
        }
        if dice.one_in(3) {
            facts.gcc = Some(format!(
                "{}.2.0",
                dice.of(&[8, 9, 10, 11, 12, 13, 14, 15, 16])
            ));
        }
        facts.compilers = compilers(&facts, &mut dice);
        if dice.one_in(4) {
            facts.driver = Some(gpusetup::host::InstalledDriver {
                version: dice.of(&self.database.drivers).version,
                origin: *dice.of(&[
                    gpusetup::host::Origin::Dpkg,
                    gpusetup::host::Origin::Runfile,
                ]),
                modules: Some(*dice.of(&[ModuleFlavour::Open, ModuleFlavour::Proprietary])),
                evidence: "a file".to_owned(),
                alternative: Some(false),
            });
        }
        if dice.one_in(4) {
            let version = dice.of(&self.database.cuda).version;
            let alone = |names: &[&str]| Some(names.iter().map(|n| (*n).to_owned()).collect());
            let components = match dice.next() % 6 {
                0 => alone(&["cuda_nvcc", "cuda_cudart"]),
                1 => alone(&["libcublas"]),
                _ => None,
            };
            let origin = gpusetup::host::Origin::Runfile;
            facts.toolkits.push(gpusetup::host::Toolkit {
                version,
                path: format!("/usr/local/cuda-{}", version.series()).into(),
                origin: if components.is_some() {
                    gpusetup::host::Origin::Archives
                } else {
                    origin
                },
                has_nvcc: components
                    .as_ref()
                    .is_none_or(|c: &Vec<String>| c.len() > 1),
                components,
            });
        }
        if dice.one_in(5) {
            facts.desktop = Some("/usr/bin/Xorg".into());
        }
        if dice.one_in(6) {
            facts.nvswitches.push(switch_of(n));
        }
        facts.companions.extend(companion_of(&facts, n));
        if dice.one_in(4) {
            facts.offered = Some(self.offered(&facts, &mut dice));
        }
        let request = self.request(&mut dice);
        facts.libxml2 = *dice.of(&[None, Some(true), Some(false)]);
        (facts, request)
    }

    /// What its repositories are said to have: most of what the database knows for it, often in
    /// another version, now and then of another branch.
    fn offered(&self, facts: &Facts, dice: &mut Dice) -> BTreeMap<String, String> {
        let version = if facts.os.version.is_empty() {
            "*"
        } else {
            &facts.os.version
        };
        let of = |d: &&Distribution| d.id == facts.os.id && d.version == version;
        let offers = self
            .database
            .distributions
            .iter()
            .find(of)
            .map(|d| d.drivers.as_slice())
            .unwrap_or_default();
        let mut all = BTreeMap::new();
        let has_nvidias = facts.repositories.iter().any(|line| is_nvidias(line));
        for offer in offers
            .iter()
            .filter(|o| has_nvidias || !o.repository.seen_as.iter().any(|mark| is_nvidias(mark)))
        {
            let drivers = &self.database.drivers;
            let start = drivers.partition_point(|d| d.version.branch > offer.branch);
            let branch = drivers[start..].partition_point(|d| d.version.branch == offer.branch);
            let some = if branch == 0 || dice.one_in(6) {
                drivers
            } else {
                &drivers[start..start + branch]
            };
            let version = dice.of(some).version;
            let version = format!(
                "{}{version}{}",
                dice.of(&["", "3:"]),
                dice.of(&["-1", "-0ubuntu1~22", ""])
            );
            let more = offer
                .desktop_packages
                .iter()
                .chain(offer.companions.values());
            for package in offer.packages.iter().chain(more) {
                if !dice.one_in(8) {
                    all.insert(package.clone(), version.clone());
                }
            }
            if !offer.signed_modules.is_empty() {
                all.extend(modules_of(offer, facts, dice));
            }
        }
        all
    }

    fn request(&self, dice: &mut Dice) -> Request {
        let driver = match dice.next() % 8 {
            0 => dice.of(&self.database.driver_branches).branch.to_string(),
            1 => dice.of(&self.database.drivers).version.to_string(),
            2 => format!(">={}", dice.of(&self.database.driver_branches).branch),
            3 => "latest".to_owned(),
            _ => "best".to_owned(),
        };
        let cuda = match dice.next() % 12 {
            0 => dice.of(&self.database.cuda).version.to_string(),
            1 => dice.of(&self.database.cuda).version.series().to_string(),
            2 => format!("<{}", dice.of(&self.database.cuda).version.series()),
            3 => format!(">={}", dice.of(&self.database.cuda).version.series()),
            4 => dice.of(&self.database.cuda).version.major.to_string(),
            5 => "latest".to_owned(),
            _ => "best".to_owned(),
        };
        let cudnn = match dice.next() % 8 {
            0 => dice
                .of(&self.archives_of(AddOnId::CUDNN))
                .version
                .to_string(),
            1 => dice.of(&["8", "9", "7"]).to_string(),
            2 => "latest".to_owned(),
            _ => "best".to_owned(),
        };
        Request {
            driver: driver.parse().expect("a wish"),
            cuda: cuda.parse().expect("a wish"),
            cudnn: cudnn.parse().expect("a wish"),
            add_ons: self.add_ons(dice),
            method: *dice.of(&[
                Method::Auto,
                Method::Auto,
                Method::Packages,
                Method::Repository,
                Method::Runfile,
            ]),
            modules: *dice.of(&[
                None,
                None,
                None,
                Some(ModuleFlavour::Open),
                Some(ModuleFlavour::Proprietary),
            ]),
            prefer: *dice.of(&[
                Prefer::Stable,
                Prefer::Stable,
                Prefer::Latest,
                Prefer::LongestSupport,
            ]),
            upgrade: dice.one_in(5),
            components: self.components(dice),
            ..default_request()
        }
    }
}

impl Fleet<'_> {
    /// An add-on beside cuDNN, now and then: any release, a line of releases, or one of its own.
    fn add_ons(&self, dice: &mut Dice) -> BTreeMap<AddOnId, Want<AddOnVersion>> {
        let others: Vec<_> = self
            .database
            .add_ons
            .iter()
            .map(|a| a.id)
            .filter(|id| *id != AddOnId::CUDNN)
            .collect();
        if others.is_empty() || !dice.one_in(6) {
            return BTreeMap::new();
        }
        let id = *dice.of(&others);
        let version = dice.of(&self.archives_of(id)).version;
        let wish = match dice.next() % 4 {
            0 => version.to_string(),
            1 => format!("{}.{}", version.major, version.minor),
            2 => "latest".to_owned(),
            _ => "best".to_owned(),
        };
        [(id, wish.parse().expect("a wish"))].into()
    }

    fn archives_of(&self, id: AddOnId) -> Vec<&AddOnArtifact> {
        self.database.add_on_archives(id).collect()
    }

    /// A few components, as people and as NVIDIA call them, now and then.
    fn components(&self, dice: &mut Dice) -> Vec<String> {
        let count = *dice.of(&[0, 0, 0, 0, 1, 2, 3]);
        let name = |dice: &mut Dice| {
            let component = dice.of(&self.database.components);
            let names = [component.name.as_str(), component.short(), "nvcc", "cublas"];
            (*dice.of(&names)).to_owned()
        };
        (0..count).map(|_| name(dice)).collect()
    }
}

/// The request of somebody who names nothing.
pub fn default_request() -> Request {
    Request::default_on("2026-11-20")
}

/// An NVSwitch.
pub fn switch(slot: usize) -> gpusetup::host::NvSwitch {
    gpusetup::host::NvSwitch {
        address: format!("0001:{slot:02x}:00.0"),
        pci_id: "10de:1af1".into(),
        name: None,
    }
}

/// What shows that host number `n` has NVSwitches: a bridge of one generation, or a network
/// function that manages them.
fn switch_of(n: usize) -> gpusetup::host::NvSwitch {
    const IDS: [&str; 4] = ["10de:1af1", "10de:1ac2", "10de:22a3", "15b3:1021"];
    gpusetup::host::NvSwitch {
        pci_id: IDS[n / 7 % IDS.len()].to_owned(),
        ..switch(0)
    }
}

/// A Fabric Manager or IMEX beside the installed driver of host number `n`, often in its version,
/// now and then.
fn companion_of(facts: &Facts, n: usize) -> Option<gpusetup::host::InstalledCompanion> {
    let driver = facts.driver.as_ref().filter(|_| n.is_multiple_of(3))?;
    let version = match n / 3 % 4 {
        0 => Some("450.51.06".to_owned()),
        1 => None,
        _ => Some(driver.version.to_string()),
    };
    let id = if n.is_multiple_of(2) {
        "fabric-manager"
    } else {
        "imex"
    };
    Some(gpusetup::host::InstalledCompanion {
        id: id.parse().expect("an id"),
        version,
        package: None,
        enabled: !n.is_multiple_of(5),
    })
}

/// A GPU of this kind, in slot number `slot`.
pub fn unit(gpu: &Gpu, slot: usize, driver: Option<&str>) -> gpusetup::host::Gpu {
    gpusetup::host::Gpu {
        address: format!("0000:{slot:02x}:00.0"),
        pci_id: format!("10de:{}", gpu.device),
        subsystem: gpu.subsystem.map(String::from),
        class: "0302".to_owned(),
        bound_to: driver.map(str::to_owned),
        driver_unseen: false,
        name: Some(gpu.name.to_string()),
        compute_capability: gpu.compute_capability,
        assumed: false,
    }
}

/// A package with the modules of an offer that the distribution signs: of the host's kernel, of a
/// later one, or none.
fn modules_of(offer: &DriverOffer, facts: &Facts, dice: &mut Dice) -> Option<(String, String)> {
    let (release, name) = facts
        .kernel()
        .zip(offer.signed_modules.get(usize::from(dice.one_in(3))))?;
    let (series, meta) = (
        &release[..3],
        *dice.of(&["generic", "generic", "generic-hwe-24.04"]),
    );
    let name = name
        .replace("{meta}", meta)
        .replace("{flavour}", "generic")
        .replace("{series}", series);
    let version = release.strip_suffix("-generic")?;
    let version = format!("{version}{}", dice.of(&[".71", ".71+1", "", "1.711"]));
    (!dice.one_in(4)).then_some((name, version))
}

/// The default gcc, mostly with its C++ compiler, and up to two more beside it.
fn compilers(facts: &Facts, dice: &mut Dice) -> Vec<Compiler> {
    let compiler = |major: u16, suffix: String, with_cxx: bool| Compiler {
        major,
        gcc: format!("/usr/bin/gcc{suffix}").into(),
        gxx: with_cxx.then(|| format!("/usr/bin/g++{suffix}").into()),
    };
    let default = facts.gcc.as_deref().map(|gcc| {
        gcc.split('.')
            .next()
            .and_then(|m| m.parse().ok())
            .expect("a number")
    });
    let default: Vec<_> = default
        .into_iter()
        .map(|major| compiler(major, String::new(), !dice.one_in(4)))
        .collect();
    let others = (0..*dice.of(&[0, 0, 0, 1, 2])).map(|_| {
        let major = *dice.of(&[8, 9, 10, 11, 12, 13, 14, 15, 16]);
        compiler(major, format!("-{major}"), !dice.one_in(3))
    });
    default.into_iter().chain(others).collect()
}

/// A host of a distribution, with every repository that the database knows enabled but NVIDIA's.
/// One of a release that the database does not know is as Debian's unstable was in November 2026.
pub fn bare(d: &gpusetup::compat::Distribution) -> Facts {
    let manager = match d.package_manager {
        PackageManager::Apt => "apt",
        PackageManager::Dnf => "dnf",
        PackageManager::Tdnf => "tdnf",
        PackageManager::Zypper => "zypper",
    };
    // Every repository that the database knows for it is enabled, but NVIDIA's, which no system
    // comes with.
    let marks = d.drivers.iter().flat_map(|o| &o.repository.seen_as);
    let repositories: Vec<_> = marks.filter(|mark| !is_nvidias(mark)).collect();
    let known = d.named_as.is_none();
    let gcc = if known { d.gcc } else { Some(16) };
    let compilers: Vec<_> = gcc
        .iter()
        .map(|major| json!({"major": major, "gcc": "/usr/bin/gcc", "gxx": "/usr/bin/g++"}))
        .collect();
    let glibc = if known {
        d.glibc.as_deref()
    } else {
        Some("2.43")
    };
    let compiler = (!known).then_some("gcc-16 (Debian 16.2.0-4) 16.2.0");
    serde_json::from_value(json!({
        "schema": "gpusetup.facts/1", "tool": "0", "gcc": gcc.map(|g| format!("{g}.2.0")), "glibc": glibc,
        "compilers": compilers,
        "machine": {"arch": "x86_64", "kind": "physical", "inside": null, "is_tree": false, "boot_id": "b"},
        "os": {"id": d.id, "version": if d.version == "*" { "" } else { &d.version }, "like": [], "name": d.name, "package_manager": manager,
               "initramfs": d.initramfs, "immutable": false},
        "secure_boot": "disabled", "gpus": [], "nvswitches": [],
        "kernels": {"running": "6.8.0-71-generic", "next_boot": "6.8.0-71-generic",
                    "installed": [{"release": "6.8.0-71-generic", "headers": true, "compiler": compiler, "nvidia_module": null,
                                   "initramfs": {"path": "/boot/initrd.img-6.8.0-71-generic", "size": 1, "modified": 1}}]},
        "loaded_modules": [], "driver": null, "other_drivers": [], "toolkits": [], "cudnn": [], "nvcc": null,
        "loader_cache": null, "repositories": repositories, "space": [], "paths": {}, "unreadable": []
    }))
    .expect("facts")
}

/// Whether a line names NVIDIA's network repository.
pub fn is_nvidias(line: &str) -> bool {
    line.contains("/cuda/repos")
}

/// Numbers that look thrown, the same each time (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> usize {
        // Neighbouring hosts must not be alike: the number is spread first.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) as usize
    }

    fn of<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.next() % all.len()]
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.next().is_multiple_of(n)
    }
}
