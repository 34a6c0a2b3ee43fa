//! What the shell lines of several operations have in common.

use gpusetup_text::text::quoted_path;
use std::path::Path;

/// The folder that a file is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// The line that makes the folder of a file.
pub(crate) fn make_folder(path: &Path) -> String {
    format!("mkdir -p {}\n", quoted_path(folder_of(path)))
}
