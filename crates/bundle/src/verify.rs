//! `bundle verify`: every file checked against the manifest, and what is missing, altered or
//! surplus named.

use super::BundleError;
use super::form::{self, Archive, BundleStorage, Folder};
use super::manifest::{Entry, MANIFEST, Manifest, SIGNATURE};
use gpusetup_system::{input, on_all_cores};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// What a bundle's files came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Findings {
    /// Named by the manifest, and not there.
    pub missing: Vec<String>,
    /// There, and not what the manifest says.
    pub altered: Vec<String>,
    /// There, and not named by the manifest: nothing uses it.
    pub surplus: Vec<String>,
}

impl Findings {
    /// Whether there is nothing wrong.
    pub fn is_sound(&self) -> bool {
        self.missing.is_empty() && self.altered.is_empty() && self.surplus.is_empty()
    }
}

/// Reads all of a bundle.
///
/// # Errors
///
/// If it cannot be read; what is wrong with its files is in the findings.
pub fn verify(form: &BundleStorage, manifest: &Manifest) -> Result<Findings, BundleError> {
    match form {
        BundleStorage::Folder(folder) => in_folder(folder, manifest),
        BundleStorage::Archive(archive) => in_archive(archive, manifest),
    }
}

fn in_archive(archive: &Archive, manifest: &Manifest) -> Result<Findings, BundleError> {
    let mut findings = Findings::default();
    let mut left: BTreeSet<&String> = manifest.files.keys().collect();
    form::each(archive, &mut |name, bytes| {
        match manifest.files.get(name) {
            Some(entry) => {
                left.remove(&name.to_owned());
                let came = form::copy(bytes, &mut io::sink(), entry.size, &mut |_| {})?;
                if !entry.is(&came) {
                    findings.altered.push(name.to_owned());
                }
            }
            None => findings.surplus.push(format!("{}", name.escape_default())),
        }
        Ok(())
    })?;
    findings.missing = left.into_iter().cloned().collect();
    Ok(findings)
}

/// As many files at once as there are cores: the sums are most of the work where the disk is fast.
fn in_folder(folder: &Folder, manifest: &Manifest) -> Result<Findings, BundleError> {
    let mut there = BTreeSet::new();
    let path = folder.path();
    walk(path, "", &mut there).map_err(BundleError::io(path))?;
    let mut findings = Findings::default();
    let named: Vec<_> = manifest.files.iter().collect();
    let read = on_all_cores(&named, |(name, entry)| is_as(folder, name, entry));
    for ((name, _), is_so) in named.into_iter().zip(read) {
        match is_so {
            Ok(true) => {}
            Err(BundleError::Interrupted) => return Err(BundleError::Interrupted),
            Ok(false) | Err(_) if there.contains(name) => findings.altered.push(name.clone()),
            Ok(false) | Err(_) => findings.missing.push(name.clone()),
        }
    }
    findings.surplus = there
        .into_iter()
        .filter(|name| {
            !(name == MANIFEST || name == SIGNATURE || manifest.files.contains_key(name))
        })
        .map(|n| n.escape_default().to_string())
        .collect();
    findings.altered.sort();
    findings.missing.sort();
    Ok(findings)
}

fn is_as(folder: &Folder, name: &str, entry: &Entry) -> Result<bool, BundleError> {
    let path = folder.join(name);
    let mut file = folder.open(name).map_err(BundleError::io(&path))?;
    if file.metadata().map_err(BundleError::io(&path))?.len() != entry.size {
        return Ok(false);
    }
    let came = form::copy(&mut file, &mut io::sink(), entry.size, &mut |_| {})?;
    Ok(entry.is(&came))
}

/// Everything in a folder but folders, by its path; links are not followed.
fn walk(folder: &Path, at: &str, found: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in input::entries(folder)? {
        let name = entry
            .path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let path = if at.is_empty() {
            name
        } else {
            format!("{at}/{name}")
        };
        if entry.is_directory {
            walk(&entry.path, &path, found)?;
        } else {
            found.insert(path);
        }
    }
    Ok(())
}
