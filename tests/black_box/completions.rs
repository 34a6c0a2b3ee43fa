//! Completion as a user has it: real shells, a script out of `gpusetup completions`, lines that are
//! typed and a tab. zsh and fish are tried as well.

use crate::common::{Ran, Tree, program, run};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes the script of a shell, and says where the program is.
fn script(tree: &Tree, shell: &str) -> (String, String) {
    let printed = run(&["completions", shell]);
    assert_eq!(printed.code, 0, "{}", printed.err);
    tree.write("completion", &printed.out);
    let folder = Path::new(env!("CARGO_BIN_EXE_gpusetup"))
        .parent()
        .expect("it is in a folder")
        .display()
        .to_string();
    (tree.path().join("completion").display().to_string(), folder)
}

/// What a shell has on its line after each of these and a tab.
fn typed(shell: &str, lines: &[&str]) -> Vec<String> {
    let tree = Tree::debian_12();
    let (script, folder) = script(&tree, shell);
    let typist = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/type_in_shell.py");
    let mut child = Command::new(typist)
        .args([shell, &script, &folder])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let mut input = child.stdin.take().expect("piped");
    input
        .write_all(lines.join("\n").as_bytes())
        .expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{shell} did not answer");
    String::from_utf8(output.stdout)
        .expect("UTF-8")
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Lines, and what a shell makes of them.
const LINES: [(&str, &str); 9] = [
    ("gpusetup expl", "<gpusetup><explain>"),
    ("gpusetup plan --gpu h10", "<gpusetup><plan><--gpu><h100"),
    ("gpusetup plan --gpu=h20", "<gpusetup><plan><--gpu=h20"),
    (
        "gpusetup plan --os ubuntu-24.0",
        "<gpusetup><plan><--os><ubuntu-24.04>",
    ),
    (
        "gpusetup db show 10de:2330",
        "<gpusetup><db><show><10de:2330>",
    ),
    (
        "gpusetup plan --cuda \">=12.8.1",
        "<gpusetup><plan><--cuda><>=12.8.1>",
    ),
    (
        "gpusetup plan --with nccl==2.29.",
        "<gpusetup><plan><--with><nccl==2.29.",
    ),
    ("gpusetup doctor GS50", "<gpusetup><doctor><GS50"),
    (
        "gpusetup explain cudaErrorNoDev",
        "<gpusetup><explain><cudaErrorNoDevice>",
    ),
];

fn all_are_completed(shell: &str) {
    let lines = LINES.map(|(line, _)| line);
    let answers = typed(shell, &lines);
    assert_eq!(answers.len(), LINES.len(), "{answers:?}");
    for ((line, expected), answer) in LINES.iter().zip(&answers) {
        assert!(answer.starts_with(expected), "{shell}: {line}: {answer}");
    }
}

#[test]
fn bash_completes() {
    all_are_completed("bash");
}

#[test]
fn zsh_completes() {
    all_are_completed("zsh");
}

#[test]
fn fish_completes() {
    let tree = Tree::debian_12();
    let (script, folder) = script(&tree, "fish");
    for (line, first) in [
        ("gpusetup expl", "explain\t"),
        ("gpusetup plan --gpu h2", "h200\t"),
        ("gpusetup plan --gpu=h2", "--gpu=h200\t"),
        ("gpusetup plan --for torch==2.", "torch==2."),
        ("gpusetup db show 10de:2330", "10de:2330\t"),
        ("gpusetup doctor GS20", "GS201\t"),
    ] {
        let command = format!("source {script}; complete --do-complete '{line}'");
        let fish = Command::new("fish")
            .args(["--no-config", "--command", &command])
            .env("PATH", format!("{folder}:/usr/bin:/bin"))
            .env("HOME", tree.path())
            .output()
            .expect("fish is there");
        let out = String::from_utf8_lossy(&fish.stdout);
        assert!(
            out.starts_with(first),
            "{line}: {out}{}",
            String::from_utf8_lossy(&fish.stderr)
        );
    }
}

#[test]
fn installed_toolkits_are_completed() {
    let tree = Tree::debian_12();
    for folder in [
        "cuda-9.2",
        "cuda-12.8",
        "cuda-11.8",
        "cuda",
        "cuda-samples",
        "cudnn-9.1",
    ] {
        std::fs::create_dir_all(tree.path().join("opt").join(folder)).expect("made");
    }
    let prefix = tree.path().join("opt").display().to_string();
    for (line, expected) in [
        (
            ["gpusetup", "use", "--prefix", &prefix, "cuda", ""],
            "12.8:installed\n11.8:installed\n9.2:installed\n",
        ),
        (
            ["gpusetup", "uninstall", "--prefix", &prefix, "--cuda", "1"],
            "12.8:installed\n11.8:installed\n",
        ),
    ] {
        let asked = program()
            .arg("--")
            .args(line)
            .env("_GPUSETUP_COMPLETE", "zsh")
            .output();
        assert_eq!(Ran::of(asked.expect("it runs")).out, expected, "{line:?}");
    }
}

#[test]
fn a_variable_in_the_environment_changes_no_command() {
    for variable in ["COMPLETE", "_GPUSETUP_COMPLETE"] {
        for shell in ["bash", "zsh", "fish", "", "nosuch"] {
            let plan = ["plan", "--os", "ubuntu-24.04", "--gpu", "h100", "--json"];
            let ran = Ran::of(
                program()
                    .args(plan)
                    .env(variable, shell)
                    .output()
                    .expect("it runs"),
            );
            assert_eq!(
                ran.json()["schema"],
                "gpusetup.plan/1",
                "{variable}={shell}"
            );
        }
    }
}

#[test]
fn a_shell_that_asks_runs_nothing() {
    let tree = Tree::debian_12();
    tree.write("config.yaml", "cudda: \"1\"\n");
    let asked = |shell: &str, words: &[&str]| {
        let output = program()
            .arg("--")
            .args(words)
            .env("_GPUSETUP_COMPLETE", shell)
            .env("GPUSETUP_ROOT", "/nonexistent")
            .env("GPUSETUP_CONFIG", tree.path().join("config.yaml"))
            .output();
        Ran::of(output.expect("it runs"))
    };
    for line in [
        "gpusetup apply --yes --unattended --accept-e",
        "gpusetup uninstall --all --ye",
        "gpusetup rollback --ye",
    ] {
        for (shell, words) in [
            ("bash", vec![line, " ="]),
            ("zsh", line.split(' ').collect()),
        ] {
            let ran = asked(shell, &words);
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{line}");
            assert!(
                ran.out.starts_with("--yes") || ran.out.starts_with("--accept-eula"),
                "{line}: {}",
                ran.out
            );
        }
    }
    // Whatever is typed, the answer is an answer.
    let long = "x".repeat(100_000);
    for line in [
        "",
        " ",
        "\u{1b}]0;x\u{7}",
        "gpusetup \u{1b}[31m",
        &format!("gpusetup plan --gpu {long}"),
        "gpusetup plan --gpu \"\\",
    ] {
        for shell in ["bash", "zsh", "fish"] {
            let ran = asked(shell, &[line, ""]);
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{line:?}");
            assert!(!ran.out.contains('\u{1b}'), "{:?}", ran.out);
        }
    }
    assert_ne!(
        asked("nosuch", &["gpusetup", "pl"]).code,
        0,
        "no shell asks"
    );
}
