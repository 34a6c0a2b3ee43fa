//! Plans and bundles as an attacker makes them: a plan printed by gpusetup, with other operations
//! and a matching fingerprint. They are made as text, with the fields in gpusetup's order, so that
//! any version of gpusetup can be attacked.

use super::bench::sum;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Replaces the steps of a printed plan by these: the id and the operations of each.
pub fn with_steps(printed: &str, steps: &[(&str, Vec<String>)]) -> String {
    let plan = compact(printed);
    assert_eq!(
        text(&plan, "fingerprint"),
        fingerprint(&plan, &blank(&without_needs(part(&plan, "steps")))),
        "how gpusetup computes fingerprints has changed"
    );
    let step = |(id, operations): &(&str, Vec<String>)| {
        format!(
            r#"{{"id":"{id}","title":"t","why":"w","state":"needed","operations":[{}],"download_bytes":0,"disk_bytes":0}}"#,
            operations.join(",")
        )
    };
    let steps = format!("[{}]", steps.iter().map(step).collect::<Vec<_>>().join(","));
    let print = fingerprint(&plan, &blank(&steps));
    plan.replace(part(&plan, "steps"), &steps)
        .replace(part(&plan, "fingerprint"), &format!("\"{print}\""))
}

/// SHA-256 of the database, the host, the request, the selection and the steps without URLs.
fn fingerprint(plan: &str, steps: &str) -> String {
    let host: Value = serde_json::from_str(part(plan, "host")).expect("JSON");
    let gpus = host["gpus"]
        .as_array()
        .expect("GPUs")
        .iter()
        .map(|g| format!("[{},{}]", g["address"], g["pci_id"]));
    let gpus = gpus.collect::<Vec<_>>().join(",");
    let (arch, os) = (&host["machine"]["arch"], &host["os"]);
    let host = format!(
        r#"{{"arch":{arch},"os":[{},{}],"gpus":[{gpus}]}}"#,
        os["id"], os["version"]
    );
    let [database, request, selection] =
        ["database", "request", "selection"].map(|name| part(plan, name));
    sum(format!("[{database},{host},{request},{selection},{steps}]").as_bytes())
}

/// Removes from steps what follows from the rest of them, which the fingerprint leaves out.
fn without_needs(steps: &str) -> String {
    let mut parts = steps.split(r#","room":["#);
    let first = parts.next().unwrap_or_default().to_owned();
    let steps = parts.fold(first, |all, next| {
        all + next.split_once(']').expect("an end").1
    });
    let mut parts = steps.split(r#","estimate_seconds":"#);
    let first = parts.next().unwrap_or_default().to_owned();
    let steps = parts.fold(first, |all, next| {
        all + &next[next.find([',', '}']).expect("an end")..]
    });
    steps
        .replace(r#","licensed":true"#, "")
        .replace(r#","idle_driver":true"#, "")
}

/// Removes the URLs of downloads from steps.
fn blank(steps: &str) -> String {
    let mut parts = steps.split(r#"{"op":"download","url":""#);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, next| {
        let rest = next.split_once('"').expect("a text").1;
        format!(r#"{all}{{"op":"download","url":"""#) + rest
    })
}

/// Removes white space between the tokens of JSON.
fn compact(json: &str) -> String {
    let (mut inside, mut escaped) = (false, false);
    let keeps = |c: &char| {
        let keep = inside || !c.is_ascii_whitespace();
        inside ^= *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        keep
    };
    json.chars().filter(keeps).collect()
}

/// The raw value of a field of a JSON object.
fn part<'a>(object: &'a str, name: &str) -> &'a str {
    let (mut depth, mut inside, mut escaped, mut begun) = (0, false, false, None);
    let wanted = format!("\"{name}\":");
    for (at, c) in object.char_indices() {
        if let (Some(begun), 1, false, ',' | '}') = (begun, depth, inside, c) {
            return &object[begun..at];
        }
        if begun.is_none() && depth == 1 && !inside && object[at..].starts_with(&wanted) {
            begun = Some(at + wanted.len());
        }
        match c {
            '{' | '[' if !inside => depth += 1,
            '}' | ']' if !inside => depth -= 1,
            _ => {}
        }
        inside ^= c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
    }
    panic!("there is no {name} in the plan");
}

fn text(object: &str, name: &str) -> String {
    part(object, name).trim_matches('"').to_owned()
}

/// `write-file`.
pub fn write_file(path: &str, content: &str) -> String {
    format!(r#"{{"op":"write-file","path":"{path}","content":"{content}\n","mode":420}}"#)
}

/// `link`.
pub fn link(path: &str, target: &str) -> String {
    format!(r#"{{"op":"link","path":"{path}","target":"{target}"}}"#)
}

/// `remove`.
pub fn remove(path: &str) -> String {
    format!(r#"{{"op":"remove","path":"{path}"}}"#)
}

/// `run`; `more` are fields that follow `argv`.
pub fn run(words: &[&str], more: &str) -> String {
    format!(r#"{{"op":"run","argv":{},{more}"limit":5}}"#, json!(words))
}

/// The path of a download in the cache.
pub fn cached(file: &Path) -> String {
    let name = file.file_name().expect("a name").to_string_lossy();
    format!(
        "/var/cache/gpusetup/{}/{name}",
        &sum(&fs::read(file).expect("made"))[..16]
    )
}

/// `download` of a local file.
pub fn download(file: &Path) -> String {
    let bytes = fs::read(file).expect("made");
    let (url, to) = (file.display(), cached(file));
    format!(
        r#"{{"op":"download","url":"file://{url}","sha256":"{}","size":{},"to":"{to}"}}"#,
        sum(&bytes),
        bytes.len()
    )
}

/// `unpack`.
pub fn unpack(file: &Path, into: &[(&str, &str)]) -> String {
    let sum = sum(&fs::read(file).expect("made"));
    let into: Vec<_> = into
        .iter()
        .map(|(from, to)| format!(r#"{{"from":"{from}","to":"{to}"}}"#))
        .collect();
    format!(
        r#"{{"op":"unpack","archive":"{}","sha256":"{sum}","into":[{}]}}"#,
        cached(file),
        into.join(",")
    )
}

/// The files of a bundle with one plan.
fn bundled(plan: &str) -> Vec<(String, Vec<u8>)> {
    let files = [
        ("database.bin", "database"),
        ("gpusetup", "program"),
        ("plans/plan.json", plan),
    ];
    let entry = |text: &str| json!({"size": text.len(), "sha256": sum(text.as_bytes())});
    let sums: serde_json::Map<_, _> = files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), entry(text)))
        .collect();
    let value: Value = serde_json::from_str(plan).expect("JSON");
    let (os, arch) = (&value["host"]["os"], &value["host"]["machine"]["arch"]);
    let manifest = json!({
        "schema": "gpusetup.bundle/1", "tool": value["tool"], "created": "2026-11-21T12:00:00Z",
        "database": value["database"], "packages": [], "files": sums,
        "plans": [{"file": "plans/plan.json", "fingerprint": value["fingerprint"], "choice": "x",
            "system": {"os": os["id"], "version": os["version"], "arch": arch}}],
    });
    let first = ("bundle.json".to_owned(), manifest.to_string().into_bytes());
    [first]
        .into_iter()
        .chain(files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())))
        .collect()
}

/// Writes a bundle with one plan as a directory.
pub fn bundle_folder(plan: &str, folder: &Path) {
    for (name, bytes) in bundled(plan) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("below the folder")).expect("made");
        fs::write(path, bytes).expect("written");
    }
}

/// A bundle with one plan as an archive.
pub fn bundle_archive(plan: &str) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in bundled(plan) {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, bytes.as_slice())
            .expect("appended");
    }
    zstd::encode_all(tar.into_inner().expect("a tar").as_slice(), 1).expect("compressed")
}
