//! Devices on Thunderbolt and USB4, such as cases for external GPUs. Until a device is authorised,
//! what is in it is not on the PCI bus (the kernel's Documentation/admin-guide/thunderbolt.rst).

use super::ThunderboltDevice;
use super::reader::Reader;
use std::path::Path;

const DEVICES: &str = "/sys/bus/thunderbolt/devices";

/// The connected devices, without the host's own routers and the retimers in cables.
pub(crate) fn devices(reader: &mut Reader) -> Vec<ThunderboltDevice> {
    if !reader.system.is_directory(DEVICES) {
        return Vec::new();
    }
    let names = reader.names("the Thunderbolt devices", DEVICES);
    names
        .into_iter()
        .filter(|name| is_device(name))
        .filter_map(|name| device(reader, &name))
        .collect()
}

/// `0-1` and `0-301` are devices, `0-0` is the host's router, `domain0` and `0-0:1.1` are no
/// devices.
fn is_device(name: &str) -> bool {
    name.split_once('-').is_some_and(|(domain, route)| {
        let mut numbers = [domain, route].into_iter();
        route != "0" && numbers.all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_hexdigit()))
    })
}

fn device(reader: &mut Reader, name: &str) -> Option<ThunderboltDevice> {
    let (what, directory) = ("a Thunderbolt device", Path::new(DEVICES).join(name));
    let authorized = reader.word(what, directory.join("authorized"))? != "0";
    let vendor = reader
        .word(what, directory.join("vendor_name"))
        .unwrap_or_default();
    let model = reader
        .word(what, directory.join("device_name"))
        .unwrap_or_default();
    let known = [vendor, model].join(" ");
    let known = known.trim();
    Some(ThunderboltDevice {
        name: if known.is_empty() {
            name.to_owned()
        } else {
            known.to_owned()
        },
        authorized,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_system::System;

    #[test]
    fn a_case_is_a_device_and_the_hosts_router_is_none() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for (name, files) in [
            (
                "0-0",
                &[
                    ("authorized", "1"),
                    ("device_name", "Laptop"),
                    ("vendor_name", "X"),
                ][..],
            ),
            (
                "0-1",
                &[
                    ("authorized", "0"),
                    ("device_name", "Core X"),
                    ("vendor_name", "Razer"),
                ],
            ),
            ("0-301", &[("authorized", "2")]),
            ("0-0:1.1", &[("device_name", "retimer")]),
            ("domain0", &[("security", "user")]),
        ] {
            let directory = dir.path().join("sys/bus/thunderbolt/devices").join(name);
            std::fs::create_dir_all(&directory).expect("made");
            for (file, text) in files {
                std::fs::write(directory.join(file), format!("{text}\n")).expect("written");
            }
        }
        let system = System::at(dir.path());
        let found = devices(&mut Reader::new(&system));
        let found: Vec<_> = found
            .iter()
            .map(|d| (d.name.as_str(), d.authorized))
            .collect();
        assert_eq!(found, [("Razer Core X", false), ("0-301", true)]);
    }
}
