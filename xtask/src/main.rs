//! Facts from published artifacts. Each source has a module with two parts: `record` reads the artifact itself (a repository, a
//! package index) and writes what it says to a small table in `xtask/recorded/`; `check` compares that table with the database.
//! So anybody can check, without a network, and anybody who has the artifact can record.
//!
//! ```text
//! cargo xtask check [--write]
//! cargo xtask prose
//! cargo xtask record open-kernel-modules ../open-gpu-kernel-modules
//! cargo xtask record mig ../mig-parted/deployments/systemd/config-default.yaml COMMIT
//! cargo xtask record distributions /var/lib/apt/lists 2026-11-22
//! cargo xtask record headers ../wheels
//! cargo xtask record redistrib ../cuda-packages
//! cargo xtask record wheels [FRAMEWORK...]
//! cargo xtask record libraries
//! cargo xtask record addons ../cuda-packages [--lists ../lists]
//! cargo xtask record kernels [FRAMEWORK[==RELEASE]...]
//! cargo xtask record instances ../clones
//! ```

mod addons;
mod compile_matrix;
mod distributions;
mod errors;
mod fatbin;
mod headers;
mod instances;
mod kernels;
mod libraries;
mod metadata;
mod mig;
mod open_kernel_modules;
mod prose;
mod pypi;
mod redistrib;
mod table;
mod virtual_gpus;
mod wheels;

use clap::{Parser, Subcommand};
use gpusetup_database::compat::Database;
use std::path::PathBuf;
use std::process::ExitCode;

/// The public index of Python packages.
const PYPI: &str = "https://pypi.org/simple";

/// What goes wrong, in words.
type Result<T> = std::result::Result<T, String>;

#[derive(Parser)]
#[command(about)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Compare the database with everything recorded
    Check {
        /// Change the database's files to what was recorded
        #[arg(long)]
        write: bool,
    },
    /// Find phrases and sentences that the project's texts should not have
    Prose,
    /// Read a source and write its table
    Record {
        #[command(subcommand)]
        source: Source,
    },
}

#[derive(Subcommand)]
enum Source {
    /// The GPUs that each release of NVIDIA's open kernel modules lists, and the virtual GPUs and errors that the newest one names
    OpenKernelModules {
        /// A clone of github.com/NVIDIA/open-gpu-kernel-modules with its tags
        repository: PathBuf,
    },
    /// What the headers of CUDA releases say of gcc, clang and glibc
    Headers {
        /// A folder of unpacked wheels, named like `nvidia-cuda-nvcc-cu12-12.4.131`
        wheels: PathBuf,
    },
    /// The archives in NVIDIA's redistrib_X.Y.Z.json lists of CUDA and cuDNN
    Redistrib {
        /// A clone of a repository that keeps them, or kept them once: github.com/ConnorBaker/cuda-packages
        repository: PathBuf,
    },
    /// The archives and wheels of libraries that are installed beside a toolkit: NCCL, TensorRT, cuTENSOR and others
    Addons {
        /// A clone of a repository that keeps NVIDIA's redistrib_X.Y.Z.json lists: github.com/ConnorBaker/cuda-packages
        repository: PathBuf,
        /// A folder of further lists, from NVIDIA's servers or in their form, such as `cudss/redistrib_1.0.0.json`
        #[arg(long)]
        lists: Option<PathBuf>,
        /// The index to read, with the JSON API for simple pages
        #[arg(long, default_value = PYPI)]
        index: String,
    },
    /// The MIG profiles in the default configuration of NVIDIA's mig-parted
    Mig {
        /// deployments/systemd/config-default.yaml of github.com/NVIDIA/mig-parted
        configuration: PathBuf,
        /// The commit that it is of
        commit: String,
    },
    /// The compilers, C libraries and drivers in Debian's suites
    Distributions {
        /// The folder of apt's lists
        lists: PathBuf,
        /// The day on which apt read them
        day: String,
    },
    /// The oldest glibc that CUDA's and cuDNN's libraries load with
    Libraries {
        /// The index to read, with the JSON API for simple pages
        #[arg(long, default_value = PYPI)]
        index: String,
    },
    /// What the wheels of frameworks on PyPI require and are made with
    Wheels {
        /// The index to read, with the JSON API for simple pages
        #[arg(long, default_value = PYPI)]
        index: String,
        /// Only these frameworks
        frameworks: Vec<String>,
    },
    /// The GPUs that the fat binaries in the wheels of frameworks are for; all of them are 80 GB to download
    Kernels {
        /// The index to read, with the JSON API for simple pages
        #[arg(long, default_value = PYPI)]
        index: String,
        /// Only these frameworks, or releases of them: `torch==2.9`
        names: Vec<String>,
    },
    /// The instance types of cloud providers that have NVIDIA GPUs
    Instances {
        /// A folder of clones, each named like its repository: karpenter-provider-aws, k8s-test-infra, ec2instances.info, skypilot,
        /// cluster-toolkit, autoscaler, azure-compute-docs, physical-ai-toolchain, karpenter-provider-azure
        clones: PathBuf,
    },
}

/// The result of comparing a source with the database.
struct Comparison {
    /// What was compared: "GPUs of the open kernel modules' lists".
    what: &'static str,
    facts: usize,
    differences: Vec<String>,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(problem) => {
            eprintln!("xtask: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<ExitCode> {
    let right = match task {
        Task::Record { source } => record(source).map(|()| true)?,
        Task::Check { write } => check(write)?,
        Task::Prose => {
            let problems = prose::check()?;
            problems.iter().for_each(|problem| println!("{problem}"));
            println!("prose: {} problems", problems.len());
            problems.is_empty()
        }
    };
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn database() -> Result<Database> {
    gpusetup_database::compat::load(&project()).map_err(|e| e.to_string())
}

fn record(source: Source) -> Result<()> {
    match source {
        Source::OpenKernelModules { repository } => {
            let database = database()?;
            open_kernel_modules::record(&database, &repository)?;
            virtual_gpus::record(&database, &repository)?;
            errors::record(&database, &repository)
        }
        Source::Distributions { lists, day } => distributions::record(&lists, &day),
        Source::Headers { wheels } => headers::record(&wheels),
        Source::Mig { configuration, commit } => mig::record(&configuration, &commit),
        Source::Redistrib { repository } => redistrib::record(&repository),
        Source::Addons { repository, lists, index } => addons::record(&repository, lists.as_deref(), &index),
        Source::Libraries { index } => libraries::record(&index),
        Source::Wheels { index, frameworks } => wheels::record(&database()?, &index, &frameworks),
        Source::Kernels { index, names } => kernels::record(&database()?, &index, &names),
        Source::Instances { clones } => instances::record(&clones),
    }
}

/// Prints how the database differs from what was recorded; whether it does not.
fn check(write: bool) -> Result<bool> {
    let database = database()?;
    let mut comparisons = vec![
        open_kernel_modules::check(&database, write)?,
        virtual_gpus::check(&database, write)?,
        mig::check(&database)?,
        redistrib::check(&database, write)?,
        addons::check(&database)?,
        headers::check(&database)?,
        compile_matrix::check(&database)?,
        distributions::check(&database)?,
        wheels::check(&database)?,
        libraries::check(&database)?,
        kernels::check(&database)?,
        instances::check(&database)?,
    ];
    comparisons.extend(errors::check(&database, write)?);
    let mut same = true;
    for Comparison { what, facts, differences } in &comparisons {
        println!("{what}: {facts} facts, {} differences", differences.len());
        for difference in differences {
            println!("  {difference}");
        }
        same &= differences.is_empty();
    }
    Ok(same)
}

/// The project's folder.
fn project() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
