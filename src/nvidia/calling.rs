//! What a child says before each call of a library, so that whoever waits knows where it hangs.

use std::io::{self, Write};

/// Stands before the name of a function that is about to be called.
pub const CALLING: &str = "calling ";

/// Says what is called next. The line is out before the call is made, which may be the last.
pub fn calling(function: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{CALLING}{function}").and_then(|()| out.flush());
}
