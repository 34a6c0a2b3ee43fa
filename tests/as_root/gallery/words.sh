#!/bin/sh
# The words that the gallery's cases are told in. They run inside of a clone, before gpusetup looks at it. What a kernel shows of
# itself while it runs lies below /live, where a case may change it, until `running` puts it in its place.
# shellcheck disable=SC2034 # many names are for the cases only
live=/live
K=$(cat $live/proc/sys/kernel/osrelease 2>/dev/null || echo "$KERNEL")
V=$(dpkg-query -W -f '${source:Upstream-Version}' libcuda1 2>/dev/null || true)
gpu=/sys/devices/pci0000:16/0000:16:00.0/0000:17:00.0
bus=/sys/bus/pci/devices
lib=/usr/local/cuda-12.4/targets/x86_64-linux/lib
system=/usr/lib/x86_64-linux-gnu
dkms=/lib/modules/$K/updates/dkms

# says LINE...: the kernel says so
# Each line has another time: lines with the time of another program's message count as part of that message.
says() { for line in "$@"; do printf '[   12.%06d] %s\n' "$(grep -c '' $live/log || true)" "$line" >>$live/log; done; }

# bind DRIVER [GPU]: this driver has the GPU; none where it is ''
bind() {
  rm -f "${2:-$gpu}/driver"
  [ -z "$1" ] || { mkdir -p "/sys/bus/pci/drivers/$1" && ln -s "../../../../bus/pci/drivers/$1" "${2:-$gpu}/driver"; }
}

# boots KERNEL: the host runs, nothing of NVIDIA's in its kernel yet
boots() {
  rm -rf $live /sys/module/nvidia
  mkdir -p $live/proc/sys/kernel $live/dev
  echo "$1" >$live/proc/sys/kernel/osrelease
  echo "BOOT_IMAGE=/boot/vmlinuz-$1 root=/dev/sda1 ro quiet" >$live/proc/cmdline
  echo 'btime 1600000000' >$live/proc/stat
  echo 'nvme 61440 1 - Live 0x0000000000000000' >$live/proc/modules
  printf '[    0.000000] %s\n' "Linux version $1" 'Command line: ro quiet' 'nvme nvme0: pci function 0000:01:00.0' >$live/log
}

# loads VERSION: NVIDIA's driver comes into the kernel, and has the GPU
loads() {
  says 'nvidia: loading out-of-tree module taints kernel.' \
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  $1  Wed Nov 18 10:00:00 UTC 2026" \
    '[drm] [nvidia-drm] [GPU ID 0x00001700] Loading driver'
  printf '%s 1531904 0 - Live 0x0000000000000000 (POE)\n' nvidia_uvm nvidia >>$live/proc/modules
  mkdir -p /sys/module/nvidia
  echo "$1" >/sys/module/nvidia/version
  touch $live/dev/nvidia0 $live/dev/nvidiactl $live/dev/nvidia-uvm
  bind nvidia
}

# storage VERSION: GPUDirect Storage, whose module was built for this driver
storage() {
  package nvidia-fs 2.28.4-1 :
  dpkg -i /root/nvidia-fs.deb >&2
  echo nvidia-fs >/etc/modules-load.d/nvidia-fs.conf
  echo 'nvidia_fs 319488 0 - Live 0x0000000000000000 (OE)' >>$live/proc/modules
  mkdir -p "/var/lib/dkms/nvidia-fs/2.28.4/$K/x86_64/log"
  echo "Picking NVIDIA driver sources from NVIDIA_SRC_DIR=/usr/src/nvidia-$1/nvidia." \
    >"/var/lib/dkms/nvidia-fs/2.28.4/$K/x86_64/log/make.log"
}

# node: a node of Kubernetes, whose containerd knows NVIDIA's runtime
node() {
  engine
  mkdir -p /etc/containerd
  printf '#!/bin/sh\n' >/usr/bin/containerd
  chmod 755 /usr/bin/containerd
  cp /usr/bin/containerd /usr/bin/kubelet
  touch /usr/bin/nvidia-container-runtime
  chmod 755 /usr/bin/nvidia-container-runtime
  cat >/etc/containerd/config.toml <<'CONFIG'
version = 2
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
options.BinaryName = "/usr/bin/nvidia-container-runtime"
CONFIG
}

# slurm: a node of Slurm, on a host with slurmd, that knows the eight GPUs of a host that runs, and keeps jobs to theirs
slurm() {
  for number in 0 1 2 3 4 5 6 7; do
    rm -f "$live/dev/nvidia$number"
    mknod "$live/dev/nvidia$number" c 195 "$number"
  done
  mkdir -p /etc/slurm
  printf '%s\n' ClusterName=t SlurmctldHost=localhost GresTypes=gpu TaskPlugin=task/cgroup \
    "NodeName=$(hostname) Gres=gpu:8" >/etc/slurm/slurm.conf
  echo 'Name=gpu File=/dev/nvidia[0-7]' >/etc/slurm/gres.conf
  # slurmd looks for the kind of the machine's cgroups, which a clone does not show, unless it is told.
  printf '%s\n' CgroupPlugin=cgroup/v1 ConstrainDevices=yes >/etc/slurm/cgroup.conf
}

# os ID VERSION [VARIANT]: what os-release says of the system
os() {
  rm /etc/os-release
  printf 'PRETTY_NAME="%s %s"\nID=%s\nVERSION_ID="%s"\nVARIANT_ID=%s\n' "$1" "$2" "$1" "$2" "${3:-}" >/etc/os-release
}

# wsl2: WSL2, with the device and the library of Windows
wsl2() {
  rm -rf "${bus:?}"/*
  find /boot -mindepth 1 -delete
  boots 5.15.153.1-microsoft-standard-WSL2
  touch $live/dev/dxg
  mkdir -p /usr/lib/wsl/lib
  touch /usr/lib/wsl/lib/libcuda.so.1
}

# jetson: a Jetson, whose GPU is not on a PCI bus
jetson() {
  rm -rf "${bus:?}"/*
  echo '# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64' >/etc/nv_tegra_release
}

# chassis TYPE: the form of the machine in the firmware's tables: 10 is a notebook, 23 a server for racks
chassis() { mkdir -p /sys/class/dmi/id && echo "$1" >/sys/class/dmi/id/chassis_type; }

# desktop: a display manager, and the GPU of another vendor
desktop() {
  ln -s /usr/lib/systemd/system/gdm.service /etc/systemd/system/display-manager.service
  another 0000:18:00.0 8086 a7a0 030000
  bind i915 "$bus/0000:18:00.0"
}

# mode_setting Y|N: whether nvidia-drm sets modes
mode_setting() { mkdir -p /sys/module/nvidia_drm/parameters && echo "$1" >/sys/module/nvidia_drm/parameters/modeset; }

# enclosure AUTHORIZED: a case for a GPU on Thunderbolt
enclosure() {
  at=/sys/bus/thunderbolt/devices/0-1
  mkdir -p $at
  echo "$1" >$at/authorized
  echo Razer >$at/vendor_name
  echo 'Core X' >$at/device_name
}

# no_packages: the driver's files stay, and dpkg knows nothing of them
no_packages() {
  awk -v RS= -v ORS='\n\n' '!/^Package: (nvidia-|libnvidia-|libcuda1|xserver-xorg-video-nvidia|firmware-nvidia)/' \
    /var/lib/dpkg/status >/root/status
  mv /root/status /var/lib/dpkg/status
}

# settings STATES: the unit that gpusetup leaves for these settings of the GPUs
settings() {
  mkdir -p /etc/systemd/system/multi-user.target.wants
  unit=/etc/systemd/system/gpusetup-gpu-settings.service
  printf '%s\n' '[Service]' 'Type=oneshot' 'RemainAfterExit=yes' 'ExecStart=/bin/true' '[Install]' \
    'WantedBy=multi-user.target' '[X-gpusetup]' "States=$1" >$unit
  ln -sf $unit /etc/systemd/system/multi-user.target.wants/gpusetup-gpu-settings.service
}

# device ID [SUBSYSTEM]: this is the GPU, of which the running kernel has made nothing yet
device() {
  boots "$K"
  bind ''
  echo "0x$1" >$gpu/device
  [ -z "${2:-}" ] || echo "0x$2" >$gpu/subsystem_device
}

# another ADDRESS VENDOR DEVICE CLASS: one more device on the bus
another() {
  at=/sys/devices/pci0000:16/0000:16:00.0/$1
  mkdir -p "$at"
  for part in "vendor $2" "device $3" "class $4" 'subsystem_vendor 10de' 'subsystem_device 134f'; do
    echo "0x${part#* }" >"$at/${part% *}"
  done
  ln -s "../../../${at#/sys/}" "$bus/$1"
}

# library FILE SONAME [C]: a library
library() { mkdir -p "${1%/*}" && echo "${3:-}" | gcc -shared -x c - -Wl,-soname,"$2" -o "$1"; }

# module FILE VERSION LICENCE: a kernel module that says no more than this
module() {
  mkdir -p "${1%/*}"
  printf 'const char i[] __attribute__((section(".modinfo"))) = "license=%s\\0version=%s";' "$3" "$2" |
    gcc -c -x c - -o "$1"
}

# kernel RELEASE: one more kernel, with headers and an initramfs
kernel() {
  mkdir -p "/lib/modules/$1/kernel"
  cp "/lib/modules/$K"/modules.builtin* "/lib/modules/$K/modules.order" "/lib/modules/$1/"
  depmod "$1"
  ln -s "$(readlink "/lib/modules/$K/build")" "/lib/modules/$1/build"
  cp "/boot/config-$K" "/boot/config-$1"
  ln "/boot/vmlinuz-$K" "/boot/vmlinuz-$1"
  cp -p "/boot/initrd.img-$K" "/boot/initrd.img-$1"
}

# dkms_source NAME VERSION: a source that DKMS takes care of
dkms_source() {
  mkdir -p "/usr/src/$1-$2"
  cat >"/usr/src/$1-$2/dkms.conf" <<CONF
PACKAGE_NAME="$1"
PACKAGE_VERSION="$2"
BUILT_MODULE_NAME[0]="$1"
DEST_MODULE_LOCATION[0]="/updates/dkms"
AUTOINSTALL="yes"
CONF
  echo "obj-m := $1.o" >"/usr/src/$1-$2/Makefile"
  dkms add -m "$1" -v "$2" >&2
}

# package NAME VERSION SCRIPT: a package with this script to configure it
package() {
  mkdir -p "/root/$1/DEBIAN"
  printf 'Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: Tests\nDescription: a package\n' "$1" "$2" \
    >"/root/$1/DEBIAN/control"
  printf '#!/bin/sh\n%s\n' "$3" >"/root/$1/DEBIAN/postinst"
  chmod 755 "/root/$1/DEBIAN/postinst"
  dpkg-deb -b "/root/$1" "/root/$1.deb" >&2
}

# variable NAME-GUID BYTES: a variable of the firmware, with its attributes before it
variable() {
  mkdir -p /sys/firmware/efi/efivars
  # shellcheck disable=SC2059 # the bytes are the format
  printf "\\006\\000\\000\\000$2" >"/sys/firmware/efi/efivars/$1"
}
secure_boot() { variable SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c '\001'; }
enrolled() {
  variable MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23 ''
  cat /var/lib/dkms/mok.pub >>/sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23
}
signed() {
  "/usr/lib/linux-kbuild-${K%.*}/scripts/sign-file" sha512 /var/lib/dkms/mok.key /var/lib/dkms/mok.pub "$dkms/nvidia-current.ko"
}

# no_denials, denials: what keeps nouveau and nova out is taken aside, and comes back
no_denials() { mkdir -p /root/aside && mv /etc/modprobe.d/*nouveau.conf /root/aside/; }
denials() { mv /root/aside/*nouveau.conf /etc/modprobe.d/; }

# hangs PROGRAM: this program never comes to its end
hangs() {
  rm -f "$1"
  printf '#!/bin/sh\nsleep 600\n' >"$1"
  chmod 755 "$1"
}

# quick_images: every initramfs made from now on is a small one
quick_images() { echo MODULES=list >/etc/initramfs-tools/conf.d/quick; }

# image_with MODULE...: rebuilds the initramfs with these modules, and nothing forced into the kernel
image_with() {
  # shellcheck disable=SC2016 # the hook's own
  printf '#!/bin/sh\n[ "$1" != prereqs ] || exit 0\n. /usr/share/initramfs-tools/hook-functions\nmanual_add_modules %s\n' "$*" \
    >/etc/initramfs-tools/hooks/splash
  chmod 755 /etc/initramfs-tools/hooks/splash
  update-initramfs -u -k "$K" >&2
}

# open_modules: the open kernel modules in place of the proprietary ones
open_modules() {
  package nvidia-open-kernel-dkms "$(dpkg-query -W -f '${Version}' libcuda1)" 'exit 0'
  cp -a "/var/lib/dkms" /root/dkms
  dpkg -r --force-depends nvidia-kernel-dkms >&2
  rm -r /var/lib/dkms
  mv /root/dkms /var/lib/dkms
  dpkg -i /root/nvidia-open-kernel-dkms.deb >&2
  rm -rf "$dkms"
  module "$dkms/nvidia-current-open.ko" "$V" 'Dual MIT/GPL'
  depmod "$K"
}

# newer_gcc: the default gcc is one that no nvcc here takes
newer_gcc() {
  printf '#!/bin/sh\nexec /usr/bin/gcc-12 -U__GNUC__ -D__GNUC__=17 "$@"\n' >/usr/bin/gcc-17
  chmod 755 /usr/bin/gcc-17
  ln -sf gcc-17 /usr/bin/gcc
}

# fabric_manager VERSION STATE: Fabric Manager says that it is this, and systemd that its unit is so
fabric_manager() {
  printf '#!/bin/sh\necho "Fabric Manager version is : %s"\n' "$1" >/usr/bin/nv-fabricmanager
  rm /usr/bin/systemctl
  printf '#!/bin/sh\necho %s\n[ %s = active ] || exit 3\n' "$2" "$2" >/usr/bin/systemctl
  chmod 755 /usr/bin/nv-fabricmanager /usr/bin/systemctl
}

# repository KEYFILE: NVIDIA's repository for this system, by a key in this file
repository() {
  echo "deb [signed-by=/usr/share/keyrings/$1] https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/ /" \
    >/etc/apt/sources.list.d/cuda.list
}

# engine: docker, and NVIDIA's container toolkit
engine() {
  mkdir -p /etc/docker
  for program in docker dockerd nvidia-ctk; do
    printf '#!/bin/sh\n' >/usr/bin/$program
    chmod 755 /usr/bin/$program
  done
}

# dockerd_refuses: dockerd does not know the key x
dockerd_refuses() {
  cat >/usr/bin/dockerd <<'DAEMON'
#!/bin/sh
[ "$1" = --validate ] || exec echo 'Docker version 28.3.3, build 980b856'
echo "unable to configure the Docker daemon with file $3: the following directives don't match any configuration option: x"
exit 1
DAEMON
}

# described LIBRARY: the GPUs are described for containers, with this library
described() {
  mkdir -p /etc/cdi
  cat >/etc/cdi/nvidia.yaml <<CDI
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
containerEdits:
  mounts:
  - containerPath: $1
    hostPath: $1
CDI
}

# boards: two A100s in slots, below one switch
boards() {
  device 20f1
  loads "$V"
  another 0000:18:00.0 10de 20f1 030200
  bind nvidia "$bus/0000:18:00.0"
  mkdir "$gpu/iommu_group" "$bus/0000:18:00.0/iommu_group"
  echo identity | tee "$gpu/iommu_group/type" >"$bus/0000:18:00.0/iommu_group/type"
}

# port BYTE: the port above the GPUs, with this in its access control
port() {
  at=/sys/devices/pci0000:16/0000:16:00.0
  echo 0x1000 >$at/vendor
  truncate -s 4096 $at/config
  # shellcheck disable=SC2059 # the bytes are the format
  poke() { printf "$2" | dd of=$at/config bs=1 seek="$(($1))" conv=notrunc status=none; }
  # A bridge; its capabilities, of which the first is that of a switch's downstream port; behind them access control.
  poke 0x06 '\020'
  poke 0x0e '\001'
  poke 0x34 '\100'
  poke 0x40 '\020\000\142'
  poke 0x100 '\015\000\001\000'
  poke 0x106 "$1"
  ln -s "../../../${at#/sys/}" "$bus/0000:16:00.0"
}

# venv PATH: a virtual environment, to which `wheel` adds
venv() {
  site=$1/lib/python3.11/site-packages
  mkdir -p "$site" "$1/bin"
  printf 'home = /usr/bin\nversion = 3.11.2\n' >"$1/pyvenv.cfg"
  printf '#!/bin/sh\n' >"$1/bin/pip"
}

# wheel NAME VERSION [REQUIREMENT...]: a package of the environment
wheel() {
  at=$site/$(echo "$1" | tr - _)-$2.dist-info
  mkdir -p "$at"
  printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "$1" "$2" >"$at/METADATA"
  shift 2
  [ $# = 0 ] || printf 'Requires-Dist: %s\n' "$@" >>"$at/METADATA"
}

# torch_asks [FLAG...]: torch's library asks for the runtime, which is in the environment too
torch_asks() {
  library "$site/nvidia/cuda_runtime/lib/libcudart.so.12" libcudart.so.12
  mkdir -p "$site/torch/lib"
  echo | gcc -shared -x c - -x none -Wl,--no-as-needed "$@" "$site/nvidia/cuda_runtime/lib/libcudart.so.12" -o "$site/torch/lib/libc10_cuda.so"
}
