//! Which CUDA libraries a framework loads, by the rules of the loader (ld.so(8)): the directories
//! in RPATH, unless the library has RUNPATH; then LD_LIBRARY_PATH; then those in RUNPATH; then the
//! cache. torch's wheels have RPATH, so that LD_LIBRARY_PATH does not change which libcudnn.so.9
//! they load; cuDNN 9 up to 9.2x has RUNPATH, so that it changes which parts that one loads.

use super::find::Place;
use super::{EnvironmentKind, FoundBy, LoadedLibrary};
use gpusetup_host::{Dynamic, Facts, elf_dynamic};
use gpusetup_system::System;
use object::ReadCache;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The frameworks' libraries that ask for CUDA's, below the directory of packages.
const ASKING: [&str; 5] = [
    "torch/lib/libc10_cuda.so",
    "tensorflow/libtensorflow_cc.so.2",
    "jax_plugins/xla_cuda12/xla_cuda_plugin.so",
    "jax_plugins/xla_cuda13/xla_cuda_plugin.so",
    "onnxruntime/capi/libonnxruntime_providers_cuda.so",
];

/// The libraries that matter: others go with these.
const WANTED: [&str; 3] = ["libcudart.so.", "libcudnn.so.", "libcublas.so."];

/// The parts of cuDNN that its main library opens: one stands for all.
const PARTS: [(&str, &str); 2] = [
    ("libcudnn.so.9", "libcudnn_graph.so.9"),
    ("libcudnn.so.8", "libcudnn_ops_infer.so.8"),
];

/// The most directories of NVIDIA's packages in an environment.
const MAX_FOLDERS: usize = 64;
/// The most libraries of an environment that matter: it has some five.
const MAX_LIBRARIES: usize = 24;
/// The most directories of one RPATH: torch's has some fifteen.
const MAX_SEARCHED: usize = 48;

/// What the frameworks of an environment load.
pub(crate) fn loaded(loader: &Loader, place: &Place) -> Vec<LoadedLibrary> {
    let system = loader.system;
    let own = own(system, place);
    let mut asking: Vec<_> = place
        .packages
        .iter()
        .flat_map(|p| ASKING.map(|file| p.join(file)))
        .collect();
    if place.kind == EnvironmentKind::Conda {
        asking.push(place.path.join("lib/libc10_cuda.so"));
    }
    let mut found: Vec<LoadedLibrary> = Vec::new();
    for file in asking {
        let Some(dynamic) = dynamic(system, &file) else {
            continue;
        };
        let needed = dynamic
            .needed
            .iter()
            .filter(|name| is_wanted(name))
            .take(MAX_LIBRARIES);
        // Frameworks open cuDNN and cuBLAS later, with the same directories.
        let sonames: BTreeSet<_> = needed.chain(own.keys()).cloned().collect();
        for soname in sonames {
            let one = loader.load(&file, &dynamic, &soname, own.get(&soname));
            // A library of an environment that this framework does not need is no concern.
            if one.path.is_none() && !dynamic.needed.contains(&soname) {
                continue;
            }
            let part = PARTS
                .iter()
                .find(|(main, _)| *main == soname)
                .zip(one.path.clone());
            found.push(one);
            if let Some(((_, part), main)) = part {
                found.extend(loader.part(&main, part));
            }
        }
    }
    found.sort_by(|a, b| (&a.soname, &a.by).cmp(&(&b.soname, &b.by)));
    found.dedup();
    found
}

fn is_wanted(soname: &str) -> bool {
    WANTED.iter().any(|start| {
        soname.strip_prefix(start).is_some_and(|end| {
            (1..=3).contains(&end.len()) && end.bytes().all(|b| b.is_ascii_digit())
        })
    })
}

/// The CUDA libraries of the environment's own packages, by their names.
fn own(system: &System, place: &Place) -> BTreeMap<String, PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for packages in &place.packages {
        let nvidia = packages.join("nvidia");
        let names = system
            .list(&nvidia)
            .unwrap_or_default()
            .into_iter()
            .take(MAX_FOLDERS);
        folders.extend(names.map(|name| nvidia.join(name).join("lib")));
    }
    if place.kind == EnvironmentKind::Conda {
        folders.push(place.path.join("lib"));
    }
    let mut own = BTreeMap::new();
    for folder in folders {
        for name in system
            .list(&folder)
            .unwrap_or_default()
            .into_iter()
            .filter(|name| is_wanted(name))
        {
            if own.len() >= MAX_LIBRARIES {
                return own;
            }
            own.entry(name.clone()).or_insert_with(|| folder.join(name));
        }
    }
    own
}

fn dynamic(system: &System, file: &Path) -> Option<Dynamic> {
    elf_dynamic(&ReadCache::new(system.open_metered(file).ok()?))
}

/// The loader, with the environment of the caller.
pub(crate) struct Loader<'a> {
    system: &'a System,
    /// The directories of the caller's LD_LIBRARY_PATH.
    library_path: Vec<PathBuf>,
    /// The files that the cache has for each name, in its order.
    cache: BTreeMap<&'a str, Vec<&'a Path>>,
    /// The first of them that exists, of the names that were asked for: each file is looked for
    /// once.
    cached: RefCell<BTreeMap<String, Option<PathBuf>>>,
}

impl<'a> Loader<'a> {
    /// The loader of this host.
    pub(crate) fn of(system: &'a System, facts: &'a Facts, library_path: Vec<PathBuf>) -> Self {
        let mut cache: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
        for (soname, path) in facts.loader_cache.iter().flat_map(|cache| &cache.entries) {
            cache.entry(soname).or_default().push(path);
        }
        Self {
            system,
            library_path,
            cache,
            cached: RefCell::default(),
        }
    }

    /// What the loader finds in its cache.
    fn cached(&self, soname: &str) -> Option<PathBuf> {
        if let Some(known) = self.cached.borrow().get(soname) {
            return known.clone();
        }
        let found = self
            .cache
            .get(soname)
            .and_then(|all| all.iter().find(|path| self.system.exists(path)));
        let found = found.map(|path| path.to_path_buf());
        self.cached
            .borrow_mut()
            .insert(soname.to_owned(), found.clone());
        found
    }

    /// What the library `by` gets when it asks for this name.
    fn load(
        &self,
        by: &Path,
        dynamic: &Dynamic,
        soname: &str,
        own: Option<&PathBuf>,
    ) -> LoadedLibrary {
        let origin = self.system.canonical(by).unwrap_or_else(|_| by.to_owned());
        let origin = origin.parent().unwrap_or(Path::new("/")).to_owned();
        let rpath = match dynamic.runpath {
            Some(_) => Vec::new(),
            None => searched(&dynamic.rpath, &origin),
        };
        let runpath = searched(&dynamic.runpath, &origin);
        let library_path = self.library_path.clone();
        let searched = [
            (rpath, FoundBy::Library),
            (library_path, FoundBy::LibraryPath),
            (runpath, FoundBy::Library),
        ];
        let in_folders = searched.into_iter().find_map(|(folders, found_by)| {
            let file = folders
                .into_iter()
                .map(|folder| folder.join(soname))
                .find(|file| self.system.exists(file))?;
            Some((file, found_by))
        });
        let found = in_folders.or_else(|| Some((self.cached(soname)?, FoundBy::Cache)));
        let (path, found_by) = found.map_or((None, FoundBy::Nothing), |(path, by)| {
            (Some(self.system.canonical(&path).unwrap_or(path)), by)
        });
        LoadedLibrary {
            by: by
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            soname: soname.to_owned(),
            path,
            own: own.map(|own| self.system.canonical(own).unwrap_or_else(|_| own.clone())),
            found_by,
        }
    }

    /// The part of cuDNN that its main library opens; its own is beside it.
    fn part(&self, main: &Path, part: &str) -> Option<LoadedLibrary> {
        let beside = main.parent()?.join(part);
        let dynamic = dynamic(self.system, main)?;
        let own = self.system.exists(&beside).then_some(beside);
        own.is_some()
            .then(|| self.load(main, &dynamic, part, own.as_ref()))
    }
}

/// The directories of RPATH or RUNPATH.
fn searched(paths: &Option<String>, origin: &Path) -> Vec<PathBuf> {
    let all = paths
        .iter()
        .flat_map(|paths| paths.split(':'))
        .filter(|path| !path.is_empty());
    all.take(MAX_SEARCHED)
        .map(|path| PathBuf::from(expanded(path, origin)))
        .collect()
}

/// A directory of RPATH with `$ORIGIN` filled in, without `..`: the files that it leads to are
/// compared by their names.
fn expanded(path: &str, origin: &Path) -> String {
    let origin = origin.to_string_lossy();
    let full = path
        .replace("${ORIGIN}", &origin)
        .replace("$ORIGIN", &origin);
    let mut parts: Vec<&str> = Vec::new();
    for part in full
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
    {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_data::embedded;
    use gpusetup_host::{LoaderCache, stock};

    #[test]
    fn a_file_of_the_cache_is_looked_for_once() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        let mut facts = stock(&embedded(), "debian:12", None).expect("known");
        let entry = |name: &str, path: &str| (name.to_owned(), PathBuf::from(path));
        let entries = vec![
            entry("a.so", "/none/a.so"),
            entry("a.so", "/a.so"),
            entry("b.so", "/b.so"),
        ];
        facts.loader_cache = Some(LoaderCache {
            modified: 0,
            entries,
        });
        system.write("/a.so", b"", 0o644).expect("written");
        let loader = Loader::of(&system, &facts, Vec::new());
        assert_eq!(
            (loader.cached("a.so"), loader.cached("b.so")),
            (Some("/a.so".into()), None)
        );
        system.write("/b.so", b"", 0o644).expect("written");
        system.remove("/a.so").expect("removed");
        assert_eq!(
            (loader.cached("a.so"), loader.cached("b.so")),
            (Some("/a.so".into()), None)
        );
    }
}
