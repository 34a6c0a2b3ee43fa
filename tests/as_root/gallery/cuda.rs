//! Toolkits and cuDNN: how shells, compilers and programs find them.

use super::case::{Case, Stage, sick, twin};

pub const CASES: &[Case] = &[
    // GS507: whose libcuda.
    sick(
        "the linker's stub stands where the driver's libcuda belongs",
        "library $lib/stubs/libcuda.so libcuda.so.1; echo $lib/stubs >/etc/ld.so.conf.d/00-cuda-stubs.conf; ldconfig",
        &["GS507 fail"],
        "GS507: grep -rn /usr/local/cuda-12.4/targets/x86_64-linux/lib/stubs",
    ),
    sick(
        "a profile leads every program to the stubs",
        "echo 'export LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs:$LD_LIBRARY_PATH' >/etc/profile.d/build.sh",
        &["GS507 fail"],
        "GS507: sudoedit /etc/profile.d/build.sh",
    ),
    sick(
        "a compat package that is older than the driver",
        "compat=/usr/local/cuda-12.4/compat; library $compat/libcuda.so.525.147.05 libcuda.so.1
         ln -s libcuda.so.525.147.05 $compat/libcuda.so.1; echo $compat >/etc/ld.so.conf.d/00-compat.conf; ldconfig",
        &["GS507 fail"],
        "GS507: grep -rn /usr/local/cuda-12.4/compat",
    ),
    sick(
        "a compat package on a card that is none of a data centre's",
        "device 2204; loads $V; compat=/usr/local/cuda-12.8/compat; library $compat/libcuda.so.570.211.01 libcuda.so.1
         ln -s libcuda.so.570.211.01 $compat/libcuda.so.1; echo $compat >/etc/ld.so.conf.d/00-compat.conf; ldconfig",
        &["GS507 fail"],
        "GS507: grep -rn /usr/local/cuda-12.8/compat",
    ),
    twin(
        "a compat package for newer programs on an A100's older driver",
        &["GS507"],
        "compat=/usr/local/cuda-12.8/compat; library $compat/libcuda.so.570.211.01 libcuda.so.1
         ln -s libcuda.so.570.211.01 $compat/libcuda.so.1; echo $compat >/etc/ld.so.conf.d/00-compat.conf; ldconfig",
    ),
    twin("stubs that are for the linker only", &["GS507"], "library $lib/stubs/libcuda.so libcuda.so.1; ldconfig"),
    // GS709: the compiler.
    sick(
        "two releases lie over each other",
        "sed -i 's/12\\.4\\.1/12.6.3/' /usr/local/cuda-12.4/version.json",
        &["GS709 fail"],
        "GS709: gpusetup plan --profile toolkit",
    ),
    sick(
        "an nvcc that was cut off when the disk was full",
        "truncate -s 100000 /usr/local/cuda-12.4/bin/nvcc",
        &["GS709 fail"],
        "GS709: gpusetup plan --profile toolkit",
    ),
    twin(
        "a second toolkit of runtime libraries only",
        &["GS709", "GS701"],
        "mkdir -p /usr/local/cuda-11.8/lib64; library /usr/local/cuda-11.8/lib64/libcudart.so.11.8.89 libcudart.so.11.0
         echo '{\"cuda\": {\"name\": \"CUDA SDK\", \"version\": \"11.8.0\"}}' >/usr/local/cuda-11.8/version.json",
    ),
    // GS704: LD_LIBRARY_PATH.
    sick(
        "a profile that sets LD_LIBRARY_PATH for all",
        "echo 'export LD_LIBRARY_PATH=/usr/local/cuda/lib64:$LD_LIBRARY_PATH' >/etc/profile.d/cuda.sh",
        &["GS704 warn"],
        "GS704: sudoedit /etc/profile.d/cuda.sh",
    ),
    sick(
        "LD_LIBRARY_PATH in the environment of every login",
        "echo 'LD_LIBRARY_PATH=\"/usr/local/cuda/lib64\"' >>/etc/environment",
        &["GS704 warn"],
        "GS704: sudoedit /etc/environment",
    ),
    twin(
        "LD_LIBRARY_PATH in one user's own profile, and in a remark",
        &["GS704"],
        "echo '#LD_LIBRARY_PATH=/usr/local/cuda/lib64' >/etc/profile.d/cuda.sh
         echo 'export LD_LIBRARY_PATH=/usr/local/cuda/lib64' >>/root/.bashrc",
    ),
    // GS705: the host compiler.
    sick(
        "a gcc that nvcc does not take",
        "newer_gcc",
        &["GS705 fail"],
        "GS705: sudo ln -sfn /usr/bin/gcc-13",
    ),
    twin(
        "a gcc that nvcc does not take, and one for nvcc",
        &["GS705"],
        "newer_gcc; echo 'export NVCC_PREPEND_FLAGS=\"-ccbin /usr/bin/g++-12\"' >>/etc/profile.d/gpusetup-cuda.sh",
    ),
    sick(
        "nvcc is given a gcc by number, which links no C++ library",
        "echo 'export NVCC_PREPEND_FLAGS=\"-ccbin /usr/bin/gcc-12\"' >>/etc/profile.d/gpusetup-cuda.sh",
        &["GS705 fail"],
        "GS705: sudoedit /etc/profile.d/gpusetup-cuda.sh",
    ),
    sick(
        "a gcc without the part that compiles C++",
        "rm $(gcc -print-prog-name=cc1plus)",
        &["GS705 fail"],
        "GS705: sudo apt-get install g++",
    ),
    sick(
        "a toolkit without the headers of its runtime",
        "rm /usr/local/cuda-12.4/targets/x86_64-linux/include/cuda_runtime.h",
        &["GS709 fail"],
        "GS709: gpusetup plan --profile toolkit",
    ),
    // GS701: the default toolkit.
    sick(
        "the link to the default toolkit is gone",
        "rm /usr/local/cuda",
        &["GS701 fail", "GS708 fail < GS701", "GS703 fail < GS708"],
        "GS701: cuda-12.4 /usr/local/cuda",
    ),
    sick(
        "the default toolkit is one that was removed",
        "ln -sfn cuda-12.2 /usr/local/cuda",
        &["GS701 fail", "GS708 fail < GS701", "GS703 fail < GS708"],
        "GS701: cuda-12.4 /usr/local/cuda",
    ),
    sick(
        "login shells do not find nvcc",
        "rm /etc/profile.d/gpusetup-cuda.sh",
        &["GS701 fail"],
        "GS701: gpusetup doctor --fix",
    ),
    sick(
        "the distribution's nvcc is what cron and units find",
        "printf '#!/bin/sh\\necho Cuda compilation tools, release 11.8, V11.8.89\\n' >/usr/bin/nvcc; chmod 755 /usr/bin/nvcc",
        &["GS701 warn"],
        "GS701: /usr/local/cuda/bin/nvcc --version",
    ),
    twin(
        "the default toolkit by way of alternatives",
        &["GS701", "GS708"],
        "update-alternatives --install /usr/local/cuda cuda /usr/local/cuda-12.4 124 >&2 || true
         rm /usr/local/cuda; ln -s /usr/local/cuda-12.4 /etc/alternatives/cuda; ln -s /etc/alternatives/cuda /usr/local/cuda",
    ),
    twin("a host without a toolkit", &["GS701", "GS702", "GS703", "GS708"], "rm -r /usr/local/cuda*; rm /etc/profile.d/gpusetup-cuda.sh
         rm /etc/ld.so.conf.d/gpusetup-cuda.conf; ldconfig"),
    // GS702: cuDNN's links.
    sick(
        "the link that cuDNN is loaded by is gone",
        "rm $lib/libcudnn.so.9",
        &["GS702 fail", "GS708 fail < GS702", "GS703 fail < GS702"],
        "GS702: libcudnn.so.9.10.2 /usr/local/cuda-12.4/targets/x86_64-linux/lib/libcudnn.so.9",
    ),
    sick(
        "copies in place of links, as cp without -P makes them",
        "cd $lib; for name in libcudnn*.so.9; do cp --remove-destination $name.10.2 $name; cp --remove-destination $name.10.2 ${name%.9}; done
         ldconfig >&2",
        &["GS702 fail"],
        "GS702: sudo ln -s",
    ),
    sick(
        "a library that was lost, and the links to it",
        "rm $lib/libcudnn_ops.so.9.10.2",
        &["GS702 fail", "GS708 fail < GS702"],
        "GS702: sudo gpusetup apply --profile toolkit",
    ),
    twin(
        "cuDNN from NVIDIA's packages, with alternatives",
        &["GS702", "GS708", "GS703"],
        "rm $lib/libcudnn*; rm /usr/local/cuda/include/cudnn*
         library $system/libcudnn.so.9.10.2 libcudnn.so.9 'unsigned long cudnnGetVersion(void) { return 91002; }'
         ln -s libcudnn.so.9.10.2 $system/libcudnn.so.9
         update-alternatives --install $system/libcudnn.so libcudnn_so $system/libcudnn.so.9 900 >&2; ldconfig",
    ),
    // GS708: the loader's cache.
    sick(
        "nobody ran ldconfig after cuDNN came",
        "mv $lib/libcudnn* /root; ldconfig; mv /root/libcudnn* $lib",
        &["GS708 fail", "GS703 fail < GS708"],
        "GS708: sudo ldconfig",
    ),
    sick(
        "the toolkit's folder is not on the loader's path",
        "rm /etc/ld.so.conf.d/gpusetup-cuda.conf; ldconfig",
        &["GS708 fail", "GS703 fail < GS708"],
        "GS708: /etc/ld.so.conf.d/gpusetup-cuda.conf",
    ),
    sick("there is no loader's cache", "rm /etc/ld.so.cache", &["GS708 fail", "GS703 fail < GS708"], "GS708: sudo ldconfig"),
    sick(
        "the cache still names a cuDNN that was removed",
        "rm $lib/libcudnn*",
        &["GS708 fail"],
        "GS708: sudo ldconfig",
    ),
    // GS703: which cuDNN.
    sick(
        "an older cuDNN stands before the toolkit's",
        "library /opt/old/libcudnn.so.9.1.0 libcudnn.so.9 'unsigned long cudnnGetVersion(void) { return 90100; }'
         echo /opt/old >/etc/ld.so.conf.d/00-old.conf; ldconfig",
        &["GS703 fail"],
        "GS703: grep -rn /opt/old",
    ),
    sick(
        "a newer cuDNN stands before the toolkit's",
        "library /opt/new/libcudnn.so.9.99.0 libcudnn.so.9 'unsigned long cudnnGetVersion(void) { return 99900; }'
         echo /opt/new >/etc/ld.so.conf.d/00-new.conf; ldconfig",
        &["GS703 warn"],
        "GS703: grep -rn /opt/new",
    ),
    twin(
        "another toolkit has another cuDNN, on nobody's path",
        &["GS703", "GS708"],
        "old=/usr/local/cuda-12.2/targets/x86_64-linux/lib
         library $old/libcudnn.so.8.9.7 libcudnn.so.8 'unsigned long cudnnGetVersion(void) { return 8907; }'
         ln -s libcudnn.so.8.9.7 $old/libcudnn.so.8; ln -s targets/x86_64-linux/lib /usr/local/cuda-12.2/lib64
         echo '{\"cuda\": {\"name\": \"CUDA SDK\", \"version\": \"12.2.2\"}}' >/usr/local/cuda-12.2/version.json",
    ),
    twin(
        "a framework brings its own cuDNN",
        &["GS703"],
        "library /usr/lib/python3/dist-packages/nvidia/cudnn/lib/libcudnn.so.9 libcudnn.so.9",
    ),
    sick("no GPU on the bus, and no driver", "rm -r $bus/*", &["GS509 warn"], "GS509: lspci -d 10de:").on(Stage::Bare),
];
