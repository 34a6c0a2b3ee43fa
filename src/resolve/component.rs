//! The toolkit components that `--components` selects: the named ones and their dependencies.

use super::{Conflict, Request};
use crate::compat::{AddOnId, Artifact, Component, ComponentNeed, ComponentRelease, Database};
use crate::host::Toolkit;

/// A component of the toolkit as planned.
#[derive(Debug, Clone, PartialEq)]
pub struct Part<'a> {
    /// The component.
    pub component: &'a Component,
    /// NVIDIA's name in this release.
    pub name: &'a str,
    /// Its own version.
    pub version: &'a str,
    /// NVIDIA's archive of it.
    pub artifact: Artifact,
    /// Why it is installed, if it was not named.
    pub need: Option<&'a ComponentNeed>,
    /// The title of the add-on that needs it.
    pub add_on: Option<&'a str>,
    /// Whether it is already in the toolkit.
    pub there: bool,
    /// Whether it is already in the toolkit and was not requested: it is kept.
    pub beside: bool,
}

impl Part<'_> {
    /// Why it is installed, if it was not named: "cuda_nvcc runs its cicc".
    pub fn why(&self) -> Option<String> {
        let need = self.need?;
        Some(format!("{} {}", self.add_on.unwrap_or(&need.of), need.why))
    }
}

/// The named components without duplicates; an unknown name is an error in the request.
pub fn named<'a>(database: &'a Database, request: &Request) -> Result<Vec<&'a Component>, Conflict> {
    let mut all: Vec<&Component> = Vec::new();
    for name in &request.components {
        let Some(component) = database.component_named(name) else {
            let near = database.components_near(name).join(", ");
            return Err(Conflict::request(format!("CUDA has no component `{name}` (--components)"))
                .hint(format!("similar: {near}; list all: gpusetup db list components")));
        };
        if !all.contains(&component) {
            all.push(component);
        }
    }
    if !all.is_empty() && !request.cuda.is_wanted() {
        return Err(Conflict::request("--components needs a CUDA toolkit, but none is requested"));
    }
    Ok(all)
}

/// The components for which a release has archives.
pub fn published<'a>(database: &'a Database, release: &ComponentRelease, arch: &str) -> Vec<&'a Component> {
    let has = |c: &&Component| release.component(c).is_some_and(|part| part.archive(arch).is_some());
    database.components.iter().filter(has).collect()
}

/// The named components and their dependencies, as far as the release has archives of them, each after the component that needs
/// it; then the other components of `installed`, the existing toolkit.
pub fn parts<'a>(
    database: &'a Database,
    release: &'a ComponentRelease,
    named: &[&'a Component],
    add_ons: &[AddOnId],
    arch: &str,
    installed: Option<&Toolkit>,
) -> Vec<Part<'a>> {
    let mut wanted: Vec<(&Component, Option<&ComponentNeed>)> = named.iter().map(|c| (*c, None)).collect();
    let add = |of: &str, wanted: &mut Vec<(&'a Component, Option<&'a ComponentNeed>)>| {
        for need in database.component_needs.iter().filter(|n| n.of == of) {
            if let Some(component) = database.component(&need.needs).filter(|c| !wanted.iter().any(|(w, _)| w == c)) {
                wanted.push((component, Some(need)));
            }
        }
    };
    for add_on in add_ons {
        add(add_on.as_str(), &mut wanted);
    }
    let mut at = 0;
    while let Some((component, _)) = wanted.get(at).copied() {
        add(&component.name, &mut wanted);
        at += 1;
    }
    let asked = wanted.len();
    for name in installed.and_then(|t| t.components.as_ref()).into_iter().flatten() {
        if let Some(component) = database.component(name).filter(|c| !wanted.iter().any(|(w, _)| w == c)) {
            wanted.push((component, None));
        }
    }
    let part = |(n, (component, need)): (usize, (&'a Component, Option<&'a ComponentNeed>))| {
        let beside = n >= asked;
        let found = release.component(component)?;
        let artifact = release.artifact(found, found.archive(arch)?);
        let there = installed.is_some_and(|t| has(t, component));
        let add_on = database.add_ons.iter().find(|a| need.is_some_and(|n| n.of == a.id.as_str()));
        let add_on = add_on.map(|a| a.title.as_str());
        Some(Part { component, name: &found.name, version: &found.version, artifact, need, add_on, there, beside })
    };
    wanted.into_iter().enumerate().filter_map(part).collect()
}

/// Whether a toolkit has the component. A toolkit that was not assembled from component archives counts as complete: nothing is
/// unpacked into a directory managed by a runfile or by packages.
fn has(toolkit: &Toolkit, component: &Component) -> bool {
    toolkit.components.as_ref().is_none_or(|all| all.iter().any(|name| component.is_called(name)))
}
