//! The forms in which programs write the kernel's messages: what stands before a message, and when
//! and by whom it was logged.

use memchr::{memchr, memchr_iter};

/// A line of a log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Line<'a> {
    /// How far it is indented, in bytes.
    pub(crate) indent: usize,
    pub(crate) origin: Origin,
    /// The time since the boot, in seconds; none where only a date is given, or the time since the
    /// line before.
    pub(crate) uptime: Option<f64>,
    /// Whether that is given in microseconds, so that two messages hardly have the same.
    pub(crate) is_exact: bool,
    /// The message, without what was written before it.
    pub(crate) message: &'a str,
}

/// Who wrote a line, as far as its form tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Kernel,
    /// Another program, to the same log.
    Other,
    /// Nothing known is before the message: there is no such thing, or it is of a form that is not
    /// known.
    Bare,
}

/// The bytes of a line that are read. The kernel writes no longer ones.
const MAX_LINE: usize = 4096;

/// The bytes before a message in which its time, or the name of who wrote it, ends.
const MAX_STAMP: usize = 64;

/// Words before the time of a date: `Fri 30 Aug 2024 11:43:09`.
const MAX_DATE_WORDS: usize = 4;

/// The highest number that the kernel's own messages have as priority: eight levels of the facility 0. Others are of programs.
const MAX_PRIORITY: u32 = 7;

/// Facilities in the words of `dmesg -x` and busybox.
const FACILITIES: [&str; 21] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
    "security",
];

/// Levels in the same words.
const LEVELS: [&str; 11] = [
    "emerg", "panic", "alert", "crit", "err", "error", "warn", "warning", "notice", "info", "debug",
];

impl<'a> Line<'a> {
    /// Reads a line.
    pub(crate) fn of(text: &'a str) -> Self {
        let text = cut(text, MAX_LINE);
        let rest = text.trim_start();
        let bare = Line {
            indent: text.len() - rest.len(),
            origin: Origin::Bare,
            uptime: None,
            is_exact: false,
            message: rest,
        };
        if let Some((priority, after)) = priority(rest) {
            if priority > MAX_PRIORITY {
                return Line {
                    origin: Origin::Other,
                    message: after,
                    ..bare
                };
            }
            return Line {
                origin: Origin::Kernel,
                message: after,
                ..bare
            }
            .dated();
        }
        if let Some((facility, after)) = facility_and_level(rest) {
            let origin = if facility == "kern" {
                Origin::Kernel
            } else {
                Origin::Other
            };
            return Line {
                origin,
                message: after,
                ..bare
            }
            .dated();
        }
        bare.record().unwrap_or_else(|| bare.dated())
    }

    /// A record of /dev/kmsg: `3,1234,12345678,-;NVRM: …`.
    fn record(self) -> Option<Self> {
        if !self.message.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let (head, message) = self.message.split_at_checked(find(self.message, b';')?)?;
        let mut fields = head.split(',');
        let priority: u32 = fields.next()?.parse().ok()?;
        fields.next()?.parse::<u64>().ok()?;
        let microseconds: u64 = fields.next()?.parse().ok()?;
        fields.next()?;
        let origin = if priority > MAX_PRIORITY {
            Origin::Other
        } else {
            Origin::Kernel
        };
        let uptime = Some(microseconds as f64 / 1e6);
        // It has no line breaks, so its time tells of no other line.
        Some(Self {
            origin,
            uptime,
            is_exact: false,
            message: &message[1..],
            ..self
        })
    }

    /// Without the times before the message, and the name of who wrote it.
    fn dated(self) -> Self {
        if self.origin == Origin::Other {
            return self;
        }
        let stamped = self.after_stamps();
        if stamped.origin == Origin::Kernel && stamped.message.len() < self.message.len() {
            // `journalctl -o short-monotonic` has a host behind its time.
            return match after_host(stamped.message) {
                Some(message) => Self { message, ..stamped }.after_stamps(),
                None => stamped,
            };
        }
        let (origin, message) = of_syslog(self.message)
            .or_else(|| of_date(self.message))
            .unwrap_or_else(|| {
                let kernels = after_host(self.message);
                kernels.map_or((self.origin, self.message), |message| {
                    (Origin::Kernel, message)
                })
            });
        if origin != Origin::Kernel {
            return Self {
                origin,
                message,
                ..self
            };
        }
        let message = priority(message).map_or(message, |(_, message)| message);
        Self {
            origin,
            message,
            ..self
        }
        .after_stamps()
    }

    /// Without times and threads in brackets: `[   12.345678] [    T7] `, `[Fri Aug 30 11:43:09
    /// 2024] `.
    fn after_stamps(mut self) -> Self {
        while let Some((stamp, rest)) = bracket(self.message) {
            if let Some(uptime) = uptime(stamp) {
                // A second one may be a user's.
                if self.uptime.is_none() {
                    (self.uptime, self.is_exact) = (Some(uptime), is_exact(stamp));
                }
            } else if !is_time(stamp) && !is_thread(stamp) {
                break;
            }
            self.origin = Origin::Kernel;
            self.message = rest.strip_prefix(':').unwrap_or(rest).trim_start();
        }
        self
    }
}

/// The beginning of a text, up to so many bytes.
fn cut(text: &str, most: usize) -> &str {
    (most.saturating_sub(3)..=most)
        .rev()
        .find_map(|end| text.get(..end))
        .unwrap_or(text)
}

/// The bytes of a text in which stamps are.
fn beginning(text: &str) -> &[u8] {
    &text.as_bytes()[..text.len().min(MAX_STAMP)]
}

/// Where a byte of ASCII is near the beginning of a text.
fn find(text: &str, byte: u8) -> Option<usize> {
    memchr(byte, beginning(text))
}

/// The first word of a text, and what follows it.
fn word(text: &str) -> Option<(&str, &str)> {
    let (word, rest) = text.split_at_checked(find(text, b' ')?)?;
    Some((word, rest.trim_start()))
}

/// The number in `<6>`, and what follows.
fn priority(text: &str) -> Option<(u32, &str)> {
    let (number, rest) = text.strip_prefix('<')?.split_once('>')?;
    Some((number.parse().ok()?, rest))
}

/// The facility in `kern  :err   : `, or in `10.5.0.2: kern:     err: ` as `talosctl dmesg` writes,
/// and what follows.
fn facility_and_level(text: &str) -> Option<(&str, &str)> {
    named_facility(text).or_else(|| {
        let (host, rest) = word(text)?;
        named_facility(rest).filter(|_| host.strip_suffix(':').is_some_and(is_host))
    })
}

fn named_facility(text: &str) -> Option<(&str, &str)> {
    let (facility, rest) = text.split_at_checked(find(text, b':')?)?;
    let facility = facility.trim_end();
    if !FACILITIES.contains(&facility) {
        return None;
    }
    let (level, rest) = rest[1..].split_at_checked(find(&rest[1..], b':')?)?;
    LEVELS
        .contains(&level.trim())
        .then(|| (facility, rest[1..].trim_start()))
}

/// What is in brackets at the beginning of a text, and what follows them.
fn bracket(text: &str) -> Option<(&str, &str)> {
    if !text.starts_with('[') {
        return None;
    }
    let (stamp, rest) = text.split_at_checked(find(text, b']')?)?;
    Some((&stamp[1..], &rest[1..]))
}

/// The seconds in `   12.345678` and `    5.000000 <    0.000000>`. What follows a plus is the time
/// since the line before.
fn uptime(stamp: &str) -> Option<f64> {
    let seconds = seconds(stamp);
    let is_number =
        seconds.contains('.') && seconds.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if is_number {
        seconds.parse().ok()
    } else {
        None
    }
}

fn seconds(stamp: &str) -> &str {
    stamp
        .split_once('<')
        .map_or(stamp, |(seconds, _)| seconds)
        .trim()
}

fn is_exact(stamp: &str) -> bool {
    seconds(stamp)
        .split_once('.')
        .is_some_and(|(_, part)| part.len() == 6)
}

/// Whether brackets have a time, with the words of any language: `금  8월 30 11:43:09 2024`, `
/// +0.000002`, `<    0.000123>`.
fn is_time(stamp: &str) -> bool {
    stamp.contains([':', '.'])
        && stamp.contains(|c: char| c.is_ascii_digit())
        && stamp
            .chars()
            .all(|c| c.is_alphanumeric() || " .,:+-<>/".contains(c))
}

/// Whether brackets have the number of a thread or a processor: `    T7`, `    C0`.
fn is_thread(stamp: &str) -> bool {
    let number = stamp.trim_start().strip_prefix(['T', 'C']);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Whose line it is, and its message, in the form of RFC 5424: `1 2024-08-30T11:43:09.123456+02:00
/// host kernel - - - `.
fn of_syslog(text: &str) -> Option<(Origin, &str)> {
    let (date, rest) = word(text.strip_prefix("1 ")?)?;
    let (_, rest) = word(rest).filter(|_| is_whole_date(date))?;
    let (program, rest) = word(rest)?;
    let (_, rest) = word(rest)?;
    let (_, rest) = word(rest)?;
    let message = match rest.strip_prefix('[') {
        Some(elements) => elements.split_once("] ")?.1,
        None => rest.strip_prefix("- ")?,
    };
    let origin = if program == "kernel" {
        Origin::Kernel
    } else {
        Origin::Other
    };
    Some((origin, message.trim_start_matches('\u{feff}').trim_start()))
}

/// Whose line it is, and its message, behind a date: `Aug 30 11:43:09 host kernel: `, `Aug 30
/// 11:43:09 host kern.err kernel: `, `Fri 2024-08-30 11:43:09 CEST host kernel: `. `dmesg
/// --time-format iso` writes the date alone.
fn of_date(text: &str) -> Option<(Origin, &str)> {
    // Most lines have no date, and need not be taken apart.
    let begin = beginning(text);
    let has_clock = memchr_iter(b':', begin).any(|at| at > 0 && begin[at - 1].is_ascii_digit());
    if !has_clock && !begin.first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let (mut rest, mut may_have_zone, mut is_whole) = (text, false, false);
    for count in 0.. {
        let (date, after) = word(rest)?;
        rest = after;
        is_whole = count == 0 && is_whole_date(date);
        if is_whole || is_clock(date) || count == 0 && is_unix_time(date) {
            break;
        }
        if count == MAX_DATE_WORDS || !is_date_word(date) {
            return None;
        }
        may_have_zone |= date.matches('-').count() == 2;
    }
    if let Some((_, after)) = word(rest).filter(|(zone, _)| may_have_zone && is_zone(zone)) {
        rest = after;
    }
    let alone = is_whole.then_some((Origin::Kernel, rest));
    behind_date(rest).or(alone)
}

/// Whose line it is, and its message, behind the date.
fn behind_date(text: &str) -> Option<(Origin, &str)> {
    if let Some(message) = of_kernel(text) {
        return Some((Origin::Kernel, message));
    }
    let (host, mut rest) = word(text).filter(|(host, _)| is_host(host))?;
    if let Some((facility, after)) =
        word(rest).and_then(|(word, after)| Some((busybox_facility(word)?, after)))
    {
        if facility != "kern" {
            return Some((Origin::Other, after));
        }
        rest = after;
    }
    match of_kernel(rest) {
        Some(message) => Some((Origin::Kernel, message)),
        // `host sshd[123]: `, and not `pcieport 0000:00:01.0: `.
        None => {
            let (tag, _) = word(rest)?;
            let is_tag =
                tag.ends_with(':') && tag.starts_with(|c: char| c.is_alphabetic() || c == '(');
            (is_tag && !host.is_empty()).then_some((Origin::Other, rest))
        }
    }
}

/// The message behind `kernel: `, or behind a host and that.
fn after_host(text: &str) -> Option<&str> {
    of_kernel(text).or_else(|| {
        let (host, rest) = word(text)?;
        of_kernel(rest).filter(|_| is_host(host))
    })
}

fn of_kernel(text: &str) -> Option<&str> {
    text.strip_prefix("kernel:")?
        .strip_prefix(' ')
        .map(str::trim_start)
}

/// The facility of `kern.err`.
fn busybox_facility(word: &str) -> Option<&str> {
    let (facility, level) = word.split_once('.')?;
    (FACILITIES.contains(&facility) && LEVELS.contains(&level)).then_some(facility)
}

/// Whether a word can be the name or the address of a host: `node-1.example.com`, `fe80::1%eth0`.
fn is_host(word: &str) -> bool {
    !word.is_empty()
        && !word.ends_with(':')
        && word
            .chars()
            .all(|c| c.is_alphanumeric() || "._-:%".contains(c))
}

/// `2026-11-29T10:00:00.123456+01:00`, `2024-08-30T11:43:09,123456+02:00`.
fn is_whole_date(word: &str) -> bool {
    word.split_once('T').is_some_and(|(date, clock)| {
        date.len() >= 8 && date.bytes().all(|b| b.is_ascii_digit() || b == b'-') && is_clock(clock)
    })
}

/// How many digits a text begins with.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && digits(text) == text.len()
}

/// `11:43`, `11:43:09`, `11:43:09.123456+02:00`, and not the bus address `0000:17:00.0`.
fn is_clock(word: &str) -> bool {
    let Some((hours, rest)) = word.split_once(':') else {
        return false;
    };
    if !(1..=2).contains(&hours.len()) || digits(hours) != hours.len() || digits(rest) != 2 {
        return false;
    }
    let mut rest = &rest[2..];
    if let Some(seconds) = rest
        .strip_prefix(':')
        .filter(|seconds| digits(seconds) == 2)
    {
        rest = &seconds[2..];
    }
    if let Some(part) = rest.strip_prefix(['.', ',']) {
        rest = &part[digits(part)..];
    }
    rest.is_empty()
        || rest == "Z"
        || rest
            .strip_prefix(['+', '-'])
            .is_some_and(|zone| zone.bytes().all(|b| b.is_ascii_digit() || b == b':'))
}

/// `1725010989.123456`, as `journalctl -o short-unix` writes.
fn is_unix_time(word: &str) -> bool {
    word.split_once('.')
        .is_some_and(|(seconds, part)| seconds.len() >= 9 && is_number(seconds) && is_number(part))
}

/// Whether a word can be of a date, in any language: `Nov`, `29`, `8월`, `août`, `ven.`,
/// `2024-08-30`.
fn is_date_word(word: &str) -> bool {
    word.len() <= 16
        && word
            .chars()
            .all(|c| c.is_alphanumeric() || ".,-/".contains(c))
}

/// `CEST`, `ACWST`, `+03`.
fn is_zone(word: &str) -> bool {
    (2..=6).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_uppercase())
        || word
            .strip_prefix(['+', '-'])
            .is_some_and(|zone| zone.bytes().all(|b| b.is_ascii_digit() || b == b':'))
}

/// The lines of a log that have at least so many bytes, with their numbers. A log may have millions
/// of shorter ones.
pub(crate) fn numbered(log: &str, least: usize) -> impl Iterator<Item = (usize, &str)> {
    let (mut from, mut number) = (0, 0);
    std::iter::from_fn(move || {
        while from < log.len() {
            let end = memchr(b'\n', &log.as_bytes()[from..]).map_or(log.len(), |at| from + at);
            let begin = from;
            from = end + 1;
            number += 1;
            if end - begin >= least {
                let line = &log[begin..end];
                return Some((number, line.strip_suffix('\r').unwrap_or(line)));
            }
        }
        None
    })
}
