//! Drivers and toolkits that lack fixes of security bulletins (GS513), and what gets one that has
//! them instead.
use gpusetup_database::compat::{BranchKind, Database};
use gpusetup_database::version::{CudaVersion, DriverVersion, Want};
use gpusetup_resolve::{ChosenDriver, Method, Request, Resolution};
use std::cmp::Reverse;
use std::fmt::Display;

/// What a driver lacks, and the option that helps, if one does. `gives` is the driver that a
/// request gets, if it gets one.
pub(crate) fn missing(
    database: &Database,
    request: &Request,
    driver: &ChosenDriver,
    gives: impl Fn(&Request) -> Option<DriverVersion>,
) -> Option<String> {
    let lacking = match database.vulnerabilities_of(driver.version).next() {
        // The newest names the newest release.
        Some((newest, fixed)) => gpusetup_causes::vulnerable(driver.version, newest, fixed),
        None => {
            let newest = database
                .bulletin_without(driver.version)
                .filter(|_| !driver.branch.is_over(&request.today))?;
            gpusetup_causes::branch_without_fixes(driver.version, newest)
        }
    };
    let others = other_requests(database, request, driver);
    Some(with_option(
        lacking,
        first_given(others, |asked| {
            gives(asked).filter(|version| database.has_fixes(*version))
        }),
    ))
}

/// What a toolkit lacks, whether it is installed now or was before, and the option that helps, if
/// one does. `gives` is the toolkit that a request gets, if it gets one.
pub(crate) fn missing_in_toolkit(
    database: &Database,
    request: &Request,
    chosen: &Resolution,
    gives: impl Fn(&Request) -> Option<CudaVersion>,
) -> Option<String> {
    let cuda = chosen.cuda.as_ref()?;
    let version = cuda.version();
    let (newest, fixed) = database.vulnerabilities_of_toolkit(version).next()?;
    let lacking = gpusetup_causes::vulnerable_toolkits(&[version], newest, fixed);
    let upgrade = cuda.is_kept().then(|| {
        (
            "--upgrade".to_owned(),
            Request {
                upgrade: true,
                ..request.clone()
            },
        )
    });
    let named = fixed.to_string().parse().ok().map(|cuda| {
        (
            format!("--cuda {fixed}"),
            Request {
                cuda,
                ..request.clone()
            },
        )
    });
    let others = upgrade.into_iter().chain(named);
    Some(with_option(
        lacking,
        first_given(others, |asked| {
            gives(asked).filter(|version| {
                database
                    .vulnerabilities_of_toolkit(*version)
                    .next()
                    .is_none()
            })
        }),
    ))
}

/// What lacks fixes, with the option that gets a version which has them, if one does.
fn with_option(lacking: String, helps: Option<(String, impl Display)>) -> String {
    match helps {
        Some((option, version)) => gpusetup_causes::has_fixes(&lacking, &option, version),
        None => lacking,
    }
}

/// The first of these ways to ask that gives something: its option, and what it gives.
pub(crate) fn first_given<Given>(
    mut ways: impl Iterator<Item = (String, Request)>,
    gives: impl Fn(&Request) -> Option<Given>,
) -> Option<(String, Given)> {
    ways.find_map(|(option, asked)| Some((option, gives(&asked)?)))
}

/// Ways to ask for another driver, those that change least first, each with its option.
pub(crate) fn other_requests(
    database: &Database,
    request: &Request,
    driver: &ChosenDriver,
) -> impl Iterator<Item = (String, Request)> {
    let upgrade = driver.is_kept().then(|| {
        (
            "--upgrade".to_owned(),
            Request {
                upgrade: true,
                ..request.clone()
            },
        )
    });
    let named = matches!(request.driver, Want::Meeting(_)) && !driver.is_kept();
    let unnamed = named.then(|| {
        (
            "without --driver, the plan".to_owned(),
            Request {
                driver: Want::Best,
                ..request.clone()
            },
        )
    });
    let methods = [
        (Method::Repository, "repository"),
        (Method::Packages, "packages"),
        (Method::Runfile, "runfile"),
    ];
    let may_change = request.driver_file.is_none();
    let is_new = may_change && !driver.is_kept();
    let methods = methods
        .into_iter()
        .filter(move |(method, _)| is_new && *method != driver.install.method());
    let by_method = methods.map(|(method, name)| {
        (
            format!("--method {name}"),
            Request {
                method,
                ..request.clone()
            },
        )
    });
    let newest = database
        .bulletins
        .iter()
        .find(|bulletin| !bulletin.fixed.is_empty());
    let mut branches: Vec<_> = newest
        .into_iter()
        .flat_map(|of| &of.fixed)
        .map(|fixed| fixed.branch)
        .collect();
    branches.sort_unstable_by_key(|branch| {
        let kind = database.branch(*branch).map(|known| known.kind);
        let is_steady = matches!(
            kind,
            Some(BranchKind::LongTerm | BranchKind::Production | BranchKind::Legacy)
        );
        Reverse((is_steady, *branch))
    });
    let others = branches
        .into_iter()
        .filter(move |branch| may_change && *branch != driver.version.branch);
    let by_branch = others.filter_map(|branch| {
        let asked = Request {
            driver: branch.to_string().parse().ok()?,
            ..request.clone()
        };
        Some((format!("--driver {branch}"), asked))
    });
    upgrade
        .into_iter()
        .chain(by_method)
        .chain(unnamed)
        .chain(by_branch)
}
