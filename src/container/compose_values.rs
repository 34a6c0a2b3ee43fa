//! What Compose makes of a value without quotes. It reads numbers and truth values as YAML 1.1 and 1.2 have them, and gives the
//! container what Go prints for them: 022 is 18, and 1.10 is 1.1.
//! <https://github.com/go-yaml/yaml/blob/v3/resolve.go>,
//! <https://github.com/compose-spec/compose-go/blob/main/types/mapping.go>

/// The text for a value that is written in this way without quotes.
pub fn unquoted(text: &str) -> String {
    match text {
        "True" | "TRUE" => "true".to_owned(),
        "False" | "FALSE" => "false".to_owned(),
        _ => number(text).unwrap_or_else(|| text.to_owned()),
    }
}

/// The text for a number; none if it is something else.
fn number(text: &str) -> Option<String> {
    if text.starts_with('.') {
        return float(text);
    }
    let plain = text.replace('_', "");
    let begins = text.starts_with(|c: char| c.is_ascii_digit() || c == '+' || c == '-');
    if begins { integer(&plain).or_else(|| float(&plain)) } else { None }
}

/// By its prefix, in the base 2, 8, 10 or 16.
fn integer(text: &str) -> Option<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    let is_digits = digits.chars().all(|c| c.is_digit(base));
    let number = i128::from_str_radix(digits, base).ok().filter(|_| is_digits)? * sign;
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&number).then(|| number.to_string())
}

/// As Go's `%v` prints it: with an exponent from a million on, and below 0.0001.
fn float(text: &str) -> Option<String> {
    let is_decimal = text.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c));
    let number: f64 = text.parse().ok().filter(|number: &f64| is_decimal && number.is_finite())?;
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    if (-4..6).contains(&exponent) {
        return Some(number.to_string());
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    Some(format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_compose() {
        for (text, value) in [
            ("022", "18"),
            ("0o17", "15"),
            ("0x1F", "31"),
            ("-0b11", "-3"),
            ("1_000", "1000"),
            ("+1", "1"),
            ("09", "9"),
            ("1.10", "1.1"),
            ("1e3", "1000"),
            (".5", "0.5"),
            ("5.", "5"),
            ("1e6", "1e+06"),
            ("1234567.5", "1.2345675e+06"),
            ("0.00001", "1e-05"),
            ("99999999999999999999", "1e+20"),
            ("18446744073709551615", "18446744073709551615"),
            ("True", "true"),
        ] {
            assert_eq!(unquoted(text), value, "{text}");
        }
    }

    #[test]
    fn other_words_stay_as_they_are() {
        for text in [
            "",
            "0",
            "80",
            "true",
            "yes",
            "12.4.1",
            "1:30",
            "_1",
            "e5",
            "0x",
            "08:00",
            "2020-01-02",
            "1e999",
            "-",
            "+",
            ".",
        ] {
            assert_eq!(unquoted(text), text);
        }
    }
}
