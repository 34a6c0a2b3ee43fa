//! A kernel's nvidia module and its version: from the module itself, else from a smaller one of the
//! same build, else from DKMS's record. Nothing large is unpacked: a compressed nvidia.ko has tens
//! of megabytes.

use super::elf::{ModuleInfo, module_info};
use super::modprobe::driver_module;
use super::reader::Reader;
use gpusetup_database::compat::ModuleFlavour;
use gpusetup_database::version::DriverVersion;
use gpusetup_system::limits::DECODER_MEMORY;
use gpusetup_text::text::quoted_path;
use liblzma::read::XzDecoder;
use liblzma::stream::Stream;
use object::ReadCache;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where distributions, DKMS and NVIDIA's installer put modules, in depmod's order of preference.
const PLACES: [&str; 11] = [
    "updates/dkms",
    "updates",
    "extra",
    "extra/nvidia",
    "extra/drivers/video/nvidia",
    "weak-updates",
    "weak-updates/nvidia",
    "kernel/drivers/video",
    "kernel/drivers/video/nvidia",
    "kernel/drivers/char",
    "video",
];

/// The most bytes unpacked from a compressed module.
const UNPACKED: u64 = 8 << 20;

/// The version of the nvidia module of the kernel whose modules are in `directory`.
pub(crate) fn version(
    reader: &mut Reader,
    directory: &Path,
    release: &str,
) -> Option<DriverVersion> {
    info(reader, directory, release)?.0
}

/// The flavour of that module, from its licence.
pub(crate) fn flavour(
    reader: &mut Reader,
    directory: &Path,
    release: &str,
) -> Option<ModuleFlavour> {
    match info(reader, directory, release)?.1.as_deref() {
        Some("Dual MIT/GPL") => Some(ModuleFlavour::Open),
        Some("NVIDIA") => Some(ModuleFlavour::Proprietary),
        _ => None,
    }
}

/// Version and licence. None if there is no module. A module whose version cannot be read is
/// recorded.
fn info(
    reader: &mut Reader,
    directory: &Path,
    release: &str,
) -> Option<(Option<DriverVersion>, Option<String>)> {
    let (place, names) = find(reader, directory)?;
    let main = names.iter().find(|n| is_main(n))?;
    // The peer-memory module is the smallest of a build, followed by the display one.
    let small = ["peermem", "drm"]
        .iter()
        .filter_map(|kind| names.iter().find(|n| stem(n).ends_with(kind)));
    let mut license = None;
    for name in std::iter::once(main).chain(small) {
        let Some(info) = read(reader, &place.join(name), name == main) else {
            continue;
        };
        if name == main {
            license = info.license;
        }
        if let Some(version) = info.version.and_then(|v| v.parse().ok()) {
            return Some((Some(version), license));
        }
    }
    let recorded = dkms_version(reader, release);
    if recorded.is_none() {
        let path = place.join(main);
        let why = if main.ends_with(".ko") {
            "names no version"
        } else {
            "is compressed"
        };
        reader.miss(
            format!("the version of the nvidia module of {release}"),
            format_args!("{} {why}", quoted_path(&path)),
        );
    }
    Some((recorded, license))
}

/// The first directory that has the main module, and the names of NVIDIA's modules in it.
fn find(reader: &mut Reader, directory: &Path) -> Option<(PathBuf, Vec<String>)> {
    let mut places: Vec<PathBuf> = PLACES.iter().map(|p| directory.join(p)).collect();
    // Ubuntu's pre-signed modules: kernel/nvidia-580, kernel/nvidia-580-open.
    let signed = reader.names("kernel modules", directory.join("kernel"));
    places.extend(
        signed
            .iter()
            .filter(|n| n.starts_with("nvidia"))
            .map(|n| directory.join("kernel").join(n)),
    );
    places.into_iter().find_map(|place| {
        let mut names = reader.names("kernel modules", &place);
        names.retain(|n| n.starts_with("nvidia") && n.contains(".ko"));
        names.iter().any(|n| is_main(n)).then_some((place, names))
    })
}

fn stem(name: &str) -> &str {
    name.split_once(".ko").map_or(name, |(stem, _)| stem)
}

fn is_main(name: &str) -> bool {
    driver_module(stem(name)).as_deref() == Some("nvidia")
}

fn read(reader: &mut Reader, path: &Path, large: bool) -> Option<ModuleInfo> {
    let what = "a kernel module";
    let name = path.file_name()?.to_string_lossy().into_owned();
    if name.ends_with(".ko") {
        return module_info(&ReadCache::new(reader.open(what, path)?));
    }
    if name.ends_with(".ko.xz") && !large {
        let packed = reader.open(what, path)?;
        let meter = packed.meter();
        let unpacked = meter.of(XzDecoder::new_stream(
            packed,
            Stream::new_stream_decoder(DECODER_MEMORY, 0).ok()?,
        ));
        let mut bytes = Vec::new();
        unpacked.take(UNPACKED).read_to_end(&mut bytes).ok()?;
        return module_info(&*bytes);
    }
    None
}

/// The version that DKMS recorded for this kernel.
fn dkms_version(reader: &mut Reader, release: &str) -> Option<DriverVersion> {
    let what = "DKMS's record of built modules";
    let record = Path::new("/var/lib/dkms");
    for module in reader
        .names(what, record)
        .into_iter()
        .filter(|n| n.starts_with("nvidia") && is_main(n))
    {
        // kernel-<release>-<arch> is a link to <version>/<release>/<arch> of the installed version.
        let start = format!("kernel-{release}-");
        let names = reader.names(what, record.join(&module));
        let link = names.iter().find(|n| n.starts_with(&start));
        let target = link.and_then(|l| reader.system.link_target(record.join(&module).join(l)));
        let version = target
            .as_deref()
            .and_then(|t| t.components().next())
            .map(|c| c.as_os_str().to_string_lossy());
        if let Some(version) = version.and_then(|v| v.parse().ok()) {
            return Some(version);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_system::System;

    #[test]
    fn the_main_module_is_told_from_its_company() {
        for name in [
            "nvidia.ko",
            "nvidia-current.ko.xz",
            "nvidia-tesla-470.ko",
            "nvidia-current-open.ko.zst",
        ] {
            assert!(is_main(name), "{name}");
        }
        for name in [
            "nvidia-drm.ko",
            "nvidia-current-uvm.ko",
            "nvidia-peermem.ko.xz",
            "nvidia-fs.ko",
            "nvidiafb.ko",
        ] {
            assert!(!is_main(name), "{name}");
        }
    }

    #[test]
    fn a_packed_module_is_told_by_dkms_or_not_at_all() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        let modules = Path::new("/lib/modules/6.8.0-45-generic");
        system
            .make_directories(modules.join("updates/dkms"), 0o755)
            .expect("made");
        assert_eq!(
            version(&mut Reader::new(&system), modules, "6.8.0-45-generic"),
            None
        );
        system
            .write(modules.join("updates/dkms/nvidia.ko.zst"), b"packed", 0o644)
            .expect("written");
        let mut reader = Reader::new(&system);
        assert_eq!(version(&mut reader, modules, "6.8.0-45-generic"), None);
        assert_eq!(reader.missed.len(), 1);
        system
            .make_directories("/var/lib/dkms/nvidia", 0o755)
            .expect("made");
        let link = "/var/lib/dkms/nvidia/kernel-6.8.0-45-generic-x86_64";
        system
            .link(link, Path::new("580.95.05/6.8.0-45-generic/x86_64"))
            .expect("linked");
        let mut reader = Reader::new(&system);
        let found = version(&mut reader, modules, "6.8.0-45-generic");
        assert_eq!(found.map(|v| v.to_string()).as_deref(), Some("580.95.05"));
        assert!(reader.missed.is_empty());
    }

    #[test]
    fn modules_say_their_version_and_licence() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        let modules = Path::new("/lib/modules/6.1.0-18-amd64");
        system
            .make_directories(modules.join("updates/dkms"), 0o755)
            .expect("made");
        let source = "const char i[] __attribute__((section(\".modinfo\"))) = \"license=Dual MIT/GPL\\0version=535.261.03\";";
        let (c, o) = (dir.path().join("m.c"), dir.path().join("m.o"));
        std::fs::write(&c, source).expect("written");
        let made = std::process::Command::new("gcc")
            .arg("-c")
            .arg(&c)
            .arg("-o")
            .arg(&o)
            .status();
        assert!(made.expect("gcc is there").success());
        let module = std::fs::read(&o).expect("compiled");
        system
            .write(
                modules.join("updates/dkms/nvidia-current.ko"),
                &module,
                0o644,
            )
            .expect("written");
        let mut reader = Reader::new(&system);
        let found = version(&mut reader, modules, "6.1.0-18-amd64").map(|v| v.to_string());
        assert_eq!(found.as_deref(), Some("535.261.03"));
        assert_eq!(
            flavour(&mut reader, modules, "6.1.0-18-amd64"),
            Some(ModuleFlavour::Open)
        );
        assert!(reader.missed.is_empty(), "{:?}", reader.missed);
        // The version of a compressed module comes from the small one of its build.
        let mut packed = Vec::new();
        liblzma::read::XzEncoder::new(&*module, 6)
            .read_to_end(&mut packed)
            .expect("packed");
        system
            .remove(modules.join("updates/dkms/nvidia-current.ko"))
            .expect("removed");
        for name in ["nvidia-current.ko.xz", "nvidia-current-peermem.ko.xz"] {
            system
                .write(modules.join("updates/dkms").join(name), &packed, 0o644)
                .expect("written");
        }
        let found = version(&mut reader, modules, "6.1.0-18-amd64").map(|v| v.to_string());
        assert_eq!(found.as_deref(), Some("535.261.03"));
    }
}
