//! Where things are: URLs, and what is below people's homes.

use super::words::{is_public, is_public_host};
use super::{Anonymiser, Found, PrivateKind, placeholder, run};
use std::net::IpAddr;

const HOMES: [&str; 3] = ["/home/", "/users/", "/Users/"];
const ROOTS_HOME: &str = "/root/";

/// A part of a path. In a text a blank ends it, or what else may stand behind a path; a path by
/// itself may have these in it.
pub(crate) fn component(rest: &str, is_path: bool) -> &str {
    match placeholder(rest) {
        Some(length) => &rest[..length],
        None => run(rest, |c| {
            c != '/' && (is_path || !c.is_whitespace() && !"\"'`:;,<>()[]{}|&\\".contains(c))
        }),
    }
}

/// A home and all that stands below it: the user, then folders that are not everybody's.
pub(crate) fn home(to: &mut Anonymiser, rest: &str, is_path: bool) -> Option<Found> {
    let (start, is_users) = match HOMES.iter().find(|home| rest.starts_with(**home)) {
        Some(home) => (home.len(), true),
        None => (
            rest.strip_prefix(ROOTS_HOME).map(|_| ROOTS_HOME.len())?,
            false,
        ),
    };
    let mut out = rest[..start].to_owned();
    let mut at = start;
    if is_users {
        let user = component(&rest[at..], is_path);
        at += user.len();
        out += &match user.contains(char::is_alphanumeric) && placeholder(user).is_none() {
            true => to.instead_of(PrivateKind::User, user),
            false => user.to_owned(),
        };
        if rest[at..].starts_with('/') {
            at += 1;
            out.push('/');
        } else {
            return Some((at, out));
        }
    }
    let (length, below) = folders(to, &rest[at..], is_path);
    Some((at + length, out + &below))
}

/// Folders and a file, those that are somebody's own replaced.
fn folders(to: &mut Anonymiser, rest: &str, is_path: bool) -> Found {
    let (mut at, mut out) = (0, String::new());
    loop {
        let part = component(&rest[at..], is_path);
        let is_own =
            !is_public(part) && part.contains(char::is_alphanumeric) && placeholder(part).is_none();
        // What is made of numbers may be an address.
        out += &if is_own {
            to.instead_of(PrivateKind::Folder, part)
        } else {
            to.rewritten(part, false)
        };
        at += part.len();
        if !rest[at..].starts_with('/') {
            return (at, out);
        }
        out.push('/');
        at += 1;
    }
}

/// The length of `scheme://` at the beginning, and the authority after it.
fn authority(rest: &str) -> Option<(usize, &str)> {
    // No scheme is longer.
    let scheme = run(rest.get(..16).unwrap_or(rest), |c| {
        c.is_ascii_alphanumeric() || "+-.".contains(c)
    });
    let authority = rest[scheme.len()..].strip_prefix("://")?;
    if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let start = scheme.len() + 3;
    let authority = run(authority, |c| {
        !c.is_whitespace() && !"/?#\"'`,;|\\".contains(c)
    });
    // An opening bracket that was closed before belongs to an IPv6 address; one that was not, to
    // the sentence.
    let authority = authority.trim_end_matches([')', '>', '}', '.', ':']);
    if rest[start + authority.len()..].starts_with('>') && authority.contains('<') {
        return Some((start, &rest[start..=start + authority.len()]));
    }
    Some((start, authority))
}

/// The host and the port in `user:password@host:port`.
fn host_and_port(authority: &str) -> (&str, Option<&str>) {
    let place = authority
        .rsplit_once('@')
        .map_or(authority, |(_, place)| place);
    match place.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !host.is_empty() => {
            (host, Some(port))
        }
        _ => (place, None),
    }
}

/// `scheme://user:password@host:port/path?query`. Hosts that everybody knows stay, with their path.
pub(crate) fn url(to: &mut Anonymiser, rest: &str) -> Option<Found> {
    let (start, authority) = authority(rest)?;
    let mut out = rest[..start].to_owned();
    let (host, port) = host_and_port(authority);
    let bare = host.trim_matches(['[', ']']);
    let known = is_public_host(host) || placeholder(host) == Some(host.len()) || host.is_empty();
    out += &match bare.parse::<IpAddr>() {
        _ if known => host.to_owned(),
        Ok(address) if address.is_loopback() => host.to_owned(),
        Ok(_) => to.instead_of(PrivateKind::Address, bare),
        // `user:password` of a URL that is cut off, or something that is no host at all.
        Err(_) => to.instead_of(PrivateKind::Host, host),
    };
    if let Some(port) = port {
        out = out + ":" + port;
    }
    let mut at = start + authority.len();
    if rest[at..].starts_with('/') && !host.is_empty() {
        let path = run(&rest[at..], |c| {
            !c.is_whitespace() && !"?#\"'`()|\\,;".contains(c)
        });
        at += path.len();
        out += &if is_public_host(host) {
            to.rewritten(path, false)
        } else {
            folders(to, path, true).1
        };
    }
    let query = run(&rest[at..], |c| {
        !c.is_whitespace() && !"\"'`<>)".contains(c)
    });
    if query.len() > 1 && query.starts_with(['?', '#']) {
        at += query.len();
        out = out + "?" + &to.instead_of(PrivateKind::Secret, &query[1..]);
    }
    Some((at, out))
}
