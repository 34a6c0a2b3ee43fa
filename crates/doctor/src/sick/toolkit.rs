//! Toolkits, the paths of shells and of the loader, and cuDNN.

use super::*;
use gpusetup_host::{AddOnFiles, LibraryFile};

#[test]
fn toolkits_and_shells() {
    assert_eq!(
        found(|e| {
            e.facts.paths.clear();
            e.facts.paths.insert(
                "/usr/local/cuda".into(),
                PathState {
                    node: Node::Absent,
                    modified: None,
                },
            );
            e.default_toolkit = None;
        }),
        ["GS701 fail"]
    );
    assert_eq!(
        found(|e| e.default_toolkit = None),
        ["GS701 fail"],
        "the link leads to what is gone"
    );
    assert_eq!(
        found(|e| e.shells = Answer::Is(Shells::default())),
        ["GS701 fail"]
    );
    let libraries_alone = |e: &mut Seen| {
        e.shells = Answer::Is(Shells::default());
        e.nvcc.clear();
        let toolkit = &mut e.facts.toolkits[0];
        (toolkit.has_nvcc, toolkit.components) = (false, Some(vec!["libcublas".into()]));
    };
    assert_eq!(found(libraries_alone), [""; 0], "no compiler was wanted");
    let two = Shells {
        login: Some("/usr/local/cuda/bin/nvcc".into()),
        plain: Some("/usr/bin/nvcc".into()),
        image: None,
    };
    assert_eq!(found(|e| e.shells = Answer::Is(two)), ["GS701 warn"]);
    let bashrc = |e: &mut Seen| {
        let clause = "/root/.bashrc (line 1) puts CUDA 11.8 before the default toolkit".to_owned();
        e.other_toolkits = vec![("/root/.bashrc".into(), clause)];
    };
    assert_eq!(found(bashrc), ["GS701 warn"]);
    let of_an_image = Shells {
        image: Some("/usr/local/cuda/bin/nvcc".into()),
        ..Shells::default()
    };
    assert_eq!(
        found(|e| e.shells = Answer::Is(of_an_image)),
        [""; 0],
        "no login shell in a container"
    );
    let nvcc = |answer| {
        move |e: &mut Seen| {
            e.nvcc.insert("/usr/local/cuda-12.8".into(), answer);
        }
    };
    let compile = |said: &'static str| {
        move |e: &mut Seen| {
            e.compiled
                .insert("/usr/local/cuda-12.8".into(), Answer::Failed(said.into()));
        }
    };
    assert_eq!(
        found(compile("gcc: fatal error: cannot execute 'cc1plus'")),
        ["GS705 fail"]
    );
    assert_eq!(
        found(compile(
            "#error -- unsupported GNU version! gcc versions later than 14"
        )),
        ["GS705 fail"]
    );
    assert_eq!(
        found(compile(
            "error: exception specification is incompatible with that of"
        )),
        ["GS705 fail"]
    );
    assert_eq!(
        found(compile(
            "nvcc fatal   : Unsupported gpu architecture 'compute_20'"
        )),
        ["GS709 fail"]
    );
    assert_eq!(found(compile("Segmentation fault")), ["GS709 fail"]);
    assert_eq!(
        found(nvcc(Answer::Failed("exit status 127".into()))),
        ["GS709 fail"]
    );
    assert_eq!(
        found(nvcc(Answer::Is("12.4".parse().expect("a version")))),
        ["GS709 fail"]
    );
    let stubs = |e: &mut Seen| {
        e.cached[1].directory = "/usr/local/cuda-12.8/targets/x86_64-linux/lib/stubs".into();
    };
    assert_eq!(found(stubs), ["GS507 fail"]);
    let compat = |e: &mut Seen| {
        e.cached[1].directory = "/usr/local/cuda-13.0/compat".into();
        e.cached[1].path = "/usr/local/cuda-13.0/compat/libcuda.so.1".into();
    };
    assert_eq!(found(compat), ["GS507 fail"]);
    let fitting = |e: &mut Seen| {
        compat(e);
        e.cached[1].libcuda = "590.44.01".parse().ok();
    };
    assert_eq!(
        found(fitting),
        [""; 0],
        "as NVIDIA means it for data centres"
    );
    let profile = (
        "/etc/profile.d/x.sh".into(),
        "export LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs".to_owned(),
    );
    assert_eq!(found(|e| e.library_paths.push(profile)), ["GS507 fail"]);
}

#[test]
fn cudnn_links_cache_and_winner() {
    let files = |e: &mut Seen| std::mem::take(&mut e.facts.cudnn[0].files);
    assert_eq!(
        found(|e| e.facts.cudnn[0].files.retain(|f| f.link.is_none())),
        ["GS702 fail"],
        "no link of the library's SONAME"
    );
    let broken = |e: &mut Seen| e.facts.cudnn[0].files[0].soname = None;
    let chain = |e: &mut Seen| {
        e.facts.cudnn[0].files.remove(0);
        let dev = json!({"name": "libcudnn.so", "link": "libcudnn.so.9", "soname": null, "size": 0, "sha256": null});
        e.facts.cudnn[0]
            .files
            .push(serde_json::from_value(dev).expect("a link"));
    };
    let mut evidence = sound();
    chain(&mut evidence);
    let report = examined(evidence);
    let cure = report
        .first()
        .and_then(|f| f.remediation.as_ref())
        .expect("a cure");
    assert_eq!(
        cure.commands[0],
        format!("sudo ln -sfn libcudnn.so.9.10.2 {LIB}/libcudnn.so.9"),
        "one link fixes both"
    );
    assert_eq!(found(broken), ["GS702 fail"]);
    let copy = |e: &mut Seen| {
        let copies = files(e).into_iter().map(|f| LibraryFile {
            link: None,
            sha256: Some("00".into()),
            ..f
        });
        e.facts.cudnn[0].files = copies.collect();
    };
    assert_eq!(found(copy), ["GS702 fail"]);
    assert_eq!(
        found(|e| e.cached.retain(|c| c.soname != "libcudnn.so.9")),
        ["GS708 fail"]
    );
    assert_eq!(
        found(|e| e.loader_directories.retain(|d| d != Path::new(LIB))),
        ["GS708 fail"]
    );
    assert_eq!(found(|e| e.facts.loader_cache = None), ["GS708 fail"]);
    let gone = |e: &mut Seen| {
        e.cached[0].exists = false;
        e.facts.cudnn[0].files.remove(0);
        e.cudnn.insert(
            "libcudnn.so.9".into(),
            Answer::Failed("cannot open shared object file".into()),
        );
    };
    assert_eq!(
        found(gone),
        ["GS702 fail", "GS708 fail < GS702", "GS703 fail < GS702"]
    );
    let loaded = |version: &'static str| {
        move |e: &mut Seen| {
            e.cudnn.insert(
                "libcudnn.so.9".into(),
                Answer::Is(version.parse().expect("a version")),
            );
        }
    };
    assert_eq!(
        found(loaded("9.1.0")),
        ["GS703 fail"],
        "older than what is compiled against"
    );
    assert_eq!(found(loaded("9.20.0")), ["GS703 warn"]);
    let copies_and_older = |e: &mut Seen| {
        copy(e);
        loaded("9.1.0")(e);
    };
    assert_eq!(
        found(copies_and_older),
        ["GS702 fail", "GS703 fail"],
        "whole links would not change which is found"
    );
    let no_shell_and_no_cache = |e: &mut Seen| {
        e.shells = Answer::Is(Shells::default());
        e.facts.loader_cache = None;
    };
    assert_eq!(found(no_shell_and_no_cache), ["GS701 fail", "GS708 fail"]);
    // A second toolkit has its own cuDNN, in a folder that no search path names.
    let beside = |e: &mut Seen| {
        let mut other: AddOnFiles = e.facts.cudnn[0].clone();
        other.directory = "/usr/local/cuda-12.4/lib64".into();
        e.facts.cudnn.push(other);
    };
    assert_eq!(found(beside), [""; 0]);
}
