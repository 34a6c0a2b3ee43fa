//! The files and commands that steps, removals and repairs have in common.

use super::nouveau::RIVALS;
use crate::compat::InitramfsTool;
use crate::host::{Facts, Kernel};
use crate::operation::Operation;
use std::path::{Path, PathBuf};

/// The one file that keeps other drivers off the GPUs.
pub const BLACKLIST: &str = "/etc/modprobe.d/gpusetup-nouveau.conf";
/// The one file that tells the loader where the toolkit's libraries are.
pub const LOADER_PATH: &str = "/etc/ld.so.conf.d/gpusetup-cuda.conf";
/// The one file that tells login shells where the toolkit's programs are.
pub const PROFILE: &str = "/etc/profile.d/gpusetup-cuda.sh";

/// Seconds for the initramfs of one kernel: it takes some ten; on an emulated machine with all its modules five minutes
/// were seen.
const IMAGE: u64 = 900;

fn file(path: &str, content: String) -> Operation {
    Operation::WriteFile { path: path.into(), content, mode: 0o644 }
}

/// Keeps nouveau and nova out of the kernel.
pub fn blacklist() -> Operation {
    let lines = RIVALS.map(|rival| format!("blacklist {rival}\n")).concat();
    let content = format!(
        "# Written by gpusetup: these would take the GPU before NVIDIA's driver.\n{lines}options nouveau modeset=0\n"
    );
    file(BLACKLIST, content)
}

/// Rebuilds the initramfs of every kernel. The images of a host whose kernels come from outside (a container, some clouds)
/// are not there to be rebuilt.
pub fn rebuild_images(facts: &Facts) -> Option<Operation> {
    let kernels = &facts.kernels.installed;
    let tool = facts.os.initramfs.filter(|_| !kernels.is_empty())?;
    let argv: &[&str] = match tool {
        InitramfsTool::UpdateInitramfs => &["update-initramfs", "-u", "-k", "all"],
        InitramfsTool::Dracut => &["dracut", "--force", "--regenerate-all"],
        InitramfsTool::Mkinitcpio => &["mkinitcpio", "-P"],
    };
    let images = kernels.iter().filter_map(|k| k.initramfs.as_ref()).map(|i| i.path.clone());
    Some(Operation::run(argv.iter().copied(), IMAGE * kernels.len() as u64).changing(images))
}

/// Rebuilds the initramfs of one kernel, where it has one.
pub fn rebuild_image(facts: &Facts, kernel: &Kernel) -> Option<Operation> {
    let (image, release) = (kernel.initramfs.as_ref()?.path.clone(), kernel.release.as_str());
    let shown = image.display().to_string();
    let argv: Vec<&str> = match facts.os.initramfs? {
        InitramfsTool::UpdateInitramfs => vec!["update-initramfs", "-u", "-k", release],
        InitramfsTool::Dracut => vec!["dracut", "--force", &shown, release],
        // It knows presets, not kernels.
        InitramfsTool::Mkinitcpio => return rebuild_images(facts),
    };
    Some(Operation::run(argv, IMAGE).changing([image]))
}

/// Puts the default toolkit's libraries on the loader's path.
pub fn loader_path(default_toolkit: &Path) -> Operation {
    file(LOADER_PATH, format!("# Written by gpusetup.\n{}\n", default_toolkit.join("lib64").display()))
}

/// Makes the loader's cache anew.
pub fn rebuild_cache() -> Operation {
    Operation::run(["ldconfig"], 300).changing(["/etc/ld.so.cache", "/var/cache/ldconfig/aux-cache"].map(PathBuf::from))
}

/// Where the nvcc of a toolkit finds `gcc` and `g++` before it looks on PATH: beside its own cicc. Every release does, whoever
/// starts it, and no other program looks there (measured, see compat/compilers.yaml). The variable NVCC_CCBIN is unknown to
/// nvcc 12.4 and older, and what a profile sets reaches login shells only.
pub fn host_compilers(toolkit: &Path) -> [PathBuf; 2] {
    ["gcc", "g++"].map(|name| toolkit.join("nvvm/bin").join(name))
}

/// Puts the default toolkit on the PATH of login shells.
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
