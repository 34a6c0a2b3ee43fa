//! What the config file and the environment set, and how a wrong value there is reported.

use crate::common::{program, run};
use std::fs;
use std::path::Path;

#[test]
fn a_wrong_value_is_traced_to_where_it_is_set() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.yaml");
    let path = file.display().to_string();
    let here = format!("the config file {path}");
    for (text, parts) in [
        (
            "cuda: \"banana\"\n",
            [
                "`banana` is not a CUDA version",
                &format!("hint: --cuda is set by {here}"),
            ],
        ),
        (
            "profile: nonsense\n",
            [
                &format!("{here} sets --profile to `nonsense`"),
                "hint: it can be compute, driver",
            ],
        ),
        (
            "cuda: 12.10\n",
            [
                "a version or a fraction must be quoted, such as \"12.8\"",
                "line 1",
            ],
        ),
    ] {
        fs::write(&file, text).expect("written");
        let ran = run(&["plan", "--gpu", "h100", "--config", &path]);
        assert_eq!(ran.code, 2, "{text}");
        let words = ran.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            parts.iter().all(|part| words.contains(part)),
            "{text}: {}",
            ran.err
        );
    }
    fs::write(&file, "cuda: \"banana\"\n").expect("written");
    let ran = run(&["plan", "--gpu", "h100", "--config", &path, "--cuda", "pear"]);
    assert!(
        ran.err.contains("`pear`") && !ran.err.contains("is set by"),
        "{}",
        ran.err
    );

    let set = program()
        .args(["plan", "--gpu", "h100"])
        .env("GPUSETUP_CUDA", "banana")
        .output()
        .expect("it runs");
    let err = String::from_utf8_lossy(&set.stderr);
    assert!(
        err.contains("hint: --cuda is set by the environment variable GPUSETUP_CUDA"),
        "{err}"
    );
}

#[test]
fn the_example_of_a_config_file_is_understood() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/config.yaml");
    let text = fs::read_to_string(path).expect("there");
    // A key that is commented out: `# cuda: "12.8"`.
    let is_key = |line: &&str| {
        let key = line
            .strip_prefix("# ")
            .and_then(|line| line.split_once(": "))
            .map(|(key, _)| key);
        key.is_some_and(|key| key.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
    };
    let keys: Vec<_> = text.lines().filter(is_key).map(|line| &line[2..]).collect();
    assert!(keys.len() >= 8, "{text}");
    let config = tempfile::NamedTempFile::new().expect("a file");
    fs::write(config.path(), keys.join("\n")).expect("written");
    let config = config.path().display().to_string();
    let ran = run(&[
        "plan",
        "--config",
        &config,
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "h100",
    ]);
    assert!(
        ran.code == 0 && ran.out.contains("driver 580.") && ran.out.contains("CUDA 12.8."),
        "{}{}",
        ran.out,
        ran.err
    );
}
