//! Whether a plan or a lock file is for a host. A plan is made from the facts of one host: on a
//! host with other facts it would install what does not fit there. Only the GPUs may differ, if
//! they were assumed: then the plan must fit those of the host.

use super::{LockFile, Plan, State, StepId};
use gpusetup_database::compat::{AddOnId, Database};
use gpusetup_database::version::CudaVersion;
use gpusetup_host::{Facts, Gpu, InstalledDriver, MachineKind, Origin, Os, SecureBoot, SystemId};
use gpusetup_operation::{Operation, Run};
use gpusetup_resolve::{KnownHost, NvSwitchHost, Request, summary};
use gpusetup_text::text::all_of;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The newest apply of a host. What it changed there itself makes no other host of it.
#[derive(Debug, Clone)]
pub struct Begun {
    /// Its plan.
    pub plan: Plan,
    /// The same plan, in which what was done is satisfied.
    pub left: Plan,
}

/// How a host differs from the one that a plan or a lock file was made for, the most important
/// first; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("was {}", .0.first().map(ToString::to_string).unwrap_or_default())]
pub struct OtherHost(Vec<Difference>);

/// One property in which they differ.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Difference {
    /// `Debian 12 on x86_64`.
    made_for: String,
    /// `is Ubuntu 24.04 on aarch64`.
    here: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "made for {}; this host {}", self.made_for, self.here)
    }
}

impl OtherHost {
    fn of(differences: Vec<Difference>) -> Result<(), Self> {
        if differences.is_empty() {
            Ok(())
        } else {
            Err(Self(differences))
        }
    }

    /// The differences after the first, each a sentence.
    pub fn others(&self) -> impl Iterator<Item = String> {
        self.0
            .iter()
            .skip(1)
            .map(|difference| format!("it was {difference}"))
    }
}

/// What must be on a host as it was where something was made. None: nothing depends on it.
struct Premises<'a> {
    system: &'a SystemId,
    /// The system's name; none if any release will do.
    release: Option<String>,
    kernel: Option<Kernel<'a>>,
    plan: Option<(&'a Plan, Option<&'a Begun>)>,
}

/// The kernel that something was made for.
enum Kernel<'a> {
    Release(&'a str),
    /// One of its series and flavour: `6.8` and `generic` of `6.8.0-64-generic`.
    Series(&'a str),
}

impl Premises<'_> {
    /// Every difference of this host.
    fn differences(&self, here: &Facts) -> Vec<Difference> {
        let mut all: Vec<_> = self
            .system(here)
            .into_iter()
            .chain(self.kernel(here))
            .collect();
        if let Some((plan, begun)) = self.plan {
            all.extend(machine(&plan.host, here));
            all.extend(secure_boot(&plan.host, here));
            all.extend(driver(plan, begun.is_some(), here));
            all.extend(begun.is_none().then(|| installed(plan, here)).flatten());
        }
        all
    }

    fn system(&self, here: &Facts) -> Option<Difference> {
        let found = SystemId::of(here);
        let is_same_release =
            (&found.os, &found.version) == (&self.system.os, &self.system.version);
        if found.arch == self.system.arch && (self.release.is_none() || is_same_release) {
            return None;
        }
        let Self {
            system, release, ..
        } = self;
        let made_for = release.as_ref().map_or_else(
            || system.to_string(),
            |name| format!("{name} on {}", system.arch),
        );
        Some(Difference {
            made_for,
            here: format!("is {} on {}", name_of(&here.os), found.arch),
        })
    }

    fn kernel(&self, here: &Facts) -> Option<Difference> {
        let found = here.kernel();
        let (made_for, fits) = match self.kernel.as_ref()? {
            Kernel::Release(release) => (*release, found == Some(release)),
            Kernel::Series(release) => (
                *release,
                found.is_some_and(|found| series(found) == series(release)),
            ),
        };
        let here = found.map_or_else(
            || "has no kernel that is known".to_owned(),
            |found| format!("boots {found}"),
        );
        (!fits).then(|| Difference {
            made_for: format!("kernel {made_for}"),
            here,
        })
    }
}

/// `6.8` and `generic` of `6.8.0-64-generic`.
fn series(release: &str) -> (Vec<&str>, &str) {
    let numbers = release.split(['.', '-']).take(2).collect();
    (
        numbers,
        release
            .rsplit('-')
            .next()
            .filter(|last| !last.starts_with(|c: char| c.is_ascii_digit()))
            .unwrap_or(""),
    )
}

/// `Ubuntu 24.04` of `Ubuntu 24.04.3 LTS`; the id and the version, if the name lacks the version.
fn name_of(os: &Os) -> String {
    let end = os
        .name
        .find(&os.version)
        .filter(|_| !os.version.is_empty())
        .map(|at| at + os.version.len());
    match end {
        Some(end) => os.name[..end].replace(" GNU/Linux", ""),
        None => format!("{} {}", os.id, os.version).trim_end().to_owned(),
    }
}

/// A tree or a running host; what kind of machine; whether its `/usr` is an image.
fn machine(made: &Facts, here: &Facts) -> Vec<Difference> {
    let mut all = Vec::new();
    let properties = [made, here].map(|facts| machine_properties(facts, made.is_stock()));
    for (made_for, found) in properties[0].into_iter().zip(properties[1]) {
        if made_for != found {
            all.push(Difference {
                made_for: made_for.to_owned(),
                here: format!("is {found}"),
            });
        }
    }
    let boards = [made, here].map(|facts| facts.machine.board.as_ref()?.l4t.clone());
    if let [Some(made_for), Some(found)] = boards
        && made_for != found
    {
        all.push(Difference {
            made_for: format!("Jetson Linux {made_for}"),
            here: format!("has Jetson Linux {found}"),
        });
    }
    all
}

/// Whether modules must be signed, and whether the key that signs them is enrolled.
fn secure_boot(made: &Facts, here: &Facts) -> Option<Difference> {
    let [before, now] = [made, here].map(|facts| match facts.secure_boot {
        SecureBoot::Enabled => "Secure Boot enabled",
        SecureBoot::Disabled | SecureBoot::Absent => "Secure Boot off",
        SecureBoot::Unknown => "an unknown state of Secure Boot",
    });
    if before != now {
        return Some(Difference {
            made_for: format!("a host with {before}"),
            here: format!("has {now}"),
        });
    }
    let [before, now] =
        [made, here].map(|facts| facts.signing_key.as_ref().filter(|key| key.enrolled));
    let key = before.filter(|_| made.secure_boot == SecureBoot::Enabled && now.is_none())?;
    let made_for = format!("a host on which the key {} is enrolled", key.path.display());
    Some(Difference {
        made_for,
        here: "has no enrolled key that signs modules".to_owned(),
    })
}

/// The installed driver: as it was, or as the plan leaves it. An apply that was begun may have
/// removed the old one.
fn driver(plan: &Plan, is_begun: bool, here: &Facts) -> Option<Difference> {
    let (before, found) = (plan.host.driver.as_ref(), here.driver.as_ref());
    let is_as_before = match (before, found) {
        (Some(before), Some(found)) => {
            (before.version, before.origin) == (found.version, found.origin)
        }
        (before, found) => before.is_none() && found.is_none(),
    };
    // With packages, the repository decides on the release.
    let is_planned = plan
        .selection
        .driver
        .as_ref()
        .zip(found)
        .is_some_and(|(planned, found)| planned.version.branch == found.version.branch);
    let is_replaced = is_begun && (found.is_none() || plan.selection.driver.is_none());
    if is_as_before || is_planned || is_replaced {
        return None;
    }
    Some(Difference {
        made_for: before.map_or_else(
            || "a host without an NVIDIA driver".to_owned(),
            |d| format!("a host with {}", named(d)),
        ),
        here: found.map_or_else(
            || "has no NVIDIA driver".to_owned(),
            |d| format!("has {}", named(d)),
        ),
    })
}

fn named(driver: &InstalledDriver) -> String {
    let origin = match driver.origin {
        Origin::Dpkg | Origin::Rpm => "packages",
        Origin::Runfile => "NVIDIA's runfile",
        Origin::Archives => "NVIDIA's archives",
        Origin::Unknown => "unknown origin",
    };
    format!("driver {} ({origin})", driver.version)
}

/// What else is installed. What the plan installs may be there already.
fn installed(plan: &Plan, here: &Facts) -> Option<Difference> {
    let (made, planned) = (&plan.host, planned(plan));
    // Which ones a plan for NVSwitches installs is not in its selection.
    let has_step = plan
        .steps
        .iter()
        .any(|step| step.id == StepId::InstallCompanions);
    let (before, now) = (pieces(made, !has_step), pieces(here, !has_step));
    let (needed_before, needed_now) = (needed(made), needed(here));
    let gone = before
        .difference(&now)
        .chain(needed_before.difference(&needed_now));
    let gone: Vec<_> = gone.map(String::as_str).collect();
    let new: Vec<_> = now
        .difference(&before)
        .filter(|piece| !planned.contains(*piece))
        .map(String::as_str)
        .collect();
    let (made_for, here) = match (gone.is_empty(), new.is_empty()) {
        (true, true) => return None,
        (false, true) => (
            format!("a host with {}", all_of(&gone)),
            format!("does not have {}", all_of(&gone)),
        ),
        (true, false) => (
            format!("a host without {}", all_of(&new)),
            format!("has {}", all_of(&new)),
        ),
        (false, false) => (
            format!("a host with {}", all_of(&gone)),
            format!("has {} instead", all_of(&new)),
        ),
    };
    Some(Difference { made_for, here })
}

/// The installed pieces that a plan was made from. Packages that are half installed are none: that
/// is so whenever another package manager is at work, for which apply waits.
fn pieces(facts: &Facts, with_companions: bool) -> BTreeSet<String> {
    let others = facts
        .other_drivers
        .iter()
        .map(|driver| format!("a second {}", named(driver)));
    let toolkits = facts
        .toolkits
        .iter()
        .map(|toolkit| toolkit_named(toolkit.version));
    let add_ons = facts.cudnn.iter().chain(&facts.add_ons);
    let add_ons = add_ons.filter_map(|files| Some(format!("{} {}", files.add_on, files.version?)));
    let companions = facts
        .companions
        .iter()
        .filter(|_| with_companions)
        .map(|companion| companion.id.to_string());
    others
        .chain(toolkits)
        .chain(add_ons)
        .chain(companions)
        .collect()
}

fn toolkit_named(version: CudaVersion) -> String {
    format!("CUDA {}", version.series())
}

/// The pieces that a plan installs.
fn planned(plan: &Plan) -> BTreeSet<String> {
    let chosen = &plan.selection;
    let toolkits = chosen.toolkits.iter().map(|toolkit| &toolkit.cuda);
    let toolkits = chosen.cuda.iter().chain(toolkits);
    let additional = chosen.toolkits.iter();
    let additional = additional.map(|toolkit| (&toolkit.cudnn, &toolkit.add_ons));
    let add_ons = [(&chosen.cudnn, &chosen.add_ons)]
        .into_iter()
        .chain(additional);
    let add_ons = add_ons.flat_map(|(cudnn, others)| {
        let cudnn = cudnn.iter().map(|chosen| (&AddOnId::CUDNN, chosen));
        cudnn.chain(others)
    });
    toolkits
        .map(|cuda| toolkit_named(cuda.version))
        .chain(add_ons.map(|(id, chosen)| format!("{id} {}", chosen.version)))
        .collect()
}

/// What a plan relies on if it is there, and installs otherwise.
fn needed(facts: &Facts) -> BTreeSet<String> {
    let gcc = facts
        .gcc
        .iter()
        .map(|version| format!("gcc {}", version.split('.').next().unwrap_or_default()));
    let kernel = facts
        .kernels
        .installed
        .iter()
        .filter(|kernel| Some(kernel.release.as_str()) == facts.kernel());
    let headers = kernel
        .filter(|kernel| kernel.headers)
        .map(|_| "the headers of its kernel".to_owned());
    gcc.chain(headers).collect()
}

/// The names of GPUs, each once.
fn names_of(gpus: &[Gpu]) -> String {
    let names: BTreeSet<_> = gpus
        .iter()
        .map(|gpu| gpu.name.as_deref().unwrap_or(&gpu.pci_id))
        .collect();
    all_of(&names.into_iter().collect::<Vec<_>>())
}

impl Plan {
    /// Checks that it is for this host. What the apply that was begun there has done itself is no
    /// difference.
    ///
    /// # Errors
    ///
    /// If a property differs on which the plan depends. GPUs may differ if they were assumed; those
    /// of the host must then be served by what the plan installs.
    pub fn is_for(
        &self,
        here: &Facts,
        database: &Database,
        begun: Option<&Begun>,
    ) -> Result<(), OtherHost> {
        let begun = begun.filter(|begun| begun.plan.fingerprint() == self.fingerprint());
        let (system, release) = (SystemId::of(&self.host), Some(name_of(&self.host.os)));
        let kernel = self.kernel_premise(begun);
        let premises = Premises {
            system: &system,
            release,
            kernel,
            plan: Some((self, begun)),
        };
        let mut differences = premises.differences(here);
        differences.extend(self.other_gpus(here, database, begun.is_some()));
        OtherHost::of(differences)
    }

    /// What it was made for: `Ubuntu 24.04 on x86_64 with kernel 6.8.0-64-generic`.
    pub fn made_for(&self) -> String {
        let kernel = match self.kernel_premise(None) {
            None => String::new(),
            Some(Kernel::Release(release)) => format!(" with kernel {release}"),
            Some(Kernel::Series(release)) => {
                format!(" with a kernel {}", series(release).0.join("."))
            }
        };
        format!(
            "{} on {}{kernel}",
            name_of(&self.host.os),
            self.host.machine.arch
        )
    }

    /// Whether some of its GPUs were not there, and only assumed.
    pub fn assumes_gpus(&self) -> bool {
        self.host.gpus.iter().any(|gpu| gpu.assumed)
    }

    /// The names of its GPUs.
    pub fn gpu_names(&self) -> String {
        names_of(&self.host.gpus)
    }

    /// Whether a step that is still needed names the kernel that it was made for, such as by the
    /// package of its headers.
    pub(super) fn names_kernel(&self) -> bool {
        let Some(kernel) = self.host.kernel() else {
            return false;
        };
        let needed = self
            .steps
            .iter()
            .filter(|step| step.state == State::Needed)
            .flat_map(|step| &step.operations);
        let mut operations = needed
            .filter(|act| !act.satisfied)
            .map(|act| &act.operation);
        operations.any(|operation| match operation {
            Operation::Packages(packages) => {
                packages.install.iter().any(|name| name.contains(kernel))
            }
            Operation::Run(Run {
                argv, asks: false, ..
            }) => argv.iter().any(|word| word.contains(kernel)),
            _ => false,
        })
    }

    /// Which kernel the host must have. An apply that was begun may have brought another one
    /// itself, or an update did: that matters if what is left names the kernel. A new installation
    /// may have a newer one of the same series, unless a step names the one that was assumed. A
    /// container has the kernel of its host.
    fn kernel_premise(&self, begun: Option<&Begun>) -> Option<Kernel<'_>> {
        let release = self.host.kernel()?;
        let has_own = !matches!(
            self.host.machine.kind,
            MachineKind::Container | MachineKind::Wsl2
        );
        match begun {
            Some(begun) => begun
                .left
                .names_kernel()
                .then_some(Kernel::Release(release)),
            None if self.names_kernel() => Some(Kernel::Release(release)),
            None if self.host.is_stock() => self
                .selection
                .driver
                .as_ref()
                .map(|_| Kernel::Series(release)),
            None => has_own.then_some(Kernel::Release(release)),
        }
    }

    fn other_gpus(&self, here: &Facts, database: &Database, is_begun: bool) -> Option<Difference> {
        let [before, now] = [&self.host, here].map(|facts| {
            let gpus = facts.gpus.iter();
            gpus.map(|gpu| (gpu.address.as_str(), gpu.pci_id.as_str()))
                .collect::<BTreeSet<_>>()
        });
        if before == now {
            return None;
        }
        if !self.assumes_gpus() && !is_begun {
            let [before, now] = [&self.host, here].map(|facts| named_with_addresses(&facts.gpus));
            return Some(Difference {
                made_for: format!("a host with {before}"),
                here: format!("has {now}"),
            });
        }
        // What another database says of these GPUs is not what the plan was made by.
        if here.gpus.is_empty() || self.database.sha256 != database.sha256 {
            return None;
        }
        let why = self.not_served(here, database)?;
        Some(Difference {
            made_for: self.gpu_names(),
            here: format!("has {}: {why}", names_of(&here.gpus)),
        })
    }

    /// Why what the plan installs does not serve the GPUs of this host, by the rules that it was
    /// made by.
    fn not_served(&self, here: &Facts, database: &Database) -> Option<String> {
        let mut host = Facts {
            gpus: here.gpus.clone(),
            nvswitches: here.nvswitches.clone(),
            ..self.host.clone()
        };
        host.machine.kind = here.machine.kind;
        let leave_out = self
            .request
            .leave_out
            .iter()
            .filter(|address| host.gpus.iter().any(|g| g.address == **address));
        let leave_out = leave_out.cloned().collect();
        let request = Request {
            assumed_gpus: Vec::new(),
            leave_out,
            ..self.request.clone()
        };
        let exactly = LockFile::of(database, self, BTreeMap::new()).request(database, request);
        let exactly = match exactly {
            Ok(exactly) => exactly,
            Err(e) => return Some(e.to_string()),
        };
        if let Err(conflict) = KnownHost::new(database, &host).choose(&exactly) {
            return Some(format!(
                "{} cannot be installed for it: {conflict}",
                summary(&self.selection)
            ));
        }
        let fabrics = [&self.host, &host].map(|facts| NvSwitchHost::of(database, facts));
        let [made_for, found] = fabrics.map(|joined| Some(&joined?.fabric.name));
        (self.selection.driver.is_some() && made_for != found).then(|| match found {
            Some(found) => {
                format!("its NVSwitches ({found}) need more than this plan installs")
            }
            None => "it has no NVSwitches, for which this plan installs Fabric Manager".to_owned(),
        })
    }
}

impl LockFile {
    /// Checks that it is for this host. NVIDIA's files are the same for all distributions; packages
    /// belong to a release.
    ///
    /// # Errors
    ///
    /// If the host's architecture differs, or its release if packages are locked.
    pub fn is_for(&self, here: &Facts) -> Result<(), OtherHost> {
        let release = (!self.packages.is_empty())
            .then(|| format!("{} {}", self.system.os, self.system.version));
        let premises = Premises {
            system: &self.system,
            release,
            kernel: None,
            plan: None,
        };
        OtherHost::of(premises.differences(here))
    }

    /// Checks that a plan that follows it installs nothing for a kernel that it has no packages
    /// for.
    pub(super) fn is_for_kernel_of(&self, plan: &Plan) -> Result<(), OtherHost> {
        let kernel = self
            .kernel
            .as_deref()
            .filter(|_| plan.names_kernel())
            .map(Kernel::Release);
        OtherHost::of(
            Premises {
                system: &self.system,
                release: None,
                kernel,
                plan: None,
            }
            .differences(&plan.host),
        )
    }
}

/// Where it is, the kind of the machine, and of its system.
fn machine_properties(facts: &Facts, is_stock: bool) -> [&'static str; 3] {
    let place = match facts.machine.is_offline_root {
        true => "a tree (--root)",
        false => "a running host",
    };
    let kind = match facts.machine.kind {
        // A new installation may be on either.
        MachineKind::Physical | MachineKind::Virtual if is_stock => "a machine with its own kernel",
        MachineKind::Physical => "a physical machine",
        MachineKind::Virtual => "a virtual machine",
        MachineKind::Container => "a container",
        MachineKind::Wsl2 => "WSL2",
        MachineKind::Jetson => "a Jetson",
    };
    let system = match facts.os.immutable {
        true => "an image-based system",
        false => "a system with a writable /usr",
    };
    [place, kind, system]
}

fn named_with_addresses(gpus: &[Gpu]) -> String {
    if gpus.is_empty() {
        return "no NVIDIA GPU".to_owned();
    }
    let addresses: Vec<_> = gpus.iter().map(|gpu| gpu.address.as_str()).collect();
    format!("{} at {}", names_of(gpus), all_of(&addresses))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Act, LockError, plan};
    use gpusetup_data::shared;
    use gpusetup_database::compat::ModuleFlavour;
    use gpusetup_host::{AddOnFiles, Board, SigningKey, Toolkit, assumed_gpus, stock};
    use gpusetup_operation::Packages;
    use std::path::PathBuf;

    const GPU: &str = "0000:17:00.0";

    /// A running host with this GPU.
    fn host(gpu: &str) -> Facts {
        let mut facts = stock(shared(), "ubuntu-24.04", None).expect("it is known");
        facts.machine.boot_id = Some("1".to_owned());
        facts.gcc = Some("13.2.0".to_owned());
        facts
            .kernels
            .installed
            .iter_mut()
            .for_each(|kernel| kernel.headers = true);
        facts.gpus = assumed_gpus(shared(), gpu).expect("it is known");
        facts
            .gpus
            .iter_mut()
            .for_each(|gpu| (gpu.assumed, gpu.address) = (false, GPU.to_owned()));
        facts
    }

    fn planned(facts: Facts) -> Plan {
        plan(shared(), facts, Request::default_on("2026-11-20")).expect("a plan")
    }

    /// A plan for a new installation with a GPU that is assumed.
    fn assumed(system: &str, gpu: &str) -> Plan {
        let mut facts = stock(shared(), system, None).expect("it is known");
        facts.gpus = assumed_gpus(shared(), gpu).expect("it is known");
        planned(facts)
    }

    fn differences(plan: &Plan, here: &Facts, begun: Option<&Begun>) -> Vec<String> {
        let differences = plan
            .is_for(here, shared(), begun)
            .err()
            .map_or_else(Vec::new, |other| other.0);
        differences.iter().map(ToString::to_string).collect()
    }

    fn installed_driver(version: &str, origin: Origin) -> InstalledDriver {
        let version = version.parse().expect("a version");
        let evidence = "/usr/lib/libcuda.so.1".to_owned();
        InstalledDriver {
            version,
            origin,
            modules: Some(ModuleFlavour::Open),
            evidence,
            alternative: None,
        }
    }

    fn toolkit(version: &str) -> Toolkit {
        Toolkit {
            version: version.parse().expect("a version"),
            path: format!("/usr/local/cuda-{version}").into(),
            origin: Origin::Runfile,
            has_nvcc: true,
            components: None,
        }
    }

    fn cudnn() -> AddOnFiles {
        AddOnFiles {
            add_on: AddOnId::CUDNN,
            version: Some("8.9.7.29".parse().expect("a version")),
            directory: "/usr/lib".into(),
            origin: Origin::Dpkg,
            cuda_major: None,
            header: None,
            files: Vec::new(),
        }
    }

    fn key(enrolled: bool) -> SigningKey {
        SigningKey {
            path: PathBuf::from("/var/lib/dkms/mok.pub"),
            enrolled,
            requested: false,
        }
    }

    fn boots(facts: &mut Facts, release: &str) {
        let mut kernel = facts.kernels.installed[0].clone();
        kernel.release = release.to_owned();
        facts.kernels.installed.push(kernel);
        facts.kernels.next_boot = Some(release.to_owned());
    }

    /// What another host has, and how that is said.
    type Case = (fn(&mut Facts), &'static str);

    #[test]
    fn each_property_makes_another_host_alone() {
        let cases: [Case; 22] = [
            (
                |f| f.machine.arch = "aarch64".into(),
                "Ubuntu 24.04 on x86_64; this host is Ubuntu 24.04 on aarch64",
            ),
            (
                |f| {
                    (f.os.id, f.os.version, f.os.name) = (
                        "debian".into(),
                        "12".into(),
                        "Debian GNU/Linux 12 (bookworm)".into(),
                    )
                },
                "Ubuntu 24.04 on x86_64; this host is Debian 12 on x86_64",
            ),
            (
                |f| (f.os.version, f.os.name) = ("22.04".into(), "Ubuntu 22.04.5 LTS".into()),
                "Ubuntu 24.04 on x86_64; this host is Ubuntu 22.04 on x86_64",
            ),
            (
                |f| boots(f, "6.8.0-1-generic"),
                "; this host boots 6.8.0-1-generic",
            ),
            (
                |f| f.machine.is_offline_root = true,
                "a running host; this host is a tree (--root)",
            ),
            (
                |f| f.machine.kind = MachineKind::Container,
                "a physical machine; this host is a container",
            ),
            (
                |f| f.machine.kind = MachineKind::Virtual,
                "a physical machine; this host is a virtual machine",
            ),
            (
                |f| f.machine.kind = MachineKind::Wsl2,
                "a physical machine; this host is WSL2",
            ),
            (
                |f| f.machine.kind = MachineKind::Jetson,
                "a physical machine; this host is a Jetson",
            ),
            (
                |f| f.os.immutable = true,
                "a system with a writable /usr; this host is an image-based system",
            ),
            (
                |f| f.secure_boot = SecureBoot::Enabled,
                "a host with Secure Boot off; this host has Secure Boot enabled",
            ),
            (
                |f| f.secure_boot = SecureBoot::Unknown,
                "this host has an unknown state of Secure Boot",
            ),
            (
                |f| f.driver = Some(installed_driver("535.230.02", Origin::Dpkg)),
                "a host without an NVIDIA driver; this host has driver 535.230.02 (packages)",
            ),
            (
                |f| f.other_drivers = vec![installed_driver("535.230.02", Origin::Runfile)],
                "a host without a second driver 535.230.02 (NVIDIA's runfile); this host has",
            ),
            (
                |f| f.toolkits = vec![toolkit("11.2")],
                "a host without CUDA 11.2; this host has CUDA 11.2",
            ),
            (
                |f| f.cudnn = vec![cudnn()],
                "a host without cudnn 8.9.7.29; this host has",
            ),
            (
                |f| f.gcc = None,
                "a host with gcc 13; this host does not have gcc 13",
            ),
            (
                |f| f.gcc = Some("14.2.0".into()),
                "a host with gcc 13; this host does not have gcc 13",
            ),
            (
                |f| {
                    f.kernels
                        .installed
                        .iter_mut()
                        .for_each(|kernel| kernel.headers = false)
                },
                "a host with the headers of its kernel; this host does not have",
            ),
            (
                |f| f.gpus.clear(),
                "a host with Tesla T4 at 0000:17:00.0; this host has no NVIDIA GPU",
            ),
            (
                |f| f.gpus[0].address = "0000:65:00.0".into(),
                "; this host has Tesla T4 at 0000:65:00.0",
            ),
            (
                |f| f.gpus = host("v100").gpus,
                "a host with Tesla T4 at 0000:17:00.0; this host has Tesla V100",
            ),
        ];
        let made = host("10de:1eb8");
        let plan = planned(made.clone());
        assert_eq!(differences(&plan, &made, None), [""; 0]);
        for (change, sentence) in cases {
            let mut here = made.clone();
            change(&mut here);
            let [difference] = &differences(&plan, &here, None)[..] else {
                panic!("{sentence}: {:?}", differences(&plan, &here, None));
            };
            assert!(difference.contains(sentence), "{sentence}: {difference}");
        }
    }

    #[test]
    fn the_key_and_the_boards_system_are_compared() {
        let mut made = host("10de:1eb8");
        (made.secure_boot, made.signing_key) = (SecureBoot::Enabled, Some(key(true)));
        let mut here = made.clone();
        here.signing_key = Some(key(false));
        let plan = Plan::of_nothing(shared(), made.clone(), Request::default_on("2026-11-20"));
        assert_eq!(
            differences(&plan, &here, None),
            [
                "made for a host on which the key /var/lib/dkms/mok.pub is enrolled; this host has no enrolled key that signs modules"
            ]
        );
        let board = |l4t: &str| {
            Some(Board {
                model: None,
                l4t: Some(l4t.to_owned()),
            })
        };
        (made.machine.kind, made.machine.board) = (MachineKind::Jetson, board("36.4.3"));
        let mut here = made.clone();
        here.machine.board = board("36.3.0");
        let plan = Plan::of_nothing(shared(), made, Request::default_on("2026-11-20"));
        assert_eq!(
            differences(&plan, &here, None),
            ["made for Jetson Linux 36.4.3; this host has Jetson Linux 36.3.0"]
        );
    }

    #[test]
    fn what_the_plan_installs_may_be_there() {
        let made = host("10de:1eb8");
        let plan = planned(made.clone());
        let mut here = made;
        let chosen = &plan.selection;
        here.driver = chosen
            .driver
            .as_ref()
            .map(|d| installed_driver(&d.version.to_string(), Origin::Dpkg));
        here.toolkits = chosen
            .cuda
            .iter()
            .map(|cuda| toolkit(&cuda.version.to_string()))
            .collect();
        here.cudnn = vec![AddOnFiles {
            version: chosen.cudnn.as_ref().map(|cudnn| cudnn.version),
            ..cudnn()
        }];
        assert_eq!(differences(&plan, &here, None), [""; 0]);
    }

    #[test]
    fn only_assumed_gpus_may_differ_and_must_be_served() {
        let plan = assumed("ubuntu-24.04", "10de:1eb8");
        let mut here = host("10de:1eb8");
        (here.gcc, here.kernels) = (None, plan.host.kernels.clone());
        here.machine.kind = MachineKind::Virtual;
        for gpu in ["10de:1eb8", "h100", "rtx 3090"] {
            here.gpus = host(gpu).gpus;
            assert_eq!(differences(&plan, &here, None), [""; 0], "{gpu}");
        }
        for (gpu, name) in [("10de:1c03", "GTX 1060"), ("10de:1db1", "V100")] {
            here.gpus = host(gpu).gpus;
            let [difference] = &differences(&plan, &here, None)[..] else {
                panic!("{gpu} is not served")
            };
            assert!(
                difference.starts_with("made for Tesla T4; this host has ")
                    && difference.contains(name),
                "{difference}"
            );
            assert!(
                difference.contains("driver") || difference.contains("CUDA"),
                "{difference}"
            );
        }
        here.gpus.clear();
        assert_eq!(
            differences(&plan, &here, None),
            [""; 0],
            "apply says that there is none"
        );
        // A board with NVSwitches needs more than one card does.
        here.gpus = host("10de:1eb8").gpus;
        let board = assumed("ubuntu-24.04", "h100x8");
        here.gpus = host("h100").gpus;
        assert!(
            differences(&board, &here, None)[0].contains("has no NVSwitches"),
            "{:?}",
            differences(&board, &here, None)
        );
        // Nothing else may differ.
        let foreign = assumed("ubuntu-24.04:aarch64", "gh200");
        assert!(
            differences(&foreign, &here, None)[0]
                .starts_with("made for Ubuntu 24.04 on aarch64; this host is")
        );
    }

    #[test]
    fn a_new_installation_has_the_kernel_that_its_plan_names() {
        let plan = assumed("ubuntu-24.04", "10de:1eb8");
        let release = plan.host.kernel().expect("it is known").to_owned();
        let mut here = host("10de:1eb8");
        here.gcc = None;
        boots(&mut here, "6.8.0-999-generic");
        let packages = |name: &str| BTreeMap::from([(name.to_owned(), "1".to_owned())]);
        let lock = LockFile::of(
            shared(),
            &plan,
            packages(&format!("linux-headers-{release}")),
        );
        assert_eq!(lock.kernel.as_deref(), Some(release.as_str()));
        let mut elsewhere = plan.clone();
        boots(&mut elsewhere.host, "6.8.0-999-generic");
        if plan.names_kernel() {
            assert_eq!(
                differences(&plan, &here, None),
                [format!(
                    "made for kernel {release}; this host boots 6.8.0-999-generic"
                )]
            );
        }
        let mut plain = plan.clone();
        plain.steps.retain(|step| step.id != StepId::Prerequisites);
        assert!(!plain.names_kernel());
        assert_eq!(
            differences(&plain, &here, None),
            [""; 0],
            "the series is the same"
        );
        for other in ["6.14.0-1-generic", "6.8.0-1-azure"] {
            boots(&mut here, other);
            assert_eq!(
                differences(&plain, &here, None),
                [format!(
                    "made for kernel {release}; this host boots {other}"
                )]
            );
        }
        // A lock file has no headers for another kernel.
        let name = |act: &mut Act| {
            if let Operation::Packages(packages) = &mut act.operation {
                packages
                    .install
                    .push("linux-headers-6.8.0-999-generic".to_owned());
            }
        };
        elsewhere
            .steps
            .iter_mut()
            .flat_map(|step| &mut step.operations)
            .for_each(name);
        let refused = lock
            .hold(elsewhere.clone())
            .expect_err("another kernel")
            .to_string();
        assert!(
            refused.contains(&format!(
                "made for kernel {release}; this host boots 6.8.0-999"
            )),
            "{refused}"
        );
        let other = LockFile::of(shared(), &plan, packages("gcc"));
        assert!(
            !matches!(other.hold(elsewhere), Err(LockError::OtherHost(_))),
            "no package is of a kernel"
        );
    }

    #[test]
    fn an_apply_is_not_stopped_by_what_it_did_itself() {
        let made = Facts {
            driver: Some(installed_driver("535.230.02", Origin::Dpkg)),
            ..host("10de:1eb8")
        };
        let mut plan = planned(host("10de:1eb8"));
        plan.host = made.clone();
        let begun = |plan: &Plan, left: Plan| Begun {
            plan: plan.clone(),
            left,
        };
        let nothing = Plan {
            steps: Vec::new(),
            ..plan.clone()
        };
        let mut here = made.clone();
        (here.driver, here.gcc, here.toolkits) =
            (None, Some("14.1.0".into()), vec![toolkit("12.8")]);
        boots(&mut here, "6.8.0-999-generic");
        assert_eq!(
            differences(&plan, &here, Some(&begun(&plan, nothing.clone()))),
            [""; 0]
        );
        // Another plan's apply is none of this one's.
        let mut other = plan.clone();
        other.request.upgrade = true;
        assert!(differences(&plan, &here, Some(&begun(&other, nothing.clone()))).len() > 1);
        // What is left would install for the kernel before.
        let mut left = plan.clone();
        let step = left
            .steps
            .iter_mut()
            .find(|step| step.id == StepId::InstallDriver)
            .expect("a driver");
        let headers = Packages::to_install(
            made.os.package_manager.expect("apt"),
            vec![format!("linux-headers-{}", made.kernel().expect("one"))],
        );
        step.operations.push(Act {
            operation: Operation::Packages(headers),
            satisfied: false,
        });
        assert!(
            differences(&plan, &here, Some(&begun(&plan, left)))[0]
                .contains("this host boots 6.8.0-999-generic")
        );
        // The disk is in another machine, or somebody installed another driver.
        let cases: [Case; 4] = [
            (|f| f.machine.arch = "aarch64".into(), "on aarch64"),
            (|f| f.os.version = "26.04".into(), "26.04"),
            (
                |f| f.secure_boot = SecureBoot::Enabled,
                "Secure Boot enabled",
            ),
            (
                |f| f.driver = Some(installed_driver("470.256.02", Origin::Runfile)),
                "driver 470.256.02",
            ),
        ];
        for (change, sentence) in cases {
            let mut here = here.clone();
            change(&mut here);
            let [difference] = &differences(&plan, &here, Some(&begun(&plan, nothing.clone())))[..]
            else {
                panic!("{sentence}")
            };
            assert!(difference.contains(sentence), "{difference}");
        }
    }
}
