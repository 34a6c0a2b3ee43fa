//! Systems that get their driver another way: image-based systems, NVIDIA's own systems and Jetson
//! boards.

use super::{Database, ModuleFlavour, SourceId};
use crate::version::{ComputeCapability, CudaVersion};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A kind of system on which the driver comes from the system's own tools: `Talos`, `Fedora Atomic
/// desktops`, `DGX OS`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// The key: `talos`.
    pub id: String,
    /// The name for readers.
    pub name: String,
    /// `ID` in os-release, any of these; empty for any.
    #[serde(default)]
    pub os: Vec<String>,
    /// `VARIANT_ID` in os-release, any of these; empty for any.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Files of which one exists; empty if os-release is enough.
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// What it does with drivers.
    pub driver: PlatformDriver,
    /// Why gpusetup leaves the driver to it, as a clause: `the driver is a system extension of the
    /// Talos image`.
    pub why: String,
    /// How to get a driver there. The first way that supports all GPUs counts.
    pub ways: Vec<PlatformWay>,
    /// The command that enters a container in which gpusetup can install a toolkit, where it cannot
    /// be installed on the host.
    #[serde(default)]
    pub container: Option<String>,
    /// The command that brings a toolkit of the system's own, if it has one.
    #[serde(default)]
    pub toolkit: Option<String>,
    pub(crate) sources: Vec<SourceId>,
}

/// A way to a driver on such a system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlatformWay {
    /// The kernel modules that it installs; none if the system or the reader chooses them.
    #[serde(default)]
    pub modules: Option<ModuleFlavour>,
    /// The driver branch that it installs; none for the newest, or if the system or the reader
    /// chooses it.
    #[serde(default)]
    pub branch: Option<u16>,
    /// The oldest driver branch that it may install, where the system or the reader chooses; none
    /// if that is not known.
    #[serde(default)]
    pub oldest: Option<u16>,
    /// What to do, as an instruction.
    pub text: String,
    /// The commands for that; empty if it is not done on the host.
    #[serde(default)]
    pub commands: Vec<String>,
    /// The endings of `VARIANT_ID` that the images of this way have: `-nvidia`.
    #[serde(default)]
    pub(crate) in_images: Vec<String>,
}

/// What a system does with drivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlatformDriver {
    /// Its system files are an image: neither packages nor runfiles can install a driver.
    Image,
    /// There is no way to a driver.
    Unavailable,
    /// Its vendor tests one driver with the rest of the system. Others can be installed.
    Vendor,
}

/// A release of Jetson Linux (L4T), and the JetPack that goes with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JetPack {
    /// The releases of Jetson Linux, by their first numbers: `36.4` stands for 36.4.3, too.
    pub l4t: String,
    /// The JetPack: `6.2`.
    pub jetpack: String,
    /// The CUDA that it installs.
    pub cuda: CudaVersion,
    /// The newest CUDA that runs on its driver through NVIDIA's upgrade package; none if there is
    /// no such package.
    #[serde(default)]
    pub compatible: Option<CudaVersion>,
    /// That package on boards of a compute capability where its name is not `cuda-compat-{cuda}`;
    /// `{cuda}` stands for `12-8`.
    #[serde(default)]
    pub compatible_packages: BTreeMap<ComputeCapability, String>,
    /// The compute capabilities of the boards that use NVIDIA's toolkits for servers (sbsa).
    #[serde(default)]
    pub sbsa: Vec<ComputeCapability>,
    pub(crate) sources: Vec<SourceId>,
}

/// The file of udev rules with which a distribution puts hot-plugged memory online. On POWER9 it
/// does so with the GPUs' memory, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotplugRule {
    /// `ID` in os-release, any of these; also of the systems that these are like.
    pub(crate) os: Vec<String>,
    /// The file's name in `/lib/udev/rules.d`: `40-redhat.rules`.
    pub file: String,
    /// The command of sed that disables the rule in a copy of the file.
    pub disable: String,
    pub(crate) sources: Vec<SourceId>,
}

/// The GPUs that programs in WSL2 can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wsl2Gpus {
    pub(crate) oldest: ComputeCapability,
    /// NVIDIA's lines whose GPUs they cannot use: `Tesla/Data Center`.
    pub(crate) without: Vec<String>,
    /// What they can use, for readers: `GeForce and Quadro GPUs from Pascal on`.
    pub text: String,
    pub(crate) sources: Vec<SourceId>,
}

impl Wsl2Gpus {
    /// Whether a GPU of this compute capability and line is one of them. What is not known does not
    /// exclude it.
    pub fn include(&self, capability: Option<ComputeCapability>, line: Option<&str>) -> bool {
        capability.is_none_or(|capability| capability >= self.oldest)
            && line.is_none_or(|line| self.without.iter().all(|without| without != line))
    }
}

impl Platform {
    /// Whether this is such a system, by its os-release and the files found.
    pub(crate) fn is_of(&self, id: &str, variant: Option<&str>, found: &[PathBuf]) -> bool {
        let (by_os, by_variant) = (self.os.iter().any(|os| os == id), self.variants.iter());
        let by_variant =
            variant.is_some_and(|variant| by_variant.clone().any(|known| known == variant));
        (self.os.is_empty() || by_os)
            && (self.variants.is_empty() || by_variant)
            && (self.files.is_empty() || self.files.iter().any(|file| found.contains(file)))
    }
}

impl PlatformWay {
    /// Whether the image of this `VARIANT_ID` has the driver of this way already.
    pub fn is_in(&self, variant: &str) -> bool {
        self.in_images
            .iter()
            .any(|ending| variant.ends_with(ending.as_str()))
    }
}

impl JetPack {
    /// The package that makes programs of the newest compatible CUDA run, on a board of this
    /// compute capability.
    pub fn upgrade_package(&self, board: Option<ComputeCapability>) -> Option<String> {
        let named = board.and_then(|board| self.compatible_packages.get(&board));
        let series = self.compatible?.series();
        let name = named.map_or("cuda-compat-{cuda}", String::as_str);
        Some(name.replace("{cuda}", &format!("{}-{}", series.major, series.minor)))
    }

    /// Whether boards of this compute capability use the toolkits for servers (sbsa).
    pub fn uses_sbsa(&self, board: ComputeCapability) -> bool {
        self.sbsa.contains(&board)
    }
}

impl Database {
    /// The kind of system that its os-release and the files found show. The first that fits counts.
    pub fn platform(
        &self,
        id: &str,
        variant: Option<&str>,
        found: &[PathBuf],
    ) -> Option<&Platform> {
        self.platforms
            .iter()
            .find(|platform| platform.is_of(id, variant, found))
    }

    /// The files that show such systems.
    pub fn platform_files(&self) -> impl Iterator<Item = &Path> {
        self.platforms
            .iter()
            .flat_map(|platform| &platform.files)
            .map(PathBuf::as_path)
    }

    /// The rule for hot-plugged memory of a system with this `ID` and `ID_LIKE`.
    pub fn hotplug_rule(&self, id: &str, like: &[String]) -> Option<&HotplugRule> {
        self.hotplug_rules
            .iter()
            .find(|rule| rule.os.iter().any(|os| os == id || like.contains(os)))
    }

    /// The first JetPack with which boards of this compute capability use the toolkits for servers
    /// (sbsa).
    pub fn first_jetpack_with_sbsa(&self, board: ComputeCapability) -> Option<&JetPack> {
        self.jetpacks
            .iter()
            .find(|jetpack| jetpack.uses_sbsa(board))
    }

    /// The JetPack of a release of Jetson Linux, `36.4.3`: the record with the most numbers in
    /// common.
    pub fn jetpack(&self, l4t: &str) -> Option<&JetPack> {
        self.jetpacks
            .iter()
            .filter(|j| {
                l4t.strip_prefix(&j.l4t)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
            .max_by_key(|j| j.l4t.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::known;

    #[test]
    fn the_longest_release_wins() {
        let jetpack = |l4t: &str| known().jetpack(l4t).map(|j| j.jetpack.as_str());
        assert_eq!(jetpack("36.4.3"), Some("6.2"));
        assert_eq!(jetpack("36.4.0"), Some("6.1"));
        assert_eq!(jetpack("3.6"), None);
        assert_eq!(jetpack("360.1"), None);
    }

    #[test]
    fn relatives_have_the_rule_for_memory_of_their_distribution() {
        let file = |id: &str, like: &[String]| {
            known()
                .hotplug_rule(id, like)
                .map(|rule| rule.file.as_str())
        };
        assert_eq!(file("rocky", &[]), Some("40-redhat.rules"));
        assert_eq!(file("other", &["rhel".to_owned()]), Some("40-redhat.rules"));
        assert_eq!(
            file("ubuntu", &["debian".to_owned()]),
            Some("40-vm-hotadd.rules")
        );
        assert_eq!(file("debian", &[]), None);
    }

    #[test]
    fn a_system_shows_by_os_release_and_by_files() {
        let ostree = ["/run/ostree-booted".into()];
        let id = |os: &str, variant, files: &[_]| {
            known().platform(os, variant, files).map(|p| p.id.as_str())
        };
        assert_eq!(
            id("fedora", Some("silverblue"), &ostree),
            Some("fedora-atomic")
        );
        assert_eq!(
            id("fedora", Some("kinoite"), &["/ostree".into()]),
            Some("fedora-atomic")
        );
        assert_eq!(id("fedora", Some("workstation"), &[]), None);
        let ublue = [
            "/run/ostree-booted".into(),
            "/usr/share/ublue-os/image-info.json".into(),
        ];
        assert_eq!(
            id("fedora", Some("silverblue"), &ublue),
            Some("universal-blue-fedora")
        );
        assert_eq!(id("fedora", Some("ucore"), &ostree), Some("ucore"));
        assert_eq!(id("fedora", Some("coreos"), &ostree), Some("fedora-coreos"));
        assert_eq!(id("rhel", Some("coreos"), &ostree), Some("openshift-rhel"));
        assert_eq!(id("rhel", None, &ostree), Some("bootc"));
        assert_eq!(id("nixos", None, &[]), Some("nixos"));
        assert_eq!(
            id("ubuntu", None, &["/etc/dgx-release".into()]),
            Some("dgx-os")
        );
        assert_eq!(id("ubuntu", None, &[]), None);
    }
}
