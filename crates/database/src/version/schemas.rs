//! JSON schemas of versions, which are strings in NVIDIA's notation.

use super::{AddOnVersion, ComputeCapability, CudaVersion, DriverVersion, Want};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

macro_rules! text {
    ($type:ty, $name:literal, $pattern:literal, $description:literal) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "pattern": $pattern, "description": $description})
            }
        }
    };
}

text!(
    ComputeCapability,
    "ComputeCapability",
    "^[0-9]+[.][0-9]+$",
    "A compute capability, `9.0`."
);
text!(
    DriverVersion,
    "DriverVersion",
    "^[0-9]+[.][0-9]{2,}([.][0-9]{2,})?$",
    "A driver's version, `580.95.05`."
);
text!(
    CudaVersion,
    "CudaVersion",
    "^[0-9]+[.][0-9]+([.][0-9]+)?$",
    "A CUDA release, `12.8.1`, or a series, `12.8`."
);
text!(
    AddOnVersion,
    "AddOnVersion",
    "^[0-9]+([.][0-9]+){1,3}$",
    "A release of cuDNN or another add-on, `9.10.2.21`."
);

impl<V> JsonSchema for Want<V> {
    fn schema_name() -> Cow<'static, str> {
        "Want".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^(best|latest|none|[<>=0-9.,\s]+)$",
            "description": "`best`, `latest`, `none`, a version (`12.8`), or a range (`>=12.4, <13`).",
        })
    }
}
