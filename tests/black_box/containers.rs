//! `gpusetup container translate`: command lines from public threads and documentation in every form, and back.

use crate::common::{run, run_with_input};
use gpusetup::container::{Form, Found, Gpus, read};

/// A command line as somebody published it, and by hand what the documentation says for it.
struct Published {
    /// The address of the thread or page; for a file of a repository, its number in an index of public files.
    source: &'static str,
    line: &'static str,
    /// The same command line for Docker, with `{}` in place of the request.
    docker: &'static str,
    gpus: Which,
    /// `--gpus`, and for `--runtime=nvidia` the value of the variable.
    flag: &'static str,
    /// The driver capabilities, as the variable has them.
    capabilities: &'static str,
}

/// The GPUs, each by the value of `NVIDIA_VISIBLE_DEVICES`.
#[derive(Clone, Copy)]
enum Which {
    All,
    Count(u32),
    These(&'static [&'static str]),
}
use Which::{All, Count, These};

const fn published(
    source: &'static str,
    line: &'static str,
    docker: &'static str,
    gpus: Which,
    flag: &'static str,
) -> Published {
    Published { source, line, docker, gpus, flag, capabilities: "" }
}

const PUBLISHED: [Published; 38] = [
    published(
        "https://github.com/NVIDIA/nvidia-docker/wiki/GPU-isolation-(version-1.0)",
        "NV_GPU=0,1 nvidia-docker run -ti nvidia/cuda nvidia-smi",
        "docker run {} -ti nvidia/cuda nvidia-smi",
        These(&["0", "1"]),
        r#"'"device=0,1"'"#,
    ),
    published(
        "21597793603",
        "NV_GPU=0 nvidia-docker run --rm -ti --shm-size=1g --ulimit memlock=-1 --ulimit stack=67108864 -v /mnt/data:/mnt/data -u $(id -u):$(id -g) openai-gym:0.1",
        "docker run {} --rm -ti --shm-size=1g --ulimit memlock=-1 --ulimit stack=67108864 -v /mnt/data:/mnt/data -u $(id -u):$(id -g) openai-gym:0.1",
        These(&["0"]),
        "device=0",
    ),
    published(
        "602124928",
        "NV_GPU=1 nvidia-docker run --ipc=host --network=host --rm -p8000:8000 -p8001:8001 -v ${PWD}/model_repo/:/models nvcr.io/nvidia/tritonserver:20.06-v1-py3 tritonserver --model-store=/models --log-verbose 1",
        "docker run {} --ipc=host --network=host --rm -p8000:8000 -p8001:8001 -v ${PWD}/model_repo/:/models nvcr.io/nvidia/tritonserver:20.06-v1-py3 tritonserver --model-store=/models --log-verbose 1",
        These(&["1"]),
        "device=1",
    ),
    published(
        "12309672598",
        "NV_GPU=3 nvidia-docker run -d  --name=face_dtm  -v /srv/face_service:/workspace/  --entrypoint=\"tail\" face:latest -f /dev/null",
        "docker run {} -d --name=face_dtm -v /srv/face_service:/workspace/ --entrypoint=\"tail\" face:latest -f /dev/null",
        These(&["3"]),
        "device=3",
    ),
    published(
        "43393663126",
        "sudo NV_GPU=0 nvidia-docker run \\\n  --volume $(pwd):/sentiment_analysis \\\n  --interactive \\\n  --tty \\\n  cgret/sentiment_analysis:sa_1.2-gpu-cuda9.0-cudnn7 \\\n  /bin/bash",
        "sudo docker run {} --volume $(pwd):/sentiment_analysis --interactive --tty cgret/sentiment_analysis:sa_1.2-gpu-cuda9.0-cudnn7 /bin/bash",
        These(&["0"]),
        "device=0",
    ),
    published(
        "49628085748",
        "sudo -E NV_GPU=0 nvidia-docker run --name=pix2pixmod_gpu0 -t -d -v ~/data/datasets:/pix2pix/datasets pix2pixmod_gpu0",
        "sudo -E docker run {} --name=pix2pixmod_gpu0 -t -d -v ~/data/datasets:/pix2pix/datasets pix2pixmod_gpu0",
        These(&["0"]),
        "device=0",
    ),
    published(
        "38066408683",
        "NV_GPU=0 nvidia-docker run -d --name `whoami`_training --rm -p 8888:8888 -v ~:/workspace yuibi/tosho_recommender_training:1.0",
        "docker run {} -d --name `whoami`_training --rm -p 8888:8888 -v ~:/workspace yuibi/tosho_recommender_training:1.0",
        These(&["0"]),
        "device=0",
    ),
    published(
        "3507665475",
        "$ NV_GPU=0,1 nvidia-docker run -d \\\n  --name torch-notebook \\\n  -p 8888:8888 \\\n  -p 6006:6006 \\\n  ccss17/torch-notebook\n  # arguments\n  # NV_GPU controls gpu isolation",
        "docker run {} -d --name torch-notebook -p 8888:8888 -p 6006:6006 ccss17/torch-notebook",
        These(&["0", "1"]),
        r#"'"device=0,1"'"#,
    ),
    published(
        "16962645823",
        "nvidia-docker run -d -it --name gpus -p 8888:8888 -p 6008:6006 -v /raid:/raid sap-icn/dl-docker bash",
        "docker run {} -d -it --name gpus -p 8888:8888 -p 6008:6006 -v /raid:/raid sap-icn/dl-docker bash",
        All,
        "all",
    ),
    published(
        "https://github.com/NVIDIA/nvidia-docker/issues/1000",
        "docker run -e NVIDIA_VISIBLE_DEVICES=0 --rm nvidia/cuda-ppc64le nvidia-smi",
        "docker run {} --rm nvidia/cuda-ppc64le nvidia-smi",
        These(&["0"]),
        "device=0",
    ),
    published(
        "https://github.com/NVIDIA/nvidia-docker/issues/905",
        "docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=0 -p 8500:8500 --mount type=bind,source=/home/eee/batching.conf,target=/models/batching.conf -e MODEL_NAME=my_model -t tensorflow/serving:latest-gpu --batching_parameters_file=/models/batching.conf --enable_batching",
        "docker run {} -p 8500:8500 --mount type=bind,source=/home/eee/batching.conf,target=/models/batching.conf -e MODEL_NAME=my_model -t tensorflow/serving:latest-gpu --batching_parameters_file=/models/batching.conf --enable_batching",
        These(&["0"]),
        "device=0",
    ),
    published(
        "https://github.com/NVIDIA/nvidia-docker/issues/943",
        "docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=2,3 $IMAGE_ID",
        "docker run {} $IMAGE_ID",
        These(&["2", "3"]),
        r#"'"device=2,3"'"#,
    ),
    // Docker refuses this one: the list lacks its inner quotes.
    published(
        "https://github.com/NVIDIA/nvidia-docker/issues/1026",
        "docker run --gpus device=0,1 nvidia/cuda:10.0-base nvidia-smi",
        "docker run {} nvidia/cuda:10.0-base nvidia-smi",
        These(&["0", "1"]),
        r#"'"device=0,1"'"#,
    ),
    published(
        "https://github.com/NVIDIA/nvidia-docker/issues/1257",
        "docker run --gpus '\"device=2,3\"' nvidia/cuda:9.0-base nvidia-smi",
        "docker run {} nvidia/cuda:9.0-base nvidia-smi",
        These(&["2", "3"]),
        r#"'"device=2,3"'"#,
    ),
    published(
        "https://github.com/gpuopenanalytics/remote-docker-plugin/issues/38",
        "docker run -t -d --network bridge --entrypoint /bin/sh --workdir /ws -v /data/ws:/ws -v /tmp:/tmp --gpus device=0,1,2 tensorflow/tensorflow:latest-gpu",
        "docker run -t -d --network bridge --entrypoint /bin/sh --workdir /ws -v /data/ws:/ws -v /tmp:/tmp {} tensorflow/tensorflow:latest-gpu",
        These(&["0", "1", "2"]),
        r#"'"device=0,1,2"'"#,
    ),
    published(
        "37585048251",
        "docker run --gpus all nvidia/cuda:10.0-base nvidia-smi",
        "docker run {} nvidia/cuda:10.0-base nvidia-smi",
        All,
        "all",
    ),
    published(
        "37585048251",
        "docker run --gpus 2 nvidia/cuda:10.0-base nvidia-smi",
        "docker run {} nvidia/cuda:10.0-base nvidia-smi",
        Count(2),
        "2",
    ),
    published(
        "https://docs.docker.com/engine/containers/gpu/",
        "docker run -it --rm --gpus device=GPU-3a23c669-1f69-c64e-cf85-44e9b07e7a2a ubuntu nvidia-smi",
        "docker run -it --rm {} ubuntu nvidia-smi",
        These(&["GPU-3a23c669-1f69-c64e-cf85-44e9b07e7a2a"]),
        "device=GPU-3a23c669-1f69-c64e-cf85-44e9b07e7a2a",
    ),
    published(
        "32698467966",
        "docker run --gpus '\"device=0,3\"' \\\n       -it --rm nvcr.io/nvidia/cuquantum-appliance:24.08-${march}",
        "docker run {} -it --rm nvcr.io/nvidia/cuquantum-appliance:24.08-${march}",
        These(&["0", "3"]),
        r#"'"device=0,3"'"#,
    ),
    published(
        "11718437601",
        "docker run --gpus '\"device=6, 7\"' --shm-size 32g -p 30001:30001 --ipc=host lmsysorg/sglang:latest",
        "docker run {} --shm-size 32g -p 30001:30001 --ipc=host lmsysorg/sglang:latest",
        These(&["6", "7"]),
        r#"'"device=6,7"'"#,
    ),
    published(
        "18215199545",
        "docker run -it --gpus device=0 --shm-size 32G -v /home:/workspace nvcr.io/nvidia/tensorrt:22.04-py3 bash",
        "docker run -it {} --shm-size 32G -v /home:/workspace nvcr.io/nvidia/tensorrt:22.04-py3 bash",
        These(&["0"]),
        "device=0",
    ),
    published(
        "15734220636",
        "docker run --gpus '\"device=1\"' --rm -p 20250:20250 -v /shared:/shared laituan245/chinese_event_coref:api bash -c \"/opt/conda/bin/python3.6 api.py --port 20250\"",
        "docker run {} --rm -p 20250:20250 -v /shared:/shared laituan245/chinese_event_coref:api bash -c \"/opt/conda/bin/python3.6 api.py --port 20250\"",
        These(&["1"]),
        "device=1",
    ),
    Published {
        source: "22611860573",
        line: "docker run --rm --runtime=nvidia \\\n    -e NVIDIA_VISIBLE_DEVICES=2,3 \\\n    -e NVIDIA_DRIVER_CAPABILITIES=compute,utility \\\n    nvidia/cuda nvidia-smi",
        docker: "docker run --rm {} nvidia/cuda nvidia-smi",
        gpus: These(&["2", "3"]),
        flag: r#"'"device=2,3","capabilities=compute,utility"'"#,
        capabilities: "compute,utility",
    },
    Published {
        source: "22611860573",
        line: "docker run --rm --gpus 'all,\"capabilities=compute,utility\"' \\\n    nvidia/cuda:11.0.3-base-ubuntu20.04 nvidia-smi",
        docker: "docker run --rm {} nvidia/cuda:11.0.3-base-ubuntu20.04 nvidia-smi",
        gpus: All,
        flag: r#"'all,"capabilities=compute,utility"'"#,
        capabilities: "compute,utility",
    },
    Published {
        source: "1478689584",
        line: "docker run \\\n -p 2000-2002:2000-2002 \\\n --cpuset-cpus=\"0-5\" \\\n --runtime=nvidia \\\n --gpus 'all,\"capabilities=graphics,utility,display,video,compute\"' \\\n -e DISPLAY=$DISPLAY \\\n -v /tmp/.X11-unix:/tmp/.X11-unix \\\n -it \\\n carlasim/carla \\\n ./CarlaUE4.sh -opengl $1",
        docker: "docker run -p 2000-2002:2000-2002 --cpuset-cpus=\"0-5\" {} -e DISPLAY=$DISPLAY -v /tmp/.X11-unix:/tmp/.X11-unix -it carlasim/carla ./CarlaUE4.sh -opengl $1",
        gpus: All,
        flag: r#"'all,"capabilities=graphics,utility,display,video,compute"'"#,
        capabilities: "graphics,utility,display,video,compute",
    },
    // Docker does not know the capability `all`: it stays a variable.
    Published {
        source: "69598179176",
        line: "docker run --rm --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=all -e NVIDIA_DRIVER_CAPABILITIES=all -v \"$PWD/media:/app/media:ro\" deep-live-cam-stream:latest python deploy/bench.py",
        docker: "docker run --rm {} -v \"$PWD/media:/app/media:ro\" deep-live-cam-stream:latest python deploy/bench.py",
        gpus: All,
        flag: "all -e NVIDIA_DRIVER_CAPABILITIES=all",
        capabilities: "all",
    },
    Published {
        source: "32391945070",
        line: "docker run --detach --tty --gpus 'all,\"capabilities=compute,utility,graphics\"' --ipc=host --env NVIDIA_DISABLE_REQUIRE=1 --env DISPLAY=${DISPLAY} --cap-add=SYS_PTRACE image",
        docker: "docker run --detach --tty {} --ipc=host --env NVIDIA_DISABLE_REQUIRE=1 --env DISPLAY=${DISPLAY} --cap-add=SYS_PTRACE image",
        gpus: All,
        flag: r#"'all,"capabilities=compute,utility,graphics"'"#,
        capabilities: "compute,utility,graphics",
    },
    Published {
        source: "https://docs.docker.com/engine/containers/gpu/",
        line: "docker run --gpus 'all,capabilities=utility' --rm ubuntu nvidia-smi",
        docker: "docker run {} --rm ubuntu nvidia-smi",
        gpus: All,
        flag: "all,capabilities=utility",
        capabilities: "utility",
    },
    published(
        "https://github.com/NVIDIA/nvidia-container-runtime/issues/190",
        "sudo docker run --rm --device nvidia.com/gpu=all ubuntu nvidia-smi -L",
        "sudo docker run --rm {} ubuntu nvidia-smi -L",
        All,
        "all",
    ),
    published(
        "https://github.com/podman-container-tools/podman/issues/21158",
        "$ podman run --rm --device nvidia.com/gpu=all --security-opt=label=disable ubuntu nvidia-smi -L",
        "docker run --rm {} --security-opt=label=disable ubuntu nvidia-smi -L",
        All,
        "all",
    ),
    published(
        "https://github.com/NVIDIA/nvidia-container-toolkit/issues/63",
        "sudo podman run -ti --rm --device=nvidia.com/gpu=0 ubuntu:18.04 nvidia-smi -L",
        "sudo docker run -ti --rm {} ubuntu:18.04 nvidia-smi -L",
        These(&["0"]),
        "device=0",
    ),
    published(
        "https://github.com/NVIDIA/nvidia-container-toolkit/issues/35",
        "podman run --rm -ti --device=nvidia.com/gpu=gpu0 ubuntu nvidia-smi -L",
        "docker run --rm -ti {} ubuntu nvidia-smi -L",
        These(&["0"]),
        "device=0",
    ),
    published(
        "https://github.com/NVIDIA/nvidia-container-runtime/issues/190",
        "sudo podman run --rm --gpus all ubuntu nvidia-smi -L",
        "sudo docker run --rm {} ubuntu nvidia-smi -L",
        All,
        "all",
    ),
    published(
        "8863593026",
        "docker run --rm --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=all -v /mnt/blender_nfs/tarascope:/media -u $(id -u):$(id -g) tarascope tarascope-publisher --output-dir /media",
        "docker run --rm {} -v /mnt/blender_nfs/tarascope:/media -u $(id -u):$(id -g) tarascope tarascope-publisher --output-dir /media",
        All,
        "all",
    ),
    published(
        "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
        "$ sudo docker run --runtime=nvidia \\\n-e NVIDIA_VISIBLE_DEVICES=MIG-c7384736-a75d-5afc-978f-d2f1294409fd \\\nnvidia/cuda nvidia-smi",
        "sudo docker run {} nvidia/cuda nvidia-smi",
        These(&["MIG-c7384736-a75d-5afc-978f-d2f1294409fd"]),
        "device=MIG-c7384736-a75d-5afc-978f-d2f1294409fd",
    ),
    published(
        "68922548406",
        "docker run --gpus '\"device=0:0\"' nvidia/cuda nvidia-smi",
        "docker run {} nvidia/cuda nvidia-smi",
        These(&["0:0"]),
        "device=0:0",
    ),
    published(
        "https://github.com/containerd/nerdctl/blob/main/docs/gpu.md",
        "nerdctl run -it --rm --gpus all nvidia/cuda:12.3.1-base-ubuntu20.04 nvidia-smi",
        "docker run -it --rm {} nvidia/cuda:12.3.1-base-ubuntu20.04 nvidia-smi",
        All,
        "all",
    ),
    published(
        "44402499131",
        "docker run -it --rm -p 5000:5000 -v .:/app --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=0 -m 32G --memory-reservation 8G --cpu-shares=80 --shm-size=32G xtreme1-image-object-detection-base env LANG=C.UTF-8 /bin/bash",
        "docker run -it --rm -p 5000:5000 -v .:/app {} -m 32G --memory-reservation 8G --cpu-shares=80 --shm-size=32G xtreme1-image-object-detection-base env LANG=C.UTF-8 /bin/bash",
        These(&["0"]),
        "device=0",
    ),
];

impl Published {
    fn found(&self) -> Found {
        let mut all = read(self.line).unwrap_or_else(|e| panic!("{}: {e:?}", self.source));
        assert_eq!(all.len(), 1, "{}", self.source);
        all.remove(0)
    }

    /// The value of `NVIDIA_VISIBLE_DEVICES`. A number is the first ones, as moby's daemon counts them.
    fn visible(&self) -> Vec<String> {
        match self.gpus {
            All => vec!["all".to_owned()],
            Count(count) => (0..count).map(|index| index.to_string()).collect(),
            These(names) => names.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// The request, in three forms of a command line.
    fn expected(&self, form: Form) -> String {
        let visible = self.visible();
        let request = match form {
            Form::Docker => format!("--gpus {}", self.flag),
            Form::Runtime => {
                let of_driver = match self.capabilities {
                    "" => String::new(),
                    names => format!(" -e NVIDIA_DRIVER_CAPABILITIES={names}"),
                };
                format!("--runtime=nvidia -e NVIDIA_VISIBLE_DEVICES={}{of_driver}", visible.join(","))
            }
            _ => visible.iter().map(|name| format!("--device nvidia.com/gpu={name}")).collect::<Vec<_>>().join(" "),
        };
        self.docker.replacen("{}", &request, 1)
    }
}

#[test]
fn published_command_lines_are_translated() {
    for published in &PUBLISHED {
        let found = published.found();
        for form in [Form::Docker, Form::Runtime, Form::Cdi] {
            let text = found.written(form).text;
            assert_eq!(text.as_deref(), Some(&*published.expected(form)), "{}: {form}", published.source);
        }
        let podman = published.expected(Form::Podman).replacen("docker run", "podman run", 1);
        let text = found.written(Form::Podman).text.expect("Podman has words for all of them");
        let short = text.replacen("docker.io/library/", "", 1).replacen("docker.io/", "", 1);
        assert_eq!(short, podman, "{}", published.source);
    }
}

/// The command line in one form.
fn to(form: Form, text: &str) -> gpusetup::container::Written {
    read(text).unwrap_or_else(|e| panic!("{e:?}\n{text}"))[0].written(form)
}

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

#[test]
fn an_entrypoint_has_its_place_in_files() {
    let line = "docker run --gpus 1 --entrypoint python x -m y";
    let compose = to(Form::Compose, line);
    let text = compose.text.expect("a file");
    assert!(text.contains("    entrypoint: [python]\n    command: [\"-m\", \"y\"]\n"), "{text}");
    assert_eq!(compose.differences, [""; 0]);
    let pod = to(Form::Kubernetes, line);
    let text = pod.text.expect("a file");
    assert!(text.contains("      command: [python]\n      args: [\"-m\", \"y\"]\n"), "{text}");
    assert_eq!(pod.differences, [""; 0]);
    // Without an entrypoint the first argument is the program. An empty list would leave that of the image to Kubernetes.
    let none = "docker run --gpus 1 --entrypoint '' x ls /";
    let text = to(Form::Compose, none).text.expect("a file");
    assert!(
        text.contains("entrypoint: []\n    command: [ls, /]")
            || text.contains("entrypoint: []\n    command: [ls, \"/\"]"),
        "{text}"
    );
    assert!(to(Form::Kubernetes, none).text.expect("a file").contains("      command: [ls, "));
    // Docker's option has one word.
    for (file, docker) in [
        (
            "services:\n  a:\n    image: x\n    gpus: all\n    entrypoint: [python, -m]\n    command: y\n",
            "docker run --gpus all --entrypoint python x -m y",
        ),
        (
            "services:\n  a:\n    image: x\n    gpus: all\n    entrypoint: ''\n",
            "docker run --gpus all --entrypoint '' x",
        ),
        (
            "kind: Pod\nspec:\n  containers:\n    - {name: a, image: x, command: [python, -m], args: [y], resources: {limits: {nvidia.com/gpu: 1}}}\n",
            "docker run --gpus 1 --entrypoint python x -m y",
        ),
    ] {
        let written = to(Form::Docker, file);
        assert_eq!((written.text.as_deref(), written.differences.as_slice()), (Some(docker), [].as_slice()), "{file}");
    }
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
            "srun --gpus=2 --container-image=x/y python train.py",
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

/// A command of a pod has no shell: Kubernetes itself replaces `$(NAME)`.
#[test]
fn variables_in_the_command_of_a_pod_are_replaced() {
    let pod = |env: &str| {
        format!(
            "kind: Pod\nspec:\n  containers:\n    - name: a\n      image: x\n      args: ['--port=$(PORT)', '$(NONE)', '$$(PORT)', '$HOME']\n      env: [{env}]\n      resources: {{limits: {{nvidia.com/gpu: 1}}}}\n"
        )
    };
    let written = to(Form::Docker, &pod("{name: PORT, value: '80'}"));
    assert_eq!(written.text.as_deref(), Some("docker run --gpus 1 -e PORT=80 x --port=80 '$(NONE)' '$(PORT)' '$HOME'"),);
    let again = to(Form::Kubernetes, written.text.as_deref().expect("a command line")).text.expect("a pod");
    assert!(again.contains("args: [\"--port=80\", \"$$(NONE)\", \"$$(PORT)\", \"$HOME\"]"), "{again}");
    let secret = "{name: PORT, valueFrom: {secretKeyRef: {name: s, key: k}}}";
    let e = read(&pod(secret)).expect_err("a value that is not in the file");
    assert!(e.says.contains("$(PORT)"), "{e:?}");
}

#[test]
fn a_share_of_a_gpu_is_no_whole_one() {
    let pod =
        "kind: Pod\nspec:\n  containers:\n    - {name: a, image: x, resources: {limits: {nvidia.com/gpu.shared: 2}}}\n";
    let kubernetes = to(Form::Kubernetes, pod);
    assert!(kubernetes.text.expect("itself").ends_with("nvidia.com/gpu.shared: 2\n"));
    let docker = to(Form::Docker, pod);
    assert_eq!(docker.text.as_deref(), Some("docker run --gpus 1 x"));
    assert!(docker.differences[0].contains("a whole one"), "{docker:?}");
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

#[test]
fn files_ask_for_the_same_gpus() {
    for published in &PUBLISHED {
        let found = published.found();
        let text = |form: Form| found.written(form).text;
        let device_ids = |names: &[&str]| {
            format!("device_ids: [{}]", names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", "))
        };
        let (compose, limit) = match published.gpus {
            All => ("count: all".to_owned(), None),
            Count(count) => (format!("count: {count}"), Some(count as usize)),
            These(names) if names.iter().any(|name| name.contains(':') || name.starts_with("MIG-")) => {
                (device_ids(names), None)
            }
            These(names) => (device_ids(names), Some(names.len())),
        };
        let reserved = text(Form::Compose).expect("Compose has words for all of them");
        assert!(reserved.contains(&format!("- driver: nvidia\n              {compose}\n")), "{reserved}");
        let limits = text(Form::Kubernetes);
        assert_eq!(limits.is_some(), limit.is_some(), "{}", published.source);
        if let (Some(text), Some(count)) = (limits, limit) {
            assert!(text.ends_with(&format!("limits:\n          nvidia.com/gpu: {count}\n")), "{text}");
        }
    }
}

/// A form that claims to say the same is read back as the same.
#[test]
fn what_is_written_is_read_back() {
    let mut compared = 0;
    for published in &PUBLISHED {
        let found = published.found();
        for form in Form::ALL {
            let written = found.written(form);
            let (Some(text), true) = (&written.text, is_about_the_gpus_alone(&written.differences)) else { continue };
            // Nothing reads Slurm's.
            if form == Form::Slurm {
                continue;
            }
            let back = read(text).unwrap_or_else(|e| panic!("{}: {form}: {e:?}\n{text}", published.source));
            assert_eq!(back[0].request(), found.request(), "{}: {form}\n{text}", published.source);
            let again = back[0].written(form).text;
            assert_eq!(again.as_ref(), Some(text), "{}: {form} is not written in the same way again", published.source);
            compared += 1;
        }
    }
    assert!(compared > 250, "{compared}");
}

/// Whether nothing of the request got lost: options and words of the shell are no part of it.
fn is_about_the_gpus_alone(differences: &[String]) -> bool {
    differences.iter().all(|text| text.starts_with("left out") || text.starts_with("the shell replaces"))
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

/// Files from documentation, what they ask for, and how Docker is asked for the same.
#[test]
fn files_are_read() {
    let files = [
        // https://docs.docker.com/compose/how-tos/gpu-support/
        (
            "services:\n  test:\n    image: nvidia/cuda:12.9.0-base-ubuntu22.04\n    command: nvidia-smi\n    deploy:\n      resources:\n        reservations:\n          devices:\n            - driver: nvidia\n              count: 1\n              capabilities: [gpu]\n",
            "docker run --gpus 1 nvidia/cuda:12.9.0-base-ubuntu22.04 nvidia-smi",
        ),
        (
            "services:\n  test:\n    image: tensorflow/tensorflow:latest-gpu\n    command: python -c \"import tensorflow as tf;tf.test.gpu_device_name()\"\n    deploy:\n      resources:\n        reservations:\n          devices:\n          - driver: nvidia\n            device_ids: ['0', '3']\n            capabilities: [gpu]\n",
            "docker run --gpus '\"device=0,3\"' tensorflow/tensorflow:latest-gpu python -c \"import tensorflow as tf;tf.test.gpu_device_name()\"",
        ),
        // https://docs.docker.com/reference/compose-file/services/#gpus
        ("services:\n  model:\n    image: x\n    gpus: all\n", "docker run --gpus all x"),
        (
            "services:\n  model:\n    image: x\n    gpus:\n      - driver: nvidia\n        count: 2\n",
            "docker run --gpus 2 x",
        ),
        (
            "x-gpu: &gpu {driver: nvidia, count: 2, capabilities: [gpu]}\nx-env: &env\n  VER: 12\n  DEBUG: true\nservices:\n  a:\n    image: x\n    environment: *env\n    deploy:\n      resources:\n        reservations:\n          devices: [*gpu]\n",
            "docker run --gpus 2 -e DEBUG=true -e VER=12 x",
        ),
        // https://github.com/NVIDIA/nvidia-container-runtime/issues/190
        (
            "version: '3.8'\nservices:\n  runtime_test:\n    image: ubuntu:20.04\n    runtime: nvidia\n    environment:\n      - NVIDIA_VISIBLE_DEVICES=all\n    tty: true\n    command:\n      - bash\n      - -c\n      - nvidia-smi -L\n",
            "docker run --gpus all ubuntu:20.04 bash -c 'nvidia-smi -L'",
        ),
        // 9340836254
        (
            "services:\n  exam_container:\n    image: 'exam:0.1'\n    environment:\n      - NVIDIA_VISIBLE_DEVICES=MIG-e138a708-679d-5075-ab88-ba8e298ec5d3 # the device\n    command: /bin/bash\n",
            "docker run --gpus device=MIG-e138a708-679d-5075-ab88-ba8e298ec5d3 exam:0.1 /bin/bash",
        ),
        // https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: example-vector-add\nspec:\n  restartPolicy: OnFailure\n  containers:\n    - name: example-vector-add\n      image: \"registry.example/example-vector-add:v42\"\n      resources:\n        limits:\n          nvidia.com/gpu: 1\n",
            "docker run --gpus 1 registry.example/example-vector-add:v42",
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  template:\n    spec:\n      containers:\n        - {name: a, image: a}\n        - {name: b, image: b, env: [{name: NVIDIA_DRIVER_CAPABILITIES, value: \"compute,utility\"}], resources: {limits: {nvidia.com/gpu: \"2\"}}}\n",
            "docker run --gpus '2,\"capabilities=compute,utility\"' b",
        ),
    ];
    for (file, docker) in files {
        let found = read(file).unwrap_or_else(|e| panic!("{e:?}\n{file}"));
        assert_eq!(found.len(), 1, "{file}");
        assert_eq!(found[0].written(Form::Docker).text.as_deref().map(plain), Some(plain(docker)), "{file}");
    }
}

/// Without the quotes that a word can have or not.
fn plain(line: &str) -> String {
    line.replace(['\'', '"'], "")
}

/// Nothing of a Compose command is for a shell of the host: Compose divides it into words, and the container gets these.
#[test]
fn the_commands_of_a_compose_file_are_quoted_for_the_shell() {
    let service =
        |command: &str| format!("services:\n  a:\n    image: x\n    gpus: [{{count: 1}}]\n    command: {command}\n");
    for (command, words) in [
        (
            r#"sh -c "echo $$HOSTNAME `id` && nvidia-smi -L > /out.txt; ls *""#,
            "sh -c 'echo $HOSTNAME `id` && nvidia-smi -L > /out.txt; ls *'",
        ),
        ("python x.py $$HOME ~/a {1,2} [a]*.txt", "python x.py '$HOME' '~/a' '{1,2}' '[a]*.txt'"),
        ("|\n      vllm serve\n      --model a/b\n      --port 80", "vllm serve --model a/b --port 80"),
    ] {
        let file = service(command);
        for (form, start) in [
            (Form::Docker, "docker run --gpus 1 x "),
            (Form::Podman, "podman run --device nvidia.com/gpu=0 docker.io/library/x "),
            (Form::Slurm, "srun --gpus=1 --container-image=x "),
        ] {
            assert_eq!(to(form, &file).text, Some(format!("{start}{words}")), "{form}");
        }
        let compose = to(Form::Compose, &file);
        assert_eq!(compose.differences, [""; 0], "{command}");
    }
    // Compose ends the command there.
    let ran = run_with_input(&["container", "translate", "--to", "docker", "-"], &service("echo a;b"));
    assert_eq!((ran.code, ran.out.as_str()), (0, "docker run --gpus 1 x echo a\n"));
    assert!(ran.err.contains("the container does not get this: ;b"), "{}", ran.err);
    let e = read(&service("foo(a)")).expect_err("Compose refuses it");
    assert!(e.says.contains("service a: Compose refuses a command with a ( outside quotes"), "{e:?}");
}

/// Compose takes a variable without a value from the shell, as `docker run -e NAME` does.
/// In a map, Compose reads what is not in quotes, and prints it in its own way. In a list, it is text.
#[test]
fn numbers_of_a_compose_file_are_those_that_the_container_gets() {
    let file = |environment: &str| format!("services:\n  a: {{image: x, gpus: all, environment: {environment}}}\n");
    let docker = |environment: &str| to(Form::Docker, &file(environment)).text.expect("a command line");
    assert_eq!(
        docker("{B: 1_000, H: 0x1F, T: True, U: 022, V: 1.10, W: 1e3}"),
        "docker run --gpus all -e B=1000 -e H=31 -e T=true -e U=18 -e V=1.1 -e W=1000 x"
    );
    assert_eq!(docker("{U: '022', V: \"1.10\"}"), "docker run --gpus all -e U=022 -e V=1.10 x");
    assert_eq!(docker("[U=022]"), "docker run --gpus all -e U=022 x");
    let json =
        r#"{"services": {"a": {"image": "x", "gpus": "all", "environment": {"V": 1.50, "W": 1e3, "U": "022"}}}}"#;
    let text = to(Form::Docker, json).text;
    assert_eq!(text.as_deref(), Some("docker run --gpus all -e U=022 -e V=1.5 -e W=1000 x"));
    assert!(to(Form::Compose, &file("{U: 022}")).text.is_some_and(|text| text.contains(": \"18\"")));
    let ran = run_with_input(&["container", "translate", "--to", "docker", "-"], &file("{U: 022}"));
    assert!(ran.err.contains("U is 18: Compose reads 022 without quotes"), "{}", ran.err);
    // Whether it is in quotes is not known.
    let e = read(&format!("{}x-more: {{1: a}}\n", file("{U: 022}"))).expect_err("a number as a key");
    assert!(e.says.contains("U: 022") && e.tries[0].starts_with("docker compose config | "), "{e:?}");
}

#[test]
fn variables_without_a_value_are_those_of_the_shell() {
    for environment in ["[HF_TOKEN, A=1]", "{HF_TOKEN: , A: 1}"] {
        let file = format!("services:\n  a:\n    image: x\n    gpus: [{{count: 1}}]\n    environment: {environment}\n");
        let docker = to(Form::Docker, &file).text.expect("a command line");
        assert!(docker.contains("-e HF_TOKEN") && docker.contains("-e A=1"), "{docker}");
        for file in [&file, &docker] {
            let compose = to(Form::Compose, file);
            assert!(compose.text.as_ref().is_some_and(|text| text.contains("      HF_TOKEN:\n")), "{compose:?}");
            assert_eq!(compose.differences, [""; 0]);
        }
        let pod = to(Form::Kubernetes, &file);
        assert_eq!(pod.differences, ["left out, because the shell knows its value: the variable HF_TOKEN"]);
    }
    let e = read("services:\n  a:\n    image: x\n    runtime: nvidia\n    environment: [NVIDIA_VISIBLE_DEVICES]\n");
    assert!(e.expect_err("which GPUs?").says.contains("NVIDIA_VISIBLE_DEVICES is not known"));
}

#[test]
fn what_a_file_has_beside_its_request_is_named() {
    let compose = "services:\n  a:\n    image: x\n    container_name: y\n    devices: [nvidia.com/gpu=all]\n    deploy:\n      replicas: 3\n      resources:\n        limits: {memory: 8g}\n        reservations:\n          devices: [{driver: cdi, device_ids: [vendor.com/x=0]}]\n";
    let written = to(Form::Docker, compose);
    assert_eq!(written.text.as_deref(), Some("docker run --gpus all x"));
    assert_eq!(
        written.differences,
        [
            "left out, carry them over yourself: container_name, deploy.replicas, deploy.resources.limits.memory, deploy.resources.reservations.devices (cdi vendor.com/x=0)"
        ]
    );
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train, namespace: ml}\nspec:\n  parallelism: 4\n  template:\n    spec:\n      restartPolicy: Never\n      nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB}\n      hostIPC: true\n      containers:\n      - {name: main, image: x, resources: {limits: {nvidia.com/gpu: 2, memory: 8Gi}}}\n";
    for form in [Form::Docker, Form::Kubernetes] {
        assert_eq!(
            to(form, job).differences,
            [
                "left out, carry them over yourself: nodeSelector (nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB), hostIPC, parallelism, namespace, limits.memory"
            ]
        );
    }
}

/// A list of `kubectl get`, JSON, and what is not read.
#[test]
fn files_are_read_or_named_for_what_they_are() {
    let pod = r#"{"kind": "Pod", "spec": {"containers": [{"name": "a", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 2}}}]}}"#;
    let list = format!("{{\n\t\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{pod}]}}");
    let compose = r#"{"name": "p", "services": {"a": {"image": "x", "command": null, "deploy": {"resources": {"reservations": {"devices": [{"capabilities": ["gpu"], "driver": "nvidia", "count": 2}]}}}}}}"#;
    let yaml = "kind: List\nitems:\n- kind: Pod\n  spec:\n    containers:\n    - {name: a, image: x, resources: {limits: {nvidia.com/gpu: 2}}}\n";
    for file in [pod, list.as_str(), compose, yaml] {
        assert_eq!(to(Form::Docker, file).text.as_deref(), Some("docker run --gpus 2 x"), "{file}");
    }
    let claim = "kind: Pod\nspec:\n  containers:\n  - {name: a, image: x, resources: {claims: [{name: gpu}]}}\n";
    let training = "kind: PyTorchJob\nspec: {replicas: {Worker: {template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}}}}}\n";
    let swarm = "services:\n  e:\n    image: x\n    deploy: {resources: {reservations: {generic_resources: [{discrete_resource_spec: {kind: NVIDIA-GPU, value: 2}}]}}}\n";
    for (file, says) in [
        (claim, "container a gets devices by resource claims"),
        (training, "the kind PyTorchJob"),
        (swarm, "service e has generic_resources"),
    ] {
        let e = read(file).expect_err(file);
        assert!(e.says.contains(says) && !e.hints.is_empty(), "{e:?}");
    }
    // Beside one that is read, it is said.
    let ran = run_with_input(&["container", "translate", "--to", "docker", "-"], &format!("{yaml}---\n{training}"));
    assert!(ran.code == 0 && ran.err.contains("the kind PyTorchJob"), "{}", ran.err);
    let extends = "services:\n  a:\n    extends: {service: b}\n";
    let ran = run_with_input(&["container", "translate", "--to", "podman", "-"], extends);
    assert!(ran.err.contains("docker compose config | gpusetup container translate --to podman -"), "{}", ran.err);
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

/// A profile of MIG is asked for by Kubernetes only.
#[test]
fn a_mig_profile_stays_in_kubernetes() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: mig-pod\nspec:\n  containers:\n    - name: mig-test\n      image: nvidia/cuda:12.2.0-base-ubuntu22.04\n      resources:\n        limits:\n          nvidia.com/mig-1g.5gb: 1\n";
    let found = read(pod).expect("a pod");
    assert_eq!(found[0].request().gpus, Gpus::Profiles([("1g.5gb".to_owned(), 1)].into()));
    for form in Form::ALL.into_iter().filter(|form| *form != Form::Kubernetes) {
        let written = found[0].written(form);
        assert!(written.text.is_none() && written.differences[0].contains("nvidia-smi -L"), "{form}");
    }
    let again = found[0].written(Form::Kubernetes).text.expect("itself");
    assert_eq!(read(&again).expect("a pod")[0].request(), found[0].request());
}

#[test]
fn files_that_ask_for_nothing_or_hide_something_are_refused() {
    let files = [
        ("services:\n  a:\n    image: x\n", "asks for no GPU"),
        ("services:\n  a:\n    image: ${IMAGE}\n    gpus: all\n", "Compose replaces"),
        ("services:\n  a:\n    image: \"x\\u001b[2J\"\n    gpus: all\n", "hidden character"),
        ("services: [", "cannot be read"),
        ("services:\n  a:\n    image: x\n    gpus: all\n    devices: [nvidia.com/gpu=all]\n", "several places"),
        (
            "kind: Pod\nspec:\n  containers:\n    - {name: a, resources: {limits: {nvidia.com/gpu: many}}}\n",
            "container a: nvidia.com/gpu",
        ),
        (
            "kind: Pod\nspec:\n  runtimeClassName: nvidia\n  containers:\n    - {name: a, image: busybox}\n",
            "asks for no GPU",
        ),
        ("services:\n  a:\n    image: x\n    gpus: 2\n", "service a: gpus: 2 is not valid"),
        (
            "services:\n  a:\n    image: x\n    gpus: all\n  b:\n    extends: {service: a}\n",
            "service b: it extends another service",
        ),
    ];
    for (file, says) in files {
        let e = read(file).expect_err(file);
        assert!(e.says.contains(says), "{e:?}\n{file}");
    }
    let number = read("services:\n  a:\n    gpus: 2\n").expect_err("a number");
    assert!(number.hints[0].contains("gpus: [{driver: nvidia, count: 2}]"), "{number:?}");
    let extends = read("services:\n  a:\n    extends: {service: b}\n").expect_err("another service");
    assert!(extends.tries[0].starts_with("docker compose config | "), "{extends:?}");
}

/// What is meant is clear, and Compose or Kubernetes refuses it.
#[test]
fn mistakes_of_files_are_named_and_corrected() {
    let compose = |devices: &str| {
        format!(
            "services:\n  a:\n    image: x\n    deploy: {{resources: {{reservations: {{devices: [{devices}]}}}}}}\n"
        )
    };
    let pod = |rest: &str| format!("kind: Pod\nspec:\n  containers:\n  - {{name: a, image: x, {rest}}}\n");
    for (file, docker, says, corrected) in [
        (
            compose("{driver: nvidia, count: 2}"),
            "docker run --gpus 2 x\n",
            "a reservation without capabilities: [gpu]",
            "capabilities: [gpu]",
        ),
        (
            compose("{driver: nvidia, device_ids: [0, 2], capabilities: [gpu]}"),
            "docker run --gpus '\"device=0,2\"' x\n",
            "device_ids only as a list of strings: ['0', '2']",
            "device_ids: ['0', '2']",
        ),
        (
            compose("{driver: nvidia, device_ids: all, capabilities: [gpu]}"),
            "docker run --gpus all x\n",
            "device_ids only as a list of strings: ['all']",
            "count: all",
        ),
        (
            pod("resources: {limits: {cpu: 1}, requests: {nvidia.com/gpu: 2}}"),
            "docker run --gpus 2 x\n",
            "a request of nvidia.com/gpu without a limit",
            "nvidia.com/gpu: 2",
        ),
        (
            pod("env: [{name: N, value: 1}, {name: B, value: '2'}], resources: {limits: {nvidia.com/gpu: 1}}"),
            "docker run --gpus 1 -e N=1 -e B=2 x\n",
            "the value of N if it is not in quotes",
            "value: \"1\"",
        ),
    ] {
        let ran = run_with_input(&["container", "translate", "--to", "docker", "-"], &file);
        assert_eq!((ran.code, ran.out.as_str()), (0, docker), "{file}{}", ran.err);
        assert!(ran.err.contains(says) && !ran.err.contains("value of B"), "{file}{}", ran.err);
        let ran = run_with_input(&["container", "translate", "-"], &file);
        assert!(ran.out.contains(corrected), "{file}{}", ran.out);
    }
    let differs = read(&pod("resources: {limits: {nvidia.com/gpu: 1}, requests: {nvidia.com/gpu: 2}}"));
    assert!(differs.expect_err("two numbers").says.contains("another request than its limit"));
    let both = pod("resources: {limits: {nvidia.com/gpu: 2}, requests: {nvidia.com/gpu: 2}}");
    let ran = run_with_input(&["container", "translate", "--to", "docker", "-"], &both);
    assert!(ran.code == 0 && !ran.err.contains("refuses"), "{}", ran.err);
}

/// The services of other files are not read, and that is said.
#[test]
fn files_that_a_compose_file_includes_are_named() {
    let one = "include: [a.yaml, {path: [b.yaml]}]\nservices:\n  a: {image: x, gpus: all}\n";
    let ran = run_with_input(&["container", "translate", "--to", "docker", "-"], one);
    assert_eq!((ran.code, ran.out.as_str()), (0, "docker run --gpus all x\n"));
    assert!(ran.err.contains("included files are not read: a.yaml, b.yaml"), "{}", ran.err);
    for none in ["include: [a.yaml]\n", "include: [a.yaml]\nservices: {a: {image: x}}\n"] {
        let e = read(none).expect_err(none);
        assert!(e.says.contains("a.yaml") && e.tries[0].starts_with("docker compose config | "), "{e:?}");
    }
}

/// The runtime class adds devices only where `NVIDIA_VISIBLE_DEVICES` names them.
#[test]
fn a_runtime_class_gives_no_gpus_by_itself() {
    let pod = "kind: Pod\nspec:\n  runtimeClassName: nvidia\n  initContainers:\n    - {name: wait, image: busybox}\n  containers:\n    - {name: a, image: x, resources: {limits: {nvidia.com/gpu: 1}}}\n    - {name: b, image: y, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]}\n    - {name: c, image: z}\n";
    let found = read(pod).expect("two of the four");
    let gpus: Vec<_> = found.iter().map(|found| found.request().gpus.clone()).collect();
    assert_eq!(gpus, [Gpus::Count(1), Gpus::All]);
}

#[test]
fn one_form_is_printed_alone() {
    let line = "NV_GPU=0,3 nvidia-docker run --rm nvidia/cuda nvidia-smi";
    let ran = run(&["container", "translate", "--to", "docker", line]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "docker run --gpus '\"device=0,3\"' --rm nvidia/cuda nvidia-smi\n"));
    // The words of a line, divided by the shell.
    let words =
        ["container", "translate", "--to", "cdi", "--", "docker", "run", "--gpus", "device=0", "x", "a b", "$HOME"];
    assert_eq!(run(&words).out, "docker run --device nvidia.com/gpu=0 x 'a b' '$HOME'\n");
    let ran = run_with_input(
        &["container", "translate", "--to", "runtime", "-"],
        "services:\n  a:\n    image: x\n    gpus: all\n",
    );
    assert_eq!((ran.code, ran.out.as_str()), (0, "docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=all x\n"));
    let ran = run(&["container", "translate", "--to", "kubernetes", "docker run --gpus all x"]);
    assert_eq!((ran.code, ran.out.as_str()), (4, ""));
    let ran_for_json = run(&["container", "translate", "--json", "--to", "kubernetes", "docker run --gpus all x"]);
    assert!(ran_for_json.code == 4 && ran_for_json.out.contains("\"text\": null"), "{}", ran_for_json.out);
    assert!(ran.err.contains("nvidia.com/gpu: NUMBER"), "{}", ran.err);
    // srun would take the options of the container's program for its own.
    let ran = run(&["container", "translate", "--to", "slurm", "docker run --gpus 1 x --uid=0 y"]);
    assert_eq!((ran.code, ran.out.as_str()), (4, ""));
    // What the form cannot say is said beside it.
    let ran = run(&["container", "translate", "--to", "kubernetes", line]);
    assert!(ran.code == 0 && ran.err.contains("cannot be asked for GPUs 0, 3"), "{}{}", ran.out, ran.err);
    let file = tempfile::tempdir().expect("a folder");
    let path = file.path().join("compose.yaml");
    std::fs::write(
        &path,
        "services:\n  a:\n    image: x\n    gpus: all\n  b:\n    image: y\n    gpus: [{device_ids: ['1']}]\n",
    )
    .expect("written");
    let ran = run(&["container", "translate", "--to", "podman", path.to_str().expect("UTF-8")]);
    assert_eq!(
        ran.out,
        "# a\npodman run --device nvidia.com/gpu=all docker.io/library/x\n\n# b\npodman run --device nvidia.com/gpu=1 docker.io/library/y\n"
    );
    // What is said names the service that it is about.
    assert!(
        ran.err.contains("a: on a host with SELinux") && ran.err.contains("b: on a host with SELinux"),
        "{}",
        ran.err
    );
}

/// Compose does not read several documents, and Kubernetes keeps one pod of one name.
#[test]
fn several_services_are_one_file_with_their_names() {
    let file =
        "services:\n  web:\n    image: x/web\n    gpus: all\n  worker:\n    image: y/worker\n    gpus: [{count: 2}]\n";
    let ran = run_with_input(&["container", "translate", "--to", "compose-gpus", "-"], file);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (
            0,
            "services:\n  web:\n    image: x/web\n    gpus: all\n  worker:\n    image: y/worker\n    gpus:\n      - driver: nvidia\n        count: 2\n"
        )
    );
    let back = read(&ran.out).expect("a file");
    assert_eq!(
        back.iter().map(Found::request).collect::<Vec<_>>(),
        read(file).expect("a file").iter().map(Found::request).collect::<Vec<_>>()
    );
    let pod = |image: &str| {
        format!(
            "kind: Pod\nspec:\n  containers:\n    - {{name: main, image: {image}, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}\n"
        )
    };
    let ran = run_with_input(
        &["container", "translate", "--to", "kubernetes", "-"],
        &format!("{}---\n{}", pod("x/web"), pod("y/worker")),
    );
    assert!(ran.out.starts_with("# main\napiVersion: v1\n"), "{}", ran.out);
    assert!(
        ran.out.contains("\n---\n# main-2\napiVersion: v1\n") && ran.out.contains("  name: main-2\n"),
        "{}",
        ran.out
    );
    // Kubernetes takes a number of GPUs alone.
    let ran = run_with_input(&["container", "translate", "--to", "kubernetes", "-"], file);
    assert_eq!(ran.code, 4);
    assert!(ran.err.contains("web: kubernetes cannot express"), "{}", ran.err);
    assert!(ran.out.contains("name: worker\n") && !ran.out.contains("x/web"), "the other one is printed: {}", ran.out);
}

#[test]
fn everything_that_is_printed_can_be_pasted() {
    let ran = run(&["container", "translate", "docker run --gpus device=0,1 -v \"$PWD\":/x x python 'a b.py'"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    insta::with_settings!({snapshot_path => "containers", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("translated", ran.out);
    });
}
