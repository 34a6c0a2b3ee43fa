//! Values of options that Podman alone knows: podman-run(1) (5.8.2) beside the reference of `docker run` (29.7.2), and for
//! modes of volumes <https://github.com/moby/moby/blob/master/daemon/volume/mounts/linux_parser.go>.

use super::flags::Flag;
use super::shell_words::Word;

/// The options with values of Podman's, each as a whole or up to its first `:` or `=`.
const VALUES: [(&str, &[&str]); 5] = [
    ("--group-add", &["keep-groups"]),
    ("--net", NETWORKS),
    ("--network", NETWORKS),
    ("--pull", &["newer"]),
    ("--security-opt", &["label=nested", "mask", "proc-opts", "unmask"]),
];

const NETWORKS: &[&str] = &["pasta", "private", "slirp4netns"];

/// The modes of a volume that Podman alone knows, each up to its `=`.
const MODES: [&str; 16] = [
    "O",
    "U",
    "bind",
    "copy",
    "dev",
    "exec",
    "idmap",
    "nodev",
    "noexec",
    "nosuid",
    "rbind",
    "runbindable",
    "suid",
    "unbindable",
    "upperdir",
    "workdir",
];

/// Those of them that nerdctl has, as its command reference says (2.3.4).
const NERDCTLS_TOO: [&str; 2] = ["bind", "rbind"];

/// Whether an option has such a value.
pub fn has_one(flag: &Flag) -> bool {
    let Some(value) = flag.value.as_deref() else { return false };
    let beginning = value.split([':', '=']).next().unwrap_or(value);
    let known = VALUES.iter().find(|(name, _)| *name == flag.name);
    known.is_some_and(|(_, values)| values.contains(&value) || values.contains(&beginning))
}

/// A volume without the modes that Podman knows and this program does not, and these as they are named. None if it has none.
pub fn without_modes(flag: &Flag, program: &str) -> Option<(Flag, String)> {
    let value = flag.value.as_deref().filter(|_| ["-v", "--volume"].contains(&flag.name.as_str()))?;
    let (paths, modes) = value.rsplit_once(':').filter(|(paths, _)| paths.contains(':'))?;
    let is_podmans = |mode: &&str| {
        let name = mode.split('=').next().unwrap_or(mode);
        MODES.contains(&name) && !(program == "nerdctl" && NERDCTLS_TOO.contains(&name))
    };
    let (podmans, others): (Vec<_>, Vec<_>) = modes.split(',').partition(is_podmans);
    let (last, words) = flag.words.split_last().filter(|_| !podmans.is_empty())?;
    let behind = if others.is_empty() { String::new() } else { format!(":{}", others.join(",")) };
    let word = with_end(last, &format!(":{modes}"), &behind)?;
    let words = [words, &[word]].concat();
    let named = format!("{} in {} {value}", podmans.join(","), flag.name);
    Some((Flag { words, value: Some(format!("{paths}{behind}")), ..flag.clone() }, named))
}

/// A word with another end, in the same quotes.
fn with_end(word: &Word, from: &str, to: &str) -> Option<Word> {
    let text = format!("{}{to}", word.text.strip_suffix(from)?);
    let in_quotes = |quote: char| Some(format!("{}{to}{quote}", word.written.strip_suffix(quote)?.strip_suffix(from)?));
    let written = word.written.strip_suffix(from).map(|beginning| format!("{beginning}{to}"));
    let written = written.or_else(|| in_quotes('"')).or_else(|| in_quotes('\''))?;
    Some(Word { written, text, is_replaced: word.is_replaced })
}

#[cfg(test)]
mod tests {
    use super::super::flags::{Dialect, read};
    use super::super::shell_words::split;
    use super::*;

    fn flag(text: &str) -> Flag {
        let (mut flags, _) = read(&split(text).expect("words"), Dialect::Docker);
        flags.remove(0)
    }

    #[test]
    fn values_are_podmans_or_dockers_too() {
        for text in [
            "--group-add keep-groups",
            "--network pasta:--map-gw",
            "--net=private",
            "--pull newer",
            "--security-opt unmask=ALL",
            "--security-opt=label=nested",
        ] {
            assert!(has_one(&flag(text)), "{text}");
        }
        for text in [
            "--group-add video",
            "--network bridge",
            "--network pasta-net",
            "--pull always",
            "--security-opt label=disable",
            "--security-opt seccomp=unconfined",
            "--name pasta",
            "--pull",
        ] {
            assert!(!has_one(&flag(text)), "{text}");
        }
    }

    #[test]
    fn a_volume_keeps_its_other_modes() {
        for (text, left, modes) in [
            ("-v /a:/b:U", "-v /a:/b", "U in -v /a:/b:U"),
            ("--volume=\"$PWD\":/b:ro,U,z", "--volume=\"$PWD\":/b:ro,z", "U in --volume $PWD:/b:ro,U,z"),
            ("-v \"$PWD:/b:O,upperdir=/c\"", "-v \"$PWD:/b\"", "O,upperdir=/c in -v $PWD:/b:O,upperdir=/c"),
        ] {
            let (volume, named) = without_modes(&flag(text), "docker").expect(text);
            let written: Vec<_> = volume.words.iter().map(|word| word.written.as_str()).collect();
            assert_eq!((written.join(" ").as_str(), named.as_str()), (left, modes));
        }
        let recursive = flag("-v /a:/b:rbind");
        assert!(without_modes(&recursive, "docker").is_some() && without_modes(&recursive, "nerdctl").is_none());
        for text in ["-v /a:/b", "-v /a:/b:ro,z", "-v ${A:-x}:/U", "-v /a:U", "--mount type=bind:U:U"] {
            assert!(without_modes(&flag(text), "docker").is_none(), "{text}");
        }
    }
}
