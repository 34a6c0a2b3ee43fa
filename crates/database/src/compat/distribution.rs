//! Distributions: their releases, packages and repositories.

use super::{CompanionId, ModuleFlavour, SourceId};
use crate::version::{AddOnVersion, DriverVersion};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A distribution release: its package names and what its repositories offer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// `ID` of os-release.
    pub id: String,
    /// `VERSION_ID` of os-release: only up to the first dot if the distribution counts that way
    /// (`"9"` for Rocky 9.6), otherwise whole (`"24.04"`). `"*"` stands for every release without a
    /// record.
    pub version: String,
    /// The name for readers.
    pub name: String,
    /// The package manager.
    pub package_manager: PackageManager,
    /// The initramfs tool of a standard installation.
    pub initramfs: InitramfsTool,
    /// The C library, `"2.36"`.
    #[serde(default)]
    pub glibc: Option<String>,
    /// The Python that its package `python3` brings.
    #[serde(default)]
    pub python: Option<AddOnVersion>,
    /// The major version of the default gcc.
    #[serde(default)]
    pub gcc: Option<u16>,
    /// The headers of one kernel; `{release}` stands for `uname -r`, `{flavour}` for the part after
    /// its last dash, and `{version}` for the part before, and `{base}` for all before a plus sign,
    /// as in `5.14.0-570.el9.aarch64+64k`.
    pub(crate) headers: Vec<String>,
    /// The meta-packages that follow the distribution's kernels, by the ending of the kernel's
    /// release (`-generic`, `-cloud-amd64`). The one with an empty ending applies to all others.
    #[serde(default)]
    pub header_metas: Vec<HeaderMeta>,
    /// Whether its repositories keep only the headers of the newest kernels.
    #[serde(default)]
    pub drops_old_headers: bool,
    /// The package with libxml2.so.2, which the installer in CUDA's runfiles loads. None if no
    /// package has it, or if it is unknown.
    #[serde(default)]
    pub libxml2: Option<String>,
    /// The packages with modules of one kernel that a driver's modules depend on, if the kernel's
    /// own package lacks them; named with the same placeholders as the headers.
    #[serde(default)]
    pub(crate) kernel_modules: Vec<String>,
    /// The packages with modules of one kernel that NVSwitches need ([`Fabric::kernel_modules`]),
    /// if the kernel's own package lacks them; named in the same way.
    #[serde(default)]
    pub(crate) fabric_modules: Vec<String>,
    /// DKMS, and the packages needed to build a module with it.
    pub build_tools: Vec<String>,
    /// How DKMS signs the modules that it builds; none if it does not, or if no source says how.
    #[serde(default)]
    pub module_signing: Option<ModuleSigning>,
    /// Who signs the modules of its kernels, by the name in their signatures; those kernels trust
    /// that key without an enrolment.
    #[serde(default)]
    pub module_signer: Option<String>,
    /// The names of packages with signed modules: each driver that has them is a second offer
    /// ([`DriverOffer::signed_as`]).
    #[serde(default)]
    pub(crate) signed_names: Option<SignedNames>,
    /// Whose modules alone load with Secure Boot on, whatever key is enrolled with mokutil.
    #[serde(default)]
    pub only_signer: Option<OnlySigner>,
    /// How people make that key by hand, where gpusetup does not; none for `dkms generate_mok`,
    /// which DKMS has from 3.1 on.
    #[serde(default)]
    pub key_by_hand: Option<KeyByHand>,
    /// Repositories with some of these packages that are not enabled by default.
    #[serde(default)]
    pub extra_repositories: Vec<ExtraRepository>,
    /// The compilers of kernels that the default one does not build modules for.
    #[serde(default)]
    pub kernel_toolsets: Vec<KernelToolset>,
    /// The default C++ compiler with the headers of its library.
    #[serde(default)]
    pub gxx: Option<String>,
    /// The package of gcc in one major version; `{major}` stands for it. None if only the default
    /// one is packaged.
    #[serde(default)]
    pub gcc_package: Option<String>,
    /// The package of the C++ compiler, in the same form.
    #[serde(default)]
    pub(crate) gxx_package: Option<String>,
    /// The major versions that both exist for, oldest first; empty if no source states them.
    #[serde(default)]
    pub gccs: Vec<u16>,
    /// For a record that stands for releases the database does not know: the release whose package
    /// names it uses.
    #[serde(default)]
    pub named_as: Option<String>,
    /// Packages that a desktop on a laptop with two GPUs needs besides the driver, if the driver's
    /// packages only recommend them.
    #[serde(default)]
    pub hybrid_packages: Vec<String>,
    /// NVIDIA driver packages in its repositories, preferred ones first.
    #[serde(default)]
    #[serde(serialize_with = "super::export::offers")]
    pub drivers: Vec<DriverOffer>,
    /// The repository that gpusetup can add for companions that the driver's repository lacks: the
    /// id of a [`PackageRepository`].
    #[serde(default)]
    pub companion_repository: Option<String>,
    /// A host on which only the system was installed; none if no source states its kernel.
    #[serde(default)]
    pub stock: Option<StockSystem>,
    /// A note for readers.
    #[serde(default)]
    pub note: Option<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// What a host has on which a distribution was installed and nothing else. It serves plans without
/// a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StockSystem {
    /// The kernel, as printed by `uname -r`, by machine architecture as printed by `uname -m`.
    pub kernels: BTreeMap<String, String>,
    /// `VERSION_ID` of the release that has these kernels, where it has more than the record's
    /// version: `"9.6"`.
    #[serde(default)]
    pub release: Option<String>,
    /// Other names of the distribution: `al` for Amazon Linux.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The enabled repositories, one line each as in the host's facts: address, suite and
    /// components.
    pub repositories: Vec<String>,
    /// The sources of the kernels.
    pub(crate) sources: Vec<SourceId>,
}

impl Distribution {
    /// The compiler of a kernel, if that is not the default one.
    pub fn toolset_of(&self, kernel: &str) -> Option<&KernelToolset> {
        self.kernel_toolsets.iter().find(|toolset| {
            let rest = kernel.strip_prefix(&toolset.series);
            rest.is_some_and(|rest| rest.starts_with('.') && rest.contains(&toolset.kernel))
        })
    }

    /// The packages with the headers of a kernel, `uname -r`.
    pub fn headers_of(&self, release: &str, arch: &str) -> impl Iterator<Item = String> {
        let own = self
            .header_meta(release, arch)
            .map(|meta| &meta.headers)
            .filter(|own| !own.is_empty());
        own.unwrap_or(&self.headers)
            .iter()
            .map(|name| of_kernel(name, release))
    }

    /// The packages with modules of a kernel, `uname -r`, that a driver's modules depend on.
    pub fn modules_of(&self, release: &str, arch: &str) -> impl Iterator<Item = String> {
        let own = self
            .header_meta(release, arch)
            .map(|meta| &meta.kernel_modules)
            .filter(|own| !own.is_empty());
        own.unwrap_or(&self.kernel_modules)
            .iter()
            .map(|name| of_kernel(name, release))
    }

    /// The packages with modules of a kernel that NVSwitches need.
    pub fn fabric_modules_of(&self, release: &str) -> impl Iterator<Item = String> {
        self.fabric_modules
            .iter()
            .map(|name| of_kernel(name, release))
    }

    /// The record of the headers meta-package for such a kernel.
    pub fn following(&self, release: &str, arch: &str) -> Option<String> {
        self.header_meta(release, arch)
            .map(|meta| of_kernel(&meta.package, release))
    }

    /// The names that the packages with an offer's signed modules may have for a kernel, preferred
    /// ones first.
    pub fn signed_modules_of(&self, offer: &DriverOffer, release: &str, arch: &str) -> Vec<String> {
        let Some((version, flavour)) = kernel_parts(release) else {
            return Vec::new();
        };
        let series = version.split('.').take(2).collect::<Vec<_>>().join(".");
        let meta = self
            .header_meta(release, arch)
            .and_then(|meta| Some(meta.package.split_once("headers-")?.1));
        let known = offer
            .signed_modules
            .iter()
            .filter(|name| meta.is_some() || !name.contains("{meta}"));
        let named = known.map(|name| name.replace("{meta}", meta.unwrap_or_default()));
        named
            .map(|name| {
                name.replace("{flavour}", flavour)
                    .replace("{series}", &series)
            })
            .collect()
    }

    /// Its id and version, `debian 12`, by which other records name it.
    pub(crate) fn release(&self) -> String {
        format!("{} {}", self.id, self.version)
    }

    /// Adds the offers with signed modules after all others, from which they differ only in the
    /// names of packages.
    pub(super) fn add_signed_offers(&mut self) {
        let Some(names) = &self.signed_names else {
            return;
        };
        let signed: Vec<_> = self
            .drivers
            .iter()
            .filter_map(|offer| names.signed(offer))
            .collect();
        self.drivers.extend(signed);
    }

    /// The meta-package for the headers of such a kernel. The longest ending wins: -cloud-amd64
    /// before -amd64 before none; then the one for the kernel's series.
    pub(crate) fn header_meta(&self, release: &str, arch: &str) -> Option<&HeaderMeta> {
        self.header_metas
            .iter()
            .filter(|m| m.is_for(release, arch))
            .max_by_key(|m| (m.kernel.len(), m.series.is_some()))
    }
}

impl HeaderMeta {
    fn is_for(&self, release: &str, arch: &str) -> bool {
        release.ends_with(&self.kernel)
            && self.arch.as_deref().is_none_or(|wanted| wanted == arch)
            && self.series.as_ref().is_none_or(|series| {
                release
                    .strip_prefix(series.as_str())
                    .is_some_and(|rest| rest.starts_with('.'))
            })
    }
}

/// How DKMS signs the modules that it builds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModuleSigning {
    /// The private key that DKMS looks for.
    pub key: String,
    /// Its certificate, in DER.
    pub certificate: String,
    /// Whether DKMS reads `/etc/dkms/framework.conf.d/*.conf`, where another key can be named.
    pub drop_ins: bool,
    /// The packages with `mokutil` and `openssl`.
    pub packages: Vec<String>,
    pub(crate) sources: Vec<SourceId>,
}

/// The names of packages of drivers whose modules the distribution signs, in packages with the
/// kernel's version. `{driver}` stands for [`SignedAs::driver`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignedNames {
    /// The packages with the modules, as in [`DriverOffer::signed_modules`].
    pub(crate) modules: Vec<String>,
    /// The package that takes the place of the first one: it installs no DKMS.
    pub(crate) first: String,
    /// The package with the modules that DKMS builds.
    pub(crate) dkms: String,
    pub(crate) sources: Vec<SourceId>,
}

impl SignedNames {
    /// The offer with signed modules of the same driver, if there is one.
    fn signed(&self, built: &DriverOffer) -> Option<DriverOffer> {
        let SignedAs { driver, not_beside } = built.signed_as.as_ref()?;
        let [first, dkms] = [&self.first, &self.dkms].map(|name| name.replace("{driver}", driver));
        let others = built.packages.iter().skip(1).cloned();
        Some(DriverOffer {
            version: None,
            packages: [first].into_iter().chain(others).collect(),
            signed_as: None,
            signed_modules: self
                .modules
                .iter()
                .map(|name| name.replace("{driver}", driver))
                .collect(),
            dkms: Some(dkms),
            not_beside: not_beside.clone(),
            sources: self.sources.clone(),
            ..built.clone()
        })
    }
}

/// A driver whose modules the distribution signs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignedAs {
    /// Its part of the packages' names, `580-server-open`.
    pub(crate) driver: String,
    /// See [`DriverOffer::not_beside`].
    #[serde(default)]
    pub(crate) not_beside: Vec<String>,
}

/// The only one whose modules load with Secure Boot on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnlySigner {
    /// The name for readers, `Amazon`.
    pub name: String,
    /// What to do for modules of others, as in a hint.
    pub instead: String,
    pub(crate) sources: Vec<SourceId>,
}

/// How people make the key that DKMS signs with, where gpusetup cannot prepare it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyByHand {
    /// Its certificate, in DER.
    pub certificate: String,
    /// The commands that make both, and have DKMS use them.
    pub commands: Vec<String>,
    pub(crate) sources: Vec<SourceId>,
}

/// The compiler that a kernel was built with, in a package beside the default one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelToolset {
    /// What such a kernel's release contains: `.el8uek.`.
    pub(crate) kernel: String,
    /// The series of such a kernel: `5.15`.
    pub(crate) series: String,
    /// The package.
    pub package: String,
    /// The file of shell that puts it first on PATH; DKMS reads it before it builds
    /// (`build_environment`).
    pub environment: String,
    pub(crate) sources: Vec<SourceId>,
}

/// A repository that must be enabled first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraRepository {
    /// Its name for readers, `EPEL`.
    pub name: String,
    /// The packages found only there.
    pub packages: Vec<String>,
    /// Marks of an enabled repository, as in [`Repository::seen_as`]; one is enough.
    pub seen_as: Vec<String>,
    /// The command that enables it; `{version}` and `{arch}` stand for the host's values.
    pub enable: String,
    /// The package repository that gpusetup adds instead; its own patterns say what else may come
    /// from there. None if users enable it.
    #[serde(default)]
    pub adds: Option<String>,
    pub(crate) sources: Vec<SourceId>,
}

/// Package managers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PackageManager {
    /// apt-get and dpkg.
    Apt,
    /// dnf and rpm.
    Dnf,
    /// tdnf and rpm. Its commands are dnf's, but not all of its options: it ignores
    /// `--setopt=tsflags=test` and installs.
    Tdnf,
    /// zypper and rpm.
    Zypper,
}

/// The tools that build an initramfs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum InitramfsTool {
    /// Debian's and Ubuntu's.
    UpdateInitramfs,
    /// Red Hat's, SUSE's and newer Ubuntu's.
    Dracut,
    /// Arch Linux's.
    Mkinitcpio,
}

/// A meta-package of kernel headers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderMeta {
    /// The ending of the kernel's release.
    pub kernel: String,
    /// The only series it follows, `"6.8"`; none for every series without a separate one.
    #[serde(default)]
    pub series: Option<String>,
    /// The machine architecture (`x86_64`, `aarch64`, `ppc64le`); none for all.
    #[serde(default)]
    pub arch: Option<String>,
    /// The package. If only the package of one kernel version avoids a kernel upgrade, it is named
    /// with the placeholders of the headers.
    pub package: String,
    /// The headers of one such kernel, if their name differs from that of the distribution's other
    /// kernels.
    #[serde(default)]
    pub(crate) headers: Vec<String>,
    /// The same for [`Distribution::kernel_modules`].
    #[serde(default)]
    pub(crate) kernel_modules: Vec<String>,
}

/// A driver offered by a repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverOffer {
    /// The branch.
    pub branch: u16,
    /// The version last seen there; none if no source states it.
    #[serde(default)]
    pub version: Option<DriverVersion>,
    /// The flavour.
    pub modules: ModuleFlavour,
    /// The machine architectures.
    pub archs: Vec<String>,
    /// The repository.
    pub repository: Repository,
    /// The packages for a host that only computes: the kernel modules, then libcuda, then the rest.
    /// The first two have the same version.
    pub packages: Vec<String>,
    /// The packages for a host with a desktop, with graphics. Empty if `packages` serves both.
    #[serde(default)]
    pub desktop_packages: Vec<String>,
    /// The packages, in the same repository, of companions whose version follows the driver's. A
    /// host that needs any other such companion cannot use this offer.
    #[serde(default)]
    pub companions: BTreeMap<CompanionId, String>,
    /// The end of the releases of the kernels, `-default`, that the prebuilt modules are for, if
    /// the distribution signs them for Secure Boot. They are in its own repositories, in a version
    /// that only its lists tell, and have none of the driver's own; the other packages have the
    /// same driver version, and come from `repository`.
    #[serde(default)]
    pub signed_for: Option<String>,
    /// If the distribution also signs its modules for Secure Boot, in packages with the kernel's
    /// version. Their names are in [`Distribution::signed_names`], and the offer that they make
    /// follows all others.
    #[serde(default)]
    pub(crate) signed_as: Option<SignedAs>,
    /// The packages with prebuilt modules that the distribution signs for Secure Boot, if they have
    /// the kernel's version in place of the driver's: each brings those of one line of kernels, and
    /// of the driver that the other packages have. The first that lists have for the kernel counts.
    /// `{meta}` stands for the ending of the kernel's meta-packages (`generic-hwe-24.04`),
    /// `{flavour}` for that of its release (`generic-64k`), `{series}` for `6.8`. The other
    /// packages bring no DKMS.
    #[serde(default)]
    pub signed_modules: Vec<String>,
    /// The package with the modules that DKMS builds, whose place they take.
    #[serde(default)]
    pub dkms: Option<String>,
    /// Marks of repositories that have the other packages under the same names, as in
    /// [`Repository::seen_as`]: with one of them enabled, those would not fit the signed modules.
    #[serde(default)]
    pub not_beside: Vec<String>,
    /// Whether the packages are made for servers: on a desktop, the distribution prefers its others
    /// of the same branch.
    #[serde(default)]
    pub for_servers: bool,
    /// The part of their names that the packages of other branches lack, `G06`, if those do not
    /// replace them: they are removed first.
    #[serde(default)]
    pub generation: Option<String>,
    /// The newest kernel series on which the packages build, `"7.0"`. None if they follow the
    /// distribution's kernels.
    #[serde(default)]
    pub newest_kernel: Option<String>,
    /// The name of its kernel module, if it is not `nvidia`: Debian's is `nvidia-current`.
    #[serde(default)]
    pub kernel_module: Option<String>,
    /// The module stream to enable first (dnf), `nvidia-driver:580-dkms`.
    #[serde(default)]
    pub module_stream: Option<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

impl DriverOffer {
    /// The packages for a host with or without a desktop.
    pub fn packages_for(&self, desktop: bool) -> &[String] {
        if desktop && !self.desktop_packages.is_empty() {
            &self.desktop_packages
        } else {
            &self.packages
        }
    }

    /// Those of the packages that have the driver's version: its kernel modules and libraries.
    pub fn versioned_packages(&self, desktop: bool) -> &[String] {
        let all = self.packages_for(desktop);
        let modules = usize::from(self.signed_for.is_some());
        &all[modules.min(all.len())..all.len().min(2)]
    }

    /// Whether akmods builds its modules, and signs them with a separate key.
    pub fn uses_akmods(&self) -> bool {
        self.packages.iter().any(|name| name.starts_with("akmod-"))
    }

    /// Whether its modules are prebuilt, and signed by the distribution.
    pub fn is_signed(&self) -> bool {
        self.signed_for.is_some() || !self.signed_modules.is_empty()
    }

    /// Whether a package has signed modules that follow a line of kernels, or those of one kernel.
    pub fn has_signed_modules(&self, package: &str) -> bool {
        let mut starts = self
            .signed_modules
            .iter()
            .filter_map(|name| name.split_once('{'));
        starts.any(|(start, _)| package.starts_with(start))
    }

    /// Whether its modules are prebuilt and signed for a kernel.
    pub fn is_signed_for(&self, kernel: &str) -> bool {
        self.signed_for
            .as_ref()
            .is_some_and(|end| kernel.ends_with(end))
    }
}

/// A package repository, and how to detect that a host has it enabled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repository {
    /// The name for readers: `Debian non-free`, `NVIDIA's network repository`.
    pub name: String,
    /// Marks of an enabled repository; one is enough. For apt a component of the distribution's own
    /// archive, `non-free`, or a suite and a component; otherwise part of the repository's name or
    /// address. Empty: always enabled.
    #[serde(default)]
    pub seen_as: Vec<String>,
    /// The repository that gpusetup can add if it is not enabled: the id of a
    /// [`PackageRepository`].
    #[serde(default)]
    pub adds: Option<String>,
}

/// The version of a kernel, and the ending of its release: `6.8.0-134` and `generic-64k` of
/// `6.8.0-134-generic-64k`.
fn kernel_parts(release: &str) -> Option<(&str, &str)> {
    let (at, _) = release.match_indices('-').nth(1)?;
    Some((&release[..at], &release[at + 1..]))
}

/// Whether a package with the version of a kernel is of the one with this release:
/// `6.8.0-134.134+1` is of `6.8.0-134-generic`.
pub fn is_version_of(version: &str, release: &str) -> bool {
    let rest = kernel_parts(release).and_then(|(own, _)| version.strip_prefix(own));
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The name of a kernel's package: `kernel-devel-{release}`.
fn of_kernel(name: &str, release: &str) -> String {
    let (version, flavour) = release.rsplit_once('-').unwrap_or((release, ""));
    let base = release.split_once('+').map_or(release, |(base, _)| base);
    name.replace("{base}", base)
        .replace("{release}", release)
        .replace("{version}", version)
        .replace("{flavour}", flavour)
}
