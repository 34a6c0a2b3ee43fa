//! Takes out of texts what tells who and where: names of hosts and users, addresses, serial numbers, keys, what stands in
//! people's folders. Each becomes a placeholder of its kind, the same thing the same one, so that what belongs together still
//! shows. PCI addresses, versions, sums and kernels' names, which look much like addresses, stay. Pure.

mod address;
mod place;
mod words;

use address::{dashed_mac, dotted, hexadecimal, machine_id, named_by_address, uuid};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use words::{email, host_of_line, is_word, kind_of, private_value, token};

/// What is known to be private, and what is known not to be.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// The host's own names.
    pub hosts: Vec<String>,
    /// Names of other hosts.
    pub other_hosts: Vec<String>,
    /// Domains: every name that ends with one is a host's.
    pub domains: Vec<String>,
    /// Users' names.
    pub users: Vec<String>,
    /// Serial numbers.
    pub serials: Vec<String>,
    /// Ids of the machine and its boots.
    pub ids: Vec<String>,
    /// Versions and kernels, which stay as they are wherever they stand.
    pub keep: Vec<String>,
}

/// Kinds of what is taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A host's name.
    Host,
    /// A user's name.
    User,
    /// An IP address.
    Address,
    /// A network card's address.
    Mac,
    /// An e-mail address, or what looks like it.
    Email,
    /// A UUID, a GPU's or a disk's.
    Uuid,
    /// An id of a machine, a boot, a key.
    Id,
    /// A serial number.
    Serial,
    /// A password or a token.
    Secret,
    /// A part of a path below somebody's home, or on a private server.
    Folder,
    /// The name of somebody's program.
    Program,
}

/// All of them: the name in placeholders, and what a person calls several.
pub const KINDS: [(Kind, &str, &str); 11] = [
    (Kind::Host, "host", "names of hosts"),
    (Kind::User, "user", "names of users"),
    (Kind::Address, "address", "IP addresses"),
    (Kind::Mac, "mac", "addresses of network cards"),
    (Kind::Email, "email", "e-mail addresses"),
    (Kind::Uuid, "uuid", "UUIDs: of GPUs, disks, boots"),
    (Kind::Id, "id", "ids of machines and keys"),
    (Kind::Serial, "serial", "serial numbers"),
    (Kind::Secret, "secret", "passwords, tokens, what stands behind a ? in a URL"),
    (Kind::Folder, "folder", "folders and files below homes and on private servers"),
    (Kind::Program, "program", "names of programs that used a GPU"),
];

/// What a rule finds at the beginning of a text: so many bytes, and what stands for them.
type Found = (usize, String);

/// Replaces what is private, and remembers by what.
#[derive(Debug, Clone, Default)]
pub struct Anonymiser {
    names: HashMap<String, Kind>,
    /// What they begin with, and the bytes of the longest.
    initials: BTreeSet<char>,
    longest: usize,
    own_hosts: BTreeSet<String>,
    domains: Vec<String>,
    /// By what they begin with.
    keep: HashMap<char, Vec<String>>,
    given: HashMap<(Kind, String), usize>,
    counts: BTreeMap<Kind, usize>,
}

impl Anonymiser {
    /// One that knows these names.
    pub fn new(names: &Names) -> Self {
        let mut made = Self::default();
        for host in &names.hosts {
            made.own_hosts.insert(host.trim().to_lowercase());
            made.know(Kind::Host, host);
        }
        names.other_hosts.iter().for_each(|host| made.know(Kind::Host, host));
        names.users.iter().for_each(|user| made.know(Kind::User, user));
        names.ids.iter().for_each(|id| made.know(Kind::Id, id));
        // Firmware has words where it has no number.
        let numbers = names.serials.iter().filter(|s| s.bytes().any(|b| b.is_ascii_digit()));
        numbers.for_each(|serial| made.know(Kind::Serial, serial));
        let domains = names.domains.iter().map(|d| d.trim().trim_matches('.').to_lowercase());
        made.domains = domains.filter(|d| d.contains('.')).collect();
        for kept in names.keep.iter().filter(|k| k.len() > 2) {
            made.keep.entry(kept.chars().next().unwrap_or_default()).or_default().push(kept.clone());
        }
        made
    }

    /// A name that is also a word of every report (`ubuntu`, `nvidia`) tells of nobody, nor does one of two letters: these
    /// are replaced only where it shows what they are, as in `/home/ubuntu`.
    fn know(&mut self, kind: Kind, name: &str) {
        let name = name.trim();
        if name.chars().count() > 2 && name.contains(char::is_alphabetic) && !is_word(name) {
            let name = name.to_lowercase();
            self.longest = self.longest.max(name.len());
            self.initials.extend(name.chars().next());
            self.names.entry(name).or_insert(kind);
        }
    }

    /// Learns the names that a text gives away: whose home it is, which host a line of syslog is of. All texts of a report
    /// are learnt from before the first is rewritten.
    pub fn learn(&mut self, text: &str) {
        for line in text.lines() {
            for user in line.split("/home/").skip(1) {
                self.know(Kind::User, place::component(user, false));
            }
            if let Some(end) = line.find(" kernel:") {
                let start = line[..end].rfind(' ').map_or(0, |at| at + 1);
                if host_of_line(&line[..start], &line[start..end], &line[end..]) {
                    self.know(Kind::Host, &line[start..end]);
                }
            }
        }
    }

    /// How many different things of each kind were replaced.
    pub fn counts(&self) -> &BTreeMap<Kind, usize> {
        &self.counts
    }

    /// A text without what is private, and without what controls terminals.
    pub fn text(&mut self, text: &str) -> String {
        self.rewritten(&plain(text), false)
    }

    /// The same for every text in a value; of keys only paths are rewritten.
    pub fn json(&mut self, value: &mut Value) {
        self.value(value, None);
    }

    fn value(&mut self, value: &mut Value, kind: Option<Kind>) {
        match value {
            Value::String(text) => {
                let is_one_thing = !text.is_empty() && !text.contains(' ') && placeholder(text).is_none();
                *text = match kind.filter(|_| is_one_thing) {
                    Some(kind) => self.instead_of(kind, text),
                    // A path in a field of its own may have blanks in it.
                    None => self.rewritten(&plain(text), text.starts_with('/') && !text.contains(": ")),
                };
            }
            Value::Array(values) => values.iter_mut().for_each(|v| self.value(v, kind)),
            Value::Object(map) => {
                for (key, mut inner) in std::mem::take(map) {
                    self.value(&mut inner, kind_of(&key).or(kind));
                    let key = if key.starts_with('/') { self.rewritten(&plain(&key), true) } else { key };
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

    /// What stands at the beginning of `rest`, if it is private. What is sure comes before what only looks so.
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
        let of = |kind, length: Option<usize>| length.map(|length| (length, kind));
        let near = beginning(rest);
        let (length, kind) = private_value(before, rest)
            .or_else(|| of(Kind::Uuid, uuid(rest)))
            .or_else(|| of(Kind::Secret, token(rest)))
            .or_else(|| of(Kind::Mac, dashed_mac(rest)))
            .or_else(|| of(Kind::Id, machine_id(rest)))
            .or_else(|| of(Kind::Email, email(rest)))
            .or_else(|| hexadecimal(before, near))
            .or_else(|| of(Kind::Address, dotted(before, near).or_else(|| named_by_address(near))))
            .or_else(|| self.host_in_domain(near))
            .or_else(|| self.name(before, near))?;
        Some((length, self.instead_of(kind, &rest[..length])))
    }

    /// The length of a version or a kernel's name that stays.
    fn kept(&self, rest: &str) -> Option<usize> {
        let alike = self.keep.get(&rest.chars().next()?)?;
        let whole = |kept: &String| {
            let after = rest.strip_prefix(kept.as_str())?;
            // 9.10.2.2 does not keep 9.10.2.21, nor 1.2.3.4 the beginning of 1.2.3.4.5.
            let goes_on = after.strip_prefix('.').is_some_and(|a| a.starts_with(|c: char| c.is_ascii_digit()));
            (is_boundary(kept, after) && !goes_on).then_some(kept.len())
        };
        alike.iter().filter_map(whole).max()
    }

    /// A name below a known domain.
    fn host_in_domain(&self, rest: &str) -> Option<(usize, Kind)> {
        if self.domains.is_empty() {
            return None;
        }
        let name = run(rest, |c| c.is_ascii_alphanumeric() || c == '.' || c == '-').trim_end_matches(['.', '-']);
        let lower = name.to_lowercase();
        let below = |d: &String| lower == *d || lower.strip_suffix(d.as_str()).is_some_and(|n| n.ends_with('.'));
        self.domains.iter().any(below).then_some((name.len(), Kind::Host))
    }

    /// A known name, or the host of a line of syslog: `Nov 21 12:00:00 HOST kernel: …`.
    fn name(&self, before: &str, rest: &str) -> Option<(usize, Kind)> {
        let word = run(rest, |c| !c.is_whitespace());
        if host_of_line(before, word, &rest[word.len()..]) {
            return Some((word.len(), Kind::Host));
        }
        let initial = rest.chars().next()?.to_lowercase().next()?;
        self.initials.get(&initial)?;
        // Lower case may be a little longer or shorter.
        let near = self.longest + 8;
        let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= near);
        let known = ends.filter(|end| is_boundary(&rest[..*end], &rest[*end..]));
        let known = known.filter_map(|end| Some((end, *self.names.get(&rest[..end].to_lowercase())?)));
        known.last()
    }

    /// What stands for a thing, from now on wherever it is met.
    fn instead_of(&mut self, kind: Kind, thing: &str) -> String {
        let name = KINDS.iter().find(|(k, ..)| *k == kind).map_or("private", |(_, name, _)| name);
        let thing = thing.to_lowercase();
        let short = thing.split('.').next().unwrap_or_default();
        if kind == Kind::Host && (self.own_hosts.contains(&thing) || self.own_hosts.contains(short)) {
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

/// Whether no word goes on between these.
fn is_boundary(before: &str, after: &str) -> bool {
    let in_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    !(in_word(before.chars().next_back()) && in_word(after.chars().next()))
}

/// The beginning of a text that consists of such characters.
fn run(text: &str, is_part: impl Fn(char) -> bool) -> &str {
    let end = text.find(|c: char| !is_part(c)).unwrap_or(text.len());
    &text[..end]
}

/// As much of a text as an address or a name may take, and what shows that it ends: a line of a megabyte is not gone through
/// anew from each of its words.
fn beginning(text: &str) -> &str {
    const MOST: usize = 160;
    let mut end = MOST.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The length of a placeholder at the beginning.
fn placeholder(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('<')?;
    let inner = &inner[..run(inner, |c| c.is_ascii_alphanumeric() || c == '-').len()];
    text[1 + inner.len()..].strip_prefix('>')?;
    let (name, number) = inner.split_once('-').unwrap_or((inner, "1"));
    let is_ours = KINDS.iter().any(|(_, n, _)| *n == name) && number.bytes().all(|b| b.is_ascii_digit());
    is_ours.then_some(inner.len() + 2)
}

/// A text that is only text: what moves a terminal's cursor, colours it or hides letters is left out.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => {
                // ESC [ numbers letter; a lone ESC is left out itself. Never a blank: what stands behind one is no part of it,
                // and glued to what stands before it could not be told for what it is.
                if rest.next_if_eq(&'[').is_some() {
                    while rest.next_if(|c| ('\u{30}'..'\u{40}').contains(c)).is_some() {}
                    rest.next_if(|c| ('\u{40}'..'\u{7f}').contains(c));
                }
            }
            '\n' | '\t' => out.push(c),
            '\r' => out.extend(rest.peek().is_none_or(|next| *next != '\n').then_some('\n')),
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => {}
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests;
