//! `enroll-key`: asks shim to trust a certificate for kernel modules (a machine owner key, MOK).
//! Only a person can answer: shim's MokManager comes up at the next boot, at the console, and asks
//! for the password that was chosen here. The password is shown once. It is in no file, log or
//! command line: mokutil gets its hash. A key that is missing is made before; one that is there is
//! never replaced, as it may be enrolled already.

use super::program::{ProgramError, judge};
use super::undo::Undo;
use super::valid::Valid;
use super::{Action, Counts, Notice, Notify, OperationError, Standing, Work, valid};
use gpusetup_database::sum::sha256;
use gpusetup_host::Enrolment;
use gpusetup_host::firmware::{enrolment, has_request};
use gpusetup_system::certificate::Certificate;
use gpusetup_system::{Log, Program, System};
use gpusetup_text::paths::{MOK_HASH, STATE};
use gpusetup_text::text::{quoted, quoted_path};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Prepares the enrolment of a certificate; somebody at the console confirms it during the next
/// reboot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct EnrollKey {
    /// The certificate, a file in DER.
    pub certificate: PathBuf,
    /// The private key that is made with the certificate if neither is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub makes: Option<PathBuf>,
}

/// Letters that are on the same key of QWERTY, QWERTZ and AZERTY keyboards, as MokManager knows
/// only the first, and that look alike in no font.
const LETTERS: &[u8; 16] = b"bcdefghjknprstuv";
/// Sixteen letters are 64 bits: the hash is in a firmware variable that only root may read.
const LENGTH: usize = 16;

impl EnrollKey {
    /// What is made before the enrolment, to be kept before that is done; none if the key is there.
    fn intend_key(&self, on: &System) -> Vec<Undo> {
        let missing = self.makes.iter().filter(|_| !on.exists(&self.certificate));
        let paths = missing.flat_map(|key| [key.clone(), self.certificate.clone()]);
        paths.map(|path| Undo::Tree { path }).collect()
    }

    /// Makes the key.
    fn make_key(&self, on: &System, log: Option<Log>) -> Result<(), ProgramError> {
        let Some(argv) = self.openssl() else {
            return Ok(());
        };
        let program = Program::new(argv).limit(Duration::from_secs(600)).log(log);
        let output = on.run(&program).map_err(ProgramError::start("openssl"))?;
        judge("openssl req", &output, None)
    }

    /// The command that makes the key as DKMS makes its own: openssl writes it for its owner alone.
    /// Kernels that check it want the usage code signing. None if no key is made.
    pub fn openssl(&self) -> Option<Vec<String>> {
        let (key, certificate) = (
            self.makes.as_ref()?.display().to_string(),
            self.certificate.display().to_string(),
        );
        let subject = "/CN=DKMS module signing key made by gpusetup";
        let make = [
            "req", "-new", "-x509", "-nodes", "-days", "36500", "-newkey", "rsa:2048", "-subj",
            subject,
        ];
        let usage = ["-addext", "extendedKeyUsage=codeSigning", "-outform", "DER"];
        let files = ["-keyout", &key, "-out", &certificate];
        let words = ["openssl"]
            .into_iter()
            .chain(make)
            .chain(usage)
            .chain(files);
        Some(words.map(str::to_owned).collect())
    }

    /// Asks for it, with a password that `notify` gets before anything needs it.
    fn request(&self, on: &System, log: Option<Log>, notify: Notify) -> Result<(), ProgramError> {
        let password = password().map_err(ProgramError::start("openssl"))?;
        notify(Notice::Password(&password));
        let hash =
            Program::new(["openssl", "passwd", "-6", "-stdin"]).input(format!("{password}\n"));
        let hash = on.run(&hash).map_err(ProgramError::start("openssl"))?;
        // Its output is in no message: it is what the password is known by.
        if !hash.succeeded() || !hash.text.starts_with("$6$") {
            let why = io::Error::other("it made no SHA-512 hash; OpenSSL 1.1.1 or newer is needed");
            return Err(ProgramError::start("openssl passwd -6")(why));
        }
        on.make_directories(STATE, 0o700)
            .and_then(|_| on.write(MOK_HASH, hash.text.as_bytes(), 0o600))
            .map_err(ProgramError::start("mokutil"))?;
        let argv = self
            .import()
            .into_iter()
            .chain(["--hash-file".to_owned(), MOK_HASH.to_owned()]);
        let imported = on.run(&Program::new(argv).log(log).undisturbed());
        let removed = on.remove(MOK_HASH);
        let output = imported
            .and_then(|output| removed.map(|()| output))
            .map_err(ProgramError::start("mokutil"))?;
        judge("mokutil --import", &output, None)
    }

    fn import(&self) -> [String; 3] {
        [
            "mokutil".to_owned(),
            "--import".to_owned(),
            self.certificate.display().to_string(),
        ]
    }
}

impl Action for EnrollKey {
    fn preparation(&self, on: &System) -> Vec<Undo> {
        self.intend_key(on)
    }

    fn prepare(&self, on: &System, work: &mut Work, _: Notify) -> Result<(), OperationError> {
        Ok(self.make_key(on, work.log.clone())?)
    }

    fn perform(&self, on: &System, work: &mut Work, notify: Notify) -> Result<(), OperationError> {
        Ok(self.request(on, work.log.clone(), notify)?)
    }

    fn stands(&self, on: &System, _: bool) -> io::Result<Standing> {
        match (&self.makes, on.exists(&self.certificate)) {
            (Some(key), has) if on.exists(key) != has => {
                let (key, certificate) = (key.display(), self.certificate.display());
                return Ok(Standing::Conflict(format!(
                    "of the key {key} and its certificate {certificate} only one is there: move it away"
                )));
            }
            (Some(_), false) => return Ok(Standing::Needed),
            (_, true) => {}
            (None, false) => {
                return Ok(Standing::Conflict(format!(
                    "{} is not there",
                    self.certificate.display()
                )));
            }
        }
        let stands = enrolment(on, &sha256(on.read(&self.certificate)?));
        Ok(match stands {
            Enrolment::Enrolled | Enrolment::Requested => Standing::Satisfied,
            // There is one password for all requests.
            Enrolment::Absent if has_request(on) => Standing::Conflict(
                "another key waits to be enrolled: reboot and answer at the console, or withdraw it (sudo mokutil --revoke-import)"
                    .to_owned(),
            ),
            Enrolment::Absent => Standing::Needed,
        })
    }

    fn intend(&self, on: &System, _: &mut Work) -> Result<Vec<Undo>, OperationError> {
        let der = on.read(&self.certificate)?;
        let name = Certificate::of(&der)
            .map(|certificate| certificate.name)
            .unwrap_or_default();
        let request = Undo::Enrolment {
            name,
            sha256: sha256(&der),
        };
        Ok(vec![
            request,
            Undo::Tree {
                path: MOK_HASH.into(),
            },
        ])
    }

    fn describe(&self) -> String {
        let made = if self.makes.is_some() {
            "make the key if it is missing, and "
        } else {
            ""
        };
        format!(
            "{made}prepare the enrolment of {}, with a one-time password",
            self.certificate.display()
        )
    }

    fn shell(&self) -> String {
        let path = quoted_path(&self.certificate);
        let words = self.openssl().map(|argv| {
            argv.iter()
                .map(|word| quoted(word))
                .collect::<Vec<_>>()
                .join(" ")
        });
        let make = words
            .map(|openssl| format!("[ -e {path} ] || {openssl}\n"))
            .unwrap_or_default();
        format!("{make}mokutil --import {path}\n")
    }

    fn counts(&self) -> Counts {
        Counts {
            change: 1,
            ..Counts::default()
        }
    }

    fn by_hand(&self) -> Option<String> {
        Some(format!("sudo {}", self.shell().trim_end()))
    }

    fn valid(&self, _: &Path) -> Valid {
        let Self { certificate, makes } = self;
        valid::paths(makes).and_then(|()| valid::path(certificate))
    }
}

/// Takes the request back if shim still has it; names a certificate that is enrolled, which only
/// somebody at the console can remove.
pub(crate) fn restore(on: &System, name: &str, sha256: &str) -> io::Result<Option<String>> {
    match enrolment(on, sha256) {
        Enrolment::Absent => Ok(None),
        Enrolment::Enrolled => Ok(Some(format!(
            "the key {name:?}, which the firmware still trusts; to remove it: mokutil --export, then sudo mokutil --delete FILE"
        ))),
        Enrolment::Requested => {
            let output = on.run(&Program::new(["mokutil", "--revoke-import"]).undisturbed())?;
            judge("mokutil --revoke-import", &output, None).map_err(io::Error::other)?;
            Ok(None)
        }
    }
}

fn password() -> io::Result<String> {
    let mut bytes = [0; LENGTH];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte % 16)]))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_host::firmware::VARIABLES;
    use gpusetup_host::sample::variable;

    const SHIM: &str = "605dab50-e046-4300-abb6-3dd810dd8b23";

    fn host(lists: &[(&str, &[u8])]) -> (System, tempfile::TempDir, EnrollKey) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        ["/var/lib/dkms", VARIABLES].iter().for_each(|folder| {
            on.make_directories(folder, 0o755).expect("made");
        });
        on.write("/var/lib/dkms/mok.pub", b"ours", 0o644)
            .expect("written");
        for (name, der) in lists {
            on.write(
                format!("{VARIABLES}/{name}-{SHIM}"),
                &variable(&[der]),
                0o600,
            )
            .expect("written");
        }
        (
            on,
            dir,
            EnrollKey {
                certificate: "/var/lib/dkms/mok.pub".into(),
                makes: None,
            },
        )
    }

    #[test]
    fn the_firmware_says_whether_it_is_done() {
        let stands = |lists: &[(&str, &[u8])]| {
            let (on, _dir, key) = host(lists);
            key.stands(&on, false).expect("seen")
        };
        assert_eq!(stands(&[("MokListRT", b"vendor's")]), Standing::Needed);
        assert_eq!(stands(&[("MokListRT", b"ours")]), Standing::Satisfied);
        assert_eq!(stands(&[("MokNew", b"ours")]), Standing::Satisfied);
        assert!(
            matches!(stands(&[("MokNew", b"another")]), Standing::Conflict(why) if why.contains("revoke-import"))
        );
        let (on, _dir, key) = host(&[]);
        on.remove(&key.certificate).expect("removed");
        assert!(
            matches!(key.stands(&on, false).expect("seen"), Standing::Conflict(_)),
            "a key of the user's is not made"
        );
        let making = EnrollKey {
            makes: Some("/var/lib/dkms/mok.key".into()),
            ..key
        };
        assert_eq!(
            (
                making.stands(&on, false).expect("seen"),
                making.intend_key(&on).len()
            ),
            (Standing::Needed, 2)
        );
        on.write("/var/lib/dkms/mok.key", b"enrolled, maybe", 0o600)
            .expect("written");
        assert!(
            matches!(making.stands(&on, false).expect("seen"), Standing::Conflict(why) if why.contains("only one"))
        );
        on.write("/var/lib/dkms/mok.pub", b"ours", 0o644)
            .expect("written");
        assert!(
            making.intend_key(&on).is_empty(),
            "a key that is there is not replaced"
        );
    }

    #[test]
    fn an_enrolled_key_is_named_and_an_absent_one_is_no_work() {
        let (on, _dir, _) = host(&[("MokListRT", b"ours")]);
        let left = restore(&on, "DKMS", &sha256("ours"))
            .expect("no program runs")
            .expect("it is trusted");
        assert!(
            left.contains("\"DKMS\"") && left.contains("mokutil --delete"),
            "{left}"
        );
        assert_eq!(
            restore(&on, "DKMS", &sha256("other")).expect("no program runs"),
            None
        );
    }

    #[test]
    fn passwords_differ_and_can_be_typed_on_any_keyboard() {
        let (one, other) = (password().expect("random"), password().expect("random"));
        assert!(one != other && one.len() == LENGTH);
        assert!(
            one.bytes()
                .all(|letter| !b"aqwzym".contains(&letter) && letter.is_ascii_lowercase()),
            "{one}"
        );
    }
}
