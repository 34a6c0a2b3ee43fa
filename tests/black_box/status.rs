//! What `status`, `rollback`, `reboot-required` and `cache` report when nothing was applied, when a
//! result or a journal is missing or damaged, and when `--root` is no host.

use crate::common::{Ran, Tree, is_root};
use gpusetup::operation::{Link, Operation, WriteFile};
use gpusetup::plan::{Plan, Step, StepId};
use std::fs;
use std::path::PathBuf;

/// A tree, and a plan for it.
struct Bench {
    tree: Tree,
    folder: tempfile::TempDir,
}

impl Bench {
    /// One that writes a file in each of two steps; `last` is the path of the second.
    fn writing(last: &str) -> Self {
        let write = |path: &str| {
            Operation::WriteFile(WriteFile {
                path: path.into(),
                content: "ours\n".to_owned(),
                mode: 0o644,
                merged_from: None,
            })
        };
        Self::of(vec![
            step(StepId::Environment, write("/etc/first")),
            step(StepId::Ldconfig, write(last)),
        ])
    }

    fn of(steps: Vec<Step>) -> Self {
        let tree = Tree::debian_12();
        let ran = tree.run(&["plan", "--profile", "toolkit", "--json"]);
        let mut plan: Plan =
            serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}", ran.err));
        plan.steps = steps;
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(
            folder.path().join("plan.json"),
            serde_json::to_string(&plan).expect("JSON"),
        )
        .expect("written");
        Self { tree, folder }
    }

    fn apply(&self) -> Ran {
        let plan = self.folder.path().join("plan.json");
        self.tree
            .run(&["apply", plan.to_str().expect("UTF-8"), "--yes"])
    }

    fn state(&self, file: &str) -> PathBuf {
        self.tree.path().join("var/lib/gpusetup").join(file)
    }

    fn status(&self) -> Ran {
        self.tree.run(&["status"])
    }
}

fn step(id: StepId, operation: Operation) -> Step {
    crate::step::step(id, vec![operation])
}

#[test]
fn a_root_that_is_no_host_is_a_usage_error() {
    let empty = tempfile::tempdir().expect("a temporary directory");
    for root in ["/nonexistent", empty.path().to_str().expect("UTF-8")] {
        for command in [
            &["status"][..],
            &["status", "--json"],
            &["reboot-required"],
            &["cache", "list"],
            &["cache", "clean"],
            &["cache", "verify"],
            &["doctor"],
        ] {
            let ran = crate::common::run(&[command, &["--root", root]].concat());
            assert_eq!(ran.code, 2, "{command:?} {root}: {}{}", ran.out, ran.err);
        }
        assert_eq!(
            empty.path().read_dir().expect("listed").count(),
            0,
            "nothing is made in it"
        );
    }
}

#[test]
fn a_rollback_of_nothing_says_so() {
    if !is_root() {
        return;
    }
    let bench = Bench::writing("/etc/second");
    let nothing = |ran: Ran| {
        assert!(
            ran.code == 0 && ran.out.starts_with("Nothing to roll back"),
            "{} {}{}",
            ran.code,
            ran.out,
            ran.err
        );
    };
    for command in ["rollback", "resume"] {
        let ran = bench.tree.run(&[command, "--yes", "--json"]);
        let nothing =
            serde_json::json!({"schema": "gpusetup.status/1", "state": "nothing-applied"});
        assert_eq!(
            (ran.code, ran.json()),
            (0, nothing),
            "{command}: {}",
            ran.err
        );
    }
    nothing(bench.tree.run(&["rollback", "--yes"]));
    assert!(
        !bench.state("result.json").exists(),
        "nothing was done that could be reported"
    );
    assert_eq!(bench.apply().code, 0);
    let ran = bench.tree.run(&["rollback", "--yes"]);
    assert!(
        ran.code == 0 && !ran.out.contains("Nothing"),
        "{}{}",
        ran.out,
        ran.err
    );
    nothing(bench.tree.run(&["rollback", "--yes"]));
    assert!(
        bench.status().out.contains("rolled back"),
        "the earlier rollback is still reported"
    );
}

#[test]
fn the_journal_answers_when_the_result_is_lost() {
    if !is_root() {
        return;
    }
    let bench = Bench::writing("/etc/second");
    assert_eq!(bench.apply().code, 0);
    fs::remove_file(bench.state("result.json")).expect("it stood");
    let status = bench.status();
    assert!(
        status.out.contains("apply finished") && status.out.contains("done"),
        "{}",
        status.out
    );
    // The last record says that the run finished: without it, the run was killed.
    let journal = fs::read_to_string(bench.state("journal")).expect("readable");
    let cut = journal.lines().count() - 2;
    let open: String = journal.split_inclusive('\n').take(cut).collect();
    fs::write(bench.state("journal"), &open).expect("written");
    let status = bench.status();
    assert!(
        status.code == 0 && status.out.contains("was interrupted"),
        "{}{}",
        status.out,
        status.err
    );
    assert!(
        status.out.contains("environment        done"),
        "{}",
        status.out
    );
    assert!(
        status.out.contains("ldconfig           failed"),
        "{}",
        status.out
    );
    let shown = bench.tree.run(&["status", "--json"]).json();
    assert_eq!(
        (&shown["state"], &shown["exit_code"]),
        (&"interrupted".into(), &137.into())
    );
}

#[test]
fn a_result_older_than_the_journal_is_not_reported() {
    if !is_root() {
        return;
    }
    let bench = Bench::writing("/etc/second");
    assert_eq!(bench.apply().code, 0);
    let done = fs::read(bench.state("result.json")).expect("readable");
    assert_eq!(bench.tree.run(&["rollback", "--yes"]).code, 0);
    // As if the rollback could not write its own.
    fs::write(bench.state("result.json"), done).expect("written");
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let file = fs::File::options()
        .write(true)
        .open(bench.state("result.json"))
        .expect("it stands");
    file.set_modified(hour_ago).expect("ours");
    assert!(
        bench.status().out.contains("rolled back"),
        "{}",
        bench.status().out
    );
}

/// Applies a plan on a host whose only file system has so many KiB free, then rolls it back without
/// making room. What differs from the host before, beside gpusetup's own records, is printed.
const ON_A_FULL_DISK: &str = r#"
tree=$1; kib=$2; plan=$3; gpusetup=$4
mount -t tmpfs -o mode=755,size=20m small /mnt || exit 99
cp -a "$tree/." /mnt
list() { (cd /mnt && find . -path ./var/lib/gpusetup -prune -o -path ./var/log -prune -o -path ./run -prune -o -name full -o -printf '%p %m %l\n' | sort
          cat etc/old); }
list >/tmp/before.$$
free=$(($(stat -f -c '%a * %S' /mnt) / 1024))
head -c $(((free - kib) * 1024)) /dev/zero >/mnt/full
"$gpusetup" apply "$plan" --yes --root /mnt >/dev/null 2>/tmp/said.$$; echo "apply $?"; cat /tmp/said.$$ >&2
"$gpusetup" status --root /mnt | head -1
"$gpusetup" rollback --yes --root /mnt >/dev/null 2>/tmp/said.$$; echo "rollback $?"; cat /tmp/said.$$ >&2
list | diff /tmp/before.$$ - && echo clean
ls /mnt/var/lib/gpusetup 2>/dev/null | grep -x reserve
rm -f /tmp/before.$$ /tmp/said.$$
true"#;

#[test]
fn a_full_disk_is_rolled_back_without_making_room() {
    if !is_root() {
        return;
    }
    let write = |path: &str, length: usize| {
        Operation::WriteFile(WriteFile {
            path: path.into(),
            content: "ours ".repeat(length / 5),
            mode: 0o644,
            merged_from: None,
        })
    };
    let bench = Bench::of(vec![
        step(StepId::Environment, write("/etc/old", 40_000)),
        step(
            StepId::FixSymlinks,
            Operation::Link(Link {
                path: "/etc/new/link".into(),
                target: "x".into(),
                soname: None,
            }),
        ),
        step(StepId::Ldconfig, write("/etc/new/large", 300_000)),
        step(StepId::Verify, write("/etc/last", 30_000)),
    ]);
    bench.tree.write("etc/old", &"theirs ".repeat(10_000));
    for folder in ["var/lib", "var/log", "run"] {
        fs::create_dir_all(bench.tree.path().join(folder)).expect("made");
    }
    let mut ends = std::collections::BTreeMap::new();
    for kib in (0..=40).step_by(8).chain((300..2800).step_by(100)) {
        let mut command = std::process::Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", ON_A_FULL_DISK, "sh"])
            .arg(bench.tree.path())
            .arg(kib.to_string());
        command
            .arg(bench.folder.path().join("plan.json"))
            .arg(crate::common::program().get_program());
        let ran = Ran::of(command.output().expect("unshare runs"));
        let stderr = format!("{kib} KiB: {}{}", ran.out, ran.err);
        let mut lines = ran.out.lines();
        let applied = lines.next().expect("apply ended").to_owned();
        let status = lines.next().unwrap_or_default();
        match applied.as_str() {
            "apply 0" => assert!(status.contains("apply finished"), "{stderr}"),
            // Refused before its first change, or stopped in the middle.
            "apply 5" | "apply 7" => {
                assert!(
                    ["failed", "refused", "applied nothing"]
                        .iter()
                        .any(|word| status.contains(word)),
                    "{stderr}"
                )
            }
            _ => panic!("{stderr}"),
        }
        assert_eq!(
            lines.collect::<Vec<_>>(),
            ["rollback 0", "clean"],
            "{stderr}"
        );
        *ends.entry(applied).or_insert(0) += 1;
    }
    assert_eq!(
        ends.keys().collect::<Vec<_>>(),
        ["apply 0", "apply 5", "apply 7"],
        "each end is tried: {ends:?}"
    );
}

#[test]
fn a_log_directory_of_somebody_elses_is_refused() {
    if !is_root() {
        return;
    }
    let bench = Bench::writing("/etc/second");
    let log = bench.tree.path().join("var/log/gpusetup");
    fs::create_dir_all(&log).expect("made");
    std::os::unix::fs::chown(&log, Some(102), Some(102)).expect("root may");
    let victim = bench.tree.path().join("etc/victim");
    std::os::unix::fs::symlink("/etc/victim", log.join("step-1-1.log")).expect("linked");
    let ran = bench.apply();
    assert!(
        ran.code == 5 && ran.err.contains("/var/log/gpusetup is not private"),
        "{} {}",
        ran.code,
        ran.err
    );
    assert!(
        ran.err.contains("user 102") && ran.err.contains("mv /var/log/gpusetup"),
        "{}",
        ran.err
    );
    assert!(
        !victim.exists() && !bench.state("journal").exists(),
        "nothing was written"
    );
}

#[test]
fn a_cache_of_somebody_elses_is_refused_wherever_root_writes_to_it() {
    if !is_root() {
        return;
    }
    let bench = Bench::writing("/etc/second");
    let cache = bench.tree.path().join("srv/cache");
    fs::create_dir_all(&cache).expect("made");
    std::os::unix::fs::chown(&cache, Some(65534), None).expect("root may");
    let plan = bench.folder.path().join("plan.json");
    let out = bench.folder.path().join("bundle");
    let create = [
        "bundle",
        "create",
        "--plan",
        plan.to_str().expect("UTF-8"),
        "-o",
        out.to_str().expect("UTF-8"),
    ];
    for command in [&create[..], &["cache", "clean"], &["cache", "verify"]] {
        let ran = bench
            .tree
            .run(&[command, &["--cache", "/srv/cache"]].concat());
        assert!(
            ran.code == 5 && ran.err.contains("/srv/cache is not private"),
            "{command:?} {} {}",
            ran.code,
            ran.err
        );
    }
}

#[test]
fn a_journal_that_cannot_be_read_is_no_empty_one() {
    if !is_root() {
        return;
    }
    let bench = Bench::writing("/etc/second");
    assert_eq!(bench.apply().code, 0);
    let journal = fs::read_to_string(bench.state("journal")).expect("readable");
    let damaged = journal.replacen("\"event\"", "\"evenr\"", 1);
    let json = r#"{"event":"run","version":99}"#;
    let newer = format!("{} {json}\n", &gpusetup::sum::sha256(json)[..16]);
    let shorter: String = journal
        .split_inclusive('\n')
        .enumerate()
        .filter(|(n, _)| *n != 1)
        .map(|(_, line)| line)
        .collect();
    let cut = journal[..300].to_owned();
    let only_begun: String = journal.split_inclusive('\n').take(1).collect();
    for (text, says) in [
        (damaged, "was altered"),
        (shorter, "record 2 of the journal"),
        (cut, "ends too early"),
        (only_begun, "ends too early"),
        (String::new(), "ends too early"),
        (newer, "newer gpusetup"),
    ] {
        fs::write(bench.state("journal"), &text).expect("written");
        for command in [
            &["status"][..],
            &["status", "--json"],
            &["resume", "--yes"],
            &["rollback", "--yes"],
            &["reboot-required"],
        ] {
            let ran = bench.tree.run(command);
            assert!(
                ran.code == 10 && ran.err.contains(says),
                "{command:?}: {} {}{}",
                ran.code,
                ran.out,
                ran.err
            );
        }
    }
}

#[test]
fn nothing_that_was_applied_is_said_at_once() {
    let tree = Tree::debian_12();
    let status = tree.run(&["status", "--json"]);
    assert_eq!(
        status.json(),
        serde_json::json!({"schema": "gpusetup.status/1", "state": "nothing-applied"})
    );
    let waited = tree.run(&["status", "--wait", "--timeout", "1"]);
    assert!(
        waited.code == 6
            && waited
                .err
                .starts_with("note: gpusetup has applied nothing on this host yet"),
        "{}",
        waited.err
    );
    let nothing = tree.run(&["uninstall", "--dry-run"]);
    assert!(
        nothing.code == 0 && nothing.out.starts_with("Nothing to remove"),
        "{}{}",
        nothing.out,
        nothing.err
    );
    let nowhere = tempfile::tempdir().expect("a temporary folder");
    let ran = crate::common::run(&[
        "uninstall",
        "--dry-run",
        "--root",
        nowhere.path().to_str().expect("UTF-8"),
    ]);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
}

#[test]
fn a_refusal_leaves_the_record_of_the_last_apply() {
    if !is_root() {
        return;
    }
    let bench = Bench::writing("/etc/second");
    let foreign = bench.folder.path().join("foreign.json");
    let mut plan: Plan =
        serde_json::from_slice(&fs::read(bench.folder.path().join("plan.json")).expect("there"))
            .expect("a plan");
    plan.host.machine.arch = "aarch64".to_owned();
    fs::write(&foreign, serde_json::to_string(&plan).expect("JSON")).expect("written");
    let foreign = foreign.to_str().expect("UTF-8");
    let refused: [(&[&str], i32); 9] = [
        (
            &["apply", "--profile", "toolkit", "--cuda", "99", "--yes"],
            4,
        ),
        (&["apply", "rnd", "--yes"], 2),
        (&["apply", "--bundle", "rnd", "--yes"], 2),
        (&["apply", "--gpu", "nosuch", "--yes"], 2),
        (&["apply", foreign, "--yes"], 5),
        (&["apply", "--profile", "toolkit"], 2),
        (&["apply", "--profile", "toolkit", "--yes"], 2),
        (&["apply", "--profile", "toolkit", "--unattended"], 2),
        (
            &[
                "apply",
                "--profile",
                "toolkit",
                "--yes",
                "--accept-eula",
                "--offline",
            ],
            5,
        ),
    ];
    // On a new host, whoever waits for the first apply hears how it ended; the next refusal
    // replaces that.
    for (arguments, code) in refused {
        let ran = bench.tree.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
        let waited = bench
            .tree
            .run(&["status", "--wait", "--timeout", "1", "--json"]);
        assert_eq!(waited.code, code, "{arguments:?}: {}", waited.err);
        let result: serde_json::Value = serde_json::from_str(&waited.out).expect("JSON");
        assert_eq!(crate::schema::mistakes("result.json", &result), [""; 0]);
        assert_eq!(
            (&result["state"], &result["exit_code"]),
            (&"refused".into(), &code.into()),
            "{arguments:?}"
        );
        assert!(!bench.state("journal").exists());
    }
    assert!(
        bench
            .status()
            .out
            .starts_with("nothing was applied here yet; an apply was refused"),
        "{}",
        bench.status().out
    );
    assert_eq!(bench.apply().code, 0);
    let kept = || {
        ["result.json", "journal", "plan.json"]
            .map(|file| fs::read(bench.state(file)).expect("there"))
    };
    let before = kept();
    for (arguments, code) in refused {
        assert_eq!(bench.tree.run(arguments).code, code, "{arguments:?}");
        assert_eq!(kept(), before, "{arguments:?}");
        let waited = bench.tree.run(&["status", "--wait", "--timeout", "1"]);
        assert!(
            waited.code == 0 && waited.out.contains("apply finished"),
            "{arguments:?}: {}",
            waited.out
        );
    }
}

#[test]
fn a_refusal_leaves_what_resumes_an_earlier_apply() {
    if !is_root() {
        return;
    }
    let bench = Bench::writing("/etc/second");
    assert_eq!(bench.apply().code, 0);
    let unit = "etc/systemd/system/gpusetup-resume.service";
    bench
        .tree
        .write(unit, "of the apply that waits for a reboot\n");
    let offline = [
        "apply",
        "--profile",
        "toolkit",
        "--yes",
        "--accept-eula",
        "--offline",
        "--reboot",
        "if-needed",
    ];
    assert_eq!(bench.tree.run(&offline).code, 5);
    assert!(bench.tree.path().join(unit).exists());
}

#[test]
fn an_apply_is_not_resumed_on_another_host() {
    if !is_root() {
        return;
    }
    let bench = Bench::writing("/etc/second");
    assert_eq!(bench.apply().code, 0);
    fs::remove_file(bench.state("result.json")).expect("it stood");
    let journal = fs::read_to_string(bench.state("journal")).expect("readable");
    let open: String = journal
        .split_inclusive('\n')
        .take(journal.lines().count() - 2)
        .collect();
    fs::write(bench.state("journal"), &open).expect("written");
    fs::remove_file(bench.tree.path().join("etc/second")).expect("it stood");
    let own = fs::read_to_string(bench.tree.path().join("etc/os-release")).expect("there");
    bench.tree.write("etc/os-release", &own.replace("12", "13"));
    let refused = bench.tree.run(&["resume", "--yes"]);
    let stderr = refused.err.replace("\n       ", " ");
    let sentence =
        "the interrupted apply was made for Debian 12 on x86_64; this host is Debian 13 on x86_64";
    assert!(
        refused.code == 5 && stderr.contains(sentence) && stderr.contains("gpusetup rollback"),
        "{stderr}"
    );
    assert!(!bench.tree.path().join("etc/second").exists());
    let waited = bench.tree.run(&["status", "--wait", "--timeout", "1"]);
    assert!(
        waited.code == 5 && waited.out.contains("failed"),
        "nobody waits for it: {} {}",
        waited.code,
        waited.out
    );
    // A new kernel does not matter to what is left.
    bench.tree.write("etc/os-release", &own);
    bench
        .tree
        .write("lib/modules/6.1.0-99-amd64/modules.builtin", "");
    assert_eq!(bench.tree.run(&["resume", "--yes"]).code, 0);
    assert!(bench.tree.path().join("etc/second").exists());
}

#[test]
fn an_error_is_not_taken_for_no_reboot() {
    let tree = Tree::debian_12();
    assert_eq!(tree.run(&["reboot-required"]).code, 1);
    let full = fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("Linux has it");
    let mut command = crate::common::program();
    command
        .args(["reboot-required", "--json", "--root"])
        .arg(tree.path())
        .stdout(full);
    let ran = command.status().expect("it runs");
    assert_eq!(ran.code(), Some(5));
    assert_eq!(tree.run(&["reboot-required", "--nosuch"]).code, 2);
}

#[test]
fn which_command_runs_decides_over_the_code_of_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("reboot-required"), "").expect("written");
    for (words, code) in [
        (
            &["--config", "reboot-required", "reboot-required", "--json"][..],
            5,
        ),
        (
            &["--config=reboot-required", "reboot-required", "--help"],
            5,
        ),
        (&["reboot-required", "explain", "--json"], 2),
        (&["explain", "GS201", "--config", "reboot-required"], 1),
        (&["man", "reboot-required"], 1),
        (&["explain", "--help", "reboot-required"], 1),
    ] {
        let full = fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("Linux has it");
        let mut command = crate::common::program();
        let ran = command
            .current_dir(folder.path())
            .args(words)
            .stdout(full)
            .status()
            .expect("it runs");
        assert_eq!(ran.code(), Some(code), "{words:?}");
    }
}
