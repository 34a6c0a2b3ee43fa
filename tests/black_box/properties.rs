//! What must hold of any answer, whatever the host: found on varied hosts, with the real database.

use crate::fleet::{Fleet, unit};
use gpusetup::compat::DriverVariant;
use gpusetup::database::embedded;
use gpusetup::host::{Cudnn, Facts, InstalledDriver, Origin, Toolkit};
use gpusetup::resolve::{Method, Request, Resolution, resolve};

const HOSTS: usize = 3000;

#[test]
fn another_gpu_never_widens_what_fits() {
    let database = embedded();
    let fleet = Fleet::new(&database);
    let mut held = 0;
    for n in 0..HOSTS {
        let (mut facts, request) = fleet.host(n);
        let alone = resolve(&database, &facts, &request);
        facts.gpus.push(unit(&database.gpus[n * 7 % database.gpus.len()], 255, None));
        if resolve(&database, &facts, &request).is_ok() {
            assert!(alone.is_ok(), "host {n} got an answer by one more GPU");
            held += 1;
        }
    }
    assert!(held > HOSTS / 10, "{held} hosts had an answer with both");
}

#[test]
fn a_newer_release_never_makes_the_answer_older() {
    let newest = embedded();
    let mut older = newest.clone();
    older.cuda.drain(..6);
    older.cudnn_artifacts.drain(..20);
    let fleet = Fleet::new(&newest);
    let mut moved = 0;
    for n in 0..HOSTS {
        let (facts, request) = fleet.host(n);
        let (Ok(before), Ok(after)) = (resolve(&older, &facts, &request), resolve(&newest, &facts, &request)) else {
            continue;
        };
        let version = |r: &Resolution| r.cuda.as_ref().map(|c| c.release.version);
        assert!(version(&before) <= version(&after), "host {n}: {:?} became {:?}", version(&before), version(&after));
        moved += usize::from(version(&before) < version(&after));
    }
    assert!(moved > HOSTS / 50, "{moved} answers moved");
}

#[test]
fn what_was_installed_as_chosen_is_chosen_again() {
    let database = embedded();
    let fleet = Fleet::new(&database);
    let mut held = 0;
    for n in 0..HOSTS {
        let (facts, request) = fleet.host(n);
        let request = Request { upgrade: false, ..request };
        let Ok(first) = resolve(&database, &facts, &request) else { continue };
        let again = installed(facts, &first, &request);
        let second = resolve(&database, &again, &request).expect("what fitted once fits");
        assert_eq!(second.selection().cuda, first.selection().cuda, "host {n}");
        assert_eq!(second.selection().cudnn, first.selection().cudnn, "host {n}");
        let version = |r: &Resolution| r.driver.as_ref().map(|d| (d.version, d.modules, d.install.method()));
        assert_eq!(version(&second), version(&first), "host {n}");
        held += 1;
    }
    assert!(held > HOSTS / 5, "{held} hosts had an answer");
}

/// The host after the plan.
fn installed(mut facts: Facts, r: &Resolution, request: &Request) -> Facts {
    if let Some(driver) = &r.driver {
        facts.driver = Some(InstalledDriver {
            version: driver.version,
            origin: if driver.install.method() == Method::Runfile { Origin::Runfile } else { Origin::Dpkg },
            modules: Some(driver.modules),
            evidence: "a file".to_owned(),
        });
    }
    if let Some(cuda) = &r.cuda {
        let path = request.prefix.join(format!("cuda-{}", cuda.release.version.series()));
        facts.toolkits.retain(|t| t.path != path);
        let version = cuda.release.version;
        facts.toolkits.push(Toolkit {
            version,
            path: path.clone(),
            origin: Origin::Runfile,
            has_nvcc: true,
            components: None,
        });
        if let Some(cudnn) = &r.cudnn {
            facts.cudnn = vec![Cudnn {
                version: Some(cudnn.artifact.version),
                directory: path.join("lib64"),
                origin: Origin::Unknown,
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
    for n in 0..HOSTS / 10 {
        let (facts, request) = fleet.host(n);
        let Ok(answer) = resolve(&database, &facts, &request) else { continue };
        let told: std::collections::BTreeSet<_> = answer.rejected.iter().map(|r| r.candidate.as_str()).collect();
        assert!(answer.rejected.iter().all(|r| !r.because.is_empty() && !r.rule.is_empty()));
        if let Some(driver) = &answer.driver {
            let arch = &facts.machine.arch;
            let runfile = |d: &&gpusetup::compat::DriverRelease| {
                d.artifacts.iter().any(|a| a.variant == DriverVariant::Full && a.artifact.arch == *arch)
            };
            let newer = database.drivers.iter().filter(|d| d.version > driver.version).filter(runfile);
            // Of one branch the newest stands for all.
            let branches: std::collections::BTreeSet<_> = newer.map(|d| d.version.branch).collect();
            for branch in branches {
                let name = format!("driver {branch}.");
                assert!(told.iter().any(|t| t.starts_with(&name)), "host {n}: no {name}x is spoken of");
            }
        }
        if let Some(cuda) = &answer.cuda {
            for newer in database.cuda.iter().filter(|c| c.version > cuda.release.version) {
                let name = format!("cuda {}", newer.version);
                assert!(told.contains(name.as_str()), "host {n}: {name} is not spoken of");
            }
        }
    }
}

#[test]
fn the_reasons_given_are_sufficient() {
    let whole = embedded();
    let fleet = Fleet::new(&whole);
    let mut held = 0;
    for n in 0..HOSTS / 10 {
        let (facts, request) = fleet.host(n);
        let Ok(answer) = resolve(&whole, &facts, &request) else { continue };
        let (Some(driver), Some(cuda)) = (&answer.driver, &answer.cuda) else { continue };
        // A world in which what was rejected never was, and nothing else is different.
        let rejected: std::collections::BTreeSet<_> = answer.rejected.iter().map(|r| r.candidate.as_str()).collect();
        let mut left = whole.clone();
        left.cuda.retain(|c| !rejected.contains(format!("cuda {}", c.version).as_str()));
        left.drivers
            .retain(|d| d.version == driver.version || !rejected.contains(format!("driver {}", d.version).as_str()));
        // There the newest toolkit is the one, without a rule; unless the host had it, which comes first.
        let kept = answer.rejected.iter().any(|r| r.rule == "cuda-kept");
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
    assert!(held > HOSTS / 50, "{held} hosts had an answer");
}
