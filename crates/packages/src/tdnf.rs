//! tdnf, Azure Linux's dnf. The location of its lists is not known here, so its offers are not
//! known either.

use super::Unknown;
use super::manager::{ByHand, Manager, path_in, words};
use super::rpm::{CXX, LIST, LOCKS, RECORD, each_file, edit_grub, fetcher, repositories};
use std::path::Path;

/// How tdnf is called. It waits for its own lock automatically.
pub(crate) static MANAGER: Manager = Manager {
    programs: &["/usr/bin/tdnf"],
    initramfs: "initramfs-{release}.img",
    record: RECORD,
    record_file: None,
    each_file,
    repositories: repositories::OF_YUM,
    is_meant: repositories::is_meant,
    added: None,
    refresh: None,
    simulate_install: "tdnf -y --testonly install",
    install: "tdnf -y install",
    downgrade: "tdnf -y downgrade",
    simulate_remove: "tdnf -y --testonly remove",
    remove: "tdnf -y remove",
    list: &LIST,
    separator: "-",
    enable_stream: None,
    stream_state: None,
    locks: &LOCKS,
    process: None,
    // It caches the lists; --refresh discards those of an earlier bundle in this folder.
    from_folder: |folder| {
        vec![
            "--disablerepo=*".to_owned(),
            format!("--repofrompath=gpusetup,file://{}", folder.display()),
            "--enablerepo=gpusetup".to_owned(),
            "--setopt=gpusetup.gpgcheck=0".to_owned(),
            "--refresh".to_owned(),
        ]
    },
    folder_files: None,
    fetcher: fetcher(fetcher_argv, "install"),
    without_cache: |argv| argv,
    simulation: None,
    automatic: None,
    holds: None,
    preferences: None,
    interruption: None,
    scripts: None,
    headers: None,
    // The names of the folders of its lists are not known here.
    offered_versions: |_, _, _| Err(Unknown::NotFetched),
    dependencies: None,
    by_hand: ByHand {
        install: "tdnf install",
        upgrade: "tdnf update",
        remove: "tdnf remove",
        reinstall: "tdnf install",
        cxx: CXX,
        containerd: None,
        slurmd: None,
        venv: None,
        python_headers: "python3-devel",
        globs_versions: false,
        refresh: "tdnf makecache",
        owner: "rpm -qf",
        remove_old_kernels: "tdnf autoremove",
        add_kernel_parameter: edit_grub,
    },
};

fn fetcher_argv(work: &Path, release: &str) -> Vec<String> {
    let options = [
        format!("--installroot={}", path_in(work, "root")),
        format!("--releasever={release}"),
        "--setopt=reposdir=/etc/yum.repos.d".to_owned(),
        "--downloadonly".to_owned(),
        format!("--downloaddir={}", path_in(work, "archives")),
    ];
    words("tdnf -y").into_iter().chain(options).collect()
}
