//! Refreshing facts: takes what NVIDIA publishes in machine-readable form, adds it to the
//! database's files, and prints a summary for the reviewer. Lists of archives, release notes and
//! lists of GPUs are read from a folder in the layout of NVIDIA's download server, or from the
//! server. Everything from there may be hostile: a list in which anything is malformed is refused.
//!
//! A published checksum or size that differs from the database for the same file is an alarm. After
//! an alarm or a refused input nothing is written.

mod archives;
mod golden;
mod gpus;
mod input;
mod json;
mod lists;
mod notes;
mod record;
mod report;
#[cfg(test)]
mod tests;
mod toolkits;
mod tree;

pub use record::record;

use crate::{Comparison, Result, project};
use gpusetup_database::compat::Database;
use gpusetup_database::text::Text;
use input::{Input, Kind};
use lists::List;
use notes::Notes;
use report::{Report, shown};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use tree::Tree;

/// NVIDIA's server, with the folder of each product.
const SERVER: &str = "https://developer.download.nvidia.com/compute";

/// The most wrong facts that the summary shows.
const WRONG_FACTS: usize = 20;

/// Platforms that the database leaves out, and why.
const LEFT_OUT: [(&str, &str); 4] = [
    ("windows-x86_64", "archives for Windows"),
    (
        "linux-aarch64",
        "archives for embedded boards, which get CUDA with their system",
    ),
    (
        "linux-all",
        "archives for every architecture: none is a toolkit's component",
    ),
    ("source", "archives of source text"),
];

#[derive(clap::Subcommand)]
pub enum Task {
    /// Add what NVIDIA publishes to the database's files, and print a summary as Markdown; exit 1
    /// after an alarm
    Refresh(Options),
}

#[derive(clap::Args)]
pub struct Options {
    /// A folder in the layout of NVIDIA's download server (cuda/redist/redistrib_13.0.2.json), or
    /// the server's address
    #[arg(long, value_name = "DIR|URL")]
    from: String,
    /// CUDA's release notes in HTML or Markdown, for the drivers that toolkits need
    #[arg(long, value_name = "FILE|URL")]
    release_notes: Option<String>,
    /// Checksums that other sources publish: lines with a SHA-256, a list
    /// (cuda/redist/redistrib_13.0.2.json) or the name of an archive, and the source's id in the
    /// database
    #[arg(long, value_name = "FILE")]
    also: Option<PathBuf>,
    /// The folder of the database [default: this repository]
    #[arg(long, value_name = "DIR")]
    database: Option<PathBuf>,
    /// The gpusetup that plans for the golden hosts [default: target/debug/gpusetup]
    #[arg(long, value_name = "FILE")]
    gpusetup: Option<PathBuf>,
    /// Print the summary and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Checksums of files that other sources publish, by the file's name.
#[derive(Default)]
struct Also(BTreeMap<String, BTreeMap<String, String>>);

impl Also {
    fn read(path: &Path, database: &Database) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::parse(&text, database).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn parse(text: &str, database: &Database) -> Result<Self> {
        let mut all = Self::default();
        for line in text
            .lines()
            .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        {
            let words: Vec<_> = line.split_whitespace().collect();
            let [sum, file, source] = words.as_slice() else {
                return Err(format!(
                    "{} is not a SHA-256, a file name and a source",
                    shown(line)
                ));
            };
            if !lists::is_sha256(sum) || database.source(source).is_none() {
                return Err(format!(
                    "{} has no SHA-256, or a source that is not in the database",
                    shown(line)
                ));
            }
            if archives::SOURCES.contains(source) || *source == toolkits::SOURCE {
                return Err(format!(
                    "{}: NVIDIA's own lists are no second source",
                    shown(line)
                ));
            }
            all.0
                .entry((*file).to_owned())
                .or_default()
                .insert((*source).to_owned(), sum.to_lowercase());
        }
        Ok(all)
    }

    /// The sources that publish this checksum of a file. One that publishes another is an alarm.
    fn sources(&self, file: &str, sha256: &str, report: &mut Report) -> Vec<String> {
        let mut same = Vec::new();
        for (source, sum) in self.0.get(file).into_iter().flatten() {
            if sum == sha256 {
                same.push(source.clone());
            } else {
                let alarm = format!(
                    "{}: SHA-256 {sha256}; `{source}` publishes {sum}",
                    shown(file)
                );
                if !report.alarms.contains(&alarm) {
                    report.alarms.push(alarm);
                }
            }
        }
        same
    }
}

/// Runs the command; whether there was neither an alarm nor anything refused.
pub fn run(Task::Refresh(options): Task) -> Result<bool> {
    let folder = options.database.clone().unwrap_or_else(project);
    let before = Tree::load(&folder)?;
    let database = before.database()?;
    let mut report = Report::default();
    let mut inputs = input::read(&options.from, &database, &mut report)?;
    inputs.extend(
        options
            .release_notes
            .as_deref()
            .and_then(|from| input::release_notes(from, &mut report)),
    );
    if inputs.is_empty() && report.refused.is_empty() {
        return Err(format!(
            "{}: nothing there is a list, release notes or a listing",
            options.from
        ));
    }
    let also = options
        .also
        .as_deref()
        .map(|path| Also::read(path, &database))
        .transpose()?
        .unwrap_or_default();
    let mut after = refresh(&inputs, &also, &database, &before, &mut report);
    let changed = match after.database() {
        Ok(_) if report.forbids_writing() => None,
        Ok(new) => Some(new),
        Err(problem) => {
            let lines = problem
                .lines()
                .take(WRONG_FACTS)
                .map(|line| format!("the database would be wrong: {}", shown(line.trim())));
            report.refused.extend(lines);
            None
        }
    };
    if changed.is_none() {
        after = before.clone();
    }
    let files: Vec<_> = after
        .changed(&before)
        .map(|(name, _)| name.to_owned())
        .collect();
    if let Some(new) = changed.filter(|_| !files.is_empty()) {
        check(&database, &new, &mut report)?;
        let gpusetup = options
            .gpusetup
            .clone()
            .unwrap_or_else(|| project().join("target/debug/gpusetup"));
        hosts(&gpusetup, &before, &after, &mut report);
    } else {
        report
            .hosts
            .push("nothing: the database's files do not change".to_owned());
    }
    let outcome = match () {
        () if report.forbids_writing() => {
            "Nothing was written: see the alarms and refused inputs.".to_owned()
        }
        () if files.is_empty() => "Nothing was written: there is nothing new.".to_owned(),
        () if options.dry_run => format!(
            "Nothing was written (`--dry-run`). Would change: {}.",
            code(&files)
        ),
        () => {
            after.write(&folder, &before)?;
            format!("Changed: {}.", code(&files))
        }
    };
    report.commands = next(&files, &options);
    print!("{}", report.markdown(&options.from, &outcome));
    Ok(!report.forbids_writing())
}

fn code(names: &[String]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Adds the facts of these inputs to a copy of the database's files.
fn refresh(
    inputs: &[Input],
    also: &Also,
    database: &Database,
    before: &Tree,
    report: &mut Report,
) -> Tree {
    let mut tree = before.clone();
    let lists = read_lists(inputs, report);
    compare_archives(&lists, database, report);
    for list in &lists {
        also.sources(&list.published_as(), &list.sha256, report);
        for archive in list
            .components
            .iter()
            .flat_map(|component| &component.archives)
        {
            also.sources(archive.file(), &archive.sha256, report);
        }
    }
    let mut notes = Notes::default();
    for input in inputs.iter().filter(|input| input.kind == Kind::Notes) {
        notes.read(&input.path, &input.text, report);
    }
    let of_cuda: Vec<_> = lists.iter().filter(|list| list.product == "cuda").collect();
    toolkits::refresh(&of_cuda, &notes, also, database, &mut tree, report);
    for list in lists.iter().filter(|list| list.product != "cuda") {
        if archives::has_lists(&list.product) {
            archives::refresh(list, also, database, &mut tree, report);
        } else {
            report.unknown(
                "lists of products that the database does not have",
                &list.input,
            );
        }
    }
    let mut of_gpus = Vec::new();
    for input in inputs.iter().filter(|input| input.kind == Kind::Gpus) {
        match gpus::read(&input.path, &input.text) {
            Ok(list) => of_gpus.push(list),
            Err(problem) => {
                report
                    .refused
                    .push(format!("{}: {}", shown(&input.path), shown(problem)))
            }
        }
    }
    gpus::refresh(&of_gpus, database, &mut tree, report);
    new_drivers(inputs, database, report);
    tree
}

/// Reads all lists. Two that claim to be of the same release must be the same.
fn read_lists(inputs: &[Input], report: &mut Report) -> Vec<List> {
    let mut lists: Vec<List> = Vec::new();
    for input in inputs.iter().filter(|input| input.kind == Kind::List) {
        let list = match lists::read(&input.path, &input.text, &input.sha256) {
            Ok(list) => list,
            Err(problem) => {
                report
                    .refused
                    .push(format!("{}: {}", shown(&input.path), shown(problem)));
                continue;
            }
        };
        for name in &list.unknown {
            report.unknown("members of lists", format!("{name} in {}", list.input));
        }
        match lists
            .iter()
            .find(|other| other.product == list.product && other.release == list.release)
        {
            None => lists.push(list),
            Some(other) if other.sha256 == list.sha256 => {
                report.leave_out("copies of another list", &list.input)
            }
            Some(other) => {
                let problem = format!(
                    "{}: {} is another list of the same release",
                    shown(&list.input),
                    shown(&other.input)
                );
                report.refused.push(problem);
            }
        }
    }
    lists
}

/// Whether a platform is one that the database leaves out; then it is noted.
fn is_left_out(platform: &str, report: &mut Report) -> bool {
    let known = LEFT_OUT.iter().find(|(name, _)| *name == platform);
    if let Some((name, why)) = known {
        report.leave_out(*why, name);
    }
    known.is_some()
}

/// Compares every listed file with the file of the same name in the database, whatever it is of,
/// and lists with each other.
fn compare_archives(lists: &[List], database: &Database, report: &mut Report) {
    let mut known: BTreeMap<String, (Option<Text>, Option<u64>, String)> = BTreeMap::new();
    for artifact in database.artifacts() {
        let ours = (artifact.sha256, artifact.size, "the database".to_owned());
        known.entry(artifact.file.to_string()).or_insert(ours);
    }
    for release in &database.component_releases {
        for (component, archive) in release
            .components
            .iter()
            .flat_map(|c| c.archives.iter().map(move |a| (c, a)))
        {
            let artifact = release.artifact(component, archive);
            let ours = (artifact.sha256, artifact.size, "the database".to_owned());
            known.entry(artifact.file.to_string()).or_insert(ours);
        }
    }
    for list in lists {
        for archive in list
            .components
            .iter()
            .flat_map(|component| &component.archives)
        {
            let theirs = (
                Some(archive.sha256.as_str().into()),
                Some(archive.size),
                list.input.clone(),
            );
            let Some((sha256, size, from)) = known.get(archive.file()) else {
                known.insert(archive.file().to_owned(), theirs);
                continue;
            };
            let file = format!("{} in {}", shown(archive.file()), shown(&list.input));
            let from = if from == "the database" {
                from.clone()
            } else {
                shown(from)
            };
            let other_sum = sha256.as_ref().filter(|ours| **ours != archive.sha256);
            let other_size = size.filter(|ours| *ours != archive.size);
            report.alarms.extend(
                other_sum
                    .map(|ours| format!("{file}: SHA-256 {}; {from} has {ours}", archive.sha256)),
            );
            report.alarms.extend(
                other_size.map(|ours| format!("{file}: {} bytes; {from} has {ours}", archive.size)),
            );
            report.same +=
                usize::from(sha256.is_some() && other_sum.is_none() && other_size.is_none());
        }
    }
}

/// Names the drivers in listings of NVIDIA's archive that the database does not have.
fn new_drivers(inputs: &[Input], database: &Database, report: &mut Report) {
    let newest = database
        .drivers
        .iter()
        .map(|driver| driver.version.branch)
        .max()
        .unwrap_or_default();
    let mut new = BTreeSet::new();
    for listing in inputs
        .iter()
        .filter(|input| input.kind == Kind::Listing && input.path.contains("XFree86/"))
    {
        for name in input::names(&listing.text) {
            match name.parse::<gpusetup_database::version::DriverVersion>() {
                Ok(driver) if database.driver(driver).is_none() && driver.to_string() == name => {
                    new.insert(driver);
                }
                Ok(_) => {}
                Err(_) => report.unknown(
                    "names in listings that are no releases of drivers",
                    format!("{name} in {}", listing.path),
                ),
            }
        }
    }
    for driver in new {
        let is_newest = if driver.branch > newest {
            ", of a newer branch than those in the database"
        } else {
            ""
        };
        report.manual.push(format!(
            "driver {driver} is published{is_newest}: add it to `manifests/driver/{}.yaml` with its checksum",
            driver.branch
        ));
    }
}

/// Compares the new database with the recorded tables, as `cargo xtask check` does.
fn check(before: &Database, after: &Database, report: &mut Report) -> Result<()> {
    let all = |comparisons: Vec<Comparison>| -> BTreeSet<String> {
        let of = |c: &Comparison| {
            c.differences
                .iter()
                .map(|d| format!("{}: {d}", c.what))
                .collect::<Vec<_>>()
        };
        comparisons.iter().flat_map(of).collect()
    };
    report.checks.push(
        "the new database loads, and its facts are consistent (`gpusetup db check`)".to_owned(),
    );
    let (old, new) = (
        all(crate::comparisons(before, false)?),
        all(crate::comparisons(after, false)?),
    );
    report.checks.push(format!(
        "`cargo xtask check`: {} differences, {} of them new",
        new.len(),
        new.difference(&old).count()
    ));
    report.checks.extend(
        new.difference(&old)
            .map(|difference| format!("new difference: {difference}")),
    );
    Ok(())
}

/// Has gpusetup plan for the golden hosts with the old and with the new facts.
fn hosts(gpusetup: &Path, before: &Tree, after: &Tree, report: &mut Report) {
    let scratch = std::env::temp_dir().join(format!("gpusetup-facts-{}", std::process::id()));
    let of = |name: &str, tree: &Tree| {
        let folder = scratch.join(name);
        tree.copy_to(&folder)?;
        let facts = folder.join("facts");
        fs::create_dir_all(&facts).map_err(|e| format!("{}: {e}", facts.display()))?;
        golden::choices(gpusetup, &project(), &folder, &facts)
    };
    match fs::create_dir(&scratch)
        .map_err(|e| e.to_string())
        .and_then(|()| Ok((of("before", before)?, of("after", after)?)))
    {
        Ok((old, new)) => golden::compare(&old, &new, report),
        Err(problem) => report.hosts.push(format!(
            "not compared: {} (build gpusetup, or name it with `--gpusetup`)",
            shown(problem)
        )),
    }
    let _ = fs::remove_dir_all(&scratch);
}

/// What a reviewer runs after this.
fn next(files: &[String], options: &Options) -> Vec<String> {
    if files.is_empty() {
        return Vec::new();
    }
    let changed = |part: &str| files.iter().any(|file| file.starts_with(part));
    let mut all = vec!["git diff --stat compat manifests   # then read it".to_owned()];
    if options.dry_run {
        all.insert(0, "# the same command without --dry-run, then:".to_owned());
    }
    all.push("$EDITOR compat/version.yaml          # today's date".to_owned());
    if changed("manifests/add-ons/") {
        all.push(
            "cargo xtask record addons CLONE --lists FOLDER   # FOLDER has the new lists as cudss/redistrib_1.0.0.json"
                .to_owned(),
        );
    }
    if changed("compat/cuda.yaml") {
        all.push(
            "$EDITOR tests/host/toolchains.txt    # the wheels of a new CUDA release; then the compile matrix"
                .to_owned(),
        );
    }
    if changed("manifests/cudnn/") || changed("compat/cuda.yaml") {
        all.push(
            "cargo xtask record libraries         # the glibc that new libraries need".to_owned(),
        );
    }
    all.push("cargo run -- db check .".to_owned());
    all.push("cargo xtask check".to_owned());
    all.push("cargo test --test black_box oracle::".to_owned());
    all.push(
        "cargo test --test black_box golden:: # INSTA_UPDATE=always accepts the plans of the hosts above".to_owned(),
    );
    all.push("tests/run".to_owned());
    all
}
