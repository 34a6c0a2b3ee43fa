//! Add-ons' libraries in toolkits and in the system library directories: files, links, copies. No
//! library is loaded.

use super::installed::Packages;
use super::libraries::Listing;
use super::reader::Reader;
use super::{AddOnFiles, LibraryFile, Origin, Toolkit, elf};
use gpusetup_database::compat::AddOn;
use gpusetup_database::version::AddOnVersion;
use gpusetup_packages::upstream;
use gpusetup_system::System;
use gpusetup_text::text::quoted_path;
use object::ReadCache;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Every directory with libraries of these add-ons, by add-on; toolkits come first.
pub(crate) fn add_ons(
    reader: &mut Reader,
    known: &[AddOn],
    packages: Option<&Packages>,
    toolkits: &[Toolkit],
    libraries: &[Listing],
) -> Vec<AddOnFiles> {
    let mut folders: Vec<Folder> = Vec::new();
    for toolkit in toolkits {
        for directory in library_directories(reader, toolkit) {
            if folders.iter().all(|f| f.directory != directory) {
                let names = reader.names("add-ons", &directory);
                let includes = vec![
                    toolkit.path.join("include"),
                    directory.with_file_name("include"),
                ];
                folders.push(Folder {
                    directory,
                    names,
                    includes,
                    packages: None,
                });
            }
        }
    }
    for listing in libraries {
        if folders.iter().all(|f| f.directory != listing.directory) {
            let (directory, names) = (listing.directory.clone(), listing.names.clone());
            folders.push(Folder {
                includes: system_includes(&directory),
                directory,
                names,
                packages,
            });
        }
    }
    known
        .iter()
        .flat_map(|of| {
            folders
                .iter()
                .filter_map(|f| in_folder(reader, of, f))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// A directory of libraries.
struct Folder<'a> {
    /// The path, links resolved.
    directory: PathBuf,
    names: Vec<String>,
    /// The directories of the matching headers.
    includes: Vec<PathBuf>,
    /// The packages that may have installed the libraries.
    packages: Option<&'a Packages>,
}

fn library_directories(reader: &mut Reader, toolkit: &Toolkit) -> Vec<PathBuf> {
    let mut directories = vec![toolkit.path.join("lib64"), toolkit.path.join("lib")];
    let targets = toolkit.path.join("targets");
    directories.extend(
        reader
            .names("add-ons", &targets)
            .into_iter()
            .map(|t| targets.join(t).join("lib")),
    );
    directories
        .into_iter()
        .map(|directory| reader.resolved(directory))
        .collect()
}

fn system_includes(libraries: &Path) -> Vec<PathBuf> {
    let mut includes = vec![PathBuf::from("/usr/include")];
    // Debian keeps headers, like libraries, below a directory named after the architecture.
    includes.extend(
        libraries
            .file_name()
            .map(|triple| Path::new("/usr/include").join(triple)),
    );
    if libraries.starts_with("/usr/local") {
        includes.insert(0, PathBuf::from("/usr/local/include"));
    }
    includes
}

fn in_folder(reader: &mut Reader, of: &AddOn, folder: &Folder) -> Option<AddOnFiles> {
    let names: Vec<_> = folder
        .names
        .iter()
        .filter(|name| of.has_library(name))
        .cloned()
        .collect();
    if names.is_empty() {
        return None;
    }
    let header = header(reader, of, &folder.includes);
    let by_name = names
        .iter()
        .filter_map(|name| version_in_name(of, name))
        .max();
    let version = by_name.or_else(|| header.as_ref().and_then(|(_, version)| *version));
    let package = version.and_then(|v| folder.packages.and_then(|p| package(p, of, v)));
    let (package, cuda_major) =
        package.map_or((None, None), |(version, major)| (Some(version), major));
    let files = files(reader, &folder.directory, names);
    Some(AddOnFiles {
        add_on: of.id,
        origin: if package.is_some() {
            Origin::Dpkg
        } else {
            Origin::Unknown
        },
        // Only the package's version has the build number; file names and headers lack it.
        version: package.or(version),
        cuda_major,
        header: header.map(|(path, _)| path),
        directory: folder.directory.clone(),
        files,
    })
}

/// The version in `libcudnn.so.9.10.2`; a single number is a SONAME's.
fn version_in_name(of: &AddOn, name: &str) -> Option<AddOnVersion> {
    name.strip_prefix(&of.library)?
        .strip_prefix(".so.")?
        .parse()
        .ok()
}

/// The version of the package that contains the libraries of `version`, and the CUDA major version
/// that it is for.
fn package(
    packages: &Packages,
    of: &AddOn,
    version: AddOnVersion,
) -> Option<(AddOnVersion, Option<u16>)> {
    packages
        .of(of)
        .filter_map(|(name, v)| Some((upstream(v).parse::<AddOnVersion>().ok()?, cuda_of(name, v))))
        .filter(|(v, _)| v.has_files_of(version))
        .max()
}

/// The CUDA major version in a package's name or version: `libcudnn9-cuda-13`, `2.27.7-1+cuda12.9`.
fn cuda_of(name: &str, version: &str) -> Option<u16> {
    let (_, after) = name
        .split_once("-cuda-")
        .or_else(|| version.split_once("+cuda"))?;
    after
        .split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

fn header(
    reader: &mut Reader,
    of: &AddOn,
    includes: &[PathBuf],
) -> Option<(PathBuf, Option<AddOnVersion>)> {
    for path in includes
        .iter()
        .flat_map(|d| of.headers.iter().map(move |n| d.join(n)))
    {
        if let Some(text) = reader.text("an add-on's header", &path) {
            return Some((path, defined(&text, &of.macros)));
        }
    }
    None
}

/// The version that a header defines in these macros: `#define CUDNN_MAJOR 9`.
fn defined(text: &str, macros: &[String]) -> Option<AddOnVersion> {
    let mut numbers = macros.iter().map(|name| number(text, name, MAX_NAMES));
    let (major, minor) = (numbers.next()??, numbers.next()??);
    let mut rest = numbers.map_while(|n| n);
    let patch = rest.next();
    Some(AddOnVersion {
        major,
        minor,
        patch,
        build: rest.next(),
    })
}

/// The longest chain of macros that is followed.
const MAX_NAMES: usize = 4;

/// The number that a macro expands to. One macro may name another: `#define NV_TENSORRT_MAJOR
/// TRT_MAJOR_ENTERPRISE`.
fn number(text: &str, name: &str, names_left: usize) -> Option<u16> {
    let value = text.lines().find_map(|line| {
        let mut words = line.trim_start().strip_prefix('#')?.split_whitespace();
        let is_it = words.next() == Some("define") && words.next() == Some(name);
        words.next().filter(|_| is_it)
    })?;
    value
        .parse()
        .ok()
        .or_else(|| number(text, value, names_left.checked_sub(1)?))
}

/// How many of an add-on's libraries are read in a folder; TensorRT has some twenty.
const MAX_FILES: usize = 500;

fn files(reader: &mut Reader, directory: &Path, names: Vec<String>) -> Vec<LibraryFile> {
    if names.len() > MAX_FILES {
        reader.system.leave_out(
            directory,
            &format!("it has {} of an add-on's libraries", names.len()),
        );
    }
    let names = names.into_iter().take(MAX_FILES);
    let mut files: Vec<LibraryFile> = names.map(|name| file(reader, directory, name)).collect();
    let mut alike: BTreeMap<(Option<String>, u64), usize> = BTreeMap::new();
    for file in files.iter().filter(|f| f.link.is_none()) {
        *alike.entry((file.soname.clone(), file.size)).or_default() += 1;
    }
    // Hashing whole libraries takes seconds, so only files that may be copies in place of a link
    // are hashed, and each once however many names it has.
    let mut summed: BTreeMap<(u64, u64), Option<String>> = BTreeMap::new();
    for file in files.iter_mut().filter(|f| f.link.is_none()) {
        if alike.get(&(file.soname.clone(), file.size)) == Some(&1) {
            continue;
        }
        let path = directory.join(&file.name);
        let what = format!("the bytes of {}", quoted_path(&path));
        let Some(inode) = reader.metadata(&path).map(|meta| (meta.dev(), meta.ino())) else {
            continue;
        };
        let sum = summed.entry(inode).or_insert_with(|| {
            let sum = reader.system.sum(&path);
            sum.map_err(|e| reader.miss(&what, e)).ok()
        });
        file.sha256 = sum.clone();
    }
    files
}

fn file(reader: &mut Reader, directory: &Path, name: String) -> LibraryFile {
    let path = directory.join(&name);
    let link = reader.system.link_target(&path);
    let size = if link.is_some() {
        0
    } else {
        reader.metadata(&path).map_or(0, |m| m.len())
    };
    let opened = reader
        .is_file(&path)
        .then(|| reader.open(&format!("the SONAME of {}", quoted_path(&path)), &path))
        .flatten();
    LibraryFile {
        soname: opened.and_then(|f| elf::soname(&ReadCache::new(f))),
        link,
        size,
        sha256: None,
        name,
    }
}

/// The SONAME of the library at `path`, links followed; none for anything else.
pub fn soname(system: &System, path: &Path) -> Option<String> {
    elf::soname(&ReadCache::new(system.open_metered(path).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_data::embedded;
    use gpusetup_database::compat::AddOnId;

    #[test]
    fn versions_are_read_from_names_and_headers() {
        let database = embedded();
        let cudnn = database.add_on(AddOnId::CUDNN).expect("known");
        let text = |v: Option<AddOnVersion>| v.map(|v| v.to_string());
        assert_eq!(
            text(version_in_name(cudnn, "libcudnn.so.9.10.2")),
            Some("9.10.2".into())
        );
        assert_eq!(text(version_in_name(cudnn, "libcudnn.so.9")), None);
        assert_eq!(text(version_in_name(cudnn, "libcudnn_ops.so.9.10.2")), None);
        let header = "#ifndef X\n#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 9\n  # define CUDNN_PATCHLEVEL 7\n\
                      #define CUDNN_VERSION (CUDNN_MAJOR * 1000 + CUDNN_MINOR)\n";
        assert_eq!(text(defined(header, &cudnn.macros)), Some("8.9.7".into()));
        assert_eq!(
            text(defined("#define CUDNN_MAJOR x\n", &cudnn.macros)),
            None
        );
    }

    #[test]
    fn packages_say_which_cuda_they_are_for() {
        for (name, version, major) in [
            ("libcudnn9-cuda-13", "9.28.0.42-1", Some(13)),
            ("libnccl2", "2.27.7-1+cuda12.9", Some(12)),
            ("libcudnn8", "8.9.7.29-1+cuda11.8", Some(11)),
            ("nvidia-cudnn", "8.9.2.26~cuda12+3", None),
        ] {
            assert_eq!(cuda_of(name, version), major, "{name} {version}");
        }
    }

    #[test]
    fn a_macro_may_stand_for_another() {
        let header = "#define TRT_MAJOR_ENTERPRISE 10\n#define NV_TENSORRT_MAJOR TRT_MAJOR_ENTERPRISE //!< major\n\
                      #define LOOP LOOP\n";
        assert_eq!(number(header, "NV_TENSORRT_MAJOR", MAX_NAMES), Some(10));
        assert_eq!(number(header, "LOOP", MAX_NAMES), None);
    }
}
