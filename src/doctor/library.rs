//! Asks a library itself for its version, in a process of its own: a library that is broken, or one of whose parts is
//! missing, may end or hang whoever calls it. The one place with `unsafe`: foreign code cannot be called without it.

use super::Answer;
use crate::system::{Ended, Program, System, chain};
use crate::version::CudnnVersion;
use std::ffi::{CString, c_char};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

/// The hidden subcommand that the child runs.
pub const SUBCOMMAND: &str = "ask-cudnn";

/// What the host's loader and the library `soname` (or the one at a path) answer, by a child.
pub fn cudnn_version(system: &System, soname: &str) -> Answer<CudnnVersion> {
    // Loading reads some hundred megabytes, cold.
    ask_in_child(Path::new("/proc/self/exe"), system, soname, Duration::from_secs(30))
}

/// The same, by this gpusetup and within this time.
pub fn ask_in_child(gpusetup: &Path, system: &System, soname: &str, limit: Duration) -> Answer<CudnnVersion> {
    if !system.is_live() && !rustix::process::geteuid().is_root() {
        return Answer::NotAsked("only root may run something in the tree".to_owned());
    }
    // The child starts elsewhere.
    let root = std::path::absolute(system.root()).unwrap_or_else(|_| system.root().to_owned()).display().to_string();
    let gpusetup = gpusetup.display().to_string();
    let own = [&*gpusetup, SUBCOMMAND, soname].into_iter();
    let tree = ["--root", &root].into_iter().filter(|_| !system.is_live());
    let program = Program::new(own.chain(tree)).limit(limit);
    let output = match System::live().run(&program) {
        Ok(output) => output,
        Err(e) => return Answer::NotAsked(e.to_string()),
    };
    match output.ended {
        Ended::Status(0) => match output.text.trim().parse().ok().and_then(decoded) {
            Some(version) => Answer::Is(version),
            None => Answer::Failed(format!("{soname} gave no version: {}", output.last_lines(1))),
        },
        Ended::Status(CANNOT_ASK) => Answer::NotAsked(output.last_lines(1)),
        Ended::Status(_) => Answer::Failed(output.last_lines(1)),
        ended => Answer::Failed(format!("{soname} ended the process that asked for its version ({ended})")),
    }
}

/// 91002 is 9.10.2, from cuDNN 9 on; before, 8907 is 8.9.7.
fn decoded(number: u32) -> Option<CudnnVersion> {
    let thousands = if number >= 90_000 { 10_000 } else { 1_000 };
    let part = |n: u32| u16::try_from(n).ok();
    let (major, minor, patch) = (part(number / thousands)?, part(number % thousands / 100)?, part(number % 100)?);
    Some(CudnnVersion { major, minor, patch: Some(patch), build: None })
}

/// The exit status of a child that could not get as far as the library.
const CANNOT_ASK: i32 = 3;

/// The child's part: prints `cudnnGetVersion()` of a library, or what the loader has against it. The number is the exit
/// status.
#[allow(clippy::print_stdout, clippy::print_stderr)]
pub fn cudnn_answer(library: &str, root: Option<&Path>) -> u8 {
    if let Some(root) = root {
        let e = enter(root, library);
        eprintln!("cannot run in {}: {e}", root.display());
        return CANNOT_ASK as u8;
    }
    match ask(library) {
        Ok(version) => {
            println!("{version}");
            0
        }
        Err(e) => {
            eprintln!("{}", chain(&e));
            1
        }
    }
}

fn ask(library: &str) -> Result<usize, libloading::Error> {
    // SAFETY: loading runs the library's own code, which is why this is a process of its own, with nothing to lose. The
    // function has been `size_t cudnnGetVersion(void)` in every release.
    unsafe {
        let library = libloading::Library::new(library)?;
        let version = library.get::<unsafe extern "C" fn() -> usize>(b"cudnnGetVersion\0")?;
        Ok(version())
    }
}

/// Goes on as the same program inside the tree, by a file that is open already: everything it then loads, the C library
/// first, is the tree's own. Returns only when that fails.
fn enter(root: &Path, library: &str) -> io::Error {
    match try_enter(root, library) {
        Ok(never) => match never {},
        Err(e) => e,
    }
}

fn try_enter(root: &Path, library: &str) -> io::Result<std::convert::Infallible> {
    let this = File::open("/proc/self/exe")?;
    rustix::process::chroot(root)?;
    rustix::process::chdir("/")?;
    let arguments = ["gpusetup", SUBCOMMAND, library].map(CString::new);
    let [Ok(name), Ok(subcommand), Ok(library)] = arguments else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    let argv: [*const c_char; 4] = [name.as_ptr(), subcommand.as_ptr(), library.as_ptr(), std::ptr::null()];
    let environment: [*const c_char; 1] = [std::ptr::null()];
    // SAFETY: the strings outlive the call, and both lists end with a null.
    unsafe { libc::fexecve(this.as_raw_fd(), argv.as_ptr(), environment.as_ptr()) };
    Err(io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_decoded_as_each_release_codes_them() {
        let text = |n| decoded(n).map(|v| v.to_string());
        assert_eq!(text(91002).as_deref(), Some("9.10.2"));
        assert_eq!(text(92501).as_deref(), Some("9.25.1"));
        assert_eq!(text(8907).as_deref(), Some("8.9.7"));
        assert_eq!(text(7605).as_deref(), Some("7.6.5"));
    }
}
