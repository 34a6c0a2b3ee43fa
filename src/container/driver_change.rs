//! What would make an image run: another driver, if one can, or another image.

use super::host::Host;
use super::judgement::Judgement;
use super::support::newest_for;
use crate::compat::{Database, DriverBranch};
use crate::version::{CudaVersion, DriverVersion};

impl Judgement {
    /// Says what helps if the CUDA does not support a GPU, whichever driver there is.
    pub fn add_gpu_help(&mut self, host: &Host, database: &Database) {
        self.reasons.push(match newest_for(&host.gpus, database) {
            Some(newest) => format!("no driver changes that: use an image with CUDA {newest} or older"),
            None => "no driver changes that: no CUDA supports all of these GPUs".to_owned(),
        });
    }

    /// Says what helps if the driver does not support a GPU, does not run the CUDA, or is not what the image demands.
    pub fn add_driver_help(
        &mut self,
        cuda: Option<CudaVersion>,
        driver: Option<DriverVersion>,
        host: &Host,
        database: &Database,
    ) {
        let fitting = fitting(cuda, host, database);
        let branches = fitting.iter().map(|branch| branch.branch);
        let Some((oldest, newest)) = branches.clone().min().zip(branches.max()) else {
            let last = served(host, database).filter_map(|branch| branch.max_cuda).max();
            let last = last.map(|last| format!(": use an image with CUDA {last} or older")).unwrap_or_default();
            self.reasons.push(format!("no known driver that supports the GPUs runs it{last}"));
            return;
        };
        let Some(from) = &host.driver_from else {
            self.commands.push(command(oldest, newest, driver));
            return;
        };
        let is_too_new = driver.is_some_and(|driver| driver.branch > newest);
        let text = match (is_too_new, database.branch(oldest).is_some_and(|branch| runs_natively(branch, cuda))) {
            (true, _) => format!("it needs a driver of branch {newest} or older"),
            (false, true) => format!("a driver of branch {oldest} or newer runs it natively"),
            (false, false) => format!("it needs a driver of branch {oldest} or newer"),
        };
        self.reasons.push(format!("{text}: {from}"));
    }
}

/// The command that plans a driver of these branches.
fn command(oldest: u16, newest: u16, driver: Option<DriverVersion>) -> String {
    match driver.map(|driver| driver.branch) {
        None => "gpusetup plan --profile driver".to_owned(),
        Some(branch) if branch > newest => format!("gpusetup plan --profile driver --driver {newest}"),
        Some(branch) if branch < oldest => format!("gpusetup plan --profile driver --driver '>={oldest}'"),
        Some(_) => "gpusetup plan --profile driver --upgrade".to_owned(),
    }
}

/// The branches with known releases that support the GPUs.
fn served<'a>(host: &'a Host, database: &'a Database) -> impl Iterator<Item = &'a DriverBranch> {
    let is_known = |branch: u16| database.drivers.iter().any(|release| release.version.branch == branch);
    let serves = move |branch: &&DriverBranch| {
        is_known(branch.branch) && host.gpus.iter().all(|gpu| gpu.is_served_by(branch.branch))
    };
    database.driver_branches.iter().filter(serves)
}

/// Those that run the CUDA, too: natively if there is one, else by minor-version compatibility.
fn fitting<'a>(cuda: Option<CudaVersion>, host: &'a Host, database: &'a Database) -> Vec<&'a DriverBranch> {
    let natively: Vec<_> =
        served(host, database).filter(|branch| cuda.is_none() || runs_natively(branch, cuda)).collect();
    if !natively.is_empty() {
        return natively;
    }
    let minimum = cuda.and_then(|cuda| database.oldest_driver(cuda)).map(|driver| driver.branch);
    served(host, database).filter(|branch| minimum.is_some_and(|minimum| branch.branch >= minimum)).collect()
}

fn runs_natively(branch: &DriverBranch, cuda: Option<CudaVersion>) -> bool {
    cuda.and_then(|cuda| branch.is_native(cuda)).unwrap_or(false)
}
