//! The program: parse, run, exit.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(gpusetup::cli::run(std::env::args_os().collect()))
}
