//! The kernel's messages about NVIDIA's driver and GPUs since the last boot. They are read first: a
//! broken driver hangs its clients, and has usually logged the reason before.

mod line;
mod plain;
mod record;
mod says;

use super::Answer;
use gpusetup_system::limits::MAX_LOG;
use gpusetup_system::{Ended, Program, System, text_in_place};
use line::{Line, Origin, numbered};
use plain::plain;
use record::{Part, Records, names_what_users_choose};
pub use says::{LoggedSxid, LoggedXid};
use says::{
    bare_xid, error_in, firmware, is_odd_xid, is_of_program, of_driver, pasted_xid, switch, sxid,
};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

/// The GPU in a message of the driver, in the driver's words: `0000:02:00.0 (PCI ID: 10de:2c38)`,
/// `GeForce GT 710`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(from = "String", into = "String")]
pub struct LoggedGpu {
    text: String,
    address: Option<String>,
}

impl LoggedGpu {
    /// Its bus address with domain and function, `0000:02:00.0`, if the message has one.
    pub(crate) fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }
}

impl From<String> for LoggedGpu {
    fn from(text: String) -> Self {
        let address = text.split(' ').find_map(address);
        Self { text, address }
    }
}

impl From<LoggedGpu> for String {
    fn from(gpu: LoggedGpu) -> Self {
        gpu.text
    }
}

impl fmt::Display for LoggedGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A message of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(rename_all = "kebab-case")]
pub enum KernelEvent {
    /// An error of a GPU, by its number.
    Xid {
        /// Bus address, as the log has it.
        gpu: String,
        /// The number of the error.
        number: u16,
        /// The rest of the message.
        text: String,
    },
    /// The GPU needs the open kernel modules.
    NeedsOpen(LoggedGpu),
    /// The open kernel modules do not support this GPU.
    NotForOpen(LoggedGpu),
    /// The GPU needs a driver of an older branch.
    Legacy {
        /// The GPU.
        gpu: LoggedGpu,
        /// Its last branch, `470`.
        branch: String,
    },
    /// The driver does not support the GPU.
    Unknown(LoggedGpu),
    /// A program's driver libraries do not match the kernel module.
    Mismatch {
        /// The version of the program's driver libraries.
        client: String,
        /// The version of the kernel module.
        module: String,
    },
    /// The number of GPUs that were not probed because another driver had them.
    NotProbed(String),
    /// Another driver has the GPU.
    Held {
        /// The bus address.
        gpu: String,
        /// The name of the other driver: `vfio-pci`, `NovaCore`.
        by: String,
    },
    /// The kernel refused the module.
    Refused(String),
    /// The kernel refused the module because it was built for another kernel.
    Unfit(String),
    /// The number of GPUs that the module could not initialise.
    ProbeFailed(String),
    /// The driver could not initialise the GPU; old drivers do not say which one.
    InitFailed(String),
    /// The GSP firmware of a GPU no longer responds, or is still running from before. The value is
    /// the driver's number of the GPU, `GPU6`, or empty.
    FirmwareHangs(String),
    /// A fatal error of an NVSwitch.
    SwitchFault {
        /// The bus address.
        switch: String,
        /// The number of the error (SXid).
        number: u32,
        /// The rest of the message.
        text: String,
    },
    /// The GPU no longer responds on the PCI bus.
    OffTheBus(String),
    /// The kernel had no address space for the GPU's memory (heterogeneous memory).
    NoHmm(String),
    /// The firmware assigned no address space to the GPU's memory.
    NoRoom(String),
    /// Lines that look like errors of GPUs, but are not known to be the kernel's: they are of
    /// another form, or may be part of a message that names what a user chose.
    Unread {
        /// The number of the first of these lines.
        first: usize,
        /// How many there are.
        lines: usize,
    },
}

/// How many different messages are kept: those of some hundred GPUs. A log that somebody made up
/// may have any number.
const MAX_SAID: usize = 1000;

/// How many error numbers of a log are told apart by their GPU or switch.
const MAX_LOGGED: usize = 10_000;

const LIMIT: Duration = Duration::from_secs(5);
/// Log files that syslog writes the kernel's messages to.
const FILES: [&str; 3] = ["/var/log/kern.log", "/var/log/messages", "/var/log/syslog"];

/// The log's text: of the running kernel, or of a tree's last boot.
pub fn read(system: &System) -> Answer<String> {
    if system.is_live() {
        let mut why = String::new();
        for argv in [
            &["dmesg"][..],
            &[
                "journalctl",
                "-k",
                "-b",
                "-o",
                "short-monotonic",
                "--no-pager",
            ],
        ] {
            match system.run(&Program::new(argv.iter().copied()).limit(LIMIT)) {
                Ok(output) if output.ended == Ended::Status(0) => return Answer::Is(output.text),
                Ok(output) => why = output.last_lines(1),
                Err(e) => why = e.to_string(),
            }
        }
        return Answer::NotAsked(format!("the kernel's log could not be read: {why}"));
    }
    of_tree(system)
}

/// The log of a tree: the first of the files in which the kernel's messages are. After a rotation a
/// file is empty, and the one before it has them.
fn of_tree(system: &System) -> Answer<String> {
    let mut others = None;
    for path in FILES {
        let mut why = None;
        for file in [path.to_owned()].into_iter().chain(rotated(system, path)) {
            let (text, is_cut) = match tail(system, &file, MAX_LOG) {
                Ok(read) => read,
                Err(e) if gpusetup_system::is_absent(&e) => continue,
                Err(e) => return Answer::NotAsked(format!("{file} could not be read: {e}")),
            };
            if is_of_kernel(&text) {
                if is_cut {
                    system.leave_out(
                        &file,
                        &format!("only its last {} MiB is read", MAX_LOG >> 20),
                    );
                }
                if let Some((former, why)) = why.or(others) {
                    system.pass_over(former, &format!("{why}; {file} is read"));
                }
                return Answer::Is(text);
            }
            let is_empty = text.trim().is_empty();
            why.get_or_insert((
                file,
                if is_empty {
                    "it is empty"
                } else {
                    "it has no message of the kernel"
                },
            ));
        }
        others = others.or(why);
    }
    Answer::NotAsked(match others {
        Some((file, "it is empty")) => format!("the tree's log {file} is empty"),
        Some((file, _)) => format!(
            "the tree's log {file} has no message of the kernel in a form that gpusetup reads"
        ),
        None => "the tree has no kernel log".to_owned(),
    })
}

/// Earlier files of a log, the newest first: `kern.log.1`, `messages-20261129`. Packed ones are not
/// read.
fn rotated(system: &System, path: &str) -> Vec<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let newest = system
        .list(folder)
        .unwrap_or_default()
        .into_iter()
        .filter(|file| {
            let date = file
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix('-'));
            date.is_some_and(|date| {
                date.len() == "20261129".len() && date.bytes().all(|b| b.is_ascii_digit())
            })
        })
        .max();
    let numbered = format!("{path}.1");
    [numbered]
        .into_iter()
        .chain(newest.map(|newest| format!("{folder}/{newest}")))
        .collect()
}

/// Whether a text has a message of the kernel, or what looks like an error.
fn is_of_kernel(text: &str) -> bool {
    let text = plain(text);
    numbered(&text, LEAST).any(|(_, line)| {
        let read = Line::of(line);
        match read.origin {
            Origin::Kernel => true,
            Origin::Other => false,
            Origin::Bare => of_driver(read.message).is_some() || error_in(line).is_some(),
        }
    })
}

/// The last `most` bytes of a file, beginning with a whole line, and whether there were more.
pub fn tail(system: &System, path: impl AsRef<Path>, most: u64) -> io::Result<(String, bool)> {
    let mut file = system.open(path)?;
    let over = file.metadata()?.len().saturating_sub(most);
    file.seek(SeekFrom::Start(over))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    let text = text_in_place(bytes);
    Ok(match over {
        0 => (text, false),
        _ => (
            text.split_once('\n')
                .map(|(_, rest)| rest.to_owned())
                .unwrap_or_default(),
            true,
        ),
    })
}

/// The Xids in a text, also those that were copied without `NVRM:` before them; each number appears
/// once per GPU. What comes before a line `Linux version` counts too: people paste `/proc/version`
/// behind their log.
pub fn xids(log: &str) -> Vec<LoggedXid> {
    let mut known = HashSet::new();
    log.lines()
        .filter_map(|line| {
            nvrm(line)
                .and_then(pasted_xid)
                .or_else(|| pasted_xid(&line[bare_xid(line)?..]))
        })
        .filter(|logged| known.insert((logged.gpu.clone(), logged.number)))
        .take(MAX_LOGGED)
        .collect()
}

/// What the driver says on a line that somebody pasted, with anything before it.
fn nvrm(line: &str) -> Option<&str> {
    line.split_once("NVRM")
        .map(|(_, rest)| rest.trim_start_matches(':').trim())
}

/// The SXids in a text; each number appears once per switch.
pub fn sxids(log: &str) -> Vec<LoggedSxid> {
    let mut known = HashSet::new();
    log.lines()
        .filter_map(sxid)
        .filter(|logged| known.insert((logged.switch.clone(), logged.number)))
        .take(MAX_LOGGED)
        .collect()
}

/// The relevant messages of a log's last boot, each once; an Xid has the text of its first
/// occurrence.
#[cfg(test)]
pub(crate) fn parse(log: &str) -> Vec<KernelEvent> {
    Reading::of(&plain(log)).said()
}

/// The same, unless the log has a text and nothing in it is known to be the kernel's.
pub fn heard(log: &str) -> Answer<Vec<KernelEvent>> {
    let log = plain(log);
    let reading = Reading::of(&log);
    let knows_any = reading.knows_any;
    let said = reading.said();
    if said.is_empty() && !knows_any && !log.trim().is_empty() {
        return Answer::NotAsked(UNKNOWN_FORM.to_owned());
    }
    Answer::Is(said)
}

/// What the log of the running kernel, or of a tree, says.
pub(crate) fn of_host(system: &System) -> Answer<Vec<KernelEvent>> {
    match read(system) {
        Answer::Is(text) => heard(&text),
        Answer::Failed(why) => Answer::Failed(why),
        Answer::NotAsked(why) => Answer::NotAsked(why),
    }
}

/// Why nothing is known of a log that has a text.
const UNKNOWN_FORM: &str = "no line of the kernel's log is in a form that gpusetup reads: those of dmesg, journalctl and syslog are";

/// Reads a log, line by line.
#[derive(Default)]
struct Reading {
    /// Since the last boot.
    boot: Boot,
    /// What was said before, while it is in doubt whether that boot is one.
    doubt: Option<Doubt>,
    /// Whether a line is known to be the kernel's.
    knows_any: bool,
    /// Whether another program wrote to the log: then a user may have written any line of it.
    has_others: bool,
    /// The last time that a message has.
    uptime: Option<f64>,
}

/// What was said since a boot.
#[derive(Default)]
struct Boot {
    heard: Heard,
    /// What the driver said. NVIDIA breaks sentences into lines, so the lines are joined.
    text: String,
    /// The number of the first line that looks like an error and is not read, and how many there
    /// are.
    unread: Option<(usize, usize)>,
}

/// A boot that may be none: a user can write `Linux version 6.1` to a syslog. Errors of the boot
/// before are better than none.
struct Doubt {
    before: Boot,
    /// Whether its first message has a time, which begins at 0 again.
    has_clock: bool,
    /// The last time before it.
    uptime: Option<f64>,
    /// The messages that are left in which the kernel's command line must be.
    left: usize,
}

/// The messages after the first one of a boot among which the kernel's command line must be.
const MAX_BEFORE_COMMAND_LINE: usize = 300;

/// A shorter line has neither a mark of the driver nor a time and a message.
const LEAST: usize = "NVRM:".len();

impl Reading {
    fn of(log: &str) -> Self {
        let mut reading = Self::default();
        let mut records = Records::default();
        let signs: Vec<_> = REFUSALS
            .iter()
            .chain(&UNFIT)
            .filter(|sign| log.contains(**sign))
            .copied()
            .collect();
        let may_have_errors = log.contains("Xid (") || log.contains("NVRM");
        for (number, text) in numbered(log, LEAST) {
            let line = Line::of(text);
            let part = records.place(line);
            let is_heard = part == Part::Message && reading.hear(&line, &signs);
            if may_have_errors && !is_heard && is_unread(&line, part) {
                reading.boot.note_unread(number);
            }
        }
        reading
    }

    /// Notes what a message says, and whether it is known.
    fn hear(&mut self, line: &Line, signs: &[&str]) -> bool {
        if line.origin == Origin::Other {
            self.has_others = true;
            return false;
        }
        let begins = self.begins_boot(line);
        if !begins {
            self.resolve(line);
        }
        self.uptime = line.uptime.or(self.uptime);
        let is_heard = self.boot.hear(line.message, signs);
        self.knows_any |= is_heard || begins || line.origin == Origin::Kernel;
        is_heard
    }

    /// Whether a message may be the first one of a boot; then what was said before is put aside.
    fn begins_boot(&mut self, line: &Line) -> bool {
        let has_clock = line.uptime == Some(0.0);
        if !is_start_of_boot(line.message) || !has_clock && self.uptime.is_some() {
            return false;
        }
        self.put_back();
        let before = std::mem::take(&mut self.boot);
        self.doubt = Some(Doubt {
            before,
            has_clock,
            uptime: self.uptime,
            left: MAX_BEFORE_COMMAND_LINE,
        });
        true
    }

    /// A message that follows the first one of a boot tells whether it is one.
    fn resolve(&mut self, line: &Line) {
        let Some(doubt) = &mut self.doubt else { return };
        doubt.left = doubt.left.saturating_sub(1);
        let goes_on = line.uptime.is_some_and(|now| {
            doubt
                .uptime
                .is_some_and(|before| before > 0.0 && now >= before)
        });
        let has_command_line = ["Command line: ", "Kernel command line: "]
            .iter()
            .any(|word| line.message.starts_with(word));
        let begins_anew = doubt.has_clock && line.uptime.is_some() && !self.has_others;
        if goes_on || doubt.left == 0 {
            self.put_back();
        } else if has_command_line || begins_anew {
            self.doubt = None;
        }
    }

    /// What looked like the first message of a boot was none.
    fn put_back(&mut self) {
        if let Some(Doubt { before, .. }) = self.doubt.take() {
            let since = std::mem::replace(&mut self.boot, before);
            self.boot.add(since);
        }
    }

    fn said(mut self) -> Vec<KernelEvent> {
        if self
            .doubt
            .as_ref()
            .is_some_and(|doubt| !doubt.has_clock || self.has_others)
        {
            self.put_back();
        }
        self.boot.said()
    }
}

impl Boot {
    /// Notes what a message says, and whether it is known.
    fn hear(&mut self, message: &str, signs: &[&str]) -> bool {
        let heard = &mut self.heard;
        if let Some(says) = of_driver(message) {
            for word in says.split_whitespace() {
                self.text += word;
                self.text.push(' ');
            }
            if let Some(LoggedXid { gpu, number, text }) = says::xid(says) {
                heard.note(KernelEvent::Xid { gpu, number, text });
            }
            if firmware(says) {
                heard.note(firmware_hangs(says));
            }
            return !is_odd_xid(says);
        }
        if message.starts_with("nvidia-uvm: ") && message.contains("request_free_mem_region() err")
        {
            heard.note(KernelEvent::NoHmm(message.trim().to_owned()));
            return true;
        }
        if let Some(LoggedSxid {
            switch,
            number,
            text,
            ..
        }) = switch(message)
        {
            heard.note(KernelEvent::SwitchFault {
                switch,
                number,
                text,
            });
            return true;
        }
        let Some(sign) = signs
            .iter()
            .find(|sign| message.contains(**sign) && says(message, sign))
        else {
            return false;
        };
        let refuses = REFUSALS.contains(sign);
        heard.note(if refuses {
            KernelEvent::Refused(message.trim().to_owned())
        } else {
            KernelEvent::Unfit(message.trim().to_owned())
        });
        true
    }

    fn note_unread(&mut self, line: usize) {
        let (_, lines) = self.unread.get_or_insert((line, 0));
        *lines += 1;
    }

    /// Adds what was said after it.
    fn add(&mut self, later: Self) {
        later
            .heard
            .said
            .into_iter()
            .for_each(|one| self.heard.note(one));
        self.text += &later.text;
        if let Some((line, lines)) = later.unread {
            self.unread.get_or_insert((line, 0)).1 += lines;
        }
    }

    fn said(mut self) -> Vec<KernelEvent> {
        sentences(&self.text, &mut |one| self.heard.note(one));
        let unread = self
            .unread
            .map(|(first, lines)| KernelEvent::Unread { first, lines });
        self.heard.said.extend(unread);
        self.heard.said
    }
}

/// Whether a line that is not read looks like an error. What a program wrote to the same log is no
/// error, nor what the kernel quotes.
fn is_unread(line: &Line, part: Part) -> bool {
    if part == Part::Further || line.origin == Origin::Other {
        return false;
    }
    let Some(before) = error_in(line.message).map(|at| &line.message[..at]) else {
        return false;
    };
    part == Part::Doubtful
        || match line.origin {
            Origin::Kernel => !names_what_users_choose(before),
            _ => !is_of_program(before),
        }
}

/// What a log says, each once.
#[derive(Default)]
struct Heard {
    said: Vec<KernelEvent>,
    known: HashSet<KernelEvent>,
}

impl Heard {
    fn note(&mut self, one: KernelEvent) {
        // In a storm of one Xid each line has another text.
        let told = match &one {
            KernelEvent::Xid { gpu, number, .. } => KernelEvent::Xid {
                gpu: gpu.clone(),
                number: *number,
                text: String::new(),
            },
            other => other.clone(),
        };
        if self.known.len() < MAX_SAID && self.known.insert(told) {
            self.said.push(one);
        }
    }
}

/// Whether a message is the kernel's first one: `Linux version 6.8.0-71-generic (…)`. A program's
/// name is shorter.
fn is_start_of_boot(message: &str) -> bool {
    let version = message
        .strip_prefix("Linux version ")
        .and_then(|version| version.split_once('.'));
    version.is_some_and(|(major, minor)| {
        major.parse::<u16>().is_ok() && minor.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// Whether a message says this, after nothing but who says it: `Lockdown: modprobe: unsigned module
/// loading is restricted`.
fn says(message: &str, what: &str) -> bool {
    let who = message.split_once(what).map(|(who, _)| who);
    who.is_some_and(|who| {
        who.split_whitespace().all(|word| word.ends_with(':')) && !is_of_program(message)
    })
}

/// The kernel's messages when it refuses a module, and modprobe's.
pub const REFUSALS: [&str; 4] = [
    "Loading of module with unavailable key is rejected",
    "Loading of unsigned module is rejected",
    "could not insert 'nvidia': Key was rejected by service",
    "unsigned module loading is restricted",
];

/// Its messages when the module was built for another kernel.
pub const UNFIT: [&str; 3] = [
    "nvidia: version magic ",
    "nvidia: disagrees about version of symbol ",
    "could not insert 'nvidia': Exec format error",
];

/// A hang of the firmware of the GPU whose number the message begins with: `GPU6
/// _kgspIsHeartbeatTimedOut: …`.
fn firmware_hangs(says: &str) -> KernelEvent {
    let gpu = says.split(' ').next().filter(|word| {
        word.strip_prefix("GPU")
            .is_some_and(|n| n.parse::<u16>().is_ok())
    });
    KernelEvent::FirmwareHangs(gpu.unwrap_or_default().to_owned())
}

/// `580.95.05` of `580.95.05. NVRM: …`.
fn leading_version(text: &str) -> String {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let version = &text[..end.unwrap_or(text.len())];
    version.trim_end_matches('.').to_owned()
}

fn first_word(text: &str) -> String {
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn is_hexadecimal(text: &str) -> bool {
    (1..=8).contains(&text.len()) && text.chars().all(|c| c.is_ascii_hexdigit())
}

fn sentences(text: &str, note: &mut dyn FnMut(KernelEvent)) {
    let each = |needle: &'static str| {
        text.match_indices(needle)
            .map(|(at, _)| (before(text, at), after(text, at + needle.len())))
    };
    each("requires use of the NVIDIA open kernel modules")
        .for_each(|(before, _)| note(KernelEvent::NeedsOpen(named(before))));
    each("is not supported by open nvidia.ko")
        .for_each(|(before, _)| note(KernelEvent::NotForOpen(named(before))));
    for (before, after) in each("supported through the NVIDIA ") {
        if let Some((branch, _)) = after.split_once(".xx Legacy") {
            note(KernelEvent::Legacy {
                gpu: named(before),
                branch: branch.to_owned(),
            });
        }
    }
    // "… is not supported by the NVIDIA 555.42.02 driver release"
    each("installed in this system is not supported by the")
        .for_each(|(before, _)| note(KernelEvent::Unknown(named(before))));
    for (_, after) in each("the client has the version ") {
        let module = after.split_once("this kernel module has the version ");
        note(KernelEvent::Mismatch {
            client: leading_version(after),
            module: leading_version(module.map_or("", |(_, rest)| rest)),
        });
    }
    each("probe routine was not called for ")
        .for_each(|(_, after)| note(KernelEvent::NotProbed(first_word(after))));
    each("probe routine failed for ")
        .for_each(|(_, after)| note(KernelEvent::ProbeFailed(first_word(after))));
    for (before, after) in each(" is already bound to ") {
        let by = first_word(after).trim_end_matches('.').to_owned();
        last_address(before).into_iter().for_each(|gpu| {
            note(KernelEvent::Held {
                gpu,
                by: by.clone(),
            })
        });
    }
    each("RmInitAdapter failed!").for_each(|(before, _)| {
        note(KernelEvent::InitFailed(
            last_address(before).unwrap_or_default(),
        ))
    });
    each("fallen off the bus").for_each(|(before, _)| {
        note(KernelEvent::OffTheBus(
            last_address(before).unwrap_or_default(),
        ))
    });
    for (_, after) in each("BAR") {
        // "BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)"
        if let Some((bar, rest)) = after.split_once(" is 0M @ 0x0 (PCI:")
            && bar.len() == 1
        {
            note(KernelEvent::NoRoom(
                rest.split(')').next().unwrap_or_default().to_owned(),
            ));
        }
    }
}

/// The longest message, in bytes: the known ones have about two hundred.
const SENTENCE: usize = 400;

fn before(text: &str, at: usize) -> &str {
    let from = (at.saturating_sub(SENTENCE)..=at)
        .find(|from| text.is_char_boundary(*from))
        .unwrap_or(at);
    &text[from..at]
}

fn after(text: &str, at: usize) -> &str {
    let end = text.len().min(at + SENTENCE);
    let to = (at..=end)
        .rev()
        .find(|to| text.is_char_boundary(*to))
        .unwrap_or(at);
    &text[at..to]
}

/// The GPU that a message names: "The NVIDIA GeForce GT 710 GPU installed in this system is …",
/// "The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2331) installed …".
fn named(before: &str) -> LoggedGpu {
    let from = before
        .rfind("The NVIDIA ")
        .map_or(before, |at| &before[at + "The NVIDIA ".len()..]);
    let name = from
        .split(" installed in this system")
        .next()
        .unwrap_or(from);
    name.trim_end_matches(" GPU")
        .trim_start_matches("GPU ")
        .trim()
        .to_owned()
        .into()
}

/// The last bus address of a text, `0000:01:00.0`.
fn last_address(before: &str) -> Option<String> {
    // Not further back than the same message.
    before.split(' ').rev().take(24).find_map(address)
}

/// A word as a bus address, `0000:01:00.0`, if it is one: `01:00.0` and `0000:01:00` are,
/// `10de:2331` is not.
fn address(word: &str) -> Option<String> {
    let word = word
        .trim_start_matches("(PCI:")
        .trim_matches(|c: char| !c.is_ascii_hexdigit());
    let (rest, function) = word.split_once('.').unwrap_or((word, "0"));
    let parts: Vec<_> = rest.split(':').collect();
    let is_address = match parts.as_slice() {
        [_, _, _] => true,
        [bus, device] => bus.len() == 2 && device.len() == 2 && word.contains('.'),
        _ => false,
    };
    if !is_address || !parts.iter().all(|part| is_hexadecimal(part)) || !is_hexadecimal(function) {
        return None;
    }
    let domain = if parts.len() == 2 { "0000:" } else { "" };
    Some(format!("{domain}{rest}.{function}").to_ascii_lowercase())
}

#[cfg(test)]
mod tests;
