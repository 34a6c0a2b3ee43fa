//! Loads the YAML files: the one loader for the build, for `--database DIR` and for tests.

use super::{
    AddOn, AddOnArtifact, AddOnRange, Architecture, Bulletin, Companion, CompilerLimit, Component,
    ComponentNeed, ComponentRelease, ContainerToolkit, CudaArtifact, CudaGuide, CudaRelease,
    Database, Disagreement, Distribution, DriverBranch, DriverRelease, Engine, Fabric,
    ForwardCompatibility, Framework, Gpu, HotplugRule, Instance, JetPack, MigClient, MigProfile,
    NvLinks, NvSwitch, PackageRepository, Platform, Problem, Rename, SigningKey, Source, Sxid,
    System, VirtualGpus, Wsl2Gpus, Xid, check,
};
use crate::sum::sha256;
use crate::yaml::{self, Mistake};
use serde::Deserialize;
use std::cmp::Reverse;
use std::path::{Path, PathBuf};

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A directory or a file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A required folder is missing.
    #[error("{} is not a database: it has no folder {folder}/", path.display())]
    NoDatabase {
        /// The file or directory.
        path: PathBuf,
        /// The missing folder.
        folder: &'static str,
    },
    /// Files that do not match the format of their kind, with the first mistake in each.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Shape(Vec<Misshapen>),
    /// Facts that contradict each other or are impossible.
    #[error("{} wrong facts:\n{}", .0.len(), .0.iter().map(|p| format!("  {p}")).collect::<Vec<_>>().join("\n"))]
    Wrong(Vec<Problem>),
}

/// A place where a file does not match the format of its kind.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}:{column}: {}{problem}", key.as_ref().map(|k| format!("{k}: ")).unwrap_or_default())]
pub struct Misshapen {
    /// The file, relative to the database's folder.
    pub file: String,
    /// The line, from 1; 0 for the whole file.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// The key at or before that place.
    pub key: Option<String>,
    /// What is wrong.
    pub problem: String,
}

/// The content of a file: any of these lists, each of which may be spread over several files.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    version: Option<String>,
    expires: Option<String>,
    sources: Vec<Source>,
    architectures: Vec<Architecture>,
    gpus: Vec<Gpu>,
    virtual_gpus: Vec<VirtualGpus>,
    nvswitches: Vec<NvSwitch>,
    nvlinks: Vec<NvLinks>,
    fabrics: Vec<Fabric>,
    instances: Vec<Instance>,
    systems: Vec<System>,
    platforms: Vec<Platform>,
    jetpacks: Vec<JetPack>,
    hotplug_rules: Vec<HotplugRule>,
    wsl2_gpus: Vec<Wsl2Gpus>,
    companions: Vec<Companion>,
    engines: Vec<Engine>,
    container_toolkits: Vec<ContainerToolkit>,
    #[serde(default)]
    bulletins: Vec<Bulletin>,
    xids: Vec<Xid>,
    #[serde(default)]
    sxids: Vec<Sxid>,
    driver_branches: Vec<DriverBranch>,
    drivers: Vec<DriverRelease>,
    cuda: Vec<CudaRelease>,
    cuda_artifacts: Vec<CudaArtifact>,
    components: Vec<Component>,
    component_needs: Vec<ComponentNeed>,
    component_releases: Vec<ComponentRelease>,
    add_ons: Vec<AddOn>,
    add_on_ranges: Vec<AddOnRange>,
    add_on_artifacts: Vec<AddOnArtifact>,
    compiler_limits: Vec<CompilerLimit>,
    distributions: Vec<Distribution>,
    package_repositories: Vec<PackageRepository>,
    signing_keys: Vec<SigningKey>,
    frameworks: Vec<Framework>,
    cuda_guides: Vec<CudaGuide>,
    forward_compatibility: Vec<ForwardCompatibility>,
    renames: Vec<Rename>,
    mig_clients: Vec<MigClient>,
    mig_profiles: Vec<MigProfile>,
    disagreements: Vec<Disagreement>,
}

/// Loads the database from a folder with `compat/` and `manifests/`, and checks every fact in it.
///
/// # Errors
///
/// If a file cannot be read or does not match its format, or if facts contradict each other.
pub fn load(folder: &Path) -> Result<Database, LoadError> {
    let files = files(folder)?;
    parse(
        files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str())),
    )
}

/// The files of a database's folder, by name, with their contents.
pub fn files(folder: &Path) -> Result<Vec<(String, String)>, LoadError> {
    let mut files = Vec::new();
    for kind in ["compat", "manifests"] {
        let path = folder.join(kind);
        if !path.is_dir() {
            return Err(LoadError::NoDatabase {
                path: folder.to_owned(),
                folder: kind,
            });
        }
        read_folder(&path, folder, &mut files)?;
    }
    files.sort();
    Ok(files)
}

fn read_folder(
    folder: &Path,
    top: &Path,
    files: &mut Vec<(String, String)>,
) -> Result<(), LoadError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| LoadError::Read { path, source }
    };
    for entry in std::fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        if path.is_dir() {
            read_folder(&path, top, files)?;
        } else if path.extension().is_some_and(|e| e == "yaml") {
            let name = path
                .strip_prefix(top)
                .unwrap_or(&path)
                .display()
                .to_string();
            files.push((name, std::fs::read_to_string(&path).map_err(failed(&path))?));
        }
    }
    Ok(())
}

/// Parses the database from these files, given as names and contents in the order of the names.
///
/// # Errors
///
/// If a file does not match its format, or if facts contradict each other.
pub fn parse<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Database, LoadError> {
    let (mut all, mut summed, mut misshapes) = (File::default(), String::new(), Vec::new());
    let files: Vec<_> = files.into_iter().collect();
    for (name, text) in &files {
        summed += &format!("{name} {}\n", sha256(text));
        let file: File = match yaml::read(text) {
            Ok(file) => file,
            Err(e) => {
                misshapes.push(misshapen(name, text, e));
                continue;
            }
        };
        all.version = all.version.or(file.version);
        all.expires = all.expires.or(file.expires);
        all.sources.extend(file.sources);
        all.architectures.extend(file.architectures);
        all.gpus.extend(file.gpus);
        all.virtual_gpus.extend(file.virtual_gpus);
        all.nvswitches.extend(file.nvswitches);
        all.nvlinks.extend(file.nvlinks);
        all.fabrics.extend(file.fabrics);
        all.instances.extend(file.instances);
        all.systems.extend(file.systems);
        all.platforms.extend(file.platforms);
        all.jetpacks.extend(file.jetpacks);
        all.hotplug_rules.extend(file.hotplug_rules);
        all.wsl2_gpus.extend(file.wsl2_gpus);
        all.companions.extend(file.companions);
        all.engines.extend(file.engines);
        all.container_toolkits.extend(file.container_toolkits);
        all.bulletins.extend(file.bulletins);
        all.xids.extend(file.xids);
        all.sxids.extend(file.sxids);
        all.driver_branches.extend(file.driver_branches);
        all.drivers.extend(file.drivers);
        all.cuda.extend(file.cuda);
        all.cuda_artifacts.extend(file.cuda_artifacts);
        all.components.extend(file.components);
        all.component_needs.extend(file.component_needs);
        all.component_releases.extend(file.component_releases);
        all.add_ons.extend(file.add_ons);
        all.add_on_ranges.extend(file.add_on_ranges);
        all.add_on_artifacts.extend(file.add_on_artifacts);
        all.compiler_limits.extend(file.compiler_limits);
        all.distributions.extend(file.distributions);
        all.package_repositories.extend(file.package_repositories);
        all.signing_keys.extend(file.signing_keys);
        all.frameworks.extend(file.frameworks);
        all.cuda_guides.extend(file.cuda_guides);
        all.forward_compatibility.extend(file.forward_compatibility);
        all.renames.extend(file.renames);
        all.mig_clients.extend(file.mig_clients);
        all.mig_profiles.extend(file.mig_profiles);
        all.disagreements.extend(file.disagreements);
    }
    if !misshapes.is_empty() {
        return Err(LoadError::Shape(misshapes));
    }
    let mut database = Database {
        version: all.version.unwrap_or_default(),
        expires: all.expires,
        sha256: sha256(summed),
        sources: all.sources,
        architectures: all.architectures,
        gpus: all.gpus,
        virtual_gpus: all.virtual_gpus,
        nvswitches: all.nvswitches,
        nvlinks: all.nvlinks,
        fabrics: all.fabrics,
        instances: all.instances,
        systems: all.systems,
        platforms: all.platforms,
        jetpacks: all.jetpacks,
        hotplug_rules: all.hotplug_rules,
        wsl2_gpus: all.wsl2_gpus,
        companions: all.companions,
        engines: all.engines,
        container_toolkits: all.container_toolkits,
        bulletins: all.bulletins,
        xids: all.xids,
        sxids: all.sxids,
        driver_branches: all.driver_branches,
        drivers: all.drivers,
        cuda: all.cuda,
        cuda_artifacts: all.cuda_artifacts,
        components: all.components,
        component_needs: all.component_needs,
        component_releases: all.component_releases,
        add_ons: all.add_ons,
        add_on_ranges: all.add_on_ranges,
        add_on_artifacts: all.add_on_artifacts,
        compiler_limits: all.compiler_limits,
        distributions: all.distributions,
        package_repositories: all.package_repositories,
        signing_keys: all.signing_keys,
        frameworks: all.frameworks,
        cuda_guides: all.cuda_guides,
        forward_compatibility: all.forward_compatibility,
        renames: all.renames,
        mig_clients: all.mig_clients,
        mig_profiles: all.mig_profiles,
        disagreements: all.disagreements,
        index: Default::default(),
    };
    database
        .distributions
        .iter_mut()
        .for_each(Distribution::add_signed_offers);
    // Independent of the file that a fact is in; queries rely on this order.
    database.architectures.sort_by_key(|a| a.compute_capability);
    database
        .gpus
        .sort_by(|a, b| (a.device, &a.subsystem).cmp(&(b.device, &b.subsystem)));
    database.virtual_gpus.sort_by_key(|v| v.device);
    database
        .bulletins
        .sort_by(|a, b| b.published.cmp(&a.published));
    database.driver_branches.sort_by_key(|b| Reverse(b.branch));
    database.drivers.sort_by_key(|d| Reverse(d.version));
    database.cuda.sort_by_key(|c| Reverse(c.version));
    database.cuda_guides.sort_by_key(|g| Reverse(g.cuda));
    database.cuda_artifacts.sort_by_key(|a| Reverse(a.version));
    database
        .component_releases
        .sort_by_key(|r| Reverse(r.version));
    database.add_ons.sort_by_key(|a| (!a.by_default, a.id));
    database
        .add_on_ranges
        .sort_by_key(|r| (r.add_on, Reverse(r.from)));
    database
        .add_on_artifacts
        .sort_by_key(|a| (a.add_on, Reverse(a.version)));
    let mut problems = check::check(&database);
    problems
        .iter_mut()
        .for_each(|p| p.locate(files.iter().copied()));
    if problems.is_empty() {
        Ok(database)
    } else {
        Err(LoadError::Wrong(problems))
    }
}

fn misshapen(
    file: &str,
    text: &str,
    Mistake {
        line,
        column,
        problem,
    }: Mistake,
) -> Misshapen {
    // A missing key has no place: the text names it.
    let key = if problem.starts_with("missing field") {
        None
    } else {
        key_at(text, line, column)
    };
    Misshapen {
        file: file.to_owned(),
        line,
        column,
        key,
        problem,
    }
}

/// The key at a place: the last `key:` that starts at or before it in its line.
fn key_at(text: &str, line: u64, column: u64) -> Option<String> {
    let line = text
        .lines()
        .nth(usize::try_from(line.checked_sub(1)?).ok()?)?;
    let column = usize::try_from(column).ok()?;
    let mut key = None;
    for (colon, _) in line
        .match_indices(": ")
        .chain(line.ends_with(':').then(|| (line.len() - 1, ":")))
    {
        let start = line[..colon]
            .rfind(|c: char| !c.is_alphanumeric() && c != '_')
            .map_or(0, |n| n + 1);
        if start < colon && line[..start].chars().count() < column {
            key = Some(line[start..colon].to_owned());
        }
    }
    key
}
