//! X.509 certificates in DER (RFC 5280), as far as keys of kernel modules need them: whose a
//! certificate is, when it is valid and what it may be used for. No signature is checked here: that
//! is what the firmware, shim and the kernel do.

/// `SEQUENCE`.
pub const SEQUENCE: u8 = 0x30;
/// `SET`.
pub const SET: u8 = 0x31;
/// `INTEGER`.
pub const INTEGER: u8 = 0x02;
/// `OBJECT IDENTIFIER`.
pub(crate) const OID: u8 = 0x06;
/// A context-specific tag, constructed: `[0]`.
pub const TAGGED: u8 = 0xa0;
const OCTETS: u8 = 0x04;
const BITS: u8 = 0x03;
/// `pkcs-1`, 1.2.840.113549.1.1: the beginning of all algorithms with RSA.
const PKCS_1: [u8; 8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1];
/// `rsaEncryption`, the first of them.
const RSA: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
/// `sha256WithRSAEncryption` (11), `sha384WithRSAEncryption`, `sha512WithRSAEncryption` and
/// `sha224WithRSAEncryption` (14): RSA with the padding of PKCS#1 v1.5 (RFC 4055, section 5).
const RSA_SHA2: std::ops::RangeInclusive<u8> = 11..=14;
/// The kinds of keys that openssl makes beside RSA, by their `AlgorithmIdentifier` (RFC 3279, 4055
/// and 8410).
const OTHER_KEYS: [(&[u8], &str); 5] = [
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 10],
        "RSASSA-PSS",
    ),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1], "elliptic-curve"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x38, 4, 1], "DSA"),
    (&[0x2b, 0x65, 0x70], "Ed25519"),
    (&[0x2b, 0x65, 0x71], "Ed448"),
];
const UTC_TIME: u8 = 0x17;
const EXTENSIONS: u8 = 0xa3;
/// `id-at-commonName`, 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 4, 3];
/// `id-ce-extKeyUsage`, 2.5.29.37.
const EXTENDED_USAGE: [u8; 3] = [0x55, 0x1d, 37];
/// `id-kp-codeSigning`, 1.3.6.1.5.5.7.3.3.
const CODE_SIGNING: [u8; 8] = [0x2b, 6, 1, 5, 5, 7, 3, 3];

/// A certificate, borrowed from its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate<'a> {
    /// The common name of the subject; empty if it has none.
    pub name: String,
    /// The first second at which it is valid, as `YYYYMMDDhhmmss` in UTC.
    pub not_before: String,
    /// The last second at which it is valid, in the same form.
    pub not_after: String,
    /// Whether its extension for usages has code signing. None without that extension: then any use
    /// is allowed.
    pub signs_code: Option<bool>,
    /// The public key: a whole `SubjectPublicKeyInfo`.
    pub public_key: &'a [u8],
    /// The object identifier of the algorithm with which it is signed.
    pub signature: &'a [u8],
}

impl<'a> Certificate<'a> {
    /// A certificate in DER and nothing after it.
    pub fn of(der: &'a [u8]) -> Option<Self> {
        let (tag, whole, after) = element(der)?;
        if tag != SEQUENCE || !after.is_empty() {
            return None;
        }
        let mut rest = inside(whole, SEQUENCE)?;
        if rest.first() == Some(&TAGGED) {
            rest = element(rest)?.2;
        }
        // Serial number, algorithm, issuer.
        let mut signature = None;
        for expected in [INTEGER, SEQUENCE, SEQUENCE] {
            let (tag, content, after) = element(rest)?;
            rest = (tag == expected).then_some(after)?;
            if expected == SEQUENCE && signature.is_none() {
                signature = Some(inside(content, OID)?);
            }
        }
        let (_, validity, rest) = element(rest)?;
        let mut times = elements(validity).map(time);
        let (not_before, not_after) = (times.next()??, times.next()??);
        let (_, subject, rest) = element(rest)?;
        let (_, _, after) = element(rest)?;
        let public_key = &rest[..rest.len() - after.len()];
        let extensions = elements(after)
            .find(|(tag, _)| *tag == EXTENSIONS)
            .and_then(|(_, all)| inside(all, SEQUENCE));
        Some(Self {
            name: common_name(subject).unwrap_or_default(),
            not_before,
            not_after,
            signs_code: extensions.and_then(signs_code),
            public_key,
            signature: signature?,
        })
    }

    /// Whether its signature is RSA with the padding of PKCS#1 v1.5 and a sum of SHA-2.
    pub fn is_signed_by_rsa_sha2(&self) -> bool {
        self.signature
            .strip_prefix(&PKCS_1)
            .is_some_and(|rest| matches!(rest, [n] if RSA_SHA2.contains(n)))
    }
}

/// The kind of a key that is no RSA key, from a whole `SubjectPublicKeyInfo`, in the field's word;
/// None for an RSA key.
pub fn other_kind(public_key: &[u8]) -> Option<&'static str> {
    let kind = inside(public_key, SEQUENCE).and_then(|whole| inside(whole, SEQUENCE));
    let kind = kind
        .and_then(|algorithm| inside(algorithm, OID))
        .unwrap_or_default();
    if kind == RSA {
        return None;
    }
    Some(
        OTHER_KEYS
            .iter()
            .find(|(id, _)| *id == kind)
            .map_or("unknown", |(_, name)| *name),
    )
}

/// The bits of an RSA key's modulus, from a whole `SubjectPublicKeyInfo`; None for keys of other
/// kinds.
pub fn rsa_bits(public_key: &[u8]) -> Option<usize> {
    let whole = inside(public_key, SEQUENCE)?;
    let (_, algorithm, rest) = element(whole)?;
    if inside(algorithm, OID)? != RSA {
        return None;
    }
    // The first byte of a BIT STRING counts the unused bits.
    let numbers = inside(inside(rest, BITS)?.get(1..)?, SEQUENCE)?;
    let modulus = inside(numbers, INTEGER)?;
    let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
    let (first, rest) = modulus[zeros..].split_first()?;
    Some(rest.len() * 8 + (u8::BITS - first.leading_zeros()) as usize)
}

/// The common name in a distinguished name; the last, if it has several.
pub fn common_name(name: &[u8]) -> Option<String> {
    let pairs = elements(name).filter_map(|(_, set)| inside(set, SEQUENCE));
    let common = pairs.filter_map(|pair| {
        let (tag, kind, value) = element(pair)?;
        (tag == OID && kind == COMMON_NAME)
            .then(|| element(value))
            .flatten()
            .map(|(_, text, _)| text)
    });
    common
        .last()
        .map(|text| String::from_utf8_lossy(text).into_owned())
}

fn signs_code(extensions: &[u8]) -> Option<bool> {
    let usages = elements(extensions).find_map(|(_, extension)| {
        let (tag, id, rest) = element(extension)?;
        let is_it = tag == OID && id == EXTENDED_USAGE;
        let value = elements(rest)
            .find(|(tag, _)| *tag == OCTETS)
            .filter(|_| is_it)?
            .1;
        inside(value, SEQUENCE)
    })?;
    Some(elements(usages).any(|(tag, id)| tag == OID && id == CODE_SIGNING))
}

/// A time as `YYYYMMDDhhmmss`. `UTCTime` has two digits of the year: those from 50 on are of the
/// last century.
fn time((tag, text): (u8, &[u8])) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let century = match (tag == UTC_TIME, text.as_bytes().first()?) {
        (false, _) => "",
        (true, b'5'..=b'9') => "19",
        (true, _) => "20",
    };
    let whole = format!("{century}{text}");
    (whole.len() == 14 && whole.bytes().all(|b| b.is_ascii_digit())).then_some(whole)
}

/// An element of DER: its tag, its content, and the rest after it.
pub(crate) fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        short @ 0..=0x7f => (usize::from(*short), rest),
        // Nothing here needs more than four bytes of length.
        long @ 0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (
                bytes.iter().fold(0usize, |n, b| n << 8 | usize::from(*b)),
                rest,
            )
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// The content of the first element, if it has this tag.
pub fn inside(der: &[u8], tag: u8) -> Option<&[u8]> {
    element(der).filter(|e| e.0 == tag).map(|e| e.1)
}

/// The elements of a sequence or a set.
pub fn elements(mut der: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (tag, content, rest) = element(der)?;
        der = rest;
        Some((tag, content))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    /// A certificate that openssl makes, valid for a day.
    fn made(more: &[&str]) -> (Vec<u8>, Vec<u8>) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
        let (key, der) = (at("key"), at("der"));
        let base = [
            "req",
            "-new",
            "-x509",
            "-nodes",
            "-days",
            "1",
            "-newkey",
            "rsa:2048",
            "-subj",
            "/O=us/CN=our key",
        ];
        let run = |arguments: &[&str]| {
            let output = Command::new("openssl")
                .args(arguments)
                .output()
                .expect("openssl is there");
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
        };
        run(&[
            &base[..],
            more,
            &["-keyout", &key, "-outform", "DER", "-out", &der],
        ]
        .concat());
        let public = at("public");
        run(&[
            "pkey", "-in", &key, "-pubout", "-outform", "DER", "-out", &public,
        ]);
        (
            std::fs::read(der).expect("written"),
            std::fs::read(public).expect("written"),
        )
    }

    #[test]
    fn it_reads_what_openssl_writes() {
        let (der, public) = made(&["-addext", "extendedKeyUsage=codeSigning"]);
        let read = Certificate::of(&der).expect("a certificate");
        assert_eq!(
            (read.name.as_str(), read.signs_code, read.public_key),
            ("our key", Some(true), &*public)
        );
        assert!(
            read.not_before < read.not_after && read.not_before.starts_with("20"),
            "{read:?}"
        );
        let (der, _) = made(&["-addext", "extendedKeyUsage=serverAuth"]);
        assert_eq!(
            Certificate::of(&der).map(|c| c.signs_code),
            Some(Some(false))
        );
        let (mut der, public) = made(&[]);
        let read = Certificate::of(&der).expect("a certificate");
        assert_eq!(
            (
                read.signs_code,
                read.is_signed_by_rsa_sha2(),
                other_kind(&public)
            ),
            (None, true, None)
        );
        // Each byte is changed in turn: parsing must always end.
        for at in 0..der.len() {
            for with in [0, SEQUENCE, 0x84, 0xff] {
                let mut broken = der.clone();
                broken[at] = with;
                let _ = Certificate::of(&broken);
                assert_eq!(Certificate::of(&broken[..at]), None);
            }
        }
        der.push(0);
        assert_eq!(Certificate::of(&der), None, "something follows it");
    }

    #[test]
    fn kinds_of_keys_and_signatures_are_told_apart() {
        for (options, kind) in [
            (["-newkey", "ed25519"].as_slice(), Some("Ed25519")),
            (
                ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"].as_slice(),
                Some("elliptic-curve"),
            ),
            (
                ["-sha256", "-sigopt", "rsa_padding_mode:pss"].as_slice(),
                None,
            ),
        ] {
            let (der, public) = made(options);
            let read = Certificate::of(&der).expect("a certificate");
            assert_eq!(
                (other_kind(&public), read.is_signed_by_rsa_sha2()),
                (kind, false),
                "{options:?}"
            );
        }
        let (der, _) = made(&["-sha512"]);
        assert!(Certificate::of(&der).is_some_and(|read| read.is_signed_by_rsa_sha2()));
    }

    #[test]
    fn both_kinds_of_time_are_read() {
        let read = |tag, text: &str| time((tag, text.as_bytes()));
        assert_eq!(
            read(UTC_TIME, "261126153622Z").as_deref(),
            Some("20261126153622")
        );
        assert_eq!(
            read(UTC_TIME, "990101000000Z").as_deref(),
            Some("19990101000000")
        );
        assert_eq!(
            read(0x18, "21261102153622Z").as_deref(),
            Some("21261102153622")
        );
        for bad in ["", "Z", "2611261536Z", "261126153622", "26112615362xZ"] {
            assert_eq!(read(UTC_TIME, bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_bring_it_down(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Certificate::of(&bytes);
        }
    }
}
