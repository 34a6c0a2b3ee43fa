//! The database in the binary, in the compact form that the build made from the YAML files.

use crate::compat::Database;

/// Its version, without decoding the database.
pub const VERSION: &str = env!("GPUSETUP_DATABASE_VERSION");

/// Decodes the database; this takes some 2 ms in a release build.
pub fn embedded() -> Database {
    const BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/database.bin"));
    #[allow(clippy::expect_used)]
    postcard::from_bytes(BYTES).expect("the build encoded these bytes from the same types")
}
