//! Days as texts.

/// The age in days, on the day `today` (`2026-11-25`), of the database of this version; 0 if that
/// is a later day.
pub fn database_age(version: &str, today: &str) -> u64 {
    let day = |text: &str| {
        let mut numbers = text.split(['.', '-']).map(|n| n.parse::<i16>().ok());
        let (year, month, day) = (numbers.next()??, numbers.next()??, numbers.next()??);
        jiff::civil::Date::new(year, month.try_into().ok()?, day.try_into().ok()?).ok()
    };
    let days = day(version)
        .zip(day(today))
        .and_then(|(from, to)| from.until(to).ok())
        .map_or(0, |span| span.get_days());
    u64::try_from(days).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::database_age;

    #[test]
    fn a_database_ages() {
        assert_eq!(database_age("2026.11.20", "2026-11-25"), 5);
        assert_eq!(database_age("2026.11.20.1", "2027-11-20"), 365);
        assert_eq!(database_age("2026.11.20", "2026-11-19"), 0);
        assert_eq!(database_age("my own", "2026-11-19"), 0);
    }
}
