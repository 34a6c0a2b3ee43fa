//! `gres.conf` for Slurm.

use crate::cluster::Gres;
use std::collections::BTreeMap;

/// The file, and what belongs into slurm.conf, as comments.
pub(crate) fn text(lines: &[Gres]) -> String {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for line in lines {
        *counts.entry(&line.kind).or_default() += line.count();
    }
    let all: Vec<_> = counts
        .iter()
        .map(|(kind, count)| format!("gpu:{kind}:{count}"))
        .collect();
    let mut out = format!(
        "# gres.conf of this node. slurm.conf needs:\n#   GresTypes=gpu\n#   NodeName=... Gres={}\n# `slurmd -G` shows what Slurm reads.\n",
        all.join(",")
    );
    for line in lines {
        out += &format!("{line}\n");
    }
    out
}
