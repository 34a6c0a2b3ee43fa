//! What costs a stranger nothing costs nobody anything: large, many and packed files, given to
//! every command that reads them, with little memory and an end to the processor's time.

use crate::common::{Ran, Tree};
use crate::images::tar;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Address space in KiB: little more than what gpusetup takes for an ordinary host, and what it may
/// take in all.
const MEMORY: &str = "450000";
/// Seconds of the processor. A build that is not optimised takes ten times as long as a release.
const PROCESSOR: &str = "100";

fn run(arguments: &[&str], input: Option<&Path>) -> Ran {
    run_with(arguments, input, &[])
}

fn run_with(arguments: &[&str], input: Option<&Path>, variables: &[(&str, &str)]) -> Ran {
    let mut command = Command::new("/bin/sh");
    command.args([
        "-c",
        "ulimit -v \"$1\"; ulimit -t \"$2\"; shift 2; exec \"$@\"",
        "sh",
        MEMORY,
        PROCESSOR,
    ]);
    command
        .arg(env!("CARGO_BIN_EXE_gpusetup"))
        .args(arguments)
        .env_clear()
        .env("GPUSETUP_TODAY", "2026-11-20");
    command.envs(variables.iter().copied());
    command.stdin(input.map_or_else(Stdio::null, |path| File::open(path).expect("a file").into()));
    let output = command.output().expect("sh runs");
    assert!(
        output.status.code().is_some(),
        "{arguments:?}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let ran = Ran::of(output);
    assert!(ran.code != 101, "{arguments:?}: {}", ran.err);
    ran
}

fn on(tree: &Tree, arguments: &[&str]) -> Ran {
    let root = tree.path().display().to_string();
    run(
        &arguments
            .iter()
            .copied()
            .chain(["--root", &root])
            .collect::<Vec<_>>(),
        None,
    )
}

/// The same where all looks at the tree may take so many milliseconds of the processor.
fn working(tree: &Tree, arguments: &[&str], work: u64) -> Ran {
    let (root, work) = (tree.path().display().to_string(), work.to_string());
    let arguments: Vec<_> = arguments.iter().copied().chain(["--root", &root]).collect();
    run_with(&arguments, None, &[("GPUSETUP_MAX_WORK_MS", &work)])
}

fn host() -> Tree {
    let tree = Tree::debian_12().gpu("0000:17:00.0", "20b2", None);
    for program in ["usr/bin/dockerd", "usr/bin/containerd", "usr/bin/crio"] {
        tree.write(program, "");
    }
    tree
}

const LOOKS: [&[&str]; 7] = [
    &["facts"],
    &["plan", "--profile", "container-host"],
    &["doctor"],
    &["list"],
    &["status"],
    &["prune", "--dry-run"],
    &["uninstall", "--all", "--dry-run"],
];

/// Just below what was read until it had a limit for its kind.
fn sparse(tree: &Tree, path: &str) {
    let path = tree.path().join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    File::create(path)
        .and_then(|file| file.set_len((256 << 20) - 1))
        .expect("a sparse file");
}

#[test]
fn large_files_in_every_folder_of_a_tree_cost_nothing_and_are_named() {
    let folders = [
        "etc/modprobe.d/%.conf",
        "etc/apt/sources.list.d/%.list",
        "etc/apt/preferences.d/%",
        "etc/apt/apt.conf.d/%",
        "etc/apt/trusted.gpg.d/%.gpg",
        "etc/cdi/%.yaml",
        "etc/profile.d/%.sh",
        "etc/ld.so.conf.d/%.conf",
        "etc/systemd/system/docker.service.d/%.conf",
        "etc/containerd/conf.d/%.toml",
        "etc/crio/crio.conf.d/%.conf",
        "var/lib/dpkg/info/%.list",
        "boot/loader/entries/%.conf",
    ];
    let tree = host();
    for folder in folders {
        (0..30).for_each(|n| sparse(&tree, &folder.replace('%', &n.to_string())));
    }
    for file in [
        "proc/modules",
        "etc/docker/daemon.json",
        "etc/containerd/config.toml",
        "etc/ld.so.cache",
        "etc/passwd",
        "etc/default/grub",
        "root/.bashrc",
        "usr/local/cuda-12.4/version.json",
        "var/lib/dpkg/status",
        "var/lib/gpusetup/result.json",
        "var/lib/gpusetup/journal",
        "var/log/kern.log",
    ] {
        sparse(&tree, file);
    }
    LOOKS.iter().for_each(|look| drop(on(&tree, look)));
    let facts = on(&tree, &["facts", "--json"]).json();
    let unread = facts["unreadable"].as_array().expect("a list");
    let is_named = |path: &str| unread.iter().any(|one| one.to_string().contains(path));
    assert!(
        is_named("/etc/modprobe.d/0.conf") && is_named("/etc/ld.so.cache"),
        "{unread:#?}"
    );
    assert!(
        unread
            .iter()
            .any(|one| one.to_string().contains("larger than 1 MiB")),
        "{unread:#?}"
    );
    let stderr = on(&tree, &["plan"]).err;
    assert!(
        stderr.contains("not read: /") && stderr.contains("many more files"),
        "{stderr}"
    );
}

/// What a check or a plan did not read is no reason for it to be content.
#[test]
fn what_was_not_read_is_said_by_doctor_and_plan() {
    let tree = host();
    let known = |look: &[&str]| {
        let ran = on(&tree, &[look, &["--json"]].concat());
        let answer = serde_json::from_str(&ran.out).unwrap_or(Value::Null);
        let found = answer["checks"]
            .as_array()
            .into_iter()
            .chain(answer["warnings"].as_array())
            .flatten();
        let found = found
            .filter(|one| one["id"] == "GS608" || one["check"] == "GS608")
            .map(Value::to_string);
        (ran.code, found.collect::<Vec<_>>().join(" "), ran.err)
    };
    assert!(known(&["doctor"]).1.contains("\"pass\""));
    assert_eq!(known(&["plan"]).1, "");
    sparse(&tree, "etc/modprobe.d/own.conf");
    let (_, found, _) = known(&["doctor"]);
    assert!(
        found.contains("\"warn\"") && found.contains("sudo ls -lS /") && found.contains("own.conf"),
        "{found}"
    );
    let (code, found, _) = known(&["plan"]);
    assert!(
        code == 0 && found.contains("/etc/modprobe.d/own.conf: it is larger than 1 MiB"),
        "{code} {found}"
    );
    // Too much together: whatever came after it was not read at all.
    (0..30).for_each(|n| tree.write(&format!("etc/modprobe.d/{n}.conf"), &"#\n".repeat(1 << 19)));
    let (code, found, _) = known(&["doctor"]);
    assert!(
        code == 20 && found.contains("\"fail\"") && found.contains("only a part of the host"),
        "{code} {found}"
    );
    let (code, _, stderr) = known(&["plan"]);
    assert!(
        code == 5
            && stderr.contains("only a part of the host was read")
            && stderr.contains("ls -lS "),
        "{code} {stderr}"
    );
}

/// Without the record of packages, those that are installed would be taken for none.
#[test]
fn no_plan_is_made_without_the_record_of_packages() {
    let tree = host();
    sparse(&tree, "var/lib/dpkg/status");
    for look in [&["plan"][..], &["list"], &["doctor"]] {
        let ran = on(&tree, look);
        let all = format!("{}{}", ran.out, ran.err);
        assert!(
            all.contains("/var/lib/dpkg/status: a record is longer than 8 MiB"),
            "{look:?}: {all}"
        );
        assert!(look != ["plan"] || ran.code == 5, "{}: {all}", ran.code);
    }
}

/// A server may have thousands of virtual functions of network cards.
#[test]
fn thousands_of_devices_do_not_hide_the_rest_of_a_machine() {
    let tree = host();
    for n in 0..8000 {
        let folder = format!(
            "sys/bus/pci/devices/{:04x}:{:02x}:{:02x}.{}",
            n >> 13,
            (n >> 8) & 31,
            (n >> 3) & 31,
            n & 7
        );
        for (file, text) in [
            ("vendor", "0x15b3\n"),
            ("device", "0x101e\n"),
            ("class", "0x020000\n"),
        ] {
            tree.write(&format!("{folder}/{file}"), text);
        }
    }
    let facts = on(&tree, &["facts", "--json"]).json();
    assert!(
        facts["unreadable"]
            .as_array()
            .expect("a list")
            .iter()
            .all(|one| one["limit"].is_null()),
        "{facts:#}"
    );
}

#[test]
fn files_that_are_small_alone_have_a_limit_together() {
    let tree = host();
    let text = "options nvidia a=1\n".repeat((1 << 20) / 19);
    (0..30).for_each(|n| tree.write(&format!("etc/modprobe.d/{n}.conf"), &text));
    LOOKS.iter().for_each(|look| drop(on(&tree, look)));
    let unread = on(&tree, &["facts", "--json"]).json()["unreadable"].to_string();
    assert!(
        unread.contains("16 MiB, the limit") && unread.contains("10000 settings"),
        "{unread}"
    );
    assert!(
        unread.contains("\"limit\":\"whole\"") && unread.contains("\"limit\":\"file\""),
        "{unread}"
    );
}

/// A value takes a hundred times its length in memory.
#[test]
fn short_files_of_many_values_cost_little() {
    let tree = host();
    let values = format!("a=[{}0]\n", "[[[0]]],".repeat(125_000));
    let tables = format!(
        "[a]\n{}",
        (0..6000)
            .map(|n| format!("x{n}{}=1\n", ".a".repeat(78)))
            .collect::<String>()
    );
    let containerd = "version=2\nimports=[\"/etc/containerd/conf.d/*.toml\"]\n";
    tree.write("etc/containerd/config.toml", containerd);
    for n in 0..14 {
        tree.write(
            &format!("etc/containerd/conf.d/{n}.toml"),
            &format!("version=2\n{values}"),
        );
        tree.write(&format!("etc/crio/crio.conf.d/{n}.conf"), &values);
    }
    tree.write("etc/crio/crio.conf", &tables);
    tree.write(
        "etc/docker/daemon.json",
        &format!("{{\"a\": [{}0]}}", "[[[0]]],".repeat(125_000)),
    );
    // An alias of aliases takes a hundred thousand times its length.
    let level =
        |last: &str, this: &str| format!("{this}: &{this} [{}]\n", format!("*{last},").repeat(10));
    let levels: String = ["a", "b", "c", "d", "e", "f"]
        .windows(2)
        .map(|two| level(two[0], two[1]))
        .collect();
    let specification = format!("kind: nvidia.com/gpu\na: &a [1,1,1,1,1,1,1,1,1,1]\n{levels}");
    (0..1000).for_each(|n| tree.write(&format!("etc/cdi/{n}.yaml"), &specification));
    for look in LOOKS {
        on(&tree, look);
    }
    let manifest = format!("{{\"a\":[{}0]}}", "[[[0]]],".repeat(1_900_000));
    let bundle = tree.path().join("bundle");
    fs::create_dir(&bundle).expect("made");
    fs::write(bundle.join("bundle.json"), manifest).expect("written");
    assert_eq!(
        run(&["bundle", "verify", &bundle.display().to_string()], None).code,
        10
    );
}

#[test]
fn of_a_long_kernel_log_the_end_is_read_which_is_said() {
    let tree = host();
    let first = "Nov 29 10:00:00 host kernel: [1.0] NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.\n";
    let rest = "Nov 29 10:00:01 host kernel: [2.0] nothing\n".repeat(400_000);
    tree.write("var/log/kern.log", &format!("{first}{rest}"));
    let ran = on(&tree, &["doctor"]);
    assert!(
        ran.err.contains("/var/log/kern.log") && ran.err.contains("only its last 16 MiB is read"),
        "{}",
        ran.err
    );
}

#[test]
fn many_names_cost_little() {
    let tree = host();
    let folder = tree.path().join("etc/modprobe.d");
    fs::create_dir_all(&folder).expect("made");
    let first = folder.join("0");
    fs::write(&first, "").expect("written");
    (0..20_000).for_each(|n| {
        fs::hard_link(
            &first,
            folder.join(format!("{n:05}{}.conf", "x".repeat(200))),
        )
        .expect("linked")
    });
    LOOKS.iter().for_each(|look| drop(on(&tree, look)));
    assert!(
        on(&tree, &["facts", "--json"]).json()["unreadable"]
            .to_string()
            .contains("/etc/modprobe.d")
    );
}

#[test]
fn a_log_of_any_bytes_takes_little_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    for noise in [
        &b"NVRM: a a a a a a a a\n"[..],
        b"a ",
        b"NVRM: Xid (PCI:0000:17:00): 79,,,,,,,,\n,,",
        b"NVRM: \xff\xff\n",
    ] {
        fs::write(&path, noise.repeat((16 << 20) / noise.len())).expect("written");
        run(
            &["doctor", "--kernel-log", path.to_str().expect("UTF-8")],
            None,
        );
    }
}

/// An archive of these files, packed.
fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&tar(files)).expect("written");
    gzip.finish().expect("ended")
}

const CONFIG: &str =
    r#"{"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/usr/bin"]}}"#;

/// An image of these layers in a manifest that names them so often.
fn image(layers: &[(&str, &[u8])], names: &[&str], images: usize) -> Vec<u8> {
    let one = json!({"Config": "c.json", "RepoTags": ["a:1"], "Layers": names});
    let manifest = Value::from(vec![one; images]).to_string();
    let files = [
        ("c.json", CONFIG.as_bytes()),
        ("manifest.json", manifest.as_bytes()),
    ];
    packed(&layers.iter().copied().chain(files).collect::<Vec<_>>())
}

struct Images(TempDir);

impl Images {
    fn check(&self, bytes: &[u8]) -> Ran {
        let path = self.0.path().join("image.tar.gz");
        fs::write(&path, bytes).expect("written");
        self.check_at(&path)
    }

    fn check_at(&self, path: &Path) -> Ran {
        let path = path.to_str().expect("UTF-8");
        run(
            &[
                "container",
                "check",
                path,
                "--driver",
                "550.54.15",
                "--gpu",
                "h100",
            ],
            None,
        )
    }
}

#[test]
fn archives_of_images_share_layers_and_have_few_of_everything() {
    let images = Images(tempfile::tempdir().expect("a folder"));
    let names: Vec<_> = (0..20_000)
        .map(|n| format!("opt/{n}/libcudart.so.12"))
        .collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    let layer = tar(&files);
    let one = [("l.tar", layer.as_slice())];
    // A hundred references to one layer are a hundred references, and no hundred layers.
    let runs = images.check(&image(&one, &["l.tar"; 100], 1));
    assert!(
        runs.code == 0 && runs.out.contains("runs on this driver"),
        "{}{}",
        runs.out,
        runs.err
    );
    assert!(
        images
            .check(&image(&one, &["l.tar"; 20_000], 1))
            .err
            .contains("more than 512 layers")
    );
    assert!(
        images
            .check(&image(&one, &["l.tar"], 2000))
            .err
            .contains("names 2000 images")
    );
    assert!(
        images
            .check(&image(&one, &["l.tar"; 100], 100))
            .err
            .contains("more files than images have")
    );
    assert!(
        images
            .check(&image(&one, &["l.tar"], 40_000))
            .err
            .contains("manifest.json in it is larger than 1 MiB")
    );
}

#[test]
fn files_and_what_removes_them_are_not_compared_one_by_one() {
    let images = Images(tempfile::tempdir().expect("a folder"));
    let count = 60_000;
    let (files, removed): (Vec<_>, Vec<_>) = (0..count)
        .map(|n| {
            (
                format!("opt/{n}/libcudart.so.12"),
                format!("opt/{}/.wh.libcudart.so.12", n + 1),
            )
        })
        .unzip();
    let layer = |names: &[String]| {
        tar(&names
            .iter()
            .map(|name| (name.as_str(), &b""[..]))
            .collect::<Vec<_>>())
    };
    let (files, removed) = (layer(&files), layer(&removed));
    let both = [("a.tar", files.as_slice()), ("b.tar", removed.as_slice())];
    let ran = images.check(&image(&both, &["a.tar", "b.tar"], 1));
    assert!(
        ran.code == 0 && ran.out.contains("opt/0/libcudart.so.12"),
        "the only one that is left: {}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn what_is_packed_twice_has_one_budget() {
    let images = Images(tempfile::tempdir().expect("a folder"));
    // 16 GiB of zeros in frames of 64 MiB, packed once more.
    let frame = zstd::encode_all(std::io::repeat(0).take(64 << 20), 1).expect("packed");
    let layer = zstd::encode_all(&frame.repeat(256)[..], 1).expect("packed");
    let ran = images.check(&image(&[("l.tar", &frame.repeat(256))], &["l.tar"], 1));
    assert!(
        ran.code == 10 && ran.err.contains("unpacks to more than"),
        "{}: {}",
        ran.code,
        ran.err
    );
    assert_ne!(images.check(&layer).code, 0);
}

/// Each name of one file would be read for as long as the file.
#[test]
fn a_layer_of_many_names_is_read_once() {
    let images = Images(tempfile::tempdir().expect("a folder"));
    let folder = images.0.path().join("image");
    fs::create_dir(&folder).expect("made");
    fs::write(folder.join("c.json"), CONFIG).expect("written");
    fs::write(folder.join("0"), tar(&[("opt/own/libcudart.so.12", b"")])).expect("written");
    // Once it is short enough to be read, with its hole; all names together are not.
    let file = File::options().write(true).open(folder.join("0"));
    file.and_then(|file| file.set_len(8 << 20))
        .expect("a sparse file");
    let names: Vec<_> = (0..500).map(|n| n.to_string()).collect();
    for (n, name) in names.iter().enumerate().skip(1) {
        let linked = match n % 2 {
            0 => fs::hard_link(folder.join("0"), folder.join(name)),
            _ => std::os::unix::fs::symlink("0", folder.join(name)),
        };
        linked.expect("linked");
    }
    let manifest = json!([{"Config": "c.json", "RepoTags": ["a:1"], "Layers": names}]).to_string();
    fs::write(folder.join("manifest.json"), manifest).expect("written");
    let ran = images.check_at(&folder);
    assert!(ran.out.contains("opt/own"), "{}{}", ran.out, ran.err);
}

#[test]
fn a_folder_of_an_image_is_not_left() {
    let images = Images(tempfile::tempdir().expect("a folder"));
    let (folder, outside) = (
        images.0.path().join("image"),
        images.0.path().join("secret.tar"),
    );
    fs::create_dir(&folder).expect("made");
    fs::write(&outside, tar(&[("opt/secret/libcudart.so.12", b"")])).expect("written");
    fs::write(folder.join("c.json"), CONFIG).expect("written");
    std::os::unix::fs::symlink(&outside, folder.join("link.tar")).expect("linked");
    std::os::unix::fs::symlink("../secret.tar", folder.join("up.tar")).expect("linked");
    for layer in [
        outside.to_str().expect("UTF-8"),
        "../secret.tar",
        "link.tar",
        "up.tar",
        "x/../../secret.tar",
    ] {
        let manifest =
            json!([{"Config": "c.json", "RepoTags": ["a:1"], "Layers": [layer]}]).to_string();
        fs::write(folder.join("manifest.json"), manifest).expect("written");
        let ran = images.check_at(&folder);
        assert!(
            ran.code != 0 && !format!("{}{}", ran.out, ran.err).contains("opt/secret"),
            "{layer}: {}",
            ran.err
        );
    }
    // A link within the folder is one of docker save's for a layer of several images.
    fs::write(
        folder.join("l.tar"),
        tar(&[("opt/own/libcudart.so.12", b"")]),
    )
    .expect("written");
    std::os::unix::fs::symlink("l.tar", folder.join("own.tar")).expect("linked");
    let manifest =
        json!([{"Config": "c.json", "RepoTags": ["a:1"], "Layers": ["own.tar"]}]).to_string();
    fs::write(folder.join("manifest.json"), manifest).expect("written");
    assert!(images.check_at(&folder).out.contains("opt/own"));
    // And a sparse file is no layer of any size.
    File::create(folder.join("own.tar"))
        .and_then(|file| file.set_len(1 << 40))
        .expect("a sparse file");
    fs::remove_file(folder.join("l.tar"))
        .and_then(|()| File::create(folder.join("l.tar"))?.set_len(1 << 40))
        .expect("a sparse file");
    assert!(images.check_at(&folder).err.contains("sparse"));
}

#[test]
fn a_long_text_is_explained_by_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let last = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n";
    for noise in [
        "NVIDIA-SMI has failed because it couldn't communicate ",
        "CUDA error: ",
        "x",
        "\n",
        "NVRM: Xid (PCI:0000:01:00): 13\n",
    ] {
        // In steps of a line: it begins with one.
        let text = noise.repeat((12 << 20) / noise.len()) + "\n" + last;
        fs::write(&path, text).expect("written");
        for (argument, input) in [
            ("-", Some(path.as_path())),
            (path.to_str().expect("UTF-8"), None),
        ] {
            let ran = run(&["explain", argument], input);
            assert_eq!(ran.code, 0, "{}", ran.err);
            assert!(
                ran.err.contains("only its last 1 MiB is read"),
                "{}",
                ran.err
            );
            assert!(ran.out.contains("79"), "{}", ran.out);
        }
    }
    assert!(
        !run(&["explain", "cuda error 700"], None)
            .err
            .contains("MiB")
    );
}

#[test]
fn files_of_strangers_are_refused_before_they_are_read_into_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    let name = path.to_str().expect("UTF-8");
    let commands: [&[&str]; 8] = [
        &["plan", "--facts", name],
        &["plan", "--lspci", name],
        &["plan", "--gpu", "h100", "--os", "debian:12", "--lock", name],
        &["apply", name, "--root", "/nonexistent", "--yes"],
        &["doctor", name],
        &["doctor", "--kernel-log", name, "--facts", name],
        &["mig", "plan", "--file", name],
        &["facts", "--config", name],
    ];
    let objects = format!("[{}0]", "{\"\":0},".repeat(2 << 20));
    let deep = "[".repeat(1 << 20);
    for content in [
        objects,
        deep,
        "0,".repeat(8 << 20),
        "3b:00.0 0302: 10de:20b0\n".repeat(100_000),
    ] {
        fs::write(&path, content).expect("written");
        for command in commands {
            let ran = run(command, None);
            assert_ne!(ran.code, 0, "{command:?}");
        }
    }
    File::create(&path)
        .and_then(|file| file.set_len(1 << 40))
        .expect("a sparse file");
    for command in commands {
        assert_ne!(run(command, None).code, 0, "{command:?}");
    }
    let facts = run(&["plan", "--facts", name], None);
    assert!(facts.err.contains("longer than"), "{}", facts.err);
}

/// Has so many kernels' modules, and their images, at links to two places.
fn kernels(tree: &Tree, number: usize) {
    for n in 0..number {
        let release = format!("6.1.0-{}-amd64", n + 30);
        tree.write(&format!("lib/modules/{release}/modules.builtin"), "");
        tree.link(&format!("lib/modules/{release}/updates"), "/opt/modules");
        tree.link(&format!("boot/initrd.img-{release}"), "/opt/image");
    }
}

fn write(tree: &Tree, path: &str, bytes: &[u8]) {
    let path = tree.path().join(path);
    fs::create_dir_all(path.parent().expect("a folder"))
        .and_then(|()| fs::write(path, bytes))
        .expect("written");
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    liblzma::read::XzEncoder::new(bytes, 0)
        .read_to_end(&mut packed)
        .expect("packed");
    packed
}

/// An ELF file of so many sections, each with another part of a long name.
fn of_long_names(sections: usize) -> Vec<u8> {
    const LONG: usize = 4096;
    const SHARED_BY: usize = 600;
    let names = [&[b'A'; LONG - 1][..], b"\0"]
        .concat()
        .repeat(sections / SHARED_BY + 2);
    let names_at = 64 + 64 * sections as u64;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0\x01\0\0\0".to_vec();
    file.extend([0, 0, 64_u64].map(u64::to_le_bytes).concat());
    file.extend(0_u32.to_le_bytes());
    file.extend([64_u16, 0, 0, 64, 0, 1].map(u16::to_le_bytes).concat());
    for n in 0..sections {
        let (kind, at, size) = match n {
            0 => (0, 0, sections as u64),
            1 => (3, names_at, names.len() as u64),
            _ => (1, names_at, 16),
        };
        let name = if n == 0 {
            0
        } else {
            n / SHARED_BY * LONG + 1 + n % SHARED_BY
        };
        file.extend([name as u32, kind].map(u32::to_le_bytes).concat());
        file.extend([0, 0, at, size, 0, 1, 0].map(u64::to_le_bytes).concat());
    }
    file.extend(names);
    file
}

#[test]
fn names_of_sections_are_not_kept() {
    let tree = host();
    let file = of_long_names(1 << 18);
    kernels(&tree, 10);
    write(&tree, "opt/modules/nvidia.ko", &file);
    write(&tree, "usr/lib/x86_64-linux-gnu/libc.so.6", &file);
    let unread = on(&tree, &["facts", "--json"]).json()["unreadable"].to_string();
    assert!(
        unread.contains("nvidia.ko names no version") && unread.contains("has no version banner"),
        "{unread}"
    );
}

/// What GS608 says of a tree, and what standard error does.
fn unread(tree: &Tree) -> (String, String) {
    said_unread(on(tree, &["doctor", "--json"]))
}

fn said_unread(ran: Ran) -> (String, String) {
    let report: Value = serde_json::from_str(&ran.out).expect("a report");
    let checks = report["checks"].as_array().expect("checks").iter();
    (
        checks
            .filter(|one| one["id"] == "GS608")
            .map(Value::to_string)
            .collect(),
        ran.err,
    )
}

const ENOUGH: &str = "as much work as a look may take";

/// What `facts` could not read of a tree. All looks at it may take so many milliseconds of the
/// processor.
fn unreadable(tree: &Tree, work: u64) -> String {
    working(tree, &["facts", "--json"], work).json()["unreadable"].to_string()
}

#[test]
fn what_is_unpacked_and_summed_has_one_budget() {
    let tree = host();
    kernels(&tree, 100);
    write(&tree, "opt/modules/nvidia.ko.zst", b"packed");
    let module = xz(&noise(9 << 20));
    ["peermem", "drm"]
        .iter()
        .for_each(|name| write(&tree, &format!("opt/modules/nvidia-{name}.ko.xz"), &module));
    let unread = unreadable(&tree, 700);
    assert!(
        unread.contains(ENOUGH) && unread.contains("\"limit\":\"file\""),
        "{unread}"
    );
    // Sparse files, which are too small to be refused for that.
    let tree = host();
    for n in 0..60 {
        let path = tree.path().join(format!(
            "usr/lib/x86_64-linux-gnu/libcudnn_graph.so.9.{n}.0"
        ));
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        File::create(path)
            .and_then(|file| file.set_len(64 << 20))
            .expect("a sparse file");
    }
    let unread = unreadable(&tree, 700);
    assert!(
        unread.contains(ENOUGH) && unread.contains("libcudnn_graph.so.9."),
        "{unread}"
    );
}

/// Bytes of seven bits that nothing packs further.
fn noise(length: usize) -> Vec<u8> {
    let mut last = 1_u64;
    let mut next = || {
        last = last
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (last >> 57) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// The beginning of a file in a cpio archive.
fn entry(name: &str, size: usize) -> Vec<u8> {
    let fields = [
        1,
        0o100_644,
        0,
        0,
        1,
        0,
        size,
        0,
        0,
        0,
        0,
        name.len() + 1,
        0,
    ]
    .map(|n| format!("{n:08x}"))
    .concat();
    let mut bytes = format!("070701{fields}{name}\0").into_bytes();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[test]
fn images_of_many_kernels_have_one_budget() {
    let tree = host();
    kernels(&tree, 12);
    let size = 8 << 20;
    write(
        &tree,
        "opt/image",
        &xz(&[entry("x", size), noise(size), entry("TRAILER!!!", 0)].concat()),
    );
    // One image is read once, however many names it has.
    assert!(
        !working(&tree, &["doctor", "--json"], 2000)
            .err
            .contains(ENOUGH)
    );
    for n in 0..12 {
        let path = tree
            .path()
            .join(format!("boot/initrd.img-6.1.0-{}-amd64", n + 30));
        fs::remove_file(&path)
            .and_then(|()| fs::copy(tree.path().join("opt/image"), path))
            .expect("copied");
    }
    let ran = working(&tree, &["doctor", "--json"], 700);
    // The newest is the first that is read.
    assert!(
        ran.err.contains(ENOUGH) && !ran.err.contains("initrd.img-6.1.0-41-amd64"),
        "{}",
        ran.err
    );
}

#[test]
fn names_in_images_are_few_and_short() {
    let tree = host();
    kernels(&tree, 100);
    let long = ["d".repeat(250).as_str(); 16].join("/");
    let files = (0..1000).flat_map(|n| entry(&format!("{long}/{n:04}/nouveau.ko"), 0));
    write(
        &tree,
        "opt/image",
        &files.chain(entry("TRAILER!!!", 0)).collect::<Vec<_>>(),
    );
    for n in 0..50 {
        let path = tree
            .path()
            .join(format!("boot/initrd.img-6.1.0-{}-amd64", n + 30));
        fs::remove_file(&path)
            .and_then(|()| fs::copy(tree.path().join("opt/image"), path))
            .expect("copied");
    }
    let (warnings, _) = unread(&tree);
    assert!(
        warnings.contains("only its first 8 modules are named"),
        "{warnings}"
    );
    let report = tree.path().join("report");
    on(
        &tree,
        &["doctor", "--report", report.to_str().expect("UTF-8")],
    );
    assert!(fs::metadata(&report).expect("written").len() < 1 << 20);
}

/// A link below a name to a folder of the tree, behind so many links that each lead astray for as
/// long as they can.
fn behind_links(tree: &Tree, name: &str, folder: &str) {
    fs::create_dir_all(tree.path().join("z")).expect("made");
    let mut last = folder.to_owned();
    for n in 0..37 {
        let link = format!("l{n}");
        tree.link(&link, &("z/../".repeat(800) + &last));
        last = link;
    }
    tree.link(name, &("z/../".repeat(800) + &last));
}

#[test]
fn paths_behind_long_links_are_work() {
    let tree = host();
    kernels(&tree, 200);
    fs::rename(tree.path().join("lib"), tree.path().join("own")).expect("moved");
    behind_links(&tree, "lib", "own");
    let (warnings, _) = said_unread(working(&tree, &["doctor", "--json"], 500));
    assert!(
        warnings.contains("\"fail\"") && warnings.contains("only a part of the host was read"),
        "{warnings}"
    );
    assert!(warnings.contains(ENOUGH), "{warnings}");
    let plan = working(&tree, &["plan", "--profile", "driver"], 500);
    assert!(
        plan.code != 0 && plan.err.contains(ENOUGH),
        "{}: {}",
        plan.code,
        plan.err
    );
}

#[test]
fn homes_behind_long_links_are_work() {
    let tree = host_with_toolkit();
    let users = (0..1000).map(|n| format!("u{n}:x:{}:1::/home/h{n}:/bin/sh\n", 1000 + n));
    tree.write("etc/passwd", &users.collect::<String>());
    (0..1000)
        .for_each(|n| fs::create_dir_all(tree.path().join(format!("own/h{n}"))).expect("made"));
    behind_links(&tree, "home", "own");
    let ran = working(&tree, &["doctor"], 2000);
    assert!(
        ran.err.contains("not read: /home/h") && ran.err.contains(ENOUGH),
        "{}",
        ran.err
    );
    tree.write("var/lib/dpkg/status", "");
    let ran = working(&tree, &["uninstall", "--cuda", "12.4", "--dry-run"], 2000);
    let words = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(ENOUGH), "{words} {}", ran.err);
}

#[test]
fn very_many_kernels_are_not_looked_at() {
    let tree = host();
    tree.write("own/modules.builtin", "");
    (0..20_000).for_each(|n| tree.link(&format!("lib/modules/{n}"), "/own"));
    let facts = on(&tree, &["facts", "--json"]).json();
    let kernels = facts["kernels"]["installed"].as_array().expect("kernels");
    assert_eq!(
        (kernels.len(), &kernels[255]["release"]),
        (256, &json!("19999"))
    );
    assert!(
        facts["unreadable"]
            .to_string()
            .contains("only its 256 newest kernels"),
        "{}",
        facts["unreadable"]
    );
}

/// An ordinary host takes a small part of the time, even in a build that is not optimised.
#[test]
fn an_ordinary_host_is_wholly_read() {
    let tree = host_with_toolkit();
    for n in 0..20 {
        let release = format!("6.1.0-{}-amd64", n + 40);
        for file in [
            "modules.builtin",
            "modules.dep",
            "build/Makefile",
            "build/.config",
            "updates/dkms/nvidia.ko",
        ] {
            tree.write(&format!("lib/modules/{release}/{file}"), "");
        }
        let image = [entry("etc/modprobe.d/x.conf", 0), entry("TRAILER!!!", 0)].concat();
        write(&tree, &format!("boot/initrd.img-{release}"), &image);
    }
    for look in [&["facts"][..], &["doctor"], &["plan"]] {
        let ran = working(&tree, look, 1500);
        assert!(!ran.err.contains(ENOUGH), "{look:?}: {}", ran.err);
    }
}

/// A host whose default toolkit gpusetup set, so that homes are searched for others.
fn host_with_toolkit() -> Tree {
    let tree = host();
    tree.write("usr/local/cuda-12.4/bin/nvcc", "");
    tree.write(
        "usr/local/cuda-12.4/version.json",
        r#"{"cuda": {"version": "12.4.1"}}"#,
    );
    tree.link("usr/local/cuda", "cuda-12.4");
    tree.write("etc/profile.d/gpusetup-cuda.sh", "");
    tree.write("etc/ld.so.conf.d/gpusetup-cuda.conf", "");
    tree
}

#[test]
fn a_home_of_many_users_and_files_is_read_once() {
    let tree = host_with_toolkit();
    let users: String = (0..1000)
        .map(|n| format!("u{n}:x:{}:1::/home/all:/bin/sh\n", 1000 + n))
        .collect();
    let user = rustix::process::geteuid().as_raw();
    tree.write(
        "etc/passwd",
        &format!("{users}me:x:{user}:1::/home/all:/bin/sh\n"),
    );
    (0..7000).for_each(|n| tree.write(&format!("home/all/.config/fish/conf.d/{n}.fish"), ""));
    LOOKS.iter().for_each(|look| drop(on(&tree, look)));
    let ran = on(&tree, &["uninstall", "--all", "--dry-run"]);
    assert!(
        ran.out.len() + ran.err.len() < 100_000,
        "{}",
        ran.out.len() + ran.err.len()
    );
}

#[test]
fn large_homes_and_many_people_are_no_finding() {
    let tree = host_with_toolkit();
    let user = rustix::process::geteuid().as_raw();
    let people: String = (0..1500)
        .map(|n| format!("u{n}:x:{}:1::/home/{n}:/bin/sh\n", 1000 + n))
        .collect();
    tree.write(
        "etc/passwd",
        &format!("ann:x:{user}:1::/home/ann:/bin/sh\n{people}"),
    );
    tree.write("home/ann/.bashrc", &"#\n".repeat(150 << 10));
    let (warnings, error) = unread(&tree);
    assert!(warnings.contains("\"pass\""), "{warnings}");
    assert!(
        error.contains("not read: /etc/passwd") && error.contains("nor 1 more file"),
        "{error}"
    );
    tree.write("var/lib/dpkg/status", "");
    let removed = on(&tree, &["uninstall", "--cuda", "12.4", "--dry-run"]);
    let words = removed.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let why = "/home/ann/.bashrc: it is larger than 256 KiB, the limit for a home";
    assert!(
        words.contains(why) && words.contains("its first 1000 people"),
        "{words} {}",
        removed.err
    );
}
