//! Matches names on a package manager's command line with packages.

use super::Versions;

/// Whether a name on the package manager's command line matches a package. Kernel packages are
/// requested in one version: `kernel-devel-5.14.0-570.el9.x86_64` with dnf and tdnf,
/// `kernel-default-devel=6.4.0-150600.23.65` with zypper. The latter is the kernel's release, to
/// which SUSE's package versions add a build number. A driver's version has no release of the
/// package.
pub fn is_asked_for(asked: &str, name: &str, version: &str) -> bool {
    let Some(rest) = asked.strip_prefix(name) else {
        return false;
    };
    if let Some(asked) = rest.strip_prefix('=') {
        return version
            .strip_prefix(asked)
            .is_some_and(|build| build.is_empty() || build.starts_with(['.', '-']));
    }
    rest.is_empty()
        || rest.strip_prefix('-').is_some_and(|rest| {
            rest.strip_prefix(version).is_some_and(|end| {
                end.is_empty()
                    || end
                        .strip_prefix('.')
                        .is_some_and(|word| !word.contains('.'))
            })
        })
}

/// Whether a name on the command line matches one of the packages.
pub fn is_among(asked: &str, packages: &Versions) -> bool {
    packages
        .iter()
        .any(|(name, version)| is_asked_for(asked, name, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_of_one_version_is_found_by_the_name_that_asks_for_it() {
        for (asked, name, version) in [
            ("dkms", "dkms", "3.0.11-1.el9"),
            (
                "kernel-devel-5.14.0-570.el9.x86_64",
                "kernel-devel",
                "5.14.0-570.el9",
            ),
            (
                "kernel-uek-devel-5.15.0-302.167.6.el9uek.x86_64",
                "kernel-uek-devel",
                "5.15.0-302.167.6.el9uek",
            ),
            (
                "kernel-devel-6.6.134.1-2.azl3",
                "kernel-devel",
                "6.6.134.1-2.azl3",
            ),
            (
                "kernel-default-devel=6.4.0-150600.23.65",
                "kernel-default-devel",
                "6.4.0-150600.23.65.1",
            ),
            (
                "kernel-default-devel=6.4.0-150600.23.65",
                "kernel-default-devel",
                "6.4.0-150600.23.65",
            ),
        ] {
            assert!(
                is_asked_for(asked, name, version),
                "{asked}: {name} {version}"
            );
        }
        for (asked, name, version) in [
            ("dkms", "dkms-nvidia", "1-1"),
            ("dkms-nvidia", "dkms", "nvidi-1"),
            (
                "kernel-devel-5.14.0-570.el9.x86_64",
                "kernel-devel",
                "5.14.0-503.el9",
            ),
            (
                "kernel-devel-5.14.0-570.12.1.el9.x86_64",
                "kernel-devel",
                "5.14.0-570",
            ),
            (
                "kernel-devel-5.14.0-570.el9.x86_64",
                "kernel",
                "5.14.0-570.el9",
            ),
            (
                "kernel-default-devel=6.4.0-150600.23.6",
                "kernel-default-devel",
                "6.4.0-150600.23.65.1",
            ),
            (
                "kernel-default-devel=6.4.0-150600.23.65",
                "kernel-default",
                "6.4.0-150600.23.65.1",
            ),
        ] {
            assert!(
                !is_asked_for(asked, name, version),
                "{asked}: {name} {version}"
            );
        }
    }
}
