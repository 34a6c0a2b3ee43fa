//! Where the kernel's messages are found in a tree, and what is said of a log that is not
//! understood.

use crate::common::{Ran, Tree};
use serde_json::Value;
use std::fs;

const LOST: &str =
    "NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";

fn host() -> Tree {
    Tree::debian_12().gpu("0000:17:00.0", "20b2", None)
}

/// What the check of GPU errors finds: its status and its cause.
fn found(ran: &Ran) -> (String, String) {
    let report = ran.json();
    let checks = report["checks"].as_array().expect("checks");
    let check = checks
        .iter()
        .find(|check| check["id"] == "GS903")
        .expect("GS903");
    let word = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
    (word("status"), word("cause"))
}

fn of_kernel(message: &str) -> String {
    format!("Aug 30 11:43:09 h kernel: [   12.345678] {message}\n")
}

/// The log files of a tree, the status and the cause that doctor finds, and what it says of a file
/// that is not read.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str, &'a str);

#[test]
fn the_kernels_messages_are_found_where_they_are() {
    let other = "Aug 30 11:43:09 h sshd[1]: Server listening on 0.0.0.0 port 22.\n";
    let (error, nothing) = (
        of_kernel(LOST),
        of_kernel("usb 1-1: new high-speed USB device"),
    );
    let busybox = format!("Aug 30 11:43:09 localhost kern.err kernel: [   12.345678] {LOST}\n");
    let numbered = format!("12:{error}");
    // Without a driver, errors of GPUs are warnings.
    let cases: [Case; 10] = [
        (&[("kern.log", &error)], "warn", "Xid 79", ""),
        (
            &[("kern.log", ""), ("kern.log.1", &error)],
            "warn",
            "Xid 79",
            "/var/log/kern.log.1 is read",
        ),
        (
            &[("kern.log", " \n"), ("messages", &error)],
            "warn",
            "Xid 79",
            "/var/log/messages is read",
        ),
        (
            &[
                ("messages", other),
                ("messages-20240818", &nothing),
                ("messages-20240825", &error),
            ],
            "warn",
            "Xid 79",
            "0825 is read",
        ),
        (
            &[("kern.log", "\u{1f}\u{8b}\0\0"), ("syslog", &error)],
            "warn",
            "Xid 79",
            "/var/log/syslog is read",
        ),
        (&[("messages", &busybox)], "warn", "Xid 79", ""),
        (
            &[("kern.log", &numbered)],
            "warn",
            "a line of the kernel's log looks like",
            "",
        ),
        (
            &[("kern.log", "\u{1f}\u{8b}\0\0")],
            "skip",
            "/var/log/kern.log has no message",
            "",
        ),
        (
            &[("kern.log", ""), ("syslog", "")],
            "skip",
            "/var/log/kern.log is empty",
            "",
        ),
        (
            &[("kern.log", &nothing), ("syslog", &error)],
            "pass",
            "",
            "",
        ),
    ];
    for (files, status, cause, note) in cases {
        let tree = host();
        files
            .iter()
            .for_each(|(name, text)| tree.write(&format!("var/log/{name}"), text));
        let ran = tree.run(&["doctor", "GS903", "--json"]);
        let (is, why) = found(&ran);
        assert!(
            is == status && why.contains(cause),
            "{files:?}: {is}: {why}"
        );
        let notes = ran.json()["host"]["unreadable"].to_string();
        assert!(notes.contains(note), "{files:?}: {notes}");
    }
}

#[test]
fn a_log_that_is_not_understood_does_not_pass() {
    let tree = host();
    let log = tree.path().join("k.log");
    let utf_16: Vec<u8> = [0xff, 0xfe]
        .into_iter()
        .chain(LOST.encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    let journal = serde_json::json!({"_TRANSPORT": "kernel", "MESSAGE": LOST}).to_string();
    let cases: [(&[u8], &str, &str); 5] = [
        (&utf_16, "skip", "no line of the kernel's log is in a form"),
        (
            b"\x1f\x8b\x08\x00\x00",
            "skip",
            "no line of the kernel's log is in a form",
        ),
        (
            format!("MESSAGE={LOST}\n> {LOST}\n").leak().as_bytes(),
            "warn",
            "2 lines of the kernel's log look like",
        ),
        (journal.as_bytes(), "warn", "Xid 79"),
        (b"", "pass", ""),
    ];
    for (text, status, cause) in cases {
        fs::write(&log, text).expect("written");
        let ran = tree.run(&[
            "doctor",
            "GS903",
            "--json",
            "--kernel-log",
            log.to_str().expect("UTF-8"),
        ]);
        let (is, why) = found(&ran);
        assert!(is == status && why.contains(cause), "{text:?}: {is}: {why}");
    }
    fs::write(&log, format!("MESSAGE={LOST}\n")).expect("written");
    let report: Value = tree
        .run(&[
            "doctor",
            "GS903",
            "--json",
            "--kernel-log",
            log.to_str().expect("UTF-8"),
        ])
        .json();
    let text = report["checks"].to_string();
    assert!(
        text.contains("line 1 of the kernel's log") && text.contains("gpusetup explain FILE"),
        "{text}"
    );
}
