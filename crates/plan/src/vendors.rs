//! Drivers from packages of another vendor than the installed one's (GS402), and what can be planned
//! where the installed driver stands in the way (GS401, too).

use gpusetup_database::version::Want;
use gpusetup_host::{Facts, InstalledDriver, Origin};
use gpusetup_resolve::{
    Conflict, Hint, Install, Method, Request, Resolution, changes_branch, summary,
};
use gpusetup_text::ids::CheckId;
use std::borrow::Borrow;

/// Refuses to install packages of a repository that is added over those of another vendor: some
/// have the same names, and each upgrade would mix them.
pub(crate) fn not_two_vendors(facts: &Facts, chosen: &Resolution) -> Result<(), Conflict> {
    let (Some(installed), Some(driver)) = (&facts.driver, &chosen.driver) else {
        return Ok(());
    };
    let (Origin::Dpkg | Origin::Rpm, Install::Repository(offer, repository)) =
        (installed.origin, driver.install)
    else {
        return Ok(());
    };
    // The installed driver comes from there, too, in another branch.
    if changes_branch(facts, repository) {
        return Ok(());
    }
    let repository = &offer.repository.name;
    let sentence = format!(
        "driver {} is installed from packages, and {repository}, which has driver {}, is not enabled. Packages of elsewhere have the \
         same names in part, and upgrades would mix them",
        installed.version, driver.version
    );
    Err(Conflict::blocked(CheckId::GS402, sentence).hint(format!(
        "enable {repository} again if they came from there, or remove them first: sudo gpusetup uninstall --driver"
    )))
}

/// Suggests what plans on a host whose installed driver stands in the way of another (GS401, GS402):
/// to keep it, and another one that is installed as it was. `gives` is what a request gets, if it
/// gets anything.
pub(crate) fn with_installed<'a, Chosen: Borrow<Resolution<'a>>>(
    facts: &Facts,
    request: &Request,
    mut conflict: Conflict,
    gives: impl Fn(&Request) -> Option<Chosen>,
) -> Conflict {
    let (Some(CheckId::GS401 | CheckId::GS402), Some(installed)) = (&conflict.check, &facts.driver)
    else {
        return conflict;
    };
    let mut kept = keeping(request, installed).into_iter();
    let kept = kept.find_map(|asked| hint("keep the installed driver", asked, true, &gives));
    let mut others = [
        ("from the enabled repositories", Method::Packages),
        ("with the runfile", Method::Runfile),
    ]
    .into_iter();
    let other = others.find_map(|(why, method)| {
        let asked = Request {
            method,
            ..request.clone()
        };
        hint(why, asked, false, &gives)
    });
    conflict.hints.extend(kept);
    conflict.hints.extend(other);
    conflict
}

/// The requests that may keep the installed driver, the nearest first. The newest build of a
/// framework may need a newer driver, where an older build runs with this one.
fn keeping(request: &Request, installed: &InstalledDriver) -> Vec<Request> {
    let method = match request.method {
        Method::Packages => Method::Packages,
        _ => Method::Auto,
    };
    let of_its_branch = installed.version.branch.to_string().parse();
    let mut drivers = vec![request.driver.clone(), Want::Best];
    drivers.extend(of_its_branch.ok());
    drivers.dedup();
    let asking = drivers.into_iter().map(|driver| Request {
        driver,
        method,
        upgrade: false,
        ..request.clone()
    });
    asking.collect()
}

/// The suggestion to ask for this, if it can be planned and keeps the driver or not, as it should.
fn hint<'a, Chosen: Borrow<Resolution<'a>>>(
    why: &'static str,
    asked: Request,
    keeps: bool,
    gives: &impl Fn(&Request) -> Option<Chosen>,
) -> Option<Hint> {
    let given = gives(&asked)?;
    let chosen: &Resolution = given.borrow();
    let driver = chosen.driver.as_ref();
    let fits = format!("fits: {}", summary(&chosen.selection()));
    (driver.is_some_and(|driver| driver.is_kept()) == keeps)
        .then(|| Hint::asking(why, asked).giving(fits))
}
