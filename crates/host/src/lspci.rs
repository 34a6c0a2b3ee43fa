//! The output of `lspci`, `lspci -n`, `lspci -nn`, `lspci -nnk` and `lspci -mm`, in whichever form
//! people paste it, and as often. Surrounding lines of other tools are ignored. Plain `lspci` prints
//! the id of a device only if it has no name for it (`Device 15f9`). Names do not identify a board,
//! so such lines are returned and not guessed at.

use super::pci::{Function, NVIDIA};

/// The result of parsing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    /// Functions with all their ids.
    pub(crate) functions: Vec<Function>,
    /// Lines about a display controller of NVIDIA's that lack the ids.
    pub(crate) without_numbers: Vec<String>,
    /// Whether the text shows drivers and modules (`-k`); if so, a function without a driver has
    /// none.
    pub(crate) shows_drivers: bool,
}

/// Parses `lspci` output.
pub(crate) fn parse(text: &str) -> Listing {
    let mut listing = Listing::default();
    // The function that the following details belong to.
    let mut open = None;
    for line in text.lines() {
        let trimmed = line.trim();
        listing.shows_drivers |= ["Kernel driver in use:", "Kernel modules:"]
            .iter()
            .any(|k| trimmed.starts_with(k));
        if let Some((address, rest)) = device_line(trimmed) {
            open = None;
            if let Some(function) = function(&address, rest) {
                open = Some(listing.add(function));
            } else if is_nvidias_display(rest) {
                listing.without_numbers.push(trimmed.to_owned());
            }
            continue;
        }
        let Some(last) = open.and_then(|at: usize| listing.functions.get_mut(at)) else {
            continue;
        };
        if let Some(subsystem) = trimmed.strip_prefix("Subsystem:") {
            last.subsystem = brackets(subsystem)
                .filter_map(pair)
                .map(|(v, d)| format!("{v:04x}:{d:04x}"))
                .last();
        } else if let Some(driver) = trimmed.strip_prefix("Kernel driver in use:") {
            last.driver = Some(driver.trim().to_owned()).filter(|d| !d.is_empty());
        }
    }
    listing.without_numbers.dedup();
    listing
}

impl Listing {
    /// Adds a function, and returns its place. One that is there already is the same function in
    /// another list of the same host.
    fn add(&mut self, function: Function) -> usize {
        let known = self.functions.iter().position(|known| {
            (&known.address, known.device) == (&function.address, function.device)
        });
        let at = known.unwrap_or(self.functions.len());
        match known {
            Some(known) => {
                let known = &mut self.functions[known];
                known.subsystem = known.subsystem.take().or(function.subsystem);
            }
            None => self.functions.push(function),
        }
        at
    }
}

/// How many devices a text names. A list without NVIDIA's devices may be empty, but is not another
/// text.
pub fn devices_named(text: &str) -> usize {
    text.lines()
        .filter(|line| device_line(line.trim()).is_some())
        .count()
}

/// `3b:00.0 …` or `0000:3b:00.0 …`: the address with its domain, and the rest.
fn device_line(line: &str) -> Option<(String, &str)> {
    let (address, rest) = line.split_once(' ')?;
    Some((bus_address(&address.to_ascii_lowercase())?, rest))
}

/// A bus address as sysfs has it: lspci leaves out the domain where it is 0000. None for another
/// text.
pub fn bus_address(text: &str) -> Option<String> {
    let (place, function) = text.split_once('.')?;
    let parts: Vec<_> = place.split(':').collect();
    let mut numbers = parts.iter().chain([&function]);
    if function.len() != 1
        || !numbers.all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_hexdigit()))
    {
        return None;
    }
    match parts.iter().map(|p| p.len()).collect::<Vec<_>>()[..] {
        [2, 2] => Some(format!("0000:{text}")),
        // Azure and some servers have domains of five or more digits.
        [domain, 2, 2] if domain >= 4 => Some(text.to_owned()),
        _ => None,
    }
}

/// An NVIDIA function with its class and id: `3D controller [0302]: NVIDIA Corporation GP100GL
/// [Tesla P100] [10de:15f9]` with `-nn`, `0302: 10de:15f9` with `-n`, `3D controller: NVIDIA
/// Corporation Device 15f9` without either.
fn function(address: &str, rest: &str) -> Option<Function> {
    let (class, device, subsystem) = if rest.starts_with('"') {
        quoted(rest)?
    } else {
        let (class, device) = numbers_and_names(rest)
            .or_else(|| numbers(rest))
            .or_else(|| nameless(rest))?;
        (class, device, None)
    };
    Some(Function {
        address: address.to_owned(),
        vendor: NVIDIA,
        device,
        class,
        subsystem,
        driver: None,
    })
}

/// What `-mm` prints: class, vendor, device and the board's vendor and device, each in quotes, by
/// name, by number (`-mmn`), or with the number in brackets (`-mmnn`).
fn quoted(rest: &str) -> Option<(u16, u16, Option<String>)> {
    let mut fields = rest.split('"').skip(1).step_by(2);
    let class = fields.next()?;
    let named = CLASSES.iter().find(|(name, _)| *name == class);
    let class = number_in(class).or(named.map(|(_, number)| *number))?;
    let vendor = fields.next()?;
    if number_in(vendor) != Some(NVIDIA) && !is_nvidia(vendor) {
        return None;
    }
    let device = number_in(fields.next()?)?;
    let board = fields
        .next()
        .and_then(number_in)
        .zip(fields.next().and_then(number_in));
    Some((
        class,
        device,
        board.map(|(v, d)| format!("{v:04x}:{d:04x}")),
    ))
}

/// The number of a field: `2204`, `GA102 [GeForce RTX 3090] [2204]`, `Device 2204`.
fn number_in(field: &str) -> Option<u16> {
    hexadecimal(field)
        .or_else(|| hexadecimal(brackets(field).last()?))
        .or_else(|| hexadecimal(field.strip_prefix("Device ")?))
}

/// Whether this is NVIDIA's name, which lists before 2012 spell with a small n.
fn is_nvidia(vendor: &str) -> bool {
    vendor.to_ascii_uppercase().starts_with("NVIDIA")
}

fn numbers_and_names(rest: &str) -> Option<(u16, u16)> {
    let (class, _) = rest.split_once("]:")?;
    let class = hexadecimal(class.rsplit_once('[')?.1)?;
    // Marketing names are in brackets too; the last pair of numbers counts.
    nvidias(class, brackets(rest).filter_map(pair).last()?)
}

fn numbers(rest: &str) -> Option<(u16, u16)> {
    let mut words = rest.trim_start_matches("Class ").split_whitespace();
    let class = hexadecimal(words.next()?.strip_suffix(':')?)?;
    nvidias(class, pair(words.next()?)?)
}

fn nameless(rest: &str) -> Option<(u16, u16)> {
    let (class, name) = rest.split_once(": ")?;
    let (_, class) = CLASSES.iter().find(|(name, _)| *name == class)?;
    let (vendor, device) = name.split_once(" Corporation Device ")?;
    let device = device
        .split_whitespace()
        .next()
        .filter(|_| is_nvidia(vendor))?;
    Some((*class, hexadecimal(device)?))
}

fn nvidias(class: u16, (vendor, device): (u16, u16)) -> Option<(u16, u16)> {
    (vendor == NVIDIA).then_some((class, device))
}

/// lspci's names for the classes of GPUs and NVSwitches.
const CLASSES: [(&str, u16); 4] = [
    ("VGA compatible controller", 0x0300),
    ("3D controller", 0x0302),
    ("Display controller", 0x0380),
    ("Bridge", 0x0680),
];

fn is_nvidias_display(rest: &str) -> bool {
    let mut displays = CLASSES.iter().filter(|(_, class)| class >> 8 == 0x03);
    let rest = rest.trim_start_matches('"');
    rest.to_ascii_uppercase().contains("NVIDIA") && displays.any(|(name, _)| rest.starts_with(name))
}

/// The texts in square brackets.
fn brackets(text: &str) -> impl Iterator<Item = &str> {
    text.split('[')
        .skip(1)
        .filter_map(|part| part.split_once(']').map(|(inside, _)| inside))
}

/// `10de:15f9` as numbers.
fn pair(text: &str) -> Option<(u16, u16)> {
    let (vendor, device) = text.split_once(':')?;
    Some((hexadecimal(vendor)?, hexadecimal(device)?))
}

/// Four hexadecimal digits.
fn hexadecimal(text: &str) -> Option<u16> {
    u16::from_str_radix(text, 16)
        .ok()
        .filter(|_| text.len() == 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_subsystem_and_driver_are_read() {
        let text = "\
01:00.0 VGA compatible controller [0300]: NVIDIA Corporation TU117M [GeForce GTX 1650 Mobile / Max-Q] [10de:1f91] (rev a1)
        Subsystem: Hewlett-Packard Company Device [103c:85fc]
        Kernel driver in use: nvidia
        Kernel modules: nouveau, nvidia_drm, nvidia
00:1f.3 SMBus [0c05]: Intel Corporation 82801I (ICH9 Family) SMBus Controller [8086:2930] (rev 02)
        Kernel driver in use: i801_smbus
000c:00:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev a1)
10101:00:00.0 Bridge [0680]: NVIDIA Corporation Device [10de:1af1] (rev a1)";
        let listing = parse(text);
        let seen: Vec<_> = listing
            .functions
            .iter()
            .map(|f| (&*f.address, f.device, f.class, f.driver.as_deref()))
            .collect();
        assert_eq!(
            seen,
            [
                ("0000:01:00.0", 0x1f91, 0x0300, Some("nvidia")),
                ("000c:00:00.0", 0x20b2, 0x0302, None),
                ("10101:00:00.0", 0x1af1, 0x0680, None),
            ]
        );
        assert_eq!(listing.functions[0].subsystem.as_deref(), Some("103c:85fc"));
        assert_eq!(listing.without_numbers, [""; 0]);
        assert!(listing.shows_drivers);
    }

    #[test]
    fn details_may_stand_without_indentation_and_text_without_sense() {
        let text = "$ lspci -nnk | grep -A3 NVIDIA\n\
            3e:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [GeForce RTX 3080] [10de:2206] (rev a1)\n\
            Subsystem: Gigabyte Technology Co., Ltd Device [1458:404b]\nKernel driver in use: vfio-pci\n--\n";
        let listing = parse(text);
        assert_eq!(listing.functions.len(), 1);
        assert_eq!(listing.functions[0].driver.as_deref(), Some("vfio-pci"));
    }

    #[test]
    fn numbers_alone_and_devices_without_a_name_are_read() {
        let text = "\
00:02.0 0300: 8086:3e92
02:00.0 0302: 10de:15f9 (rev a1)
0003:01:00.0 3D controller: NVIDIA Corporation Device 15f9 (rev a1)
04:00.0 Bridge: NVIDIA Corporation Device 22a3 (rev a1)
05:00.0 Audio device: NVIDIA Corporation Device 10f1 (rev a1)";
        let listing = parse(text);
        let seen: Vec<_> = listing
            .functions
            .iter()
            .map(|f| (&*f.address, f.device, f.class))
            .collect();
        let want = [
            ("0000:02:00.0", 0x15f9, 0x0302),
            ("0003:01:00.0", 0x15f9, 0x0302),
            ("0000:04:00.0", 0x22a3, 0x0680),
        ];
        assert_eq!(seen, want);
        assert_eq!(listing.without_numbers, [""; 0]);
    }

    #[test]
    fn lines_for_programs_are_read() {
        let text = "\
01:00.0 \"VGA compatible controller [0300]\" \"NVIDIA Corporation [10de]\" \"GA102 [GeForce RTX 3090] [2204]\" -ra1 \"Gigabyte [1458]\" \"Device [403b]\"
02:00.0 \"0302\" \"10de\" \"2330\" -ra1 \"10de\" \"16c1\"
03:00.0 \"3D controller\" \"NVIDIA Corporation\" \"Device 15f9\" -ra1 \"NVIDIA Corporation\" \"Device 116b\"
04:00.0 \"Ethernet controller [0200]\" \"Intel Corporation [8086]\" \"Device [1572]\"
05:00.0 \"3D controller\" \"NVIDIA Corporation\" \"GH100 [H100 SXM5 80GB]\" -ra1";
        let listing = parse(text);
        let seen: Vec<_> = listing
            .functions
            .iter()
            .map(|f| (&*f.address, f.device, f.class, f.subsystem.as_deref()))
            .collect();
        assert_eq!(
            seen,
            [
                ("0000:01:00.0", 0x2204, 0x0300, Some("1458:403b")),
                ("0000:02:00.0", 0x2330, 0x0302, Some("10de:16c1")),
                ("0000:03:00.0", 0x15f9, 0x0302, None),
            ]
        );
        assert_eq!(listing.without_numbers.len(), 1);
    }

    #[test]
    fn two_lists_of_one_host_have_its_gpus_once() {
        let plain = "3b:00.0 3D controller [0302]: nVidia Corporation Device [10de:15f9] (rev a1)\n\
            3c:00.0 3D controller: nVidia Corporation Device 15f9 (rev a1)\n";
        let text = format!("{plain}--\n0000:{plain}\tKernel driver in use: nvidia\n");
        let listing = parse(&text);
        let seen: Vec<_> = listing
            .functions
            .iter()
            .map(|f| (&*f.address, f.driver.as_deref()))
            .collect();
        assert_eq!(
            seen,
            [("0000:3b:00.0", None), ("0000:3c:00.0", Some("nvidia"))]
        );
    }

    #[test]
    fn a_gpu_without_numbers_is_handed_back() {
        let line = "1b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)";
        let listing = parse(line);
        assert_eq!(
            (listing.functions.len(), listing.without_numbers),
            (0, vec![line.to_owned()])
        );
        assert!(!listing.shows_drivers);
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "(?s)([0-9a-f:. \\[\\]\n\u{e9}]|NVIDIA|10de:|3D controller){0,60}") {
            parse(&text);
        }
    }
}
