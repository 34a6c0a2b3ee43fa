//! apt's simulations, held packages and automatic marks.

use super::{stanza, without_cache};
use crate::abilities::{AutomaticMarks, Holds, Simulated, Simulation};
use crate::words;
use gpusetup_system::{Program, System};
use std::collections::BTreeSet;
use std::io;

/// `apt-get -s`.
pub(crate) const SIMULATION: Simulation = Simulation { read, held };

/// dpkg's selections, which unattended-upgrades respects, too.
pub(crate) const HOLDS: Holds = Holds {
    hold: "apt-mark -q hold",
    release: "apt-mark -q unhold",
    held,
    tool: None,
    kernels: &["linux-image-*", "linux-headers-*", "linux-modules-*"],
    // One that was removed keeps its configuration, and is in the list, too.
    list: "dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\\n' | sed -n 's/^installed //p'",
};

/// Stanzas of `Package`, `Architecture` and `Auto-Installed`.
pub(crate) const AUTOMATIC: AutomaticMarks = AutomaticMarks {
    file: "/var/lib/apt/extended_states",
    read: automatic,
    mark: "apt-mark -q auto",
};

/// Lines of `Inst NAME [VERSION] (VERSION REPOSITORY [ARCHITECTURE])` and `Remv NAME [VERSION]`,
/// among others.
fn read(text: &str) -> Simulated {
    let mut found = Simulated::default();
    for (verb, rest) in text.lines().filter_map(|line| line.split_once(' ')) {
        let Some(name) = rest.split_whitespace().next().map(str::to_owned) else {
            continue;
        };
        match verb {
            "Inst" => {
                let version = rest
                    .split_once(" (")
                    .and_then(|(_, after)| after.split_whitespace().next());
                found
                    .coming
                    .extend(version.map(|version| (name.clone(), version.to_owned())));
            }
            "Remv" | "Purg" => found.removed.push(name.clone()),
            _ => continue,
        }
        found.changed.push(name);
    }
    found
}

fn held(on: &System) -> io::Result<BTreeSet<String>> {
    // dpkg-query omits held packages that are not installed. A foreign architecture follows a
    // colon.
    let output = on.run(&Program::new(without_cache(words("apt-mark showhold"))))?;
    Ok(output
        .text
        .lines()
        .filter_map(|l| l.split(':').next())
        .map(|l| l.trim().to_owned())
        .collect())
}

fn automatic(text: &str) -> BTreeSet<String> {
    let stanzas = text.split("\n\n").map(str::as_bytes);
    let marked = stanzas.filter(|stanza| stanza::text(stanza, "Auto-Installed") == "1");
    marked
        .map(|stanza| stanza::text(stanza, "Package").into_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulation_says_what_would_come_and_go() {
        let text = "Reading package lists...\nInst a [1] (2 Debian:12 [amd64])\nRemv nvidia-driver-535 [535.1-0]\nPurg b [1]\n\
                    Inst c (3:4-5 Debian:12 [all])\nConf a (2 Debian:12)\n";
        let found = read(text);
        let coming = [("a", "2"), ("c", "3:4-5")];
        assert_eq!(
            found.coming,
            coming.map(|(n, v)| (n.to_owned(), v.to_owned())).into()
        );
        assert_eq!(found.removed, ["nvidia-driver-535", "b"]);
        assert_eq!(found.changed, ["a", "nvidia-driver-535", "b", "c"]);
        assert!(read("Inst Remv (1)\n").removed.is_empty());
    }

    #[test]
    fn what_apt_installed_by_itself_is_known() {
        assert!(automatic("").is_empty());
        let text = "Package: gcc-10\nArchitecture: amd64\nAuto-Installed: 1\n\nPackage: make\nArchitecture: amd64\n\
                    Auto-Installed: 0\n\nPackage: libx\nArchitecture: amd64\nAuto-Installed: 1\n";
        assert_eq!(
            automatic(text).into_iter().collect::<Vec<_>>(),
            ["gcc-10", "libx"]
        );
    }
}
