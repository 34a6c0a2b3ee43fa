//! Packages that are half installed, full disks, and repositories with their keys.

use super::*;

const OLD_KEY: &str = "AE09FE4BBD223A84B2CCFCE3F60F4B3D7FA2AF80";

#[test]
fn what_is_half_done_or_in_the_way() {
    assert_eq!(
        found(|e| e.facts.unfinished_packages = vec!["man-db".into()]),
        ["GS603 fail"]
    );
    let full = |e: &mut Seen| {
        e.facts
            .kernels
            .installed
            .iter_mut()
            .flat_map(|k| &mut k.initramfs)
            .for_each(|i| i.size = 80 << 20);
        let space = json!({"path": "/boot", "free_bytes": 60 << 20, "read_only": false, "no_exec": false, "file_system": 1});
        e.facts.space = vec![serde_json::from_value(space).expect("a space")];
    };
    assert_eq!(found(full), ["GS603 warn"]);
    let full_and_stale = |e: &mut Seen| {
        full(e);
        e.images.insert(KERNEL.into(), rival(&["nouveau"]));
    };
    assert_eq!(
        found(full_and_stale),
        ["GS603 fail", "GS201 fail < GS603"],
        "there is no space to rebuild it"
    );
    let paths = |e: &mut Seen| {
        e.library_paths.push((
            "/etc/profile.d/x.sh".into(),
            "LD_LIBRARY_PATH=/usr/local/cuda/lib64".into(),
        ));
    };
    assert_eq!(found(paths), ["GS704 warn"]);
    let new = |e: &mut Seen| {
        e.facts.gcc = Some("15.2.0".into());
        e.compiled.clear();
    };
    assert_eq!(
        found(|e| {
            new(e);
            e.dkms.clear()
        }),
        ["GS705 fail"]
    );
    let beside = |e: &mut Seen| {
        new(e);
        e.dkms.clear();
        e.host_compiler = Some((
            "/etc/profile.d/cuda.sh".into(),
            "NVCC_PREPEND_FLAGS='-ccbin g++-14'".into(),
        ));
    };
    assert_eq!(found(beside), [""; 0]);
    let unheard = |e: &mut Seen| {
        beside(e);
        e.host_compiler = Some((
            "/etc/profile.d/cuda.sh".into(),
            "NVCC_CCBIN=/usr/bin/g++-14".into(),
        ));
    };
    assert_eq!(
        found(unheard),
        ["GS705 fail"],
        "CUDA 12.8 does not know the variable"
    );
    let linked = |e: &mut Seen| {
        new(e);
        e.dkms.clear();
        let node = Node::Link {
            target: "/usr/bin/gcc-14".into(),
        };
        e.facts.paths.insert(
            "/usr/local/cuda-12.8/nvvm/bin/gcc".into(),
            PathState {
                node,
                modified: None,
            },
        );
    };
    assert_eq!(found(linked), [""; 0]);
}

#[test]
fn repositories_and_their_keys() {
    let with =
        |of: &'static str, signed_by: &'static str, keys: &'static [(&'static str, bool)]| {
            move |e: &mut Seen| e.apt = cuda_repository(of, signed_by, keys)
        };
    const KEYRING: &str = "/usr/share/keyrings/cuda-archive-keyring.gpg";
    let old = &[(OLD_KEY, true)];
    let refusing = |e: &mut Seen| {
        e.apt.refuses_sha1 = Some((
            "/usr/share/apt/default-sequoia.config".into(),
            "2026-02-01".into(),
        ));
    };
    assert_eq!(
        found(with("ubuntu2404", KEYRING, old)),
        ["GS404 fail"],
        "NO_PUBKEY"
    );
    assert_eq!(
        found(with("ubuntu2404", "", old)),
        ["GS404 warn"],
        "another trusted key may do"
    );
    assert_eq!(
        found(with(
            "ubuntu2404",
            KEYRING,
            &[(OLD_KEY, true), (NEW_KEY, true)]
        )),
        [""; 0],
        "gpgv takes SHA-1"
    );
    let refused = |e: &mut Seen| {
        with("ubuntu2404", KEYRING, &[(NEW_KEY, true)])(e);
        refusing(e);
    };
    assert_eq!(found(refused), ["GS404 fail"]);
    assert_eq!(found(refusing), [""; 0], "its key has a new self-signature");
    assert_eq!(
        found(with("debian12", KEYRING, &[(NEW_KEY, false)])),
        ["GS404 warn"],
        "of another system"
    );
    assert_eq!(
        found(with("ubuntu2404", KEYRING, &[("00", false)])),
        [""; 0],
        "a key that is not known is no fault"
    );
    let missing =
        |e: &mut Seen| e.apt.repositories[0].keys = Answer::Failed("the file is not there".into());
    assert_eq!(found(missing), ["GS404 fail"]);
    let unread =
        |e: &mut Seen| e.apt.repositories[0].keys = Answer::NotAsked("it is root's".into());
    assert_eq!(found(unread), [""; 0]);
    let twice = |signed_by: &'static str| {
        move |e: &mut Seen| {
            let mut twin = e.apt.repositories[0].clone();
            (twin.file, twin.signed_by) = (
                "/etc/apt/sources.list.d/archive.list".into(),
                signed_by.into(),
            );
            e.apt.repositories.push(twin);
        }
    };
    assert_eq!(
        found(twice("")),
        ["GS404 fail"],
        "apt refuses to read any list"
    );
    assert_eq!(
        found(twice(KEYRING)),
        [""; 0],
        "apt only warns of an identical duplicate"
    );
    assert_eq!(found(|e| e.apt = Apt::default()), [""; 0]);
}
