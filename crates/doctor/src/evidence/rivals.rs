//! The blacklists for other drivers of the GPUs in modprobe's configuration and on the kernel's
//! command line, and these drivers in initramfs images.

use super::initramfs::Budget;
use super::{Answer, initramfs, text};
use gpusetup_database::compat::InitramfsTool;
use gpusetup_host::{Facts, Kernel, RIVALS, modprobe};
use gpusetup_system::{System, consists_of_holes, on_all_cores};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A blacklisted kernel module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct BlacklistEntry {
    /// The kernel module, with underscores.
    pub(crate) module: String,
    /// The file that blacklists it.
    pub(crate) by: PathBuf,
    /// When that file was written, in seconds since 1970. None for the kernel's command line.
    pub(crate) modified: Option<i64>,
}

/// The relevant contents of an initramfs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct InitramfsContents {
    /// Files of rivals' modules.
    pub(crate) rivals: Vec<String>,
    /// Rivals that modprobe's configuration in the image blacklists.
    pub(crate) denied: Vec<String>,
    /// Rivals that the image loads by name, which no blacklist prevents.
    #[serde(default)]
    pub(crate) forced: Vec<String>,
}

/// The rivals of the driver that modprobe's configuration and the kernel's command line keep from
/// being loaded.
pub(crate) fn denied(system: &System) -> Vec<BlacklistEntry> {
    let mut found = Vec::new();
    for (by, configuration) in modprobe::configuration(system) {
        let modified = system.modified(&by);
        let modules = denied_by(&configuration).into_iter();
        found.extend(modules.map(|module| BlacklistEntry {
            module,
            by: by.clone(),
            modified,
        }));
    }
    for (by, line) in modprobe::command_lines(system) {
        let modules = denied_on_command_line(&line).into_iter();
        found.extend(modules.map(|module| BlacklistEntry {
            module,
            by: by.clone(),
            modified: None,
        }));
    }
    found
}

/// `blacklist nouveau` and `install nouveau /bin/false`, for the rival drivers only.
fn denied_by(configuration: &str) -> Vec<String> {
    rivals(configuration.lines().filter_map(|line| {
        let (verb, module, how) = modprobe::parsed(line)?;
        (verb == "blacklist" || verb == "install" && modprobe::is_nothing(how)).then_some(module)
    }))
}

/// `modprobe.blacklist=nouveau,nova_core`, `rd.driver.blacklist=nouveau`, the older
/// `rdblacklist=nouveau`.
fn denied_on_command_line(line: &str) -> Vec<String> {
    const OPTIONS: [&str; 4] = [
        "modprobe.blacklist",
        "module_blacklist",
        "rd.driver.blacklist",
        "rdblacklist",
    ];
    rivals(
        modprobe::lists(line)
            .filter(|(option, _)| OPTIONS.contains(option))
            .flat_map(|(_, modules)| modules),
    )
}

/// Each of the rival drivers once.
fn rivals(modules: impl Iterator<Item = String>) -> Vec<String> {
    let all: BTreeSet<_> = modules
        .filter(|module| RIVALS.contains(&module.as_str()))
        .collect();
    all.into_iter().collect()
}

/// The relevant contents of each kernel's initramfs. The images are read without starting a
/// program.
pub(crate) fn images(
    system: &System,
    facts: &Facts,
    denied: &[BlacklistEntry],
) -> BTreeMap<String, Answer<InitramfsContents>> {
    let installed = facts.kernels.installed.iter();
    let kernels: Vec<_> = installed
        .filter_map(|k| Some((k, key(system, &k.initramfs.as_ref()?.path))))
        .collect();
    // An image that has several names is read once. The newest is the first, so that the oldest is
    // left out if they are too much.
    let (mut distinct, mut seen): (Vec<_>, BTreeSet<_>) = Default::default();
    for (kernel, key) in kernels.iter().rev() {
        if seen.insert(key) {
            distinct.push((key, *kernel));
        }
    }
    let budget = Budget::default();
    // Decoders take memory: of a tree, whose images a stranger may have made, one is read at a
    // time.
    let at_once = if system.is_live() {
        distinct.len().max(1)
    } else {
        1
    };
    let read = distinct.chunks(at_once).flat_map(|some| {
        on_all_cores(some, |(_, kernel)| {
            image(system, facts, kernel, denied, &budget)
        })
    });
    let read: Vec<_> = read.collect();
    let read: BTreeMap<_, _> = distinct.into_iter().map(|(key, _)| key).zip(read).collect();
    kernels
        .iter()
        .filter_map(|(kernel, key)| Some((kernel.release.clone(), read.get(key)?.clone())))
        .collect()
}

/// What tells an image from others: its device and inode, or its path if it cannot be found.
fn key(system: &System, image: &Path) -> Result<(u64, u64), PathBuf> {
    system
        .metadata(image)
        .map(|meta| (meta.dev(), meta.ino()))
        .map_err(|_| image.to_owned())
}

fn image(
    system: &System,
    facts: &Facts,
    kernel: &Kernel,
    denied: &[BlacklistEntry],
    budget: &Budget,
) -> Answer<InitramfsContents> {
    let Some((initramfs, tool)) = kernel.initramfs.as_ref().zip(facts.os.initramfs) else {
        return Answer::NotAsked("no tool that builds initramfs images was found".to_owned());
    };
    let forced = forced(system, tool);
    let certain =
        denied_for_certain(system, tool, initramfs.modified, denied).filter(|_| forced.is_empty());
    if let Some(denied) = certain {
        // Unpacking the rest would take longer than all other checks together.
        return Answer::Is(InitramfsContents {
            denied,
            ..InitramfsContents::default()
        });
    }
    match system
        .open(&initramfs.path)
        .and_then(|file| match consists_of_holes(&file)? {
            true => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it is a sparse file",
            )),
            false => contents(system, &initramfs.path, file, budget),
        }) {
        Ok(image) => Answer::Is(InitramfsContents { forced, ..image }),
        // A broken image is a finding of another check; here it is just not readable.
        Err(e) => Answer::NotAsked(format!(
            "{} could not be read: {e}",
            initramfs.path.display()
        )),
    }
}

/// The file whose modules initramfs-tools loads by name. A blacklist of modprobe applies only to
/// modules that are found by a device's id, not by name.
pub(crate) const FORCED: &str = "/etc/initramfs-tools/modules";

fn forced(system: &System, tool: InitramfsTool) -> Vec<String> {
    if tool != InitramfsTool::UpdateInitramfs {
        return Vec::new();
    }
    let list = text(system, FORCED);
    let names = list
        .lines()
        .filter_map(|l| l.split_whitespace().next())
        .map(|name| name.replace('-', "_"));
    names
        .filter(|name| RIVALS.contains(&name.as_str()))
        .collect()
}

/// All rivals, if the image is certain to blacklist them: mkinitramfs copies these two directories
/// completely, and the blacklists existed before it ran. This compares the change time of inodes,
/// since packages install files of any age.
fn denied_for_certain(
    system: &System,
    tool: InitramfsTool,
    made: i64,
    denied: &[BlacklistEntry],
) -> Option<Vec<String>> {
    let copied = denied.iter().filter(|entry| {
        let mut folders = ["/etc/modprobe.d", "/lib/modprobe.d"].iter().map(Path::new);
        folders.any(|folder| entry.by.parent() == Some(folder))
            && system
                .changed(&entry.by)
                .is_some_and(|changed| changed < made)
    });
    let mut rivals = RIVALS.iter();
    let all = tool == InitramfsTool::UpdateInitramfs
        && rivals.all(|rival| copied.clone().any(|entry| entry.module == *rival));
    all.then(|| RIVALS.map(str::to_owned).to_vec())
}

/// The relevant contents of an image: its modules, and the blacklists in its own copy of modprobe's
/// configuration.
fn contents(
    system: &System,
    path: &Path,
    image: impl Read,
    budget: &Budget,
) -> io::Result<InitramfsContents> {
    let mut inside = Inside::default();
    initramfs::read(system, path, image, budget, &mut inside)?;
    let Inside {
        rivals,
        more,
        configuration,
    } = inside;
    if more {
        system.leave_out(
            path,
            &format!("of each other driver only its first {MAX_RIVALS} modules are named"),
        );
    }
    // Each line is taken apart.
    let denied = system.working(path, || {
        configuration
            .values()
            .flat_map(|(_, text)| denied_by(text))
            .collect::<BTreeSet<_>>()
    })?;
    let denied = denied
        .into_iter()
        .filter(|module| RIVALS.contains(&module.as_str()));
    Ok(InitramfsContents {
        rivals,
        denied: denied.collect(),
        forced: Vec::new(),
    })
}

/// How many modules of each rival are named of an image: it has one, of its kernel.
const MAX_RIVALS: usize = 8;
/// Bytes of the name of a file in an image that is kept: real ones have a hundred.
const MAX_NAME: usize = 512;

/// The rival whose module a file is, by its name.
fn rival(name: &str) -> Option<&'static str> {
    let module = name
        .rsplit('/')
        .next()?
        .split_once(".ko")?
        .0
        .replace('-', "_");
    RIVALS.into_iter().find(|rival| *rival == module)
}

/// The name of a rival's module, without the folders and the end of one that is too long.
fn shortened(name: &str, rival: &str) -> String {
    if name.len() > MAX_NAME {
        format!("…/{rival}.ko")
    } else {
        name.to_owned()
    }
}

/// The data kept while an image is read.
#[derive(Default)]
struct Inside {
    rivals: Vec<String>,
    /// Whether there are more of them.
    more: bool,
    /// By file name: the directory's place in the order of precedence, and the text.
    configuration: BTreeMap<String, (usize, String)>,
}

impl Inside {
    /// More than any image has; limits the memory.
    const MAX_ENTRIES: usize = 1000;

    /// A file of modprobe's configuration: its name, and its directory's place in the order of
    /// precedence.
    fn of_configuration(name: &str) -> Option<(usize, &str)> {
        let (directory, file) = name
            .rsplit_once('/')
            .filter(|(_, file)| file.ends_with(".conf"))?;
        let place = modprobe::CONFIGURATION
            .iter()
            .position(|known| known.trim_start_matches('/') == directory)?;
        Some((place, file))
    }
}

impl initramfs::Visitor for Inside {
    fn file(&mut self, name: &str) -> bool {
        if let Some(module) = rival(name) {
            let same = self
                .rivals
                .iter()
                .filter(|known| rival(known) == Some(module))
                .count();
            match same < MAX_RIVALS {
                true => self.rivals.push(shortened(name, module)),
                false => self.more = true,
            }
        }
        let wanted = Self::of_configuration(name).is_some_and(|(place, file)| {
            self.configuration
                .get(file)
                .is_none_or(|(known, _)| place <= *known)
        });
        wanted && self.configuration.len() < Self::MAX_ENTRIES
    }

    fn text(&mut self, name: &str, text: &str) {
        if let Some((place, file)) = Self::of_configuration(name) {
            self.configuration
                .insert(file.to_owned(), (place, text.to_owned()));
        }
    }
}

/// For fuzzing.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    let _ = contents(
        &System::live(),
        Path::new("/"),
        text.as_bytes(),
        &Budget::default(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_kept_out_in_many_ways() {
        let text = "# blacklist vfio\nblacklist nouveau\ninstall nova-core /bin/false\ninstall nvidia /sbin/modprobe x\n\
                    options nouveau modeset=0\n";
        assert_eq!(
            denied_by(&format!("{text}{text}")),
            ["nouveau", "nova_core"],
            "each once, and no other"
        );
        let line = "GRUB_CMDLINE_LINUX=\"quiet rd.driver.blacklist=nouveau,nova-core modprobe.blacklist=nouveau\"";
        assert_eq!(denied_on_command_line(line), ["nouveau", "nova_core"]);
    }

    #[test]
    fn what_was_there_before_mkinitramfs_copied_it_is_in_the_image() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        system
            .make_directories("/etc/modprobe.d", 0o755)
            .expect("made");
        let by = "/etc/modprobe.d/gpusetup-nouveau.conf";
        system.write(by, b"x", 0o644).expect("written");
        let changed = system.changed(by).expect("a file");
        let denied = RIVALS.map(|module| BlacklistEntry {
            module: module.into(),
            by: by.into(),
            modified: Some(1),
        });
        let certain = |tool, made, denied: &[BlacklistEntry]| {
            denied_for_certain(&system, tool, made, denied).is_some()
        };
        assert!(certain(
            InitramfsTool::UpdateInitramfs,
            changed + 1,
            &denied
        ));
        assert!(
            !certain(InitramfsTool::UpdateInitramfs, changed, &denied),
            "written an age ago, put there since"
        );
        assert!(
            !certain(InitramfsTool::UpdateInitramfs, changed + 1, &denied[1..]),
            "nobody denies nouveau"
        );
        assert!(
            !certain(InitramfsTool::Dracut, changed + 1, &denied),
            "a generic image has no files of /etc"
        );
    }

    #[test]
    fn what_is_loaded_by_its_name_is_told() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        system
            .make_directories("/etc/initramfs-tools", 0o755)
            .expect("made");
        system
            .write(FORCED, b"# nouveau\n\nnova-core\next4\n", 0o644)
            .expect("written");
        assert_eq!(
            forced(&system, InitramfsTool::UpdateInitramfs),
            ["nova_core"]
        );
        assert_eq!(forced(&system, InitramfsTool::Dracut), [""; 0]);
    }

    #[test]
    fn an_image_denies_what_its_own_copy_of_the_configuration_denies() {
        let image = |files: &[(&str, &str)]| {
            let files: Vec<_> = files
                .iter()
                .map(|(name, text)| (*name, text.as_bytes()))
                .collect();
            contents(
                &System::live(),
                Path::new("/"),
                &*initramfs::cpio(&files),
                &Budget::default(),
            )
            .expect("read")
        };
        let found = image(&[
            ("kernel", "x"),
            (
                "usr/lib/modules/6.1.0/kernel/drivers/gpu/drm/nouveau/nouveau.ko.xz",
                "x",
            ),
            (
                "etc/modprobe.d/gpusetup-nouveau.conf",
                "blacklist nouveau\nblacklist floppy\n",
            ),
            (
                "usr/lib/modprobe.d/nova.conf",
                "install nova-core /bin/false\n",
            ),
        ]);
        assert_eq!(
            (found.rivals.len(), found.denied),
            (1, vec!["nouveau".to_owned(), "nova_core".to_owned()])
        );
        let masked = image(&[
            ("lib/modprobe.d/a.conf", "blacklist nouveau\n"),
            ("etc/modprobe.d/a.conf", "# nothing\n"),
            ("usr/lib/modprobe.d/a.conf", "blacklist nova-core\n"),
        ]);
        assert_eq!(
            masked.denied, [""; 0],
            "a file in /etc stands for those of its name elsewhere"
        );
        assert_eq!(
            image(&[("etc/other.conf", "blacklist nouveau\n")]),
            InitramfsContents::default()
        );
    }

    #[test]
    fn few_and_short_names_of_an_image_are_kept() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path()).looked_at();
        let long = ["d"; 1000].join("/");
        let names = (0..100).map(|n| format!("{long}/{n}/nouveau.ko.xz"));
        let names: Vec<_> = names.chain(["a/nova-core.ko.zst".to_owned()]).collect();
        let files: Vec<_> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
        let read = |files: &[(&str, &[u8])]| {
            contents(
                &system,
                Path::new("/boot/image"),
                &*initramfs::cpio(files),
                &Budget::default(),
            )
            .expect("read")
            .rivals
        };
        assert_eq!(read(&files[100..]), ["a/nova-core.ko.zst"]);
        assert!(system.left_out().is_empty());
        let found = read(&files);
        assert_eq!(
            found,
            [vec!["…/nouveau.ko"; MAX_RIVALS], vec!["a/nova-core.ko.zst"]].concat()
        );
        let said: Vec<_> = system.left_out().into_iter().map(|one| one.why).collect();
        assert_eq!(
            said,
            ["of each other driver only its first 8 modules are named"]
        );
    }
}
