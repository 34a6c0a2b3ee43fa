//! `--for`, compared with what the wheels on PyPI say: `xtask/recorded/wheels.tsv` is a second
//! opinion, which the database's own files do not touch.

use crate::common::{Ran, Tree, run, sampled, warnings};
use gpusetup::resolve::PythonPackage;
use gpusetup::version::meets_specifier;
use std::collections::BTreeMap;
use std::path::Path;

fn plan(host: &Tree, gpu: &str, arguments: &[&str]) -> Ran {
    host.run(&[&["plan", "--json", "--gpu", gpu], arguments].concat())
}

/// The same with a toolkit, which frameworks that bring their own CUDA do not need.
fn with_toolkit(host: &Tree, gpu: &str, arguments: &[&str]) -> Ran {
    plan(host, gpu, &[arguments, &["--profile", "compute"]].concat())
}

/// The series of CUDA and the version of cuDNN that a plan chooses.
fn chosen(ran: &Ran) -> (String, String) {
    assert_eq!(ran.code, 0, "{}", ran.err);
    let plan = ran.json();
    let version = |layer: &str| {
        plan["selection"][layer]["version"]
            .as_str()
            .unwrap_or("none")
            .to_owned()
    };
    let cuda = version("cuda");
    (
        cuda.rsplit_once('.')
            .map_or(cuda.clone(), |(series, _)| series.to_owned()),
        version("cudnn"),
    )
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').filter_map(|n| n.parse().ok()).collect()
}

/// Whether a version is within what a wheel requires: `>=12.5.82, <13`, or `=9.10.2.21`, for which
/// a newer patch release of the same minor version does as well. As many numbers count as `depth`
/// says.
fn within(version: &str, bounds: &str, depth: usize) -> bool {
    let cut = |version: &str| numbers(version).into_iter().take(depth).collect::<Vec<_>>();
    let have = cut(version);
    let exact = |pin: &str| have[..2] == cut(pin)[..2] && have >= cut(pin);
    bounds.split(", ").all(|bound| {
        match (
            bound.strip_prefix('='),
            bound.strip_prefix(">="),
            bound.strip_prefix('<'),
        ) {
            (Some(pin), ..) => exact(pin),
            (_, Some(from), _) => have >= cut(from),
            (.., Some(end)) => have < cut(end),
            _ => panic!("{bound}"),
        }
    })
}

/// Their wheels have what they use of CUDA.
const BRING_CUDA: &[&str] = &["triton==", "xgboost=="];

/// Which CUDA they need is decided by another framework.
const EXTENSIONS: &[&str] = &["bitsandbytes=="];

/// The version of PyTorch that a wheel pins.
fn pinned_torch(requires: &str) -> Option<&str> {
    { requires.split("; ") }.find_map(|one| one.strip_prefix("torch=="))
}

/// The rows of a table that xtask recorded.
fn recorded(name: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("xtask/recorded")
        .join(name);
    let table =
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    { table.lines().filter(|line| !line.starts_with('#')) }
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}

#[test]
fn plans_are_within_what_the_wheels_require() {
    let rows = recorded("wheels.tsv");
    let rows: Vec<Vec<_>> = { rows.iter() }
        .map(|row| row.iter().map(String::as_str).collect())
        .collect();
    // A wheel that pins torch gets its cuDNN.
    let of_torch = |pin: &str| {
        let series =
            |row: &&Vec<&str>| row[0] == "torch" && numbers(row[3])[..2] == numbers(pin)[..2];
        rows.iter().find(series).map_or("", |row| row[10])
    };
    // What the packages of a release require: those for several major versions of CUDA are
    // alternatives.
    let mut releases: BTreeMap<String, Vec<(&str, &str)>> = BTreeMap::new();
    for row in &rows {
        let [
            framework,
            _,
            _,
            version,
            architecture,
            ..,
            cuda,
            cudnn,
            requires,
            _nvcc,
        ] = row.as_slice()
        else {
            panic!("{row:?}")
        };
        let cudnn = pinned_torch(requires).map_or(*cudnn, of_torch);
        if *architecture != "aarch64" && !(cuda.is_empty() && cudnn.is_empty()) {
            releases
                .entry(format!("{framework}=={version}"))
                .or_default()
                .push((cuda, cudnn));
        }
    }
    let host = Tree::ubuntu_24_04();
    let mut compared = 0;
    for (release, required) in &releases {
        if BRING_CUDA
            .iter()
            .chain(EXTENSIONS)
            .any(|name| release.starts_with(name))
        {
            continue;
        }
        // An A100 has kernels in each default build.
        let (cuda, cudnn) = chosen(&with_toolkit(&host, "a100", &["--for", release]));
        let meets = |wanted: &&(&str, &str)| {
            let (of_cuda, of_cudnn) = wanted;
            (of_cuda.is_empty() || within(&cuda, of_cuda, 2))
                && (of_cudnn.is_empty() || within(&cudnn, of_cudnn, 3))
        };
        assert!(
            required.iter().any(|wanted| meets(&wanted)),
            "{release}: {cuda} and {cudnn}, not {required:?}"
        );
        compared += 1;
    }
    assert!(compared > 100, "{compared} releases");
}

#[test]
fn builds_that_take_newer_libraries_get_them() {
    let host = Tree::ubuntu_24_04();
    // Of a major version that the wheels admit, the newest that targets the GPU.
    for (gpu, release, major) in [
        ("h200", "tensorflow==2.20", "12."),
        ("rtx 5090", "tf==2.21", "12."),
    ] {
        let (cuda, cudnn) = chosen(&with_toolkit(&host, gpu, &["--for", release]));
        assert!(
            cuda.starts_with(major) && within(&cudnn, ">=9.3, <10", 2),
            "{release}: {cuda} {cudnn}"
        );
    }
    // Or an older one than they are made with.
    for (gpu, arguments, series) in [
        (
            "h100",
            &["--for", "cupy==14.2", "--driver", "550"][..],
            "12.4",
        ),
        ("h100", &["--for", "cupy==14.2", "--cuda", "12.4"], "12.4"),
        ("k80", &["--for", "cupy==13.6"], "11.4"),
        ("h100", &["--for", "jax==0.10", "--cuda", "12.6"], "12.6"),
        (
            "h100",
            &["--for", "onnxruntime==1.26", "--cuda", "12.6"],
            "12.6",
        ),
    ] {
        assert_eq!(
            chosen(&with_toolkit(&host, gpu, arguments)).0,
            series,
            "{gpu} {arguments:?}"
        );
    }
    // Not one that they refuse.
    let ran = plan(&host, "h100", &["--for", "jax==0.7.1", "--cuda", "12.0"]);
    assert_eq!(ran.code, 4, "{}", ran.out);
}

#[test]
fn a_build_without_kernels_for_the_gpu_is_not_taken() {
    let host = Tree::ubuntu_24_04();
    for (gpu, release) in [
        ("gtx 1080 ti", "vllm==0.6.3"),
        ("v100", "vllm==0.20"),
        ("gtx 1080 ti", "vllm==0.3"),
        ("v100", "sglang==0.5.5"),
        ("gtx 1080 ti", "cudf==25.10"),
        ("h100", "faiss-gpu==1.12"),
        ("rtx 5090", "jax==0.4.30"),
        // Its PTX is for 9.0a, which no other GPU runs.
        ("b200", "tensorflow==2.20"),
        ("rtx 5090", "tensorflow==2.18"),
        ("rtx 5090", "tensorflow==2.16"),
        // Those for 10.0a do not run on 10.3.
        ("b300", "onnxruntime==1.28"),
        ("h100", "xgboost==1.7"),
        ("h100", "paddlepaddle-gpu==2.5"),
        ("rtx 5090", "paddlepaddle-gpu==3.0"),
        // Between 9.0 and 12.0.
        ("b200", "onnxruntime==1.31"),
    ] {
        let ran = plan(&host, gpu, &["--for", release]);
        assert!(
            ran.code == 4 && ran.err.contains("no build of"),
            "{gpu} {release}: {}{}",
            ran.out,
            ran.err
        );
    }
    // What was made with cuDNN 8 does not get 9.
    let (_, cudnn) = chosen(&plan(
        &host,
        "a100",
        &["--for", "onnxruntime==1.18", "--cuda", "11.8"],
    ));
    assert!(cudnn.starts_with("8."), "{cudnn}");
    // PaddlePaddle's builds for CUDA 11 end before Hopper, those for 12.6 before Blackwell.
    for (gpu, release, series) in [
        ("h100", "paddle==2.6", "12.0"),
        ("h100", "paddle==3.0", "12.6"),
        ("b200", "paddle==3.3", "12.9"),
    ] {
        assert_eq!(
            chosen(&with_toolkit(&host, gpu, &["--for", release])).0,
            series,
            "{gpu} {release}"
        );
    }
    // The variant for CUDA 11.8 has kernels for it, too.
    assert_eq!(
        chosen(&plan(
            &host,
            "v100",
            &["--for", "vllm==0.6.3", "--cuda", "11.8"]
        ))
        .0,
        "11.8"
    );
}

#[test]
fn what_fails_on_newer_gpus_is_warned_about() {
    let host = Tree::ubuntu_24_04();
    let said = |gpu: &str| {
        let ran = plan(&host, gpu, &["--for", "tensorflow==2.21"]);
        warnings(&ran.json(), "GS713").join("\n")
    };
    assert_eq!(said("h100"), "");
    insta::assert_snapshot!(said("b200"), @"tensorflow==2.21: on GPUs newer than 9.0 its kernels are compiled from PTX at the first start, which TensorFlow says may take 30 minutes");
    insta::assert_snapshot!(said("rtx 5090"), @"
    tensorflow==2.21: on GPUs newer than 9.0 its kernels are compiled from PTX at the first start, which TensorFlow says may take 30 minutes
    tensorflow==2.21: XLA (jit_compile=True) was reported to fail on 12.x, because the wheel is built with CUDA 12.5, whose PTX does not know these GPUs
    ");
}

#[test]
fn a_list_of_builds_leaves_out_those_without_kernels() {
    let ran = run(&["db", "list", "frameworks", "--for", "b200"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("onnxruntime==1.28") && !ran.out.contains("onnxruntime==1.31"),
        "{}",
        ran.out
    );
}

#[test]
fn wheels_without_a_toolkit_need_a_driver_that_runs_their_cuda() {
    let host = Tree::ubuntu_24_04();
    let with = |driver: &str| {
        plan(
            &host,
            "a100",
            &[
                "--for",
                "torch==2.15",
                "--profile",
                "driver",
                "--driver",
                driver,
            ],
        )
    };
    assert_eq!(chosen(&with("580")), ("none".to_owned(), "none".to_owned()));
    let ran = with("535");
    insta::assert_snapshot!(host.typed_in_it(ran.refusal(4)), @"
    error: torch==2.15 is built with CUDA 13.2 and cuDNN 9.26.0, but CUDA 13.2.2 does not fit: it needs driver 580.65.06 or newer, not 535.309.01 (GS707)
    because: CUDA 13.2.2 needs driver 580.65.06 or newer (NVIDIA's download page for CUDA; CUDA Toolkit Archive; 8 more)
    because: driver 535.309.01 is the newest requested driver that fits (the request)
    hint: programs of CUDA 13.2 also run on driver branch 535 with NVIDIA's package cuda-compat-13-2, which gpusetup does not install
    try: gpusetup plan --gpu a100 --for torch==2.14 --driver 535 --profile driver  # fits: driver 535.309.01 (proprietary modules)
    ");
}

#[test]
fn where_no_toolkit_compiles_the_driver_alone_is_suggested_for_wheels() {
    let sid = Tree::debian_sid(15);
    let ran = with_toolkit(&sid, "a100", &["--for", "torch==2.1"]);
    insta::assert_snapshot!(sid.typed_in_it(ran.refusal(4)), @"
    error: torch==2.1 is built with CUDA 12.1 and cuDNN 8.9.2, but CUDA 12.1.1 does not fit: its headers do not compile with glibc 2.41 and newer; this host has 2.43 (GS705)
    because: the host has glibc 2.43 (facts of the host)
    because: its headers do not compile with glibc 2.41 and newer; this host has 2.43 (The cuda-toolkit action; NVIDIA's download page for CUDA; 13 more)
    hint: compile in a container of an older system, such as Debian 12 (bookworm) (glibc 2.36); the host needs only the driver
    try: gpusetup plan --gpu a100 --for torch==2.1 --profile driver  # without a toolkit, which wheels do not need if pip installs the CUDA libraries with them: fits: driver 595.99.02 (open modules)
    try: gpusetup plan --gpu a100 --for torch==2.15 --profile compute  # fits: driver 595.99.02 (open modules) + CUDA 13.2.2 (37 components) + cuDNN 9.26.1.1
    ");
    assert_eq!(
        plan(
            &sid,
            "a100",
            &["--for", "torch==2.1", "--profile", "driver"]
        )
        .code,
        0
    );
    // What is compiled on the host needs the toolkit.
    let ran = plan(&sid, "a100", &["--for", "torch==2.1,flash-attn==2.6"]);
    insta::assert_snapshot!(sid.typed_in_it(ran.refusal(4)), @"
    error: torch==2.1 is built with CUDA 12.1 and cuDNN 8.9.2; flash-attn==2.6 is built from source with CUDA 12.0 or newer, but CUDA 12.9.2 does not fit: its headers do not compile with glibc 2.41 and newer; this host has 2.43 (GS705)
    because: the host has glibc 2.43 (facts of the host)
    because: its headers do not compile with glibc 2.41 and newer; this host has 2.43 (NVIDIA's download page for CUDA; crt/host_config.h of the nvidia-cuda-nvcc wheels; 8 more)
    hint: compile in a container of an older system, such as Debian 12 (bookworm) (glibc 2.36); the host needs only the driver
    try: gpusetup plan --gpu a100 --for torch==2.1  # fits: driver 595.99.02 (open modules)
    ");
    // So does a user who asks for a toolkit that does not exist for other reasons.
    let ran = with_toolkit(&sid, "a100", &["--for", "torch==2.1", "--driver", "470"]);
    insta::assert_snapshot!(sid.typed_in_it(ran.refusal(4)), @"
    error: torch==2.1 is built with CUDA 12.1 and cuDNN 8.9.2, but CUDA 12.1.1 does not fit: it needs driver 525.60.13 or newer, not 470.256.02 (GS707)
    because: CUDA 12.1.1 needs driver 525.60.13 or newer (The cuda-toolkit action; NVIDIA's download page for CUDA; 13 more)
    because: driver 470.256.02 is the newest requested driver that fits (the request)
    try: gpusetup plan --gpu a100 --for torch==2.15 --profile compute  # fits: driver 595.99.02 (open modules) + CUDA 13.2.2 (37 components) + cuDNN 9.26.1.1
    ");
}

#[test]
fn several_frameworks_get_what_all_of_them_take() {
    let host = Tree::ubuntu_24_04();
    // PyTorch is made with 12.8, which JAX takes.
    let (cuda, cudnn) = chosen(&with_toolkit(
        &host,
        "h100",
        &["--for", "torch==2.9,jax==0.10"],
    ));
    assert!(
        cuda == "12.8" && cudnn.starts_with("9.10."),
        "{cuda} {cudnn}"
    );
    let (cuda, cudnn) = chosen(&with_toolkit(
        &host,
        "h100",
        &["--for", "tf==2.20,jax==0.10"],
    ));
    assert!(
        cuda.starts_with("12.") && within(&cudnn, ">=9.8, <10", 2),
        "{cuda} {cudnn}"
    );
    // One toolkit has one cuDNN.
    let ran = plan(&host, "h100", &["--for", "torch==2.3,tf==2.20"]);
    insta::assert_snapshot!(host.typed_in_it(ran.refusal(4)), @"
    error: the frameworks need different major versions of cuDNN: torch==2.3 needs cuDNN 8; tf==2.20 needs cuDNN 9
    hint: plan for one of them, and run the others in a container
    try: gpusetup plan --gpu h100 --for torch==2.3  # fits: driver 595.91.07 (open modules)
    ");
}

#[test]
fn wheels_that_need_a_newer_glibc_are_refused() {
    let rocky = || Tree::rocky_9().glibc("2.34-100.el9");
    let tree = rocky();
    let ran = tree.run(&["plan", "--gpu", "h100", "--for", "vllm==0.20"]);
    insta::assert_snapshot!(tree.typed_in_it(ran.refusal(4)), @"
    error: the wheels of vLLM 0.20 need glibc 2.35 or newer, but this system has 2.34
    try: gpusetup plan --gpu h100 --profile driver  # for a container
    try: gpusetup plan --gpu h100 --cuda 13.0 --cudnn 9.19  # for a build from source
    try: gpusetup plan --gpu h100 --for vllm==0.33  # fits: driver 595.99.02 (open modules)
    ");
    for release in ["vllm==0.33", "vllm==0.19", "sglang==0.5.23", "torch==2.14"] {
        assert_eq!(
            plan(&rocky(), "h100", &["--for", release]).code,
            0,
            "{release}"
        );
    }
    assert_eq!(
        plan(&Tree::ubuntu_24_04(), "h100", &["--for", "vllm==0.20"]).code,
        0
    );
}

#[test]
fn frameworks_of_the_wheels_are_known() {
    let host = Tree::ubuntu_24_04();
    for (release, cuda) in [
        ("sglang==0.5.10", "12.8"),
        ("xformers==0.0.34", "12.8"),
        ("paddlepaddle-gpu==2.6", "11.8"),
        ("faiss-gpu-cu12", "12."),
        ("rapids==26.10", "13."),
        ("numba-cuda==0.30", "13."),
        ("transformer-engine==2.20", "13."),
        ("torch==2.9,transformer-engine==2.9", "12.8"),
    ] {
        let (found, _) = chosen(&with_toolkit(&host, "a100", &["--for", release]));
        assert!(found.starts_with(cuda), "{release}: {found}");
    }
}

#[test]
fn aarch64_gets_what_is_published_for_it() {
    let arm = || Tree::ubuntu_24_04().arch(183);
    // PyPI has only CPU wheels, and no other index is known to have more.
    let tree = arm();
    let ran = plan(&tree, "gh200", &["--for", "torch==2.5"]);
    insta::assert_snapshot!(tree.typed_in_it(ran.refusal(4)), @"
    error: the wheels of PyTorch 2.5 for aarch64 do not include CUDA
    hint: torch 2.6 supports CUDA on aarch64: --for torch==2.6
    try: gpusetup plan --gpu gh200 --profile driver  # for a container
    try: gpusetup plan --gpu gh200 --cuda 12.4 --cudnn 9.1  # for a build from source
    try: gpusetup plan --gpu gh200 --for torch==2.15  # fits: driver 595.91.07 (open modules)
    ");
    for release in [
        "tensorflow==2.20",
        "xformers==0.0.34",
        "onnxruntime==1.26",
        "vllm==0.9",
        "torch==1.9",
        "xgboost==2.0",
    ] {
        assert_eq!(
            plan(&arm(), "gh200", &["--for", release]).code,
            4,
            "{release}"
        );
        assert_eq!(
            plan(&Tree::ubuntu_24_04(), "a100", &["--for", release]).code,
            0,
            "{release}"
        );
    }
    // The project's own index has builds for some series.
    for (release, series) in [
        ("torch==2.6", "12.6"),
        ("torch==2.7", "12.8"),
        ("torch==2.9", "12.8"),
    ] {
        let ran = with_toolkit(&arm(), "gh200", &["--for", release]);
        let shown = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            shown.contains("its PyPI wheels for aarch64 do not include CUDA"),
            "{}",
            ran.out
        );
        assert_eq!(chosen(&ran).0, series, "{release}");
    }
    let ran = with_toolkit(&arm(), "gh200", &["--for", "torch==2.11"]);
    assert_eq!(chosen(&ran).0, "13.0");
    assert!(!ran.out.contains("its PyPI wheels for"), "{}", ran.out);
    assert_eq!(plan(&arm(), "gh200", &["--for", "xgboost==3.4"]).code, 0);
}

#[test]
fn what_brings_its_own_cuda_needs_only_a_driver() {
    let host = Tree::ubuntu_24_04();
    let branch = |ran: &Ran| {
        let driver = ran.json()["selection"]["driver"]["version"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        numbers(&driver).first().copied().unwrap_or_default()
    };
    let mut refused = Vec::new();
    for release in ["xgboost==3.4", "triton==3.9"] {
        let ran = plan(&host, "h100", &["--for", release]);
        assert_eq!(
            chosen(&ran),
            ("none".to_owned(), "none".to_owned()),
            "{release}"
        );
        assert!(
            ran.out.contains("needs only a driver") && branch(&ran) >= 580,
            "{release}: {}",
            ran.out
        );
        // CUDA 13 needs branch 580.
        let ran = plan(&host, "h100", &["--for", release, "--driver", "570"]);
        refused.push(host.typed_in_it(ran.refused(4)));
    }
    insta::assert_snapshot!(refused.join("\n"), @"
    error: xgboost==3.4 bundles CUDA 13.3 and needs only a driver, but CUDA 13.3.1 does not fit: it needs driver 580.65.06 or newer, not 570.211.01 (GS707)
    error: triton==3.9 bundles CUDA 13.4 and needs only a driver, but CUDA 13.4.2 does not fit: it needs driver 580.65.06 or newer, not 570.211.01 (GS707)
    ");
    // Triton takes its older ptxas for older GPUs.
    for (gpu, release, driver, code) in [
        ("a100", "triton==3.9", "570", 0),
        ("h100", "triton==3.8", "570", 0),
        ("b200", "triton==3.8", "570", 4),
        ("b200", "triton==3.2", "580", 4),
        ("v100", "xgboost==3.4", "580", 4),
    ] {
        let ran = plan(&host, gpu, &["--for", release, "--driver", driver]);
        assert_eq!(ran.code, code, "{gpu} {release}: {}{}", ran.out, ran.err);
    }
    // A toolkit that was asked for, or that another framework needs, is installed.
    assert_eq!(
        chosen(&plan(
            &host,
            "h100",
            &["--for", "xgboost==3.4", "--cuda", "12.8"]
        ))
        .0,
        "12.8"
    );
    assert_eq!(
        chosen(&with_toolkit(
            &host,
            "h100",
            &["--for", "xgboost==3.4,torch==2.9"]
        ))
        .0,
        "12.8"
    );
    assert!(
        chosen(&plan(&host, "h100", &["--for", "triton", "--cudnn", "9"]))
            .1
            .starts_with("9.")
    );
}

#[test]
fn what_one_requires_of_another_is_kept() {
    let host = Tree::ubuntu_24_04();
    let mut pairs = BTreeMap::new();
    for row in recorded("wheels.tsv") {
        let requires = row[11].split("; ");
        if let Some(range) = requires.filter_map(|one| one.strip_prefix("torch")).next() {
            pairs.insert(format!("{}=={}", row[0], row[1]), range.to_owned());
        }
    }
    assert!(pairs.len() > 70, "{pairs:?}");
    let step = pairs.len() / sampled(10, pairs.len());
    for (release, range) in pairs.into_iter().step_by(step) {
        let ran = plan(&host, "a100", &["--for", &format!("{release},torch")]);
        assert_eq!(ran.code, 0, "{release}: {}", ran.err);
        let plan = ran.json();
        let first = plan["python"][0]["commands"][0]["command"]
            .as_str()
            .and_then(|command| command.strip_prefix("pip install 'torch=="))
            .and_then(|rest| rest.split_once(".*"))
            .map(|(version, _)| version);
        assert!(
            first.is_some_and(|version| meets_specifier(version, &range)),
            "{release}, which requires torch{range}: {first:?}"
        );
    }
}

#[test]
fn an_environment_has_what_all_its_frameworks_require() {
    let all = [
        // Newer headers of PyTorch want C++20, as which it is not compiled.
        "flash-attn",
        "xformers,torch==2.6",
        "bitsandbytes,torch==2.2",
        "torch==2.12.1,triton",
        // Both pin PyTorch, which nobody named.
        "vllm,sglang",
        "flash-attn,vllm",
        "vllm==0.10.2,xformers",
        "cudf==25.10,numba-cuda",
    ];
    let planned = all.map(|frameworks| {
        let ran = plan_on("ubuntu-24.04", "l4", &[frameworks]);
        assert_eq!(ran.code, 0, "{frameworks}: {}", ran.err);
        let lines = commands(&ran);
        let lines = lines.lines().filter(|line| line.contains("pip install"));
        format!("{frameworks}\n{}\n", lines.collect::<Vec<_>>().join("\n"))
    });
    insta::assert_snapshot!(planned.concat(), @"
    flash-attn
    python3 -m venv venv && venv/bin/pip install 'torch==2.13.*'
    venv/bin/pip install packaging psutil ninja setuptools wheel && venv/bin/pip install 'flash-attn==2.8.*' --no-build-isolation
    xformers,torch==2.6
    python3 -m venv venv && venv/bin/pip install 'torch==2.6.0.*'
    venv/bin/pip install 'xformers==0.0.29.*'
    bitsandbytes,torch==2.2
    python3 -m venv venv && venv/bin/pip install 'torch==2.2.*' 'numpy<2'
    venv/bin/pip install 'bitsandbytes==0.47.*'
    torch==2.12.1,triton
    python3 -m venv venv && venv/bin/pip install 'triton==3.7.1.*'
    venv/bin/pip install 'torch==2.12.1.*'
    vllm,sglang
    python3 -m venv venv && venv/bin/pip install 'vllm==0.32.*'
    venv/bin/pip install 'sglang==0.5.21.*'
    flash-attn,vllm
    python3 -m venv venv && venv/bin/pip install 'torch==2.13.0.*'
    venv/bin/pip install packaging psutil ninja setuptools wheel && venv/bin/pip install 'flash-attn==2.8.*' --no-build-isolation
    venv/bin/pip install 'vllm==0.32.*'
    vllm==0.10.2,xformers
    python3 -m venv venv && venv/bin/pip install xformers==0.0.32.post1
    venv/bin/pip install 'vllm==0.10.2.*' 'transformers<5'
    cudf==25.10,numba-cuda
    python3 -m venv venv && venv/bin/pip install 'numba-cuda[cu13]==0.19.*'
    venv/bin/pip install 'cudf-cu13==25.10.*'
    ");
    let all = [
        "torch==2.6,xformers==0.0.35",
        "vllm==0.33,sglang==0.5.23",
        "flash-attn,torch==2.15",
        "cudf==26.10,cupy==13.6",
    ];
    let refused = all.map(|frameworks| {
        let ran = plan_on("ubuntu-24.04", "l4", &[frameworks]);
        ran.refusal(4).to_owned()
    });
    insta::assert_snapshot!(refused.concat(), @"
    error: xformers==0.0.35 requires PyTorch >=2.10, not 2.6
    try: gpusetup plan --os ubuntu-24.04 --gpu l4 --for torch==2.15 --for xformers==0.0.35
    try: gpusetup plan --os ubuntu-24.04 --gpu l4 --for torch==2.6 --for xformers
    try: gpusetup plan --os ubuntu-24.04 --gpu l4 --for torch==2.6  # fits: driver 595.91.07 (open modules)
    error: one Python environment cannot have both vllm==0.33 and sglang==0.5.23: they require torch==2.14.0 and torch==2.14.1
    hint: plan for each environment separately
    try: gpusetup plan --os ubuntu-24.04 --gpu l4 --for vllm==0.33  # fits: driver 595.91.07 (open modules)
    error: flash-attn==2.8 requires PyTorch <2.14, not 2.15
    try: gpusetup plan --os ubuntu-24.04 --gpu l4 --for flash-attn==2.8 --for torch==2.13
    try: gpusetup plan --os ubuntu-24.04 --gpu l4 --for flash-attn  # fits: driver 595.91.07 (open modules) + CUDA 13.2.1 + cuDNN 9.28.0.42
    error: cudf==26.10 requires CuPy !=14.1.0,>=14.0.1, not 13.6
    try: gpusetup plan --os ubuntu-24.04 --gpu l4 --for cudf==26.10 --for cupy==14.2
    try: gpusetup plan --os ubuntu-24.04 --gpu l4 --for cudf --for cupy==13.6
    try: gpusetup plan --os ubuntu-24.04 --gpu l4 --for cudf==26.10  # fits: driver 595.91.07 (open modules)
    ");
}

#[test]
fn extensions_go_with_the_framework_they_extend() {
    let host = Tree::ubuntu_24_04();
    // Without the framework that they extend, the newest of it that fits is planned with them.
    let planned = ["flash-attn==2.8", "bitsandbytes==0.45"].map(|release| {
        let ran = plan(&host, "h100", &["--for", release]);
        let reasons = ran.json()["reasons"].clone();
        format!("{}\n", reasons[0]["text"].as_str().expect("a reason"))
    });
    insta::assert_snapshot!(planned.concat(), @"
    torch==2.13 is built with CUDA 13.0 and cuDNN 9.20.0; flash-attn==2.8 is built from source with CUDA 13.0 or newer
    torch==2.14 is built with CUDA 12.6 and cuDNN 9.10.2; bitsandbytes==0.45 is built with CUDA 12.6
    ");
    for (frameworks, series) in [
        ("torch==2.9,flash-attn==2.8", "12.8"),
        ("torch==2.13,flash-attn==2.8", "13.0"),
        ("torch==2.9,bitsandbytes==0.49", "12.8"),
        ("bitsandbytes==0.49,torch==2.13", "13.0"),
        // Its wheels have no library for CUDA 13, PyTorch has a build for 12.6.
        ("torch==2.14,bitsandbytes==0.45", "12.6"),
        // From 0.50 on it takes the nearest library.
        ("torch==2.4,bitsandbytes==0.50", "12.1"),
    ] {
        let ran = with_toolkit(&host, "h100", &["--for", frameworks]);
        assert_eq!(chosen(&ran).0, series, "{frameworks}");
    }
    let ran = plan(&host, "a100", &["--for", "torch==2.15,bitsandbytes==0.49"]);
    insta::assert_snapshot!(host.typed_in_it(ran.refusal(4)), @"
    error: bitsandbytes must be built for the same CUDA as PyTorch, but no builds match: bitsandbytes==0.49 for CUDA 13.0, 12.9, 12.8, 12.6, 12.5, 12.4, 12.3, 12.2, 12.1, 12.0, 11.8; torch==2.15 for CUDA 13.2
    try: gpusetup plan --gpu a100 --for torch --for bitsandbytes==0.49
    try: gpusetup plan --gpu a100 --for torch==2.15  # fits: driver 595.91.07 (open modules)
    ");
}

#[test]
fn compilers_are_as_new_as_the_wheels_require() {
    let host = Tree::ubuntu_24_04();
    // JAX requires ptxas of CUDA 12.6.3, and runs with libraries of 12.1.
    let ran = plan(&host, "h100", &["--for", "jax==0.10", "--cuda", "12.4"]);
    insta::assert_snapshot!(host.typed_in_it(ran.refusal(4)), @"
    error: jax==0.10 runs with CUDA 12.1 or newer, nvcc 12.6.3 or newer and cuDNN 9.8.0 or newer, but no CUDA release is all of 12.4, >=12.6.3, <13
    try: gpusetup plan --gpu h100 --for jax==0.10 --cuda 12.9.1  # fits: driver 595.91.07 (open modules) + CUDA 12.9.1 + cuDNN 9.28.0.42
    ");
    assert_eq!(
        chosen(&plan(
            &host,
            "h100",
            &["--for", "jax==0.4.35", "--cuda", "12.4"]
        ))
        .0,
        "12.4"
    );
    let ran = plan(&host, "h100", &["--for", "jax==0.10", "--cuda", "12.6"]);
    assert_eq!(
        ran.json()["selection"]["cuda"]["version"],
        "12.6.3",
        "{}",
        ran.out
    );
    let ran = plan(&host, "h100", &["--for", "lightgbm==4.6"]);
    assert!(
        chosen(&ran).0.starts_with("12.") && ran.out.contains("is built from source"),
        "{}",
        ran.out
    );
}

#[test]
fn what_is_suggested_instead_works_and_its_doubts_are_told() {
    // Whatever the libraries: cuDF has no kernels for Maxwell, so neither a container nor a build
    // from source helps.
    let old = Tree::rocky_9();
    old.write(
        "etc/os-release",
        "PRETTY_NAME=\"CentOS 7\"\nID=centos\nID_LIKE=\"rhel fedora\"\nVERSION_ID=7\n",
    );
    let ran = plan(&old, "gtx 980", &["--for", "cudf==25.10"]);
    insta::assert_snapshot!(old.typed_in_it(ran.refusal(4)), @"
    error: no build of RAPIDS cuDF 25.10 supports NVIDIA GeForce GTX 980 (compute capability 5.2). Supported: 7.5 to newest (CUDA 13.0), 7.0 to newest (CUDA 12.0)
    try: gpusetup plan --gpu 'gtx 980' --profile driver  # fits: driver 580.178.04 (proprietary modules)
    ");
    // vLLM 0.6.3 says nothing of GPUs: without a toolkit nothing would tell that its CUDA is too
    // old for this one.
    let refused = [Tree::ubuntu_24_04(), Tree::debian_sid(15)].map(|host| {
        let ran = plan(&host, "rtx 5090", &["--for", "vllm==0.6.3"]);
        host.typed_in_it(ran.refusal(4))
    });
    insta::assert_snapshot!(refused.concat(), @"
    error: no build of vLLM 0.6.3 supports NVIDIA GeForce RTX 5090 (compute capability 12.0). Supported: 7.0 to 9.0 (CUDA 12.1), 7.0 to 9.0 (CUDA 11.8)
    try: gpusetup plan --gpu 'rtx 5090' --for vllm==0.33  # fits: driver 595.99.02 (open modules)
    error: no build of vLLM 0.6.3 supports NVIDIA GeForce RTX 5090 (compute capability 12.0). Supported: 7.0 to 9.0 (CUDA 12.1), 7.0 to 9.0 (CUDA 11.8)
    try: gpusetup plan --gpu 'rtx 5090' --for vllm==0.33  # fits: driver 595.99.02 (open modules)
    ");
    // What is suggested may be slow, or not build: that is told with it.
    let host = Tree::ubuntu_24_04();
    let ran = plan(&host, "b200", &["--for", "tensorflow==2.15"]);
    insta::assert_snapshot!(host.typed_in_it(ran.refusal(4)), @"
    error: tensorflow==2.15 is built with CUDA 12.2 and cuDNN 8.9.4, but CUDA 12.2.2 does not fit: it targets 9.0 at most; NVIDIA B200 has compute capability 10.0
    because: NVIDIA B200 has compute capability 10.0 (supported-gpus.json of driver 615.71.09; Table of GPUs in the README of NVIDIA's open kernel modules 595.45.04; 4 more)
    because: CUDA 12.2.2 targets 9.0 at most (The cuda-toolkit action; NVIDIA's download page for CUDA; 12 more)
    hint: the alternative has a limit: tensorflow==2.21: on GPUs newer than 9.0 its kernels are compiled from PTX at the first start, which TensorFlow says may take 30 minutes
    try: gpusetup plan --gpu b200 --for tensorflow==2.21  # fits: driver 595.91.07 (open modules)
    ");
}

#[test]
fn tensorrt_8_gets_the_cudnn_that_its_plugins_load() {
    let ran = plan(&Tree::ubuntu_24_04(), "a100", &["--for", "tensorrt==8.6"]);
    assert!(chosen(&ran).1.starts_with("8.9."), "{}", ran.out);
}

/// The recorded requirements of PyPI's packages are a second opinion on what they bring.
#[test]
fn a_driver_is_enough_where_the_packages_of_pypi_require_cuda_and_cudnn() {
    let database = gpusetup::database::embedded();
    let mut compared = 0;
    for row in recorded("requirements.tsv") {
        let row: Vec<_> = row.iter().map(String::as_str).collect();
        let [name, version, package, _, _, cuda, cudnn] = row.as_slice() else {
            panic!("{row:?}")
        };
        let wish = format!("{name}=={version}");
        let framework = database.framework(name).expect("a framework");
        let release = database.framework_release(&wish).expect("a release");
        let builds = release.builds.iter().filter(|build| build.is_for("x86_64"));
        let all: Vec<_> = builds
            .map(|b| PythonPackage::of(&database, framework, release, b, &wish, None, "x86_64"))
            .collect();
        let is_it = |build: &&PythonPackage| {
            let command = build
                .commands
                .first()
                .map(|c| c.command.replace('\'', ""))
                .unwrap_or_default();
            command.starts_with(&format!("pip install {package}=="))
                && !command.contains("--index-url")
        };
        let build = all
            .iter()
            .find(is_it)
            .unwrap_or_else(|| panic!("{wish}: {package} in {all:?}"));
        let needs_nothing = BRING_CUDA
            .iter()
            .any(|start| start.trim_end_matches('=') == *name);
        let brings = !cuda.is_empty() && (build.cudnn.is_none() || !cudnn.is_empty());
        assert_eq!(
            build.needs_only_driver() || framework.needs_nvcc_at_start(release),
            brings || needs_nothing,
            "{wish}: {build:?}"
        );
        compared += 1;
    }
    assert!(compared > 250, "{compared}");
}

/// What a plan says of Python.
fn python(host: &Tree, ran: &Ran) -> String {
    assert_eq!(ran.code, 0, "{}", ran.err);
    let (_, said) = ran.out.split_once("\nPython").expect("a framework");
    let (said, _) = said.split_once("\n\n").unwrap_or((said, ""));
    host.typed_in_it(said)
}

#[test]
fn plans_name_the_command_that_installs_a_framework_and_whether_a_driver_is_enough() {
    let host = Tree::ubuntu_24_04();
    let ran = host.run(&["plan", "--gpu", "h100", "--for", "torch==2.9"]);
    insta::assert_snapshot!(python(&host, &ran), @"
    torch==2.9 brings its own CUDA 12.8 and cuDNN 9.10.2: driver 525.60.13 or
    newer is enough.
      sudo apt-get install python3-venv
      python3 -m venv venv && venv/bin/pip install 'torch==2.9.*'
    No toolkit is planned. To compile extensions for it, add one:
      gpusetup plan --gpu h100 --for torch==2.9 --profile compute
    ");
    let ran = host.run(&[
        "plan",
        "--gpu",
        "h100",
        "--for",
        "torch==2.9",
        "--profile",
        "driver",
        "-v",
    ]);
    insta::assert_snapshot!(python(&host, &ran), @"
    torch==2.9 brings its own CUDA 12.8 and cuDNN 9.10.2: driver 525.60.13 or
    newer is enough.
      sudo apt-get install python3-venv
      python3 -m venv venv && venv/bin/pip install 'torch==2.9.*'
      uv venv && uv pip install 'torch==2.9.*'
      Compiling extensions for it needs nvcc of CUDA 12.8 and g++ 6 to 14.
    No toolkit is planned. To compile extensions for it, add one:
      gpusetup plan --gpu h100 --for torch==2.9 --profile compute
    ");
    // The default build has no kernels for a P100; the one that has is on an index of the project.
    let ran = host.run(&["plan", "--gpu", "p100", "--for", "torch==2.9"]);
    insta::assert_snapshot!(python(&host, &ran), @"
    torch==2.9 brings its own CUDA 12.6 and cuDNN 9.10.2: driver 525.60.13 or
    newer is enough.
      sudo apt-get install python3-venv
      python3 -m venv venv && venv/bin/pip install 'torch==2.9.*' --index-url https://download.pytorch.org/whl/cu126
    No toolkit is planned. To compile extensions for it, add one:
      gpusetup plan --gpu p100 --for torch==2.9 --profile compute
    ");
    // A newer GPU needs a newer driver than the CUDA of the build does.
    let ran = host.run(&["plan", "--gpu", "rtx 5090", "--for", "torch==2.9"]);
    insta::assert_snapshot!(python(&host, &ran), @"
    torch==2.9 brings its own CUDA 12.8 and cuDNN 9.10.2: driver 570.86.10 or
    newer is enough.
      sudo apt-get install python3-venv
      python3 -m venv venv && venv/bin/pip install 'torch==2.9.*'
    No toolkit is planned. To compile extensions for it, add one:
      gpusetup plan --gpu 'rtx 5090' --for torch==2.9 --profile compute
    ");
    // What brings no CUDA needs the toolkit, and no plan without one is suggested.
    let ran = host.run(&["plan", "--gpu", "t4", "--for", "tensorflow==2.13"]);
    insta::assert_snapshot!(python(&host, &ran), @"
    tensorflow==2.13 does not bring CUDA: the host needs driver 450.80.02 or
    newer, CUDA 11.8 and cuDNN 8.6.
    Its wheels are for Python 3.8 to 3.11, and the system's is 3.12: uv
    (https://docs.astral.sh/uv) brings one that fits.
      uv venv --python 3.11 && uv pip install 'tensorflow==2.13.*'
    ");
    assert!(!ran.out.contains("--profile driver"), "{}", ran.out);
    // Nothing of it where no framework was asked for.
    assert!(!host.run(&["plan", "--gpu", "h100"]).out.contains("Python"));
}

/// The commands that a page has.
fn commands(ran: &Ran) -> String {
    let mut lines: Vec<_> = ran.out.lines().map(str::trim).collect();
    lines.retain(|line| line.contains(" install ") || line.starts_with("gpusetup "));
    lines.join("\n")
}

/// A plan for a new installation and a framework, which is the first of the arguments.
fn plan_on(os: &str, gpu: &str, arguments: &[&str]) -> Ran {
    run(&[&["plan", "--os", os, "--gpu", gpu, "--for"], arguments].concat())
}

/// The commands that a plan for a new installation shows.
fn commands_on(os: &str, arguments: &[&str]) -> String {
    let lines = commands(&plan_on(os, "l4", arguments));
    let (_, lines) = lines.split_once('\n').expect("a heading and commands");
    lines.to_owned()
}

#[test]
fn what_compiles_with_pythons_headers_gets_them() {
    let on = ["ubuntu-24.04", "fedora-42"].map(|os| commands_on(os, &["vllm==0.33"]));
    insta::assert_snapshot!(on.join("\n"), @"
    sudo apt-get install python3-venv python3-dev
    python3 -m venv venv && venv/bin/pip install 'vllm==0.33.*'
    gpusetup plan --os ubuntu-24.04 --gpu l4 --for vllm==0.33 --profile compute
    sudo dnf install python3-devel
    python3 -m venv venv && venv/bin/pip install 'vllm==0.33.*'
    gpusetup plan --os fedora-42 --gpu l4 --for vllm==0.33 --profile compute
    ");
}

#[test]
fn what_compiles_whenever_it_starts_gets_nvcc() {
    let all = [
        &["vllm==0.25"][..],
        // From 0.31 on it does without.
        &["vllm==0.31"],
        &["sglang==0.5.23", "--cuda", "none"],
        &["sglang==0.5.8"],
    ];
    let planned = all.map(|asked| {
        let ran = plan_on("rocky-9", "l4", asked);
        let mut lines: Vec<_> = ran.out.lines().collect();
        lines.retain(|line| {
            ["Choice", "whenever", "and nvcc", "enough", "has no toolkit"]
                .iter()
                .any(|words| line.contains(words))
        });
        format!("{}\n{}\n", asked.join(" "), lines.join("\n"))
    });
    insta::assert_snapshot!(planned.concat(), @"
    vllm==0.25
    Choice  driver 595.99.02 (open modules) + CUDA 13.0.3
      whenever it starts: the host needs driver 580.65.06 or newer and nvcc of CUDA
    vllm==0.31
    Choice  driver 595.99.02 (open modules)
      newer is enough.
    sglang==0.5.23 --cuda none
    Choice  driver 595.99.02 (open modules)
      whenever it starts: the host needs driver 580.65.06 or newer and nvcc of CUDA
    ! GS713: sglang==0.5.23 compiles kernels with nvcc of CUDA 13.0 whenever it
      starts, and this host has no toolkit
    sglang==0.5.8
    Choice  driver 595.99.02 (open modules)
      newer is enough.
    ");
}

#[test]
fn packages_that_came_later_do_not_break_older_releases() {
    let on = [
        "tensorflow==2.9",
        "tensorflow==2.12",
        "torch==2.2",
        "torch==2.3",
        "mxnet==1.9",
    ];
    let on = on.map(|release| {
        let ran = plan_on("ubuntu-22.04", "t4", &[release]);
        let all = commands(&ran);
        let install = all.lines().find(|line| line.contains("pip install"));
        install.map(str::to_owned).unwrap_or_default()
    });
    insta::assert_snapshot!(on.join("\n"), @"
    python3 -m venv venv && venv/bin/pip install 'tensorflow==2.9.*' 'numpy<2'
    python3 -m venv venv && venv/bin/pip install 'tensorflow==2.12.*'
    python3 -m venv venv && venv/bin/pip install 'torch==2.2.*' 'numpy<2'
    python3 -m venv venv && venv/bin/pip install 'torch==2.3.*'
    python3 -m venv venv && venv/bin/pip install 'mxnet-cu117==1.9.*' 'numpy<1.24'
    ");
}

#[test]
fn a_build_that_nobody_publishes_gives_way_to_an_older_one() {
    // vLLM 0.21 to 0.25 have a build for the CUDA of this driver in an index of the project alone.
    insta::assert_snapshot!(commands_on("ubuntu-24.04", &["vllm", "--driver", "570"]), @"
    sudo apt-get install python3-venv python3-dev
    python3 -m venv venv && venv/bin/pip install 'vllm==0.19.*'
    gpusetup plan --os ubuntu-24.04 --gpu l4 --for vllm --driver 570 --profile compute
    ");
}

#[test]
fn explain_has_every_build_of_a_release_with_its_index() {
    let ran = run(&["explain", "torch==2.5"]);
    insta::assert_snapshot!(commands(&ran), @"
    pip install 'torch==2.5.*'
    uv pip install 'torch==2.5.*'
    conda install pytorch=2.5 pytorch-cuda=12.4 -c pytorch -c nvidia
    pip install 'torch==2.5.*' --index-url https://download.pytorch.org/whl/cu121
    uv pip install 'torch==2.5.*' --index-url https://download.pytorch.org/whl/cu121
    conda install pytorch=2.5 pytorch-cuda=12.1 -c pytorch -c nvidia
    pip install 'torch==2.5.*' --index-url https://download.pytorch.org/whl/cu118
    uv pip install 'torch==2.5.*' --index-url https://download.pytorch.org/whl/cu118
    conda install pytorch=2.5 pytorch-cuda=11.8 -c pytorch -c nvidia
    gpusetup plan --for torch==2.5
    gpusetup plan --for torch==2.5 --profile compute  # with the toolkit, to compile extensions
    ");
    // The wheels for aarch64 on PyPI have no CUDA.
    let ran = run(&["explain", "torch==2.9", "--os", "ubuntu-24.04:arm64"]);
    insta::assert_snapshot!(commands(&ran), @"
    pip install 'torch==2.9.*' --index-url https://download.pytorch.org/whl/cu128
    uv pip install 'torch==2.9.*' --index-url https://download.pytorch.org/whl/cu128
    pip install 'torch==2.9.*' --index-url https://download.pytorch.org/whl/cu130
    uv pip install 'torch==2.9.*' --index-url https://download.pytorch.org/whl/cu130
    pip install 'torch==2.9.*' --index-url https://download.pytorch.org/whl/cu129
    uv pip install 'torch==2.9.*' --index-url https://download.pytorch.org/whl/cu129
    pip install 'torch==2.9.*' --index-url https://download.pytorch.org/whl/cu126
    uv pip install 'torch==2.9.*' --index-url https://download.pytorch.org/whl/cu126
    gpusetup plan --for torch==2.9
    gpusetup plan --for torch==2.9 --profile compute  # with the toolkit, to compile extensions
    ");
}

#[test]
fn a_label_behind_the_version_names_the_build() {
    let host = Tree::ubuntu_24_04();
    let of = |wish: &str| plan(&host, "h100", &["--for", wish, "--profile", "driver"]);
    for (wish, cuda, index) in [
        (
            "torch==2.7.1+cu128",
            "12.8",
            "https://download.pytorch.org/whl/cu128",
        ),
        (
            "torch==2.6.0+cu118",
            "11.8",
            "https://download.pytorch.org/whl/cu118",
        ),
        (
            "torch 2.7+CU128",
            "12.8",
            "https://download.pytorch.org/whl/cu128",
        ),
    ] {
        let ran = of(wish);
        assert_eq!(ran.code, 0, "{wish}: {}", ran.err);
        let python = &ran.json()["python"][0];
        assert_eq!(python["cuda"], cuda, "{wish}");
        let commands = python["commands"].to_string();
        assert!(commands.contains(index), "{wish}: {commands}");
        assert!(
            !wish.contains("2.7.1") || commands.contains("torch==2.7.1"),
            "{wish}: {commands}"
        );
    }
    let refused = ["cpu", "rocm6.3", "cu999"].map(|label| {
        let ran = of(&format!("torch==2.7.1+{label}"));
        host.typed_in_it(ran.refusal(4))
    });
    insta::assert_snapshot!(refused.concat(), @"
    error: PyTorch 2.7 has no build +cpu with CUDA; its builds are +cu126, +cu128, +cu118
    try: gpusetup plan --gpu h100 --for torch==2.7.1 --profile driver  # with one of them
    try: gpusetup plan --gpu h100 --for torch==2.15 --profile driver  # fits: driver 595.91.07 (open modules)
    error: PyTorch 2.7 has no build +rocm6.3 with CUDA; its builds are +cu126, +cu128, +cu118
    try: gpusetup plan --gpu h100 --for torch==2.7.1 --profile driver  # with one of them
    try: gpusetup plan --gpu h100 --for torch==2.15 --profile driver  # fits: driver 595.91.07 (open modules)
    error: PyTorch 2.7 has no build +cu999 with CUDA; its builds are +cu126, +cu128, +cu118
    try: gpusetup plan --gpu h100 --for torch==2.7.1 --profile driver  # with one of them
    try: gpusetup plan --gpu h100 --for torch==2.15 --profile driver  # fits: driver 595.91.07 (open modules)
    ");
}

#[test]
fn a_name_that_is_almost_right_is_asked_about() {
    let asked = |framework: &str| {
        run(&[
            "plan",
            "--os",
            "ubuntu-24.04",
            "--gpu",
            "h100",
            "--for",
            framework,
            "--upgrade",
        ])
    };
    for (typed, meant) in [
        ("torch2.7", "torch==2.7"),
        ("pytorhc", "torch"),
        ("tensorflw==2.17", "tensorflow==2.17"),
        ("numba", "numba-cuda"),
    ] {
        let refused = asked(typed);
        assert!(
            refused.code == 2 && refused.err.contains(&format!("did you mean {meant}?")),
            "{}",
            refused.err
        );
        let command =
            format!("try: gpusetup plan --os ubuntu-24.04 --gpu h100 --for {meant} --upgrade");
        assert!(refused.err.contains(&command), "{}", refused.err);
    }
    insta::assert_snapshot!(asked("numpy").refusal(2), @"
    error: no framework is called `numpy` (--for)
    hint: known frameworks: torch, tensorflow, jax, onnxruntime, vllm, cupy, tensorrt, sglang, xformers, numba-cuda, cudf, faiss-gpu, paddlepaddle-gpu, triton, xgboost, bitsandbytes, flash-attn, transformer-engine, lightgbm, mxnet
    try: gpusetup db list frameworks
    ");
    let host = Tree::ubuntu_24_04();
    let of = |wish: &str| chosen(&plan(&host, "h100", &["--for", wish]));
    assert_eq!(of("tensorflow[and-cuda]==2.17"), of("tensorflow==2.17"));
}

#[test]
fn a_package_or_an_extra_for_a_cuda_gets_it() {
    let host = Tree::ubuntu_24_04();
    let of = |wish: &str| plan(&host, "h100", &["--for", wish, "--profile", "driver"]);
    for (wish, cuda) in [
        ("cudf-cu12==25.10", "12."),
        ("cudf-cu13==25.10", "13."),
        ("jax[cuda13]", "13."),
        ("jax[cuda12]", "12."),
    ] {
        let ran = of(wish);
        assert_eq!(ran.code, 0, "{wish}: {}", ran.err);
        let built = ran.json()["python"][0]["cuda"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(built.starts_with(cuda), "{wish}: {built}");
    }
    let none = of("jax[cuda11]==0.7");
    insta::assert_snapshot!(host.typed_in_it(none.refusal(4)), @"
    error: JAX 0.7.2 has no build for the CUDA in `jax[cuda11]`; its builds are for CUDA 13.0, 12.9
    try: gpusetup explain jax==0.7.2
    try: gpusetup plan --gpu h100 --for jax==0.12 --profile driver  # fits: driver 595.91.07 (open modules)
    ");
}

#[test]
fn a_version_may_be_excluded_and_a_condition_of_pips_is_left_out() {
    let host = Tree::ubuntu_24_04();
    let of = |wish: &str| {
        let ran = plan(&host, "h100", &["--for", wish, "--profile", "driver"]);
        assert_eq!(ran.code, 0, "{wish}: {}", ran.err);
        ran.json()["python"][0].to_string()
    };
    assert_eq!(of("torch<2.10,!=2.9.*"), of("torch<2.9"));
    // The database has series: their newest versions are in them.
    assert_eq!(of("torch==2.5.*,>=2.5.1"), of("torch==2.5"));
    assert_eq!(
        of("torch==2.9.1; python_version >= '3.10'"),
        of("torch==2.9.1")
    );
}

#[test]
fn wheels_run_on_gpus_for_which_their_toolkit_does_not_compile() {
    let host = Tree::ubuntu_24_04();
    let refused = with_toolkit(&host, "rtx 4090", &["--for", "torch==1.13.1"]);
    insta::assert_snapshot!(host.typed_in_it(refused.refusal(4)), @"
    error: torch==1.13.1 is built with CUDA 11.7 and cuDNN 8.5.0, but CUDA 11.7.1 does not fit: it targets 8.7 at most; NVIDIA GeForce RTX 4090 has compute capability 8.9
    because: NVIDIA GeForce RTX 4090 has compute capability 8.9 (supported-gpus.json of driver 615.71.09; Table of GPUs in the README of NVIDIA's open kernel modules 595.45.04; 4 more)
    because: CUDA 11.7.1 targets 8.7 at most (The cuda-toolkit action; conda-forge's cudatoolkit recipe; 11 more)
    try: gpusetup plan --gpu 'rtx 4090' --for torch==1.13.1 --profile driver  # without a toolkit, which wheels do not need if pip installs the CUDA libraries with them: fits: driver 595.99.02 (open modules)
    try: gpusetup plan --gpu 'rtx 4090' --for torch==2.15 --profile compute  # fits: driver 595.99.02 (open modules) + CUDA 13.2.1 + cuDNN 9.26.1.1
    ");
}

#[test]
fn a_toolkit_is_offered_where_one_fits_and_missed_where_one_is_needed() {
    let lines = |os: &str, gpu: &str, arguments: &[&str]| {
        let common = ["plan", "--os", os, "--gpu", gpu];
        let ran = run(&[&common[..], arguments].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        let is_meant =
            |line: &&str| line.contains("--profile compute") || line.contains("not bring its own");
        let shown = ran.out.lines().find(is_meant).unwrap_or("nothing");
        format!("{os} {gpu} {}: {}\n", arguments.join(" "), shown.trim())
    };
    let container = ["--for", "torch==2.9", "--profile", "container-host"];
    let shown = [
        lines("debian-12", "t4", &["--for", "torch==2.9"]),
        // CUDA 12.8 compiles nothing with the glibc of Fedora 44.
        lines("fedora-44", "t4", &["--for", "torch==2.9"]),
        lines("debian-12", "t4", &container),
        // The driver compiles the wheels' kernels for newer GPUs.
        lines("debian-12", "rtx 5090", &["--for", "tensorflow==2.21"]),
        lines(
            "debian-12",
            "a100",
            &["--for", "tensorflow==2.13", "--profile", "driver"],
        ),
    ];
    insta::assert_snapshot!(shown.concat(), @"
    debian-12 t4 --for torch==2.9: gpusetup plan --os debian-12 --gpu t4 --for torch==2.9 --profile compute
    fedora-44 t4 --for torch==2.9: nothing
    debian-12 t4 --for torch==2.9 --profile container-host: nothing
    debian-12 rtx 5090 --for tensorflow==2.21: gpusetup plan --os debian-12 --gpu 'rtx 5090' --for tensorflow==2.21 --profile compute
    debian-12 a100 --for tensorflow==2.13 --profile driver: ! GS713: tensorflow==2.13 does not bring its own CUDA 11.8, and this host has no
    ");
}

#[test]
fn a_python_without_wheels_is_replaced() {
    let shown = |os: &str, frameworks: &str| {
        let asked = ["plan", "--os", os, "--gpu", "l4", "--for", frameworks];
        let ran = run(&asked);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let lines = ran
            .out
            .lines()
            .skip_while(|line| !line.starts_with("Python"));
        let lines: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
        format!("{os} {frameworks}\n{}\n", lines.join("\n"))
    };
    let all = [
        // 3.8, older than any that the wheels are for.
        shown("ubuntu-20.04", "torch"),
        // 3.12, newer.
        shown("ubuntu-24.04", "tensorflow==2.15"),
        // Two frameworks with one Python.
        shown("rocky-9", "torch==2.9,vllm==0.12"),
        // Right as it is.
        shown("debian-12", "torch==2.9"),
    ];
    insta::assert_snapshot!(all.concat(), @"
    ubuntu-20.04 torch
    Python
      torch==2.15 brings its own CUDA 13.2 and cuDNN 9.26.0: driver 580.65.06 or
      newer is enough.
      Its wheels are for Python 3.11 to 3.15, and the system's is 3.8: uv
      (https://docs.astral.sh/uv) brings one that fits.
        uv venv --python 3.15 && uv pip install 'torch==2.15.*'
      No toolkit is planned. To compile extensions for it, add one:
        gpusetup plan --os ubuntu-20.04 --gpu l4 --for torch --profile compute
    ubuntu-24.04 tensorflow==2.15
    Python
      tensorflow==2.15 brings its own CUDA 12.2 and cuDNN 8.9.4: driver 525.60.13 or
      newer is enough.
      Its wheels are for Python 3.9 to 3.11, and the system's is 3.12: uv
      (https://docs.astral.sh/uv) brings one that fits.
        uv venv --python 3.11 && uv pip install 'tensorflow[and-cuda]==2.15.*'
      No toolkit is planned. To compile extensions for it, add one:
        gpusetup plan --os ubuntu-24.04 --gpu l4 --for tensorflow==2.15 --profile compute
    rocky-9 torch==2.9,vllm==0.12
    Python
      torch==2.9 brings its own CUDA 12.8 and cuDNN 9.10.2: driver 525.60.13 or
      newer is enough.
      Wheels of all of these are for Python 3.10 to 3.13, and the system's is 3.9:
      uv (https://docs.astral.sh/uv) brings one that fits.
        uv venv --python 3.13 && uv pip install 'torch==2.9.0.*'
      vllm==0.12 brings its own CUDA 12.9 and cuDNN 9.10.2: driver 525.60.13 or
      newer is enough.
        uv pip install 'vllm==0.12.*'
      No toolkit is planned. To compile extensions for it, add one:
        gpusetup plan --os rocky-9 --gpu l4 --for torch==2.9 --for vllm==0.12 --profile compute
    debian-12 torch==2.9
    Python
      torch==2.9 brings its own CUDA 12.8 and cuDNN 9.10.2: driver 525.60.13 or
      newer is enough.
        sudo apt-get install python3-venv
        python3 -m venv venv && venv/bin/pip install 'torch==2.9.*'
      No toolkit is planned. To compile extensions for it, add one:
        gpusetup plan --os debian-12 --gpu l4 --for torch==2.9 --profile compute
    ");
}
