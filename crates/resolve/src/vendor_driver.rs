//! The way to a driver on systems that get it from their own tools.

use super::{TargetGpu, known_gpu};
use gpusetup_causes::Remedy;
use gpusetup_database::compat::{Database, Platform, PlatformWay};
use gpusetup_host::Facts;
use gpusetup_text::text::quoted;

/// What to do on an image-based system that the database does not know.
pub const NO_KNOWN_WAY: &str = "no way to a driver is known for this system: see what its documentation says of NVIDIA's driver";

/// The system with its own way to a driver that this host is, if it is one.
pub fn own_platform<'d>(database: &'d Database, facts: &Facts) -> Option<&'d Platform> {
    let os = &facts.os;
    database.platform(&os.id, os.variant.as_deref(), &os.signs)
}

/// The way to a driver for the GPUs of this host.
pub fn vendor_driver_here(platform: &Platform, database: &Database, facts: &Facts) -> Remedy {
    let gpus: Vec<_> = facts
        .gpus
        .iter()
        .filter_map(|gpu| known_gpu(database, gpu).ok())
        .collect();
    vendor_driver(platform, facts.os.variant.as_deref(), gpus.iter())
}

/// The way to a driver that supports all of these GPUs, or that none is known. The image of this
/// `VARIANT_ID` may have it already.
pub fn vendor_driver<'c>(
    platform: &Platform,
    variant: Option<&str>,
    gpus: impl Iterator<Item = &'c TargetGpu> + Clone,
) -> Remedy {
    let Some(way) = platform
        .ways
        .iter()
        .find(|way| gpus.clone().all(|card| supports(way, card)))
    else {
        return unknown(platform, gpus);
    };
    match variant.filter(|variant| way.is_in(variant)) {
        Some(variant) => in_the_image(variant),
        None => Remedy::new(way.text.as_str(), way.commands.iter().cloned()),
    }
}

/// On an image with NVIDIA's driver, another one would change nothing.
fn in_the_image(variant: &str) -> Remedy {
    let text =
        format!("the image {variant} has NVIDIA's driver already: see what the kernel says of it");
    Remedy::new(text, ["sudo dmesg | grep -E 'NVRM|nvidia'"])
}

fn supports(way: &PlatformWay, card: &TargetGpu) -> bool {
    way.modules
        .is_none_or(|modules| card.modules.contains(&modules))
        && way.branch.is_none_or(|branch| card.is_served_by(branch))
        && way
            .oldest
            .is_none_or(|oldest| card.last_branch.is_none_or(|last| last >= oldest))
}

fn unknown<'c>(platform: &Platform, gpus: impl Iterator<Item = &'c TargetGpu>) -> Remedy {
    let mut names: Vec<_> = gpus.map(|card| card.name.as_str()).collect();
    names.dedup();
    let explain = names
        .iter()
        .map(|name| format!("gpusetup explain {}", quoted(name)));
    let text = format!(
        "no way to a driver for {} on {} is known; see which driver branches and kernel modules support it",
        names.join(" and "),
        platform.name
    );
    Remedy::new(text, explain)
}
