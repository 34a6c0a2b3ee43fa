//! `gpusetup self`: newer releases for what the install script installed, its removal, and the
//! verification of a release's files.

use super::host::must_be_private;
use super::options::JsonOption;
use super::run::agreed;
use super::upstream::{self, Lists, MAX_SIGNATURES};
use super::{Problem, print, say};
use crate::database::is_newer;
use crate::exit::Exit;
use crate::fetch::Sources;
use crate::installation::{self, Installation, PROGRAM, RECEIPT, Receipt, is_below};
use crate::paths::JOURNAL;
use crate::signed::{KEYS, SignatureError};
use crate::sum::sha256;
use crate::system::trust::user_name;
use crate::system::{Program, System, chain, today};
use crate::text::{count, public_address, quoted_path, visible, without_logins};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The architecture of this program, as `uname -m` prints it.
const ARCHITECTURE: &str = if cfg!(target_arch = "powerpc64") {
    "ppc64le"
} else {
    std::env::consts::ARCH
};
/// The checksums of a release, and their size limit in bytes.
const SUMS: &str = "SHA256SUMS";
const MAX_SUMS: u64 = 64 << 10;
/// The size limit of an archive, packed or unpacked: some seven times today's size.
const MAX_BYTES: u64 = 64 << 20;
/// The program of an update before it replaces this one.
const NEW_PROGRAM: &str = "bin/.gpusetup-new";

/// What `self` does.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Replace this gpusetup by the newest release, if install.sh installed it
    Update(UpdateOptions),
    /// Remove this gpusetup, if install.sh installed it; what it installed stays
    Uninstall(UninstallOptions),
    /// Verify that a file is signed with the release keys, and show what was signed with it: its
    /// name, its last day
    Verify {
        /// The file; FILE.minisig has its signature
        file: PathBuf,
        /// Trust this minisign public key instead of the release keys
        #[arg(long, value_name = "FILE")]
        key: Vec<PathBuf>,
        #[command(flatten)]
        form: JsonOption,
    },
}

/// Flags of `self update`.
#[derive(Debug, clap::Args)]
pub(crate) struct UpdateOptions {
    /// Take this release, which may be older: 0.1.0
    #[arg(long, value_name = "VERSION", value_parser = version)]
    to: Option<String>,
    /// The address of the releases, or a folder with the files of one [default: that of the
    /// installation]
    #[arg(long, value_name = "URL|DIR")]
    from: Option<String>,
    /// Trust this minisign public key instead of the release keys
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// Also trust the certificates in this PEM file
    #[arg(long, value_name = "FILE", env = "GPUSETUP_CA_CERT")]
    ca_cert: Option<PathBuf>,
    /// Only show what would be installed
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    form: JsonOption,
}

/// Flags of `self uninstall`.
#[derive(Debug, clap::Args)]
pub(crate) struct UninstallOptions {
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    form: JsonOption,
}

fn version(text: &str) -> Result<String, String> {
    let version = text.trim_start_matches('v');
    semver::Version::parse(version)
        .map(|version| version.to_string())
        .map_err(|_| "a version is expected: 0.1.0".to_owned())
}

/// What `self update --json` and `self uninstall --json` print.
#[derive(serde::Serialize)]
struct Done<'a> {
    schema: &'static str,
    /// The version before.
    version: &'a str,
    /// The version that is or would be installed; none after a removal.
    offered: Option<&'a str>,
    /// Whether files were replaced or removed.
    changed: bool,
    /// The files that were or would be installed or removed.
    files: Vec<String>,
}

/// What `self verify --json` prints.
#[derive(serde::Serialize)]
struct Verified<'a> {
    schema: &'static str,
    /// The file, without the login and the query of an address.
    file: &'a str,
    /// Always true: it is an error if the signature does not match.
    signed: bool,
    /// The trusted comments of the signatures that match.
    comments: Vec<String>,
    /// The last day of the signature, if that is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    expired: Option<String>,
}

impl Done<'_> {
    fn tell(&self, form: JsonOption, text: &str) -> Result<Exit, Problem> {
        if form.json {
            super::print_json(self)?
        } else {
            print(&format!("{text}\n"))?
        }
        Ok(Exit::Done)
    }
}

pub(crate) fn run(command: &Command) -> Result<Exit, Problem> {
    match command {
        Command::Update(options) => update(options),
        Command::Uninstall(options) => uninstall(options),
        Command::Verify { file, key, form } => verify(file, key, *form),
    }
}

/// The folder and the receipt of this program's installation, which nobody else may have written.
fn installed(verb: &str) -> Result<(PathBuf, Receipt), Problem> {
    let system = System::live();
    let program = system.link_target("/proc/self/exe");
    let program = program.ok_or_else(|| Problem::unexpected("/proc/self/exe cannot be read"))?;
    let found = installation::of(&system, &program).map_err(|e| {
        Problem::unexpected(format!(
            "cannot tell who installed {}: {e}",
            program.display()
        ))
    })?;
    match found {
        Installation::Script { prefix, receipt } => {
            if let Some(owner) = other_owner(&system, &prefix) {
                let sentence = format!("{} belongs to {owner}", prefix.display());
                let command = format!("sudo -u {owner} {} self {verb}", quoted_path(&program));
                return Err(Problem::new(Exit::Blocked, sentence).attempt(command));
            }
            for folder in ["", "bin", "share", "share/gpusetup"] {
                must_be_private(&system, &prefix.join(folder))?;
            }
            Ok((prefix, receipt))
        }
        Installation::Managed { by, update, remove } => {
            let command = if verb == "update" { update } else { remove };
            Err(Problem::new(
                Exit::Blocked,
                format!("this gpusetup was installed with {by}"),
            )
            .attempt(command))
        }
        Installation::Unknown => {
            let sentence = format!(
                "{} was not installed by install.sh: it has no {RECEIPT}",
                program.display()
            );
            Err(Problem::new(Exit::Blocked, sentence)
                .hint("remove or replace it the way it was installed"))
        }
    }
}

/// The user that a folder belongs to, if root acts for somebody else there.
fn other_owner(system: &System, folder: &Path) -> Option<String> {
    let owner = system.metadata(folder).ok()?.uid();
    let is_root = rustix::process::geteuid().is_root();
    (is_root && owner != 0).then(|| user_name(system, owner).unwrap_or_else(|| owner.to_string()))
}

/// That a file cannot be written or removed, with a command that can.
fn denied(what: &str, path: &Path, e: &io::Error) -> Problem {
    let problem = Problem::unexpected(format!("cannot {what} {}: {e}", path.display()));
    if e.kind() == io::ErrorKind::PermissionDenied {
        problem.hint("run it with sudo")
    } else {
        problem
    }
}

/// A release of gpusetup, or the newest one.
struct Release<'a> {
    from: &'a str,
    /// The same without logins.
    shown: &'a str,
    wanted: Option<&'a str>,
    sources: &'a Sources,
}

impl Release<'_> {
    fn refused(&self, why: &str) -> Problem {
        Problem::integrity(format!("the release at {} is refused: {why}", self.shown))
    }

    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, Problem> {
        let at = upstream::below(self.from, self.wanted, name);
        upstream::read(&at, limit, self.sources)
    }

    fn file(&self, name: &str, limit: u64) -> Result<Vec<u8>, Problem> {
        self.read(name, limit)?.ok_or_else(|| {
            let at = upstream::below(self.shown, self.wanted, name);
            Problem::new(Exit::Later, format!("there is no {at}"))
        })
    }

    /// Its archive for this machine.
    fn archive<'s>(&self, sums: &'s str) -> Result<Entry<'s>, Problem> {
        let mut entries = archives_in(sums);
        if entries.len() > 1 {
            entries.retain(|entry| Some(entry.version) == self.wanted);
            if entries.is_empty() {
                return Err(self
                    .refused("it has several versions")
                    .hint("--to VERSION names one"));
            }
        }
        let Some(entry) = entries.into_iter().next() else {
            return Err(self.refused(&format!("it is not for {ARCHITECTURE}")));
        };
        match self.wanted {
            Some(wanted) if wanted != entry.version => {
                Err(self.refused(&format!("it is version {}", entry.version)))
            }
            _ => Ok(entry),
        }
    }
}

fn update(options: &UpdateOptions) -> Result<Exit, Problem> {
    let (prefix, receipt) = installed("update")?;
    let usual = Some(receipt.from.clone())
        .filter(|from| !from.is_empty())
        .or_else(upstream::releases);
    let from = options.from.clone().or(usual).ok_or_else(|| {
        Problem::usage("neither the receipt nor this gpusetup has an address of releases")
            .hint("--from URL names one")
    })?;
    let sources = Sources {
        ca_cert: options.ca_cert.clone(),
        ..Sources::default()
    };
    // The lists of the newest release, whichever release is wanted.
    let (at, store) = (upstream::below(&from, None, KEYS), upstream::store());
    let lists = Lists {
        at,
        store: &store,
        keep: !options.dry_run,
        sources: &sources,
    };
    let signers = upstream::signers(&options.key, "releases", &lists)?;
    let wanted = options.to.as_deref();
    let shown = &*without_logins(&from);
    let release = Release {
        from: &from,
        shown,
        wanted,
        sources: &sources,
    };
    let sums = release.file(SUMS, MAX_SUMS)?;
    let signatures = release.read(&format!("{SUMS}.minisig"), MAX_SIGNATURES)?;
    let signatures = signatures
        .ok_or_else(|| release.refused(&format!("it is not signed, there is no {SUMS}.minisig")))?;
    let signatures = String::from_utf8_lossy(&signatures);
    let today = today();
    // Whoever names a release may mean an old one.
    signers
        .verify(SUMS, &sums, &signatures, wanted.is_none().then_some(&today))
        .map_err(|e| match e {
            SignatureError::Expired { day } => expired(shown, &day, &today),
            e => release.refused(&e.to_string()),
        })?;
    let sums = String::from_utf8_lossy(&sums);
    let Entry {
        name,
        sum,
        version: offered,
    } = release.archive(&sums)?;
    let done = |changed, files| Done {
        schema: "gpusetup.self-update/1",
        version: VERSION,
        offered: Some(offered),
        changed,
        files,
    };
    // The receipt of an update that was interrupted is newer than the program.
    if offered == VERSION || wanted.is_none() && is_newer(VERSION, offered) {
        let text =
            format!("gpusetup {VERSION} is installed, and {shown} has {offered}: nothing to do");
        return done(false, Vec::new()).tell(options.form, &text);
    }
    if options.dry_run {
        return done(false, Vec::new()).tell(
            options.form,
            &format!(
                "would replace gpusetup {VERSION} by {offered} below {}",
                prefix.display()
            ),
        );
    }
    let archive = release.file(name, MAX_BYTES)?;
    if sha256(&archive) != sum {
        return Err(release.refused(&format!(
            "{name} is not what {SUMS} says: it was damaged on its way, or changed"
        )));
    }
    let files = unpacked(&archive).map_err(|e| release.refused(&format!("{name}: {e}")))?;
    let new = Receipt {
        version: offered.to_owned(),
        from: receipt.from.clone(),
        files: files.keys().cloned().chain([RECEIPT.to_owned()]).collect(),
    };
    replace(&prefix, &receipt, &new, &files)?;
    done(true, new.files.iter().cloned().collect()).tell(
        options.form,
        &format!(
            "gpusetup {offered} is installed below {}, {VERSION} before",
            prefix.display()
        ),
    )
}

/// That nobody has signed the newest release for too long: somebody may keep newer ones from this
/// host.
fn expired(from: &str, day: &str, today: &str) -> Problem {
    let [last, now] = [day, today].map(|text| text.parse::<jiff::civil::Date>().ok());
    let days = last
        .zip(now)
        .and_then(|(last, now)| last.until(now).ok())
        .map(|span| span.get_days());
    let past = days.map_or_else(String::new, |days| {
        count(u64::from(days.unsigned_abs()), "day") + " "
    });
    Problem::integrity(format!(
        "the newest release that {from} knows is {past}past its last day, {day}: newer ones may be kept from this host (a freeze attack)"
    ))
    .hint("name another address of the releases with --from URL, or, if you mean this release, its version with --to VERSION")
}

/// A line of the checksums.
struct Entry<'a> {
    sum: &'a str,
    name: &'a str,
    version: &'a str,
}

/// The archives for this machine in the checksums of a release: one, if whoever made them did it
/// right.
fn archives_in(sums: &str) -> Vec<Entry<'_>> {
    let end = format!("-{ARCHITECTURE}-linux.tar.gz");
    sums.lines()
        .filter_map(|line| {
            let (sum, name) = str::split_once(line, "  ")?;
            let version = name.strip_prefix("gpusetup-")?.strip_suffix(&end)?;
            semver::Version::parse(version)
                .is_ok()
                .then_some(Entry { sum, name, version })
        })
        .collect()
}

/// Files below a prefix: their modes, and their bytes.
type Files = BTreeMap<String, (u32, Vec<u8>)>;

/// The files in an archive, without the folder that they are in.
fn unpacked(archive: &[u8]) -> io::Result<Files> {
    let mut files = BTreeMap::new();
    let mut tar = tar::Archive::new(GzDecoder::new(archive).take(MAX_BYTES));
    for entry in tar.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        let strange = || io::Error::other(format!("it contains {}", visible(&path)));
        let (_, name) = path.split_once('/').ok_or_else(strange)?;
        if !entry.header().entry_type().is_file() || !is_below(name) {
            return Err(strange());
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        let mode = if name.starts_with("bin/") {
            0o755
        } else {
            0o644
        };
        files.insert(name.to_owned(), (mode, bytes));
    }
    if files.contains_key(PROGRAM) {
        Ok(files)
    } else {
        Err(io::Error::other(format!("it has no {PROGRAM}")))
    }
}

/// Puts the new files below the prefix. The receipt lists old and new files until the new program,
/// which was started once, is in its place: whatever interrupts this can be repeated or
/// uninstalled.
fn replace(prefix: &Path, old: &Receipt, new: &Receipt, files: &Files) -> Result<(), Problem> {
    let below = System::at(prefix);
    let replaced = put_files(&below, prefix, old, new, files);
    if replaced.is_err() {
        // Once it is in its place, there is none.
        let _ = below.remove(NEW_PROGRAM);
    }
    replaced
}

fn put_files(
    below: &System,
    prefix: &Path,
    old: &Receipt,
    new: &Receipt,
    files: &Files,
) -> Result<(), Problem> {
    put(below, prefix, NEW_PROGRAM, &files[PROGRAM])?;
    let start = prefix.join(NEW_PROGRAM).to_string_lossy().into_owned();
    let output = System::live().run(&Program::new([start.as_str(), "--version"]));
    if !output
        .as_ref()
        .is_ok_and(|output| output.succeeded() && output.text.contains(&new.version))
    {
        let why = output.map_or_else(|e| chain(&e), |output| output.last_lines(2));
        return Err(Problem::integrity(format!(
            "gpusetup {} does not run here: {why}",
            new.version
        )));
    }
    let files_of_both = old
        .files
        .union(&new.files)
        .cloned()
        .chain([NEW_PROGRAM.to_owned()]);
    let both = Receipt {
        files: files_of_both.collect(),
        ..old.clone()
    };
    put(below, prefix, RECEIPT, &(0o644, both.text().into_bytes()))?;
    for (path, file) in files.iter().filter(|(path, _)| *path != PROGRAM) {
        put(below, prefix, path, file)?;
    }
    below
        .rename(NEW_PROGRAM, PROGRAM)
        .map_err(|e| denied("write", &prefix.join(PROGRAM), &e))?;
    for path in old.files.difference(&new.files) {
        below
            .remove(path)
            .map_err(|e| denied("write", &prefix.join(path), &e))?;
    }
    put(below, prefix, RECEIPT, &(0o644, new.text().into_bytes()))
}

/// Writes a file below the prefix, with its folders.
fn put(
    below: &System,
    prefix: &Path,
    path: &str,
    (mode, bytes): &(u32, Vec<u8>),
) -> Result<(), Problem> {
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    below
        .make_directories(folder, 0o755)
        .and_then(|_| below.write(path, bytes, *mode))
        .map_err(|e| denied("write", &prefix.join(path), &e))
}

fn uninstall(options: &UninstallOptions) -> Result<Exit, Problem> {
    let (prefix, receipt) = installed("uninstall")?;
    let files: Vec<_> = receipt
        .files
        .iter()
        .map(|file| prefix.join(file).display().to_string())
        .collect();
    let done = |changed| Done {
        schema: "gpusetup.self-uninstall/1",
        version: VERSION,
        offered: None,
        changed,
        files: files.clone(),
    };
    if options.dry_run {
        return done(false).tell(
            options.form,
            &format!("would remove:\n  {}", files.join("\n  ")),
        );
    }
    if System::live().exists(JOURNAL) {
        say(
            "what gpusetup installed on this host stays; without gpusetup it cannot be undone (gpusetup uninstall)",
        );
    }
    if !options.yes
        && !agreed(&format!(
            "Remove gpusetup {VERSION} from {}?",
            prefix.display()
        ))?
    {
        return done(false).tell(options.form, "Nothing was changed.");
    }
    let below = System::at(&prefix);
    // The program before the receipt: what is left can be removed by a second run of install.sh.
    let last = [PROGRAM, RECEIPT];
    let first = receipt
        .files
        .iter()
        .map(String::as_str)
        .filter(|path| !last.contains(path));
    for path in first.chain(last) {
        below
            .remove(path)
            .map_err(|e| denied("remove", &prefix.join(path), &e))?;
    }
    // A folder below the prefix that is a link was not followed.
    if let Some(left) = receipt
        .files
        .iter()
        .map(|file| prefix.join(file))
        .find(|path| System::live().exists(path))
    {
        return Err(Problem::unexpected(format!(
            "{} is still there: a folder on its way is a link",
            left.display()
        )));
    }
    // Folders that are named after gpusetup, and are empty now.
    for folder in receipt
        .files
        .iter()
        .flat_map(|path| Path::new(path).ancestors().skip(1))
    {
        let is_ours = folder
            .components()
            .any(|part| part.as_os_str() == "gpusetup");
        if is_ours && below.list(folder).is_ok_and(|names| names.is_empty()) {
            below
                .remove_tree(folder)
                .map_err(|e| denied("remove", &prefix.join(folder), &e))?;
        }
    }
    done(true).tell(
        options.form,
        &format!("gpusetup {VERSION} is removed from {}", prefix.display()),
    )
}

fn verify(file: &Path, keys: &[PathBuf], form: JsonOption) -> Result<Exit, Problem> {
    let sources = Sources::default();
    let name = file.to_string_lossy();
    let lists = Lists {
        at: upstream::sibling(&name, KEYS),
        store: &upstream::store(),
        keep: false,
        sources: &sources,
    };
    let signers = upstream::signers(keys, "files", &lists)?;
    let address = public_address(&name);
    let shown = visible(&address);
    let wrong = |why: &dyn std::fmt::Display| Problem::integrity(format!("{shown}: {why}"));
    let bytes = upstream::read(&name, MAX_BYTES, &sources)?;
    let bytes = bytes.ok_or_else(|| Problem::usage(format!("there is no {shown}")))?;
    let signatures = upstream::read(&format!("{name}.minisig"), MAX_SIGNATURES, &sources)?;
    let signatures = signatures.ok_or_else(|| {
        wrong(&format_args!(
            "it is not signed, there is no {shown}.minisig"
        ))
    })?;
    let signatures = String::from_utf8_lossy(&signatures);
    let name = upstream::name_at(&name);
    let comments = signers
        .verify(name, &bytes, &signatures, None)
        .map_err(|e| wrong(&e))?;
    // What was installed while it was good is still what was signed.
    let expired = match signers.verify(name, &bytes, &signatures, Some(&today())) {
        Err(SignatureError::Expired { day }) => Some(day),
        _ => None,
    };
    if form.json {
        let schema = "gpusetup.self-verify/1";
        super::print_json(&Verified {
            schema,
            file: &shown,
            signed: true,
            comments,
            expired,
        })?;
    } else {
        let signed = comments
            .iter()
            .map(|comment| format!("\n  {}", visible(&comment.replace('\t', ", "))));
        let over = expired.map_or_else(String::new, |day| {
            format!("\nIts last day, {}, is over: newer releases may fix faults in it. gpusetup self update gets the newest one.", visible(&day))
        });
        print(&format!(
            "{shown}: the signature matches{}{over}\n",
            signed.collect::<String>()
        ))?;
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(entries: &[(&str, tar::EntryType)]) -> Vec<u8> {
        let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(
            Vec::new(),
            flate2::Compression::fast(),
        ));
        for (path, kind) in entries {
            let mut header = tar::Header::new_ustar();
            // As an attacker would write it: the crate refuses such names.
            header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(0);
            header.set_cksum();
            tar.append(&header, io::empty()).expect("written");
        }
        tar.into_inner()
            .and_then(flate2::write::GzEncoder::finish)
            .expect("written")
    }

    #[test]
    fn only_files_of_the_release_are_unpacked() {
        let file = tar::EntryType::Regular;
        let files = unpacked(&archive(&[("g/bin/gpusetup", file), ("g/share/a", file)]))
            .expect("it is sound");
        assert_eq!(
            files
                .into_iter()
                .map(|(path, (mode, _))| (path, mode))
                .collect::<Vec<_>>(),
            [
                ("bin/gpusetup".to_owned(), 0o755),
                ("share/a".to_owned(), 0o644)
            ]
        );
        for (path, kind) in [
            ("g/../../etc/passwd", file),
            ("gpusetup", file),
            ("g//etc/passwd", file),
            ("g/share/a", tar::EntryType::Symlink),
            ("g/share/a", tar::EntryType::Directory),
        ] {
            assert!(
                unpacked(&archive(&[("g/bin/gpusetup", file), (path, kind)])).is_err(),
                "{path} {kind:?}"
            );
        }
        assert!(
            unpacked(&archive(&[("g/share/a", file)])).is_err(),
            "no program"
        );
        assert!(unpacked(b"no archive").is_err());
    }

    #[test]
    fn the_archive_for_this_machine_is_found() {
        let own = ARCHITECTURE;
        let sums = format!(
            "aa  gpusetup-0.2.0-other-linux.tar.gz\nbb  gpusetup-0.2.0-{own}-linux.tar.gz\ncc  gpusetup-../x-{own}-linux.tar.gz\n"
        );
        let entries = archives_in(&sums);
        assert_eq!(
            entries
                .iter()
                .map(|entry| (entry.sum, entry.version))
                .collect::<Vec<_>>(),
            [("bb", "0.2.0")]
        );
        assert!(archives_in("").is_empty());
    }
}
