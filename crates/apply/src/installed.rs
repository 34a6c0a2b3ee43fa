//! What gpusetup itself installed and did not remove since, by the journal.

use super::journal::{Event, Journal, JournalError};
use gpusetup_database::compat::AddOnId;
use gpusetup_database::version::{CudaVersion, DriverVersion};
use gpusetup_operation::Operation;
use gpusetup_plan::{Plan, StepId};
use gpusetup_system::System;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// What gpusetup installed here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnInstallations {
    /// The driver's version as planned; packages may be updated within its branch.
    pub driver: Option<DriverVersion>,
    /// The directories of toolkits.
    pub toolkits: BTreeSet<PathBuf>,
    /// Add-ons, each with the directory of its toolkit.
    pub add_ons: BTreeSet<(PathBuf, AddOnId)>,
}

impl OwnInstallations {
    /// Reads the journal, which only root may.
    ///
    /// # Errors
    ///
    /// If the journal cannot be read.
    pub fn of(on: &System) -> Result<Self, JournalError> {
        let journal = Journal::open(on)?;
        let plans: Vec<&Plan> = journal
            .events()
            .iter()
            .filter_map(|event| {
                if let Event::Run { plan, .. } = event {
                    Some(&**plan)
                } else {
                    None
                }
            })
            .collect();
        let mut own = Self::default();
        // Oldest first: what a later run removed is gone.
        for made in journal.all_made().into_iter().rev() {
            let Some(plan) = plans.get(made.run) else {
                continue;
            };
            let Some(step) = plan.steps.get(made.at.0) else {
                continue;
            };
            match (step.id, made.operation) {
                (StepId::RemoveCuda, Some(Operation::Remove(gone))) => own.forget(&gone.path),
                (StepId::RemoveDriver, _) => own.driver = None,
                (id, _) => own.add(plan, id),
            }
        }
        Ok(own)
    }

    fn add(&mut self, plan: &Plan, id: StepId) {
        let directory = |version: CudaVersion| plan.request.prefix.join(version.directory());
        let default = plan
            .selection
            .cuda
            .as_ref()
            .map(|cuda| directory(cuda.version));
        match id {
            StepId::InstallDriver => {
                self.driver = plan.selection.driver.as_ref().map(|driver| driver.version)
            }
            StepId::InstallCuda => self.toolkits.extend(default),
            StepId::InstallAdditionalCuda(series) => {
                self.toolkits.insert(directory(series));
            }
            StepId::InstallAddOn(add_on) => self
                .add_ons
                .extend(default.map(|toolkit| (toolkit, add_on))),
            StepId::InstallAdditionalAddOn(add_on, series) => {
                self.add_ons.insert((directory(series), add_on));
            }
            _ => {}
        }
    }

    fn forget(&mut self, toolkit: &std::path::Path) {
        self.toolkits.retain(|path| path != toolkit);
        self.add_ons.retain(|(path, _)| path != toolkit);
    }
}
