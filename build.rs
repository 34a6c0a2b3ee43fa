//! Links what is published without what only unwinding reads.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    without_tables();
}

/// Lets the linker leave out what only unwinding reads, a tenth of the program, in the profiles that
/// cannot unwind. Rust's own linker, which it uses on x86_64, also links equal functions once.
fn without_tables() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    // Cargo does not tell which way panics go in CARGO_CFG_PANIC, and the profile's name only here.
    let cannot_unwind = Path::new(&variable("OUT_DIR"))
        .iter()
        .rev()
        .nth(3)
        .is_some_and(|profile| profile == "dist" || profile == "release");
    let target = variable("TARGET");
    let architecture = target
        .strip_suffix("-unknown-linux-gnu")
        .unwrap_or_default();
    if !cannot_unwind || !["x86_64", "aarch64", "powerpc64le"].contains(&architecture) {
        return;
    }
    let script = Path::new(&variable("CARGO_MANIFEST_DIR")).join("without-tables.ld");
    println!("cargo::rerun-if-changed={}", script.display());
    println!(
        "cargo::rustc-link-arg-bins=-Wl,-T,{},--no-eh-frame-hdr",
        script.display()
    );
    if architecture == "x86_64" && std::env::var_os("RUSTC_LINKER").is_none() {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
