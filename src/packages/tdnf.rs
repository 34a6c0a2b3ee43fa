//! tdnf, Azure Linux's dnf. Where it keeps its lists is not known here, so what its repositories offer is not either.

use super::commands::Commands;
use super::rpm::{LIST, LOCKS};

/// How tdnf is called. It waits for others of its kind by itself.
pub const COMMANDS: Commands = Commands {
    refresh: None,
    simulate_install: "tdnf -y --testonly install",
    install: "tdnf -y install",
    reinstall: "tdnf install",
    simulate_remove: "tdnf -y --testonly remove",
    remove: "tdnf -y remove",
    list: &LIST,
    separator: "-",
    enable_stream: None,
    locks: &LOCKS,
    process: None,
    // It keeps lists in its own cache, and forgets there what an earlier bundle had in this folder.
    from_folder: |folder| {
        vec![
            "--disablerepo=*".to_owned(),
            format!("--repofrompath=gpusetup,file://{}", folder.display()),
            "--enablerepo=gpusetup".to_owned(),
            "--setopt=gpusetup.gpgcheck=0".to_owned(),
            "--refresh".to_owned(),
        ]
    },
};
