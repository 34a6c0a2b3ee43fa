//! The settings that a request has for GPUs, for the driver's kernel modules, and for updates. They
//! do not influence which versions are chosen.

use super::mig::MigRequest;
use gpusetup_database::compat::EngineId;
use gpusetup_nvidia::DeviceState;
use gpusetup_text::text::quoted;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The requested settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Settings {
    /// The state that every GPU that supports it gets; each kind of state once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<DeviceState>,
    /// Options of the driver's kernel modules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub module_options: Vec<ModuleOption>,
    /// The token with which the guest driver of virtual GPUs gets a licence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vgpu_token: Option<TokenFile>,
    /// The user's key for kernel modules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module_key: Option<ModuleKey>,
    /// Whether updates of the kernel and the driver are held. None if that is not touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates: Option<Updates>,
    /// How the GPUs are partitioned. None if that is not touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<MigRequest>,
    /// What containers need to use the GPUs. None if that is not touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containers: Option<ContainerRequest>,
}

/// What is set up for containers: NVIDIA's container toolkit for the engines of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct ContainerRequest {
    /// The engine to install if the host does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineId>,
    /// The user who may use Docker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schemas",
        schemars(regex(pattern = r"^[a-z_][a-z0-9_.-]*$"))
    )]
    pub docker_user: Option<String>,
    /// The version of the container toolkit's packages in a lock file, as the package manager
    /// writes it: `1.20.0-1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked_toolkit: Option<String>,
    /// The version of the engine's package in a lock file: `26.1.5+dfsg1-9+b1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked_engine: Option<String>,
}

/// The profile that sets up containers.
pub const CONTAINER_HOST: &str = "container-host";

/// A file with a token. Its content is nobody's but the owner's, so only its checksum is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct TokenFile {
    /// The file.
    pub from: PathBuf,
    /// The SHA-256 of its content.
    #[cfg_attr(
        feature = "schemas",
        schemars(with = "gpusetup_database::sum::Sha256Text")
    )]
    pub sha256: String,
}

/// A key that signs kernel modules. It stays where it is: DKMS reads it for every new kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct ModuleKey {
    /// The file of the private key.
    pub key: PathBuf,
    /// Its certificate, in DER.
    pub certificate: PathBuf,
    /// The SHA-256 of the certificate.
    #[cfg_attr(
        feature = "schemas",
        schemars(with = "gpusetup_database::sum::Sha256Text")
    )]
    pub sha256: String,
}

/// An option of a kernel module.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct ModuleOption {
    /// The module, with underscores: `nvidia`, `nvidia_uvm`.
    #[cfg_attr(feature = "schemas", schemars(regex(pattern = r"^nvidia(_[a-z]+)?$")))]
    pub module: String,
    /// The option, `NVreg_PreserveVideoMemoryAllocations`.
    pub name: String,
    /// Its value, `1`.
    pub value: String,
}

/// What happens to updates of the kernel and the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Updates {
    /// The package manager keeps their versions.
    Hold,
    /// They are updated with the system.
    Follow,
}

/// The text is not an option of one of the driver's modules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not one MODULE.OPTION=VALUE without blanks, with one of the driver's modules: {}", MODULES.join(", "))]
pub struct ModuleOptionError {
    text: String,
}

/// The driver's kernel modules that take options.
const MODULES: [&str; 5] = [
    "nvidia",
    "nvidia_uvm",
    "nvidia_modeset",
    "nvidia_drm",
    "nvidia_peermem",
];

/// Whether another option follows behind a comma: `0,nvidia.NVreg_X=1`.
fn has_another(value: &str) -> bool {
    value.split(',').skip(1).any(|part| {
        let module = part
            .split_once('.')
            .map(|(module, _)| module.trim().replace('-', "_"));
        part.contains('=') && module.is_some_and(|module| MODULES.contains(&&*module))
    })
}

impl FromStr for ModuleOption {
    type Err = ModuleOptionError;

    fn from_str(text: &str) -> Result<Self, ModuleOptionError> {
        let option = split_option(text).filter(|option| {
            MODULES.contains(&option.module.as_str())
                && !option.name.is_empty()
                && option
                    .name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '_')
                && is_value(&option.value)
        });
        option.ok_or_else(|| ModuleOptionError {
            text: text.to_owned(),
        })
    }
}

impl fmt::Display for ModuleOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}={}", self.module, self.name, self.value)
    }
}

impl ModuleOption {
    /// The same option of the same module, whatever its value is.
    pub fn is_same(&self, module: &str, name: &str) -> bool {
        self.module == module && self.name == name
    }
}

impl Updates {
    /// Its name, as the option has it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Follow => "follow",
        }
    }
}

impl Settings {
    /// Whether nothing was requested.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The command-line options that give these settings.
    pub fn options(&self) -> Vec<String> {
        self.keys()
            .into_iter()
            .map(|(key, value)| format!("--{key} {}", quoted(&value)))
            .collect()
    }

    /// The keys of the config file that give these settings, with their values; `module-option` as
    /// often as there are options.
    pub fn keys(&self) -> Vec<(&'static str, String)> {
        let states = self
            .states
            .iter()
            .map(|state| (state.option(), state.option_value()));
        let modules = self
            .module_options
            .iter()
            .map(|option| ("module-option", option.to_string()));
        let token = self
            .vgpu_token
            .iter()
            .map(|token| ("vgpu-token", token.from.display().to_string()));
        let key = self.module_key.iter().flat_map(|key| {
            [("mok-key", &key.key), ("mok-cert", &key.certificate)]
                .map(|(name, path)| (name, path.display().to_string()))
        });
        let updates = self
            .updates
            .map(|updates| ("updates", updates.as_str().to_owned()));
        let mig = self.mig.iter().map(|mig| ("mig", mig.layout.clone()));
        let services = self
            .mig
            .iter()
            .filter(|mig| mig.stops_users)
            .map(|_| ("mig-services", "stop".to_owned()));
        let containers = self.containers.iter().flat_map(|containers| {
            let engine = containers.engine.map(|id| ("engine", id.to_string()));
            let user = containers
                .docker_user
                .clone()
                .map(|name| ("docker-user", name));
            [("profile", CONTAINER_HOST.to_owned())]
                .into_iter()
                .chain(engine)
                .chain(user)
        });
        states
            .chain(modules)
            .chain(token)
            .chain(key)
            .chain(updates)
            .chain(mig)
            .chain(services)
            .chain(containers)
            .collect()
    }
}

fn split_option(text: &str) -> Option<ModuleOption> {
    let (option, value) = text.trim().split_once('=')?;
    let (module, name) = option.split_once('.')?;
    // The value has no blanks, so these do nothing.
    let bare = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    Some(ModuleOption {
        module: module.replace('-', "_"),
        name: name.to_owned(),
        value: bare.unwrap_or(value).to_owned(),
    })
}

/// Whether modprobe takes this as one value: it splits a line at blanks, and quotes protect only
/// whole values.
fn is_value(value: &str) -> bool {
    !value.is_empty()
        && value.len() <= 256
        && value
            .chars()
            .all(|c| c.is_ascii_graphic() && !"\"'\\#".contains(c))
        && !has_another(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_nvidia::{Clocks, ComputeMode};

    #[test]
    fn an_option_of_a_module_is_one_word_of_its_configuration() {
        let option = |text: &str| text.parse::<ModuleOption>().map(|o| o.to_string());
        assert_eq!(
            option("nvidia-uvm.uvm_disable_hmm=1").as_deref(),
            Ok("nvidia_uvm.uvm_disable_hmm=1")
        );
        let registry = "nvidia.NVreg_RegistryDwords=RMUseSwI2c=0x01;RMI2cSpeed=100";
        assert_eq!(option(registry).as_deref(), Ok(registry));
        let quoted = "nvidia.NVreg_RegistryDwords=\"RMUseSwI2c=0x01;RMI2cSpeed=100\"";
        assert_eq!(option(quoted).as_deref(), Ok(registry));
        assert_eq!(option("nvidia.x=a,b=1").as_deref(), Ok("nvidia.x=a,b=1"));
        for bad in [
            "",
            "nvidia",
            "nvidia.x",
            "nvidia.x=",
            "nouveau.modeset=0",
            "nvidia.x=1 y=2",
            "nvidia.x=a\nb",
            "nvidia.x y=1",
            "nvidia.x=1\"",
            "nvidia.x=1,nvidia-uvm.y=2",
            "nvidia.x=1#",
            "nvidia.=1",
        ] {
            assert!(option(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn settings_are_options() {
        let settings = Settings {
            states: vec![
                DeviceState::PowerLimit(82_500),
                DeviceState::GpuClocks(Some(Clocks {
                    least: 210,
                    most: 1410,
                })),
                DeviceState::MemoryClocks(None),
                DeviceState::ComputeMode(ComputeMode::Exclusive),
            ],
            module_options: vec!["nvidia.NVreg_X=1".parse().expect("valid")],
            vgpu_token: Some(TokenFile {
                from: "/root/a b.tok".into(),
                sha256: String::new(),
            }),
            module_key: Some(ModuleKey {
                key: "/root/k".into(),
                certificate: "/root/c".into(),
                sha256: String::new(),
            }),
            updates: Some(Updates::Hold),
            mig: Some(MigRequest {
                stops_users: true,
                ..MigRequest::of("3g.20gb,2x2g.10gb".to_owned())
            }),
            containers: Some(ContainerRequest {
                engine: "podman".parse().ok(),
                docker_user: Some("alice".to_owned()),
                ..ContainerRequest::default()
            }),
        };
        let options = "--power-limit 82.5 --gpu-clocks 210,1410 --memory-clocks default --compute-mode exclusive-process \
            --module-option nvidia.NVreg_X=1 --vgpu-token '/root/a b.tok' --mok-key /root/k --mok-cert /root/c --updates hold --mig 3g.20gb,2x2g.10gb --mig-services stop \
            --profile container-host --engine podman --docker-user alice";
        assert_eq!(settings.options().join(" "), options);
        assert!(Settings::default().is_empty() && !settings.is_empty());
    }
}
