//! Makes a plan from a host and a request, for every subcommand and for programs that use gpusetup
//! as a library.

pub mod boot_program;
mod observe;
pub mod services;

use crate::bundle::{Bundle, BundleError};
use crate::compat::Database;
use crate::host::{Facts, PathFiles, SystemId, add_offers, offered_by};
use crate::ids::RuleId;
use crate::mirrors::Mirrors;
use crate::packages::Versions;
use crate::plan::{
    Begun, Inventory, LockError, LockFile, Plan, Repair, Unwanted, plan, removal, repair, switch,
};
use crate::resolve::{Conflict, ConflictKind, Request, summary, with_companions};
use crate::system::System;
use crate::version::{CudaVersion, Requirement, Want};

/// The input for plans, in addition to the host's facts and the request. See the crate's main page
/// for an example.
#[derive(Debug, Clone, Copy)]
pub struct Planner<'a> {
    /// The compatibility database of GPUs, drivers, toolkits and distributions.
    pub database: &'a Database,
    /// The host whose package lists are read. Without it, only the versions in the facts are known.
    pub repositories: Option<&'a System>,
    /// The bundle that provides all files. A plan in it that was made for this host is used
    /// unchanged.
    pub bundle: Option<&'a Bundle>,
    /// The lock file that the plan must follow.
    pub lock: Option<&'a LockFile>,
    /// Mirrors of NVIDIA's servers.
    pub mirrors: Option<&'a Mirrors>,
    /// The newest apply of the host: a plan in a bundle that it carried out is still for this host.
    pub begun: Option<&'a Begun>,
}

/// A plan, and notes on how it was made.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Notes for the user, each a sentence.
    pub notes: Vec<String>,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanningError {
    /// Nothing fits the request.
    #[error(transparent)]
    Conflict(#[from] Box<Conflict>),
    /// The lock file is for another system, or names versions that are no longer available.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The bundle cannot be read.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// Several plans match: each with its name in the bundle and what it installs.
    #[error("{} plans in the bundle match this host", .0.len())]
    SeveralPlans(Vec<String>),
}

impl PlanningError {
    /// Whether the only reason is that the host has no GPU.
    pub fn is_without_gpu(&self) -> bool {
        matches!(self, Self::Conflict(conflict) if conflict.kind == ConflictKind::NoGpu)
    }

    /// Whether it is a conflict by this rule.
    pub fn is_of(&self, rule: RuleId) -> bool {
        matches!(self, Self::Conflict(conflict) if conflict.rule == rule)
    }
}

impl From<Conflict> for PlanningError {
    fn from(conflict: Conflict) -> Self {
        Self::Conflict(Box::new(conflict))
    }
}

/// A bundle's match for a host.
enum InBundle {
    Plan(Box<Plan>),
    /// The request of a plan for another host of the same system, and that plan's name.
    Request(Box<Request>, String),
    Nothing,
}

impl<'a> Planner<'a> {
    pub fn new(database: &'a Database) -> Self {
        Self {
            database,
            repositories: None,
            bundle: None,
            lock: None,
            mirrors: None,
            begun: None,
        }
    }

    /// The plan for a host.
    ///
    /// # Errors
    ///
    /// If nothing fits: the facts that conflict and what would work. If the lock file or the bundle
    /// is not for this host.
    pub fn plan(&self, facts: Facts, request: Request) -> Result<Planned, PlanningError> {
        let (request, notes) = match self
            .bundle
            .map_or(Ok(InBundle::Nothing), |b| self.in_bundle(b, &facts))?
        {
            InBundle::Plan(plan) => return Ok(self.finished(*plan, Vec::new())?),
            InBundle::Request(request, name) => {
                let note = format!(
                    "the bundle has no plan for this host; its request was taken from {name}, made for a host with the \
                     same system"
                );
                (*request, vec![note])
            }
            InBundle::Nothing => (request, Vec::new()),
        };
        let request = self.locked(&facts, with_companions(self.database, request)?)?;
        // Installed versions that fit are kept regardless of the repositories, so their long lists
        // need not be read.
        let has_lists = self.bundle.is_some() || self.repositories.is_some();
        let may_be_kept = facts.driver.is_some() || !facts.toolkits.is_empty();
        if has_lists
            && may_be_kept
            && !request.upgrade
            && let Ok(kept) = plan(self.database, facts.clone(), request.clone())
            && kept.is_converged()
        {
            return Ok(self.finished(kept, notes)?);
        }
        let plan = plan(self.database, self.with_offers(facts), request)?;
        Ok(self.finished(plan, notes)?)
    }

    /// The plan that fixes what `doctor` found, made at this time (UTC).
    pub fn repair(&self, host: Facts, repairs: Vec<Repair>, moment: String) -> Plan {
        repair(self.database, host, repairs, moment)
    }

    /// The plan that removes a driver, toolkits and add-ons, regardless of how they were installed.
    ///
    /// # Errors
    ///
    /// If something named is not installed, or it is not known which files belong to it.
    pub fn removal(
        &self,
        facts: Facts,
        inventory: &Inventory,
        unwanted: &Unwanted,
        request: Request,
    ) -> Result<Plan, Conflict> {
        removal(self.database, facts, inventory, unwanted, request)
    }

    /// The plan that makes an installed toolkit the default one, with warnings of files that put
    /// another one before it.
    ///
    /// # Errors
    ///
    /// If it is not installed.
    pub fn switch(
        &self,
        facts: Facts,
        wanted: &Requirement<CudaVersion>,
        request: Request,
        files: &PathFiles,
    ) -> Result<Plan, Conflict> {
        switch(self.database, facts, wanted, request, files)
    }

    /// The facts with the repositories' offers, and the request restricted by the lock file.
    ///
    /// # Errors
    ///
    /// If the lock file is not for this host.
    pub fn prepared(
        &self,
        facts: Facts,
        request: Request,
    ) -> Result<(Facts, Request), PlanningError> {
        let request = self.locked(&facts, with_companions(self.database, request)?)?;
        Ok((self.with_offers(facts), request))
    }

    fn locked(&self, facts: &Facts, request: Request) -> Result<Request, LockError> {
        let Some(lock) = self.lock else {
            return Ok(request);
        };
        lock.is_for(facts)?;
        lock.request(self.database, request)
    }

    fn with_offers(&self, mut facts: Facts) -> Facts {
        match (self.bundle, self.repositories) {
            (Some(bundle), _) => {
                facts.offered = offered_by(bundle.offers(&facts), &facts, self.database)
            }
            (None, Some(system)) => {
                let locked = self
                    .lock
                    .map_or_else(Versions::new, |lock| lock.packages.clone());
                add_offers(system, &mut facts, self.database, &locked);
            }
            // The texts were made visible when the facts were collected.
            (None, None) => return facts,
        }
        facts.visible()
    }

    fn finished(&self, mut plan: Plan, mut notes: Vec<String>) -> Result<Planned, LockError> {
        if let Some(lock) = self.lock {
            plan = lock.hold(plan)?;
            notes.extend(lock.notes(&plan));
        }
        if let Some(mirrors) = self.mirrors {
            plan = plan.fetched_from(mirrors, self.database);
        }
        Ok(Planned { plan, notes })
    }

    fn in_bundle(&self, bundle: &Bundle, facts: &Facts) -> Result<InBundle, PlanningError> {
        let plans = bundle.plans()?;
        let fitting: Vec<_> = plans
            .iter()
            .filter(|(_, plan)| {
                plan.database.sha256 == self.database.sha256
                    && plan.is_for(facts, self.database, self.begun).is_ok()
            })
            .collect();
        match fitting.as_slice() {
            [(_, plan)] => return Ok(InBundle::Plan(Box::new(plan.clone()))),
            [] => {}
            several => {
                let described = several
                    .iter()
                    .map(|(name, plan)| format!("{name} ({})", summary(&plan.selection)));
                return Err(PlanningError::SeveralPlans(described.collect()));
            }
        }
        let alike: Vec<_> = plans
            .iter()
            .filter(|(_, plan)| SystemId::of(&plan.host) == SystemId::of(facts))
            .collect();
        let [(name, plan)] = alike.as_slice() else {
            return Ok(InBundle::Nothing);
        };
        // GPUs assumed in the bundle's plan stand for the host's real ones.
        let request = Request {
            assumed_gpus: Vec::new(),
            ..plan.request.clone()
        };
        Ok(InBundle::Request(Box::new(request), (*name).to_owned()))
    }
}

/// The request with a toolkit, for a plan without one whose Python packages bring CUDA and can be
/// extended. None if no toolkit fits.
pub(crate) fn with_toolkit(database: &Database, planned: &Plan) -> Option<Request> {
    let mut packages = planned.python.iter();
    let is_meant = planned.selection.cuda.is_none()
        && planned.request.driver.is_wanted()
        && planned.request.settings.containers.is_none()
        && packages.any(|package| package.extensions.is_some());
    let request = is_meant.then(|| Request {
        with_toolkit: true,
        cuda: Want::Best,
        cudnn: Want::Best,
        ..planned.request.clone()
    })?;
    let other = plan(database, planned.host.clone(), request.clone()).ok()?;
    other.selection.cuda.is_some().then_some(request)
}
