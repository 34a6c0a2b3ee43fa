//! The default gcc and the C library, from files and packages. Neither is run: starting a compiler
//! to ask for its version would take longer than the whole plan.

use super::installed::Packages;
use super::reader::Reader;
use super::{Compiler, elf, kernel};
use gpusetup_packages::upstream;
use gpusetup_text::text::quoted_path;
use object::ReadCache;
use std::collections::BTreeSet;
use std::path::Path;

/// The version of the gcc that `cc` or `gcc` leads to: `12.2.0`, or `12` if only the major version
/// is known.
pub(crate) fn gcc(reader: &mut Reader, packages: Option<&Packages>, arch: &str) -> Option<String> {
    let program = ["/usr/bin/gcc", "/usr/bin/cc"]
        .into_iter()
        .find(|p| reader.is_file(p))?;
    let name = reader
        .resolved(program)
        .file_name()?
        .to_string_lossy()
        .into_owned();
    // gcc-12, x86_64-linux-gnu-gcc-12
    if let Some((_, major)) = name.rsplit_once("gcc-").filter(|(_, v)| is_version(v)) {
        let package = packages.and_then(|p| p.version(&format!("gcc-{major}")));
        return Some(package.map_or(major, upstream).to_owned());
    }
    // A gcc without a version in its name keeps its parts in a directory named after the version.
    let what = "the default gcc";
    let mut versions = Vec::new();
    // Cross compilers have directories with another machine's triple next to it.
    for triple in reader
        .names(what, "/usr/lib/gcc")
        .into_iter()
        .filter(|t| t.split('-').next() == Some(arch))
    {
        versions.extend(
            reader
                .names(what, Path::new("/usr/lib/gcc").join(triple))
                .into_iter()
                .filter(|v| is_version(v)),
        );
    }
    versions.sort_by(|a, b| kernel::compare(a, b));
    versions.dedup();
    if versions.is_empty() {
        reader.miss(
            what,
            format_args!("{program} exists, but nothing shows its version"),
        );
    }
    versions.pop()
}

/// Every gcc in `/usr/bin`; `default` is the version of the one without a number in its name.
pub(crate) fn compilers(reader: &mut Reader, default: Option<&str>, arch: &str) -> Vec<Compiler> {
    const BIN: &str = "/usr/bin";
    let with_cxx = with_cxx(reader, arch);
    let own = default.and_then(major).map(|major| (major, String::new()));
    let names = reader.names("the installed compilers", BIN);
    let mut numbers: Vec<u16> = names
        .iter()
        .filter_map(|n| n.strip_prefix("gcc-")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let numbered = numbers
        .into_iter()
        .map(|major| (major, format!("-{major}")))
        .filter(|(_, end)| reader.is_file(format!("{BIN}/gcc{end}")));
    own.into_iter()
        .chain(numbered)
        .map(|(major, end)| {
            let gxx = Path::new(BIN).join(format!("g++{end}"));
            Compiler {
                major,
                gcc: Path::new(BIN).join(format!("gcc{end}")),
                gxx: Some(gxx).filter(|gxx| with_cxx.contains(&major) && reader.is_file(gxx)),
            }
        })
        .collect()
}

/// The major versions of gcc whose C++ compiler proper and library headers are installed.
fn with_cxx(reader: &mut Reader, arch: &str) -> BTreeSet<u16> {
    let what = "the installed C++ compilers";
    // Debian's triple for ppc64le is powerpc64le-linux-gnu.
    let own = [
        arch,
        if arch == "ppc64le" {
            "powerpc64le"
        } else {
            arch
        },
    ];
    let mut found = BTreeSet::new();
    // Red Hat, and Debian since 13, keep it below libexec, SUSE below lib64.
    for base in ["/usr/libexec/gcc", "/usr/lib/gcc", "/usr/lib64/gcc"].map(Path::new) {
        let triples = reader.names(what, base).into_iter();
        for triple in triples.filter(|t| {
            t.split('-')
                .next()
                .is_some_and(|first| own.contains(&first))
        }) {
            for version in reader.names(what, base.join(&triple)) {
                let headers = Path::new("/usr/include/c++").join(&version);
                if reader.is_file(base.join(&triple).join(&version).join("cc1plus"))
                    && reader.system.exists(headers)
                {
                    found.extend(major(&version));
                }
            }
        }
    }
    found
}

fn major(version: &str) -> Option<u16> {
    version.split('.').next()?.parse().ok()
}

fn is_version(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// The version of the C library: `2.36`.
pub(crate) fn glibc(
    reader: &mut Reader,
    packages: Option<&Packages>,
    libraries: &[&Path],
) -> Option<String> {
    let package = packages.and_then(|p| p.version("libc6").or_else(|| p.version("libc6.1")));
    if let Some(version) = package {
        return Some(upstream(version).to_owned());
    }
    let path = libraries
        .iter()
        .map(|d| d.join("libc.so.6"))
        .find(|p| reader.is_file(p))?;
    // Up to 2.33 the file is a link to libc-2.33.so.
    let file = reader
        .resolved(&path)
        .file_name()?
        .to_string_lossy()
        .into_owned();
    if let Some(version) = file
        .strip_prefix("libc-")
        .and_then(|n| n.strip_suffix(".so"))
    {
        return Some(version.to_owned());
    }
    let what = "the C library's version";
    let version = elf::c_library(&ReadCache::new(reader.open(what, &path)?));
    if version.is_none() {
        reader.miss(
            what,
            format_args!("{} has no version banner", quoted_path(&path)),
        );
    }
    version
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_system::System;

    #[test]
    fn the_library_itself_says_what_its_package_says() {
        let system = System::live();
        let mut reader = Reader::new(&system);
        let packages = Packages::read(&mut reader, &[], &[]);
        let directories = crate::libraries::directories();
        let by_package = glibc(&mut reader, packages.as_ref(), &directories);
        let by_file = glibc(&mut reader, None, &directories);
        assert!(by_file.is_some(), "{:?}", reader.missed);
        if by_package.is_some() {
            assert_eq!(by_file, by_package);
        }
    }

    #[test]
    fn the_compiler_is_told_by_its_links() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        system.make_directories("/usr/bin", 0o755).expect("made");
        system
            .make_directories("/usr/lib/gcc/x86_64-redhat-linux/11", 0o755)
            .expect("made");
        system
            .make_directories("/usr/lib/gcc/x86_64-redhat-linux/8", 0o755)
            .expect("made");
        system
            .make_directories("/usr/lib/gcc/aarch64-linux-gnu/13", 0o755)
            .expect("made");
        let gcc = |reader: &mut Reader| gcc(reader, None, "x86_64");
        assert_eq!(gcc(&mut Reader::new(&system)), None);
        system.write("/usr/bin/gcc", b"", 0o755).expect("written");
        assert_eq!(gcc(&mut Reader::new(&system)).as_deref(), Some("11"));
        system
            .write("/usr/bin/x86_64-linux-gnu-gcc-13", b"", 0o755)
            .expect("written");
        system
            .link("/usr/bin/gcc-13", Path::new("x86_64-linux-gnu-gcc-13"))
            .expect("linked");
        system
            .link("/usr/bin/gcc", Path::new("gcc-13"))
            .expect("linked");
        assert_eq!(gcc(&mut Reader::new(&system)).as_deref(), Some("13"));
    }

    /// A tree with these files, all empty.
    fn tree(files: &[&str]) -> (tempfile::TempDir, System) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        for file in files {
            system
                .make_directories(Path::new(file).parent().expect("absolute"), 0o755)
                .expect("made");
            system.write(file, b"", 0o755).expect("written");
        }
        (dir, system)
    }

    #[test]
    fn a_gcc_compiles_cxx_only_with_a_compiler_proper_and_headers() {
        let (_dir, system) = tree(&[
            "/usr/bin/gcc",
            "/usr/bin/g++",
            "/usr/bin/gcc-13",
            "/usr/bin/g++-13",
            "/usr/bin/gcc-14",
            "/usr/bin/gcc-15",
            "/usr/bin/g++-15",
            "/usr/bin/gcc-ar-13",
            "/usr/libexec/gcc/x86_64-linux-gnu/13/cc1plus",
            "/usr/libexec/gcc/x86_64-linux-gnu/14/cc1plus",
            "/usr/libexec/gcc/aarch64-linux-gnu/15/cc1plus",
            "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus",
            "/usr/include/c++/12/cmath",
            "/usr/include/c++/13/cmath",
            "/usr/include/c++/15/cmath",
        ]);
        let found = compilers(&mut Reader::new(&system), Some("12.2.0"), "x86_64");
        let listed: Vec<_> = found
            .iter()
            .map(|c| {
                (
                    c.major,
                    c.gcc.to_str(),
                    c.gxx.as_deref().and_then(Path::to_str),
                )
            })
            .collect();
        assert_eq!(
            listed,
            [
                (12, Some("/usr/bin/gcc"), Some("/usr/bin/g++")),
                (13, Some("/usr/bin/gcc-13"), Some("/usr/bin/g++-13")),
                // Neither headers nor g++-14.
                (14, Some("/usr/bin/gcc-14"), None),
                // For another machine.
                (15, Some("/usr/bin/gcc-15"), None),
            ]
        );
        let (_dir, system) = tree(&["/usr/bin/gcc", "/usr/bin/g++"]);
        let found = compilers(&mut Reader::new(&system), Some("12"), "x86_64");
        assert!(found.len() == 1 && found[0].gxx.is_none(), "{found:?}");
    }
}
