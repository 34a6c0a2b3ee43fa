//! Kernels: their modules, those of other drivers, and Secure Boot.

use super::*;
use crate::evidence::{FailedBuild, SignedModules};
use gpusetup_host::{Firmware, ModuleBlock, SigningKey};

#[test]
fn kernels_and_their_modules() {
    let next = |e: &mut Seen| e.facts.kernels.installed.remove(1);
    let without = |e: &mut Seen, headers, module| {
        let mut kernel = next(e);
        kernel.headers = headers;
        kernel.nvidia_module = module;
        e.facts.kernels.installed.push(kernel);
    };
    let module = || "580.95.05".parse().ok();
    assert_eq!(
        found(|e| without(e, false, module())),
        ["GS101 warn"],
        "the next update will fail"
    );
    assert_eq!(
        found(|e| without(e, false, None)),
        ["GS101 fail", "GS104 fail < GS101"]
    );
    assert_eq!(found(|e| without(e, true, None)), ["GS104 fail"]);
    assert_eq!(
        found(|e| without(e, true, "570.1.1".parse().ok())),
        ["GS104 fail"]
    );
    assert_eq!(
        found(|e| e.facts.kernels.installed[0].nvidia_module = None),
        ["GS104 warn"],
        "only the old kernel"
    );
    let too_new = |e: &mut Seen| {
        without(e, true, None);
        let failed = FailedBuild {
            why: "nv.c:1:1: error: no such function".into(),
            is_final: true,
        };
        e.failed_builds.insert(KERNEL.into(), failed);
    };
    assert_eq!(found(too_new), ["GS104 fail"]);
    let mut evidence = sound();
    too_new(&mut evidence);
    let report = examined(evidence);
    let cure = report
        .first()
        .and_then(|f| f.remediation.as_ref())
        .expect("a cure");
    assert_eq!(
        cure.commands,
        ["gpusetup plan --upgrade"],
        "another try would end the same"
    );
    let half_configured = |e: &mut Seen| {
        too_new(e);
        e.facts.unfinished_packages = vec!["nvidia-dkms-580".to_owned()];
    };
    assert_eq!(
        found(half_configured),
        ["GS603 fail < GS104", "GS104 fail"],
        "what dpkg waits for would fail again"
    );
    let other_gcc = |e: &mut Seen| {
        e.compilers = vec![11];
        e.facts.gcc = Some("11.4.0".into());
    };
    assert_eq!(found(other_gcc), ["GS102 warn"]);
    let neither = |e: &mut Seen| {
        other_gcc(e);
        without(e, true, None);
    };
    assert_eq!(found(neither), ["GS102 fail", "GS104 fail < GS102"]);
    // Modules that come built need neither.
    let prebuilt = |e: &mut Seen| {
        e.dkms.clear();
        without(e, false, module());
    };
    assert_eq!(found(prebuilt), [""; 0]);
}

#[test]
fn rivals_in_the_initramfs_and_on_the_gpu() {
    let image = |kernel: &'static str, image: Answer<InitramfsContents>| {
        move |e: &mut Seen| {
            e.images.insert(kernel.to_owned(), image);
        }
    };
    assert_eq!(found(image(KERNEL, rival(&["nouveau"]))), ["GS201 fail"]);
    assert_eq!(
        found(image(OLD_KERNEL, rival(&["nouveau"]))),
        ["GS201 warn"],
        "only the old kernel"
    );
    assert_eq!(found(image(KERNEL, rival(&["nova_core"]))), ["GS202 fail"]);
    // A splash screen brings all graphics modules; the blacklist comes with them.
    let kept_out = InitramfsContents {
        rivals: vec!["x/nouveau.ko".into()],
        denied: vec!["nouveau".into()],
        forced: Vec::new(),
    };
    let forced = Answer::Is(InitramfsContents {
        forced: vec!["nouveau".into()],
        ..kept_out.clone()
    });
    assert_eq!(
        found(image(KERNEL, forced)),
        ["GS201 fail"],
        "a blacklist holds for no name"
    );
    let splash = Answer::Is(kept_out);
    assert_eq!(found(image(KERNEL, splash)), [""; 0]);
    assert_eq!(
        found(image(KERNEL, Answer::NotAsked("it is root's".into()))),
        [""; 0]
    );
    let on_command_line = |e: &mut Seen| {
        image(KERNEL, rival(&["nouveau"]))(e);
        e.denied.push(BlacklistEntry {
            module: "nouveau".into(),
            by: "/proc/cmdline".into(),
            modified: None,
        });
    };
    assert_eq!(found(on_command_line), [""; 0]);
    let held = |by: &'static str| {
        move |e: &mut Seen| {
            e.facts.gpus[0].bound_to = Some(by.into());
            e.facts.loaded_modules = Some(Vec::new());
        }
    };
    assert_eq!(
        found(held("nouveau")),
        ["GS201 fail", "GS501 fail < GS201"],
        "a reboot is all it takes"
    );
    assert_eq!(
        found(held("nova-core")),
        ["GS202 fail", "GS501 fail < GS202"]
    );
    let mut named = sound();
    held("vfio-pci")(&mut named);
    named.facts.gpus[0].address = "0000:17:00.0; id #".into();
    let report = examined(named);
    let cures = report
        .checks
        .iter()
        .filter_map(|check| check.remediation.as_ref());
    let commands: Vec<_> = cures
        .flat_map(|cure| &cure.commands)
        .filter(|command| command.contains("id #"))
        .collect();
    assert!(
        !commands.is_empty() && commands.iter().all(|c| c.contains("'0000:17:00.0; id #'")),
        "{commands:?}"
    );
    let before_install = |e: &mut Seen| {
        held("nouveau")(e);
        e.facts.driver = None;
    };
    assert_eq!(
        found(before_install),
        ["GS501 fail"],
        "nouveau is right where no other driver is"
    );
}

#[test]
fn what_keeps_the_drivers_modules_out() {
    let block = |text: &str, always| ModuleBlock {
        module: "nvidia".into(),
        by: "/etc/modprobe.d/own settings.conf".into(),
        line: Some(3),
        text: text.into(),
        always,
    };
    let off = || vec![block("alias nvidia off", true)];
    let blacklist = || vec![block("blacklist nvidia", false)];
    let with = |blocks: Vec<ModuleBlock>, is_loaded: Option<bool>| {
        move |e: &mut Seen| {
            e.blocked = Some(blocks.clone());
            match is_loaded {
                Some(true) => {}
                Some(false) => {
                    e.facts.loaded_modules = Some(Vec::new());
                    e.facts.gpus[0].bound_to = None;
                }
                None => e.facts.loaded_modules = None,
            }
        }
    };
    assert_eq!(
        found(with(off(), Some(false))),
        ["GS204 fail", "GS501 fail < GS204"]
    );
    assert_eq!(
        found(with(blacklist(), Some(false))),
        ["GS204 fail", "GS501 fail < GS204"],
        "it is why nothing was loaded"
    );
    assert_eq!(
        found(with(off(), Some(true))),
        ["GS204 warn"],
        "the next attempt fails"
    );
    assert_eq!(
        found(with(blacklist(), Some(true))),
        [""; 0],
        "it was loaded by its name"
    );
    assert_eq!(found(with(off(), None)), ["GS204 fail"], "a tree");
    assert_eq!(
        found(with(blacklist(), None)),
        ["GS204 warn"],
        "a tree, in which programs load it by its name"
    );
    let mut evidence = sound();
    with(off(), Some(false))(&mut evidence);
    let report = examined(evidence);
    let check = report
        .checks
        .iter()
        .find(|check| check.id == CheckId::GS204)
        .expect("it was run");
    assert!(
        check
            .cause
            .as_deref()
            .is_some_and(|cause| cause.contains("own settings.conf:3' keeps")),
        "{:?}",
        check.cause
    );
    let commands = &check.remediation.as_ref().expect("a remedy").commands;
    assert_eq!(
        commands[0],
        "sudo sed -i 3d '/etc/modprobe.d/own settings.conf'"
    );
    assert_eq!(
        commands.last().map(String::as_str),
        Some("sudo modprobe nvidia")
    );
}

#[test]
fn what_is_loaded() {
    assert_eq!(
        found(|e| e.facts.gpus[0].bound_to = None),
        ["GS501 fail"],
        "loaded, and without the GPU"
    );
    let loaded = |version: &'static str| {
        move |e: &mut Seen| {
            e.facts.loaded_modules = Some(vec![LoadedModule {
                name: "nvidia".into(),
                version: Some(version.into()),
            }]);
        }
    };
    assert_eq!(
        found(loaded("570.1.1")),
        ["GS501 fail"],
        "updated, and not booted since"
    );
    assert_eq!(
        found(|e| e.facts.loaded_modules = Some(Vec::new())),
        ["GS501 fail"]
    );
    let secure = |signer: Answer<Option<String>>, is_loaded: bool| {
        move |e: &mut Seen| {
            e.facts.secure_boot = SecureBoot::Enabled;
            e.signer = signer;
            if !is_loaded {
                e.facts.loaded_modules = Some(Vec::new());
            }
        }
    };
    assert_eq!(
        found(secure(Answer::Is(None), false)),
        ["GS301 fail", "GS501 fail < GS301"]
    );
    assert_eq!(
        found(secure(Answer::Is(Some("DKMS".into())), true)),
        [""; 0]
    );
    secure_boot_keys();
    let from_image = |e: &mut Seen| {
        loaded("570.1.1")(e);
        e.module_before_boot = Some(true);
    };
    assert_eq!(found(from_image), ["GS501 fail"]);
    let mut evidence = sound();
    from_image(&mut evidence);
    let report = examined(evidence);
    let cure = report
        .first()
        .and_then(|f| f.remediation.as_ref())
        .expect("a cure");
    let rebuild = format!("sudo update-initramfs -u -k {KERNEL}");
    assert_eq!(
        cure.commands,
        [&*rebuild, "sudo reboot"],
        "a reboot since then did not help"
    );
    let ours = |enrolled: bool| {
        move |e: &mut Seen| {
            secure(Answer::Is(Some("DKMS".into())), false)(e);
            e.key_is_enrolled = Some(enrolled);
        }
    };
    assert_eq!(found(ours(false)), ["GS301 fail", "GS501 fail < GS301"]);
    assert_eq!(found(ours(true)), ["GS501 fail"]);
    let unsure = found(secure(Answer::Is(Some("DKMS".into())), false));
    assert_eq!(
        unsure,
        ["GS301 warn", "GS501 fail"],
        "the log does not say why it is not loaded"
    );
}

/// The keys of a host with Secure Boot, and what helps.
fn secure_boot_keys() {
    let (ours, other) = ("/var/lib/dkms/mok.pub", "/root/keys/new.der");
    let key = |path: &str, enrolled, requested| SigningKey {
        path: path.into(),
        enrolled,
        requested,
    };
    let host = move |keys: Vec<SigningKey>, configured: Option<&'static str>, is_loaded: bool| {
        move |e: &mut Seen| {
            e.facts.secure_boot = SecureBoot::Enabled;
            e.signer = Answer::Is(Some("DKMS".into()));
            e.key_is_enrolled = Some(keys[0].enrolled);
            e.facts.signing_key = keys.first().cloned();
            e.facts.signing_keys = keys.clone();
            e.facts.firmware = Some(Firmware {
                dkms_certificate: configured.map(Into::into),
                ..Firmware::default()
            });
            if !is_loaded {
                e.facts.loaded_modules = Some(Vec::new());
            }
        }
    };
    let cure = |change: &dyn Fn(&mut Seen)| {
        let mut evidence = sound();
        change(&mut evidence);
        let finding = examined(evidence)
            .checks
            .into_iter()
            .find(|f| f.id == CheckId::GS301)
            .expect("it is looked at");
        finding
            .remediation
            .map(|cure| cure.commands)
            .unwrap_or_default()
    };
    // Modules that the distribution signs need nobody at the console; the key that signed them is
    // in its kernels.
    let could_have = |e: &mut Seen| {
        host(vec![key(ours, false, false)], None, false)(e);
        let package = "linux-modules-nvidia-580-open-generic".to_owned();
        e.signed_modules = Some(SignedModules {
            package,
            replaces: Some("nvidia-dkms-580-open".to_owned()),
        });
    };
    assert_eq!(
        cure(&could_have),
        [
            "sudo apt-get install linux-modules-nvidia-580-open-generic",
            "sudo apt-get remove nvidia-dkms-580-open",
            "sudo reboot"
        ]
    );
    let has = |signer: &'static str| {
        move |e: &mut Seen| {
            e.facts.secure_boot = SecureBoot::Enabled;
            e.facts.loaded_modules = Some(Vec::new());
            e.signer = Answer::Is(Some(signer.into()));
        }
    };
    assert_eq!(
        found(has("Canonical Ltd. Kernel Module Signing")),
        ["GS501 fail"]
    );
    assert_eq!(found(has("somebody")), ["GS301 warn", "GS501 fail"]);
    let waits = host(vec![key(ours, false, true)], None, false);
    assert_eq!(found(&waits), ["GS301 fail", "GS501 fail < GS301"]);
    assert_eq!(
        cure(&waits),
        ["sudo reboot"],
        "the request is there already"
    );
    let absent = host(vec![key(ours, false, false)], None, false);
    assert_eq!(cure(&absent)[0], format!("sudo mokutil --import {ours}"));
    // The next kernel's modules would not load.
    let next = |enrolled| {
        host(
            vec![key(ours, true, false), key(other, enrolled, false)],
            Some(other),
            true,
        )
    };
    assert_eq!(found(next(false)), ["GS301 warn"]);
    assert_eq!(
        cure(&next(false))[0],
        format!("sudo mokutil --import {other}")
    );
    assert_eq!(found(next(true)), [""; 0]);
    // Ubuntu's DKMS has its key elsewhere.
    let ubuntu = |e: &mut Seen| {
        e.facts.secure_boot = SecureBoot::Enabled;
        e.signer = Answer::Is(None);
        e.facts.loaded_modules = Some(Vec::new());
    };
    assert_eq!(
        cure(&ubuntu)[0],
        "sudo mokutil --import /var/lib/shim-signed/mok/MOK.der"
    );
    // Amazon's kernels load no modules but Amazon's.
    let amazon = |e: &mut Seen| {
        ubuntu(e);
        (e.facts.os.id, e.facts.os.version) = ("amzn".into(), "2023".into());
    };
    assert_eq!(cure(&amazon), [""; 0], "no key helps");
}
