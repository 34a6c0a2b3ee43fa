//! Kernel modules in the running kernel that matter to a GPU.

use super::LoadedModule;
use super::probe::Notes;
use crate::system::System;
use std::path::Path;

const MATTER: [&str; 9] = [
    "nvidia",
    "nvidia_drm",
    "nvidia_modeset",
    "nvidia_peermem",
    "nvidia_uvm",
    "nouveau",
    "nova_core",
    "nova_drm",
    "vfio_pci",
];

/// Those loaded. None for a tree whose /proc is not that of a running kernel.
pub fn probe(system: &System, notes: &mut Notes) -> Option<Vec<LoadedModule>> {
    if !system.is_live() {
        return None;
    }
    let text = notes.take("/proc/modules", system.read_text("/proc/modules"))??;
    Some(parse(&text, |name| {
        let version = system.read_text(Path::new("/sys/module").join(name).join("version")).ok()??;
        Some(version.trim().to_owned())
    }))
}

fn parse(text: &str, version: impl Fn(&str) -> Option<String>) -> Vec<LoadedModule> {
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    let mut out: Vec<_> = names
        .filter(|name| MATTER.contains(name))
        .map(|name| LoadedModule { name: name.to_owned(), version: version(name) })
        .collect();
    out.sort_by(|a, b| a.name.cmp(&b.name));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_matters_is_told() {
        let text = "nouveau 3112960 0 - Live 0x0\next4 983040 1 - Live 0x0\nnvidia 1 2 nvidia_uvm, Live 0x0 (POE)\n";
        let found = parse(text, |name| (name == "nvidia").then(|| "580.95.05".to_owned()));
        let shown: Vec<_> = found.iter().map(|m| (m.name.as_str(), m.version.as_deref())).collect();
        assert_eq!(shown, [("nouveau", None), ("nvidia", Some("580.95.05"))]);
    }
}
