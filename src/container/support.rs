//! Whether a driver and a CUDA support the GPUs of a host.

use super::host::{Host, HostGpu};
use super::requirement::Met;
use crate::compat::{Architecture, CudaRelease, Database};
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
    match host.gpus.is_empty() {
        true => targeted_unseen(cuda, driver, database, reasons),
        false => targeted_seen(cuda, host, database, reasons),
    }
}

/// For the GPUs that are known, whatever the driver.
pub fn targeted_seen(cuda: CudaVersion, host: &Host, database: &Database, reasons: &mut Vec<String>) -> Met {
    let mut result = Met::Yes;
    for gpu in &host.gpus {
        match of_gpu(cuda, gpu, database) {
            (Met::No, why) => {
                reasons.extend(why);
                return Met::No;
            }
            (Met::Unknown, why) => {
                reasons.extend(why.filter(|why| !reasons.contains(why)));
                result = Met::Unknown;
            }
            (Met::Yes, why) => reasons.extend(why.filter(|why| !reasons.contains(why))),
        }
    }
    result
}

fn of_gpu(cuda: CudaVersion, gpu: &HostGpu, database: &Database) -> (Met, Option<String>) {
    let (name, series) = (&gpu.name, cuda.series());
    let Some(capability) = gpu.capability else {
        return (Met::Unknown, Some(format!("the compute capability of {name} is not known")));
    };
    if gpu.embedded {
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
    let is_served = |a: &&Architecture| {
        a.embedded.is_none()
            && a.first_driver_branch.is_none_or(|first| driver.branch >= first)
            && a.last_driver_branch.is_none_or(|last| driver.branch <= last)
    };
    let runs = |a: &&Architecture| {
        matches!(target(cuda.series(), a.compute_capability, database), Target::Yes | Target::Older(_))
    };
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
pub fn newest_for(gpus: &[HostGpu], database: &Database) -> Option<CudaVersion> {
    let runs = |series: CudaVersion, gpu: &HostGpu| {
        gpu.capability.is_some_and(|c| matches!(target(series, c, database), Target::Yes | Target::Older(_)))
    };
    let series = database.cuda.iter().map(|release| release.version.series());
    series.filter(|series| gpus.iter().all(|gpu| runs(*series, gpu))).max()
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

/// By the database's record of the compute capability and of the CUDA release.
fn listed(series: CudaVersion, capability: ComputeCapability, database: &Database) -> Target {
    let architecture = database.architecture(capability);
    let first = architecture.and_then(|a| a.first_cuda);
    let last = architecture.and_then(|a| a.last_cuda);
    let of_series = |release: &&CudaRelease| release.version.series() == series;
    let release = database.cuda.iter().find(of_series);
    let is_below = release.is_some_and(|release| capability < release.lowest_capability);
    let is_above = release.is_some_and(|release| capability > release.highest_capability);
    match () {
        () if is_below || last.is_some_and(|last| series > last.series()) => Target::Dropped(last),
        () if is_above || first.is_some_and(|first| series < first.series()) => Target::NotYet(first),
        () => Target::Yes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::embedded;

    #[test]
    fn code_for_an_older_gpu_runs_within_a_major_number_only() {
        let database = &embedded();
        let of = |cuda: &str, capability: &str| {
            target(cuda.parse().expect("a CUDA"), capability.parse().expect("a capability"), database)
        };
        let version = |text: &str| text.parse().ok();
        assert_eq!(of("12.9", "7.0"), Target::Yes);
        assert_eq!(of("13.0", "7.0"), Target::Dropped(version("12.9")));
        assert_eq!(of("11.8", "10.0"), Target::NotYet(version("12.8")));
        assert_eq!(of("11.4", "8.9"), Target::Older("8.6".parse().expect("a capability")));
        assert_eq!(of("10.2", "8.0"), Target::NotYet(version("11.0")));
    }
}
