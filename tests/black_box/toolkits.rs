//! Several toolkits side by side: what is planned for them, what is refused, and what is listed.
//! What becomes of real ones is tested in `tests/as_root/toolkits.rs`.

use crate::common::{Tree, run};
use crate::schema;
use serde_json::{Value, json};

const A100: [&str; 6] = ["plan", "--os", "ubuntu-22.04", "--gpu", "a100", "--json"];

fn planned(more: &[&str]) -> Value {
    let plan = run(&[&A100[..], more].concat()).json();
    assert_eq!(schema::mistakes("plan.json", &plan), [""; 0], "{more:?}");
    plan
}

fn ids(plan: &Value) -> Vec<&str> {
    plan["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .filter_map(|step| step["id"].as_str())
        .collect()
}

fn step<'a>(plan: &'a Value, id: &str) -> &'a Value {
    plan["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .find(|step| step["id"] == id)
        .unwrap_or_else(|| panic!("no {id}"))
}

#[test]
fn each_toolkit_gets_the_add_ons_that_fit_it_and_the_first_is_the_default() {
    let plan = planned(&["--cuda", "12.4", "--cuda", "11.8", "--with", "nccl==2.27"]);
    let selection = &plan["selection"];
    let [first, second] = selection["toolkits"]
        .as_array()
        .expect("toolkits")
        .as_slice()
    else {
        panic!("{selection}")
    };
    assert_eq!(
        (&first["cuda"], &first["cudnn"]),
        (&selection["cuda"], &selection["cudnn"])
    );
    assert_eq!(
        (&first["cuda"]["version"], &second["cuda"]["version"]),
        (&json!("12.4.1"), &json!("11.8.0"))
    );
    assert_eq!(
        (
            &first["cudnn"]["cuda_major"],
            &second["cudnn"]["cuda_major"]
        ),
        (&json!(12), &json!(11))
    );
    assert_ne!(
        first["add_ons"]["nccl"]["version"],
        second["add_ons"]["nccl"]["version"]
    );
    let installs: Vec<_> = ids(&plan)
        .into_iter()
        .filter(|id| id.starts_with("install-"))
        .collect();
    let wanted = [
        "install-driver",
        "install-cuda",
        "install-cudnn",
        "install-nccl",
        "install-cuda-11.8",
        "install-cudnn-11.8",
        "install-nccl-11.8",
    ];
    assert_eq!(installs, wanted);
    let links = step(&plan, "fix-symlinks")["operations"]
        .as_array()
        .expect("operations")
        .clone();
    assert_eq!(
        (&links[0]["path"], &links[0]["target"]),
        (&json!("/usr/local/cuda"), &json!("cuda-12.4"))
    );
    let is_of_second = |link: &Value| {
        link["path"]
            .as_str()
            .is_some_and(|path| path.starts_with("/usr/local/cuda-11.8/"))
    };
    assert!(links.iter().any(is_of_second), "{links:?}");
    let asks = step(&plan, "verify")["operations"].to_string();
    assert!(
        asks.contains("/usr/local/cuda-11.8/bin/nvcc") && asks.contains("release 11.8"),
        "{asks}"
    );
    let reasons = plan["reasons"].as_array().expect("reasons");
    let of = |subject: &str| {
        reasons
            .iter()
            .find(|r| r["subject"] == subject)
            .and_then(|r| r["text"].as_str())
            .expect("a reason")
    };
    insta::assert_snapshot!(of("default"), @"CUDA 12.4 becomes the default, because it was named first");
    insta::assert_snapshot!(of("nccl 11.8"), @"for CUDA 11.8 the newest that fits it: the requested 2.27 does not");
    // The same in a lock file.
    let (tree, folder) = (
        Tree::ubuntu_24_04().gxx(13),
        tempfile::tempdir().expect("a folder"),
    );
    let lock = folder.path().join("stack.lock");
    let lock = lock.to_str().expect("UTF-8");
    let host = ["plan", "--gpu", "a100", "--profile", "toolkit", "--json"];
    let here = |more: &[&str]| tree.run(&[&host[..], more].concat()).json();
    let locked = here(&["--cuda", "12.4,13.0", "--with", "nccl", "--lock", lock]);
    assert_eq!(here(&["--locked", lock])["selection"], locked["selection"]);
}

#[test]
fn a_refusal_names_the_toolkit_that_does_not_fit() {
    for (wish, code, sentence, attempt) in [
        (
            ["--gpu", "h100", "--cuda", "12.4", "--cuda", "11.2"],
            4,
            "--cuda 11.2: CUDA 11.2",
            "--cuda 12.4  # fits",
        ),
        (
            ["--gpu", "k80", "--cuda", "12.4", "--cuda", "11.2"],
            4,
            "--cuda 12.4: CUDA 12.4",
            "--cuda 11.4.4 --cuda 11.2  # fits",
        ),
        (
            ["--gpu", "a100", "--cuda", "12", "--cuda", "12.9"],
            2,
            "both choose CUDA 12.9",
            "",
        ),
        (
            ["--gpu", "a100", "--cuda", "none", "--cuda", "12.9"],
            2,
            "--cuda: `none` leaves the toolkit out",
            "--gpu a100 --cuda 12.9",
        ),
        (
            ["--gpu", "a100", "--cuda", "12.9", "--cuda", "99.1"],
            4,
            "--cuda 99.1: no CUDA release",
            "--cuda 12.9  # fits",
        ),
    ] {
        let ran = run(&[&["plan", "--os", "ubuntu-22.04"], &wish[..]].concat());
        assert_eq!(ran.code, code, "{wish:?}: {}", ran.err);
        assert!(
            ran.err.contains(sentence) && ran.err.contains(attempt),
            "{wish:?}: {}",
            ran.err
        );
    }
}

#[test]
fn a_config_file_and_a_variable_name_several() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "cuda: [\"12.4\", \"11.8\"]\n").expect("written");
    let config = file.path().to_str().expect("UTF-8");
    let by_file = run(&[&["--config", config], &A100[..]].concat()).json();
    assert_eq!(
        by_file["selection"],
        planned(&["--cuda", "12.4", "--cuda", "11.8"])["selection"]
    );
    std::fs::write(file.path(), "cuda: \"12.4, 11.8\"\n").expect("written");
    let in_one_text = run(&[&["--config", config], &A100[..]].concat()).json();
    assert_eq!(by_file["selection"], in_one_text["selection"]);
    let range = planned(&["--cuda", ">=12.4, <12.5, 11.8"]);
    assert_eq!(
        by_file["selection"]["toolkits"],
        range["selection"]["toolkits"]
    );
}

#[test]
fn each_option_is_a_toolkit_even_if_it_is_a_range() {
    let versions = |plan: &Value| {
        let toolkits = plan["selection"]["toolkits"]
            .as_array()
            .expect("several")
            .clone();
        toolkits
            .iter()
            .map(|toolkit| toolkit["cuda"]["version"].to_string())
            .collect::<Vec<_>>()
    };
    for (first, second) in [
        ("~=12.4", "~=11.8"),
        ("11.8", ">=12.4,<12.5"),
        ("<12.5", "<12"),
    ] {
        let [plan, other] =
            [[first, second], [second, first]].map(|[a, b]| planned(&["--cuda", a, "--cuda", b]));
        let (mut found, reversed) = (versions(&plan), versions(&other));
        found.reverse();
        assert_eq!(
            (found.len(), &found),
            (2, &reversed),
            "{first} and {second}"
        );
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "cuda: [\">=12.4, <12.5\", \">=11, <12\"]\n").expect("written");
    let by_file = run(&[
        &["--config", file.path().to_str().expect("UTF-8")],
        &A100[..],
    ]
    .concat())
    .json();
    assert_eq!(versions(&by_file), ["\"12.4.1\"", "\"11.8.0\""]);
}

/// A host with two toolkits of which 11.8 is the default.
fn two_toolkits() -> Tree {
    let tree = Tree::ubuntu_24_04().gxx(13);
    for (version, series) in [("12.4.1", "12.4"), ("11.8.0", "11.8")] {
        let nvcc = format!("usr/local/cuda-{series}/bin/nvcc");
        tree.write(&nvcc, "");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(tree.path().join(nvcc), mode).expect("set");
        let json = format!("{{\"cuda\": {{\"name\": \"CUDA SDK\", \"version\": \"{version}\"}}}}");
        tree.write(&format!("usr/local/cuda-{series}/version.json"), &json);
    }
    tree.link("usr/local/cuda", "cuda-11.8");
    tree
}

#[test]
fn a_later_toolkit_leaves_the_first_and_says_which_is_the_default() {
    let tree = two_toolkits();
    let plan = |more: &[&str]| {
        let root = [
            "plan",
            "--root",
            tree.path().to_str().expect("UTF-8"),
            "--gpu",
            "a100",
            "--json",
            "--profile",
            "toolkit",
        ];
        run(&[&root[..], more].concat()).json()
    };
    let default = |plan: &Value| {
        let reasons = plan["reasons"].as_array().expect("reasons").iter();
        reasons
            .clone()
            .find(|r| r["subject"] == "default")
            .map(|r| r["text"].as_str().expect("text").to_owned())
    };
    // Nobody named one: the default stays.
    let same = plan(&[]);
    assert_eq!(
        (&same["selection"]["cuda"]["version"], default(&same)),
        (&json!("11.8.0"), None)
    );
    let other = plan(&["--cuda", "12.4"]);
    insta::assert_snapshot!(default(&other).expect("a reason"), @"CUDA 12.4 becomes the default, because it was requested; CUDA 11.8 was the default and stays: `gpusetup use cuda 11.8` makes it the default again");
    let removes = other["totals"]["remove"].as_u64();
    assert_eq!(
        (removes, ids(&other).contains(&"remove-cuda")),
        (Some(0), false)
    );
}

/// The same host with more: cuDNN in a toolkit, files of shells, and no package manager that would
/// have to be asked.
fn described() -> Tree {
    let tree = two_toolkits();
    std::fs::remove_file(tree.path().join("usr/bin/apt-get")).expect("a file");
    tree.write(
        "usr/local/cuda-12.4/lib64/libcudnn.so.9.10.2",
        "not a library",
    );
    tree.write("usr/local/cuda-12.4/bin/cuda-uninstaller", "");
    tree.write(
        "etc/profile",
        "export PATH=/usr/local/cuda-12.4/bin:$PATH\nexport A=/usr/local/cuda-12.4\n",
    );
    tree.write(
        "etc/environment",
        "PATH=\"/usr/bin:/usr/local/cuda-11.8/bin:/usr/local/cuda-12.4/bin\"\n",
    );
    tree
}

#[test]
fn what_is_installed_is_listed() {
    let tree = described();
    let list = tree.run(&["list", "--json"]).json();
    assert_eq!(schema::mistakes("list.json", &list), [""; 0]);
    let [older, newer] = list["toolkits"].as_array().expect("toolkits").as_slice() else {
        panic!("{list}")
    };
    assert_eq!(
        (&older["version"], &older["default"], &older["installed_by"]),
        (&json!("11.8.0"), &json!(true), &json!("unknown"))
    );
    assert_eq!(
        (&newer["path"], &newer["installed_by"]),
        (&json!("/usr/local/cuda-12.4"), &json!("runfile"))
    );
    assert!(
        newer["bytes"].as_u64() > older["bytes"].as_u64() && older["bytes"].as_u64() > Some(0),
        "{list}"
    );
    assert_eq!(
        (
            &newer["add_ons"][0]["title"],
            &newer["add_ons"][0]["version"]
        ),
        (&json!("cuDNN"), &json!("9.10.2"))
    );
    // What they take depends on the file system.
    let text = tree.run(&["list"]).out;
    let lines: Vec<_> = text
        .lines()
        .take(4)
        .map(|line| line.rsplit_once(", ").map_or(line, |(line, _)| line))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @"
      no driver
    * CUDA 11.8.0 in /usr/local/cuda-11.8, installed by: unknown
      CUDA 12.4.1 in /usr/local/cuda-12.4, from a runfile
          cuDNN 9.10.2, installed by: unknown
    ");
}

#[test]
fn a_switch_is_a_plan_of_the_link_and_of_what_names_it() {
    let tree = described();
    let switch = |version: &str| tree.run(&["use", "cuda", version, "--dry-run", "--json"]);
    let plan = switch("12.4").json();
    assert_eq!(schema::mistakes("plan.json", &plan), [""; 0]);
    assert_eq!(
        ids(&plan),
        ["fix-symlinks", "ldconfig", "environment", "verify"]
    );
    let link = &step(&plan, "fix-symlinks")["operations"][0];
    assert_eq!(
        (&link["path"], &link["target"]),
        (&json!("/usr/local/cuda"), &json!("cuda-12.4"))
    );
    let files = [
        ("ldconfig", "/etc/ld.so.conf.d/gpusetup-cuda.conf"),
        ("environment", "/etc/profile.d/gpusetup-cuda.sh"),
    ];
    for (id, path) in files {
        let file = &step(&plan, id)["operations"][0];
        assert!(
            file["path"] == path
                && file["content"]
                    .as_str()
                    .is_some_and(|text| text.contains("/usr/local/cuda/"))
        );
    }
    tree.write(
        "etc/profile.d/zcuda.sh",
        "export PATH=/usr/local/cuda-12.4/bin:$PATH\n",
    );
    if rustix::process::geteuid().is_root() {
        let first = "/etc/profile.d/zcuda.sh (line 1) puts CUDA 12.4.1 before the default toolkit";
        assert!(
            switch("11.8").json()["warnings"]
                .to_string()
                .contains(first)
        );
        assert!(
            !switch("12.4").json()["warnings"]
                .to_string()
                .contains(first)
        );
    }
    let same = switch("11.8.0").json();
    assert_eq!(step(&same, "fix-symlinks")["state"], "satisfied");
    let missing = switch("12.8");
    insta::assert_snapshot!(tree.typed_in_it(missing.refusal(2)), @"
    error: CUDA 12.8 is not installed
    hint: installed: 11.8.0 and 12.4.1
    try: sudo gpusetup apply --cuda 12.8
    ");
    // Packages keep the link as an alternative of the system.
    std::fs::remove_file(tree.path().join("usr/local/cuda")).expect("a link");
    tree.link("usr/local/cuda", "/etc/alternatives/cuda");
    tree.link("etc/alternatives/cuda", "/usr/local/cuda-11.8");
    let plan = switch("12.4").json();
    let set = step(&plan, "fix-symlinks")["operations"]
        .as_array()
        .expect("operations")
        .last()
        .expect("one")
        .clone();
    assert_eq!(
        set["argv"],
        json!([
            "update-alternatives",
            "--set",
            "cuda",
            "/usr/local/cuda-12.4"
        ])
    );
    assert_eq!(
        set["undo"],
        json!([
            "update-alternatives",
            "--set",
            "cuda",
            "/usr/local/cuda-11.8"
        ])
    );
}

#[test]
fn a_switch_names_the_lines_that_keep_another_toolkit() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let tree = described();
    let warnings = |version: &str| {
        tree.run(&["use", "cuda", version, "--dry-run", "--json"])
            .json()["warnings"]
            .to_string()
    };
    // The loader reads the files of its folder in the order of their names.
    tree.write("etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n");
    tree.write(
        "etc/ld.so.conf.d/cuda.conf",
        "# older\n/usr/local/cuda-11.8/lib64/\n",
    );
    let loader = "(line 2) puts the libraries of CUDA 11.8.0 before those of the default toolkit";
    assert!(warnings("12.4").contains(&format!("/etc/ld.so.conf.d/cuda.conf {loader}")));
    assert!(
        !warnings("11.8").contains("/etc/ld.so.conf.d/cuda.conf"),
        "it is that of the default"
    );
    tree.write(
        "etc/ld.so.conf.d/000_cuda.conf",
        "/usr/local/cuda/targets/x86_64-linux/lib\n",
    );
    assert!(!warnings("12.4").contains(loader), "the link is before it");
    std::fs::remove_file(tree.path().join("etc/ld.so.conf.d/000_cuda.conf")).expect("a file");
    std::fs::rename(
        tree.path().join("etc/ld.so.conf.d/cuda.conf"),
        tree.path().join("etc/ld.so.conf.d/zcuda.conf"),
    )
    .expect("renamed");
    assert!(
        !warnings("12.4").contains(loader),
        "gpusetup's file is before it"
    );
    for (text, is_first) in [
        (
            "/usr/local/lib\n/usr/local/cuda-11.8/lib64\ninclude ld.so.conf.d/*.conf\n",
            true,
        ),
        (
            "include ld.so.conf.d/*.conf\n/usr/local/cuda-11.8/lib64\n",
            false,
        ),
    ] {
        tree.write("etc/ld.so.conf", text);
        assert_eq!(
            warnings("12.4").contains(&format!("/etc/ld.so.conf {loader}")),
            is_first,
            "{text}"
        );
    }
    // Variables of guides.
    tree.write("etc/passwd", "root:x:0:0:root:/root:/bin/bash\n");
    tree.write(
        "root/.bashrc",
        "export CUDA_HOME=/usr/local/cuda-11.8\nexport LD_LIBRARY_PATH=$CUDA_HOME/lib64:$LD_LIBRARY_PATH\nCUDA_VERSION=11.8\n\
         export PATH=/usr/local/cuda-${CUDA_VERSION}/bin:$PATH\n",
    );
    let named = warnings("12.4");
    let variables =
        "/root/.bashrc sets CUDA_HOME (line 1) and LD_LIBRARY_PATH (line 2) to CUDA 11.8.0";
    assert!(
        named.contains(variables)
            && named.contains("/root/.bashrc (line 4) puts CUDA 11.8.0 before"),
        "{named}"
    );
    assert!(!warnings("11.8").contains("/root/.bashrc"));
    // doctor says it of the default toolkit that gpusetup's files name.
    tree.write("root/.bashrc", "export CUDA_HOME=/usr/local/cuda-12.4\n");
    let doctor = || tree.run(&["doctor", "GS701", "--json"]).out;
    let stays = "/root/.bashrc sets CUDA_HOME (line 1) to CUDA 12.4.1";
    assert!(!doctor().contains(stays));
    tree.write(
        "etc/profile.d/gpusetup-cuda.sh",
        "CUDA_HOME=/usr/local/cuda\n",
    );
    tree.write(
        "etc/ld.so.conf.d/gpusetup-cuda.conf",
        "/usr/local/cuda/lib64\n",
    );
    assert!(doctor().contains(stays), "{}", doctor());
}

#[test]
fn a_switch_away_from_a_toolkit_that_only_the_link_names_warns() {
    let tree = described();
    tree.write(
        "opt/cuda/version.json",
        "{\"cuda\": {\"name\": \"CUDA SDK\", \"version\": \"12.6.0\"}}",
    );
    let link = tree.path().join("usr/local/cuda");
    std::fs::remove_file(&link).expect("a link");
    tree.link("usr/local/cuda", "/opt/cuda");
    let warned = |version: &str| {
        let plan = tree
            .run(&["use", "cuda", version, "--dry-run", "--json"])
            .json();
        tree.typed_in_it(&plan["warnings"].to_string())
            .contains("`sudo ln -sT /opt/cuda /usr/local/cuda-12.6`")
    };
    assert!(warned("12.4") && !warned("12.6"));
    tree.link("usr/local/cuda-12.6", "/opt/cuda");
    assert!(!warned("12.4"), "it has another link");
    std::fs::remove_file(&link).expect("a link");
    tree.link("usr/local/cuda", "cuda-11.8");
    assert!(!warned("12.4") && !warned("12.6"));
    for name in ["cuda", "cuda-12.6"] {
        std::fs::remove_file(tree.path().join("usr/local").join(name)).expect("a link");
    }
    tree.link("usr/local/cuda-12", "/opt/cuda");
    tree.link("usr/local/cuda", "cuda-12");
    assert!(!warned("12.4"), "cuda-12 stays");
}

#[test]
fn links_to_a_removed_toolkit_go_or_are_named() {
    let tree = described();
    tree.write("opt/big/cuda-11.2/bin/nvcc", "");
    std::fs::remove_file(tree.path().join("usr/local/cuda")).expect("a link");
    let links = [
        ("cuda-11.2", "/opt/big/cuda-11.2"),
        ("cuda", "cuda-11.2"),
        ("cuda-11", "cuda-11.8"),
    ];
    links
        .iter()
        .for_each(|(name, target)| tree.link(&format!("usr/local/{name}"), target));
    assert!(
        tree.run(&["list"])
            .out
            .contains("* CUDA 11.2 in /opt/big/cuda-11.2"),
        "by two links"
    );
    let refused = tree.run(&["uninstall", "--cuda", "11.2", "--dry-run"]);
    let first = refused.err.find(" cuda 12.4.1\n").expect("another default");
    assert!(
        refused
            .err
            .find("--prefix /opt/big --dry-run")
            .is_some_and(|then| first < then),
        "{}",
        refused.err
    );
    let plan = |wish: &[&str]| {
        tree.run(&[&["uninstall", "--dry-run", "--json", "--cuda"], wish].concat())
            .json()
    };
    tree.write("etc/profile.d/gpusetup-cuda.sh", "");
    let elsewhere = plan(&["11.2", "--prefix", "/opt/big"]);
    assert!(
        !ids(&elsewhere).contains(&"environment"),
        "the settings name the link in /usr/local: {elsewhere}"
    );
    let warnings = tree.typed_in_it(&elsewhere["warnings"].to_string());
    for (link, fix) in [
        ("cuda", "sudo gpusetup use cuda VERSION"),
        ("cuda-11.2", "sudo rm /usr/local/cuda-11.2"),
    ] {
        let named =
            format!("the link /usr/local/{link} leads to the removed toolkit and stays: `{fix}`");
        assert!(warnings.contains(&named), "{named}: {warnings}");
    }
    let older = plan(&["11.8"]);
    let removed = &step(&older, "fix-symlinks")["operations"][0];
    assert_eq!(
        (&removed["op"], &removed["path"]),
        (&json!("remove"), &json!("/usr/local/cuda-11"))
    );
    assert!(
        !older["warnings"].to_string().contains("the link "),
        "{older}"
    );
}

#[test]
fn one_shell_and_module_files_change_nothing_of_the_host() {
    let tree = described();
    let lines = tree.run(&["use", "cuda", "12.4", "--shell"]).out;
    let script =
        format!("PATH=/usr/local/cuda/bin:/bin; {lines}echo \"$PATH $CUDA_HOME $LD_LIBRARY_PATH\"");
    let ran = std::process::Command::new("bash")
        .args(["-ec", &script])
        .output()
        .expect("bash runs");
    let stdout = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert_eq!(
        stdout,
        "/usr/local/cuda-12.4/bin:/usr/bin:/bin /usr/local/cuda-12.4 /usr/local/cuda-12.4/lib64\n"
    );
    let fish = tree.run(&["use", "cuda", "12.4", "--shell", "fish"]).out;
    insta::assert_snapshot!(fish, @"
    set -gx CUDA_HOME '/usr/local/cuda-12.4'
    set -gx CUDADIR '/usr/local/cuda-12.4'
    set -gx PATH '/usr/local/cuda-12.4/bin' '/usr/bin' '/bin'
    set -gx LD_LIBRARY_PATH '/usr/local/cuda-12.4/lib64'
    ");
    assert_eq!(
        tree.run(&["use", "cuda", "--module-files", "modulefiles"])
            .code,
        2,
        "of which folder?"
    );
    // A link of the tree leads to a folder of the tree.
    let outside = tempfile::tempdir().expect("a folder");
    tree.link(
        "usr/share/modulefiles",
        &outside.path().display().to_string(),
    );
    let written = tree.run(&[
        "use",
        "cuda",
        "--module-files",
        "/usr/share/modulefiles",
        "--json",
    ]);
    assert!(
        outside
            .path()
            .read_dir()
            .expect("a folder")
            .next()
            .is_none(),
        "{}",
        written.out
    );
    tree.write("usr/local/cuda-12.4/share/man/man3/cuda.3", "");
    let written = tree
        .run(&[
            "use",
            "cuda",
            "--module-files",
            "/srv/modulefiles",
            "--json",
        ])
        .json();
    assert_eq!(
        written["module_files"].as_array().map(Vec::len),
        Some(2),
        "{written}"
    );
    let module = |name: &str| {
        let path = tree.path().join("srv/modulefiles/cuda").join(name);
        std::fs::read_to_string(path).expect("a module file")
    };
    // `man` finds the system's manuals, too.
    insta::assert_snapshot!(module("12.4"), @"
    #%Module1.0
    # Written by gpusetup (gpusetup use cuda --module-files).
    proc ModulesHelp { } {
        puts stderr {CUDA 12.4.1 in /usr/local/cuda-12.4}
    }
    module-whatis {NVIDIA CUDA toolkit 12.4.1}
    conflict cuda
    setenv CUDA_HOME {/usr/local/cuda-12.4}
    setenv CUDADIR {/usr/local/cuda-12.4}
    prepend-path PATH {/usr/local/cuda-12.4/bin}
    prepend-path LD_LIBRARY_PATH {/usr/local/cuda-12.4/lib64}
    prepend-path MANPATH {/usr/local/cuda-12.4/share/man}
    append-path MANPATH {}
    ");
    insta::assert_snapshot!(module("11.8"), @"
    #%Module1.0
    # Written by gpusetup (gpusetup use cuda --module-files).
    proc ModulesHelp { } {
        puts stderr {CUDA 11.8.0 in /usr/local/cuda-11.8}
    }
    module-whatis {NVIDIA CUDA toolkit 11.8.0}
    conflict cuda
    setenv CUDA_HOME {/usr/local/cuda-11.8}
    setenv CUDADIR {/usr/local/cuda-11.8}
    prepend-path PATH {/usr/local/cuda-11.8/bin}
    prepend-path LD_LIBRARY_PATH {/usr/local/cuda-11.8/lib64}
    ");
    let link = std::fs::read_link(tree.path().join("usr/local/cuda")).expect("a link");
    assert_eq!(link.to_str(), Some("cuda-11.8"));
    let again = tree.run(&["use", "cuda", "--module-files", "/srv/modulefiles"]);
    assert_eq!(
        again.code, 0,
        "its own files are written again: {}",
        again.err
    );
    // The administrator's own module files often have these names.
    for (name, is_link) in [("11.8", false), ("12.4", true)] {
        let theirs = tree.path().join("srv/modulefiles/cuda").join(name);
        std::fs::remove_file(&theirs).expect("removed");
        match is_link {
            true => tree.link(&format!("srv/modulefiles/cuda/{name}"), "11.8"),
            false => tree.write(
                &format!("srv/modulefiles/cuda/{name}"),
                "#%Module1.0\nmodule load gcc/11\n",
            ),
        }
        let refused = tree.run(&["use", "cuda", name, "--module-files", "/srv/modulefiles"]);
        let sentence = format!(
            "/srv/modulefiles/cuda/{name} is not of gpusetup, and stays; nothing was written"
        );
        assert!(
            refused.code == 5 && refused.err.contains(&sentence),
            "{}",
            refused.err
        );
    }
}

#[test]
fn a_directory_in_place_of_the_link_is_no_default_to_replace() {
    let tree = Tree::ubuntu_24_04();
    tree.write(
        "usr/local/cuda/version.json",
        r#"{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}"#,
    );
    tree.write("usr/local/cuda/bin/nvcc", "");
    tree.write("usr/local/cuda-11.8/bin/nvcc", "");
    let refused = tree.run(&["use", "cuda", "11.8", "--dry-run"]);
    insta::assert_snapshot!(tree.typed_in_it(refused.refusal(5)), @"
    error: /usr/local/cuda is a directory and no link, so no other toolkit can take its place (GS701)
    try: sudo mv -nT /usr/local/cuda /usr/local/cuda-12.4
    ");
}

#[test]
fn toolkits_are_named_as_far_as_that_is_clear() {
    let tree = described();
    let chosen = |name: &str| {
        step(
            &tree
                .run(&["use", "cuda", name, "--dry-run", "--json"])
                .json(),
            "fix-symlinks",
        )["title"]
            .clone()
    };
    assert_eq!(chosen("12"), "Make CUDA 12.4.1 the default toolkit");
    tree.write("usr/local/cuda-12.9/bin/nvcc", "");
    assert_eq!(
        chosen("12"),
        "Make CUDA 12.9 the default toolkit",
        "the newest"
    );
    let removal = |name: &str| tree.run(&["uninstall", "--cuda", name, "--dry-run"]);
    insta::assert_snapshot!(tree.typed_in_it(removal("12").refusal(2)), @"
    error: --cuda 12 names several toolkits: /usr/local/cuda-12.4 and /usr/local/cuda-12.9
    hint: name one of them, or all: --cuda 12.4.1,12.9
    ");
    // A copy beside it is another toolkit.
    tree.write(
        "usr/local/cuda-12.4-old/version.json",
        r#"{"cuda": {"name": "CUDA SDK", "version": "12.4.0"}}"#,
    );
    let titles: Vec<_> = {
        let plan = tree
            .run(&["uninstall", "--cuda", "12.4", "--dry-run", "--json"])
            .json();
        let steps = plan["steps"].as_array().expect("steps").clone();
        steps
            .iter()
            .filter(|step| step["id"] == "remove-cuda")
            .map(|step| step["title"].to_string())
            .collect()
    };
    assert!(
        titles.len() == 1 && titles[0].contains("/usr/local/cuda-12.4\""),
        "{titles:?}"
    );
    assert!(
        removal("11")
            .out
            .contains("Make CUDA 12.9 the default toolkit"),
        "it was the default"
    );
    for (name, command) in [
        ("12.6", " --cuda 12.6\n"),
        ("12.4.9", "try: gpusetup db list cuda\n"),
    ] {
        let missing = tree.run(&["use", "cuda", name, "--dry-run"]);
        let is_known = missing.err.contains("try: sudo gpusetup apply --root ");
        assert!(
            missing.code == 2 && missing.err.contains(command),
            "{}",
            missing.err
        );
        assert_eq!(is_known, name == "12.6", "{}", missing.err);
    }
    let refused = [["use", "cuda", ">=12"], ["uninstall", "--cuda", "<12"]]
        .map(|wish| tree.typed_in_it(tree.run(&wish).refusal(2)));
    insta::assert_snapshot!(refused.concat(), @"
    error: invalid value '>=12' for '[VERSION]': name an installed toolkit: 12.8 or 12.8.1 (gpusetup list)

    For more information, try '--help'.
    error: invalid value '<12' for '--cuda <VERSION>': name an installed toolkit: 12.8 or 12.8.1 (gpusetup list)

    For more information, try '--help'.
    ");
}

#[test]
fn a_removal_shows_the_lines_that_go() {
    let tree = described();
    let shown = tree.run(&["uninstall", "--cuda", "12.4", "--dry-run"]);
    let lines = [
        "/etc/profile\n      - export PATH=/usr/local/cuda-12.4/bin:$PATH\n",
        "      + PATH=\"/usr/bin:/usr/local/cuda-11.8/bin\"\n",
        "/etc/profile still names the removed toolkit (line 2)",
    ];
    if rustix::process::geteuid().is_root() {
        assert!(
            lines.iter().all(|line| shown.out.contains(line)),
            "{}",
            shown.out
        );
    } else {
        assert!(
            shown.out.contains("/etc/profile belongs to another user"),
            "{}",
            shown.out
        );
    }
    tree.write(
        "etc/profile.d/cuda.sh",
        "export PATH=/usr/local/cuda-12.4/bin:$PATH\n",
    );
    tree.write(
        "etc/profile.d/cuda.csh",
        "setenv CUDA_HOME /usr/local/cuda-12.4\n",
    );
    tree.write(
        "etc/ld.so.conf.d/cuda-12-4.conf",
        "/usr/local/cuda-12.4/lib64\n",
    );
    let plan = tree
        .run(&["uninstall", "--cuda", "12.4", "--dry-run", "--json"])
        .json();
    assert_eq!(schema::mistakes("plan.json", &plan), [""; 0]);
    if rustix::process::geteuid().is_root() {
        assert!(
            step(&plan, "environment")["operations"]
                .to_string()
                .contains("/etc/profile.d/cuda.sh"),
            "{plan}"
        );
        // Before the loader's cache is built again.
        let loader = &step(&plan, "ldconfig")["operations"][0];
        assert_eq!(
            (&loader["op"], &loader["path"]),
            (
                &json!("edit-file"),
                &json!("/etc/ld.so.conf.d/cuda-12-4.conf")
            )
        );
        let left = "/etc/profile.d/cuda.csh still names the removed toolkit (line 1)";
        assert!(plan["warnings"].to_string().contains(left), "{plan}");
        let done = tree.run(&["uninstall", "--cuda", "12.4", "--yes", "--no-progress"]);
        assert!(
            done.err.contains(&format!("warning: GS701: {left}")),
            "{} {}",
            done.out,
            done.err
        );
    }
    assert!(
        !ids(&plan).contains(&"fix-symlinks"),
        "the default stays: {plan}"
    );
}

#[test]
fn a_removal_names_lines_with_the_version_in_a_variable() {
    let tree = described();
    tree.write(
        "etc/profile",
        "CUDA_VERSION=12.4\nexport PATH=/usr/local/cuda-${CUDA_VERSION}/bin:$PATH\n",
    );
    let plan = tree
        .run(&["uninstall", "--cuda", "12.4", "--dry-run", "--json"])
        .json();
    let left = "/etc/profile still names the removed toolkit (line 2)";
    let is_root = rustix::process::geteuid().is_root();
    assert!(
        !is_root || plan["warnings"].to_string().contains(left),
        "{plan}"
    );
}

#[test]
fn a_removal_names_what_lives_on_the_toolkit_elsewhere() {
    let tree = described();
    assert_eq!(
        tree.run(&["use", "cuda", "--module-files", "/usr/share/modulefiles"])
            .code,
        0
    );
    tree.write("etc/environment", "CUDA_HOME=/usr/local/cuda-12.4\n");
    tree.write("etc/bash.bashrc", "export PATH=$CUDA_HOME/bin:$PATH\n");
    let debian = [
        "etc/lmod/modules/cuda/12.4.lua",
        "etc/environment-modules/modules/cuda/12.4",
        "usr/share/modulefiles/cuda/site-12.4",
    ];
    let others = [
        "root/.bash_aliases",
        "root/.zshenv",
        "root/.pam_environment",
        "root/.config/environment.d/cuda.conf",
        "root/.config/fish/conf.d/cuda.fish",
        "etc/zsh/zshenv",
        "etc/csh.login",
        "etc/environment.d/90cuda.conf",
        "etc/profile.local",
        "etc/skel/.bashrc",
        "etc/sudoers.d/cuda",
        "etc/systemd/system/train.service",
    ];
    debian
        .iter()
        .chain(&others)
        .for_each(|file| tree.write(file, "PATH /usr/local/cuda-12.4/bin\n"));
    tree.write("etc/passwd", "root:x:0:0:root:/root:/bin/bash\n");
    let plan = tree
        .run(&["uninstall", "--cuda", "12.4", "--dry-run", "--json"])
        .json();
    let warnings = plan["warnings"].to_string();
    let removed: Vec<_> = plan["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .filter(|s| s["id"] == "environment")
        .collect();
    let own = json!({"op": "remove", "path": "/usr/share/modulefiles/cuda/12.4"});
    assert_eq!(
        removed.last().map(|step| &step["operations"]),
        Some(&json!([own])),
        "{plan}"
    );
    assert!(
        !warnings.contains("/usr/share/modulefiles/cuda/12.4 ") && !warnings.contains("cuda/11.8"),
        "{warnings}"
    );
    if rustix::process::geteuid().is_root() {
        for file in debian.iter().chain(&others) {
            let left = format!("/{file} still names the removed toolkit (line 1)");
            assert!(warnings.contains(&left), "{left}: {warnings}");
        }
        let by_variable = "/etc/bash.bashrc still names the removed toolkit (line 1)";
        assert!(
            warnings.contains(by_variable),
            "set in /etc/environment: {warnings}"
        );
    }
}

#[test]
fn an_uninstall_removes_the_module_files_that_gpusetup_wrote() {
    let tree = described();
    assert_eq!(
        tree.run(&["use", "cuda", "--module-files", "/usr/share/modulefiles"])
            .code,
        0
    );
    tree.write("usr/share/modulefiles/cuda/mine", "#%Module1.0\n");
    let shown = tree.run(&["uninstall", "--dry-run"]).out;
    assert!(
        shown.contains("  - remove /usr/share/modulefiles/cuda/12.4\n") && !shown.contains("mine"),
        "{shown}"
    );
    if rustix::process::geteuid().is_root() {
        let done = tree.run(&["uninstall", "--yes", "--no-progress"]);
        assert_eq!(done.code, 0, "{}", done.err);
        let left: Vec<_> = tree
            .path()
            .join("usr/share/modulefiles/cuda")
            .read_dir()
            .expect("a folder")
            .collect();
        assert!(
            left.len() == 1 && tree.path().join("usr/share/modulefiles/cuda/mine").exists(),
            "{left:?}"
        );
        assert!(
            tree.run(&["uninstall", "--dry-run"])
                .out
                .starts_with("Nothing to remove")
        );
    }
}

#[test]
fn what_nothing_needs_is_found_with_its_size() {
    let tree = described();
    tree.write("var/cache/gpusetup/0123456789abcdef/x.run", "0123456789");
    tree.write("var/cache/gpusetup/0123456789abcdef/y.run.part", "01234");
    tree.write("usr/local/.gpusetup-unpack-0123456789ab/lib/x", "x");
    tree.write("usr/local/.cuda-9.0.gpusetup-removed/x", "x");
    tree.write("usr/local/.keep/x", "x");
    tree.write("var/lib/gpusetup/backup/7", "old");
    let found = tree.run(&["prune", "--dry-run", "--json"]).json();
    assert_eq!(schema::mistakes("prune.json", &found), [""; 0]);
    let unused = found["unused"].as_array().expect("a list");
    let kinds: Vec<_> = unused
        .iter()
        .filter_map(|one| Some((one["path"].as_str()?, one["kind"].as_str()?)))
        .collect();
    let wanted = [
        ("/var/cache/gpusetup/0123456789abcdef/x.run", "download"),
        (
            "/var/cache/gpusetup/0123456789abcdef/y.run.part",
            "broken-download",
        ),
        ("/usr/local/.cuda-9.0.gpusetup-removed", "leftover"),
        ("/usr/local/.gpusetup-unpack-0123456789ab", "leftover"),
        ("/var/lib/gpusetup/backup/7", "backup"),
    ];
    assert_eq!(kinds, wanted);
    assert_eq!(
        (&unused[0]["bytes"], &found["removed"]),
        (&json!(10), &json!(false))
    );
    if rustix::process::geteuid().is_root() {
        assert_eq!(
            tree.run(&["prune", "--yes", "--json"]).json()["removed"],
            true
        );
        assert_eq!(
            tree.run(&["prune", "--dry-run", "--json"]).json()["unused"],
            json!([])
        );
        assert!(
            tree.path().join("usr/local/.keep/x").exists()
                && !tree
                    .path()
                    .join("usr/local/.cuda-9.0.gpusetup-removed")
                    .exists()
        );
    }
}

#[test]
fn a_removal_of_nothing_says_so() {
    let ran = described().run(&["uninstall", "--driver", "--dry-run"]);
    assert!(
        ran.code == 0
            && ran
                .out
                .contains("Nothing to remove: it is not installed.\n"),
        "{} {}",
        ran.out,
        ran.err
    );
    assert!(!ran.out.contains("Steps"), "{}", ran.out);
}
