//! The machine itself: its architecture, and whether it has its own kernel.

use super::architecture::{self, UNKNOWN_ARCHITECTURE};
use super::reader::Reader;
use super::{Board, Machine, MachineKind, elf};
use gpusetup_system::cores;
use gpusetup_system::limits::MAX_RECORD;
use object::ReadCache;
use std::path::Path;

/// Detects the machine.
pub(crate) fn machine(reader: &mut Reader) -> Machine {
    let live = reader.system.is_live();
    let (kind, inside) = kind(reader);
    let arch = match live {
        true => Some(
            rustix::system::uname()
                .machine()
                .to_string_lossy()
                .into_owned(),
        ),
        false => offline_arch(reader),
    };
    let arch = arch.unwrap_or_else(|| {
        let why = "the tree has no program, loader or dpkg record that shows it";
        reader.miss("the machine's architecture", why);
        UNKNOWN_ARCHITECTURE.to_owned()
    });
    let boot_id = live
        .then(|| reader.word("the boot's id", "/proc/sys/kernel/random/boot_id"))
        .flatten();
    // What is built for a tree is built by this machine.
    let cores = u32::try_from(cores()).ok();
    let board = (kind == MachineKind::Jetson).then(|| board(reader));
    Machine {
        arch,
        kind,
        inside,
        is_offline_root: !live,
        boot_id,
        cores,
        portable: is_portable(reader),
        board,
    }
}

/// The architecture of a tree's programs.
fn offline_arch(reader: &mut Reader) -> Option<String> {
    let what = "the machine's architecture";
    for program in ["/bin/sh", "/usr/bin/env", "/sbin/ldconfig"] {
        let file = reader
            .is_file(program)
            .then(|| reader.open(what, program))
            .flatten();
        if let Some(arch) = file.and_then(|f| elf::machine(&ReadCache::new(f))) {
            return Some(arch.to_owned());
        }
    }
    // The loader's name contains the architecture.
    let loaders = [
        ("/lib64/ld-linux-x86-64.so.2", "x86_64"),
        ("/lib/ld-linux-aarch64.so.1", "aarch64"),
        ("/lib64/ld64.so.2", "ppc64le"),
    ];
    let by_loader = loaders
        .into_iter()
        .find(|(path, _)| reader.system.exists(path) || reader.system.link_target(path).is_some())
        .map(|(_, arch)| arch.to_owned());
    by_loader
        .or_else(|| {
            recorded_arch(
                &reader
                    .head(what, "/var/lib/dpkg/status", MAX_RECORD)
                    .unwrap_or_default(),
            )
        })
        .or_else(|| eabi(&reader.text(what, TEGRA_RELEASE).unwrap_or_default()))
}

/// The architecture of dpkg itself in its record, which may have packages of others, too.
fn recorded_arch(status: &str) -> Option<String> {
    let arch = status
        .split("\n\n")
        .find(|entry| entry.lines().any(|line| line == "Package: dpkg"))?
        .lines()
        .find_map(|line| line.strip_prefix("Architecture: "))?;
    Some(architecture::machine(arch).to_owned())
}

fn kind(reader: &mut Reader) -> (MachineKind, Option<String>) {
    if let Some(manager) = container(reader) {
        return (MachineKind::Container, Some(manager));
    }
    let release = reader
        .word("the kernel's release", "/proc/sys/kernel/osrelease")
        .unwrap_or_default();
    if is_wsl(&release)
        || !reader.system.is_live() && OF_WSL.iter().any(|path| reader.system.exists(path))
    {
        return (MachineKind::Wsl2, Some("wsl".to_owned()));
    }
    if is_jetson(reader) {
        return (MachineKind::Jetson, None);
    }
    match hypervisor(reader) {
        Some(hypervisor) => (MachineKind::Virtual, Some(hypervisor)),
        None => (MachineKind::Physical, None),
    }
}

/// What shows the root filesystem of a WSL2 distribution that does not run: its settings for WSL,
/// as distributions ship them, and the folder on which WSL mounts the libraries of Windows.
const OF_WSL: [&str; 2] = ["/etc/wsl-distribution.conf", "/usr/lib/wsl/lib"];

fn is_wsl(release: &str) -> bool {
    release.to_ascii_lowercase().contains("microsoft")
}

/// The manager of the container that this is, if it is one.
fn container(reader: &mut Reader) -> Option<String> {
    // systemd records which one. WSL also calls itself a container; it is recognised by its kernel.
    let recorded = reader
        .word("the container manager", "/run/systemd/container")
        .filter(|m| m != "wsl");
    if recorded.is_some() {
        return recorded;
    }
    if reader.system.exists("/run/.containerenv") {
        return Some("podman".to_owned());
    }
    if reader.system.exists("/.dockerenv") {
        return Some("docker".to_owned());
    }
    // Only root may read this, and its absence proves nothing, so a refusal is not recorded.
    let environment = reader.system.read("/proc/1/environ").unwrap_or_default();
    let manager = environment
        .split(|b| *b == 0)
        .find_map(|v| v.strip_prefix(b"container="));
    manager
        .map(|m| String::from_utf8_lossy(m).into_owned())
        .filter(|m| !m.is_empty() && m != "wsl")
}

/// Chassis types of SMBIOS (DSP0134, 7.4.1): portable, laptop, notebook, hand-held, sub-notebook,
/// tablet, convertible, detachable.
const PORTABLE: [&str; 8] = ["8", "9", "10", "11", "14", "30", "31", "32"];

fn is_portable(reader: &mut Reader) -> bool {
    reader
        .word("the chassis", "/sys/class/dmi/id/chassis_type")
        .is_some_and(|kind| PORTABLE.contains(&kind.as_str()))
}

/// Where Jetson Linux notes its release.
const TEGRA_RELEASE: &str = "/etc/nv_tegra_release";

fn board(reader: &mut Reader) -> Board {
    let model = reader.word("the board's model", "/proc/device-tree/model");
    let model = model
        .map(|model| model.trim_matches('\0').to_owned())
        .filter(|model| !model.is_empty());
    let noted = reader
        .text("the release of Jetson Linux", TEGRA_RELEASE)
        .unwrap_or_default();
    Board {
        model,
        l4t: l4t(&noted),
    }
}

/// The release in `# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, …`: `36.4.3`.
fn l4t(noted: &str) -> Option<String> {
    let line = noted.lines().next()?.strip_prefix("# R")?;
    let (major, rest) = line.split_once(' ')?;
    let revision = rest.split_once("REVISION: ")?.1.split(',').next()?.trim();
    let version = format!("{major}.{revision}");
    let mut numbers = version.split('.');
    numbers.all(|n| n.parse::<u16>().is_ok()).then_some(version)
}

/// The architecture in the same line, `EABI: aarch64`.
fn eabi(noted: &str) -> Option<String> {
    let name = noted
        .lines()
        .next()?
        .split(", ")
        .find_map(|part| part.strip_prefix("EABI: "))?;
    (name == "aarch64").then(|| name.to_owned())
}

fn is_jetson(reader: &mut Reader) -> bool {
    if reader.system.exists(TEGRA_RELEASE) {
        return true;
    }
    // A list of names, each followed by a zero byte.
    let names = reader
        .text("the device tree", "/proc/device-tree/compatible")
        .unwrap_or_default();
    names.split('\0').any(|n| n.starts_with("nvidia,tegra"))
}

/// The hypervisor that this machine runs under.
fn hypervisor(reader: &mut Reader) -> Option<String> {
    let what = "the hypervisor";
    let [vendor, product] = ["sys_vendor", "product_name"].map(|file| {
        let file = Path::new("/sys/class/dmi/id").join(file);
        reader.word(what, file).unwrap_or_default()
    });
    if let Some(name) = by_firmware(&vendor, &product) {
        return Some(name.to_owned());
    }
    if let Some(name) = reader.word(what, "/sys/hypervisor/type") {
        return Some(name);
    }
    // One processor's paragraph is enough, and on a large host the kernel needs long to produce the
    // whole file.
    let processors = reader.head(what, "/proc/cpuinfo", 4096).unwrap_or_default();
    let flags = processors.lines().find_map(|l| l.strip_prefix("flags"));
    flags
        .is_some_and(|f| f.split_whitespace().any(|f| f == "hypervisor"))
        .then(|| "unknown hypervisor".to_owned())
}

fn by_firmware(vendor: &str, product: &str) -> Option<&'static str> {
    let is = |text: &str| vendor.contains(text) || product.contains(text);
    match () {
        // Bare-metal instances have the same vendor; only the product differs.
        () if vendor == "Amazon EC2" => (!product.contains("metal")).then_some("amazon"),
        () if vendor == "Microsoft Corporation" => {
            (product == "Virtual Machine").then_some("hyper-v")
        }
        () if product == "Google Compute Engine" => Some("google"),
        () if is("QEMU") || is("KVM") => Some("kvm"),
        () if is("VMware") => Some("vmware"),
        () if product == "VirtualBox" => Some("virtualbox"),
        () if vendor == "Xen" => Some("xen"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_metal_at_a_cloud_is_no_virtual_machine() {
        assert_eq!(by_firmware("Amazon EC2", "p5.48xlarge"), Some("amazon"));
        assert_eq!(by_firmware("Amazon EC2", "g4dn.metal"), None);
        assert_eq!(
            by_firmware("Microsoft Corporation", "Virtual Machine"),
            Some("hyper-v")
        );
        assert_eq!(by_firmware("Microsoft Corporation", "Surface Book 3"), None);
        assert_eq!(
            by_firmware("QEMU", "Standard PC (Q35 + ICH9, 2009)"),
            Some("kvm")
        );
        assert_eq!(by_firmware("Supermicro", "SYS-821GE-TNHR"), None);
    }

    #[test]
    fn dpkgs_record_has_the_architecture() {
        let status = "Package: base-files\nArchitecture: all\n\nPackage: libc6\nArchitecture: i386\n\n\
                      Package: dpkg\nStatus: install ok installed\nArchitecture: arm64\nVersion: 1.22.6\n";
        assert_eq!(recorded_arch(status).as_deref(), Some("aarch64"));
        assert_eq!(recorded_arch("Package: libc6\nArchitecture: i386\n"), None);
    }

    #[test]
    fn wsl_is_told_by_its_kernel() {
        assert!(is_wsl("5.15.153.1-microsoft-standard-WSL2"));
        assert!(!is_wsl("6.8.0-1015-azure"));
    }

    #[test]
    fn jetson_linux_notes_its_release() {
        let noted = "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64, DATE: Wed Jan  8\n";
        assert_eq!(l4t(noted).as_deref(), Some("36.4.3"));
        assert_eq!(
            (
                eabi(noted).as_deref(),
                eabi("# R36 (release), REVISION: 4.3")
            ),
            (Some("aarch64"), None)
        );
        assert_eq!(
            l4t("# R32 (release), REVISION: 7.1, GCID: 29689809\n").as_deref(),
            Some("32.7.1")
        );
        for other in [
            "",
            "# R36",
            "# Rxx (release), REVISION: 4.3, ",
            "# R36 (release), REVISION: ../4, ",
        ] {
            assert_eq!(l4t(other), None, "{other:?}");
        }
    }

    #[test]
    fn this_machine_has_an_architecture() {
        let system = gpusetup_system::System::live();
        let mut reader = Reader::new(&system);
        assert_eq!(machine(&mut reader).arch, std::env::consts::ARCH);
        assert_eq!(
            offline_arch(&mut reader).as_deref(),
            Some(std::env::consts::ARCH)
        );
    }
}
