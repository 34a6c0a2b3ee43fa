//! `gpusetup doctor`, as a user runs it.

use crate::common::{Ran, Tree, program, run, run_with_input, text};
use crate::schema;
use gpusetup::compat::AddOnId;
use gpusetup::database::embedded;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A library with `cudnnGetVersion` by gcc; `body` is what the function does.
fn library(folder: &Path, body: &str) -> PathBuf {
    let (source, library) = (folder.join("cudnn.c"), folder.join("libcudnn.so.9"));
    let text = format!(
        "#include <stddef.h>\n#include <stdlib.h>\n#include <unistd.h>\nsize_t cudnnGetVersion(void) {{ {body} }}\n"
    );
    std::fs::write(&source, text).expect("written");
    let made = Command::new("gcc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .status();
    assert!(made.expect("gcc is there").success());
    library
}

#[test]
fn json_is_as_the_schema_says() {
    let tree = Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b0", Some("nouveau"));
    for arguments in [
        &["doctor", "--json"][..],
        &["doctor", "--json", "GS503", "gs201"],
    ] {
        let ran = tree.run(arguments);
        let report: Value =
            serde_json::from_str(&ran.out).expect("one JSON object and nothing else");
        assert_eq!(schema::mistakes("doctor.json", &report), [""; 0]);
        assert_eq!(
            ran.code,
            if arguments.len() == 2 { 20 } else { 0 },
            "GS501: no driver is installed"
        );
    }
    let report = run(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&report.out).expect("JSON of this machine");
    assert_eq!(schema::mistakes("doctor.json", &report), [""; 0]);
}

#[test]
fn a_system_that_has_no_thread_left_gets_the_same_report() {
    let tree = Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b0", Some("nouveau"));
    // No system has the memory for such a stack.
    let mut command = program();
    command
        .env("RUST_MIN_STACK", "1000000000000000")
        .args(["doctor", "--root"])
        .arg(tree.path());
    let ran = Ran::of(command.output().expect("gpusetup runs"));
    assert_eq!(
        (ran.out, ran.code),
        (tree.run(&["doctor"]).out, 20),
        "{}",
        ran.err
    );
}

#[test]
fn a_bug_costs_only_the_checks_that_need_the_part_with_the_bug() {
    let tree = Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b0", Some("nouveau"));
    let doctor = |bugs: &str, more: &[&str]| {
        let mut command = program();
        command
            .args(["doctor", "--json", "--root"])
            .arg(tree.path())
            .args(more)
            .env("GPUSETUP_BUGS", bugs);
        Ran::of(command.output().expect("it runs"))
    };
    let statuses = |ran: &Ran| -> BTreeMap<String, (String, Value)> {
        let report: Value =
            serde_json::from_str(&ran.out).expect("one JSON object and nothing else");
        let checks = report["checks"].as_array().expect("a list").iter();
        checks
            .map(|c| {
                (
                    text(c, "/id").to_owned(),
                    (text(c, "/status").to_owned(), c["cause"].clone()),
                )
            })
            .collect()
    };
    let sound = statuses(&doctor("", &[]));
    // A part that is read beside others, one that has threads, and a check; two starts more than
    // one for the three of them.
    let ran = doctor("denials,images,GS501", &[]);
    assert_eq!((ran.code, ran.err.as_str()), (20, ""));
    let seen = statuses(&ran);
    let changed: Vec<_> = seen
        .iter()
        .filter(|(id, now)| sound[*id] != **now)
        .collect();
    let ids: Vec<_> = changed.iter().map(|(id, _)| id.as_str()).collect();
    assert!(
        ids.contains(&"GS201") && ids.contains(&"GS501") && ids.len() < 10,
        "{ids:?}"
    );
    for (id, (status, cause)) in changed {
        let cause = cause.as_str().unwrap_or_default();
        assert!(
            status == "error" && cause.contains("please report this bug"),
            "{id}: {status} {cause}"
        );
    }
    // What came by standard input is gone: the first bug is the end.
    let ran = doctor("denials", &["--kernel-log", "-"]);
    let error: Value = serde_json::from_str(&ran.out).expect("one JSON object and nothing else");
    assert_eq!((ran.code, text(&error, "/schema")), (1, "gpusetup.error/1"));
    assert!(
        text(&error, "/error").starts_with("gpusetup has a bug"),
        "{error}"
    );
}

/// What doctor found, without the host that it describes first.
fn found(tree: &Tree, ran: &Ran) -> String {
    let at = ran
        .out
        .find("\n[")
        .unwrap_or_else(|| panic!("{}{}", ran.out, ran.err));
    tree.typed_in_it(&ran.out[at..])
}

#[test]
fn text_names_cause_cure_and_what_comes_first() {
    let tree = Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b0", Some("nouveau"));
    let ran = tree.run(&["doctor"]);
    assert_eq!(ran.code, 20);
    let found = found(&tree, &ran);
    // How many checks there are is not what this is about.
    let (found, _) = found.rsplit_once("\n1 problem").expect("a summary");
    insta::assert_snapshot!(found, @"
    [ok] GPU         NVIDIA A100-SXM4-40GB
    [--] Kernel      6.8.0-64-generic
    [XX] Driver      no NVIDIA driver; 1 problem
    [--] CUDA        no toolkit
    [--] cuDNN       no cuDNN
    [--] Python      no environment with CUDA
    [--] Containers  not checked
    [ok] Packages    apt

    [XX] GS501 the host has an NVIDIA GPU, but no NVIDIA driver is installed
         fix   see which driver gpusetup would install
                 gpusetup plan
    ");
    assert!(
        ran.out.lines().all(|l| l.chars().count() <= 80),
        "{}",
        ran.out
    );
    assert!(ran.out.is_ascii(), "the tests have no UTF-8 locale");
    assert!(tree.run(&["doctor", "-v"]).out.lines().count() > ran.out.lines().count());
}

#[test]
fn monitoring_gets_a_gauge_for_each_check() {
    let tree = Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b0", Some("nouveau"));
    let ran = tree.run(&["doctor", "--format", "prometheus"]);
    assert_eq!(ran.code, 20);
    assert!(
        ran.out.contains("\ngpusetup_check{id=\"GS501\"} 2\n"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("\ngpusetup_info{tool=\""), "{}", ran.out);
    let sample = |l: &str| l.starts_with('#') || l.starts_with("gpusetup_") && l.contains("} ");
    assert!(
        ran.out.lines().all(sample) && ran.out.ends_with('\n'),
        "{}",
        ran.out
    );
    let install = tree.run(&["doctor", "--format", "prometheus", "--profile", "install"]);
    assert!(
        !install.out.contains("GS501") && install.out.contains("GS603"),
        "{}",
        install.out
    );
}

#[test]
fn the_kernels_log_may_be_given() {
    let tree = Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b0", Some("nvidia"));
    let log = tree.path().join("dmesg.txt");
    std::fs::write(
        &log,
        "[  100.0] NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off the bus.\n",
    )
    .expect("written");
    let ran = tree.run(&[
        "doctor",
        "GS903",
        "--kernel-log",
        &log.display().to_string(),
    ]);
    assert_eq!(ran.code, 20);
    insta::assert_snapshot!(found(&tree, &ran), @"
    [XX] GPU         NVIDIA A100-SXM4-40GB; 1 problem

    [XX] GS903 Xid 79 of the GPU 0000:17:00.0: the GPU no longer answers on the PCI
               bus
         saw   0000:17:00.0: Xid 79: GPU has fallen off the bus.
         saw   the GPU at 0000:17:00.0: fallen off the bus
         fix   reboot; if the error returns, check power, cooling and the slot

    1 problem, 0 warnings, 0 passed, 0 not applicable (-v lists them).
    ");
    let xids =
        "NVRM: Xid (PCI:0000:17:00): 48, pid=1, DBE\nNVRM: Xid (PCI:0000:2a:00): 48, pid=1, DBE\n";
    std::fs::write(&log, xids).expect("written");
    let two = tree.run(&[
        "doctor",
        "GS903",
        "--json",
        "--kernel-log",
        &log.display().to_string(),
    ]);
    let two: serde_json::Value = serde_json::from_str(&two.out).expect("one JSON object");
    let cause = two["checks"][0]["cause"].as_str().expect("a cause");
    assert!(
        cause.starts_with("Xid 48 of the GPUs 0000:17:00.0 and 0000:2a:00.0: "),
        "{cause}"
    );
    assert_eq!(
        tree.run(&["doctor", "GS903", "--kernel-log", "/nonexistent"])
            .code,
        2
    );
}

#[test]
fn the_findings_may_be_looked_at_as_a_page() {
    let tree = Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b0", Some("nouveau"));
    let page = tree.path().join("report.html");
    let log = tree.path().join("dmesg.txt");
    std::fs::write(
        &log,
        "NVRM: Xid (PCI:0000:17:00): 79, pid=1, <script>alert(1)</script>\n",
    )
    .expect("written");
    let (page_, log) = (page.display().to_string(), log.display().to_string());
    assert_eq!(
        tree.run(&["doctor", "--html", &page_, "--kernel-log", &log])
            .code,
        20
    );
    let html = std::fs::read_to_string(page).expect("written");
    for part in [
        "<!doctype html>",
        "GS903",
        "Xid 79",
        "<h2>First</h2>",
        "&lt;script&gt;",
    ] {
        assert!(html.contains(part), "{part} is missing");
    }
    assert!(
        !html.contains("<script") && !html.contains("src=") && !html.contains("href="),
        "nothing runs or is fetched"
    );
    assert_eq!(
        html.matches("<details").count(),
        html.matches("</details>").count()
    );
}

#[test]
fn a_host_with_nothing_to_check_is_not_ill() {
    let ran = Tree::debian_12().run(&["doctor", "--strict", "--if-no-gpu", "skip"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("No problems found"), "{}", ran.out);
}

#[test]
fn a_host_without_a_gpu_is_not_taken_for_a_sound_one() {
    let tree = Tree::debian_12();
    let none = tree.run(&["doctor"]);
    assert_eq!(none.code, 9, "{}", none.out);
    insta::assert_snapshot!(none.err, @"no NVIDIA GPU was found; --if-no-gpu skip accepts that");
    let facts = tree.run(&["facts", "--json"]).out;
    assert_eq!(run_with_input(&["doctor", "--facts", "-"], &facts).code, 9);
    tree.write(
        "var/lib/dpkg/status",
        "Package: libcuda1\nStatus: install ok installed\nVersion: 535.261.03-1\n",
    );
    let gone = tree.run(&["doctor", "GS509"]);
    assert_eq!(gone.code, 9);
    insta::assert_snapshot!(found(&tree, &gone), @"
    [!!] GPU         no NVIDIA GPU; 1 warning

    [!!] GS509 the driver is installed, but no NVIDIA GPU is on the PCI bus: one may
               have fallen off it
         saw   /sys/bus/pci/devices has no device of vendor 10de
         fix   if the host has a GPU, power the host off and on again

    0 problems, 1 warning, 0 passed, 0 not applicable (-v lists them).
    ");
    assert_eq!(
        tree.run(&["doctor", "GS509", "--strict", "--if-no-gpu", "skip"])
            .code,
        20
    );
    // The tree of a machine whose bus cannot be seen from here.
    std::fs::remove_dir_all(tree.path().join("sys")).expect("removed");
    let unseen = tree.run(&["doctor", "GS509", "--strict"]);
    assert_eq!(unseen.code, 0);
    insta::assert_snapshot!(found(&tree, &unseen), @"
    [--] GPU         not known here

    [--] GS509 not checked, the PCI bus does not show here whether there is a GPU

    No problems found: 0 checks passed, 1 not applicable (-v lists them).
    ");
}

#[test]
fn a_repository_without_its_key_is_named() {
    let tree = Tree::ubuntu_24_04();
    let key = "/usr/share/keyrings/cuda-archive-keyring.gpg";
    let address = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/";
    tree.write(
        "etc/apt/sources.list.d/cuda.list",
        &format!("deb [signed-by={key}] {address} /\n"),
    );
    let ran = tree.run(&["doctor", "GS404", "--if-no-gpu", "skip"]);
    assert_eq!(ran.code, 20);
    insta::assert_snapshot!(found(&tree, &ran), @"
    [XX] Packages    apt; 1 problem

    [XX] GS404 apt has no key for
               https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64:
               /usr/share/keyrings/cuda-archive-keyring.gpg does not exist
         fix   install NVIDIA's keyring package for this repository
                 sudo wget https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/cuda-keyring_1.1-1_all.deb
                 sudo dpkg -i cuda-keyring_1.1-1_all.deb

    Note    chroot runs a program of the tree, as root: only for a tree whose
            programs you trust
    1 problem, 0 warnings, 0 passed, 0 not applicable (-v lists them).
    ");
}

/// Debian's driver, which lies in a directory of alternatives.
fn with_debians_driver() -> Tree {
    let tree = Tree::debian_12().gpu("0000:17:00.0", "20b0", None);
    tree.write(
        "var/lib/dpkg/status",
        "Package: libcuda1\nStatus: install ok installed\nVersion: 535.261.03-1\n",
    );
    tree.write(
        "usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.535.261.03",
        "",
    );
    tree.link(
        "usr/lib/x86_64-linux-gnu/libcuda.so.1",
        "nvidia/current/libcuda.so.535.261.03",
    );
    tree
}

#[test]
fn a_runfiles_driver_over_packages_is_found_by_its_index() {
    let runfile = |version: &str| {
        let tree = with_debians_driver();
        tree.write("usr/bin/nvidia-uninstall", "");
        tree.write(
            "var/lib/nvidia/log",
            &format!("1.0-1 ({version})\nNVIDIA Accelerated Graphics Driver\n"),
        );
        let ran = tree.run(&["doctor", "GS401"]);
        assert_eq!(ran.code, 20, "{version}: {}", ran.out);
        found(&tree, &ran)
    };
    let over_packages = ["550.54.15", "535.261.03"].map(runfile);
    insta::assert_snapshot!(over_packages.concat(), @"
    [XX] Driver      535.261.03; 1 problem

    [XX] GS401 two drivers are installed over each other: 535.261.03 and 550.54.15
         saw   535.261.03 by Debian packages: package libcuda1 535.261.03-1
         saw   550.54.15 by NVIDIA's runfile: /var/lib/nvidia/log and
               /usr/bin/nvidia-uninstall
         fix   remove the driver that the runfile installed
                 sudo nvidia-uninstall --silent
                 gpusetup plan --profile driver

    Note    chroot runs a program of the tree, as root: only for a tree whose
            programs you trust
    1 problem, 0 warnings, 0 passed, 0 not applicable (-v lists them).

    [XX] Driver      535.261.03; 1 problem

    [XX] GS401 two drivers are installed over each other: 535.261.03 and 535.261.03
         saw   535.261.03 by NVIDIA's runfile: /var/lib/nvidia/log and
               /usr/bin/nvidia-uninstall
         saw   535.261.03 by Debian packages: package libcuda1 535.261.03-1
         fix   remove the driver that the runfile installed
                 sudo nvidia-uninstall --silent
                 gpusetup plan --profile driver

    Note    chroot runs a program of the tree, as root: only for a tree whose
            programs you trust
    1 problem, 0 warnings, 0 passed, 0 not applicable (-v lists them).
    ");
    let tree = with_debians_driver();
    tree.write(
        "usr/lib/x86_64-linux-gnu/nvidia/tesla-470/libcuda.so.470.256.02",
        "",
    );
    let unlinked = tree.run(&["doctor", "GS401"]);
    assert_eq!(unlinked.code, 0, "{}", unlinked.out);
    // The other one is chosen now.
    std::fs::remove_file(tree.path().join("usr/lib/x86_64-linux-gnu/libcuda.so.1"))
        .expect("removed");
    tree.link(
        "usr/lib/x86_64-linux-gnu/libcuda.so.1",
        "nvidia/tesla-470/libcuda.so.470.256.02",
    );
    let chosen = tree.run(&["doctor", "GS401"]);
    assert_eq!(chosen.code, 0, "{}", chosen.out);
    tree.write("usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15", "");
    assert_eq!(
        tree.run(&["doctor", "GS401"]).code,
        20,
        "a file in the loader's own directory is before them all"
    );
}

#[test]
fn checks_are_listed_and_unknown_ones_refused() {
    let ran = run(&["doctor", "--list-checks"]);
    assert!(
        ran.code == 0 && ran.out.contains("GS201  nouveau is blacklisted"),
        "{}",
        ran.out
    );
    insta::assert_snapshot!(run(&["doctor", "GS999"]).refusal(2), @"
    error: there is no check GS999
    try: gpusetup doctor --list-checks
    ");
}

#[test]
fn a_repair_is_shown_first_and_can_be_taken_back() {
    let tree = Tree::debian_12();
    tree.write("usr/local/cuda-12.4/bin/nvcc", "");
    tree.write(
        "usr/local/cuda-12.4/version.json",
        r#"{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}"#,
    );
    let link = tree.path().join("usr/local/cuda");
    let sick = tree.run(&["doctor", "--if-no-gpu", "skip", "GS701"]);
    let command = format!(
        "sudo chroot {} ln -sfn cuda-12.4 /usr/local/cuda",
        tree.path().display()
    );
    assert!(
        sick.code == 20 && sick.out.contains(&command),
        "{}",
        sick.out
    );
    assert!(sick.out.contains("--fix repairs GS701"), "{}", sick.out);
    let found = found(&tree, &sick);
    let (found, _) = found.split_once("\nFix").expect("a line on --fix");
    insta::assert_snapshot!(found, @"
    [XX] CUDA        CUDA 12.4.1; 1 problem

    [XX] GS701 there is no default toolkit: /usr/local/cuda is missing
         saw   CUDA 12.4.1 is in /usr/local/cuda-12.4
         fix   link it to an installed toolkit; add /usr/local/cuda/bin to their
               PATH
                 sudo ln -sfn cuda-12.4 /usr/local/cuda
                 sudo gpusetup doctor --fix
    ");
    let shown = tree.run(&[
        "doctor",
        "--if-no-gpu",
        "skip",
        "GS701",
        "--fix",
        "--dry-run",
    ]);
    assert!(
        shown.code == 20 && shown.out.contains("GS701: link it to an installed toolkit"),
        "{}{}",
        shown.out,
        shown.err
    );
    assert!(!link.is_symlink());
    if !rustix::process::geteuid().is_root() {
        let ran = tree.run(&["doctor", "--if-no-gpu", "skip", "GS701", "--fix", "--yes"]);
        assert!(ran.code == 5 && ran.err.contains("sudo"), "{}", ran.err);
        return;
    }
    let asked = tree.run(&["doctor", "--if-no-gpu", "skip", "GS701", "--fix"]);
    // Nobody is there to ask.
    insta::assert_snapshot!(tree.typed_in_it(asked.refusal(2)), @"
    error: this question needs a terminal
    try: sudo gpusetup doctor --if-no-gpu skip GS701 --fix --yes
    ");
    assert!(!link.is_symlink());
    let repaired = tree.run(&[
        "doctor",
        "--if-no-gpu",
        "skip",
        "GS701",
        "--fix",
        "--yes",
        "--json",
    ]);
    assert_eq!(repaired.json()["summary"]["fail"], 0);
    assert_eq!(
        std::fs::read_link(&link).expect("repaired"),
        Path::new("cuda-12.4")
    );
    // Broken again, it is repaired again: what the first repair did no longer holds.
    std::fs::remove_file(&link).expect("removed");
    assert_eq!(
        tree.run(&["doctor", "--if-no-gpu", "skip", "GS701", "--fix", "--yes"])
            .code,
        0
    );
    assert!(link.is_symlink());
    let again = tree.run(&["doctor", "--if-no-gpu", "skip", "GS701", "--fix", "--yes"]);
    assert!(
        again.code == 0,
        "nothing is left to repair: {}{}",
        again.out,
        again.err
    );
    assert_eq!(tree.run(&["rollback", "--yes"]).code, 0);
    assert!(!link.is_symlink(), "sick again");
}

#[test]
fn a_repair_that_fails_says_so_and_can_be_gone_on_with() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let tree = Tree::debian_12();
    tree.write(
        "var/lib/dpkg/status",
        "Package: libcuda1\nStatus: install ok half-configured\nVersion: 535.1-1\n",
    );
    // There is no dpkg in the tree that could finish.
    let ran = tree.run(&["doctor", "GS603", "--fix", "--yes"]);
    insta::assert_snapshot!(tree.typed_in_it(ran.refusal(7)), @"
    error: dpkg --force-confdef --force-confold --configure -a failed (exit status 127); the last it said:
        dpkg: No such file or directory (os error 2)
    hint: sudo gpusetup resume continues; sudo gpusetup rollback undoes what was done so far
    hint: the output of every program is in /var/log/gpusetup
    ");
    assert_eq!(tree.run(&["rollback", "--yes"]).code, 0);
}

#[test]
fn a_library_is_asked_for_its_version() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let ask = |body: &str| {
        let library = library(folder.path(), body);
        run(&[
            "ask",
            "add-on",
            library.to_str().expect("UTF-8"),
            "cudnnGetVersion",
            "returned",
        ])
    };
    let ran = ask("return 91002;");
    assert_eq!(
        (ran.code, ran.out.lines().last()),
        (0, Some("[91002]")),
        "{}",
        ran.err
    );
    let ran = run(&[
        "ask",
        "add-on",
        "libcudnn-of-nobody.so.9",
        "cudnnGetVersion",
        "returned",
    ]);
    assert!(
        ran.code == 1 && ran.err.contains("libcudnn-of-nobody.so.9"),
        "{}",
        ran.err
    );
}

#[test]
fn a_library_that_ends_its_caller_ends_only_the_child() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let library = library(folder.path(), "abort();");
    let asked = gpusetup::nvidia::ask_version(
        Path::new(env!("CARGO_BIN_EXE_gpusetup")),
        embedded().add_on(AddOnId::CUDNN).expect("known"),
        library.to_str().expect("UTF-8"),
        Duration::from_secs(20),
    );
    let why = format!("{asked:?}");
    assert!(why.contains("Failed") && why.contains("signal 6"), "{why}");
}

#[test]
fn a_library_that_hangs_is_given_up() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let library = library(folder.path(), "for (;;) sleep(1);");
    let asked = gpusetup::nvidia::ask_version(
        Path::new(env!("CARGO_BIN_EXE_gpusetup")),
        embedded().add_on(AddOnId::CUDNN).expect("known"),
        library.to_str().expect("UTF-8"),
        Duration::from_millis(300),
    );
    assert!(format!("{asked:?}").contains("Failed"), "{asked:?}");
}

#[test]
fn every_command_for_a_tree_is_for_that_tree() {
    let tree = Tree::debian_12().gpu("0000:17:00.0", "20b0", Some("nouveau"));
    tree.write("usr/local/cuda-12.4/bin/nvcc", "");
    tree.write("usr/local/cuda-12.4/lib64/libcudnn.so.9", "a copy");
    tree.write("usr/local/cuda-12.4/lib64/libcudnn.so.9.1.0", "a copy");
    tree.link("usr/local/cuda", "/usr/local/cuda-11.2");
    let root = tree.path().display().to_string();
    let ran = tree.run(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&ran.out).expect("JSON");
    let commands = |check: &Value| {
        check["remediation"]["commands"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    let all: Vec<_> = report["checks"]
        .as_array()
        .expect("checks")
        .iter()
        .flat_map(commands)
        .collect();
    assert!(all.len() >= 3, "{all:?}");
    for command in all.iter().map(|command| command.as_str().expect("text")) {
        let is_for_tree = command.contains(&format!("--root {root}"))
            || command.contains(&format!("chroot {root} "));
        assert!(
            is_for_tree && !command.contains("reboot") && !command.contains("modprobe"),
            "{command}"
        );
    }
    let shown = tree.run(&["doctor"]).out;
    for line in shown
        .lines()
        .filter(|line| line.contains("sudo ") || line.contains("gpusetup doctor"))
    {
        assert!(line.contains(&root), "{line}\n{shown}");
    }
}

#[test]
fn what_it_suggests_is_for_the_gpus_that_were_named() {
    let tree = Tree::ubuntu_24_04();
    let ran = tree.run(&["doctor", "--gpu", "a100", "--json", "GS501"]);
    let report: Value = serde_json::from_str(&ran.out).expect("JSON");
    let command = text(&report, "/checks/0/remediation/commands/0");
    assert!(
        command.starts_with("gpusetup plan --root ") && command.ends_with(" --gpu a100"),
        "{command}"
    );
    let ran = tree.run(&["doctor", "--gpu", "a100,rtx 3090", "GS501"]);
    assert!(
        ran.out.contains(" --gpu a100 --gpu 'rtx 3090'\n"),
        "{}",
        ran.out
    );
}
