//! The variables that a script sets to plain text, such as the version of a toolkit.

use super::{LISTS, is_name, is_of_name, without_export};
use std::collections::BTreeMap;

/// The values of variables, by their names.
#[derive(Default)]
pub(crate) struct Values {
    known: BTreeMap<String, String>,
    /// Whether those with a slash, which are paths, are not kept.
    without_paths: bool,
}

impl Values {
    /// Those that are no paths: `CUDA_VERSION=11.8`.
    pub(crate) fn without_paths() -> Self {
        Self {
            without_paths: true,
            ..Self::default()
        }
    }

    /// The line with the values of variables in the place of `$NAME` and `${NAME}`. What the line
    /// sets is known from then on.
    pub(crate) fn expand(&mut self, line: &str) -> String {
        let mut expanded = String::new();
        for command in line.split_inclusive(';') {
            let command = self.expanded(command);
            self.note(&command);
            expanded += &command;
        }
        expanded
    }

    fn expanded(&self, command: &str) -> String {
        let (mut rest, mut all) = (command, String::new());
        while let Some(at) = rest.find('$') {
            all += &rest[..at];
            rest = &rest[at..];
            let (name, length) = reference(rest);
            all += self.known.get(name).map_or(&rest[..length], String::as_str);
            rest = &rest[length..];
        }
        all + rest
    }

    fn note(&mut self, command: &str) {
        for (name, _) in command
            .split_whitespace()
            .filter_map(|word| word.split_once('='))
        {
            self.known.remove(name);
        }
        let plain: Vec<_> = assignments(command)
            .into_iter()
            .filter(|(name, value)| {
                !LISTS.contains(name)
                    && !value.is_empty()
                    && value.chars().all(|c| match c {
                        '/' => !self.without_paths,
                        c => c.is_ascii_alphanumeric() || "._-".contains(c),
                    })
            })
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        self.known.extend(plain);
    }
}

/// The variable at the start of a text that begins with `$`, and how long the reference is. Without
/// a name, it is the `$` alone.
fn reference(text: &str) -> (&str, usize) {
    match text.strip_prefix("${") {
        Some(inner) => {
            let length = name_length(inner);
            if inner[length..].starts_with('}') {
                (&inner[..length], length + "${}".len())
            } else {
                ("", 1)
            }
        }
        None => {
            let length = name_length(&text[1..]);
            (&text[1..=length], length + 1)
        }
    }
}

/// How long the name at the start of a text is.
fn name_length(text: &str) -> usize {
    text.find(|c| !is_of_name(c)).unwrap_or(text.len())
}

/// The variables that a command sets, with their values without quotes, if it does nothing else:
/// `export A=b C=d`, also behind `then` and `&&`.
pub(crate) fn assignments(command: &str) -> Vec<(&str, &str)> {
    const LEADS: [&str; 4] = ["then ", "do ", "else ", "{ "];
    let code = command.split(" #").next().unwrap_or_default();
    let code = code.rsplit("&&").next().unwrap_or_default();
    // The next line may continue this one.
    let code = code.trim_matches([' ', '\t', ';', '\\']);
    let code = LEADS
        .iter()
        .find_map(|lead| code.strip_prefix(lead))
        .unwrap_or(code);
    without_export(code)
        .split_whitespace()
        .map(|word| {
            let (name, value): (&str, &str) = str::split_once(word, '=')?;
            is_name(name).then_some((name, value.trim_matches(['"', '\''])))
        })
        .collect::<Option<_>>()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_place_of_variables() {
        for (script, last) in [
            ("V=11.8\nP=/c-${V}/bin:$V\n", "P=/c-11.8/bin:11.8"),
            ("export V=\"11.8\" W=1 # the version\nP=$V$W\n", "P=11.81"),
            ("V=11.8; P=/c-$V/bin:$PATH", "V=11.8; P=/c-11.8/bin:$PATH"),
            (
                "V=11.8\nV=$(nvcc)\n$V $VV ${V%.*} $ ${V",
                "$V $VV ${V%.*} $ ${V",
            ),
            ("V=1\nif a; then V=2; fi\n$V", "2"),
            ("V=1\nV=\"2 3\"\n$V", "$V"),
            ("V=1\nV=2 make\n$V", "$V"),
            ("H=/c-1\nP=$H/bin", "P=/c-1/bin"),
        ] {
            let mut values = Values::default();
            let lines: Vec<_> = script.lines().map(|line| values.expand(line)).collect();
            assert_eq!(lines.last().map(String::as_str), Some(last), "{script}");
        }
        let mut words = Values::without_paths();
        words.expand("H=/c-1; V=1");
        assert_eq!(words.expand("$H $V"), "$H 1");
    }
}
