//! A test build can be made to die, as by SIGKILL, at its n-th change of the outside world
//! (`GPUSETUP_DIE_AT=n`). A test that does so for every n covers every point where power could
//! fail. Other builds cannot do this.

/// A point where gpusetup may be cut off: right before a change, or in the middle of one. Right
/// after a change is right before the next.
#[cfg(feature = "test-hooks")]
pub(crate) fn point() {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static AT: LazyLock<Option<u64>> =
        LazyLock::new(|| super::hooks::env_override("GPUSETUP_DIE_AT")?.parse().ok());
    static TOUCHES: AtomicU64 = AtomicU64::new(0);
    if let Some(at) = *AT
        && TOUCHES.fetch_add(1, Ordering::Relaxed) + 1 == at
    {
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Does nothing.
#[cfg(not(feature = "test-hooks"))]
pub fn point() {}
