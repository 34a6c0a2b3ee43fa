//! A host seen by one gpusetup and diagnosed by another, as users do it: `doctor --report`, `doctor
//! REPORT`, `doctor --facts`.

use crate::common::{Ran, Tree, run, run_with_input};
use crate::schema;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What must not be in a report of [`host`].
const PLANTED: [&str; 22] = [
    "secret-host",
    "secret.example",
    "alice",
    "liddell",
    "wonderland",
    "bob-of-ldap",
    "192.168.77.5",
    "198.51.100.7",
    "2001:db8:77::5",
    "aa:bb:cc:dd:ee:ff",
    "b850f46d-d5ea-c752-ddf3-c4453e44d3f7",
    "0123456789abcdef0123456789abcdef",
    "czj31415",
    "1324419012345",
    "hunter2",
    "swordfish",
    "mirror-of-ours",
    "team-rabbit",
    "thesis-run",
    "gpu-node-17",
    "nvapi-",
    "rd.luks",
];

/// An Ubuntu with a driver that DKMS did not build, an Xid, and much that is private in its files.
fn host() -> Tree {
    let tree = Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b0", Some("nvidia"));
    tree.write("etc/hostname", "secret-host\n");
    tree.write(
        "etc/hosts",
        "127.0.0.1 localhost\n198.51.100.7 secret-host.corp.secret.example secret-host rabbit-hole\n",
    );
    tree.write(
        "etc/resolv.conf",
        "search corp.secret.example\nnameserver 192.168.77.5\n",
    );
    tree.write("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000:Alice Liddell,,,:/home/alice:/bin/sh\nubuntu:x:1001:1001::/home/ubuntu:/bin/sh\n");
    tree.write("etc/machine-id", "0123456789abcdef0123456789abcdef\n");
    tree.write("sys/class/dmi/id/product_serial", "CZJ31415\n");
    tree.write(
        "etc/apt/sources.list",
        "deb https://alice:hunter2@mirror-of-ours.lan/team-rabbit/ubuntu noble main\n",
    );
    tree.write(
        "etc/profile.d/cuda.sh",
        "export LD_LIBRARY_PATH=/home/alice/wonderland/cuda-12.8/lib64\n",
    );
    tree.write(
        "etc/environment",
        "LD_LIBRARY_PATH=\"/home/bob-of-ldap/cuda/lib64:/srv/secret-host/x\"\n",
    );
    tree.write("usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", "");
    tree.write("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.95.05", "");
    tree.write("usr/bin/nvidia-smi", "");
    tree.write("var/lib/dpkg/status", "Package: libnvidia-compute-580\nStatus: install ok installed\nArchitecture: amd64\nVersion: 580.95.05-0ubuntu1\n\n");
    tree.write(
        "var/log/kern.log",
        "Nov 21 12:00:00 gpu-node-17 kernel: [    0.0] Linux version 6.8.0-64-generic (alice@build.secret.example)\n\
         Nov 21 12:00:00 gpu-node-17 kernel: [    0.0] Command line: root=UUID=b850f46d-d5ea-c752-ddf3-c4453e44d3f7 rd.luks=x\n\
         Nov 21 12:00:09 gpu-node-17 kernel: [    9.0] NVRM: GPU at PCI:0000:17:00: GPU-b850f46d-d5ea-c752-ddf3-c4453e44d3f7\n\
         Nov 21 12:00:09 gpu-node-17 kernel: [    9.1] NVRM: GPU Board Serial Number: 1324419012345\n\
         Nov 21 12:00:10 gpu-node-17 kernel: [   10.0] NVRM: Xid (PCI:0000:17:00): 79, pid=7, name=thesis-run, GPU has fallen off the bus.\n\
         Nov 21 12:00:11 gpu-node-17 sshd[1]: Accepted password for alice from 192.168.77.5\n",
    );
    tree.write(
        "var/lib/dkms/nvidia/580.95.05/build/make.log",
        "DKMS make.log for nvidia-580.95.05 for kernel 6.8.0-64-generic (x86_64)\n\
         make -C /root/wonderland/src # by Alice Liddell <alice@secret.example>\n\
         /home/alice/wonderland/nv.c:1: warning: no cudnn 9.10.2.21\n\
         distcc 2001:db8:77::5 aa:bb:cc:dd:ee:ff \u{1b}[31m198.51.100.7\u{1b}[0m\n",
    );
    tree.write(
        "var/log/nvidia-installer.log",
        "nvidia-installer log file '/var/log/nvidia-installer.log'\nhttp_proxy=http://alice:swordfish@192.168.77.5:3128 --api-key nvapi-0123456789abcdef01234567\n",
    );
    tree.write(
        "var/log/gpusetup/events.jsonl",
        "{\"time\":\"2026-11-21T12:00:00Z\",\"event\":\"failed\",\"what\":\"ran\\nalice: https://mirror-of-ours.lan/team-rabbit?password=hunter2\"}\n",
    );
    tree.write(
        "var/lib/gpusetup/result.json",
        "{\"error\":\"secret-host\\talice\"}",
    );
    tree
}

/// A report of a tree, and the texts in it.
fn report_of(tree: &Tree) -> (std::path::PathBuf, BTreeMap<String, String>, Ran) {
    let report = tree.path().join("r.tar.zst");
    let ran = tree.run(&[
        "doctor",
        "--json",
        "--report",
        &report.display().to_string(),
    ]);
    let mut archive = tar::Archive::new(
        zstd::Decoder::new(std::fs::File::open(&report).expect("written")).expect("zstd"),
    );
    let entries = archive.entries().expect("a tar").map(|entry| {
        let mut entry = entry.expect("whole");
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("text");
        (entry.path().expect("a name").display().to_string(), text)
    });
    let texts = entries.collect();
    (report, texts, ran)
}

fn value(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}{}", ran.out, ran.err))
}

/// What each check comes to: but for what may be private in them, the sentences too.
fn endings(report: &Value) -> Vec<String> {
    let of = |f: &Value| {
        format!(
            "{} {} {} {}",
            f["id"], f["status"], f["consequence_of"], f["fixable"]
        )
    };
    report["checks"]
        .as_array()
        .expect("checks")
        .iter()
        .map(of)
        .collect()
}

fn diagnosed(report: &Path, more: &[&str]) -> Ran {
    let name = report.display().to_string();
    run(&[&["doctor", &name], more].concat())
}

#[test]
fn a_report_is_diagnosed_as_the_host_is() {
    let tree = host();
    let (report, texts, ran) = report_of(&tree);
    assert_eq!(ran.code, 20);
    let elsewhere = diagnosed(&report, &["--json"]);
    assert_eq!(elsewhere.code, 20);
    let (here, there) = (value(&ran), value(&elsewhere));
    assert_eq!(endings(&here), endings(&there));
    assert!(
        endings(&here)
            .iter()
            .any(|e| e.contains("GS903") && e.contains("fail")),
        "it is ill: {:?}",
        endings(&here)
    );
    assert_eq!(schema::mistakes("doctor.json", &there), [""; 0]);
    let inside: Value = serde_json::from_str(&texts["doctor.json"]).expect("JSON");
    assert_eq!(inside, there, "what the report says of itself");
    let evidence: Value = serde_json::from_str(&texts["evidence.json"]).expect("JSON");
    assert_eq!(schema::mistakes("evidence.json", &evidence), [""; 0]);
}

#[test]
fn a_report_of_a_host_that_keeps_no_secrets_says_all_that_it_says() {
    let tree = Tree::debian_12().gpu("0000:17:00.0", "20b0", Some("nouveau"));
    let (report, _, ran) = report_of(&tree);
    let (mut here, mut there) = (value(&ran), value(&diagnosed(&report, &["--json"])));
    // `http://archive/debian` of the tree is nobody's public mirror.
    for one in [&mut here, &mut there] {
        one["host"]["repositories"] = Value::Null;
        // Here they are for the tree, elsewhere for a host that was collected.
        for check in one["checks"].as_array_mut().expect("checks") {
            if check["remediation"].is_object() {
                check["remediation"]["commands"] = Value::Null;
            }
        }
    }
    assert_eq!(here, there);
}

#[test]
fn nothing_private_is_in_a_report() {
    let tree = host();
    let (report, texts, _) = report_of(&tree);
    for name in [
        "README.txt",
        "doctor.json",
        "evidence.json",
        "kernel.log",
        "nvidia-installer.log",
        "gpusetup/events.jsonl",
        "gpusetup/result.json",
        "dkms/nvidia-580.95.05.log",
    ] {
        assert!(
            texts.contains_key(name),
            "{name} is missing: {:?}",
            texts.keys()
        );
    }
    for (name, text) in &texts {
        let lower = text.to_lowercase();
        for secret in PLANTED {
            assert!(!lower.contains(secret), "{secret} is in {name}:\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "{name}");
    }
    // In names and between the files too.
    let bytes = zstd::decode_all(std::fs::File::open(&report).expect("written")).expect("zstd");
    for secret in PLANTED {
        let found = bytes
            .windows(secret.len())
            .any(|w| w.eq_ignore_ascii_case(secret.as_bytes()));
        assert!(!found, "{secret}");
    }
    // What a diagnosis needs is there, and what belongs together still shows.
    for (name, part) in [
        (
            "kernel.log",
            "Xid (PCI:0000:17:00): 79, pid=7, name=<program-1>, GPU has fallen off the bus.",
        ),
        ("kernel.log", "GPU-<uuid-1>"),
        ("kernel.log", "Serial Number: <serial-"),
        ("dkms/nvidia-580.95.05.log", "cudnn 9.10.2.21"),
        (
            "dkms/nvidia-580.95.05.log",
            "nvidia-580.95.05 for kernel 6.8.0-64-generic",
        ),
        ("evidence.json", "LD_LIBRARY_PATH=/home/<user-"),
        ("evidence.json", ">/cuda-12.8/lib64"),
        ("evidence.json", "\"address\": \"0000:17:00.0\""),
        ("evidence.json", "\"id\": \"ubuntu\""),
        ("nvidia-installer.log", "http_proxy=http://<address-"),
        ("README.txt", "gpusetup doctor FILE.tar.zst"),
    ] {
        assert!(
            texts[name].contains(part),
            "{part} is not in {name}:\n{}",
            texts[name]
        );
    }
    assert!(
        !texts["kernel.log"].contains("sshd"),
        "{}",
        texts["kernel.log"]
    );
}

#[test]
fn a_report_is_its_owners_and_says_what_it_is() {
    let tree = host();
    let (report, _, ran) = report_of(&tree);
    assert_eq!(
        report.metadata().expect("there").permissions().mode() & 0o777,
        0o600
    );
    for part in ["wrote ", "r.tar.zst", "read it before", "tar --zstd -xOf"] {
        assert!(ran.err.contains(part), "{part} is missing: {}", ran.err);
    }
    let text = diagnosed(&report, &[]);
    assert_eq!(text.code, 20);
    assert!(
        text.out.starts_with("From    another host, collected 20"),
        "{}",
        text.out
    );
    assert!(
        text.out
            .contains(&format!("by gpusetup {}", env!("CARGO_PKG_VERSION"))),
        "{}",
        text.out
    );
    assert!(
        text.out
            .contains("Fix     on that host sudo gpusetup doctor --fix repairs GS104"),
        "{}",
        text.out
    );
    assert!(
        diagnosed(&report, &["--json"])
            .err
            .contains("from another host, collected ")
    );
    let without_log = Tree::debian_12();
    let (.., ran) = report_of(&without_log);
    assert!(ran.err.contains("no log of the kernel's"), "{}", ran.err);
    // Again, over the one that is there; and not over what is no file.
    let again = tree.run(&["doctor", "--report", &report.display().to_string()]);
    assert!(again.err.contains("wrote "), "{}", again.err);
    let ran = tree.run(&["doctor", "--report", "/dev/null"]);
    assert!(
        ran.code == 2 && ran.err.contains("it is no file"),
        "{}",
        ran.err
    );
    assert_eq!(
        tree.run(&["doctor", "--report", "/nonexistent/r.tar.zst"])
            .code,
        1
    );
}

#[test]
fn a_report_takes_checks_and_another_log_beside_it() {
    let tree = host();
    let (report, ..) = report_of(&tree);
    let ran = diagnosed(&report, &["GS201", "gs903", "--json"]);
    let report_ = value(&ran);
    assert_eq!(endings(&report_).len(), 2);
    let log = tree.path().join("dmesg.txt");
    std::fs::write(&log, "[ 1.0] NVRM: Xid (PCI:0000:17:00): 63, pid=1, x\n").expect("written");
    let ran = diagnosed(
        &report,
        &["GS903", "--kernel-log", &log.display().to_string()],
    );
    assert_eq!(ran.code, 0, "{}", ran.out);
    for flag in [
        &["--root", "/"][..],
        &["--facts", "x"],
        &["--fix"],
        &["--gpu", "h100"],
        &["--report", "x"],
    ] {
        let ran = diagnosed(&report, flag);
        assert!(
            ran.code == 2 && ran.err.contains(flag[0]),
            "{flag:?}: {} {}",
            ran.code,
            ran.err
        );
    }
    let name = report.display().to_string();
    assert_eq!(run(&["doctor", &name, &name]).code, 2, "one at a time");
}

#[test]
fn what_is_no_report_is_refused_with_a_sentence() {
    let tree = Tree::debian_12();
    let (report, ..) = report_of(&tree);
    let good = std::fs::read(&report).expect("there");
    let file = tree.path().join("other.tar.zst");
    let refused = |bytes: &[u8]| {
        std::fs::write(&file, bytes).expect("written");
        let ran = diagnosed(&file, &[]);
        assert!(
            ran.out.is_empty() && ran.err.lines().filter(|l| l.starts_with("error: ")).count() == 1,
            "{}",
            ran.err
        );
        ran.code
    };
    assert_eq!(refused(&good[..good.len() - 1]), 10, "cut off");
    assert_eq!(refused(&good[..good.len() / 2]), 10);
    assert_eq!(refused(b""), 10);
    assert_eq!(refused(b"{}"), 10);
    let mut altered = good.clone();
    let middle = altered.len() / 2;
    altered[middle] ^= 1;
    assert_eq!(refused(&altered), 10);
    let compressed = |bytes: &[u8]| zstd::encode_all(bytes, 19).expect("compressed");
    assert_eq!(refused(&compressed(&vec![0; 512 << 20])), 10, "a bomb");
    let tar_of = |name: &str, kind: tar::EntryType, text: &str| {
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(text.len() as u64);
        if kind.is_symlink() {
            header.set_link_name("/etc/passwd").expect("set");
        }
        tar.append_data(&mut header, name, text.as_bytes())
            .expect("appended");
        compressed(&tar.into_inner().expect("a tar"))
    };
    assert_eq!(
        refused(&tar_of("other.txt", tar::EntryType::Regular, "x")),
        10
    );
    assert_eq!(
        refused(&tar_of("evidence.json", tar::EntryType::Symlink, "")),
        10
    );
    assert_eq!(
        refused(&tar_of(
            "evidence.json",
            tar::EntryType::Regular,
            "{\"schema\":\"gpusetup.evidence/1\"}"
        )),
        10
    );
    assert_eq!(
        refused(&tar_of(
            "evidence.json",
            tar::EntryType::Regular,
            "{\"schema\":\"gpusetup.evidence/9\"}"
        )),
        2
    );
    let newer =
        "{\"schema\":\"gpusetup.evidence/1\",\"tool\":\"99.0.0\",\"collected\":\"x\",\"moon\":1}";
    assert_eq!(
        refused(&tar_of("evidence.json", tar::EntryType::Regular, newer)),
        2
    );
    assert_eq!(run(&["doctor", "/nonexistent.tar.zst"]).code, 2);
    assert_eq!(run(&["doctor", "GS999"]).code, 2, "an id is no file");
}

#[test]
fn facts_alone_are_diagnosed_as_far_as_they_tell() {
    let tree = host();
    let facts = tree.run(&["facts", "--json"]).out;
    let ran = run_with_input(&["doctor", "--facts", "-", "--json"], &facts);
    let (alone, whole) = (value(&ran), value(&tree.run(&["doctor", "--json"])));
    assert_eq!(schema::mistakes("doctor.json", &alone), [""; 0]);
    let mut ran_on = 0;
    for (one, other) in alone["checks"]
        .as_array()
        .expect("checks")
        .iter()
        .zip(whole["checks"].as_array().expect("checks"))
    {
        if one["status"] != "skip" {
            ran_on += 1;
            assert_eq!(
                (&one["status"], &one["cause"]),
                (&other["status"], &other["cause"]),
                "{one}"
            );
        }
    }
    assert!(ran_on > 3, "{alone}");
    let text = run_with_input(&["doctor", "--facts", "-", "-v"], &facts);
    let words = text.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "a file of facts does not say it",
        "GS104 kernel 6.8.0-64-generic has no nvidia module",
    ] {
        assert!(words.contains(part), "{part} is missing:\n{}", text.out);
    }
    // The kernel's log is beside the facts where it is given.
    let log = tree.path().join("dmesg.txt");
    std::fs::write(&log, "[ 1.0] NVRM: Xid (PCI:0000:17:00): 79, pid=1, x\n").expect("written");
    let log = log.display().to_string();
    let ran = run_with_input(
        &["doctor", "--facts", "-", "GS903", "--kernel-log", &log],
        &facts,
    );
    assert!(ran.code == 20 && ran.out.contains("Xid 79"), "{}", ran.out);
    for flag in [
        &["--root", "/"][..],
        &["--fix"],
        &["--report", "x"],
        &["--gpu", "h100"],
    ] {
        assert_eq!(
            run_with_input(&[&["doctor", "--facts", "-"], flag].concat(), &facts).code,
            2,
            "{flag:?}"
        );
    }
    assert_eq!(run_with_input(&["doctor", "--facts", "-"], "{}").code, 2);
}

#[test]
fn a_sound_host_is_sound_by_its_facts() {
    for tree in [Tree::debian_12(), Tree::ubuntu_24_04(), Tree::rocky_9()] {
        let facts = tree.run(&["facts", "--json"]).out;
        let ran = run_with_input(
            &["doctor", "--facts", "-", "--strict", "--if-no-gpu", "skip"],
            &facts,
        );
        assert_eq!(ran.code, 0, "{}", ran.out);
    }
}
