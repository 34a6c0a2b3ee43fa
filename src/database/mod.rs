//! Selects the compatibility database: the one in the binary, a newer one installed by `db update`, or a folder named by the
//! user.

pub mod archive;
mod embedded;
pub mod folder;
pub mod store;

pub use embedded::{VERSION, embedded, prepare, shared};

/// Whether the database of version `a` is newer than that of version `b`.
pub fn is_newer(a: &str, b: &str) -> bool {
    let numbers = |text: &str| text.split('.').map(|n| n.parse().unwrap_or(0)).collect::<Vec<u32>>();
    numbers(a) > numbers(b)
}

/// The age in days, on the day `today` (`2026-11-25`), of the database of this version; 0 if that is a later day.
pub fn age(version: &str, today: &str) -> u64 {
    let day = |text: &str| {
        let mut numbers = text.split(['.', '-']).map(|n| n.parse::<i16>().ok());
        let (year, month, day) = (numbers.next()??, numbers.next()??, numbers.next()??);
        jiff::civil::Date::new(year, month.try_into().ok()?, day.try_into().ok()?).ok()
    };
    let days =
        day(version).zip(day(today)).and_then(|(from, to)| from.until(to).ok()).map_or(0, |span| span.get_days());
    u64::try_from(days).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{age, is_newer};

    #[test]
    fn a_database_ages() {
        assert_eq!(age("2026.11.20", "2026-11-25"), 5);
        assert_eq!(age("2026.11.20.1", "2027-11-20"), 365);
        assert_eq!(age("2026.11.20", "2026-11-19"), 0);
        assert_eq!(age("my own", "2026-11-19"), 0);
    }

    #[test]
    fn versions_are_days_and_not_texts() {
        assert!(is_newer("2026.12.1", "2026.11.20"));
        assert!(is_newer("2026.11.20.1", "2026.11.20"));
        assert!(!is_newer("2026.9.30", "2026.11.20"));
        assert!(!is_newer("2026.11.20", "2026.11.20"));
    }
}
