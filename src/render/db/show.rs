//! Pages about one subject of the database: a GPU, a driver branch, a CUDA release, an add-on, a
//! system. Each fits a screen.

use super::list::{compilers, compiles_with, kernels, libraries, or_newer};
use crate::compat::{
    self, AddOn, AddOnArtifact, AddOnId, Artifact, BranchKind, CudaRelease, Database, Distribution,
    DriverBranch, DriverVariant, Framework, FrameworkBuild, FrameworkNeeds, FrameworkRelease,
    ModuleFlavour, NvLinks, framework_and_version, targets,
};
use crate::host::Gpu;
use crate::render::explain::article::Article;
use crate::render::python;
use crate::resolve::{PythonPackage, TargetGpu, serves};
use crate::text::{bytes, count, quoted};
use crate::translation::Translation;
use crate::translation::words::PLAN_FOR;
use crate::version::{AddOnVersion, CudaVersion, Want};
use std::collections::BTreeSet;
use std::rc::Rc;

fn flavours(modules: &[ModuleFlavour]) -> String {
    modules
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// What the sources of these ids are called, and where they are.
pub(crate) fn locations(database: &Database, ids: &[impl AsRef<str>]) -> Vec<String> {
    ids.iter()
        .filter_map(|id| database.source(id.as_ref()))
        .map(|source| format!("{}: {}", source.title, source.location))
        .collect()
}

/// What a GPU needs and can do. It is named in commands as it was asked for.
pub(crate) fn gpu(database: &Database, asked: &str, gpu: &Gpu, card: &TargetGpu) -> Article {
    let id = if gpu.pci_id.is_empty() {
        String::new()
    } else {
        format!("[{}]", gpu.pci_id)
    };
    let mut article = Article::new(&card.name, id);
    for (label, text) in summary(database, gpu, card) {
        article = article.with(label, text);
    }
    let name = quoted(asked);
    // The driver of a board is part of its system software.
    if card.embedded.is_none() {
        article.run.push(format!("gpusetup plan --gpu {name}"));
        article
            .run
            .push(format!("gpusetup db list drivers --for {name}"));
    }
    article
        .run
        .push(format!("gpusetup db list cuda --for {name}"));
    let sources: Vec<_> = card
        .sources
        .iter()
        .chain(
            nvlinks_of(database, gpu)
                .into_iter()
                .flat_map(|nvlinks| &nvlinks.sources),
        )
        .cloned()
        .collect();
    article.sources = locations(database, &sources);
    article
}

/// An architecture with several compute capabilities: what each of them needs.
pub(crate) fn architecture(database: &Database, name: &str) -> Option<Article> {
    let all: Vec<_> = database
        .architectures
        .iter()
        .filter(|a| a.name.eq_ignore_ascii_case(name))
        .collect();
    let mut article = Article::new(format!("{} architecture", all.first()?.name), "");
    let mut sources = BTreeSet::new();
    for one in all {
        let mut parts = vec![format!(
            "{} ({})",
            one.compute_capability,
            one.compute_capability.sm()
        )];
        parts.extend(
            one.embedded
                .as_ref()
                .map(|board| format!("part of {board}")),
        );
        parts.push(branches(one.first_driver_branch, one.last_driver_branch));
        parts.push(match (one.first_cuda, one.last_cuda) {
            (Some(first), Some(last)) => format!("CUDA {first} to {last}"),
            (Some(first), None) => format!("CUDA {first} and newer"),
            (None, Some(last)) => format!("CUDA {last} and older"),
            (None, None) => "every known CUDA".to_owned(),
        });
        parts.push(format!("{} kernel modules", flavours(&one.modules)));
        article = article.with("compute", parts.join("; "));
        sources.extend(one.sources.iter().cloned());
    }
    article.run.push("gpusetup db list gpus".to_owned());
    article.sources = locations(database, &sources.into_iter().collect::<Vec<_>>());
    Some(article)
}

/// From which driver branch to which.
fn branches(first: Option<u16>, last: Option<u16>) -> String {
    match (first, last) {
        (Some(first), None) => format!("branch {first} and newer"),
        (None, Some(last)) => format!("branch {last} and older"),
        (Some(first), Some(last)) => format!("branches {first} to {last}"),
        (None, None) => "every branch".to_owned(),
    }
}

/// What a GPU needs and can do, as labels and texts.
pub(crate) fn summary(
    database: &Database,
    gpu: &Gpu,
    card: &TargetGpu,
) -> Vec<(&'static str, String)> {
    let row = gpu
        .device()
        .and_then(|device| database.gpu(device, gpu.subsystem.as_deref()));
    let mut all: Vec<_> = row.map(|row| ("board", board(row))).into_iter().collect();
    all.push((
        "compute",
        card.capability.map_or("not published".to_owned(), |c| {
            format!("capability {c} ({})", c.sm())
        }),
    ));
    let span = match (card.first_branch, card.last_branch) {
        (Some(first), None) => match card.sure_branch.filter(|sure| first < *sure) {
            Some(sure) => format!("branch {sure} and newer, possibly from {first} on"),
            None if card.listed_from.is_empty() && card.sure_branch.is_none() && card.is_listed => {
                format!("branch {first} and newer ({first} is the first for its architecture)")
            }
            None => branches(Some(first), None),
        },
        (first, last) => branches(first, last),
    };
    if let Some(board) = &card.embedded {
        all.push((
            "driver",
            format!("part of the system software (JetPack) of {board}"),
        ));
    } else {
        let mut drivers = vec![span];
        for (kind, what) in [
            (BranchKind::Production, "production"),
            (BranchKind::LongTerm, "long-term"),
        ] {
            let mut branches = database.driver_branches.iter();
            let branch = branches.find(|b| b.kind == kind && card.is_served_by(b.branch));
            let mut releases = database.drivers.iter();
            let newest = releases.find(|d| Some(d.version.branch) == branch.map(|b| b.branch));
            drivers.extend(newest.map(|driver| format!("newest {what}: {}", driver.version)));
        }
        all.push(("driver", drivers.join("; ")));
        all.push(("modules", flavours(&card.modules)));
    }
    let served: Vec<_> = database
        .cuda
        .iter()
        .filter(|c| serves(database, c, card))
        .collect();
    all.push((
        "cuda",
        match (served.first(), served.last()) {
            (Some(newest), Some(oldest)) => {
                format!("{} to {}", oldest.version.series(), newest.version)
            }
            _ => "none targets it".to_owned(),
        },
    ));
    let profiles: Vec<_> = gpu
        .device()
        .into_iter()
        .flat_map(|d| database.mig_profiles(d, gpu.subsystem.as_deref()))
        .collect();
    if !profiles.is_empty() {
        let each = profiles.iter().map(|p| {
            let since = p
                .first_driver_branch
                .map(|b| format!(", from branch {b} on"))
                .unwrap_or_default();
            format!("{} (up to {}{since})", p.name, p.instances)
        });
        all.push(("mig", each.collect::<Vec<_>>().join(", ")));
    } else if row.is_some_and(|row| row.mig) {
        all.push((
            "mig",
            "it can be divided; its profiles are not in the database".to_owned(),
        ));
    }
    all.extend(nvlinks(database, gpu).map(|text| ("nvlink", text)));
    all.extend(fabric(database, gpu).map(|text| ("fabric", text)));
    all
}

/// What a board is: `Ampere (chip GA100); data centre; SXM4; 40 GB`.
fn board(row: &compat::Gpu) -> String {
    let line = row.line.as_deref().map(|line| match line {
        "Tesla/Data Center" => "data centre",
        "Quadro/RTX PRO" => "workstation (Quadro, RTX PRO)",
        other => other,
    });
    let form = row.form.as_deref().filter(|form| *form != "mobile");
    let parts = [
        Some(format!("{} (chip {})", row.architecture, row.chip)),
        line.map(str::to_owned),
        row.mobile.then(|| "for laptops".to_owned()),
        form.map(str::to_owned),
        row.memory_gb.map(|memory| format!("{memory} GB")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// The NVLinks of the board, and what joins them: `18 links of generation 4, joined by NVSwitches`.
fn nvlinks(database: &Database, gpu: &Gpu) -> Option<String> {
    let nvlinks = nvlinks_of(database, gpu)?;
    let Some(generation) = nvlinks.generation else {
        return Some("none".to_owned());
    };
    let joined: Vec<_> = nvlinks.joined_by.iter().map(|by| by.title()).collect();
    let links = count(nvlinks.links.into(), "link");
    let assumed = nvlinks
        .assumed
        .as_ref()
        .map(|why| format!(" ({why})"))
        .unwrap_or_default();
    Some(format!(
        "{links} of generation {generation}, joined by {}{assumed}",
        joined.join(" or ")
    ))
}

fn nvlinks_of<'a>(database: &'a Database, gpu: &Gpu) -> Option<&'a NvLinks> {
    let device = gpu.device()?;
    database
        .nvlinks
        .iter()
        .find(|nvlinks| nvlinks.gpus.contains(&device))
}

/// The NVSwitches that join GPUs of this kind on a board of several, and what that needs.
fn fabric(database: &Database, gpu: &Gpu) -> Option<String> {
    let device = gpu.device()?;
    let fabric = database
        .fabrics
        .iter()
        .find(|fabric| fabric.gpus.contains(&device))?;
    let companions = database.companions.iter();
    let needs: Vec<_> = companions
        .filter(|c| fabric.needs.contains(&c.id))
        .map(|c| c.title.as_str())
        .collect();
    Some(format!(
        "NVSwitches on {}: needs {}",
        fabric.name,
        needs.join(", ")
    ))
}

pub(crate) fn branch(database: &Database, branch: &DriverBranch) -> Article {
    let number = branch.branch;
    let mut article = Article::new(
        format!("driver branch {number}"),
        format!("({})", branch.kind.as_str()),
    );
    let releases: Vec<_> = database
        .drivers
        .iter()
        .filter(|d| d.version.branch == number)
        .collect();
    if let Some(newest) = releases.first() {
        let dated = newest.date.as_ref().or(branch.latest_release.as_ref());
        let day = dated
            .map(|day| format!(", released {day}"))
            .unwrap_or_default();
        let files = newest
            .artifacts
            .iter()
            .filter(|a| a.variant == DriverVariant::Full)
            .map(|a| &a.artifact);
        article = article.with(
            "newest",
            format!(
                "{}{day}; {} known{}",
                newest.version,
                releases.len(),
                sizes(files)
            ),
        );
    }
    article = article.with(
        "life",
        branch
            .end_of_life
            .as_ref()
            .map_or("no source states its end".to_owned(), |end| {
                format!("supported until {end}")
            }),
    );
    let newest = releases.first().map(|d| d.version);
    let run: Vec<_> = database
        .cuda
        .iter()
        .filter(|c| {
            newest.map_or(number >= c.minimum_driver.branch, |driver| {
                c.runs_on(driver)
            })
        })
        .map(|c| c.version)
        .collect();
    if let (Some(first), Some(last)) = (run.first(), run.last()) {
        let native = branch
            .max_cuda
            .map(|native| format!("natively up to {native}; "))
            .unwrap_or_default();
        article = article.with(
            "cuda",
            format!("{native}programs of CUDA {last} to {first} run"),
        );
    }
    article = article.with("kernels", kernels(branch)).with(
        "modules",
        format!(
            "{} (default {})",
            flavours(&branch.modules),
            branch.default_modules
        ),
    );
    let architectures = database
        .architectures
        .iter()
        .filter(|a| a.is_served_by(number));
    article = article.with(
        "gpus",
        together(architectures.map(|a| (&*a.name, a.compute_capability.to_string()))),
    );
    let packaged = systems(database, |d| {
        d.drivers.iter().any(|offer| offer.branch == number)
    });
    if !packaged.is_empty() {
        article = article.with("packaged", packaged);
    }
    // Of a branch that is only announced there is nothing to plan.
    article
        .run
        .extend((!releases.is_empty()).then(|| format!("gpusetup plan --driver {number}")));
    article
        .run
        .push(format!("gpusetup db list gpus --driver {number}"));
    article.sources = locations(database, &branch.sources);
    article
}

/// Names with what belongs to each, in their order: `Pascal (6.0, 6.1), Volta (7.0)`.
fn together<'a>(pairs: impl Iterator<Item = (&'a str, String)>) -> String {
    let mut all: Vec<(&str, Vec<String>)> = Vec::new();
    for (name, part) in pairs {
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, parts)) => parts.push(part),
            None => all.push((name, vec![part])),
        }
    }
    let groups: Vec<_> = all
        .iter()
        .map(|(name, parts)| format!("{name} ({})", parts.join(", ")))
        .collect();
    groups.join(", ")
}

/// The releases of distributions that fit: `debian (13, 12), rocky (9)`.
fn systems(database: &Database, fits: impl Fn(&Distribution) -> bool) -> String {
    let releases = database
        .distributions
        .iter()
        .filter(|d| d.version != "*" && fits(d));
    together(releases.map(|d| (&*d.id, d.version.clone())))
}

/// The sizes of the files for each architecture: `, runfile 380 MB (x86_64), 290 MB (aarch64)`.
fn sizes<'a>(files: impl Iterator<Item = &'a Artifact>) -> String {
    let known = files.filter_map(|file| Some(format!("{} ({})", bytes(file.size?), file.arch)));
    let known: Vec<_> = known.collect();
    if known.is_empty() {
        String::new()
    } else {
        format!("; runfile {}", known.join(", "))
    }
}

fn dated(release: &CudaRelease) -> String {
    match &release.date {
        None => release.version.to_string(),
        Some(day) => format!("{} ({day})", release.version),
    }
}

/// CUDA as a whole: what is newest, and what of it can be chosen.
pub(crate) fn all_of_cuda(database: &Database) -> Article {
    let mut article = Article::new("CUDA", format!("{} releases known", database.cuda.len()));
    if let Some(newest) = database.cuda.first() {
        article = article.with("newest", dated(newest));
        if let Some(chosen) = database
            .cuda
            .iter()
            .find(|release| can_be_chosen(database, release))
            .filter(|chosen| chosen.version != newest.version)
        {
            let why =
                "no source states the checksum of a newer release's file, so none is ever chosen";
            article = article.with("usable", format!("{}: {why}", dated(chosen)));
        }
    }
    let production = database
        .driver_branches
        .iter()
        .find(|b| b.kind == BranchKind::Production);
    if let Some((branch, native)) = production.and_then(|b| Some((b.branch, b.max_cuda?))) {
        let newest = database
            .cuda
            .iter()
            .filter(|release| can_be_chosen(database, release))
            .find(|c| c.version.series() <= native.series());
        if let Some(newest) = newest {
            article = article.with(
                "advised",
                format!(
                    "{}, the newest that production branch {branch} runs natively",
                    dated(newest)
                ),
            );
        }
    }
    article.run = vec![
        "gpusetup plan".to_owned(),
        "gpusetup db list cuda".to_owned(),
    ];
    article
}

/// Whether a release compiles on a system whose compiler and C library are known.
fn is_known_to_compile(release: &CudaRelease, system: &Distribution) -> bool {
    system.glibc.is_some()
        && system.gcc.is_some()
        && compiles_with(release, system, "x86_64").is_some()
}

/// Whether a CUDA release has a runfile with a known checksum.
fn has_runfile(database: &Database, release: &CudaRelease) -> bool {
    database
        .cuda_artifacts
        .iter()
        .any(|a| a.version == release.version && a.artifact.is_verifiable())
}

/// Whether a CUDA release has that, or archives of its components.
pub(crate) fn can_be_chosen(database: &Database, release: &CudaRelease) -> bool {
    has_runfile(database, release) || database.component_release(release.version).is_some()
}

pub(crate) fn cuda(database: &Database, release: &CudaRelease) -> Article {
    let version = release.version;
    let mut article = Article::new(
        format!("CUDA {version}"),
        release
            .date
            .as_ref()
            .map(|day| format!("released {day}"))
            .unwrap_or_default(),
    );
    let files: Vec<_> = database
        .cuda_artifacts
        .iter()
        .filter(|a| a.version == version)
        .map(|a| &a.artifact)
        .collect();
    let usable = can_be_chosen(database, release);
    let availability = match (has_runfile(database, release), usable) {
        (true, _) => format!("can be chosen{}", sizes(files.iter().copied())),
        (false, true) => {
            "no source states the checksum of its runfile, so it comes from the archives of its components".to_owned()
        }
        (false, false) => {
            "no source states the checksum of its file, so it is never chosen".to_owned()
        }
    };
    article = article.with("file", availability);
    for (label, text) in requirements(release) {
        article = article.with(label, text);
    }
    let branches = database
        .driver_branches
        .iter()
        .filter(|b| b.is_native(version).unwrap_or(false));
    let native: Vec<_> = branches.map(|b| b.branch.to_string()).collect();
    article = article.with(
        "native",
        format!("to driver branches {}", native.join(", ")),
    );
    let systems = systems(database, |d| is_known_to_compile(release, d));
    article = article.with("systems", format!("compiles on x86_64 with {systems}"));
    let add_ons: Vec<_> = database
        .add_ons
        .iter()
        .filter_map(|of| {
            Some(format!(
                "{} {}",
                of.title,
                newest_for(database, of, version)?.version
            ))
        })
        .collect();
    article = article.with("add-ons", add_ons.join(", "));
    article.run = vec![format!("gpusetup db list gpus --cuda {version}")];
    if usable {
        article
            .run
            .insert(0, format!("gpusetup plan --cuda {version}"));
    }
    article.sources = locations(database, &release.sources);
    article
}

fn newest_for<'a>(
    database: &'a Database,
    of: &AddOn,
    cuda: CudaVersion,
) -> Option<&'a AddOnArtifact> {
    database
        .add_on_archives(of.id)
        .filter(|a| a.artifact.is_verifiable())
        .filter(|a| {
            database
                .range_of(a)
                .is_some_and(|range| range.is_for(cuda.series()))
        })
        .max_by_key(|a| a.version)
}

/// What a release needs, as labels and texts.
fn requirements(release: &CudaRelease) -> Vec<(&'static str, String)> {
    let native = release
        .native_driver
        .map(|native| format!("; built with {native}"))
        .unwrap_or_default();
    let mut all = vec![
        (
            "driver",
            format!("{} or newer{native}", release.minimum_driver),
        ),
        (
            "gpus",
            format!(
                "compute capability {} to {}",
                release.lowest_capability, release.highest_capability
            ),
        ),
        ("gcc", compilers(release)),
        ("glibc", libraries(release, "x86_64")),
    ];
    all.extend(
        release
            .clang_max
            .as_ref()
            .map(|clang| ("clang", format!("up to {clang}"))),
    );
    all.extend(release.nvcc.as_ref().map(|nvcc| ("nvcc", nvcc.clone())));
    all
}

/// What changed from one release to a later one.
pub(crate) fn change(database: &Database, from: &CudaRelease, to: &CudaRelease) -> Article {
    let mut article = Article::new(format!("CUDA {} to {}", from.version, to.version), "");
    let [first, then] = [from, to].map(|release| release.date.as_deref().unwrap_or("not known"));
    article = article.with("released", format!("{first}; {then}"));
    let (before, after) = (requirements(from), requirements(to));
    for (label, now) in &after {
        match before.iter().find(|(old, _)| old == label) {
            Some((_, was)) if was == now => {}
            Some((_, was)) => article = article.with(label, format!("{now} (was: {was})")),
            None => article = article.with(label, now.clone()),
        }
    }
    let [old, new] = [from, to].map(|release| -> Vec<_> {
        let (version, release) = (release.version, Some(release));
        let targeted = database
            .architectures
            .iter()
            .filter(|a| targets(version, release, a.compute_capability, Some(a)).is_ok());
        targeted
            .map(|a| (&*a.name, a.compute_capability.to_string()))
            .collect()
    });
    for (label, one, other) in [("gained", &new, &old), ("dropped", &old, &new)] {
        let only: Vec<_> = one
            .iter()
            .filter(|gpu| !other.contains(gpu))
            .cloned()
            .collect();
        if !only.is_empty() {
            article = article.with(label, together(only.into_iter()));
        }
    }
    article.run = vec![format!("gpusetup explain cuda {}", to.version)];
    article.sources = locations(database, &to.sources);
    article
}

/// An add-on: the newest of the wanted releases for each line of CUDA.
pub(crate) fn add_on(database: &Database, of: &AddOn, wanted: &Want<AddOnVersion>) -> Article {
    let mut article = Article::new(of.id.to_string(), &of.title);
    let mut lines: Vec<&str> = Vec::new();
    let archives: Vec<_> = database
        .add_on_archives(of.id)
        .filter(|archive| wanted.accepts(archive.version))
        .collect();
    for archive in &archives {
        if !lines.contains(&archive.cuda_line.as_str()) {
            lines.push(&archive.cuda_line);
        }
    }
    for line in lines {
        let of_line: Vec<_> = archives.iter().filter(|a| a.cuda_line == line).collect();
        let Some(newest) = of_line.iter().max_by_key(|a| a.version) else {
            continue;
        };
        let range = database.range_of(newest);
        let runs = range
            .map(|range| format!("; compute capability {}", range.capabilities()))
            .unwrap_or_default();
        let usable = of_line
            .iter()
            .filter(|a| a.artifact.is_verifiable())
            .max_by_key(|a| a.version);
        let usable = match usable {
            Some(usable) if usable.version == newest.version => String::new(),
            Some(usable) => format!("; the newest with a known checksum is {}", usable.version),
            None => "; none has a known checksum".to_owned(),
        };
        let label = if *wanted == Want::Latest {
            "newest"
        } else {
            "release"
        };
        article = article.with(
            label,
            format!("{} for CUDA {line}{runs}{usable}", newest.version),
        );
    }
    let option = match (of.id, wanted) {
        (AddOnId::CUDNN, wanted) => format!("--cudnn {}", quoted(&wanted.to_string())),
        (id, Want::Meeting(wanted)) => {
            let wanted = wanted.to_string();
            let is = if wanted.starts_with(|c: char| c.is_ascii_digit()) {
                "=="
            } else {
                ""
            };
            format!("--with {}", quoted(&format!("{id}{is}{wanted}")))
        }
        (id, _) => format!("--with {id}"),
    };
    article.run = vec![
        format!("gpusetup plan {option}"),
        "gpusetup db list add-ons".to_owned(),
    ];
    article
}

/// A system: what a new installation has, and what its repositories offer.
pub(crate) fn system(database: &Database, of: &Distribution) -> Article {
    let name = format!("{}-{}", of.id, of.version);
    let mut article = Article::new(&name, &of.name);
    if let Some(stock) = &of.stock {
        let kernels: Vec<_> = stock
            .kernels
            .iter()
            .map(|(arch, release)| format!("{release} ({arch})"))
            .collect();
        article = article.with("kernel", kernels.join(", "));
    }
    if let Some(glibc) = &of.glibc {
        article = article.with("glibc", glibc.clone());
    }
    if let Some(gcc) = of.gcc {
        let others: Vec<_> = of
            .gccs
            .iter()
            .filter(|major| **major != gcc)
            .map(ToString::to_string)
            .collect();
        let others = if others.is_empty() {
            String::new()
        } else {
            format!("; also packaged: {}", others.join(", "))
        };
        article = article.with("gcc", format!("{gcc}{others}"));
    }
    let mut offers: Vec<String> = Vec::new();
    for offer in &of.drivers {
        let version = offer
            .version
            .map_or_else(|| offer.branch.to_string(), |version| version.to_string());
        let text = format!("{version} ({}, {})", offer.modules, offer.repository.name);
        if !offers.contains(&text) {
            offers.push(text);
        }
    }
    if !offers.is_empty() {
        article = article.with("drivers", offers.join(", "));
    }
    let compiled: Vec<_> = database
        .cuda
        .iter()
        .filter(|c| is_known_to_compile(c, of))
        .map(|c| c.version)
        .collect();
    if let (Some(newest), Some(oldest)) = (compiled.first(), compiled.last()) {
        article = article.with(
            "cuda",
            format!("{oldest} to {newest} compile here (x86_64)"),
        );
    }
    if let Some(note) = &of.note {
        article = article.with("note", note.clone());
    }
    article.run = vec![format!("gpusetup db list cuda --os {name}")];
    match of.stock {
        Some(_) => article
            .run
            .insert(0, format!("gpusetup plan --os {name} --gpu h100")),
        None => {
            article = article.with(
                "--os",
                "no source states the kernel of a new installation, so it cannot be planned for",
            )
        }
    }
    article.sources = locations(database, &of.sources);
    article
}

/// A release of a framework, the newest unless it is named. With an architecture also how each
/// build that runs on all of these GPUs is installed.
pub(crate) fn framework(
    database: &Database,
    name: &str,
    architecture: Option<&str>,
    cards: &[Rc<TargetGpu>],
    language: &Translation,
) -> Option<Article> {
    let (called, version) = framework_and_version(name);
    let framework = database.framework(called)?;
    let release = if version.is_empty() {
        framework.releases.first()
    } else {
        database.framework_release(name)
    }?;
    let mut article = Article::new(format!("{} {}", framework.title, release.version), "");
    for build in &release.builds {
        let without = cards
            .iter()
            .find(|card| card.lacks_kernels_in(build))
            .map(|card| format!("; no kernels for {}", card.name))
            .unwrap_or_default();
        article = article.with("build", described(build) + &without);
    }
    if !release.requires.is_empty() {
        article = article.with("requires", release.requires.join(", "));
    }
    article = article.with("releases", range(framework));
    article.remedy = Some(language.filled(PLAN_FOR, &[("framework", &framework.title)]));
    let wish = if version.is_empty() {
        &release.version
    } else {
        version.trim_start_matches('=').trim()
    };
    let wish = format!("{}=={wish}", framework.name);
    let is_named = !version.is_empty();
    let asked = if is_named {
        format!("{}=={}", framework.name, release.version)
    } else {
        framework.name.clone()
    };
    let extended = framework
        .extends
        .as_ref()
        .map(|leader| format!("{leader},"))
        .unwrap_or_default();
    article.run = vec![format!("gpusetup plan --for {extended}{asked}")];
    match architecture {
        Some(architecture) => {
            article.python =
                python::of_release(database, framework, release, &wish, architecture, cards);
        }
        None => article.run.push(format!(
            "gpusetup explain {wish}  # the commands for pip, uv and conda"
        )),
    }
    if article
        .python
        .first()
        .is_some_and(PythonPackage::needs_only_driver)
    {
        article.run.push(format!(
            "{} --profile compute  # with the toolkit, to compile extensions",
            article.run[0]
        ));
    }
    let published = article.python.iter().flat_map(|package| &package.sources);
    let of_release = release.sources.iter().map(|id| id.as_str());
    let ids: BTreeSet<_> = of_release.chain(published.map(String::as_str)).collect();
    article.sources = locations(database, &ids.into_iter().collect::<Vec<_>>());
    Some(article)
}

fn range(framework: &Framework) -> String {
    let versions: Vec<_> = framework
        .releases
        .iter()
        .map(|release: &FrameworkRelease| release.version.as_str())
        .collect();
    match versions.as_slice() {
        [newest, .., oldest] => format!("{} known, {oldest} to {newest}", versions.len()),
        all => all.join(", "),
    }
}

fn described(build: &FrameworkBuild) -> String {
    let mut parts = vec![match build.needs {
        FrameworkNeeds::Driver => {
            format!(
                "contains its own CUDA {} libraries; the host needs the driver only",
                build.cuda
            )
        }
        FrameworkNeeds::Libraries => {
            let nvcc = build
                .nvcc_min
                .map(|oldest| format!("; nvcc {oldest} or newer"))
                .unwrap_or_default();
            format!(
                "CUDA {}{}{nvcc}",
                build.first_cuda(),
                or_newer(build.cuda_min.is_some())
            )
        }
        FrameworkNeeds::Torch => "uses the CUDA of the PyTorch beside it".to_owned(),
        FrameworkNeeds::Compiler => {
            format!(
                "compiled on the host with CUDA {}{}",
                build.first_toolkit(),
                or_newer(build.cuda_min.is_some())
            )
        }
    }];
    parts.extend(
        build
            .first_cudnn()
            .map(|cudnn| format!("cuDNN {cudnn}{}", or_newer(build.cudnn_min.is_some()))),
    );
    parts.extend(match (build.lowest_capability, build.highest_capability) {
        (None, _) => None,
        (Some(lowest), None) => Some(format!("GPUs of compute capability {lowest} and newer")),
        (Some(lowest), Some(highest)) => Some(format!(
            "GPUs of compute capability {lowest} to {}.x",
            highest.major
        )),
    });
    parts.join("; ")
}
