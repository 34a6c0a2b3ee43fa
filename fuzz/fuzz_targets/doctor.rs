//! What doctor looks at beside the facts, one of the files with any bytes, or the kernel's log:
//! every check ends, none breaks off, and whatever is found can be shown. Best run by somebody
//! other than root, who may run nothing inside of a tree.
#![no_main]

use gpusetup::compat::Database;
use gpusetup::doctor::{EvidenceSources, Status, examine, gather};
use gpusetup::host::{Facts, GpuSource, ProbeOptions, probe};
use gpusetup::render;
use gpusetup::system::System;
use libfuzzer_sys::fuzz_target;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

const FILES: [&str; 19] = [
    "etc/modprobe.d/x.conf",
    "etc/default/grub",
    "boot/loader/entries/x.conf",
    "etc/ld.so.conf",
    "etc/profile.d/x.sh",
    "etc/environment",
    "etc/apt/sources.list.d/x.list",
    "etc/apt/sources.list.d/y.sources",
    "usr/share/keyrings/x.gpg",
    "etc/apt/trusted.gpg.d/x.asc",
    "usr/share/apt/default-sequoia.config",
    "etc/docker/daemon.json",
    "etc/containerd/config.toml",
    "etc/cdi/x.yaml",
    "var/run/cdi/x.json",
    "sys/devices/pci0000:00/0000:00:01.0/config",
    "sys/devices/pci0000:00/0000:00:01.0/0000:17:00.0/iommu_group/type",
    "proc/driver/nvidia/params",
    "etc/modprobe.d/nvidia.conf",
];

struct Host {
    tree: tempfile::TempDir,
    database: Database,
    facts: Facts,
}

static HOST: LazyLock<Host> = LazyLock::new(|| {
    let tree = tempfile::tempdir().expect("a temporary directory");
    let at = |path: &str| {
        let path = tree.path().join(path);
        std::fs::create_dir_all(path.parent().expect("below the tree")).expect("made");
        path
    };
    let put = |path: &str, text: &str| std::fs::write(at(path), text).expect("written");
    put("etc/os-release", "ID=debian\nVERSION_ID=13\nNAME=Debian\n");
    put("lib/modules/6.1.0/modules.builtin", "");
    for program in ["apt-get", "docker", "sqv", "nvidia-ctk"] {
        put(&format!("usr/bin/{program}"), "");
    }
    put("usr/lib/apt/methods/sqv", "");
    put("usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", "");
    let address = "https://developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64/";
    put("etc/apt/sources.list", &format!("deb [signed-by=/usr/share/keyrings/x.gpg] {address} /\ndeb {address} x\n"));
    let bus = "sys/devices/pci0000:00/0000:00:01.0";
    // GB200s: they are looked at for everything.
    for gpu in ["0000:17:00.0", "0000:18:00.0"] {
        for (file, text) in [("vendor", "0x10de"), ("device", "0x2941"), ("class", "0x030200")] {
            put(&format!("{bus}/{gpu}/{file}"), text);
        }
        let link = at(&format!("sys/bus/pci/devices/{gpu}"));
        symlink(format!("/{bus}/{gpu}"), link).expect("linked");
    }
    symlink(format!("/{bus}"), at("sys/bus/pci/devices/0000:00:01.0")).expect("linked");
    let database = gpusetup::database::embedded();
    let look =
        ProbeOptions { prefix: PathBuf::from("/usr/local"), cache: PathBuf::from("/var/cache/gpusetup"), gpus: GpuSource::Bus };
    let facts = probe(&System::at(tree.path()), &database, &look).expect("it has an os-release");
    assert_eq!(facts.gpus.len(), 2, "{facts:?}");
    Host { tree, database, facts }
});

fuzz_target!(|input: (u8, Vec<u8>)| {
    let (which, bytes) = input;
    let host = &*HOST;
    let file = FILES.get(usize::from(which) % (FILES.len() + 1)).map(|file| host.tree.path().join(file));
    let mut log = String::new();
    match &file {
        Some(file) => {
            std::fs::create_dir_all(file.parent().expect("below the tree")).expect("made");
            std::fs::write(file, &bytes).expect("written");
        }
        None => log = String::from_utf8_lossy(&bytes).into_owned(),
    }
    let sources = EvidenceSources { kernel_log: Some(log), today: Some("2026-11-20".to_owned()), ..Default::default() };
    let system = System::at(host.tree.path());
    let evidence = gather(&system, &host.database, host.facts.clone(), Path::new("/usr/local"), &sources);
    if let Some(file) = file {
        std::fs::remove_file(file).expect("removed");
    }
    let report = examine(evidence, &host.database, &[]);
    assert!(report.checks.iter().all(|f| f.status != Status::Error), "{report:?}");
    serde_json::to_string(&report).expect("a report can be written");
    let _ = (render::report::html(&report, None).len(), render::doctor::prometheus(&report).len());
});
