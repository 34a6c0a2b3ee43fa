//! The architecture, as far as cargo does not hold it (a crate uses only those that its Cargo.toml
//! names): no files of a crate use each other in a circle. A module and its own submodules are one
//! thing here; tests and what only they use are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module by its names from the crate's root: `["plan", "driver"]`; the root itself has none.
type Module = Vec<String>;

struct Source {
    module: Module,
    /// What it names of this crate, as it stands in the text: `crate::plan::Step`,
    /// `super::job::Job`.
    paths: BTreeSet<Vec<String>>,
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    for root in members().into_iter().chain(["xtask/src".to_owned()]) {
        let sources = sources(&root);
        let modules: BTreeSet<_> = sources.iter().map(|source| source.module.clone()).collect();
        let mut uses: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for source in &sources {
            let named = absolute(source).map(|path| module_of(&path, &modules));
            let others = named.filter(|other| {
                !other.starts_with(&source.module) && !source.module.starts_with(other)
            });
            uses.entry(source.module.clone())
                .or_default()
                .extend(others);
        }
        // An arrow is part of a circle if its end leads back to its beginning.
        let whole = uses.clone();
        uses.iter_mut().for_each(|(module, others)| {
            others.retain(|other| reachable(&whole, other).contains(module))
        });
        uses.retain(|_, others| !others.is_empty());
        let arrow = |(module, others): (&Module, &BTreeSet<Module>)| {
            let others: Vec<_> = others.iter().map(|other| other.join("::")).collect();
            format!("{} uses {}", module.join("::"), others.join(", "))
        };
        let circle: BTreeSet<_> = uses.iter().map(arrow).collect();
        assert!(circle.is_empty(), "a circle in {root}:\n{}", lines(&circle));
    }
}

/// An id as a text could be mistyped, and nobody would notice: only `ids.rs` has them as texts.
#[test]
fn ids_are_no_texts_in_the_program() {
    let rules: Vec<_> = gpusetup::ids::RuleId::ALL
        .iter()
        .filter(|rule| rule.as_str().contains('-'))
        .collect();
    let mut wrong = BTreeSet::new();
    for (module, code) in all_codes("crates/database")
        .into_iter()
        .filter(|(module, _)| module != "crates/text/src::ids")
    {
        let texts = code
            .lines()
            .filter_map(|line| Some((line, line.split_once('"')?.1)));
        let has_id = |text: &str| {
            let ids = text.match_indices("GS").map(|(at, _)| &text[at + 2..]);
            let is_check = |rest: &str| rest.chars().take_while(char::is_ascii_digit).count() == 3;
            { ids }.any(is_check) || rules.iter().any(|rule| text.contains(&format!("{rule}\"")))
        };
        let outside = |text: &str| text.replace("CheckId::GS", "");
        let found = texts.filter(|(_, text)| has_id(&outside(text)));
        wrong.extend(found.map(|(line, _)| format!("{module}: {}", line.trim())));
    }
    assert!(
        wrong.is_empty(),
        "use CheckId and RuleId here:\n{}",
        lines(&wrong)
    );
}

/// What differs between package managers is in `packages`, and between forms of container engines in
/// `host::engines`: whoever asks which one it is knows something that belongs there.
#[test]
fn package_managers_and_engines_are_told_apart_in_one_place() {
    let mut wrong = BTreeSet::new();
    for (name, home) in [
        ("PackageManager", "crates/packages/"),
        ("EngineForm", "crates/host/src::engines"),
    ] {
        let uses = [format!("{name}::"), format!("{name} as ")];
        for (module, code) in all_codes("crates/database")
            .into_iter()
            .filter(|(module, _)| !module.starts_with(home))
        {
            let found = code
                .lines()
                .filter(|line| uses.iter().any(|p| line.contains(p)));
            wrong.extend(found.map(|line| format!("{module}: {}", line.trim())));
        }
    }
    assert!(
        wrong.is_empty(),
        "make this a field of packages::Manager or engines::EngineBehaviour, or a function in the file of each:\n{}",
        lines(&wrong)
    );
}

/// Documents, tests and snapshots name ids that there are.
#[test]
fn ids_that_are_named_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
        .map(|file| root.join(file))
        .to_vec();
    below(&root.join("docs/src"), &["md"], &mut files);
    for folder in ["tests", "src", "crates", "schemas"] {
        below(&root.join(folder), &["rs", "snap", "json"], &mut files);
    }
    let mut unknown = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a file of the project");
        for (at, _) in text.match_indices("GS") {
            let id: String = text[at..]
                .chars()
                .take_while(char::is_ascii_alphanumeric)
                .collect();
            let is_id = id.len() == 5 && id[2..].chars().all(|c| c.is_ascii_digit());
            // These two are for tests of ids that there are not.
            if is_id
                && !["GS000", "GS999"].contains(&&*id)
                && id.parse::<gpusetup::ids::CheckId>().is_err()
            {
                unknown.insert(format!("{}: {id}", file.display()));
            }
        }
    }
    assert!(
        unknown.is_empty(),
        "explain does not know these:\n{}",
        lines(&unknown)
    );
}

/// Cargo builds a second library of each crate for its tests, and reads it once more for its examples;
/// crates that have none say so. These would not be run.
#[test]
fn crates_that_turn_tests_off_have_none() {
    let mut wrong = BTreeSet::new();
    for folder in members()
        .into_iter()
        .filter(|folder| folder.starts_with("crates/"))
    {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(&folder)
            .with_file_name("Cargo.toml");
        let manifest = fs::read_to_string(manifest).expect("a crate has one");
        let mut files = Vec::new();
        below(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join(&folder),
            &["rs"],
            &mut files,
        );
        for file in files {
            let code = fs::read_to_string(&file).expect("a file of the project");
            let mut lines = code.lines().map(str::trim_start);
            let found = lines.find(|line| is_turned_off(line, &manifest));
            wrong.extend(found.map(|line| format!("{}: {line}", file.display())));
        }
    }
    assert!(
        wrong.is_empty(),
        "Cargo.toml turns these off:\n{}",
        lines(&wrong)
    );
}

/// Whether a line begins a test or an example that the crate's Cargo.toml turns off.
fn is_turned_off(line: &str, manifest: &str) -> bool {
    let is_example = line.starts_with("/// ```") || line.starts_with("//! ```");
    is_example && manifest.contains("\ndoctest = false\n")
        || line == "#[test]" && manifest.contains("\ntest = false\n")
}

/// All modules that a module leads to.
fn reachable<'a>(
    uses: &'a BTreeMap<Module, BTreeSet<Module>>,
    from: &'a Module,
) -> BTreeSet<&'a Module> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        let others = uses.get(module).into_iter().flatten();
        next.extend(others.filter(|other| found.insert(*other)));
    }
    found
}

fn lines(texts: &BTreeSet<String>) -> String {
    texts.iter().map(|text| format!("  {text}\n")).collect()
}

/// The longest part of a path that is a module.
fn module_of(path: &[String], modules: &BTreeSet<Module>) -> Module {
    (0..=path.len())
        .rev()
        .map(|length| path[..length].to_vec())
        .find(|path| modules.contains(path))
        .unwrap_or_default()
}

/// What a file names, from the crate's root on.
fn absolute(source: &Source) -> impl Iterator<Item = Vec<String>> {
    source
        .paths
        .iter()
        .filter_map(|path| {
            let ups = path.iter().take_while(|word| *word == "super").count();
            let rest = &path[ups..];
            let mut whole = match (ups, path.first().map(String::as_str)) {
                (0, Some("crate")) => return Some(path[1..].to_vec()),
                (0, Some("self")) => source.module.clone(),
                (0, _) => return None,
                (ups, _) => source.module[..source.module.len().checked_sub(ups)?].to_vec(),
            };
            whole.extend(rest.iter().filter(|word| *word != "self").cloned());
            Some(whole)
        })
        .filter(|path| !path.is_empty())
}

/// The folders with the sources of the program and its crates.
fn members() -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let names = fs::read_dir(crates)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name());
    let mut all: Vec<_> = names
        .map(|name| format!("crates/{}/src", name.display()))
        .collect();
    all.sort();
    all.push("src".to_owned());
    all
}

/// The code of all of them but one, each with the name of its module: `crates/text/src::ids`.
fn all_codes(but: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for folder in members()
        .into_iter()
        .filter(|folder| !folder.starts_with(but))
    {
        for (module, code) in codes(&folder) {
            all.push((format!("{folder}::{}", module.join("::")), code));
        }
    }
    all
}

/// Every file of a crate but those that only tests use.
fn sources(root: &str) -> Vec<Source> {
    codes(root)
        .into_iter()
        .map(|(module, code)| Source {
            module,
            paths: paths(&code),
        })
        .collect()
}

/// The code of each of them.
fn codes(root: &str) -> Vec<(Module, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
    let mut files = Vec::new();
    below(&root, &["rs"], &mut files);
    assert!(!files.is_empty());
    let module = |file: &Path| -> Module {
        let file = file
            .strip_prefix(&root)
            .expect("below it")
            .with_extension("");
        let names = file.iter().map(|name| name.to_string_lossy().into_owned());
        names
            .filter(|name| !["mod", "lib"].contains(&name.as_str()))
            .collect()
    };
    let mut of_tests = BTreeSet::new();
    let texts: Vec<_> = files
        .iter()
        .map(|file| {
            let text = std::fs::read_to_string(file).expect("a file of the project");
            let module = module(file);
            for name in test_modules(&text) {
                of_tests.insert(module.iter().cloned().chain([name]).collect::<Module>());
            }
            (module, text)
        })
        .collect();
    let is_of_tests = |module: &Module| of_tests.iter().any(|test| module.starts_with(test));
    let kept = texts.into_iter().filter(|(module, _)| !is_of_tests(module));
    kept.map(|(module, text)| (module, code(&text))).collect()
}

fn below(folder: &Path, endings: &[&str], files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => below(&path, endings, files),
            false
                if path
                    .extension()
                    .is_some_and(|e| endings.iter().any(|ending| e == *ending)) =>
            {
                files.push(path)
            }
            false => {}
        }
    }
}

/// The modules that a file declares for tests only.
fn test_modules(text: &str) -> Vec<String> {
    let declared = |(attribute, line): (&str, &str)| {
        let private = ["pub(crate) ", "pub "]
            .iter()
            .find_map(|public| line.strip_prefix(public))
            .unwrap_or(line);
        let name = private.strip_prefix("mod ")?.strip_suffix(';')?;
        attribute
            .starts_with("#[cfg(test)]")
            .then(|| name.to_owned())
    };
    text.lines()
        .zip(text.lines().skip(1))
        .filter_map(declared)
        .collect()
}

/// The code of a file without comments, texts and its tests, which are the end of each file that
/// has any.
fn code(text: &str) -> String {
    let tests = text
        .find("\n#[cfg(test)]\nmod tests {")
        .unwrap_or(text.len());
    let without_comment =
        |line: &str| line.split("//").next().unwrap_or_default().to_owned() + "\n";
    text[..tests].lines().map(without_comment).collect()
}

/// All paths that begin with `crate`, `super` or `self`, in `use` or anywhere else.
fn paths(code: &str) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            tree(&mut code[at..].chars().peekable(), &[], &mut found);
        }
    }
    found
}

/// Reads `a::b` or `a::{b, c::d}`, behind what stands before it.
fn tree(
    text: &mut std::iter::Peekable<std::str::Chars>,
    before: &[String],
    found: &mut BTreeSet<Vec<String>>,
) {
    let mut path = before.to_vec();
    loop {
        skip_blanks(text);
        if text.peek() == Some(&'{') {
            text.next();
            loop {
                skip_blanks(text);
                match text.peek() {
                    Some('}') | None => {
                        text.next();
                        return;
                    }
                    Some(',') => drop(text.next()),
                    Some(_) => {
                        let left = text.clone().count();
                        tree(text, &path, found);
                        // A pattern or an expression, no list of names.
                        if text.clone().count() == left {
                            return;
                        }
                    }
                }
            }
        }
        let mut word = String::new();
        while let Some(c) = text.peek().filter(|c| c.is_alphanumeric() || **c == '_') {
            word.push(*c);
            text.next();
        }
        if word.is_empty() {
            break;
        }
        path.push(word);
        let mut next = text.clone();
        if (next.next(), next.next()) != (Some(':'), Some(':')) {
            break;
        }
        *text = next;
    }
    // `a as b`
    if text.clone().take(4).collect::<String>() == " as " {
        text.by_ref().take(4).for_each(drop);
        while text
            .peek()
            .is_some_and(|c| c.is_alphanumeric() || *c == '_')
        {
            text.next();
        }
    }
    found.insert(path);
}

fn skip_blanks(text: &mut std::iter::Peekable<std::str::Chars>) {
    while text.peek().is_some_and(|c| c.is_whitespace()) {
        text.next();
    }
}

#[test]
fn every_module_of_the_tests_on_real_hosts_is_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let run = fs::read_to_string(root.join("tests/run")).expect("there");
    let parts: Vec<_> = run
        .lines()
        .filter(|line| line.contains("on_hosts ") || line.contains("real_host::"))
        .collect();
    let modules = fs::read_dir(root.join("tests/as_root"))
        .expect("there")
        .flatten()
        .map(|file| file.path());
    for file in modules.filter(|path| path.extension().is_some_and(|kind| kind == "rs")) {
        let name = file
            .file_stem()
            .and_then(|name| name.to_str())
            .expect("UTF-8");
        let has_tests = fs::read_to_string(&file)
            .expect("there")
            .contains("#[test]");
        // A filter is a part of a test's name: `repository::` stands for `rpm_repository::`, too.
        let is_named = |line: &&&str| {
            line.split([' ', ';']).any(|filter| {
                filter
                    .split_once("::")
                    .is_some_and(|(module, _)| !module.is_empty() && name.ends_with(module))
            })
        };
        assert!(
            !has_tests || parts.iter().any(|line| is_named(&line)),
            "tests/run has no part for {name}"
        );
    }
}
