//! The database that the binary carries, in the compact form that the build made of the YAML files.

use crate::compat::Database;

/// Its version, without decoding it.
pub const VERSION: &str = env!("GPUSETUP_DATABASE_VERSION");

/// Decodes it: some 2 ms in a release build.
pub fn embedded() -> Database {
    const BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/database.bin"));
    #[allow(clippy::expect_used)]
    postcard::from_bytes(BYTES).expect("the build made these bytes from the same types")
}
