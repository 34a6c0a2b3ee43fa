//! The database in the binary, in the compact form that the build made from the YAML files.

use crate::built_in;
use crate::compat::Database;

/// Its version, without decoding the database.
pub const VERSION: &str = env!("GPUSETUP_DATABASE_VERSION");

/// Decodes the database.
pub fn embedded() -> Database {
    built_in::value(include_bytes!(concat!(env!("OUT_DIR"), "/database.bin")))
}
