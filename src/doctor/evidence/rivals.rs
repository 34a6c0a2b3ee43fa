//! What keeps other drivers of the GPUs out, and which of them come with an initramfs all the same.

use super::{Answer, ask, names, text};
use crate::compat::InitramfsTool;
use crate::host::{Facts, Kernel};
use crate::plan::RIVALS;
use crate::system::System;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A kernel module that is kept out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// The module, with underscores.
    pub module: String,
    /// The file that says so.
    pub by: PathBuf,
    /// When it was written, in seconds since 1970; none for the kernel's command line.
    pub modified: Option<i64>,
}

/// What is in an initramfs and matters here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Files of rivals' modules.
    pub rivals: Vec<String>,
    /// Rivals that modprobe's configuration in the image keeps out.
    pub denied: Vec<String>,
    /// Rivals that the image is told to load by their names, which nothing keeps out.
    #[serde(default)]
    pub forced: Vec<String>,
}

/// What modprobe's configuration and the kernel's command line keep out.
pub fn denied(system: &System) -> Vec<Denial> {
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
pub fn images(system: &System, facts: &Facts, denied: &[Denial]) -> BTreeMap<String, Answer<Image>> {
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
    let forced = forced(system, tool);
    let certain = denied_for_certain(system, tool, initramfs.modified, denied).filter(|_| forced.is_empty());
    if let Some(denied) = certain {
        // Unpacking it to see what else it has would take longer than all other checks together.
        return Answer::Is(Image { denied, ..Image::default() });
    }
    let path = initramfs.path.display().to_string();
    match ask(system, [lister, &path], Duration::from_secs(120)) {
        Answer::Is(listing) => Answer::Is(Image { forced, ..contents(&listing, initramfs.modified, denied) }),
        // An image that its own tool cannot read is a finding of another check; here it is only not seen.
        Answer::Failed(why) | Answer::NotAsked(why) => Answer::NotAsked(why),
    }
}

/// The file whose modules initramfs-tools loads by their names: what modprobe's configuration denies holds for what is found by
/// a device's id, and for no name.
pub const FORCED: &str = "/etc/initramfs-tools/modules";

fn forced(system: &System, tool: InitramfsTool) -> Vec<String> {
    if tool != InitramfsTool::UpdateInitramfs {
        return Vec::new();
    }
    let list = text(system, FORCED);
    let names = list.lines().filter_map(|l| l.split_whitespace().next()).map(|name| name.replace('-', "_"));
    names.filter(|name| RIVALS.contains(&name.as_str())).collect()
}

/// All rivals, where the image keeps them out whatever else is in it: mkinitramfs copies these two folders whole, and the files
/// that deny were there before it was made. When a file was last written does not tell that, since packages bring files of
/// any age; when its inode was last changed does.
fn denied_for_certain(system: &System, tool: InitramfsTool, made: i64, denied: &[Denial]) -> Option<Vec<String>> {
    let is_copied = |d: &Denial| {
        let copied =
            ["/etc/modprobe.d", "/lib/modprobe.d"].iter().any(|folder| d.by.parent() == Some(Path::new(folder)));
        copied && system.changed(&d.by).is_some_and(|changed| changed < made)
    };
    let is_denied = |rival: &str| denied.iter().any(|d| d.module == rival && is_copied(d));
    let all = tool == InitramfsTool::UpdateInitramfs && RIVALS.iter().all(|rival| is_denied(rival));
    all.then(|| RIVALS.map(str::to_owned).to_vec())
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
    Image { rivals, denied: denied.iter().filter(copied).map(|d| d.module.clone()).collect(), forced: Vec::new() }
}

/// For fuzzing.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    let _ = contents(text, 0, &[]);
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
    fn what_was_there_before_mkinitramfs_copied_it_is_in_the_image() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        system.make_directories("/etc/modprobe.d", 0o755).expect("made");
        let by = "/etc/modprobe.d/gpusetup-nouveau.conf";
        system.write(by, b"x", 0o644).expect("written");
        let changed = system.changed(by).expect("a file");
        let denied = RIVALS.map(|module| Denial { module: module.into(), by: by.into(), modified: Some(1) });
        let certain = |tool, made, denied: &[Denial]| denied_for_certain(&system, tool, made, denied).is_some();
        assert!(certain(InitramfsTool::UpdateInitramfs, changed + 1, &denied));
        assert!(!certain(InitramfsTool::UpdateInitramfs, changed, &denied), "written an age ago, put there since");
        assert!(!certain(InitramfsTool::UpdateInitramfs, changed + 1, &denied[1..]), "nobody denies nouveau");
        assert!(!certain(InitramfsTool::Dracut, changed + 1, &denied), "a generic image has no files of /etc");
    }

    #[test]
    fn what_is_loaded_by_its_name_is_told() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        system.make_directories("/etc/initramfs-tools", 0o755).expect("made");
        system.write(FORCED, b"# nouveau\n\nnova-core\next4\n", 0o644).expect("written");
        assert_eq!(forced(&system, InitramfsTool::UpdateInitramfs), ["nova_core"]);
        assert_eq!(forced(&system, InitramfsTool::Dracut), [""; 0]);
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
}
