//! The step that prepares the key for the driver's modules, with Secure Boot on: DKMS signs with it
//! for every kernel, and somebody at the console enrolls it during a reboot. It comes before the
//! driver, whose modules then load at once.

use super::context::{StepContext, reboot_for, step};
use super::{Act, Step, StepId};
use gpusetup_database::compat::{
    Distribution, DriverOffer, ModuleSigning, OnlySigner, is_version_of,
};
use gpusetup_database::version::DriverVersion;
use gpusetup_host::{Enrolment, Facts, SecureBoot, SigningKey, compare_kernels};
use gpusetup_operation::{EnrollKey, Operation, Packages, Reboot, WriteFile};
use gpusetup_packages::Versions;
use gpusetup_resolve::{Conflict, Method, ModuleKey, Request, Resolution, listed_modules};
use gpusetup_text::ids::CheckId;
use gpusetup_text::paths::DKMS_SIGNING;
use gpusetup_text::text::{quoted, quoted_path};
use std::path::{Path, PathBuf};

const TITLE: &str = "Sign the driver's kernel modules";

/// The key that modules built on the host are signed with.
struct Key {
    key: PathBuf,
    certificate: PathBuf,
    /// Where it comes from.
    origin: KeyOrigin,
    enrolment: Enrolment,
}

#[derive(PartialEq, Eq)]
enum KeyOrigin {
    /// The user named it.
    Given,
    /// It is where DKMS looks for it.
    Found,
    /// It is nowhere yet.
    Missing,
}

/// The steps that make the key known: none where the modules need none, or where the firmware
/// trusts it already and DKMS uses it.
pub(crate) fn sign_modules(context: &StepContext) -> Vec<Step> {
    let Some(key) = key_for(
        context.facts,
        context.distribution,
        context.request,
        context.chosen,
    ) else {
        return Vec::new();
    };
    let acts = acts(context, &key);
    if acts.is_empty() {
        return Vec::new();
    }
    let mut why = match context.facts.secure_boot {
        SecureBoot::Enabled => "Secure Boot is on: the kernel loads only modules that are signed with a trusted key",
        _ => "DKMS signs with this key for every new kernel; the firmware of each host that starts this tree must trust it",
    }
    .to_owned();
    let mut steps = Vec::new();
    if key.enrolment == Enrolment::Enrolled {
        steps.push(step(StepId::SignModules, TITLE, why, acts));
        return steps;
    }
    why += "; DKMS signs with this one for every new kernel";
    steps.push(step(StepId::SignModules, TITLE, why, acts));
    let console = "someone at the console enrolls the key: shim's menu (MokManager) appears, Enroll MOK > Continue > Yes > \
                   one-time password > Reboot";
    steps.push(reboot_for(
        console,
        Reboot {
            enrolls: Some(key.certificate),
        },
    ));
    steps
}

/// What a person must know before an apply: nobody else can enrol the key, or whether one is needed
/// is not known.
pub(crate) fn warning(context: &StepContext) -> Option<String> {
    let (facts, request) = (context.facts, context.request);
    if builds(context.chosen) && !signs(facts, request) {
        return match facts.secure_boot {
            SecureBoot::Unknown => Some(with_state_unknown(context)),
            _ => request
                .settings
                .module_key
                .as_ref()
                .map(|_| UNUSED_KEY.to_owned()),
        };
    }
    let key = key_for(facts, context.distribution, request, context.chosen)?;
    let certificate = key.certificate.display();
    let built = why_built(facts, context.distribution, request, context.chosen);
    let unsigned = built
        .filter(|_| key.origin != KeyOrigin::Given)
        .map(|built| format!(". {}", built.why));
    (key.enrolment != Enrolment::Enrolled).then(|| {
        format!(
            "Secure Boot is on, and the key {certificate} is not enrolled: apply prepares that, shows a one-time password, and needs \
             someone at the console during a reboot. Unattended, it stops before any change{}",
            unsigned.unwrap_or_default()
        )
    })
}

const UNUSED_KEY: &str =
    "Secure Boot is off, so no module is signed: --mok-key and --mok-cert have no effect";

/// What Secure Boot would mean for modules that no trusted key signs.
fn with_state_unknown(context: &StepContext) -> String {
    let signing = context
        .distribution
        .and_then(|known| known.module_signing.as_ref());
    let (unknown, remedy) = match (
        context.facts.machine.is_offline_root,
        signing.is_some_and(|signing| signing.drop_ins),
    ) {
        (true, true) => (
            "a tree does not show whether Secure Boot will be on",
            "for such hosts, name a key that they have enrolled (--mok-key, --mok-cert)",
        ),
        (true, false) => (
            "a tree does not show whether Secure Boot will be on",
            "turn it off on such hosts",
        ),
        (false, _) => (
            "whether Secure Boot is on is not known",
            "read its state first (mokutil --sb-state)",
        ),
    };
    let unused = match context.request.settings.module_key {
        Some(_) => ". Until it is known, --mok-key and --mok-cert have no effect",
        None => "",
    };
    format!(
        "{unknown}. Where it is, the kernel does not load the driver's modules, because no key that it trusts signs them: \
         {remedy}{unused}"
    )
}

/// Why modules are built on the host although the distribution signs those of such drivers for its
/// kernels.
struct WhyBuilt {
    why: String,
    /// Whether it says how to get the signed ones.
    has_remedy: bool,
}

/// Why modules are built on the host where the distribution signs those of such drivers for its
/// kernels, and what would help.
fn why_built(
    facts: &Facts,
    distribution: Option<&Distribution>,
    request: &Request,
    chosen: &Resolution,
) -> Option<WhyBuilt> {
    let (distribution, driver) = (distribution?, chosen.driver.as_ref()?);
    let alike = distribution.drivers.iter().filter(|offer| {
        !offer.signed_modules.is_empty()
            && offer.modules == driver.modules
            && offer.branch <= driver.version.branch
            && request.driver.may_accept(offer.branch)
            && offer.archs.contains(&facts.machine.arch)
    });
    let alike: Vec<_> = alike.collect();
    let is_asked = matches!(request.method, Method::Auto | Method::Packages);
    let release = facts.kernel().filter(|_| !alike.is_empty() && is_asked)?;
    let name = &distribution.name;
    let listed = alike.into_iter().flat_map(|offer| {
        let listed = listed_modules(distribution, offer, facts).into_iter();
        listed.map(move |(package, version)| (offer, package, version))
    });
    let mut listed: Vec<_> = listed.collect();
    // Those for the kernel that will run come first, then those for newer ones, and of these the
    // ones that would be preferred.
    listed.sort_by_key(|(offer, _, version)| {
        (
            !is_version_of(version, release),
            compare_kernels(version, release).is_lt(),
            facts.desktop.is_some() && offer.for_servers,
        )
    });
    let refresh = gpusetup_packages::of(distribution.package_manager)
        .by_hand
        .refresh;
    let (why, has_remedy) = match (&facts.offered, listed.first()) {
        (None, _) => {
            let why = format!(
                "{name} may have signed modules for kernel {release}, which need no key: fetch the package lists (sudo {refresh}), \
                 then plan again"
            );
            (why, true)
        }
        (Some(_), Some((_, package, version))) if !is_version_of(version, release) => {
            let remedy = for_other_kernel(facts, version, release, refresh);
            (
                format!(
                    "{package} has signed modules, which need no key, but for kernel {version}{remedy}"
                ),
                true,
            )
        }
        (Some(all), Some((offer, package, _))) => {
            let (but, has_remedy) = why_unfit(facts, all, request, offer, package);
            (
                format!("{package} has signed modules, but {but}"),
                has_remedy,
            )
        }
        (Some(_), None) => (
            format!("no signed modules of such a driver are known for kernel {release} of {name}"),
            false,
        ),
    };
    Some(WhyBuilt { why, has_remedy })
}

/// What helps if the modules in a package of this version are for another kernel than the one that
/// boots next.
fn for_other_kernel(facts: &Facts, version: &str, release: &str, refresh: &str) -> String {
    let mut known = facts
        .kernels
        .installed
        .iter()
        .map(|kernel| &kernel.release)
        .chain(&facts.kernels.running);
    let installed =
        known.find(|other| is_version_of(version, other) && flavour(other) == flavour(release));
    if compare_kernels(version, release).is_lt() {
        let or_boot = installed
            .map(|other| format!(", or remove {release} and boot {other}"))
            .unwrap_or_default();
        return format!(
            ", and {release} is newer: fetch the package lists (sudo {refresh}), then plan again{or_boot}"
        );
    }
    match installed {
        Some(other) => {
            format!(
                ", and {release} boots next: have the boot loader start {other} (installed), then plan again"
            )
        }
        None => format!(": upgrade the kernel from {release} and reboot, then plan again"),
    }
}

/// The ending of a kernel's release: `generic-64k` of `6.8.0-134-generic-64k`.
fn flavour(release: &str) -> Option<&str> {
    release.splitn(3, '-').nth(2)
}

/// Why the driver of modules that are signed for this kernel was not chosen, and whether that says
/// how to get it.
fn why_unfit(
    facts: &Facts,
    offered: &Versions,
    request: &Request,
    offer: &DriverOffer,
    package: &str,
) -> (String, bool) {
    if facts.has_enabled(&offer.not_beside) {
        return (
            "another repository has the driver's other packages in other versions".to_owned(),
            false,
        );
    }
    let first = offer
        .packages_for(facts.desktop.is_some())
        .first()
        .and_then(|name| offered.get(name));
    let version = first.and_then(|version| {
        gpusetup_packages::upstream(version)
            .parse::<DriverVersion>()
            .ok()
    });
    match (version, facts.signed_drivers.get(package)) {
        (None, _) => (
            "the repositories do not have the driver's other packages".to_owned(),
            false,
        ),
        (Some(version), Some(of)) if version != *of => (
            format!(
                "of driver {of}, and the driver's other packages have version {version}: plan again when both have one version"
            ),
            true,
        ),
        (Some(version), _) if !request.driver.accepts(version) => (
            format!(
                "of driver {version}, and --driver {} was requested",
                request.driver
            ),
            true,
        ),
        (Some(version), _) => (
            format!("of driver {version}, which does not fit this host or this request"),
            false,
        ),
    }
}

fn acts(context: &StepContext, key: &Key) -> Vec<Act> {
    let mut acts = Vec::new();
    let signing = context.distribution.and_then(|d| d.module_signing.as_ref());
    if let Some(signing) = signing.filter(|_| key.enrolment != Enrolment::Enrolled) {
        let manager = context
            .distribution
            .map_or(gpusetup_packages::ASSUMED, |d| d.package_manager);
        acts.push(Act::needed(Packages::to_install(
            manager,
            signing.packages.clone(),
        )));
    }
    if key.origin == KeyOrigin::Given {
        acts.push(context.file(drop_in(key)));
    }
    if key.enrolment != Enrolment::Enrolled {
        let satisfied = key.enrolment == Enrolment::Requested;
        let makes = (key.origin == KeyOrigin::Missing).then(|| key.key.clone());
        acts.push(Act {
            operation: EnrollKey {
                certificate: key.certificate.clone(),
                makes,
            }
            .into(),
            satisfied,
        });
    }
    acts
}

/// Has DKMS sign with a key of the user's.
fn drop_in(key: &Key) -> Operation {
    let (private, certificate) = (key.key.display(), key.certificate.display());
    let content = format!(
        "# Written by gpusetup.\nmok_signing_key=\"{private}\"\nmok_certificate=\"{certificate}\"\n"
    );
    WriteFile {
        path: DKMS_SIGNING.into(),
        content,
        mode: 0o644,
        merged_from: None,
    }
    .into()
}

/// The options with which nvidia-installer signs the modules that it builds.
pub(crate) fn installer_options(context: &StepContext) -> Vec<String> {
    let key = key_for(
        context.facts,
        context.distribution,
        context.request,
        context.chosen,
    );
    key.map(|key| {
        let (private, certificate) = (key.key.display(), key.certificate.display());
        [
            format!("--module-signing-secret-key={private}"),
            format!("--module-signing-public-key={certificate}"),
        ]
    })
    .into_iter()
    .flatten()
    .collect()
}

/// The key for the modules that a plan builds; none if it builds none, or if the kernel loads
/// unsigned ones.
fn key_for(
    facts: &Facts,
    distribution: Option<&Distribution>,
    request: &Request,
    chosen: &Resolution,
) -> Option<Key> {
    if !signs(facts, request) || !builds(chosen) {
        return None;
    }
    if let Some(given) = &request.settings.module_key {
        return Some(of_user(facts, given));
    }
    if builds_with_akmods(chosen) {
        return None;
    }
    let signing = distribution?.module_signing.as_ref()?;
    let configured = facts
        .firmware
        .as_ref()
        .and_then(|firmware| firmware.dkms_certificate.as_ref());
    // DKMS's own configuration names another key: it is found, or it is the administrator's to
    // make.
    if configured.is_some_and(|path| *path != Path::new(&signing.certificate)) {
        return None;
    }
    Some(of_distribution(facts, signing))
}

/// Whether a plan builds modules on the host.
fn builds(chosen: &Resolution) -> bool {
    chosen
        .driver
        .as_ref()
        .is_some_and(|driver| !driver.is_kept() && !driver.install.is_signed())
}

/// Whether modules are signed: the firmware demands it, or the user names a key for a tree, whose
/// firmware is not here.
fn signs(facts: &Facts, request: &Request) -> bool {
    let is_offline = facts.machine.is_offline_root && facts.secure_boot == SecureBoot::Unknown;
    facts.secure_boot == SecureBoot::Enabled || is_offline && request.settings.module_key.is_some()
}

fn of_user(facts: &Facts, given: &ModuleKey) -> Key {
    let enrolment = match &facts.firmware {
        Some(firmware) => firmware.enrolment(&given.sha256),
        // Nobody can ask for it in a tree: it is enrolled on the hosts that start it.
        None if facts.machine.is_offline_root => Enrolment::Enrolled,
        None => Enrolment::Absent,
    };
    Key {
        key: given.key.clone(),
        certificate: given.certificate.clone(),
        origin: KeyOrigin::Given,
        enrolment,
    }
}

fn of_distribution(facts: &Facts, signing: &ModuleSigning) -> Key {
    let certificate = PathBuf::from(&signing.certificate);
    // Facts of older versions have one key.
    let older = facts
        .signing_key
        .as_ref()
        .filter(|_| facts.signing_keys.is_empty());
    let found = facts
        .signing_keys
        .iter()
        .find(|key| key.path == certificate)
        .or(older);
    let enrolment = match found {
        Some(key) if key.enrolled => Enrolment::Enrolled,
        Some(key) if key.requested => Enrolment::Requested,
        _ => Enrolment::Absent,
    };
    let origin = if found.is_some() {
        KeyOrigin::Found
    } else {
        KeyOrigin::Missing
    };
    Key {
        key: PathBuf::from(&signing.key),
        certificate,
        origin,
        enrolment,
    }
}

fn builds_with_akmods(chosen: &Resolution) -> bool {
    let offer = chosen
        .driver
        .as_ref()
        .and_then(|driver| driver.install.offer());
    offer.is_some_and(DriverOffer::uses_akmods)
}

/// The key that was found on the host and that signs modules there, if gpusetup does not choose it.
fn found<'f>(facts: &'f Facts, chosen: &Resolution) -> Option<&'f SigningKey> {
    let configured = facts
        .firmware
        .as_ref()
        .and_then(|firmware| firmware.dkms_certificate.as_deref());
    let path = if facts.signing_keys.is_empty() {
        // Facts of older versions have one key.
        None
    } else if builds_with_akmods(chosen) {
        Some(Path::new(gpusetup_causes::AKMODS_KEY))
    } else {
        configured
    };
    match path {
        Some(path) => facts.signing_keys.iter().find(|key| key.path == path),
        None => facts.signing_key.as_ref(),
    }
}

/// Refuses to build modules that the kernel would not load, which shows only after the reboot:
/// their key is not enrolled, and gpusetup cannot prepare that.
pub(crate) fn not_unsigned(
    facts: &Facts,
    distribution: Option<&Distribution>,
    request: &Request,
    chosen: &Resolution,
) -> Result<(), Conflict> {
    if !signs(facts, request) || !builds(chosen) {
        return Ok(());
    }
    let key = key_for(facts, distribution, request, chosen);
    let is_enrolled = match &key {
        Some(key) => key.enrolment == Enrolment::Enrolled,
        None => found(facts, chosen).is_some_and(|key| key.enrolled),
    };
    if let Some((distribution, only)) = only_signer(distribution).filter(|_| !is_enrolled) {
        let conflict = Conflict::blocked(
            CheckId::GS301,
            gpusetup_causes::not_of_only_signer(only, &distribution.name),
        );
        return Err(conflict.hint(gpusetup_causes::without_secure_boot(only).to_string()));
    }
    if let Some(given) = &request.settings.module_key {
        takes_key(facts, distribution, given, || {
            prebuilt(facts, distribution, request, chosen)
        })?;
    }
    if is_enrolled {
        return Ok(());
    }
    let path = key
        .as_ref()
        .filter(|key| key.origin != KeyOrigin::Missing)
        .map(|key| key.certificate.as_path());
    let path = path.or(found(facts, chosen).map(|key| key.path.as_path()));
    let prebuilt = prebuilt(facts, distribution, request, chosen);
    if let Some(way) = prebuilt.filter(|_| path.is_none() && key.is_none()) {
        return Err(Conflict::blocked(CheckId::GS301, gpusetup_causes::unsigned(path)).hint(way));
    }
    let unsigned = gpusetup_causes::unsigned(path);
    let (sentence, remedy) = match (&facts.firmware, &key) {
        _ if builds_with_akmods(chosen) => (unsigned, gpusetup_causes::enrol_akmods_key()),
        (Some(firmware), _) if !firmware.shim => (
            gpusetup_causes::WITHOUT_SHIM.to_owned(),
            gpusetup_causes::add_to_firmware(path),
        ),
        // Facts of older versions do not say whether shim is there.
        (Some(_), Some(_)) => return Ok(()),
        (None, _) | (_, None) => {
            let signing = distribution.filter(|_| key.is_some());
            let by_hand = distribution.and_then(|known| known.key_by_hand.as_ref());
            let remedy = path
                .map(gpusetup_causes::enrol_key)
                .or_else(|| signing.and_then(make_key))
                .or_else(|| by_hand.map(gpusetup_causes::make_key));
            (unsigned, remedy.unwrap_or_else(make_usual_key))
        }
    };
    let mut conflict = Conflict::blocked(CheckId::GS301, sentence);
    // Signed modules need no key, so they come first.
    let built = why_built(facts, distribution, request, chosen);
    if let Some(built) = built.filter(|built| built.has_remedy) {
        conflict = conflict.hint(built.why);
    }
    Err(conflict.hint(remedy.to_string()))
}

/// The distribution, if the modules of one signer alone load there, and that signer.
fn only_signer(distribution: Option<&Distribution>) -> Option<(&Distribution, &OnlySigner)> {
    let distribution = distribution?;
    Some((distribution, distribution.only_signer.as_ref()?))
}

/// Refuses a key of the user's that the distribution's DKMS does not sign with, or if that is not
/// known.
fn takes_key(
    facts: &Facts,
    distribution: Option<&Distribution>,
    given: &ModuleKey,
    prebuilt: impl FnOnce() -> Option<String>,
) -> Result<(), Conflict> {
    let signing = distribution.and_then(|d| d.module_signing.as_ref());
    if signing.is_some_and(|signing| signing.drop_ins) {
        return Ok(());
    }
    let by_hand = distribution.and_then(|d| d.key_by_hand.as_ref());
    if signing.is_some() || by_hand.is_some() {
        let sentence = "the DKMS of this release signs with no other key than its own (--mok-key)";
        return Err(
            Conflict::blocked(CheckId::GS301, sentence).hint("leave --mok-key and --mok-cert out")
        );
    }
    let sentence = format!(
        "gpusetup does not know which DKMS {} has, and only 3.0.4 and newer sign with a key of yours (--mok-key)",
        facts.os.name
    );
    let conflict = Conflict::blocked(CheckId::GS301, sentence);
    let conflict = prebuilt().into_iter().fold(conflict, |all, way| {
        all.hint(format!("{way} without --mok-key and --mok-cert"))
    });
    Err(conflict.hint(name_key(facts, given).to_string()))
}

/// Has DKMS sign with a key of the user's, and enrols it. Commands are for a host, not for a tree.
fn name_key(facts: &Facts, given: &ModuleKey) -> gpusetup_causes::Remedy {
    let (key, certificate) = (quoted_path(&given.key), quoted_path(&given.certificate));
    let lines = format!("mok_signing_key={key} mok_certificate={certificate}");
    let name = format!("printf '%s\\n' {lines} | sudo tee /etc/dkms/framework.conf.d/mok.conf");
    let gpusetup_causes::Remedy {
        commands: enrol, ..
    } = gpusetup_causes::enrol_key(&given.certificate);
    let commands = [name]
        .into_iter()
        .chain(enrol)
        .filter(|_| !facts.machine.is_offline_root);
    let text = "if `dkms --version` is 3.0.4 or newer, name the key in /etc/dkms/framework.conf.d (mok_signing_key and \
                mok_certificate) and enrol it, then plan again without --mok-key and --mok-cert";
    gpusetup_causes::Remedy::new(text, commands)
}

/// Makes the key where the distribution's DKMS looks for it, and enrols it. Not every DKMS has a
/// command for that.
fn make_key(distribution: &Distribution) -> Option<gpusetup_causes::Remedy> {
    let signing = distribution.module_signing.as_ref()?;
    let by_hand = &gpusetup_packages::of(distribution.package_manager).by_hand;
    let install = format!("sudo {} {}", by_hand.install, signing.packages.join(" "));
    let make = make_with_openssl(Path::new(&signing.key), Path::new(&signing.certificate));
    let gpusetup_causes::Remedy { text, commands } =
        gpusetup_causes::enrol_key(Path::new(&signing.certificate));
    Some(gpusetup_causes::Remedy::new(
        text,
        [install].into_iter().chain(make).chain(commands),
    ))
}

/// Makes the key where DKMS looks for it unless configured, and enrols it: for releases whose DKMS
/// the database does not know.
fn make_usual_key() -> gpusetup_causes::Remedy {
    let certificate = Path::new(gpusetup_causes::DKMS_KEY);
    let gpusetup_causes::Remedy { commands, .. } = gpusetup_causes::enrol_key(certificate);
    let text = "if `dkms --version` is 3.0.4 or newer (older ones do not sign), make the key that it signs with, enrol it, reboot, \
                and confirm it at the console";
    gpusetup_causes::Remedy::new(
        text,
        make_with_openssl(&certificate.with_extension("key"), certificate)
            .into_iter()
            .chain(commands),
    )
}

/// The commands that make a key and its certificate.
fn make_with_openssl(key: &Path, certificate: &Path) -> Vec<String> {
    let folder = key
        .parent()
        .map(|folder| format!("sudo mkdir -p {}", quoted_path(folder)));
    let make = EnrollKey {
        certificate: certificate.to_owned(),
        makes: Some(key.to_owned()),
    }
    .openssl();
    let make = make.map(|argv| {
        argv.iter()
            .map(|word| quoted(word))
            .collect::<Vec<_>>()
            .join(" ")
    });
    folder
        .into_iter()
        .chain(make.map(|openssl| format!("sudo {openssl}")))
        .collect()
}

/// The way to modules that the distribution signs for all of its kernels of a kind: only the lists
/// tell their version, so without the lists no plan has them.
fn prebuilt(
    facts: &Facts,
    distribution: Option<&Distribution>,
    request: &Request,
    chosen: &Resolution,
) -> Option<String> {
    let (distribution, release) = (distribution?, facts.kernel()?);
    let offers = distribution.drivers.iter().filter(|offer| {
        request.method != Method::Runfile
            && offer.is_signed_for(release)
            && offer.archs.contains(&facts.machine.arch)
            && request.driver.may_accept(offer.branch)
            && request
                .modules
                .is_none_or(|modules| modules == offer.modules)
            && chosen.gpus.iter().all(|card| {
                card.modules.contains(&offer.modules) && card.is_served_by(offer.branch)
            })
    });
    let names: Vec<_> = offers
        .filter_map(|offer| offer.packages.first())
        .map(String::as_str)
        .collect();
    let listed = facts.offered.as_ref();
    let is_listed = listed.is_some_and(|all| names.iter().any(|name| all.contains_key(*name)));
    if names.is_empty() || is_listed {
        return None;
    }
    let refresh = gpusetup_packages::of(distribution.package_manager)
        .by_hand
        .refresh;
    Some(format!(
        "{} has signed modules for its kernels, which need no key ({}): fetch the package lists (sudo {refresh}), then plan \
         again",
        distribution.name,
        names.join(" or ")
    ))
}
