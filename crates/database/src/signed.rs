//! Signatures by minisign, of databases, bundles and releases of gpusetup itself, and lists of the
//! keys that sign releases.
//!
//! A `.minisig` file can have several signatures, one after the other, so that a database or a
//! release counts only if two people signed it. The first [`SIGNATURES_READ`] are read, of four
//! lines each. Each signature is for a file of one name. Its trusted comment, which is signed as
//! well, has fields between tabs: `file:NAME`, as minisign writes it, and `expires:2027-03-01`
//! where the signature has a last day.
//!
//! A list of keys is one line: `gpusetup.keys/1`, its version, how many of its keys must sign, and
//! the keys. The file `release-keys` has all lists, the oldest first. The first has no signatures:
//! programs are built with it. Each later one stands in front of its signatures, which are for the
//! name `release-keys-VERSION`. Enough keys of the list before must have signed it, as many as that
//! list asks for, so that only those who were trusted until then decide whom to trust from then on.
//! And enough of the new keys must have signed it, as many as the new list asks for, so that their
//! owners are known to have them. Whoever trusts a list follows the file from there to the newest
//! one: a key that was lost is replaced by the owners of the others, and nobody decides alone.
//!
//! A line ends with a line feed alone: what has a carriage return is no list and no signature.
//! install.sh reads the same files by the same rules.

use minisign_verify::{PublicKey, Signature};
use std::collections::BTreeMap;

/// The name of the file with the lists of keys, beside a release's other files.
pub const KEYS: &str = "release-keys";

/// How many signatures of a file are read: by all keys of a list and of the one before it, of which
/// each has at most nine.
pub(crate) const SIGNATURES_READ: usize = 20;

/// What a list of keys begins with.
const FORM: &str = "gpusetup.keys/1";
/// What begins so is a list of a form that may be unknown.
const ANY_FORM: &str = "gpusetup.keys/";

/// Why a signature is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// The public key is not valid.
    #[error("the key is not a minisign public key: {0}")]
    Key(minisign_verify::Error),
    /// The signature is not minisign's, or not by this key, or not for these bytes.
    #[error("the signature does not match: another key signed it, or it was changed later ({0})")]
    Signature(minisign_verify::Error),
    /// It was made for a file of another name.
    #[error(
        "the signature is for a file of another name than {name}: its comment says `{comment}`"
    )]
    Name {
        /// The name that the file has.
        name: String,
        /// The trusted comment.
        comment: String,
    },
    /// Its last day is over.
    #[error("the signature expired on {day}")]
    Expired {
        /// The last day.
        day: String,
    },
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
#[derive(Debug, Clone)]
pub struct Signers {
    keys: Vec<PublicKey>,
    needed: usize,
}

impl Signers {
    /// All of these keys, each the text of a `.pub` file or its last line.
    pub fn all<'k>(keys: impl IntoIterator<Item = &'k str>) -> Result<Self, SignatureError> {
        let mut all: Vec<PublicKey> = Vec::new();
        for key in keys {
            // Without its comment: a key that is named twice signs once.
            let line = key.trim().lines().last().unwrap_or_default();
            let key = PublicKey::from_base64(line.trim()).map_err(SignatureError::Key)?;
            if !all.contains(&key) {
                all.push(key);
            }
        }
        let needed = all.len().max(1);
        Ok(Self { keys: all, needed })
    }

    /// Verifies that `signatures`, the text of a `.minisig` file, has enough signatures over
    /// `bytes` under this name that are good until `today` (`2026-11-29`) or later, or ever were if
    /// no day is given. Returns their trusted comments.
    pub fn verify(
        &self,
        name: &str,
        bytes: &[u8],
        signatures: &str,
        today: Option<&str>,
    ) -> Result<Vec<String>, SignatureError> {
        let (mut valid, mut wrong, mut last) = (BTreeMap::new(), None, None);
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
                if let Err(e) = key.verify(bytes, &signature, false) {
                    last = Some(e);
                    continue;
                }
                match judged(signature.trusted_comment(), name, today) {
                    Ok(()) => drop(valid.insert(at, signature.trusted_comment().to_owned())),
                    Err(e) => wrong = Some(e),
                }
            }
        }
        if valid.len() >= self.needed {
            return Ok(valid.into_values().collect());
        }
        Err(match (wrong, valid.len(), last) {
            (Some(wrong), ..) => wrong,
            (None, 0, Some(e)) => SignatureError::Signature(e),
            (None, 0, None) => SignatureError::Signature(minisign_verify::Error::InvalidEncoding),
            (None, valid, _) => SignatureError::TooFew {
                needed: self.needed,
                valid,
            },
        })
    }
}

/// Whether a signature with this comment is for a file of this name, and still good.
fn judged(comment: &str, name: &str, today: Option<&str>) -> Result<(), SignatureError> {
    // install.sh and the book's commands refuse a comment with two names, too.
    let names = comment
        .split('\t')
        .filter_map(|field| field.strip_prefix("file:"));
    if !names.eq([name]) {
        return Err(SignatureError::Name {
            name: name.to_owned(),
            comment: comment.to_owned(),
        });
    }
    let expires = comment
        .split('\t')
        .find_map(|field| field.strip_prefix("expires:"));
    match (expires, today) {
        // Days of this form are in the order of their texts; what has another form is never good.
        (Some(day), Some(today)) if !is_day(day) || day < today => Err(SignatureError::Expired {
            day: day.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// `2026-11-29`.
fn is_day(text: &str) -> bool {
    text.len() == 10
        && text.chars().enumerate().all(|(n, c)| match n {
            4 | 7 => c == '-',
            _ => c.is_ascii_digit(),
        })
}

/// A number above 0 as it is written: without zeros or a sign before it.
fn positive(text: &str) -> Option<u32> {
    text.parse()
        .ok()
        .filter(|n: &u32| *n > 0 && n.to_string() == text)
}

/// The signatures in a `.minisig` file: four lines each.
fn each(signatures: &str) -> impl Iterator<Item = String> {
    let lines: Vec<_> = signatures.split_terminator('\n').collect();
    let first = lines
        .chunks(4)
        .take(SIGNATURES_READ)
        .map(|lines| lines.join("\n") + "\n");
    // minisign's own end of a comment is a carriage return, too.
    first
        .filter(|signature| !signature.contains('\r'))
        .collect::<Vec<_>>()
        .into_iter()
}

/// Why lists of keys are not followed.
#[derive(Debug, thiserror::Error)]
pub enum KeyListError {
    /// It is not a list, or has a form of another gpusetup version.
    #[error("`{0}` is not a list of keys that this gpusetup can read")]
    Form(String),
    /// It has no list at all.
    #[error("it has no list of keys")]
    None,
    /// Not enough keys signed a list.
    #[error("list {version} of the keys is not signed by the keys of list {} and its own: {why}", version - 1)]
    Signature {
        /// The version of the list.
        version: u32,
        /// Why its signatures are not accepted.
        why: SignatureError,
    },
    /// It has another list of the same version.
    #[error("it has another list {0} of the keys than the one that is trusted here")]
    Other(u32),
    /// A list is missing.
    #[error("list {0} of the keys is missing")]
    Missing(u32),
}

/// The keys that sign releases, of which a number must have signed.
#[derive(Debug, Clone)]
pub struct KeyList {
    version: u32,
    signers: Signers,
    line: String,
}

impl KeyList {
    /// Reads a list.
    pub fn read(line: &str) -> Result<Self, KeyListError> {
        Self::fields(line).ok_or_else(|| KeyListError::Form(line.to_owned()))
    }

    fn fields(line: &str) -> Option<Self> {
        let mut fields = line.split(' ');
        let form = fields.next()?;
        let version = positive(fields.next()?).filter(|version| *version < 10_000)?;
        let needed = positive(fields.next()?)? as usize;
        let texts: Vec<_> = fields.collect();
        let keys = Signers::all(texts.iter().copied()).ok()?.keys;
        // The install script divides it into words and counts them.
        let are_sound =
            texts.iter().all(|key| key.len() == 56) && keys.len() == texts.len() && keys.len() < 10;
        let is_possible = form == FORM && are_sound && needed <= keys.len();
        is_possible.then(|| Self {
            version,
            signers: Signers { keys, needed },
            line: line.to_owned(),
        })
    }

    /// Its version: 1 for the first.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Its keys, and how many of them must sign.
    pub fn signers(&self) -> &Signers {
        &self.signers
    }

    /// The list itself.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// The newest list of a file, whose first list is trusted as it is.
    pub fn newest(file: &str) -> Result<Self, KeyListError> {
        let (first, _) = lists(file)?.into_iter().next().ok_or(KeyListError::None)?;
        first.follow(file)
    }

    /// The newest list of a file, if signatures lead there from this one. Older lists do not
    /// matter.
    pub fn follow(self, file: &str) -> Result<Self, KeyListError> {
        let mut now = self;
        for (next, signatures) in lists(file)? {
            if next.version == now.version && next.line != now.line {
                return Err(KeyListError::Other(now.version));
            }
            if next.version <= now.version {
                continue;
            }
            let version = next.version;
            if version > now.version + 1 {
                return Err(KeyListError::Missing(now.version + 1));
            }
            let (name, bytes) = (format!("{KEYS}-{version}"), format!("{}\n", next.line));
            for signers in [&now.signers, &next.signers] {
                let verified = signers.verify(&name, bytes.as_bytes(), &signatures, None);
                verified.map_err(|why| KeyListError::Signature { version, why })?;
            }
            now = next;
        }
        Ok(now)
    }
}

/// The lists of a file, with their signatures.
fn lists(file: &str) -> Result<Vec<(KeyList, String)>, KeyListError> {
    let mut lists: Vec<(KeyList, String)> = Vec::new();
    for line in file.split_terminator('\n') {
        if line.starts_with(ANY_FORM) {
            lists.push((KeyList::read(line)?, String::new()));
        } else {
            let (_, signatures) = lists
                .last_mut()
                .ok_or_else(|| KeyListError::Form(line.to_owned()))?;
            signatures.push_str(line);
            signatures.push('\n');
        }
    }
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made by minisign 0.11 for these texts, with two keys: `minisign -S -m text`, `-t
    // "test<TAB>file:text<TAB>expires:2027-03-01"`.
    const ONE: &str = include_str!("../../../tests/common/signed/one.pub");
    const TWO: &str = include_str!("../../../tests/common/signed/two.pub");
    const TEXT: &[u8] = include_bytes!("../../../tests/common/signed/text");
    const BY_ONE: &str = include_str!("../../../tests/common/signed/text.minisig");
    const BY_TWO: &str = include_str!("../../../tests/common/signed/by-two.minisig");

    #[test]
    fn each_key_counts_once() {
        let both = format!("{BY_ONE}{BY_TWO}");
        let twice = format!("{BY_ONE}{BY_ONE}");
        let one = Signers::all([ONE]).expect("a key");
        let verify = |signers: &Signers, bytes, signatures: &str| {
            signers.verify("text", bytes, signatures, None)
        };
        verify(&one, TEXT, BY_ONE).expect("it is signed");
        verify(&one, TEXT, &both).expect("it is signed, by another, too");
        assert!(matches!(
            verify(&one, TEXT, BY_TWO),
            Err(SignatureError::Signature(_))
        ));
        assert!(matches!(
            verify(&one, b"another text", &both),
            Err(SignatureError::Signature(_))
        ));
        assert!(matches!(
            verify(&one, TEXT, ""),
            Err(SignatureError::Signature(_))
        ));
        let all = Signers::all([ONE, TWO]).expect("keys");
        assert_eq!(verify(&all, TEXT, &both).expect("both signed").len(), 2);
        for signatures in [BY_ONE, BY_TWO, &twice] {
            assert!(matches!(
                verify(&all, TEXT, signatures),
                Err(SignatureError::TooFew {
                    needed: 2,
                    valid: 1
                })
            ));
        }
        // The same key under two names is one person.
        let same = Signers::all([ONE, ONE.lines().last().expect("two lines")]).expect("keys");
        assert_eq!(same.keys.len(), 1);
        assert!(matches!(
            Signers::all(["no key"]),
            Err(SignatureError::Key(_))
        ));
    }

    #[test]
    fn so_many_signatures_are_read_and_lines_end_with_a_line_feed() {
        let one = Signers::all([ONE]).expect("a key");
        let verify = |signatures: &str| one.verify("text", TEXT, signatures, None);
        verify(&format!("{}{BY_ONE}", BY_TWO.repeat(SIGNATURES_READ - 1)))
            .expect("the last one that is read");
        assert!(verify(&format!("{}{BY_ONE}", BY_TWO.repeat(SIGNATURES_READ))).is_err());
        assert!(verify(&BY_ONE.replace('\n', "\r\n")).is_err());
        verify(BY_ONE.trim_end()).expect("the last line need not end");
        let list = format!(
            "gpusetup.keys/1 1 1 {}",
            ONE.lines().last().expect("two lines")
        );
        assert!(KeyList::newest(&format!("{list}\n")).is_ok() && KeyList::newest(&list).is_ok());
        assert!(matches!(
            KeyList::newest(&format!("{list}\r\n")),
            Err(KeyListError::Form(_))
        ));
    }

    #[test]
    fn a_signature_is_for_one_name_and_until_its_last_day() {
        let two = Signers::all([TWO]).expect("a key");
        let verify = |name, today| two.verify(name, TEXT, BY_TWO, today);
        assert_eq!(
            verify("text", Some("2027-03-01")).expect("its last day"),
            ["test\tfile:text\texpires:2027-03-01"]
        );
        assert!(
            matches!(verify("text", Some("2027-03-02")), Err(SignatureError::Expired { day }) if day == "2027-03-01")
        );
        verify("text", None).expect("no day matters");
        assert!(matches!(
            verify("texts", None),
            Err(SignatureError::Name { .. })
        ));
        // Whatever was signed, its comment is signed with it.
        let renamed = BY_TWO.replace("file:text", "file:texts");
        assert!(matches!(
            two.verify("texts", TEXT, &renamed, None),
            Err(SignatureError::Signature(_))
        ));
        assert!(
            judged("test\tfile:a", "a", None).is_ok()
                && judged("file:a\tfile:a", "a", None).is_err()
        );
        assert!(judged("file:a\tfile:b", "a", None).is_err());
        assert!(judged("file:a\texpires:2027-3-1", "a", Some("2026-01-01")).is_err());
    }

    #[test]
    fn what_is_no_list_of_keys_is_refused() {
        let key = |text: &'static str| text.lines().last().expect("two lines");
        let (one, two) = (key(ONE), key(TWO));
        let list = KeyList::read(&format!("gpusetup.keys/1 3 2 {one} {two}")).expect("a list");
        assert_eq!(
            (
                list.version(),
                list.signers().needed,
                list.signers().keys.len()
            ),
            (3, 2, 2)
        );
        for wrong in [
            format!("gpusetup.keys/2 3 2 {one} {two}"),
            format!("gpusetup.keys/1 3 3 {one} {two}"),
            format!("gpusetup.keys/1 3 0 {one} {two}"),
            format!("gpusetup.keys/1 03 2 {one} {two}"),
            format!("gpusetup.keys/1 0 2 {one} {two}"),
            format!("gpusetup.keys/1 3 2 {one} {one}"),
            format!("gpusetup.keys/1 3 2 {one}  {two}"),
            format!("gpusetup.keys/1 3 1 {}", &one[1..]),
            "gpusetup.keys/1 3 1".to_owned(),
        ] {
            assert!(KeyList::read(&wrong).is_err(), "{wrong}");
        }
        let newest = |file: &str| KeyList::newest(file);
        assert_eq!(
            newest(&format!("gpusetup.keys/1 3 2 {one} {two}\n"))
                .expect("its first is trusted")
                .version(),
            3
        );
        assert!(matches!(newest(""), Err(KeyListError::None)));
        assert!(matches!(
            newest(&format!("{one}\n")),
            Err(KeyListError::Form(_))
        ));
    }
}
