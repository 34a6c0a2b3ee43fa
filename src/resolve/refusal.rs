//! Why a candidate is refused: the rule, as a value. A search refuses thousands of candidates and tells of a few, so
//! sentences are made only of those; the same values give the facts of a derivation, each with its source.

use super::{Card, Rejection, Request};
use crate::causes;
use crate::compat::{AddOn, AddOnId, CompanionId, Database, DriverBranch, Maturity, ModuleFlavour, VersionRule};
use crate::host::Os;
use crate::ids::{AddOnRule, Rule, RuleId};
use crate::version::{AddOnVersion, ComputeCapability, CudaVersion, DriverVersion, Want};

/// A rule that refuses a candidate, with what it needs to say so. Cards are meant by their place in [`Explanation::cards`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A later driver branch than the last that knows the card.
    AfterLastBranch(usize, u16),
    /// An earlier driver branch than the first that knows the card.
    BeforeFirstBranch(usize, u16),
    /// No list of so old a branch has the card, and the driver was not named.
    NotListed(usize, u16),
    /// The card is first listed by a later release, this one, and the driver was not named.
    NotYetListed(usize, DriverVersion),
    /// The last branch that knows the one card is older than the first that knows the other.
    BranchesExclude(usize, usize),
    /// One card runs the open kernel modules only, another the proprietary ones only.
    FlavoursExclude(usize, usize),
    /// The card does not run the flavour that was asked for.
    FlavourUnfit(usize, ModuleFlavour),
    /// The driver has no modules here of the flavour that was asked for, whichever card runs them.
    FlavourNotOffered(ModuleFlavour),
    /// The branch has no flavour here that runs the card.
    NoFlavour(usize, u16),
    /// Another version was asked for.
    NotWanted,
    /// NVSwitches join the GPUs, and what they need is not known in a version that goes with this one.
    NoCompanion(CompanionId),
    /// Packages were asked for.
    NotPackaged,
    /// The runfile was asked for.
    Packaged,
    /// No sum of the file is known.
    NoSum(&'static str),
    /// A release that is not for everybody.
    Unripe(Maturity),
    /// The branch's life is over.
    BranchOver(u16),
    /// No source gives the card's compute capability.
    NoCapability(usize),
    /// The toolkit or add-on begins above the card.
    BelowLowest(usize, ComputeCapability),
    /// It ends below the card.
    AboveHighest(usize, ComputeCapability),
    /// It has kernels for older and newer GPUs than the card, and none for its capability.
    NoKernels(usize, ComputeCapability),
    /// The toolkit came before the card's architecture.
    BeforeArchitecture(usize, CudaVersion),
    /// The toolkit came after the last that targets the card's architecture.
    AfterArchitecture(usize, CudaVersion),
    /// Toolkits for servers do not serve the embedded platform, or only from this series on.
    NotForBoard(usize, Option<CudaVersion>),
    /// The kernel is older than the branch supports: the branch.
    OldKernel(u16),
    /// The layer needs a newer driver: at least, and what there is.
    OldDriver(DriverVersion, DriverVersion),
    /// It fits, and an older one is native to the driver branch: the branch, and its newest native series.
    NotNative(u16, CudaVersion),
    /// The C library is too old for it.
    OldLibrary,
    /// Its headers do not compile with so new a C library.
    NewLibrary,
    /// There is no runfile for the machine's architecture.
    NoRunfile,
    /// The installer in its runfile loads a library of which the host has no package, and archives are not known.
    NoInstallerLibrary,
    /// No component archives of it are known.
    NoArchives,
    /// It does not have this one of the components that were named, each counted once, for the machine's architecture.
    NoComponent(usize),
    /// Its nvcc takes this gcc at most; this is the host's.
    NewCompiler(u16, u16),
    /// It fits, and the one that is installed fits too.
    Installed,
    /// It fits, and a steadier branch does too.
    Unsteady,
    /// It fits, and another branch is cared for longer.
    ShorterLife,
    /// It fits, and packages of the same branch come before its runfile.
    RunfileLast,
    /// It fits, and the branch's own default flavour does too.
    UnusualFlavour,
    /// No release of the add-on that was asked for is built for it.
    NoAddOn(AddOnId),
    /// No source says what it needs.
    Unknown,
    /// The add-on is built for another CUDA line than this toolkit's.
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

/// What a refusal is told with.
#[derive(Debug, Clone, Copy)]
pub struct Explanation<'a> {
    /// The facts it refers to.
    pub database: &'a Database,
    /// The cards that it names.
    pub cards: &'a [Card],
    /// What was asked for.
    pub request: &'a Request,
    /// The machine architecture.
    pub arch: &'a str,
    /// The host's C library.
    pub glibc: Option<&'a str>,
    /// The kernel that will run.
    pub kernel: Option<&'a str>,
    /// The host's system.
    pub os: &'a Os,
    /// Why nothing is known of the host's packages, where that is so.
    pub unpackaged: Option<Unpackaged>,
}

/// Why nothing is known of the driver packages of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpackaged {
    /// The database does not know the distribution.
    Unknown,
    /// It knows the distribution, and no driver packages of it.
    Unlisted,
    /// It does not know the release, and the package manager does not tell what there is.
    Untold,
}

impl Refusal {
    /// The rule's name.
    pub fn rule(self, of: Layer) -> Rule {
        match (self, of) {
            (Self::NoAddOn(id), _) => Rule::CudaHas(id),
            (Self::NoCompanion(id), _) => Rule::DriverHas(id),
            (_, Layer::AddOn(id)) => Rule::AddOn(id, self.add_on_rule()),
            (_, Layer::Driver | Layer::Cuda) => Rule::Of(self.rule_of_layer(of)),
        }
    }

    /// The rule about an add-on that it is.
    fn add_on_rule(self) -> AddOnRule {
        match self {
            Self::OtherLine(_) => AddOnRule::ForCuda,
            Self::BelowLowest(..) | Self::AboveHighest(..) | Self::NoKernels(..) => AddOnRule::RunsOnGpu,
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
            (Self::FlavoursExclude(..) | Self::FlavourUnfit(..) | Self::NoFlavour(..), _) => RuleId::DriverHasModules,
            (Self::FlavourNotOffered(_), _) => RuleId::ModulesWanted,
            (Self::NotPackaged | Self::Packaged, _) => RuleId::DriverMethod,
            (Self::Unripe(_), _) => RuleId::DriverReleaseKind,
            (Self::BranchOver(_), _) => RuleId::DriverBranchLife,
            (Self::NotWanted, Layer::Driver) => RuleId::DriverWanted,
            (Self::NotWanted | Self::Unknown | Self::OtherLine(_) | Self::NoAddOn(_), _) => RuleId::CudaWanted,
            (Self::NoSum(_), Layer::Driver) | (Self::NoCompanion(_), _) => RuleId::DriverPublished,
            (Self::NoSum(_) | Self::NoRunfile, _) => RuleId::CudaPublished,
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
            (Self::OldDriver(..), _) => RuleId::CudaRunsOnDriver,
            (Self::NotNative(..), _) => RuleId::CudaNativeDriver,
            (Self::OldLibrary, _) => RuleId::CudaCLibrary,
            (Self::NewLibrary, _) => RuleId::CudaHostHeaders,
            (Self::NoArchives | Self::NoComponent(_) | Self::NoInstallerLibrary, _) => RuleId::CudaComponents,
            (Self::NewCompiler(..), _) => RuleId::CudaHostCompiler,
            (Self::Installed, Layer::Driver) => RuleId::DriverKept,
            (Self::Installed, _) => RuleId::CudaKept,
            (Self::Unsteady | Self::ShorterLife | Self::RunfileLast | Self::UnusualFlavour, _) => {
                RuleId::DriverPreference
            }
        }
    }

    /// The sentence, which begins in the middle: "it targets 7.5 and up; Tesla V100 is compute capability 7.0".
    pub fn because(self, of: &Subject, told: &Explanation) -> String {
        let name = |card: usize| told.cards.get(card).map_or("a card", |c| c.name.as_str());
        let whose = |card: usize| match told.cards.get(card).and_then(|c| c.capability) {
            Some(capability) => format!("{} is compute capability {capability}", name(card)),
            None => name(card).to_owned(),
        };
        match self {
            Self::AfterLastBranch(card, last) => causes::last_branch(last, name(card)),
            Self::BeforeFirstBranch(card, first) => causes::first_branch(first, name(card)),
            Self::NotListed(card, sure) => {
                format!("the oldest list that has {} is of branch {sure}; named with --driver it is taken", name(card))
            }
            Self::NotYetListed(card, first) => {
                format!(
                    "its list of GPUs does not have {}; {first} is the next that does. Named with --driver it is taken",
                    name(card)
                )
            }
            Self::BranchesExclude(old, new) => {
                let number = |b: Option<u16>| b.map(|b| b.to_string()).unwrap_or_default();
                let last = number(told.cards.get(old).and_then(|c| c.last_branch));
                let first = number(told.cards.get(new).and_then(|c| c.first_branch));
                format!("branch {last} is the last that knows {}, and {} needs {first} or newer", name(old), name(new))
            }
            Self::FlavoursExclude(open, proprietary) => {
                format!("{} needs the open kernel modules, {} the proprietary ones", name(open), name(proprietary))
            }
            Self::FlavourUnfit(card, asked) => {
                format!("{}, and the {asked} ones were asked for", causes::needs_modules(name(card), asked.other()))
            }
            Self::FlavourNotOffered(asked) => format!("it has no {asked} kernel modules here"),
            Self::NoFlavour(card, branch) => {
                format!("branch {branch} has no kernel modules here that run {}", name(card))
            }
            Self::NotWanted => {
                let asked = match of {
                    Subject::Driver(_) => told.request.driver.to_string(),
                    Subject::Cuda(_) => told.request.cuda.to_string(),
                    Subject::AddOn(of, ..) => told.request.add_on(of.id).to_string(),
                };
                format!("{asked} was asked for")
            }
            Self::NotPackaged => match told.unpackaged {
                None => "packages were asked for, and no enabled repository has it".to_owned(),
                Some(Unpackaged::Unknown) => {
                    format!("packages were asked for, and the database does not know those of {}", told.os.name)
                }
                Some(Unpackaged::Unlisted) => {
                    format!("packages were asked for, and the database lists no driver packages of {}", told.os.name)
                }
                Some(Unpackaged::Untold) => format!(
                    "packages were asked for, and which drivers {} has only its package lists can tell, which are not here \
                     ({})",
                    told.os.name,
                    causes::fetch_lists(told.os.package_manager).commands.concat()
                ),
            },
            Self::NoCompanion(id) => {
                let title = told.database.companion_title(id);
                let is_of_branch = told.database.companion(id).is_some_and(|c| c.version == VersionRule::Branch);
                let version = if is_of_branch { "the driver's branch" } else { "exactly the driver's version" };
                format!(
                    "NVSwitches join the GPUs of this host, which need {title} of {version}, and none is known for this one"
                )
            }
            Self::Packaged => "the runfile was asked for".to_owned(),
            Self::NoSum(what) => what.to_owned(),
            Self::Unripe(maturity) => match maturity {
                Maturity::Beta => "it is a beta release",
                Maturity::VulkanBeta => "it is a release for Vulkan developers",
                _ => "no source says what kind of release it is",
            }
            .to_owned(),
            Self::BranchOver(number) => {
                let how = told.database.branch(number).map(end).unwrap_or_default();
                format!("branch {number} {how}")
            }
            Self::NoCapability(card) => format!("no source gives the compute capability of {}", name(card)),
            Self::BelowLowest(card, lowest) if matches!(of, Subject::AddOn(..)) => {
                format!("it needs {lowest} or newer; {}", whose(card))
            }
            Self::BelowLowest(card, lowest) => format!("it targets {lowest} and up; {}", whose(card)),
            Self::AboveHighest(card, highest) if matches!(of, Subject::AddOn(..)) => {
                format!("it knows {highest} at most; {}", whose(card))
            }
            Self::AboveHighest(card, highest) => format!("it targets {highest} at most; {}", whose(card)),
            Self::NoKernels(card, capability) => format!("it has no kernels for {capability}; {}", whose(card)),
            Self::BeforeArchitecture(card, first) => {
                let family = told.cards.get(card).and_then(|c| told.database.architecture(c.capability?));
                let family = family.map_or("the architecture", |a| &a.name);
                format!("{family} began with CUDA {first}; {}", whose(card))
            }
            Self::AfterArchitecture(card, last) => {
                let capability = told.cards.get(card).and_then(|c| c.capability);
                let capability = capability.map(|c| c.to_string()).unwrap_or_default();
                format!("CUDA {last} was the last for {capability}; {}", whose(card))
            }
            Self::OldDriver(least, have) => causes::oldest_driver(least, have),
            Self::NotNative(branch, native) => {
                format!(
                    "driver branch {branch} is native to CUDA {native} and older, and does not load PTX of newer ones; \
                     --cuda {} takes it",
                    release(of, told).map_or(native, |r| r.version).series()
                )
            }
            Self::NotForBoard(card, first) => {
                let platform = told.cards.get(card).and_then(|c| c.embedded.as_deref()).unwrap_or("the board");
                match first {
                    Some(first) => {
                        format!("CUDA {first} is the first whose toolkits for servers (sbsa) serve {platform}")
                    }
                    None => format!("no toolkit for servers (sbsa) serves {platform}; its own comes with JetPack"),
                }
            }
            Self::OldKernel(number) => {
                let oldest = told.database.branch(number).and_then(|b| b.oldest_kernel.as_deref()).unwrap_or("?");
                let have = told.kernel.unwrap_or("?");
                format!("branch {number} needs Linux {oldest} or newer, and kernel {have} boots here")
            }
            Self::OldLibrary => {
                let least = oldest_library(of, told).unwrap_or("?");
                format!("it needs glibc {least} or newer, this host has {}", told.glibc.unwrap_or("?"))
            }
            Self::NewLibrary => {
                let from =
                    release(of, told).and_then(|r| r.first_breaking_glibc(super::cuda_arch(told.arch))).unwrap_or("?");
                let have = told.glibc.unwrap_or("?");
                format!("its headers do not compile with glibc {from} and newer ({have} here)")
            }
            Self::NoRunfile => format!("there is no runfile of it for {}", told.arch),
            Self::NoInstallerLibrary => {
                format!("{}, and no component archives of it are known", installer_library(&told.os.name))
            }
            Self::NoArchives => "no component archives of it are known".to_owned(),
            Self::NoComponent(n) => {
                let named = super::component::named(told.database, told.request).unwrap_or_default();
                let name = named.get(n).map_or("such component", |c| c.short());
                format!("it has no {name} for {}", told.arch)
            }
            Self::NewCompiler(most, have) => causes::newest_gcc(most, have),
            Self::Installed => "the one installed fits, and is kept; --upgrade takes the newest".to_owned(),
            Self::Unsteady => {
                "its branch is neither a production nor a long-term one; --prefer latest takes it".to_owned()
            }
            Self::ShorterLife => "another branch is cared for longer".to_owned(),
            Self::RunfileLast => {
                "packages of the same branch follow the system's updates; --method runfile takes it".to_owned()
            }
            Self::UnusualFlavour => "its modules are not of the flavour that the branch defaults to".to_owned(),
            Self::NoAddOn(id) => {
                let (title, asked) = (told.database.add_on_title(id), told.request.add_on(id));
                let asked = if *asked == Want::Best { String::new() } else { format!(" {asked}") };
                format!("no {title}{asked} is built for it")
            }
            Self::Unknown => "no source says what it needs".to_owned(),
            Self::OtherLine(series) => {
                let line = if let Subject::AddOn(_, _, line) = of { line } else { "another line" };
                format!("it is built for CUDA {line}, not for {series}")
            }
        }
    }

    /// As it stands in a plan's `rejected`.
    pub fn rejection(self, of: &Subject, told: &Explanation) -> Rejection {
        Rejection { candidate: of.to_string(), because: self.because(of, told), rule: self.rule(of.layer()).into() }
    }

    /// How near the candidate came to being chosen: of several refusals that of the nearest is worth telling. An unpublished
    /// file is looked for last.
    pub fn came_far(self) -> usize {
        match self {
            Self::NoSum(_) => 6,
            Self::NewCompiler(..) => 5,
            Self::OldLibrary | Self::NewLibrary => 4,
            Self::NoComponent(_) => 3,
            Self::OldDriver(..) | Self::NoArchives | Self::NoInstallerLibrary => 2,
            _ if self.rule(Layer::Cuda) == RuleId::CudaTargetsGpu => 1,
            _ => 0,
        }
    }
}

/// What is refused.
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
    /// Its name in a sentence: `CUDA 13.0.3`.
    pub fn named(&self) -> String {
        match self {
            Self::Driver(version) => format!("driver {version}"),
            Self::Cuda(version) => format!("CUDA {version}"),
            Self::AddOn(of, version, _) => format!("{} {version}", of.title),
        }
    }

    /// The layer of the stack that it belongs to.
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

fn release<'a>(of: &Subject, told: &Explanation<'a>) -> Option<&'a crate::compat::CudaRelease> {
    if let Subject::Cuda(version) = of { told.database.cuda(*version) } else { None }
}

/// The oldest glibc that a toolkit or an add-on loads with.
fn oldest_library<'a>(of: &Subject, told: &Explanation<'a>) -> Option<&'a str> {
    match of {
        Subject::AddOn(of, version, line) => told.database.add_on_range(of.id, *version, line)?.glibc_min.as_deref(),
        _ => release(of, told)?.glibc_min.as_deref(),
    }
}

/// How a branch's life ended.
pub fn end(branch: &DriverBranch) -> String {
    match (&branch.end_of_life, &branch.latest_release) {
        (Some(end), _) => format!("reached its end of life in {end}"),
        (None, Some(last)) => format!("had its last release in {last}"),
        (None, None) => "has had no release for years".to_owned(),
    }
}

/// Why a runfile cannot be used on a system.
pub fn installer_library(system: &str) -> String {
    format!("the installer in its runfile loads libxml2.so.2, of which no package is known for {system}")
}
