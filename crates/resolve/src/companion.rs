//! Companions of the driver that the user asks for in the same way as for add-ons: `--with dcgm`.

use super::{Conflict, Hint, Request};
use gpusetup_database::compat::{AddOnId, Companion, Database};
use gpusetup_database::version::Want;

/// The request with the companions among its add-ons as what they are.
///
/// # Errors
///
/// If a version of a companion is requested: it comes as the repository has it.
pub fn with_companions(database: &Database, mut request: Request) -> Result<Request, Conflict> {
    let ids: Vec<_> = request
        .add_ons
        .keys()
        .filter_map(|id| Some((*id, named(database, *id)?)))
        .collect();
    for (id, of) in ids {
        let wanted = request.add_ons.remove(&id);
        if !of.on_request {
            return Err(chosen_by_itself(of, request));
        }
        request.companions.insert(of.id);
        if let Some(Want::Meeting(version)) = wanted {
            let sentence = format!(
                "{} {version} was requested (--with), but gpusetup installs the version that the repository has",
                of.title
            );
            return Err(Conflict::request(sentence)
                .hint(Hint::asking("in the version of the repository", request)));
        }
    }
    Ok(request)
}

/// The refusal of a companion that is installed where the hardware needs it, and nowhere else.
fn chosen_by_itself(of: &Companion, request: Request) -> Conflict {
    let sentence = format!(
        "{} is not chosen with --with: a plan includes it on hosts that need it. It {}",
        of.title, of.purpose
    );
    Conflict::request(sentence).hint(Hint::asking("includes it if this host needs it", request))
}

/// The companion with the name of an add-on, which has no dashes.
fn named(database: &Database, id: AddOnId) -> Option<&Companion> {
    let id = id.as_str();
    database.companions.iter().find(|of| {
        let letters = of.id.as_str().chars().filter(|c| *c != '-');
        letters.eq(id.chars())
    })
}
