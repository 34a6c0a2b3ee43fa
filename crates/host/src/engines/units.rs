//! The systemd units of engines: the command lines that start them, and the variables of their
//! environment.

use super::files::matching;
use gpusetup_database::compat::Engine;
use gpusetup_system::System;
use gpusetup_text::paths::UNIT_FOLDERS;
use gpusetup_text::text::unquoted_words;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A text, and the file that has it.
#[derive(Debug, Clone)]
struct Word {
    file: PathBuf,
    text: String,
}

impl Word {
    fn with(&self, text: impl Into<String>) -> Self {
        Self {
            file: self.file.clone(),
            text: text.into(),
        }
    }

    fn parts(&self) -> (&Path, &str) {
        (self.file.as_path(), self.text.as_str())
    }
}

/// How a unit starts an engine.
pub(super) struct Start {
    /// The words of the command line. Those of a variable are in the file that sets it.
    words: Vec<Word>,
    /// The environment.
    variables: Rc<BTreeMap<String, Word>>,
}

impl Start {
    /// The values of options and variables, each with the file that has it. Those of options come
    /// last, because they count more.
    pub(super) fn values(&self, names: &[String]) -> Vec<(&Path, &str)> {
        let (options, variables): (Vec<&String>, Vec<&String>) =
            names.iter().partition(|name| name.starts_with('-'));
        let of_variables = variables
            .into_iter()
            .filter_map(|name| self.variables.get(name))
            .map(Word::parts);
        let of_options = self.words.iter().enumerate().filter_map(|(at, word)| {
            options
                .iter()
                .find_map(|option| match after_option(&word.text, option)? {
                    "" => self.words.get(at + 1).map(Word::parts),
                    rest => Some((word.file.as_path(), &rest[1..])),
                })
        });
        of_variables
            .chain(of_options)
            .filter(|(_, value)| !value.is_empty())
            .collect()
    }

    /// The words after the program; none if the unit starts another program.
    pub(super) fn options(&self, program: &str) -> Option<Vec<String>> {
        let (first, rest) = self.words.split_first()?;
        let words = rest.iter().map(|word| word.text.clone());
        (first.text == program).then(|| words.collect())
    }

    /// The first word that is one of these options: its file, and the option.
    pub(super) fn first_of(&self, options: &[String]) -> Option<(PathBuf, String)> {
        self.words.iter().find_map(|word| {
            let option = options
                .iter()
                .find(|option| after_option(&word.text, option).is_some())?;
            Some((word.file.clone(), option.clone()))
        })
    }
}

/// What a word has behind an option: nothing, or `=` and the value.
fn after_option<'w>(word: &'w str, option: &str) -> Option<&'w str> {
    word.strip_prefix(option)
        .filter(|rest| rest.is_empty() || rest.starts_with('='))
}

/// How the units of an engine start it.
pub(super) fn starts(system: &System, engine: &Engine) -> Vec<Start> {
    engine
        .units
        .iter()
        .flat_map(|name| Unit::read(system, name).starts(system))
        .collect()
}

/// Settings of a kind that a unit may have; systemd's own have a few.
const MAX_SETTINGS: usize = 64;
/// Words of a command line, and variables of its environment.
const MAX_WORDS: usize = 4096;
/// Bytes of a word with the values of its variables, the kernel's limit; and of all words of a
/// command line.
const MAX_WORD: usize = 128 << 10;

/// The settings of a unit that say how it starts its program.
#[derive(Default)]
struct Unit {
    /// `ExecStart`
    commands: Vec<Word>,
    /// `Environment`
    variables: Vec<Word>,
    /// `EnvironmentFile`
    variable_files: Vec<Word>,
}

impl Unit {
    /// Reads the files of a unit. An empty setting clears what came before.
    fn read(system: &System, name: &str) -> Self {
        let mut unit = Self::default();
        for file in files_of(system, name) {
            let text = joined(&system.read_text(&file).ok().flatten().unwrap_or_default());
            for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
                let settings = match key.trim() {
                    "ExecStart" => &mut unit.commands,
                    "Environment" => &mut unit.variables,
                    "EnvironmentFile" => &mut unit.variable_files,
                    _ => continue,
                };
                match value.trim() {
                    "" => settings.clear(),
                    _ if settings.len() >= MAX_SETTINGS => {
                        system.leave_out(
                            &file,
                            &format!("the unit has more than {MAX_SETTINGS} settings of a kind"),
                        );
                    }
                    value => settings.push(Word {
                        file: file.clone(),
                        text: with_name(value, name),
                    }),
                }
            }
        }
        unit
    }

    fn starts(&self, system: &System) -> Vec<Start> {
        let variables = Rc::new(self.environment(system));
        self.commands
            .iter()
            .map(|command| Start {
                words: command_line(command, &variables),
                variables: Rc::clone(&variables),
            })
            .collect()
    }

    /// The variables. What a file sets counts more than what the unit sets, and the last one
    /// counts: <https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html>.
    fn environment(&self, system: &System) -> BTreeMap<String, Word> {
        let own = self.variables.iter().flat_map(|line| {
            words(&line.text)
                .into_iter()
                .map(move |text| line.with(text))
        });
        let paths = self
            .variable_files
            .iter()
            .map(|word| word.text.trim_start_matches('-'));
        let files = paths.flat_map(|path| matching(system, Path::new(path)));
        let in_files = files.flat_map(|file| {
            let text = system.read_text(&file).ok().flatten().unwrap_or_default();
            lines(&text)
                .into_iter()
                .map(move |text| Word {
                    file: file.clone(),
                    text,
                })
                .collect::<Vec<_>>()
        });
        let assigned = own.chain(in_files).filter_map(|word| {
            let (name, value) = word.text.split_once('=')?;
            Some((name.trim().to_owned(), word.with(unquoted(value.trim()))))
        });
        assigned.take(MAX_WORDS).collect()
    }
}

/// The files of a unit, in the order in which they count.
fn files_of(system: &System, unit: &str) -> Vec<PathBuf> {
    let own = UNIT_FOLDERS
        .iter()
        .map(|folder| Path::new(folder).join(unit))
        .find(|path| system.exists(path));
    let folders = part_folders(unit);
    let places = folders.iter().flat_map(|name| {
        UNIT_FOLDERS
            .iter()
            .map(move |folder| Path::new(folder).join(name))
    });
    let mut parts = BTreeMap::new();
    for folder in places {
        let names = system
            .list(&folder)
            .unwrap_or_default()
            .into_iter()
            .filter(|name| name.ends_with(".conf"));
        for name in names {
            let path = folder.join(&name);
            parts.entry(name).or_insert(path);
        }
    }
    own.into_iter().chain(parts.into_values()).collect()
}

/// The names of the folders with files that add to a unit: `a-b.service.d`, `a-.service.d`,
/// `service.d`. A file in one replaces one of the same name in a later one:
/// <https://www.freedesktop.org/software/systemd/man/latest/systemd.unit.html>.
fn part_folders(unit: &str) -> Vec<String> {
    let (name, kind) = unit.rsplit_once('.').unwrap_or((unit, "service"));
    let of_prefixes = name
        .rmatch_indices('-')
        .map(|(at, _)| format!("{}.{kind}.d", &name[..=at]));
    [format!("{unit}.d")]
        .into_iter()
        .chain(of_prefixes)
        .chain([format!("{kind}.d")])
        .collect()
}

/// The text of a unit with each continued line in one. Comments are left out before that, also
/// those between the parts of a line:
/// <https://www.freedesktop.org/software/systemd/man/latest/systemd.syntax.html>.
fn joined(text: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|line| !is_comment(line)).collect();
    lines.join("\n").replace("\\\n", " ")
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with(['#', ';'])
}

/// A setting with the unit's name in place of systemd's specifiers for it: `/etc/default/%N`.
fn with_name(setting: &str, unit: &str) -> String {
    let name = unit.strip_suffix(".service").unwrap_or(unit);
    setting
        .replace("%N", name)
        .replace("%p", name)
        .replace("%n", unit)
}

/// The lines of a file of variables, each continued one in one line. A comment ends with its line,
/// even if that ends in a backslash, and a line that is continued has none in it, unlike in a unit:
/// <https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html#EnvironmentFile=>.
fn lines(text: &str) -> Vec<String> {
    let (mut lines, mut is_continued) = (Vec::<String>::new(), false);
    for line in text.lines() {
        let part = line.strip_suffix('\\');
        match lines.last_mut() {
            Some(last) if is_continued => last.push_str(part.unwrap_or(line)),
            _ if is_comment(line) => continue,
            _ => lines.push(part.unwrap_or(line).to_owned()),
        }
        is_continued = part.is_some();
    }
    lines
}

fn unquoted(value: &str) -> &str {
    ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(value)
}

/// The words of a command with the values of its variables. What a shell gets as one word is
/// divided, too.
fn command_line(command: &Word, variables: &BTreeMap<String, Word>) -> Vec<Word> {
    let own = words(&command.text)
        .into_iter()
        .flat_map(|word| words(&word))
        .take(MAX_WORDS);
    let mut left = MAX_WORD;
    let all = own
        .flat_map(|text| replaced(command.with(text), variables))
        .take(MAX_WORDS);
    // The kernel starts no program with more.
    all.take_while(|word| {
        left = left.saturating_sub(word.text.len());
        left > 0
    })
    .collect()
}

/// A word with the values of the variables in it. One that is a variable stands for all words of
/// its value.
fn replaced(word: Word, variables: &BTreeMap<String, Word>) -> Vec<Word> {
    let name = word
        .text
        .strip_prefix('$')
        .map(|name| name.trim_start_matches('{').trim_end_matches('}'))
        .filter(|text| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
    if let Some(name) = name {
        let value = variables.get(name).into_iter();
        return value
            .flat_map(|value| {
                words(&value.text)
                    .into_iter()
                    .map(move |text| value.with(text))
            })
            .collect();
    }
    vec![variables.iter().fold(word, |word, (name, value)| {
        let variable = format!("${{{name}}}");
        let count = word.text.matches(&variable).count();
        if count == 0 || word.text.len() + count.saturating_mul(value.text.len()) > MAX_WORD {
            return word;
        }
        value.with(word.text.replace(&variable, &value.text))
    })]
}

/// The words of a line, without quotation marks.
fn words(line: &str) -> Vec<String> {
    unquoted_words(line, char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{tree, write};
    use super::*;
    use gpusetup_data::embedded;

    const UNIT: &str = "/lib/systemd/system/docker.service";
    const VARIABLES: &str = "/etc/default/docker";

    /// The values of this option or variable of Docker on a host with these files, and the files
    /// that have them.
    fn values(name: &str, files: &[(&str, &str)]) -> Vec<(String, String)> {
        let (_dir, system) = tree();
        files
            .iter()
            .for_each(|(path, text)| write(&system, path, text.as_bytes(), 0o644));
        let database = embedded();
        let docker = database
            .engine("docker".parse().expect("an id"))
            .expect("known");
        let found = |start: &Start| {
            let values = start.values(&[name.to_owned()]).into_iter();
            values
                .map(|(file, value)| (file.display().to_string(), value.to_owned()))
                .collect::<Vec<_>>()
        };
        starts(&system, docker).iter().flat_map(found).collect()
    }

    fn one(file: &str, value: &str) -> Vec<(String, String)> {
        vec![(file.to_owned(), value.to_owned())]
    }

    #[test]
    fn an_option_has_its_value_in_each_form() {
        for command in [
            "/usr/bin/dockerd -H fd:// --default-runtime gpu",
            "/usr/bin/dockerd --default-runtime=gpu",
            "/usr/bin/dockerd \\\n  '--default-runtime' \\\n  \"gpu\"",
            "/bin/sh -c 'exec /usr/bin/dockerd --default-runtime=gpu'",
        ] {
            let unit = format!("[Service]\nExecStart={command}\n");
            assert_eq!(
                values("--default-runtime", &[(UNIT, unit.as_str())]),
                one(UNIT, "gpu"),
                "{command}"
            );
        }
        for comment in ["# c", "  ; c", "# c \\", "#"] {
            let unit = format!(
                "[Service]\nExecStart=/usr/bin/dockerd \\\n{comment}\n{comment}\n  --default-runtime gpu\n"
            );
            assert_eq!(
                values("--default-runtime", &[(UNIT, unit.as_str())]),
                one(UNIT, "gpu"),
                "{comment}"
            );
        }
        let other =
            "[Service]\nExecStart=/usr/bin/dockerd --default-runtimes=x --default-runtime\n";
        assert_eq!(values("--default-runtime", &[(UNIT, other)]), []);
    }

    #[test]
    fn variables_are_replaced_by_what_their_files_say() {
        let unit = "[Service]\nEnvironmentFile=-/etc/default/%N\nExecStart=/usr/sbin/dockerd -H fd:// $DOCKER_OPTS\n";
        let all = |more: &[(&str, &str)]| {
            values("--default-runtime", &[&[(UNIT, unit)][..], more].concat())
        };
        assert_eq!(all(&[]), []);
        for text in [
            "DOCKER_OPTS=\"--debug --default-runtime=gpu\"\n",
            "# x=\nDOCKER_OPTS=--default-runtime gpu\n",
        ] {
            assert_eq!(all(&[(VARIABLES, text)]), one(VARIABLES, "gpu"), "{text}");
        }
        assert_eq!(
            all(&[(VARIABLES, "#DOCKER_OPTS=\"--default-runtime=gpu\"\n")]),
            []
        );
        for text in [
            "# c \\\nDOCKER_OPTS=--default-runtime=gpu\n",
            "DOCKER_OPTS=--debug\\\n  --default-runtime=gpu\n",
        ] {
            assert_eq!(all(&[(VARIABLES, text)]), one(VARIABLES, "gpu"), "{text}");
        }
        let part = "/etc/systemd/system/docker.service.d/a.conf";
        let set = "[Service]\nEnvironment=A=b \"DOCKER_OPTS=--default-runtime=gpu --debug\"\n";
        assert_eq!(all(&[(part, set)]), one(part, "gpu"));
        assert_eq!(
            all(&[(part, set), (VARIABLES, "DOCKER_OPTS=\n")]),
            [],
            "the file counts more"
        );
        let named = "[Service]\nEnvironment=RUNTIME=gpu\nExecStart=\nExecStart=/usr/bin/dockerd --default-runtime=${RUNTIME}\n";
        assert_eq!(all(&[(part, named)]), one(part, "gpu"));
        assert_eq!(
            values("RUNTIME", &[(UNIT, named)]),
            one(UNIT, "gpu"),
            "a variable of the environment"
        );
    }

    #[test]
    fn files_for_several_units_count() {
        let unit = "[Service]\nExecStart=/usr/bin/dockerd $OPTIONS\n";
        let set =
            |value: &str| format!("[Service]\nEnvironment=OPTIONS=--default-runtime={value}\n");
        let all = |parts: &[(&str, &str)]| {
            values("--default-runtime", &[&[(UNIT, unit)][..], parts].concat())
        };
        let [of_all, own, earlier] = ["service.d/a", "docker.service.d/a", "docker.service.d/0"]
            .map(|part| format!("/usr/lib/systemd/system/{part}.conf"));
        let [x, y] = ["x", "y"].map(set);
        let of_all = (of_all.as_str(), x.as_str());
        assert_eq!(all(&[of_all]), one(of_all.0, "x"));
        assert_eq!(
            all(&[of_all, (own.as_str(), y.as_str())]),
            one(&own, "y"),
            "it has the same name"
        );
        assert_eq!(
            all(&[of_all, (earlier.as_str(), y.as_str())]),
            one(of_all.0, "x"),
            "the names decide, not the folders"
        );
        let folders = ["rke2-server.service.d", "rke2-.service.d", "service.d"];
        assert_eq!(part_folders("rke2-server.service"), folders);
    }

    #[test]
    fn an_empty_setting_clears_what_came_before() {
        let set =
            "[Service]\nEnvironment=\"X=--default-runtime=gpu\"\nExecStart=/usr/bin/dockerd $X\n";
        let clear = "[Service]\nEnvironment=\n";
        assert_eq!(
            values("--default-runtime", &[(UNIT, set)]),
            one(UNIT, "gpu")
        );
        let part = "/usr/local/lib/systemd/system/docker.service.d/z.conf";
        assert_eq!(
            values("--default-runtime", &[(UNIT, set), (part, clear)]),
            []
        );
    }
}
