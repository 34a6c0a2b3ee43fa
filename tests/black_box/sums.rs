//! Checksums of what the program prints, for 4,600 command lines: a change that only reshapes the
//! program changes none of them, and one that changes an answer shows in its review which answers.
//! `tests/golden/sums` has them.
//!
//! - `UPDATE_SUMS=1 cargo test --test black_box sums::` writes them again.
//! - `KEEP_OUTPUTS=DIR cargo test --test black_box sums::` keeps every output in a file under DIR:
//!   `diff -r` of what two commits leave there says what has changed.

use crate::common::{Ran, program};
use crate::golden;
use crate::images::tar as packed;
use gpusetup::sum::sha256;
use gpusetup::system::on_all_cores;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

/// Of each architecture, and the cards that people ask about.
const GPUS: [&str; 12] = [
    "gtx 680",
    "k80",
    "gtx 1080",
    "v100",
    "rtx 2080 ti",
    "a100x8",
    "rtx 3090",
    "rtx 4090,l4",
    "h100x8",
    "gh200",
    "b200x8",
    "rtx 5090",
];
/// Those whose plans are looked at in every format.
const OFTEN: [&str; 3] = ["v100", "a100x8", "rtx 5090"];
const PLAN_FORMATS: [&str; 4] = ["text", "json", "sh", "cloud-init"];
/// Of other architectures, and older minor releases.
const FURTHER_SYSTEMS: [&str; 6] = [
    "ubuntu-24.04:aarch64",
    "ubuntu-22.04:aarch64",
    "rocky-9:aarch64",
    "sles-15:aarch64",
    "amzn-2023:aarch64",
    "rhel-8:ppc64le",
];
const LISTS: [&str; 10] = [
    "gpus",
    "drivers",
    "cuda",
    "cudnn",
    "add-ons",
    "frameworks",
    "components",
    "companions",
    "instances",
    "systems",
];
/// What of a host is read in each way.
const LOOKS: [&[&str]; 13] = [
    &["facts"],
    &["facts", "--json"],
    &["facts", "--gpus"],
    &["facts", "--format", "labels"],
    &["facts", "--format", "gres"],
    &["facts", "--format", "node-exporter"],
    &["doctor"],
    &["doctor", "--json"],
    &["list"],
    &["list", "--json"],
    &["status"],
    &["mig", "list"],
    &["uninstall", "--all", "--dry-run"],
];
const REQUESTS: [&[&str]; 14] = [
    &["--profile", "driver"],
    &["--profile", "toolkit"],
    &["--profile", "container-host"],
    &["--prefer", "latest"],
    &["--prefer", "longest-support"],
    &["--method", "repository"],
    &["--method", "runfile"],
    &["--toolkit-method", "components"],
    &["--cuda", "12.4", "--cuda", "11.8"],
    &["--for", "torch"],
    &["--with", "nccl", "--with", "tensorrt"],
    &["--driver", "535"],
    &["--mig", "all-balanced"],
    &["--updates", "hold", "--persistence", "on"],
];
const COMMAND_LINES: [&str; 16] = [
    "docker run --gpus all nvidia/cuda nvidia-smi",
    "docker run --gpus 2 IMAGE",
    "docker run --gpus '\"device=0,3\"' IMAGE",
    "docker run --gpus '\"device=0\",\"capabilities=compute,utility\"' IMAGE",
    "docker create --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=0,1 IMAGE",
    "docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=none IMAGE",
    "docker run --device nvidia.com/gpu=all IMAGE",
    "NV_GPU=0,3 nvidia-docker run nvidia/cuda",
    "nvidia-docker run -it --rm nvidia/cuda bash",
    "podman run --device nvidia.com/gpu=0 IMAGE",
    "podman run --gpus all IMAGE",
    "docker run --gpus all IMAGE \"$HOME\"",
    "docker run --gpus all -v $PWD:/work IMAGE",
    "docker run IMAGE",
    "docker compose up",
    "docker run --gpus 2,all IMAGE",
];
const LAYOUTS: [&str; 9] = [
    "7x1g.5gb",
    "3g.20gb,2g.10gb,1g.5gb",
    "7x1g.10gb",
    "3g.40gb,4g.40gb",
    "1g.10gb+me",
    "all-balanced",
    "none",
    "off",
    "9",
];

/// What differs between machines and moments: how much room there is, when links and folders were
/// made.
const DIFFERS: [&str; 5] = [
    "\"free_bytes\":",
    "\"modified\":",
    "\"free_inodes\":",
    " free at ",
    "\"/boot has ",
];

/// A command line, what it reads, and how it is called in the list.
struct Case {
    arguments: Vec<String>,
    input: Option<PathBuf>,
    /// Where a path would stand for it.
    called: String,
}

impl Case {
    fn new<S: AsRef<str>>(arguments: impl IntoIterator<Item = S>) -> Self {
        let arguments: Vec<String> = arguments
            .into_iter()
            .map(|word| word.as_ref().to_owned())
            .collect();
        let called = arguments
            .iter()
            .map(|word| in_quotes(word))
            .collect::<Vec<_>>()
            .join(" ");
        Self {
            arguments,
            input: None,
            called,
        }
    }

    /// With a file, in the list called otherwise.
    fn with(mut self, option: &str, path: &Path, called: &str) -> Self {
        self.arguments
            .extend([option, path.to_str().expect("UTF-8")].map(str::to_owned));
        let _ = write!(self.called, " {option} {called}");
        self
    }

    fn reads(mut self, input: PathBuf, called: &str) -> Self {
        self.input = Some(input);
        let _ = write!(self.called, " < {called}");
        self
    }
}

fn in_quotes(word: &str) -> String {
    if word.contains([' ', '\'', '"', '$']) {
        format!("{word:?}")
    } else {
        word.to_owned()
    }
}

/// Makes the command lines of a group.
type Group = fn(&Stage) -> Vec<Case>;

/// Where files for the command lines are, and what the database is called.
struct Stage {
    folder: tempfile::TempDir,
    database: Value,
}

impl Stage {
    fn new() -> Self {
        let output = program()
            .args(["db", "export", "--json"])
            .output()
            .expect("gpusetup runs");
        let database = serde_json::from_slice(&output.stdout).expect("JSON");
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            database,
        }
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, content).expect("written");
        path
    }

    fn names(&self, table: &str, field: &str) -> Vec<&str> {
        let rows = self.database[table]
            .as_array()
            .unwrap_or_else(|| panic!("no table {table}"));
        let mut seen = BTreeSet::new();
        rows.iter()
            .filter_map(|row| row[field].as_str())
            .filter(|name| seen.insert(*name))
            .collect()
    }

    /// Exit code, standard output and standard error, with nothing that differs between machines
    /// and folders. The checksum of the database is in every plan: a change of one fact would
    /// change all of them.
    fn output(&self, case: &Case) -> String {
        let input = case
            .input
            .as_ref()
            .map_or_else(Stdio::null, |path| File::open(path).expect("a file").into());
        let mut command = program();
        command
            .args(&case.arguments)
            .env("GPUSETUP_CORES", "2")
            .stdin(input);
        let ran = Ran::of(command.output().expect("gpusetup runs"));
        let sum = self.database["sha256"].as_str().expect("a checksum");
        format!(
            "exit {}\n{}\n--- standard error\n{}",
            ran.code, ran.out, ran.err
        )
        .replace(self.folder.path().to_str().expect("UTF-8"), "DIR")
        .replace(env!("CARGO_MANIFEST_DIR"), "HERE")
        .replace(sum, "DATABASE")
        .lines()
        .filter(|line| !DIFFERS.iter().any(|key| line.contains(key)))
        .fold(String::new(), |text, line| text + line + "\n")
    }
}

fn systems(stage: &Stage) -> Vec<String> {
    let rows = stage.database["distributions"]
        .as_array()
        .expect("a list")
        .iter();
    let known = rows.filter_map(|row| {
        Some(format!(
            "{}-{}",
            row["id"].as_str()?,
            row["version"].as_str()?
        ))
    });
    known.chain(FURTHER_SYSTEMS.map(str::to_owned)).collect()
}

fn plans(stage: &Stage) -> Vec<Case> {
    let mut cases = Vec::new();
    for system in systems(stage) {
        for gpu in GPUS {
            let request = ["plan", "--os", &system, "--gpu", gpu];
            let formats = if OFTEN.contains(&gpu) {
                &PLAN_FORMATS[..]
            } else {
                &PLAN_FORMATS[..2]
            };
            cases.extend(
                formats
                    .iter()
                    .map(|format| Case::new(request.iter().chain(&["--format", format]))),
            );
        }
    }
    for system in ["ubuntu-24.04", "debian-12", "rocky-9", "fedora-44"] {
        for request in REQUESTS {
            let fixed = ["plan", "--os", system, "--gpu", "a100"];
            cases.extend(
                ["text", "json"].map(|format| {
                    Case::new(fixed.iter().chain(request).chain(&["--format", format]))
                }),
            );
        }
    }
    cases
}

/// The hosts whose plans are in tests/golden, by their facts.
fn hosts(stage: &Stage) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, facts) in golden::facts() {
        let path = stage.write(
            &format!("facts/{name}.json"),
            serde_json::to_vec(&facts).expect("JSON"),
        );
        let commands = PLAN_FORMATS.map(|format| vec!["plan", "--format", format]);
        for command in commands
            .into_iter()
            .chain([vec!["doctor", "--json"], vec!["doctor"]])
        {
            cases.push(Case::new(command).with("--facts", &path, &name));
        }
    }
    cases
}

fn trees(stage: &Stage) -> Vec<Case> {
    let mut cases = Vec::new();
    for name in [
        "debian-12-p100",
        "jetson-orin",
        "rocky-9-v100",
        "ubuntu-24.04-hgx-h100",
        "wsl2-ubuntu-22.04",
    ] {
        let root = stage.folder.path().join("hosts").join(name);
        copy(
            &Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/hosts")
                .join(name),
            &root,
        );
        let plans = PLAN_FORMATS.map(|format| vec!["plan", "--format", format]);
        for command in plans.into_iter().chain(LOOKS.map(<[&str]>::to_vec)) {
            cases.push(Case::new(command).with("--root", &root, name));
        }
    }
    cases
}

/// Copies a tree. Its files get one time: those of a checkout are of the moment when it was made.
fn copy(from: &Path, to: &Path) {
    let meta = fs::symlink_metadata(from).expect("there");
    if meta.is_symlink() {
        return symlink(fs::read_link(from).expect("a link"), to).expect("linked");
    }
    if meta.is_file() {
        fs::copy(from, to).expect("copied");
        let file = File::options().write(true).open(to).expect("opened");
        return file
            .set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
            .expect("set");
    }
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("listed") {
        let name = entry.expect("an entry").file_name();
        copy(&from.join(&name), &to.join(&name));
    }
}

/// What doctor says of the sick and healthy hosts of the gallery (tests/as_root/gallery), by the
/// reports that were made of them.
fn reports(stage: &Stage) -> Vec<Case> {
    let all =
        File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/reports.tar.zst"));
    let unpacked = zstd::Decoder::new(all.expect("reports")).expect("zstd");
    let mut cases = Vec::new();
    for entry in tar::Archive::new(unpacked).entries().expect("reports") {
        let mut entry = entry.expect("a report");
        let name = entry
            .path()
            .expect("a name")
            .with_extension("")
            .to_str()
            .expect("UTF-8")
            .to_owned();
        let mut evidence = Vec::new();
        entry.read_to_end(&mut evidence).expect("read");
        let report =
            zstd::encode_all(&*packed(&[("evidence.json", &evidence)]), 0).expect("packed");
        let path = stage.write(&format!("reports/{name}.tar.zst"), report);
        for option in ["--json", "--verbose"] {
            let mut case = Case::new(["doctor", option]);
            case.arguments
                .push(path.to_str().expect("UTF-8").to_owned());
            let _ = write!(case.called, " {name}");
            cases.push(case);
        }
    }
    cases
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    subjects: Vec<Subject>,
    #[serde(default)]
    xids: Vec<BTreeMap<String, serde_json::Value>>,
    #[serde(default)]
    sxids: Vec<BTreeMap<String, serde_json::Value>>,
    #[serde(default)]
    errors: Vec<ErrorNumber>,
    #[serde(default)]
    samples: Vec<Sample>,
}

#[derive(Deserialize)]
struct Subject {
    names: Vec<String>,
}

#[derive(Deserialize)]
struct ErrorNumber {
    names: Vec<String>,
}

#[derive(Deserialize)]
struct Sample {
    text: String,
}

fn yaml(path: &str) -> Named {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("there");
    serde_yaml::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn check_ids() -> Vec<String> {
    let schema =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/doctor.json")).expect("there");
    let schema: Value = serde_json::from_slice(&schema).expect("JSON");
    let ids = schema["$defs"]["CheckId"]["enum"]
        .as_array()
        .expect("ids")
        .iter();
    ids.map(|id| id.as_str().expect("text").to_owned())
        .collect()
}

/// `xid 79`.
fn number(row: &BTreeMap<String, Value>, key: &str) -> String {
    format!("{key} {}", row[key])
}

fn explained(stage: &Stage) -> Vec<Case> {
    let mut subjects: Vec<String> = yaml("explain/subjects.yaml")
        .subjects
        .into_iter()
        .filter_map(|s| s.names.into_iter().next())
        .collect();
    // Some of the 700 error numbers, which all go the same way.
    let errors = yaml("explain/errors.yaml").errors.into_iter().step_by(4);
    subjects.extend(errors.filter_map(|e| e.names.into_iter().next()));
    subjects.extend(
        yaml("compat/xids.yaml")
            .xids
            .iter()
            .map(|row| number(row, "xid")),
    );
    subjects.extend(
        yaml("compat/sxids.yaml")
            .sxids
            .iter()
            .map(|row| number(row, "sxid")),
    );
    subjects.extend(
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 130, 143].map(|code| format!("exit {code}")),
    );
    subjects.extend(GPUS.map(str::to_owned));
    let mut cases: Vec<_> = subjects
        .iter()
        .map(|subject| Case::new(["explain", subject]))
        .collect();
    for id in check_ids() {
        cases.push(Case::new(["explain", &id]));
        cases.push(Case::new(["explain", "--lang", "ko", &id]));
    }
    let mut versions: Vec<_> = stage
        .names("cuda_releases", "version")
        .iter()
        .map(|v| format!("cuda {v}"))
        .collect();
    let branches = stage.database["driver_branches"]
        .as_array()
        .expect("a list")
        .iter();
    versions.extend(branches.map(|row| format!("driver {}", row["branch"])));
    versions.extend(
        stage
            .names("frameworks", "name")
            .into_iter()
            .map(str::to_owned),
    );
    versions.extend(stage.names("add_ons", "id").into_iter().map(str::to_owned));
    for version in &versions {
        cases.push(Case::new(["explain", version]));
        for (system, gpu) in [("ubuntu-24.04", "h100"), ("debian-11", "k80")] {
            cases.push(Case::new([
                "explain", version, "--os", system, "--gpu", gpu,
            ]));
        }
    }
    cases
}

fn pasted(stage: &Stage) -> Vec<Case> {
    let mut cases = Vec::new();
    for name in ["known", "kept", "unrelated"] {
        for (n, sample) in yaml(&format!("tests/messages/{name}.yaml"))
            .samples
            .into_iter()
            .enumerate()
        {
            let called = format!("{name}-{n}");
            let path = stage.write(&format!("pasted/{called}"), sample.text);
            cases.push(Case::new(["explain", "-"]).reads(path, &called));
        }
    }
    cases
}

fn database(stage: &Stage) -> Vec<Case> {
    let mut cases = vec![Case::new(["db", "export", "--json"])];
    for list in LISTS {
        cases.extend([&["db", "list", list][..], &["db", "list", list, "--json"]].map(Case::new));
    }
    for gpu in GPUS {
        for list in ["drivers", "cuda", "cudnn", "add-ons"] {
            cases.push(Case::new([
                "db",
                "list",
                list,
                "--for",
                gpu.split([',', 'x']).next().expect("a name"),
            ]));
        }
    }
    let names = [
        ("cuda_releases", "version", "cuda "),
        ("frameworks", "name", ""),
        ("add_ons", "id", ""),
    ];
    for (table, field, kind) in names {
        cases.extend(
            stage
                .names(table, field)
                .iter()
                .map(|name| Case::new(["db", "show", &format!("{kind}{name}")])),
        );
    }
    let releases = stage.names("cuda_releases", "version");
    cases.extend(
        releases
            .windows(2)
            .map(|two| Case::new(["db", "show", "cuda", two[1], two[0]])),
    );
    cases.extend(
        systems(stage)
            .iter()
            .chain(&GPUS.map(str::to_owned))
            .map(|name| Case::new(["db", "show", name])),
    );
    cases
}

fn containers(_: &Stage) -> Vec<Case> {
    let mut cases: Vec<_> = COMMAND_LINES
        .iter()
        .map(|line| Case::new(["container", "translate", line]))
        .collect();
    cases.extend(
        COMMAND_LINES
            .iter()
            .map(|line| Case::new(["container", "translate", "--json", line])),
    );
    for layout in LAYOUTS {
        cases.extend(
            ["a100", "h100", "a30", "b200"]
                .map(|gpu| Case::new(["mig", "plan", "--gpu", gpu, layout])),
        );
    }
    cases
}

/// Every page of help: the program's, and those of the commands that it lists.
fn help(_: &Stage) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut commands = vec![Vec::new()];
    while let Some(command) = commands.pop() {
        let words = |option: &'static str| {
            command
                .iter()
                .map(String::as_str)
                .chain([option])
                .collect::<Vec<_>>()
        };
        let short = program().args(words("-h")).output().expect("gpusetup runs");
        let page = String::from_utf8(short.stdout).expect("UTF-8");
        let listed = page
            .lines()
            .skip_while(|line| !line.starts_with("Usage:"))
            .filter_map(|line| {
                let name = line.strip_prefix("  ")?.split(' ').next()?;
                name.starts_with(|c: char| c.is_ascii_lowercase())
                    .then(|| name.to_owned())
            });
        let has_commands = page
            .lines()
            .any(|line| line.starts_with("Usage:") && line.ends_with("<COMMAND>"));
        commands.extend(
            listed
                .filter(|_| has_commands)
                .map(|name| [&command[..], &[name]].concat()),
        );
        cases.extend(["-h", "--help"].map(|option| Case::new(words(option))));
    }
    cases
}

#[test]
fn what_is_printed_is_what_was_reviewed() {
    let stage = Stage::new();
    let groups: [(&str, Group); 9] = [
        ("plans", plans),
        ("hosts", hosts),
        ("trees", trees),
        ("reports", reports),
        ("explained", explained),
        ("pasted", pasted),
        ("database", database),
        ("containers and MIG", containers),
        ("help", help),
    ];
    let kept = std::env::var_os("KEEP_OUTPUTS").map(PathBuf::from);
    let (mut list, mut names) = (String::new(), BTreeSet::new());
    for (group, made) in groups {
        let mut cases = made(&stage);
        cases.retain(|case| names.insert(case.called.clone()));
        let outputs = on_all_cores(&cases, |case| stage.output(case));
        let _ = writeln!(list, "# {group}: {}", cases.len());
        for (n, (case, output)) in cases.iter().zip(&outputs).enumerate() {
            let _ = writeln!(list, "{} {}", &sha256(output)[..12], case.called);
            if let Some(kept) = &kept {
                let folder = kept.join(group);
                fs::create_dir_all(&folder).expect("made");
                fs::write(
                    folder.join(format!("{n:04}")),
                    format!("$ {}\n{output}", case.called),
                )
                .expect("written");
            }
        }
    }
    assert!(names.len() > 4000, "{}", names.len());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/sums");
    if std::env::var_os("UPDATE_SUMS").is_some() {
        fs::write(&path, list).expect("written");
        return;
    }
    let reviewed = fs::read_to_string(&path).expect("there");
    let reviewed: BTreeSet<&str> = reviewed.lines().collect();
    let changed: Vec<_> = list
        .lines()
        .filter(|line| !reviewed.contains(line))
        .collect();
    assert!(
        changed.is_empty() && reviewed.len() == list.lines().count(),
        "{} answers have changed:\n{}",
        changed.len(),
        changed.join("\n")
    );
}
