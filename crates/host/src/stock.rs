//! Hosts that are not here: `--os ubuntu-24.04` plans for a machine on which only that system was
//! installed.

use super::architecture::machine;
use super::probe::listed_gpus;
use super::{
    Facts, Gpu, Initramfs, Kernel, Kernels, Machine, Os, PackageManager, SCHEMA, SecureBoot,
    Unreadable,
};
use gpusetup_database::compat::{Database, Distribution};
use gpusetup_database::text::Text;
use gpusetup_text::text::visible;
use std::collections::BTreeSet;

/// Why there are no facts for a system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StockError {
    /// The text does not have the form `ID-VERSION[:ARCH]`.
    #[error(
        "`{0}` is no known system and does not have the form ID-VERSION, such as ubuntu-24.04 or rocky-9:aarch64"
    )]
    Malformed(String),
    /// The database does not know the distribution.
    #[error("no distribution is called `{name}`; {}known are {}", nearest.as_ref().map(|id| format!("did you mean {id}? ")).unwrap_or_default(), known.join(", "))]
    Distribution {
        /// The unknown name.
        name: String,
        /// The known distribution that is spelled almost alike.
        nearest: Option<String>,
        /// The known distributions.
        known: Vec<String>,
    },
    /// The database does not know a stock installation of this release.
    #[error("{}", unknown_release(id, version, known))]
    Release {
        /// The distribution.
        id: String,
        /// The unknown release; empty if none was named.
        version: String,
        /// The known releases, `ubuntu-24.04`.
        known: Vec<String>,
    },
    /// The system has no kernel for this machine architecture, or none is known.
    #[error("no kernel of {name} for `{arch}` is known; known are {}", known.join(", "))]
    Architecture {
        /// The system.
        name: String,
        /// The unknown architecture.
        arch: String,
        /// The known architectures.
        known: Vec<String>,
    },
}

fn unknown_release(id: &str, version: &str, known: &[String]) -> String {
    let known = known.join(", ");
    if version.is_empty() {
        return format!("`{id}` lacks the version; known are {known}");
    }
    format!("the contents of a new installation of {id} {version} are unknown; known are {known}")
}

/// The only machine architecture that has a GPU, if there is just one.
fn only_on(database: &Database, gpu: &Gpu) -> Option<&'static str> {
    let known = database.gpu(gpu.device()?, gpu.subsystem.as_deref())?;
    known.only_on.map(Text::as_str)
}

/// The most bytes that name a system.
const MAX_SYSTEM_NAME_BYTES: usize = 100;

/// The machine architecture of a system that is named without one.
pub const USUAL_ARCHITECTURE: &str = "x86_64";

/// The facts of a host with a new installation of a system: no compiler, no driver, no toolkit, and
/// Secure Boot off. Its NVIDIA GPUs are those of an `lspci -nn` listing, if there is one.
///
/// # Errors
///
/// If the text does not name a system that the database knows a new installation of.
pub fn stock(database: &Database, spec: &str, lspci: Option<&str>) -> Result<Facts, StockError> {
    if spec.len() > MAX_SYSTEM_NAME_BYTES {
        return Err(StockError::Malformed(format!(
            "{}…",
            visible(&spec.chars().take(MAX_SYSTEM_NAME_BYTES).collect::<String>())
        )));
    }
    let (gpus, nvswitches, without_ids) = lspci
        .map(|text| listed_gpus(text, database))
        .unwrap_or_default();
    let (system, arch) = match spec.split_once(':') {
        // As images are named, debian:12; no architecture begins with a digit.
        Some((id, release)) if release.starts_with(|first: char| first.is_ascii_digit()) => {
            return stock(database, &format!("{id}-{release}"), lspci);
        }
        Some((_, "")) => return Err(StockError::Malformed(visible(spec).into_owned())),
        Some((system, arch)) => (system, machine(arch)),
        // The machine that has the listed GPUs, if there is only one.
        None => {
            let mut needed = gpus.iter().filter_map(|gpu| only_on(database, gpu));
            (spec, needed.next().unwrap_or(USUAL_ARCHITECTURE))
        }
    };
    let (distribution, version) = named(database, system.trim())?;
    let Some(stock) = &distribution.stock else {
        return Err(no_such_release(database, &distribution.id, &version));
    };
    let Some(release) = stock.kernels.get(arch) else {
        return Err(StockError::Architecture {
            name: distribution.name.clone(),
            arch: visible(arch).into_owned(),
            known: stock.kernels.keys().cloned().collect(),
        });
    };
    Ok(Facts {
        schema: SCHEMA.to_owned(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        machine: Machine {
            arch: arch.to_owned(),
            ..Machine::default()
        },
        os: os(distribution, version),
        gpus,
        nvswitches,
        kernels: kernels(release, distribution.package_manager),
        glibc: distribution.glibc.clone(),
        python: distribution.python,
        secure_boot: SecureBoot::Disabled,
        libxml2: Some(false),
        repositories: stock.repositories.clone(),
        unreadable: without_ids
            .into_iter()
            .map(Unreadable::without_ids)
            .collect(),
        ..Facts::default()
    })
}

fn os(distribution: &Distribution, version: String) -> Os {
    Os {
        id: distribution.id.clone(),
        version,
        like: Vec::new(),
        name: distribution.name.clone(),
        package_manager: Some(distribution.package_manager),
        initramfs: Some(distribution.initramfs),
        immutable: false,
        variant: None,
        signs: Vec::new(),
    }
}

fn kernels(release: &str, manager: PackageManager) -> Kernels {
    let path = format!(
        "/boot/{}",
        gpusetup_packages::of(manager)
            .initramfs
            .replace("{release}", release)
    )
    .into();
    let installed = Kernel {
        release: release.to_owned(),
        headers: false,
        compiler: None,
        nvidia_module: None,
        initramfs: Some(Initramfs {
            path,
            size: 0,
            modified: 0,
        }),
    };
    Kernels {
        running: Some(release.to_owned()),
        next_boot: Some(release.to_owned()),
        installed: vec![installed],
    }
}

/// The record of a distribution's release (`ubuntu-24.04`, `Rocky Linux 9.6`), and the version that
/// os-release would have.
///
/// # Errors
///
/// If the text has another form, or the database does not know the release.
pub fn named<'a>(
    database: &'a Database,
    system: &str,
) -> Result<(&'a Distribution, String), StockError> {
    let malformed = || StockError::Malformed(visible(system).into_owned());
    let mut all = database.distributions.iter();
    if let Some(found) = all.find(|d| has_suite(d, system)) {
        return Ok((found, found.version.clone()));
    }
    let Some(start) = system.find(|c: char| c.is_ascii_digit()) else {
        let ids = ids_of(database, &letters(system));
        return Err(match ids.first().filter(|_| ids.len() == 1) {
            Some(id) => no_such_release(database, id, ""),
            None => malformed(),
        });
    };
    let (name, version) = system.split_at(start);
    // `sles-15-sp6`
    let spaced = version.to_ascii_lowercase().replace("-sp", ".");
    let version = spaced.as_str();
    // `Ubuntu 24.04 LTS`, `Debian GNU/Linux 12 (bookworm)`
    let version = version
        .split_once(' ')
        .map_or(version, |(version, _)| version);
    if name.is_empty() || !version.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return Err(malformed());
    }
    let ids = ids_of(database, &letters(name));
    let id = match ids.iter().collect::<Vec<_>>()[..] {
        [id] => *id,
        _ => {
            let known: BTreeSet<_> = database
                .distributions
                .iter()
                .map(|d| d.id.clone())
                .collect();
            let name = visible(name.trim_end_matches(['-', ' ', '_'])).into_owned();
            let nearest = spelled_like(&known, &letters(&name));
            return Err(StockError::Distribution {
                name,
                nearest,
                known: known.into_iter().collect(),
            });
        }
    };
    // Ubuntu 24.04.3 is 24.04 in os-release; Rocky 9.6 is 9.6 there, and 9 in the database.
    let mut shorter = Some(version);
    while let Some(tried) = shorter {
        if let Some(found) = database
            .distributions
            .iter()
            .find(|d| d.id == id && d.version == tried)
        {
            // Without a minor release it is the one whose kernel is known.
            let stock = found
                .stock
                .as_ref()
                .and_then(|stock| stock.release.as_deref());
            let own = match stock {
                _ if tried.contains('.') => tried,
                Some(release) if tried == version => release,
                _ => version,
            };
            return Ok((found, own.to_owned()));
        }
        shorter = tried.rsplit_once('.').map(|(start, _)| start);
    }
    // `ubuntu2404`, as NVIDIA calls its repositories.
    if let Some(found) = database
        .distributions
        .iter()
        .find(|d| d.id == id && d.version.contains('.') && d.version.replace('.', "") == version)
    {
        return Ok((found, found.version.clone()));
    }
    Err(no_such_release(database, id, version))
}

/// Whether its repositories have a suite of this name: `noble`, `debian-trixie`.
fn has_suite(distribution: &Distribution, name: &str) -> bool {
    let lines = distribution
        .stock
        .iter()
        .flat_map(|stock| &stock.repositories);
    let mut suites = lines.filter_map(|line| line.split_whitespace().nth(1));
    suites.any(|suite| {
        suite.eq_ignore_ascii_case(name)
            || format!("{}-{suite}", distribution.id).eq_ignore_ascii_case(name)
    })
}

/// The known distribution that needs the fewest changed letters, if those are less than a third.
fn spelled_like(known: &BTreeSet<String>, name: &str) -> Option<String> {
    let (distance, id) = known
        .iter()
        .map(|id| (strsim::osa_distance(name, &letters(id)), id))
        .min_by_key(|(distance, _)| *distance)?;
    (distance * 3 < name.len()).then(|| id.clone())
}

/// The distributions whose id or full name is this one; else those that begin with it.
fn ids_of<'a>(database: &'a Database, name: &str) -> BTreeSet<&'a str> {
    if let Some(known) = database.distributions.iter().find(|d| {
        d.stock
            .as_ref()
            .is_some_and(|stock| stock.aliases.iter().any(|alias| alias == name))
    }) {
        return [known.id.as_str()].into();
    }
    let named: Vec<_> = database
        .distributions
        .iter()
        .flat_map(|d| {
            let full: String = d.name.chars().take_while(|c| !c.is_ascii_digit()).collect();
            let full = letters(&full);
            [letters(&d.id), format!("{full}gnulinux"), full].map(|known| (known, d.id.as_str()))
        })
        .filter(|(known, _)| known.starts_with(name))
        .collect();
    let is_exact = named.iter().any(|(known, _)| known == name);
    named
        .into_iter()
        .filter(|(known, _)| !is_exact || known == name)
        .map(|(_, id)| id)
        .collect()
}

fn letters(text: &str) -> String {
    text.chars()
        .filter(char::is_ascii_alphabetic)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

fn no_such_release(database: &Database, id: &str, version: &str) -> StockError {
    let mut known: Vec<_> = database
        .distributions
        .iter()
        .filter(|d| d.stock.is_some())
        .collect();
    if known.iter().any(|d| d.id == id) {
        known.retain(|d| d.id == id);
    }
    StockError::Release {
        id: id.to_owned(),
        version: version.to_owned(),
        known: known
            .iter()
            .map(|d| format!("{}-{}", d.id, d.version))
            .collect(),
    }
}

/// What is assumed of a new installation, in one sentence.
pub fn assumptions(database: &Database, facts: &Facts) -> String {
    let Os {
        id, version, name, ..
    } = &facts.os;
    let stock = database
        .distribution(id, version, &[])
        .and_then(|d| d.stock.as_ref());
    let release = stock
        .and_then(|stock| stock.release.as_ref())
        .filter(|release| *release != version);
    let other = release
        .map(|release| format!(" (that of {release}; no other is known)"))
        .unwrap_or_default();
    format!(
        "note: this is for a new installation of {name} on {}: kernel {}{other}, no compiler, no driver (if nouveau is loaded there, apply needs a reboot), Secure Boot off",
        facts.machine.arch,
        facts.kernel().unwrap_or("unknown"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::kernel;
    use super::*;
    use gpusetup_data::embedded;

    #[test]
    fn systems_are_named_as_people_name_them() {
        for (spec, id, version, arch) in [
            ("ubuntu-24.04", "ubuntu", "24.04", "x86_64"),
            ("ubuntu-24.04.3:arm64", "ubuntu", "24.04", "aarch64"),
            ("Ubuntu 22.04", "ubuntu", "22.04", "x86_64"),
            ("rocky-9:aarch64", "rocky", "9.6", "aarch64"),
            ("rockylinux9.4", "rocky", "9.4", "x86_64"),
            ("debian13", "debian", "13", "x86_64"),
            ("alma-9", "almalinux", "9.6", "x86_64"),
            ("al2023", "amzn", "2023", "x86_64"),
            ("sles-15", "sles", "15.7", "x86_64"),
            ("rhel-10", "rhel", "10.0", "x86_64"),
            ("amazon-linux-2023:sbsa", "amzn", "2023", "aarch64"),
            ("opensuse-leap-15.6", "opensuse-leap", "15.6", "x86_64"),
            ("oracle-9", "ol", "9", "x86_64"),
            ("Ubuntu 24.04 LTS", "ubuntu", "24.04", "x86_64"),
            ("noble:arm64", "ubuntu", "24.04", "aarch64"),
            ("trixie", "debian", "13", "x86_64"),
            ("debian:12", "debian", "12", "x86_64"),
            ("ubuntu:24.04:arm64", "ubuntu", "24.04", "aarch64"),
            ("Debian GNU/Linux 12 (bookworm)", "debian", "12", "x86_64"),
            (
                "Red Hat Enterprise Linux 9.6 (Plow)",
                "rhel",
                "9.6",
                "x86_64",
            ),
        ] {
            let facts = stock(&embedded(), spec, None).unwrap_or_else(|e| panic!("{spec}: {e}"));
            assert_eq!(
                (&*facts.os.id, &*facts.os.version, &*facts.machine.arch),
                (id, version, arch),
                "{spec}"
            );
            assert!(facts.kernel().is_some_and(kernel::is_likely), "{spec}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_is() {
        for (spec, part) in [
            ("ubuntu", "known are ubuntu-26.04"),
            ("ubuntu:24.04:riscv64", "aarch64, x86_64"),
            ("debian:12:386", "ID-VERSION"),
            ("ubuntu-24.04:", "ID-VERSION"),
            ("linux", "ID-VERSION"),
            ("24.04", "ID-VERSION"),
            ("ubuntu-24.04-server", "ID-VERSION"),
            ("", "ID-VERSION"),
            ("ubuntu-25.10", "ubuntu-24.04"),
            ("centos-9", "rocky-9"),
            ("gentoo-17", "`gentoo`; known are almalinux, amzn"),
            ("ubunut-24.04", "did you mean ubuntu?"),
            ("ubuntu", "`ubuntu` lacks the version"),
            ("ubuntu-24.04:riscv64", "aarch64, x86_64"),
            ("fedora-99", "fedora-44"),
            ("de-\u{1b}[2Jbian12", "ID-VERSION"),
        ] {
            let error = stock(&embedded(), spec, None).expect_err(spec).to_string();
            assert!(
                error.contains(part) && !error.contains('\u{1b}'),
                "{spec}: {error}"
            );
        }
    }

    #[test]
    fn every_stock_kernel_has_its_headers() {
        let database = embedded();
        for d in database.distributions.iter().filter(|d| d.stock.is_some()) {
            for (arch, release) in d.stock.iter().flat_map(|s| &s.kernels) {
                assert!(
                    kernel::is_likely(release),
                    "{} {}: {release}",
                    d.id,
                    d.version
                );
                assert!(
                    d.headers_of(release, arch).next().is_some(),
                    "{} {}",
                    d.id,
                    d.version
                );
            }
        }
    }
}
