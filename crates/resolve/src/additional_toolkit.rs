//! Toolkits beside the default one: each is chosen for the same driver and GPUs, with the add-ons
//! that fit it.

use super::conflict::Conflict;
use super::cuda::SearchContext;
use super::refusal::Explanation;
use super::wanted::relaxed;
use super::{Reason, Request, Resolution};
use gpusetup_database::compat::AddOnId;
use gpusetup_database::version::{AddOnVersion, CudaVersion, Want};
use gpusetup_text::ids::{AddOnRule, Recorded, Rule};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A requested toolkit beside the default one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(rename = "FurtherRequest", deny_unknown_fields)
)]
pub struct AdditionalToolkitRequest {
    /// The toolkit: `latest`, a series, a release or a range.
    pub cuda: Want<CudaVersion>,
    /// Its components and add-ons, if they were locked; otherwise those of the default toolkit that
    /// fit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked: Option<LockedLayers>,
}

/// The locked components and add-ons of a toolkit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct LockedLayers {
    /// The release of cuDNN, or `none`.
    pub cudnn: Want<AddOnVersion>,
    /// Other add-ons.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub add_ons: BTreeMap<AddOnId, Want<AddOnVersion>>,
    /// The components; empty for the whole toolkit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<String>,
}

/// A chosen toolkit beside the default one.
#[derive(Debug, Clone)]
pub struct AdditionalToolkit<'a> {
    /// The request for this toolkit alone.
    pub request: Request,
    /// The toolkit with its components and add-ons.
    pub chosen: Resolution<'a>,
}

impl Request {
    /// Requests for a further toolkit alone, the preferred first: with the add-ons in the versions
    /// of the default toolkit, in any version, and without those that were named.
    pub(super) fn alone(&self, additional: &AdditionalToolkitRequest) -> Vec<Self> {
        let plain = Self {
            driver: Want::Nothing,
            driver_file: None,
            cuda: additional.cuda.clone(),
            additional_toolkits: Vec::new(),
            frameworks: Vec::new(),
            brought_cuda: None,
            ..self.clone()
        };
        if let Some(LockedLayers {
            cudnn,
            add_ons,
            components,
        }) = additional.locked.clone()
        {
            return vec![Self {
                cudnn,
                add_ons,
                components,
                ..plain
            }];
        }
        let any_version = Self {
            cudnn: relaxed(&plain.cudnn),
            add_ons: plain.relaxed_add_ons(),
            ..plain.clone()
        };
        let unnamed = Self {
            add_ons: BTreeMap::new(),
            ..any_version.clone()
        };
        let mut all = vec![plain, any_version, unnamed];
        all.dedup();
        all
    }

    /// All requested toolkits as the user named them, the default one first.
    pub(crate) fn toolkits(&self) -> impl Iterator<Item = &Want<CudaVersion>> {
        std::iter::once(&self.cuda).chain(
            self.additional_toolkits
                .iter()
                .map(|additional| &additional.cuda),
        )
    }

    /// The same request without one of the toolkits that were requested side by side.
    pub(super) fn without_one(&self) -> impl Iterator<Item = Self> + '_ {
        let rest = self.additional_toolkits.split_first();
        let without_default = rest.map(|(next, rest)| {
            let LockedLayers {
                cudnn,
                add_ons,
                components,
            } = next.locked.clone().unwrap_or_else(|| LockedLayers {
                cudnn: self.cudnn.clone(),
                add_ons: self.add_ons.clone(),
                components: self.components.clone(),
            });
            Self {
                cuda: next.cuda.clone(),
                additional_toolkits: rest.to_vec(),
                cudnn,
                add_ons,
                components,
                ..self.clone()
            }
        });
        let without_additional = (0..self.additional_toolkits.len()).rev().map(|left| {
            let mut without = self.clone();
            without.additional_toolkits.remove(left);
            without
        });
        without_additional.chain(without_default)
    }
}

/// What was searched for a further toolkit: each way to ask for it, with its context and its texts.
pub(crate) struct AdditionalToolkitSearch<'s, 'a> {
    /// What the user asked for.
    pub(crate) wanted: &'s Want<CudaVersion>,
    /// The ways to ask, the preferred first; never empty.
    pub(crate) ways: Vec<(SearchContext<'a, 's>, Explanation<'s>)>,
}

/// Refuses two requested toolkits of one series, which would have the same directory.
pub(crate) fn are_apart(request: &Request, chosen: &Resolution) -> Result<(), Conflict> {
    let mut before: Vec<(CudaVersion, &Want<CudaVersion>)> = Vec::new();
    for (toolkit, wanted) in chosen.toolkits().zip(request.toolkits()) {
        let series = toolkit.release.version.series();
        if let Some((_, other)) = before.iter().find(|(same, _)| *same == series) {
            let directory = request.prefix.join(series.directory());
            let sentence = format!(
                "--cuda {other} and --cuda {wanted} both choose CUDA {series}, but there is one directory for it, {}",
                directory.display()
            );
            return Err(
                Conflict::request(sentence).hint("name each series once: --cuda 12.8 --cuda 11.8")
            );
        }
        before.push((series, wanted));
    }
    Ok(())
}

/// Why the add-ons of a further toolkit differ from those that were requested; `way` is the number
/// of the way to ask that gave them.
pub(crate) fn other_add_ons(asked: &Request, chosen: &Resolution, way: usize) -> Vec<Reason> {
    let Some(series) = chosen
        .cuda
        .as_ref()
        .filter(|_| way > 0)
        .map(|toolkit| toolkit.release.version.series())
    else {
        return Vec::new();
    };
    let ids = std::iter::once(AddOnId::CUDNN).chain(asked.add_ons.keys().copied());
    let differing = ids.filter_map(|id| {
        let wanted = asked.add_on(id);
        let has = chosen.add_ons.iter().find(|add_on| add_on.of.id == id);
        let text = match has {
            Some(add_on) if wanted.accepts(add_on.artifact.version) => return None,
            Some(_) => format!(
                "for CUDA {series} the newest that fits it: the requested {wanted} does not"
            ),
            None if asked.requires(id) => format!("CUDA {series} gets none: no release fits it"),
            None => return None,
        };
        let rule = Recorded::Known(Rule::AddOn(id, AddOnRule::ForCuda));
        Some(Reason {
            subject: id.to_string(),
            text,
            rule,
            source: String::new(),
        })
    });
    differing.collect()
}

impl Conflict {
    /// The same refusal with the one of several requested toolkits that it is about.
    pub(super) fn of_toolkit(self, wanted: &Want<CudaVersion>) -> Self {
        Self {
            sentence: format!("--cuda {wanted}: {}", self.sentence),
            ..self
        }
    }
}
