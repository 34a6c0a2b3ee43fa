//! What is installed, as text.

use super::Paint;
use crate::causes::offline_root;
use crate::listing::{InstallMethod, Installer, ListedAddOn, ListedToolkit, Listing};
use crate::text::{bytes, count, wrapped};
use std::path::Path;

/// The list for a person: the default toolkit is marked with `*`.
pub(crate) fn text(listing: &Listing, root: Option<&Path>, paint: Paint, width: usize) -> String {
    let mut out = String::new();
    let mut line = |label: &str, text: &str| out += &wrapped(label, text, width);
    let for_root = |text: &str| offline_root::sentence_on(text, root);
    if listing.drivers.is_empty() {
        line("  ", "no driver");
    }
    for driver in &listing.drivers {
        let by = by(driver.installed_by, driver.way);
        line(
            "  ",
            &format!(
                "{}, {by}",
                paint.bold(&format!("driver {}", driver.version))
            ),
        );
    }
    if listing.toolkits.is_empty() {
        line("  ", "no CUDA toolkit");
    }
    for toolkit in &listing.toolkits {
        line(
            if toolkit.default { "* " } else { "  " },
            &of_toolkit(toolkit, paint),
        );
        toolkit
            .add_ons
            .iter()
            .for_each(|add_on| line("      ", &of_add_on(add_on, false)));
    }
    listing
        .add_ons
        .iter()
        .for_each(|add_on| line("  ", &of_add_on(add_on, true)));
    if listing.toolkits.iter().any(|toolkit| toolkit.default) {
        line(
            "",
            &for_root(
                "* the default toolkit: `sudo gpusetup use cuda VERSION` chooses another one",
            ),
        );
    }
    if !listing.journal_read {
        line(
            "",
            &for_root("Only root can read which of it gpusetup installed: sudo gpusetup list"),
        );
    }
    if listing.toolkits.is_empty() && listing.add_ons.is_empty() {
        return out;
    }
    let (toolkits, room) = (
        count(listing.toolkits.len() as u64, "toolkit"),
        bytes(listing.bytes()),
    );
    out + &wrapped("", &format!("{toolkits}, {room} with add-ons."), width)
}

fn of_toolkit(toolkit: &ListedToolkit, paint: Paint) -> String {
    let name = paint.bold(&format!("CUDA {}", toolkit.version));
    let least = if toolkit.at_least { "at least " } else { "" };
    let parts = toolkit
        .components
        .as_ref()
        .map(|all| format!(", {}", count(all.len() as u64, "component")));
    let nvcc = if toolkit.has_nvcc {
        ""
    } else {
        ", without nvcc"
    };
    format!(
        "{name} in {}, {}{}{nvcc}, {least}{}",
        toolkit.path.display(),
        by(toolkit.installed_by, toolkit.way),
        parts.unwrap_or_default(),
        bytes(toolkit.bytes)
    )
}

fn of_add_on(add_on: &ListedAddOn, names_place: bool) -> String {
    let version = add_on.version.map_or_else(
        || "of unknown version".to_owned(),
        |version| version.to_string(),
    );
    let place = if names_place {
        format!(" in {}", add_on.directory.display())
    } else {
        String::new()
    };
    format!(
        "{} {version}{place}, {}, {}",
        add_on.title,
        by(add_on.installed_by, add_on.way),
        bytes(add_on.bytes)
    )
}

/// Who installed something, and how.
fn by(installer: Installer, way: InstallMethod) -> &'static str {
    match (installer, way) {
        (Installer::Gpusetup, InstallMethod::Packages) => "by gpusetup, from packages",
        (Installer::Gpusetup, InstallMethod::Runfile) => "by gpusetup, from a runfile",
        (Installer::Gpusetup, InstallMethod::Archives) => "by gpusetup, from archives",
        (Installer::Gpusetup, InstallMethod::Unknown) => "by gpusetup",
        (Installer::Packages, _) => "from packages",
        (Installer::Runfile, _) => "from a runfile",
        (Installer::Unknown, _) => "installed by: unknown",
    }
}
