//! Shell patterns.

/// fnmatch(3) without flags. Only the last `*` is retried, so the time is at most the product of
/// both lengths.
pub fn pattern_matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        if let Some(length) = one(&pattern[p..], text[t]) {
            (p, t) = (p + length, t + 1);
            continue;
        }
        let Some((after, at)) = star else {
            return false;
        };
        star = Some((after, at + 1));
        (p, t) = (after, at + 1);
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

/// The length of the pattern's first element, if it matches this byte.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => match brackets(rest, byte) {
            Some((matched, length)) => matched.then_some(length + 1),
            // Without a closing bracket it is an ordinary character.
            None => (byte == b'[').then_some(1),
        },
        [c, ..] => (*c == byte).then_some(1),
        [] => None,
    }
}

/// Whether a byte matches the set in brackets, and the length of the set with its closing bracket.
fn brackets(pattern: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(pattern.first(), Some(b'!' | b'^'));
    let start = usize::from(negated);
    let (mut at, mut found) = (start, false);
    loop {
        let low = match *pattern.get(at)? {
            b']' if at > start => return Some((found != negated, at + 1)),
            b'\\' => {
                at += 1;
                *pattern.get(at)?
            }
            c => c,
        };
        let high = match (pattern.get(at + 1), pattern.get(at + 2)) {
            (Some(b'-'), Some(high)) if *high != b']' => {
                at += 2;
                *high
            }
            _ => low,
        };
        found |= (low..=high).contains(&byte);
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_fnmatch_does() {
        let matches =
            |pattern: &str, text: &str| pattern_matches(pattern.as_bytes(), text.as_bytes());
        for (pattern, text) in [
            ("nvidia-*", "nvidia-smi"),
            ("*", ""),
            ("a*b*c", "aXbYbZc"),
            ("lib?", "libc"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[]a]", "]"),
            ("a\\*", "a*"),
            ("a[", "a["),
            ("580.*", "580.95.05-1"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("nvidia-*", "libnvidia-x"),
            ("a", "ab"),
            ("?", ""),
            ("[!a]", "a"),
            ("a\\*", "ab"),
            ("", "a"),
            ("*a", "b"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
        assert!(!matches(
            &format!("{}b", "*a".repeat(200)),
            &"a".repeat(5000)
        ));
    }
}
