//! Derives the proof of a refusal: the conflicting facts, each with its source, shortest first.

use super::Method;
use super::refusal::{Explanation, Layer, Refusal, Subject, lacking_companion, needed_companion};
use gpusetup_database::compat::{AddOnRange, Database, SourceId};
use serde::Serialize;

/// A fact that a refusal is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Premise {
    /// The fact, in a sentence.
    pub text: String,
    /// Where it is published, or `this host` or `the request`.
    pub source: String,
}

const HOST: &str = "facts of the host";
const ASKED: &str = "the request";
const DATABASE: &str = "the database";

/// The facts that rule out a candidate.
pub fn premises(refusal: Refusal, of: &Subject, told: &Explanation) -> Vec<Premise> {
    let fact = |text: String, source: String| Premise { text, source };
    let published = |ids: &[SourceId]| titles(told, ids);
    let release = || {
        if let Subject::Cuda(v) = of {
            told.database.cuda(*v)
        } else {
            None
        }
    };
    let range = || -> Option<&AddOnRange> {
        if let Subject::AddOn(of, v, line) = of {
            told.database.add_on_range(of.id, *v, line)
        } else {
            None
        }
    };
    let own = |text: String| {
        let ids = match of.layer() {
            Layer::Cuda => release().map(|r| r.sources.as_slice()),
            Layer::AddOn(_) => range().map(|r| r.sources.as_slice()),
            Layer::Driver => branch(of, told).map(|b| b.sources.as_slice()),
        };
        fact(text, published(ids.unwrap_or_default()))
    };
    let card = |n: usize| {
        let card = &told.cards[n];
        let text = match card.capability {
            Some(capability) => format!("{} has compute capability {capability}", card.name),
            None => format!("no source gives the compute capability of {}", card.name),
        };
        fact(text, published(&card.sources))
    };
    let of_card = |n: usize, text: String| fact(text, published(&told.cards[n].sources));
    let named = of.named();
    let name = |n: usize| &told.cards[n].name;
    match refusal {
        Refusal::AfterLastBranch(n, last) => vec![
            of_card(n, gpusetup_causes::last_branch(last, name(n))),
            own(format!("{named} belongs to branch {}", branch_number(of))),
        ],
        Refusal::BeforeFirstBranch(n, first) => vec![
            of_card(
                n,
                format!("branch {first} is the first that supports {}", name(n)),
            ),
            own(format!("{named} belongs to branch {}", branch_number(of))),
        ],
        Refusal::NotListed(n, sure) => vec![
            of_card(
                n,
                format!(
                    "the list of branch {sure} is the oldest that contains {}",
                    name(n)
                ),
            ),
            own(format!("{named} belongs to branch {}", branch_number(of))),
        ],
        Refusal::NotYetListed(n, first) => {
            vec![of_card(
                n,
                format!(
                    "{named} does not list {}; {first} is the next release that does",
                    name(n)
                ),
            )]
        }
        Refusal::BranchesExclude(old, new) => {
            let number = |b: Option<u16>| b.map(|b| b.to_string()).unwrap_or_default();
            let last = number(told.cards[old].last_branch);
            let first = number(told.cards[new].first_branch);
            vec![
                of_card(old, gpusetup_causes::last_branch(last, name(old))),
                of_card(
                    new,
                    format!("branch {first} is the first that supports {}", name(new)),
                ),
                fact(
                    "a host can load only one driver".to_owned(),
                    "the modules have the same names".to_owned(),
                ),
            ]
        }
        Refusal::FlavoursExclude(open, old) => vec![
            of_card(
                open,
                format!("{} needs the open kernel modules", name(open)),
            ),
            of_card(
                old,
                format!(
                    "{} has no GSP, so it needs the proprietary kernel modules",
                    name(old)
                ),
            ),
            fact(
                "a host can load only one flavour".to_owned(),
                "the modules have the same names".to_owned(),
            ),
        ],
        Refusal::FlavourUnfit(n, asked) => vec![
            fact(
                format!("the {asked} kernel modules were requested"),
                ASKED.to_owned(),
            ),
            of_card(n, gpusetup_causes::needs_modules(name(n), asked.other())),
        ],
        Refusal::NoFlavour(n, number) => vec![
            of_card(
                n,
                format!(
                    "{} needs the {} kernel modules",
                    name(n),
                    flavours(&told.cards[n].modules)
                ),
            ),
            own(format!("branch {number} does not offer them here")),
        ],
        Refusal::BelowLowest(n, lowest) => vec![
            card(n),
            own(format!("{named} {} {lowest} and up", verb(of))),
        ],
        Refusal::AboveHighest(n, highest) => vec![
            card(n),
            own(format!("{named} {} {highest} at most", verb(of))),
        ],
        Refusal::NoKernels(n, capability) => vec![
            card(n),
            own(format!("{named} has no kernels for {capability}")),
        ],
        Refusal::BeforeArchitecture(n, first) => {
            let family = architecture(told, n);
            let text = format!("CUDA {first} is the first that targets it");
            vec![
                card(n),
                fact(
                    text,
                    published(family.map_or(&[], |a| a.sources.as_slice())),
                ),
            ]
        }
        Refusal::AfterArchitecture(n, last) => {
            let family = architecture(told, n);
            let text = format!("CUDA {last} is the last that targets it");
            vec![
                card(n),
                fact(
                    text,
                    published(family.map_or(&[], |a| a.sources.as_slice())),
                ),
            ]
        }
        Refusal::NotForBoard(n, _) => {
            let family = architecture(told, n);
            let sources = published(family.map_or(&[], |a| a.sources.as_slice()));
            vec![card(n), fact(refusal.because(of, told), sources)]
        }
        Refusal::AfterJetPack(_) => vec![own(refusal.because(of, told))],
        Refusal::OldKernel(_) => vec![
            fact(
                format!("the host boots kernel {}", told.kernel.unwrap_or("?")),
                HOST.to_owned(),
            ),
            own(refusal.because(of, told)),
        ],
        Refusal::OldDriver(least, have) => {
            let mut all = vec![own(format!("{named} needs driver {least} or newer"))];
            // Why there is no newer driver: a GPU, or the request.
            let limit = told
                .cards
                .iter()
                .position(|c| c.last_branch == Some(have.branch));
            all.push(match limit {
                _ if !told.request.driver.is_wanted() => fact(
                    format!("driver {have} is there, and the plan leaves it"),
                    HOST.to_owned(),
                ),
                Some(n) => of_card(
                    n,
                    format!(
                        "branch {} is the last that supports {}",
                        have.branch,
                        name(n)
                    ),
                ),
                None => fact(
                    format!("driver {have} is the newest requested driver that fits"),
                    ASKED.to_owned(),
                ),
            });
            all
        }
        Refusal::OldLibrary | Refusal::NewLibrary => vec![
            fact(
                format!("the host has glibc {}", told.glibc.unwrap_or("?")),
                HOST.to_owned(),
            ),
            own(refusal.because(of, told)),
        ],
        Refusal::NewCompiler(most, have) => vec![
            fact(
                format!(
                    "the system's gcc is {have}; no suitable gcc is installed or known to be packaged for it"
                ),
                HOST.to_owned(),
            ),
            own(format!("nvcc of {named} supports gcc up to {most}")),
        ],
        Refusal::OtherLine(series) => {
            vec![own(format!("{named} is not built for CUDA {series}"))]
        }
        Refusal::NoCapability(n) => vec![card(n)],
        Refusal::NoCompanion(id) => {
            let sources = told
                .database
                .companion(id)
                .map_or(&[][..], |companion| companion.sources.as_slice());
            let (lacking, source) = match told.request.method {
                Method::Packages => (lacking_companion(told.request.method), HOST),
                method => (lacking_companion(method), DATABASE),
            };
            vec![
                fact(needed_companion(id, told), published(sources)),
                fact(format!("{named}: {lacking}"), source.to_owned()),
            ]
        }
        Refusal::NotWanted
        | Refusal::NotPackaged
        | Refusal::NotInRepository
        | Refusal::RepositoryNeedsAnother
        | Refusal::RepositoryLater
        | Refusal::Packaged
        | Refusal::NoSum(_)
        | Refusal::Unripe(_)
        | Refusal::BranchOver(_)
        | Refusal::FlavourNotOffered(_)
        | Refusal::NoRunfile
        | Refusal::NoInstallerLibrary
        | Refusal::NoArchives
        | Refusal::NotPackagedBefore(_)
        | Refusal::OlderUpdate(_)
        | Refusal::NoComponent(_)
        | Refusal::NotNative(..)
        | Refusal::Installed
        | Refusal::Unsteady
        | Refusal::ShorterLife
        | Refusal::RunfileLast
        | Refusal::Unsigned
        | Refusal::UnusualFlavour
        | Refusal::ForServers
        | Refusal::NoAddOn(_)
        | Refusal::Unknown => vec![own(format!("{named}: {}", refusal.because(of, told)))],
    }
}

/// Two facts that exclude each other: what was requested, and what the host lacks for it.
pub fn request_and_host(asked: &str, lacking: &str) -> Vec<Premise> {
    let fact = |text: &str, source: &str| Premise {
        text: text.to_owned(),
        source: source.to_owned(),
    };
    vec![fact(asked, ASKED), fact(lacking, HOST)]
}

fn titles(told: &Explanation, ids: &[SourceId]) -> String {
    source_titles(told.database, ids)
}

/// The titles of the first two sources, and how many more there are.
pub fn source_titles(database: &Database, ids: &[SourceId]) -> String {
    let title = |id: &SourceId| database.source(id).map(|s| s.title.as_str());
    let mut named: Vec<_> = ids
        .iter()
        .filter_map(title)
        .take(2)
        .map(str::to_owned)
        .collect();
    if ids.len() > named.len() && !named.is_empty() {
        named.push(format!("{} more", ids.len() - named.len()));
    }
    named.join("; ")
}

fn verb(of: &Subject) -> &'static str {
    if matches!(of, Subject::AddOn(..)) {
        "runs on"
    } else {
        "targets"
    }
}

fn flavours(all: &[gpusetup_database::compat::ModuleFlavour]) -> String {
    all.iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" or ")
}

fn branch_number(of: &Subject) -> u16 {
    if let Subject::Driver(v) = of {
        v.branch
    } else {
        0
    }
}

fn branch<'a>(
    of: &Subject,
    told: &Explanation<'a>,
) -> Option<&'a gpusetup_database::compat::DriverBranch> {
    if let Subject::Driver(v) = of {
        told.database.branch(v.branch)
    } else {
        None
    }
}

fn architecture<'a>(
    told: &Explanation<'a>,
    card: usize,
) -> Option<&'a gpusetup_database::compat::Architecture> {
    told.database.architecture(told.cards[card].capability?)
}
