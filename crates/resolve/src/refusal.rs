//! Why a candidate is refused: the rule, as a value. A search refuses thousands of candidates but
//! reports only a few, so only those are explained.

use super::{Method, Request, TargetGpu};
use gpusetup_database::compat::{
    AddOn, AddOnId, CompanionId, Database, DriverBranch, Maturity, ModuleFlavour, VersionRule,
};
use gpusetup_database::version::{AddOnVersion, ComputeCapability, CudaVersion, DriverVersion};
use gpusetup_host::Os;
use std::rc::Rc;

/// A rule that refuses a candidate, with the values for its message. GPUs are indexes into
/// [`Explanation::gpus`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The driver branch is newer than the last one (given) that supports the GPU.
    AfterLastBranch(usize, u16),
    /// The driver branch is older than the first one (given) that supports the GPU.
    BeforeFirstBranch(usize, u16),
    /// The oldest branch (given) that lists the GPU is newer, and the driver was not named.
    NotListed(usize, u16),
    /// The GPU is first listed by a later release (given), and the driver was not named.
    NotYetListed(usize, DriverVersion),
    /// The last branch that supports the first GPU is older than the first branch that supports the
    /// second one.
    BranchesExclude(usize, usize),
    /// The first GPU needs the open kernel modules, the second one the proprietary ones.
    FlavoursExclude(usize, usize),
    /// The GPU does not run with the requested flavour.
    FlavourUnfit(usize, ModuleFlavour),
    /// The driver does not offer the requested flavour here.
    FlavourNotOffered(ModuleFlavour),
    /// The branch (given) offers no flavour here that supports the GPU.
    NoFlavour(usize, u16),
    /// Another version was requested.
    NotWanted,
    /// NVSwitches need this companion, but none is known that matches this driver.
    NoCompanion(CompanionId),
    /// Packages were requested, but this is a runfile.
    NotPackaged,
    /// NVIDIA's repository was requested, but this comes from elsewhere.
    NotInRepository,
    /// NVIDIA's repository may need another one that is not enabled, and it was not requested.
    RepositoryNeedsAnother,
    /// The runfile was requested, but these are packages.
    Packaged,
    /// The file cannot be verified or downloaded, for this reason.
    NoSum(&'static str),
    /// It is a test release.
    PreRelease(Maturity),
    /// The branch is past its end of life.
    BranchOver(u16),
    /// No source gives the GPU's compute capability.
    NoCapability(usize),
    /// The lowest compute capability that the toolkit or add-on supports is higher than the GPU's.
    BelowLowest(usize, ComputeCapability),
    /// The highest compute capability that it supports is lower than the GPU's.
    AboveHighest(usize, ComputeCapability),
    /// It has kernels for lower and higher compute capabilities, but not for this one, the GPU's.
    NoKernels(usize, ComputeCapability),
    /// The toolkit is older than the first (given) that targets the GPU's architecture.
    BeforeArchitecture(usize, CudaVersion),
    /// The toolkit is newer than the last (given) that targets the GPU's architecture.
    AfterArchitecture(usize, CudaVersion),
    /// Toolkits for servers do not support the embedded platform, or only from this series on.
    NotForBoard(usize, Option<CudaVersion>),
    /// The toolkit is newer than the driver of the board's JetPack (its CUDA is given), and was not
    /// named.
    AfterJetPack(CudaVersion),
    /// The kernel is older than this branch supports.
    OldKernel(u16),
    /// It needs a newer driver: the minimum, and the driver considered.
    OldDriver(DriverVersion, DriverVersion),
    /// It fits, but an older one is native to the driver branch: the branch, and its newest native
    /// series.
    NotNative(u16, CudaVersion),
    /// The C library is too old for it.
    OldLibrary,
    /// The C library is too new for its headers.
    NewLibrary,
    /// It has no runfile for the machine's architecture.
    NoRunfile,
    /// The installer in its runfile needs a library that is not packaged for the host, and its
    /// archives are not known.
    NoInstallerLibrary,
    /// Its component archives are not known.
    NoArchives,
    /// No source names packages of its series in the host's repository: the first series that one
    /// names.
    NotPackagedBefore(CudaVersion),
    /// The host's repository installs a newer update of its series.
    OlderUpdate(CudaVersion),
    /// It has no archive of a requested component for the machine's architecture: the index among
    /// the requested components.
    NoComponent(usize),
    /// The newest gcc that its nvcc supports, and the host's newer gcc.
    NewCompiler(u16, u16),
    /// The oldest gcc that its nvcc supports, and the host's older gcc.
    OldCompiler(u16, u16),
    /// It fits, but the installed one fits too and is kept.
    Installed,
    /// It fits, but its kind of installation and the installed driver's would break each other.
    BreaksInstalled,
    /// It fits, but so does a production or long-term branch.
    NotProductionBranch,
    /// It fits, but another branch is supported longer.
    ShorterLife,
    /// It fits, but packages of the same branch are preferred to its runfile.
    RunfileLast,
    /// It fits, but packages of the same branch are in a repository that is enabled already.
    RepositoryLater,
    /// It fits, but so does the branch's default flavour.
    NotDefaultFlavour,
    /// It fits, but its packages are made for servers, and the host has a desktop.
    ForServers,
    /// It fits, but its packages are not those for servers, and all GPUs are made for data centres.
    ForDesktops,
    /// It fits, but lacks fixes of security bulletins that another one has.
    LacksFixes,
    /// It fits, but Secure Boot is on, and the distribution has signed the modules of another one.
    Unsigned,
    /// No requested release of the add-on is built for it.
    NoAddOn(AddOnId),
    /// No source gives its requirements.
    Unknown,
    /// The add-on is not built for this toolkit's CUDA series.
    OtherLine(CudaVersion),
}

/// The layers of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    Driver,
    /// The toolkit.
    Cuda,
    AddOn(AddOnId),
}

/// The context for the message of a refusal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Explanation<'a> {
    /// The compatibility database.
    pub(crate) database: &'a Database,
    /// The GPUs that refusals refer to by index.
    pub(crate) gpus: &'a [Rc<TargetGpu>],
    pub(crate) request: &'a Request,
    /// The machine architecture.
    pub(crate) arch: &'a str,
    /// The version of the host's C library.
    pub(crate) glibc: Option<&'a str>,
    /// The kernel that will run.
    pub(crate) kernel: Option<&'a str>,
    /// The host's operating system.
    pub(crate) os: &'a Os,
    /// Why the host's packages are not known; none if they are.
    pub(crate) unpackaged: Option<Unpackaged>,
    /// Whether the lists of its repositories were read: only then it is known what they lack.
    pub(crate) has_lists: bool,
    /// Whether the database knows a repository of drivers for the host that is or can be added.
    pub(crate) addable: bool,
    /// The newest branch in such a repository that depends on another one, and that one's name, if
    /// it is not enabled.
    pub(crate) incomplete: Option<(u16, &'a str)>,
}

impl Explanation<'_> {
    /// That no repository of the host's own has something, as far as that is known.
    pub(crate) fn no_other_repository(&self) -> &'static str {
        match self.has_lists {
            true => "no enabled repository",
            false => "no other known repository",
        }
    }

    /// What is said before something that is not in the host's repositories, as far as known.
    pub(crate) fn no_package(&self) -> &'static str {
        match self.has_lists {
            true => "no enabled repository has",
            false => "gpusetup knows no enabled repository with",
        }
    }
}

/// Why the driver packages of a host are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unpackaged {
    /// The database does not know the distribution.
    Unknown,
    /// The database knows the distribution, but no driver packages of it.
    Unlisted,
    /// The database does not know the release, and the package manager's lists are missing.
    ListsMissing,
}

impl Refusal {
    /// What was asked for, and what is lacking for it, if the refusal is of a method and concerns
    /// no driver in particular.
    pub(crate) fn of_method(self, context: &Explanation) -> Option<(&'static str, String)> {
        let os = &context.os.name;
        match self {
            Self::NotPackaged => {
                let lacking = match context.unpackaged {
                    None => format!("{} a driver that fits", context.no_package()),
                    Some(Unpackaged::Unknown) => {
                        format!("the database does not know the packages of {os}")
                    }
                    Some(Unpackaged::Unlisted) => {
                        format!("the database lists no driver packages of {os}")
                    }
                    Some(Unpackaged::ListsMissing) => format!(
                        "the package lists of {os}, which name its drivers, are missing ({})",
                        gpusetup_causes::fetch_lists(context.os.package_manager)
                            .commands
                            .concat()
                    ),
                };
                Some(("packages were requested", lacking))
            }
            Self::NotInRepository if context.addable => Some((
                "NVIDIA's repository was requested",
                "it has no driver here that fits".to_owned(),
            )),
            Self::NotInRepository => {
                let lacking = format!(
                    "the database knows none with a driver for {os} on {}",
                    context.arch
                );
                Some(("NVIDIA's repository was requested", lacking))
            }
            _ => None,
        }
    }

    pub(super) fn of_no_driver(self, context: &Explanation) -> String {
        self.of_method(context)
            .map(|(asked, lacking)| format!("{asked}, but {lacking}"))
            .unwrap_or_default()
    }

    /// What a toolkit lacks, if it is refused for its files.
    pub(crate) fn of_files(self) -> Option<&'static str> {
        match self {
            Self::NoRunfile | Self::NoSum(_) => Some("a verified runfile"),
            Self::NoArchives | Self::NoComponent(_) => Some("known archives"),
            Self::NoInstallerLibrary => Some("an installer that runs here without libxml2.so.2"),
            _ => None,
        }
    }

    /// Whether a refused driver runfile shows that no other runfile of its branch fits.
    pub(crate) fn is_of_branch(self) -> bool {
        matches!(
            self,
            Self::AfterLastBranch(..)
                | Self::BeforeFirstBranch(..)
                | Self::NotListed(..)
                | Self::FlavoursExclude(..)
                | Self::FlavourUnfit(..)
                | Self::FlavourNotOffered(_)
                | Self::NoFlavour(..)
                | Self::NotPackaged
                | Self::NotInRepository
                | Self::OldKernel(_)
        )
    }

    /// How near the candidate came to being chosen: of several refusals, the nearest is reported.
    /// Checksums are checked last.
    pub(crate) fn came_far(self) -> usize {
        match self {
            Self::NoSum(_) => 6,
            Self::NewCompiler(..) | Self::OldCompiler(..) => 5,
            Self::OldLibrary | Self::NewLibrary => 4,
            Self::NoComponent(_) => 3,
            Self::OldDriver(..)
            | Self::NoArchives
            | Self::NoInstallerLibrary
            | Self::NotPackagedBefore(_)
            | Self::OlderUpdate(_) => 2,
            Self::NoCapability(_)
            | Self::BelowLowest(..)
            | Self::AboveHighest(..)
            | Self::NoKernels(..)
            | Self::BeforeArchitecture(..)
            | Self::AfterArchitecture(..)
            | Self::NotForBoard(..) => 1,
            _ => 0,
        }
    }
}

/// A refused candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject<'a> {
    Driver(DriverVersion),
    /// A toolkit.
    Cuda(CudaVersion),
    /// A release of an add-on, of a CUDA line.
    AddOn(&'a AddOn, AddOnVersion, &'a str),
}

impl Subject<'_> {
    /// Its name in messages: `CUDA 13.0.3`.
    pub(crate) fn named(&self) -> String {
        match self {
            Self::Driver(version) => format!("driver {version}"),
            Self::Cuda(version) => format!("CUDA {version}"),
            Self::AddOn(of, version, _) => format!("{} {version}", of.title),
        }
    }

    /// Its layer of the stack.
    pub(crate) fn layer(&self) -> Layer {
        match self {
            Self::Driver(_) => Layer::Driver,
            Self::Cuda(_) => Layer::Cuda,
            Self::AddOn(of, ..) => Layer::AddOn(of.id),
        }
    }
}

impl std::fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Driver(version) => write!(f, "driver {version}"),
            Self::Cuda(version) => write!(f, "cuda {version}"),
            Self::AddOn(of, version, line) => write!(f, "{} {version} for CUDA {line}", of.id),
        }
    }
}

/// When a branch's support ended, after its name: "reached its end of life in 2024-06".
pub(crate) fn end(branch: &DriverBranch) -> String {
    match (&branch.end_of_life, &branch.latest_release) {
        (Some(end), _) => format!("reached its end of life in {end}"),
        (None, Some(last)) => format!("had its last release in {last}"),
        (None, None) => "has had no release for years".to_owned(),
    }
}

/// The companion that NVSwitches need, and its version.
pub(crate) fn needed_companion(id: CompanionId, context: &Explanation) -> String {
    let title = context.database.companion_title(id);
    let is_of_branch = context
        .database
        .companion(id)
        .is_some_and(|c| c.version == VersionRule::Branch);
    let version = if is_of_branch {
        "the driver's branch"
    } else {
        "exactly the driver's version"
    };
    format!("the NVSwitches of this host need {title} of {version}")
}

/// What a driver lacks whose companion cannot be had.
pub(crate) fn lacking_companion(context: &Explanation) -> String {
    match context.request.method {
        Method::Packages => format!("{} it", context.no_package()),
        Method::Auto | Method::Repository | Method::Runfile => {
            "none is known for this driver".to_owned()
        }
    }
}

/// Why a runfile cannot be used on a system.
pub(crate) fn installer_library(system: &str) -> String {
    format!(
        "the installer in its runfile needs libxml2.so.2, but no package of it is known for {system}"
    )
}
