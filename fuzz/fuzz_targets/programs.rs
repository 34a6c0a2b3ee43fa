//! What other programs say, and gpusetup reads: apt, dnf, zypper, nvcc, Fabric Manager, what lists
//! an initramfs; OpenPGP keys.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    gpusetup::host::read_anything(&text);
    gpusetup::operation::packages::read_anything(&text);
    gpusetup::doctor::read_anything(&text);
    if let Ok(keys) = gpusetup::host::public_keys(bytes) {
        assert!(keys.iter().all(|key| key.fingerprint.len() == 40));
    }
});
