//! The program: parse, run, exit.

use gpusetup::system::{enter, keep_inherited_files_from_children};
use std::process::ExitCode;

/// A plan is many short texts: it takes a third less time than with the C library's allocator
/// (`cargo bench --bench fleet`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // What is installed is for everybody to read, whatever the umask of the one who installs it.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let arguments: Vec<_> = std::env::args_os().collect();
    if arguments
        .get(1)
        .is_some_and(|verb| verb == enter::SUBCOMMAND)
    {
        return ExitCode::from(enter::run(&arguments[2..]));
    }
    enter::answers();
    keep_inherited_files_from_children();
    ExitCode::from(gpusetup::cli::run(arguments))
}
