//! `--for`, compared with what the wheels on PyPI say: `xtask/recorded/wheels.tsv` is a second
//! opinion, which the database's own files do not touch.

use crate::common::{Ran, Tree, run};
use gpusetup::resolve::PythonPackage;
use std::collections::BTreeMap;
use std::path::Path;

fn plan(host: &Tree, gpu: &str, arguments: &[&str]) -> Ran {
    host.run(&[&["plan", "--json", "--gpu", gpu], arguments].concat())
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

#[test]
fn plans_are_within_what_the_wheels_require() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("xtask/recorded/wheels.tsv");
    let table =
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let rows: Vec<Vec<_>> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect())
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
            torch,
            _nvcc,
        ] = row.as_slice()
        else {
            panic!("{row:?}")
        };
        let cudnn = torch.strip_prefix('=').map_or(*cudnn, of_torch);
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
        let (cuda, cudnn) = chosen(&plan(&host, "a100", &["--for", release]));
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
        let (cuda, cudnn) = chosen(&plan(&host, gpu, &["--for", release]));
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
            chosen(&plan(&host, gpu, arguments)).0,
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
            chosen(&plan(&host, gpu, &["--for", release])).0,
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
    let warnings = |gpu: &str| {
        let ran = plan(&host, gpu, &["--for", "tensorflow==2.21"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let all = ran.json()["warnings"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        all.iter()
            .filter(|warning| warning["check"] == "GS713")
            .map(|w| w["text"].to_string())
            .collect::<Vec<_>>()
    };
    assert!(warnings("h100").is_empty());
    let [compiled] = &warnings("b200")[..] else {
        panic!("one warning")
    };
    assert!(
        compiled.contains("tensorflow==2.21: on GPUs newer than 9.0 its kernels are compiled"),
        "{compiled}"
    );
    let [_, xla] = &warnings("rtx 5090")[..] else {
        panic!("two warnings")
    };
    assert!(
        xla.contains("XLA (jit_compile=True) was reported to fail"),
        "{xla}"
    );
}

#[test]
fn a_list_of_builds_leaves_out_those_without_kernels() {
    let ran = crate::common::run(&["db", "list", "frameworks", "--for", "b200"]);
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
    assert!(
        ran.code == 4 && ran.err.contains("needs driver 580"),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn where_no_toolkit_compiles_the_driver_alone_is_suggested_for_wheels() {
    let sid = Tree::debian_sid(15);
    let ran = plan(&sid, "a100", &["--for", "torch==2.1"]);
    let hint = "--for torch==2.1 --profile driver";
    assert!(
        ran.code == 4 && ran.err.contains("do not compile with glibc") && ran.err.contains(hint),
        "{}",
        ran.err
    );
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
    assert!(
        ran.code == 4 && !ran.err.contains("flash-attn==2.6 --profile driver"),
        "{}",
        ran.err
    );
    // So does a user who asks for a toolkit that does not exist for other reasons.
    let ran = plan(&sid, "a100", &["--for", "torch==2.1", "--driver", "470"]);
    assert!(
        ran.code == 4 && !ran.err.contains("without a toolkit"),
        "{}",
        ran.err
    );
}

#[test]
fn several_frameworks_get_what_all_of_them_take() {
    let host = Tree::ubuntu_24_04();
    // PyTorch is made with 12.8, which JAX takes.
    let (cuda, cudnn) = chosen(&plan(&host, "h100", &["--for", "torch==2.9,jax==0.10"]));
    assert!(
        cuda == "12.8" && cudnn.starts_with("9.10."),
        "{cuda} {cudnn}"
    );
    let (cuda, cudnn) = chosen(&plan(&host, "h100", &["--for", "tf==2.20,jax==0.10"]));
    assert!(
        cuda.starts_with("12.") && within(&cudnn, ">=9.8, <10", 2),
        "{cuda} {cudnn}"
    );
    // One toolkit has one cuDNN.
    let ran = plan(&host, "h100", &["--for", "torch==2.3,tf==2.20"]);
    assert_eq!(ran.code, 4, "{}", ran.out);
    for fact in [
        "different major versions of cuDNN",
        "torch==2.3 needs cuDNN 8",
        "tf==2.20 needs cuDNN 9",
    ] {
        assert!(ran.err.contains(fact), "{fact}: {}", ran.err);
    }
}

#[test]
fn wheels_that_need_a_newer_glibc_are_refused() {
    let rocky = || Tree::rocky_9().glibc("2.34-100.el9");
    let ran = rocky().run(&["plan", "--gpu", "h100", "--for", "vllm==0.20"]);
    assert_eq!(ran.code, 4, "{}", ran.out);
    for part in [
        "vLLM 0.20 need glibc 2.35",
        "this system has 2.34",
        "--for vllm==0.33",
        "--cuda 13.0 --cudnn 9.19",
    ] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
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
        ("transformer-engine==2.20", "12."),
        ("torch==2.9,transformer-engine==2.9", "12.8"),
    ] {
        let (found, _) = chosen(&plan(&host, "a100", &["--for", release]));
        assert!(found.starts_with(cuda), "{release}: {found}");
    }
}

#[test]
fn aarch64_gets_what_is_published_for_it() {
    let arm = || Tree::ubuntu_24_04().arch(183);
    // PyPI has only CPU wheels, and no other index is known to have more.
    let ran = plan(&arm(), "gh200", &["--for", "torch==2.5"]);
    assert_eq!(ran.code, 4, "{}", ran.out);
    for part in [
        "PyTorch 2.5 for aarch64 do not include CUDA",
        "--for torch==2.6",
        "--cuda 12.4 --cudnn 9.1",
    ] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
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
        let ran = plan(&arm(), "gh200", &["--for", release]);
        let shown = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            shown.contains("its PyPI wheels for aarch64 do not include CUDA"),
            "{}",
            ran.out
        );
        assert_eq!(chosen(&ran).0, series, "{release}");
    }
    let ran = plan(&arm(), "gh200", &["--for", "torch==2.11"]);
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
        assert_eq!(ran.code, 4, "{release}: {}", ran.out);
        assert!(ran.err.contains("needs driver 580"), "{}", ran.err);
    }
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
        chosen(&plan(&host, "h100", &["--for", "xgboost==3.4,torch==2.9"])).0,
        "12.8"
    );
    assert!(
        chosen(&plan(&host, "h100", &["--for", "triton", "--cudnn", "9"]))
            .1
            .starts_with("9.")
    );
}

#[test]
fn extensions_go_with_the_framework_they_extend() {
    let host = Tree::ubuntu_24_04();
    for (release, both) in [
        ("flash-attn==2.8", "--for torch=="),
        ("bitsandbytes==0.45", "--for torch==2.10,bitsandbytes==0.45"),
    ] {
        let ran = plan(&host, "h100", &["--for", release]);
        assert_eq!(ran.code, 4, "{}", ran.out);
        assert!(
            ran.err.contains("same CUDA as the PyTorch it extends") && ran.err.contains(both),
            "{}",
            ran.err
        );
    }
    for (frameworks, series) in [
        ("torch==2.9,flash-attn==2.8", "12.8"),
        ("torch==2.14,flash-attn==2.8", "13.0"),
        ("torch==2.9,bitsandbytes==0.49", "12.8"),
        ("bitsandbytes==0.49,torch==2.13", "13.0"),
        // Its wheels have no library for CUDA 13, PyTorch has a build for 12.6.
        ("torch==2.14,bitsandbytes==0.45", "12.6"),
        // From 0.50 on it takes the nearest library.
        ("torch==2.4,bitsandbytes==0.50", "12.1"),
    ] {
        let ran = plan(&host, "h100", &["--for", frameworks]);
        assert_eq!(chosen(&ran).0, series, "{frameworks}");
    }
    let ran = plan(&host, "a100", &["--for", "torch==1.13,bitsandbytes==0.49"]);
    assert_eq!(ran.code, 4, "{}", ran.out);
    assert!(
        ran.err.contains("no builds match") && ran.err.contains("for CUDA 11.7"),
        "{}",
        ran.err
    );
}

#[test]
fn compilers_are_as_new_as_the_wheels_require() {
    let host = Tree::ubuntu_24_04();
    // JAX requires ptxas of CUDA 12.6.3, and runs with libraries of 12.1.
    let ran = plan(&host, "h100", &["--for", "jax==0.10", "--cuda", "12.4"]);
    assert_eq!(ran.code, 4, "{}", ran.out);
    assert!(ran.err.contains("nvcc 12.6.3 or newer"), "{}", ran.err);
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
    let hints = |err: &str| {
        err.lines()
            .filter(|line| line.starts_with("hint: ") || line.starts_with("try: "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    // Whatever the libraries: cuDF has no kernels for Maxwell, so neither a container nor a build
    // from source helps.
    let old = Tree::rocky_9();
    old.write(
        "etc/os-release",
        "PRETTY_NAME=\"CentOS 7\"\nID=centos\nID_LIKE=\"rhel fedora\"\nVERSION_ID=7\n",
    );
    let ran = plan(&old, "gtx 980", &["--for", "cudf==25.10"]);
    assert!(
        ran.code == 4 && ran.err.contains("no build of RAPIDS cuDF 25.10 supports"),
        "{}",
        ran.err
    );
    assert!(!ran.err.contains("for a build from source"), "{}", ran.err);
    // vLLM 0.6.3 says nothing of GPUs: without a toolkit nothing would tell that its CUDA is too
    // old for this one.
    for host in [Tree::ubuntu_24_04(), Tree::debian_sid(15)] {
        let ran = plan(&host, "rtx 5090", &["--for", "vllm==0.6.3"]);
        assert!(
            ran.code == 4 && !ran.err.contains("--for vllm==0.6.3"),
            "{}",
            ran.err
        );
    }
    // What is suggested may be slow, or not build: that is told with it.
    let ran = plan(
        &Tree::ubuntu_24_04(),
        "b200",
        &["--for", "tensorflow==2.15"],
    );
    let all = hints(&ran.err);
    assert!(
        all.iter()
            .any(|hint| hint.contains("--for tensorflow==2.21")),
        "{all:?}"
    );
    assert!(
        all.iter()
            .any(|hint| hint.starts_with("hint: the alternative has a limit: tensorflow==2.21: ")),
        "{all:?}"
    );
}

#[test]
fn tensorrt_8_gets_the_cudnn_that_its_plugins_load() {
    let ran = plan(&Tree::ubuntu_24_04(), "a100", &["--for", "tensorrt==8.6"]);
    assert!(chosen(&ran).1.starts_with("8.9."), "{}", ran.out);
}

/// The recorded requirements of PyPI's packages are a second opinion on what they bring.
#[test]
fn a_driver_is_enough_where_the_packages_of_pypi_require_cuda_and_cudnn() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("xtask/recorded/requirements.tsv");
    let table =
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let database = gpusetup::database::embedded();
    let mut compared = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let row: Vec<_> = line.split('\t').collect();
        let [name, version, package, _, _, cuda, cudnn] = row.as_slice() else {
            panic!("{row:?}")
        };
        let wish = format!("{name}=={version}");
        let framework = database.framework(name).expect("a framework");
        let release = database.framework_release(&wish).expect("a release");
        let builds = release.builds.iter().filter(|build| build.is_for("x86_64"));
        let all: Vec<_> = builds
            .map(|b| PythonPackage::of(&database, framework, release, b, &wish, "x86_64"))
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
            build.needs_only_driver(),
            brings || needs_nothing,
            "{wish}: {build:?}"
        );
        compared += 1;
    }
    assert!(compared > 250, "{compared}");
}

#[test]
fn plans_name_the_command_that_installs_a_framework_and_whether_a_driver_is_enough() {
    let host = Tree::ubuntu_24_04();
    let ran = host.run(&["plan", "--gpu", "h100", "--for", "torch==2.9"]);
    let enough = "brings its own CUDA 12.8 and cuDNN 9.10.2: driver 525.60.13 or newer is enough";
    let one_line = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(one_line.contains(enough), "{}", ran.out);
    assert!(
        ran.out.contains("    pip install 'torch==2.9.*'\n"),
        "{}",
        ran.out
    );
    assert!(
        !ran.out.contains("uv pip"),
        "the others with -v: {}",
        ran.out
    );
    // The command that it prints plans the driver alone.
    let command = ran
        .out
        .lines()
        .find(|line| line.starts_with("    gpusetup plan "))
        .expect("a command");
    assert!(
        command.contains("--for torch==2.9 --profile driver"),
        "{command}"
    );
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
    assert!(
        ran.code == 0 && !ran.out.contains("only for compiling"),
        "{}",
        ran.out
    );
    assert!(
        ran.out.contains("uv pip install 'torch==2.9.*'") && ran.out.contains("nvcc of CUDA 12.8"),
        "{}",
        ran.out
    );
    // The default build has no kernels for a P100; the one that has is on an index of the project.
    let ran = host.run(&["plan", "--gpu", "p100", "--for", "torch==2.9"]);
    let index = "pip install 'torch==2.9.*' --index-url https://download.pytorch.org/whl/cu126";
    assert!(ran.out.contains(index), "{}", ran.out);
    // A newer GPU needs a newer driver than the CUDA of the build does.
    let ran = host.run(&["plan", "--gpu", "rtx 5090", "--for", "torch==2.9"]);
    let one_line = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        one_line.contains("and cuDNN 9.10.2: driver 570."),
        "{}",
        ran.out
    );
    // What brings no CUDA needs the toolkit, and no plan without one is suggested.
    let ran = host.run(&["plan", "--gpu", "t4", "--for", "tensorflow==2.13"]);
    assert!(
        ran.out.contains("pip install 'tensorflow==2.13.*'"),
        "{}",
        ran.out
    );
    assert!(
        ran.out.contains("does not bring CUDA") && !ran.out.contains("--profile driver"),
        "{}",
        ran.out
    );
    // Nothing of it where no framework was asked for.
    assert!(!host.run(&["plan", "--gpu", "h100"]).out.contains("Python"));
}

#[test]
fn explain_has_every_build_of_a_release_with_its_index() {
    let ran = crate::common::run(&["explain", "torch==2.5"]);
    for expected in [
        "pip install 'torch==2.5.*'\n",
        "uv pip install 'torch==2.5.*' --index-url https://download.pytorch.org/whl/cu121\n",
        "conda install pytorch=2.5 pytorch-cuda=12.4 -c pytorch -c nvidia\n",
        "gpusetup plan --for torch==2.5 --profile driver",
    ] {
        assert!(ran.out.contains(expected), "{expected}: {}", ran.out);
    }
    // The wheels for aarch64 on PyPI have no CUDA.
    let ran = crate::common::run(&["explain", "torch==2.9", "--os", "ubuntu-24.04:arm64"]);
    assert!(
        ran.out
            .contains("'torch==2.9.*' --index-url https://download.pytorch.org/whl/cu128"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("conda install"), "{}", ran.out);
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
    for label in ["cpu", "rocm6.3", "cu999"] {
        let ran = of(&format!("torch==2.7.1+{label}"));
        assert_eq!(ran.code, 4, "{label}: {}", ran.out);
        assert!(
            ran.err.contains(&format!(
                "has no build +{label} with CUDA; its builds are +cu126"
            )),
            "{}",
            ran.err
        );
        assert!(ran.err.contains("--for torch==2.7.1"), "{}", ran.err);
    }
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
    let unknown = asked("numpy").err;
    assert!(
        unknown.contains("known frameworks: torch") && !unknown.contains("did you mean"),
        "{unknown}"
    );
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
    assert!(
        none.code == 4
            && none
                .err
                .contains("has no build for the CUDA in `jax[cuda11]`"),
        "{}",
        none.err
    );
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
    let refused = plan(
        &Tree::ubuntu_24_04(),
        "rtx 4090",
        &["--for", "torch==1.13.1"],
    );
    assert!(
        refused.code == 4 && refused.err.contains("--for torch==1.13.1 --profile driver"),
        "{}",
        refused.err
    );
}
