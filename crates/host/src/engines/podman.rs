//! Podman, which needs nothing but a CDI specification.

use super::documents::{ConfigError, Runtimes, text_of, toml_document};
use super::form::{EngineBehaviour, GpuAccess};
use super::places;
use gpusetup_database::version::AddOnVersion;
use toml_edit::Item;

/// How Podman is configured.
pub(crate) static FORM: EngineBehaviour = EngineBehaviour {
    note: Some("Podman, rootless too, reads the CDI specification: --device nvidia.com/gpu=all"),
    ..EngineBehaviour::new(GpuAccess::Cdi, places::by_pattern, read)
};

/// The runtimes in a `containers.conf`. One has several paths, of which the first that exists
/// counts.
fn read(text: &str, _: &str, _: Option<AddOnVersion>) -> Result<Runtimes, ConfigError> {
    let doc = toml_document(text)?;
    let Some(engine) = doc.get("engine").and_then(Item::as_table_like) else {
        return Ok(Runtimes::default());
    };
    let runtimes = engine.get("runtimes").and_then(Item::as_table_like);
    let programs = runtimes.into_iter().flat_map(|all| all.iter());
    Ok(Runtimes {
        programs: programs
            .map(|(name, paths)| (name.to_owned(), first(paths)))
            .collect(),
        default: text_of(engine, "runtime").map(str::to_owned),
        ..Runtimes::default()
    })
}

fn first(paths: &Item) -> Option<String> {
    paths.as_array()?.iter().next()?.as_str().map(str::to_owned)
}
