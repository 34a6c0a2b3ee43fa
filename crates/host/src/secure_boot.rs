//! The state of Secure Boot, from the firmware's variables. If it is uncertain, the result says so:
//! a module that lacks a required signature fails only after the reboot.

use super::firmware::{VARIABLES, certificate_of_sign_tool, value};
use super::reader::Reader;
use super::{Enrolment, Firmware, MachineKind, SecureBoot, SigningKey};
use gpusetup_database::sum::sha256;
use std::path::PathBuf;

const FIRMWARE: &str = "/sys/firmware/efi";
/// Defined by the UEFI specification.
const SECURE_BOOT: &str = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// Set by shim: validation was switched off at the console, and the kernel honours that.
const SHIM_INSECURE: &str = "MokSBStateRT-605dab50-e046-4300-abb6-3dd810dd8b23";

/// Reads the state from the firmware's variables.
pub(crate) fn secure_boot(reader: &mut Reader, kind: MachineKind) -> SecureBoot {
    let what = "Secure Boot";
    if !reader.system.is_directory(FIRMWARE) {
        if kind == MachineKind::Container {
            reader.miss(what, "a container cannot see the firmware");
            return SecureBoot::Unknown;
        }
        if !reader.system.is_live() && !reader.system.is_directory("/sys/firmware") {
            reader.miss(what, "a tree of files has no firmware");
            return SecureBoot::Unknown;
        }
        return SecureBoot::Absent;
    }
    let names = reader.names(what, VARIABLES);
    if !names.iter().any(|n| n == SECURE_BOOT) {
        if !names.is_empty() {
            // The firmware is older than Secure Boot.
            return SecureBoot::Disabled;
        }
        reader.miss(what, format_args!("{VARIABLES} shows no variables"));
        return SecureBoot::Unknown;
    }
    let Some(variable) = reader.bytes(what, format!("{VARIABLES}/{SECURE_BOOT}")) else {
        return SecureBoot::Unknown;
    };
    match value(&variable) {
        Some(0) => SecureBoot::Disabled,
        Some(_) if names.iter().any(|n| n == SHIM_INSECURE) => {
            let shim = reader.bytes(what, format!("{VARIABLES}/{SHIM_INSECURE}"));
            match shim.as_deref().and_then(value) {
                Some(1) => SecureBoot::Disabled,
                _ => SecureBoot::Enabled,
            }
        }
        Some(_) => SecureBoot::Enabled,
        None => {
            reader.miss(
                what,
                format_args!("{SECURE_BOOT} has {} bytes", variable.len()),
            );
            SecureBoot::Unknown
        }
    }
}

/// Where the tools that build modules keep the certificate of their key: dkms, Ubuntu's
/// shim-signed, akmods.
const CERTIFICATES: [&str; 3] = [
    "/var/lib/dkms/mok.pub",
    "/var/lib/shim-signed/mok/MOK.der",
    "/etc/pki/akmods/certs/public_key.der",
];

/// The keys for modules built here, with their place in the firmware's lists; the one that DKMS's
/// configuration names comes first. None without UEFI: no key is needed then.
pub(crate) fn signing_keys(reader: &mut Reader, firmware: Option<&Firmware>) -> Vec<SigningKey> {
    let Some(firmware) = firmware else {
        return Vec::new();
    };
    let configured = firmware.dkms_certificate.iter().cloned();
    let others = CERTIFICATES
        .iter()
        .map(PathBuf::from)
        .chain(certificate_of_sign_tool(reader.system));
    let mut keys: Vec<SigningKey> = Vec::new();
    for path in configured.chain(others) {
        let certificate = reader
            .bytes("the signing key", &path)
            .filter(|bytes| !bytes.is_empty());
        let Some(certificate) = certificate.filter(|_| !keys.iter().any(|key| key.path == path))
        else {
            continue;
        };
        let stands = firmware.enrolment(&sha256(&certificate));
        let (enrolled, requested) = (
            stands == Enrolment::Enrolled,
            stands == Enrolment::Requested,
        );
        keys.push(SigningKey {
            path,
            enrolled,
            requested,
        });
    }
    keys
}

/// The key for modules built here: preferably an enrolled one.
pub(crate) fn preferred(keys: &[SigningKey]) -> Option<SigningKey> {
    keys.iter()
        .find(|key| key.enrolled)
        .or(keys.first())
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firmware::firmware;
    use crate::sample::variable;
    use gpusetup_system::System;

    fn with(variables: &[(&str, &[u8])]) -> (SecureBoot, usize) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        system.make_directories(VARIABLES, 0o755).expect("made");
        for (name, bytes) in variables {
            system
                .write(format!("{VARIABLES}/{name}"), bytes, 0o644)
                .expect("written");
        }
        let mut reader = Reader::new(&system);
        (
            secure_boot(&mut reader, MachineKind::Physical),
            reader.missed.len(),
        )
    }

    #[test]
    fn the_variable_decides() {
        assert_eq!(
            with(&[(SECURE_BOOT, &[6, 0, 0, 0, 1])]),
            (SecureBoot::Enabled, 0)
        );
        assert_eq!(
            with(&[(SECURE_BOOT, &[6, 0, 0, 0, 0])]),
            (SecureBoot::Disabled, 0)
        );
        assert_eq!(
            with(&[
                (SECURE_BOOT, &[6, 0, 0, 0, 1]),
                (SHIM_INSECURE, &[6, 0, 0, 0, 1])
            ]),
            (SecureBoot::Disabled, 0)
        );
        assert_eq!(with(&[("BootOrder-x", &[0])]), (SecureBoot::Disabled, 0));
    }

    #[test]
    fn a_key_is_enrolled_when_a_list_holds_it() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        let file = |path: &str, bytes: &[u8]| {
            system
                .make_directories(
                    std::path::Path::new(path).parent().expect("absolute"),
                    0o755,
                )
                .expect("made");
            system.write(path, bytes, 0o644).expect("written");
        };
        let key = || {
            let reader = &mut Reader::new(&system);
            let seen = firmware(reader);
            preferred(&signing_keys(reader, seen.as_ref()))
                .map(|key| (key.path.display().to_string(), key.enrolled))
        };
        file(CERTIFICATES[0], b"dkms's");
        assert_eq!(key(), None, "without UEFI variables no key is needed");
        file(&format!("{VARIABLES}/{SECURE_BOOT}"), &[6, 0, 0, 0, 1]);
        assert_eq!(key(), Some((CERTIFICATES[0].into(), false)));
        file(CERTIFICATES[1], b"shim's");
        let list = variable(&[b"another's", b"shim's"]);
        file(
            &format!("{VARIABLES}/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"),
            &list,
        );
        assert_eq!(
            key(),
            Some((CERTIFICATES[1].into(), true)),
            "the enrolled key comes first"
        );
    }

    #[test]
    fn being_unsure_is_said() {
        assert_eq!(with(&[]), (SecureBoot::Unknown, 1));
        assert_eq!(with(&[(SECURE_BOOT, &[1])]), (SecureBoot::Unknown, 1));
    }
}
