//! Which compiler nvcc gets, and what a plan installs for it.

use crate::common::{Tree, run_with_input, text};
use serde_json::Value;

/// The packages that the first step installs.
fn packages(plan: &Value) -> Vec<&str> {
    let step = &plan["steps"][0];
    assert_eq!(text(step, "/id"), "prerequisites");
    let acts = step["operations"]
        .as_array()
        .expect("operations")
        .iter()
        .filter(|a| a["satisfied"] != true);
    let names = acts.flat_map(|a| a["install"].as_array().into_iter().flatten());
    names.map(|n| n.as_str().expect("a name")).collect()
}

/// The links to host compilers that it puts beside cicc.
fn compiler_links(plan: &Value) -> Vec<String> {
    let acts = plan["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .flat_map(|s| s["operations"].as_array().into_iter().flatten());
    let links = acts.filter(|a| a["op"] == "link" && text(a, "/path").contains("/nvvm/bin/"));
    links
        .map(|a| format!("{} -> {}", text(a, "/path"), text(a, "/target")))
        .collect()
}

#[test]
fn nvcc_gets_a_compiler_of_cxx() {
    let ask = ["plan", "--json", "--profile", "toolkit", "--gpu", "h100"];
    assert_eq!(packages(&Tree::debian_12().run(&ask).json()), ["g++"]);
    assert_eq!(packages(&Tree::rocky_9().run(&ask).json()), ["gcc-c++"]);
    assert_eq!(
        packages(&Tree::debian_12().gxx(12).run(&ask).json()),
        [""; 0]
    );
    // Somebody made another gcc the default: its own C++ compiler must come, and g++ to link with.
    let other = Tree::debian_12();
    other.write("usr/bin/gcc-11", "");
    std::fs::remove_file(other.path().join("usr/bin/gcc")).expect("a link");
    other.link("usr/bin/gcc", "gcc-11");
    assert_eq!(packages(&other.run(&ask).json()), ["g++", "g++-11"]);
    let fresh = Tree::debian_12();
    std::fs::remove_file(fresh.path().join("usr/bin/gcc")).expect("a link");
    assert_eq!(
        packages(&fresh.run(&ask).json()),
        ["g++", "gcc", "libc6-dev", "make"]
    );
    // Facts of a gpusetup that did not look for compilers.
    let mut facts = Tree::debian_12().gxx(12).run(&["facts", "--json"]).json();
    facts
        .as_object_mut()
        .expect("an object")
        .remove("compilers")
        .expect("they were there");
    let plan = run_with_input(&[&ask[..], &["--facts", "-"]].concat(), &facts.to_string()).json();
    assert_eq!(packages(&plan), ["g++"]);
}

#[test]
fn an_older_compiler_is_given_to_nvcc_by_links_and_not_by_the_shell() {
    let ask = [
        "plan",
        "--json",
        "--profile",
        "toolkit",
        "--gpu",
        "v100",
        "--cuda",
        "11.8",
    ];
    let links = [
        "/usr/local/cuda-11.8/nvvm/bin/gcc -> /usr/bin/gcc-11",
        "/usr/local/cuda-11.8/nvvm/bin/g++ -> /usr/bin/g++-11",
    ];
    let plan = Tree::debian_12().gxx(12).run(&ask).json();
    assert_eq!(packages(&plan), ["g++-11", "gcc-11"]);
    assert_eq!(compiler_links(&plan), links);
    assert!(!plan.to_string().contains("NVCC_CCBIN"), "{plan:#}");
    // One that is there is taken.
    let plan = Tree::debian_12().gxx(12).gxx(11).run(&ask).json();
    assert_eq!(packages(&plan), [""; 0]);
    assert_eq!(compiler_links(&plan), links);
    // nvcc preprocesses a file with the default gcc first, which must compile C++ as well.
    assert_eq!(
        packages(&Tree::debian_12().gxx(11).run(&ask).json()),
        ["g++"]
    );
    // What takes the default gcc gets none; Debian 12 has no gcc 10.
    assert_eq!(
        compiler_links(
            &Tree::debian_12()
                .run(&["plan", "--json", "--gpu", "v100", "--cuda", "12.4"])
                .json()
        ),
        [""; 0]
    );
    let none = Tree::debian_12().run(&["plan", "--gpu", "v100", "--cuda", "11.2"]);
    assert!(
        none.code == 4 && none.err.contains("its nvcc supports gcc up to 10"),
        "{}",
        none.err
    );
}

#[test]
fn the_older_compiler_that_a_distribution_packages_is_installed() {
    let release = |id: &str, version: &str| {
        format!("ID={id}\nVERSION_ID=\"{version}\"\nPRETTY_NAME=\"{id} {version}\"\n")
    };
    let ask = |gpu, cuda| {
        [
            "plan",
            "--json",
            "--profile",
            "toolkit",
            "--gpu",
            gpu,
            "--cuda",
            cuda,
        ]
    };
    let fedora = Tree::new(&release("fedora", "44"), "6.19.8-300.fc44.x86_64", 16).gxx(16);
    let plan = fedora.run(&ask("a100", "13.2")).json();
    assert_eq!(packages(&plan), ["gcc15", "gcc15-c++"]);
    assert!(
        compiler_links(&plan)[1].ends_with("-> /usr/bin/g++-15"),
        "{:?}",
        compiler_links(&plan)
    );
    // A fresh one: the gcc of its kernel is the default one, and there is no package gcc16.
    std::fs::remove_file(fedora.path().join("usr/bin/gcc")).expect("a link");
    let all = [
        "gcc",
        "gcc-c++",
        "gcc15",
        "gcc15-c++",
        "glibc-devel",
        "make",
    ];
    assert_eq!(packages(&fedora.run(&ask("a100", "13.2")).json()), all);
    let driver = fedora
        .run(&[
            "plan",
            "--json",
            "--profile",
            "driver",
            "--gpu",
            "a100",
            "--method",
            "runfile",
        ])
        .json();
    assert_eq!(
        packages(&driver),
        [
            "dkms",
            "gcc",
            "glibc-devel",
            "kernel-devel-matched-6.19.8-300.fc44.x86_64",
            "make"
        ]
    );
    // Releases have one older compiler at most.
    let fedora = Tree::new(&release("fedora", "44"), "6.19.8-300.fc44.x86_64", 16).gxx(16);
    let none = fedora.run(&[
        "plan",
        "--profile",
        "toolkit",
        "--gpu",
        "a100",
        "--cuda",
        "12.8",
    ]);
    assert!(
        none.code == 4 && none.err.contains("its nvcc supports gcc up to 14"),
        "{}",
        none.err
    );
    let sles = Tree::new(&release("sles", "15.6"), "6.4.0-150600.21-default", 15).gxx(15);
    assert_eq!(
        packages(&sles.run(&ask("a100", "12.4")).json()),
        ["gcc13", "gcc13-c++"]
    );
    // SLES 15 began with gcc 7.
    let sles = Tree::new(&release("sles", "15.6"), "6.4.0-150600.21-default", 7).gxx(7);
    let none = sles.run(&ask("p100", "9.0"));
    assert!(
        none.code == 4 && none.err.contains("its nvcc supports gcc up to 6"),
        "{}",
        none.err
    );
}

#[test]
fn a_compiler_beside_the_default_one_is_seen() {
    let ask = [
        "plan",
        "--json",
        "--profile",
        "toolkit",
        "--gpu",
        "a100",
        "--cuda",
        "13.2",
    ];
    let plan = Tree::debian_sid(16)
        .gxx(16)
        .gxx(14)
        .gxx(15)
        .run(&ask)
        .json();
    assert_eq!(packages(&plan), [""; 0]);
    assert!(
        compiler_links(&plan)[0].ends_with("-> /usr/bin/gcc-15"),
        "{:?}",
        compiler_links(&plan)
    );
    // On a system whose packages nobody knows, too.
    let arch = Tree::new(
        "ID=arch\nPRETTY_NAME=\"Arch Linux\"\n",
        "6.17.1-arch1-1",
        16,
    )
    .gxx(16)
    .gxx(15);
    assert!(compiler_links(&arch.run(&ask).json())[0].ends_with("-> /usr/bin/gcc-15"));
}

#[test]
fn a_debian_without_a_version_is_planned_as_the_newest_that_is_known() {
    let host = Tree::debian_sid(16).gpu("0000:01:00.0", "20b2", Some("nouveau"));
    std::fs::remove_file(host.path().join("usr/bin/gcc")).expect("a link");
    // No gcc tells what the default one is: the kernel does.
    let plan = host
        .run(&["plan", "--json", "--cuda", "13.2", "--method", "runfile"])
        .json();
    let all = [
        "dkms",
        "g++",
        "g++-15",
        "gcc",
        "gcc-15",
        "gcc-16",
        "libc6-dev",
        "linux-headers-amd64",
        "make",
    ];
    assert_eq!(packages(&plan), all);
    assert!(
        plan["warnings"]
            .to_string()
            .contains("the package names of Debian 13"),
        "{:#}",
        plan["warnings"]
    );
    let packaged = host.run(&["plan", "--method", "packages"]);
    assert!(
        packaged.code == 4 && packaged.err.contains("package lists of Debian"),
        "{}",
        packaged.err
    );
}

#[test]
fn what_nobody_knows_the_packages_of_must_be_there() {
    let release = "ID=arch\nPRETTY_NAME=\"Arch Linux\"\n";
    let ask = ["plan", "--gpu", "a100", "--cuda", "13.2"];
    let bare = Tree::new(release, "6.17.1-arch1-1", 15);
    let ran = bare.run(&ask);
    assert!(
        ran.code == 5 && ran.err.contains("these are missing: g++"),
        "{} {}",
        ran.code,
        ran.err
    );
    let ran = bare.run(&[&ask[..], &["--method", "packages"]].concat());
    assert!(
        ran.code == 4 && ran.err.contains("does not know the packages of Arch Linux"),
        "{}",
        ran.err
    );
    let ran = bare.gxx(15).run(&ask);
    let shown = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        ran.code == 0 && shown.contains("kernel, g++ before apply"),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn a_toolkit_whose_headers_do_not_compile_here_is_refused() {
    let release = "PRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\nID=debian\nVERSION_ID=\"13\"\n";
    let trixie = Tree::new(release, "6.12.107+deb13-amd64", 14).glibc("2.41-12");
    for gpu in ["gtx-1080", "v100"] {
        // Nobody asked for the toolkit, so there is a plan without one.
        let ran = trixie.run(&["plan", "--gpu", gpu]);
        assert!(
            ran.code == 0 && ran.out.contains("GS705: the plan has no CUDA toolkit"),
            "{}{}",
            ran.out,
            ran.err
        );
        let ran = trixie.run(&["plan", "--gpu", gpu, "--profile", "compute"]);
        assert_eq!(ran.code, 4, "{}", ran.out);
        for says in [
            "do not compile with glibc 2.41",
            "# fits: driver 580.",
            "Debian 12 (bookworm) (glibc 2.36)",
        ] {
            assert!(ran.err.contains(says), "{says}: {}", ran.err);
        }
    }
    // 12.8.2 and 12.9.2 have the headers of the releases before them.
    for cuda in ["12.6", "12.8.2", "12.9.2"] {
        let ran = trixie.run(&["plan", "--gpu", "a100", "--cuda", cuda]);
        assert!(
            ran.code == 4 && ran.err.contains("do not compile with glibc 2.41"),
            "{cuda}: {}",
            ran.err
        );
    }
    assert_eq!(
        trixie
            .run(&["plan", "--gpu", "a100", "--cuda", "13.1"])
            .code,
        0
    );
    for cuda in ["13.0", "13.1"] {
        let ran = Tree::debian_sid(15).run(&["plan", "--gpu", "a100", "--cuda", cuda]);
        assert!(
            ran.code == 4 && ran.err.contains("do not compile with glibc 2.42"),
            "{cuda}: {}",
            ran.err
        );
    }
    assert_eq!(
        Tree::debian_sid(15)
            .run(&["plan", "--gpu", "a100", "--cuda", "13.2", "--driver", "595"])
            .code,
        0
    );
}
