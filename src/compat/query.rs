//! Placeholder of the queries.
use super::{Database, Gpu, NvSwitch, PciDevice};
use serde::{Deserialize, Serialize};

/// A name that is not one GPU's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the name of one GPU; candidates: {}", self.candidates.join(", "))]
pub struct Ambiguous {
    /// What was given.
    pub text: String,
    /// What it may mean.
    pub candidates: Vec<String>,
}

impl Database {
    /// The GPU with this id.
    pub fn gpu(&self, device: PciDevice, subsystem: Option<&str>) -> Option<&Gpu> {
        let of_device = || self.gpus.iter().filter(|g| g.device == device);
        of_device()
            .find(|g| g.subsystem.is_some() && g.subsystem.as_deref() == subsystem)
            .or_else(|| of_device().find(|g| g.subsystem.is_none()))
    }

    /// The GPU of this name.
    pub fn gpu_named(&self, text: &str) -> Result<&Gpu, Ambiguous> {
        let wanted = text.to_lowercase();
        let mut fits = self.gpus.iter().filter(|g| g.name.to_lowercase().contains(&wanted));
        match (fits.next(), fits.next()) {
            (Some(gpu), None) => Ok(gpu),
            _ => {
                let fits = self.gpus.iter().filter(|g| g.name.to_lowercase().contains(&wanted));
                Err(Ambiguous { text: text.to_owned(), candidates: fits.map(|g| g.name.clone()).collect() })
            }
        }
    }

    /// The bridge with this id.
    pub fn nvswitch(&self, device: PciDevice) -> Option<&NvSwitch> {
        self.nvswitches.iter().find(|s| s.device == device)
    }
}

impl Serialize for PciDevice {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(s)
    }
}
impl<'de> Deserialize<'de> for PciDevice {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        u16::deserialize(d).map(PciDevice)
    }
}
