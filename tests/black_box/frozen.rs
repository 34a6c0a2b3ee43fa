//! Files that earlier releases wrote (`tests/frozen/`): today's gpusetup reads each, or refuses it
//! with its version and with a command that helps. What today's gpusetup writes for the same host
//! is kept as a list of keys and types in `tests/frozen/current/`: formats change on purpose only.
//! `INSTA_UPDATE=always cargo test --test black_box frozen::` writes the list again; a change that
//! an earlier release cannot read needs a new version in the schema's name, and a file here.

use crate::common::{Ran, Tree, is_root, run};
use gpusetup::plan::Plan;
use gpusetup::sum::sha256;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release that the files are of, and the version of its database.
const RELEASE: (&str, &str) = ("0.1.0", "2026.11.21");
/// In the bundle and in the journal: a toolkit of five small archives.
const SMALL_PLAN: &str = "bundle/plans/966f849697db36ce.json";
/// What that plan was made with.
const REQUEST: [&str; 8] = [
    "--profile",
    "toolkit",
    "--cuda",
    "13.0.2",
    "--cudnn",
    "none",
    "--components",
    "nvcc",
];

fn frozen(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/frozen/0.1")
        .join(name)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of the tests are UTF-8")
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("there")).expect("JSON")
}

/// The host that the files are of.
fn host() -> Tree {
    Tree::ubuntu_24_04()
        .gpu("0000:17:00.0", "20b2", Some("nouveau"))
        .gxx(13)
}

/// A copy that only its owner can write to, whatever the checkout's umask was.
fn own(name: &str, folder: &Path) -> PathBuf {
    let (from, to) = (
        frozen(name),
        folder.join(Path::new(name).file_name().expect("a name")),
    );
    copy(&from, &to);
    to
}

fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        fs::copy(from, to).expect("copied");
        fs::set_permissions(to, fs::Permissions::from_mode(0o600)).expect("set");
        return;
    }
    fs::create_dir_all(to).expect("made");
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).expect("set");
    for entry in fs::read_dir(from).expect("listed") {
        let entry = entry.expect("an entry");
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Refused with this exit code, both versions, and a command that helps.
fn refused(ran: &Ran, code: i32, versions: [&str; 2], command: &str) {
    assert_eq!(ran.code, code, "{}", ran.err);
    for expected in versions {
        assert!(
            ran.err.contains(expected),
            "{expected} is not in: {}",
            ran.err
        );
    }
    // On a tree it is for that tree.
    let without_root = |line: &str| {
        let mut words: Vec<_> = line.split(' ').collect();
        if let Some(at) = words.iter().position(|word| *word == "--root") {
            words.drain(at..at + 2);
        }
        words.join(" ")
    };
    let hints = ran.err.lines().filter(|line| line.starts_with("hint: "));
    assert!(
        hints.map(without_root).any(|hint| hint.contains(command)),
        "{command}: {}",
        ran.err
    );
}

#[test]
fn facts_are_read_and_lead_to_the_same_plan() {
    let facts = frozen("facts.json");
    let planned = run(&["plan", "--facts", text(&facts), "--json"]).json();
    assert_eq!(
        planned["selection"],
        host().run(&["plan", "--json"]).json()["selection"]
    );
    let examined = run(&["doctor", "--facts", text(&facts), "--json"]);
    let report: Value = serde_json::from_str(&examined.out).expect("JSON");
    assert_eq!(
        (examined.code, &report["host"]["gpus"][0]["bound_to"]),
        (20, &"nouveau".into()),
        "{}",
        examined.err
    );
}

#[test]
fn a_plan_is_read_and_refused_for_its_database_only() {
    for name in ["plan.json", SMALL_PLAN] {
        let bytes = fs::read(frozen(name)).expect("there");
        let plan = Plan::read(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        let kept: Value = serde_json::to_value(&plan).expect("JSON");
        let written: Value = serde_json::from_slice(&bytes).expect("JSON");
        let steps = |plan: &Value| plan["steps"].as_array().expect("steps").clone();
        for (kept, written) in steps(&kept).iter().zip(&steps(&written)) {
            assert_eq!(kept["operations"], written["operations"], "{name}");
        }
        // What that release left for apply to find out by the step's name.
        assert!(
            plan.steps
                .iter()
                .any(|step| step.licensed && !step.room.is_empty()),
            "{name}"
        );
    }
    if !is_root() {
        return;
    }
    let folder = folder();
    let ran = host().run(&[
        "apply",
        text(&own("plan.json", folder.path())),
        "--yes",
        "--accept-eula",
    ]);
    refused(&ran, 10, [RELEASE.1, RELEASE.0], "gpusetup plan --out FILE");
    let other = Tree::debian_12().run(&[
        "apply",
        text(&own("plan.json", folder.path())),
        "--yes",
        "--accept-eula",
    ]);
    assert!(
        other.code == 5 && other.err.contains("this host is Debian 12"),
        "{}",
        other.err
    );
}

#[test]
fn a_lock_file_leads_to_what_it_locks() {
    let (lock, folder) = (frozen("lock.json"), folder());
    let again = folder.path().join("again.json");
    let host = Tree::ubuntu_24_04()
        .gpu("0000:17:00.0", "20b2", Some("nouveau"))
        .gxx(13);
    let ran = host.run(&[
        "plan",
        "--locked",
        text(&own("lock.json", folder.path())),
        "--lock",
        text(&again),
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let (old, new) = (json(&lock), json(&again));
    for key in ["schema", "system", "selection", "artifacts", "packages"] {
        assert_eq!(old[key], new[key], "{key}");
    }
}

#[test]
fn a_report_is_diagnosed() {
    let ran = run(&["doctor", text(&frozen("report.tar.zst")), "--json"]);
    let report: Value = serde_json::from_str(&ran.out).expect("JSON");
    let failed = |f: &&Value| f["status"] == "fail" && f["id"] == "GS501";
    let found = report["checks"]
        .as_array()
        .expect("checks")
        .iter()
        .find(failed);
    assert!(ran.code == 20 && found.is_some(), "{}{}", ran.out, ran.err);
    // What that release did not look at is not said to be missing.
    let errors = report["summary"]["error"].as_u64();
    assert_eq!(
        (errors, &report["summary"]["fail"]),
        (Some(0), &1.into()),
        "{}",
        ran.out
    );
}

#[test]
fn a_bundle_is_verified_and_its_own_gpusetup_is_named() {
    let folder = folder();
    let bundle = own("bundle", folder.path());
    let sound = run(&["bundle", "verify", text(&bundle)]);
    assert!(
        sound.code == 0 && sound.out.starts_with("8 files, "),
        "{}{}",
        sound.out,
        sound.err
    );
    let ran = host().run(&["plan", "--bundle", text(&bundle)]);
    refused(
        &ran,
        10,
        [RELEASE.0, env!("CARGO_PKG_VERSION")],
        "./gpusetup apply --bundle BUNDLE",
    );
}

/// The host on which the apply of that release failed: its journal and its downloads; of what it
/// made, nothing.
fn failed() -> Tree {
    let tree = host();
    copy(&frozen("state"), &tree.path().join("var/lib/gpusetup"));
    copy(
        &frozen("bundle/artifacts"),
        &tree.path().join("var/cache/gpusetup"),
    );
    tree
}

/// The same, as if the power had failed before the first archive was unpacked.
fn cut_off() -> Tree {
    let tree = failed();
    let journal = tree.path().join("var/lib/gpusetup/journal");
    let content = fs::read_to_string(&journal).expect("text");
    let first = content
        .find(r#"{"event":"intent","at":[3,7]"#)
        .expect("an archive is unpacked");
    let whole = content[..first].rfind('\n').expect("records before it") + 1;
    fs::write(&journal, &content[..whole]).expect("written");
    tree
}

#[test]
fn a_journal_is_reported_resumed_and_rolled_back() {
    if !is_root() {
        return;
    }
    let status = failed().run(&["status"]);
    assert!(
        status.code == 0 && status.out.contains("ldconfig           failed"),
        "{}{}",
        status.out,
        status.err
    );
    let tree = cut_off();
    // The tree has no ldconfig: the steps before it come about, from the plan in the journal.
    let resumed = tree.run(&["resume", "--yes", "--offline"]);
    assert!(
        resumed.code == 7 && resumed.err.contains("ldconfig failed"),
        "{}{}",
        resumed.out,
        resumed.err
    );
    let nvcc =
        fs::read_to_string(tree.path().join("usr/local/cuda-13.0/bin/nvcc")).expect("installed");
    assert!(nvcc.contains("release 13.0"), "{nvcc}");
    assert!(
        tree.path()
            .join("etc/ld.so.conf.d/gpusetup-cuda.conf")
            .exists()
    );
    let rolled_back = tree.run(&["rollback", "--yes"]);
    assert_eq!(rolled_back.code, 0, "{}", rolled_back.err);
    for path in ["usr/local/cuda-13.0", "usr/local/cuda", "etc/ld.so.conf.d"] {
        assert!(
            fs::symlink_metadata(tree.path().join(path)).is_err(),
            "{path} was not there before"
        );
    }
    assert!(tree.run(&["status"]).out.contains("rolled back"));
    // A rollback at once, of what is gone already, does no harm either.
    assert_eq!(failed().run(&["rollback", "--yes"]).code, 0);
}

#[test]
fn formats_of_a_newer_gpusetup_are_refused_with_what_to_do() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let newer = |name: &str| {
        let copied = own(name, folder.path());
        let content = fs::read_to_string(&copied).expect("text");
        let kind = ["facts", "plan", "lock", "bundle"]
            .into_iter()
            .find(|k| name.contains(k))
            .expect("a kind");
        let (old, new) = (format!("gpusetup.{kind}/1"), format!("gpusetup.{kind}/9"));
        assert!(content.contains(&old), "{name}");
        fs::write(&copied, content.replacen(&old, &new, 1)).expect("written");
        copied
    };
    let both = |kind: &str| [format!("gpusetup.{kind}/9"), format!("gpusetup.{kind}/1")];
    let is_refused = |ran: &Ran, code: i32, kind: &str, command: &str| {
        let [theirs, ours] = both(kind);
        refused(ran, code, [&theirs, &ours], command);
    };
    let facts = run(&["plan", "--facts", text(&newer("facts.json"))]);
    is_refused(&facts, 2, "facts", "gpusetup facts --json");
    is_refused(
        &host().run(&["plan", "--locked", text(&newer("lock.json"))]),
        2,
        "lock",
        "gpusetup plan --lock FILE",
    );
    let bundle = own("bundle", folder.path());
    fs::copy(newer("bundle/bundle.json"), path("bundle/bundle.json")).expect("copied");
    is_refused(
        &run(&["bundle", "verify", text(&bundle)]),
        10,
        "bundle",
        "./gpusetup apply --bundle BUNDLE",
    );
    if !is_root() {
        return;
    }
    is_refused(
        &host().run(&["apply", text(&newer("plan.json")), "--yes", "--accept-eula"]),
        10,
        "plan",
        "gpusetup plan --out FILE",
    );
    let tree = failed();
    let journal = tree.path().join("var/lib/gpusetup/journal");
    let content = fs::read_to_string(&journal).expect("text");
    let (first, rest) = content.split_once('\n').expect("records");
    let record =
        first
            .split_once(' ')
            .expect("a sum")
            .1
            .replacen("\"version\":1", "\"version\":9", 1);
    fs::write(
        &journal,
        format!("{} {record}\n{rest}", &sha256(&record)[..16]),
    )
    .expect("written");
    for command in [
        &["status"][..],
        &["resume", "--yes"],
        &["rollback", "--yes"],
    ] {
        let ran = tree.run(command);
        assert!(
            ran.code == 10 && ran.err.contains("version 9; this one reads 3"),
            "{}{}",
            ran.out,
            ran.err
        );
        assert!(ran.err.contains("use that gpusetup"), "{}", ran.err);
    }
}

/// What today's gpusetup writes for the host and the requests that the frozen files are of.
struct Written {
    folder: tempfile::TempDir,
    tree: Tree,
}

impl Written {
    fn text(&self, name: &str) -> String {
        text(&self.folder.path().join(name)).to_owned()
    }

    fn json(&self, name: &str) -> Value {
        json(&self.folder.path().join(name))
    }

    fn done(&self, code: i32, arguments: &[&str]) -> Ran {
        let ran = self.tree.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
        ran
    }

    /// With a database in which the archives of the toolkit are the small ones.
    fn new() -> Self {
        let written = Self {
            folder: folder(),
            tree: host(),
        };
        let archives = [
            ("2a6176b987300f52/cuda_cudart", "13.0.96"),
            ("2f58623b65ff6582/cuda_crt", "13.0.88"),
            ("3e396796b0d7e545/cuda_nvcc", "13.0.88"),
            ("88fa73dd6791f2f0/cuda_cccl", "13.0.85"),
            ("dc44bd829d0899b2/libnvvm", "13.0.88"),
        ];
        for (path, version) in archives {
            let file = format!("{path}-linux-x86_64-{version}-archive.tar.xz");
            let (_, name) = file.split_once('/').expect("a folder");
            let component = name.split('-').next().expect("a name");
            let to = written
                .folder
                .path()
                .join(format!("artifacts/redist/{component}/linux-x86_64/{name}"));
            fs::create_dir_all(to.parent().expect("a folder")).expect("made");
            copy(&frozen(&format!("bundle/artifacts/{file}")), &to);
        }
        copy(
            &frozen("bundle/artifacts"),
            &written.tree.path().join("var/cache/gpusetup"),
        );
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host/database");
        let made = Command::new(script)
            .args([
                &written.text("artifacts"),
                "http://127.0.0.1:9",
                &written.text("database"),
            ])
            .output()
            .expect("the script starts");
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let (database, plan) = (written.text("database"), written.text("small.json"));
        written.done(
            0,
            &[
                &["plan", "--database", &database, "--out", &plan],
                &REQUEST[..],
            ]
            .concat(),
        );
        fs::set_permissions(&plan, fs::Permissions::from_mode(0o600)).expect("set");
        written
    }

    /// Each kind of file with what is in it; those that only root makes on a tree are left out for
    /// others.
    fn files(&self) -> Vec<(&'static str, Vec<Value>)> {
        let (lock, report) = (self.text("lock.json"), self.text("report.tar.zst"));
        let (database, plan) = (self.text("database"), self.text("small.json"));
        self.done(
            0,
            &[
                "plan",
                "--profile",
                "toolkit",
                "--cuda",
                "12.8.1",
                "--lock",
                &lock,
            ],
        );
        self.done(20, &["doctor", "--report", &report]);
        let bundle = [
            "bundle",
            "create",
            "--database",
            &database,
            "--offline",
            "--plan",
            &plan,
        ];
        // The program itself is hundreds of megabytes.
        fs::write(self.folder.path().join("program"), "program\n").expect("written");
        self.done(
            0,
            &[
                &bundle[..],
                &[
                    "-o",
                    &self.text("bundle"),
                    "--gpusetup",
                    &self.text("program"),
                ],
            ]
            .concat(),
        );
        let facts = self.done(0, &["facts", "--json"]).json();
        let plans = vec![
            self.done(0, &["plan", "--json"]).json(),
            self.json("small.json"),
        ];
        let mut files = vec![
            ("facts", vec![facts]),
            ("plan", plans),
            ("lock", vec![self.json("lock.json")]),
            ("evidence", vec![evidence(Path::new(&report))]),
            ("bundle", vec![self.json("bundle/bundle.json")]),
        ];
        if is_root() {
            self.done(
                7,
                &[
                    "apply",
                    &plan,
                    "--database",
                    &database,
                    "--yes",
                    "--accept-eula",
                    "--offline",
                ],
            );
            let state = |name: &str| self.tree.path().join("var/lib/gpusetup").join(name);
            files.push(("journal", records(&state("journal"))));
            files.push(("result", vec![json(&state("result.json"))]));
        }
        files
    }
}

/// The evidence in a report, without the facts.
fn evidence(report: &Path) -> Value {
    let bytes = zstd::decode_all(fs::File::open(report).expect("there")).expect("zstd");
    let mut archive = tar::Archive::new(bytes.as_slice());
    let mut entries = archive
        .entries()
        .expect("a tar")
        .map(|entry| entry.expect("whole"));
    let found = entries.find(|entry| entry.path().is_ok_and(|p| p == Path::new("evidence.json")));
    let mut evidence: Value = serde_json::from_reader(found.expect("evidence.json")).expect("JSON");
    // They are a kind of their own.
    evidence["evidence"]
        .as_object_mut()
        .expect("an object")
        .remove("facts");
    evidence
}

/// The records of a journal, without the plan, which is a kind of its own.
fn records(journal: &Path) -> Vec<Value> {
    let text = fs::read_to_string(journal).expect("text");
    let record = |line: &str| {
        let mut record: Value =
            serde_json::from_str(line.split_once(' ').expect("a sum").1).expect("JSON");
        record.as_object_mut().expect("an object").remove("plan");
        record
    };
    text.lines().map(record).collect()
}

/// Maps whose keys are data: names of packages, and of DKMS's trees.
const MAPS: [&str; 5] = [".packages", ".offered", ".dkms", ".drivers", ".versions"];

/// The keys and types of a value, a line each. What is one of several kinds says which; keys that
/// are data are `*`.
fn shape(value: &Value, at: &str, into: &mut BTreeSet<String>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    };
    into.insert(format!("{at}: {kind}"));
    match value {
        Value::Array(items) => items
            .iter()
            .for_each(|item| shape(item, &format!("{at}[]"), into)),
        Value::Object(map) => {
            let tag = ["event", "op", "undo", "kind"]
                .into_iter()
                .find_map(|key| map.get(key)?.as_str());
            let at = tag.map_or(at.to_owned(), |tag| format!("{at}({tag})"));
            let is_data = |key: &str| {
                MAPS.iter().any(|m| at.ends_with(m)) || key.contains(['/', ':', '.', '-'])
            };
            for (key, inner) in map {
                // An answer's `not-asked` is a key.
                let named = if is_data(key) && key != "not-asked" {
                    "*"
                } else {
                    key.as_str()
                };
                shape(inner, &format!("{at}.{named}"), into);
            }
        }
        _ => {}
    }
}

fn shapes(values: &[Value]) -> String {
    let mut lines = BTreeSet::new();
    values.iter().for_each(|value| shape(value, "", &mut lines));
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

#[test]
fn what_is_written_today_has_the_keys_that_were_reviewed() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../frozen/current");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let files = Written::new().files();
    settings.bind(|| {
        for (kind, values) in &files {
            insta::assert_snapshot!(*kind, shapes(values));
        }
    });
}
