//! What the options that name GPUs, versions, frameworks and systems can be, out of the built-in
//! database.

use super::names::{GpuName, gpu_names, typed as as_typed};
use crate::compat::{AddOn, Database};
use crate::database::embedded;
use crate::doctor::CHECKS;
use crate::paths;
use crate::system::System;
use crate::text::count;
use crate::version::CudaVersion;

/// A value, and what to say of it where the shell shows that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) value: String,
    /// A few words; may be empty.
    pub(crate) about: String,
}

impl Candidate {
    /// A value with a few words about it.
    pub(crate) fn new(value: impl Into<String>, about: impl Into<String>) -> Self {
        Self {
            value: value.into(),
            about: about.into(),
        }
    }

    /// With something before it.
    pub(crate) fn after(self, prefix: &str) -> Self {
        Self {
            value: format!("{prefix}{}", self.value),
            ..self
        }
    }
}

/// Those of some candidates that begin with what was typed. Case does not count.
pub(crate) fn completing(typed: &str, all: impl IntoIterator<Item = Candidate>) -> Vec<Candidate> {
    all.into_iter()
        .filter(|candidate| {
            candidate
                .value
                .get(..typed.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(typed))
        })
        .collect()
}

/// The same for names of GPUs, which are understood without their hyphens, too. What was typed
/// stays: `RTX30` becomes `RTX3090-ti`.
fn loosely(typed: &str, all: impl IntoIterator<Item = Candidate>) -> Vec<Candidate> {
    all.into_iter()
        .filter_map(|c| {
            Some(Candidate {
                value: completed(typed, &c.value)?,
                ..c
            })
        })
        .collect()
}

/// What was typed, completed to a name; none if it does not begin the name.
fn completed(typed: &str, name: &str) -> Option<String> {
    let mut letters = name.char_indices().filter(|(_, c)| !"-_".contains(*c));
    let mut end = 0;
    for letter in typed.chars().filter(|c| !"-_".contains(*c)) {
        let (at, of_name) = letters.next()?;
        if !letter.eq_ignore_ascii_case(&of_name) {
            return None;
        }
        end = at + of_name.len_utf8();
    }
    let rest = &name[end..];
    // A hyphen that was typed already.
    let rest = if typed.ends_with(['-', '_']) {
        rest.trim_start_matches(['-', '_'])
    } else {
        rest
    };
    Some(format!("{typed}{rest}"))
}

/// Splits a text after the last character of a set: `>=12.` is `>=` and `12.`.
fn after_last<'a>(text: &'a str, separators: &[char]) -> (&'a str, &'a str) {
    text.split_at(text.rfind(separators).map_or(0, |at| at + 1))
}

/// GPUs: the popular ones until something is typed; then all names, instance types, systems and
/// compute capabilities.
pub(crate) fn gpus(typed: &str) -> Vec<Candidate> {
    let database = embedded();
    // `8x` of something.
    let digits = typed.trim_start_matches(|c: char| c.is_ascii_digit());
    let counted = digits.len() < typed.len() && digits.starts_with(['x', 'X']);
    let (number, typed) = typed.split_at(if counted {
        typed.len() - digits.len() + 1
    } else {
        0
    });
    gpus_of(&database, typed)
        .into_iter()
        .map(|candidate| candidate.after(number))
        .collect()
}

/// The same, without a count.
pub(crate) fn gpus_of(database: &Database, typed: &str) -> Vec<Candidate> {
    if typed.contains(':') {
        let ids = database.gpus.iter().filter(|gpu| gpu.subsystem.is_none());
        return completing(
            typed,
            ids.map(|gpu| Candidate::new(format!("10de:{}", gpu.device), gpu.name)),
        );
    }
    let names = gpu_names(database)
        .into_iter()
        .filter(|gpu| gpu.is_popular || !typed.is_empty());
    let mut all = loosely(
        typed,
        names.map(|GpuName { name, about, .. }| Candidate::new(name, about)),
    );
    if typed.is_empty() {
        return all;
    }
    all.extend(loosely(
        typed,
        database
            .instances
            .iter()
            .filter(|i| !i.part)
            .map(|instance| {
                let gpu = database
                    .gpu(instance.gpu, None)
                    .map_or("", |gpu| gpu.name.as_str());
                Candidate::new(
                    &instance.name,
                    format!("{}: {}x {gpu}", instance.provider.as_str(), instance.count),
                )
            }),
    ));
    let systems = database
        .systems
        .iter()
        .filter(|system| system.gpu.is_some() || system.compute_capability.is_some());
    all.extend(loosely(
        typed,
        systems.map(|system| {
            let gpus = count(system.count.into(), "GPU");
            Candidate::new(as_typed(&system.name), format!("{}, {gpus}", system.name))
        }),
    ));
    let capabilities = database.architectures.iter().rev();
    all.extend(loosely(
        typed,
        capabilities.map(|a| Candidate::new(a.compute_capability.sm(), &a.name)),
    ));
    let architectures = database.architectures.iter();
    let families = architectures.clone().rev().filter(|a| {
        let same = architectures.clone().filter(|other| other.name == a.name);
        same.count() == 1
    });
    all.extend(loosely(
        typed,
        families.map(|a| {
            Candidate::new(
                a.name.to_lowercase(),
                format!("compute capability {}", a.compute_capability),
            )
        }),
    ));
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|candidate| seen.insert(candidate.value.clone()));
    all
}

/// Version requirements: `latest`, `none` and `lines` while nothing is typed; then the lines that
/// begin so, and below a whole line its versions. `all` has full versions, newest first; a line is
/// their first `numbers` numbers.
fn versions(typed: &str, numbers: usize, words: &[&str], all: &[Candidate]) -> Vec<Candidate> {
    let (operator, typed) = after_last(typed, &['<', '>', '=', '~', '!', '^', ' ', ',']);
    let mut lines: Vec<Candidate> = Vec::new();
    for Candidate { value, about } in all {
        let line = value.split('.').take(numbers).collect::<Vec<_>>().join(".");
        if lines.last().is_none_or(|last| last.value != line) {
            lines.push(Candidate::new(line, about));
        }
    }
    let begins = |candidate: &Candidate| candidate.value.starts_with(typed);
    let is_line = lines.iter().any(|line| line.value == typed);
    lines.retain(begins);
    let mut found = lines;
    if is_line || found.is_empty() {
        let below = all
            .iter()
            .filter(|c| begins(c) && (!is_line || c.value[typed.len()..].starts_with('.')));
        found.extend(below.cloned());
    }
    if operator.is_empty() {
        found.extend(
            words
                .iter()
                .map(|word| Candidate::new(*word, ""))
                .filter(begins),
        );
    }
    found.dedup_by(|a, b| a.value == b.value);
    found
        .into_iter()
        .map(|candidate| candidate.after(operator))
        .collect()
}

const WORDS: [&str; 2] = ["latest", "none"];

/// Drivers: branches, then the releases of one.
pub(crate) fn drivers(typed: &str) -> Vec<Candidate> {
    let database = embedded();
    let all: Vec<_> = database
        .drivers
        .iter()
        .map(|release| {
            let kind = database
                .branch(release.version.branch)
                .map_or("", |branch| branch.kind.as_str());
            Candidate::new(release.version.to_string(), kind)
        })
        .collect();
    versions(typed, 1, &WORDS, &all)
}

/// CUDA: series, then the releases of one.
pub(crate) fn cuda(typed: &str) -> Vec<Candidate> {
    let database = embedded();
    let all: Vec<_> = database
        .cuda
        .iter()
        .map(|release| {
            let date = release
                .date
                .as_ref()
                .map(|date| format!("{date}, "))
                .unwrap_or_default();
            let about = format!("{date}driver {} or newer", release.minimum_driver);
            Candidate::new(release.version.to_string(), about)
        })
        .collect();
    versions(typed, 2, &WORDS, &all)
}

/// The toolkits that this host has, newest first: the folders `cuda-12.8` where toolkits are, or
/// below the line's own `--prefix`.
pub(crate) fn installed_toolkits(typed: &str, before: &[String]) -> Vec<Candidate> {
    let given = before
        .windows(2)
        .rev()
        .find(|two| two[0] == "--prefix")
        .map(|two| two[1].as_str());
    let names = System::live()
        .list(given.unwrap_or(paths::PREFIX))
        .unwrap_or_default();
    let mut found: Vec<CudaVersion> = names
        .iter()
        .filter_map(|name| name.strip_prefix("cuda-")?.parse().ok())
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    completing(
        typed,
        found
            .iter()
            .map(|version| Candidate::new(version.to_string(), "installed")),
    )
}

pub(crate) fn cudnn(typed: &str) -> Vec<Candidate> {
    let database = embedded();
    let cudnn = database.add_on_named("cudnn");
    cudnn
        .map(|of| add_on_versions(&database, of, typed, &WORDS))
        .unwrap_or_default()
}

/// The versions of an add-on, newest first.
pub(crate) fn add_on_versions(
    database: &Database,
    of: &AddOn,
    typed: &str,
    words: &[&str],
) -> Vec<Candidate> {
    let mut all: Vec<_> = database
        .add_on_archives(of.id)
        .map(|archive| Candidate::new(archive.version.to_string(), ""))
        .collect();
    all.dedup();
    versions(typed, 2, words, &all)
}

/// Where a name ends and its requirement begins: `torch>=2.4` is `torch` and `>=2.4`.
fn named(typed: &str) -> Option<(&str, &str)> {
    let at = typed.find(['=', '<', '>', '~', '!'])?;
    Some(typed.split_at(at))
}

/// Add-ons besides cuDNN, and after an operator their versions; then the companions that are
/// installed on request.
pub(crate) fn add_ons(typed: &str) -> Vec<Candidate> {
    let database = embedded();
    let Some((name, requirement)) = named(typed) else {
        let others = database
            .add_ons
            .iter()
            .filter(|of| of.id != crate::compat::AddOnId::CUDNN);
        let others = others.map(|of| Candidate::new(of.id.to_string(), &of.title));
        let companions = database.companions.iter().filter(|of| of.on_request);
        return completing(
            typed,
            others.chain(companions.map(|of| Candidate::new(of.id.to_string(), &of.title))),
        );
    };
    let Some(of) = database.add_on_named(name) else {
        return Vec::new();
    };
    add_on_versions(&database, of, requirement, &[])
        .into_iter()
        .map(|candidate| candidate.after(name))
        .collect()
}

/// Frameworks, and after an operator their versions.
pub(crate) fn frameworks(typed: &str) -> Vec<Candidate> {
    frameworks_of(&embedded(), typed)
}

/// The same, of a database that is at hand.
pub(crate) fn frameworks_of(database: &Database, typed: &str) -> Vec<Candidate> {
    let Some((name, requirement)) = named(typed) else {
        return completing(
            typed,
            database
                .frameworks
                .iter()
                .map(|f| Candidate::new(&f.name, &f.title)),
        );
    };
    let Some(framework) = database.framework(name) else {
        return Vec::new();
    };
    let all: Vec<_> = framework
        .releases
        .iter()
        .map(|release| {
            let build = release.builds.first();
            let about = build.map(|build| format!("CUDA {}", build.cuda));
            Candidate::new(&release.version, about.unwrap_or_default())
        })
        .collect();
    versions(requirement, 2, &[], &all)
        .into_iter()
        .map(|candidate| candidate.after(name))
        .collect()
}

/// Parts of toolkits.
pub(crate) fn components(typed: &str) -> Vec<Candidate> {
    completing(
        typed,
        embedded()
            .components
            .iter()
            .map(|c| Candidate::new(c.short(), &c.title)),
    )
}

/// Systems of which a new installation is known; after a colon, machine architectures.
pub(crate) fn systems(typed: &str) -> Vec<Candidate> {
    systems_of(&embedded(), typed)
}

/// The same, of a database that is at hand.
pub(crate) fn systems_of(database: &Database, typed: &str) -> Vec<Candidate> {
    let known = database.distributions.iter().filter(|d| d.version != "*");
    let known =
        known.filter_map(|d| Some((format!("{}-{}", d.id, d.version), d, d.stock.as_ref()?)));
    if let Some((system, arch)) = typed.split_once(':') {
        let kernels = known
            .filter(|(name, ..)| name == system)
            .flat_map(|(.., stock)| &stock.kernels);
        let all = kernels.map(|(arch, kernel)| Candidate::new(arch, format!("kernel {kernel}")));
        return completing(arch, all)
            .into_iter()
            .map(|c| c.after(&format!("{system}:")))
            .collect();
    }
    completing(
        typed,
        known.map(|(name, system, _)| Candidate::new(name, &system.name)),
    )
}

/// doctor's checks.
pub(crate) fn checks(typed: &str) -> Vec<Candidate> {
    let mut ids: Vec<_> = CHECKS.iter().map(|check| check.id).collect();
    ids.sort_unstable_by_key(|id| id.as_str());
    completing(
        typed,
        ids.into_iter()
            .map(|id| Candidate::new(id.as_str(), id.title())),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(all: &[Candidate]) -> Vec<&str> {
        all.iter()
            .map(|candidate| candidate.value.as_str())
            .collect()
    }

    #[test]
    fn what_was_typed_stays() {
        for (typed, name, expected) in [
            ("RTX30", "rtx3090-ti", Some("RTX3090-ti")),
            ("rtx-30", "rtx3090-ti", Some("rtx-3090-ti")),
            ("a100-", "a100-sxm4-80gb", Some("a100-sxm4-80gb")),
            ("a100", "a100-sxm4-80gb", Some("a100-sxm4-80gb")),
            ("", "h100", Some("h100")),
            ("h1000", "h100", None),
            ("é", "h100", None),
        ] {
            assert_eq!(completed(typed, name).as_deref(), expected, "{typed}");
        }
    }

    #[test]
    fn gpus_are_the_popular_ones_until_something_is_typed() {
        let all = gpus("");
        assert!(
            all.len() < 100 && values(&all).contains(&"h100"),
            "{:?}",
            values(&all)
        );
        assert!(values(&gpus("p4")).contains(&"p4d.24xlarge"));
        assert!(
            values(&gpus("standard_nd"))
                .iter()
                .any(|v| v.starts_with("standard_nd96asr")),
            "{:?}",
            gpus("standard_nd")
        );
        assert!(values(&gpus("sm_9")).contains(&"sm_90"));
        assert!(values(&gpus("dgx")).contains(&"dgx-h100"));
        assert!(values(&gpus("hop")).contains(&"hopper"));
        assert_eq!(values(&gpus("10de:2330")), ["10de:2330"]);
        assert_eq!(values(&gpus("8xh20"))[0], "8xh200");
        assert!(gpus("zzz").is_empty());
    }

    #[test]
    fn every_gpu_that_is_offered_is_accepted() {
        let database = embedded();
        let letters = ('a'..='z')
            .map(String::from)
            .chain(["1".into(), "2".into(), "3".into()]);
        let offered = letters.flat_map(|letter| gpus(&letter));
        let refused: Vec<_> = offered
            .filter_map(|c| crate::host::assumed_gpus(&database, &c.value).err())
            .collect();
        assert!(refused.is_empty(), "{refused:#?}");
    }

    #[test]
    fn versions_unfold_line_by_line() {
        let all = cuda("");
        assert!(all.len() < 60, "{}", all.len());
        assert_eq!(values(&all)[all.len() - 2..], ["latest", "none"]);
        let series = cuda("12.");
        let series = values(&series);
        assert_eq!(series[..2], ["12.9", "12.8"], "newest first");
        assert_eq!(
            values(&cuda("12.8")),
            ["12.8", "12.8.2", "12.8.1", "12.8.0"]
        );
        assert_eq!(values(&cuda("12.8."))[0], "12.8.2");
        assert_eq!(
            values(&cuda(">=12.8.")),
            [">=12.8.2", ">=12.8.1", ">=12.8.0"]
        );
        assert_eq!(
            values(&cuda(">=12.4, <13"))[0].split(", ").next(),
            Some(">=12.4")
        );
        assert_eq!(values(&drivers("58")), ["580"]);
        let of_580 = drivers("580");
        assert!(
            of_580.len() > 3 && values(&of_580)[1].starts_with("580."),
            "{of_580:?}"
        );
        assert!(values(&cudnn("9."))[0].starts_with("9."));
        assert_eq!(values(&drivers("lat")), ["latest"]);
    }

    #[test]
    fn names_go_before_versions() {
        assert_eq!(values(&frameworks("tor"))[0], "torch");
        assert!(values(&frameworks("torch==2."))[0].starts_with("torch==2."));
        assert!(values(&frameworks("torch>=2.4,<"))[0].starts_with("torch>=2.4,<"));
        assert!(values(&add_ons("nccl=="))[0].starts_with("nccl==2."));
        assert!(
            !values(&add_ons("")).contains(&"cudnn"),
            "it has its own option"
        );
        assert!(frameworks("nosuch==").is_empty());
        assert_eq!(
            values(&systems("ubuntu-24.04:aa")),
            ["ubuntu-24.04:aarch64"]
        );
        assert_eq!(values(&checks("gs501")), ["GS501"]);
    }
}
