//! Names that users, scripts and tests may rely on: the ids of checks, and the names of the
//! resolver's rules. Each set is closed, so that a typo does not compile.

use gpusetup_database::compat::{AddOnId, CompanionId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A closed set of names: an enum that is written, printed and read as text. The doc comment of
/// each variant is also its title.
macro_rules! ids {
    ($(#[$about:meta])* $name:ident: $($(#[doc = $title:literal])+ $id:ident = $text:literal,)+) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[doc = $title])+ $id,)+
        }

        impl $name {
            /// All of them, in order.
            pub const ALL: &[Self] = &[$(Self::$id,)+];

            /// The name as printed and written.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$id => $text,)+
                }
            }
        }

        #[cfg(feature = "schemas")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let names: Vec<_> = Self::ALL.iter().map(|id| id.as_str()).collect();
                schemars::json_schema!({"type": "string", "enum": names})
            }
        }

        impl $name {
            /// The thing that is checked, or the condition that holds on a healthy host: a few
            /// words without a full stop.
            pub fn title(self) -> &'static str {
                let documented = match self {
                    $(Self::$id => concat!($($title),+),)+
                };
                documented.trim().trim_end_matches('.')
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownId;

            /// Ignores case.
            fn from_str(text: &str) -> Result<Self, UnknownId> {
                let found = Self::ALL.iter().find(|id| id.as_str().eq_ignore_ascii_case(text));
                found.copied().ok_or_else(|| UnknownId(text.to_owned()))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        }
    };
}

/// A name that this version does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not known")]
pub struct UnknownId(String);

/// A name in a file. Another version of gpusetup, with more names, may have written it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recorded<T> {
    /// One of this version's.
    Known(T),
    /// Another name, as the file has it.
    Unknown(String),
}

impl<T> From<T> for Recorded<T> {
    fn from(id: T) -> Self {
        Self::Known(id)
    }
}

impl<T: PartialEq> PartialEq<T> for Recorded<T> {
    fn eq(&self, id: &T) -> bool {
        matches!(self, Self::Known(known) if known == id)
    }
}

impl<T: fmt::Display> fmt::Display for Recorded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(id) => id.fmt(f),
            Self::Unknown(text) => f.pad(text),
        }
    }
}

/// Another version may know more names: any text is accepted.
#[cfg(feature = "schemas")]
impl<T> schemars::JsonSchema for Recorded<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Recorded".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": "^(GS[0-9]{3}|[a-z0-9]+(-[a-z0-9]+)*)$"})
    }
}

impl<T: fmt::Display> Serialize for Recorded<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de, T: FromStr + fmt::Display> Deserialize<'de> for Recorded<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        // A name in another case stays unknown, so that it is written back unchanged.
        let known = text.parse().ok().filter(|id: &T| id.to_string() == text);
        Ok(known.map_or(Self::Unknown(text), Self::Known))
    }
}

ids! {
    /// Problems of a host or an installation. A plan's refusal, a failed apply and a finding of
    /// doctor with the same cause have the same id.
    CheckId:
    /// Kernel headers are installed.
    GS101 = "GS101",
    /// The compiler that built the kernel is installed.
    GS102 = "GS102",
    /// Kernel is not too new for the driver.
    GS103 = "GS103",
    /// Every installed kernel has the driver's module.
    GS104 = "GS104",
    /// Kernel comes from the distribution's packages.
    GS105 = "GS105",
    /// DKMS builds the driver's modules from one source tree.
    GS106 = "GS106",
    /// Kernel is new enough for the driver.
    GS107 = "GS107",
    /// nouveau is blacklisted and bound to no GPU.
    GS201 = "GS201",
    /// nova is blacklisted and bound to no GPU.
    GS202 = "GS202",
    /// No GPU is reserved for a virtual machine (vfio-pci).
    GS203 = "GS203",
    /// Nothing keeps NVIDIA's kernel modules from being loaded.
    GS204 = "GS204",
    /// Secure Boot accepts the driver's modules.
    GS301 = "GS301",
    /// Secure Boot password prompt during an install.
    GS302 = "GS302",
    /// Only one NVIDIA driver is installed.
    GS401 = "GS401",
    /// Packages of different vendors do not conflict.
    GS402 = "GS402",
    /// Every package is pinned, not only the meta-package.
    GS403 = "GS403",
    /// apt has valid keys for NVIDIA's repositories.
    GS404 = "GS404",
    /// Package lists of other repositories can be fetched.
    GS405 = "GS405",
    /// Mirror has the packages that its lists name.
    GS406 = "GS406",
    /// nvidia-smi is installed.
    GS407 = "GS407",
    /// Exit status of commands matches their result.
    GS408 = "GS408",
    /// How the driver was installed is known.
    GS409 = "GS409",
    /// The distribution's packages are in the database.
    GS410 = "GS410",
    /// Repositories that the plan needs are enabled.
    GS411 = "GS411",
    /// NVIDIA kernel module matches the installed driver.
    GS501 = "GS501",
    /// No program uses the driver.
    GS502 = "GS502",
    /// The installed driver supports every GPU.
    GS503 = "GS503",
    /// Kernel modules (open or proprietary) support every GPU.
    GS504 = "GS504",
    /// CUDA computes correctly on every GPU.
    GS505 = "GS505",
    /// CUDA's device /dev/nvidia-uvm is available.
    GS506 = "GS506",
    /// Programs load the driver's libcuda.
    GS507 = "GS507",
    /// NVML can read every GPU.
    GS508 = "GS508",
    /// An NVIDIA GPU is on the bus.
    GS509 = "GS509",
    /// NVIDIA still maintains the driver branch.
    GS510 = "GS510",
    /// The model of every GPU can be read.
    GS511 = "GS511",
    /// The GPU exists for this machine's architecture.
    GS512 = "GS512",
    /// Driver, CUDA toolkits and container toolkit have the fixes of NVIDIA's security bulletins.
    GS513 = "GS513",
    /// GPU settings, such as power limits, are in force.
    GS521 = "GS521",
    /// Downloads are available (network, mirror or bundle).
    GS601 = "GS601",
    /// Directories for temporary files have space and allow execution.
    GS602 = "GS602",
    /// Package manager has finished, and /boot has free space.
    GS603 = "GS603",
    /// Prompts of needrestart, debconf and dpkg during an install.
    GS604 = "GS604",
    /// Package-manager lock is free.
    GS605 = "GS605",
    /// HOME and PATH are set.
    GS606 = "GS606",
    /// The compatibility database is recent.
    GS607 = "GS607",
    /// Nothing on the host is too large to be read.
    GS608 = "GS608",
    /// Login shells find the default toolkit.
    GS701 = "GS701",
    /// Library links of cuDNN and other add-ons are intact.
    GS702 = "GS702",
    /// Programs load cuDNN and other add-ons from the default toolkit.
    GS703 = "GS703",
    /// LD_LIBRARY_PATH is not set for all users, and no variable names a removed toolkit.
    GS704 = "GS704",
    /// nvcc supports the host's compiler.
    GS705 = "GS705",
    /// The toolkit's nvcc comes first on PATH.
    GS706 = "GS706",
    /// The driver is new enough for the default toolkit.
    GS707 = "GS707",
    /// The loader's cache is up to date for cuDNN and other add-ons.
    GS708 = "GS708",
    /// Every toolkit's compiler works.
    GS709 = "GS709",
    /// cuDNN computes correctly.
    GS710 = "GS710",
    /// NVIDIA lists this system for the toolkit.
    GS711 = "GS711",
    /// The toolkit is chosen for a known GPU.
    GS712 = "GS712",
    /// The framework runs on the GPU without limitations.
    GS713 = "GS713",
    /// The toolkit's directory contains only one toolkit.
    GS714 = "GS714",
    /// The toolkit is below the prefix.
    GS715 = "GS715",
    /// Frameworks in Python environments are built for CUDA.
    GS716 = "GS716",
    /// The driver is new enough for the frameworks in Python environments.
    GS717 = "GS717",
    /// Frameworks in Python environments have kernels for every GPU.
    GS718 = "GS718",
    /// Python environments have the NVIDIA packages that their frameworks require.
    GS719 = "GS719",
    /// Frameworks load the CUDA libraries of their own Python environment.
    GS720 = "GS720",
    /// Fabric Manager runs and matches the driver.
    GS801 = "GS801",
    /// MIG mode and instances are as set, with no GPU reset pending.
    GS802 = "GS802",
    /// Containers can use the GPUs.
    GS803 = "GS803",
    /// RDMA adapters can reach the memory of GPUs (GPUDirect RDMA).
    GS804 = "GS804",
    /// DCGM, GPUDirect Storage and nvidia-peermem run as installed.
    GS805 = "GS805",
    /// Pods of Kubernetes get the GPUs.
    GS810 = "GS810",
    /// Only one of the host and the GPU Operator has the driver.
    GS811 = "GS811",
    /// Slurm knows the GPUs of its node.
    GS812 = "GS812",
    /// Slurm confines jobs to their GPUs.
    GS813 = "GS813",
    /// The firmware assigned address space to every GPU's memory.
    GS901 = "GS901",
    /// PCIe peer-to-peer is not restricted (ACS, IOMMU).
    GS902 = "GS902",
    /// No GPU errors (Xid) in the kernel log.
    GS903 = "GS903",
    /// GPU memory, temperature and power are healthy.
    GS904 = "GS904",
    /// Persistence mode is on for data-centre GPUs.
    GS905 = "GS905",
    /// WSL2 uses the driver of Windows.
    GS906 = "GS906",
    /// A Jetson keeps the driver of its board support package.
    GS907 = "GS907",
    /// An image-based system has the driver that its own tools install.
    GS908 = "GS908",
    /// GPU memory is not counted as host memory.
    GS909 = "GS909",
    /// A virtual GPU (vGPU).
    GS910 = "GS910",
    /// A container.
    GS911 = "GS911",
    /// A laptop's desktop can use both GPUs.
    GS912 = "GS912",
    /// External GPUs are authorised.
    GS913 = "GS913",
    /// DGX OS has the driver that belongs to it.
    GS914 = "GS914",
}

ids! {
    /// A rule of the resolver that is not about an add-on.
    RuleId:
    /// The driver branch supports the GPU.
    DriverKnowsGpu = "driver-knows-gpu",
    /// The driver has kernel modules (open or proprietary) that support the GPU.
    DriverHasModules = "driver-has-modules",
    /// The driver branch supports the host's kernel.
    DriverRunsOnKernel = "driver-runs-on-kernel",
    /// The driver is installed by the requested method.
    DriverMethod = "driver-method",
    /// The driver's runfile that was named fits the host and the request.
    DriverFile = "driver-runfile",
    /// The release is neither a beta nor a preview.
    DriverReleaseKind = "driver-release-kind",
    /// NVIDIA still maintains the driver branch.
    DriverBranchLife = "driver-branch-life",
    /// The driver is the requested one.
    DriverWanted = "driver-wanted",
    /// The driver's file is published, with a checksum.
    DriverPublished = "driver-published",
    /// The installed driver is suitable and is kept.
    DriverKept = "driver-kept",
    /// Another suitable driver is preferred.
    DriverPreference = "driver-preference",
    /// The kernel modules are the requested ones (open or proprietary).
    ModulesWanted = "modules-wanted",
    /// Only one kind of kernel modules (open or proprietary) supports the GPU.
    ModulesFitGpu = "modules-fit-gpu",
    /// The kernel modules are the branch's default (open or proprietary).
    ModulesDefault = "modules-default",
    /// The driver is already installed.
    MethodKept = "method-kept",
    /// A repository of the host offers the driver.
    MethodPackages = "method-packages",
    /// A repository that gpusetup adds has the driver.
    MethodRepository = "method-repository",
    /// No repository of the host offers the driver.
    MethodRunfile = "method-runfile",
    /// The installation method was requested.
    MethodWanted = "method-wanted",
    /// The toolkit compiles for the GPU.
    CudaTargetsGpu = "cuda-targets-gpu",
    /// The driver is new enough for the toolkit.
    CudaRunsOnDriver = "cuda-runs-on-driver",
    /// The driver branch was made for the toolkit's series or a newer one.
    CudaNativeDriver = "cuda-native-driver",
    /// nvcc supports the host's gcc.
    CudaHostCompiler = "cuda-host-compiler",
    /// nvcc supports the headers of the host's C library.
    CudaHostHeaders = "cuda-host-headers",
    /// The host's C library is new enough for the toolkit.
    CudaCLibrary = "cuda-c-library",
    /// The requested components of the toolkit are available as archives.
    CudaComponents = "cuda-components",
    /// The toolkit is the requested one.
    CudaWanted = "cuda-wanted",
    /// The toolkit's file is published, with a checksum.
    CudaPublished = "cuda-published",
    /// The installed toolkit is suitable and is kept.
    CudaKept = "cuda-kept",
    /// The framework and its release are known.
    FrameworkKnown = "framework-known",
    /// The framework has wheels with CUDA for the machine.
    FrameworkPublished = "framework-published",
    /// The framework's wheels load with the host's C library.
    FrameworkLoads = "framework-loads",
    /// The framework's wheels have kernels for the GPU.
    FrameworkRunsOnGpu = "framework-runs-on-gpu",
    /// The framework's build determines the version.
    FrameworkBuild = "framework-build",
    /// An extension is requested together with the framework that it extends.
    FrameworkBeside = "framework-beside",
    /// The frameworks share the major versions of CUDA and cuDNN.
    FrameworksTogether = "frameworks-together",
    /// The host has an NVIDIA GPU.
    GpuPresent = "gpu-present",
    /// The GPU is in the database.
    GpuKnown = "gpu-known",
    /// The GPU is physical: a virtual one needs another driver.
    GpuIsPhysical = "gpu-is-physical",
    /// The GPU is not part of a board that provides its own driver.
    GpuHasBoardDriver = "gpu-has-board-driver",
    /// The GPU exists in machines of the host's architecture.
    GpuFitsMachine = "gpu-fits-machine",
    /// CUDA exists for the machine's architecture.
    Architecture = "architecture",
    /// gpusetup supports the operating system.
    System = "system",
    /// A fact that no source states.
    AssumedFact = "assumed-fact",
    /// The request contradicts itself.
    Request = "request",
    /// Something on the host must be fixed first.
    Blocked = "blocked",
}

ids! {
    /// A rule of the resolver about an add-on. Every add-on has all of these rules.
    AddOnRule:
    /// It is built for the toolkit's CUDA line.
    ForCuda = "for-cuda",
    /// It runs on the GPU.
    RunsOnGpu = "runs-on-gpu",
    /// The driver is new enough for it.
    RunsOnDriver = "runs-on-driver",
    /// The host's C library is new enough for it.
    CLibrary = "c-library",
    /// A source states its requirements.
    Known = "known",
    /// It is the requested one.
    Wanted = "wanted",
    /// Its archive is published, with a checksum.
    Published = "published",
    /// The installed one is suitable and is kept.
    Kept = "kept",
}

/// A rule of the resolver. A plan's reasons and rejections name the rule that decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Not about an add-on.
    Of(RuleId),
    /// This companion is published in a version that matches the driver: `driver-has-imex`.
    DriverHas(CompanionId),
    /// About this add-on: `cudnn-for-cuda`.
    AddOn(AddOnId, AddOnRule),
    /// A requested release of the add-on is built for the toolkit: `cuda-has-cudnn`.
    CudaHas(AddOnId),
}

impl Rule {
    /// Whether it is about the driver: `driver-knows-gpu`.
    pub fn is_about_driver(&self) -> bool {
        match self {
            Self::Of(id) => id.as_str().starts_with("driver-"),
            Self::DriverHas(_) => true,
            Self::AddOn(..) | Self::CudaHas(_) => false,
        }
    }
}

/// The prefix of [`Rule::DriverHas`], before the companion's name.
const DRIVER_HAS: &str = "driver-has-";

/// The prefix of [`Rule::CudaHas`], before the add-on's name.
const CUDA_HAS: &str = "cuda-has-";

impl From<RuleId> for Rule {
    fn from(id: RuleId) -> Self {
        Self::Of(id)
    }
}

impl PartialEq<RuleId> for Rule {
    fn eq(&self, id: &RuleId) -> bool {
        matches!(self, Self::Of(own) if own == id)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(id) => id.fmt(f),
            Self::DriverHas(id) => f.pad(&format!("{DRIVER_HAS}{id}")),
            Self::AddOn(id, rule) => f.pad(&format!("{id}-{rule}")),
            Self::CudaHas(id) => f.pad(&format!("{CUDA_HAS}{id}")),
        }
    }
}

impl FromStr for Rule {
    type Err = UnknownId;

    fn from_str(text: &str) -> Result<Self, UnknownId> {
        let of_row = || {
            if let Some(id) = text.strip_prefix(DRIVER_HAS) {
                return Some(Self::DriverHas(id.parse().ok()?));
            }
            if let Some(id) = text.strip_prefix(CUDA_HAS) {
                return Some(Self::CudaHas(id.parse().ok()?));
            }
            let (id, rule) = text.split_once('-')?;
            Some(Self::AddOn(id.parse().ok()?, rule.parse().ok()?))
        };
        text.parse()
            .map(Self::Of)
            .or_else(|unknown| of_row().ok_or(unknown))
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_is_read_as_it_is_written_and_means_one_thing() {
        let checks: BTreeSet<_> = CheckId::ALL.iter().map(|id| id.as_str()).collect();
        let rules: BTreeSet<_> = RuleId::ALL.iter().map(|id| id.as_str()).collect();
        assert_eq!(
            (checks.len(), rules.len()),
            (CheckId::ALL.len(), RuleId::ALL.len())
        );
        assert!(CheckId::ALL.is_sorted_by_key(|id| id.as_str()));
        for id in CheckId::ALL {
            assert_eq!(
                (id.as_str().parse(), format!("{id:?}")),
                (Ok(*id), id.to_string())
            );
            assert_eq!(id.as_str().to_lowercase().parse(), Ok(*id));
        }
        assert!(
            RuleId::ALL
                .iter()
                .all(|rule| rule.as_str().parse() == Ok(*rule))
        );
        let imex = Rule::DriverHas("imex".parse().expect("an id"));
        assert_eq!(
            ("driver-has-imex".parse(), imex.to_string()),
            (Ok(imex), "driver-has-imex".to_owned())
        );
        assert_eq!(
            "driver-has-modules".parse(),
            Ok(Rule::Of(RuleId::DriverHasModules))
        );
        assert!(
            "GS000"
                .parse::<CheckId>()
                .is_err_and(|e| e.to_string() == "`GS000` is not known")
        );
    }

    #[test]
    fn a_name_of_another_version_stays_as_it_is() {
        for (text, known) in [
            ("\"GS201\"", true),
            ("\"GS999\"", false),
            ("\"gs201\"", false),
            ("\"\"", false),
        ] {
            let read: Recorded<CheckId> = serde_json::from_str(text).expect("a text");
            assert_eq!(matches!(read, Recorded::Known(_)), known, "{text}");
            assert_eq!(serde_json::to_string(&read).expect("a text"), text);
        }
        assert!(serde_json::from_str::<Recorded<CheckId>>("7").is_err());
    }
}
