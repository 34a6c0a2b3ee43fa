//! The files that are read on a host, one of them with any bytes: there are always facts, and never
//! a panic.
#![no_main]

use gpusetup::compat::Database;
use gpusetup::host::{GpuSource, ProbeOptions, probe};
use gpusetup::system::System;
use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::LazyLock;

static DATABASE: LazyLock<Database> = LazyLock::new(gpusetup::database::embedded);

const FILES: [&str; 19] = [
    "etc/os-release",
    "etc/ld.so.cache",
    "var/lib/dpkg/status",
    "etc/apt/sources.list",
    "etc/yum.repos.d/x.repo",
    "boot/config-6.1.0",
    "lib/modules/6.1.0/updates/dkms/nvidia.ko",
    "usr/local/cuda-12.8/version.json",
    "usr/local/cuda-12.8/lib64/libcudnn.so.9",
    "usr/local/cuda-12.8/include/cudnn_version.h",
    "var/log/nvidia-installer.log",
    "sys/bus/pci/devices/0000:17:00.0/device",
    "etc/apt/sources.list.d/x.sources",
    "etc/default/grub",
    "boot/grub2/grubenv",
    "proc/modules",
    "proc/cpuinfo",
    "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
    "sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23",
];

fuzz_target!(|input: (u8, Vec<u8>)| {
    let (which, bytes) = input;
    let tree = tempfile::tempdir().expect("a temporary directory");
    let put = |path: &str, bytes: &[u8]| {
        let path = tree.path().join(path);
        std::fs::create_dir_all(path.parent().expect("below the tree")).expect("made");
        std::fs::write(path, bytes).expect("written");
    };
    put("etc/os-release", b"ID=debian\nVERSION_ID=12\n");
    put("lib/modules/6.1.0/modules.builtin", b"");
    put("usr/bin/nvidia-uninstall", b"");
    put("sys/bus/pci/devices/0000:17:00.0/vendor", b"0x10de\n");
    put("sys/bus/pci/devices/0000:17:00.0/class", b"0x030200\n");
    put("var/lib/dkms/mok.pub", b"certificate");
    let which = usize::from(which) % (FILES.len() + 1);
    let gpus = match FILES.get(which) {
        Some(file) => {
            put(file, &bytes);
            put(if file.contains("yum") { "usr/bin/dnf" } else { "usr/bin/apt-get" }, b"");
            GpuSource::Bus
        }
        None => GpuSource::Lspci(String::from_utf8_lossy(&bytes).into_owned()),
    };
    let look = ProbeOptions { prefix: PathBuf::from("/usr/local"), cache: PathBuf::from("/var/cache/gpusetup"), gpus };
    let facts = probe(&System::at(tree.path()), &DATABASE, &look).expect("it has an os-release");
    serde_json::to_string(&facts).expect("facts can be written");
});
