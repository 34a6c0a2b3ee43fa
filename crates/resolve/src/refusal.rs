//! Why a candidate is refused: the rule, as a value. A search refuses thousands of candidates but
//! reports only a few, so messages are created only for those. The same values give the facts of a
//! derivation, each with its source.

use super::{Card, Method, Rejection, Request, ToolkitMethod};
use gpusetup_database::compat::{
    AddOn, AddOnId, CompanionId, Database, DriverBranch, Maturity, ModuleFlavour, VersionRule,
};
use gpusetup_database::version::{
    AddOnVersion, ComputeCapability, CudaVersion, DriverVersion, Want,
};
use gpusetup_host::Os;
use gpusetup_text::ids::{AddOnRule, Rule, RuleId};
use std::fmt::Write;
use std::rc::Rc;

/// As `format!`, with room for a sentence from the start: a plan has dozens of them.
macro_rules! text {
    ($($parts:tt)*) => {{
        let mut text = String::with_capacity(96);
        // Writing to a text cannot fail.
        let _ = write!(text, $($parts)*);
        text
    }};
}

/// A rule that refuses a candidate, with the values for its message. GPUs are indexes into
/// [`Explanation::cards`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
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
    Unripe(Maturity),
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
    /// It fits, but the installed one fits too and is kept.
    Installed,
    /// It fits, but so does a production or long-term branch.
    Unsteady,
    /// It fits, but another branch is supported longer.
    ShorterLife,
    /// It fits, but packages of the same branch are preferred to its runfile.
    RunfileLast,
    /// It fits, but packages of the same branch are in a repository that is enabled already.
    RepositoryLater,
    /// It fits, but so does the branch's default flavour.
    UnusualFlavour,
    /// It fits, but its packages are made for servers, and the host has a desktop.
    ForServers,
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
pub enum Layer {
    /// The driver.
    Driver,
    /// The toolkit.
    Cuda,
    /// An add-on.
    AddOn(AddOnId),
}

/// The context for the message of a refusal.
#[derive(Debug, Clone, Copy)]
pub struct Explanation<'a> {
    /// The compatibility database.
    pub database: &'a Database,
    /// The GPUs that refusals refer to by index.
    pub cards: &'a [Rc<Card>],
    /// The request.
    pub request: &'a Request,
    /// The machine architecture.
    pub arch: &'a str,
    /// The version of the host's C library.
    pub glibc: Option<&'a str>,
    /// The kernel that will run.
    pub kernel: Option<&'a str>,
    /// The host's operating system.
    pub os: &'a Os,
    /// Why the host's packages are not known; none if they are.
    pub unpackaged: Option<Unpackaged>,
    /// Whether the database knows a repository of drivers for the host that is or can be added.
    pub addable: bool,
    /// The newest branch in such a repository that depends on another one, and that one's name, if
    /// it is not enabled.
    pub incomplete: Option<(u16, &'a str)>,
}

/// Why the driver packages of a host are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpackaged {
    /// The database does not know the distribution.
    Unknown,
    /// The database knows the distribution, but no driver packages of it.
    Unlisted,
    /// The database does not know the release, and the package manager's lists are missing.
    Untold,
}

impl Refusal {
    /// What was asked for, and what is lacking for it, if the refusal is of a method and concerns
    /// no driver in particular.
    pub fn of_method(self, told: &Explanation) -> Option<(&'static str, String)> {
        let os = &told.os.name;
        match self {
            Self::NotPackaged => {
                let lacking = match told.unpackaged {
                    None => "no enabled repository has a driver that fits".to_owned(),
                    Some(Unpackaged::Unknown) => {
                        text!("the database does not know the packages of {os}")
                    }
                    Some(Unpackaged::Unlisted) => {
                        text!("the database lists no driver packages of {os}")
                    }
                    Some(Unpackaged::Untold) => text!(
                        "the package lists of {os}, which name its drivers, are missing ({})",
                        gpusetup_causes::fetch_lists(told.os.package_manager)
                            .commands
                            .concat()
                    ),
                };
                Some(("packages were requested", lacking))
            }
            Self::NotInRepository if told.addable => Some((
                "NVIDIA's repository was requested",
                "it has no driver here that fits".to_owned(),
            )),
            Self::NotInRepository => {
                let lacking = text!(
                    "the database knows none with a driver for {os} on {}",
                    told.arch
                );
                Some(("NVIDIA's repository was requested", lacking))
            }
            _ => None,
        }
    }

    fn of_no_driver(self, told: &Explanation) -> String {
        self.of_method(told)
            .map(|(asked, lacking)| text!("{asked}, but {lacking}"))
            .unwrap_or_default()
    }

    /// What a toolkit lacks, if it is refused for its files.
    pub fn of_files(self) -> Option<&'static str> {
        match self {
            Self::NoRunfile | Self::NoSum(_) => Some("a verified runfile"),
            Self::NoArchives | Self::NoInstallerLibrary | Self::NoComponent(_) => {
                Some("known archives")
            }
            _ => None,
        }
    }

    /// The rule's name.
    pub fn rule(self, of: Layer) -> Rule {
        match (self, of) {
            (Self::NoAddOn(id), _) => Rule::CudaHas(id),
            (Self::NoCompanion(id), _) => Rule::DriverHas(id),
            (_, Layer::AddOn(id)) => Rule::AddOn(id, self.add_on_rule()),
            (_, Layer::Driver | Layer::Cuda) => Rule::Of(self.rule_of_layer(of)),
        }
    }

    /// The rule, for a refused add-on.
    fn add_on_rule(self) -> AddOnRule {
        match self {
            Self::OtherLine(_) => AddOnRule::ForCuda,
            Self::BelowLowest(..) | Self::AboveHighest(..) | Self::NoKernels(..) => {
                AddOnRule::RunsOnGpu
            }
            Self::OldDriver(..) => AddOnRule::RunsOnDriver,
            Self::OldLibrary => AddOnRule::CLibrary,
            Self::NotWanted => AddOnRule::Wanted,
            Self::NoSum(_) => AddOnRule::Published,
            Self::Installed => AddOnRule::Kept,
            _ => AddOnRule::Known,
        }
    }

    fn rule_of_layer(self, of: Layer) -> RuleId {
        match (self, of) {
            (
                Self::AfterLastBranch(..)
                | Self::BeforeFirstBranch(..)
                | Self::NotListed(..)
                | Self::NotYetListed(..)
                | Self::BranchesExclude(..),
                _,
            ) => RuleId::DriverKnowsGpu,
            (Self::FlavoursExclude(..) | Self::FlavourUnfit(..) | Self::NoFlavour(..), _) => {
                RuleId::DriverHasModules
            }
            (Self::FlavourNotOffered(_), _) => RuleId::ModulesWanted,
            (
                Self::NotPackaged
                | Self::NotInRepository
                | Self::RepositoryNeedsAnother
                | Self::Packaged,
                _,
            ) => RuleId::DriverMethod,
            (Self::Unripe(_), _) => RuleId::DriverReleaseKind,
            (Self::BranchOver(_), _) => RuleId::DriverBranchLife,
            (Self::NotWanted, Layer::Driver) => RuleId::DriverWanted,
            (Self::NotWanted | Self::Unknown | Self::OtherLine(_) | Self::NoAddOn(_), _) => {
                RuleId::CudaWanted
            }
            (Self::NoSum(_), Layer::Driver) | (Self::NoCompanion(_), _) => RuleId::DriverPublished,
            (
                Self::NoSum(_)
                | Self::NoRunfile
                | Self::NotPackagedBefore(_)
                | Self::OlderUpdate(_),
                _,
            ) => RuleId::CudaPublished,
            (
                Self::NoCapability(_)
                | Self::BelowLowest(..)
                | Self::AboveHighest(..)
                | Self::NoKernels(..)
                | Self::BeforeArchitecture(..)
                | Self::AfterArchitecture(..)
                | Self::NotForBoard(..),
                _,
            ) => RuleId::CudaTargetsGpu,
            (Self::OldKernel(_), _) => RuleId::DriverRunsOnKernel,
            (Self::OldDriver(..) | Self::AfterJetPack(_), _) => RuleId::CudaRunsOnDriver,
            (Self::NotNative(..), _) => RuleId::CudaNativeDriver,
            (Self::OldLibrary, _) => RuleId::CudaCLibrary,
            (Self::NewLibrary, _) => RuleId::CudaHostHeaders,
            (Self::NoArchives | Self::NoComponent(_) | Self::NoInstallerLibrary, _) => {
                RuleId::CudaComponents
            }
            (Self::NewCompiler(..), _) => RuleId::CudaHostCompiler,
            (Self::Installed, Layer::Driver) => RuleId::DriverKept,
            (Self::Installed, _) => RuleId::CudaKept,
            (
                Self::Unsteady
                | Self::ShorterLife
                | Self::RunfileLast
                | Self::RepositoryLater
                | Self::UnusualFlavour
                | Self::ForServers
                | Self::Unsigned,
                _,
            ) => RuleId::DriverPreference,
        }
    }

    /// The reason, to follow the candidate's name: "it targets 7.5 and up; Tesla V100 has compute
    /// capability 7.0".
    pub fn because(self, of: &Subject, told: &Explanation) -> String {
        let name = |card: usize| told.cards.get(card).map_or("a GPU", |c| c.name.as_str());
        let whose = |card: usize| match told.cards.get(card).and_then(|c| c.capability) {
            Some(capability) => text!("{} has compute capability {capability}", name(card)),
            None => name(card).to_owned(),
        };
        match self {
            Self::AfterLastBranch(card, last) => gpusetup_causes::last_branch(last, name(card)),
            Self::BeforeFirstBranch(card, first) => gpusetup_causes::first_branch(first, name(card)),
            Self::NotListed(card, sure) => {
                text!("{} is listed only since branch {sure}; use --driver to choose it anyway", name(card))
            }
            Self::NotYetListed(card, first) => {
                text!(
                    "it does not list {}; {first} is the next release that does. Use --driver to choose it anyway",
                    name(card)
                )
            }
            Self::BranchesExclude(old, new) => {
                let number = |b: Option<u16>| b.map(|b| b.to_string()).unwrap_or_default();
                let last = number(told.cards.get(old).and_then(|c| c.last_branch));
                let first = number(told.cards.get(new).and_then(|c| c.first_branch));
                text!("branch {last} is the last that supports {}, but {} needs {first} or newer", name(old), name(new))
            }
            Self::FlavoursExclude(open, proprietary) => {
                text!("{} needs the open kernel modules, {} the proprietary ones", name(open), name(proprietary))
            }
            Self::FlavourUnfit(card, asked) => {
                text!(
                    "{}, but the {asked} ones were requested",
                    gpusetup_causes::needs_modules(name(card), asked.other())
                )
            }
            Self::FlavourNotOffered(asked) => text!("it offers no {asked} kernel modules here"),
            Self::NoFlavour(card, branch) => {
                text!("branch {branch} offers no kernel modules here that support {}", name(card))
            }
            Self::NotWanted => {
                let asked = match of {
                    Subject::Driver(_) => told.request.driver.to_string(),
                    Subject::Cuda(_) => told.request.cuda.to_string(),
                    Subject::AddOn(of, ..) => told.request.add_on(of.id).to_string(),
                };
                text!("{asked} was requested")
            }
            Self::NotPackaged if told.unpackaged.is_none() => {
                "packages were requested, but no enabled repository has it".to_owned()
            }
            Self::NotPackaged => self.of_no_driver(told),
            Self::NoCompanion(id) => {
                text!("{}, but {}", needed_companion(id, told), lacking_companion(told.request.method))
            }
            Self::NotInRepository if told.addable => {
                "NVIDIA's repository was requested, but it does not offer this driver here".to_owned()
            }
            Self::NotInRepository => self.of_no_driver(told),
            Self::RepositoryNeedsAnother => {
                "its packages in NVIDIA's repository may need another repository, which is not enabled on this \
                                              host (--method repository takes them anyway)"
                    .to_owned()
            }
            Self::Packaged => "the runfile was requested".to_owned(),
            Self::NoSum(what) => what.to_owned(),
            Self::Unripe(maturity) => match maturity {
                Maturity::Beta => "it is a beta release",
                Maturity::VulkanBeta => "it is a release for Vulkan developers",
                _ => "no source says whether it is a stable release",
            }
            .to_owned(),
            Self::BranchOver(number) => {
                let how = told.database.branch(number).map(end).unwrap_or_default();
                text!("branch {number} {how}")
            }
            Self::NoCapability(card) => text!("no source gives the compute capability of {}", name(card)),
            Self::BelowLowest(card, lowest) if matches!(of, Subject::AddOn(..)) => {
                text!("it needs compute capability {lowest} or higher; {}", whose(card))
            }
            Self::BelowLowest(card, lowest) => text!("it targets {lowest} and up; {}", whose(card)),
            Self::AboveHighest(card, highest) if matches!(of, Subject::AddOn(..)) => {
                text!("it supports {highest} at most; {}", whose(card))
            }
            Self::AboveHighest(card, highest) => text!("it targets {highest} at most; {}", whose(card)),
            Self::NoKernels(card, capability) => text!("it has no kernels for {capability}; {}", whose(card)),
            Self::BeforeArchitecture(card, first) => {
                let family = told.cards.get(card).and_then(|c| told.database.architecture(c.capability?));
                let family = family.map_or("the architecture", |a| &a.name);
                text!("{family} needs CUDA {first} or newer; {}", whose(card))
            }
            Self::AfterArchitecture(card, last) => {
                let capability = told.cards.get(card).and_then(|c| c.capability);
                let capability = capability.map(|c| c.to_string()).unwrap_or_default();
                text!("CUDA {last} was the last for {capability}; {}", whose(card))
            }
            Self::OldDriver(least, have) => gpusetup_causes::oldest_driver(least, have),
            Self::NotNative(branch, native) => {
                text!(
                    "driver branch {branch} natively supports CUDA {native} and older, and loads no PTX of newer releases; \
                     use --cuda {} to choose it anyway",
                    release(of, told).map_or(native, |r| r.version).series()
                )
            }
            Self::NotForBoard(card, first) => {
                let platform = told.cards.get(card).and_then(|c| c.embedded.as_deref()).unwrap_or("the board");
                match first {
                    Some(first) => {
                        text!("CUDA {first} is the first toolkit for servers (sbsa) that supports {platform}")
                    }
                    None => {
                        let capability = told.cards.get(card).and_then(|c| c.capability);
                        let first = capability.and_then(|board| told.database.first_jetpack_with_sbsa(board));
                        match first.map(|first| &first.jetpack) {
                            Some(first) => text!(
                                "toolkits for servers (sbsa) support {platform} from JetPack {first} on, which this host is not \
                                 known to have. There, install one from NVIDIA's CUDA repository, otherwise the toolkit of JetPack"
                            ),
                            None => {
                                text!("no toolkit for servers (sbsa) supports {platform}; use the toolkit of JetPack")
                            }
                        }
                    }
                }
            }
            Self::AfterJetPack(cuda) => {
                text!(
                    "the driver of this JetPack runs CUDA {cuda}; newer ones need NVIDIA's upgrade package (cuda-compat), and use \
                     --cuda {}",
                    release(of, told).map_or(cuda, |r| r.version).series()
                )
            }
            Self::OldKernel(number) => {
                let oldest = told.database.branch(number).and_then(|b| b.oldest_kernel.as_deref()).unwrap_or("?");
                let have = told.kernel.unwrap_or("?");
                text!("branch {number} needs Linux {oldest} or newer, but the host boots kernel {have}")
            }
            Self::OldLibrary => {
                let least = oldest_library(of, told).unwrap_or("?");
                text!("it needs glibc {least} or newer, but the host has {}", told.glibc.unwrap_or("?"))
            }
            Self::NewLibrary => {
                let from =
                    release(of, told).and_then(|r| r.first_breaking_glibc(super::cuda_arch(told.arch))).unwrap_or("?");
                let have = told.glibc.unwrap_or("?");
                text!("its headers do not compile with glibc {from} and newer; this host has {have}")
            }
            Self::NoRunfile => text!("it has no runfile for {}", told.arch),
            Self::NoInstallerLibrary if told.request.toolkit_method == ToolkitMethod::Runfile => {
                text!("the runfile was requested, but {}", installer_library(&told.os.name))
            }
            Self::NoInstallerLibrary => {
                text!("{}, and its component archives are not known", installer_library(&told.os.name))
            }
            Self::NoArchives => "its component archives are not known".to_owned(),
            Self::NotPackagedBefore(first) => {
                text!(
                    "packages were requested, and NVIDIA's repository for {} is known to have them from CUDA {first} on",
                    told.os.name
                )
            }
            Self::OlderUpdate(newest) => {
                text!(
                    "packages were requested, and those of CUDA {} install its newest update, {newest}",
                    newest.series()
                )
            }
            Self::NoComponent(n) => {
                let named = super::component::named(told.database, told.request).unwrap_or_default();
                let name = named.get(n).map_or("such component", |c| c.short());
                text!("it has no {name} for {}", told.arch)
            }
            Self::NewCompiler(most, have) => gpusetup_causes::newest_gcc(most, have),
            Self::Installed => "the installed version fits and is kept; use --upgrade to choose the newest".to_owned(),
            Self::Unsteady => {
                "its branch is neither production nor long-term; use --prefer latest to choose it".to_owned()
            }
            Self::ShorterLife => "another branch is supported longer".to_owned(),
            Self::RunfileLast => {
                "packages are preferred because they follow system updates; use --method runfile to choose it"
                    .to_owned()
            }
            Self::RepositoryLater => {
                "packages of the same branch are in a repository that is enabled; use --method repository to choose it"
                    .to_owned()
            }
            Self::UnusualFlavour => "its modules are not of the branch's default flavour".to_owned(),
            Self::ForServers => text!("{} makes its packages for servers, and this is a desktop", told.os.name),
            Self::Unsigned => text!("with Secure Boot on, modules that {} has signed are preferred", told.os.name),
            Self::NoAddOn(id) => {
                let (title, asked) = (told.database.add_on_title(id), told.request.add_on(id));
                let asked = if *asked == Want::Best { String::new() } else { text!(" {asked}") };
                text!("no {title}{asked} is built for it")
            }
            Self::Unknown => "no source gives its requirements".to_owned(),
            Self::OtherLine(series) => {
                let line = if let Subject::AddOn(_, _, line) = of { line } else { "another line" };
                text!("it is built for CUDA {line}, not for {series}")
            }
        }
    }

    /// Whether a refused driver runfile shows that no other runfile of its branch fits.
    pub fn is_of_branch(self) -> bool {
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

    /// The entry in a plan's `rejected`.
    pub fn rejection(self, of: &Subject, told: &Explanation) -> Rejection {
        Rejection {
            candidate: text!("{of}"),
            because: self.because(of, told),
            rule: self.rule(of.layer()).into(),
        }
    }

    /// How near the candidate came to being chosen: of several refusals, the nearest is reported.
    /// Checksums are checked last.
    pub fn came_far(self) -> usize {
        match self {
            Self::NoSum(_) => 6,
            Self::NewCompiler(..) => 5,
            Self::OldLibrary | Self::NewLibrary => 4,
            Self::NoComponent(_) => 3,
            Self::OldDriver(..)
            | Self::NoArchives
            | Self::NoInstallerLibrary
            | Self::NotPackagedBefore(_)
            | Self::OlderUpdate(_) => 2,
            _ if self.rule(Layer::Cuda) == RuleId::CudaTargetsGpu => 1,
            _ => 0,
        }
    }
}

/// A refused candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject<'a> {
    /// A driver.
    Driver(DriverVersion),
    /// A toolkit.
    Cuda(CudaVersion),
    /// A release of an add-on, of a CUDA line.
    AddOn(&'a AddOn, AddOnVersion, &'a str),
}

impl Subject<'_> {
    /// Its name in messages: `CUDA 13.0.3`.
    pub fn named(&self) -> String {
        match self {
            Self::Driver(version) => format!("driver {version}"),
            Self::Cuda(version) => format!("CUDA {version}"),
            Self::AddOn(of, version, _) => format!("{} {version}", of.title),
        }
    }

    /// Its layer of the stack.
    pub fn layer(&self) -> Layer {
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

fn release<'a>(
    of: &Subject,
    told: &Explanation<'a>,
) -> Option<&'a gpusetup_database::compat::CudaRelease> {
    if let Subject::Cuda(version) = of {
        told.database.cuda(*version)
    } else {
        None
    }
}

/// The oldest glibc that a toolkit or an add-on supports.
fn oldest_library<'a>(of: &Subject, told: &Explanation<'a>) -> Option<&'a str> {
    match of {
        Subject::AddOn(of, version, line) => told
            .database
            .add_on_range(of.id, *version, line)?
            .glibc_min
            .as_deref(),
        _ => release(of, told)?.glibc_min.as_deref(),
    }
}

/// When a branch's support ended, after its name: "reached its end of life in 2024-06".
pub fn end(branch: &DriverBranch) -> String {
    match (&branch.end_of_life, &branch.latest_release) {
        (Some(end), _) => format!("reached its end of life in {end}"),
        (None, Some(last)) => format!("had its last release in {last}"),
        (None, None) => "has had no release for years".to_owned(),
    }
}

/// The companion that NVSwitches need, and its version.
pub fn needed_companion(id: CompanionId, told: &Explanation) -> String {
    let title = told.database.companion_title(id);
    let is_of_branch = told
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
pub fn lacking_companion(method: Method) -> &'static str {
    match method {
        Method::Packages => "no enabled repository has it",
        Method::Auto | Method::Repository | Method::Runfile => "none is known for this driver",
    }
}

/// Why a runfile cannot be used on a system.
pub fn installer_library(system: &str) -> String {
    format!(
        "the installer in its runfile needs libxml2.so.2, but no package of it is known for {system}"
    )
}
