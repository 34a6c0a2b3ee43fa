//! The way to a driver on systems that get it from their own tools.

use super::{Card, known_card};
use crate::causes::Remedy;
use crate::compat::{Database, Platform, PlatformWay};
use crate::host::Facts;
use crate::text::quoted;

/// The system with its own way to a driver that this host is, if it is one.
pub fn own_platform<'d>(database: &'d Database, facts: &Facts) -> Option<&'d Platform> {
    let os = &facts.os;
    database.platform(&os.id, os.variant.as_deref(), &os.signs)
}

/// The way to a driver for the GPUs of this host.
pub fn own_way_here(platform: &Platform, database: &Database, facts: &Facts) -> Remedy {
    let cards: Vec<_> = facts.gpus.iter().filter_map(|gpu| known_card(database, gpu).ok()).collect();
    own_way(platform, cards.iter())
}

/// The way to a driver that supports all of these GPUs, or that none is known.
pub fn own_way<'c>(platform: &Platform, cards: impl Iterator<Item = &'c Card> + Clone) -> Remedy {
    match platform.ways.iter().find(|way| cards.clone().all(|card| supports(way, card))) {
        Some(way) => Remedy::new(way.text.as_str(), way.commands.iter().cloned()),
        None => unknown(platform, cards),
    }
}

fn supports(way: &PlatformWay, card: &Card) -> bool {
    way.modules.is_none_or(|modules| card.modules.contains(&modules))
        && way.branch.is_none_or(|branch| card.is_served_by(branch))
}

fn unknown<'c>(platform: &Platform, cards: impl Iterator<Item = &'c Card>) -> Remedy {
    let mut names: Vec<_> = cards.map(|card| card.name.as_str()).collect();
    names.dedup();
    let explain = names.iter().map(|name| format!("gpusetup explain {}", quoted(name)));
    let text = format!(
        "no way to a driver for {} on {} is known; see which driver branches and kernel modules support it",
        names.join(" and "),
        platform.name
    );
    Remedy::new(text, explain)
}
