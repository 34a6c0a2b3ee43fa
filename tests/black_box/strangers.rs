//! What strangers hand to gpusetup: files that are none, plans and bundles of others, facts and
//! trees with texts that would move a cursor or become a line of a script. What needs a second
//! user, or changes a tree, takes root:
//!     cargo test --test black_box -- --ignored strangers::

use crate::common::{Ran, Tree, program, run, run_with_input};
use gpusetup::operation::{Download, Operation, Remove, Run, Service, WriteFile};
use gpusetup::plan::Plan;
use serde_json::Value;
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Nothing that is refused may take longer, on however busy a machine.
const AT_ONCE: Duration = Duration::from_secs(20);
/// A user that owns nothing here.
const NOBODY: u32 = 65534;

fn host() -> Tree {
    Tree::ubuntu_24_04()
        .gpu("0000:17:00.0", "20b2", None)
        .gxx(13)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of the tests are UTF-8")
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
}

/// A folder with a plan for [`host`] that changes one file, and what is no file at all.
struct Bench {
    folder: tempfile::TempDir,
    tree: Tree,
}

impl Bench {
    fn new() -> Self {
        let bench = Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            tree: host(),
        };
        mode(bench.folder.path(), 0o755);
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A plan with these operations, and a fingerprint that is right for them.
    fn plan(&self, name: &str, operations: Vec<Operation>) -> PathBuf {
        let json = self
            .tree
            .run(&["plan", "--profile", "toolkit", "--cuda", "12.8.1", "--json"])
            .json();
        let mut plan: Plan = serde_json::from_value(json).expect("a plan");
        let acts: Vec<Value> = operations
            .iter()
            .map(|o| serde_json::to_value(o).expect("JSON"))
            .collect();
        plan.steps.truncate(1);
        plan.steps[0].operations = acts
            .into_iter()
            .map(|a| serde_json::from_value(a).expect("an act"))
            .collect();
        plan.steps[0].state = gpusetup::plan::State::Needed;
        let path = self.path(name);
        fs::write(&path, serde_json::to_string(&plan).expect("JSON")).expect("written");
        mode(&path, 0o644);
        path
    }

    /// A plan that writes a file of the tree.
    fn writing(&self, name: &str) -> PathBuf {
        let content = "ours\n".to_owned();
        self.plan(
            name,
            vec![Operation::WriteFile(WriteFile {
                path: "/etc/written".into(),
                content,
                mode: 0o644,
                merged_from: None,
            })],
        )
    }

    /// Makes a bundle of a plan, which reads it first.
    fn create(&self, plan: &Path, more: &[&str]) -> Ran {
        let out = self.path("bundle-of-it");
        let _ = fs::remove_dir_all(&out);
        let cache = self.path("cache");
        let arguments = [
            "bundle",
            "create",
            "--offline",
            "--cache",
            text(&cache),
            "--plan",
            text(plan),
            "-o",
            text(&out),
        ];
        run(&[&arguments[..], more].concat())
    }
}

/// Things that are no file, or too much of one.
fn no_files(folder: &Path) -> Vec<(&'static str, PathBuf)> {
    let pipe = folder.join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .expect("coreutils")
            .success()
    );
    let endless = folder.join("endless");
    File::create(&endless)
        .and_then(|f| f.set_len(1 << 40))
        .expect("a sparse file");
    vec![
        ("a pipe", pipe),
        ("a device", "/dev/zero".into()),
        ("a directory", folder.to_owned()),
        ("longer than", endless),
    ]
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let bench = Bench::new();
    let facts = bench.path("facts.json");
    fs::write(&facts, bench.tree.run(&["facts", "--json"]).out).expect("written");
    let (facts, out) = (text(&facts), bench.path("out"));
    let folder = bench.path("strange");
    fs::create_dir(&folder).expect("made");
    for (what, path) in no_files(&folder) {
        let path = text(&path);
        let commands: [&[&str]; 12] = [
            &["plan", "--facts", path],
            &["doctor", "--facts", path],
            &["facts", "--lspci", path, "--root", text(bench.tree.path())],
            &["plan", "--facts", facts, "--locked", path],
            &["plan", "--facts", facts, "--config", path],
            &["doctor", "--facts", facts, "--kernel-log", path],
            &["doctor", path],
            &[
                "bundle",
                "create",
                "--offline",
                "--plan",
                path,
                "-o",
                text(&out),
            ],
            &["bundle", "verify", path],
            &["plan", "--facts", facts, "--bundle", path],
            &["plan", "--facts", facts, "--ca-cert", path],
            &["db", "update", "--from", path, "--key", path],
        ];
        for command in commands {
            let began = Instant::now();
            let ran = run(command);
            assert!(
                began.elapsed() < AT_ONCE,
                "{command:?} took {:?}",
                began.elapsed()
            );
            // A folder may be a bundle, and an archive of any length begins somewhere.
            let is_bundle =
                command.contains(&"verify") || command.contains(&"--bundle") || command[1] == path;
            match ran.code {
                2 => assert!(ran.err.contains(what), "{command:?}: {}", ran.err),
                // Of a kernel log the end counts, however long it is.
                20 => assert!(
                    ran.err.contains("only its last 16 MiB"),
                    "{command:?}: {}",
                    ran.err
                ),
                code => assert!(code == 10 && is_bundle, "{command:?}: {code} {}", ran.err),
            }
        }
    }
}

#[test]
fn a_shells_pipe_is_refused_with_what_helps() {
    let script = format!(
        "exec '{}' plan --facts <(echo '{{}}')",
        env!("CARGO_BIN_EXE_gpusetup")
    );
    let out = Command::new("bash")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .output()
        .expect("bash runs");
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        out.status.code() == Some(2)
            && stderr.contains("a pipe")
            && stderr.contains("with - in place"),
        "{stderr}"
    );
}

#[test]
fn a_plan_that_others_can_write_is_refused_until_they_cannot() {
    let bench = Bench::new();
    let plan = bench.writing("plan.json");
    mode(&plan, 0o666);
    let refused = bench.create(&plan, &[]);
    assert!(
        refused.code == 5 && refused.err.contains("writable by everybody"),
        "{} {}",
        refused.code,
        refused.err
    );
    let hint = refused
        .err
        .lines()
        .find_map(|line| line.strip_prefix("hint: read it, then: sudo "))
        .expect("a command");
    assert!(
        Command::new("sh")
            .args(["-c", hint])
            .status()
            .expect("sh runs")
            .success(),
        "{hint}"
    );
    let taken = bench.create(&plan, &[]);
    assert_eq!(taken.code, 0, "{}", taken.err);
}

#[test]
fn a_plan_with_a_right_fingerprint_and_no_sense_is_refused() {
    let bench = Bench::new();
    let deep = format!("/{}", vec!["d"; 1990].join("/"));
    let remove = |path: &str| Operation::Remove(Remove { path: path.into() });
    let service = |unit: &str| {
        Operation::Service(Service {
            unit: unit.to_owned(),
            enabled: true,
            restart: false,
        })
    };
    let senseless = [
        Run::new([""; 0], 60).into(),
        Run::new(["-x"], 60).into(),
        remove(&deep),
        remove("/usr/../.."),
        remove("etc"),
        remove("/a\nb"),
        service("--now"),
        Operation::WriteFile(WriteFile {
            path: "/usr/bin/x".into(),
            content: String::new(),
            mode: 0o4755,
            merged_from: None,
        }),
        Operation::Download(Download {
            url: "https://a/x".into(),
            sha256: "00".into(),
            size: None,
            to: "/etc/x".into(),
        }),
    ];
    for operation in senseless {
        let plan = bench.plan("plan.json", vec![operation.clone()]);
        let began = Instant::now();
        let refused = bench.create(&plan, &[]);
        assert!(began.elapsed() < AT_ONCE, "{operation:?}");
        assert_eq!(refused.code, 10, "{operation:?}: {}", refused.err);
        assert!(refused.err.contains("invalid plan: "), "{}", refused.err);
    }
}

#[test]
fn a_reader_that_goes_away_and_a_full_disk_are_no_panic() {
    for arguments in [
        &["completions", "bash"][..],
        &["completions", "zsh"],
        &["man"],
        &["--help"],
        &["db", "list", "cuda"],
    ] {
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("Linux has one");
        let out = program()
            .args(arguments)
            .stdout(full)
            .stderr(Stdio::piped())
            .output()
            .expect("it runs");
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(
            stderr.starts_with("error: cannot write to standard output")
                && stderr.lines().count() == 1,
            "{stderr}"
        );
        let mut child = program()
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        drop(child.stdout.take());
        let out = child.wait_with_output().expect("it ends");
        assert_eq!(
            (out.status.code(), out.stderr.len()),
            (Some(0), 0),
            "{arguments:?}"
        );
    }
}

/// What would do harm in a shell, a terminal or a line of anything, were it taken as it is.
const EVIL: &str =
    "x\n: >CANARY #\r\u{1b}[31m'\";$(: >CANARY)`: >CANARY`\u{9b}2J\u{202e}\u{2066}\u{2028}\u{7f}\\";

fn has_controls(text: &str) -> Option<char> {
    text.chars()
        .find(|c| *c != '\n' && gpusetup::text::is_hidden(*c))
}

/// The paths of all texts in a value.
fn texts(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at.to_owned()),
        Value::Array(all) => all
            .iter()
            .enumerate()
            .for_each(|(n, v)| texts(v, &format!("{at}/{n}"), found)),
        Value::Object(all) => all.iter().for_each(|(k, v)| {
            texts(
                v,
                &format!("{at}/{}", k.replace('~', "~0").replace('/', "~1")),
                found,
            );
        }),
        _ => {}
    }
}

/// What of a script the shell acts upon: all but comments, texts in single quotes and the files
/// that it writes.
fn bare(script: &str) -> String {
    let mut out = String::new();
    let mut lines = script.lines();
    let (mut single, mut double) = (false, false);
    while let Some(line) = lines.next() {
        let mut before = ' ';
        for c in line.chars() {
            match c {
                '\'' if !double => single = !single,
                '"' if !single && before != '\\' => double = !double,
                '#' if !single && !double && before.is_whitespace() => break,
                _ if single => {}
                c => out.push(c),
            }
            before = c;
        }
        out.push('\n');
        if !single && line.ends_with("<<'GPUSETUP'") {
            lines
                .by_ref()
                .take_while(|line| *line != "GPUSETUP")
                .for_each(drop);
        }
    }
    out
}

fn is_a_script(script: &str) -> bool {
    let mut sh = Command::new("sh")
        .arg("-n")
        .stdin(Stdio::piped())
        .spawn()
        .expect("sh runs");
    sh.stdin
        .take()
        .expect("piped")
        .write_all(script.as_bytes())
        .expect("read");
    sh.wait().expect("it ends").success()
}

#[test]
fn no_text_of_facts_becomes_a_line_or_a_command() {
    let facts = host().run(&["facts", "--json"]).json();
    let plan = |facts: &Value, format: &str| {
        run_with_input(
            &["plan", "--facts", "-", "--format", format],
            &facts.to_string(),
        )
    };
    let clean = plan(&facts, "sh");
    assert_eq!(clean.code, 0, "{}", clean.err);

    // What people are told, and nothing is decided by.
    let mut forged = facts.clone();
    for (place, more) in [
        ("/os/name", ""),
        ("/gpus/0/name", ""),
        ("/kernels/installed/0/compiler", "gcc-13 (X) 13.2.0 "),
    ] {
        *forged.pointer_mut(place).expect("there") = format!("{more}{EVIL}").into();
    }
    let script = plan(&forged, "sh");
    assert_eq!(script.code, 0, "{}", script.err);
    let commands = |script: &str| {
        script
            .lines()
            .filter(|l| !l.starts_with('#'))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(commands(&script.out), commands(&clean.out));
    for format in ["sh", "text", "cloud-init", "json"] {
        let ran = plan(&forged, format);
        assert_eq!(
            (ran.code, has_controls(&(ran.out.clone() + &ran.err))),
            (0, None),
            "{format}: {:?}",
            ran.out
        );
    }
    let page = tempfile::NamedTempFile::new().expect("a temporary file");
    let diagnosed = run_with_input(
        &["doctor", "--facts", "-", "-v", "--html", text(page.path())],
        &forged.to_string(),
    );
    let html = fs::read_to_string(page.path()).expect("written");
    for output in [&diagnosed.out, &diagnosed.err, &html] {
        assert!(
            has_controls(output).is_none() && !output.lines().any(|l| l.starts_with(": >CANARY")),
            "{output:?}"
        );
    }

    // Any of them, one at a time: what comes of it may be a refusal, and is never more than texts.
    let mut places = Vec::new();
    texts(&facts, "", &mut places);
    assert!(places.len() > 30, "{places:?}");
    for place in places {
        let mut spoilt = facts.clone();
        let field = spoilt.pointer_mut(&place).expect("there");
        *field = format!("{}{EVIL}", field.as_str().unwrap_or_default()).into();
        let ran = plan(&spoilt, "sh");
        let all = ran.out.clone() + &ran.err;
        assert!(has_controls(&all).is_none(), "{place}: {all:?}");
        assert!(
            ran.err.lines().all(|l| !l.starts_with(": >")),
            "{place}: {}",
            ran.err
        );
        assert!(
            is_a_script(&ran.out) && !bare(&ran.out).contains("CANARY"),
            "{place}: {}",
            ran.out
        );
    }
}

#[test]
fn no_text_of_a_tree_moves_the_cursor() {
    let release = "PRETTY_NAME=\"Ubuntu\u{1b}[2J\u{202e} 24.04\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n";
    let tree = Tree::new(release, "6.8.0-64-generic", 13).gpu("0000:17:00.0", "20b2", None);
    tree.write("lib/modules/9.9$(id)/modules.builtin", "");
    for command in [
        &["facts"][..],
        &["facts", "--json"],
        &["doctor", "-v"],
        &["plan", "--profile", "toolkit"],
    ] {
        let ran = tree.run(command);
        let all = ran.out + &ran.err;
        assert!(
            has_controls(&all).is_none()
                && all.contains("Ubuntu\u{fffd}")
                && !all.contains("$(id)"),
            "{all:?}"
        );
    }
}

#[test]
fn what_others_wrote_of_a_run_is_one_message() {
    let tree = host();
    let result = tree.run(&[
        "apply",
        "--profile",
        "toolkit",
        "--cuda",
        "1.0",
        "--yes",
        "--accept-eula",
    ]);
    assert_ne!(result.code, 0);
    let path = tree.path().join("var/lib/gpusetup/result.json");
    let Ok(written) = fs::read_to_string(&path) else {
        panic!("{}", result.err)
    };
    let mut value: Value = serde_json::from_str(&written).expect("JSON");
    value["error"] = "a\u{1b}[2J\nhint: rm -rf /\u{9b}".into();
    fs::write(&path, value.to_string()).expect("written");
    for arguments in [&["status"][..], &["status", "--json"]] {
        let out = tree.run(arguments).out;
        assert!(
            has_controls(&out).is_none() && !out.lines().any(|line| line.starts_with("hint")),
            "{out:?}"
        );
    }
}

#[test]
fn a_tree_of_holes_takes_no_time() {
    let tree = host();
    for path in ["etc/profile.d/gpusetup-cuda.sh", "var/lib/dpkg/status"] {
        tree.write(path, "");
        File::options()
            .write(true)
            .open(tree.path().join(path))
            .and_then(|f| f.set_len(1 << 41))
            .expect("sparse");
    }
    assert_eq!(tree.run(&["facts"]).code, 0);
    // Which packages are installed is not known then.
    let shown = tree.run(&["plan", "--profile", "toolkit"]);
    assert_eq!(shown.code, 5, "{}", shown.err);
}

#[test]
fn a_database_that_leads_around_in_a_circle_has_an_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for kind in ["compat", "manifests"] {
        fs::create_dir(folder.path().join(kind)).expect("made");
    }
    fs::write(folder.path().join("compat/x.yaml"), "x: 1\n").expect("written");
    for name in ["a", "b", "c", "d", "e", "f"] {
        symlink(".", folder.path().join("compat").join(name)).expect("linked");
    }
    let refused = run(&["plan", "--gpu", "h100", "--database", text(folder.path())]);
    assert!(
        refused.code == 10 && refused.err.contains("is a link to a folder"),
        "{}",
        refused.err
    );
}

#[test]
fn an_error_that_quotes_a_stranger_is_one_message() {
    let ran = run(&["doctor", "GS\u{1b}[31m\nhint: rm -rf /"]);
    assert!(
        ran.code == 2 && has_controls(&ran.err).is_none(),
        "{:?}",
        ran.err
    );
    assert!(
        ran.err.contains("hint: rm") && !ran.err.lines().any(|l| l.starts_with("hint: rm")),
        "{}",
        ran.err
    );
}

#[test]
fn a_password_that_others_can_read_is_spoken_of() {
    let bench = Bench::new();
    let config = bench.path("config.yaml");
    fs::write(
        &config,
        "mirror: \"https://ann:secret@mirror.example/nvidia\"\n",
    )
    .expect("written");
    for (bits, warned) in [(0o644, true), (0o640, true), (0o600, false)] {
        mode(&config, bits);
        let ran = run(&["explain", "exit", "4", "--config", text(&config)]);
        assert_eq!(
            (ran.code, ran.err.contains("chmod 600")),
            (0, warned),
            "{bits:o}: {}",
            ran.err
        );
        assert!(!ran.err.contains("secret"), "{}", ran.err);
    }
}

/// The names that only a build for tests may know.
const HOOKS: [&str; 10] = [
    "GPUSETUP_TODAY",
    "GPUSETUP_BUGS",
    "GPUSETUP_DATABASE_STORE",
    "GPUSETUP_DIE_AT",
    "GPUSETUP_STAND_INS",
    "GPUSETUP_SILENCE",
    "GPUSETUP_STANDS_FOR_HOST",
    "GPUSETUP_PATIENCE",
    "GPUSETUP_PACKAGES_LIMIT",
    "GPUSETUP_CORES",
];

/// Every Rust file of the program, with its text.
fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).expect("text");
            found.push((path, text));
        }
    }
}

#[test]
fn only_a_build_for_tests_hears_the_tests_hooks() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("there");
    let features = manifest
        .split("[features]")
        .nth(1)
        .and_then(|rest| rest.split("\n[").next())
        .expect("features");
    assert!(
        features.contains("test-hooks = [\"gpusetup-system/test-hooks\"]")
            && !features.contains("default"),
        "{features}"
    );
    let mut all = Vec::new();
    ["src", "crates"]
        .iter()
        .for_each(|folder| sources(&root.join(folder), &mut all));
    for (path, text) in all {
        let lines: Vec<_> = text.lines().collect();
        for (n, line) in lines.iter().enumerate() {
            // An option's variable stands below its cfg; every other is asked for by the one
            // function that may be deaf.
            let is_hook = HOOKS
                .iter()
                .any(|hook| line.contains(&format!("\"{hook}\"")));
            let is_gated = lines[n.saturating_sub(2)..n]
                .iter()
                .any(|l| l.contains("cfg(feature = \"test-hooks\")"));
            let asked = line.contains("hooks::env_override(") || line.contains("hooks::seconds(");
            assert!(
                !is_hook || is_gated || asked,
                "{}:{}: {line}",
                path.display(),
                n + 1
            );
            assert!(
                !line.contains("debug_assertions"),
                "{}:{}: {line}",
                path.display(),
                n + 1
            );
        }
    }
}

/// Builds the program as `cargo build` does, and has it hear nothing.
#[test]
#[ignore = "builds gpusetup and all that it depends on once more, without the feature"]
fn a_build_without_the_feature_hears_no_hooks() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tested = Path::new(env!("CARGO_BIN_EXE_gpusetup"))
        .parent()
        .expect("target/debug");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("without-hooks");
    // With what is already compiled of the dependencies. Build scripts run again and write to their
    // files: these are copies, since cargo would compile everything that depends on them once more,
    // here and for the next test.
    let _ = fs::remove_dir_all(&target);
    fs::create_dir_all(target.join("debug")).expect("made");
    for (part, how) in [(".fingerprint", "-a"), ("build", "-a"), ("deps", "-al")] {
        let copied = Command::new("cp")
            .arg(how)
            .args([tested.join(part), target.join("debug")])
            .status();
        assert!(copied.expect("cp runs").success());
    }
    let built = Command::new(env!("CARGO"))
        .args([
            "build",
            "--locked",
            "--quiet",
            "--bin",
            "gpusetup",
            "--target-dir",
            text(&target),
        ])
        // It starts a few times: optimising it would take longer than the test.
        .args([
            "--config",
            "profile.dev.package.gpusetup-database.opt-level=0",
        ])
        .current_dir(root)
        .status();
    assert!(built.expect("cargo runs").success());
    let program = target.join("debug/gpusetup");
    for hook in HOOKS {
        // With hooks, each of these is a value that is refused, or ends it at once.
        let out = Command::new(&program)
            .args(["plan", "--gpu", "h100"])
            .env(hook, "1")
            .output()
            .expect("it runs");
        assert!(
            matches!(out.status.code(), Some(0 | 4 | 6)),
            "{hook}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
    let out = Command::new(&program)
        .args(["plan", "--today", "2026-01-01"])
        .output()
        .expect("it runs");
    assert_eq!(out.status.code(), Some(2));
}

/// `gpusetup` in the tree, as root or as if called by `sudo` of this user.
fn apply(bench: &Bench, arguments: &[&str], sudo: Option<u32>) -> Ran {
    let mut command = program();
    command.args(arguments).args([
        "--yes",
        "--accept-eula",
        "--offline",
        "--root",
        text(bench.tree.path()),
    ]);
    if let Some(uid) = sudo {
        command.env("SUDO_UID", uid.to_string());
    }
    Ran::of(command.output().expect("it runs"))
}

fn is_applied(bench: &Bench) -> bool {
    let done = bench.tree.path().join("etc/written").exists();
    if done {
        let back = bench.tree.run(&["rollback", "--yes"]);
        assert_eq!(back.code, 0, "{}", back.err);
    }
    done
}

#[test]
#[ignore = "takes root"]
fn a_plan_of_another_user_is_carried_out_only_when_that_user_is_named() {
    let bench = Bench::new();
    let plan = bench.writing("plan.json");
    chown(&plan, Some(NOBODY), Some(NOBODY)).expect("root may");
    let path = text(&plan);
    for command in [
        &["apply", path][..],
        &["bundle", "create", "--plan", path, "-o", "/nonexistent/x"],
    ] {
        let refused = if command[0] == "apply" {
            apply(&bench, command, None)
        } else {
            run(command)
        };
        assert_eq!(refused.code, 5, "{command:?}: {}", refused.err);
        for words in [
            "belongs to the untrusted user nobody",
            "hint: or accept it from that user: --trust-owner nobody",
            "sudo chown root: ",
        ] {
            assert!(refused.err.contains(words), "{words}: {}", refused.err);
        }
    }
    assert!(!is_applied(&bench));
    for named in ["nobody", "65534"] {
        let done = apply(&bench, &["apply", path, "--trust-owner", named], None);
        assert_eq!(done.code, 0, "{}", done.err);
        assert!(is_applied(&bench));
    }
    let unknown = apply(&bench, &["apply", path, "--trust-owner", "no:body"], None);
    assert_eq!(unknown.code, 2, "{}", unknown.err);
    // As the README has it: the user plans, and applies by sudo.
    let sudo = apply(&bench, &["apply", path], Some(NOBODY));
    assert_eq!(sudo.code, 0, "{}", sudo.err);
    assert!(is_applied(&bench));
    assert_eq!(
        apply(&bench, &["apply", path], Some(4711)).code,
        5,
        "another caller"
    );

    // A link of somebody who is not trusted is not followed, whatever it leads to; root's is.
    chown(&plan, Some(0), Some(0)).expect("root may");
    let link = bench.path("link.json");
    symlink("plan.json", &link).expect("linked");
    std::os::unix::fs::lchown(&link, Some(NOBODY), None).expect("root may");
    let refused = apply(&bench, &["apply", text(&link)], None);
    assert!(
        refused.code == 5 && refused.err.contains("symbolic link"),
        "{}",
        refused.err
    );
    std::os::unix::fs::lchown(&link, Some(0), None).expect("root may");
    assert_eq!(apply(&bench, &["apply", text(&link)], None).code, 0);
    assert!(is_applied(&bench));
    // Nor is one on the way.
    let folder = bench.path("somebodys");
    symlink(".", &folder).expect("linked");
    std::os::unix::fs::lchown(&folder, Some(NOBODY), None).expect("root may");
    let refused = apply(&bench, &["apply", text(&folder.join("plan.json"))], None);
    assert!(
        refused.code == 5 && refused.err.contains("symbolic link"),
        "{}",
        refused.err
    );
    assert!(!is_applied(&bench));
    // The user who calls sudo may have links of their own.
    assert_eq!(
        apply(
            &bench,
            &["apply", text(&folder.join("plan.json"))],
            Some(NOBODY)
        )
        .code,
        0
    );
    assert!(is_applied(&bench));
}

#[test]
#[ignore = "takes root"]
fn root_writes_to_no_file_that_a_link_of_another_user_names() {
    let bench = Bench::new();
    let (victim, link, pipe) = (bench.path("victim"), bench.path("link"), bench.path("pipe"));
    fs::write(&victim, "precious").expect("written");
    symlink("victim", &link).expect("linked");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .expect("coreutils")
            .success()
    );
    let plan = |out: &Path| {
        run(&[
            "plan",
            "--root",
            text(bench.tree.path()),
            "--gpu",
            "h100",
            "--out",
            text(out),
        ])
    };
    let html = |out: &Path| {
        run(&[
            "doctor",
            "--root",
            text(bench.tree.path()),
            "--html",
            text(out),
        ])
    };
    std::os::unix::fs::lchown(&link, Some(NOBODY), None).expect("root may");
    for write in [&plan as &dyn Fn(&Path) -> Ran, &html] {
        for out in [&link, &pipe] {
            let refused = write(out);
            assert!(
                refused.code == 1 && refused.err.contains("cannot write"),
                "{}",
                refused.err
            );
        }
        assert_eq!(fs::read(&victim).expect("there"), b"precious");
    }
    for other in ["a second name", "another owner"] {
        fs::remove_file(&link).expect("removed");
        match other {
            "a second name" => fs::hard_link(&victim, &link).expect("linked"),
            _ => fs::write(&link, "precious")
                .and_then(|()| chown(&link, Some(NOBODY), None))
                .expect("root may"),
        }
        assert!(plan(&link).err.contains("cannot write"), "{other}");
        assert_eq!(fs::read(&link).expect("there"), b"precious");
    }
    fs::remove_file(&link).expect("removed");
    symlink("victim", &link).expect("linked");
    assert_eq!(plan(&link).code, 0);
    assert_ne!(fs::read(&victim).expect("there"), b"precious");
    let shown = plan(Path::new("/dev/stdout"));
    assert!(
        shown.code == 0 && shown.out.contains("\"schema\""),
        "{}",
        shown.err
    );
}

#[test]
#[ignore = "takes root"]
fn a_bundle_of_another_user_is_used_only_when_that_user_is_named() {
    let bench = Bench::new();
    let made = bench.create(&bench.writing("plan.json"), &[]);
    assert_eq!(made.code, 0, "{}", made.err);
    let folder = bench.path("bundle-of-it");
    let archive = bench.path("bundle.tar.zst");
    assert_eq!(
        run(&["bundle", "pack", text(&folder), "-o", text(&archive)]).code,
        0
    );
    chown(&archive, Some(NOBODY), Some(NOBODY)).expect("root may");
    mode(&archive, 0o666);
    let manifest = folder.join("bundle.json");
    for (bundle, spoil) in [
        (&archive, &archive),
        (&folder, &manifest),
        (&folder, &folder),
    ] {
        chown(spoil, Some(NOBODY), Some(NOBODY)).expect("root may");
        let refused = apply(&bench, &["apply", "--bundle", text(bundle)], None);
        assert_eq!(refused.code, 5, "{}: {}", bundle.display(), refused.err);
        assert!(
            refused.err.contains("--trust-owner nobody") && refused.err.contains("--bundle-key"),
            "{}",
            refused.err
        );
        assert!(!is_applied(&bench));
        let open_to_all = apply(
            &bench,
            &["apply", "--bundle", text(bundle), "--trust-owner", "nobody"],
            None,
        );
        let is_open = spoil == &archive;
        assert_eq!(
            open_to_all.code,
            if is_open { 5 } else { 0 },
            "{}",
            open_to_all.err
        );
        assert_eq!(is_applied(&bench), !is_open);
        if !is_open {
            chown(spoil, Some(0), Some(0)).expect("root may");
        }
    }
    mode(&archive, 0o644);
    assert_eq!(
        apply(&bench, &["apply", "--bundle", text(&archive)], Some(NOBODY)).code,
        0
    );
    assert!(is_applied(&bench));
}

#[test]
#[ignore = "takes root"]
fn a_config_database_or_lock_file_of_another_user_does_not_rule_root() {
    let bench = Bench::new();
    let config = bench.path("config.yaml");
    fs::write(&config, "cuda: \"12.8\"\n").expect("written");
    chown(&config, Some(NOBODY), Some(NOBODY)).expect("root may");
    assert_eq!(
        run(&["explain", "exit", "4", "--config", text(&config)]).code,
        5
    );
    let lock = bench.path("gpu.lock");
    let locked = bench.tree.run(&[
        "plan",
        "--profile",
        "toolkit",
        "--cuda",
        "12.8.1",
        "--lock",
        text(&lock),
    ]);
    assert_eq!(locked.code, 0, "{}", locked.err);
    chown(&lock, Some(NOBODY), Some(NOBODY)).expect("root may");
    assert_eq!(bench.tree.run(&["plan", "--locked", text(&lock)]).code, 5);
    assert_eq!(
        bench
            .tree
            .run(&["plan", "--locked", text(&lock), "--trust-owner", "nobody"])
            .code,
        0
    );
    let database = bench.path("database");
    for kind in ["compat", "manifests"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(kind);
        let to = database.join(kind);
        fs::create_dir_all(&database).expect("made");
        assert!(
            Command::new("cp")
                .arg("-r")
                .args([&from, &to])
                .status()
                .expect("coreutils")
                .success()
        );
    }
    let list = || run(&["db", "list", "cuda", "--database", text(&database)]);
    assert_eq!(list().code, 0, "{}", list().err);
    chown(database.join("compat/version.yaml"), Some(NOBODY), None).expect("root may");
    assert_eq!(list().code, 5, "{}", list().err);
}

#[test]
#[ignore = "takes root"]
fn a_signal_ends_the_waiting_for_standard_input() {
    let bench = Bench::new();
    let mut child = program()
        .args([
            "apply",
            "--yes",
            "--accept-eula",
            "--lspci",
            "-",
            "--root",
            text(bench.tree.path()),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let lock = bench.tree.path().join("run/gpusetup.lock");
    let began = Instant::now();
    while !lock.exists() && began.elapsed() < AT_ONCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    let killed = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(killed.success());
    let began = Instant::now();
    // Still open: nothing but the signal ends it.
    let input = child.stdin.take().expect("piped");
    let status = child.wait().expect("it ends");
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    drop(input);
    let mut output = String::new();
    child
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut output)
        .expect("text");
    assert_eq!(status.code(), Some(143), "{output}");
}
