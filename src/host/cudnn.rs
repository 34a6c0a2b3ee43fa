//! cuDNN's libraries in toolkits and in the system's library directories: files, links, copies. No library is loaded.

use super::dpkg::{Packages, upstream};
use super::libraries::Listing;
use super::reader::Reader;
use super::{Cudnn, LibraryFile, Origin, Toolkit, elf};
use crate::system::{System, digest_of_file};
use crate::version::CudnnVersion;
use object::ReadCache;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Every directory with cuDNN libraries: those of toolkits first.
pub fn cudnn(
    reader: &mut Reader,
    packages: Option<&Packages>,
    toolkits: &[Toolkit],
    libraries: &[Listing],
) -> Vec<Cudnn> {
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    for toolkit in toolkits {
        let mut directories = vec![toolkit.path.join("lib64"), toolkit.path.join("lib")];
        let targets = toolkit.path.join("targets");
        directories.extend(reader.names("cuDNN", &targets).into_iter().map(|t| targets.join(t).join("lib")));
        for directory in directories {
            let directory = reader.resolved(directory);
            if !seen.insert(directory.clone()) {
                continue;
            }
            let mut names = reader.names("cuDNN", &directory);
            names.retain(|n| is_cudnn(n));
            let includes = [toolkit.path.join("include"), directory.with_file_name("include")];
            found.extend(in_directory(reader, directory, names, &includes, None));
        }
    }
    for listing in libraries {
        let mut names = listing.names.clone();
        names.retain(|n| is_cudnn(n));
        if seen.insert(listing.directory.clone()) {
            let mut includes = vec![PathBuf::from("/usr/include")];
            // Debian's headers lie under the architecture's name, as its libraries do.
            includes.extend(listing.directory.file_name().map(|triple| Path::new("/usr/include").join(triple)));
            if listing.directory.starts_with("/usr/local") {
                includes.insert(0, PathBuf::from("/usr/local/include"));
            }
            found.extend(in_directory(reader, listing.directory.clone(), names, &includes, packages));
        }
    }
    found
}

fn is_cudnn(name: &str) -> bool {
    name.starts_with("libcudnn") && name.split_once(".so").is_some_and(|(_, v)| v.is_empty() || v.starts_with('.'))
}

fn in_directory(
    reader: &mut Reader,
    directory: PathBuf,
    names: Vec<String>,
    includes: &[PathBuf],
    packages: Option<&Packages>,
) -> Option<Cudnn> {
    if names.is_empty() {
        return None;
    }
    let header = header(reader, includes);
    let by_name = names.iter().filter_map(|n| version_in_name(n)).max();
    let version = by_name.or_else(|| header.as_ref().and_then(|(_, version)| *version));
    let package = version.and_then(|v| packages.and_then(|p| package(p, v)));
    let files = files(reader, &directory, names);
    Some(Cudnn {
        origin: if package.is_some() { Origin::Dpkg } else { Origin::Unknown },
        // The package's version has the build, which neither file names nor headers have.
        version: package.or(version),
        header: header.map(|(path, _)| path),
        directory,
        files,
    })
}

/// The version in `libcudnn.so.9.10.2`; one number alone is a SONAME's.
fn version_in_name(name: &str) -> Option<CudnnVersion> {
    name.strip_prefix("libcudnn.so.")?.parse().ok()
}

/// The version of the package that has the libraries of version `version`.
fn package(packages: &Packages, version: CudnnVersion) -> Option<CudnnVersion> {
    let versions = packages.beginning("libcudnn").filter_map(|(_, v)| upstream(v).parse::<CudnnVersion>().ok());
    versions.filter(|v| v.library_suffix() == version.library_suffix()).max()
}

fn header(reader: &mut Reader, includes: &[PathBuf]) -> Option<(PathBuf, Option<CudnnVersion>)> {
    // Debian's alternatives are named by the line; up to cuDNN 7 there is one header for all.
    let names = ["cudnn_version.h", "cudnn_version_v9.h", "cudnn_version_v8.h", "cudnn.h"];
    for path in includes.iter().flat_map(|d| names.iter().map(move |n| d.join(n))) {
        if let Some(text) = reader.text("cuDNN's header", &path) {
            return Some((path, defines(&text)));
        }
    }
    None
}

/// `#define CUDNN_MAJOR 9` and the other two.
fn defines(text: &str) -> Option<CudnnVersion> {
    let number = |name: &str| {
        text.lines().find_map(|line| {
            let mut words = line.trim_start().strip_prefix('#')?.split_whitespace();
            let named = words.next() == Some("define") && words.next() == Some(name);
            words.next().filter(|_| named)?.parse::<u16>().ok()
        })
    };
    let (major, minor) = (number("CUDNN_MAJOR")?, number("CUDNN_MINOR")?);
    Some(CudnnVersion { major, minor, patch: number("CUDNN_PATCHLEVEL"), build: None })
}

fn files(reader: &mut Reader, directory: &Path, names: Vec<String>) -> Vec<LibraryFile> {
    let mut files: Vec<LibraryFile> = names.into_iter().map(|name| file(reader, directory, name)).collect();
    let mut alike: BTreeMap<(Option<String>, u64), usize> = BTreeMap::new();
    for file in files.iter().filter(|f| f.link.is_none()) {
        *alike.entry((file.soname.clone(), file.size)).or_default() += 1;
    }
    let alike = |f: &LibraryFile| alike.get(&(f.soname.clone(), f.size)).is_some_and(|n| *n > 1);
    // Reading whole libraries takes seconds, so it is done only where a link may have become a copy.
    for file in files.iter_mut().filter(|f| f.link.is_none() && alike(f)) {
        let path = directory.join(&file.name);
        let what = format!("the bytes of {}", path.display());
        file.sha256 = reader.open(&what, &path).and_then(|f| match digest_of_file(f) {
            Ok(sum) => Some(sum),
            Err(e) => {
                reader.miss(&what, e);
                None
            }
        });
    }
    files
}

fn file(reader: &mut Reader, directory: &Path, name: String) -> LibraryFile {
    let path = directory.join(&name);
    let link = reader.system.link_target(&path);
    let size = if link.is_some() { 0 } else { reader.metadata(&path).map_or(0, |m| m.len()) };
    let opened =
        reader.is_file(&path).then(|| reader.open(&format!("the SONAME of {}", path.display()), &path)).flatten();
    LibraryFile { soname: opened.and_then(|f| elf::soname(&ReadCache::new(f))), link, size, sha256: None, name }
}

/// The SONAME of the library that `path` is or leads to; none for anything else.
pub fn soname(system: &System, path: &Path) -> Option<String> {
    elf::soname(&ReadCache::new(system.open(path).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_names_and_headers() {
        let text = |v: Option<CudnnVersion>| v.map(|v| v.to_string());
        assert_eq!(text(version_in_name("libcudnn.so.9.10.2")), Some("9.10.2".into()));
        assert_eq!(text(version_in_name("libcudnn.so.9")), None);
        assert_eq!(text(version_in_name("libcudnn_ops.so.9.10.2")), None);
        let header = "#ifndef X\n#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 9\n  # define CUDNN_PATCHLEVEL 7\n\
                      #define CUDNN_VERSION (CUDNN_MAJOR * 1000 + CUDNN_MINOR)\n";
        assert_eq!(text(defines(header)), Some("8.9.7".into()));
        assert_eq!(text(defines("#define CUDNN_MAJOR x\n")), None);
        assert!(is_cudnn("libcudnn.so") && is_cudnn("libcudnn_ops.so.9"));
        assert!(!is_cudnn("libcudnn_static.a") && !is_cudnn("libcudnn.sonnet"));
    }
}
