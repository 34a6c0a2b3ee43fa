//! A plan for another system, release, architecture or kernel on a real host: `apply`, `resume`, a
//! bundle and a lock file refuse it before the first change.

use crate::host::{Host, Ran, gpusetup, machine, text};
use crate::locked::{offer, wanted};
use crate::short;
use gpusetup::plan::{Plan, StepId};
use serde_json::Value;
use std::fs;
use std::path::Path;

const NEWER: &str = "99.0.0-1-amd64";

/// The name of a host, what makes another host of it, and how that is said.
type Case = (&'static str, fn(&Host), String);

/// Another release of the system.
fn upgrade(host: &Host) {
    host.ask("cp --remove-destination /usr/lib/os-release /etc/os-release; sed -i 's/12/13/g; s/bookworm/trixie/g' /etc/os-release");
}

/// Another system.
fn replace(host: &Host) {
    let ubuntu =
        "PRETTY_NAME=\"Ubuntu 24.04.3 LTS\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n";
    host.ask("rm /etc/os-release");
    fs::write(host.path("/etc/os-release"), ubuntu).expect("the host takes a file");
}

/// A newer kernel, which boots next.
fn new_kernel(host: &Host) {
    host.ask(&format!(
        "mkdir /lib/modules/{NEWER}; touch /lib/modules/{NEWER}/modules.builtin"
    ));
}

fn is_refused(ran: &Ran, sentences: &[&str]) {
    let text = ran.err.replace("\n       ", " ");
    assert_eq!(ran.code, Some(5), "{text}");
    for sentence in sentences {
        assert!(text.contains(sentence), "{sentence}: {text}");
    }
}

fn is_untouched(host: &Host, before: &str) {
    assert_eq!(host.ask("dpkg-query -W"), before);
    assert!(!host.path("/var/lib/gpusetup/journal").exists());
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_plan_for_another_host_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("plan.json");
    let made = Host::new("plans");
    let kernel = made.kernel();
    let driver = [
        "plan",
        "--gpu",
        "t4",
        "--profile",
        "driver",
        "--method",
        "packages",
        "--driver",
        "535",
    ];
    made.gpusetup_plain(&[&driver[..], &["--out", text(&file)]].concat())
        .succeeds();
    let bundle = bundle_of(folder.path(), &made);
    let apply = ["apply", text(&file), "--yes", "--accept-eula"];
    let cases: [Case; 3] = [
        (
            "upgraded",
            upgrade,
            "made for Debian 12 on x86_64; this host is Debian 13 on x86_64".to_owned(),
        ),
        (
            "replaced",
            replace,
            "made for Debian 12 on x86_64; this host is Ubuntu 24.04 on x86_64".to_owned(),
        ),
        (
            "newer-kernel",
            new_kernel,
            format!("made for kernel {kernel}; this host boots {NEWER}"),
        ),
    ];
    for (name, change, sentence) in cases {
        let host = Host::new(name);
        change(&host);
        let before = host.ask("dpkg-query -W");
        is_refused(
            &host.gpusetup_plain(&apply),
            &[
                "plan.json was",
                &sentence,
                "gpusetup plan --root",
                "--profile driver",
            ],
        );
        let plan = fs::read_dir(Path::new(&bundle).join("plans"))
            .expect("listed")
            .next()
            .expect("one")
            .expect("an entry");
        let name = plan.file_name().into_string().expect("ASCII");
        let named = [
            "apply",
            &name,
            "--bundle",
            &bundle,
            "--yes",
            "--accept-eula",
        ];
        is_refused(&host.gpusetup_plain(&named), &[&sentence]);
        is_untouched(&host, &before);
    }
    // The plans of the finding: for a new installation of another system, on another architecture,
    // with another kernel.
    let host = Host::new("stock");
    let before = host.ask("dpkg-query -W");
    for (os, gpu, sentence) in [
        (
            "ubuntu-24.04:aarch64",
            "gh200",
            "made for Ubuntu 24.04 on aarch64; this host is Debian 12 on x86_64",
        ),
        (
            "ubuntu-24.04",
            "t4",
            "made for Ubuntu 24.04 on x86_64; this host is Debian 12 on x86_64",
        ),
        (
            "rocky-9",
            "t4",
            "on x86_64; this host is Debian 12 on x86_64",
        ),
        (
            "debian-12:aarch64",
            "t4",
            "made for Debian 12 on aarch64; this host is Debian 12 on x86_64",
        ),
    ] {
        let stock = [
            "plan",
            "--os",
            os,
            "--gpu",
            gpu,
            "--profile",
            "driver",
            "--out",
            text(&file),
        ];
        gpusetup(stock).succeeds();
        is_refused(&host.gpusetup_plain(&apply), &[sentence]);
        is_untouched(&host, &before);
    }
}

/// A bundle of a toolkit's plan for a host, whose two files are made up.
fn bundle_of(folder: &Path, host: &Host) -> String {
    let bundle = folder.join("bundle");
    let file = folder.join("bundled.json");
    let mut plan = short::plan(host, Vec::new());
    plan.steps = vec![short::step(
        StepId::Verify,
        vec![gpusetup::operation::Run::ask(["/bin/true"], None).into()],
    )];
    fs::write(&file, serde_json::to_string(&plan).expect("JSON")).expect("written");
    gpusetup([
        "bundle",
        "create",
        "--root",
        text(&host.root()),
        "--plan",
        text(&file),
        "-o",
        text(&bundle),
    ])
    .succeeds();
    text(&bundle).to_owned()
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn an_apply_is_not_resumed_on_another_host() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let host = Host::new("begun");
    let kernel = host.kernel();
    // The package that is missing is of the host's kernel; what comes after it is of none.
    short::offer(&host, &[short::deb("other", ":")]);
    let headers = format!("linux-headers-{kernel}-missing");
    let done = short::run(&["/bin/touch", "/etc/begun"], &["/etc/begun"], &[]);
    let fails = short::run(&["/bin/false"], &[], &[]);
    let needs = short::run(
        &["/bin/touch", &format!("/etc/{headers}")],
        &[&format!("/etc/{headers}")],
        &[],
    );
    let steps = |middle| {
        vec![
            short::step(StepId::BlacklistNouveau, vec![done.clone()]),
            short::step(StepId::Prerequisites, vec![middle, needs.clone()]),
        ]
    };
    let plan: Plan = short::plan(&host, steps(fails));
    let file = short::saved(folder.path(), &plan);
    host.gpusetup_plain(&["apply", text(&file), "--yes", "--accept-eula"])
        .exits(7);
    let changes: [Case; 3] = [
        (
            "begun-upgraded",
            upgrade,
            "the interrupted apply was made for Debian 12 on x86_64; this host is Debian 13"
                .to_owned(),
        ),
        (
            "begun-replaced",
            replace,
            "this host is Ubuntu 24.04 on x86_64".to_owned(),
        ),
        (
            "begun-newer-kernel",
            new_kernel,
            format!("made for kernel {kernel}; this host boots {NEWER}"),
        ),
    ];
    for (name, change, sentence) in changes {
        let other = host.clone_as(name);
        change(&other);
        is_refused(
            &other.gpusetup_plain(&["resume", "--yes"]),
            &[&sentence, "gpusetup rollback"],
        );
        is_refused(
            &other.gpusetup_plain(&["apply", text(&file), "--yes", "--accept-eula"]),
            &["; this host"],
        );
        assert!(!other.path(&format!("/etc/{headers}")).exists());
        other
            .gpusetup_plain(&["status", "--wait", "--timeout", "1"])
            .exits(5);
        other.gpusetup_plain(&["rollback", "--yes"]).succeeds();
        assert!(!other.path("/etc/begun").exists());
    }
    // The same host goes on, to the same failure.
    host.gpusetup_plain(&["resume", "--yes"]).exits(7);
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn an_apply_is_resumed_with_the_kernel_that_came_with_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let host = Host::new("brought-kernel");
    let brings = short::run(
        &["/bin/mkdir", &format!("/lib/modules/{NEWER}")],
        &[&format!("/lib/modules/{NEWER}")],
        &[],
    );
    let reboot =
        gpusetup::operation::Operation::Reboot(gpusetup::operation::Reboot { enrolls: None });
    let after = short::run(&["/bin/touch", "/etc/after"], &["/etc/after"], &[]);
    let steps = vec![
        short::step(StepId::InstallDriver, vec![brings]),
        short::step(StepId::Reboot, vec![reboot]),
        short::step(StepId::Environment, vec![after]),
    ];
    let file = short::saved(folder.path(), &short::plan(&host, steps));
    let ran = host
        .gpusetup_plain(&[
            "apply",
            text(&file),
            "--yes",
            "--accept-eula",
            "--reboot",
            "external",
        ])
        .succeeds();
    assert!(ran.out.contains("A reboot is required"), "{ran:?}");
    let (other, id) = (
        folder.path().join("boot_id"),
        host.path("/proc/sys/kernel/random/boot_id"),
    );
    fs::write(&other, "22222222-2222-2222-2222-222222222222\n").expect("written");
    machine("mount", &["--bind", text(&other), text(&id)]).succeeds();
    let ran = host.gpusetup_plain(&["resume", "--unattended", "--reboot", "external"]);
    machine("umount", &[text(&id)]).succeeds();
    ran.succeeds();
    assert!(host.path("/etc/after").exists());
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_lock_file_for_another_host_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("lock.json");
    let first = Host::new("locks");
    let kernel = first.kernel();
    let plan = [
        "plan",
        "--gpu",
        "t4",
        "--profile",
        "driver",
        "--method",
        "packages",
        "--driver",
        "535",
    ];
    let shown = first
        .gpusetup_plain(&[&plan[..], &["--json"]].concat())
        .succeeds()
        .json();
    offer(&first, &wanted(&shown), &["535.261.03-1~deb12u1"]);
    first
        .gpusetup_plain(&[&plan[..], &["--lock", text(&file)]].concat())
        .succeeds();
    let lock: Value = serde_json::from_slice(&fs::read(&file).expect("there")).expect("JSON");
    assert_eq!(lock["kernel"], kernel.as_str(), "{lock}");
    let apply = [
        "apply",
        "--gpu",
        "t4",
        "--profile",
        "driver",
        "--yes",
        "--accept-eula",
        "--locked",
        text(&file),
    ];
    let cases: [Case; 3] = [
        (
            "locked-upgraded",
            upgrade,
            "made for debian 12 on x86_64; this host is Debian 13 on x86_64".to_owned(),
        ),
        (
            "locked-replaced",
            replace,
            "made for debian 12 on x86_64; this host is Ubuntu 24.04 on x86_64".to_owned(),
        ),
        (
            "locked-newer-kernel",
            new_kernel,
            format!("made for kernel {kernel}; this host boots {NEWER}"),
        ),
    ];
    for (name, change, sentence) in cases {
        let host = first.clone_as(name);
        change(&host);
        let before = host.ask("dpkg-query -W");
        is_refused(&host.gpusetup_plain(&apply), &["the lock file", &sentence]);
        is_untouched(&host, &before);
    }
}
