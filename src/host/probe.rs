//! All probes, one after the other.

use super::{
    Facts, Os, SCHEMA, Unreadable, cudnn, driver, gpu, kernel, loader, lspci, machine, modules, os, paths,
    repositories, secure_boot, toolkit,
};
use crate::compat::Database;
use crate::system::System;
use std::path::{Path, PathBuf};

/// Where to look, beside the places that are the same on every host.
#[derive(Debug, Clone)]
pub struct Look {
    /// Below which toolkits are.
    pub prefix: PathBuf,
    /// Where downloads would go.
    pub cache: PathBuf,
    /// Where the GPUs are read.
    pub gpus: GpuSource,
}

/// Where the GPUs are read.
#[derive(Debug, Clone)]
pub enum GpuSource {
    /// The PCI bus, in sysfs.
    Bus,
    /// The text that `lspci -nn` printed.
    Lspci(String),
}

/// There is no Linux system below the root.
#[derive(Debug, thiserror::Error)]
#[error("{} is no host: it has no etc/os-release", .0.display())]
pub struct NotAHost(pub PathBuf);

/// What could not be read, gathered on the way.
#[derive(Debug, Default)]
pub struct Notes(Vec<Unreadable>);

impl Notes {
    /// The value, or none with a note of why it could not be read.
    pub fn take<T>(&mut self, what: &str, read: std::io::Result<T>) -> Option<T> {
        read.map_err(|e| self.0.push(Unreadable { what: what.to_owned(), why: e.to_string() })).ok()
    }

    /// A note of something that could not be read.
    pub fn note(&mut self, what: &str, why: &str) {
        self.0.push(Unreadable { what: what.to_owned(), why: why.to_owned() });
    }
}

/// Looks at a host. It changes nothing and runs nothing.
pub fn probe(system: &System, database: &Database, look: &Look) -> Result<Facts, NotAHost> {
    let no_host = || NotAHost(system.root().to_owned());
    let mut notes = Notes::default();
    let release = ["/etc/os-release", "/usr/lib/os-release"]
        .iter()
        .find_map(|path| notes.take(path, system.read_text(path)).flatten())
        .ok_or_else(no_host)?;
    let os: Os = os::probe(system, &release);
    let (gpus, nvswitches) = match &look.gpus {
        GpuSource::Bus => gpu::probe(system, database, &mut notes),
        GpuSource::Lspci(text) => lspci::parse(text, database),
    };
    let machine = machine::probe(system, &mut notes);
    let kernels = kernel::probe(system, &mut notes);
    let loaded_modules = modules::probe(system, &mut notes);
    let (driver, other_drivers) = driver::probe(system, &kernels, &mut notes);
    let toolkits = toolkit::probe(system, database, &look.prefix, &mut notes);
    let cudnn = cudnn::probe(system, &toolkits, &mut notes);
    let spaces =
        [look.cache.as_path(), &look.prefix, Path::new("/"), Path::new("/usr"), Path::new("/var"), Path::new("/boot")];
    let space =
        spaces.iter().filter_map(|p| notes.take(&format!("free space at {}", p.display()), system.space(p))).collect();
    let gcc = os::gcc(system);
    let glibc = os::glibc(system);
    let secure_boot = secure_boot::probe(system, &mut notes);
    let loader_cache = loader::probe(system, &mut notes);
    let nvcc = toolkit::nvcc_on_path(system);
    let repositories = repositories::probe(system, os.package_manager, &mut notes);
    let paths = paths::probe(system, &look.prefix, &mut notes);
    Ok(Facts {
        schema: SCHEMA.to_owned(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        machine,
        os,
        gpus,
        nvswitches,
        kernels,
        gcc,
        glibc,
        secure_boot,
        loaded_modules,
        driver,
        other_drivers,
        toolkits,
        cudnn,
        nvcc,
        loader_cache,
        repositories,
        space,
        paths,
        unreadable: notes.0,
    })
}
