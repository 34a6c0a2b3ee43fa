//! `db update`, with databases signed by the real minisign: what is signed, whole and newer is used
//! from then on; all else is refused, and what was in use stays in use.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A maker of databases with keys of its own, and a machine that believes the first of them.
struct Bench {
    folder: tempfile::TempDir,
}

fn run(program: &str, args: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(program)
        .args(args)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{program}: {e}; tests/run installs what the tests need"));
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(stdin.as_bytes())
        .expect("read by the child");
    child.wait_with_output().expect("it ends")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let to = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).expect("copied");
        }
    }
}

impl Bench {
    fn new() -> Self {
        let bench = Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
        };
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR"));
        for kind in ["compat", "manifests"] {
            copy(&shipped.join(kind), &bench.path("facts").join(kind));
        }
        for key in ["release", "stranger"] {
            let (public, secret) = (
                bench.text(&format!("{key}.pub")),
                bench.text(&format!("{key}.key")),
            );
            let made = run("minisign", &["-G", "-W", "-p", &public, "-s", &secret], "");
            assert!(
                made.status.success(),
                "{}",
                String::from_utf8_lossy(&made.stderr)
            );
        }
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn sign(&self, file: &str, key: &str) {
        let (file, secret) = (self.text(file), self.text(&format!("{key}.key")));
        let signed = run("minisign", &["-S", "-m", &file, "-s", &secret], "");
        assert!(
            signed.status.success(),
            "{}",
            String::from_utf8_lossy(&signed.stderr)
        );
    }

    /// A signed database of this version, with this comment in it.
    fn made(&self, version: &str, comment: &str) -> String {
        let text = format!("# {comment}\nversion: \"{version}\"\n");
        fs::write(self.path("facts/compat/version.yaml"), text).expect("written");
        let file = format!("{version}{comment}.tar.xz");
        let packed = self.gpusetup(&[
            "db",
            "pack",
            &self.text("facts"),
            "--out",
            &self.text(&file),
        ]);
        assert!(packed.0 == 0, "{packed:?}");
        self.sign(&file, "release");
        file
    }

    /// The exit code, and all that was said.
    fn gpusetup(&self, args: &[&str]) -> (i32, String) {
        let out = Command::new(env!("CARGO_BIN_EXE_gpusetup"))
            .args(args)
            .env("GPUSETUP_DATABASE_STORE", self.path("store"))
            .output()
            .expect("it starts");
        let stderr = [out.stdout, out.stderr].concat();
        (
            out.status.code().expect("an exit code"),
            String::from_utf8(stderr).expect("text"),
        )
    }

    fn update(&self, from: &str) -> (i32, String) {
        self.gpusetup(&[
            "db",
            "update",
            "--key",
            &self.text("release.pub"),
            "--from",
            from,
        ])
    }

    fn update_with(&self, file: &str) -> (i32, String) {
        self.update(&self.text(file))
    }

    /// The version of the database that a plan is made with.
    fn in_use(&self) -> String {
        let (code, output) = self.gpusetup(&[
            "plan",
            "--profile",
            "compute",
            "--gpu",
            "10de:2330",
            "--json",
        ]);
        assert_eq!(code, 0, "{output}");
        let plan: serde_json::Value = serde_json::from_str(&output).expect("JSON");
        plan["database"]["version"]
            .as_str()
            .expect("a version")
            .to_owned()
    }
}

#[test]
fn what_is_signed_and_newer_is_used_and_all_else_is_refused() {
    let bench = Bench::new();
    let shipped = bench.in_use();
    let first = bench.made("2030.1.1", "");
    let (code, output) = bench.update_with(&first);
    assert_eq!((code, bench.in_use().as_str()), (0, "2030.1.1"), "{output}");
    assert!(output.contains(&shipped), "{output}");
    let (code, output) = bench.update_with(&first);
    assert!(
        code == 0 && output.starts_with("database 2030.1.1 is in use already\n"),
        "{code} {output}"
    );
    assert!(
        output.contains(&format!(
            "trusting databases signed by the key in {}",
            bench.text("release.pub")
        )),
        "{output}"
    );

    let bytes = fs::read(bench.path(&first)).expect("made");
    let newer = bench.made("2030.2.1", "");
    let signature = fs::read(bench.path(&format!("{newer}.minisig"))).expect("signed");
    let mut altered = fs::read(bench.path(&newer)).expect("made");
    let middle = altered.len() / 2;
    altered[middle] ^= 1;
    fs::write(bench.path("altered.tar.xz"), &altered).expect("written");
    fs::write(bench.path("altered.tar.xz.minisig"), &signature).expect("written");
    fs::write(bench.path("unsigned.tar.xz"), &bytes).expect("written");
    fs::copy(bench.path(&newer), bench.path("strangers.tar.xz")).expect("copied");
    bench.sign("strangers.tar.xz", "stranger");
    fs::write(bench.path("cut.tar.xz"), &bytes[..bytes.len() / 2]).expect("written");
    bench.sign("cut.tar.xz", "release");
    fs::write(
        bench.path("facts/compat/new-kind.yaml"),
        "quantum_gpus: []\n",
    )
    .expect("written");
    let facts = bench.text("facts");
    let tar = bench.text("form.tar.xz");
    assert!(
        run(
            "tar",
            &["-cJf", &tar, "-C", &facts, "compat", "manifests"],
            ""
        )
        .status
        .success()
    );
    bench.sign("form.tar.xz", "release");
    fs::write(bench.path("facts/setup.sh"), "true\n").expect("written");
    fs::remove_file(bench.path("facts/compat/new-kind.yaml")).expect("removed");
    let tar = bench.text("strange.tar.xz");
    assert!(
        run(
            "tar",
            &[
                "-cJf",
                &tar,
                "-C",
                &facts,
                "compat",
                "manifests",
                "setup.sh"
            ],
            ""
        )
        .status
        .success()
    );
    bench.sign("strange.tar.xz", "release");
    let older = bench.made("2029.12.31", "");
    let other = bench.made("2030.1.1", "-other");

    for (file, words) in [
        (
            "unsigned.tar.xz",
            &["not signed", "unsigned.tar.xz.minisig"][..],
        ),
        ("altered.tar.xz", &["changed later"]),
        ("strangers.tar.xz", &["the signature does not match"]),
        ("cut.tar.xz", &["cannot be unpacked"]),
        (
            "form.tar.xz",
            &["newer gpusetup", "compat/new-kind.yaml:1", "quantum_gpus"],
        ),
        ("strange.tar.xz", &["setup.sh"]),
        (&older, &["2029.12.31", "2030.1.1"]),
        (&other, &["2030.1.1", "content differs"]),
    ] {
        let (code, output) = bench.update_with(file);
        assert_eq!(code, 10, "{file}: {output}");
        assert!(words.iter().all(|w| output.contains(w)), "{file}: {output}");
        assert_eq!(bench.in_use(), "2030.1.1", "{file}");
    }
    let (code, output) = bench.update_with("nothing.tar.xz");
    assert_eq!(code, 2, "{output}");
    let (code, output) = bench.gpusetup(&[
        "db",
        "update",
        "--key",
        &bench.text(&first),
        "--from",
        &bench.text(&newer),
    ]);
    assert!(
        code == 2 || code == 10,
        "a key that is none: {code} {output}"
    );

    // The one before is kept, older ones are not.
    for version in ["2030.3.1", "2030.4.1"] {
        assert_eq!(bench.update_with(&bench.made(version, "")).0, 0);
    }
    let mut kept: Vec<_> = fs::read_dir(bench.path("store"))
        .expect("there")
        .map(|e| e.expect("read").file_name())
        .collect();
    kept.sort();
    assert_eq!(kept, ["2030.3.1", "2030.4.1", "current", "newest-accepted"]);
    assert_eq!(bench.gpusetup(&["db", "update", "--built-in"]).0, 0);
    assert_eq!(bench.in_use(), shipped);

    // What is signed is signed for ever: an old one, newer than the binary's, is told from a new
    // one by what was there.
    let old = bench.text(&newer);
    let (code, output) = bench.update(&old);
    assert!(
        code == 10 && output.contains("2030.4.1") && output.contains("--allow-older"),
        "{code} {output}"
    );
    assert_eq!(bench.in_use(), shipped);
    let key = bench.text("release.pub");
    assert_eq!(
        bench
            .gpusetup(&[
                "db",
                "update",
                "--allow-older",
                "--key",
                &key,
                "--from",
                &old
            ])
            .0,
        0
    );
    assert_eq!(bench.in_use(), "2030.2.1");
}

#[test]
fn a_database_that_expired_is_refused() {
    let bench = Bench::new();
    let shipped = bench.in_use();
    fs::write(
        bench.path("facts/compat/version.yaml"),
        "version: \"2030.1.1\"\n",
    )
    .expect("written");
    let pack = |day: &str, file: &str| {
        let packed = bench.gpusetup(&[
            "db",
            "pack",
            &bench.text("facts"),
            "--out",
            &bench.text(file),
            "--expires",
            day,
        ]);
        assert_eq!(packed.0, 0, "{packed:?}");
        bench.sign(file, "release");
    };
    pack("2026-11-01", "over.tar.xz");
    let (code, output) = bench.update_with("over.tar.xz");
    assert!(
        code == 10
            && output.contains("it expired on 2026-11-01")
            && output.contains("--allow-older"),
        "{code} {output}"
    );
    assert_eq!(bench.in_use(), shipped);
    let key = bench.text("release.pub");
    let (code, output) = bench.gpusetup(&[
        "db",
        "update",
        "--allow-older",
        "--key",
        &key,
        "--from",
        &bench.text("over.tar.xz"),
    ]);
    assert_eq!((code, bench.in_use().as_str()), (0, "2030.1.1"), "{output}");
    fs::write(
        bench.path("facts/compat/version.yaml"),
        "version: \"2030.1.2\"\n",
    )
    .expect("written");
    pack("2999-12-31", "good.tar.xz");
    assert_eq!(bench.update_with("good.tar.xz").0, 0);
    let (code, output) =
        bench.gpusetup(&["db", "pack", ".", "--out", "/dev/null", "--expires", "soon"]);
    assert!(
        code == 2 && output.contains("2026-11-20"),
        "{code} {output}"
    );
}

#[test]
fn two_people_can_be_needed_for_a_database() {
    let bench = Bench::new();
    let file = bench.made("2030.1.1", "");
    let keys = format!(
        "{},{}",
        bench.text("release.pub"),
        bench.text("stranger.pub")
    );
    let update = || bench.gpusetup(&["db", "update", "--key", &keys, "--from", &bench.text(&file)]);
    let (code, output) = update();
    assert!(
        code == 10 && output.contains("2 signatures by different keys are needed, and 1 match"),
        "{code} {output}"
    );
    let signature = bench.path(&format!("{file}.minisig"));
    let first = fs::read(&signature).expect("signed");
    bench.sign(&file, "stranger");
    let second = fs::read(&signature).expect("signed");
    fs::write(&signature, [first, second].concat()).expect("written");
    let (code, output) = update();
    assert_eq!((code, bench.in_use().as_str()), (0, "2030.1.1"), "{output}");
}

#[test]
fn an_old_database_is_warned_of_and_can_be_refused() {
    let plan = |today: &str, more: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_gpusetup"))
            .args(["plan", "--gpu", "h100", "--os", "ubuntu-24.04"])
            .args(more)
            .env("GPUSETUP_TODAY", today)
            .output()
            .expect("it starts");
        (
            out.status.code(),
            String::from_utf8([out.stdout, out.stderr].concat()).expect("text"),
        )
    };
    let (code, output) = plan("2026-12-01", &["--max-database-age", "30"]);
    assert!(
        code == Some(0) && output.contains(" days old)") && !output.contains("GS607"),
        "{output}"
    );
    let (code, output) = plan("2028-01-01", &[]);
    assert!(
        code == Some(0) && output.contains("GS607") && output.contains("sudo gpusetup db update"),
        "{output}"
    );
    let (code, output) = plan("2028-01-01", &["--max-database-age", "90"]);
    assert!(
        code == Some(5) && output.contains("--max-database-age: the database"),
        "{code:?} {output}"
    );
}

#[test]
fn a_database_comes_over_the_network() {
    let bench = Bench::new();
    let file = bench.made("2030.1.1", "");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    let folder = bench.folder.path().to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a client");
            let lines = BufReader::new(stream.try_clone().expect("cloned")).lines();
            let head: Vec<String> = lines
                .map_while(Result::ok)
                .take_while(|l| !l.is_empty())
                .collect();
            let name = head[0]
                .split(' ')
                .nth(1)
                .expect("a path")
                .trim_start_matches('/')
                .to_owned();
            let (status, body) = match fs::read(folder.join(name)) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            stream
                .write_all(&[head.as_bytes(), &body].concat())
                .expect("sent");
        }
    });
    let (code, output) = bench.update(&format!("{address}/{file}"));
    assert_eq!((code, bench.in_use().as_str()), (0, "2030.1.1"), "{output}");
    fs::copy(bench.path(&file), bench.path("unsigned.tar.xz")).expect("copied");
    let (code, output) = bench.update(&format!("{address}/unsigned.tar.xz"));
    assert_eq!(code, 10, "{output}");
    assert_eq!(bench.update("http://127.0.0.1:1/database.tar.xz").0, 6);
}

#[test]
fn what_is_damaged_or_open_to_others_is_not_used() {
    let bench = Bench::new();
    let shipped = bench.in_use();
    assert_eq!(bench.update_with(&bench.made("2030.1.1", "")).0, 0);
    let plan = || {
        bench.gpusetup(&[
            "plan",
            "--profile",
            "compute",
            "--gpu",
            "10de:2330",
            "--json",
        ])
    };
    let installed = bench.path("store/2030.1.1");

    // The archive says the same as the compact form, which another gpusetup would not understand
    // either.
    let compact = installed.join("database.bin");
    let mut bytes = fs::read(&compact).expect("there");
    *bytes.last_mut().expect("not empty") ^= 1;
    fs::write(&compact, bytes).expect("written");
    assert_eq!(bench.in_use(), "2030.1.1");

    let mode =
        |mode| fs::set_permissions(&installed, fs::Permissions::from_mode(mode)).expect("set");
    mode(0o777);
    let (code, output) = plan();
    assert!(
        code == 10 && output.contains("other than root"),
        "{code} {output}"
    );
    mode(0o755);

    // Neither a file nor the folder is taken from elsewhere, whatever is there.
    for linked in [&compact, &installed] {
        let elsewhere = bench.path("elsewhere");
        fs::rename(linked, &elsewhere).expect("moved");
        symlink(&elsewhere, linked).expect("linked");
        let (code, output) = plan();
        assert!(
            code == 10 && output.contains("--built-in"),
            "{code} {output}"
        );
        fs::remove_file(linked).expect("removed");
        fs::rename(&elsewhere, linked).expect("moved back");
    }
    assert_eq!(bench.in_use(), "2030.1.1");

    fs::write(installed.join("database.tar.xz"), "nothing").expect("written");
    let (code, output) = plan();
    assert!(
        code == 10 && output.contains("damaged") && output.contains("--built-in"),
        "{code} {output}"
    );
    // A newer one repairs it.
    assert_eq!(bench.update_with(&bench.made("2030.2.1", "")).0, 0);
    assert_eq!(bench.in_use(), "2030.2.1");
    assert_eq!(bench.gpusetup(&["db", "update", "--built-in"]).0, 0);
    assert_eq!(bench.in_use(), shipped);
}
