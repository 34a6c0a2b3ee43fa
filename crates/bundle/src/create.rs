//! Making a bundle: what goes into it, and the writing of it as a folder or as one archive. Nothing
//! has its final name before all of it is there.

use super::form::{self, BundleStorage, Folder, Head};
use super::manifest::{
    self, DATABASE, Entry, MANIFEST, Manifest, PLANS, PROGRAM, PlanId, Repository, SCHEMA,
    SIGNATURE, artifact,
};
use super::repository::Closure;
use super::{Bundle, BundleError};
use crate::database::store;
use gpusetup_database::compat::{Database, DatabaseId, PackageManager};
use gpusetup_database::sum::{sha256, short};
use gpusetup_host::{SystemId, c_library_version, needed_c_library};
use gpusetup_plan::Plan;
use gpusetup_resolve::summary;
use gpusetup_system::{System, digest, input, interrupt, output};
use object::ReadCache;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What goes into a bundle.
#[derive(Debug)]
pub struct Contents {
    manifest: Manifest,
    /// The manifest as it was read, with its signature, which is over these bytes and no others.
    read: Option<Head>,
    bytes: BTreeMap<String, From>,
}

/// Where a file's bytes are.
#[derive(Debug)]
enum From {
    Memory(Vec<u8>),
    /// A gpusetup of this machine; `/proc/self/exe` is the one that runs, whatever became of its
    /// file since.
    Program(PathBuf),
    /// A file of a bundle.
    Bundle(Folder, String),
    /// A file of the host that the bundle is made on, which may be a tree.
    OnHost(System, PathBuf),
}

impl From {
    fn open(&self) -> Result<Box<dyn Read + '_>, BundleError> {
        Ok(match self {
            Self::Memory(bytes) => Box::new(bytes.as_slice()),
            Self::Program(_) | Self::Bundle(..) | Self::OnHost(..) => Box::new(self.file()?),
        })
    }

    fn file(&self) -> Result<File, BundleError> {
        match self {
            Self::Memory(_) => Err(BundleError::Read(io::ErrorKind::Unsupported.into())),
            Self::Program(path) => Ok(input::open(path)?),
            Self::Bundle(folder, name) => folder
                .open(name)
                .map_err(BundleError::io(&folder.join(name))),
            Self::OnHost(on, path) => on.open(path).map_err(BundleError::io(path)),
        }
    }
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BundleSize {
    /// Files.
    pub files: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes on the disk.
    pub on_disk: u64,
}

impl Contents {
    /// Nothing yet but a gpusetup for the hosts, the database, and these plans, which were made
    /// with it.
    pub fn of(
        plans: &[Plan],
        database: &Database,
        program: &Path,
        created: &str,
    ) -> Result<Self, BundleError> {
        starts_on_all(program, plans)?;
        let manifest = Manifest {
            schema: SCHEMA.to_owned(),
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            created: created.to_owned(),
            database: DatabaseId::of(database),
            plans: Vec::new(),
            packages: Vec::new(),
            files: BTreeMap::new(),
        };
        let mut contents = Self {
            manifest,
            read: None,
            bytes: BTreeMap::new(),
        };
        let compact =
            store::to_compact(database).map_err(|e| BundleError::Write(io::Error::other(e)))?;
        contents.add(DATABASE, compact);
        contents.add_file(PROGRAM, From::Program(program.to_owned()), None)?;
        for plan in plans {
            let fingerprint = plan.fingerprint();
            let file = format!("{PLANS}/{}.json", short(&fingerprint));
            if contents.bytes.contains_key(&file) {
                continue;
            }
            let mut text =
                serde_json::to_vec_pretty(plan).map_err(|e| BundleError::Write(e.into()))?;
            text.push(b'\n');
            contents.add(&file, text);
            contents.manifest.plans.push(PlanId {
                file,
                fingerprint,
                choice: summary(&plan.selection),
                system: SystemId::of(&plan.host),
            });
        }
        Ok(contents)
    }

    /// The files of a bundle that is a folder, to be packed as it is, with its signature.
    pub fn of_bundle(bundle: &Bundle) -> Result<Self, BundleError> {
        let BundleStorage::Folder(folder) = &bundle.form else {
            return Err(BundleError::Strange(
                "no folder: it is an archive already".to_owned(),
            ));
        };
        let bytes = bundle
            .manifest
            .files
            .keys()
            .map(|name| (name.clone(), From::Bundle(folder.clone(), name.clone())))
            .collect();
        Ok(Self {
            manifest: bundle.manifest.clone(),
            read: Some(bundle.form.head()?),
            bytes,
        })
    }

    fn add(&mut self, name: &str, bytes: Vec<u8>) {
        let entry = Entry {
            size: bytes.len() as u64,
            sha256: sha256(&bytes),
        };
        self.manifest.files.insert(name.to_owned(), entry);
        self.bytes.insert(name.to_owned(), From::Memory(bytes));
    }

    fn add_file(&mut self, name: &str, from: From, sum: Option<&str>) -> Result<(), BundleError> {
        let file = from.file()?;
        let size = file.metadata().map_err(BundleError::Read)?.len();
        let sha256 = match sum {
            Some(sum) => sum.to_owned(),
            None => digest(file).map_err(BundleError::Read)?,
        };
        self.manifest
            .files
            .insert(name.to_owned(), Entry { size, sha256 });
        self.bytes.insert(name.to_owned(), from);
        Ok(())
    }

    /// With a verified download, which several plans may share.
    pub fn artifact(&mut self, on: &System, sum: &str, path: &Path) -> Result<(), BundleError> {
        let name = artifact(sum, &path.file_name().unwrap_or_default().to_string_lossy());
        self.add_file(&name, From::OnHost(on.clone(), path.to_owned()), Some(sum))
    }

    /// With a repository of packages.
    pub fn packages(
        &mut self,
        on: &System,
        system: SystemId,
        manager: PackageManager,
        closure: Closure,
    ) -> Result<(), BundleError> {
        let folder = manifest::folder(&system);
        for (name, path) in closure.packages {
            self.add_file(
                &format!("{folder}/{name}"),
                From::OnHost(on.clone(), path),
                None,
            )?;
        }
        for (name, bytes) in closure.indices {
            self.add(&format!("{folder}/{name}"), bytes);
        }
        self.manifest.packages.push(Repository {
            folder,
            system,
            manager,
            offers: closure.offers,
        });
        Ok(())
    }

    /// Files, in the order in which they are written: what is asked for first comes first.
    fn in_order(&self) -> Vec<(&String, &Entry)> {
        let (mut first, rest): (Vec<_>, Vec<_>) = self
            .manifest
            .files
            .iter()
            .partition(|(name, _)| *name == DATABASE || name.starts_with(PLANS));
        first.extend(rest);
        first
    }

    /// Writes all of it to `out`: an archive where the name ends in `.tar.zst`, else a folder.
    /// `tell` hears the bytes written.
    pub fn write(
        &self,
        out: &Path,
        tell: &mut dyn FnMut(u64, u64),
    ) -> Result<BundleSize, BundleError> {
        // Whatever a plan or a package is called, and whoever wrote to the folder since: what is
        // written can be read.
        let text = self
            .read
            .as_ref()
            .map_or_else(|| self.manifest.text(), |head| head.manifest.clone());
        if Manifest::read(&text)? != self.manifest {
            return Err(BundleError::Altered(vec![MANIFEST.to_owned()]));
        }
        let mut name = OsString::from(".");
        name.push(out.file_name().unwrap_or_default());
        name.push(".gpusetup-new");
        let new = out.with_file_name(name);
        output::clear(&new).map_err(BundleError::io(&new))?;
        let written = if is_archive(out) {
            self.pack(&new, tell)
        } else {
            self.lay_out(&new, tell)
        };
        if let Err(e) = written {
            let _ = output::clear(&new);
            // What tar and zstd make of an interruption is an error like any other.
            return Err(if interrupt::heard().is_some() {
                BundleError::Interrupted
            } else {
                e
            });
        }
        output::rename(&new, out).map_err(BundleError::io(out))?;
        let size = self.manifest.size();
        let on_disk = input::metadata(out)
            .filter(|_| is_archive(out))
            .map_or(size, |meta| meta.len());
        Ok(BundleSize {
            files: self.manifest.files.len() as u64,
            bytes: size,
            on_disk,
        })
    }

    fn lay_out(&self, folder: &Path, tell: &mut dyn FnMut(u64, u64)) -> Result<(), BundleError> {
        output::make_directories(folder).map_err(BundleError::io(folder))?;
        let (all, mut before) = (self.manifest.size(), 0);
        for (name, entry) in self.in_order() {
            let to = folder.join(name);
            let parent = to.parent().unwrap_or(folder);
            output::make_directories(parent).map_err(BundleError::io(parent))?;
            let mut out = output::create(&to, form::mode(name)).map_err(BundleError::io(&to))?;
            let came = form::copy(&mut *self.open(name)?, &mut out, entry.size, &mut |have| {
                tell(before + have, all)
            })?;
            held(name, entry, &came)?;
            before += entry.size;
        }
        for (name, bytes) in self.head() {
            let path = folder.join(name);
            output::write(&path, &bytes).map_err(BundleError::io(&path))?;
        }
        output::sync_file_system(folder).map_err(BundleError::io(folder))
    }

    fn pack(&self, file: &Path, tell: &mut dyn FnMut(u64, u64)) -> Result<(), BundleError> {
        let failed = |e| BundleError::io(file)(e);
        let mut archive =
            form::Writer::into(output::create(file, 0o644).map_err(failed)?).map_err(failed)?;
        for (name, bytes) in self.head() {
            archive
                .add(name, bytes.len() as u64, 0o644, &mut bytes.as_slice())
                .map_err(failed)?;
        }
        let (all, mut before) = (self.manifest.size(), 0);
        for (name, entry) in self.in_order() {
            let mut summed = Summed {
                from: self.open(name)?,
                sum: Default::default(),
                have: 0,
            };
            archive
                .add(
                    name,
                    entry.size,
                    form::mode(name),
                    &mut (&mut summed).take(entry.size),
                )
                .map_err(failed)?;
            held(name, entry, &summed.end())?;
            before += entry.size;
            tell(before, all);
        }
        archive.end().map_err(failed)
    }

    /// The manifest, and its signature where there is one.
    fn head(&self) -> Vec<(&'static str, Vec<u8>)> {
        let Some(Head {
            manifest,
            signature,
        }) = &self.read
        else {
            return vec![(MANIFEST, self.manifest.text())];
        };
        let signature = signature.clone().map(|bytes| (SIGNATURE, bytes));
        [(MANIFEST, manifest.clone())]
            .into_iter()
            .chain(signature)
            .collect()
    }

    fn open(&self, name: &str) -> Result<Box<dyn Read + '_>, BundleError> {
        self.bytes
            .get(name)
            .ok_or_else(|| BundleError::Altered(vec![name.to_owned()]))?
            .open()
    }
}

/// Refuses a program that needs a newer C library than a plan's host has.
fn starts_on_all(program: &Path, plans: &[Plan]) -> Result<(), BundleError> {
    let file = input::open(program)?;
    let Some(needed) = needed_c_library(&ReadCache::new(file)) else {
        return Ok(());
    };
    plans
        .iter()
        .find(|plan| {
            plan.host
                .glibc
                .as_deref()
                .and_then(c_library_version)
                .is_some_and(|has| has < needed)
        })
        .map_or(Ok(()), |plan| {
            let glibc = plan.host.glibc.clone().unwrap_or_default();
            // Links like /proc/self/exe say little.
            let program = input::canonical(program);
            Err(BundleError::Unstartable {
                program,
                needed,
                host: SystemId::of(&plan.host).to_string(),
                glibc,
            })
        })
}

/// Whether a bundle of this name is an archive.
pub fn is_archive(out: &Path) -> bool {
    out.to_string_lossy().ends_with(".tar.zst")
}

/// What was read must be what the manifest says, or the bundle would be refused by everybody.
fn held(name: &str, entry: &Entry, came: &(String, u64)) -> Result<(), BundleError> {
    if entry.is(came) {
        Ok(())
    } else {
        Err(BundleError::Altered(vec![name.to_owned()]))
    }
}

/// Sums what is read through it.
struct Summed<'a> {
    from: Box<dyn Read + 'a>,
    sum: sha2::Sha256,
    have: u64,
}

impl Summed<'_> {
    fn end(self) -> (String, u64) {
        (
            gpusetup_database::sum::hex(&sha2::Digest::finalize(self.sum)),
            self.have,
        )
    }
}

impl Read for Summed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if interrupt::heard().is_some() {
            return Err(io::Error::other("interrupted"));
        }
        let n = self.from.read(bytes)?;
        sha2::Digest::update(&mut self.sum, &bytes[..n]);
        self.have += n as u64;
        Ok(n)
    }
}
