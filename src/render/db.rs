//! The database as tables.

use crate::compat::{
    AddOnId, BranchKind, Companion, Component, ComponentRelease, Database, Fabric, FrameworkNeeds, ModuleFlavour,
    Tally, VersionRule,
};
use crate::host::Gpu;
use crate::resolve::{Card, serves};
use crate::text::{count, wrapped};
use std::fmt::Write;

/// Rows under headings, each column as wide as its widest cell.
fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = (0..headings.len())
        .map(|n| rows.iter().map(|r| r[n].chars().count()).chain([headings[n].len()]).max().unwrap_or(0))
        .collect();
    let line = |cells: Vec<&str>| {
        let padded: Vec<_> = cells.iter().zip(&widths).map(|(c, w)| format!("{c:<w$}")).collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let mut out = line(headings.to_vec());
    for row in rows {
        out += &line(row.iter().map(String::as_str).collect());
    }
    out
}

fn flavours(modules: &[ModuleFlavour]) -> String {
    modules.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// GPUs whose name, id or chip holds a text; all without one.
pub fn gpus(database: &Database, holding: Option<&str>) -> String {
    let id = |g: &crate::compat::Gpu| format!("10de:{}", g.device);
    let holds = |g: &&crate::compat::Gpu| {
        holding
            .is_none_or(|text| [g.name.to_lowercase(), id(g), g.chip.to_lowercase()].iter().any(|t| t.contains(text)))
    };
    let rows = database.gpus.iter().filter(holds).map(|g| {
        let capability = g.compute_capability.map_or("-".to_owned(), |c| c.to_string());
        let last = g.last_driver_branch.clone().unwrap_or_else(|| "current".to_owned());
        vec![id(g), g.subsystem.clone().unwrap_or_default(), g.name.clone(), capability, last, flavours(&g.modules)]
    });
    let rows: Vec<_> = rows.collect();
    table(&["PCI ID", "BOARD", "NAME", "COMPUTE", "LAST BRANCH", "MODULES"], &rows)
}

/// Driver branches; those that know a card.
pub fn drivers(database: &Database, card: Option<&Card>) -> String {
    let knows = |number: u16| {
        card.is_none_or(|c| c.first_branch.is_none_or(|f| number >= f) && c.last_branch.is_none_or(|l| number <= l))
    };
    let rows = database.driver_branches.iter().filter(|b| knows(b.branch)).map(|b| {
        let newest = database.drivers.iter().find(|d| d.version.branch == b.branch);
        vec![
            b.branch.to_string(),
            serde_json::to_value(b.kind).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default(),
            newest.map_or("-".to_owned(), |d| d.version.to_string()),
            b.end_of_life.clone().unwrap_or_else(|| "-".to_owned()),
            b.max_cuda.map_or("-".to_owned(), |c| c.to_string()),
            flavours(&b.modules),
        ]
    });
    let rows: Vec<_> = rows.collect();
    table(&["BRANCH", "KIND", "NEWEST", "LIFE ENDS", "CUDA", "MODULES"], &rows)
}

/// CUDA releases; those that target a card.
pub fn cuda(database: &Database, card: Option<&Card>) -> String {
    let rows: Vec<_> = database
        .cuda
        .iter()
        .filter(|c| card.is_none_or(|card| serves(database, c, card)))
        .map(|c| {
            let files = database.cuda_artifacts.iter().filter(|a| a.version == c.version && a.artifact.is_verifiable());
            let mut archs: Vec<_> = files.map(|a| a.artifact.arch.as_str()).collect();
            archs.dedup();
            vec![
                c.version.to_string(),
                c.date.clone().unwrap_or_else(|| "-".to_owned()),
                c.minimum_driver.to_string(),
                format!("{}-{}", c.lowest_capability, c.highest_capability),
                c.gcc_max.map_or("-".to_owned(), |g| g.to_string()),
                if archs.is_empty() { "no verified file".to_owned() } else { archs.join(", ") },
            ]
        })
        .collect();
    table(&["CUDA", "DATE", "DRIVER", "COMPUTE", "GCC", "RUNFILES"], &rows)
}

/// The archives of every add-on; those that run on a card.
pub fn add_ons(database: &Database, card: Option<&Card>) -> String {
    database.add_ons.iter().map(|of| add_on(database, of.id, card)).collect::<Vec<_>>().join("\n")
}

/// The archives of an add-on; those that run on a card.
pub fn add_on(database: &Database, id: AddOnId, card: Option<&Card>) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for a in database.add_on_archives(id) {
        let Some(range) = database.range_of(a) else { continue };
        if card.and_then(|c| c.capability).is_some_and(|c| !range.runs_on(c)) {
            continue;
        }
        let (version, line) = (a.version.to_string(), a.cuda_line.clone());
        match rows.last_mut().filter(|r| r[0] == version && r[1] == line) {
            Some(row) => {
                if !row[4].split(", ").any(|arch| arch == a.artifact.arch) {
                    let _ = write!(row[4], ", {}", a.artifact.arch);
                }
            }
            None => rows.push(vec![
                version,
                line,
                range.capabilities(),
                range.minimum_driver.map_or("-".to_owned(), |d| d.to_string()),
                a.artifact.arch.clone(),
            ]),
        }
    }
    table(&[&id.as_str().to_uppercase(), "FOR CUDA", "COMPUTE", "DRIVER", "ARCHIVES"], &rows)
}

/// Parts of toolkits that can be had alone; those of releases that target a card.
pub fn components(database: &Database, card: Option<&Card>) -> String {
    let targets = |r: &&ComponentRelease| {
        card.is_none_or(|c| database.cuda(r.version).is_some_and(|release| serves(database, release, c)))
    };
    let releases: Vec<_> = database.component_releases.iter().filter(targets).collect();
    let row = |component: &Component| {
        let having: Vec<_> = releases.iter().filter_map(|r| Some((r.version, r.component(component)?))).collect();
        let ((newest, part), (oldest, _)) = (having.first()?, having.last()?);
        let archs: Vec<_> = part.archives.iter().map(|a| a.arch.as_str()).collect();
        Some(vec![
            component.short().to_owned(),
            part.name.clone(),
            format!("{oldest}-{newest}"),
            archs.join(", "),
            component.title.clone(),
        ])
    };
    let rows: Vec<_> = database.components.iter().filter_map(row).collect();
    table(&["NAME", "NVIDIA'S NAME", "CUDA", "ARCHITECTURES", "WHAT IT IS"], &rows)
}

/// Packages that go with the driver; those that boards with a GPU may need.
pub fn companions(database: &Database, gpu: Option<&Gpu>) -> String {
    let is_needed = |companion: &&Companion| {
        let Some(gpu) = gpu else { return true };
        let has = |fabric: &&Fabric| gpu.device().is_some_and(|device| fabric.gpus.contains(&device));
        database.fabrics.iter().filter(has).any(|fabric| fabric.needs.contains(&companion.id))
    };
    let row = |companion: &Companion| {
        let version = match companion.version {
            VersionRule::Driver => "the driver's",
            VersionRule::Branch => "the branch's",
            VersionRule::Own => "its own",
        };
        let units = if companion.units.is_empty() { "-".to_owned() } else { companion.units.join(", ") };
        vec![companion.id.to_string(), companion.title.clone(), version.to_owned(), units, companion.purpose.clone()]
    };
    let rows: Vec<_> = database.companions.iter().filter(is_needed).map(row).collect();
    table(&["COMPANION", "TITLE", "VERSION", "UNITS", "WHAT IT DOES"], &rows)
}

/// Builds of frameworks; those that have kernels for a card.
pub fn frameworks(database: &Database, card: Option<&Card>) -> String {
    let mut rows = Vec::new();
    for framework in &database.frameworks {
        for release in &framework.releases {
            let name = format!("{}=={}", framework.name, release.version);
            let capability = card.and_then(|c| c.capability);
            let has = |b: &&crate::compat::FrameworkBuild| capability.is_none_or(|have| b.has_kernels_for(have));
            for build in release.builds.iter().filter(has) {
                let newer = |open: bool| if open { " or newer" } else { "" };
                rows.push(vec![
                    name.clone(),
                    match build.needs {
                        FrameworkNeeds::Driver => format!("brings {}", build.cuda),
                        _ => format!("{}{}", build.first_toolkit(), newer(build.cuda_min.is_some())),
                    },
                    build.first_cudnn().map_or("-".to_owned(), |c| format!("{c}{}", newer(build.cudnn_min.is_some()))),
                    match (build.lowest_capability, build.highest_capability) {
                        (None, _) => "-".to_owned(),
                        (Some(lowest), None) => format!("{lowest} and up"),
                        (Some(lowest), Some(highest)) => format!("{lowest} to {}.x", highest.major),
                    },
                ]);
            }
        }
    }
    table(&["FRAMEWORK", "CUDA", "CUDNN", "COMPUTE"], &rows)
}

/// What a GPU needs and can do, in one screen.
pub fn show(database: &Database, gpu: &Gpu, card: &Card, width: usize) -> String {
    let mut out = String::new();
    let mut line = |label: &str, text: &str| out += &wrapped(&format!("{label:<10} "), text, width);
    let id = if gpu.pci_id.is_empty() { String::new() } else { format!(" [{}]", gpu.pci_id) };
    line("gpu", &format!("{}{id}", card.name));
    for (label, text) in summary(database, gpu, card) {
        line(label, &text);
    }
    line("sources", &crate::resolve::source_titles(database, &card.sources));
    let name = if gpu.pci_id.is_empty() { card.name.clone() } else { gpu.pci_id.clone() };
    let name = crate::text::quoted(&name);
    out += "\n";
    for (command, what) in [
        (format!("gpusetup plan --gpu {name}"), "what this host would get for it"),
        (format!("gpusetup db list drivers --for {name}"), "every driver branch"),
        (format!("gpusetup db list cuda --for {name}"), "every CUDA release"),
    ] {
        out += &format!("{command:<46} # {what}\n");
    }
    out
}

/// What a GPU needs and can do, as labels and texts.
pub fn summary(database: &Database, gpu: &Gpu, card: &Card) -> Vec<(&'static str, String)> {
    let mut all = vec![(
        "compute",
        card.capability.map_or("not published".to_owned(), |c| format!("capability {c} ({})", c.sm())),
    )];
    let knows = |number: u16| {
        card.first_branch.is_none_or(|first| number >= first) && card.last_branch.is_none_or(|last| number <= last)
    };
    let newest = |kind: BranchKind, what: &str| {
        let branch = database.driver_branches.iter().find(|b| b.kind == kind && knows(b.branch))?;
        let driver = database.drivers.iter().find(|d| d.version.branch == branch.branch)?;
        Some(format!("newest {what}: {}", driver.version))
    };
    let span = match (card.first_branch, card.last_branch) {
        (Some(first), None) => format!("branch {first} and newer"),
        (None, Some(last)) => format!("branch {last} and older"),
        (Some(first), Some(last)) => format!("branches {first} to {last}"),
        (None, None) => "every branch".to_owned(),
    };
    let drivers = [newest(BranchKind::Production, "production"), newest(BranchKind::LongTerm, "long-term")];
    all.push(("driver", std::iter::once(span).chain(drivers.into_iter().flatten()).collect::<Vec<_>>().join("; ")));
    all.push(("modules", flavours(&card.modules)));
    let served: Vec<_> = database.cuda.iter().filter(|c| serves(database, c, card)).collect();
    all.push((
        "cuda",
        match (served.first(), served.last()) {
            (Some(newest), Some(oldest)) => format!("{} to {}", oldest.version.series(), newest.version),
            _ => "none targets it".to_owned(),
        },
    ));
    let profiles: Vec<_> = gpu.device().into_iter().flat_map(|d| database.mig_profiles(d)).collect();
    if !profiles.is_empty() {
        let each = profiles.iter().map(|p| {
            let since = p.first_driver_branch.map(|b| format!(", from branch {b} on")).unwrap_or_default();
            format!("{} (up to {}{since})", p.name, p.instances)
        });
        all.push(("mig", each.collect::<Vec<_>>().join(", ")));
    }
    all
}

/// What `db check` found, when nothing is wrong.
pub fn check(database: &Database, tally: &Tally, width: usize) -> String {
    let number = |n: usize| n.to_string();
    let rows: Vec<_> = tally
        .kinds
        .iter()
        .map(|k| {
            let counts = [k.count, k.measured, k.published, k.reported, k.assumed, k.two_or_more];
            std::iter::once(k.kind.to_owned()).chain(counts.map(number)).collect()
        })
        .collect();
    let sums = &tally.checksums;
    let mut out = format!("Database {}: 0 errors\n\n", database.version);
    out += &table(&["FACTS", "COUNT", "MEASURED", "PUBLISHED", "REPORTED", "ASSUMED", "2+ SOURCES"], &rows);
    let text = format!(
        "of {}: {} given alike by two or more independent sources, {} by one, {} not known (listed, never chosen)",
        count((sums.unknown + sums.one_source + sums.two_or_more) as u64, "file"),
        sums.two_or_more,
        sums.one_source,
        sums.unknown
    );
    out += &wrapped("\nChecksums  ", &text, width);
    for (title, remarks) in [("Assumed in part,", &tally.assumed), ("Sources differ on", &tally.disagreements)] {
        out += &format!("\n{title} {}:\n", count(remarks.len() as u64, "record"));
        for remark in remarks {
            out += &wrapped("  ", &format!("{}: {}", remark.record, remark.text), width);
        }
    }
    out
}
