//! Hosts with several illnesses: what counts is which is to be fixed first.

use super::case::Several;

/// What befell a host, in the order in which it did.
const fn several(
    what: &'static str,
    of: &'static [&'static str],
    found: &'static [&'static str],
    first: &'static str,
) -> Several {
    Several {
        what,
        of,
        script: "",
        found,
        first,
    }
}

impl Several {
    /// And then this.
    const fn then(mut self, script: &'static str) -> Self {
        self.script = script;
        self
    }
}

pub const CASES: &[Several] = &[
    several(
        "nouveau in the initramfs, and no link to the toolkit",
        &[
            "the link to the default toolkit is gone",
            "nouveau took the GPU out of the initramfs",
        ],
        &[
            "GS201 fail",
            "GS501 fail < GS201",
            "GS701 fail",
            "GS708 fail < GS701",
            "GS703 fail < GS708",
        ],
        "GS201: sudo update-initramfs -u -k KERNEL",
    ),
    several(
        "a new kernel without headers, and nouveau in its initramfs",
        &[
            "the initramfs has nouveau, made before it was kept out",
            "a new kernel without headers, so without a module",
        ],
        &[
            "GS101 fail",
            "GS104 fail < GS101",
            "GS201 fail",
            "GS501 fail < GS104",
        ],
        "GS101: sudo apt-get install --reinstall linux-headers-KERNEL",
    )
    .then("bind nouveau"),
    several(
        "no headers, and a package manager that was cut off: it can install none",
        &[
            "a package whose configuration fails",
            "a new kernel without headers, so without a module",
        ],
        &[
            "GS603 fail",
            "GS101 fail",
            "GS104 fail < GS101",
            "GS501 fail < GS104",
        ],
        "GS603: --configure -a",
    ),
    several(
        "an initramfs with nouveau that there is no room to rebuild",
        &[
            "nouveau took the GPU out of the initramfs",
            "no room in /boot for another initramfs",
        ],
        &["GS603 fail", "GS201 fail < GS603", "GS501 fail < GS201"],
        "GS603: sudo apt-get autoremove --purge",
    ),
    several(
        "a runfile over the packages, and nouveau in the initramfs",
        &[
            "nouveau took the GPU out of the initramfs",
            "a runfile's driver over the packages'",
        ],
        &[
            "GS401 fail",
            "GS104 fail < GS401",
            "GS201 fail",
            "GS501 fail < GS104",
        ],
        "GS401: sudo nvidia-uninstall",
    ),
    several(
        "a driver that neither knows the GPU nor is signed",
        &[
            "Secure Boot, and a module that nobody signed",
            "a B200 is younger than its driver",
        ],
        &[
            "GS503 fail",
            "GS504 fail < GS503",
            "GS301 fail",
            "GS501 fail < GS503",
            "GS709 fail < GS503",
        ],
        "GS503: gpusetup plan",
    ),
    several(
        "a module that nobody signed, and nouveau until the next boot",
        &[
            "Secure Boot, and a module that nobody signed",
            "installed, and not booted since",
        ],
        &["GS301 fail", "GS201 fail", "GS501 fail < GS201"],
        "GS301: sudo mokutil --import",
    ),
    several(
        "libraries updated, the module not built, and not booted since",
        &[
            "the libraries were updated, and nobody has booted since",
            "the module of an earlier driver",
        ],
        &["GS104 fail", "GS501 fail < GS104"],
        "GS104: -k KERNEL",
    ),
    several(
        "the last of two DKMS trees won, and it is another driver's",
        &[
            "two trees of NVIDIA's modules",
            "the module of an earlier driver",
        ],
        &["GS106 fail", "GS104 fail < GS106"],
        "GS106: dkms status",
    ),
    several(
        "a power cut in the middle of an update of the driver",
        &[
            "a package that was unpacked when the power went",
            "an update of the packages that came half the way",
            "the module of an earlier driver",
        ],
        &["GS603 fail", "GS401 fail < GS603", "GS104 fail < GS603"],
        "GS603: --configure -a",
    ),
    several(
        "NVSwitches, and a kernel for which nothing was built",
        &[
            "a Fabric Manager that does not run",
            "a kernel update later DKMS had not run",
        ],
        &["GS104 fail", "GS501 fail < GS104", "GS801 fail < GS501"],
        "GS104: -k KERNEL",
    ),
    several(
        "Fabric Manager of the driver before, and the driver before still loaded",
        &[
            "a Fabric Manager of another version",
            "the libraries were updated, and nobody has booted since",
        ],
        &["GS501 fail", "GS801 fail"],
        "GS501: sudo reboot",
    ),
    several(
        "no headers, and two files that keep apt from reading any list",
        &[
            "one repository in two files, each with another key",
            "a new kernel without headers, so without a module",
        ],
        &[
            "GS404 fail",
            "GS101 fail",
            "GS104 fail < GS101",
            "GS501 fail < GS104",
        ],
        "GS404: grep -n",
    ),
    several(
        "an update that waits for a reboot, and containers that know the driver before",
        &[
            "the description of GPUs for containers is of the driver before",
            "the libraries were updated, and nobody has booted since",
        ],
        &["GS501 fail", "GS803 fail"],
        "GS501: sudo reboot",
    ),
    several(
        "a GPU off the bus, and a profile that misleads programs",
        &[
            "a GPU fell off the bus",
            "a profile that sets LD_LIBRARY_PATH for all",
            "an older cuDNN stands before the toolkit's",
        ],
        &["GS903 fail", "GS704 warn", "GS703 fail"],
        "GS903: sudo reboot",
    ),
    several(
        "no room for the GPU's memory, and no nvidia-smi to see it",
        &[
            "the firmware gave the GPU no room",
            "nvidia-smi was not installed along",
        ],
        &[
            "GS901 fail",
            "GS903 fail < GS901",
            "GS501 fail < GS901",
            "GS407 fail",
        ],
        "GS901: lspci -vv -s 0000:17:00.0",
    ),
    several(
        "the wrong flavour, and headers that are missing for the next build",
        &[
            "the headers were removed, and the module is still there",
            "a GH200 under proprietary modules",
        ],
        &["GS101 warn", "GS504 fail", "GS501 fail < GS504"],
        "GS504: gpusetup plan --modules open",
    ),
    several(
        "no compiler for the kernel's module, and an old kernel without one",
        &[
            "an old kernel has no module",
            "no gcc when DKMS had to build",
        ],
        &[
            "GS102 fail",
            "GS104 fail < GS102",
            "GS501 fail < GS104",
            "GS705 fail < GS102",
        ],
        "GS102: sudo apt-get install --reinstall gcc-12",
    ),
    several(
        "copies in place of links, and an older cuDNN before them",
        &[
            "copies in place of links, as cp without -P makes them",
            "an older cuDNN stands before the toolkit's",
        ],
        &["GS702 fail", "GS703 fail"],
        "GS702: sudo ln -s",
    ),
    several(
        "no loader's cache, and a gcc that nvcc does not take",
        &[
            "there is no loader's cache",
            "a gcc that nvcc does not take",
            "login shells do not find nvcc",
        ],
        &[
            "GS705 fail",
            "GS701 fail",
            "GS708 fail",
            "GS703 fail < GS708",
        ],
        "GS705: sudo ln -sfn /usr/bin/gcc-",
    ),
    several(
        "one GPU of two for a virtual machine, and the other's libraries hidden",
        &[
            "one of two GPUs is held for a virtual machine",
            "the linker's stub stands where the driver's libcuda belongs",
        ],
        &["GS203 warn", "GS507 fail"],
        "GS507: grep -rn",
    ),
    several(
        "warnings only: the first is what stops the next update",
        &[
            "a program read where it may not",
            "the headers were removed, and the module is still there",
            "LD_LIBRARY_PATH in the environment of every login",
        ],
        &["GS101 warn", "GS903 warn", "GS704 warn"],
        "GS101: sudo apt-get install --reinstall linux-headers-KERNEL",
    ),
    several(
        "all at once",
        &[
            "copies in place of links, as cp without -P makes them",
            "a profile leads every program to the stubs",
            "the default toolkit is one that was removed",
            "nvidia-smi leads nowhere",
            "an update of the packages that came half the way",
            "a package whose configuration fails",
            "nouveau took the GPU out of the initramfs",
        ],
        &[
            "GS603 fail",
            "GS401 fail < GS603",
            "GS201 fail < GS603",
            "GS501 fail < GS201",
            "GS407 fail < GS603",
            "GS507 fail",
            "GS701 fail",
            "GS702 fail",
        ],
        "GS603: --configure -a",
    ),
];
