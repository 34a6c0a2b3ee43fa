//! apt's configuration, as far as it affects the choice of versions. A setting that moves apt's
//! files, or changes the choice in an unsupported way, is an error: a wrong answer would be worse.

use super::super::{Unknown, configuration};
use gpusetup_system::System;
use std::path::{Path, PathBuf};

const FILE: &str = "/etc/apt/apt.conf";
const FOLDER: &str = "/etc/apt/apt.conf.d";

/// Unsupported settings, in lower case. An entry that ends with `::` includes everything below it.
const UNSUPPORTED: &[&str] = &[
    "dir",
    "rootdir",
    "dir::state",
    "dir::state::",
    "dir::etc",
    "dir::etc::",
    "apt::architecture",
    "apt::architectures",
    "apt::architectures::",
    "apt::architecture-variants",
    "apt::architecture-variants::",
    "apt::barbarianarchitectures::",
    "apt::snapshot",
    "apt::sources::with",
    "apt::sources::with::",
    "apt::get::phase-policy",
    "acquire::indextargets::deb::packages::metakey",
    "acquire::indextargets::deb::packages::flatmetakey",
    "acquire::indextargets::deb::packages::defaultenabled",
    "acquire::indextargets::deb::packages::identifier",
];

/// The maximum length of a setting's name in bytes, and the maximum depth of nested scopes.
const MAX_NAME: usize = 1000;
const MAX_SCOPES: usize = 50;

/// `APT::Default-Release`; empty if it is not set.
pub(crate) fn default_release(system: &System) -> Result<String, Unknown> {
    let mut all = Vec::new();
    let files = parts(system, FOLDER, &["", "conf"])?;
    for path in files.into_iter().chain([PathBuf::from(FILE)]) {
        parse(&configuration(system, &path)?, &mut all).map_err(|why| Unknown::at(&path, why))?;
    }
    let mut set = all.iter().filter(|(_, value)| !value.is_empty());
    let unsupported = set.find(|(key, _)| {
        UNSUPPORTED
            .iter()
            .any(|u| key == *u || u.ends_with("::") && key.starts_with(u))
    });
    if let Some((key, value)) = unsupported {
        return Err(Unknown::at(
            FILE,
            format!("the setting {key} {value:?} is not supported"),
        ));
    }
    Ok(all
        .into_iter()
        .rev()
        .find(|(key, _)| key == "apt::default-release")
        .map_or_else(String::new, |(_, value)| value))
}

/// The files of a folder that apt reads: with one of these suffixes (an empty one means none), and
/// only valid characters in the name.
pub(crate) fn parts(
    system: &System,
    folder: &str,
    endings: &[&str],
) -> Result<Vec<PathBuf>, Unknown> {
    let names = system.list(folder).map_err(|e| Unknown::at(folder, e))?;
    Ok(names
        .into_iter()
        .filter(|name| {
            let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
            !name.starts_with('.')
                && !name.ends_with('.')
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_-:.".contains(c))
                && endings.contains(&ending)
        })
        .map(|name| Path::new(folder).join(name))
        .collect())
}

/// Adds the settings of a file, their names in lower case and in full.
fn parse(text: &str, all: &mut Vec<(String, String)>) -> Result<(), String> {
    let mut scopes: Vec<String> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    for token in tokens(text)? {
        match token {
            Token::Word(word) => words.push(word),
            Token::Open if scopes.len() == MAX_SCOPES => {
                return Err("too many nested braces".to_owned());
            }
            Token::Open => scopes.push(named(&scopes, words.drain(..).next().unwrap_or_default())?),
            Token::End => statement(&scopes, std::mem::take(&mut words), all)?,
            Token::Close => {
                statement(&scopes, std::mem::take(&mut words), all)?;
                scopes.pop().ok_or("a closing brace has no opening brace")?;
            }
        }
    }
    statement(&scopes, words, all)
}

fn named(scopes: &[String], name: String) -> Result<String, String> {
    let name = name.to_ascii_lowercase();
    let name = match scopes.last() {
        Some(scope) => format!("{scope}::{name}"),
        None => name,
    };
    if name.len() <= MAX_NAME {
        Ok(name)
    } else {
        Err("the name of a setting is too long".to_owned())
    }
}

fn statement(
    scopes: &[String],
    words: Vec<String>,
    all: &mut Vec<(String, String)>,
) -> Result<(), String> {
    let mut words = words.into_iter();
    let Some(first) = words.next() else {
        return Ok(());
    };
    match (&*first, words.next()) {
        ("#clear", Some(key)) => {
            let key = key.to_ascii_lowercase();
            all.retain(|(k, _)| *k != key && !k.starts_with(&format!("{key}::")));
        }
        ("#include", _) => return Err("#include is not supported".to_owned()),
        (_, Some(value)) => all.push((named(scopes, first)?, value)),
        // A list element, or a name without a value.
        (_, None) => all.push((named(scopes, String::new())?, first)),
    }
    Ok(())
}

enum Token {
    Word(String),
    Open,
    Close,
    End,
}

/// Splits a text into words, quoted or not, braces and semicolons. `//` and `#` begin a comment,
/// except `#clear` and `#include`.
fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let (mut tokens, mut rest) = (Vec::new(), text);
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        if c.is_whitespace() {
            rest = after;
        } else if rest.starts_with("/*") {
            rest = rest.split_once("*/").ok_or("a comment has no end")?.1;
        } else if rest.starts_with("//")
            || c == '#' && !rest.starts_with("#clear") && !rest.starts_with("#include")
        {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
        } else if c == '"' {
            let (word, remainder) = after.split_once('"').ok_or("a quote has no end")?;
            tokens.push(Token::Word(word.to_owned()));
            rest = remainder;
        } else if let Some(token) = match c {
            '{' => Some(Token::Open),
            '}' => Some(Token::Close),
            ';' => Some(Token::End),
            _ => None,
        } {
            tokens.push(token);
            rest = after;
        } else {
            let end = rest
                .find(|c: char| c.is_whitespace() || "{};\"".contains(c))
                .unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
    }
    Ok(tokens)
}

/// For fuzzing.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    let _ = parse(text, &mut Vec::new());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<(String, String)> {
        let mut all = Vec::new();
        parse(text, &mut all).expect("understood");
        all
    }

    fn host(text: &str) -> (tempfile::TempDir, System) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir_all(dir.path().join("etc/apt/apt.conf.d")).expect("made");
        std::fs::write(dir.path().join("etc/apt/apt.conf.d/50x"), text).expect("written");
        let system = System::at(dir.path());
        (dir, system)
    }

    #[test]
    fn names_and_scopes_have_an_end() {
        let in_each_other = |n: usize| {
            parse(
                &format!("{}x \"y\";{}", "a{".repeat(n), "};".repeat(n)),
                &mut Vec::new(),
            )
        };
        assert_eq!(in_each_other(MAX_SCOPES), Ok(()));
        assert!(in_each_other(MAX_SCOPES + 1).is_err() && in_each_other(400_000).is_err());
        assert!(
            parse(
                &format!("{} \"y\";", "a".repeat(MAX_NAME + 1)),
                &mut Vec::new()
            )
            .is_err()
        );
    }

    #[test]
    fn the_settings_of_a_file_are_read_as_apt_reads_them() {
        let text = "// x\nAPT::Default-Release \"stable\"; # y\nAPT { NeverAutoRemove { \"^a\"; \"b;\"; }; Get::Assume-Yes true };\n\
                    /* APT::x 1; */ Dir::Cache { srcpkgcache \"\"; }\n#clear APT::Get;\n";
        let want = [
            ("apt::default-release", "stable"),
            ("apt::neverautoremove::", "^a"),
            ("apt::neverautoremove::", "b;"),
            ("dir::cache::srcpkgcache", ""),
        ];
        assert_eq!(
            parsed(text),
            want.map(|(k, v)| (k.to_owned(), v.to_owned()))
        );
        for odd in ["a \"b", "}", "/* x", "#include \"/x\";"] {
            assert!(parse(odd, &mut Vec::new()).is_err(), "{odd}");
        }
    }

    #[test]
    fn what_moves_files_or_changes_the_choice_is_not_guessed() {
        let (_dir, system) = host(
            "APT::Default-Release \"a\";\napt::default-release \"/^b/\";\nDir::Cache::pkgcache \"\";\n",
        );
        assert_eq!(default_release(&system).expect("known"), "/^b/");
        for odd in [
            "Dir::Etc::sourcelist \"/x\";",
            "Dir { State { lists \"/x\"; } }",
            "Dir \"/x\";",
            "APT::Architecture i386;",
        ] {
            let (_dir, system) = host(odd);
            assert!(default_release(&system).is_err(), "{odd}");
        }
    }

    #[test]
    fn only_files_of_usual_names_count() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for name in [
            "b",
            "a.conf",
            "c.conf~",
            "d.dpkg-old",
            ".e",
            "f.",
            "g h",
            "i.pref",
        ] {
            std::fs::write(dir.path().join(name), "").expect("written");
        }
        let names = parts(&System::at(dir.path()), "/", &["", "conf"]).expect("listed");
        assert_eq!(names, [Path::new("/a.conf"), Path::new("/b")]);
    }
}
