//! `gpusetup facts`, on recorded trees of hosts (`tests/hosts/`) and on pasted text.

use crate::common::{Tree, run_with_input};
use crate::schema;
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn run(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gpusetup"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // It may end without reading.
    let _ = child
        .stdin
        .take()
        .expect("piped")
        .write_all(input.as_bytes());
    child.wait_with_output().expect("it ends")
}

fn json_of(arguments: &[&str], input: &str) -> Value {
    let output = run(&[&["facts", "--json"], arguments].concat(), input);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let facts = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!(schema::mistakes("facts.json", &facts), [""; 0]);
    facts
}

fn of_host(name: &str) -> Value {
    json_of(&["--root", &format!("tests/hosts/{name}")], "")
}

#[test]
fn eight_h100_with_switches_under_nouveau() {
    let facts = of_host("ubuntu-24.04-hgx-h100");
    let gpus = facts["gpus"].as_array().expect("a list");
    assert_eq!(gpus.len(), 8);
    assert_eq!(
        gpus[0],
        json!({"address": "0000:1b:00.0", "pci_id": "10de:2330", "subsystem": "10de:16c1", "class": "0302",
               "bound_to": "nouveau", "name": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0", "assumed": false})
    );
    assert_eq!(facts["nvswitches"].as_array().map(Vec::len), Some(4));
    assert_eq!(facts["machine"]["arch"], "x86_64");
    assert_eq!(facts["secure_boot"], "enabled");
    assert_eq!(
        (&facts["gcc"], &facts["glibc"]),
        (&json!("13.3.0"), &json!("2.39"))
    );
    // 100 is above 45, and what a removed kernel left behind is no kernel.
    let kernels = &facts["kernels"];
    assert_eq!(
        (&kernels["running"], &kernels["next_boot"]),
        (&json!(null), &json!("6.8.0-100-generic"))
    );
    let headers: Vec<_> = kernels["installed"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|k| (&k["release"], &k["headers"]))
        .collect();
    let want = [
        (&json!("6.8.0-45-generic"), &json!(true)),
        (&json!("6.8.0-100-generic"), &json!(false)),
    ];
    assert_eq!(headers, want);
    assert_eq!(
        kernels["installed"][0]["initramfs"]["path"],
        "/boot/initrd.img-6.8.0-45-generic"
    );
    // A package that was removed and left its configuration is not installed.
    assert_eq!(facts["driver"], json!(null));
    assert_eq!(
        facts["repositories"][1],
        "http://archive.example/ubuntu/ noble restricted"
    );
    assert_eq!(facts["unreadable"], json!([]));
}

#[test]
fn a_p100_with_packages_and_cudnn_as_copies() {
    let facts = of_host("debian-12-p100");
    assert_eq!(facts["gpus"][0]["compute_capability"], "6.0");
    let driver = &facts["driver"];
    assert_eq!(
        (&driver["version"], &driver["origin"]),
        (&json!("535.261.03"), &json!("dpkg"))
    );
    assert_eq!(driver["modules"], "proprietary");
    assert_eq!(facts["other_drivers"], json!([]));
    assert_eq!(
        facts["kernels"]["installed"][0]["nvidia_module"],
        "535.261.03"
    );
    let toolkits = facts["toolkits"].as_array().expect("a list");
    // The date in version.json is no update, and the link /usr/local/cuda no second toolkit.
    assert_eq!(
        toolkits[..],
        [
            json!({"version": "12.4", "path": "/usr/local/cuda-12.4", "origin": "runfile", "has_nvcc": true})
        ]
    );
    assert_eq!(facts["paths"]["/usr/local/cuda"]["target"], "cuda-12.4");
    // lib64 is a link to where the libraries are: they are told once.
    let cudnn = facts["cudnn"].as_array().expect("a list");
    assert_eq!(cudnn.len(), 1);
    assert_eq!(cudnn[0]["version"], "9.1.0");
    assert_eq!(
        cudnn[0]["directory"],
        "/usr/local/cuda-12.4/targets/x86_64-linux/lib"
    );
    let sums: Vec<_> = cudnn[0]["files"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|f| &f["sha256"])
        .collect();
    assert!(
        sums.len() == 3 && sums[0].is_string() && sums.iter().all(|s| *s == sums[0]),
        "{sums:?}"
    );
}

#[test]
fn a_v100_with_a_runfiles_driver_on_an_rpm_host() {
    let facts = of_host("rocky-9-v100");
    assert_eq!(facts["os"]["package_manager"], "dnf");
    assert_eq!(facts["os"]["initramfs"], "dracut");
    assert_eq!(facts["os"]["like"], json!(["rhel", "centos", "fedora"]));
    assert_eq!(
        (&facts["gpus"][0]["name"], &facts["gpus"][0]["bound_to"]),
        (&json!("Tesla V100-SXM2-16GB"), &json!("nouveau"))
    );
    assert_eq!(
        (&facts["driver"]["version"], &facts["driver"]["origin"]),
        (&json!("550.54.15"), &json!("runfile"))
    );
    let kernel = &facts["kernels"]["installed"][0];
    assert_eq!(
        kernel["compiler"],
        "gcc (GCC) 11.5.0 20240719 (Red Hat 11.5.0-5)"
    );
    assert_eq!(facts["gcc"], "11");
    assert_eq!(
        facts["repositories"],
        json!(["https://mirrors.example/?arch=$basearch baseos"])
    );
}

#[test]
fn somebody_elses_kernel_or_driver_is_told() {
    let wsl = of_host("wsl2-ubuntu-22.04");
    assert_eq!(wsl["machine"]["kind"], "wsl2");
    assert!(wsl["unreadable"].to_string().contains("/dev/dxg"));
    let jetson = of_host("jetson-orin");
    assert_eq!(
        (&jetson["machine"]["kind"], &jetson["machine"]["arch"]),
        (&json!("jetson"), &json!("aarch64"))
    );
}

#[test]
fn pasted_lspci_text_is_enough() {
    let text = "0002:01:00.0 3D controller [0302]: NVIDIA Corporation GP100GL [Tesla P100 SXM2 16GB] [10de:15f9] (rev a1)\n\
                0006:01:00.0 3D controller [0302]: NVIDIA Corporation GP100GL [Tesla P100 SXM2 16GB] [10de:15f9] (rev a1)\n\
                0009:00:00.0 Bridge [0680]: NVIDIA Corporation Device [10de:1af1] (rev a1)\n\
                01:00.0 VGA compatible controller: NVIDIA Corporation GP106 (rev a1)\n";
    let facts = json_of(
        &["--lspci", "-", "--root", "tests/hosts/rocky-9-v100"],
        text,
    );
    let gpus = facts["gpus"].as_array().expect("a list");
    assert_eq!(gpus.len(), 2);
    assert!(
        gpus[0]["name"]
            .as_str()
            .expect("known")
            .starts_with("Tesla P100")
    );
    assert_eq!(gpus[0]["compute_capability"], "6.0");
    assert_eq!(facts["nvswitches"][0]["pci_id"], "10de:1af1");
    assert!(facts["unreadable"].to_string().contains("lspci -nn"));
}

#[test]
fn a_driver_is_unknown_where_lspci_did_not_say_it() {
    let text = "01:00.0 3D controller [0302]: NVIDIA Corporation GP100GL [Tesla P100 SXM2 16GB] [10de:15f9] (rev a1)\n";
    let host = ["--lspci", "-", "--root", "tests/hosts/rocky-9-v100"];
    let stdout = |text: &str| run_with_input(&[&["facts"], &host[..]].concat(), text).out;
    let facts = json_of(&host, text);
    assert_eq!(
        (
            &facts["gpus"][0]["bound_to"],
            &facts["gpus"][0]["driver_unseen"]
        ),
        (&Value::Null, &json!(true))
    );
    assert!(
        stdout(text).contains("driver unknown") && !stdout(text).contains("no driver bound"),
        "{}",
        stdout(text)
    );
    // With -k a GPU without a driver has none.
    let listed = format!("{text}\tKernel modules: nouveau, nvidia\n");
    assert_eq!(
        json_of(&host, &listed)["gpus"][0]["driver_unseen"],
        Value::Null
    );
    assert!(
        stdout(&listed).contains("no driver bound"),
        "{}",
        stdout(&listed)
    );
}

#[test]
fn this_machine_can_be_read_without_anything() {
    let facts = json_of(&[], "");
    assert_eq!(facts["machine"]["arch"], std::env::consts::ARCH);
    assert_eq!(facts["machine"]["is_tree"], false);
}

#[test]
fn a_directory_that_is_no_host_is_refused() {
    let output = run(&["facts", "--root", "tests"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("etc/os-release"));
    assert!(output.stdout.is_empty());
}

#[test]
fn text_fits_a_terminal() {
    for host in [
        "ubuntu-24.04-hgx-h100",
        "debian-12-p100",
        "rocky-9-v100",
        "wsl2-ubuntu-22.04",
        "jetson-orin",
    ] {
        let output = run(&["facts", "--root", &format!("tests/hosts/{host}")], "");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(output.status.success() && !text.is_empty());
        let wide: Vec<_> = text.lines().filter(|l| l.chars().count() > 80).collect();
        assert_eq!(wide, [""; 0]);
    }
}

#[test]
fn a_driver_that_is_mounted_into_a_machine_is_installed() {
    // As on machines of clouds that mount the driver's files, below /lib links to them.
    for (file, link) in [
        (
            "usr/local/nvidia/lib64/libcuda.so.580.159.04",
            Some("usr/lib/libcuda.so.1"),
        ),
        ("usr/local/nvidia/lib64/libnvidia-ml.so.580.159.04", None),
        ("var/lib/nvidia/lib64/libcuda.so.580.159.04", None),
        (
            "srv/driver/libcuda.so.580.159.04",
            Some("usr/lib/x86_64-linux-gnu/libcuda.so.1"),
        ),
    ] {
        let tree = Tree::ubuntu_24_04().gpu("0000:00:06.0", "2335", Some("nvidia"));
        tree.write(file, "");
        if let Some(link) = link {
            tree.link(link, &format!("/{file}"));
        }
        let facts = tree.run(&["facts", "--json"]).json();
        assert_eq!(facts["driver"]["version"], "580.159.04", "{file}");
        assert_eq!(facts["driver"]["evidence"], format!("/{file}"));
        assert_eq!(facts["other_drivers"], json!([]));
    }
}
