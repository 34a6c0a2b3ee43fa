//! Companions of the driver that the user asks for in the same way as for add-ons: `--with dcgm`.

use super::{Conflict, Hint, Request};
use gpusetup_database::compat::{AddOnId, Companion, CompanionId, Database};
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

/// The companion with the name of an add-on, if it is installed on request.
fn named(database: &Database, id: AddOnId) -> Option<&Companion> {
    let id: CompanionId = id.as_str().parse().ok()?;
    database.companion(id).filter(|of| of.on_request)
}
