//! Whether Secure Boot lets the driver's modules be loaded: who signed them, and whether the
//! firmware or shim trusts that key.

use super::no_driver_of_its_own;
use crate::{Answer, Case, KernelEvent, SignedModules, Verdict};
use gpusetup_database::compat::OnlySigner;
use gpusetup_host::{SecureBoot, SigningKey};
use gpusetup_text::text::quoted_path;
use std::path::{Path, PathBuf};

pub(crate) fn secure_boot(case: &Case) -> Verdict {
    if let Some(skip) = no_driver_of_its_own(case) {
        return skip;
    }
    if let Some(refusal) = refusal(case).filter(|_| {
        case.seen.facts.secure_boot != SecureBoot::Enabled
            && case.seen.facts.driver_is_loaded() != Some(true)
    }) {
        let cause = "the kernel refused the nvidia module: it accepts only modules signed with a trusted key";
        return Verdict::fail(cause).evidence(refusal).advise(
            "enrol the key, reboot, and confirm it at the console; or accept unsigned modules (module.sig_enforce)",
            enrol(case).commands,
        );
    }
    match case.seen.facts.secure_boot {
        SecureBoot::Absent => return Verdict::pass().evidence("no UEFI"),
        SecureBoot::Disabled => return Verdict::pass().evidence("Secure Boot is off"),
        SecureBoot::Unknown => return Verdict::skip("whether Secure Boot is on could not be read"),
        SecureBoot::Enabled => {}
    }
    let lockdown = case
        .seen
        .facts
        .firmware
        .as_ref()
        .and_then(|firmware| firmware.lockdown.as_ref());
    let evidence = ["Secure Boot is on: the kernel loads only signed modules".to_owned()]
        .into_iter()
        .chain(lockdown.map(|mode| format!("the kernel's lockdown is {mode}")));
    match &case.seen.signer {
        Answer::Is(Some(signer)) => {
            let signed = format!("the nvidia module is signed by {signer}");
            evidence.fold(key(case, signer).evidence(signed), Verdict::evidence)
        }
        Answer::Is(None) => {
            let verdict = Verdict::fail("Secure Boot is on, but the nvidia module is not signed");
            let verdict = evidence.fold(verdict, Verdict::evidence);
            // A module that was built before the key was there is built again by a reinstall only.
            if let Some(signed) = &case.seen.signed_modules {
                return verdict.remedy(install_signed(case, signed));
            }
            if let Some(only) = only_signer(case) {
                return verdict.remedy(gpusetup_causes::without_secure_boot(only));
            }
            verdict.advise(
                "enrol the key that signs modules at the console, then build the module again; or disable Secure Boot in the \
                 firmware",
                enrol(case).commands,
            )
        }
        Answer::Failed(why) | Answer::NotAsked(why) => Verdict::skip(format!(
            "Secure Boot is on, but the module's signer could not be read: {why}"
        )),
    }
}

/// The certificate of the key that signs modules on this host: the one that DKMS is configured for,
/// then the one that was found, then the distribution's.
fn certificate(case: &Case) -> PathBuf {
    present(case)
        .or_else(|| {
            Some(PathBuf::from(
                &case.distribution()?.module_signing.as_ref()?.certificate,
            ))
        })
        .unwrap_or_else(|| PathBuf::from(gpusetup_causes::DKMS_KEY))
}

fn present(case: &Case) -> Option<PathBuf> {
    let configured = case
        .seen
        .facts
        .firmware
        .as_ref()
        .and_then(|firmware| firmware.dkms_certificate.clone());
    configured.or_else(|| Some(case.seen.facts.signing_key.as_ref()?.path.clone()))
}

/// The only one whose modules load on this host with Secure Boot on.
fn only_signer<'a>(case: &'a Case) -> Option<&'a OnlySigner> {
    case.distribution()?.only_signer.as_ref()
}

/// How to enrol that key. One that waits for somebody at the console needs no more than a reboot.
fn enrol(case: &Case) -> gpusetup_causes::Remedy {
    if let Some(only) = only_signer(case) {
        return gpusetup_causes::without_secure_boot(only);
    }
    let certificate = certificate(case);
    let waits = known(case, &certificate).is_some_and(|key| key.requested);
    let by_hand = case
        .distribution()
        .and_then(|known| known.key_by_hand.as_ref());
    match by_hand.filter(|_| present(case).is_none()) {
        _ if waits => gpusetup_causes::confirm_key(),
        Some(by_hand) => gpusetup_causes::make_key(by_hand),
        None => gpusetup_causes::enrol_key(&certificate),
    }
}

/// Modules that the distribution signs need no key, and nobody at the console.
fn install_signed(case: &Case, signed: &SignedModules) -> gpusetup_causes::Remedy {
    let manager = case.distribution().map(|known| known.package_manager);
    gpusetup_causes::install_signed(manager, &signed.package, signed.replaces.as_deref())
}

/// Whether the distribution signed the module: its kernels have that key built in.
fn is_distributions(case: &Case, signer: &str) -> bool {
    let own = case
        .distribution()
        .and_then(|known| known.module_signer.as_deref());
    own.is_some_and(|own| signer.starts_with(own))
}

fn known<'e>(case: &'e Case, certificate: &Path) -> Option<&'e SigningKey> {
    case.seen
        .facts
        .signing_keys
        .iter()
        .find(|key| key.path == certificate)
}

fn signed_or_enrolled(case: &Case) -> gpusetup_causes::Remedy {
    let signed = case.seen.signed_modules.as_ref();
    signed.map_or_else(|| enrol(case), |signed| install_signed(case, signed))
}

/// Whether the key that signed the module is enrolled. A loaded module was accepted.
fn key(case: &Case, signer: &str) -> Verdict {
    if case.seen.facts.driver_is_loaded() == Some(true) {
        return next_key(case).unwrap_or_else(Verdict::pass);
    }
    match (refusal(case), case.seen.key_is_enrolled) {
        (Some(refusal), _) => Verdict::fail(format!(
            "the kernel refused the nvidia module: the key of {signer} is not enrolled"
        ))
        .evidence(refusal)
        .remedy(signed_or_enrolled(case)),
        (None, Some(false)) => Verdict::fail(format!(
            "the key of {signer}, which signed the nvidia module, is not enrolled"
        ))
        .evidence("neither shim's key list nor the firmware's contains it")
        .remedy(signed_or_enrolled(case)),
        (None, Some(true)) => Verdict::pass().evidence("its key is enrolled"),
        (None, None) if is_distributions(case, signer) => {
            Verdict::pass().evidence("the distribution's kernels trust its key")
        }
        (None, None) if case.seen.facts.driver_is_loaded() == Some(false) => {
            let test = format!(
                "sudo mokutil --test-key {}",
                quoted_path(&certificate(case))
            );
            Verdict::warn("the nvidia module is signed but not loaded: its key may not be enrolled")
                .advise(
                    "check whether the key is enrolled; if not, enrol it (mokutil --import)",
                    [test, "mokutil --list-enrolled".to_owned()],
                )
        }
        (None, None) => Verdict::pass(),
    }
}

/// A warning if this host's own key signed the module, and DKMS signs the next one with another key
/// that is not enrolled.
fn next_key(case: &Case) -> Option<Verdict> {
    case.seen.key_is_enrolled?;
    let next = case
        .seen
        .facts
        .firmware
        .as_ref()?
        .dkms_certificate
        .as_deref()?;
    let key = known(case, next).filter(|key| !key.enrolled)?;
    let shown = key.path.display();
    let cause = format!(
        "DKMS signs the modules of the next kernel with the key of {shown}, which is not enrolled"
    );
    Some(Verdict::warn(cause).remedy(enrol(case)))
}

/// The kernel's message when it refused the module.
fn refusal(case: &Case) -> Option<String> {
    let Answer::Is(said) = &case.seen.kernel_log else {
        return None;
    };
    said.iter().find_map(|s| {
        if let KernelEvent::Refused(line) = s {
            Some(line.clone())
        } else {
            None
        }
    })
}
