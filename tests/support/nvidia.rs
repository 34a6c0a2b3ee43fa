//! The libraries that stand in for NVIDIA's, built by gcc: what is in the folder beside this file.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

/// Their names.
pub const LIBRARIES: [&str; 3] = ["libnvidia-ml.so.1", "libcuda.so.1", "libcudnn.so.9"];

/// Built once for all tests of a program.
static BUILT: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary directory");
    for (library, source) in LIBRARIES.into_iter().zip(["nvml.c", "cuda.c", "cudnn.c"]) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/support/nvidia")
            .join(source);
        let made = Command::new("gcc")
            .args([
                "-std=gnu11",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-shared",
                "-fPIC",
            ])
            .arg(format!("-Wl,-soname,{library}"))
            .arg("-o")
            .arg(folder.path().join(library))
            .arg(&source)
            .status();
        assert!(
            made.expect("gcc is there").success(),
            "{}",
            source.display()
        );
    }
    folder
});

/// Copies them into a folder, where they say `answers`.
pub fn put(into: &Path, answers: &str) {
    for library in LIBRARIES {
        std::fs::copy(BUILT.path().join(library), into.join(library)).expect("copied");
    }
    std::fs::write(into.join("answers"), answers).expect("written");
}

/// The variable that has gpusetup take those of this folder, which is so called by itself.
pub fn stand_ins(folder: &Path) -> String {
    let each = LIBRARIES.map(|library| format!("{library}={}", folder.join(library).display()));
    format!("GPUSETUP_STAND_INS={}", each.join(":"))
}
