//! Refreshes from recorded releases, each with the database from which the release was removed, and
//! from hostile inputs.

use super::*;
use crate::facts::tree::field;
use gpusetup_database::sum::sha256;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

const CUDA_12_8_1: &str = "cuda/redist/redistrib_12.8.1.json";
const CUDA_13_0_2: &str = "cuda/redist/redistrib_13.0.2.json";
const CUDNN_9_7_0: &str = "cudnn/redist/redistrib_9.7.0.json";
const CUDNN_9_13_0: &str = "cudnn/redist/redistrib_9.13.0.json";
const CUSPARSELT_0_8_0: &str = "cusparselt/redist/redistrib_0.8.0.json";

/// The table of release notes that has CUDA 13.0.2.
const NOTES: &str = "| CUDA Toolkit | Linux driver |\n|---|---|\n| CUDA 13.0 Update 2 | >=580.95.05 |\n| CUDA 13.x | >=580 |\n";

/// The database of this repository.
pub fn known() -> &'static Database {
    static KNOWN: LazyLock<Database> =
        LazyLock::new(|| files().database().expect("the database is valid"));
    &KNOWN
}

fn files() -> Tree {
    Tree::load(&project()).expect("the database's files")
}

/// A list with what was recorded of it. Its checksum is that of the list as published.
fn recorded(path: &str) -> Input {
    let file = project()
        .join("xtask/recorded")
        .join(record::table_of(path));
    let table = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let origin = table.lines().next().expect("the origin");
    let after = |begin: &str, end: usize| {
        origin.split(begin).nth(1).expect("in the origin")[..end].to_owned()
    };
    let (date, sha256) = (after(" of ", 10), after(", sha256 ", 64));
    let (product, release) = lists::named(path).expect("a list");
    let mut components: BTreeMap<String, (String, BTreeMap<String, Vec<String>>)> = BTreeMap::new();
    for row in crate::table::read(&record::table_of(path)).expect("a table") {
        let [component, version, platform, line, path, sha256, size] = row.as_slice() else {
            panic!("{row:?}")
        };
        let archive = format!(
            r#"{{"relative_path": "{path}", "sha256": "{sha256}", "md5": "x", "size": "{size}"}}"#
        );
        let archive = if line.is_empty() {
            archive
        } else {
            format!(r#""cuda{line}": {archive}"#)
        };
        let of = components
            .entry(component.clone())
            .or_insert_with(|| (version.clone(), BTreeMap::new()));
        of.1.entry(platform.clone()).or_default().push(archive);
    }
    let mut text = format!(
        r#"{{"release_date": "{date}", "release_label": "{release}", "release_product": "{product}""#
    );
    for (name, (version, platforms)) in components {
        let _ = write!(
            text,
            ",\n\"{name}\": {{\"name\": \"{name}\", \"version\": \"{version}\""
        );
        for (platform, archives) in platforms {
            let archives = archives.join(", ");
            let archives = if archives.starts_with('{') {
                archives
            } else {
                format!("{{{archives}}}")
            };
            let _ = write!(text, ",\n  \"{platform}\": {archives}");
        }
        text.push('}');
    }
    text.push_str("}\n");
    Input {
        path: path.to_owned(),
        text,
        sha256,
        kind: Kind::List,
    }
}

/// The database without some releases of component archives.
fn without_archives(mut tree: Tree, releases: &[&str]) -> Tree {
    for release in releases {
        let file = format!(
            "manifests/components/{}.yaml",
            release.split('.').next().unwrap_or_default()
        );
        let removed = tree.edit(&file, |lines| {
            let record = lines
                .record(&format!("  - version: \"{release}\""))
                .expect("the release");
            lines.0.drain(record).count()
        });
        assert!(removed.is_some_and(|lines| lines > 20), "{release}");
    }
    tree
}

/// The database without CUDA releases: their archives, their runfiles, and the releases themselves.
fn without_cuda(tree: Tree, releases: &[&str]) -> Tree {
    let mut tree = without_archives(tree, releases);
    for release in releases {
        tree.edit("compat/cuda.yaml", |lines| {
            let record = lines
                .record(&format!("  - version: \"{release}\""))
                .expect("the release");
            lines.0.drain(record).count()
        });
        let begin = format!("  - {{version: \"{release}\", ");
        tree.edit("manifests/cuda/13.yaml", |lines| {
            lines.0.retain(|line| !line.starts_with(&begin))
        });
    }
    tree
}

/// The database without the archives of a release of an add-on.
fn without_rows(mut tree: Tree, file: &str, version: &str) -> Tree {
    let removed = tree.edit(file, |lines| {
        let before = lines.0.len();
        lines
            .0
            .retain(|line| field(line, "version") != Some(version));
        before - lines.0.len()
    });
    assert!(removed.is_some_and(|lines| lines >= 4), "{version}");
    tree
}

/// Refreshes a database in a temporary folder from these inputs. Returns the files in the folder
/// afterwards.
fn refreshed(name: &str, before: &Tree, inputs: &[Input], also: &str) -> (Tree, Report) {
    let folder = Scratch::new(name);
    before.copy_to(&folder.0).expect("a copy");
    let (tree, mut report) = (Tree::load(&folder.0).expect("the copy"), Report::default());
    let database = tree.database().unwrap_or_else(|e| panic!("{name}: {e}"));
    let also = Also::parse(also, &database).expect("other sources");
    let after = refresh(inputs, &also, &database, &tree, &mut report);
    after.database().unwrap_or_else(|e| panic!("{name}: {e}"));
    after.write(&folder.0, &tree).expect("written");
    assert!(
        report.alarms.is_empty() && report.refused.is_empty(),
        "{:?} {:?}",
        report.alarms,
        report.refused
    );
    (Tree::load(&folder.0).expect("the refreshed files"), report)
}

/// The lines that differ between two sets of files.
fn differences(ours: &Tree, typed: &Tree) -> Vec<String> {
    let mut all = Vec::new();
    for (name, text) in typed.changed(ours) {
        let (ours, typed): (Vec<_>, Vec<_>) = (
            ours.text(name).unwrap_or_default().lines().collect(),
            text.lines().collect(),
        );
        all.push(format!("{name}: {} and {} lines", ours.len(), typed.len()));
        all.extend(
            ours.iter()
                .zip(&typed)
                .filter(|(a, b)| a != b)
                .map(|(a, b)| format!("{a}\n{b}")),
        );
    }
    all
}

/// A folder that is removed at the end of a test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("xtask-facts-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("written");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

// Three real releases, as people typed them.

#[test]
fn archives_of_cuda_12_8_1_are_those_that_were_typed() {
    let typed = without_archives(files(), &["12.8.2"]);
    let also = "249e28a83008d711d5f72880541c8be6253f6d61608461de4fcb715554a6cf17 cuda/redist/redistrib_12.8.1.json rules-ml-toolchain";
    let before = without_archives(typed.clone(), &["12.8.1"]);
    let (after, report) = refreshed("12.8.1", &before, &[recorded(CUDA_12_8_1)], also);
    assert_eq!(differences(&after, &typed), [""; 0]);
    assert_eq!(report.new.len(), 1, "{:?}", report.new);
    assert!(report.unknown.is_empty(), "{:?}", report.unknown);
}

#[test]
fn archives_of_cuda_13_0_2_are_those_that_were_typed() {
    let typed = without_archives(files(), &["13.0.3"]);
    let also = "fce66717a81c510ffeb89ecc3e79849ab34af3b80139f750876d9033e31d71c2 cuda/redist/redistrib_13.0.2.json rules-ml-toolchain";
    let before = without_archives(typed.clone(), &["13.0.2"]);
    let (after, report) = refreshed("13.0.2", &before, &[recorded(CUDA_13_0_2)], also);
    assert_eq!(differences(&after, &typed), [""; 0]);
    assert!(
        report.unknown.is_empty() && report.differ.is_empty(),
        "{:?} {:?}",
        report.unknown,
        report.differ
    );
}

#[test]
fn archives_of_cudnn_9_7_0_are_those_that_were_typed() {
    let typed = files();
    let before = without_rows(typed.clone(), "manifests/cudnn/9.yaml", "9.7.0.66");
    let (after, report) = refreshed("9.7.0", &before, &[recorded(CUDNN_9_7_0)], "");
    assert_eq!(differences(&after, &typed), [""; 0]);
    assert_eq!(report.new.len(), 5, "{:?}", report.new);
}

#[test]
fn a_second_source_of_cudnn_9_13_0_counts() {
    let typed = files();
    let before = without_rows(typed.clone(), "manifests/cudnn/9.yaml", "9.13.0.50");
    let input = recorded(CUDNN_9_13_0);
    let list = lists::read(&input.path, &input.text, &input.sha256).expect("a list");
    let mut also = String::new();
    for archive in list
        .components
        .iter()
        .flat_map(|c| &c.archives)
        .filter(|a| a.platform != "linux-aarch64")
    {
        let _ = writeln!(also, "{} {} spack", archive.sha256, archive.file());
    }
    let (after, _) = refreshed("9.13.0", &before, &[input], &also);
    assert_eq!(differences(&after, &typed), [""; 0]);
    // Without it, the checksums have one source.
    let (after, _) = refreshed("9.13.0-alone", &before, &[recorded(CUDNN_9_13_0)], "");
    let lines = differences(&after, &typed);
    assert_eq!(lines.len(), 5, "{lines:?}");
    for line in &lines[1..] {
        let (ours, typed) = line.split_once('\n').expect("two lines");
        let ours = ours.replace(
            "agree: 1, sources: [nvidia-redistrib]",
            "agree: 2, sources: [nvidia-redistrib, spack]",
        );
        assert_eq!(ours, typed);
    }
}

#[test]
fn archives_of_cusparselt_0_8_0_differ_in_their_sources_alone() {
    let typed = files();
    let before = without_rows(
        typed.clone(),
        "manifests/add-ons/cusparselt.yaml",
        "0.8.0.4",
    );
    let (after, _) = refreshed("cusparselt", &before, &[recorded(CUSPARSELT_0_8_0)], "");
    let lines = differences(&after, &typed);
    assert_eq!(lines.len(), 5, "{lines:?}");
    for line in &lines[1..] {
        // conda-forge's, EasyBuild's and a copy of the list were typed in place of the list itself.
        let parts: Vec<_> = line
            .split('\n')
            .map(|line| line.split(", agree: ").next())
            .collect();
        assert_eq!(parts[0], parts[1]);
    }
}

#[test]
fn cuda_13_0_2_is_added_with_what_its_list_and_the_notes_say() {
    let before = without_cuda(files(), &["13.0.3", "13.0.2"]);
    let notes = Input {
        path: "release-notes.md".to_owned(),
        text: NOTES.to_owned(),
        sha256: String::new(),
        kind: Kind::Notes,
    };
    let (after, report) = refreshed("13.0.2-whole", &before, &[recorded(CUDA_13_0_2), notes], "");
    let database = after.database().expect("a database");
    let release = "13.0.2".parse().expect("a version");
    let (ours, typed) = (
        database.cuda(release).expect("added"),
        known().cuda(release).expect("typed"),
    );
    // People read the headers and the libraries. The release before it was taken for that, and is
    // named.
    assert!(
        ours.assumed
            .as_ref()
            .is_some_and(|text| text.contains("those of 13.0.1")),
        "{:?}",
        ours.assumed
    );
    assert_eq!(ours.sources, ["cuda-redistrib", "cuda-release-notes"]);
    let same = gpusetup_database::compat::CudaRelease {
        assumed: None,
        note: typed.note.clone(),
        sources: typed.sources.clone(),
        ..ours.clone()
    };
    assert_eq!(same, *typed);
    assert_eq!(ours.date.as_deref(), Some("2025-10"));
    assert!(
        report
            .manual
            .iter()
            .any(|line| line.contains("toolchains.txt")),
        "{:?}",
        report.manual
    );
    // The same list says nothing new of the whole database.
    let (again, report) = refreshed("13.0.2-again", &files(), &[recorded(CUDA_13_0_2)], "");
    assert!(
        again.changed(&files()).next().is_none() && report.new.is_empty(),
        "{:?}",
        report.new
    );
}

// The command.

/// Runs the command on a copy of the database without cuDNN 9.7.0.
fn run_on(folder: &Scratch, dry_run: bool) -> Result<bool> {
    run(Task::Refresh(Options {
        from: folder.0.join("lists").display().to_string(),
        release_notes: None,
        also: None,
        database: Some(folder.0.join("database")),
        gpusetup: Some("/nonexistent/gpusetup".into()),
        dry_run,
    }))
}

fn with_database(name: &str) -> (Scratch, Tree) {
    let folder = Scratch::new(name);
    let before = without_rows(files(), "manifests/cudnn/9.yaml", "9.7.0.66");
    before.copy_to(&folder.0.join("database")).expect("a copy");
    (folder, before)
}

fn now(folder: &Scratch) -> Tree {
    Tree::load(&folder.0.join("database")).expect("the database's files")
}

#[test]
fn a_dry_run_writes_nothing_and_a_second_run_finds_nothing_new() {
    let (folder, before) = with_database("runs");
    folder.write(&format!("lists/{CUDNN_9_7_0}"), recorded(CUDNN_9_7_0).text);
    folder.write(
        "lists/cudnn/redist/index.html",
        "<a href=\"redistrib_9.7.0.json\">x</a>",
    );
    assert_eq!(run_on(&folder, true), Ok(true));
    assert_eq!(differences(&now(&folder), &before), [""; 0]);
    assert_eq!(run_on(&folder, false), Ok(true));
    assert_eq!(differences(&now(&folder), &files()), [""; 0]);
    let database = now(&folder).database().expect("a database");
    let mut report = Report::default();
    let inputs = input::read(
        &folder.0.join("lists").display().to_string(),
        &database,
        &mut report,
    )
    .expect("inputs");
    let after = refresh(
        &inputs,
        &Also::default(),
        &database,
        &now(&folder),
        &mut report,
    );
    assert!(
        after.changed(&files()).next().is_none() && report.new.is_empty() && report.same == 5,
        "{:?}",
        report.new
    );
    assert_eq!(run_on(&folder, false), Ok(true));
}

#[test]
fn a_changed_checksum_or_size_is_an_alarm_and_nothing_is_written() {
    let list = recorded(CUDNN_9_13_0).text;
    let sum = "\"sha256\": \"";
    let at = list.find(sum).expect("a checksum") + sum.len();
    let other_sum = format!("{}{}{}", &list[..at], "0".repeat(64), &list[at + 64..]);
    let size = "\"size\": \"";
    let at = list.find(size).expect("a size") + size.len();
    let other_size = format!("{}9{}", &list[..at], &list[at..]);
    for (name, text) in [("sum", other_sum), ("size", other_size)] {
        let (folder, before) = with_database(&format!("alarm-{name}"));
        folder.write(&format!("lists/{CUDNN_9_13_0}"), text);
        // What is new is not written either.
        folder.write(&format!("lists/{CUDNN_9_7_0}"), recorded(CUDNN_9_7_0).text);
        assert_eq!(run_on(&folder, false), Ok(false), "{name}");
        assert_eq!(differences(&now(&folder), &before), [""; 0], "{name}");
        let mut report = Report::default();
        let inputs = input::read(
            &folder.0.join("lists").display().to_string(),
            known(),
            &mut report,
        )
        .expect("inputs");
        refresh(&inputs, &Also::default(), known(), &files(), &mut report);
        assert_eq!(report.alarms.len(), 1, "{:?}", report.alarms);
        let summary = report.markdown("x", "");
        assert!(
            summary.find("## ALARM") < summary.find("## New"),
            "{summary}"
        );
    }
}

#[test]
fn sources_that_contradict_a_list_are_an_alarm() {
    let also = format!(
        "{} cuda/redist/redistrib_12.8.1.json rules-ml-toolchain",
        "0".repeat(64)
    );
    let before = without_archives(files(), &["12.8.2", "12.8.1"]);
    let (also, mut report) = (
        Also::parse(&also, known()).expect("other sources"),
        Report::default(),
    );
    refresh(
        &[recorded(CUDA_12_8_1)],
        &also,
        &before.database().expect("a database"),
        &before,
        &mut report,
    );
    assert_eq!(report.alarms.len(), 1);
    // So they are of a release that the database has.
    let mut report = Report::default();
    refresh(
        &[recorded(CUDA_12_8_1)],
        &also,
        known(),
        &files(),
        &mut report,
    );
    assert_eq!(report.alarms.len(), 1);
    assert!(Also::parse("0 file spack", known()).is_err());
    assert!(
        Also::parse(
            &format!("{} file nvidia-redistrib", "0".repeat(64)),
            known()
        )
        .is_err()
    );
    assert!(Also::parse(&format!("{} file nobody", "0".repeat(64)), known()).is_err());
    // Two lists that differ on a file that the database does not have.
    let mut other = recorded(CUDA_12_8_1);
    other.path = "cuda/redist/redistrib_12.8.9.json".to_owned();
    other.text = other.text.replace(
        "\"release_label\": \"12.8.1\"",
        "\"release_label\": \"12.8.9\"",
    );
    other.text = other.text.replacen("\"size\": \"1", "\"size\": \"2", 1);
    let mut report = Report::default();
    let inputs = [recorded(CUDA_12_8_1), other];
    refresh(
        &inputs,
        &Also::default(),
        &before.database().expect("a database"),
        &before,
        &mut report,
    );
    assert_eq!(report.alarms.len(), 1, "{:?}", report.alarms);
}

// Hostile inputs.

/// Reads a folder with one list, which must be named as refused.
fn is_refused(name: &str, path: &str, text: &[u8]) {
    let folder = Scratch::new(&format!("hostile-{name}"));
    folder.write(&format!("lists/{path}"), text);
    let (before, mut report) = (files(), Report::default());
    let inputs = input::read(
        &folder.0.join("lists").display().to_string(),
        known(),
        &mut report,
    )
    .expect("inputs");
    let after = refresh(&inputs, &Also::default(), known(), &before, &mut report);
    assert!(
        report.refused.len() == 1 && report.refused[0].contains(path),
        "{name}: {:?}",
        report.refused
    );
    assert!(after.changed(&before).next().is_none(), "{name}");
}

#[test]
fn malformed_lists_are_refused_by_name() {
    let good = recorded(CUDNN_9_7_0).text;
    let replaced = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    };
    let cases = [
        ("truncated", good[..good.len() / 2].to_owned()),
        ("empty", String::new()),
        ("trailing", format!("{good}{{}}")),
        ("nested", "[".repeat(1 << 20)),
        ("huge", format!("{good}{}", " ".repeat(9 << 20))),
        (
            "twice",
            replaced("\"cudnn\": {", "\"cudnn\": {\"version\": \"9.7.0.66\", "),
        ),
        (
            "path-up",
            replaced("cudnn/linux-x86_64/", "../linux-x86_64/"),
        ),
        (
            "path-up-inside",
            replaced("cudnn/linux-x86_64/", "cudnn/../linux-x86_64/"),
        ),
        (
            "path-absolute",
            replaced("cudnn/linux-x86_64/", "/etc/linux-x86_64/"),
        ),
        (
            "path-quote",
            replaced("cudnn/linux-x86_64/", "cudnn/linux\\\"-x86_64/"),
        ),
        (
            "path-newline",
            replaced("cudnn/linux-x86_64/", "cudnn/linux\\n  - x86_64/"),
        ),
        (
            "path-address",
            replaced("cudnn/linux-x86_64/", "https://example.com/"),
        ),
        ("component", replaced("\"cudnn\": {", "\"../cudnn\": {")),
        (
            "component-yaml",
            replaced("\"cudnn\": {", "\"cudnn, x: {a\": {"),
        ),
        ("component-case", replaced("\"cudnn\": {", "\"cuDNN\": {")),
        ("platform", replaced("\"linux-sbsa\"", "\"linux sbsa\"")),
        ("line", replaced("\"cuda12\"", "\"cuda12\\\"}\"")),
        (
            "version",
            replaced(
                "\"version\": \"9.7.0.66\"",
                "\"version\": \"9.7.0.66\\\", x: \\\"\"",
            ),
        ),
        (
            "version-newline",
            replaced("\"version\": \"9.7.0.66\"", "\"version\": \"9.7.0.66\\n\""),
        ),
        (
            "version-number",
            replaced("\"version\": \"9.7.0.66\"", "\"version\": 9.7"),
        ),
        ("sum-short", replaced("\"sha256\": \"", "\"sha256\": \"a")),
        ("sum-letters", {
            let at = good.find("\"sha256\": \"").expect("a checksum") + 11;
            format!("{}{}{}", &good[..at], "g".repeat(64), &good[at + 64..])
        }),
        ("sum-missing", replaced("\"sha256\":", "\"sha255\":")),
        ("size-negative", replaced("\"size\": \"", "\"size\": \"-")),
        (
            "size-zero",
            replaced("\"size\": \"", "\"size\": \"0\", \"x\": \""),
        ),
        (
            "size-large",
            replaced("\"size\": \"", "\"size\": \"99999999999999"),
        ),
        ("size-text", replaced("\"size\": \"", "\"size\": \"0x")),
        (
            "date",
            replaced("\"release_date\": \"", "\"release_date\": \"x"),
        ),
        (
            "label",
            replaced(
                "\"release_label\": \"9.7.0\"",
                "\"release_label\": \"9.7.1\"",
            ),
        ),
        (
            "product",
            replaced(
                "\"release_product\": \"cudnn\"",
                "\"release_product\": \"cuda\"",
            ),
        ),
        ("list", "[]".to_owned()),
    ];
    for (name, text) in cases {
        is_refused(name, CUDNN_9_7_0, text.as_bytes());
    }
    // Well-formed, and of another release.
    is_refused(
        "other-release",
        CUDNN_9_7_0,
        good.replace("9.7.0.66", "9.99.0.66").as_bytes(),
    );
    let of_cuda = recorded(CUDA_13_0_2)
        .text
        .replace("\"13.0.2\"", "\"13.6.0\"");
    is_refused(
        "other-toolkit",
        "cuda/redist/redistrib_13.6.0.json",
        of_cuda.as_bytes(),
    );
    // The command writes nothing, and what is good in other lists is not written either.
    let (folder, before) = with_database("hostile");
    folder.write(&format!("lists/{CUDNN_9_7_0}"), &good);
    folder.write(&format!("lists/{CUDNN_9_13_0}"), &good[..good.len() / 2]);
    assert_eq!(run_on(&folder, false), Ok(false));
    assert_eq!(differences(&now(&folder), &before), [""; 0]);
    is_refused("bytes", CUDNN_9_7_0, b"{\"a\": \"\xff\xfe\"}");
    is_refused(
        "release",
        "cudnn/redist/redistrib_9.x.json",
        good.as_bytes(),
    );
    is_refused(
        "product-name",
        "cu-dnn/redist/redistrib_9.7.0.json",
        good.as_bytes(),
    );
    is_refused(
        "gpus",
        "XFree86/Linux-x86_64/595.45.04/supported-gpus/supported-gpus.json",
        b"{\"chips\": [{}]}",
    );
}

/// Numbers that look thrown, the same each time (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % most as u64) as usize
    }
}

/// A list with a few changes: strings, keys and bytes that are replaced, removed or doubled.
fn mutated(text: &str, dice: &mut Dice) -> String {
    const NASTY: [&str; 18] = [
        "..",
        "../../etc/passwd",
        "\\\"}]",
        "\\n  - {a: b}",
        "x: y",
        "- a",
        "{}",
        "[]",
        "#",
        "&a",
        "*a",
        "!!binary",
        "%",
        "'",
        "\\u0000",
        "\\ud83d\\ude00",
        "9999999999.1",
        "",
    ];
    let mut text = text.to_owned();
    for _ in 0..=dice.below(3) {
        let quotes: Vec<_> = text.match_indices('"').map(|(at, _)| at).collect();
        if quotes.len() < 4 {
            break;
        }
        let n = dice.below(quotes.len() / 2 - 1) * 2;
        let (from, to) = (quotes[n] + 1, quotes[n + 1]);
        match dice.below(6) {
            0 => text.replace_range(from..to, NASTY[dice.below(NASTY.len())]),
            1 => text.insert_str(from, NASTY[dice.below(NASTY.len())]),
            2 => text.insert_str(to, NASTY[dice.below(NASTY.len())]),
            3 => text.replace_range(from..to, ""),
            4 => text.truncate(to),
            _ => {
                let other = dice.below(quotes.len() / 2 - 1) * 2;
                let other = text[quotes[other] + 1..quotes[other + 1]].to_owned();
                text.replace_range(from..to, &other);
            }
        }
    }
    text
}

/// `GPUSETUP_MUTATIONS` is how many lists are tried; more are tried by hand than by every run.
#[test]
fn mutated_lists_never_make_a_wrong_database() {
    let count = std::env::var("GPUSETUP_MUTATIONS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(60);
    let before = without_archives(files(), &["13.0.3", "13.0.2", "12.8.2", "12.8.1"]);
    let before = without_rows(before, "manifests/cudnn/9.yaml", "9.7.0.66");
    let before = without_rows(before, "manifests/add-ons/cusparselt.yaml", "0.8.0.4");
    let database = before.database().expect("a database");
    let lists = [CUDNN_9_7_0, CUSPARSELT_0_8_0, CUDA_13_0_2, CUDA_12_8_1].map(recorded);
    let gpus = gpus_of_525();
    let (mut dice, mut refused, mut changed) = (Dice(1), 0, 0);
    for n in 0..count {
        let of = if n % 5 == 4 { &gpus } else { &lists[n % 5] };
        let text = mutated(&of.text, &mut dice);
        let input = Input {
            path: of.path.clone(),
            sha256: of.sha256.clone(),
            kind: of.kind,
            text,
        };
        let mut report = Report::default();
        let after = refresh(
            std::slice::from_ref(&input),
            &Also::default(),
            &database,
            &before,
            &mut report,
        );
        let summary = report.markdown("x", "");
        assert!(
            !summary.contains("](")
                && summary
                    .lines()
                    .filter(|line| line.starts_with("# "))
                    .count()
                    == 1,
            "{summary}"
        );
        if report.forbids_writing() {
            refused += 1;
        } else if after.changed(&before).next().is_some() {
            changed += 1;
            let known = |name: &str| before.text(name).is_some();
            assert!(
                after.changed(&before).all(|(name, _)| known(name)),
                "{}",
                input.text
            );
            // A wrong database is not written; it must be wrong in facts alone, never in form.
            if let Err(problem) = after.database() {
                assert!(problem.contains("wrong facts"), "{problem}\n{}", input.text);
            }
        }
    }
    assert!(
        refused > count / 5 && changed > count / 20,
        "{refused} refused, {changed} changed of {count}"
    );
}

#[test]
fn what_is_not_understood_is_named() {
    let mut input = recorded(CUDA_13_0_2);
    input.text = input
        .text
        .replace("\"cuda_nvcc\": {", "\"cuda_newthing\": {");
    input.text = input
        .text
        .replacen("\"linux-sbsa\"", "\"linux-riscv64\"", 1);
    input.text = input
        .text
        .replacen("\"md5\": \"x\"", "\"sha512\": \"x\"", 1);
    input.text = input.text.replacen(
        "{\"release_date\"",
        "{\"release_notes\": \"x\", \"release_date\"",
        1,
    );
    let before = without_archives(files(), &["13.0.3", "13.0.2"]);
    let unknown = Input {
        path: "nvpl/redist/redistrib_25.5.json".to_owned(),
        ..recorded(CUDNN_9_7_0)
    };
    let unknown = Input {
        text: unknown
            .text
            .replace("9.7.0\"", "25.5\"")
            .replace("\"cudnn\",", "\"nvpl\",")
            .replace("product\": \"cudnn\"", "product\": \"nvpl\""),
        ..unknown
    };
    let (_, report) = refreshed("unknown", &before, &[input, unknown], "");
    let named = report
        .unknown
        .values()
        .flatten()
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    for name in [
        "cuda_newthing in ",
        "linux-riscv64 of ",
        ".sha512 in ",
        "release_notes in ",
        "nvpl/redist/",
    ] {
        assert!(named.contains(name), "{name}: {named}");
    }
}

#[cfg(unix)]
#[test]
fn links_are_not_followed_and_strange_names_are_refused() {
    let (folder, before) = with_database("links");
    folder.write("outside.json", recorded(CUDNN_9_7_0).text);
    folder.write("lists/cudnn/redist/x", "");
    assert!(
        run_on(&folder, false).is_err(),
        "an empty folder is no success"
    );
    folder.write(
        &format!("lists/{CUDNN_9_13_0}"),
        recorded(CUDNN_9_13_0).text,
    );
    let link = folder.0.join("lists").join(CUDNN_9_7_0);
    std::os::unix::fs::symlink(folder.0.join("outside.json"), link).expect("a link");
    assert_eq!(run_on(&folder, false), Ok(true));
    assert_eq!(differences(&now(&folder), &before), [""; 0]);
    folder.write("lists/cudnn/redist/redistrib_9.7.0\n  - x: y.json", "{}");
    assert_eq!(run_on(&folder, false), Ok(false));
}

// GPUs.

#[test]
fn lists_of_gpus_add_what_no_list_had() {
    let list = |driver: &str, rows: &str| {
        let path = format!("XFree86/Linux-x86_64/{driver}/supported-gpus/supported-gpus.json");
        let text = format!("{{\"chips\": [{rows}]}}");
        Input {
            path,
            sha256: sha256(&text),
            text,
            kind: Kind::Gpus,
        }
    };
    let row = |device: &str, more: &str| {
        format!(r#"{{"devid": "0x{device}", "name": "x", "features": ["kernelopen"]{more}}}"#)
    };
    // 290a is known from pci.ids alone, 2331 is in the lists from 525 on, 1d81 is Volta's.
    let old = list("580.65.06", &row("2331", ""));
    let rows = [
        row("290A", ""),
        row("2331", ""),
        row("1D81", r#", "legacybranch": "580.xx""#),
        row("7FFF", ""),
        row("20B0", r#", "legacybranch": "610.xx""#),
    ];
    let new = list("615.71.09", &rows.join(", "));
    let (after, report) = refreshed("gpus", &files(), &[old, new], "");
    let line = |device: &str| {
        let text = after
            .text("compat/gpus/blackwell.yaml")
            .expect("a file")
            .to_owned()
            + after.text("compat/gpus/ampere.yaml").expect("a file");
        text.lines()
            .find(|line| field(line, "device") == Some(device))
            .expect("a GPU")
            .to_owned()
    };
    assert_eq!(
        line("290a"),
        "  - {device: \"290a\", name: \"B200\", chip: \"GB100\", architecture: \"Blackwell\", compute_capability: \"10.0\", modules: [open], first_driver_branch: 615, absent_from_branch: 580, line: \"Tesla/Data Center\", mig: true, sources: [pci-ids, nvidia-supported-gpus-615]}"
    );
    assert!(
        line("20b0").contains(", last_driver_branch: \"610\", "),
        "{}",
        line("20b0")
    );
    assert_eq!(report.new.len(), 2, "{:?}", report.new);
    assert!(
        report.manual.iter().any(|line| line.contains("7fff")),
        "{:?}",
        report.manual
    );
    // A branch that is newer than those with a source gets one.
    let (after, _) = refreshed(
        "gpus-620",
        &files(),
        &[list("620.70.06", &row("290A", ""))],
        "",
    );
    let sources = after.text("compat/sources.yaml").expect("a file");
    assert!(sources.contains(
        "{id: nvidia-supported-gpus-620, title: \"supported-gpus.json of driver 620.70.06\""
    ));
    // A list that has a GPU before the database does is a difference.
    let (after, report) = refreshed(
        "gpus-early",
        &files(),
        &[list("515.43.04", &row("2941", ""))],
        "",
    );
    assert!(
        after.changed(&files()).next().is_none() && report.differ.len() == 1,
        "{:?}",
        report.differ
    );
}

/// The recorded part of branch 525's list.
fn gpus_of_525() -> Input {
    let mut rows = Vec::new();
    for row in crate::table::read(record::GPU_TABLE).expect("a table") {
        let [device, subsystem, name, legacy, open] = row.as_slice() else {
            panic!("{row:?}")
        };
        let mut text = format!(
            r#"{{"devid": "0x{}", "name": "{name}""#,
            device.to_uppercase()
        );
        if let Some((vendor, device)) = subsystem.split_once(':') {
            let _ = write!(
                text,
                r#", "subdevid": "0x{device}", "subvendorid": "0x{vendor}""#
            );
        }
        if !legacy.is_empty() {
            let _ = write!(text, r#", "legacybranch": "{legacy}.xx""#);
        }
        let feature = if open.is_empty() {
            ""
        } else {
            r#""kernelopen""#
        };
        rows.push(format!(r#"{text}, "features": [{feature}]}}"#));
    }
    // The repository does not name the release; this is one of that time.
    let path = "XFree86/Linux-x86_64/525.89.02/supported-gpus/supported-gpus.json".to_owned();
    let text = format!("{{\"chips\": [{}]}}", rows.join(",\n"));
    Input {
        path,
        sha256: sha256(&text),
        text,
        kind: Kind::Gpus,
    }
}

#[test]
fn the_list_of_branch_525_says_what_was_typed() {
    let (after, report) = refreshed("gpus-525", &files(), &[gpus_of_525()], "");
    assert!(after.changed(&files()).next().is_none());
    assert!(
        report.new.is_empty() && report.differ.is_empty() && report.manual.is_empty(),
        "{:?}",
        report.differ
    );
    // Without what was typed of them, all Hoppers of the list get its branch. People read every
    // list, and typed the first releases: one list gives a branch, and H100 PCIe was in the lists
    // of an older one, too.
    let mut before = files();
    let file = "compat/gpus/hopper.yaml";
    before.edit(file, |lines| {
        for line in &mut lines.0 {
            if let Some((start, rest)) = line.clone().split_once("listed_from: [") {
                let rest = rest.split_once("], ").expect("the end").1;
                *line = format!("{start}{rest}");
            }
            if let Some((start, _)) = line.clone().split_once("sources: [") {
                *line = format!("{start}sources: [pci-ids]}}");
            }
        }
    });
    let (after, report) = refreshed("gpus-525-hopper", &before, &[gpus_of_525()], "");
    assert_eq!(report.new.len(), 1, "{:?}", report.new);
    let (mut listed, typed) = (0, known());
    for line in after
        .text(file)
        .expect("a file")
        .lines()
        .filter(|line| line.contains("first_driver_branch: 525, "))
    {
        assert!(
            line.ends_with("sources: [pci-ids, nvidia-supported-gpus-older]}"),
            "{line}"
        );
        let device = u16::from_str_radix(field(line, "device").expect("an id"), 16).expect("an id");
        let gpu = typed
            .gpu(
                gpusetup_database::compat::PciDevice(device),
                field(line, "subsystem"),
            )
            .expect("typed");
        assert!(
            gpu.listed_from
                .first()
                .is_some_and(|release| release.branch <= 525),
            "{line}"
        );
        listed += 1;
    }
    // H100 PCIe and H100 SXM.
    assert_eq!(listed, 2);
}

#[test]
fn listings_name_new_drivers() {
    let listing =
        "<a href=\"580.65.06/\">x</a><a href=\"999.10.01/\">x</a><a href=\"latest.txt\">x</a>";
    let input = Input {
        path: "XFree86/Linux-x86_64/index.html".to_owned(),
        text: listing.to_owned(),
        sha256: String::new(),
        kind: Kind::Listing,
    };
    let mut report = Report::default();
    refresh(&[input], &Also::default(), known(), &files(), &mut report);
    assert!(
        report.manual.len() == 1 && report.manual[0].starts_with("driver 999.10.01"),
        "{:?}",
        report.manual
    );
    assert_eq!(report.unknown.len(), 1);
}
