//! NVIDIA's licences: which options accept them.

use crate::common::is_root;
use crate::other_hosts::{host, planned, text};
use std::fs;

#[test]
fn licences_are_accepted_by_their_own_option_alone() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tree = host();
    let plan = planned(folder.path(), &tree, &[]);
    for silent in ["--yes", "--unattended"] {
        let ran = tree.run(&["apply", text(&plan), silent, "--offline"]);
        assert!(
            ran.code == 2 && ran.err.contains("NVIDIA's licences"),
            "{silent}: {} {}",
            ran.code,
            ran.err
        );
        let command = ran
            .err
            .lines()
            .find_map(|line| line.strip_prefix("try: "))
            .expect("a command");
        let root = tree.path().display();
        let whole = format!(
            "sudo gpusetup apply {} {silent} --offline --root {root} --accept-eula",
            text(&plan)
        );
        assert_eq!(command, whole);
        let ran = tree.run(&["apply", text(&plan), silent, "--offline", "--accept-eula"]);
        assert!(ran.err.contains("in the cache"), "{silent}: {}", ran.err);
        let config = folder.path().join("config.yaml");
        fs::write(&config, "accept-eula: true\n").expect("written");
        let ran = tree.run(&[
            "apply",
            text(&plan),
            silent,
            "--offline",
            "--config",
            text(&config),
        ]);
        assert!(ran.err.contains("in the cache"), "{silent}: {}", ran.err);
    }
    // Nobody is there to answer.
    let ran = tree.run(&["apply", text(&plan)]);
    assert!(
        ran.code == 2 && ran.err.contains(" --yes --accept-eula"),
        "{}",
        ran.err
    );
}
