//! What `plan --format cloud-init` prints, and the examples of deploy/.

use crate::common::{run, text};
use serde_json::Value;

/// The config file that user-data puts on a machine.
fn config_in(user_data: &str) -> String {
    assert!(user_data.starts_with("#cloud-config\n"), "{user_data}");
    let value: Value = serde_yaml::from_str(user_data).expect("YAML");
    assert_eq!(value["write_files"][0]["path"], "/etc/gpusetup/config.yaml");
    text(&value, "/write_files/0/content").to_owned()
}

#[test]
fn user_data_leads_to_the_same_choice() {
    let ask = [
        "plan",
        "--os",
        "debian-12",
        "--gpu",
        "10de:20b2",
        "--cuda",
        "12.4",
        "--format",
        "cloud-init",
        "--accept-eula",
    ];
    let ran = run(&ask);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("\n  - [gpusetup, apply, --unattended]\n"),
        "{}",
        ran.out
    );
    let config = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(config.path(), config_in(&ran.out)).expect("written");
    let config = config.path().display().to_string();
    let there = run(&[
        "plan",
        "--os",
        "debian-12",
        "--config",
        &config,
        "--gpu",
        "10de:20b2",
        "--json",
    ])
    .json();
    let here = run(&[
        "plan",
        "--os",
        "debian-12",
        "--gpu",
        "10de:20b2",
        "--cuda",
        "12.4",
        "--json",
    ])
    .json();
    assert_eq!(there["selection"], here["selection"]);

    let parts = ["--components", "nvcc,cublas"];
    let ran = run(&[&ask[..], &parts].concat());
    assert!(
        config_in(&ran.out).contains("components: \"nvcc,cublas\"\n"),
        "{}",
        ran.out
    );
    let below = "https://developer.download.nvidia.com/compute=http://me:hunter2@two.example/n";
    let mirrored = run(&[
        &ask[..],
        &["--mirror", "http://one.example", "--mirrors", below],
    ]
    .concat())
    .out;
    assert!(!mirrored.contains("hunter2"), "{mirrored}");
    let config = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(config.path(), config_in(&mirrored)).expect("written");
    let config = config.path().display().to_string();
    let there = run(&[
        "plan",
        "--os",
        "debian-12",
        "--config",
        &config,
        "--gpu",
        "10de:20b2",
        "--format",
        "sh",
    ])
    .out;
    assert!(there.contains(" http://two.example/n/cuda/12.4"), "{there}");

    // The runfile of the planned version has a Fabric Manager; the newest of its branch need not.
    let fleet = ["plan", "--os", "debian-12", "--gpu", "8xh100"];
    let ran = run(&[&fleet[..], &["--format", "cloud-init", "--offline"]].concat());
    let planned = run(&[&fleet[..], &["--json"]].concat()).json();
    assert_eq!(text(&planned, "/selection/driver/method"), "runfile");
    let config = config_in(&ran.out);
    assert!(
        config.contains(&format!(
            "driver: \"{}\"\n",
            text(&planned, "/selection/driver/version")
        )),
        "{config}"
    );
    assert!(config.contains("offline: true\n"), "{config}");

    let sum = "0".repeat(64);
    let fetched = run(&[
        &ask[..],
        &[
            "--reboot",
            "external",
            "--binary-url",
            "https://e.org/g",
            "--binary-sha256",
            &sum,
        ],
    ]
    .concat());
    assert!(
        fetched
            .out
            .contains("condition: [gpusetup, reboot-required]"),
        "{}",
        fetched.out
    );
    for wrong in [
        "https://e.org/'; rm -rf /;'",
        "http://e.org/g",
        "https://e.org/a b",
        "https://me:hunter2@e.org/g",
        "https://e.org/g?token=hunter2",
        "http://e.org/g?token=hunter2",
    ] {
        let ran = run(&[&ask[..], &["--binary-url", wrong, "--binary-sha256", &sum]].concat());
        assert!(
            ran.code == 2 && !format!("{}{}", ran.out, ran.err).contains("hunter2"),
            "{wrong}: {}",
            ran.err
        );
    }
}

#[test]
fn a_program_that_is_not_what_it_should_be_replaces_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (bin, tools) = (path("bin"), path("tools"));
    for folder in [&bin, &tools] {
        std::fs::create_dir(folder).expect("made");
    }
    let write = |file: std::path::PathBuf, text: &str| {
        std::fs::write(&file, text).expect("written");
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("set");
    };
    // What the server has, and a curl that brings it.
    write(path("served"), "#!/bin/sh\necho new $*\n");
    write(
        tools.join("curl"),
        &format!(
            "#!/bin/sh\nwhile [ $1 != -o ]; do shift; done\ncp {} $2\nchmod 600 $2\n",
            path("served").display()
        ),
    );
    let run_with = |sum: &str| {
        let ask = [
            "plan",
            "--format",
            "cloud-init",
            "--os",
            "debian-12",
            "--gpu",
            "l4",
            "--binary-url",
            "https://e.org/g",
            "--binary-sha256",
            sum,
        ];
        let planned = run(&ask);
        let line = planned
            .out
            .lines()
            .find_map(|line| line.strip_prefix("  - [sh, -c, \"")?.strip_suffix("\"]"))
            .expect("a command");
        let line = line.replace("/usr/local/bin", &bin.display().to_string());
        let path = format!("{}:{}:/usr/bin:/bin", bin.display(), tools.display());
        let done = std::process::Command::new("sh")
            .args(["-c", &line])
            .env("PATH", path)
            .output()
            .expect("sh runs");
        let left: Vec<_> = std::fs::read_dir(&bin)
            .expect("there")
            .map(|e| e.expect("an entry").file_name())
            .collect();
        assert_eq!(left, ["gpusetup"], "{line}");
        (
            done.status.success(),
            String::from_utf8_lossy(&done.stdout).into_owned(),
        )
    };
    write(bin.join("gpusetup"), "#!/bin/sh\necho old $*\n");
    let wrong = run_with(&"0".repeat(64));
    assert!(!wrong.0 && !wrong.1.contains("apply"), "{wrong:?}");
    assert_eq!(
        std::fs::read_to_string(bin.join("gpusetup")).expect("there"),
        "#!/bin/sh\necho old $*\n"
    );
    let sum = gpusetup::sum::sha256(std::fs::read(path("served")).expect("there"));
    assert_eq!(
        run_with(&sum),
        (true, "new apply --unattended\n".to_owned())
    );
}

#[test]
fn user_data_has_no_query_of_a_signed_address() {
    let sum = "0".repeat(64);
    let file = "https://e.org/NVIDIA-Linux-x86_64-570.211.01-grid.run?sig=hunter2";
    let ask = [
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "h100",
        "--driver-file",
        file,
        "--driver-file-sha256",
        &sum,
    ];
    let ran = run(&[&ask[..], &["--format", "cloud-init"]].concat());
    assert!(ran.code == 0 && !ran.out.contains("hunter2"), "{}", ran.out);
    assert!(
        ran.err
            .contains("the query of --driver-file's address is left out"),
        "{}",
        ran.err
    );
}

#[test]
fn user_data_has_everything_that_was_asked_for() {
    let asked = "--profile driver --power-limit 300 --persistence on --ecc off --gpu-clocks default --mig 3g.40gb --updates hold --module-option nvidia.NVreg_EnableGpuFirmware=0 \
        --module-option nvidia-uvm.uvm_disable_hmm=1 --library-path --no-epel --imex-peers 10.0.0.1,10.0.0.2";
    let ask: Vec<_> = ["plan", "--os", "ubuntu-24.04"]
        .into_iter()
        .chain(asked.split_whitespace())
        .collect();
    let ran = run(&[&ask[..], &["--gpu", "h100", "--format", "cloud-init"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let config = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(config.path(), config_in(&ran.out)).expect("written");
    let config = config.path().display().to_string();
    let there = run(&[
        "plan",
        "--config",
        &config,
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "h100",
        "--json",
    ])
    .json();
    let here = run(&[&ask[..], &["--gpu", "h100", "--json"]].concat()).json();
    for key in ["settings", "imex_peers", "library_path", "no_epel"] {
        assert_eq!(
            there["request"][key], here["request"][key],
            "{key}: {}",
            ran.out
        );
    }
    assert_eq!(
        there["request"]["settings"]["states"]
            .as_array()
            .map(Vec::len),
        Some(4),
        "{there}"
    );
}

#[test]
fn user_data_takes_the_driver_from_the_file_that_was_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder
        .path()
        .join("NVIDIA-Linux-x86_64-570.211.01-grid.run");
    std::fs::write(&file, "#! /bin/sh\n").expect("written");
    let file = file.display().to_string();
    let ran = run(&[
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "h100",
        "--driver-file",
        &file,
        "--format",
        "cloud-init",
    ]);
    let config = config_in(&ran.out);
    assert!(
        config.contains(&format!("driver-file: \"{file}\"\ndriver-file-sha256: \"")),
        "{config}{}",
        ran.err
    );
    assert!(
        !config.contains("method:") && !config.contains("driver: "),
        "{config}"
    );
    assert!(
        ran.err.contains(&format!("the image must contain {file}")),
        "{}",
        ran.err
    );
}

#[test]
fn the_examples_of_user_data_have_a_config_that_is_understood() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/cloud-init");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "yaml") {
            let config = tempfile::NamedTempFile::new().expect("a file");
            let user_data = std::fs::read_to_string(&path).expect("readable");
            std::fs::write(config.path(), config_in(&user_data)).expect("written");
            let ran = run(&[
                "plan",
                "--config",
                &config.path().display().to_string(),
                "--gpu",
                "10de:2330",
            ]);
            assert_eq!(ran.code, 0, "{}: {}", path.display(), ran.err);
            seen += 1;
        }
    }
    assert_eq!(seen, 3);
}
