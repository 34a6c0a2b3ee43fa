//! Runs all probes in turn and collects their results in one [`Facts`]. No program is run and
//! nothing is changed.

use super::reader::Reader;
use super::{
    Facts, Gpu, InstalledDriver, Kernels, MachineKind, Missing, NvSwitch, Os, PathState, SCHEMA,
    Toolkit, Unreadable, add_on, companion, compiler, driver, firmware, gpu, graphics, installed,
    kernel, kernel_module, libraries, loader, lspci, machine, modprobe, modules, os, pci, rdma,
    repositories, secure_boot, states_at_boot, thunderbolt, toolkit,
};
use gpusetup_database::compat::{AddOnId, Database, PackageManager, PackageRepository};
use gpusetup_packages::{Note, RepositoryFormat};
use gpusetup_system::{Node, Space, System};
use gpusetup_text::paths::{
    CACHE, CUDA_ALTERNATIVE, LICENCE_UNITS, MIG_LAYOUT, MIG_UNIT, MIG_WANTED, PERSISTENCE_UNITS,
    PERSISTENCE_WANTED, PLANNED, PREFIX, host_compilers,
};
use gpusetup_text::text::quoted_path;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// Where to look.
#[derive(Debug, Clone)]
pub struct ProbeOptions {
    /// The directory of the toolkits, `/usr/local`.
    pub prefix: PathBuf,
    /// The directory of the downloads.
    pub cache: PathBuf,
    /// The source of the GPU list.
    pub gpus: GpuSource,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self {
            prefix: "/usr/local".into(),
            cache: CACHE.into(),
            gpus: GpuSource::Bus,
        }
    }
}

/// The source of the GPU list.
#[derive(Debug, Clone)]
pub enum GpuSource {
    /// The host's PCI bus.
    Bus,
    /// The output of `lspci`, preferably with `-nn` or `-nnk`.
    Lspci(String),
}

/// A directory that is not a Linux host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a Linux host: {why}", root.display())]
pub struct NotAHost {
    /// The root directory.
    pub(crate) root: PathBuf,
    /// What is missing.
    pub(crate) why: String,
}

/// Collects the facts of a host.
///
/// # Errors
///
/// If there is no readable `/etc/os-release`: the tree is not a host.
pub fn probe(system: &System, database: &Database, look: &ProbeOptions) -> Result<Facts, NotAHost> {
    let release = os_release(system)?;
    let system = &system.looked_at();
    let reader = &mut Reader::new(system);
    let machine = machine::machine(reader);
    let os = os::os(reader, &release, database, machine.kind);
    let (gpus, nvswitches) = gpus(reader, database, &look.gpus, machine.kind);
    let kernels = kernel::kernels(reader);
    let packages = installed::Packages::read(reader, &database.add_ons, &database.companions);
    let packages = packages.as_ref();
    let libraries = libraries::listings(reader, &database.add_ons);
    let mut drivers = driver::drivers(reader, packages, os.package_manager, &libraries);
    if let Some(driver) = drivers.first_mut() {
        add_flavour(reader, driver, &kernels);
    }
    let mut drivers = drivers.into_iter();
    let driver = drivers.next();
    let toolkits = toolkit::toolkits(reader, packages, database, &look.prefix);
    let found = add_on::add_ons(reader, &database.add_ons, packages, &toolkits, &libraries);
    let (cudnn, add_ons) = found.into_iter().partition(|a| a.add_on == AddOnId::CUDNN);
    let modprobe = modprobe::configuration(system);
    let gcc = compiler::gcc(reader, packages, &machine.arch);
    let (other_gpus, external_gpus) = (gpu::of_other_vendors(reader), gpu::external(reader, &gpus));
    let thunderbolt = thunderbolt::devices(reader);
    let managers: Vec<_> = nvswitches
        .iter()
        .map(|switch| switch.address.as_str())
        .collect();
    let rdma = rdma::rdma(reader, &managers);
    let firmware = firmware::firmware(reader);
    let signing_keys = secure_boot::signing_keys(reader, firmware.as_ref());
    let mut facts = Facts {
        mig: None,
        container_host: None,
        schema: SCHEMA.to_owned(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        compilers: compiler::compilers(reader, gcc.as_deref(), &machine.arch),
        gcc,
        glibc: compiler::glibc(reader, packages, &libraries::directories()),
        python: os::python(reader, database, &os),
        desktop: graphics::desktop(reader),
        secure_boot: secure_boot::secure_boot(reader, machine.kind),
        signing_key: secure_boot::preferred(&signing_keys),
        signing_keys,
        firmware,
        unfinished_packages: packages.map(|p| p.unfinished.clone()).unwrap_or_default(),
        loaded_modules: modules::loaded(reader),
        blocked_modules: modprobe::blocked(system, &modprobe),
        companions: companion::companions(reader, packages, &database.companions),
        module_options: modprobe::options(system, &modprobe),
        states_at_boot: states_at_boot(system),
        updates_held: updates_held(reader, packages, os.package_manager, driver.as_ref()),
        // Asking the driver takes seconds, so callers that need it run `gpu_states` afterwards.
        gpu_states: Vec::new(),
        cudnn,
        add_ons,
        nvcc: toolkit::nvcc(reader),
        libxml2: Some(
            libraries::directories()
                .iter()
                .any(|d| reader.is_file(d.join("libxml2.so.2"))),
        ),
        loader_cache: loader::cache(reader, &database.add_ons),
        repositories: repositories::repositories(reader, os.package_manager),
        // These lists are long, so callers that need them run `offered` afterwards.
        offered: None,
        signed_drivers: BTreeMap::new(),
        space: space(reader, look),
        paths: paths(
            reader,
            &look.prefix,
            &toolkits,
            (database, &os, &machine.arch),
        ),
        other_drivers: drivers.collect(),
        unreadable: Vec::new(),
        machine,
        os,
        other_gpus,
        external_gpus,
        thunderbolt,
        gpus,
        nvswitches,
        rdma,
        kernels,
        driver,
        toolkit_alternatives: toolkit::alternatives(reader, &toolkits),
        toolkits,
    };
    // Last: whatever was looked at may have been too large.
    reader.note_left_out();
    facts.unreadable = std::mem::take(&mut reader.missed);
    Ok(facts)
}

fn os_release(system: &System) -> Result<String, NotAHost> {
    let why = match system.read_text("/etc/os-release") {
        Ok(Some(text)) => return Ok(text),
        Ok(None) => "it has no etc/os-release".to_owned(),
        Err(e) => format!("its etc/os-release cannot be read: {e}"),
    };
    Err(NotAHost {
        root: system.root().to_owned(),
        why,
    })
}

/// Whether the driver's branch is held, with the kernel. Whether updates of the kernel and the
/// driver are held. Where the record of the installed packages is no file, what gpusetup itself
/// holds tells it.
fn updates_held(
    reader: &mut Reader,
    packages: Option<&installed::Packages>,
    manager: Option<PackageManager>,
    driver: Option<&InstalledDriver>,
) -> Option<bool> {
    let manager = gpusetup_packages::of(manager?);
    let holds = manager.holds.as_ref()?;
    if manager.record_file.is_some() {
        return packages?.holds(holds, driver?.version);
    }
    let ours = gpusetup_packages::held_by_gpusetup(reader.system).ok()?;
    Some(ours.iter().any(|name| holds.is_kernel(name)))
}

fn gpus(
    reader: &mut Reader,
    database: &Database,
    source: &GpuSource,
    kind: MachineKind,
) -> (Vec<Gpu>, Vec<NvSwitch>) {
    match source {
        GpuSource::Lspci(text) => {
            let (gpus, nvswitches, without_ids) = listed_gpus(text, database);
            reader
                .missed
                .extend(without_ids.into_iter().map(Unreadable::without_ids));
            (gpus, nvswitches)
        }
        GpuSource::Bus => {
            let functions = gpu::functions(reader);
            match (kind, &functions) {
                (MachineKind::Wsl2, _) => reader.miss_gpus(
                    Missing::Gpus,
                    "WSL2 shows them only as /dev/dxg, without PCI ids",
                ),
                (MachineKind::Jetson, _) | (_, Some(_)) => {}
                (_, None) => reader.miss_gpus(Missing::Gpus, "/sys/bus/pci/devices does not exist"),
            }
            let (gpus, mut nvswitches) = pci::identify(functions.unwrap_or_default(), database);
            nvswitches.extend(off_the_bus(reader, database, &gpus));
            (gpus, nvswitches)
        }
    }
}

/// The GPUs and NVSwitches in `lspci` output, and its lines that name a GPU without its ids.
pub(crate) fn listed_gpus(
    text: &str,
    database: &Database,
) -> (Vec<Gpu>, Vec<NvSwitch>, BTreeSet<String>) {
    let listing = lspci::parse(text);
    let (mut gpus, nvswitches) = pci::identify(listing.functions, database);
    gpus.iter_mut()
        .for_each(|gpu| gpu.driver_unseen = !listing.shows_drivers);
    (
        gpus,
        nvswitches,
        listing.without_numbers.into_iter().collect(),
    )
}

/// The functions that manage the NVSwitches of boards whose switches are not on the PCI bus. On
/// other hosts no network card is read.
fn off_the_bus(reader: &Reader, database: &Database, gpus: &[Gpu]) -> Vec<NvSwitch> {
    let Some(fabric) = database.fabrics.iter().find(|f| {
        gpus.iter()
            .filter_map(Gpu::device)
            .any(|id| f.gpus.contains(&id))
    }) else {
        return Vec::new();
    };
    let Some(mark) = &fabric.vital_product_data else {
        return Vec::new();
    };
    gpu::switch_managers(reader, mark)
        .into_iter()
        .map(|f| NvSwitch {
            address: f.address,
            pci_id: format!("{:04x}:{:04x}", f.vendor, f.device),
            name: Some(format!("NVSwitch management of {}", fabric.name)),
        })
        .collect()
}

/// Sets the flavour of a driver's modules from the modules themselves if no package showed it.
fn add_flavour(reader: &mut Reader, driver: &mut InstalledDriver, kernels: &Kernels) {
    let built = kernels
        .installed
        .iter()
        .rev()
        .find(|k| k.nvidia_module == Some(driver.version));
    if let (None, Some(kernel)) = (driver.modules, built) {
        let directory = Path::new("/lib/modules").join(&kernel.release);
        driver.modules = kernel_module::flavour(reader, &directory, &kernel.release);
    }
}

fn space(reader: &mut Reader, look: &ProbeOptions) -> Vec<Space> {
    let mut spaces: Vec<Space> = Vec::new();
    let places = [&*look.cache, &*look.prefix]
        .into_iter()
        .chain(["/usr", "/var", "/boot", "/"].map(Path::new));
    for path in places {
        if spaces.iter().any(|s| s.path == path) {
            continue;
        }
        match reader.system.space(path) {
            Ok(space) => spaces.push(space),
            Err(e) => reader.miss(format!("the free space at {}", quoted_path(path)), e),
        }
    }
    spaces
}

/// What a repository that gpusetup adds is for. Each use has its own source, so that one goes
/// without the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepositoryUse {
    /// Drivers and their companions.
    Driver,
    /// CUDA toolkits.
    Toolkit,
    /// The toolkit for containers.
    Containers,
    /// What builds kernel modules.
    BuildTools,
}

impl RepositoryUse {
    /// Every use.
    pub const ALL: [Self; 4] = [
        Self::Driver,
        Self::Toolkit,
        Self::Containers,
        Self::BuildTools,
    ];

    /// The name of such a repository's files on a host of this architecture; none if it has none, or
    /// no toolkits where they are what it is for.
    pub fn name_of(self, repository: &PackageRepository, arch: &str) -> Option<String> {
        match self {
            Self::Driver | Self::Containers | Self::BuildTools => repository.name_for(arch),
            Self::Toolkit => repository
                .toolkit
                .as_ref()
                .and_then(|_| repository.toolkit_name_for(arch)),
        }
    }
}

/// The files that gpusetup writes on a host to add repositories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositoryFiles {
    /// The keys, which both uses share.
    pub keys: BTreeSet<PathBuf>,
    /// The others.
    pub sources: BTreeSet<PathBuf>,
}

/// The files that gpusetup writes on such a host to add a repository for this use.
pub fn repository_files(
    database: &Database,
    os: &Os,
    arch: &str,
    of: RepositoryUse,
) -> RepositoryFiles {
    let mut files = RepositoryFiles::default();
    for AddedRepository {
        format,
        name,
        fingerprints,
    } in added_repositories(database, os, arch, of)
    {
        files.keys.extend(fingerprints.into_iter().map(format.key));
        files.sources.extend((format.paths)(&name));
    }
    files
}

/// What the package manager has noted about the repositories that gpusetup adds to such a host for
/// this use.
pub fn repository_notes(
    system: &System,
    database: &Database,
    os: &Os,
    arch: &str,
    of: RepositoryUse,
) -> io::Result<Vec<Note>> {
    let all = added_repositories(database, os, arch, of).into_iter();
    let notes = all.map(|added| (added.format.noted)(system, &added.name, &added.fingerprints));
    Ok(notes.collect::<io::Result<Vec<_>>>()?.concat())
}

/// A repository as gpusetup adds it: how the manager takes it, the name of its files and the
/// fingerprints of its keys.
struct AddedRepository<'a> {
    format: &'static RepositoryFormat,
    name: String,
    fingerprints: Vec<&'a str>,
}

/// The repositories for this use that such a host can have, each once.
fn added_repositories<'a>(
    database: &'a Database,
    os: &Os,
    arch: &str,
    of: RepositoryUse,
) -> Vec<AddedRepository<'a>> {
    let distribution = database.distribution(&os.id, &os.version, &os.like);
    let offers = distribution
        .map(|d| d.drivers.as_slice())
        .unwrap_or_default();
    let of_drivers = offers
        .iter()
        .filter_map(|offer| offer.repository.adds.as_deref());
    let of_companions = distribution.and_then(|d| d.companion_repository.as_deref());
    let ids: BTreeSet<&str> = match of {
        RepositoryUse::Driver | RepositoryUse::Toolkit => of_drivers.chain(of_companions).collect(),
        RepositoryUse::Containers => {
            let manager = distribution.map(|d| d.package_manager);
            manager
                .and_then(|manager| database.container_repository(manager))
                .map(|r| r.id.as_str())
                .into_iter()
                .collect()
        }
        RepositoryUse::BuildTools => {
            let extra = distribution.into_iter().flat_map(|d| &d.extra_repositories);
            extra.filter_map(|extra| extra.adds.as_deref()).collect()
        }
    };
    ids.into_iter()
        .filter_map(|id| database.package_repository(id))
        .filter_map(|repository| {
            let format = gpusetup_packages::of(repository.package_manager)
                .added
                .as_ref()?;
            let fingerprints = database
                .keys_of(repository)
                .map(|key| key.fingerprint.as_str())
                .collect();
            Some(AddedRepository {
                format,
                name: of.name_of(repository, arch)?,
                fingerprints,
            })
        })
        .collect()
}

/// The state of every path that a plan may write.
fn paths(
    reader: &mut Reader,
    prefix: &Path,
    toolkits: &[Toolkit],
    (database, os, arch): (&Database, &Os, &str),
) -> BTreeMap<PathBuf, PathState> {
    let mut states = BTreeMap::new();
    let units = PERSISTENCE_UNITS.into_iter().chain(LICENCE_UNITS);
    let ours = PLANNED
        .iter()
        .copied()
        .chain(units)
        .chain([PERSISTENCE_WANTED])
        .map(PathBuf::from)
        .chain([prefix.join("cuda")]);
    let compilers = toolkits
        .iter()
        .filter(|t| t.path.parent() == Some(prefix))
        .flat_map(|t| host_compilers(&t.path));
    let mig = [MIG_LAYOUT, MIG_UNIT, MIG_WANTED].map(PathBuf::from);
    let of_companions = database.companions.iter().flat_map(|of| {
        let files = of.archive.iter().map(|file| &file.to).chain(&of.peers);
        files
            .map(PathBuf::from)
            .chain(of.module_file().map(PathBuf::from))
            .collect::<Vec<_>>()
    });
    let of_repositories = RepositoryUse::ALL.into_iter().flat_map(|of| {
        let RepositoryFiles { keys, sources } = repository_files(database, os, arch, of);
        keys.into_iter().chain(sources)
    });
    let alternative = [PathBuf::from(CUDA_ALTERNATIVE)];
    // Toolkits elsewhere are found by their links alone: `cuda`, or `cuda-12.8`.
    let elsewhere = toolkits
        .iter()
        .filter(|t| t.has_own_directory() && t.path.parent() != Some(prefix));
    let links = elsewhere.map(|t| prefix.join(t.version.directory()));
    for path in of_repositories
        .chain(mig)
        .chain(of_companions)
        .chain(alternative)
        .chain(links)
    {
        match reader.system.node(&path) {
            // Hosts have none of nearly all of them.
            Ok(Node::Absent) => {}
            Ok(node) => {
                let modified = reader.system.modified(&path);
                states.insert(path, PathState { node, modified });
            }
            Err(e) => reader.miss(format!("the state of {}", quoted_path(path.as_ref())), e),
        }
    }
    for path in other_names(prefix, toolkits) {
        if let Ok(node @ Node::Link { .. }) = reader.system.node(&path) {
            let modified = reader.system.modified(&path);
            states.insert(path, PathState { node, modified });
        }
    }
    for path in ours.chain(compilers) {
        match reader.system.node(&path) {
            Ok(node) => {
                states.insert(
                    path.clone(),
                    PathState {
                        node,
                        modified: reader.system.modified(&path),
                    },
                );
            }
            Err(e) => reader.miss(format!("the state of {}", quoted_path(path.as_ref())), e),
        }
    }
    states
}

/// The links by which toolkits may have other names: `cuda`, `cuda-12` and `cuda-12.8`, below the
/// prefix and below the usual one.
fn other_names(prefix: &Path, toolkits: &[Toolkit]) -> BTreeSet<PathBuf> {
    let own = toolkits
        .iter()
        .filter(|toolkit| toolkit.has_own_directory());
    let of_versions = own.flat_map(|toolkit| {
        [
            toolkit.version.directory(),
            format!("cuda-{}", toolkit.version.major),
        ]
    });
    let names: Vec<_> = of_versions.chain(["cuda".to_owned()]).collect();
    [prefix, Path::new(PREFIX)]
        .into_iter()
        .flat_map(|folder| names.iter().map(|name| folder.join(name)))
        .collect()
}
