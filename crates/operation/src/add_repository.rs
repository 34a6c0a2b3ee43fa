//! `add-repository`: another repository for the package manager, with the keys that sign it. A key
//! is known by its fingerprint: its file is fetched before the first change, by `fetch`, and
//! believed only with that.

use super::program::{ProgramError, judge, run};
use super::shell::{folder_of, make_folder};
use super::undo::{Undo, missing_parents};
use super::valid::Valid;
use super::{Action, Counts, Notice, Notify, OperationError, Standing, Work, WriteFile, valid};
use gpusetup_database::compat::PackageManager;
use gpusetup_database::sum::sha256;
use gpusetup_host::{armoured, certificates, public_keys, without_unbound};
use gpusetup_packages::package_source::PackageSource;
use gpusetup_packages::{NewRepository, Note, RepositoryFormat, of};
use gpusetup_system::{Log, Node, Program, Progress, System};
use gpusetup_text::ids::CheckId;
use gpusetup_text::text::{quoted, quoted_path};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// No key's file is longer, in bytes.
pub const MAX_KEY: u64 = 64 << 10;
/// Lists of a hundred thousand packages come in less over a slow network.
const LIMIT: Duration = Duration::from_secs(900);
const MODE: u32 = 0o644;

/// Adds a repository to the package manager's, with the keys that sign it, and fetches its lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct AddRepository {
    /// The package manager.
    pub manager: PackageManager,
    /// The name of its files: `cuda-debian12-x86_64`.
    pub name: String,
    /// Its address, without a slash at its end.
    pub url: String,
    /// The keys that may sign it.
    pub keys: Vec<RepositoryKey>,
    /// Whether they sign its packages alone, and not its lists.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(
        feature = "schemas",
        schemars(skip_serializing_if = "std::ops::Not::not")
    )]
    pub unsigned_lists: bool,
    /// What its list says of itself, in the words of apt's preferences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Patterns of the packages that may come from it, with apt only in the driver's branch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// Patterns of the packages that may come from it in any version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub any_version: Vec<String>,
    /// Patterns of packages that may not, although they match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// The driver's branch.
    pub branch: u16,
}

/// A key that signs a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct RepositoryKey {
    /// The name of its file, beside the repository's lists.
    pub file: String,
    /// The address of that file, if it is elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The fingerprint that it must have, in upper-case hexadecimal.
    #[cfg_attr(feature = "schemas", schemars(regex(pattern = "^[0-9A-F]{40}$")))]
    pub fingerprint: String,
    /// The file in the cache.
    pub to: PathBuf,
    /// The key itself, in a bundle: then nothing is fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

/// Why a repository is not added.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// The file is not the key that the database names.
    #[error("the signing key from {from} is refused ({rejected}): {why}; nothing signed by it is trusted", rejected = CheckId::GS404)]
    Key {
        /// Where it came from.
        from: String,
        /// What is wrong with it.
        why: String,
    },
    /// The repository's lists cannot be had, or are not signed by its keys.
    #[error("the lists of {url} cannot be used; the package manager said:\n{last}")]
    Lists {
        /// The repository.
        url: String,
        /// The last lines.
        last: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says about it.
        source: io::Error,
    },
    /// The package manager cannot be started.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

impl RepositoryKey {
    /// The key in a file, as package managers read it, if it is this key and nothing else is in the
    /// file, without subkeys that it does not bind. `from` says where the file came from.
    pub fn checked(&self, text: &[u8], from: &str) -> Result<String, RepositoryError> {
        let refused = |why: String| RepositoryError::Key {
            from: from.to_owned(),
            why,
        };
        let text = std::str::from_utf8(text)
            .map_err(|_| refused("it is not an armoured OpenPGP key".to_owned()))?;
        let (packets, keys) = certificates(text).map_err(|why| refused(why.to_owned()))?;
        match keys.iter().find(|key| key.fingerprint != self.fingerprint) {
            None => Ok(armoured(&without_unbound(&packets))),
            Some(other) => Err(refused(format!(
                "its fingerprint is {}, and that of the key in the database is {}",
                other.fingerprint, self.fingerprint
            ))),
        }
    }

    /// Whether it need not be fetched.
    pub fn is_cached(&self, on: &System) -> bool {
        self.cached(on).is_ok_and(|cached| cached.is_some())
    }

    /// The key, from the plan or from the cache; none if it was not fetched yet.
    pub fn cached(&self, on: &System) -> Result<Option<String>, RepositoryError> {
        if let Some(content) = &self.content {
            return self.checked(content.as_bytes(), "the bundle").map(Some);
        }
        let failed = |source| RepositoryError::Io {
            path: self.to.clone(),
            source,
        };
        match on.node(&self.to).map_err(failed)? {
            Node::File { .. } => {
                let bytes = on.read(&self.to).map_err(failed)?;
                self.checked(&bytes, &self.to.display().to_string())
                    .map(Some)
            }
            _ => Ok(None),
        }
    }
}

impl AddRepository {
    fn format(&self) -> Option<&'static RepositoryFormat> {
        of(self.manager).added.as_ref()
    }

    /// The address of a key.
    pub fn url_of(&self, key: &RepositoryKey) -> String {
        key.url
            .clone()
            .unwrap_or_else(|| format!("{}/{}", self.url, key.file))
    }

    fn key_paths(&self, format: &RepositoryFormat) -> Vec<PathBuf> {
        self.keys
            .iter()
            .map(|key| (format.key)(&key.fingerprint))
            .collect()
    }

    /// The files that it writes beside the keys.
    pub(crate) fn files(&self) -> Vec<WriteFile> {
        let Some(format) = self.format() else {
            return Vec::new();
        };
        self.files_with(&self.key_paths(format))
    }

    /// These files, with the keys at other paths.
    pub fn files_with(&self, keys: &[PathBuf]) -> Vec<WriteFile> {
        let Some(format) = self.format() else {
            return Vec::new();
        };
        let files = (format.paths)(&self.name)
            .into_iter()
            .zip((format.texts)(&self.with_keys(keys)));
        files
            .map(|(path, content)| WriteFile {
                path,
                content,
                mode: MODE,
                merged_from: None,
            })
            .collect()
    }

    fn with_keys<'a>(&'a self, keys: &'a [PathBuf]) -> NewRepository<'a> {
        NewRepository {
            name: &self.name,
            url: &self.url,
            unsigned_lists: self.unsigned_lists,
            release: self.release.as_deref(),
            packages: &self.packages,
            any_version: &self.any_version,
            except: &self.except,
            branch: self.branch,
            keys,
        }
    }

    fn fingerprints(&self) -> Vec<String> {
        self.keys
            .iter()
            .map(|key| key.fingerprint.clone())
            .collect()
    }

    /// The commands that make the package manager's notes about it.
    fn notes(&self) -> Vec<Vec<String>> {
        self.format()
            .map(|format| self.notes_with(&self.key_paths(format)))
            .unwrap_or_default()
    }

    /// These commands, with the keys at other paths.
    pub fn notes_with(&self, keys: &[PathBuf]) -> Vec<Vec<String>> {
        self.format()
            .map(|format| (format.notes)(&self.with_keys(keys)))
            .unwrap_or_default()
    }

    /// Every path that it writes, keys first.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let Some(format) = self.format() else {
            return Vec::new();
        };
        format.all_paths(
            &self.name,
            self.keys.iter().map(|key| key.fingerprint.as_str()),
        )
    }

    /// The contents of its files, with the keys that were fetched before.
    fn contents(&self, on: &System) -> Result<Vec<WriteFile>, RepositoryError> {
        let Some(format) = self.format() else {
            return Ok(Vec::new());
        };
        let (mut all, mut expired) = (Vec::new(), Vec::new());
        for key in &self.keys {
            let content = key.cached(on)?.ok_or_else(|| RepositoryError::Key {
                from: self.url_of(key),
                why: "it was not fetched".to_owned(),
            })?;
            expired.extend(expired_since(&content));
            all.push(WriteFile {
                path: (format.key)(&key.fingerprint),
                content,
                mode: MODE,
                merged_from: None,
            });
        }
        // zypper would take what an expired key signs. While keys change, one of them may have
        // expired.
        if let [since, ..] = &expired[..]
            && expired.len() == self.keys.len()
        {
            let from = self
                .keys
                .iter()
                .map(|key| self.url_of(key))
                .collect::<Vec<_>>()
                .join(", ");
            return Err(RepositoryError::Key {
                from,
                why: format!("it expired on {since}"),
            });
        }
        all.extend(self.files());
        Ok(all)
    }

    fn intend_notes(&self, on: &System) -> Result<Option<Undo>, RepositoryError> {
        if self.notes().is_empty() {
            return Ok(None);
        }
        let (manager, repository, keys) = (self.manager, self.name.clone(), self.fingerprints());
        let there = noted(on, manager, &repository, &keys).map_err(ProgramError::ask)?;
        let again = self
            .outdated(&there)
            .map(|note| note.make.clone())
            .collect();
        let before = there.into_iter().map(|note| note.remove).collect();
        Ok(Some(Undo::Notes {
            manager,
            repository,
            keys,
            before,
            again,
        }))
    }

    /// The notes that are not wanted any more: locks to another branch.
    fn outdated<'n>(&self, there: &'n [Note]) -> impl Iterator<Item = &'n Note> {
        let wanted = self.notes();
        there
            .iter()
            .filter(move |note| !wanted.contains(&note.make))
    }

    /// Writes the files, and has the package manager fetch the lists, which shows that the keys
    /// sign them if they are signed. Packages that come from a folder need no lists.
    fn add(
        &self,
        on: &System,
        package_source: &PackageSource,
        log: Option<Log>,
        progress: Progress,
    ) -> Result<(), RepositoryError> {
        for file in self.contents(on)? {
            file.write(on).map_err(|source| RepositoryError::Io {
                path: file.path.clone(),
                source,
            })?;
        }
        let there =
            noted(on, self.manager, &self.name, &self.fingerprints()).map_err(ProgramError::ask)?;
        for note in self.outdated(&there) {
            run(on, note.remove.clone())?;
        }
        for argv in self.notes() {
            run(on, argv)?;
        }
        let Some(format) = self.format().filter(|_| package_source.is_the_hosts()) else {
            return Ok(());
        };
        let argv = (format.refresh)(&self.name);
        let program = argv.join(" ");
        let asked = Program::new(argv)
            .limit(LIMIT)
            .undisturbed()
            .networked()
            .log(log);
        let output = on
            .run_telling(&asked, progress)
            .map_err(ProgramError::start(&program))?;
        if judge(&program, &output, None).is_err() {
            return Err(RepositoryError::Lists {
                url: self.url.clone(),
                last: output.last_lines(6),
            });
        }
        Ok(())
    }

    /// The folders that it writes to.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        self.paths()
            .iter()
            .map(|path| folder_of(path).to_owned())
            .collect()
    }
}

impl Action for AddRepository {
    fn preflight(&self, on: &System) -> io::Result<Standing> {
        self.stands(on, false)
    }

    fn perform(&self, on: &System, work: &mut Work, notify: Notify) -> Result<(), OperationError> {
        let log = work.log.clone();
        let progress = &mut |since| notify(Notice::Working(since, None));
        Ok(self.add(on, &work.package_source, log, progress)?)
    }

    fn stands(&self, on: &System, _: bool) -> io::Result<Standing> {
        let Some(format) = self.format() else {
            return Ok(Standing::Conflict(
                "this package manager takes no other repository from gpusetup".to_owned(),
            ));
        };
        for key in &self.keys {
            let path = (format.key)(&key.fingerprint);
            match on.node(&path)? {
                Node::File { .. } => {}
                Node::Directory | Node::Other => {
                    return Ok(Standing::Conflict(format!("{} is no file", path.display())));
                }
                Node::Absent | Node::Link { .. } => return Ok(Standing::Needed),
            }
            if key
                .checked(&on.read(&path)?, &path.display().to_string())
                .is_err()
            {
                return Ok(Standing::Needed);
            }
        }
        let made = noted(on, self.manager, &self.name, &self.fingerprints())?;
        let notes = self.notes();
        let mut notes = notes.iter();
        let mut standing =
            Standing::satisfied_if(notes.all(|note| made.iter().any(|there| there.make == *note)));
        for file in self.files() {
            match file.stands(on, false)? {
                Standing::Satisfied => {}
                Standing::Needed => standing = Standing::Needed,
                conflict @ Standing::Conflict(_) => return Ok(conflict),
            }
        }
        Ok(standing)
    }

    fn intend(&self, on: &System, work: &mut Work) -> Result<Vec<Undo>, OperationError> {
        let mut undo = Vec::new();
        for WriteFile {
            path,
            content,
            mode,
            ..
        } in self.contents(on)?
        {
            let after = Node::File {
                sha256: sha256(&content),
                mode,
                uid: 0,
                gid: 0,
            };
            undo.extend(missing_parents(on, &path));
            let saved = work.backups.save(on, &path, Some(after));
            undo.push(saved.map_err(|source| RepositoryError::Io { path, source })?);
        }
        // Undone first: the manager finds its locks by the repository's name, which is in its file.
        undo.extend(self.intend_notes(on)?);
        Ok(undo)
    }

    fn describe(&self) -> String {
        format!("add the repository {}", self.url)
    }

    fn shell(&self) -> String {
        let Some(format) = self.format() else {
            return String::new();
        };
        let mut out = String::new();
        for key in &self.keys {
            let path = (format.key)(&key.fingerprint);
            let new = quoted_path(&path.with_extension("new"));
            // Of each key in the file, the fingerprint that follows its `pub` line.
            let primary = "awk -F: '$1 == \"pub\" { primary = 1 } $1 == \"fpr\" && primary { print $10; primary = 0 }'";
            let refused = format!(
                "the key from {} is not {}: nothing is added",
                self.url_of(key),
                key.fingerprint
            );
            out += &format!(
                "{}curl -fL --retry 3 -o {new} {}\n\
                 [ \"$(gpg --no-options --with-colons --show-keys {new} | {primary})\" = {} ] || \
                 {{ echo {} >&2; exit 1; }}\n\
                 mv {new} {path}\nchmod {MODE:04o} {path}\n",
                make_folder(&path),
                quoted(&self.url_of(key)),
                key.fingerprint,
                quoted(&refused),
                path = quoted_path(&path),
            );
        }
        for file in self.files() {
            out += &file.shell();
        }
        out.extend(
            format
                .locks
                .as_ref()
                .map(|locks| (locks.removal)(&self.name)),
        );
        for argv in self
            .notes()
            .into_iter()
            .chain([(format.refresh)(&self.name)])
        {
            out += &argv
                .iter()
                .map(|word| quoted(word))
                .collect::<Vec<_>>()
                .join(" ");
            out.push('\n');
        }
        out
    }

    fn counts(&self) -> Counts {
        Counts {
            add: self.paths().len() as u32,
            ..Counts::default()
        }
    }

    fn touched(&self) -> Vec<PathBuf> {
        self.folders()
    }

    fn locks(&self) -> Option<PackageManager> {
        Some(self.manager)
    }

    fn valid(&self, cache: &Path) -> Valid {
        // Its texts become lines of files that package managers read.
        let Self {
            manager: _,
            name,
            url: address,
            keys,
            unsigned_lists: _,
            release,
            packages,
            any_version,
            except,
            branch: _,
        } = self;
        valid::plain(name, "-_")?;
        valid::url(address)?;
        // Variables of package managers, and what ends a word or an option of theirs.
        if address.contains(['$', '[', ']', '"', '\'']) || address.ends_with('/') {
            return Err(format!(
                "{:?} is not the address of a repository",
                valid::short(address)
            ));
        }
        release
            .iter()
            .try_for_each(|text| valid::plain(text, " =,._-"))?;
        packages
            .iter()
            .chain(any_version)
            .chain(except)
            .try_for_each(|pattern| valid::plain(pattern, "*+.-"))?;
        if packages.is_empty() && any_version.is_empty() || keys.is_empty() {
            return Err(format!(
                "the repository {:?} without a key, or without packages",
                valid::short(name)
            ));
        }
        for key in keys {
            valid::plain(&key.file, "._-")?;
            key.url.iter().try_for_each(|address| valid::url(address))?;
            valid::fingerprint(&key.fingerprint)?;
            valid::within(&key.to, cache)?;
            if key
                .content
                .as_ref()
                .is_some_and(|text| text.len() as u64 > MAX_KEY)
            {
                return Err(format!("a key of more than {MAX_KEY} bytes"));
            }
        }
        Ok(())
    }
}

/// The day on which a key expired, if it has.
fn expired_since(key: &str) -> Option<String> {
    let expires = public_keys(key.as_bytes()).ok()?.first()?.expires?;
    let then = jiff::Timestamp::from_second(i64::try_from(expires).ok()?).ok()?;
    (then <= jiff::Timestamp::now()).then(|| then.strftime("%Y-%m-%d").to_string())
}

/// What a package manager has noted about a repository of this name, signed by these keys.
fn noted(
    on: &System,
    manager: PackageManager,
    name: &str,
    keys: &[String],
) -> io::Result<Vec<Note>> {
    let Some(format) = &of(manager).added else {
        return Ok(Vec::new());
    };
    (format.noted)(
        on,
        name,
        &keys.iter().map(String::as_str).collect::<Vec<_>>(),
    )
}

/// Removes the notes about a repository that were not there before, and makes those again that
/// were.
pub(crate) fn restore_notes(
    on: &System,
    manager: PackageManager,
    name: &str,
    keys: &[String],
    (before, again): (&[Vec<String>], &[Vec<String>]),
) -> io::Result<()> {
    let there = noted(on, manager, name, keys)?;
    let (old, new): (Vec<_>, Vec<_>) = there
        .into_iter()
        .partition(|note| before.contains(&note.remove));
    let missing = again
        .iter()
        .filter(|make| !old.iter().any(|note| note.make == **make))
        .cloned();
    let mut commands = new.into_iter().map(|note| note.remove).chain(missing);
    commands
        .try_for_each(|argv| run(on, argv))
        .map_err(io::Error::other)
}
