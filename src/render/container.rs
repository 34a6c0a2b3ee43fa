//! Requests for GPUs, for people: each form can be copied, and what is said about it is a comment
//! in it. Images that were checked.

use crate::container::{Checked, CheckedImage, ImageAnswer, Translated};
use crate::text::{one_line, wrapped};

/// A request in all forms. No text of the command line is in a comment: some shells run what
/// follows a `;` in one.
pub(crate) fn translated(all: &Translated) -> String {
    let mut out = format!("# {} ({})\n", all.request.gpus.described(), all.from);
    if let Some(capabilities) = &all.request.capabilities {
        out += &comment(&format!("parts of the driver: {}", capabilities.join(", ")));
    }
    all.request_only
        .iter()
        .for_each(|why| out += &comment(&request_only(why)));
    all.notes.iter().for_each(|note| out += &comment(note));
    for written in &all.forms {
        out += &format!("\n# {}: {}\n", written.form.name(), written.form.title());
        written
            .differences
            .iter()
            .for_each(|what| out += &comment(what));
        match &written.text {
            Some(text) => {
                out += text.trim_end();
                out.push('\n');
            }
            None => out += &comment("cannot be expressed"),
        }
        written.notes.iter().for_each(|note| out += &comment(note));
    }
    out
}

/// What is said if only the options for GPUs are printed.
pub(crate) fn request_only(why: &str) -> String {
    format!("only the options for GPUs are printed, because {why}")
}

fn comment(text: &str) -> String {
    format!("#   {text}\n")
}

/// Whether the host runs images, and why.
pub(crate) fn checked(result: &Checked, width: usize) -> String {
    let images = result
        .images
        .iter()
        .map(|image| checked_image(image, result.driver.as_deref(), width));
    images.collect::<Vec<_>>().join("\n")
}

fn checked_image(result: &CheckedImage, driver: Option<&str>, width: usize) -> String {
    let says = match result.answer {
        ImageAnswer::Runs => "runs on this driver",
        ImageAnswer::RunsWithForwardCompatibility => {
            "runs with the newer driver libraries that are in the image"
        }
        ImageAnswer::NeedsNoCuda => "has no CUDA",
        ImageAnswer::DoesNotRun => "does not run",
        ImageAnswer::Unknown => "may run: that depends on what is not known",
    };
    let mut out = wrapped("", &format!("{} {says}.", one_line(&result.image)), width);
    let known = [
        ("CUDA in the image", result.cuda.as_deref()),
        ("driver", driver),
        ("capabilities", result.capabilities.as_deref()),
    ];
    for (name, value) in known {
        if let Some(value) = value {
            out += &wrapped("  ", &format!("{name}: {}", one_line(value)), width);
        }
    }
    result
        .reasons
        .iter()
        .for_each(|reason| out += &wrapped("  - ", &one_line(reason), width));
    for command in &result.commands {
        out += &format!("  try: {}\n", one_line(command));
    }
    out
}
