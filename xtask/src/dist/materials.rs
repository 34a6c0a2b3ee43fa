//! What the program is made of: its crates with licences and checksums, as CycloneDX 1.5.

use super::{Release, date, output};
use crate::{Result, project};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A crate: name and version.
type Crate = (String, String);

/// Writes the list.
pub fn write(release: &Release, out: &Path) -> Result<()> {
    let architecture = release.program.architecture;
    let triple = match architecture {
        "ppc64le" => "powerpc64le-unknown-linux-gnu".to_owned(),
        other => format!("{other}-unknown-linux-gnu"),
    };
    let tree = Command::new("cargo")
        .args([
            "tree",
            "--locked",
            "--offline",
            "--package",
            "gpusetup",
            "--edges",
            "normal,build",
            "--no-dedupe",
        ])
        .args([
            "--target", &triple, "--prefix", "depth", "--format", "|{p}|{l}",
        ])
        .current_dir(project())
        .output()
        .map_err(|e| format!("cargo: {e}"))?;
    if !tree.status.success() {
        return Err(format!(
            "cargo tree: {}",
            String::from_utf8_lossy(&tree.stderr)
        ));
    }
    let lock =
        fs::read_to_string(project().join("Cargo.lock")).map_err(|e| format!("Cargo.lock: {e}"))?;
    let materials = Materials::read(&String::from_utf8_lossy(&tree.stdout), &checksums(&lock))?;
    let rustc = output(Command::new("rustc").arg("--version"))?;
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": date(release.time, "+%Y-%m-%dT%H:%M:%SZ")?,
            "tools": {"components": [{"type": "application", "name": String::from_utf8_lossy(&rustc).trim()}]},
            "component": {
                "type": "application",
                "bom-ref": reference(&("gpusetup".to_owned(), release.version.clone())),
                "name": "gpusetup",
                "version": release.version,
                "licenses": [{"expression": "MIT OR Apache-2.0"}],
                "hashes": [{"alg": "SHA-256", "content": gpusetup_database::sum::sha256(&release.program.bytes)}],
            },
        },
        "components": materials.components,
        "dependencies": materials.dependencies,
    });
    let name = format!("gpusetup-{}-{architecture}-linux.cdx.json", release.version);
    super::write(&out.join(name), format!("{document:#}\n").as_bytes())
}

/// Crates and which of them need which.
struct Materials {
    components: Vec<Value>,
    dependencies: Vec<Value>,
}

impl Materials {
    /// Reads what `cargo tree` prints: depth, crate and licence in each line, gpusetup first.
    fn read(tree: &str, checksums: &BTreeMap<Crate, String>) -> Result<Self> {
        let mut licences: BTreeMap<Crate, String> = BTreeMap::new();
        let mut needs: BTreeMap<Crate, BTreeSet<Crate>> = BTreeMap::new();
        let mut above: Vec<Crate> = Vec::new();
        for line in tree.lines() {
            let unread = || format!("cargo tree: `{line}`");
            let [depth, id, licence] = line.split('|').collect::<Vec<_>>()[..] else {
                return Err(unread());
            };
            let depth: usize = depth.parse().map_err(|_| unread())?;
            let mut words = id.split(' ');
            let (name, version) = words.next().zip(words.next()).ok_or_else(unread)?;
            let one = (name.to_owned(), version.trim_start_matches('v').to_owned());
            above.truncate(depth);
            if let Some(parent) = above.last() {
                needs.entry(parent.clone()).or_default().insert(one.clone());
                licences.insert(one.clone(), licence.replace('/', " OR "));
            }
            needs.entry(one.clone()).or_default();
            above.push(one);
        }
        let component = |(one, licence): (&Crate, &String)| {
            let mut component = json!({
                "type": "library",
                "bom-ref": reference(one),
                "name": one.0,
                "version": one.1,
                "purl": reference(one),
                "licenses": [{"expression": licence}],
            });
            // The project's own crates have none.
            if let Some(sum) = checksums.get(one) {
                component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
            }
            component
        };
        let dependency = |(one, on): (&Crate, &BTreeSet<Crate>)| json!({"ref": reference(one), "dependsOn": on.iter().map(reference).collect::<Vec<_>>()});
        Ok(Self {
            components: licences.iter().map(component).collect(),
            dependencies: needs.iter().map(dependency).collect(),
        })
    }
}

/// The package URL of a crate, which is also what the document calls it.
fn reference((name, version): &Crate) -> String {
    format!("pkg:cargo/{name}@{version}")
}

/// The checksums in a Cargo.lock.
fn checksums(lock: &str) -> BTreeMap<Crate, String> {
    let of = |package: &str| {
        let value = |key: &str| {
            let line = package
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
            line.map(|value| value.trim_matches('"').to_owned())
        };
        Some(((value("name")?, value("version")?), value("checksum")?))
    };
    lock.split("[[package]]").skip(1).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_have_licences_checksums_and_dependencies() {
        let tree = "0|gpusetup v0.1.0 (/here)|MIT OR Apache-2.0\n1|a v1.0.0|MIT/Apache-2.0\n2|b v2.0.0+x (proc-macro)|MIT\n1|b v2.0.0+x (proc-macro)|MIT\n";
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"00ff\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0+x\"\n";
        let made = Materials::read(tree, &checksums(lock)).expect("it is read");
        assert_eq!(made.components.len(), 2);
        assert_eq!(made.components[0]["hashes"][0]["content"], "00ff");
        assert_eq!(
            made.components[0]["licenses"][0]["expression"],
            "MIT OR Apache-2.0"
        );
        assert_eq!(made.components[1]["purl"], "pkg:cargo/b@2.0.0+x");
        let of = |name: &str| {
            made.dependencies
                .iter()
                .find(|d| d["ref"].as_str().is_some_and(|r| r.contains(name)))
                .expect("there")
        };
        assert_eq!(
            of("gpusetup")["dependsOn"],
            json!(["pkg:cargo/a@1.0.0", "pkg:cargo/b@2.0.0+x"])
        );
        assert_eq!(of("/a@")["dependsOn"], json!(["pkg:cargo/b@2.0.0+x"]));
        assert!(Materials::read("0|x\n", &BTreeMap::new()).is_err());
    }
}
