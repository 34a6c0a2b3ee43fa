//! Secure Boot, by the firmware's own variable.

use super::SecureBoot;
use super::probe::Notes;
use crate::system::{System, is_absent};

const VARIABLE: &str = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";

/// Its state. A variable is four bytes of attributes and then its value.
pub fn probe(system: &System, notes: &mut Notes) -> SecureBoot {
    if !system.is_directory("/sys/firmware/efi") {
        return SecureBoot::Absent;
    }
    match system.read(VARIABLE) {
        Ok(bytes) => match bytes.get(4) {
            Some(1) => SecureBoot::Enabled,
            Some(_) => SecureBoot::Disabled,
            None => {
                notes.note("Secure Boot", "the firmware's variable is empty");
                SecureBoot::Unknown
            }
        },
        // The variable is there on every UEFI that knows Secure Boot, but only while efivarfs is mounted.
        Err(e) if is_absent(&e) && system.list("/sys/firmware/efi/efivars").is_ok_and(|l| !l.is_empty()) => {
            SecureBoot::Disabled
        }
        Err(e) => {
            notes.note("Secure Boot", &e.to_string());
            SecureBoot::Unknown
        }
    }
}
