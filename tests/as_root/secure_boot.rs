//! Secure Boot in an emulated machine, from the firmware on: OVMF starts Debian's signed shim, GRUB
//! and kernel, and the kernel refuses modules that nobody signed. gpusetup makes a key there and
//! prepares its enrolment; shim's own MokManager enrolls it, with the password that gpusetup showed
//! on the serial console; the kernel loads the module that was signed with it. And real DKMS signs
//! with the key that it is told of.

use crate::host::{Host, Ran, gpusetup, machine, script, script_path, store, text};
use crate::stack::{installed, planned};
use crate::step::step;
use gpusetup::certificate::Certificate;
use gpusetup::host::MachineKind;
use gpusetup::operation::{EnrollKey, Operation, Run};
use gpusetup::plan::{Plan, StepId};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const SHIM: &str = "605dab50-e046-4300-abb6-3dd810dd8b23";
const CERTIFICATE: &str = "/var/lib/dkms/mok.pub";
const KEY: &str = "/var/lib/dkms/mok.key";

/// Puts Secure Boot into a tree, as efivarfs shows it; shim's list has no certificate.
fn secure(tree: &Path) {
    let variables = tree.join("sys/firmware/efi/efivars");
    fs::create_dir_all(&variables).expect("made");
    let put = |name: &str, bytes: &[u8]| fs::write(variables.join(name), bytes).expect("written");
    put(
        "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
        &[6, 0, 0, 0, 1],
    );
    put(&format!("MokListRT-{SHIM}"), &[6, 0, 0, 0]);
}

/// What gpusetup plans for signing on Debian 12, and after it a step that signs a module with the
/// kernel's own program and loads it. The packages are in the machine.
fn signing(folder: &Path) -> Plan {
    let tree = folder.join("tree");
    for directory in ["etc", "var/lib/dpkg", "lib/modules/6.1.0-1-amd64"] {
        fs::create_dir_all(tree.join(directory)).expect("made");
    }
    fs::write(
        tree.join("etc/os-release"),
        "ID=debian\nVERSION_ID=12\nPRETTY_NAME=\"Debian 12\"\n",
    )
    .expect("written");
    fs::write(tree.join("var/lib/dpkg/arch"), "amd64\n").expect("written");
    let package =
        "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.36\n\n";
    fs::write(tree.join("var/lib/dpkg/status"), package).expect("written");
    fs::create_dir_all(tree.join("lib64")).expect("made");
    fs::copy(
        "/lib64/ld-linux-x86-64.so.2",
        tree.join("lib64/ld-linux-x86-64.so.2"),
    )
    .expect("copied");
    secure(&tree);
    let ran = gpusetup([
        "plan",
        "--root",
        text(&tree),
        "--gpu",
        "a100",
        "--profile",
        "driver",
        "--json",
    ])
    .succeeds();
    let mut plan: Plan = serde_json::from_str(&ran.out).expect("a plan");
    // It is for the machine that boots with it.
    plan.host.machine.is_offline_root = false;
    plan.host.machine.kind = MachineKind::Virtual;
    let first = plan
        .steps
        .iter()
        .position(|step| step.id == StepId::SignModules)
        .expect("it signs");
    plan.steps = plan.steps.drain(first..first + 2).collect();
    assert_eq!(
        plan.steps[1].id,
        StepId::Reboot,
        "the key is enrolled before anything needs it"
    );
    plan.steps[0]
        .operations
        .retain(|act| !matches!(act.operation, Operation::Packages(_)));
    let sign = [
        "/usr/lib/linux-kbuild-6.1/scripts/sign-file",
        "sha256",
        KEY,
        CERTIFICATE,
        "/modules/ours.ko",
    ];
    let load = ["/bin/insmod", "/modules/ours.ko"];
    plan.steps.push(step(
        StepId::Repair,
        vec![Run::new(sign, 60).into(), Run::new(load, 60).into()],
    ));
    plan
}

/// The first process of the machine. Three boots: a key is asked for; nobody came to the console;
/// somebody did.
const TEST: &str = r#"#!/bin/sh
export PATH=/bin:/usr/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
mount -t efivarfs efi /sys/firmware/efi/efivars
mount -t securityfs security /sys/kernel/security
boot=$(($(cat /boots 2>/dev/null || echo 0) + 1))
echo $boot >/boots
try() { echo "boot $boot: $*"; "$@"; echo "boot $boot: status $?"; }
case $boot in
1)
    cp /modules/unsigned.ko /modules/ours.ko
    try insmod /modules/unsigned.ko
    try gpusetup facts --json
    try gpusetup apply /plan.json --unattended --accept-eula --reboot never
    ls /var/lib/dkms | wc -l
    try gpusetup apply /plan.json --yes --accept-eula --reboot never
    ls -l /var/lib/dkms
    try gpusetup status --wait
    try mokutil --test-key /var/lib/dkms/mok.pub
    ;;
2)
    try gpusetup resume --unattended --reboot never
    try gpusetup resume --reboot never
    ;;
3)
    try mokutil --test-key /var/lib/dkms/mok.pub
    try gpusetup resume --unattended --reboot never
    try grep crc7 /proc/modules
    try gpusetup status
    try gpusetup rollback --yes
    ls /var/lib/dkms | wc -l
    dmesg | grep -i -e 'secure boot' -e 'lockdown:' -e 'is rejected'
    sync
    poweroff -f
    ;;
esac
sync
reboot -f
"#;

/// What the machine said between a command and its status, and the status.
fn answer<'a>(console: &'a str, boot: u8, command: &str) -> (&'a str, u8) {
    let head = format!("boot {boot}: {command}\n");
    let (_, rest) = console
        .split_once(&head)
        .unwrap_or_else(|| panic!("no {head:?}: {console}"));
    let (answer, rest) = rest
        .split_once(&format!("boot {boot}: status "))
        .expect("it ends");
    (
        answer,
        rest.lines()
            .next()
            .and_then(|status| status.trim().parse().ok())
            .expect("a number"),
    )
}

#[test]
#[ignore = "needs root, QEMU and OVMF: tests/run runs it"]
fn a_machine_with_secure_boot_takes_the_module_after_somebody_came_to_the_console() {
    let start = Instant::now();
    let folder = store().join("secure-boot");
    let _ = fs::remove_dir_all(&folder);
    let files = folder.join("files");
    fs::create_dir_all(files.join("var/lib/dkms")).expect("made");
    fs::write(
        files.join("plan.json"),
        serde_json::to_string(&signing(&folder)).expect("JSON"),
    )
    .expect("written");
    fs::write(files.join("test"), TEST).expect("written");
    machine("chmod", &["755", text(&files.join("test"))]).succeeds();
    fs::create_dir_all(files.join("usr/bin")).expect("made");
    fs::copy(
        env!("CARGO_BIN_EXE_gpusetup"),
        files.join("usr/bin/gpusetup"),
    )
    .expect("copied");
    script("../vm/secure-boot-disks", &[text(&folder), text(&files)]);
    println!("  the disks took {:.0} s", start.elapsed().as_secs_f64());

    // Nobody answers MokManager the first time it appears; then somebody types what gpusetup showed
    // last.
    fs::write(folder.join("passwords"), "-\n\n").expect("written");
    let start = Instant::now();
    let mut command = Command::new(script_path("../vm/secure-boot"));
    let ran =
        Ran::by(command.args([text(&folder), text(&folder.join("passwords")), "1500"])).succeeds();
    let console = ran.out.replace('\r', "");
    println!(
        "  four boots of the machine took {:.0} s",
        start.elapsed().as_secs_f64()
    );
    println!("  its console: {}", folder.join("console.log").display());

    let (refused, status) = answer(&console, 1, "insmod /modules/unsigned.ko");
    assert!(
        status != 0 && refused.contains("Key was rejected by service"),
        "{refused}"
    );
    let (facts, _) = answer(&console, 1, "gpusetup facts --json");
    let facts: Value =
        serde_json::from_str(&facts[facts.find('{').expect("JSON")..]).expect("facts");
    assert_eq!(facts["secure_boot"], "enabled");
    let firmware = &facts["firmware"];
    assert_eq!(
        (&firmware["shim"], &firmware["lockdown"]),
        (&true.into(), &"integrity".into()),
        "{firmware}"
    );
    let trusted: Vec<_> = firmware["trusted"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|t| &t["name"])
        .collect();
    assert!(
        trusted.contains(&&"Microsoft Corporation UEFI CA 2011".into()),
        "{trusted:?}"
    );
    assert!(
        trusted.contains(&&"Debian Secure Boot CA".into()),
        "{trusted:?}"
    );

    let (unattended, status) = answer(
        &console,
        1,
        "gpusetup apply /plan.json --unattended --accept-eula --reboot never",
    );
    assert!(status == 5 && unattended.contains("GS301"), "{unattended}");
    let (_, after) = console.split_once(unattended).expect("it is in it");
    assert_eq!(
        after.lines().nth(1).map(str::trim),
        Some("0"),
        "no key was made"
    );
    let (attended, status) = answer(
        &console,
        1,
        "gpusetup apply /plan.json --yes --accept-eula --reboot never",
    );
    assert!(
        status == 5 && attended.contains("Enroll MOK") && attended.contains("one-time password"),
        "{attended}"
    );
    let key = console
        .lines()
        .find(|line| line.contains(" mok.key"))
        .expect("a key");
    assert!(key.starts_with("-rw-------"), "{key}");
    let (waiting, status) = answer(&console, 1, "gpusetup status --wait");
    assert!(
        status == 5 && waiting.contains("needs someone at the console"),
        "{waiting}"
    );

    let (nobody, status) = answer(&console, 2, "gpusetup resume --unattended --reboot never");
    assert!(
        status == 5 && nobody.contains("was not enrolled at the console"),
        "{nobody}"
    );
    assert_eq!(answer(&console, 2, "gpusetup resume --reboot never").1, 5);

    assert!(
        answer(&console, 3, "mokutil --test-key /var/lib/dkms/mok.pub")
            .0
            .contains("already enrolled")
    );
    assert_eq!(
        answer(&console, 3, "gpusetup resume --unattended --reboot never").1,
        0,
        "{console}"
    );
    assert_eq!(
        answer(&console, 3, "grep crc7 /proc/modules").1,
        0,
        "the module is loaded"
    );
    let (undone, status) = answer(&console, 3, "gpusetup rollback --yes");
    let undone = undone.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        status == 0 && undone.contains("mokutil --delete"),
        "{undone}"
    );

    let passwords: Vec<_> = console
        .lines()
        .filter_map(|line| line.split_once("one-time password for the console: "))
        .map(|(_, p)| p.trim())
        .collect();
    assert!(
        passwords.len() == 2 && passwords[0] != passwords[1],
        "{passwords:?}"
    );
    let disk = fs::read(folder.join("root.img")).expect("a disk");
    for password in passwords {
        let holds = disk
            .windows(password.len())
            .any(|part| part == password.as_bytes());
        assert!(!holds, "the password is on the disk");
    }
    let _ = fs::remove_dir_all(folder.join("files"));
    ["root.img", "esp.img"]
        .iter()
        .for_each(|name| fs::remove_file(folder.join(name)).expect("removed"));
}

/// A module of one function, for real DKMS to build.
const MODULE: &str = "mkdir -p /usr/src/hello-1
cd /usr/src/hello-1
printf '#include <linux/module.h>\\nMODULE_LICENSE(\"GPL\");\\n' >hello.c
echo 'obj-m := hello.o' >Makefile
printf 'PACKAGE_NAME=hello\\nPACKAGE_VERSION=1\\nBUILT_MODULE_NAME=hello\\nDEST_MODULE_LOCATION=/updates\\nAUTOINSTALL=yes\\n' >dkms.conf
dkms install hello/1 -k $KERNEL >/dev/null
modinfo -k $KERNEL -F signer hello";

/// The operation's own fields.
fn without_op(mut act: Value) -> Value {
    let fields = act.as_object_mut().expect("an object");
    fields.remove("op");
    fields.remove("satisfied");
    act
}

#[test]
#[ignore = "needs root: tests/run runs it"]
fn dkms_signs_with_the_key_that_it_is_told_of() {
    // It is planned for a fresh host, and done on one that has DKMS already.
    let (fresh, host) = (
        Host::new("to-sign"),
        installed(&planned()).clone_as("signed"),
    );
    secure(&fresh.root());
    host.ask("rm -f /var/lib/dkms/mok.*");
    // A key of the administrator's, outside of the places that DKMS knows.
    fresh.ask("mkdir -m 700 /root/keys");
    let keys = fresh.path("/root/keys");
    let (key, certificate) = (keys.join("our.key"), keys.join("our.der"));
    let make = [
        "req",
        "-new",
        "-x509",
        "-nodes",
        "-days",
        "9",
        "-newkey",
        "rsa:2048",
        "-subj",
        "/CN=the administrator's",
    ];
    let usage = [
        "-addext",
        "extendedKeyUsage=codeSigning",
        "-keyout",
        text(&key),
        "-outform",
        "DER",
        "-out",
        text(&certificate),
    ];
    machine("openssl", &[&make[..], &usage].concat()).succeeds();
    host.ask("mkdir -p /etc/dkms/framework.conf.d");
    let plan = |more: &[&str]| {
        let base = ["plan", "--gpu", "a100", "--profile", "driver", "--json"];
        fresh
            .gpusetup_plain(&[&base[..], more].concat())
            .succeeds()
            .json()
    };
    let operation = |plan: &Value, name: &str| {
        let steps = plan["steps"].as_array().expect("steps").iter();
        let all: Vec<_> = steps
            .filter(|s| s["id"] == "sign-modules")
            .flat_map(|s| s["operations"].as_array().expect("some"))
            .collect();
        all.into_iter()
            .find(|o| o["op"] == name)
            .unwrap_or_else(|| panic!("no {name}: {plan}"))
            .clone()
    };
    let given = plan(&[
        "--mok-key",
        "/root/keys/our.key",
        "--mok-cert",
        "/root/keys/our.der",
    ]);
    let drop_in = operation(&given, "write-file");
    let content = drop_in["content"].as_str().expect("a text");
    machine("cp", &["--archive", text(&keys), text(&host.path("/root"))]).succeeds();
    fs::write(
        host.path(drop_in["path"].as_str().expect("a path")),
        content,
    )
    .expect("written");
    assert_eq!(host.ask(MODULE), "the administrator's");

    // The key that gpusetup makes is where DKMS looks for it.
    host.ask(
        "rm /etc/dkms/framework.conf.d/gpusetup.conf; dkms remove hello/1 --all >/dev/null; rm -f /var/lib/dkms/mok.*",
    );
    let enroll: EnrollKey = serde_json::from_value(without_op(operation(&plan(&[]), "enroll-key")))
        .expect("an operation");
    let argv = enroll.openssl().expect("a key is made");
    let argv: Vec<_> = argv.iter().map(String::as_str).collect();
    machine("chroot", &[&[text(&host.root())][..], &argv].concat()).succeeds();
    assert_eq!(host.ask("stat -c %a /var/lib/dkms/mok.key"), "600");
    assert_eq!(host.ask(MODULE), "DKMS module signing key made by gpusetup");
    let der = fs::read(host.path(CERTIFICATE)).expect("made");
    let made = Certificate::of(&der).map(|read| read.signs_code);
    assert_eq!(made, Some(Some(true)));
}
