//! What must hold of any answer, whatever the host: found on varied hosts, with the real database.

use crate::common::{Ran, Tree, program, sampled};
use crate::fleet::{Fleet, bare, default_request, unit};
use gpusetup::compat::{AddOnId, Database, DriverVariant, ModuleFlavour};
use gpusetup::database::embedded;
use gpusetup::exit::Exit;
use gpusetup::host::{AddOnFiles, Facts, InstalledDriver, Origin, Toolkit};
use gpusetup::ids::{AddOnRule, Rule, RuleId};
use gpusetup::resolve::{
    AdditionalToolkitRequest, ChosenDriver, Conflict, Hint, Method, Request, Resolution,
    ToolkitMethod, resolve,
};
use gpusetup::version::{CudaVersion, Want};

/// Hosts that each property is tried on.
fn hosts() -> usize {
    sampled(1000, 3000)
}

#[test]
fn another_gpu_never_widens_what_fits() {
    let database = embedded();
    let fleet = Fleet::new(&database);
    let mut held = 0;
    for n in 0..hosts() {
        let (mut facts, request) = fleet.host(n);
        let alone = resolve(&database, &facts, &request);
        facts
            .gpus
            .push(unit(&database.gpus[n * 7 % database.gpus.len()], 255, None));
        if resolve(&database, &facts, &request).is_ok() {
            assert!(alone.is_ok(), "host {n} got an answer by one more GPU");
            held += 1;
        }
    }
    assert!(held > hosts() / 10, "{held} hosts had an answer with both");
}

#[test]
fn a_newer_release_never_makes_the_answer_older() {
    let newest = embedded();
    let mut older = newest.clone();
    older.cuda.drain(..6);
    older.add_on_artifacts.drain(..20);
    let fleet = Fleet::new(&newest);
    let mut moved = 0;
    for n in 0..hosts() {
        let (facts, request) = fleet.host(n);
        let (Ok(before), Ok(after)) = (
            resolve(&older, &facts, &request),
            resolve(&newest, &facts, &request),
        ) else {
            continue;
        };
        let version = |r: &Resolution| r.cuda.as_ref().map(|c| c.release.version);
        assert!(
            version(&before) <= version(&after),
            "host {n}: {:?} became {:?}",
            version(&before),
            version(&after)
        );
        moved += usize::from(version(&before) < version(&after));
    }
    assert!(moved > hosts() / 50, "{moved} answers moved");
}

#[test]
fn what_was_installed_as_chosen_is_chosen_again() {
    let database = embedded();
    let fleet = Fleet::new(&database);
    let mut held = 0;
    for n in 0..hosts() {
        let (facts, request) = fleet.host(n);
        let request = Request {
            upgrade: false,
            ..request
        };
        let Ok(first) = resolve(&database, &facts, &request) else {
            continue;
        };
        let again = installed(facts, &first, &request);
        let second = resolve(&database, &again, &request).expect("what fitted once fits");
        // One that came from archives, for want of a runfile, is kept as it is.
        let whole = |found: &Resolution| {
            let cuda = found.selection().cuda;
            cuda.map(|cuda| {
                (
                    cuda.version,
                    request.components.is_empty() || !cuda.components.is_empty(),
                )
            })
        };
        assert_eq!(whole(&second), whole(&first), "host {n}");
        if !request.components.is_empty() {
            assert_eq!(second.selection().cuda, first.selection().cuda, "host {n}");
        }
        assert_eq!(
            second.selection().cudnn,
            first.selection().cudnn,
            "host {n}"
        );
        // A repository that was added is one of the host's from then on.
        let method = |d: &ChosenDriver| match d.install.method() {
            Method::Repository => Method::Packages,
            method => method,
        };
        let version = |r: &Resolution| r.driver.as_ref().map(|d| (d.version, d.modules, method(d)));
        assert_eq!(version(&second), version(&first), "host {n}");
        held += 1;
    }
    assert!(held > hosts() / 5, "{held} hosts had an answer");
}

/// The host after the plan.
fn installed(mut facts: Facts, r: &Resolution, request: &Request) -> Facts {
    if let Some(driver) = &r.driver {
        facts.driver = Some(InstalledDriver {
            version: driver.version,
            origin: if driver.install.method() == Method::Runfile {
                Origin::Runfile
            } else {
                Origin::Dpkg
            },
            modules: Some(driver.modules),
            evidence: "a file".to_owned(),
            alternative: Some(false),
        });
    }
    if let Some(cuda) = &r.cuda {
        let path = request
            .prefix
            .join(format!("cuda-{}", cuda.release.version.series()));
        facts.toolkits.retain(|t| t.path != path);
        let version = cuda.release.version;
        // A whole toolkit of archives; of one that was there, the parts that are named are in it.
        let alone = request.components.is_empty() && !r.parts.is_empty();
        facts.toolkits.push(Toolkit {
            version,
            path: path.clone(),
            origin: if alone {
                Origin::Archives
            } else {
                Origin::Runfile
            },
            has_nvcc: true,
            components: alone.then(|| r.parts.iter().map(|part| part.name.to_owned()).collect()),
        });
        if let Some(cudnn) = r.add_ons.iter().find(|a| a.of.id == AddOnId::CUDNN) {
            facts.cudnn = vec![AddOnFiles {
                add_on: AddOnId::CUDNN,
                version: Some(cudnn.artifact.version),
                directory: path.join("lib64"),
                origin: Origin::Unknown,
                cuda_major: None,
                header: None,
                files: Vec::new(),
            }];
        }
    }
    facts
}

#[test]
fn every_newer_candidate_is_rejected_with_a_rule() {
    let database = embedded();
    let fleet = Fleet::new(&database);
    for n in 0..hosts() / 10 {
        let (facts, request) = fleet.host(n);
        let Ok(answer) = resolve(&database, &facts, &request) else {
            continue;
        };
        let subjects: std::collections::BTreeSet<_> = answer
            .rejected
            .iter()
            .map(|r| r.candidate.as_str())
            .collect();
        assert!(answer.rejected.iter().all(|r| !r.because.is_empty()));
        if let Some(driver) = &answer.driver {
            let arch = &facts.machine.arch;
            let runfile = |d: &&gpusetup::compat::DriverRelease| {
                d.artifacts
                    .iter()
                    .any(|a| a.variant == DriverVariant::Full && a.artifact.arch == *arch)
            };
            let newer = database
                .drivers
                .iter()
                .filter(|d| d.version > driver.version)
                .filter(runfile);
            // Of one branch the newest stands for all.
            let branches: std::collections::BTreeSet<_> = newer.map(|d| d.version.branch).collect();
            for branch in branches {
                let name = format!("driver {branch}.");
                assert!(
                    subjects.iter().any(|t| t.starts_with(&name)),
                    "host {n}: no {name}x is spoken of"
                );
            }
        }
        if let Some(cuda) = &answer.cuda {
            for newer in database
                .cuda
                .iter()
                .filter(|c| c.version > cuda.release.version)
            {
                let name = format!("cuda {}", newer.version);
                assert!(
                    subjects.contains(name.as_str()),
                    "host {n}: {name} is not spoken of"
                );
            }
        }
    }
}

#[test]
fn the_reasons_given_are_sufficient() {
    let whole = embedded();
    let fleet = Fleet::new(&whole);
    let mut held = 0;
    for n in 0..hosts() / 10 {
        let (facts, request) = fleet.host(n);
        let Ok(answer) = resolve(&whole, &facts, &request) else {
            continue;
        };
        let (Some(driver), Some(cuda)) = (&answer.driver, &answer.cuda) else {
            continue;
        };
        // A world in which what was rejected never was, and nothing else is different.
        let rejected: std::collections::BTreeSet<_> = answer
            .rejected
            .iter()
            .map(|r| r.candidate.as_str())
            .collect();
        let mut left = whole.clone();
        left.cuda
            .retain(|c| !rejected.contains(format!("cuda {}", c.version).as_str()));
        left.drivers.retain(|d| {
            d.version == driver.version
                || !rejected.contains(format!("driver {}", d.version).as_str())
        });
        // There the newest toolkit is the one, without a rule; unless the host had it, which comes
        // first.
        let kept = answer
            .rejected
            .iter()
            .any(|r| r.rule == Rule::Of(RuleId::CudaKept));
        let newest = left.cuda.iter().map(|c| c.version).max();
        assert!(
            kept || newest == Some(cuda.release.version),
            "host {n}: {newest:?} is left, {:?} was chosen",
            cuda.release.version
        );
        let again = resolve(&left, &facts, &request).expect("what was chosen is there");
        assert_eq!(again.selection(), answer.selection(), "host {n}");
        held += 1;
    }
    assert!(held > hosts() / 50, "{held} hosts had an answer");
}

/// A host with one GPU on which this toolkit fits; it has neither a compiler nor a C library that
/// could stand in the way.
fn host_for(database: &Database, arch: &str, cuda: CudaVersion) -> Vec<Facts> {
    let machine = if arch == "sbsa" { "aarch64" } else { arch };
    let mut capabilities = Vec::new();
    let one_of_each = database.gpus.iter().filter(|gpu| {
        let is_new =
            gpu.compute_capability.is_some() && !capabilities.contains(&gpu.compute_capability);
        capabilities.extend(is_new.then_some(gpu.compute_capability));
        is_new
    });
    let host = |gpu| {
        let mut facts = bare(&database.distributions[0]);
        facts.machine.arch = machine.to_owned();
        (facts.gcc, facts.glibc) = (Some("5.4.0".to_owned()), None);
        facts.gpus = vec![unit(gpu, 0, None)];
        facts
    };
    let request = Request {
        driver: Want::Nothing,
        cuda: exactly(cuda),
        cudnn: Want::Nothing,
        ..default_request()
    };
    one_of_each
        .map(host)
        .filter(|facts| resolve(database, facts, &request).is_ok())
        .collect()
}

fn exactly<V>(version: impl ToString) -> Want<V>
where
    Want<V>: std::str::FromStr,
{
    version.to_string().parse().unwrap_or(Want::Nothing)
}

#[test]
fn a_cudnn_that_cannot_be_fetched_is_refused_for_that() {
    let database = embedded();
    let mut refusals = 0;
    for archive in database
        .add_on_archives(AddOnId::CUDNN)
        .filter(|a| !a.artifact.is_verifiable())
    {
        let Some(range) = database.range_of(archive) else {
            continue;
        };
        let (arch, cudnn) = (archive.artifact.arch.as_str(), archive.version);
        let is_for = |cuda: &CudaVersion| {
            let newest = range
                .cuda_max
                .is_none_or(|max| cuda.series() <= max.series());
            cuda.major == range.cuda_min.major && cuda.series() >= range.cuda_min.series() && newest
        };
        // Its newest and its oldest toolkit, each on every GPU that both run on.
        let toolkits: Vec<_> = database
            .cuda
            .iter()
            .map(|c| c.version)
            .filter(is_for)
            .collect();
        for cuda in toolkits.first().into_iter().chain(toolkits.last()) {
            let runs = |facts: &Facts| {
                facts.gpus[0].compute_capability.is_some_and(|have| {
                    have >= range.lowest_capability
                        && range
                            .highest_capability
                            .is_none_or(|highest| have <= highest)
                })
            };
            for facts in host_for(&database, arch, *cuda).into_iter().filter(runs) {
                for cuda in [exactly(*cuda), Want::Best] {
                    let request = Request {
                        driver: Want::Nothing,
                        cuda,
                        cudnn: exactly(cudnn),
                        ..default_request()
                    };
                    // Another archive of the release may do.
                    let Err(conflict) = resolve(&database, &facts, &request) else {
                        continue;
                    };
                    let (asked, gpu) = (&request.cuda, &facts.gpus[0].name);
                    assert_eq!(
                        conflict.rule,
                        Rule::AddOn(AddOnId::CUDNN, AddOnRule::Published),
                        "cuDNN {cudnn}, CUDA {asked}, {arch}, {gpu:?}: {conflict}"
                    );
                    let missing = match (&archive.artifact.url, &archive.artifact.sha256) {
                        (None, Some(_)) => "the URL of its archive is not known",
                        (Some(_), None) => "the checksum of its archive is not known",
                        _ => "neither the URL nor the checksum of its archive is known",
                    };
                    let of_another_line = |a: &&gpusetup::compat::AddOnArtifact| {
                        a.version == cudnn
                            && a.artifact.arch == arch
                            && a.cuda_line != archive.cuda_line
                    };
                    let is_only = !database
                        .add_on_archives(AddOnId::CUDNN)
                        .any(|a| of_another_line(&a));
                    assert!(
                        !is_only || conflict.sentence.contains(missing),
                        "cuDNN {cudnn} on {arch}: {conflict}"
                    );
                    refusals += 1;
                }
            }
        }
    }
    assert!(refusals > 50, "{refusals} refusals");
}

/// The commands that a refusal suggests.
fn commands(conflict: &Conflict) -> Vec<String> {
    conflict.hints.iter().filter_map(Hint::command).collect()
}

/// What the shell makes of a command that was suggested.
fn pasted(command: &str, facts: &std::path::Path, today: &str) -> Ran {
    let mut shell = std::process::Command::new("sh");
    shell
        .env("GPUSETUP_FACTS", facts)
        .env("GPUSETUP_TODAY", today);
    let command = command.replacen("gpusetup", &program().get_program().to_string_lossy(), 1);
    Ran::of(shell.args(["-c", &command]).output().expect("sh runs"))
}

#[test]
fn every_command_that_a_refusal_suggests_works() {
    let database = embedded();
    let fleet = Fleet::new(&database);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("facts.json");
    let (mut refused, mut tried) = (0, 0);
    for n in 0..hosts() / 8 {
        let (mut facts, request) = fleet.host(n);
        // What is installed already may need a person first, which is exit 5.
        (facts.driver, facts.cudnn) = (None, Vec::new());
        facts.toolkits.clear();
        let Err(conflict) = resolve(&database, &facts, &request) else {
            continue;
        };
        if conflict.exit() != Exit::NothingFits {
            continue;
        }
        refused += 1;
        std::fs::write(&file, serde_json::to_string(&facts).expect("JSON")).expect("written");
        for command in commands(&conflict) {
            let ran = pasted(&command, &file, &request.today);
            // Nor does a driver from the runfile fit where a companion of it can only be installed
            // by hand.
            let by_hand =
                ran.code == i32::from(Exit::Blocked.code()) && ran.err.contains("(GS801)");
            assert!(
                ran.code == 0 || by_hand,
                "host {n}: {conflict}\n{command}\n{}",
                ran.err
            );
            tried += 1;
        }
        assert!(
            conflict.alternative.is_none() || !commands(&conflict).is_empty(),
            "host {n}: {conflict}"
        );
    }
    assert!(
        refused > 20 && tried > 20,
        "{tried} commands of {refused} refusals"
    );
}

/// A part of a request: what of it a suggestion gives up is taken from the request again.
type Part = (&'static str, fn(&Request, &mut Request));

const PARTS: [Part; 9] = [
    ("method", |asked, other| other.method = asked.method),
    ("modules", |asked, other| other.modules = asked.modules),
    ("driver", |asked, other| other.driver = asked.driver.clone()),
    ("toolkit", |asked, other| {
        other.cuda = asked.cuda.clone();
        other
            .additional_toolkits
            .clone_from(&asked.additional_toolkits);
        other.with_toolkit = asked.with_toolkit;
    }),
    ("toolkit's method", |asked, other| {
        if other.cuda.is_wanted() {
            other.toolkit_method = asked.toolkit_method;
        }
    }),
    ("components", |asked, other| {
        if other.cuda.is_wanted() {
            other.components.clone_from(&asked.components);
        }
    }),
    ("cuDNN", |asked, other| {
        if other.cuda.is_wanted() {
            other.cudnn = asked.cudnn.clone();
        }
    }),
    ("add-ons", |asked, other| {
        if other.cuda.is_wanted() {
            other.add_ons.clone_from(&asked.add_ons);
        }
    }),
    ("frameworks", |asked, other| {
        other.frameworks.clone_from(&asked.frameworks);
    }),
];

#[test]
fn a_suggestion_gives_up_nothing_that_it_could_keep() {
    let database = embedded();
    let fleet = Fleet::new(&database);
    let mut kept = 0;
    for n in 0..hosts() / 4 {
        let (facts, request) = fleet.host(n);
        let Err(conflict) = resolve(&database, &facts, &request) else {
            continue;
        };
        let Some(instead) = conflict.hints.iter().rev().find_map(Hint::asks) else {
            continue;
        };
        // Without GPUs that no driver supports it is about another host.
        if instead.leave_out != request.leave_out
            || instead.driver.is_wanted() != request.driver.is_wanted()
        {
            continue;
        }
        for (part, restore) in PARTS {
            let mut closer = instead.clone();
            restore(&request, &mut closer);
            if closer != *instead {
                let answer = resolve(&database, &facts, &closer);
                // What nobody asked for is left out by itself.
                let keeps = answer.is_ok_and(|found| found.without_toolkit.is_none());
                assert!(
                    !keeps,
                    "host {n}, asked for {}: {conflict}\nthe {part} could stay: {}\ninstead of {}",
                    request.options(),
                    closer.options(),
                    instead.options()
                );
                kept += 1;
            }
        }
    }
    assert!(kept > 50, "{kept} parts were tried");
}

fn refusal(database: &Database, facts: &Facts, request: Request) -> Conflict {
    resolve(database, facts, &request).expect_err("nothing fits")
}

#[test]
fn a_cudnn_is_refused_for_what_its_toolkits_lack() {
    let database = embedded();
    let ubuntu = database
        .distribution("ubuntu", "26.04", &[])
        .expect("Ubuntu");
    let mut facts = bare(ubuntu);
    facts.gpus = vec![unit(
        database.gpu_named("A100 PCIe").expect("a GPU"),
        0,
        None,
    )];
    let conflict = refusal(
        &database,
        &facts,
        Request {
            cudnn: exactly("8.9"),
            ..default_request()
        },
    );
    let why = "cuDNN 8.9.7.29 does not fit: it is built for CUDA 12, and CUDA 12.9.2 does not fit: its headers do not compile";
    assert!(conflict.sentence.starts_with(why), "{conflict}");
    // Where the toolkit is asked for, it is what cuDNN is not built for.
    let request = Request {
        cuda: exactly("13.2"),
        cudnn: exactly("8.9"),
        ..default_request()
    };
    let conflict = refusal(&database, &facts, request);
    assert!(conflict.sentence.ends_with("not for 13.2"), "{conflict}");
}

#[test]
fn a_card_that_the_modules_asked_for_do_not_run_gets_its_driver_suggested() {
    let database = embedded();
    let mut facts = bare(database.distribution("debian", "13", &[]).expect("Debian"));
    facts.gpus = vec![unit(
        database.gpu_named("GTX 1080").expect("a GPU"),
        0,
        None,
    )];
    let conflict = refusal(
        &database,
        &facts,
        Request {
            modules: Some(ModuleFlavour::Open),
            ..default_request()
        },
    );
    assert_eq!(commands(&conflict), ["gpusetup plan"], "{conflict}");
}

#[test]
fn a_release_without_a_usable_runfile_comes_from_archives() {
    let database = embedded();
    let fedora = database.distribution("fedora", "44", &[]).expect("Fedora");
    let hopper = database.gpu_named("H100 PCIe").expect("an H100");
    let mut facts = bare(fedora);
    (facts.gcc, facts.glibc) = (Some("16.0.1".to_owned()), Some("2.43".to_owned()));
    facts.gpus = vec![unit(hopper, 0, None)];
    let frameworks = |name: &str| vec![name.to_owned()];
    for request in [
        Request {
            cuda: exactly("13.4"),
            ..default_request()
        },
        Request {
            frameworks: frameworks("tensorrt==11.4"),
            cuda: exactly("13.4"),
            ..default_request()
        },
    ] {
        // No runfile of it can be verified; its archives can.
        let found = resolve(&database, &facts, &request).expect("it fits");
        let selection = found.selection();
        let cuda = selection.cuda.expect("a toolkit");
        assert_eq!((cuda.version.major, cuda.version.minor), (13, 4));
        assert!(cuda.components.len() > 20, "{cuda:?}");
        let reason = found
            .reasons
            .iter()
            .find(|reason| reason.text.contains("component archives"))
            .expect("a reason");
        assert!(
            reason
                .text
                .contains("its runfile cannot be had or verified"),
            "{}",
            reason.text
        );
        let by_runfile = Request {
            toolkit_method: ToolkitMethod::Runfile,
            ..request
        };
        let conflict = refusal(&database, &facts, by_runfile);
        assert!(
            conflict
                .sentence
                .contains("the checksum of its runfile is not known"),
            "{conflict}"
        );
    }
}

#[test]
fn a_framework_without_a_version_is_the_newest_that_fits() {
    let host = Tree::ubuntu_24_04();
    let ran = host.run(&["plan", "--gpu", "h100", "--for", "tensorrt", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let plan = ran.json();
    let reason = plan["reasons"][0]["text"].as_str().unwrap_or_default();
    assert!(reason.starts_with("tensorrt==11.4"), "{reason}");
    let ran = host.run(&[
        "plan",
        "--gpu",
        "h100",
        "--for",
        "tensorrt",
        "--cuda",
        "13",
        "--toolkit-method",
        "runfile",
        "--json",
    ]);
    let plan = ran.json();
    let newer = |r: &&serde_json::Value| r["candidate"] == "tensorrt==11.4";
    let rejected = plan["rejected"]
        .as_array()
        .expect("a list")
        .iter()
        .find(newer)
        .expect("the newest is spoken of");
    assert_eq!(rejected["rule"], "cuda-published");
}

#[test]
fn a_toolkit_of_archives_is_kept_where_runfiles_run() {
    let database = embedded();
    let mut facts = bare(
        database
            .distribution("ubuntu", "24.04", &[])
            .expect("Ubuntu"),
    );
    facts.gpus = vec![unit(
        database.gpu_named("A100 PCIe").expect("a GPU"),
        0,
        None,
    )];
    let first = resolve(
        &database,
        &facts,
        &Request {
            components: vec!["nvcc".to_owned()],
            ..default_request()
        },
    );
    let mut facts = installed(
        facts.clone(),
        &first.expect("an answer"),
        &default_request(),
    );
    facts.toolkits[0].components = Some(vec!["cuda_nvcc".to_owned()]);
    let again = resolve(&database, &facts, &default_request()).expect("an answer");
    assert!(again.parts.is_empty(), "{:?}", again.parts);
    assert!(
        !again
            .reasons
            .iter()
            .any(|reason| reason.text.contains("libxml2")),
        "{:?}",
        again.reasons
    );
}

#[test]
fn toolkits_side_by_side_are_those_that_each_gets_alone() {
    let database = embedded();
    let fleet = Fleet::new(&database);
    let (mut held, mut refused) = (0, 0);
    for n in 0..hosts() {
        let (facts, request) = fleet.host(n);
        let request = Request {
            frameworks: Vec::new(),
            ..request
        };
        if !request.cuda.is_wanted() {
            continue;
        }
        let series = database.cuda[n * 7 % database.cuda.len()].version.series();
        let other: Want<CudaVersion> = series.to_string().parse().expect("a request");
        let both = Request {
            additional_toolkits: vec![AdditionalToolkitRequest {
                cuda: other.clone(),
                locked: None,
            }],
            ..request.clone()
        };
        let both = resolve(&database, &facts, &both);
        let first = resolve(&database, &facts, &request);
        let second = resolve(
            &database,
            &facts,
            &Request {
                cuda: other,
                ..request
            },
        );
        let Ok(first) = first else {
            assert!(
                both.is_err(),
                "host {n}: the default toolkit does not fit alone"
            );
            refused += 1;
            continue;
        };
        let Ok(second) = second else { continue };
        let driver = |r: &Resolution| r.driver.as_ref().map(|d| (d.version, d.modules));
        let chosen = |r: &Resolution| r.cuda.as_ref().map(|c| c.release.version);
        let is_apart = chosen(&first).is_some_and(|version| version.series() != series);
        if driver(&first) != driver(&second) || !is_apart {
            continue;
        }
        let both = both.unwrap_or_else(|conflict| {
            panic!("host {n}: each fits this driver alone, but: {conflict}")
        });
        let selected: Vec<_> = both.selection().toolkits;
        for (selected, alone) in selected.iter().zip([&first, &second]) {
            let alone = alone.selection();
            assert_eq!(Some(&selected.cuda), alone.cuda.as_ref(), "host {n}");
            assert_eq!(
                (&selected.cudnn, &selected.add_ons),
                (&alone.cudnn, &alone.add_ons),
                "host {n}"
            );
        }
        let runs = |release: CudaVersion| {
            let minimum = database
                .cuda
                .iter()
                .find(|c| c.version == release)
                .map(|c| c.minimum_driver);
            both.driver
                .as_ref()
                .is_none_or(|driver| minimum.is_some_and(|minimum| driver.version >= minimum))
        };
        assert!(
            both.toolkits().all(|toolkit| runs(toolkit.release.version)),
            "host {n}"
        );
        held += 1;
    }
    assert!(
        held > 50 && refused > 50,
        "{held} hosts had both, {refused} none"
    );
}
