//! Placeholder of the queries.
use super::PciDevice;
use serde::{Deserialize, Serialize};
/// A name that fits several.
#[derive(Debug)]
pub struct Ambiguous;
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
