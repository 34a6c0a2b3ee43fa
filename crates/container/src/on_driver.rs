//! Whether a driver runs the CUDA of an image, on the GPUs of a host: on each release that the
//! driver may be, and with each CUDA that the image may have.

use super::contents::Compat;
use super::host::{Context, HostDriver};
use super::judgement::ImageAnswer::{
    self, DoesNotRun, Runs, RunsWithForwardCompatibility, Unknown,
};
use super::judgement::Judgement;
use super::needs::Needs;
use gpusetup_database::version::{CudaVersion, DriverVersion};
use std::collections::BTreeSet;

/// Whether a host with this driver runs an image. Its newest CUDA decides, unless programs may
/// choose an older one.
pub(crate) fn on_driver(needs: &Needs, driver: &HostDriver, context: Context<'_>) -> Judgement {
    let case = Case {
        needs,
        driver,
        context,
        says_help: true,
    };
    let newest = case.with_one_of(needs.versions());
    if newest.answer != DoesNotRun {
        return newest;
    }
    let mut choices = needs
        .choices
        .iter()
        .map(|choice| (choice, case.with_one_of(&choice.versions)));
    let Some((choice, older)) = choices.find(|(_, older)| older.answer != DoesNotRun) else {
        return newest;
    };
    let without_help = Case {
        says_help: false,
        ..case
    }
    .with_one_of(needs.versions());
    let depends = format!(
        "whether its programs can use CUDA {} instead is not known",
        choice.text
    );
    let reasons = [
        without_help.reasons,
        vec![choice.said()],
        older.reasons,
        vec![depends],
    ]
    .concat();
    Judgement {
        commands: newest.commands,
        ..depending(reasons)
    }
}

/// For these reasons it is not known, each once.
fn depending(mut reasons: Vec<String>) -> Judgement {
    let mut seen = BTreeSet::new();
    reasons.retain(|reason| seen.insert(reason.clone()));
    Judgement {
        answer: Unknown,
        reasons,
        commands: Vec::new(),
    }
}

/// An image on a driver.
struct Case<'a> {
    needs: &'a Needs,
    driver: &'a HostDriver,
    context: Context<'a>,
    /// Whether the judgement says what would make it run.
    says_help: bool,
}

impl Case<'_> {
    /// With a CUDA that is one of these, the oldest first; with none if only its demands are known.
    fn with_one_of(&self, versions: &[CudaVersion]) -> Judgement {
        let all: Vec<_> = versions
            .iter()
            .map(|cuda| self.on_releases(Some(*cuda)))
            .collect();
        let (Some(oldest), Some(newest)) = (all.first(), all.last()) else {
            return self.on_releases(None);
        };
        if all
            .iter()
            .all(|judgement| judgement.answer == oldest.answer)
        {
            // What does not run the oldest runs none of them, and what runs the newest runs all.
            return if oldest.answer == DoesNotRun {
                oldest.clone()
            } else {
                newest.clone()
            };
        }
        let which =
            "the file does not tell which release of this CUDA it is, and that decides".to_owned();
        depending([vec![which], oldest.reasons.clone(), newest.reasons.clone()].concat())
    }

    /// On a driver that is one of several releases.
    fn on_releases(&self, cuda: Option<CudaVersion>) -> Judgement {
        let HostDriver { name, releases } = self.driver;
        let all: Vec<_> = releases
            .iter()
            .map(|release| self.judged(cuda, *release))
            .collect();
        let Some(newest) = all.last() else {
            return Judgement::unknown(format!("no release of driver branch {name} is known"));
        };
        let Some(last_other) = all
            .iter()
            .rposition(|judgement| judgement.answer != newest.answer)
        else {
            return newest.clone();
        };
        let (older, newer) = (releases[last_other], releases[last_other + 1]);
        let differ = format!(
            "the releases of branch {name} differ: name the whole version with --driver ({older} or {newer})"
        );
        let mut judgement = Judgement {
            commands: all[last_other].commands.clone(),
            ..Judgement::unknown(differ)
        };
        judgement.reasons.extend(
            all[last_other]
                .reasons
                .iter()
                .map(|reason| format!("{older}: {reason}")),
        );
        judgement.reasons.extend(
            newest
                .reasons
                .iter()
                .map(|reason| format!("{newer}: {reason}")),
        );
        judgement
    }

    fn judged(&self, cuda: Option<CudaVersion>, driver: DriverVersion) -> Judgement {
        let (context, mut reasons) = (self.context, Vec::new());
        let served = context.served(&self.driver.name, driver, &mut reasons);
        let compatible = cuda.map_or(Runs, |cuda| self.compatible(cuda, driver, &mut reasons));
        let targeted = match cuda {
            None => Runs,
            Some(cuda) if context.host.gpus.is_empty() => {
                context.targeted_unseen(cuda, driver, &mut reasons)
            }
            Some(cuda) => context.targeted(cuda, &mut reasons),
        };
        let permitted = context.permitted(self.needs, driver, &mut reasons);
        let answer = compatible.max(served).max(targeted).max(permitted);
        let mut judgement = Judgement {
            answer,
            reasons,
            commands: Vec::new(),
        };
        match answer {
            DoesNotRun if self.says_help && targeted == DoesNotRun => {
                judgement.add_gpu_help(context)
            }
            DoesNotRun if self.says_help => judgement.add_driver_help(cuda, Some(driver), context),
            _ => {}
        }
        if permitted == DoesNotRun && served.max(targeted) == Runs && compatible != DoesNotRun {
            let reason = "its CUDA would run; only the demand is not met, which -e NVIDIA_DISABLE_REQUIRE=1 turns off";
            judgement.reasons.push(reason.to_owned());
        }
        judgement
    }

    /// Whether the driver runs the CUDA, perhaps by the newer libraries in the image.
    fn compatible(
        &self,
        cuda: CudaVersion,
        driver: DriverVersion,
        reasons: &mut Vec<String>,
    ) -> ImageAnswer {
        let (name, series, database) = (&self.driver.name, cuda.series(), self.context.database);
        let is_native = database
            .branch(driver.branch)
            .and_then(|branch| branch.is_native(cuda));
        // A series has releases with several minimums; without its third number an image may be any
        // of them.
        let (says, answer) = match database.oldest_driver(cuda) {
            _ if is_native == Some(true) => {
                (format!("driver {name} runs CUDA {series} natively"), Runs)
            }
            None => (format!("CUDA {cuda} is not in the database"), Unknown),
            Some(minimum) if driver >= minimum => {
                let how = format!("by minor-version compatibility: the minimum is {minimum}");
                (format!("CUDA {series} runs on driver {name} {how}"), Runs)
            }
            Some(minimum) => (
                format!("CUDA {series} needs driver {minimum} or newer, and this one is {driver}"),
                DoesNotRun,
            ),
        };
        reasons.push(says);
        let Some(compat) = self.needs.compat.as_ref().filter(|_| answer == DoesNotRun) else {
            return answer;
        };
        let (says, answer) = self.forward(cuda, compat, driver);
        reasons.push(says);
        if answer == RunsWithForwardCompatibility && compat.is_found {
            reasons.push(LOADED_BY.to_owned());
        } else if answer == RunsWithForwardCompatibility {
            reasons.push(format!(
                "whether programs load {} instead of the host's library is not known: the container toolkit does not \
                 arrange that, and LD_LIBRARY_PATH may",
                compat.name
            ));
            return Unknown;
        }
        answer
    }

    /// Whether the libraries of a newer driver in the image run its CUDA on this driver. Without a
    /// driver in their name they are those of the image's CUDA.
    fn forward(
        &self,
        cuda: CudaVersion,
        compat: &Compat,
        driver: DriverVersion,
    ) -> (String, ImageAnswer) {
        let (name, branch, Context { host, database }) =
            (&compat.name, driver.branch, self.context);
        let has = compat.driver.map_or(Some(cuda.series()), |driver| {
            Some(database.branch(driver.branch)?.max_cuda?.series())
        });
        let row = database
            .forward_compatibility
            .iter()
            .find(|row| Some(row.cuda) == has);
        let is_listed = row.is_some_and(|row| row.base_branches.contains(&branch));
        // The image itself names this driver as one that it runs on.
        let has_demand = self
            .needs
            .demands
            .iter()
            .any(|(name, _)| name == "NVIDIA_REQUIRE_CUDA");
        let is_vouched =
            has_demand && self.context.demanded(self.needs, driver, &mut Vec::new()) == Runs;
        let other = host
            .gpus
            .iter()
            .find(|gpu| !gpu.data_center && gpu.line.as_deref() != Some("Quadro/RTX PRO"));
        if let Some(gpu) = other {
            let why = "in the image is for data-centre GPUs and some of RTX PRO, and";
            (format!("{name} {why} {} is none", gpu.name), DoesNotRun)
        } else if let Some(has) = has.filter(|has| *has < cuda.series()) {
            let why = "which is older than its CUDA";
            (
                format!("{name} in the image has the driver of CUDA {has}, {why}"),
                DoesNotRun,
            )
        } else if row.is_none() {
            (
                format!(
                    "which driver branches {name} in the image supports is not in the database"
                ),
                Unknown,
            )
        } else if !is_listed && is_vouched {
            let why = format!("for {name} in the image, and what the image demands permits it");
            (
                format!("NVIDIA's table does not list driver branch {branch} {why}"),
                Unknown,
            )
        } else if !is_listed {
            (
                format!("{name} in the image does not support driver branch {branch}"),
                DoesNotRun,
            )
        } else if host.gpus.is_empty() {
            let why = format!("driver branch {branch} on data-centre GPUs; name yours with --gpu");
            (format!("{name} in the image supports {why}"), Unknown)
        } else if let Some(gpu) = host.gpus.iter().find(|gpu| !gpu.data_center) {
            let why = format!(
                "some GPUs of RTX PRO, and whether {} is one is not known",
                gpu.name
            );
            (format!("{name} in the image supports {why}"), Unknown)
        } else {
            (
                format!("{name} in the image supports driver branch {branch}"),
                RunsWithForwardCompatibility,
            )
        }
    }
}

/// What puts the libraries in `/usr/local/cuda/compat` before those of the host (release notes of
/// the container toolkit: CDI has this since 1.17.5).
const LOADED_BY: &str = "programs load these libraries if the container toolkit (by CDI since 1.17.5) or LD_LIBRARY_PATH \
                         puts them before the host's";
