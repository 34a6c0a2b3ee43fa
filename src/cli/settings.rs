//! The options that set GPUs, the driver's kernel modules and updates.

use super::{Problem, module_key};
use crate::nvidia::{Clocks, ComputeMode, DeviceState};
use crate::operation::copy_file::MAX_COPIED_BYTES as MAX_TOKEN;
use crate::resolve::{MigRequest, ModuleOption, Settings, TokenFile, Updates};
use crate::sum::sha256;
use crate::system::input;
use crate::system::trust::Trust;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};

/// Settings that are kept over reboots. What is not named is not touched.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Settings")]
pub(crate) struct SettingsOptions {
    /// Keep the driver initialised when no program uses a GPU (persistence mode)
    #[arg(long, value_enum, ignore_case = true, env = "GPUSETUP_PERSISTENCE")]
    pub(crate) persistence: Option<SwitchOption>,
    /// Error correction (ECC) of the GPUs' memory; a change needs a reboot
    #[arg(long, value_enum, ignore_case = true, env = "GPUSETUP_ECC")]
    pub(crate) ecc: Option<SwitchOption>,
    /// Power limit of every GPU, in watts: 300
    #[arg(long, value_name = "WATTS", env = "GPUSETUP_POWER_LIMIT", value_parser = power_limit)]
    pub(crate) power_limit: Option<u32>,
    /// Lock the clocks of the GPUs, in MHz: 1410, "210,1410", default
    ///
    /// `default` ends a lock.
    #[arg(long, value_name = "MHZ|MIN,MAX", env = "GPUSETUP_GPU_CLOCKS", value_parser = lock)]
    pub(crate) gpu_clocks: Option<Lock>,
    /// Lock the clocks of the GPUs' memory, in MHz: 1215, "405,1215", default
    #[arg(long, value_name = "MHZ|MIN,MAX", env = "GPUSETUP_MEMORY_CLOCKS", value_parser = lock)]
    pub(crate) memory_clocks: Option<Lock>,
    /// Which processes a GPU accepts
    #[arg(long, value_enum, ignore_case = true, env = "GPUSETUP_COMPUTE_MODE")]
    pub(crate) compute_mode: Option<ComputeMode>,
    /// Keep statistics of the processes that used a GPU (nvidia-smi --query-accounted-apps)
    #[arg(long, value_enum, ignore_case = true, env = "GPUSETUP_ACCOUNTING")]
    pub(crate) accounting: Option<SwitchOption>,
    /// Option of one of the driver's kernel modules: nvidia.NVreg_RestrictProfilingToAdminUsers=0
    ///
    /// May be given several times. Modules are nvidia, nvidia_uvm, nvidia_modeset, nvidia_drm and
    /// nvidia_peermem.
    #[arg(
        long = "module-option",
        value_name = "MODULE.OPTION=VALUE",
        env = "GPUSETUP_MODULE_OPTION",
        value_delimiter = ' '
    )]
    pub(crate) module_options: Vec<ModuleOption>,
    /// Licence token of the guest driver of virtual GPUs (vGPU), a file of this host
    ///
    /// It is copied to /etc/nvidia/ClientConfigToken, and shown nowhere.
    #[arg(long, value_name = "FILE", env = "GPUSETUP_VGPU_TOKEN")]
    pub(crate) vgpu_token: Option<PathBuf>,
    /// Private key that signs the driver's kernel modules, with Secure Boot on [default: the key of
    /// DKMS, made if missing]
    ///
    /// It stays where it is: DKMS reads it for every new kernel. Only root may own and read it.
    /// With --root, FILE is a path in the tree.
    #[arg(
        long,
        value_name = "FILE",
        env = "GPUSETUP_MOK_KEY",
        requires = "mok_cert"
    )]
    pub(crate) mok_key: Option<PathBuf>,
    /// Certificate of --mok-key, in DER; with --root, a path in the tree
    #[arg(
        long,
        value_name = "FILE",
        env = "GPUSETUP_MOK_CERT",
        requires = "mok_key"
    )]
    pub(crate) mok_cert: Option<PathBuf>,
    /// Partition the GPUs into instances (MIG), now and at every boot: 3g.20gb,2g.10gb,1g.5gb,
    /// 7x1g.5gb, none, off
    ///
    /// Every GPU that can be partitioned gets this layout. `gpusetup mig` partitions single GPUs
    /// and shows what fits.
    #[arg(long, value_name = "LAYOUT", env = "GPUSETUP_MIG")]
    pub(crate) mig: Option<String>,
    /// Services that use the GPUs, such as DCGM and kubelet: keep them (a change of the MIG mode is
    /// refused), or stop them meanwhile
    #[arg(
        long,
        value_enum,
        ignore_case = true,
        value_name = "WHAT",
        env = "GPUSETUP_MIG_SERVICES",
        default_value = "keep"
    )]
    pub(crate) mig_services: MigServicesOption,
    /// Hold the kernel and the driver at their versions, or let them follow the system's updates
    #[arg(long, value_enum, ignore_case = true, env = "GPUSETUP_UPDATES")]
    pub(crate) updates: Option<Updates>,
}

/// What happens to services that use the GPUs when these are partitioned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MigServicesOption {
    /// They go on, and a GPU that must be idle to be partitioned is refused
    #[default]
    Keep,
    /// They are stopped before, and started again afterwards
    Stop,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SwitchOption {
    /// Turn it on
    #[value(aliases = ["true", "yes", "1"])]
    On,
    /// Turn it off
    #[value(aliases = ["false", "no", "0"])]
    Off,
}

/// A lock of clocks; none ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lock(Option<Clocks>);

/// More than any board draws, in watts.
const MAX_WATTS: f64 = 10_000.0;
/// More than any clock, in MHz.
const MAX_MHZ: u32 = 100_000;

/// Watts, as milliwatts.
fn power_limit(text: &str) -> Result<u32, String> {
    let number = text.trim().trim_end_matches(['w', 'W']).trim_end();
    match number.parse::<f64>() {
        Ok(watts) if watts > 0.0 && watts <= MAX_WATTS => Ok((watts * 1000.0).round() as u32),
        _ => {
            Err("a number of watts is expected, such as 300; nvidia-smi -q -d POWER shows what a GPU accepts"
                .to_owned())
        }
    }
}

fn lock(text: &str) -> Result<Lock, String> {
    // YAML reads an unquoted off as false.
    if matches!(text, "default" | "off" | "false") {
        return Ok(Lock(None));
    }
    let (least, most) = text.split_once(',').unwrap_or((text, text));
    match (megahertz(least), megahertz(most)) {
        (Some(least), Some(most)) if least > most => Err(format!("MIN,MAX is expected, and {least} is more than {most}")),
        (Some(least), Some(most)) if least <= most => Ok(Lock(Some(Clocks { least, most }))),
        _ => Err("a clock in MHz, two as MIN,MAX, or default is expected; nvidia-smi -q -d SUPPORTED_CLOCKS shows what a GPU \
             accepts"
            .to_owned()),
    }
}

fn megahertz(text: &str) -> Option<u32> {
    let number = text.trim().to_ascii_lowercase();
    let number = number.trim_end_matches("mhz").trim_end().parse().ok();
    number.filter(|clock| (1..=MAX_MHZ).contains(clock))
}

/// The file of a licence token, as NVIDIA's licence servers make them: a JSON Web Token.
fn token(path: &Path) -> Result<TokenFile, Problem> {
    let refused = |why: &dyn std::fmt::Display| Problem::usage(format!("--vgpu-token: {why}"));
    let trust = Trust::where_root_acts(&[])?;
    let open = input::open_trusted(path, &trust).map_err(|e| refused(&e))?;
    let content = input::bytes(open, path, MAX_TOKEN).map_err(|e| refused(&e))?;
    let text = content.trim_ascii();
    if !text.starts_with(b"eyJ") || text.iter().filter(|c| **c == b'.').count() != 2 {
        let what = "is no client configuration token, which begins with eyJ";
        return Err(refused(&format!("{} {what}", path.display())));
    }
    let from = std::path::absolute(path).map_err(|e| refused(&e))?;
    Ok(TokenFile {
        from,
        sha256: sha256(&content),
    })
}

impl SwitchOption {
    fn is_on(self) -> bool {
        self == Self::On
    }
}

impl SettingsOptions {
    /// The requested settings.
    ///
    /// # Errors
    ///
    /// If an option of a module is given two values, or a token cannot be read.
    pub(crate) fn settings(&self, root: Option<&Path>) -> Result<Settings, Problem> {
        // In the order in which they are set: a change of the persistence mode may reset the
        // others.
        let states = [
            self.persistence
                .map(|switch| DeviceState::Persistence(switch.is_on())),
            self.ecc.map(|switch| DeviceState::Ecc(switch.is_on())),
            self.power_limit.map(DeviceState::PowerLimit),
            self.gpu_clocks
                .map(|Lock(clocks)| DeviceState::GpuClocks(clocks)),
            self.memory_clocks
                .map(|Lock(clocks)| DeviceState::MemoryClocks(clocks)),
            self.compute_mode.map(DeviceState::ComputeMode),
            self.accounting
                .map(|switch| DeviceState::Accounting(switch.is_on())),
        ];
        let mut module_options = self.module_options.clone();
        module_options.sort();
        module_options.dedup();
        if let Some([one, other]) = module_options.windows(2).find_map(|pair| match pair {
            [one, other] if one.is_same(&other.module, &other.name) => Some([one, other]),
            _ => None,
        }) {
            return Err(Problem::usage(format!(
                "--module-option: {one} and {other} contradict each other"
            )));
        }
        let vgpu_token = self.vgpu_token.as_deref().map(token).transpose()?;
        let module_key = self.mok_key.as_deref().zip(self.mok_cert.as_deref());
        let module_key = module_key
            .map(|(key, certificate)| module_key::checked(key, certificate, root))
            .transpose()?;
        let stops_users = self.mig_services == MigServicesOption::Stop;
        let mig = self.mig.as_ref().map(|text| MigRequest {
            stops_users,
            ..MigRequest::of(match text.as_str() {
                // YAML reads an unquoted off as false.
                "false" => "off".to_owned(),
                layout => layout.to_owned(),
            })
        });
        if stops_users && mig.is_none() {
            return Err(Problem::usage(
                "--mig-services: it is for --mig, which is not there",
            ));
        }
        let states = states.into_iter().flatten().collect();
        Ok(Settings {
            states,
            module_options,
            vgpu_token,
            module_key,
            updates: self.updates,
            mig,
            containers: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_their_units() {
        assert_eq!(
            (power_limit("300"), power_limit("82.5 W")),
            (Ok(300_000), Ok(82_500))
        );
        for bad in ["", "0", "-5", "inf", "NaN", "300 kW", "1e9", "max"] {
            assert!(power_limit(bad).is_err(), "{bad}");
        }
        let clocks = |least, most| Ok(Lock(Some(Clocks { least, most })));
        assert_eq!(
            (lock("off"), lock("false")),
            (lock("default"), Ok(Lock(None)))
        );
        assert_eq!(
            (lock("1410"), lock("210, 1410 MHz")),
            (clocks(1410, 1410), clocks(210, 1410))
        );
        assert_eq!(lock("default"), Ok(Lock(None)));
        for bad in ["", "0", "1410,210", "1,2,3", "-1", "fast", "1410.5"] {
            assert!(lock(bad).is_err(), "{bad}");
        }
    }
}
