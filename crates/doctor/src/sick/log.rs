//! The kernel's log: what it says, and what is no longer so.

use super::*;
use crate::kernel_log;

#[test]
fn what_the_kernel_said() {
    let log = |text: &'static str| {
        move |e: &mut Seen| {
            e.kernel_log = Answer::Is(kernel_log::parse(text));
        }
    };
    let idle = |text: &'static str| {
        move |e: &mut Seen| {
            log(text)(e);
            e.facts.gpus[0].bound_to = None;
            e.facts.loaded_modules = Some(Vec::new());
        }
    };
    for (number, want) in [
        ("79", &["GS903 fail"][..]),
        ("119", &["GS903 fail"]),
        ("31", &["GS903 warn"]),
        ("63", &[]),
        ("48", &["GS903 fail"]),
        ("9999", &["GS903 warn"]),
    ] {
        let text: &'static str = format!("NVRM: Xid (PCI:0000:17:00): {number}, pid=1, x").leak();
        assert_eq!(found(log(text)), want, "Xid {number}");
    }
    assert_eq!(
        found(log(
            "NVRM: GPU 0000:17:00.0: RmInitAdapter failed! (0x24:0x72:1568)"
        )),
        ["GS903 fail"]
    );
    let open = "NVRM: The NVIDIA GPU 0000:17:00.0 (PCI ID: 10de:20b0)\nNVRM: installed in this system requires use of the NVIDIA open kernel modules";
    assert_eq!(found(log(open)), [""; 0], "it has the GPU since");
    assert_eq!(found(idle(open)), ["GS504 fail", "GS501 fail < GS504"]);
    let legacy = "NVRM: The NVIDIA Tesla M2070 GPU installed in this system is\nNVRM:  supported through the NVIDIA 390.xx Legacy drivers. Please";
    assert_eq!(found(idle(legacy)), ["GS503 fail", "GS501 fail < GS503"]);
    let refused = |e: &mut Seen| {
        idle("[ 10.0] Loading of module with unavailable key is rejected")(e);
        e.facts.secure_boot = SecureBoot::Enabled;
        e.signer = Answer::Is(Some("DKMS".into()));
    };
    assert_eq!(found(refused), ["GS301 fail", "GS501 fail < GS301"]);
    let room = "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:17:00.0)\nNVRM: GPU 0000:17:00.0: RmInitAdapter failed! (0x24)";
    assert_eq!(found(log(room)), ["GS901 fail", "GS903 fail < GS901"]);
    assert_eq!(
        found(|e| e.kernel_log = Answer::NotAsked("only root may".into())),
        [""; 0]
    );
    for text in [
        "NVRM: GPU0 x: unexpected WPR2 already up, y",
        "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 27",
    ] {
        assert_eq!(found(log(text)), ["GS903 fail"], "{text}");
    }
}

#[test]
fn what_the_kernel_said_before_it_changed() {
    let log = |e: &mut Seen, text: &str| e.kernel_log = Answer::Is(kernel_log::parse(text));
    let idle = |e: &mut Seen, text: &str| {
        log(e, text);
        e.facts.gpus[0].bound_to = None;
        e.facts.loaded_modules = Some(Vec::new());
    };
    let cause = |change: &dyn Fn(&mut Seen), id: CheckId| {
        let mut evidence = sound();
        change(&mut evidence);
        let report = examined(evidence);
        report
            .checks
            .into_iter()
            .find(|f| f.id == id)
            .and_then(|f| f.cause)
            .unwrap_or_default()
    };
    // Some program brings other libraries along; what met a module that is gone is over.
    let mismatch = |client, module| {
        format!(
            "NVRM: API mismatch: the client has the version {client}, but\nNVRM: this kernel module has the version {module}."
        )
    };
    assert_eq!(
        found(|e| log(e, &mismatch("570.1.1", "580.95.05"))),
        ["GS501 warn"]
    );
    assert_eq!(
        found(|e| log(e, &mismatch("580.95.05", "570.1.1"))),
        [""; 0]
    );
    let nova =
        "NVRM: GPU 0000:17:00.0 is already bound to NovaCore.\nNVRM: No NVIDIA devices probed.";
    assert_eq!(found(|e| log(e, nova)), [""; 0], "it has the GPU since");
    assert_eq!(
        found(|e| idle(e, nova)),
        ["GS202 fail", "GS501 fail < GS202"],
        "nothing keeps nova out"
    );
    let denied = |e: &mut Seen| {
        idle(e, nova);
        e.denied.push(BlacklistEntry {
            module: "nova_core".into(),
            by: "/etc/modprobe.d/x.conf".into(),
            modified: Some(1),
        });
    };
    assert_eq!(found(denied), ["GS501 fail"]);
    assert!(cause(&denied, CheckId::GS501).contains("another driver had the GPU"));
    let vfio = "NVRM: GPU 0000:17:00.0 is already bound to vfio-pci.";
    assert_eq!(
        found(|e| idle(e, vfio)),
        ["GS501 fail"],
        "vfio-pci gave the GPU back"
    );
    let tree = |e: &mut Seen| {
        idle(e, vfio);
        e.facts.machine.is_offline_root = true;
        e.facts.loaded_modules = None;
    };
    assert_eq!(
        found(tree),
        ["GS203 warn"],
        "of a tree nothing newer is known"
    );
    let unfit = "nvidia: version magic '6.8.0-64-generic SMP' should be '6.8.0-71-generic SMP'";
    assert!(cause(&|e| idle(e, unfit), CheckId::GS501).contains("built for another kernel"));
    assert!(
        cause(
            &|e| idle(e, "NVRM: The NVIDIA probe routine failed for 1 device(s)."),
            CheckId::GS501
        )
        .contains("could initialise no GPU")
    );
    let unknown = "NVRM: The NVIDIA GPU 0000:17:00.0 (PCI ID: 10de:20b0)\nNVRM: installed in this system is not supported by the\nNVRM: NVIDIA 580.95.05 driver release.";
    assert!(cause(&|e| idle(e, unknown), CheckId::GS503).contains("but its branch does"));
    let open = "NVRM: The NVIDIA GPU 0000:17:00.0 (PCI ID: 10de:20b0)\nNVRM: installed in this system is not supported by open\nNVRM: nvidia.ko because it does not include the required GPU";
    assert!(cause(&|e| idle(e, open), CheckId::GS504).contains("but they do"));
    let enforced = "[ 10.0] Loading of unsigned module is rejected";
    assert_eq!(found(|e| log(e, enforced)), [""; 0], "it is loaded since");
    assert_eq!(
        found(|e| idle(e, enforced)),
        ["GS301 fail", "GS501 fail < GS301"],
        "without Secure Boot"
    );
}
