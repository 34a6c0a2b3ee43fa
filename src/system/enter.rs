//! Running a program of a tree, in the tree. The tree's own programs do what they like to it, and as little as possible to
//! this machine: they see no other mounts, processes and shared memory than their own, cannot leave the tree (`pivot_root`, not
//! `chroot`), and have only the capabilities that package managers need. That keeps accidents in; whoever wrote the tree is
//! trusted all the same, because its programs run as root.
//!
//! A new process namespace begins with a child, so there are two processes of gpusetup in between: `gpusetup enter` makes the
//! namespaces and starts a second one, which is their first process, moves into the tree and starts the program. A container
//! without `CAP_SYS_ADMIN` allows none of this; there it is a plain `chroot`.

use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change, unmount,
};
use rustix::process::{chdir, chroot, fchdir, pivot_root};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, capabilities, remove_capability_from_bounding_set, set_capabilities,
    unshare_unsafe,
};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};

/// The hidden subcommand: `enter PLACE ROOT PROGRAM [ARGUMENT]…`.
pub const SUBCOMMAND: &str = "enter";

/// The same for the second process.
const INSIDE: &str = "--inside";

/// What a process ends with that could not start another: as `chroot` has it.
const CANNOT_ENTER: u8 = 125;
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// What package managers, DKMS and tools for an initramfs need to write files of all owners and to run scripts as other users.
/// Not among them: devices (`CAP_MKNOD`), mounts, kernel modules, tracing, the clock, the network's settings.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::AUDIT_WRITE);

/// The highest number of a capability that a kernel may have.
const CAPABILITIES: u32 = 64;

/// Whether this process is gpusetup itself, whose own file answers to [`SUBCOMMAND`]. A test that links the library is not.
static ANSWERS: AtomicBool = AtomicBool::new(false);

/// Says that this process's file answers to [`SUBCOMMAND`].
pub fn answers() {
    ANSWERS.store(true, Ordering::Relaxed);
}

/// The command that runs `argv` in the tree whose root is open as `place`.
pub(super) fn command(place: BorrowedFd, root: &Path, argv: &[String]) -> (&'static str, Vec<OsString>) {
    let argv = argv.iter().map(OsString::from);
    if !ANSWERS.load(Ordering::Relaxed) {
        return ("/usr/sbin/chroot", std::iter::once(root.into()).chain(argv).collect());
    }
    // By the descriptor of this process: whatever the root's path leads to by then, it is this directory.
    let place = format!("/proc/{}/fd/{}", std::process::id(), place.as_raw_fd());
    let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
    ("/proc/self/exe", [SUBCOMMAND.into(), place.into(), root.into()].into_iter().chain(argv).collect())
}

/// What the subcommand does; returns the exit status of the program, or one that says why it was not run.
#[allow(clippy::print_stderr)]
pub fn run(arguments: &[OsString]) -> u8 {
    let (inside, arguments) = match arguments.split_first() {
        Some((first, rest)) if first == INSIDE => (true, rest),
        _ => (false, arguments),
    };
    let [place, root, argv @ ..] = arguments else { return CANNOT_ENTER };
    let entered = match inside {
        false => enter(Path::new(place), Path::new(root), argv),
        true => move_in(Path::new(place), Path::new(root)).map(|()| program(argv)),
    };
    entered.unwrap_or_else(|e| {
        eprintln!("cannot run a program in {}: {e}", root.display());
        CANNOT_ENTER
    })
}

fn enter(place: &Path, root: &Path, argv: &[OsString]) -> io::Result<u8> {
    let held = openat(CWD, place, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: it must not take the table of descriptors away from other threads; that is not among the flags, and there is
    // no other thread.
    let unshared = unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC) };
    match unshared {
        Err(Errno::PERM | Errno::NOSYS | Errno::INVAL | Errno::NOSPC) => {
            fchdir(&held)?;
            chroot(".")?;
            chdir("/")?;
            drop_capabilities()?;
            return Ok(program(argv));
        }
        unshared => unshared?,
    }
    // Not inherited: a directory outside of the tree that the program has open would be a way out.
    let place = format!("/proc/{}/fd/{}", std::process::id(), held.as_raw_fd());
    let mut second = Command::new("/proc/self/exe");
    second.arg(SUBCOMMAND).arg(INSIDE).arg(place).arg(root).args(argv);
    Ok(code(second.status()?))
}

/// Moves into the tree, as the first process of the namespaces.
fn move_in(place: &Path, root: &Path) -> io::Result<()> {
    let held = openat(CWD, place, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    // Nothing that is mounted from here on is seen outside.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    // Only a mount can become the root. The descriptor is of the old namespace, and nothing of that can be mounted here.
    mount_bind_recursive(root, root)?;
    chdir(root)?;
    is_still(&held)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")?;
    // The processes of the new namespace; what the tree has mounted there are all of this machine's. A tree without the
    // directory, or a container that hides parts of it, does without.
    let _ = mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None);
    drop_capabilities()
}

/// Whether the working directory is the one that was held open: its path may have been given to another.
fn is_still(held: &OwnedFd) -> io::Result<()> {
    let here = openat(CWD, ".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let (here, held) = (fstat(here)?, fstat(held)?);
    if (here.st_dev, here.st_ino) == (held.st_dev, held.st_ino) {
        return Ok(());
    }
    Err(io::Error::other("another directory has taken its place"))
}

fn drop_capabilities() -> io::Result<()> {
    let all = (0..CAPABILITIES).map(|n| CapabilitySet::from_bits_retain(1 << n));
    for capability in all.filter(|capability| !KEPT.contains(*capability)) {
        match remove_capability_from_bounding_set(capability) {
            // One that this kernel does not know, or nothing that this process may still drop.
            Err(Errno::INVAL | Errno::PERM) => {}
            removed => removed?,
        }
    }
    let has = capabilities(None)?;
    let kept = CapabilitySets {
        effective: has.effective & KEPT,
        permitted: has.permitted & KEPT,
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, kept)?)
}

/// Runs the program, now that the root is the tree's.
#[allow(clippy::print_stderr)]
fn program(argv: &[OsString]) -> u8 {
    let Some((program, arguments)) = argv.split_first() else { return CANNOT_RUN };
    // systemctl tells by process 1 whether systemd runs, and process 1 is gpusetup's own here.
    match Command::new(program).args(arguments).env("SYSTEMD_OFFLINE", "1").status() {
        Ok(status) => code(status),
        Err(e) => {
            eprintln!("{}: {e}", program.display());
            if e.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN }
        }
    }
}

/// A program's status, as shells have it: behind a namespace its signal cannot be passed on.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(CANNOT_RUN)
}
