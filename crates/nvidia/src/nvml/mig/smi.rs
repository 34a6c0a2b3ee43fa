//! The commands of nvidia-smi that do the same, for scripts and people.

use std::fmt::Display;

/// The commands that remove GPU instances, and the compute instances in them first. Without ids:
/// all of them.
pub fn remove(gpu: &dyn Display, ids: &[u32]) -> [String; 2] {
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    let which = if ids.is_empty() {
        String::new()
    } else {
        format!(" -gi {}", ids.join(","))
    };
    ["dci", "dgi"].map(|what| format!("nvidia-smi mig -i {gpu} -{what}{which}"))
}

/// The command that creates GPU instances, each with a compute instance. None without instances.
pub fn create(gpu: &dyn Display, instances: &[String]) -> Option<String> {
    (!instances.is_empty())
        .then(|| format!("nvidia-smi mig -i {gpu} -cgi {} -C", instances.join(",")))
}

/// An instance for [`create`]: `19`, or `19:6` at a placement. Every driver takes the id, and not
/// every one the name.
pub fn instance(id: Option<u32>, profile: &str, start: Option<u32>) -> String {
    let profile = id.map_or_else(|| profile.to_owned(), |id| id.to_string());
    start.map_or_else(|| profile.clone(), |start| format!("{profile}:{start}"))
}
