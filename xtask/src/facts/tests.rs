//! What tests of these modules share.

use super::*;
use std::sync::LazyLock;

/// The database of this repository.
pub fn known() -> &'static Database {
    static KNOWN: LazyLock<Database> =
        LazyLock::new(|| gpusetup_database::compat::load(&project()).expect("the database is valid"));
    &KNOWN
}
