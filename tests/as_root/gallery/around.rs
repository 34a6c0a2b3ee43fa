//! What stands around driver and toolkit: NVIDIA's repositories, containers, the bus between GPUs,
//! memory that is shared.

use super::case::{Case, sick, twin};

pub const CASES: &[Case] = &[
    // GS404: repositories and their keys.
    sick(
        "the key of NVIDIA's repository was removed",
        "repository cuda-archive-keyring.gpg",
        &["GS404 fail"],
        "GS404: wget https://developer.download.nvidia.com",
    ),
    sick(
        "a proxy's page in place of the key",
        "echo '<html><body>Sign in</body></html>' >/usr/share/keyrings/cuda-archive-keyring.gpg
         repository cuda-archive-keyring.gpg",
        &["GS404 fail"],
        "GS404: wget https://developer.download.nvidia.com",
    ),
    sick(
        "a key in the other form than its name says",
        "cp /usr/share/keyrings/debian-archive-keyring.gpg /usr/share/keyrings/cuda-archive-keyring.asc
         repository cuda-archive-keyring.asc",
        &["GS404 fail"],
        "GS404: wget https://developer.download.nvidia.com",
    ),
    sick(
        "one repository in two files, each with another key",
        "cp /usr/share/keyrings/debian-archive-keyring.gpg /usr/share/keyrings/cuda-archive-keyring.gpg
         repository cuda-archive-keyring.gpg
         sed 's/ .signed-by[^ ]*//' /etc/apt/sources.list.d/cuda.list >/etc/apt/sources.list.d/old.list",
        &["GS404 fail"],
        "GS404: grep -n",
    ),
    twin(
        "NVIDIA's repository, and a key that apt can read",
        &["GS404"],
        "cp /usr/share/keyrings/debian-archive-keyring.gpg /usr/share/keyrings/cuda-archive-keyring.gpg
         repository cuda-archive-keyring.gpg",
    ),
    // GS803: containers.
    sick(
        "docker's configuration has a comma too many",
        "engine; echo '{\"runtimes\": {\"nvidia\": {\"path\": \"nvidia-container-runtime\"}},}' >/etc/docker/daemon.json",
        &["GS803 fail"],
        "GS803: sudo cat -n /etc/docker/daemon.json",
    ),
    sick(
        "docker has a key that it does not know",
        "engine; dockerd_refuses; echo '{\"x\": 1}' >/etc/docker/daemon.json",
        &["GS803 fail"],
        "GS803: sudo cat -n /etc/docker/daemon.json",
    ),
    sick(
        "docker is told of a runtime that was removed",
        "engine; echo '{\"runtimes\": {\"nvidia\": {\"path\": \"/usr/bin/nvidia-container-runtime\"}}}' >/etc/docker/daemon.json",
        &["GS803 fail"],
        "GS803: grep -n nvidia /etc/docker/daemon.json",
    ),
    sick(
        "the description of GPUs for containers is of the driver before",
        "engine; described $system/libcuda.so.535.247.01",
        &["GS803 fail"],
        "GS803: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
    ),
    twin(
        "the description of GPUs for containers is of this driver",
        &["GS803"],
        "engine; described $system/nvidia/current/libcuda.so.$V",
    ),
    twin("docker for other ends than GPUs", &["GS803"], "engine; rm /usr/bin/nvidia-ctk"),
    // GS804: GPUDirect RDMA.
    sick(
        "an RDMA adapter, proprietary modules, and no nvidia-peermem",
        "mkdir -p /sys/class/infiniband/mlx5_0; echo '0000000000000000 T ib_register_client' >$live/proc/kallsyms",
        &["GS804 warn"],
        "GS804: gpusetup plan --profile driver --modules open --upgrade",
    ),
    twin("an InfiniBand class without an adapter", &["GS804"], "mkdir -p /sys/class/infiniband"),
    // GS805: what was installed on request.
    sick(
        "boots load nvidia-peermem, and it is not there",
        "echo nvidia-peermem >/etc/modules-load.d/nvidia-peermem.conf",
        &["GS805 warn"],
        "GS805: modprobe nvidia-peermem",
    ),
    sick(
        "nvidia-fs was built for the driver before",
        "storage 525.147.05",
        &["GS805 fail"],
        "GS805: dkms build nvidia-fs/2.28.4",
    ),
    twin("nvidia-fs was built for this driver", &["GS805"], "storage $V"),
    twin(
        "nvidia-fs is installed, and boots do not load it",
        &["GS805"],
        "storage $V; rm /etc/modules-load.d/nvidia-fs.conf",
    ),
    // GS902: the bus between GPUs.
    sick(
        "the IOMMU translates between two boards",
        "boards; echo DMA-FQ | tee $gpu/iommu_group/type >$bus/0000:18:00.0/iommu_group/type",
        &["GS902 warn"],
        "GS902: /etc/default/grub",
    ),
    sick(
        "a switch sends what GPUs say by way of the processor",
        "boards; port '\\035'",
        &["GS902 warn"],
        "GS902: sudo setpci -s 0000:16:00.0",
    ),
    twin("two boards that speak freely", &["GS902"], "boards; port '\\021'"),
    twin("one board, whose IOMMU is on", &["GS902"], "mkdir $gpu/iommu_group; echo DMA-FQ >$gpu/iommu_group/type"),
    // GS909: memory that is shared.
    sick(
        "Kubernetes counts a GH200's memory as the host's",
        "open_modules; device 2342; loads $V; mkdir -p /var/lib/kubelet",
        &["GS909 warn"],
        "GS909: gpusetup plan --upgrade",
    ),
    twin("a GH200 without Kubernetes", &["GS909"], "open_modules; device 2342; loads $V"),
    twin(
        "a GH200 whose driver keeps its memory to itself",
        &["GS909"],
        "open_modules; device 2342; loads $V; mkdir -p /var/lib/kubelet $live/proc/driver/nvidia
         echo 'CoherentGPUMemoryMode: \"driver\"' >$live/proc/driver/nvidia/params",
    ),
];
