//! The lists of cuDNN and other add-ons: their archives, in `manifests/cudnn/` and
//! `manifests/add-ons/`, one line each.

use super::lists::{Archive, List};
use super::report::{Report, shown};
use super::tree::{Tree, field, with_source};
use super::{Also, SERVER};
use gpusetup_database::compat::{AddOn, AddOnArtifact, AddOnId, Database};
use gpusetup_database::version::AddOnVersion;
use std::cmp::Reverse;

/// The sources of NVIDIA's lists of cuDNN and of other add-ons.
pub const SOURCES: [&str; 2] = ["nvidia-redistrib", "add-ons-redistrib"];

/// The libraries of the products with lists: the product, the component in its list, and the source
/// of the list.
const LIBRARIES: [(&str, &str, &str); 5] = [
    ("cudnn", "cudnn", SOURCES[0]),
    ("cutensor", "libcutensor", SOURCES[1]),
    ("cusparselt", "libcusparse_lt", SOURCES[1]),
    ("cudss", "libcudss", SOURCES[1]),
    ("nvshmem", "libnvshmem", SOURCES[1]),
];

/// Components of these lists that are no libraries for toolkits.
const OTHERS: [(&str, &str); 3] = [
    ("cudnn_samples", "samples of cuDNN"),
    ("cudnn_jit", "cuDNN's variant without precompiled kernels"),
    ("libcudss_python", "bindings for Python"),
];

/// Archives that the database leaves out: the product, the architecture if it is one, the first
/// release after them, the first of them, and why.
const LEFT_OUT: [(&str, Option<&str>, &str, &str, &str); 2] = [
    (
        "cutensor",
        None,
        "2.8.1.0",
        "2.8.2.0",
        "the files of cuTENSOR 2.8.1 say 2.8.0",
    ),
    (
        "nvshmem",
        Some("sbsa"),
        "0.0",
        "3.3.20",
        "NVSHMEM for aarch64 needs glibc 2.29 before 3.3.20",
    ),
];

/// The architectures of cuDNN's archives in the order of its manifests; `aarch64` means embedded
/// boards.
const OF_CUDNN: [&str; 4] = ["x86_64", "ppc64le", "sbsa", "aarch64"];

/// The architectures of the other add-ons' archives.
const OF_OTHERS: [&str; 3] = ["x86_64", "sbsa", "ppc64le"];

/// An archive for one CUDA line, as a row of a manifest has it.
struct Row<'l> {
    add_on: &'l AddOn,
    version: AddOnVersion,
    line: String,
    arch: &'static str,
    archive: &'l Archive,
    /// The sources of its checksum.
    sources: Vec<String>,
}

impl Row<'_> {
    fn url(&self) -> String {
        format!("{SERVER}/{}/redist/{}", self.add_on.id, self.archive.path)
    }

    fn text(&self) -> String {
        let Self {
            add_on,
            version,
            line,
            arch,
            archive,
            sources,
        } = self;
        format!(
            "  - {{add_on: {}, version: \"{version}\", cuda_line: \"{line}\", artifact: {{arch: {arch}, file: \"{}\", url: \"{}\", sha256: \"{}\", size: {}, agree: {}, sources: [{}]}}}}",
            add_on.id,
            archive.file(),
            self.url(),
            archive.sha256,
            archive.size,
            sources.len(),
            sources.join(", "),
        )
    }

    /// `cudnn 9.12.0.46 for CUDA 12, sbsa`.
    fn name(&self) -> String {
        format!(
            "{} {} for CUDA {}, {}",
            self.add_on.id, self.version, self.line, self.arch
        )
    }

    /// The manifest that it belongs to.
    fn manifest(&self) -> String {
        match self.add_on.id {
            AddOnId::CUDNN => format!("manifests/cudnn/{}.yaml", self.version.major),
            id => format!("manifests/add-ons/{id}.yaml"),
        }
    }
}

/// The place of a row in its manifest: newest release first. cuDNN has the architecture before the
/// line, and lower lines first; the others have the line before the architecture, and higher lines
/// first.
type Place = (Reverse<AddOnVersion>, Vec<i64>);

fn place(id: AddOnId, version: AddOnVersion, line: &str, arch: &str) -> Place {
    let of = |all: &[&str]| {
        all.iter()
            .position(|known| *known == arch)
            .map_or(i64::MAX, |n| n as i64)
    };
    let line: Vec<i64> = line.split('.').filter_map(|n| n.parse().ok()).collect();
    let within = match id {
        AddOnId::CUDNN => [vec![of(&OF_CUDNN)], line].concat(),
        _ => [line.into_iter().map(|n| -n).collect(), vec![of(&OF_OTHERS)]].concat(),
    };
    (Reverse(version), within)
}

fn place_of_line(id: AddOnId, line: &str) -> Option<Place> {
    (field(line, "add_on")? == id.as_str()).then_some(())?;
    Some(place(
        id,
        field(line, "version")?.parse().ok()?,
        field(line, "cuda_line")?,
        field(line, "arch")?,
    ))
}

/// Whether the lists of a product are read here.
pub fn has_lists(product: &str) -> bool {
    LIBRARIES.iter().any(|(name, ..)| *name == product)
}

/// Adds the archives of a list.
pub fn refresh(
    list: &List,
    also: &Also,
    database: &Database,
    tree: &mut Tree,
    report: &mut Report,
) {
    let Some((_, library, source)) = LIBRARIES
        .iter()
        .find(|(product, ..)| *product == list.product)
    else {
        return;
    };
    let Some(add_on) = database.add_on_named(&list.product) else {
        report.unknown("add-ons that the database does not have", &list.input);
        return;
    };
    for component in &list.components {
        if component.name != *library {
            match OTHERS.iter().find(|(name, _)| *name == component.name) {
                Some((name, what)) => report.leave_out(*what, name),
                None => report.unknown(
                    "components of add-ons",
                    format!("{} in {}", component.name, list.input),
                ),
            }
            continue;
        }
        let version = component
            .version
            .parse::<AddOnVersion>()
            .ok()
            .filter(|v| v.to_string() == component.version);
        let Some(version) = version else {
            report.unknown(
                "releases whose form is unknown",
                format!("{} in {}", component.version, list.input),
            );
            continue;
        };
        if list
            .release
            .parse::<AddOnVersion>()
            .is_ok_and(|release| !release.has_files_of(version))
        {
            let problem = format!(
                "{}: it has {} {version}",
                shown(&list.input),
                component.name
            );
            report.refused.push(problem);
            continue;
        }
        for archive in &component.archives {
            for row in rows(add_on, version, archive, list, database, report) {
                let sources = [
                    &[(*source).to_owned()],
                    also.sources(archive.file(), &archive.sha256, report)
                        .as_slice(),
                ]
                .concat();
                add(&Row { sources, ..row }, list, database, tree, report);
            }
        }
    }
}

/// The rows of an archive: one for each CUDA line that it is for.
fn rows<'l>(
    add_on: &'l AddOn,
    version: AddOnVersion,
    archive: &'l Archive,
    list: &List,
    database: &Database,
    report: &mut Report,
) -> Vec<Row<'l>> {
    let all: &[&'static str] = if add_on.id == AddOnId::CUDNN {
        &OF_CUDNN
    } else {
        &OF_OTHERS
    };
    let arch = all
        .iter()
        .find(|arch| archive.platform.strip_prefix("linux-") == Some(arch));
    let Some(arch) = arch else {
        if !super::is_left_out(&archive.platform, report) {
            report.unknown(
                "architectures",
                format!("{} of {version} in {}", archive.platform, list.input),
            );
        }
        return Vec::new();
    };
    let left_out = LEFT_OUT.iter().find(|(product, of, from, to, _)| {
        let [from, to] = [from, to].map(|text| text.parse::<AddOnVersion>().ok());
        *product == list.product
            && of.is_none_or(|of| of == *arch)
            && from.is_some_and(|from| from <= version)
            && to.is_some_and(|to| version < to)
    });
    if let Some((.., why)) = left_out {
        report.leave_out(*why, archive.file());
        return Vec::new();
    }
    let named = archive
        .file()
        .contains(&format!("-{}-{version}", archive.platform));
    if !named || add_on.layout(archive.file()).is_none() {
        report.unknown(
            "archives with another name than the add-on's",
            format!("{} in {}", archive.path, list.input),
        );
        return Vec::new();
    }
    let ranges = database
        .add_on_ranges
        .iter()
        .filter(|range| range.add_on == add_on.id && range.covers(version));
    let mut lines: Vec<_> = ranges.map(|range| range.cuda_line.clone()).collect();
    lines.retain(|line| archive.line.as_ref().is_none_or(|of| of == line));
    // Archives for embedded boards are named in the manifest, whatever their line.
    if lines.is_empty() {
        let newest = database.add_on_archives(add_on.id).map(|a| a.version).max();
        let for_line = archive
            .line
            .as_ref()
            .map(|line| format!(" for CUDA {line}"))
            .unwrap_or_default();
        let file = format!("compat/add-ons/{}.yaml", add_on.id);
        if newest.is_some_and(|newest| version < newest) {
            report.leave_out(
                format!("older archives of {} in no range of `{file}`", add_on.id),
                archive.file(),
            );
        } else {
            let line = format!(
                "{} {version}{for_line}: no range of `{file}` has it; add one, then refresh again",
                add_on.id
            );
            if !report.manual.contains(&line) {
                report.manual.push(line);
            }
        }
    }
    let row = |line: String| Row {
        add_on,
        version,
        line,
        arch,
        archive,
        sources: Vec::new(),
    };
    lines.into_iter().map(row).collect()
}

/// Adds a row, or completes the one that the database has.
fn add(row: &Row<'_>, list: &List, database: &Database, tree: &mut Tree, report: &mut Report) {
    let is_it =
        |a: &&AddOnArtifact| a.artifact.file == row.archive.file() && a.cuda_line == row.line;
    let known = database.add_on_archives(row.add_on.id).find(is_it);
    let Some(known) = known else {
        let (id, manifest) = (row.add_on.id, row.manifest());
        if tree.text(&manifest).is_none() {
            let title = &row.add_on.title;
            let which = if id == AddOnId::CUDNN {
                format!("{title} {}", row.version.major)
            } else {
                title.clone()
            };
            tree.set(&manifest, format!("# Archives of {which}, newest first. One without a sha256 is listed, and never used.\nadd_on_artifacts:\n"));
        }
        let ours = place(id, row.version, &row.line, row.arch);
        // Two lists may have the same archive.
        if tree
            .text(&manifest)
            .is_some_and(|text| text.lines().any(|line| line == row.text()))
        {
            return;
        }
        tree.edit(&manifest, |lines| {
            let is_after = |line: &str| place_of_line(id, line).is_some_and(|place| place > ours);
            lines.insert_in_order(vec![row.text()], is_after, |line| line.starts_with("  "));
        });
        report.new.push(format!("{}, in `{manifest}`", row.name()));
        return;
    };
    let artifact = &known.artifact;
    if artifact.disagreement.is_some() {
        report.leave_out(
            "archives on which sources differ, as `disagreement` says",
            row.archive.file(),
        );
    } else if artifact.url.as_ref().is_some_and(|url| *url != row.url()) {
        report.differ.push(format!(
            "{}: {} has the address {}; the database has another",
            row.name(),
            shown(&list.input),
            shown(row.url())
        ));
    } else if artifact.arch != row.arch || known.version != row.version {
        report.differ.push(format!(
            "{}: the database has it for {} {}",
            row.name(),
            known.version,
            artifact.arch
        ));
    } else if artifact.sha256.is_none() || artifact.size.is_none() || artifact.url.is_none() {
        let missing = [
            ("the checksum", artifact.sha256.is_none()),
            ("the size", artifact.size.is_none()),
            ("the address", artifact.url.is_none()),
        ];
        let missing: Vec<_> = missing
            .into_iter()
            .filter(|(_, missing)| *missing)
            .map(|(what, _)| what)
            .collect();
        let file = format!("file: \"{}\"", row.archive.file());
        let line = format!("cuda_line: \"{}\"", row.line);
        tree.edit(&row.manifest(), |lines| {
            let is_it = |text: &&mut String| text.contains(&file) && text.contains(&line);
            if let Some(text) = lines.0.iter_mut().find(is_it) {
                *text = completed(text, row);
            }
        });
        report.new.push(format!(
            "{}: {}, in `{}`",
            row.name(),
            missing.join(", "),
            row.manifest()
        ));
    }
}

/// A line with the fields that it lacks. A note that no checksum is known goes with its reason.
fn completed(line: &str, row: &Row<'_>) -> String {
    let mut line = line.to_owned();
    let had_checksum = field(&line, "sha256").is_some();
    if let Some(note) =
        field(&line, "note").filter(|note| !had_checksum && note.contains("no checksum"))
    {
        line = line.replace(&format!("note: \"{note}\", "), "");
    }
    let fields = [
        ("url", format!("\"{}\"", row.url())),
        ("sha256", format!("\"{}\"", row.archive.sha256)),
        ("size", row.archive.size.to_string()),
        ("agree", row.sources.len().to_string()),
    ];
    let order = [
        "url",
        "sha256",
        "size",
        "agree",
        "note",
        "disagreement",
        "sources",
    ];
    for (n, (name, value)) in fields.into_iter().enumerate() {
        if field(&line, name).is_some() {
            continue;
        }
        let next = order[n + 1..]
            .iter()
            .find_map(|next| line.find(&format!(", {next}: ")));
        if let Some(at) = next {
            line.insert_str(at, &format!(", {name}: {value}"));
        }
    }
    if had_checksum {
        line
    } else {
        row.sources
            .iter()
            .fold(line, |line, source| with_source(&line, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::known;

    #[test]
    fn a_listed_archive_gets_its_checksum() {
        let archive = Archive {
            platform: "linux-sbsa".to_owned(),
            line: Some("13".to_owned()),
            path: "cudnn/linux-sbsa/cudnn-linux-sbsa-9.28.0.42_cuda13-archive.tar.xz".to_owned(),
            sha256: "0".repeat(64),
            size: 7,
        };
        let row = Row {
            add_on: known().add_on(AddOnId::CUDNN).expect("cuDNN"),
            version: "9.28.0.42".parse().expect("a version"),
            line: "13".to_owned(),
            arch: "sbsa",
            archive: &archive,
            sources: vec!["nvidia-redistrib".to_owned()],
        };
        let listed = format!(
            "  - {{add_on: cudnn, version: \"9.28.0.42\", cuda_line: \"13\", artifact: {{arch: sbsa, file: \"{}\", note: \"no checksum was found\", sources: [cudnn-wheels]}}}}",
            archive.file()
        );
        let want = row
            .text()
            .replace("[nvidia-redistrib]", "[cudnn-wheels, nvidia-redistrib]");
        assert_eq!(completed(&listed, &row), want);
        let without_size = row.text().replace("size: 7, ", "");
        assert_eq!(completed(&without_size, &row), row.text());
    }

    #[test]
    fn manifests_have_the_newest_release_first() {
        for (file, id) in [
            ("cudnn/8", "cudnn"),
            ("cudnn/9", "cudnn"),
            ("add-ons/cudss", "cudss"),
            ("add-ons/cutensor", "cutensor"),
        ] {
            let path = crate::project()
                .join("manifests")
                .join(format!("{file}.yaml"));
            let text = std::fs::read_to_string(path).expect("a manifest");
            let id: AddOnId = id.parse().expect("an id");
            let places: Vec<_> = text
                .lines()
                .filter_map(|line| place_of_line(id, line))
                .collect();
            assert!(
                places.len() > 10 && places.iter().map(|(version, _)| version).is_sorted(),
                "{file}"
            );
            // cuDNN's rows from other sources have other orders within a release.
            assert!(id == AddOnId::CUDNN || places.is_sorted(), "{file}");
        }
    }
}
