//! The PCI bus as sysfs shows it. This is the source to trust: `lspci` reads the same files.

use super::pci::{Function, NVIDIA};
use super::reader::Reader;
use std::path::Path;

const DEVICES: &str = "/sys/bus/pci/devices";

/// NVIDIA's functions on the bus. None where no bus is to be seen.
pub fn functions(reader: &mut Reader) -> Option<Vec<Function>> {
    if !reader.system.is_directory(DEVICES) {
        return None;
    }
    let addresses = reader.names("the PCI bus", DEVICES);
    Some(addresses.into_iter().filter_map(|address| function(reader, address)).collect())
}

fn function(reader: &mut Reader, address: String) -> Option<Function> {
    let directory = reader.resolved(Path::new(DEVICES).join(&address));
    let what = format!("the PCI device {address}");
    let mut number = |file: &str| {
        let text = reader.word(&what, directory.join(file))?;
        let number = hexadecimal(&text);
        if number.is_none() {
            reader.miss(&what, format_args!("{file} is {text:?}, no hexadecimal number"));
        }
        number
    };
    // Most devices are nobody's business here: the vendor is asked first.
    if number("vendor")? != u32::from(NVIDIA) {
        return None;
    }
    let (device, class) = (u16::try_from(number("device")?).ok()?, u16::try_from(number("class")? >> 8).ok()?);
    let subsystem = match (number("subsystem_vendor"), number("subsystem_device")) {
        (Some(0), Some(0)) => None,
        (Some(vendor), Some(device)) => Some(format!("{vendor:04x}:{device:04x}")),
        _ => None,
    };
    // A virtual function belongs to a GPU that is on the list itself; a guest that was given one sees no such link.
    if reader.system.link_target(directory.join("physfn")).is_some() {
        return None;
    }
    let driver = reader.system.link_target(directory.join("driver"));
    let driver = driver.and_then(|d| Some(d.file_name()?.to_string_lossy().into_owned()));
    Some(Function { address, vendor: NVIDIA, device, class, subsystem, driver })
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::System;

    fn device(root: &Path, address: &str, files: &[(&str, &str)]) {
        let directory = root.join("sys/bus/pci/devices").join(address);
        std::fs::create_dir_all(&directory).expect("made");
        for (name, text) in files {
            std::fs::write(directory.join(name), text).expect("written");
        }
    }

    #[test]
    fn virtual_functions_and_nonsense_are_left_out() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let a100 = [("vendor", "0x10de\n"), ("device", "0x20b2\n"), ("class", "0x030200\n")];
        device(dir.path(), "0000:17:00.0", &a100);
        device(dir.path(), "0000:17:00.4", &a100);
        std::os::unix::fs::symlink("../0000:17:00.0", dir.path().join("sys/bus/pci/devices/0000:17:00.4/physfn"))
            .expect("linked");
        device(dir.path(), "0000:00:02.0", &[("vendor", "0x8086\n"), ("device", "junk"), ("class", "0x030000\n")]);
        device(dir.path(), "0000:18:00.0", &[("vendor", "0x10de\n"), ("device", "junk\n"), ("class", "0x030000\n")]);
        let system = System::at(dir.path());
        let mut reader = Reader::new(&system);
        let found = functions(&mut reader).expect("a bus");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].device, found[0].class, &*found[0].address), (0x20b2, 0x0302, "0000:17:00.0"));
        assert_eq!(reader.missed.len(), 1, "{:?}", reader.missed);
    }

    #[test]
    fn no_bus_is_not_an_empty_bus() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        assert_eq!(functions(&mut Reader::new(&system)), None);
    }
}
