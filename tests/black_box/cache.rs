//! `gpusetup cache`, as a user runs it.

use crate::common::Tree;
use gpusetup::cache::verified;
use gpusetup::sum::sha256;
use gpusetup::system::System;
use std::path::Path;

/// A tree with a verified download, half of one, and one that was rejected.
fn tree() -> Tree {
    let tree = Tree::debian_12();
    for (name, text) in [
        ("0123456789abcdef/x.run", "good"),
        ("cd00000000000000/y.tar.xz.part", "half"),
        ("ef00000000000000/z.run.rejected", "<html>"),
    ] {
        tree.write(&format!("var/cache/gpusetup/{name}"), text);
    }
    verified(
        &System::at(tree.path()),
        Path::new("/var/cache/gpusetup/0123456789abcdef/x.run"),
        &sha256("good"),
    )
    .expect("noted");
    tree
}

#[test]
fn what_is_kept_is_listed() {
    let ran = tree().run(&["cache", "list"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for part in [
        "x.run\n",
        "verified\n",
        "incomplete",
        "rejected",
        "3 files in /var/cache/gpusetup, 14 B.",
    ] {
        assert!(ran.out.contains(part), "{part} is missing:\n{}", ran.out);
    }
    let listed = tree().run(&["cache", "list", "--json"]).json();
    assert_eq!(
        (&listed["schema"], &listed["files"][0]["state"]),
        (&"gpusetup.cache/1".into(), &"verified".into())
    );
    assert_eq!(listed["files"][0]["sha256"], sha256("good"));
    let none = Tree::debian_12().run(&["cache", "list"]);
    assert!(
        none.code == 0 && none.out.contains("0 files"),
        "{}{}",
        none.out,
        none.err
    );
}

#[test]
fn what_is_no_whole_file_is_removed_or_all_of_it() {
    let tree = tree();
    assert!(
        tree.run(&["cache", "clean", "--partial"])
            .out
            .contains("Removed 2 files")
    );
    assert!(
        tree.path()
            .join("var/cache/gpusetup/0123456789abcdef/x.run")
            .exists()
    );
    assert!(
        tree.run(&["cache", "clean"])
            .out
            .contains("Removed 1 file, 4 B")
    );
    assert_eq!(
        std::fs::read_dir(tree.path().join("var/cache/gpusetup"))
            .expect("there")
            .count(),
        0
    );
}

#[test]
fn what_is_somebody_elses_stays() {
    let tree = Tree::debian_12();
    for file in ["home/ann/thesis", "home/0123456789abcdef/x", "run/state/f"] {
        tree.write(file, "precious");
    }
    assert!(
        tree.run(&["cache", "clean", "--cache", "/home"])
            .out
            .contains("Removed 1 file")
    );
    for wrong in ["/", "home", "/home/..", "/var/cache/a\nb"] {
        assert_eq!(
            tree.run(&["cache", "clean", "--cache", wrong]).code,
            2,
            "{wrong}"
        );
    }
    let exists = |file: &str| tree.path().join(file).exists();
    assert!(exists("home/ann/thesis") && exists("run/state/f") && !exists("home/0123456789abcdef"));
}

#[test]
fn names_of_others_do_not_move_the_cursor() {
    let tree = Tree::debian_12();
    tree.write(
        "var/cache/gpusetup/0123456789abcdef/x\u{1b}[2J\u{9b}2J\nerror: forged",
        "",
    );
    for arguments in [&["cache", "list"][..], &["cache", "list", "--json"]] {
        let out = tree.run(arguments).out;
        assert!(
            !out.contains(['\u{1b}', '\u{9b}']) && !out.contains("\nerror"),
            "{out:?}"
        );
    }
}

#[test]
fn an_altered_file_is_found_and_set_aside() {
    let tree = tree();
    let ran = tree.run(&["cache", "verify"]);
    assert!(
        ran.code == 0 && ran.out.contains("1 file read"),
        "{}{}",
        ran.out,
        ran.err
    );
    tree.write("var/cache/gpusetup/0123456789abcdef/x.run", "evil");
    let ran = tree.run(&["cache", "verify"]);
    assert!(
        ran.code == 10
            && ran
                .err
                .contains("/0123456789abcdef/x.run is not what was verified"),
        "{} {}",
        ran.code,
        ran.err
    );
    assert!(
        !tree
            .path()
            .join("var/cache/gpusetup/0123456789abcdef/x.run")
            .exists()
    );
    assert!(tree.run(&["cache", "list"]).out.contains("x.run.rejected"));
}
