//! The database's lists, whole or only what fits: `gpusetup db list drivers --cuda 12.8 --kernel
//! 6.18`.

use super::table::{Table, cell};
use crate::compat::{
    AddOnId, CudaRelease, Database, Distribution, DriverBranch, FrameworkNeeds, ModuleFlavour,
    PciDevice, VersionRule,
};
use crate::host::Gpu;
use crate::resolve::{TargetGpu, cuda_arch, known_gpu, serves};
use crate::version::{CudaVersion, DriverVersion, Want, dotted};

/// What the rows of a list must fit. Without a condition every row does.
#[derive(Debug)]
pub(crate) struct Filter<'a> {
    pub(crate) gpu: Option<(&'a Gpu, &'a TargetGpu)>,
    /// A text that a GPU's name, id or chip holds, in lower case.
    pub(crate) text: Option<String>,
    /// CUDA releases; all for `Want::Best`.
    pub(crate) cuda: Want<CudaVersion>,
    /// Drivers; all for `Want::Best`.
    pub(crate) driver: Want<DriverVersion>,
    /// A kernel, such as `6.18` or what `uname -r` prints.
    pub(crate) kernel: Option<String>,
    /// A system and its machine architecture.
    pub(crate) system: Option<(&'a Distribution, &'a str)>,
}

impl Default for Filter<'_> {
    fn default() -> Self {
        Self {
            gpu: None,
            text: None,
            cuda: Want::Best,
            driver: Want::Best,
            kernel: None,
            system: None,
        }
    }
}

impl<'a> Filter<'a> {
    fn card(&self) -> Option<&'a TargetGpu> {
        self.gpu.map(|(_, card)| card)
    }

    /// The releases that the condition names, newest first; none without one.
    fn releases<'d>(
        &'d self,
        database: &'d Database,
    ) -> Option<impl Iterator<Item = &'d CudaRelease>> {
        let wanted = !matches!(self.cuda, Want::Best);
        wanted.then(|| {
            database
                .cuda
                .iter()
                .filter(|release| self.cuda.accepts(release.version))
        })
    }

    /// The newest driver that the condition names; none without one.
    fn newest_driver(&self, database: &Database) -> Option<DriverVersion> {
        let wanted = !matches!(self.driver, Want::Best);
        wanted.then(|| {
            database
                .drivers
                .iter()
                .map(|d| d.version)
                .find(|version| self.driver.accepts(*version))
        })?
    }
}

/// Where no file has a known checksum, so that none is ever chosen.
const UNVERIFIED: &str = "no verified file";

fn flavours(modules: &[ModuleFlavour]) -> String {
    modules
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

pub(crate) fn gpus(database: &Database, filter: &Filter) -> Table {
    let id = |device: PciDevice| format!("10de:{device}");
    let newest = filter.newest_driver(database);
    let rows = database
        .gpus
        .iter()
        .filter(|g| {
            if !filter.text.as_ref().is_none_or(|text| {
                [g.name.to_lowercase(), id(g.device), g.chip.to_lowercase()]
                    .iter()
                    .any(|t| t.contains(text.as_str()))
            }) {
                return false;
            }
            if newest.is_none() && matches!(filter.cuda, Want::Best) {
                return true;
            }
            let found = crate::host::known_gpu(g);
            let Ok(card) = known_gpu(database, &found) else {
                return false;
            };
            newest.is_none_or(|driver| card.is_served_by(driver.branch))
                && filter
                    .releases(database)
                    .is_none_or(|mut all| all.any(|release| serves(database, release, &card)))
        })
        .map(|g| {
            vec![
                id(g.device),
                g.subsystem.unwrap_or_default().to_string(),
                g.name.to_string(),
                cell(g.compute_capability),
                g.last_driver_branch
                    .map_or_else(|| "current".to_owned(), String::from),
                flavours(&g.modules),
            ]
        });
    Table::new(
        &[
            "PCI ID",
            "BOARD",
            "NAME",
            "COMPUTE",
            "LAST BRANCH",
            "MODULES",
        ],
        rows.collect(),
    )
}

/// Driver branches.
pub(crate) fn drivers(database: &Database, filter: &Filter) -> Table {
    let mut headings = vec![
        "BRANCH",
        "KIND",
        "NEWEST",
        "RELEASED",
        "LIFE ENDS",
        "CUDA",
        "KERNELS",
        "MODULES",
    ];
    headings.extend((!matches!(filter.cuda, Want::Best)).then_some("RUNS"));
    headings.extend(filter.kernel.as_ref().map(|_| "BUILDS"));
    headings.extend(filter.system.map(|_| "PACKAGES"));
    let rows = database
        .driver_branches
        .iter()
        .filter_map(|b| {
            if filter
                .card()
                .is_some_and(|card| !card.is_served_by(b.branch))
            {
                return None;
            }
            let newest = database
                .drivers
                .iter()
                .find(|d| d.version.branch == b.branch);
            let mut row = vec![
                b.branch.to_string(),
                b.kind.as_str().to_owned(),
                cell(newest.map(|d| d.version)),
                cell(
                    newest
                        .and_then(|d| d.date.clone())
                        .or_else(|| b.latest_release.clone()),
                ),
                cell(b.end_of_life.as_ref()),
                cell(b.max_cuda),
                kernels(b),
                flavours(&b.modules),
            ];
            if let Some(releases) = filter.releases(database) {
                row.push(runs(b, newest.map(|d| d.version), releases)?);
            }
            if let Some(kernel) = &filter.kernel {
                row.push(builds_on(b, kernel)?.to_owned());
            }
            if let Some((system, arch)) = filter.system {
                row.push(packages(system, arch, b.branch)?);
            }
            Some(row)
        })
        .collect();
    Table::new(&headings, rows)
}

/// Whether the modules of a branch's last release build on a kernel; none if they do not.
fn builds_on(branch: &DriverBranch, kernel: &str) -> Option<&'static str> {
    let is_old_enough = branch
        .newest_kernel
        .as_deref()
        .map(|newest| dotted(kernel) <= dotted(newest));
    if branch
        .oldest_kernel
        .as_deref()
        .is_some_and(|oldest| dotted(kernel) < dotted(oldest))
        || is_old_enough == Some(false)
        || branch
            .kernel_limits
            .iter()
            .any(|limit| limit.excludes(kernel))
    {
        return None;
    }
    Some(if is_old_enough.is_some() {
        "yes"
    } else {
        "not known"
    })
}

/// The kernels of a branch: `3.10 to 6.14`.
pub(crate) fn kernels(branch: &DriverBranch) -> String {
    match (&branch.oldest_kernel, &branch.newest_kernel) {
        (None, None) => cell(None::<String>),
        (Some(oldest), None) => format!("from {oldest}"),
        (None, Some(newest)) => format!("to {newest}"),
        (Some(oldest), Some(newest)) => format!("{oldest} to {newest}"),
    }
}

/// The newest of these releases that a branch runs, and how; none if it runs none.
fn runs<'a>(
    branch: &DriverBranch,
    newest: Option<DriverVersion>,
    mut releases: impl Iterator<Item = &'a CudaRelease>,
) -> Option<String> {
    let release = releases.find(|release| match newest {
        Some(driver) => release.runs_on(driver),
        None => branch.branch >= release.minimum_driver.branch,
    })?;
    let how = if branch.is_native(release.version).unwrap_or(true) {
        "natively"
    } else {
        "by minor-version compatibility"
    };
    Some(format!("{} {how}", release.version))
}

/// The packages of a branch on a system: the first of each offer, with the version.
fn packages(system: &Distribution, arch: &str, branch: u16) -> Option<String> {
    // Offers with signed modules have the same driver in the same repository.
    let all: Vec<_> = system
        .drivers
        .iter()
        .filter(|offer| {
            offer.branch == branch
                && offer.archs.iter().any(|a| a == arch)
                && offer.signed_modules.is_empty()
        })
        .map(|offer| {
            let name = offer.packages.first().map_or("", String::as_str);
            offer
                .version
                .map_or_else(|| name.to_owned(), |version| format!("{name} {version}"))
        })
        .collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// CUDA releases.
pub(crate) fn cuda(database: &Database, filter: &Filter) -> Table {
    let mut headings = vec![
        "CUDA", "DATE", "DRIVER", "COMPUTE", "GCC", "GLIBC", "RUNFILES",
    ];
    headings.extend(filter.system.map(|_| "COMPILES WITH"));
    let newest = filter.newest_driver(database);
    let rows = database
        .cuda
        .iter()
        .filter_map(|c| {
            if filter.card().is_some_and(|card| !serves(database, c, card))
                || newest.is_some_and(|driver| driver < c.minimum_driver)
                || !filter.cuda.accepts(c.version)
            {
                return None;
            }
            let files = database
                .cuda_artifacts
                .iter()
                .filter(|a| a.version == c.version && a.artifact.is_verifiable());
            let mut archs: Vec<_> = files.map(|a| a.artifact.arch.as_str()).collect();
            archs.dedup();
            let mut row = vec![
                c.version.to_string(),
                cell(c.date.as_ref()),
                c.minimum_driver.to_string(),
                format!("{}-{}", c.lowest_capability, c.highest_capability),
                compilers(c),
                libraries(
                    c,
                    filter.system.map_or("x86_64", |(_, arch)| cuda_arch(arch)),
                ),
                if archs.is_empty() {
                    UNVERIFIED.to_owned()
                } else {
                    archs.join(", ")
                },
            ];
            if let Some((system, arch)) = filter.system {
                row.push(compiles_with(c, system, cuda_arch(arch))?);
            }
            Some(row)
        })
        .collect();
    Table::new(&headings, rows)
}

/// The gcc that nvcc of a release accepts: `6 to 14`.
pub(crate) fn compilers(release: &CudaRelease) -> String {
    match (release.gcc_min, release.gcc_max) {
        (Some(oldest), Some(newest)) => format!("{oldest} to {newest}"),
        (None, newest) => cell(newest.map(|newest| format!("up to {newest}"))),
        (Some(oldest), None) => format!("from {oldest}"),
    }
}

/// The C libraries that a release runs and compiles with: `2.28, before 2.42`.
pub(crate) fn libraries(release: &CudaRelease, arch: &str) -> String {
    match (&release.glibc_min, release.first_breaking_glibc(arch)) {
        (None, None) => cell(None::<String>),
        (Some(oldest), None) => format!("from {oldest}"),
        (None, Some(breaks)) => format!("before {breaks}"),
        (Some(oldest), Some(breaks)) => format!("from {oldest}, before {breaks}"),
    }
}

/// The gcc of a system that a release compiles with; none if it runs or compiles with none of them,
/// as far as that is known.
pub(crate) fn compiles_with(
    release: &CudaRelease,
    system: &Distribution,
    arch: &str,
) -> Option<String> {
    if let Some(glibc) = system.glibc.as_deref() {
        let too_old = release
            .glibc_min
            .as_deref()
            .is_some_and(|oldest| dotted(glibc) < dotted(oldest));
        let too_new = release
            .first_breaking_glibc(arch)
            .is_some_and(|breaks| dotted(glibc) >= dotted(breaks));
        if too_old || too_new {
            return None;
        }
    }
    let taken = release.gcc_min.unwrap_or(0)..=release.gcc_max.unwrap_or(u16::MAX);
    match system.gcc {
        None => Some("gcc not known".to_owned()),
        Some(default) if taken.contains(&default) => Some(format!("gcc {default} (the default)")),
        Some(_) => system
            .gccs
            .iter()
            .rev()
            .find(|gcc| taken.contains(gcc))
            .map(|gcc| format!("gcc {gcc}")),
    }
}

/// The archives of every add-on.
pub(crate) fn add_ons(database: &Database, filter: &Filter) -> Vec<Table> {
    database
        .add_ons
        .iter()
        .map(|of| add_on(database, of.id, filter))
        .filter(|table| !table.is_empty())
        .collect()
}

/// The archives of an add-on.
pub(crate) fn add_on(database: &Database, id: AddOnId, filter: &Filter) -> Table {
    let newest = filter.newest_driver(database);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for a in database.add_on_archives(id) {
        let Some(range) = database.range_of(a) else {
            continue;
        };
        if filter
            .card()
            .and_then(|c| c.capability)
            .is_some_and(|c| !range.runs_on(c))
            || !filter
                .releases(database)
                .is_none_or(|mut all| all.any(|release| range.is_for(release.version.series())))
            || newest
                .zip(range.minimum_driver)
                .is_some_and(|(driver, minimum)| driver < minimum)
        {
            continue;
        }
        let (version, line) = (a.version.to_string(), a.cuda_line.clone());
        let arch = if a.artifact.is_verifiable() {
            a.artifact.arch.as_str()
        } else {
            UNVERIFIED
        };
        match rows.last_mut().filter(|r| r[1] == version && r[2] == line) {
            Some(row) => match row[5].as_str() {
                UNVERIFIED => row[5] = arch.to_owned(),
                known if arch == UNVERIFIED || known.split(", ").any(|known| known == arch) => {}
                _ => row[5] += &format!(", {arch}"),
            },
            None => rows.push(vec![
                id.to_string(),
                version,
                line,
                range.capabilities(),
                cell(range.minimum_driver),
                arch.to_owned(),
            ]),
        }
    }
    Table::new(
        &[
            "ADD-ON", "VERSION", "FOR CUDA", "COMPUTE", "DRIVER", "ARCHIVES",
        ],
        rows,
    )
}

/// Parts of toolkits that can be had alone.
pub(crate) fn components(database: &Database, filter: &Filter) -> Table {
    let releases: Vec<_> = database
        .component_releases
        .iter()
        .filter(|r| {
            filter.card().is_none_or(|card| {
                database
                    .cuda(r.version)
                    .is_some_and(|release| serves(database, release, card))
            }) && filter.cuda.accepts(r.version)
        })
        .collect();
    let rows = database
        .components
        .iter()
        .filter_map(|component| {
            let having: Vec<_> = releases
                .iter()
                .filter_map(|r| Some((r.version, r.component(component)?)))
                .collect();
            let ((newest, part), (oldest, _)) = (having.first()?, having.last()?);
            let archs: Vec<_> = part.archives.iter().map(|a| a.arch.as_str()).collect();
            Some(vec![
                component.short().to_owned(),
                part.name.clone(),
                format!("{oldest}-{newest}"),
                archs.join(", "),
                component.title.clone(),
            ])
        })
        .collect();
    Table::new(
        &[
            "NAME",
            "NVIDIA'S NAME",
            "CUDA",
            "ARCHITECTURES",
            "WHAT IT IS",
        ],
        rows,
    )
}

/// Packages that go with the driver; those that boards with a GPU may need.
pub(crate) fn companions(database: &Database, filter: &Filter) -> Table {
    let rows = database
        .companions
        .iter()
        .filter(|companion| {
            let Some((gpu, _)) = filter.gpu else {
                return true;
            };
            database
                .fabrics
                .iter()
                .filter(|fabric| {
                    gpu.device()
                        .is_some_and(|device| fabric.gpus.contains(&device))
                })
                .any(|fabric| fabric.needs.contains(&companion.id))
        })
        .map(|companion| {
            let version = match companion.version {
                VersionRule::Driver => "the driver's",
                VersionRule::Branch => "the branch's",
                VersionRule::Own => "its own",
            };
            let units = if companion.units.is_empty() {
                cell(None::<String>)
            } else {
                companion.units.join(", ")
            };
            vec![
                companion.id.to_string(),
                companion.title.clone(),
                version.to_owned(),
                units,
                companion.purpose.clone(),
            ]
        })
        .collect();
    Table::new(
        &["COMPANION", "TITLE", "VERSION", "UNITS", "WHAT IT DOES"],
        rows,
    )
}

pub(crate) fn or_newer(is_open: bool) -> &'static str {
    if is_open { " or newer" } else { "" }
}

/// Builds of frameworks. The driver is the oldest that runs the build's CUDA.
pub(crate) fn frameworks(database: &Database, filter: &Filter) -> Table {
    let newest = filter.newest_driver(database);
    let of_series = |series: CudaVersion| {
        database
            .cuda
            .iter()
            .find(|c| c.version.series() == series.series())
    };
    let mut rows = Vec::new();
    for framework in &database.frameworks {
        for release in &framework.releases {
            for build in release.builds.iter().filter(|b| {
                let has_kernels = filter
                    .card()
                    .and_then(|c| c.capability)
                    .is_none_or(|have| b.has_kernels_for(have));
                let is_of = filter.releases(database).is_none_or(|mut all| {
                    all.any(|release| release.version.series() == b.cuda.series())
                });
                let runs = newest
                    .zip(of_series(b.cuda))
                    .is_none_or(|(driver, release)| driver >= release.minimum_driver);
                let cudnn_runs = b
                    .first_cudnn()
                    .zip(filter.card().and_then(|c| c.capability))
                    .is_none_or(|(version, have)| {
                        let line = b.cuda.major.to_string();
                        database
                            .add_on_range(AddOnId::CUDNN, version, &line)
                            .is_none_or(|range| range.runs_on(have))
                    });
                has_kernels && cudnn_runs && is_of && runs
            }) {
                rows.push(vec![
                    format!("{}=={}", framework.name, release.version),
                    match build.needs {
                        FrameworkNeeds::Driver => format!("brings {}", build.cuda),
                        FrameworkNeeds::Torch => "PyTorch's".to_owned(),
                        _ => format!(
                            "{}{}",
                            build.first_toolkit(),
                            or_newer(build.cuda_min.is_some())
                        ),
                    },
                    cell(of_series(build.cuda).map(|release| release.minimum_driver)),
                    cell(
                        build
                            .first_cudnn()
                            .map(|c| format!("{c}{}", or_newer(build.cudnn_min.is_some()))),
                    ),
                    match (build.lowest_capability, build.highest_capability) {
                        (None, _) => cell(None::<String>),
                        (Some(lowest), None) => format!("{lowest} and up"),
                        (Some(lowest), Some(highest)) => format!("{lowest} to {}.x", highest.major),
                    },
                ]);
            }
        }
    }
    Table::new(&["FRAMEWORK", "CUDA", "DRIVER", "CUDNN", "COMPUTE"], rows)
}

/// Instance types of cloud providers.
pub(crate) fn instances(database: &Database, filter: &Filter) -> Table {
    let rows = database
        .instances
        .iter()
        .filter(|i| {
            let name = i.name.to_lowercase();
            filter
                .gpu
                .is_none_or(|(gpu, _)| gpu.device() == Some(i.gpu))
                && filter
                    .text
                    .as_ref()
                    .is_none_or(|text| filter.gpu.is_some() || name.contains(text))
        })
        .map(|i| {
            let gpu = database
                .gpu(i.gpu, None)
                .map_or_else(|| format!("10de:{}", i.gpu), |gpu| gpu.name.to_string());
            vec![
                i.name.clone(),
                i.provider.as_str().to_owned(),
                i.count.to_string(),
                gpu,
                i.arch.clone().unwrap_or_else(|| "x86_64".to_owned()),
                if i.part {
                    "vGPU: driver of the provider"
                } else {
                    ""
                }
                .to_owned(),
            ]
        })
        .collect();
    Table::new(
        &["INSTANCE", "PROVIDER", "GPUS", "GPU", "MACHINE", "NOTE"],
        rows,
    )
}

/// Distributions, with what a new installation has.
pub(crate) fn systems(database: &Database) -> Table {
    let known = database.distributions.iter().filter(|d| d.version != "*");
    Table::new(
        &[
            "SYSTEM",
            "NAME",
            "KERNEL",
            "GLIBC",
            "GCC",
            "PACKAGED BRANCHES",
        ],
        known
            .map(|d| {
                let mut branches: Vec<_> = d.drivers.iter().map(|offer| offer.branch).collect();
                branches.sort_unstable_by(|a, b| b.cmp(a));
                branches.dedup();
                let branches: Vec<_> = branches.iter().map(ToString::to_string).collect();
                vec![
                    format!("{}-{}", d.id, d.version),
                    d.name.clone(),
                    d.stock
                        .as_ref()
                        .and_then(|stock| stock.kernels.get("x86_64"))
                        .map_or_else(|| "not known, so not for --os".to_owned(), Clone::clone),
                    cell(d.glibc.as_ref()),
                    cell(d.gcc),
                    if branches.is_empty() {
                        cell(None::<String>)
                    } else {
                        branches.join(", ")
                    },
                ]
            })
            .collect(),
    )
}
