//! A host for which several requests are tried: common intermediate results are computed once.

use super::Conflict;
use super::Request;
use super::card::{Card, cards};
use super::driver::{Candidates, DriverWish, Known, candidates, distribution, known};
use crate::compat::{Database, Distribution};
use crate::host::Facts;
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
    /// Every driver that could be installed here, regardless of the request.
    pub drivers: Vec<Known<'a>>,
    served: RefCell<Vec<Rc<Served<'a>>>>,
}

/// The GPUs that must be supported, and the drivers that support them: the same for all requests with this driver wish.
pub struct Served<'a> {
    /// The part of the request about the driver.
    pub wish: DriverWish,
    /// The GPUs, or why one of them cannot be supported.
    pub cards: Result<Vec<Card>, Conflict>,
    drivers: OnceCell<Candidates<'a>>,
}

impl<'a, 'f> KnownHost<'a, 'f> {
    /// A host with an empty cache.
    pub fn new(database: &'a Database, facts: &'f Facts) -> Self {
        let distribution = distribution(database, facts);
        let drivers = known(database, facts, distribution);
        Self { database, facts, distribution, drivers, served: RefCell::default() }
    }

    /// The GPUs that a request is about, and the drivers that support them.
    pub fn served(&self, request: &Request) -> Rc<Served<'a>> {
        if let Some(before) = self.served.borrow().iter().find(|served| served.wish.is_of(request)) {
            return Rc::clone(before);
        }
        let wish = DriverWish::of(request);
        let cards = cards(self.database, self.facts, &self.drivers, &wish);
        let served = Rc::new(Served { wish, cards, drivers: OnceCell::new() });
        self.served.borrow_mut().push(Rc::clone(&served));
        served
    }
}

impl<'a> Served<'a> {
    /// The drivers for these GPUs, if all of them can be supported.
    pub fn drivers(&self, host: &KnownHost<'a, '_>) -> &Candidates<'a> {
        let cards = self.cards.as_deref().unwrap_or_default();
        self.drivers.get_or_init(|| candidates(host.database, &host.drivers, host.facts, &self.wish, cards))
    }
}
