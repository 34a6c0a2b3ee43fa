//! The PCI bus in sysfs. This is the primary source: `lspci` reads the same files.

use super::pci::{Function, NVIDIA};
use super::reader::Reader;
use super::{Gpu, OtherGpu};
use std::path::Path;

const DEVICES: &str = "/sys/bus/pci/devices";

/// NVIDIA's functions on the bus. None if the host shows no bus.
pub(crate) fn functions(reader: &mut Reader) -> Option<Vec<Function>> {
    if !reader.system.is_directory(DEVICES) {
        return None;
    }
    let addresses = reader.names("the PCI bus", DEVICES);
    Some(
        addresses
            .into_iter()
            .filter_map(|address| function(reader, address))
            .collect(),
    )
}

fn function(reader: &mut Reader, address: String) -> Option<Function> {
    let directory = reader.resolved(Path::new(DEVICES).join(&address));
    let what = format!("the PCI device {address}");
    let mut number = |file: &str| {
        let text = reader.word(&what, directory.join(file))?;
        let number = hexadecimal(&text);
        if number.is_none() {
            reader.miss(
                &what,
                format_args!("{file} is {text:?}, not a hexadecimal number"),
            );
        }
        number
    };
    // Most devices do not matter here, so the vendor comes first.
    if number("vendor")? != u32::from(NVIDIA) {
        return None;
    }
    let (device, class) = (
        u16::try_from(number("device")?).ok()?,
        u16::try_from(number("class")? >> 8).ok()?,
    );
    let subsystem = match (number("subsystem_vendor"), number("subsystem_device")) {
        (Some(0), Some(0)) => None,
        (Some(vendor), Some(device)) => Some(format!("{vendor:04x}:{device:04x}")),
        _ => None,
    };
    // A virtual function belongs to a GPU that is listed itself. A guest with a virtual function
    // passed through sees no such link.
    if reader
        .system
        .link_target(directory.join("physfn"))
        .is_some()
    {
        return None;
    }
    let driver = reader.system.link_target(directory.join("driver"));
    let driver = driver.and_then(|d| Some(d.file_name()?.to_string_lossy().into_owned()));
    Some(Function {
        address,
        vendor: NVIDIA,
        device,
        class,
        subsystem,
        driver,
    })
}

/// Display controllers of other vendors. Servers have one for their console, too.
pub(crate) fn of_other_vendors(reader: &mut Reader) -> Vec<OtherGpu> {
    if !reader.system.is_directory(DEVICES) {
        return Vec::new();
    }
    let addresses = reader.names("the PCI bus", DEVICES);
    addresses
        .into_iter()
        .filter_map(|address| of_other_vendor(reader, address))
        .collect()
}

fn of_other_vendor(reader: &Reader, address: String) -> Option<OtherGpu> {
    let directory = reader.resolved(Path::new(DEVICES).join(&address));
    let is_display = number(reader, &directory, "class")? >> 16 == 0x03;
    let vendor = number(reader, &directory, "vendor")?;
    let device = number(reader, &directory, "device")?;
    let bound = reader.system.link_target(directory.join("driver"));
    let bound_to = bound.and_then(|to| Some(to.file_name()?.to_string_lossy().into_owned()));
    let is_other = is_display && vendor != u32::from(NVIDIA);
    is_other.then(|| OtherGpu {
        address,
        pci_id: format!("{vendor:04x}:{device:04x}"),
        bound_to,
    })
}

/// The hexadecimal number in a file of a device.
fn number(reader: &Reader, device: &Path, file: &str) -> Option<u32> {
    let text = reader.system.read_text(device.join(file)).ok().flatten()?;
    hexadecimal(text.trim())
}

/// The addresses of the GPUs that the kernel (5.14 and newer) calls removable: those behind a port
/// that leaves the case.
pub(crate) fn external(reader: &Reader, gpus: &[Gpu]) -> Vec<String> {
    gpus.iter()
        .filter(|gpu| {
            let file = Path::new(DEVICES).join(&gpu.address).join("removable");
            reader
                .system
                .read_text(file)
                .is_ok_and(|text| text.is_some_and(|text| text.trim() == "removable"))
        })
        .map(|gpu| gpu.address.clone())
        .collect()
}

/// The functions that manage NVSwitches that are not on the PCI bus themselves: InfiniBand devices
/// whose vital product data contains this mark. Only root may read that data, and virtual machines
/// may hide it.
pub(crate) fn switch_managers(reader: &Reader, mark: &str) -> Vec<Function> {
    const INFINIBAND: &str = "/sys/class/infiniband";
    let names = reader.system.list(INFINIBAND).unwrap_or_default();
    names
        .into_iter()
        .filter_map(|name| {
            let device = Path::new(INFINIBAND).join(name).join("device");
            let data = reader.system.read(device.join("vpd")).ok()?;
            data.windows(mark.len())
                .any(|part| part == mark.as_bytes())
                .then(|| reader.resolved(device))
        })
        .filter_map(|directory| {
            let address = directory.file_name()?.to_string_lossy().into_owned();
            let vendor = number(reader, &directory, "vendor")?.try_into().ok()?;
            let device = number(reader, &directory, "device")?.try_into().ok()?;
            Some(Function {
                address,
                vendor,
                device,
                class: 0x0207,
                subsystem: None,
                driver: None,
            })
        })
        .collect()
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_system::System;

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
        let a100 = [
            ("vendor", "0x10de\n"),
            ("device", "0x20b2\n"),
            ("class", "0x030200\n"),
        ];
        device(dir.path(), "0000:17:00.0", &a100);
        device(dir.path(), "0000:17:00.4", &a100);
        std::os::unix::fs::symlink(
            "../0000:17:00.0",
            dir.path().join("sys/bus/pci/devices/0000:17:00.4/physfn"),
        )
        .expect("linked");
        device(
            dir.path(),
            "0000:00:02.0",
            &[
                ("vendor", "0x8086\n"),
                ("device", "junk"),
                ("class", "0x030000\n"),
            ],
        );
        device(
            dir.path(),
            "0000:18:00.0",
            &[
                ("vendor", "0x10de\n"),
                ("device", "junk\n"),
                ("class", "0x030000\n"),
            ],
        );
        let system = System::at(dir.path());
        let mut reader = Reader::new(&system);
        let found = functions(&mut reader).expect("a bus");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (found[0].device, found[0].class, &*found[0].address),
            (0x20b2, 0x0302, "0000:17:00.0")
        );
        assert_eq!(reader.missed.len(), 1, "{:?}", reader.missed);
    }

    #[test]
    fn a_laptop_has_two_and_one_may_be_outside() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let display = [
            ("vendor", "0x8086\n"),
            ("device", "0xa7a0\n"),
            ("class", "0x030000\n"),
        ];
        device(dir.path(), "0000:00:02.0", &display);
        device(
            dir.path(),
            "0000:00:1f.0",
            &[
                ("vendor", "0x8086\n"),
                ("device", "0x519d\n"),
                ("class", "0x060100\n"),
            ],
        );
        let inside = [
            ("vendor", "0x10de\n"),
            ("device", "0x28e0\n"),
            ("class", "0x030000\n"),
            ("removable", "fixed\n"),
        ];
        device(dir.path(), "0000:01:00.0", &inside);
        let outside = [
            ("vendor", "0x10de\n"),
            ("device", "0x2684\n"),
            ("class", "0x030000\n"),
            ("removable", "removable\n"),
        ];
        device(dir.path(), "0000:3f:00.0", &outside);
        let system = System::at(dir.path());
        let mut reader = Reader::new(&system);
        let other = OtherGpu {
            address: "0000:00:02.0".into(),
            pci_id: "8086:a7a0".into(),
            bound_to: None,
        };
        assert_eq!(of_other_vendors(&mut reader), [other]);
        let (gpus, _) = super::super::pci::identify(
            functions(&mut reader).expect("a bus"),
            &gpusetup_data::embedded(),
        );
        assert_eq!(external(&reader, &gpus), ["0000:3f:00.0"]);
    }

    #[test]
    fn functions_that_manage_switches_say_so() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for (n, data) in [
            (0, "\x02VPD SMDL=SW_MNG;"),
            (1, "\x02VPD ConnectX-7"),
            (2, ""),
        ] {
            let address = format!("0000:0{n}:00.0");
            device(
                dir.path(),
                &address,
                &[
                    ("vendor", "0x15b3\n"),
                    ("device", "0x1021\n"),
                    ("vpd", data),
                ],
            );
            let class = dir.path().join(format!("sys/class/infiniband/mlx5_{n}"));
            std::fs::create_dir_all(&class).expect("made");
            std::os::unix::fs::symlink(
                format!("/sys/bus/pci/devices/{address}"),
                class.join("device"),
            )
            .expect("linked");
        }
        let system = System::at(dir.path());
        let found = switch_managers(&Reader::new(&system), "SW_MNG");
        let found: Vec<_> = found
            .iter()
            .map(|f| (f.address.as_str(), f.vendor, f.device))
            .collect();
        assert_eq!(found, [("0000:00:00.0", 0x15b3, 0x1021)]);
        assert_eq!(
            switch_managers(&Reader::new(&System::at("/nowhere")), "SW_MNG"),
            []
        );
    }

    #[test]
    fn no_bus_is_not_an_empty_bus() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        assert_eq!(functions(&mut Reader::new(&system)), None);
    }
}
