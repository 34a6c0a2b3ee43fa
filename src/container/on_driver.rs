//! Whether a driver runs the CUDA of an image, on the GPUs of a host: on each release that the driver may be, and with each CUDA that
//! the image may have.

use super::demands::{is_met, permitted};
use super::driver_change::Obstacle;
use super::host::{Host, HostDriver, HostGpu};
use super::judgement::{ImageAnswer, Judgement};
use super::needs::{Compat, Needs, OlderCuda};
use super::requirement::Met;
use super::support::{served, targeted};
use crate::compat::{CudaRelease, Database, ForwardCompatibility};
use crate::version::{CudaVersion, DriverVersion};
use std::collections::BTreeSet;

/// Whether a host with this driver runs an image. Its newest CUDA decides, unless programs may choose an older one.
pub fn on_driver(needs: &Needs, driver: &HostDriver, host: &Host, database: &Database) -> Judgement {
    let judged = |cuda: &[CudaVersion], says_help: bool| {
        let cudas: Vec<_> = match cuda {
            [] => vec![None],
            all => all.iter().copied().map(Some).collect(),
        };
        let on_releases = |cuda| {
            let name = &driver.name;
            let case = |driver: &DriverVersion| Case { needs, cuda, name, driver: *driver, host, database, says_help };
            of_releases(driver, driver.releases.iter().map(|release| case(release).judged()).collect())
        };
        of_cudas(cudas.into_iter().map(on_releases).collect())
    };
    let newest = judged(&needs.cuda, true);
    if newest.answer != ImageAnswer::DoesNotRun {
        return newest;
    }
    let choices = needs.choices.iter().map(|choice| (choice, judged(&choice.cuda, true)));
    let mut running = choices.filter(|(_, judgement)| judgement.answer != ImageAnswer::DoesNotRun);
    match running.next() {
        Some((choice, older)) => {
            Judgement { commands: newest.commands, ..chosen(choice, older, judged(&needs.cuda, false)) }
        }
        None => newest,
    }
}

/// The judgement for an image whose newest CUDA does not run, and whose programs may choose this older one.
fn chosen(choice: &OlderCuda, older: Judgement, newest: Judgement) -> Judgement {
    let mut reasons = newest.reasons;
    let depends = format!("whether its programs can use CUDA {} instead is not known", choice.text);
    for reason in [choice.said()].into_iter().chain(older.reasons).chain([depends]) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    Judgement { answer: ImageAnswer::Unknown, reasons, commands: Vec::new() }
}

/// The judgement for a CUDA that is one of several, the oldest first.
fn of_cudas(all: Vec<Judgement>) -> Judgement {
    let (Some(oldest), Some(newest)) = (all.first(), all.last()) else {
        return Judgement::new(ImageAnswer::Unknown, "its CUDA is not known".to_owned());
    };
    if all.iter().all(|judgement| judgement.answer == oldest.answer) {
        // What does not run the oldest runs none of them, and what runs the newest runs all.
        return if oldest.answer == ImageAnswer::DoesNotRun { oldest.clone() } else { newest.clone() };
    }
    let mut seen = BTreeSet::new();
    let which = "the file does not tell which release of this CUDA it is, and that decides".to_owned();
    let reasons = [which].into_iter().chain(oldest.reasons.clone()).chain(newest.reasons.clone());
    let reasons = reasons.filter(|reason| seen.insert(reason.clone())).collect();
    Judgement { answer: ImageAnswer::Unknown, reasons, commands: Vec::new() }
}

/// The judgement for a driver that is one of several releases, the oldest first.
fn of_releases(driver: &HostDriver, all: Vec<Judgement>) -> Judgement {
    let Some(newest) = all.last() else {
        return Judgement::new(ImageAnswer::Unknown, format!("no release of driver branch {} is known", driver.name));
    };
    let Some(last_other) = all.iter().rposition(|judgement| judgement.answer != newest.answer) else {
        return newest.clone();
    };
    let (older, newer) = (driver.releases[last_other], driver.releases[last_other + 1]);
    let branch = &driver.name;
    let mut reasons = vec![format!(
        "the releases of branch {branch} differ: name the whole version with --driver ({older} or {newer})"
    )];
    reasons.extend(all[last_other].reasons.iter().map(|reason| format!("{older}: {reason}")));
    reasons.extend(newest.reasons.iter().map(|reason| format!("{newer}: {reason}")));
    Judgement { answer: ImageAnswer::Unknown, reasons, commands: all[last_other].commands.clone() }
}

/// An image with one CUDA, on one release of the driver.
struct Case<'a> {
    needs: &'a Needs,
    /// None if only its demands are known.
    cuda: Option<CudaVersion>,
    /// The driver as it was named.
    name: &'a str,
    driver: DriverVersion,
    host: &'a Host,
    database: &'a Database,
    /// Whether the judgement says what would make it run.
    says_help: bool,
}

/// Whether the driver runs the CUDA in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compatible {
    Yes,
    /// By the newer libraries in the image.
    Forward,
    No,
    Unknown,
}

impl Case<'_> {
    fn judged(&self) -> Judgement {
        let mut reasons = Vec::new();
        let served = served(self.name, self.driver, self.host, &mut reasons);
        let compatible = self.cuda.map_or(Compatible::Yes, |cuda| self.compatible(cuda, &mut reasons));
        let targeted =
            self.cuda.map_or(Met::Yes, |cuda| targeted(cuda, self.driver, self.host, self.database, &mut reasons));
        let permitted = permitted(self.needs, self.driver, self.host, self.database, &mut reasons);
        let met = [served, targeted, permitted];
        let answer = match compatible {
            Compatible::No => ImageAnswer::DoesNotRun,
            _ if met.contains(&Met::No) => ImageAnswer::DoesNotRun,
            Compatible::Unknown => ImageAnswer::Unknown,
            _ if met.contains(&Met::Unknown) => ImageAnswer::Unknown,
            Compatible::Forward => ImageAnswer::RunsWithForwardCompatibility,
            Compatible::Yes => ImageAnswer::Runs,
        };
        let mut judgement = Judgement { answer, reasons, commands: Vec::new() };
        if answer == ImageAnswer::DoesNotRun && self.says_help {
            let obstacle = if targeted == Met::No { Obstacle::Gpu } else { Obstacle::Driver };
            judgement.add_help(obstacle, self.cuda, Some(self.driver), self.host, self.database);
        }
        let runs_otherwise = served == Met::Yes && targeted == Met::Yes && compatible != Compatible::No;
        if permitted == Met::No && runs_otherwise {
            let reason = "its CUDA would run; only the demand is not met, which -e NVIDIA_DISABLE_REQUIRE=1 turns off";
            judgement.reasons.push(reason.to_owned());
        }
        judgement
    }

    fn compatible(&self, cuda: CudaVersion, reasons: &mut Vec<String>) -> Compatible {
        let (name, series) = (self.name, cuda.series());
        let native = self.database.branch(self.driver.branch).and_then(|branch| branch.max_cuda);
        if native.is_some_and(|native| series <= native.series()) {
            reasons.push(format!("driver {name} runs CUDA {series} natively"));
            return Compatible::Yes;
        }
        // A series has releases with several minimums; without its third number an image may be any of them.
        let of_series = |release: &&CudaRelease| release.version.series() == series;
        let release = self.database.cuda(cuda).or_else(|| self.database.cuda.iter().find(of_series));
        let Some(minimum) = release.map(|release| release.minimum_driver) else {
            reasons.push(format!("CUDA {cuda} is not in the database"));
            return Compatible::Unknown;
        };
        if self.driver >= minimum {
            let text =
                format!("CUDA {series} runs on driver {name} by minor-version compatibility: the minimum is {minimum}");
            reasons.push(text);
            return Compatible::Yes;
        }
        reasons.push(format!("CUDA {series} needs driver {minimum} or newer, and this one is {}", self.driver));
        self.needs.compat.as_ref().map_or(Compatible::No, |compat| self.loaded(cuda, compat, reasons))
    }

    /// The same, with what makes programs load these libraries instead of the host's.
    fn loaded(&self, cuda: CudaVersion, compat: &Compat, reasons: &mut Vec<String>) -> Compatible {
        let result = self.forward(cuda, compat, reasons);
        match (result, compat.is_found) {
            (Compatible::Forward, true) => {
                reasons.push(LOADED_BY.to_owned());
                Compatible::Forward
            }
            (Compatible::Forward, false) => {
                reasons.push(format!(
                    "whether programs load {} instead of the host's library is not known: the container toolkit does not \
                     arrange that, and LD_LIBRARY_PATH may",
                    compat.name
                ));
                Compatible::Unknown
            }
            (other, _) => other,
        }
    }

    /// Whether the image itself names this driver as one that it runs on.
    fn is_vouched(&self) -> bool {
        let has_demand = self.needs.demands.iter().any(|(name, _)| name == "NVIDIA_REQUIRE_CUDA");
        has_demand && is_met(self.needs, self.driver, self.host, self.database)
    }

    /// Whether the libraries of a newer driver in the image run its CUDA on this driver.
    fn forward(&self, cuda: CudaVersion, compat: &Compat, reasons: &mut Vec<String>) -> Compatible {
        let (name, branch) = (&compat.name, self.driver.branch);
        let is_other = |gpu: &&HostGpu| !gpu.data_center && !gpu.is_professional();
        if let Some(gpu) = self.host.gpus.iter().find(is_other) {
            let why =
                format!("{name} in the image is for data-centre GPUs and some of RTX PRO, and {} is none", gpu.name);
            reasons.push(why);
            return Compatible::No;
        }
        let (text, result) = match package(cuda, compat, self.database) {
            Package::Older(has) => (
                format!("{name} in the image has the driver of CUDA {has}, which is older than its CUDA"),
                Compatible::No,
            ),
            Package::Unknown => (
                format!("which driver branches {name} in the image supports is not in the database"),
                Compatible::Unknown,
            ),
            Package::Known(row) if !row.base_branches.contains(&branch) && self.is_vouched() => (
                format!(
                    "NVIDIA's table does not list driver branch {branch} for {name} in the image, and what the image demands \
                     permits it"
                ),
                Compatible::Unknown,
            ),
            Package::Known(row) if !row.base_branches.contains(&branch) => {
                (format!("{name} in the image does not support driver branch {branch}"), Compatible::No)
            }
            Package::Known(_) if self.host.gpus.is_empty() => {
                let text = format!(
                    "{name} in the image supports driver branch {branch} on data-centre GPUs; name yours with --gpu"
                );
                (text, Compatible::Unknown)
            }
            Package::Known(_) => match self.host.gpus.iter().find(|gpu| !gpu.data_center) {
                Some(gpu) => {
                    let why = format!(
                        "{name} in the image supports some GPUs of RTX PRO, and whether {} is one is not known",
                        gpu.name
                    );
                    (why, Compatible::Unknown)
                }
                None => (format!("{name} in the image supports driver branch {branch}"), Compatible::Forward),
            },
        };
        reasons.push(text);
        result
    }
}

/// What puts the libraries in `/usr/local/cuda/compat` before those of the host (release notes of the container toolkit: CDI has
/// this since 1.17.5).
const LOADED_BY: &str = "programs load these libraries if the container toolkit (by CDI since 1.17.5) or LD_LIBRARY_PATH \
                         puts them before the host's";

/// What is known of the libraries in an image.
enum Package<'a> {
    /// This.
    Known(&'a ForwardCompatibility),
    /// They are of an older CUDA than the image's.
    Older(CudaVersion),
    /// Nothing.
    Unknown,
}

/// By the driver in their name. Without it they are those of the image's CUDA.
fn package<'a>(cuda: CudaVersion, compat: &Compat, database: &'a Database) -> Package<'a> {
    let has = match compat.driver {
        None => Some(cuda.series()),
        Some(driver) => database.branch(driver.branch).and_then(|branch| branch.max_cuda).map(CudaVersion::series),
    };
    match has {
        Some(has) if has < cuda.series() => Package::Older(has),
        Some(has) => {
            let row = database.forward_compatibility.iter().find(|row| row.cuda == has);
            row.map_or(Package::Unknown, Package::Known)
        }
        None => Package::Unknown,
    }
}
