//! How the toolkit is installed: NVIDIA's runfile, component archives, or packages of NVIDIA's
//! repository.

use super::known_host::KnownHost;
use super::{Conflict, Hint, Request};
use gpusetup_database::compat::{Database, Distribution, PackageRepository, ToolkitPackages};
use gpusetup_host::Facts;
use gpusetup_text::ids::RuleId;
use gpusetup_text::paths::PREFIX;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How the toolkit is installed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum ToolkitMethod {
    /// Component archives with --components, otherwise the runfile, or archives where it cannot be had
    #[default]
    Auto,
    /// NVIDIA's runfile.
    Runfile,
    /// NVIDIA's component archives.
    Components,
    /// The package manager, with NVIDIA's repository, which is added if it is not enabled.
    Repository,
}

impl ToolkitMethod {
    /// Whether none was requested.
    pub fn is_auto(&self) -> bool {
        *self == Self::Auto
    }

    /// As the option has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Runfile => "runfile",
            Self::Components => "components",
            Self::Repository => "repository",
        }
    }
}

/// The repository that a host can take toolkits from, and how it packages them.
pub fn toolkit_repository<'a>(
    database: &'a Database,
    distribution: Option<&'a Distribution>,
    facts: &Facts,
) -> Option<(&'a PackageRepository, &'a ToolkitPackages)> {
    let distribution = distribution?;
    let of_drivers = distribution
        .drivers
        .iter()
        .filter_map(|offer| offer.repository.adds.as_deref());
    let mut all = of_drivers.chain(distribution.companion_repository.as_deref());
    all.find_map(|id| {
        let repository = database.package_repository(id)?;
        let is_read = facts
            .os
            .package_manager
            .is_none_or(|manager| manager == repository.package_manager);
        let is_here = is_read && repository.archs.contains_key(&facts.machine.arch);
        Some((repository, repository.toolkit.as_ref().filter(|_| is_here)?))
    })
}

/// Refuses a method that cannot give what is requested on this host.
pub(crate) fn is_possible(host: &KnownHost, request: &Request) -> Result<(), Conflict> {
    let method = request.toolkit_method;
    // A configuration file may say how toolkits are installed on hosts that get none.
    if method.is_auto() || !request.cuda.is_wanted() {
        return Ok(());
    }
    let option = format!("--toolkit-method {}", method.as_str());
    if !request.components.is_empty() && method != ToolkitMethod::Components {
        let sentence =
            format!("{option} installs whole toolkits, but --components names parts of one");
        return Err(Conflict::request(sentence).hint("leave one of the two options out"));
    }
    if method != ToolkitMethod::Repository {
        return Ok(());
    }
    if request.prefix != Path::new(PREFIX) {
        let sentence = format!(
            "{option} installs packages, which are always below {PREFIX}, but --prefix is {}",
            request.prefix.display()
        );
        return Err(Conflict::request(sentence).hint("leave --prefix out"));
    }
    if toolkit_repository(host.database, host.distribution, host.facts).is_none() {
        let (os, arch) = (&host.facts.os.name, &host.facts.machine.arch);
        let sentence = format!(
            "NVIDIA's repository was requested for the toolkit ({option}), but the database knows none with toolkits for \
             {os} on {arch}"
        );
        let asks = Request {
            toolkit_method: ToolkitMethod::Auto,
            ..request.clone()
        };
        return Err(Conflict::new(RuleId::CudaPublished, sentence)
            .hint(Hint::asking("from NVIDIA's archives instead", asks)));
    }
    Ok(())
}
