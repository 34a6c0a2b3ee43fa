//! Settings of GPUs, of kernel modules and of updates: planned, applied, checked and undone with a
//! library that stands in for NVML.

use crate::common::{self, Ran, Tree};
use crate::nvidia;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const UNIT: &str = "etc/systemd/system/gpusetup-gpu-settings.service";
const WANTED: &str = "etc/systemd/system/multi-user.target.wants/gpusetup-gpu-settings.service";

/// Every key, as a config file has it.
const ALL_KEYS: &str = "profile: driver
persistence: true
ecc: false
power-limit: 300
gpu-clocks: \"210,1200\"
memory-clocks: 1215
compute-mode: exclusive-process
accounting: on
module-option: [nvidia.NVreg_EnableGpuFirmware=0, nvidia-uvm.uvm_disable_hmm=1]
updates: hold
";

/// A systemctl of a tree: as much of it as enables, disables and answers.
const SYSTEMCTL: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int count, char **words)
{
	char link[512], unit[512];
	const char *name = words[count - 1];
	snprintf(link, sizeof link, "/etc/systemd/system/multi-user.target.wants/%s", name);
	snprintf(unit, sizeof unit, "/etc/systemd/system/%s", name);
	if (!strcmp(words[1], "is-active")) {
		snprintf(link, sizeof link, "/run/active/%s", name);
		return access(link, F_OK) ? 3 : 0;
	}
	if (!strcmp(words[1], "is-enabled"))
		return access(link, F_OK) ? 1 : 0;
	if (!strcmp(words[1], "disable"))
		return unlink(link) ? 1 : 0;
	mkdir("/etc/systemd/system/multi-user.target.wants", 0755);
	return strcmp(words[1], "enable") || symlink(unit, link) ? 1 : 0;
}
"#;

/// A host with a driver and two A100, whose NVML stands in.
pub struct Host {
    pub tree: Tree,
    pub libraries: tempfile::TempDir,
}

impl Host {
    pub fn saying(answers: &str) -> Self {
        let tree = Tree::ubuntu_24_04()
            .gpu("0000:17:00.0", "20b0", Some("nvidia"))
            .gpu("0000:18:00.0", "20b0", Some("nvidia"));
        for library in ["libcuda.so", "libnvidia-ml.so"] {
            tree.write(&format!("usr/lib/x86_64-linux-gnu/{library}.580.95.05"), "");
        }
        let libraries = tempfile::tempdir().expect("a temporary directory");
        nvidia::put(libraries.path(), &format!("count=2\n{answers}"));
        let host = Self { tree, libraries };
        host.add_systemctl();
        host
    }

    fn add_systemctl(&self) {
        let source = self.libraries.path().join("systemctl.c");
        fs::write(&source, SYSTEMCTL).expect("written");
        let program = self.tree.path().join("usr/bin/systemctl");
        fs::create_dir_all(program.parent().expect("a folder")).expect("made");
        let made = Command::new("gcc")
            .arg("-static")
            .arg("-o")
            .arg(&program)
            .arg(&source)
            .status();
        assert!(made.expect("gcc is there").success());
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        let program = common::program();
        // Whoever is not root is so among themselves.
        let mut command = if rustix::process::geteuid().is_root() {
            program
        } else {
            let mut command = Command::new("unshare");
            command
                .args(["--user", "--map-root-user"])
                .arg(program.get_program())
                .env_clear();
            command.envs(
                program
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            );
            command
        };
        let stand_ins = nvidia::stand_ins(self.libraries.path());
        let (variable, libraries) = stand_ins.split_once('=').expect("NAME=VALUE");
        command
            .args(arguments)
            .arg("--root")
            .arg(self.tree.path())
            .stdin(Stdio::null())
            .env(variable, libraries);
        // Its systemctl answers what a running host's would.
        command.env("GPUSETUP_STANDS_FOR_HOST", "1");
        Ran::of(command.output().expect("gpusetup runs"))
    }

    fn plan(&self, settings: &[&str]) -> Ran {
        self.run(&[&["plan", "--profile", "driver", "--json"], settings].concat())
    }

    /// What a GPU was given last, by the stand-in's key: `0.power_limit`.
    pub fn state(&self, key: &str) -> Option<String> {
        let text = fs::read_to_string(self.libraries.path().join("state")).unwrap_or_default();
        let value = text
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        value.map(str::to_owned)
    }

    pub fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.tree.path().join(path)).ok()
    }
}

pub fn step<'a>(plan: &'a Value, id: &str) -> Option<&'a Value> {
    plan["steps"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|step| step["id"] == id)
}

/// Each operation of a step in a line: `0000:17:00.0 {"ecc":false}`.
fn operations(step: &Value) -> Vec<String> {
    let line = |act: &Value| {
        let is = if act["satisfied"] == true { "= " } else { "" };
        match act["op"].as_str().expect("a kind") {
            "device" => format!(
                "{is}{} {}",
                act["gpu"].as_str().expect("a GPU"),
                act["state"]
            ),
            "service" => format!("{is}enable {}", act["unit"].as_str().expect("a unit")),
            "write-file" => format!("{is}write {}", act["path"].as_str().expect("a path")),
            other => format!("{is}{other}"),
        }
    };
    step["operations"]
        .as_array()
        .expect("a list")
        .iter()
        .map(line)
        .collect()
}

#[test]
fn a_config_file_with_every_key_is_planned() {
    let host = Host::saying("1.nvmlDeviceGetAccountingMode=3\n");
    let config = host.libraries.path().join("config.yaml");
    fs::write(&config, ALL_KEYS).expect("written");
    let planned = host.run(&[
        "plan",
        "--json",
        "--config",
        config.to_str().expect("UTF-8"),
    ]);
    assert_eq!(planned.code, 0, "{}", planned.err);
    let plan = planned.json();
    let settings = step(&plan, "gpu-settings").expect("a step");
    let lines = operations(settings);
    assert_eq!(lines[0], "= 0000:17:00.0 {\"persistence\":true}");
    assert_eq!(lines[1], "0000:17:00.0 {\"ecc\":false}");
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.contains("accounting"))
            .count(),
        1,
        "the second GPU has none"
    );
    assert_eq!(lines.len(), 13 + 2, "{lines:?}");
    let unit = settings["operations"][13]["content"]
        .as_str()
        .expect("a text");
    for line in [
        "ExecStart=-/usr/bin/nvidia-smi -pm 1",
        "ExecStart=-/usr/bin/nvidia-smi -e 0",
        "ExecStart=-/usr/bin/nvidia-smi -pl 300",
        "ExecStart=-/usr/bin/nvidia-smi -lgc 210,1200",
        "ExecStart=-/usr/bin/nvidia-smi -lmc 1215,1215",
        "ExecStart=-/usr/bin/nvidia-smi -c EXCLUSIVE_PROCESS",
        "ExecStart=-/usr/bin/nvidia-smi -am 1",
    ] {
        assert!(unit.lines().any(|l| l == line), "{line}: {unit}");
    }
    let options = step(&plan, "module-options").expect("a step")["operations"][0]["content"]
        .as_str()
        .expect("a text");
    let wanted = "options nvidia NVreg_EnableGpuFirmware=0\noptions nvidia_uvm uvm_disable_hmm=1\n";
    assert!(options.ends_with(wanted), "{options}");
    let updates = step(&plan, "updates").expect("a step");
    assert_eq!(
        (
            &updates["operations"][0]["op"],
            &updates["operations"][0]["held"]
        ),
        (&"hold".into(), &true.into())
    );
    let warnings = plan["warnings"].as_array().expect("a list");
    let texts = warnings
        .iter()
        .filter(|w| w["check"] == "GS521")
        .map(|w| w["text"].as_str().expect("a text"));
    let expected = "the GPU 0000:18:00.0 (NVIDIA A100-SXM4-40GB) does not support accounting, and is left as it is";
    assert_eq!(texts.collect::<Vec<_>>(), [expected]);
    let reboot = step(&plan, "reboot").expect("ECC needs it");
    let why = "error correction (ECC) of 2 GPUs changes when the host reboots";
    assert_eq!(reboot["why"], why);
}

#[test]
fn what_no_gpu_accepts_is_refused_with_its_range() {
    let host = Host::saying("nvmlDeviceGetEccMode=3\n1.power_limits=200000 500000\n");
    let refused = |settings: &[&str], says: &str| {
        let ran = host.plan(settings);
        let error = ran.err.clone() + &ran.out;
        assert!(
            ran.code == 5 && error.contains(says),
            "{settings:?}: {} {error}",
            ran.code
        );
    };
    let at = "the GPU 0000:17:00.0 (NVIDIA A100-SXM4-40GB)";
    refused(
        &["--power-limit", "900"],
        &format!("{at} accepts 100 to 400 W as the power limit, not 900 W"),
    );
    let other = "the GPU 0000:18:00.0 (NVIDIA A100-SXM4-40GB) accepts 200 to 500 W as the power limit, not 150 W";
    refused(&["--power-limit", "150"], other);
    refused(
        &["--gpu-clocks", "2000"],
        &format!("{at} accepts 210 to 1410 MHz as the GPU clocks, not 2000 MHz"),
    );
    refused(&["--memory-clocks", "405"], "1215 to 1215 MHz");
    refused(
        &["--ecc", "on"],
        &format!("{at} does not support error correction (ECC)"),
    );
    let alone = host.plan(&["--power-limit", "150", "--leave-out", "0000:18:00.0"]);
    let forgotten =
        "without persistence mode the driver forgets the power limit when no program uses the GPU";
    assert!(
        alone.code == 0 && alone.out.contains(forgotten),
        "{}",
        alone.out
    );
    for usage in [
        &["--power-limit", "fast"][..],
        &["--gpu-clocks", "9,1"],
        &["--ecc", "maybe"],
        &["--module-option", "x"],
    ] {
        assert_eq!(host.plan(usage).code, 2, "{usage:?}");
    }
    let twice = host.plan(&[
        "--module-option",
        "nvidia.A=1",
        "--module-option",
        "nvidia.A=2",
    ]);
    assert!(twice.code == 2, "{}", twice.err);
}

#[test]
fn an_option_that_another_file_sets_is_a_conflict() {
    let host = Host::saying("");
    host.tree.write(
        "etc/modprobe.d/mine.conf",
        "# mine\noptions nvidia NVreg_EnableGpuFirmware=1\n",
    );
    let option = |value: &str| {
        host.plan(&[
            "--module-option",
            &format!("nvidia.NVreg_EnableGpuFirmware={value}"),
        ])
    };
    let refused = option("0");
    let error = refused.err + &refused.out;
    let says =
        "/etc/modprobe.d/mine.conf:2 sets nvidia.NVreg_EnableGpuFirmware to 1, but 0 was requested";
    assert!(
        refused.code == 5
            && error.contains(says)
            && error.contains("sudoedit /etc/modprobe.d/mine.conf"),
        "{error}"
    );
    assert_eq!(option("1").code, 0, "the same value is no conflict");

    // modprobe reads the kernel's command line as well.
    let host = Host::saying("");
    host.tree.write(
        "etc/default/grub",
        "GRUB_CMDLINE_LINUX=\"quiet nvidia.NVreg_EnableGpuFirmware=1\"\n",
    );
    let option = |value: &str| {
        host.plan(&[
            "--module-option",
            &format!("nvidia.NVreg_EnableGpuFirmware={value}"),
        ])
    };
    let refused = option("0");
    let error = refused.err + &refused.out;
    let says = "the kernel's command line (/etc/default/grub) sets nvidia.NVreg_EnableGpuFirmware to 1, but 0";
    assert!(
        refused.code == 5
            && error.contains(says)
            && error.contains("grep -rnF .NVreg_EnableGpuFirmware="),
        "{error}"
    );
    assert_eq!(option("1").code, 0, "the same value is no conflict");
}

#[test]
fn a_script_that_runs_again_restarts_the_unit_that_it_wrote() {
    let host = Host::saying("");
    let script = host
        .run(&[
            "plan",
            "--format",
            "sh",
            "--persistence",
            "on",
            "--profile",
            "driver",
        ])
        .out;
    let unit = "gpusetup-gpu-settings.service";
    let lines =
        format!("systemctl daemon-reload\nsystemctl enable {unit}\nsystemctl restart {unit}\n");
    let (before, after) = script
        .split_once(&lines)
        .unwrap_or_else(|| panic!("{script}"));
    assert!(
        before.contains(&format!("cat >/etc/systemd/system/{unit} ")),
        "{script}"
    );
    assert!(
        !after.contains(unit) && !before.contains("enable --now gpusetup"),
        "{script}"
    );
}

#[test]
fn a_plan_names_the_settings_that_boots_no_longer_make() {
    let host = Host::saying("");
    host.tree.write(
        UNIT,
        "[X-gpusetup]\nStates=[{\"power-limit\":300000},{\"ecc\":false}]\n",
    );
    let warned = |arguments: &[&str]| {
        let plan = host.plan(arguments).json();
        let texts = plan["warnings"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|w| w["text"].as_str().expect("a text"));
        texts
            .filter(|text| text.starts_with("boots no longer set"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let expected = "boots no longer set the power limit, error correction (ECC), which an earlier apply requested: add \
                --power-limit 300 --ecc off to keep that";
    assert_eq!(warned(&["--persistence", "on"]), [expected]);
    assert_eq!(warned(&["--power-limit", "250", "--ecc", "off"]), [""; 0]);
}

#[test]
fn a_driver_without_the_licence_daemon_takes_no_token() {
    let host = Host::saying("");
    let token = host.libraries.path().join("a.tok");
    fs::write(&token, "eyJhbGciOiJSUzI1NiJ9.eyJqdGkiOiJ0ZXN0In0.c2VjcmV0").expect("written");
    let plan = || host.plan(&["--vgpu-token", token.to_str().expect("UTF-8")]);
    let refused = plan();
    let error = refused.err + &refused.out;
    assert!(
        refused.code == 5 && error.contains("is no guest driver, so it takes no licence token"),
        "{error}"
    );
    host.tree
        .write("usr/lib/systemd/system/nvidia-gridd.service", "[Service]\n");
    assert_eq!(plan().code, 0);
}

#[test]
fn without_a_driver_the_unit_sets_every_gpu() {
    let ran = common::run(&[
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "h100x2",
        "--power-limit",
        "500",
        "--json",
    ]);
    let plan = ran.json();
    let settings = step(&plan, "gpu-settings").expect("a step");
    assert_eq!(
        operations(settings),
        [
            "write /etc/systemd/system/gpusetup-gpu-settings.service",
            "enable gpusetup-gpu-settings.service"
        ]
    );
    assert!(
        settings["operations"][0]["content"]
            .as_str()
            .expect("a text")
            .contains("nvidia-smi -pl 500\n")
    );
    let host = Host::saying("");
    let left = host
        .plan(&["--power-limit", "300", "--leave-out", "0000:17:00.0"])
        .json();
    let step = step(&left, "gpu-settings").expect("a step");
    assert_eq!(operations(step)[0], "0000:18:00.0 {\"power-limit\":300000}");
    let unit = step["operations"][1]["content"].as_str().expect("a text");
    assert!(
        unit.contains("nvidia-smi -i 0000:18:00.0 -pl 300\n") && !unit.contains("0000:17"),
        "{unit}"
    );
}

#[test]
fn settings_are_applied_once_checked_and_undone() {
    let host = Host::saying("");
    let settings = [
        "--power-limit",
        "300",
        "--gpu-clocks",
        "1200",
        "--accounting",
        "on",
    ];
    let plan = host.plan(&settings).json();
    // The driver of this tree is no real one: only the settings are carried out.
    let path = host.libraries.path().join("plan.json");
    let mut plan: gpusetup::plan::Plan = serde_json::from_value(plan).expect("a plan");
    plan.steps
        .retain(|step| step.id == gpusetup::plan::StepId::GpuSettings);
    fs::write(&path, serde_json::to_string(&plan).expect("JSON")).expect("written");
    let applied = host.run(&["apply", path.to_str().expect("UTF-8"), "--yes"]);
    assert_eq!(applied.code, 0, "{}{}", applied.out, applied.err);
    assert_eq!(host.state("1.power_limit").as_deref(), Some("300000"));
    assert_eq!(host.state("0.gpu_clocks").as_deref(), Some("1200 1200"));
    assert!(host.read(UNIT).is_some() && Path::is_symlink(&host.tree.path().join(WANTED)));
    let again = host.plan(&settings).json();
    assert_eq!(
        step(&again, "gpu-settings").expect("a step")["state"],
        "satisfied"
    );
    let doctor = |more: &[&str]| host.run(&[&["doctor", "GS521"], more].concat());
    assert_eq!(doctor(&[]).code, 0, "{}", doctor(&[]).out);
    fs::write(
        host.libraries.path().join("state"),
        "0.power_limit=400000\n1.power_limit=300000\n0.accounting=1\n1.accounting=1\n",
    )
    .expect("written");
    let lost = doctor(&[])
        .out
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let cause = "the power limit of the GPU 0000:17:00.0 is 400 W, not 300 W as it was applied";
    assert!(lost.contains(cause), "{lost}");
    let fixed = doctor(&["--fix", "--yes"]);
    assert_eq!(
        host.state("0.power_limit").as_deref(),
        Some("300000"),
        "{}{}",
        fixed.out,
        fixed.err
    );
    for _ in 0..2 {
        let undone = host.run(&["rollback", "--yes"]);
        assert_eq!(undone.code, 0, "{}{}", undone.out, undone.err);
    }
    assert_eq!(host.state("1.power_limit").as_deref(), Some("400000"));
    assert_eq!(host.state("0.gpu_clocks").as_deref(), Some("none"));
    assert!(host.read(UNIT).is_none() && !Path::is_symlink(&host.tree.path().join(WANTED)));
    assert!(
        doctor(&["--verbose"])
            .out
            .contains("gpusetup has no settings of GPUs here")
    );
}

#[test]
fn a_package_manager_that_cannot_hold_packages_refuses_to() {
    let ran = common::run(&[
        "plan",
        "--os",
        "azurelinux-3",
        "--gpu",
        "h100",
        "--updates",
        "hold",
    ]);
    assert!(
        ran.code == 5
            && ran
                .err
                .contains("gpusetup cannot hold packages on Azure Linux"),
        "{} {}",
        ran.code,
        ran.err
    );
    let text = |path: &str, config: &str| {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let file = folder.path().join(path);
        fs::write(&file, config).expect("written");
        let file = file.to_str().expect("UTF-8").to_owned();
        common::run(&[
            "plan",
            "--os",
            "ubuntu-24.04",
            "--gpu",
            "h100",
            "--json",
            "--config",
            &file,
        ])
        .json()
    };
    // `false` is a value of a switch, and no value of a flag.
    let plan = text(
        "config.yaml",
        "ecc: false\nupgrade: false\nupdates: follow\n",
    );
    let settings = &plan["request"]["settings"];
    assert_eq!(settings["states"], serde_json::json!([{"ecc": false}]));
    assert_eq!(
        (&settings["updates"], &plan["request"]["upgrade"]),
        (&"follow".into(), &false.into())
    );
}

#[test]
fn a_partitioned_gpu_takes_no_compute_mode() {
    let plan = |mig: &str| {
        let settings = [
            "--profile",
            "driver",
            "--compute-mode",
            "exclusive-process",
            "--mig",
            mig,
        ];
        common::run(
            &[
                &["plan", "--os", "ubuntu-24.04", "--gpu", "a100-sxm4-40gb"],
                &settings[..],
            ]
            .concat(),
        )
    };
    let refused = plan("3g.20gb");
    assert!(
        refused.code != 0 && refused.err.contains("--compute-mode is not for GPUs"),
        "{}",
        refused.err
    );
    assert_eq!(plan("off").code, 0);
}
