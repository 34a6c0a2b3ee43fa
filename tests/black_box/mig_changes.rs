//! Changes of layouts that fail or are cut off: what stood there comes back. And layouts that every
//! boot restores.

use crate::mig::Host;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn with_state(host: &Host, state: &str) {
    fs::write(host.libraries.path().join("state"), state).expect("written");
}

#[test]
fn a_change_that_fails_gives_each_instance_its_compute_instances_back() {
    // One GPU instance has two small compute instances, one has none, and one is whole.
    const BEFORE: &str = "1 9 0 11,2 14 4 0,3 19 6 1";
    let host = Host::saying("no_compute=0\n");
    with_state(&host, &format!("0.mig=1 1 0\n0.instances={BEFORE}\n"));
    let ran = host.apply(&["7g.40gb", "--device", "0"]);
    assert_eq!(ran.code, 7, "{}{}", ran.out, ran.err);
    assert!(
        ran.err.contains("nvmlGpuInstanceCreateComputeInstance"),
        "{}",
        ran.err
    );
    let places = |text: &str| -> Vec<String> {
        let each = text
            .split(',')
            .map(|one| one.split_once(' ').expect("an id").1.to_owned());
        let mut each: Vec<_> = each.collect();
        each.sort();
        each
    };
    assert_eq!(places(&host.instances(0)), places(BEFORE));

    // The same by a rollback of a change that succeeded.
    host.answer("");
    host.applied(&["7g.40gb", "--device", "0"]);
    let undone = host.run(&["rollback", "--yes"]);
    assert_eq!(undone.code, 0, "{}{}", undone.out, undone.err);
    assert_eq!(places(&host.instances(0)), places(BEFORE));
}

#[test]
fn a_change_that_was_cut_off_is_undone_or_resumed() {
    for (again, expected) in [
        (&["rollback", "--yes"][..], "3g.20gb,2g.10gb"),
        (&["resume", "--yes"], "7x1g.5gb"),
        (
            &["mig", "apply", "--yes", "--device", "0", "7x1g.5gb"],
            "7x1g.5gb",
        ),
    ] {
        let host = Host::saying("");
        host.applied(&["3g.20gb,2g.10gb", "--device", "0"]);
        host.answer("cut=3\n");
        host.killed(&["mig", "apply", "--yes", "7x1g.5gb", "--device", "0"]);
        assert_eq!(
            host.instances(0).split(',').count(),
            3,
            "the machine stopped between two instances"
        );
        host.answer("");
        let ran = host.run(again);
        assert_eq!(ran.code, 0, "{again:?}: {}{}", ran.out, ran.err);
        assert!(!ran.err.contains("kept"), "{again:?}: {}", ran.err);
        let held = host.run(&["mig", "assert", "--device", "0", expected]);
        assert_eq!(held.code, 0, "{again:?}: {}{}", held.out, held.err);
    }
}

#[test]
fn a_rollback_that_was_cut_off_is_finished() {
    let host = Host::saying("");
    host.applied(&["7x1g.5gb", "--device", "0"]);
    host.applied(&["3g.20gb,2g.10gb", "--device", "0"]);
    host.answer("cut=4\n");
    host.killed(&["rollback", "--yes"]);
    assert_eq!(host.instances(0).split(',').count(), 4);
    host.answer("");
    let ran = host.run(&["rollback", "--yes"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let held = host.run(&["mig", "assert", "--device", "0", "7x1g.5gb"]);
    assert_eq!(held.code, 0, "{}{}", held.out, held.err);
}

#[test]
fn instances_that_somebody_removed_since_are_not_made_again() {
    let host = Host::saying("");
    host.applied(&["2x3g.20gb", "--device", "0"]);
    with_state(&host, "0.mig=1 1 0\n0.instances=1 9 0 3\n");
    let ran = host.run(&["rollback", "--yes"]);
    assert!(
        ran.err.contains("kept") && ran.err.contains("the MIG instances of GPU 0000:17:00.0"),
        "{}",
        ran.err
    );
}

#[test]
fn a_change_that_fails_on_one_gpu_is_undone_on_all() {
    let host = Host::saying("");
    host.applied(&["2x3g.20gb"]);
    host.answer("1.busy=2\n");
    let ran = host.apply(&["7x1g.5gb"]);
    assert_eq!(ran.code, 7, "{}{}", ran.out, ran.err);
    assert!(
        ran.err
            .contains("the GPUs have their previous modes and instances again"),
        "{}",
        ran.err
    );
    let held = host.run(&["mig", "assert", "2x3g.20gb"]);
    assert_eq!(held.code, 0, "{}{}", held.out, held.err);
    assert!(!host.tree.path().join("var/lib/gpusetup/reserve").exists());
}

#[test]
fn what_a_driver_says_does_not_reach_the_terminal_as_it_is() {
    let host = Host::saying("name=A100\u{1b}[31m\u{202e}\n");
    for ran in [
        host.run(&["mig", "list"]),
        host.run(&["mig", "apply", "--yes", "8x1g.5gb"]),
    ] {
        let output = ran.out + &ran.err;
        assert!(
            output.contains("A100") && !output.contains(['\u{1b}', '\u{202e}']),
            "{output:?}"
        );
    }
}

#[test]
fn a_run_that_is_refused_before_its_first_change_undoes_nothing() {
    let host = Host::saying("");
    host.tree.write("usr/bin/gpusetup", "");
    host.applied(&["2x3g.20gb"]);
    fs::create_dir_all(host.tree.path().join(UNIT)).expect("made");
    let ran = host.apply(&["7x1g.5gb", "--at-boot"]);
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    let held = host.run(&["mig", "assert", "2x3g.20gb"]);
    assert_eq!(held.code, 0, "{}{}", held.out, held.err);
}

/// A reset that gives both GPUs the mode that waits for it, and notes its arguments.
const RESETS: &str = "#!/bin/sh\nfolder=${0%/*}\necho \"$@\" >> \"$folder/resets\"\n\
    for gpu in 0 1; do echo \"$gpu.mig=1 1 0\" >> \"$folder/state\"; done\n";

#[test]
fn gpus_whose_mode_waits_for_a_reset_are_reset_together() {
    let host = Host::saying("activation=16\n");
    let program = host.libraries.path().join("nvidia-smi");
    fs::write(&program, RESETS).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set");
    for address in ["0000:17:00.0", "0000:18:00.0"] {
        host.tree
            .write(&format!("sys/bus/pci/devices/{address}/reset"), "");
    }
    host.applied(&["7x1g.5gb"]);
    let resets = fs::read_to_string(host.libraries.path().join("resets")).expect("reset");
    assert_eq!(resets, "--gpu-reset -i 0000:17:00.0,0000:18:00.0\n");
    let held = host.run(&["mig", "assert", "7x1g.5gb"]);
    assert_eq!(held.code, 0, "{}{}", held.out, held.err);
}

const UNIT: &str = "etc/systemd/system/gpusetup-mig.service";

/// A host whose boots restore a layout for each GPU.
fn with_boot_layouts() -> Host {
    let host = Host::saying("");
    host.tree.write("usr/bin/gpusetup", "");
    host.applied(&["7x1g.5gb", "--device", "0"]);
    host.applied(&["2x3g.20gb", "--device", "1", "--at-boot"]);
    host
}

fn text(host: &Host, path: &str) -> String {
    fs::read_to_string(host.tree.path().join(path)).unwrap_or_default()
}

#[test]
fn every_boot_restores_the_layouts_and_is_nothing_to_undo() {
    let host = with_boot_layouts();
    let unit = text(&host, UNIT);
    for line in [
        "ExecStart=/usr/bin/gpusetup mig restore",
        "After=gpusetup-resume.service nvidia-persistenced.service nvidia-fabricmanager.service",
        "Before=nvsm.service nvidia-dcgm.service dcgm.service dcgm-exporter.service kubelet.service slurmd.service \
         nvidia-cdi-refresh.service docker.service containerd.service crio.service k3s.service k3s-agent.service \
         rke2-server.service rke2-agent.service",
    ] {
        assert!(unit.lines().any(|other| other == line), "{line}\n{unit}");
    }
    assert_eq!(
        text(
            &host,
            "etc/systemd/system/multi-user.target.wants/gpusetup-mig.service"
        ),
        unit
    );
    let before = [host.instances(0), host.instances(1)];
    let result = text(&host, "var/lib/gpusetup/result.json");
    // No modes and no instances are left after a reboot.
    for boot in 1..=2 {
        fs::remove_file(host.libraries.path().join("state")).expect("removed");
        let ran = host.run(&["mig", "restore"]);
        assert_eq!(ran.code, 0, "{boot}: {}{}", ran.out, ran.err);
        assert_eq!(
            [host.instances(0), host.instances(1)],
            before,
            "boot {boot}"
        );
    }
    assert!(host.run(&["mig", "restore"]).out.contains("Nothing to do"));
    let again = host.run(&["mig", "restore", "--json"]).json();
    assert_eq!(crate::schema::mistakes("mig-restore.json", &again), [""; 0]);
    assert_eq!(again["gpus"][1]["changed"], false);
    assert_eq!(text(&host, "var/lib/gpusetup/result.json"), result);
    // The newest thing to undo is the apply that wrote the unit.
    assert_eq!(host.run(&["rollback", "--yes"]).code, 0);
    assert_eq!(
        (
            text(&host, UNIT).as_str(),
            text(&host, "etc/gpusetup/mig.yaml").as_str()
        ),
        ("", "")
    );
    assert_eq!(
        (host.instances(0), host.instances(1).as_str()),
        (before[0].clone(), "")
    );
    assert_eq!(
        host.run(&["mig", "restore"]).code,
        5,
        "nothing is to be restored any more"
    );
}

#[test]
fn boot_layouts_follow_gpus_that_get_other_indexes_and_name_those_that_are_missing() {
    let host = with_boot_layouts();
    let uuid = |n: u32| format!("GPU-00000000-0000-0000-0000-{n:012}");
    fs::remove_file(host.libraries.path().join("state")).expect("removed");
    host.answer(&format!("0.uuid={}\n1.uuid={}\n", uuid(1), uuid(0)));
    let ran = host.run(&["mig", "restore"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(
        host.run(&["mig", "assert", "--device", "1", "7x1g.5gb"])
            .code,
        0
    );
    assert_eq!(
        host.run(&["mig", "assert", "--device", &uuid(1), "2x3g.20gb"])
            .code,
        0
    );

    // Another board is in its place: the other one gets its layout nevertheless.
    fs::remove_file(host.libraries.path().join("state")).expect("removed");
    host.answer(&format!("0.uuid={}\n1.uuid={}\n", uuid(7), uuid(1)));
    let ran = host.run(&["mig", "restore"]);
    assert_eq!(ran.code, 7, "{}{}", ran.out, ran.err);
    assert!(
        ran.err
            .contains(&format!("names {}, which is not among the GPUs", uuid(0))),
        "{}",
        ran.err
    );
    assert_eq!(host.instances(0), "");
    assert_eq!(
        host.run(&["mig", "assert", "--device", "1", "2x3g.20gb"])
            .code,
        0
    );
}

#[test]
fn a_boot_runs_only_a_program_that_root_alone_can_replace() {
    let host = Host::saying("");
    let refused = || {
        let ran = host.apply(&["7x1g.5gb", "--at-boot"]);
        assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
        assert!(
            ran.err
                .contains("no gpusetup is installed where only root can write"),
            "{}",
            ran.err
        );
    };
    refused();
    host.tree.write("usr/local/bin/gpusetup", "");
    let path = host.tree.path().join("usr/local/bin/gpusetup");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o757)).expect("set");
    refused();
    assert_eq!(host.changes(), 0, "nothing was changed");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    host.applied(&["7x1g.5gb", "--at-boot"]);
    assert!(text(&host, UNIT).contains("ExecStart=/usr/local/bin/gpusetup mig restore\n"));
    // A layout for now only is not that of the next boot.
    let output = host.applied(&["2x3g.20gb", "--device", "0"]);
    assert!(
        output.contains("boots restore the layouts of /etc/gpusetup/mig.yaml"),
        "{output}"
    );
}
