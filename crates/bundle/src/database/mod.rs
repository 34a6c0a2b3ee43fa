//! Selects the compatibility database: the one in the binary, a newer one installed by `db update`,
//! or a folder named by the user.

pub mod archive;
pub mod folder;
pub mod store;

/// Whether the database of version `a` is newer than that of version `b`.
pub fn is_newer(a: &str, b: &str) -> bool {
    numbers(a) > numbers(b)
}

fn numbers(version: &str) -> Vec<u32> {
    let parts = version.split('.');
    parts.map(|part| part.parse().unwrap_or(0)).collect()
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
