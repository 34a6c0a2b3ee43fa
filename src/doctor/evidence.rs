//! What the checks look at: the facts, and what only asking the host's own programs tells. Gathered once; what could not
//! be seen is kept as such, with the reason.

use super::kernel_log::{self, Said};
use super::library;
use crate::compat::{Database, Distribution, InitramfsTool, Xid};
use crate::host::{Facts, Kernel, SecureBoot};
use crate::plan::RIVALS;
use crate::resolve::{Card, distribution, known_card};
use crate::system::{Ended, Program, System};
use crate::version::{CudaVersion, CudnnVersion, DriverVersion};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What somebody who was asked said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    /// This.
    Is(T),
    /// It could not, for this reason: that is a finding.
    Failed(String),
    /// It was not asked, for this reason: that is none.
    NotAsked(String),
}

/// What is looked at beside the host itself.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The kernel's log, where it is given instead of read from the host.
    pub kernel_log: Option<String>,
}

/// Everything the checks look at.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The facts.
    pub facts: Facts,
    /// The host's distribution, where the database knows it.
    pub distribution: Option<Distribution>,
    /// Where toolkits are.
    pub prefix: PathBuf,
    /// The default toolkit, `PREFIX/cuda`, links resolved; none when that leads nowhere.
    pub default_toolkit: Option<PathBuf>,
    /// What the database says of each GPU, in the order of the facts; the sentence says why nothing.
    pub cards: Vec<Result<Card, String>>,
    /// What the kernel said of driver and GPUs since the last boot.
    pub kernel_log: Answer<Vec<Said>>,
    /// What the database says of the Xids in it.
    pub xids: Vec<Xid>,
    /// nvidia-smi is where the driver puts it.
    pub has_smi: bool,
    /// nvidia-modprobe is there, which makes devices that are missing when a program asks for them.
    pub has_modprobe: bool,
    /// For each toolkit, the newest gcc that its nvcc takes, where that is known.
    pub newest_gcc: BTreeMap<PathBuf, u16>,
    /// Where another host compiler is set for everybody: the file, and its line.
    pub host_compiler: Option<(PathBuf, String)>,
    /// Devices of the driver, `nvidia-uvm`; none where no kernel runs.
    pub devices: Option<Vec<String>>,
    /// Fabric Manager: the version that it says, and whether it runs.
    pub fabric_manager: Answer<FabricManager>,
    /// NVIDIA's modules in DKMS's care, by the name of their tree.
    pub dkms: Vec<String>,
    /// Versions of gcc that can be called by their number, `gcc-12`.
    pub compilers: Vec<u16>,
    /// Modules that the host's configuration keeps out.
    pub denied: Vec<Denial>,
    /// What is in each kernel's initramfs, by kernel.
    pub images: BTreeMap<String, Answer<Image>>,
    /// Who signed the nvidia module of the kernel that boots next; none is nobody. Asked only where it matters.
    pub signer: Answer<Option<String>>,
    /// What each toolkit's `nvcc --version` says, by the toolkit's directory.
    pub nvcc: BTreeMap<PathBuf, Answer<CudaVersion>>,
    /// Which nvcc shells find.
    pub shells: Answer<Shells>,
    /// The directories that the loader looks in, links resolved.
    pub loader_directories: BTreeSet<PathBuf>,
    /// The loader's cache, with what became of each entry.
    pub cached: Vec<Cached>,
    /// Where LD_LIBRARY_PATH is set for everybody: the file, and its line.
    pub library_paths: Vec<(PathBuf, String)>,
    /// What each SONAME of cuDNN, loaded as a program would, says its version is.
    pub cudnn: BTreeMap<String, Answer<CudnnVersion>>,
}

/// A kernel module that is kept out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The module, with underscores.
    pub module: String,
    /// The file that says so.
    pub by: PathBuf,
    /// When it was written, in seconds since 1970; none for the kernel's command line.
    pub modified: Option<i64>,
}

/// What is in an initramfs and matters here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// Files of rivals' modules.
    pub rivals: Vec<String>,
    /// Rivals that modprobe's configuration in the image keeps out.
    pub denied: Vec<String>,
}

/// Fabric Manager, as it is on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FabricManager {
    /// Its version.
    pub version: DriverVersion,
    /// Its unit is active; none where no systemd runs.
    pub active: Option<bool>,
}

/// Which nvcc shells find, if any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shells {
    /// A login shell's.
    pub login: Option<PathBuf>,
    /// That of a shell that reads no profile: cron, systemd units, `ssh HOST COMMAND`.
    pub plain: Option<PathBuf>,
}

/// An entry of the loader's cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cached {
    /// What programs ask for.
    pub soname: String,
    /// What they get.
    pub path: PathBuf,
    /// The directory it is in, links resolved.
    pub directory: PathBuf,
    /// It is there.
    pub exists: bool,
}

/// Looks at a host.
pub fn gather(system: &System, database: &Database, facts: Facts, prefix: &Path, sources: &Sources) -> Evidence {
    // Before anything else is asked: a sick driver hangs whoever asks, and the log has mostly said why.
    let kernel_log = match &sources.kernel_log {
        Some(text) => Answer::Is(kernel_log::parse(text)),
        None => match kernel_log::read(system) {
            Answer::Is(text) => Answer::Is(kernel_log::parse(&text)),
            Answer::Failed(why) => Answer::Failed(why),
            Answer::NotAsked(why) => Answer::NotAsked(why),
        },
    };
    let number = |said: &Said| if let Said::Xid { number, .. } = said { Some(*number) } else { None };
    let told = if let Answer::Is(said) = &kernel_log { said.as_slice() } else { &[] };
    let xids = told.iter().filter_map(number).collect::<BTreeSet<_>>();
    let xids = xids.into_iter().filter_map(|n| database.xid(n).cloned()).collect();
    let denied = denied(system);
    let sonames: BTreeSet<_> = facts.cudnn.iter().flat_map(|c| &c.files).filter_map(|f| f.soname.clone()).collect();
    let main = sonames.into_iter().filter(|s| s.starts_with("libcudnn.so."));
    // The slow ones wait for other programs, each for its own.
    let (images, cudnn, nvcc) = std::thread::scope(|scope| {
        let images = scope.spawn(|| images(system, &facts, &denied));
        let cudnn = scope.spawn(|| main.map(|s| (s.clone(), library::cudnn_version(system, &s))).collect());
        let nvcc = facts.toolkits.iter().filter(|t| t.has_nvcc).map(|t| (t.path.clone(), nvcc(system, &t.path)));
        let nvcc = nvcc.collect();
        (images.join().unwrap_or_default(), cudnn.join().unwrap_or_default(), nvcc)
    });
    Evidence {
        distribution: distribution(database, &facts).cloned(),
        prefix: prefix.to_owned(),
        default_toolkit: Some(prefix.join("cuda")).filter(|p| system.is_directory(p)).map(|p| resolved(system, &p)),
        cards: facts.gpus.iter().map(|g| known_card(database, g).map_err(|misfit| misfit.to_string())).collect(),
        kernel_log,
        xids,
        has_smi: system.exists("/usr/bin/nvidia-smi") || system.exists("/usr/local/bin/nvidia-smi"),
        has_modprobe: system.exists("/usr/bin/nvidia-modprobe"),
        newest_gcc: facts
            .toolkits
            .iter()
            .filter_map(|t| Some((t.path.clone(), newest_gcc(database, t.version)?)))
            .collect(),
        host_compiler: set_for_everybody(system, "NVCC_CCBIN=").into_iter().next(),
        devices: system.is_live().then(|| names(system, "/dev").filter(|n| n.starts_with("nvidia")).collect()),
        fabric_manager: fabric_manager(system, &facts),
        dkms: names(system, "/var/lib/dkms").filter(|n| n.starts_with("nvidia")).collect(),
        compilers: compilers(system),
        signer: signer(system, &facts),
        shells: shells(system),
        loader_directories: loader_directories(system),
        cached: cached(system, &facts),
        library_paths: set_for_everybody(system, "LD_LIBRARY_PATH="),
        denied,
        images,
        cudnn,
        nvcc,
        facts,
    }
}

/// The names in a directory; none where it cannot be read, which the facts have said already.
fn names(system: &System, directory: impl AsRef<Path>) -> impl Iterator<Item = String> {
    system.list(directory).unwrap_or_default().into_iter()
}

fn text(system: &System, path: impl AsRef<Path>) -> String {
    system.read_text(path).ok().flatten().unwrap_or_default()
}

/// What a program of the host's says, if it can be run at all.
fn ask<const N: usize>(system: &System, argv: [&str; N], limit: Duration) -> Answer<String> {
    if !system.is_live() && !rustix::process::geteuid().is_root() {
        return Answer::NotAsked("only root may run the tree's own programs".to_owned());
    }
    // chroot's own: it could not enter, the program cannot be executed (another machine's), there is none.
    const NOT_RUN: [i32; 3] = [125, 126, 127];
    match system.run(&Program::new(argv).env("HOME", "/nonexistent").limit(limit)) {
        Err(e) => Answer::NotAsked(format!("{}: {e}", argv[0])),
        Ok(output) => match output.ended {
            Ended::Status(0) => Answer::Is(output.text),
            Ended::Status(code) if NOT_RUN.contains(&code) && !system.is_live() => {
                Answer::NotAsked(output.last_lines(1))
            }
            ended => Answer::Failed(format!("{} ended with {ended}: {}", argv[0], output.last_lines(1))),
        },
    }
}

/// Versions of gcc in /usr/bin.
fn compilers(system: &System) -> Vec<u16> {
    names(system, "/usr/bin").filter_map(|n| n.strip_prefix("gcc-")?.parse().ok()).collect()
}

/// What modprobe's configuration and the kernel's command line keep out.
fn denied(system: &System) -> Vec<Denial> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    // A file in an earlier directory stands for those of its name in later ones.
    for directory in
        ["/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"]
    {
        for name in names(system, directory).filter(|n| n.ends_with(".conf")) {
            if seen.insert(name.clone()) {
                let by = Path::new(directory).join(name);
                let modified = system.modified(&by);
                let modules = denied_by(&text(system, &by));
                found.extend(modules.into_iter().map(|module| Denial { module, by: by.clone(), modified }));
            }
        }
    }
    let entries = names(system, "/boot/loader/entries").map(|n| Path::new("/boot/loader/entries").join(n));
    let files: Vec<PathBuf> = if system.is_live() {
        vec!["/proc/cmdline".into()]
    } else {
        ["/etc/kernel/cmdline", "/etc/default/grub"].map(PathBuf::from).into_iter().chain(entries).collect()
    };
    for by in files {
        let modules = denied_on_command_line(&text(system, &by));
        found.extend(modules.into_iter().map(|module| Denial { module, by: by.clone(), modified: None }));
    }
    found
}

/// `blacklist nouveau` and `install nouveau /bin/false`.
fn denied_by(configuration: &str) -> Vec<String> {
    let denied = |line: &str| {
        let mut words = line.split_whitespace();
        let (verb, module, how) = (words.next()?, words.next()?, words.next());
        let never = how.is_some_and(|h| h.ends_with("/false") || h.ends_with("/true") || h == ":");
        (verb == "blacklist" || verb == "install" && never).then(|| module.replace('-', "_"))
    };
    configuration.lines().filter_map(denied).collect()
}

/// `modprobe.blacklist=nouveau,nova_core`, `rd.driver.blacklist=nouveau`, the older `rdblacklist=nouveau`.
fn denied_on_command_line(line: &str) -> Vec<String> {
    let lists = line.split(|c: char| c.is_whitespace() || c == '"' || c == '\'').filter_map(|word| {
        ["modprobe.blacklist=", "module_blacklist=", "rd.driver.blacklist=", "rdblacklist="]
            .iter()
            .find_map(|start| word.strip_prefix(start))
    });
    lists.flat_map(|list| list.split(',')).filter(|m| !m.is_empty()).map(|m| m.replace('-', "_")).collect()
}

/// What is in the initramfs of each kernel, by the tool that belongs to the one that makes them.
fn images(system: &System, facts: &Facts, denied: &[Denial]) -> BTreeMap<String, Answer<Image>> {
    let with_image = |k: &&Kernel| k.initramfs.is_some();
    std::thread::scope(|scope| {
        let kernels = facts.kernels.installed.iter().filter(with_image);
        let asked: Vec<_> =
            kernels.map(|k| (k.release.clone(), scope.spawn(|| image(system, facts, k, denied)))).collect();
        let lost = || Answer::NotAsked("it was not read".to_owned());
        asked.into_iter().map(|(release, image)| (release, image.join().unwrap_or_else(|_| lost()))).collect()
    })
}

fn image(system: &System, facts: &Facts, kernel: &Kernel, denied: &[Denial]) -> Answer<Image> {
    let Some((initramfs, tool)) = kernel.initramfs.as_ref().zip(facts.os.initramfs) else {
        return Answer::NotAsked("no tool that makes initramfs images was found".to_owned());
    };
    let lister = match tool {
        InitramfsTool::UpdateInitramfs => "lsinitramfs",
        InitramfsTool::Dracut => "lsinitrd",
        InitramfsTool::Mkinitcpio => "lsinitcpio",
    };
    let path = initramfs.path.display().to_string();
    match ask(system, [lister, &path], Duration::from_secs(120)) {
        Answer::Is(listing) => Answer::Is(contents(&listing, initramfs.modified, denied)),
        // An image that its own tool cannot read is a finding of another check; here it is only not seen.
        Answer::Failed(why) | Answer::NotAsked(why) => Answer::NotAsked(why),
    }
}

/// What matters in a listing, a file a line; lsinitrd's lines begin with modes and dates.
fn contents(listing: &str, made: i64, denied: &[Denial]) -> Image {
    let files: Vec<_> = listing.lines().filter_map(|l| l.split_whitespace().last()).collect();
    let module_of = |file: &str| {
        let name = file.rsplit('/').next()?;
        Some(name.split_once(".ko")?.0.replace('-', "_"))
    };
    let is_rival = |f: &&&str| module_of(f).is_some_and(|m| RIVALS.contains(&m.as_str()));
    let rivals = files.iter().filter(is_rival).map(|f| (*f).to_owned()).collect();
    // /lib is /usr/lib on merged systems: the same file has either name.
    let plain = |path: &str| path.trim_start_matches('/').trim_start_matches("usr/").to_owned();
    let inside: BTreeSet<_> = files.iter().filter(|f| f.contains("modprobe.d/")).map(|f| plain(f)).collect();
    // The copy in the image is as the file was when the image was made.
    let copied = |d: &&Denial| {
        d.modified.is_some_and(|written| written <= made) && inside.contains(&plain(&d.by.to_string_lossy()))
    };
    Image { rivals, denied: denied.iter().filter(copied).map(|d| d.module.clone()).collect() }
}

/// Who signed the module that boots next, where the firmware asks for signatures.
fn signer(system: &System, facts: &Facts) -> Answer<Option<String>> {
    if facts.secure_boot != SecureBoot::Enabled {
        return Answer::NotAsked("the firmware asks for no signatures".to_owned());
    }
    let Some(kernel) = facts.kernel() else { return Answer::NotAsked("no kernel is known".to_owned()) };
    // Debian's module has another name, and modprobe an alias.
    let mut last = Answer::NotAsked("there is no nvidia module".to_owned());
    for module in ["nvidia", "nvidia-current"] {
        match ask(system, ["modinfo", "-k", kernel, "-F", "signer", module], Duration::from_secs(10)) {
            Answer::Is(text) => return Answer::Is(Some(text.trim().to_owned()).filter(|t| !t.is_empty())),
            Answer::Failed(_) => {}
            Answer::NotAsked(why) => last = Answer::NotAsked(why),
        }
    }
    last
}

/// Asked where there are NVSwitches to manage.
fn fabric_manager(system: &System, facts: &Facts) -> Answer<FabricManager> {
    const PROGRAM: &str = "/usr/bin/nv-fabricmanager";
    if facts.nvswitches.is_empty() {
        return Answer::NotAsked("there is no NVSwitch".to_owned());
    }
    if !system.exists(PROGRAM) {
        return Answer::Failed("it is not installed".to_owned());
    }
    let version = match ask(system, [PROGRAM, "--version"], Duration::from_secs(10)) {
        // "Fabric Manager version is : 535.183.01"
        Answer::Is(text) => text.split_whitespace().find_map(|word| word.parse::<DriverVersion>().ok()),
        Answer::Failed(why) => return Answer::Failed(why),
        Answer::NotAsked(why) => return Answer::NotAsked(why),
    };
    let Some(version) = version else { return Answer::Failed("it does not say its version".to_owned()) };
    let unit = ["systemctl", "is-active", "nvidia-fabricmanager.service"];
    let active = system.is_live().then(|| matches!(ask(system, unit, Duration::from_secs(10)), Answer::Is(_)));
    Answer::Is(FabricManager { version, active })
}

fn nvcc(system: &System, toolkit: &Path) -> Answer<CudaVersion> {
    // The distribution's own has its programs in /usr/bin; the facts' path is its library directory.
    let own = toolkit.join("bin/nvcc");
    let nvcc = if system.exists(&own) { own } else { PathBuf::from("/usr/bin/nvcc") };
    match ask(system, [&nvcc.display().to_string(), "--version"], Duration::from_secs(20)) {
        Answer::Is(text) => match release(&text) {
            Some(version) => Answer::Is(version),
            None => Answer::Failed(format!("{} --version names no release", nvcc.display())),
        },
        Answer::Failed(why) => Answer::Failed(why),
        Answer::NotAsked(why) => Answer::NotAsked(why),
    }
}

/// `Cuda compilation tools, release 12.4, V12.4.131`.
fn release(text: &str) -> Option<CudaVersion> {
    text.split_once("release ")?.1.split(',').next()?.parse().ok()
}

/// Asks real shells, with an environment as a fresh login has it.
fn shells(system: &System) -> Answer<Shells> {
    const LIMIT: Duration = Duration::from_secs(10);
    let shell = if system.exists("/bin/bash") { "/bin/bash" } else { "/bin/sh" };
    let found = |answer: Answer<String>| match answer {
        // Profiles may say something too.
        Answer::Is(text) => {
            Ok(text.lines().rev().find(|l| l.starts_with('/') && l.ends_with("/nvcc")).map(PathBuf::from))
        }
        // `command -v` has a status of its own for "none".
        Answer::Failed(_) => Ok(None),
        Answer::NotAsked(why) => Err(why),
    };
    // chroot's statuses for "not run" and the shell's for "not found" are the same number.
    match ask(system, [shell, "-c", "exit 0"], LIMIT) {
        Answer::Is(_) => {}
        Answer::Failed(why) | Answer::NotAsked(why) => return Answer::NotAsked(why),
    }
    let login = found(ask(system, [shell, "-lc", "command -v nvcc || exit 1"], LIMIT));
    let plain = found(ask(system, [shell, "-c", "command -v nvcc || exit 1"], LIMIT));
    match (login, plain) {
        (Ok(login), Ok(plain)) => Answer::Is(Shells { login, plain }),
        (Err(why), _) | (_, Err(why)) => Answer::NotAsked(why),
    }
}

/// The directories of ld.so.conf and those built in.
fn loader_directories(system: &System) -> BTreeSet<PathBuf> {
    let mut directories: BTreeSet<PathBuf> =
        ["/lib", "/usr/lib", "/lib64", "/usr/lib64"].iter().map(|d| resolved(system, Path::new(d))).collect();
    let mut files = vec![PathBuf::from("/etc/ld.so.conf")];
    let mut read = BTreeSet::new();
    while let Some(file) = files.pop() {
        if !read.insert(file.clone()) {
            continue;
        }
        for line in text(system, &file).lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            match line.strip_prefix("include") {
                Some(pattern) => files.extend(matching(system, Path::new(pattern.trim()))),
                None if line.starts_with('/') => {
                    directories.insert(resolved(system, Path::new(line)));
                }
                None => {}
            }
        }
    }
    directories
}

/// The files of an `include DIRECTORY/*.conf`; a star stands at the beginning of the name in every distribution.
fn matching(system: &System, pattern: &Path) -> Vec<PathBuf> {
    let pattern = Path::new("/etc").join(pattern);
    let (Some(directory), Some(name)) = (pattern.parent(), pattern.file_name()) else { return Vec::new() };
    let name = name.to_string_lossy();
    match name.strip_prefix('*') {
        Some(end) => names(system, directory).filter(|n| n.ends_with(end)).map(|n| directory.join(n)).collect(),
        None => vec![pattern.clone()],
    }
}

/// `path` without links, as the host itself would say it.
fn resolved(system: &System, path: &Path) -> PathBuf {
    let outside = system.locate_target(path).ok();
    let inside = outside.as_deref().and_then(|p| p.strip_prefix(system.root()).ok());
    inside.map_or_else(|| path.to_owned(), |p| Path::new("/").join(p))
}

fn cached(system: &System, facts: &Facts) -> Vec<Cached> {
    let entries = facts.loader_cache.iter().flat_map(|c| &c.entries);
    let entry = |(soname, path): &(String, PathBuf)| Cached {
        soname: soname.clone(),
        directory: resolved(system, path.parent().unwrap_or(Path::new("/"))),
        exists: system.exists(path),
        path: path.clone(),
    };
    entries.map(entry).collect()
}

/// By the release, or the newest of its series where that does not show.
fn newest_gcc(database: &Database, version: CudaVersion) -> Option<u16> {
    let of = |same: &dyn Fn(CudaVersion) -> bool| database.cuda.iter().find(|r| same(r.version))?.gcc_max;
    of(&|v| v == version).or_else(|| of(&|v| v.series() == version.series()))
}

/// Where a variable is set for everybody.
fn set_for_everybody(system: &System, assignment: &str) -> Vec<(PathBuf, String)> {
    let scripts = names(system, "/etc/profile.d").map(|n| Path::new("/etc/profile.d").join(n));
    let files = ["/etc/environment", "/etc/profile"].map(PathBuf::from).into_iter().chain(scripts);
    let lines = |file: PathBuf| {
        let text = text(system, &file);
        let sets = |l: &&str| !l.trim_start().starts_with('#') && l.contains(assignment);
        text.lines().filter(sets).map(|l| (file.clone(), l.trim().to_owned())).collect::<Vec<_>>()
    };
    files.flat_map(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_kept_out_in_many_ways() {
        let text = "# blacklist vfio\nblacklist nouveau\ninstall nova-core /bin/false\ninstall nvidia /sbin/modprobe x\n\
                    options nouveau modeset=0\n";
        assert_eq!(denied_by(text), ["nouveau", "nova_core"]);
        let line = "GRUB_CMDLINE_LINUX=\"quiet rd.driver.blacklist=nouveau,nova-core modprobe.blacklist=nouveau\"";
        assert_eq!(denied_on_command_line(line), ["nouveau", "nova_core", "nouveau"]);
    }

    #[test]
    fn an_image_denies_what_its_own_copy_of_the_configuration_denies() {
        let denial = |by: &str, modified| Denial { module: "nouveau".into(), by: by.into(), modified: Some(modified) };
        let listing = "kernel\nusr/lib/modules/6.1.0/kernel/drivers/gpu/drm/nouveau/nouveau.ko.xz\n\
                       etc/modprobe.d/gpusetup-nouveau.conf\n";
        let with = |by: &str, modified| contents(listing, 100, &[denial(by, modified)]);
        assert_eq!(with("/etc/modprobe.d/gpusetup-nouveau.conf", 100).denied, ["nouveau"]);
        assert_eq!(with("/etc/modprobe.d/gpusetup-nouveau.conf", 101).denied, [""; 0], "written after the image");
        assert_eq!(with("/etc/modprobe.d/other.conf", 1).denied, [""; 0], "not in the image");
        assert_eq!(with("/x", 1).rivals.len(), 1);
        let lsinitrd = "-rw-r--r-- 1 root root 9 Jan 1 1970 usr/lib/modules/5.14/kernel/drivers/gpu/nova-core.ko.zst\n\
                        -rw-r--r-- 1 root root 9 Jan 1 1970 usr/lib/modprobe.d/nvidia.conf\n";
        let image = contents(lsinitrd, 100, &[denial("/lib/modprobe.d/nvidia.conf", 1)]);
        assert_eq!((image.rivals.len(), image.denied.len()), (1, 1));
    }

    #[test]
    fn the_loaders_directories_are_those_of_all_its_files() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        system.make_directories("/etc/ld.so.conf.d", 0o755).expect("made");
        system.make_directories("/usr/local/cuda-12.8/lib64", 0o755).expect("made");
        system.link("/usr/local/cuda", Path::new("cuda-12.8")).expect("linked");
        system.write("/etc/ld.so.conf", b"include /etc/ld.so.conf.d/*.conf\n", 0o644).expect("written");
        system.write("/etc/ld.so.conf.d/cuda.conf", b"# toolkit\n/usr/local/cuda/lib64\n", 0o644).expect("written");
        let found = loader_directories(&system);
        assert!(found.contains(Path::new("/usr/local/cuda-12.8/lib64")), "{found:?}");
    }

    #[test]
    fn nvcc_names_its_release() {
        let text = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 12.4, V12.4.131\n";
        assert_eq!(release(text).map(|v| v.to_string()).as_deref(), Some("12.4"));
        assert_eq!(release("nonsense"), None);
    }
}
