//! `--method repository`: which repository a plan adds for which system, and what it refuses. What apt and dnf make of the files, and
//! the undo, are tested in `tests/as_root/repository.rs`.

use crate::common::{Tree, run};
use serde_json::{Value, json};

const KEYS: [(&str, &str); 5] = [
    ("debian-12", "EB693B3035CD5710E231E123A4B469963BF863CC"),
    ("debian-13", "02182E60104FCDC26EAE1B8597A5D4CB8793F200"),
    ("rhel-9", "610C7B14E068A878070DA4E99CD0A493D42D0685"),
    ("sles-15", "610C7B14E068A878070DA4E99CD0A493D42D0685"),
    ("opensuse-leap-16", "CF65941A859D4B4E6870F188736A284B3A8B5622"),
];

fn wish<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["plan", "--gpu", "a100", "--profile", "driver"], more].concat()
}

/// The operations of a step.
fn operations<'a>(plan: &'a Value, step: &str) -> Vec<&'a Value> {
    let steps = plan["steps"].as_array().expect("steps").iter().filter(|s| s["id"] == step);
    steps.flat_map(|s| s["operations"].as_array().expect("operations")).collect()
}

#[test]
fn each_system_has_its_repository_and_key() {
    for (os, fingerprint) in KEYS {
        let plan = run(&wish(&["--os", os, "--method", "repository", "--json"])).json();
        assert_eq!(plan["selection"]["driver"]["method"], "repository", "{os}");
        let [added] = operations(&plan, "add-repository")[..] else { panic!("{os}: {plan}") };
        assert_eq!((&added["op"], &added["keys"][0]["fingerprint"]), (&json!("add-repository"), &json!(fingerprint)));
        // It comes before the packages; a mirror takes the place of NVIDIA's server, and the host's source names it.
        let ids: Vec<_> = plan["steps"].as_array().expect("steps").iter().map(|s| s["id"].as_str()).collect();
        let at = |id: &str| ids.iter().position(|i| *i == Some(id));
        assert!(at("add-repository") < at("install-driver"), "{ids:?}");
        let mirrored = ["--os", os, "--method", "repository", "--json", "--mirror", "https://mirror.example/nvidia"];
        let mirrored = run(&wish(&mirrored)).json();
        let url = operations(&mirrored, "add-repository")[0]["url"].as_str().expect("an address").to_owned();
        assert!(url.starts_with("https://mirror.example/nvidia/compute/cuda/repos/"), "{url}");
        assert_ne!(mirrored["fingerprint"], plan["fingerprint"], "{os}");
    }
    let script = run(&wish(&["--os", "debian-12", "--method", "repository", "--format", "sh"])).out;
    for part in [
        "Signed-By: /usr/share/keyrings/gpusetup-",
        "Pin: version 595.*",
        "gpg --no-options",
        KEYS[0].1,
        "command -v gpg",
    ] {
        assert!(script.contains(part), "{part}: {script}");
    }
}

#[test]
fn packages_come_before_it_and_the_runfile_after() {
    let method = |os: &str, more: &[&str]| {
        let plan = run(&wish(&[&["--os", os, "--json"], more].concat())).json();
        plan["selection"]["driver"]["method"].as_str().map(str::to_owned)
    };
    assert_eq!(method("ubuntu-24.04", &[]).as_deref(), Some("packages"));
    assert_eq!(method("rocky-9", &[]).as_deref(), Some("repository"));
    assert_eq!(method("debian-12", &[]).as_deref(), Some("runfile"), "contrib may be needed, and is not enabled");
    assert_eq!(method("debian-12", &["--method", "repository"]).as_deref(), Some("repository"));
    assert_eq!(method("debian-12", &["--method", "runfile"]).as_deref(), Some("runfile"));
    assert_eq!(method("debian-11", &[]).as_deref(), Some("runfile"), "no repository of a supported system");
    // Enabled already, it is the host's own, and nothing is added.
    let facts = |repositories: Value| {
        let mut facts = run(&wish(&["--os", "rhel-9", "--json"])).json()["host"].take();
        facts["repositories"] = repositories;
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), facts.to_string()).expect("written");
        file
    };
    let file = facts(json!(["https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64 cuda"]));
    let path = file.path().to_str().expect("UTF-8");
    let plan = run(&["plan", "--facts", path, "--profile", "driver", "--method", "repository", "--json"]).json();
    assert_eq!(plan["selection"]["driver"]["method"], "packages");
    assert!(operations(&plan, "add-repository").is_empty());
    // That of another system is refused, with both.
    let file = facts(json!(["https://developer.download.nvidia.com/compute/cuda/repos/rhel8/x86_64 cuda"]));
    let path = file.path().to_str().expect("UTF-8");
    let said = run(&["plan", "--facts", path, "--profile", "driver", "--method", "repository"]);
    assert!(said.code == 5 && said.err.contains("/rhel8/") && said.err.contains("/rhel9"), "{}", said.err);
}

#[test]
fn it_is_refused_where_there_is_none_or_another_vendors_driver() {
    let said = run(&wish(&["--os", "ubuntu-24.04", "--method", "repository"]));
    assert!(said.code == 4 && said.err.contains("the database knows none for Ubuntu 24.04"), "{}", said.err);
    assert!(!said.err.contains("driver 6"), "no driver in particular was asked for: {}", said.err);
    let plan = run(&wish(&["--os", "debian-12", "--json"])).json();
    let method = plan["reasons"].as_array().expect("reasons").iter().find(|reason| reason["subject"] == "method");
    assert!(method.expect("a reason")["text"].to_string().contains("--method repository adds NVIDIA's"), "{method:?}");
    let said = run(&wish(&["--os", "debian-12", "--method", "packages"]));
    assert!(said.code == 4 && said.err.contains("--method repository"), "{}", said.err);
    let tree = Tree::debian_12();
    tree.write(
        "var/lib/dpkg/status",
        "Package: libcuda1\nStatus: install ok installed\nArchitecture: amd64\nVersion: 535.261.03-1\n",
    );
    let said = tree.run(&wish(&["--method", "repository", "--upgrade"]));
    assert!(
        said.code == 5 && said.err.contains("GS402") && said.err.contains("sudo gpusetup uninstall"),
        "{}",
        said.err
    );
}
