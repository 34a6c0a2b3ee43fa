//! What the kernel said of GPUs that are themselves sick.

use super::case::{Case, sick, twin};

pub const CASES: &[Case] = &[
    sick(
        "the firmware gave the GPU no room",
        "boots $K
         says 'NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:' 'NVRM: BAR1 is 0M @ 0x0 (PCI:0000:17:00.0)'
         loads $V; bind ''
         says 'NVRM: GPU 0000:17:00.0: RmInitAdapter failed! (0x22:0x56:742)'",
        &["GS901 fail", "GS903 fail < GS901", "GS501 fail < GS901"],
        "GS901: lspci -vv -s 0000:17:00.0",
    ),
    twin(
        "another maker's device without room",
        &["GS901"],
        "says 'pci 0000:03:00.0: BAR 1: no space for [mem size 0x10000000 64bit pref]' \
             'pci 0000:03:00.0: BAR 1: failed to assign [mem size 0x10000000 64bit pref]'",
    ),
    sick(
        "a GPU fell off the bus",
        "says 'NVRM: Xid (PCI:0000:17:00): 79, pid=4242, name=python3, GPU has fallen off the bus.' \
             'NVRM: GPU 0000:17:00.0: GPU has fallen off the bus.' 'NVRM: GPU 0000:17:00.0: GPU serial number is 1320000000000.'",
        &["GS903 fail"],
        "GS903: sudo reboot",
    ),
    sick(
        "the GPU's own firmware no longer answers",
        "says 'NVRM: Xid (PCI:0000:17:00): 119, pid=4242, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU0 GSP!'",
        &["GS903 fail"],
        "GS903: sudo nvidia-smi --gpu-reset",
    ),
    sick(
        "the GPU does not come up",
        "says 'NVRM: GPU 0000:17:00.0: RmInitAdapter failed! (0x62:0x40:1860)' \
             'NVRM: GPU 0000:17:00.0: rm_init_adapter failed, device minor number 0'",
        &["GS903 fail"],
        "GS903: sudo poweroff",
    ),
    sick(
        "a program read where it may not",
        "says 'NVRM: Xid (PCI:0000:17:00): 31, pid=4242, name=python3, Ch 00000008, intr 10000000. MMU Fault: ENGINE GRAPHICS'",
        &["GS903 warn"],
        "GS903: ",
    ),
    sick(
        "the driver is loaded, and the GPU is no longer on the bus",
        "rm -r $bus/*; rm $live/dev/nvidia*",
        &["GS509 warn"],
        "GS509: lspci -d 10de:",
    ),
    sick(
        "an image whose log tells of a fault",
        "rm -r $live
         printf 'Nov 20 10:00:00 node kernel: %s\\n' '[    0.000000] Linux version 6.1.0' \
             '[ 4711.000000] NVRM: Xid (PCI:0000:17:00): 48, pid=1, An uncorrectable double bit error (DBE) has been detected on GPU' \
             >/var/log/kern.log",
        &["GS903 fail"],
        "GS903: ",
    )
    .in_a_tree(),
    twin(
        "a fault before the last boot",
        &["GS903"],
        "rm -r $live
         printf 'Nov 20 10:00:00 node kernel: %s\\n' '[    0.000000] Linux version 6.1.0' \
             '[ 4711.000000] NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off the bus.' \
             '[    0.000000] Linux version 6.1.0' >/var/log/kern.log",
    )
    .in_a_tree(),
    twin(
        "lines that tell of nothing wrong",
        &["GS903", "GS901"],
        "says 'NVRM: Xid (PCI:0000:17:00): 63, pid=1, Row Remapper: New row marked for remapping, reset gpu to activate.' \
             'NVRM: GPU at PCI:0000:17:00: GPU-4bd5f1a0-0000-0000-0000-000000000000' 'NVRM: GPU Board Serial Number: 1320000000000' \
             'nvidia-uvm: Loaded the UVM driver, major device number 234.' 'nouveau: kernel parameter ignored'",
    ),
];
