//! Module streams: packages of an inactive stream are hidden, and so are packages outside of
//! modules with the same name as a package in an active stream. The rules are libdnf's; cases in
//! which it would solve dependencies between modules are not supported.

use super::super::ini::sections;
use super::super::records::{Budget, each_record_of};
use super::super::rpm::repodata::Package;
use super::super::{Unknown, configuration};
use gpusetup_database::yaml;
use gpusetup_system::System;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const STATES: &str = "/etc/dnf/modules.d";
/// dnf 5 stores the states elsewhere; the distributions that use it have no modules.
const DNF5_STATES: &str = "/usr/lib/sysimage/libdnf5/modules.toml";
/// The maximum size of all texts in bytes. A module's text usually has tens of kilobytes.
const MAX_TEXT: usize = 64 << 20;

#[derive(Debug, Deserialize)]
struct Document {
    document: String,
    data: Data,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Data {
    name: String,
    stream: Option<String>,
    context: String,
    dependencies: Vec<Dependencies>,
    artifacts: Artifacts,
    demodularized: Artifacts,
    /// The module, in a document about default streams.
    module: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Dependencies {
    requires: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Artifacts {
    rpms: Vec<String>,
}

/// An administrator's choice for a module.
enum State {
    Enabled(String),
    Disabled,
}

/// Removes hidden packages. Each package has its repository; in hotfix repositories, modules hide
/// nothing.
pub(crate) fn hide(
    system: &System,
    files: &[&PathBuf],
    platform: Option<&str>,
    is_hotfix: impl Fn(usize) -> bool,
    packages: &mut Vec<(usize, Package)>,
    budget: &Budget,
) -> Result<(), Unknown> {
    let names: BTreeSet<String> = packages
        .iter()
        .flat_map(|(_, p)| p.provides.iter().chain([&p.name]))
        .cloned()
        .collect();
    let mut texts = Vec::new();
    for file in files {
        texts.extend(documents(system, file, budget)?);
    }
    let Some(file) = files.first() else {
        return Ok(());
    };
    let wrong = |why: String| Unknown::at(file, why);
    let streams = parsed(
        texts.iter().filter(|text| names_any(text, &names)),
        "modulemd",
    )
    .map_err(wrong)?;
    if streams.is_empty() {
        return Ok(());
    }
    if system.exists(DNF5_STATES) {
        return Err(Unknown::at(
            DNF5_STATES,
            "the modules of dnf 5 are not supported",
        ));
    }
    let defaults = parsed(
        texts.iter().filter(|t| t.contains("modulemd-defaults")),
        "modulemd-defaults",
    )
    .map_err(wrong)?;
    let chooser = Chooser {
        states: states(system)?,
        defaults: defaults_of(defaults).map_err(wrong)?,
        platform,
    };
    chooser.check_dependents(&texts, &streams).map_err(wrong)?;
    let active = chooser.active(&streams).map_err(wrong)?;

    let (mut shown, mut hidden) = (BTreeSet::new(), BTreeSet::new());
    for (stream, is_active) in streams.iter().zip(&active) {
        let artifacts = stream.artifacts.rpms.iter();
        let artifacts = artifacts.map(|nevra| without_zero_epoch(nevra));
        if *is_active {
            shown.extend(artifacts);
        } else {
            hidden.extend(artifacts);
        }
    }
    let shown_names: BTreeSet<String> = shown
        .iter()
        .filter_map(|nevra| Some(name_of(nevra)?.to_owned()))
        .collect();
    packages.retain(|(at, package)| {
        let nevra = format!(
            "{}-{}.{}",
            package.name,
            package.evr(),
            package.architecture
        );
        let mut names = package.provides.iter().chain([&package.name]);
        shown.contains(&nevra)
            || is_hotfix(*at)
            || !hidden.contains(&nevra) && !names.any(|name| shown_names.contains(name))
    });
    Ok(())
}

struct Chooser<'a> {
    states: BTreeMap<String, State>,
    /// Default streams of modules.
    defaults: BTreeMap<String, String>,
    platform: Option<&'a str>,
}

impl Chooser<'_> {
    /// Whether each stream is active.
    fn active(&self, streams: &[Data]) -> Result<Vec<bool>, String> {
        let active: Vec<bool> = streams
            .iter()
            .map(|s| self.is_active(s))
            .collect::<Result<_, _>>()?;
        let mut contexts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (stream, _) in streams.iter().zip(&active).filter(|(_, active)| **active) {
            contexts
                .entry(&stream.name)
                .or_default()
                .insert(&stream.context);
            if !stream.demodularized.rpms.is_empty() {
                return Err(format!(
                    "the module {} has demodularized packages, which are not supported",
                    stream.name
                ));
            }
        }
        match contexts.iter().find(|(_, contexts)| contexts.len() > 1) {
            Some((name, _)) => Err(format!("the stream of {name} has several contexts")),
            None => Ok(active),
        }
    }

    fn is_active(&self, stream: &Data) -> Result<bool, String> {
        let name = stream.stream.as_deref().unwrap_or_default();
        let is_chosen = match self.states.get(&stream.name) {
            Some(State::Disabled) => false,
            Some(State::Enabled(chosen)) => chosen == name,
            None => self
                .defaults
                .get(&stream.name)
                .is_some_and(|default| default == name),
        };
        if !is_chosen {
            return Ok(false);
        }
        for (module, wanted) in stream.dependencies.iter().flat_map(|d| &d.requires) {
            if module != "platform" {
                return Err(format!(
                    "the module {} needs {module}, which is not supported",
                    stream.name
                ));
            }
            let here = self
                .platform
                .and_then(|p| p.strip_prefix("platform:"))
                .ok_or("the platform is not known")?;
            if wanted.iter().any(|w| w.starts_with('-')) {
                return Err(format!(
                    "the module {} has a condition that is not supported",
                    stream.name
                ));
            }
            if !wanted.is_empty() && !wanted.iter().any(|w| w == here) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Refuses modules that a dependent module may activate; not if an administrator chose the
    /// stream.
    fn check_dependents(&self, texts: &[String], streams: &[Data]) -> Result<(), String> {
        let names: BTreeSet<&str> = streams.iter().map(|s| s.name.as_str()).collect();
        for name in names
            .into_iter()
            .filter(|name| !self.states.contains_key(*name))
        {
            let key = format!("{name}:");
            for other in parsed(texts.iter().filter(|text| text.contains(&key)), "modulemd")? {
                let needs = other
                    .dependencies
                    .iter()
                    .any(|d| d.requires.contains_key(name));
                let may_be_active = self.states.contains_key(&other.name)
                    || self.defaults.contains_key(&other.name);
                if needs && may_be_active {
                    return Err(format!(
                        "the module {} needs {name}, which is not supported",
                        other.name
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The texts in a file of modules.
fn documents(system: &System, path: &Path, budget: &Budget) -> Result<Vec<String>, Unknown> {
    let (mut texts, mut length) = (Vec::new(), 0);
    each_record_of(system, path, b"\n---", budget, |text| {
        length += text.len();
        if length > MAX_TEXT {
            return Err("it is larger than 64 MiB".to_owned());
        }
        let text = String::from_utf8_lossy(text.strip_prefix(b"---").unwrap_or(text));
        let text = text.split("\n...").next().unwrap_or_default();
        if !text.trim().is_empty() {
            texts.push(text.to_owned());
        }
        Ok(())
    })?;
    Ok(texts)
}

/// Whether a text lists an artifact with one of these names.
fn names_any(text: &str, names: &BTreeSet<String>) -> bool {
    let items = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("- "));
    items
        .map(|item| item.trim().trim_matches(['"', '\'']))
        .any(|nevra| name_of(nevra).is_some_and(|n| names.contains(n)))
}

/// The name in `name-epoch:version-release.arch`.
fn name_of(nevra: &str) -> Option<&str> {
    let (rest, _) = nevra.rsplit_once('-')?;
    rest.rsplit_once('-').map(|(name, _)| name)
}

fn without_zero_epoch(nevra: &str) -> String {
    let zero = name_of(nevra)
        .and_then(|name| Some((name, nevra.strip_prefix(name)?.strip_prefix("-0:")?)));
    zero.map_or_else(|| nevra.to_owned(), |(name, rest)| format!("{name}-{rest}"))
}

fn parsed<'a>(texts: impl Iterator<Item = &'a String>, kind: &str) -> Result<Vec<Data>, String> {
    let mut all = Vec::new();
    for text in texts {
        let document: Document = yaml::read_texts(text).map_err(|e| e.to_string())?;
        if document.document == kind {
            all.push(document.data);
        }
    }
    Ok(all)
}

fn defaults_of(all: Vec<Data>) -> Result<BTreeMap<String, String>, String> {
    let mut defaults = BTreeMap::new();
    for Data { module, stream, .. } in all {
        let Some(stream) = stream else { continue };
        if defaults
            .insert(module.clone(), stream.clone())
            .is_some_and(|other| other != stream)
        {
            return Err(format!("the module {module} has two default streams"));
        }
    }
    Ok(defaults)
}

fn states(system: &System) -> Result<BTreeMap<String, State>, Unknown> {
    let mut states = BTreeMap::new();
    for file in system
        .list(STATES)
        .map_err(|e| Unknown::at(STATES, e))?
        .iter()
        .filter(|n| n.ends_with(".module"))
    {
        for section in sections(&configuration(system, &Path::new(STATES).join(file))?) {
            let stream = section.value("stream").unwrap_or_default().to_owned();
            match (
                section.value("state").unwrap_or_default(),
                section.switch("enabled"),
            ) {
                ("enabled", _) | ("", Some(true)) => {
                    states.insert(section.name, State::Enabled(stream))
                }
                ("disabled", _) => states.insert(section.name, State::Disabled),
                _ => None,
            };
        }
    }
    Ok(states)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(name: &str, requires: &str, rpms: &str) -> String {
        format!(
            "---\ndocument: modulemd\nversion: 2\ndata:\n  name: driver\n  stream: {name}\n  version: 20250101\n  context: abc\n  \
             arch: x86_64\n  summary: x\n  license: {{module: [MIT]}}\n  dependencies:\n  - requires: {requires}\n  \
             artifacts:\n    rpms:\n    - {rpms}\n...\n"
        )
    }

    const DEFAULT: &str = "---\ndocument: modulemd-defaults\nversion: 1\ndata:\n  module: driver\n  stream: '2'\n  profiles: {'2': [default]}\n";

    fn packages() -> Vec<(usize, Package)> {
        let package = |name: &str, version: &str, at: usize| {
            let [name, version] = [name, version].map(str::to_owned);
            let [epoch, release, architecture] = ["0", "1", "noarch"].map(str::to_owned);
            (
                at,
                Package {
                    name,
                    version,
                    epoch,
                    release,
                    architecture,
                    provides: Vec::new(),
                },
            )
        };
        vec![
            package("a", "1", 0),
            package("a", "2", 0),
            package("a", "3", 0),
            package("a", "4", 1),
            package("b", "1", 0),
        ]
    }

    /// The versions of `a` that are not hidden. Repository 1 is a hotfix repository.
    fn left(modules: &str, state: &str) -> Result<Vec<String>, String> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(dir.path().join("modules.yaml"), modules).expect("written");
        std::fs::create_dir_all(dir.path().join("etc/dnf/modules.d")).expect("made");
        std::fs::write(dir.path().join("etc/dnf/modules.d/driver.module"), state).expect("written");
        let (mut all, path) = (packages(), PathBuf::from("/modules.yaml"));
        let platform = Some("platform:el9");
        hide(
            &System::at(dir.path()),
            &[&path],
            platform,
            |at| at == 1,
            &mut all,
            &Budget::default(),
        )
        .map_err(|e| e.to_string())?;
        assert!(all.iter().any(|(_, p)| p.name == "b"));
        Ok(all
            .into_iter()
            .filter(|(_, p)| p.name == "a")
            .map(|(_, p)| p.version)
            .collect())
    }

    #[test]
    fn only_the_active_stream_is_seen() {
        let el9 = "{platform: [el9]}";
        let two = stream("1", el9, "a-0:1-1.noarch") + &stream("2", el9, "\"a-2-1.noarch\"");
        let enabled = |stream: &str| {
            format!("[driver]\nname=driver\nstream={stream}\nprofiles=\nstate=enabled\n")
        };
        assert_eq!(
            left(&two, "").expect("known"),
            ["3", "4"],
            "no stream is active, and 3 belongs to none"
        );
        assert_eq!(left(&two, &enabled("1")).expect("known"), ["1", "4"]);
        assert_eq!(
            left(&(two.clone() + DEFAULT), "").expect("known"),
            ["2", "4"]
        );
        assert_eq!(
            left(&(two.clone() + DEFAULT), &enabled("1")).expect("known"),
            ["1", "4"]
        );
        assert_eq!(
            left(
                &(two.clone() + DEFAULT),
                "[driver]\nstate=disabled\nstream=\n"
            )
            .expect("known"),
            ["3", "4"]
        );
        let other = stream("1", el9, "other-0:1-1.noarch");
        assert_eq!(left(&other, "").expect("known"), ["1", "2", "3", "4"]);
        let el8 = stream("2", "{platform: [el8]}", "a-2-1.noarch") + DEFAULT;
        assert_eq!(
            left(&el8, "").expect("known"),
            ["1", "3", "4"],
            "another platform's"
        );
        let any = stream("2", "{platform: []}", "a-2-1.noarch") + DEFAULT;
        assert_eq!(left(&any, "").expect("known"), ["2", "4"]);
    }

    #[test]
    fn what_needs_a_solver_is_not_known() {
        let el9 = "{platform: [el9]}";
        let needs = stream("2", "{perl: ['5']}", "a-2-1.noarch") + DEFAULT;
        assert!(left(&needs, "").expect_err("unknown").contains("perl"));
        let contexts = stream("2", el9, "a-2-1.noarch")
            + &stream("2", el9, "a-1-1.noarch").replace("abc", "def")
            + DEFAULT;
        assert!(
            left(&contexts, "")
                .expect_err("unknown")
                .contains("contexts")
        );
        let dependent =
            stream("1", "{driver: ['1']}", "z-1-1.noarch").replace("name: driver", "name: other");
        let default = DEFAULT.replace("driver", "other");
        let both = stream("1", el9, "a-1-1.noarch") + &dependent + &default;
        assert!(left(&both, "").expect_err("unknown").contains("other"));
        assert!(
            left(
                "---\ndocument: modulemd\ndata:\n  artifacts: 5\n  rpms:\n  - a-1-1.noarch\n",
                ""
            )
            .is_err()
        );
    }
}
