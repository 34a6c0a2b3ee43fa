//! The key that the user names for kernel modules: checked before anything relies on it, since a
//! wrong one shows only after the reboot, when the driver does not load.

use super::Problem;
use crate::certificate::{Certificate, SEQUENCE, other_kind, rsa_bits};
use crate::resolve::ModuleKey;
use crate::sum::sha256;
use crate::system::input;
use crate::system::trust::{Trust, is_ours};
use crate::system::{Program, System};
use crate::text::{quoted, quoted_path};
use std::ffi::OsString;
use std::fmt::Display;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The largest file, in bytes.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// The key and its certificate, if they belong together and can sign modules now. They are in the
/// tree at `root`, if there is one: DKMS of the system that starts from it reads them there.
pub(crate) fn checked(
    key: &Path,
    certificate: &Path,
    root: Option<&Path>,
) -> Result<ModuleKey, Problem> {
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|e| Problem::usage(format!("{}: {e}", path.display())))
    };
    let own = ModuleKey {
        key: absolute(key)?,
        certificate: absolute(certificate)?,
        sha256: String::new(),
    };
    // openssl runs in another folder.
    let root = root.map(absolute).transpose()?;
    let root = root.as_deref();
    for path in [&own.key, &own.certificate] {
        // They become words of a script that DKMS reads.
        if !path
            .as_os_str()
            .as_encoded_bytes()
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"/._+-".contains(b))
        {
            let why = "its path has other characters than letters, digits and ._+-";
            return Err(Problem::usage(format!("{}: {why}", path.display())));
        }
    }
    let named = (key, certificate);
    let (key, certificate) = match root {
        None => (own.key.clone(), own.certificate.clone()),
        Some(root) => (
            below_root("mok-key", &own.key, root)?,
            below_root("mok-cert", &own.certificate, root)?,
        ),
    };
    let trust = Trust::where_root_acts(&[])?;
    let content =
        |path: &Path| input::bytes(input::open_trusted(path, &trust)?, path, MAX_KEY_BYTES);
    let der = content(&certificate).map_err(|e| Problem::usage(format!("--mok-cert: {e}")))?;
    let key_is_certificate = content(&key).is_ok_and(|bytes| is_certificate(&bytes));
    let now = jiff::Timestamp::now().strftime("%Y%m%d%H%M%S").to_string();
    let Some(read) = Certificate::of(&der) else {
        return Err(match is_private_key(&der) && key_is_certificate {
            true => refused(
                "mok-cert",
                &certificate,
                &"is a private key: --mok-key and --mok-cert are exchanged",
            )
            .attempt(exchanged(std::env::args_os(), named)),
            false => no_certificate(&der, &certificate, &own.key),
        });
    };
    if let Some(why) = unfit_now(&read, &now) {
        return Err(refused("mok-cert", &certificate, &why).attempt(new_pair(&own.key)));
    }
    if let Some(why) = unfit_key(&read) {
        return Err(refused("mok-cert", &certificate, &why).attempt(new_pair(&own.key)));
    }
    if key_is_certificate {
        let problem = refused(
            "mok-key",
            &key,
            &"is a certificate, and --mok-key names its private key",
        );
        return Err(problem.attempt(new_pair(&own.key)));
    }
    let bytes = private(&key, &trust)?;
    if bytes.first() == Some(&SEQUENCE) {
        let path = quoted_path(&own.key);
        let problem = refused(
            "mok-key",
            &key,
            &"is in DER, and the kernel's sign-file reads private keys in PEM alone",
        );
        return Err(problem.attempt(format!(
            "sudo openssl pkey -inform DER -in {path} -out {path}.pem"
        )));
    }
    if has_password(&bytes) {
        let path = quoted_path(&own.key);
        let problem = refused(
            "mok-key",
            &key,
            &"has a password, which nobody could type when DKMS signs with it",
        );
        return Err(problem.attempt(format!("sudo openssl pkey -in {path} -out {path}.pem")));
    }
    if public_key_of(&key).map_err(|problem| problem.attempt(new_pair(&own.key)))?
        != read.public_key
    {
        let why = format!("is not the key of {}", certificate.display());
        return Err(refused("mok-key", &key, &why).attempt(new_pair(&own.key)));
    }
    Ok(ModuleKey {
        sha256: sha256(&der),
        ..own
    })
}

fn refused(flag: &str, path: &Path, why: &dyn Display) -> Problem {
    Problem::usage(format!("--{flag}: {} {why}", path.display()))
}

/// The refusal of a file that is not a certificate in DER, with the command that makes one of it,
/// or else a pair beside the key.
fn no_certificate(bytes: &[u8], certificate: &Path, key: &Path) -> Problem {
    if has_pem(bytes, "CERTIFICATE") {
        let path = quoted_path(certificate);
        return refused("mok-cert", certificate, &"is not a certificate in DER").attempt(format!(
            "openssl x509 -in {path} -outform DER -out {path}.der"
        ));
    }
    let why = if is_private_key(bytes) {
        "is a private key, and --mok-cert names its certificate"
    } else if bytes.first() == Some(&SEQUENCE) {
        "is not one whole certificate in DER"
    } else {
        "is not a certificate in DER"
    };
    refused("mok-cert", certificate, &why).attempt(new_pair(key))
}

/// Where a tree's file is on this host. Links in it do not lead out of it.
fn below_root(flag: &str, path: &Path, root: &Path) -> Result<PathBuf, Problem> {
    let tree = System::at(root);
    let shown = path.display();
    if let Ok(inside) = path.strip_prefix(tree.root()) {
        let inside = inside.display();
        let why =
            format!("is a path of this host; with --root, name the tree's: --{flag} /{inside}");
        return Err(Problem::usage(format!("--{flag}: {shown} {why}")));
    }
    let inside = tree
        .canonical(path)
        .ok()
        .filter(|inside| tree.exists(inside));
    inside.map(|inside| beneath(root, &inside)).ok_or_else(|| {
        let (tree, to) = (root.display(), beneath(root, path));
        let why = format!(
            "{tree} has no {shown}, where DKMS of the tree reads it: copy it to {} first",
            to.display()
        );
        Problem::usage(format!("--{flag}: {why}"))
    })
}

fn beneath(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Whether these are the bytes of a private key in PEM, without its certificate.
fn is_private_key(bytes: &[u8]) -> bool {
    has_pem(bytes, "PRIVATE KEY") && !has_pem(bytes, "CERTIFICATE")
}

/// Whether these are the bytes of a certificate, in DER or in PEM, without its private key.
fn is_certificate(bytes: &[u8]) -> bool {
    Certificate::of(bytes).is_some()
        || has_pem(bytes, "CERTIFICATE") && !has_pem(bytes, "PRIVATE KEY")
}

/// Whether a text in PEM has a block of this kind, such as `RSA PRIVATE KEY` for `PRIVATE KEY`.
fn has_pem(bytes: &[u8], kind: &str) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| {
        text.lines().any(|line| {
            line.starts_with("-----BEGIN ") && line.trim_end().ends_with(&format!("{kind}-----"))
        })
    })
}

/// Whether these are the bytes of a private key in PEM that is encrypted: in PKCS#8, or in the
/// older form of OpenSSL.
fn has_password(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----")
        || text.contains("Proc-Type: 4,ENCRYPTED")
}

/// The command line with the two files in each other's place, wherever they were named before.
fn exchanged(
    arguments: impl Iterator<Item = OsString>,
    (key, certificate): (&Path, &Path),
) -> String {
    let mut words = arguments
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned());
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some(("--mok-key" | "--mok-cert", _)) => {}
            None if ["--mok-key", "--mok-cert"].contains(&word.as_str()) => drop(words.next()),
            _ => kept.push(quoted(&word)),
        }
    }
    let program = if kept.first().is_some_and(|verb| verb == "apply") {
        "sudo gpusetup"
    } else {
        "gpusetup"
    };
    let files = [
        format!("--mok-key {}", quoted_path(certificate)),
        format!("--mok-cert {}", quoted_path(key)),
    ];
    [program.to_owned()]
        .into_iter()
        .chain(kept)
        .chain(files)
        .collect::<Vec<_>>()
        .join(" ")
}

/// The fewest bits of an RSA key. shim enrols shorter ones, too (its MokManager.c checks no
/// length); the UEFI specification, and with it Microsoft's guidance on keys for Secure Boot,
/// recommends RSA-2048 or better.
const RSA_BITS: usize = 2048;

fn day(time: &str) -> String {
    format!("{}-{}-{}", &time[..4], &time[4..6], &time[6..8])
}

/// Why a certificate cannot sign modules at a time, as `YYYYMMDDhhmmss`.
fn unfit_now(certificate: &Certificate, now: &str) -> Option<String> {
    match certificate {
        Certificate {
            signs_code: Some(false),
            ..
        } => Some("is not for signing code (extendedKeyUsage)".to_owned()),
        one if one.not_after.as_str() < now => Some(format!("expired on {}", day(&one.not_after))),
        one if one.not_before.as_str() > now => {
            Some(format!("is not valid before {}", day(&one.not_before)))
        }
        _ => None,
    }
}

/// Why modules cannot be signed with a certificate's key, or not every kernel reads the
/// certificate. The kernel's sign-file cannot sign with Ed25519 and DSA, and the kernel's parser of
/// certificates (crypto/asymmetric_keys/x509_cert_parser.c) knew RSA alone for long.
fn unfit_key(certificate: &Certificate) -> Option<String> {
    if let Some(kind) = other_kind(certificate.public_key) {
        return Some(format!(
            "has a key of the kind {kind}: modules need an RSA key, because the kernel's sign-file or older kernels take no other"
        ));
    }
    match rsa_bits(certificate.public_key) {
        Some(bits) if bits < RSA_BITS => {
            Some(format!("has an RSA key of {bits} bits; it needs {RSA_BITS} or more"))
        }
        _ if !certificate.is_signed_by_rsa_sha2() => Some(
            "is not signed by RSA (PKCS#1 v1.5) with SHA-2, and not every kernel reads other signatures of certificates"
                .to_owned(),
        ),
        _ => None,
    }
}

/// The command that makes a pair that works, beside the key.
fn new_pair(key: &Path) -> String {
    let [key, certificate] =
        ["rsa-modules.key", "rsa-modules.der"].map(|name| quoted_path(&key.with_file_name(name)));
    format!(
        "sudo openssl req -new -x509 -nodes -newkey rsa:2048 -sha256 -days 3650 -subj /CN=modules -addext extendedKeyUsage=codeSigning \
         -keyout {key} -outform DER -out {certificate}"
    )
}

/// The bytes of a key, if nobody but root can read it.
fn private(key: &Path, trust: &Trust) -> Result<Vec<u8>, Problem> {
    let refused = |why: String| Problem::usage(format!("--mok-key: {} {why}", key.display()));
    let open =
        input::open_trusted(key, trust).map_err(|e| refused(format!("cannot be used: {e}")))?;
    let meta = open
        .metadata()
        .map_err(|e| refused(format!("cannot be looked at: {e}")))?;
    if !is_ours(meta.uid()) || meta.mode() & 0o077 != 0 {
        let (path, mode) = (quoted_path(key), meta.mode() & 0o7777);
        let problem = refused(format!(
            "can be read by others (user {}, mode {mode:04o})",
            meta.uid()
        ));
        return Err(problem.attempt(format!("sudo chown root {path} && sudo chmod 600 {path}")));
    }
    input::bytes(open, key, MAX_KEY_BYTES).map_err(|e| refused(format!("cannot be used: {e}")))
}

/// The public half of a private key, as `SubjectPublicKeyInfo`.
fn public_key_of(key: &Path) -> Result<Vec<u8>, Problem> {
    let path = key.display().to_string();
    let program = Program::new([
        "openssl", "pkey", "-in", &path, "-passin", "pass:", "-pubout",
    ]);
    let failed =
        |why: &dyn Display| Problem::usage(format!("--mok-key: openssl cannot read {path}: {why}"));
    let output = System::live().run(&program).map_err(|e| failed(&e))?;
    let key = pem(&output.text).filter(|_| output.succeeded());
    key.ok_or_else(|| failed(&"it must be a private key in PEM"))
}

/// The bytes of the one PEM block in a text.
fn pem(text: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    let inside = text
        .split_once("-----BEGIN PUBLIC KEY-----")?
        .1
        .split_once("-----END")?
        .0;
    let digits: String = inside.split_whitespace().collect();
    base64::engine::general_purpose::STANDARD
        .decode(digits)
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    /// A key and its certificate by openssl, with these options.
    fn made(folder: &Path, name: &str, more: &[&str]) -> (PathBuf, PathBuf) {
        let at = |end: &str| folder.join(format!("{name}.{end}"));
        let (key, certificate) = (at("key"), at("der"));
        let output = Command::new("openssl")
            .args([
                "req", "-new", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=ours",
                "-outform", "DER",
            ])
            .args(more)
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&certificate)
            .output()
            .expect("openssl is there");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        (key, certificate)
    }

    fn outcome(key: &Path, certificate: &Path) -> String {
        checked(key, certificate, None).map_or_else(
            |problem| problem.message,
            |key| format!("taken {}", key.sha256),
        )
    }

    #[test]
    fn a_trees_key_is_in_the_tree() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let keys = dir.path().join("keys");
        fs::create_dir(&keys).expect("made");
        let (key, certificate) = made(&keys, "its", &["-addext", "extendedKeyUsage=codeSigning"]);
        let (inside, public) = (Path::new("/keys/its.key"), Path::new("/keys/its.der"));
        let taken = checked(inside, public, Some(dir.path())).expect("a pair");
        assert_eq!((&*taken.key, &*taken.certificate), (inside, public));
        let outer = checked(&key, &certificate, Some(dir.path())).expect_err("this host's path");
        assert!(
            outer
                .message
                .ends_with("name the tree's: --mok-key /keys/its.key"),
            "{}",
            outer.message
        );
        let missing = checked(Path::new("/keys/no.key"), public, Some(dir.path()))
            .expect_err("it is not there");
        let copy = format!("copy it to {} first", keys.join("no.key").display());
        assert!(missing.message.ends_with(&copy), "{}", missing.message);
    }

    #[test]
    fn a_key_that_cannot_sign_is_refused_before_anything_relies_on_it() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let usage = ["-addext", "extendedKeyUsage=codeSigning"];
        let (key, certificate) = made(dir.path(), "good", &usage);
        let der = fs::read(&certificate).expect("written");
        assert_eq!(
            outcome(&key, &certificate),
            format!("taken {}", sha256(&der))
        );
        let (other, _) = made(dir.path(), "other", &usage);
        assert!(
            outcome(&other, &certificate).contains("other.key is not the key of"),
            "{}",
            outcome(&other, &certificate)
        );
        let (key2, server) = made(
            dir.path(),
            "server",
            &["-addext", "extendedKeyUsage=serverAuth"],
        );
        let other_use = checked(&key2, &server, None).expect_err("for servers");
        assert!(
            other_use.message.contains("is not for signing code"),
            "{}",
            other_use.message
        );
        assert!(
            other_use.tries[0].contains("extendedKeyUsage=codeSigning"),
            "{:?}",
            other_use.tries
        );
        let pem = dir.path().join("good.pem");
        fs::write(&pem, "-----BEGIN CERTIFICATE-----\n").expect("written");
        assert!(outcome(&key, &pem).contains("is not a certificate in DER"));
        let two = dir.path().join("two.der");
        fs::write(&two, [der.as_slice(), &der].concat()).expect("written");
        assert!(
            outcome(&key, &two).contains("is not one whole certificate"),
            "{}",
            outcome(&key, &two)
        );
        let no_key = checked(&certificate, &certificate, None).expect_err("no private key");
        assert!(
            no_key
                .message
                .contains("good.der is a certificate, and --mok-key names"),
            "{}",
            no_key.message
        );
        let no_certificate = checked(&key, &key, None).expect_err("no certificate");
        let why = "good.key is a private key, and --mok-cert names its certificate";
        assert!(
            no_certificate.message.contains(why),
            "{}",
            no_certificate.message
        );
        let empty = dir.path().join("empty");
        fs::write(&empty, "").expect("written");
        let not_there = checked(&key, &empty, None).expect_err("nothing");
        for problem in [no_key, no_certificate, not_there] {
            assert!(
                problem.tries[0].starts_with("sudo openssl req "),
                "{:?}",
                problem.tries
            );
        }
        let swapped = checked(&certificate, &key, None).expect_err("each is the other's");
        assert!(
            swapped
                .message
                .contains("--mok-key and --mok-cert are exchanged"),
            "{}",
            swapped.message
        );
        assert!(
            swapped.tries[0].ends_with(&format!("--mok-cert {}", certificate.display())),
            "{:?}",
            swapped.tries
        );
        let (short, weak) = made(dir.path(), "short", &["-newkey", "rsa:1024"]);
        assert!(
            outcome(&short, &weak).contains("has an RSA key of 1024 bits"),
            "{}",
            outcome(&short, &weak)
        );
        let again = checked(&short, &weak, None).expect_err("short");
        assert!(
            again.tries[0].contains("-newkey rsa:2048")
                && again.tries[0].contains("rsa-modules.der"),
            "{again:?}"
        );
        let odd = dir.path().join("a b.der");
        fs::copy(&certificate, &odd).expect("copied");
        assert!(outcome(&key, &odd).contains("other characters"));
        fs::write(&other, "-----BEGIN ENCRYPTED PRIVATE KEY-----\n").expect("written");
        let encrypted = checked(&other, &certificate, None).expect_err("a password");
        assert!(
            encrypted.message.contains("has a password"),
            "{}",
            encrypted.message
        );
        assert!(
            encrypted.tries[0].starts_with("sudo openssl pkey -in "),
            "{:?}",
            encrypted.tries
        );
        fs::write(&other, "no key").expect("written");
        assert!(outcome(&other, &certificate).contains("openssl cannot read"));
        fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).expect("changed");
        let open = checked(&key, &certificate, None).expect_err("readable");
        assert!(
            open.message.contains("can be read by others"),
            "{}",
            open.message
        );
        assert!(
            open.tries[0].contains("sudo chmod 600 "),
            "{:?}",
            open.tries
        );
    }

    #[test]
    fn exchanged_files_are_named_in_the_same_command() {
        let of = |line: &str| {
            let words = line.split(' ').map(OsString::from);
            exchanged(words, (Path::new("k.der"), Path::new("k.key")))
        };
        let right = "--mok-key k.key --mok-cert k.der";
        let plan = of("gpusetup plan --facts f.json --mok-key k.der --gpu a100 --mok-cert=k.key");
        assert_eq!(
            plan,
            format!("gpusetup plan --facts f.json --gpu a100 {right}")
        );
        assert_eq!(
            of("gpusetup apply --root /mnt"),
            format!("sudo gpusetup apply --root /mnt {right}")
        );
    }

    #[test]
    fn only_rsa_keys_in_pem_are_taken() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let curve = |name: &'static str| vec!["-newkey", "ec", "-pkeyopt", name];
        for (name, options, why) in [
            ("ed", vec!["-newkey", "ed25519"], "of the kind Ed25519"),
            (
                "p256",
                curve("ec_paramgen_curve:P-256"),
                "of the kind elliptic-curve",
            ),
            (
                "k1",
                curve("ec_paramgen_curve:secp256k1"),
                "of the kind elliptic-curve",
            ),
            (
                "pss",
                vec!["-newkey", "rsa-pss", "-pkeyopt", "rsa_keygen_bits:2048"],
                "of the kind RSASSA-PSS",
            ),
            (
                "padded",
                vec!["-sha256", "-sigopt", "rsa_padding_mode:pss"],
                "not signed by RSA (PKCS#1 v1.5)",
            ),
        ] {
            let (key, certificate) = made(dir.path(), name, &options);
            let problem = checked(&key, &certificate, None).expect_err(name);
            assert!(problem.message.contains(why), "{}", problem.message);
            assert!(
                problem.tries[0].contains("openssl req "),
                "{:?}",
                problem.tries
            );
        }
        let (key, certificate) = made(dir.path(), "good", &[]);
        let der = dir.path().join("key.der");
        let output = Command::new("openssl")
            .args(["pkey", "-outform", "DER", "-in"])
            .arg(&key)
            .arg("-out")
            .arg(&der)
            .output()
            .expect("openssl is there");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        fs::set_permissions(&der, fs::Permissions::from_mode(0o600)).expect("changed");
        assert!(
            outcome(&der, &certificate).contains("key.der is in DER"),
            "{}",
            outcome(&der, &certificate)
        );
    }

    #[test]
    fn a_certificate_counts_between_its_dates() {
        let valid = Certificate {
            name: String::new(),
            not_before: "20250101000000".to_owned(),
            not_after: "20260101000000".to_owned(),
            signs_code: None,
            public_key: &[],
            signature: &[],
        };
        let unfit = |now: &str| unfit_now(&valid, now);
        assert_eq!(unfit("20250601000000"), None);
        assert_eq!(
            unfit("20241231235959").as_deref(),
            Some("is not valid before 2025-01-01")
        );
        assert_eq!(
            unfit("20260101000001").as_deref(),
            Some("expired on 2026-01-01")
        );
    }
}
