//! The patterns in apt's preferences: a shell pattern or `/a regular expression/`, both
//! case-insensitive.

use super::super::glob::pattern_matches;

/// A pattern.
#[derive(Debug, Clone)]
pub(crate) enum Expression {
    /// A shell pattern, as for fnmatch(3).
    Pattern(String),
    /// A regular expression between slashes.
    Regex(regex_lite::Regex),
}

impl Expression {
    /// Parses a pattern. The error says what is not supported.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() >= 2 && text.starts_with('/') && text.ends_with('/') {
            return regex(&text[1..text.len() - 1]).map(Self::Regex);
        }
        match text.contains("[:") || text.contains("[.") || text.contains("[=") {
            true => Err(format!("the pattern {text} is not supported")),
            false => Ok(Self::Pattern(text.to_ascii_lowercase())),
        }
    }

    /// Whether a shell pattern matches the whole text, or a regular expression matches any part of
    /// it.
    pub(crate) fn matches(&self, text: &str) -> bool {
        match self {
            Self::Pattern(pattern) => {
                pattern_matches(pattern.as_bytes(), text.to_ascii_lowercase().as_bytes())
            }
            Self::Regex(regex) => regex.is_match(text),
        }
    }
}

/// POSIX extended syntax, as far as it means the same here. It does not backtrack, and the size is
/// limited.
fn regex(text: &str) -> Result<regex_lite::Regex, String> {
    let unsupported = || format!("the regular expression /{text}/ is not supported");
    let (mut in_brackets, mut chars) = (false, text.chars().peekable());
    while let Some(c) = chars.next() {
        let same = match (c, in_brackets) {
            // In brackets, POSIX takes a backslash literally and has named classes.
            ('\\' | '[' | '&' | '~', true) => false,
            ('\\', false) => chars
                .next()
                .is_some_and(|c| c.is_ascii_punctuation() && c != '<' && c != '>'),
            ('(', false) => chars.peek() != Some(&'?'),
            ('*' | '+' | '?' | '}', false) => !matches!(chars.peek(), Some('*' | '+' | '?' | '{')),
            (c, _) => !c.is_control() && c.is_ascii(),
        };
        if !same {
            return Err(unsupported());
        }
        match c {
            '[' => {
                in_brackets = true;
                chars.next_if_eq(&'^');
                if chars.peek() == Some(&']') {
                    return Err(unsupported());
                }
            }
            ']' => in_brackets = false,
            _ => {}
        }
    }
    let mut builder = regex_lite::RegexBuilder::new(text);
    builder
        .case_insensitive(true)
        .size_limit(1 << 20)
        .build()
        .map_err(|_| unsupported())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(expression: &str, text: &str) -> bool {
        Expression::parse(expression)
            .expect("supported")
            .matches(text)
    }

    #[test]
    fn patterns_match_the_whole_in_any_case() {
        assert!(matches("NVIDIA-*", "nvidia-SMI") && !matches("nvidia", "nvidia-smi"));
        assert!(Expression::parse("[[:alpha:]]").is_err());
    }

    #[test]
    fn regular_expressions_match_any_part() {
        assert!(matches("/^(lib)?nvidia-/", "libNVIDIA-gl"));
        assert!(matches("/smi|ml1/", "libnvidia-ml1"));
        assert!(matches("/^a[0-9.]+$/", "a1.2"));
        assert!(matches("/a\\.b/", "a.b") && !matches("/a\\.b/", "axb"));
        for odd in [
            "/a\\b/",
            "/[[:alpha:]]/",
            "/[a\\]]/",
            "/(/",
            "/(?i)a/",
            "/a**/",
            "/\\<a/",
            "/(a{1,200}){1,200}{1,200}/",
        ] {
            assert!(Expression::parse(odd).is_err(), "{odd}");
        }
    }
}
