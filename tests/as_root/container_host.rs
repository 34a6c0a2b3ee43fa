//! A container host with the real Docker and the real Podman of Debian 13, and packages made here
//! in the place of NVIDIA's container toolkit, from a repository that a key made here signs: the
//! files are merged, dockerd reads them, containers see the devices, and a rollback gives every
//! byte back.

use crate::host::tree::differences;
use crate::host::{Host, Kept, RECORDS, Ran, Server, gpusetup, machine, script, text, timed};
use crate::repository::publish;
use crate::signer::{self, Pinned, Signer};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The repository's folder below a server, and the place of its key.
const BELOW: &str = "libnvidia-container/stable/deb/amd64";
const KEY_FILE: &str = "libnvidia-container/gpgkey";
const PINNED: Pinned = Pinned {
    id: "libnvidia-container",
    fingerprint: "C95B321B61E88C1809C4F759DDCAE044F796ECB0",
};
const VERSION: &str = "1.20.0-1";
const DAEMON: &str = "/etc/docker/daemon.json";
/// As an administrator has written it.
const THEIRS: &str = "{\n\t\"log-driver\": \"json-file\",\n\t\"runtimes\": {\"crun\": {\"path\": \"/usr/bin/crun\"}},\n\t\"debug\": false\n}\n";
/// What installs and removes of packages leaves differently, without regard to gpusetup.
const OF_PACKAGES: &[&str] = &[
    "etc/gshadow-",
    "etc/group-",
    "etc/.pwd.lock",
    "var/lib/systemd",
];

/// What nvidia-ctk would write for two devices. They are null devices here, which every machine
/// has.
const SPECIFICATION: &str = r#"{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "all", "containerEdits": {"deviceNodes": [
    {"path": "/dev/nvidia0", "hostPath": "/dev/null", "type": "c", "major": 1, "minor": 3},
    {"path": "/dev/nvidiactl", "hostPath": "/dev/zero", "type": "c", "major": 1, "minor": 5}]}}]}"#;

/// A runtime that says what it was asked and does as runc does.
const RUNTIME: &str =
    "#!/bin/sh\necho \"$*\" >>/var/log/runtime-asked\nexec /usr/sbin/runc \"$@\"\n";

/// Debian 13 with both engines, made once.
fn engines() -> Kept {
    let base = timed("base root", || script("base", &["trixie"]));
    Kept::host(
        "container-engines",
        &base,
        || Host::of("container-engines", Path::new(&base)),
        |host| {
            let packages =
                "docker.io docker-cli podman runc netavark uidmap iptables busybox-static";
            host.ask(&format!("apt-get -qq update && apt-get -qq -y install --no-install-recommends {packages} >&2"));
            // The lists of Debian take apt long, and the archive of this test is another one.
            host.ask("rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*; apt-get -qq update");
        },
    )
}

/// The toolkit's four packages.
fn packages(folder: &Path) {
    for name in [
        "nvidia-container-toolkit",
        "nvidia-container-toolkit-base",
        "libnvidia-container-tools",
        "libnvidia-container1",
    ] {
        let tree = tempfile::tempdir().expect("a folder");
        let put = |path: &str, content: &str, mode: u32| {
            let at = tree.path().join(path);
            fs::create_dir_all(at.parent().expect("below the tree")).expect("made");
            fs::write(&at, content).expect("written");
            fs::set_permissions(&at, fs::Permissions::from_mode(mode)).expect("ours");
        };
        let depends = match name {
            "nvidia-container-toolkit" => {
                format!(
                    "Depends: nvidia-container-toolkit-base (= {VERSION}), libnvidia-container-tools (= {VERSION})\n"
                )
            }
            "libnvidia-container-tools" => format!("Depends: libnvidia-container1 (= {VERSION})\n"),
            _ => String::new(),
        };
        if name == "nvidia-container-toolkit-base" {
            put(
                "usr/bin/nvidia-ctk",
                "#!/bin/sh\necho 'NVIDIA Container Toolkit CLI version 1.20.0'\n",
                0o755,
            );
            put("usr/bin/nvidia-container-runtime", RUNTIME, 0o755);
            let install = "[Install]\nWantedBy=multi-user.target\n";
            put(
                "usr/lib/systemd/system/nvidia-cdi-refresh.path",
                &format!("[Path]\nPathChanged=/usr/bin/nvidia-ctk\n{install}"),
                0o644,
            );
            put(
                "usr/lib/systemd/system/nvidia-cdi-refresh.service",
                &format!("[Service]\nType=oneshot\nExecStart=/bin/true\n{install}"),
                0o644,
            );
        }
        let control = format!(
            "Package: {name}\nVersion: {VERSION}\nArchitecture: amd64\nMaintainer: nobody <nobody@example.org>\n{depends}Description: a test\n"
        );
        put("DEBIAN/control", &control, 0o644);
        machine("chmod", &["-R", "go-w", text(tree.path())]);
        fs::set_permissions(tree.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        let file = folder.join(format!("{name}_{VERSION}_amd64.deb"));
        machine(
            "dpkg-deb",
            &[
                "--root-owner-group",
                "-Znone",
                "--build",
                text(tree.path()),
                text(&file),
            ],
        )
        .succeeds();
    }
}

/// Docker's daemon in the host, until it is dropped.
struct Daemon(Child);

impl Daemon {
    const SOCKET: &str = "/run/test-docker.sock";

    fn of(host: &Host) -> Self {
        let options = [
            "--iptables=false",
            "--ip6tables=false",
            "--bridge=none",
            "--storage-driver=vfs",
            "--exec-root=/run/test-docker",
        ];
        let files = [
            "--data-root=/var/cache/test-docker",
            "--pidfile=/run/test-docker.pid",
        ];
        let mut command = Command::new("chroot");
        command.arg(host.root()).args([
            "/usr/bin/env",
            "-i",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "DOCKER_RAMDISK=1",
            "/usr/sbin/dockerd",
        ]);
        command
            .args(options)
            .args(files)
            .arg(format!("--host=unix://{}", Self::SOCKET));
        let log = fs::File::create(host.path("/run/test-docker.log")).expect("a log");
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("dockerd starts");
        let daemon = Self(child);
        let until = Instant::now() + Duration::from_secs(60);
        while daemon.docker(host, "version").code != Some(0) {
            let log = || fs::read_to_string(host.path("/run/test-docker.log")).unwrap_or_default();
            assert!(Instant::now() < until, "{}", log());
            std::thread::sleep(Duration::from_millis(100));
        }
        daemon
    }

    fn docker(&self, host: &Host, arguments: &str) -> Ran {
        host.sh(&format!("docker -H unix://{} {arguments}", Self::SOCKET))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        machine("kill", &[&self.0.id().to_string()]);
        let _ = self.0.wait();
    }
}

/// What containers need of a host that is a folder: cgroups.
fn with_cgroups(host: &Host) {
    fs::create_dir_all(host.path("/sys/fs/cgroup")).expect("made");
    machine(
        "mount",
        &[
            "--rbind",
            "/sys/fs/cgroup",
            text(&host.path("/sys/fs/cgroup")),
        ],
    )
    .succeeds();
}

/// An image of one program.
const IMAGE: &str =
    "mkdir -p /tmp/image/bin /tmp/image/dev && cp /bin/busybox /tmp/image/bin/busybox";

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn containers_see_the_devices_until_it_is_rolled_back() {
    let served = tempfile::tempdir().expect("a folder");
    let folder = served.path().join(BELOW);
    fs::create_dir_all(&folder).expect("made");
    packages(&folder);
    let ours = Signer::new("ours");
    fs::write(served.path().join(KEY_FILE), ours.public_key()).expect("written");
    publish(&folder, &ours);
    let server = Server::of(served.path());
    let facts = tempfile::tempdir().expect("a folder");
    let known = signer::database(facts.path(), PINNED, &[&ours.fingerprint]);
    let kept = engines();
    let host = kept.clone_as("containers");
    // Kubernetes uses containerd here, with the file of Debian's package.
    let prepare = "useradd alice && mkdir -p /etc/docker && touch /usr/bin/kubelet && echo '# by hand' >>/etc/containerd/config.toml";
    host.ask(prepare);
    let root = host.root();
    let call = |arguments: &[&str]| -> Ran {
        let (verb, rest) = arguments.split_first().expect("a verb");
        gpusetup(
            [*verb, "--root", text(&root), "--database", text(&known)]
                .into_iter()
                .chain(rest.iter().copied()),
        )
    };
    let wish = [
        "--profile",
        "container-host",
        "--driver",
        "none",
        "--docker-user",
        "alice",
        "--mirror",
        &server.url,
    ];
    let apply = || call(&[&["apply", "--yes", "--accept-eula"], &wish[..]].concat());

    // A file that Docker itself refuses: nothing is changed.
    let broken = "{\n  // a mirror\n  \"debug\": false\n}\n";
    fs::write(host.path(DAEMON), broken).expect("written");
    let before = host.clone_as("broken");
    let ran = apply();
    assert!(
        ran.code == Some(5) && ran.err.contains("line 2, column 3"),
        "{ran:?}"
    );
    assert_eq!(
        fs::read_to_string(host.path(DAEMON)).expect("there"),
        broken
    );
    assert_ne!(
        host.sh("dockerd --validate").code,
        Some(0),
        "Docker would not read it"
    );
    assert_eq!(differences(&before.root(), &root, RECORDS), [""; 0]);
    drop(before);

    // The administrator's own file, with another mode.
    fs::write(host.path(DAEMON), THEIRS).expect("written");
    fs::set_permissions(host.path(DAEMON), fs::Permissions::from_mode(0o600)).expect("ours");
    let before = kept.clone_as("before");
    before.ask(prepare);
    fs::write(before.path(DAEMON), THEIRS).expect("written");
    fs::set_permissions(before.path(DAEMON), fs::Permissions::from_mode(0o600)).expect("ours");

    // A plan that is older than the file is not carried out.
    let plan = facts.path().join("plan.json");
    call(&[&["plan", "--out", text(&plan)], &wish[..]].concat()).succeeds();
    fs::write(host.path(DAEMON), THEIRS.replace("false", "true")).expect("written");
    let ran = call(&["apply", text(&plan), "--yes", "--accept-eula"]);
    assert!(
        ran.code != Some(0) && ran.err.contains("has changed since the plan was made"),
        "{ran:?}"
    );
    call(&["rollback", "--yes"]);
    fs::write(host.path(DAEMON), THEIRS).expect("written");

    apply().succeeds();
    let merged = fs::read_to_string(host.path(DAEMON)).expect("there");
    assert!(
        merged.starts_with("{\n\t\"log-driver\": \"json-file\",\n") && merged.contains("crun"),
        "{merged}"
    );
    assert!(
        merged.contains("\"cdi\": true"),
        "Docker 26 reads CDI specifications only if told to: {merged}"
    );
    assert_eq!(host.ask(&format!("stat -c %a {DAEMON}")), "600");
    host.ask("dockerd --validate 2>&1");
    let config = "/etc/containerd/config.toml";
    let theirs = fs::read_to_string(before.path(config)).expect("there");
    let after = fs::read_to_string(host.path(config)).expect("there");
    assert!(
        theirs.lines().all(|line| after.lines().any(|l| l == line)),
        "{after}"
    );
    let dumped = host.ask("containerd config dump");
    for part in [
        "containerd.runtimes.nvidia]",
        "containerd.runtimes.runc]",
        "enable_cdi = true",
        "bin_dir = \"/usr/lib/cni\"",
    ] {
        assert!(dumped.contains(part), "{part}: {dumped}");
    }
    assert!(
        dumped.contains("BinaryName = \"/usr/bin/nvidia-container-runtime\""),
        "{dumped}"
    );
    assert_eq!(host.ask("id -nG alice"), "alice docker");
    let versions = host.ask("dpkg-query -W -f '${Version}\\n' '*nvidia-container*' | sort -u");
    assert_eq!(versions, VERSION);
    for unit in ["nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service"] {
        assert_eq!(host.ask(&format!("systemctl is-enabled {unit}")), "enabled");
    }
    // A second time there is nothing to do.
    let again = call(&[&["plan", "--exit-code"], &wish[..]].concat());
    assert_eq!(again.code, Some(0), "{again:?}");

    containers_run(&host);
    the_toolkit_goes_alone(&host, &before, &known);

    call(&["rollback", "--yes"]).succeeds();
    assert_eq!(
        fs::read_to_string(host.path(DAEMON)).expect("there"),
        THEIRS
    );
    assert_eq!(host.ask(&format!("stat -c %a {DAEMON}")), "600");
    assert_eq!(host.ask("id -nG alice"), "alice");
    assert_eq!(
        differences(&before.root(), &root, &[RECORDS, OF_PACKAGES].concat()),
        [""; 0]
    );
}

/// Removes the toolkit alone, from a clone, and brings it back.
fn the_toolkit_goes_alone(host: &Host, before: &Host, known: &Path) {
    let own = host.clone_as("without-toolkit");
    let root = own.root();
    let call = |arguments: &[&str]| -> Ran {
        let (verb, rest) = arguments.split_first().expect("a verb");
        gpusetup(
            [*verb, "--root", text(&root), "--database", text(known)]
                .into_iter()
                .chain(rest.iter().copied()),
        )
    };
    own.ask("mkdir -p /etc/cdi && echo 'kind: nvidia.com/gpu' >/etc/cdi/nvidia.yaml");
    let shown = call(&["uninstall", "--container-toolkit", "--dry-run"])
        .succeeds()
        .out;
    assert!(
        shown.contains("-    \t\t\"nvidia\"") || shown.contains("\"nvidia\": {"),
        "{shown}"
    );
    call(&["uninstall", "--container-toolkit", "--yes"]).succeeds();
    assert_eq!(fs::read_to_string(own.path(DAEMON)).expect("there"), THEIRS);
    assert_eq!(own.ask(&format!("stat -c %a {DAEMON}")), "600");
    // alice stays a member of the engine's group.
    let of_alice = ["etc/group", "etc/gshadow", "etc/cdi"];
    assert_eq!(
        differences(
            &before.root(),
            &root,
            &[RECORDS, OF_PACKAGES, &of_alice].concat()
        ),
        [""; 0]
    );
    let again = call(&["uninstall", "--container-toolkit", "--yes"]).succeeds();
    assert!(
        again.out.contains("Nothing to remove") || again.err.contains("Nothing to remove"),
        "{again:?}"
    );
    call(&["rollback", "--yes"]).succeeds();
    assert_eq!(
        differences(
            &host.root(),
            &root,
            &[RECORDS, OF_PACKAGES, &["etc/cdi"]].concat()
        ),
        [""; 0]
    );

    // What was changed since stays.
    let merged = fs::read_to_string(own.path(DAEMON)).expect("there");
    fs::write(own.path(DAEMON), merged.replace("false", "true")).expect("written");
    call(&["uninstall", "--container-toolkit", "--yes"]).succeeds();
    let left = fs::read_to_string(own.path(DAEMON)).expect("there");
    assert!(
        left.contains("\"debug\": true") && left.contains("crun") && !left.contains("nvidia"),
        "{left}"
    );
    assert!(!left.contains("cdi"), "{left}");
    own.ask("dockerd --validate 2>&1");
}

/// Runs containers with each engine, in a clone that goes with what they leave.
fn containers_run(host: &Host) {
    let own = host.clone_as("running");
    with_cgroups(&own);
    own.ask(IMAGE);
    own.ask("mkdir -p /etc/cdi");
    fs::write(own.path("/etc/cdi/nvidia.json"), SPECIFICATION).expect("written");
    let limits = "--ulimit nofile=1000:1000 --ulimit nproc=1000:1000";
    own.ask("tar -C /tmp/image -c . | podman --storage-driver=vfs import - tiny:1 2>&1");
    let podman = |more: &str| {
        own.sh(&format!("podman --storage-driver=vfs --runtime runc --cgroup-manager=cgroupfs run --rm --network=none {limits} {more}"))
    };
    let seen =
        podman("--device nvidia.com/gpu=all tiny:1 /bin/busybox ls -d /dev/nvidia0 /dev/nvidiactl")
            .succeeds();
    assert_eq!(seen.out, "/dev/nvidia0\n/dev/nvidiactl\n");
    assert_ne!(
        podman("tiny:1 /bin/busybox ls /dev/nvidia0").code,
        Some(0),
        "not without the request"
    );

    let daemon = Daemon::of(&own);
    let docker = |arguments: &str| daemon.docker(&own, arguments);
    own.ask(&format!(
        "tar -C /tmp/image -c . | docker -H unix://{} import - tiny:1",
        Daemon::SOCKET
    ));
    let ls = "tiny:1 /bin/busybox ls -d /dev/nvidia0 /dev/nvidiactl";
    let seen = docker(&format!(
        "run --rm --network=none --device nvidia.com/gpu=all {ls}"
    ))
    .succeeds();
    assert_eq!(seen.out, "/dev/nvidia0\n/dev/nvidiactl\n");
    // dockerd asks every runtime for its features when it starts.
    let asked = || fs::read_to_string(own.path("/var/log/runtime-asked")).unwrap_or_default();
    assert!(!asked().contains(" create "), "{}", asked());
    docker("run --rm --network=none --runtime nvidia tiny:1 /bin/busybox true").succeeds();
    assert!(asked().contains(" create "), "{}", asked());
    let runtimes = docker("info --format '{{json .Runtimes}}'").succeeds().out;
    // The features of daemon.json are loaded, too.
    let folders = docker("info --format '{{json .CDISpecDirs}}'")
        .succeeds()
        .out;
    assert!(folders.contains("/etc/cdi"), "{folders}");
    assert!(
        runtimes.contains("/usr/bin/crun")
            && runtimes.contains("/usr/bin/nvidia-container-runtime"),
        "{runtimes}"
    );
}
