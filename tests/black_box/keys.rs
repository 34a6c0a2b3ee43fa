//! The release keys, with real ones: one is lost and replaced, one is revoked, a client skips a
//! list, and a mirror has an old one, for `db update`, `self verify` and install.sh. `self update`
//! is in tests/as_root/install_script.rs.

use crate::keyring::Keyring;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mirror, and a host whose gpusetup and install.sh were made with the first list of keys.
struct Bench {
    ring: Keyring,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self {
            ring: Keyring::new(),
            folder: tempfile::tempdir().expect("a folder"),
        };
        fs::create_dir(bench.path("mirror")).expect("made");
        let name = format!("gpusetup-0.1.0-{}-linux.tar.gz", std::env::consts::ARCH);
        fs::write(
            bench.path("mirror/SHA256SUMS"),
            format!("{}  {name}\n", "0".repeat(64)),
        )
        .expect("written");
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("install.sh");
        let known = format!("\nknown={} #", bench.path("store/release-keys").display());
        let script = fs::read_to_string(shipped).expect("there");
        let script = script.replace(
            "\nkeys=\n",
            &format!("\nkeys='{}'\n", bench.first().trim_end()),
        );
        let script = script.replace("\nknown=/var/lib/gpusetup-database/release-keys #", &known);
        assert!(script.contains(&known), "{script}");
        fs::write(bench.path("install.sh"), script).expect("written");
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The list that everybody began with.
    fn first(&self) -> String {
        self.ring.list(1, &["a", "b", "c"])
    }

    /// `a` was lost: the other two replaced it by `d`.
    fn second(&self) -> String {
        self.ring.signed_list(2, &["b", "c", "d"], &["b", "c"])
    }

    /// Then `b` was.
    fn third(&self) -> String {
        self.ring.signed_list(3, &["c", "d", "e"], &["c", "d"])
    }

    fn publish(&self, lists: &[String]) {
        fs::write(self.path("mirror/release-keys"), lists.concat()).expect("written");
    }

    fn sign(&self, name: &str, by: &[&str]) {
        self.ring.sign(&self.path(&format!("mirror/{name}")), by);
    }

    /// A database of this version, unsigned.
    fn pack(&self, version: &str) {
        let facts = self.path("facts");
        for kind in ["compat", "manifests"] {
            let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(kind);
            fs::create_dir_all(&facts).expect("made");
            assert!(
                Command::new("cp")
                    .arg("-r")
                    .args([&from, &facts])
                    .status()
                    .expect("cp runs")
                    .success()
            );
        }
        fs::write(
            facts.join("compat/version.yaml"),
            format!("version: \"{version}\"\n"),
        )
        .expect("written");
        let out = self.path("mirror/database.tar.xz");
        let packed = self.gpusetup(&[
            "db",
            "pack",
            &facts.display().to_string(),
            "--out",
            &out.display().to_string(),
        ]);
        assert_eq!(packed.0, 0, "{packed:?}");
    }

    fn gpusetup(&self, words: &[&str]) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpusetup"));
        command
            .args(words)
            .env("GPUSETUP_KEY_LIST", self.first().trim_end())
            .env_remove("GPUSETUP_KEY");
        code_and_output(command.env("GPUSETUP_DATABASE_STORE", self.path("store")))
    }

    fn update(&self) -> (i32, String) {
        self.gpusetup(&[
            "db",
            "update",
            "--from",
            &self.path("mirror/database.tar.xz").display().to_string(),
        ])
    }

    fn verify(&self) -> (i32, String) {
        self.gpusetup(&[
            "self",
            "verify",
            &self.path("mirror/SHA256SUMS").display().to_string(),
        ])
    }

    /// What install.sh says, by way of each program that can verify.
    fn install(&self) -> [(i32, String); 2] {
        let mirror = self.path("mirror").display().to_string();
        ["minisign", "openssl"].map(|verifier| self.script(&[verifier], &mirror, &[]))
    }

    /// What install.sh says where only these of the programs are that matter here.
    fn script(&self, programs: &[&str], from: &str, words: &[&str]) -> (i32, String) {
        let bin = self.path(&format!("bin-{}", programs.join("-")));
        if !bin.exists() {
            fs::create_dir(&bin).expect("made");
            let left_out = |name: &str| {
                ["minisign", "openssl", "curl"].contains(&name) && !programs.contains(&name)
            };
            for entry in ["/usr/bin", "/bin"]
                .iter()
                .flat_map(|folder| fs::read_dir(folder).expect("there"))
            {
                let path = entry.expect("an entry").path();
                let name = path
                    .file_name()
                    .expect("a name")
                    .to_string_lossy()
                    .into_owned();
                if !left_out(&name) {
                    let _ = symlink(&path, bin.join(name));
                }
            }
            // A server of any kind, which is the mirror's folder.
            let curl = bin.join("curl");
            if programs.contains(&"curl") {
                let _ = fs::remove_file(&curl);
                let serve = format!(
                    "#!/bin/sh\nfor url; do :; done\nwhile [ \"$1\" != -o ]; do shift; done\ncp {}/\"${{url##*/}}\" \"$2\" 2>/dev/null\n",
                    self.path("mirror").display()
                );
                fs::write(&curl, serve).expect("written");
                fs::set_permissions(&curl, fs::Permissions::from_mode(0o755)).expect("set");
            }
        }
        let mut command = Command::new("/bin/sh");
        command
            .arg(self.path("install.sh"))
            .args(["--dry-run", "--prefix", "/opt/gpusetup"])
            .args(words)
            .env_clear();
        code_and_output(command.env("PATH", &bin).env("GPUSETUP_MIRROR", from))
    }

    /// That all three accept or refuse what is on the mirror, and with these words.
    fn all(&self, code: i32, words: &str) {
        let mut every = vec![("db update", self.update()), ("self verify", self.verify())];
        every.extend(self.install().map(|output| ("install.sh", output)));
        for (what, (is, output)) in every {
            let expected = if what == "install.sh" {
                i32::from(code != 0)
            } else {
                code
            };
            assert!(
                is == expected && output.contains(words),
                "{what}: {is} {output}"
            );
        }
    }
}

fn code_and_output(command: &mut Command) -> (i32, String) {
    let out = command.output().expect("it runs");
    (
        out.status.code().expect("it ends"),
        String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned(),
    )
}

#[test]
fn a_lost_key_is_replaced_and_a_revoked_one_counts_no_more() {
    let bench = Bench::new();
    let both = |by: &[&str]| {
        ["SHA256SUMS", "database.tar.xz"]
            .iter()
            .for_each(|name| bench.sign(name, by))
    };
    bench.pack("2030.1.1");
    // Before: any two of the three, and never one.
    both(&["a", "b"]);
    bench.all(0, "");
    for by in [&["a"][..], &["a", "a"], &["a", "d"]] {
        both(by);
        bench.all(10, "2");
    }
    // `a` is lost. What the others sign is accepted at once, without and with the new key.
    both(&["b", "c"]);
    bench.all(0, "");
    bench.publish(&[bench.first(), bench.second()]);
    bench.pack("2030.1.2");
    both(&["b", "d"]);
    bench.all(0, "");
    let lists = |of: &str| fs::read_to_string(bench.path(of)).expect("there");
    assert_eq!(lists("store/release-keys"), lists("mirror/release-keys"));
    // Whoever has `a` now signs with it: no longer anything, whatever the mirror says about the
    // lists.
    bench.pack("2030.1.3");
    both(&["a", "b"]);
    bench.all(10, "");
    bench.publish(&[bench.first()]);
    bench.all(10, "");
    fs::remove_file(bench.path("mirror/release-keys")).expect("there");
    bench.all(10, "");
    // Another second list, by the old keys.
    bench.publish(&[
        bench.first(),
        bench.ring.signed_list(2, &["a", "b", "e"], &["a", "b"]),
    ]);
    bench.all(10, "another list 2 of ");
    // What goes back to the built-in database does not go back to the old keys.
    assert_eq!(bench.gpusetup(&["db", "update", "--built-in"]).0, 0);
    fs::remove_file(bench.path("mirror/release-keys")).expect("there");
    bench.all(10, "");
    both(&["c", "d"]);
    bench.all(0, "");
}

#[test]
fn whoever_skipped_lists_follows_them_and_nobody_else_makes_any() {
    let bench = Bench::new();
    let both = |by: &[&str]| {
        ["SHA256SUMS", "database.tar.xz"]
            .iter()
            .for_each(|name| bench.sign(name, by))
    };
    bench.pack("2030.1.1");
    both(&["d", "e"]);
    bench.all(10, "");
    for (lists, words) in [
        (vec![bench.third()], "list 2 of the"),
        (
            vec![
                bench.ring.signed_list(2, &["b", "c", "d"], &["b"]),
                bench.third(),
            ],
            "list 2 of the",
        ),
        // By two of the new keys, and by two of the old ones, alone.
        (
            vec![bench.ring.signed_list(2, &["b", "d", "e"], &["b", "d"])],
            "list 2 of the",
        ),
        (
            vec![bench.ring.signed_list(2, &["c", "d", "e"], &["a", "b"])],
            "list 2 of the",
        ),
        (
            vec![
                bench.second(),
                bench
                    .third()
                    .replace("file:release-keys-3", "file:release-keys-4"),
            ],
            "list 3 of the",
        ),
        (
            vec![
                bench
                    .second()
                    .replace("gpusetup.keys/1 2 2", "gpusetup.keys/1 2 1"),
            ],
            "list 2 of the",
        ),
        (vec!["gpusetup.keys/2 2 2\n".to_owned()], " can"),
    ] {
        bench.publish(&lists);
        bench.all(10, words);
        assert!(!bench.path("store/release-keys").exists(), "{lists:?}");
    }
    bench.publish(&[bench.first(), bench.second(), bench.third()]);
    bench.all(0, "");
    both(&["b", "c"]);
    bench.all(10, "");
    // A host that has followed the second list goes on from it.
    fs::write(bench.path("store/release-keys"), bench.second()).expect("written");
    both(&["d", "e"]);
    bench.all(0, "");
    // Damage is told with what helps.
    fs::write(bench.path("store/release-keys"), "nothing\n").expect("written");
    let (code, output) = bench.update();
    assert!(code == 10 && output.contains("sudo rm "), "{output}");
}

#[test]
fn everybody_reads_as_many_signatures_and_ends_a_line_alike() {
    let bench = Bench::new();
    bench.pack("2030.1.1");
    let both = |by: &[&str]| {
        ["SHA256SUMS", "database.tar.xz"]
            .iter()
            .for_each(|name| bench.sign(name, by))
    };
    // Twenty, of which the last two count; then twenty-one.
    both(&[&["e"; 18][..], &["a", "b"]].concat());
    bench.all(0, "");
    both(&[&["e"; 19][..], &["a", "b"]].concat());
    bench.all(10, "1");
    both(&["c", "d"]);
    for wrong in [
        bench.second().replace('\n', "\r\n"),
        format!("\n{}", bench.second()),
    ] {
        bench.publish(&[wrong]);
        bench.all(10, "");
        assert!(!bench.path("store/release-keys").exists());
    }
    let lf = |name: &str| {
        fs::read_to_string(bench.path(&format!("mirror/{name}.minisig"))).expect("signed")
    };
    let by = [&["e"; 18][..], &["b", "c"]].concat();
    bench.publish(&[
        bench.first(),
        bench.ring.signed_list(2, &["b", "c", "d"], &by),
    ]);
    bench.all(0, "");
    for name in ["SHA256SUMS", "database.tar.xz"] {
        fs::write(
            bench.path(&format!("mirror/{name}.minisig")),
            lf(name).replace('\n', "\r\n"),
        )
        .expect("written");
    }
    bench.all(10, "");
}

#[test]
fn nothing_larger_than_its_kind_is_kept() {
    let bench = Bench::new();
    bench.pack("2030.1.1");
    ["SHA256SUMS", "database.tar.xz"]
        .iter()
        .for_each(|name| bench.sign(name, &["a", "b"]));
    bench.publish(&[bench.first(), "#".repeat(64 << 10)]);
    bench.all(10, "");
    let names_it =
        |output: &str| output.contains("release-keys of ") && output.contains("larger than 64 KiB");
    assert!(
        bench.install().iter().all(|(_, output)| names_it(output)),
        "{:?}",
        bench.install()
    );
    fs::remove_file(bench.path("mirror/release-keys")).expect("there");
    // An answer without a length, and without an end.
    let (code, output) = bench.script(&["curl", "openssl"], "https://releases.example", &[]);
    assert!(code == 0, "{output}");
    let endless = "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\nexec cat /dev/zero >\"$2\"\n";
    fs::write(bench.path("bin-curl-openssl/curl"), endless).expect("written");
    let (code, output) = bench.script(&["curl", "openssl"], "https://releases.example", &[]);
    assert!(
        code == 1
            && output.contains("SHA256SUMS of https://releases.example is larger than 64 KiB"),
        "{code} {output}"
    );
}

#[test]
fn a_signature_is_for_a_name_and_until_a_day() {
    let bench = Bench::new();
    bench.pack("2030.1.1");
    let sign = |name: &str, comment: &str| {
        bench.ring.sign_as(
            &bench.path(&format!("mirror/{name}")),
            &["a", "b"],
            Some(&comment.replace('|', "\t")),
        );
    };
    let both = |of: &str, more: &str| {
        for name in ["SHA256SUMS", "database.tar.xz"] {
            sign(
                name,
                &format!("gpusetup 0.1.0{of}{more}").replace("NAME", name),
            );
        }
    };
    both("|file:NAME", "|expires:2999-12-31");
    bench.all(0, "");
    assert!(
        bench
            .verify()
            .1
            .contains("\n  gpusetup 0.1.0, file:SHA256SUMS, expires:2999-12-31\n"),
        "{:?}",
        bench.verify()
    );
    for of in ["", "|file:other", "|file:NAMES", " file:NAME"] {
        both(of, "");
        bench.all(10, "");
    }
    // A signed list of checksums under the name of a database.
    sign("SHA256SUMS", "|file:SHA256SUMS");
    let mirror = |name: &str| bench.path(&format!("mirror/{name}"));
    fs::copy(mirror("SHA256SUMS"), mirror("database.tar.xz")).expect("copied");
    fs::copy(
        mirror("SHA256SUMS.minisig"),
        mirror("database.tar.xz.minisig"),
    )
    .expect("copied");
    let (code, output) = bench.update();
    assert!(
        code == 10 && output.contains("another name than database.tar.xz"),
        "{output}"
    );

    bench.pack("2030.1.2");
    for day in ["2026-01-31", "soon", ""] {
        both("|file:NAME", &format!("|expires:{day}"));
        let (code, output) = bench.update();
        assert!(
            code == 10
                && output.contains("the signature expired on")
                && output.contains("--allow-older"),
            "{output}"
        );
        assert!(bench.install().iter().all(|(code, _)| *code == 1), "{day}");
    }
    // What a mirror adds to the comment, for a verifier that stops at a carriage return, or at the
    // first of two fields.
    both("|file:NAME", "|expires:2026-01-31");
    let signatures = fs::read_to_string(mirror("SHA256SUMS.minisig")).expect("there");
    fs::write(
        mirror("SHA256SUMS.minisig"),
        signatures.replace("2026-01-31", "2026-01-31\r\texpires:2999-12-31"),
    )
    .expect("written");
    assert!(
        bench.install().iter().all(|(code, _)| *code == 1),
        "{:?}",
        bench.install()
    );
    for comment in [
        "|file:NAME|expires:2999-12-31|expires:2026-01-31",
        "|file:other|file:NAME",
    ] {
        both(comment, "");
        assert!(
            bench.install().iter().all(|(code, _)| *code == 1),
            "{comment}: {:?}",
            bench.install()
        );
    }
    both("|file:NAME", "|expires:2026-01-31");
    assert!(
        bench.install()[1]
            .1
            .contains("expired on 2026-01-31: it is an old one"),
        "{:?}",
        bench.install()
    );
    // What was installed while the signature was good is what was signed, and it is said that newer
    // releases are due.
    let (code, output) = bench.verify();
    assert!(
        code == 0
            && output.contains("\nIts last day, 2026-01-31, is over: ")
            && output.contains("self update"),
        "{output}"
    );
    let sums = mirror("SHA256SUMS").display().to_string();
    let (code, output) = bench.gpusetup(&["self", "verify", "--json", &sums]);
    assert!(
        code == 0 && output.contains("\"expired\": \"2026-01-31\""),
        "{output}"
    );
    // Whoever names a release may mean an old one.
    let from = mirror("").display().to_string();
    let (code, output) = bench.script(&["openssl"], &from, &["--version", "0.1.0"]);
    assert!(code == 0, "{output}");
    fs::remove_file(mirror("SHA256SUMS.minisig")).expect("there");
    let (code, output) = bench.verify();
    assert!(
        code == 10 && output.contains("it is not signed"),
        "{output}"
    );
}

#[test]
fn the_install_script_installs_nothing_that_it_cannot_verify() {
    let bench = Bench::new();
    bench.sign("SHA256SUMS", &["a", "b"]);
    let folder = bench.path("mirror").display().to_string();
    let (https, http) = ("https://releases.example", "http://releases.example");
    for from in [&folder, http, https] {
        let (code, output) = bench.script(&["curl"], from, &[]);
        let offered = from == https;
        assert!(
            code == 1
                && output.contains("neither minisign nor OpenSSL 3")
                && output.contains("\n  try: "),
            "{output}"
        );
        assert_eq!(output.contains("--skip-signature"), offered, "{output}");
        let (code, output) = bench.script(&["curl"], from, &["--skip-signature"]);
        assert!(
            code == i32::from(!offered)
                && output.contains(if offered {
                    "warning: "
                } else {
                    "for https:// only"
                }),
            "{output}"
        );
    }
    // What can be verified is, whoever asks not to.
    for verifier in ["minisign", "openssl"] {
        for from in [http, https] {
            let (code, output) = bench.script(&["curl", verifier], from, &[]);
            assert!(code == 0 && !output.contains("warning"), "{output}");
        }
    }
    bench.sign("SHA256SUMS", &["a", "d"]);
    for verifier in ["minisign", "openssl"] {
        let (code, output) = bench.script(&["curl", verifier], https, &["--skip-signature"]);
        assert!(
            code == 1 && output.contains("has 1 signatures by release keys, and needs 2"),
            "{output}"
        );
    }
    // Without curl, wget may be sent on to http.
    let (code, output) = bench.script(&[], https, &["--skip-signature"]);
    assert!(code == 1, "{output}");
}

#[test]
fn no_login_is_in_what_is_said() {
    let bench = Bench::new();
    let key = bench.ring.path("a", "pub").display().to_string();
    for words in [
        &[
            "db",
            "update",
            "--from",
            "http://me:S3CRET@127.0.0.1:1/d?token=S3CRET",
        ][..],
        &[
            "db",
            "update",
            "--from",
            "http://me:S3CRET@127.0.0.1:1/d",
            "--key",
            &key,
        ],
        &[
            "db",
            "update",
            "--from",
            "http://me:S3CRET@127.0.0.1:1/d",
            "--from",
            "http://me:S3CRET@127.0.0.1:1/d",
        ],
        &["plan", "--gpu", "http://me:S3CRET@127.0.0.1:1/d"],
        &["plan", "--driver", "http://me:S3CRET@127.0.0.1:1/d"],
        &["plan", "--mirror", "ftp://me:S3CRET@127.0.0.1:1/d"],
        &["plan", "--mirror", "https://me:SESAME/S3CRET@127.0.0.1:1/d"],
        &[
            "db",
            "update",
            "--from",
            "https://me:S3CRET/SESAME@127.0.0.1:1/d",
            "--key",
            &key,
        ],
        &[
            "db",
            "update",
            "--from",
            "https://me:SESAME?S3CRET@127.0.0.1:1/d",
            "--key",
            &key,
        ],
        &[
            "db",
            "update",
            "--from",
            "https:/me:S3CRET@127.0.0.1:1/d?token=S3CRET",
            "--key",
            &key,
        ],
        &["self", "verify", "//me:S3CRET@127.0.0.1:1/d", "--key", &key],
        &[
            "self",
            "verify",
            "http//me:S3CRET@127.0.0.1:1/d",
            "--key",
            &key,
        ],
        &[
            "self",
            "verify",
            "http://me:S3CRET@127.0.0.1:1/d",
            "--key",
            &key,
        ],
        // Where a file is expected.
        &["bundle", "verify", "https://x.example/d?token=S3CRET"],
        &["plan", "--bundle", "https://x.example/d#S3CRET"],
        &["plan", "--facts", "https://x.example/d?token=S3CRET"],
        &["container", "check", "https://x.example/d?token=S3CRET"],
        &["container", "check", "https://x.example/d.tar#S3CRET"],
        &["bundle", "verify", "https://me:SESAME S3CRET@x.example/d"],
    ] {
        for words in [words.to_vec(), [words, &["--json"]].concat()] {
            let (code, output) = bench.gpusetup(&words);
            assert!(
                code != 0 && !output.contains("SESAME") && !output.contains("S3CRET"),
                "{words:?}: {output}"
            );
        }
    }
    // Nor in facts, which are for others to read.
    let tree = crate::common::Tree::debian_12();
    tree.write(
        "etc/apt/sources.list",
        "deb https://me:S3CRET@mirror.example/debian bookworm main\n",
    );
    let output = tree.run(&["facts", "--json"]).out;
    assert!(
        output.contains("https://mirror.example/debian") && !output.contains("S3CRET"),
        "{output}"
    );
    for from in [
        "https://me:SESAME/S3CRET@127.0.0.1:1/d",
        "https://me:9SESAME?S3CRET@127.0.0.1:1/d",
        "https:/me:S3CRET@127.0.0.1:1/d",
        "//me:S3CRET@127.0.0.1:1/d",
        "http//me:S3CRET@127.0.0.1:1/d",
        "me:S3CRET@127.0.0.1:1",
        // curl would print what it takes for a pattern.
        "https://[me:S3CRET@::1]",
        "https://me:{S3CRET@127.0.0.1:1",
    ] {
        for client in ["wget", "curl"] {
            let (code, output) = bench.script(&["openssl", client], from, &[]);
            assert!(
                code == 1 && !output.contains("SESAME") && !output.contains("S3CRET"),
                "{from}: {output}"
            );
        }
    }
}
