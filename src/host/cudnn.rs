//! cuDNN's libraries: in toolkits and in the system's library folders.

use super::driver::LIBRARY_FOLDERS;
use super::probe::Notes;
use super::{Cudnn, LibraryFile, Origin, Toolkit};
use crate::system::{System, digest};
use crate::version::CudnnVersion;
use object::read::elf::{Dyn, ElfFile64, FileHeader};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Each folder that has some.
pub fn probe(system: &System, toolkits: &[Toolkit], notes: &mut Notes) -> Vec<Cudnn> {
    let mut folders: Vec<PathBuf> = toolkits.iter().map(|t| t.path.join("lib64")).collect();
    folders.extend(LIBRARY_FOLDERS.iter().map(PathBuf::from));
    let (mut out, mut seen) = (Vec::new(), Vec::new());
    for folder in folders {
        let Ok(real) = system.locate_target(&folder) else { continue };
        if !real.is_dir() || seen.contains(&real) {
            continue;
        }
        seen.push(real.clone());
        let names = notes.take(&folder.display().to_string(), system.list(&folder)).unwrap_or_default();
        let names: Vec<_> = names.into_iter().filter(|n| n.starts_with("libcudnn") && n.contains(".so")).collect();
        if names.is_empty() {
            continue;
        }
        let files = files(system, &folder, &names);
        let header = header(system, &folder);
        let version = version(&files).or_else(|| header.as_ref().and_then(|h| by_header(&system.read_text(h).ok()??)));
        let origin = if LIBRARY_FOLDERS.iter().any(|f| Path::new(f) == folder) && system.exists("/var/lib/dpkg/status")
        {
            Origin::Dpkg
        } else {
            Origin::Unknown
        };
        out.push(Cudnn { version, directory: folder, origin, header, files });
    }
    out
}

fn files(system: &System, folder: &Path, names: &[String]) -> Vec<LibraryFile> {
    let mut files: Vec<LibraryFile> = names
        .iter()
        .map(|name| {
            let path = folder.join(name);
            let link = system.link_target(&path);
            let size = system.locate(&path).and_then(|p| p.symlink_metadata()).map_or(0, |m| m.len());
            LibraryFile {
                soname: soname(system, &path),
                size: if link.is_some() { 0 } else { size },
                link,
                name: name.clone(),
                sha256: None,
            }
        })
        .collect();
    // Hundreds of megabytes are read only where two files of one SONAME and size might be copies of each other.
    let mut alike: HashMap<(Option<String>, u64), usize> = HashMap::new();
    for file in files.iter().filter(|f| f.link.is_none()) {
        *alike.entry((file.soname.clone(), file.size)).or_default() += 1;
    }
    for file in files.iter_mut().filter(|f| f.link.is_none()) {
        if alike.get(&(file.soname.clone(), file.size)).is_some_and(|n| *n > 1) {
            file.sha256 = system.open(folder.join(&file.name)).and_then(digest).ok();
        }
    }
    files
}

/// The SONAME of the ELF file that a path is or leads to.
pub fn soname(system: &System, path: &Path) -> Option<String> {
    let file = system.open(path).ok()?;
    let cache = object::ReadCache::new(file);
    let elf: ElfFile64<object::Endianness, _> = ElfFile64::parse(&cache).ok()?;
    let endian = elf.endian();
    let header = elf.elf_header();
    let sections = header.sections(endian, &cache).ok()?;
    let (dynamic, strings) = sections.dynamic(endian, &cache).ok()??;
    let strings = sections.strings(endian, &cache, strings).ok()?;
    let entry = dynamic.iter().find(|d| d.tag32(endian) == Some(object::elf::DT_SONAME))?;
    let name = strings.get(u32::try_from(entry.d_val(endian)).ok()?).ok()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// By the longest file name: `libcudnn.so.9.10.2`.
fn version(files: &[LibraryFile]) -> Option<CudnnVersion> {
    let of = |f: &LibraryFile| f.name.strip_prefix("libcudnn.so.")?.parse::<CudnnVersion>().ok();
    files.iter().filter(|f| f.link.is_none()).filter_map(of).max()
}

fn header(system: &System, folder: &Path) -> Option<PathBuf> {
    let beside = folder.parent()?.join("include");
    let places = [beside.join("cudnn_version.h"), beside.join("cudnn.h"), "/usr/include/cudnn_version.h".into()];
    places.into_iter().find(|p| system.exists(p))
}

/// `#define CUDNN_MAJOR 9` and so on.
fn by_header(text: &str) -> Option<CudnnVersion> {
    let define = |name: &str| {
        text.lines()
            .find_map(|l| l.trim().strip_prefix("#define")?.trim().strip_prefix(name)?.trim().parse::<u16>().ok())
    };
    Some(CudnnVersion {
        major: define("CUDNN_MAJOR ")?,
        minor: define("CUDNN_MINOR ")?,
        patch: define("CUDNN_PATCHLEVEL "),
        build: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_its_version() {
        let text = "#ifndef X\n#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 10\n#define CUDNN_PATCHLEVEL 2\n#define CUDNN_VERSION (CUDNN_MAJOR * 10000)\n";
        assert_eq!(by_header(text).map(|v| v.to_string()).as_deref(), Some("9.10.2"));
        assert_eq!(by_header("#define CUDNN_MAJOR nine"), None);
    }
}
