//! The files that gpusetup writes for the system, and the commands that put them into force.

use gpusetup_database::compat::{Companion, InitramfsTool};
use gpusetup_host::{Facts, Kernel, RIVALS};
use gpusetup_operation::{Operation, Run, WriteFile};
use gpusetup_text::paths::{BLACKLIST, FABRIC_MODULES, LOADER_PATH, PROFILE};
use std::path::{Path, PathBuf};

/// Seconds allowed for the initramfs of one kernel. It usually takes about ten; on an emulated
/// machine, five minutes were measured.
const IMAGE: u64 = 900;

fn file(path: &str, content: String) -> Operation {
    Operation::WriteFile(WriteFile {
        path: path.into(),
        content,
        mode: 0o644,
        merged_from: None,
    })
}

/// Prevents nouveau and nova from loading.
pub fn blacklist() -> Operation {
    let lines = RIVALS.map(|rival| format!("blacklist {rival}\n")).concat();
    let content = format!(
        "# Written by gpusetup: these would take the GPU before NVIDIA's driver.\n{lines}options nouveau modeset=0\n"
    );
    file(BLACKLIST, content)
}

/// Loads the kernel modules that manage NVSwitches, at every boot.
pub fn fabric_modules(names: &[String]) -> Operation {
    let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
    file(
        FABRIC_MODULES,
        format!(
            "# Written by gpusetup: Fabric Manager reaches the NVSwitches through these.\n{lines}"
        ),
    )
}

/// Loads the kernel module of a companion at every boot.
pub fn module_at_boot(path: &str, of: &Companion, module: &str) -> Operation {
    file(
        path,
        format!(
            "# Written by gpusetup: {} {}.\n{module}\n",
            of.title, of.purpose
        ),
    )
}

/// Rebuilds the initramfs of every kernel; none if the host has no kernels of its own (a container,
/// some clouds).
pub fn rebuild_images(facts: &Facts) -> Option<Operation> {
    let kernels = &facts.kernels.installed;
    let tool = facts.os.initramfs.filter(|_| !kernels.is_empty())?;
    let argv: &[&str] = match tool {
        InitramfsTool::UpdateInitramfs => &["update-initramfs", "-u", "-k", "all"],
        InitramfsTool::Dracut => &["dracut", "--force", "--regenerate-all"],
        InitramfsTool::Mkinitcpio => &["mkinitcpio", "-P"],
    };
    let images = kernels
        .iter()
        .filter_map(|k| k.initramfs.as_ref())
        .map(|i| i.path.clone());
    Some(
        Run::new(argv.iter().copied(), IMAGE * kernels.len() as u64)
            .changing(images)
            .into(),
    )
}

/// Rebuilds the initramfs of one kernel, if it has one.
pub fn rebuild_image(facts: &Facts, kernel: &Kernel) -> Option<Operation> {
    let (image, release) = (
        kernel.initramfs.as_ref()?.path.clone(),
        kernel.release.as_str(),
    );
    let shown = image.display().to_string();
    let argv: Vec<&str> = match facts.os.initramfs? {
        InitramfsTool::UpdateInitramfs => vec!["update-initramfs", "-u", "-k", release],
        InitramfsTool::Dracut => vec!["dracut", "--force", &shown, release],
        // mkinitcpio takes presets, not kernels.
        InitramfsTool::Mkinitcpio => return rebuild_images(facts),
    };
    Some(Run::new(argv, IMAGE).changing([image]).into())
}

/// Adds the default toolkit's libraries to the loader's search path.
pub fn loader_path(default_toolkit: &Path) -> Operation {
    file(
        LOADER_PATH,
        format!(
            "# Written by gpusetup.\n{}\n",
            default_toolkit.join("lib64").display()
        ),
    )
}

/// Rebuilds the loader's cache.
pub fn rebuild_cache() -> Operation {
    Run::new(["ldconfig"], 300)
        .changing(["/etc/ld.so.cache", "/var/cache/ldconfig/aux-cache"].map(PathBuf::from))
        .into()
}

/// Adds the default toolkit to the PATH of login shells.
pub fn profile(default_toolkit: &Path, library_path: bool) -> Operation {
    let home = default_toolkit.display();
    let mut content = format!(
        "# Written by gpusetup: the default CUDA toolkit.\n\
         case \":$PATH:\" in\n    *\":{home}/bin:\"*) ;;\n    *) PATH=\"{home}/bin:$PATH\" ;;\nesac\n\
         CUDA_HOME=\"{home}\"\nCUDADIR=\"{home}\"\nexport PATH CUDA_HOME CUDADIR\n"
    );
    if library_path {
        content += &format!(
            "LD_LIBRARY_PATH=\"{home}/lib64${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\"\nexport LD_LIBRARY_PATH\n"
        );
    }
    file(PROFILE, content)
}
