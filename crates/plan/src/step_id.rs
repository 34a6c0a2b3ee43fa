//! The names of steps in plans, journals and `--json`: `install-driver`, `install-nccl`.

use super::StepId;
#[cfg(feature = "schemas")]
use gpusetup_database::compat::AddOnId;
use gpusetup_database::version::CudaVersion;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// The steps that are not about an add-on.
const NAMES: [(StepId, &str); 23] = [
    (StepId::Prerequisites, "prerequisites"),
    (StepId::BlacklistNouveau, "blacklist-nouveau"),
    (StepId::AddRepository, "add-repository"),
    (StepId::InstallDriver, "install-driver"),
    (StepId::InstallCompanions, "companions"),
    (StepId::ContainerEngine, "container-engine"),
    (StepId::ContainerToolkit, "container-toolkit"),
    (StepId::InstallCuda, "install-cuda"),
    (StepId::FixSymlinks, "fix-symlinks"),
    (StepId::Ldconfig, "ldconfig"),
    (StepId::Environment, "environment"),
    (StepId::Reboot, "reboot"),
    (StepId::RemoveCuda, "remove-cuda"),
    (StepId::RemoveDriver, "remove-driver"),
    (StepId::Mig, "mig"),
    (StepId::RemoveRepository, "remove-repository"),
    (StepId::Repair, "repair"),
    (StepId::ModuleOptions, "module-options"),
    (StepId::Updates, "updates"),
    (StepId::GpuSettings, "gpu-settings"),
    (StepId::VgpuLicence, "vgpu-licence"),
    (StepId::SignModules, "sign-modules"),
    (StepId::Verify, "verify"),
];

/// The prefix of an add-on's name.
const INSTALL: &str = "install-";
const REMOVE: &str = "remove-";

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InstallAddOn(id) => write!(f, "{INSTALL}{id}"),
            Self::RemoveAddOn(id) => write!(f, "{REMOVE}{id}"),
            Self::InstallFurtherCuda(series) => write!(f, "{}-{series}", Self::InstallCuda),
            Self::InstallFurtherAddOn(id, series) => write!(f, "{INSTALL}{id}-{series}"),
            other => f.write_str(
                NAMES
                    .iter()
                    .find(|(id, _)| id == other)
                    .map_or("", |(_, name)| name),
            ),
        }
    }
}

/// The text is not the name of a step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown step `{0}`")]
pub struct StepIdError(String);

impl FromStr for StepId {
    type Err = StepIdError;
    fn from_str(text: &str) -> Result<Self, StepIdError> {
        if let Some((id, _)) = NAMES.iter().find(|(_, name)| *name == text) {
            return Ok(*id);
        }
        if let Some((step, series)) = text
            .rsplit_once('-')
            .and_then(|(step, text)| Some((step, series(text)?)))
        {
            return match step.parse() {
                Ok(Self::InstallCuda) => Ok(Self::InstallFurtherCuda(series)),
                Ok(Self::InstallAddOn(id)) => Ok(Self::InstallFurtherAddOn(id, series)),
                _ => Err(StepIdError(text.to_owned())),
            };
        }
        let add_on = |prefix: &str| text.strip_prefix(prefix)?.parse().ok();
        let found = add_on(INSTALL)
            .map(Self::InstallAddOn)
            .or_else(|| add_on(REMOVE).map(Self::RemoveAddOn));
        found.ok_or_else(|| StepIdError(text.to_owned()))
    }
}

impl StepId {
    /// The same step for a toolkit of this series beside the default one.
    pub fn beside(self, series: CudaVersion) -> Self {
        match self {
            Self::InstallCuda => Self::InstallFurtherCuda(series),
            Self::InstallAddOn(id) => Self::InstallFurtherAddOn(id, series),
            other => other,
        }
    }
}

/// A series as it is written, such as `11.8`.
fn series(text: &str) -> Option<CudaVersion> {
    text.parse()
        .ok()
        .filter(|version: &CudaVersion| version.patch.is_none() && version.to_string() == text)
}

impl Serialize for StepId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StepId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(feature = "schemas")]
impl schemars::JsonSchema for StepId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "StepId".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names: Vec<_> = NAMES.iter().map(|(_, name)| *name).collect();
        let (most, series) = (AddOnId::MOST, "[0-9]+[.][0-9]+");
        let add_ons =
            format!("(install|remove)-[a-z0-9]{{1,{most}}}|install-[a-z0-9]{{1,{most}}}-{series}");
        schemars::json_schema!({
            "type": "string",
            "pattern": format!("^({}|{add_ons})$", names.join("|")),
            "description": "The name of a step; those of add-ons end with the add-on's name, `install-cudnn`, those of a toolkit beside the default one with its series, `install-cuda-11.8`.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_database::compat::AddOnId;

    #[test]
    fn names_are_read_as_they_are_written() {
        let add_ons = [
            StepId::InstallAddOn(AddOnId::CUDNN),
            StepId::RemoveAddOn(AddOnId::CUDNN),
        ];
        let series = "11.8".parse().expect("a series");
        let further = [
            StepId::InstallCuda.beside(series),
            add_ons[0].beside(series),
        ];
        for id in NAMES
            .iter()
            .map(|(id, _)| *id)
            .chain(add_ons)
            .chain(further)
        {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        assert_eq!(
            add_ons.map(|id| id.to_string()),
            ["install-cudnn", "remove-cudnn"]
        );
        assert_eq!(
            further.map(|id| id.to_string()),
            ["install-cuda-11.8", "install-cudnn-11.8"]
        );
        for text in [
            "",
            "install-",
            "install-cuDNN",
            "uninstall-cudnn",
            "fly",
            "verify-11.8",
            "install-cuda-11.8.0",
        ] {
            assert!(text.parse::<StepId>().is_err(), "{text}");
        }
    }
}
