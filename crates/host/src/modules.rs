//! The relevant modules of the running kernel.

use super::LoadedModule;
use super::reader::Reader;

/// The relevant loaded modules; none if they cannot be read or the host is not running.
pub(crate) fn loaded(reader: &mut Reader) -> Option<Vec<LoadedModule>> {
    if !reader.system.is_live() {
        return None;
    }
    let what = "loaded kernel modules";
    let Some(text) = reader.text(what, "/proc/modules") else {
        if !reader.system.exists("/proc/modules") {
            reader.miss(what, "/proc/modules does not exist");
        }
        return None;
    };
    let modules = names(&text).into_iter().map(|name| {
        let version = reader.word(what, format!("/sys/module/{name}/version"));
        LoadedModule { name, version }
    });
    Some(modules.collect())
}

/// The names in `/proc/modules` text, sorted.
fn names(text: &str) -> Vec<String> {
    let mut names: Vec<_> = text
        .lines()
        .filter_map(|l| l.split(' ').next())
        .filter(|n| {
            *n == "nvidia"
                || n.starts_with("nvidia_")
                || ["nouveau", "nova_core", "nova_drm", "vfio_pci"].contains(n)
        })
        .collect();
    names.sort_unstable();
    names.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_modules_that_matter_are_named() {
        let text = "nvidia_uvm 4927488 0 - Live 0x0\nnvidia 104071168 2 nvidia_uvm,nvidia_modeset, Live 0x0 (PO)\n\
                    nvme 61440 1 - Live 0x0\nnouveau 1 0 - Live 0x0\nnvidiafb 1 0 - Live 0x0\n";
        assert_eq!(names(text), ["nouveau", "nvidia", "nvidia_uvm"]);
    }
}
