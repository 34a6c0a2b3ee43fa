//! What people who work on gpusetup run: it makes releases, and checks facts against published
//! artifacts. Each source has a module with two parts: `record` reads the artifact itself (a
//! repository, a package index) and writes its facts to a small table in `xtask/recorded/`; `check`
//! compares that table with the database. So anyone can check without a network, and anyone who has
//! the artifact can record.
//!
//! ```text
//! cargo xtask check [--write]
//! cargo xtask facts refresh --from DIR|URL [--dry-run]
//! cargo xtask prose
//! cargo xtask budget [--list] [--release FILE]
//! cargo xtask dist --glibc 2.17
//! cargo xtask record open-kernel-modules ../open-gpu-kernel-modules
//! cargo xtask record mig ../mig-parted COMMIT
//! cargo xtask record distributions /var/lib/apt/lists 2026-11-22
//! cargo xtask record ubuntu lists 2026-11-30
//! cargo xtask record headers ../wheels
//! cargo xtask record error-codes ../wheels
//! cargo xtask record redistrib ../cuda-packages
//! cargo xtask record wheels [FRAMEWORK...]
//! cargo xtask record pins
//! cargo xtask record libraries
//! cargo xtask record addons ../cuda-packages [--lists ../lists]
//! cargo xtask record kernels [FRAMEWORK[==RELEASE]...]
//! cargo xtask record instances ../clones
//! cargo xtask record releases ../cuda-legacy ../get-nvidia-supported-gpus-json
//! ```

mod addons;
mod budget;
mod compile_matrix;
mod dist;
mod distributions;
mod error_codes;
mod errors;
mod facts;
mod fatbin;
mod headers;
mod indexes;
mod instances;
mod kernels;
mod libraries;
mod metadata;
mod mig;
mod open_kernel_modules;
mod pins;
mod prose;
mod pypi;
mod redistrib;
mod requirements;
mod table;
mod ubuntu;
mod virtual_gpus;
mod wheels;

use clap::{Parser, Subcommand};
use gpusetup_database::compat::Database;
use std::path::PathBuf;
use std::process::ExitCode;

/// The public index of Python packages.
const PYPI: &str = "https://pypi.org/simple";

/// An error message.
type Result<T> = std::result::Result<T, String>;

#[derive(Parser)]
#[command(about)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Compare the database with all recorded tables
    Check {
        /// Update the database's files from the tables
        #[arg(long)]
        write: bool,
    },
    /// Make a release: the program with its manual pages, as an archive and as a Debian package
    Dist(dist::Options),
    /// Add new facts to the database from what NVIDIA publishes
    Facts {
        #[command(subcommand)]
        task: facts::Task,
    },
    /// Find phrases and sentences that the project's texts should not have
    Prose,
    /// Compare what must not grow (code, closures, public items, help, dependencies) with
    /// xtask/budget.yaml
    Budget {
        /// Print what was counted, too
        #[arg(long)]
        list: bool,
        /// Measure this program, which `cargo build --release` built, and nothing else
        #[arg(long, value_name = "FILE")]
        release: Option<PathBuf>,
    },
    /// Read a source and write its table
    Record {
        #[command(subcommand)]
        source: Source,
    },
}

#[derive(Subcommand)]
enum Source {
    /// Record the GPUs listed in each release of NVIDIA's open kernel modules, and the virtual GPUs
    /// and errors named in the newest
    OpenKernelModules {
        /// A clone of github.com/NVIDIA/open-gpu-kernel-modules with its tags
        repository: PathBuf,
    },
    /// Record the limits for gcc, clang and glibc in the headers of CUDA releases
    Headers {
        /// A folder of unpacked wheels, named like `nvidia-cuda-nvcc-cu12-12.4.131`
        wheels: PathBuf,
    },
    /// Record the error numbers in the headers of CUDA, NVML, cuDNN, cuBLAS and NCCL
    ErrorCodes {
        /// A folder of unpacked wheels
        wheels: PathBuf,
    },
    /// Record the archives in NVIDIA's redistrib_X.Y.Z.json lists for CUDA and cuDNN
    Redistrib {
        /// A clone of a repository that has them in its history:
        /// github.com/ConnorBaker/cuda-packages
        repository: PathBuf,
    },
    /// Record the archives and wheels of add-on libraries: NCCL, TensorRT, cuTENSOR and others
    Addons {
        /// A clone of a repository with NVIDIA's redistrib_X.Y.Z.json lists:
        /// github.com/ConnorBaker/cuda-packages
        repository: PathBuf,
        /// A folder of further lists, from NVIDIA's servers or in their format, such as
        /// `cudss/redistrib_1.0.0.json`
        #[arg(long)]
        lists: Option<PathBuf>,
        /// The index to read, with the JSON API for simple pages
        #[arg(long, default_value = PYPI)]
        index: String,
    },
    /// Record the MIG profiles and configurations of NVIDIA's mig-parted
    Mig {
        /// A clone of github.com/NVIDIA/mig-parted
        clone: PathBuf,
        /// Its commit
        commit: String,
    },
    /// Record the compilers, C libraries and drivers in Debian's suites
    Distributions {
        /// apt's folder of package lists
        lists: PathBuf,
        /// The day when apt downloaded them
        day: String,
    },
    /// Record NVIDIA's drivers in Ubuntu's suites
    Ubuntu {
        /// A folder of package lists, named as apt names them
        lists: PathBuf,
        /// The day when they were downloaded
        day: String,
    },
    /// Record the oldest glibc that CUDA's and cuDNN's libraries work with
    Libraries {
        /// The index to read, with the JSON API for simple pages
        #[arg(long, default_value = PYPI)]
        index: String,
    },
    /// Record the requirements and build versions of framework wheels on PyPI
    Wheels {
        /// The index to read, with the JSON API for simple pages
        #[arg(long, default_value = PYPI)]
        index: String,
        /// Only these frameworks
        frameworks: Vec<String>,
    },
    /// Record the glibc and Python that the packages which frameworks pin have wheels for
    Pins {
        /// The index to read, with the JSON API for simple pages
        #[arg(long, default_value = PYPI)]
        index: String,
    },
    /// Record whether the packages that pip installs bring CUDA and cuDNN
    Requirements {
        /// The index to read, with the JSON API for simple pages
        #[arg(long, default_value = PYPI)]
        index: String,
    },
    /// Record the GPU targets of the fat binaries in framework wheels; downloads 80 GB
    Kernels {
        /// The index to read, with the JSON API for simple pages
        #[arg(long, default_value = PYPI)]
        index: String,
        /// Only these frameworks or releases, such as `torch==2.9`
        names: Vec<String>,
    },
    /// The instance types of cloud providers that have NVIDIA GPUs
    Instances {
        /// A folder of clones, each named like its repository: karpenter-provider-aws,
        /// k8s-test-infra, ec2instances.info, skypilot, cluster-toolkit, autoscaler,
        /// azure-compute-docs, physical-ai-toolchain, karpenter-provider-azure, inference-plane,
        /// skypilot-catalog, oci-hpc
        clones: PathBuf,
    },
    /// Record the lists of the releases that `facts refresh` is tested with
    Releases {
        /// A clone of github.com/nixos-cuda/cuda-legacy, which keeps NVIDIA's lists of archives
        archives: PathBuf,
        /// A clone of github.com/alex-tu-cc/get-nvidia-supported-gpus-json, which keeps drivers'
        /// lists of GPUs
        gpus: PathBuf,
    },
}

/// The result of comparing a source with the database.
struct Comparison {
    /// The facts that were compared: "GPUs of the open kernel modules' lists".
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
        Task::Dist(options) => dist::make(&options).map(|()| true)?,
        Task::Facts { task } => facts::run(task)?,
        Task::Budget { list, release } => {
            let over = match release {
                Some(program) => budget::check_release(&program, list)?,
                None => budget::check(list)?,
            };
            over.iter().for_each(|problem| println!("{problem}"));
            println!("budget: {} over", over.len());
            over.is_empty()
        }
        Task::Prose => {
            let problems = prose::check()?;
            problems.iter().for_each(|problem| println!("{problem}"));
            println!("prose: {} problems", problems.len());
            problems.is_empty()
        }
    };
    Ok(if right {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
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
        Source::Ubuntu { lists, day } => ubuntu::record(&lists, &day),
        Source::Headers { wheels } => headers::record(&wheels),
        Source::ErrorCodes { wheels } => error_codes::record(&wheels),
        Source::Mig { clone, commit } => mig::record(&clone, &commit),
        Source::Redistrib { repository } => redistrib::record(&repository),
        Source::Addons {
            repository,
            lists,
            index,
        } => addons::record(&repository, lists.as_deref(), &index),
        Source::Libraries { index } => libraries::record(&index),
        Source::Wheels { index, frameworks } => wheels::record(&database()?, &index, &frameworks),
        Source::Pins { index } => pins::record(&database()?, &index),
        Source::Requirements { index } => requirements::record(&database()?, &index),
        Source::Kernels { index, names } => kernels::record(&database()?, &index, &names),
        Source::Instances { clones } => instances::record(&clones),
        Source::Releases { archives, gpus } => facts::record(&archives, &gpus),
    }
}

/// Prints how the database differs from what was recorded; whether it does not.
fn check(write: bool) -> Result<bool> {
    let mut same = true;
    for Comparison {
        what,
        facts,
        differences,
    } in &comparisons(&database()?, write)?
    {
        println!("{what}: {facts} facts, {} differences", differences.len());
        for difference in differences {
            println!("  {difference}");
        }
        same &= differences.is_empty();
    }
    Ok(same)
}

/// Compares a database with all recorded tables.
fn comparisons(database: &Database, write: bool) -> Result<Vec<Comparison>> {
    let mut comparisons = vec![
        open_kernel_modules::check(database, write)?,
        virtual_gpus::check(database, write)?,
        mig::check(database)?,
        redistrib::check(database, write)?,
        addons::check(database)?,
        headers::check(database)?,
        error_codes::check()?,
        compile_matrix::check(database)?,
        distributions::check(database)?,
        ubuntu::check(database)?,
        wheels::check(database, &pins::pythons_of_pins()?)?,
        pins::check(database)?,
        requirements::check(database)?,
        libraries::check(database)?,
        kernels::check(database)?,
        instances::check(database)?,
    ];
    comparisons.extend(errors::check(database, write)?);
    Ok(comparisons)
}

/// The repository's root folder.
fn project() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
