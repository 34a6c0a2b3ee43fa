//! `--driver-file`: a driver's runfile on this host or at an address.

use super::Problem;
use crate::resolve::{DriverFile, NameError, Named};
use crate::system::digest_of_file;
use crate::system::input::{self, InputError};
use crate::system::trust::Trust;
use crate::text::{public_address, quoted};
use std::path::Path;
use url::Url;

/// The file that the option names. A file of this host is read for its checksum, unless that is
/// given.
pub(crate) fn read(text: &str, sha256: Option<&str>) -> Result<DriverFile, Problem> {
    match Url::parse(text) {
        Ok(url) if url.scheme() == "file" => match url.to_file_path() {
            Ok(path) => of_path(&path, sha256),
            Err(()) => Err(refused(text, "is not the address of a file of this host")),
        },
        Ok(url) if ["http", "https"].contains(&url.scheme()) => {
            if url.password().is_some() || !url.username().is_empty() {
                return Err(Problem::usage(
                    "--driver-file: the address has a login, which the plan and its journal would show",
                ));
            }
            of_address(text, &url, sha256)
        }
        Ok(url) if text.contains("://") => {
            let known = "http://, https:// and file:// are known";
            Err(refused(
                text,
                &format!(
                    "has an address of an unknown kind, {}://; {known}",
                    url.scheme()
                ),
            ))
        }
        _ => of_path(Path::new(text), sha256),
    }
}

fn of_address(text: &str, url: &Url, sha256: Option<&str>) -> Result<DriverFile, Problem> {
    let Some(sha256) = sha256 else {
        let problem = refused(
            text,
            "needs the checksum of the file, so that nothing else is run",
        );
        return Err(problem.attempt(format!(
            "--driver-file {} --driver-file-sha256 SUM",
            quoted(&public_address(text))
        )));
    };
    let file = url
        .path_segments()
        .and_then(|mut segments| segments.next_back())
        .unwrap_or_default();
    let is = named(text, file)?;
    Ok(DriverFile {
        is,
        file: file.to_owned(),
        url: text.to_owned(),
        sha256: sha256.to_owned(),
        size: None,
    })
}

fn of_path(path: &Path, sha256: Option<&str>) -> Result<DriverFile, Problem> {
    let text = path.display().to_string();
    let file = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let is = named(&text, &file)?;
    // With a checksum the content is known, whoever may write the file.
    let trust = if sha256.is_some() {
        Trust::Anybody
    } else {
        Trust::where_root_acts(&[])?
    };
    let open = input::open_trusted(path, &trust).map_err(|e| {
        let problem = Problem::usage(format!("--driver-file: {e}"));
        match e {
            InputError::Untrusted { .. } | InputError::Link(_) => {
                problem.hint("give its checksum with --driver-file-sha256 SUM")
            }
            _ => problem,
        }
    })?;
    let unread = |e: std::io::Error| refused(&text, &format!("cannot be read: {e}"));
    let size = open.metadata().map_err(unread)?.len();
    let sha256 = match sha256 {
        Some(sha256) => sha256.to_owned(),
        None => digest_of_file(open).map_err(unread)?,
    };
    let path = std::path::absolute(path).map_err(unread)?;
    let url = Url::from_file_path(&path).map_err(|()| refused(&text, "has no absolute path"))?;
    Ok(DriverFile {
        is,
        file,
        url: url.into(),
        sha256,
        size: Some(size),
    })
}

fn named(text: &str, file: &str) -> Result<Named, Problem> {
    Named::of(file).map_err(|e| {
        let problem = refused(text, &format!("cannot be used: {e}"));
        match e {
            NameError::Form => {
                problem.hint("give the file the name that NVIDIA or the cloud provider gave it")
            }
            NameError::Manager => problem,
        }
    })
}

fn refused(text: &str, why: &str) -> Problem {
    Problem::usage(format!(
        "--driver-file: {} {why}",
        quoted(&public_address(text))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUEST: &str = "NVIDIA-Linux-x86_64-570.211.01-grid-azure.run";
    const SUM: &str = "72056e38ee17d86606ebdb97594d01cd1fe64b1fbd7e1a888634fa959529ca0a";

    #[test]
    fn a_file_is_bound_to_its_content() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join(GUEST);
        std::fs::write(&path, "runs").expect("written");
        let text = path.display().to_string();
        let read_without = read(&text, None).expect("a driver");
        assert_eq!(read_without.sha256, crate::sum::sha256("runs"));
        assert_eq!((read_without.size, read_without.is.guest), (Some(4), true));
        assert_eq!(read_without.url, format!("file://{text}"));
        assert_eq!(
            read(&read_without.url, Some(SUM)).expect("the same").sha256,
            SUM
        );
    }

    #[test]
    fn what_cannot_be_verified_or_is_no_driver_is_refused() {
        let address = format!("https://download.example/x/{GUEST}");
        let refusal = |text: &str, sum| read(text, sum).expect_err(text).message;
        assert!(refusal(&address, None).contains("checksum"));
        assert_eq!(
            read(&format!("{address}?token=1"), Some(SUM))
                .expect("a driver")
                .file,
            GUEST
        );
        let problem = read(&format!("{address}?token=hunter2"), None).expect_err("no checksum");
        assert!(!format!("{problem:?}").contains("hunter2"), "{problem:?}");
        let manager = "https://download.example/NVIDIA-Linux-x86_64-570.211.01-vgpu-kvm.run";
        assert!(refusal(manager, Some(SUM)).contains("hypervisor"));
        assert!(refusal("/nowhere/at/all.run", None).contains("name"));
        assert!(refusal(&format!("/nowhere/{GUEST}"), None).contains("No such file"));
        assert!(
            refusal("ftp://download.example/driver.run", Some(SUM)).contains("ftp://; http://")
        );
        let login = format!("https://me:secret@download.example/{GUEST}");
        assert!(
            refusal(&login, Some(SUM)).contains("login")
                && !refusal(&login, Some(SUM)).contains("secret")
        );
        let dir = tempfile::tempdir().expect("a temporary directory");
        let pipe = dir.path().join(GUEST);
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .expect("runs")
                .success()
        );
        assert!(refusal(&pipe.display().to_string(), None).contains("a pipe"));
    }
}
