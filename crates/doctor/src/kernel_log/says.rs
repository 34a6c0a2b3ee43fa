//! What NVIDIA's driver says in one message of the kernel's log, and how its messages are told from
//! those that only quote it.

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

/// How many places of a line are looked at for an error.
const MAX_PLACES: usize = 8;

/// The bytes between the brackets of an Xid.
const MAX_PLACE: usize = 64;

/// Bytes before the number of a process: its name has up to 15, and dmesg writes four letters for
/// some of them.
const MAX_PROCESS_NAME: usize = 60;

/// What the driver says in a message. The kernel's reports of crashes begin with the name of a
/// program, which anybody chooses, and name a file.
pub(crate) fn of_driver(message: &str) -> Option<&str> {
    let message = without_device(message);
    let says = message
        .strip_prefix("NVRM")
        .filter(|rest| rest.starts_with([':', ' ']))?;
    let says = says.trim_start_matches(':').trim();
    // This is longer than a program's name.
    (xid(says).is_some() || !is_of_program(message)).then_some(says)
}

/// A message without the device that the kernel names before it: `nvidia 0000:17:00.0: `. A
/// program's name is shorter.
fn without_device(message: &str) -> &str {
    let device = message
        .strip_prefix("nvidia ")
        .and_then(|text| text.split_once(": "));
    device
        .filter(|(address, _)| is_of_bus(address))
        .map_or(message, |(_, rest)| rest)
}

/// Whether a message is one of NVIDIA's drivers, to all appearances.
pub(crate) fn is_drivers(message: &str) -> bool {
    of_driver(message).is_some() || message.starts_with("nvidia") && !is_of_program(message)
}

/// Whether a message begins with the name and the number of a process: `python3[4242]: segfault at
/// 0 ip … in libcuda.so[…]`, `python3[4242] bad frame in …`.
pub(crate) fn is_of_program(message: &str) -> bool {
    message
        .match_indices('[')
        .take_while(|(at, _)| *at <= MAX_PROCESS_NAME)
        .any(|(at, _)| {
            let number = &message[at + 1..];
            let rest = number.trim_start_matches(|c: char| c.is_ascii_digit());
            rest.len() < number.len() && (rest.starts_with("]:") || rest.starts_with("] "))
        })
}

/// Where a line has an error of a GPU or an NVSwitch in full, after anything.
pub(crate) fn error_in(line: &str) -> Option<usize> {
    if line.contains("): ") {
        let xid = places(line, "Xid (")
            .find(|at| is_begin_of_word(line, *at) && xid(&line[*at..]).is_some());
        if let Some(at) =
            xid.or_else(|| places(line, ": SXid (PCI:").find(|at| is_fatal(&line[*at..])))
        {
            return Some(at);
        }
    }
    let at = line.find("NVRM")?;
    if is_odd_xid(line[at..].trim_start_matches("NVRM: ")) {
        return Some(at);
    }
    ERRORS_IN_WORDS
        .iter()
        .chain(&HANGS)
        .find_map(|sign| line[at..].find(sign))
        .map(|behind| at + behind)
}

fn is_fatal(line: &str) -> bool {
    sxid(line).is_some_and(|logged| logged.is_fatal)
}

/// Whether this is an Xid, to all appearances, in a form that is not known.
pub(crate) fn is_odd_xid(says: &str) -> bool {
    let of = says
        .strip_prefix("Xid")
        .and_then(|rest| rest.trim_start().strip_prefix('('));
    of.is_some_and(|of| of.starts_with("PCI:") || of.starts_with("GPU-")) && xid(says).is_none()
}

/// Errors that the driver also tells in words.
const ERRORS_IN_WORDS: [&str; 2] = ["fallen off the bus", "RmInitAdapter failed!"];

fn places<'a>(line: &'a str, mark: &'static str) -> impl Iterator<Item = usize> + 'a {
    line.match_indices(mark).take(MAX_PLACES).map(|(at, _)| at)
}

fn is_begin_of_word(line: &str, at: usize) -> bool {
    !line[..at].ends_with(char::is_alphanumeric)
}

/// Where an Xid begins on a line. The error of an NVSwitch, `SXid (`, is none.
pub(crate) fn bare_xid(line: &str) -> Option<usize> {
    line.match_indices("Xid (")
        .map(|(at, _)| at)
        .find(|at| is_begin_of_word(line, *at))
}

/// `Xid (PCI:0000:cb:00): 13, pid=…, Graphics Exception …`; older drivers leave `PCI:` and the
/// domain out. With MIG, the GPU instance is behind the address: `(PCI:0000:cb:00 GPU-I:05)`. The
/// whole is longer than a program's name: `NVRM: Xid (1:1)` is none.
pub(crate) fn xid(says: &str) -> Option<LoggedXid> {
    let rest = says.strip_prefix("Xid (")?;
    let (gpu, rest) =
        rest.split_at_checked(rest.bytes().take(MAX_PLACE).position(|b| b == b')')?)?;
    let rest = rest.strip_prefix("): ")?;
    let (gpu, instance) = gpu.split_once(' ').unwrap_or((gpu, "GPU-"));
    let gpu = gpu.strip_prefix("PCI:").unwrap_or(gpu);
    if !is_of_bus(gpu) || !instance.starts_with("GPU-") {
        return None;
    }
    let (number, text) = rest.split_once(',')?;
    // A process's number and name only tell one line from the next, and are private.
    let text = text
        .split(',')
        .filter(|part| {
            !["pid=", "name="]
                .iter()
                .any(|private| part.trim_start().starts_with(private))
        })
        .collect::<Vec<_>>()
        .join(",")
        .trim()
        .to_owned();
    // The function is always 0, and often left out.
    let gpu = if gpu.contains('.') {
        gpu.to_owned()
    } else {
        format!("{gpu}.0")
    };
    Some(LoggedXid {
        gpu,
        number: number.parse().ok()?,
        text,
    })
}

/// An Xid that somebody pasted, perhaps without what follows its number.
pub(crate) fn pasted_xid(says: &str) -> Option<LoggedXid> {
    xid(says).or_else(|| xid(&format!("{},", says.trim_end())))
}

/// Fatal errors of NVSwitches; others need no action.
pub(crate) fn switch(message: &str) -> Option<LoggedSxid> {
    let rest = message.strip_prefix("nvidia-nvswitch")?;
    let rest = rest.strip_prefix(": nvidia-nvswitch").unwrap_or(rest);
    // This is longer than a program's name.
    let (name, _) = rest.split_once(": SXid (PCI:")?;
    name.parse::<u16>().ok()?;
    sxid(message).filter(|logged| logged.is_fatal)
}

/// `nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 27 …`; the lines with an error's
/// data have neither word.
pub(crate) fn sxid(line: &str) -> Option<LoggedSxid> {
    let (_, rest) = line.split_once(": SXid (PCI:")?;
    let (switch, rest) = rest
        .split_once("): ")
        .filter(|(switch, _)| is_of_bus(switch))?;
    let (number, rest) = rest.split_once(", ")?;
    let is_fatal = rest.starts_with("Fatal, ");
    let text = rest
        .strip_prefix("Fatal, ")
        .or_else(|| rest.strip_prefix("Non-fatal, "))?;
    Some(LoggedSxid {
        switch: switch.to_owned(),
        number: number.parse().ok()?,
        is_fatal,
        text: text.trim().to_owned(),
    })
}

/// `GPU6 _kgspIsHeartbeatTimedOut: Heartbeat timed out, …`, `_kgspBootGspRm: unexpected WPR2
/// already up, …`.
pub(crate) fn firmware(says: &str) -> bool {
    HANGS.iter().any(|sign| says.contains(sign))
}

const HANGS: [&str; 3] = [
    "Heartbeat timed out",
    "* GSP Timeout *",
    "unexpected WPR2 already up",
];

/// Whether a text is a bus address as drivers write it: `0000:01:00.0`, `0000:01:00`, `01:00`,
/// `0001:00`. It becomes part of commands.
fn is_of_bus(text: &str) -> bool {
    let (place, function) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = place.rsplit(':');
    let (device, bus, domain) = (parts.next(), parts.next(), parts.next());
    is_hexadecimal(function, &[1])
        && device.is_some_and(|device| is_hexadecimal(device, &[2]))
        && match domain {
            Some(domain) => {
                bus.is_some_and(|bus| is_hexadecimal(bus, &[2]))
                    && is_hexadecimal(domain, &[4, 5, 6, 7, 8])
            }
            None => bus.is_some_and(|bus| is_hexadecimal(bus, &[2, 4])),
        }
        && parts.next().is_none()
}

/// Whether a text is a hexadecimal number of so many digits.
fn is_hexadecimal(text: &str, digits: &[usize]) -> bool {
    digits.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}
