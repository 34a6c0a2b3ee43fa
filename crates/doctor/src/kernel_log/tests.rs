use super::*;
use gpusetup_system::thread_time;

#[test]
fn sentences_are_read_across_lines() {
    let log = "\
[    0.000000] Linux version 6.1.0-1-amd64 (old boot)
[   10.000000] NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.
[    0.000000] Linux version 6.1.0-2-amd64
[    5.100000] NVRM: The NVIDIA GPU 0000:02:00.0 (PCI ID: 10de:2c38)
[    5.100001] NVRM: installed in this system requires use of the NVIDIA open kernel modules.
[    6.000000] NVRM: The NVIDIA GeForce GT 710 GPU installed in this system is
[    6.000001] NVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please
[    7.000000] NVRM: API mismatch: the client has the version 560.35.03, but
[    7.000001] NVRM: this kernel module has the version 550.90.07.  Please
[    8.000000] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x63:0x56:1689)
[    9.000000] NVRM: BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)
[   10.000000] Loading of module with unavailable key is rejected
[   10.500000] nvidia-uvm: uvm_pmm_gpu.c:3176 devmem_alloc_pagemap[pid:9] request_free_mem_region() err -34
[   11.000000] NVRM: The NVIDIA probe routine was not called for 2 device(s).
[   12.000000] NVRM: Xid (PCI:0000:cb:00): 13, pid=9, name=python, Graphics Exception: ESR 0x57c730
[   13.000000] NVRM: Xid (PCI:0000:cb:00): 13, pid=10, name=python, Graphics Exception: ESR 0x57c730
";
    let gpu = || LoggedGpu::from("0000:02:00.0 (PCI ID: 10de:2c38)".to_owned());
    assert_eq!(gpu().address(), Some("0000:02:00.0"));
    let xid = |gpu: &str, number, text: &str| KernelEvent::Xid {
        gpu: gpu.into(),
        number,
        text: text.into(),
    };
    assert_eq!(
        parse(log),
        [
            KernelEvent::Refused("Loading of module with unavailable key is rejected".into()),
            KernelEvent::NoHmm(
                "nvidia-uvm: uvm_pmm_gpu.c:3176 devmem_alloc_pagemap[pid:9] request_free_mem_region() err -34".into()
            ),
            xid("0000:cb:00.0", 13, "Graphics Exception: ESR 0x57c730"),
            KernelEvent::NeedsOpen(gpu()),
            KernelEvent::Legacy { gpu: "GeForce GT 710".to_owned().into(), branch: "470".into() },
            KernelEvent::Mismatch { client: "560.35.03".into(), module: "550.90.07".into() },
            KernelEvent::NotProbed("2".into()),
            KernelEvent::InitFailed("0000:01:00.0".into()),
            KernelEvent::NoRoom("0000:01:00.0".into()),
        ]
    );
}

#[test]
fn what_hardware_and_other_drivers_do_is_read() {
    let log = "\
[    3.100000] NVRM: GPU 0000:01:00.0 is already bound to NovaCore.
[    3.200000] NVRM: GPU 0000:02:00.0 is already bound to vfio-pci.
[    4.000000] NVRM: The NVIDIA GPU 0000:b3:00.0
[    4.000001] NVRM: (PCI ID: 10de:26b5) installed in this system has
[    4.000002] NVRM: fallen off the bus and is not responding to commands.
[    4.100000] NVRM: The NVIDIA probe routine failed for 1 device(s).
[    5.000000] NVRM: GPU6 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 9 heartbeat 7
[    6.000000] NVRM: GPU6 _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP
[    7.000000] NVRM _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting gsp
[    8.000000] nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 27 sourcetrack timeout
[    8.000001] nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Data {0x00000001, 0x00000002}
[    8.100000] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 crumbstore
[    9.000000] nvidia: version magic '6.8.0-64-generic SMP mod_unload ' should be '6.8.0-71-generic SMP mod_unload '
";
    let held = |gpu: &str, by: &str| KernelEvent::Held {
        gpu: gpu.into(),
        by: by.into(),
    };
    assert_eq!(
        parse(log),
        [
            KernelEvent::FirmwareHangs("GPU6".into()),
            KernelEvent::FirmwareHangs(String::new()),
            KernelEvent::SwitchFault {
                switch: "0000:c3:00.0".into(),
                number: 24007,
                text: "Link 27 sourcetrack timeout".into()
            },
            KernelEvent::Unfit(
                "nvidia: version magic '6.8.0-64-generic SMP mod_unload ' should be '6.8.0-71-generic SMP mod_unload '"
                    .into()
            ),
            KernelEvent::ProbeFailed("1".into()),
            held("0000:01:00.0", "NovaCore"),
            held("0000:02:00.0", "vfio-pci"),
            KernelEvent::OffTheBus("0000:b3:00.0".into()),
        ]
    );
}

#[test]
fn addresses_are_those_of_the_bus() {
    for (word, want) in [
        ("0000:B3:00.0", Some("0000:b3:00.0")),
        ("(PCI:0000:01:00):", Some("0000:01:00.0")),
        ("01:00.0:", Some("0000:01:00.0")),
        ("10101:00:00.0", Some("10101:00:00.0")),
        ("10de:2331)", None),
        ("GPU", None),
    ] {
        assert_eq!(address(word).as_deref(), want, "{word}");
    }
    let gpu = LoggedGpu::from("GeForce GT 710".to_owned());
    assert_eq!(
        (gpu.address(), gpu.to_string().as_str()),
        (None, "GeForce GT 710")
    );
}

#[test]
fn only_bus_addresses_are_taken_for_gpus() {
    let log = "NVRM: Xid (PCI:0000:cb:00 GPU-I:05): 13, pid=9\nLinux version 6.8\nNVRM: Xid (PCI:0; reboot): 79, x\n\
                   NVRM: Xid (PCI:$(reboot)): 79\nNVRM: Xid (PCI:0000:cb:00): 70000, x\nNVRM: Xid (PCI:0000:cb:00): -1\n";
    let all: Vec<_> = xids(log)
        .into_iter()
        .map(|logged| (logged.gpu, logged.number))
        .collect();
    assert_eq!(all, [("0000:cb:00.0".to_owned(), 13)]);
    let log = "x: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 27\nx: SXid (PCI:$(reboot)): 24007, Fatal, y\n";
    assert_eq!((sxids(log).len(), xids(log).len()), (1, 0));
}

#[test]
fn an_xid_may_be_copied_without_its_prefix() {
    let log = "Xid (PCI:0000:65:00): 79, pid=1, GPU has fallen off the bus.\nkernel: Xid (0000:66:00): 48, x\n\
                   Xid 13 happens, and Xid (PCI:$(reboot)): 31\n";
    let all: Vec<_> = xids(log)
        .into_iter()
        .map(|logged| (logged.gpu, logged.number))
        .collect();
    assert_eq!(
        all,
        [
            ("0000:65:00.0".to_owned(), 79),
            ("0000:66:00.0".to_owned(), 48)
        ]
    );
}

#[test]
fn a_storm_is_read_in_a_moment() {
    let lines = (0..15_000)
            .map(|n| format!("NVRM: Xid (PCI:0000:17:00): 13, Graphics Exception: ESR {n:#x} BAR the NVIDIA supported through the NVIDIA \n"));
    let log: String = lines.collect();
    let began = thread_time();
    assert_eq!(parse(&log).len(), 1);
    // A second in a debug build. Searching the whole log for each message takes twelve seconds in a
    // release build.
    let took = thread_time() - began;
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn a_message_begins_with_its_mark_after_any_prefix() {
    let xid = "NVRM: Xid (PCI:0000:17:00): 79, pid=1, name=a[1]: , GPU has fallen off the bus.";
    for before in [
        "",
        "[   12.345678] ",
        "[   12.345678] [    T7] ",
        "[   12.345678][    C0] ",
        "<6>[   12.345678] ",
        "kern  :err   : [   12.345678] ",
        "[Fri Aug 30 11:43:09 2024] ",
        "Nov 29 10:00:00 host kernel: ",
        "Nov 29 10:00:00 host kernel: [   12.345678] ",
        "2026-11-29T10:00:00.123456+01:00 host.example kernel: ",
        "2026-11-29T10:00:00,123456+01:00 ",
        "[   12.345678] host kernel: ",
        "Mar 21 21:42:01 kernel: ",
        "kern  :err   : [Fri Aug 30 11:43:09 2024] ",
        "kern  :err   : 2024-08-30T11:43:09,123456+02:00 ",
        "[금  8월 30 11:43:09 2024] ",
        "[Mi Mär 20 11:43:09 2024] ",
        "[ven. août 30 11:43:09 2024] ",
        "[金  8月 30 11:43:09 2024] ",
        "[五 8月 30 11:43:09 2024] ",
        "[Aug30 11:43] ",
        "[  +0.000002] ",
        "[   12.345678 <    0.000123>] ",
        "[<    0.000123>] ",
        "8월 30 11:43:09 node1 kernel: ",
        "Mär 30 11:43:09 node1 kernel: ",
        "8月 30 11:43:09 node1 kernel: ",
        "août 30 11:43:09 node1 kernel: ",
        "Aug 30 2024 11:43:09 node1 kernel: ",
        "Fri 2024-08-30 11:43:09 CEST node1 kernel: ",
        "Fri 2024-08-30 11:43:09 ACWST node1 kernel: ",
        "Fri 2024-08-30 11:43:09 +03 node1 kernel: ",
        "1725010989.123456 node1 kernel: ",
        "Aug 30 11:43:09 fe80::1 kernel: ",
        "Aug  3 11:43:09 10.0.0.5 kernel: [   12.345678] [  T123] ",
        "Aug 30 11:43:09 node1 kernel: <3>[   12.345678] ",
        "<3>Aug 30 11:43:09 node1 kernel: [   12.345678] ",
        "<3>1 2024-08-30T11:43:09.123456+02:00 node1 kernel - - - ",
        "<3>1 2024-08-30T11:43:09.123456+02:00 node1 kernel - - -  [   12.345678] ",
        "1 2024-08-30T11:43:09.123456+02:00 node1 kernel - - [origin x=\"1\"] \u{feff}",
        "Aug 30 11:43:09 localhost kern.err kernel: [   12.345678] ",
        "Aug 30 11:43:09 a-long-name-of-a-host.example.com kern.err kernel: ",
        "10.5.0.2: kern:     err: [2024-08-30T11:43:09.123456789Z]: ",
        "2024-08-30T11:43:09.123456789Z ",
        "2024-08-30T11:43:09.123456789Z [   12.345678] ",
        "3,1234,12345678,-;",
        "3,1234,12345678,-,caller=T1;",
        "\u{feff}",
        "    [   12.345678] ",
    ] {
        for crlf in ["\n", "\r\n"] {
            assert_eq!(parse(&format!("{before}{xid}{crlf}")).len(), 2, "{before}");
        }
        let old = "NVRM: Xid (0000:17:00): 31, Ch 00000003, engmask 00000101, intr 10000000";
        let want = KernelEvent::Xid {
            gpu: "0000:17:00.0".into(),
            number: 31,
            text: "Ch 00000003, engmask 00000101, intr 10000000".into(),
        };
        assert_eq!(parse(&format!("{before}{old}\n")), [want], "{before}");
        let lost = "NVRM: GPU 0000:17:00.0: GPU has fallen off the bus.";
        assert_eq!(
            parse(&format!("{before}{lost}\n")),
            [KernelEvent::OffTheBus("0000:17:00.0".into())],
            "{before}"
        );
        let switch = "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, x";
        assert_eq!(parse(&format!("{before}{switch}\n")).len(), 1, "{before}");
        let refused =
            "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7";
        assert_eq!(
            parse(&format!("{before}{refused}\n")),
            [KernelEvent::Refused(refused.into())],
            "{before}"
        );
    }
}

fn without_unread(mut said: Vec<KernelEvent>) -> Vec<KernelEvent> {
    said.retain(|one| !matches!(one, KernelEvent::Unread { .. }));
    said
}

fn first_unread(said: &KernelEvent) -> Option<usize> {
    if let KernelEvent::Unread { first, .. } = said {
        Some(*first)
    } else {
        None
    }
}

const LOST: &str =
    "NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";

#[test]
fn messages_of_the_kernel_hide_none_that_follows() {
    let others = [
        "pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:17:00.0",
        "pcieport 0000:00:01.0: Slot(0): Link Down",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
        "nvidia 0000:17:00.0: enabling device (0000 -> 0002)",
        "mlx5_core 0000:18:00.0: mlx5_cmd_out_err:808:(pid 1234): MODIFY_RQ(0x909) op_mod(0x0) failed",
        "usb 1-1: new high-speed USB device number 2 using xhci_hcd",
        "x",
    ];
    for before in [
        "[   12.345678] ",
        "[  +0.000000] ",
        "[  +0.000002] ",
        "[    5.000000 <    0.000000>] ",
        "Aug 30 11:43:09 h kernel: ",
        "Aug 30 11:43:09 h kernel: [   12.348000] ",
        "<3>[   12.345678] ",
        "",
    ] {
        for other in others {
            for (head, indent) in [
                (before, ""),
                ("[    1.000000] ", ""),
                ("some header\n", "  "),
            ] {
                let log = format!("{head}{other}\n{indent}{before}{LOST}\n");
                let said = parse(&log);
                assert!(
                    matches!(
                        said.as_slice(),
                        [
                            KernelEvent::Xid { number: 79, .. },
                            KernelEvent::OffTheBus(_)
                        ]
                    ),
                    "{log}: {said:?}"
                );
            }
        }
    }
}

#[test]
fn of_a_line_that_may_be_a_users_it_is_said() {
    let crash = "a[4242]: segfault at 0 ip 0000000000001139 sp 00007ffd error 4 in x";
    let cases = [
        (
            format!(
                "[   12.345678] {crash}\n[   12.345678] {LOST}\n[   12.345678] b[55d000+1000]\n"
            ),
            Some(2),
        ),
        (
            format!(
                "[   12.345678] {crash}\n               {LOST}\n               b[55d000+1000]\n"
            ),
            None,
        ),
        (format!("[   12.345678] {crash}\n{LOST}\n"), Some(2)),
        (
            format!("[   12.345678] {crash}[1+1]\n[   12.345678] [    1.0] {LOST}\n"),
            Some(2),
        ),
        (
            "[   12.345678] NVRM: Xid (GPU-1234abcd): 79, x\n".to_owned(),
            Some(1),
        ),
        (
            "[   12.345678] NVRM: Xid (PCI:0000:17:00):79, x\n".to_owned(),
            Some(1),
        ),
        (
            format!(
                "Aug 30 11:43:09 h kernel: {crash}\nAug 30 11:43:09 h kernel: {LOST}\nAug 30 11:43:09 h kernel: b[1000+1]"
            ),
            Some(2),
        ),
        (
            format!("[Fri Aug 30 11:43:09 2024] {crash}\n[Fri Aug 30 11:43:09 2024] {LOST}\n"),
            Some(2),
        ),
        (
            format!(
                "[   12.345678] a\n               [4242]: segfault at 0 in x\n               {LOST}\n"
            ),
            Some(3),
        ),
        (
            format!(
                "[   12.345678] process '/tmp/a\n[   12.345678] {LOST}\n[   12.345678] ' started with executable stack"
            ),
            Some(2),
        ),
        (
            format!(
                "[   12.345678] NVRM: API mismatch: the client has the version 1\n               {LOST}\n"
            ),
            Some(2),
        ),
        (
            format!(
                "[   12.345678] traps: a[4242] trap invalid opcode ip:1 sp:2 error:0 in {LOST}[1000+2000]\n"
            ),
            None,
        ),
        (
            format!("<13>1 2024-08-30T11:43:09.123456+02:00 node1 kernel - - - {LOST}\n"),
            None,
        ),
        (
            format!("Aug 30 11:43:09 h user.notice kernel: {LOST}\n"),
            None,
        ),
        (
            format!("[    1.000000] x\nAug 30 11:43:09 gpu a kernel: {LOST}\n"),
            Some(2),
        ),
        (
            format!("[    1.000000] x\n123:[   12.345678] {LOST}\n> [   12.345678] {LOST}\n"),
            Some(2),
        ),
        (
            format!("__CURSOR=s=1\n_TRANSPORT=kernel\nMESSAGE={LOST}\n"),
            Some(3),
        ),
        (
            "[   12.345678] NVRM: Xid (1:1): 79 output lines suppressed due to ratelimiting\n"
                .to_owned(),
            None,
        ),
    ];
    for (log, first) in cases {
        let said = parse(&log);
        let unread: Vec<_> = said.iter().filter_map(first_unread).collect();
        assert!(
            !said
                .iter()
                .any(|one| matches!(one, KernelEvent::Xid { .. } | KernelEvent::OffTheBus(_))),
            "{log}: {said:?}"
        );
        assert_eq!(
            unread,
            first.into_iter().collect::<Vec<_>>(),
            "{log}: {said:?}"
        );
    }
    // No report is longer than what the kernel writes.
    let noise = "[   12.345678] x\n".repeat(5000);
    let log = format!("[   12.345678] {crash}[1000+2000]\n{noise}[   12.345678] {LOST}\n");
    assert_eq!(parse(&log).len(), 2);
}

#[test]
fn json_and_colours_are_read() {
    let journal = |transport: &str, message: &str| {
        let entry = serde_json::json!({"_TRANSPORT": transport, "SYSLOG_IDENTIFIER": "kernel", "PRIORITY": "3",
                "_SOURCE_MONOTONIC_TIMESTAMP": "12345678", "MESSAGE": message});
        (
            entry.to_string() + "\n",
            serde_json::to_string_pretty(&entry).expect("JSON") + "\n",
        )
    };
    let bytes = |message: &str| {
        serde_json::json!({"_TRANSPORT": "kernel", "MESSAGE": message.as_bytes()}).to_string()
    };
    let dmesg = |pri: u32, message: &str| {
        let records = serde_json::json!({"dmesg": [{"pri": 5, "time": 0.0, "msg": "Linux version 6.1.0"},
                {"pri": pri, "time": 12.345_678, "msg": message}]});
        serde_json::to_string_pretty(&records).expect("JSON")
    };
    let (line, pretty) = journal("kernel", LOST);
    let coloured = format!(
        "\x1b[32m[   12.345678] \x1b[0m\x1b[33mNVRM: \x1b[0m{}\n",
        &LOST["NVRM: ".len()..]
    );
    for log in [line, pretty, bytes(LOST), dmesg(3, LOST), coloured] {
        let said = parse(&log);
        assert!(
            matches!(
                said.as_slice(),
                [
                    KernelEvent::Xid { number: 79, .. },
                    KernelEvent::OffTheBus(_)
                ]
            ),
            "{log}: {said:?}"
        );
    }
    let quoted = format!("a[4242]: segfault at 0 in x\n{LOST}\nb[1000+2000]");
    let by_a_program =
        "a\x1b[4242]: segfault at 0 ip 1 sp 2 error 4 in fallen off the bus[1000+2000]";
    for log in [
        journal("syslog", LOST).0,
        journal("kernel", &quoted).0,
        dmesg(30, LOST),
        dmesg(3, &quoted),
        format!("[   12.345678] NVRM: {by_a_program}\n"),
    ] {
        assert_eq!(parse(&log), [], "{log}");
    }
    let unknown = serde_json::json!({"msg": LOST}).to_string();
    assert_eq!(
        parse(&unknown),
        [KernelEvent::Unread { first: 1, lines: 1 }]
    );
}

#[test]
fn only_a_boot_makes_errors_old() {
    let boot = |stamp: &str| {
        format!("{stamp}Linux version 6.1.0-2-amd64 (x)\n{stamp}Command line: ro quiet\n")
    };
    let xid = |stamp: &str| format!("{stamp}{LOST}\n");
    let h = "Aug 30 11:43:09 h kernel: ";
    let other = "Aug 30 11:43:09 h sshd[1]: x\n";
    for (log, is_old) in [
        (xid("[   12.345678] ") + &boot("[    0.000000] "), true),
        (
            xid("[   12.345678] ") + "[    0.000000] Linux version 6.1\n",
            true,
        ),
        (xid(h) + &boot(h), true),
        (xid(h) + other + &boot(h), true),
        (xid("") + &boot(""), true),
        (
            xid(&format!("{h}[   12.3] ")) + other + &boot(&format!("{h}[    0.000000] ")),
            true,
        ),
        (xid("3,1,12345678,-;") + &boot("5,1,0,-;"), true),
        // Words that somebody wrote to a syslog.
        (xid(h) + h + "Linux version 6.1\n", false),
        (
            xid(&format!("{h}[   12.3] ")) + h + "Linux version 6.1\n" + h + "Command line: x\n",
            false,
        ),
        (
            xid(&format!("{h}[   12.3] "))
                + h
                + "[    0.000000] Linux version 6.1\n"
                + h
                + "[   13.0] x\n",
            false,
        ),
        (
            xid(&format!("{h}[   12.3] ")) + other + h + "[    0.000000] Linux version 6.1\n",
            false,
        ),
        (xid("[   12.345678] ") + "Linux version 6.1\n", false),
    ] {
        let said = parse(&log);
        assert_eq!(said.is_empty(), is_old, "{log}: {said:?}");
    }
}

#[test]
fn a_log_in_which_nothing_is_known_does_not_pass() {
    let utf16: String = LOST.chars().flat_map(|c| [c, '\0']).collect();
    for log in ["\x1f?\x08?", "a text\nof anything\n", &utf16] {
        assert!(matches!(heard(log), Answer::NotAsked(_)), "{log}");
    }
    for log in [
        "",
        " \n",
        "[    1.000000] x",
        "Linux version 6.1.0",
        "Aug 30 11:43:09 h kernel: x",
    ] {
        assert_eq!(heard(log), Answer::Is(Vec::new()), "{log}");
    }
}

#[test]
fn any_log_is_read_in_a_moment() {
    // An eighth of the most that is read.
    let most = usize::try_from(MAX_LOG >> 3).expect("a number");
    for noise in [
        "\n",
        "a\n",
        "[[[[[\n",
        "a a a a a a a a\n",
        "Xid (Xid (Xid (\n",
        "[    1.000000] a[1]: segfault at 0 in x\n",
        "{},",
        "1 2 3 4 5:\n",
        "NVRM: BAR BAR BAR BAR\n",
        "NVRM: fallen off the bus\n",
    ] {
        let all = REFUSALS
            .iter()
            .chain(&UNFIT)
            .fold(String::new(), |all, sign| all + sign + "\n");
        let began = thread_time();
        parse(&(noise.repeat(most / noise.len()) + &all));
        // A second in a build that is not optimised. A release reads all in less.
        let took = thread_time() - began;
        assert!(took < Duration::from_secs(10), "{noise:?}: {took:?}");
    }
}

/// Programs and files may have any name, with line breaks.
#[test]
fn what_a_program_is_called_is_no_message() {
    let real = "[    0.000000] Linux version 6.1.0-2-amd64\n[    5.000000] NVRM: Xid (PCI:0000:2a:00): 48, DBE\n";
    let xid = "NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.";
    let switch = "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, x";
    let crash = "[4242]: segfault at 0 ip 0000000000001139 sp 00007ffd error 4 in";
    let mut forged = vec![
        format!("tmpfs: Unknown parameter 'x kernel: {xid}'"),
        format!("traps: a[4242] trap invalid opcode ip:1 sp:2 error:0 in {xid}[1000+2000]"),
        format!(
            "NVRM: a[4242] bad frame in rt_sigreturn frame:1 ip:2 sp:3 orax:f in fallen off the bus[1000+2000]"
        ),
        format!("overlayfs: failed to resolve 'Loading of unsigned module is rejected': -2"),
    ];
    for name in [
        "a",
        "NVRM:",
        "NVRM: ",
        "NVRM:\\x1b\\x1b",
        "kernel: NVRM: ",
        "nvidia-nvswitch",
        "Linux version 6",
        "nvidia: ",
    ] {
        for file in [
            xid,
            switch,
            "fallen off the bus",
            "Heartbeat timed out",
            "Linux version 6.1.0",
            "Loading of unsigned module is rejected",
            "nvidia: version magic ",
            "request_free_mem_region() err",
        ] {
            forged.push(format!("{name}{crash} {file}[55d000+1000] likely on CPU 3"));
            // As dmesg writes a line break, and as programs do that read /proc/kmsg.
            forged.push(format!(
                "{name}{crash} a\n               {file}\n               b[55d000+1000]"
            ));
            forged
                .push(format!("{name}{crash} a\n               [    9.999999] {file}\n               b[55d000+1000]"));
            forged.push(format!("{name}{crash} a\n{file}\nb[55d000+1000]"));
            forged.push(format!(
                "{name}{crash} a\n[    9.123456] {file}\n[    9.123456] b[55d000+1000]"
            ));
        }
    }
    for lines in forged {
        let log = format!(
            "{real}[    9.123456] {lines}\n[   10.000000] NVRM: Xid (PCI:0000:2a:00): 94, x\n"
        );
        let want = parse(&(real.to_owned() + "NVRM: Xid (PCI:0000:2a:00): 94, x"));
        assert_eq!(without_unread(parse(&log)), want, "{log}");
    }
    let by_a_program = format!(
        "Nov 29 10:00:00 host me: {xid}\n2026-11-29T10:00:00.123456+00:00 host me[7]: {xid}"
    );
    assert_eq!(parse(&by_a_program), []);
}

#[test]
fn any_text_is_read() {
    for text in [
        "",
        "NVRM:",
        "NVRM: Xid (",
        "NVRM: Xid (PCI:0): ",
        "NVRM: BAR",
        "Linux version",
        "\u{1f4a5}NVRM: BAR1 is",
    ] {
        parse(text);
    }
    for number in 0..200 {
        let log = format!("NVRM: Xid (0000:03:00): {number}, Channel 00000001");
        assert_eq!(
            parse(&log),
            [KernelEvent::Xid {
                gpu: "0000:03:00.0".into(),
                number,
                text: "Channel 00000001".into()
            }]
        );
    }
}
