//! Kernels: their headers, their compiler, their modules, their initramfs, and who takes the GPU
//! first.

use super::case::{Case, Stage, sick, twin};

pub const CASES: &[Case] = &[
    // GS101: headers.
    sick(
        "the headers were removed, and the module is still there",
        "dpkg -r --force-depends linux-headers-$K >&2",
        &["GS101 warn"],
        "GS101: sudo apt-get install --reinstall linux-headers-KERNEL",
    ),
    sick(
        "the headers' common half is gone",
        "rm -r /usr/src/linux-headers-*-common",
        &["GS101 warn"],
        "GS101: sudo apt-get install --reinstall linux-headers-KERNEL",
    ),
    sick(
        "a new kernel without headers, so without a module",
        "kernel 6.1.0-99-amd64; rm /lib/modules/6.1.0-99-amd64/build
         dkms autoinstall -k 6.1.0-99-amd64 >&2 || true
         boots 6.1.0-99-amd64; bind ''",
        &["GS101 fail", "GS104 fail < GS101", "GS501 fail < GS104"],
        "GS101: sudo apt-get install --reinstall linux-headers-KERNEL",
    ),
    twin(
        "modules that came built need no headers",
        &["GS101", "GS102"],
        "rm -r /var/lib/dkms; dpkg -r --force-depends linux-headers-$K >&2
         mv /usr/bin/x86_64-linux-gnu-gcc-12 /usr/bin/gcc-11; rm /usr/bin/gcc-12; ln -sf gcc-11 /usr/bin/gcc",
    ),
    twin("an old kernel that will not boot has no headers", &["GS101"], "kernel 6.1.0-9-amd64; rm /lib/modules/6.1.0-9-amd64/build
         mkdir -p /lib/modules/6.1.0-9-amd64/updates/dkms; cp $dkms/nvidia-current-peermem.ko /lib/modules/6.1.0-9-amd64/updates/dkms/
         module /lib/modules/6.1.0-9-amd64/updates/dkms/nvidia-current.ko $V NVIDIA"),
    // GS102: the kernel's compiler.
    sick(
        "another gcc in place of the kernel's",
        "mv /usr/bin/x86_64-linux-gnu-gcc-12 /usr/bin/gcc-11; rm /usr/bin/gcc-12; ln -sf gcc-11 /usr/bin/gcc",
        &["GS102 warn"],
        "GS102: sudo apt-get install --reinstall gcc-12",
    ),
    sick(
        "no gcc when DKMS had to build",
        "rm /usr/bin/x86_64-linux-gnu-gcc-12 /usr/bin/gcc-12 /usr/bin/gcc
         dkms build --force nvidia-current/$V -k $K >&2 || true
         rm -r $dkms; depmod $K; boots $K; bind ''",
        &["GS102 fail", "GS104 fail < GS102", "GS501 fail < GS104", "GS705 fail < GS102"],
        "GS102: sudo apt-get install --reinstall gcc-12",
    ),
    twin(
        "the kernel's gcc beside a newer one",
        &["GS102", "GS705"],
        "cp /usr/bin/x86_64-linux-gnu-gcc-12 /usr/bin/gcc-13; ln -sf gcc-13 /usr/bin/gcc",
    ),
    // GS106: one tree of modules.
    sick("two trees of NVIDIA's modules", "dkms_source nvidia 550.54.15", &["GS106 warn"], "GS106: dkms status"),
    sick("both flavours' trees", "dkms_source nvidia-current-open $V", &["GS106 warn"], "GS106: dkms status"),
    twin(
        "GPUDirect Storage's module, and a camera's",
        &["GS106"],
        "dkms_source nvidia-fs 2.20.6; dkms_source v4l2loopback 0.12.7",
    ),
    // GS603: the package manager and /boot.
    sick(
        "a package whose configuration fails",
        "package halfway 1.0 'exit 1'; dpkg -i /root/halfway.deb >&2 || true",
        &["GS603 fail"],
        "GS603: --configure -a",
    ),
    sick(
        "a package that was unpacked when the power went",
        "package unpacked 1.0 'exit 0'; dpkg --unpack /root/unpacked.deb >&2",
        &["GS603 fail"],
        "GS603: --configure -a",
    ),
    sick(
        "no room in /boot for another initramfs",
        "mkdir /root/boot; mv /boot/* /root/boot; used=$(du -sk /root/boot | cut -f 1)
         mount -t tmpfs -o size=$((used + $(stat -c %s /root/boot/initrd.img-$K) / 2048))k boot /boot; mv /root/boot/* /boot",
        &["GS603 warn"],
        "GS603: sudo apt-get autoremove --purge",
    ),
    twin(
        "a small /boot with room enough",
        &["GS603"],
        "mkdir /root/boot; mv /boot/* /root/boot; mount -t tmpfs -o size=200m boot /boot; mv /root/boot/* /boot",
    ),
    twin(
        "packages on hold, and one of which only the configuration is left",
        &["GS603"],
        "apt-mark hold libcuda1 linux-image-$K >&2
         package gone 1.0 'exit 0'; mkdir -p /root/gone/etc; echo 1 >/root/gone/etc/gone.conf
         echo /etc/gone.conf >/root/gone/DEBIAN/conffiles; dpkg-deb -b /root/gone /root/gone.deb >&2
         dpkg -i /root/gone.deb >&2; dpkg -r gone >&2; dpkg-query -W -f '${Status}' gone | grep config-files",
    ),
    // GS608: what was not read.
    sick(
        "a configuration that is too long to be one",
        "truncate -s 2M /etc/modprobe.d/own.conf",
        &["GS608 warn"],
        "GS608: sudo ls -lS /etc/modprobe.d/own.conf",
    ),
    twin(
        "a long configuration, and many lists of files",
        &["GS608"],
        "yes '# nothing' | head -c 1000000 >/etc/modprobe.d/own.conf
         for n in $(seq 2000); do echo /nothing >/var/lib/dpkg/info/nothing-$n.list; done",
    ),
    // GS104: every kernel's module.
    sick(
        "the module is gone from under the running kernel",
        "rm -r $dkms; depmod $K",
        &["GS104 fail"],
        "GS104: -k KERNEL",
    ),
    sick(
        "a kernel update later DKMS had not run",
        "kernel 6.1.0-99-amd64; boots 6.1.0-99-amd64; bind ''",
        &["GS104 fail", "GS501 fail < GS104"],
        "GS104: -k KERNEL",
    ),
    sick(
        "a source that the compiler does not take",
        "rm -r $dkms; depmod $K; cd /usr/src/nvidia-current-$V
         sed -i '1i #error struct vm_area_struct has no member named vm_flags' nvidia/nv.c
         printf 'modules:\\n\\tgcc -fsyntax-only nvidia/nv.c\\n' >Makefile
         dkms build --force nvidia-current/$V -k $K >&2 || true
         grep 'error: #error struct' /var/lib/dkms/nvidia-current/$V/build/make.log >&2
         boots $K; bind ''",
        &["GS104 fail", "GS501 fail < GS104"],
        "GS104: gpusetup plan",
    ),
    sick(
        "the module of an earlier driver",
        "module $dkms/nvidia-current.ko 535.247.01 NVIDIA; depmod $K",
        &["GS104 fail"],
        "GS104: -k KERNEL",
    ),
    sick("an old kernel has no module", "kernel 6.1.0-9-amd64", &["GS104 warn"], "GS104: -k 6.1.0-9"),
    twin(
        "what a kernel left behind that is gone",
        &["GS104", "GS101"],
        "mkdir -p /lib/modules/6.1.0-99-amd64/updates/dkms; cp $dkms/nvidia-current-peermem.ko /lib/modules/6.1.0-99-amd64/updates/dkms/",
    ),
    twin(
        "modules that came packed",
        &["GS104"],
        "module $dkms/nvidia-current.ko $V NVIDIA; xz $dkms/nvidia-current.ko $dkms/nvidia-current-peermem.ko; depmod $K",
    ),
    // GS201, GS202: rivals.
    sick(
        "the initramfs has nouveau, made before it was kept out",
        "",
        &["GS201 fail"],
        "GS201: sudo update-initramfs -u -k KERNEL",
    )
    .on(Stage::Nouveau),
    sick(
        "nouveau took the GPU out of the initramfs",
        "boots $K; bind nouveau; echo 'nouveau 2510848 1 - Live 0x0' >>$live/proc/modules",
        &["GS201 fail", "GS501 fail < GS201"],
        "GS201: sudo update-initramfs -u -k KERNEL",
    )
    .on(Stage::Nouveau),
    sick(
        "nothing keeps nouveau out",
        "no_denials; boots $K; bind nouveau; echo 'nouveau 2510848 1 - Live 0x0' >>$live/proc/modules",
        &["GS201 fail", "GS501 fail < GS201"],
        "GS201: /etc/modprobe.d/gpusetup-nouveau.conf",
    ),
    sick(
        "installed, and not booted since",
        "boots $K; bind nouveau; echo 'nouveau 2510848 1 - Live 0x0' >>$live/proc/modules",
        &["GS201 fail", "GS501 fail < GS201"],
        "GS201: sudo reboot",
    ),
    sick(
        "an old kernel's initramfs has nouveau",
        "kernel 6.1.0-9-amd64; mkdir -p /lib/modules/6.1.0-9-amd64/updates/dkms
         module /lib/modules/6.1.0-9-amd64/updates/dkms/nvidia-current.ko $V NVIDIA
         rm /etc/initramfs-tools/hooks/splash; update-initramfs -u -k $K >&2",
        &["GS201 warn"],
        "GS201: sudo update-initramfs -u -k 6.1.0-9",
    )
    .on(Stage::Nouveau),
    sick(
        "a tree whose initramfs has nouveau",
        "rm -r $live",
        &["GS201 fail"],
        "GS201: sudo update-initramfs -u -k KERNEL",
    )
    .on(Stage::Nouveau)
    .in_a_tree(),
    sick(
        "nouveau is loaded by its name, whatever keeps it out",
        "echo nouveau >>/etc/initramfs-tools/modules; update-initramfs -u -k $K >&2",
        &["GS201 fail"],
        "GS201: /etc/initramfs-tools/modules",
    ),
    twin(
        "a remark on nouveau among the modules to be loaded",
        &["GS201"],
        "echo '# nouveau' >>/etc/initramfs-tools/modules; update-initramfs -u -k $K >&2",
    ),
    twin("a splash screen's nouveau, kept out in there", &["GS201", "GS202"], "").on(Stage::Splash),
    twin(
        "the command line keeps nouveau out",
        &["GS201"],
        "echo \"$(cat $live/proc/cmdline) modprobe.blacklist=nouveau\" >$live/proc/cmdline",
    )
    .on(Stage::Nouveau),
    twin(
        "nouveau drives another's GPU, and NVIDIA's has its own",
        &["GS201", "GS202"],
        "another 0000:00:02.0 8086 9bc4 030000; bind i915 $bus/0000:00:02.0",
    ),
    sick(
        "the initramfs has nova",
        "",
        &["GS202 fail"],
        "GS202: sudo update-initramfs -u -k KERNEL",
    )
    .on(Stage::Nova),
    sick(
        "nova took the GPU",
        "boots $K; bind nova_core; echo 'nova_core 61440 0 - Live 0x0' >>$live/proc/modules
         says 'NVRM: GPU 0000:17:00.0 is already bound to NovaCore.' \
             'NVRM: The NVIDIA probe routine was not called for 1 device(s).'",
        &["GS202 fail", "GS501 fail < GS202"],
        "GS202: sudo reboot",
    ),
    twin(
        "the command line keeps nova out",
        &["GS202"],
        "echo \"$(cat $live/proc/cmdline) module_blacklist=nova_core,nova_drm\" >$live/proc/cmdline",
    )
    .on(Stage::Nova),
];
