//! The answers to everything that newcomers typed in a review, as they are shown: `tests/ux/run`
//! asks, `tests/ux/answers.snap` has the answers. `INSTA_UPDATE=always cargo test --test black_box
//! ux::` writes them again.

use crate::common::Tree;
use std::path::Path;
use std::process::Command;

#[test]
fn newcomers_get_the_answers_that_were_reviewed() {
    let tree = Tree::debian_12();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ux/run");
    let ran = Command::new(script)
        .arg(env!("CARGO_BIN_EXE_gpusetup"))
        .arg(tree.path())
        .output()
        .expect("bash");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let answers = String::from_utf8(ran.stdout).expect("UTF-8");
    for answer in answers.split("\n$ ").skip(1) {
        let code = answer
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("exit "))
            .expect("an exit code");
        let helps = answer.lines().any(|line| {
            ["! try: ", "! hint: ", "!   tip: ", "Usage: ", "! For more"]
                .iter()
                .any(|word| line.contains(word))
        });
        let is_finding = answer.starts_with("gpusetup doctor");
        assert!(
            code == "0" || helps || is_finding,
            "nothing helps after:\n$ {answer}"
        );
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../ux");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("answers", answers));
}
