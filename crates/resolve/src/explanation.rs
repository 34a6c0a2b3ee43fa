//! What is said of a refusal: the rule, the sentence, and the proof, which are the facts that
//! exclude the candidate, each with its source, shortest first. All three of a refusal are in one
//! place.

use super::derive::{ASKED, DATABASE, HOST, Premise, fact, source_titles};
use super::refusal::{
    Explanation, Layer, Refusal, Subject, end, installer_library, lacking_companion,
    needed_companion,
};
use super::{Method, Rejection, TargetGpu, ToolkitMethod};
use gpusetup_database::compat::{
    AddOnId, AddOnRange, Architecture, CompanionId, CudaRelease, DriverBranch, JetPack, Maturity,
    ModuleFlavour, SourceId,
};
use gpusetup_database::version::{ComputeCapability, CudaVersion, DriverVersion, Want};
use gpusetup_text::ids::{AddOnRule, Rule, RuleId};
use std::fmt::Write;

/// As `format!`, with room for a sentence from the start: a plan has dozens of them.
macro_rules! text {
    ($($parts:tt)*) => {{
        let mut text = String::with_capacity(96);
        // Writing to a text cannot fail.
        let _ = write!(text, $($parts)*);
        text
    }};
}

/// A refusal of a candidate.
#[derive(Debug)]
pub(crate) struct Explained {
    pub(crate) rule: Rule,
    /// To follow the candidate's name: "it targets 7.5 and up; Tesla V100 has compute capability
    /// 7.0".
    pub(crate) sentence: String,
    /// Empty unless asked for.
    pub(crate) premises: Vec<Premise>,
}

impl Refusal {
    /// The rule, the sentence and the premises.
    pub(crate) fn explain(self, of: &Subject, context: &Explanation) -> Explained {
        let with_premises = true;
        self.explained(&Explainer {
            of,
            context,
            with_premises,
        })
    }

    /// The entry in a plan's `rejected`.
    pub(crate) fn rejection(self, of: &Subject, context: &Explanation) -> Rejection {
        let with_premises = false;
        let explained = self.explained(&Explainer {
            of,
            context,
            with_premises,
        });
        Rejection {
            candidate: text!("{of}"),
            because: explained.sentence,
            rule: explained.rule.into(),
        }
    }

    fn explained(self, e: &Explainer) -> Explained {
        match self {
            Self::AfterLastBranch(card, last) => e.after_last_branch(card, last),
            Self::BeforeFirstBranch(card, first) => e.before_first_branch(card, first),
            Self::NotListed(card, sure) => e.not_listed(card, sure),
            Self::NotYetListed(card, first) => e.not_yet_listed(card, first),
            Self::BranchesExclude(old, new) => e.branches_exclude(old, new),
            Self::FlavoursExclude(open, proprietary) => e.flavours_exclude(open, proprietary),
            Self::FlavourUnfit(card, asked) => e.flavour_unfit(card, asked),
            Self::FlavourNotOffered(asked) => e.flavour_not_offered(asked),
            Self::NoFlavour(card, branch) => e.no_flavour(card, branch),
            Self::NotWanted => e.not_wanted(),
            Self::NoCompanion(id) => e.no_companion(id),
            Self::NotPackaged => e.not_packaged(),
            Self::NotInRepository => e.not_in_repository(),
            Self::RepositoryNeedsAnother => e.repository_needs_another(),
            Self::Packaged => e.own(RuleId::DriverMethod, "the runfile was requested"),
            Self::NoSum(what) => e.no_sum(what),
            Self::PreRelease(maturity) => e.pre_release(maturity),
            Self::BranchOver(number) => e.branch_over(number),
            Self::NoCapability(card) => e.no_capability(card),
            Self::BelowLowest(card, lowest) => e.below_lowest(card, lowest),
            Self::AboveHighest(card, highest) => e.above_highest(card, highest),
            Self::NoKernels(card, capability) => e.no_kernels(card, capability),
            Self::BeforeArchitecture(card, first) => e.before_architecture(card, first),
            Self::AfterArchitecture(card, last) => e.after_architecture(card, last),
            Self::NotForBoard(card, first) => e.not_for_board(card, first),
            Self::AfterJetPack(cuda) => e.after_jetpack(cuda),
            Self::OldKernel(number) => e.old_kernel(number),
            Self::OldDriver(least, have) => e.old_driver(least, have),
            Self::NotNative(branch, native) => e.not_native(branch, native),
            Self::OldLibrary => e.old_library(),
            Self::NewLibrary => e.new_library(),
            Self::NoRunfile => e.no_runfile(),
            Self::NoInstallerLibrary => e.no_installer_library(),
            Self::NoArchives => e.no_archives(),
            Self::NotPackagedBefore(first) => e.not_packaged_before(first),
            Self::OlderUpdate(newest) => e.older_update(newest),
            Self::NoComponent(n) => e.no_component(n),
            Self::NewCompiler(most, have) => e.new_compiler(most, have),
            Self::OldCompiler(least, have) => e.old_compiler(least, have),
            Self::Installed => e.installed(),
            Self::NotProductionBranch => e.preference(
                "its branch is neither production nor long-term; use --prefer latest to choose it",
            ),
            Self::ShorterLife => e.preference("another branch is supported longer"),
            Self::BreaksInstalled => e.preference(
                "it would be installed in another way than the driver that is there, and two installations break each other",
            ),
            Self::RunfileLast => e.preference(
                "packages are preferred because they follow system updates; use --method runfile to choose it",
            ),
            Self::RepositoryLater => e.preference(
                "packages of the same branch are in a repository that is enabled; use --method repository to choose it",
            ),
            Self::NotDefaultFlavour => {
                e.preference("its modules are not of the branch's default flavour")
            }
            Self::ForServers => e.for_servers(),
            Self::ForDesktops => e.for_desktops(),
            Self::LacksFixes => e.lacks_fixes(),
            Self::Unsigned => e.unsigned(),
            Self::NoAddOn(id) => e.no_add_on(id),
            Self::Unknown => e.own(RuleId::CudaWanted, "no source gives its requirements"),
            Self::OtherLine(series) => e.other_line(series),
        }
    }
}

/// The rule of a driver or a toolkit, and that of an add-on that is refused for the same reason.
struct RulePair(RuleId, AddOnRule);

impl From<RuleId> for RulePair {
    fn from(rule: RuleId) -> Self {
        Self(rule, AddOnRule::Known)
    }
}

struct Explainer<'e, 'a> {
    of: &'e Subject<'e>,
    context: &'e Explanation<'a>,
    with_premises: bool,
}

/// What all of them are put together from.
impl Explainer<'_, '_> {
    fn refused(
        &self,
        rule: impl Into<RulePair>,
        sentence: String,
        premises: impl FnOnce(&str) -> Vec<Premise>,
    ) -> Explained {
        let RulePair(rule, of_add_on) = rule.into();
        let premises = if self.with_premises {
            premises(&sentence)
        } else {
            Vec::new()
        };
        Explained {
            rule: match self.of.layer() {
                Layer::AddOn(id) => Rule::AddOn(id, of_add_on),
                Layer::Driver | Layer::Cuda => Rule::Of(rule),
            },
            sentence,
            premises,
        }
    }

    /// A refusal whose only premise is the sentence itself.
    fn own(&self, rule: impl Into<RulePair>, sentence: impl Into<String>) -> Explained {
        self.refused(rule, sentence.into(), |sentence| {
            vec![self.own_fact(format!("{}: {sentence}", self.of.named()))]
        })
    }

    fn preference(&self, sentence: impl Into<String>) -> Explained {
        self.own(RuleId::DriverPreference, sentence)
    }

    fn published(&self, ids: &[SourceId]) -> String {
        source_titles(self.context.database, ids)
    }

    /// A fact that the sources of the candidate give.
    fn own_fact(&self, text: String) -> Premise {
        let ids = match self.of.layer() {
            Layer::Cuda => self.release().map(|r| r.sources.as_slice()),
            Layer::AddOn(_) => self.range().map(|r| r.sources.as_slice()),
            Layer::Driver => self.branch().map(|b| b.sources.as_slice()),
        };
        fact(text, self.published(ids.unwrap_or_default()))
    }

    fn release(&self) -> Option<&CudaRelease> {
        match self.of {
            Subject::Cuda(version) => self.context.database.cuda(*version),
            _ => None,
        }
    }

    fn range(&self) -> Option<&AddOnRange> {
        match self.of {
            Subject::AddOn(of, version, line) => {
                self.context.database.add_on_range(of.id, *version, line)
            }
            _ => None,
        }
    }

    fn branch(&self) -> Option<&DriverBranch> {
        match self.of {
            Subject::Driver(version) => self.context.database.branch(version.branch),
            _ => None,
        }
    }

    fn card(&self, card: usize) -> Option<&TargetGpu> {
        self.context.gpus.get(card).map(|card| &**card)
    }

    fn name(&self, card: usize) -> &str {
        self.card(card).map_or("a GPU", |c| c.name.as_str())
    }

    /// The GPU and its compute capability, if that is known.
    fn whose(&self, card: usize) -> String {
        let name = self.name(card);
        match self.capability(card) {
            Some(capability) => text!("{name} has compute capability {capability}"),
            None => name.to_owned(),
        }
    }

    fn capability(&self, card: usize) -> Option<ComputeCapability> {
        self.card(card)?.capability
    }

    fn architecture(&self, card: usize) -> Option<&Architecture> {
        self.context.database.architecture(self.capability(card)?)
    }

    /// A fact that the sources of a GPU give.
    fn gpu_fact(&self, card: usize, text: impl Into<String>) -> Premise {
        let sources = self.card(card).map_or(&[][..], |card| &card.sources);
        fact(text, self.published(sources))
    }

    /// A fact that the sources of a GPU's architecture give.
    fn architecture_fact(&self, card: usize, text: impl Into<String>) -> Premise {
        let sources = self.architecture(card).map_or(&[][..], |a| &a.sources);
        fact(text, self.published(sources))
    }

    fn capability_fact(&self, card: usize) -> Premise {
        let text = match self.capability(card) {
            Some(_) => self.whose(card),
            None => no_capability(self.name(card)),
        };
        self.gpu_fact(card, text)
    }
}

fn no_capability(name: &str) -> String {
    text!("no source gives the compute capability of {name}")
}

fn number(branch: Option<u16>) -> String {
    branch.map(|b| b.to_string()).unwrap_or_default()
}

/// A driver and the GPUs.
impl Explainer<'_, '_> {
    fn branch_fact(&self) -> Premise {
        let branch = match self.of {
            Subject::Driver(version) => version.branch,
            _ => 0,
        };
        self.own_fact(format!("{} belongs to branch {branch}", self.of.named()))
    }

    fn after_last_branch(&self, card: usize, last: u16) -> Explained {
        let sentence = gpusetup_causes::last_branch(last, self.name(card));
        self.refused(RuleId::DriverKnowsGpu, sentence, |sentence| {
            vec![self.gpu_fact(card, sentence), self.branch_fact()]
        })
    }

    fn first_branch_fact(&self, card: usize, first: &str) -> Premise {
        let name = self.name(card);
        self.gpu_fact(
            card,
            format!("branch {first} is the first that supports {name}"),
        )
    }

    fn before_first_branch(&self, card: usize, first: u16) -> Explained {
        let sentence = gpusetup_causes::first_branch(first, self.name(card));
        self.refused(RuleId::DriverKnowsGpu, sentence, |_| {
            vec![
                self.first_branch_fact(card, &first.to_string()),
                self.branch_fact(),
            ]
        })
    }

    fn not_listed(&self, card: usize, sure: u16) -> Explained {
        let name = self.name(card);
        let sentence =
            text!("{name} is listed only since branch {sure}; use --driver to choose it anyway");
        self.refused(RuleId::DriverKnowsGpu, sentence, |_| {
            let text = format!("the list of branch {sure} is the oldest that contains {name}");
            vec![self.gpu_fact(card, text), self.branch_fact()]
        })
    }

    fn not_yet_listed(&self, card: usize, first: DriverVersion) -> Explained {
        let name = self.name(card);
        let sentence = text!(
            "it does not list {name}; {first} is the next release that does. Use --driver to choose it anyway"
        );
        self.refused(RuleId::DriverKnowsGpu, sentence, |_| {
            let named = self.of.named();
            let text =
                format!("{named} does not list {name}; {first} is the next release that does");
            vec![self.gpu_fact(card, text)]
        })
    }

    fn branches_exclude(&self, old: usize, new: usize) -> Explained {
        let last = number(self.card(old).and_then(|c| c.last_branch));
        let first = number(self.card(new).and_then(|c| c.first_branch));
        let sentence = text!(
            "branch {last} is the last that supports {}, but {} needs {first} or newer",
            self.name(old),
            self.name(new)
        );
        self.refused(RuleId::DriverKnowsGpu, sentence, |_| {
            vec![
                self.gpu_fact(old, gpusetup_causes::last_branch(&last, self.name(old))),
                self.first_branch_fact(new, &first),
                fact(
                    "a host can load only one driver",
                    "the modules have the same names",
                ),
            ]
        })
    }

    fn flavours_exclude(&self, open: usize, old: usize) -> Explained {
        let sentence = text!(
            "{} needs the open kernel modules, {} the proprietary ones",
            self.name(open),
            self.name(old)
        );
        self.refused(RuleId::DriverHasModules, sentence, |_| {
            let needs = format!("{} needs the open kernel modules", self.name(open));
            let lacks = format!(
                "{} has no GSP, so it needs the proprietary kernel modules",
                self.name(old)
            );
            vec![
                self.gpu_fact(open, needs),
                self.gpu_fact(old, lacks),
                fact(
                    "a host can load only one flavour",
                    "the modules have the same names",
                ),
            ]
        })
    }

    fn flavour_unfit(&self, card: usize, asked: ModuleFlavour) -> Explained {
        let needs = gpusetup_causes::needs_modules(self.name(card), asked.other());
        let sentence = text!("{needs}, but the {asked} ones were requested");
        self.refused(RuleId::DriverHasModules, sentence, |_| {
            vec![
                fact(format!("the {asked} kernel modules were requested"), ASKED),
                self.gpu_fact(card, needs),
            ]
        })
    }

    fn flavour_not_offered(&self, asked: ModuleFlavour) -> Explained {
        self.own(
            RuleId::ModulesWanted,
            text!("it offers no {asked} kernel modules here"),
        )
    }

    fn no_flavour(&self, card: usize, branch: u16) -> Explained {
        let name = self.name(card);
        let sentence = text!("branch {branch} offers no kernel modules here that support {name}");
        self.refused(RuleId::DriverHasModules, sentence, |_| {
            let flavours = self.card(card).map_or(&[][..], |card| &card.modules);
            let flavours: Vec<_> = flavours.iter().map(ToString::to_string).collect();
            let needs = format!("{name} needs the {} kernel modules", flavours.join(" or "));
            vec![
                self.gpu_fact(card, needs),
                self.own_fact(format!("branch {branch} does not offer them here")),
            ]
        })
    }
}

/// A driver, its release and where it comes from.
impl Explainer<'_, '_> {
    fn not_wanted(&self) -> Explained {
        let request = self.context.request;
        let (asked, rule) = match self.of {
            Subject::Driver(_) => (request.driver.to_string(), RuleId::DriverWanted),
            Subject::Cuda(_) => (request.cuda.to_string(), RuleId::CudaWanted),
            Subject::AddOn(of, ..) => (request.add_on(of.id).to_string(), RuleId::CudaWanted),
        };
        self.own(
            RulePair(rule, AddOnRule::Wanted),
            text!("{asked} was requested"),
        )
    }

    fn no_companion(&self, id: CompanionId) -> Explained {
        let needed = needed_companion(id, self.context);
        let lacking = lacking_companion(self.context);
        let sentence = text!("{needed}, but {lacking}");
        let explained = self.refused(RuleId::DriverPublished, sentence, |_| {
            let companion = self.context.database.companion(id);
            let sources = companion.map_or(&[][..], |companion| &companion.sources);
            let source = match self.context.request.method {
                Method::Packages => HOST,
                _ => DATABASE,
            };
            vec![
                fact(needed, self.published(sources)),
                fact(format!("{}: {lacking}", self.of.named()), source),
            ]
        });
        Explained {
            rule: Rule::DriverHas(id),
            ..explained
        }
    }

    fn not_packaged(&self) -> Explained {
        let sentence = if self.context.unpackaged.is_none() {
            format!(
                "packages were requested, but {} it",
                self.context.no_package()
            )
        } else {
            Refusal::NotPackaged.of_no_driver(self.context)
        };
        self.own(RuleId::DriverMethod, sentence)
    }

    fn not_in_repository(&self) -> Explained {
        let sentence = if self.context.addable {
            "NVIDIA's repository was requested, but it does not offer this driver here".to_owned()
        } else {
            Refusal::NotInRepository.of_no_driver(self.context)
        };
        self.own(RuleId::DriverMethod, sentence)
    }

    fn repository_needs_another(&self) -> Explained {
        self.own(
            RuleId::DriverMethod,
            "its packages in NVIDIA's repository may need another repository, which is not enabled on this \
             host (--method repository takes them anyway)",
        )
    }

    fn no_sum(&self, what: &str) -> Explained {
        let rule = match self.of.layer() {
            Layer::Driver => RuleId::DriverPublished,
            Layer::Cuda | Layer::AddOn(_) => RuleId::CudaPublished,
        };
        self.own(RulePair(rule, AddOnRule::Published), what)
    }

    fn pre_release(&self, maturity: Maturity) -> Explained {
        self.own(
            RuleId::DriverReleaseKind,
            match maturity {
                Maturity::Beta => "it is a beta release",
                Maturity::VulkanBeta => "it is a release for Vulkan developers",
                _ => "no source says whether it is a stable release",
            },
        )
    }

    fn branch_over(&self, number: u16) -> Explained {
        let how = self.context.database.branch(number).map(end);
        self.own(
            RuleId::DriverBranchLife,
            text!("branch {number} {}", how.unwrap_or_default()),
        )
    }

    fn old_kernel(&self, number: u16) -> Explained {
        let branch = self.context.database.branch(number);
        let oldest = branch
            .and_then(|b| b.oldest_kernel.as_deref())
            .unwrap_or("?");
        let have = self.context.kernel.unwrap_or("?");
        let sentence = text!(
            "branch {number} needs Linux {oldest} or newer, but the host boots kernel {have}"
        );
        self.refused(RuleId::DriverRunsOnKernel, sentence, |sentence| {
            vec![
                fact(format!("the host boots kernel {have}"), HOST),
                self.own_fact(sentence.to_owned()),
            ]
        })
    }

    fn installed(&self) -> Explained {
        let rule = match self.of.layer() {
            Layer::Driver => RuleId::DriverKept,
            Layer::Cuda | Layer::AddOn(_) => RuleId::CudaKept,
        };
        self.own(
            RulePair(rule, AddOnRule::Kept),
            "the installed version fits and is kept; use --upgrade to choose the newest",
        )
    }

    fn for_servers(&self) -> Explained {
        self.preference(text!(
            "{} makes its packages for servers, and this is a desktop",
            self.context.os.name
        ))
    }

    fn for_desktops(&self) -> Explained {
        self.preference(text!(
            "data-centre GPUs get the packages that {} makes for servers",
            self.context.os.name
        ))
    }

    fn lacks_fixes(&self) -> Explained {
        let version = match self.of {
            Subject::Driver(version) => Some(*version),
            _ => None,
        };
        let lacking = version.and_then(|version| {
            let (bulletin, _) = self.context.database.vulnerabilities_of(version).next()?;
            Some(&bulletin.title)
        });
        self.preference(match lacking {
            Some(title) => text!("it lacks the fixes of {title}; use --driver to choose it"),
            None => text!("its branch gets no security fixes any more; use --driver to choose it"),
        })
    }

    fn unsigned(&self) -> Explained {
        self.preference(text!(
            "with Secure Boot on, modules that {} has signed are preferred",
            self.context.os.name
        ))
    }
}

const GPU: RulePair = RulePair(RuleId::CudaTargetsGpu, AddOnRule::RunsOnGpu);

/// A toolkit or an add-on, and the GPUs.
impl Explainer<'_, '_> {
    fn is_add_on(&self) -> bool {
        matches!(self.of, Subject::AddOn(..))
    }

    fn capability_premises(&self, card: usize, limit: &str) -> Vec<Premise> {
        let verb = if self.is_add_on() {
            "runs on"
        } else {
            "targets"
        };
        vec![
            self.capability_fact(card),
            self.own_fact(format!("{} {verb} {limit}", self.of.named())),
        ]
    }

    fn no_capability(&self, card: usize) -> Explained {
        let sentence = no_capability(self.name(card));
        self.refused(RuleId::CudaTargetsGpu, sentence, |_| {
            vec![self.capability_fact(card)]
        })
    }

    fn below_lowest(&self, card: usize, lowest: ComputeCapability) -> Explained {
        let whose = self.whose(card);
        let sentence = if self.is_add_on() {
            text!("it needs compute capability {lowest} or higher; {whose}")
        } else {
            text!("it targets {lowest} and up; {whose}")
        };
        self.refused(GPU, sentence, |_| {
            self.capability_premises(card, &format!("{lowest} and up"))
        })
    }

    fn above_highest(&self, card: usize, highest: ComputeCapability) -> Explained {
        let whose = self.whose(card);
        let sentence = if self.is_add_on() {
            text!("it supports {highest} at most; {whose}")
        } else {
            text!("it targets {highest} at most; {whose}")
        };
        self.refused(GPU, sentence, |_| {
            self.capability_premises(card, &format!("{highest} at most"))
        })
    }

    fn no_kernels(&self, card: usize, capability: ComputeCapability) -> Explained {
        let sentence = text!("it has no kernels for {capability}; {}", self.whose(card));
        self.refused(GPU, sentence, |_| {
            let named = self.of.named();
            vec![
                self.capability_fact(card),
                self.own_fact(format!("{named} has no kernels for {capability}")),
            ]
        })
    }

    fn before_architecture(&self, card: usize, first: CudaVersion) -> Explained {
        let family = self.architecture(card);
        let family = family.map_or("the architecture", |a| &a.name);
        let sentence = text!("{family} needs CUDA {first} or newer; {}", self.whose(card));
        self.refused(RuleId::CudaTargetsGpu, sentence, |_| {
            let text = format!("CUDA {first} is the first that targets it");
            vec![
                self.capability_fact(card),
                self.architecture_fact(card, text),
            ]
        })
    }

    fn after_architecture(&self, card: usize, last: CudaVersion) -> Explained {
        let capability = self.capability(card).map(|c| c.to_string());
        let sentence = text!(
            "CUDA {last} was the last for {}; {}",
            capability.unwrap_or_default(),
            self.whose(card)
        );
        self.refused(RuleId::CudaTargetsGpu, sentence, |_| {
            let text = format!("CUDA {last} is the last that targets it");
            vec![
                self.capability_fact(card),
                self.architecture_fact(card, text),
            ]
        })
    }

    fn not_for_board(&self, card: usize, first: Option<CudaVersion>) -> Explained {
        let platform = self.card(card).and_then(|c| c.embedded.as_deref());
        let platform = platform.unwrap_or("the board");
        let (database, capability) = (self.context.database, self.capability(card));
        let jetpack = capability.and_then(|board| database.first_jetpack_with_sbsa(board));
        let sentence = if let Some(first) = first {
            text!("CUDA {first} is the first toolkit for servers (sbsa) that supports {platform}")
        } else if let Some(JetPack { jetpack, .. }) = jetpack {
            text!(
                "toolkits for servers (sbsa) support {platform} from JetPack {jetpack} on, which this host is not \
                 known to have. There, install one from NVIDIA's CUDA repository, otherwise the toolkit of JetPack"
            )
        } else {
            text!("no toolkit for servers (sbsa) supports {platform}; use the toolkit of JetPack")
        };
        self.refused(RuleId::CudaTargetsGpu, sentence, |sentence| {
            vec![
                self.capability_fact(card),
                self.architecture_fact(card, sentence),
            ]
        })
    }
}

/// A toolkit or an add-on, and the driver or the host.
impl Explainer<'_, '_> {
    /// The series of the toolkit, for an option that chooses it.
    fn series_or(&self, other: CudaVersion) -> CudaVersion {
        self.release().map_or(other, |r| r.version).series()
    }

    fn after_jetpack(&self, cuda: CudaVersion) -> Explained {
        let sentence = text!(
            "the driver of this JetPack runs CUDA {cuda}; newer ones need NVIDIA's upgrade package (cuda-compat), and use \
             --cuda {}",
            self.series_or(cuda)
        );
        self.refused(RuleId::CudaRunsOnDriver, sentence, |sentence| {
            vec![self.own_fact(sentence.to_owned())]
        })
    }

    fn old_driver(&self, least: DriverVersion, have: DriverVersion) -> Explained {
        let rule = RulePair(RuleId::CudaRunsOnDriver, AddOnRule::RunsOnDriver);
        let sentence = gpusetup_causes::oldest_driver(least, have);
        self.refused(rule, sentence, |_| {
            let named = self.of.named();
            vec![
                self.own_fact(format!("{named} needs driver {least} or newer")),
                self.no_newer_driver(have),
            ]
        })
    }

    /// Why there is no newer driver: the host, a GPU, or the request.
    fn no_newer_driver(&self, have: DriverVersion) -> Premise {
        let Explanation { gpus, request, .. } = *self.context;
        let last = gpus.iter().position(|c| c.last_branch == Some(have.branch));
        match last {
            _ if !request.driver.is_wanted() => fact(
                format!("driver {have} is there, and the plan leaves it"),
                HOST,
            ),
            Some(card) => {
                let (branch, name) = (have.branch, self.name(card));
                self.gpu_fact(
                    card,
                    format!("branch {branch} is the last that supports {name}"),
                )
            }
            None => fact(
                format!("driver {have} is the newest requested driver that fits"),
                ASKED,
            ),
        }
    }

    fn not_native(&self, branch: u16, native: CudaVersion) -> Explained {
        let sentence = text!(
            "driver branch {branch} natively supports CUDA {native} and older, and loads no PTX of newer releases; \
             use --cuda {} to choose it anyway",
            self.series_or(native)
        );
        self.own(RuleId::CudaNativeDriver, sentence)
    }

    fn glibc_premises(&self, have: &str, sentence: &str) -> Vec<Premise> {
        vec![
            fact(format!("the host has glibc {have}"), HOST),
            self.own_fact(sentence.to_owned()),
        ]
    }

    fn old_library(&self) -> Explained {
        let oldest = match self.range() {
            Some(range) => range.glibc_min.as_deref(),
            None => self.release().and_then(|r| r.glibc_min.as_deref()),
        };
        let (least, have) = (oldest.unwrap_or("?"), self.context.glibc.unwrap_or("?"));
        let sentence = text!("it needs glibc {least} or newer, but the host has {have}");
        let rule = RulePair(RuleId::CudaCLibrary, AddOnRule::CLibrary);
        self.refused(rule, sentence, |sentence| {
            self.glibc_premises(have, sentence)
        })
    }

    fn new_library(&self) -> Explained {
        let arch = super::cuda_arch(self.context.arch);
        let from = self.release().and_then(|r| r.first_breaking_glibc(arch));
        let (from, have) = (from.unwrap_or("?"), self.context.glibc.unwrap_or("?"));
        let sentence =
            text!("its headers do not compile with glibc {from} and newer; this host has {have}");
        self.refused(RuleId::CudaHostHeaders, sentence, |sentence| {
            self.glibc_premises(have, sentence)
        })
    }

    fn new_compiler(&self, most: u16, have: u16) -> Explained {
        let limit = format!("supports gcc up to {most}");
        self.unfit_compiler(have, gpusetup_causes::newest_gcc(most, have), &limit)
    }

    fn old_compiler(&self, least: u16, have: u16) -> Explained {
        let limit = format!("needs gcc {least} or newer");
        let sentence = format!("its nvcc {limit}; the system's gcc is {have}");
        self.unfit_compiler(have, sentence, &limit)
    }

    fn unfit_compiler(&self, have: u16, sentence: String, limit: &str) -> Explained {
        self.refused(RuleId::CudaHostCompiler, sentence, |_| {
            let text = format!(
                "the system's gcc is {have}; no suitable gcc is installed or known to be packaged for it"
            );
            let named = self.of.named();
            vec![
                fact(text, HOST),
                self.own_fact(format!("nvcc of {named} {limit}")),
            ]
        })
    }
}

/// A toolkit or an add-on, and its files.
impl Explainer<'_, '_> {
    fn no_runfile(&self) -> Explained {
        self.own(
            RuleId::CudaPublished,
            text!("no runfile of it is known for {}", self.context.arch),
        )
    }

    fn no_installer_library(&self) -> Explained {
        let lacking = installer_library(&self.context.os.name);
        let sentence = match self.context.request.toolkit_method {
            ToolkitMethod::Runfile => text!("the runfile was requested, but {lacking}"),
            _ => text!(
                "{lacking}, and no component archives of it are known for {}",
                self.context.arch
            ),
        };
        self.own(RuleId::CudaComponents, sentence)
    }

    fn no_archives(&self) -> Explained {
        self.own(
            RuleId::CudaComponents,
            text!(
                "no component archives of it are known for {}",
                self.context.arch
            ),
        )
    }

    fn not_packaged_before(&self, first: CudaVersion) -> Explained {
        let sentence = text!(
            "packages were requested, and NVIDIA's repository for {} is known to have them from CUDA {first} on",
            self.context.os.name
        );
        self.own(RuleId::CudaPublished, sentence)
    }

    fn older_update(&self, newest: CudaVersion) -> Explained {
        let sentence = text!(
            "packages were requested, and those of CUDA {} install its newest update, {newest}",
            newest.series()
        );
        self.own(RuleId::CudaPublished, sentence)
    }

    fn no_component(&self, n: usize) -> Explained {
        let Explanation {
            database,
            request,
            arch,
            ..
        } = *self.context;
        let named = super::component::named(database, request).unwrap_or_default();
        let name = named.get(n).map_or("such component", |c| c.short());
        self.own(RuleId::CudaComponents, text!("it has no {name} for {arch}"))
    }

    fn no_add_on(&self, id: AddOnId) -> Explained {
        let Explanation {
            database, request, ..
        } = *self.context;
        let asked = match request.add_on(id) {
            Want::Best => String::new(),
            asked => text!(" {asked}"),
        };
        let title = database.add_on_title(id);
        let sentence = text!("no {title}{asked} is built for it");
        Explained {
            rule: Rule::CudaHas(id),
            ..self.own(RuleId::CudaWanted, sentence)
        }
    }

    fn other_line(&self, series: CudaVersion) -> Explained {
        let line = match self.of {
            Subject::AddOn(_, _, line) => line,
            _ => "another line",
        };
        let rule = RulePair(RuleId::CudaWanted, AddOnRule::ForCuda);
        let sentence = text!("it is built for CUDA {line}, not for {series}");
        self.refused(rule, sentence, |_| {
            let named = self.of.named();
            vec![self.own_fact(format!("{named} is not built for CUDA {series}"))]
        })
    }
}
