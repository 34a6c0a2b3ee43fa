//! Gathers the sources of the types that the compact form is made from, for
//! [`compact::SHAPE`](src/compact.rs).

use sha2::{Digest, Sha256};
use std::io;

fn main() -> io::Result<()> {
    let mut text = String::new();
    for folder in ["src/compat", "src/version"] {
        println!("cargo::rerun-if-changed={folder}");
        let mut files = std::fs::read_dir(folder)?
            .map(|f| Ok(f?.path()))
            .collect::<io::Result<Vec<_>>>()?;
        files.sort();
        for file in files {
            text += &std::fs::read_to_string(file)?;
        }
    }
    for file in ["src/compact.rs", "src/text.rs"] {
        println!("cargo::rerun-if-changed={file}");
        text += &std::fs::read_to_string(file)?;
    }
    let hash: String = Sha256::digest(&text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    println!("cargo::rustc-env=GPUSETUP_SHAPE={hash}");
    Ok(())
}
