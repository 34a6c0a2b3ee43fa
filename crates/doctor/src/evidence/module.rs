//! A kernel module's file and its signature, read as modinfo reads them: the place from depmod's
//! list, the signer from the PKCS#7 message that `sign-file` appends to the module.

use flate2::bufread::GzDecoder;
use gpusetup_host::driver_module;
use gpusetup_system::System;
use gpusetup_system::certificate::{INTEGER, SEQUENCE, SET, TAGGED, common_name, elements, inside};
use gpusetup_system::limits::{DECODER_MEMORY, MAX_RECORD};
use gpusetup_system::zst;
use liblzma::bufread::XzDecoder;
use liblzma::stream::Stream;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// The last bytes of a signed module.
const MAGIC: &[u8] = b"~Module signature appended~\n";
/// Before that: algorithm, hash, type of id, lengths of signer and key id, three bytes of padding,
/// length of the signature.
const TRAILER: usize = 12;
/// The type of id for PKCS#7, the only one since Linux 4.3.
const PKCS7: u8 = 2;
/// The bytes kept from the end of a module: a signature has less than a kilobyte, and few contain
/// certificates.
const TAIL: usize = 64 << 10;
/// The largest unpacked size of a compressed module; NVIDIA's have a hundred megabytes.
const UNPACKED: u64 = 256 << 20;

/// The file of the driver's main module that the kernel's `modules.dep` names.
pub(crate) fn file(system: &System, kernel: &str) -> Option<PathBuf> {
    let directory = Path::new("/lib/modules").join(kernel);
    let list = system
        .read_text_up_to(directory.join("modules.dep"), MAX_RECORD)
        .ok()
        .flatten()?;
    let mut mains = list.lines().filter_map(|line| {
        let path = line.split(':').next()?;
        let (stem, _) = path.rsplit('/').next()?.split_once(".ko")?;
        (driver_module(stem).as_deref() == Some("nvidia")).then_some((stem, path))
    });
    // Debian's names are aliases of this one, which comes first where both are there.
    let plain = mains.clone().find(|(stem, _)| *stem == "nvidia");
    let (_, path) = plain.or_else(|| mains.next())?;
    Some(directory.join(path))
}

/// The signer of a module: the common name of the key's issuer. None if it is unsigned or names no
/// signer.
pub(crate) fn signer(system: &System, path: &Path) -> io::Result<Option<String>> {
    let end = tail(unpacked(system, path)?)?;
    Ok(signature(&end).and_then(issuer))
}

fn unpacked(system: &System, path: &Path) -> io::Result<impl Read + use<>> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let meter = system.meter(path);
    let input = BufReader::with_capacity(1 << 17, meter.of(system.open(path)?));
    let unpacked: Box<dyn Read> = match ending {
        Some("xz") => Box::new(XzDecoder::new_stream(
            input,
            Stream::new_stream_decoder(DECODER_MEMORY, 0)?,
        )),
        Some("gz") => Box::new(GzDecoder::new(input)),
        Some("zst") => Box::new(zst::Decoder::with_buffer(input)?),
        _ => Box::new(input),
    };
    Ok(meter.of(unpacked))
}

/// The last [`TAIL`] bytes.
fn tail(input: impl Read) -> io::Result<Vec<u8>> {
    let mut input = input.take(UNPACKED + 1);
    let (mut end, mut block, mut all) = (Vec::new(), vec![0; TAIL], 0);
    loop {
        let read = match input.read(&mut block) {
            Ok(0) => return Ok(end),
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        all += read as u64;
        if all > UNPACKED {
            return Err(io::Error::other("larger than any kernel module"));
        }
        end.extend_from_slice(&block[..read]);
        end.drain(..end.len().saturating_sub(TAIL));
    }
}

/// The PKCS#7 message at the end of a module.
fn signature(end: &[u8]) -> Option<&[u8]> {
    let before = end.strip_suffix(MAGIC)?;
    let (before, trailer) = before.split_at_checked(before.len().checked_sub(TRAILER)?)?;
    let length = u32::from_be_bytes(trailer[8..].try_into().ok()?) as usize;
    let message = before.get(before.len().checked_sub(length)?..)?;
    (trailer[2] == PKCS7).then_some(message)
}

/// The common name of the issuer of the first signer's certificate, by RFC 5652: `ContentInfo`,
/// `SignedData`, `SignerInfo`, `IssuerAndSerialNumber`. A self-signed certificate is its own
/// issuer.
fn issuer(message: &[u8]) -> Option<String> {
    let (_, content) = elements(inside(message, SEQUENCE)?).find(|(tag, _)| *tag == TAGGED)?;
    // The last set of the signed data has the signers; the first has the algorithms.
    let (_, signers) = elements(inside(content, SEQUENCE)?)
        .filter(|(tag, _)| *tag == SET)
        .last()?;
    let mut fields = elements(inside(signers, SEQUENCE)?);
    fields.next().filter(|(tag, _)| *tag == INTEGER)?;
    // A signer that is identified only by its key id has another tag here.
    let (_, who) = fields.next().filter(|(tag, _)| *tag == SEQUENCE)?;
    common_name(inside(who, SEQUENCE)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    fn run(program: &str, arguments: &[&str]) {
        let output = Command::new(program)
            .args(arguments)
            .output()
            .expect("it is there");
        assert!(
            output.status.success(),
            "{program}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// The bytes that sign-file appends: a detached message of openssl, and the trailer.
    fn signed(folder: &Path, name: &str) -> Vec<u8> {
        let at = |file: &str| folder.join(file).to_str().expect("UTF-8").to_owned();
        std::fs::write(at("module"), b"\x7fELF and so on").expect("written");
        let subject = format!("/O=DKMS/CN={name}");
        run(
            "openssl",
            &[
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-subj",
                &subject,
                "-keyout",
                &at("key"),
                "-out",
                &at("certificate"),
            ],
        );
        run(
            "openssl",
            &[
                "cms",
                "-sign",
                "-binary",
                "-nocerts",
                "-noattr",
                "-outform",
                "DER",
                "-in",
                &at("module"),
                "-inkey",
                &at("key"),
                "-signer",
                &at("certificate"),
                "-out",
                &at("message"),
            ],
        );
        let message = std::fs::read(at("message")).expect("written");
        let trailer = [
            &[0, 0, PKCS7, 0, 0, 0, 0, 0][..],
            &(message.len() as u32).to_be_bytes(),
        ]
        .concat();
        [
            b"\x7fELF and so on".to_vec(),
            message,
            trailer,
            MAGIC.to_vec(),
        ]
        .concat()
    }

    #[test]
    fn the_signer_is_the_issuer_that_openssl_wrote() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        let module = signed(dir.path(), "node Secure Boot Module Signature key");
        system
            .make_directories("/lib/modules/6.1.0/updates/dkms", 0o755)
            .expect("made");
        let list = "kernel/fs/ext4.ko: kernel/lib/crc16.ko\nupdates/dkms/nvidia-current-uvm.ko.zst:\nupdates/dkms/nvidia-current-open.ko.zst:\n";
        system
            .write("/lib/modules/6.1.0/modules.dep", list.as_bytes(), 0o644)
            .expect("written");
        let path = file(&system, "6.1.0").expect("listed");
        assert_eq!(
            path,
            Path::new("/lib/modules/6.1.0/updates/dkms/nvidia-current-open.ko.zst")
        );
        let write = |path: &Path, bytes: &[u8]| system.write(path, bytes, 0o644).expect("written");
        write(&path, &zstd::encode_all(&*module, 3).expect("packed"));
        let want = Some("node Secure Boot Module Signature key".to_owned());
        assert_eq!(signer(&system, &path).expect("read"), want);
        write(Path::new("/a.ko"), &module);
        assert_eq!(signer(&system, Path::new("/a.ko")).expect("read"), want);
        write(Path::new("/a.ko"), b"\x7fELF and so on");
        assert_eq!(signer(&system, Path::new("/a.ko")).expect("read"), None);
        assert!(signer(&system, Path::new("/b.ko")).is_err());
        // Each byte is changed in turn: parsing must always end.
        let message = signature(&module).expect("signed").to_owned();
        for at in 0..message.len() {
            for with in [0, 0x30, 0x84, 0xff] {
                let mut broken = message.clone();
                broken[at] = with;
                let _ = issuer(&broken);
                let _ = issuer(&broken[..at]);
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_bring_it_down(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = issuer(&bytes);
            bytes.extend(MAGIC);
            let _ = signature(&bytes);
        }
    }
}
