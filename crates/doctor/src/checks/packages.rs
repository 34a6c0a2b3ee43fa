//! The state that the package manager left.

use super::rivals::is_image_stale;
use super::{NOTHING, no_driver_of_its_own};
use crate::{Case, Verdict};
use gpusetup_host::{Origin, Unreadable};
use gpusetup_operation::{Operation, Packages, packages};
use gpusetup_packages::{ALL, of};
use gpusetup_system::limits::Limit;
use gpusetup_text::ids::CheckId;
use gpusetup_text::text::bytes;
use std::path::Path;

pub(crate) fn done(case: &Case) -> Verdict {
    let unfinished = &case.seen.facts.unfinished_packages;
    let packages = if unfinished.is_empty() {
        Verdict::pass()
    } else if case
        .seen
        .failed_builds
        .values()
        .any(|failed| failed.is_final)
    {
        cut_off(unfinished)
            .without_repair(
                "install a driver that compiles, after which the package manager can finish",
            )
            .caused_only_by(&[CheckId::GS104])
    } else {
        cut_off(unfinished).root_cause()
    };
    let largest = case
        .seen
        .facts
        .kernels
        .installed
        .iter()
        .filter_map(|k| k.initramfs.as_ref())
        .map(|i| i.size)
        .max();
    let boot = case
        .seen
        .facts
        .space
        .iter()
        .find(|s| s.path == Path::new("/boot"));
    let room = match (boot, largest) {
        (Some(boot), Some(largest)) if boot.free_bytes < largest => {
            let cause = format!(
                "/boot has {} free, but a new initramfs of {} is written next to the old one: the next rebuild fails",
                bytes(boot.free_bytes),
                bytes(largest)
            );
            // A problem that blocks another finding's repair is a failure.
            let verdict = if is_image_stale(case) {
                Verdict::fail(cause)
            } else {
                Verdict::warn(cause)
            };
            verdict.remedy(gpusetup_causes::unused_kernels(
                case.seen.facts.os.package_manager,
            ))
        }
        (Some(boot), _) => {
            Verdict::pass().evidence(format!("/boot has {} free", bytes(boot.free_bytes)))
        }
        (None, _) => Verdict::pass(),
    };
    Verdict::worst([packages, room]).unwrap_or_else(Verdict::pass)
}

fn cut_off(unfinished: &[String]) -> Verdict {
    let verdict = Verdict::fail(gpusetup_causes::cut_off(unfinished));
    // dpkg's record is read on any host that has one.
    let found = ALL.iter().find_map(|manager| {
        let (all, finish) = (of(*manager), packages::finish(*manager)?);
        Some((
            all.record_file.as_ref()?,
            finish,
            all.interruption.as_ref()?,
        ))
    });
    let Some((record, finish, interruption)) = found else {
        return verdict;
    };
    verdict
        .evidence(format!("{} and {}", record.path, record.journal.folder))
        .repair(
            "let the package manager finish; if that fails, /boot may be full",
            [finish],
        )
        .and_run([
            format!("sudo {}", interruption.by_hand),
            "df -h /boot".to_owned(),
        ])
}

/// Whether everything was read, so that what the other checks say of the host holds.
pub(crate) fn wholly_read(case: &Case) -> Verdict {
    let mut files = case.seen.facts.left_out(Limit::File);
    let (one, verdict) = match (case.seen.facts.left_out(Limit::Whole).next(), files.next()) {
        (Some(one), _) => (
            one,
            Verdict::fail(gpusetup_causes::partly_read(&one.describe())),
        ),
        (None, Some(one)) => (
            one,
            Verdict::warn(gpusetup_causes::left_out(&one.describe())),
        ),
        (None, None) => return Verdict::pass(),
    };
    let verdict = verdict.remedy(gpusetup_causes::make_smaller(&one.path(), one.limit));
    files
        .map(Unreadable::describe)
        .fold(verdict, Verdict::evidence)
}

pub(crate) fn smi(case: &Case) -> Verdict {
    if let Some(skip) = no_driver_of_its_own(case) {
        return skip;
    }
    if case.seen.has_smi {
        return Verdict::pass();
    }
    if let Some(driver) = case
        .seen
        .facts
        .driver
        .as_ref()
        .filter(|driver| !matches!(driver.origin, Origin::Dpkg | Origin::Rpm))
    {
        return Verdict::fail(gpusetup_causes::without_smi(driver.version))
            .advise(gpusetup_causes::INSTALL_AGAIN, NOTHING);
    }
    let verdict = Verdict::fail(gpusetup_causes::LACKS_SMI);
    match (
        case.seen.facts.os.package_manager,
        case.seen.missing_packages.as_slice(),
    ) {
        (Some(manager), [_, ..]) => {
            let install = Operation::Packages(Packages::to_install(
                manager,
                case.seen.missing_packages.clone(),
            ));
            verdict.repair("install the missing packages", [install])
        }
        _ => verdict.advise(gpusetup_causes::INSTALL_SMI, NOTHING),
    }
}
