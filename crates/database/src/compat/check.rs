//! Consistency checks across all files: no duplicate fact, no dangling reference, no inverted
//! range, and a source for every fact. They work on a database in memory; [`super::problem`] finds
//! the place of a wrong fact in the files.

use super::problem::{DataProblem, Record};
use super::tables::Row;
use super::{
    AddOn, AddOnId, Artifact, CallForm, Companion, CompanionId, Database, Distribution,
    DriverOffer, DriverVariant, Engine, Fabric, Framework, FrameworkBuild, FrameworkNeeds,
    FrameworkRelease, Gpu, PackageManager, PciDevice, SourceId, VersionRule, framework_and_version,
    meets_requirement,
};
use crate::text::Text;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hash;

pub(super) struct Checker<'a> {
    database: &'a Database,
    problems: Vec<DataProblem>,
    sources: HashSet<SourceId>,
    sums: HashMap<Text, Text>,
}

/// A record that is being checked.
struct CheckedRecord<'c, 'a> {
    checker: &'c mut Checker<'a>,
    record: Record,
}

/// Returns everything that is wrong with a database.
pub fn check(database: &Database) -> Vec<DataProblem> {
    let mut c = Checker {
        database,
        problems: Vec::new(),
        sources: database.sources.iter().map(|s| s.id).collect(),
        sums: HashMap::new(),
    };
    let mut version = c.record(Record::of("version", "", ""));
    if database.version.is_empty() {
        version.wrong("version", "is missing");
    } else if database
        .version
        .split('.')
        .any(|part| part.parse::<u32>().is_err())
    {
        version.wrong(
            "version",
            format!("{} is not a day, such as 2026.11.20", database.version),
        );
    }
    database.check_rows(&mut c);
    architectures(database, &mut c);
    for g in &database.gpus {
        gpu(database, g, &mut c);
    }
    virtual_gpus(database, &mut c);
    nvswitches(database, &mut c);
    nvlinks(database, &mut c);
    fabrics(database, &mut c);
    machines(database, &mut c);
    platforms(database, &mut c);
    for of in &database.companions {
        companion(database, of, &mut c);
    }
    engines(database, &mut c);
    container_toolkits(database, &mut c);
    bulletins(database, &mut c);
    drivers(database, &mut c);
    toolkits(database, &mut c);
    components(database, &mut c);
    component_releases(database, &mut c);
    for a in &database.add_ons {
        add_on(a, &mut c);
    }
    add_on_ranges(database, &mut c);
    add_on_artifacts(database, &mut c);
    signing_keys(database, &mut c);
    package_repositories(database, &mut c);
    distributions(database, &mut c);
    frameworks(database, &mut c);
    packages(database, &mut c);
    mig(database, &mut c);
    c.problems
}

fn packages(database: &Database, c: &mut Checker) {
    for f in &database.forward_compatibility {
        let mut record = c.record(f);
        if !database
            .cuda
            .iter()
            .any(|release| release.version.series() == f.cuda)
        {
            record.wrong(
                "cuda",
                format!("{} is not a series in the database", f.cuda),
            );
        }
        for branch in &f.base_branches {
            record.known_branch("base_branches", Some(*branch));
        }
        record.known_branch("driver_branch", f.driver_branch);
    }
    for g in &database.cuda_guides {
        let mut record = c.record(g);
        if !database
            .cuda
            .iter()
            .any(|release| release.version.series() == g.cuda)
        {
            record.wrong("cuda", "is not a series in the database");
        }
    }
}

/// The most placement slots of a GPU that layouts are computed for.
const MAX_SLOTS: u8 = 32;

fn mig(database: &Database, c: &mut Checker) {
    let mut seen = HashSet::new();
    let mut ids = HashSet::new();
    for p in &database.mig_profiles {
        let mut record = c.record(p);
        record.known_branch("first_driver_branch", p.first_driver_branch);
        if p.compute_slices == 0 || p.instances == 0 {
            record.wrong("instances", "compute_slices and instances must not be 0");
        }
        if let Some(placement) = &p.placement {
            if placement.size == 0
                || placement.starts.is_empty()
                || !placement.starts.is_sorted_by(|a, b| a < b)
            {
                record.wrong(
                    "placement",
                    "the size must not be 0, and the starts must be ascending",
                );
            } else if placement
                .starts
                .iter()
                .any(|start| start.saturating_add(placement.size) > MAX_SLOTS)
            {
                record.wrong("placement", format!("a GPU has at most {MAX_SLOTS} slots"));
            } else if placement.starts.len() < usize::from(p.instances) {
                record.wrong(
                    "placement",
                    format!("{} instances need as many starts", p.instances),
                );
            }
        }
        for gpu in &p.gpus {
            if !database.gpu(*gpu, None).is_some_and(|g| g.mig) {
                record.wrong(
                    "gpus",
                    format!("10de:{gpu} is not a GPU that can be partitioned"),
                );
            }
            if !seen.insert((gpu, &p.subsystems, &p.name)) {
                record.wrong("gpus", format!("10de:{gpu} has this profile twice"));
            }
            if p.id.is_some_and(|id| !ids.insert((gpu, &p.subsystems, id))) {
                record.wrong("id", format!("10de:{gpu} has two profiles with this id"));
            }
        }
    }
}

fn machines(database: &Database, c: &mut Checker) {
    c.unique(
        "instances",
        "name",
        database
            .instances
            .iter()
            .map(|i| i.name.to_ascii_lowercase()),
    );
    c.unique(
        "systems",
        "name",
        database
            .systems
            .iter()
            .flat_map(|s| s.names().map(str::to_ascii_lowercase)),
    );
    for i in &database.instances {
        let mut record = c.record(i);
        record.machine(Some(i.gpu), i.count, i.arch());
    }
    for s in &database.systems {
        let mut record = c.record(s);
        record.machine(s.gpu, s.count, s.arch());
        match s.compute_capability {
            None if s.gpu.is_none() => {
                record.wrong("gpu", "neither a PCI id nor a compute capability")
            }
            Some(of)
                if database
                    .architectures
                    .iter()
                    .all(|a| a.compute_capability != of) =>
            {
                record.wrong("compute_capability", format!("{of} is not in the database"));
            }
            _ => {}
        }
    }
}

fn platforms(database: &Database, c: &mut Checker) {
    for p in &database.platforms {
        let mut record = c.record(p);
        if p.os.is_empty() && p.files.is_empty() {
            record.wrong(
                "os",
                "nothing shows this system: neither os-release nor a file",
            );
        }
        if p.files.iter().any(|file| file.is_relative()) {
            record.wrong("files", "must be absolute");
        }
        if p.ways.is_empty() {
            record.wrong("ways", "none says what to do");
        }
        for way in &p.ways {
            record.known_branch("ways", way.branch);
            record.known_branch("ways", way.oldest);
        }
    }
    for j in &database.jetpacks {
        let mut record = c.record(j);
        if j.compatible.is_none() && !j.compatible_packages.is_empty() {
            record.wrong("compatible_packages", "without a CUDA that they are for");
        }
        if j.compatible.is_some_and(|newest| newest < j.cuda) {
            record.wrong("compatible", format!("is older than CUDA {}", j.cuda));
        }
        for of in &j.sbsa {
            if database
                .architecture(*of)
                .is_none_or(|a| a.embedded.is_none())
            {
                record.wrong(
                    "sbsa",
                    format!("{of} is not the compute capability of a board"),
                );
            }
        }
    }
    for r in &database.hotplug_rules {
        let mut record = c.record(r);
        if r.os.is_empty() {
            record.wrong("os", "no system has this rule");
        }
    }
}

fn frameworks(database: &Database, c: &mut Checker) {
    for f in &database.frameworks {
        let mut record = c.record(f);
        if let Some(unknown) = f
            .extends
            .as_ref()
            .filter(|name| database.frameworks.iter().all(|f| f.name != **name))
        {
            record.wrong(
                "beside",
                format!("{unknown} is not a framework in the database"),
            );
        }
        for sources in f
            .install
            .iter()
            .map(|way| &way.sources)
            .chain(f.conda.iter().map(|conda| &conda.sources))
            .chain(f.starts_with_nvcc.iter().map(|starts| &starts.sources))
        {
            record.sourced(sources);
        }
        install_templates(f, &mut record);
        let mut seen = HashSet::new();
        for r in &f.releases {
            record.sourced(&r.sources);
            if !seen.insert(&r.version) {
                record.wrong("version", format!("{} appears twice", r.version));
            }
            framework_release(database, r, &mut record);
        }
    }
}

fn install_templates(f: &Framework, record: &mut CheckedRecord) {
    let places = ["{major}", "{series}", "{cuda}", "{version}"];
    let templates = f
        .install
        .iter()
        .flat_map(|way| std::iter::once(&way.package).chain(&way.index));
    for template in templates.chain(f.conda.iter().flat_map(|conda| &conda.words)) {
        let rest = places
            .iter()
            .fold(template.clone(), |rest, place| rest.replace(place, ""));
        if rest.contains(['{', '}', ' ', '\'']) || rest.is_empty() {
            record.wrong(
                "install",
                format!("`{template}` is not a package, an index or a word of a command"),
            );
        }
    }
}

fn framework_release(database: &Database, r: &FrameworkRelease, record: &mut CheckedRecord) {
    if r.builds.is_empty() {
        record.wrong("builds", format!("{} has no build", r.version));
    }
    for build in &r.builds {
        framework_build(database, r, build, record);
    }
    for requirement in &r.requires {
        let (name, range) = framework_and_version(requirement);
        let other = database.frameworks.iter().find(|f| f.name == name);
        // What it requires may be older than all known releases, or newer.
        let bounds = { range.split(',') }.map(|clause| clause.trim_start_matches(['=', '~', '>']));
        let of_known = other.into_iter().flat_map(|other| &other.releases);
        let mut versions = bounds.chain(of_known.map(|other| other.version.as_str()));
        if other.is_none() || !versions.any(|version| meets_requirement(version, range)) {
            record.wrong("requires", format!("{requirement}, in {}", r.version));
        }
    }
    for (arch, glibc) in r.glibc_min.iter().chain(&r.pinned_glibc_min) {
        if !glibc
            .split_once('.')
            .is_some_and(|(_, minor)| minor.parse::<u32>().is_ok_and(|minor| minor > 17))
        {
            record.wrong("glibc_min", format!("{glibc} on {arch}, in {}", r.version));
        }
    }
}

fn framework_build(
    database: &Database,
    r: &FrameworkRelease,
    build: &FrameworkBuild,
    record: &mut CheckedRecord,
) {
    for (key, series) in [("cuda", build.cuda), ("cuda_min", build.first_cuda())] {
        if !database
            .cuda
            .iter()
            .any(|release| release.version.series() == series.series())
        {
            record.wrong(key, format!("{series} is not a series in the database"));
        }
    }
    if build.first_cuda().major != build.cuda.major || build.first_cuda() > build.cuda.series() {
        record.wrong(
            "cuda_min",
            format!(
                "{} does not fit a build made with {}",
                build.first_cuda(),
                build.cuda
            ),
        );
    }
    if let Some(nvcc) = build
        .nvcc_min
        .filter(|nvcc| database.cuda.iter().all(|r| r.version != *nvcc))
    {
        record.wrong(
            "nvcc_min",
            format!("{nvcc} is not a release in the database"),
        );
    }
    if build.needs == FrameworkNeeds::Driver && build.first_cudnn().is_some() {
        record.wrong(
            "needs",
            format!("{} uses cuDNN but needs only a driver", r.version),
        );
    }
    for architecture in build.architectures.iter().chain(&r.cpu_only) {
        record.known_architecture(architecture);
    }
    if let (Some(min), Some(made)) = (build.cudnn_min, build.cudnn)
        && (min.major != made.major || min > made)
    {
        record.wrong(
            "cudnn_min",
            format!("{min} does not fit a build made with {made}"),
        );
    }
}

fn architectures(database: &Database, c: &mut Checker) {
    for a in &database.architectures {
        let mut record = c.record(a);
        record.ordered("first_cuda", a.first_cuda, a.last_cuda);
        record.ordered(
            "first_driver_branch",
            a.first_driver_branch,
            a.last_driver_branch,
        );
        if a.modules.is_empty() {
            record.wrong("modules", "is empty");
        }
        for (key, branch) in [
            ("first_driver_branch", a.first_driver_branch),
            ("last_driver_branch", a.last_driver_branch),
        ] {
            record.known_branch(key, branch);
        }
    }
}

fn virtual_gpus(database: &Database, c: &mut Checker) {
    for v in &database.virtual_gpus {
        let mut record = c.record(v);
        if database.gpu(v.device, None).is_none() {
            record.wrong("device", "is not a GPU in the database");
        }
    }
}

fn nvswitches(database: &Database, c: &mut Checker) {
    for s in &database.nvswitches {
        let mut record = c.record(s);
        if database.gpu(s.device, None).is_some() {
            record.wrong("device", "is also the id of a GPU");
        }
        if !database
            .fabrics
            .iter()
            .any(|f| f.generation == s.generation)
        {
            record.wrong(
                "generation",
                format!("{} is not the generation of a fabric", s.generation),
            );
        }
    }
}

fn nvlinks(database: &Database, c: &mut Checker) {
    c.unique(
        "nvlinks",
        "gpus",
        database
            .nvlinks
            .iter()
            .flat_map(|n| &n.gpus)
            .map(ToString::to_string),
    );
    for n in &database.nvlinks {
        let mut record = c.record(n);
        for gpu in n
            .gpus
            .iter()
            .filter(|gpu| database.gpu(**gpu, None).is_none())
        {
            record.wrong("gpus", format!("{gpu} is not a GPU in the database"));
        }
        if n.links == 0 && (n.generation.is_some() || !n.joined_by.is_empty()) {
            record.wrong(
                "links",
                "a board without links has no generation, and nothing joins it",
            );
        } else if n.links > 0 && (n.generation.is_none() || n.joined_by.is_empty()) {
            record.wrong("links", "links need a generation and what joins them");
        }
    }
}

fn fabrics(database: &Database, c: &mut Checker) {
    for f in &database.fabrics {
        let mut record = c.record(f);
        for gpu in f
            .gpus
            .iter()
            .filter(|gpu| database.gpu(**gpu, None).is_none())
        {
            record.wrong("gpus", format!("{gpu} is not a GPU in the database"));
        }
        if f.gpus_per_board < 2 {
            record.wrong("gpus_per_board", "must be at least 2");
        }
        for gpu in f
            .unjoined_if_single
            .iter()
            .filter(|gpu| !f.gpus.contains(*gpu))
        {
            record.wrong(
                "unjoined_if_single",
                format!("{gpu} is not one of the gpus"),
            );
        }
        needs_of_fabric(database, f, &mut record);
    }
}

fn needs_of_fabric(database: &Database, f: &Fabric, record: &mut CheckedRecord) {
    for (key, companions) in [("needs", &f.needs), ("elsewhere", &f.elsewhere)] {
        companions
            .iter()
            .for_each(|id| record.known_companion(key, *id));
    }
    if let Some(id) = f
        .needs
        .iter()
        .find(|id| database.companion(**id).is_some_and(|of| of.on_request))
    {
        record.wrong("needs", format!("{id} is installed only on request"));
    }
    // A driver is selected by the companions that must have its version.
    if !f.needs.iter().any(|id| {
        database
            .companion(*id)
            .is_none_or(|of| of.version != VersionRule::Own)
    }) {
        record.wrong(
            "needs",
            "names no companion whose version follows the driver's",
        );
    }
    if let Some(both) = f.elsewhere.iter().find(|id| f.needs.contains(*id)) {
        record.wrong("elsewhere", format!("{both} is needed on the host as well"));
    }
}

fn engines(database: &Database, c: &mut Checker) {
    for engine in &database.engines {
        let mut record = c.record(engine);
        engine
            .removed_types
            .iter()
            .for_each(|removed| record.sourced(&removed.sources));
        engine_files(engine, &mut record);
        if !engine.default_runtimes.is_sorted_by_key(|of| of.since) {
            record.wrong("default_runtimes", "is not in the order of the versions");
        }
        if database
            .mig_clients
            .iter()
            .any(|client| engine.units.contains(&client.unit))
        {
            record.wrong(
                "units",
                "are among mig_clients: engines are runtimes anyway",
            );
        }
        if engine.restart.is_some() == engine.units.is_empty() {
            record.wrong(
                "restart",
                "goes with units, which are missing or say nothing of a restart",
            );
        }
        if engine
            .part_of
            .is_some_and(|id| database.engine(id).is_none())
        {
            record.wrong("part_of", "is not an engine in the database");
        }
        record.ordered("cdi", engine.cdi, engine.cdi_by_default);
        let reads = &engine.reads_cdi;
        if reads
            .windows(2)
            .any(|pair| pair[0].cdi >= pair[1].cdi || pair[0].since >= pair[1].since)
        {
            record.wrong("reads_cdi", "is not in the order of both versions");
        }
        engine_packages(database, engine, &mut record);
    }
}

fn engine_files(engine: &Engine, record: &mut CheckedRecord) {
    let paths = engine
        .programs
        .iter()
        .chain(&engine.used_by)
        .chain(&engine.config)
        .chain(&engine.drop_in)
        .chain(&engine.other_configs)
        .chain(&engine.other_parts)
        .chain(&engine.option_files)
        .chain(&engine.templates)
        .chain(
            engine
                .snap
                .iter()
                .flat_map(|snap| [&snap.program, &snap.config, &snap.toolkit]),
        );
    if engine.programs.is_empty() || paths.clone().any(|path| !path.starts_with('/')) {
        record.wrong(
            "programs",
            "names no program, or a path that is not absolute",
        );
    }
    if let Some((key, what)) = engine.form.wrong_key(engine) {
        record.wrong(key, what);
    }
    if let Some(folder) = &engine.data_dir
        && engine
            .templates
            .iter()
            .any(|path| !path.starts_with(folder))
    {
        record.wrong("data_dir", "does not begin the paths of the templates");
    }
}

fn engine_packages(database: &Database, engine: &Engine, record: &mut CheckedRecord) {
    for packages in &engine.packages {
        record.sourced(&packages.sources);
        if packages.package_manager.is_some() != packages.distributions.is_empty()
            || packages.names.is_empty()
        {
            record.wrong(
                "packages",
                "need names, and either a package manager or distributions",
            );
        }
        for release in packages.versions.keys().filter(|release| {
            database
                .distributions
                .iter()
                .all(|known| known.release() != **release)
        }) {
            record.wrong(
                "packages",
                format!("{release} is not a distribution in the database"),
            );
        }
    }
}

fn container_toolkits(database: &Database, c: &mut Checker) {
    for toolkit in &database.container_toolkits {
        let mut record = c.record(toolkit);
        toolkit
            .own_containerds
            .iter()
            .for_each(|own| record.sourced(&own.sources));
        if toolkit.packages.is_empty() || !toolkit.package_version.contains("{version}") {
            record.wrong(
                "packages",
                "are missing, or package_version lacks the placeholder {version}",
            );
        }
        for id in toolkit
            .repositories
            .iter()
            .filter(|id| database.package_repository(id).is_none())
        {
            record.wrong(
                "repositories",
                format!("{id} is not a package repository in the database"),
            );
        }
    }
}

fn bulletins(database: &Database, c: &mut Checker) {
    for b in &database.bulletins {
        let mut record = c.record(b);
        if b.vulnerabilities.is_empty() {
            record.wrong("vulnerabilities", "is empty");
        }
        let subjects = [
            !b.fixed.is_empty(),
            b.fixed_toolkit.is_some(),
            b.fixed_container_toolkit.is_some(),
            b.fixed_companion.is_some(),
        ];
        if subjects.into_iter().filter(|is_given| *is_given).count() != 1 {
            record.wrong(
                "fixed",
                "is needed, or one of fixed_toolkit, fixed_container_toolkit and fixed_companion, and no two of them",
            );
        }
        if let Some(fixed) = b.fixed_companion {
            record.known_companion("fixed_companion", fixed.id);
        }
        if let Some(fixed) = b
            .fixed
            .iter()
            .find(|fixed| database.branch(fixed.branch).is_none())
        {
            record.wrong(
                "fixed",
                format!("{} is not a branch in the database", fixed.branch),
            );
        }
        let mut seen = HashSet::new();
        if let Some(twice) = b.fixed.iter().find(|fixed| !seen.insert(fixed.branch)) {
            record.wrong("fixed", format!("branch {} is there twice", twice.branch));
        }
    }
}

fn companion(database: &Database, of: &Companion, c: &mut Checker) {
    let mut record = c.record(of);
    // Its id may be used in the same places as the kind of a driver download or the name of a rule
    // (`driver-has-modules`).
    if DriverVariant::of_driver(of.id.as_str()).is_some() || of.id.as_str() == "modules" {
        record.wrong("id", "is a word with another meaning in the same places");
    }
    if of.packages.is_empty()
        && !of.is_part_of_driver()
        && !database
            .offers()
            .any(|offer| offer.companions.contains_key(&of.id))
    {
        record.wrong("packages", "no repository offers it");
    }
    if of
        .kernel_module
        .as_ref()
        .is_some_and(|name| !is_plain(name, "_-"))
    {
        record.wrong("kernel_module", "is not the name of a kernel module");
    }
    companion_packages(of, &mut record);
    companion_files(of, &mut record);
    if of.repository.is_some() && of.version != VersionRule::Own {
        record.wrong(
            "repository",
            "a companion whose version follows the driver's is in the driver's repository",
        );
    }
    if of.on_request
        && !of.is_part_of_driver()
        && (of.repository.is_none() || of.packages.is_empty())
    {
        record.wrong(
            "on_request",
            "needs a repository that has its packages, or a kernel module of the driver",
        );
    }
    if let Some(unit) = of.units.iter().find(|unit| !unit.contains('.')) {
        record.wrong("units", format!("{unit} lacks the suffix of its unit type"));
    }
    if let Some(other) = of.published_with {
        record.known_companion("published_with", other);
    }
}

fn companion_packages(of: &Companion, record: &mut CheckedRecord) {
    let mut seen = HashSet::new();
    for package in &of.packages {
        record.sourced(&package.sources);
        if package.name.matches("{branch}").count() > 1 {
            record.wrong(
                "packages",
                format!("{} has the placeholder {{branch}} twice", package.name),
            );
        }
        if package.name.replace("{branch}", "").contains(['{', '}']) {
            record.wrong(
                "packages",
                format!("{} has a placeholder other than {{branch}}", package.name),
            );
        }
        if let Some(name) = package
            .with
            .iter()
            .chain(&of.depends)
            .chain(&of.replaces)
            .find(|name| !is_plain(name, "+.-"))
        {
            record.wrong("packages", format!("{name} is not the name of a package"));
        }
        if !seen.insert((package.package_manager, package.from)) {
            record.wrong(
                "packages",
                format!("{} is a second name for the same drivers", package.name),
            );
        }
    }
}

fn companion_files(of: &Companion, record: &mut CheckedRecord) {
    if let Some(file) = of
        .archive
        .iter()
        .find(|file| file.from.starts_with('/') || !file.to.starts_with('/'))
    {
        record.wrong(
            "archive",
            format!(
                "{} goes from a path in the archive to an absolute one",
                file.from
            ),
        );
    }
    for (key, path) in [("program", &of.program), ("peers", &of.peers)] {
        if path.as_ref().is_some_and(|path| !path.starts_with('/')) {
            record.wrong(key, "must be an absolute path");
        }
    }
}

fn gpu(database: &Database, g: &Gpu, c: &mut Checker) {
    let mut record = c.record(g);
    if g.modules.is_empty() {
        record.wrong("modules", "is empty");
    }
    let last = g.last_driver_branch.as_ref().and_then(|b| b.parse().ok());
    record.known_branch("last_driver_branch", last);
    record.known_branch("first_driver_branch", g.first_driver_branch);
    record.ordered("first_driver_branch", g.first_driver_branch, last);
    record.ordered(
        "absent_from_branch",
        g.absent_from_branch,
        g.first_driver_branch,
    );
    if !g.listed_from.is_sorted_by(|a, b| a.branch < b.branch) {
        record.wrong("listed_from", "names a branch twice or out of order");
    }
    if !g.listed_from.is_empty()
        && (g.first_driver_branch.is_some() || g.absent_from_branch.is_some())
    {
        record.wrong(
            "listed_from",
            "repeats first_driver_branch and absent_from_branch",
        );
    }
    let first = g.listed_from.first().map(|release| release.branch);
    record.known_branch("listed_from", first);
    record.ordered("listed_from", first, last);
    let Some(capability) = g.compute_capability else {
        return;
    };
    let Some(architecture) = database.architecture(capability) else {
        // No CUDA release in these files targets 1.x, but drivers still know the GPUs.
        if capability.major > 1 {
            record.wrong(
                "compute_capability",
                format!("{capability} is not among the architectures"),
            );
        }
        return;
    };
    // A GPU may support fewer flavours than its architecture (Grace Hopper only the open modules),
    // never more.
    if let Some(more) = g.modules.iter().find(|m| !architecture.modules.contains(m)) {
        record.wrong(
            "modules",
            format!("compute capability {capability} does not support the {more} modules"),
        );
    }
    record.ordered(
        "last_driver_branch",
        last.filter(|_| architecture.last_driver_branch.is_some()),
        architecture.last_driver_branch,
    );
}

fn drivers(database: &Database, c: &mut Checker) {
    for b in &database.driver_branches {
        let mut record = c.record(b);
        if !b.modules.contains(&b.default_modules) {
            record.wrong("default_modules", "is not in modules");
        }
        for limit in &b.kernel_limits {
            record.sourced(&limit.sources);
        }
        for limit in &b.release_limits {
            record.sourced(&limit.sources);
            if limit.up_to.branch != b.branch {
                record.wrong(
                    "release_limits",
                    format!("{} belongs to another branch", limit.up_to),
                );
            }
        }
    }
    for d in &database.drivers {
        let mut record = c.record(d);
        if database.branch(d.version.branch).is_none() {
            record.wrong(
                "version",
                format!("{} is not a branch in the database", d.version.branch),
            );
        }
        for a in &d.artifacts {
            let mut record = c.record(Record::of("drivers", "file", a.artifact.file));
            record.sourced(&a.artifact.sources);
            record.file(&a.artifact, d.version);
            if let DriverVariant::Companion(id) = a.variant {
                record.known_companion("variant", id);
            }
        }
    }
}

fn toolkits(database: &Database, c: &mut Checker) {
    for r in &database.cuda {
        let mut record = c.record(r);
        record.ordered(
            "lowest_capability",
            Some(r.lowest_capability),
            Some(r.highest_capability),
        );
        record.ordered("gcc_min", r.gcc_min, r.gcc_max);
        record.ordered("minimum_driver", Some(r.minimum_driver), r.native_driver);
        for (key, capability) in [
            ("lowest_capability", r.lowest_capability),
            ("highest_capability", r.highest_capability),
        ] {
            if database.architecture(capability).is_none() {
                record.wrong(key, format!("{capability} is not among the architectures"));
            }
        }
    }
    for a in &database.cuda_artifacts {
        let mut record = c.record(a);
        record.file(&a.artifact, a.version);
        if database.cuda(a.version).is_none() {
            record.wrong(
                "version",
                format!("{} is not a CUDA release in the database", a.version),
            );
        }
    }
}

fn components(database: &Database, c: &mut Checker) {
    for part in &database.components {
        let mut record = c.record(part);
        for alias in &part.aliases {
            if database.component_named(alias) != Some(part) {
                record.wrong(
                    "aliases",
                    format!("{alias} is the name of another component"),
                );
            }
        }
        if !database
            .component_releases
            .iter()
            .any(|r| r.component(part).is_some())
        {
            record.wrong("name", "is in no release");
        }
    }
    for n in &database.component_needs {
        let mut record = c.record(n);
        for (key, name) in [("of", &n.of), ("needs", &n.needs)] {
            let is_add_on = key == "of" && database.add_ons.iter().any(|a| a.id.as_str() == name);
            if !is_add_on && database.component(name).is_none() {
                record.wrong(key, format!("{name} is not a component"));
            }
        }
    }
}

fn component_releases(database: &Database, c: &mut Checker) {
    for r in &database.component_releases {
        let mut record = c.record(r);
        if database.cuda(r.version).is_none() {
            record.wrong("version", "is not a CUDA release in the database");
        }
        if r.base.ends_with('/') || !r.base.contains("://") {
            record.wrong(
                "base",
                format!("{} must be an address without a slash at the end", r.base),
            );
        }
        if r.verified.is_empty() {
            record.wrong("verified", "is empty");
        }
        let mut seen = HashSet::new();
        for part in &r.components {
            if database.component(&part.name).is_none() {
                record.wrong(
                    "components",
                    format!("{} is not among the components", part.name),
                );
            }
            if part.archives.is_empty() {
                record.wrong("components", format!("{} has no archive", part.name));
            }
            for archive in &part.archives {
                if !seen.insert((&part.name, &archive.arch)) {
                    record.wrong(
                        "components",
                        format!("{} has two archives for {}", part.name, archive.arch),
                    );
                }
                let release = format!("{} {}", part.name, part.version);
                let release = Record::of("component_releases", "name", release);
                record
                    .checker
                    .record(release)
                    .file(&r.artifact(part, archive), &part.version);
            }
        }
    }
}

fn add_on_ranges(database: &Database, c: &mut Checker) {
    for r in &database.add_on_ranges {
        let mut record = c.record(r);
        record.known_add_on(r.add_on);
        record.ordered("from", Some(r.from), r.to);
        record.ordered("cuda_min", Some(r.cuda_min), r.cuda_max);
        record.ordered(
            "lowest_capability",
            Some(r.lowest_capability),
            r.highest_capability,
        );
        for capability in &r.without_capabilities {
            record.ordered(
                "without_capabilities",
                Some(r.lowest_capability),
                Some(*capability),
            );
            record.ordered(
                "without_capabilities",
                Some(*capability),
                r.highest_capability,
            );
        }
        if r.libraries.is_empty() {
            record.wrong("libraries", "is empty");
        }
        if let Some(library) = r.libraries.iter().find(|library| {
            database
                .add_on(r.add_on)
                .is_some_and(|a| !a.has_library(&format!("{library}.so")))
        }) {
            record.wrong(
                "libraries",
                format!("{library} has none of the add-on's library prefixes"),
            );
        }
    }
}

fn add_on_artifacts(database: &Database, c: &mut Checker) {
    for a in &database.add_on_artifacts {
        let mut record = c.record(a);
        record.known_add_on(a.add_on);
        record.file(&a.artifact, a.version);
        let ranges = database
            .add_on_ranges
            .iter()
            .filter(|r| r.add_on == a.add_on && r.cuda_line == a.cuda_line && r.covers(a.version))
            .count();
        if ranges > 1 {
            record.wrong(
                "version",
                format!("is in {ranges} ranges of CUDA line {}", a.cuda_line),
            );
        }
        // An artifact that can be downloaded can be chosen. A database without any range knows no
        // requirements of the add-on, so none is ever chosen.
        let fetchable = a.artifact.url.is_some() && a.artifact.sha256.is_some();
        if ranges == 0 && fetchable && database.add_on_ranges.iter().any(|r| r.add_on == a.add_on) {
            record.wrong(
                "version",
                format!("is in no range of CUDA line {}", a.cuda_line),
            );
        }
        if fetchable
            && database
                .add_on(a.add_on)
                .is_some_and(|of| of.layout(&a.artifact.file).is_none())
        {
            record.wrong("file", "the add-on has no layout for such archives");
        }
    }
}

fn add_on(a: &AddOn, c: &mut Checker) {
    let mut record = c.record(a);
    if !a.has_library(&format!("{}.so", a.library)) {
        record.wrong("library", "has none of the add-on's library prefixes");
    }
    if a.headers.is_empty() || !(2..=4).contains(&a.macros.len()) {
        record.wrong("macros", "a header and two to four macros are required");
    }
    let apart = matches!(
        a.version_call.form,
        CallForm::Property | CallForm::WrittenApart
    );
    if apart != a.version_call.codes.is_empty() {
        record.wrong(
            "version_call",
            "a single number needs codes, and several numbers must have none",
        );
    }
    if a.version_call
        .codes
        .iter()
        .any(|code| code.minor == 0 || code.major <= code.minor)
    {
        record.wrong(
            "version_call",
            "the first number must have the highest factor",
        );
    }
    for place in a.layouts.iter().flat_map(|layout| &layout.places) {
        if [&place.from, &place.to]
            .into_iter()
            .any(|path| path.starts_with('/') || path.split('/').any(|part| part == ".."))
        {
            record.wrong("layouts", format!("{} is outside the toolkit", place.to));
        }
    }
}

fn signing_keys(database: &Database, c: &mut Checker) {
    for key in &database.signing_keys {
        let mut record = c.record(key);
        if key.fingerprint.len() != 40
            || !key
                .fingerprint
                .bytes()
                .all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'))
        {
            record.wrong(
                "fingerprint",
                format!(
                    "{} is not 40 upper-case hexadecimal digits",
                    key.fingerprint
                ),
            );
        }
        if key
            .url
            .as_ref()
            .is_some_and(|url| !url.starts_with("https://") || url.contains(char::is_whitespace))
        {
            record.wrong("url", "is not an https address");
        }
        if !is_plain(&key.file, "._-") {
            record.wrong("file", format!("{} is not the name of a file", key.file));
        }
    }
}

fn package_repositories(database: &Database, c: &mut Checker) {
    for r in &database.package_repositories {
        let mut record = c.record(r);
        if !is_plain(&r.id, "-") || !r.archs.values().all(|folder| is_plain(folder, "_")) {
            record.wrong(
                "id",
                "it and the folders name files: letters, digits and dashes only",
            );
        }
        if r.url.ends_with('/')
            || !["https://", "http://", "file:///"]
                .iter()
                .any(|scheme| r.url.starts_with(scheme))
        {
            record.wrong(
                "url",
                format!("{} is not an address without a slash at its end", r.url),
            );
        }
        r.archs
            .keys()
            .for_each(|arch| record.known_architecture(arch));
        let is_signed = !r.keys.is_empty() && database.keys_of(r).count() == r.keys.len();
        if !is_signed {
            record.wrong("keys", "names no key, or one that is not in signing_keys");
        }
        // apt believes packages because their lists are signed.
        if r.unsigned_lists
            && (r.package_manager != PackageManager::Dnf || !r.url.starts_with("https://"))
        {
            record.wrong(
                "unsigned_lists",
                "are for dnf, which checks each package, and read over https",
            );
        }
        let mut patterns = r.packages.iter().chain(&r.any_version).peekable();
        if patterns.peek().is_none()
            || !patterns
                .chain(&r.except)
                .all(|pattern| is_plain(pattern, "*+.-"))
        {
            record.wrong(
                "packages",
                "names no package, or something that is not the pattern of one",
            );
        }
        if let Some(of) = &r.toolkit {
            let mut parts = of.packages.iter().chain([&of.package, &of.version]);
            if !of.package.contains("{series}")
                || !parts.all(|text| is_plain(&without_placeholders(text), "*+.-"))
            {
                record.wrong(
                    "toolkit",
                    "names no package of a series, or something that is not the pattern of one",
                );
            }
        }
        if r.release
            .iter()
            .any(|text| text.contains(|ch: char| ch.is_control()))
        {
            record.wrong("release", "has control characters");
        }
    }
}

/// A pattern of toolkit packages with numbers in the places of its placeholders.
fn without_placeholders(pattern: &str) -> String {
    ["{series}", "{major}", "{release}"]
        .iter()
        .fold(pattern.to_owned(), |text, place| text.replace(place, "1"))
}

/// Whether a text is not empty and has only letters, digits and these characters.
fn is_plain(text: &str, others: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|ch| ch.is_ascii_alphanumeric() || others.contains(ch))
}

fn distributions(database: &Database, c: &mut Checker) {
    for d in &database.distributions {
        let mut record = c.record(d);
        compilers(d, &mut record);
        secure_boot(d, &mut record);
        if let Some(stock) = &d.stock {
            record.sourced(&stock.sources);
            if stock.kernels.is_empty() || d.named_as.is_some() {
                record.wrong("stock", "needs a kernel, and a record of one release");
            }
        }
        if let Some(id) = &d.companion_repository
            && database
                .package_repository(id)
                .is_none_or(|r| r.package_manager != d.package_manager)
        {
            record.wrong(
                "companion_repository",
                format!("{id} is not a package repository for {}", d.name),
            );
        }
        build_tools(database, d, &mut record);
        for offer in &d.drivers {
            driver_offer(database, d, offer, &mut record);
        }
    }
}

/// The compilers of its kernels, and the repositories that have its build tools.
fn build_tools(database: &Database, d: &Distribution, record: &mut CheckedRecord) {
    for toolset in &d.kernel_toolsets {
        record.sourced(&toolset.sources);
        if !toolset.environment.starts_with('/') || toolset.environment.contains(['"', '$', '`']) {
            record.wrong(
                "kernel_toolsets",
                "its environment is not the path of a file",
            );
        }
    }
    for extra in &d.extra_repositories {
        if let Some(id) = &extra.adds
            && database.package_repository(id).is_none_or(|r| {
                r.package_manager != d.package_manager
                    || !extra.packages.iter().all(|package| r.names(package))
            })
        {
            record.wrong(
                "extra_repositories",
                format!(
                    "{id} is not a package repository with the packages of {}",
                    extra.name
                ),
            );
        }
    }
}

fn compilers(d: &Distribution, record: &mut CheckedRecord) {
    for (key, pattern) in [
        ("gcc_package", &d.gcc_package),
        ("gxx_package", &d.gxx_package),
    ] {
        if pattern.as_ref().is_some_and(|p| !p.contains("{major}")) {
            record.wrong(key, "lacks the placeholder {major}");
        }
    }
    if d.gxx_package.is_some() != d.gcc_package.is_some() {
        record.wrong(
            "gxx_package",
            "must be given for both compilers or for neither",
        );
    }
    if !d.gccs.is_sorted() || !d.gccs.is_empty() && d.gcc_package.is_none() {
        record.wrong("gccs", "are not sorted, or gcc_package is missing");
    }
}

fn secure_boot(d: &Distribution, record: &mut CheckedRecord) {
    if let Some(signing) = &d.module_signing {
        record.sourced(&signing.sources);
        let paths = [&signing.key, &signing.certificate];
        if signing.packages.is_empty() || paths.iter().any(|path| !path.starts_with("/var/lib/")) {
            record.wrong(
                "module_signing",
                "needs packages, and a key and a certificate below /var/lib",
            );
        }
    }
    if let Some(names) = &d.signed_names {
        record.sourced(&names.sources);
        let mut names = names.modules.iter().chain([&names.first, &names.dkms]);
        if names.any(|name| !name.contains("{driver}")) {
            record.wrong("signed_names", "lack the placeholder {driver}");
        }
    }
    if d.signed_names.is_some() != d.drivers.iter().any(|offer| offer.signed_as.is_some()) {
        record.wrong(
            "signed_names",
            "are for offers with signed_as, and these need them",
        );
    }
    if let Some(only) = &d.only_signer {
        record.sourced(&only.sources);
        if d.module_signing.is_some() || d.key_by_hand.is_some() {
            record.wrong(
                "only_signer",
                "is for releases without module_signing and key_by_hand",
            );
        }
    }
    if let Some(by_hand) = &d.key_by_hand {
        record.sourced(&by_hand.sources);
        if d.module_signing.is_some() || !by_hand.certificate.starts_with('/') {
            record.wrong(
                "key_by_hand",
                "needs an absolute path, and is for releases without module_signing",
            );
        }
    }
}

fn driver_offer(
    database: &Database,
    d: &Distribution,
    offer: &DriverOffer,
    record: &mut CheckedRecord,
) {
    record.sourced(&offer.sources);
    let Some(branch) = database.branch(offer.branch) else {
        record.wrong(
            "drivers",
            format!("{} is not a branch in the database", offer.branch),
        );
        return;
    };
    if !branch.modules.contains(&offer.modules) {
        record.wrong(
            "drivers",
            format!("branch {} has no {} modules", offer.branch, offer.modules),
        );
    }
    if offer.version.is_some_and(|v| v.branch != offer.branch) {
        record.wrong(
            "drivers",
            format!(
                "the offered version does not belong to branch {}",
                offer.branch
            ),
        );
    }
    if offer.packages.is_empty() {
        record.wrong("drivers", "an offer has no packages");
    }
    if let Some(id) = &offer.repository.adds {
        match database.package_repository(id) {
            Some(r)
                if r.package_manager == d.package_manager
                    && !offer.repository.seen_as.is_empty() => {}
            Some(_) => record.wrong(
                "adds",
                format!("{id} is of another package manager, or seen_as is empty"),
            ),
            None => record.wrong(
                "adds",
                format!("{id} is not a package repository in the database"),
            ),
        }
    }
    for id in offer.companions.keys() {
        record.known_companion("companions", *id);
        if database
            .companion(*id)
            .is_some_and(|of| of.version == VersionRule::Own)
        {
            record.wrong(
                "companions",
                format!("the version of {id} is independent of the driver's"),
            );
        }
    }
}

impl<'a> Checker<'a> {
    fn record(&mut self, record: impl Into<Record>) -> CheckedRecord<'_, 'a> {
        CheckedRecord {
            record: record.into(),
            checker: self,
        }
    }

    /// What is the same for all tables: names and sources.
    pub(super) fn rows<R: Row>(&mut self, rows: &[R]) {
        let mut names = HashSet::new();
        for row in rows {
            let mut record = self.record(row);
            if R::UNIQUE && !names.insert(row.name()) {
                record.wrong(R::KEY, "appears twice");
            }
            if let Some((sources, _)) = row.origin() {
                record.sourced(sources);
            }
        }
    }

    fn unique<T: Hash + Eq + fmt::Display>(
        &mut self,
        list: &'static str,
        key: &'static str,
        all: impl IntoIterator<Item = T>,
    ) {
        let mut seen = HashSet::new();
        for one in all {
            let record = Record::of(list, key, &one);
            if !seen.insert(one) {
                self.record(record).wrong(key, "appears twice");
            }
        }
    }
}

impl CheckedRecord<'_, '_> {
    fn wrong(&mut self, key: &'static str, wrong: impl Into<String>) {
        let problem = DataProblem::new(&self.record, key, wrong.into());
        self.checker.problems.push(problem);
    }

    fn known_add_on(&mut self, id: AddOnId) {
        if self.checker.database.add_on(id).is_none() {
            self.wrong("add_on", format!("{id} is not an add-on in the database"));
        }
    }

    fn known_companion(&mut self, key: &'static str, id: CompanionId) {
        if self.checker.database.companion(id).is_none() {
            self.wrong(key, format!("{id} is not a companion in the database"));
        }
    }

    fn sourced(&mut self, sources: &[SourceId]) {
        if sources.is_empty() {
            self.wrong("sources", "must not be empty");
        }
        for source in sources {
            if !self.checker.sources.contains(source) {
                self.wrong("sources", format!("{source} is not in the sources"));
            }
        }
    }

    fn ordered<T: Ord + fmt::Display>(
        &mut self,
        key: &'static str,
        low: Option<T>,
        high: Option<T>,
    ) {
        if let (Some(low), Some(high)) = (low, high)
            && low > high
        {
            self.wrong(key, format!("{low} is above {high}"));
        }
    }

    /// Checks what an instance type and a system have in common.
    fn machine(&mut self, gpu: Option<PciDevice>, count: u8, arch: &str) {
        self.known_architecture(arch);
        if count == 0 {
            self.wrong("count", "no GPU");
        }
        let Some(id) = gpu else { return };
        match self.checker.database.gpu(id, None) {
            None => self.wrong("gpu", format!("10de:{id} is not in the database")),
            Some(gpu) if gpu.only_on.as_deref().is_some_and(|only| only != arch) => {
                self.wrong(
                    "arch",
                    format!("{arch}, but 10de:{id} is built into other machines"),
                );
            }
            Some(_) => {}
        }
    }

    /// The valid names of a host's architecture.
    fn known_architecture(&mut self, architecture: &str) {
        if !matches!(architecture, "x86_64" | "aarch64" | "ppc64le") {
            self.wrong(
                "architectures",
                format!("{architecture} is not the architecture of a host"),
            );
        }
    }

    /// Branches before 340 are named but have no record.
    fn known_branch(&mut self, key: &'static str, branch: Option<u16>) {
        if let Some(branch) =
            branch.filter(|b| *b >= 340 && self.checker.database.branch(*b).is_none())
        {
            self.wrong(key, format!("{branch} is not a branch in the database"));
        }
    }

    fn file(&mut self, a: &Artifact, version: impl fmt::Display) {
        if a.url
            .as_ref()
            .is_some_and(|url| !url.ends_with(a.file.as_str()))
        {
            self.wrong("url", format!("does not end in {}", a.file));
        }
        // Some file names omit the dots: vulkan-beta-5809418-linux.
        if a.sha256.is_some()
            && !a
                .file
                .replace('.', "")
                .contains(&version.to_string().replace('.', ""))
        {
            self.wrong("file", format!("does not have {version} in its name"));
        }
        if (a.agree > 0) != a.sha256.is_some() {
            self.wrong("agree", "must be given if and only if there is a checksum");
        }
        let Some(sum) = &a.sha256 else { return };
        if sum.len() != 64
            || !sum
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        {
            self.wrong(
                "sha256",
                format!("{sum} is not 64 lower-case hexadecimal digits"),
            );
        }
        if let Some(other) = self
            .checker
            .sums
            .insert(*sum, a.file)
            .filter(|other| *other != a.file)
        {
            self.wrong("sha256", format!("is also the checksum of {other}"));
        }
    }
}
