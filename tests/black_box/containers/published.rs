//! Command lines from public threads and documentation, in every form and back.

use super::read;
use gpusetup::container::{Form, translate};

/// A command line as somebody published it, and by hand what the documentation says for it.
struct Published {
    /// The address of the thread or page; for a file of a repository, its number in an index of
    /// public files.
    source: &'static str,
    line: &'static str,
    /// The same command line for Docker as gpusetup quotes it, with `{}` in place of the request.
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
    Published {
        source,
        line,
        docker,
        gpus,
        flag,
        capabilities: "",
    }
}

const PUBLISHED: [Published; 35] = [
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
        "docker run {} -d --name=face_dtm -v /srv/face_service:/workspace/ --entrypoint=tail face:latest -f /dev/null",
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
        "NV_GPU=0,1 nvidia-docker run -d \\\n  --name torch-notebook \\\n  -p 8888:8888 \\\n  -p 6006:6006 \\\n  ccss17/torch-notebook\n  # arguments\n  # NV_GPU controls gpu isolation",
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
    published(
        "https://github.com/NVIDIA/nvidia-docker/issues/1257",
        "docker run --gpus '\"device=2,3\"' nvidia/cuda:9.0-base nvidia-smi",
        "docker run {} nvidia/cuda:9.0-base nvidia-smi",
        These(&["2", "3"]),
        r#"'"device=2,3"'"#,
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
        "docker run {} --rm -p 20250:20250 -v /shared:/shared laituan245/chinese_event_coref:api bash -c '/opt/conda/bin/python3.6 api.py --port 20250'",
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
        "podman run --rm --device nvidia.com/gpu=all --security-opt=label=disable ubuntu nvidia-smi -L",
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
        "sudo docker run --runtime=nvidia \\\n-e NVIDIA_VISIBLE_DEVICES=MIG-c7384736-a75d-5afc-978f-d2f1294409fd \\\nnvidia/cuda nvidia-smi",
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
        "44402499131",
        "docker run -it --rm -p 5000:5000 -v .:/app --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=0 -m 32G --memory-reservation 8G --cpu-shares=80 --shm-size=32G xtreme1-image-object-detection-base env LANG=C.UTF-8 /bin/bash",
        "docker run -it --rm -p 5000:5000 -v .:/app {} -m 32G --memory-reservation 8G --cpu-shares=80 --shm-size=32G xtreme1-image-object-detection-base env LANG=C.UTF-8 /bin/bash",
        These(&["0"]),
        "device=0",
    ),
];

impl Published {
    /// The value of `NVIDIA_VISIBLE_DEVICES`. A number is the first ones, as moby's daemon counts
    /// them.
    fn visible(&self) -> Vec<String> {
        match self.gpus {
            All => vec!["all".to_owned()],
            Count(count) => (0..count).map(|index| index.to_string()).collect(),
            These(names) => names.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// Whether no shell expands a part of it, and it has no comment.
    fn is_literal(&self) -> bool {
        !self.docker.contains(['$', '`', '~']) && !self.line.contains('#')
    }

    /// The request, in a form of a command line.
    fn expected(&self, form: Form) -> String {
        let visible = self.visible();
        let request = match form {
            Form::Docker => format!("--gpus {}", self.flag),
            Form::Runtime => {
                let of_driver = match self.capabilities {
                    "" => String::new(),
                    names => format!(" -e NVIDIA_DRIVER_CAPABILITIES={names}"),
                };
                format!(
                    "--runtime=nvidia -e NVIDIA_VISIBLE_DEVICES={}{of_driver}",
                    visible.join(",")
                )
            }
            _ => visible
                .iter()
                .map(|name| format!("--device nvidia.com/gpu={name}"))
                .collect::<Vec<_>>()
                .join(" "),
        };
        if self.is_literal() {
            self.docker.replacen("{}", &request, 1)
        } else {
            request
        }
    }
}

#[test]
fn published_command_lines_are_translated() {
    for published in &PUBLISHED {
        let translated = read(published.line);
        assert_eq!(
            translated.request_only.is_none(),
            published.is_literal(),
            "{}",
            published.source
        );
        for form in [Form::Docker, Form::Runtime, Form::Cdi, Form::Podman] {
            let mut expected = published.expected(form);
            if form == Form::Podman {
                expected = expected.replacen("docker run", "podman run", 1);
            }
            let text = translated.forms[form as usize].text.as_ref();
            assert_eq!(text, Some(&expected), "{}: {form:?}", published.source);
        }
    }
}

#[test]
fn files_ask_for_the_same_gpus() {
    for published in &PUBLISHED {
        let text = |form: Form| read(published.line).forms[form as usize].text.clone();
        let device_ids = |names: &[&str]| {
            format!(
                "device_ids: [{}]",
                names
                    .iter()
                    .map(|name| format!("{name:?}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        };
        let is_mig = |names: &[&str]| {
            names
                .iter()
                .any(|name| name.contains(':') || name.starts_with("MIG-"))
        };
        let (compose, limit) = match published.gpus {
            All => ("count: all".to_owned(), Some("NUMBER".to_owned())),
            Count(count) => (format!("count: {count}"), Some(count.to_string())),
            These(names) => (
                device_ids(names),
                (!is_mig(names)).then(|| names.len().to_string()),
            ),
        };
        let reserved = text(Form::Compose).expect("Compose has words for all of them");
        assert!(
            reserved.contains(&format!("- driver: nvidia\n              {compose}\n")),
            "{reserved}"
        );
        let ends = limit.map(|count| format!("limits:\n          nvidia.com/gpu: {count}\n"));
        match (text(Form::Kubernetes), ends) {
            (Some(text), Some(end)) => assert!(text.ends_with(&end), "{text}"),
            (text, end) => assert_eq!(text, end, "{}", published.source),
        }
    }
}

/// A form that claims to say the same is read back as the same.
#[test]
fn what_is_written_is_read_back() {
    let mut compared = 0;
    for published in PUBLISHED.iter().filter(|published| published.is_literal()) {
        let translated = read(published.line);
        for written in translated
            .forms
            .iter()
            .filter(|written| written.form < Form::Compose)
        {
            let (Some(text), true) = (&written.text, written.differences.is_empty()) else {
                continue;
            };
            let back = translate(text, &[written.form])
                .unwrap_or_else(|e| panic!("{}: {e:?}\n{text}", published.source));
            assert_eq!(
                back.request, translated.request,
                "{}\n{text}",
                published.source
            );
            assert_eq!(
                back.forms[0].text.as_ref(),
                Some(text),
                "{}: it is not written in the same way again",
                published.source
            );
            compared += 1;
        }
    }
    assert!(compared > 60, "{compared}");
}
