//! Names that users, scripts and tests may rely on: the ids of checks, and the names of the rules that choose. Each is one of a
//! closed set, so that a typo does not compile.

use crate::compat::{AddOnId, CompanionId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A closed set of names: an enum that is written, printed and read as text. What documents each of them is its title, too.
macro_rules! ids {
    ($(#[$about:meta])* $name:ident: $($(#[doc = $title:literal])+ $id:ident = $text:literal,)+) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[doc = $title])+ $id,)+
        }

        impl $name {
            /// Every one.
            pub const ALL: &[Self] = &[$(Self::$id,)+];

            /// As it is printed and written.
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
            /// What is so where all is well, or what it is about: a few words without a full stop.
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

            /// Upper and lower case are alike.
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

/// A name that this version does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not known")]
pub struct UnknownId(String);

/// A name in a file. Another version of gpusetup may have written it, and know more of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recorded<T> {
    /// One of this version's.
    Known(T),
    /// Another, as the file has it.
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

/// Another version may know more of them: any text will do.
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
        // What is written in another case is another text, and stays what it is.
        let known = text.parse().ok().filter(|id: &T| id.to_string() == text);
        Ok(known.map_or(Self::Unknown(text), Self::Known))
    }
}

ids! {
    /// What may be wrong with a host or an installation. A plan's refusal, a failed apply and a finding of doctor about the same
    /// cause have the same id.
    CheckId:
    /// The kernel's headers are there.
    GS101 = "GS101",
    /// The compiler that built the kernel is there.
    GS102 = "GS102",
    /// The kernel is too new for the driver.
    GS103 = "GS103",
    /// Every kernel has the driver's module.
    GS104 = "GS104",
    /// The kernel is none of the distribution's.
    GS105 = "GS105",
    /// One set of kernel modules is in DKMS's care.
    GS106 = "GS106",
    /// The kernel is new enough for the driver.
    GS107 = "GS107",
    /// nouveau keeps off the GPUs.
    GS201 = "GS201",
    /// nova keeps off the GPUs.
    GS202 = "GS202",
    /// No GPU is held for a virtual machine.
    GS203 = "GS203",
    /// The firmware lets the driver's module load.
    GS301 = "GS301",
    /// A question about Secure Boot's key hangs an install.
    GS302 = "GS302",
    /// The driver comes from one place.
    GS401 = "GS401",
    /// Packages of two vendors exclude each other.
    GS402 = "GS402",
    /// Only the meta-package is pinned.
    GS403 = "GS403",
    /// apt has the keys of NVIDIA's repositories.
    GS404 = "GS404",
    /// Another repository is broken.
    GS405 = "GS405",
    /// A mirror is out of step.
    GS406 = "GS406",
    /// nvidia-smi came with the driver.
    GS407 = "GS407",
    /// A tool reports success on failure.
    GS408 = "GS408",
    /// The driver's origin is known.
    GS409 = "GS409",
    /// The distribution's packages are known.
    GS410 = "GS410",
    /// The repositories that the plan needs are enabled.
    GS411 = "GS411",
    /// The driver loaded is the one installed, and has the GPUs.
    GS501 = "GS501",
    /// The driver is in use.
    GS502 = "GS502",
    /// Every GPU is known to the driver installed.
    GS503 = "GS503",
    /// The kernel modules' flavour suits every GPU.
    GS504 = "GS504",
    /// CUDA computes on every GPU.
    GS505 = "GS505",
    /// CUDA's device is there, or is made when it is asked for.
    GS506 = "GS506",
    /// Programs get the driver's own libcuda.
    GS507 = "GS507",
    /// The driver answers.
    GS508 = "GS508",
    /// An NVIDIA GPU is on the bus.
    GS509 = "GS509",
    /// The driver's branch gets fixes.
    GS510 = "GS510",
    /// The model of every GPU can be read.
    GS511 = "GS511",
    /// The GPU exists in machines like this one.
    GS512 = "GS512",
    /// No network, or a proxy.
    GS601 = "GS601",
    /// Temporary files have no room, or must not be executed.
    GS602 = "GS602",
    /// The package manager is done, and /boot has room.
    GS603 = "GS603",
    /// Questions of needrestart, debconf and dpkg hang an install.
    GS604 = "GS604",
    /// apt or dpkg is locked on the first boot.
    GS605 = "GS605",
    /// HOME and PATH are not set.
    GS606 = "GS606",
    /// Login shells find the default toolkit.
    GS701 = "GS701",
    /// The library links of cuDNN and other add-ons are whole.
    GS702 = "GS702",
    /// Programs get the cuDNN and other add-ons that belong to the default toolkit.
    GS703 = "GS703",
    /// No LD_LIBRARY_PATH reaches every program.
    GS704 = "GS704",
    /// nvcc takes the host's compiler.
    GS705 = "GS705",
    /// The distribution's nvcc stands before the toolkit's.
    GS706 = "GS706",
    /// The driver runs the default toolkit's programs.
    GS707 = "GS707",
    /// The loader's cache knows cuDNN and other add-ons as they are.
    GS708 = "GS708",
    /// Every toolkit's compiler works.
    GS709 = "GS709",
    /// cuDNN computes.
    GS710 = "GS710",
    /// NVIDIA lists the system for the toolkit.
    GS711 = "GS711",
    /// The toolkit is chosen for a known GPU.
    GS712 = "GS712",
    /// The framework runs on the GPU without limits.
    GS713 = "GS713",
    /// The toolkit's directory has one toolkit.
    GS714 = "GS714",
    /// The toolkit is below the prefix.
    GS715 = "GS715",
    /// Fabric Manager runs, and is the driver's own.
    GS801 = "GS801",
    /// GPUs are divided (MIG) as was asked for.
    GS802 = "GS802",
    /// Containers get the GPUs.
    GS803 = "GS803",
    /// The firmware gives every GPU room in the address space.
    GS901 = "GS901",
    /// GPUs speak to each other freely.
    GS902 = "GS902",
    /// Nothing tells of a fault of a GPU.
    GS903 = "GS903",
    /// No GPU's memory, heat or power is amiss.
    GS904 = "GS904",
    /// The driver keeps the GPUs of data centres ready.
    GS905 = "GS905",
    /// WSL2.
    GS906 = "GS906",
    /// A Jetson.
    GS907 = "GS907",
    /// An immutable system.
    GS908 = "GS908",
    /// The GPUs' memory is not counted as the host's.
    GS909 = "GS909",
    /// A virtual GPU (vGPU).
    GS910 = "GS910",
    /// A container.
    GS911 = "GS911",
}

ids! {
    /// A rule of the resolver about no add-on.
    RuleId:
    /// The driver branch knows the GPU.
    DriverKnowsGpu = "driver-knows-gpu",
    /// The driver has kernel modules of a flavour that runs the GPU.
    DriverHasModules = "driver-has-modules",
    /// The driver branch supports a kernel as old as the host's.
    DriverRunsOnKernel = "driver-runs-on-kernel",
    /// The driver comes the way that was asked for.
    DriverMethod = "driver-method",
    /// The release is for everybody: neither a beta nor a preview.
    DriverReleaseKind = "driver-release-kind",
    /// The driver branch still gets fixes.
    DriverBranchLife = "driver-branch-life",
    /// The driver is the one asked for.
    DriverWanted = "driver-wanted",
    /// The driver's file is published, with a checksum.
    DriverPublished = "driver-published",
    /// The installed driver fits, and stays.
    DriverKept = "driver-kept",
    /// Another driver that fits is preferred.
    DriverPreference = "driver-preference",
    /// The kernel modules are of the flavour asked for.
    ModulesWanted = "modules-wanted",
    /// One flavour of the kernel modules runs the GPU.
    ModulesFitGpu = "modules-fit-gpu",
    /// The kernel modules are of the branch's default flavour.
    ModulesDefault = "modules-default",
    /// The driver is installed already.
    MethodKept = "method-kept",
    /// A repository of the host offers the driver.
    MethodPackages = "method-packages",
    /// No repository of the host offers the driver.
    MethodRunfile = "method-runfile",
    /// The runfile was asked for.
    MethodWanted = "method-wanted",
    /// The toolkit compiles for the GPU.
    CudaTargetsGpu = "cuda-targets-gpu",
    /// The driver is new enough for the toolkit.
    CudaRunsOnDriver = "cuda-runs-on-driver",
    /// The driver branch was made for the toolkit's series or a newer one.
    CudaNativeDriver = "cuda-native-driver",
    /// nvcc takes the host's gcc.
    CudaHostCompiler = "cuda-host-compiler",
    /// nvcc compiles with the headers of the host's C library.
    CudaHostHeaders = "cuda-host-headers",
    /// The host's C library is new enough for the toolkit.
    CudaCLibrary = "cuda-c-library",
    /// The toolkit has the components asked for, as archives.
    CudaComponents = "cuda-components",
    /// The toolkit is the one asked for.
    CudaWanted = "cuda-wanted",
    /// The toolkit's file is published, with a checksum.
    CudaPublished = "cuda-published",
    /// The installed toolkit fits, and stays.
    CudaKept = "cuda-kept",
    /// The framework and its release are known.
    FrameworkKnown = "framework-known",
    /// The framework has wheels with CUDA for the machine.
    FrameworkPublished = "framework-published",
    /// The framework's wheels load with the host's C library.
    FrameworkLoads = "framework-loads",
    /// The framework's wheels have kernels for the GPU.
    FrameworkRunsOnGpu = "framework-runs-on-gpu",
    /// The framework's build decides.
    FrameworkBuild = "framework-build",
    /// An extension is named with the framework that it extends.
    FrameworkBeside = "framework-beside",
    /// The frameworks have a major version of CUDA and cuDNN in common.
    FrameworksTogether = "frameworks-together",
    /// The host has an NVIDIA GPU.
    GpuPresent = "gpu-present",
    /// The database knows the GPU.
    GpuKnown = "gpu-known",
    /// The GPU is no virtual one, which needs another driver.
    GpuIsPhysical = "gpu-is-physical",
    /// The GPU is no part of a board that comes with its driver.
    GpuHasBoardDriver = "gpu-has-board-driver",
    /// The GPU exists in machines of the host's architecture.
    GpuFitsMachine = "gpu-fits-machine",
    /// CUDA is made for the machine's architecture.
    Architecture = "architecture",
    /// gpusetup installs on the operating system.
    System = "system",
    /// A fact that no source states.
    AssumedFact = "assumed-fact",
    /// The request contradicts itself.
    Request = "request",
    /// Something must be done first.
    Blocked = "blocked",
}

ids! {
    /// A rule of the resolver about an add-on; each add-on has them all.
    AddOnRule:
    /// It is built for the toolkit's CUDA line.
    ForCuda = "for-cuda",
    /// It runs on the GPU.
    RunsOnGpu = "runs-on-gpu",
    /// The driver is new enough for it.
    RunsOnDriver = "runs-on-driver",
    /// The host's C library is new enough for it.
    CLibrary = "c-library",
    /// A source says what it needs.
    Known = "known",
    /// It is the one asked for.
    Wanted = "wanted",
    /// Its archive is published, with a checksum.
    Published = "published",
    /// The installed one fits, and stays.
    Kept = "kept",
}

/// A rule of the resolver. A plan's reasons and rejections name the one that decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// About no add-on.
    Of(RuleId),
    /// This companion is published in a version that goes with the driver: `driver-has-imex`.
    DriverHas(CompanionId),
    /// About this add-on: `cudnn-for-cuda`.
    AddOn(AddOnId, AddOnRule),
    /// A release of the add-on that was asked for is built for the toolkit: `cuda-has-cudnn`.
    CudaHas(AddOnId),
}

/// What stands before the companion's name in [`Rule::DriverHas`].
const DRIVER_HAS: &str = "driver-has-";

/// What stands before the add-on's name in [`Rule::CudaHas`].
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
        text.parse().map(Self::Of).or_else(|unknown| of_row().ok_or(unknown))
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
        assert_eq!((checks.len(), rules.len()), (CheckId::ALL.len(), RuleId::ALL.len()));
        assert!(CheckId::ALL.is_sorted_by_key(|id| id.as_str()));
        for id in CheckId::ALL {
            assert_eq!((id.as_str().parse(), format!("{id:?}")), (Ok(*id), id.to_string()));
            assert_eq!(id.as_str().to_lowercase().parse(), Ok(*id));
        }
        assert!(RuleId::ALL.iter().all(|rule| rule.as_str().parse() == Ok(*rule)));
        let imex = Rule::DriverHas("imex".parse().expect("an id"));
        assert_eq!(("driver-has-imex".parse(), imex.to_string()), (Ok(imex), "driver-has-imex".to_owned()));
        assert_eq!("driver-has-modules".parse(), Ok(Rule::Of(RuleId::DriverHasModules)));
        assert!("GS000".parse::<CheckId>().is_err_and(|e| e.to_string() == "`GS000` is not known"));
    }

    #[test]
    fn a_name_of_another_version_stays_as_it_is() {
        for (text, known) in [("\"GS201\"", true), ("\"GS999\"", false), ("\"gs201\"", false), ("\"\"", false)] {
            let read: Recorded<CheckId> = serde_json::from_str(text).expect("a text");
            assert_eq!(matches!(read, Recorded::Known(_)), known, "{text}");
            assert_eq!(serde_json::to_string(&read).expect("a text"), text);
        }
        assert!(serde_json::from_str::<Recorded<CheckId>>("7").is_err());
    }
}
