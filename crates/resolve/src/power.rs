//! What POWER9 needs besides the driver, as NVIDIA's CUDA Installation Guide 12.4 has it (POWER9
//! Setup).

use gpusetup_causes::Remedy;
use gpusetup_database::compat::{Database, HotplugRule};
use gpusetup_database::version::ComputeCapability;
use gpusetup_host::Facts;

/// The first compute capability of the GPUs of POWER9. Those of POWER8 are older.
const FIRST: ComputeCapability = ComputeCapability { major: 7, minor: 0 };

/// Where the unit of the persistence daemon is, which NVIDIA's runfiles leave out. It is too long
/// for a sentence.
const WRITE_UNIT: &str = "write /etc/systemd/system/nvidia-persistenced.service as the page \"Other machines\" of gpusetup's book \
    has it (POWER), ";

/// Lists the files that may have a rule for hot-plugged memory.
const FIND_RULE: &str = "grep -l 'SUBSYSTEM.*memory' /lib/udev/rules.d/*";

/// Whether it is a POWER9 machine: there, CUDA does not start before the persistence daemon has put
/// the GPUs' memory online.
pub fn is_power9(facts: &Facts) -> bool {
    facts.machine.arch == "ppc64le"
        && facts.gpus.iter().any(|gpu| {
            gpu.compute_capability
                .is_some_and(|capability| capability >= FIRST)
        })
}

/// How to set up POWER9; `has_unit`: the persistence daemon has a unit.
pub fn power9_setup(database: &Database, facts: &Facts, has_unit: bool) -> Remedy {
    let rule = database.hotplug_rule(&facts.os.id, &facts.os.like);
    let text = match rule {
        Some(_) => "start it at boot, disable udev's rule, and reboot",
        None => {
            "start it at boot, disable udev's rule for memory, if there is one, in a copy in /etc/udev/rules.d, and reboot"
        }
    };
    let write = if has_unit { "" } else { WRITE_UNIT };
    let enable = "sudo systemctl enable nvidia-persistenced".to_owned();
    let disable = rule.map_or_else(|| vec![FIND_RULE.to_owned()], disable_rule);
    let commands = [enable]
        .into_iter()
        .chain(disable)
        .chain(["sudo reboot".to_owned()]);
    Remedy::new(format!("{write}{text}"), commands)
}

fn disable_rule(rule: &HotplugRule) -> Vec<String> {
    let (file, disable) = (&rule.file, &rule.disable);
    vec![
        format!("sudo cp /lib/udev/rules.d/{file} /etc/udev/rules.d/"),
        format!("sudo sed -i '{disable}' /etc/udev/rules.d/{file}"),
    ]
}
