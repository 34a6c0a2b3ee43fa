//! The options of `docker run` and its like, as far as they must be known to find where an option ends and the image begins.

use super::shell_words::Word;

/// Long options without a value, of Docker (`docker run --help`, 28.2) and of Podman and nerdctl beside it (podman-run(1), 5;
/// podman(1), 6; nerdctl's command reference).
const LONG: [&str; 29] = [
    "detach",
    "disable-content-trust",
    "env-host",
    "help",
    "http-proxy",
    "init",
    "interactive",
    "no-healthcheck",
    "no-hostname",
    "no-hosts",
    "oom-kill-disable",
    "passwd",
    "privileged",
    "publish-all",
    "quiet",
    "read-only",
    "read-only-tmpfs",
    "replace",
    "rm",
    "rmi",
    "rootfs",
    "sig-proxy",
    "syslog",
    "tls-verify",
    "transient-store",
    "tty",
    "unsetenv-all",
    "use-api-socket",
    "insecure-registry",
];

/// Short options without a value.
pub const SHORT: &str = "ditPq";

/// Apptainer's options with a value (`apptainer exec --help`, 1.3), long and short; all others have none.
const APPTAINER: [&str; 30] = [
    "--add-caps",
    "--app",
    "--apply-cgroups",
    "--bind",
    "-B",
    "--blkio-weight",
    "--cpus",
    "--cwd",
    "--dns",
    "--drop-caps",
    "--env",
    "--env-file",
    "--fusemount",
    "--home",
    "-H",
    "--hostname",
    "--memory",
    "--mount",
    "--network",
    "--network-args",
    "--overlay",
    "-o",
    "--pem-path",
    "--pwd",
    "--scratch",
    "-S",
    "--security",
    "--workdir",
    "-W",
    "--shell",
];

/// An option as it is written, with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// One word or two.
    pub words: Vec<Word>,
    /// `--env` for `-e`; several short options are one, `-it`.
    pub name: String,
    /// The value.
    pub value: Option<String>,
    /// Whether the shell replaces a part of the value.
    pub is_replaced: bool,
    /// Options without a value in the same word: the `-it` of `-ite NAME=VALUE`.
    pub beside: Option<String>,
}

impl Flag {
    /// The variable that an option sets in the container, and its value if it names one.
    pub fn variable(&self) -> Option<(&str, Option<&str>)> {
        let value = self.value.as_deref().filter(|_| self.name == "--env")?;
        Some(value.split_once('=').map_or((value, None), |(name, value)| (name, Some(value))))
    }

    /// An option that sets a variable.
    pub fn of_variable(name: &str, value: &str) -> Self {
        let value = Word::of(format!("{name}={value}"));
        Self { name: "--env".to_owned(), ..Self::of("-e", value) }
    }

    /// An option that gives the container a variable of the shell.
    pub fn of_shell_variable(name: &str) -> Self {
        Self { name: "--env".to_owned(), ..Self::of("-e", Word::of(name)) }
    }

    /// An option of two words.
    pub fn of(name: &str, value: Word) -> Self {
        Self {
            name: name.to_owned(),
            value: Some(value.text.clone()),
            is_replaced: value.is_replaced,
            words: vec![Word::of(name), value],
            beside: None,
        }
    }

    /// The value as a word, as it is written; an empty word if there is none.
    pub fn value_word(&self) -> Word {
        let value = Word::of(self.value.clone().unwrap_or_default());
        let written = match self.words.as_slice() {
            [_, value] => Some(value.written.clone()),
            [one] => one.written.strip_prefix(&format!("{}=", self.name)).map(str::to_owned),
            _ => None,
        };
        Word { written: written.unwrap_or(value.written), text: value.text, is_replaced: self.is_replaced }
    }

    /// What is left of it without its value.
    pub fn without_value(&self) -> Option<Self> {
        let beside = self.beside.clone()?;
        Some(Self {
            words: vec![Word::of(beside.clone())],
            name: beside,
            value: None,
            is_replaced: false,
            beside: None,
        })
    }
}

/// Whose options they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Docker's, which Podman and nerdctl share.
    Docker,
    /// Apptainer's and Singularity's.
    Apptainer,
}

/// The options at the beginning of `words`, and how many words they are.
pub fn read(words: &[Word], dialect: Dialect) -> (Vec<Flag>, usize) {
    let (mut flags, mut at) = (Vec::new(), 0);
    while let Some(word) = words.get(at) {
        if word.text == "--" {
            return (flags, at + 1);
        }
        if !word.text.starts_with('-') || word.text.len() == 1 {
            break;
        }
        let option = match dialect {
            Dialect::Docker => docker(&word.text),
            Dialect::Apptainer => apptainer(&word.text),
        };
        let next = words.get(at + 1).filter(|_| option.takes_value && option.value.is_none());
        let words: Vec<_> = [Some(word), next].into_iter().flatten().cloned().collect();
        at += words.len();
        flags.push(Flag {
            name: option.name,
            is_replaced: words.iter().any(|word| word.is_replaced),
            value: option.value.or_else(|| next.map(|word| word.text.clone())),
            words,
            beside: option.beside,
        });
    }
    (flags, at)
}

/// A word that is an option.
struct WordRead {
    name: String,
    /// The value in the same word.
    value: Option<String>,
    takes_value: bool,
    beside: Option<String>,
}

fn docker(text: &str) -> WordRead {
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value.to_owned())));
        return WordRead { name: format!("--{name}"), value, takes_value: !LONG.contains(&name), beside: None };
    }
    // -it, -eNAME=VALUE, -ite NAME=VALUE
    let Some((at, c)) = text.char_indices().skip(1).find(|(_, c)| !SHORT.contains(*c)) else {
        return WordRead { name: text.to_owned(), value: None, takes_value: false, beside: None };
    };
    let rest = &text[at + c.len_utf8()..];
    let name = if c == 'e' { "--env".to_owned() } else { format!("-{c}") };
    WordRead {
        name,
        value: (!rest.is_empty()).then(|| rest.strip_prefix('=').unwrap_or(rest).to_owned()),
        takes_value: true,
        beside: (at > 1).then(|| text[..at].to_owned()),
    }
}

fn apptainer(text: &str) -> WordRead {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value.to_owned())));
    WordRead { name: name.to_owned(), value, takes_value: APPTAINER.contains(&name), beside: None }
}

#[cfg(test)]
mod tests {
    use super::super::shell_words::split;
    use super::*;

    fn named(line: &str) -> (Vec<(String, Option<String>)>, usize) {
        let (flags, count) = read(&split(line).expect("words"), Dialect::Docker);
        (flags.into_iter().map(|flag| (flag.name, flag.value)).collect(), count)
    }

    #[test]
    fn the_image_is_behind_the_options() {
        let (flags, count) = named("--rm -it --gpus all -eA=1 -ite B=2 --env=C=3 -p 80:80 -v=/a:/b image --gpus 2");
        let flags: Vec<_> = flags.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
        assert_eq!(
            flags,
            [
                ("--rm", None),
                ("-it", None),
                ("--gpus", Some("all")),
                ("--env", Some("A=1")),
                ("--env", Some("B=2")),
                ("--env", Some("C=3")),
                ("-p", Some("80:80")),
                ("-v", Some("/a:/b")),
            ]
        );
        assert_eq!(count, 11);
        assert_eq!(named("-d -- image").1, 2);
        assert_eq!(named("--gpus").0, [("--gpus".to_owned(), None)]);
    }

    #[test]
    fn apptainer_has_options_with_other_values() {
        let words = split("--nv -B /a:/b --env CUDA_VISIBLE_DEVICES=0 --cleanenv image.sif python").expect("words");
        let (flags, count) = read(&words, Dialect::Apptainer);
        let names: Vec<_> = flags.iter().map(|flag| flag.name.as_str()).collect();
        assert_eq!((names.as_slice(), count), (["--nv", "-B", "--env", "--cleanenv"].as_slice(), 6));
    }
}
