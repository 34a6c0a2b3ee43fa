//! tdnf, Azure Linux's dnf. Where it keeps its lists is not known here, so what its repositories offer is not either.

use super::Unknown;
use super::manager::{ByHand, Manager};
use super::rpm::{CXX, LIST, LOCKS, RECORD, each_file, edit_grub, repositories};

/// How tdnf is called. It waits for others of its kind by itself.
pub static MANAGER: Manager = Manager {
    programs: &["/usr/bin/tdnf"],
    record: RECORD,
    record_file: None,
    each_file,
    repositories: repositories::OF_YUM,
    is_meant: repositories::is_meant,
    refresh: None,
    simulate_install: "tdnf -y --testonly install",
    install: "tdnf -y install",
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
    without_cache: |argv| argv,
    simulation: None,
    automatic: None,
    preferences: None,
    interruption: None,
    scripts: None,
    headers: None,
    // How it names the folders of its lists is not known here.
    offered_versions: |_, _, _| Err(Unknown::NotFetched),
    by_hand: ByHand {
        install: "tdnf install",
        reinstall: "tdnf install",
        cxx: CXX,
        globs_versions: false,
        remove_old_kernels: "tdnf autoremove",
        add_kernel_parameter: edit_grub,
    },
};
