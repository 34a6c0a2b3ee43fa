//! What `plan` warns of beside its steps, and what a request that cannot be is answered with.

use crate::common::{Tree, run, run_with_input, warnings};
use serde_json::{Value, json};
use std::fs::File;

#[test]
fn a_configuration_that_keeps_the_module_out_is_found_before_the_install() {
    let host = Tree::debian_12().gpu("0000:17:00.0", "20b2", None);
    let plan = host.run(&["plan", "--json"]).json();
    assert_eq!(warnings(&plan, "GS204"), [""; 0]);
    assert!(
        plan["host"].get("blocked_modules").is_none(),
        "facts without it stay as they were"
    );
    for (line, when) in [
        ("blacklist nvidia", "during boot"),
        ("alias nvidia off", "from being loaded;"),
        ("install nvidia /bin/false", "from being loaded;"),
    ] {
        host.write("etc/modprobe.d/own.conf", &format!("# ours\n{line}\n"));
        let plan = host.run(&["plan", "--json"]).json();
        let [text] = warnings(&plan, "GS204").try_into().expect("one warning");
        // Here the line would be one of this machine's own file.
        let remove = format!(
            "sudo chroot {} sed -i 2d /etc/modprobe.d/own.conf",
            host.path().display()
        );
        for part in [
            "/etc/modprobe.d/own.conf:2 keeps the kernel module nvidia",
            when,
            &remove,
        ] {
            assert!(text.contains(part), "{line}: {part}: {text}");
        }
        let toolkit = host.run(&["plan", "--json", "--profile", "toolkit"]).json();
        assert_eq!(
            warnings(&toolkit, "GS204"),
            [""; 0],
            "no driver is installed"
        );
    }
}

/// Whoever made a tree chose the names in it.
#[test]
fn a_name_in_a_tree_becomes_no_command_and_stops_none() {
    let tree = Tree::debian_12().gpu("0000:17:00.0", "20b2", None);
    let names = [
        "a sudo $(touch pwned) gpusetup plan.conf",
        "b sudo reboot .conf",
        "c --root 'x.conf",
    ];
    for name in names.iter().chain(&["plain.conf"]) {
        tree.write(&format!("etc/modprobe.d/{name}"), "alias nvidia off\n");
    }
    File::create(tree.path().join("etc/modprobe.d/large sudo reboot .conf"))
        .and_then(|f| f.set_len(2 << 20))
        .expect("made");
    let disk = tempfile::tempdir().expect("a folder");
    let root = disk.path().join("Tom's & disk");
    std::os::unix::fs::symlink(tree.path(), &root).expect("linked");
    let root = root.to_str().expect("text");
    let chroot = format!("sudo chroot '{}' ", root.replace('\'', "'\\''"));
    let plan = run(&["plan", "--json", "--profile", "driver", "--root", root]).json();
    let texts = warnings(&plan, "GS204").concat() + &warnings(&plan, "GS608").concat();
    for name in names {
        let quoted = format!("'/etc/modprobe.d/{}'", name.replace('\'', "'\\''"));
        assert!(
            texts.contains(&format!("{chroot}sed -i 1d {quoted}")),
            "{quoted}: {texts}"
        );
    }
    assert!(
        texts.contains(&format!("{chroot}sed -i 1d /etc/modprobe.d/plain.conf")),
        "{texts}"
    );
    assert!(
        texts.contains("not read: '/etc/modprobe.d/large sudo reboot .conf': it is larger"),
        "{texts}"
    );
}

#[test]
fn a_name_of_a_file_that_names_a_toolkit_is_quoted() {
    let tree = Tree::debian_12();
    tree.write("var/lib/dpkg/status", "");
    tree.write("usr/local/cuda-12.4/bin/nvcc", "");
    tree.write(
        "usr/local/cuda-12.4/version.json",
        r#"{"cuda": {"version": "12.4.1"}}"#,
    );
    let disk = tempfile::tempdir().expect("a folder");
    let root = disk.path().join("Tom's & disk");
    std::os::unix::fs::symlink(tree.path(), &root).expect("linked");
    let places = [
        "etc/environment.d/NAME.conf",
        "etc/sudoers.d/NAME",
        "etc/systemd/system/NAME.service",
    ];
    let names = [
        "a sudo $(touch pwned) x",
        "b sudo reboot ",
        "c gpusetup apply",
    ];
    let mut paths = Vec::new();
    for (n, place) in places.iter().enumerate() {
        for name in names {
            let path = place.replace("NAME", name);
            tree.write(&path, "PATH=$(x)/usr/local/cuda-12.4/bin\n");
            paths.push(path);
        }
        let link = place.replace("NAME", &format!("d sudo reboot {n}"));
        tree.link(&link, "/e sudo $(touch pwned)");
        paths.push(link);
    }
    tree.link("etc/profile.d/f sudo reboot .sh", "/g sudo reboot h");
    tree.write(
        "etc/apt/sources.list.d/i sudo reboot .list",
        &"#\n".repeat(1 << 20),
    );
    let root = root.to_str().expect("text");
    let mut named = 0;
    for command in [
        &["uninstall", "--all", "--dry-run"][..],
        &["plan", "--cuda", "12.4", "--profile", "toolkit"],
    ] {
        let ran = run(&[command, &["--root", root]].concat());
        let words = format!("{} {}", ran.out, ran.err)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        for odd in ["sudo $(touch", "sudo reboot", "c gpusetup apply"] {
            for (at, _) in words.match_indices(odd) {
                let before = &words[..at];
                let word = before
                    .rfind("'/")
                    .map_or(before, |start| &before[start + 1..]);
                assert!(
                    !word.contains('\'') && word != before,
                    "{odd} is not quoted: {words}"
                );
                named += 1;
            }
        }
        assert!(
            !words.contains("(on the machine that runs this tree"),
            "{words}"
        );
    }
    assert!(named > 6, "{named}");
}

#[test]
fn a_driver_of_unknown_origin_is_not_installed_over_without_a_word() {
    let host = Tree::debian_12().gpu("0000:17:00.0", "20b2", None);
    let mut facts = host.run(&["facts", "--json"]).json();
    facts["driver"] = json!({"version": "535.104.05", "origin": "unknown", "modules": "open",
        "evidence": "/usr/lib/x86_64-linux-gnu/libcuda.so.535.104.05", "alternative": false});
    let planned = |more: &[&str]| {
        let arguments = [
            &["plan", "--facts", "-", "--json", "--profile", "driver"],
            more,
        ]
        .concat();
        let plan = run_with_input(&arguments, &facts.to_string()).json();
        warnings(&plan, "GS409")
    };
    assert_eq!(planned(&[]), [""; 0], "it is kept");
    insta::assert_snapshot!(planned(&["--upgrade"]).join("\n"), @"it is unknown how driver 535.104.05 was installed (/usr/lib/x86_64-linux-gnu/libcuda.so.535.104.05), so gpusetup cannot tell which files to remove; 595.99.02 would be installed over it. Remove it first, the way it was installed: leftover files of one driver break the other");
}

#[test]
fn a_gpu_that_is_left_out_is_shown_so() {
    let two = [
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "h100",
        "--gpu",
        "a100",
        "--leave-out",
        "assumed:0",
    ];
    let ran = run(&two);
    let (gpus, _) = ran.out.split_once("\nChoice").expect("a choice");
    let (_, gpus) = gpus.split_once("\n\n").expect("the host");
    insta::assert_snapshot!(gpus, @"
    Host    Ubuntu 24.04 LTS, kernel 6.8.0-134-generic, x86_64
    GPU 0   NVIDIA H100 80GB HBM3 [10de:2330], compute capability 9.0, left out
            (--leave-out)
    GPU 1   NVIDIA A100-SXM4-40GB [10de:20b0], compute capability 8.0, assumed
            (--gpu)
    ");
    insta::assert_snapshot!(ran.out.lines().last().expect("a line"), @"Next: sudo gpusetup apply --leave-out BUS_ID  # on that host; BUS_ID is the address of NVIDIA H100 80GB HBM3 there");
    let none = run(&[
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "h100",
        "--leave-out",
        "assumed:0",
    ]);
    insta::assert_snapshot!(none.refusal(9), @"
    error: --leave-out leaves no GPU to plan for
    try: gpusetup plan --os ubuntu-24.04 --gpu h100  # with all GPUs
    ");
}

#[test]
fn a_failed_apply_is_an_error_and_no_result_of_an_earlier_one() {
    let host = Tree::debian_12();
    assert_eq!(
        host.run(&["apply", "--unattended", "--if-no-gpu", "skip"])
            .code,
        0
    );
    let failed = host.run(&["apply", "--unattended", "--json"]);
    let error: Value = serde_json::from_str(&failed.out).expect("one object");
    assert_eq!(
        (failed.code, &error["schema"], &error["exit_code"]),
        (9, &json!("gpusetup.error/1"), &json!(9))
    );
    assert!(
        error["because"].is_array() && error["try"].is_array(),
        "{error:#}"
    );
}

#[test]
fn an_offline_plan_names_the_downloads_that_are_missing() {
    let host = Tree::debian_12().gpu("0000:17:00.0", "20b2", None);
    let ran = host.run(&["plan", "--offline"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let text = ran.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("warning: GS601: https://") && text.contains("are not in the cache"),
        "{text}"
    );
    assert!(!host.run(&["plan"]).err.contains("GS601"));
}

#[test]
fn every_refusal_leads_to_a_command() {
    let refused = [
        &["--dry-run"][..],
        &["plan", "--os", "nosuch-1"],
        &["plan", "--os", "ubuntu-24.04", "--root", "/"],
        &["plan", "--os", "ubuntu-24.04", "--gpu", "quadro"],
        &[
            "plan",
            "--os",
            "ubuntu-24.04",
            "--gpu",
            "h100",
            "--for",
            "nosuch",
        ],
        &[
            "plan",
            "--os",
            "ubuntu-24.04",
            "--gpu",
            "h100",
            "--with",
            "nosuch",
        ],
        &[
            "plan",
            "--os",
            "ubuntu-24.04",
            "--gpu",
            "h100",
            "--leave-out",
            "x",
        ],
        &[
            "plan",
            "--os",
            "ubuntu-24.04",
            "--gpu",
            "h100",
            "--driver",
            "580-opne",
        ],
        &["plan", "--cudnn", "8", "--cudnn", "9"],
        &["explain", "rtx 6000"],
        &["explain", "mi300x"],
    ]
    .map(|arguments| {
        let ran = run(arguments);
        let mut lines: Vec<_> = ran.refusal(2).lines().collect();
        lines.retain(|line| line.starts_with("error: ") || line.starts_with("try: "));
        lines.join("\n")
    });
    insta::assert_snapshot!(refused.join("\n"), @"
    error: `gpusetup plan` is the dry run: it changes nothing
    try: gpusetup plan
    error: --os: no distribution is called `nosuch`; known are almalinux, amzn, azurelinux, centos, debian, fedora, ol, opensuse-leap, rhel, rocky, sles, ubuntu
    try: gpusetup db list systems
    error: --os and --root each name a host; use one of them
    try: gpusetup plan --os ubuntu-24.04
    try: gpusetup plan --root /
    error: --gpu quadro: `quadro` is a brand of GPUs with different needs; add the model, such as `tesla t4`
    try: gpusetup db list gpus --for quadro
    error: no framework is called `nosuch` (--for)
    try: gpusetup db list frameworks
    error: no add-on is called `nosuch` (--with)
    try: gpusetup db list add-ons
    error: no GPU has the bus address x (--leave-out)
    try: gpusetup facts
    error: --driver: `580-opne` is not a driver version (such as 580.95.05): unexpected '-' at character 4
    try: gpusetup db list drivers
    error: --cudnn can be given only once
    try: gpusetup plan --cudnn 9
    error: `rtx 6000` could be any of 8 GPUs, which need different plans: NVIDIA RTX PRO 6000 Blackwell Workstation Edition (10de:2bb1, compute capability 12.0), NVIDIA RTX 6000 Ada Generation (10de:26b1, compute capability 8.9), Quadro RTX 6000 (10de:1e30, compute capability 7.5); add what tells them apart, or name one by its id
    try: gpusetup db list gpus --for 'rtx 6000'
    error: `mi300x` is a GPU of AMD; gpusetup supports NVIDIA GPUs only
    try: gpusetup db list gpus
    ");
    assert_eq!(
        run(&["plan", "--os", "ubuntu-24.04", "--gpu", "h100 x 8"]).code,
        0
    );
}

#[test]
fn facts_name_nvidia_gpus_only() {
    let host = Tree::debian_12().gpu("0000:17:00.0", "20b2", None);
    let mut facts = host.run(&["facts", "--json"]).json();
    for id in ["zzzz", "1002:744c", "10de:20b"] {
        facts["gpus"][0]["pci_id"] = id.into();
        let ran = run_with_input(&["plan", "--facts", "-"], &facts.to_string());
        assert!(
            ran.code == 2 && ran.err.contains(&format!("has the PCI id `{id}`")),
            "{id}: {}",
            ran.err
        );
    }
}

#[test]
fn a_driver_and_its_modules_can_be_named_together() {
    let ask =
        |more: &[&str]| run(&[&["plan", "--os", "ubuntu-24.04", "--gpu", "a100"], more].concat());
    let named = |more: &[&str]| ask(&[more, &["--json"]].concat()).json()["request"].clone();
    let apart = named(&["--driver", "580", "--modules", "open"]);
    for name in ["580-open", "nvidia-driver-580-open", "580 open"] {
        assert_eq!(named(&["--driver", name]), apart, "{name}");
    }
    assert_eq!(named(&["--driver", "open"]), named(&["--modules", "open"]));
    assert_eq!(
        named(&["--driver", "580-proprietary"])["modules"],
        "proprietary"
    );
    let said = ask(&["--driver", "580-open", "--modules", "proprietary"]);
    insta::assert_snapshot!(said.refusal(2), @"
    error: --driver 580-open and --modules proprietary contradict each other
    try: gpusetup plan --os ubuntu-24.04 --driver 580-open
    ");
}

#[test]
fn a_driver_that_stays_is_compared_with_the_toolkit_and_with_what_is_loaded() {
    let warned = |version: &str, loaded: &str, more: &[&str]| {
        let stock = ["plan", "--os", "ubuntu-24.04", "--gpu", "h100", "--json"];
        let mut facts = run(&stock).json()["host"].take();
        facts["driver"] =
            json!({"version": version, "origin": "dpkg", "modules": "open", "evidence": "a file"});
        facts["loaded_modules"] = json!([{"name": "nvidia", "version": loaded}]);
        let ran = run_with_input(
            &[&["plan", "--facts", "-", "--json"], more].concat(),
            &facts.to_string(),
        );
        let all = ran.json()["warnings"].as_array().expect("warnings").clone();
        let of = |id: &str| {
            all.iter()
                .find(|w| w["check"] == id)
                .map(|w| w["text"].as_str().unwrap_or("").to_owned())
        };
        (of("GS501"), of("GS707"))
    };
    let (loaded, not_run) = warned(
        "550.54.14",
        "550.54.14",
        &["--profile", "toolkit", "--cuda", "13.0"],
    );
    assert_eq!(loaded, None);
    insta::assert_snapshot!(not_run.expect("a warning"), @"the driver 550.54.14 stays, and programs of CUDA 13.0.3 do not run on it: they need driver 580.65.06 or newer; --cuda 12.4.1 gets one that it runs");
    assert_eq!(
        warned(
            "550.54.14",
            "550.54.14",
            &["--profile", "toolkit", "--cuda", "12.4.1"]
        ),
        (None, None)
    );
    for more in [&["--profile", "toolkit"][..], &[]] {
        let (loaded, _) = warned("580.95.05", "550.54.14", more);
        insta::allow_duplicates! {
            insta::assert_snapshot!(loaded.expect("a warning"), @"driver 580.95.05 is installed, but the kernel modules of 550.54.14 are loaded: CUDA programs fail until the next boot (sudo reboot)");
        }
    }
    assert_eq!(
        warned("580.95.05", "580.95.05", &["--profile", "toolkit"]),
        (None, None)
    );
    assert_eq!(
        warned("580.95.05", "550.54.14", &["--upgrade"]).0,
        None,
        "it is replaced"
    );
}
