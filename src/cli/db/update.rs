//! `gpusetup db update`: a newer database, believed for its signature alone.

use super::super::host::must_be_private;
use super::super::options::{DatabaseOptions, JsonOption, to_the_end};
use super::super::upstream::{self, Lists, MAX_SIGNATURES};
use super::super::{Problem, print};
use crate::database::archive::{self, MAX_BYTES};
use crate::database::store::{StoreError, Updated};
use crate::database::{VERSION, embedded};
use crate::exit::Exit;
use crate::fetch::Sources;
use crate::signed::{KEYS, SignatureError};
use crate::system::{System, today};
use crate::text::{public_address, visible};
use std::path::PathBuf;

/// The name of the database in a release.
const DATABASE: &str = "database.tar.xz";

/// What `db update` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The database: a file that `db pack` made, or its address [default: that of the newest
    /// release]
    #[arg(long, value_name = "URL|FILE")]
    from: Option<String>,
    /// Trust this minisign public key instead of the release keys: for a database of your own
    ///
    /// May be given several times: each of the keys must have signed it, one signature after the
    /// other in the .minisig file. minisign signs a file under its name, so a renamed file is
    /// refused.
    #[arg(long, value_name = "FILE", env = "GPUSETUP_KEY", value_delimiter = ',')]
    key: Vec<PathBuf>,
    /// Accept a database that has expired, or that is older than one that was accepted here before
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
    fn tell(
        options: &Options,
        database: &'a str,
        changed: bool,
        text: &str,
    ) -> Result<(), Problem> {
        if options.form.json {
            return super::super::print_json(&Update {
                schema: "gpusetup.db-update/1",
                database,
                changed,
            });
        }
        print(text)
    }
}

pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    let store = options.database.store();
    if options.built_in {
        let was = store.forget().map_err(store_problem)?;
        let what = if was {
            "the installed database is gone"
        } else {
            "none was installed"
        };
        let text = format!("{what}: the one in this binary is in use\n");
        Update::tell(options, VERSION, was, &text)?;
        return Ok(Exit::Done);
    }
    let from = match &options.from {
        Some(from) => from.clone(),
        None => upstream::address(DATABASE).ok_or_else(|| {
            Problem::usage("this gpusetup was built without the address of its releases").attempt(
                "gpusetup db update --from https://mirror.example/gpusetup/database.tar.xz",
            )
        })?,
    };
    let from = from.as_str();
    must_be_private(&System::live(), options.database.folder_of_the_store())?;
    let sources = Sources {
        ca_cert: options.ca_cert.clone(),
        ..Sources::default()
    };
    let lists = Lists {
        at: upstream::sibling(from, KEYS),
        store: &store,
        keep: true,
        sources: &sources,
    };
    let signers = upstream::signers(&options.key, "databases", &lists)?;
    let bytes = upstream::read(from, MAX_BYTES, &sources)?
        .ok_or_else(|| Problem::usage(format!("there is no {}", public_address(from))))?;
    let signature = format!("{from}.minisig");
    let signature = upstream::read(&signature, MAX_SIGNATURES, &sources)?.ok_or_else(|| {
        refused(
            from,
            &format_args!(
                "it is not signed, there is no {}",
                public_address(&signature)
            ),
        )
    })?;
    let signature = String::from_utf8_lossy(&signature);
    let today = today();
    let last_day = (!options.allow_older).then_some(today.as_str());
    signers
        .verify(upstream::name_at(from), &bytes, &signature, last_day)
        .map_err(|e| match e {
            SignatureError::Expired { .. } => refused(from, &e).hint(HOW_TO_TAKE_OLDER),
            e => refused(from, &e),
        })?;
    let database = archive::unpack(&bytes).map_err(|e| refused(from, &e))?;
    must_not_have_expired(&database, last_day, from)?;
    // What cannot be used any more must not stand in the way of its own replacement.
    let used = store
        .newer_than(VERSION)
        .ok()
        .flatten()
        .unwrap_or_else(embedded);
    let used = to_the_end(used);
    let done = store
        .install(
            &bytes,
            &signature,
            &database,
            used,
            options.allow_older.then_some(VERSION),
        )
        .map_err(|e| match e {
            StoreError::Replayed { .. } => refused(from, &e).hint(HOW_TO_TAKE_OLDER),
            StoreError::NotNewer { .. } | StoreError::Other(_) => refused(from, &e),
            e => store_problem(e),
        })?;
    let version = &database.version;
    match done {
        Updated::Already => {
            Update::tell(
                options,
                version,
                false,
                &format!("database {version} is in use already\n"),
            )?;
        }
        Updated::Installed => {
            let text = format!(
                "database {version} is in use now, {} before\n",
                used.version
            );
            Update::tell(options, version, true, &text)?;
        }
    }
    Ok(Exit::Done)
}

const HOW_TO_TAKE_OLDER: &str = "if you mean it: --allow-older";

fn refused(from: &str, why: &dyn std::fmt::Display) -> Problem {
    Problem::integrity(format!("{} is refused: {why}", public_address(from)))
}

/// Refuses a database whose last day was before this one.
fn must_not_have_expired(
    database: &crate::compat::Database,
    last_day: Option<&str>,
    from: &str,
) -> Result<(), Problem> {
    let Some(day) = &database.expires else {
        return Ok(());
    };
    let last: jiff::civil::Date = day.parse().map_err(|_| {
        let day = visible(day);
        refused(
            from,
            &format_args!("it expires on `{day}`, which is not a day"),
        )
    })?;
    if last_day.is_some_and(|today| last.to_string().as_str() < today) {
        let why = format!("it expired on {day}: it may be an old database sent again");
        return Err(refused(from, &why).hint(HOW_TO_TAKE_OLDER));
    }
    Ok(())
}

fn store_problem(error: StoreError) -> Problem {
    let denied = matches!(&error, StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied);
    if denied {
        return Problem::new(
            Exit::Blocked,
            "only root may change the database of this host",
        )
        .hint("run it with sudo");
    }
    Problem::unexpected(format!("the database cannot be installed: {error}"))
}
