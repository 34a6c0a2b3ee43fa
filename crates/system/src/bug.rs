//! A bug: what the program does if it panics. Releases cannot unwind, so a panic ends the process,
//! with the exit code of an unexpected error. doctor is many independent parts: it starts again and
//! leaves out the part with the bug.

use super::{environment, hooks};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::panic::{PanicHookInfo, set_hook};
use std::process::{Command, exit};
use std::sync::atomic::{AtomicBool, Ordering};

/// The parts in which earlier starts of this process had a bug, with commas between them.
const LEFT_OUT: &str = "GPUSETUP_LEFT_OUT";

thread_local! {
    static PART: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Whether a bug in a part may start the program again.
static STARTS_AGAIN: AtomicBool = AtomicBool::new(false);

/// From now on, a panic ends the process: `tell` says what happened and returns the exit code.
pub fn ends_the_program(tell: impl Fn(&str) -> u8 + Send + Sync + 'static) {
    set_hook(Box::new(move |panic| {
        if STARTS_AGAIN.load(Ordering::Relaxed)
            && let Some(part) = PART.get()
        {
            start_again_without(part);
        }
        exit(tell(&message(panic)).into());
    }));
}

/// From now on, a bug in a part starts the program again without that part. Only for programs that
/// have printed nothing, changed nothing and read nothing from standard input.
pub fn starts_the_program_again() {
    STARTS_AGAIN.store(true, Ordering::Relaxed);
}

/// The parts to leave out, because they had a bug.
pub fn left_out() -> BTreeSet<String> {
    let parts = environment::variable(LEFT_OUT).unwrap_or_default();
    parts
        .split(',')
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Does the work of a part. A build for tests has a bug in the parts that it is told
/// (`GPUSETUP_BUGS`).
pub fn run_part<T>(part: &'static str, work: impl FnOnce() -> T) -> T {
    let outer = PART.replace(Some(part));
    let has_bug = |names: String| names.split(',').any(|name| name == part);
    assert!(
        !hooks::env_override("GPUSETUP_BUGS").is_some_and(has_bug),
        "as the test wants it"
    );
    let done = work();
    PART.set(outer);
    done
}

/// The part that this thread is in. A thread that it starts tells it to [`join_part`].
pub(crate) fn part() -> Option<&'static str> {
    PART.get()
}

/// Makes this thread work for the part of the thread that started it.
pub(crate) fn join_part(part: Option<&'static str>) {
    PART.set(part);
}

/// Replaces this process; returns if that fails.
fn start_again_without(part: &str) {
    let mut parts = left_out();
    // A bug outside of the part's own work would come again.
    if !parts.insert(part.to_owned()) {
        return;
    }
    let parts: Vec<_> = parts.into_iter().collect();
    let mut arguments = std::env::args_os();
    let name = arguments
        .next()
        .unwrap_or_else(|| OsString::from("gpusetup"));
    let _ = Command::new("/proc/self/exe")
        .arg0(name)
        .args(arguments)
        .env(LEFT_OUT, parts.join(","))
        .exec();
}

/// What panicked, and where.
fn message(panic: &PanicHookInfo) -> String {
    let payload = panic.payload();
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| Some(payload.downcast_ref::<String>()?.as_str()));
    let place = panic
        .location()
        .map(|at| format!(" ({}:{})", at.file(), at.line()))
        .unwrap_or_default();
    format!("{}{place}", text.unwrap_or("panicked"))
}
