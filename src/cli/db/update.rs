//! `gpusetup db update`: a newer database, believed for its signature alone.

use super::super::files::read_key;
use super::super::host::must_be_private;
use super::super::options::{DatabaseOptions, JsonOption, to_the_end};
use super::super::{Problem, print, say};
use crate::database::archive::{self, MOST_BYTES};
use crate::database::store::{StoreError, Updated};
use crate::database::{VERSION, embedded};
use crate::exit::Exit;
use crate::fetch::{Sources, fetch_small};
use crate::system::System;
use crate::system::input::{self, InputError};
use crate::text::visible;
use std::path::{Path, PathBuf};

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
    /// Accept a database older than one that was accepted here before
    #[arg(long, conflicts_with = "built_in")]
    allow_older: bool,
    /// Take away what was installed, and use the database in this binary again
    #[arg(long, conflicts_with = "from")]
    built_in: bool,
    /// Trust the certificates in this file (PEM) too
    #[arg(long, value_name = "FILE", env = "GPUSETUP_CA_CERT")]
    ca_cert: Option<PathBuf>,
    #[command(flatten)]
    form: JsonOption,
    #[command(flatten)]
    database: DatabaseOptions,
}

/// What `db update --json` prints.
#[derive(serde::Serialize)]
struct Update<'a> {
    schema: &'static str,
    /// The version in use now.
    database: &'a str,
    /// Whether another one was in use before.
    changed: bool,
}

impl<'a> Update<'a> {
    fn tell(options: &Options, database: &'a str, changed: bool, text: &str) -> Result<(), Problem> {
        if options.form.json {
            return super::super::print_json(&Update { schema: "gpusetup.db-update/1", database, changed });
        }
        print(text)
    }
}

/// Does it.
pub fn run(options: &Options) -> Result<Exit, Problem> {
    let store = options.database.store();
    let Some(from) = options.from.as_deref().filter(|_| !options.built_in) else {
        let was = store.forget().map_err(told)?;
        let what = if was { "the installed database is gone" } else { "none was installed" };
        Update::tell(options, VERSION, was, &format!("{what}: the one in this binary is in use\n"))?;
        return Ok(Exit::Done);
    };
    must_be_private(&System::live(), options.database.folder_of_the_store())?;
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
    let used = store.newer_than(VERSION).ok().flatten().unwrap_or_else(embedded);
    let used = to_the_end(used);
    let done = store.install(&bytes, &signature, &database, used, options.allow_older).map_err(|e| match e {
        StoreError::Replayed { .. } => refused(&e).hint("if you mean it: --allow-older"),
        StoreError::NotNewer { .. } | StoreError::Other(_) => refused(&e),
        e => told(e),
    })?;
    let version = &database.version;
    match done {
        Updated::Already => {
            Update::tell(options, version, false, &format!("database {version} is in use already\n"))?;
        }
        Updated::Installed => {
            let text = format!("database {version} is in use now, {} before\n", used.version);
            Update::tell(options, version, true, &text)?;
        }
    }
    Ok(Exit::Done)
}

fn key(options: &Options) -> Result<String, Problem> {
    match (&options.key, PINNED) {
        (Some(path), pinned) => {
            let key = read_key(path)?;
            // By its variable in the environment nobody would see it.
            let instead = if pinned.is_some() { ", not the release key" } else { "" };
            say(&format!("trusting databases signed by the key in {}{instead}", visible(&path.to_string_lossy())));
            Ok(key)
        }
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
        return fetch_small(from, limit, sources).map_err(|e| Problem::new(Exit::Later, e.to_string()));
    }
    let path = Path::new(from.strip_prefix("file://").unwrap_or(from));
    match input::open(path).and_then(|file| input::bytes(file, path, limit)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.is_absent() => Ok(None),
        Err(e @ InputError::TooLong { .. }) => Err(Problem::integrity(e.to_string())),
        Err(e) => Err(e.into()),
    }
}

fn told(error: StoreError) -> Problem {
    let denied =
        matches!(&error, StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied);
    if denied {
        return Problem::new(Exit::Blocked, "only root may change the database of this host").hint("run it with sudo");
    }
    Problem::unexpected(format!("the database cannot be installed: {error}"))
}
