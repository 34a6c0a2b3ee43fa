//! Checks the facts of `compat/` and `manifests/` and makes them into the compact form that the
//! binary carries: reading YAML takes some thirty times as long, at every start. A wrong fact is a
//! build error.

use gpusetup_database::signed::{KEYS, KeyList};
use gpusetup_database::{
    cause, compact, compat, error_code, gpu_guide, language, message, subject,
};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::exit;

/// The file with the lists of the keys that sign databases and releases, if whoever builds has any
/// [default: compat/release-keys].
const VARIABLE: &str = "GPUSETUP_RELEASE_KEYS";

/// Where the facts are, from this crate.
const ROOT: &str = "../..";

fn main() {
    for folder in ["compat", "explain", "manifests"] {
        println!("cargo::rerun-if-changed={ROOT}/{folder}");
    }
    if let Err(problem) = release_keys().and_then(|()| explanations(&database()?.xids)) {
        for line in problem.lines() {
            println!("cargo::error={line}");
        }
        exit(1);
    }
}

/// The newest list of keys becomes part of the program.
fn release_keys() -> Result<(), String> {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let usual = Path::new(ROOT).join("compat").join(KEYS);
    let Some(file) = named.or_else(|| usual.exists().then_some(usual)) else {
        return Ok(());
    };
    println!("cargo::rerun-if-changed={}", file.display());
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
    let text = std::fs::read_to_string(&file).map_err(|e| failed(&e))?;
    let list = KeyList::newest(&text).map_err(|e| failed(&e))?;
    println!("cargo::rustc-env=GPUSETUP_KEY_LIST={}", list.line());
    Ok(())
}

fn database() -> Result<compat::Database, String> {
    let database = compat::load(Path::new(ROOT)).map_err(|e| e.to_string())?;
    println!(
        "cargo::rustc-env=GPUSETUP_DATABASE_VERSION={}",
        database.version
    );
    let packed = compact::pack_database(&database).map_err(|e| e.to_string())?;
    store_bytes("database.bin", &packed)?;
    Ok(database)
}

/// What `explain` knows beside the database.
fn explanations(xids: &[compat::Xid]) -> Result<(), String> {
    let causes = "explain/causes.yaml";
    let causes = cause::parse(&read(causes)?).map_err(|e| format!("{causes}: {e}"))?;
    write("causes.bin", &causes)?;
    let (messages, subjects, errors) = (
        "explain/messages.yaml",
        "explain/subjects.yaml",
        "explain/errors.yaml",
    );
    let messages = message::parse(&read(messages)?).map_err(|e| format!("{messages}: {e}"))?;
    let subjects = subject::parse(&read(subjects)?).map_err(|e| format!("{subjects}: {e}"))?;
    let errors = error_code::parse(&read(errors)?).map_err(|e| format!("{errors}: {e}"))?;
    write("messages.bin", &messages)?;
    write("subjects.bin", &subjects)?;
    write("errors.bin", &errors)?;
    let fields = "explain/gpu-fields.yaml";
    let guide = gpu_guide::parse(&read(fields)?).map_err(|e| format!("{fields}: {e}"))?;
    let unknown = gpu_guide::unknown_terms(&guide, &subjects);
    if !unknown.is_empty() {
        return Err(unknown
            .into_iter()
            .map(|problem| format!("{fields}: {problem}\n"))
            .collect());
    }
    store(
        "languages.bin",
        &languages(&language::english(&messages, &subjects, &errors, xids))?,
    )
}

fn read(file: &str) -> Result<String, String> {
    std::fs::read_to_string(Path::new(ROOT).join(file)).map_err(|e| format!("{file}: {e}"))
}

/// Each language of explain/languages/: its code, its name, and its texts, compressed.
fn languages(english: &language::Texts) -> Result<Vec<(String, String, Vec<u8>)>, String> {
    const FOLDER: &str = "explain/languages";
    let failed = |e: std::io::Error| format!("{FOLDER}: {e}");
    let files = std::fs::read_dir(Path::new(ROOT).join(FOLDER))
        .map_err(failed)?
        .map(|entry| Ok(entry?.path()));
    let mut files: Vec<_> = files.collect::<Result<_, _>>().map_err(failed)?;
    files.sort();
    let mut all = Vec::new();
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|end| end == "yaml"))
    {
        let shown = file.display();
        let code = file
            .file_stem()
            .and_then(|stem| stem.to_str())
            .ok_or_else(|| format!("{shown}: its name"))?;
        let text = std::fs::read_to_string(file).map_err(|e| format!("{shown}: {e}"))?;
        let own = language::parse(&text).map_err(|e| format!("{shown}: {e}"))?;
        let wrong = language::faults(&own, english);
        if !wrong.is_empty() {
            return Err(wrong
                .into_iter()
                .map(|fault| format!("{shown}: {fault}\n"))
                .collect());
        }
        all.push((code.to_owned(), own.name, packed(&own.texts)?));
    }
    Ok(all)
}

/// Writes a value in the compact form that the program includes (src/built_in.rs).
fn write(name: &str, value: &impl Serialize) -> Result<(), String> {
    store_bytes(name, &packed(value)?)
}

/// Writes a value as it is: what is large in it is packed already.
fn store(name: &str, value: &impl Serialize) -> Result<(), String> {
    store_bytes(
        name,
        &postcard::to_stdvec(value).map_err(|e| e.to_string())?,
    )
}

fn packed(value: &impl Serialize) -> Result<Vec<u8>, String> {
    compact::pack(value).map_err(|e| e.to_string())
}

fn store_bytes(name: &str, bytes: &[u8]) -> Result<(), String> {
    let out = std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    std::fs::write(Path::new(&out).join(name), bytes).map_err(|e| e.to_string())
}
