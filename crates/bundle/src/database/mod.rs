//! Selects the compatibility database: the one in the binary, a newer one installed by `db update`,
//! or a folder named by the user.

pub mod archive;
pub mod folder;
pub mod store;

/// Whether the database of version `a` is newer than that of version `b`.
pub fn is_newer(a: &str, b: &str) -> bool {
    let numbers = |text: &str| {
        text.split('.')
            .map(|n| n.parse().unwrap_or(0))
            .collect::<Vec<u32>>()
    };
    numbers(a) > numbers(b)
}

#[cfg(test)]
mod tests {
    use super::is_newer;

    #[test]
    fn versions_are_days_and_not_texts() {
        assert!(is_newer("2026.12.1", "2026.11.20"));
        assert!(is_newer("2026.11.20.1", "2026.11.20"));
        assert!(!is_newer("2026.9.30", "2026.11.20"));
        assert!(!is_newer("2026.11.20", "2026.11.20"));
    }
}
