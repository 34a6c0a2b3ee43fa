//! Hosts whose configuration keeps the driver's modules from being loaded (GS204): what plan and
//! doctor say of them.

use super::files::rebuild_images;
use gpusetup_causes::Remedy;
use gpusetup_host::{Facts, ModuleBlock};
use gpusetup_text::text::{quoted, quoted_path};
use std::collections::BTreeMap;
use std::path::Path;

/// The line that matters most. A module that is loaded all the same came from the initramfs or by
/// its name; then only what holds for every attempt matters. Whether it is loaded is None for a
/// tree.
pub fn worst_block(blocks: &[ModuleBlock], is_loaded: Option<bool>) -> Option<&ModuleBlock> {
    let worst = blocks
        .iter()
        .find(|block| block.always)
        .or(blocks.first())?;
    (worst.always || is_loaded != Some(true)).then_some(worst)
}

/// What a line comes to.
pub fn describe_block(block: &ModuleBlock) -> String {
    gpusetup_causes::module_blocked(&block.place(), &block.module, block.always)
}

/// Removes the lines, and loads the module if `is_to_load`.
pub fn unblock_remedy(blocks: &[ModuleBlock], facts: &Facts, is_to_load: bool) -> Remedy {
    let rebuild = rebuild_images(facts).map(|operation| operation.by_hand());
    let load = is_to_load.then(|| "sudo modprobe nvidia".to_owned());
    let text = if is_to_load {
        gpusetup_causes::UNBLOCK_AND_LOAD
    } else {
        gpusetup_causes::REMOVE_LINES
    };
    Remedy::new(text, unblock(blocks).into_iter().chain(rebuild).chain(load))
}

/// The commands that remove these lines. The kernel's command line is written by the boot loader.
fn unblock(blocks: &[ModuleBlock]) -> Vec<String> {
    let mut lines: BTreeMap<&Path, Vec<usize>> = BTreeMap::new();
    for (path, line) in blocks
        .iter()
        .filter_map(|block| Some((&*block.by, block.line?)))
    {
        lines.entry(path).or_default().push(line);
    }
    let of_files = lines.into_iter().map(|(path, lines)| {
        let commands: Vec<_> = lines.iter().map(|line| format!("{line}d")).collect();
        let script = commands.join(";");
        format!("sudo sed -i {} {}", quoted(&script), quoted_path(path))
    });
    let of_boot_loader = blocks
        .iter()
        .filter(|block| block.line.is_none())
        .map(|block| in_boot_loader(&block.text));
    of_files.chain(of_boot_loader).collect()
}

/// The command that finds a part of the kernel's command line in the files of boot loaders.
pub fn in_boot_loader(text: &str) -> String {
    format!(
        "sudo grep -rnF {} /etc/default/grub /etc/kernel/cmdline /boot/loader/entries",
        quoted(text)
    )
}
