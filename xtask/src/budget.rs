//! What must not grow back: `xtask/budget.yaml` has a limit for each number, and the reason of each
//! dependency. A number may fall without a word; whoever raises a limit says why in that file.

mod release;

use crate::{Result, project};
use proc_macro2::{TokenStream, TokenTree};
use release::Release;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

const FILE: &str = "xtask/budget.yaml";

/// From here on a function is complex: paths through it, as McCabe counts them.
const COMPLEX: u32 = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Budget {
    crates: BTreeMap<String, Numbers>,
    /// Asserts in tests that search an output for words, instead of showing it.
    substring_asserts: usize,
    help: Help,
    /// Of a release; not counted with the rest, because it is to be built first.
    release: Release,
    /// Why each direct dependency is there.
    dependencies: BTreeMap<String, String>,
}

/// The help of all commands, as docs/src/reference.md has it.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Help {
    lines: usize,
    options: usize,
}

/// What is counted of a crate, its tests left out.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Numbers {
    /// Lines with code.
    lines: usize,
    /// Lines of the longest function.
    longest: usize,
    /// Functions with [`COMPLEX`] or more paths through them.
    complex: usize,
    /// Closures that are bound to a name, as functions are.
    closures: usize,
    /// Items and fields that are `pub` without a restriction.
    public: usize,
}

impl Numbers {
    fn named(self) -> [(&'static str, usize); 5] {
        [
            ("lines", self.lines),
            ("longest", self.longest),
            ("complex", self.complex),
            ("closures", self.closures),
            ("public", self.public),
        ]
    }
}

/// What is over budget in this program, which `cargo build --release` built, as sentences; with
/// `list`, what was measured, too.
pub fn check_release(program: &Path, list: bool) -> Result<Vec<String>> {
    let limits = budget(&project())?.release;
    let measured = Release::measured(program)?;
    let mut over = Vec::new();
    for ((what, number), (_, limit)) in measured.named().into_iter().zip(limits.named()) {
        if list {
            println!("{what}: {number}");
        }
        exceeds(what, number, limit, &mut over);
    }
    Ok(over)
}

fn budget(root: &Path) -> Result<Budget> {
    serde_yaml::from_str(&read(&root.join(FILE))?).map_err(|e| format!("{FILE}: {e}"))
}

/// What is over budget, as sentences; with `list`, what was counted, too.
pub fn check(list: bool) -> Result<Vec<String>> {
    let root = project();
    let budget = budget(&root)?;
    let mut over = Vec::new();
    let counted = crates(&root)?;
    for (name, numbers) in &counted {
        let limits = budget.crates.get(name).copied().unwrap_or_default();
        if list {
            println!("  {name}: {}", row(*numbers));
        }
        for ((what, number), (_, limit)) in numbers.named().into_iter().zip(limits.named()) {
            exceeds(&format!("{name}: {what}"), number, limit, &mut over);
        }
    }
    for name in budget
        .crates
        .keys()
        .filter(|name| !counted.contains_key(*name))
    {
        over.push(format!("{FILE} has a crate {name}, which does not exist"));
    }
    let asserts = substring_asserts(&root)?;
    let help = help(&read(&root.join("docs/src/reference.md"))?);
    if list {
        println!("substring_asserts: {asserts}");
        println!("help: {{lines: {}, options: {}}}", help.lines, help.options);
    }
    exceeds(
        "substring_asserts",
        asserts,
        budget.substring_asserts,
        &mut over,
    );
    exceeds("help: lines", help.lines, budget.help.lines, &mut over);
    exceeds(
        "help: options",
        help.options,
        budget.help.options,
        &mut over,
    );
    let used = dependencies(&root)?;
    for name in used
        .iter()
        .filter(|name| !budget.dependencies.contains_key(*name))
    {
        over.push(format!("{FILE} does not say why {name} is a dependency"));
    }
    for name in budget
        .dependencies
        .keys()
        .filter(|name| !used.contains(*name))
    {
        over.push(format!(
            "{FILE} gives a reason for {name}, which is not a dependency"
        ));
    }
    Ok(over)
}

/// The numbers as budget.yaml has them.
fn row(numbers: Numbers) -> String {
    let parts = numbers
        .named()
        .map(|(what, number)| format!("{what}: {number}"));
    format!("{{{}}}", parts.join(", "))
}

fn exceeds(what: &str, number: usize, limit: usize, over: &mut Vec<String>) {
    if number > limit {
        over.push(format!(
            "{what}: {number}, and the limit is {limit} ({FILE}: lower the number, or raise the limit and say why)"
        ));
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// The program and the crates, by name.
fn crates(root: &Path) -> Result<BTreeMap<String, Numbers>> {
    let mut folders = vec![("program".to_owned(), root.join("src"))];
    for entry in fs::read_dir(root.join("crates")).map_err(|e| format!("crates: {e}"))? {
        let path = entry.map_err(|e| format!("crates: {e}"))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        folders.push((name.into_owned(), path.join("src")));
    }
    let mut all = BTreeMap::new();
    for (name, folder) in folders {
        let mut files = Vec::new();
        sources(&folder, &mut files)?;
        let mut numbers = Numbers::default();
        for (text, file) in parsed(&files)? {
            count(&text, &file, &mut numbers)?;
        }
        all.insert(name, numbers);
    }
    Ok(all)
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The texts of the files, parsed, but for those of modules that only tests have.
fn parsed(files: &[PathBuf]) -> Result<Vec<(String, syn::File)>> {
    let mut all = Vec::new();
    let mut of_tests = BTreeSet::new();
    for path in files {
        let text = read(path)?;
        let file = syn::parse_file(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        let below = match path.file_stem().and_then(|stem| stem.to_str()) {
            Some("lib" | "main" | "mod") => path.with_file_name(""),
            _ => path.with_extension(""),
        };
        for item in &file.items {
            if let syn::Item::Mod(module) = item
                && module.content.is_none()
                && is_of_tests(&module.attrs)
            {
                of_tests.insert(below.join(module.ident.to_string()));
            }
        }
        all.push((path.with_extension(""), text, file));
    }
    all.retain(|(module, ..)| !module.ancestors().any(|around| of_tests.contains(around)));
    Ok(all
        .into_iter()
        .map(|(_, text, file)| (text, file))
        .collect())
}

/// `#[cfg(test)]`, alone or with others.
fn is_of_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg = attribute.path().is_ident("cfg");
        is_cfg
            && attribute.meta.require_list().is_ok_and(|list| {
                let words = list.tokens.to_string();
                words == "test" || words.starts_with("any (test")
            })
    })
}

/// Adds what a file has.
fn count(text: &str, file: &syn::File, numbers: &mut Numbers) -> Result<()> {
    let tokens: TokenStream = text.parse().map_err(|e| format!("{e}"))?;
    let mut lines = BTreeSet::new();
    code_lines(tokens, &mut lines);
    let mut counter = Counter {
        numbers,
        of_tests: Vec::new(),
        paths: Vec::new(),
    };
    counter.visit_file(file);
    let of_tests = counter.of_tests;
    lines.retain(|line| {
        !of_tests
            .iter()
            .any(|(from, to)| (from..=to).contains(&line))
    });
    numbers.lines += lines.len();
    Ok(())
}

/// The lines that have a token; comments, also those of documentation, have none.
fn code_lines(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    let mut before = None;
    for token in tokens {
        if let TokenTree::Group(group) = &token {
            let is_comment = before == Some('#')
                && group
                    .stream()
                    .into_iter()
                    .next()
                    .is_some_and(|first| first.to_string() == "doc");
            if !is_comment {
                lines.extend([
                    group.span_open().start().line,
                    group.span_close().start().line,
                ]);
                code_lines(group.stream(), lines);
            }
            before = None;
            continue;
        }
        before = match &token {
            TokenTree::Punct(mark) => match mark.as_char() {
                '!' if before == Some('#') => before,
                mark => Some(mark),
            },
            _ => None,
        };
        if before != Some('#') {
            lines.extend(token.span().start().line..=token.span().end().line);
        }
    }
}

/// Counts within a file.
struct Counter<'a> {
    numbers: &'a mut Numbers,
    /// First and last lines of what only tests have.
    of_tests: Vec<(usize, usize)>,
    /// Paths through the functions around.
    paths: Vec<u32>,
}

impl Counter<'_> {
    fn function(&mut self, block: &syn::Block, inside: impl FnOnce(&mut Self)) {
        let span = block.span();
        let lines = span.end().line - span.start().line + 1;
        self.numbers.longest = self.numbers.longest.max(lines);
        self.paths.push(1);
        inside(self);
        if self.paths.pop() >= Some(COMPLEX) {
            self.numbers.complex += 1;
        }
    }

    fn branches(&mut self, more: usize) {
        if let Some(paths) = self.paths.last_mut() {
            *paths += u32::try_from(more).unwrap_or(u32::MAX);
        }
    }
}

impl<'ast> Visit<'ast> for Counter<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let (attributes, span) = match item {
            syn::Item::Mod(it) => (&it.attrs, it.span()),
            syn::Item::Fn(it) => (&it.attrs, it.span()),
            syn::Item::Impl(it) => (&it.attrs, it.span()),
            syn::Item::Use(it) => (&it.attrs, it.span()),
            syn::Item::Const(it) => (&it.attrs, it.span()),
            _ => return visit::visit_item(self, item),
        };
        if is_of_tests(attributes) {
            self.of_tests.push((span.start().line, span.end().line));
        } else {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, it: &'ast syn::ItemFn) {
        self.function(&it.block, |counter| visit::visit_item_fn(counter, it));
    }

    fn visit_impl_item_fn(&mut self, it: &'ast syn::ImplItemFn) {
        self.function(&it.block, |counter| visit::visit_impl_item_fn(counter, it));
    }

    fn visit_visibility(&mut self, it: &'ast syn::Visibility) {
        if matches!(it, syn::Visibility::Public(_)) {
            self.numbers.public += 1;
        }
    }

    fn visit_local(&mut self, it: &'ast syn::Local) {
        if let Some(init) = &it.init
            && matches!(*init.expr, syn::Expr::Closure(_))
        {
            self.numbers.closures += 1;
        }
        visit::visit_local(self, it);
    }

    fn visit_expr(&mut self, it: &'ast syn::Expr) {
        match it {
            syn::Expr::If(_) | syn::Expr::While(_) | syn::Expr::ForLoop(_) | syn::Expr::Loop(_) => {
                self.branches(1);
            }
            syn::Expr::Match(it) => self.branches(it.arms.len().saturating_sub(1)),
            syn::Expr::Binary(it) => {
                if matches!(it.op, syn::BinOp::And(_) | syn::BinOp::Or(_)) {
                    self.branches(1);
                }
            }
            _ => {}
        }
        visit::visit_expr(self, it);
    }
}

/// Asserts that look for words in an output: those with `.contains("…")` in them.
fn substring_asserts(root: &Path) -> Result<usize> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "*.rs"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("git ls-files: {e}"))?;
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut count = 0;
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let path = root.join(name);
        if !path.is_file() {
            continue;
        }
        let tokens: TokenStream = read(&path)?.parse().map_err(|e| format!("{name}: {e}"))?;
        count += asserts(tokens);
    }
    Ok(count)
}

fn asserts(tokens: TokenStream) -> usize {
    let mut count = 0;
    let mut is_assert = false;
    for token in tokens {
        match token {
            TokenTree::Ident(name) => is_assert = name == "assert",
            TokenTree::Group(group) if is_assert && searches(group.stream()) => {
                count += 1;
                is_assert = false;
            }
            TokenTree::Group(group) => {
                count += asserts(group.stream());
                is_assert = false;
            }
            _ => {}
        }
    }
    count
}

/// Whether `contains("…")` is among the tokens.
fn searches(tokens: TokenStream) -> bool {
    let mut is_contains = false;
    for token in tokens {
        match token {
            TokenTree::Ident(name) => is_contains = name == "contains",
            TokenTree::Group(group) => {
                let first = group.stream().into_iter().next();
                let is_text = first.is_some_and(|first| first.to_string().starts_with('"'));
                if (is_contains && is_text) || searches(group.stream()) {
                    return true;
                }
                is_contains = false;
            }
            _ => is_contains = false,
        }
    }
    false
}

fn help(reference: &str) -> Help {
    let options = reference
        .lines()
        .filter(|line| line.contains("id=\"option-"))
        .count();
    Help {
        lines: reference.lines().count(),
        options,
    }
}

/// The crates of others that the workspace names.
fn dependencies(root: &Path) -> Result<BTreeSet<String>> {
    let text = read(&root.join("Cargo.toml"))?;
    let part = text
        .split("\n[")
        .find(|part| part.starts_with("workspace.dependencies]"))
        .ok_or_else(|| "Cargo.toml has no workspace.dependencies".to_owned())?;
    let names = part.lines().filter_map(|line| line.split_once(" = "));
    Ok(names
        .map(|(name, _)| name.trim().to_owned())
        .filter(|name| !name.starts_with('#') && !name.starts_with("gpusetup-"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> Numbers {
        let mut numbers = Numbers::default();
        count(text, &syn::parse_file(text).expect("Rust"), &mut numbers).expect("counted");
        numbers
    }

    #[test]
    fn code_is_counted_without_comments_and_tests() {
        let text = "//! Of a file.\n\n/// Of a function.\npub fn a(b: u8) -> u8 {\n    // Says something.\n    let add = |c: u8| c + 1;\n    if b > 1 && b < 3 {\n        return add(b);\n    }\n    b\n}\n\n#[cfg(test)]\nmod tests {\n    pub fn long() {}\n}\n";
        let expected = Numbers {
            lines: 7,
            longest: 8,
            complex: 0,
            closures: 1,
            public: 1,
        };
        assert_eq!(counted(text), expected);
    }

    #[test]
    fn a_function_with_many_paths_is_complex() {
        let arms: String = (0..16).map(|n| format!("{n} => {n},")).collect();
        let text = format!("fn a(b: u8) -> u8 {{ match b {{ {arms} _ => 0 }} }}");
        assert_eq!(counted(&text).complex, 1);
    }

    #[test]
    fn asserts_that_search_are_found() {
        let text = r#"fn a() { assert!(x.err.contains("word"), "{x}"); assert!(x.contains(&y)); assert_eq!(x, "contains"); }"#;
        assert_eq!(asserts(text.parse().expect("tokens")), 1);
    }
}
