//! Removes private data from texts: names of hosts and users, addresses, serial numbers, keys,
//! paths in home directories. Each value becomes a placeholder of its kind; equal values get the
//! same placeholder, so that relations stay visible. PCI addresses, versions, checksums and kernel
//! releases, which look like private addresses, stay. Pure.

mod address;
mod place;
mod words;

use address::{dashed_mac, dotted, hexadecimal, machine_id, named_by_address, uuid};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use words::{email, host_of_line, is_word, kind_of, private_value, token};

/// Known private names, and names that are known not to be private.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    /// The host's own names.
    pub(crate) hosts: Vec<String>,
    pub(crate) other_hosts: Vec<String>,
    /// Domains: every name that ends with one is a host name.
    pub(crate) domains: Vec<String>,
    pub(crate) users: Vec<String>,
    /// Serial numbers.
    pub(crate) serials: Vec<String>,
    /// Ids of the machine and of its boots.
    pub(crate) ids: Vec<String>,
    /// Versions and kernel releases, which are never replaced.
    pub(crate) keep: Vec<String>,
}

/// Kinds of private data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PrivateKind {
    /// A host's name.
    Host,
    /// A user's name.
    User,
    /// An IP address.
    Address,
    /// The MAC address of a network card.
    Mac,
    /// An e-mail address, or a text that looks like one.
    Email,
    /// A UUID, a GPU's or a disk's.
    Uuid,
    /// An id of a machine, a boot, a key.
    Id,
    /// A serial number.
    Serial,
    /// A password or a token.
    Secret,
    /// A part of a path in a home directory, or on a private server.
    Folder,
    /// The name of a user's program.
    Program,
}

/// All kinds: the name in placeholders, and the plural for readers.
pub(crate) const KINDS: [(PrivateKind, &str, &str); 11] = [
    (PrivateKind::Host, "host", "names of hosts"),
    (PrivateKind::User, "user", "names of users"),
    (PrivateKind::Address, "address", "IP addresses"),
    (PrivateKind::Mac, "mac", "addresses of network cards"),
    (PrivateKind::Email, "email", "e-mail addresses"),
    (PrivateKind::Uuid, "uuid", "UUIDs: of GPUs, disks, boots"),
    (PrivateKind::Id, "id", "ids of machines and keys"),
    (PrivateKind::Serial, "serial", "serial numbers"),
    (
        PrivateKind::Secret,
        "secret",
        "passwords, tokens, the query part of URLs",
    ),
    (
        PrivateKind::Folder,
        "folder",
        "directories and files in home directories and on private servers",
    ),
    (
        PrivateKind::Program,
        "program",
        "names of programs that used a GPU",
    ),
];

/// A rule's match at the beginning of a text: its length in bytes, and the replacement.
type Found = (usize, String);

/// Replaces private data, and remembers the placeholders.
#[derive(Debug, Clone, Default)]
pub(crate) struct Anonymiser {
    names: HashMap<String, PrivateKind>,
    /// The first characters of the names, and the length of the longest in bytes.
    initials: BTreeSet<char>,
    longest: usize,
    own_hosts: BTreeSet<String>,
    domains: Vec<String>,
    /// By first character.
    keep: HashMap<char, Vec<String>>,
    given: HashMap<(PrivateKind, String), usize>,
    counts: BTreeMap<PrivateKind, usize>,
}

impl Anonymiser {
    /// An anonymiser that knows these names.
    pub(crate) fn new(names: &Names) -> Self {
        let mut made = Self::default();
        for host in &names.hosts {
            made.own_hosts.insert(host.trim().to_lowercase());
            made.know(PrivateKind::Host, host);
        }
        names
            .other_hosts
            .iter()
            .for_each(|host| made.know(PrivateKind::Host, host));
        names
            .users
            .iter()
            .for_each(|user| made.know(PrivateKind::User, user));
        names
            .ids
            .iter()
            .for_each(|id| made.know(PrivateKind::Id, id));
        // Firmware without a serial number has words instead.
        let numbers = names
            .serials
            .iter()
            .filter(|s| s.bytes().any(|b| b.is_ascii_digit()));
        numbers.for_each(|serial| made.know(PrivateKind::Serial, serial));
        let domains = names
            .domains
            .iter()
            .map(|d| d.trim().trim_matches('.').to_lowercase());
        made.domains = domains.filter(|d| d.contains('.')).collect();
        for kept in names.keep.iter().filter(|k| k.len() > 2) {
            made.keep
                .entry(kept.chars().next().unwrap_or_default())
                .or_default()
                .push(kept.clone());
        }
        made
    }

    /// A name that is also a common word in reports (`ubuntu`, `nvidia`), or has two letters, is
    /// not private. It is replaced only where its meaning is clear, as in `/home/ubuntu`.
    fn know(&mut self, kind: PrivateKind, name: &str) {
        let name = name.trim();
        if name.chars().count() > 2 && name.contains(char::is_alphabetic) && !is_word(name) {
            let name = name.to_lowercase();
            self.longest = self.longest.max(name.len());
            self.initials.extend(name.chars().next());
            self.names.entry(name).or_insert(kind);
        }
    }

    /// Learns names from a text: users from home directories, hosts from lines of syslog. All texts
    /// of a report are read before the first one is rewritten.
    pub(crate) fn learn(&mut self, text: &str) {
        for line in text.lines() {
            for user in line.split("/home/").skip(1) {
                self.know(PrivateKind::User, place::component(user, false));
            }
            if let Some(end) = line.find(" kernel:") {
                let start = line[..end].rfind(' ').map_or(0, |at| at + 1);
                if host_of_line(&line[..start], &line[start..end], &line[end..]) {
                    self.know(PrivateKind::Host, &line[start..end]);
                }
            }
        }
    }

    /// How many different values of each kind were replaced.
    pub(crate) fn counts(&self) -> &BTreeMap<PrivateKind, usize> {
        &self.counts
    }

    /// The text without private data and terminal controls.
    pub(crate) fn text(&mut self, text: &str) -> String {
        self.rewritten(&plain(text), false)
    }

    /// The same for every text in a JSON value; of the keys, only paths are rewritten.
    pub(crate) fn json(&mut self, value: &mut Value) {
        self.value(value, None);
    }

    fn value(&mut self, value: &mut Value, kind: Option<PrivateKind>) {
        match value {
            Value::String(text) => {
                let is_one_thing =
                    !text.is_empty() && !text.contains(' ') && placeholder(text).is_none();
                *text = match kind.filter(|_| is_one_thing) {
                    Some(kind) => self.instead_of(kind, text),
                    // A path that is a whole field may contain spaces.
                    None => {
                        self.rewritten(&plain(text), text.starts_with('/') && !text.contains(": "))
                    }
                };
            }
            Value::Array(values) => values.iter_mut().for_each(|v| self.value(v, kind)),
            Value::Object(map) => {
                for (key, mut inner) in std::mem::take(map) {
                    self.value(&mut inner, kind_of(&key).or(kind));
                    let key = if key.starts_with('/') {
                        self.rewritten(&plain(&key), true)
                    } else {
                        key
                    };
                    map.insert(key, inner);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn rewritten(&mut self, text: &str, is_path: bool) -> String {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(first) = text[at..].chars().next() {
            let (before, rest) = text.split_at(at);
            match self.found(before, rest, is_path) {
                Some((length, instead)) => {
                    out += &instead;
                    at += length;
                }
                None => {
                    out.push(first);
                    at += first.len_utf8();
                }
            }
        }
        out
    }

    /// The private value at the beginning of `rest`, if there is one. Known names come before
    /// patterns.
    fn found(&mut self, before: &str, rest: &str, is_path: bool) -> Option<Found> {
        if !is_boundary(before, rest) || rest.starts_with(char::is_whitespace) {
            return None;
        }
        if let Some(length) = placeholder(rest).or_else(|| self.kept(rest)) {
            return Some((length, rest[..length].to_owned()));
        }
        if let Some(found) = place::url(self, rest).or_else(|| place::home(self, rest, is_path)) {
            return Some(found);
        }
        let near = beginning(rest);
        let (length, kind) = private_value(before, rest)
            .or_else(|| Some((uuid(rest)?, PrivateKind::Uuid)))
            .or_else(|| Some((token(rest)?, PrivateKind::Secret)))
            .or_else(|| Some((dashed_mac(rest)?, PrivateKind::Mac)))
            .or_else(|| Some((machine_id(rest)?, PrivateKind::Id)))
            .or_else(|| Some((email(rest)?, PrivateKind::Email)))
            .or_else(|| hexadecimal(before, near))
            .or_else(|| {
                let length = dotted(before, near).or_else(|| named_by_address(near))?;
                Some((length, PrivateKind::Address))
            })
            .or_else(|| self.host_in_domain(near))
            .or_else(|| self.name(before, near))?;
        Some((length, self.instead_of(kind, &rest[..length])))
    }

    /// The length of a version or kernel release that stays.
    fn kept(&self, rest: &str) -> Option<usize> {
        let alike = self.keep.get(&rest.chars().next()?)?;
        let lengths = alike.iter().filter_map(|kept| {
            let after = rest.strip_prefix(kept.as_str())?;
            // Keeping 9.10.2.2 does not keep 9.10.2.21, nor does 1.2.3.4 keep the beginning of
            // 1.2.3.4.5.
            let goes_on = after
                .strip_prefix('.')
                .is_some_and(|a| a.starts_with(|c: char| c.is_ascii_digit()));
            (is_boundary(kept, after) && !goes_on).then_some(kept.len())
        });
        lengths.max()
    }

    /// A name in a known domain.
    fn host_in_domain(&self, rest: &str) -> Option<(usize, PrivateKind)> {
        if self.domains.is_empty() {
            return None;
        }
        let name = run(rest, |c| c.is_ascii_alphanumeric() || c == '.' || c == '-')
            .trim_end_matches(['.', '-']);
        let lower = name.to_lowercase();
        self.domains
            .iter()
            .filter_map(|domain| lower.strip_suffix(domain.as_str()))
            .any(|before| before.is_empty() || before.ends_with('.'))
            .then_some((name.len(), PrivateKind::Host))
    }

    /// A known name, or the host of a line of syslog: `Nov 21 12:00:00 HOST kernel: …`.
    fn name(&self, before: &str, rest: &str) -> Option<(usize, PrivateKind)> {
        let word = run(rest, |c| !c.is_whitespace());
        if host_of_line(before, word, &rest[word.len()..]) {
            return Some((word.len(), PrivateKind::Host));
        }
        let initial = rest.chars().next()?.to_lowercase().next()?;
        self.initials.get(&initial)?;
        // The lower-case form may be a little longer or shorter.
        let near = self.longest + 8;
        let ends = rest
            .char_indices()
            .map(|(at, c)| at + c.len_utf8())
            .take_while(|end| *end <= near);
        let known = ends.filter(|end| is_boundary(&rest[..*end], &rest[*end..]));
        let known =
            known.filter_map(|end| Some((end, *self.names.get(&rest[..end].to_lowercase())?)));
        known.last()
    }

    /// The placeholder for a value, the same for every occurrence.
    fn instead_of(&mut self, kind: PrivateKind, thing: &str) -> String {
        let name = KINDS
            .iter()
            .find(|(k, ..)| *k == kind)
            .map_or("private", |(_, name, _)| name);
        let thing = thing.to_lowercase();
        let short = thing.split('.').next().unwrap_or_default();
        if kind == PrivateKind::Host
            && (self.own_hosts.contains(&thing) || self.own_hosts.contains(short))
        {
            return "<host>".to_owned();
        }
        let number = self.given.entry((kind, thing)).or_insert_with(|| {
            let count = self.counts.entry(kind).or_default();
            *count += 1;
            *count
        });
        format!("<{name}-{number}>")
    }
}

/// Whether there is a word boundary between these.
fn is_boundary(before: &str, after: &str) -> bool {
    !(before.ends_with(char::is_alphanumeric) && after.starts_with(char::is_alphanumeric))
}

/// The leading part of a text that consists of such characters.
fn run(text: &str, is_part: impl Fn(char) -> bool) -> &str {
    let end = text.find(|c: char| !is_part(c)).unwrap_or(text.len());
    &text[..end]
}

/// The longest prefix of a text that a rule reads. Without this limit a line of a megabyte would be
/// read once per word.
fn beginning(text: &str) -> &str {
    const MAX_BEGINNING: usize = 160;
    let mut end = MAX_BEGINNING.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The length of a placeholder at the beginning of a text.
fn placeholder(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('<')?;
    let inner = &inner[..run(inner, |c| c.is_ascii_alphanumeric() || c == '-').len()];
    text[1 + inner.len()..].strip_prefix('>')?;
    let (name, number) = inner.split_once('-').unwrap_or((inner, "1"));
    let is_ours =
        KINDS.iter().any(|(_, n, _)| *n == name) && number.bytes().all(|b| b.is_ascii_digit());
    is_ours.then_some(inner.len() + 2)
}

/// The text without controls that move a terminal's cursor, colour it or hide letters.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => {
                // ESC [ numbers letter; a lone ESC is removed itself. A space never belongs to a
                // sequence: removing it would join two words, and the second would not be
                // recognised.
                if rest.next_if_eq(&'[').is_some() {
                    while rest.next_if(|c| ('\u{30}'..'\u{40}').contains(c)).is_some() {}
                    rest.next_if(|c| ('\u{40}'..'\u{7f}').contains(c));
                }
            }
            '\n' | '\t' => out.push(c),
            '\r' => out.extend(rest.peek().is_none_or(|next| *next != '\n').then_some('\n')),
            '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}' => {}
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests;
