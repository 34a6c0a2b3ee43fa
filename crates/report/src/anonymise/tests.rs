use super::*;
use gpusetup_system::thread_time;
use proptest::prelude::*;
use serde_json::json;

fn names() -> Names {
    let list = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
    Names {
        hosts: list(&["secret-host", "secret-host.corp.example.com"]),
        other_hosts: list(&["login-7"]),
        domains: list(&["corp.example.com"]),
        users: list(&["alice", "Alice Liddell", "ubuntu", "nvidia", "jo"]),
        serials: list(&["CZ3123ABCD", "To Be Filled By O.E.M."]),
        ids: Vec::new(),
        keep: list(&["9.10.2.21", "8.9.7.29", "6.8.0-alice-71"]),
    }
}

fn without(text: &str) -> String {
    let mut to = Anonymiser::new(&names());
    to.learn(text);
    to.text(text)
}

#[test]
fn what_is_private_is_replaced() {
    for (text, want) in [
        ("on secret-host now", "on <host> now"),
        ("SECRET-HOST.corp.example.com:22", "<host>:22"),
        ("nfs.corp.example.com", "<host-1>"),
        ("login-7 and login-7", "<host-1> and <host-1>"),
        (
            "run by alice, alice_2 and malice",
            "run by <user-1>, <user-1>_2 and malice",
        ),
        ("Alice Liddell", "<user-1>"),
        ("/home/ubuntu/x", "/home/<user-1>/<folder-1>"),
        (
            "/home/bob/project/cuda-12.8/lib64/libcudnn.so.9",
            "/home/<user-1>/<folder-1>/cuda-12.8/lib64/libcudnn.so.9",
        ),
        ("bob has /home/bob", "<user-1> has /home/<user-1>"),
        (
            "/root/thesis/a.c:12: error",
            "/root/<folder-1>/<folder-2>:12: error",
        ),
        ("/root/10.1.2.3/cuda-12.8", "/root/<address-1>/cuda-12.8"),
        (
            "https://ppa.launchpadcontent.net/alice/ppa",
            "https://ppa.launchpadcontent.net/<user-1>/ppa",
        ),
        (
            "10.1.2.3 8.8.8.8 10.1.2.3",
            "<address-1> <address-2> <address-1>",
        ),
        ("from 192.168.0.7:22", "from <address-1>:22"),
        ("ip-10-0-0-12 up", "<address-1> up"),
        ("fe80::1ff:fe23:4567:890a%eth0", "<address-1>%eth0"),
        ("[2001:db8::7]:443", "[<address-1>]:443"),
        ("link aa:bb:cc:dd:ee:ff up", "link <mac-1> up"),
        ("port 0002:c903:0012:1234", "port <id-1>"),
        ("sig_key: 4F:1C:22:33:44:55:66:77:88:99", "sig_key: <id-1>"),
        ("GPU-b850f46d-d5ea-c752-ddf3-c4453e44d3f7", "GPU-<uuid-1>"),
        (
            "MIG-GPU-b850f46d-d5ea-c752-ddf3-c4453e44d3f7/1/0",
            "MIG-GPU-<uuid-1>/1/0",
        ),
        (
            "root=UUID=b850f46d-d5ea-c752-ddf3-c4453e44d3f7 ro",
            "root=UUID=<uuid-1> ro",
        ),
        ("0123456789abcdef0123456789abcdef", "<id-1>"),
        ("write to bob@example.com.", "write to <email-1>."),
        ("ssh alice@secret-host", "ssh <email-1>"),
        (
            "http://mirror.lan/ubuntu/dists noble",
            "http://<host-1>/ubuntu/dists noble",
        ),
        ("http://me:pa%20ss@proxy.lan:3128", "http://<host-1>:3128"),
        (
            "http://me:pa#ss@proxy.lan:3128/",
            "http://<host-1>?<secret-1>",
        ),
        (
            "https://u:p@developer.download.nvidia.com/compute",
            "https://developer.download.nvidia.com/compute",
        ),
        (
            "https://x.lan/team-7/cuda?sig=abc",
            "https://<host-1>/<folder-1>/cuda?<secret-1>",
        ),
        ("(http://10.0.0.1:80/)", "(http://<address-1>:80/)"),
        ("proxy me:word@proxy.lan:3128", "proxy <email-1>:3128"),
        ("password=hunter2 next", "password=<secret-1> next"),
        ("{\"api_key\": \"a b\"}", "{\"api_key\": \"<secret-1>\"}"),
        ("--auth-token abc x", "--auth-token <secret-1> x"),
        (
            "Authorization: Basic YWJj ZGVm",
            "Authorization: <secret-1>",
        ),
        ("nvapi-0123456789abcdefghij", "<secret-1>"),
        (
            "Serial Number : 1324419012345",
            "Serial Number : <serial-1>",
        ),
        ("board CZ3123ABCD", "board <serial-1>"),
        (
            "Nov 21 12:00:00 gpu07 kernel: x\ngpu07 is up",
            "Nov 21 12:00:00 <host-1> kernel: x\n<host-1> is up",
        ),
        (
            "[    5.1] ubuntu kernel: NVRM",
            "[    5.1] <host-1> kernel: NVRM",
        ),
        (
            "Xid (PCI:0000:17:00): 13, pid=9, name=thesis run, Graphics",
            "Xid (PCI:0000:17:00): 13, pid=9, name=<program-1>, Graphics",
        ),
        (
            "bb\u{1b}[ b850f46d-d5ea-c752-ddf3-c4453e44d3f7",
            "bb <uuid-1>",
        ),
        ("a\u{1b}[31mlice \u{1b}]alice\u{7}", "<user-1> ]<user-1>"),
    ] {
        assert_eq!(without(text), want, "{text}");
        assert_eq!(without(want), want, "a second time changes nothing");
    }
}

#[test]
fn what_only_looks_private_stays() {
    for text in [
        "0000:17:00.0 00000000:17:00.0 PCI:0000:17:00 17:00.0 (PCI:0000:cb:00): 79",
        "10de:20b0 10de:1463 pci 0000:17:00.0: [10de:20b0] type 00 class 0x030200",
        "cuDNN 9.10.2.21, 8.9.7.29 and 9.10.2.21-1",
        "libcudnn9-cuda-12_9.99.2.21-1_amd64.deb cudnn-linux-x86_64-9.99.2.21_cuda12-archive.tar.xz",
        "libcudnn.so.9.99.2.21 libcublas.so.10.2.2.89 version 9.99.2.21 (>= 9.99.2.21) nvidia-cudnn-cu12==9.99.2.21",
        "libcublas10_10.2.2.89-1_amd64.deb",
        "driver 535.183.01 and 580.95.05, kernel 6.8.0-71-generic 6.8.0-64.67 6.8.0.64.67 5.14.0-570.el9.x86_64",
        "6.8.0-alice-71",
        "GeForce RTX 4090, NVIDIA A100-SXM4-40GB",
        "0123456789abcdef0123456789abcdef01234567 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "[    5.100000] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x63:0x56:1689)",
        "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)",
        "2026-11-21T12:34:56Z 12:34:56 127.0.0.1 ::1",
        "std::string nvidia-persistenced@x.service cuda@12.8",
        "/usr/local/cuda-12.8/lib64 /lib/modules/6.8.0-71-generic/updates/dkms/nvidia.ko.zst",
        "ubuntu nvidia jo driver",
        "http://archive.ubuntu.com/ubuntu/ noble main",
        "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/ /",
        "key: value, source: nvidia, the kernel: said",
    ] {
        assert_eq!(without(text), text);
    }
}

#[test]
fn fields_are_known_by_their_names_and_keys_by_their_slash() {
    let mut value = json!({
        "serial": "1324419012345", "board": {"serial_number": {"is": "99"}}, "kind": "link", "alice": "alice",
        "paths": {"/home/alice/My Project/cuda": 1}, "boot_id": "b", "not": {"serial": {"not-asked": "no one asked"}},
        "hostname": "zeus",
    });
    Anonymiser::new(&names()).json(&mut value);
    let want = json!({
        "serial": "<serial-2>", "board": {"serial_number": {"is": "<serial-1>"}}, "kind": "link", "alice": "<user-1>",
        "paths": {"/home/<user-1>/<folder-1>/cuda": 1}, "boot_id": "<id-1>",
        "not": {"serial": {"not-asked": "no one asked"}}, "hostname": "<host-1>",
    });
    assert_eq!(value, want);
}

#[test]
fn every_word_of_the_schemas_is_everybodys() {
    fn walk(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    match (key.as_str(), inner) {
                        ("enum", Value::Array(words)) => {
                            found.extend(words.iter().filter_map(|w| Some(w.as_str()?.to_owned())))
                        }
                        ("const", Value::String(word)) => found.push(word.clone()),
                        _ => walk(inner, found),
                    }
                }
            }
            Value::Array(values) => values.iter().for_each(|v| walk(v, found)),
            _ => {}
        }
    }
    let mut words = Vec::new();
    for schema in [
        include_str!("../../../../schemas/facts.json"),
        include_str!("../../../../schemas/evidence.json"),
        include_str!("../../../../schemas/nvml.json"),
        include_str!("../../../../schemas/cuda.json"),
    ] {
        walk(
            &serde_json::from_str(schema).expect("a schema is JSON"),
            &mut words,
        );
    }
    assert!(words.len() > 20);
    for word in words.iter().filter(|w| !w.starts_with("gpusetup.")) {
        assert!(
            is_word(word),
            "a user may be called {word}, and then a report could not be read"
        );
    }
}

/// Something between two planted things, with what the rules look for in it.
fn filler() -> impl Strategy<Value = String> {
    let pieces = [
        " ",
        "\n",
        "/home/",
        "/root/",
        "://",
        "http://",
        "@",
        ":",
        "::",
        ".",
        "-",
        "password=",
        "serial: ",
        " kernel:",
        ", name=",
        "12:00:00 ",
        "9.10.2.21",
        "0000:17:00.0",
        "GPU-",
        "\"",
        "'",
        "<",
        ">",
        "\u{1b}[",
        "é",
        "1",
        "f",
        "/",
        "?",
        "=",
        ",",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..8)
        .prop_map(|parts| parts.concat())
}

#[test]
fn a_long_line_does_not_take_long() {
    for piece in [
        "a:",
        "a.",
        "1.",
        "a ",
        "a=",
        "a@",
        "a+",
        "/",
        "<",
        "é-",
        "/home/",
        "a kernel:",
        "12:00 a kernel:",
        "password=",
    ] {
        let began = thread_time();
        let out = without(&piece.repeat((1 << 15) / piece.len()));
        let took = thread_time() - began;
        assert!(
            !out.is_empty() && took.as_secs() < 30,
            "{piece:?}: {took:?}"
        );
    }
}

proptest! {
    #[test]
    fn no_planted_secret_survives(parts in prop::collection::vec((filler(), 0..8usize), 1..8), end in filler()) {
        const PLANTED: [&str; 8] = [
            "secret-host", "alice", "CZ3123ABCD", "192.168.77.5", "b850f46d-d5ea-c752-ddf3-c4453e44d3f7", "aa:bb:cc:dd:ee:ff",
            "2001:db8:77::5", "ghp_0123456789abcdefghij",
        ];
        let mut text = String::new();
        for (filler, which) in &parts {
            text += filler;
            // Inside a word nothing is a name.
            text += " ";
            text += PLANTED[*which];
            text += " ";
        }
        text += &end;
        let out = without(&text);
        for secret in PLANTED {
            prop_assert!(!out.to_lowercase().contains(&secret.to_lowercase()), "{text:?} became {out:?}");
        }
    }

    #[test]
    fn any_text_is_taken(text in "\\PC{0,80}", more in filler()) {
        let out = without(&format!("{text}{more}{text}"));
        let has_escape = out.contains('\u{1b}');
        prop_assert!(!has_escape);
    }

    #[test]
    fn every_pci_address_and_version_stays(a in 0u16..0xffff, b in 0u8..0xff, c in 0u8..32, v in 300u16..999, w in 0u16..300, x in 0u8..99) {
        let text = format!("{a:04x}:{b:02x}:{c:02x}.0 {a:08x}:{b:02x}:{c:02x}.0 PCI:{a:04x}:{b:02x}:{c:02x} {v}.{w}.{x:02} 12.{x}.{w} {v}.{w}.{x:02}-0ubuntu1");
        prop_assert_eq!(without(&text), text);
    }
}
