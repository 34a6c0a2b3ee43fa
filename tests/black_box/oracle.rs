//! A second solver, written to be obviously right and not to be fast: it lists everything that
//! could be chosen, strikes out what a rule forbids, sorts by preference and takes the first. It
//! shares no code with the resolver, only the database, and both must come to the same on many
//! thousands of hosts.

use crate::common::sampled;
use crate::fleet::{Fleet, is_nvidias};
use gpusetup::compat::{
    AddOnArtifact, AddOnId, BranchKind, CompanionId, CudaRelease, Database, Distribution,
    DriverArtifact, DriverBranch, DriverVariant, Fabric, Maturity, ModuleFlavour, PciDevice,
};
use gpusetup::database::embedded;
use gpusetup::host::{Facts, Gpu, Origin, SecureBoot, Toolkit};
use gpusetup::resolve::{Method, Prefer, Request, Selection, resolve};
use gpusetup::version::{ComputeCapability, CudaVersion, DriverVersion, Want};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A card as the rules see it.
struct Card {
    capability: Option<ComputeCapability>,
    modules: Vec<ModuleFlavour>,
    branches: std::ops::RangeInclusive<u16>,
    /// Below it a driver must be there already, or named.
    listed_from: u16,
    /// The first release of each branch that lists it.
    listed: Vec<DriverVersion>,
    /// It is made for data centres.
    of_servers: bool,
}

/// A way to get a driver.
#[derive(Debug, Clone)]
struct Driver<'a> {
    version: DriverVersion,
    branch: &'a DriverBranch,
    modules: ModuleFlavour,
    method: Method,
    /// From NVIDIA's network repository.
    nvidias: bool,
    /// The distribution signs its modules.
    signed: bool,
    /// Its packages are the distribution's for servers, and the host has a desktop; or they are
    /// not, and the host is a server.
    misplaced: bool,
    /// Another kind of installation than the installed driver's: the two break each other.
    breaks: bool,
    /// Of the installed branch, and older.
    older: bool,
    kept: bool,
    maturity: Maturity,
    verified: bool,
}

#[derive(Debug, PartialEq)]
struct Answer {
    driver: Option<(String, ModuleFlavour, Method)>,
    cuda: Option<String>,
    /// Of each add-on, the release and the line of CUDA.
    add_ons: BTreeMap<AddOnId, String>,
}

#[test]
fn the_resolver_agrees_with_the_oracle() {
    let database = embedded();
    let fleet = Fleet::new(&database);
    let (plain, varied) = (database.gpus.len(), sampled(5_000, 20_000));
    let (next, answers) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    // Every GPU once with no wishes, then varied hosts.
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let (mut facts, request) = match n {
                        n if n < plain => fleet.plain(n),
                        n if n < plain + varied => fleet.host(n - plain),
                        _ => break,
                    };
                    if n % 3 == 0 {
                        facts.secure_boot = SecureBoot::Enabled;
                    }
                    answers.fetch_add(
                        usize::from(agree(&database, n, &facts, &request)),
                        Ordering::Relaxed,
                    );
                }
            });
        }
    });
    let (cases, answers) = (plain + varied, answers.into_inner());
    // Not by println, which is shown of failed tests only: the number belongs into the record of
    // every run.
    let _ = writeln!(
        std::io::stderr(),
        "the oracle agrees on {cases} hosts: {answers} answers, {} refusals",
        cases - answers
    );
    assert!(
        answers > cases / 4 && cases - answers > cases / 10,
        "a family of hosts that proves something"
    );
}

/// Whether there is an answer, which must be the same from both.
fn agree(database: &Database, n: usize, facts: &Facts, request: &Request) -> bool {
    let expected = solve(database, facts, request);
    let found = resolve(database, facts, request).map(|found| answer(&found.selection()));
    match (&expected, &found) {
        (None, Err(_)) => false,
        (Some(expected), Ok(found)) if expected == found => true,
        _ => {
            let found = found.map_err(|conflict| conflict.to_string());
            panic!(
                "host {n}: {expected:?} is right, not {found:?}: {}",
                told_briefly(facts, request)
            )
        }
    }
}

fn told_briefly(facts: &Facts, request: &Request) -> String {
    let gpus: Vec<_> = facts.gpus.iter().map(|g| &g.pci_id).collect();
    let driver = facts
        .driver
        .as_ref()
        .map(|d| (d.version.to_string(), d.origin));
    let toolkits: Vec<_> = facts
        .toolkits
        .iter()
        .map(|t| t.version.to_string())
        .collect();
    let Request {
        driver: d,
        cuda,
        cudnn,
        add_ons,
        components,
        method,
        modules,
        prefer,
        upgrade,
        ..
    } = request;
    format!(
        "{} on {}, gpus {gpus:?}, gcc {:?}, driver {driver:?}, toolkits {toolkits:?}; asked for driver {d}, cuda {cuda}, \
         cudnn {cudnn}, {add_ons:?}, {components:?}, {method:?}, {modules:?}, {prefer:?}, upgrade {upgrade}",
        facts.os.name, facts.machine.arch, facts.gcc
    )
}

fn answer(s: &Selection) -> Answer {
    Answer {
        driver: s
            .driver
            .as_ref()
            .map(|d| (d.version.to_string(), d.modules, d.method)),
        cuda: s.cuda.as_ref().map(|c| c.version.to_string()),
        add_ons: {
            let cudnn = s.cudnn.as_ref().map(|n| (AddOnId::CUDNN, n));
            let all = cudnn
                .into_iter()
                .chain(s.add_ons.iter().map(|(id, n)| (*id, n)));
            all.map(|(id, n)| (id, format!("{} for {}", n.version, n.cuda_major)))
                .collect()
        },
    }
}

fn solve(db: &Database, facts: &Facts, request: &Request) -> Option<Answer> {
    let cards = facts
        .gpus
        .iter()
        .map(|g| card(db, facts, g, request))
        .collect::<Option<Vec<_>>>()?;
    let drivers = if request.driver.is_wanted() {
        let mut all = drivers(db, facts, request, &cards);
        let secure =
            facts.secure_boot == SecureBoot::Enabled && request.settings.module_key.is_none();
        all.sort_by_cached_key(|driver| preference(driver, request, secure));
        let all = with_fixes(db, all, request, secure).into_iter();
        all.map(Some).collect()
    } else {
        vec![None]
    };
    if !request.cuda.is_wanted() {
        return drivers.first().map(|driver| Answer {
            driver: as_selected(driver),
            cuda: None,
            add_ons: BTreeMap::new(),
        });
    }
    let is_asked = request.cuda != Want::Best
        || matches!(request.cudnn, Want::Latest | Want::Meeting(_))
        || !request.add_ons.is_empty()
        || !request.components.is_empty()
        || !request.additional_toolkits.is_empty();
    // Archives where no release can be had as usual.
    let ways = [false, true].map(|archives| {
        let fits = |c: &&CudaRelease| toolkit_fits(db, facts, request, &cards, c, archives);
        db.cuda.iter().filter(fits).collect::<Vec<_>>()
    });
    let newest_wanted = |want: String| request.upgrade || want == "latest";
    let mut wanted = request.add_ons.clone();
    wanted.insert(AddOnId::CUDNN, request.cudnn.clone());
    wanted.retain(|_, want| want.is_wanted());
    let there: Vec<_> = wanted
        .iter()
        .map(|(id, want)| {
            let of_id = db.add_on_artifacts.iter().filter(|a| a.add_on == *id);
            let there = of_id.filter(|a| can_be_had(facts, a) && want.accepts(a.version));
            (*id, there.collect::<Vec<_>>())
        })
        .collect();
    let each = drivers
        .iter()
        .flat_map(|driver| ways.iter().map(move |fitting| (driver, fitting)));
    for (driver, fitting) in each {
        let mut toolkits = fitting.clone();
        toolkits.retain(|c| {
            driver
                .as_ref()
                .is_none_or(|d| d.version >= c.minimum_driver)
        });
        toolkits.sort_by_key(|c| {
            let stays = !newest_wanted(request.cuda.to_string()) && installed(facts, request, c);
            let of_branch = driver.as_ref().and_then(|d| d.branch.max_cuda);
            (
                !stays,
                of_branch.is_some_and(|max| series(c.version) > series(max)),
                std::cmp::Reverse(c.version),
            )
        });
        for toolkit in &toolkits {
            let mut add_ons = BTreeMap::new();
            for (id, there) in &there {
                let mut fit = there.clone();
                fit.retain(|a| add_on_fits(db, facts, &cards, driver.as_ref(), toolkit, a));
                fit.sort_by_key(|a| std::cmp::Reverse(a.version));
                add_ons.extend(
                    fit.first()
                        .map(|a| (*id, format!("{} for {}", a.version, toolkit.version.major))),
                );
            }
            // One that was asked for by name must be there; otherwise it is a gift.
            let is_gift = |id: AddOnId, want: &Want<_>| id == AddOnId::CUDNN && *want == Want::Best;
            if wanted
                .iter()
                .any(|(id, want)| !add_ons.contains_key(id) && !is_gift(*id, want))
            {
                continue;
            }
            return Some(Answer {
                driver: as_selected(driver),
                cuda: Some(toolkit.version.to_string()),
                add_ons,
            });
        }
    }
    // A toolkit that was not requested refuses no plan.
    let alone = drivers
        .first()
        .filter(|_| request.driver.is_wanted() && !is_asked)?;
    Some(Answer {
        driver: as_selected(alone),
        cuda: None,
        add_ons: BTreeMap::new(),
    })
}

fn as_selected(driver: &Option<Driver>) -> Option<(String, ModuleFlavour, Method)> {
    driver
        .as_ref()
        .map(|d| (d.version.to_string(), d.modules, d.method))
}

fn card(
    db: &Database,
    facts: &Facts,
    gpu: &gpusetup::host::Gpu,
    request: &Request,
) -> Option<Card> {
    let number = u16::from_str_radix(&gpu.pci_id[5..], 16).ok()?;
    let of_device = |g: &&gpusetup::compat::Gpu| g.device.0 == number;
    let own = db
        .gpus
        .iter()
        .filter(of_device)
        .find(|g| g.subsystem.is_some() && g.subsystem.as_deref() == gpu.subsystem.as_deref());
    let known = own.or_else(|| {
        db.gpus
            .iter()
            .filter(of_device)
            .find(|g| g.subsystem.is_none())
    });
    if request.driver.is_wanted() && known.is_some_and(|g| no_driver_here(db, facts, g)) {
        return None;
    }
    let is_guest = gpu.subsystem.as_deref().is_some_and(|id| {
        let id = id.strip_prefix("10de:").unwrap_or_default();
        db.virtual_gpus
            .iter()
            .any(|v| v.device.0 == number && v.subsystems.iter().any(|s| s.to_string() == id))
    });
    if is_guest && request.driver.is_wanted() {
        return None;
    }
    let Some(known) = known else {
        let modules = request
            .modules
            .filter(|_| matches!(request.driver, Want::Meeting(_)))?;
        return Some(Card {
            capability: None,
            modules: vec![modules],
            branches: 0..=u16::MAX,
            listed_from: 0,
            listed: Vec::new(),
            of_servers: false,
        });
    };
    let family = known
        .compute_capability
        .and_then(|c| db.architectures.iter().find(|a| a.compute_capability == c));
    // A branch like 173.14 is none that a kernel of today runs.
    let last = match &known.last_driver_branch {
        None => u16::MAX,
        Some(text) => text.parse().ok()?,
    };
    let first = family
        .and_then(|a| a.first_driver_branch)
        .unwrap_or(0)
        .max(known.absent_from_branch.map_or(0, |b| b + 1));
    let first = known
        .listed_from
        .iter()
        .map(|r| r.branch)
        .min()
        .unwrap_or(0)
        .max(first);
    // A range that is upside down holds nothing.
    Some(Card {
        capability: known.compute_capability,
        modules: known.modules.clone(),
        branches: first..=last,
        listed_from: known.first_driver_branch.unwrap_or(0),
        listed: known.listed_from.clone(),
        of_servers: known.line.as_deref() == Some("Tesla/Data Center"),
    })
}

/// Boards of other machines, and those that bring their own driver.
fn no_driver_here(db: &Database, facts: &Facts, gpu: &gpusetup::compat::Gpu) -> bool {
    let family = db
        .architectures
        .iter()
        .find(|a| Some(a.compute_capability) == gpu.compute_capability);
    let elsewhere = gpu
        .only_on
        .as_ref()
        .is_some_and(|machine| *machine != facts.machine.arch);
    elsewhere || family.is_some_and(|a| a.embedded.is_some())
}

/// NVSwitches that only Fabric Manager on this host starts: seen on its bus, or on every board that
/// has such a GPU.
fn has_switches(db: &Database, facts: &Facts) -> bool {
    let off_the_bus = |f: &Fabric| f.vital_product_data.is_some();
    !facts.nvswitches.is_empty() || has_gpus_of(db, facts, off_the_bus)
}

/// Whether the switches are in trays of their own.
fn is_in_a_rack(db: &Database, facts: &Facts) -> bool {
    !has_switches(db, facts) && has_gpus_of(db, facts, |f| f.needs.contains(&companion("imex")))
}

fn companion(name: &str) -> CompanionId {
    name.parse().expect("an id")
}

fn has_gpus_of(db: &Database, facts: &Facts, fabric: fn(&Fabric) -> bool) -> bool {
    let among =
        |ids: &[PciDevice], gpu: &Gpu| ids.iter().any(|id| gpu.pci_id == format!("10de:{id}"));
    db.fabrics.iter().filter(|f| fabric(f)).any(|f| {
        let joined: Vec<_> = facts.gpus.iter().filter(|g| among(&f.gpus, g)).collect();
        joined.len() > 1 || joined.iter().any(|g| !among(&f.unjoined_if_single, g))
    })
}

/// Whether the archive went on to another version of Fabric Manager (or IMEX in a rack) than the
/// installed driver needs, and the host has none for it.
fn has_lost_its_manager(
    db: &Database,
    facts: &Facts,
    request: &Request,
    driver: DriverVersion,
) -> bool {
    let rack = is_in_a_rack(db, facts);
    let named = request.driver.to_string() == driver.to_string();
    if named || !rack && !has_switches(db, facts) {
        return false;
    }
    let Some(all) = &facts.offered else {
        return false;
    };
    let manager = companion(if rack { "imex" } else { "fabric-manager" });
    let own = facts.companions.iter().filter(|c| c.id == manager);
    if own
        .into_iter()
        .any(|c| c.version.as_ref().is_none_or(|v| *v == driver.to_string()))
    {
        return false;
    }
    let of_branch = distribution(db, facts).into_iter().flat_map(|d| &d.drivers);
    let of_branch =
        of_branch.filter(|o| o.branch == driver.branch && o.archs.contains(&facts.machine.arch));
    let packages: Vec<_> = of_branch
        .filter_map(|o| Some((o, o.companions.get(&manager)?)))
        .collect();
    let is_other = |(offer, name): &(&gpusetup::compat::DriverOffer, &String)| {
        let version = all.get(*name).map(|v| {
            v.split(':')
                .next_back()
                .unwrap_or(v)
                .split('-')
                .next()
                .unwrap_or(v)
        });
        offer.module_stream.is_none() && version != Some(driver.to_string().as_str())
    };
    !packages.is_empty() && packages.iter().all(is_other)
}

fn drivers<'a>(
    db: &'a Database,
    facts: &Facts,
    request: &Request,
    cards: &[Card],
) -> Vec<Driver<'a>> {
    let arch = facts.machine.arch.as_str();
    let branch = |number: u16| db.driver_branches.iter().find(|b| b.branch == number);
    let of_servers =
        facts.desktop.is_none() && !cards.is_empty() && cards.iter().all(|c| c.of_servers);
    let mut all = Vec::new();
    let mut add = |version: DriverVersion,
                   flavours: &[ModuleFlavour],
                   (method, nvidias, signed, misplaced),
                   kept: bool,
                   maturity,
                   verified| {
        let Some(branch) = branch(version.branch) else {
            return;
        };
        // The flavour that the branch defaults to comes first.
        let mut flavours = flavours.to_vec();
        flavours.sort_by_key(|f| *f != branch.default_modules);
        let fits = |f: &&ModuleFlavour| {
            request.modules.is_none_or(|asked| asked == **f)
                && cards.iter().all(|c| c.modules.contains(f))
        };
        if let Some(modules) = flavours.iter().find(fits).copied() {
            all.push(Driver {
                version,
                branch,
                modules,
                method,
                nvidias,
                signed,
                misplaced,
                breaks: !kept
                    && facts.driver.as_ref().is_some_and(|d| match d.origin {
                        Origin::Runfile => method != Method::Runfile,
                        Origin::Dpkg | Origin::Rpm => method == Method::Runfile,
                        _ => false,
                    }),
                older: facts
                    .driver
                    .as_ref()
                    .is_some_and(|d| d.version.branch == version.branch && version < d.version),
                kept,
                maturity,
                verified,
            });
        }
    };
    if let Some(d) = &facts.driver {
        let method = if d.origin == Origin::Runfile {
            Method::Runfile
        } else {
            Method::Packages
        };
        let of_branch = || {
            branch(d.version.branch)
                .map(|b| b.modules.clone())
                .unwrap_or_default()
        };
        let flavours = d
            .modules
            .map_or_else(of_branch, |installed| vec![installed]);
        add(
            d.version,
            &flavours,
            (method, false, false, of_servers),
            true,
            Maturity::Production,
            true,
        );
    }
    let distribution = distribution(db, facts);
    // Of a release that nobody described, the repositories alone can tell.
    let distribution = distribution.filter(|d| d.version != "*" || facts.offered.is_some());
    for offer in distribution
        .map(|d| d.drivers.as_slice())
        .unwrap_or_default()
    {
        let everybody = |m: Maturity| {
            matches!(
                m,
                Maturity::Production
                    | Maturity::Legacy
                    | Maturity::Datacenter
                    | Maturity::NewFeature
            )
        };
        let newest = db
            .drivers
            .iter()
            .filter(|r| r.version.branch == offer.branch && everybody(r.maturity))
            .filter(|r| r.artifacts.iter().any(|a| a.artifact.arch == arch))
            .map(|r| r.version)
            .max();
        // Every repository but NVIDIA's is enabled on these hosts; some package managers were asked
        // what is in them.
        let nvidias = offer.repository.name.starts_with("NVIDIA");
        let enabled = !nvidias || facts.repositories.iter().any(|line| is_nvidias(line));
        let draws = facts.desktop.is_some() && !offer.desktop_packages.is_empty();
        let wanted = if draws {
            &offer.desktop_packages
        } else {
            &offer.packages
        };
        let without_epoch = |v: &str| {
            v.split(':')
                .next_back()
                .and_then(|v| v.split('-').next())
                .map(str::to_owned)
        };
        // The lists of the distribution tell of the modules that it signs, and those of one kind of
        // kernel can use them.
        let signed = offer.signed_for.is_some();
        // Modules of a line of kernels have the version of one of them.
        let of_lines = !offer.signed_modules.is_empty();
        if of_lines && !has_modules_of_its_kernel(distribution, facts, offer) {
            continue;
        }
        let found_version: Option<DriverVersion> = match &facts.offered {
            offered if signed => {
                let boots = facts
                    .kernel()
                    .filter(|kernel| kernel.ends_with(offer.signed_for.as_deref().unwrap_or("?")));
                let listed = offered
                    .as_ref()
                    .and_then(|all| all.get(&offer.packages[0]))
                    .filter(|_| boots.is_some());
                let version = listed
                    .and_then(|v| without_epoch(v))
                    .and_then(|v| v.split('_').next().map(str::to_owned));
                version
                    .and_then(|v| v.parse().ok())
                    .filter(|v: &DriverVersion| v.branch == offer.branch)
            }
            None => offer.version.or(newest).filter(|_| enabled),
            Some(_) if offer.module_stream.is_some() => {
                offer.version.or(newest).filter(|_| enabled)
            }
            Some(all) if wanted.iter().any(|p| !all.contains_key(p)) => None,
            Some(all) => {
                let of = |n: usize| wanted.get(n).and_then(|p| without_epoch(&all[p]));
                let mixed = of(1).is_some_and(|libcuda| of(0) != Some(libcuda));
                let version: Option<DriverVersion> = of(0)
                    .filter(|_| !mixed)
                    .map(|v| v.parse().expect("a version"));
                version.filter(|v| !nvidias || v.branch == offer.branch)
            }
        };
        // gpusetup adds NVIDIA's where it has the machine, and then its lists are yet to come.
        let to_be_added = found_version.is_none()
            && !enabled
            && db
                .package_repositories
                .iter()
                .filter(|r| {
                    offer.repository.adds.as_ref() == Some(&r.id) && r.archs.contains_key(arch)
                })
                // What may need a repository that the host lacks is taken only where it is asked
                // for.
                .any(|r| request.method == Method::Repository || r.needs.is_none());
        let found_version = if to_be_added && !signed {
            offer.version.or(newest)
        } else {
            found_version
        };
        let method = if to_be_added || signed && !enabled {
            Method::Repository
        } else {
            Method::Packages
        };
        // Fabric Manager, or IMEX in a rack, must have the version of the driver to the last
        // number.
        let rack = is_in_a_rack(db, facts);
        let manager = companion(if rack { "imex" } else { "fabric-manager" });
        let managed = match (offer.companions.get(&manager), &facts.offered) {
            _ if !rack && !has_switches(db, facts) => true,
            (None, _) => false,
            (Some(name), Some(all)) if offer.module_stream.is_none() && !to_be_added && !signed => {
                all.get(name).and_then(|v| without_epoch(v)) == found_version.map(|v| v.to_string())
            }
            (Some(_), _) => true,
        };
        let found_version = found_version.filter(|_| managed);
        if let Some(version) = found_version.filter(|_| offer.archs.iter().any(|a| a == arch)) {
            let for_servers = offer
                .desktop_packages
                .iter()
                .any(|name| name.contains("-server"));
            let misplaced = facts.desktop.is_some() && for_servers || of_servers && !for_servers;
            let how = (method, nvidias, signed || of_lines, misplaced);
            add(
                version,
                &[offer.modules],
                how,
                false,
                Maturity::Production,
                true,
            );
        }
    }
    // NVIDIA publishes Fabric Manager, and IMEX with it, beside its drivers for data centres. Who
    // names a version to the last number has one from elsewhere.
    let server = if arch == "aarch64" { "sbsa" } else { arch };
    let archive = DriverVariant::Companion(companion("fabric-manager"));
    let is_manager = |a: &DriverArtifact| a.variant == archive && a.artifact.arch == server;
    // IMEX only for hosts that are to share memory.
    let joined =
        has_switches(db, facts) || is_in_a_rack(db, facts) && !request.imex_peers.is_empty();
    let unmanaged = |version: DriverVersion| {
        let mut of_version = db
            .drivers
            .iter()
            .filter(|r| r.version == version)
            .flat_map(|r| &r.artifacts);
        joined && request.driver.to_string() != version.to_string() && !of_version.any(is_manager)
    };
    for release in &db.drivers {
        let full = release
            .artifacts
            .iter()
            .filter(|a| a.variant == DriverVariant::Full && a.artifact.arch == arch);
        let Some(b) = branch(release.version.branch) else {
            continue;
        };
        if unmanaged(release.version) {
            continue;
        }
        for full in full {
            let verified = full.artifact.url.is_some() && full.artifact.sha256.is_some();
            add(
                release.version,
                &b.modules,
                (Method::Runfile, false, false, of_servers),
                false,
                release.maturity,
                verified,
            );
        }
    }
    let cuda_arch = if arch == "aarch64" { "sbsa" } else { arch };
    for carrier in db
        .cuda_artifacts
        .iter()
        .filter(|a| a.artifact.arch == cuda_arch)
    {
        let Some(version) = carrier.bundled_driver else {
            continue;
        };
        let alone = db.drivers.iter().any(|r| {
            r.version == version
                && r.artifacts
                    .iter()
                    .any(|a| a.variant == DriverVariant::Full && a.artifact.arch == arch)
        });
        let verified = carrier.artifact.url.is_some() && carrier.artifact.sha256.is_some();
        if let Some(b) = branch(version.branch).filter(|_| !alone && !unmanaged(version)) {
            add(
                version,
                &b.modules,
                (Method::Runfile, false, false, of_servers),
                false,
                Maturity::CudaRunfileOnly,
                verified,
            );
        }
    }
    let ripe = |d: &Driver| {
        let trial = matches!(
            d.maturity,
            Maturity::Beta | Maturity::VulkanBeta | Maturity::Unknown
        );
        let by_number = || matches!(&request.driver, Want::Meeting(r) if r.to_string() == d.version.to_string());
        !trial || request.prefer == Prefer::Latest || by_number()
    };
    all.retain(|d| {
        let named = d.kept || matches!(request.driver, Want::Meeting(_));
        let listed = |c: &Card| {
            let in_branch = c
                .listed
                .iter()
                .filter(|first| first.branch == d.version.branch)
                .any(|first| *first <= d.version);
            let later = c.listed.iter().all(|first| first.branch < d.version.branch);
            d.version.branch >= c.listed_from && (in_branch || later)
        };
        cards
            .iter()
            .all(|c| c.branches.contains(&d.version.branch) && (named || listed(c)))
            && request.driver.accepts(d.version)
            && match request.method {
                Method::Auto => true,
                Method::Repository => d.method != Method::Runfile && (d.kept || d.nvidias),
                other => d.method == other,
            }
            && d.verified
            && (d.kept || supports_kernel(d.branch, facts))
            && ripe(d)
    });
    // What replaces packages is packages.
    let packaged = |d: &Driver| !d.kept && d.method == Method::Packages;
    let lost = |d: &gpusetup::host::InstalledDriver| {
        d.origin != Origin::Runfile && has_lost_its_manager(db, facts, request, d.version)
    };
    if facts.driver.as_ref().is_some_and(lost) && all.iter().any(packaged) {
        all.retain(packaged);
    }
    if !matches!(request.driver, Want::Meeting(_))
        && all.iter().any(|d| alive(d.branch, &request.today))
    {
        all.retain(|d| d.kept || alive(d.branch, &request.today));
    }
    all
}

/// Whether the lists have the modules that the distribution signs for exactly the kernel that
/// boots, and nothing else in the way.
fn has_modules_of_its_kernel(
    distribution: Option<&Distribution>,
    facts: &Facts,
    offer: &gpusetup::compat::DriverOffer,
) -> bool {
    let (Some(distribution), Some(all), Some(boots)) =
        (distribution, &facts.offered, facts.kernel())
    else {
        return false;
    };
    let words: Vec<_> = boots.splitn(3, '-').collect();
    let &[upstream, build, flavour] = &words[..] else {
        return false;
    };
    let series = upstream
        .rsplit_once('.')
        .map_or(upstream, |(series, _)| series);
    let metas = distribution.header_metas.iter().filter(|m| {
        boots.ends_with(&m.kernel)
            && m.series.as_ref().is_none_or(|s| s == series)
            && m.arch.as_ref().is_none_or(|a| *a == facts.machine.arch)
    });
    let meta = metas
        .max_by_key(|m| 2 * m.kernel.len() + usize::from(m.series.is_some()))
        .map(|m| &m.package[14..]);
    let is_there = |name: &String| {
        let name = name
            .replace("{meta}", meta.unwrap_or("?"))
            .replace("{flavour}", flavour)
            .replace("{series}", series);
        all.get(&name).is_some_and(|v| {
            *v == format!("{upstream}-{build}") || v.starts_with(&format!("{upstream}-{build}."))
        })
    };
    !offer
        .not_beside
        .iter()
        .any(|mark| facts.repositories.iter().any(|line| line.contains(mark)))
        && offer.signed_modules.iter().any(is_there)
}

fn supports_kernel(branch: &DriverBranch, facts: &Facts) -> bool {
    let series = |text: &str| -> Vec<u32> {
        text.split(['.', '-'])
            .take(2)
            .filter_map(|n| n.parse().ok())
            .collect()
    };
    let boots = facts.kernels.next_boot.as_deref().map(series);
    branch
        .oldest_kernel
        .as_deref()
        .is_none_or(|oldest| boots.is_none_or(|boots| boots >= series(oldest)))
}

/// A branch without a published end is alive for a year from its last release.
fn alive(branch: &DriverBranch, today: &str) -> bool {
    let day = |text: &str| format!("{text}-31")[..10.min(text.len() + 3)].to_owned();
    match (&branch.end_of_life, &branch.latest_release) {
        (Some(end), _) if end.len() == 7 => today <= day(end).as_str(),
        (Some(end), _) => today <= end.as_str(),
        (None, Some(last)) => {
            let year: u16 = last[..4].parse().expect("a year");
            today <= format!("{}{}", year + 1, &last[4..]).as_str()
        }
        (None, None) => false,
    }
}

fn trouble(d: &Driver) -> Option<usize> {
    let ways = [Method::Packages, Method::Repository, Method::Runfile];
    ways.iter().position(|way| *way == d.method)
}

/// Whether NVIDIA's bulletins, or the end of its branch, leave a driver without fixes.
fn lacks_fixes(db: &Database, d: &Driver, request: &Request) -> bool {
    let named = db
        .bulletins
        .iter()
        .flat_map(|b| &b.fixed)
        .any(|fixed| fixed.branch == d.version.branch && d.version < *fixed);
    let newest = db.bulletins.iter().find(|b| !b.fixed.is_empty());
    let left_out = newest.is_some_and(|b| {
        b.fixed.iter().all(|f| f.branch != d.version.branch)
            && b.fixed.iter().any(|f| f.branch > d.version.branch)
    });
    named || left_out || !alive(d.branch, &request.today)
}

/// If no driver was named, one with security fixes comes before one that lacks some.
fn with_fixes<'a>(
    db: &Database,
    mut all: Vec<Driver<'a>>,
    request: &Request,
    secure: bool,
) -> Vec<Driver<'a>> {
    let Some(first) = all.first() else { return all };
    let stays = first.kept && !request.upgrade && request.driver != Want::Latest;
    if matches!(request.driver, Want::Meeting(_)) || stays || !lacks_fixes(db, first, request) {
        return all;
    }
    let may = |d: &Driver| {
        !lacks_fixes(db, d, request)
            && (d.signed || !first.signed || !secure)
            && (first.breaks || !d.breaks)
    };
    let near = all
        .iter()
        .position(|d| may(d) && trouble(d) <= trouble(first));
    if let Some(at) = near.or_else(|| all.iter().position(may)) {
        let fixed = all.remove(at);
        all.insert(0, fixed);
    }
    all
}

/// The smaller the better.
fn preference<'a>(d: &Driver<'a>, request: &Request, secure: bool) -> impl Ord + use<'a> {
    let steady = matches!(
        d.branch.kind,
        BranchKind::LongTerm | BranchKind::Production | BranchKind::Legacy
    );
    let life = (request.prefer == Prefer::LongestSupport)
        .then_some(d.branch.end_of_life.as_deref())
        .flatten();
    (
        !d.kept || request.upgrade || request.driver == Want::Latest,
        d.breaks,
        secure && !d.signed,
        request.prefer != Prefer::Latest && !steady,
        std::cmp::Reverse(life),
        std::cmp::Reverse(d.version.branch),
        d.older,
        trouble(d),
        d.modules != d.branch.default_modules,
        d.misplaced,
        std::cmp::Reverse(d.version),
        !d.signed,
    )
}

fn installed(facts: &Facts, request: &Request, c: &CudaRelease) -> bool {
    facts.toolkits.iter().any(|t| is_of_release(t, request, c))
}

/// Without a compiler it is of use only to who names the parts that it is to have.
fn is_of_release(t: &Toolkit, request: &Request, c: &CudaRelease) -> bool {
    (t.has_nvcc || t.components.is_some() && !request.components.is_empty())
        && t.path.parent() == Some(&request.prefix)
        && (t.version == c.version || t.version.patch.is_none() && t.version == c.version.series())
}

/// Every part that was named can be had alone for the machine, or the toolkit that is there is a
/// whole one.
fn has_components(
    db: &Database,
    facts: &Facts,
    request: &Request,
    c: &CudaRelease,
    arch: &str,
) -> bool {
    if facts
        .toolkits
        .iter()
        .any(|t| is_of_release(t, request, c) && t.components.is_none())
    {
        return true;
    }
    let Some(archives) = db
        .component_releases
        .iter()
        .find(|r| r.version == c.version)
    else {
        return false;
    };
    request.components.iter().all(|asked| {
        let called = |name: &str| {
            name == asked || name == format!("cuda_{asked}") || name == format!("lib{asked}")
        };
        let meant = db
            .components
            .iter()
            .find(|m| called(&m.name) || m.renamed.as_deref().is_some_and(called));
        let meant = meant.expect("the fleet asks for what there is");
        archives.components.iter().any(|part| {
            let same = part.name == meant.name || Some(&part.name) == meant.renamed.as_ref();
            same && part.archives.iter().any(|a| a.arch == arch)
        })
    })
}

fn series(v: CudaVersion) -> (u16, u16) {
    (v.major, v.minor)
}

fn toolkit_fits(
    db: &Database,
    facts: &Facts,
    request: &Request,
    cards: &[Card],
    c: &CudaRelease,
    from_archives: bool,
) -> bool {
    let targets = |card: &Card| {
        let Some(capability) = card.capability else {
            return false;
        };
        let family = db
            .architectures
            .iter()
            .find(|a| a.compute_capability == capability);
        let first = family.and_then(|a| a.first_cuda).map_or((0, 0), series);
        let last = family
            .and_then(|a| a.last_cuda)
            .map_or((u16::MAX, 0), series);
        // On a server's Arm a toolkit runs there too: few embedded boards are served by these.
        let aboard =
            facts.machine.arch == "aarch64" && family.is_some_and(|a| a.embedded.is_some());
        let served = family
            .and_then(|a| a.sbsa_from)
            .is_some_and(|from| series(c.version) >= series(from));
        (!aboard || served)
            && (c.lowest_capability..=c.highest_capability).contains(&capability)
            && (first..=last).contains(&series(c.version))
    };
    let arch = if facts.machine.arch == "aarch64" {
        "sbsa"
    } else {
        &facts.machine.arch
    };
    let published = db.cuda_artifacts.iter().any(|a| {
        a.version == c.version
            && a.artifact.arch == arch
            && a.artifact.url.is_some()
            && a.artifact.sha256.is_some()
    });
    let number = |text: &str| {
        let mut parts = text.split('.').map(|n| n.parse::<u32>().expect("a number"));
        (parts.next(), parts.next())
    };
    let library = facts.glibc.as_deref().is_none_or(|have| {
        c.glibc_min
            .as_deref()
            .is_none_or(|min| number(have) >= number(min))
            && c.glibc_breaks_from
                .as_deref()
                .is_none_or(|from| number(have) < number(from))
            && (arch != "sbsa"
                || default_gcc(db, facts).is_some_and(|gcc| gcc < 9)
                || c.glibc_breaks_from_sbsa
                    .as_deref()
                    .is_none_or(|from| number(have) < number(from)))
    });
    let old = default_gcc(db, facts).zip(c.gcc_min);
    let is_kept = old.is_some_and(|(have, least)| have < least) && installed(facts, request, c);
    let compiler = is_kept || has_compiler(db, facts, c);
    cards.iter().all(targets)
        && request.cuda.accepts(c.version)
        && library
        && if request.components.is_empty() {
            // Installers before 10.1 are Perl programs.
            let is_perl = series(c.version) < (10, 1);
            let runs = is_perl
                || match (facts.libxml2, distribution(db, facts)) {
                    (Some(true), _) => true,
                    (_, Some(packager)) => packager.libxml2.is_some(),
                    (seen, None) => seen.is_none(),
                };
            let compiles = |p: &gpusetup::compat::ReleasedComponent| {
                p.name == "cuda_nvcc" && p.archives.iter().any(|a| &*a.arch == arch)
            };
            let alone = db
                .component_releases
                .iter()
                .any(|r| r.version == c.version && r.components.iter().any(compiles));
            installed(facts, request, c)
                || if runs && !from_archives {
                    published
                } else {
                    alone
                }
        } else {
            has_components(db, facts, request, c, arch)
        }
        && compiler
}

/// Whether there is a gcc that the release takes: the default one, one beside it that compiles C++,
/// or one that is packaged.
fn has_compiler(db: &Database, facts: &Facts, c: &CudaRelease) -> bool {
    let Some(have) = default_gcc(db, facts) else {
        return true;
    };
    let takes = |major: u16| {
        c.gcc_max.is_none_or(|most| major <= most) && c.gcc_min.is_none_or(|least| major >= least)
    };
    if takes(have) {
        return true;
    }
    let has_version =
        |gcc: &std::path::Path| gcc.to_str().is_some_and(|p| p.starts_with("/usr/bin/gcc-"));
    if facts
        .compilers
        .iter()
        .any(|g| has_version(&g.gcc) && g.gxx.is_some() && takes(g.major))
    {
        return true;
    }
    let Some(d) = distribution(db, facts).filter(|d| d.gcc_package.is_some()) else {
        return false;
    };
    match (d.gccs.as_slice(), c.gcc_max) {
        ([], Some(most)) => {
            takes(most)
                && usual_gcc(db, facts).is_none_or(|usual| most <= usual && usual <= most + 2)
        }
        ([], None) => false,
        (known, _) => known.iter().any(|major| takes(*major)),
    }
}

/// The one that compiles if nobody says otherwise.
fn default_gcc(db: &Database, facts: &Facts) -> Option<u16> {
    let own = facts
        .gcc
        .as_deref()
        .and_then(|v| v.split('.').next()?.parse().ok());
    own.or_else(|| usual_gcc(db, facts))
}

/// The distribution's.
fn usual_gcc(db: &Database, facts: &Facts) -> Option<u16> {
    let first = |v: &str| {
        v.split('.')
            .next()
            .and_then(|n| n.parse::<u16>().ok())
            .expect("a number")
    };
    let distribution = distribution(db, facts);
    // `gcc-16 (Debian 16.2.0-4) 16.2.0` is the only form in the fleet.
    let of_kernel = || {
        facts.kernels.installed[0]
            .compiler
            .as_deref()?
            .rsplit(' ')
            .next()
            .map(first)
    };
    distribution.and_then(|d| d.gcc).or_else(of_kernel)
}

/// By the whole version, by its first number, or as one that nobody described.
fn distribution<'a>(db: &'a Database, facts: &Facts) -> Option<&'a Distribution> {
    let version = facts.os.version.as_str();
    let all = || db.distributions.iter().filter(|d| d.id == facts.os.id);
    let known =
        all().find(|d| d.version == version || version.split('.').next() == Some(&d.version));
    let other =
        || all().find(|d| d.version == "*" && Some(d.package_manager) == facts.os.package_manager);
    known.or_else(other)
}

fn can_be_had(facts: &Facts, a: &AddOnArtifact) -> bool {
    let arch = if facts.machine.arch == "aarch64" {
        "sbsa"
    } else {
        &facts.machine.arch
    };
    a.artifact.arch == arch && a.artifact.url.is_some() && a.artifact.sha256.is_some()
}

fn add_on_fits(
    db: &Database,
    facts: &Facts,
    cards: &[Card],
    driver: Option<&Driver>,
    toolkit: &CudaRelease,
    a: &AddOnArtifact,
) -> bool {
    let of_line = db
        .add_on_ranges
        .iter()
        .filter(|r| r.add_on == a.add_on && r.cuda_line == a.cuda_line);
    let needs = of_line
        .into_iter()
        .find(|r| r.from <= a.version && r.to.is_none_or(|to| a.version <= to));
    let Some(needs) = needs else { return false };
    let number = |text: &str| {
        text.split_once('.')
            .map(|(a, b)| (a.parse::<u32>().ok(), b.parse::<u32>().ok()))
    };
    if let (Some(have), Some(least)) = (&facts.glibc, &needs.glibc_min)
        && number(have) < number(least)
    {
        return false;
    }
    let have = series(toolkit.version);
    have.0 == needs.cuda_min.major
        && have >= series(needs.cuda_min)
        && needs.cuda_max.is_none_or(|max| have <= series(max))
        && driver.is_none_or(|d| needs.minimum_driver.is_none_or(|min| d.version >= min))
        && cards.iter().filter_map(|c| c.capability).all(|c| {
            c >= needs.lowest_capability
                && needs.highest_capability.is_none_or(|highest| c <= highest)
                && !needs.without_capabilities.contains(&c)
        })
}
