//! The shipped database, and databases that are wrong.

use gpusetup::compat::{LoadError, ModuleFlavour, PciDevice, load, parse};
use gpusetup::embedded;
use std::path::Path;

#[test]
fn what_the_binary_carries_is_what_the_files_say() {
    let files = load(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("the shipped facts are right");
    assert_eq!(embedded::database(), files);
    let counts = [files.gpus.len(), files.drivers.len(), files.cuda.len(), files.cudnn_artifacts.len()];
    assert!(counts[0] > 2500 && counts[1] > 450 && counts[2] > 70 && counts[3] > 350, "{counts:?}");
}

#[test]
fn the_famous_quirks_are_in_it() {
    let db = embedded::database();
    let gpu = |device| db.gpu(PciDevice(device), None).expect("a known GPU");
    let (open, proprietary) = (ModuleFlavour::Open, ModuleFlavour::Proprietary);
    // NVIDIA's own list flags these as open-module capable; they have no GSP.
    for old in [0x15f9, 0x1db1, 0x1c02] {
        assert_eq!(gpu(old).modules, [proprietary]);
        assert_eq!(gpu(old).last_driver_branch.as_deref(), Some("580"));
    }
    for new in [0x2901, 0x2b85, 0x2342] {
        assert_eq!(gpu(new).modules, [open], "{}", gpu(new).name);
    }
    assert_eq!(gpu(0x2330).modules, [open, proprietary]);
    let lowest = |version: &str| db.cuda(version.parse().expect("valid")).expect("known").lowest_capability.to_string();
    assert_eq!(
        (lowest("13.0.0").as_str(), lowest("12.9.1").as_str(), lowest("11.8.0").as_str()),
        ("7.5", "5.0", "3.5")
    );
    let last_power = db
        .cuda_artifacts
        .iter()
        .filter(|a| a.artifact.arch == "ppc64le" && a.artifact.sha256.is_some())
        .map(|a| a.version)
        .max();
    assert_eq!(last_power.map(|v| v.to_string()).as_deref(), Some("12.4.1"));
    assert_eq!(db.branch(620).map(|b| b.modules.clone()), Some(vec![open]));
}

#[test]
fn every_archive_of_cudnn_9_has_its_needs() {
    let db = embedded::database();
    for a in db.cudnn_artifacts.iter().filter(|a| a.version.major == 9) {
        assert!(db.cudnn_range(a.version, &a.cuda_line).is_some(), "{} for {}", a.version, a.cuda_line);
    }
}

/// A database of one file beside a source.
fn wrong(text: &str) -> String {
    let base = "version: \"2026.11.20\"\nsources:\n  - {id: here, title: \"T\", location: \"L\"}\n";
    match parse([("compat/a.yaml", base), ("compat/b.yaml", text)]) {
        Ok(_) => panic!("this should be refused:\n{text}"),
        Err(e @ (LoadError::Shape { .. } | LoadError::Wrong(_))) => e.to_string(),
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn wrong_facts_are_told_with_their_place() {
    let cuda = "cuda:\n  - version: \"12.10\"\n    minimum_driver: \"525.60.13\"\n    lowest_capability: \"5.0\"\n    highest_capability: \"9.0\"\n    sources: [here]\n";
    for (text, says) in [
        (cuda.replace("\"12.10\"", "12.10"), &["compat/b.yaml", "line 2"][..]),
        (cuda.replace("sources: [here]", "sources: [there]"), &["cuda 12.10", "sources", "there"]),
        (cuda.replace("sources: [here]", "sources: []"), &["cuda 12.10", "without a source"]),
        (cuda.replace("minimum_driver", "minimum_drivr"), &["compat/b.yaml", "minimum_drivr", "line 3"]),
        (format!("{cuda}    version: \"12.9\"\n"), &["compat/b.yaml", "version", "line 7"]),
        (cuda.replace("\"5.0\"", "\"9.1\""), &["lowest_capability", "9.1 is above 9.0"]),
        (format!("{cuda}{}", &cuda[6..]), &["cuda 12.10", "there twice"]),
        (
            "cuda_artifacts:\n  - {version: \"12.8.1\", artifact: {arch: x86_64, file: \"a.run\", sha256: \"ABC\", sources: [here]}}\n".to_owned(),
            &["a.run", "sha256", "not 64 lower-case"],
        ),
    ] {
        let error = wrong(&text);
        assert!(says.iter().all(|s| error.contains(s)), "should say {says:?}:\n{error}");
    }
}
