//! `NVIDIA_REQUIRE_CUDA` and its like: what an image demands of the driver and the GPU before a container starts. The grammar is that
//! of NVIDIA's library for containers (libnvidia-container, src/cli/dsl.c): blanks divide alternatives, commas conditions that hold
//! together; a condition is a property, one of `= != < <= > >=`, and a value.

use std::cmp::Ordering;
use std::fmt;

/// A property of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Property {
    /// The newest CUDA series that the driver runs natively.
    Cuda,
    /// The version of the driver.
    Driver,
    /// The compute capability of the GPU.
    Arch,
    /// The line of the GPU, as the driver calls it: `tesla`, `geforce`, …
    Brand,
}

/// A condition: `driver>=470`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// What is compared.
    pub property: Property,
    /// Which results of the comparison are accepted.
    operator: &'static str,
    /// What it is compared with.
    pub value: String,
}

/// A part of a requirement that is no condition. The container toolkit refuses the container for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no condition: the container toolkit refuses it as an invalid expression")]
pub struct NoCondition(pub String);

/// What is known of a host and one of its GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// The CUDA series of the driver, `12.4`.
    pub cuda: Option<String>,
    /// The driver, `550.54.15`.
    pub driver: Option<String>,
    /// The compute capability, `8.0`.
    pub arch: Option<String>,
    /// The brand that the driver reports for the GPU.
    pub brand: Option<&'static str>,
}

/// Whether a condition is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// That depends on what is not known.
    Unknown,
}

/// The properties in their order, with their names.
const PROPERTIES: [(Property, &str); 4] =
    [(Property::Cuda, "cuda"), (Property::Driver, "driver"), (Property::Arch, "arch"), (Property::Brand, "brand")];

const OPERATORS: [&str; 6] = ["=", "!=", "<", "<=", ">", ">="];

/// The alternatives of a requirement, each a list of conditions.
///
/// # Errors
///
/// If a part of it is no condition.
pub fn read(text: &str) -> Result<Vec<Vec<Condition>>, NoCondition> {
    let alternatives = text.split(' ').filter(|part| !part.is_empty());
    let conditions = |part: &str| part.split(',').filter(|word| !word.is_empty()).map(condition).collect();
    alternatives.map(conditions).collect()
}

fn condition(word: &str) -> Result<Condition, NoCondition> {
    let bad = || NoCondition(word.to_owned());
    let is_sign = |c: char| "<>=!".contains(c);
    let at = word.find(is_sign).ok_or_else(bad)?;
    let (name, rest) = word.split_at(at);
    let end = rest.find(|c| !is_sign(c)).ok_or_else(bad)?;
    let operator = OPERATORS.into_iter().find(|operator| *operator == &rest[..end]).ok_or_else(bad)?;
    let named = |(_, known): &(Property, &str)| name.eq_ignore_ascii_case(known);
    let (property, _) = PROPERTIES.into_iter().find(named).ok_or_else(bad)?;
    let value = rest[end..].to_owned();
    let is_number =
        value.bytes().all(|b| b.is_ascii_digit() || b == b'.') && value.starts_with(|c: char| c.is_ascii_digit());
    let fits = if property == Property::Brand { ["=", "!="].contains(&operator) } else { is_number };
    if fits { Ok(Condition { property, operator, value }) } else { Err(bad()) }
}

impl Condition {
    /// Whether a host meets it.
    pub fn met(&self, known: &Known) -> Met {
        let version = |have: &Option<String>| Some(self.accepts(compared(have.as_ref()?, &self.value)));
        let is_met = match self.property {
            Property::Cuda => version(&known.cuda),
            Property::Driver => version(&known.driver),
            Property::Arch => version(&known.arch),
            Property::Brand => {
                known.brand.map(|brand| brand.eq_ignore_ascii_case(&self.value) == (self.operator == "="))
            }
        };
        is_met.map_or(Met::Unknown, of_bool)
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

fn of_bool(is_met: bool) -> Met {
    if is_met { Met::Yes } else { Met::No }
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
        let (_, name) = PROPERTIES[self.property as usize];
        write!(f, "{name}{}{}", self.operator, self.value)
    }
}

/// Whether a host meets one of the alternatives. No alternatives are met by every host.
pub fn met(alternatives: &[Vec<Condition>], known: &Known) -> Met {
    let all = |conditions: &Vec<Condition>| {
        let results: Vec<_> = conditions.iter().map(|condition| condition.met(known)).collect();
        match () {
            () if results.contains(&Met::No) => Met::No,
            () if results.contains(&Met::Unknown) => Met::Unknown,
            () => Met::Yes,
        }
    };
    let results: Vec<_> = alternatives.iter().map(all).collect();
    match () {
        () if results.is_empty() || results.contains(&Met::Yes) => Met::Yes,
        () if results.contains(&Met::Unknown) => Met::Unknown,
        () => Met::No,
    }
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
        met(&read(text).expect("conditions"), known)
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
            assert_eq!(
                meets(&format!("driver{operator}{wanted}"), &known),
                of_bool(expected),
                "{have} {operator} {wanted}"
            );
        }
    }

    #[test]
    fn what_the_toolkit_refuses_is_refused() {
        for text in [
            "cuda",
            "cuda>=",
            ">=12",
            "cuda==12",
            "cuda>=12.x",
            "cuda=>12",
            "os=linux",
            "brand>tesla",
            "cuda>=12 driver",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(read("CUDA>=12.4").map(|all| all[0][0].to_string()).as_deref(), Ok("cuda>=12.4"));
    }
}
