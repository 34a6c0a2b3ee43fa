//! What boards with NVSwitches need besides the driver, where gpusetup can install only a part of
//! it.

use crate::common::{Ran, run, run_with_input};
use serde_json::{Value, json};

/// The plan for the driver of a new host.
fn plan(os: &str, gpu: &str, request: &[&str]) -> Ran {
    run(&[
        &["plan", "--os", os, "--gpu", gpu, "--profile", "driver"],
        request,
    ]
    .concat())
}

/// The version of the chosen driver.
fn version(plan: &Value) -> &str {
    plan["selection"]["driver"]["version"]
        .as_str()
        .expect("a version")
}

#[test]
fn a_named_branch_gets_a_release_with_fabric_manager() {
    for (os, request) in [
        ("fedora-42", vec!["--driver", "595"]),
        ("debian-12", vec!["--driver", "595"]),
        ("rocky-10", vec!["--driver", ">=595"]),
        (
            "ubuntu-24.04",
            vec!["--driver", "595", "--method", "runfile"],
        ),
    ] {
        let found = plan(os, "8xh100", &[&request[..], &["--json"]].concat()).json();
        assert_eq!(found["selection"]["driver"]["branch"], "595", "{os}");
        let archive = format!(
            "fabricmanager-linux-x86_64-{}-archive.tar.xz",
            version(&found)
        );
        assert!(
            found["steps"].to_string().contains(&archive),
            "{os}: {}",
            found["steps"]
        );
        assert!(
            !found["warnings"].to_string().contains("GS801"),
            "{os}: {}",
            found["warnings"]
        );
    }
    // A release whose Fabric Manager is not known is refused, until its whole version is named.
    let refused = plan("fedora-42", "8xh100", &["--driver", "595.99"]);
    assert_eq!(refused.code, 4, "{}", refused.out);
    for part in [
        "Fabric Manager",
        "try: gpusetup plan --os fedora-42 --gpu 8xh100 --driver 595 --profile driver",
    ] {
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
    let named = plan("fedora-42", "8xh100", &["--driver", "595.99.02", "--json"]).json();
    assert_eq!(version(&named), "595.99.02");
    assert!(
        named["warnings"].to_string().contains("GS801"),
        "{}",
        named["warnings"]
    );
}

#[test]
fn what_nvlsm_keeps_away_is_suggested_with_the_whole_version() {
    // By itself the driver would be one with all security fixes.
    for (request, driver) in [
        (vec![], "580.178.04"),
        (vec!["--driver", "595"], "595.71.05"),
    ] {
        let refused = plan("rocky-10", "8xb200", &request);
        assert_eq!(refused.code, 5, "{request:?}: {}", refused.out);
        let suggested = format!(
            "try: gpusetup plan --os rocky-10 --gpu 8xb200 --driver {driver} --profile driver"
        );
        assert!(
            refused.err.contains(&suggested),
            "{request:?}: {}",
            refused.err
        );
    }
    let planned = plan("rocky-10", "8xb200", &["--driver", "595.71.05", "--json"]).json();
    assert!(
        planned["warnings"].to_string().contains("nvlsm"),
        "{}",
        planned["warnings"]
    );
}

/// The texts of a plan's warnings of NVSwitches.
fn warnings(plan: &Value) -> String {
    let all = plan["warnings"]
        .as_array()
        .expect("warnings")
        .iter()
        .filter(|warning| warning["check"] == "GS801");
    all.filter_map(|warning| warning["text"].as_str())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn commands_for_what_is_missing_need_a_repository_that_can_have_it() {
    for (os, gpu, request, package, instead) in [
        (
            "fedora-42",
            "8xh100",
            vec!["--driver", "595.99.02"],
            "nvidia-fabricmanager",
            "without --driver, the plan gets",
        ),
        (
            "debian-12",
            "8xh100",
            vec!["--driver", "595.99.02"],
            "nvidia-fabricmanager",
            "--method repository gets",
        ),
        ("debian-12:aarch64", "4xgb200", vec![], "nvidia-imex", ""),
        (
            "ubuntu-24.04:aarch64",
            "gb200",
            vec!["--method", "runfile"],
            "nvidia-imex",
            "--method packages gets",
        ),
    ] {
        let found = warnings(&plan(os, gpu, &[&request[..], &["--json"]].concat()).json());
        assert!(
            found.contains(&format!(
                "(package {package} in NVIDIA's repositories; no enabled one has it)"
            )),
            "{found}"
        );
        assert!(!found.contains("install '"), "{os}: {found}");
        assert_eq!(
            found.lines().count(),
            1 + usize::from(!instead.is_empty()),
            "{os}: {found}"
        );
        assert!(found.contains(instead), "{os}: {found}");
    }
    // NVIDIA's repository has every version.
    let mut facts = plan("fedora-42", "8xh100", &["--json"]).json()["host"].take();
    let url = "https://developer.download.nvidia.com/compute/cuda/repos/fedora42/x86_64";
    facts["repositories"]
        .as_array_mut()
        .expect("repositories")
        .push(json!(url));
    let request = [
        "plan",
        "--facts",
        "-",
        "--profile",
        "driver",
        "--driver",
        "595.99.02",
        "--method",
        "runfile",
        "--json",
    ];
    let found = warnings(&run_with_input(&request, &facts.to_string()).json());
    assert!(
        found.contains("sudo dnf install 'nvidia-fabricmanager-595.99.02*'"),
        "{found}"
    );
}

#[test]
fn a_driver_without_fabric_manager_is_not_held_and_the_title_says_what_happens() {
    for (os, origin, instead) in [
        ("ubuntu-24.04", "dpkg", "--upgrade gets driver"),
        ("rocky-9", "rpm", ""),
    ] {
        let mut facts = plan(os, "8xh100", &["--json"]).json()["host"].take();
        facts["driver"] = json!({ "version": "570.133.20", "origin": origin, "modules": "open", "evidence": "libcuda" });
        let request = ["plan", "--facts", "-", "--profile", "driver", "--json"];
        let kept = run_with_input(&request, &facts.to_string()).json();
        assert_eq!(version(&kept), "570.133.20", "{os}");
        assert!(
            !kept["steps"].to_string().contains("\"hold\""),
            "{os}: {}",
            kept["steps"]
        );
        let step = kept["steps"]
            .as_array()
            .expect("steps")
            .iter()
            .find(|step| step["id"] == "companions");
        assert_eq!(
            step.map(|step| &step["state"]),
            Some(&json!("skipped")),
            "{os}: {}",
            kept["steps"]
        );
        let found = warnings(&kept);
        assert!(
            found.contains("no enabled one has it") && found.contains(instead),
            "{os}: {found}"
        );
    }
    for (os, request, title) in [
        (
            "opensuse-leap-15",
            "595.99.02",
            "Load the kernel modules for the NVSwitches",
        ),
        ("rocky-10", "595.71.05", "Install Fabric Manager"),
    ] {
        let planned = plan(os, "8xb200", &["--driver", request]);
        assert!(
            planned.out.contains(&format!("companions        {title}")),
            "{os}: {}{}",
            planned.out,
            planned.err
        );
        assert!(
            !planned.out.contains("Set up Fabric Manager"),
            "{os}: {}",
            planned.out
        );
    }
}

#[test]
fn the_command_that_names_peers_keeps_the_request() {
    for (request, command) in [
        (
            vec![],
            "sudo gpusetup apply --profile driver --imex-peers ADDRESS,ADDRESS",
        ),
        (
            vec!["--driver", "595"],
            "sudo gpusetup apply --driver 595 --profile driver --imex-peers ADDRESS,ADDRESS",
        ),
    ] {
        let planned = plan(
            "ubuntu-24.04:aarch64",
            "gb200",
            &[&request[..], &["--json"]].concat(),
        )
        .json();
        assert!(
            warnings(&planned).contains(command),
            "{}",
            planned["warnings"]
        );
    }
}
