//! The format of repository files that dnf, tdnf and zypper share.

use crate::ini::sections;
use crate::repositories::Repositories;

/// The location of dnf's and tdnf's repository files.
pub(crate) const OF_YUM: &[Repositories] = &[Repositories {
    path: "/etc/yum.repos.d",
    ending: Some(".repo"),
    read: lines,
}];

/// Whether a line contains a mark, ignoring case: Oracle's EPEL is `ol9_developer_EPEL`.
pub(crate) fn is_meant(line: &str, mark: &str) -> bool {
    line.to_ascii_lowercase()
        .contains(&mark.to_ascii_lowercase())
}

/// The enabled repositories of a file, each as `URL ID`. A repository is enabled by default.
pub(crate) fn lines(text: &str) -> Vec<String> {
    let sections = sections(text).into_iter();
    let enabled = sections.filter(|s| s.name != "main" && s.switch("enabled") != Some(false));
    enabled
        .map(|section| {
            let address = ["baseurl", "metalink", "mirrorlist"]
                .iter()
                .find_map(|key| section.value(key));
            let first = address
                .and_then(|address| address.lines().next())
                .unwrap_or_default();
            format!("{first} {}", section.name).trim_start().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rpm_repositories_are_enabled_unless_they_say_no() {
        let text = "[main]\nkeepcache=1\n[baseos]\nname=x\nmirrorlist=https://m.example/?arch=$basearch\ngpgcheck=1\n\
                    [crb]\nbaseurl=https://b.example\nenabled=0\n[cuda]\nenabled = 1\nbaseurl=https://c.example/rhel9\n";
        assert_eq!(
            lines(text),
            [
                "https://m.example/?arch=$basearch baseos",
                "https://c.example/rhel9 cuda"
            ]
        );
    }
}
