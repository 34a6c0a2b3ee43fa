//! The config file: the same keys as the long options, each a default. Unknown keys are errors.

use super::help::variable;
use super::{Problem, flags, judges_off, lists, say, shared_options};
use crate::paths::CONFIG;
use crate::system::environment;
use crate::system::input::{self, InputError};
use crate::system::limits::MAX_CONFIG;
use crate::system::trust::Trust;
use crate::text::{MAX_EDITS, nearest, quoted_path, without_logins};
use crate::yaml;
use clap::Command;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Options and the values that the file gives them.
type Defaults = BTreeMap<String, Vec<String>>;

/// What the config file says; nothing where there is none.
#[derive(Debug, Default)]
pub(crate) struct Config {
    path: PathBuf,
    defaults: Defaults,
}

/// One text or several. Read by hand: an untagged enum would make `12.10` the number 12.1.
#[derive(Debug)]
struct Texts(Vec<String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Texts;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quoted text, true, false, or a list or a map of quoted texts")
            }
            fn visit_bool<E>(self, v: bool) -> Result<Texts, E> {
                Ok(Texts(vec![v.to_string()]))
            }
            fn visit_str<E>(self, v: &str) -> Result<Texts, E> {
                Ok(Texts(vec![v.to_owned()]))
            }
            fn visit_unit<E: serde::de::Error>(self) -> Result<Texts, E> {
                Err(E::custom(
                    "the key has no value: give it one, or leave the key out",
                ))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Texts, E> {
                Ok(Texts(vec![v.to_string()]))
            }
            fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<Texts, E> {
                Err(E::custom(
                    "a version or a fraction must be quoted, such as \"12.8\"",
                ))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> Result<Texts, A::Error> {
                let mut all = Vec::new();
                while let Some(Texts(one)) = seq.next_element()? {
                    all.extend(one);
                }
                Ok(Texts(all))
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Texts, A::Error> {
                let mut all = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, String>()? {
                    all.push(format!("{key}={value}"));
                }
                Ok(Texts(all))
            }
        }
        d.deserialize_any(Visitor)
    }
}

/// A key. YAML reads an unquoted `yes`, which is an option, as true.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Key;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an option")
            }
            fn visit_bool<E>(self, v: bool) -> Result<Key, E> {
                Ok(Key(if v { "yes" } else { "no" }.to_owned()))
            }
            fn visit_str<E>(self, v: &str) -> Result<Key, E> {
                Ok(Key(v.to_owned()))
            }
        }
        d.deserialize_any(Visitor)
    }
}

/// Where the value of an option comes from that is not on the command line.
pub(crate) enum OptionOrigin {
    /// An environment variable.
    Variable(String),
    /// The config file.
    File(PathBuf),
}

impl fmt::Display for OptionOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "the environment variable {name}"),
            Self::File(path) => write!(f, "the config file {}", path.display()),
        }
    }
}

/// Whether a word of the command line is this option, with its value or before it.
pub(crate) fn is_option(word: &str, option: &str) -> bool {
    word.strip_prefix(option)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

impl Config {
    /// Reads the file that the command line or the environment names, else the usual one.
    pub(crate) fn read(arguments: &[OsString]) -> Result<Self, Problem> {
        let asked =
            asked(arguments).or_else(|| environment::raw("GPUSETUP_CONFIG").map(PathBuf::from));
        let path = asked.clone().unwrap_or_else(|| CONFIG.into());
        let file = match input::open_trusted(&path, &Trust::where_root_acts(&[])?) {
            Ok(file) => file,
            Err(e) if e.is_absent() && asked.is_none() => return Ok(Self::default()),
            Err(e) => return Err(of_config(e)),
        };
        let mode = file.metadata().map_or(0, |meta| meta.mode());
        let text = input::bytes(file, &path, MAX_CONFIG).map_err(of_config)?;
        let text =
            String::from_utf8(text).map_err(|_| of_config(InputError::NotText(path.clone())))?;
        let defaults = read(&path, &text)?;
        if mode & 0o044 != 0
            && defaults
                .values()
                .flatten()
                .any(|value| without_logins(value) != *value)
        {
            let path = quoted_path(&path);
            say(&format!(
                "warning: the config file holds a password, and others can read it: chmod 600 {path}"
            ));
        }
        Ok(Self { path, defaults })
    }

    /// The origin of an option's value; none if the command line has the option, or nothing sets
    /// it.
    pub(crate) fn origin(&self, option: &str, arguments: &[OsString]) -> Option<OptionOrigin> {
        if arguments
            .iter()
            .any(|word| is_option(&word.to_string_lossy(), option))
        {
            return None;
        }
        let key = option.strip_prefix("--")?;
        let name = variable(key);
        if environment::raw(&name).is_some() {
            return Some(OptionOrigin::Variable(name));
        }
        self.defaults
            .contains_key(key)
            .then(|| OptionOrigin::File(self.path.clone()))
    }

    /// The problem with a hint at where the option that it is about was set, if that is not the
    /// command line.
    pub(crate) fn traced(&self, problem: Problem, arguments: &[OsString]) -> Problem {
        let option = problem.message.split([':', ' ']).next().unwrap_or_default();
        match self.origin(option, arguments) {
            Some(origin) => {
                let hint = format!("{option} is set by {origin}");
                problem.hint(hint)
            }
            None => problem,
        }
    }

    /// Whether the file sets any option.
    pub(crate) fn has_defaults(&self) -> bool {
        !self.defaults.is_empty()
    }

    /// The command line with these defaults. An option without a twin in the environment is a
    /// command's own, whatever it is called: `uninstall --cuda` must not be set by the toolkit that
    /// a config file wants installed.
    pub(crate) fn with_defaults(&self, command: Command) -> Command {
        let subcommands: Vec<_> = command
            .get_subcommands()
            .map(|s| s.get_name().to_owned())
            .collect();
        subcommands.into_iter().fold(command, |command, name| {
            command.mut_subcommand(name, |sub| self.with_defaults(self.with_own_defaults(sub)))
        })
    }

    /// A command with the defaults of its options, but not of its subcommands'.
    fn with_own_defaults(&self, command: Command) -> Command {
        let ids: Vec<_> = command
            .get_arguments()
            .filter_map(|a| Some((a, a.get_long()?)))
            .filter(|(a, long)| a.get_env() == Some(OsStr::new(&variable(long))))
            .filter_map(|(a, long)| Some((a.get_id().clone(), self.defaults.get(long)?.clone())))
            .collect();
        ids.into_iter().fold(command, |command, (id, values)| {
            command.mut_arg(id, |arg| arg.default_values(values))
        })
    }
}

fn of_config(e: InputError) -> Problem {
    let problem = Problem::from(e);
    Problem {
        message: format!("the config file: {}", problem.message),
        ..problem
    }
}

/// The options of which `none` leaves something out of the plan.
const LEFT_OUT: [&str; 3] = ["driver", "cuda", "cudnn"];

fn read(path: &Path, text: &str) -> Result<Defaults, Problem> {
    // A file of comments sets nothing.
    let map: BTreeMap<Key, Texts> = yaml::read::<Option<_>>(text)
        .map(Option::unwrap_or_default)
        .map_err(|e| Problem::usage(format!("the config file {}: {e}", path.display())))?;
    let map: BTreeMap<String, Texts> = map
        .into_iter()
        .map(|(Key(key), texts)| (key, texts))
        .collect();
    let options = shared_options();
    let known: Vec<&str> = options
        .get_arguments()
        .filter_map(|a| a.get_long())
        .collect();
    if let Some(key) = map.keys().find(|k| !known.contains(&k.as_str())) {
        let line = line_of(text, key);
        let problem = Problem::usage(format!(
            "the config file {}: line {line}: there is no option `{key}`",
            path.display()
        ));
        // As `cudda` and `power_limit` are.
        let typo = key.to_lowercase().replace('_', "-");
        return Err(
            match nearest(&typo, known.iter().copied(), MAX_EDITS.min(typo.len() / 3)) {
                Some(meant) => problem.hint(format!("did you mean `{meant}`?")),
                None => problem.hint(format!("options are: {}", known.join(", "))),
            },
        );
    }
    let lists = lists(&options);
    if let Some((key, Texts(values))) = map
        .iter()
        .find(|(key, Texts(values))| values.len() > 1 && !lists.contains(&key.as_str()))
    {
        let (path, line) = (path.display(), line_of(text, key));
        let sentence =
            format!("the config file {path}: line {line}: `{key}` takes one text, not a list");
        return Err(Problem::usage(sentence).hint(format!(
            "if that is one value, write {key}: \"{}\"",
            values.join(",")
        )));
    }
    let (judges_off, flags) = (judges_off(&options), flags(&options));
    if let Some((key, _)) = map.iter().find(|(key, Texts(values))| {
        let is_meant = judges_off.contains(&key.as_str()) || flags.contains(&key.as_str());
        *values == ["false"] && !is_meant
    }) {
        let (path, line) = (path.display(), line_of(text, key));
        let sentence = format!(
            "the config file {path}: line {line}: `{key}` takes a text, and YAML reads no, off and false as false"
        );
        return Err(
            Problem::usage(sentence).hint(match LEFT_OUT.contains(&key.as_str()) {
                true => format!("to leave it out, write {key}: none"),
                false => format!("without it, leave the key `{key}` out"),
            }),
        );
    }
    // A flag that is false is not given.
    Ok(map
        .into_iter()
        .map(|(key, Texts(values))| (key, values))
        .filter(|(key, values)| {
            !values.is_empty() && (*values != ["false"] || judges_off.contains(&key.as_str()))
        })
        .collect())
}

/// The line that sets a key.
fn line_of(text: &str, key: &str) -> usize {
    text.lines()
        .position(|line| line.trim_start().starts_with(key))
        .map_or(1, |n| n + 1)
}

/// `--config FILE`, found before clap reads the rest.
fn asked(arguments: &[OsString]) -> Option<PathBuf> {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--config" {
            return words.next().map(PathBuf::from);
        }
        if let Some(path) = word.to_str().and_then(|w| w.strip_prefix("--config=")) {
            return Some(path.into());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_options_names() {
        let read = |text: &str| read(Path::new("c.yaml"), text);
        let defaults =
            read("cuda: \"12.10\"\nupgrade: true\ngpu: [\"h100\", \"t4\"]\n").expect("valid");
        assert_eq!(defaults["cuda"], ["12.10"]);
        assert_eq!(defaults["upgrade"], ["true"]);
        assert_eq!(defaults["gpu"], ["h100", "t4"]);
        let mirrors = read("mirrors:\n  https://a.example/x: http://b.example\n").expect("valid");
        assert!(
            read("# nothing yet\n").expect("no keys").is_empty()
                && read("").expect("no keys").is_empty()
        );
        assert_eq!(mirrors["mirrors"], ["https://a.example/x=http://b.example"]);
        let unknown = read("cuda: \"12.8\"\ncudda: \"12.8\"\n").expect_err("an unknown key");
        assert!(
            unknown.message.contains("line 2") && unknown.message.contains("cudda"),
            "{}",
            unknown.message
        );
        for (key, meant) in [
            ("cudda", "cuda"),
            ("power_limit", "power-limit"),
            ("Mig", "mig"),
        ] {
            let file = format!("{key}: \"1\"\n");
            let misspelled = read(&file).expect_err("an unknown key");
            assert_eq!(misspelled.hints, [format!("did you mean `{meant}`?")]);
        }
        assert_eq!(
            read("power-limit: [300]\n").expect("one number")["power-limit"],
            ["300"]
        );
        assert!(
            read("gpu: [12.10]\n").is_err(),
            "an unquoted version in a list"
        );
        assert_eq!(read("yes: true\n").expect("an option")["yes"], ["true"]);
        let listed = read("upgrade: true\nmig: [3g.20gb, 2g.10gb]\n").expect_err("a list");
        assert!(
            listed.message.contains("line 2: `mig` takes one text"),
            "{}",
            listed.message
        );
        assert!(read("cuda: 12.10\n").is_err(), "an unquoted version");
        let twice = read("cuda: \"1\"\ncuda: \"2\"\n").expect_err("a key twice");
        assert!(
            twice
                .message
                .contains("the key `cuda` is there twice (a duplicate) at line 2"),
            "{}",
            twice.message
        );
        for text in ["mig: null\n", "mig:\n"] {
            let empty = read(text).expect_err("no value");
            assert!(
                empty.message.contains("the key has no value"),
                "{}",
                empty.message
            );
        }
        // YAML reads an unquoted off as false. Only for a flag it means that the option is not
        // given.
        let off = read("gpu-clocks: off\ncompute-mode: off\nupgrade: off\n").expect("valid");
        assert_eq!(
            (&off["gpu-clocks"], &off["compute-mode"], off.get("upgrade")),
            (&vec!["false".to_owned()], &vec!["false".to_owned()], None)
        );
        for (text, hint) in [
            ("driver: no\n", "to leave it out, write driver: none"),
            (
                "method: auto\ncache: off\n",
                "without it, leave the key `cache` out",
            ),
        ] {
            let refused = read(text).expect_err("a text is wanted");
            assert!(
                refused
                    .message
                    .contains("YAML reads no, off and false as false"),
                "{}",
                refused.message
            );
            assert_eq!(refused.hints, [hint]);
        }
    }
}
