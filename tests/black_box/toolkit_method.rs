//! `--toolkit-method`: where the toolkit comes from, and what is refused. What apt makes of the
//! files is tested in `tests/as_root/toolkit_repository.rs`.

use crate::common::{Tree, run};
use crate::schema;
use serde_json::{Value, json};

fn wish<'a>(os: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [
        &[
            "plan", "--os", os, "--gpu", "a100", "--cuda", "13.0", "--cudnn", "none", "--json",
        ],
        more,
    ]
    .concat()
}

/// The operations of a step.
fn operations<'a>(plan: &'a Value, step: &str) -> Vec<&'a Value> {
    let steps = plan["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .filter(|s| s["id"] == step);
    steps
        .flat_map(|s| s["operations"].as_array().expect("operations"))
        .collect()
}

const FROM_REPOSITORY: [&str; 4] = ["--profile", "toolkit", "--toolkit-method", "repository"];

#[test]
fn each_systems_repository_gives_the_toolkit_and_no_driver() {
    for (os, name) in [
        ("debian-12", "cuda-debian12-x86_64-toolkit"),
        ("debian-13", "cuda-debian13-x86_64-toolkit"),
        ("ubuntu-24.04:aarch64", "cuda-ubuntu2404-sbsa-toolkit"),
        ("rocky-9", "cuda-rhel9-x86_64-toolkit"),
        ("amzn-2023", "cuda-amzn2023-x86_64-toolkit"),
        ("sles-15", "cuda-sles15-x86_64-toolkit"),
    ] {
        let plan = run(&wish(os, &FROM_REPOSITORY)).json();
        assert_eq!(schema::mistakes("plan.json", &plan), [""; 0], "{os}");
        assert_eq!(plan["selection"]["cuda"]["method"], "repository", "{os}");
        let release = plan["selection"]["cuda"]["version"]
            .as_str()
            .expect("a version");
        let [added] = operations(&plan, "add-repository")[..] else {
            panic!("{os}: {plan}")
        };
        assert_eq!(
            (&added["name"], &added["packages"]),
            (&json!(name), &Value::Null),
            "{os}"
        );
        let taken: Vec<_> = added["any_version"]
            .as_array()
            .expect("patterns")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert!(
            taken.contains(&"cuda-*-13-0")
                && !taken.iter().any(|pattern| pattern.contains("nvidia")),
            "{taken:?}"
        );
        let [install] = operations(&plan, "install-cuda")[..] else {
            panic!("{os}: {plan}")
        };
        assert_eq!(install["install"], json!(["cuda-toolkit-13-0"]), "{os}");
        assert_eq!(
            install["versions"],
            json!({ "cuda-toolkit-13-0": format!("{release}-1") }),
            "{os}"
        );
        let links = operations(&plan, "fix-symlinks");
        assert!(
            links.iter().all(|link| link["path"] != "/usr/local/cuda"),
            "the packages make it: {links:?}"
        );
    }
}

#[test]
fn driver_and_toolkit_have_a_source_each() {
    let both = ["--method", "repository", "--toolkit-method", "repository"];
    let plan = run(&wish("debian-12", &both)).json();
    let added = operations(&plan, "add-repository");
    let names: Vec<_> = added
        .iter()
        .filter_map(|added| added["name"].as_str())
        .collect();
    assert_eq!(
        names,
        ["cuda-debian12-x86_64", "cuda-debian12-x86_64-toolkit"]
    );
    assert_eq!(added[0]["keys"], added[1]["keys"]);
    let mirrored = run(&wish(
        "debian-12",
        &[&both[..], &["--mirror", "https://mirror.example/nvidia"]].concat(),
    ))
    .json();
    for added in operations(&mirrored, "add-repository") {
        assert_eq!(
            added["url"],
            "https://mirror.example/nvidia/compute/cuda/repos/debian12/x86_64"
        );
    }
    // Enabled by somebody else, it is used as it is.
    let mut facts = run(&wish("rhel-9", &[])).json()["host"].take();
    facts["repositories"] =
        json!(["https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64 cuda"]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), facts.to_string()).expect("written");
    let path = file.path().to_str().expect("UTF-8");
    let plan = run(&[
        &["plan", "--facts", path, "--cuda", "13.0", "--json"],
        &FROM_REPOSITORY[..],
    ]
    .concat())
    .json();
    assert!(
        operations(&plan, "add-repository").is_empty()
            && operations(&plan, "install-cuda").len() == 1,
        "{plan}"
    );
}

#[test]
fn what_packages_cannot_give_is_refused() {
    let ask = |os: &'static str, more: &[&'static str]| {
        run(&[
            &["plan", "--os", os, "--gpu", "a100"],
            &FROM_REPOSITORY[..],
            more,
        ]
        .concat())
    };
    for (os, more, code, says) in [
        (
            "opensuse-leap-16",
            &[][..],
            4,
            "the database knows none with toolkits for openSUSE Leap 16",
        ),
        (
            "debian-11",
            &[],
            4,
            "the database knows none with toolkits for Debian 11",
        ),
        ("debian-12", &["--prefix", "/opt"], 2, "leave --prefix out"),
        (
            "debian-12",
            &["--components", "nvcc"],
            2,
            "installs whole toolkits",
        ),
        (
            "debian-12",
            &["--cuda", "13.0.0"],
            4,
            "those of CUDA 13.0 install its newest update",
        ),
        ("debian-12", &["--cuda", "12.3"], 4, "from CUDA 12.4 on"),
    ] {
        let ran = ask(os, more);
        let words = ran.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            ran.code == code && words.contains(says),
            "{os} {more:?}: {} {words}",
            ran.code
        );
    }
    // The key of a configuration file concerns only hosts that get a toolkit.
    let host = Tree::debian_12();
    host.write("config.yaml", "toolkit-method: repository\n");
    let config = host.path().join("config.yaml").display().to_string();
    let plan = |profile: &str| {
        run(&[
            "plan",
            "--os",
            "debian-12",
            "--gpu",
            "a100",
            "--config",
            &config,
            "--profile",
            profile,
            "--json",
        ])
    };
    assert_eq!(
        plan("toolkit").json()["selection"]["cuda"]["method"],
        "repository"
    );
    assert_eq!(plan("driver").json()["selection"]["cuda"], Value::Null);
}

#[test]
fn a_toolkit_comes_from_archives_or_the_runfile_by_request() {
    let of = |method: &str| {
        run(&wish(
            "ubuntu-24.04",
            &["--profile", "toolkit", "--toolkit-method", method],
        ))
        .json()
    };
    let downloads = |plan: &Value| {
        operations(plan, "install-cuda")
            .iter()
            .filter_map(|o| o["url"].as_str().map(str::to_owned))
            .collect::<Vec<_>>()
    };
    let archives = downloads(&of("components"));
    assert!(
        archives.len() > 20 && archives.iter().all(|url| url.contains("/redist/")),
        "{archives:?}"
    );
    let [runfile] = &downloads(&of("runfile"))[..] else {
        panic!("one file")
    };
    assert!(runfile.ends_with("_linux.run"), "{runfile}");
    assert_eq!(of("auto")["selection"], of("runfile")["selection"]);
}
