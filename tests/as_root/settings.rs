//! Settings on a real host: apt holds the kernel's and the driver's packages, and systemd enables
//! the unit of the GPUs' settings.

use crate::host::{Host, script, text};
use crate::short::{self, Deb, deb};
use gpusetup::compat::PackageManager;
use gpusetup::operation::{Hold, Operation};
use gpusetup::plan::{Plan, StepId};
use std::path::Path;

const UNIT: &str = "gpusetup-gpu-settings.service";

fn hold(held: bool) -> Operation {
    let packages = ["linux-image-*", "linux-headers-*"]
        .map(str::to_owned)
        .to_vec();
    let driver = "535.261.03".parse().ok();
    Operation::Hold(Hold {
        manager: PackageManager::Apt,
        packages,
        driver,
        held,
    })
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn updates_are_held_and_units_enabled_until_they_are_rolled_back() {
    let host = Host::of("settings", Path::new(&script("base", &["trixie"])));
    let version = |name, version| Deb {
        version,
        ..deb(name, ":")
    };
    short::offer(
        &host,
        &[
            version("linux-image-test", "6.1.0-1"),
            version("linux-headers-test", "6.1.0-1"),
            version("libnvidia-test", "535.261.03-1"),
            version("nvidia-container-test", "1.17.4-1"),
        ],
    );
    host.ask("apt-get -qq -y install linux-image-test linux-headers-test libnvidia-test nvidia-container-test");
    // Somebody else holds this one.
    host.ask("apt-mark -q hold linux-headers-test");
    let held = || {
        let all = host.ask("apt-mark showhold");
        all.lines()
            .filter(|name| name.ends_with("-test"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let asked = [
        "plan",
        "--gpu",
        "a100",
        "--profile",
        "driver",
        "--power-limit",
        "300",
        "--mig",
        "none",
        "--json",
    ];
    let planned: Plan =
        serde_json::from_str(&host.gpusetup_plain(&asked).succeeds().out).expect("a plan");
    let planned_step = |id| {
        planned
            .steps
            .iter()
            .find(|step| step.id == id)
            .expect("a step")
            .clone()
    };
    let (settings, mig) = (planned_step(StepId::GpuSettings), planned_step(StepId::Mig));
    let saved = |steps| {
        short::saved(
            folder.path(),
            &Plan {
                steps,
                ..planned.clone()
            },
        )
    };
    let file = saved(vec![
        short::step(StepId::Updates, vec![hold(true)]),
        mig,
        settings,
    ]);
    host.gpusetup_plain(&["apply", text(&file), "--yes", "--accept-eula"])
        .succeeds();
    assert_eq!(
        held(),
        ["libnvidia-test", "linux-headers-test", "linux-image-test"]
    );
    // Their programs, which the driver and a package of gpusetup bring.
    host.ask("for program in nvidia-smi gpusetup; do cp /bin/true /usr/bin/$program; done");
    for unit in [UNIT, "gpusetup-mig.service"] {
        assert_eq!(
            host.ask(&format!("systemctl is-enabled {unit}")).trim(),
            "enabled"
        );
        let ran = host
            .sh(&format!(
                "systemd-analyze verify /etc/systemd/system/{unit}"
            ))
            .succeeds();
        assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""), "{unit}");
    }
    host.gpusetup_plain(&["apply", text(&file), "--yes", "--accept-eula"])
        .succeeds();
    host.gpusetup_plain(&["rollback", "--yes"]).succeeds();
    assert_eq!(held(), ["linux-headers-test"]);
    assert_eq!(
        host.ask(&format!("systemctl is-enabled {UNIT} 2>/dev/null || true"))
            .trim(),
        "not-found"
    );

    let file = saved(vec![short::step(StepId::Updates, vec![hold(false)])]);
    host.gpusetup_plain(&["apply", text(&file), "--yes", "--accept-eula"])
        .succeeds();
    assert_eq!(held(), [""; 0]);
    host.gpusetup_plain(&["rollback", "--yes"]).succeeds();
    assert_eq!(held(), ["linux-headers-test"]);
}
