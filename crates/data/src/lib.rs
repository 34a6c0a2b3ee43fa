//! What the build put into the program: the compatibility database, what `explain` knows, its
//! languages. Only the program depends on this crate, so a changed fact compiles this crate and
//! links.

use gpusetup_database::cause::CauseRow;
use gpusetup_database::compact::{built_in, unpack_database};
use gpusetup_database::compat::Database;
use gpusetup_database::error_code::ErrorCode;
use gpusetup_database::message::Message;
use gpusetup_database::subject::Subject;
use std::sync::OnceLock;

/// The version of the database, without decoding it.
pub const VERSION: &str = env!("GPUSETUP_DATABASE_VERSION");

/// The newest list of the keys that sign databases and releases, if whoever built this has any.
pub const KEY_LIST: Option<&str> = option_env!("GPUSETUP_KEY_LIST");

/// The languages beside English: code, name and packed texts of each, in postcard's form.
pub const LANGUAGES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/languages.bin"));

/// The database. Its tables are decoded when they are first read.
///
/// # Panics
///
/// Never: the build made its bytes.
#[allow(clippy::expect_used)]
pub fn embedded() -> Database {
    const BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/database.bin"));
    unpack_database(BYTES).expect("the build made these bytes from the same types")
}

static SHARED: OnceLock<Database> = OnceLock::new();

/// The database of this process. It stays for as long as the process lives: giving back its
/// thousands of rows one by one takes longer than some plans.
pub fn shared() -> &'static Database {
    SHARED.get_or_init(embedded)
}

/// What `explain` says of ids.
pub fn causes() -> Vec<CauseRow> {
    built_in(include_bytes!(concat!(env!("OUT_DIR"), "/causes.bin")))
}

/// The messages that `explain` recognises.
pub fn messages() -> Vec<Message> {
    built_in(include_bytes!(concat!(env!("OUT_DIR"), "/messages.bin")))
}

/// The terms, codes and names that `explain` explains.
pub fn subjects() -> Vec<Subject> {
    built_in(include_bytes!(concat!(env!("OUT_DIR"), "/subjects.bin")))
}

/// The error numbers of CUDA and of NVIDIA's libraries.
pub fn error_codes() -> Vec<ErrorCode> {
    built_in(include_bytes!(concat!(env!("OUT_DIR"), "/errors.bin")))
}
