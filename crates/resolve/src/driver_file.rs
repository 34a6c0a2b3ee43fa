//! A driver's runfile that the user brings: NVIDIA hands out guest drivers for virtual GPUs (vGPU)
//! only to its customers and to cloud providers, so the database has none of them. Its name says
//! what it is, as NVIDIA and the providers give them.

use super::{Conflict, KnownHost, Request};
use gpusetup_database::compat::MACHINES;
use gpusetup_database::version::DriverVersion;
use gpusetup_text::ids::RuleId;
use serde::{Deserialize, Serialize};

/// A runfile of a driver, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct DriverFile {
    /// What its name says.
    #[serde(flatten)]
    pub is: Named,
    /// The name of the file.
    pub file: String,
    /// Where it is: an address, `file://` for a file of this host.
    pub url: String,
    /// The SHA-256 of the file.
    #[cfg_attr(
        feature = "schemas",
        schemars(with = "gpusetup_database::sum::Sha256Text")
    )]
    pub sha256: String,
    /// Its size in bytes, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// The longest name, in bytes.
const MAX_NAME: usize = 128;

/// What the name of a runfile says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Named {
    /// The version of the driver.
    pub(crate) version: DriverVersion,
    /// The machine architecture that it is for.
    pub arch: String,
    /// Whether it is a guest driver (`-grid`), which also drives virtual GPUs.
    pub guest: bool,
}

/// Why a name is not that of a driver that can be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is not formed like the name of a driver.
    #[error("its name is not formed like NVIDIA's, NVIDIA-Linux-x86_64-570.211.01-grid.run")]
    Form,
    /// It is a driver of hypervisors.
    #[error(
        "it is the driver of a hypervisor (vGPU manager); a guest needs the one whose name ends in -grid.run"
    )]
    Manager,
}

impl Named {
    /// What a file's name says.
    ///
    /// # Errors
    ///
    /// If the name is not that of a driver, or of one for hypervisors.
    pub fn of(file: &str) -> Result<Self, NameError> {
        // It is the name of a file in the cache, and of a word in scripts.
        if file.len() > MAX_NAME
            || !file
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        {
            return Err(NameError::Form);
        }
        let rest = file
            .strip_prefix("NVIDIA-Linux-")
            .and_then(|rest| rest.strip_suffix(".run"));
        let (arch, rest) = rest
            .and_then(|rest| rest.split_once('-'))
            .ok_or(NameError::Form)?;
        let (version, kind) = rest.split_once('-').unwrap_or((rest, ""));
        let version = version.parse().map_err(|_| NameError::Form)?;
        if !MACHINES.contains(&arch) {
            return Err(NameError::Form);
        }
        if kind.contains("vgpu") {
            return Err(NameError::Manager);
        }
        Ok(Self {
            version,
            arch: arch.to_owned(),
            guest: kind.split('-').next() == Some("grid"),
        })
    }
}

/// Refuses a file for another machine, and one of a branch that the database does not know.
pub(crate) fn fits(host: &KnownHost, request: &Request) -> Result<(), Conflict> {
    let Some(DriverFile {
        is: Named { version, arch, .. },
        file,
        ..
    }) = &request.driver_file
    else {
        return Ok(());
    };
    let have = &host.facts.machine.arch;
    if arch != have {
        let sentence = format!("{file} is a driver for {arch}, but this host is {have}");
        return Err(Conflict::new(RuleId::DriverFile, sentence));
    }
    if host.database.branch(version.branch).is_none() {
        let sentence = format!(
            "{file} is a driver of branch {}, which the database {} does not know",
            version.branch, host.database.version
        );
        return Err(Conflict::new(RuleId::DriverFile, sentence)
            .hint("update it with: sudo gpusetup db update"));
    }
    if !request.driver.accepts(*version) {
        let sentence = format!(
            "{file} is driver {version}, but --driver {} was requested",
            request.driver
        );
        return Err(Conflict::new(RuleId::DriverFile, sentence));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_file_is() {
        for (file, version, arch, guest) in [
            (
                "NVIDIA-Linux-x86_64-570.211.01-grid.run",
                "570.211.01",
                "x86_64",
                true,
            ),
            (
                "NVIDIA-Linux-x86_64-595.58.03-grid-azure.run",
                "595.58.03",
                "x86_64",
                true,
            ),
            (
                "NVIDIA-Linux-x86_64-450.89-grid-aws.run",
                "450.89",
                "x86_64",
                true,
            ),
            (
                "NVIDIA-Linux-aarch64-580.105.08.run",
                "580.105.08",
                "aarch64",
                false,
            ),
            (
                "NVIDIA-Linux-x86_64-580.105.08-no-compat32.run",
                "580.105.08",
                "x86_64",
                false,
            ),
        ] {
            let named = Named::of(file).expect(file);
            assert_eq!(
                (
                    named.version.to_string().as_str(),
                    named.arch.as_str(),
                    named.guest
                ),
                (version, arch, guest)
            );
        }
        for (file, why) in [
            (
                "NVIDIA-Linux-x86_64-510.85.03-vgpu-kvm.run",
                NameError::Manager,
            ),
            (
                "NVIDIA-Linux-x86_64-535.104.06-vgpu-kvm-aie.run",
                NameError::Manager,
            ),
            ("nvidia-driver-installer.run", NameError::Form),
            ("NVIDIA-Linux-x86_64-grid.run", NameError::Form),
            ("NVIDIA-Linux-sparc-570.211.01.run", NameError::Form),
            ("NVIDIA-Linux-x86_64-570.211.01-grid", NameError::Form),
            (
                "NVIDIA-Linux-x86_64-570.211.01-\n\u{1b}[31m.run",
                NameError::Form,
            ),
            (
                "NVIDIA-Linux-x86_64-570.211.01-grid%0a.run",
                NameError::Form,
            ),
            ("", NameError::Form),
        ] {
            assert_eq!(Named::of(file), Err(why), "{file}");
        }
    }
}
