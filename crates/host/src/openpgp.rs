//! OpenPGP public keys as package managers use them: the keys in a file, and the digest that binds
//! each to its owner's name. Signatures are not verified: anyone who can write these files can
//! write others as well.

mod subkeys;

pub use subkeys::without_unbound;

use ::base64::Engine;
use ::base64::prelude::BASE64_STANDARD;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

/// A public key, version 4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// The fingerprint, in upper-case hexadecimal; it ends in the key id.
    pub fingerprint: String,
    /// Whether all of its signatures over itself and its names use SHA-1 or older digests.
    pub is_weak: bool,
    /// When it expires by its newest signature over itself, in seconds since 1970. None if it does
    /// not.
    pub expires: Option<u64>,
}

/// RFC 4880, 9.4: MD5, SHA-1, RIPE-MD/160.
const WEAK: [u8; 3] = [1, 2, 3];

const PUBLIC_KEY: u8 = 6;
const PUBLIC_SUBKEY: u8 = 14;
const SIGNATURE: u8 = 2;

/// The keys in a file, binary or armoured. The error says what is wrong with the file.
pub fn public_keys(bytes: &[u8]) -> Result<Vec<PublicKey>, &'static str> {
    if bytes.get(8..12) == Some(b"KBXf") {
        return Err("it is a GnuPG keybox, which apt cannot read");
    }
    let dearmoured;
    let packets = match bytes.first() {
        None => return Err("it is empty"),
        Some(first) if first & 0x80 != 0 => bytes,
        Some(_) => {
            dearmoured =
                dearmour(&String::from_utf8_lossy(bytes)).ok_or("it is not an OpenPGP key")?;
            dearmoured.as_slice()
        }
    };
    let keys = keys(packets);
    if keys.is_empty() {
        Err("it contains no OpenPGP key of version 4")
    } else {
        Ok(keys)
    }
}

/// Packets that a certificate may have: its keys, names, signatures, and GnuPG's marks of trust.
const OF_CERTIFICATES: [u8; 6] = [SIGNATURE, PUBLIC_KEY, 12, 13, PUBLIC_SUBKEY, 17];

/// The packets of a file of armoured keys, with the fingerprint of each key in it. Unlike
/// [`public_keys`], it refuses a file in which another reader could find more: every byte belongs
/// to a packet, and every key is one of version 4.
pub fn certificates(text: &str) -> Result<(Vec<u8>, Vec<PublicKey>), &'static str> {
    let packets = dearmour(text).ok_or("it is not an armoured OpenPGP key")?;
    let mut rest = packets.as_slice();
    while !rest.is_empty() {
        let (tag, body, after) =
            packet(rest).ok_or("it contains something other than an OpenPGP key")?;
        if !OF_CERTIFICATES.contains(&tag) {
            return Err("it contains something other than an OpenPGP key");
        }
        if [PUBLIC_KEY, PUBLIC_SUBKEY].contains(&tag) && body.first() != Some(&4) {
            return Err("it contains a key that is not of version 4");
        }
        rest = after;
    }
    let keys = keys(&packets);
    if keys.is_empty() {
        Err("it contains no OpenPGP key of version 4")
    } else {
        Ok((packets, keys))
    }
}

/// Packets in the form that every package manager reads: RFC 4880, 6.
pub fn armoured(packets: &[u8]) -> String {
    let encoded = BASE64_STANDARD.encode(packets);
    let lines: Vec<_> = encoded
        .as_bytes()
        .chunks(64)
        .map(String::from_utf8_lossy)
        .collect();
    let sum = BASE64_STANDARD.encode(&crc24(packets).to_be_bytes()[1..]);
    format!(
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{}\n={sum}\n-----END PGP PUBLIC KEY BLOCK-----\n",
        lines.join("\n")
    )
}

/// RFC 4880, 6.1.
fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x00B7_04CE, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte) << 16, |sum, _| {
            let sum = sum << 1;
            if sum & 0x0100_0000 == 0 {
                sum
            } else {
                sum ^ 0x0186_4CFB
            }
        })
    })
}

/// A key with its signatures over itself.
struct Read {
    fingerprint: [u8; 20],
    /// When it was made, in seconds since 1970.
    made: u32,
    bound_by: Vec<Binding>,
}

/// A signature by which a key binds itself.
#[derive(Clone, Copy)]
struct Binding {
    digest: u8,
    /// When it was made, in seconds since 1970.
    made: u32,
    /// How long the key lasts, in seconds from when it was made. Zero if it does not expire.
    lasts: u32,
}

impl Read {
    fn expires(&self) -> Option<u64> {
        let newest = self.bound_by.iter().max_by_key(|binding| binding.made)?;
        (newest.lasts > 0).then(|| u64::from(self.made) + u64::from(newest.lasts))
    }
}

fn keys(packets: &[u8]) -> Vec<PublicKey> {
    let (mut found, mut at_subkey) = (Vec::<Read>::new(), false);
    let mut rest = packets;
    while let Some((tag, body, after)) = packet(rest) {
        rest = after;
        match tag {
            PUBLIC_KEY => {
                at_subkey = false;
                found.extend(fingerprint(body).map(|fingerprint| Read {
                    fingerprint,
                    made: number_at(body, 1),
                    bound_by: Vec::new(),
                }));
            }
            PUBLIC_SUBKEY => at_subkey = true,
            SIGNATURE if !at_subkey => {
                if let Some(key) = found.last_mut() {
                    key.bound_by.extend(binding(body, &key.fingerprint));
                }
            }
            _ => {}
        }
    }
    found
        .into_iter()
        .map(|read| PublicKey {
            fingerprint: gpusetup_system::hex(&read.fingerprint).to_uppercase(),
            is_weak: !read.bound_by.is_empty()
                && read
                    .bound_by
                    .iter()
                    .all(|binding| WEAK.contains(&binding.digest)),
            expires: read.expires(),
        })
        .collect()
}

fn big_endian(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |n, b| n << 8 | usize::from(*b))
}

/// The first packet: its tag, its body, and the remaining bytes. None at the end, and if the packet
/// gives no length.
fn packet(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if first & 0x80 == 0 {
        return None;
    }
    let (tag, header, length) = if first & 0x40 != 0 {
        let length = match *rest.first()? {
            n @ 0..192 => (1, usize::from(n)),
            n @ 192..224 => (
                2,
                ((usize::from(n) - 192) << 8) + usize::from(*rest.get(1)?) + 192,
            ),
            255 => (5, big_endian(rest.get(1..5)?)),
            // Partial bodies are used for data, not for keys.
            _ => return None,
        };
        (first & 0x3f, length.0, length.1)
    } else {
        let width = match first & 3 {
            0 => 1,
            1 => 2,
            2 => 4,
            _ => return None,
        };
        (first >> 2 & 0xf, width, big_endian(rest.get(..width)?))
    };
    let body = rest.get(header..)?.get(..length)?;
    Some((tag, body, &rest[header + length..]))
}

/// RFC 4880, 12.2.
fn fingerprint(body: &[u8]) -> Option<[u8; 20]> {
    let length = u16::try_from(body.len())
        .ok()
        .filter(|_| body.first() == Some(&4))?;
    let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(&[0x99]);
    hash.update(&length.to_be_bytes());
    hash.update(body);
    hash.finish().as_ref().try_into().ok()
}

/// The four bytes there as a number; zero behind the end.
fn number_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|four| Some(u32::from_be_bytes(four.try_into().ok()?)))
        .unwrap_or_default()
}

/// The signature, if by it the key with this fingerprint binds itself.
fn binding(body: &[u8], key: &[u8; 20]) -> Option<Binding> {
    // RFC 4880, 5.2.3.1.
    const MADE: u8 = 2;
    const LASTS: u8 = 9;
    // Certifications of a name and direct key signatures bind; revocations do not.
    let binds = |kind: u8| matches!(kind, 0x10..=0x13 | 0x1f);
    match body {
        [3, 5, kind, _, _, _, _, issuer @ ..] if binds(*kind) => {
            let digest = *issuer.get(9).filter(|_| issuer[..8] == key[12..])?;
            Some(Binding {
                digest,
                made: number_at(body, 3),
                lasts: 0,
            })
        }
        [4, kind, _, digest, rest @ ..] if binds(*kind) => {
            let (hashed, rest) = subpackets(rest)?;
            let (unhashed, _) = subpackets(rest)?;
            issued_by(hashed, key)
                .or_else(|| issued_by(unhashed, key))
                .filter(|is_own| *is_own)?;
            let [made, lasts] = [MADE, LASTS].map(|wanted| {
                each(hashed)
                    .find(|(kind, _)| *kind == wanted)
                    .map_or(0, |(_, body)| number_at(body, 0))
            });
            Some(Binding {
                digest: *digest,
                made,
                lasts,
            })
        }
        _ => None,
    }
}

fn subpackets(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::from(u16::from_be_bytes([*bytes.first()?, *bytes.get(1)?]));
    bytes.get(2..)?.split_at_checked(length)
}

/// The subpackets of an area, each with its kind, up to one that has no end.
fn each(mut area: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (header, length) = match *area.first()? {
            n @ 0..192 => (1, usize::from(n)),
            n @ 192..255 => (
                2,
                ((usize::from(n) - 192) << 8) + usize::from(*area.get(1)?) + 192,
            ),
            255 => (
                5,
                usize::try_from(u32::from_be_bytes(area.get(1..5)?.try_into().ok()?)).ok()?,
            ),
        };
        let (kind, body) = area.get(header..)?.get(..length)?.split_first()?;
        area = &area[header + length..];
        // The highest bit marks it as critical.
        Some((kind & 0x7f, body))
    })
}

/// Whether an area of subpackets names this key as the issuer; none if it names no issuer.
fn issued_by(area: &[u8], key: &[u8; 20]) -> Option<bool> {
    const ISSUER: u8 = 16;
    const ISSUER_FINGERPRINT: u8 = 33;
    each(area).find_map(|(kind, body)| match (kind, body) {
        (ISSUER, id) => Some(*id == key[12..]),
        (ISSUER_FINGERPRINT, [4, whole @ ..]) => Some(whole == key),
        _ => None,
    })
}

/// The bytes of all armoured keys in a text. In apt's files a dot may stand for an empty line.
fn dearmour(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for block in text.split("-----BEGIN PGP PUBLIC KEY BLOCK-----").skip(1) {
        let block = block.split("-----END").next()?;
        let lines: Vec<_> = block.lines().map(str::trim).collect();
        // Headers come before the first empty line.
        let body = lines
            .iter()
            .skip(1)
            .position(|l| l.is_empty() || *l == ".")
            .map_or(0, |at| at + 2);
        let body = lines
            .get(body..)?
            .iter()
            .take_while(|l| !l.starts_with('='));
        bytes.extend(base64(body.flat_map(|l| l.bytes()))?);
    }
    (!bytes.is_empty()).then_some(bytes)
}

fn base64(text: impl Iterator<Item = u8>) -> Option<Vec<u8>> {
    let (mut bytes, mut held, mut bits) = (Vec::new(), 0_u32, 0);
    for letter in text.take_while(|letter| *letter != b'=') {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        held = held << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits & 0xff) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    pub(crate) fn gpg(home: &Path, arguments: &[&str]) -> Vec<u8> {
        let run = Command::new("gpg")
            .args(["--batch", "--quiet", "--homedir"])
            .arg(home)
            .args(arguments)
            .output();
        let ran = run.expect("gpg is there");
        assert!(
            ran.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
        ran.stdout
    }

    /// Keys made by a real gpg, of several kinds and with several digests.
    #[test]
    fn keys_of_gpgs_are_read_as_gpg_reads_them() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let home = home.path();
        for (name, algorithm, digest) in [
            ("weak", "rsa1024", "SHA1"),
            ("sound", "rsa1024", "SHA512"),
            ("curve", "ed25519", "SHA256"),
        ] {
            let digest = [
                "--passphrase",
                "",
                "--cert-digest-algo",
                digest,
                "--quick-generate-key",
                name,
                algorithm,
            ];
            gpg(home, &[&digest[..], &["sign", "never"]].concat());
        }
        // A subkey's signature with a good digest does not make the key itself stronger.
        let listed =
            String::from_utf8(gpg(home, &["--with-colons", "--fingerprint"])).expect("text");
        let primary: Vec<_> = listed.split("\npub:").skip(1).collect();
        let fingerprints: Vec<&str> = primary
            .iter()
            .filter_map(|p| p.lines().find(|l| l.starts_with("fpr:"))?.split(':').nth(9))
            .collect();
        gpg(
            home,
            &[
                "--passphrase",
                "",
                "--quick-add-key",
                fingerprints[0],
                "rsa1024",
                "encr",
                "never",
            ],
        );
        // Neither does another key's certification.
        gpg(
            home,
            &[
                "--passphrase",
                "",
                "--yes",
                "--default-key",
                "sound",
                "--quick-sign-key",
                fingerprints[0],
            ],
        );
        for armour in [&["--export"][..], &["--armor", "--export"]] {
            let found = public_keys(&gpg(home, armour)).expect("keys");
            assert_eq!(
                found
                    .iter()
                    .map(|k| k.fingerprint.as_str())
                    .collect::<Vec<_>>(),
                fingerprints
            );
            assert_eq!(
                found.iter().map(|k| k.is_weak).collect::<Vec<_>>(),
                [true, false, false]
            );
        }
        for name in ["weak", "sound", "curve"] {
            let text = String::from_utf8(gpg(home, &["--armor", "--export", name])).expect("text");
            let (packets, found) = certificates(&text).expect("a key");
            assert_eq!(packets, gpg(home, &["--export", name]));
            assert_eq!(found.len(), 1);
            // gpg reads what is written, checksum and all, and nothing else is hidden behind a key.
            let file = home.join("again.asc");
            std::fs::write(&file, armoured(&packets)).expect("written");
            let file = file.display().to_string();
            let shown = gpg(home, &["--with-colons", "--show-keys", &file]);
            assert!(
                String::from_utf8_lossy(&shown).contains(&found[0].fingerprint),
                "{name}"
            );
            for more in [
                &[0x93, 1, 2][..],
                &[0xc6, 0xe1, 0],
                &[0xcb, 1, 0],
                &[0xc6, 1, 6],
                &[0],
            ] {
                assert!(
                    certificates(&armoured(&[&packets[..], more].concat())).is_err(),
                    "{more:?}"
                );
            }
        }
        // The day after a key was made, and never again.
        let made = [
            "--faked-system-time",
            "20220101T000000!",
            "--passphrase",
            "",
            "--quick-generate-key",
            "short",
        ];
        gpg(home, &[&made[..], &["rsa1024", "sign", "1d"]].concat());
        let expires =
            |name: &str| public_keys(&gpg(home, &["--export", name])).expect("a key")[0].expires;
        assert_eq!(
            (expires("short"), expires("sound")),
            (Some(1_641_081_600), None)
        );
        let keybox = std::fs::read(home.join("pubring.kbx")).expect("gpg keeps one");
        assert!(public_keys(&keybox).is_err_and(|why| why.contains("keybox")));
        let _ = Command::new("gpgconf")
            .arg("--homedir")
            .arg(home)
            .args(["--kill", "all"])
            .status();
    }

    #[test]
    fn what_is_no_key_is_said_to_be_none() {
        assert!(public_keys(b"").is_err_and(|why| why.contains("empty")));
        assert!(public_keys(b"<html>404</html>").is_err());
        assert!(public_keys(b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n!!!!\n-----END").is_err());
        for length in 0..64 {
            let _ = public_keys(&vec![0x99; length]);
            let _ = public_keys(&vec![0xc6; length]);
        }
    }
}
