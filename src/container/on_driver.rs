//! Whether a driver runs the CUDA of an image, on the GPUs of a host: on each release that the driver may be, and with each CUDA that
//! the image may have.

use super::host::{Context, HostDriver};
use super::judgement::{ImageAnswer, Judgement, Met};
use super::needs::{Compat, Needs, OlderCuda};
use crate::compat::Card;
use crate::version::{CudaVersion, DriverVersion};
use std::collections::BTreeSet;

/// Whether a host with this driver runs an image. Its newest CUDA decides, unless programs may choose an older one.
pub fn on_driver(needs: &Needs, driver: &HostDriver, context: Context<'_>) -> Judgement {
    let on_releases = |cuda, says_help| {
        let name = &driver.name;
        let case = |driver: &DriverVersion| Case { needs, cuda, name, driver: *driver, context, says_help };
        of_releases(driver, driver.releases.iter().map(|release| case(release).judged()).collect())
    };
    let judged = |cuda: &[CudaVersion], says_help: bool| match cuda {
        [] => on_releases(None, says_help),
        all => of_cudas(all.iter().map(|cuda| on_releases(Some(*cuda), says_help)).collect()),
    };
    let newest = judged(&needs.cuda, true);
    if newest.answer != ImageAnswer::DoesNotRun {
        return newest;
    }
    let choices = needs.choices.iter().map(|choice| (choice, judged(&choice.cuda, true)));
    match { choices }.find(|(_, judgement)| judgement.answer != ImageAnswer::DoesNotRun) {
        Some((choice, older)) => {
            Judgement { commands: newest.commands, ..chosen(choice, older, judged(&needs.cuda, false)) }
        }
        None => newest,
    }
}

/// The judgement for an image whose newest CUDA does not run, and whose programs may choose this older one.
fn chosen(choice: &OlderCuda, older: Judgement, newest: Judgement) -> Judgement {
    let depends = format!("whether its programs can use CUDA {} instead is not known", choice.text);
    depending([newest.reasons, vec![choice.said()], older.reasons, vec![depends]].concat())
}

/// The judgement for a CUDA that is one of several, the oldest first.
fn of_cudas(all: Vec<Judgement>) -> Judgement {
    let (Some(oldest), Some(newest)) = (all.first(), all.last()) else {
        return Judgement::unknown("its CUDA is not known");
    };
    if all.iter().all(|judgement| judgement.answer == oldest.answer) {
        // What does not run the oldest runs none of them, and what runs the newest runs all.
        return if oldest.answer == ImageAnswer::DoesNotRun { oldest.clone() } else { newest.clone() };
    }
    let which = "the file does not tell which release of this CUDA it is, and that decides".to_owned();
    depending([vec![which], oldest.reasons.clone(), newest.reasons.clone()].concat())
}

/// For these reasons it is not known, each once.
fn depending(mut reasons: Vec<String>) -> Judgement {
    let mut seen = BTreeSet::new();
    reasons.retain(|reason| seen.insert(reason.clone()));
    Judgement { answer: ImageAnswer::Unknown, reasons, commands: Vec::new() }
}

/// The judgement for a driver that is one of several releases, the oldest first.
fn of_releases(driver: &HostDriver, all: Vec<Judgement>) -> Judgement {
    let Some(newest) = all.last() else {
        return Judgement::unknown(format!("no release of driver branch {} is known", driver.name));
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
    name: &'a str,
    driver: DriverVersion,
    context: Context<'a>,
    /// Whether the judgement says what would make it run.
    says_help: bool,
}

impl Case<'_> {
    fn judged(&self) -> Judgement {
        let (context, driver, mut reasons) = (self.context, self.driver, Vec::new());
        let served = context.served(self.name, driver, &mut reasons);
        let compatible = self.cuda.map_or(ImageAnswer::Runs, |cuda| self.compatible(cuda, &mut reasons));
        let targeted = match self.cuda {
            None => Met::Yes,
            Some(cuda) if context.host.gpus.is_empty() => context.targeted_unseen(cuda, driver, &mut reasons),
            Some(cuda) => context.targeted(cuda, &mut reasons),
        };
        let permitted = context.permitted(self.needs, driver, &mut reasons);
        let answer = compatible.max(served.max(targeted).max(permitted).into());
        let mut judgement = Judgement { answer, reasons, commands: Vec::new() };
        if answer == ImageAnswer::DoesNotRun && self.says_help && targeted == Met::No {
            judgement.add_gpu_help(context);
        } else if answer == ImageAnswer::DoesNotRun && self.says_help {
            judgement.add_driver_help(self.cuda, Some(driver), context);
        }
        let runs_otherwise = served.max(targeted) == Met::Yes && compatible != ImageAnswer::DoesNotRun;
        if permitted == Met::No && runs_otherwise {
            let reason = "its CUDA would run; only the demand is not met, which -e NVIDIA_DISABLE_REQUIRE=1 turns off";
            judgement.reasons.push(reason.to_owned());
        }
        judgement
    }

    /// Whether the driver runs the CUDA, perhaps by the newer libraries in the image.
    fn compatible(&self, cuda: CudaVersion, reasons: &mut Vec<String>) -> ImageAnswer {
        let (name, series) = (self.name, cuda.series());
        let branch = self.context.database.branch(self.driver.branch);
        if branch.and_then(|branch| branch.is_native(cuda)).unwrap_or(false) {
            reasons.push(format!("driver {name} runs CUDA {series} natively"));
            return ImageAnswer::Runs;
        }
        // A series has releases with several minimums; without its third number an image may be any of them.
        let Some(minimum) = self.context.database.oldest_driver(cuda) else {
            reasons.push(format!("CUDA {cuda} is not in the database"));
            return ImageAnswer::Unknown;
        };
        if self.driver >= minimum {
            let text =
                format!("CUDA {series} runs on driver {name} by minor-version compatibility: the minimum is {minimum}");
            reasons.push(text);
            return ImageAnswer::Runs;
        }
        reasons.push(format!("CUDA {series} needs driver {minimum} or newer, and this one is {}", self.driver));
        let Some(compat) = &self.needs.compat else { return ImageAnswer::DoesNotRun };
        let (why, answer) = self.forward(cuda, compat);
        reasons.push(why);
        if answer != ImageAnswer::RunsWithForwardCompatibility {
            return answer;
        }
        if compat.is_found {
            reasons.push(LOADED_BY.to_owned());
            return answer;
        }
        reasons.push(format!(
            "whether programs load {} instead of the host's library is not known: the container toolkit does not arrange \
             that, and LD_LIBRARY_PATH may",
            compat.name
        ));
        ImageAnswer::Unknown
    }

    /// Whether the image itself names this driver as one that it runs on.
    fn is_vouched(&self) -> bool {
        let has_demand = self.needs.demands.iter().any(|(name, _)| name == "NVIDIA_REQUIRE_CUDA");
        has_demand && self.context.demanded(self.needs, self.driver, &mut Vec::new()) == Met::Yes
    }

    /// Whether the libraries of a newer driver in the image run its CUDA on this driver. Without a driver in their name they
    /// are those of the image's CUDA.
    fn forward(&self, cuda: CudaVersion, compat: &Compat) -> (String, ImageAnswer) {
        let (name, branch, gpus) = (&compat.name, self.driver.branch, &self.context.host.gpus);
        let is_professional = |gpu: &Card| gpu.line.as_deref() == Some("Quadro/RTX PRO");
        if let Some(gpu) = gpus.iter().find(|gpu| !gpu.data_center && !is_professional(gpu)) {
            let why = "in the image is for data-centre GPUs and some of RTX PRO, and";
            return (format!("{name} {why} {} is none", gpu.name), ImageAnswer::DoesNotRun);
        }
        let has = match compat.driver {
            None => Some(cuda.series()),
            Some(driver) => {
                self.context.database.branch(driver.branch).and_then(|branch| branch.max_cuda?.series().into())
            }
        };
        if let Some(has) = has.filter(|has| *has < cuda.series()) {
            let why = format!("{name} in the image has the driver of CUDA {has}, which is older than its CUDA");
            return (why, ImageAnswer::DoesNotRun);
        }
        let Some(row) = self.context.database.forward_compatibility.iter().find(|row| Some(row.cuda) == has) else {
            let why = format!("which driver branches {name} in the image supports is not in the database");
            return (why, ImageAnswer::Unknown);
        };
        if !row.base_branches.contains(&branch) && self.is_vouched() {
            let why = format!(
                "NVIDIA's table does not list driver branch {branch} for {name} in the image, and what the image demands \
                 permits it"
            );
            return (why, ImageAnswer::Unknown);
        }
        if !row.base_branches.contains(&branch) {
            return (format!("{name} in the image does not support driver branch {branch}"), ImageAnswer::DoesNotRun);
        }
        let supports = format!("{name} in the image supports");
        if gpus.is_empty() {
            let why = format!("{supports} driver branch {branch} on data-centre GPUs; name yours with --gpu");
            return (why, ImageAnswer::Unknown);
        }
        if let Some(gpu) = gpus.iter().find(|gpu| !gpu.data_center) {
            let why = format!("{supports} some GPUs of RTX PRO, and whether {} is one is not known", gpu.name);
            return (why, ImageAnswer::Unknown);
        }
        (format!("{supports} driver branch {branch}"), ImageAnswer::RunsWithForwardCompatibility)
    }
}

/// What puts the libraries in `/usr/local/cuda/compat` before those of the host (release notes of the container toolkit: CDI has
/// this since 1.17.5).
const LOADED_BY: &str = "programs load these libraries if the container toolkit (by CDI since 1.17.5) or LD_LIBRARY_PATH \
                         puts them before the host's";
