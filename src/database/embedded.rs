//! The database in the binary, in the compact form that the build made from the YAML files.

use crate::built_in;
use crate::compat::Database;
use gpusetup_database::compact::unpack_database;
use std::sync::OnceLock;
use std::thread;

/// Its version, without decoding the database.
pub const VERSION: &str = env!("GPUSETUP_DATABASE_VERSION");

/// Decodes the database.
pub fn embedded() -> Database {
    built_in::right(unpack_database(include_bytes!(concat!(env!("OUT_DIR"), "/database.bin"))))
}

static SHARED: OnceLock<Database> = OnceLock::new();

/// The database, decoded once. It stays for as long as the process lives: giving back its thousands of texts one by one takes
/// longer than some plans.
pub fn shared() -> &'static Database {
    SHARED.get_or_init(embedded)
}

/// Begins to decode it on another core, for a program that will need it and has something else to do before.
pub fn prepare() {
    // Without a thread, whoever needs the database decodes it.
    let _ = thread::Builder::new().spawn(shared);
}
