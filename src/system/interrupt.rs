//! SIGINT, SIGTERM and SIGHUP: heard, remembered, and acted on where it is safe to stop. A process has one set of signals, so
//! this is the one thing here that is no host's own.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

static HEARD: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// From now on these signals no longer end the process at once: whoever works asks [`heard`] between two touches. The
/// second one does: nobody is to wait for a server that says nothing.
pub fn listen() -> io::Result<()> {
    let again = Arc::new(AtomicBool::new(false));
    // A terminal that went away asks for the same as SIGTERM does.
    for (signal, means) in [(SIGINT, SIGINT), (SIGTERM, SIGTERM), (SIGHUP, SIGTERM)] {
        let number = usize::try_from(means).map_err(io::Error::other)?;
        flag::register_conditional_shutdown(signal, 128 + means, Arc::clone(&again))?;
        flag::register(signal, Arc::clone(&again))?;
        flag::register_usize(signal, Arc::clone(&HEARD), number)?;
    }
    Ok(())
}

/// The last signal heard.
pub fn heard() -> Option<u8> {
    u8::try_from(HEARD.load(Ordering::Relaxed)).ok().filter(|signal| *signal != 0)
}
