//! Command lines of each engine: what one has and another lacks, and those that are refused.

use super::to;
use crate::common::run;
use gpusetup::container::{Form, read};

/// Docker takes a short name for one of Docker Hub. Podman may have no registry to search.
#[test]
fn podman_gets_names_of_images_with_their_registry() {
    for (image, whole) in [
        ("ubuntu:24.04", "docker.io/library/ubuntu:24.04"),
        ("nvidia/cuda:12.9.0-base", "docker.io/nvidia/cuda:12.9.0-base"),
        ("nvcr.io/nvidia/pytorch", "nvcr.io/nvidia/pytorch"),
        ("localhost:5000/x", "localhost:5000/x"),
        ("localhost/x", "localhost/x"),
        ("$IMAGE", "$IMAGE"),
    ] {
        let written = to(Form::Podman, &format!("docker run --gpus all {image} true"));
        assert_eq!(written.text, Some(format!("podman run --device nvidia.com/gpu=all {whole} true")));
    }
    let podmans = to(Form::Podman, "podman run --gpus all ubuntu");
    assert_eq!(podmans.text.as_deref(), Some("podman run --device nvidia.com/gpu=all ubuntu"));
}

/// `apptainer exec` and srun run a command in place of the image's entrypoint, `apptainer run` behind it.
#[test]
fn an_entrypoint_has_its_place_in_command_lines() {
    for (line, form, text) in [
        (
            "docker run --gpus all --entrypoint /bin/sh ubuntu:22.04 -c 'nvidia-smi; date'",
            Form::Apptainer,
            "apptainer exec --nv docker://ubuntu:22.04 /bin/sh -c 'nvidia-smi; date'",
        ),
        ("docker run --gpus all --entrypoint='' x ls", Form::Apptainer, "apptainer exec --nv docker://x ls"),
        ("docker run --gpus all --entrypoint=$SHELL x -l", Form::Apptainer, "apptainer exec --nv docker://x $SHELL -l"),
        (
            "docker run --gpus 2 --entrypoint python x/y train.py",
            Form::Slurm,
            "srun --nodes=1 --gpus=2 --container-image=x/y python train.py",
        ),
        ("apptainer exec --nv docker://x python3 y", Form::Docker, "docker run --gpus all --entrypoint python3 x y"),
        ("apptainer run --nv docker://x y", Form::Docker, "docker run --gpus all x y"),
    ] {
        let written = to(form, line);
        assert_eq!((written.text.as_deref(), written.differences.as_slice()), (Some(text), [].as_slice()), "{line}");
    }
    for form in [Form::Apptainer, Form::Slurm] {
        let written = to(form, "docker run --gpus 1 --entrypoint '' x");
        assert!(written.text.is_none(), "{written:?}");
        assert!(written.differences.iter().any(|text| text.contains("none is given")), "{written:?}");
    }
    let notes = to(Form::Slurm, "docker run --gpus 1 x python y").notes;
    assert!(notes[0].contains("--container-entrypoint"), "{notes:?}");
}

/// The shell replaces the same in the image for pyxis, which divides the registry from it by `#`.
#[test]
fn slurm_gets_the_variables_of_an_image() {
    for (image, option, is_said) in [
        ("ghcr.io/x/y:$TAG", "ghcr.io#x/y:$TAG", false),
        ("\"ghcr.io/x/y:$TAG\"", "\"ghcr.io#x/y:$TAG\"", false),
        ("nvcr.io/nvidia/pytorch:${VER:-24.01}-py3", "nvcr.io#nvidia/pytorch:${VER:-24.01}-py3", false),
        ("\"$IMAGE\"", "\"$IMAGE\"", true),
        ("${REGISTRY:-nvcr.io}/x/y", "${REGISTRY:-nvcr.io}/x/y", true),
    ] {
        let written = to(Form::Slurm, &format!("docker run --gpus 1 {image} nvidia-smi"));
        assert_eq!(written.text, Some(format!("srun --gpus=1 --container-image={option} nvidia-smi")));
        assert_eq!(written.notes.iter().any(|text| text.contains("begins with a registry")), is_said, "{image}");
    }
}

#[test]
fn options_that_a_program_lacks_are_left_out_and_named() {
    let line = "docker run --gpus all --link db:db --name a x";
    for form in [Form::Podman, Form::Nerdctl] {
        let written = to(form, line);
        assert!(!written.text.expect("a command line").contains("--link"), "{form}");
        assert!(written.differences[0].contains("has no such option: --link"), "{:?}", written.differences);
    }
    assert!(to(Form::Runtime, line).text.expect("a command line").contains("--link db:db"));
    let podmans = "podman run --device nvidia.com/gpu=all --userns keep-id --replace --userns=host x";
    let written = to(Form::Docker, podmans);
    assert_eq!(written.text.as_deref(), Some("docker run --gpus all --userns=host x"));
    assert_eq!(written.differences, ["left out, because docker has no such option: --userns=keep-id, --replace"]);
    assert!(to(Form::Podman, podmans).differences.is_empty());
    let written =
        to(Form::Docker, "podman run --device nvidia.com/gpu=all --pod p --uidmap 0:1:2 --tz=UTC --timeout 9 x");
    assert_eq!(written.text.as_deref(), Some("docker run --gpus all x"));
    let written = to(Form::Nerdctl, "podman run --device nvidia.com/gpu=all --umask 022 --pod p x");
    assert_eq!(written.text.as_deref(), Some("nerdctl run --gpus all --umask 022 x"));
    // Values that only Podman knows.
    let podmans = "podman run --device nvidia.com/gpu=all --group-add keep-groups --pull newer -v /a:/b:ro,U \
                   --network pasta --security-opt unmask=ALL --volumes-from y:z x";
    let written = to(Form::Docker, podmans);
    assert_eq!(written.text.as_deref(), Some("docker run --gpus all -v /a:/b:ro --volumes-from y:z x"));
    assert_eq!(
        written.differences,
        [
            "left out, because docker has no such option: --group-add=keep-groups, --pull=newer, U in -v /a:/b:ro,U, --network=pasta, --security-opt=unmask=ALL"
        ]
    );
    assert_eq!(to(Form::Podman, podmans).text.as_deref(), Some(podmans));
    // Podman takes a list, the others its first word.
    let podmans = r#"podman run --device nvidia.com/gpu=all --entrypoint '["python3", "-m"]' x http.server"#;
    let written = to(Form::Docker, podmans);
    assert_eq!(written.text.as_deref(), Some("docker run --gpus all --entrypoint python3 x -m http.server"));
    let file = to(Form::Compose, podmans).text.expect("a file");
    assert!(file.contains("entrypoint: [python3]\n") && file.contains("command: [\"-m\", http.server]\n"), "{file}");
}

/// Podman reads its own options behind `run`, too, and takes a runtime by its path.
#[test]
fn podmans_own_options_behind_run_are_left_out_and_named() {
    let podmans = "podman run --hooks-dir=/etc/h --syslog -e NVIDIA_VISIBLE_DEVICES=0 --log-level debug x nvidia-smi";
    for (form, text) in [
        (Form::Docker, "docker run --gpus device=0 x nvidia-smi"),
        (Form::Nerdctl, "nerdctl run --gpus device=0 x nvidia-smi"),
        (Form::Runtime, "docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=0 x nvidia-smi"),
    ] {
        let written = to(form, podmans);
        assert_eq!(written.text.as_deref(), Some(text));
        assert_eq!(
            written.differences,
            ["left out, because they are options of another program: --hooks-dir=/etc/h --syslog --log-level debug"]
        );
    }
    let same = to(Form::Podman, podmans).text.expect("a command line");
    assert!(same.starts_with("podman run --hooks-dir=/etc/h --syslog --device nvidia.com/gpu=0"), "{same}");
    let ran = run(&["container", "translate", "--to", "docker", podmans]);
    assert!(!ran.err.contains("only if nvidia is the engine's default runtime"), "{}", ran.err);
    let by_path = "podman run --runtime /usr/bin/nvidia-container-runtime -e NVIDIA_VISIBLE_DEVICES=0 x";
    let ran = run(&["container", "translate", "--to", "docker", by_path]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "docker run --gpus device=0 x\n"));
    assert!(!ran.err.contains("default runtime"), "{}", ran.err);
    assert_eq!(to(Form::Podman, by_path).text.as_deref(), Some("podman run --device nvidia.com/gpu=0 x"));
    // Docker knows other runtimes only by their names in its configuration.
    let other = "podman run --runtime=crun --device nvidia.com/gpu=all x";
    let written = to(Form::Docker, other);
    assert_eq!(written.text.as_deref(), Some("docker run --gpus all x"));
    assert_eq!(written.differences, ["left out, because docker has no such option: --runtime=crun"]);
    assert_eq!(to(Form::Podman, other).text.as_deref(), Some(other));
}

/// nvidia-ctk names devices by their index and their whole UUID.
#[test]
fn cdi_has_no_devices_of_other_names() {
    for name in ["MIG-GPU-b8ea3855-276c-c9cb-b366-c6fa655957c5/1/0", "GPU-b8ea3855"] {
        for form in [Form::Cdi, Form::Podman] {
            let written = to(form, &format!("docker run --gpus device={name} x"));
            assert!(written.text.is_none() && written.differences[0].contains("nvidia-ctk cdi list"), "{written:?}");
        }
    }
}

/// Some that give no container a GPU, though they look so.
#[test]
fn command_lines_without_gpus_get_a_command_that_has_some() {
    let lines = [
        ("docker run --rm ubuntu nvidia-smi", "asks for no GPU", "docker run --gpus all --rm ubuntu nvidia-smi\n"),
        // https://github.com/NVIDIA/nvidia-docker/issues/1000
        ("NV_GPU=0 docker run --rm nvidia/cuda-ppc64le nvidia-smi", "asks for no GPU", "docker run --gpus all --rm"),
        // 33725124041
        (
            "docker run -it --rm mfast --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=0 -v /a:/b",
            "behind the image mfast",
            "docker run -it --rm --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=0 -v /a:/b mfast\n",
        ),
        // 28479435755
        (
            "docker run -it segmentcacs --gpus device=0 nvidia/cuda",
            "behind the image",
            "docker run -it --gpus device=0 segmentcacs nvidia/cuda\n",
        ),
        ("docker run --gpus 0 x nvidia-smi", "index 0: --gpus device=0", "docker run --gpus device=0 x nvidia-smi\n"),
        ("docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=void x", "gets none", "docker run --gpus all"),
        ("docker run -e CUDA_VISIBLE_DEVICES=0 x", "CUDA_VISIBLE_DEVICES only hides", "--gpus all"),
        ("docker run --device=/dev/nvidia0 x", "without the driver's libraries", "--gpus all"),
        ("podman run x", "asks for no GPU", "podman run --device nvidia.com/gpu=all x"),
        ("apptainer exec x.sif python", "--nv", "apptainer exec --nv x.sif python\n"),
        // https://github.com/apptainer/apptainer/issues/846
        ("apptainer exec x.sif --nv python a.py", "behind the image x.sif", "apptainer exec --nv x.sif python a.py\n"),
        (
            "singularity exec --writable x.sif --nv -B /a python --nv",
            "behind the image x.sif",
            "singularity exec --writable --nv -B /a x.sif python --nv\n",
        ),
        ("singularity run x.sif", "--nv", "singularity run --nv x.sif\n"),
        ("docker run --gpu all ubuntu ls", "--gpu is no option", "docker run --gpus all ubuntu ls\n"),
        (
            "docker run $DOCKER_OPTS --gpus all ubuntu",
            "may be options or the image",
            "gpusetup container translate -- docker run $DOCKER_OPTS --gpus all ubuntu\n",
        ),
    ];
    for (line, says, attempt) in lines {
        let ran = run(&["container", "translate", line]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{line}");
        assert!(ran.err.contains(says) && ran.err.contains(attempt), "{line}\n{}", ran.err);
    }
}

/// Scripts have options in a variable before the image: which word is the image is not known then.
#[test]
fn a_variable_that_may_be_options_is_named() {
    for (words, is_said) in [
        ("$OPTS nvidia/cuda:12.2.0-base nvidia-smi", true),
        ("${ARGS} -v $PWD:/w pytorch/pytorch python a.py", true),
        ("$PARAMS $NAME $@", true),
        ("$IMAGE nvidia-smi", false),
        ("$IMAGE /bin/sh", false),
        ("$IMAGE ./run.sh", false),
        ("\"$IMAGE\" --model a/b", false),
        ("ghcr.io/x/y:$TAG a/b", false),
    ] {
        let ran = run(&["container", "translate", "--to", "apptainer", &format!("docker run --gpus all {words}")]);
        assert_eq!(ran.code, 0, "{words}: {}", ran.err);
        assert_eq!(ran.err.contains("is taken for the image"), is_said, "{words}: {}", ran.err);
    }
    // They may ask for GPUs, too.
    let e = read("docker run $GPU_FLAGS nvidia/cuda nvidia-smi").expect_err("which GPUs?");
    assert!(e.says.contains("$GPU_FLAGS") && e.tries[0].starts_with("gpusetup container translate -- "), "{e:?}");
    let e = read("docker run --runtime ${RUNTIME:-nvidia} x").expect_err("which runtime?");
    assert!(e.says.contains("the value of --runtime is replaced by the shell: ${RUNTIME:-nvidia}"), "{e:?}");
}

#[test]
fn other_texts_are_refused_with_what_helps() {
    let lines = [
        ("", "no command line"),
        ("docker exec -it x bash", "starts no container"),
        ("docker compose up", "give the file"),
        ("docker build .", "built without GPUs"),
        ("docker-compose up", "give the file"),
        ("make", "no container engine"),
        ("xhost + && NV_GPU=2 nvidia-docker run --rm x", "more than one command"),
        ("docker run --gpus device=$GPU x", "write the value itself"),
        ("NV_GPU=\"$i\" nvidia-docker run x", "shell's variables"),
        ("docker run --gpus “device=0” x", "quotes of the keyboard"),
        ("docker run “--gpus” all x", "quotes of the keyboard"),
        ("docker run --gpus all -v “$PWD”:/x x", "quotes of the keyboard"),
        ("docker run -d \\ \n --gpus all x", "remove the space"),
        ("docker run –gpus all x", "hyphens of the keyboard: --gpus"),
        ("docker run —gpus=all x", "hyphens of the keyboard: --gpus"),
        ("docker run –e A=1 --gpus all x", "hyphens of the keyboard: -e"),
        ("docker run --gpus 'all x", "without its end"),
        ("docker run --gpus all x\u{200b}", "U+200B"),
        ("docker run --gpus 4000000000 x", "--gpus takes"),
        ("docker run --gpus 2000000000 x", "more GPUs than any host"),
        ("docker run --gpus all --gpus 2 x", "twice"),
        ("docker run -e NVIDIA_VISIBLE_DEVICES x", "not known"),
    ];
    for (line, says) in lines {
        let ran = run(&["container", "translate", line]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{line}\n{}", ran.err);
        assert!(ran.err.contains(says), "{line}\n{}", ran.err);
    }
}

#[test]
fn apptainer_is_read_as_apptainer_reads_it() {
    let written = to(Form::Docker, "apptainer run --nv --env A=b,C=d --env E=f,g docker://x y");
    assert_eq!(written.text.as_deref(), Some("docker run --gpus all -e A=b -e C=d --env E=f,g x y"));
    assert!(read("apptainer run --nv --env A=$B,C=d docker://x").is_err());
    // An image that only Apptainer has.
    for image in ["library://a/b:1", "tf.sif", "$SIF"] {
        let line = format!("apptainer run --nv {image} y");
        assert_eq!(to(Form::Docker, &line).text.as_deref(), Some("docker run --gpus all IMAGE y"));
        assert_eq!(to(Form::Apptainer, &line).text, Some(line));
    }
    assert_eq!(
        to(Form::Docker, "apptainer run --nv docker-daemon://a:b y").text.as_deref(),
        Some("docker run --gpus all a:b y")
    );
    // The variables of --nv and --nvccli.
    for variable in ["APPTAINER_NV=1", "SINGULARITY_NV=true", "APPTAINER_NVCCLI=1"] {
        let line = format!("{variable} apptainer exec docker://x y");
        assert_eq!(to(Form::Docker, &line).text.as_deref(), Some("docker run --gpus all --entrypoint y x"), "{line}");
    }
    assert!(read("APPTAINER_NV=0 apptainer exec docker://x y").is_err());
    for (order, is_said) in [("", true), ("CUDA_DEVICE_ORDER=PCI_BUS_ID ", false)] {
        let line = format!("{order}SINGULARITYENV_CUDA_VISIBLE_DEVICES=0,1 singularity run --nv docker://x");
        let ran = run(&["container", "translate", "--to", "docker", &line]);
        assert_eq!(ran.err.contains("by their speed"), is_said, "{line}: {}", ran.err);
    }
}

/// Docker's client does not give the container its own variables, as Apptainer does.
#[test]
fn variables_before_the_program_are_not_the_containers() {
    for (line, translated) in [
        ("CUDA_VISIBLE_DEVICES=1 docker run --gpus all x", "apptainer run --nv docker://x"),
        ("sudo OMP_NUM_THREADS=2 docker run --gpus all x", "sudo apptainer run --nv docker://x"),
        (
            "A=1 CUDA_VISIBLE_DEVICES=1 docker run --gpus all -e A -e CUDA_VISIBLE_DEVICES x",
            "A=1 CUDA_VISIBLE_DEVICES=1 apptainer run --nv docker://x",
        ),
        (
            "CUDA_VISIBLE_DEVICES=1 podman run --env-host --device nvidia.com/gpu=all x",
            "CUDA_VISIBLE_DEVICES=1 apptainer run --nv docker://x",
        ),
    ] {
        assert_eq!(to(Form::Apptainer, line).text.as_deref(), Some(translated), "{line}");
    }
    assert_eq!(to(Form::Apptainer, "docker run --gpus all -e A x").differences, [""; 0]);
    let chosen = to(Form::Apptainer, "docker run --gpus device=1 -e CUDA_VISIBLE_DEVICES x").differences;
    assert_eq!(chosen, ["left out, because the shell knows its value: the variable CUDA_VISIBLE_DEVICES"]);
    for (line, is_said) in [
        ("CUDA_VISIBLE_DEVICES=1 docker run --gpus all x", true),
        ("NVIDIA_VISIBLE_DEVICES=1 docker run --runtime=nvidia x", true),
        ("NVIDIA_VISIBLE_DEVICES=1 docker run x", true),
        ("NVIDIA_VISIBLE_DEVICES=1 docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES x", false),
        ("CUDA_VISIBLE_DEVICES=1 podman run --env-host --device nvidia.com/gpu=all x", false),
        ("CUDA_VISIBLE_DEVICES=1 apptainer run --nv docker://x", false),
        ("NVIDIA_VISIBLE_DEVICES=1", false),
    ] {
        let ran = run(&["container", "translate", "--to", "podman", line]);
        assert_eq!(ran.err.contains("has no effect before the program"), is_said, "{line}: {}", ran.err);
    }
}

/// The variable counts inside the container in Docker, and among all GPUs in Apptainer, which gives all.
#[test]
fn cuda_visible_devices_chooses_among_the_containers_gpus() {
    for (line, visible) in [
        ("docker run --gpus '\"device=2,3\"' -e CUDA_VISIBLE_DEVICES=1 x run", "3"),
        ("docker run --gpus 2 -e CUDA_VISIBLE_DEVICES=1,0 x run", "1,0"),
    ] {
        let text = to(Form::Apptainer, line).text.expect("a command line");
        let expected = format!(
            "APPTAINERENV_CUDA_DEVICE_ORDER=PCI_BUS_ID APPTAINERENV_CUDA_VISIBLE_DEVICES={visible} apptainer run --nv docker://x run"
        );
        assert_eq!(text, expected);
    }
    let written = to(Form::Apptainer, "docker run --gpus device=2 -e CUDA_VISIBLE_DEVICES=1 x");
    assert!(written.text.is_none() && written.differences[0].contains("0 to 0"), "{written:?}");
}

/// What a command line has beside the choice of GPUs, and does not count or is not read.
#[test]
fn what_else_may_choose_gpus_is_named() {
    for (line, docker, says) in [
        (
            "docker run --runtime=nvidia --env-file .env x",
            "docker run --gpus all --env-file .env x\n",
            "gpusetup does not read .env",
        ),
        ("NV_GPU=1 nvidia-docker run --gpus 2 x", "docker run --gpus 2 x\n", "NV_GPU=1 has no effect beside --gpus"),
        (
            "docker run --gpus driver=nvidia.runtime-hook,count=2 x",
            "docker run --gpus 2 x\n",
            "the driver nvidia.runtime-hook is left out",
        ),
    ] {
        let ran = run(&["container", "translate", "--to", "docker", line]);
        assert_eq!((ran.code, ran.out.as_str()), (0, docker), "{line}\n{}", ran.err);
        assert!(ran.err.contains(says), "{line}\n{}", ran.err);
    }
    let named = "docker run --runtime=nvidia --env-file .env -e NVIDIA_VISIBLE_DEVICES=1 x";
    let ran = run(&["container", "translate", "--to", "docker", named]);
    assert!(ran.code == 0 && !ran.err.contains("does not read"), "{}", ran.err);
}

/// Apptainer's container gets the variables of its caller.
#[test]
fn variables_before_apptainer_are_the_containers() {
    for (line, docker) in [
        ("OMP_NUM_THREADS=4 apptainer run --nv docker://x", "docker run --gpus all -e OMP_NUM_THREADS=4 x"),
        ("A=1 sudo B=$B apptainer run --nv docker://x", "A=1 sudo docker run --gpus all -e B=$B x"),
        ("A=1 B=2 apptainer run --nv --env A=3 docker://x", "docker run --gpus all -e B=2 --env A=3 x"),
        ("A=1 apptainer run --nv --cleanenv docker://x", "A=1 docker run --gpus all x"),
        ("PATH=/opt/bin apptainer run --nv docker://x", "PATH=/opt/bin docker run --gpus all x"),
        (
            "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1 apptainer run --nv docker://x",
            "docker run --gpus device=1 x",
        ),
    ] {
        assert_eq!(to(Form::Docker, line).text.as_deref(), Some(docker), "{line}");
    }
}
