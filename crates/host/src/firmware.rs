//! What the firmware and shim trust, from the variables that the kernel shows (efivarfs). Lists of
//! certificates are `EFI_SIGNATURE_LIST`s of the UEFI specification; shim's variables are described
//! in its MokVars.txt.

use super::reader::Reader;
use gpusetup_database::sum::sha256;
use gpusetup_system::System;
use gpusetup_system::certificate::Certificate;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Where the kernel shows the variables.
pub const VARIABLES: &str = "/sys/firmware/efi/efivars";
/// Defined by the UEFI specification.
const SETUP_MODE: &str = "SetupMode-8be4df61-93ca-11d2-aa0d-00e098032b8c";
const DATABASE: &str = "db-d719b2cb-3d3a-4596-a3bc-dad00e67656f";
/// The vendor of shim's variables.
const SHIM: &str = "605dab50-e046-4300-abb6-3dd810dd8b23";
/// The certificates that shim trusts, its own vendor's included: shim copies them at every boot.
const ENROLLED: &str = "MokListRT";
/// The certificates that MokManager offers to enrol at the next boot. Only root may read them.
const REQUESTED: &str = "MokNew";
/// Set by shim: validation was switched off at the console, and the kernel honours that.
pub(crate) const INSECURE: &str = "MokSBStateRT";
/// `[integrity]` is the state of a kernel that Secure Boot has locked down.
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";
/// `EFI_CERT_X509_GUID`, as it lies in memory.
pub(crate) const X509: [u8; 16] = [
    0xa1, 0x59, 0xc0, 0xa5, 0xe4, 0x94, 0xa7, 0x4a, 0x87, 0xb5, 0xab, 0x15, 0x5c, 0x2b, 0xf0, 0x72,
];
/// Of a list: its type, and the sizes of the list, of its header and of each signature.
pub(crate) const HEADER: usize = 16 + 4 + 4 + 4;
/// Of a signature: its owner.
pub(crate) const OWNER: usize = 16;

/// What the firmware of a host trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Firmware {
    /// Whether the firmware has no platform key yet, and takes keys from anybody.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub setup_mode: bool,
    /// Whether shim started the host: keys can be enrolled at its console.
    pub shim: bool,
    /// Whether somebody switched shim's validation off at the console.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub validation_off: bool,
    /// Whether the kernel is locked down: `none`, `integrity` or `confidentiality`. None if it does
    /// not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lockdown: Option<String>,
    /// The certificates that the firmware's list (`db`) and shim's list have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trusted: Vec<Trusted>,
    /// The certificates that wait for somebody at the console. None if only root may read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<Vec<Trusted>>,
    /// The certificate that DKMS's own configuration names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dkms_certificate: Option<PathBuf>,
}

/// A certificate in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Trusted {
    /// The common name of its subject: `Microsoft UEFI CA 2023`.
    pub name: String,
    /// The SHA-256 of the certificate.
    #[cfg_attr(
        feature = "schemas",
        schemars(with = "gpusetup_database::sum::Sha256Text")
    )]
    pub(crate) sha256: String,
    /// The list.
    pub(crate) list: TrustList,
}

/// A list of certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TrustList {
    /// The firmware's.
    Firmware,
    /// Shim's: machine owner keys (MOK), and the key of its vendor.
    Shim,
    /// Shim's list of keys to enrol at the next boot.
    Requested,
}

/// How a host stands to a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enrolment {
    /// It is trusted.
    Enrolled,
    /// MokManager offers at the next boot to enrol it.
    Requested,
    /// Neither.
    Absent,
}

/// The authorities with which Microsoft signs shims, by the common names of their certificates, and
/// the year of each.
const MICROSOFT: [(&str, u16); 2] = [
    ("Microsoft Corporation UEFI CA 2011", 2011),
    ("Microsoft UEFI CA 2023", 2023),
];

impl Firmware {
    /// The years of the authorities in the firmware's list with which Microsoft signs shims.
    pub fn microsoft_authorities(&self) -> impl Iterator<Item = u16> {
        MICROSOFT
            .into_iter()
            .filter(|(name, _)| {
                let mut trusted = self.trusted.iter();
                trusted.any(|one| one.list == TrustList::Firmware && one.name == *name)
            })
            .map(|(_, year)| year)
    }

    /// How the firmware stands to a certificate, by its SHA-256.
    pub fn enrolment(&self, sha256: &str) -> Enrolment {
        let mut requested = self.requested.iter().flatten();
        match () {
            () if self.trusted.iter().any(|one| one.sha256 == sha256) => Enrolment::Enrolled,
            () if requested.any(|one| one.sha256 == sha256) => Enrolment::Requested,
            () => Enrolment::Absent,
        }
    }
}

/// What the firmware trusts; none without UEFI, or if no variables can be seen.
pub(crate) fn firmware(reader: &mut Reader) -> Option<Firmware> {
    if !reader.system.is_directory(VARIABLES) {
        return None;
    }
    let what = "the enrolled keys";
    let names = reader.names(what, VARIABLES);
    if names.is_empty() {
        return None;
    }
    let has = |name: &str| names.contains(&format!("{name}-{SHIM}"));
    let flag = |reader: &mut Reader, name: &str| {
        reader
            .bytes(what, format!("{VARIABLES}/{name}"))
            .as_deref()
            .and_then(value)
            .is_some_and(|value| value == 1)
    };
    let mut trusted = Vec::new();
    for (name, list) in names.iter().filter_map(|name| Some((name, list_of(name)?))) {
        let bytes = reader
            .bytes(what, format!("{VARIABLES}/{name}"))
            .unwrap_or_default();
        trusted.extend(certificates(&bytes).map(|der| known(der, list)));
    }
    Some(Firmware {
        setup_mode: names.iter().any(|name| name == SETUP_MODE) && flag(reader, SETUP_MODE),
        shim: has(ENROLLED) || has("SbatLevelRT"),
        validation_off: has(INSECURE) && flag(reader, &format!("{INSECURE}-{SHIM}")),
        lockdown: reader
            .word("the kernel's lockdown", LOCKDOWN)
            .and_then(|text| chosen(&text)),
        trusted,
        requested: requested(reader.system, &names),
        dkms_certificate: dkms_certificate(reader.system),
    })
}

/// How a host stands to a certificate now, by its SHA-256 and the firmware's variables.
pub fn enrolment(on: &System, sum: &str) -> Enrolment {
    let names = on.list(VARIABLES).unwrap_or_default();
    let request = format!("{REQUESTED}-{SHIM}");
    let mut lists = names.iter().filter(|name| list_of(name).is_some());
    let mut requests = names.iter().filter(|name| **name == request);
    match () {
        () if lists.any(|name| is_in_variable(on, name, sum)) => Enrolment::Enrolled,
        () if requests.any(|name| is_in_variable(on, name, sum)) => Enrolment::Requested,
        () => Enrolment::Absent,
    }
}

fn is_in_variable(on: &System, name: &str, sum: &str) -> bool {
    let bytes = on.read(format!("{VARIABLES}/{name}")).unwrap_or_default();
    certificates(&bytes).any(|der| sha256(der) == sum)
}

/// Whether any key waits to be enrolled at the next boot.
pub fn has_request(on: &System) -> bool {
    on.exists(format!("{VARIABLES}/{REQUESTED}-{SHIM}"))
}

/// The list that a variable is, or a part of. Shim splits a long one: `MokListRT1`.
fn list_of(name: &str) -> Option<TrustList> {
    if name == DATABASE {
        return Some(TrustList::Firmware);
    }
    let number = name
        .strip_prefix(ENROLLED)?
        .strip_suffix(SHIM)?
        .strip_suffix('-')?;
    number
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then_some(TrustList::Shim)
}

fn requested(system: &System, names: &[String]) -> Option<Vec<Trusted>> {
    let name = format!("{REQUESTED}-{SHIM}");
    if !names.contains(&name) {
        return Some(Vec::new());
    }
    let bytes = system.read(format!("{VARIABLES}/{name}")).ok()?;
    Some(
        certificates(&bytes)
            .map(|der| known(der, TrustList::Requested))
            .collect(),
    )
}

fn known(der: &[u8], list: TrustList) -> Trusted {
    let name = Certificate::of(der)
        .map(|certificate| certificate.name)
        .unwrap_or_default();
    Trusted {
        name,
        sha256: sha256(der),
        list,
    }
}

/// The certificates in a variable, each in DER. What is no list of certificates is passed over; the
/// first list whose sizes do not fit ends it.
pub(crate) fn certificates(variable: &[u8]) -> impl Iterator<Item = &[u8]> {
    // efivarfs puts four bytes of attributes before the value.
    let mut rest = variable.get(4..).unwrap_or_default();
    let lists = std::iter::from_fn(move || {
        let size = |at: usize| {
            let bytes = rest.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_le_bytes(bytes)).ok()
        };
        let (whole, header, each) = (size(16)?, size(20)?, size(24)?);
        let list = rest.get(..whole)?;
        let signatures = list.get(HEADER.checked_add(header)?..)?;
        let is_of_certificates = list[..16] == X509 && each > OWNER;
        rest = &rest[whole..];
        let each = if is_of_certificates { each } else { usize::MAX };
        Some(signatures.chunks_exact(each))
    });
    lists.flatten().map(|signature| &signature[OWNER..])
}

/// The word in brackets: `none [integrity] confidentiality`.
fn chosen(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

/// The certificate in DKMS's configuration, a script that DKMS reads whole: the last assignment
/// counts. One with a variable in it is passed over.
fn dkms_certificate(system: &System) -> Option<PathBuf> {
    const FOLDER: &str = "/etc/dkms/framework.conf.d";
    let more = system
        .list(FOLDER)
        .unwrap_or_default()
        .into_iter()
        .filter(|name| name.ends_with(".conf"));
    let files = [PathBuf::from("/etc/dkms/framework.conf")].into_iter();
    let texts = files.chain(more.map(|name| Path::new(FOLDER).join(name)));
    let mut values = texts
        .filter_map(|path| assigned(&system.read_text(path).ok().flatten()?, "mok_certificate"));
    values.next_back().map(PathBuf::from)
}

/// The certificate in the script that DKMS before 3.0 signs modules with, if its configuration
/// names one.
pub(crate) fn certificate_of_sign_tool(system: &System) -> Option<PathBuf> {
    let configuration = system
        .read_text("/etc/dkms/framework.conf")
        .ok()
        .flatten()?;
    let script = assigned(&configuration, "sign_tool")?;
    signed_with(&system.read_text(script).ok().flatten()?)
}

/// The certificate in a line such as `…/scripts/sign-file sha512 KEY CERTIFICATE MODULE`.
fn signed_with(script: &str) -> Option<PathBuf> {
    let words = script
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .flat_map(str::split_whitespace);
    let certificate = words
        .skip_while(|word| !word.ends_with("/sign-file"))
        .nth(3)?;
    certificate.starts_with('/').then(|| certificate.into())
}

fn assigned(text: &str, name: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| {
            let value = line.trim().strip_prefix(name)?.strip_prefix('=')?;
            let plain = value.trim_matches(['"', '\'']);
            (plain.starts_with('/') && !plain.contains(['$', '"', '\'', ' ', '`', ';']))
                .then(|| plain.to_owned())
        })
        .next_back()
}

/// A variable of one byte; efivarfs puts four bytes of attributes before it.
pub(crate) fn value(variable: &[u8]) -> Option<u8> {
    match variable {
        [_, _, _, _, value] => Some(*value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::variable;
    use proptest::prelude::*;

    fn host(files: &[(&str, &[u8])]) -> (System, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        for (path, bytes) in files {
            on.make_directories(Path::new(path).parent().expect("absolute"), 0o755)
                .expect("made");
            on.write(path, bytes, 0o644).expect("written");
        }
        (on, dir)
    }

    fn at(name: &str) -> String {
        format!("{VARIABLES}/{name}")
    }

    #[test]
    fn the_lists_say_how_a_certificate_stands() {
        let hash: &[u8] = &[
            &[7, 0, 0, 0][..],
            &[0x26; 16],
            &[76, 0, 0, 0, 0, 0, 0, 0, 48, 0, 0, 0],
            &[9; 48],
        ]
        .concat();
        let db = [hash, &variable(&[b"the firmware's"])[4..]].concat();
        let (on, _dir) = host(&[
            (&at(DATABASE), &db),
            (
                &at(&format!("{ENROLLED}-{SHIM}")),
                &variable(&[b"vendor", b"ours"]),
            ),
            (
                &at(&format!("{ENROLLED}1-{SHIM}")),
                &variable(&[b"overflow"]),
            ),
            (&at(&format!("MokListTrustedRT-{SHIM}")), &[7, 0, 0, 0, 1]),
            (
                &at(&format!("MokListXRT-{SHIM}")),
                &variable(&[b"forbidden"]),
            ),
            (
                &at(&format!("{REQUESTED}-{SHIM}")),
                &variable(&[b"asked for"]),
            ),
            (&at(SETUP_MODE), &[6, 0, 0, 0, 0]),
            (LOCKDOWN, b"none [integrity] confidentiality\n"),
            (
                "/etc/dkms/framework.conf",
                b"# mok_certificate=/no\nmok_certificate=\"/a.der\"\n",
            ),
            (
                "/etc/dkms/framework.conf.d/x.conf",
                b"mok_certificate=/b.der\nmok_certificate=$HOME/c\n",
            ),
        ]);
        let seen = firmware(&mut Reader::new(&on)).expect("UEFI");
        for (der, want) in [
            (&b"the firmware's"[..], Enrolment::Enrolled),
            (b"vendor", Enrolment::Enrolled),
            (b"ours", Enrolment::Enrolled),
            (b"overflow", Enrolment::Enrolled),
            (b"asked for", Enrolment::Requested),
            (b"forbidden", Enrolment::Absent),
            (b"our", Enrolment::Absent),
        ] {
            assert_eq!(
                (enrolment(&on, &sha256(der)), seen.enrolment(&sha256(der))),
                (want, want),
                "{der:?}"
            );
        }
        assert_eq!(
            (seen.shim, seen.setup_mode, seen.validation_off),
            (true, false, false)
        );
        assert_eq!(seen.lockdown.as_deref(), Some("integrity"));
        assert_eq!(seen.dkms_certificate.as_deref(), Some(Path::new("/b.der")));
        let helper = "#!/bin/sh\n/lib/modules/\"$1\"/build/scripts/sign-file sha512 /root/mok.priv /root/mok.der \"$2\"\n";
        assert_eq!(
            signed_with(helper).as_deref(),
            Some(Path::new("/root/mok.der"))
        );
        assert_eq!(
            signed_with("#!/bin/sh\n# /x/sign-file sha512 /a /b c\n"),
            None
        );
        assert!(has_request(&on));
        let (without, _dir) = host(&[(&at(DATABASE), &db)]);
        let seen = firmware(&mut Reader::new(&without)).expect("UEFI");
        assert_eq!(
            (seen.shim, seen.requested, has_request(&without)),
            (false, Some(Vec::new()), false)
        );
        let (no_uefi, _dir) = host(&[("/etc/os-release", b"ID=x\n")]);
        assert_eq!(firmware(&mut Reader::new(&no_uefi)), None);
    }

    #[test]
    fn sizes_that_do_not_fit_end_a_list() {
        let good = variable(&[b"one", b"two"]);
        assert_eq!(certificates(&good).count(), 2);
        // The sizes of the first list, in turn.
        for at in [20, 24, 28] {
            for wrong in [0u32, 1, 15, 17, u32::MAX] {
                let mut broken = good.clone();
                broken[at..at + 4].copy_from_slice(&wrong.to_le_bytes());
                assert!(certificates(&broken).take(9).count() < 9);
            }
        }
        (0..good.len()).for_each(|end| assert!(certificates(&good[..end]).count() < 2));
    }

    proptest! {
        #[test]
        fn no_bytes_bring_it_down(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = certificates(&bytes).take(1000).count();
            bytes.splice(0..0, variable(&[b"x"]));
            let _ = certificates(&bytes).take(1000).count();
        }
    }
}
