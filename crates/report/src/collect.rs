//! The contents of a report besides the evidence: the host's logs about the driver, and the names
//! to anonymise.

use super::anonymise::{Anonymiser, KINDS, Names, PrivateKind};
use super::archive::{Collected, EVIDENCE, SCHEMA};
use gpusetup_database::compat::Database;
use gpusetup_doctor::kernel_log::{self, REFUSALS, UNFIT, tail};
use gpusetup_doctor::{Answer, EvidenceSources, Seen, examine};
use gpusetup_host::Facts;
use gpusetup_system::{System, environment};
use gpusetup_text::paths::{EVENTS, LOGS};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The most bytes of a text; of longer texts the end is kept.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// The most bytes of the log of a build, an installer or a step of gpusetup.
const MAX_LOG_BYTES: u64 = 256 << 10;
/// The most bytes of all texts together.
const MAX_TOTAL_BYTES: usize = 16 << 20;
/// The most logs of DKMS builds, and of gpusetup's steps.
const MAX_LOGS: usize = 8;

/// The texts of a report, by name, anonymised.
pub fn collect(
    system: &System,
    database: &'static Database,
    evidence: &Seen,
    sources: &EvidenceSources,
    now: String,
) -> Result<BTreeMap<String, String>, serde_json::Error> {
    let mut texts = texts(system, &evidence.facts, sources);
    let mut seen = serde_json::to_value(evidence)?;
    let mut anonymiser = Anonymiser::new(&names(system, evidence, database));
    anonymiser.learn(&seen.to_string());
    texts.values().for_each(|text| anonymiser.learn(text));
    anonymiser.json(&mut seen);
    let evidence: Seen = serde_json::from_value(seen)?;
    for (name, text) in &mut texts {
        let clean = match name.rsplit('.').next() {
            Some("json") => json(&mut anonymiser, text),
            Some("jsonl") => text
                .lines()
                .map(|l| json(&mut anonymiser, l) + "\n")
                .collect(),
            _ => anonymiser.text(text),
        };
        *text = last_lines(&clean, MAX_TEXT_BYTES).to_owned();
    }
    // The checks run on the anonymised evidence, so the result contains nothing private and is the
    // same elsewhere.
    let report = examine(evidence.clone(), database, &[]);
    texts.insert(
        "doctor.json".to_owned(),
        serde_json::to_string_pretty(&report)? + "\n",
    );
    let collected = Collected {
        schema: SCHEMA.to_owned(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        collected: now,
        evidence,
    };
    texts.insert(
        EVIDENCE.to_owned(),
        serde_json::to_string_pretty(&collected)? + "\n",
    );
    let mut room = MAX_TOTAL_BYTES;
    let names: Vec<_> = [EVIDENCE.to_owned(), "doctor.json".to_owned()]
        .into_iter()
        .chain(texts.keys().cloned())
        .collect();
    let mut kept = BTreeMap::new();
    for name in names {
        if let Some(text) = texts.remove(&name).filter(|t| t.len() <= room) {
            room -= text.len();
            kept.insert(name, text);
        }
    }
    kept.insert(
        "README.txt".to_owned(),
        readme(&collected.collected, &kept, anonymiser.counts()),
    );
    Ok(kept)
}

/// Anonymises each string in a line or file of JSON. In the raw bytes an escaped `\n` before a name
/// would hide it.
fn json(anonymiser: &mut Anonymiser, text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(mut value) => {
            anonymiser.json(&mut value);
            value.to_string()
        }
        // A truncated line.
        Err(_) => anonymiser.text(
            &text
                .replace("\\n", " ")
                .replace("\\t", " ")
                .replace("\\\"", "\""),
        ),
    }
}

/// The end of a text, beginning with a whole line.
fn last_lines(text: &str, most: usize) -> &str {
    let Some(over) = text.len().checked_sub(most).filter(|over| *over > 0) else {
        return text;
    };
    let from = text.as_bytes()[over..]
        .iter()
        .position(|b| *b == b'\n')
        .map_or(text.len(), |at| over + at + 1);
    &text[from..]
}

/// The host's logs, not anonymised.
fn texts(system: &System, facts: &Facts, sources: &EvidenceSources) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    let log = sources
        .kernel_log
        .clone()
        .map_or_else(|| kernel_log::read(system), Answer::Is);
    if let Answer::Is(log) = log {
        texts.insert(
            "kernel.log".to_owned(),
            last_lines(&of_driver(&log, facts), MAX_TEXT_BYTES).to_owned(),
        );
    }
    let mut add = |name: String, path: &Path, most: u64| {
        // Unreadable files are reported by the facts, or belong to another user.
        if let Some((text, _)) = tail(system, path, most)
            .ok()
            .filter(|(text, _)| !text.trim().is_empty())
        {
            texts.insert(name, text);
        }
    };
    for name in [
        "nvidia-installer.log",
        "nvidia-uninstall.log",
        "cuda-installer.log",
    ] {
        add(
            name.to_owned(),
            &Path::new("/var/log").join(name),
            MAX_LOG_BYTES,
        );
    }
    add(
        "gpusetup/result.json".to_owned(),
        Path::new("/var/lib/gpusetup/result.json"),
        MAX_TEXT_BYTES as u64,
    );
    add(
        "gpusetup/events.jsonl".to_owned(),
        Path::new(EVENTS),
        MAX_LOG_BYTES,
    );
    let own = system
        .list(LOGS)
        .unwrap_or_default()
        .into_iter()
        .filter(|n| n.ends_with(".log"));
    for name in own.take(MAX_LOGS) {
        add(
            format!("gpusetup/{}", file_name(&name)),
            &Path::new(LOGS).join(&name),
            MAX_LOG_BYTES,
        );
    }
    for (name, path) in dkms_logs(system).into_iter().take(MAX_LOGS) {
        add(
            format!("dkms/{}.log", file_name(&name)),
            &path,
            MAX_LOG_BYTES,
        );
    }
    texts
}

/// The entries of a directory that begin with a digit.
fn numbered(system: &System, path: &Path) -> impl Iterator<Item = String> {
    let names = system.list(path).unwrap_or_default().into_iter();
    names.filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
}

/// DKMS's logs of builds of NVIDIA's modules: the last failed one, and each completed one.
fn dkms_logs(system: &System) -> Vec<(String, PathBuf)> {
    let root = Path::new("/var/lib/dkms");
    let trees = system.list(root).unwrap_or_default();
    let mut found = Vec::new();
    for tree in trees.into_iter().filter(|n| n.starts_with("nvidia")) {
        // `kernel-6.8.0-x86_64` is a link to one of the others.
        for version in numbered(system, &root.join(&tree)) {
            let at = root.join(&tree).join(&version);
            found.push((format!("{tree}-{version}"), at.join("build/make.log")));
            for kernel in numbered(system, &at) {
                for arch in system.list(at.join(&kernel)).unwrap_or_default() {
                    let log = at.join(&kernel).join(&arch).join("log/make.log");
                    found.push((format!("{tree}-{version}-{kernel}-{arch}"), log));
                }
            }
        }
    }
    found.retain(|(_, path)| system.exists(path));
    found
}

/// A valid file name in a report.
fn file_name(name: &str) -> String {
    name.chars()
        .map(|c| match c.is_ascii_alphanumeric() || "._-+".contains(c) {
            true => c,
            false => '_',
        })
        .take(80)
        .collect::<String>()
        .trim_start_matches('.')
        .to_owned()
}

/// The lines of a kernel's log about the driver and the GPUs. The rest is private.
fn of_driver(log: &str, facts: &Facts) -> String {
    const TELLING: [&str; 14] = [
        "nvrm",
        "nvidia",
        "nouveau",
        "nova_core",
        "nova-core",
        "novacore",
        "vfio",
        "nvlink",
        "linux version ",
        "aer:",
        "pcie bus error",
        "module verification",
        "lockdown",
        "secure boot",
    ];
    // Without the function, which is often left out.
    let gpus = facts
        .gpus
        .iter()
        .map(|g| &g.address)
        .chain(facts.nvswitches.iter().map(|s| &s.address));
    let gpus: Vec<_> = gpus
        .filter_map(|a| Some(a.rsplit_once('.')?.0.to_lowercase()))
        .collect();
    let mut out = String::new();
    for line in log.lines() {
        let refused = REFUSALS
            .iter()
            .chain(&UNFIT)
            .any(|refusal| line.contains(refusal));
        let is_kernels = line.starts_with(['[', '<'])
            || ["kernel:", "NVRM"].iter().any(|sign| line.contains(sign));
        let lower = line.to_lowercase();
        let is_telling = TELLING.iter().any(|word| lower.contains(word))
            || gpus.iter().any(|gpu| lower.contains(gpu));
        if refused || is_telling && (is_kernels || line.starts_with("Linux version ")) {
            out += &of_command_line(line).unwrap_or_else(|| line.to_owned());
            out.push('\n');
        }
    }
    out
}

/// Only the relevant words of the kernel's command line: others may name disks, servers and
/// passwords.
fn of_command_line(line: &str) -> Option<String> {
    let (before, words) = line.split_once("ommand line:")?;
    const TELLING: [&str; 8] = [
        "nvidia",
        "nouveau",
        "nova",
        "vfio",
        "blacklist",
        "iommu",
        "pci=",
        "modeset",
    ];
    let words = words
        .split_whitespace()
        .filter(|word| TELLING.iter().any(|t| word.contains(t)));
    Some(words.fold(format!("{before}ommand line:"), |line, word| {
        line + " " + word
    }))
}

/// The names to anonymise, and those to keep.
fn names(system: &System, evidence: &Seen, database: &Database) -> Names {
    let text = |path: &str| system.read_text(path).ok().flatten().unwrap_or_default();
    let mut names = Names {
        keep: kept(evidence, database),
        ..Names::default()
    };
    names.hosts.push(text("/etc/hostname").trim().to_owned());
    if system.is_live() {
        names.hosts.push(
            rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
        );
    }
    for host in names.hosts.clone() {
        if let Some((short, domain)) = host.split_once('.') {
            names.hosts.push(short.to_owned());
            names.domains.push(domain.to_owned());
        }
    }
    for line in text("/etc/hosts")
        .lines()
        .map(|l| l.split('#').next().unwrap_or_default())
    {
        names
            .other_hosts
            .extend(line.split_whitespace().skip(1).map(str::to_owned));
    }
    for line in text("/etc/resolv.conf").lines() {
        let mut words = line.split_whitespace();
        if words
            .next()
            .is_some_and(|key| key == "search" || key == "domain")
        {
            names.domains.extend(words.map(str::to_owned));
        }
    }
    names
        .users
        .extend(text("/etc/passwd").lines().filter_map(person).flatten());
    if system.is_live() {
        let of_environment = ["SUDO_USER", "USER", "LOGNAME"]
            .iter()
            .filter_map(|name| environment::variable(name));
        names
            .users
            .extend(of_environment.filter(|user| user != "root"));
    }
    let firmware = [
        "product_serial",
        "board_serial",
        "chassis_serial",
        "product_uuid",
        "chassis_asset_tag",
        "board_asset_tag",
    ];
    let firmware = firmware
        .iter()
        .map(|name| text(&format!("/sys/class/dmi/id/{name}")));
    let tree = [
        "/proc/device-tree/serial-number",
        "/sys/firmware/devicetree/base/serial-number",
    ]
    .map(text);
    let serials = firmware
        .chain(tree)
        .map(|s| s.trim().trim_matches('\0').to_owned());
    names.serials.extend(serials.filter(|s| s.len() > 3));
    names.ids.extend(
        ["/etc/machine-id", "/var/lib/dbus/machine-id"].map(|path| text(path).trim().to_owned()),
    );
    names
}

/// The names in a person's line of /etc/passwd: login name, full name and home directory.
fn person(line: &str) -> Option<Vec<String>> {
    let fields: Vec<_> = line.split(':').collect();
    let [name, _, uid, _, full, home, ..] = fields.as_slice() else {
        return None;
    };
    // Smaller ids are system users; 65534 is `nobody`.
    uid.parse::<u32>()
        .ok()
        .filter(|uid| *uid >= 1000 && *uid != 65534)?;
    let full = full.split(',').next().unwrap_or_default();
    let folder = home.rsplit('/').next().unwrap_or_default();
    Some([*name, full, folder].map(str::to_owned).to_vec())
}

/// Versions and kernel releases.
fn kept(evidence: &Seen, database: &Database) -> Vec<String> {
    let facts = &evidence.facts;
    let kernels = facts.kernels.installed.iter().map(|k| k.release.clone());
    let known = database
        .add_on_artifacts
        .iter()
        .map(|a| a.version.to_string());
    let here = facts
        .add_on_files()
        .filter_map(|c| Some(c.version?.to_string()));
    // Versions of Python packages have four numbers, too.
    let environments = if let Answer::Is(all) = &evidence.python {
        all.as_slice()
    } else {
        &[]
    };
    let packages = environments
        .iter()
        .flat_map(|environment| &environment.packages);
    let required = packages
        .clone()
        .flat_map(|package| &package.requires)
        .flat_map(|required| {
            let numbers = required
                .versions
                .split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
            numbers
                .filter(|number| number.contains('.'))
                .map(str::to_owned)
        });
    let versions = packages
        .map(|package| package.version.clone())
        .chain(required);
    kernels
        .chain(facts.kernels.running.clone())
        .chain(facts.kernels.next_boot.clone())
        .chain(known)
        .chain(here)
        .chain(versions)
        .collect()
}

fn readme(
    when: &str,
    texts: &BTreeMap<String, String>,
    counts: &BTreeMap<PrivateKind, usize>,
) -> String {
    let mut out = format!(
        "The state of a host's GPUs, driver and CUDA, collected by gpusetup {tool} at {when}. To diagnose it on another \
         machine:\n\n    gpusetup doctor FILE.tar.zst\n\nAll files are texts:\n\n",
        tool = env!("CARGO_PKG_VERSION")
    );
    for name in texts.keys() {
        let what = match name.as_str() {
            EVIDENCE => "the evidence; the checks need only this file",
            "doctor.json" => "the findings",
            "kernel.log" => "the lines of the kernel's log about the driver and the GPUs",
            name if name.starts_with("dkms/") => {
                "the end of the log of a build of the driver's modules"
            }
            "gpusetup/result.json" => "how gpusetup's last run ended",
            name if name.starts_with("gpusetup/") => "the end of a log of gpusetup",
            _ => "the end of the log of NVIDIA's installer",
        };
        out += &format!("  {name}: {what}\n");
    }
    out += "\nPrivate values are replaced by placeholders; equal values have the same one. The host is <host>. Replaced:\n\n";
    for (kind, placeholder, several) in KINDS {
        out += &format!(
            "  <{placeholder}-N>: {several} ({})\n",
            counts.get(&kind).copied().unwrap_or_default()
        );
    }
    out + "\nNot replaced: PCI addresses, versions, checksums and kernel releases; outside of paths, names of fewer than\n\
           three letters and common words (ubuntu, nvidia); and names that gpusetup cannot know. Read these files before\n\
           you pass them on.\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_host::sample;

    #[test]
    fn the_log_says_the_same_without_what_is_nobodys_business() {
        let log = "\
[    0.000000] Linux version 6.8.0-71-generic (alice@build) #1
[    0.000001] Command line: root=UUID=1 rd.luks.key=/secret password=x modprobe.blacklist=nouveau pci=realloc
[    1.000000] usb 1-1: SerialNumber: 1234567
[    2.000000] pci 0000:17:00.0: BAR 1: no space
[    5.000000] NVRM: GPU 0000:17:00.0: RmInitAdapter failed! (0x24:0x72:1568)
[    6.000000] Loading of module with unavailable key is rejected
[    7.000000] NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off the bus.
Nov 21 12:00:00 gpu sudo: alice : COMMAND=/usr/bin/nvidia-smi
Nov 21 12:00:00 gpu kernel: nvidia-nvlink: up
modprobe: ERROR: could not insert 'nvidia': Key was rejected by service
";
        let of = of_driver(log, &sample::facts());
        assert_eq!(kernel_log::heard(&of), kernel_log::heard(log));
        assert!(
            !of.contains("usb")
                && !of.contains("sudo")
                && !of.contains("password")
                && !of.contains("UUID"),
            "{of}"
        );
        assert!(
            of.contains("Command line: modprobe.blacklist=nouveau pci=realloc\n")
                && of.contains("BAR 1"),
            "{of}"
        );
        assert_eq!(of.lines().count(), 8, "{of}");
    }

    #[test]
    fn the_end_of_a_text_begins_with_a_whole_line() {
        assert_eq!(last_lines("one\ntwo\nthree\n", 9), "three\n");
        assert_eq!(last_lines("one\n", 9), "one\n");
        assert_eq!(last_lines("a line that has no end", 9), "");
        assert_eq!(last_lines("éééé\né\n", 4), "é\n");
    }

    #[test]
    fn people_are_told_from_the_systems_own() {
        assert_eq!(
            person("alice:x:1000:1000:Alice Liddell,,,:/srv/al:/bin/bash"),
            Some(vec!["alice".into(), "Alice Liddell".into(), "al".into()])
        );
        assert_eq!(person("root:x:0:0:root:/root:/bin/bash"), None);
        assert_eq!(person("nobody:x:65534:65534:nobody:/:/sbin/nologin"), None);
        assert_eq!(person("nonsense"), None);
    }
}
