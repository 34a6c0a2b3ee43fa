//! Which releases of frameworks one Python environment can have: what each requires of the others.

use super::python::version_of;
use super::{Conflict, Hint, Request};
use gpusetup_database::compat::{
    Database, Framework, FrameworkNeeds, FrameworkRelease, framework_and_version,
    meets_requirement, package_of,
};
use gpusetup_text::ids::RuleId;

/// A framework in an environment.
pub(crate) struct Member<'a> {
    /// As requested: `torch==2.9`.
    pub(crate) text: &'a str,
    pub(crate) framework: &'a Framework,
    pub(crate) release: &'a FrameworkRelease,
}

impl<'a> Member<'a> {
    /// None if the database does not have it.
    fn named(database: &'a Database, text: &'a str) -> Option<Self> {
        Some(Self {
            text,
            framework: database.framework(framework_and_version(text).0)?,
            release: database.framework_release(text)?,
        })
    }

    /// What it requires of other frameworks: their names and versions, `>=2.4,<3`.
    fn requirements(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let all = self.release.requires.iter();
        all.map(|requirement| framework_and_version(requirement))
    }
}

/// Why frameworks cannot be in one environment.
enum Mismatch<'m, 'a> {
    /// One requires another release of the other.
    Of(&'m Member<'a>, &'m Member<'a>),
    /// Both require releases of a third one, which has none that suits both.
    OfThird(&'m Member<'a>, &'m Member<'a>, &'a str),
}

/// The first requirement of these frameworks that they do not meet together.
fn mismatch<'m, 'a>(database: &Database, members: &'m [Member<'a>]) -> Option<Mismatch<'m, 'a>> {
    for (at, member) in members.iter().enumerate() {
        for (name, range) in member.requirements() {
            let required = members.iter().find(|other| other.framework.name == name);
            if let Some(other) = required {
                if !meets_requirement(version_of(other.release, other.text), range) {
                    return Some(Mismatch::Of(member, other));
                }
                continue;
            }
            for other in &members[..at] {
                let mut theirs = other.requirements().filter(|(third, _)| *third == name);
                if theirs.any(|(_, other)| !meet(database, name, [range, other])) {
                    return Some(Mismatch::OfThird(other, member, name));
                }
            }
        }
    }
    None
}

/// Whether a version of a framework meets two requirements on it.
fn meet(database: &Database, name: &str, ranges: [&str; 2]) -> bool {
    let mut single = ranges
        .iter()
        .filter_map(|range| range.strip_prefix("=="))
        .filter(|version| !version.ends_with('*'))
        .peekable();
    if single.peek().is_some() {
        return single.any(|version| ranges.iter().all(|range| meets_requirement(version, range)));
    }
    let releases = database
        .framework(name)
        .map(|framework| &framework.releases);
    releases.is_none_or(|releases| {
        { releases.iter() }.any(|release| {
            { ranges.iter() }.all(|range| meets_requirement(&release.version, range))
        })
    })
}

/// Refuses frameworks of which one requires another release of another one.
pub(crate) fn fit_together(
    database: &Database,
    request: &Request,
    members: &[Member],
) -> Result<(), Conflict> {
    match mismatch(database, members) {
        None => Ok(()),
        Some(Mismatch::Of(member, other)) => {
            let ranges = ranges_of(member, &other.framework.name);
            let sentence = format!(
                "{} requires {} {ranges}, not {}",
                member.text,
                other.framework.title,
                version_of(other.release, other.text)
            );
            let conflict = Conflict::new(RuleId::FrameworksTogether, sentence);
            let (name, package) = (&other.framework.name, package_of(other.text));
            let suits = database.framework_release(&format!("{name}{ranges}"));
            let hints = suits.map(|release| {
                asking_instead(
                    request,
                    other.text,
                    &format!("{package}=={}", release.version),
                )
            });
            let older = asking_instead(request, member.text, package_of(member.text));
            Err(hints
                .into_iter()
                .chain([older])
                .fold(conflict, Conflict::hint))
        }
        Some(Mismatch::OfThird(first, second, name)) => {
            let sentence = format!(
                "one Python environment cannot have both {} and {}: they require {name}{} and {name}{}",
                first.text,
                second.text,
                ranges_of(first, name),
                ranges_of(second, name)
            );
            Err(Conflict::new(RuleId::FrameworksTogether, sentence)
                .hint("plan for each environment separately"))
        }
    }
}

/// What a framework requires of another one: `>=2.4,<3`.
fn ranges_of(member: &Member, name: &str) -> String {
    let all = member.requirements().filter(|(other, _)| *other == name);
    all.map(|(_, range)| range).collect::<Vec<_>>().join(",")
}

/// The places of frameworks in the order in which they are installed: what others are built for or
/// require comes before them.
pub(crate) fn in_order(members: &[Member]) -> Vec<usize> {
    let (mut order, mut rest) = (Vec::new(), (0..members.len()).collect::<Vec<_>>());
    while !rest.is_empty() {
        let next = rest.iter().position(|at| {
            !{ rest.iter() }.any(|other| builds_on(&members[*at], &members[*other]))
        });
        order.push(rest.remove(next.unwrap_or(0)));
    }
    order
}

/// The one version of a framework that another one in the environment requires.
pub(crate) fn pinned<'a>(members: &[Member<'a>], at: usize) -> Option<&'a str> {
    let member = &members[at];
    let ranges = { members.iter().flat_map(Member::requirements) }
        .filter(|(name, _)| *name == member.framework.name)
        .filter_map(|(_, range)| range.strip_prefix("=="));
    let version = version_of(member.release, member.text);
    { ranges }.find(|pinned| pinned.starts_with(version) && !pinned.ends_with('*'))
}

fn builds_on(member: &Member, other: &Member) -> bool {
    let name = &other.framework.name;
    member.framework.extends.as_ref() == Some(name)
        || member.requirements().any(|(required, _)| required == name)
}

/// The releases that match the requested frameworks, newest first: a framework without a version
/// matches all of its releases, a range all releases in it.
pub(crate) fn releases_meant(database: &Database, frameworks: &[String]) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    for text in frameworks {
        let (_, version) = framework_and_version(text);
        let is_open = version.is_empty()
            || version.starts_with(['<', '>', '~', '^', '!'])
            || version.contains(',');
        let package = package_of(text);
        let mut meant: Vec<String> = database
            .framework_releases(text)
            .filter(|_| is_open)
            .map(|r| format!("{package}=={}", r.version))
            .collect();
        if meant.is_empty() {
            let exact = version
                .trim_start_matches('=')
                .trim()
                .trim_end_matches(".*");
            meant.push(if is_open {
                text.clone()
            } else {
                format!("{package}=={exact}")
            });
        }
        all = all
            .iter()
            .flat_map(|some| {
                meant
                    .iter()
                    .map(|one| [some.as_slice(), std::slice::from_ref(one)].concat())
            })
            .collect();
        limit(database, &mut all);
    }
    let mut all: Vec<_> = all
        .into_iter()
        .flat_map(|named| with_leaders(database, named))
        .collect();
    limit(database, &mut all);
    all
}

/// Of too many combinations, those that fit in one environment remain, and of those the newest.
fn limit(database: &Database, all: &mut Vec<Vec<String>>) {
    const MAX_COMBINATIONS: usize = 500;
    if all.len() > MAX_COMBINATIONS {
        let fitting = all.iter().filter(|frameworks| {
            let members: Option<Vec<_>> = frameworks
                .iter()
                .map(|text| Member::named(database, text))
                .collect();
            members.is_none_or(|members| mismatch(database, &members).is_none())
        });
        let fitting: Vec<_> = fitting.take(MAX_COMBINATIONS).cloned().collect();
        // One of those that do not is refused, with the reason.
        all.truncate(1);
        if !fitting.is_empty() {
            *all = fitting;
        }
    }
}

/// The frameworks with a release of each one that they extend and that nobody named, newest first:
/// pip installs the newest, and an older one may be the newest that fits.
fn with_leaders(database: &Database, named: Vec<String>) -> Vec<Vec<String>> {
    let mut all = vec![named.clone()];
    for text in &named {
        let Some((leader, releases)) = leader(database, text) else {
            continue;
        };
        let is_named = all[0]
            .iter()
            .any(|other| database.framework(framework_and_version(other).0) == Some(leader));
        if is_named || releases.is_empty() {
            continue;
        }
        all = all
            .iter()
            .flat_map(|some| {
                releases
                    .iter()
                    .map(|release| accompanied(some, leader, release))
            })
            .collect();
    }
    all
}

fn accompanied(
    frameworks: &[String],
    leader: &Framework,
    release: &FrameworkRelease,
) -> Vec<String> {
    let first = format!("{}=={}", leader.name, release.version);
    std::iter::once(first)
        .chain(frameworks.iter().cloned())
        .collect()
}

/// The framework that another one extends, or whose CUDA it uses, and its releases.
fn leader<'a>(
    database: &'a Database,
    text: &str,
) -> Option<(&'a Framework, &'a [FrameworkRelease])> {
    let framework = database.framework(framework_and_version(text).0)?;
    if let Some(leader) = &framework.extends {
        let leader = database.framework(leader)?;
        return Some((leader, &leader.releases));
    }
    let builds = &database.framework_release(text)?.builds;
    let uses_torch = builds.iter().any(|b| b.needs == FrameworkNeeds::Torch);
    let torch = database.framework("torch").filter(|_| uses_torch)?;
    Some((torch, &torch.releases))
}

/// Refuses two releases of one framework: a Python environment has one.
pub(crate) fn named_once(frameworks: &[String]) -> Result<(), Conflict> {
    let Some((_, twice)) = frameworks.iter().enumerate().find(|(at, text)| {
        frameworks[..*at]
            .iter()
            .any(|other| lowercase_name(other) == lowercase_name(text))
    }) else {
        return Ok(());
    };
    let all: Vec<_> = frameworks
        .iter()
        .filter(|text| lowercase_name(text) == lowercase_name(twice))
        .map(String::as_str)
        .collect();
    let sentence = format!(
        "--for names {} more than once ({}); one environment has one release",
        lowercase_name(twice),
        all.join(", ")
    );
    Err(Conflict::request(sentence).hint("plan for each environment separately"))
}

fn lowercase_name(text: &str) -> String {
    framework_and_version(text).0.trim().to_lowercase()
}

/// The requested frameworks with another one instead of `text`.
pub(crate) fn replaced(request: &Request, text: &str, other: &str) -> Vec<String> {
    let all_wanted = request.frameworks.iter();
    all_wanted
        .map(|wanted| if wanted == text { other } else { wanted }.to_owned())
        .collect()
}

pub(crate) fn asking_instead(request: &Request, text: &str, other: &str) -> Hint {
    let mut frameworks = replaced(request, text, other);
    frameworks.dedup();
    Hint::asking(
        "",
        Request {
            frameworks,
            ..request.clone()
        },
    )
}
