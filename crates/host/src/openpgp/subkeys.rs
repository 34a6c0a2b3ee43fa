//! Subkeys of a certificate, and whether its key binds them. Package managers differ in whether
//! they check that, and anyone can append a subkey to a published key without changing its
//! fingerprint.

use super::{PUBLIC_KEY, PUBLIC_SUBKEY, SIGNATURE, packet};
use ring::signature::{
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents,
};

/// RFC 4880, 5.2.1: a signature by which a key binds a subkey.
const BINDING: u8 = 0x18;
/// RFC 4880, 9.1: RSA, for both uses or for signatures only.
const RSA: [u8; 2] = [1, 3];

/// The packets of certificates without subkeys that the key before them does not bind by a
/// signature that can be verified: one of RSA, over a SHA-2 digest.
pub fn without_unbound(packets: &[u8]) -> Vec<u8> {
    let (mut kept, mut primary, mut rest) = (Vec::with_capacity(packets.len()), &[][..], packets);
    while let Some((tag, body, after)) = packet(rest) {
        let end = if tag == PUBLIC_SUBKEY {
            after_signatures(after)
        } else {
            after
        };
        if tag == PUBLIC_KEY {
            primary = body;
        }
        let whole = &rest[..rest.len() - end.len()];
        let signatures = &after[..after.len() - end.len()];
        if tag != PUBLIC_SUBKEY || is_bound(primary, body, signatures) {
            kept.extend_from_slice(whole);
        }
        rest = end;
    }
    kept
}

/// What follows the signatures at the beginning.
fn after_signatures(mut rest: &[u8]) -> &[u8] {
    while let Some((SIGNATURE, _, after)) = packet(rest) {
        rest = after;
    }
    rest
}

fn is_bound(primary: &[u8], subkey: &[u8], mut signatures: &[u8]) -> bool {
    while let Some((_, body, after)) = packet(signatures) {
        if binds(primary, subkey, body) == Some(true) {
            return true;
        }
        signatures = after;
    }
    false
}

/// Whether a signature of version 4 by this key binds the subkey; none if it cannot be read.
fn binds(primary: &[u8], subkey: &[u8], signature: &[u8]) -> Option<bool> {
    let [4, BINDING, algorithm, digest, ..] = *signature else {
        return None;
    };
    let (n, e) = rsa_key(primary).filter(|_| RSA.contains(&algorithm))?;
    let hashed_end = 6 + length(signature.get(4..6)?);
    let unhashed_end = hashed_end + 2 + length(signature.get(hashed_end..hashed_end + 2)?);
    // Two bytes of the digest come before the number.
    let (number, _) = number(signature.get(unhashed_end + 2..)?)?;
    let padded = [vec![0; n.len().checked_sub(number.len())?], number.to_vec()].concat();
    let mut signed = Vec::new();
    for key in [primary, subkey] {
        signed.push(0x99);
        signed.extend(u16::try_from(key.len()).ok()?.to_be_bytes());
        signed.extend_from_slice(key);
    }
    signed.extend_from_slice(signature.get(..hashed_end)?);
    signed.extend([4, 0xff]);
    signed.extend(u32::try_from(hashed_end).ok()?.to_be_bytes());
    let key = RsaPublicKeyComponents { n, e };
    Some(key.verify(parameters(digest)?, &signed, &padded).is_ok())
}

/// RFC 4880, 9.4.
fn parameters(digest: u8) -> Option<&'static RsaParameters> {
    match digest {
        8 => Some(&RSA_PKCS1_2048_8192_SHA256),
        9 => Some(&RSA_PKCS1_2048_8192_SHA384),
        10 => Some(&RSA_PKCS1_2048_8192_SHA512),
        _ => None,
    }
}

/// The modulus and the exponent of a key of version 4.
fn rsa_key(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let [4, _, _, _, _, algorithm, numbers @ ..] = body else {
        return None;
    };
    let (n, rest) = number(numbers).filter(|_| RSA.contains(algorithm))?;
    let (e, _) = number(rest)?;
    Some((n, e))
}

/// A number with its length in bits before it, and the rest.
fn number(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let bits = length(bytes.get(..2)?);
    bytes.get(2..)?.split_at_checked(bits.div_ceil(8))
}

fn length(two: &[u8]) -> usize {
    two.iter()
        .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::super::tests::gpg;
    use super::*;

    /// A key of a real gpg with a subkey: all its packets, and those from the subkey on.
    fn key_with_subkey(name: &str) -> (Vec<u8>, Vec<u8>) {
        let home = tempfile::tempdir().expect("a temporary directory");
        let own = ["--passphrase", "", "--cert-digest-algo", "SHA512"];
        gpg(
            home.path(),
            &[
                &own[..],
                &["--quick-generate-key", name, "rsa2048", "cert", "never"],
            ]
            .concat(),
        );
        let listed =
            String::from_utf8(gpg(home.path(), &["--with-colons", "--fingerprint"])).expect("text");
        let line = listed
            .lines()
            .find(|line| line.starts_with("fpr:"))
            .expect("a fingerprint");
        let fingerprint = line.split(':').nth(9).expect("a field");
        gpg(
            home.path(),
            &[
                &own[..],
                &["--quick-add-key", fingerprint, "rsa2048", "sign", "never"],
            ]
            .concat(),
        );
        let all = gpg(home.path(), &["--export"]);
        let _ = std::process::Command::new("gpgconf")
            .arg("--homedir")
            .arg(home.path())
            .args(["--kill", "all"])
            .status();
        let mut rest = all.as_slice();
        while let Some((tag, _, after)) = packet(rest).filter(|(tag, ..)| *tag != PUBLIC_SUBKEY) {
            assert!(tag != 0);
            rest = after;
        }
        let subkey = rest.to_vec();
        (all, subkey)
    }

    #[test]
    fn a_subkey_stays_only_with_its_own_key() {
        let [(ours, our_subkey), (_, other_subkey)] = ["ours", "another"].map(key_with_subkey);
        assert!(!our_subkey.is_empty() && ours.ends_with(&our_subkey));
        assert_eq!(without_unbound(&ours), ours, "the key binds it");
        let alone = &ours[..ours.len() - our_subkey.len()];
        for (what, appended) in [
            ("another key's", other_subkey.clone()),
            // A subkey without any signature, and one with the signature that binds another.
            (
                "nobody's",
                our_subkey[..our_subkey.len() - behind_of_first(&our_subkey).len()].to_vec(),
            ),
            (
                "with a foreign signature",
                [first(&other_subkey), behind_of_first(&our_subkey)].concat(),
            ),
        ] {
            let packets = [alone, &appended].concat();
            assert_eq!(without_unbound(&packets), alone, "{what}");
            // What comes after it is kept.
            assert_eq!(
                without_unbound(&[&packets[..], &our_subkey].concat()),
                ours,
                "{what}"
            );
        }
        let mut forged = ours.clone();
        let last = forged.len() - 1;
        forged[last] ^= 1;
        assert_eq!(without_unbound(&forged), alone, "the signature is wrong");
    }

    fn behind_of_first(packets: &[u8]) -> &[u8] {
        packet(packets).expect("a packet").2
    }

    fn first(packets: &[u8]) -> &[u8] {
        &packets[..packets.len() - behind_of_first(packets).len()]
    }
}
