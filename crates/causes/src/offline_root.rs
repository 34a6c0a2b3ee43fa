//! Commands for the host in a tree (`--root DIR`): as they are, they would read or change the
//! machine that they are typed on.

use gpusetup_text::paths::LOGS;
use gpusetup_text::text::{length_of_quoted, quoted, quoted_path};
use std::ops::Range;
use std::path::Path;

/// The subcommands that are about the host. What `explain` says is mostly about none.
const OF_HOSTS: [&str; 14] = [
    "facts",
    "plan",
    "apply",
    "resume",
    "rollback",
    "uninstall",
    "use",
    "list",
    "prune",
    "status",
    "reboot-required",
    "doctor",
    "cache",
    "bundle",
];
/// Programs that act on the running kernel, the hardware, running services or the booted image,
/// which a tree does not have.
const OF_MACHINES: [&str; 24] = [
    "reboot",
    "boltctl",
    "poweroff",
    "modprobe",
    "rmmod",
    "nvidia-smi",
    "setpci",
    "lspci",
    "dmesg",
    "journalctl",
    "mokutil",
    "fuser",
    "docker",
    "dockerd",
    "podman",
    "snap",
    "dcgmi",
    "nvidia-persistenced",
    "mount",
    "rpm-ostree",
    "bootc",
    "transactional-update",
    "nixos-rebuild",
    "cos-extensions",
];
/// Programs that an administrator runs elsewhere, for a node of a cluster or an instance of a
/// cloud.
const ELSEWHERE: [&str; 3] = ["talosctl", "oc", "aws"];
/// Programs that only pass on to the next one of a pipe.
const FEEDERS: [&str; 4] = ["printf", "echo", "curl", "cat"];
/// Programs that only choose from what the one before them says.
const FILTERS: [&str; 3] = ["grep", "tail", "head"];

/// The command for the tree at `root`: gpusetup gets `--root`, any other program runs in the tree
/// (`chroot`). None for a command that a tree has no use for, such as a reboot.
pub fn command(text: &str, root: &Path) -> Option<String> {
    let parts = parts(text);
    let mut out = String::new();
    for (n, (part, end)) in parts.iter().enumerate() {
        let before = n.checked_sub(1).map_or("", |n| parts[n].1);
        out += &one(part.trim(), before == "|", *end == "|", root)?;
        if !end.is_empty() {
            out += &format!("{}{end} ", if *end == ";" { "" } else { " " });
        }
    }
    Some(out)
}

/// Programs that change a file which the caller names, and which need not be in the tree.
const OF_CALLERS: [&str; 4] = ["chown", "chmod", "setfacl", "./gpusetup"];

/// A sentence in which commands may stand: gpusetup gets `--root`, and what begins with `sudo` runs
/// in the tree. The folder of logs is the tree's.
pub fn sentence(text: &str, root: &Path) -> String {
    beside_quoted(text, |text| sentence_of(text, root))
}

fn sentence_of(text: &str, root: &Path) -> String {
    let logs = root.join(LOGS.trim_start_matches('/'));
    let text = in_chroot_of(text, root).replace(
        &format!(" is in {LOGS}"),
        &format!(" is in {}", quoted_path(&logs)),
    );
    // A new installation of a system, or facts, are of another host.
    if ["--root ", "--os ", "--facts "]
        .iter()
        .any(|option| text.contains(option))
    {
        return text;
    }
    OF_HOSTS
        .iter()
        .filter(|name| **name != "facts")
        .fold(text, |text, name| {
            text.replace(
                &format!("gpusetup {name}"),
                &format!("gpusetup {name} --root {}", quoted_path(root)),
            )
        })
}

/// The same for a host that may be a tree.
pub fn sentence_on(text: &str, root: Option<&Path>) -> String {
    root.map_or_else(|| text.to_owned(), |root| sentence(text, root))
}

/// A sentence in which what begins with `sudo` runs in the tree. Commands of which one acts on
/// hardware or on the running system stay as they are: here they would act on the machine that they
/// are typed on.
pub fn in_chroot(text: &str, root: &Path) -> String {
    beside_quoted(text, |text| in_chroot_of(text, root))
}

/// What stands for a quoted word while the rest of a text is changed.
const QUOTED: char = '\u{e000}';

/// A text that is changed, but for its quoted words: the name of a file in one may look like a
/// command, and may be anything.
fn beside_quoted(text: &str, change: impl FnOnce(&str) -> String) -> String {
    let text = text.replace(QUOTED, "\u{fffd}");
    let (mut bare, mut words, mut rest) = (String::new(), Vec::new(), text.as_str());
    while let Some(word) = quoted_word(rest) {
        bare += &rest[..word.start];
        bare.push(QUOTED);
        words.push(&rest[word.start..word.end]);
        rest = &rest[word.end..];
    }
    bare += rest;
    let (changed, mut words) = (change(&bare), words.into_iter());
    let mut parts = changed.split(QUOTED);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| {
        out + words.next().unwrap_or_default() + part
    })
}

/// Where the first word is that [`quoted`] wrote. An apostrophe within a word is none of its
/// quotes.
fn quoted_word(text: &str) -> Option<Range<usize>> {
    let begins = |at: usize| {
        text[..at]
            .chars()
            .next_back()
            .is_none_or(|c| c.is_whitespace() || "(=:,`".contains(c))
    };
    let start = text
        .match_indices('\'')
        .map(|(at, _)| at)
        .find(|at| begins(*at))?;
    Some(start..start + length_of_quoted(&text[start..])?)
}

fn in_chroot_of(text: &str, root: &Path) -> String {
    if text
        .split("sudo ")
        .skip(1)
        .any(|part| OF_MACHINES.contains(&program(part)))
    {
        return format!("{text} (on the machine that runs this tree, and not here)");
    }
    let mut parts = text.split("sudo ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let program = program(part);
        out += "sudo ";
        if let Some(printed) = printed(part, root) {
            out += &printed;
            continue;
        }
        if program != "gpusetup" && program != "chroot" && !OF_CALLERS.contains(&program) {
            out += &format!("chroot {} ", quoted_path(root));
        }
        out += part;
    }
    out
}

/// The beginnings of commands that only print a file. This machine's programs do that for a tree,
/// which need not have them.
const PRINTERS: [&str; 4] = ["cat ", "grep -n", "ls -l", "sed -n "];

/// Such a command for the file in the tree; none for another command, and for paths that need
/// quotes.
fn printed(command: &str, root: &Path) -> Option<String> {
    let folder = root.display().to_string();
    let is_plain =
        quoted_path(root) == folder && PRINTERS.iter().any(|start| command.starts_with(start));
    let (before, file) = command.split_once(" /").filter(|_| is_plain)?;
    Some(format!("{before} {}/{file}", folder.trim_end_matches('/')))
}

/// The first word of a command.
fn program(command: &str) -> &str {
    command.split_whitespace().next().unwrap_or_default()
}

fn one(part: &str, is_fed: bool, feeds: bool, root: &Path) -> Option<String> {
    let (sudo, bare) = match part.strip_prefix("sudo ") {
        Some(bare) => ("sudo ", bare),
        None => ("", part),
    };
    let mut words = bare.split_whitespace();
    let program = words.next().unwrap_or_default();
    if program == "gpusetup" {
        let name = words.next().unwrap_or_default();
        if !OF_HOSTS.contains(&name) || bare.contains("--root ") {
            return Some(part.to_owned());
        }
        let asked = format!("gpusetup {name}");
        return Some(part.replacen(&asked, &format!("{asked} --root {}", quoted_path(root)), 1));
    }
    if ELSEWHERE.contains(&program) {
        return Some(part.to_owned());
    }
    if OF_MACHINES.contains(&program) || bare.contains("/sys/") || bare.contains("/dev/") {
        return None;
    }
    if sudo.is_empty()
        && (feeds && FEEDERS.contains(&program) || is_fed && FILTERS.contains(&program))
    {
        return Some(part.to_owned());
    }
    if let Some(printed) = printed(bare, root).filter(|_| !feeds && !needs_shell(bare)) {
        return Some(format!("{sudo}{printed}"));
    }
    let bare = match program {
        // Nothing runs there that could be started or stopped.
        "systemctl"
            if ["start", "restart", "stop", "reload"]
                .iter()
                .any(|verb| bare.contains(&format!(" {verb}"))) =>
        {
            return None;
        }
        "systemctl" => bare.replace(" --now", ""),
        _ => bare.to_owned(),
    };
    let inside = if needs_shell(&bare) {
        format!("sh -c {}", quoted(&bare))
    } else {
        bare
    };
    Some(format!("sudo chroot {} {inside}", quoted_path(root)))
}

/// Whether the shell outside would look for something in its own files: a pattern, another
/// command's output, a redirection.
fn needs_shell(command: &str) -> bool {
    let mut reader = Reader::default();
    command.chars().any(|c| match reader.read(c) {
        Place::Bare => matches!(c, '$' | '`' | '*' | '?' | '>' | '<'),
        Place::DoubleQuoted => matches!(c, '$' | '`'),
        Place::Literal => false,
    })
}

/// Reads a command as a shell does, as far as quotes and backslashes go.
#[derive(Default)]
struct Reader {
    quote: Option<char>,
    escaped: bool,
}

/// Where a character of a command stands.
#[derive(PartialEq)]
enum Place {
    /// Outside of quotes.
    Bare,
    /// Between double quotes, where a shell replaces variables.
    DoubleQuoted,
    /// A quotation mark, or a character that stands for itself.
    Literal,
}

impl Reader {
    fn read(&mut self, c: char) -> Place {
        if std::mem::take(&mut self.escaped) {
            return Place::Literal;
        }
        match (self.quote, c) {
            (None | Some('"'), '\\') => self.escaped = true,
            (None, '\'' | '"') => self.quote = Some(c),
            (Some(open), c) if open == c => self.quote = None,
            (None, _) => return Place::Bare,
            (Some('"'), _) => return Place::DoubleQuoted,
            (Some(_), _) => {}
        }
        Place::Literal
    }
}

/// The parts of a command between `|`, `&&` and `;`, each with what follows it. Quoted text is not
/// divided.
fn parts(text: &str) -> Vec<(&str, &str)> {
    let (mut out, mut start, mut depth) = (Vec::new(), 0, 0usize);
    let mut reader = Reader::default();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if reader.read(c) != Place::Bare {
            continue;
        }
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' | ';' if depth == 0 => {
                out.push((&text[start..at], &text[at..=at]));
                start = at + 1;
            }
            '&' if depth == 0 && chars.peek().is_some_and(|(_, next)| *next == '&') => {
                chars.next();
                out.push((&text[start..at], "&&"));
                start = at + 2;
            }
            _ => {}
        }
    }
    out.push((&text[start..], ""));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_for_the_tree() {
        for (text, want) in [
            ("sudo ldconfig", Some("sudo chroot /t ldconfig")),
            (
                "sudo ln -sfn a /usr/local/b",
                Some("sudo chroot /t ln -sfn a /usr/local/b"),
            ),
            (
                "printf 'a | sudo b\\n' | sudo tee /etc/f",
                Some("printf 'a | sudo b\\n' | sudo chroot /t tee /etc/f"),
            ),
            (
                "printf 'NVIDIA'\\''s | driver\\n' | sudo tee /etc/f",
                Some("printf 'NVIDIA'\\''s | driver\\n' | sudo chroot /t tee /etc/f"),
            ),
            (
                "curl -fsSL https://k | sudo gpg --dearmor -o /k",
                Some("curl -fsSL https://k | sudo chroot /t gpg --dearmor -o /k"),
            ),
            (
                "sudo ls -lS /etc/modprobe.d",
                Some("sudo ls -lS /t/etc/modprobe.d"),
            ),
            (
                "curl -fsSLO https://k",
                Some("sudo chroot /t curl -fsSLO https://k"),
            ),
            (
                "ldconfig -p | grep libcuda.so",
                Some("sudo chroot /t ldconfig -p | grep libcuda.so"),
            ),
            (
                "grep -rn x /etc/ld.so.conf.d",
                Some("sudo chroot /t grep -rn x /etc/ld.so.conf.d"),
            ),
            (
                "sudo apt-get install $(dpkg -W 'a*')",
                Some("sudo chroot /t sh -c 'apt-get install $(dpkg -W '\\''a*'\\'')'"),
            ),
            (
                "sudo sed -i 's/^a$/b/' /etc/f",
                Some("sudo chroot /t sed -i 's/^a$/b/' /etc/f"),
            ),
            ("sudo dkms a && sudo mokutil b", None),
            (
                "sudo a && sudo b; sudo c",
                Some("sudo chroot /t a && sudo chroot /t b; sudo chroot /t c"),
            ),
            (
                "sudo gpusetup doctor --fix",
                Some("sudo gpusetup doctor --root /t --fix"),
            ),
            ("gpusetup plan", Some("gpusetup plan --root /t")),
            (
                "sudo gpusetup use cuda 12.8",
                Some("sudo gpusetup use --root /t cuda 12.8"),
            ),
            ("sudo boltctl authorize DEVICE", None),
            (
                "gpusetup plan --root /t --cuda 12",
                Some("gpusetup plan --root /t --cuda 12"),
            ),
            ("gpusetup db list gpus", Some("gpusetup db list gpus")),
            ("sudo reboot", None),
            ("sudo modprobe nvidia", None),
            ("echo 1 | sudo tee /sys/bus/pci/drivers_probe", None),
            ("sudo dmesg | grep NVRM", None),
            (
                "sudo systemctl enable --now nvidia-persistenced",
                Some("sudo chroot /t systemctl enable nvidia-persistenced"),
            ),
            ("sudo systemctl restart docker", None),
            ("sudo rpm-ostree install a", None),
            ("sudo transactional-update --continue pkg install a", None),
            ("sudo cos-extensions install gpu", None),
            (
                "talosctl upgrade --image IMAGE",
                Some("talosctl upgrade --image IMAGE"),
            ),
        ] {
            assert_eq!(command(text, Path::new("/t")).as_deref(), want, "{text}");
        }
        let blank = command("sudo ldconfig", Path::new("/a b"));
        assert_eq!(blank.as_deref(), Some("sudo chroot '/a b' ldconfig"));
    }

    #[test]
    fn commands_in_a_sentence_are_for_the_tree() {
        let root = Path::new("/t");
        assert_eq!(
            sentence(
                "gpusetup resume continues; run sudo apt-get update or sudo gpusetup rollback",
                root
            ),
            "gpusetup resume --root /t continues; run sudo chroot /t apt-get update or sudo gpusetup rollback --root /t"
        );
        assert_eq!(
            sentence("gpusetup plan --root /t", root),
            "gpusetup plan --root /t"
        );
        let logs = sentence(
            "the output of every program is in /var/log/gpusetup",
            Path::new("t"),
        );
        assert_eq!(logs, "the output of every program is in t/var/log/gpusetup");
        for text in [
            "gpusetup plan --os debian-12 --gpu h100",
            "gpusetup facts --json > FILE",
        ] {
            assert_eq!(sentence(text, root), text);
        }
        assert_eq!(
            sentence(
                "enrol it: sudo dkms generate_mok && sudo mokutil --import k && sudo reboot",
                root
            ),
            "enrol it: sudo dkms generate_mok && sudo mokutil --import k && sudo reboot (on the machine that runs this tree, and \
             not here)"
        );
        assert_eq!(
            sentence(
                "layer it: sudo rpm-ostree install https://a-$(rpm -E %fedora).rpm",
                root
            ),
            "layer it: sudo rpm-ostree install https://a-$(rpm -E %fedora).rpm (on the machine that runs this tree, and not here)"
        );
        for (text, want) in [
            (
                "sudo sed -n 2l /etc/docker/daemon.json",
                "sudo sed -n 2l d1/etc/docker/daemon.json",
            ),
            (
                "sudo grep -nE 'a b|c' /etc/f",
                "sudo grep -nE 'a b|c' d1/etc/f",
            ),
            ("sudo cat '/etc/a b'", "sudo chroot d1 cat '/etc/a b'"),
            (
                "sudo sed -i s/a/b/ /etc/f",
                "sudo chroot d1 sed -i s/a/b/ /etc/f",
            ),
        ] {
            assert_eq!(sentence(text, Path::new("d1")), want);
        }
        // What is quoted is a name, and the tree chooses it.
        for name in [
            "'/etc/a sudo $(touch x).conf'",
            "'/etc/a gpusetup plan'",
            "'/a sudo reboot '",
            "'/b'\\'' --root '",
        ] {
            let disk = Path::new("Tom's & disk");
            assert_eq!(
                sentence(
                    &format!(
                        "NVIDIA's {name}: run sudo sed -i 1d {name} && sudo ldconfig; gpusetup plan"
                    ),
                    disk
                ),
                format!(
                    "NVIDIA's {name}: run sudo chroot 'Tom'\\''s & disk' sed -i 1d {name} && sudo chroot 'Tom'\\''s & disk' \
                     ldconfig; gpusetup plan --root 'Tom'\\''s & disk'"
                )
            );
        }
        for text in [
            "read it, then: sudo chmod go-w plan.json",
            "sudo ./gpusetup apply",
            "run it with sudo",
        ] {
            assert_eq!(in_chroot(text, root), text);
        }
    }
}
