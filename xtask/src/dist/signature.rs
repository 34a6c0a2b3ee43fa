//! Signatures by minisign. A file that two people sign has both signatures in its `.minisig`, one
//! after the other; minisign itself reads the first, gpusetup all of them.

use super::output;
use crate::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// For how long a signature is good: whoever is kept from newer releases learns it then. A release
/// can be signed again.
const GOOD_FOR: &str = "+1 year";

/// Signs these files of a release with each of the secret keys, under their names and with a last
/// day.
pub fn write(version: &str, keys: &[PathBuf], out: &Path, names: &[&str]) -> Result<()> {
    let day = output(Command::new("date").args(["--utc", "--date", GOOD_FOR, "+%F"]))?;
    let day = String::from_utf8_lossy(&day).trim().to_owned();
    for name in names {
        let file = out.join(name);
        let mut all = String::new();
        for key in keys {
            let one = out.join(format!("{name}.one.minisig"));
            // minisign asks for the key's password itself.
            let comment = format!("gpusetup {version}\tfile:{name}\texpires:{day}");
            let mut command = Command::new("minisign");
            command
                .arg("-S")
                .arg("-s")
                .arg(key)
                .arg("-m")
                .arg(&file)
                .arg("-x")
                .arg(&one)
                .args(["-t", &comment]);
            output(command.stdin(std::process::Stdio::inherit()))?;
            all += &fs::read_to_string(&one).map_err(|e| format!("{}: {e}", one.display()))?;
            fs::remove_file(&one).map_err(|e| format!("{}: {e}", one.display()))?;
        }
        super::write(&out.join(format!("{name}.minisig")), all.as_bytes())?;
    }
    Ok(())
}
