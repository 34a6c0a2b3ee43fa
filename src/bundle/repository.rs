//! The distribution's packages that plans install, with everything that they depend on, made into a repository.
//!
//! Dependencies are resolved against a system on which nothing is installed, not even what every host has: a host may have an
//! older version than a package asks for (`libc6-dev` wants its own `libc6` exactly), and then takes it from here. Leaving out
//! what is essential or required would save 5 MB of 183 (Debian 12: headers, DKMS and driver), and fail on such hosts.
//! The package manager works in folders of its own: this host's lists, caches, locks and packages stay as they are. What it
//! fetches it verifies by its own chain, from the repository's signature to each package's sum.

use super::BundleError;
use crate::compat::PackageManager;
use crate::host::SystemId;
use crate::operation::packages::{Packages, said};
use crate::operation::program::ProgramError;
use crate::packages::{self, is_among};
use crate::plan::Plan;
use crate::sum::sha256;
use crate::system::{Program, System, digest};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An hour: packages come over a network that may be slow.
const LIMIT: Duration = Duration::from_secs(3600);

/// A repository in the making: its files, by their names, and what it offers.
#[derive(Debug, Default)]
pub struct Closure {
    /// Packages, as paths of the host that they were fetched on.
    pub packages: BTreeMap<String, PathBuf>,
    /// What is made beside them.
    pub indices: BTreeMap<String, Vec<u8>>,
    /// Names and versions.
    pub offers: BTreeMap<String, String>,
}

impl Closure {
    /// Itself, where it has what is to be installed. What else that needs, the package manager knew.
    fn with_all_of(self, transactions: &[&Packages]) -> Result<Self, BundleError> {
        let names: BTreeSet<_> = transactions.iter().flat_map(|t| &t.install).collect();
        let missing: Vec<_> = names.into_iter().filter(|asked| !is_among(asked, &self.offers)).cloned().collect();
        if missing.is_empty() { Ok(self) } else { Err(BundleError::NotBrought(missing)) }
    }
}

/// The transactions of a plan that install something, whether the host that it was made for has that already or not: by then
/// it may not.
pub fn needed_packages(plan: &Plan) -> Vec<&Packages> {
    plan.packages().filter(|wanted| !wanted.install.is_empty()).collect()
}

/// Fetches what these transactions need into `work`, an empty folder of the host's that is private. Each is resolved by
/// itself, as it will be on the host, so that a choice between packages that one makes does not hide what the other needs.
pub fn closure(
    on: &System,
    system: &SystemId,
    work: &Path,
    transactions: &[&Packages],
    created: &str,
) -> Result<Closure, BundleError> {
    let mut managers: Vec<_> = transactions.iter().map(|t| t.manager).collect();
    managers.dedup();
    match managers.as_slice() {
        [] => Ok(Closure::default()),
        [manager] => {
            let host = Manager { on, work, system, kind: *manager };
            let mut asked = BTreeSet::new();
            let mut new = transactions.iter().filter(|t| asked.insert((&t.install, &t.stream, &t.versions)));
            host.prepare()?;
            new.try_for_each(|t| host.fetch(t))?;
            host.index(created)?.with_all_of(transactions)
        }
        _ => Err(BundleError::Elsewhere("the plans are for package managers of two kinds".to_owned())),
    }
}

/// A package manager that works in a folder of its own.
struct Manager<'a> {
    on: &'a System,
    work: &'a Path,
    system: &'a SystemId,
    kind: PackageManager,
}

impl Manager<'_> {
    fn at(&self, name: &str) -> String {
        self.work.join(name).display().to_string()
    }

    /// The program, and what keeps it to the folder.
    fn argv(&self) -> Vec<String> {
        let own = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        match self.kind {
            PackageManager::Apt => {
                let options = [
                    format!("Dir::State={}", self.at("")),
                    format!("Dir::State::lists={}", self.at("lists")),
                    format!("Dir::State::status={}", self.at("status")),
                    format!("Dir::State::extended_states={}", self.at("extended_states")),
                    format!("Dir::Cache={}", self.at("")),
                    format!("Dir::Cache::archives={}", self.at("archives")),
                    "Dir::Cache::pkgcache=".to_owned(),
                    "Dir::Cache::srcpkgcache=".to_owned(),
                    // Of the host's own; here nobody else is at work.
                    "Debug::NoLocking=1".to_owned(),
                    "Acquire::Languages=none".to_owned(),
                    // Its own user may not enter the folder.
                    "APT::Sandbox::User=root".to_owned(),
                ];
                let options = options.into_iter().flat_map(|o| ["-o".to_owned(), o]);
                own("apt-get -y -q --no-install-recommends").into_iter().chain(options).collect()
            }
            PackageManager::Dnf => {
                let options = [
                    format!("--installroot={}", self.at("root")),
                    format!("--releasever={}", self.system.version),
                    "--setopt=reposdir=/etc/yum.repos.d".to_owned(),
                    "--setopt=varsdir=/etc/dnf/vars".to_owned(),
                    format!("--setopt=cachedir={}", self.at("cache")),
                    // As an option of its own it is another in each of dnf's versions; this is the same in all.
                    format!("--setopt=destdir={}", self.at("archives")),
                ];
                own("dnf -y -q").into_iter().chain(options).collect()
            }
            PackageManager::Tdnf => {
                let options = [
                    format!("--installroot={}", self.at("root")),
                    format!("--releasever={}", self.system.version),
                    "--setopt=reposdir=/etc/yum.repos.d".to_owned(),
                    "--downloadonly".to_owned(),
                    format!("--downloaddir={}", self.at("archives")),
                ];
                own("tdnf -y").into_iter().chain(options).collect()
            }
            PackageManager::Zypper => {
                let options = [
                    ["--root".to_owned(), self.at("root")],
                    ["--reposd-dir".to_owned(), "/etc/zypp/repos.d".to_owned()],
                    ["--cache-dir".to_owned(), self.at("cache")],
                    ["--pkg-cache-dir".to_owned(), self.at("archives")],
                ];
                own("zypper --non-interactive").into_iter().chain(options.into_iter().flatten()).collect()
            }
        }
    }

    fn run(&self, more: impl IntoIterator<Item = String>) -> Result<(), BundleError> {
        let argv: Vec<_> = self.argv().into_iter().chain(more).collect();
        let name = argv[0].clone();
        self.ask(argv, &name).map(|_| ())
    }

    fn ask(&self, argv: Vec<String>, name: &str) -> Result<String, BundleError> {
        let start = |source| ProgramError::Start { program: name.to_owned(), source };
        let program = Program::new(argv).env("HOME", "/nonexistent").limit(LIMIT).networked();
        let output = self.on.run(&program).map_err(|e| BundleError::Packages(start(e).into()))?;
        if crate::system::interrupt::heard().is_some() {
            return Err(BundleError::Interrupted);
        }
        Ok(said(name, output)?)
    }

    fn prepare(&self) -> Result<(), BundleError> {
        let folders: &[&str] = match self.kind {
            PackageManager::Apt => &["lists/partial", "archives/partial"],
            PackageManager::Dnf | PackageManager::Tdnf | PackageManager::Zypper => &["root", "archives", "cache"],
        };
        for folder in folders {
            self.on.make_directories(self.work.join(folder), 0o700).map_err(BundleError::io(self.work))?;
        }
        if self.kind != PackageManager::Apt {
            return Ok(());
        }
        let status = self.work.join("status");
        self.on.write(&status, b"", 0o600).map_err(BundleError::io(&status))?;
        self.run(["update".to_owned()])
    }

    fn fetch(&self, transaction: &Packages) -> Result<(), BundleError> {
        let words: &[&str] = match self.kind {
            PackageManager::Apt => &["--download-only", "install"],
            PackageManager::Dnf => &["--downloadonly", "install"],
            PackageManager::Tdnf => &["install"],
            PackageManager::Zypper => &["install", "--download-only", "--no-recommends"],
        };
        if let Some(stream) = &transaction.stream {
            self.run(["module", "enable", stream].map(str::to_owned))?;
        }
        let mut argv: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        let preferences = packages::of(self.kind).preferences.as_ref().filter(|_| !transaction.versions.is_empty());
        if let Some(preferences) = preferences {
            let own = self.on.read_text(preferences.own).map_err(BundleError::io(Path::new(preferences.own)))?;
            let path = self.work.join("pins");
            let text = (preferences.text)(&transaction.versions, &own.unwrap_or_default());
            self.on.write(&path, text.as_bytes(), 0o600).map_err(BundleError::io(&path))?;
            argv.extend((preferences.options)(&self.at("pins")));
        }
        argv.extend(transaction.with_versions());
        if self.kind == PackageManager::Apt {
            self.copy_local(&argv)?;
        }
        self.run(argv)
    }

    /// Copies the packages of repositories that are folders of this host: apt installs those from where they are, and brings
    /// only others to its archives. It reads the sums of what it finds there.
    fn copy_local(&self, install: &[String]) -> Result<(), BundleError> {
        let argv = self.argv().into_iter().chain(["--print-uris".to_owned()]).chain(install.iter().cloned()).collect();
        for (path, name) in self.ask(argv, "apt-get")?.lines().filter_map(local) {
            let from = self.on.open(&path).map_err(BundleError::io(&path))?;
            let to = self.work.join("archives").join(name);
            let copied = self.on.create_new(&to, 0o600).and_then(|mut to| io::copy(&mut &from, &mut to));
            copied.map_err(BundleError::io(&to))?;
        }
        Ok(())
    }

    fn index(&self, created: &str) -> Result<Closure, BundleError> {
        let mut found = Vec::new();
        let folder = self.work.join("archives");
        let ending = if self.kind == PackageManager::Apt { ".deb" } else { ".rpm" };
        files_below(self.on, &folder, ending, &mut found).map_err(BundleError::io(&folder))?;
        match self.kind {
            PackageManager::Apt => self.index_of_debs(&found, created),
            PackageManager::Dnf | PackageManager::Tdnf | PackageManager::Zypper => self.index_of_rpms(&found),
        }
    }

    fn index_of_debs(&self, found: &[PathBuf], created: &str) -> Result<Closure, BundleError> {
        let mut closure = Closure::default();
        let mut stanzas = BTreeMap::new();
        for path in found {
            let argv = ["dpkg-deb", "-f", &path.display().to_string()].map(str::to_owned).to_vec();
            let control = self.ask(argv, "dpkg-deb")?;
            let file = without_epoch(&path.file_name().unwrap_or_default().to_string_lossy());
            let (name, version) = (field(&control, "Package"), field(&control, "Version"));
            let open = self.on.open(path).map_err(BundleError::io(path))?;
            let size = open.metadata().map_err(BundleError::io(path))?.len();
            let sum = digest(open).map_err(BundleError::io(path))?;
            stanzas.insert(file.clone(), stanza(&control, &file, size, &sum));
            closure.offers.insert(name.to_owned(), version.to_owned());
            closure.packages.insert(file, path.clone());
        }
        let packages: String = stanzas.into_values().collect();
        let release = release(&packages, created);
        closure.indices.insert("Packages".to_owned(), packages.into_bytes());
        closure.indices.insert("Release".to_owned(), release.into_bytes());
        Ok(closure)
    }

    fn index_of_rpms(&self, found: &[PathBuf]) -> Result<Closure, BundleError> {
        let mut closure = Closure::default();
        self.on.make_directories(self.work.join("repository"), 0o700).map_err(BundleError::io(self.work))?;
        for path in found {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let to = self.work.join("repository").join(&name);
            self.on.rename(path, &to).map_err(BundleError::io(&to))?;
            closure.packages.insert(name, to);
        }
        if closure.packages.is_empty() {
            return Ok(closure);
        }
        let inside = closure.packages.keys().map(|name| self.at(&format!("repository/{name}")));
        let ask = ["rpm", "-qp", "--nosignature", "--qf", "%{NAME} %{EVR}\\n"].map(str::to_owned).into_iter();
        let names = self.ask(ask.chain(inside).collect(), "rpm")?;
        let pair = |line: &str| line.split_once(' ').map(|(name, version)| (name.to_owned(), version.to_owned()));
        closure.offers = names.lines().filter_map(pair).collect();
        // zypper takes a folder of packages as it is; dnf and tdnf want to be told what is in it.
        if self.kind != PackageManager::Zypper {
            self.ask(["createrepo_c", "--quiet", &self.at("repository")].map(str::to_owned).to_vec(), "createrepo_c")?;
            let folder = self.work.join("repository");
            let mut made = Vec::new();
            files_below(self.on, &folder.join("repodata"), "", &mut made).map_err(BundleError::io(&folder))?;
            for path in made {
                let name = path.strip_prefix(&folder).unwrap_or(&path).display().to_string();
                closure.indices.insert(name, self.on.read(&path).map_err(BundleError::io(&path))?);
            }
        }
        Ok(closure)
    }
}

/// Where a package is, and what apt calls its file, where a line of `--print-uris` tells of a package in a folder.
fn local(line: &str) -> Option<(PathBuf, &str)> {
    let (address, rest) = line.strip_prefix('\'')?.split_once("' ")?;
    let path = url::Url::parse(address).ok().filter(|url| url.scheme() == "file")?.to_file_path().ok()?;
    let name = rest.split(' ').next().filter(|name| name.ends_with(".deb") && !name.contains('/'))?;
    Some((path, name))
}

/// Files below a folder whose names end so.
fn files_below(on: &System, folder: &Path, ending: &str, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for name in on.list(folder)? {
        let path = folder.join(name);
        if on.is_directory(&path) && on.link_target(&path).is_none() {
            files_below(on, &path, ending, found)?;
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(())
}

/// A package's file as Debian's archive calls it: apt writes an epoch as `4%3a`, and reads that in an address as a colon.
fn without_epoch(file: &str) -> String {
    let Some((name, rest)) = file.split_once('_') else { return file.to_owned() };
    let version = rest.split_once("%3a").filter(|(epoch, _)| epoch.bytes().all(|b| b.is_ascii_digit()));
    format!("{name}_{}", version.map_or(rest, |(_, version)| version))
}

fn field<'a>(control: &'a str, key: &str) -> &'a str {
    let line = control.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':'));
    line.map(str::trim).unwrap_or_default()
}

/// A package in apt's list: what its own control file says, and where and what the file is.
fn stanza(control: &str, file: &str, size: u64, sum: &str) -> String {
    format!("{}\nFilename: ./{file}\nSize: {size}\nSHA256: {sum}\n\n", control.trim_end())
}

/// What apt reads first. It is not signed: what it stands for was held against the bundle's sums before.
fn release(packages: &str, created: &str) -> String {
    let date = created.parse::<jiff::Timestamp>().unwrap_or_default().strftime("%a, %d %b %Y %H:%M:%S UTC").to_string();
    format!(
        "Origin: gpusetup\nLabel: gpusetup\nSuite: bundle\nDate: {date}\nSHA256:\n {} {} Packages\n",
        sha256(packages),
        packages.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packages_file_has_the_name_that_the_archive_gives_it() {
        assert_eq!(without_epoch("g++_4%3a12.2.0-3_amd64.deb"), "g++_12.2.0-3_amd64.deb");
        assert_eq!(without_epoch("dkms_3.0.10-8+deb12u1_all.deb"), "dkms_3.0.10-8+deb12u1_all.deb");
    }

    #[test]
    fn headers_of_one_kernel_are_found_among_what_was_brought() {
        let offers = || {
            let all = [("kernel-devel", "5.14.0-570.el9"), ("dkms", "3.2.1-1.el9")];
            all.map(|(name, version)| (name.to_owned(), version.to_owned())).into()
        };
        let all_of = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let closure = Closure { offers: offers(), ..Closure::default() };
            closure.with_all_of(&[&Packages::to_install(PackageManager::Dnf, names)]).map(|_| ())
        };
        assert!(all_of(&["dkms", "kernel-devel-5.14.0-570.el9.x86_64"]).is_ok());
        assert!(all_of(&["dkms", "kernel-devel-5.14.0-503.el9.x86_64"]).is_err());
    }

    #[test]
    fn packages_in_folders_are_told_from_others() {
        let line = |address| format!("'{address}' gcc_4%3a12.2.0-3_amd64.deb 5216 SHA256:ab");
        let in_folder = line("file:/srv/my%20packages/./gcc_12.2.0-3_amd64.deb");
        let path = PathBuf::from("/srv/my packages/gcc_12.2.0-3_amd64.deb");
        assert_eq!(local(&in_folder), Some((path, "gcc_4%3a12.2.0-3_amd64.deb")));
        assert_eq!(local(&line("http://mirror.example/debian/pool/gcc.deb")), None);
        assert_eq!(local("Reading package lists..."), None);
        assert_eq!(local("'file:/srv/x.deb' ../x.deb 1 SHA256:ab"), None);
    }

    #[test]
    fn lists_say_what_apt_reads() {
        let control = "Package: hello\nVersion: 1:2.10-3\nDescription: x\n y\n";
        assert_eq!((field(control, "Package"), field(control, "Version")), ("hello", "1:2.10-3"));
        let text = stanza(control, "hello_2.10-3_amd64.deb", 5, "ab");
        assert_eq!(
            text,
            "Package: hello\nVersion: 1:2.10-3\nDescription: x\n y\nFilename: ./hello_2.10-3_amd64.deb\nSize: 5\nSHA256: ab\n\n"
        );
        let release = release(&text, "2026-11-21T12:00:00Z");
        assert!(release.contains("Date: Sat, 21 Nov 2026 12:00:00 UTC\n"), "{release}");
        assert!(release.ends_with(&format!(" {} {} Packages\n", sha256(&text), text.len())), "{release}");
    }

    #[test]
    fn a_manager_is_kept_to_its_folder() {
        let (on, system) =
            (System::live(), SystemId { os: "rhel".into(), version: "9.6".into(), arch: "x86_64".into() });
        let argv = |kind| Manager { on: &on, work: Path::new("/var/cache/w"), system: &system, kind }.argv().join(" ");
        let apt = argv(PackageManager::Apt);
        assert!(
            apt.contains("Dir::State::status=/var/cache/w/status") && apt.contains("Dir::Cache=/var/cache/w"),
            "{apt}"
        );
        let dnf = argv(PackageManager::Dnf);
        assert!(dnf.contains("--installroot=/var/cache/w/root --releasever=9.6"), "{dnf}");
        let tdnf = argv(PackageManager::Tdnf);
        let all = "--downloadonly --downloaddir=/var/cache/w/archives";
        assert!(tdnf.starts_with("tdnf -y --installroot=/var/cache/w/root") && tdnf.ends_with(all), "{tdnf}");
        let zypper = argv(PackageManager::Zypper);
        assert!(zypper.starts_with("zypper --non-interactive --root /var/cache/w/root"), "{zypper}");
    }
}
