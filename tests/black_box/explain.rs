//! `gpusetup explain` and `gpusetup db`, as a user runs them.

use crate::common::{Tree, run, run_with_input};
use gpusetup::causes;
use gpusetup::doctor::CHECKS;
use gpusetup::exit::EXITS;
use gpusetup::ids::CheckId;
use gpusetup_data::{error_codes, subjects};
use serde_json::Value;

/// What a run printed that succeeded.
fn told(arguments: &[&str]) -> String {
    let ran = run(arguments);
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    ran.out
}

#[test]
fn a_refusal_is_proved_from_published_facts() {
    let host = Tree::ubuntu_24_04();
    let ran = host.run(&["explain", "cuda", "13.0", "--gpu", "v100"]);
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = [
        "CUDA 13.0 does not fit.",
        "1. Tesla V100-SXM2-16GB has compute capability 7.0 (",
        "2. CUDA 13.0.3 targets 7.5 and up (",
        "So CUDA 13.0.3 does not fit",
        "Instead driver 580.178.04 (proprietary modules) + CUDA 12.9.1",
        "branch 580 is the last that",
    ];
    let mut rest = text.as_str();
    for part in expected {
        let at = rest
            .find(part)
            .unwrap_or_else(|| panic!("{part} is not next in: {rest}"));
        rest = &rest[at..];
    }
    assert!(
        ran.out.lines().all(|l| l.chars().count() <= 80),
        "{}",
        ran.out
    );
}

#[test]
fn a_contradiction_names_both_sides() {
    let host = Tree::ubuntu_24_04();
    let ran = host.run(&["plan", "--gpu", "h100", "--cuda", "13", "--driver", "535"]);
    insta::assert_snapshot!(host.typed_in_it(ran.refusal(4)), @"
    error: CUDA 13.5.0 does not fit: it needs driver 580.65.06 or newer, not 535.309.01 (GS707)
    because: CUDA 13.5.0 needs driver 580.65.06 or newer (nvcc of the nvidia-cuda-nvcc and cuda-toolkit wheels; version_13.5.0.json of CUDA 13.5.0; 2 more)
    because: driver 535.309.01 is the newest requested driver that fits (the request)
    try: gpusetup plan --gpu h100 --driver 535 --cuda 12.2.2  # fits: driver 535.309.01 (proprietary modules) + CUDA 12.2.2 + cuDNN 9.28.0.42
    ");
}

#[test]
fn what_fits_is_explained_too() {
    let ran = Tree::ubuntu_24_04().run(&["explain", "cuda", "12.8", "--gpu", "rtx 3090", "--json"]);
    let proof = ran.json();
    assert_eq!(proof["fits"], true);
    assert!(
        proof["reasons"].as_array().is_some_and(|r| r.len() >= 4),
        "{proof:#}"
    );
}

#[test]
fn checks_and_exit_codes_are_explained() {
    insta::assert_snapshot!(told(&["explain", "gs906"]), @"
    GS906 WSL2 uses the driver of Windows
      means     under WSL2 Windows provides the driver; do not install one inside
                WSL2
      reads     on WSL2: /dev/dxg, /usr/lib/wsl/lib, the installed driver,
                /etc/ld.so.cache
      look now  gpusetup doctor GS906
      do        leave the driver out
                  gpusetup plan --profile toolkit
    ");
    insta::assert_snapshot!(told(&["explain", "GS201"]), @"
    GS201 nouveau is blacklisted and bound to no GPU
      means     nouveau is bound to a GPU, or will be after the next boot: NVIDIA's
                driver needs nouveau blacklisted, also in the initramfs
      reads     the kernel driver bound to each GPU, modprobe's configuration, each
                kernel's initramfs
      follows   possibly from GS603
      look now  gpusetup doctor GS201
      do        blacklist nouveau, then reboot
                  sudo gpusetup doctor --fix
                  sudo reboot
    ");
    insta::assert_snapshot!(told(&["explain", "exit", "5"]), @"
    exit code 5
      means     manual action is required first: Secure Boot, mixed installs, a busy
                device, disk space; or a plan or lock file was made for another host
    ");
    for bad in [
        &["explain", "GS000"][..],
        &["explain", "exit", "99"],
        &["explain", "banana"],
        &["explain", "cuda", "x"],
    ] {
        let ran = run(bad);
        assert!(ran.code == 2 && !ran.err.is_empty(), "{bad:?}: {}", ran.err);
    }
}

#[test]
fn every_id_is_explained() {
    let rows = gpusetup_data::causes();
    let causes = causes::all(rows.clone());
    assert_eq!(causes.len(), CheckId::ALL.len(), "each id has a row");
    assert_eq!(rows.len(), CheckId::ALL.len(), "each row has an id");
    for row in rows {
        let id = row.id.parse().expect("an id");
        assert!(
            row.means.is_some() != causes::meaning(id).is_some()
                && !(row.remedy.is_some() && causes::remedy(id).is_some()),
            "{id}: the row and the program both have a text, or neither has"
        );
    }
    for cause in causes {
        let id = cause.id;
        assert_ne!(
            CHECKS.iter().any(|check| check.id == id),
            cause.elsewhere.is_some(),
            "{id} needs either a check or the name of what detects it"
        );
        let ran = run(&["explain", id.as_str()]);
        assert_eq!(ran.code, 0, "{id}: {}", ran.err);
        let output = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
        let remedy = cause
            .remedy
            .into_iter()
            .flat_map(|remedy| [vec![remedy.text], remedy.commands].concat());
        for part in [id.title().to_owned(), cause.means]
            .into_iter()
            .chain(cause.elsewhere)
            .chain(remedy)
        {
            assert!(output.contains(&part), "{id} lacks {part}: {output}");
        }
    }
}

#[test]
fn error_numbers_are_explained_by_number_and_by_name() {
    for (words, start) in [
        (
            &["cudaErrorNoDevice"][..],
            "CUDA error 100 cudaErrorNoDevice",
        ),
        (&["CUDA_ERROR_SYSTEM_NOT_READY"], "CUDA error 802 "),
        (&["error", "802"], "CUDA error 802 "),
        (&["cuda", "error", "35"], "CUDA error 35 "),
        (&["nvml", "18"], "NVML error 18 "),
        (&["cudnn status 1002"], "cuDNN error 1002 "),
        (&["ncclSystemError"], "NCCL error 2 "),
        (&["cudnn", "1002"], "cuDNN error 1002 "),
        (&["cublas", "13"], "cuBLAS error 13 "),
    ] {
        let ran = run(&[&["explain"], words].concat());
        let output = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            ran.code == 0 && output.starts_with(start),
            "{words:?}: {output}{}",
            ran.err
        );
        assert!(
            ran.out.contains("source    https://docs.nvidia.com/"),
            "{words:?}"
        );
    }
    // A version stays one.
    let version = run(&["explain", "cuda", "12.8", "--gpu", "h100"]);
    assert!(
        version.out.starts_with("CUDA 12.8"),
        "{}{}",
        version.out,
        version.err
    );
    assert_eq!(run(&["explain", "cuda", "error", "77777"]).code, 2);
}

#[test]
fn a_number_alone_may_mean_several_things() {
    insta::assert_snapshot!(run(&["explain", "802"]).refusal(2), @"
    error: cannot explain `802`
    try: gpusetup explain error 802  # an error of CUDA or a library
    ");
    insta::assert_snapshot!(run(&["explain", "8"]).refusal(2), @"
    error: cannot explain `8`
    try: gpusetup explain error 8  # an error of CUDA or a library
    try: gpusetup explain xid 8  # an error of the driver
    try: gpusetup explain exit 8  # an exit code
    ");
    insta::assert_snapshot!(run(&["explain", "--unattended"]).refusal(2), @"
    error: explain has no option --unattended
    try: gpusetup explain option unattended
    ");
}

#[test]
fn subjects_refer_to_subjects() {
    let others = error_codes()
        .into_iter()
        .flat_map(|error| error.see)
        .chain(subjects().into_iter().flat_map(|s| s.see));
    let others: std::collections::BTreeSet<_> = others.collect();
    assert!(others.len() > 10);
    for other in others {
        assert_eq!(run(&["explain", &other]).code, 0, "{other}");
    }
}

#[test]
fn options_rules_commands_and_files_are_explained() {
    for (words, part) in [
        (&["option", "unattended"][..], "--unattended Never prompt"),
        (&["accept-eula"], "GPUSETUP_ACCEPT_EULA"),
        (
            &["driver-branch-life"],
            "NVIDIA still maintains the driver branch",
        ),
        (&["cudnn-runs-on-gpu"], "It runs on the GPU"),
        (&["rollback"], "gpusetup rollback"),
        (&["/var/lib/gpusetup/journal"], "how to undo it"),
    ] {
        let ran = run(&[&["explain"], words].concat());
        assert!(
            ran.code == 0 && ran.out.contains(part),
            "{words:?}: {}{}",
            ran.out,
            ran.err
        );
    }
}

#[test]
fn the_shipped_database_is_sound_and_says_how_well_founded() {
    let ran = run(&["db", "check"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains(": 0 errors") && ran.out.contains("2+ SOURCES"),
        "{}",
        ran.out
    );
    let tally = run(&["db", "check", "--json"]).json();
    let kinds = tally["kinds"].as_array().expect("kinds");
    for kind in kinds {
        let number = |key: &str| kind[key].as_u64().expect("a number");
        assert_eq!(
            number("count"),
            number("one_source") + number("two_or_more"),
            "{kind}: a fact without a source"
        );
        let known = ["measured", "published", "reported", "assumed"]
            .map(number)
            .iter()
            .sum::<u64>();
        assert_eq!(
            number("count"),
            known,
            "{kind}: a fact that does not say how it is known"
        );
    }
    assert!(
        tally["disagreements"]
            .as_array()
            .is_some_and(|d| d.len() > 100)
    );
}

#[test]
fn all_wrong_facts_are_told_in_one_run() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    for (file, text) in [
        ("compat/version.yaml", "version: \"2026.11.20\"\n"),
        (
            "compat/sources.yaml",
            "sources:\n  - {id: a, title: A, location: here}\n",
        ),
        (
            "compat/nvswitches.yaml",
            "nvswitches:\n  - {device: \"1ac2\", name: X, generation: 1, sources: []}\n  - {device: \"1ac2\", name: Other, \
             generation: 1, sources: [b]}\n",
        ),
        ("manifests/x.yaml", "drivers: []\n"),
    ] {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    let ran = run(&["db", "check", folder.path().to_str().expect("UTF-8")]);
    assert_eq!(ran.code, 10);
    assert!(
        ran.out.contains("compat/nvswitches.yaml:3") && ran.out.lines().count() >= 3,
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn the_database_is_exported_under_the_names_of_the_contract() {
    let export = run(&["db", "export", "--json"]).json();
    assert_eq!(export["schema"], "gpusetup.db/1");
    let a100 = |g: &&Value| g["pci_id"] == "10de:20b2";
    let gpu = export["gpus"]
        .as_array()
        .expect("gpus")
        .iter()
        .find(a100)
        .expect("an A100");
    assert_eq!(
        (&gpu["compute_capability"], &gpu["architecture"]),
        (&Value::from("8.0"), &Value::from("Ampere"))
    );
    for list in [
        "architectures",
        "driver_branches",
        "drivers",
        "cuda",
        "cudnn",
        "frameworks",
        "mig_profiles",
    ] {
        assert!(export[list].is_array(), "{list}");
    }
    // Scripts read these from before there was a list of companions.
    let drivers = || {
        export["distributions"]
            .as_array()
            .expect("a list")
            .iter()
            .flat_map(|d| d["drivers"].as_array())
            .flatten()
    };
    assert!(
        drivers().all(|d| d["fabric_manager"] == d["companions"]["fabric-manager"]
            && d["imex"] == d["companions"]["imex"])
    );
    assert!(
        drivers().all(|d| d.get("imex").is_some())
            && drivers().any(|d| d["imex"] == "nvidia-imex-580")
    );
    let renames = export["renames"].as_array().expect("a list");
    let renamed = |role: &str, manager: &str| {
        let row = renames
            .iter()
            .find(|r| r["role"] == role && r["package_manager"] == manager)
            .expect("a change of name");
        ["before", "from", "after"].map(|key| row[key].as_str().unwrap_or_default())
    };
    assert_eq!(
        renamed("fabric-manager", "dnf"),
        ["nvidia-fabric-manager", "580.00", "nvidia-fabricmanager"]
    );
    assert_eq!(
        renamed("imex", "apt"),
        ["nvidia-imex-{branch}", "580.00", "nvidia-imex"]
    );
}

#[test]
fn the_grid_is_one_file() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("grid.html");
    let ran = run(&["db", "matrix", "--html", file.to_str().expect("UTF-8")]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        std::fs::read_to_string(&file)
            .expect("written")
            .starts_with("<!doctype html>")
    );
    assert_eq!(
        run(&["db", "matrix", "--html", "/no/such/folder/x.html"]).code,
        1
    );
}

#[test]
fn the_database_is_browsed() {
    let ran = run(&["db", "list", "cuda", "--for", "v100"]);
    assert!(
        ran.out.contains("12.9.1") && !ran.out.contains("13.0"),
        "{}",
        ran.out
    );
    let ran = run(&["db", "list", "gpus", "--for", "b200"]);
    assert!(ran.out.contains("10de:2901"), "{}", ran.out);
    insta::assert_snapshot!(told(&["db", "list", "companions"]), @"
    COMPANION       TITLE              VERSION       UNITS                         WHAT IT DOES
    fabric-manager  Fabric Manager     the driver's  nvidia-fabricmanager.service  starts and manages the NVSwitches that join the GPUs of a host
    imex            IMEX               the driver's  nvidia-imex.service           shares memory between the hosts of an NVLink domain
    nvlsm           nvlsm              its own       -                             manages the NVLink subnet of NVSwitches that are reached through InfiniBand functions
    dcgm            DCGM               its own       nvidia-dcgm.service           monitors and tests GPUs, for dcgmi and for exporters of metrics
    gds             GPUDirect Storage  its own       -                             moves data between storage and the memory of GPUs (nvidia-fs)
    peermem         nvidia-peermem     the driver's  -                             lets RDMA adapters reach the memory of GPUs where DMA-BUF cannot
    ");
    insta::assert_snapshot!(told(&["db", "list", "companions", "--for", "b200"]), @"
    COMPANION       TITLE           VERSION       UNITS                         WHAT IT DOES
    fabric-manager  Fabric Manager  the driver's  nvidia-fabricmanager.service  starts and manages the NVSwitches that join the GPUs of a host
    nvlsm           nvlsm           its own       -                             manages the NVLink subnet of NVSwitches that are reached through InfiniBand functions
    ");
    insta::assert_snapshot!(told(&["db", "show", "p100"]), @"
    Tesla P100-PCIE-12GB [10de:15f7]
      board     Pascal (chip GP100); data centre; PCIe; 12 GB
      compute   capability 6.0 (sm_60)
      driver    branches 367 to 580; newest production: 570.211.01; newest
                long-term: 580.178.04
      modules   proprietary
      cuda      8.0 to 12.9.2
      try       gpusetup plan --gpu p100
                gpusetup db list drivers --for p100
                gpusetup db list cuda --for p100
      source    supported-gpus.json of driver 615.71.09: Ubuntu package
                nvidia-kernel-common-615 (and 4 more, with -v)
    ");
    assert_eq!(run(&["db", "show", "h1000"]).code, 2);
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let page = run(&["man", "plan"]);
    assert!(
        page.code == 0 && page.out.contains("EXIT STATUS") && page.out.contains("GPUSETUP_OS"),
        "{}",
        page.err
    );
    assert!(run(&["man", "db", "list"]).out.contains("GPUSETUP-DB-LIST"));
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(
        run(&["man", "--directory", folder.path().to_str().expect("UTF-8")]).code,
        0
    );
    for file in ["gpusetup.1", "gpusetup-plan.1", "gpusetup-bundle-create.1"] {
        assert!(folder.path().join(file).is_file(), "{file}");
    }
    let wrong = run(&["man", "paln"]);
    insta::assert_snapshot!(wrong.refusal(2), @"
    error: there is no manual page for `paln`
    hint: gpusetup has facts, plan, apply, resume, rollback, uninstall, list, use, status, reboot-required, doctor, explain, db, cache, prune, mig, container, bundle, self, completions, man
    ");
}

/// The first cells of a list.
fn first_column(arguments: &[&str]) -> Vec<String> {
    let list = run(&[&["db", "list"], arguments].concat());
    assert_eq!(list.code, 0, "{arguments:?}: {}", list.err);
    list.out
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn lists_are_limited_to_what_fits() {
    let has = |list: &[String], name: &str| list.iter().any(|cell| cell == name);
    let drivers = first_column(&["drivers", "--cuda", "12.8", "--kernel", "6.18"]);
    assert!(
        has(&drivers, "580")
            && has(&drivers, "535")
            && !has(&drivers, "550")
            && !has(&drivers, "470"),
        "{drivers:?}"
    );
    let native = run(&["db", "list", "drivers", "--cuda", "12.8"]).out;
    assert!(
        native.contains("12.8.2 natively")
            && native.contains("12.8.2 by minor-version compatibility"),
        "{native}"
    );
    let packaged = first_column(&["drivers", "--os", "ubuntu-24.04"]);
    assert!(
        has(&packaged, "580") && !has(&packaged, "525"),
        "{packaged:?}"
    );

    let kepler = first_column(&["gpus", "--driver", "470"]);
    assert!(
        has(&kepler, "10de:102d") && !has(&kepler, "10de:2330"),
        "a K80, and no H100"
    );
    let new = first_column(&["gpus", "--cuda", "13"]);
    assert!(
        has(&new, "10de:2330") && !has(&new, "10de:1db1"),
        "an H100, and no V100"
    );

    let old = first_column(&["cuda", "--driver", "470"]);
    assert!(has(&old, "11.4.4") && !has(&old, "12.0.0"), "{old:?}");
    let trixie = first_column(&["cuda", "--os", "debian-13"]);
    assert!(
        has(&trixie, "13.2.1") && !has(&trixie, "12.8.1"),
        "glibc 2.41: {trixie:?}"
    );
    let nccl = run(&["db", "list", "add-ons", "--cuda", "11.8"]).out;
    assert!(nccl.contains("nccl") && !nccl.contains("2.32.3"), "{nccl}");
    assert!(has(
        &first_column(&["instances", "--for", "h100"]),
        "p5.48xlarge"
    ));
    assert!(has(
        &first_column(&["instances", "--for", "g5.xlarge"]),
        "g5.xlarge"
    ));
    assert!(has(
        &first_column(&["frameworks", "--cuda", "12.8"]),
        "torch==2.9"
    ));
    let kepler = first_column(&["frameworks", "--for", "k80"]);
    assert!(
        has(&kepler, "torch==1.13") && !has(&kepler, "torch==2.7"),
        "cuDNN 9.1 needs 5.0: {kepler:?}"
    );
    for (wrong, part) in [
        (
            &["gpus", "--kernel", "6.18"][..],
            "it takes --for, --driver, --cuda",
        ),
        (&["systems", "--cuda", "12.8"], "it takes no condition"),
        (&["drivers", "--kernel", "new"], "a kernel is expected"),
        (&["cuda", "--os", "ubuntu-3.04"], "known are ubuntu-26.04"),
        (&["drivers", "--cuda", "x.y"], "invalid value"),
    ] {
        let ran = run(&[&["db", "list"], wrong].concat());
        assert!(
            ran.code == 2 && ran.err.contains(part),
            "{wrong:?}: {}",
            ran.err
        );
    }
}

#[test]
fn lists_and_pages_are_printed_for_programs_too() {
    for kind in [
        "gpus",
        "drivers",
        "cuda",
        "cudnn",
        "add-ons",
        "frameworks",
        "components",
        "companions",
        "instances",
        "systems",
    ] {
        let list = run(&["db", "list", kind, "--json"]).json();
        assert_eq!(
            (list["schema"].as_str(), list["kind"].as_str()),
            (Some("gpusetup.list/1"), Some(kind))
        );
        let rows = list["rows"].as_array().expect("rows");
        assert!(
            rows.iter().all(Value::is_object) && !rows.is_empty(),
            "{kind}"
        );
    }
    let driver = run(&["db", "list", "drivers", "--json"]).json();
    let of_580 = |row: &&Value| row["branch"] == "580";
    let row = driver["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .find(of_580)
        .expect("branch 580")
        .clone();
    assert_eq!(
        (row["life_ends"].as_str(), row["kind"].as_str()),
        (Some("2028-06"), Some("long-term"))
    );
    let page = run(&["db", "show", "driver", "580", "--json"]).json();
    assert_eq!(
        (page["schema"].as_str(), page["subject"].as_str()),
        (Some("gpusetup.article/1"), Some("driver branch 580"))
    );
}

#[test]
fn a_page_fits_a_screen() {
    for (subject, part) in [
        (&["h100"][..], "capability 9.0"),
        (&["p4d.24xlarge"], "A100"),
        (&["driver", "580"], "natively up to 13.0"),
        (&["driver", "470.256.02"], "driver branch 470"),
        (&["cuda"], "no source states the checksum"),
        (&["cuda", "12.8"], "525.60.13 or newer"),
        (
            &["cuda", "12.9.1", "13.0.3"],
            "dropped   Maxwell (5.0, 5.2, 5.3), Pascal",
        ),
        (&["cuda", "12.9.1", "13.0.3"], "(10.1)"),
        (&["nccl"], "for CUDA 12"),
        (&["580"], "driver branch 580"),
        (&["centos-9"], "no source states the kernel"),
        (&["rocky-9:arm64"], "Rocky Linux 9"),
        (&["torch==2.9"], "CUDA 12.8"),
        (&["ubuntu-24.04"], "6.8.0-134-generic"),
        (&["rocky linux 9"], "glibc"),
    ] {
        let ran = run(&[&["db", "show"], subject].concat());
        assert!(
            ran.code == 0 && ran.out.contains(part),
            "{subject:?}: {}{}",
            ran.out,
            ran.err
        );
        assert!(ran.out.lines().count() <= 30, "{subject:?}: {}", ran.out);
        let fits = |line: &str| line.chars().count() <= 80 || line.contains("http");
        assert!(ran.out.lines().all(fits), "{subject:?}: {}", ran.out);
    }
    for wrong in [
        &["cuda", "99"][..],
        &["driver", "1"],
        &["h1000"],
        &["ubuntu-99"],
    ] {
        assert_eq!(run(&[&["db", "show"], wrong].concat()).code, 2, "{wrong:?}");
    }
}

#[test]
fn releases_packages_and_architectures_have_pages() {
    let host = Tree::debian_12();
    for (subject, part) in [
        ("580.65.06", "driver branch 580"),
        ("nvidia-driver-580-open", "driver branch 580"),
        ("cuda-toolkit-12-8", "CUDA 12.8.2"),
        ("cuda-13-0", "CUDA 13.0"),
        ("cuda 12", "CUDA 12.9.2"),
        ("cuda v12.4", "CUDA 12.4.1"),
        ("cuda cu124", "CUDA 12.4.1"),
        ("cuda newest", "CUDA 13."),
        ("driver nvidia-driver-580", "driver branch 580"),
        ("cudnn 8.9.7", "8.9.7.29 for CUDA 12"),
        ("ampere", "8.6 (sm_86)"),
        ("kernel 6.8", "Linux kernel"),
        ("NCCL_P2P_DISABLE", "NCCL"),
    ] {
        let ran = host.run(&["explain", subject]);
        assert!(
            ran.code == 0 && ran.out.contains(part),
            "{subject}: {}{}",
            ran.out,
            ran.err
        );
    }
}

#[test]
fn frameworks_get_what_they_are_made_with() {
    let host = Tree::ubuntu_24_04();
    let chosen = |arguments: &[&str]| {
        let plan = host
            .run(&[&["plan", "--json", "--profile", "compute"], arguments].concat())
            .json();
        let version = |layer: &str| {
            plan["selection"][layer]["version"]
                .as_str()
                .unwrap_or("none")
                .to_owned()
        };
        (
            version("cuda"),
            version("cudnn"),
            plan["reasons"][0]["text"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    };
    let (cuda, cudnn, why) = chosen(&["--gpu", "h100", "--for", "torch==2.9"]);
    assert!(
        cuda.starts_with("12.8.") && cudnn.starts_with("9.10.2"),
        "{cuda} {cudnn}"
    );
    assert_eq!(why, "torch==2.9 is built with CUDA 12.8 and cuDNN 9.10.2");
    // The default build has no kernels for Volta; another does.
    for (typed, means) in [
        ("torch 2.9", "torch==2.9"),
        ("torch=2.9", "torch==2.9"),
        ("torch==2.9.*", "torch==2.9"),
        ("torch>=2.4,<2.10", "torch==2.9"),
        ("torch>=2.4,<2.10,jax==0.7", "torch==2.9,jax==0.7"),
        ("torch ~= 2.9.0", "torch==2.9"),
        ("torch>=2.4", "torch"),
    ] {
        assert_eq!(
            chosen(&["--gpu", "h100", "--for", typed]),
            chosen(&["--gpu", "h100", "--for", means]),
            "{typed}"
        );
    }
    let (cuda, ..) = chosen(&["--gpu", "v100", "--for", "torch==2.14"]);
    assert!(cuda.starts_with("12.6."), "{cuda}");
    // Two together meet in the newest series that either needs.
    let (cuda, cudnn, _) = chosen(&["--gpu", "h100", "--for", "torch==2.14", "--for", "tf==2.20"]);
    assert!(
        cuda.starts_with("12.6.") && cudnn.starts_with("9.10"),
        "{cuda} {cudnn}"
    );
    // A toolkit named as well may be newer, and must be of the same major version as one of the
    // builds.
    let (cuda, ..) = chosen(&["--gpu", "h100", "--for", "torch==2.9", "--cuda", "12.9"]);
    assert!(cuda.starts_with("12.9."), "{cuda}");
    // A build without PTX ends with the architectures of its day.
    let (cuda, ..) = chosen(&["--gpu", "rtx 5090", "--for", "torch==2.7"]);
    assert!(
        cuda.starts_with("12.8."),
        "{cuda}: the default build for 12.6 has no kernels for Blackwell"
    );
}

#[test]
fn a_framework_that_cannot_be_served_is_told_with_what_is_near() {
    let host = Tree::ubuntu_24_04();
    let refused = |framework: &str| {
        let ran = host.run(&["plan", "--gpu", "h100", "--for", framework]);
        // A name that no framework has is a typo, a version that none has is not.
        let code = if framework.contains("==") { 4 } else { 2 };
        host.typed_in_it(ran.refusal(code))
    };
    insta::assert_snapshot!(refused("torch==2.99"), @"
    error: PyTorch 2.99 is not known (--for)
    hint: nearest known versions: 2.15, 2.14, 2.13, 2.12.1, 2.12.0
    try: gpusetup db list frameworks
    ");
    insta::assert_snapshot!(refused("torch==1.0"), @"
    error: PyTorch 1.0 is not known (--for)
    hint: nearest known versions: 1.12, 1.11, 1.10, 1.9, 1.8
    try: gpusetup db list frameworks
    ");
    insta::assert_snapshot!(refused("torchh"), @"
    error: no framework is called `torchh` (--for); did you mean torch?
    try: gpusetup plan --gpu h100 --for torch
    try: gpusetup db list frameworks
    ");
    let ran = host.run(&["plan", "--gpu", "b200", "--for", "torch==2.6"]);
    insta::assert_snapshot!(host.typed_in_it(ran.refusal(4)), @"
    error: no build of PyTorch 2.6 supports NVIDIA B200 (compute capability 10.0). Supported: 5.0 to 9.0 (CUDA 12.4), 5.0 to 9.0 (CUDA 12.6), 3.7 to 9.0 (CUDA 11.8)
    try: gpusetup plan --gpu b200 --for torch==2.15  # fits: driver 595.91.07 (open modules)
    ");
    let ran = host.run(&[
        "plan",
        "--gpu",
        "h100",
        "--for",
        "tf==2.4",
        "--for",
        "torch==2.14",
    ]);
    insta::assert_snapshot!(host.typed_in_it(ran.refusal(4)), @"
    error: the frameworks need different major versions of CUDA: tf==2.4 needs CUDA 11; torch==2.14 needs CUDA 13 or 12
    hint: plan for one of them, and run the others in a container
    try: gpusetup plan --gpu h100 --for torch==2.14  # fits: driver 595.91.07 (open modules)
    ");
}

#[test]
fn the_docs_have_the_exit_codes_of_the_program() {
    let rows = EXITS
        .map(|(exit, meaning)| format!("| {exit} | {meaning} |\n"))
        .concat();
    assert!(
        include_str!("../../docs/src/exit-codes.md").contains(&rows),
        "docs/src/exit-codes.md must have these rows:\n{rows}"
    );
    for (exit, meaning) in EXITS {
        let ran = run(&["explain", "exit", &exit.to_string()]);
        let words: Vec<_> = ran.out.split_whitespace().collect();
        assert_eq!(words.join(" "), format!("exit code {exit} means {meaning}"));
    }
}

/// What is printed for a tree must not change the machine that it is typed on.
#[test]
fn commands_for_a_tree_are_for_that_tree() {
    let host = Tree::debian_12();
    let root = host.path().display().to_string();
    for subject in [
        "GS401",
        "xid 119",
        "Failed to initialize NVML: Driver/library version mismatch",
    ] {
        let ran = host.run(&["explain", subject]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        for line in ran
            .out
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with("sudo "))
        {
            assert!(line.contains(&root), "{subject}: {line}");
        }
        assert!(
            !ran.out.contains("sudo reboot") && !ran.out.contains("--gpu-reset"),
            "{}",
            ran.out
        );
    }
}

#[test]
fn a_message_that_begins_like_a_subject_is_a_message() {
    for (text, title) in [
        ("GPU has fallen off the bus", "A GPU has fallen off the bus"),
        ("CUDA out of memory", "The GPU's memory is full"),
    ] {
        let ran = Tree::debian_12().run(&["explain", text]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{text}");
        assert!(ran.out.starts_with(title), "{}", ran.out);
    }
}

/// One rule: what is not known on the command line is a usage error; in a file or on standard input
/// it is an answer.
#[test]
fn what_is_not_known_has_one_exit_code() {
    let host = Tree::debian_12();
    for text in ["foo bar", "gpu number seven of the machine is hot", "x"] {
        let ran = host.run(&["explain", text]);
        assert!(
            ran.code == 2 && ran.err.contains(text),
            "{text}: {} {}",
            ran.code,
            ran.err
        );
    }
    let long = host.run(&["explain", "the fan of this machine makes noises"]);
    insta::assert_snapshot!(host.typed_in_it(long.refusal(2)).replace(char::is_numeric, ""), @"
    error: none of the  messages and errors that gpusetup knows is in `the fan of this machine makes noises`
    hint: open an issue at the project with the whole text and the cause, once you know it
    try: gpusetup doctor  # examines this host itself
    ");
    let file = host.path().join("odd.log");
    std::fs::write(&file, "the fan of this machine makes noises\n").expect("written");
    let ran = host.run(&["explain", &file.to_string_lossy()]);
    assert!(
        ran.code == 0 && ran.out.starts_with("Not recognised"),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn what_is_no_text_says_so() {
    let host = Tree::debian_12();
    let path = |name: &str| host.path().join(name).to_string_lossy().into_owned();
    let pipe = std::process::Command::new("mkfifo")
        .arg(path("pipe"))
        .status()
        .expect("mkfifo");
    assert!(pipe.success());
    std::fs::write(path("empty.log"), "\n").expect("written");
    let refused = [
        path("etc"),
        path("pipe"),
        path("none"),
        "none.log".to_owned(),
        path("empty.log"),
        " ".to_owned(),
    ]
    .map(|subject| host.typed_in_it(host.run(&["explain", &subject]).refused(2)));
    insta::assert_snapshot!(refused.join("\n"), @"
    error: cannot read /etc: it is a directory, not a regular file
    error: cannot read /pipe: it is a pipe, not a regular file
    error: cannot read /none: No such file or directory (os error 2)
    error: cannot read none.log: No such file or directory (os error 2)
    error: /empty.log is empty: there is nothing to explain
    error: there is nothing to explain: the subject is empty
    ");
    let ran = run_with_input(&["explain", "-"], "");
    insta::assert_snapshot!(ran.refused(2), @"error: standard input is empty: there is nothing to explain");
}

/// What a release is, needs no GPU. That it is not known is said with what is.
#[test]
fn a_release_is_described_without_a_gpu() {
    let host = Tree::debian_12();
    for (words, title) in [
        (["cuda", "13.0"], "CUDA 13.0"),
        (["driver", "580"], "driver branch 580"),
        (["cudnn", "9"], "cuDNN"),
        (["cuda", ">=12.4,<13"], "CUDA 12.9"),
        (["cuda", ">=12.4, <13"], "CUDA 12.9"),
    ] {
        let ran = host.run(&[&["explain"][..], &words].concat());
        assert!(
            ran.code == 0 && ran.out.to_lowercase().starts_with(&title.to_lowercase()),
            "{words:?}: {}{}",
            ran.out,
            ran.err
        );
        assert!(ran.out.contains("--gpu h100"), "{}", ran.out);
    }
    for (words, sentence) in [
        (
            ["cuda", "99"],
            "the database has no CUDA 99; the newest is ",
        ),
        (
            ["driver", "999"],
            "the database has no driver 999; the newest is ",
        ),
        (
            ["cudnn", "99"],
            "the database has no cuDNN 99; the newest is ",
        ),
    ] {
        let ran = host.run(&[&["explain"][..], &words].concat());
        assert!(
            ran.code == 2 && ran.err.contains(sentence),
            "{words:?}: {} {}",
            ran.code,
            ran.err
        );
    }
    let ran = host.run(&["explain", "cuda", "99", "--gpu", "h100"]);
    insta::assert_snapshot!(ran.refusal(2), @"
    error: the database has no CUDA 99; the newest is 13.5.0
    try: gpusetup db list cuda
    ");
    let ran = host.run(&["explain", "torch==99"]);
    insta::assert_snapshot!(ran.refusal(2), @"
    error: PyTorch 99 is not known
    hint: known versions: 2.15, 2.14, 2.13, 2.12.1, 2.12.0, 2.11, 2.10, 2.9, 2.8, 2.7, 2.6, 2.5, 2.4, 2.3, 2.2, 2.1, 2.0, 1.13, 1.12, 1.11, 1.10, 1.9, 1.8
    try: gpusetup explain torch
    ");
}

#[test]
fn a_framework_is_explained_for_the_gpus_that_are_named() {
    let article =
        |more: &[&str]| run(&[&["explain", "torch==2.9", "--json"], more].concat()).json();
    let builds = |article: &Value| article["python"].as_array().expect("builds").len();
    let (any, blackwell) = (article(&[]), article(&["--gpu", "rtx 5090"]));
    assert!(
        builds(&blackwell) < builds(&any),
        "one is built for CUDA 12.6, without Blackwell: {blackwell}"
    );
    assert!(
        blackwell
            .to_string()
            .contains("no kernels for NVIDIA GeForce RTX 5090"),
        "{blackwell}"
    );
    assert!(
        blackwell["run"]
            .to_string()
            .contains("gpusetup plan --gpu 'rtx 5090' --for torch==2.9"),
        "{blackwell}"
    );
    assert_eq!(run(&["explain", "torch==2.9", "--gpu", "6000"]).code, 2);
}

#[test]
fn an_option_is_explained_for_each_command() {
    insta::assert_snapshot!(told(&["explain", "option", "reboot"]), @"
    --reboot Who reboots the host when required: you, gpusetup, or external tooling
      values    never (You), if-needed (gpusetup, at most twice), external (External
                tooling)
      default   if-needed (gpusetup plan)
      default   never (gpusetup apply, resume, rollback, uninstall, use, doctor, mig
                apply)
      also as   GPUSETUP_REBOOT
      of        gpusetup plan, apply, resume, rollback, uninstall, use, doctor, mig
                apply
    ");
}

#[test]
fn a_proof_has_its_schema() {
    let ran = run(&["explain", "cuda", "13.0", "--gpu", "v100", "--json"]);
    let proof: Value = serde_json::from_str(&ran.out).expect("an object");
    assert_eq!(proof["schema"], "gpusetup.proof/1");
}

/// A table of nvidia-smi with a GPU that does not answer, one with errors in its memory, one that
/// is full.
const TABLE: &str = "\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:07:00.0 Off |                    3 |
| N/A   34C    P0             55W /  400W |       0MiB /  40960MiB |      0%      Default |
|                                         |                        |            Disabled* |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA A100-SXM4-40GB          On  |   00000000:0B:00.0 Off |                 ERR! |
|ERR!  ERR!  ERR!             ERR! / ERR! |       0MiB /  40960MiB |    ERR!         ERR! |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   2  NVIDIA A100-SXM4-40GB          On  |   00000000:0C:00.0 Off |                    0 |
| N/A   34C    P0             55W /  400W |   40900MiB /  40960MiB |    100%   Prohibited |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
";

/// What `explain -` prints for a text.
fn pasted(text: &str) -> String {
    let ran = run_with_input(&["explain", "-", "--today", "2026-11-29"], text);
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.out
}

#[test]
fn a_table_of_nvidia_smi_says_what_is_wrong() {
    insta::assert_snapshot!(pasted(TABLE), @"
    nvidia-smi shows ERR! in place of values
      > |ERR! ERR! ERR! ERR! / ERR! | 0MiB / 40960MiB | ERR! ERR! |
      says    The driver knows the GPU, but could not read its state.
      cause 1 The GPU hangs or was lost.
      check   sudo dmesg | grep -E 'Xid|fallen off'
              has a line for this GPU
      do      Explain the kernel log, then reboot. If it comes back, check power,
              temperature and the slot, or have the board replaced.
                sudo dmesg | gpusetup explain -
      cause 2 The release of the driver cannot read a single value of this board,
              such as the fan or the power.
      check   sudo dmesg | grep -E 'Xid|fallen off'
              prints nothing, and CUDA programs run
      do      Install another release of the driver. Programs run on the GPU
              meanwhile.
                gpusetup plan --upgrade

    What is wrong in this table of nvidia-smi
      driver    550.54.15: driver branch 550 is past its end of life (2025-04-17)
                and gets no more fixes.
      cuda      12.4 is the newest CUDA that this driver runs by itself. nvcc
                --version shows which toolkit is installed.
      wrong     GPU 1: ERR! in all values. The driver cannot reach it any more. An
                Xid in the kernel's log says why, and whether a reset is enough.
      wrong     GPU 0: 3 errors in its memory that ECC did not correct, since the
                driver was loaded. They end the programs that use that memory.
      wrong     GPU 0: the MIG mode changes when the GPU is reset, which needs all
                its programs stopped.
      wrong     GPU 2: the compute mode refuses all programs.
      wrong     GPU 2: its memory is full, and further programs get none.
      try       sudo dmesg | gpusetup explain -
                nvidia-smi -i 0 -q -d ECC,ROW_REMAPPER
                sudo nvidia-smi --gpu-reset -i 0
                sudo nvidia-smi -i 2 -c DEFAULT
                nvidia-smi -i 2 --query-compute-apps=pid,name,used_memory --format=csv
                gpusetup plan --profile driver
      see       gpusetup explain 'cuda version'; gpusetup explain gpu-util; gpusetup
                explain 'uncorr. ecc'
    ");
    // The head alone, on a driver from before CUDA was named, in a container, in WSL.
    let heads = [
        "| NVIDIA-SMI 375.88                 Driver Version: 375.88                    |",
        "Driver Version: 595.99.02      CUDA Version: 13.2",
        "| NVIDIA-SMI 580.65.06      Driver Version: 580.65.06      CUDA Version: N/A |",
        "| NVIDIA-SMI 555.42.03      Driver Version: 555.85         CUDA Version: 12.5 |",
    ];
    insta::assert_snapshot!(heads.map(pasted).concat(), @"
    Versions, as nvidia-smi prints them
      driver    375.88: driver branch 375 is past its end of life (years ago) and
                gets no more fixes.
      cuda      Drivers before 410 do not show the newest CUDA that they run. This
                one runs CUDA 8.0 and older.
      try       gpusetup plan --profile driver
      see       gpusetup explain 'cuda version'; gpusetup explain gpu-util; gpusetup
                explain 'uncorr. ecc'
    Versions, as nvidia-smi prints them
      driver    595.99.02, of branch 595, which is supported until 2027-03.
      cuda      13.2 is the newest CUDA that this driver runs by itself. nvcc
                --version shows which toolkit is installed.
      see       gpusetup explain 'cuda version'; gpusetup explain gpu-util; gpusetup
                explain 'uncorr. ecc'
    Versions, as nvidia-smi prints them
      driver    580.65.06, of branch 580, which is supported until 2028-06.
                580.178.04 has security fixes that it lacks.
      cuda      N/A: there is no libcuda.so.1 that works, so CUDA programs find no
                GPU. In a container, NVIDIA_DRIVER_CAPABILITIES lacks compute, or
                the engine did not pass the driver on.
      try       gpusetup plan --profile driver
      see       gpusetup explain 'cuda version'; gpusetup explain gpu-util; gpusetup
                explain 'uncorr. ecc'
    What is wrong in this table of nvidia-smi
      driver    555.85: driver branch 555 is past its end of life (2025-06-01) and
                gets no more fixes.
      cuda      12.5 is the newest CUDA that this driver runs by itself. nvcc
                --version shows which toolkit is installed.
      wrong     nvidia-smi has version 555.42.03, and the driver 555.85. In WSL 2
                this is right, because Windows has the driver. Elsewhere the
                programs were updated, and the old module stays loaded until a
                reboot.
      try       cat /proc/driver/nvidia/version
                gpusetup plan --profile driver
      see       gpusetup explain 'cuda version'; gpusetup explain gpu-util; gpusetup
                explain 'uncorr. ecc'
    ");
}

#[test]
fn a_healthy_table_is_said_to_be_healthy() {
    let healthy = TABLE
        .replace(
            "ERR! |\n|ERR!  ERR!  ERR!             ERR! / ERR!",
            "   0 |\n| N/A   34C    P0             55W /  400W",
        )
        .replace("ERR!         ERR!", "  0%      Default")
        .replace("   3 |", "   0 |")
        .replace("Disabled*", " Disabled")
        .replace("40900MiB", "  400MiB")
        .replace("Prohibited", "   Default");
    assert!(!healthy.contains("ERR!"), "{healthy}");
    insta::assert_snapshot!(pasted(&healthy), @"
    A table of nvidia-smi in which every GPU answers
      driver    550.54.15: driver branch 550 is past its end of life (2025-04-17)
                and gets no more fixes.
      cuda      12.4 is the newest CUDA that this driver runs by itself. nvcc
                --version shows which toolkit is installed.
      means     The driver answers, and reads all values of 3 GPUs (NVIDIA
                A100-SXM4-40GB).
      try       gpusetup plan --profile driver
      see       gpusetup explain 'cuda version'; gpusetup explain gpu-util; gpusetup
                explain 'uncorr. ecc'
    ");
}

#[test]
fn a_vulnerability_is_explained_by_its_bulletin() {
    let known = run(&["explain", "CVE-2025-33219"]);
    insta::assert_snapshot!(known.out, @"
    CVE-2025-33219 NVIDIA GPU Display Drivers, January 2026
      means     The vulnerability in this bulletin. The first releases with the
                fixes: drivers 535.288.01, 570.211.01, 580.126.09, 590.48.01.
      try       gpusetup doctor  # whether this host lacks the fix
      see       gpusetup explain GS513
      source    NVIDIA Product Security: bulletins and CVE records:
                https://github.com/NVIDIA/product-security (and 1 more, with -v)
    ");
    let unknown = run(&["explain", "cve-1999-0001"]);
    assert_eq!(unknown.code, 2);
    insta::assert_snapshot!(unknown.err, @"
    error: CVE-1999-0001 is in none of the 22 NVIDIA bulletins that gpusetup knows
    hint: NVIDIA lists all of them at https://www.nvidia.com/security
    try: gpusetup doctor  # whether this host lacks fixes that are known
    ");
    for (asked, title) in [
        ("GS 510", "GS510"),
        ("flash attention", "FlashAttention"),
        ("prebuilt", "Prebuilt kernel modules"),
    ] {
        let ran = run(&["explain", asked]);
        let first = ran.out.lines().next().unwrap_or_default();
        assert!(first.contains(title), "{asked}: {first}{}", ran.err);
    }
}
