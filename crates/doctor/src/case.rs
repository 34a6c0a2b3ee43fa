//! What the checks judge: what was seen of a host, and what the database says of it.

use crate::Seen;
use crate::evidence::{LoaderCacheEntry, forward_compatible};
use gpusetup_causes::Remedy;
use gpusetup_database::compat::{
    Companion, CompanionId, Database, Distribution, Engine, JetPack, Platform, VersionRule,
};
use gpusetup_database::version::{CudaVersion, DriverVersion};
use gpusetup_host::Origin;
use gpusetup_resolve::{
    CompanionSource, NvSwitchHost, TargetGpu, distribution, known_gpu, own_platform, package_beside,
};
use std::path::Path;

/// What was seen of a host, beside the database.
pub(crate) struct Case<'a> {
    pub(crate) seen: &'a Seen,
    pub(crate) database: &'a Database,
    /// The database's entry for each GPU, in the order of the facts, or why there is none.
    pub(crate) cards: Vec<Result<TargetGpu, String>>,
}

impl<'a> Case<'a> {
    pub(crate) fn new(seen: &'a Seen, database: &'a Database) -> Self {
        Self {
            seen,
            database,
            cards: seen
                .facts
                .gpus
                .iter()
                .map(|gpu| known_gpu(database, gpu).map_err(|conflict| conflict.to_string()))
                .collect(),
        }
    }

    pub(crate) fn distribution(&self) -> Option<&'a Distribution> {
        distribution(self.database, &self.seen.facts)
    }

    /// The system's own way to a driver, if it has one.
    pub(crate) fn platform(&self) -> Option<&'a Platform> {
        own_platform(self.database, &self.seen.facts)
    }

    /// The JetPack of a Jetson, if it is known.
    pub(crate) fn jetpack(&self) -> Option<&'a JetPack> {
        let board = self.seen.facts.machine.board.as_ref()?;
        self.database.jetpack(board.l4t.as_deref()?)
    }

    /// The newest CUDA that the installed driver's branch supports natively.
    pub(crate) fn branch_cuda(&self) -> Option<CudaVersion> {
        let driver = self.seen.facts.driver.as_ref()?;
        self.database.branch(driver.version.branch)?.max_cuda
    }

    /// The oldest driver that runs programs of a CUDA series, `12.8`.
    pub(crate) fn oldest_driver_of_series(&self, series: CudaVersion) -> Option<DriverVersion> {
        let mut releases = self.database.cuda.iter().rev();
        let release = releases.find(|release| release.version.series() == series)?;
        Some(release.minimum_driver)
    }

    /// Whether a libcuda belongs to a compatibility package for this driver and these GPUs, which is
    /// meant to precede the driver's.
    pub(crate) fn is_forward_compatible(&self, entry: &LoaderCacheEntry) -> bool {
        let driver = self.seen.facts.driver.as_ref();
        driver.is_some_and(|driver| forward_compatible(self.database, driver, &self.cards, entry))
    }

    /// The engine with this id, or with this program: older evidence names `crio`.
    pub(crate) fn known_engine(&self, name: &str) -> Option<&'a Engine> {
        self.database.engines.iter().find(|engine| {
            let mut programs = engine.programs.iter().map(Path::new);
            engine.id.as_str() == name || programs.any(|program| program.ends_with(name))
        })
    }

    /// A companion that users ask for.
    pub(crate) fn requested_companion(&self, id: CompanionId) -> Option<&'a Companion> {
        self.database.companion(id).filter(|of| of.on_request)
    }

    /// The companions that the host's NVSwitches need.
    pub(crate) fn needed_companions(&self) -> impl Iterator<Item = &'a Companion> {
        let joined = NvSwitchHost::of(self.database, &self.seen.facts);
        joined
            .into_iter()
            .flat_map(|joined| joined.needs(self.database))
    }

    /// How to get a companion of this driver.
    pub(crate) fn companion_remedy(&self, of: &Companion, driver: DriverVersion) -> Remedy {
        let is_needed = self.needed_companions().any(|needed| needed.id == of.id);
        let known = is_needed.then(|| self.known_source(of)).flatten();
        known.unwrap_or_else(|| {
            gpusetup_causes::get_companion(of, driver, self.seen.facts.os.package_manager)
        })
    }

    /// How to get a companion that gpusetup or a repository of the host has.
    fn known_source(&self, of: &Companion) -> Option<Remedy> {
        let facts = &self.seen.facts;
        let driver = facts.driver.as_ref()?;
        match of.version {
            VersionRule::Own => {
                let host = (driver.version, facts.oldest_gpu());
                let supply =
                    CompanionSource::of(of, self.database, self.distribution(), facts, host)?;
                Some(supply.remedy(of, facts))
            }
            VersionRule::Driver | VersionRule::Branch if driver.origin != Origin::Runfile => {
                package_beside(self.distribution(), facts, of, driver.version)?;
                Some(gpusetup_causes::apply_companion(of))
            }
            VersionRule::Driver | VersionRule::Branch => None,
        }
    }

    pub(crate) fn fabric_companion(&self) -> Option<&'a Companion> {
        self.database.companion(CompanionId::FABRIC_MANAGER)
    }

    /// The title of Fabric Manager.
    pub(crate) fn fabric_title(&self) -> String {
        let companion = self.fabric_companion();
        companion.map_or_else(
            || CompanionId::FABRIC_MANAGER.to_string(),
            |c| c.title.clone(),
        )
    }

    /// The names of Fabric Manager's units for commands, `nvidia-fabricmanager`.
    pub(crate) fn fabric_units(&self) -> impl Iterator<Item = &'a str> {
        let units = self.fabric_companion().into_iter().flat_map(|c| &c.units);
        units.map(|unit| unit.strip_suffix(".service").unwrap_or(unit))
    }

    /// The commands that start Fabric Manager.
    pub(crate) fn fabric_start(&self) -> impl Iterator<Item = String> {
        self.fabric_units()
            .map(|unit| format!("sudo systemctl enable --now {unit}"))
    }
}
