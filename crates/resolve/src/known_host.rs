//! A host for which several requests are tried: common intermediate results are computed once.

use super::driver::{
    Candidates, Known, asks_for_same_driver, candidates, distribution, own_drivers,
};
use super::target_gpu::target_gpus;
use super::{Conflict, NvSwitchHost, Request, Resolution, driver_file};
use gpusetup_database::compat::TargetGpu;
use gpusetup_database::compat::{Component, Database, Distribution, Published};
use gpusetup_host::Facts;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

/// A host, with a cache of intermediate results.
pub struct KnownHost<'a, 'f> {
    /// The compatibility database.
    pub database: &'a Database,
    /// The facts about the host.
    pub facts: &'f Facts,
    /// Its distribution in the database.
    pub distribution: Option<&'a Distribution>,
    /// What is published for its machine architecture.
    pub(crate) published: Published<'a>,
    /// The installed driver and those in its repositories.
    pub(crate) own_drivers: Vec<Known<'a>>,
    joined: OnceCell<Option<NvSwitchHost<'a>>>,
    served: RefCell<Vec<Rc<Served<'a>>>>,
    named: RefCell<Vec<Named<'a>>>,
    pub(super) chosen: RefCell<Vec<(Request, Rc<Resolution<'a>>)>>,
}

/// The components that a list of names selects.
type Named<'a> = (Vec<String>, Rc<[&'a Component]>);

/// The GPUs that must be supported, and the drivers that support them: the same for all requests
/// that ask for the same driver.
pub(crate) struct Served<'a> {
    /// The first such request.
    pub(crate) request: Request,
    /// The GPUs, or why one of them cannot be supported.
    pub(crate) gpus: Result<Vec<Rc<TargetGpu>>, Conflict>,
    drivers: OnceCell<Candidates<'a>>,
}

impl<'a, 'f> KnownHost<'a, 'f> {
    /// A host with an empty cache.
    pub fn new(database: &'a Database, facts: &'f Facts) -> Self {
        let distribution = distribution(database, facts);
        let published = database.published_for(&facts.machine.arch);
        Self {
            database,
            facts,
            distribution,
            published,
            own_drivers: own_drivers(database, published, facts, distribution),
            joined: OnceCell::new(),
            served: RefCell::default(),
            named: RefCell::default(),
            chosen: RefCell::default(),
        }
    }

    /// Its NVSwitches.
    pub fn joined(&self) -> Option<NvSwitchHost<'a>> {
        *self
            .joined
            .get_or_init(|| NvSwitchHost::of(self.database, self.facts))
    }

    /// The GPUs that a request is about, and the drivers that support them.
    pub(crate) fn served(&self, request: &Request) -> Rc<Served<'a>> {
        if let Some(before) = self
            .served
            .borrow()
            .iter()
            .find(|served| asks_for_same_driver(&served.request, request))
        {
            return Rc::clone(before);
        }
        let gpus = driver_file::fits(self, request).and_then(|()| target_gpus(self, request));
        let served = Rc::new(Served {
            request: request.clone(),
            gpus,
            drivers: OnceCell::new(),
        });
        self.served.borrow_mut().push(Rc::clone(&served));
        served
    }

    /// The components that a request names, without duplicates.
    ///
    /// # Errors
    ///
    /// If a name is unknown, or no toolkit is requested.
    pub(crate) fn named(&self, request: &Request) -> Result<Rc<[&'a Component]>, Conflict> {
        let known = self
            .named
            .borrow()
            .iter()
            .find(|(names, known)| {
                *names == request.components && (known.is_empty() || request.cuda.is_wanted())
            })
            .map(|(_, known)| Rc::clone(known));
        if let Some(known) = known {
            return Ok(known);
        }
        let named: Rc<[_]> = super::component::named(self.database, request)?.into();
        self.named
            .borrow_mut()
            .push((request.components.clone(), Rc::clone(&named)));
        Ok(named)
    }
}

impl<'a> Served<'a> {
    /// The drivers for these GPUs, if all of them can be supported.
    pub(crate) fn drivers(&self, host: &KnownHost<'a, '_>) -> &Candidates<'a> {
        self.drivers.get_or_init(|| {
            candidates(
                host,
                &self.request,
                self.gpus.as_deref().unwrap_or_default(),
            )
        })
    }
}
