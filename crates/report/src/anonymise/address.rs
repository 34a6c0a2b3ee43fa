//! Addresses and ids by their form alone, and what only looks like them: versions, PCI addresses,
//! times. Each function tells how many bytes at the beginning of a text are one.

use super::{PrivateKind, is_boundary, run};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Groups of hexadecimal digits of these lengths with `separator` between them, at the beginning
/// and not going on.
fn groups(rest: &str, lengths: &[usize], separator: char) -> Option<usize> {
    let length = lengths.iter().sum::<usize>() + lengths.len() - 1;
    let text = rest.get(..length)?;
    let after = &rest[length..];
    let same = text
        .split(separator)
        .map(str::len)
        .eq(lengths.iter().copied());
    let whole = is_boundary(text, after) && !after.starts_with(separator);
    (same && whole && text.split(separator).all(is_hex)).then_some(length)
}

/// `8-4-4-4-12`; what stands before it (`GPU-`, `MIG-`) stays.
pub(crate) fn uuid(rest: &str) -> Option<usize> {
    groups(rest, &[8, 4, 4, 4, 12], '-')
}

/// A MAC address as Windows and PXE write it.
pub(crate) fn dashed_mac(rest: &str) -> Option<usize> {
    groups(rest, &[2; 6], '-')
}

/// 32 hexadecimal digits, as in /etc/machine-id; sums have 40 or more.
pub(crate) fn machine_id(rest: &str) -> Option<usize> {
    groups(rest, &[32], '-')
}

/// What is written with colons: MAC addresses, keys' fingerprints, GUIDs of InfiniBand, IPv6. No
/// PCI address and no time is: they have fewer parts.
pub(crate) fn hexadecimal(before: &str, rest: &str) -> Option<(usize, PrivateKind)> {
    if !rest.starts_with(|c: char| c.is_ascii_hexdigit() || c == ':') {
        return None;
    }
    let text = run(rest, |c| c.is_ascii_hexdigit() || c == ':' || c == '.').trim_end_matches('.');
    let parts: Vec<_> = text.trim_end_matches(':').split(':').collect();
    if parts.len() < 3 || !is_boundary(text, &rest[text.len()..]) {
        return None;
    }
    let all_of = |length: usize| parts.iter().all(|p| p.len() == length && is_hex(p));
    let length = text.trim_end_matches(':').len();
    match parts.len() {
        6 if all_of(2) => return Some((length, PrivateKind::Mac)),
        7.. if all_of(2) => return Some((length, PrivateKind::Id)),
        // Not the four PCI ids of a card: NVIDIA's vendor would be the first.
        4 if all_of(4) && !parts[0].eq_ignore_ascii_case("10de") => {
            return Some((length, PrivateKind::Id));
        }
        _ => {}
    }
    // `name::field` of a programming language.
    if text.starts_with(':') && before.ends_with(char::is_alphanumeric) {
        return None;
    }
    let candidates = [text, text.trim_end_matches(':')];
    let address = candidates
        .into_iter()
        .find_map(|t| Some((t.len(), t.parse::<Ipv6Addr>().ok()?)));
    address
        .filter(|(_, a)| !a.is_loopback() && !a.is_unspecified())
        .map(|(length, _)| (length, PrivateKind::Address))
}

/// Four numbers with points between them, where they are an address and no version. 9.10.2.21 may
/// be either: what stands around it tells, and the private networks' numbers.
pub(crate) fn dotted(before: &str, rest: &str) -> Option<usize> {
    let text = run(rest, |c| c.is_ascii_digit() || c == '.').trim_end_matches('.');
    let address: Ipv4Addr = text.parse().ok()?;
    let after = &rest[text.len()..];
    if address.is_loopback()
        || address.is_unspecified()
        || address.is_broadcast()
        || !is_boundary(text, after)
    {
        return None;
    }
    let is_private = address.is_private()
        || address.is_link_local()
        || matches!(address.octets(), [100, 64..128, ..]);
    (!(is_version(before, after, is_private))).then_some(text.len())
}

/// Whether four numbers between these are a version: by a word before them, as part of a file's or
/// a package's name.
fn is_version(before: &str, after: &str, is_private: bool) -> bool {
    let near = before.trim_end();
    let word = near
        .rsplit(|c: char| !c.is_ascii_alphanumeric())
        .next()
        .unwrap_or_default()
        .to_lowercase();
    let named = [
        "version", "release", "cudnn", "cuda", "driver", "tensorrt", "nccl", "vbios",
    ]
    .contains(&word.as_str());
    let follows_name = before.ends_with(['-', '_', '~', '+']);
    let goes_on = after.starts_with(['_', '~', '+'])
        || after
            .strip_prefix('-')
            .is_some_and(|a| a.starts_with(|c: char| c.is_ascii_alphanumeric()));
    // Of the private networks' numbers nearly all are addresses: only in the name of a file or a
    // package they are none.
    let in_a_name = before.ends_with(".so.") || follows_name && goes_on;
    let related = [">=", "<=", "==", "(="]
        .iter()
        .any(|relation| near.ends_with(relation));
    in_a_name
        || !is_private && (before.ends_with('.') || named || follows_name || goes_on || related)
}

/// Hosts that clouds name by their address, `ip-10-0-0-12`.
pub(crate) fn named_by_address(rest: &str) -> Option<usize> {
    let numbers = run(rest.strip_prefix("ip-")?, |c| {
        c.is_ascii_digit() || c == '-'
    })
    .trim_end_matches('-');
    let is_address = numbers.replace('-', ".").parse::<IpAddr>().is_ok();
    (is_address && is_boundary(numbers, &rest[3 + numbers.len()..])).then_some(3 + numbers.len())
}
