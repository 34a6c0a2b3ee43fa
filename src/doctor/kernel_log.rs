//! The kernel's messages about NVIDIA's driver and GPUs since the last boot. They are read first: a broken driver hangs its
//! clients, and has usually logged the reason before.

use super::Answer;
use crate::system::limits::MAX_LOG;
use crate::system::{Ended, Program, System, lossy_text};
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
    let text = lossy_text(bytes);
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

/// What the driver says on a line.
fn nvrm(line: &str) -> Option<&str> {
    line.split_once("NVRM").map(|(_, rest)| rest.trim_start_matches(':').trim())
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
    // The kernel's first line in every boot.
    let last_boot = log.rfind("Linux version ").unwrap_or(0);
    let log = log.get(last_boot..).unwrap_or(log);
    let (mut said, mut known) = (Vec::new(), HashSet::new());
    let mut note = |one: Said| {
        // In a storm of one Xid each line has another text.
        let told = match &one {
            Said::Xid { gpu, number, .. } => Said::Xid { gpu: gpu.clone(), number: *number, text: String::new() },
            other => other.clone(),
        };
        if known.len() < MAX_SAID && known.insert(told) {
            said.push(one);
        }
    };
    // NVIDIA breaks sentences into lines, so the lines are joined.
    let mut text = String::new();
    for line in log.lines() {
        if let Some(line) = nvrm(line) {
            text += line;
            text.push(' ');
            xid(line).into_iter().chain(firmware(line)).for_each(&mut note);
        } else if line.contains("request_free_mem_region() err") {
            note(Said::NoHmm(message(line)));
        }
        switch(line).into_iter().for_each(&mut note);
        if REFUSALS.iter().any(|refusal| line.contains(refusal)) {
            note(Said::Refused(message(line)));
        }
        if UNFIT.iter().any(|unfit| line.contains(unfit)) {
            note(Said::Unfit(message(line)));
        }
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    sentences(&text).into_iter().for_each(note);
    said
}

/// A line without the prefix before the message.
fn message(line: &str) -> String {
    let from = line.find("] ").filter(|_| line.starts_with('[')).map_or(0, |at| at + 2);
    line.get(from..).unwrap_or(line).trim().to_owned()
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

fn sentences(text: &str) -> Vec<Said> {
    let mut said = Vec::new();
    let each = |needle: &'static str| {
        text.match_indices(needle).map(|(at, _)| (before(text, at), after(text, at + needle.len())))
    };
    said.extend(
        each("requires use of the NVIDIA open kernel modules").map(|(before, _)| Said::NeedsOpen(named(before))),
    );
    said.extend(each("is not supported by open nvidia.ko").map(|(before, _)| Said::NotForOpen(named(before))));
    for (before, after) in each("supported through the NVIDIA ") {
        if let Some((branch, _)) = after.split_once(".xx Legacy") {
            said.push(Said::Legacy { gpu: named(before), branch: branch.to_owned() });
        }
    }
    // "… is not supported by the NVIDIA 555.42.02 driver release"
    said.extend(
        each("installed in this system is not supported by the").map(|(before, _)| Said::Unknown(named(before))),
    );
    for (_, after) in each("the client has the version ") {
        let version = |text: &str| text.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect::<String>();
        let client = version(after).trim_end_matches('.').to_owned();
        let module = after.split_once("this kernel module has the version ").map(|(_, rest)| version(rest));
        let module = module.unwrap_or_default().trim_end_matches('.').to_owned();
        said.push(Said::Mismatch { client, module });
    }
    let first_word = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
    said.extend(each("probe routine was not called for ").map(|(_, after)| Said::NotProbed(first_word(after))));
    said.extend(each("probe routine failed for ").map(|(_, after)| Said::ProbeFailed(first_word(after))));
    for (before, after) in each(" is already bound to ") {
        let by = first_word(after).trim_end_matches('.').to_owned();
        said.extend(last_address(before).map(|gpu| Said::Held { gpu, by }));
    }
    said.extend(
        each("RmInitAdapter failed!").map(|(before, _)| Said::InitFailed(last_address(before).unwrap_or_default())),
    );
    said.extend(
        each("fallen off the bus").map(|(before, _)| Said::OffTheBus(last_address(before).unwrap_or_default())),
    );
    for (_, after) in each("BAR") {
        // "BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)"
        if let Some((bar, rest)) = after.split_once(" is 0M @ 0x0 (PCI:")
            && bar.len() == 1
        {
            said.push(Said::NoRoom(rest.split(')').next().unwrap_or_default().to_owned()));
        }
    }
    said
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
