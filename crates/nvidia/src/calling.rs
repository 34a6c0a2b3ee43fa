//! The line that a child prints before each call of a library, so that the parent knows where it
//! hangs.

use std::io::{self, Write};

/// The prefix before the name of a function that is about to be called.
pub(crate) const CALLING: &str = "calling ";

/// Prints the next call. The line is flushed before the call, which may never return.
pub(crate) fn calling(function: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{CALLING}{function}").and_then(|()| out.flush());
}
