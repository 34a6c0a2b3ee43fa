//! `NVIDIA_REQUIRE_CUDA` and its like: what an image demands of the driver and the GPU before a container starts. The grammar is that
//! of NVIDIA's library for containers (libnvidia-container, src/cli/dsl.c): blanks divide alternatives, commas conditions that hold
//! together; a condition is a property, one of `= != < <= > >=`, and a value.

use super::judgement::Met;
use std::cmp::Ordering;
use std::fmt;

/// A condition: `driver>=470`.
pub struct Condition {
    property: &'static str,
    operator: &'static str,
    value: String,
}

/// What is known of a host and one of its GPUs.
#[derive(Clone, Default)]
pub struct Known {
    /// The newest CUDA series that the driver runs natively, `12.4`.
    pub cuda: Option<String>,
    /// `550.54.15`.
    pub driver: Option<String>,
    /// The compute capability, `8.0`.
    pub arch: Option<String>,
    /// The line of the GPU, as the driver calls it: `tesla`, `geforce`, …
    pub brand: Option<&'static str>,
}

const PROPERTIES: [&str; 4] = ["cuda", "driver", "arch", "brand"];

const OPERATORS: [&str; 6] = ["=", "!=", "<", "<=", ">", ">="];

/// The alternatives of a requirement, each a list of conditions; or why the container toolkit refuses the container for it.
pub fn read(text: &str) -> Result<Vec<Vec<Condition>>, String> {
    let alternatives = text.split(' ').filter(|part| !part.is_empty());
    let condition = |word: &str| {
        let bad = || format!("{word:?} is no condition: the container toolkit refuses it as an invalid expression");
        condition(word).ok_or_else(bad)
    };
    let conditions = |part: &str| part.split(',').filter(|word| !word.is_empty()).map(condition).collect();
    alternatives.map(conditions).collect()
}

fn condition(word: &str) -> Option<Condition> {
    let is_sign = |c: char| "<>=!".contains(c);
    let (name, rest) = word.split_at(word.find(is_sign)?);
    let (sign, value) = rest.split_at(rest.find(|c| !is_sign(c))?);
    let operator = OPERATORS.into_iter().find(|operator| *operator == sign)?;
    let property = PROPERTIES.into_iter().find(|property| property.eq_ignore_ascii_case(name))?;
    let is_number =
        value.bytes().all(|b| b.is_ascii_digit() || b == b'.') && value.starts_with(|c: char| c.is_ascii_digit());
    let fits = if property == "brand" { ["=", "!="].contains(&operator) } else { is_number };
    fits.then(|| Condition { property, operator, value: value.to_owned() })
}

impl Condition {
    fn met(&self, known: &Known) -> Met {
        let version = |have: &Option<String>| Some(compared(have.as_ref()?, &self.value));
        let order = match self.property {
            "cuda" => version(&known.cuda),
            "driver" => version(&known.driver),
            "arch" => version(&known.arch),
            _ => known.brand.map(|brand| brand.cmp(&self.value.to_ascii_lowercase())),
        };
        match order.map(|order| self.accepts(order)) {
            Some(true) => Met::Yes,
            Some(false) => Met::No,
            None => Met::Unknown,
        }
    }

    fn accepts(&self, order: Ordering) -> bool {
        match self.operator {
            "=" => order.is_eq(),
            "!=" => order.is_ne(),
            "<" => order.is_lt(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            _ => order.is_ge(),
        }
    }
}

/// Versions by their numbers; zeroes at the end count for nothing.
fn compared(a: &str, b: &str) -> Ordering {
    let numbers = |text: &str| {
        let mut all: Vec<u64> = text.split('.').map(|part| part.parse().unwrap_or(0)).collect();
        while all.last() == Some(&0) {
            all.pop();
        }
        all
    };
    numbers(a).cmp(&numbers(b))
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.property, self.operator, self.value)
    }
}

/// Whether a host meets one of the alternatives. No alternatives are met by every host.
pub fn met(alternatives: &[Vec<Condition>], known: &Known) -> Met {
    let all = |conditions: &Vec<Condition>| conditions.iter().map(|condition| condition.met(known)).max();
    alternatives.iter().map(|conditions| all(conditions).unwrap_or(Met::Yes)).min().unwrap_or(Met::Yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of an image with CUDA 11.2 (Triton 21.03), shortened nowhere.
    const CUDA_11_2: &str =
        "cuda>=11.2 brand=tesla,driver>=418,driver<419 brand=tesla,driver>=440,driver<441 driver>=450";

    fn host(cuda: &str, driver: &str, brand: Option<&'static str>) -> Known {
        Known { cuda: Some(cuda.into()), driver: Some(driver.into()), arch: Some("7.0".into()), brand }
    }

    fn meets(text: &str, known: &Known) -> Met {
        met(&read(text).unwrap_or_else(|e| panic!("{e}")), known)
    }

    #[test]
    fn blanks_are_or_and_commas_are_and() {
        assert_eq!(meets(CUDA_11_2, &host("11.2", "460.32.03", Some("geforce"))), Met::Yes);
        assert_eq!(meets(CUDA_11_2, &host("10.1", "418.226.00", Some("tesla"))), Met::Yes);
        assert_eq!(meets(CUDA_11_2, &host("10.1", "418.226.00", Some("geforce"))), Met::No);
        assert_eq!(meets(CUDA_11_2, &host("11.0", "450.51.06", Some("geforce"))), Met::Yes);
        assert_eq!(meets(CUDA_11_2, &host("10.2", "440.33.01", None)), Met::Unknown);
        assert_eq!(meets("cuda>=12.4,arch>=8.0", &host("12.4", "550.54.15", None)), Met::No);
        assert_eq!(meets("", &Known::default()), Met::Yes);
        assert_eq!(meets("cuda>=12.4", &Known::default()), Met::Unknown);
    }

    /// As dsl_compare_version does: zeroes at the end are nothing, and a longer version is a newer one.
    #[test]
    fn versions_are_compared_by_their_numbers() {
        let cases = [
            ("12.0", "=", "12", true),
            ("12.10", ">", "12.9", true),
            ("470.256.02", "<", "471", true),
            ("470.256.02", ">=", "470", true),
            ("12.4", "!=", "12.4.0", false),
            ("12.4", "<=", "12.4.1", true),
            ("550", ">", "550.0", false),
        ];
        for (have, operator, wanted, expected) in cases {
            let known = Known { driver: Some(have.to_owned()), ..Known::default() };
            let met = meets(&format!("driver{operator}{wanted}"), &known);
            assert_eq!(met, if expected { Met::Yes } else { Met::No }, "{have} {operator} {wanted}");
        }
    }

    #[test]
    fn what_the_toolkit_refuses_is_refused() {
        let refused = "cuda|cuda>=|>=12|cuda==12|cuda>=12.x|cuda=>12|os=linux|brand>tesla|cuda>=12 driver";
        for text in refused.split('|') {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(read("CUDA>=12.4").map(|all| all[0][0].to_string()), Ok("cuda>=12.4".to_owned()));
    }
}
