//! `gpusetup mig`: layouts planned from the database, mig-parted's configurations, and layouts
//! applied to a library that stands in for NVML and read back.

use crate::common::{self, Ran, Tree, run};
use crate::nvidia;
use gpusetup::compat::{Database, PciDevice};
use gpusetup::database::embedded;
use gpusetup::mig::{Geometry, Layout, LayoutFile, NamedGpu, fit};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

static SHIPPED: LazyLock<Database> = LazyLock::new(embedded);

const A100: &str = "a100-sxm4-40gb";

fn planned(gpu: &str, layout: &str) -> Value {
    run(&["mig", "plan", "--gpu", gpu, layout, "--json"]).json()
}

/// Where each instance of the first GPU is, and the commands.
fn outline(plan: &Value) -> (String, Vec<&str>) {
    let gpu = &plan["gpus"][0];
    let place = |i: &Value| {
        format!(
            "{}@{}",
            i["profile"].as_str().expect("a profile"),
            i["start"]
        )
    };
    let places: Vec<_> = gpu["instances"]
        .as_array()
        .expect("a list")
        .iter()
        .map(place)
        .collect();
    let commands = gpu["commands"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|c| c.as_str().expect("a text"))
        .collect();
    (places.join(" "), commands)
}

#[test]
fn the_layouts_of_the_guides_print_the_commands_of_the_guides() {
    const ON: &str = "sudo nvidia-smi -i 0 -mig 1";
    for (layout, places, command) in [
        (
            "7x1g.5gb",
            "1g.5gb@0 1g.5gb@1 1g.5gb@2 1g.5gb@3 1g.5gb@4 1g.5gb@5 1g.5gb@6",
            "sudo nvidia-smi mig -i 0 -cgi 19,19,19,19,19,19,19 -C",
        ),
        (
            "2x2g.10gb,3x1g.5gb",
            "2g.10gb@0 2g.10gb@2 1g.5gb@4 1g.5gb@5 1g.5gb@6",
            "sudo nvidia-smi mig -i 0 -cgi 14,14,19,19,19 -C",
        ),
        (
            "4g.20gb,2g.10gb,1g.5gb",
            "4g.20gb@0 2g.10gb@4 1g.5gb@6",
            "sudo nvidia-smi mig -i 0 -cgi 5,14,19 -C",
        ),
        // One guide calls this one impossible; the driver accepts it.
        (
            "4g.20gb,3g.20gb",
            "4g.20gb@0 3g.20gb@4",
            "sudo nvidia-smi mig -i 0 -cgi 5,9 -C",
        ),
        // The driver could put 3g.20gb where it leaves no place for the last instance: each is
        // named.
        (
            "3g.20gb,4x1g.5gb",
            "1g.5gb@0 1g.5gb@1 1g.5gb@2 1g.5gb@3 3g.20gb@4",
            "sudo nvidia-smi mig -i 0 -cgi 9:4,19:0,19:1,19:2,19:3 -C",
        ),
    ] {
        let plan = planned(A100, layout);
        assert_eq!(crate::schema::mistakes("mig-plan.json", &plan), [""; 0]);
        assert_eq!(
            outline(&plan),
            (places.to_owned(), vec![ON, command]),
            "{layout}"
        );
    }
}

#[test]
fn a_layout_is_read_as_people_and_other_tools_write_it() {
    let expected = outline(&planned(A100, "2x3g.20gb")).0;
    for same in [
        "3g.20gb,3g.20gb",
        "3g.20gbx2",
        "9,9",
        "MIG 3g.20gb,mig-3g.20gb",
        " 3G.20GB , 3c.3g.20gb ",
        "2*3g.20gb",
    ] {
        assert_eq!(outline(&planned(A100, same)).0, expected, "{same}");
    }
    assert_eq!(outline(&planned(A100, "1g.5gb.me")).0, "1g.5gb+me@0");
    assert_eq!(
        outline(&planned(
            "rtx pro 6000 blackwell server edition",
            "1g.24gb+gfxx2"
        ))
        .0,
        "1g.24gb+gfx@0 1g.24gb+gfx@3"
    );
    let ran = run(&["mig", "plan", "--gpu", A100, "3g.20gb", "2g.10gb", "--json"]);
    assert_eq!(outline(&ran.json()).0, "3g.20gb@0 2g.10gb@4");
}

#[test]
fn what_does_not_fit_is_refused_with_the_reason_and_what_fits() {
    let ran = run(&["mig", "plan", "--gpu", A100, "4g.20gb,4g.20gb"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    for part in [
        "2x4g.20gb does not fit GPU 0 (NVIDIA A100-SXM4-40GB): 8 compute slices are needed, and the GPU has 7",
        "because: 2 instances of 4g.20gb are wanted, and a GPU has at most 1",
        "try: gpusetup mig plan --gpu a100-sxm4-40gb 4g.20gb,3g.20gb",
    ] {
        assert!(ran.err.contains(part), "{part}\n{}", ran.err);
    }
    let refused = |gpu: &str, layout: &str| {
        let ran = run(&["mig", "plan", "--gpu", gpu, layout, "--json"]);
        let value: Value = serde_json::from_str(&ran.out).expect("JSON");
        (
            ran.code,
            value["error"].as_str().expect("an error").to_owned(),
        )
    };
    let (code, error) = refused(
        "rtx pro 6000 blackwell server edition",
        "1g.24gb+me.all,1g.24gb",
    );
    assert_eq!(code, 4);
    assert!(
        error.contains("5 NVDEC engines are needed, and the GPU has 4"),
        "{error}"
    );
    let (code, error) = refused("a30", "1g.6gb+me,2g.12gb+me");
    assert_eq!(code, 4);
    assert!(
        error.contains("2 JPEG engines are needed, and the GPU has 1"),
        "{error}"
    );
    for (layout, part) in [
        ("1g.10gbb", "it has no profile \"1g.10gbb\""),
        ("1g.5gb:3", "write 3x1g.5gb"),
        ("1c.3g.20gb", "is a part of a GPU instance"),
        ("hello", "is not a profile; a list of profiles is expected"),
        ("", "is not a profile"),
        (" ,", "is not a profile"),
        ("3g.20gb,none", "is not a profile"),
        ("99x1g.5gb", "more than 32 instances"),
        ("4294967296x1g.5gb", "more than 32 instances"),
        ("\u{1b}[31mx", "is not a profile"),
    ] {
        let (code, error) = refused(A100, layout);
        assert_eq!(code, 2, "{layout}: {error}");
        assert!(error.contains(part), "{layout}: {error}");
        assert!(!error.contains('\u{1b}'));
    }
    // Boards with one id that differ in what they can be partitioned into.
    let ran = run(&["mig", "plan", "--gpu", "rtx pro 5000", "2x1g.24gb"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(
        ran.err
            .contains("try: gpusetup mig list --gpu 10de:2bb3:10de:204d"),
        "{}",
        ran.err
    );
    assert_eq!(
        outline(&planned("10de:2bb3:10de:204d", "2x1g.24gb")).0,
        "1g.24gb@0 1g.24gb@1"
    );
    let ran = run(&["mig", "plan", "--gpu", "10de:2bb3:10de:204d", "1g.5gb"]);
    assert!(
        ran.err
            .contains("try: gpusetup mig list --gpu 10de:2bb3:10de:204d"),
        "{}",
        ran.err
    );
    let (code, error) = refused("t4", "1g.5gb");
    assert_eq!(
        (code, error.as_str()),
        (4, "no GPU can be given this layout")
    );
}

#[test]
fn what_was_concluded_instead_of_read_is_said() {
    let ran = run(&["mig", "plan", "--gpu", "b300", "3g.135gb"]);
    assert!(
        ran.out.contains("Derived, not read from such a board"),
        "{}",
        ran.out
    );
    assert!(
        !run(&["mig", "plan", "--gpu", A100, "3g.20gb"])
            .out
            .contains("Derived")
    );
    let listed = run(&["mig", "list", "--gpu", "dgx a100", "--json"]).json();
    assert_eq!(crate::schema::mistakes("mig-list.json", &listed), [""; 0]);
    assert_eq!(listed["gpus"].as_array().map(Vec::len), Some(8));
}

#[test]
fn every_line_for_people_fits_the_terminal() {
    for (columns, gpu, layout) in [
        ("60", A100, "3g.20gb,4x1g.5gb"),
        ("80", "h200", "7x1g.18gb"),
        ("120", "a30", "none"),
    ] {
        for locale in ["C", "C.UTF-8"] {
            let mut program = common::program();
            program.env("COLUMNS", columns).env("LC_ALL", locale);
            let output = program
                .args(["mig", "plan", "--gpu", gpu, layout])
                .output()
                .expect("gpusetup runs");
            let text = String::from_utf8(output.stdout).expect("UTF-8");
            let width: usize = columns.parse().expect("a number");
            // Commands are to be copied, and are not broken.
            let long = text
                .lines()
                .filter(|l| !l.starts_with("    sudo"))
                .find(|l| l.chars().count() > width);
            assert_eq!(long, None, "{columns} {locale}\n{text}");
            assert!(locale != "C" || text.is_ascii(), "{text}");
        }
    }
}

#[test]
fn the_picture_is_well_formed_svg() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("layout.svg");
    let ran = run(&[
        "mig",
        "plan",
        "--gpu",
        "dgx a100",
        "4g.20gb,3g.20gb",
        "--svg",
        path.to_str().expect("UTF-8"),
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let svg = fs::read_to_string(path).expect("written");
    // Two rows of eight GPUs, with two instances in each.
    assert_eq!(svg.matches("rx=\"4\"").count(), 8 * 4);
    assert_eq!(svg.matches('<').count(), svg.matches('>').count());
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
}

/// The rows of the recorded table, as entries of files.
fn shipped_configurations() -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("xtask/recorded/mig-configurations.tsv");
    let text = fs::read_to_string(path).expect("recorded");
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| row.split('\t').map(str::to_owned).collect())
        .collect()
}

/// Every configuration that mig-parted ships, written as a file again.
#[test]
fn every_configuration_that_mig_parted_ships_is_accepted() {
    let rows = shipped_configurations();
    assert!(rows.len() > 200, "{}", rows.len());
    let files: BTreeSet<_> = rows.iter().map(|row| row[0].clone()).collect();
    let boards = boards();
    let (mut read, mut placed) = (0, 0);
    for file in files {
        let mut text = "version: v1\nmig-configs:\n".to_owned();
        let mut configurations: BTreeMap<&str, Vec<&Vec<String>>> = BTreeMap::new();
        rows.iter()
            .filter(|row| row[0] == file)
            .for_each(|row| configurations.entry(&row[1]).or_default().push(row));
        for (name, entries) in &configurations {
            text += &format!("  \"{name}\":\n");
            entries.iter().for_each(|row| text += &entry(row));
        }
        let all = LayoutFile::read(&text).unwrap_or_else(|e| panic!("{file}: {e}\n{text}"));
        for name in configurations.keys() {
            let (_, entries) = all.named(Some(name)).expect("it is there");
            for entry in entries {
                read += 1;
                let devices = entry.mig_devices.clone().unwrap_or_default();
                let mut fits = Vec::new();
                let listed = match entry.listed().first() {
                    Some(NamedGpu::Index(index)) => usize::try_from(*index).expect("small"),
                    _ => 0,
                };
                for (device, geometry) in &boards {
                    let is_for = entry.is_for(listed, None, Some(*device), None);
                    let counted = devices
                        .iter()
                        .map(|(profile, count)| (profile.as_str(), *count));
                    let Ok(layout) = Layout::counted(geometry, counted) else {
                        continue;
                    };
                    if is_for {
                        fits.push((device, fit(geometry, &layout).is_ok()));
                    }
                }
                // Without a filter it may be meant for one of several boards with a profile of this
                // name.
                let named = entry.is_for(listed, None, None, None);
                let accepted = if named {
                    fits.iter().any(|(_, fits)| *fits)
                } else {
                    fits.iter().all(|(_, fits)| *fits)
                };
                let of_no_board = ["3g.95gb", "4g.95gb", "7g.189gb"]
                    .iter()
                    .any(|name| devices.contains_key(*name));
                assert!(
                    accepted && !(fits.is_empty() && entry.mig_enabled) || of_no_board,
                    "{file}: {name}: {fits:?}"
                );
                placed += fits.iter().filter(|(_, fits)| *fits).count();
            }
        }
    }
    assert_eq!(read, rows.len());
    assert!(placed > 700, "{placed}");
}

/// Those whose profiles this board has.
fn boards() -> Vec<(PciDevice, Geometry)> {
    let devices: BTreeSet<u16> = SHIPPED
        .mig_profiles
        .iter()
        .flat_map(|p| &p.gpus)
        .map(|gpu| gpu.0)
        .collect();
    let known = |device| {
        Some((
            PciDevice(device),
            Geometry::known(&SHIPPED, PciDevice(device), None)?,
        ))
    };
    devices.into_iter().filter_map(known).collect()
}

fn entry(row: &[String]) -> String {
    let [_, _, filter, devices, enabled, instances] = row else {
        panic!("{row:?}")
    };
    let mut out = match devices.as_str() {
        "all" => "    - devices: all\n".to_owned(),
        listed => format!("    - devices: [{}]\n", listed.replace(' ', ",")),
    };
    match filter.split(' ').collect::<Vec<_>>().as_slice() {
        [""] => {}
        // One id is a text, and several are a list.
        [one] => out += &format!("      device-filter: \"{one}\"\n"),
        several => out += &format!("      device-filter: {several:?}\n"),
    }
    out += &format!("      mig-enabled: {enabled}\n");
    if enabled == "true" {
        out += "      mig-devices:";
        out += if instances.is_empty() { " {}\n" } else { "\n" };
        for (profile, count) in instances.split(' ').filter_map(|one| one.rsplit_once(':')) {
            out += &format!("        \"{profile}\": {count}\n");
        }
    }
    out
}

#[test]
fn a_profile_may_be_there_zero_times_as_for_mig_parted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("mig.yaml");
    let planned = |devices: &str| {
        let entry = format!(
            "    - devices: all\n      mig-enabled: true\n      mig-devices: {{{devices}}}\n"
        );
        fs::write(&path, format!("version: v1\nmig-configs:\n  x:\n{entry}")).expect("written");
        let ran = run(&[
            "mig",
            "plan",
            "--json",
            "--gpu",
            A100,
            "--file",
            path.to_str().expect("UTF-8"),
        ]);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        ran.out
    };
    assert_eq!(
        planned("\"1g.5gb\": 0, \"2g.10gb\": 2"),
        planned("\"2g.10gb\": 2")
    );
}

#[test]
fn a_file_that_is_wrong_is_refused_with_the_place() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("mig.yaml");
    let refused = |text: &str, more: &[&str]| {
        fs::write(&path, text).expect("written");
        let all = [
            &[
                "mig",
                "plan",
                "--gpu",
                A100,
                "--file",
                path.to_str().expect("UTF-8"),
            ],
            more,
        ]
        .concat();
        let ran = run(&all);
        assert_eq!(ran.code, 2, "{text}\n{}{}", ran.out, ran.err);
        ran.err
    };
    let of = |entry: &str| format!("version: v1\nmig-configs:\n  x:\n{entry}");
    let deep = format!("version: v1\nmig-configs: {}", "[".repeat(20_000));
    for (text, part) in [
        ("", "expected"),
        (
            "version: v2\nmig-configs: {}\n",
            "its version is \"v2\"; gpusetup reads v1",
        ),
        (&of("    []\n"), "\"x\" has no entries"),
        (
            &of("    - devices: some\n      mig-enabled: true\n"),
            "(line 4,",
        ),
        (
            &of("    - devices: all\n      mig-enabled: true\n"),
            "without mig-devices",
        ),
        (
            &of(
                "    - devices: all\n      mig-enabled: false\n      mig-devices: {\"1g.5gb\": 1}\n",
            ),
            "mig-enabled: false",
        ),
        (
            &of(
                "    - devices: all\n      mig-enabled: true\n      mig-devices: {\"1g.5gb\": 0}\n",
            ),
            "no instances of 1g.5gb",
        ),
        (
            &of(
                "    - devices: all\n      mig-enabled: true\n      mig-devices: {\"1g.5gb\": 0, \"2g.10gb\": 0}\n",
            ),
            "no instances of 1g.5gb, 2g.10gb",
        ),
        (
            &of(
                "    - devices: all\n      mig-enabled: true\n      mig-devices: {\"1g.5gb\": -1}\n",
            ),
            "expected a number from 0 on, found `-1` (line 6,",
        ),
        (
            &of("    - devices: all\n      mig-enabled: true\n      mig-device: {}\n"),
            "there is no key `mig-device`; the keys are: device-filter, devices, mig-enabled, mig-devices",
        ),
        (
            &of("    - mig-enabled: false\n"),
            "the key `devices` is missing",
        ),
        (
            &of("    - devices: [gpu7]\n      mig-enabled: false\n"),
            "neither the index of a GPU nor its UUID",
        ),
        (
            &of("    - devices: [GPU-7]\n      mig-enabled: false\n"),
            "names GPU-7, which is not among the GPUs",
        ),
        (
            &of("    - devices: all\n      mig-enabled: 1\n"),
            "expected true or false, found `1`",
        ),
        (
            &of(
                "    - devices: all\n      device-filter: \"0x20B08086\"\n      mig-enabled: false\n",
            ),
            "end in 10DE",
        ),
        (
            &of("    - devices: [7]\n      mig-enabled: false\n"),
            "names GPU 7",
        ),
        (&deep, "line"),
    ] {
        let refusal = refused(text, &[]);
        assert!(refusal.contains(part), "{part}\n{refusal}");
    }
    let two = "version: v1\nmig-configs:\n  a: [{devices: all, mig-enabled: false}]\n  b: [{devices: all, mig-enabled: false}]\n";
    let refusal = refused(two, &[]);
    assert!(
        refusal.contains("the name of a configuration is needed; the file has: a, b"),
        "{refusal}"
    );
    assert!(
        refusal.contains(&format!("try: gpusetup mig plan --gpu {A100} --file")),
        "{refusal}"
    );
    assert!(refused(two, &["--name", "c"]).contains("no configuration is called \"c\""));
    let twice = of(
        "    - {devices: all, mig-enabled: false}\n    - {devices: [0], mig-enabled: true, mig-devices: {}}\n",
    );
    assert!(refused(&twice, &[]).contains("two layouts for GPU 0"));
}

/// A host with two A100 and a running driver, whose library says `answers`.
pub struct Host {
    pub tree: Tree,
    pub libraries: tempfile::TempDir,
}

impl Host {
    pub fn saying(answers: &str) -> Self {
        let libraries = tempfile::tempdir().expect("a temporary directory");
        nvidia::put(libraries.path(), &format!("count=2\n{answers}"));
        Self {
            tree: Tree::debian_12(),
            libraries,
        }
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().expect("gpusetup runs"))
    }

    /// Runs a command that is killed.
    pub fn killed(&self, arguments: &[&str]) {
        let output = self.command(arguments).output().expect("gpusetup runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.signal(),
            Some(9),
            "{}: {stderr}",
            output.status
        );
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = common::program_as_root();
        let stand_ins = nvidia::stand_ins(self.libraries.path());
        let (variable, libraries) = stand_ins.split_once('=').expect("NAME=VALUE");
        let all = format!(
            "{libraries}:nvidia-smi={}",
            self.libraries.path().join("nvidia-smi").display()
        );
        command
            .args(arguments)
            .arg("--root")
            .arg(self.tree.path())
            .stdin(Stdio::null())
            .env(variable, all);
        command
    }

    pub fn apply(&self, layout: &[&str]) -> Ran {
        self.run(&[&["mig", "apply", "--yes"], layout].concat())
    }

    /// Applies a layout, which succeeds.
    pub fn applied(&self, layout: &[&str]) -> String {
        let ran = self.apply(layout);
        assert_eq!(ran.code, 0, "{layout:?}: {}{}", ran.out, ran.err);
        ran.out + &ran.err
    }

    /// The library's state of a GPU: its instances, each "id profile start compute".
    pub fn instances(&self, gpu: usize) -> String {
        self.state(gpu, "instances")
    }

    pub fn state(&self, gpu: usize, key: &str) -> String {
        let text = fs::read_to_string(self.libraries.path().join("state")).unwrap_or_default();
        let key = format!("{gpu}.{key}=");
        text.lines()
            .rev()
            .find_map(|line| line.strip_prefix(&key))
            .unwrap_or_default()
            .to_owned()
    }

    pub fn changes(&self) -> usize {
        fs::read_to_string(self.libraries.path().join("state"))
            .unwrap_or_default()
            .lines()
            .count()
    }

    pub fn answer(&self, answers: &str) {
        fs::write(
            self.libraries.path().join("answers"),
            format!("count=2\n{answers}"),
        )
        .expect("written");
    }
}

#[test]
fn a_layout_is_applied_read_back_and_rolled_back() {
    let host = Host::saying("");
    host.applied(&["4g.20gb,2g.10gb,1g.5gb"]);
    for gpu in [0, 1] {
        assert_eq!(
            (
                host.state(gpu, "mig").as_str(),
                host.instances(gpu).as_str()
            ),
            ("1 1 0", "1 5 0 4,2 14 4 2,3 19 6 1")
        );
    }
    let held = host.run(&["mig", "assert", "4g.20gb,2g.10gb,1g.5gb", "--json"]);
    assert_eq!((held.code, &held.json()["holds"]), (0, &Value::Bool(true)));
    assert_eq!(
        crate::schema::mistakes("mig-assert.json", &held.json()),
        [""; 0]
    );
    let other = host.run(&["mig", "assert", "7x1g.5gb", "--json"]);
    let value: Value = serde_json::from_str(&other.out).expect("JSON");
    assert_eq!(
        (other.code, &value["gpus"][1]["found"]),
        (3, &"4g.20gb,2g.10gb,1g.5gb".into())
    );
    let before = host.changes();
    assert!(
        host.applied(&["1g.5gb,2g.10gb,4g.20gb"])
            .contains("Nothing to do")
    );
    assert_eq!(
        host.changes(),
        before,
        "the same layout again changes nothing"
    );
    let undone = host.run(&["rollback", "--yes"]);
    assert_eq!(undone.code, 0, "{}{}", undone.out, undone.err);
    assert_eq!(
        (host.state(0, "mig").as_str(), host.instances(0).as_str()),
        ("0 0 0", "")
    );
}

#[test]
fn only_what_differs_is_removed_and_created() {
    let host = Host::saying("");
    host.applied(&["4g.20gb,2g.10gb,1g.5gb"]);
    host.applied(&["4g.20gb,3x1g.5gb", "--device", "0"]);
    // The first and the third instance keep their ids.
    assert_eq!(host.instances(0), "1 5 0 4,3 19 6 1,4 19 4 1,5 19 5 1");
    assert_eq!(
        host.instances(1),
        "1 5 0 4,2 14 4 2,3 19 6 1",
        "another GPU is left alone"
    );
    let undone = host.run(&["rollback", "--yes"]);
    assert_eq!(undone.code, 0, "{}{}", undone.out, undone.err);
    assert_eq!(host.instances(0), "1 5 0 4,3 19 6 1,4 14 4 2");
    // An instance without its compute instance is made again, whatever made it so.
    fs::write(
        host.libraries.path().join("state"),
        "0.mig=1 1 0\n0.instances=1 5 0 0,2 14 4 2\n",
    )
    .expect("written");
    host.applied(&["4g.20gb,2g.10gb", "--device", "0000:17:00.0"]);
    assert_eq!(host.instances(0), "2 14 4 2,3 5 0 4");
    host.applied(&["off", "--device", "0"]);
    assert_eq!(
        (host.state(0, "mig").as_str(), host.instances(0).as_str()),
        ("0 0 0", "")
    );
}

#[test]
fn what_was_exported_is_applied_elsewhere() {
    let host = Host::saying("");
    host.applied(&["3g.20gb,4x1g.5gb", "--device", "1"]);
    let exported = host.run(&["mig", "export"]);
    assert_eq!(
        exported.out,
        "version: v1\nmig-configs:\n  \"current\":\n    - device-filter: [\"0x20B010DE\"]\n      devices: [0]\n      \
         mig-enabled: false\n    - device-filter: [\"0x20B010DE\"]\n      devices: [1]\n      mig-enabled: true\n      \
         mig-devices:\n        \"1g.5gb\": 4\n        \"3g.20gb\": 1\n"
    );
    let path = host.libraries.path().join("mig.yaml");
    fs::write(&path, &exported.out).expect("written");
    let elsewhere = Host::saying("");
    elsewhere.applied(&["--file", path.to_str().expect("UTF-8")]);
    assert_eq!(elsewhere.state(0, "mig"), "");
    assert_eq!(elsewhere.instances(1), host.instances(1));
    let held = elsewhere.run(&["mig", "assert", "--file", path.to_str().expect("UTF-8")]);
    assert_eq!(held.code, 0, "{}{}", held.out, held.err);
}

/// Every configuration of mig-parted for this board, one after the other on one GPU, read back each
/// time.
#[test]
fn mig_parteds_configurations_are_applied_and_read_back() {
    let host = Host::saying("");
    let path = host.libraries.path().join("mig.yaml");
    let mut text = "version: v1\nmig-configs:\n".to_owned();
    let mut names = Vec::new();
    let rows = shipped_configurations()
        .into_iter()
        .filter(|row| row[0] == "examples/config.yaml" && row[3] == "all");
    for row in rows {
        text += &format!("  \"{}\":\n{}", row[1], entry(&row));
        names.push(row[1].clone());
    }
    fs::write(&path, text).expect("written");
    assert!(names.len() >= 8, "{names:?}");
    let file = path.to_str().expect("UTF-8");
    for name in names {
        host.applied(&["--device", "0", "--file", file, "--name", &name]);
        let held = host.run(&[
            "mig", "assert", "--device", "0", "--file", file, "--name", &name,
        ]);
        assert_eq!(held.code, 0, "{name}: {}{}", held.out, held.err);
    }
}

#[test]
fn what_the_driver_refuses_is_said_and_undone() {
    // Something computes in the instance that has to go.
    let host = Host::saying("");
    host.applied(&["2x3g.20gb", "--device", "0"]);
    host.answer("busy=2\n");
    let ran = host.apply(&["7x1g.5gb", "--device", "0"]);
    assert_eq!(ran.code, 7, "{}{}", ran.out, ran.err);
    assert!(
        ran.err.contains("nvmlComputeInstanceDestroy") && ran.err.contains("in use"),
        "{}",
        ran.err
    );
    assert!(
        ran.err
            .contains("the GPUs have their previous modes and instances again"),
        "{}",
        ran.err
    );
    assert_eq!(
        host.run(&["mig", "assert", "--device", "0", "2x3g.20gb"])
            .code,
        0
    );

    // A GPU in use does not change its mode: no change is left pending.
    let host = Host::saying("activation=19\n");
    let ran = host.apply(&["2x3g.20gb", "--device", "0"]);
    assert_eq!(ran.code, 7, "{}{}", ran.out, ran.err);
    assert!(
        ran.err.contains("nvmlDeviceSetMigMode") && ran.err.contains("in use"),
        "{}",
        ran.err
    );
    assert_eq!(host.state(0, "mig"), "0 0 0");

    // In a virtual machine the mode waits for a reboot; after it, the run is resumed.
    let host = Host::saying("activation=16\n");
    let ran = host.apply(&["2x3g.20gb", "--device", "0"]);
    assert_eq!(ran.code, 7, "{}{}", ran.out, ran.err);
    assert!(
        ran.err
            .contains("waits for a reset, which this machine does not offer"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("try: sudo gpusetup resume"), "{}", ran.err);
    assert_eq!(host.state(0, "mig"), "0 1 0");
    fs::write(host.libraries.path().join("state"), "0.mig=1 1 0\n").expect("written");
    host.answer("");
    let resumed = host.run(&["resume", "--yes"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!(
        host.run(&["mig", "assert", "--device", "0", "2x3g.20gb"])
            .code,
        0
    );

    // Only root may know the placements: those of the database are taken.
    let host = Host::saying("mig=1 1 0\nnvmlDeviceGetGpuInstancePossiblePlacements_v2=4\n");
    let listed = host.run(&["mig", "list", "--json"]).json();
    assert_eq!(listed["gpus"][0]["profiles_from"], "driver");
    assert_eq!(
        listed["gpus"][0]["profiles"].as_array().map(Vec::len),
        Some(7)
    );

    // Only root may see the instances, which is not the same as none.
    let host = Host::saying("mig=1 1 0\nnvmlDeviceGetGpuInstances=4\n");
    let ran = host.run(&["mig", "assert", "none"]);
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    assert!(
        ran.err.contains("nvmlDeviceGetGpuInstances") && ran.err.contains("run it with sudo"),
        "{}",
        ran.err
    );
    let listed = host.run(&["mig", "list", "--json"]);
    assert_eq!(
        (listed.code, &listed.json()["gpus"][0]["layout"]),
        (0, &Value::Null)
    );

    // A GPU that cannot be partitioned.
    let host = Host::saying("nvmlDeviceGetMigMode=3\n");
    let ran = host.apply(&["7x1g.5gb"]);
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("cannot be partitioned"), "{}", ran.err);

    // The driver does not answer.
    let ran = Host::saying("nvmlInit_v2=9\n").apply(&["7x1g.5gb"]);
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    assert!(
        ran.err.contains("NVIDIA driver is not loaded"),
        "{}",
        ran.err
    );
}
