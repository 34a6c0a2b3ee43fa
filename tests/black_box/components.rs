//! Toolkits of single components.

use crate::common::{Tree, program, text};
use crate::schema;
use serde_json::Value;

/// The components that a plan comes to.
fn components(plan: &Value) -> Vec<&str> {
    let all = plan["selection"]["cuda"]["components"]
        .as_array()
        .expect("components");
    all.iter().map(|c| text(c, "/name")).collect()
}

#[test]
fn parts_of_a_toolkit_come_with_what_they_need() {
    let host = Tree::ubuntu_24_04();
    let ask = [
        "plan",
        "--gpu",
        "h100",
        "--cudnn",
        "none",
        "--components",
        "nvcc",
    ];
    let of = |cuda: &str| {
        host.run(&[&ask[..], &["--cuda", cuda, "--json"]].concat())
            .json()
    };
    let plan = of("13.0.2");
    assert_eq!(schema::mistakes("plan.json", &plan), [""; 0]);
    assert_eq!(
        components(&plan),
        [
            "cuda_nvcc",
            "cuda_cudart",
            "cuda_crt",
            "libnvvm",
            "cuda_cccl"
        ]
    );
    // Before CUDA 13 nvcc's headers and device compiler were in its own archive; since 13.3 cccl is
    // called so.
    assert_eq!(
        components(&of("12.4.1")),
        ["cuda_nvcc", "cuda_cudart", "cuda_cccl"]
    );
    assert_eq!(components(&of("13.3.1")).last(), Some(&"cccl"));

    let step = plan["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .find(|s| s["id"] == "install-cuda")
        .expect("a step");
    assert!(
        text(step, "/why").ends_with("instead of the runfile's 4.3 GB"),
        "{step:#}"
    );
    assert!(
        step["download_bytes"].as_u64().expect("bytes") < 100_000_000,
        "{step:#}"
    );
    let operations = step["operations"].as_array().expect("operations");
    let urls: Vec<_> = operations
        .iter()
        .filter_map(|o| o["url"].as_str())
        .collect();
    let base = "https://developer.download.nvidia.com/compute/cuda/redist";
    assert_eq!(
        urls[0],
        format!("{base}/cuda_nvcc/linux-x86_64/cuda_nvcc-linux-x86_64-13.0.88-archive.tar.xz")
    );
    assert_eq!(
        (urls.len(), operations.len()),
        (5, 13),
        "a download and an unpacking each, two links, version.json"
    );
    let last = operations.last().expect("some");
    assert_eq!(text(last, "/path"), "/usr/local/cuda-13.0/version.json");
    assert!(
        text(last, "/content").contains("\"version\": \"13.0.88\""),
        "{last:#}"
    );

    let shown = host.run(&[&ask[..], &["--cuda", "13.0.2"]].concat()).out;
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for says in [
        "CUDA 13.0.2 (nvcc, cudart, crt, nvvm, cccl)",
        "libnvvm is included as a dependency: cuda_nvcc runs its cicc",
        "73 MB",
    ] {
        assert!(shown.contains(says), "{says}: {shown}");
    }
    let with_cudnn = [
        "plan",
        "--gpu",
        "h100",
        "--json",
        "--cuda",
        "13.0.2",
        "--components",
        "cudart",
    ];
    assert!(
        components(&host.run(&with_cudnn).json()).contains(&"libcublas"),
        "cuDNN calls it"
    );
}

#[test]
fn components_are_named_in_every_way_there_is() {
    let host = Tree::ubuntu_24_04();
    let ask = [
        "plan", "--gpu", "h100", "--cudnn", "none", "--cuda", "12.4", "--json",
    ];
    let by_flags = host
        .run(
            &[
                &ask[..],
                &["--components", "cuda_cudart", "--components", "curand"],
            ]
            .concat(),
        )
        .json();
    assert_eq!(
        components(&by_flags),
        ["cuda_cudart", "libcurand", "cuda_cccl"]
    );
    let root = host.path().display().to_string();
    let mut program = program();
    program
        .args(ask)
        .args(["--root", &root])
        .env("GPUSETUP_COMPONENTS", "cudart,curand");
    let by_environment: Value =
        serde_json::from_slice(&program.output().expect("it runs").stdout).expect("JSON");
    assert_eq!(by_environment["selection"], by_flags["selection"]);
    for list in ["\"cudart,curand\"", "[\"cudart\", \"curand\"]"] {
        host.write("config.yaml", &format!("components: {list}\n"));
        let config = host.path().join("config.yaml").display().to_string();
        let by_config = host
            .run(&[&ask[..], &["--config", &config]].concat())
            .json();
        assert_eq!(by_config["selection"], by_flags["selection"], "{list}");
    }
    let arm = Tree::ubuntu_24_04()
        .arch(183)
        .run(&[&ask[..], &["--profile", "toolkit", "--components", "nvcc"]].concat());
    let unpack = arm.json()["steps"][3]["operations"].to_string();
    assert!(
        unpack.contains("targets/sbsa-linux/lib") && unpack.contains("-linux-sbsa-"),
        "{unpack}"
    );
}

#[test]
fn components_are_added_to_what_is_there() {
    let host = Tree::ubuntu_24_04();
    let version = |name: &str, version: &str| {
        format!("\"{name}\": {{\"name\": \"x\", \"version\": \"{version}\"}}")
    };
    let cuda = "\"cuda\": {\"name\": \"CUDA SDK\", \"version\": \"13.0.2\", \
                \"origin\": \"component archives, put together by gpusetup\"}";
    let parts = [
        version("cuda_cudart", "13.0.96"),
        version("cuda_crt", "13.0.88"),
        version("cuda_cccl", "13.0.85"),
    ];
    host.write(
        "usr/local/cuda-13.0/version.json",
        &format!("{{{cuda}, {}}}", parts.join(", ")),
    );
    let facts = host.run(&["facts", "--json"]).json();
    assert_eq!(schema::mistakes("facts.json", &facts), [""; 0]);
    assert_eq!(text(&facts, "/toolkits/0/origin"), "archives");
    let ask = |more: &[&str]| {
        host.run(
            &[
                &[
                    "plan",
                    "--gpu",
                    "h100",
                    "--json",
                    "--profile",
                    "toolkit",
                    "--cudnn",
                    "none",
                ][..],
                more,
            ]
            .concat(),
        )
    };
    let step = |plan: &Value| plan["steps"][3].clone();
    let same = ask(&["--components", "cudart"]).json();
    assert_eq!(
        (
            text(&same, "/selection/cuda/version"),
            text(&step(&same), "/state")
        ),
        ("13.0.2", "satisfied")
    );

    let more = ask(&["--components", "nvcc"]).json();
    let step = step(&more);
    assert_eq!(text(&step, "/title"), "Add to CUDA 13.0.2: nvcc, nvvm");
    let written = step["operations"]
        .as_array()
        .expect("operations")
        .last()
        .expect("version.json")
        .to_string();
    for name in [
        "cuda_cudart",
        "cuda_crt",
        "cuda_cccl",
        "cuda_nvcc",
        "libnvvm",
    ] {
        assert!(written.contains(name), "{name}: {written}");
    }
    for (more, says) in [
        (
            &["--components", "nvcc", "--cuda", "13.0.3"][..],
            "gpusetup uninstall --root ",
        ),
        (&["--cuda", "13.0.2"], "keep it with --components"),
    ] {
        let refused = ask(more);
        assert_eq!(refused.code, 5, "{more:?}: {}{}", refused.out, refused.err);
        assert!(refused.err.contains(says), "{}", refused.err);
    }
    // A whole toolkit lacks nothing.
    host.write("usr/local/cuda-12.9/bin/cuda-uninstaller", "");
    host.write("usr/local/cuda-12.9/bin/nvcc", "");
    let nvcc = host.path().join("usr/local/cuda-12.9/bin/nvcc");
    std::fs::set_permissions(nvcc, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("changed");
    let whole = ask(&["--cuda", "12.9", "--components", "npp"]).json();
    assert_eq!(
        text(&whole["steps"][3], "/state"),
        "satisfied",
        "{:#}",
        whole["steps"][3]
    );
}
