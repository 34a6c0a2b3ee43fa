//! The toolkit components that `--components` selects: the named ones and their dependencies.

use super::{Conflict, Request};
use gpusetup_database::compat::{
    AddOnId, Artifact, Component, ComponentArchive, ComponentNeed, ComponentRelease, Database,
    ReleasedComponent,
};
use gpusetup_host::Toolkit;

/// A component of the toolkit as planned.
#[derive(Debug, Clone, PartialEq)]
pub struct Part<'a> {
    /// The component.
    pub component: &'a Component,
    /// NVIDIA's name in this release.
    pub name: &'a str,
    /// Its own version.
    pub version: &'a str,
    /// The release that it belongs to.
    release: &'a ComponentRelease,
    /// What the release has of it.
    released: &'a ReleasedComponent,
    /// NVIDIA's archive of it for the host's machine architecture.
    archive: &'a ComponentArchive,
    /// Why it is installed, if it was not named.
    pub(crate) need: Option<&'a ComponentNeed>,
    /// The title of the add-on that needs it.
    pub(crate) add_on: Option<&'a str>,
    /// Whether it is already in the toolkit.
    pub there: bool,
    /// Whether it is already in the toolkit and was not requested: it is kept.
    pub(crate) is_extra: bool,
}

impl Part<'_> {
    /// NVIDIA's archive of it, to download.
    pub fn artifact(&self) -> Artifact {
        self.release.artifact(self.released, self.archive)
    }

    /// Why it is installed, if it was not named: "cuda_nvcc runs its cicc".
    pub(crate) fn why(&self) -> Option<String> {
        let need = self.need?;
        Some(format!("{} {}", self.add_on.unwrap_or(&need.of), need.why))
    }
}

/// The named components without duplicates; an unknown name is an error in the request.
pub(crate) fn named<'a>(
    database: &'a Database,
    request: &Request,
) -> Result<Vec<&'a Component>, Conflict> {
    let mut all: Vec<&Component> = Vec::new();
    for name in &request.components {
        let Some(component) = database.component_named(name) else {
            let near = database.components_near(name).join(", ");
            return Err(Conflict::request(format!(
                "CUDA has no component `{name}` (--components)"
            ))
            .hint(format!(
                "similar: {near}; list all: gpusetup db list components"
            )));
        };
        if !all.contains(&component) {
            all.push(component);
        }
    }
    if !all.is_empty() && !request.cuda.is_wanted() {
        return Err(Conflict::request(
            "--components needs a CUDA toolkit, but none is requested",
        ));
    }
    Ok(all)
}

/// The components for which a release has archives.
pub(crate) fn published<'a>(
    database: &'a Database,
    release: &'a ComponentRelease,
    arch: &str,
) -> Vec<&'a Component> {
    let all = database.components.iter().zip(database.released(release));
    let published = all
        .filter(|(_, released)| released.is_some_and(|released| released.archive(arch).is_some()));
    published.map(|(component, _)| component).collect()
}

/// The named components and their dependencies, as far as the release has archives of them, each
/// after the component that needs it; then the other components of `installed`, the existing
/// toolkit.
pub(crate) fn parts<'a>(
    database: &'a Database,
    release: &'a ComponentRelease,
    named: &[&'a Component],
    add_ons: &[AddOnId],
    arch: &str,
    installed: Option<&Toolkit>,
) -> Vec<Part<'a>> {
    let mut wanted = Selected {
        taken: vec![false; database.components.len()],
        all: Vec::new(),
    };
    for component in named {
        wanted.add(
            database
                .components
                .iter()
                .position(|c| std::ptr::eq(c, *component)),
            None,
        );
    }
    for add_on in add_ons {
        for need in database
            .component_needs
            .iter()
            .filter(|need| need.of == add_on.as_str())
        {
            wanted.add(database.component_position(&need.needs), Some(need));
        }
    }
    let mut at = 0;
    while let Some((component, _)) = wanted.all.get(at).copied() {
        database
            .needs_of(component)
            .for_each(|(need, needed)| wanted.add(needed, Some(need)));
        at += 1;
    }
    let asked = wanted.all.len();
    for name in installed
        .and_then(|t| t.components.as_ref())
        .into_iter()
        .flatten()
    {
        wanted.add(database.component_position(name), None);
    }
    let released: Vec<_> = database.released(release).collect();
    let all = wanted.all.into_iter().enumerate();
    all.filter_map(|(n, (position, need))| {
        let (component, is_extra) = (&database.components[position], n >= asked);
        let found = released[position]?;
        let archive = found.archive(arch)?;
        let there = installed.is_some_and(|t| has(t, component));
        let add_on =
            need.and_then(|need| database.add_ons.iter().find(|a| need.of == a.id.as_str()));
        let add_on = add_on.map(|a| a.title.as_str());
        let (name, version) = (found.name.as_str(), found.version.as_str());
        Some(Part {
            component,
            name,
            version,
            release,
            released: found,
            archive,
            need,
            add_on,
            there,
            is_extra,
        })
    })
    .collect()
}

/// Components by their position in the database, each once, with what they are needed for.
struct Selected<'a> {
    taken: Vec<bool>,
    all: Vec<(usize, Option<&'a ComponentNeed>)>,
}

impl<'a> Selected<'a> {
    fn add(&mut self, component: Option<usize>, need: Option<&'a ComponentNeed>) {
        if let Some(at) = component.filter(|at| !self.taken[*at]) {
            self.taken[at] = true;
            self.all.push((at, need));
        }
    }
}

/// Whether a toolkit has the component. A toolkit that was not assembled from component archives
/// counts as complete: nothing is unpacked into a directory managed by a runfile or by packages.
fn has(toolkit: &Toolkit, component: &Component) -> bool {
    toolkit
        .components
        .as_ref()
        .is_none_or(|all| all.iter().any(|name| component.is_called(name)))
}
