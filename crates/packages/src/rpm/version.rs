//! rpm's order of versions: `[epoch:]version-release`, each part as rpmvercmp compares it.

use std::cmp::Ordering;

/// Compares two versions. A missing epoch is 0.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (split(a), split(b));
    part(a.0, b.0)
        .then_with(|| part(a.1, b.1))
        .then_with(|| part(a.2, b.2))
}

fn split(evr: &str) -> (&str, &str, &str) {
    let (epoch, rest) = evr.split_once(':').unwrap_or(("0", evr));
    let (version, release) = rest.rsplit_once('-').unwrap_or((rest, ""));
    (epoch, version, release)
}

/// Compares runs of digits and runs of letters; other characters only separate them. `~` sorts
/// before the end, `^` after it.
fn part(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    loop {
        (a, b) = (without_separators(a), without_separators(b));
        let (first, second) = (a.first(), b.first());
        match (first, second) {
            _ if kind(first) != kind(second) => return kind(first).cmp(&kind(second)),
            (Some(b'~' | b'^'), _) => (a, b) = (&a[1..], &b[1..]),
            (None, _) | (_, None) => return Ordering::Equal,
            (Some(first), Some(second)) => {
                let numeric = first.is_ascii_digit();
                if numeric != second.is_ascii_digit() {
                    // A number is newer than letters.
                    return if numeric {
                        Ordering::Greater
                    } else {
                        Ordering::Less
                    };
                }
                let (run_a, run_b);
                (run_a, a) = run(a, numeric);
                (run_b, b) = run(b, numeric);
                let lengths = if numeric {
                    run_a.len().cmp(&run_b.len())
                } else {
                    Ordering::Equal
                };
                match lengths.then_with(|| run_a.cmp(run_b)) {
                    Ordering::Equal => {}
                    differs => return differs,
                }
            }
        }
    }
}

fn without_separators(text: &[u8]) -> &[u8] {
    let mut bytes = text.iter();
    let start = bytes.position(|c| c.is_ascii_alphanumeric() || matches!(c, b'~' | b'^'));
    &text[start.unwrap_or(text.len())..]
}

/// The order of what may come next: before the end comes what is older than without it, and after
/// it what is newer.
fn kind(next: Option<&u8>) -> u8 {
    match next {
        Some(b'~') => 0,
        None => 1,
        Some(b'^') => 2,
        Some(_) => 3,
    }
}

/// The leading digits (without leading zeroes) or letters, and the rest.
fn run(text: &[u8], numeric: bool) -> (&[u8], &[u8]) {
    let belongs = if numeric {
        u8::is_ascii_digit
    } else {
        u8::is_ascii_alphabetic
    };
    let (run, rest) = text.split_at(text.iter().take_while(|c| belongs(c)).count());
    let zeroes = if numeric {
        run.iter().take_while(|c| **c == b'0').count()
    } else {
        0
    };
    (&run[zeroes..], rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_in_rpms_own_tests() {
        // From rpmvercmp.at.
        let equal = [
            ["1.0", "1.0"],
            ["2.0.1a", "2.0.1a"],
            ["5.5p10", "5.5p10"],
            ["xyz10", "xyz10"],
            ["1.0^", "1.0^"],
            ["1.0~rc1", "1.0~rc1"],
            ["1.0~rc1^git1", "1.0~rc1^git1"],
            ["2_0", "2.0"],
            ["2_0", "2_0"],
            ["a+", "a_"],
            ["+", "_"],
            ["1.0010", "1.10"],
            ["0:1-1", "1-1"],
        ];
        for [a, b] in equal {
            assert_eq!(
                (compare(a, b), compare(b, a)),
                (Ordering::Equal, Ordering::Equal),
                "{a} {b}"
            );
        }
        let ascending = [
            ["1.0", "2.0"],
            ["2.0", "2.0.1"],
            ["2.0.1", "2.0.1a"],
            ["5.5p1", "5.5p2"],
            ["5.5p1", "5.5p10"],
            ["10xyz", "10.1xyz"],
            ["xyz10", "xyz10.1"],
            ["xyz.4", "8"],
            ["xyz.4", "2"],
            ["5.5p2", "5.6p1"],
            ["5.6p1", "6.5p1"],
            ["6.0", "6.0.rc1"],
            ["10a2", "10b2"],
            ["1.0aa", "1.0aaa"],
            ["10.0001", "10.0039"],
            ["4.999.9", "5.0"],
            ["20101121", "20101122"],
            ["1.0~rc1", "1.0"],
            ["1.0~rc1", "1.0~rc2"],
            ["1.0~rc1~git123", "1.0~rc1"],
            ["1.0", "1.0^"],
            ["1.0", "1.0^git1"],
            ["1.0^git1", "1.0^git2"],
            ["1.0^git1", "1.01"],
            ["1.0^20160101", "1.0.1"],
            ["1.0^20160101^git1", "1.0^20160102"],
            ["1.0~rc1", "1.0~rc1^git1"],
            ["1.0^git1~pre", "1.0^git1"],
            ["580.95.05-1.el9", "580.105.08-1.el9"],
            ["580.95.05-1.el9", "580.95.05-2.el9"],
            ["999-1", "1:1-1"],
        ];
        for [a, b] in ascending {
            assert_eq!(
                (compare(a, b), compare(b, a)),
                (Ordering::Less, Ordering::Greater),
                "{a} {b}"
            );
        }
    }
}
