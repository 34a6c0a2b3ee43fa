//! The configuration files of container engines, as `uninstall --container-toolkit` and `plan` read
//! them: by what each engine makes of them, and not by the names in them.

use crate::common::{Ran, Tree, run, warnings};

const DAEMON: &str = "etc/docker/daemon.json";
const CRIO: &str = "etc/crio/crio.conf";
const CRIO_PART: &str = "etc/crio/crio.conf.d/99-nvidia.toml";
const RKE2_TEMPLATE: &str = "var/lib/rancher/rke2/agent/etc/containerd/config-v3.toml.tmpl";
const OF_CRIO: &str =
    "[crio.runtime.runtimes.nvidia]\nruntime_path = \"/usr/bin/nvidia-container-runtime\"\n";
const OF_CONTAINERD: &str = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia.options]\n\
     BinaryName = \"/usr/bin/nvidia-container-runtime\"\n";

/// A Debian 12 with these engines, and a CDI specification that a removal takes away.
fn host(programs: &[&str]) -> Tree {
    let tree = Tree::debian_12().gpu("0000:17:00.0", "20b2", Some("nouveau"));
    programs
        .iter()
        .for_each(|name| tree.write(&format!("usr/bin/{name}"), ""));
    tree.write(
        "etc/cdi/nvidia.yaml",
        "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: [{name: all}]\n",
    );
    tree
}

/// What a run says of this tree, as if it were a host.
fn at(tree: &Tree, command: &str, more: &[&str]) -> Ran {
    let root = tree.path().to_str().expect("UTF-8").to_owned();
    let ran = run(&[&[command, "--root", &root], more].concat());
    let [out, err] = [&ran.out, &ran.err].map(|text| tree.typed_in_it(text));
    Ran { out, err, ..ran }
}

fn planned(tree: &Tree) -> Ran {
    at(tree, "plan", &["--profile", "container-host"])
}

/// A removal of the container toolkit. The records of packages need dpkg's own program.
fn removing(tree: &Tree, more: &[&str]) -> Ran {
    let _ = std::fs::remove_file(tree.path().join("usr/bin/apt-get"));
    let removal = ["--container-toolkit", "--dry-run"];
    at(tree, "uninstall", &[&removal[..], more].concat())
}

/// What it prints, without the ends of its lines, and its exit code.
fn removal(tree: &Tree) -> (u8, String) {
    code_and_output(&removing(tree, &[]))
}

fn code_and_output(ran: &Ran) -> (u8, String) {
    let text = format!("{} {}", ran.out, ran.err);
    (
        u8::try_from(ran.code).expect("a code"),
        text.split_whitespace().collect::<Vec<_>>().join(" "),
    )
}

/// Files, each with its text.
type Files<'a> = &'a [(&'a str, &'a str)];

#[test]
fn a_default_runtime_of_nvidia_stops_the_removal() {
    let default = "[crio.runtime]\ndefault_runtime = \"nvidia\"\n";
    for file in [CRIO, "etc/crio/crio.conf.d/10-crio.conf"] {
        let tree = host(&["crio"]);
        tree.write(file, default);
        tree.write(CRIO_PART, OF_CRIO);
        let (code, text) = removal(&tree);
        assert!(
            code == 5 && text.contains(&format!("/{file} makes it the default")),
            "{file}: {text}"
        );
    }
    let docker = |file: &str, text: &str| {
        let tree = host(&["dockerd"]);
        tree.write(file, text);
        removing(&tree, &[])
    };
    let gpu = r#"{"default-runtime": "gpu", "runtimes": {"gpu": {"path": "/usr/bin/nvidia-container-runtime"}}}"#;
    for (named, text) in [
        ("gpu", gpu.to_owned()),
        ("nvidia-cdi", gpu.replace("gpu", "nvidia-cdi")),
    ] {
        let (code, output) = code_and_output(&docker(DAEMON, &text));
        assert!(
            code == 5 && output.contains(&format!("NVIDIA's runtime, here called {named}: ")),
            "{output}"
        );
    }
    let unit = "[Service]\nExecStart=\nExecStart=/usr/bin/dockerd -H fd:// --add-runtime=nvidia=/usr/bin/nvidia-container-runtime \
                --default-runtime=nvidia\n";
    let refused = docker("etc/systemd/system/docker.service.d/override.conf", unit);
    insta::assert_snapshot!(refused.refusal(5), @"
    error: Docker starts every container with NVIDIA's runtime: /etc/systemd/system/docker.service.d/override.conf makes it the default (GS803)
    hint: give Docker another default runtime in this file, run systemctl daemon-reload, restart Docker, then try again
    try: sudo grep -niE 'default.runtime|^ *runtime *=|nvidia' /etc/systemd/system/docker.service.d/override.conf
    ");
    let tree = host(&["containerd"]);
    let runc = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\nBinaryName = \"/usr/bin/nvidia-container-runtime\"\n";
    tree.write("etc/containerd/config.toml", runc);
    insta::assert_snapshot!(removing(&tree, &[]).refusal(5), @"
    error: containerd starts every container with NVIDIA's runtime, here called runc: /etc/containerd/config.toml makes it the default (GS803)
    hint: give containerd another default runtime in this file, restart containerd, then try again
    try: sudo grep -niE 'default.runtime|^ *runtime *=|nvidia' /etc/containerd/config.toml
    ");
}

/// The default runtime is NVIDIA's in a file that gpusetup does not write: this engine, its files,
/// and the one that is named.
#[test]
fn a_default_runtime_stops_the_removal_wherever_it_is_set() {
    let daemon = (
        DAEMON,
        r#"{"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}}"#,
    );
    let docker = |setting: &str| {
        format!("[Service]\n{setting}\nExecStart=/usr/sbin/dockerd -H fd:// $DOCKER_OPTS\n")
    };
    let (by_file, by_unit) = (
        docker("EnvironmentFile=-/etc/default/docker"),
        docker("Environment=\"DOCKER_OPTS=--debug --default-runtime=nvidia\""),
    );
    let docker = "lib/systemd/system/docker.service";
    let variables = (
        "etc/default/docker",
        "DOCKER_OPTS=\"--default-runtime=nvidia\"\n",
    );
    let k3s = (
        "etc/systemd/system/k3s.service",
        "[Service]\nExecStart=/usr/local/bin/k3s server --default-runtime nvidia\n",
    );
    let rke2 = (
        "usr/local/lib/systemd/system/rke2-server.service",
        "[Service]\nEnvironmentFile=-/usr/local/lib/systemd/system/%N.env\nExecStart=/usr/local/bin/rke2 server $OPTIONS\n",
    );
    let config_flag = (
        "usr/local/lib/systemd/system/rke2-server.env",
        "OPTIONS=\"--default-runtime nvidia\"\n",
    );
    let containerd =
        "[plugins.\"io.containerd.grpc.v1.cri\".containerd]\ndefault_runtime_name = \"nvidia\"\n";
    let imports = (
        "etc/containerd/config.toml",
        "version = 2\nimports = [\"/etc/cd.d/*.toml\"]\n",
    );
    let crun = OF_CRIO.replace("runtimes.nvidia", "runtimes.crun");
    let podman = "[engine]\nruntime = \"nvidia\"\n[engine.runtimes]\nnvidia = [\"/usr/bin/nvidia-container-runtime\"]\n";
    let own_crun = "[engine.runtimes]\ncrun = [\"/usr/bin/nvidia-container-runtime\"]\n";
    let continued = "[Service]\nExecStart=/usr/bin/dockerd \\\n  -H fd:// \\\n# c\n  --default-runtime nvidia\n";
    let template = "{{ template \"base\" . }}\ndefault_runtime_name = \"nvidia\"\n";
    let cases: [(&str, Files, &str); 12] = [
        (
            "usr/sbin/dockerd",
            &[daemon, (docker, by_file.as_str()), variables],
            variables.0,
        ),
        (
            "usr/sbin/dockerd",
            &[daemon, (docker, by_unit.as_str())],
            docker,
        ),
        ("usr/local/bin/k3s", &[k3s], k3s.0),
        (
            "usr/local/bin/k3s",
            &[("etc/rancher/k3s/config.yaml", "default-runtime: nvidia\n")],
            "etc/rancher/k3s/config.yaml",
        ),
        ("usr/local/bin/rke2", &[rke2, config_flag], config_flag.0),
        (
            "usr/bin/containerd",
            &[imports, ("etc/cd.d/a.toml", containerd)],
            "etc/cd.d/a.toml",
        ),
        (
            "usr/bin/crio",
            &[("etc/crio/crio.conf.d/10.conf", crun.as_str())],
            "etc/crio/crio.conf.d/10.conf",
        ),
        (
            "usr/bin/podman",
            &[("etc/containers/containers.conf", podman)],
            "etc/containers/containers.conf",
        ),
        (
            "usr/bin/podman",
            &[("etc/containers/containers.conf", own_crun)],
            "etc/containers/containers.conf",
        ),
        ("usr/bin/dockerd", &[daemon, (docker, continued)], docker),
        (
            "usr/local/bin/k3s",
            &[(
                "etc/rancher/k3s/config.yaml.d/x.yml",
                "default-runtime: nvidia\n",
            )],
            "etc/rancher/k3s/config.yaml.d/x.yml",
        ),
        (
            "usr/local/bin/rke2",
            &[(RKE2_TEMPLATE, template)],
            RKE2_TEMPLATE,
        ),
    ];
    for (program, files, named) in cases {
        let tree = host(&[]);
        tree.write(program, "");
        files.iter().for_each(|(file, text)| tree.write(file, text));
        let (code, text) = removal(&tree);
        assert!(
            code == 5 && text.contains(&format!("/{named} makes it the default")),
            "{program}, {named}: {text}"
        );
        assert_eq!(
            text.contains("daemon-reload"),
            named.ends_with(".service"),
            "{named}: {text}"
        );
        let has_unit = program != "usr/bin/podman";
        assert_eq!(
            text.contains("in this file, then try again"),
            !has_unit,
            "{program}: {text}"
        );
    }
}

/// With this option, dockerd does not read the file that the plan writes.
#[test]
fn an_option_in_a_variable_of_a_unit_stops_the_plan() {
    let tree = host(&["dockerd"]);
    let unit =
        "[Service]\nEnvironmentFile=-/etc/sysconfig/docker\nExecStart=/usr/bin/dockerd $OPTIONS\n";
    tree.write("usr/lib/systemd/system/docker.service", unit);
    assert_eq!(planned(&tree).code, 0);
    tree.write(
        "etc/sysconfig/docker",
        "OPTIONS=\"--config-file=/opt/daemon.json\"\n",
    );
    insta::assert_snapshot!(planned(&tree).refusal(5), @"
    error: /etc/sysconfig/docker cannot be merged, so it is left as it is: it starts Docker with --config-file, beside which settings in /etc/docker/daemon.json are refused or not read (GS803)
    hint: correct the file of Docker, then plan again
    try: sudo cat /etc/sysconfig/docker
    ");
}

/// dockerd joins the runtimes of its command line and of its file.
#[test]
fn runtimes_in_dockers_command_line_are_no_obstacle() {
    let plan = |options: &str| {
        let tree = host(&["dockerd"]);
        let unit = format!("[Service]\nExecStart=/usr/bin/dockerd -H fd:// {options}\n");
        tree.write("usr/lib/systemd/system/docker.service", &unit);
        let (code, text) = code_and_output(&planned(&tree));
        assert_eq!(code, 0, "{options}: {text}");
        text
    };
    for options in [
        "--default-runtime=runc",
        "--default-runtime=nvidia",
        "--add-runtime=x=/usr/bin/crun",
    ] {
        let text = plan(options);
        assert!(
            text.contains("/etc/docker/daemon.json"),
            "{options}: {text}"
        );
    }
    let text = plan("--add-runtime=nvidia=/usr/bin/nvidia-container-runtime");
    let stays = "Docker has a runtime nvidia in /usr/lib/systemd/system/docker.service already, which stays as it is";
    assert!(
        text.contains(stays) && !text.contains("+++ /etc/docker"),
        "{text}"
    );
}

#[test]
fn a_default_runtime_of_docker_has_to_be_defined() {
    let tree = host(&["dockerd"]);
    tree.write(DAEMON, r#"{"default-runtime": "nvidi"}"#);
    insta::assert_snapshot!(planned(&tree).refusal(5), @"
    error: Docker cannot read /etc/docker/daemon.json: it makes nvidi the default runtime, and defines none of this name (GS803)
    hint: correct the file of Docker, then plan again
    try: sudo cat /etc/docker/daemon.json
    ");
    // The plan defines this runtime.
    tree.write(DAEMON, r#"{"default-runtime": "nvidia"}"#);
    assert_eq!(planned(&tree).code, 0);
}

/// Debian 13 has the daemon and the program `docker` in two packages.
#[test]
fn doctor_sees_the_engine_that_a_plan_sees() {
    let tree = host(&["dockerd", "nvidia-ctk"]);
    tree.write("usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14", "");
    tree.write(DAEMON, "{");
    insta::assert_snapshot!(planned(&tree).refused(5), @"error: /etc/docker/daemon.json cannot be merged, so it is left as it is: line 1, column 1: EOF while parsing an object (GS803)");
    let report = at(&tree, "doctor", &["--json"]).out;
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let checks = report["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["id"] == "GS803");
    let check = check.expect("GS803");
    assert_eq!(check["status"], "fail", "{check}");
    insta::assert_snapshot!(check["cause"].as_str().expect("a cause"), @"docker cannot read /etc/docker/daemon.json: line 1, column 1: EOF while parsing an object");
}

#[test]
fn a_configuration_in_another_place_stops_the_plan() {
    let mut refused = Vec::new();
    for (program, option, place, usual) in [
        (
            "containerd",
            "--config",
            "opt/c.toml",
            "/etc/containerd/config.toml",
        ),
        (
            "crio",
            "--config-dir",
            "opt/crio.d",
            "/etc/crio/crio.conf.d/99-nvidia.toml",
        ),
    ] {
        let tree = host(&[program, "kubelet"]);
        let unit = format!("usr/lib/systemd/system/{program}.service");
        tree.write(
            &unit,
            &format!("[Service]\nExecStart=/usr/bin/{program} {option} /{place}\n"),
        );
        refused.push(planned(&tree).refusal(5).to_owned());
        // The runtime in the file that the engine reads stays, and doctor finds it.
        let (file, runtime) = match program {
            "crio" => (format!("{place}/a.conf"), OF_CRIO),
            _ => (place.to_owned(), OF_CONTAINERD),
        };
        tree.write(&file, runtime);
        let (code, text) = code_and_output(&planned(&tree));
        let stays = format!("has a runtime nvidia in /{file} already, which stays as it is");
        assert!(
            code == 0 && text.contains(&stays) && !text.contains(&format!("+++ {usual}")),
            "{text}"
        );
        let (_, text) = code_and_output(&at(&tree, "doctor", &["--ready", "k8s", "-v"]));
        assert!(text.contains(&format!("configured in: /{file}")), "{text}");
    }
    insta::assert_snapshot!(refused.concat(), @"
    error: /usr/lib/systemd/system/containerd.service cannot be merged, so it is left as it is: it starts containerd with its configuration in /opt/c.toml, beside which settings in /etc/containerd/config.toml are refused or not read (GS803)
    hint: correct the file of containerd, then plan again
    hint: or add the runtime nvidia, with the program /usr/bin/nvidia-container-runtime, to the configuration that containerd reads: it stays as it is
    try: sudo cat /usr/lib/systemd/system/containerd.service
    error: /usr/lib/systemd/system/crio.service cannot be merged, so it is left as it is: it starts CRI-O with its configuration in /opt/crio.d, beside which settings in /etc/crio/crio.conf.d/99-nvidia.toml are refused or not read (GS803)
    hint: correct the file of CRI-O, then plan again
    hint: or add the runtime nvidia, with the program /usr/bin/nvidia-container-runtime, to the configuration that CRI-O reads: it stays as it is
    try: sudo cat /usr/lib/systemd/system/crio.service
    ");
}

#[test]
fn a_runtime_of_containerds_that_gives_pods_no_gpus_is_named() {
    let table = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia]\n";
    let program = "options.BinaryName = \"/usr/bin/nvidia-container-runtime\"\n";
    let old = format!("{table}runtime_type = \"io.containerd.runc.v1\"\n{program}");
    let plain = format!("{table}runtime_type = \"io.containerd.runc.v2\"\n");
    let sound = format!("{plain}{program}");
    for (version, text, why) in [
        (
            "2.1.4",
            &old,
            Some(
                "containerd has no runtime_type io.containerd.runc.v1 since 2.0.0, so no pod of it starts",
            ),
        ),
        (
            "1.7.27",
            &plain,
            Some("it names no program, so it is plain runc: add BinaryName"),
        ),
        ("1.7.27", &old, None),
        ("2.1.4", &sound, None),
    ] {
        let tree = host(&[
            "containerd",
            "kubelet",
            "nvidia-ctk",
            "nvidia-container-runtime",
        ]);
        let record = format!(
            "Package: containerd.io\nStatus: install ok installed\nVersion: {version}-1\n\n"
        );
        tree.write("var/lib/dpkg/status", &record);
        tree.write("etc/containerd/config.toml", text);
        let (code, plan) = code_and_output(&planned(&tree));
        let (_, doctor) = code_and_output(&at(&tree, "doctor", &["--ready", "k8s", "-v"]));
        let kept = "has a runtime nvidia in /etc/containerd/config.toml already, which stays as it is, but ";
        assert!(
            code == 0 && plan.contains(kept) == why.is_some(),
            "{version}: {plan}"
        );
        assert_eq!(
            doctor.contains("the runtime nvidia gives pods no GPUs: "),
            why.is_some(),
            "{version}: {doctor}"
        );
        if let Some(why) = why {
            assert!(
                plan.contains(&format!("{kept}{why}")) && doctor.contains(why),
                "{plan} {doctor}"
            );
        }
    }
}

/// containerd 1.x takes the whole section of a plugin from the last file that has it.
#[test]
fn an_import_that_replaces_the_section_of_a_plugin_stops_the_plan() {
    let plan = |version: &str, part: &str| {
        let tree = host(&["containerd", "kubelet"]);
        let record = format!(
            "Package: containerd.io\nStatus: install ok installed\nVersion: {version}-1\n\n"
        );
        tree.write("var/lib/dpkg/status", &record);
        let runc = OF_CONTAINERD
            .replace("nvidia.options", "runc")
            .replace("BinaryName", "runtime_type");
        let main = runc.replace(
            "version = 2\n",
            "version = 2\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n",
        );
        tree.write("etc/containerd/config.toml", &main);
        tree.write("etc/containerd/conf.d/99-registry.toml", part);
        planned(&tree)
    };
    let registry = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = \"/etc/containerd/certs.d\"\n";
    insta::assert_snapshot!(plan("1.7.27", registry).refusal(5), @"
    error: /etc/containerd/conf.d/99-registry.toml cannot be merged, so it is left as it is: containerd before 2.0.0 takes the whole section of its plugin cri from it, and ignores that of /etc/containerd/config.toml: move the section there (GS803)
    hint: correct the file of containerd, then plan again
    hint: or add the runtime nvidia, with the program /usr/bin/nvidia-container-runtime, to the configuration that containerd reads: it stays as it is
    try: sudo cat /etc/containerd/conf.d/99-registry.toml
    ");
    assert_eq!(plan("2.1.4", registry).code, 0);
    let (code, text) = code_and_output(&plan("1.7.27", OF_CONTAINERD));
    let stays = "has a runtime nvidia in /etc/containerd/conf.d/99-registry.toml already, which stays as it is";
    assert!(
        code == 0 && text.contains(stays) && !text.contains("+++ /etc/containerd"),
        "{text}"
    );
}

#[test]
fn a_file_that_containerd_does_not_import_is_not_read() {
    let tree = host(&["containerd"]);
    tree.write("etc/containerd/config.toml", "version = 2\n");
    tree.write(
        "etc/containerd/conf.d/a.toml",
        "[plugins.x.containerd]\ndefault_runtime_name = \"nvidia\"\n",
    );
    assert_eq!(removal(&tree).0, 0);
    tree.write(
        "etc/containerd/config.toml",
        "version = 2\nimports = [\"more/a.toml\"]\n",
    );
    tree.write("etc/containerd/more/a.toml", "a = [\n");
    insta::assert_snapshot!(removing(&tree, &[]).refusal(5), @"
    error: containerd cannot read /etc/containerd/more/a.toml: line 1, column 6: unclosed array, expected `]` (GS803)
    hint: correct the file of containerd, then try again
    try: sudo sed -n 1l /etc/containerd/more/a.toml
    ");
}

#[test]
fn a_runtime_of_nvidias_under_another_name_is_named() {
    let tree = host(&["dockerd"]);
    tree.write(
        DAEMON,
        r#"{"runtimes": {"gpu": {"path": "/usr/bin/nvidia-container-runtime"}, "x": {"path": "/opt/x"}}}"#,
    );
    let plan = removing(&tree, &["--json"]).json();
    insta::assert_snapshot!(warnings(&plan, "GS803").join("\n"), @"/etc/docker/daemon.json has the runtime gpu, which gpusetup did not write: it stays. Take it out by hand, then `sudo systemctl restart docker.service`");
    let tree = host(&["podman"]);
    tree.write(
        "etc/containers/containers.conf",
        "[engine.runtimes]\ngpu = [\"/usr/bin/nvidia-container-runtime\"]\n",
    );
    let plan = removing(&tree, &["--json"]).json();
    insta::assert_snapshot!(warnings(&plan, "GS803").join("\n"), @"/etc/containers/containers.conf has the runtime gpu, which gpusetup did not write: it stays. Take it out by hand");
}

#[test]
fn a_runtime_of_dockers_that_does_not_start_nvidias_program_is_named() {
    let plan = |program: &str| {
        let tree = host(&["dockerd", "runc"]);
        tree.write(
            "var/lib/dpkg/status",
            "Package: docker.io\nStatus: install ok installed\nVersion: 20.10.24+dfsg1-1\n\n",
        );
        tree.write(
            DAEMON,
            &format!(r#"{{"runtimes": {{"nvidia": {{"path": "{program}"}}}}}}"#),
        );
        let (code, text) = code_and_output(&planned(&tree));
        assert_eq!(code, 0, "{text}");
        text
    };
    for (program, why) in [
        ("/opt/none/nvidia-container-runtime", "does not exist"),
        ("/usr/bin/runc", "is not NVIDIA's"),
    ] {
        let text = plan(program);
        let stays = format!(
            "which stays as it is, but its program {program} {why}. Make /usr/bin/nvidia-container-runtime its path"
        );
        assert!(
            text.contains(&stays) && text.contains("; --gpus works: "),
            "{text}"
        );
    }
    for usable in [
        "/usr/bin/nvidia-container-runtime",
        "nvidia-container-runtime",
    ] {
        let text = plan(usable);
        assert!(
            text.contains("; --gpus and --runtime nvidia work: ")
                && !text.contains("which stays as it is, but"),
            "{text}"
        );
    }
}

#[test]
fn a_link_in_place_of_the_toolkits_configuration_is_named() {
    let tree = host(&["crio", "nvidia-ctk"]);
    let crun = "[crio.runtime]\ndefault_runtime = \"crun\"\n\
                [crio.runtime.runtimes.crun]\nruntime_path = \"/usr/libexec/crio/crun\"\n";
    tree.write("etc/crio/crio.conf.d/10-crio.conf", crun);
    tree.write(
        "etc/nvidia-container-runtime/other.toml",
        "[nvidia-container-runtime]\nruntimes = [\"runc\"]\n",
    );
    tree.link("etc/nvidia-container-runtime/config.toml", "other.toml");
    let plan = at(&tree, "plan", &["--profile", "container-host", "--json"]).json();
    insta::assert_snapshot!(warnings(&plan, "GS803").join("\n"), @"/etc/nvidia-container-runtime/config.toml stays as it is: it is a link to other.toml. NVIDIA's runtime finds neither runc nor crun, so no pod of it starts in CRI-O: put /usr/libexec/crio/crun first in runtimes there");
}

#[test]
fn a_file_that_its_engine_cannot_read_is_refused_with_its_place() {
    for (engine, title, file, text, place) in [
        (
            "dockerd",
            "Docker",
            DAEMON,
            "{\n  // GPUs\n  \"default-runtime\": \"nvidia\"\n}\n",
            "line 2, column 3: ",
        ),
        (
            "dockerd",
            "Docker",
            DAEMON,
            "{\"a\": 1,}",
            "line 1, column 9: ",
        ),
        (
            "containerd",
            "containerd",
            "etc/containerd/config.toml",
            "version = 2\n[plugins\n",
            "line 2, column ",
        ),
        (
            "crio",
            "CRI-O",
            "etc/crio/crio.conf.d/10-x.conf",
            "[crio",
            "line 1, column ",
        ),
    ] {
        let tree = host(&[engine]);
        tree.write(file, text);
        let (code, output) = removal(&tree);
        assert!(
            code == 5 && output.contains(&format!("{title} cannot read /{file}: {place}")),
            "{output}"
        );
    }
    // A file that the plan does not write, but that the engine reads when it restarts.
    let tree = host(&["crio"]);
    tree.write("etc/crio/crio.conf.d/10-x.conf", "[crio");
    insta::assert_snapshot!(planned(&tree).refusal(5), @"
    error: CRI-O cannot read /etc/crio/crio.conf.d/10-x.conf: line 1, column 6: unclosed table, expected `]` (GS803)
    hint: correct the file of CRI-O, then plan again
    try: sudo sed -n 1l /etc/crio/crio.conf.d/10-x.conf
    ");
}

#[test]
fn a_specification_that_the_engine_does_not_read_is_named() {
    let warning = |podman: &str, cdi: &str| {
        let tree = host(&["podman", "nvidia-ctk"]);
        let package = |name: &str, version: &str| {
            format!("Package: {name}\nStatus: install ok installed\nVersion: {version}\n\n")
        };
        let toolkit = package("nvidia-container-toolkit", "1.18.1-1");
        tree.write(
            "var/lib/dpkg/status",
            &format!("{}{toolkit}", package("podman", podman)),
        );
        tree.write(
            "etc/cdi/nvidia.yaml",
            &format!("cdiVersion: {cdi}\nkind: nvidia.com/gpu\ndevices: [{{name: all}}]\n"),
        );
        let (code, text) = code_and_output(&planned(&tree));
        assert_eq!(code, 0, "{text}");
        text.split_once("does not read /etc/cdi/nvidia.yaml, ")
            .map(|(_, rest)| rest.to_owned())
    };
    for (podman, cdi, first) in [
        ("4.3.1+ds1-8", "0.7.0", "Podman 5.1.0 is the first"),
        ("5.4.2+ds1-1", "1.0.0", "Podman 5.5.0 is the first"),
        (
            "5.4.2+ds1-1",
            "1.1.0",
            "no version of Podman that gpusetup knows",
        ),
    ] {
        let text = warning(podman, cdi).unwrap_or_default();
        assert!(
            text.starts_with(&format!("which has version {cdi} of CDI, ")) && text.contains(first),
            "{podman}: {text}"
        );
    }
    assert_eq!(warning("5.4.2+ds1-1", "0.8.0"), None);
}

/// What a release offers is known without its package lists.
#[test]
fn a_release_with_an_old_engine_is_warned_of() {
    let plan = |os: &str, engine: &str| {
        let base = [
            "plan",
            "--os",
            os,
            "--gpu",
            "a100-sxm4-40gb",
            "--today",
            "2026-11-26",
            "--profile",
            "container-host",
        ];
        let plan = run(&[&base[..], &["--engine", engine, "--json"]].concat()).json();
        let mut texts = warnings(&plan, "GS803");
        texts.retain(|text| text.contains("CDI"));
        texts.join("\n")
    };
    insta::assert_snapshot!(plan("debian-12", "podman"), @"Podman 4.3.1 of Debian 12 (bookworm) does not read version 0.7.0 of CDI, in which NVIDIA Container Toolkit 1.20.0 may write the specification. If it does, containers of Podman get no GPUs. Podman 5.1.0 is the first version that reads it");
    insta::assert_snapshot!(plan("ubuntu-22.04", "podman"), @"Podman 3.4.4 of Ubuntu 22.04 LTS reads no CDI specification, so its containers get no GPUs: Podman 4.1.0 is the first version that does");
    insta::assert_snapshot!(plan("debian-12", "docker"), @"Docker 20.10.24 of Debian 12 (bookworm) reads no CDI specification; --gpus and --runtime nvidia work: Docker 25.0 is the first version that does");
    for (os, engine) in [
        ("debian-13", "podman"),
        ("ubuntu-24.04", "docker"),
        ("rocky-9", "podman"),
    ] {
        assert_eq!(plan(os, engine), "", "{os}");
    }
}
