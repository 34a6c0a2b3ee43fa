//! The driver as a whole: which GPUs it knows, where it comes from, whether it is loaded, what
//! belongs to it.

use super::case::{Case, Stage, sick, twin};

pub const CASES: &[Case] = &[
    // GS503, GS504: the GPU and the driver.
    sick(
        "a B200 is younger than its driver",
        "device 2901
         says 'NVRM: The NVIDIA GPU 0000:17:00.0 (PCI ID: 10de:2901)' \
             \"NVRM: installed in this system is not supported by the NVIDIA $V driver release.\" \
             'nvidia: probe of 0000:17:00.0 failed with error -1'",
        &["GS503 fail", "GS504 fail < GS503", "GS501 fail < GS503", "GS709 fail < GS503"],
        "GS503: gpusetup plan",
    ),
    sick(
        "a B200 was put beside an A100",
        "another 0000:18:00.0 10de 2901 030200
         says 'NVRM: The NVIDIA GPU 0000:18:00.0 (PCI ID: 10de:2901)' \
             \"NVRM: installed in this system is not supported by the NVIDIA $V driver release.\"",
        &["GS503 fail", "GS504 fail < GS503", "GS501 fail < GS503", "GS709 fail < GS503"],
        "GS503: gpusetup plan",
    ),
    sick(
        "a GT 710 needs an older driver",
        "device 128b
         says 'NVRM: The NVIDIA GeForce GT 710 GPU installed in this system is' \
             'NVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please' \
             'NVRM:  visit http://www.nvidia.com/object/unix.html for more information.'",
        &["GS503 fail", "GS501 fail < GS503", "GS709 fail < GS503"],
        "GS503: gpusetup plan --driver 470",
    ),
    sick("a GPU that nobody has heard of", "device 2fff 0001; loads $V", &["GS503 warn"], "GS503: lspci"),
    twin(
        "a T4, and the sound function of another card",
        &["GS503"],
        "device 1eb8; loads $V; another 0000:18:00.0 10de 2204 030000; bind nvidia $bus/0000:18:00.0
         another 0000:18:00.1 10de 1aef 040300; bind snd_hda_intel $bus/0000:18:00.1",
    ),
    twin(
        "a GPU that was refused before the right driver came",
        &["GS503", "GS504"],
        "boots $K
         says 'NVRM: The NVIDIA GPU 0000:17:00.0 (PCI ID: 10de:20b0)' \
             'NVRM: installed in this system is not supported by the NVIDIA 418.226.00 driver release.' \
             'NVRM: The NVIDIA GPU 0000:17:00.0 (PCI ID: 10de:20b0)' \
             'NVRM: installed in this system requires use of the NVIDIA open kernel modules.'
         loads $V",
    ),
    sick(
        "a GH200 under proprietary modules",
        "device 2342
         says 'NVRM: The NVIDIA GPU 0000:17:00.0 (PCI ID: 10de:2342)' \
             'NVRM: installed in this system requires use of the NVIDIA open kernel modules.'",
        &["GS504 fail", "GS501 fail < GS504"],
        "GS504: gpusetup plan --modules open",
    ),
    sick(
        "a V100 under open modules",
        "open_modules; device 1db6
         says 'NVRM: GPU 0000:17:00.0: is not supported by open nvidia.ko because it does not include the required GPU'",
        &["GS504 fail", "GS501 fail < GS504"],
        "GS504: gpusetup plan --modules proprietary",
    ),
    twin("an A100 under open modules", &["GS504"], "open_modules"),
    // GS401: two drivers over each other.
    sick(
        "a runfile's driver over the packages'",
        "library $system/libcuda.so.550.54.15 libcuda.so.1; library $system/libnvidia-ml.so.550.54.15 libnvidia-ml.so.1
         rm $system/libcuda.so.1; ldconfig; printf '#!/bin/sh\\n' >/usr/bin/nvidia-uninstall; chmod 755 /usr/bin/nvidia-uninstall
         printf '%s\\n' \"nvidia-installer log file '/var/log/nvidia-installer.log'\" 'installer version: 550.54.15' \
             >/var/log/nvidia-installer.log",
        &["GS401 fail", "GS104 fail < GS401", "GS501 fail < GS104"],
        "GS401: sudo nvidia-uninstall",
    ),
    sick(
        "a runfile's driver over packages of the same version",
        "mkdir -p /var/lib/nvidia; printf '#!/bin/sh\\n' >/usr/bin/nvidia-uninstall; chmod 755 /usr/bin/nvidia-uninstall
         printf '%s\\n' \"1.0-1 ($V)\" \"NVIDIA Accelerated Graphics Driver for Linux-x86_64 ($V)\" >/var/lib/nvidia/log",
        &["GS401 fail"],
        "GS401: sudo nvidia-uninstall",
    ),
    sick(
        "an update of the packages that came half the way",
        "library $system/libnvidia-ml.so.535.104.05 libnvidia-ml.so.1; ldconfig",
        &["GS401 fail"],
        "GS401: sudo dpkg -S",
    ),
    twin(
        "another driver beside the first, by Debian's alternatives",
        &["GS401"],
        "for name in libcuda libnvidia-ml; do
           library $system/nvidia/tesla-470/$name.so.470.256.02 $name.so.1
         done
         update-alternatives --install /usr/lib/nvidia/nvidia nvidia /usr/lib/nvidia/tesla-470 470 >&2 || true
         ldconfig",
    ),
    twin(
        "the log of a runfile that is gone",
        &["GS401"],
        "printf '%s\\n' \"nvidia-installer log file '/var/log/nvidia-installer.log'\" 'installer version: 550.54.15' \
             '-> Uninstallation of existing driver: NVIDIA Accelerated Graphics Driver' >/var/log/nvidia-installer.log",
    ),
    twin(
        "a compat package's libcuda that is on nobody's path",
        &["GS401", "GS507"],
        "library /usr/local/cuda-12.4/compat/libcuda.so.550.54.15 libcuda.so.1
         ln -s libcuda.so.550.54.15 /usr/local/cuda-12.4/compat/libcuda.so.1; ldconfig",
    ),
    // GS203: a GPU for a virtual machine.
    sick("the only GPU is held for a virtual machine", "boots $K; bind vfio-pci", &["GS203 warn"], "GS203: echo 0000:17"),
    sick(
        "one of two GPUs is held for a virtual machine",
        "another 0000:18:00.0 10de 20b0 030200; bind vfio-pci $bus/0000:18:00.0",
        &["GS203 warn"],
        "GS203: echo 0000:18",
    ),
    twin(
        "a network card is held for a virtual machine",
        &["GS203"],
        "another 0000:19:00.0 15b3 101e 020000; bind vfio-pci $bus/0000:19:00.0",
    ),
    // GS204: what keeps NVIDIA's own modules out.
    sick(
        "prime-select intel switched the driver off",
        "boots $K; bind ''; printf 'blacklist nvidia\\nalias nvidia off\\n' >/etc/modprobe.d/blacklist-nvidia.conf",
        &["GS204 fail", "GS501 fail < GS204"],
        "GS204: sudo sed -i '1d;2d' /etc/modprobe.d/blacklist-nvidia.conf",
    ),
    sick(
        "the command line keeps the driver out",
        "boots $K; bind ''; echo \"$(cat $live/proc/cmdline) module_blacklist=nvidia\" >$live/proc/cmdline",
        &["GS204 fail", "GS501 fail < GS204"],
        "GS204: sudo grep -rnF module_blacklist=nvidia",
    ),
    sick(
        "a tree in which nothing loads the driver",
        "rm -r $live; echo 'install nvidia /bin/false' >/etc/modprobe.d/own.conf",
        &["GS204 fail"],
        "GS204: sudo sed -i 1d",
    )
    .in_a_tree(),
    twin(
        "options of the driver, and a line that loads another module first",
        &["GS204"],
        "printf 'options nvidia NVreg_DeviceFileMode=0666\\ninstall nvidia /sbin/modprobe --ignore-install nvidia\\nblacklist nvidiafb\\n' \\
             >/etc/modprobe.d/own.conf",
    ),
    // GS301: Secure Boot.
    sick(
        "Secure Boot, and a module that nobody signed",
        "boots $K; bind ''; secure_boot; says 'Loading of unsigned module is rejected'",
        &["GS301 fail", "GS501 fail < GS301"],
        "GS301: sudo mokutil --import",
    ),
    sick(
        "Secure Boot, and a key that the firmware does not know",
        "boots $K; bind ''; secure_boot; signed; says 'Loading of module with unavailable key is rejected'",
        &["GS301 fail", "GS501 fail < GS301"],
        "GS301: sudo mokutil --import",
    ),
    sick(
        "a key that waits to be enrolled, and a log that has turned over",
        "boots $K; bind ''; secure_boot; signed; variable MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23 another",
        &["GS301 fail", "GS501 fail < GS301"],
        "GS301: sudo mokutil --import",
    ),
    twin("Secure Boot, and a module that is signed", &["GS301", "GS501"], "secure_boot; signed; enrolled"),
    twin(
        "a module that nobody signed, and a firmware that does not ask",
        &["GS301"],
        "variable SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c '\\000'",
    ),
    twin(
        "Secure Boot that a person has switched off in shim",
        &["GS301"],
        "secure_boot; variable MokSBStateRT-605dab50-e046-4300-abb6-3dd810dd8b23 '\\001'",
    ),
    // GS501: what is loaded.
    sick(
        "the libraries were updated, and nobody has booted since",
        "boots $K; loads 535.247.01
         says 'NVRM: API mismatch: the client has the version 535.309.01, but' \
             'NVRM: this kernel module has the version 535.247.01.  Please'",
        &["GS501 fail"],
        "GS501: sudo reboot",
    ),
    sick(
        "the initramfs brings the module of the driver before at every boot",
        "boots $K; loads 535.247.01; sleep 1; echo \"btime $(date +%s)\" >$live/proc/stat",
        &["GS501 fail"],
        "GS501: sudo update-initramfs -u -k KERNEL",
    ),
    sick("the module was taken out of the kernel", "boots $K; bind ''", &["GS501 fail"], "GS501: sudo modprobe nvidia"),
    sick(
        "one of two GPUs was not taken",
        "another 0000:18:00.0 10de 20b0 030200",
        &["GS501 fail"],
        "GS501: echo 0000:18:00.0",
    ),
    sick("a toolkit lacks fixes", "", &["GS513 warn"], "GS513: gpusetup plan --cuda 13.1"),
    sick("the driver's branch is over", "", &["GS510 warn"], "GS510: gpusetup plan --profile driver --driver 580"),
    sick("a GPU and no driver", "", &["GS501 fail"], "GS501: gpusetup plan").on(Stage::Bare),
    twin(
        "a container on another's driver",
        &["GS501", "GS101", "GS104", "GS407", "GS510", "GS513"],
        "mkdir -p /run/systemd; echo docker >/run/systemd/container; rm -r /lib/modules/* /boot/*; mkdir /lib/modules/x",
    )
    .on(Stage::Bare),
    twin(
        "WSL2, where Windows drives the GPU",
        &["GS201", "GS501", "GS509", "GS906"],
        "wsl2",
    )
    .on(Stage::Bare),
    twin(
        "a Jetson, whose driver came with its board",
        &["GS501", "GS907"],
        "rm -r $bus/*; echo '# R36 (release), REVISION: 4.0' >/etc/nv_tegra_release",
    )
    .on(Stage::Bare),
    twin("an image that was never booted", &["GS501", "GS506"], "rm -r $live; bind nvidia").in_a_tree(),
    // GS407, GS506: what belongs to the driver.
    sick("nvidia-smi was not installed along", "dpkg -r nvidia-smi >&2", &["GS407 fail"], "GS407: nvidia-smi"),
    sick(
        "nvidia-smi leads nowhere",
        "rm /usr/lib/nvidia/current/nvidia-smi",
        &["GS407 fail"],
        "GS407: ",
    ),
    twin(
        "nvidia-smi below /usr/local",
        &["GS407"],
        "cp /usr/lib/nvidia/current/nvidia-smi /usr/local/bin/; dpkg -r nvidia-smi >&2",
    ),
    sick(
        "nothing makes the device that CUDA speaks to",
        "dpkg -r --force-depends nvidia-modprobe >&2; rm $live/dev/nvidia-uvm",
        &["GS506 fail"],
        "GS506: sudo modprobe nvidia-uvm",
    ),
    twin("no program has asked for CUDA's device yet", &["GS506"], "rm $live/dev/nvidia-uvm"),
    // GS801: NVSwitches.
    sick(
        "NVSwitches and no Fabric Manager",
        "another 0000:07:00.0 10de 1af1 068000",
        &["GS801 fail"],
        "GS801: sudo apt-get install 'nvidia-fabricmanager-535=",
    ),
    sick(
        "a Fabric Manager of another version",
        "another 0000:07:00.0 10de 1af1 068000; fabric_manager 535.247.01 active",
        &["GS801 fail"],
        "GS801: sudo apt-get install 'nvidia-fabricmanager-535=",
    ),
    sick(
        "a Fabric Manager that does not run",
        "another 0000:07:00.0 10de 1af1 068000; fabric_manager $V inactive",
        &["GS801 fail"],
        "GS801: sudo systemctl",
    ),
    twin(
        "a Fabric Manager as it should be",
        &["GS801"],
        "another 0000:07:00.0 10de 1af1 068000; fabric_manager $V active",
    ),
    twin("another maker's PCI switch", &["GS801"], "another 0000:07:00.0 1000 c010 060400"),
];
