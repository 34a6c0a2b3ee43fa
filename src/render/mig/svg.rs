//! A GPU's memory and compute slices as SVG.

use crate::mig::{PlannedGpu, PlannedHost};
use std::fmt::Write;

const CELL: usize = 88;
const ROW: usize = 44;
const LEFT: usize = 84;
const TITLE: usize = 30;
const GAP: usize = 10;
/// Fill colours by profile, light enough for black text on them.
const FILLS: [&str; 8] = [
    "#a6d854", "#8da0cb", "#fc8d62", "#66c2a5", "#e78ac3", "#ffd92f", "#e5c494", "#b3b3b3",
];

/// The picture of all GPUs, one below the other.
pub(crate) fn svg(host: &PlannedHost) -> String {
    let cells = host
        .gpus
        .iter()
        .map(|gpu| gpu.slots.total.max(gpu.compute_slices.total))
        .max()
        .unwrap_or(0);
    let width = LEFT + usize::from(cells) * CELL + GAP;
    let height_of_one = TITLE + 2 * (ROW + GAP);
    let height = host.gpus.len() * height_of_one + GAP;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" font-family=\"sans-serif\" font-size=\"14\">\n<title>MIG layout</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    for (n, gpu) in host.gpus.iter().enumerate() {
        one(&mut out, gpu, n * height_of_one);
    }
    out + "</svg>\n"
}

fn one(out: &mut String, gpu: &PlannedGpu, top: usize) {
    let title = format!("GPU {}, {}: {}", gpu.index, gpu.name, gpu.layout);
    text(out, GAP, top + 20, "start", &title);
    let mut names: Vec<&str> = gpu.instances.iter().map(|i| i.profile.as_str()).collect();
    names.dedup();
    let fill = |name: &str| FILLS[names.iter().position(|n| *n == name).unwrap_or(0) % FILLS.len()];
    let memory = top + TITLE;
    row(out, "memory", memory, gpu.slots.total);
    for i in &gpu.instances {
        part(
            out,
            usize::from(i.start),
            memory,
            usize::from(i.size),
            &i.profile,
            fill(&i.profile),
        );
    }
    let compute = memory + ROW + GAP;
    row(out, "compute", compute, gpu.compute_slices.total);
    let mut at = 0;
    for i in &gpu.instances {
        part(
            out,
            at,
            compute,
            usize::from(i.compute_slices),
            &i.profile,
            fill(&i.profile),
        );
        at += usize::from(i.compute_slices);
    }
}

/// A label, and a dashed box for each slice.
fn row(out: &mut String, label: &str, y: usize, slices: u8) {
    text(out, LEFT - GAP, y + ROW / 2 + 5, "end", label);
    for slice in 0..usize::from(slices) {
        let _ = writeln!(
            out,
            "<rect x=\"{}\" y=\"{y}\" width=\"{CELL}\" height=\"{ROW}\" fill=\"none\" stroke=\"#888888\" stroke-dasharray=\"3 3\"/>",
            LEFT + slice * CELL
        );
    }
}

fn part(out: &mut String, at: usize, y: usize, slices: usize, name: &str, fill: &str) {
    let (x, width) = (LEFT + at * CELL, slices * CELL);
    let _ = writeln!(
        out,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{ROW}\" rx=\"4\" fill=\"{fill}\" stroke=\"#222222\"/>"
    );
    text(out, x + width / 2, y + ROW / 2 + 5, "middle", name);
}

fn text(out: &mut String, x: usize, y: usize, anchor: &str, text: &str) {
    let escaped = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let _ = writeln!(
        out,
        "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"#000000\">{escaped}</text>"
    );
}
