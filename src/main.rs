//! The program: parse, run, exit.

use std::process::ExitCode;

fn main() -> ExitCode {
    // What is installed is for everybody to read, whatever the umask of the one who installs it.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    ExitCode::from(gpusetup::cli::run(std::env::args_os().collect()))
}
