//! Something in the place of what gpusetup expects: a link that leads out of the tree, a second name of a file outside, something
//! that is no file.

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

/// What is put there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Links to a file outside.
    AbsoluteToFile,
    RelativeToFile,
    /// Links to a name outside that nobody has yet.
    AbsoluteToNew,
    RelativeToNew,
    /// Links to a folder outside; in a folder's place, to one that holds the same names.
    AbsoluteToFolder,
    RelativeToFolder,
    /// A second name of a file outside.
    HardLink,
    Fifo,
    /// A device that never ends.
    Zero,
    /// A block device with nothing behind it.
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

    /// Puts it at `path` in `area`, where `outside` is.
    fn put(self, host: &Model, area: &Path, path: &Path, outside: &Path) {
        let at = area.join(path);
        remove(&at);
        fs::create_dir_all(at.parent().expect("below the area")).expect("made");
        let device = |kind, major, minor| mknodat(CWD, &at, kind, Mode::from_raw_mode(0o666), makedev(major, minor));
        let folder = match host.is_directory(path) {
            true => "same",
            false => "folder",
        };
        let absolute = |name: &str| symlink(outside.join(name), &at).expect("linked");
        // As deep as the path is in the area, which is as deep as `outside` is not.
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
                if self == Self::AbsoluteToFolder { absolute(folder) } else { relative(folder) }
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

/// A call of gpusetup, and the host that it is made on.
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
    /// Every placement that there is for it.
    pub fn placements(&'a self, bench: &Bench) -> Vec<Placement<'a>> {
        let paths = super::trace::paths(bench, &self.host, &self.arguments);
        let all =
            paths.iter().flat_map(|path| Kind::ALL.map(|kind| Placement { scenario: self, path: path.clone(), kind }));
        // A folder in a folder's place is none.
        all.filter(|p| p.kind != Kind::Folder || !self.host.is_directory(&p.path)).collect()
    }
}

impl Placement<'_> {
    pub fn describe(&self) -> String {
        format!("{}: {} {:?}", self.scenario.name, self.path.display(), self.kind)
    }

    /// The harm that it does.
    fn attack(&self, bench: &Bench, area: &Path) -> (BTreeSet<&'static str>, Ran) {
        let _ = fs::remove_dir_all(area);
        self.scenario.host.make(area);
        let mut outside = Outside::make(&area.join("outside"));
        self.kind.put(&self.scenario.host, area, &self.path, &area.join("outside"));
        outside.remember();
        let ran = bench.run(area, &self.scenario.arguments);
        let mut harm = outside.harm(self.kind == Kind::HardLink);
        harm.extend(ran.trouble());
        harm.extend(ran.said.contains(SECRET).then_some("shown"));
        (harm, ran)
    }
}

/// What came of placements.
#[derive(Default)]
pub struct Tally {
    /// How many there were, and how many escaped, for each command.
    pub commands: BTreeMap<&'static str, (usize, usize)>,
    /// How many did what harm.
    pub harms: BTreeMap<&'static str, usize>,
    /// Those that escaped.
    pub escapes: Vec<String>,
}

/// Makes all of these attacks, on all cores.
pub fn attack(bench: &Bench, placements: &[Placement]) -> Tally {
    let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    let worker = |number: usize| {
        let area = bench.path(&format!("area-{number}"));
        while let Some(placement) = placements.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (harm, ran) = placement.attack(bench, &area);
            let mut tally = tally.lock().expect("no panic");
            let (count, escaped) = tally.commands.entry(placement.scenario.name).or_default();
            *count += 1;
            *escaped += usize::from(!harm.is_empty());
            harm.iter().for_each(|harm| *tally.harms.entry(harm).or_default() += 1);
            if !harm.is_empty() {
                let last = ran.said.lines().last().unwrap_or_default();
                let line = format!("{}: {harm:?} ({last})", placement.describe());
                println!("  escaped: {line}");
                tally.escapes.push(line);
            }
        }
        let _ = fs::remove_dir_all(area);
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..cores).for_each(|number| drop(scope.spawn(move || worker(number)))));
    tally.into_inner().expect("no panic")
}
