//! `--json`: every subcommand that prints takes it and prints one JSON value and nothing else on
//! standard output, also when it fails.

use crate::common::{Ran, Tree, run};
use serde_json::Value;
use std::fs;

/// Commands that print a text in a format of its own.
const OTHER_FORMATS: [&str; 2] = ["completions", "man"];

/// Every command without subcommands, as it is typed.
fn leaves(command: &clap::Command, path: &[String]) -> Vec<Vec<String>> {
    let visible: Vec<_> = command
        .get_subcommands()
        .filter(|c| !c.is_hide_set())
        .collect();
    if visible.is_empty() {
        return vec![path.to_vec()];
    }
    let below = |sub: &&clap::Command| leaves(sub, &[path, &[sub.get_name().to_owned()]].concat());
    visible.iter().flat_map(below).collect()
}

fn commands() -> Vec<Vec<String>> {
    let all = leaves(&gpusetup::cli::command(), &[]);
    assert!(all.len() >= 25, "{all:?}");
    all.into_iter()
        .filter(|path| !OTHER_FORMATS.contains(&path[0].as_str()))
        .collect()
}

/// Arguments that make a command do something on a tree, in a folder for its files.
fn arguments(command: &str, tree: &str, folder: &str) -> Option<Vec<String>> {
    let repository = env!("CARGO_MANIFEST_DIR");
    let text = match command {
        "facts" | "list" | "status" | "reboot-required" => format!("--root {tree}"),
        "prune" => format!("--root {tree} --dry-run"),
        "use" => format!("cuda 12.8 --root {tree} --yes"),
        "plan" => format!("--root {tree} --gpu h100"),
        "apply" => {
            format!("--root {tree} --gpu h100 --for torch==2.9 --driver none --cuda none --yes")
        }
        "resume" | "rollback" | "uninstall" => format!("--root {tree} --yes"),
        "doctor" => format!("--root {tree}"),
        "explain" => "GS201".to_owned(),
        "db list" => "cuda".to_owned(),
        "db show" => "h100".to_owned(),
        "db export" | "db check" => String::new(),
        "db matrix" => format!("--html {folder}/matrix.html"),
        "db pack" => format!("{repository} --out {folder}/database.tar.xz"),
        "db update" => format!("--built-in --database-store {folder}/store"),
        "self update" => "--dry-run".to_owned(),
        "self verify" => {
            format!(
                "{repository}/tests/common/signed/text --key {repository}/tests/common/signed/one.pub"
            )
        }
        "self uninstall" => "--dry-run".to_owned(),
        "cache list" | "cache clean" | "cache verify" => {
            format!("--root {tree} --cache /var/cache/gpusetup")
        }
        "bundle create" => format!(
            "--os debian-12 --gpu h100 --profile toolkit --offline --root {tree} --out {folder}/bundle --cache {folder}/cache"
        ),
        "bundle pack" => {
            format!("{repository}/tests/frozen/0.1/bundle --out {folder}/bundle.tar.zst")
        }
        "mig list" => "--gpu a100-sxm4-40gb".to_owned(),
        "mig plan" => "--gpu a100-sxm4-40gb 7x1g.5gb".to_owned(),
        "mig apply" => format!("--root {tree} 7x1g.5gb --yes"),
        "mig restore" => format!("--root {tree}"),
        "mig assert" => format!("--root {tree} 7x1g.5gb"),
        "mig export" => format!("--root {tree}"),
        "container check" => {
            format!("{repository}/tests/images/cuda-11.2 --driver 550.54.15 --gpu a100")
        }
        "container translate" => return Some(vec!["docker run --gpus all x".to_owned()]),
        "bundle verify" => format!("{repository}/tests/frozen/0.1/bundle"),
        _ => return None,
    };
    Some(text.split_whitespace().map(str::to_owned).collect())
}

/// With a toolkit for `use` to choose.
fn with_toolkit(tree: Tree) -> Tree {
    tree.write(
        "usr/local/cuda-12.8/version.json",
        "{\"cuda\": {\"version\": \"12.8.1\"}}",
    );
    tree
}

/// The one JSON value on standard output.
fn alone(ran: &Ran, what: &str) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{what}: {e}\n{}{}", ran.out, ran.err))
}

#[test]
fn every_command_prints_one_json_value() {
    for path in commands() {
        let name = path.join(" ");
        let (tree, folder) = (
            with_toolkit(Tree::debian_12()),
            tempfile::tempdir().expect("a temporary folder"),
        );
        let [tree, place] =
            [tree.path(), folder.path()].map(|path| path.to_str().expect("UTF-8").to_owned());
        let own = arguments(&name, &tree, &place)
            .unwrap_or_else(|| panic!("{name} is new: say how it is called"));
        let all: Vec<_> = path
            .iter()
            .map(String::as_str)
            .chain(own.iter().map(String::as_str))
            .chain(["--json"])
            .collect();
        let ran = run(&all);
        let value = alone(&ran, &name);
        let schema = value["schema"].as_str().unwrap_or_default();
        assert!(schema.starts_with("gpusetup."), "{name}: {value}");
        if schema == "gpusetup.error/1" {
            assert_eq!(value["exit_code"], ran.code, "{name}: {}", ran.err);
            assert!(
                value["error"]
                    .as_str()
                    .is_some_and(|error| !error.is_empty()),
                "{name}: {value}"
            );
            assert_ne!(ran.code, 2, "{name} is called wrongly: {}", ran.err);
        } else {
            let says_no = matches!(
                (name.as_str(), ran.code),
                ("reboot-required", 1) | ("doctor", 9)
            );
            assert!(ran.code == 0 || says_no, "{name}: {} {}", ran.code, ran.err);
        }
    }
}

#[test]
fn every_refusal_is_an_object_too() {
    for path in commands() {
        let name = path.join(" ");
        let path = path.iter().map(String::as_str);
        let ran = run(&path
            .chain(["--no-such-option", "--json"])
            .collect::<Vec<_>>());
        let value = alone(&ran, &name);
        assert_eq!(
            (&value["schema"], &value["exit_code"], ran.code),
            (&"gpusetup.error/1".into(), &2.into(), 2),
            "{name}"
        );
    }
}

#[test]
fn a_list_of_checks_and_mistakes_of_a_database_are_objects() {
    let listed = run(&["doctor", "--list-checks", "--json"]).json();
    let checks = listed["checks"].as_array().expect("checks");
    assert!(
        checks
            .iter()
            .any(|c| c["id"] == "GS201" && c["reads"].is_string() && c["elsewhere"].is_null()),
        "{listed}"
    );
    assert!(
        checks
            .iter()
            .any(|c| c["id"] == "GS402" && c["reads"].is_null() && c["elsewhere"].is_string()),
        "{listed}"
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(folder.path().join("compat")).expect("made");
    fs::write(folder.path().join("compat/gpus.yaml"), "gpus: 1\n").expect("written");
    let ran = run(&[
        "db",
        "check",
        folder.path().to_str().expect("UTF-8"),
        "--json",
    ]);
    let value = alone(&ran, "db check");
    assert_eq!(
        (&value["schema"], &value["exit_code"]),
        (&"gpusetup.error/1".into(), &10.into()),
        "{value}"
    );
}
