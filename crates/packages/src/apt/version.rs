//! Debian's order of versions, as apt compares them: `[epoch:]upstream[-revision]`.

use std::cmp::Ordering;

/// How two versions compare.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (Parts::of(a), Parts::of(b));
    fragment(a.epoch, b.epoch)
        .then_with(|| fragment(a.upstream, b.upstream))
        .then_with(|| {
            // No revision counts as the revision 0.
            match (a.revision, b.revision) {
                (None, None) => Ordering::Equal,
                (a, b) => fragment(a.unwrap_or(b"0"), b.unwrap_or(b"0")),
            }
        })
}

struct Parts<'a> {
    epoch: &'a [u8],
    upstream: &'a [u8],
    revision: Option<&'a [u8]>,
}

impl<'a> Parts<'a> {
    fn of(version: &'a str) -> Self {
        let (epoch, rest) = version.split_once(':').unwrap_or(("", version));
        let (upstream, revision) = match rest.rsplit_once('-') {
            Some((upstream, revision)) => (upstream, Some(revision.as_bytes())),
            None => (rest, None),
        };
        Self {
            epoch: epoch.trim_start_matches('0').as_bytes(),
            upstream: upstream.as_bytes(),
            revision,
        }
    }
}

/// The rank of a character in a non-numeric part: `~` sorts before the end, letters before all
/// others.
fn rank(c: u8) -> i32 {
    match c {
        b'~' => -1,
        c if c.is_ascii_digit() => 0,
        c if c.is_ascii_alphabetic() => i32::from(c),
        c => i32::from(c) + 256,
    }
}

/// Compares non-numeric parts and numbers alternately.
fn fragment(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while !a.is_empty() && !b.is_empty() {
        while let (Some(first), Some(second)) = (a.first(), b.first())
            && !(first.is_ascii_digit() && second.is_ascii_digit())
        {
            match rank(*first).cmp(&rank(*second)) {
                Ordering::Equal => (a, b) = (&a[1..], &b[1..]),
                differs => return differs,
            }
        }
        let (number_a, number_b);
        (number_a, a) = number(a);
        (number_b, b) = number(b);
        match number_a
            .len()
            .cmp(&number_b.len())
            .then_with(|| number_a.cmp(number_b))
        {
            Ordering::Equal => {}
            differs => return differs,
        }
    }
    match (a.first(), b.first()) {
        (None, None) => Ordering::Equal,
        (None, Some(b'~')) => Ordering::Greater,
        (None, Some(_)) | (Some(b'~'), None) => Ordering::Less,
        _ => Ordering::Greater,
    }
}

/// The leading digits without leading zeroes, and the rest.
fn number(text: &[u8]) -> (&[u8], &[u8]) {
    let zeroes = text.iter().take_while(|c| **c == b'0').count();
    let text = &text[zeroes..];
    text.split_at(text.iter().take_while(|c| c.is_ascii_digit()).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_in_dpkgs_and_apts_own_tests() {
        let pairs = [
            ["7.6p2-4", "7.6-0"],
            ["1.0.3-3", "1.0-1"],
            ["1.3", "1.2.2-2"],
            ["1.3", "1.2.2"],
            ["0-pre", "0-pre~"],
            ["1.1.0+dfsg-1", "1.1.0-1"],
            ["0.0.1+cvs20060501-5", "0.0.1+cvs20060130-5"],
            ["1.0-1", "1.0~rc1-1"],
            ["1.0", "1.0~"],
            ["1.0~~a~", "1.0~~"],
            ["1:0.4", "10.3"],
            ["1:1.25-8", "1:1.25-4"],
            ["1:0", "2.0.0-1"],
            ["1.18.36:5.5", "1.18.36:5.4"],
            ["10:1", "9:1"],
            ["0:1.1", "1.0"],
            ["1.2.3-1.1", "1.2.3-1"],
            ["1.0+b1", "1.0-1+b1"],
            ["9.10", "9.9"],
            ["5.12~~alpha1", "5.12~~"],
            ["1.0a", "1.0"],
            ["1.0-10", "1.0-9"],
            ["580.105.08-1", "580.95.05-1"],
        ];
        for [greater, less] in pairs {
            assert_eq!(
                compare(greater, less),
                Ordering::Greater,
                "{greater} {less}"
            );
            assert_eq!(compare(less, greater), Ordering::Less, "{less} {greater}");
        }
        for [a, b] in [
            ["1.0", "1.0-0"],
            ["0:1.0", "1.0"],
            ["00:1", "1"],
            ["1.01", "1.1"],
            ["", ""],
            ["1-", "1-"],
        ] {
            assert_eq!(compare(a, b), Ordering::Equal, "{a} {b}");
            assert_eq!(compare(b, a), Ordering::Equal, "{b} {a}");
        }
    }
}
