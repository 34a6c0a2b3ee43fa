//! Drivers from packages of another vendor than the installed one's (GS402).

use gpusetup_database::version::Want;
use gpusetup_host::{Facts, Origin};
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
    let sentence = format!(
        "driver {} is installed from packages of another repository than {}, which has driver {}: some packages of the two have \
         the same names, and upgrades would mix them",
        installed.version, offer.repository.name, driver.version
    );
    Err(Conflict::blocked(CheckId::GS402, sentence)
        .hint("remove the installed driver first: sudo gpusetup uninstall --driver"))
}

/// Suggests a driver from the enabled repositories if one was refused by the rule above, or the
/// installed one. `gives` is what a request gets, if it gets anything.
pub(crate) fn with_enabled<'a, Chosen: Borrow<Resolution<'a>>>(
    request: &Request,
    mut conflict: Conflict,
    gives: impl Fn(&Request) -> Option<Chosen>,
) -> Conflict {
    if conflict.check != Some(CheckId::GS402) {
        return conflict;
    }
    let from_enabled = Request {
        method: Method::Packages,
        ..request.clone()
    };
    let method = if request.method == Method::Repository {
        Method::Auto
    } else {
        request.method
    };
    let as_it_is = Request {
        method,
        upgrade: false,
        ..request.clone()
    };
    let in_any_version = Request {
        driver: Want::Best,
        ..as_it_is.clone()
    };
    let ways = [
        ("from the enabled repositories", from_enabled, false),
        ("keep the installed driver", as_it_is, true),
        ("keep the installed driver", in_any_version, true),
    ];
    let tried = ways.into_iter().find_map(|(why, asked, keeps)| {
        let given = gives(&asked)?;
        let chosen: &Resolution = given.borrow();
        let is_kept = chosen
            .driver
            .as_ref()
            .is_some_and(|driver| driver.is_kept());
        (is_kept == keeps).then(|| {
            Hint::asking(why, asked.clone())
                .giving(format!("fits: {}", summary(&chosen.selection())))
        })
    });
    conflict.hints.extend(tried);
    conflict
}
