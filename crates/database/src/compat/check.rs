//! Consistency checks across all files: no duplicate fact, no dangling reference, no inverted
//! range, and a source for every fact. They work on a database in memory; [`super::problem`] finds
//! the place of a wrong fact in the files.

use super::problem::{Problem, Record};
use super::tables::Row;
use super::{
    AddOn, AddOnId, Artifact, CallForm, Companion, CompanionId, Database, DriverVariant,
    EngineForm, Fabric, FrameworkNeeds, Gpu, PciDevice, SourceId, VersionRule,
};
use crate::text::Text;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hash;

#[derive(Default)]
pub(super) struct Checker {
    problems: Vec<Problem>,
    sources: HashSet<SourceId>,
    sums: HashMap<Text, Text>,
}

/// Returns everything that is wrong with a database.
pub fn check(database: &Database) -> Vec<Problem> {
    let mut c = Checker {
        sources: database.sources.iter().map(|s| s.id).collect(),
        ..Checker::default()
    };
    let version = Record::of("version", "", "");
    if database.version.is_empty() {
        c.wrong(&version, "version", "is missing");
    } else if database
        .version
        .split('.')
        .any(|part| part.parse::<u32>().is_err())
    {
        c.wrong(
            &version,
            "version",
            format!("{} is not a day, such as 2026.11.20", database.version),
        );
    }
    database.check_rows(&mut c);
    hardware(database, &mut c);
    machines(database, &mut c);
    platforms(database, &mut c);
    companions(database, &mut c);
    engines(database, &mut c);
    bulletins(database, &mut c);
    drivers(database, &mut c);
    toolkits(database, &mut c);
    components(database, &mut c);
    add_ons(database, &mut c);
    repositories(database, &mut c);
    distributions(database, &mut c);
    frameworks(database, &mut c);
    packages(database, &mut c);
    mig(database, &mut c);
    c.problems
}

fn packages(database: &Database, c: &mut Checker) {
    for f in &database.forward_compatibility {
        let record = Record::from(f);
        if !database
            .cuda
            .iter()
            .any(|release| release.version.series() == f.cuda)
        {
            c.wrong(
                &record,
                "cuda",
                format!("{} is not a series in the database", f.cuda),
            );
        }
        for branch in &f.base_branches {
            c.known_branch(database, &record, "base_branches", Some(*branch));
        }
        c.known_branch(database, &record, "driver_branch", f.driver_branch);
    }
    for g in &database.cuda_guides {
        let record = Record::from(g);
        if !database
            .cuda
            .iter()
            .any(|release| release.version.series() == g.cuda)
        {
            c.wrong(&record, "cuda", "is not a series in the database");
        }
    }
}

/// The most placement slots of a GPU that layouts are computed for.
const MAX_SLOTS: u8 = 32;

fn mig(database: &Database, c: &mut Checker) {
    let mut seen = HashSet::new();
    let mut ids = HashSet::new();
    for p in &database.mig_profiles {
        let record = Record::from(p);
        c.known_branch(
            database,
            &record,
            "first_driver_branch",
            p.first_driver_branch,
        );
        if p.compute_slices == 0 || p.instances == 0 {
            c.wrong(
                &record,
                "instances",
                "compute_slices and instances must not be 0",
            );
        }
        if let Some(placement) = &p.placement {
            if placement.size == 0
                || placement.starts.is_empty()
                || !placement.starts.is_sorted_by(|a, b| a < b)
            {
                c.wrong(
                    &record,
                    "placement",
                    "the size must not be 0, and the starts must be ascending",
                );
            } else if placement
                .starts
                .iter()
                .any(|start| start.saturating_add(placement.size) > MAX_SLOTS)
            {
                c.wrong(
                    &record,
                    "placement",
                    format!("a GPU has at most {MAX_SLOTS} slots"),
                );
            } else if placement.starts.len() < usize::from(p.instances) {
                c.wrong(
                    &record,
                    "placement",
                    format!("{} instances need as many starts", p.instances),
                );
            }
        }
        for gpu in &p.gpus {
            if !database.gpu(*gpu, None).is_some_and(|g| g.mig) {
                c.wrong(
                    &record,
                    "gpus",
                    format!("10de:{gpu} is not a GPU that can be partitioned"),
                );
            }
            if !seen.insert((gpu, &p.subsystems, &p.name)) {
                c.wrong(
                    &record,
                    "gpus",
                    format!("10de:{gpu} has this profile twice"),
                );
            }
            if p.id.is_some_and(|id| !ids.insert((gpu, &p.subsystems, id))) {
                c.wrong(
                    &record,
                    "id",
                    format!("10de:{gpu} has two profiles with this id"),
                );
            }
        }
    }
}

fn machines(database: &Database, c: &mut Checker) {
    let lower = |name: &str| name.to_ascii_lowercase();
    c.unique(
        "instances",
        "name",
        database.instances.iter().map(|i| lower(&i.name)),
    );
    c.unique(
        "systems",
        "name",
        database.systems.iter().flat_map(|s| s.names().map(lower)),
    );
    for i in &database.instances {
        let record = Record::from(i);
        c.machine(database, &record, Some(i.gpu), i.count, i.arch());
    }
    for s in &database.systems {
        let record = Record::from(s);
        c.machine(database, &record, s.gpu, s.count, s.arch());
        match s.compute_capability {
            None if s.gpu.is_none() => {
                c.wrong(&record, "gpu", "neither a PCI id nor a compute capability")
            }
            Some(of)
                if database
                    .architectures
                    .iter()
                    .all(|a| a.compute_capability != of) =>
            {
                c.wrong(
                    &record,
                    "compute_capability",
                    format!("{of} is not in the database"),
                );
            }
            _ => {}
        }
    }
}

fn platforms(database: &Database, c: &mut Checker) {
    for p in &database.platforms {
        let record = Record::from(p);
        if p.os.is_empty() && p.files.is_empty() {
            c.wrong(
                &record,
                "os",
                "nothing shows this system: neither os-release nor a file",
            );
        }
        if p.files.iter().any(|file| file.is_relative()) {
            c.wrong(&record, "files", "must be absolute");
        }
        if p.ways.is_empty() {
            c.wrong(&record, "ways", "none says what to do");
        }
        for way in &p.ways {
            c.known_branch(database, &record, "ways", way.branch);
            c.known_branch(database, &record, "ways", way.oldest);
        }
    }
    for j in &database.jetpacks {
        let record = Record::from(j);
        if j.compatible.is_none() && !j.compatible_packages.is_empty() {
            c.wrong(
                &record,
                "compatible_packages",
                "without a CUDA that they are for",
            );
        }
        if j.compatible.is_some_and(|newest| newest < j.cuda) {
            c.wrong(
                &record,
                "compatible",
                format!("is older than CUDA {}", j.cuda),
            );
        }
        for of in &j.sbsa {
            if database
                .architecture(*of)
                .is_none_or(|a| a.embedded.is_none())
            {
                c.wrong(
                    &record,
                    "sbsa",
                    format!("{of} is not the compute capability of a board"),
                );
            }
        }
    }
    for r in &database.hotplug_rules {
        let record = Record::from(r);
        if r.os.is_empty() {
            c.wrong(&record, "os", "no system has this rule");
        }
    }
}

fn frameworks(database: &Database, c: &mut Checker) {
    for f in &database.frameworks {
        let record = Record::from(f);
        if let Some(beside) = f
            .beside
            .as_ref()
            .filter(|name| database.frameworks.iter().all(|f| f.name != **name))
        {
            c.wrong(
                &record,
                "beside",
                format!("{beside} is not a framework in the database"),
            );
        }
        for sources in f
            .install
            .iter()
            .map(|way| &way.sources)
            .chain(f.conda.iter().map(|conda| &conda.sources))
        {
            c.sourced(&record, sources);
        }
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
                c.wrong(
                    &record,
                    "install",
                    format!("`{template}` is not a package, an index or a word of a command"),
                );
            }
        }
        let mut seen = HashSet::new();
        for r in &f.releases {
            c.sourced(&record, &r.sources);
            if !seen.insert(&r.version) {
                c.wrong(&record, "version", format!("{} appears twice", r.version));
            }
            if r.builds.is_empty() {
                c.wrong(&record, "builds", format!("{} has no build", r.version));
            }
            for build in &r.builds {
                for (key, series) in [("cuda", build.cuda), ("cuda_min", build.first_cuda())] {
                    if !database
                        .cuda
                        .iter()
                        .any(|release| release.version.series() == series.series())
                    {
                        c.wrong(
                            &record,
                            key,
                            format!("{series} is not a series in the database"),
                        );
                    }
                }
                if build.first_cuda().major != build.cuda.major
                    || build.first_cuda() > build.cuda.series()
                {
                    c.wrong(
                        &record,
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
                    c.wrong(
                        &record,
                        "nvcc_min",
                        format!("{nvcc} is not a release in the database"),
                    );
                }
                if build.needs == FrameworkNeeds::Driver && build.first_cudnn().is_some() {
                    c.wrong(
                        &record,
                        "needs",
                        format!("{} uses cuDNN but needs only a driver", r.version),
                    );
                }
                for architecture in build.architectures.iter().chain(&r.cpu_only) {
                    c.known_architecture(&record, architecture);
                }
                if let (Some(min), Some(made)) = (build.cudnn_min, build.cudnn)
                    && (min.major != made.major || min > made)
                {
                    c.wrong(
                        &record,
                        "cudnn_min",
                        format!("{min} does not fit a build made with {made}"),
                    );
                }
            }
            for (arch, glibc) in &r.glibc_min {
                if !glibc
                    .split_once('.')
                    .is_some_and(|(_, minor)| minor.parse::<u32>().is_ok_and(|minor| minor > 17))
                {
                    c.wrong(
                        &record,
                        "glibc_min",
                        format!("{glibc} on {arch}, in {}", r.version),
                    );
                }
            }
        }
    }
}

fn hardware(database: &Database, c: &mut Checker) {
    for a in &database.architectures {
        let record = Record::from(a);
        c.ordered(&record, "first_cuda", a.first_cuda, a.last_cuda);
        c.ordered(
            &record,
            "first_driver_branch",
            a.first_driver_branch,
            a.last_driver_branch,
        );
        if a.modules.is_empty() {
            c.wrong(&record, "modules", "is empty");
        }
        for (key, branch) in [
            ("first_driver_branch", a.first_driver_branch),
            ("last_driver_branch", a.last_driver_branch),
        ] {
            c.known_branch(database, &record, key, branch);
        }
    }
    for g in &database.gpus {
        gpu(database, g, c);
    }
    for v in &database.virtual_gpus {
        let record = Record::from(v);
        if database.gpu(v.device, None).is_none() {
            c.wrong(&record, "device", "is not a GPU in the database");
        }
    }
    for s in &database.nvswitches {
        let record = Record::from(s);
        if database.gpu(s.device, None).is_some() {
            c.wrong(&record, "device", "is also the id of a GPU");
        }
        if !database
            .fabrics
            .iter()
            .any(|f| f.generation == s.generation)
        {
            c.wrong(
                &record,
                "generation",
                format!("{} is not the generation of a fabric", s.generation),
            );
        }
    }
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
        let record = Record::from(n);
        for gpu in n
            .gpus
            .iter()
            .filter(|gpu| database.gpu(**gpu, None).is_none())
        {
            c.wrong(
                &record,
                "gpus",
                format!("{gpu} is not a GPU in the database"),
            );
        }
        if n.links == 0 && (n.generation.is_some() || !n.joined_by.is_empty()) {
            c.wrong(
                &record,
                "links",
                "a board without links has no generation, and nothing joins it",
            );
        } else if n.links > 0 && (n.generation.is_none() || n.joined_by.is_empty()) {
            c.wrong(
                &record,
                "links",
                "links need a generation and what joins them",
            );
        }
    }
    for f in &database.fabrics {
        let record = Record::from(f);
        for gpu in f
            .gpus
            .iter()
            .filter(|gpu| database.gpu(**gpu, None).is_none())
        {
            c.wrong(
                &record,
                "gpus",
                format!("{gpu} is not a GPU in the database"),
            );
        }
        if f.gpus_per_board < 2 {
            c.wrong(&record, "gpus_per_board", "must be at least 2");
        }
        for gpu in f
            .unjoined_if_single
            .iter()
            .filter(|gpu| !f.gpus.contains(*gpu))
        {
            c.wrong(
                &record,
                "unjoined_if_single",
                format!("{gpu} is not one of the gpus"),
            );
        }
        needs_of_fabric(database, f, &record, c);
    }
}

fn needs_of_fabric(database: &Database, f: &Fabric, record: &Record, c: &mut Checker) {
    for (key, companions) in [("needs", &f.needs), ("elsewhere", &f.elsewhere)] {
        companions
            .iter()
            .for_each(|id| c.known_companion(database, record, key, *id));
    }
    let is_requested = |id: &&CompanionId| database.companion(**id).is_some_and(|of| of.on_request);
    if let Some(id) = f.needs.iter().find(is_requested) {
        c.wrong(
            record,
            "needs",
            format!("{id} is installed only on request"),
        );
    }
    // A driver is selected by the companions that must have its version.
    let follows = |id: &CompanionId| {
        database
            .companion(*id)
            .is_none_or(|of| of.version != VersionRule::Own)
    };
    if !f.needs.iter().any(follows) {
        c.wrong(
            record,
            "needs",
            "names no companion whose version follows the driver's",
        );
    }
    if let Some(both) = f.elsewhere.iter().find(|id| f.needs.contains(*id)) {
        c.wrong(
            record,
            "elsewhere",
            format!("{both} is needed on the host as well"),
        );
    }
}

fn companions(database: &Database, c: &mut Checker) {
    for of in &database.companions {
        companion(database, of, c);
    }
}

fn engines(database: &Database, c: &mut Checker) {
    for engine in &database.engines {
        let record = Record::from(engine);
        engine
            .removed_types
            .iter()
            .for_each(|removed| c.sourced(&record, &removed.sources));
        let paths = engine
            .programs
            .iter()
            .chain(&engine.used_by)
            .chain(&engine.config)
            .chain(&engine.drop_in);
        let paths = paths
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
            c.wrong(
                &record,
                "programs",
                "names no program, or a path that is not absolute",
            );
        }
        let needs_file = matches!(engine.form, EngineForm::DaemonJson | EngineForm::Containerd);
        if needs_file && engine.config.is_none()
            || engine.form == EngineForm::Crio && engine.drop_in.is_none()
        {
            c.wrong(&record, "form", "needs a file that is not named");
        }
        if !engine.option_files.is_empty()
            && !matches!(engine.form, EngineForm::Detects | EngineForm::Cdi)
        {
            c.wrong(
                &record,
                "option_files",
                "goes with the forms detects and cdi: others have config or other_configs",
            );
        }
        if let Some(folder) = &engine.data_dir
            && engine
                .templates
                .iter()
                .any(|path| !path.starts_with(folder))
        {
            c.wrong(
                &record,
                "data_dir",
                "does not begin the paths of the templates",
            );
        }
        if !engine.default_runtimes.is_sorted_by_key(|of| of.since) {
            c.wrong(
                &record,
                "default_runtimes",
                "is not in the order of the versions",
            );
        }
        if engine.restart.is_some() == engine.units.is_empty() {
            c.wrong(
                &record,
                "restart",
                "goes with units, which are missing or say nothing of a restart",
            );
        }
        if engine
            .part_of
            .is_some_and(|id| database.engine(id).is_none())
        {
            c.wrong(&record, "part_of", "is not an engine in the database");
        }
        c.ordered(&record, "cdi", engine.cdi, engine.cdi_by_default);
        let reads = &engine.reads_cdi;
        if reads
            .windows(2)
            .any(|pair| pair[0].cdi >= pair[1].cdi || pair[0].since >= pair[1].since)
        {
            c.wrong(&record, "reads_cdi", "is not in the order of both versions");
        }
        for packages in &engine.packages {
            c.sourced(&record, &packages.sources);
            if packages.package_manager.is_some() != packages.distributions.is_empty()
                || packages.names.is_empty()
            {
                c.wrong(
                    &record,
                    "packages",
                    "need names, and either a package manager or distributions",
                );
            }
            let is_known = |release: &&String| {
                database
                    .distributions
                    .iter()
                    .any(|known| known.release() == **release)
            };
            for release in packages
                .versions
                .keys()
                .filter(|release| !is_known(release))
            {
                c.wrong(
                    &record,
                    "packages",
                    format!("{release} is not a distribution in the database"),
                );
            }
        }
    }
    for toolkit in &database.container_toolkits {
        let record = Record::from(toolkit);
        toolkit
            .own_containerds
            .iter()
            .for_each(|own| c.sourced(&record, &own.sources));
        if toolkit.packages.is_empty() || !toolkit.package_version.contains("{version}") {
            c.wrong(
                &record,
                "packages",
                "are missing, or package_version lacks the placeholder {version}",
            );
        }
        for id in toolkit
            .repositories
            .iter()
            .filter(|id| database.package_repository(id).is_none())
        {
            c.wrong(
                &record,
                "repositories",
                format!("{id} is not a package repository in the database"),
            );
        }
    }
}

fn bulletins(database: &Database, c: &mut Checker) {
    for b in &database.bulletins {
        let record = Record::from(b);
        if b.vulnerabilities.is_empty() {
            c.wrong(&record, "vulnerabilities", "is empty");
        }
        let subjects = [
            !b.fixed.is_empty(),
            b.fixed_toolkit.is_some(),
            b.fixed_container_toolkit.is_some(),
            b.fixed_companion.is_some(),
        ];
        if subjects.into_iter().filter(|is_given| *is_given).count() != 1 {
            c.wrong(
                &record,
                "fixed",
                "is needed, or one of fixed_toolkit, fixed_container_toolkit and fixed_companion, and no two of them",
            );
        }
        if let Some(fixed) = b.fixed_companion {
            c.known_companion(database, &record, "fixed_companion", fixed.id);
        }
        if let Some(fixed) = b
            .fixed
            .iter()
            .find(|fixed| database.branch(fixed.branch).is_none())
        {
            c.wrong(
                &record,
                "fixed",
                format!("{} is not a branch in the database", fixed.branch),
            );
        }
        let mut seen = HashSet::new();
        if let Some(twice) = b.fixed.iter().find(|fixed| !seen.insert(fixed.branch)) {
            c.wrong(
                &record,
                "fixed",
                format!("branch {} is there twice", twice.branch),
            );
        }
    }
}

fn companion(database: &Database, of: &Companion, c: &mut Checker) {
    let record = &Record::from(of);
    // Its id may be used in the same places as the kind of a driver download or the name of a rule
    // (`driver-has-modules`).
    if DriverVariant::of_driver(of.id.as_str()).is_some() || of.id.as_str() == "modules" {
        c.wrong(
            record,
            "id",
            "is a word with another meaning in the same places",
        );
    }
    let is_offered = || {
        database
            .offers()
            .any(|offer| offer.companions.contains_key(&of.id))
    };
    if of.packages.is_empty() && !of.is_part_of_driver() && !is_offered() {
        c.wrong(record, "packages", "no repository offers it");
    }
    if of
        .kernel_module
        .as_ref()
        .is_some_and(|name| !is_plain(name, "_-"))
    {
        c.wrong(
            record,
            "kernel_module",
            "is not the name of a kernel module",
        );
    }
    let mut seen = HashSet::new();
    for package in &of.packages {
        c.sourced(record, &package.sources);
        if package.name.matches("{branch}").count() > 1 {
            c.wrong(
                record,
                "packages",
                format!("{} has the placeholder {{branch}} twice", package.name),
            );
        }
        if package.name.replace("{branch}", "").contains(['{', '}']) {
            c.wrong(
                record,
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
            c.wrong(
                record,
                "packages",
                format!("{name} is not the name of a package"),
            );
        }
        if !seen.insert((package.package_manager, package.from)) {
            c.wrong(
                record,
                "packages",
                format!("{} is a second name for the same drivers", package.name),
            );
        }
    }
    if let Some(file) = of
        .archive
        .iter()
        .find(|file| file.from.starts_with('/') || !file.to.starts_with('/'))
    {
        c.wrong(
            record,
            "archive",
            format!(
                "{} goes from a path in the archive to an absolute one",
                file.from
            ),
        );
    }
    for (key, path) in [("program", &of.program), ("peers", &of.peers)] {
        if path.as_ref().is_some_and(|path| !path.starts_with('/')) {
            c.wrong(record, key, "must be an absolute path");
        }
    }
    if of.repository.is_some() && of.version != VersionRule::Own {
        c.wrong(
            record,
            "repository",
            "a companion whose version follows the driver's is in the driver's repository",
        );
    }
    if of.on_request
        && !of.is_part_of_driver()
        && (of.repository.is_none() || of.packages.is_empty())
    {
        c.wrong(
            record,
            "on_request",
            "needs a repository that has its packages, or a kernel module of the driver",
        );
    }
    if let Some(unit) = of.units.iter().find(|unit| !unit.contains('.')) {
        c.wrong(
            record,
            "units",
            format!("{unit} lacks the suffix of its unit type"),
        );
    }
    if let Some(other) = of.published_with {
        c.known_companion(database, record, "published_with", other);
    }
}

fn gpu(database: &Database, g: &Gpu, c: &mut Checker) {
    let record = &Record::from(g);
    if g.modules.is_empty() {
        c.wrong(record, "modules", "is empty");
    }
    let last = g.last_driver_branch.as_ref().and_then(|b| b.parse().ok());
    c.known_branch(database, record, "last_driver_branch", last);
    c.known_branch(
        database,
        record,
        "first_driver_branch",
        g.first_driver_branch,
    );
    c.ordered(record, "first_driver_branch", g.first_driver_branch, last);
    c.ordered(
        record,
        "absent_from_branch",
        g.absent_from_branch,
        g.first_driver_branch,
    );
    if !g.listed_from.is_sorted_by(|a, b| a.branch < b.branch) {
        c.wrong(
            record,
            "listed_from",
            "names a branch twice or out of order",
        );
    }
    if !g.listed_from.is_empty()
        && (g.first_driver_branch.is_some() || g.absent_from_branch.is_some())
    {
        c.wrong(
            record,
            "listed_from",
            "repeats first_driver_branch and absent_from_branch",
        );
    }
    let first = g.listed_from.first().map(|release| release.branch);
    c.known_branch(database, record, "listed_from", first);
    c.ordered(record, "listed_from", first, last);
    let Some(capability) = g.compute_capability else {
        return;
    };
    let Some(architecture) = database.architecture(capability) else {
        // No CUDA release in these files targets 1.x, but drivers still know the GPUs.
        if capability.major > 1 {
            c.wrong(
                record,
                "compute_capability",
                format!("{capability} is not among the architectures"),
            );
        }
        return;
    };
    // A GPU may support fewer flavours than its architecture (Grace Hopper only the open modules),
    // never more.
    if let Some(more) = g.modules.iter().find(|m| !architecture.modules.contains(m)) {
        c.wrong(
            record,
            "modules",
            format!("compute capability {capability} does not support the {more} modules"),
        );
    }
    c.ordered(
        record,
        "last_driver_branch",
        last.filter(|_| architecture.last_driver_branch.is_some()),
        architecture.last_driver_branch,
    );
}

fn drivers(database: &Database, c: &mut Checker) {
    for b in &database.driver_branches {
        let record = Record::from(b);
        if !b.modules.contains(&b.default_modules) {
            c.wrong(&record, "default_modules", "is not in modules");
        }
        for limit in &b.kernel_limits {
            c.sourced(&record, &limit.sources);
        }
        for limit in &b.release_limits {
            c.sourced(&record, &limit.sources);
            if limit.up_to.branch != b.branch {
                c.wrong(
                    &record,
                    "release_limits",
                    format!("{} belongs to another branch", limit.up_to),
                );
            }
        }
    }
    for d in &database.drivers {
        let record = Record::from(d);
        if database.branch(d.version.branch).is_none() {
            c.wrong(
                &record,
                "version",
                format!("{} is not a branch in the database", d.version.branch),
            );
        }
        for a in &d.artifacts {
            let record = Record::of("drivers", "file", a.artifact.file);
            c.sourced(&record, &a.artifact.sources);
            c.file(&record, &a.artifact, d.version);
            if let DriverVariant::Companion(id) = a.variant {
                c.known_companion(database, &record, "variant", id);
            }
        }
    }
}

fn toolkits(database: &Database, c: &mut Checker) {
    for r in &database.cuda {
        let record = Record::from(r);
        c.ordered(
            &record,
            "lowest_capability",
            Some(r.lowest_capability),
            Some(r.highest_capability),
        );
        c.ordered(&record, "gcc_min", r.gcc_min, r.gcc_max);
        c.ordered(
            &record,
            "minimum_driver",
            Some(r.minimum_driver),
            r.native_driver,
        );
        for (key, capability) in [
            ("lowest_capability", r.lowest_capability),
            ("highest_capability", r.highest_capability),
        ] {
            if database.architecture(capability).is_none() {
                c.wrong(
                    &record,
                    key,
                    format!("{capability} is not among the architectures"),
                );
            }
        }
    }
    for a in &database.cuda_artifacts {
        let record = Record::from(a);
        c.file(&record, &a.artifact, a.version);
        if database.cuda(a.version).is_none() {
            c.wrong(
                &record,
                "version",
                format!("{} is not a CUDA release in the database", a.version),
            );
        }
    }
}

fn components(database: &Database, c: &mut Checker) {
    for part in &database.components {
        let record = Record::from(part);
        for alias in &part.aliases {
            if database.component_named(alias) != Some(part) {
                c.wrong(
                    &record,
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
            c.wrong(&record, "name", "is in no release");
        }
    }
    for n in &database.component_needs {
        let record = Record::from(n);
        for (key, name) in [("of", &n.of), ("needs", &n.needs)] {
            let is_add_on = key == "of" && database.add_ons.iter().any(|a| a.id.as_str() == name);
            if !is_add_on && database.component(name).is_none() {
                c.wrong(&record, key, format!("{name} is not a component"));
            }
        }
    }
    for r in &database.component_releases {
        let record = Record::from(r);
        if database.cuda(r.version).is_none() {
            c.wrong(&record, "version", "is not a CUDA release in the database");
        }
        if r.base.ends_with('/') || !r.base.contains("://") {
            c.wrong(
                &record,
                "base",
                format!("{} must be an address without a slash at the end", r.base),
            );
        }
        if r.verified.is_empty() {
            c.wrong(&record, "verified", "is empty");
        }
        let mut seen = HashSet::new();
        for part in &r.components {
            if database.component(&part.name).is_none() {
                c.wrong(
                    &record,
                    "components",
                    format!("{} is not among the components", part.name),
                );
            }
            if part.archives.is_empty() {
                c.wrong(
                    &record,
                    "components",
                    format!("{} has no archive", part.name),
                );
            }
            for archive in &part.archives {
                if !seen.insert((&part.name, &archive.arch)) {
                    c.wrong(
                        &record,
                        "components",
                        format!("{} has two archives for {}", part.name, archive.arch),
                    );
                }
                let record = Record::of(
                    "component_releases",
                    "name",
                    format!("{} {}", part.name, part.version),
                );
                c.file(&record, &r.artifact(part, archive), &part.version);
            }
        }
    }
}

fn add_ons(database: &Database, c: &mut Checker) {
    for a in &database.add_ons {
        add_on(a, c);
    }
    for r in &database.add_on_ranges {
        let record = Record::from(r);
        c.known_add_on(database, &record, r.add_on);
        c.ordered(&record, "from", Some(r.from), r.to);
        c.ordered(&record, "cuda_min", Some(r.cuda_min), r.cuda_max);
        c.ordered(
            &record,
            "lowest_capability",
            Some(r.lowest_capability),
            r.highest_capability,
        );
        for capability in &r.without_capabilities {
            c.ordered(
                &record,
                "without_capabilities",
                Some(r.lowest_capability),
                Some(*capability),
            );
            c.ordered(
                &record,
                "without_capabilities",
                Some(*capability),
                r.highest_capability,
            );
        }
        if r.libraries.is_empty() {
            c.wrong(&record, "libraries", "is empty");
        }
        let strange = |library: &&String| {
            database
                .add_on(r.add_on)
                .is_some_and(|a| !a.has_library(&format!("{library}.so")))
        };
        if let Some(library) = r.libraries.iter().find(strange) {
            c.wrong(
                &record,
                "libraries",
                format!("{library} has none of the add-on's library prefixes"),
            );
        }
    }
    for a in &database.add_on_artifacts {
        let record = Record::from(a);
        c.known_add_on(database, &record, a.add_on);
        c.file(&record, &a.artifact, a.version);
        let of_line = |r: &&super::AddOnRange| {
            r.add_on == a.add_on && r.cuda_line == a.cuda_line && r.covers(a.version)
        };
        let ranges = database.add_on_ranges.iter().filter(of_line).count();
        if ranges > 1 {
            c.wrong(
                &record,
                "version",
                format!("is in {ranges} ranges of CUDA line {}", a.cuda_line),
            );
        }
        // An artifact that can be downloaded can be chosen. A database without any range knows no
        // requirements of the add-on, so none is ever chosen.
        let fetchable = a.artifact.url.is_some() && a.artifact.sha256.is_some();
        if ranges == 0 && fetchable && database.add_on_ranges.iter().any(|r| r.add_on == a.add_on) {
            c.wrong(
                &record,
                "version",
                format!("is in no range of CUDA line {}", a.cuda_line),
            );
        }
        if fetchable
            && database
                .add_on(a.add_on)
                .is_some_and(|of| of.layout(&a.artifact.file).is_none())
        {
            c.wrong(
                &record,
                "file",
                "the add-on has no layout for such archives",
            );
        }
    }
}

fn add_on(a: &AddOn, c: &mut Checker) {
    let record = Record::from(a);
    if !a.has_library(&format!("{}.so", a.library)) {
        c.wrong(
            &record,
            "library",
            "has none of the add-on's library prefixes",
        );
    }
    if a.headers.is_empty() || !(2..=4).contains(&a.macros.len()) {
        c.wrong(
            &record,
            "macros",
            "a header and two to four macros are required",
        );
    }
    let apart = matches!(
        a.version_call.form,
        CallForm::Property | CallForm::WrittenApart
    );
    if apart != a.version_call.codes.is_empty() {
        c.wrong(
            &record,
            "version_call",
            "a single number needs codes, and several numbers must have none",
        );
    }
    if a.version_call
        .codes
        .iter()
        .any(|code| code.minor == 0 || code.major <= code.minor)
    {
        c.wrong(
            &record,
            "version_call",
            "the first number must have the highest factor",
        );
    }
    for place in a.layouts.iter().flat_map(|layout| &layout.places) {
        let leads_out =
            |path: &String| path.starts_with('/') || path.split('/').any(|part| part == "..");
        if [&place.from, &place.to].into_iter().any(leads_out) {
            c.wrong(
                &record,
                "layouts",
                format!("{} is outside the toolkit", place.to),
            );
        }
    }
}

fn repositories(database: &Database, c: &mut Checker) {
    for key in &database.signing_keys {
        let record = Record::from(key);
        let digit = |b: u8| b.is_ascii_digit() || (b'A'..=b'F').contains(&b);
        if key.fingerprint.len() != 40 || !key.fingerprint.bytes().all(digit) {
            c.wrong(
                &record,
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
            c.wrong(&record, "url", "is not an https address");
        }
        if !is_plain(&key.file, "._-") {
            c.wrong(
                &record,
                "file",
                format!("{} is not the name of a file", key.file),
            );
        }
    }
    for r in &database.package_repositories {
        let record = Record::from(r);
        if !is_plain(&r.id, "-") || !r.archs.values().all(|folder| is_plain(folder, "_")) {
            c.wrong(
                &record,
                "id",
                "it and the folders name files: letters, digits and dashes only",
            );
        }
        if r.url.ends_with('/')
            || !["https://", "http://", "file:///"]
                .iter()
                .any(|scheme| r.url.starts_with(scheme))
        {
            c.wrong(
                &record,
                "url",
                format!("{} is not an address without a slash at its end", r.url),
            );
        }
        r.archs
            .keys()
            .for_each(|arch| c.known_architecture(&record, arch));
        let is_signed = !r.keys.is_empty() && database.keys_of(r).count() == r.keys.len();
        if !is_signed {
            c.wrong(
                &record,
                "keys",
                "names no key, or one that is not in signing_keys",
            );
        }
        let mut patterns = r.packages.iter().chain(&r.any_version).peekable();
        if patterns.peek().is_none()
            || !patterns
                .chain(&r.except)
                .all(|pattern| is_plain(pattern, "*+.-"))
        {
            c.wrong(
                &record,
                "packages",
                "names no package, or something that is not the pattern of one",
            );
        }
        if let Some(of) = &r.toolkit {
            let parts = of.packages.iter().chain([&of.package, &of.version]);
            let filled = |text: &String| {
                ["{series}", "{major}", "{release}"]
                    .iter()
                    .fold(text.clone(), |t, p| t.replace(p, "1"))
            };
            if !of.package.contains("{series}")
                || !parts.map(filled).all(|text| is_plain(&text, "*+.-"))
            {
                c.wrong(
                    &record,
                    "toolkit",
                    "names no package of a series, or something that is not the pattern of one",
                );
            }
        }
        if r.release
            .iter()
            .any(|text| text.contains(|ch: char| ch.is_control()))
        {
            c.wrong(&record, "release", "has control characters");
        }
    }
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
        let record = Record::from(d);
        for (key, pattern) in [
            ("gcc_package", &d.gcc_package),
            ("gxx_package", &d.gxx_package),
        ] {
            if pattern.as_ref().is_some_and(|p| !p.contains("{major}")) {
                c.wrong(&record, key, "lacks the placeholder {major}");
            }
        }
        if d.gxx_package.is_some() != d.gcc_package.is_some() {
            c.wrong(
                &record,
                "gxx_package",
                "must be given for both compilers or for neither",
            );
        }
        if !d.gccs.is_sorted() || !d.gccs.is_empty() && d.gcc_package.is_none() {
            c.wrong(&record, "gccs", "are not sorted, or gcc_package is missing");
        }
        if let Some(signing) = &d.module_signing {
            c.sourced(&record, &signing.sources);
            let paths = [&signing.key, &signing.certificate];
            if signing.packages.is_empty()
                || paths.iter().any(|path| !path.starts_with("/var/lib/"))
            {
                c.wrong(
                    &record,
                    "module_signing",
                    "needs packages, and a key and a certificate below /var/lib",
                );
            }
        }
        if let Some(names) = &d.signed_names {
            c.sourced(&record, &names.sources);
            let mut names = names.modules.iter().chain([&names.first, &names.dkms]);
            if names.any(|name| !name.contains("{driver}")) {
                c.wrong(&record, "signed_names", "lack the placeholder {driver}");
            }
        }
        if d.signed_names.is_some() != d.drivers.iter().any(|offer| offer.signed_as.is_some()) {
            c.wrong(
                &record,
                "signed_names",
                "are for offers with signed_as, and these need them",
            );
        }
        if let Some(only) = &d.only_signer {
            c.sourced(&record, &only.sources);
            if d.module_signing.is_some() || d.key_by_hand.is_some() {
                c.wrong(
                    &record,
                    "only_signer",
                    "is for releases without module_signing and key_by_hand",
                );
            }
        }
        if let Some(by_hand) = &d.key_by_hand {
            c.sourced(&record, &by_hand.sources);
            if d.module_signing.is_some() || !by_hand.certificate.starts_with('/') {
                c.wrong(
                    &record,
                    "key_by_hand",
                    "needs an absolute path, and is for releases without module_signing",
                );
            }
        }
        if let Some(stock) = &d.stock {
            c.sourced(&record, &stock.sources);
            if stock.kernels.is_empty() || d.named_as.is_some() {
                c.wrong(
                    &record,
                    "stock",
                    "needs a kernel, and a record of one release",
                );
            }
        }
        if let Some(id) = &d.companion_repository
            && database
                .package_repository(id)
                .is_none_or(|r| r.package_manager != d.package_manager)
        {
            c.wrong(
                &record,
                "companion_repository",
                format!("{id} is not a package repository for {}", d.name),
            );
        }
        for offer in &d.drivers {
            c.sourced(&record, &offer.sources);
            let Some(branch) = database.branch(offer.branch) else {
                c.wrong(
                    &record,
                    "drivers",
                    format!("{} is not a branch in the database", offer.branch),
                );
                continue;
            };
            if !branch.modules.contains(&offer.modules) {
                c.wrong(
                    &record,
                    "drivers",
                    format!("branch {} has no {} modules", offer.branch, offer.modules),
                );
            }
            if offer.version.is_some_and(|v| v.branch != offer.branch) {
                c.wrong(
                    &record,
                    "drivers",
                    format!(
                        "the offered version does not belong to branch {}",
                        offer.branch
                    ),
                );
            }
            if offer.packages.is_empty() {
                c.wrong(&record, "drivers", "an offer has no packages");
            }
            if let Some(id) = &offer.repository.adds {
                match database.package_repository(id) {
                    Some(r)
                        if r.package_manager == d.package_manager
                            && !offer.repository.seen_as.is_empty() => {}
                    Some(_) => c.wrong(
                        &record,
                        "adds",
                        format!("{id} is of another package manager, or seen_as is empty"),
                    ),
                    None => c.wrong(
                        &record,
                        "adds",
                        format!("{id} is not a package repository in the database"),
                    ),
                }
            }
            for id in offer.companions.keys() {
                c.known_companion(database, &record, "companions", *id);
                if database
                    .companion(*id)
                    .is_some_and(|of| of.version == VersionRule::Own)
                {
                    c.wrong(
                        &record,
                        "companions",
                        format!("the version of {id} is independent of the driver's"),
                    );
                }
            }
        }
    }
}

impl Checker {
    fn wrong(&mut self, record: &Record, key: &'static str, wrong: impl Into<String>) {
        self.problems.push(Problem::new(record, key, wrong.into()));
    }

    fn known_add_on(&mut self, database: &Database, record: &Record, id: AddOnId) {
        if database.add_on(id).is_none() {
            self.wrong(
                record,
                "add_on",
                format!("{id} is not an add-on in the database"),
            );
        }
    }

    fn known_companion(
        &mut self,
        database: &Database,
        record: &Record,
        key: &'static str,
        id: CompanionId,
    ) {
        if database.companion(id).is_none() {
            self.wrong(
                record,
                key,
                format!("{id} is not a companion in the database"),
            );
        }
    }

    fn sourced(&mut self, record: &Record, sources: &[SourceId]) {
        if sources.is_empty() {
            self.wrong(record, "sources", "must not be empty");
        }
        for source in sources
            .iter()
            .copied()
            .filter(|s| !self.sources.contains(s))
            .collect::<Vec<_>>()
        {
            self.wrong(record, "sources", format!("{source} is not in the sources"));
        }
    }

    /// What is the same for all tables: names and sources.
    pub(super) fn rows<R: Row>(&mut self, rows: &[R]) {
        let mut names = HashSet::new();
        for row in rows {
            let record = Record::from(row);
            if R::UNIQUE && !names.insert(row.name()) {
                self.wrong(&record, R::KEY, "appears twice");
            }
            if let Some((sources, _)) = row.origin() {
                self.sourced(&record, sources);
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
                self.wrong(&record, key, "appears twice");
            }
        }
    }

    fn ordered<T: Ord + fmt::Display>(
        &mut self,
        record: &Record,
        key: &'static str,
        low: Option<T>,
        high: Option<T>,
    ) {
        if let (Some(low), Some(high)) = (low, high)
            && low > high
        {
            self.wrong(record, key, format!("{low} is above {high}"));
        }
    }

    /// Checks what an instance type and a system have in common.
    fn machine(
        &mut self,
        database: &Database,
        record: &Record,
        gpu: Option<PciDevice>,
        count: u8,
        arch: &str,
    ) {
        self.known_architecture(record, arch);
        if count == 0 {
            self.wrong(record, "count", "no GPU");
        }
        let Some(id) = gpu else { return };
        match database.gpu(id, None) {
            None => self.wrong(record, "gpu", format!("10de:{id} is not in the database")),
            Some(gpu) if gpu.only_on.as_deref().is_some_and(|only| only != arch) => {
                self.wrong(
                    record,
                    "arch",
                    format!("{arch}, but 10de:{id} is built into other machines"),
                );
            }
            Some(_) => {}
        }
    }

    /// The valid names of a host's architecture.
    fn known_architecture(&mut self, record: &Record, architecture: &str) {
        if !matches!(architecture, "x86_64" | "aarch64" | "ppc64le") {
            self.wrong(
                record,
                "architectures",
                format!("{architecture} is not the architecture of a host"),
            );
        }
    }

    /// Branches before 340 are named but have no record.
    fn known_branch(
        &mut self,
        database: &Database,
        record: &Record,
        key: &'static str,
        branch: Option<u16>,
    ) {
        if let Some(branch) = branch.filter(|b| *b >= 340 && database.branch(*b).is_none()) {
            self.wrong(
                record,
                key,
                format!("{branch} is not a branch in the database"),
            );
        }
    }

    fn file(&mut self, record: &Record, a: &Artifact, version: impl fmt::Display) {
        if a.url
            .as_ref()
            .is_some_and(|url| !url.ends_with(a.file.as_str()))
        {
            self.wrong(record, "url", format!("does not end in {}", a.file));
        }
        // Some file names omit the dots: vulkan-beta-5809418-linux.
        let plain = |text: &str| text.replace('.', "");
        if a.sha256.is_some() && !plain(&a.file).contains(&plain(&version.to_string())) {
            self.wrong(
                record,
                "file",
                format!("does not have {version} in its name"),
            );
        }
        if (a.agree > 0) != a.sha256.is_some() {
            self.wrong(
                record,
                "agree",
                "must be given if and only if there is a checksum",
            );
        }
        let Some(sum) = &a.sha256 else { return };
        if sum.len() != 64
            || !sum
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        {
            self.wrong(
                record,
                "sha256",
                format!("{sum} is not 64 lower-case hexadecimal digits"),
            );
        }
        if let Some(other) = self
            .sums
            .insert(*sum, a.file)
            .filter(|other| *other != a.file)
        {
            self.wrong(record, "sha256", format!("is also the checksum of {other}"));
        }
    }
}
