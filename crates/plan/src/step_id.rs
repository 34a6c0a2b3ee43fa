//! The kinds of steps: their names in plans, journals and `--json` (`install-driver`,
//! `install-nccl`), and what is so of every step of a kind.

use gpusetup_database::compat::AddOnId;
use gpusetup_database::version::CudaVersion;
use gpusetup_resolve::Request;
use gpusetup_text::paths::{DKMS_COMPILER, DKMS_SIGNING, VGPU_TOKEN};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// The kinds of steps; `crates/plan/src/build.rs` has their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepId {
    /// Kernel headers, compiler, DKMS.
    Prerequisites,
    /// Prevents nouveau and nova from using the GPUs.
    BlacklistNouveau,
    /// A repository that has the driver's packages, and its keys.
    AddRepository,
    /// Kernel modules and user-space driver.
    InstallDriver,
    /// What NVSwitches need besides the driver.
    InstallCompanions,
    /// A container engine, and who may use it.
    ContainerEngine,
    /// NVIDIA's container toolkit, and the engines' configuration.
    ContainerToolkit,
    /// The CUDA toolkit.
    InstallCuda,
    /// An add-on, such as cuDNN, in the toolkit.
    InstallAddOn(AddOnId),
    /// A CUDA toolkit of this series, beside the default one.
    InstallAdditionalCuda(CudaVersion),
    /// An add-on in a toolkit of this series, beside the default one.
    InstallAdditionalAddOn(AddOnId, CudaVersion),
    /// The symbolic links of libraries and of the default toolkit.
    FixSymlinks,
    /// The loader's search path and cache.
    Ldconfig,
    /// PATH for shells.
    Environment,
    /// Partitions GPUs into instances (MIG).
    Mig,
    /// Reboots the host.
    Reboot,
    /// Removes a toolkit.
    RemoveCuda,
    /// Removes an add-on that is outside of toolkits.
    RemoveAddOn(AddOnId),
    /// Removes the driver.
    RemoveDriver,
    /// Removes a repository that gpusetup added, and its keys.
    RemoveRepository,
    /// Fixes a problem found by `doctor`.
    Repair,
    /// Options of the driver's kernel modules.
    ModuleOptions,
    /// Whether the kernel and the driver are updated with the system.
    Updates,
    /// The GPUs' power limits, clocks and modes.
    GpuSettings,
    /// The token with which a guest driver gets a licence.
    VgpuLicence,
    /// The key that signs the driver's modules.
    SignModules,
    /// Checks that everything works.
    Verify,
}

/// What is so of every step with a name, whatever the host and the request are.
#[derive(Debug)]
pub struct StepKind {
    name: &'static str,
    pub(super) room: &'static [(Place, Share)],
    pub(super) licence: Licence,
    pub(super) payload: Payload,
    /// No program may use the driver during the step.
    pub(super) idle_driver: bool,
    /// What it does to the host, as `terraform plan` marks it.
    pub mark: &'static str,
    requested: Option<fn(&Request) -> bool>,
    /// Whether nothing is said of it unless it is requested.
    only_on_request: bool,
    /// A file of gpusetup's that goes with the driver, and the title of that.
    pub(super) own_file: Option<(&'static str, &'static str)>,
}

/// Where a step takes disk space.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Folder(&'static str),
    Cache,
    Prefix,
    /// Where its operations write.
    Touched,
}

/// How much of its disk space a step takes in a place.
#[derive(Debug, Clone, Copy)]
pub(super) enum Share {
    /// A few files.
    Little,
    /// An installer unpacks itself in the cache and then copies the files into place.
    Half,
    All,
    /// A download of unknown size checks the free space as it grows.
    Downloads,
}

/// Whether a step installs files under an NVIDIA licence.
#[derive(Debug, Clone, Copy)]
pub(super) enum Licence {
    None,
    Always,
    /// If it has packages to install, or archives to unpack.
    WithFiles,
}

/// What a step brings, for an estimate of its time where sizes are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload {
    /// Its kernel modules may have to be built.
    Driver,
    Toolkit,
    Tools,
}

use Place::{Cache, Prefix, Touched};
use Share::{All, Downloads, Half, Little};

const USR: Place = Place::Folder("/usr");
const ETC: Place = Place::Folder("/etc");
const BOOT: Place = Place::Folder("/boot");
const LIB: Place = Place::Folder("/var/lib");

impl StepKind {
    const fn new(name: &'static str, room: &'static [(Place, Share)]) -> Self {
        Self {
            name,
            room,
            licence: Licence::None,
            payload: Payload::Tools,
            idle_driver: false,
            mark: "+",
            requested: None,
            only_on_request: false,
            own_file: None,
        }
    }

    const fn brings(self, payload: Payload) -> Self {
        Self {
            licence: Licence::Always,
            payload,
            ..self
        }
    }

    const fn licensed(self, licence: Licence) -> Self {
        Self { licence, ..self }
    }

    const fn with_idle_driver(self) -> Self {
        Self {
            idle_driver: true,
            ..self
        }
    }

    const fn marked(self, mark: &'static str) -> Self {
        Self { mark, ..self }
    }

    const fn requested(self, requested: fn(&Request) -> bool) -> Self {
        Self {
            requested: Some(requested),
            ..self
        }
    }

    const fn only_requested(self, requested: fn(&Request) -> bool) -> Self {
        Self {
            only_on_request: true,
            ..self.requested(requested)
        }
    }

    const fn own_file(self, path: &'static str, title: &'static str) -> Self {
        Self {
            own_file: Some((path, title)),
            ..self
        }
    }

    /// Whether somebody asked for the step itself.
    pub fn is_requested(&self, request: &Request) -> bool {
        self.requested.is_some_and(|requested| requested(request))
    }

    /// Whether it is news that the step is left out.
    pub(super) fn is_news(&self, request: &Request) -> bool {
        !self.only_on_request || self.is_requested(request)
    }
}

/// The rows of the steps that are not about an add-on. A step without one does not compile.
macro_rules! kinds {
    ($($step:ident => $kind:expr,)+) => {
        /// The steps with a row.
        static LISTED: &[StepId] = &[$(StepId::$step),+];

        impl StepId {
            /// What is so of all steps with this name.
            pub fn kind(self) -> &'static StepKind {
                match self {
                    $(Self::$step => {
                        static KIND: StepKind = $kind;
                        &KIND
                    })+
                    Self::InstallAdditionalCuda(_) => Self::InstallCuda.kind(),
                    Self::InstallAddOn(_) | Self::InstallAdditionalAddOn(..) => &INSTALL_ADD_ON,
                    Self::RemoveAddOn(_) => &REMOVE_ADD_ON,
                }
            }
        }
    };
}

kinds! {
    Prerequisites => StepKind::new("prerequisites", &[(USR, All), (ETC, Little)])
        .own_file(DKMS_COMPILER, "Remove the compiler from DKMS's configuration"),
    BlacklistNouveau => StepKind::new(
        "blacklist-nouveau",
        &[(ETC, Little), (BOOT, Half), (LIB, Half)],
    ),
    AddRepository => StepKind::new("add-repository", &[(USR, Little), (ETC, Little)]),
    InstallDriver => StepKind::new(
        "install-driver",
        &[(USR, Half), (Cache, Downloads), (Cache, Half)],
    )
    .brings(Payload::Driver)
    .with_idle_driver(),
    InstallCompanions => StepKind::new("companions", &[(USR, All), (Cache, Downloads)])
        .licensed(Licence::WithFiles)
        .requested(|r| !r.companions.is_empty() || !r.imex_peers.is_empty()),
    ContainerEngine => StepKind::new("container-engine", &[(USR, All), (ETC, Little)])
        .requested(|r| r.settings.containers.is_some()),
    ContainerToolkit => StepKind::new("container-toolkit", &[(USR, All), (ETC, Little)])
        .requested(|r| r.settings.containers.is_some()),
    InstallCuda => StepKind::new(
        "install-cuda",
        &[(Prefix, Half), (Cache, Downloads), (Cache, Half)],
    )
    .brings(Payload::Toolkit),
    FixSymlinks => StepKind::new("fix-symlinks", &[(Prefix, Little)]),
    Ldconfig => StepKind::new("ldconfig", &[(ETC, Little)]),
    Environment => StepKind::new("environment", &[(ETC, Little)]),
    Reboot => StepKind::new("reboot", &[]).marked("!"),
    RemoveCuda => StepKind::new("remove-cuda", &[(Prefix, Little)]).marked("-"),
    RemoveDriver => StepKind::new("remove-driver", &[(USR, Little)])
        .marked("-")
        .with_idle_driver(),
    Mig => StepKind::new("mig", &[(ETC, Little)])
        .marked("~")
        .requested(|r| r.settings.mig.is_some()),
    RemoveRepository => StepKind::new("remove-repository", &[(USR, Little), (ETC, Little)]),
    Repair => StepKind::new("repair", &[(Touched, Little)]).marked("~"),
    ModuleOptions => StepKind::new("module-options", &[(ETC, Little), (BOOT, Little)])
        .only_requested(|r| !r.settings.module_options.is_empty()),
    Updates => StepKind::new("updates", &[(LIB, Little)]).only_requested(|r| r.settings.updates.is_some()),
    GpuSettings => StepKind::new("gpu-settings", &[(ETC, Little)])
        .only_requested(|r| !r.settings.states.is_empty()),
    VgpuLicence => StepKind::new("vgpu-licence", &[(ETC, Little)])
        .only_requested(|r| r.settings.vgpu_token.is_some())
        .own_file(VGPU_TOKEN, "Remove the licence token"),
    SignModules => StepKind::new("sign-modules", &[(ETC, Little), (LIB, Little)])
        .requested(|r| r.settings.module_key.is_some())
        .own_file(DKMS_SIGNING, "Remove the key from DKMS's configuration"),
    Verify => StepKind::new("verify", &[]),
}

/// Add-ons.
static INSTALL_ADD_ON: StepKind =
    StepKind::new("", &[(Prefix, All), (Cache, Downloads)]).licensed(Licence::Always);
static REMOVE_ADD_ON: StepKind = StepKind::new("", &[(USR, Little)]).marked("-");

/// The prefix of an add-on's name.
const INSTALL: &str = "install-";
const REMOVE: &str = "remove-";

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InstallAddOn(id) => write!(f, "{INSTALL}{id}"),
            Self::RemoveAddOn(id) => write!(f, "{REMOVE}{id}"),
            Self::InstallAdditionalCuda(series) => write!(f, "{}-{series}", Self::InstallCuda),
            Self::InstallAdditionalAddOn(id, series) => write!(f, "{INSTALL}{id}-{series}"),
            other => f.write_str(other.kind().name),
        }
    }
}

/// The text is not the name of a step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown step `{0}`")]
pub struct StepIdError(String);

impl FromStr for StepId {
    type Err = StepIdError;
    fn from_str(text: &str) -> Result<Self, StepIdError> {
        if let Some(id) = LISTED.iter().find(|id| id.kind().name == text) {
            return Ok(*id);
        }
        if let Some((step, series)) = text
            .rsplit_once('-')
            .and_then(|(step, text)| Some((step, series(text)?)))
        {
            return match step.parse() {
                Ok(Self::InstallCuda) => Ok(Self::InstallAdditionalCuda(series)),
                Ok(Self::InstallAddOn(id)) => Ok(Self::InstallAdditionalAddOn(id, series)),
                _ => Err(StepIdError(text.to_owned())),
            };
        }
        let installed = text.strip_prefix(INSTALL).and_then(|id| id.parse().ok());
        let removed = text.strip_prefix(REMOVE).and_then(|id| id.parse().ok());
        installed
            .map(Self::InstallAddOn)
            .or(removed.map(Self::RemoveAddOn))
            .ok_or_else(|| StepIdError(text.to_owned()))
    }
}

impl StepId {
    /// The files of gpusetup's that go with the driver, each with its step and the title of that.
    pub(super) fn own_files() -> impl Iterator<Item = (Self, &'static str, &'static str)> {
        LISTED.iter().filter_map(|id| {
            let (path, title) = id.kind().own_file?;
            Some((*id, path, title))
        })
    }

    /// The same step for a toolkit of this series beside the default one.
    pub(crate) fn for_series(self, series: CudaVersion) -> Self {
        match self {
            Self::InstallCuda => Self::InstallAdditionalCuda(series),
            Self::InstallAddOn(id) => Self::InstallAdditionalAddOn(id, series),
            other => other,
        }
    }
}

/// A series as it is written, such as `11.8`.
fn series(text: &str) -> Option<CudaVersion> {
    text.parse()
        .ok()
        .filter(|version: &CudaVersion| version.patch.is_none() && version.to_string() == text)
}

impl Serialize for StepId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StepId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(feature = "schemas")]
impl schemars::JsonSchema for StepId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "StepId".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names: Vec<_> = LISTED.iter().map(|id| id.kind().name).collect();
        let (most, series) = (AddOnId::MAX_LENGTH, "[0-9]+[.][0-9]+");
        let add_ons =
            format!("(install|remove)-[a-z0-9]{{1,{most}}}|install-[a-z0-9]{{1,{most}}}-{series}");
        schemars::json_schema!({
            "type": "string",
            "pattern": format!("^({}|{add_ons})$", names.join("|")),
            "description": "The name of a step; those of add-ons end with the add-on's name, `install-cudnn`, those of a toolkit beside the default one with its series, `install-cuda-11.8`.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let add_ons = [
            StepId::InstallAddOn(AddOnId::CUDNN),
            StepId::RemoveAddOn(AddOnId::CUDNN),
        ];
        let series = "11.8".parse().expect("a series");
        let additional = [
            StepId::InstallCuda.for_series(series),
            add_ons[0].for_series(series),
        ];
        for id in LISTED.iter().copied().chain(add_ons).chain(additional) {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        assert_eq!(
            add_ons.map(|id| id.to_string()),
            ["install-cudnn", "remove-cudnn"]
        );
        assert_eq!(
            additional.map(|id| id.to_string()),
            ["install-cuda-11.8", "install-cudnn-11.8"]
        );
        for text in [
            "",
            "install-",
            "install-cuDNN",
            "uninstall-cudnn",
            "fly",
            "verify-11.8",
            "install-cuda-11.8.0",
        ] {
            assert!(text.parse::<StepId>().is_err(), "{text}");
        }
    }
}
