//! SIGINT, SIGTERM and SIGHUP: recorded, and acted on where it is safe to stop. Signals belong to
//! the process, so this is the only module that is not about one host.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

static HEARD: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// From now on the first signal no longer ends the process at once: work in progress checks
/// [`heard`] between two steps. The second one does, so that nobody has to wait for a silent
/// server.
pub fn listen() -> io::Result<()> {
    let again = Arc::new(AtomicBool::new(false));
    // A closed terminal (SIGHUP) means the same as SIGTERM.
    for (signal, means) in [(SIGINT, SIGINT), (SIGTERM, SIGTERM), (SIGHUP, SIGTERM)] {
        let number = usize::try_from(means).map_err(io::Error::other)?;
        flag::register_conditional_shutdown(signal, 128 + means, Arc::clone(&again))?;
        flag::register(signal, Arc::clone(&again))?;
        flag::register_usize(signal, Arc::clone(&HEARD), number)?;
    }
    Ok(())
}

/// The last signal received.
pub fn heard() -> Option<u8> {
    u8::try_from(HEARD.load(Ordering::Relaxed))
        .ok()
        .filter(|signal| *signal != 0)
}
