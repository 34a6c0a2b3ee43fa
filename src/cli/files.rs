//! Files that the user names: facts, plans, keys and other texts.

use super::{Problem, say};
use crate::host::{Facts, devices_named};
use crate::plan::Plan;
use crate::system::input::{self, InputError};
use crate::system::limits::{MAX_DEVICES, MAX_KEY, MAX_LOG, MAX_LSPCI, MAX_PASTE};
use crate::system::output;
use crate::system::trust::{Distrust, Trust};
use crate::text::visible_json;
use std::path::Path;

/// The text of a log or of something else that somebody pastes, in which anything may be; its end,
/// if it is long.
pub(crate) fn read_pasted(path: &Path) -> Result<String, Problem> {
    let (text, is_cut) = input::end_of_text(path, MAX_PASTE).map_err(unread)?;
    if is_cut {
        say(&format!(
            "the text is long: only its last {} MiB is read, and its lines are counted from there",
            MAX_PASTE >> 20
        ));
    }
    Ok(text)
}

/// The end of a kernel log.
pub(crate) fn read_kernel_log(path: &Path) -> Result<String, Problem> {
    let (text, is_cut) = input::end_of_text(path, MAX_LOG).map_err(unread)?;
    if is_cut {
        say(&format!(
            "the kernel log is long: only its last {} MiB is read",
            MAX_LOG >> 20
        ));
    }
    Ok(text)
}

pub(crate) fn unread(e: InputError) -> Problem {
    match e {
        InputError::Kind { kind: "a pipe", .. } => {
            Problem::usage(e.to_string()).hint("COMMAND | gpusetup …, with - in place of the file")
        }
        e => e.into(),
    }
}

/// What lspci printed, in a file. It may name no device of NVIDIA's, or none at all.
pub(crate) fn read_lspci(path: &Path) -> Result<String, Problem> {
    let text = input::text_or_standard_input(path, MAX_LSPCI).map_err(unread)?;
    let name = if path == Path::new("-") {
        "standard input".into()
    } else {
        path.to_string_lossy()
    };
    match devices_named(&text) {
        0 if !text.trim().is_empty() => {}
        0..=MAX_DEVICES => return Ok(text),
        count => {
            return Err(Problem::usage(format!(
                "{name} lists {count} devices, more than a host has"
            )));
        }
    }
    let sentence =
        format!("{name} is not the output of lspci: no line begins with the address of a device");
    Err(Problem::usage(sentence).attempt("lspci -nn | gpusetup plan --lspci -"))
}

/// The facts in a file.
pub(crate) fn read_facts(path: &Path) -> Result<Facts, Problem> {
    let text = input::json_or_standard_input(path).map_err(unread)?;
    let name = path.display();
    let value: serde_json::Value = serde_json::from_str(&text)
        .map_err(|e| Problem::usage(format!("{name} is not a facts file: {e}")))?;
    match value.get("schema").and_then(|s| s.as_str()) {
        Some(crate::host::SCHEMA) => {}
        Some(other) => {
            let sentence = format!(
                "{name} has the schema {other}; this gpusetup reads {}",
                crate::host::SCHEMA
            );
            return Err(Problem::usage(sentence)
                .hint("take the facts again with this one: gpusetup facts --json > FILE"));
        }
        None => {
            return Err(Problem::usage(format!(
                "{name} is not a facts file: it has no schema"
            )));
        }
    }
    let facts: Facts = serde_json::from_value(visible_json(value))
        .map_err(|e| Problem::usage(format!("{name} is not a facts file: {e}")))?;
    if facts.gpus.len() + facts.other_gpus.len() > MAX_DEVICES {
        return Err(Problem::usage(format!(
            "{name} lists {} GPUs, more than a host has",
            facts.gpus.len()
        )));
    }
    if let Some(gpu) = facts.gpus.iter().find(|gpu| !is_nvidia(&gpu.pci_id)) {
        let (at, id) = (&gpu.address, &gpu.pci_id);
        return Err(Problem::usage(format!(
            "{name}: the GPU at {at} has the PCI id `{id}`; NVIDIA's are 10de:xxxx"
        ))
        .hint("take the facts again: gpusetup facts --json > FILE"));
    }
    match facts.unlikely_kernel() {
        Some(kernel) => Err(Problem::usage(format!(
            "{name} names a kernel {kernel:?}, which no kernel is called"
        ))),
        None => Ok(facts),
    }
}

/// Whether a GPU's id in a facts file is one of NVIDIA's, or empty, as of a GPU that was given by
/// its compute capability.
fn is_nvidia(id: &str) -> bool {
    id.is_empty()
        || id.strip_prefix("10de:").is_some_and(|device| {
            device.len() == 4 && device.bytes().all(|b| b.is_ascii_hexdigit())
        })
}

pub(crate) fn save(plan: &Plan, path: &Path) -> Result<(), Problem> {
    let text =
        serde_json::to_string_pretty(plan).map_err(|e| Problem::unexpected(e.to_string()))?;
    output::write(path, (text + "\n").as_bytes())
        .map_err(|e| Problem::unexpected(format!("cannot write {}: {e}", path.display())))
}

/// The plan in a file of somebody who is trusted.
pub(crate) fn read_plan(path: &Path, trust: &Trust) -> Result<Plan, Problem> {
    let text = input::json(path, trust).map_err(or_trust_owner)?;
    Plan::read(text.as_bytes()).map_err(|e| {
        Problem::integrity(format!("the plan {}: {e}", path.display()))
            .hint("make a new one: gpusetup plan --out FILE")
    })
}

/// The text of a minisign public key.
pub(crate) fn read_key(path: &Path) -> Result<String, Problem> {
    Ok(input::text(path, MAX_KEY, &Trust::where_root_acts(&[])?)?)
}

/// With the option that accepts the file, where its owner is what speaks against it.
pub(crate) fn or_trust_owner(e: InputError) -> Problem {
    let name = match &e {
        InputError::Untrusted {
            why: Distrust::Owner { name },
            ..
        } => Some(name.clone()),
        _ => None,
    };
    let problem = Problem::from(e);
    match name {
        Some(name) => problem.hint(format!("or accept it from that user: --trust-owner {name}")),
        None => problem,
    }
}
