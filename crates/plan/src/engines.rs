//! What a host needs for containers with GPUs: the engines, and the version of the toolkit.

use crate::Act;
use gpusetup_database::compat::{ContainerToolkit, Engine, EnginePackages, PackageRepository};
use gpusetup_database::version::AddOnVersion;
use gpusetup_host::{
    BrokenConfig, ContainerHost, Facts, InstalledEngine, Target, packaged_version,
};
use gpusetup_operation::Run;
use gpusetup_resolve::{ContainerRequest, KnownHost, Request};
use std::borrow::Cow;

/// What a plan sets up for containers.
pub struct ContainerSetup<'a> {
    pub(crate) toolkit: &'a ContainerToolkit,
    /// What was asked for.
    pub(crate) request: &'a ContainerRequest,
    pub(crate) host: Cow<'a, ContainerHost>,
    /// The engines that the host has, and the one that is installed.
    pub(crate) engines: Vec<EngineSetup<'a>>,
    /// The repository to add; none if one that has the toolkit is enabled, or the toolkit is there.
    pub(crate) added: Option<&'a PackageRepository>,
    /// The version of the toolkit.
    pub(crate) version: AddOnVersion,
    /// The version of its packages.
    pub(crate) package_version: String,
    /// Whether an installed toolkit stays as it is.
    pub(crate) is_kept: bool,
}

/// An engine that the plan sets up.
pub(crate) struct EngineSetup<'a> {
    pub(crate) engine: &'a Engine,
    /// The installed one; none if the plan installs it.
    pub(crate) found: Option<InstalledEngine>,
    /// Its version under this plan, if known.
    pub(crate) version: Option<AddOnVersion>,
    /// The distribution's packages that install it.
    pub(crate) packages: Option<&'a EnginePackages>,
    /// Whether the installed package gives way to the one of a lock file.
    pub(crate) is_replaced: bool,
}

impl<'a> ContainerSetup<'a> {
    /// What the request needs on a host; none if it is not about containers.
    pub(crate) fn of<'d: 'a, 'f: 'a>(
        host: &KnownHost<'d, 'f>,
        request: &'a Request,
    ) -> Option<Self> {
        let asked = request.settings.containers.as_ref()?;
        let toolkit = host.database.container_toolkit()?;
        let seen = host.facts.containers();
        let known = host.database.engines.iter();
        let known = known.filter(|engine| needs_setup(engine, &seen, asked));
        let engines = known.filter_map(|engine| {
            let mut found = seen.engines.iter();
            let found = found.find(|found| found.id == engine.id).cloned();
            (found.is_some() || asked.engine == Some(engine.id))
                .then(|| EngineSetup::new(engine, found, host, asked))
        });
        let engines = engines.collect();
        let installed = seen.toolkit.as_ref().map(|toolkit| toolkit.version);
        let locked = asked.locked_toolkit.as_ref();
        // Whatever the repositories have, a lock file decides, and one of another version does not
        // stay.
        let is_locked = locked.is_none_or(|locked| installed.flatten() == packaged_version(locked));
        let is_enabled = host.facts.has_enabled(&toolkit.seen_as);
        let offered = toolkit
            .packages
            .first()
            .and_then(|name| host.facts.offered.as_ref()?.get(name));
        // The lists name what is installed, too. Without the repository, that is no offer.
        let offered = offered
            .filter(|offered| is_enabled || packaged_version(offered) != installed.flatten());
        let planned = locked.or(offered);
        let newest = planned
            .and_then(|planned| packaged_version(planned))
            .unwrap_or(toolkit.newest);
        let is_newest = installed.flatten() >= Some(newest);
        let is_kept = installed.is_some() && is_locked && (!request.upgrade || is_newest);
        let version = installed.flatten().filter(|_| is_kept).unwrap_or(newest);
        let package_version = planned
            .cloned()
            .unwrap_or_else(|| toolkit.package_version(version));
        let manager = host
            .facts
            .os
            .package_manager
            .filter(|_| !is_kept && !is_enabled);
        let added = manager.and_then(|manager| host.database.container_repository(manager));
        Some(Self {
            toolkit,
            request: asked,
            host: seen,
            engines,
            added,
            version,
            package_version,
            is_kept,
        })
    }

    /// The engine that the request names, with `--engine` or as that of a user.
    pub(crate) fn asked(&self) -> Option<&EngineSetup<'a>> {
        self.engines.iter().find(|setup| match self.request.engine {
            Some(id) => setup.engine.id == id,
            None => self.request.docker_user.is_some() && setup.engine.group.is_some(),
        })
    }

    /// The engine whose group the user joins.
    pub(crate) fn with_group(&self) -> Option<&EngineSetup<'a>> {
        self.engines
            .iter()
            .find(|setup| setup.engine.group.is_some())
    }

    /// The operation by which the user joins the group of an engine; none if no user is named.
    pub(crate) fn membership(&self) -> Option<Act> {
        let user = self.request.docker_user.as_ref()?;
        let group = self.with_group()?.engine.group.as_ref()?;
        let satisfied = self
            .host
            .groups
            .get(group)
            .is_some_and(|members| members.contains(user));
        let join = Run::new(["gpasswd", "--add", user, group], 60)
            .undone_by(["gpasswd", "--delete", user, group]);
        Some(Act {
            operation: join.into(),
            satisfied,
        })
    }

    /// An engine, for questions about its files.
    pub(crate) fn target<'s>(&'s self, setup: &'s EngineSetup) -> Target<'s> {
        Target {
            engine: setup.engine,
            found: setup.found.as_ref(),
            version: setup.version,
            host: &self.host,
            runtime: &self.toolkit.runtime,
        }
    }

    /// The files that cannot be merged.
    pub(crate) fn broken(&self) -> impl Iterator<Item = (&EngineSetup<'a>, BrokenConfig)> {
        self.engines
            .iter()
            .filter_map(|setup| Some((setup, self.target(setup).edit().err()?)))
    }
}

impl EngineSetup<'_> {
    /// The units that restart: those that the host has, or the first one of an engine that the plan
    /// installs.
    pub(crate) fn units(&self) -> Vec<&str> {
        match &self.found {
            Some(found) => found.units.iter().map(String::as_str).collect(),
            None => self
                .engine
                .units
                .iter()
                .take(1)
                .map(String::as_str)
                .collect(),
        }
    }
}

/// The version of the first of these packages that the repositories offer.
fn offered(facts: &Facts, names: &[String]) -> Option<AddOnVersion> {
    let all = facts.offered.as_ref()?;
    packaged_version(names.iter().find_map(|name| all.get(name))?)
}

/// Whether an engine is set up by itself. What Docker runs for itself is not, unless Kubernetes
/// uses it too.
fn needs_setup(engine: &Engine, host: &ContainerHost, asked: &ContainerRequest) -> bool {
    let is_part = engine.part_of.is_some_and(|id| {
        host.engines.iter().any(|found| found.id == id) || asked.engine == Some(id)
    });
    let mut users = engine.used_by.iter();
    !is_part || users.any(|user| host.users.contains(&user.into()))
}

impl<'a> EngineSetup<'a> {
    fn new(
        engine: &'a Engine,
        found: Option<InstalledEngine>,
        host: &KnownHost<'a, '_>,
        asked: &ContainerRequest,
    ) -> Self {
        let packages = host
            .distribution
            .and_then(|distribution| engine.packages_on(distribution));
        let locked = asked
            .locked_engine
            .as_deref()
            .filter(|_| packages.is_some() && asked.engine == Some(engine.id));
        let installed = found
            .as_ref()
            .and_then(|found| found.package_version.as_deref());
        let is_replaced = installed
            .zip(locked)
            .is_some_and(|(installed, locked)| installed != locked);
        let version = match &found {
            Some(found) if !is_replaced => found.version,
            _ => locked.and_then(packaged_version).or_else(|| {
                let packages = packages?;
                offered(host.facts, &packages.names)
                    .or_else(|| packages.version_on(host.distribution?))
            }),
        };
        Self {
            engine,
            found,
            version,
            packages,
            is_replaced,
        }
    }
}
