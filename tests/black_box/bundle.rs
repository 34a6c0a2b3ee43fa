//! `gpusetup bundle`, as a user runs it, with downloads of a few bytes: what is whole is used, and
//! of what is not every file is named. What a bundle does on a host is in
//! `tests/as_root/real_host.rs`.

use crate::common::{Ran, Tree, run};
use crate::faulty::{Fault, Faulty};
use crate::schema;
use gpusetup::plan::Plan;
use gpusetup::sum::sha256;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A host that bundles are made on, with all that its plans download in its cache, and a folder for
/// what is made.
struct Bench {
    maker: Tree,
    folder: tempfile::TempDir,
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of the tests are UTF-8")
}

/// A host with a GPU and a compiler: a toolkit needs no package there.
fn host() -> Tree {
    Tree::ubuntu_24_04()
        .gpu("0000:17:00.0", "20b2", None)
        .gxx(13)
}

const TOOLKITS: [&str; 2] = ["12.8.1", "12.9.1"];

fn downloads(plan: &Value) -> Vec<(String, String)> {
    let steps = plan["steps"].as_array().expect("steps").iter();
    let all = steps.flat_map(|step| step["operations"].as_array().expect("operations"));
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let name = |to: String| to.rsplit('/').next().expect("a name").to_owned();
    all.filter(|o| o["op"] == "download")
        .map(|o| (name(text(&o["to"])), text(&o["sha256"])))
        .collect()
}

impl Bench {
    /// With a database in which the downloads of two toolkits are a few bytes long.
    fn new() -> Self {
        let bench = Self {
            maker: host(),
            folder: tempfile::tempdir().expect("a temporary folder"),
        };
        let artifacts = bench.path("artifacts");
        fs::create_dir(&artifacts).expect("made");
        for toolkit in TOOLKITS {
            let plan = bench
                .maker
                .run(&["plan", "--profile", "toolkit", "--cuda", toolkit, "--json"])
                .json();
            for (name, _) in downloads(&plan) {
                fs::write(artifacts.join(&name), format!("this is {name}\n")).expect("written");
            }
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host/database");
        let made = Command::new(script)
            .args([
                text(&artifacts),
                "http://127.0.0.1:9",
                &bench.text("database"),
            ])
            .output()
            .expect("the script starts");
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        for entry in fs::read_dir(&artifacts).expect("listed") {
            let path = entry.expect("an entry").path();
            let content = fs::read_to_string(&path).expect("read");
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            bench.maker.write(
                &format!("var/cache/gpusetup/{}/{name}", &sha256(&content)[..16]),
                &content,
            );
        }
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        text(&self.path(name)).to_owned()
    }

    /// The file of a plan for a host.
    fn plan(&self, on: &Tree, toolkit: &str, name: &str) -> String {
        let (file, database) = (self.text(name), self.text("database"));
        let ran = on.run(&[
            "plan",
            "--database",
            &database,
            "--profile",
            "toolkit",
            "--cuda",
            toolkit,
            "--out",
            &file,
        ]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("set");
        file
    }

    fn create(&self, plans: &[&str], out: &str) -> Ran {
        let (database, out) = (self.text("database"), self.text(out));
        let mut arguments = vec![
            "bundle",
            "create",
            "--database",
            &database,
            "--offline",
            "-o",
            &out,
        ];
        plans
            .iter()
            .for_each(|plan| arguments.extend(["--plan", plan]));
        self.maker.run(&arguments)
    }

    /// A bundle of one plan, with a few bytes for the program: this build's are hundreds of
    /// megabytes.
    fn bundle(&self, out: &str) -> PathBuf {
        let plan = self.plan(&self.maker, TOOLKITS[0], &format!("{out}.json"));
        let ran = self.create(&[&plan], out);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let bundle = self.path(out);
        fs::write(bundle.join("gpusetup"), "program\n").expect("written");
        let mut value = manifest(&bundle);
        value["files"]["gpusetup"] = serde_json::json!({"size": 8, "sha256": sha256("program\n")});
        fs::write(bundle.join("bundle.json"), value.to_string()).expect("written");
        bundle
    }

    /// The same as one file.
    fn archive(&self, name: &str) -> PathBuf {
        let (folder, out) = (self.bundle(name), self.text(&format!("{name}.tar.zst")));
        let ran = run(&["bundle", "pack", text(&folder), "-o", &out]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        out.into()
    }

    fn verify(&self, out: &str, more: &[&str]) -> Ran {
        run(&[&["bundle", "verify", &self.text(out)], more].concat())
    }
}

fn manifest(bundle: &Path) -> Value {
    serde_json::from_slice(&fs::read(bundle.join("bundle.json")).expect("there")).expect("JSON")
}

/// An archive of these entries, each with its kind.
fn archive(entries: &[(&str, tar::EntryType, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, kind, bytes) in entries {
        let mut header = tar::Header::new_ustar();
        // By hand: the library makes no such names.
        header.as_ustar_mut().expect("ustar").name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append(&header, *bytes).expect("appended");
    }
    zstd::encode_all(tar.into_inner().expect("a tar").as_slice(), 1).expect("compressed")
}

#[test]
fn a_bundle_holds_what_its_plans_need_and_once_what_they_share() {
    let bench = Bench::new();
    let plans =
        TOOLKITS.map(|toolkit| bench.plan(&bench.maker, toolkit, &format!("{toolkit}.json")));
    let ran = bench.create(&[&plans[0], &plans[1]], "both");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let manifest = manifest(&bench.path("both"));
    assert_eq!(schema::mistakes("bundle.json", &manifest), [""; 0]);
    let mut wanted = Vec::new();
    for plan in &plans {
        let plan: Value = serde_json::from_slice(&fs::read(plan).expect("there")).expect("JSON");
        wanted.extend(
            downloads(&plan)
                .into_iter()
                .map(|(name, sum)| format!("artifacts/{}/{name}", &sum[..16])),
        );
    }
    assert_eq!(wanted.len(), 4);
    wanted.sort();
    wanted.dedup();
    assert_eq!(wanted.len(), 3, "one cuDNN for both");
    let files = manifest["files"].as_object().expect("files");
    let artifacts: Vec<_> = files
        .keys()
        .filter(|name| name.starts_with("artifacts/"))
        .cloned()
        .collect();
    assert_eq!(artifacts, wanted);
    // Beside them the program, the database and the two plans.
    assert_eq!(files.len(), 3 + 4);
    let program = fs::metadata(bench.path("both/gpusetup")).expect("there");
    assert!(program.permissions().mode() & 0o100 != 0, "it can be run");
    let sound = bench.verify("both", &[]);
    assert!(
        sound.code == 0 && sound.out.starts_with("7 files, "),
        "{}{}",
        sound.out,
        sound.err
    );
    let again = bench.create(&[&plans[0]], "both");
    assert!(
        again.code == 2 && again.err.contains("is there already"),
        "{}",
        again.err
    );
}

#[test]
fn a_gpusetup_that_does_not_start_on_the_host_is_not_packed() {
    let bench = Bench::new();
    let file = bench.plan(&bench.maker, TOOLKITS[0], "plan.json");
    let mut plan: Plan = serde_json::from_slice(&fs::read(&file).expect("there")).expect("a plan");
    // Older than any that Rust still builds for.
    plan.host.glibc = Some("2.3".to_owned());
    fs::write(&file, serde_json::to_string(&plan).expect("JSON")).expect("written");
    let refused = bench.create(&[&file], "refused");
    assert!(
        refused.code == 5 && refused.err.contains("would not start on ubuntu 24.04"),
        "{}",
        refused.err
    );
    assert!(
        refused.err.contains("glibc 2.3\n") && refused.err.contains("--gpusetup FILE"),
        "{}",
        refused.err
    );
    assert!(!bench.path("refused").exists());
    // One that asks for no glibc.
    fs::write(bench.path("static"), "static").expect("written");
    let (database, out, other) = (
        bench.text("database"),
        bench.text("made"),
        bench.text("static"),
    );
    let create = [
        "bundle",
        "create",
        "--database",
        &database,
        "--offline",
        "--plan",
        &file,
        "-o",
        &out,
    ];
    let made = bench
        .maker
        .run(&[&create[..], &["--gpusetup", &other]].concat());
    assert_eq!(made.code, 0, "{}", made.err);
    assert_eq!(
        fs::read_to_string(bench.path("made/gpusetup")).expect("there"),
        "static"
    );
}

#[test]
fn what_is_missing_altered_or_surplus_is_named() {
    let bench = Bench::new();
    let bundle = bench.bundle("b");
    let manifest = manifest(&bundle);
    let files: Vec<_> = manifest["files"]
        .as_object()
        .expect("files")
        .keys()
        .cloned()
        .collect();
    let (altered, missing) = (&files[0], &files[1]);
    let path = bundle.join(altered);
    let mut bytes = fs::read(&path).expect("read");
    bytes[0] ^= 1;
    fs::write(&path, bytes).expect("written");
    fs::remove_file(bundle.join(missing)).expect("removed");
    fs::write(bundle.join("plans/mine.json"), "{}").expect("written");
    let ran = bench.verify("b", &[]);
    assert_eq!(ran.code, 10, "{}", ran.err);
    let lines: Vec<_> = ran.out.lines().collect();
    let wanted = [
        format!("missing  {missing}"),
        format!("altered  {altered}"),
        "surplus  plans/mine.json".to_owned(),
    ];
    assert_eq!(lines, wanted);
    let report: Value = serde_json::from_str(&bench.verify("b", &["--json"]).out).expect("JSON");
    assert_eq!(
        (&report["sound"], &report["missing"][0]),
        (&Value::from(false), &Value::from(missing.as_str()))
    );
    // A link is no file of a bundle, wherever it leads.
    let other = bench.bundle("linked");
    let path = other.join(&files[0]);
    fs::rename(&path, bench.path("elsewhere")).expect("moved");
    std::os::unix::fs::symlink(bench.path("elsewhere"), &path).expect("linked");
    assert_eq!(
        bench.verify("linked", &[]).out,
        format!("altered  {}\n", files[0])
    );
    assert_eq!(bench.verify("nothing", &[]).code, 2);
    fs::create_dir(bench.path("empty")).expect("made");
    assert_eq!(bench.verify("empty", &[]).code, 10);
}

#[test]
fn an_archive_is_the_same_as_its_folder() {
    let bench = Bench::new();
    let made = bench.archive("b");
    assert_eq!(bench.verify("b.tar.zst", &[]).code, 0);
    // What is written as one at once is read by the same rules.
    let plan = bench.plan(&bench.maker, TOOLKITS[0], "plan.json");
    assert_eq!(bench.create(&[&plan], "at-once.tar.zst").code, 0);
    assert_eq!(bench.verify("at-once.tar.zst", &[]).code, 0);
    // tar alone can unpack it, for whoever has no gpusetup yet.
    let unpacked = bench.path("unpacked");
    fs::create_dir(&unpacked).expect("made");
    let tar = Command::new("tar")
        .args(["-C", text(&unpacked), "-xf", "-"])
        .stdin(std::process::Stdio::piped())
        .spawn();
    let mut tar = tar.expect("tar starts");
    let bytes = zstd::decode_all(fs::File::open(&made).expect("there")).expect("zstd");
    tar.stdin
        .take()
        .expect("piped")
        .write_all(&bytes)
        .expect("read by tar");
    assert!(tar.wait().expect("ended").success());
    assert_eq!(bench.verify("unpacked", &[]).code, 0);
    assert!(
        fs::metadata(unpacked.join("gpusetup"))
            .expect("there")
            .permissions()
            .mode()
            & 0o100
            != 0
    );
    // What is not whole is packed by nobody.
    fs::write(bench.path("b/database.bin"), "other").expect("written");
    let ran = run(&[
        "bundle",
        "pack",
        &bench.text("b"),
        "-o",
        &bench.text("bad.tar.zst"),
    ]);
    assert!(
        ran.code == 10 && ran.err.contains("database.bin"),
        "{}",
        ran.err
    );
    assert!(!bench.path("bad.tar.zst").exists());
    assert!(
        fs::read_dir(bench.folder.path())
            .expect("listed")
            .flatten()
            .all(|e| !text(&e.path()).contains("gpusetup-new"))
    );
}

/// What becomes of it when it is interrupted at this point: the exit code, and what it says.
fn interrupted(arguments: &[&str], at: impl Fn() -> bool) -> (Option<i32>, String) {
    let mut gpusetup = Command::new(env!("CARGO_BIN_EXE_gpusetup"));
    let mut running = gpusetup
        .args(arguments)
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    while !at() {
        assert!(
            running.try_wait().expect("a child").is_none(),
            "it has not come so far, and has ended"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let killed = Command::new("kill")
        .args(["-INT", &running.id().to_string()])
        .status()
        .expect("kill starts");
    assert!(killed.success());
    let ended = running.wait_with_output().expect("a child");
    (
        ended.status.code(),
        String::from_utf8_lossy(&ended.stderr).into_owned(),
    )
}

#[test]
fn gathering_stops_when_it_is_told_to() {
    let bench = Bench::new();
    let plan = bench.plan(&bench.maker, TOOLKITS[0], "plan.json");
    let (first, _) =
        downloads(&serde_json::from_slice(&fs::read(&plan).expect("there")).expect("JSON"))
            .remove(0);
    let server = Faulty::serve(
        format!("this is {first}\n").into_bytes(),
        vec![Fault::Stall(1)],
        None,
    );
    let mirror = server.url.trim_end_matches("/file");
    let (database, out, cache) = (
        bench.text("database"),
        bench.text("bundle"),
        bench.text("cache"),
    );
    let create = [
        "bundle",
        "create",
        "--database",
        &database,
        "--mirror",
        mirror,
        "--cache",
        &cache,
    ];
    let create = [
        &create[..],
        &[
            "--root",
            text(bench.maker.path()),
            "--plan",
            &plan,
            "-o",
            &out,
        ],
    ]
    .concat();
    let (code, output) = interrupted(&create, || !server.asked().is_empty());
    assert_eq!(code, Some(130), "{output}");
    assert!(
        output.ends_with("error: interrupted\n"),
        "there is nothing to resume: {output}"
    );
    assert!(!bench.path("bundle").exists());
}

#[test]
fn packing_stops_when_it_is_told_to() {
    let bench = Bench::new();
    let bundle = bench.bundle("bundle");
    // Far more than is read before the signal comes, and no room.
    let size = 1_u64 << 36;
    fs::File::create(bundle.join("gpusetup"))
        .and_then(|f| f.set_len(size))
        .expect("sparse");
    let mut value = manifest(&bundle);
    value["files"]["gpusetup"]["size"] = size.into();
    fs::write(bundle.join("bundle.json"), value.to_string()).expect("written");
    let out = bench.path("bundle.tar.zst");
    let begun = bench.path(".bundle.tar.zst.gpusetup-new");
    let pack = ["bundle", "pack", text(&bundle), "-o", text(&out)];
    assert_eq!(
        interrupted(&pack, || begun.exists()),
        (Some(130), "error: interrupted\n".to_owned())
    );
    assert!(!begun.exists() && !out.exists(), "nothing stays of it");
}

#[test]
fn a_cut_or_altered_archive_is_refused() {
    let bench = Bench::new();
    let whole = fs::read(bench.archive("whole")).expect("read");
    for part in [0, 1, 10, whole.len() / 3, whole.len() - 1] {
        fs::write(bench.path("cut.tar.zst"), &whole[..part]).expect("written");
        let ran = bench.verify("cut.tar.zst", &[]);
        assert_eq!(
            ran.code,
            10,
            "{part} of {} bytes: {}{}",
            whole.len(),
            ran.out,
            ran.err
        );
    }
    for at in [60, whole.len() / 5, whole.len() / 2, whole.len() - 100] {
        let mut altered = whole.clone();
        altered[at] ^= 0x40;
        fs::write(bench.path("altered.tar.zst"), altered).expect("written");
        let ran = bench.verify("altered.tar.zst", &[]);
        assert_eq!(ran.code, 10, "byte {at}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn an_archive_made_to_harm_is_refused() {
    let bench = Bench::new();
    let folder = bench.bundle("b");
    let own: Vec<(String, Vec<u8>)> = {
        let files = manifest(&folder)["files"]
            .as_object()
            .expect("files")
            .clone();
        let names = ["bundle.json".to_owned()]
            .into_iter()
            .chain(files.into_iter().map(|(name, _)| name));
        names
            .map(|name| (name.clone(), fs::read(folder.join(&name)).expect("read")))
            .collect()
    };
    use tar::EntryType as Is;
    let entries = || {
        own.iter()
            .map(|(name, bytes)| (name.as_str(), Is::Regular, bytes.as_slice()))
    };
    let verify = |all: &[(&str, Is, &[u8])]| {
        fs::write(bench.path("made.tar.zst"), archive(all)).expect("written");
        bench.verify("made.tar.zst", &[])
    };
    let sound = verify(&entries().collect::<Vec<_>>());
    assert_eq!(sound.code, 0, "{}{}", sound.out, sound.err);
    let tricks: [(&str, Is); 8] = [
        ("../escaped", Is::Regular),
        ("/tmp/escaped", Is::Regular),
        ("plans/mine.json", Is::Regular),
        ("gpusetup", Is::Regular),
        ("link", Is::Symlink),
        ("link", Is::Link),
        ("long", Is::GNULongName),
        ("pipe", Is::Fifo),
    ];
    for (name, kind) in tricks {
        let ran = verify(
            &entries()
                .chain([(name, kind, &b"x"[..])])
                .collect::<Vec<_>>(),
        );
        assert_eq!(ran.code, 10, "{name} {kind:?}: {}{}", ran.out, ran.err);
    }
    assert!(!bench.path("escaped").exists() && !Path::new("/tmp/escaped").exists());
    // The manifest comes first, or nothing could be compared with it.
    let late: Vec<_> = entries().skip(1).chain(entries().take(1)).collect();
    assert_eq!(verify(&late).code, 10);
    // One that itself names a file elsewhere.
    let mut value = manifest(&folder);
    let entry = value["files"]["gpusetup"].clone();
    value["files"]["../escaped"] = entry;
    let bytes = value.to_string();
    let named = [("bundle.json", Is::Regular, bytes.as_bytes())];
    let ran = verify(
        &named
            .into_iter()
            .chain(entries().skip(1))
            .collect::<Vec<_>>(),
    );
    assert!(
        ran.code == 10 && ran.err.contains("../escaped"),
        "{}",
        ran.err
    );
}

#[test]
fn a_signature_is_asked_for_by_its_key() {
    let bench = Bench::new();
    let bundle = bench.bundle("b");
    let minisign = |arguments: &[&str]| {
        let out = Command::new("minisign")
            .args(arguments)
            .output()
            .expect("tests/run installs minisign");
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
    };
    for key in ["ours", "theirs"] {
        let (public, secret) = (
            bench.text(&format!("{key}.pub")),
            bench.text(&format!("{key}.key")),
        );
        minisign(&["-G", "-W", "-p", &public, "-s", &secret]);
    }
    let (ours, theirs) = (bench.text("ours.pub"), bench.text("theirs.pub"));
    let unsigned = bench.verify("b", &["--key", &ours]);
    assert!(
        unsigned.code == 10 && unsigned.err.contains("not signed"),
        "{}",
        unsigned.err
    );
    minisign(&[
        "-S",
        "-m",
        text(&bundle.join("bundle.json")),
        "-s",
        &bench.text("ours.key"),
    ]);
    assert!(
        bench
            .verify("b", &["--key", &ours])
            .out
            .contains("signed by the key")
    );
    assert_eq!(bench.verify("b", &["--key", &theirs]).code, 10);
    assert_eq!(
        bench.verify("b", &[]).code,
        0,
        "who does not ask is not held to it"
    );
    run(&[
        "bundle",
        "pack",
        &bench.text("b"),
        "-o",
        &bench.text("b.tar.zst"),
    ]);
    assert_eq!(
        bench.verify("b.tar.zst", &["--key", &ours]).code,
        0,
        "the signature goes along"
    );
    assert_eq!(bench.verify("b.tar.zst", &["--key", &theirs]).code, 10);
    // Whoever kept an old one that was signed has one that is signed still.
    let store = bench.text("store");
    let plan = |more: &[&str]| {
        let signed = [
            "plan",
            "--bundle",
            text(&bundle),
            "--bundle-key",
            &ours,
            "--database-store",
            &store,
        ];
        bench.maker.run(&[&signed[..], more].concat())
    };
    assert_eq!(plan(&[]).code, 0, "{}", plan(&[]).err);
    fs::create_dir(&store).expect("made");
    fs::write(Path::new(&store).join("newest-accepted"), "2999.1.1\n").expect("written");
    let replayed = plan(&[]);
    assert!(
        replayed.code == 10 && replayed.err.contains("2999.1.1"),
        "{} {}",
        replayed.code,
        replayed.err
    );
    assert_eq!(plan(&["--allow-older"]).code, 0);
    // A manifest that somebody rewrote for other bytes is not the one that was signed.
    let mut value = manifest(&bundle);
    value["files"]["gpusetup"] = serde_json::json!({"size": 4, "sha256": sha256("evil")});
    fs::write(bundle.join("gpusetup"), "evil").expect("written");
    fs::write(bundle.join("bundle.json"), value.to_string()).expect("written");
    assert_eq!(
        bench.verify("b", &[]).code,
        0,
        "sums alone say nothing of who made them"
    );
    assert_eq!(bench.verify("b", &["--key", &ours]).code, 10);
    let refused = bench
        .maker
        .run(&["plan", "--bundle", text(&bundle), "--bundle-key", &ours]);
    assert!(
        refused.code == 10 && refused.err.contains("bundle.json.minisig"),
        "{}",
        refused.err
    );
}

#[test]
fn the_plan_of_a_host_comes_out_of_the_bundle() {
    let bench = Bench::new();
    let other = Tree::debian_12().gpu("0000:17:00.0", "20b2", None).gxx(12);
    let plans = [
        bench.plan(&bench.maker, TOOLKITS[0], "a.json"),
        bench.plan(&other, TOOLKITS[1], "b.json"),
    ];
    let fingerprint = |file: &str| -> Value {
        let plan: Value = serde_json::from_slice(&fs::read(file).expect("there")).expect("JSON");
        plan["fingerprint"].clone()
    };
    let created = bench.create(&[&plans[0], &plans[1]], "both");
    assert_eq!(created.code, 0, "{}", created.err);
    assert_eq!(
        run(&[
            "bundle",
            "pack",
            &bench.text("both"),
            "-o",
            &bench.text("both.tar.zst")
        ])
        .code,
        0
    );
    for out in ["both", "both.tar.zst"] {
        for (tree, plan) in [(&bench.maker, &plans[0]), (&other, &plans[1])] {
            let chosen = tree
                .run(&["plan", "--bundle", &bench.text(out), "--json"])
                .json();
            assert_eq!(chosen["fingerprint"], fingerprint(plan), "{out}");
        }
        // Another card of the same kind in another slot: planned again, for the same request.
        let alike = Tree::ubuntu_24_04()
            .gpu("0000:65:00.0", "20b2", None)
            .gxx(13);
        let ran = alike.run(&["plan", "--bundle", &bench.text(out), "--json"]);
        assert!(
            ran.err.contains("made for a host with the same system"),
            "{}",
            ran.err
        );
        assert_eq!(ran.json()["selection"]["cuda"]["version"], TOOLKITS[0]);
        // Nor is one of another kernel used as it is.
        let newer = host();
        newer.write("lib/modules/6.8.0-99-generic/modules.builtin", "");
        let ran = newer.run(&["plan", "--bundle", &bench.text(out), "--json"]);
        assert!(
            ran.err.contains("made for a host with the same system"),
            "{}",
            ran.err
        );
        assert_eq!(
            ran.json()["host"]["kernels"]["next_boot"],
            "6.8.0-99-generic"
        );
        // Of a system that nobody made a plan for, by what is asked here.
        let stranger = Tree::rocky_9().gpu("0000:65:00.0", "20b2", None);
        let ran = stranger.run(&[
            "plan",
            "--bundle",
            &bench.text(out),
            "--profile",
            "toolkit",
            "--cuda",
            "12.9",
            "--json",
        ]);
        assert_eq!(ran.json()["selection"]["cuda"]["version"], TOOLKITS[1]);
    }
    // Whoever names the plan of another host is told whose it is.
    if rustix::process::geteuid().is_root() {
        let name = |plan: &str| {
            format!(
                "{}.json",
                &fingerprint(plan).as_str().expect("a text")[..16]
            )
        };
        let named = [
            "apply",
            "--bundle",
            &bench.text("both"),
            &name(&plans[1]),
            "--yes",
            "--accept-eula",
        ];
        let ran = bench.maker.run(&named);
        let sentence = "was made for Debian 12 on x86_64; this host is Ubuntu 24.04 on x86_64";
        assert!(
            ran.code == 5 && ran.err.replace("\n       ", " ").contains(sentence),
            "{} {}",
            ran.code,
            ran.err
        );
        assert!(!bench.maker.path().join("var/lib/gpusetup/journal").exists());
    }
    let two = [
        plans[0].clone(),
        bench.plan(&bench.maker, TOOLKITS[1], "c.json"),
    ];
    assert_eq!(bench.create(&[&two[0], &two[1]], "two").code, 0);
    let ran = bench.maker.run(&["plan", "--bundle", &bench.text("two")]);
    assert!(
        ran.code == 2 && ran.err.contains("2 plans in the bundle match this host"),
        "{}",
        ran.err
    );
    assert!(ran.err.matches("plans/").count() == 2, "{}", ran.err);
}

#[test]
fn a_bundle_that_cannot_be_made_is_not_begun() {
    let bench = Bench::new();
    // Packages of another system than the one whose repositories are asked.
    let (file, never) = (bench.text("driver.json"), bench.text("never"));
    let ran = bench.maker.run(&[
        "plan",
        "--profile",
        "driver",
        "--method",
        "packages",
        "--out",
        &file,
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("set");
    let ran = Tree::debian_12().run(&["bundle", "create", "--plan", &file, "-o", &never]);
    assert!(
        ran.code == 4 && ran.err.contains("ubuntu 24.04") && ran.err.contains("debian 12"),
        "{}",
        ran.err
    );
    // A download that is in no cache, where nobody is to be asked.
    fs::remove_dir_all(bench.maker.path().join("var/cache")).expect("removed");
    let plan = bench.plan(&bench.maker, TOOLKITS[0], "plan.json");
    let ran = bench.create(&[&plan], "never");
    assert!(
        ran.code == 5 && ran.err.contains("is not in the cache"),
        "{} {}",
        ran.code,
        ran.err
    );
    // The plan of another database: what it names may be elsewhere by now.
    let ran = bench.maker.run(&[
        "plan",
        "--profile",
        "toolkit",
        "--cuda",
        TOOLKITS[0],
        "--out",
        &bench.text("other.json"),
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    fs::set_permissions(bench.path("other.json"), fs::Permissions::from_mode(0o600)).expect("set");
    let ran = bench.create(&[&bench.text("other.json")], "never");
    assert!(
        ran.code == 10 && ran.err.contains("another database"),
        "{} {}",
        ran.code,
        ran.err
    );
    assert!(!bench.path("never").exists());
}
