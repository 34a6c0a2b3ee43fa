//! Placements: a path that gpusetup opens is replaced by a link out of the tree, a hard link to a
//! file outside, or something that is not a regular file.

use super::bench::{Bench, Ran};
use super::model::Model;
use super::outside::{Outside, SECRET};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What replaces a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A symbolic link to a file outside.
    AbsoluteToFile,
    RelativeToFile,
    /// A dangling symbolic link: gpusetup would create the file outside.
    AbsoluteToNew,
    RelativeToNew,
    /// A symbolic link to a directory outside. If it replaces a directory, the one outside has the
    /// same content.
    AbsoluteToFolder,
    RelativeToFolder,
    /// A hard link to a file outside.
    HardLink,
    Fifo,
    /// /dev/zero: reading it never ends.
    Zero,
    /// A block device that does not exist.
    Block,
    Folder,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::AbsoluteToFile,
        Self::RelativeToFile,
        Self::AbsoluteToNew,
        Self::RelativeToNew,
        Self::AbsoluteToFolder,
        Self::RelativeToFolder,
        Self::HardLink,
        Self::Fifo,
        Self::Zero,
        Self::Block,
        Self::Folder,
    ];

    /// Replaces `path` in `area`. `outside` is the directory outside the tree.
    fn put(self, host: &Model, area: &Path, path: &Path, outside: &Path) {
        let at = area.join(path);
        remove(&at);
        fs::create_dir_all(at.parent().expect("below the area")).expect("made");
        let device = |kind, major, minor| {
            mknodat(
                CWD,
                &at,
                kind,
                Mode::from_raw_mode(0o666),
                makedev(major, minor),
            )
        };
        let folder = match host.is_directory(path) {
            true => "same",
            false => "folder",
        };
        let absolute = |name: &str| symlink(outside.join(name), &at).expect("linked");
        // `outside` lies directly in the area.
        let up = "../".repeat(path.components().count() - 1);
        let name = outside.file_name().expect("a name").to_string_lossy();
        let relative = |to: &str| symlink(format!("{up}{name}/{to}"), &at).expect("linked");
        match self {
            Self::AbsoluteToFile => absolute("file"),
            Self::RelativeToFile => relative("file"),
            Self::AbsoluteToNew => absolute("new"),
            Self::RelativeToNew => relative("new"),
            Self::AbsoluteToFolder | Self::RelativeToFolder => {
                if folder == "same" {
                    host.below(path).make(&outside.join(folder));
                }
                if self == Self::AbsoluteToFolder {
                    absolute(folder)
                } else {
                    relative(folder)
                }
            }
            Self::HardLink => fs::hard_link(outside.join("file"), &at).expect("linked"),
            Self::Fifo => device(FileType::Fifo, 0, 0).expect("made"),
            Self::Zero => device(FileType::CharacterDevice, 1, 5).expect("made"),
            Self::Block => device(FileType::BlockDevice, 7, 250).expect("made"),
            Self::Folder => fs::create_dir(&at).expect("made"),
        }
    }
}

fn remove(path: &Path) {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path).expect("removed"),
        Ok(_) => fs::remove_file(path).expect("removed"),
        Err(_) => {}
    }
}

/// A gpusetup command, and the host it runs on.
pub struct Scenario {
    pub name: &'static str,
    pub host: Model,
    pub arguments: Vec<&'static str>,
}

/// One attack.
pub struct Placement<'a> {
    pub scenario: &'a Scenario,
    pub path: PathBuf,
    pub kind: Kind,
}

impl<'a> Scenario {
    /// All placements for this command.
    pub fn placements(&'a self, bench: &Bench) -> Vec<Placement<'a>> {
        let paths = super::trace::paths(bench, &self.host, &self.arguments);
        let all = paths.iter().flat_map(|path| {
            Kind::ALL.map(|kind| Placement {
                scenario: self,
                path: path.clone(),
                kind,
            })
        });
        // Replacing a directory by a directory changes nothing.
        all.filter(|p| p.kind != Kind::Folder || !self.host.is_directory(&p.path))
            .collect()
    }
}

impl Placement<'_> {
    pub fn describe(&self) -> String {
        format!(
            "{}: {} {:?}",
            self.scenario.name,
            self.path.display(),
            self.kind
        )
    }

    /// Runs the attack; the harm is empty if gpusetup withstands it.
    fn attack(&self, bench: &Bench, area: &Path) -> (BTreeSet<&'static str>, Ran) {
        let _ = fs::remove_dir_all(area);
        self.scenario.host.make(area);
        let mut outside = Outside::make(&area.join("outside"));
        self.kind
            .put(&self.scenario.host, area, &self.path, &area.join("outside"));
        outside.remember();
        let ran = bench.run(area, &self.scenario.arguments);
        let mut harm = outside.harm(self.kind == Kind::HardLink);
        harm.extend(ran.trouble());
        // A hard link is a file of the tree: in ostree's trees, every file is one.
        harm.extend(
            (self.kind != Kind::HardLink && ran.output.contains(SECRET)).then_some("shown"),
        );
        // The caller named these files, and may name a link.
        if self.path.starts_with("in") {
            harm.remove("read");
        }
        (harm, ran)
    }
}

/// The results of all placements.
#[derive(Default)]
pub struct Tally {
    /// Placements and escapes for each command.
    pub commands: BTreeMap<&'static str, (usize, usize)>,
    /// Escapes for each kind of harm.
    pub harms: BTreeMap<&'static str, usize>,
    /// A line for each escape.
    pub escapes: Vec<String>,
}

/// Runs the attacks on all cores.
pub fn attack(bench: &Bench, placements: &[Placement]) -> Tally {
    let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    let worker = |number: usize| {
        let area = bench.path(&format!("area-{number}"));
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(placement) = placements.get(number) else {
                break;
            };
            if number % 1000 == 999 {
                println!("  {} of {}", number + 1, placements.len());
            }
            let (harm, ran) = placement.attack(bench, &area);
            let mut tally = tally.lock().expect("no panic");
            let (count, escaped) = tally.commands.entry(placement.scenario.name).or_default();
            *count += 1;
            *escaped += usize::from(!harm.is_empty());
            harm.iter()
                .for_each(|harm| *tally.harms.entry(harm).or_default() += 1);
            if !harm.is_empty() {
                let last = ran.output.lines().last().unwrap_or_default();
                let line = format!("{}: {harm:?} ({last})", placement.describe());
                println!("  escaped: {line}");
                tally.escapes.push(line);
            }
        }
        let _ = fs::remove_dir_all(area);
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        (0..cores).for_each(|number| drop(scope.spawn(move || worker(number))))
    });
    tally.into_inner().expect("no panic")
}
