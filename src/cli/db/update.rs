//! `gpusetup db update`: a newer database, believed for its signature alone.

use super::super::apply::must_be_private;
use super::super::options::{DatabaseOptions, to_the_end};
use super::super::{Problem, print};
use crate::database::archive::{self, MOST_BYTES};
use crate::database::store::{Store, StoreError, Updated};
use crate::fetch::{Sources, fetch_small};
use crate::system::System;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

/// The release key that whoever built this gave it.
const PINNED: Option<&str> = option_env!("GPUSETUP_RELEASE_KEY");

/// What `db update` is told.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The database: a file that `db pack` made, or its address
    #[arg(long, value_name = "URL|FILE", required_unless_present = "built_in")]
    from: Option<String>,
    /// Believe this minisign public key instead of the release key: for a database of your own
    #[arg(long, value_name = "FILE", env = "GPUSETUP_KEY")]
    key: Option<PathBuf>,
    /// Take away what was installed, and use the database in this binary again
    #[arg(long, conflicts_with = "from")]
    built_in: bool,
    /// Trust the certificates in this file (PEM) too
    #[arg(long, value_name = "FILE", env = "GPUSETUP_CA_CERT")]
    ca_cert: Option<PathBuf>,
    #[command(flatten)]
    database: DatabaseOptions,
}

/// Does it.
pub fn run(options: &Options) -> Result<u8, Problem> {
    let store = Store::at(&options.database.store);
    let Some(from) = options.from.as_deref().filter(|_| !options.built_in) else {
        let was = store.forget().map_err(told)?;
        let what = if was { "the installed database is gone" } else { "none was installed" };
        print(&format!("{what}: the one in this binary is in use\n"))?;
        return Ok(0);
    };
    must_be_private(&System::live(), &options.database.store)?;
    let key = key(options)?;
    let refused = |why: &dyn std::fmt::Display| Problem::integrity(format!("{from} is refused: {why}"));
    let sources = Sources { ca_cert: options.ca_cert.clone(), ..Sources::default() };
    let bytes = read(from, MOST_BYTES, &sources)?.ok_or_else(|| Problem::usage(format!("there is no {from}")))?;
    let signature = format!("{from}.minisig");
    let unsigned = || refused(&format_args!("it is not signed, there is no {signature}"));
    let signature = read(&signature, 4096, &sources)?.ok_or_else(unsigned)?;
    let signature = String::from_utf8_lossy(&signature);
    archive::verify(&bytes, &signature, &key).map_err(|e| refused(&e))?;
    let database = archive::unpack(&bytes).map_err(|e| refused(&e))?;
    // What cannot be used any more must not stand in the way of its own replacement.
    let used = DatabaseOptions { folder: None, store: options.database.store.clone() }.open();
    let used = used.unwrap_or_else(|_| to_the_end(crate::database::embedded()));
    let done = store.install(&bytes, &signature, &database, used).map_err(|e| match e {
        StoreError::NotNewer { .. } | StoreError::Other(_) => refused(&e),
        e => told(e),
    })?;
    let version = &database.version;
    match done {
        Updated::Already => print(&format!("database {version} is in use already\n"))?,
        Updated::Installed => print(&format!("database {version} is in use now, {} before\n", used.version))?,
    }
    Ok(0)
}

fn key(options: &Options) -> Result<String, Problem> {
    match (&options.key, PINNED) {
        (Some(path), _) => std::fs::read_to_string(path)
            .map_err(|e| Problem::usage(format!("cannot read the key {}: {e}", path.display()))),
        (None, Some(pinned)) => Ok(pinned.to_owned()),
        (None, None) => {
            Err(Problem::integrity("this gpusetup was built without a release key, so it believes no database")
                .hint("--key FILE believes the minisign public key of your own"))
        }
    }
}

/// What is there, at most `limit` bytes; none where there is nothing.
fn read(from: &str, limit: u64, sources: &Sources) -> Result<Option<Vec<u8>>, Problem> {
    if from.contains("://") && !from.starts_with("file://") {
        return fetch_small(from, limit, sources).map_err(|e| Problem::new(6, e.to_string()));
    }
    let path = from.strip_prefix("file://").unwrap_or(from);
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes)) {
        Ok(_) if bytes.len() as u64 > limit => Err(Problem::integrity(format!("{path} is longer than {limit} bytes"))),
        Ok(_) => Ok(Some(bytes)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Problem::usage(format!("cannot read {path}: {e}"))),
    }
}

fn told(error: StoreError) -> Problem {
    let denied =
        matches!(&error, StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied);
    if denied {
        return Problem::new(5, "only root may change the database of this host").hint("run it with sudo");
    }
    Problem::unexpected(format!("the database cannot be installed: {error}"))
}
