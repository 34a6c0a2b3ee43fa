//! Which g++ and which C library the headers of each CUDA release compile with: nvcc compiles and
//! links a program in roots of Debian 11, 12, 13 and sid with every g++ that is packaged there, and
//! the database must predict each result.
//!
//! NVIDIA's wheels on PyPI have nvcc only from CUDA 13 on. For older releases Debian's nvcc
//! compiles with the headers of the wheels (`tests/host/toolchain`); the table says which nvcc ran.
//! sid is the root with the newest glibc and g++; it moves, so no cell of it is in `tests/run`.

use crate::host::{Host, Kept, gpusetup, machine, script, text, timed};
use gpusetup::compat::{CudaRelease, Database};
use gpusetup::database::embedded;
use gpusetup::host::{Facts, Origin, Toolkit};
use gpusetup::ids::{Rule, RuleId};
use gpusetup::resolve::{Request, resolve};
use gpusetup::version::Want;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The roots, by the suite that they are of.
const SUITES: &[&str] = &["bullseye", "bookworm", "trixie", "sid"];

/// The packages of each suite, as `cargo xtask record distributions` read them.
const PACKAGES: &str = include_str!("../../xtask/recorded/debian.tsv");

/// The cells that `tests/run` has, by suite: every limit that roots with a fixed release can show,
/// and the neighbour that works. The limit of 13.0 and 13.1, glibc 2.42, takes sid.
const SAMPLE: &[(&str, &[(u16, &str)])] = &[
    ("bullseye", &[(10, "11.8.89"), (10, "13.4.92")]),
    (
        "bookworm",
        &[(11, "11.8.89"), (12, "11.8.89"), (12, "12.4.131")],
    ),
    (
        "trixie",
        &[(13, "12.4.131"), (14, "12.9.86"), (14, "13.0.88")],
    ),
];

/// The lists of what tests/host/toolchain can make.
const TOOLCHAINS: &str = include_str!("../host/toolchains.txt");

/// The release that Debian 11 has whole.
const BULLSEYES: &str = "11.2.152";

const TABLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/xtask/recorded/compile-matrix.tsv"
);

/// What includes the headers where CUDA's declarations and the C library's meet, and has a kernel.
const PROGRAM: &str = r#"
#include <cmath>
#include <cstdio>
#include <vector>
__global__ void roots(double *values) { values[threadIdx.x] = std::sqrt(values[threadIdx.x]); }
int main() {
    std::vector<double> values{1, 4, 9};
    double *there = nullptr;
    cudaMalloc(&there, values.size() * sizeof(double));
    cudaMemcpy(there, values.data(), values.size() * sizeof(double), cudaMemcpyHostToDevice);
    roots<<<1, 3>>>(there);
    cudaMemcpy(values.data(), there, values.size() * sizeof(double), cudaMemcpyDeviceToHost);
    printf("%f\n", values[2]);
}
"#;

/// What comes of a cell. A C library that breaks the headers counts first, as it does for gpusetup:
/// no other g++ helps.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Compiles,
    /// The headers do not compile with the C library.
    GlibcBreaks,
    /// They refuse the g++.
    GxxRefused,
    /// Something else, in its own words.
    Other(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Compiles => "compiles",
            Self::GlibcBreaks => "glibc",
            Self::GxxRefused => "g++",
            Self::Other(words) => words,
        })
    }
}

/// A compilation that was predicted and measured.
struct Cell {
    suite: String,
    glibc: String,
    gxx: u16,
    nvcc: String,
    compiler: String,
    predicted: Outcome,
    measured: Outcome,
}

impl Cell {
    const COLUMNS: &[&str] = &[
        "suite",
        "glibc",
        "g++",
        "headers of nvcc",
        "nvcc that ran",
        "result",
    ];

    fn row(&self) -> String {
        let Self {
            suite,
            glibc,
            gxx,
            nvcc,
            compiler,
            measured,
            ..
        } = self;
        format!("{suite}\t{glibc}\t{gxx}\t{nvcc}\t{compiler}\t{measured}")
    }

    fn is_wrong(&self) -> bool {
        self.predicted != self.measured
    }
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn eight_cells_are_as_predicted() {
    let of = |suite: &(&str, &[(u16, &str)])| {
        cells(
            suite.0,
            &Vec::from_iter(suite.1.iter().map(|(gxx, nvcc)| (*gxx, (*nvcc).to_owned()))),
        )
    };
    let cells: Vec<_> = SAMPLE.iter().flat_map(of).collect();
    assert_eq!(cells.len(), 8);
    are_as_predicted(&cells);
}

/// It writes the table, which `cargo xtask check` compares with the database.
/// `GPUSETUP_NVCC=13.5.37` compiles with the headers of that release only, and replaces its rows.
#[test]
#[ignore = "takes gigabytes and half an hour, and sid moves: docs/src/internals/tests.md says how to run it"]
fn every_cell_is_as_predicted() {
    let listed = TOOLCHAINS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(' ').next());
    let mut headers: Vec<_> = listed.chain([BULLSEYES]).map(str::to_owned).collect();
    headers.dedup();
    let only = std::env::var("GPUSETUP_NVCC").ok();
    let wanted: Vec<_> = headers
        .iter()
        .filter(|nvcc| only.as_ref().is_none_or(|only| only == *nvcc))
        .collect();
    let of = |suite: &&str| {
        let all = packaged(suite)
            .into_iter()
            .flat_map(|gxx| wanted.iter().map(move |nvcc| (gxx, (*nvcc).clone())));
        cells(suite, &Vec::from_iter(all))
    };
    let cells: Vec<_> = SUITES.iter().flat_map(of).collect();
    write(&cells, &headers);
    are_as_predicted(&cells);
}

/// The major versions of g++ that a suite has.
fn packaged(suite: &str) -> Vec<u16> {
    let prefix = format!("{suite}\tg++-");
    let packages = PACKAGES
        .lines()
        .filter_map(|line| line.strip_prefix(&prefix)?.split('\t').next()?.parse().ok());
    let majors = Vec::from_iter(packages);
    assert!(!majors.is_empty(), "{suite} has no g++");
    majors
}

/// Writes these cells into the table, by suite, g++ and release. Rows of other releases stay.
fn write(cells: &[Cell], headers: &[String]) {
    let before = fs::read_to_string(TABLE).unwrap_or_default();
    let release = |row: &str| row.split('\t').nth(3).unwrap_or_default().to_owned();
    let stays =
        |row: &&str| !row.starts_with('#') && cells.iter().all(|cell| cell.nvcc != release(row));
    let mut rows: Vec<_> = before
        .lines()
        .filter(stays)
        .map(str::to_owned)
        .chain(cells.iter().map(Cell::row))
        .collect();
    rows.sort_by_key(|row| {
        let suite = SUITES
            .iter()
            .position(|suite| row.split('\t').next() == Some(suite));
        let gxx = row
            .split('\t')
            .nth(2)
            .and_then(|gxx| gxx.parse::<u16>().ok());
        (
            suite,
            gxx,
            headers.iter().position(|nvcc| *nvcc == release(row)),
        )
    });
    let columns = Cell::COLUMNS.join("\t");
    let origin =
        "What nvcc compiled with the headers of each CUDA release: tests/as_root/compile_matrix.rs";
    fs::write(
        TABLE,
        format!("# {origin}\n# {columns}\n{}\n", rows.join("\n")),
    )
    .expect("the table is written");
}

/// Prints the table and fails if a prediction is wrong.
fn are_as_predicted(cells: &[Cell]) {
    println!("suite     glibc  g++  headers   nvcc that ran  predicted  measured");
    for cell in cells {
        let Cell {
            suite,
            glibc,
            gxx,
            nvcc,
            compiler,
            predicted,
            measured,
        } = cell;
        let mark = if cell.is_wrong() { "  WRONG" } else { "" };
        println!(
            "{suite:9} {glibc:5}  {gxx:3}  {nvcc:8}  {compiler:13}  {predicted:9}  {measured}{mark}"
        );
    }
    let wrong = cells.iter().filter(|cell| cell.is_wrong()).count();
    println!("{} cells, {wrong} wrong", cells.len());
    assert_eq!(wrong, 0);
}

/// Compiles with these g++ and headers in a root of the suite.
fn cells(suite: &str, wanted: &[(u16, String)]) -> Vec<Cell> {
    let database = embedded();
    let mut majors: Vec<_> = wanted.iter().map(|(gxx, _)| *gxx).collect();
    majors.sort_unstable();
    majors.dedup();
    let host = timed(&format!("g++ of {suite}"), || {
        with_compilers(suite, &majors)
    });
    let mut cells = Vec::new();
    for major in majors {
        host.ask(&format!(
            "ln -sf gcc-{major} /usr/bin/gcc; ln -sf g++-{major} /usr/bin/g++"
        ));
        let facts = facts(&host);
        assert_eq!(facts.gcc_major(), Some(major));
        for (gxx, nvcc) in wanted.iter().filter(|(gxx, _)| *gxx == major) {
            let toolchain = PathBuf::from(script("toolchain", &[nvcc]));
            cells.push(Cell {
                suite: suite.to_owned(),
                glibc: facts.glibc.clone().expect("a root has a C library"),
                gxx: *gxx,
                nvcc: nvcc.clone(),
                compiler: fs::read_to_string(toolchain.join("compiler"))
                    .expect("it says what it is")
                    .trim()
                    .to_owned(),
                predicted: predicted(&database, &facts, nvcc),
                measured: measured(&host, &toolchain),
            });
        }
    }
    cells
}

/// A host of the suite that has these g++. They are installed once, in a clone that is kept.
fn with_compilers(suite: &str, majors: &[u16]) -> Host {
    let base = PathBuf::from(script("base", &[suite]));
    let packages: Vec<_> = majors.iter().map(|major| format!("g++-{major}")).collect();
    let packages = packages.join(" ");
    let name = format!("compilers-{suite}-{}", packages.replace(' ', "-"));
    let install = |host: &Host| {
        // sid's lists expire, and some mirrors stand still for longer.
        host.ask("apt-get -qq -o Acquire::Check-Valid-Until=false update >&2");
        host.ask(&format!("apt-get -qq -y install --no-install-recommends {packages} libc6-dev >&2 && apt-get clean"));
    };
    let key = format!("{} {packages}", base.display());
    Kept::host(&name, &key, || Host::of(&name, &base), install)
        .clone_as(&format!("compiles-{suite}"))
}

/// What gpusetup finds on the host.
fn facts(host: &Host) -> Facts {
    let ran = gpusetup(["facts", "--json", "--root", text(&host.root())]).succeeds();
    serde_json::from_str(&ran.out).expect("facts are JSON")
}

/// What gpusetup says of this host if every release with these headers were on it, and its default
/// gcc the compiler.
fn predicted(database: &Database, facts: &Facts, nvcc: &str) -> Outcome {
    let releases = database
        .cuda
        .iter()
        .filter(|release| release.nvcc.as_deref() == Some(nvcc));
    let mut outcomes: Vec<_> = releases
        .map(|release| outcome(database, facts, release))
        .collect();
    outcomes.dedup();
    match outcomes.as_slice() {
        [outcome] => outcome.clone(),
        _ => Outcome::Other(format!("{outcomes:?}")),
    }
}

fn outcome(database: &Database, facts: &Facts, release: &CudaRelease) -> Outcome {
    let version = release.version;
    let installed = Toolkit {
        version,
        path: PathBuf::from(format!(
            "/usr/local/cuda-{}.{}",
            version.major, version.minor
        )),
        origin: Origin::Runfile,
        has_nvcc: true,
        components: None,
    };
    let facts = Facts {
        toolkits: vec![installed],
        ..facts.clone()
    };
    let request = Request {
        driver: Want::Nothing,
        cuda: Want::Meeting(
            version
                .to_string()
                .parse()
                .expect("a version is a requirement"),
        ),
        cudnn: Want::Nothing,
        ..Request::default_on("2026-11-23")
    };
    match resolve(database, &facts, &request) {
        Ok(resolution) => match resolution.cuda {
            Some(toolkit) if toolkit.side_gcc.is_some() => Outcome::GxxRefused,
            Some(_) => Outcome::Compiles,
            None => Outcome::Other("no toolkit".to_owned()),
        },
        Err(conflict) => match conflict.rule {
            Rule::Of(RuleId::CudaHostHeaders) => Outcome::GlibcBreaks,
            Rule::Of(RuleId::CudaHostCompiler) => Outcome::GxxRefused,
            _ => Outcome::Other(conflict.sentence),
        },
    }
}

/// What nvcc says. The wheels of 13.0.48 lack what it links with; there it only compiles.
fn measured(host: &Host, toolchain: &Path) -> Outcome {
    let toolkit = host.path("/opt/toolkit");
    let _ = fs::create_dir(&toolkit);
    fs::write(host.path("/root/t.cu"), PROGRAM).expect("the host takes a file");
    machine("mount", &["--bind", text(toolchain), text(&toolkit)]).succeeds();
    let links = toolchain.join("bin/crt/link.stub").exists();
    let outcome = match compile(host, "", links) {
        // The C library's declarations come after the check of the g++, and an older nvcc does not
        // get to them through the C++20 that is g++ 16's default.
        Outcome::GxxRefused => {
            match compile(host, "-D__NV_NO_HOST_COMPILER_CHECK=1 -std=c++14", links) {
                Outcome::GlibcBreaks => Outcome::GlibcBreaks,
                _ => Outcome::GxxRefused,
            }
        }
        outcome => outcome,
    };
    machine("umount", &[text(&toolkit)]).succeeds();
    outcome
}

/// A program that is linked must find the shared runtime, too.
fn compile(host: &Host, flags: &str, links: bool) -> Outcome {
    let (what, then) = match links {
        true => (
            "-o t",
            "LD_LIBRARY_PATH=/opt/toolkit/lib64 LD_BIND_NOW=1 LD_TRACE_LOADED_OBJECTS=1 ./t",
        ),
        false => ("-c -o t", "true"),
    };
    let nvcc =
        format!("/opt/toolkit/bin/nvcc -arch=sm_80 --cudart shared {flags} {what} t.cu 2>&1");
    let ran = host.sh(&format!("cd /root && rm -f t && {nvcc} && {then}"));
    let has = |words: &str| ran.out.contains(words);
    if ran.code == Some(0) && (!links || has("libcudart.so") && !has("not found")) {
        Outcome::Compiles
    } else if has("unsupported GNU version") {
        Outcome::GxxRefused
    } else if has("exception specification is incompatible") {
        Outcome::GlibcBreaks
    } else {
        let first = ran
            .out
            .lines()
            .find(|line| line.contains("error"))
            .or_else(|| ran.out.lines().next());
        Outcome::Other(first.unwrap_or("nothing was said").to_owned())
    }
}
