//! Signatures by minisign: of databases, bundles and releases of gpusetup itself.
//!
//! A `.minisig` file can have several signatures, one after the other, so that a database or a release counts only if two people
//! signed it.

use minisign_verify::{PublicKey, Signature};
use std::collections::BTreeSet;

/// The release keys that whoever built this program gave it, separated by commas: the last lines of `.pub` files.
const PINNED: Option<&str> = option_env!("GPUSETUP_RELEASE_KEY");
/// How many of them must have signed [default: 1].
const NEEDED: Option<&str> = option_env!("GPUSETUP_RELEASE_SIGNATURES");

/// Why a signature is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// The public key is not valid.
    #[error("the key is not a minisign public key: {0}")]
    Key(minisign_verify::Error),
    /// The signature is not minisign's, or not by this key, or not for these bytes.
    #[error("the signature does not match: another key signed it, or it was changed later ({0})")]
    Signature(minisign_verify::Error),
    /// Fewer people signed it than are needed.
    #[error("{needed} signatures by different keys are needed, and {valid} match")]
    TooFew {
        /// The number that is needed.
        needed: usize,
        /// The number of keys that signed it.
        valid: usize,
    },
}

/// Keys, and how many of them must have signed.
#[derive(Debug)]
pub struct Signers {
    keys: Vec<PublicKey>,
    needed: usize,
}

impl Signers {
    /// The release keys; none if this program was built without.
    pub fn pinned() -> Option<Result<Self, SignatureError>> {
        PINNED.map(|keys| Self::any(keys.split(','), NEEDED.and_then(|n| n.parse().ok()).unwrap_or(1)))
    }

    /// All of these keys, each the text of a `.pub` file or its last line.
    pub fn all<'k>(keys: impl IntoIterator<Item = &'k str>) -> Result<Self, SignatureError> {
        let mut signers = Self::any(keys, 1)?;
        signers.needed = signers.keys.len();
        Ok(signers)
    }

    fn any<'k>(keys: impl IntoIterator<Item = &'k str>, needed: usize) -> Result<Self, SignatureError> {
        let mut all: Vec<PublicKey> = Vec::new();
        for key in keys {
            // Without its comment: a key that is named twice signs once.
            let line = key.trim().lines().last().unwrap_or_default();
            let key = PublicKey::from_base64(line.trim()).map_err(SignatureError::Key)?;
            if !all.contains(&key) {
                all.push(key);
            }
        }
        Ok(Self { keys: all, needed: needed.max(1) })
    }

    /// Verifies that `signatures`, the text of a `.minisig` file, has enough signatures over `bytes`.
    pub fn verify(&self, bytes: &[u8], signatures: &str) -> Result<(), SignatureError> {
        let (mut valid, mut last) = (BTreeSet::new(), None);
        for signature in each(signatures) {
            let signature = match Signature::decode(&signature) {
                Ok(signature) => signature,
                Err(e) => {
                    last = Some(e);
                    continue;
                }
            };
            for (at, key) in self.keys.iter().enumerate() {
                // Only signatures over a hash of the whole file, as minisign makes them since 2021.
                match key.verify(bytes, &signature, false) {
                    Ok(()) => drop(valid.insert(at)),
                    Err(e) => last = Some(e),
                }
            }
        }
        match (valid.len(), last) {
            (valid, _) if valid >= self.needed => Ok(()),
            (0, Some(e)) => Err(SignatureError::Signature(e)),
            (0, None) => Err(SignatureError::Signature(minisign_verify::Error::InvalidEncoding)),
            (valid, _) => Err(SignatureError::TooFew { needed: self.needed, valid }),
        }
    }
}

/// The signatures in a `.minisig` file: four lines each.
fn each(signatures: &str) -> impl Iterator<Item = String> {
    let lines: Vec<_> = signatures.lines().collect();
    lines.chunks(4).map(|lines| lines.join("\n") + "\n").collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made by minisign 0.12 for these texts: `minisign -S -m FILE`, two keys.
    const ONE: &str = include_str!("../tests/common/signed/one.pub");
    const TWO: &str = include_str!("../tests/common/signed/two.pub");
    const TEXT: &[u8] = include_bytes!("../tests/common/signed/text");
    const BY_ONE: &str = include_str!("../tests/common/signed/text.minisig");
    const BY_TWO: &str = include_str!("../tests/common/signed/by-two.minisig");

    #[test]
    fn each_key_counts_once() {
        let both = format!("{BY_ONE}{BY_TWO}");
        let twice = format!("{BY_ONE}{BY_ONE}");
        let one = Signers::all([ONE]).expect("a key");
        one.verify(TEXT, BY_ONE).expect("it is signed");
        one.verify(TEXT, &both).expect("it is signed, by another, too");
        assert!(matches!(one.verify(TEXT, BY_TWO), Err(SignatureError::Signature(_))));
        assert!(matches!(one.verify(b"another text", &both), Err(SignatureError::Signature(_))));
        assert!(matches!(one.verify(TEXT, ""), Err(SignatureError::Signature(_))));
        let all = Signers::all([ONE, TWO]).expect("keys");
        all.verify(TEXT, &both).expect("both signed");
        for signatures in [BY_ONE, BY_TWO, &twice] {
            assert!(matches!(all.verify(TEXT, signatures), Err(SignatureError::TooFew { needed: 2, valid: 1 })));
        }
        // The same key under two names is one person.
        let same = Signers::any([ONE, ONE.lines().last().expect("two lines")], 2).expect("keys");
        assert!(matches!(same.verify(TEXT, &twice), Err(SignatureError::TooFew { .. })));
        assert!(matches!(Signers::all(["no key"]), Err(SignatureError::Key(_))));
    }
}
