//! Command lines as each engine reads them, those that are refused, and those of which only the
//! request is printed.

use super::{read, to};
use crate::common::{run, run_with_input};
use gpusetup::container::{Form, Gpus, is_device, translate, translate_words};

fn gpus(line: &str) -> Gpus {
    read(line).request.gpus
}

fn refused(line: &str) -> String {
    let e = translate(line, &[]).expect_err(line);
    format!(
        "{} {} {}",
        e.says,
        e.hint.unwrap_or_default(),
        e.attempt.unwrap_or_default()
    )
}

fn these(names: &[&str]) -> Gpus {
    Gpus::Devices(names.iter().map(|name| (*name).to_owned()).collect())
}

/// As docker/cli reads it (opts/gpus.go): each key once, and what follows a comma outside of quotes
/// is a number.
#[test]
fn dockers_value_is_read_as_docker_reads_it() {
    for (value, expected) in [
        ("all", Gpus::All),
        ("-1", Gpus::All),
        ("2", Gpus::Count(2)),
        ("count=2", Gpus::Count(2)),
        ("driver=nvidia,count=all", Gpus::All),
        ("capabilities=utility", Gpus::Count(1)),
        ("device=0", these(&["0"])),
        ("'\"device=0,3\"'", these(&["0", "3"])),
        ("'\"device=6, 7\"'", these(&["6", "7"])),
        (
            "'\"device=0:1,MIG-GPU-b8ea3855/1/0\"'",
            these(&["0:1", "MIG-GPU-b8ea3855/1/0"]),
        ),
        ("device=nvidia.com/gpu=mig1:0", these(&["1:0"])),
        ("device=none", Gpus::DriverOnly),
        ("device=1,0", these(&["1"])),
    ] {
        assert_eq!(
            gpus(&format!("docker run --gpus {value} x")),
            expected,
            "{value}"
        );
    }
    assert!(read("docker run --gpus device=1,0 x").notes[0].contains("only the GPU before it"));
    let both = read("docker run --gpus 'all,\"capabilities=compute,utility,gpu\"' x")
        .request
        .capabilities;
    assert_eq!(both, Some(vec!["compute".to_owned(), "utility".to_owned()]));
    for (value, says) in [
        ("device=0,device=1", "only once"),
        ("count=1,count=2", "only once"),
        ("all,capabilities=utility,capabilities=compute", "only once"),
        ("2,count=2", "only once"),
        ("all,all", "only once"),
        ("0,1", "several numbers"),
        ("2,all", "several numbers"),
        ("device=0,1", "both devices and a number"),
        ("device=0,1,2", "several numbers"),
        ("'2,\"device=0,1\"'", "both devices and a number"),
        ("driver=amd,count=1", "only NVIDIA's is translated"),
        (
            "driver=cdi,device=nvidia.com/gpu=0",
            "only NVIDIA's is translated",
        ),
        ("all,options=a=b", "driver options"),
        ("size=1", "no key"),
        ("''", "takes `all`"),
        ("al", "takes `all`"),
        ("device=x", "names no GPU"),
        ("device=01", "names no GPU"),
        ("4000000000", "more than any host has"),
        ("99999999999999999999", "takes `all`"),
        ("'\"device=0'", "quotes or lines"),
        ("'\"a\"b'", "quotes or lines"),
        ("'a\"b'", "quotes or lines"),
        ("“device=0”", "quotes of the keyboard"),
        ("all,capabilities=magic", "no capability"),
        ("0", "device=0"),
    ] {
        let says_really = refused(&format!("docker run --gpus {value} x"));
        assert!(says_really.contains(says), "{value}: {says_really}");
    }
    assert!(refused("docker run --gpus all --gpus 2 x").contains("twice"));
}

/// Podman makes a CDI device of each value (libpod/util_test.go, `Test_gpusToCDIDevices`).
#[test]
fn podmans_value_is_a_list_of_cdi_devices() {
    for (options, expected) in [
        ("--gpus all", Gpus::All),
        ("--gpus 0", these(&["0"])),
        ("--gpus 1", these(&["1"])),
        ("--gpus 2", these(&["2"])),
        ("--gpus 0,1", these(&["0", "1"])),
        ("--gpus 0 --gpus=1:0", these(&["0", "1:0"])),
        (
            "--gpus 3 --device nvidia.com/gpu=1,nvidia.com/gpu=2",
            these(&["1", "2", "3"]),
        ),
    ] {
        assert_eq!(
            gpus(&format!("podman run {options} x")),
            expected,
            "{options}"
        );
    }
    for value in ["device=0", "count=1", "' 1'", "none"] {
        assert!(
            refused(&format!("podman run --gpus {value} x")).contains("which does not exist"),
            "{value}"
        );
    }
    assert!(refused("podman run --gpus '' x").contains("asks for no GPU"));
    let text = to(Form::Cdi, "podman run --gpus 1 x").text;
    assert_eq!(
        text.as_deref(),
        Some("docker run --device nvidia.com/gpu=1 x")
    );
}

/// The options end as pflag ends them, by the options of the very program.
#[test]
fn the_image_is_found_as_the_program_finds_it() {
    for (line, printed) in [
        (
            "docker run --rm -it -eA=1 -itv /a:/b --env=C=3 -p 80:80 --gpus all i --gpus 2",
            "docker run --rm -it -eA=1 -itv /a:/b --env=C=3 -p 80:80 --gpus all i --gpus 2",
        ),
        (
            "docker run -i=false --rm=true --gpus 1 -- i -x",
            "docker run -i=false --rm=true --gpus 1 -- i -x",
        ),
        (
            "docker container create -iteNVIDIA_VISIBLE_DEVICES=0 -m 1g i",
            "docker container create --gpus device=0 -it -m 1g i",
        ),
        (
            "sudo -E NV_GPU='0 1' nvidia-docker run -d i",
            "sudo -E docker run --gpus '\"device=0,1\"' -d i",
        ),
        (
            "docker run --replace --rm --gpus all i",
            "docker run --replace --rm --gpus all i",
        ),
    ] {
        assert_eq!(
            to(Form::Docker, line).text.as_deref(),
            Some(printed),
            "{line}"
        );
    }
    // Podman's --replace has no value, so the image is --gpus' neighbour.
    assert!(refused("podman run --replace x --gpus all").contains("after the image"));
    assert!(refused("docker run --name --gpus all").contains("asks for no GPU"));
    let line = "NVIDIA_VISIBLE_DEVICES=1 docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES x";
    assert_eq!(gpus(line), these(&["1"]));
}

/// Finding: a variable's name, an image or a nested expansion became a part of the shell's line.
#[test]
fn a_line_that_is_not_literal_gets_the_request_alone() {
    for line in [
        "docker run -e 'A;touch X;B=1' --gpus all x",
        "docker run --gpus all -- --volume=/:/host evil/image",
        "docker run --gpus all /bin/sh",
        "docker run --gpus all 'a b'",
        "docker run --gpus all $IMAGE",
        "docker run --gpus all -v $PWD:/x x",
        "docker run --gpus all -v \"$(pwd)\":/x x",
        "docker run --gpus all -u `id -u` x",
        "docker run --gpus all x *.py",
        "docker run --gpus all x {a,b}",
        "docker run --gpus all -v ~/a:/a x",
        "docker run --gpus all x \"hello!\"",
        "docker run --gpus all x # and no more",
        "A=1 docker run --gpus all x",
        "docker run --gpus all",
    ] {
        let translated = read(line);
        assert!(translated.request_only.is_some(), "{line}");
        assert_eq!(
            translated.forms[0].text.as_deref(),
            Some("--gpus all"),
            "{line}"
        );
        let file = translated.forms[Form::Compose as usize]
            .text
            .as_ref()
            .expect("a file");
        assert!(
            ["    image: IMAGE\n", "    image: \"x\"\n"]
                .iter()
                .any(|image| file.contains(image)),
            "{line}: {file}"
        );
    }
    let ran = run(&[
        "container",
        "translate",
        "--to",
        "docker",
        "docker run --gpus 2 -v $PWD:/x x",
    ]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "--gpus 2\n"));
    assert!(
        ran.err
            .contains("only the options for GPUs are printed, because a shell expands"),
        "{}",
        ran.err
    );
}

#[test]
fn what_is_not_certain_is_refused_with_what_helps() {
    for (line, says) in [
        ("", "no command line"),
        ("make", "is not docker, nvidia-docker or podman"),
        ("nerdctl run --gpus all x", "is not docker"),
        ("apptainer exec --nv x.sif y", "is not docker"),
        ("./docker run --gpus all x", "is not docker"),
        ("$ docker run --gpus all x", "prompt"),
        ("# docker run --gpus all x", "no command line"),
        ("docker exec -it x bash", "run or create"),
        ("docker --context a run --gpus all x", "run or create"),
        ("docker run --gpus all x; reboot", "more than one command"),
        ("docker run --gpus all x > log", "more than one command"),
        ("docker run --gpus all x\nreboot", "second line"),
        ("docker run -d \\ \n --gpus all x", "last character"),
        ("docker run --gpus all x\r", "carriage return"),
        ("docker run \\\r\n --gpus all x", "tr -d"),
        ("docker run --gpus all x\u{200b}", "U+200B"),
        ("docker run --gpus 'all x", "without its end"),
        ("docker run --gpus all x \\", "without its end"),
        (
            "docker run --link \"$(echo ')' --gpus all $(touch X) ')\" img",
            "not certain",
        ),
        (
            "docker run -e $'a\\' $(touch X) b' --gpus all img",
            "not certain",
        ),
        ("docker run --gpus all \"$\\\n(touch X)\"", "not certain"),
        ("docker run --gpus $N x", "expands the value of --gpus"),
        (
            "NV_GPU=$N nvidia-docker run x",
            "expands the value of NV_GPU",
        ),
        (
            "docker run --runtime $R x",
            "expands the value of --runtime",
        ),
        ("docker run --runtime nvidia -e $X x", "variable's name"),
        ("docker run $OPTS --gpus all x", "may have options"),
        ("docker run --gpus 1 $OPTS --gpus 2 x", "may have options"),
        (
            "docker run -e NVIDIA_VISIBLE_DEVICES x",
            "write it: -e NVIDIA_VISIBLE_DEVICES=all",
        ),
        ("docker run --gpu all x", "spelled --gpus"),
        ("docker run -gpus all x", "spelled --gpus"),
        ("docker run –gpus all x", "keyboard"),
        ("docker run --gpus all -v", "has no value"),
        (
            "docker run --rm ubuntu ls",
            "docker run --gpus all --rm ubuntu ls",
        ),
        ("docker run x $Y", "docker run --gpus all IMAGE"),
        ("podman run x", "podman run --device nvidia.com/gpu=all x"),
        ("docker run -it x --runtime=nvidia", "after the image"),
        (
            "docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=void x",
            "asks for no GPU",
        ),
        ("'NV_GPU=0' nvidia-docker run x", "is not docker"),
    ] {
        assert!(refused(line).contains(says), "{line}: {}", refused(line));
    }
    let many: String = (0..300).map(|index| format!(",{index}")).collect();
    assert!(
        refused(&format!("docker run --gpus '\"device=0{many}\"' x"))
            .contains("more GPUs than any host")
    );
}

#[test]
fn files_and_long_texts_are_refused_in_a_sentence() {
    for words in [
        &["compose.yaml"][..],
        &["pod.json"],
        &["services:\n  a:\n    gpus: all\n"],
        &["apiVersion: v1\nkind: Pod\n"],
    ] {
        let ran = run(&[&["container", "translate"], words].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{words:?}");
        assert!(
            ran.err
                .contains("give the docker or podman command line of one container"),
            "{}",
            ran.err
        );
    }
    let long = "x".repeat(64 << 10);
    let ran = run_with_input(
        &["container", "translate", "-"],
        &format!("docker run --gpus all {long}"),
    );
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
    assert!(translate(&format!("docker run --gpus all {long}"), &[]).is_err());
    let words = ["docker", "run", "--gpus", "all", &long].map(str::to_owned);
    assert!(translate_words(&words, &[]).is_err());
    // As many words as fit are read at once.
    let full = format!("docker run --gpus all x {}", "-e ".repeat(21_000));
    assert!(translate(&full, &[Form::Docker]).is_ok());
}

/// nvidia-ctk names devices by their index and their whole UUID.
#[test]
fn cdi_has_no_devices_of_other_names() {
    for name in [
        "MIG-GPU-b8ea3855-276c-c9cb-b366-c6fa655957c5/1/0",
        "GPU-b8ea3855",
    ] {
        for form in [Form::Cdi, Form::Podman] {
            let written = to(form, &format!("docker run --gpus device={name} x"));
            assert!(
                written.text.is_none() && written.differences[0].contains("nvidia-ctk cdi list"),
                "{written:?}"
            );
        }
    }
    for word in [
        "",
        "-1",
        "+1",
        "0:",
        ":0",
        "GPU-",
        "gpu0",
        "GPU-x y",
        "MIG-",
        "$GPU",
        "all",
        "99999999999",
        "1:0:0",
    ] {
        assert!(!is_device(word), "{word:?}");
    }
}

/// Of several the last one counts, and another than NVIDIA's may keep the container apart from the
/// host.
#[test]
fn another_runtime_is_not_written_beside_nvidias() {
    for line in [
        "docker run --gpus all --runtime=runc x",
        "docker run --gpus all --runtime runsc --runtime=nvidia x",
    ] {
        let written = to(Form::Runtime, line);
        assert!(
            written.text.is_none() && written.differences[0].contains("one runtime"),
            "{written:?}"
        );
    }
    let line = "docker run --gpus all --runtime=runc x";
    assert_eq!(to(Form::Docker, line).text.as_deref(), Some(line));
}

#[test]
fn one_form_is_printed_alone() {
    let line = "NV_GPU=0,3 nvidia-docker run --rm nvidia/cuda nvidia-smi";
    let ran = run(&["container", "translate", "--to", "docker", line]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (
            0,
            "docker run --gpus '\"device=0,3\"' --rm nvidia/cuda nvidia-smi\n"
        )
    );
    // The words of a line, divided by the shell: all are literal.
    let words = [
        "container",
        "translate",
        "--to",
        "cdi",
        "--",
        "docker",
        "run",
        "--gpus",
        "device=0",
        "x",
        "a b",
        "$HOME",
        "#",
    ];
    assert_eq!(
        run(&words).out,
        "docker run --device nvidia.com/gpu=0 x 'a b' '$HOME' '#'\n"
    );
    let ran = run_with_input(
        &["container", "translate", "--to", "runtime", "-"],
        "docker run --gpus all x\n",
    );
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (
            0,
            "docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=all x\n"
        )
    );
    // Kubernetes takes numbers alone: what must be written there is marked.
    let ran = run(&[
        "container",
        "translate",
        "--to",
        "kubernetes",
        "docker run --gpus all x",
    ]);
    assert!(
        ran.code == 0 && ran.out.ends_with("nvidia.com/gpu: NUMBER\n"),
        "{}",
        ran.out
    );
    assert!(ran.err.contains("in place of NUMBER"), "{}", ran.err);
    let mig = "docker run --gpus device=0:1 x";
    let ran = run(&["container", "translate", "--to", "kubernetes", mig]);
    assert_eq!((ran.code, ran.out.as_str()), (4, ""));
    assert!(ran.err.contains("nvidia.com/mig-1g.5gb: 1"), "{}", ran.err);
    let ran = run(&[
        "container",
        "translate",
        "--json",
        "--to",
        "kubernetes",
        mig,
    ]);
    assert!(
        ran.code == 4 && ran.out.contains("\"text\": null"),
        "{}",
        ran.out
    );
    for form in [
        "nerdctl",
        "apptainer",
        "slurm",
        "compose-gpus",
        "compose-runtime",
    ] {
        assert_eq!(
            run(&["container", "translate", "--to", form, line]).code,
            2,
            "{form}"
        );
    }
}

/// Some shells take no comments: what is in them must not be a command either.
#[test]
fn everything_that_is_printed_can_be_pasted() {
    let ran = run(&[
        "container",
        "translate",
        "docker run --gpus '\"device=0,1\"' -v /a:/x x python 'a’;touch X;’ b.py'",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    insta::with_settings!({snapshot_path => ".", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("translated", ran.out);
    });
    for line in [
        "docker run --gpus 2 -e $X x",
        "podman run --gpus 0 x",
        "nvidia-docker run --env-file f x",
        "docker run -e NVIDIA_VISIBLE_DEVICES=none x",
        "docker run --gpus device=0:1 x",
    ] {
        let ran = run(&["container", "translate", line]);
        for comment in ran.out.lines().filter(|line| line.starts_with('#')) {
            assert!(
                !comment.contains([';', '&', '|', '`', '>', '<', '\'', '"', '\\'])
                    && comment.is_ascii(),
                "{comment}"
            );
        }
    }
}
