//! Runs a program of a tree inside the tree. The tree's programs may change the tree, but as little
//! as possible of this machine: they see only their own mounts, processes and shared memory, cannot
//! leave the tree (`pivot_root`, not `chroot`), and have only the capabilities that package
//! managers need. This contains accidents only: the author of the tree must be trusted, because its
//! programs run as root.
//!
//! A new process namespace starts with a child, so two gpusetup processes are involved. `gpusetup
//! enter` creates the namespaces and starts a second process, the first one in them, which moves
//! into the tree and starts the program. Without `CAP_SYS_ADMIN`, as in containers, none of this is
//! possible, and no program is run: out of a plain `chroot` root gets out.

use super::System;
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    unmount,
};
use rustix::process::{chdir, pivot_root};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, capabilities, remove_capability_from_bounding_set,
    set_capabilities, unshare_unsafe,
};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// The hidden subcommand: `enter PLACE ROOT PROGRAM [ARGUMENT]…`.
pub const SUBCOMMAND: &str = "enter";

/// The same for the second process.
const INSIDE: &str = "--inside";

/// The exit status if the program could not be started, as in `chroot`.
const CANNOT_ENTER: u8 = 125;
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The capabilities that package managers, DKMS and initramfs tools need to write files of all
/// owners and to run scripts as other users. Excluded: devices (`CAP_MKNOD`), mounts, kernel
/// modules, tracing, the clock, network settings.
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

/// The highest capability number that a kernel may have.
const CAPABILITIES: u32 = 64;

/// Whether this process is gpusetup itself, whose executable handles [`SUBCOMMAND`]. A test that
/// links the library is not.
static ANSWERS: AtomicBool = AtomicBool::new(false);

/// Declares that this process's executable handles [`SUBCOMMAND`].
pub fn answers() {
    ANSWERS.store(true, Ordering::Relaxed);
}

/// The command that runs `argv` in the tree whose root is open as `place`.
pub(super) fn command(
    place: BorrowedFd,
    root: &Path,
    argv: &[String],
) -> (&'static str, Vec<OsString>) {
    let argv = argv.iter().map(OsString::from);
    if !ANSWERS.load(Ordering::Relaxed) {
        return (
            "/usr/sbin/chroot",
            std::iter::once(root.into()).chain(argv).collect(),
        );
    }
    // Through this process's descriptor: it is this directory, whatever the root's path refers to
    // by then.
    let place = format!("/proc/{}/fd/{}", std::process::id(), place.as_raw_fd());
    let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
    (
        "/proc/self/exe",
        [SUBCOMMAND.into(), place.into(), root.into()]
            .into_iter()
            .chain(argv)
            .collect(),
    )
}

/// Whether programs can be run in this tree, by moving into it and running none.
///
/// # Errors
///
/// With the reason if they cannot.
pub fn check(on: &System) -> io::Result<()> {
    if on.is_live() || !ANSWERS.load(Ordering::Relaxed) {
        return Ok(());
    }
    let (program, arguments) = command(on.place()?, on.root(), &[]);
    let output = Command::new(program)
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .output()?;
    if output.status.code() == Some(CANNOT_RUN.into()) {
        return Ok(());
    }
    Err(io::Error::other(
        String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    ))
}

/// Runs the subcommand. Returns the exit status of the program, or one that means it was not run.
#[allow(clippy::print_stderr)]
pub fn run(arguments: &[OsString]) -> u8 {
    let (inside, arguments) = match arguments.split_first() {
        Some((first, rest)) if first == INSIDE => (true, rest),
        _ => (false, arguments),
    };
    let [place, root, argv @ ..] = arguments else {
        return CANNOT_ENTER;
    };
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
    let held = openat(
        CWD,
        place,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    // SAFETY: it must not detach the descriptor table from other threads; that is not among the
    // flags, and there is no other thread.
    let unshared = unsafe {
        unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC)
    };
    unshared.map_err(|e| {
        io::Error::other(format!(
            "the namespaces that contain it cannot be made ({e})"
        ))
    })?;
    // Not inherited: an open directory outside the tree would let the program escape.
    let place = format!("/proc/{}/fd/{}", std::process::id(), held.as_raw_fd());
    let mut second = Command::new("/proc/self/exe");
    second
        .arg(SUBCOMMAND)
        .arg(INSIDE)
        .arg(place)
        .arg(root)
        .args(argv);
    Ok(code(second.status()?))
}

/// Moves into the tree, as the first process of the namespaces.
fn move_in(place: &Path, root: &Path) -> io::Result<()> {
    let held = openat(
        CWD,
        place,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    // Later mounts are not visible outside.
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    // Only a mount can become the root. The descriptor belongs to the old namespace, and nothing of
    // that can be mounted here.
    mount_bind_recursive(root, root)?;
    chdir(root)?;
    is_still(&held)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")?;
    // The /proc of the new namespace; any that the tree has mounted shows this machine's processes.
    // A tree without the directory, or a container that hides parts of it, does without.
    let _ = mount(
        "proc",
        "/proc",
        "proc",
        MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
        None,
    );
    drop_capabilities()
}

/// Whether the working directory is the one that was held open: its path may lead to another one by
/// now.
fn is_still(held: &OwnedFd) -> io::Result<()> {
    let here = openat(
        CWD,
        ".",
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let (here, held) = (fstat(here)?, fstat(held)?);
    if (here.st_dev, here.st_ino) == (held.st_dev, held.st_ino) {
        return Ok(());
    }
    Err(io::Error::other("it was replaced by another directory"))
}

fn drop_capabilities() -> io::Result<()> {
    let all = (0..CAPABILITIES).map(|n| CapabilitySet::from_bits_retain(1 << n));
    for capability in all.filter(|capability| !KEPT.contains(*capability)) {
        match remove_capability_from_bounding_set(capability) {
            // Unknown to this kernel, or this process may not drop it any more.
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

/// Runs the program; the root is already the tree's.
#[allow(clippy::print_stderr)]
fn program(argv: &[OsString]) -> u8 {
    let Some((program, arguments)) = argv.split_first() else {
        return CANNOT_RUN;
    };
    // systemctl concludes from process 1 whether systemd runs, and here process 1 is gpusetup
    // itself.
    match Command::new(program)
        .args(arguments)
        .env("SYSTEMD_OFFLINE", "1")
        .status()
    {
        Ok(status) => code(status),
        Err(e) => {
            eprintln!("{}: {e}", program.display());
            if e.kind() == io::ErrorKind::NotFound {
                NOT_FOUND
            } else {
                CANNOT_RUN
            }
        }
    }
}

/// A program's status in shell notation: the signal itself cannot be passed on out of the
/// namespace.
fn code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(CANNOT_RUN)
}
