//! Whether a driver and a CUDA support the GPUs of a host.

use super::host::Host;
use super::judgement::Met;
use crate::compat::{Architecture, Card, Database, NotTargeted, targets};
use crate::version::{ComputeCapability, CudaVersion, DriverVersion};

/// Whether a CUDA has code for a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Yes,
    /// For an older GPU of the same major number, whose machine code this one runs.
    Older(ComputeCapability),
    /// No: it had code for it up to this CUDA, if known.
    Dropped(Option<CudaVersion>),
    /// No: this CUDA is the first with code for it, if known.
    NotYet(Option<CudaVersion>),
}

/// Whether the driver supports the GPUs. The first that it does not support is named.
pub fn served(name: &str, driver: DriverVersion, host: &Host, reasons: &mut Vec<String>) -> Met {
    let Some(gpu) = host.gpus.iter().find(|gpu| !gpu.is_served_by(driver.branch)) else { return Met::Yes };
    let branch = match (gpu.first_branch, gpu.last_branch) {
        (Some(first), _) if driver.branch < first => format!("{first} is the first branch that does"),
        (_, Some(last)) => format!("{last} is the last branch that does"),
        _ => String::new(),
    };
    reasons.push(format!("driver {name} does not support {}: {branch}", gpu.name));
    Met::No
}

/// Whether the CUDA has code for the GPUs. The first that it does not run on is named.
pub fn targeted(
    cuda: CudaVersion,
    driver: DriverVersion,
    host: &Host,
    database: &Database,
    reasons: &mut Vec<String>,
) -> Met {
    if host.gpus.is_empty() {
        return targeted_unseen(cuda, driver, database, reasons);
    }
    targeted_seen(cuda, host, database, reasons)
}

/// For the GPUs that are known, whatever the driver.
pub fn targeted_seen(cuda: CudaVersion, host: &Host, database: &Database, reasons: &mut Vec<String>) -> Met {
    let mut result = Met::Yes;
    for gpu in &host.gpus {
        let (met, why) = of_gpu(cuda, gpu, database);
        reasons.extend(why.filter(|why| !reasons.contains(why)));
        result = result.max(met);
        if met == Met::No {
            break;
        }
    }
    result
}

fn of_gpu(cuda: CudaVersion, gpu: &Card, database: &Database) -> (Met, Option<String>) {
    let (name, series) = (&gpu.name, cuda.series());
    let Some(capability) = gpu.capability else {
        return (Met::Unknown, Some(format!("the compute capability of {name} is not known")));
    };
    if gpu.embedded.is_some() {
        let why = format!("{name} is part of a Jetson, whose images are made for its JetPack");
        return (Met::Unknown, Some(why));
    }
    match target(series, capability, database) {
        Target::Yes => (Met::Yes, None),
        Target::Older(older) => {
            (Met::Yes, Some(format!("{name} ({capability}) runs code for {older}, which CUDA {series} has")))
        }
        Target::Dropped(last) => {
            let last = last.map(|last| format!(": CUDA {last} is the last that does")).unwrap_or_default();
            (Met::No, Some(format!("CUDA {series} does not support {name} (compute capability {capability}){last}")))
        }
        Target::NotYet(first) => {
            let first = first.map(|first| format!(", CUDA {first} is the first with it")).unwrap_or_default();
            let why = format!(
                "CUDA {series} has no machine code for {name} (compute capability {capability}){first}: programs run only \
                 if all their kernels and libraries have PTX, which is not known"
            );
            (Met::Unknown, Some(why))
        }
    }
}

/// For GPUs that are not known: whether the CUDA has code for all that the driver supports.
fn targeted_unseen(cuda: CudaVersion, driver: DriverVersion, database: &Database, reasons: &mut Vec<String>) -> Met {
    let is_served = |a: &&Architecture| a.embedded.is_none() && a.is_served_by(driver.branch);
    let runs = |a: &&Architecture| runs(cuda.series(), a.compute_capability, database);
    let served: Vec<_> = database.architectures.iter().filter(is_served).collect();
    let running: Vec<_> = served.iter().copied().filter(runs).collect();
    let (Some(first), Some(last)) = (running.first(), running.last()) else { return Met::Unknown };
    if running.len() == served.len() {
        return Met::Yes;
    }
    reasons.push(format!(
        "no GPU of this host is known, and CUDA {} supports compute capabilities {} to {} only: name the GPU with --gpu",
        cuda.series(),
        first.compute_capability,
        last.compute_capability
    ));
    Met::Unknown
}

/// The newest CUDA series of the database that has code for every GPU.
pub fn newest_for(gpus: &[Card], database: &Database) -> Option<CudaVersion> {
    let series = database.cuda.iter().map(|release| release.version.series());
    let runs = |series: CudaVersion, gpu: &Card| gpu.capability.is_some_and(|c| runs(series, c, database));
    series.filter(|series| gpus.iter().all(|gpu| runs(*series, gpu))).max()
}

fn runs(series: CudaVersion, capability: ComputeCapability, database: &Database) -> bool {
    matches!(target(series, capability, database), Target::Yes | Target::Older(_))
}

fn target(series: CudaVersion, capability: ComputeCapability, database: &Database) -> Target {
    match listed(series, capability, database) {
        Target::NotYet(first) => {
            let is_older = |a: &&Architecture| {
                a.compute_capability.major == capability.major
                    && a.compute_capability < capability
                    && a.embedded.is_none()
                    && listed(series, a.compute_capability, database) == Target::Yes
            };
            let older = database.architectures.iter().rfind(is_older);
            older.map_or(Target::NotYet(first), |a| Target::Older(a.compute_capability))
        }
        other => other,
    }
}

fn listed(series: CudaVersion, capability: ComputeCapability, database: &Database) -> Target {
    let architecture = database.architecture(capability);
    match targets(series, database.newest_of_series(series), capability, architecture) {
        Ok(()) => Target::Yes,
        Err(NotTargeted::BelowLowest(_) | NotTargeted::AfterLast(_)) => {
            Target::Dropped(architecture.and_then(|a| a.last_cuda))
        }
        Err(NotTargeted::AboveHighest(_) | NotTargeted::BeforeFirst(_)) => {
            Target::NotYet(architecture.and_then(|a| a.first_cuda))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::embedded;

    #[test]
    fn code_for_an_older_gpu_runs_within_a_major_number_only() {
        let database = &embedded();
        for (cuda, capability, expected) in [
            ("12.9", "7.0", Target::Yes),
            ("13.0", "7.0", Target::Dropped("12.9".parse().ok())),
            ("11.8", "10.0", Target::NotYet("12.8".parse().ok())),
            ("11.4", "8.9", Target::Older("8.6".parse().expect("a capability"))),
            ("10.2", "8.0", Target::NotYet("11.0".parse().ok())),
        ] {
            let capability = capability.parse().expect("a capability");
            assert_eq!(target(cuda.parse().expect("a CUDA"), capability, database), expected, "{cuda}, {capability}");
        }
    }
}
