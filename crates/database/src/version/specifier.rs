//! Requirements of Python packages, in the notations of pip and conda.

use std::cmp::Ordering;

/// Whether a version meets a requirement in pip's or conda's notation. A form that is not known
/// counts as met.
pub fn meets_specifier(version: &str, versions: &str) -> bool {
    versions.split('|').any(|all| {
        all.split(',')
            .map(str::trim)
            .filter(|one| !one.is_empty())
            .all(|one| fits(version, one))
    })
}

fn fits(version: &str, requirement: &str) -> bool {
    let than = requirement.trim_start_matches(['=', '<', '>', '~', '!', ' ']);
    let operator = requirement[..requirement.len() - than.len()].trim();
    let (have, want) = (
        numbers(version),
        numbers(than.trim_end_matches(".*").trim_end_matches('*')),
    );
    let has_start = have.starts_with(&want);
    let order = compared(&have, &want);
    match operator {
        "==" if than.ends_with('*') => has_start,
        "==" | "===" => order == Ordering::Equal,
        // conda: `12.4` and `12.4.*` alike.
        "" | "=" => has_start,
        "!=" if than.ends_with('*') => !has_start,
        "!=" => order != Ordering::Equal,
        ">=" => order != Ordering::Less,
        "<=" => order != Ordering::Greater,
        ">" => order == Ordering::Greater,
        "<" => order == Ordering::Less,
        "~=" => order != Ordering::Less && have.starts_with(&want[..want.len().saturating_sub(1)]),
        _ => true,
    }
}

/// The numbers of a version, up to its local part: 13, 0 for `13.0a0`.
fn numbers(version: &str) -> Vec<u64> {
    version
        .split('+')
        .next()
        .unwrap_or_default()
        .split('.')
        .map_while(|part| {
            let end = part.find(|c: char| !c.is_ascii_digit());
            part[..end.unwrap_or(part.len())].parse().ok()
        })
        .collect()
}

/// The order of versions: missing numbers are 0.
fn compared(have: &[u64], want: &[u64]) -> Ordering {
    (0..have.len().max(want.len()))
        .map(|n| have.get(n).unwrap_or(&0).cmp(want.get(n).unwrap_or(&0)))
        .find(|o| o.is_ne())
        .unwrap_or(Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_of_pip_and_conda_are_compared() {
        for (version, versions, expected) in [
            ("12.8.90", "==12.8.90", true),
            ("12.6.77", "==12.8.90", false),
            ("9.10.2.21", "<10.0,>=9.3.0.75", true),
            ("10.0", "<10.0,>=9.3.0.75", false),
            ("12.4.127", "~=12.0", true),
            ("13.0.1", "~=12.0", false),
            ("12.6.85", ">=12.6.85,<13.0a0", true),
            ("13.0.1", ">=12.6.85,<13.0a0", false),
            ("12.4.127", "12.4.*", true),
            ("12.9.0", "12.4.*", false),
            ("12.9.0", "12.4.*|12.9.*", true),
            ("1.0", "", true),
            ("2.9.1", "==2.9.*", true),
            ("2.10.0", "==2.9.*", false),
            ("2.10.0", ">=2.4, <3", true),
            ("3.0", ">=2.4,<3", false),
            ("0.7.2", "~=0.7.1", true),
            ("0.8.0", "~=0.7.1", false),
            ("1.0", "?", true),
            ("", "==1.0", false),
        ] {
            assert_eq!(
                meets_specifier(version, versions),
                expected,
                "{version} {versions}"
            );
        }
    }
}
