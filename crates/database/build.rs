//! Gathers the sources of the types that the compact form is made from, for [`compact::shape`](src/compact.rs).

use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let mut text = String::new();
    for folder in ["src/compat", "src/version"] {
        println!("cargo::rerun-if-changed={folder}");
        let mut files = std::fs::read_dir(folder)?.map(|f| Ok(f?.path())).collect::<io::Result<Vec<_>>>()?;
        files.sort();
        for file in files {
            text += &std::fs::read_to_string(file)?;
        }
    }
    let out = std::env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    std::fs::write(Path::new(&out).join("types.rs"), text)
}
