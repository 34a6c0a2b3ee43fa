//! install.sh, and what `gpusetup self` does with what it installed: from a folder, over loopback
//! and through a proxy, and with everything that can be wrong with a download, after which nothing
//! is left behind.

use crate::host::{Ran, Server, machine, text};
use crate::keyring::Keyring;
use crate::release::{Release, dist, stand_in};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The archive of this machine.
fn archive() -> String {
    format!("gpusetup-0.1.0-{}-linux.tar.gz", std::env::consts::ARCH)
}

/// Runs a copy of the release's script, with no other variables than these.
fn install(release: &Release, from: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Ran {
    let mut command = Command::new("sh");
    command
        .arg(release.file("install.sh"))
        .args(arguments)
        .env_clear();
    command
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("GPUSETUP_MIRROR", from)
        .envs(environment.iter().copied());
    Ran::of(command.output().expect("sh runs"))
}

/// The files below a folder.
fn below(folder: &Path) -> BTreeSet<String> {
    let found = machine("find", &[text(folder), "-mindepth", "1", "-printf", "%P\n"])
        .succeeds()
        .out;
    found.lines().map(str::to_owned).collect()
}

/// A release as a server has it: `latest/download` and `download/v0.1.0`.
fn published(release: &Release, folder: &Path) -> PathBuf {
    let latest = folder.join("latest/download");
    fs::create_dir_all(latest.parent().expect("a folder")).expect("made");
    fs::create_dir_all(folder.join("download")).expect("made");
    machine("cp", &["-r", text(&release.files()), text(&latest)]).succeeds();
    machine(
        "ln",
        &[
            "-s",
            "../latest/download",
            text(&folder.join("download/v0.1.0")),
        ],
    )
    .succeeds();
    latest
}

#[test]
#[ignore = "needs what tests/run installs"]
fn it_installs_below_a_prefix() {
    let release = Release::small();
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    published(&release, &path("served"));
    let server = Server::of(&path("served"));
    let prefix = path("prefix");
    let to = ["--prefix", text(&prefix)];

    let ran = install(
        &release,
        &server.url,
        &[&to[..], &["--dry-run"]].concat(),
        &[],
    )
    .succeeds();
    assert!(ran.out.contains(&format!(
        "would install gpusetup 0.1.0: {} from {}, below ",
        archive(),
        server.url
    )));
    assert!(!prefix.exists());
    let ran = install(&release, &server.url, &to, &[]).succeeds();
    assert!(
        ran.out.contains("installed gpusetup 0.1.0: ") && ran.out.contains("not on PATH yet"),
        "{ran:?}"
    );
    assert_eq!(ran.err, "", "the signature is verified");
    assert_eq!(
        machine(text(&prefix.join("bin/gpusetup")), &["--version"])
            .succeeds()
            .out,
        "gpusetup 0.1.0\n"
    );
    let receipt = fs::read_to_string(prefix.join("share/gpusetup/receipt")).expect("a receipt");
    let listed: BTreeSet<_> = receipt
        .lines()
        .filter_map(|line| line.strip_prefix("file "))
        .map(str::to_owned)
        .collect();
    let there: BTreeSet<_> = below(&prefix)
        .into_iter()
        .filter(|path| !prefix.join(path).is_dir())
        .collect();
    assert_eq!(listed, there);
    // Once more, this version, a folder, and another spelling.
    install(
        &release,
        &server.url,
        &[&to[..], &["--version", "v0.1.0"]].concat(),
        &[],
    )
    .succeeds();
    let equal = format!("--prefix={}", prefix.display());
    install(&release, text(&release.files()), &[&equal], &[]).succeeds();
    assert_eq!(
        below(&prefix)
            .into_iter()
            .filter(|path| !prefix.join(path).is_dir())
            .collect::<BTreeSet<_>>(),
        there
    );

    // Without curl, and without both.
    for (absent, works) in [(&["curl"][..], true), (&["curl", "wget"], false)] {
        let programs = path(&format!("without-{}", absent.join("-")));
        fs::create_dir(&programs).expect("made");
        machine(
            "sh",
            &[
                "-c",
                "ln -s /usr/bin/* /bin/* \"$0\" 2>/dev/null; true",
                text(&programs),
            ],
        )
        .succeeds();
        for name in absent {
            fs::remove_file(programs.join(name)).expect("it was there");
        }
        let ran = install(&release, &server.url, &to, &[("PATH", text(&programs))]);
        assert_eq!(ran.code == Some(0), works, "{absent:?}: {ran:?}");
    }

    // Through a proxy, which is this server: it is asked for the whole address.
    let host = path("served/http:/releases.example");
    fs::create_dir_all(&host).expect("made");
    published(&release, &host);
    server.requests();
    install(
        &release,
        "http://releases.example",
        &to,
        &[("http_proxy", &server.url)],
    )
    .succeeds();
    assert!(
        server
            .requests()
            .iter()
            .any(|asked| asked.starts_with("http://releases.example/latest/download/"))
    );
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn what_is_wrong_with_a_download_leaves_nothing_behind() {
    let release = Release::small();
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let whole = published(&release, &path("served"));
    let server = Server::of(&path("served"));
    let read = |name: &str| fs::read(whole.join(name)).expect("there");
    let (sums, signature, packed) = (
        read("SHA256SUMS"),
        read("SHA256SUMS.minisig"),
        read(&archive()),
    );
    let put = |name: &str, bytes: &[u8]| fs::write(whole.join(name), bytes).expect("written");
    let prefix = path("prefix");
    let temporary = path("temporary");
    fs::create_dir(&temporary).expect("made");
    let refused = |what: &str, words: &str, arguments: &[&str]| {
        let to = ["--prefix", text(&prefix)];
        let ran = install(
            &release,
            &server.url,
            &[&to[..], arguments].concat(),
            &[("TMPDIR", text(&temporary))],
        );
        assert!(
            ran.code == Some(1) && ran.err.contains(words),
            "{what}: {ran:?}"
        );
        assert!(!prefix.exists(), "{what}: {:?}", below(&prefix));
        assert_eq!(below(&temporary), BTreeSet::new(), "{what}");
    };

    put(&archive(), &packed[..packed.len() / 2]);
    refused("half an archive", "is not what SHA256SUMS says", &[]);
    let mut changed = packed.clone();
    changed[packed.len() / 2] ^= 1;
    put(&archive(), &changed);
    refused("a changed archive", "is not what SHA256SUMS says", &[]);
    let sum = machine("sha256sum", &[text(&whole.join(archive()))])
        .succeeds()
        .out;
    let other: String = String::from_utf8_lossy(&sums)
        .lines()
        .map(|line| match line.ends_with(&archive()) {
            true => format!("{}  {}\n", &sum[..64], archive()),
            false => format!("{line}\n"),
        })
        .collect();
    put("SHA256SUMS", other.as_bytes());
    refused(
        "checksums to go with it",
        "has 0 signatures by release keys, and needs 1",
        &[],
    );
    let stranger = release.path("stranger.key");
    machine(
        "minisign",
        &[
            "-S",
            "-s",
            text(&stranger),
            "-m",
            text(&whole.join("SHA256SUMS")),
        ],
    )
    .succeeds();
    refused(
        "a stranger's signature",
        "has 0 signatures by release keys, and needs 1",
        &[],
    );
    fs::remove_file(whole.join("SHA256SUMS.minisig")).expect("removed");
    refused(
        "no signature",
        "SHA256SUMS.minisig could not be fetched from ",
        &[],
    );
    put("SHA256SUMS.minisig", &signature);
    put("SHA256SUMS", &sums[..70]);
    refused(
        "half the checksums",
        "has 0 signatures by release keys, and needs 1",
        &[],
    );
    put("SHA256SUMS", &sums);
    put(&archive(), &packed);
    refused(
        "another version",
        "SHA256SUMS could not be fetched",
        &["--version", "9.9.9"],
    );
    fs::remove_file(whole.join(archive())).expect("removed");
    refused("no archive", "could not be fetched", &[]);
    put(&archive(), &packed);

    // No space, neither for the download nor for the files.
    let full = path("full");
    fs::create_dir(&full).expect("made");
    machine(
        "mount",
        &[
            "-t",
            "tmpfs",
            "-o",
            "size=16k,mode=755",
            "tmpfs",
            text(&full),
        ],
    )
    .succeeds();
    let ran = install(
        &release,
        &server.url,
        &["--prefix", text(&full)],
        &[("TMPDIR", text(&temporary))],
    );
    assert!(
        ran.code == Some(1) && ran.err.contains("cannot be unpacked below"),
        "{ran:?}"
    );
    assert_eq!(
        (below(&full), below(&temporary)),
        (BTreeSet::new(), BTreeSet::new())
    );
    let ran = install(
        &release,
        &server.url,
        &["--prefix", text(&prefix)],
        &[("TMPDIR", text(&full))],
    );
    assert!(
        ran.code == Some(1) && ran.err.contains("cannot be written\n  try: df -h "),
        "{ran:?}"
    );
    assert_eq!((below(&full), prefix.exists()), (BTreeSet::new(), false));
    machine("umount", &[text(&full)]).succeeds();

    // What is in the way of a file, or leads elsewhere.
    let (other, taken, linked) = (path("other"), path("taken"), path("linked"));
    fs::create_dir_all(taken.join("bin/gpusetup")).expect("made");
    fs::create_dir_all(&other).expect("made");
    fs::create_dir_all(&linked).expect("made");
    std::os::unix::fs::symlink(&other, linked.join("share")).expect("made");
    for (prefix, words) in [
        (&taken, "bin/gpusetup is a folder"),
        (&linked, "/share is a link"),
    ] {
        let ran = install(&release, &server.url, &["--prefix", text(prefix)], &[]);
        assert!(ran.code == Some(1) && ran.err.contains(words), "{ran:?}");
        assert!(
            !below(prefix)
                .iter()
                .any(|path| path.starts_with(".gpusetup-"))
        );
    }
    assert!(
        below(&other).iter().all(|path| other.join(path).is_dir()),
        "{:?}",
        below(&other)
    );
    // A password of the mirror is neither printed nor kept.
    let with_password = server.url.replace("://", "://user:secret@");
    let ran = install(&release, &with_password, &["--prefix", text(&prefix)], &[]).succeeds();
    let receipt = fs::read_to_string(prefix.join("share/gpusetup/receipt")).expect("there");
    assert!(
        !format!("{ran:?}{receipt}").contains("secret"),
        "{ran:?}{receipt}"
    );
    fs::remove_dir_all(&prefix).expect("removed");

    // Half a script does nothing, wherever it ends.
    let script = fs::read(release.file("install.sh")).expect("there");
    for length in (0..script.len() - 12).step_by(97) {
        let half = path("half.sh");
        fs::write(&half, &script[..length]).expect("written");
        let mut command = Command::new("sh");
        command
            .arg(&half)
            .args(["--prefix", text(&prefix)])
            .env("GPUSETUP_MIRROR", &server.url);
        command.output().expect("sh runs");
        assert!(!prefix.exists(), "{length} bytes");
    }
    // Mistakes of whoever calls it.
    for wrong in [
        &["--prefix"][..],
        &["--prefix", "relative"],
        &["--version", "1;reboot"],
        &["--what"],
        &["now"],
    ] {
        assert_eq!(
            install(&release, &server.url, wrong, &[]).code,
            Some(2),
            "{wrong:?}"
        );
    }
    let ran = machine(
        "sh",
        &[
            concat!(env!("CARGO_MANIFEST_DIR"), "/install.sh"),
            "--prefix",
            text(&prefix),
        ],
    );
    assert!(
        ran.code == Some(1) && ran.err.contains("no address to install from"),
        "{ran:?}"
    );
    // The place was right all the time.
    install(&release, &server.url, &["--prefix", text(&prefix)], &[]).succeeds();
}

#[test]
#[ignore = "needs what tests/run installs"]
fn two_people_can_be_needed_for_a_release() {
    let release = Release::small();
    let folder = tempfile::tempdir().expect("a folder");
    let list = folder.path().join("release-keys");
    let text_of = format!(
        "gpusetup.keys/1 1 2 {} {}\n",
        release.key("release"),
        release.key("stranger")
    );
    fs::write(&list, text_of).expect("written");
    let (release_key, stranger_key) = (release.path("release.key"), release.path("stranger.key"));
    let (program, out) = (release.path("program"), folder.path().join("out"));
    let options = [
        "--release-keys",
        text(&list),
        "--sign",
        text(&stranger_key),
        "--sign",
        text(&release_key),
    ];
    dist(&program, &out, &options, &[]).succeeds();
    let prefix = folder.path().join("prefix");
    let install = || {
        let mut command = Command::new("sh");
        command
            .arg(out.join("install.sh"))
            .args(["--prefix", text(&prefix)])
            .env("GPUSETUP_MIRROR", &out);
        Ran::of(command.output().expect("sh runs"))
    };
    install().succeeds();
    fs::remove_dir_all(&prefix).expect("installed");
    let both = fs::read_to_string(out.join("SHA256SUMS.minisig")).expect("signed");
    let one: String = both
        .lines()
        .take(4)
        .map(|line| format!("{line}\n"))
        .collect();
    for signatures in [one.clone(), format!("{one}{one}")] {
        fs::write(out.join("SHA256SUMS.minisig"), signatures).expect("written");
        let ran = install();
        assert!(
            ran.code == Some(1)
                && ran
                    .err
                    .contains("has 1 signatures by release keys, and needs 2"),
            "{ran:?}"
        );
        assert!(!prefix.exists());
    }
    // Nor is a list that its own keys did not all agree to.
    fs::write(
        &list,
        format!(
            "{}gpusetup.keys/1 2 1 {}\n",
            fs::read_to_string(&list).expect("there"),
            release.key("release")
        ),
    )
    .expect("written");
    let ran = dist(&program, &out, &options, &[]);
    assert!(
        ran.code == Some(1) && ran.err.contains("list 2 of the keys is not signed"),
        "{ran:?}"
    );
    fs::write(
        &list,
        fs::read_to_string(&list)
            .expect("there")
            .lines()
            .next()
            .expect("a list")
            .to_owned()
            + "\n",
    )
    .expect("written");
    // Nor is another release mixed with this one.
    fs::write(out.join("gpusetup-0.0.9-x86_64-linux.tar.gz"), "").expect("written");
    let ran = dist(&program, &out, &options, &[]);
    assert!(
        ran.code == Some(1) && ran.err.contains("which is not of release 0.1.0"),
        "{ran:?}"
    );
}

/// A release of another version, of which only what `self update` reads is there; the version is
/// that of its program.
fn other_release(release: &Release, folder: &Path, version: &str, key: &str) {
    let name = format!("gpusetup-{version}-{}-linux", std::env::consts::ARCH);
    let tree = folder.join(&name);
    fs::create_dir_all(tree.join("bin")).expect("made");
    fs::create_dir_all(tree.join("share/doc/gpusetup")).expect("made");
    stand_in(&tree.join("bin/gpusetup"), version);
    fs::write(tree.join("share/doc/gpusetup/new.md"), "new\n").expect("written");
    let make = "cd \"$0\" && find \"$1\" -type f | tar -czf \"$1.tar.gz\" -T - && sha256sum \"$1.tar.gz\" >SHA256SUMS";
    machine("sh", &["-c", make, text(folder), &name]).succeeds();
    let secret = release.path(key);
    machine(
        "minisign",
        &[
            "-S",
            "-s",
            text(&secret),
            "-m",
            text(&folder.join("SHA256SUMS")),
        ],
    )
    .succeeds();
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn it_updates_and_removes_itself() {
    let release = Release::real();
    // Not below /tmp, where others may write.
    let folder = tempfile::tempdir_in("/opt").expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let prefix = path("prefix");
    fs::create_dir_all(prefix.join("bin")).expect("made");
    fs::write(prefix.join("bin/another"), "").expect("written");
    install(
        release,
        text(&release.files()),
        &["--prefix", text(&prefix)],
        &[],
    )
    .succeeds();
    let program = prefix.join("bin/gpusetup");
    let first = below(&prefix);
    let key = release.path("release.pub");
    let own = |arguments: &[&str]| machine(text(&program), &[&["self"], arguments].concat());
    let update = |from: &Path| own(&["update", "--from", text(from), "--key", text(&key)]);

    let ran = own(&["update", "--from", text(&release.files())]);
    assert!(
        ran.code == Some(10) && ran.err.contains("without release keys"),
        "{ran:?}"
    );
    assert!(
        update(&release.files())
            .succeeds()
            .out
            .contains("nothing to do")
    );
    own(&[
        "verify",
        text(&release.files().join("SHA256SUMS")),
        "--key",
        text(&key),
    ])
    .succeeds();
    let ran = own(&[
        "verify",
        text(&release.files().join("SHA256SUMS")),
        "--key",
        text(&release.path("stranger.pub")),
    ]);
    assert_eq!(ran.code, Some(10), "{ran:?}");

    other_release(release, &path("strange"), "0.2.0", "stranger.key");
    other_release(release, &path("older"), "0.0.9", "release.key");
    other_release(release, &path("newer"), "0.2.0", "release.key");
    let ran = update(&path("strange"));
    assert!(
        ran.code == Some(10) && ran.err.contains("the signature does not match"),
        "{ran:?}"
    );
    assert!(
        update(&path("older"))
            .succeeds()
            .out
            .contains("nothing to do")
    );
    let packed = path("newer").join(format!(
        "gpusetup-0.2.0-{}-linux.tar.gz",
        std::env::consts::ARCH
    ));
    let bytes = fs::read(&packed).expect("made");
    fs::write(&packed, &bytes[..bytes.len() / 2]).expect("written");
    let ran = update(&path("newer"));
    assert!(
        ran.code == Some(10) && ran.err.contains("is not what SHA256SUMS says"),
        "{ran:?}"
    );
    fs::write(&packed, &bytes).expect("written");
    let ran = own(&[
        "update",
        "--from",
        text(&path("newer")),
        "--key",
        text(&key),
        "--dry-run",
    ])
    .succeeds();
    assert!(
        ran.out.contains("would replace gpusetup 0.1.0 by 0.2.0"),
        "{ran:?}"
    );
    // An unsigned one, and one that is as old as nobody should have it; what is left of neither is
    // in the way.
    let signatures = path("newer").join("SHA256SUMS.minisig");
    let signed = fs::read(&signatures).expect("signed");
    fs::remove_file(&signatures).expect("there");
    let ran = update(&path("newer"));
    assert!(
        ran.code == Some(10) && ran.err.contains("it is not signed"),
        "{ran:?}"
    );
    let secret = release.path("release.key");
    let sums = path("newer").join("SHA256SUMS");
    let comment = "gpusetup 0.2.0\tfile:SHA256SUMS\texpires:2026-01-31";
    machine(
        "minisign",
        &["-S", "-s", text(&secret), "-m", text(&sums), "-t", comment],
    )
    .succeeds();
    let ran = update(&path("newer"));
    let words = " days past its last day, 2026-01-31";
    assert!(
        ran.code == Some(10) && ran.err.contains(words) && ran.err.contains("freeze"),
        "{ran:?}"
    );
    let newer = path("newer");
    let named = [
        "update",
        "--from",
        text(&newer),
        "--key",
        text(&key),
        "--dry-run",
        "--to",
        "0.2.0",
    ];
    assert!(
        own(&named)
            .succeeds()
            .out
            .contains("would replace gpusetup 0.1.0 by 0.2.0")
    );
    fs::write(&signatures, signed).expect("written");
    assert_eq!(below(&prefix), first, "nothing has changed so far");
    // What stops an update half-way takes its own program away again.
    fs::create_dir_all(prefix.join("share/doc/gpusetup/new.md/in-the-way")).expect("made");
    let ran = update(&path("newer"));
    assert!(
        ran.code != Some(0) && !prefix.join("bin/.gpusetup-new").exists(),
        "{ran:?}"
    );
    assert!(
        machine(text(&program), &["--version"])
            .succeeds()
            .out
            .contains("0.1.0")
    );
    fs::remove_dir_all(prefix.join("share/doc/gpusetup/new.md")).expect("there");

    // Removed, with what was there before, and installed again.
    let ran = own(&["uninstall", "--dry-run"]).succeeds();
    assert!(ran.out.contains(text(&program)), "{ran:?}");
    own(&["uninstall", "--yes"]).succeeds();
    let left: BTreeSet<_> = below(&prefix)
        .into_iter()
        .filter(|path| path.contains("gpusetup"))
        .collect();
    assert_eq!(left, BTreeSet::new());
    assert!(prefix.join("bin/another").exists());
    install(
        release,
        text(&release.files()),
        &["--prefix", text(&prefix)],
        &[],
    )
    .succeeds();

    // Killed at each rename up to that of the program: the old one works, and a second run
    // completes it.
    for at in 1..=4 {
        let inject = format!("inject=/^rename:signal=KILL:when={at}");
        let from = [
            "self",
            "update",
            "--from",
            text(&path("newer")),
            "--key",
            text(&key),
        ]
        .map(str::to_owned);
        let own_words: Vec<_> = [
            "-f",
            "-qq",
            "-e",
            &inject,
            "-o",
            "/dev/null",
            text(&program),
        ]
        .map(str::to_owned)
        .into();
        let words = [own_words, from.to_vec()].concat();
        let killed = machine(
            "strace",
            &words.iter().map(String::as_str).collect::<Vec<_>>(),
        );
        assert_ne!(killed.code, Some(0), "{at}: {killed:?}");
        assert!(
            machine(text(&program), &["--version"])
                .succeeds()
                .out
                .contains("0.1.0"),
            "{at}"
        );
        update(&path("newer")).succeeds();
        assert_eq!(
            machine(text(&program), &[]).succeeds().out,
            "gpusetup 0.2.0\n",
            "{at}"
        );
        assert!(!prefix.join("bin/.gpusetup-new").exists(), "{at}");
        install(
            release,
            text(&release.files()),
            &["--prefix", text(&prefix), "--version", "0.1.0"],
            &[],
        )
        .succeeds();
    }

    let ran = update(&path("newer")).succeeds();
    assert!(ran.out.contains("gpusetup 0.2.0 is installed"), "{ran:?}");
    assert_eq!(
        machine(text(&program), &[]).succeeds().out,
        "gpusetup 0.2.0\n"
    );
    assert!(
        prefix.join("share/doc/gpusetup/new.md").exists()
            && !prefix.join("share/doc/gpusetup/README.md").exists()
    );
    let receipt = fs::read_to_string(prefix.join("share/gpusetup/receipt")).expect("there");
    assert!(
        receipt.contains("\nversion 0.2.0\n") && !receipt.contains("README"),
        "{receipt}"
    );
    // The script does not go back by itself, but when asked.
    let to = ["--prefix", text(&prefix)];
    let ran = install(release, text(&release.files()), &to, &[]);
    assert!(
        ran.code == Some(1) && ran.err.contains("gpusetup 0.2.0 is installed"),
        "{ran:?}"
    );
    install(
        release,
        text(&release.files()),
        &[&to[..], &["--version", "0.1.0"]].concat(),
        &[],
    )
    .succeeds();
    assert!(
        machine(text(&program), &["--version"])
            .succeeds()
            .out
            .contains("0.1.0")
    );
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn root_installs_nothing_where_others_can_write() {
    let release = Release::small();
    let folder = tempfile::tempdir_in("/opt").expect("a folder");
    machine("chmod", &["755", text(folder.path())]).succeeds();
    let path = |name: &str| folder.path().join(name);
    let ran = path("ran");
    // A user's program, in a folder of the user, in one that a group writes to, and below one.
    for (prefix, lent, how) in [
        ("owned", "owned", &["chown", "1234"][..]),
        ("group", "group", &["chmod", "g+w"]),
        ("above/prefix", "above", &["chown", "1234"]),
        ("bin-owned", "bin-owned/bin", &["chown", "1234"]),
        ("everybody", "everybody/share/gpusetup", &["chmod", "o+w"]),
    ] {
        let (prefix, lent) = (path(prefix), path(lent));
        for folder in ["bin", "share/gpusetup"] {
            fs::create_dir_all(prefix.join(folder)).expect("made");
        }
        let program = prefix.join("bin/gpusetup");
        fs::write(&program, format!("#!/bin/sh\ntouch {}\n", ran.display())).expect("written");
        machine("chmod", &["755", text(&program)]).succeeds();
        machine(how[0], &[&how[1..], &[text(&lent)]].concat()).succeeds();
        let before = below(&prefix);
        let outcome = install(
            &release,
            text(&release.files()),
            &["--prefix", text(&prefix)],
            &[],
        );
        assert!(
            outcome.code == Some(1) && outcome.err.contains("others than root own "),
            "{prefix:?}: {outcome:?}"
        );
        assert_eq!(below(&prefix), before);
    }
    // A user's link to a folder of root.
    fs::create_dir_all(path("theirs")).expect("made");
    fs::create_dir_all(path("roots")).expect("made");
    std::os::unix::fs::symlink(path("roots"), path("theirs/link")).expect("made");
    machine("chown", &["-h", "1234", text(&path("theirs/link"))]).succeeds();
    let outcome = install(
        &release,
        text(&release.files()),
        &["--prefix", text(&path("theirs/link"))],
        &[],
    );
    assert!(
        outcome.code == Some(1) && outcome.err.contains("others than root own "),
        "{outcome:?}"
    );
    assert_eq!(below(&path("roots")), BTreeSet::new());
    // What was there is replaced, and not run.
    let prefix = path("own");
    fs::create_dir_all(prefix.join("bin")).expect("made");
    machine(
        "cp",
        &[
            "-p",
            text(&path("owned/bin/gpusetup")),
            text(&prefix.join("bin")),
        ],
    )
    .succeeds();
    install(
        &release,
        text(&release.files()),
        &["--prefix", text(&prefix)],
        &[],
    )
    .succeeds();
    assert!(!ran.exists());
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn self_update_follows_the_lists_of_release_keys() {
    let (ring, release) = (Keyring::new(), Release::real());
    let folder = tempfile::tempdir_in("/opt").expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let prefix = path("prefix");
    install(
        release,
        text(&release.files()),
        &["--prefix", text(&prefix)],
        &[],
    )
    .succeeds();
    let first = ring.list(1, &["a", "b", "c"]);
    let second = ring.signed_list(2, &["b", "c", "d"], &["b", "c"]);
    let third = ring.signed_list(3, &["c", "d", "e"], &["c", "d"]);
    other_release(release, &path("newer"), "0.2.0", "release.key");
    let publish = |lists: &[&str], by: &[&str]| {
        fs::write(path("newer/release-keys"), lists.concat()).expect("written");
        ring.sign(&path("newer/SHA256SUMS"), by);
    };
    let update = |more: &[&str]| {
        let mut command = Command::new(prefix.join("bin/gpusetup"));
        command
            .args(["self", "update", "--from", text(&path("newer"))])
            .args(more);
        command
            .env("GPUSETUP_KEY_LIST", first.trim_end())
            .env("GPUSETUP_DATABASE_STORE", path("store"));
        Ran::of(command.output().expect("it runs"))
    };
    let offers = |ran: Ran| {
        ran.succeeds()
            .out
            .contains("would replace gpusetup 0.1.0 by 0.2.0")
    };
    let refuses = |ran: &Ran| {
        ran.code == Some(10)
            && ran
                .err
                .contains("2 signatures by different keys are needed")
    };
    publish(&[], &["a", "b"]);
    assert!(offers(update(&["--dry-run"])), "before");
    publish(&[&first, &second], &["b", "d"]);
    assert!(offers(update(&["--dry-run"])), "after `a` was lost");
    publish(&[&first, &second, &third], &["d", "e"]);
    assert!(
        offers(update(&["--dry-run"])),
        "a client that skipped a list"
    );
    assert!(!path("store").exists(), "a dry run keeps nothing");
    publish(&[&first, &second], &["a", "b"]);
    let ran = update(&[]);
    assert!(refuses(&ran), "a revoked key: {ran:?}");
    publish(&[&first], &["a", "b"]);
    let ran = update(&[]);
    assert!(
        refuses(&ran),
        "an older list than the one that was followed: {ran:?}"
    );
    publish(&[&first, &second, &third], &["d", "e"]);
    let ran = update(&[]).succeeds();
    assert!(ran.out.contains("gpusetup 0.2.0 is installed"), "{ran:?}");
    assert_eq!(
        fs::read_to_string(path("store/release-keys")).expect("kept"),
        [first, second, third].concat()
    );
}
