//! The kernel's messages about NVIDIA's driver and GPUs since the last boot. They are read first: a broken driver hangs its
//! clients, and has usually logged the reason before.

use super::Answer;
use crate::system::limits::MAX_LOG;
use crate::system::{Ended, Program, System, text_in_place};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

/// The GPU in a message of the driver, in the driver's words: `0000:02:00.0 (PCI ID: 10de:2c38)`, `GeForce GT 710`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(from = "String", into = "String")]
pub struct LoggedGpu {
    text: String,
    address: Option<String>,
}

impl LoggedGpu {
    /// Its bus address with domain and function, `0000:02:00.0`, if the message has one.
    pub fn address(&self) -> Option<&str> {
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
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(rename_all = "kebab-case")]
pub enum Said {
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
    /// The GSP firmware of a GPU no longer responds, or is still running from before. The value is the driver's number of the
    /// GPU, `GPU6`, or empty.
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
}

/// How many different messages are kept: those of some hundred GPUs. A log that somebody made up may have any number.
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
        for argv in [&["dmesg"][..], &["journalctl", "-k", "-b", "-o", "short-monotonic", "--no-pager"]] {
            match system.run(&Program::new(argv.iter().copied()).limit(LIMIT)) {
                Ok(output) if output.ended == Ended::Status(0) => return Answer::Is(output.text),
                Ok(output) => why = output.last_lines(1),
                Err(e) => why = e.to_string(),
            }
        }
        return Answer::NotAsked(format!("the kernel's log could not be read: {why}"));
    }
    for path in FILES {
        match tail(system, path, MAX_LOG) {
            Ok((text, is_cut)) => {
                if is_cut {
                    system.leave_out(path, &format!("only its last {} MiB is read", MAX_LOG >> 20));
                }
                return Answer::Is(text);
            }
            Err(e) if crate::system::is_absent(&e) => {}
            Err(e) => return Answer::NotAsked(format!("{path} could not be read: {e}")),
        }
    }
    Answer::NotAsked("the tree has no kernel log".to_owned())
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
        _ => (text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap_or_default(), true),
    })
}

/// An error number (Xid) in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedXid {
    /// Bus address of the GPU, as the log has it.
    pub gpu: String,
    /// The number.
    pub number: u16,
    /// The rest of the line.
    pub text: String,
}

/// The Xids in a text, also those that were copied without `NVRM:` before them; each number appears once per GPU. What comes
/// before a line `Linux version` counts too: people paste `/proc/version` behind their log.
pub fn xids(log: &str) -> Vec<LoggedXid> {
    let mut known = HashSet::new();
    let of = |line| match nvrm(line).and_then(xid).or_else(|| xid(&line[bare_xid(line)?..])) {
        Some(Said::Xid { gpu, number, text }) => Some(LoggedXid { gpu, number, text }),
        _ => None,
    };
    log.lines()
        .filter_map(of)
        .filter(|logged| known.insert((logged.gpu.clone(), logged.number)))
        .take(MAX_LOGGED)
        .collect()
}

/// Where an Xid begins on a line. The error of an NVSwitch, `SXid (`, is none.
fn bare_xid(line: &str) -> Option<usize> {
    line.match_indices("Xid (").map(|(at, _)| at).find(|at| !line[..*at].ends_with(char::is_alphanumeric))
}

/// What the driver says on a line that somebody pasted, with anything before it.
fn nvrm(line: &str) -> Option<&str> {
    line.split_once("NVRM").map(|(_, rest)| rest.trim_start_matches(':').trim())
}

/// What the driver says in a message. The kernel's reports of crashes begin with the name of a program, which anybody chooses, and
/// name a file.
fn of_driver(message: &str) -> Option<&str> {
    let says = message.strip_prefix("NVRM").filter(|rest| rest.starts_with([':', ' ']))?;
    let says = says.trim_start_matches(':').trim();
    // This is longer than a program's name.
    (xid(says).is_some() || !is_of_program(message)).then_some(says)
}

/// Bytes before the number of a process: its name has up to 15, and dmesg writes four letters for some of them.
const LONGEST_NAME: usize = 60;

/// Whether a message begins with the name and the number of a process: `python3[4242]: segfault at 0 ip … in libcuda.so[…]`,
/// `python3[4242] bad frame in …`.
fn is_of_program(message: &str) -> bool {
    message.match_indices('[').take_while(|(at, _)| *at <= LONGEST_NAME).any(|(at, _)| {
        let number = &message[at + 1..];
        let rest = number.trim_start_matches(|c: char| c.is_ascii_digit());
        rest.len() < number.len() && (rest.starts_with("]:") || rest.starts_with("] "))
    })
}

/// The messages of a log, line by line. A name in one may have line breaks, and what follows them looks like another message.
#[derive(Default)]
struct Messages<'a> {
    has_stamps: bool,
    /// How far the first line is indented.
    indent: Option<usize>,
    is_others: bool,
    /// The time of the last message that is not the driver's.
    time_of_others: Option<&'a str>,
}

impl<'a> Messages<'a> {
    /// The message on the next line; none if the line is a part of a message that is not the driver's.
    fn of_line(&mut self, line: &'a str) -> Option<&'a str> {
        let line = (LONGEST_LINE - 3..=LONGEST_LINE).rev().find_map(|end| line.get(..end)).unwrap_or(line);
        let message = message(line);
        let before = &line[..line.len() - message.len()];
        let (is_stamped, time) = (!before.trim().is_empty(), exact_time(before));
        let indent = line.len() - line.trim_start().len();
        // dmesg and journalctl indent further lines of a message, and programs that read /proc/kmsg begin all with the same time.
        let goes_on = indent > *self.indent.get_or_insert(indent) || !is_stamped && self.has_stamps;
        let is_part = goes_on && self.is_others || is_stamped && time.is_some() && time == self.time_of_others;
        let is_drivers = of_driver(message).is_some() || message.starts_with("nvidia") && !is_of_program(message);
        self.is_others = is_part || !is_drivers;
        self.has_stamps |= is_stamped;
        if is_stamped && self.is_others {
            self.time_of_others = time;
        }
        (!is_part).then_some(message)
    }
}

/// The time before a message, if it is in microseconds, and not that of the first messages, when no program runs.
fn exact_time(before: &str) -> Option<&str> {
    let time = before.split_once('[')?.1.split_once(']')?.0.trim();
    let is_exact = time.split_once('.').is_some_and(|(_, part)| part.len() == 6);
    Some(time).filter(|time| is_exact && *time != "0.000000")
}

/// The bytes of a line that are read. The kernel writes no longer ones.
const LONGEST_LINE: usize = 4096;

/// The message on a line, without what logs write before it: `<6>[ 12.345678] `, `kern  :err   : [    T7] `,
/// `Nov 29 10:00:00 host kernel: `.
fn message(line: &str) -> &str {
    after_stamps(after_source(after_stamps(after_level(line.trim_start()))))
}

/// Without the level of a message: `<6>`, `kern  :err   : `.
fn after_level(text: &str) -> &str {
    let number = text.strip_prefix('<').and_then(|text| text.split_once('>'));
    if let Some((_, rest)) = number.filter(|(level, _)| level.bytes().all(|b| b.is_ascii_digit())) {
        return rest;
    }
    let words = text.strip_prefix("kern").and_then(|text| text.trim_start().strip_prefix(':')?.split_once(':'));
    let words = words.filter(|(level, _)| level.trim().bytes().all(|b| b.is_ascii_alphabetic()));
    words.map_or(text, |(_, rest)| rest.trim_start())
}

/// Without stamps and threads: `[   12.345678] [    T7] `, `[Fri Aug 30 11:43:09 2024] `.
fn after_stamps(mut text: &str) -> &str {
    while let Some((stamp, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']'))
        && stamp.chars().all(|c| c.is_ascii_alphanumeric() || " .,:+-<>".contains(c))
        && stamp.contains(|c: char| c.is_ascii_digit())
    {
        text = rest.trim_start();
    }
    text
}

/// Without a date, a host and `kernel:`, or without the date alone that `dmesg --time-format iso` writes.
fn after_source(text: &str) -> &str {
    if let Some((_, rest)) = text.split_once("kernel: ").filter(|(before, _)| is_source(before)) {
        return rest.trim_start();
    }
    let date = text.split_once(' ').filter(|(date, _)| is_of_date(date) && date.contains('T') && date.contains(':'));
    date.map_or(text, |(_, rest)| rest)
}

/// Whether a text is a date and a host, or one of them, or nothing.
fn is_source(text: &str) -> bool {
    let mut words = text.split_whitespace().rev();
    let is_host = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    (text.is_empty() || text.ends_with(' '))
        && words.next().is_none_or(|word| is_host(word) || is_of_date(word))
        && words.clone().count() <= 5
        && words.all(is_of_date)
}

/// Whether a word can be of a date: `Nov`, `29`, `10:00:00`, `2026-11-29T10:00:00.123456+01:00`, `UTC`.
fn is_of_date(word: &str) -> bool {
    let is_name = word.len() <= 4 && word.bytes().all(|b| b.is_ascii_alphabetic());
    let is_number = word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_digit() || "TZ:.,+-".contains(c));
    is_name || is_number
}

/// An error number of an NVSwitch (SXid) in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedSxid {
    /// Bus address of the switch, as the log has it.
    pub switch: String,
    /// The number.
    pub number: u32,
    /// Whether it aborted programs that used the switch.
    pub is_fatal: bool,
    /// The rest of the line.
    pub text: String,
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

/// The relevant messages of a log's last boot, each once; an Xid has the text of its first occurrence.
pub fn parse(log: &str) -> Vec<Said> {
    let mut heard = Heard::default();
    // NVIDIA breaks sentences into lines, so the lines are joined.
    let mut text = String::new();
    let mut messages = Messages::default();
    for message in log.lines().filter_map(|line| messages.of_line(line)) {
        if is_start_of_boot(message) {
            heard = Heard::default();
            text.clear();
        }
        if let Some(says) = of_driver(message) {
            for word in says.split_whitespace() {
                text += word;
                text.push(' ');
            }
            xid(says).into_iter().chain(firmware(says)).for_each(|one| heard.note(one));
        } else if message.starts_with("nvidia-uvm: ") && message.contains("request_free_mem_region() err") {
            heard.note(Said::NoHmm(message.trim().to_owned()));
        }
        switch(message).into_iter().for_each(|one| heard.note(one));
        if REFUSALS.iter().any(|refusal| says(message, refusal)) {
            heard.note(Said::Refused(message.trim().to_owned()));
        }
        if UNFIT.iter().any(|unfit| says(message, unfit)) {
            heard.note(Said::Unfit(message.trim().to_owned()));
        }
    }
    sentences(&text, &mut |one| heard.note(one));
    heard.said
}

/// What a log says, each once.
#[derive(Default)]
struct Heard {
    said: Vec<Said>,
    known: HashSet<Said>,
}

impl Heard {
    fn note(&mut self, one: Said) {
        // In a storm of one Xid each line has another text.
        let told = match &one {
            Said::Xid { gpu, number, .. } => Said::Xid { gpu: gpu.clone(), number: *number, text: String::new() },
            other => other.clone(),
        };
        if self.known.len() < MAX_SAID && self.known.insert(told) {
            self.said.push(one);
        }
    }
}

/// Whether a message is the kernel's first one: `Linux version 6.8.0-71-generic (…)`. A program's name is shorter.
fn is_start_of_boot(message: &str) -> bool {
    let version = message.strip_prefix("Linux version ").and_then(|version| version.split_once('.'));
    version
        .is_some_and(|(major, minor)| major.parse::<u16>().is_ok() && minor.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a message says this, after nothing but who says it: `Lockdown: modprobe: unsigned module loading is restricted`.
fn says(message: &str, what: &str) -> bool {
    let who = message.split_once(what).map(|(who, _)| who);
    who.is_some_and(|who| who.split_whitespace().all(|word| word.ends_with(':')) && !is_of_program(message))
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

/// `GPU6 _kgspIsHeartbeatTimedOut: Heartbeat timed out, …`, `_kgspBootGspRm: unexpected WPR2 already up, …`.
fn firmware(line: &str) -> Option<Said> {
    const HANGS: [&str; 3] = ["Heartbeat timed out", "* GSP Timeout *", "unexpected WPR2 already up"];
    let gpu = line.split(' ').next().filter(|word| word.strip_prefix("GPU").is_some_and(|n| n.parse::<u16>().is_ok()));
    let hangs = HANGS.iter().any(|sign| line.contains(sign));
    hangs.then(|| Said::FirmwareHangs(gpu.unwrap_or_default().to_owned()))
}

/// Fatal errors of NVSwitches; others need no action.
fn switch(line: &str) -> Option<Said> {
    // This is longer than a program's name.
    let (name, _) = line.strip_prefix("nvidia-nvswitch")?.split_once(": SXid (PCI:")?;
    name.parse::<u16>().ok()?;
    let LoggedSxid { switch, number, text, .. } = sxid(line).filter(|logged| logged.is_fatal)?;
    Some(Said::SwitchFault { switch, number, text })
}

/// `nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 27 …`; the lines with an error's data have neither word.
fn sxid(line: &str) -> Option<LoggedSxid> {
    let (_, rest) = line.split_once(": SXid (PCI:")?;
    let (switch, rest) = rest.split_once("): ").filter(|(switch, _)| is_bus(switch))?;
    let (number, rest) = rest.split_once(", ")?;
    let is_fatal = rest.starts_with("Fatal, ");
    let text = rest.strip_prefix("Fatal, ").or_else(|| rest.strip_prefix("Non-fatal, "))?;
    Some(LoggedSxid { switch: switch.to_owned(), number: number.parse().ok()?, is_fatal, text: text.trim().to_owned() })
}

/// Whether a text can be a bus address: it becomes part of commands.
fn is_bus(text: &str) -> bool {
    text.len() <= 20 && text.contains(':') && text.chars().all(|c| c.is_ascii_hexdigit() || c == ':' || c == '.')
}

/// `Xid (PCI:0000:cb:00): 13, pid=…, Graphics Exception …`; older drivers leave `PCI:` out. With MIG, the GPU instance is
/// behind the address: `(PCI:0000:cb:00 GPU-I:05)`.
fn xid(line: &str) -> Option<Said> {
    let rest = line.strip_prefix("Xid (")?;
    let (gpu, rest) = rest.split_once("): ")?;
    let gpu = gpu.split(' ').next().unwrap_or(gpu).trim_start_matches("PCI:");
    if !is_bus(gpu) {
        return None;
    }
    let (number, text) = rest.split_once([',', ' ']).unwrap_or((rest, ""));
    // A process's number and name only tell one line from the next, and are private.
    let tells = |part: &&str| !["pid=", "name="].iter().any(|private| part.trim_start().starts_with(private));
    let text = text.split(',').filter(tells).collect::<Vec<_>>().join(",").trim().to_owned();
    // The function is always 0, and often left out.
    let gpu = if gpu.contains('.') { gpu.to_owned() } else { format!("{gpu}.0") };
    Some(Said::Xid { gpu, number: number.trim().parse().ok()?, text })
}

fn sentences(text: &str, note: &mut dyn FnMut(Said)) {
    let each = |needle: &'static str| {
        text.match_indices(needle).map(|(at, _)| (before(text, at), after(text, at + needle.len())))
    };
    each("requires use of the NVIDIA open kernel modules").for_each(|(before, _)| note(Said::NeedsOpen(named(before))));
    each("is not supported by open nvidia.ko").for_each(|(before, _)| note(Said::NotForOpen(named(before))));
    for (before, after) in each("supported through the NVIDIA ") {
        if let Some((branch, _)) = after.split_once(".xx Legacy") {
            note(Said::Legacy { gpu: named(before), branch: branch.to_owned() });
        }
    }
    // "… is not supported by the NVIDIA 555.42.02 driver release"
    each("installed in this system is not supported by the").for_each(|(before, _)| note(Said::Unknown(named(before))));
    for (_, after) in each("the client has the version ") {
        let version = |text: &str| text.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect::<String>();
        let client = version(after).trim_end_matches('.').to_owned();
        let module = after.split_once("this kernel module has the version ").map(|(_, rest)| version(rest));
        let module = module.unwrap_or_default().trim_end_matches('.').to_owned();
        note(Said::Mismatch { client, module });
    }
    let first_word = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
    each("probe routine was not called for ").for_each(|(_, after)| note(Said::NotProbed(first_word(after))));
    each("probe routine failed for ").for_each(|(_, after)| note(Said::ProbeFailed(first_word(after))));
    for (before, after) in each(" is already bound to ") {
        let by = first_word(after).trim_end_matches('.').to_owned();
        last_address(before).into_iter().for_each(|gpu| note(Said::Held { gpu, by: by.clone() }));
    }
    each("RmInitAdapter failed!")
        .for_each(|(before, _)| note(Said::InitFailed(last_address(before).unwrap_or_default())));
    each("fallen off the bus").for_each(|(before, _)| note(Said::OffTheBus(last_address(before).unwrap_or_default())));
    for (_, after) in each("BAR") {
        // "BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)"
        if let Some((bar, rest)) = after.split_once(" is 0M @ 0x0 (PCI:")
            && bar.len() == 1
        {
            note(Said::NoRoom(rest.split(')').next().unwrap_or_default().to_owned()));
        }
    }
}

/// The longest message, in bytes: the known ones have about two hundred.
const SENTENCE: usize = 400;

fn before(text: &str, at: usize) -> &str {
    let from = (at.saturating_sub(SENTENCE)..=at).find(|from| text.is_char_boundary(*from)).unwrap_or(at);
    &text[from..at]
}

fn after(text: &str, at: usize) -> &str {
    let end = text.len().min(at + SENTENCE);
    let to = (at..=end).rev().find(|to| text.is_char_boundary(*to)).unwrap_or(at);
    &text[at..to]
}

/// The GPU that a message names: "The NVIDIA GeForce GT 710 GPU installed in this system is …", "The NVIDIA GPU 0000:01:00.0
/// (PCI ID: 10de:2331) installed …".
fn named(before: &str) -> LoggedGpu {
    let from = before.rfind("The NVIDIA ").map_or(before, |at| &before[at + "The NVIDIA ".len()..]);
    let name = from.split(" installed in this system").next().unwrap_or(from);
    name.trim_end_matches(" GPU").trim_start_matches("GPU ").trim().to_owned().into()
}

/// The last bus address of a text, `0000:01:00.0`.
fn last_address(before: &str) -> Option<String> {
    // Not further back than the same message.
    before.split(' ').rev().take(24).find_map(address)
}

/// A word as a bus address, `0000:01:00.0`, if it is one: `01:00.0` and `0000:01:00` are, `10de:2331` is not.
fn address(word: &str) -> Option<String> {
    let word = word.trim_start_matches("(PCI:").trim_matches(|c: char| !c.is_ascii_hexdigit());
    let (rest, function) = word.split_once('.').unwrap_or((word, "0"));
    let parts: Vec<_> = rest.split(':').collect();
    let hexadecimal = |s: &&str| (1..=8).contains(&s.len()) && s.chars().all(|c| c.is_ascii_hexdigit());
    let is_address = match parts.as_slice() {
        [_, _, _] => true,
        [bus, device] => bus.len() == 2 && device.len() == 2 && word.contains('.'),
        _ => false,
    };
    if !is_address || !parts.iter().all(hexadecimal) || !hexadecimal(&function) {
        return None;
    }
    let domain = if parts.len() == 2 { "0000:" } else { "" };
    Some(format!("{domain}{rest}.{function}").to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_read_across_lines() {
        let log = "\
[    0.000000] Linux version 6.1.0-1-amd64 (old boot)
[   10.000000] NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.
[    0.000000] Linux version 6.1.0-2-amd64
[    5.100000] NVRM: The NVIDIA GPU 0000:02:00.0 (PCI ID: 10de:2c38)
[    5.100001] NVRM: installed in this system requires use of the NVIDIA open kernel modules.
[    6.000000] NVRM: The NVIDIA GeForce GT 710 GPU installed in this system is
[    6.000001] NVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please
[    7.000000] NVRM: API mismatch: the client has the version 560.35.03, but
[    7.000001] NVRM: this kernel module has the version 550.90.07.  Please
[    8.000000] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x63:0x56:1689)
[    9.000000] NVRM: BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)
[   10.000000] Loading of module with unavailable key is rejected
[   10.500000] nvidia-uvm: uvm_pmm_gpu.c:3176 devmem_alloc_pagemap[pid:9] request_free_mem_region() err -34
[   11.000000] NVRM: The NVIDIA probe routine was not called for 2 device(s).
[   12.000000] NVRM: Xid (PCI:0000:cb:00): 13, pid=9, name=python, Graphics Exception: ESR 0x57c730
[   13.000000] NVRM: Xid (PCI:0000:cb:00): 13, pid=10, name=python, Graphics Exception: ESR 0x57c730
";
        let gpu = || LoggedGpu::from("0000:02:00.0 (PCI ID: 10de:2c38)".to_owned());
        assert_eq!(gpu().address(), Some("0000:02:00.0"));
        let xid = |gpu: &str, number, text: &str| Said::Xid { gpu: gpu.into(), number, text: text.into() };
        assert_eq!(
            parse(log),
            [
                Said::Refused("Loading of module with unavailable key is rejected".into()),
                Said::NoHmm(
                    "nvidia-uvm: uvm_pmm_gpu.c:3176 devmem_alloc_pagemap[pid:9] request_free_mem_region() err -34"
                        .into()
                ),
                xid("0000:cb:00.0", 13, "Graphics Exception: ESR 0x57c730"),
                Said::NeedsOpen(gpu()),
                Said::Legacy { gpu: "GeForce GT 710".to_owned().into(), branch: "470".into() },
                Said::Mismatch { client: "560.35.03".into(), module: "550.90.07".into() },
                Said::NotProbed("2".into()),
                Said::InitFailed("0000:01:00.0".into()),
                Said::NoRoom("0000:01:00.0".into()),
            ]
        );
    }

    #[test]
    fn what_hardware_and_other_drivers_do_is_read() {
        let log = "\
[    3.100000] NVRM: GPU 0000:01:00.0 is already bound to NovaCore.
[    3.200000] NVRM: GPU 0000:02:00.0 is already bound to vfio-pci.
[    4.000000] NVRM: The NVIDIA GPU 0000:b3:00.0
[    4.000001] NVRM: (PCI ID: 10de:26b5) installed in this system has
[    4.000002] NVRM: fallen off the bus and is not responding to commands.
[    4.100000] NVRM: The NVIDIA probe routine failed for 1 device(s).
[    5.000000] NVRM: GPU6 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 9 heartbeat 7
[    6.000000] NVRM: GPU6 _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP
[    7.000000] NVRM _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting gsp
[    8.000000] nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 27 sourcetrack timeout
[    8.000001] nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Data {0x00000001, 0x00000002}
[    8.100000] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 crumbstore
[    9.000000] nvidia: version magic '6.8.0-64-generic SMP mod_unload ' should be '6.8.0-71-generic SMP mod_unload '
";
        let held = |gpu: &str, by: &str| Said::Held { gpu: gpu.into(), by: by.into() };
        assert_eq!(
            parse(log),
            [
                Said::FirmwareHangs("GPU6".into()),
                Said::FirmwareHangs(String::new()),
                Said::SwitchFault {
                    switch: "0000:c3:00.0".into(),
                    number: 24007,
                    text: "Link 27 sourcetrack timeout".into()
                },
                Said::Unfit(
                    "nvidia: version magic '6.8.0-64-generic SMP mod_unload ' should be '6.8.0-71-generic SMP mod_unload '"
                        .into()
                ),
                Said::ProbeFailed("1".into()),
                held("0000:01:00.0", "NovaCore"),
                held("0000:02:00.0", "vfio-pci"),
                Said::OffTheBus("0000:b3:00.0".into()),
            ]
        );
    }

    #[test]
    fn addresses_are_those_of_the_bus() {
        for (word, want) in [
            ("0000:B3:00.0", Some("0000:b3:00.0")),
            ("(PCI:0000:01:00):", Some("0000:01:00.0")),
            ("01:00.0:", Some("0000:01:00.0")),
            ("10101:00:00.0", Some("10101:00:00.0")),
            ("10de:2331)", None),
            ("GPU", None),
        ] {
            assert_eq!(address(word).as_deref(), want, "{word}");
        }
        let gpu = LoggedGpu::from("GeForce GT 710".to_owned());
        assert_eq!((gpu.address(), gpu.to_string().as_str()), (None, "GeForce GT 710"));
    }

    #[test]
    fn only_bus_addresses_are_taken_for_gpus() {
        let log = "NVRM: Xid (PCI:0000:cb:00 GPU-I:05): 13, pid=9\nLinux version 6.8\nNVRM: Xid (PCI:0; reboot): 79, x\n\
                   NVRM: Xid (PCI:$(reboot)): 79\nNVRM: Xid (PCI:0000:cb:00): 70000, x\nNVRM: Xid (PCI:0000:cb:00): -1\n";
        let all: Vec<_> = xids(log).into_iter().map(|logged| (logged.gpu, logged.number)).collect();
        assert_eq!(all, [("0000:cb:00.0".to_owned(), 13)]);
        let log = "x: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 27\nx: SXid (PCI:$(reboot)): 24007, Fatal, y\n";
        assert_eq!((sxids(log).len(), xids(log).len()), (1, 0));
    }

    #[test]
    fn an_xid_may_be_copied_without_its_prefix() {
        let log = "Xid (PCI:0000:65:00): 79, pid=1, GPU has fallen off the bus.\nkernel: Xid (0000:66:00): 48, x\n\
                   Xid 13 happens, and Xid (PCI:$(reboot)): 31\n";
        let all: Vec<_> = xids(log).into_iter().map(|logged| (logged.gpu, logged.number)).collect();
        assert_eq!(all, [("0000:65:00.0".to_owned(), 79), ("0000:66:00.0".to_owned(), 48)]);
    }

    #[test]
    fn a_storm_is_read_in_a_moment() {
        let lines = (0..15_000)
            .map(|n| format!("NVRM: Xid (PCI:0000:17:00): 13, Graphics Exception: ESR {n:#x} BAR the NVIDIA supported through the NVIDIA \n"));
        let log: String = lines.collect();
        let began = std::time::Instant::now();
        assert_eq!(parse(&log).len(), 1);
        // A second in a debug build. Searching the whole log for each message takes twelve seconds in a release build.
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }

    #[test]
    fn a_message_begins_with_its_mark_after_any_prefix() {
        let xid = "NVRM: Xid (PCI:0000:17:00): 79, pid=1, name=a[1]: , GPU has fallen off the bus.";
        for before in [
            "",
            "[   12.345678] ",
            "[   12.345678] [    T7] ",
            "[   12.345678][    C0] ",
            "<6>[   12.345678] ",
            "kern  :err   : [   12.345678] ",
            "[Fri Aug 30 11:43:09 2024] ",
            "Nov 29 10:00:00 host kernel: ",
            "Nov 29 10:00:00 host kernel: [   12.345678] ",
            "2026-11-29T10:00:00.123456+01:00 host.example kernel: ",
            "2026-11-29T10:00:00,123456+01:00 ",
            "[   12.345678] host kernel: ",
            "Mar 21 21:42:01 kernel: ",
        ] {
            assert_eq!(parse(&format!("{before}{xid}\n")).len(), 2, "{before}");
            let switch = "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, x";
            assert_eq!(parse(&format!("{before}{switch}\n")).len(), 1, "{before}");
            let refused = "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7";
            assert_eq!(parse(&format!("{before}{refused}\n")), [Said::Refused(refused.into())], "{before}");
        }
    }

    /// Programs and files may have any name, with line breaks.
    #[test]
    fn what_a_program_is_called_is_no_message() {
        let real = "[    0.000000] Linux version 6.1.0-2-amd64\n[    5.000000] NVRM: Xid (PCI:0000:2a:00): 48, DBE\n";
        let xid = "NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.";
        let switch = "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, x";
        let crash = "[4242]: segfault at 0 ip 0000000000001139 sp 00007ffd error 4 in";
        let mut forged = vec![
            format!("tmpfs: Unknown parameter 'x kernel: {xid}'"),
            format!("traps: a[4242] trap invalid opcode ip:1 sp:2 error:0 in {xid}[1000+2000]"),
            format!(
                "NVRM: a[4242] bad frame in rt_sigreturn frame:1 ip:2 sp:3 orax:f in fallen off the bus[1000+2000]"
            ),
            format!("overlayfs: failed to resolve 'Loading of unsigned module is rejected': -2"),
        ];
        for name in [
            "a",
            "NVRM:",
            "NVRM: ",
            "NVRM:\\x1b\\x1b",
            "kernel: NVRM: ",
            "nvidia-nvswitch",
            "Linux version 6",
            "nvidia: ",
        ] {
            for file in [
                xid,
                switch,
                "fallen off the bus",
                "Heartbeat timed out",
                "Linux version 6.1.0",
                "Loading of unsigned module is rejected",
                "nvidia: version magic ",
                "request_free_mem_region() err",
            ] {
                forged.push(format!("{name}{crash} {file}[55d000+1000] likely on CPU 3"));
                // As dmesg writes a line break, and as programs do that read /proc/kmsg.
                forged.push(format!("{name}{crash} a\n               {file}\n               b[55d000+1000]"));
                forged.push(format!(
                    "{name}{crash} a\n               [    9.999999] {file}\n               b[55d000+1000]"
                ));
                forged.push(format!("{name}{crash} a\n{file}\nb[55d000+1000]"));
                forged.push(format!("{name}{crash} a\n[    9.123456] {file}\n[    9.123456] b[55d000+1000]"));
            }
        }
        for lines in forged {
            let log = format!("{real}[    9.123456] {lines}\n[   10.000000] NVRM: Xid (PCI:0000:2a:00): 94, x\n");
            assert_eq!(parse(&log), parse(&(real.to_owned() + "NVRM: Xid (PCI:0000:2a:00): 94, x")), "{log}");
        }
        let by_a_program =
            format!("Nov 29 10:00:00 host me: {xid}\n2026-11-29T10:00:00.123456+00:00 host me[7]: {xid}");
        assert_eq!(parse(&by_a_program), []);
    }

    #[test]
    fn any_text_is_read() {
        for text in
            ["", "NVRM:", "NVRM: Xid (", "NVRM: Xid (PCI:0): ", "NVRM: BAR", "Linux version", "\u{1f4a5}NVRM: BAR1 is"]
        {
            parse(text);
        }
        for number in 0..200 {
            let log = format!("NVRM: Xid (0000:03:00): {number}, Channel 00000001");
            assert_eq!(
                parse(&log),
                [Said::Xid { gpu: "0000:03:00.0".into(), number, text: "Channel 00000001".into() }]
            );
        }
    }
}
