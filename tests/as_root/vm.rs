//! A machine that boots: Debian under QEMU, from its own disk and through GRUB, with two A100s and
//! an NVSwitch on its PCI bus for the real kernel to list, for udev to load the real nouveau for,
//! and for NVIDIA's real module to bind. cloud-init runs gpusetup on the first boot, the power goes
//! in the middle of that, and later the machine boots itself. What counts is what it says
//! afterwards. `tests/run` runs this: it takes root, and minutes, since all of the machine is
//! emulated.

use crate::host::{Ran, bench, gpusetup, machine, script, store, text, timed};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The whole stack, on packages of Debian 12 and a CUDA that every driver since 525 runs.
const STACK: &[&str] = &[
    "--driver",
    "535",
    "--method",
    "packages",
    "--modules",
    "proprietary",
    "--cuda",
    "12.4",
    "--cudnn",
    "9.10.2",
];

/// A machine's power goes after this time, whatever it is at.
const LIMIT: Duration = Duration::from_secs(45 * 60);

/// The disk that the machines' disks begin as, and the key to them.
fn image() -> &'static Path {
    static IMAGE: OnceLock<PathBuf> = OnceLock::new();
    IMAGE.get_or_init(|| {
        bench();
        timed("image", || script("../vm/image", &[]).into())
    })
}

/// A machine. It is taken away in the end, but its disk and console are kept when a test fails.
struct Machine {
    name: &'static str,
    dir: PathBuf,
    power: Option<(Child, ChildStdin)>,
    on_since: Instant,
    port: String,
}

impl Machine {
    /// A new one, off, that finds gpusetup and what it is to do on a second disk, as clouds hand it
    /// out.
    fn new(name: &'static str) -> Self {
        let dir = empty(name);
        let (disk, begins_as) = (dir.join("disk.qcow2"), image().join("disk.raw"));
        machine(
            "qemu-img",
            &[
                "create",
                "-q",
                "-f",
                "qcow2",
                "-F",
                "raw",
                "-b",
                text(&begins_as),
                text(&disk),
            ],
        )
        .succeeds();
        seed(&dir);
        Self {
            name,
            dir,
            power: None,
            on_since: Instant::now(),
            port: String::new(),
        }
    }

    /// Puts the driver's modules on the second disk, where the package looks for them when dpkg
    /// configures it. They may be in the making still while the machine boots for the first time.
    fn gets_modules(&self) {
        let modules = timed("modules", || script("../vm/modules", &[]));
        let disk = self.dir.join("seed.img");
        let there = "::modules.tar.gz";
        machine("mcopy", &["-i", text(&disk), &modules, there]).succeeds();
    }

    fn powers_on(&mut self) {
        let path = |name: &str| self.dir.join(name);
        let mut child =
            Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vm/machine"))
                .args([path("disk.qcow2"), path("seed.img"), path("console.log")])
                .arg(LIMIT.as_secs().to_string())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("the machine starts");
        self.on_since = Instant::now();
        self.port.clear();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut self.port)
            .expect("it says its port");
        self.port.truncate(self.port.trim_end().len());
        let input = child.stdin.take().expect("piped");
        self.power = Some((child, input));
    }

    /// The power is cut, without a word to the machine. What it had not written to its disk is
    /// gone.
    fn is_cut_off(&mut self) {
        let Some((mut child, input)) = self.power.take() else {
            return;
        };
        drop(input);
        child.wait().expect("it ends with its input");
    }

    fn report_time(&self, what: &str) {
        println!(
            "  {}: {what} {:.0} s after power-on",
            self.name,
            self.on_since.elapsed().as_secs_f64()
        );
    }

    /// Runs a shell script in it, over ssh. The code is 255 where the machine is not there.
    fn sh(&self, script: &str) -> Ran {
        let key = image().join("key");
        let mut arguments = vec![
            "-F",
            "none",
            "-i",
            text(&key),
            "-p",
            &self.port,
            "-o",
            "BatchMode=yes",
        ];
        for option in [
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "LogLevel=ERROR",
            "ConnectTimeout=20",
            "ServerAliveInterval=20",
        ] {
            arguments.extend(["-o", option]);
        }
        let script = format!("set -eu\n{script}");
        arguments.extend(["root@127.0.0.1", &script]);
        machine("ssh", &arguments)
    }

    /// What a script says on standard output. It must succeed.
    fn ask(&self, script: &str) -> String {
        self.sh(script).succeeds().out.trim().to_owned()
    }

    /// What each of some scripts says. They run in one session: in such a machine every login takes
    /// seconds.
    fn ask_each<const N: usize>(&self, scripts: [&str; N]) -> [String; N] {
        const NEXT: &str = "==== the next script\n";
        let answers = self.ask(
            &scripts
                .map(|script| format!("({script})"))
                .join(&format!("\nprintf '{NEXT}'\n")),
        );
        let answers: Vec<String> = answers
            .split(NEXT)
            .map(|part| part.trim().to_owned())
            .collect();
        answers
            .try_into()
            .unwrap_or_else(|answers| panic!("{N} answers are due: {answers:?}"))
    }

    /// Runs a script again and again until it comes to an end, over boots and the time that they
    /// take.
    fn ask_until(&mut self, script: &str) -> Ran {
        loop {
            let ran = self.sh(script);
            if ran.code != Some(255) {
                return ran;
            }
            let (child, _) = self.power.as_mut().expect("it is on");
            assert!(
                child.try_wait().expect("it can be asked").is_none(),
                "{}: the machine is gone",
                self.name
            );
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// Waits until gpusetup's last apply has come to its end, however many boots that takes.
    fn comes_to_its_end(&mut self) {
        let ran = self
            .ask_until("gpusetup status --wait --timeout 3000")
            .succeeds();
        assert!(ran.out.contains("finished"), "{}", ran.out);
        self.report_time("gpusetup status --wait came back");
    }

    /// Boots so far.
    fn boots(&self) -> usize {
        let console = fs::read(self.dir.join("console.log")).expect("it has one");
        String::from_utf8_lossy(&console)
            .matches("Linux version")
            .count()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.is_cut_off();
        if std::thread::panicking() {
            eprintln!(
                "the machine's disk and console are kept: {}",
                self.dir.display()
            );
        } else {
            let _ = fs::remove_file(self.dir.join("disk.qcow2"));
        }
    }
}

/// A machine's folder, with nothing in it.
fn empty(name: &str) -> PathBuf {
    let dir = store().join("machines").join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("made");
    dir
}

/// The second disk: gpusetup, the bench's database under the address that the bench's server has
/// for a machine, and the user-data, which is what `plan --format cloud-init` prints.
fn seed(dir: &Path) {
    let seed = dir.join("seed");
    fs::create_dir(&seed).expect("made");
    let files = |name: &str| seed.join(name);
    machine(
        "strip",
        &[
            "-o",
            text(&files("gpusetup")),
            env!("CARGO_BIN_EXE_gpusetup"),
        ],
    )
    .succeeds();
    machine(
        "cp",
        &["-r", text(&bench().database), text(&files("database"))],
    )
    .succeeds();
    let here =
        "grep -rl http://127.0.0.1: \"$0\" | xargs sed -i s,http://127.0.0.1:,http://10.0.2.2:,";
    machine("sh", &["-c", here, text(&files("database"))]).succeeds();
    with_fabric_manager(&files("database").join("compat/distros/debian.yaml"));
    let mut plan = vec![
        "plan",
        "--root",
        text(&bench().base),
        "--gpu",
        "10de:20b0",
        "--database",
        text(&bench().database),
    ];
    plan.extend([
        "--format",
        "cloud-init",
        "--accept-eula",
        "--reboot",
        "if-needed",
    ]);
    plan.extend(STACK);
    let user_data = gpusetup(plan).succeeds().out;
    let (before, config) = user_data.split_once("content: |\n").expect("a config file");
    let user_data = format!("{before}content: |\n      database: \"/srv/seed/database\"\n{config}");
    fs::write(files("user-data"), user_data).expect("written");
    fs::write(
        files("meta-data"),
        "instance-id: test\nlocal-hostname: testhost\n",
    )
    .expect("written");
    let disk = dir.join("seed.img");
    File::create(&disk)
        .and_then(|file| file.set_len(256 << 20))
        .expect("made");
    machine("mformat", &["-i", text(&disk), "-v", "CIDATA", "::"]).succeeds();
    let names = ["gpusetup", "database", "user-data", "meta-data"].map(files);
    let mut copy = vec!["-s", "-i", text(&disk)];
    copy.extend(names.iter().map(|name| text(name)));
    copy.push("::");
    machine("mcopy", &copy).succeeds();
    fs::remove_dir_all(&seed).expect("removed");
}

/// Has the database say that Debian 12's driver has a Fabric Manager, which is in the image's own
/// repository.
fn with_fabric_manager(distributions: &Path) {
    let known = fs::read_to_string(distributions).expect("there");
    let (others, debian_12) = known.split_once("version: \"12\"").expect("Debian 12");
    let packages = "        packages: [\"nvidia-kernel-dkms\",";
    assert!(debian_12.contains(packages), "Debian 12 has such a driver");
    let with = format!(
        "        companions: {{ fabric-manager: \"nvidia-fabricmanager-535\" }}\n{packages}"
    );
    let debian_12 = debian_12.replacen(packages, &with, 1);
    fs::write(distributions, format!("{others}version: \"12\"{debian_12}")).expect("written");
}

#[test]
#[ignore = "needs root and QEMU: tests/run runs it"]
fn a_machine_cut_off_during_the_first_boots_install_brings_its_card_the_driver() {
    let mut machine = Machine::new("cut-off");
    machine.powers_on();
    nouveau_has_come(&mut machine);
    // In the middle of dpkg's work: the package's files are there, and nothing is configured.
    let unpacked =
        "tail -n +1 -F /var/log/dpkg.log | grep -m 1 'status unpacked nvidia-kernel-dkms'";
    machine.ask_until(unpacked).succeeds();
    machine.is_cut_off();

    machine.gets_modules();
    machine.powers_on();
    machine.ask_until("true").succeeds();
    machine.report_time("sshd answered again");
    // It has shown by now that gpusetup and cloud-init get along; without it the last boot is a
    // minute and a half shorter.
    machine.ask("touch /etc/cloud/cloud-init.disabled");
    machine.comes_to_its_end();
    assert_eq!(
        machine.boots(),
        3,
        "the first, the one after the cut, and the machine's own"
    );
    works(&machine);
}

/// The first boot: udev has loaded nouveau, out of the initramfs, and nouveau has looked at the
/// card. An A100's chip is one that it declines, so nothing is bound; and it stays in the kernel
/// until a boot without it.
fn nouveau_has_come(machine: &mut Machine) {
    machine.ask_until("true").succeeds();
    machine.report_time("sshd answered");
    let [cards, modules, log] = machine.ask_each([
        "lspci -nnk -d 10de:",
        "lsmod",
        "dmesg | grep -e nouveau -e 'EXT4-fs.*mounted'",
    ]);
    assert!(
        cards.contains("[10de:20b0]") && cards.contains("Kernel modules: nouveau"),
        "{cards}"
    );
    assert!(modules.contains("\nnouveau "), "{modules}");
    assert!(
        log.lines()
            .next()
            .is_some_and(|l| l.contains("nouveau 0000:")),
        "not from the initramfs: {log}"
    );
}

/// Fabric Manager came in the driver's transaction and version, is held with it, and runs since the
/// driver is loaded; doctor says so, of both GPUs and the switch.
fn has_fabric_manager(machine: &Machine) {
    // In one session: each takes seconds in such a machine.
    let output = machine.ask(
        "dpkg-query -W -f '${Version}\\n' nvidia-kernel-dkms nvidia-fabricmanager-535 | sort -u | wc -l
         apt-mark showhold | grep -x nvidia-fabricmanager-535
         systemctl is-enabled nvidia-fabricmanager
         systemctl is-active nvidia-fabricmanager
         head -n 1 /proc/driver/nvidia/version | cmp - /run/nv-fabricmanager && echo the same driver",
    );
    assert_eq!(
        output,
        "1\nnvidia-fabricmanager-535\nenabled\nactive\nthe same driver"
    );
    let doctor = machine.sh("gpusetup doctor GS801 --json").json();
    let [gpus, switches] =
        ["gpus", "nvswitches"].map(|part| doctor["host"][part].as_array().map_or(0, Vec::len));
    assert_eq!(
        (gpus, switches, &doctor["checks"][0]["status"]),
        (2, 1, &"pass".into()),
        "{doctor}"
    );
}

/// Everything that was asked for, by the machine's own word. That a login shell's nvcc compiles is
/// shown on hosts that do not take a minute for it; gpusetup's own check has compiled in each
/// machine.
fn works(machine: &Machine) {
    let start = Instant::now();
    // Python's program, since the cuDNN that programs get is the one that the loader finds.
    let cudnn = "import ctypes; print(ctypes.CDLL(\"libcudnn.so.9\").cudnnGetVersion())";
    let [
        state,
        units,
        unit_failures,
        cards,
        driver,
        information,
        devices,
        files,
        nouveau,
        cudnn,
    ] = machine.ask_each([
        "gpusetup status --json | grep '\"state\": \"done\",$' | head -n 1",
        "ls /etc/systemd/system/*gpusetup* 2>/dev/null || true",
        "systemctl --failed --plain --no-legend",
        "lspci -nnk -d 10de:20b0",
        "cat /proc/driver/nvidia/version",
        "cat /proc/driver/nvidia/gpus/*/information",
        "nvidia-smi -L",
        "lsinitramfs $(realpath /initrd.img)",
        "lsmod | grep ^nouveau || true",
        &format!("python3 -c '{cudnn}'"),
    ]);
    assert_eq!(state, "\"state\": \"done\",");
    assert_eq!((units.as_str(), unit_failures.as_str()), ("", ""));
    assert_eq!(
        cards.matches("Kernel driver in use: nvidia").count(),
        2,
        "{cards}"
    );
    assert!(driver.contains("Kernel Module  535."), "{driver}");
    assert!(information.contains("NVIDIA A100"), "{information}");
    assert!(devices.contains("GPU 1: "), "{devices}");
    // nouveau lies in this machine's initramfs still; it is the blacklist beside it that counts.
    assert!(
        files.contains("/nouveau.ko") && files.contains("etc/modprobe.d/gpusetup-nouveau.conf"),
        "{files}"
    );
    assert_eq!((nouveau.as_str(), cudnn.as_str()), ("", "91002"));
    has_fabric_manager(machine);
    println!(
        "  {}: asking it took {:.0} s",
        machine.name,
        start.elapsed().as_secs_f64()
    );
    println!(
        "  {}: {} boots; its console: {}",
        machine.name,
        machine.boots(),
        machine.dir.join("console.log").display()
    );
    println!("{}", machine.ask("systemd-analyze time | sed 's/^/  /'"));
}
