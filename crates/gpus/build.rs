//! Makes explain/gpu-fields.yaml into the compact form that the program carries. That its terms
//! exist is checked with the other texts (crates/data).

use gpusetup_database::{compact, gpu_guide};
use std::path::Path;
use std::process::exit;

const FIELDS: &str = "../../explain/gpu-fields.yaml";

fn main() {
    println!("cargo::rerun-if-changed={FIELDS}");
    if let Err(problem) = made() {
        println!("cargo::error={FIELDS}: {problem}");
        exit(1);
    }
}

fn made() -> Result<(), Box<dyn std::error::Error>> {
    let guide = gpu_guide::parse(&std::fs::read_to_string(FIELDS)?)?;
    let out = std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    std::fs::write(
        Path::new(&out).join("gpu-fields.bin"),
        compact::pack(&guide)?,
    )?;
    Ok(())
}
