//! The archives: one folder with the files of the release, for those who unpack it themselves. The
//! install script takes the one that every host can unpack.

use super::{Release, gzip};
use crate::Result;
use std::path::Path;

/// The highest level that every zstd unpacks with its usual memory, and a fast one.
const LEVELS: [i32; 2] = [19, 1];

/// Writes them into a folder.
pub fn write(release: &Release, out: &Path) -> Result<()> {
    let folder = format!(
        "gpusetup-{}-{}-linux",
        release.version, release.program.architecture
    );
    let mut tar = tar::Builder::new(Vec::new());
    tar.mode(tar::HeaderMode::Deterministic);
    for file in &release.files {
        // `usr/bin` is `bin` in the folder. What belongs to a system's own folders is in packages
        // only.
        let Some(path) = file
            .path
            .strip_prefix("usr/")
            .filter(|path| !path.starts_with("lib/"))
        else {
            continue;
        };
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(file.bytes.len() as u64);
        header.set_mode(file.mode);
        header.set_mtime(release.time);
        header.set_uid(0);
        header.set_gid(0);
        tar.append_data(
            &mut header,
            format!("{folder}/{path}"),
            file.bytes.as_slice(),
        )
        .map_err(|e| e.to_string())?;
    }
    let bytes = tar.into_inner().map_err(|e| e.to_string())?;
    let packed = zstd::bulk::compress(&bytes, LEVELS[usize::from(release.fast)])
        .map_err(|e| e.to_string())?;
    super::write(&out.join(format!("{folder}.tar.zst")), &packed)?;
    super::write(&out.join(format!("{folder}.tar.gz")), &gzip(&bytes)?)
}
