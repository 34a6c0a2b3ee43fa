//! CUDA's lists: component archives (`manifests/components/`), and the releases themselves
//! (`compat/cuda.yaml`).

use super::lists::{Archive, Component, List};
use super::notes::Notes;
use super::report::{Report, shown};
use super::tree::{Lines, Tree};
use super::{Also, SERVER};
use crate::redistrib::{ARCHITECTURES, FIRST_CUDA, OF_NO_TOOLKIT};
use gpusetup_database::compat::{ComponentRelease, CudaRelease, Database};
use gpusetup_database::version::CudaVersion;
use std::fmt::Write;

/// The source of NVIDIA's lists of CUDA.
pub const SOURCE: &str = "cuda-redistrib";

/// The source of the tables of drivers.
const NOTES: &str = "cuda-release-notes";

const FILE: &str = "compat/cuda.yaml";

/// A component's archives for the architectures of hosts, in their order.
struct Kept<'l> {
    component: &'l Component,
    archives: Vec<(&'static str, &'l Archive)>,
}

/// The release that a list is of; none if it is older than those whose archives the database has.
pub fn release(list: &List, report: &mut Report) -> Option<CudaVersion> {
    match list.release.parse::<CudaVersion>() {
        Ok(release) if release.patch.is_none() || release.to_string() != list.release => {
            report.unknown("releases whose form is unknown", &list.input);
            None
        }
        Ok(release) if release.major < FIRST_CUDA => {
            report.leave_out(format!("lists of CUDA before {FIRST_CUDA}"), &list.input);
            None
        }
        Ok(release) => Some(release),
        Err(_) => {
            report.unknown("releases whose form is unknown", &list.input);
            None
        }
    }
}

/// Adds what CUDA's lists and release notes have, oldest release first.
pub fn refresh(
    lists: &[&List],
    notes: &Notes,
    also: &Also,
    database: &Database,
    tree: &mut Tree,
    report: &mut Report,
) {
    let mut releases: Vec<_> = lists
        .iter()
        .filter_map(|list| Some((release(list, report)?, *list)))
        .collect();
    releases.sort_by_key(|(release, _)| *release);
    let newest = |series: CudaVersion| {
        let known = database.component_releases.iter().map(|r| r.version);
        known
            .chain(releases.iter().map(|(release, _)| *release))
            .filter(|r| r.series() == series)
            .max()
    };
    let mut added: Vec<CudaRelease> = Vec::new();
    for (release, list) in &releases {
        let nvcc = list
            .components
            .iter()
            .find(|component| component.name == "cuda_nvcc");
        if let Some(nvcc) =
            nvcc.filter(|nvcc| !nvcc.version.starts_with(&format!("{}.", release.series())))
        {
            report.refused.push(format!(
                "{}: it has cuda_nvcc {}",
                shown(&list.input),
                nvcc.version
            ));
            continue;
        }
        let kept = kept(list, database, report);
        facts_of(*release, list, database, tree, report);
        if let Some(known) = database.component_release(*release) {
            complete(known, &kept, list, tree, report);
        } else if newest(release.series()).is_some_and(|newest| newest > *release) {
            report.leave_out(
                "releases that are not the newest of their series",
                &list.input,
            );
        } else if database.cuda(*release).is_some()
            || add_release(*release, list, notes, database, &mut added, tree, report)
        {
            add_archives(*release, &kept, list, also, tree, report);
        }
    }
    drivers(notes, database, tree, report);
}

/// The archives that toolkits are made of. What is left is named in the report.
fn kept<'l>(list: &'l List, database: &Database, report: &mut Report) -> Vec<Kept<'l>> {
    let mut all = Vec::new();
    for component in &list.components {
        let archives = of_hosts(component, list, report);
        if let Some((name, why)) = OF_NO_TOOLKIT
            .iter()
            .find(|(name, _)| *name == component.name)
        {
            report.leave_out(format!("no components of toolkits: {why}"), name);
            continue;
        }
        if database.component(&component.name).is_none() {
            let reason = "components that `compat/components.yaml` does not have";
            report.unknown(reason, format!("{} in {}", component.name, list.input));
            continue;
        }
        let Component { name, version, .. } = component;
        let is_named = |(arch, archive): &(&'static str, &Archive)| {
            let path = format!("{name}/linux-{arch}/{name}-linux-{arch}-{version}-archive.tar.xz");
            archive.line.is_none() && archive.path == path
        };
        let (mut archives, others): (Vec<_>, Vec<_>) = archives.into_iter().partition(is_named);
        for (_, archive) in others {
            let reason = "archives with another name than components have";
            report.unknown(reason, format!("{} in {}", archive.path, list.input));
        }
        archives.sort_by_key(|(arch, _)| ARCHITECTURES.iter().position(|known| known == arch));
        if !archives.is_empty() {
            all.push(Kept {
                component,
                archives,
            });
        }
    }
    all.sort_by(|a, b| a.component.name.cmp(&b.component.name));
    all
}

/// A component's archives for the architectures of hosts. Other platforms are named in the report.
fn of_hosts<'l>(
    component: &'l Component,
    list: &List,
    report: &mut Report,
) -> Vec<(&'static str, &'l Archive)> {
    let mut archives = Vec::new();
    for archive in &component.archives {
        let arch = ARCHITECTURES
            .into_iter()
            .find(|arch| archive.platform.strip_prefix("linux-") == Some(arch));
        match arch {
            Some(arch) => archives.push((arch, archive)),
            None if super::is_left_out(&archive.platform, report) => {}
            None => {
                let name = format!(
                    "{} of {} in {}",
                    archive.platform, component.name, list.input
                );
                report.unknown("architectures", name);
            }
        }
    }
    archives
}

fn line(kept: &Kept<'_>) -> String {
    let archives: Vec<_> = kept
        .archives
        .iter()
        .map(|(arch, archive)| entry(arch, archive))
        .collect();
    let Component { name, version, .. } = kept.component;
    format!(
        "      - {{name: {name}, version: \"{version}\", archives: [{}]}}",
        archives.join(", ")
    )
}

fn entry(arch: &str, archive: &Archive) -> String {
    format!(
        "{{arch: {arch}, size: {}, sha256: \"{}\"}}",
        archive.size, archive.sha256
    )
}

fn file(release: CudaVersion) -> String {
    format!("manifests/components/{}.yaml", release.major)
}

/// Adds the archives of a release, before the next older one.
fn add_archives(
    release: CudaVersion,
    kept: &[Kept<'_>],
    list: &List,
    also: &Also,
    tree: &mut Tree,
    report: &mut Report,
) {
    if kept.is_empty() {
        report.unknown("lists without a component for hosts", &list.input);
        return;
    }
    let name = format!("redistrib_{}.json", list.release);
    let others = also.sources(&list.published_as(), &list.sha256, report);
    let verified = match others.is_empty() {
        false => format!(
            "{name} was read whole and has the sum that is published of it, {}",
            list.sha256
        ),
        true => {
            format!(
                "{name} was read whole; its checksum is {}, which was compared with no other source",
                list.sha256
            )
        }
    };
    let sources = [&[SOURCE.to_owned()], others.as_slice()].concat();
    let mut new = vec![
        format!("  - version: \"{release}\""),
        format!("    base: \"{SERVER}/cuda/redist\""),
        format!("    agree: {}", sources.len()),
        format!("    verified: \"{verified}\""),
        format!("    sources: [{}]", sources.join(", ")),
        "    components:".to_owned(),
    ];
    new.extend(kept.iter().map(line));
    let name = file(release);
    if tree.text(&name).is_none() {
        let header = format!(
            "# NVIDIA's component archives of CUDA {}, newest release first: what `--components` installs. File names and addresses follow\n\
             # from component, architecture and version: BASE/NAME/linux-ARCH/NAME-linux-ARCH-VERSION-archive.tar.xz.\n\
             component_releases:\n",
            release.major
        );
        tree.set(&name, header);
    }
    tree.edit(&name, |lines| insert_release(lines, release, new));
    report.new.push(format!(
        "CUDA {release}: archives of {} components, in `{name}`",
        kept.len()
    ));
}

/// Inserts a record of a release before the next older one.
fn insert_release(lines: &mut Lines, release: CudaVersion, new: Vec<String>) {
    let of = |line: &str| {
        line.strip_prefix("  - version: \"")?
            .strip_suffix('"')?
            .parse::<CudaVersion>()
            .ok()
    };
    lines.insert_in_order(
        new,
        |line| of(line).is_some_and(|known| known < release),
        |line| line.starts_with("  "),
    );
}

/// Adds what the archives of a known release lack. Whether checksums differ was compared before.
fn complete(
    known: &ComponentRelease,
    kept: &[Kept<'_>],
    list: &List,
    tree: &mut Tree,
    report: &mut Report,
) {
    for kept in kept {
        let Component { name, version, .. } = kept.component;
        let release = known.version;
        let first = format!("  - version: \"{release}\"");
        let Some(ours) = known.components.iter().find(|c| c.name == *name) else {
            tree.edit(&file(release), |lines| {
                let Some(record) = lines.record(&first) else {
                    return;
                };
                let of = |line: &str| {
                    line.strip_prefix("      - {name: ")
                        .and_then(|rest| rest.split(',').next())
                        .map(str::to_owned)
                };
                let at = record
                    .clone()
                    .find(|n| of(&lines.0[*n]).is_some_and(|other| other > *name))
                    .unwrap_or(record.end);
                lines.0.insert(at, line(kept));
            });
            report
                .new
                .push(format!("CUDA {release}: the component `{name}` {version}"));
            continue;
        };
        if ours.version != *version {
            report.differ.push(format!(
                "{}: `{name}` is {version}; the database has {}",
                shown(&list.input),
                ours.version
            ));
            continue;
        }
        for (arch, archive) in kept
            .archives
            .iter()
            .filter(|(arch, _)| ours.archive(arch).is_none())
        {
            let begin = format!("      - {{name: {name}, ");
            tree.edit(&file(release), |lines| {
                let Some(record) = lines.record(&first) else {
                    return;
                };
                if let Some(line) = lines.0[record]
                    .iter_mut()
                    .find(|line| line.starts_with(&begin) && line.ends_with("]}"))
                {
                    line.truncate(line.len() - 2);
                    let _ = write!(line, ", {}]}}", entry(arch, archive));
                }
            });
            report
                .new
                .push(format!("CUDA {release}: `{name}` {version} for {arch}"));
        }
    }
}

/// Compares the day and nvcc's version of a release, and adds them if they are missing.
fn facts_of(
    release: CudaVersion,
    list: &List,
    database: &Database,
    tree: &mut Tree,
    report: &mut Report,
) {
    let Some(known) = database.cuda(release) else {
        return;
    };
    let day = list.date.as_deref().unwrap_or_default();
    match &known.date {
        Some(date) if !day.starts_with(date.as_str()) => {
            report.differ.push(format!(
                "CUDA {release}: {} has the date {day}; the database has {date}",
                shown(&list.input)
            ));
        }
        Some(_) => {}
        None => insert_field(
            release,
            &["    date: ", "  - version: "],
            &format!("    date: \"{}\"", &day[..7]),
            SOURCE,
            tree,
            report,
        ),
    }
    let Some(nvcc) = list
        .components
        .iter()
        .find(|c| c.name == "cuda_nvcc")
        .map(|c| &c.version)
    else {
        return;
    };
    match &known.nvcc {
        Some(ours) if ours != nvcc => {
            report.differ.push(format!(
                "CUDA {release}: {} has nvcc {nvcc}; the database has {ours}",
                shown(&list.input)
            ));
        }
        Some(_) => {}
        None => {
            let before = [
                "    glibc_breaks_from_sbsa: ",
                "    glibc_breaks_from: ",
                "    glibc_min: ",
                "    clang_max: ",
                "    gcc_max: ",
                "    gcc_min: ",
                "    highest_capability: ",
            ];
            insert_field(
                release,
                &before,
                &format!("    nvcc: \"{nvcc}\""),
                SOURCE,
                tree,
                report,
            );
        }
    }
}

/// Inserts a field of a release after the first of `after` that it has.
fn insert_field(
    release: CudaVersion,
    after: &[&str],
    field: &str,
    source: &str,
    tree: &mut Tree,
    report: &mut Report,
) {
    tree.edit(FILE, |lines| {
        let Some(record) = lines.record(&format!("  - version: \"{release}\"")) else {
            return;
        };
        let place = after
            .iter()
            .find_map(|begin| record.clone().find(|n| lines.0[*n].starts_with(begin)));
        let Some(place) = place else { return };
        lines.0.insert(place + 1, field.to_owned());
        lines.add_source(record.start..record.end + 1, source);
    });
    report
        .new
        .push(format!("CUDA {release}: `{}`, in `{FILE}`", field.trim()));
}

/// Adds a release to `compat/cuda.yaml`. What its list does not have is taken from the release
/// before it, and called assumed. Returns whether it was added.
fn add_release(
    release: CudaVersion,
    list: &List,
    notes: &Notes,
    database: &Database,
    added: &mut Vec<CudaRelease>,
    tree: &mut Tree,
    report: &mut Report,
) -> bool {
    let older = database
        .cuda
        .iter()
        .chain(added.iter())
        .filter(|r| r.version.major == release.major && r.version < release);
    let Some(before) = older.max_by_key(|r| r.version).cloned() else {
        report.manual.push(format!(
            "CUDA {release} is the first of its major version: add it to `{FILE}` with the driver, the compute capabilities, the compilers and the glibc that it needs, then refresh again"
        ));
        return false;
    };
    let quoted =
        |key: &str, value: Option<String>| value.map(|value| format!("    {key}: \"{value}\""));
    let number = |key: &str, value: Option<u16>| value.map(|value| format!("    {key}: {value}"));
    let native = notes
        .native
        .get(&release)
        .filter(|native| **native >= before.minimum_driver);
    let nvcc = list
        .components
        .iter()
        .find(|c| c.name == "cuda_nvcc")
        .map(|c| c.version.clone());
    let mut sources = vec![SOURCE];
    sources.extend(native.map(|_| NOTES));
    let assumed = format!(
        "compute capabilities, compilers and glibc are those of {}; the files of {release} were not read",
        before.version
    );
    let fields = [
        Some(format!("  - version: \"{release}\"")),
        quoted("date", list.date.as_ref().map(|day| day[..7].to_owned())),
        quoted("minimum_driver", Some(before.minimum_driver.to_string())),
        quoted("native_driver", native.map(ToString::to_string)),
        quoted(
            "lowest_capability",
            Some(before.lowest_capability.to_string()),
        ),
        quoted(
            "highest_capability",
            Some(before.highest_capability.to_string()),
        ),
        number("gcc_min", before.gcc_min),
        number("gcc_max", before.gcc_max),
        quoted("clang_max", before.clang_max.clone()),
        quoted("glibc_min", before.glibc_min.clone()),
        quoted("glibc_breaks_from", before.glibc_breaks_from.clone()),
        quoted(
            "glibc_breaks_from_sbsa",
            before.glibc_breaks_from_sbsa.clone(),
        ),
        quoted("nvcc", nvcc.clone()),
        quoted("assumed", Some(assumed)),
        Some(format!("    sources: [{}]", sources.join(", "))),
    ];
    tree.edit(FILE, |lines| {
        insert_release(lines, release, fields.into_iter().flatten().collect())
    });
    report.new.push(format!("CUDA {release}, in `{FILE}`"));
    report.manual.push(format!(
        "CUDA {release}: compute capabilities, compilers and glibc are assumed to be those of {}; measure them with `tests/host/toolchains.txt` and the compile matrix, then remove `assumed`",
        before.version
    ));
    if native.is_none() {
        report.manual.push(format!(
            "CUDA {release}: `native_driver` is missing; it is in the release notes' table (`--release-notes`)"
        ));
    }
    added.push(CudaRelease {
        version: release,
        nvcc,
        ..before
    });
    true
}

/// Compares the drivers of the release notes, and adds those that are missing.
fn drivers(notes: &Notes, database: &Database, tree: &mut Tree, report: &mut Report) {
    for (release, driver) in &notes.native {
        let Some(known) = database.cuda(*release) else {
            if tree
                .text(FILE)
                .is_none_or(|text| !text.contains(&format!("  - version: \"{release}\"\n")))
            {
                report.unknown(
                    "releases in the notes that the database does not have",
                    release,
                );
            }
            continue;
        };
        match known.native_driver {
            Some(ours) if ours != *driver => {
                report
                    .differ
                    .push(format!("CUDA {release}: the release notes name driver {driver}; the database has {ours}"));
            }
            Some(_) => {}
            None if *driver < known.minimum_driver => {
                report.differ.push(format!(
                    "CUDA {release}: driver {driver} of the release notes is older than the minimum {}",
                    known.minimum_driver
                ));
            }
            None => insert_field(
                *release,
                &["    minimum_driver: "],
                &format!("    native_driver: \"{driver}\""),
                NOTES,
                tree,
                report,
            ),
        }
    }
    for (major, driver) in &notes.minimum {
        // Before 11 each release has its own.
        let Some(known) = database
            .cuda
            .iter()
            .find(|r| r.version.major == *major && *major >= 11)
        else {
            report.unknown(
                "major versions in the notes that the database does not have",
                major,
            );
            continue;
        };
        let ours = known.minimum_driver.to_string();
        if ours != *driver && known.minimum_driver.branch.to_string() != *driver {
            report.differ.push(format!(
                "CUDA {major}: the release notes require driver {}; the database has {ours}",
                shown(driver)
            ));
        }
    }
}
