//! An answer about an image on a host, with its reasons: whether a driver and a CUDA support the
//! GPUs, and what would.

use super::host::Context;
use ImageAnswer::{DoesNotRun, Runs, Unknown};
use gpusetup_database::compat::{Database, DriverBranch, NotTargeted, TargetGpu, targets};
use gpusetup_database::version::{ComputeCapability, CudaVersion, DriverVersion};
use serde::Serialize;

/// Whether a host runs an image, the best answer first.
// The same for a condition of an image: whether it lets the image run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ImageAnswer {
    /// Nothing in the image is CUDA, as far as its configuration and the names of its files show.
    NeedsNoCuda,
    /// The driver runs it.
    Runs,
    /// The driver runs it with the newer libraries that are in the image (cuda-compat).
    RunsWithForwardCompatibility,
    /// That depends on what is not known.
    Unknown,
    /// It is refused, or does not work.
    DoesNotRun,
}

#[derive(Debug, Clone)]
pub(crate) struct Judgement {
    pub(crate) answer: ImageAnswer,
    /// The facts that decide, in sentences.
    pub(crate) reasons: Vec<String>,
    /// Commands that would make it run.
    pub(crate) commands: Vec<String>,
}

impl Judgement {
    pub(crate) fn new(answer: ImageAnswer, reason: impl Into<String>) -> Self {
        Self {
            answer,
            reasons: vec![reason.into()],
            commands: Vec::new(),
        }
    }

    pub(crate) fn unknown(reason: impl Into<String>) -> Self {
        Self::new(ImageAnswer::Unknown, reason)
    }

    pub(crate) fn command(mut self, command: String) -> Self {
        self.commands.push(command);
        self
    }

    /// Says what helps if the CUDA does not support a GPU, whichever driver there is.
    pub(crate) fn add_gpu_help(&mut self, context: Context<'_>) {
        self.reasons.push(match context.newest_cuda() {
            Some(newest) => {
                format!("no driver changes that: use an image with CUDA {newest} or older")
            }
            None => "no driver changes that: no CUDA supports all of these GPUs".to_owned(),
        });
    }

    /// Says what helps if the driver does not support a GPU, does not run the CUDA, or is not what
    /// the image demands.
    pub(crate) fn add_driver_help(
        &mut self,
        cuda: Option<CudaVersion>,
        driver: Option<DriverVersion>,
        context: Context<'_>,
    ) {
        let mut fitting = context.fitting_branches(cuda);
        fitting.sort_by_key(|branch| branch.branch);
        let (Some(first), Some(last)) = (fitting.first(), fitting.last()) else {
            let last = context
                .branches()
                .filter_map(|branch| branch.max_cuda)
                .max();
            let last = last
                .map(|last| format!(": use an image with CUDA {last} or older"))
                .unwrap_or_default();
            self.reasons.push(format!(
                "no known driver that supports the GPUs runs it{last}"
            ));
            return;
        };
        let (oldest, newest) = (first.branch, last.branch);
        let Some(from) = &context.host.driver_from else {
            self.commands.push(command(oldest, newest, driver));
            return;
        };
        let is_too_new = driver.is_some_and(|driver| driver.branch > newest);
        let text = match (
            is_too_new,
            cuda.and_then(|cuda| first.is_native(cuda)) == Some(true),
        ) {
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
        Some(branch) if branch > newest => {
            format!("gpusetup plan --profile driver --driver {newest}")
        }
        Some(branch) if branch < oldest => {
            format!("gpusetup plan --profile driver --driver '>={oldest}'")
        }
        Some(_) => "gpusetup plan --profile driver --upgrade".to_owned(),
    }
}

impl<'a> Context<'a> {
    /// Whether the driver supports the GPUs. The first that it does not support is named.
    pub(crate) fn served(
        self,
        name: &str,
        driver: DriverVersion,
        reasons: &mut Vec<String>,
    ) -> ImageAnswer {
        let mut gpus = self.host.gpus.iter();
        let Some(gpu) = gpus.find(|gpu| !gpu.is_served_by(driver.branch)) else {
            return Runs;
        };
        let branch = match (gpu.first_branch, gpu.last_branch) {
            (Some(first), _) if driver.branch < first => {
                format!("{first} is the first branch that does")
            }
            (_, Some(last)) => format!("{last} is the last branch that does"),
            _ => String::new(),
        };
        reasons.push(format!(
            "driver {name} does not support {}: {branch}",
            gpu.name
        ));
        DoesNotRun
    }

    /// Whether the CUDA has code for the GPUs that are known. The first that it does not run on is
    /// named.
    pub(crate) fn targeted(self, cuda: CudaVersion, reasons: &mut Vec<String>) -> ImageAnswer {
        let mut worst = Runs;
        for gpu in &self.host.gpus {
            let (met, why) = targeted(cuda, gpu, self.database);
            reasons.extend(why.filter(|why| !reasons.contains(why)));
            worst = worst.max(met);
            if met == DoesNotRun {
                break;
            }
        }
        worst
    }

    /// For GPUs that are not known: whether the CUDA has code for all that the driver supports.
    pub(crate) fn targeted_unseen(
        self,
        cuda: CudaVersion,
        driver: DriverVersion,
        reasons: &mut Vec<String>,
    ) -> ImageAnswer {
        let served: Vec<_> = self
            .database
            .architectures
            .iter()
            .filter(|a| a.is_served_by(driver.branch))
            .collect();
        let running: Vec<_> = served
            .iter()
            .copied()
            .filter(|a| target(cuda.series(), a.compute_capability, self.database).is_ok())
            .collect();
        let (Some(first), Some(last)) = (running.first(), running.last()) else {
            return Unknown;
        };
        if running.len() == served.len() {
            return Runs;
        }
        reasons.push(format!(
            "no GPU of this host is known, and CUDA {} supports compute capabilities {} to {} only: name the GPU with --gpu",
            cuda.series(),
            first.compute_capability,
            last.compute_capability
        ));
        Unknown
    }

    /// The newest CUDA series that has code for every GPU.
    fn newest_cuda(self) -> Option<CudaVersion> {
        let series = self
            .database
            .cuda
            .iter()
            .map(|release| release.version.series());
        series
            .filter(|series| {
                self.host.gpus.iter().all(|gpu| {
                    let capability = gpu.capability;
                    capability.is_some_and(|of| target(*series, of, self.database).is_ok())
                })
            })
            .max()
    }

    /// The branches with known releases that support the GPUs.
    fn branches(self) -> impl Iterator<Item = &'a DriverBranch> {
        self.database.driver_branches.iter().filter(move |known| {
            let mut gpus = self.host.gpus.iter();
            self.database.has_drivers_of(known.branch)
                && gpus.all(|gpu| gpu.is_served_by(known.branch))
        })
    }

    /// Those that run the CUDA, too: natively if there is one, else by minor-version compatibility.
    fn fitting_branches(self, cuda: Option<CudaVersion>) -> Vec<&'a DriverBranch> {
        let Some(cuda) = cuda else {
            return self.branches().collect();
        };
        let natively: Vec<_> = self
            .branches()
            .filter(|branch| branch.is_native(cuda) == Some(true))
            .collect();
        let minimum = self
            .database
            .oldest_driver(cuda)
            .filter(|_| natively.is_empty())
            .map(|driver| driver.branch);
        let newer = self
            .branches()
            .filter(|known| minimum.is_some_and(|minimum| known.branch >= minimum));
        natively.into_iter().chain(newer).collect()
    }
}

/// Whether a CUDA has code for a GPU, and what that depends on.
fn targeted(
    cuda: CudaVersion,
    gpu: &TargetGpu,
    database: &Database,
) -> (ImageAnswer, Option<String>) {
    let (name, series) = (&gpu.name, cuda.series());
    let Some(capability) = gpu.capability else {
        return (
            Unknown,
            Some(format!("the compute capability of {name} is not known")),
        );
    };
    if gpu.embedded.is_some() {
        let why = format!("{name} is part of a Jetson, whose images are made for its JetPack");
        return (Unknown, Some(why));
    }
    let architecture = database.architecture(capability);
    match target(series, capability, database) {
        Ok(None) => (Runs, None),
        Ok(Some(older)) => (
            Runs,
            Some(format!(
                "{name} ({capability}) runs code for {older}, which CUDA {series} has"
            )),
        ),
        Err(why) if why.is_dropped() => {
            let last = architecture.and_then(|a| a.last_cuda);
            let last = last
                .map(|last| format!(": CUDA {last} is the last that does"))
                .unwrap_or_default();
            (
                DoesNotRun,
                Some(format!(
                    "CUDA {series} does not support {name} (compute capability {capability}){last}"
                )),
            )
        }
        Err(_) => {
            let first = architecture.and_then(|a| a.first_cuda);
            let first = first
                .map(|first| format!(", CUDA {first} is the first with it"))
                .unwrap_or_default();
            let why = format!(
                "CUDA {series} has no machine code for {name} (compute capability {capability}){first}: programs run only \
                 if all their kernels and libraries have PTX, which is not known"
            );
            (Unknown, Some(why))
        }
    }
}

/// The older GPU of the same major number, if the CUDA has code only for that, whose machine code
/// this one runs.
fn target(
    series: CudaVersion,
    capability: ComputeCapability,
    database: &Database,
) -> Result<Option<ComputeCapability>, NotTargeted> {
    let release = database.newest_of_series(series);
    let listed = |of: ComputeCapability| targets(series, release, of, database.architecture(of));
    let Err(why) = listed(capability) else {
        return Ok(None);
    };
    let mut others = database
        .architectures
        .iter()
        .filter(|a| a.embedded.is_none())
        .map(|a| a.compute_capability);
    let older = others
        .rfind(|of| of.major == capability.major && *of < capability && listed(*of).is_ok())
        .filter(|_| !why.is_dropped());
    older.map(Some).ok_or(why)
}
