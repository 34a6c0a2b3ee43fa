//! The database in the format for scripts, `gpusetup.db/1`: records under the key names of that
//! format, each artifact next to its release. This is only a format: nothing is looked up or
//! decided here.

use super::{
    AddOn, AddOnId, AddOnRange, Architecture, Artifact, Companion, CompanionId, ComponentRelease,
    Database, DriverBranch, DriverOffer, DriverVariant, Gpu, Maturity, PackageManager, Rename,
    Role, SourceId,
};
use crate::version::{AddOnVersion, CudaVersion, DriverVersion};
use serde::{Serialize, Serializer};

/// The whole database, ready to be written as JSON.
#[derive(Debug, Serialize)]
pub struct Export<'a> {
    schema: &'static str,
    version: &'a str,
    sha256: &'a str,
    gpus: Vec<ExportedGpu<'a>>,
    architectures: &'a [Architecture],
    driver_branches: &'a [DriverBranch],
    drivers: Vec<ExportedDriver<'a>>,
    cuda: Vec<ExportedCuda<'a>>,
    cuda_releases: &'a [super::CudaRelease],
    cuda_components: Vec<ExportedComponent<'a>>,
    components: &'a [super::Component],
    component_needs: &'a [super::ComponentNeed],
    cudnn: Vec<ExportedArchive<'a>>,
    cudnn_ranges: Vec<&'a AddOnRange>,
    add_ons: Vec<ExportedAddOn<'a>>,
    distributions: &'a [super::Distribution],
    package_repositories: &'a [super::PackageRepository],
    signing_keys: &'a [super::SigningKey],
    sources: &'a [super::Source],
    frameworks: &'a [super::Framework],
    mig_clients: &'a [super::MigClient],
    mig_profiles: &'a [super::MigProfile],
    cuda_guides: &'a [super::CudaGuide],
    forward_compatibility: &'a [super::ForwardCompatibility],
    renames: Vec<ExportedRename<'a>>,
    companions: &'a [Companion],
}

#[derive(Debug, Serialize)]
struct ExportedGpu<'a> {
    pci_id: String,
    #[serde(flatten)]
    gpu: &'a Gpu,
}

#[derive(Debug, Serialize)]
struct ExportedDriver<'a> {
    version: DriverVersion,
    branch: u16,
    date: &'a Option<String>,
    maturity: Maturity,
    variant: DriverVariant,
    #[serde(flatten)]
    artifact: &'a Artifact,
}

#[derive(Debug, Serialize)]
struct ExportedCuda<'a> {
    version: CudaVersion,
    bundled_driver: Option<DriverVersion>,
    #[serde(flatten)]
    artifact: &'a Artifact,
}

#[derive(Debug, Serialize)]
struct ExportedComponent<'a> {
    /// The CUDA release that it belongs to.
    version: CudaVersion,
    component: &'a str,
    component_version: &'a str,
    verified: &'a str,
    #[serde(flatten)]
    artifact: Artifact,
}

/// An add-on other than cuDNN, which keeps separate lists for compatibility.
#[derive(Debug, Serialize)]
struct ExportedAddOn<'a> {
    id: AddOnId,
    title: &'a str,
    purpose: &'a str,
    releases: Vec<ExportedArchive<'a>>,
    ranges: Vec<&'a AddOnRange>,
}

#[derive(Debug, Serialize)]
struct ExportedArchive<'a> {
    version: AddOnVersion,
    /// The 11 in line 11.8; none if the line is not a number.
    cuda_major: Option<u16>,
    cuda_line: &'a str,
    #[serde(flatten)]
    artifact: &'a Artifact,
}

/// A driver's packages, with the separate keys that two companions keep for compatibility.
#[derive(Debug, Serialize)]
struct ExportedOffer<'a> {
    #[serde(flatten)]
    offer: &'a DriverOffer,
    fabric_manager: Option<&'a String>,
    imex: Option<&'a String>,
}

/// The drivers of a distribution: [`ExportedOffer`]s for scripts, unchanged in the compact form.
pub(super) fn offers<S: Serializer>(offers: &[DriverOffer], s: S) -> Result<S::Ok, S::Error> {
    if !s.is_human_readable() {
        return offers.serialize(s);
    }
    s.collect_seq(offers.iter().map(|offer| ExportedOffer {
        offer,
        fabric_manager: offer.companions.get(&CompanionId::FABRIC_MANAGER),
        imex: offer.companions.get(&CompanionId::IMEX),
    }))
}

/// A change of a package name. For scripts this list includes those of companions.
#[derive(Debug, Serialize)]
struct ExportedRename<'a> {
    role: RenamedRole,
    package_manager: Option<PackageManager>,
    before: &'a str,
    from: DriverVersion,
    after: &'a str,
    sources: &'a [SourceId],
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum RenamedRole {
    Of(Role),
    Companion(CompanionId),
}

impl<'a> ExportedRename<'a> {
    fn of(rename: &'a Rename) -> Self {
        Self {
            role: RenamedRole::Of(rename.role),
            package_manager: rename.package_manager,
            before: &rename.before,
            from: rename.from,
            after: &rename.after,
            sources: &rename.sources,
        }
    }
}

/// The changes of a companion's package name.
fn renames_of(companion: &Companion) -> impl Iterator<Item = ExportedRename<'_>> {
    companion.packages.iter().filter_map(|package| {
        let from = package.from?;
        let earlier = companion
            .packages
            .iter()
            .filter(|p| p.package_manager == package.package_manager && p.from < Some(from));
        Some(ExportedRename {
            role: RenamedRole::Companion(companion.id),
            package_manager: package.package_manager,
            before: &earlier.max_by_key(|p| p.from)?.name,
            from,
            after: &package.name,
            sources: &package.sources,
        })
    })
}

impl Database {
    /// The database in the format for scripts.
    pub fn export(&self) -> Export<'_> {
        Export {
            schema: "gpusetup.db/1",
            version: &self.version,
            sha256: &self.sha256,
            gpus: self
                .gpus
                .iter()
                .map(|gpu| ExportedGpu {
                    pci_id: format!("10de:{}", gpu.device),
                    gpu,
                })
                .collect(),
            architectures: &self.architectures,
            driver_branches: &self.driver_branches,
            drivers: self
                .drivers
                .iter()
                .flat_map(|release| {
                    release.artifacts.iter().map(|a| ExportedDriver {
                        version: release.version,
                        branch: release.version.branch,
                        date: &release.date,
                        maturity: release.maturity,
                        variant: a.variant,
                        artifact: &a.artifact,
                    })
                })
                .collect(),
            cuda: self
                .cuda_artifacts
                .iter()
                .map(|a| ExportedCuda {
                    version: a.version,
                    bundled_driver: a.bundled_driver,
                    artifact: &a.artifact,
                })
                .collect(),
            cuda_releases: &self.cuda,
            cuda_components: self
                .component_releases
                .iter()
                .flat_map(exported_components)
                .collect(),
            components: &self.components,
            component_needs: &self.component_needs,
            cudnn: self.exported_archives(AddOnId::CUDNN),
            cudnn_ranges: self.ranges(AddOnId::CUDNN),
            add_ons: self
                .add_ons
                .iter()
                .filter(|a| a.id != AddOnId::CUDNN)
                .map(|a| self.exported_add_on(a))
                .collect(),
            distributions: &self.distributions,
            package_repositories: &self.package_repositories,
            signing_keys: &self.signing_keys,
            sources: &self.sources,
            frameworks: &self.frameworks,
            mig_clients: &self.mig_clients,
            mig_profiles: &self.mig_profiles,
            cuda_guides: &self.cuda_guides,
            forward_compatibility: &self.forward_compatibility,
            renames: self
                .companions
                .iter()
                .flat_map(renames_of)
                .chain(self.renames.iter().map(ExportedRename::of))
                .collect(),
            companions: &self.companions,
        }
    }
}

impl Database {
    fn exported_add_on<'a>(&'a self, a: &'a AddOn) -> ExportedAddOn<'a> {
        let (releases, ranges) = (self.exported_archives(a.id), self.ranges(a.id));
        ExportedAddOn {
            id: a.id,
            title: &a.title,
            purpose: &a.purpose,
            releases,
            ranges,
        }
    }

    fn exported_archives(&self, id: AddOnId) -> Vec<ExportedArchive<'_>> {
        let archives = self.add_on_archives(id);
        archives
            .map(|a| ExportedArchive {
                version: a.version,
                cuda_major: a.cuda_major(),
                cuda_line: &a.cuda_line,
                artifact: &a.artifact,
            })
            .collect()
    }

    fn ranges(&self, id: AddOnId) -> Vec<&AddOnRange> {
        self.add_on_ranges
            .iter()
            .filter(|r| r.add_on == id)
            .collect()
    }
}

fn exported_components(release: &ComponentRelease) -> impl Iterator<Item = ExportedComponent<'_>> {
    release.components.iter().flat_map(move |part| {
        part.archives.iter().map(move |archive| ExportedComponent {
            version: release.version,
            component: &part.name,
            component_version: &part.version,
            verified: &release.verified,
            artifact: release.artifact(part, archive),
        })
    })
}
