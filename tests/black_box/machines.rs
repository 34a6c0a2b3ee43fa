//! Machines that get their driver another way, and those whose plans need a word more.

use crate::common::{Ran, Tree, run, warnings};
use serde_json::Value;

/// What the steps install.
fn packages(plan: &Value) -> Vec<&str> {
    let steps = plan["steps"].as_array().expect("a list").iter();
    let operations = steps
        .flat_map(|step| step["operations"].as_array())
        .flatten();
    operations
        .flat_map(|o| o["install"].as_array())
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// What doctor finds by one check, whatever it ends with.
fn finding(tree: &Tree, check: &str) -> Value {
    let ran = tree.run(&["doctor", "--json", check]);
    let report: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}{}", ran.out, ran.err));
    report["checks"][0].clone()
}

/// A host of this os-release with an RTX 4070, which nouveau holds.
fn with_gpu(release: &str, files: &[&str]) -> Tree {
    let tree = Tree::new(release, "6.12.5-200.fc41.x86_64", 14).gpu(
        "0000:01:00.0",
        "2786",
        Some("nouveau"),
    );
    files.iter().for_each(|file| tree.write(file, ""));
    tree
}

#[test]
fn image_based_systems_are_told_their_own_way() {
    for (release, file, command) in [
        (
            "ID=fedora\nVERSION_ID=43\nVARIANT_ID=silverblue\n",
            Some("run/ostree-booted"),
            "rpm-ostree install akmod-nvidia",
        ),
        (
            "ID=fedora\nVERSION_ID=43\nVARIANT_ID=coreos\n",
            None,
            "rpm-ostree rebase",
        ),
        (
            "ID=bazzite\nID_LIKE=fedora\nVERSION_ID=43\n",
            None,
            "bazzite-nvidia-open:stable",
        ),
        (
            "ID=bluefin\nID_LIKE=fedora\nVERSION_ID=44\n",
            None,
            "projectbluefin/bluefin-nvidia:stable",
        ),
        (
            "ID=aurora\nID_LIKE=fedora\nVERSION_ID=44\n",
            None,
            "ublue-os/aurora-nvidia-open:stable",
        ),
        (
            "ID=fedora\nVERSION_ID=43\nVARIANT_ID=silverblue\n",
            Some("usr/share/ublue-os/image-info.json"),
            "projectbluefin/bluefin-nvidia:stable",
        ),
        (
            "ID=fedora\nVERSION_ID=44\nVARIANT_ID=ucore\n",
            Some("run/ostree-booted"),
            "ucore:stable-nvidia",
        ),
        (
            "ID=\"opensuse-microos\"\nVERSION_ID=\"20261101\"\n",
            Some("usr/sbin/transactional-update"),
            "transactional-update --continue pkg",
        ),
        (
            "ID=\"opensuse-leap-micro\"\nVERSION_ID=\"6.1\"\n",
            Some("usr/sbin/transactional-update"),
            "transactional-update shell",
        ),
        (
            "ID=\"sl-micro\"\nVERSION_ID=\"6.1\"\n",
            Some("usr/sbin/transactional-update"),
            "transactional-update shell",
        ),
        (
            "ID=nixos\nVERSION_ID=\"26.05\"\n",
            None,
            "nixos-rebuild switch",
        ),
        ("ID=talos\nVERSION_ID=v1.15.0\n", None, "talosctl upgrade"),
        (
            "ID=flatcar\nVERSION_ID=4593.0.0\n",
            None,
            "enabled-sysext.conf",
        ),
        (
            "ID=bottlerocket\nVERSION_ID=1.68.0\n",
            None,
            "aws ssm get-parameter",
        ),
        (
            "ID=cos\nVERSION_ID=125\n",
            None,
            "cos-extensions install gpu",
        ),
        (
            "ID=ubuntu-core\nVERSION_ID=\"24\"\n",
            None,
            "snap components pc-kernel",
        ),
        (
            "ID=steamos\nID_LIKE=arch\nVERSION_ID=3.7\n",
            None,
            "steamos-readonly",
        ),
        (
            "ID=rhcos\nVERSION_ID=\"4.20\"\n",
            Some("run/ostree-booted"),
            "gpu-operator-certified",
        ),
        (
            "ID=\"rhel\"\nVERSION_ID=\"9.6\"\nVARIANT_ID=coreos\nOPENSHIFT_VERSION=\"4.19\"\n",
            Some("run/ostree-booted"),
            "gpu-operator-certified",
        ),
        (
            "ID=\"rhel\"\nVERSION_ID=\"9.6\"\n",
            Some("run/ostree-booted"),
            "bootc switch",
        ),
    ] {
        let tree = with_gpu(&format!("PRETTY_NAME=\"X\"\n{release}"), file.as_slice());
        let refused = tree.run(&["plan", "--profile", "compute"]);
        assert_eq!(refused.code, 5, "{release}: {}", refused.err);
        assert!(
            refused.err.contains(command) && refused.err.contains("(GS908)"),
            "{release}: {}",
            refused.err
        );
        assert!(
            !refused.err.contains("gpusetup plan"),
            "it would be refused again: {}",
            refused.err
        );
        for program in [
            "rpm-ostree",
            "transactional-update",
            "bootc",
            "cos-extensions",
            "talosctl",
            "aws",
        ] {
            let in_chroot = format!("{} {program}", tree.path().display());
            assert!(
                !refused.err.contains(&in_chroot),
                "{release}: {}",
                refused.err
            );
        }
        // Neither the packages it needs nor its files can be installed.
        let toolkit = tree.run(&["plan", "--profile", "toolkit"]);
        assert!(
            toolkit.code == 5 && toolkit.err.contains("hint: a toolkit "),
            "{release}: {}",
            toolkit.err
        );
        assert!(
            !toolkit.err.contains("gpusetup plan"),
            "it would be refused again: {}",
            toolkit.err
        );
        assert!(
            !toolkit.err.contains(command),
            "nobody asked for a driver: {}",
            toolkit.err
        );
        assert_eq!(
            tree.run(&["facts", "--json"]).json()["os"]["immutable"],
            true,
            "{release}"
        );
        let checked = finding(&tree, "GS908");
        assert_eq!(checked["status"], "fail", "{release}: {checked:#}");
        // Of a tree, doctor names no command that takes the running system.
        let remedy = &checked["remediation"];
        let is_named =
            remedy["commands"] == serde_json::json!([]) || remedy.to_string().contains(command);
        assert!(
            is_named && remedy["text"].as_str().is_some_and(|text| text.len() > 20),
            "{release}: {checked:#}"
        );
    }
}

#[test]
fn a_systems_own_way_supports_the_gpu() {
    const PASCAL: &str = "1b80";
    const KEPLER: &str = "1180";
    const FERMI: &str = "06c0";
    const TURING: &str = "1e04";
    for (release, gpu, right, wrong) in [
        (
            "ID=talos\nVERSION_ID=v1.15.0\n",
            PASCAL,
            "nonfree-kmod-nvidia-lts",
            "nvidia-open-gpu",
        ),
        (
            "ID=talos\nVERSION_ID=v1.15.0\n",
            KEPLER,
            "gpusetup explain",
            "talosctl",
        ),
        (
            "ID=talos\nVERSION_ID=v1.15.0\n",
            TURING,
            "/nvidia-open-gpu-kernel-modules-production and ",
            "nonfree",
        ),
        (
            "ID=flatcar\nVERSION_ID=4593.0.0\n",
            PASCAL,
            "echo nvidia-drivers-570 |",
            "570-open",
        ),
        (
            "ID=bazzite\nVERSION_ID=43\n",
            PASCAL,
            "bazzite-nvidia:stable",
            "nvidia-open",
        ),
        (
            "ID=bluefin\nVERSION_ID=43\n",
            PASCAL,
            "Bluefin and Aurora have no such image",
            "nvidia-open",
        ),
        (
            "ID=nixos\nVERSION_ID=\"26.05\"\n",
            PASCAL,
            "open = false; hardware.nvidia.package = ",
            "legacy_470",
        ),
        (
            "ID=nixos\nVERSION_ID=\"26.05\"\n",
            KEPLER,
            "nvidiaPackages.legacy_470",
            "legacy_580",
        ),
        (
            "ID=nixos\nVERSION_ID=\"26.05\"\n",
            FERMI,
            "no way to a driver",
            "nixos-rebuild",
        ),
        (
            "ID=opensuse-microos\nVERSION_ID=\"20261101\"\n",
            PASCAL,
            "nvidia-driver-G06-kmp-default",
            "nvidia-open-driver",
        ),
        (
            "ID=fedora\nVERSION_ID=43\nVARIANT_ID=silverblue\n",
            PASCAL,
            "akmod-nvidia-580xx",
            "akmod-nvidia xorg",
        ),
        (
            "ID=fedora\nVERSION_ID=43\nVARIANT_ID=silverblue\n",
            KEPLER,
            "akmod-nvidia-470xx",
            "580",
        ),
        (
            "ID=fedora\nVERSION_ID=44\nVARIANT_ID=ucore\n",
            PASCAL,
            "ucore:stable-nvidia-lts",
            "no way",
        ),
        (
            "ID=fedora\nVERSION_ID=44\nVARIANT_ID=ucore\n",
            KEPLER,
            "no way to a driver",
            "ucore:stable",
        ),
        (
            "ID=cos\nVERSION_ID=125\n",
            PASCAL,
            "cos-extensions install gpu",
            "no way",
        ),
        (
            "ID=cos\nVERSION_ID=125\n",
            KEPLER,
            "no way to a driver",
            "cos-extensions",
        ),
        (
            "ID=ubuntu-core\nVERSION_ID=\"24\"\n",
            KEPLER,
            "no way to a driver",
            "pc-kernel",
        ),
        (
            "ID=steamos\nID_LIKE=arch\nVERSION_ID=3.7\n",
            KEPLER,
            "no way to a driver",
            "Bazzite",
        ),
        (
            "ID=rhcos\nVERSION_ID=\"4.18\"\n",
            KEPLER,
            "no way to a driver",
            "Operator",
        ),
    ] {
        let tree = Tree::new(
            &format!("PRETTY_NAME=\"X\"\n{release}"),
            "6.12.5-200.fc41.x86_64",
            14,
        );
        tree.write("run/ostree-booted", "");
        let refused = tree
            .gpu("0000:01:00.0", gpu, None)
            .run(&["plan", "--profile", "compute"]);
        let (err, case) = (
            refused.err.replace('\n', " "),
            format!("{release}{gpu}: {}", refused.err),
        );
        assert!(
            refused.code == 5 && err.contains(right) && !err.contains(wrong),
            "{case}"
        );
    }
}

#[test]
fn an_image_that_has_the_driver_is_not_to_be_replaced_by_itself() {
    let refused = [
        "ID=bazzite\nVERSION_ID=43\nVARIANT_ID=bazzite-nvidia-open\n",
        "ID=bluefin\nVERSION_ID=44\nVARIANT_ID=bluefin-nvidia\n",
        "ID=bottlerocket\nVERSION_ID=1.68.0\nVARIANT_ID=aws-k8s-1.33-nvidia\n",
    ]
    .map(|release| {
        let tree = with_gpu(&format!("PRETTY_NAME=\"X\"\n{release}"), &[]);
        let refused = tree.run(&["plan", "--profile", "compute"]);
        tree.typed_in_it(refused.refusal(5))
    });
    insta::assert_snapshot!(refused.concat(), @"
    error: the system files are a read-only image: packages and runfiles cannot change them (Bazzite: its images come with or without NVIDIA's driver) (GS908)
    hint: the image bazzite-nvidia-open has NVIDIA's driver already: see what the kernel says of it: sudo dmesg | grep -E 'NVRM|nvidia' (on the machine that runs this tree, and not here)
    hint: a toolkit belongs in a container there, with the driver of the host: enter one with `distrobox enter`, and run gpusetup in it
    error: the system files are a read-only image: packages and runfiles cannot change them (Bluefin: its images come with or without NVIDIA's driver) (GS908)
    hint: the image bluefin-nvidia has NVIDIA's driver already: see what the kernel says of it: sudo dmesg | grep -E 'NVRM|nvidia' (on the machine that runs this tree, and not here)
    hint: a toolkit belongs in a container there, with the driver of the host: enter one with `distrobox enter`, and run gpusetup in it
    error: the system files are a read-only image: packages and runfiles cannot change them (Bottlerocket: the driver is part of the variants whose name ends in -nvidia) (GS908)
    hint: the image aws-k8s-1.33-nvidia has NVIDIA's driver already: see what the kernel says of it: sudo dmesg | grep -E 'NVRM|nvidia' (on the machine that runs this tree, and not here)
    hint: a toolkit belongs in the image of the containers that use it, with the driver of the host: run gpusetup in their Containerfile
    ");
}

#[test]
fn an_image_that_is_being_built_in_a_container_can_be_changed() {
    let release = "PRETTY_NAME=\"Fedora\"\nID=fedora\nVERSION_ID=43\nVARIANT_ID=silverblue\n";
    let image = [
        "sysroot/ostree/repo/config",
        "usr/share/ublue-os/image-info.json",
    ];
    let files = [
        &["usr/bin/dnf", "usr/bin/dracut", "run/.containerenv"][..],
        &image,
    ]
    .concat();
    let tree = with_gpu(release, &files);
    tree.link("ostree", "sysroot/ostree");
    assert_eq!(
        tree.run(&["facts", "--json"]).json()["os"]["immutable"],
        false
    );
    let built = tree.run(&["plan", "--profile", "driver"]);
    assert_eq!(built.code, 0, "{}", built.err);
}

#[test]
fn a_tree_of_ostree_shows_by_its_link() {
    let kinoite = "PRETTY_NAME=\"Fedora\"\nID=fedora\nVERSION_ID=43\nVARIANT_ID=kinoite\nOSTREE_VERSION='43.20261101.0'\n";
    let bootc = "PRETTY_NAME=\"RHEL\"\nID=\"rhel\"\nVERSION_ID=\"9.6\"\n";
    for (release, target, command) in [
        (kinoite, "sysroot/ostree", "rpm-ostree install akmod-nvidia"),
        (bootc, "/sysroot/ostree", "bootc switch"),
    ] {
        let tree = with_gpu(release, &["sysroot/.keep"]);
        tree.link("ostree", target);
        assert_eq!(
            tree.run(&["facts", "--json"]).json()["os"]["immutable"],
            true,
            "{release}"
        );
        let refused = tree.run(&["plan", "--profile", "compute"]);
        let says = refused.err.contains(command) && refused.err.contains("(GS908)");
        assert!(refused.code == 5 && says, "{release}: {}", refused.err);
    }
    let unknown = with_gpu(
        "PRETTY_NAME=\"HeliumOS\"\nID=heliumos\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=10\n",
        &[],
    );
    unknown.link("ostree", "sysroot/ostree");
    let refused = ["compute", "toolkit"].map(|profile| {
        let refused = unknown.run(&["plan", "--profile", profile]);
        unknown.typed_in_it(refused.refusal(5))
    });
    insta::assert_snapshot!(refused.concat(), @"
    error: the system files are a read-only image: packages and runfiles cannot change them (GS908)
    hint: no way to a driver is known for this system: see what its documentation says of NVIDIA's driver; a toolkit belongs in a container
    error: the system files are a read-only image: packages and runfiles cannot change them (GS908)
    hint: a toolkit belongs in the image of the containers that use it, with the driver of the host: run gpusetup in their Containerfile
    ");
    let checked = finding(&unknown, "GS908");
    assert_eq!(checked["status"], "fail", "{checked:#}");
    insta::assert_snapshot!(checked["remediation"]["text"].as_str().expect("a text"), @"no way to a driver is known for this system: see what its documentation says of NVIDIA's driver");
    unknown.write("run/.containerenv", "");
    unknown.write("run/ostree-booted", "");
    unknown.write("usr/bin/dnf", "");
    let in_container = unknown.run(&["plan", "--profile", "toolkit"]);
    assert!(
        !in_container.err.contains("GS908"),
        "a container can have a toolkit: {}",
        in_container.err
    );
    let ordinary = with_gpu(kinoite, &["ostree/repo/config"]);
    assert_eq!(
        ordinary.run(&["facts", "--json"]).json()["os"]["immutable"],
        false
    );
}

#[test]
fn chromeos_has_no_driver_and_compiles() {
    let chromeos = with_gpu(
        "PRETTY_NAME=\"ChromeOS\"\nID=chromeos\nVERSION_ID=140\n",
        &[],
    );
    let refused = chromeos.run(&["plan", "--profile", "compute"]);
    insta::assert_snapshot!(chromeos.typed_in_it(refused.refusal(5)), @"
    error: there is no NVIDIA driver for ChromeOS: ChromeOS manages its drivers itself (GS908)
    hint: run CUDA on another machine; Linux programs run in a container of a virtual machine (Crostini), without NVIDIA's driver
    ");
    let tree = Tree::debian_12();
    tree.write("opt/google/cros-containers/bin/garcon", "");
    tree.write("run/systemd/container", "lxc\n");
    let refused = tree.run(&["plan", "--gpu", "h100", "--profile", "compute"]);
    insta::assert_snapshot!(tree.typed_in_it(refused.refusal(5)), @"
    error: there is no NVIDIA driver for Linux on ChromeOS (Crostini): it is a container in a virtual machine, whose kernel is Google's (GS908)
    hint: run programs that need CUDA on another machine; a toolkit without a driver compiles here
    try: gpusetup plan --gpu h100 --profile toolkit  # leave the driver out
    ");
    let toolkit = tree.run(&["plan"]);
    assert_eq!(toolkit.code, 0, "{}", toolkit.err);
}

/// A Jetson with this model and release, on this Ubuntu.
fn jetson(model: &str, release: &str, ubuntu: &str) -> Tree {
    let os = format!(
        "PRETTY_NAME=\"Ubuntu {ubuntu}\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"{ubuntu}\"\n"
    );
    let tree = Tree::new(&os, "5.15.148-tegra", 13).arch(183);
    tree.write("usr/bin/apt-get", "");
    tree.write("proc/device-tree/model", &format!("{model}\0"));
    tree.write(
        "proc/device-tree/compatible",
        "nvidia,p3737-0000+p3701-0005\0nvidia,tegra234\0",
    );
    let (major, revision) = release.split_once('.').expect("a release");
    tree.write(
        "etc/nv_tegra_release",
        &format!("# R{major} (release), REVISION: {revision}, GCID: 1, BOARD: generic\n"),
    );
    tree
}

const ORIN: &str = "NVIDIA Jetson AGX Orin Developer Kit";

#[test]
fn a_jetson_gets_what_its_jetpack_allows() {
    let orin = jetson(ORIN, "36.4.3", "22.04");
    let facts = orin.run(&["facts", "--json"]).json();
    assert_eq!(
        (
            &facts["machine"]["board"]["model"],
            &facts["machine"]["board"]["l4t"]
        ),
        (&ORIN.into(), &"36.4.3".into())
    );
    for arguments in [&["plan"][..], &["plan", "--profile", "toolkit"]] {
        let refused = orin.run(arguments);
        insta::allow_duplicates! {
            insta::assert_snapshot!(orin.typed_in_it(refused.refusal(4)), @"
            error: on a Jetson the board support package provides the driver, and its toolkit comes with it too: this is Jetson AGX Orin with Jetson Linux 36.4.3 (JetPack 6.2, CUDA 12.6), which does not use NVIDIA's toolkits for servers (sbsa) (GS907)
            hint: install CUDA, cuDNN and TensorRT of this JetPack: sudo apt-get update && sudo apt-get install nvidia-jetpack
            hint: for CUDA up to 12.9, with the driver that is there, add NVIDIA's CUDA repository for this board and install the toolkit with its upgrade package (one at a time): sudo apt-get install cuda-toolkit-12-9 cuda-compat-12-9
            ");
        }
    }
    let refused = orin.run(&["plan", "--profile", "compute"]);
    insta::assert_snapshot!(orin.typed_in_it(refused.refusal(5)), @"
    error: on a Jetson the board support package provides the driver: this is Jetson AGX Orin with Jetson Linux 36.4.3 (JetPack 6.2, CUDA 12.6) (GS907)
    hint: install CUDA, cuDNN and TensorRT of this JetPack: sudo apt-get update && sudo apt-get install nvidia-jetpack
    hint: for CUDA up to 12.9, with the driver that is there, add NVIDIA's CUDA repository for this board and install the toolkit with its upgrade package (one at a time): sudo apt-get install cuda-toolkit-12-9 cuda-compat-12-9
    ");
    let containers = ["plan", "--profile", "container-host", "--engine", "docker"];
    let refused = orin.run(&containers);
    insta::assert_snapshot!(orin.typed_in_it(refused.refusal(5)), @"
    error: on a Jetson the board support package provides the driver: this is Jetson AGX Orin with Jetson Linux 36.4.3 (JetPack 6.2, CUDA 12.6) (GS907)
    try: gpusetup plan --driver none --profile container-host --engine docker  # leave the driver out
    ");
    assert_eq!(
        orin.run(&[&containers[..], &["--driver", "none"]].concat())
            .code,
        0
    );
    let older = [
        jetson("Jetson-AGX Xavier", "35.4.1", "20.04"),
        jetson("NVIDIA Jetson Nano Developer Kit", "32.7.5", "18.04"),
    ];
    let refused = older.map(|tree| tree.typed_in_it(tree.run(&["plan"]).refusal(4)));
    insta::assert_snapshot!(refused.concat(), @"
    error: on a Jetson the board support package provides the driver, and its toolkit comes with it too: this is Jetson AGX Xavier with Jetson Linux 35.4.1 (JetPack 5.1, CUDA 11.4), which does not use NVIDIA's toolkits for servers (sbsa) (GS907)
    hint: install CUDA, cuDNN and TensorRT of this JetPack: sudo apt-get update && sudo apt-get install nvidia-jetpack
    hint: for CUDA up to 12.2, with the driver that is there, add NVIDIA's CUDA repository for this board and install the toolkit with its upgrade package (one at a time): sudo apt-get install cuda-toolkit-12-2 cuda-compat-12-2
    error: on a Jetson the board support package provides the driver, and its toolkit comes with it too: this is Jetson Nano with Jetson Linux 32.7.5 (JetPack 4.6, CUDA 10.2), which does not use NVIDIA's toolkits for servers (sbsa) (GS907)
    hint: install CUDA, cuDNN and TensorRT of this JetPack: sudo apt-get update && sudo apt-get install nvidia-jetpack
    ");
    // A tree has no device tree. Up to this release no board has the toolkits of servers, so none
    // is asked for.
    let unknown = jetson("", "36.4.3", "22.04");
    let mut said: Vec<_> = [
        (&["plan"][..], 4),
        (&["plan", "--cuda", "12.9"], 4),
        (&["plan", "--gpu", "jetson orin"], 4),
        (&["plan", "--gpu", "jetson xavier"], 4),
        (&["plan", "--profile", "compute"], 5),
    ]
    .map(|(arguments, code)| unknown.typed_in_it(unknown.run(arguments).refusal(code)))
    .into();
    said.dedup();
    insta::assert_snapshot!(said.concat(), @"
    error: on a Jetson the board support package provides the driver, and its toolkit comes with it too: this is a Jetson with Jetson Linux 36.4.3 (JetPack 6.2, CUDA 12.6), which does not use NVIDIA's toolkits for servers (sbsa) (GS907)
    hint: install CUDA, cuDNN and TensorRT of this JetPack: sudo apt-get update && sudo apt-get install nvidia-jetpack
    hint: for CUDA up to 12.9, with the driver that is there, add NVIDIA's CUDA repository for this board and install the toolkit with its upgrade package (one at a time): sudo apt-get install cuda-toolkit-12-9 cuda-compat-12-9
    error: on a Jetson the board support package provides the driver, and its toolkit comes with it too: this is a Jetson with Jetson Linux 36.4.3 (JetPack 6.2, CUDA 12.6), which does not use NVIDIA's toolkits for servers (sbsa) (GS907)
    hint: install CUDA, cuDNN and TensorRT of this JetPack: sudo apt-get update && sudo apt-get install nvidia-jetpack
    hint: for CUDA up to 12.9, with the driver that is there, add NVIDIA's CUDA repository for this board and install the toolkit with its upgrade package (one at a time): sudo apt-get install cuda-toolkit-12-9 cuda-compat-12-9
    try: gpusetup db show 'jetson orin'
    error: on a Jetson the board support package provides the driver, and its toolkit comes with it too: this is a Jetson with Jetson Linux 36.4.3 (JetPack 6.2, CUDA 12.6), which does not use NVIDIA's toolkits for servers (sbsa) (GS907)
    hint: install CUDA, cuDNN and TensorRT of this JetPack: sudo apt-get update && sudo apt-get install nvidia-jetpack
    hint: for CUDA up to 12.9, with the driver that is there, add NVIDIA's CUDA repository for this board and install the toolkit with its upgrade package (one at a time): sudo apt-get install cuda-toolkit-12-9 cuda-compat-12-9
    try: gpusetup db show 'jetson xavier'
    error: on a Jetson the board support package provides the driver: this is a Jetson with Jetson Linux 36.4.3 (JetPack 6.2, CUDA 12.6) (GS907)
    hint: install CUDA, cuDNN and TensorRT of this JetPack: sudo apt-get update && sudo apt-get install nvidia-jetpack
    hint: for CUDA up to 12.9, with the driver that is there, add NVIDIA's CUDA repository for this board and install the toolkit with its upgrade package (one at a time): sudo apt-get install cuda-toolkit-12-9 cuda-compat-12-9
    ");
    // On a board that is not there, the oldest toolkit for the GPU says nothing.
    let xavier = run(&[
        "plan",
        "--os",
        "ubuntu-22.04:aarch64",
        "--gpu",
        "jetson xavier",
        "--profile",
        "toolkit",
    ]);
    insta::assert_snapshot!(xavier.refusal(4), @"
    error: no toolkit for servers (sbsa) supports Jetson AGX Xavier / Xavier NX; use the toolkit of JetPack
    because: any GPU of compute capability 7.2 (Volta) has compute capability 7.2 (PTX ISA, release notes; CMake's list of CUDA architectures; 2 more)
    because: CUDA 13.0.0 targets 7.5 and up (The cuda-toolkit action; NVIDIA's download page for CUDA; 11 more)
    try: gpusetup db show 'jetson xavier'
    ");
    // With this one they are for two boards, and each command plans.
    let unknown = jetson("", "39.2.0", "24.04");
    let refused = unknown.run(&["plan", "--json", "--cuda", "12.9"]);
    let error: Value = serde_json::from_str(&refused.out).expect("an object");
    let commands: Vec<_> = error["try"]
        .as_array()
        .expect("commands")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(commands.len(), 2, "{error:#}");
    for command in commands {
        let words: Vec<_> = command.split(' ').skip(1).collect();
        let planned = run(&words);
        assert_eq!(planned.code, 0, "{command}: {}", planned.err);
    }
    // From JetPack 7.2 on, Orin has the toolkits of servers.
    let newer = jetson(ORIN, "39.2.0", "24.04");
    let plan = newer.run(&["plan", "--json"]);
    assert_eq!(plan.code, 0, "{}", plan.err);
    let chosen = &plan.json()["selection"];
    assert!(
        chosen["driver"].is_null()
            && chosen["cuda"]["version"]
                .as_str()
                .is_some_and(|v| v.starts_with("13.2")),
        "{chosen:#}"
    );
    let refused = newer.run(&["plan", "--profile", "driver"]);
    insta::assert_snapshot!(newer.typed_in_it(refused.refusal(5)), @"
    error: on a Jetson the board support package provides the driver: this is Jetson AGX Orin with Jetson Linux 39.2.0 (JetPack 7.2, CUDA 13.2) (GS907)
    try: gpusetup plan --profile toolkit  # leave the driver out
    ");
    assert!(
        warnings(&plan.json(), "GS707").is_empty(),
        "its driver runs it"
    );
}

#[test]
fn a_jetson_with_an_unknown_release_gets_both_ways() {
    let newer = jetson("", "40.1.0", "24.04");
    let orin = newer.run(&["plan", "--gpu", "orin"]);
    insta::assert_snapshot!(newer.typed_in_it(orin.refusal(4)), @"
    error: CUDA 13.5.0 does not fit: toolkits for servers (sbsa) support Jetson AGX Orin / Orin NX / Orin Nano from JetPack 7.2 on, which this host is not known to have. There, install one from NVIDIA's CUDA repository, otherwise the toolkit of JetPack
    because: any GPU of compute capability 8.7 (Ampere) has compute capability 8.7 (PTX ISA, release notes; Spack's cuda and cudnn packages; 2 more)
    because: toolkits for servers (sbsa) support Jetson AGX Orin / Orin NX / Orin Nano from JetPack 7.2 on, which this host is not known to have. There, install one from NVIDIA's CUDA repository, otherwise the toolkit of JetPack (PTX ISA, release notes; Spack's cuda and cudnn packages; 2 more)
    try: gpusetup db show orin
    ");
    let unnamed = newer.run(&["plan"]);
    insta::assert_snapshot!(newer.typed_in_it(unnamed.refusal(4)), @"
    error: on a Jetson the board support package provides the driver. NVIDIA's toolkits for servers (sbsa) support only these Jetson boards: Jetson AGX Orin / Orin NX / Orin Nano (from JetPack 7.2 on), Jetson AGX Thor / DRIVE Thor (from CUDA 13.0 on); the model of this board, or its release of Jetson Linux, is not known (GS907)
    hint: install CUDA, cuDNN and TensorRT of this JetPack: sudo apt-get update && sudo apt-get install nvidia-jetpack
    try: gpusetup plan --gpu sm_110 --profile toolkit  # on such a board
    ");
    let elsewhere = run(&["plan", "--os", "ubuntu-24.04:aarch64", "--gpu", "orin"]);
    insta::assert_snapshot!(elsewhere.refusal(4), @"
    error: any GPU of compute capability 8.7 (Ampere) is part of Jetson AGX Orin / Orin NX / Orin Nano; its driver is included in the board's system software (JetPack) (GS907)
    hint: use the toolkit of JetPack, too, or from JetPack 7.2 on one for servers (sbsa)
    try: gpusetup db show orin
    ");
}

#[test]
fn a_jetsons_driver_runs_no_newer_cuda() {
    let not_run = |tree: &Tree, arguments: &[&str]| {
        let plan = tree.run(&[&["plan", "--json"], arguments].concat());
        assert_eq!(plan.code, 0, "{}", plan.err);
        tree.typed_in_it(&warnings(&plan.json(), "GS707").join("\n"))
    };
    let thor = jetson("", "38.2.0", "24.04");
    // JetPack 7.0 has no upgrade package.
    insta::assert_snapshot!(not_run(&thor, &["--gpu", "thor", "--cuda", "13.3.0"]), @"the driver of JetPack 7.0 stays, and programs of CUDA 13.3.0 do not run on it; --cuda 13.0 gets one that it runs");
    assert_eq!(not_run(&thor, &["--gpu", "thor"]), "");
    let newer = jetson(ORIN, "39.2.0", "24.04");
    insta::assert_snapshot!(not_run(&newer, &["--cuda", "13.3"]), @"the driver of JetPack 7.2 stays, and programs of CUDA 13.3.0 do not run on it; --cuda 13.2 gets one that it runs; or they run with NVIDIA's package cuda-compat-orin-13-4");
}

#[test]
fn power9_is_set_up_by_hand() {
    let host = Tree::rocky_9().arch(21).gpu("0004:04:00.0", "1db1", None);
    let setup = |host: &Tree| {
        let plan = host.run(&["plan", "--json"]).json();
        host.typed_in_it(&warnings(&plan, "GS905").join("\n"))
    };
    insta::assert_snapshot!(setup(&host), @r#"on POWER9, CUDA starts only if nvidia-persistenced puts the GPUs' memory online, and udev does not; after the installation, write /etc/systemd/system/nvidia-persistenced.service as the page "Other machines" of gpusetup's book has it (POWER), start it at boot, disable udev's rule, and reboot: sudo systemctl enable nvidia-persistenced && sudo cp /lib/udev/rules.d/40-redhat.rules /etc/udev/rules.d/ && sudo sed -i 's/SUBSYSTEM!="memory",.*GOTO="memory_hotplug_end"/SUBSYSTEM=="*",GOTO="memory_hotplug_end"/' /etc/udev/rules.d/40-redhat.rules && sudo reboot (on the machine that runs this tree, and not here)"#);
    host.write("usr/lib/systemd/system/nvidia-persistenced.service", "");
    insta::assert_snapshot!(setup(&host), @r#"on POWER9, CUDA starts only if nvidia-persistenced puts the GPUs' memory online, and udev does not; after the installation, start it at boot, disable udev's rule, and reboot: sudo systemctl enable nvidia-persistenced && sudo cp /lib/udev/rules.d/40-redhat.rules /etc/udev/rules.d/ && sudo sed -i 's/SUBSYSTEM!="memory",.*GOTO="memory_hotplug_end"/SUBSYSTEM=="*",GOTO="memory_hotplug_end"/' /etc/udev/rules.d/40-redhat.rules && sudo reboot (on the machine that runs this tree, and not here)"#);
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/machines.md"))
            .expect("the page");
    assert!(
        page.starts_with("# Other machines")
            && page.contains("ExecStart=/usr/bin/nvidia-persistenced"),
        "it has the unit"
    );
    let power8 = Tree::rocky_9().arch(21).gpu("0002:01:00.0", "15f9", None);
    assert_eq!(setup(&power8), "", "POWER8 does without");
    let x86_64 = Tree::rocky_9().gpu("0000:04:00.0", "1db1", None);
    assert_eq!(setup(&x86_64), "");
}

fn wsl() -> Tree {
    let tree = Tree::ubuntu_24_04();
    tree.write(
        "proc/sys/kernel/osrelease",
        "6.6.87.2-microsoft-standard-WSL2\n",
    );
    tree.write("usr/lib/wsl/lib/libcuda.so.1", "");
    tree
}

#[test]
fn wsl2_gets_a_toolkit_and_keeps_the_driver_of_windows() {
    let plain = wsl().run(&["plan", "--json"]);
    insta::assert_snapshot!(plain.err, @"This is WSL2, and its driver is that of Windows: the plan has no driver.");
    let chosen = plain.json()["selection"].clone();
    assert!(
        chosen["driver"].is_null() && chosen["cuda"].is_object(),
        "{chosen:#}"
    );
    let refused = wsl().run(&["plan", "--driver", "580"]);
    insta::assert_snapshot!(refused.refused(5), @"error: under WSL2 Windows provides the driver; do not install one inside WSL2 (GS906)");
    let status = |tree: &Tree| {
        let found = finding(tree, "GS906");
        (
            found["status"].as_str().expect("a word").to_owned(),
            found["cause"].to_string(),
        )
    };
    assert_eq!(status(&wsl()).0, "pass");
    let with_driver = wsl();
    with_driver.write("usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", "");
    with_driver.write(
        "var/lib/dpkg/status",
        "Package: libnvidia-compute-580\nStatus: install ok installed\nArchitecture: amd64\nVersion: 580.95.05-0ubuntu0.24.04.1\n",
    );
    let (found, cause) = status(&with_driver);
    assert_eq!(found, "fail");
    insta::assert_snapshot!(cause, @r#""driver 580.95.05 for Linux is installed in WSL2: programs load its libraries, which have no device here, and not those of Windows in /usr/lib/wsl/lib""#);
    // It never counts: the toolkit is that for a host without it.
    let (with, without) = (with_driver.run(&["plan", "--json"]).json(), plain.json());
    assert_eq!(
        (&with["selection"], warnings(&without, "GS906").len()),
        (&without["selection"], 0)
    );
    let says = warnings(&with, "GS906").join("\n");
    insta::assert_snapshot!(with_driver.typed_in_it(&says), @"driver 580.95.05 for Linux is installed in WSL2: programs load its libraries, which have no device here, and not those of Windows in /usr/lib/wsl/lib; remove it: sudo apt-get remove libnvidia-compute-580 && sudo ldconfig");
    let without_windows = wsl();
    std::fs::remove_file(without_windows.path().join("usr/lib/wsl/lib/libcuda.so.1"))
        .expect("a file");
    assert_eq!(status(&without_windows).0, "fail");
}

#[test]
fn wsl2_has_some_gpus_only() {
    for (gpu, is_there) in [
        ("k80", false),
        ("gtx 970", false),
        ("v100", false),
        ("gtx 1060", true),
        ("rtx 4070", true),
        ("sm_86", true),
    ] {
        let plan = wsl().run(&["plan", "--json", "--gpu", gpu]).json();
        let says = warnings(&plan, "GS906").join("\n");
        assert_eq!(says.contains("from Pascal on"), !is_there, "{gpu}: {says}");
    }
}

#[test]
fn debian_11_is_told_what_its_dkms_can_do() {
    let release = "PRETTY_NAME=\"Debian GNU/Linux 11 (bullseye)\"\nID=debian\nVERSION_ID=\"11\"\n";
    let tree = Tree::new(release, "5.10.0-30-amd64", 10).gpu("0000:01:00.0", "1eb8", None);
    tree.write("usr/bin/apt-get", "");
    let variables = "sys/firmware/efi/efivars";
    tree.write(
        &format!("{variables}/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"),
        "\u{6}\0\0\0\u{1}",
    );
    tree.write(
        &format!("{variables}/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"),
        "\u{6}\0\0\0",
    );
    let refused = tree.run(&["plan", "--profile", "driver"]);
    // DKMS 2.8.4 has no generate_mok.
    insta::assert_snapshot!(tree.typed_in_it(refused.refusal(5)), @r#"
    error: Secure Boot is on and there is no key for signing modules: the driver's modules would not load (GS301)
    hint: enrol the key, reboot, and confirm it at the console: sudo apt-get install dkms mokutil openssl && sudo openssl req -new -x509 -nodes -days 36500 -newkey rsa:2048 -subj '/CN=DKMS module signing key' -addext extendedKeyUsage=codeSigning -outform DER -keyout /root/mok.priv -out /root/mok.der && sudo sed -i '/^sign_tool=/d' /etc/dkms/framework.conf && echo 'sign_tool="/etc/dkms/sign_helper.sh"' | sudo tee -a /etc/dkms/framework.conf && sudo mokutil --import /root/mok.der && sudo reboot (on the machine that runs this tree, and not here)
    "#);
}

/// The root filesystem of a machine that does not run, without the programs that show its
/// architecture.
fn not_running(release: &str) -> Tree {
    let tree = Tree::new(release, "5.15.0-1-generic", 12);
    std::fs::remove_file(tree.path().join("bin/sh")).expect("a program");
    tree.write("usr/bin/apt-get", "");
    tree
}

#[test]
fn trees_that_do_not_run_show_what_they_are() {
    let ubuntu = "PRETTY_NAME=\"Ubuntu 22.04\"\nID=ubuntu\nVERSION_ID=\"22.04\"\n";
    let jetson = not_running(ubuntu);
    jetson.write(
        "etc/nv_tegra_release",
        "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic, EABI: aarch64, DATE: x\n",
    );
    let machine = jetson.run(&["facts", "--json"]).json()["machine"].clone();
    assert_eq!(
        (&machine["kind"], &machine["arch"]),
        (&"jetson".into(), &"aarch64".into()),
        "no program shows it"
    );
    for sign in ["etc/wsl-distribution.conf", "usr/lib/wsl/lib/.keep"] {
        let wsl = not_running(ubuntu);
        wsl.write(sign, "");
        assert_eq!(
            wsl.run(&["facts", "--json"]).json()["machine"]["kind"],
            "wsl2",
            "{sign}"
        );
        assert_eq!(
            finding(&wsl, "GS906")["status"],
            "skip",
            "Windows is not there"
        );
    }
}

/// A laptop with Intel's GPU and an RTX 4060.
fn laptop() -> Tree {
    let tree = Tree::ubuntu_24_04().gpu("0000:01:00.0", "28e0", Some("nouveau"));
    for (file, text) in [
        ("vendor", "0x8086"),
        ("device", "0xa7a0"),
        ("class", "0x030000"),
    ] {
        tree.write(
            &format!("sys/bus/pci/devices/0000:00:02.0/{file}"),
            &format!("{text}\n"),
        );
    }
    tree.write("sys/class/dmi/id/chassis_type", "10\n");
    tree
}

#[test]
fn a_laptops_desktop_stays_usable() {
    let bare = laptop()
        .run(&["plan", "--json", "--profile", "driver"])
        .json();
    assert!(
        packages(&bare)
            .iter()
            .any(|name| name.starts_with("nvidia-headless-")),
        "{:?}",
        packages(&bare)
    );
    assert!(!packages(&bare).contains(&"nvidia-prime") && warnings(&bare, "GS912").is_empty());
    let with_desktop = laptop();
    with_desktop.write("usr/bin/gnome-shell", "");
    let plan = with_desktop
        .run(&["plan", "--json", "--profile", "driver"])
        .json();
    let names = packages(&plan);
    assert!(
        names.iter().any(|name| name.starts_with("nvidia-driver-"))
            && names.contains(&"nvidia-prime"),
        "{names:?}"
    );
    insta::assert_snapshot!(with_desktop.typed_in_it(&warnings(&plan, "GS912").join("\n")), @"this laptop has two GPUs: the desktop stays on the one in the processor, and programs choose NVIDIA's: sudo prime-select on-demand, then __NV_PRIME_RENDER_OFFLOAD=1 __GLX_VENDOR_LIBRARY_NAME=nvidia PROGRAM");
    let facts = with_desktop.run(&["facts"]).out;
    let mut lines: Vec<_> = facts.lines().collect();
    lines.retain(|line| line.contains("GPU") || line.contains("laptop"));
    insta::assert_snapshot!(lines.join("\n"), @"
    System       Ubuntu 24.04.3 LTS, x86_64, physical machine, a laptop, a tree that
    GPU 0        0000:01:00.0 NVIDIA GeForce RTX 4060 Laptop GPU [10de:28e0],
    Other GPU    0000:00:02.0 [8086:a7a0]
    ");
    // With one GPU, or in a tower, there is nothing to choose.
    let tower = laptop();
    tower.write("usr/bin/gnome-shell", "");
    tower.write("sys/class/dmi/id/chassis_type", "3\n");
    assert!(
        !packages(&tower.run(&["plan", "--json", "--profile", "driver"]).json())
            .contains(&"nvidia-prime")
    );
}

#[test]
fn an_external_gpu_waits_for_its_authorisation() {
    let tree = Tree::ubuntu_24_04();
    let device = "sys/bus/thunderbolt/devices/0-1";
    for (file, text) in [
        ("authorized", "0"),
        ("device_name", "Core X"),
        ("vendor_name", "Razer"),
    ] {
        tree.write(&format!("{device}/{file}"), &format!("{text}\n"));
    }
    let refused = tree.run(&["plan"]);
    insta::assert_snapshot!(tree.typed_in_it(refused.refusal(9)), @"
    error: this host has no NVIDIA GPU on its PCI bus
    hint: authorise Razer Core X, if it is yours: it can read the memory of this host: boltctl list && sudo boltctl authorize DEVICE (on the machine that runs this tree, and not here)
    try: gpusetup plan --gpu h100  # plan as if there were one
    ");
    assert_eq!(finding(&tree, "GS913")["status"], "warn");
    tree.write(&format!("{device}/authorized"), "1\n");
    let tree = tree.gpu("0000:3f:00.0", "2684", None);
    tree.write("sys/bus/pci/devices/0000:3f:00.0/removable", "removable\n");
    let plan = tree.run(&["plan", "--json"]).json();
    insta::assert_snapshot!(warnings(&plan, "GS913").join("\n"), @"the GPU at 0000:3f:00.0 is in a case on Thunderbolt or USB4: connect it before boot. Stop the programs that use it before it is unplugged: driver 595.99.02 does not give it back while they run");
    assert_eq!(finding(&tree, "GS913")["status"], "pass");
}

#[test]
fn kernels_with_large_pages_get_their_headers() {
    let rhel = "PRETTY_NAME=\"Red Hat Enterprise Linux 9.6\"\nID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.6\"\n";
    let ubuntu = "PRETTY_NAME=\"Ubuntu 24.04\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n";
    for (release, kernel, program, wanted) in [
        (
            rhel,
            "5.14.0-570.12.1.el9_6.aarch64+64k",
            "usr/bin/dnf",
            &[
                "kernel-64k-devel-5.14.0-570.12.1.el9_6.aarch64",
                "kernel-64k-devel-matched-5.14.0-570.12.1.el9_6.aarch64",
            ][..],
        ),
        (
            rhel,
            "5.14.0-570.12.1.el9_6.aarch64",
            "usr/bin/dnf",
            &["kernel-devel-matched-5.14.0-570.12.1.el9_6.aarch64"],
        ),
        (
            ubuntu,
            "6.8.0-1049-nvidia-64k",
            "usr/bin/apt-get",
            &[
                "linux-headers-6.8.0-1049-nvidia-64k",
                "linux-headers-nvidia-64k",
            ],
        ),
        (
            ubuntu,
            "6.17.0-1026-nvidia",
            "usr/bin/apt-get",
            &["linux-headers-nvidia-hwe-24.04"],
        ),
        (
            ubuntu,
            "6.14.0-33-generic-64k",
            "usr/bin/apt-get",
            &["linux-headers-generic-64k-hwe-24.04"],
        ),
    ] {
        let tree =
            Tree::fresh(release, kernel, program)
                .arch(183)
                .gpu("0009:01:00.0", "2342", None);
        let plan = tree
            .run(&[
                "plan",
                "--json",
                "--profile",
                "driver",
                "--method",
                "runfile",
            ])
            .json();
        for name in wanted {
            assert!(
                packages(&plan).contains(name),
                "{kernel}: {name}: {:?}",
                packages(&plan)
            );
        }
        assert!(
            !packages(&plan).iter().any(|name| name.contains("+64k")),
            "{:?}",
            packages(&plan)
        );
    }
}

#[test]
fn grace_is_told_who_counts_its_memory() {
    let tree = Tree::ubuntu_24_04()
        .arch(183)
        .gpu("0009:01:00.0", "2342", None);
    let warned = |arguments: &[&str]| {
        let plan = tree
            .run(&[&["plan", "--json", "--profile", "driver"], arguments].concat())
            .json();
        warnings(&plan, "GS909")
    };
    let option = "nvidia.NVreg_CoherentGPUMemoryMode=driver";
    let command =
        format!("sudo gpusetup apply --driver 580 --profile driver --module-option {option}");
    assert!(
        tree.typed_in_it(&warned(&["--driver", "580"])[0])
            .ends_with(&command),
        "the request stays"
    );
    assert_eq!(
        warned(&["--driver", "580", "--module-option", option]),
        [""; 0]
    );
    let spark = Tree::ubuntu_24_04()
        .arch(183)
        .gpu("000f:01:00.0", "2e12", None);
    assert!(
        warnings(
            &spark.run(&["plan", "--json", "--profile", "driver"]).json(),
            "GS909"
        )
        .is_empty()
    );
}

#[test]
fn dgx_os_is_updated_as_a_whole() {
    let dgx = || {
        Tree::ubuntu_24_04()
            .arch(183)
            .gpu("000f:01:00.0", "2e12", Some("nvidia"))
    };
    let tree = dgx();
    tree.write(
        "etc/dgx-release",
        "DGX_NAME=\"DGX Spark\"\nDGX_SWBUILD_VERSION=\"7.2.3\"\n",
    );
    let plan = tree.run(&["plan", "--json", "--profile", "driver"]).json();
    insta::assert_snapshot!(tree.typed_in_it(&warnings(&plan, "GS914").join("\n")), @"NVIDIA tests the driver of DGX OS with its kernel and firmware: driver 595.99.02 may not be the one that belongs to it; update the whole system, with the driver that belongs to it, and the firmware: sudo apt update && sudo apt full-upgrade && sudo fwupdmgr upgrade");
    assert!(
        warnings(
            &dgx().run(&["plan", "--json", "--profile", "driver"]).json(),
            "GS914"
        )
        .is_empty()
    );
}

#[test]
fn an_image_without_a_gpu_gets_a_plan_for_one() {
    let code =
        |arguments: &[&str]| -> Ran { Tree::ubuntu_24_04().run(&[&["plan"], arguments].concat()) };
    assert_eq!(code(&[]).code, 9);
    assert_eq!(code(&["--if-no-gpu", "skip"]).code, 0);
    assert_eq!(code(&["--gpu", "a100"]).code, 0);
    assert_eq!(
        run(&["plan", "--os", "rhel-9:aarch64", "--gpu", "gh200"]).code,
        0
    );
}
