//! GPUs in the text of `lspci -nn` (with `-k` or `-v` too): what people paste.

use super::gpu::{Function, sort_in};
use super::{Gpu, NvSwitch};
use crate::compat::{Database, PciDevice};

/// The NVIDIA functions in the text. Lines that are none of lspci's are passed over.
pub fn parse(text: &str, database: &Database) -> (Vec<Gpu>, Vec<NvSwitch>) {
    let (mut gpus, mut switches) = (Vec::new(), Vec::new());
    let mut current: Option<Function> = None;
    for line in text.lines() {
        if let Some(next) = head(line) {
            if let Some(done) = current.replace(next) {
                sort_in(done, database, &mut gpus, &mut switches);
            }
        } else if let Some(function) = &mut current {
            detail(line.trim(), function);
        }
    }
    if let Some(done) = current {
        sort_in(done, database, &mut gpus, &mut switches);
    }
    (gpus, switches)
}

/// `17:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev a1)`
fn head(line: &str) -> Option<Function> {
    let (address, rest) = line.trim_end().split_once(' ')?;
    let is_address = |a: &str| {
        let (bus, slot) = a.rsplit_once(':')?;
        let (device, function) = slot.split_once('.')?;
        let hex = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_hexdigit());
        (bus.split(':').all(hex) && hex(device) && hex(function)).then_some(())
    };
    is_address(address)?;
    let class = bracketed(rest).find(|b| b.len() == 4).and_then(|b| u16::from_str_radix(b, 16).ok())?;
    // Names hold brackets too; the id is the last pair of four digits around a colon.
    let (vendor, device) = bracketed(rest).filter_map(ids).last()?;
    let address = if address.matches(':').count() == 1 { format!("0000:{address}") } else { address.to_owned() };
    Some(Function { address, vendor, device: PciDevice(device), subsystem: None, class, bound_to: None })
}

fn detail(line: &str, function: &mut Function) {
    if let Some(text) = line.strip_prefix("Subsystem:") {
        function.subsystem = bracketed(text).filter_map(ids).last().map(|(v, d)| format!("{v:04x}:{d:04x}"));
    }
    if let Some(driver) = line.strip_prefix("Kernel driver in use:") {
        function.bound_to = Some(driver.trim().to_owned()).filter(|d| !d.is_empty());
    }
}

/// What stands in square brackets, innermost.
fn bracketed(text: &str) -> impl Iterator<Item = &str> {
    text.split('[').skip(1).filter_map(|part| part.split_once(']').map(|(inside, _)| inside))
}

fn ids(text: &str) -> Option<(u16, u16)> {
    let (vendor, device) = text.split_once(':')?;
    let hex = |s: &str| if s.len() == 4 { u16::from_str_radix(s, 16).ok() } else { None };
    Some((hex(vendor)?, hex(device)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::database;

    #[test]
    fn a_p100_of_a_power_host_is_named() {
        let text = "0002:01:00.0 3D controller [0302]: NVIDIA Corporation GP100GL [Tesla P100 SXM2 16GB] [10de:15f9] (rev a1)\n\
                    \tSubsystem: NVIDIA Corporation Device [10de:116b]\n\
                    \tKernel driver in use: nouveau\n\tKernel modules: nouveau\n\
                    0003:01:00.0 Ethernet controller [0200]: Broadcom Inc. NetXtreme [14e4:1657] (rev 01)\n";
        let (gpus, switches) = parse(text, &database());
        assert_eq!((gpus.len(), switches.len()), (1, 0));
        let gpu = &gpus[0];
        assert_eq!((gpu.address.as_str(), gpu.pci_id.as_str()), ("0002:01:00.0", "10de:15f9"));
        assert_eq!(gpu.name.as_deref(), Some("Tesla P100-SXM2-16GB"));
        assert_eq!(gpu.compute_capability.map(|c| c.to_string()).as_deref(), Some("6.0"));
        assert_eq!((gpu.bound_to.as_deref(), gpu.subsystem.as_deref()), (Some("nouveau"), Some("10de:116b")));
    }

    #[test]
    fn the_sound_of_a_card_is_no_gpu_and_a_switch_is_one() {
        let text = "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GP106 [GeForce GTX 1060 3GB] [10de:1c02] (rev a1)\n\
                    01:00.1 Audio device [0403]: NVIDIA Corporation GP106 High Definition Audio Controller [10de:10f1] (rev a1)\n\
                    05:00.0 Bridge [0680]: NVIDIA Corporation GH100 [H100 NVSwitch] [10de:22a3] (rev a1)\n\
                    garbage [0300]: [10de:zzzz]\n[[[]:::\n";
        let (gpus, switches) = parse(text, &database());
        assert_eq!(gpus.iter().map(|g| g.address.as_str()).collect::<Vec<_>>(), ["0000:01:00.0"]);
        assert_eq!(switches.iter().map(|s| s.pci_id.as_str()).collect::<Vec<_>>(), ["10de:22a3"]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(?s).{0,200}") {
            parse(&text, &database());
        }
    }
}
