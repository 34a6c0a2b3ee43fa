//! The lists of an rpm repository: `repomd.xml` names the other files, and `primary.xml` has an
//! element for each package.

use super::super::Unknown;
use super::super::records::{Budget, each_record_of, open};
use gpusetup_system::System;
use memchr::memmem;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A package in a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Package {
    /// The package's name, as in `rpm -q`.
    pub(crate) name: String,
    /// `x86_64`, `noarch`.
    pub(crate) architecture: String,
    /// rpm's epoch; `0` if it has none.
    pub(crate) epoch: String,
    /// The version alone.
    pub(crate) version: String,
    /// The release alone.
    pub(crate) release: String,
    pub(crate) provides: Vec<String>,
}

impl Package {
    /// `[epoch:]version-release` as dnf prints it, without an epoch of 0.
    pub(crate) fn evr(&self) -> String {
        let Self {
            epoch,
            version,
            release,
            ..
        } = self;
        if epoch == "0" {
            format!("{version}-{release}")
        } else {
            format!("{epoch}:{version}-{release}")
        }
    }

    /// Parses an element of `primary.xml` without its end tag.
    pub(crate) fn read(element: &[u8]) -> Result<Self, String> {
        let (mut package, mut reader) = (Self::default(), Reader::from_reader(element));
        // Real elements are nested at most twice.
        let (mut path, mut in_provides) = (Vec::new(), false);
        loop {
            match reader.read_event().map_err(|e| e.to_string())? {
                Event::Start(start) => {
                    path.push(start.name().as_ref().to_vec());
                    in_provides |= start.name().as_ref() == b"rpm:provides";
                    if path.len() > 32 {
                        return Err("elements are nested too deeply".to_owned());
                    }
                }
                Event::End(end) => {
                    path.pop();
                    in_provides &= end.name().as_ref() != b"rpm:provides";
                }
                Event::Empty(empty) if empty.name().as_ref() == b"version" => {
                    package.take_version(&empty)?
                }
                Event::Empty(empty) if in_provides && empty.name().as_ref() == b"rpm:entry" => {
                    package.provides.extend(attribute(&empty, "name")?);
                }
                Event::Text(text) => {
                    let text = text.decode().map_err(|e| e.to_string())?;
                    match path.last().map(Vec::as_slice) {
                        Some(b"name") if package.name.is_empty() => {
                            package.name = text.trim().to_owned()
                        }
                        Some(b"arch") if package.architecture.is_empty() => {
                            package.architecture = text.trim().to_owned()
                        }
                        _ => {}
                    }
                }
                Event::Eof => break,
                _ => {}
            }
        }
        if package.name.is_empty() || package.architecture.is_empty() || package.version.is_empty()
        {
            return Err(format!(
                "the package {:?} has no name, architecture or version",
                package.name
            ));
        }
        Ok(package)
    }

    fn take_version(&mut self, element: &BytesStart) -> Result<(), String> {
        self.epoch = attribute(element, "epoch")?
            .filter(|e| !e.is_empty())
            .unwrap_or_else(|| "0".to_owned());
        self.version = attribute(element, "ver")?.unwrap_or_default();
        self.release = attribute(element, "rel")?.unwrap_or_default();
        Ok(())
    }
}

fn attribute(element: &BytesStart, name: &str) -> Result<Option<String>, String> {
    let found = element.try_get_attribute(name).map_err(|e| e.to_string())?;
    found
        .map(|a| {
            a.normalized_value(XmlVersion::Implicit1_0)
                .map(|v| v.into_owned())
                .map_err(|e| e.to_string())
        })
        .transpose()
}

/// The downloaded files of a repository.
#[derive(Debug)]
pub(crate) struct Repodata {
    primary: PathBuf,
    /// The file with module streams, if any.
    pub(crate) modules: Option<PathBuf>,
}

impl Repodata {
    /// Reads `repomd.xml` in a folder; none if it does not exist.
    pub(crate) fn read(
        system: &System,
        folder: &Path,
        budget: &Budget,
    ) -> Result<Option<Self>, Unknown> {
        const LIMIT: u64 = 4 << 20;
        let path = folder.join("repomd.xml");
        if !system.exists(&path) {
            return Ok(None);
        }
        let wrong = |why: String| Unknown::at(&path, why);
        let mut text = Vec::new();
        let file = open(system, &path, budget).map_err(|e| wrong(e.to_string()))?;
        file.take(LIMIT)
            .read_to_end(&mut text)
            .map_err(|e| wrong(e.to_string()))?;
        let all = locations(&text).map_err(wrong)?;
        let [primary, modules] = ["primary", "modules"].map(|kind| {
            let found = all.iter().find(|(of, _)| of == kind);
            found.map(|(_, name)| folder.join(name))
        });
        let primary = primary.ok_or_else(|| wrong("it names no list of packages".to_owned()))?;
        Ok(Some(Self { primary, modules }))
    }

    /// The packages whose name is `wanted`.
    pub(crate) fn packages(
        &self,
        system: &System,
        budget: &Budget,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<Package>, Unknown> {
        let mut packages = Vec::new();
        each_record_of(system, &self.primary, b"</package>", budget, |element| {
            let Some(start) = memmem::find(element, b"<package ") else {
                return Ok(());
            };
            let element = &element[start..];
            let name = memmem::find(element, b"<name>").map(|at| &element[at + 6..]);
            let name = name.and_then(|rest| Some(&rest[..memchr::memchr(b'<', rest)?]));
            let name = std::str::from_utf8(name.ok_or("a package has no name")?)
                .map_err(|e| e.to_string())?;
            if wanted(name) {
                packages.push(Package::read(element)?);
            }
            Ok(())
        })?;
        Ok(packages)
    }
}

/// The kinds and names of the files in a `repomd.xml`.
fn locations(text: &[u8]) -> Result<Vec<(String, String)>, String> {
    let (mut all, mut kind, mut reader) = (Vec::new(), None, Reader::from_reader(text));
    loop {
        match reader.read_event().map_err(|e| e.to_string())? {
            Event::Start(start) if start.name().as_ref() == b"data" => {
                kind = attribute(&start, "type")?
            }
            Event::Empty(empty) if empty.name().as_ref() == b"location" => {
                let href = attribute(&empty, "href")?.unwrap_or_default();
                let name = Path::new(&href).file_name().and_then(|n| n.to_str());
                all.extend(kind.take().zip(name.map(str::to_owned)));
            }
            Event::Eof => return Ok(all),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIMARY: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<metadata xmlns="http://linux.duke.edu/metadata/common" xmlns:rpm="http://linux.duke.edu/metadata/rpm" packages="2">
<package type="rpm">
  <name>nvidia-driver</name>
  <arch>x86_64</arch>
  <version epoch="3" ver="580.95.05" rel="1.el9"/>
  <summary>a &lt;b&gt;</summary>
  <format>
    <rpm:provides><rpm:entry name="nvidia-smi" flags="EQ" epoch="3" ver="1"/><rpm:entry name="x"/></rpm:provides>
    <rpm:requires><rpm:entry name="needed"/></rpm:requires>
  </format>
</package>
<package type="rpm"><name>other</name><arch>noarch</arch><version epoch="0" ver="1" rel="2"/></package>
</metadata>
"#;

    fn host(files: &[(&str, &[u8])]) -> (tempfile::TempDir, System) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        files.iter().for_each(|(name, bytes)| {
            std::fs::write(dir.path().join(name), bytes).expect("written")
        });
        let system = System::at(dir.path());
        (dir, system)
    }

    const REPOMD: &[u8] = br#"<repomd><data type="filelists"><location href="repodata/f.xml"/></data>
        <data type="primary"><checksum>x</checksum><location href="repodata/p.xml"/></data></repomd>"#;

    #[test]
    fn packages_are_found_by_name() {
        let (_dir, system) = host(&[("repomd.xml", REPOMD), ("p.xml", PRIMARY.as_bytes())]);
        let budget = Budget::default();
        let repodata = Repodata::read(&system, Path::new("/"), &budget)
            .expect("read")
            .expect("there");
        assert_eq!(repodata.modules, None);
        let packages = repodata
            .packages(&system, &budget, |name| name != "other")
            .expect("read");
        assert_eq!(packages.len(), 1);
        assert_eq!(
            (packages[0].evr().as_str(), &*packages[0].architecture),
            ("3:580.95.05-1.el9", "x86_64")
        );
        assert_eq!(packages[0].provides, ["nvidia-smi", "x"]);
        let other = repodata
            .packages(&system, &budget, |name| name == "other")
            .expect("read");
        assert_eq!(other[0].evr(), "1-2");
    }

    #[test]
    fn what_is_damaged_is_refused_and_what_is_absent_is_none() {
        let budget = Budget::default();
        let (_dir, system) = host(&[]);
        assert!(
            Repodata::read(&system, Path::new("/"), &budget)
                .expect("absent")
                .is_none()
        );
        let nowhere =
            br#"<repomd><data type="primary"><location href="../../etc/passwd"/></data></repomd>"#;
        let (_dir, system) = host(&[("repomd.xml", nowhere)]);
        let repodata = Repodata::read(&system, Path::new("/"), &budget)
            .expect("read")
            .expect("there");
        assert_eq!(repodata.primary, Path::new("/passwd"));
        assert!(repodata.packages(&system, &budget, |_| true).is_err());
        for odd in [
            "<package ><name>a</name>",
            "<package ><name>a",
            "<package ></x>",
            "<package ><arch>a</arch>",
        ] {
            let text = format!("{odd}</package>");
            let (_dir, system) = host(&[("repomd.xml", REPOMD), ("p.xml", text.as_bytes())]);
            let repodata = Repodata::read(&system, Path::new("/"), &budget)
                .expect("read")
                .expect("there");
            assert!(
                repodata.packages(&system, &budget, |_| true).is_err(),
                "{odd}"
            );
        }
    }
}
