//! Command lines from public threads and documentation, in every form and back.

use gpusetup::container::{Form, Found, read};

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
